#!/usr/bin/env python3
"""Clients of `sparge-gen serve`, good and hostile. usage: serve_clients.py PROGRAM [--minutes M] [--memory MIB]

Part one: 200 requests of 20 clients. Each gets its own result, whole; no job is lost or doubled; they end in the order
in which they came. Part two, M minutes: clients of every kind in `hostile`, and good ones among them, which are
answered as before. Meanwhile the server keeps to its limits of memory, open files and disk; it stops cleanly in the
end."""
import argparse
import base64
import http.client
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import zlib

CLIENTS, REQUESTS, QUEUE, DISK = 20, 200, 15, 64 << 20
PATIENCE = 300  # seconds that something may take on a busy machine
CONNECTIONS = 256  # SG_HTTP_LIMITS, as what follows
UPLOADS = 512 << 20
# In MiB. Of a connection, libmicrohttpd has 68 KiB, and the head is copied, twice 32 KiB. The bodies of all requests
# have 64 MiB, in buffers that double as they grow, and once more as JSON. The largest answers are lists of 100 jobs,
# 256 KiB.
MEMORY = CONNECTIONS * (132 + 256) // 1024 + 3 * 64


# ---- good clients ----


def check_png(data, width, height, settings):
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:40]
    at, pixels, made = 8, b"", None
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        body, (crc,) = data[at + 8 : at + 8 + size], struct.unpack(">I", data[at + 8 + size : at + 12 + size])
        assert zlib.crc32(kind + body) == crc, kind
        at += 12 + size
        if kind == b"IHDR":
            assert struct.unpack(">IIBB", body[:10]) == (width, height, 8, 2), body
        elif kind == b"IDAT":
            pixels += body
        elif body.startswith(b"sparge-gen\0"):
            made = json.loads(body[15:])
    assert kind == b"IEND" and len(zlib.decompress(pixels)) == height * (1 + 3 * width)
    check_settings(made, settings)


def check_mp4(data):
    kinds, at = [], 0
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        kinds.append(kind)
        at += size or len(data)
    assert at == len(data) and {b"ftyp", b"moov", b"mdat"} <= set(kinds), kinds


def check_settings(got, settings):
    assert all(got[key] == value for key, value in settings.items()), (got, settings)


