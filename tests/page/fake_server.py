"""A server that speaks the JSON of `sparge-gen serve` and renders nothing: what each job makes is one of two clips."""
import base64
import http.server
import json
import os
import re
import struct
import threading
import time
import zlib

POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
          "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
OPTIONS = [
    {"name": "prompt", "kind": "string", "help": "what the video shows"},
    {"name": "negative_prompt", "kind": "string", "help": "what the video should not show; used if cfg_scale is above 1"},
    {"name": "strength", "kind": "number", "lo": 0.001, "hi": 1.0, "help": "how much of the video is replaced"},
    {"name": "fit", "kind": "string", "choices": ["crop", "pad", "stretch"], "help": "how pictures are fitted"},
    {"name": "size", "kind": "WIDTHxHEIGHT", "lo": 1, "hi": 16384, "help": "width and height in pixels", "default": "128x128"},
    {"name": "width", "kind": "integer", "lo": 1, "hi": 16384, "help": "width alone", "default": 128},
    {"name": "height", "kind": "integer", "lo": 1, "hi": 16384, "help": "height alone", "default": 128},
    {"name": "frames", "kind": "integer", "lo": 1, "hi": 100000, "help": "number of frames; 1 makes an image", "default": 9},
    {"name": "strict", "kind": "boolean", "help": "refuse a size or a number of frames that the model cannot render"},
    {"name": "fps", "kind": "integer", "lo": 1, "hi": 1000, "help": "frames per second of the file", "default": 16},
    {"name": "steps", "kind": "integer", "lo": 1, "hi": 1000, "help": "denoising steps", "default": 20},
    {"name": "cfg_scale", "kind": "number", "lo": 0.0, "hi": 1000.0, "help": "guidance scale", "default": 5.0},
    {"name": "seed", "kind": "integer", "help": "seed of the noise"},
    {"name": "attention", "kind": "string", "choices": ["dense", "sage", "sparge"], "help": "dense: exact"},
    {"name": "topk", "kind": "number", "lo": 0.0, "hi": 1.0, "help": "keep this share of each row's blocks"},
    {"name": "output_format", "kind": "string", "choices": ["mp4", "png"], "help": "format of the result"},
]


