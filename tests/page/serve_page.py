"""The page of the web server in a browser. usage: serve_page.py SOURCE CLIP OTHER: clips of 9 frames at 16 a second. Exit code 77 is
a skip."""
import os
import sys

from browser import Browser, find
from fake_server import Server

KEY = "a key"
CTRL = 2
HOSTILE = '<img src=x onerror="document.title=1"></script><b>bold</b> & \u7ea2'
LOADED = "videos.length === 2 && videos.every(v => ready(v) && !v.seeking)"
CARDS = "document.querySelectorAll('#%s .card').length"

# What has no name that a screen reader could say.
NAMELESS = """[...document.querySelectorAll('input:not([hidden]), select, textarea, button, progress, video, img, canvas')].filter(e =>
  !(e.getAttribute('aria-label') || e.alt || (e.labels && [...e.labels].some(l => l.textContent.trim())) || e.textContent.trim() && e.tagName === 'BUTTON'))
  .map(e => e.outerHTML.slice(0, 80))"""


def check(so, *what):
    if not so:
        raise AssertionError(" ".join(map(str, what)))


def fill(b, prompt, **values):
    b.value("$('order').reset()")
    for name, v in {"prompt": prompt, **values}.items():
        b.value(f"$('order').elements[{name!r}].value = {v!r}")


def order(b, prompt, **values):
    fill(b, prompt, **values)
    b.value("$('order').requestSubmit()")
    b.wait("!$('render').disabled")


def has(b, queue, gallery):
    b.wait(f"{CARDS % 'queue'} === {queue} && {CARDS % 'gallery'} === {gallery}")


def press(b, selector, times=1):
    for _ in range(times):
        b.value(f"(e => {{ e.focus(); e.click(); }})(document.querySelector({selector!r}))")


def asks_for_the_key(b, s):
    b.open(s.address)
    b.wait("$('lock').open")
    for key, opens in (("no", False), (KEY, True)):
        b.value(f"$('key').value = {key!r}; $('key').focus()")
        b.key("Enter", "\r")
        b.wait("!$('lock').open" if opens else "!$('wrong-key').hidden && $('key').value === ''")
    b.wait("document.querySelector('#fields select') !== null && !$('bare').hidden")


def fields_are_those_of_the_server(b):
    check(b.value("$('order').elements.steps.placeholder") == "20")
    check(b.value("[...$('order').elements.model.options].map(o => o.textContent)") == ["tiny-wan", "<i>other</i>"])
    check(b.value("['width', 'height'].every(n => !$('order').elements[n])"), "the size twice")
    fill(b, "a ball", steps="0")
    check(not b.value("$('order').checkValidity()"), "steps below their range")
    fill(b, "a ball", topk="2")
    b.value("$('order').requestSubmit()")
    check(b.value("$('more').open && document.activeElement.name") == "topk", "what is wrong is hidden")


def what_is_refused_is_said(b):
    order(b, "a ball", topk="0.5", steps="13")
    b.wait("!$('problem').hidden")
    check(b.value("$('problem').textContent") == "steps: 13 is unlucky")
    check(b.value("document.activeElement.name === 'steps' && document.activeElement.getAttribute('aria-invalid') === 'true'"))


def one_job(b, s):
    fill(b, HOSTILE, frames="9")
    b.value("$('prompt').focus()")
    b.key("Enter", "\r", CTRL)
    has(b, 1, 0)
    settings = s.jobs[0]["settings"]
    check(settings.keys() == {"prompt", "frames", "seed"} and settings["prompt"] == HOSTILE and settings["seed"].isdigit(), settings)
    check(b.value("document.querySelector('.said').textContent") == HOSTILE)
    check(b.value("document.querySelectorAll('#work b, .said *').length") == 0, "text became elements")
    s.progress(7)
    b.wait("document.querySelector('.view img')?.naturalWidth === 144 && document.querySelector('progress').value === 7")
    check(b.value("document.querySelector('.cell').innerText.includes('denoising, 7 of 20, 7.8 s left')"))
    check(b.value("(v => Math.abs(v.offsetWidth / v.parentElement.clientWidth - 3) < 0.01)(document.querySelector('.view img'))"), "a frame")
    check(b.value("document.title") == "(1) sparge-gen")
    s.finish()
    has(b, 0, 1)
    b.wait("document.querySelector('#gallery video').readyState > 1")
    check(b.value("$('status').textContent").startswith("completed: <img"), "nobody is told")
    press(b, "#gallery summary")
    b.wait("document.querySelector('#gallery td')?.innerText === 'sparge-gen'")


def side_by_side(b, s):
    order(b, "a ball", attention="both")
    has(b, 1, 1)
    first, second = (j["settings"] for j in s.jobs[-2:])
    check((first["attention"], second["attention"]) == ("dense", "sparge") and first["seed"] == second["seed"], first, second)
    b.wait("document.querySelectorAll('#queue .cell').length === 2 && document.querySelector('#queue').innerText.includes('next')")
    s.finish()
    b.wait("document.querySelector('#queue .cell video') !== null")
    s.finish()
    has(b, 0, 2)
    press(b, "button.both")
    b.wait(f"viewer.open && {LOADED}")
    check(b.value("document.activeElement.id") == "play" and b.value("[frames, fps]") == [9, 16])
    b.key("ArrowRight")
    b.value("document.activeElement.blur()")
    b.key(".", ".")
    b.wait(f"frame === 1 && {LOADED}")
    same = """((n, at) => {
      const shown = document.querySelector('#swipe canvas'), own = document.createElement('canvas');
      [own.width, own.height] = [shown.width, shown.height];
      own.getContext('2d').drawImage(videos[n], 0, 0);
      const of = c => c.getContext('2d').getImageData(at, 0, 40, c.height).data;
      const x = of(shown), y = of(own);
      return x.every((v, i) => v === y[i]);
    })"""
    check(b.value(f"{same}(0, 0) && {same}(1, 80) && !{same}(1, 0)"), "not the one on the left and the other on the right")
    check(b.value("viewer.querySelector('canvas.difference') !== null && viewer.scrollWidth <= viewer.clientWidth"))
    check(b.value(NAMELESS) == [], b.value(NAMELESS))
    b.key("Escape")
    b.wait("!viewer.open && videos.length === 0")


