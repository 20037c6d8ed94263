/* option_table.c - the options. A new one is a row here, a member of sg_settings, and the code that uses it. */
#include "option_table.h"
#include "backend.h"
#include "engine.h"
#include "policy.h"

#include <stdio.h>
#include <string.h>

#define AT(member) .offset = offsetof(sg_settings, member)
#define PHASE(name) .phase = SG_OPTION_##name
#define TO(member, type) .request = offsetof(sg_request, member), .as = SG_AS_##type
#define HASHED(member) .hash = offsetof(sg_settings, hash.member)
#define RENDER SG_COMMAND_RENDER
#define INFO SG_COMMAND_INFO
#define CHECK SG_COMMAND_CHECK
#define STEP SG_COMMAND_BENCH_STEP
#define ATTENTION SG_COMMAND_BENCH_ATTENTION
#define COLD SG_COMMAND_BENCH_COLD
#define BENCH SG_COMMAND_BENCH
#define COMPARE SG_COMMAND_COMPARE
#define TUNE SG_COMMAND_TUNE
#define EVAL SG_COMMAND_EVAL
#define MODEL (RENDER | INFO | CHECK | STEP | COLD | TUNE | COMPARE | EVAL)
#define ALL (MODEL | ATTENTION)
#define IMAGES (MODEL & ~INFO)
#define SAMPLER (RENDER | CHECK | COMPARE | EVAL)
#define SPARSE (RENDER | INFO | CHECK | COMPARE | EVAL)
#define CHOICE (SPARSE | ATTENTION) /* of blocks */

/* The names of known shapes, and what the first of them, the default, is. */
static const char *list_shapes(char *text, size_t size)
{
    enum { COLUMNS = 80 };
    const sg_known_shape *s, *const first = sg_known_shape_at(0);
    size_t n = 0, line = 0;
    for (int i = 0; (s = sg_known_shape_at(i)) != NULL && n < size; i++) {
        const bool fits = n - line + strlen(s->name) + 3 <= COLUMNS;
        n += (size_t)snprintf(text + n, size - n, "%s%s", i == 0 ? "" : fits ? ", " : ",\n", s->name);
        if (!fits) line = n - strlen(s->name);
    }
    if (n < size)
        snprintf(text + n, size - n, "\n(default: %s, which is 1,%d,%lldx%lldx%lld,%d)", first->name, first->heads,
                 (long long)first->grid[0], (long long)first->grid[1], (long long)first->grid[2], first->head_dim);
    return text;
}

/* clang-format off */
#define HEADING(which, text) {.kind = SG_OPTION_HEADING, .commands = (which), .help = (text)}

static const char *const compats[] = {"new", "old", NULL};
static const char *const backends[] = {"auto", "cuda", "cpu", "ref", NULL};
static const char *const dtypes[] = {"auto", "f32", "bf16", NULL};
static const char *const presets[] = {"usual", "paper", NULL};
static const char *const offloads[] = {"auto", "on", "off", NULL};
static const char *const switches[] = {"off", "on", NULL};
static const char *const budgets[] = {"row", "heads", NULL};
static const char *const unskipped[] = {"dense", "sage", NULL};
static const char *const rules[] = {"topk", "tau", NULL};

const char *const sg_cold_parts[] = {"context", "backend", "clip", NULL};
const char *const sg_picture_fits[] = {"crop", "pad", "stretch", NULL};

