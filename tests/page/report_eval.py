"""report.html of an evaluation in a browser. usage: report_eval.py MANY FEW ONE: folders of eval_folder.py, two of three arms
and one of one. Exit code 77 is a skip."""
import json
import os
import sys

from browser import Browser, find

FRAMES, FPS, BATCH = 17, 16, 20
LOADED = "videos.length === 2 && videos.every(v => v.readyState > 1 && !v.seeking)"
ROWS = "document.querySelectorAll('#clips li').length"


def check(so, *what):
    if not so:
        raise AssertionError(" ".join(map(str, what)))


def choose(b, **values):
    for name, value in values.items():
        b.value(f"document.getElementById('{name}').value = '{value}'")
    b.value("refresh(), list.scrollIntoView()")
    b.wait(f"listed.length === 0 || {ROWS} > 0")


def text_stays_text(b):
    check(b.value("document.title") == "sparge-gen eval: tiny-wan, set <u>.csv", b.value("document.title"))
    check(b.value("document.querySelectorAll('b, i, u').length") == 0, "text became elements")
    check(b.value("document.getElementById('arms').textContent").endswith("name=<i>three</i>"))
    check(b.value("document.querySelector('#again code').textContent") == "sparge-gen eval --prompts 'set <u>.csv' --output again")


def opens_with_results(b, folder):
    """A sentence for each arm but the first, as summary.json has it."""
    with open(f"{folder}/summary.json", encoding="utf-8") as f:
        summary = json.load(f)
    results, rows = summary["results"], [r for r in summary["rows"] if r["group"] == 0]
    check(results[0] is None and b.value("[...document.querySelectorAll('h1 + #result p')].map(p => p.textContent)") == results[1:])
    for name, text, r in list(zip(summary["arms"], results, rows))[1:]:
        check(text.startswith(f"{name}: denoising {r['denoiser_speedup']['mean']:.2f}x as fast, clip {r['speedup']['mean']:.2f}x, "
                              f"{r['psnr']['mean']:.1f} dB to dense over {r['paired'] - r['identical']} clips"), text)


def intervals_end_below_one(b, folder):
    """Of two prompts, whose interval of Student's t alone ends far above 1."""
    with open(f"{folder}/summary.json", encoding="utf-8") as f:
        rows = [r for r in json.load(f)["rows"] if r["arm"] and r["ssim"]["low"] is not None]
    check(len(rows) >= 2 and all(-1 < r[k]["low"] < r[k]["mean"] < r[k]["high"] < 1 for r in rows for k in ("ssim", "ms_ssim")), rows)
    check("Fisher" in b.value("document.querySelector('main').innerText"), "no word on how")
    cells = b.value("[...document.querySelectorAll('#figures tbody tr')].find(r => r.cells[0].textContent === 'SSIM').innerText")
    check(f"to {rows[0]['ssim']['high']:.4f}" in cells, cells)


def chart_is_labelled(b, folder):
    """For each score: a dot and a name for each arm, the first included; names lie within the chart and not on each other."""
    b.open(f"{folder}/report.html")
    for width in (1200, 390):
        b.look(width, 900, "light")
        for metric in range(3):
            b.value(f"document.getElementById('metric').value = {metric}, refresh()")
            b.wait(f"document.querySelector('#plot svg').viewBox.baseVal.width === {760 if width > 640 else 360}")
            dots = b.value("[...document.querySelectorAll('#plot circle.mean')].map(c => [c.textContent, c.cx.baseVal.value, c.cy.baseVal.value])")
            top = "dense: \u221e dB in " if metric == 0 else "dense: 1 in "
            check(len(dots) == 3 and dots[0][0].startswith(top) and all(dots[0][2] < d[2] for d in dots[1:]), dots)
            boxes = b.value("""(() => { const r = document.querySelector('#plot svg').getBoundingClientRect();
              return [[r.left, r.top, r.right, r.bottom], ...[...document.querySelectorAll('#plot .label')].map(l => {
                const r = l.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; })]; })()""")
            chart, *names = boxes
            check(len(names) == 3, names)
            for i, (x0, y0, x1, y1) in enumerate(names):
                check(chart[0] <= x0 and x1 <= chart[2] and chart[1] <= y0 and y1 <= chart[3], "a name outside", names)
                check(all(x1 <= n[0] or n[2] <= x0 or y1 <= n[1] + 2 or n[3] <= y0 + 2 for n in names[:i]), "names overlap", names)
            check(b.value("parseFloat(getComputedStyle(document.querySelector('#plot .cloud')).strokeWidth)") >= 6, "small dots")
    b.look(1200, 900, "light")
    b.value("document.getElementById('metric').value = 0, refresh()")


