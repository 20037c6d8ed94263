"""The C library: its structs and functions as the headers in include/spargegen declare them, and its errors."""
import ctypes as c
import logging
import os
import pathlib

I, U, I64, U64, B, S, D, F, Z, P = (c.c_int, c.c_uint, c.c_int64, c.c_uint64, c.c_bool, c.c_char_p, c.c_double,
                                    c.c_float, c.c_size_t, c.c_void_p)
TIMED = ("predict", "select", "quantise", "attend", "dense", "cross")  # SG_TIMED_PREDICT ..
SG_LORAS_MAX, SG_COMPONENTS_MAX, SG_SIGMAS_MAX, SG_STEPS_MAX, SG_PHASES_MAX, SG_STAGES = 16, 12, 64, 1000, 8, 5
SG_ATTENTION_SPARGE, SG_SELECT_TOPK, SG_SELECT_MASS, SG_SELECT_GIVEN = 2, 0, 1, 2


def text(size):
    return c.c_char * size


def struct(name, *fields):
    """fields: (type, "names of members")"""
    members = [(member, kind) for kind, names in fields for member in names.split()]
    return type(name, (c.Structure,), {"_fields_": members})


sg_error = struct("sg_error", (I, "code"), (text(4096), "text"))
sg_model_parts = struct(
    "sg_model_parts", (S, "diffusion_model high_noise_diffusion_model vae text_encoder clip_vision tokenizer"),
    (S, "clip_l clip_g clip_tokenizer"), (S * 3, "reserved"))
sg_lora_option = struct("sg_lora_option", (S, "path"), (D, "strength"), (U, "denoisers"), (U * 3, "reserved"))
sg_lora_info = struct(
    "sg_lora_info", (Z, "size"), (text(256), "name"), (D, "strength"), (U, "denoisers"), (B, "fast few_steps"),
    (U64, "hash"), (I, "keys unused text tensors"), (I * 2, "rank"), (I64, "width"), (B, "beside"))
log_callback = c.CFUNCTYPE(None, P, I, S)
sg_engine_options = struct(
    "sg_engine_options", (Z, "size"), (S, "model_dir"), (sg_model_parts, "parts"), (S, "backend dtype"), (I, "threads"),
    (U, "cpu_mask gpu_mask"), (I, "device local_rank"), (Z, "memory_limit given_bytes"), (B, "plan_only"),
    (sg_lora_option * SG_LORAS_MAX, "lora"), (I, "loras"), (B, "fast"), (I, "offload"), (B, "check timed"),
    (S, "preview_decoder"), (log_callback, "log"), (P, "log_context"), (I, "weights_as"), (B, "lora_merge"))
sg_component_info = struct(
    "sg_component_info", (Z, "size"), (text(32), "name"), (text(64), "class_name"), (text(160), "summary"),
    (text(16), "dtype"), (text(160), "types"), (text(1024), "place"), (U64, "parameters bytes"),
    (I, "files"))
sg_model_info = struct(
    "sg_model_info", (Z, "size"), (S, "family"), (I, "components"),
    (c.POINTER(sg_component_info) * SG_COMPONENTS_MAX, "component"), (I, "multiple frame_step"), (B, "frame_pairs"),
    (I * 2, "image"), (I, "experts"), (S, "backend"), (I, "threads"), (S, "dtype device passed"),
    (B, "skips synchronous"), (I, "loras"), (c.POINTER(sg_lora_info) * SG_LORAS_MAX, "lora"), (U64, "thresholds"),
    (S, "thresholds_model world"), (c.POINTER(S), "words"), (I, "weights_as"))
sg_policy = struct(
    "sg_policy", (I, "kind"), (B, "named"), (I, "rule"), (F, "amount similarity pv"),
    (I, "sink budget score"), (B, "tail"), (I, "tail_bias pv_dtype order"), (D, "dense_steps"), (I, "dense_steps_kind"),
    (S, "dense_layers thresholds mask"), (I64 * 4, "reserved"))
sg_attention_count = struct(
    "sg_attention_count", (I, "kind why"), (I64, "blocks kept"), (D, "mass"), (I64, "groups skipped"),
    (D, "skipped_mass difference dense"), (I64 * 4, "reserved"))
sg_request_image = struct("sg_request_image", (P, "rgb whole"), (I, "whole_width whole_height"), (P * 2, "reserved"))
sg_request = struct(
    "sg_request", (Z, "size"), (S, "prompt negative_prompt"), (I, "width height frames fps steps"),
    (D, "cfg_scale cfg_scale_2 guidance"), (B, "dynamic_cfg"), (D, "slg_scale"), (S, "skip_layers"),
    (D, "skip_layer_start skip_layer_end flow_shift"), (I, "sampler"),
    (struct("sigmas", (I, "count"), (D * SG_SIGMAS_MAX, "at")), "sigmas"), (B, "sigmas_old"), (U64, "seed"),
    (S, "latents_in latents_out latents_note"), (sg_policy, "attention"), (B, "attention_error"), (S, "capture_out"),
    (I, "capture_layer capture_step cache"), (D, "cache_threshold"), (I, "vae_tiling preview_every"),
    (Z, "preview_bytes output_bytes"), (sg_request_image * 2, "image"), (P, "start_image start_video"), (D, "strength"))
sg_phase_plan = struct(
    "sg_phase_plan", (text(24), "name"), (I, "number stage"), (Z, "weights mapped packed host work peak"),
    (D, "flops"), (I64, "blocks_on_host"), (I64 * 3, "reserved"))
