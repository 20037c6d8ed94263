"""sparge_gen as it is installed; python.sh runs it."""
import ctypes as c
import importlib.metadata
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import zlib

import numpy as np
import sparge_gen
from sparge_gen import _library as l

HERE = pathlib.Path(__file__).resolve().parent
TINY = HERE / "../../weights/tiny-wan"
SMALL = dict(width=64, height=64, frames=5, steps=2, seed=1)
LONG = dict(SMALL, steps=1000)
ENDINGS = c.create_string_buffer(200)
l.lib.sg_writer_endings(ENDINGS, c.c_size_t(200))
VIDEO = "mp4" if b".mp4" in ENDINGS.value else "y4m"


def small_model(folder):
    """tiny-wan whose defaults are as small as sparse attention can be."""
    folder = pathlib.Path(folder)
    folder.mkdir()
    for path in TINY.iterdir():
        (folder / path.name).symlink_to(path.resolve())
    settings = json.loads((TINY / "sparge-gen.json").read_text())
    (folder / "sparge-gen.json").unlink()
    (folder / "sparge-gen.json").write_text(json.dumps(dict(settings, width=128, height=128, frames=65, steps=2)))


def pixels(path):
    data, at, rows = path.read_bytes(), 8, b""
    while at < len(data):
        n = int.from_bytes(data[at:at + 4], "big")
        if data[at + 4:at + 8] == b"IDAT":
            rows += data[at + 8:at + 8 + n]
        at += n + 12
    return zlib.decompress(rows)


