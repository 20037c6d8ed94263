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
NAME = HOSTILE.replace("/", "") + ".safetensors"
ELEMENTS = "document.querySelectorAll('body :is(b, i, [onerror], [src=x], script:not([src]))').length"  # made of text
LOADED = "videos.length === 2 && videos.every(v => ready(v) && !v.seeking)"
CARDS = "document.querySelectorAll('#%s .card:not(:has(.alarm))').length"
SMALL = {"size": "64x64", "frames": "5", "steps": "2", "cfg_scale": "1"}
CAN_BE_USED = "button, input, select, textarea, a[href], summary, video, [tabindex='0']"

# Elements without a name for screen readers.
NAMELESS = """[...document.querySelectorAll('input:not([hidden]), select, textarea, button, progress, video, img, canvas')].filter(e =>
  !(e.getAttribute('aria-label') || e.alt || (e.labels && [...e.labels].some(l => l.textContent.trim())) || e.textContent.trim() && e.tagName === 'BUTTON'))
  .map(e => e.outerHTML.slice(0, 80))"""

# Text whose contrast to its background is below 4.5, the least that WCAG allows, with that contrast.
FAINT = """(() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => parts(colour).slice(0, 3).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((n, v, i) => n + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => !e ? 'rgb(255, 255, 255)' : parts(getComputedStyle(e).backgroundColor)[3] === 0 ? behind(e.parentElement) :
    getComputedStyle(e).backgroundColor;
  const bad = [];
  for (const e of document.querySelectorAll('body, body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()), hint = e.placeholder;
    if (!(own || hint || e.matches('input:not([type=range]), select')) || !e.checkVisibility() || e.disabled) continue;
    for (const style of [getComputedStyle(e), ...hint ? [getComputedStyle(e, '::placeholder')] : []]) {
      const [most, least] = [style.color, behind(e)].map(light).sort((a, b) => b - a), contrast = (most + 0.05) / (least + 0.05);
      if (!(contrast >= 4.5)) bad.push([contrast.toFixed(2), e.outerHTML.slice(0, 60)]);
    }
  }
  return bad;
})()"""


def check(so, *what):
    if not so:
        raise AssertionError(" ".join(map(str, what)))


