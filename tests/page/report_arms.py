"""report.html in a browser. usage: report_arms.py APART SAME STEPS PROMPT TABLE: folders of comparisons of three arms that differ,
of two that do not, and of three with their own steps; what the first was to show; the file of what it said on stdout. Exit code 77 is
a skip."""
import json
import os
import sys

from browser import Browser, find

FRAMES, ARMS, FPS = 17, 3, 16
LOADED = "videos.length === 0 || videos.every(v => ready(v) && !v.seeking)"

SPEEDUPS = """[...document.querySelectorAll('tbody tr')].filter(r => r.cells[0].innerText.trim() === 'speed-up')
  .map(r => [...r.cells].slice(1).map(c => c.innerText))"""

# Is the canvas, from column a to b, what the player of an arm shows now?
SAME_PICTURE = """((n, a, b) => {
  const shown = document.querySelector('#swipe canvas'), own = document.createElement('canvas');
  [own.width, own.height] = [shown.width, shown.height];
  own.getContext('2d').drawImage(videos[n], 0, 0, own.width, own.height);
  const of = c => c.getContext('2d').getImageData(a, 0, b - a, c.height).data;
  const x = of(shown), y = of(own);
  return x.every((v, i) => v === y[i]);
})"""


def check(so, *what):
    if not so:
        raise AssertionError(" ".join(map(str, what)))


def text_stays_text(b, prompt):
    check(b.value("document.getElementById('prompt').textContent") == prompt)
    check(b.value("document.querySelectorAll('b, i').length") == 0, "text became elements")
    check(b.value("document.body.innerText.includes('<i>three</i>')"), "an arm has lost its name")


def opens_with_results(b, folder, table):
    """A sentence for each arm but the first: the same in report.json, on the page and on the terminal."""
    with open(f"{folder}/report.json", encoding="utf-8") as f:
        report = json.load(f)
    results = [a.get("result") for a in report["arms"]]
    check(results[0] is None and results[1].startswith("sage: ") and results[1].endswith(" dB to dense"), results)
    check(b.value("[...document.querySelectorAll('h1 + #result p')].map(p => p.textContent)") == results[1:])
    with open(table, encoding="utf-8") as f:
        check(f.read().splitlines()[:ARMS] == results[1:] + [""], "on stdout")
    for a in report["arms"][1:]:
        slow = a["speedup"]["total"]["mean"] is None and a["speedup"]["attention"]["mean"] is None
        check(("not distinguishable in time, " in a["result"].split(" dB")[0] and "as fast" not in a["result"]) == slow, a["result"])
        check(f", {a['psnr']['mean']:.1f} dB to dense" in a["result"], a["result"])


def command_is_copied(b, folder):
    with open(f"{folder}/report.json", encoding="utf-8") as f:
        command = json.load(f)["again"]
    check(command.startswith("sparge-gen compare --prompt 'a red ball </script><b>"), command)
    check(b.value("document.querySelector('#again code').textContent") == command)
    b.value("document.getElementById('copy').focus()")
    b.key("Enter", "\r")
    b.wait("document.querySelector('#again [role=status]').textContent === 'copied'")
    check(b.value("getSelection().toString()") == command, "what is selected, and copied where there is no clipboard for pages")


def differences_are_there(b):
    """Beside each arm what its panel in the clip of all arms shows, and a strip of the frames on the contact sheet."""
    b.value("seek(8)")
    b.wait(LOADED)
    sums = b.value("""[...document.querySelectorAll('canvas.difference')].map((c, k) => {
      const own = document.createElement('canvas'), {width, height} = settings, [x, y] = report.side.differences[k];
      [own.width, own.height] = [width, height];
      own.getContext('2d').drawImage(videos.at(-1), x, y, width, height, 0, 0, width, height);
      const of = e => e.getContext('2d').getImageData(0, 0, width, height).data, a = of(c), b = of(own);
      return a.every((v, i) => v === b[i]) ? a.reduce((n, v, i) => i % 4 === 3 ? n : n + v, 0) / (width * height * 3) : -1;
    })""")
    check(len(sums) == ARMS - 1 and 0 < sums[0] < 64 and sums[1] > 1.5 * sums[0], "differences of sage and of topk=0.3", sums)
    check(b.value("report.gain") == 8 and b.value("[...document.querySelectorAll('.arm figure:last-child figcaption')].slice(1)"
          ".every(c => c.textContent.startsWith('difference \u00d78'))"), "the factor")
    b.value("scrollTo(0, document.body.scrollHeight)")
    b.wait("document.querySelector('img.sheet').complete")
    b.wait("document.querySelectorAll('#strips canvas').length === 2")
    light = [b.brightness(f"#strips figure:nth-child({k}) canvas") for k in (1, 2)]
    check(0 < light[0] < 64 and light[1] > 1.5 * light[0], "strips of differences", light)