class Server:
    def __init__(self, program, folder):
        self.folder, self.log = folder, os.path.join(folder, "log")
        with open(self.log, "w", encoding="utf-8") as log:
            machine = ["--backend", "cpu", "--threads", "1", "--memory-limit", "600M"]
            limits = ["--max-queue", str(QUEUE), "--max-upload", "4M", "--max-disk", str(DISK)]
            self.process = subprocess.Popen(
                [program, "serve", "--port", "0", "-o", folder] + machine + limits,
                stderr=log,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
        wait_for(lambda: self.lines(r"serving .*:(\d+)/;") or self.process.poll() is not None)
        self.port = int(self.lines(r"serving .*:(\d+)/;")[0])
        self.lock, self.refused, self.seconds = threading.Lock(), 0, []

    def lines(self, pattern):
        with open(self.log, encoding="utf-8") as log:
            return re.findall(pattern, log.read())

    def ask_once(self, method, path, body, headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        c.request(method, path, body, headers | {"Connection": "close"})
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, r.headers, data

    def ask(self, method, path, body=None, want=200):
        """Repeats a request until the server has room for it."""
        start = time.monotonic()
        headers = {"Content-Type": "application/json"} if body else {}
        while True:
            status, head, data = self.ask_once(method, path, json.dumps(body) if body else None, headers)
            if status not in (429, 503):
                break
            assert int(head["Retry-After"]) > 0 and time.monotonic() - start < PATIENCE, data
            with self.lock:
                self.refused += 1
            time.sleep(random.uniform(0.2, 1))
        assert status == want, (method, path, status, data[:500])
        if head["Content-Type"] == "application/json":
            data = json.loads(data)
        return data

    def image(self, settings, url):
        body = settings | {"size": "32x48", "response_format": "url" if url else "b64_json"}
        answer = self.ask("POST", "/v1/images/generations", body)
        (one,) = answer["data"]
        if url:
            where = urllib.parse.urlsplit(one["url"])
            data = self.ask("GET", where.path + "?" + where.query)
        else:
            data = base64.b64decode(one["b64_json"], validate=True)
        check_png(data, 32, 48, settings)

    def job(self, settings, events):
        settings = settings | {"width": 48, "height": 32, "frames": 5}
        made = self.ask("POST", "/jobs", settings | {"output_format": "mp4" if self.mp4 else "y4m"}, want=202)
        if events:
            text = self.ask("GET", f"/jobs/{made['id']}/events").decode()
            states = [json.loads(data)["status"] for data in re.findall(r"^event: job\ndata: (.*)$", text, re.M)]
            assert states[-1] == "completed" and text.endswith("\n\n"), text[-500:]
        while (job := self.ask("GET", f"/jobs/{made['id']}"))["status"] in ("queued", "in_progress"):
            time.sleep(0.05)
        assert job["status"] == "completed" and job["id"] == made["id"], job
        check_settings(job["settings"], settings)
        check_settings(job["made"], settings)
        data = self.ask("GET", f"/jobs/{job['id']}/content")
        assert len(data) == job["files"][0]["bytes"], job
        if self.mp4:
            check_mp4(data)
        else:
            assert len(data) > 5 * 48 * 32 * 3 // 2 and data.startswith(b"YUV4MPEG2 ")

    def good(self, name, n):
        start = time.monotonic()
        settings = {"prompt": name, "seed": n, "steps": 2, "cfg_scale": 1.0}
        if n % 2:
            self.image(settings, url=n % 4 == 1)
        else:
            self.job(settings, events=n % 4 == 0)
        with self.lock:
            self.seconds.append(time.monotonic() - start)

    def figures(self):
        s = sorted(self.seconds)
        times = f"median {statistics.median(s):.2f} s, longest {s[-1]:.2f} s"
        text = f"{len(s)} answered, {self.refused} refused for a while; {times}"
        self.seconds, self.refused = [], 0
        return text

    def memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s*(\d+)", status.read())[1]) >> 10

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def disk(self, below):
        """Bytes of the files in a folder; a file that is removed meanwhile counts nothing."""
        total = 0
        for folder, _, names in os.walk(os.path.join(self.folder, below)):
            for name in names:
                try:
                    total += os.stat(os.path.join(folder, name)).st_size
                except FileNotFoundError:
                    pass
        return total


def wait_for(what):
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def together(works):
    """Runs them at the same time, and raises what the first of them raised."""
    failures = []

    def run(work):
        try:
            work()
        except Exception as e:
            failures.append(e)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for e in failures[1:]:
        print(f"also: {e!r}", file=sys.stderr)
    if failures:
        raise failures[0]


def part_one(server):
    each = REQUESTS // CLIENTS
    names = [f"a ball of client {c}, number {i}" for c in range(CLIENTS) for i in range(each)]

    def client(c):
        for n in range(c * each, (c + 1) * each):
            server.good(names[n], n)

    together([lambda c=c: client(c) for c in range(CLIENTS)])
    jobs, page = [], {"has_more": True, "last_id": None}
    while page["has_more"]:
        after = f"&after={page['last_id']}" if page["last_id"] else ""
        page = server.ask("GET", f"/jobs?order=asc&limit=100{after}")
        jobs += page["data"]
    assert sorted(j["settings"]["prompt"] for j in jobs) == sorted(names)
    assert all(j["status"] == "completed" and j["attempts"] == 1 for j in jobs)
    assert all(a["number"] < b["number"] and a["started_at"] <= b["started_at"] for a, b in zip(jobs, jobs[1:]))
    assert server.lines(r"job ([0-9a-f]{32}) completed") == [j["id"] for j in jobs]
    print("200 requests of 20 clients:", server.figures(), flush=True)


# ---- hostile clients: each runs in a process of its own ----


class Hostile:
    def __init__(self, port, end):
        self.port, self.end, self.count, self.last = port, end, 0, 0

    def goes_on(self):
        """Counts a round, and pauses, so that others have some of the processor."""
        self.count += 1
        time.sleep(0.002)
        return time.time() < self.end

    def dial(self, receive=None):
        """Connects from one of many addresses, as one has too few ports. SO_LINGER closes it at once."""
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if receive:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        s.settimeout(PATIENCE)
        self.last = self.last % 250 + 1
        s.bind((f"127.{os.getpid() % 250 + 1}.{self.last}.1", 0))
        s.connect(("127.0.0.1", self.port))
        return s

    def head(self, what, lines=""):
        return f"{what} HTTP/1.1\r\nHost: localhost:{self.port}\r\n{lines}\r\n".encode()

    def tell(self, data, receive=None):
        """Sends data. None: the server closed the connection before it had all."""
        try:
            s = self.dial(receive)
            s.sendall(data)
            return s
        except OSError:
            return None

    def status(self, data):
        """The status and the whole of the answer; None: there was none."""
        s = self.tell(data)
        try:
            answer = b""
            while s and (more := s.recv(65536)):
                answer += more
        except OSError:
            pass
        if s:
            s.close()
        found = re.match(rb"HTTP/1\.1 (\d+)", answer)
        return (int(found[1]) if found else None), answer


JSON = "Content-Type: application/json\r\n"
FORM = "Content-Type: multipart/form-data; boundary=ab\r\n"
FILE = b'--ab\r\nContent-Disposition: form-data; name="video"; filename="../../x"\r\n\r\n'


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def cuts_bodies(h):
    field = b'--ab\r\nContent-Disposition: form-data; name="prompt"\r\n\r\n'
    heads = [(JSON, b'{"prompt": "'), (FORM, FILE), (FORM, field)]
    while h.goes_on():
        lines, begin = random.choice(heads)
        length = random.choice([100, 60000, 900000])
        framing = random.choice([f"Content-Length: {length}\r\n", "Transfer-Encoding: chunked\r\n"])
        body = begin + b"x" * random.randrange(length // 2)
        s = h.tell(h.head("POST /jobs", lines + framing) + (body if framing[0] == "C" else chunk(body)))
        if s and random.random() < 0.3:
            s.shutdown(socket.SHUT_WR)
            time.sleep(0.05)
        if s:
            s.close()


def guesses_ids(h):
    paths = ["GET /jobs/%s", "DELETE /jobs/%s", "GET /jobs/%s/content", "GET /jobs/%s/events", "GET /v1/videos/%s"]
    while h.goes_on():
        name = "%032x" % random.getrandbits(128)
        status, answer = h.status(h.head(random.choice(paths) % name, "Connection: close\r\n"))
        assert status in (404, 503, None), answer


def climbs(h):
    up = ["..", "%2e%2e", "..%2f..", "%2e%2e%2f", "....//", "..%5c", "..%c0%af", "%00", "/etc", "..;", "~root", "{id}"]
    paths = ["/%s", "/jobs/%s", "/jobs/%s/content", "/jobs/x/content?index=%s", "/jobs?after=%s", "/v1/videos/%s"]
    while h.goes_on():
        tail = "/".join(random.choices(up, k=random.randrange(1, 6)))
        tail += random.choice(["", "/etc/passwd", "%2fetc%2fpasswd"])
        status, answer = h.status(h.head("GET " + random.choice(paths) % tail, "Connection: close\r\n"))
        assert status in (200, 400, 404, 503, None) and b"root:" not in answer, answer


def holds_connections(h):
    """Holds 10,000 silent connections, or as many as this process may have open, for ten seconds."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = min(10000, most if most >= 0 else 10000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    while h.goes_on():
        held = []
        for _ in range(most - 50):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.setblocking(False)
            h.last = h.last % 250 + 1
            s.bind((f"127.{os.getpid() % 250 + 1}.{h.last}.2", 0))
            s.connect_ex(("127.0.0.1", h.port))
            held.append(s)
            h.count += 1
        time.sleep(min(10, max(0, h.end - time.time())))
        for s in held:
            s.close()
        time.sleep(min(10, max(0, h.end - time.time())))


def sends_gigabytes(h):
    endless = [
        (h.head("GET /jobs", "X: ")[:-4], b"x" * 65536),
        (b"GET /", b"x" * 65536),
        (h.head("GET /jobs")[:-2], b"A: b\r\n" * 10922),
        (h.head("POST /jobs", JSON + "Transfer-Encoding: chunked\r\n"), chunk(b" " * 65536)),
        (h.head("POST /jobs", JSON + "Content-Length: 1073741824\r\n"), b" " * 65536),
        (h.head("POST /jobs", FORM + "Transfer-Encoding: chunked\r\n") + chunk(FILE), chunk(bytes(65536))),
    ]
    while h.goes_on():
        begin, block = random.choice(endless)
        s, sent = h.tell(begin), 0
        try:
            while s and sent < 1 << 30:
                s.sendall(block)
                sent += len(block)
        except OSError:
            pass
        assert sent < 64 << 20, f"the server took {sent} bytes of {begin[:40]}"
        if s:
            s.close()


def writes_slowly(h):
    begins, slow = [b"", b"GET /jobs?"], []
    begins += [h.head("POST /jobs", kind + "Content-Length: 10000\r\n") for kind in (JSON, FORM)]
    while h.goes_on():
        if len(slow) < 100:
            slow.append(h.tell(random.choice(begins)))
        for s in slow:
            try:
                s.send(b"a")
            except (OSError, AttributeError):
                slow.remove(s)
        time.sleep(0.1)


def reads_slowly(h):
    slow, paths = [], ["/jobs?limit=100", "/options", "/page.js", "/metrics", "/jobs/ID/events", "/jobs/ID/content"]
    while h.goes_on():
        _, answer = h.status(h.head("GET /jobs?limit=1", "Connection: close\r\n"))
        found = re.search(rb'"id":"([0-9a-f]+)"', answer)
        path = random.choice(paths).replace("ID", found[1].decode() if found else "x")
        slow.append(h.tell(h.head("GET " + path), receive=4096))
        if len(slow) > 60:
            old = slow.pop(0)
            if old:
                old.close()


def sends_noise(h):
    good = [
        h.head("POST /jobs", JSON + "Content-Length: 18\r\nConnection: close\r\n") + b'{"promp": "a ball"}',
        h.head("POST /v1/images/edits", FORM + "Content-Length: 90\r\n") + FILE + b"x\r\n--ab--\r\n",
        h.head("GET /jobs/%032x/content" % 1, "Range: bytes=0-1\r\nCookie: a=b\r\nOrigin: http://a\r\n"),
        h.head("POST /login", JSON + "Transfer-Encoding: chunked\r\n") + chunk(b'{"a":') + chunk(b"1}") + chunk(b""),
        bytes(range(256)),
    ]
    bits = [b"\r\n", b"\0", b" ", b":", b"%", b"\xff", b"9999999999", b"\r\n\r\n", b""]
    while h.goes_on():
        data = bytearray(random.choice(good) * random.randrange(1, 4))
        for _ in range(random.randrange(20)):
            at = random.randrange(len(data))
            data[at : at + random.randrange(3)] = random.choice(bits)
        s = h.tell(bytes(data))
        if s:
            s.close()


def asks_too_much(h):
    def text(v):
        v = json.dumps(v) if isinstance(v, dict) else v
        return h.head("POST /jobs", JSON + f"Content-Length: {len(v)}\r\nConnection: close\r\n") + v.encode()

    file = FILE + random.randbytes(1 << 20) + b"\r\n--ab--\r\n"
    large = FILE + bytes(5 << 20) + b"\r\n--ab--\r\n"
    field = b'--ab\r\nContent-Disposition: form-data; name="f%d"\r\n\r\nx\r\n'
    fields = b"".join(field % i for i in range(500)) + b"--ab--\r\n"
    wishes = [
        text({"prompt": "a", "size": "4096x4096", "frames": 1001}),
        text({"prompt": "b" * 1000000, "steps": 1}),
        text({"prompt": "b", "negative_prompt": "b" * 500000, "steps": 1}),
        text({"prompt": "a", "image": "/etc/passwd"}),
        text({"prompt": "a", "output": "/tmp/x"}),
        text({"prompt": "a", "model": "../../etc"}),
        text({"prompt": "a", "lora": ["x"] * 5000}),
        text("[" * 100000),
        text('{"a":' * 50000),
        text('{"prompt": "a", ' + ",".join(f'"x{i}": 1' for i in range(50000)) + "}"),
        text("1e99999"),
    ]
    for form in (file, large, fields):
        wishes.append(h.head("POST /jobs", FORM + f"Content-Length: {len(form)}\r\nConnection: close\r\n") + form)
    while h.goes_on():
        status, answer = h.status(random.choice(wishes))
        assert status in (400, 413, 429, 503, None), answer[:1000]


def leaves(h):
    wish = json.dumps({"prompt": "nobody waits", "size": "32x32", "steps": 1, "cfg_scale": 1}).encode()
    bad = json.dumps({"prompt": "nobody waits", "stepz": 1}).encode()
    while h.goes_on():
        for body in [wish] + 20 * [bad]:
            s = h.tell(h.head("POST /v1/images/generations", JSON + f"Content-Length: {len(body)}\r\n") + body)
            if s:
                s.close()
        time.sleep(0.2)


def comes_from_elsewhere(h):
    while h.goes_on():
        what = random.choice(["GET /jobs", "POST /jobs", "GET /options", "GET /metrics"])
        line = random.choice(["Origin: https://evil.example\r\n", "Sec-Fetch-Site: cross-site\r\n", ""])
        head = h.head(what, line + "Connection: close\r\n")
        status, answer = h.status(head if line else head.replace(b"localhost", b"evil.example"))
        assert status in (403, 503, None), answer


hostile = [cuts_bodies, guesses_ids, climbs, holds_connections, sends_gigabytes, writes_slowly, reads_slowly]
hostile += [sends_noise, asks_too_much, leaves, comes_from_elsewhere]


def run_hostile(kind, port, end, counts):
    h = Hostile(port, end)
    kind(h)
    counts.put((kind.__name__, h.count))


# ---- the whole ----


def part_two(server, minutes, more_memory):
    end = time.time() + 60 * minutes
    measure = {
        "MiB of memory": server.memory,
        "open files": server.files,  # a socket of each connection, and an upload or a result
        "bytes of uploads": lambda: server.disk("uploads"),
        "bytes of jobs": lambda: server.disk("jobs"),
    }
    limit = [server.memory() + MEMORY + more_memory, server.files() + 2 * CONNECTIONS + 16, UPLOADS, DISK]
    most = [0] * len(limit)
    counts = multiprocessing.SimpleQueue()
    enemies = [multiprocessing.Process(target=run_hostile, args=(kind, server.port, end, counts)) for kind in hostile]

    def client(c):
        n = 0
        while time.time() < end:
            server.good(f"a good one, {c}, {n}", n)
            n += 1

    def watch():
        while time.time() < end:
            most[:] = (max(old, value()) for old, value in zip(most, measure.values()))
            assert server.process.poll() is None
            time.sleep(0.2)

    for p in enemies:
        p.start()
    together([watch] + [lambda c=c: client(c) for c in range(4)])
    for p in enemies:
        p.join(PATIENCE)
        assert p.exitcode == 0, p
    print("hostile clients:", ", ".join("%s %d" % counts.get() for _ in enemies))
    print("good clients meanwhile:", server.figures())
    print("at most:", ", ".join(f"{m} {name} (limit {l})" for m, l, name in zip(most, limit, measure)), flush=True)
    assert all(m <= l for m, l in zip(most, limit))
    wait_for(lambda: not os.listdir(os.path.join(server.folder, "uploads")))
    wait_for(lambda: "\nsparge_gen_http_connections 1\n" in server.ask("GET", "/metrics").decode())
    counts = re.findall(r"^sparge_gen_http_(\w+)_total (\d+)$", server.ask("GET", "/metrics").decode(), re.M)
    print("the server's counts:", ", ".join(f"{name} {n}" for name, n in counts))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--minutes", type=float, default=0.6)
    parser.add_argument("--memory", type=int, default=0, help="MiB more, for a sanitizer")
    args = parser.parse_args()
    version = subprocess.run([args.program, "--version"], check=True, capture_output=True, text=True).stdout
    if "libmicrohttpd for" not in version:
        print("this build has no server")
        return 77
    folder = tempfile.mkdtemp()
    server = Server(args.program, folder)
    try:
        server.mp4 = ".mp4" in version
        part_one(server)
        part_two(server, args.minutes, args.memory)
        server.good("after all that", 1)
        server.good("after all that", 0)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    except BaseException:
        server.process.kill()
        with open(server.log, encoding="utf-8") as log:
            print(*log.readlines()[-20:], f"exit code {server.process.wait()}", sep="", file=sys.stderr)
        raise
    finally:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