const sg_option sg_option_table[] = {
    HEADING(MODEL, "What to render"),
    {.name = "model", .letter = 'm', .usual = true, .kind = SG_OPTION_TEXT, .commands = MODEL, AT(model), PHASE(LOAD),
     HASHED(model), .files = SG_READS_MODEL, .value = "PATH",
     .help = "a model: a folder in Diffusers layout or in that of an original repository, or a file\n"
             "(default: $SPARGE_GEN_MODEL, else the embedded tiny-wan)"},
    {.name = "diffusion-model", .kind = SG_OPTION_TEXT, .commands = MODEL, AT(parts.diffusion_model), PHASE(LOAD),
     .files = SG_READS_MODEL, .value = "FILE",
     .help = "denoiser that replaces the model's; with two experts, the one for low noise"},
    {.name = "high-noise-diffusion-model", .kind = SG_OPTION_TEXT, .commands = MODEL,
     AT(parts.high_noise_diffusion_model), PHASE(LOAD), .files = SG_READS_MODEL, .value = "FILE",
     .help = "the expert for high noise"},
    {.name = "vae", .kind = SG_OPTION_TEXT, .commands = MODEL, AT(parts.vae), PHASE(LOAD), .files = SG_READS_MODEL,
     .value = "FILE", .help = "the VAE"},
    {.name = "text-encoder", .alias = {"t5xxl"}, .kind = SG_OPTION_TEXT, .commands = MODEL, AT(parts.text_encoder),
     PHASE(LOAD), .files = SG_READS_MODEL, .value = "FILE", .help = "the text encoder: T5, UMT5 or Llama"},
    {.name = "clip-vision", .alias = {"clip_vision"}, .kind = SG_OPTION_TEXT, .commands = MODEL, AT(parts.clip_vision),
     PHASE(LOAD), .files = SG_READS_MODEL, .value = "FILE", .help = "CLIP's image encoder, for Wan 2.1 image to video"},
    {.name = "tokenizer", .kind = SG_OPTION_TEXT, .commands = MODEL, AT(parts.tokenizer), PHASE(LOAD),
     .files = SG_READS_MODEL, .value = "PATH",
     .help = "tokenizer of the text encoder, spiece.model or a folder, if its file has none inside"},
    {.name = "clip-l", .alias = {"clip_l"}, .kind = SG_OPTION_TEXT, .commands = MODEL, AT(parts.clip_l), PHASE(LOAD),
     .files = SG_READS_MODEL, .value = "FILE",
     .help = "CLIP-L, a text encoder of HunyuanVideo, Flux.1 and Stable Diffusion 3"},
    {.name = "clip-g", .alias = {"clip_g"}, .kind = SG_OPTION_TEXT, .commands = MODEL, AT(parts.clip_g), PHASE(LOAD),
     .files = SG_READS_MODEL, .value = "FILE",
     .help = "CLIP-G, a text encoder of Stable Diffusion 3"},
    {.name = "clip-tokenizer", .kind = SG_OPTION_TEXT, .commands = MODEL, AT(parts.clip_tokenizer), PHASE(LOAD),
     .files = SG_READS_MODEL, .value = "FOLDER",
     .help = "the tokenizer of both: the folder with vocab.json and merges.txt, or tokenizer.json"},
    {.name = "lora", .kind = SG_OPTION_LIST, .commands = MODEL, AT(lora), PHASE(LOAD), .files = SG_READS,
     .value = "FILE",
     .help = "add this LoRA to the denoiser's weights, with strength X as FILE:X; may be repeated"},
    {.name = "high-noise-lora", .kind = SG_OPTION_LIST, .commands = MODEL, AT(high_noise_lora), PHASE(LOAD),
     .files = SG_READS, .value = "FILE",
     .help = "the same, only for the high-noise expert of Wan 2.2 A14B; --lora is then for the other"},
    {.name = "fast", .usual = true, .kind = SG_OPTION_FLAG, .commands = MODEL, AT(fast), PHASE(LOAD),
     .help = "few steps without guidance, by the LoRA that comes with the model: tiny-wan needs 4"},
    {.name = "prompt", .letter = 'p', .usual = true, .kind = SG_OPTION_TEXT, .commands = (SAMPLER & ~EVAL) | TUNE,
     AT(prompt), PHASE(INPUT), .value = "TEXT", .help = "what the video shows"},
    {.name = "prompts", .alias = {"prompt-file"}, .kind = SG_OPTION_TEXT, .commands = EVAL, AT(prompts), PHASE(INPUT),
     .files = SG_READS, .value = "FILE",
     .help = "the set: text with one prompt a line (# begins a comment), .jsonl, .csv, or .json\n"
             "as of VBench and COCO;"
             " an entry's own seed, size, frames, negative_prompt, image,\n"
             "last_image, video and strength replace the options here"},
    {.name = "skip-bad", .kind = SG_OPTION_FLAG, .commands = EVAL, AT(skip_bad), PHASE(INPUT),
     .help = "skip malformed lines and entries whose pictures or videos cannot be used; with --strict\n"
             "also sizes that the model cannot render"},
    {.name = "per-prompt", .kind = SG_OPTION_INT, .commands = EVAL, AT(per_prompt), PHASE(INPUT), .lo = 1, .hi = 1000,
     .value = "N",
     .help = "clips of each entry, with consecutive seeds (default: 1)"},
    {.name = "prompt-file", .usual = true, .kind = SG_OPTION_TEXT, .commands = RENDER, AT(prompt_file),
     .files = SG_READS, .value = "FILE",
     .help = "one prompt per line, # starts a comment; clips and reports are numbered -0001, ..."},
    {.name = "batch", .alias = {"batch-count"}, .kind = SG_OPTION_INT, .commands = RENDER, AT(batch), PHASE(INPUT),
     .lo = 1, .hi = 10000, .value = "N",
     .help = "N clips or images of each prompt, with consecutive seeds, numbered as those of a prompt\n"
             "file"},
    {.name = "prompt-file", .kind = SG_OPTION_TEXT, .commands = TUNE, AT(prompt_file), .files = SG_READS,
     .value = "FILE",
     .help = "one prompt a line, # begins a comment; the thresholds hold for all of them"},
    {.name = "negative-prompt", .letter = 'n', .usual = true, .kind = SG_OPTION_TEXT, .commands = SAMPLER | TUNE,
     AT(negative_prompt), PHASE(INPUT), TO(negative_prompt, TEXT), .value = "TEXT",
     .help = "what the video should not show; used if --cfg-scale is above 1"},
    {.name = "image", .alias = {"init-img"}, .letter = 'i', .usual = true, .kind = SG_OPTION_TEXT, .commands = IMAGES,
     AT(image), PHASE(INPUT), HASHED(image), .files = SG_READS, .value = "FILE",
     .help = "begin the video with this picture, PNG or JPEG, or start an image from it (info tells)"},
    {.name = "last-image", .alias = {"end-img"}, .kind = SG_OPTION_TEXT, .commands = IMAGES, AT(last_image),
     PHASE(INPUT), HASHED(last_image), .files = SG_READS, .value = "FILE",
     .help = "last frame of the video, for models that accept one"},
    {.name = "video", .kind = SG_OPTION_TEXT, .commands = RENDER | COMPARE | EVAL, AT(video), PHASE(INPUT),
     HASHED(video), .files = SG_READS_FRAMES, .value = "FILE",
     .help = "start from this video (MP4, MOV, MKV, WebM, AVI or Y4M) or folder of pictures, not from\n"
             "noise alone; with Wan, CogVideoX and HunyuanVideo"},
    {.name = "strength", .kind = SG_OPTION_REAL, .commands = RENDER | COMPARE | EVAL, AT(strength), PHASE(INPUT),
     TO(strength, REAL), .lo = 0.001, .hi = 1, .value = "X",
     .help = "how much of the video, or of --image with a model of images, is replaced: only this share\n"
             "of the steps runs, the last ones (default: 0.8; images 0.6)"},
    {.name = "image-folder", .kind = SG_OPTION_TEXT, .commands = EVAL, AT(image_folder), PHASE(INPUT), .value = "DIR",
     .help = "where the pictures and videos of the set are (default: beside its file); an entry that\n"
             "names no picture has PROMPT.jpg there, as in VBench-I2V"},
    {.name = "fit", .kind = SG_OPTION_CHOICE, .commands = IMAGES, AT(fit), PHASE(INPUT), .choices = sg_picture_fits,
     .value = "HOW",
     .help = "how pictures and frames are fitted to the clip's size: crop (default), pad with black,\n"
             "stretch"},
    {.name = "size", .usual = true, .kind = SG_OPTION_SIZE, .commands = MODEL, AT(size), PHASE(INPUT), .lo = 1,
     .hi = 16384, .value = "WxH", .help = "width and height in pixels, as in 832x480"},
    {.name = "width", .letter = 'W', .kind = SG_OPTION_INT, .commands = MODEL, AT(size[0]), PHASE(INPUT),
     TO(width, INT), .lo = 1, .hi = 16384, .value = "N", .help = "width alone"},
    {.name = "height", .letter = 'H', .kind = SG_OPTION_INT, .commands = MODEL, AT(size[1]), PHASE(INPUT),
     TO(height, INT), .lo = 1, .hi = 16384, .value = "N", .help = "height alone"},
    {.name = "frames", .alias = {"num-frames", "video-frames"}, .usual = true, .kind = SG_OPTION_INT, .commands = MODEL,
     AT(frames), PHASE(INPUT), TO(frames, INT), .lo = 1, .hi = 100000, .value = "N",
     .help = "number of frames; 1 makes an image"},
    {.name = "seconds", .kind = SG_OPTION_REAL, .commands = RENDER | INFO | COMPARE | EVAL, AT(seconds), PHASE(INPUT),
     .lo = 0.001, .hi = 3600, .value = "T",
     .help = "length in seconds, instead of --frames; the nearest possible length is used"},
    {.name = "strict", .kind = SG_OPTION_FLAG, .commands = MODEL, AT(strict), PHASE(INPUT),
     .help = "refuse a size or a number of frames that the model cannot render, instead of using the\n"
             "nearest that it can"},
    {.name = "fps", .kind = SG_OPTION_INT, .commands = RENDER | INFO | COMPARE | EVAL, AT(fps), PHASE(INPUT),
     TO(fps, INT), .lo = 1, .hi = 1000, .value = "N", .help = "frames per second of the file"},

    HEADING(ATTENTION, "What to measure"),
    {.name = "shape", .kind = SG_OPTION_TEXT, .commands = ATTENTION, AT(shape), .value = "SHAPE",
     .help = "B,H,N,D (batch, heads, tokens or TxYxX, head size), or that of a model:", .more = list_shapes},
    {.name = "heads", .kind = SG_OPTION_INT, .commands = ATTENTION, AT(heads), .lo = 1, .hi = 256, .value = "N",
     .help = "only the first N heads of the shape"},
    {.name = "qkv", .kind = SG_OPTION_TEXT, .commands = ATTENTION, AT(qkv), .files = SG_READS, .value = "FILE",
     .help = "queries, keys and values saved by --capture-qkv, instead of a shape"},

    HEADING(SAMPLER | BENCH | TUNE, "Sampling"),
    {.name = "steps", .alias = {"num-inference-steps"}, .usual = true, .kind = SG_OPTION_INT,
     .commands = SPARSE | COLD | TUNE, AT(steps), PHASE(SAMPLING), TO(steps, INT), .lo = 1, .hi = 1000, .value = "N",
     .help = "denoising steps"},
    {.name = "cfg-scale", .alias = {"guidance-scale"}, .letter = 'g', .usual = true, .kind = SG_OPTION_REAL,
     .commands = SAMPLER | STEP | COLD | TUNE, AT(cfg_scale), PHASE(SAMPLING), TO(cfg_scale, REAL), .lo = 0, .hi = 1000,
     .value = "X",
     .help = "guidance scale; 1 or less ignores the negative prompt and halves the time"},
    {.name = "cfg-scale-2", .alias = {"guidance-scale-2"}, .kind = SG_OPTION_REAL, .commands = SAMPLER, AT(cfg_scale_2),
     PHASE(SAMPLING), TO(cfg_scale_2, REAL), .lo = 0, .hi = 1000, .value = "X",
     .help = "guidance of the low-noise expert of a model with two (default: as --cfg-scale)"},
    {.name = "guidance", .kind = SG_OPTION_REAL, .commands = SAMPLER | STEP | COLD | TUNE, AT(guidance),
     PHASE(SAMPLING), TO(guidance, REAL), .lo = 0.001, .hi = 1000, .value = "X",
     .help = "embedded guidance, an input of models that were distilled with it, such as\n"
             "HunyuanVideo and FLUX.1-dev; no second pass"},
    {.name = "dynamic-cfg", .alias = {"use-dynamic-cfg"}, .kind = SG_OPTION_FLAG, .commands = SAMPLER, AT(dynamic_cfg),
     PHASE(SAMPLING), TO(dynamic_cfg, BOOL),
     .help = "guidance that changes from step to step, for models that have it, such as CogVideoX"},
    {.name = "slg-scale", .alias = {"skip-layer-guidance-scale"}, .kind = SG_OPTION_REAL, .commands = SAMPLER,
     AT(slg_scale), PHASE(SAMPLING), TO(slg_scale, REAL), .lo = 0, .hi = 1000, .value = "X",
     .help = "skip-layer guidance of SD3 and SD3.5: a third pass leaves out some blocks; 0, the\n"
             "default, is off; diffusers' pipeline takes 2.8"},
    {.name = "skip-layers", .alias = {"skip-guidance-layers"}, .kind = SG_OPTION_TEXT, .commands = SAMPLER,
     AT(skip_layers), PHASE(SAMPLING), TO(skip_layers, TEXT), .value = "LIST",
     .help = "blocks that --slg-scale leaves out, as in 7-9, the default, or 7,8,9"},
    {.name = "skip-layer-start", .alias = {"skip-layer-guidance-start"}, .kind = SG_OPTION_REAL, .commands = SAMPLER,
     AT(skip_layer_start), PHASE(SAMPLING), TO(skip_layer_start, REAL), .lo = 0, .hi = 1, .value = "X",
     .help = "share of the steps after which --slg-scale begins (default: 0.01)"},
    {.name = "skip-layer-end", .alias = {"skip-layer-guidance-stop"}, .kind = SG_OPTION_REAL, .commands = SAMPLER,
     AT(skip_layer_end), PHASE(SAMPLING), TO(skip_layer_end, REAL), .lo = 0, .hi = 1, .value = "X",
     .help = "share of the steps after which --slg-scale ends (default: 0.2)"},
    {.name = "flow-shift", .alias = {"sample-shift"}, .kind = SG_OPTION_REAL, .commands = SAMPLER, AT(flow_shift),
     PHASE(SAMPLING), TO(flow_shift, REAL), .lo = 0.001, .hi = 1000, .value = "X",
     .help = "shift of the noise schedule; larger spends more steps at high noise. Of FLUX.1-dev it goes\n"
             "by the size of the picture unless this names one"},
    {.name = "sampler", .kind = SG_OPTION_CHOICE, .commands = SAMPLER, AT(sampler), PHASE(SAMPLING), TO(sampler, INDEX),
     .choices = sg_sampler_names, .value = "NAME",
     .help = "of Wan and SD3 UniPC, Euler, or LCM, which draws new noise after each step; of Mochi,\n"
             "HunyuanVideo and Flux.1 Euler; of CogVideoX DDIM, or DPM, which draws too"},
    {.name = "preset-steps", .kind = SG_OPTION_CHOICE, .commands = SAMPLER, AT(preset_steps), PHASE(SAMPLING),
     .choices = sg_step_preset_names, .value = "NAME",
     .help = "sampler, sigmas and guidance 1 for weights or LoRAs that this maker distilled to few steps"},
    {.name = "sigmas", .kind = SG_OPTION_TEXT, .commands = SAMPLER, AT(sigmas), PHASE(SAMPLING), .value = "LIST",
     .help = "noise levels of the steps, instead of --steps and a shift: falling, at most 1, as in\n"
             "1,0.9375,0.8333,0.625; with euler unless --sampler is lcm"},
    {.name = "sched-compat", .kind = SG_OPTION_CHOICE, .commands = SAMPLER, AT(sched_compat), PHASE(SAMPLING),
     TO(sigmas_old, SWITCH), .choices = compats, .value = "WHICH",
     .help = "sigmas of unipc: as in diffusers from 0.37 on (new, default), or as before (old)"},
    {.name = "cache", .kind = SG_OPTION_CHOICE, .commands = SAMPLER, AT(cache), PHASE(SAMPLING), TO(cache, INDEX),
     .choices = sg_cache_names, .value = "LEVEL",
     .help = "with 16 steps or more, extrapolate steps in which the latents change little: fine few of\n"
             "them, usual the usual number (by the threshold of tune --cache, if any), fast more; shadow\n"
             "computes them too and reports the error (default: usual from 30 steps on, else off)"},
    {.name = "seed", .letter = 's', .usual = true, .kind = SG_OPTION_INT64, .commands = SAMPLER | TUNE, AT(seed),
     PHASE(INPUT), .value = "N",
     .help = "seed of the noise, which is torch's CPU generator's (default: 0; negative: random)"},

    {.name = "repeat", .kind = SG_OPTION_INT, .commands = STEP | ATTENTION, AT(repeat), .lo = 1, .hi = SG_REPEAT_MAX,
     .value = "N", .help = "number of measurements (default: 3)"},
    {.name = "repeat", .kind = SG_OPTION_INT, .commands = COLD, AT(repeat), .lo = 1, .hi = SG_REPEAT_MAX, .value = "N",
     .help = "number of turns (default: 5)"},
    {.name = "part", .kind = SG_OPTION_CHOICE, .commands = COLD, AT(part), .choices = sg_cold_parts, .value = "NAME",
     .help = "run only this part, in this process, and print when each piece ended, in seconds of the\n"
             "monotonic clock: for a profiler"},
    {.name = "repeat", .alias = {"repeats"}, .kind = SG_OPTION_INT, .commands = COMPARE, AT(repeat), PHASE(OUTPUT),
     .lo = 1, .hi = SG_REPEAT_MAX, .value = "N",
     .help = "renders of each arm, in turn; more of them narrow the intervals of the speed-ups\n"
             "(default: 1)"},

    HEADING(CHOICE | TUNE, "Self-attention"),
    {.name = "attention", .usual = true, .kind = SG_OPTION_CHOICE, .commands = RENDER | INFO | CHECK, AT(attention),
     PHASE(ATTENTION), TO(attention.kind, INDEX), .choices = sg_attention_names, .value = "KIND",
     .help = "dense: exact; sage: quantised; sparge: quantised and block-sparse, the default from 8192\n"
             "tokens on, and from 1024 on if this option or a threshold is given"},
    {.name = "arms", .kind = SG_OPTION_TEXT, .commands = COMPARE | EVAL, AT(arms), PHASE(INPUT), .value = "LIST",
     .help = "what to compare with the first of them: dense, sage, sparge, each with its own options\n"
             "after colons, as in dense,sparge:topk=0.3,sparge:tau=0.9:tail=off:name=mine; those of\n"
             "sampling too, as in dense:steps=31, dense:cfg-scale=4 or dense:cache=usual; the same\n"
             "option outside applies to the arms that do not set it; \\, is a comma in a value\n"
             "(default: dense,sparge)"},
    {.name = "preset", .kind = SG_OPTION_CHOICE, .commands = CHOICE | TUNE, AT(preset), PHASE(ATTENTION),
     .choices = presets, .value = "NAME",
     .help = "defaults of the options below: our best, or SpargeAttn as published"},
    {.name = "attention", .kind = SG_OPTION_TEXT, .commands = ATTENTION, AT(kinds), .value = "LIST",
     .help = "kinds to measure (default: dense,sage,sparge, as far as the backend has them)"},
    {.name = "topk", .kind = SG_OPTION_TEXT, .commands = ATTENTION, AT(topk_list), .value = "LIST",
     .help = "shares of a row's blocks to keep (default: 0.5,0.3,0.2,0.1)"},
    {.name = "topk", .usual = true, .kind = SG_OPTION_REAL, .commands = SPARSE, AT(topk), PHASE(ATTENTION), .lo = 0,
     .hi = 1, .value = "X",
     .help = "keep this share of each row's blocks, the best, as in --topk 0.3 (default: 0.5)"},
    {.name = "tau", .usual = true, .kind = SG_OPTION_REAL, .commands = CHOICE, AT(tau), PHASE(ATTENTION), .lo = 0,
     .hi = 1, .value = "X",
     .help = "or keep the best blocks up to this share of the predicted mass, as in --tau 0.9"},
    {.name = "sim", .kind = SG_OPTION_REAL, .commands = CHOICE, AT(sim), PHASE(ATTENTION), TO(attention.theta, FLOAT),
     .lo = -1, .hi = 1, .value = "X",
     .help = "keep every block whose self-similarity is below this (default: -1, none)"},
    {.name = "pv", .kind = SG_OPTION_REAL, .commands = CHOICE, AT(pv), PHASE(ATTENTION),
     TO(attention.pv_threshold, FLOAT), .lo = 0, .hi = 1000, .value = "X",
     .help = "PV filter: skip rows of a kept block whose weights are at most 2^-X of the largest so\n"
             "far (default: 0, off)"},
    {.name = "sink", .kind = SG_OPTION_INT, .commands = CHOICE | TUNE, AT(sink), PHASE(ATTENTION),
     TO(attention.sink, INT), .lo = 0, .hi = 1e6, .value = "N",
     .help = "always keep the first N blocks of keys (default: 0)"},
    {.name = "score", .kind = SG_OPTION_CHOICE, .commands = CHOICE | TUNE, AT(score), PHASE(ATTENTION),
     TO(attention.score, INDEX), .choices = sg_score_names, .value = "BY",
     .help = "score of a block: attention between means of blocks, between means of 16 tokens, or\n"
             "the error that replacing the block by its mean would make"},
    {.name = "tail", .kind = SG_OPTION_CHOICE, .commands = CHOICE | TUNE, AT(tail), PHASE(ATTENTION),
     TO(attention.tail, SWITCH), .choices = switches, .value = "SWITCH",
     .help = "on: the mean key and the mean value of a skipped block stand in for it"},
    {.name = "tail-bias", .kind = SG_OPTION_CHOICE, .commands = CHOICE | TUNE, AT(tail_bias), PHASE(ATTENTION),
     TO(attention.tail_bias, INDEX), .choices = sg_tail_bias_names, .value = "BY",
     .help = "correction of a mean key's logit for the spread of its block"},
    {.name = "pv-dtype", .kind = SG_OPTION_CHOICE, .commands = CHOICE, AT(pv_dtype), PHASE(ATTENTION),
     TO(attention.pv_dtype, INDEX), .choices = sg_pv_dtype_names, .value = "TYPE",
     .help = "type of weights and values in their product; auto takes the fastest here that is as good,\n"
             "int8 is faster on a CPU without AMX, fp8 needs an NVIDIA GPU of compute capability 8.9\n"
             "or newer, or --backend ref"},
    {.name = "budget", .kind = SG_OPTION_CHOICE, .commands = CHOICE, AT(budget), PHASE(ATTENTION),
     TO(attention.heads, SWITCH), .choices = budgets, .value = "OF",
     .help = "top-k of each row, or of all rows and heads of a layer together"},
    {.name = "order", .kind = SG_OPTION_CHOICE, .commands = CHOICE | TUNE, AT(order), PHASE(ATTENTION),
     TO(attention.order, INDEX), .choices = sg_order_names, .value = "NAME",
     .help = "order of the video's tokens in the sequence"},
    {.name = "dense-steps", .kind = SG_OPTION_REAL, .commands = SPARSE, AT(dense_steps), PHASE(ATTENTION),
     TO(attention.dense_steps, REAL), .lo = 0, .hi = 1, .value = "X",
     .help = "share of the steps, from the first on, with dense attention (default: 0.2)"},
    {.name = "dense-steps-kind", .kind = SG_OPTION_CHOICE, .commands = SPARSE, AT(dense_steps_kind), PHASE(ATTENTION),
     TO(attention.dense_steps_kind, INDEX), .choices = unskipped, .value = "KIND",
     .help = "attention of those steps: dense is exact, sage quantised"},
    {.name = "dense-layers", .kind = SG_OPTION_TEXT, .commands = SPARSE, AT(dense_layers), PHASE(ATTENTION),
     TO(attention.dense_layers, TEXT), .value = "LIST",
     .help = "layers with dense attention, counted from 0, as in 0,28-29"},
    {.name = "sparse-config", .kind = SG_OPTION_TEXT, .commands = SPARSE, AT(sparse_config), PHASE(ATTENTION),
     HASHED(sparse_config), .files = SG_READS, .value = "FILE",
     .help = "thresholds of each head, written by tune or saved by SpargeAttn's own tuning (.pt);\n"
             "none: use no file (default: sparge-attention.json beside the model)"},
    {.name = "block-mask", .kind = SG_OPTION_TEXT, .commands = SPARSE, AT(block_mask), PHASE(ATTENTION),
     HASHED(block_mask), .files = SG_READS, .value = "FILE",
     .help = "blocks to keep: safetensors, U8 or BOOL [heads or 1, blocks of 128 queries, blocks of\n"
             "64 keys]"},
    {.name = "capture-qkv", .kind = SG_OPTION_TEXT, .commands = RENDER, AT(capture_qkv), .files = SG_WRITES_CAPTURE,
     .value = "LAYER:STEP:FILE",
     .help = "save queries, keys and values of one layer and step, counted from 0, as safetensors\n"
             "for bench attention --qkv"},

    HEADING(TUNE, "Thresholds"),
    {.name = "rule", .kind = SG_OPTION_CHOICE, .commands = TUNE, AT(rule), .choices = rules, .value = "NAME",
     .help = "for each head a share of blocks, or of the predicted mass (default: topk)"},
    {.name = "l1", .kind = SG_OPTION_REAL, .commands = TUNE, AT(l1), .lo = 0.0001, .hi = 1, .value = "X",
     .help = "relative L1 error that skipping blocks may make in a head (default: 0.05)"},
    {.name = "l2", .kind = SG_OPTION_REAL, .commands = TUNE, AT(l2), .lo = 0.0001, .hi = 1, .value = "X",
     .help = "the same with a PV filter added (default: as --l1, and no filter, which costs a CPU\n"
             "more than it saves)"},
    {.name = "least", .kind = SG_OPTION_REAL, .commands = TUNE, AT(least), .lo = 0, .hi = 1, .value = "X",
     .help = "smallest share, or mass, that a head keeps, whatever its error: averages do not show\n"
             "what occurs rarely (default: 0.2)"},
    {.name = "buckets", .kind = SG_OPTION_INT, .commands = TUNE, AT(buckets), .lo = 1, .hi = 64, .value = "N",
     .help = "ranges of steps, each with its own thresholds (default: 4)"},
    {.name = "cache", .kind = SG_OPTION_FLAG, .commands = TUNE, AT(tune_cache),
     .help = "find the threshold of the step cache instead, which --cache usual then uses; give as many\n"
             "--steps as renders have, and at least three prompts"},
    {.name = "cache-error", .kind = SG_OPTION_REAL, .commands = TUNE, AT(cache_error), .lo = 1e-6, .hi = 1,
     .value = "X",
     .help = "relative L2 error of the final latents that extrapolated steps may make (default: 0.01)"},

    HEADING(RENDER | BENCH | COMPARE | TUNE | EVAL, "Output"),
    {.name = "output", .letter = 'o', .usual = true, .kind = SG_OPTION_TEXT, .commands = RENDER, AT(output),
     .value = "FILE",
     .help = "by its ending .mp4 (H.264, else AV1), .mkv (FFV1 in RGB, lossless), .webp, .y4m, .png (one\n"
             "frame, or several as name-%04d.png), .jpg (one frame); - writes Y4M to stdout\n"
             "(default: out.png of one frame, else out.mp4, or out.y4m in a build without FFmpeg)"},
    {.name = "grid", .kind = SG_OPTION_TEXT, .commands = RENDER, AT(grid), .files = SG_WRITES, .value = "FILE",
     .help = "also all images of --batch or of a prompt file in one picture: .png, .jpg or .webp"},
    {.name = "crf", .kind = SG_OPTION_REAL, .commands = RENDER, AT(crf), PHASE(OUTPUT), .lo = 0, .hi = 51, .value = "N",
     .help = "quality of .mp4, from 0 (only chroma loses resolution) to 51 (smallest file; default: 17;\n"
             "22 of AV1, which .mp4 holds where no encoder of H.264 opens)"},
    {.name = "png-level", .kind = SG_OPTION_INT, .commands = RENDER, AT(png_level), PHASE(OUTPUT), .lo = 0, .hi = 9,
     .value = "N",
     .help = "compression of .png, from 0 (none) to 9 (smallest file, slowest; default: 1)"},
    {.name = "output", .letter = 'o', .kind = SG_OPTION_TEXT, .commands = COMPARE, AT(output), .value = "DIR",
     .help = "a folder, made if it is not there: a clip of each arm, side.mp4, frames.png, report.json\n"
             "and report.html; images as .png (default: compare- and the seed)"},
    {.name = "output", .letter = 'o', .kind = SG_OPTION_TEXT, .commands = TUNE, AT(output), .files = SG_WRITES,
     .value = "FILE",
     .help = "the thresholds as JSON; an existing file is replaced, - is stdout; with --cache a file\n"
             "keeps its thresholds of attention, and without it that of the cache\n"
             "(default: sparge-attention.json beside the model, unless that is the embedded one; a file\n"
             "there is replaced only if tune wrote it for this user and it has not changed since)"},
    {.name = "force", .kind = SG_OPTION_FLAG, .commands = TUNE, AT(force),
     .help = "replace sparge-attention.json beside the model, whoever made it"},
    {.name = "out", .alias = {"output"}, .letter = 'o', .kind = SG_OPTION_TEXT, .commands = EVAL, AT(output),
     .value = "DIR",
     .help = "a folder, made if it is not there: ARM/PROMPT-INDEX.mp4 as VBench reads them (of\n"
             "one frame .png), results.jsonl, summary.csv, report.html; the same command continues an\n"
             "earlier run"},
    {.name = "shard", .kind = SG_OPTION_TEXT, .commands = EVAL, AT(shard), .value = "I/N",
     .help = "only the I-th of N parts of the set (default: by mpirun's or srun's rank)"},
    {.name = "merge", .kind = SG_OPTION_TEXT, .commands = EVAL, AT(merge), .value = "DIR",
     .help = "render nothing; write summary.csv and report.html of what is in this folder"},
    {.name = "clip", .kind = SG_OPTION_TEXT, .commands = EVAL, AT(clip), PHASE(OUTPUT), .files = SG_READS_MODEL,
     .value = "DIR",
     .help = "score the clips by CLIP, a folder of transformers' CLIPModel: CLIPSIM and CLIP-T of\n"
             "videos, CLIP score of pictures; clips without scores get them later, with --merge too"},
    {.name = "clip", .kind = SG_OPTION_TEXT, .commands = COMPARE, AT(clip), .files = SG_READS_MODEL, .value = "DIR",
     .help = "score two results by CLIP, a folder of transformers' CLIPModel: CLIP-T of videos, and\n"
             "with their --prompt CLIPSIM, or CLIP score of pictures"},
    {.name = "latents", .kind = SG_OPTION_TEXT, .commands = RENDER, AT(latents), .files = SG_READS | SG_WRITES,
     .value = "FILE",
     .help = "if the file exists, decode it, without a prompt; else save the latents there before\n"
             "they are decoded (safetensors)"},
    {.name = "preview", .kind = SG_OPTION_TEXT, .commands = RENDER, AT(preview), .files = SG_WRITES, .value = "FILE",
     .help = "write a preview of the clip while it is rendered: .png (frames side by side), .mp4 or\n"
             ".webp, replaced after each step; one pixel for each latent"},
    {.name = "preview-every", .kind = SG_OPTION_INT, .commands = RENDER, AT(preview_every), .lo = 1, .hi = SG_STEPS_MAX,
     .value = "N", .help = "after every N-th step and the last (default: 1; 5 with --preview-decoder)"},
    {.name = "preview-decoder", .kind = SG_OPTION_TEXT, .commands = RENDER, AT(preview_decoder), .files = SG_READS,
     .value = "FILE", .help = "decode previews in full size by this TAEHV: taew2_1 or taew2_2, .safetensors or .pth"},
    {.name = "json", .usual = true, .kind = SG_OPTION_TEXT, .commands = RENDER, AT(json), .files = SG_WRITES,
     .value = "FILE",
     .help = "write a report: settings, times, memory, tokens; - is stdout"},
    {.name = "json", .kind = SG_OPTION_TEXT, .commands = TUNE, AT(json), .files = SG_WRITES, .value = "FILE",
     .help = "write a report: error and density of each head, or of each threshold tried; times;\n"
             "- is stdout"},
    {.name = "json", .kind = SG_OPTION_TEXT, .commands = BENCH, AT(json), .files = SG_WRITES, .value = "FILE",
     .help = "write the figures as JSON; - is stdout, without the table"},
    {.name = "json", .kind = SG_OPTION_TEXT, .commands = COMPARE, AT(json), .files = SG_WRITES, .value = "FILE",
     .help = "write all figures, those of each frame too, an infinite PSNR as null; - is stdout, without\n"
             "the table"},
    {.name = "json", .kind = SG_OPTION_FLAG, .commands = INFO, AT(info_json), .help = "print JSON instead of text"},

    HEADING(ALL, "Machine"),
    {.name = "backend", .kind = SG_OPTION_CHOICE, .commands = ALL, AT(backend), PHASE(LOAD), .choices = backends,
     .value = "NAME", .help = "backend to compute with; ref is the slow, plain reference"},
    {.name = "device", .kind = SG_OPTION_INT, .commands = ALL & ~CHECK, AT(device), .lo = 0, .hi = 1023, .value = "N",
     .help = "which GPU, counted from 0 (default: 0; the ranks of mpirun and srun share a host's GPUs)"},
    {.name = "dtype", .kind = SG_OPTION_CHOICE, .commands = ALL, AT(dtype), PHASE(LOAD), .choices = dtypes,
     .value = "TYPE", .help = "type of the matrix products; auto takes the faster on this machine"},
    {.name = "threads", .letter = 't', .usual = true, .kind = SG_OPTION_INT, .commands = ALL, AT(threads), PHASE(LOAD),
     .lo = 1, .hi = 4096, .value = "N", .help = "CPU threads (default: one a core)"},
    {.name = "cpumask", .kind = SG_OPTION_CHOICE, .commands = ALL, AT(cpumask), PHASE(LOAD),
     .choices = sg_cpu_mask_names, .value = "LEVEL",
     .help = "highest CPU instruction set to use (or SPARGE_GEN_CPUMASK)"},
    {.name = "gpumask", .kind = SG_OPTION_CHOICE, .commands = ALL, AT(gpumask), PHASE(LOAD),
     .choices = sg_gpu_level_names, .value = "LEVEL",
     .help = "use only the GPU features of this level, and no cuDNN below the GPU's own level (default)"},
    {.name = "memory-limit", .kind = SG_OPTION_BYTES, .commands = MODEL, AT(memory_limit), .value = "SIZE",
     .help = "refuse a render that needs more, as in 8G or 512M (default: what the machine has free)"},
    {.name = "vae-tiling", .kind = SG_OPTION_CHOICE, .commands = (SAMPLER & ~CHECK) | INFO, AT(vae_tiling),
     PHASE(SAMPLING), TO(vae_tiling, INDEX), .choices = sg_tiling_names, .value = "WHEN",
     .help = "decode in blended tiles: of 256x256 pixels, as Mochi and HunyuanVideo can, or of the VAE's\n"
             "sample_size, as models of images can, which then encode in tiles too; less memory, and the\n"
             "frames differ a little; auto: if whole frames would not fit"},
    {.name = "offload", .kind = SG_OPTION_CHOICE, .commands = MODEL & ~(CHECK | TUNE), AT(offload), .choices = offloads,
     .value = "WHEN",
     .help = "keep blocks of layers in host memory and copy each to the GPU when it is needed; auto: if\n"
             "a denoiser or text encoder does not fit on the GPU; on: also if the denoiser does"},

    HEADING(ALL, "Messages"),
    {.name = "quiet", .letter = 'q', .usual = true, .kind = SG_OPTION_FLAG, .commands = SAMPLER | STEP | TUNE,
     AT(quiet),
     .help = "print nothing but errors and a random seed"},
    {.name = "verbose", .letter = 'v', .usual = true, .kind = SG_OPTION_FLAG, .commands = RENDER | CHECK, AT(verbose),
     .help = "print the plan, what attention skipped, and the time of each stage"},
    {.name = "version", .kind = SG_OPTION_FLAG, .commands = ALL, AT(version),
     .help = "print the version, and what this build can do"},
    {.name = "help", .letter = 'h', .kind = SG_OPTION_FLAG, .commands = ALL, AT(help),
     .help = "print this help; --help all: every option"},
};
/* clang-format on */

const int sg_option_count = (int)(sizeof sg_option_table / sizeof *sg_option_table);

/* Whether the first n bytes of typed are name. */
static bool is_name(const char *typed, size_t n, const char *name)
{
    if (strlen(name) != n) return false;
    for (size_t i = 0; i < n; i++)
        if ((typed[i] == '_' ? '-' : typed[i]) != name[i]) return false;
    return true;
}

const sg_option *sg_option_find(const char *name, size_t n, sg_command c)
{
    for (int i = 0; i < sg_option_count; i++) {
        const sg_option *o = &sg_option_table[i];
        if (!o->name || !(o->commands & c)) continue;
        if (is_name(name, n, o->name)) return o;
        for (int k = 0; k < 3 && o->alias[k]; k++)
            if (is_name(name, n, o->alias[k])) return o;
    }
    return NULL;
}
