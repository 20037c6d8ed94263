/* hostile.c - models broken in one place each, and absurd wishes: the command must end in one message that names file
 * and place, with exit code 1 (failed) or 2 (misused), in little memory and time, and leave nothing behind.
 * usage: hostile PROGRAM FIXTURES MODEL [NAME], MODEL a folder of FIXTURES that there are cases of */
#include "hostile.h"

#include <dirent.h>
#include <ftw.h>
#include <locale.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX "model_index.json"
#define SCHEDULER "scheduler/scheduler_config.json"
#define DIT "transformer/config.json"
#define VAE "vae/config.json"
#define TEXT "text_encoder/config.json"
#define TOKENS "tokenizer/tokenizer.json"
#define TOKENS2 "tokenizer/tokenizer_config.json"
#define PIECES "tokenizer/spiece.model"
#define OWN "sparge-gen.json"
#define TUNED "sparge-attention.json"
#define SHARD "diffusion_pytorch_model-00001-of-00004.safetensors"
#define DIT_W "transformer/" SHARD
#define DIT_X "transformer/diffusion_pytorch_model.safetensors.index.json"
#define VAE_W "vae/diffusion_pytorch_model.safetensors"
#define ONE_W "transformer/diffusion_pytorch_model.safetensors"
#define TEXT_W "text_encoder/model.safetensors"
#define BIAS "decoder.conv_in.bias" /* BF16 [8], the first 16 bytes of VAE_W */
#define D(dtype, shape, offsets) "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define N20 "nnnnnnnnnnnnnnnnnnnn"
#define N100 N20 N20 N20 N20 N20
#define UNIPC(more)                                                                                                    \
    "{\"_class_name\":\"UniPCMultistepScheduler\",\"prediction_type\":\"flow_prediction\","                            \
    "\"use_flow_sigmas\":true" more "}"
#define THRESHOLDS(version, layers, heads, buckets, amount)                                                            \
    "{\"format\":\"sparge-gen thresholds\",\"version\":" #version ",\"rule\":\"topk\",\"layers\":" #layers             \
    ",\"heads\":" #heads ",\"buckets\":" buckets ",\"amount\":[[[" amount "]]],\"theta\":[[[0]]],\"lambda\":[[[0]]]}"
#define CLIP " -q -o clip.y4m"
#define SMALL " --frames 5 --steps 1" CLIP
#define SAY "--prompt ball"
#define COGVIDEOX SAY " --size 32x32 --frames 9 --steps 1 -q -o clip.y4m"
#define PICTURE "picture.png" /* beside the model's folder */
#define COGVIDEOX_I2V SAY " --image ../" PICTURE " --size 40x24 --frames 9 --steps 1 -q -o clip.y4m"
#define MOCHI SAY " --size 32x32 --frames 7 --steps 2 -q -o clip.y4m"
#define HUNYUAN SAY " --size 32x32 --frames 5 --steps 1 -q -o clip.y4m"
#define FLUX SAY " --size 32x32 --steps 1 -q -o clip.y4m"
#define OPENSORA SAY " --size 32x32 --frames 5 --steps 1 -q -o clip.y4m"
#define SD3 SAY " --size 32x32 --steps 1 -q -o clip.y4m"
#define JUDGE "../" PICTURE " ../" PICTURE " --prompt ball --json clip.json"
#define FILE_OF "--prompt-file ../m/p.txt --size 32x32 --frames 1 --steps 1 -q"

/* clang-format off */
/* A message that begins with the file; one that holds the words; no failure; a wish of the command line alone; both. */
#define AT(name, how, file, key, value, words) {name, hostile_##how, file, key, value, 1, file ": " words, NULL},
#define BAD(name, how, file, key, value, words) {name, hostile_##how, file, key, value, 1, words, NULL},
#define GOOD(name, how, file, key, value) {name, hostile_##how, file, key, value, 0, "", NULL},
#define WISH(name, exit, words, args) {name, NULL, NULL, NULL, NULL, exit, words, args},
#define USE(name, how, file, key, value, exit, words, args) {name, hostile_##how, file, key, value, exit, words, args},
/* A number of a config that is none, below none, and beyond what memory can have. */
#define ABSURD(file, key) AT(key " 0", set, file, key, "0", key ": should be a ") \
    AT(key " -1", set, file, key, "-1", key ": should be a ") \
    AT(key " 2^40", set, file, key, "1099511627776", key ": should be a ")
