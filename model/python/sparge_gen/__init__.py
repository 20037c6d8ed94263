"""A prompt becomes a video.

    with sparge_gen.Engine() as engine:
        clip = engine.render("a red ball bouncing on green grass", seed=1)
        sparge_gen.save("ball.mp4", clip, fps=engine.defaults.fps)

Settings have the names of members of the C structs, and <spargegen/spargegen.h> says what they mean.
"""
import ctypes as c
import os
import pathlib
import weakref
from typing import NamedTuple, Optional

import numpy as np

from . import _library as l
from ._library import (ArgumentError, CancelledError, DeviceError, Error, FileError, FormatError, MismatchError,
                       NumericError, OutOfMemoryError, ShapeError, UnsupportedError)
from ._settings import POLICY, choice, fill, fill_loras, fill_pictures, fill_policy, members, plain, refuse_unknown
from ._worker import Job, Worker

__all__ = ["Engine", "Progress", "save", "Error", *(error.__name__ for error in l.ERRORS)]
__version__ = l.lib.sg_version().decode()

_OPTIONS = members(l.sg_engine_options, without="model_dir parts loras log log_context")
_PARTS = members(l.sg_model_parts)
_SETTINGS = members(l.sg_request, without="prompt attention preview_bytes output_bytes")
_CLIP = members(l.sg_clip, without="path width height frames fps has_crf has_png_level has_descriptor beside")


class Progress(NamedTuple):
    """done of the total units of a stage: tensors that are loaded, prompts, pictures, steps or chunks of frames."""
    stage: str  # "load", "text", "encode", "denoise", "decode"
    done: int
    total: int
    preview: Optional[np.ndarray] = None  # after every preview_every steps: uint8 (frames, height, width, 3), small


class Engine:
    """A model, opened; close it, or use it in `with`. Several engines work at once.

    model is its folder or file, or None where parts are named one by one. options are members of sg_engine_options and
    sg_model_parts; lora is a file, or a list of files or of (file, strength). Logging is by "sparge_gen".
    """

    def __init__(self, model="tiny-wan", **options):
        if model == "tiny-wan" and not os.path.exists(model):
            model = pathlib.Path(__file__).parent / "share/sparge-gen/tiny-wan"
        refuse_unknown(options, _OPTIONS | _PARTS)
        o = l.sg_engine_options(size=c.sizeof(l.sg_engine_options), log=l.to_logging)
        fill(o, "model_dir", model)
        for name, value in options.items():
            if name == "lora":
                fill_loras(o, value)
            elif name in ("cpu_mask", "gpu_mask") and isinstance(value, str):
                choice(name, value)
                setattr(o, name, getattr(l.lib, f"sg_{name}_of")(value.encode()))
            else:
                fill(o.parts if name in _PARTS else o, name, value)
        # Of the last render, as sg_report. Its attention is sg_attention_count (steps, passes, layers), its
        # attention_seconds what each stage of that took, with the option timed.
        self.report = None
        self._worker = worker = Worker()
        self.close = weakref.finalize(self, worker.close)  # ends a render that is at work, and frees all

        def open():
            l.call("sg_engine_open", c.byref(worker.engine), c.byref(o))
            return plain(l.lib.sg_engine_info(worker.engine))
        try:
            self.info = self._call(open)
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    @property
    def defaults(self):
        """The model's own settings, as sg_request has them."""
        return self._call(lambda: plain(self._request(None, {})))

    def plan(self, prompt=None, **settings):
        """Returns what a render would need, as sg_plan has it; without a prompt for the longest."""
        def plan():
            r, p = self._request(prompt, settings), l.sg_plan(size=c.sizeof(l.sg_plan))
            l.call("sg_engine_plan", self._worker.engine, c.byref(r), c.byref(p))
            return plain(p)
        return self._call(plan)

    def stream(self, prompt, **settings):
        """Returns what yields Progress while it renders, and then has `frames`. Leaving the loop ends the render."""
        def check():
            r = self._request(prompt, settings)
            l.call("sg_engine_check_request", self._worker.engine, c.byref(r))
            return r
        return _Render(self, self._call(check))

    def render(self, prompt, progress=None, **settings):
        """Returns frames: uint8 (frames, height, width, 3). progress is called with Progress; what it raises ends the
        render, as Ctrl-C does in the main thread. The engine stays usable."""
        render = self.stream(prompt, **settings)
        for event in render:
            if progress:
                progress(event)
        return render.frames

    def _call(self, function):
        return Job(self._worker, function).finish()

    def _request(self, prompt, settings):
        r, settings = l.sg_request(size=c.sizeof(l.sg_request)), dict(settings)
        l.lib.sg_engine_defaults(self._worker.engine, c.byref(r))
        fill(r, "prompt", prompt)
        if (preset := settings.pop("step_preset", None)) is not None:
            l.lib.sg_step_preset_apply(c.byref(r), choice("step_preset", preset))
        if (sigmas := settings.pop("sigmas", None)) is not None:
            l.call("sg_sigmas_read", c.byref(r), ",".join(map(repr, map(float, sigmas))).encode())
        fill_policy(r.attention, settings)
        refuse_unknown(settings, _SETTINGS | POLICY | {"step_preset"})
        pictures = {name: settings.pop(name) for name in ("image", "start_image", "start_video") if name in settings}
        for name, value in settings.items():
            fill(r, name, value)
        fill_pictures(r, **pictures)
        return r