def any_two_are_compared(b):
    buttons = "document.querySelectorAll('button.choose')"
    b.value(f"{buttons}[0].click()")
    check(b.value(f"{buttons}[0].getAttribute('aria-pressed')") == "true")
    b.value(f"{buttons}[2].click()")
    b.wait(f"viewer.open && {LOADED}")
    b.value("viewer.close()")
    b.wait("videos.length === 0")
    check(b.value(f"[...{buttons}].every(e => e.getAttribute('aria-pressed') === 'false')"))


def again(b, s):
    before = s.jobs[-1]["settings"]
    press(b, "#gallery .again")
    has(b, 1, 2)
    for j, kind in zip(s.jobs[-2:], ("dense", "sparge")):
        check(j["settings"]["seed"] != before["seed"] and j["settings"] | {"seed": 0} == before | {"seed": 0, "attention": kind}, j)
    press(b, "#queue .cell:last-child .act button")
    check(len(s.jobs) == 5 and b.value("document.activeElement.textContent") == "Really cancel", "cancelled at once")
    press(b, "#queue .cell:last-child .act button")
    b.wait("document.querySelectorAll('#queue .cell').length === 1")
    s.finish("denoise: a step gave <b>NaN</b>")
    has(b, 0, 3)
    check(b.value("document.querySelector('#gallery .alarm').textContent") == "denoise: a step gave <b>NaN</b>")
    b.value("(b => { b.click(); b.click(); })([...document.querySelectorAll('#gallery .card button')].find(b => b.textContent === 'Delete'))")
    has(b, 0, 2)
    check(len(s.jobs) == 3)


def files_are_dropped_in(b, s):
    fill(b, "begun", size="64x64")
    b.value("""(() => {
      const data = new DataTransfer();
      for (const [name, type] of [['<i>a</i>.png', 'image/png'], ['b.png', 'image/png'], ['c.mp4', 'video/mp4']])
        data.items.add(new File(['bytes of ' + name], name, {type}));
      $('drop').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
    })()""")
    b.wait("document.querySelectorAll('#inputs figure').length === 3")
    check(b.value("$('inputs').innerText.includes('<i>a</i>.png') && $('inputs').querySelectorAll('i').length === 0"))
    press(b, "#inputs figure:last-child button")
    b.value("$('order').requestSubmit()")
    has(b, 1, 2)
    job = s.jobs[-1]
    check(job["inputs"] == ["image", "last_image"] and s.uploads[job["id"]] == [b"bytes of <i>a</i>.png", b"bytes of b.png"], job)
    s.finish()
    has(b, 0, 3)
    press(b, "#gallery .again")
    has(b, 1, 3)
    check(s.uploads[s.jobs[-1]["id"]] == s.uploads[job["id"]], "without its pictures")
    s.finish()
    has(b, 0, 4)
    b.open(s.address)
    has(b, 0, 4)
    press(b, "#gallery .again")
    check("Add the file again" in b.value("$('problem').textContent") and b.value("$('order').elements.size.value") == "64x64")
    check(b.value("$('order').elements.seed.value") == "" and len(s.jobs) == 5, "ordered without its pictures")


def looks_right(b, s):
    colours = set()
    order(b, "a ball", attention="both")
    s.progress(3)
    for theme in ("light", "dark"):
        b.look(390, 844, theme)
        b.open(s.address)
        has(b, 1, 4)
        s.progress(4)
        b.wait("document.querySelector('.view img') !== null")
        b.value("$('more').open = true")
        check(b.value("document.documentElement.scrollWidth") <= 390, "wider than the screen")
        wide = [w for w in b.wider(390) if not w.startswith("IMG")]  # but a preview's other frames, which are cut off
        check(not wide, wide)
        check(b.value(NAMELESS) == [], b.value(NAMELESS))
        colours.add(b.value("getComputedStyle(document.body).backgroundColor"))
    check(len(colours) == 2, "no dark page")


def main():
    source, *clips = sys.argv[1:]
    s = Server(source, clips, KEY)
    b = Browser(find())
    try:
        b.look(1200, 900, "light")
        b.open(s.address)
        if not b.value("document.createElement('video').canPlayType('video/mp4; codecs=\"avc1.64001f\"')"):
            print("skipped: this Chromium has no H.264")
            return 77
        asks_for_the_key(b, s)
        fields_are_those_of_the_server(b)
        what_is_refused_is_said(b)
        one_job(b, s)
        side_by_side(b, s)
        any_two_are_compared(b)
        again(b, s)
        files_are_dropped_in(b, s)
        looks_right(b, s)
        away = [r for r in b.requests if not r.startswith((s.address, "data:", f"blob:{s.address}"))]
        check(not away, "requests from elsewhere:", away)
        told = [c for c in b.complaints if "status of 40" not in c and "willReadFrequently" not in c]  # both are of this test
        check(not told, "on the console:", told)
    finally:
        b.close()
        s.close()
    print("serve: its key, a form, jobs as they go on, side by side, again, files, the look")
    return 0


if __name__ == "__main__":
    sys.exit(main())
