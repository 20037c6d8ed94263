"""The page of the web server in a browser, with real renders. usage: serve_page.py PROGRAM. Exit code 77 is a skip."""
import json
import os
import re
import subprocess
import sys
import urllib.request

from browser import Browser, find

KEY = "a-key-of-enough-characters"
CTRL = 2
HOSTILE = '<img src=x onerror="document.title=1"></script><b>bold</b> & \u7ea2'
LOADED = "videos.length === 2 && videos.every(v => ready(v) && !v.seeking)"
CARDS = "document.querySelectorAll('#%s .card:not(:has(.alarm))').length"
SMALL = {"size": "64x64", "frames": "5", "steps": "2", "cfg_scale": "1"}

# What has no name that a screen reader could say.
NAMELESS = """[...document.querySelectorAll('input:not([hidden]), select, textarea, button, progress, video, img, canvas')].filter(e =>
  !(e.getAttribute('aria-label') || e.alt || (e.labels && [...e.labels].some(l => l.textContent.trim())) || e.textContent.trim() && e.tagName === 'BUTTON'))
  .map(e => e.outerHTML.slice(0, 80))"""


def check(so, *what):
    if not so:
        raise AssertionError(" ".join(map(str, what)))


class Server:
    """One that needs a key, with a job that failed before."""

    def __init__(self, program):
        with open("key", "w", encoding="utf-8") as f:
            f.write(KEY)
        os.makedirs("models/<i>other")
        failed = {"id": "0" * 32, "status": "failed", "number": 1, "attempts": 2, "created_at": 1, "started_at": 1, "finished_at": 1,
                  "settings": {"prompt": HOSTILE}, "inputs": [], "files": [], "error": HOSTILE}
        os.makedirs(f"served/jobs/{failed['id']}")
        with open(f"served/jobs/{failed['id']}/job.json", "w", encoding="utf-8") as f:
            json.dump(failed, f)
        command = [program, "serve", "--port", "0", "--backend", "cpu", "--api-key-file", "key", "--models", "models", "-o", "served"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"^serving .* (http://[^;]*/);", line)
            if found:
                break
        check(found, "it does not serve")
        self.address = found[1]

    def close(self):
        self.process.terminate()
        said = self.process.communicate()[1]
        check(self.process.returncode == 0, self.process.returncode, said)

    def jobs(self):
        """Those that were made here, the oldest first."""
        request = urllib.request.Request(self.address + "jobs?order=asc&limit=100", headers={"Authorization": f"Bearer {KEY}"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["data"][1:]


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


def hold(b):
    """A job that is at work until it is let go."""
    order(b, "it takes long", size="128x64", frames="17", steps="1000", cache="off")
    b.wait("document.querySelector('#queue progress') !== null")


def let_go(b):
    press(b, "#queue li:has(progress) button", 2)


def asks_for_the_key(b, s):
    with urllib.request.urlopen(s.address) as page:
        policy = page.headers["Content-Security-Policy"]
    check("default-src 'none'; script-src 'self'; style-src 'self';" in policy and "unsafe" not in policy, policy)
    b.open(s.address)
    b.wait("$('lock').open")
    for key, opens in (("no", False), (KEY, True)):
        b.value(f"$('key').value = {key!r}; $('key').focus()")
        b.key("Enter", "\r")
        b.wait("!$('lock').open" if opens else "!$('wrong-key').hidden && $('key').value === ''")
    b.wait("document.querySelector('#fields select') !== null && document.querySelector('#gallery .alarm') !== null")
    check(b.value("document.querySelector('#gallery .alarm').textContent") == HOSTILE, "what a job failed by")


def fields_are_those_of_the_server(b):
    check(b.value("$('order').elements.size.placeholder") == "256x256")
    check(b.value("[...$('order').elements.model.options].map(o => o.textContent)") == ["tiny-wan", "<i>other"])
    check(b.value("['width', 'height'].every(n => !$('order').elements[n])"), "the size twice")
    fill(b, "a ball", steps="0")
    check(not b.value("$('order').checkValidity()"), "steps below their range")
    fill(b, "a ball", topk="2")
    b.value("$('order').requestSubmit()")
    check(b.value("$('more').open && document.activeElement.name") == "topk", "what is wrong is hidden")


def what_is_refused_is_said(b, s):
    order(b, "a ball", sigmas="1,2")
    b.wait("!$('problem').hidden")
    check(b.value("$('problem').textContent").startswith("sigmas: "), b.value("$('problem').textContent"))
    check(b.value("$('order').elements.sigmas.closest('details').open") and not s.jobs())


def one_job(b, s):
    hold(b)
    b.wait("document.querySelector('.view img')?.naturalWidth > 0 && document.querySelector('progress').value > 0")
    check(b.value("(v => Math.abs(v.clientWidth / v.clientHeight - 2) < 0.05)(document.querySelector('.view'))"), "a preview's shape")
    said = b.value("document.querySelector('.cell').innerText")
    check(re.search(r"denoising, \d+ of 1000, [\d.]+ (s|min) left", said), said)
    check(b.value("(v => Math.abs(v.offsetWidth / v.parentElement.clientWidth - cells.get(watched.id).count) < 0.01)"
                  "(document.querySelector('.view img'))"), "a frame is not as wide as its place")
    check(b.value("document.title") == "(1) sparge-gen")
    fill(b, HOSTILE, **SMALL)
    b.value("$('prompt').focus()")
    b.key("Enter", "\r", CTRL)
    has(b, 2, 0)
    settings = s.jobs()[1]["settings"]
    check(settings["prompt"] == HOSTILE and settings["seed"] > 0, settings)
    check(b.value("[...document.querySelectorAll('#queue .said')].map(e => e.textContent)") == ["it takes long", HOSTILE])
    check(b.value("document.querySelectorAll('#work b, #work i, .said *, .alarm *').length") == 0, "text became elements")
    let_go(b)
    has(b, 0, 1)
    b.wait("document.querySelector('#gallery video').readyState > 1")
    b.wait("$('status').textContent.startsWith('completed: <img')")
    press(b, "#gallery summary")
    b.wait("document.querySelector('#gallery td')?.innerText.startsWith('sparge-gen ')")


def side_by_side(b, s):
    hold(b)
    order(b, "a ball", attention="both", **SMALL | {"size": "128x128"})
    has(b, 2, 1)
    first, second = (j["settings"] for j in s.jobs()[-2:])
    check((first["attention"], second["attention"]) == ("dense", "sparge") and first["seed"] == second["seed"], first, second)
    check(b.value("$('queue').innerText.includes('next') && $('queue').innerText.includes('1 clip before it')"))
    let_go(b)
    has(b, 0, 2)
    check(b.value("$('gallery').innerText.includes('sparge, ran dense')"), "too short for sparse attention")
    press(b, "button.both")
    b.wait(f"viewer.open && {LOADED}")
    check(b.value("document.activeElement.id") == "play" and b.value("[frames, fps]") == [5, 16])
    b.value("document.activeElement.blur()")
    b.key(".", ".")
    b.wait(f"frame === 1 && {LOADED}")
    check(b.value("viewer.querySelector('canvas.difference') !== null && viewer.scrollWidth <= viewer.clientWidth"))
    check(b.value(NAMELESS) == [], b.value(NAMELESS))
    b.key("Escape")
    b.wait("!viewer.open && videos.length === 0")


def any_two_are_compared(b):
    """The first is of another prompt: the slider shows one on the left, and the other on the right."""
    buttons = "document.querySelectorAll('button.choose')"
    b.value(f"{buttons}[0].click()")
    check(b.value(f"{buttons}[0].getAttribute('aria-pressed')") == "true")
    b.value(f"{buttons}[2].click()")
    b.wait(f"viewer.open && {LOADED}")
    shown = b.value("""(() => {
      const canvas = document.querySelector('#swipe canvas'), {width, height} = canvas, half = width / 2;
      const pixels = of => of.getContext('2d').getImageData(0, 0, width, height).data, seen = pixels(canvas);
      return videos.map(v => {
        const own = h('canvas', {width, height});
        own.getContext('2d').drawImage(v, 0, 0, width, height);
        const far = pixels(own).map((x, i) => Math.abs(x - seen[i])); /* scaled in parts, it may differ by a little */
        const most = (from, to) => Math.max(...far.filter((_, i) => (i / 4 | 0) % width >= from && (i / 4 | 0) % width < to));
        return [most(0, half - 4) < 16, most(half + 4, width) < 16];
      });
    })()""")
    check(shown == [[True, False], [False, True]], "not one on the left and the other on the right", shown)
    b.value("viewer.close()")
    b.wait("videos.length === 0")
    check(b.value(f"[...{buttons}].every(e => e.getAttribute('aria-pressed') === 'false')"))


def again(b, s):
    before = s.jobs()[-1]["settings"]
    hold(b)
    press(b, "#gallery .again")
    has(b, 2, 2)
    for j, kind in zip(s.jobs()[-2:], ("dense", "sparge")):
        check(j["settings"]["seed"] != before["seed"] and j["settings"] | {"seed": 0} == before | {"seed": 0, "attention": kind}, j)
    last, jobs = "#queue .card:last-child .cell:last-child button", len(s.jobs())
    press(b, last)
    check(len(s.jobs()) == jobs and b.value("document.activeElement.textContent") == "Really cancel", "cancelled at once")
    press(b, last)
    b.wait("document.querySelectorAll('#queue .cell').length === 2")
    let_go(b)
    has(b, 0, 3)
    b.value("(b => { b.click(); b.click(); })([...document.querySelectorAll('#gallery .card button')].find(b => b.textContent === 'Delete'))")
    has(b, 0, 2)
    check(len(s.jobs()) == 3)


def files_are_dropped_in(b, s):
    fill(b, "begun", **SMALL)
    b.value("""(async () => {
      const data = new DataTransfer(), c = h('canvas', {width: 64, height: 64});
      const png = await new Promise(done => c.toBlob(done, 'image/png'));
      for (const name of ['<i>a</i>.png', 'b.png']) data.items.add(new File([png], name, {type: 'image/png'}));
      data.items.add(new File(['no video'], 'c.mp4', {type: 'video/mp4'}));
      $('drop').dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true}));
    })()""")
    b.wait("document.querySelectorAll('#inputs figure').length === 3")
    check(b.value("$('inputs').innerText.includes('<i>a</i>.png') && $('inputs').querySelectorAll('i').length === 0"))
    b.wait("[...document.querySelectorAll('#inputs img')].every(i => i.naturalWidth === 64)")
    check(b.value("[...inputs.keys()]") == ["image", "last_image", "video"])
    press(b, "#inputs figure:last-child button")
    press(b, "#inputs figure:last-child button")
    b.value("$('order').requestSubmit()")
    has(b, 0, 3)
    check(s.jobs()[-1]["inputs"] == ["image"], s.jobs()[-1])
    press(b, "#gallery .again")
    has(b, 0, 4)
    read = lambda j: open(f"served/jobs/{j['id']}/image", "rb").read()
    check(read(s.jobs()[-1]) == read(s.jobs()[-2]), "without its picture")
    check(b.value("document.querySelectorAll('#gallery video').length") == 5)
    b.open(s.address)
    has(b, 0, 4)
    press(b, "#gallery .again")
    check("Add the file again" in b.value("$('problem').textContent") and b.value("$('order').elements.size.value") == "64x64")
    check(b.value("$('order').elements.seed.value") == "" and len(s.jobs()) == 5, "ordered without its pictures")


def looks_right(b, s):
    colours = set()
    hold(b)
    for theme in ("light", "dark"):
        b.look(390, 844, theme)
        b.open(s.address)
        has(b, 1, 4)
        b.wait("document.querySelector('.view img') !== null")
        b.value("$('more').open = true")
        check(b.value("document.documentElement.scrollWidth") <= 390, "wider than the screen")
        wide = [w for w in b.wider(390) if not w.startswith("IMG")]  # but a preview's other frames, which are cut off
        check(not wide, wide)
        check(b.value(NAMELESS) == [], b.value(NAMELESS))
        colours.add(b.value("getComputedStyle(document.body).backgroundColor"))
    check(len(colours) == 2, "no dark page")
    let_go(b)
    has(b, 0, 4)


def main():
    b = Browser(find())
    s = None
    try:
        if not b.value("document.createElement('video').canPlayType('video/mp4; codecs=\"avc1.64001f\"')"):
            print("skipped: this Chromium has no H.264")
            return 77
        s = Server(sys.argv[1])
        b.look(1200, 900, "light")
        asks_for_the_key(b, s)
        fields_are_those_of_the_server(b)
        what_is_refused_is_said(b, s)
        one_job(b, s)
        side_by_side(b, s)
        any_two_are_compared(b)
        again(b, s)
        files_are_dropped_in(b, s)
        looks_right(b, s)
        away = [r for r in b.requests if not r.startswith((s.address, "data:", f"blob:{s.address}"))]
        check(not away, "requests from elsewhere:", away)
        told = [c for c in b.complaints if "status of 40" not in c]  # of what was refused here
        check(not told, "on the console:", told)
    finally:
        b.close()
        if s:
            s.close()
    print("serve: its key, a form, jobs as they go on, side by side, again, files, the look")
    return 0


if __name__ == "__main__":
    sys.exit(main())