def fits_a_phone(b, page):
    b.look(390, 844, "light")
    b.open(page)
    b.wait(LOADED)
    check(not b.wider(390), "out of the screen:", b.wider(390))
    b.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    seen = b.value("[...document.querySelectorAll('.arm video, .arm canvas')].map(e => e.getBoundingClientRect().width)")
    check(len(seen) == 2 * ARMS - 1 and min(seen) > 120, "clips and differences", seen)
    cells = b.value("""[...document.querySelectorAll('.arms td')].map(c => [c.getBoundingClientRect().right,
      getComputedStyle(c, '::before').content, arms.some(a => a.name === c.dataset.label)])""")
    check(len(cells) > 90 and all(right <= 390 and name not in ("none", "normal") and known for right, name, known in cells),
          "cells of tables", cells[:9])
    text = b.value("[...document.querySelectorAll('svg')].map(s => s.viewBox.baseVal.width / s.getBoundingClientRect().width)")
    check(len(text) == 5 and max(text) < 1.15, "the text of charts is small", text)
    b.look(1200, 900, "light")
    b.wait("document.querySelector('svg').viewBox.baseVal.width > 500")


def clips_play(b):
    b.wait(LOADED)
    check(b.value("videos.length") == ARMS + 1)  # and the one of all arms, which has the differences
    b.key(" ", " ")
    b.wait("playing && frame >= 3")
    apart = b.value("Math.max(...videos.map(v => Math.abs(v.currentTime - videos[0].currentTime)))")
    check(apart < 3 / FPS, f"clips are {apart} s apart")
    b.key(" ", " ")
    b.wait("!playing && videos.every(v => v.paused && !v.seeking)")
    b.value("seek(5)")
    for key, text, frame in (("ArrowRight", None, 6), (".", ".", 7), ("ArrowLeft", None, 6), (",", ",", 5)):
        b.key(key, text)
        b.wait(LOADED)
        at = b.value("[frame, ...videos.map(v => Math.floor(v.currentTime * fps))]")
        check(at == [frame] * (ARMS + 2), key, at)
    check(b.value("document.querySelector('#transport output').textContent") == f"frame 6 of {FRAMES}")
    b.value(f"seek({FRAMES - 3}), play()")
    b.wait("frame < 5")  # it begins again
    b.value("pause()")
    b.value("document.activeElement.blur()")
    b.key("Tab")
    check(b.value("document.activeElement.id") == "play", "Tab does not lead to the button")
    b.key(" ", " ")
    check(b.value("playing"), "a button under the keyboard")
    b.key("k", "k")
    check(not b.value("playing"))


def line_moves(b):
    b.value("seek(8), document.getElementById('line').focus()")
    b.wait(LOADED)
    b.key("ArrowRight")
    check(b.value("document.getElementById('line').value") == "51", "the keyboard does not move the line")
    b.wait(f"{SAME_PICTURE}(0, 0, 128) && {SAME_PICTURE}(1, 134, 256)")
    check(not b.value(f"{SAME_PICTURE}(1, 0, 128)"), "left shows the right arm")
    b.value("document.getElementById('right').focus()")
    b.key("ArrowDown")
    b.wait(f"document.getElementById('right').value === '2' && {SAME_PICTURE}(2, 134, 256)")
    box = b.value("(c => { c.scrollIntoView({block: 'center'}); const r = c.getBoundingClientRect();"
                  "return [r.x, r.y, r.width, r.height]; })(document.querySelector('#swipe canvas'))")
    x, y = box[0] + box[2] / 4, box[1] + box[3] / 2
    b.mouse("mousePressed", x + 40, y)
    b.mouse("mouseMoved", x, y)
    b.mouse("mouseReleased", x, y)
    check(b.value("document.getElementById('line').value") == "25", "the mouse does not move the line")
    b.wait(f"{SAME_PICTURE}(0, 0, 62) && {SAME_PICTURE}(2, 68, 256)")