class Folder(unittest.TestCase):
    """A folder of its own, in which "tiny-wan" is the small one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        small_model("tiny-wan")


class Declarations(unittest.TestCase):
    C = {c.c_int: "int: 1, sg_status", c.c_uint: "unsigned", c.c_int64: "int64_t", c.c_uint64: "uint64_t",
         c.c_bool: "bool", c.c_char_p: "const char *", c.c_double: "double", c.c_float: "float", c.c_size_t: "size_t"}

    def check(self, of, kind, at=""):
        for name, member in kind._fields_:
            place, path = getattr(kind, name), f"(({of} *)0)->{at}{name}"
            self.say(f"offsetof({of}, {at}{name}) == {place.offset + getattr(kind, 'start', 0)}")
            self.say(f"sizeof {path} == {place.size}")
            if member in self.C:
                self.say(f"_Generic({path}, {self.C[member]}: 1)")
            elif issubclass(member, c.Structure):
                if member.__name__.startswith("sg_"):
                    self.say(f"_Generic({path}, {member.__name__}: 1)")
                else:
                    member.start = place.offset
                    self.check(of, member, name + ".")

    def say(self, condition):
        self.lines.append(f'_Static_assert({condition}, "{condition}");')

    def test_they_are_the_headers(self):
        self.lines = ["#include <spargegen/spargegen.h>"]
        structs = [x for name, x in vars(l).items() if name.startswith("sg_")]
        self.assertGreater(len(structs), 12)
        for kind in structs:
            self.check(kind.__name__, kind)
            self.say(f"sizeof({kind.__name__}) == {c.sizeof(kind)}")
        numbers = {name: value for name, value in vars(l).items() if name.startswith("SG_")}
        numbers.update({f"SG_STAGE_{stage.upper()}": i for i, stage in enumerate(l.STAGES)})
        numbers.update({f"SG_TIMED_{stage.upper()}": i for i, stage in enumerate(l.TIMED)})
        numbers.update({error.__doc__.split(":")[0]: error.status for error in l.ERRORS}, SG_E_CANCELLED=len(l.ERRORS),
                       SG_ATTENTION_STAGES=len(l.TIMED))
        for name, value in numbers.items():
            self.say(f"{name} == {value}")
        compile = [os.environ["CC"], "-std=c17", "-fsyntax-only", "-xc", f"-I{os.environ['INCLUDE']}", "-"]
        program = subprocess.run(compile, input="\n".join(self.lines), text=True, capture_output=True)
        self.assertEqual(program.returncode, 0, program.stderr)

    def test_a_star_brings_what_is_public(self):
        names = {}
        exec("from sparge_gen import *", names)
        self.assertEqual(set(names) - {"__builtins__", "Engine", "Progress", "save"}, {"Error", *(e.__name__ for e in l.ERRORS)})

    def test_choices_have_names(self):
        from sparge_gen import _settings
        for name in {*_settings.CHOICES.values(), "step_preset", "cpu_mask", "gpu_mask"}:
            self.assertTrue(l.names(name), name)
        self.assertEqual(l.names("attention")[l.SG_ATTENTION_SPARGE], "sparge")


class Render(Folder):
    def setUp(self):
        super().setUp()
        self.engine = sparge_gen.Engine()
        self.addCleanup(self.engine.close)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def still_usable(self):
        self.assertIsNone(self.engine.report)  # nothing was rendered to its end
        clip = self.engine.render("a red ball", **SMALL)
        with sparge_gen.Engine() as fresh:
            np.testing.assert_array_equal(clip, fresh.render("a red ball", **SMALL))

    def test_frames_are_those_of_the_command(self):
        for name, arguments, settings in (
                ("usual", "--steps 2 --sampler euler --size 64x64 --frames 5",
                 dict(steps=2, sampler="euler", width=64, height=64, frames=5)),
                ("dense", "--steps 1 --attention dense --threads 2", dict(steps=1, attention="dense")),
                ("sparse", "--steps 1 --attention sparge --topk 0.3 --dense-steps 0 --dense-layers 1 --order row",
                 dict(steps=1, attention="sparge", topk=0.3, dense_steps=0, dense_layers="1", order="row"))):
            with self.subTest(name):
                arguments += " -q -m tiny-wan --seed 7 -o theirs-%03d.png"
                subprocess.run([os.environ["PROGRAM"], "-p", "a red ball", *arguments.split()], check=True,
                               stdout=subprocess.DEVNULL)
                clip = self.engine.render("a red ball", seed=7, **settings)
                self.assertEqual((clip.dtype, clip.flags.writeable), (np.uint8, True))
                sparge_gen.save("ours-%03d.png", clip)
                for i in range(1, len(clip) + 1):
                    self.assertEqual(*(pixels(pathlib.Path(f"{who}-{i:03d}.png")) for who in ("ours", "theirs")))
                counts = self.engine.report.attention
                self.assertEqual(counts.shape, (settings["steps"], 2, 6))
                ran = counts[0, 0]["blocks"] > counts[0, 0]["kept"]
                self.assertEqual(ran.tolist(), [name == "sparse" and layer != 1 for layer in range(6)])

    def test_progress(self):
        seen = []
        clip = self.engine.render("a red ball", seen.append, preview_every=1, **SMALL)
        self.assertEqual(clip.shape, (5, 64, 64, 3))
        self.assertEqual([e.stage for e in seen if e.done == 0], "load text load denoise load decode".split())
        for before, after in zip(seen, seen[1:]):
            self.assertTrue(after.done == 0 or after.stage == before.stage and after.done >= before.done)
        self.assertTrue(all(e.done <= e.total for e in seen if e.done))
        previews = [e for e in seen if e.preview is not None]
        self.assertEqual([(e.stage, e.done, e.total) for e in previews], [("denoise", 1, 2), ("denoise", 2, 2)])
        self.assertEqual((previews[0].preview.ndim, previews[0].preview.dtype), (4, np.uint8))

        render = self.engine.stream("a red ball", **SMALL)
        streamed = list(render)
        self.assertEqual(streamed[-1], ("decode", 2, 2, None))
        np.testing.assert_array_equal(render.frames, clip)

    def test_what_progress_raises_ends_it(self):
        def progress(event):
            if event.stage == "denoise" and event.done == 1:
                raise KeyError("mine")
        with self.assertRaisesRegex(KeyError, "mine"):
            self.engine.render("a red ball", progress, **LONG)
        self.still_usable()

    def test_a_loop_that_is_left_ends_it(self):
        for event in self.engine.stream("a red ball", **LONG):
            if event.stage == "denoise":
                break
        self.still_usable()

    def test_interrupt(self):
        denoises = threading.Event()

        def interrupt():
            denoises.wait()
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            self.engine.render("a red ball", lambda e: e.stage == "denoise" and denoises.set(), **LONG)
        thread.join()
        self.still_usable()

    def test_close_ends_it(self):
        closing = threading.Thread(target=self.engine.close)
        with self.assertRaises(sparge_gen.CancelledError):
            self.engine.render("a red ball", lambda e: e.stage == "denoise" and e.done == 0 and closing.start(), **LONG)
        closing.join()
        with self.assertRaisesRegex(ValueError, "closed"):
            self.engine.render("a red ball", **SMALL)

    def test_engines_at_once(self):
        alone = [self.engine.render("a red ball", **dict(SMALL, seed=seed)) for seed in range(2)]
        at_once = [None, None]

        def work(seed):
            with sparge_gen.Engine() as engine:
                at_once[seed] = engine.render("a red ball", **dict(SMALL, seed=seed))
        threads = [threading.Thread(target=work, args=[seed]) for seed in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(alone, at_once)
        self.assertFalse(np.array_equal(*alone))

    def test_start(self):
        first = self.engine.render("a red ball", **SMALL)
        again = self.engine.render("a red ball", start_video=first, strength=0.5, **SMALL)
        self.assertEqual(again.shape, first.shape)
        self.assertFalse(np.array_equal(again, first))
        self.assertEqual(self.engine.report.steps_done, 1)
        held = self.engine.render("a red ball", image=first[0], **SMALL)
        self.assertFalse(np.array_equal(held, first))
        with self.assertRaisesRegex(ValueError, "start_video"):
            self.engine.render("a red ball", start_video=first[:3], **SMALL)

    def test_info_and_plan(self):
        self.assertEqual((self.engine.info.family, len(self.engine.info.component)), ("wan", 3))
        settings = json.loads(pathlib.Path("tiny-wan/sparge-gen.json").read_text())
        self.assertEqual(self.engine.info.words, settings["vocabulary"])
        self.assertEqual((self.engine.defaults.frames, self.engine.defaults.sampler), (65, "unipc"))
        with sparge_gen.Engine(lora="tiny-wan/fast.safetensors", lora_merge=True) as engine:
            self.assertEqual((engine.info.weights_as, engine.info.lora[0].beside), ("auto", False))
        plan = self.engine.plan("a red ball", **SMALL)
        self.assertEqual([phase.name for phase in plan.phase], ["text", "denoise", "decode"])
        self.assertEqual((plan.latent, plan.tokens, plan.attention_kind), ([16, 2, 8, 8], 32, "dense"))
        self.assertGreater(self.engine.plan("a red ball").need, plan.need)
        with sparge_gen.Engine(backend="cuda", plan_only=True) as engine:
            self.assertEqual(engine.plan("a red ball", **SMALL).tokens, 32)
            if "not here" in engine.info.device:
                with self.assertRaisesRegex(sparge_gen.UnsupportedError, "a plan alone"):
                    engine.render("a red ball", **SMALL)
        self.assertEqual(self.engine.render("a red ball", sigmas=[1, 0.5, 0.2], sampler="euler", width=64, height=64,
                                            frames=5).shape, (5, 64, 64, 3))
        self.assertEqual(self.engine.report.steps_done, 3)

    def test_errors(self):
        for error, name, settings in (
                (sparge_gen.ArgumentError, "65", dict(width=65)), (ValueError, "65", dict(width=65)),
                (TypeError, "stpes; .* steps, .* topk,", dict(stpes=3)), (TypeError, "steps", dict(steps=2.5)),
                (ValueError, "seed", dict(seed=-1)), (ValueError, "steps", dict(steps=2**32 + 2)),
                (ValueError, "unipc", dict(sampler="eular")), (ValueError, "dense", dict(attention="a")),
                (ValueError, "NUL", dict(negative_prompt="a\0b")),
                (TypeError, "negative_prompt", dict(negative_prompt=5)),
                (TypeError, "^topk", dict(topk="0.3")), (TypeError, "^attention", dict(attention=None)),
                (TypeError, "dynamic_cfg: 'no'", dict(dynamic_cfg="no")),
                (ValueError, "topk and tau", dict(topk=0.3, tau=0.9)),
                (ValueError, "topk.* no effect", dict(topk=0.3, attention="dense")),
                (ValueError, "^image", dict(image=(None, None, None))),
                *((sparge_gen.ArgumentError, name, {name: number}) for number in (-1, 99, 5000000)
                  for name in ("sampler", "cache", "vae_tiling", "attention", "score", "order", "budget")),
                (sparge_gen.FileError, "none.json", dict(thresholds="none.json"))):
            with self.subTest(settings), self.assertRaisesRegex(error, name):
                self.engine.render("a red ball", **{**SMALL, **settings})
        for error, name, model, options in (
                (sparge_gen.FileError, "nowhere", "nowhere", {}), (OSError, "nowhere", "nowhere", {}),
                (TypeError, "bakcend", "tiny-wan", dict(bakcend="cpu")),
                (sparge_gen.ArgumentError, "gpu", "tiny-wan", dict(backend="gpu")),
                (ValueError, "avx9", "tiny-wan", dict(cpu_mask="avx9")),
                (ValueError, "threads is 100000", "tiny-wan", dict(threads=100000)),
                (TypeError, "^lora_merge", "tiny-wan", dict(lora_merge="beside")),
                *((sparge_gen.FileError, "x.safetensors", "tiny-wan", dict(lora=lora)) for lora in (
                    ["x.safetensors"], "x.safetensors", pathlib.Path("x.safetensors"), [("x.safetensors", 0.5)])),
                (TypeError, "^lora", "tiny-wan", dict(lora=("x.safetensors", 0.5))),
                (ValueError, "lora: 17", "tiny-wan", dict(lora=["x.safetensors"] * 17))):
            with self.subTest(options), self.assertRaisesRegex(error, name):
                sparge_gen.Engine(model, **options)
        with sparge_gen.Engine(memory_limit=1 << 20) as engine, self.assertRaises(MemoryError) as raised:
            engine.render("a red ball", **SMALL)
        self.assertIsInstance(raised.exception, sparge_gen.OutOfMemoryError)
        self.assertEqual(raised.exception.status, 5)

    def test_log_and_time(self):
        with self.assertLogs("sparge_gen", "INFO"):
            with sparge_gen.Engine(timed=True) as engine:
                engine.render("a red ball", **SMALL)
        self.assertEqual(sorted(engine.report.attention_seconds), sorted(l.TIMED))
        self.assertGreater(engine.report.attention_seconds["dense"], 0)

    def test_save(self):
        clip = np.zeros((5, 32, 48, 3), np.uint8)
        sparge_gen.save("clip.y4m", clip, fps=12)
        self.assertTrue(pathlib.Path("clip.y4m").read_bytes().startswith(b"YUV4MPEG2 W48 H32 F12:1"))
        with open("by_descriptor", "wb") as file:
            sparge_gen.save("pipe", clip, fps=12, descriptor=file.fileno())
        self.assertEqual(pathlib.Path("by_descriptor").read_bytes(), pathlib.Path("clip.y4m").read_bytes())
        sparge_gen.save("picture.png", clip[0], png_level=0, settings='{"a": 1}')
        self.assertGreater(pathlib.Path("picture.png").stat().st_size, 32 * 48 * 3)
        for error, *arguments in (
                (sparge_gen.ArgumentError, "clip.gif", clip), (sparge_gen.FileError, "no/c.y4m", clip),
                (ValueError, "c.y4m", clip.astype(float)), (ValueError, "c.y4m", clip[..., :2]),
                (sparge_gen.ArgumentError, "c.y4m", clip[:0]), (sparge_gen.ArgumentError, "c.y4m", clip[:, :0]),
                (sparge_gen.ArgumentError, "c.y4m", clip, 0), (sparge_gen.ArgumentError, f"c.{VIDEO}", clip, 0)):
            with self.assertRaises(error):
                sparge_gen.save(*arguments)
        for level in (-1, 10):
            with self.assertRaisesRegex(sparge_gen.ArgumentError, "^png_level"):
                sparge_gen.save("c.png", clip[0], png_level=level)
        mixed = np.random.default_rng(1).integers(0, 256, (9, 32, 96, 3), np.uint8)
        for name, frames in (("strided", mixed[::2, ::-1, ::2]), ("packed", mixed[::2, ::-1, ::2].copy())):
            sparge_gen.save(f"{name}.y4m", frames)
        self.assertEqual(pathlib.Path("strided.y4m").read_bytes(), pathlib.Path("packed.y4m").read_bytes())
        with self.assertRaisesRegex(TypeError, "crv"):
            sparge_gen.save("c.y4m", clip, crv=3)
        self.assertFalse(pathlib.Path("c.y4m").exists())
        if VIDEO == "mp4":
            for crf in (-1, 52, float("nan")):
                with self.assertRaisesRegex(sparge_gen.ArgumentError, "^crf"):
                    sparge_gen.save("c.mp4", clip, crf=crf)

    def test_interrupt_ends_saving(self):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        read, write = os.pipe()
        frames, got = np.zeros((1000, 64, 64, 3), np.uint8), [0]

        def interrupt():  # while the pipe is full; then what is on its way is read
            os.read(read, 1)
            os.kill(os.getpid(), signal.SIGINT)
            while data := os.read(read, 1 << 20):
                got[0] += len(data)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                sparge_gen.save("pipe", frames, descriptor=write)
        finally:
            os.close(write)
            thread.join()
            os.close(read)
        self.assertLess(got[0], frames.nbytes // 4)  # of Y4M, which takes a half

    def test_fork(self):
        engine = sparge_gen.Engine()
        self.addCleanup(engine.close)
        steps = iter(engine.stream("a red ball", **SMALL))
        next(steps)
        child = os.fork()
        if not child:
            try:
                signal.alarm(60)
                for use in (lambda: engine.plan("a red ball"), lambda: next(steps)):
                    with self.assertRaisesRegex(RuntimeError, "forked"):
                        use()
                engine.close()
                with sparge_gen.Engine() as own:
                    own.render("a red ball", **SMALL)
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(list(steps)[-1], ("decode", 2, 2, None))


class Programs(Folder):
    def run_python(self, *arguments, **environment):
        return subprocess.run([sys.executable, *map(str, arguments)], check=True, text=True, capture_output=True,
                              env={name: value for name, value in {**os.environ, **environment}.items() if value})

    def test_examples(self):
        self.run_python(HERE / "render.py", "a red ball", f"ball.{VIDEO}")
        said = self.run_python(HERE / "compare.py", "a red ball", f"compare.{VIDEO}").stdout
        self.assertGreater(float(re.search("PSNR ([0-9.]+) dB", said)[1]), 15)
        self.assertTrue(0 < int(re.search("([0-9]+) % of the blocks", said)[1]) < 100)
        for name in ("ball", "compare"):
            self.assertGreater(os.path.getsize(f"{name}.{VIDEO}"), 1000)

    def test_readme(self):
        for readme, least in (("README.md", 1), ("model/python/README.md", 3)):
            blocks = re.findall("```python\n(.*?)```", (HERE / "../.." / readme).read_text(), re.DOTALL)
            self.assertGreaterEqual(len(blocks), least)
            self.run_python("-c", "".join(blocks).replace(".mp4", f".{VIDEO}"))

    def test_threads_spin_briefly(self):
        program = "import os, sparge_gen; print(os.environ.get('GOMP_SPINCOUNT'))"
        for policy, expected in (("", "1500"), ("passive", "None")):
            said = self.run_python("-c", program, OMP_WAIT_POLICY=policy, OMP_DISPLAY_ENV="VERBOSE",
                                   GOMP_SPINCOUNT="")
            self.assertEqual(said.stdout.strip(), expected)
            if "GOMP_SPINCOUNT" in said.stderr:  # GNU's OpenMP, which reads it
                self.assertEqual("GOMP_SPINCOUNT = '1500'" in said.stderr, not policy, said.stderr)

    def test_sources_alone(self):
        said = subprocess.run([sys.executable, "-B", "-c", "import sparge_gen"], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(HERE / "../../model/python")}).stderr
        self.assertRegex(said, "ImportError: .* wheel")

    def test_av1_is_silent(self):
        for given, expected in (("", "0"), ("3", "3")):
            said = self.run_python("-c", "import os, sparge_gen; print(os.environ['SVT_LOG'])", SVT_LOG=given)
            self.assertEqual(said.stdout.strip(), expected)

    def test_failures_name_keywords(self):
        for settings, said in ((dict(cfg_scale=2000), "^cfg_scale: 2000 "), (dict(vae_tiling="on"), "^vae_tiling: ")):
            with sparge_gen.Engine() as engine, self.assertRaisesRegex(sparge_gen.ArgumentError, said):
                engine.plan(**settings)
        with self.assertRaisesRegex(sparge_gen.ArgumentError, "diffusion_model=FILE"):
            sparge_gen.Engine(None)

    def test_libraries_are_the_wheels(self):
        """They have names that no other library in the process has, of another version maybe."""
        self.run_python("-c", r"""