def differences_are_there(b, folder):
    """The strips of arm 0 and 1 are 60 levels apart, so that eight times that is white; the strips themselves are not."""
    b.open(f"{folder}/report.html")
    b.value("list.scrollIntoView()")
    b.wait(f"{ROWS} > 0")
    check(b.value("document.querySelectorAll('#clips .difference').length") == b.value("listed.filter(c => !c.failed).length"))
    b.value("document.querySelector('#clips .difference').scrollIntoView({block: 'center'})")
    b.wait("[...document.querySelector('#clips li').querySelectorAll('img')].every(i => i.complete && i.naturalWidth)")
    seen = [b.brightness(f"#clips li .{what}") for what in ("side img", "difference")]
    check(seen[0] < 200 and seen[1] > 250, "the difference", seen)
    check(b.value("document.querySelector('#clips .difference').nextSibling.textContent") == "difference \u00d78")
    b.value("document.querySelector('#clips button').click()")
    b.wait(f"viewer.open && {LOADED}")
    b.value("seek(8)")
    b.wait(LOADED)
    b.wait("""((c) => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      return d.reduce((n, v, i) => i % 4 === 3 ? n : n + v, 0) > c.width * c.height; })(viewer.querySelector('canvas.difference'))""")
    b.key("Escape")
    b.wait("!viewer.open")


def fits_a_phone(b, page):
    b.look(390, 844, "light")
    b.open(page)
    b.value("list.scrollIntoView()")
    b.wait(f"{ROWS} > 0")
    check(not b.wider(390), "out of the screen:", b.wider(390))
    cells = b.value("""[...document.querySelectorAll('#figures td')].map(c => [c.getBoundingClientRect().right,
      getComputedStyle(c, '::before').content, arms.includes(c.dataset.label)])""")
    check(len(cells) > 60 and all(right <= 390 and name not in ("none", "normal") and known for right, name, known in cells),
          "cells of tables", cells[:9])
    b.look(1200, 900, "light")