def figures_are_there(b):
    dots = b.value("[...document.querySelectorAll('svg')].map(s => s.querySelectorAll('circle').length)")
    steps, layers = b.value("steps"), b.value("arms[0].densities[0].length")
    check(dots == [2 * FRAMES, 2 * FRAMES, 2 * steps, 2 * steps, 3 * steps], "points of the curves", dots)
    check(b.value("document.querySelectorAll('.heat td').length") == (ARMS + 2) * steps * layers)
    b.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    b.wait(f"document.querySelectorAll('details table').length === 6")
    check(not b.value("/undefined|NaN|\\[object/.test(document.body.innerText)"), "an empty figure")


def speedups_have_intervals(b):
    """As report.json has them: a mean and its interval, or no mean and why."""
    of = b.value("arms.map(a => a.speedup)")
    rows = b.value(SPEEDUPS)
    check(of[0] is None and [r[0] for r in rows] == ["\u2013"] * 3, "the first arm", rows)
    for row, name in zip(rows, ("total", "denoise", "attention")):
        for cell, v in zip(row[1:], (a[name] for a in of[1:])):
            lines = [f"{v['mean']:.2f}\u00d7"] if v["mean"] is not None else ["\u2013", "not distinguishable in time"]
            if v["low"] is not None:
                lines.append(f"{v['low']:.2f}\u00d7 to {v['high']:.2f}\u00d7")
            check(cell.split("\n") == lines, name, cell, lines)
            check((v["mean"] is None) == (v["low"] is None or (v["low"] < 1.005 and v["high"] > 0.995)), name, v)
    check(all(a["shared_steps"] == [0] for a in of[1:]), "steps that are shared", of)
    check(b.value("document.querySelector('.arm:last-child figure').innerText.includes('before compression')"))


def seconds_add_up(b, repeat):
    """What is shown: parts to their whole, to the digit; and the ratio of two wholes is the speed-up that report.json has."""
    rows = b.value("""[...document.querySelectorAll('[aria-label=speed] tbody tr')].map(r =>
      [r.cells[0].textContent.match(/^\\u2003*/)[0].length, ...[...r.cells].map(c => c.textContent.trim())])""")
    rows = [(depth, name, [float(v.replace("\u2013", "nan")) for v in cells]) for depth, name, *cells in rows if name.endswith(", s")]
    check([r[0] for r in rows[:3]] == [0, 1, 2] and rows[0][1] == ("whole in one render, s" if repeat == 1 else "whole, s"), rows)
    check(not any("other" == name.split(",")[0] for _, name, _ in rows), "other", rows)
    for at, (depth, name, whole) in enumerate(rows):
        parts = []
        for below, _, cells in rows[at + 1:]:
            if below <= depth or name.startswith("a step"):
                break
            if below == depth + 1:
                parts.append(cells)
        for arm in range(len(whole)) if parts else ():
            check(abs(whole[arm] - sum(p[arm] for p in parts)) < 1e-9, name, arm, whole, parts)
    kinds = b.value("arms.map(a => [a.seconds.total, a.seconds.denoise, a.seconds.attention, a.speedup])")
    for total, denoise, attention, speedup in kinds[1:]:
        for key, of in (("total", kinds[0][0] / total), ("denoise", kinds[0][1] / denoise), ("attention", kinds[0][2] / attention)):
            check(speedup[key]["mean"] is None or abs(speedup[key]["mean"] / of - 1) < 1e-9, key, speedup, of)
            check(speedup[key]["low"] is None or speedup[key]["low"] <= of <= speedup[key]["high"], key, speedup, of)
    text = b.value("document.body.innerText")
    check(("of one render of each arm" in text) == (repeat == 1) and (f"of {repeat} renders of each arm" in text) == (repeat > 1))


