"""A headless Chromium, driven through a pipe: https://chromedevtools.github.io/devtools-protocol/"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PATIENCE = 60  # seconds


def find():
    """The program, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One page. complaints: whatever it said on its console, exceptions included, and what it failed to load."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp()
        theirs, self.to = os.pipe()
        self.of, answers = os.pipe()
        high = [os.dup(fd) for fd in (theirs, answers)]  # not 3 and 4 themselves
        wiring = f'exec 3<&{high[0]} 4>&{high[1]}; exec "$0" "$@"'
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                 "--mute-audio", "--allow-file-access-from-files", "--disable-background-networking", "--remote-debugging-pipe",
                 f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(["bash", "-c", wiring, program, *flags], pass_fds=high,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for fd in (theirs, answers, *high):
            os.close(fd)
        self.buffer, self.count, self.session, self.complaints, self.requests = b"", 0, None, [], []
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _message(self):
        while b"\0" not in self.buffer:
            if not select.select([self.of], [], [], PATIENCE)[0]:
                raise TimeoutError("the browser does not answer")
            more = os.read(self.of, 1 << 20)
            if not more:
                raise EOFError("the browser has ended")
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def _note(self, event):
        method, p = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(p["exceptionDetails"].get("exception", {}).get("description", str(p)))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(" ".join(str(a.get("value")) for a in p["args"]))
        elif method == "Log.entryAdded":
            self.complaints.append(p["entry"]["text"] + " " + p["entry"].get("url", ""))
        elif method == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])

    def call(self, method, **params):
        self.count += 1
        request = {"id": self.count, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.to, json.dumps(request).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self.count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def open(self, path):
        """A file, or an address."""
        url = path if "://" in path else "file://" + os.path.abspath(path)
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.protocol === '{url.split('/')[0]}'")

    def value(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in r:
            raise RuntimeError(f"{expression}: {r['exceptionDetails']}")
        return r["result"].get("value")

    def wait(self, expression):
        end = time.monotonic() + PATIENCE
        while not self.value(expression):
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {expression}")
            time.sleep(0.05)

    def key(self, key, text=None, modifiers=0):
        codes = {"ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40, " ": 32, "Tab": 9, "Enter": 13, "Escape": 27}
        p = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0), "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown", **p, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **p)

    def mouse(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=int(kind != "mouseReleased"),
                  clickCount=1)

    def look(self, width, height, theme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def wider(self, width):
        """What stands out of a screen of this width, on either side, as text."""
        return self.value("""[...document.querySelectorAll('body *')].filter(e => {
          const r = e.getBoundingClientRect();
          return r.width > 0 && (r.left < -0.5 || r.right > %d + 0.5);
        }).map(e => `${e.tagName}.${e.getAttribute('class')} ${e.textContent.slice(0, 40)}`)""" % width)

    def brightness(self, selector):
        """Mean of red, green and blue, 0 to 255, of what is seen where an element is: the page cannot read its own pixels. It is
        scrolled to; a view of the whole page would be drawn anew, and on a busy machine seen before its pictures are."""
        box = self.value("((e) => { e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
                         f"return {{x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 1}}; }})"
                         f"(document.querySelector({selector!r}))")
        data = self.call("Page.captureScreenshot", clip=box)["data"]
        return self.value("""new Promise(done => {
          const image = new Image();
          image.onload = () => {
            const c = document.createElement('canvas');
            [c.width, c.height] = [image.width, image.height];
            c.getContext('2d').drawImage(image, 0, 0);
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            done(d.reduce((n, v, i) => i % 4 === 3 ? n : n + v, 0) / (d.length / 4 * 3));
          };
          image.src = 'data:image/png;base64,@DATA@';
        })""".replace("@DATA@", data))

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
