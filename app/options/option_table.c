/* option_table.c - the options. A new one is a row here, a member of sg_settings, and the code that uses it. */
#include "option_table.h"
#include "command.h"

#include <spargegen/spargegen.h>
#include <string.h>

#define OPTION(kind_, name_, of, phase_, member, help_)                                                                \
    .kind = SG_OPTION_##kind_, .name = (name_), .commands = (of), .phase = SG_OPTION_##phase_,                         \
    .offset = offsetof(sg_settings, member), .help = (help_)

/* An option of each kind: name, commands that have it, phase, member of sg_settings, what bounds or names its value,
 * and what help says of it. */
#define FLAG(...) OPTION(FLAG, __VA_ARGS__)
#define TEXT(name_, of, phase_, member, text, ...) OPTION(TEXT, name_, of, phase_, member, __VA_ARGS__), .value = (text)
#define PART(name_, member, ...) TEXT(name_, OPENS, LOAD, member, __VA_ARGS__), .files = SG_READS_MODEL
#define LIST(name_, of, phase_, member, text, ...) OPTION(LIST, name_, of, phase_, member, __VA_ARGS__), .value = (text)
#define CHOICE(name_, of, phase_, member, list, text, ...)                                                             \
    OPTION(CHOICE, name_, of, phase_, member, __VA_ARGS__), .choices = (list), .value = (text)
#define NAMED(name_, of, phase_, member, list, text, ...)                                                              \
    OPTION(CHOICE, name_, of, phase_, member, __VA_ARGS__), .names = (list), .value = (text)
#define INT(name_, of, phase_, member, least, most, ...)                                                               \
    OPTION(INT, name_, of, phase_, member, __VA_ARGS__), .lo = (least), .hi = (most), .value = "N"
#define REAL(name_, of, phase_, member, least, most, ...)                                                              \
    OPTION(REAL, name_, of, phase_, member, __VA_ARGS__), .lo = (least), .hi = (most), .value = "X"
#define USUAL .usual = true
#define TO(member) .request = offsetof(sg_request, member), .request_size = sizeof(((sg_request *)0)->member)
#define HASHED(member) .hash = offsetof(sg_settings, hash.member)
#define RENDER SG_COMMAND_RENDER
#define INFO SG_COMMAND_INFO
#define CHECK SG_COMMAND_CHECK
#define STEP SG_COMMAND_BENCH_STEP
#define BENCH_ATTENTION SG_COMMAND_BENCH_ATTENTION
#define COLD SG_COMMAND_BENCH_COLD
#define BENCH SG_COMMAND_BENCH
#define COMPARE SG_COMMAND_COMPARE
#define TUNE SG_COMMAND_TUNE
#define EVAL SG_COMMAND_EVAL
#define SERVE SG_COMMAND_SERVE
#define LANGUAGE SG_COMMAND_LANGUAGE
#define MODEL (RENDER | INFO | CHECK | STEP | COLD | TUNE | COMPARE | EVAL)
#define OPENS (MODEL | SERVE) /* commands that open a model */
#define ALL (OPENS | BENCH_ATTENTION | LANGUAGE)
#define IMAGES (MODEL & ~INFO)
#define SAMPLER (RENDER | CHECK | COMPARE | EVAL)
#define SPARSE (RENDER | INFO | CHECK | COMPARE | EVAL)
#define BLOCKS (SPARSE | STEP | BENCH_ATTENTION) /* commands that choose blocks */

/* clang-format off */
#define HEADING(which, text) {.kind = SG_OPTION_HEADING, .commands = (which), .help = (text)}

static const char *const compats[] = {"new", "old", NULL};
static const char *const backends[] = {"auto", "cuda", "cpu", "ref", NULL};
static const char *const dtypes[] = {"auto", "f32", "bf16", NULL};
static const char *const presets[] = {"usual", "paper", NULL};
static const char *const switches[] = {"off", "on", NULL};
static const char *const inputs[] = {"video", "language", NULL};
static const char *const unskipped[] = {"dense", "sage", NULL};
static const char *const rules[] = {"topk", "tau", NULL};

const char *const sg_planted_names[] = {"similar", "noisy", "scattered", NULL};
const char *const sg_answer_metric_names[] = {"overlap", "f1", "rouge-l", "choice", "match", "match-any", NULL};
const char *const sg_cold_parts[] = {"context", "backend", "clip", NULL};
const char *const sg_picture_fits[] = {"crop", "pad", "stretch", NULL};