/* clang-format on */

static const hostile_case wan_cases[] = {
#include "hostile_cases.h"
};
static const hostile_case cogvideox_cases[] = {
#include "hostile_cogvideox.h"
};
static const hostile_case cogvideox_i2v_cases[] = {
#include "hostile_cogvideox_i2v.h"
};
static const hostile_case mochi_cases[] = {
#include "hostile_mochi.h"
};

static const hostile_case hunyuan_cases[] = {
#include "hostile_hunyuan.h"
};
static const hostile_case flux_cases[] = {
#include "hostile_flux.h"
};
static const hostile_case sd3_cases[] = {
#include "hostile_sd3.h"
};

static const hostile_case opensora_cases[] = {
#include "hostile_opensora.h"
};

static const hostile_case clip_cases[] = {
#include "hostile_clip.h"
};

/* A sound model, the small render of it that is usual here, and its cases. */
static const struct suite {
    const char         *model, *usual;
    const hostile_case *cases;
    int                 count;
} suites[] = {
    {"wan21_hd64", SAY " --size 32x32" SMALL, wan_cases, sizeof wan_cases / sizeof *wan_cases},
    {"cogvideox_2b", COGVIDEOX, cogvideox_cases, sizeof cogvideox_cases / sizeof *cogvideox_cases},
    {"cogvideox_i2v", COGVIDEOX_I2V, cogvideox_i2v_cases, sizeof cogvideox_i2v_cases / sizeof *cogvideox_i2v_cases},
    {"mochi_hd16", MOCHI, mochi_cases, sizeof mochi_cases / sizeof *mochi_cases},
    {"hunyuan_hd16", HUNYUAN, hunyuan_cases, sizeof hunyuan_cases / sizeof *hunyuan_cases},
    {"flux_dev", FLUX, flux_cases, sizeof flux_cases / sizeof *flux_cases},
    {"sd35_medium", SD3, sd3_cases, sizeof sd3_cases / sizeof *sd3_cases},
    {"opensora_hd96", OPENSORA, opensora_cases, sizeof opensora_cases / sizeof *opensora_cases},
    {"judge/clip", JUDGE, clip_cases, sizeof clip_cases / sizeof *clip_cases},
};
enum { SUITES = sizeof suites / sizeof *suites };

enum { MAX_ARGS = 32, SLACK = 32 << 20 };

/* Texts and arguments live as long as this short program. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char                                        *__asan_default_options(void) { return "detect_leaks=0"; }

static char work[] = "/tmp/sg_hostile_XXXXXX";

/* ---- folders ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

static void link_tree(const char *from, const char *to)
{
    DIR *const d = opendir(from);
    if (!d || mkdir(to, 0700) != 0) hostile_die(from);
    for (const struct dirent *f; (f = readdir(d));) {
        struct stat st;
        if (f->d_name[0] == '.') continue;
        char *const a = (char *)hostile_text("%s/%s", from, f->d_name), *const b = (char *)hostile_text("%s/%s", to,
                                                                                                        f->d_name);
        if (stat(a, &st) != 0) hostile_die(a);
        if (S_ISDIR(st.st_mode))
            link_tree(a, b);
        else if (symlink(a, b) != 0)
            hostile_die(b);
    }
    closedir(d);
}

/* What lies in the folder, by name; NULL: nothing. */
static const char *content(const char *path)
{
    DIR *const  d = opendir(path);
    const char *all = NULL;
    for (const struct dirent *f; (f = readdir(d));)
        if (strcmp(f->d_name, ".") && strcmp(f->d_name, ".."))
            all = hostile_text("%s%s%s", all ? all : "", all ? " " : "", f->d_name);
    closedir(d);
    return all;
}

static bool all_clips(const char *names)
{
    for (const char *name = names; name; name = strchr(name, ' '), name = name ? name + 1 : NULL)
        if (strncmp(name, "clip", 4) != 0) return false;
    return true;
}

/* ---- a case ---- */