class _Render(Job):
    def __init__(self, engine, request):
        super().__init__(engine._worker)
        self._engine, self._request, self.frames = engine, request, None

    def work(self, emit):
        r, engine, at = self._request, self.worker.engine, Progress("load", 0, 0)
        frames = np.empty((r.frames, r.height, r.width, 3), np.uint8)
        r.output_bytes = frames.nbytes

        @l.progress_callback
        def progress(context, stage, done, total):
            nonlocal at
            at = Progress(l.STAGES[stage], done, total)
            emit(at)
            return 0

        @l.preview_callback
        def preview(context, step, rgb, size, e):
            small = np.empty((*size[:3], 3), np.uint8)
            c.memmove(small.ctypes.data, rgb, small.nbytes)
            emit(at._replace(done=step + 1, preview=small))
            return 0

        @l.frame_callback
        def frame(context, index, rgb, e):
            c.memmove(frames[index].ctypes.data, rgb, frames[index].nbytes)
            return 0
        callbacks = l.sg_callbacks(size=c.sizeof(l.sg_callbacks), progress=progress, preview=preview, frame=frame)
        report = l.sg_report(size=c.sizeof(l.sg_report))
        l.call("sg_engine_render", engine, c.byref(r), c.byref(callbacks), c.byref(report))
        shape = [c.c_int() for _ in range(3)]
        counts = l.lib.sg_engine_attention(engine, *map(c.byref, shape))
        seconds = (c.c_double * len(l.TIMED))()
        timed = l.lib.sg_engine_attention_seconds(engine, seconds)
        self._engine.report = out = plain(report)
        out.attention = np.ctypeslib.as_array(counts, [n.value for n in shape]).copy() if counts else None
        out.attention_seconds = dict(zip(l.TIMED, seconds)) if timed else None
        self.frames = frames


def save(path, frames, fps=16, **options):
    """Writes frames, uint8 (frames, height, width, 3), or a picture (height, width, 3). The ending of path selects the
    format; the file appears when it is whole. options are members of sg_clip; encoders is a list of names."""
    refuse_unknown(options, _CLIP)
    frames = np.asarray(frames)
    if frames.dtype != np.uint8 or frames.ndim not in (3, 4) or frames.shape[-1] != 3:
        raise ValueError(f"frames: uint8 (frames, height, width, 3) is needed, not {frames.dtype} {frames.shape}")
    frames = frames[None] if frames.ndim == 3 else frames
    count, height, width, _ = frames.shape
    clip = l.sg_clip(size=c.sizeof(l.sg_clip), frames=count, height=height, width=width)
    for name, value in dict(options, path=path, fps=fps).items():
        if name == "encoders":
            value = [value] if isinstance(value, str) else value
            value = (c.c_char_p * (len(value) + 1))(*map(os.fsencode, value))
        fill(clip, name, value)
        if name in ("crf", "png_level", "descriptor"):
            setattr(clip, "has_" + name, True)
    writer = c.c_void_p()
    try:  # frame by frame, so that Ctrl-C is heeded
        l.call("sg_writer_open", c.byref(writer), c.byref(clip))
        for i, frame in enumerate(map(np.ascontiguousarray, frames)):
            l.call("sg_writer_write", writer, i, c.c_void_p(frame.ctypes.data))
        l.call("sg_writer_finish", writer)
    finally:
        l.lib.sg_writer_close(c.byref(writer))