const sg_option sg_option_table[] = {
    HEADING(OPENS, "What to render"),
    {TEXT("model", OPENS, LOAD, model, "PATH",
          "a model: a folder in Diffusers layout or in that of an original repository, or a file\n"
          "(default: $SPARGE_GEN_MODEL, else the embedded tiny-wan)"),
     .letter = 'm', USUAL, HASHED(model), .files = SG_READS_MODEL},
    {PART("diffusion-model", parts.diffusion_model, "FILE",
          "denoiser that replaces the model's; with two experts, the one for low noise")},
    {PART("high-noise-diffusion-model", parts.high_noise_diffusion_model, "FILE", "the expert for high noise")},
    {PART("vae", parts.vae, "FILE", "the VAE")},
    {PART("text-encoder", parts.text_encoder, "FILE", "the text encoder: T5, UMT5, mT5 or Llama"), .alias = {"t5xxl"}},
    {PART("clip-vision", parts.clip_vision, "FILE", "CLIP's image encoder, for Wan 2.1 image to video")},
    {PART("tokenizer", parts.tokenizer, "PATH",
          "tokenizer of the text encoder, spiece.model or a folder, if its file has none inside")},
    {PART("clip-l", parts.clip_l, "FILE", "CLIP-L, a text encoder of HunyuanVideo, Flux.1 and Stable Diffusion 3")},
    {PART("clip-g", parts.clip_g, "FILE", "CLIP-G, a text encoder of Stable Diffusion 3")},
    {PART("clip-tokenizer", parts.clip_tokenizer, "FOLDER",
          "the tokenizer of both: the folder with vocab.json and merges.txt, or tokenizer.json")},
    {LIST("lora", OPENS, LOAD, lora, "FILE",
          "add this LoRA to the denoiser's weights, with strength X as FILE:X; may be repeated"),
     .files = SG_READS},
    {LIST("high-noise-lora", OPENS, LOAD, high_noise_lora, "FILE",
          "the same, only for the high-noise expert of Wan 2.2 A14B; --lora is then for the other"),
     .files = SG_READS},
    {FLAG("fast", OPENS, LOAD, fast,
          "few steps without guidance, by the LoRA that comes with the model: tiny-wan needs 4"),
     USUAL},
    {TEXT("prompt", (SAMPLER & ~EVAL) | TUNE, INPUT, prompt, "TEXT", "what the video shows"), .letter = 'p', USUAL},
    {TEXT("prompts", EVAL, INPUT, prompts, "FILE",
          "the set: text with one prompt a line (# begins a comment), .jsonl, .csv, or .json\n"
          "as of VBench and COCO; an entry's own seed, size, frames, negative_prompt, image,\n"
          "last_image, video and strength replace the options here"),
     .alias = {"prompt-file"}, .files = SG_READS},
    {FLAG("skip-bad", EVAL, INPUT, skip_bad,
          "skip malformed lines and entries whose pictures or videos cannot be used; with --strict\n"
          "also sizes that the model cannot render")},
    {INT("per-prompt", EVAL, INPUT, per_prompt, 1, 1000, "clips of each entry, with consecutive seeds (default: 1)")},
    {TEXT("prompt-file", RENDER, RUN, prompt_file, "FILE",
          "one prompt per line, # starts a comment, - is stdin; files are numbered -0001, ..."),
     USUAL, .files = SG_READS},
    {INT("batch", RENDER, INPUT, batch, 1, 10000,
         "N clips or images of each prompt, with consecutive seeds; clips and reports are numbered\n"
         "-0001, ..., all clips of a prompt before those of the next; in name-%04d.png the number of\n"
         "an image is the clip's, and else the clip's stands before the frame's: name-0002-0001.png"),
     .alias = {"batch-count"}},
    {TEXT("prompt-file", TUNE, RUN, prompt_file, "FILE",
          "one prompt a line, # begins a comment, - is stdin; the thresholds hold for all of them"),
     .files = SG_READS},
    {TEXT("text", TUNE, RUN, text, "FILE",
          "tune a language model, a folder of transformers' or a GGUF: it reads this text, from its\n"
          "beginning; one range of steps"),
     .files = SG_READS},
    {INT("length", TUNE, RUN, length, SG_NAMED_TOKENS, 1 << 30,
         "tokens of --text that are read (default: 8192, or as many as there are)")},
    {TEXT("negative-prompt", SAMPLER | TUNE, INPUT, negative_prompt, "TEXT",
          "what the video should not show; used if --cfg-scale is above 1"),
     .letter = 'n', USUAL, TO(negative_prompt)},
    {TEXT("image", IMAGES, INPUT, image, "FILE",
          "the first frame (PNG, JPEG, WebP, BMP, GIF, TGA, PNM), or what an image starts from"),
     .alias = {"init-img"}, .letter = 'i', USUAL, HASHED(image), .files = SG_READS},
    {TEXT("last-image", IMAGES, INPUT, last_image, "FILE", "last frame of the video, for models that accept one"),
     .alias = {"end-img"}, HASHED(last_image), .files = SG_READS},
    {TEXT("video", RENDER | COMPARE | EVAL, INPUT, video, "FILE",
          "start from this video (MP4, MOV, MKV, WebM, AVI or Y4M) or folder of pictures, not from\n"
          "noise alone; with all models of video but Mochi"),
     HASHED(video), .files = SG_READS_FRAMES},
    {REAL("strength", RENDER | COMPARE | EVAL, INPUT, strength, 0.001, 1,
          "how much of the video, or of --image with a model of images, is replaced: only this share\n"
          "of the steps runs, the last ones (default: 0.8; images 0.6)"),
     TO(strength)},
    {TEXT("image-folder", EVAL, INPUT, image_folder, "DIR",
          "where the pictures and videos of the set are (default: beside its file); an entry that\n"
          "names no picture has PROMPT.jpg there, as in VBench-I2V")},
    {CHOICE("fit", IMAGES, INPUT, fit, sg_picture_fits, "HOW",
            "how pictures and frames are fitted to the clip's size: crop (default), pad with black,\n"
            "stretch")},
    {OPTION(SIZE, "size", MODEL, INPUT, size, "width and height in pixels, as in 832x480"),
     USUAL, .lo = 1, .hi = 16384, .value = "WxH"},
    {INT("width", MODEL, INPUT, size[0], 1, 16384, "width alone"), .letter = 'W', TO(width)},
    {INT("height", MODEL, INPUT, size[1], 1, 16384, "height alone"), .letter = 'H', TO(height)},
    {INT("frames", MODEL, INPUT, frames, 1, 100000, "number of frames; 1 makes an image"),
     .alias = {"num-frames", "video-frames"}, USUAL, TO(frames)},
    {REAL("seconds", RENDER | INFO | COMPARE | EVAL, INPUT, seconds, 0.001, 3600,
          "length in seconds, instead of --frames; the nearest possible length is used")},
    {FLAG("strict", MODEL, INPUT, strict,
          "refuse a size or a number of frames that the model cannot render, instead of using the\n"
          "nearest that it can")},
    {INT("fps", RENDER | INFO | COMPARE | EVAL, INPUT, fps, 1, 1000, "frames per second of the file"), TO(fps)},

    {TEXT("models", SERVE, RUN, models, "DIR", "jobs may name the models in this folder, beside the one of --model")},
    {TEXT("loras", SERVE, RUN, loras, "DIR", "jobs may name the LoRAs in this folder")},

    HEADING(SERVE, "Who may use it"),
    {TEXT("host", SERVE, RUN, host, "ADDRESS",
          "where it listens (default: 127.0.0.1); others than this machine's own need a key")},
    {INT("port", SERVE, RUN, port, 0, 65535, "port (default: 8080; 0: any that is free)")},
    {TEXT("api-key-file", SERVE, RUN, api_key_file, "FILE",
          "the key that requests must have, alone in a file: at least 16 characters"),
     .files = SG_READS},
    {LIST("allow-host", SERVE, RUN, allow_host, "NAME",
          "answer to this name in the Host header too, as in video.example or box:9000; may be\n"
          "repeated")},
    {LIST("allow-origin", SERVE, RUN, allow_origin, "URL",
          "let pages of this site use it, as in https://app.example; may be repeated")},

    HEADING(SERVE, "Limits"),
    {INT("max-queue", SERVE, RUN, max_queue, 1, 100000, "jobs that wait (default: 100)")},
    {INT("max-jobs", SERVE, RUN, max_jobs, 1, 1000000,
         "finished jobs that are kept (default: 1000); the oldest go, with their files")},
    {OPTION(BYTES, "max-upload", SERVE, RUN, max_upload, "files of one request (default: 64M)"), .value = "SIZE"},
    {OPTION(BYTES, "max-disk", SERVE, RUN, max_disk,
            "files of all jobs (default: 16G); the oldest finished ones go"),
     .value = "SIZE"},

    HEADING(LANGUAGE, "What to read"),
    {TEXT("model", LANGUAGE, LOAD, model, "PATH", "a language model: a folder of transformers', or a GGUF"),
     .letter = 'm', .files = SG_READS_MODEL},
    {INT("window", LANGUAGE, INPUT, window, 2, 1 << 30,
         "perplexity: tokens that are read at once (default: 8192, or the longest that the model\n"
         "takes); of a .jsonl the longest prompt with its answer: of one that has more the middle is\n"
         "left out")},
    {INT("stride", LANGUAGE, INPUT, stride, 1, 1 << 30,
         "perplexity: tokens from window to window, which are scored (default: the window)")},
    {FLAG("kl", LANGUAGE, INPUT, kl,
          "also compare the distribution of each token with the first arm's: KL divergence, and how\n"
          "often the likeliest token is the same; takes long where the vocabulary is large")},
    {TEXT("haystack", LANGUAGE, INPUT, haystack, "DIR", "needle: a folder of .txt files, in which it is hidden")},
    {TEXT("lengths", LANGUAGE, INPUT, lengths, "LIST",
          "needle, prefill: lengths in tokens (default: eight from 74000 to 112000; of prefill 8192)")},
    {TEXT("depths", LANGUAGE, INPUT, depths, "LIST", "needle: where it is, in percent (default: ten from 0 to 100)")},
    {TEXT("template", LANGUAGE, INPUT, template, "TEXT",
          "the prompt: {context} and {question} of a needle, {context} and {input} of a line; \\n\n"
          "begins a line (default: the published one of the needle; context, empty line, input)")},
    {CHOICE("metric", LANGUAGE, INPUT, metric, sg_answer_metric_names, "NAME",
            "how answers are scored (default: what the line says; choice where it has choices; f1)")},
    {INT("max-tokens", LANGUAGE, INPUT, max_tokens, 1, 65536,
         "tokens of an answer at most (default: 128; of a needle 50)")},
    {TEXT("arms", LANGUAGE, INPUT, arms, "LIST",
          "what to compare with the first of them: dense, sage, sparge, each with its own options of\n"
          "attention after colons, as in dense,sparge:topk=0.3,sparge:tau=0.9:sim=0.6:name=mine\n"
          "(default: dense,sparge)")},
    {INT("repeat", LANGUAGE, RUN, repeat, 1, SG_REPEAT_MAX,
         "prefill: runs of which the median is taken (default: as many as last two seconds, from 5\n"
         "to 200)")},

    HEADING(BENCH_ATTENTION, "What to measure"),
    {TEXT("shape", BENCH_ATTENTION, RUN, shape, "SHAPE",
          "B,H,N,D (batch, heads, tokens or TxYxX, head size), or that of a model:"),
     .more = sg_bench_shapes},
    {INT("heads", BENCH_ATTENTION, RUN, heads, 1, 256, "only the first N heads of the shape")},
    {TEXT("qkv", BENCH_ATTENTION, RUN, qkv, "FILE",
          "queries, keys and values saved by --capture-qkv, instead of a shape"),
     .files = SG_READS},
    {CHOICE("inputs", BENCH_ATTENTION, RUN, inputs, inputs, "LIKE",
            "video (default) is timed; language measures no time, but whether causal attention keeps\n"
            "the blocks of keys that are planted, one a query (default shape: 1,8,8192,64)")},
    {CHOICE("planted", BENCH_ATTENTION, RUN, planted, sg_planted_names, "WHERE",
            "only inputs of language whose planted keys are in blocks like them (similar), in noisy\n"
            "blocks, one key for 128 queries (noisy), or in several noisy blocks (scattered)")},
    {TEXT("margin", BENCH_ATTENTION, RUN, margins, "LIST",
          "by how many nats a planted key is above all others of its row together (default: -2,0,2)")},
    {INT("kv-heads", BENCH_ATTENTION, RUN, kv_heads, 1, 256,
         "heads of keys of language (default: a quarter, if 4 divides the heads, else as many)")},
    {TEXT("save-qkv", BENCH_ATTENTION, RUN, save_qkv, "FILE",
          "save queries, keys and values of language, of one --planted and --margin, as safetensors"),
     .files = SG_WRITES},

    HEADING(SAMPLER | BENCH | TUNE, "Sampling"),
    {INT("steps", SPARSE | COLD | TUNE, SAMPLING, steps, 1, 1000, "denoising steps"),
     .alias = {"num-inference-steps"}, USUAL, TO(steps)},
    {REAL("cfg-scale", SAMPLER | STEP | COLD | TUNE, SAMPLING, cfg_scale, 0, 1000,
          "guidance scale; 1 or less ignores the negative prompt and halves the time"),
     .alias = {"guidance-scale"}, .letter = 'g', USUAL, TO(cfg_scale)},
    {REAL("cfg-scale-2", SAMPLER, SAMPLING, cfg_scale_2, 0, 1000,
          "guidance of the low-noise expert of a model with two (default: as --cfg-scale)"),
     .alias = {"guidance-scale-2"}, TO(cfg_scale_2)},
    {REAL("guidance", SAMPLER | STEP | COLD | TUNE, SAMPLING, guidance, 0.001, 1000,
          "embedded guidance, an input of models that were distilled with it, such as\n"
          "HunyuanVideo and FLUX.1-dev; no second pass"),
     TO(guidance)},
    {FLAG("dynamic-cfg", SAMPLER, SAMPLING, dynamic_cfg,
          "guidance that changes from step to step, for models that have it, such as CogVideoX"),
     .alias = {"use-dynamic-cfg"}, TO(dynamic_cfg)},
    {REAL("slg-scale", SAMPLER, SAMPLING, slg_scale, 0, 1000,
          "skip-layer guidance of SD3 and SD3.5: a third pass leaves out some blocks; 0, the\n"
          "default, is off; diffusers' pipeline takes 2.8"),
     .alias = {"skip-layer-guidance-scale"}, TO(slg_scale)},
    {TEXT("skip-layers", SAMPLER, SAMPLING, skip_layers, "LIST",
          "blocks that --slg-scale leaves out, as in 7-9, the default, or 7,8,9"),
     .alias = {"skip-guidance-layers"}, TO(skip_layers)},
    {REAL("skip-layer-start", SAMPLER, SAMPLING, skip_layer_start, 0, 1,
          "share of the steps after which --slg-scale begins (default: 0.01)"),
     .alias = {"skip-layer-guidance-start"}, TO(skip_layer_start)},
    {REAL("skip-layer-end", SAMPLER, SAMPLING, skip_layer_end, 0, 1,
          "share of the steps after which --slg-scale ends (default: 0.2)"),
     .alias = {"skip-layer-guidance-stop"}, TO(skip_layer_end)},
    {REAL("flow-shift", SAMPLER, SAMPLING, flow_shift, 0.001, 1000,
          "shift of the noise schedule; larger spends more steps at high noise. Of FLUX.1-dev it goes\n"
          "by the size of the picture unless this names one"),
     .alias = {"sample-shift"}, TO(flow_shift)},
    {NAMED("sampler", SAMPLER, SAMPLING, sampler, "sampler", "NAME",
           "of Wan and SD3 UniPC, Euler, or LCM, which draws new noise after each step; of Mochi,\n"
           "HunyuanVideo and Flux.1 Euler; of CogVideoX DDIM, or DPM, which draws too; of\n"
           "Open-Sora-Plan ancestral Euler (euler_a), which draws too"),
     TO(sampler)},
    {NAMED("preset-steps", SAMPLER, SAMPLING, preset_steps, "step_preset", "NAME",
           "sampler, sigmas and guidance 1 for weights or LoRAs that this maker distilled to few steps")},
    {TEXT("sigmas", SAMPLER, SAMPLING, sigmas, "LIST",
          "noise levels of the steps, instead of --steps and a shift: falling, at most 1, as in\n"
          "1,0.9375,0.8333,0.625; with euler unless --sampler is lcm")},
    {CHOICE("sched-compat", SAMPLER, SAMPLING, sched_compat, compats, "WHICH",
            "sigmas of unipc: as in diffusers from 0.37 on (new, default), or as before (old)"),
     TO(sigmas_old)},
    {NAMED("cache", SAMPLER, SAMPLING, cache, "cache", "LEVEL",
           "with 16 steps or more, extrapolate steps in which the latents change little: fine few of\n"
           "them, usual the usual number (by the threshold of tune --cache, if any), fast more; shadow\n"
           "computes them too and reports the error (default: usual from 30 steps on, else off)"),
     TO(cache)},
    {OPTION(INT64, "seed", SAMPLER | TUNE, INPUT, seed,
            "seed of the noise, which is torch's CPU generator's (default: 0; negative: random)"),
     .letter = 's', USUAL, .value = "N"},

    {INT("repeat", BENCH, RUN, repeat, 1, SG_REPEAT_MAX,
         "runs of which the median is taken, after those that warm up (default: as many as last two\n"
         "seconds, from 5 to 200)")},
    {CHOICE("part", COLD, RUN, part, sg_cold_parts, "NAME",
            "run only this part, in this process, and print when each piece ended, in seconds of the\n"
            "monotonic clock: for a profiler")},
    {INT("repeat", COMPARE, OUTPUT, repeat, 1, SG_REPEAT_MAX,
         "renders of each arm, in turn; more of them narrow the intervals of the speed-ups\n"
         "(default: 1, and of short renders as many as bring the intervals within 3 %, for\n"
         "10 seconds at most)"),
     .alias = {"repeats"}},

    HEADING(BLOCKS | TUNE, "Self-attention"),
    {NAMED("attention", RENDER | INFO | CHECK | STEP, ATTENTION, attention, "attention", "KIND",
           "dense: exact; sage: quantised; sparge: quantised and block-sparse, the default from 8192\n"
           "tokens on, and from 1024 on if this option or a threshold is given"),
     USUAL, TO(attention.kind)},
    {TEXT("arms", COMPARE | EVAL, INPUT, arms, "LIST",
          "what to compare with the first of them: dense, sage, sparge, each with its own options\n"
          "after colons, as in dense,sparge:topk=0.3,sparge:tau=0.9:tail=off:name=mine; those of\n"
          "sampling too, as in dense:steps=31, dense:cfg-scale=4 or dense:cache=usual; the same\n"
          "option outside applies to the arms that do not set it; \\, is a comma in a value\n"
          "(default: dense,sparge)")},
    {CHOICE("preset", BLOCKS | TUNE, ATTENTION, preset, presets, "NAME",
            "defaults of the options below: our best, or SpargeAttn as published")},
    {TEXT("attention", BENCH_ATTENTION, RUN, kinds, "LIST",
          "kinds to measure (default: dense,sage,sparge, as far as the backend has them)")},
    {TEXT("topk", BENCH_ATTENTION, RUN, topk_list, "LIST",
          "shares of a row's blocks to keep (default: 0.5,0.3,0.2,0.1; of language 0.1,0.2)")},
    {REAL("topk", SPARSE | STEP, ATTENTION, topk, 0, 1,
          "keep this share of each row's blocks, the best, as in --topk 0.3 (default: 0.5)"),
     USUAL},
    {REAL("tau", BLOCKS, ATTENTION, tau, 0, 1,
          "or keep the best blocks up to this share of the predicted mass, as in --tau 0.9")},
    {REAL("sim", BLOCKS | TUNE, ATTENTION, sim, -1, 1,
          "keep every block whose self-similarity is below this (default: -1, none; of texts 0.6)"),
     TO(attention.similarity)},
    {REAL("pv", BLOCKS, ATTENTION, pv, 0, 1000,
          "PV filter: skip rows of a kept block whose weights are at most 2^-X of the largest so\n"
          "far (default: 0, off)"),
     TO(attention.pv)},
    {INT("sink", BLOCKS | TUNE, ATTENTION, sink, 0, 1e6, "always keep the first N blocks of keys (default: 0)"),
     TO(attention.sink)},
    {NAMED("score", BLOCKS | TUNE, ATTENTION, score, "score", "BY",
           "score of a block: attention between means of blocks, between means of 16 tokens, or\n"
           "the error that replacing the block by its mean would make"),
     TO(attention.score)},
    {CHOICE("tail", BLOCKS | TUNE, ATTENTION, tail, switches, "SWITCH",
            "on: the mean key and the mean value of a skipped block stand in for it"),
     TO(attention.tail)},
    {NAMED("tail-bias", BLOCKS | TUNE, ATTENTION, tail_bias, "tail_bias", "BY",
           "correction of a mean key's logit for the spread of its block"),
     TO(attention.tail_bias)},
    {NAMED("pv-dtype", BLOCKS, ATTENTION, pv_dtype, "pv_dtype", "TYPE",
           "type of weights and values in their product; auto takes the fastest here that is as good,\n"
           "int8 is faster on a CPU without AMX, fp8 needs an NVIDIA GPU of compute capability 8.9\n"
           "or newer, or --backend ref"),
     TO(attention.pv_dtype)},
    {NAMED("budget", BLOCKS, ATTENTION, budget, "budget", "OF",
            "top-k of each row, or of all rows and heads of a layer together"),
     TO(attention.budget)},
    {NAMED("order", BLOCKS | TUNE, ATTENTION, order, "order", "NAME",
           "order of the video's tokens in the sequence"),
     TO(attention.order)},
    {REAL("dense-steps", SPARSE, ATTENTION, dense_steps, 0, 1,
          "share of the steps, from the first on, with dense attention (default: 0.2)"),
     TO(attention.dense_steps)},
    {CHOICE("dense-steps-kind", SPARSE, ATTENTION, dense_steps_kind, unskipped, "KIND",
            "attention of those steps: dense is exact, sage quantised"),
     TO(attention.dense_steps_kind)},
    {TEXT("dense-layers", SPARSE | STEP, ATTENTION, dense_layers, "LIST",
          "layers with dense attention, counted from 0, as in 0,28-29"),
     TO(attention.dense_layers)},
    {TEXT("sparse-config", SPARSE | STEP, ATTENTION, sparse_config, "FILE",
          "thresholds of each head, written by tune or saved by SpargeAttn's own tuning (.pt);\n"
          "none: use no file (default: sparge-attention.json beside the model)"),
     HASHED(sparse_config), .files = SG_READS},
    {TEXT("block-mask", SPARSE | BENCH_ATTENTION, ATTENTION, block_mask, "FILE",
          "blocks to keep: safetensors, U8 or BOOL [heads or 1, blocks of 128 queries, blocks of\n"
          "64 keys]"),
     HASHED(block_mask), .files = SG_READS},
    {TEXT("capture-qkv", RENDER, RUN, capture_qkv, "LAYER:STEP:FILE",
          "save queries, keys and values of one layer and step, counted from 0, as safetensors\n"
          "for bench attention --qkv"),
     .files = SG_WRITES_CAPTURE},

    HEADING(TUNE, "Thresholds"),
    {CHOICE("rule", TUNE, RUN, rule, rules, "NAME",
            "for each head a share of blocks, or of the predicted mass (default: topk)")},
    {REAL("l1", TUNE, RUN, l1, 0.0001, 1, "relative L1 error that skipping blocks may make in a head (default: 0.05)")},
    {REAL("l2", TUNE, RUN, l2, 0.0001, 1,
          "the same with a PV filter added (default: as --l1, and no filter, which costs a CPU\n"
          "more than it saves)")},
    {REAL("least", TUNE, RUN, least, 0, 1,
          "smallest share, or mass, that a head keeps, whatever its error: averages do not show\n"
          "what occurs rarely (default: 0.2)")},
    {INT("buckets", TUNE, RUN, buckets, 1, 64, "ranges of steps, each with its own thresholds (default: 4)")},
    {FLAG("cache", TUNE, RUN, tune_cache,
          "find the threshold of the step cache instead, which --cache usual then uses; give as many\n"
          "--steps as renders have, and at least three prompts")},
    {REAL("cache-error", TUNE, RUN, cache_error, 1e-6, 1,
          "relative L2 error of the final latents that extrapolated steps may make (default: 0.01)")},

    HEADING(RENDER | BENCH | COMPARE | TUNE | EVAL | SERVE | LANGUAGE, "Output"),
    {TEXT("output", RENDER, RUN, output, "FILE",
          "by its ending: .mp4 (H.264, else AV1), .mkv (FFV1 RGB, lossless), .webp, .jpg (an image),\n"
          ".png (an image, or name-%04d.png from 1 on), .y4m (BT.601; mpv assumes BT.709 above 576\n"
          "lines); - is Y4M on stdout (default: out.png or out.mp4; if it is there, out-1, ...)"),
     .letter = 'o', USUAL},
    {TEXT("grid", RENDER, RUN, grid, "FILE",
          "also all images of --batch or of a prompt file in one picture: .png, .jpg or .webp"),
     .files = SG_WRITES},
    {REAL("crf", RENDER, OUTPUT, crf, 0, 51,
          "quality of .mp4, from 0 (only chroma loses resolution) to 51 (smallest file; default: 17;\n"
          "22 of AV1, which .mp4 holds where no encoder of H.264 opens)")},
    {INT("png-level", RENDER, OUTPUT, png_level, 0, 9,
         "compression of .png, from 0 (none) to 9 (smallest file, slowest; default: 1)")},
    {TEXT("output", COMPARE, RUN, output, "DIR",
          "a folder, made if it is not there: a clip of each arm, side.mp4, frames.png, report.json\n"
          "and report.html; images as .png; the same command continues an interrupted run, and a\n"
          "finished one is replaced (default: compare- and the seed)"),
     .letter = 'o'},
    {TEXT("output", TUNE, RUN, output, "FILE",
          "the thresholds as JSON; an existing file is replaced, - is stdout; with --cache a file\n"
          "keeps its thresholds of attention, and without it that of the cache\n"
          "(default: sparge-attention.json beside the model, unless that is the embedded one; a file\n"
          "there is replaced only if tune wrote it for this user and it has not changed since)"),
     .letter = 'o', .files = SG_WRITES},
    {FLAG("force", TUNE, RUN, force, "replace sparge-attention.json beside the model, whoever made it")},
    {TEXT("output", EVAL, RUN, output, "DIR",
          "a folder, made if it is not there: ARM/PROMPT-INDEX.mp4 as VBench reads them (of\n"
          "one frame .png), results.jsonl, summary.csv, report.html; the same command continues an\n"
          "earlier run"),
     .alias = {"out"}, .letter = 'o'},
    {TEXT("output", SERVE, RUN, output, "DIR",
          "a folder, made if it is not there, for jobs and their results, which the next start finds\n"
          "again (default: served)"),
     .letter = 'o'},
    {TEXT("output", LANGUAGE, RUN, output, "DIR",
          "a folder, made if it is not there: results.jsonl, summary.json, report.html; the same\n"
          "command continues an earlier run (default: only the table)"),
     .letter = 'o'},
    {TEXT("shard", EVAL, RUN, shard, "I/N",
          "only the I-th of N parts of the set (default: by mpirun's or srun's rank)")},
    {TEXT("merge", EVAL, RUN, merge, "DIR",
          "render nothing; write summary.csv and report.html of what is in this folder")},
    {TEXT("clip", EVAL, OUTPUT, clip, "DIR",
          "score the clips by CLIP, a folder of transformers' CLIPModel: CLIPSIM and CLIP-T of\n"
          "videos, CLIP score of pictures; clips without scores get them later, with --merge too"),
     .files = SG_READS_MODEL},
    {TEXT("clip", COMPARE, RUN, clip, "DIR",
          "score two results by CLIP, a folder of transformers' CLIPModel: CLIP-T of videos, and\n"
          "with their --prompt CLIPSIM, or CLIP score of pictures"),
     .files = SG_READS_MODEL},
    {TEXT("latents", RENDER, RUN, latents, "FILE",
          "if the file exists, decode it, without a prompt; else save the latents there before\n"
          "they are decoded (safetensors)"),
     .files = SG_READS | SG_WRITES},
    {TEXT("preview", RENDER, RUN, preview, "FILE",
          "write a preview of the clip while it is rendered: .png (frames side by side), .mp4 or\n"
          ".webp, replaced after each step; one pixel for each latent"),
     .files = SG_WRITES},
    {INT("preview-every", RENDER, RUN, preview_every, 1, SG_STEPS_MAX,
         "after every N-th step and the last (default: 1; 5 with --preview-decoder)")},
    {TEXT("preview-decoder", RENDER | SERVE, RUN, preview_decoder, "FILE",
          "decode previews in full size by this TAEHV: taew2_1 or taew2_2, .safetensors or .pth"),
     .files = SG_READS},
    {TEXT("json", RENDER, RUN, json, "FILE", "write a report: settings, times, memory, tokens; - is stdout, then -q prints no names"),
     USUAL, .files = SG_WRITES},
    {TEXT("json", TUNE, RUN, json, "FILE",
          "write a report: error and density of each head, or of each threshold tried; times;\n"
          "- is stdout"),
     .files = SG_WRITES},
    {TEXT("json", BENCH | LANGUAGE, RUN, json, "FILE", "write the figures as JSON; - is stdout, without the table"),
     .files = SG_WRITES},
    {TEXT("json", COMPARE, RUN, json, "FILE",
          "write all figures, those of each frame too, an infinite PSNR as null; - is stdout, without\n"
          "the table"),
     .files = SG_WRITES},
    {TEXT("json", INFO, RUN, json, "FILE", "write what is shown as JSON, and more of it; - is stdout, without the text"),
     .files = SG_WRITES},

    HEADING(ALL, "Machine"),
    {CHOICE("backend", ALL, LOAD, backend, backends, "NAME",
            "backend to compute with; ref is the slow, plain reference")},
    {INT("device", ALL & ~CHECK, RUN, device, 0, 1023,
         "which GPU, counted from 0 (default: 0; the ranks of mpirun and srun share a host's GPUs)")},
    {CHOICE("dtype", ALL, LOAD, dtype, dtypes, "TYPE",
            "type of the matrix products; auto takes the faster on this machine")},
    {INT("threads", ALL, LOAD, threads, 1, 4096, "CPU threads (default: one a core)"), .letter = 't', USUAL},
    {NAMED("cpumask", ALL, LOAD, cpumask, "cpu_mask", "LEVEL",
           "highest CPU instruction set to use (or SPARGE_GEN_CPUMASK)")},
    {NAMED("gpumask", ALL, LOAD, gpumask, "gpu_mask", "LEVEL",
           "use only the GPU features of this level, and no cuDNN below the GPU's own level (default)")},
    {OPTION(BYTES, "memory-limit", OPENS | LANGUAGE, RUN, memory_limit,
            "refuse a render that needs more, as in 8G or 512M (default: what the machine has free);\n"
            "info --backend cuda plans by it for a GPU of that size, without one too"),
     .value = "SIZE"},
    {NAMED("vae-tiling", (SAMPLER & ~CHECK) | INFO, SAMPLING, vae_tiling, "vae_tiling", "WHEN",
           "decode in blended tiles: of 256x256 pixels, as Mochi, HunyuanVideo and Open-Sora-Plan can,\n"
           "or of the VAE's sample_size, as models of images can, which then encode in tiles too; less\n"
           "memory, and the frames differ a little; auto: if whole frames would not fit"),
     TO(vae_tiling)},
    {NAMED("weights-as", OPENS & ~TUNE, LOAD, weights_as, "weights_as", "TYPE",
           "file: keep quantised weights (GGUF, FP8, INT8) as the file has them, and widen what is\n"
           "multiplied; bf16: widen all when they are loaded; the clip is the same, or almost with a\n"
           "LoRA; auto: file")},
    {FLAG("lora-merge", OPENS & ~TUNE, LOAD, lora_merge,
          "merge LoRAs into the quantised weights that they change, and pack these as Q8_0; without\n"
          "it their products are computed beside the weights: more exact, and slower")},
    {NAMED("offload", OPENS & ~(CHECK | TUNE), RUN, offload, "offload", "WHEN",
           "keep blocks of layers in host memory and copy each to the GPU when it is needed; auto: as\n"
           "many as do not fit on the GPU; on: all of the denoiser's; info shows what each way takes")},

    HEADING(ALL, "Messages"),
    {FLAG("quiet", (SAMPLER & ~CHECK) | TUNE, RUN, quiet,
          "print only names of files (stdout), errors and a drawn seed (stderr); --strict is on"),
     .letter = 'q', USUAL},
    {FLAG("quiet", CHECK | STEP, RUN, quiet, "print only the result and errors; --strict is on"), .letter = 'q'},
    {FLAG("quiet", LANGUAGE, RUN, quiet, "print only the table and errors"), .letter = 'q'},
    {FLAG("verbose", RENDER | CHECK, RUN, verbose,
          "print the plan, what attention skipped, and the time of each stage"),
     .letter = 'v'},
    {FLAG("version", ALL, RUN, version, "print the version, and what this build can do")},
    {FLAG("help", ALL, RUN, help, "print this help; --help all: every option"), .letter = 'h'},
};
/* clang-format on */

const char *const *sg_option_choices(const sg_option *o) { return o->names ? sg_names(o->names) : o->choices; }

const int sg_option_count = (int)(sizeof sg_option_table / sizeof *sg_option_table);

/* Whether the first n bytes of typed are name. */
static bool is_name(const char *typed, size_t n, const char *name)
{
    if (strlen(name) != n) return false;
    for (size_t i = 0; i < n; i++)
        if ((typed[i] == '_' ? '-' : typed[i]) != name[i]) return false;
    return true;
}

const sg_option *sg_option_next(sg_command c, int *i)
{
    while (*i < sg_option_count) {
        const sg_option *const o = &sg_option_table[(*i)++];
        if (o->name && (o->commands & c)) return o;
    }
    return NULL;
}

const sg_option *sg_option_find(const char *name, size_t n, sg_command c)
{
    const sg_option *o;
    for (int i = 0; (o = sg_option_next(c, &i)) != NULL;) {
        bool found = is_name(name, n, o->name);
        for (const char *const *a = o->alias; *a; a++) found = found || is_name(name, n, *a);
        if (found) break;
    }
    return o;
}