def errors_are_mapped(b):
    """Step 1 is dense, and so is layer 0 of the last arm."""
    of = b.value("arms.map(a => a.attention_error)")
    check(of[0] is None, "an error of dense attention")
    check(all((v == 0) == (i == 0 or (n == 1 and l == 0)) for n, a in enumerate(of[1:])
              for i, row in enumerate(a["layers"]) for l, v in enumerate(row)), "errors of other steps or layers", of)
    check(0 < of[1]["relative_l1"] < 0.02 < of[2]["relative_l1"] < 0.5, "errors", of)
    most = max(v for a in of[1:] for row in a["layers"] for v in row)
    cells = b.value("""[...document.querySelectorAll('#errors table')].map(t => [...t.tBodies[0].rows].map(r =>
      [...r.querySelectorAll('td')].map(c => [c.title, c.textContent, c.className, c.style.getPropertyValue('--share')])))""")
    for a, table in zip(of[1:], cells):
        for l, row in enumerate(table):
            for i, (title, text, kind, colour) in enumerate(row):
                v = a["layers"][i][l]
                where, told = title.split(": ")
                check(where == f"step {i + 1}, layer {l}", title)
                if v == 0:
                    check([told, text, kind] == ["dense", "\u00b7", "dense"], title, text, kind)
                else:
                    check(abs(float(told.split()[0]) - 100 * v) < 0.06 and abs(float(text) - 100 * v) < 0.06, title, text, v)
                    check(kind == "" and abs(float(colour[:-1]) - 100 * v / most) < 0.06, title, colour)
    legend = b.value("[...document.querySelectorAll('#errors p.heat span')].map(i => i.textContent)")
    check(len(legend) == 6 and abs(float(legend[4]) - 100 * most) < 0.06, "the legend", legend)
    apart = b.value("""(t => [...new Set([...t.querySelectorAll('td')].map(c => getComputedStyle(c).background))].length)
      (document.querySelectorAll('#errors table')[1])""")
    check(apart > 2, "cells of one colour")
    check(b.value("[...document.querySelectorAll('#errors .scroll')].every(e => e.tabIndex === 0)"), "not for the keyboard")


def looks_right(b, page):
    colours = set()
    for theme in ("light", "dark"):
        b.look(400, 800, theme)
        b.open(page)
        b.wait(LOADED)
        check(b.value("document.documentElement.scrollWidth") <= 400, "wider than the screen")
        colours.add(b.value("getComputedStyle(document.body).backgroundColor"))
    check(len(colours) == 2, "no dark page")


def nothing_differs(b, page):
    b.open(page)
    check(b.value("document.getElementById('result').textContent") == "b: same kernels, every frame equal to that of a")
    check("ran the same kernel throughout" in b.value("document.querySelector('p.alarm[role=alert]').innerText"))
    red, *rest = b.value("getComputedStyle(document.querySelector('p.alarm')).color.match(/\\d+/g).map(Number)")
    check(red > 150 and max(rest) < 0.7 * red, "the warning is not red")
    check(b.value("document.body.innerText.includes('Nothing differs')"), "no word on PSNR")
    speedups = b.value(SPEEDUPS)
    check(len(speedups) == 3 and all("\u00d7" not in row[1].split("\n")[0] for row in speedups), "a speed-up", speedups)
    check(all("same kernels" in row[1] for row in speedups) and ", same kernels" in b.value("document.getElementById('players').innerText"))


def steps_are_told_apart(b, page):
    """A cell for each step; of other numbers of steps there is no curve of latents but a point at the end."""
    b.open(page)
    kinds = b.value("[...document.querySelectorAll('.steps')].map(s => [...s.children].map(i => i.className))")
    skipped = b.value("arms.map(a => a.skipped_steps)")
    check([len(k) for k in kinds] == [16, 16, 9] and 2 < len(skipped[1]) < 12, "steps", kinds, skipped)
    for of, row in zip(skipped, kinds):
        check(row == ["extrapolated" if i in of else "dense" for i in range(len(row))], row, of)
    check(len(b.value("[...new Set([...document.querySelectorAll('#steps p i')].map(i => getComputedStyle(i).background))]")) == 3,
          "two kinds of steps look the same")
    dots = b.value("[...document.querySelectorAll('svg')].map(s => s.querySelectorAll('circle').length)")
    check(dots == [17, 17, 41], "points of the curves", dots)
    check(not b.value("/undefined|NaN|\\[object/.test(document.body.innerText)"), "an empty figure")


def images_are_shown(b):
    """Of clips of one frame: pictures, their differences and the line between two of them, and nothing of time."""
    b.wait("videos.length === 4 && videos.every(v => v.tagName === 'IMG' && ready(v))")
    check(b.value("document.querySelectorAll('video, #transport, #strips').length") == 0, "a player")
    b.wait(f"{SAME_PICTURE}(0, 0, 14) && {SAME_PICTURE}(1, 18, 32)")
    sums = b.value("""[...document.querySelectorAll('canvas.difference')].map(c =>
      c.getContext('2d').getImageData(0, 0, c.width, c.height).data.reduce((n, v, i) => i % 4 === 3 ? n : n + v, 0))""")
    check(len(sums) == 2 and min(sums) > 0, "differences", sums)
    text = b.value("document.body.innerText")
    for word in ("flickering", "frozen", "frames at", "before compression", "percentile", "Keys:"):
        check(word not in text, "it tells of", word)
    check("MS-SSIM" in b.value("document.getElementById('players').innerText"))
    check(b.value("document.documentElement.scrollWidth <= innerWidth"), "wider than the screen")