def figures_are_there(b, folder):
    with open(f"{folder}/summary.json", encoding="utf-8") as f:
        rows = {(r["arm"], r["group"]): r for r in json.load(f)["rows"]}
    for group in (0, 1):
        b.value(f"document.getElementById('group').value = {group}, refresh()")
        cells = b.value("Object.fromEntries([...document.querySelectorAll('#figures tbody tr')].map(r => "
                        "[r.cells[0].textContent.trim(), [...r.cells].slice(1).map(c => c.innerText)]))")
        for arm in (1, 2):
            r = rows[arm, group]
            check(cells["clips done"][arm] == str(r["done"]) and cells["failed"][arm] == str(r["failed"]))
            v = r["psnr"]
            check(cells["PSNR, dB"][arm].split("\n") == [f"{v['mean']:.2f}", f"{v['low']:.2f} to {v['high']:.2f}"], cells)
            v = r["denoiser_speedup"]  # the lower of two rows of that name
            check(v["low"] > 1.1 and cells["speed-up"][arm].split("\n") ==
                  [f"{v['mean']:.2f}\u00d7", f"{v['low']:.2f}\u00d7 to {v['high']:.2f}\u00d7"], cells["speed-up"])
            check(cells["clips identical to the first arm\u2019s"][arm] == str(r["identical"]) and v["mean"] < 2, cells)
            check(r["psnr"]["mean"] < 60, "identical clips count", r["psnr"])
            check(cells["blocks computed"][arm] == f"{100 * r['density']:.1f} %")
            check(cells["steps computed"][arm] == f"{50 - 8 * arm}.0")
        v, change = rows[1, group]["clipsim"], rows[1, group]["clipsim_change"]
        check(cells["CLIPSIM"][1] == f"{v:.4f}" and cells["CLIPSIM"][2] == "\u2013" and "CLIP score" not in cells, cells)
        check(abs(change["mean"] + 0.01) < 1e-9 and abs(change["low"] + 0.01) < 1e-9, change)
    check(cells["PSNR, dB"][0] == "\u2013")
    check(b.value("speed({speed: 'same kernels', speedup: {mean: 2}}, 'speedup')") == "same kernels", "a time of the same kernels")
    check(b.value("document.querySelectorAll('#groups tbody tr').length") == 3)
    check(b.value("document.querySelectorAll('#plot circle').length") == 3)
    dots = b.value("[...document.querySelectorAll('#plot .cloud')].map(p => p.getAttribute('d').split('M').length - 1)")
    check(dots == [r["done"] - r["identical"] for r in (rows[1, 1], rows[2, 1])], "small dots", dots)
    b.value("document.getElementById('group').value = 0, refresh(), document.querySelector('details').open = true")
    check(not b.value("/undefined|NaN(?! <i>here)|\\[object/.test(document.body.innerText)"), "an empty figure")
    b.value("document.querySelector('details').open = false")


def rows_come_when_scrolled_to(b, folder):
    b.open(f"{folder}/report.html")
    b.wait("listed.length === 160")
    check(b.value(ROWS) == 0 and not any(".png" in r for r in b.requests), "rows before they are scrolled to")
    b.value("list.scrollIntoView()")
    b.wait(f"{ROWS} >= {BATCH}")
    check(b.value(ROWS) < 160, "all rows at once")
    b.wait("document.querySelector('#clips img').complete && document.querySelector('#clips img').naturalWidth === 128")
    for _ in range(20):
        b.value("more.scrollIntoView()")
        b.value("new Promise(done => setTimeout(done, 50))")
    b.wait(f"{ROWS} === 160 && more.hidden")
    with open(f"{folder}/results.jsonl", encoding="utf-8") as f:
        lines = [json.loads(x) for x in f if x.endswith("\n")]
    done = sorted(c["psnr"]["mean"] or 1e9 for c in lines if c.get("psnr"))
    shown = b.value("listed.filter(c => !c.failed).map(c => score(c, metrics[0]))")
    check(len(shown) == len(done) and all(abs(x - y) < 1e-9 for x, y in zip(shown, done)), "not the worst first")
    check(b.value("document.querySelector('#clips li:nth-last-child(3) .wide + div').textContent.startsWith('PSNR \u221e')"),
          "equal clips do not come last")


def filters(b):
    choose(b, group=1)
    check(b.value("listed.length") == 56 and b.value("listed.every(c => c.prompt % 3 === 0)"), "clips of a group")
    choose(b, group=0, arm=1)
    check(b.value("listed.length === 80 && listed.every(c => c.arm === 1)"), "clips of an arm")
    choose(b, arm="", state="wrong")
    check(b.value("listed.map(c => c.prompt).join()") == "6,6", "broken clips")
    check("3 black frames, 2 frozen pairs" in b.value("list.innerText"))
    choose(b, state="", metric=1)
    check(b.value("listed.every((c, i) => !i || c.failed || score(c, metrics[1]) >= score(listed[i - 1], metrics[1]))"))
    choose(b, metric=0)
    b.value("document.getElementById('failures').click()")
    b.wait(f"{ROWS} === 2")
    check("a step gave NaN <i>here</i>\nand there" in b.value("list.innerText"), "no reason of a failure")
    choose(b, state="")
    b.value("scrollTo(0, 0), document.getElementById('failures').focus()")
    b.key("Tab")
    check(b.value("document.activeElement.id") == "group", "Tab does not lead to the choices")
    b.key("ArrowDown")
    b.wait("document.getElementById('group').value === '1' && listed.length === 56")
    choose(b, group=0)