static void run_case(hostile_end *end, const char *program, const char *sound, const struct suite *s,
                     const hostile_case *c)
{
    char *const model = (char *)hostile_text("%s/m", work), *const out = (char *)hostile_text("%s/out", work);
    char *args[MAX_ARGS] = {(char *)program};
    int   n = 1;
    if (strncmp(s->model, "judge/", 6) == 0) /* renders nothing */
        args[n++] = (char *)"compare", args[n++] = (char *)"--clip";
    else
        args[n++] = (char *)"--model";
    args[n++] = model;
    remove_tree(model);
    remove_tree(out);
    link_tree(sound, model);
    if (mkdir(out, 0700) != 0) hostile_die(out);
    if (c->make) {
        const char *const to = hostile_text("%s/%s", model, c->file);
        remove_tree(to);
        c->make(hostile_text("%s/%s", sound, c->file), to, c);
    }
    char *rest = strdup(c->args ? c->args : s->usual);
    for (char *word; (word = strtok_r(rest, " ", &rest)) && n + 1 < MAX_ARGS;) args[n++] = word;
    hostile_run(end, args, out);
}

/* A failure of the case, or NULL. */
static const char *judge_case(const hostile_end *end, const hostile_case *c, size_t peak)
{
    const char *const there = content(hostile_text("%s/out", work));
    struct stat       st = {0};
    if (c->make && stat(hostile_text("%s/m/%s", work, c->file), &st) != 0) st.st_size = 0;
    const size_t file = st.st_size < 1 << 28 ? (size_t)st.st_size : 0;
    if (end->signal) return hostile_text("killed by signal %d", end->signal);
    if (end->exit != c->exit) return hostile_text("exit %d, expected %d", end->exit, c->exit);
    if (c->exit && there) return hostile_text("left behind: %s", there);
    if (!c->exit && !there) return "no clip";
    if (!c->exit && !all_clips(there)) return hostile_text("the folder holds %s", there);
    if (end->peak > peak + SLACK + 8 * file) return "takes too much memory";
    return c->exit ? hostile_judge(end, c->words) : NULL;
}

static const struct suite *find(const char *model)
{
    for (int i = 0; model && i < SUITES; i++)
        if (strcmp(suites[i].model, model) == 0) return &suites[i];
    fputs("usage: hostile PROGRAM FIXTURES MODEL [NAME], MODEL one of:", stderr);
    for (int i = 0; i < SUITES; i++) fprintf(stderr, " %s", suites[i].model);
    fputs("\n", stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    int                       failed = 0, skipped = 0, ran = 0;
    hostile_end               end;
    const struct suite *const all = find(argc > 3 ? argv[3] : NULL);
    setlocale(LC_ALL, "C.UTF-8");
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("ASAN_OPTIONS", "exitcode=99", 1);
    setenv("UBSAN_OPTIONS", "exitcode=99:halt_on_error=1", 1);
    char *const program = realpath(argv[1], NULL);
    char *const sound = (char *)hostile_text("%s/%s", realpath(argv[2], NULL), all->model);
    if (!program || !mkdtemp(work)) hostile_die(argv[1]);
    if (symlink(HOSTILE_PICTURE, hostile_text("%s/" PICTURE, work)) != 0) hostile_die(PICTURE);
    run_case(&end, program, sound, all, &(hostile_case){.name = "sound"});
    const size_t peak = end.peak;
    if (end.exit != 0) printf("FAIL sound: exit %d\n%s", end.exit, end.text), failed++;
    for (int i = 0; i < all->count; i++) {
        const hostile_case *const c = &all->cases[i];
        if (argc > 4 && strcmp(argv[4], c->name) != 0) continue;
        if (c->make == hostile_shut && geteuid() == 0) {
            skipped++;
            continue;
        }
        run_case(&end, program, sound, all, c);
        const char *const why = judge_case(&end, c, peak);
        ran++;
        if (argc > 4 || getenv("HOSTILE_VERBOSE") || why)
            printf("%s %s: %s; %.1f s, %ld KiB over the sound run\n%s\n", why ? "FAIL" : "ok  ", c->name,
                   why ? why : "", end.seconds, ((long)end.peak - (long)peak) / 1024, end.text);
        failed += why != NULL;
    }
    remove_tree(work);
    printf("%d passed, %d failed, %d skipped\n", ran - failed, failed, skipped);
    return failed || !ran;
}