def pictures_are_shown(b, page):
    """In the place before the first arm; on a phone above it. Two arms, their difference and the pictures stand side by side."""
    b.open(page)
    b.wait(LOADED)
    b.wait("[...document.querySelectorAll('.pictures img')].every(i => i.complete && i.naturalWidth === 128)")
    shown = b.value("[...document.querySelectorAll('.pictures figcaption')].map(c => c.innerText.replace('\\n', ' '))")
    check(shown == ["begins with rgb.png", "ends with base.jpg"], shown)
    boxes = b.value("""[...document.querySelectorAll('.pictures img, #players video, #players canvas')].map(e => {
      const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })""")
    first, last, *others = boxes
    check(len(others) == 3 and all(abs(o[1] - first[1]) < 1 and o[0] > first[0] for o in others), "not in a row", boxes)
    check(last[1] > first[1] and all(abs(w - h) < 1 and abs(w - first[2]) < 1 for _, _, w, h in boxes), "sizes", boxes)
    b.value("document.querySelectorAll('details').forEach(d => d.open = true)")
    check(not b.value("/undefined|NaN|\\[object/.test(document.body.innerText)"), "an empty figure")
    settings = b.value("[...document.querySelectorAll('details th')].map(t => t.innerText)")
    check(settings.count("image") == settings.count("fit") == 1, settings)
    b.look(390, 844, "light")
    b.wait("document.documentElement.scrollWidth <= 390")
    b.look(1200, 900, "light")


def clips_cannot_play(b, folder):
    with open(f"{folder}/report.html", encoding="ascii") as f:
        page = f.read()
    with open(f"{folder}/y4m.html", "w", encoding="ascii") as f:
        f.write(page.replace(".mp4", ".y4m"))
    b.open(f"{folder}/y4m.html")
    check(b.value("document.querySelectorAll('#y4m a').length") == ARMS and b.value("videos.length") == 0)
    check(b.value("document.querySelectorAll('#strips canvas').length") == ARMS - 1, "differences without a clip")
    b.key(" ", " ")
    b.key("ArrowRight")
    check(b.value("frame === 1 && !playing"))
    check(b.value("document.querySelectorAll('svg').length") == 5)


def main():
    apart, same, steps, prompt, table = sys.argv[1:]
    b = Browser(find())
    try:
        b.look(1200, 900, "light")
        b.open(f"{apart}/report.html")
        if not b.value("document.createElement('video').canPlayType('video/mp4; codecs=\"avc1.64001f\"')"):
            print("skipped: this Chromium has no H.264")
            return 77
        text_stays_text(b, prompt)
        opens_with_results(b, apart, table)
        clips_play(b)
        line_moves(b)
        differences_are_there(b)
        figures_are_there(b)
        speedups_have_intervals(b)
        seconds_add_up(b, 1)
        errors_are_mapped(b)
        command_is_copied(b, apart)
        looks_right(b, f"{apart}/report.html")
        fits_a_phone(b, f"{apart}/report.html")
        b.look(1200, 900, "light")
        nothing_differs(b, f"{same}/report.html")
        steps_are_told_apart(b, f"{steps}/report.html")
        seconds_add_up(b, 3)
        images_are_shown(b)
        pictures_are_shown(b, "begun/report.html")
        clips_cannot_play(b, apart)
        away = [r for r in b.requests if not r.startswith(("file://" + os.path.abspath("."), "data:"))]
        check(not away, "requests from elsewhere:", away)
        told = [c for c in b.complaints if "willReadFrequently" not in c]  # the canvas is read by this test alone
        check(not told, "on the console:", told)
        os.remove(f"{apart}/sage.mp4")
        b.open(f"{apart}/report.html")
        b.wait("videos.length === 3 && document.querySelector('figure p.alarm a').textContent === 'sage.mp4'")
    finally:
        b.close()
    print("report.html: plays, steps, swipes, has its figures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