def clips_play(b):
    b.value("document.querySelector('#clips button').focus()")
    b.key("Enter", "\r")
    b.wait(f"viewer.open && {LOADED}")
    check(b.value("document.activeElement.id") == "play", "the keyboard is not in the dialog")
    check(b.value("videos.map(v => decodeURIComponent(v.src).split('/').slice(-2)[0])") == ["arm0", b.value("`arm${listed[0].arm}`")])
    b.value("document.activeElement.blur()")
    b.key(" ", " ")
    b.wait("playing && frame >= 3")
    apart = b.value("Math.abs(videos[1].currentTime - videos[0].currentTime)")
    check(apart < 3 / FPS, f"clips are {apart} s apart")
    b.key(" ", " ")
    b.wait("!playing && videos.every(v => v.paused && !v.seeking)")
    check(abs(b.value("fps") - FPS) < 0.1)
    b.value("seek(5)")
    for key, text, frame in (("ArrowRight", None, 6), (",", ",", 5)):
        b.key(key, text)
        b.wait(LOADED)
        at = b.value("[frame, ...videos.map(v => Math.floor(v.currentTime * fps))]")
        check(at == [frame] * 3, key, at)
    b.key("n", "n")
    b.wait(f"viewed === 1 && {LOADED}")
    check(b.value("viewer.querySelector('h2').textContent === prompts[listed[1].prompt].text"))
    b.value("document.getElementById('previous').focus()")
    b.key("Enter", "\r")
    b.wait(f"viewed === 0 && {LOADED}")
    check(b.value("document.getElementById('previous').disabled"), "there is no clip before the first")
    b.key("Escape")
    b.wait("!viewer.open && videos.length === 0")
    check(b.value("document.activeElement === document.querySelector('#clips button')"), "where the keyboard was")
    b.key("ArrowRight")
    b.key("n", "n")
    check(b.value("!viewer.open && frame === 0"))


def looks_right(b, page):
    colours = set()
    for theme in ("light", "dark"):
        b.look(400, 800, theme)
        b.open(page)
        b.value("list.scrollIntoView()")
        b.wait(f"{ROWS} > 0")
        check(b.value("document.documentElement.scrollWidth") <= 400, "wider than the screen")
        b.value("document.querySelector('#clips button').click()")
        b.wait(LOADED)
        check(b.value("viewer.scrollWidth <= viewer.clientWidth && viewer.offsetWidth <= 400"), "a dialog wider than the screen")
        colours.add(b.value("getComputedStyle(document.body).backgroundColor"))
    check(len(colours) == 2, "no dark page")
    b.look(1200, 900, "light")


def one_arm(b, page):
    b.open(page)
    choose(b, metric=0)
    check("CLIPSIM 0.2500, CLIP-T 0.9900" in b.value("document.querySelector('#clips').innerText"), "no scores by CLIP")
    check(b.value(ROWS) == 4 and b.value("document.querySelectorAll('#figures th').length") > 20)
    b.value("document.querySelector('#clips button').click()")
    b.wait("viewer.open && videos.length === 1 && videos[0].readyState > 1")


def images_are_shown(b, page):
    """Of clips of one frame: pictures in the viewer, and nothing of time."""
    b.open(page)
    choose(b, metric=0)
    text = b.value("document.body.innerText")
    for word in ("flickering", "frozen", "worst frame", "percentile", "clip"):
        check(word not in text, "it tells of", word)
    b.value("document.querySelector('#clips button').click()")
    b.wait("viewer.open && videos.length === 2 && videos.every(v => v.tagName === 'IMG' && ready(v))")
    check(b.value("viewer.querySelectorAll('video, #transport').length") == 0, "a player")
    check(b.value("viewer.querySelector('canvas.difference') !== null && document.activeElement.id === 'leave'"))
    b.key("n", "n")
    b.wait("viewer.querySelector('h2 + p').innerText.includes('image 2 of')")
    b.key("Escape")
    b.wait("!viewer.open")


