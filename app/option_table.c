/* option_table.c - the options. A new one is a row here, a member of sg_settings, and the place that uses it. */
#include "option_table.h"

#define AT(member) .offset = offsetof(sg_settings, member)
#define RENDER SG_COMMAND_RENDER
#define INFO SG_COMMAND_INFO
#define CHECK SG_COMMAND_CHECK
#define STEP SG_COMMAND_BENCH_STEP
#define ATTENTION SG_COMMAND_BENCH_ATTENTION
#define BENCH SG_COMMAND_BENCH
#define MODEL (RENDER | INFO | CHECK | STEP)
#define ALL (MODEL | ATTENTION)
#define COMPARE SG_COMMAND_COMPARE
/* clang-format off */
#define HEADING(which, text) {.kind = SG_OPTION_HEADING, .commands = (which), .help = (text)}

static const char *const samplers[] = {"unipc", "euler", NULL};
static const char *const compats[] = {"new", "old", NULL};
static const char *const backends[] = {"auto", "cuda", "cpu", "ref", NULL};
static const char *const dtypes[] = {"auto", "f32", "bf16", NULL};

const char *const sg_command_names[] = {"info", "check", "bench", "compare", NULL};

const sg_option sg_option_table[] = {
    HEADING(MODEL, "What to render"),
    {.name = "model", .letter = 'm', .kind = SG_OPTION_TEXT, .commands = MODEL, AT(model), .value = "DIR",
     .help = "a model in Diffusers layout: the folder with model_index.json\n"
             "(default: $SPARGE_GEN_MODEL, else the tiny-wan that comes along)"},
    {.name = "prompt", .letter = 'p', .kind = SG_OPTION_TEXT, .commands = RENDER | CHECK, AT(prompt), .value = "TEXT",
     .help = "what the video shows"},
    {.name = "prompt-file", .kind = SG_OPTION_TEXT, .commands = RENDER, AT(prompt_file), .value = "FILE",
     .help = "one prompt a line; of several, output and report get -0001, -0002, ..."},
    {.name = "negative-prompt", .letter = 'n', .kind = SG_OPTION_TEXT, .commands = RENDER | CHECK, AT(negative_prompt),
     .value = "TEXT", .help = "what it should not show"},
    {.name = "size", .kind = SG_OPTION_SIZE, .commands = MODEL, AT(size), .lo = 1, .hi = 16384, .value = "WxH",
     .help = "width and height in pixels"},
    {.name = "width", .letter = 'W', .kind = SG_OPTION_INT, .commands = MODEL, AT(size[0]), .lo = 1, .hi = 16384,
     .value = "N", .help = "width alone"},
    {.name = "height", .letter = 'H', .kind = SG_OPTION_INT, .commands = MODEL, AT(size[1]), .lo = 1, .hi = 16384,
     .value = "N", .help = "height alone"},
    {.name = "frames", .alias = {"num-frames", "video-frames"}, .kind = SG_OPTION_INT, .commands = MODEL, AT(frames),
     .lo = 1, .hi = 100000, .value = "N", .help = "length in frames"},
    {.name = "seconds", .kind = SG_OPTION_REAL, .commands = RENDER | INFO, AT(seconds), .lo = 0.001, .hi = 3600,
     .value = "T", .help = "length in seconds, instead of --frames; the nearest that the model can"},
    {.name = "fps", .kind = SG_OPTION_INT, .commands = RENDER | INFO, AT(fps), .lo = 1, .hi = 1000, .value = "N",
     .help = "frames per second of the file"},

    HEADING(ATTENTION, "What to attend to"),
    {.name = "shape", .kind = SG_OPTION_TEXT, .commands = ATTENTION, AT(shape), .value = "SHAPE",
     .help = "B,H,N,D (batch, heads, tokens, head size), or that of a model: tiny-wan, wan-240p,\n"
             "wan-480p, wan-720p, wan-14b-480p, cogvideox-2b, mochi, hunyuan-720p, flux\n"
             "(default: wan-240p, which is 1,12,8190,128)"},

    HEADING(RENDER | CHECK | BENCH, "How"),
    {.name = "steps", .alias = {"num-inference-steps"}, .kind = SG_OPTION_INT, .commands = RENDER | INFO | CHECK,
     AT(steps), .lo = 1, .hi = 1000, .value = "N", .help = "denoising steps"},
    {.name = "cfg-scale", .alias = {"guidance-scale"}, .letter = 'g', .kind = SG_OPTION_REAL,
     .commands = RENDER | CHECK | STEP, AT(cfg_scale), .lo = 0, .hi = 1000, .value = "X",
     .help = "guidance; 1 and below leave the negative prompt out and halve the time"},
    {.name = "cfg-scale-2", .alias = {"guidance-scale-2"}, .kind = SG_OPTION_REAL, .commands = RENDER | CHECK,
     AT(cfg_scale_2), .lo = 0, .hi = 1000, .value = "X",
     .help = "guidance of the low-noise expert, where a model has two (default: as --cfg-scale)"},
    {.name = "flow-shift", .alias = {"sample-shift"}, .kind = SG_OPTION_REAL, .commands = RENDER | CHECK,
     AT(flow_shift), .lo = 0.001, .hi = 1000, .value = "X", .help = "how far the noise schedule leans to high noise"},
    {.name = "sampler", .kind = SG_OPTION_CHOICE, .commands = RENDER | CHECK, AT(sampler), .choices = samplers,
     .value = "NAME", .help = "what takes the steps"},
    {.name = "sched-compat", .kind = SG_OPTION_CHOICE, .commands = RENDER | CHECK, AT(sched_compat),
     .choices = compats, .value = "WHICH",
     .help = "sigmas of unipc: new as in diffusers from 0.37 on (default), old as before"},
    {.name = "seed", .letter = 's', .kind = SG_OPTION_INT64, .commands = RENDER | CHECK, AT(seed), .value = "N",
     .help = "of the noise, which is that of torch on a CPU (default: 0; negative: random)"},

    {.name = "repeat", .kind = SG_OPTION_INT, .commands = BENCH, AT(repeat), .lo = 1, .hi = 400, .value = "N",
     .help = "how often it is measured (default: 3)"},

    HEADING(RENDER | BENCH | COMPARE, "Where to"),
    {.name = "output", .letter = 'o', .kind = SG_OPTION_TEXT, .commands = RENDER, AT(output), .value = "FILE",
     .help = "the ending decides: .mp4, .y4m, .png (one frame, or several as name-%04d.png);\n"
             "- writes Y4M to stdout; an existing file is replaced\n"
             "(default: out.mp4, or out.y4m in a build without FFmpeg)"},
    {.name = "latents", .kind = SG_OPTION_TEXT, .commands = RENDER, AT(latents), .value = "FILE",
     .help = "a file that exists is decoded, without a prompt; else latents are saved\n"
             "there before they are decoded (safetensors)"},
    {.name = "json", .kind = SG_OPTION_TEXT, .commands = RENDER, AT(json), .value = "FILE",
     .help = "a report: settings, times, memory, tokens; - is stdout"},
    {.name = "json", .kind = SG_OPTION_TEXT, .commands = BENCH, AT(json), .value = "FILE",
     .help = "the figures for machines; - is stdout, and then there is no table"},
    {.name = "json", .kind = SG_OPTION_TEXT, .commands = COMPARE, AT(json), .value = "FILE",
     .help = "all figures, those of each frame too, an infinite PSNR as null; - is stdout, and then there is no table"},
    {.name = "json", .kind = SG_OPTION_FLAG, .commands = INFO, AT(info_json), .help = "as JSON instead of text"},

    HEADING(ALL, "On what"),
    {.name = "backend", .kind = SG_OPTION_CHOICE, .commands = ALL, AT(backend), .choices = backends, .value = "NAME",
     .help = "what computes; ref is the slow, plain oracle"},
    {.name = "dtype", .kind = SG_OPTION_CHOICE, .commands = ALL, AT(dtype), .choices = dtypes, .value = "TYPE",
     .help = "of the matrix products; auto takes the faster on this machine"},
    {.name = "threads", .letter = 't', .kind = SG_OPTION_INT, .commands = ALL, AT(threads), .lo = 1, .hi = 4096,
     .value = "N", .help = "CPU threads (default: one a core)"},
    {.name = "cpumask", .kind = SG_OPTION_CHOICE, .commands = ALL, AT(cpumask), .choices = sg_cpumask_names, .value = "LEVEL",
     .help = "no instruction set beyond this"},
    {.name = "memory-limit", .kind = SG_OPTION_BYTES, .commands = MODEL, AT(memory_limit), .value = "SIZE",
     .help = "refuse what needs more, as 8G or 512M (default: what the machine has free)"},

    HEADING(ALL | COMPARE, "And"),
    {.name = "quiet", .letter = 'q', .kind = SG_OPTION_FLAG, .commands = RENDER | CHECK | STEP, AT(quiet),
     .help = "say nothing but errors and a seed drawn at random"},
    {.name = "verbose", .letter = 'v', .kind = SG_OPTION_FLAG, .commands = RENDER | CHECK, AT(verbose),
     .help = "say what is planned, and where the time went"},
    {.name = "version", .kind = SG_OPTION_FLAG, .commands = ALL | COMPARE, AT(version), .help = "print the version"},
    {.name = "help", .letter = 'h', .kind = SG_OPTION_FLAG, .commands = ALL | COMPARE, AT(help), .help = "print this"},
};
/* clang-format on */

const int sg_option_count = (int)(sizeof sg_option_table / sizeof *sg_option_table);