class Server:
    """One that needs a key, with a job that failed before, and whose names are hostile."""

    def __init__(self, program):
        with open("key", "w", encoding="utf-8") as f:
            f.write(KEY)
        os.makedirs(f"models/{NAME}")
        os.makedirs("loras")
        with open(f"loras/{NAME}", "w", encoding="utf-8"):
            pass
        failed = {"id": "0" * 32, "status": "failed", "number": 1, "attempts": 2, "created_at": 1, "started_at": 1, "finished_at": 1,
                  "settings": {"prompt": HOSTILE, "negative_prompt": HOSTILE, "model": NAME, "lora": [NAME]}, "inputs": [], "files": [],
                  "made": {HOSTILE: {HOSTILE: HOSTILE}, "attention": HOSTILE}, "notices": [HOSTILE], "error": HOSTILE}
        os.makedirs(f"served/jobs/{failed['id']}")
        with open(f"served/jobs/{failed['id']}/job.json", "w", encoding="utf-8") as f:
            json.dump(failed, f)
        self.command = [program, "serve", "--backend", "cpu", "--api-key-file", "key", "--models", "models", "--loras", "loras",
                        "--max-queue", "3", "-o", "served", "--port"]
        self.start("0")

    def start(self, port):
        self.process = subprocess.Popen([*self.command, port], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            found = re.search(r"^serving .* (http://[^;]*:(\d+)/);", line)
            if found:
                break
        check(found, "it does not serve")
        self.address, self.port = found[1], found[2]

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


def say_key(b, key):
    b.wait("$('lock').open")
    b.value(f"$('key').value = {key!r}; $('key').focus()")
    b.key("Enter", "\r")


def asks_for_the_key(b, s):
    with urllib.request.urlopen(s.address) as page:
        policy = page.headers["Content-Security-Policy"]
    check("default-src 'none'; script-src 'self'; style-src 'self';" in policy and "unsafe" not in policy, policy)
    b.open(s.address)
    say_key(b, "no")
    b.wait("!$('wrong-key').hidden && $('key').value === ''")
    b.key("Escape")
    b.wait("$('lock').open")
    say_key(b, KEY)
    b.wait("document.querySelector('#fields select') !== null && document.querySelector('#gallery .alarm') !== null")
    check(b.value("document.querySelector('#gallery .alarm').textContent") == HOSTILE, "what a job failed by")


def text_stays_text(b):
    """A job's prompt, settings and error, in its card, in its settings and in the form."""
    said = b.value("document.querySelector('#gallery .card').innerText")
    check(said.count("<img") == 5, said)  # prompt, model, notice, error, attention
    press(b, "#gallery summary")
    b.wait("document.querySelector('#gallery table') !== null")
    check(HOSTILE in b.value("document.querySelector('#gallery table').innerText"))
    press(b, "#gallery .edit")
    form = b.value("['prompt', 'negative_prompt', 'model', 'lora'].map(n => $('order').elements[n].value)")
    check(form == [HOSTILE, HOSTILE, NAME, NAME], form)
    check(b.value(ELEMENTS) == 0 and b.value("document.title") == "sparge-gen", "text became elements")
    check(b.value("document.querySelectorAll('#work [role=alert], #work [aria-live]').length") == 0, "what is old is read out")
    press(b, "#gallery summary")


def fields_are_those_of_the_server(b):
    check(b.value("$('order').elements.size.placeholder") == "256x256")
    check(b.value("[...$('order').elements.model.options].map(o => o.textContent)") == ["tiny-wan", NAME])
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


def progress_is_not_read_out(b):
    b.value("""globalThis.read = [];
      for (const e of document.querySelectorAll('[role=status], [role=alert], [aria-live]'))
        new MutationObserver(() => read.push(e.textContent)).observe(e, {childList: true, characterData: true, subtree: true})""")
    done = b.value("document.querySelector('progress').value")
    b.wait(f"document.querySelector('progress').value > {done} + 3")
    check(b.value("read") == [], b.value("read"))
    for motion, by in (("reduce", 0), ("no-preference", 1)):
        b.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": motion}])
        check(b.value("(before => { turn(); return tick - before; })(tick)") == by, "previews move, or do not:", motion)


def one_job(b, s):
    hold(b)
    b.wait("document.querySelector('.view img')?.naturalWidth > 0 && document.querySelector('progress').value > 0")
    check(b.value("(v => Math.abs(v.clientWidth / v.clientHeight - 2) < 0.05)(document.querySelector('.view'))"), "a preview's shape")
    b.wait("/denoising, \\d+ of 1000, [\\d.]+ (s|min) left/.test(document.querySelector('.cell').innerText)")
    check(b.value("(v => Math.abs(v.offsetWidth / v.parentElement.clientWidth - cells.get(watched.id).count) < 0.01)"
                  "(document.querySelector('.view img'))"), "a frame is not as wide as its place")
    check(b.value("document.title") == "(1) sparge-gen")
    progress_is_not_read_out(b)
    fill(b, HOSTILE, **SMALL)
    b.value("$('prompt').focus()")
    b.key("Enter", "\r", CTRL)
    has(b, 2, 0)
    settings = s.jobs()[1]["settings"]
    check(settings["prompt"] == HOSTILE and settings["seed"] > 0, settings)
    check(b.value("[...document.querySelectorAll('#queue h3')].map(e => e.textContent)") == ["it takes long", HOSTILE])
    check(b.value(ELEMENTS) == 0, "text became elements")
    let_go(b)
    has(b, 0, 1)
    b.wait("document.querySelector('#gallery video').readyState > 1")
    b.wait("$('status').textContent.startsWith('completed: <img')")
    press(b, "#gallery summary")
    b.wait("document.querySelector('#gallery td')?.innerText.startsWith('sparge-gen ')")
    notices = s.jobs()[-1]["notices"]
    check(any("'img'" in n for n in notices), "none of words that the model never saw", notices)
    check(b.value("[...document.querySelectorAll('#gallery .card:first-child .notice')].map(e => e.textContent)") == notices)


def side_by_side(b, s):
    hold(b)
    order(b, "a ball", attention="both", **SMALL | {"size": "128x128"})
    has(b, 2, 1)
    first, second = (j["settings"] for j in s.jobs()[-2:])
    check((first["attention"], second["attention"]) == ("dense", "sparge") and first["seed"] == second["seed"], first, second)
    check(b.value("$('queue').innerText.includes('next') && $('queue').innerText.includes('1 clip before it')"))
    let_go(b)
    has(b, 0, 2)
    check(b.value("$('gallery').innerText.includes('sparse, ran dense')"), "too short for sparse attention")
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


def what_sparse_saves_is_said(b, s):
    order(b, "a ball", attention="both", **SMALL | {"size": "256x256", "frames": "13"})
    has(b, 0, 3)
    dense, sparse = (j["files"][0]["seconds"]["denoise"] for j in s.jobs()[-2:])
    said = b.value("document.querySelector('#gallery .saved').textContent")
    check(f": {dense / sparse:.2f}\u00d7" in said, said, dense, sparse)
    check(b.value("document.querySelectorAll('#gallery .saved').length") == 1, "of two that were dense")
    press(b, "#gallery .card:first-child .cell:last-child .act button:last-child", 2)
    b.wait("document.querySelectorAll('#gallery .card:first-child .cell').length === 1")
    check(b.value("document.activeElement.closest('#gallery .card:first-child') !== null"), "where is the focus?")
    press(b, "#gallery .card:first-child .cell:last-child .act button:last-child", 2)
    has(b, 0, 2)
    check(b.value("document.activeElement.id") == "gallery-title", "where is the focus?")


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
    b.wait("document.querySelector('#inputs figure:last-child p') !== null")
    b.value("$('order').requestSubmit()")
    b.wait("$('problem').textContent.startsWith('video: ') && document.activeElement.id === 'file'")
    press(b, "#inputs figure:last-child button")
    press(b, "#inputs figure:last-child button")
    b.value("$('order').requestSubmit()")
    has(b, 0, 3)
    check(s.jobs()[-1]["inputs"] == ["image"], s.jobs()[-1])
    b.open(s.address)
    has(b, 0, 3)
    press(b, "#gallery .again")
    has(b, 0, 4)
    read = lambda j: open(f"served/jobs/{j['id']}/image", "rb").read()
    check(read(s.jobs()[-1]) == read(s.jobs()[-2]), "without its picture")
    press(b, "#gallery .edit")
    b.wait("document.querySelector('#inputs img')?.naturalWidth === 64")
    check(b.value("[$('prompt').value, $('order').elements.size.value, ...inputs.keys()]") == ["begun", "64x64", "image"])


def a_full_queue_takes_both_or_none(b, s):
    hold(b)
    for prompt in ("second", "third"):
        order(b, prompt, **SMALL)
    jobs = [j["id"] for j in s.jobs()]
    order(b, "two at once", attention="both", **SMALL)
    check(b.value("$('problem').textContent").startswith("the queue is full"), b.value("$('problem').textContent"))
    check(b.value("$('status').textContent") == "" and [j["id"] for j in s.jobs()] == jobs, "one of two")
    for left in (2, 1):
        press(b, "#queue .card:last-child button", 2)
        has(b, left, 4)
    let_go(b)
    has(b, 0, 4)


def a_server_goes_and_comes(b, s):
    s.close()
    order(b, "a ball", **SMALL)
    check(b.value("$('problem').textContent") == "The server does not answer.", b.value("$('problem').textContent"))
    b.wait("$('status').textContent === 'The server does not answer. The page tries again.'")
    s.start(s.port)
    say_key(b, KEY)
    b.wait("$('status').textContent === ''")
    b.value("$('order').requestSubmit()")
    has(b, 0, 5)
    check(s.jobs()[-1]["settings"]["prompt"] == "a ball" and b.value("$('problem').hidden"))


def all_of_a_job_is_there(b):
    """Two pictures of one job, and a clip that no browser shows."""
    order(b, "two", **SMALL | {"frames": "1", "batch": "2", "output_format": "jpeg"})
    has(b, 0, 6)
    b.wait("[...document.querySelectorAll('#gallery .card:first-child img')].filter(i => i.naturalWidth === 64).length === 2")
    links = b.value("[...document.querySelectorAll('#gallery .card:first-child a')].map(a => a.href)")
    check(len(set(links)) == 2, links)
    order(b, "raw", **SMALL | {"output_format": "y4m"})
    has(b, 0, 7)
    b.wait("document.querySelector('#gallery .card:first-child .view')?.textContent === 'This browser cannot show it.'")


def keys_alone_do_all(b):
    """Tab goes to each control, and the focus is visible there; within a video the browser shows it. Keys open two clips,
    move the line between them, and close them."""
    hold(b)
    b.value("globalThis.met = new Set(); document.activeElement.blur()")
    for _ in range(400):
        b.key("Tab")
        again, outline = b.value("""(e => {
          const again = e === [...met][0], {outlineStyle, outlineWidth} = getComputedStyle(e);
          met.add(e);
          const seen = e.matches('body, video:not(:focus-visible)') || outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
          return [again, seen ? '' : e.outerHTML.slice(0, 80)];
        })(document.activeElement)""")
        check(not outline, "the focus is not seen:", outline)
        if again and b.value("met.size") > 1:
            break
    missed = b.value(f"""[...document.querySelectorAll("{CAN_BE_USED}")].filter(e => e.checkVisibility() && !met.has(e))
      .map(e => e.outerHTML.slice(0, 80))""")
    check(not missed, "Tab passes by", missed)
    let_go(b)
    has(b, 0, 7)
    b.value("document.querySelector('button.both').focus()")
    b.key("Enter", "\r")
    b.wait(f"viewer.open && {LOADED}")
    while b.value("document.activeElement.id") != "line":
        b.key("Tab")
    b.key("ArrowRight")
    check(b.value("document.activeElement.value") == "51")
    b.key("Escape")
    b.wait("!viewer.open && document.activeElement.className === 'both'")


def looks_right(b, s):
    colours = set()
    hold(b)
    order(b, "a ball", sigmas="1,2", size="128x64")
    for width, theme in ((390, "light"), (390, "dark"), (1280, "light"), (1280, "dark")):
        b.look(width, 844, theme)
        b.value("$('more').open = true; for (const e of document.querySelectorAll('.cell details')) e.open = true")
        check(b.value("document.documentElement.scrollWidth") <= width, "wider than the screen")
        wide = [w for w in b.wider(width) if not w.startswith("IMG")]  # but a preview's other frames, which are cut off
        check(not wide, wide)
        check(b.value(NAMELESS) == [], b.value(NAMELESS))
        b.value("scrollTo(0, 0)")
        check(width < 1000 or b.value("$('render').getBoundingClientRect().bottom <= innerHeight"), "the button is below the screen")
        check(b.value(FAINT) == [], theme, b.value(FAINT))
        colours.add(b.value("getComputedStyle(document.body).backgroundColor"))
        press(b, "button.both")
        b.wait(f"viewer.open && {LOADED}")
        check(b.value("viewer.scrollWidth <= viewer.clientWidth"), "the two clips are wider than their place at", width)
        check(b.value(FAINT) == [], theme, b.value(FAINT))
        b.value("viewer.close()")
        b.wait("videos.length === 0")
    check(len(colours) == 2, "no dark page")
    let_go(b)
    has(b, 0, 7)


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
        text_stays_text(b)
        fields_are_those_of_the_server(b)
        what_is_refused_is_said(b, s)
        one_job(b, s)
        side_by_side(b, s)
        what_sparse_saves_is_said(b, s)
        any_two_are_compared(b)
        again(b, s)
        files_are_dropped_in(b, s)
        a_full_queue_takes_both_or_none(b, s)
        a_server_goes_and_comes(b, s)
        all_of_a_job_is_there(b)
        keys_alone_do_all(b)
        looks_right(b, s)
        away = [r for r in b.requests if not r.startswith((s.address, "data:", f"blob:{s.address}"))]
        check(not away, "requests from elsewhere:", away)
        unexpected = [c for c in b.complaints if not re.search("status of 4|ERR_CONNECTION_REFUSED", c)]  # but what was refused here
        check(not unexpected, "on the console:", unexpected)
    finally:
        b.close()
        if s:
            s.close()
    print("serve: its key, a form, jobs as they go on, side by side, again, files, the look")
    return 0


if __name__ == "__main__":
    sys.exit(main())
