"""Members of C structs from what Python people write, and back."""
import ctypes as c
import os
import types

import numpy as np

from . import _library as l

# Members that are a choice, and what sg_names calls it.
CHOICES = {name: name for name in
           "sampler cache vae_tiling offload weights_as score tail_bias budget pv_dtype order".split()}
CHOICES.update(dict.fromkeys(["kind", "attention_kind", "dense_steps_kind"], "attention"))
# How many there are of a member whose array has the most that there can be.
COUNTS = {"component": "components", "lora": "loras", "phase": "phases", "at": "count", "skipped": "steps_done",
          "distance": "steps_done", "skip_error": "steps_done"}
RULES = {"topk": l.SG_SELECT_TOPK, "tau": l.SG_SELECT_MASS, "mask": l.SG_SELECT_GIVEN}
KEYWORDS = {"attention": "kind", "topk": "amount", "tau": "amount"}  # that are other members' of sg_policy


def members(struct, without=""):
    return {name for name, _ in struct._fields_} - {"size", "reserved", *without.split()}


POLICY = members(l.sg_policy, without="kind named rule amount") | set(KEYWORDS)


def choice(name, value):
    """The number of a choice by its name."""
    names = l.names(name)
    if value not in names:
        raise ValueError(f"{name}: {value!r} is none of {', '.join(names)}")
    return names.index(value)


def fill(struct, name, value, keyword=None):
    """Sets a member, which is the value of a keyword: by default of the same name."""
    kind, keyword = dict(struct._fields_)[name], keyword or name
    if name in CHOICES and isinstance(value, str):
        value = choice(CHOICES[name], value)
    try:
        if kind is c.c_char_p and value is not None:
            value = os.fsencode(value)
            if b"\0" in value:
                raise ValueError("has a NUL")
        if kind is c.c_bool and value not in (True, False):
            raise TypeError(f"{value!r} is neither True nor False")
        setattr(struct, name, value)
    except (TypeError, ValueError) as e:
        raise (TypeError if isinstance(e, TypeError) else ValueError)(f"{keyword}: {e}") from None
    if isinstance(value, int) and getattr(struct, name) != value:  # ctypes takes the bits that fit
        raise ValueError(f"{keyword}: {value} is out of range")


def refuse_unknown(names, known):
    for name in names:
        if name not in known:
            raise TypeError(f"unknown keyword: {name}; known are {', '.join(sorted(known))}")


def fill_loras(o, loras):
    """loras is a file, or a list of files or of (file, strength)."""
    loras = [loras] if isinstance(loras, (str, bytes, os.PathLike)) else loras or ()
    if len(loras) > l.SG_LORAS_MAX:
        raise ValueError(f"lora: {len(loras)} are more than {l.SG_LORAS_MAX}")
    o.loras = len(loras)
    for slot, lora in zip(o.lora, loras):
        slot.strength = 1
        for member, value in zip(("path", "strength", "denoisers"), lora if isinstance(lora, tuple) else (lora,)):
            fill(slot, member, value, "lora")


def fill_policy(p, settings):
    """Moves what is a policy's out of settings, and means by it what the command does."""
    mine = {name: settings.pop(name) for name in POLICY & settings.keys()}
    p.named = not mine.keys().isdisjoint({"attention", "topk", "tau", "mask", "thresholds"})
    # Thresholds, which may lie beside the model, would take the place of these.
    if not mine.keys().isdisjoint({"topk", "tau", "mask", "similarity", "pv"}):
        p.thresholds = None
    rules = {name: rule for name, rule in RULES.items() if mine.get(name) is not None}
    if len(rules) > 1:
        raise ValueError(f"{' and '.join(rules)} exclude each other")
    for p.rule in rules.values():
        pass
    for name, value in mine.items():
        fill(p, KEYWORDS.get(name, name), value, name)
    if p.kind != l.SG_ATTENTION_SPARGE and rules:
        raise ValueError(f"{', '.join(rules)}: has no effect on attention that is not sparge")
    if p.kind != l.SG_ATTENTION_SPARGE:
        p.thresholds = None


def fill_pictures(r, image=None, start_image=None, start_video=None):
    """Gives r the addresses of arrays, and holds these. image is the first of the clip, or (first, last)."""
    def address(name, value, shape):
        if value is None:
            return None
        array = np.ascontiguousarray(value)
        if array.dtype != np.uint8 or array.shape != shape:
            raise ValueError(f"{name}: uint8 {shape} is needed, not {array.dtype} {array.shape}")
        r.arrays.append(array)
        return array.ctypes.data
    r.arrays, shape = [], (r.height, r.width, 3)
    image = image if isinstance(image, tuple) else (image,)
    if len(image) > len(r.image):
        raise ValueError(f"image: a picture or (first, last) is needed, not {len(image)}")
    for i, picture in enumerate(image):
        r.image[i].rgb = address("image", picture, shape)
    r.start_image = address("start_image", start_image, shape)
    r.start_video = address("start_video", start_video, (r.frames, *shape))


def plain(value):
    """A C value as Python's: a struct becomes an object with its members."""
    if isinstance(value, c.Structure):
        out = {name: plain(getattr(value, name)) for name, _ in value._fields_ if name not in ("size", "reserved")}
        for name, x in out.items():
            if name in COUNTS:
                out[name] = x[:out[COUNTS[name]]]
            elif name in CHOICES:
                out[name] = l.names(CHOICES[name])[x]
        return types.SimpleNamespace(**out)
    if isinstance(value, c.Array):
        return [plain(x) for x in value]
    if isinstance(value, c.POINTER(c.c_char_p)):
        return l.strings(value)
    if isinstance(value, c._Pointer):
        return plain(value.contents) if value else None
    return value.decode(errors="replace") if isinstance(value, bytes) else value