def picture(width, height, frames, step):
    rows = b"".join(b"\0" + bytes((80 * (x // width) + 30 * step + y + c * 40) % 256 for x in range(width * frames) for c in range(3))
                    for y in range(height))
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", width * frames, height, 8, 2, 0, 0, 0)) +
            part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))


class Server:
    """jobs: all of them, the oldest first. The one at work is at work until finish()."""

    def __init__(self, source, clips, key=None):
        self.jobs, self.number, self.clips, self.key, self.uploads = [], 0, clips, key, {}
        read = lambda *names: b"".join(open(os.path.join(source, "app", n), "rb").read() for n in names)
        self.files = {"/": ("text/html", read("serve/page.html")),
                      "/page.js": ("text/javascript", read("report/report_common.js", "serve/page.js")),
                      "/page.css": ("text/css", read("report/report_style.css", "serve/page.css"))}
        outer, self.changed = self, threading.Condition()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            log_message = lambda *_: None
            do_GET = do_POST = do_DELETE = lambda self: outer.handle(self)

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # browsers close what they have enough of
        self.address = f"http://127.0.0.1:{self.http.server_port}/"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def close(self):
        self.http.shutdown()

    def begin(self):
        with self.changed:
            if not any(j["status"] == "in_progress" for j in self.jobs):
                for j in [j for j in self.jobs if j["status"] == "queued"][:1]:
                    j |= {"status": "in_progress", "started_at": int(time.time()), "attempts": 1,
                          "progress": {"stage": "denoise", "done": 0, "total": 20, "seconds": 0.1, "eta": 12.5}}
            for i, j in enumerate([j for j in self.jobs if j["status"] == "queued"]):
                j["queue_position"] = i
            self.changed.notify_all()

    def progress(self, done):
        with self.changed:
            for j in self.jobs:
                if j["status"] == "in_progress":
                    j["progress"] = {"stage": "denoise", "done": done, "total": 20, "seconds": 1.5, "eta": (20 - done) * 0.6}
            self.changed.notify_all()

    def finish(self, error=None):
        with self.changed:
            for j in self.jobs:
                if j["status"] == "in_progress":
                    s, n = j["settings"], int(j["settings"].get("attention") == "sparge")
                    j |= {"status": "failed" if error else "completed", "finished_at": int(time.time()) + 3, "progress": None, "error": error}
                    if not error:
                        j["files"] = [{"file": "content.mp4", "seed": int(s["seed"]), "bytes": os.path.getsize(self.clips[n])}]
                        j["made"] = {"program": "sparge-gen", "model": {"file": "tiny-wan", "hash": "0123"}, "prompt": s["prompt"],
                                     "width": 128, "height": 128, "frames": 9, "fps": 16, "steps": 20, "seed": int(s["seed"]),
                                     "attention": s.get("attention", "dense")}
                    self.changed.notify_all()
        self.begin()

    def handle(self, r):
        path, _, query = r.path.partition("?")
        body = r.rfile.read(int(r.headers.get("Content-Length", 0)))
        job = next((j for j in self.jobs if f"/jobs/{j['id']}" == "/".join(path.split("/")[:3])), None)
        if path in self.files:
            return self.answer(r, 200, self.files[path][1], self.files[path][0])
        if path == "/login":
            good = json.loads(body)["key"] == self.key
            return self.answer(r, 204 if good else 401, b"", cookie="sparge_gen=1; Path=/; HttpOnly; SameSite=Strict" if good else None)
        if self.key and "sparge_gen=1" not in r.headers.get("Cookie", ""):
            return self.error(r, 401, "this needs the key")
        if path == "/options":
            return self.json(r, 200, {"options": OPTIONS, "inputs": ["image", "last_image", "video"], "models": ["tiny-wan", "<i>other</i>"],
                                      "loras": ["fast.safetensors", "toon.safetensors"]})
        if path == "/jobs":
            return self.post(r, body) if r.command == "POST" else self.list(r, query)
        if not job:
            return self.error(r, 404, "there is no such job")
        if r.command == "DELETE":
            with self.changed:
                self.jobs.remove(job)
                job["status"] = "cancelled" if job["status"] in ("queued", "in_progress") else job["status"]
            self.begin()
            return self.json(r, 200, {"id": job["id"], "deleted": True})
        if path.endswith("/events"):
            return self.events(r, job)
        return self.content(r, self.clips[int(job["settings"].get("attention") == "sparge")])

    def post(self, r, body):
        boundary = re.search("boundary=(.*)", r.headers["Content-Type"])[1].encode()
        settings, inputs, files = {}, [], []
        for part in body.split(b"--" + boundary)[1:-1]:
            head, value = part.split(b"\r\n\r\n", 1)
            name, file = re.search(b'name="([^"]*)"', head)[1].decode(), b"filename=" in head
            if file:
                inputs.append(name)
                files.append(value[:-2])
            else:
                old, v = settings.get(name), value[:-2].decode()
                settings[name] = v if old is None else [old, v]
        if settings.get("steps") == "13":
            return self.error(r, 400, "steps: 13 is unlucky", "steps")
        with self.changed:
            self.number += 1
            job = {"id": os.urandom(16).hex(), "object": "job", "status": "queued", "number": self.number, "attempts": 0,
                   "created_at": int(time.time()), "started_at": 0, "finished_at": 0, "queue_position": 0, "progress": None,
                   "settings": settings, "inputs": inputs, "files": [], "made": None, "error": None}
            self.jobs.append(job)
            self.uploads[job["id"]] = files
        self.begin()
        self.json(r, 202, job)

    def list(self, r, query):
        jobs = [j | {"queue_position": j["queue_position"] if j["status"] == "queued" else None} for j in reversed(self.jobs)]
        limit, after = int(re.search("limit=([0-9]+)", query)[1]), re.search("after=([0-9a-f]+)", query)
        if after:
            jobs = jobs[[j["id"] for j in jobs].index(after[1]) + 1:]
        self.json(r, 200, {"object": "list", "data": jobs[:limit], "has_more": len(jobs) > limit})

    def events(self, r, job):
        r.send_response(200)
        r.send_header("Content-Type", "text/event-stream")
        r.end_headers()
        r.close_connection = True
        send = lambda name, data: (r.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()), r.wfile.flush())
        try:
            while True:
                with self.changed:
                    now = dict(job)
                if now["progress"]:
                    send("progress", now["progress"])
                    send("preview", {"step": now["progress"]["done"], "frames": 3,
                                     "b64_json": base64.b64encode(picture(48, 48, 3, now["progress"]["done"])).decode()})
                if now["status"] != "in_progress":
                    return send("job", now)
                with self.changed:
                    self.changed.wait(5)
        except OSError:
            pass

    def content(self, r, path):
        with open(path, "rb") as f:
            data = f.read()
        part = re.match("bytes=([0-9]+)-([0-9]*)", r.headers.get("Range", ""))
        if not part:
            return self.answer(r, 200, data, "video/mp4")
        first, last = int(part[1]), min(int(part[2] or len(data)), len(data) - 1)
        self.answer(r, 206, data[first:last + 1], "video/mp4", span=f"bytes {first}-{last}/{len(data)}")

    def json(self, r, status, value):
        self.answer(r, status, json.dumps(value).encode(), "application/json")

    def error(self, r, status, text, param=None):
        self.json(r, status, {"error": {"message": text, "type": "invalid_request_error", "param": param, "code": None}})

    @staticmethod
    def answer(r, status, data, kind="text/plain", cookie=None, span=None):
        r.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(data))), ("Content-Security-Policy", POLICY),
                            ("Accept-Ranges", "bytes"), ("Set-Cookie", cookie), ("Content-Range", span)):
            if value:
                r.send_header(name, value)
        r.end_headers()
        if status != 204:
            r.wfile.write(data)