import os, re, numpy
def mapped(): return {line.split()[-1] for line in open("/proc/self/maps") if ".so" in line}
before = mapped()
import sparge_gen
for path in mapped() - before:
    libc = re.search(r"/(lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|gcc_s|stdc\+\+)\.so|ld-linux)|/lib-dynload/", path)
    name = os.path.basename(path)
    assert libc or path.startswith(sparge_gen.__path__[0]) and re.match("sg_|libspargegen", name), path
""")

    def test_notices(self):
        package = pathlib.Path(sparge_gen.__path__[0])
        license = importlib.metadata.metadata("sparge-gen")["License"]
        self.assertTrue((package.parent / license.split(": ")[1] / "LICENSE").exists())
        libraries = {path.name for path in (package / "lib/sparge-gen").iterdir()}
        self.assertEqual("GPL" in license, any("avcodec" in name for name in libraries))
        listed = (package / "share/doc/sparge-gen/libraries/README").read_text()
        self.assertEqual(set(re.findall("^(sg_.*?):", listed, re.MULTILINE)), libraries)

    def test_an_engine_that_is_not_closed(self):
        self.run_python("-c", """
import sparge_gen
sparge_gen.Engine().plan("a red ball")
engine = sparge_gen.Engine()
steps = iter(engine.stream("a red ball"))
next(steps)
""")


if __name__ == "__main__":
    unittest.main()