sg_plan = struct(
    "sg_plan", (Z, "size"), (sg_phase_plan * SG_PHASES_MAX, "phase"), (I, "phases"),
    (Z, "base input output preview staging need available host host_free untiled peak"), (I64 * 4, "latent"),
    (I64, "tokens group"), (I, "grouped"), (D, "flow_shift"),
    (I, "layers steps attention_steps attention_why attention_kind short_layers"),
    (struct("thresholds", (I, "rule buckets layers heads"), (U64, "hash"), (text(24), "model"),
            (B, "spargeattn has_policy tail"), (I, "score tail_bias order")), "thresholds"),
    (I, "chunks"), (I * 2, "text_tokens cut"), (I64, "rows_at_once"), (I64 * 7, "reserved"))
sg_report = struct(
    "sg_report", (Z, "size"), (D * SG_STAGES, "seconds"), (D, "total_seconds"), (I, "steps_done"),
    (c.c_uint8 * SG_STEPS_MAX, "skipped"), (F * SG_STEPS_MAX, "distance"), (I, "steps_skipped"),
    (F * SG_STEPS_MAX, "skip_error"), (D, "latent_error attention_error_seconds"), (Z, "held_bytes"),
    (Z * SG_STAGES, "stage_peak"), (Z, "peak_bytes"), (sg_plan, "plan"), (I, "prompt_tokens negative_tokens"),
    (U64, "seed"), (text(160), "device"), (text(8), "dtype"), (text(320), "served"))
progress_callback = c.CFUNCTYPE(I, P, I, I, I)
preview_callback = c.CFUNCTYPE(I, P, I, P, c.POINTER(I), c.POINTER(sg_error))
frame_callback = c.CFUNCTYPE(I, P, I, P, c.POINTER(sg_error))
sg_callbacks = struct("sg_callbacks", (Z, "size"), (P, "context"), (progress_callback, "progress"), (P, "latents"),
                      (preview_callback, "preview"), (frame_callback, "frame"))
sg_clip = struct(
    "sg_clip", (Z, "size"), (S, "path"), (I, "width height frames fps"), (S, "settings"), (B, "literal"), (S, "beside"),
    (B, "has_crf"), (D, "crf"), (B, "has_png_level"), (I, "png_level"), (B, "has_descriptor"), (I, "descriptor"),
    (c.POINTER(S), "encoders"))


class Error(Exception):
    """A failure of the library, with its message. Each status has a class; status is its number in C."""
    status = None


class ArgumentError(Error, ValueError):
    """SG_E_ARG: an invalid argument"""


class FileError(Error, OSError):
    """SG_E_FILE: a file cannot be opened, read or written"""


class FormatError(Error, ValueError):
    """SG_E_FORMAT: a file's content is invalid"""


class ShapeError(Error, ValueError):
    """SG_E_SHAPE: tensors do not fit each other"""


class OutOfMemoryError(Error, MemoryError):
    """SG_E_MEMORY: too little memory"""


class UnsupportedError(Error):
    """SG_E_UNSUPPORTED: valid, but not supported by this library or this machine"""


class DeviceError(Error):
    """SG_E_DEVICE: the device or a library below failed"""


class MismatchError(Error):
    """SG_E_MISMATCH: a result differs from the oracle's"""


class NumericError(Error, ArithmeticError):
    """SG_E_NUMERIC: NaN or infinity in a result or a file"""


class CancelledError(Error):
    """SG_E_CANCELLED: the engine was closed while it rendered"""


ERRORS = (ArgumentError, FileError, FormatError, ShapeError, OutOfMemoryError, UnsupportedError, DeviceError,
          MismatchError, NumericError, CancelledError)  # SG_E_ARG ..
for number, error in enumerate(ERRORS, 1):
    error.status = number
    error.__module__ = "sparge_gen"


def load():
    # libgomp reads it when it is loaded. By default its threads spin long, which is slow where others compute too.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1500")
    os.environ.setdefault("SVT_LOG", "0")  # of FFmpeg's SVT-AV1, which writes to stderr else
    path = next(pathlib.Path(__file__).parent.rglob("libspargegen.so.*"), None)
    if not path:
        raise ImportError("there is no libspargegen in this folder: build the target wheel and install what it makes")
    loaded = c.CDLL(str(path))
    loaded.sg_version.restype = S
    loaded.sg_names.restype = c.POINTER(S)
    loaded.sg_engine_attention_seconds.restype = B
    loaded.sg_engine_info.restype = c.POINTER(sg_model_info)
    loaded.sg_engine_attention.restype = c.POINTER(sg_attention_count)
    return loaded


lib = load()


def call(function, *arguments):
    """Calls what returns a status and takes an error last; a failure is raised."""
    e = sg_error()
    status = getattr(lib, function)(*arguments, c.byref(e))
    if status:
        raise ERRORS[status - 1](e.text.decode(errors="replace"))


def strings(pointer):
    """A list whose last is NULL."""
    found = []
    while pointer and (text := pointer[len(found)]) is not None:
        found.append(text.decode())
    return found


def names(choice):
    return strings(lib.sg_names(choice.encode()))


STAGES = names("stage")


@log_callback
def to_logging(context, level, text):
    logging.getLogger("sparge_gen").log(logging.WARNING if level else logging.INFO, "%s", text.decode(errors="replace"))