def pictures_are_shown(b, folder):
    """Beside the frames of a clip stands what it begins and ends with; in the viewer too."""
    with open(f"{folder}/summary.json", encoding="utf-8") as f:
        pictures = {p["prompt"]: p for p in json.load(f)["pictures"]}
    check(sorted(pictures) == sorted([4, *range(1, 40, 2)]) and pictures.pop(4)["video"]["strength"] == 0.5 and "last_image" in pictures[3], sorted(pictures))
    choose(b, group=0, arm=1, state="")
    b.value("while (made < listed.length) extend()")
    b.wait("[...document.querySelectorAll('#clips .edges img')].every(i => i.loading = 'eager')")
    b.wait("[...document.querySelectorAll('#clips .edges img')].every(i => i.complete && i.naturalWidth)")
    rows = b.value("""listed.map((c, i) => [prompts[c.prompt].number, list.children[i].querySelectorAll('.edges img').length,
      !c.failed && list.children[i].querySelector('.edges img')?.title])""")
    check(all(n == (0 if p not in pictures else 2 if p == 3 else 1) for p, n, title in rows if title is not False), rows)
    check({t for p, n, t in rows if n} == {"begins with <u>first</u>.jpg"}, rows)
    said = b.value("""listed.flatMap((c, i) => !c.failed && list.children[i].innerText.includes('from <u>from</u>.mp4, strength 0.5')
      ? [prompts[c.prompt].number] : [])""")
    check(said == [4, 4], said)
    at = b.value("listed.findIndex(c => prompts[c.prompt].number === 3)")
    b.value(f"open({at})")
    b.wait(f"viewer.open && {LOADED}")
    shown = b.value("[...viewer.querySelectorAll('figure img + figcaption')].map(c => c.innerText.replace('\\n', ' '))")
    check(shown == ["begins with <u>first</u>.jpg", "ends with last.png"], shown)
    b.key("Escape")
    b.wait("!viewer.open")
    choose(b, arm="")


def files_are_gone(b, folder):
    gone = b.value("((c) => [c.file, c.picture])(listed[0])")
    for file in gone:
        os.remove(f"{folder}/{file}")
    b.open(f"{folder}/report.html")
    b.value("list.scrollIntoView()")
    b.wait(f"{ROWS} > 0 && document.querySelector('#clips li').innerText.includes('is not there')")
    b.value("document.querySelector('#clips button').click()")
    b.wait("videos.length === 1 && viewer.querySelector('p.alarm a') !== null")
    check(b.value("viewer.querySelector('p.alarm a').textContent") == gone[0])


def main():
    many, few, one, images = sys.argv[1:]
    b = Browser(find())
    try:
        b.look(1200, 900, "light")
        b.open(f"{many}/report.html")
        if not b.value("document.createElement('video').canPlayType('video/mp4; codecs=\"avc1.64001f\"')"):
            print("skipped: this Chromium has no H.264")
            return 77
        text_stays_text(b)
        opens_with_results(b, many)
        figures_are_there(b, many)
        rows_come_when_scrolled_to(b, many)
        filters(b)
        clips_play(b)
        pictures_are_shown(b, many)
        looks_right(b, f"{many}/report.html")
        for folder in (many, few):
            chart_is_labelled(b, folder)
            fits_a_phone(b, f"{folder}/report.html")
        b.open(f"{few}/report.html")
        intervals_end_below_one(b, few)
        differences_are_there(b, few)
        one_arm(b, f"{one}/report.html")
        images_are_shown(b, f"{images}/report.html")
        away = [r for r in b.requests if not r.startswith(("file://" + os.path.abspath("."), "data:"))]
        check(not away, "requests from elsewhere:", away)
        check(not b.complaints, "on the console:", b.complaints)
        b.open(f"{many}/report.html")
        files_are_gone(b, many)
    finally:
        b.close()
    print("report.html: figures, choices, rows as they are scrolled to, clips that play together")
    return 0


if __name__ == "__main__":
    sys.exit(main())
