/* command_table.c - the commands. A new one is a row here, a bit in options.h, its options in option_table.c, and a
 * function in command.h that main.c calls. */
#include "command_table.h"

#include <stddef.h>

const sg_command_row sg_command_table[] = {
    {.command = SG_COMMAND_RENDER,
     .name = "",
     .version = 1,
     .usage = {"-p TEXT [options]"},
     .effect = {"render a clip"},
     .example = {"sparge-gen -p \"a red ball bouncing on green grass\" -o ball.mp4",
                 "sparge-gen -m path/to/model -p \"a cat walks on the grass\" --size 832x480 --frames 81"}},
    {.command = SG_COMMAND_COMPARE,
     .name = "compare",
     .version = 3,
     .usage = {"compare -p TEXT [options]", "compare A B"},
     .effect = {"render with dense and with sparse attention, side by side", "compare two clips or two pictures"},
     .text =
         "Each arm renders the prompt from the same noise with another kind of attention. The page report.html shows\n"
         "the clips side by side, the blocks that each arm skipped, its times, and its distance to the first arm.\n"
         "The arms take turns. Where renders are short, they do so until the intervals of the speed-ups are narrow.\n"
         "The same command continues an interrupted run.\n"
         "\n"
         "Two files or two folders of pictures are compared without rendering: PSNR, SSIM and MS-SSIM on RGB, as "
         "mean,\n"
         "minimum and 5th percentile over the frames, and for each clip its sharpness, VBench's temporal flickering,\n"
         "and the numbers of black and of repeated frames.\n"
         "\n"
         "If the model's default clip has fewer than 8192 tokens and no size is given, width and height are doubled\n"
         "until there is something to skip. Videos may be .y4m, and with FFmpeg .mp4, .mov, .mkv, .webm and .avi. The\n"
         "pictures of two folders are paired in the order of their names, with numbers sorted by value.",
     .example = {"sparge-gen compare -p \"a red ball bouncing on green grass\" --arms dense,sparge:topk=0.3"}},
    {.command = SG_COMMAND_EVAL,
     .name = "eval",
     .version = 3,
     .usage = {"eval --prompts FILE -o DIR [options]"},
     .effect = {"render a set of prompts with each kind of attention"},
     .text =
         "Every arm renders each clip from the same noise. The folder then contains all clips, one line of figures "
         "for\n"
         "each clip, a summary and a page.\n"
         "\n"
         "The same command continues an interrupted run; finished clips are not rendered again, and of a set that got\n"
         "new entries at its end only these are. Other settings for the same folder are refused, and a folder that\n"
         "holds something else. A clip that fails is recorded, and the next run tries it again. Under mpirun or\n"
         "srun all ranks share the set, and the one that finishes last writes the report; `sparge-gen eval --merge "
         "DIR`\n"
         "writes it again. With --clip the clips are scored after the last one is made. The size is chosen as for\n"
         "compare.",
     .example = {"sparge-gen eval --prompts prompts/tiny-wan-demo.csv -o results --arms dense,sparge"}},
    {.command = SG_COMMAND_TUNE,
     .name = "tune",
     .version = 1,
     .usage = {"tune -m PATH -p TEXT [options]"},
     .effect = {"find the thresholds of each head"},
     .text = "Renders the prompts with dense attention and finds, for each layer, head and range of steps, how many "
             "blocks\n"
             "can be skipped within an error. With --cache it finds instead how far the latents may move before a step "
             "has\n"
             "to be computed. Later renders use the file that it writes automatically. With --text a language model reads\n"
             "a text in place of renders.",
     .example = {"sparge-gen tune -m path/to/model --prompt-file prompts.txt --l1 0.05",
                 "sparge-gen tune -m path/to/model --prompt-file prompts.txt --cache --steps 50"}},
    {.command = SG_COMMAND_SERVE,
     .name = "serve",
     .usage = {"serve [options]"},
     .effect = {"render what programs and people ask for over HTTP"},
     .text =
         "Keeps the model open and renders one job after another. http://127.0.0.1:8080/ is a page for a browser.\n"
         "Programs use /jobs, or the APIs of OpenAI (images, videos) and of Stable Diffusion web UI (txt2img): see\n"
         "app/serve/README.md, installed as share/doc/sparge-gen/serve.md. It does not speak TLS: put a proxy before\n"
         "it. SIGTERM and Ctrl-C end it at the next step; the next start goes on with the queue.",
     .example = {"sparge-gen serve --models path/to/models -o results"}},
    {.command = SG_COMMAND_LANGUAGE,
     .name = "language",
     .version = 1,
     .usage = {"language TASK -m PATH [options]"},
     .effect = {"measure attention on long texts by a language model"},
     .text =
         "TASK is perplexity FILE (a text), needle (a sentence hidden in a long text), FILE.jsonl (LongBench,\n"
         "InfiniteBench and RULER as published: context and input with answers, answer or outputs; or ids, and asked,\n"
         "places of tokens that have to be the likeliest), or prefill (how long reading takes).\n"
         "Every arm reads each text. With -o the same command continues an interrupted run.",
     .example = {"sparge-gen language perplexity wiki.test.raw -m path/to/llama --arms dense,sparge:topk=0.3 -o results",
                 "sparge-gen language needle -m path/to/llama --haystack essays --lengths 16000,32000 -o results"}},
    {.command = SG_COMMAND_INFO,
     .name = "info",
     .version = 1,
     .usage = {"info [DIR|FILE] [options]"},
     .effect = {"show what a model needs, or how a clip was made"},
     .text =
         "Of a clip it also tells whether the thresholds beside the model that made it, as --model names it, changed.",
     .example = {"sparge-gen info path/to/model --size 832x480 --frames 81", "sparge-gen info ball.mp4"}},
    {.command = SG_COMMAND_BENCH_STEP,
     .name = "bench step",
     .version = 1,
     .usage = {"bench step [options]"},
     .effect = {"measure each operation of a step and of decoding"},
     .text =
         "Steps run until two windows of them agree; the median of those that follow is shown. A few more have each\n"
         "operation timed and shown beside the limits measured before, on the same threads: a large matrix product in\n"
         "F32 and in BF16, and a large copy. No step is one of the dense ones with which a render begins.",
     .example = {"sparge-gen bench step --size 512x512"}},
    {.command = SG_COMMAND_BENCH_ATTENTION,
     .name = "bench attention",
     .version = 1,
     .usage = {"bench attention [options]"},
     .effect = {"measure attention: its speed and its error"},
     .text = "All kernels take turns until two windows of their runs agree; medians of the runs that follow are shown. "
             "The\n"
             "error is measured against the reference on a sample of rows. The limits measured before, on the same\n"
             "threads, are a large matrix product in F32 and in BF16, and a large copy. With --inputs language no time is\n"
             "measured: each score, with and without --sim (0.6), shows which planted keys it keeps, beside an oracle.",
     .example = {"sparge-gen bench attention --topk 0.5,0.2",
                 "sparge-gen bench attention --inputs language --planted noisy --margin 2"}},
    {.command = SG_COMMAND_BENCH_COLD,
     .name = "bench cold",
     .version = 1,
     .usage = {"bench cold [options]"},
     .effect = {"measure a render as a process of its own, from start to exit"},
     .text =
         "Each turn starts three processes: one opens the device and does nothing, one opens the backend with its\n"
         "libraries, and one renders a clip to Y4M; its pieces are listed in the order in which they end. They take\n"
         "turns until two windows of turns agree; medians of those that follow are shown.",
     .example = {"sparge-gen bench cold --repeat 9"}},
    {.command = SG_COMMAND_CHECK,
     .name = "check",
     .usage = {"check [options]"},
     .effect = {"check every operation of a render against the reference"},
     .text = "Reports the first operation whose error is larger than rounding explains. It is slow, so by default it\n"
             "renders a small clip with few steps. It writes no file.",
     .example = {"sparge-gen check --cpumask avx2"}},
};
const int sg_command_count = (int)(sizeof sg_command_table / sizeof *sg_command_table);

const char *const sg_command_words[] = {"compare", "eval", "tune", "serve", "language", "info", "bench", "check", "help", NULL};

const sg_command_row *sg_command_row_of(sg_command c)
{
    for (int i = 0; i < sg_command_count; i++)
        if (sg_command_table[i].command == c) return &sg_command_table[i];
    return NULL;
}
