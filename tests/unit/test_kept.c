/* test_kept.c - what a clip keeps is what made it. For every option of a render that is kept: a render with it, the
 * settings in the file, the command that info prints of them, and that command's clip, which is the same to the byte. A
 * render without the option shows that it had an effect. An option that is not in the table here fails the test. */
#include "backend.h"
#include "base/hash.h"
#include "base/json_input.h"
#include "clip_reader.h"
#include "command.h"
#include "report_settings.h"
#include "settings.h"
#include "writer.h"

#include <jansson.h>

#include "unit.h"

#include "lora_file.h"
#include "quantised_file.h"

/* How a render with the option differs from one without it. */
typedef enum effect {
    ON_FRAMES,  /* their pixels, number, size or times */
    ON_BYTES,   /* the same frames take more or fewer bytes */
    ON_NOTHING, /* not at all, or not on every machine: that the option stands in the command has to do */
    WITHOUT     /* it has none beside these options, and the file does not tell that it was there */
} effect;

typedef struct row {
    const char *set;    /* the option, which comes first, its value, and what it needs beside */
    const char *beside; /* options of both renders */
    const char *ending; /* of the clip's name; NULL: .png. Others need FFmpeg */
    effect      on;
} row;

#define WAN "--model wan21_hd12 --size 32x32 --steps 2 --frames 1 "
#define CLIP "--model wan21_hd12 --size 32x32 --steps 2 --frames 5 "
#define EXPERTS "--model wan22_a14b --size 32x32 --steps 2 --frames 1 "
#define FIRST "--model wan21_i2v --size 32x32 --steps 1 --frames 5 --image scene.png "
#define ENDS "--model wan22_i2v --size 32x32 --steps 1 --frames 5 --image scene.png "
#define TINY "--size 32x32 --frames 1 "
#define IMAGE "--model sd35_medium --size 32x32 --steps 4 "
#define BLOCKS "--model wan21_hd64 --size 256x256 --frames 1 --steps 1 "
#define SPARGE BLOCKS "--attention sparge --dense-steps 0 "
#define QUANTISED "--model quantised --size 32x32 --steps 2 --frames 1 "
#define LAYERS "--model wan21_hd12 --size 512x512 --frames 1 --steps 1 --attention sparge --dense-steps 0 "

static const row rows[] = {
    /* the model, and what computes it */
    {"--model wan21_hd12", TINY "--steps 1", NULL, ON_FRAMES},
    {"--diffusion-model denoiser", WAN, NULL, ON_FRAMES},
    /* a model that is one file, and a link to one of another name, as caches of downloads have them */
    {"--diffusion-model denoiser.safetensors --vae vae --text-encoder encoder --tokenizer letters", TINY "--steps 1",
     NULL, ON_FRAMES},
    /* of our model only the denoiser is another: the file alone would be no model */
    {"--diffusion-model q8.gguf", "--model tiny-wan --attention dense " TINY "--steps 1", NULL, ON_FRAMES},
    {"--high-noise-diffusion-model expert", EXPERTS, NULL, ON_FRAMES},
    {"--vae vae/", WAN, NULL, ON_FRAMES},
    {"--text-encoder encoder", WAN, NULL, ON_FRAMES},
    {"--tokenizer letters", WAN "--prompt xaxaxa", NULL, ON_FRAMES},
    {"--clip-vision vision", FIRST, ".mkv", ON_FRAMES},
    {"--clip-l clip-l", IMAGE, NULL, ON_FRAMES},
    {"--clip-g clip-g", IMAGE, NULL, ON_FRAMES},
    {"--clip-tokenizer words", IMAGE, NULL, ON_FRAMES},
    {"--lora look.safetensors:0.5", WAN, NULL, ON_FRAMES},
    {"--high-noise-lora high.safetensors", EXPERTS, NULL, ON_FRAMES},
    {"--fast", TINY, NULL, ON_FRAMES},
    {"--weights-as bf16", QUANTISED, NULL, ON_NOTHING},
    {"--weights-as file", QUANTISED "--weights-as auto", NULL, ON_NOTHING},
    {"--weights-as bf16", WAN, NULL, WITHOUT},
    {"--lora-merge", QUANTISED "--lora deep.safetensors", NULL, ON_FRAMES},
    {"--lora-merge", WAN "--lora look.safetensors", NULL, WITHOUT},
    {"--backend ref", WAN, NULL, ON_NOTHING},
    {"--dtype bf16", WAN "--dtype f32", NULL, ON_FRAMES},
    {"--threads 2", WAN, NULL, ON_NOTHING},
    {"--cpumask base", WAN, NULL, ON_NOTHING},
    /* what goes in */
    {"--prompt ball", WAN, NULL, ON_FRAMES},
    {"--batch 2", IMAGE, NULL, ON_FRAMES},
    {"--negative-prompt ball", WAN "--cfg-scale 3", NULL, ON_FRAMES},
    {"--negative-prompt ''", WAN "--cfg-scale 3 --negative-prompt cat", NULL, ON_FRAMES},
    {"--negative-prompt ball", WAN "--cfg-scale 1", NULL, WITHOUT},
    {"--image scene.png", IMAGE, NULL, ON_FRAMES},
    {"--image noisy.png", FIRST, ".mkv", ON_FRAMES},
    {"--last-image noisy.png", ENDS, ".mkv", ON_FRAMES},
    {"--video ./film/", CLIP, ".mkv", ON_FRAMES},
    {"--strength 0.3", CLIP "--steps 4 --video film", ".mkv", ON_FRAMES},
    {"--strength 1", IMAGE "--image scene.png", NULL, ON_FRAMES},
    {"--fit stretch", CLIP "--size 48x32 --video film", ".mkv", ON_FRAMES},
    {"--fit pad", IMAGE "--image scene.png --size 48x24", NULL, ON_FRAMES},
    {"--size 32x48", WAN, NULL, ON_FRAMES},
    {"--size 32x48", WAN, NULL, ON_FRAMES},
    {"--width 48", WAN, NULL, ON_FRAMES},
    {"--height 48", WAN, NULL, ON_FRAMES},
    {"--frames 5", WAN, ".mkv", ON_FRAMES},
    {"--seconds 0.3", "--model wan21_hd12 --size 32x32 --steps 1", ".mkv", ON_FRAMES},
    {"--strict", WAN, NULL, ON_NOTHING},
    {"--fps 9", CLIP, ".mkv", ON_FRAMES},
    {"--seed 7", WAN, NULL, ON_FRAMES},
    /* frames of .webp are not read back */
    {"--seed 7", CLIP, ".webp", ON_NOTHING},
    {"--seed 8", WAN, ".jpg", ON_FRAMES},
    {"--seed 7", "--model mochi_hd16 --size 32x32 --steps 2 --frames 7", ".mkv", ON_FRAMES},
    {"--seed 7", "--model hunyuan_hd16 --size 32x32 --steps 2 --frames 5", ".mkv", ON_FRAMES},
    {"--seed -1", WAN, NULL, ON_FRAMES},
    /* sampling */
    {"--steps 3", WAN, NULL, ON_FRAMES},
    {"--cfg-scale 3", WAN, NULL, ON_FRAMES},
    {"--cfg-scale-2 9", EXPERTS "--steps 4", NULL, ON_FRAMES},
    {"--guidance 9", "--model flux_dev --size 32x32 --steps 2", NULL, ON_FRAMES},
    {"--dynamic-cfg", "--model cogvideox_2b --size 32x32 --steps 2 --frames 9 --cfg-scale 4", ".mkv", ON_FRAMES},
    {"--slg-scale 2.8 --skip-layers 1 --skip-layer-end 0.6", IMAGE, NULL, ON_FRAMES},
    {"--skip-layers 0", IMAGE "--slg-scale 2.8 --skip-layers 1 --skip-layer-end 0.6", NULL, ON_FRAMES},
    {"--skip-layer-start 0.3", IMAGE "--slg-scale 2.8 --skip-layers 1 --skip-layer-end 0.6", NULL, ON_FRAMES},
    {"--skip-layer-end 0.9", IMAGE "--slg-scale 2.8 --skip-layers 1 --skip-layer-end 0.6", NULL, ON_FRAMES},
    {"--flow-shift 9", WAN, NULL, ON_FRAMES},
    {"--sampler euler", WAN, NULL, ON_FRAMES},
    {"--preset-steps lightx2v", "--model wan21_hd12 --size 32x32 --frames 1", NULL, ON_FRAMES},
    {"--sigmas 1,0.7,0.3", "--model wan21_hd12 --size 32x32 --frames 1", NULL, ON_FRAMES},
    {"--sched-compat old", WAN "--steps 4", NULL, ON_FRAMES},
    {"--cache fast", WAN "--steps 20", NULL, ON_FRAMES},
    {"--cache fast", WAN, NULL, WITHOUT},
    {"--cache off", WAN "--steps 30", NULL, ON_FRAMES},
    {"--steps 30", WAN, NULL, ON_FRAMES},
    {"--vae-tiling on", "--model sd35_medium --size 96x96 --steps 1", NULL, ON_FRAMES},
    /* attention */
    {"--attention sage", BLOCKS "--steps 4 --cfg-scale 9", NULL, ON_FRAMES},
    {"--preset paper", SPARGE, NULL, ON_FRAMES},
    {"--topk 0.2", SPARGE, NULL, ON_FRAMES},
    /* 6 of 18 blocks; of seven digits it would be 5 */
    {"--topk 0.33333333", SPARGE "--size 288x256", NULL, ON_FRAMES},
    {"--topk 0", SPARGE, NULL, ON_FRAMES},
    {"--tau 0.3", SPARGE, NULL, ON_FRAMES},
    {"--sim 0.9", SPARGE "--topk 0.2", NULL, ON_FRAMES},
    {"--pv 0.1", SPARGE "--topk 0.5", NULL, ON_FRAMES},
    {"--sink 8", SPARGE "--topk 0.2", NULL, ON_FRAMES},
    {"--score mean", SPARGE "--topk 0.2 --score sub16", NULL, ON_FRAMES},
    {"--tail on", SPARGE "--topk 0.2 --tail off", NULL, ON_FRAMES},
    {"--tail-bias rank1", SPARGE "--topk 0.2 --tail on --tail-bias 0", NULL, ON_FRAMES},
    {"--pv-dtype int8", SPARGE "--pv-dtype bf16", NULL, ON_FRAMES},
    {"--budget heads", SPARGE "--topk 0.2 --budget row", NULL, ON_FRAMES},
    {"--order row", SPARGE "--topk 0.2", NULL, ON_FRAMES},
    {"--dense-steps 1", SPARGE "--steps 2 --topk 0.2", NULL, ON_FRAMES},
    {"--dense-steps-kind sage", BLOCKS "--steps 2 --attention sparge --dense-steps 0.5", NULL, ON_FRAMES},
    {"--dense-layers 0", LAYERS "--topk 0.2", NULL, ON_FRAMES},
    {"--sparse-config thresholds.json", SPARGE, NULL, ON_FRAMES},
    {"--model tuned", SPARGE, NULL, ON_FRAMES},
    {"--sparse-config none", SPARGE "--model tuned", NULL, ON_FRAMES},
    {"--block-mask mask.safetensors", SPARGE, NULL, ON_FRAMES},
    /* the file */
    {"--crf 45", CLIP, ".mp4", ON_FRAMES},
    {"--png-level 0", WAN, NULL, ON_BYTES},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Options that no test of one machine can set. */
static const struct {
    const char *name, *why;
} not_here[] = {{"gpumask", "it needs a GPU, and has no effect with --backend cpu"}};

/* ---- files that go in ---- */

/* The file at `from` with other numbers: half of them have the other sign. */
static void write_other_weights(const char *from, const char *to)
{
    sg_map   map = {0};
    uint64_t header;
    if (sg_map_open(&map, from, NULL) != SG_OK) fail_msg("%s", from);
    uint8_t *const all = malloc(map.size);
    assert_non_null(all);
    memcpy(all, map.data, map.size);
    memcpy(&header, all, sizeof header);
    for (size_t i = sizeof header + header + 3; i < map.size; i += 8) all[i] ^= 0x80;
    write_bytes(to, all, map.size);
    free(all);
    sg_map_close(&map);
}

/* Of 1,024 tokens the blocks along the diagonal. */
static void write_mask(void)
{
    enum { QUERIES = 8, KEYS = 16 };
    static uint8_t mask[QUERIES * KEYS];
    lora_file      f = {.size = 0};
    for (int q = 0; q < QUERIES; q++)
        for (int k = 0; k < KEYS; k++) mask[q * KEYS + k] = abs(2 * q - k) < 3;
    lora_put(&f, "mask", "U8", 3, (int64_t[]){1, QUERIES, KEYS}, mask, sizeof mask);
    lora_save(&f, "mask.safetensors", NULL);
}

/* The folder of a part, with other weights. */
static int write_other_part(const char *of, const char *name)
{
    char              command[256], to[64];
    const char *const file = strstr(of, "enc") ? "model.safetensors" : "diffusion_pytorch_model.safetensors";
    snprintf(command, sizeof command, "cp -rL %s %s", of, name);
    const int failed = system(command);
    snprintf(command, sizeof command, "%s/%s", of, file);
    snprintf(to, sizeof to, "%s/%s", name, file);
    write_other_weights(command, to);
    return failed;
}

/* A tokenizer in which the pieces "a" and "e", fields of one byte, have changed places. */
static void write_other_tokenizer(void)
{
    sg_map map = {0};
    assert_int_equal(system("cp -rL wan21_hd12/tokenizer letters && rm letters/tokenizer.json"), 0);
    assert_int_equal(sg_map_open(&map, "wan21_hd12/tokenizer/spiece.model", NULL), SG_OK);
    uint8_t *const all = malloc(map.size);
    assert_non_null(all);
    memcpy(all, map.data, map.size);
    for (size_t i = 2; i < map.size; i++)
        if (all[i - 2] == 10 && all[i - 1] == 1 && (all[i] == 'a' || all[i] == 'e')) all[i] ^= 'a' ^ 'e';
    write_bytes("letters/spiece.model", all, map.size);
    free(all);
    sg_map_close(&map);
}

static int enter(void **state)
{
    static const char *const minis[] = {"wan21_hd12", "wan21_hd64",  "wan21_i2v",    "wan22_a14b", "wan22_i2v",
                                        "flux_dev",   "sd35_medium", "cogvideox_2b", "mochi_hd16", "hunyuan_hd16"};
    static const struct {
        const char *of, *name;
    } parts[] = {{"wan21_hd12/transformer", "denoiser"},
                 {"wan22_a14b/transformer", "expert"},
                 {"wan21_hd12/vae", "vae"},
                 {"wan21_hd12/text_encoder", "encoder"},
                 {"wan21_i2v/image_encoder", "vision"},
                 {"sd35_medium/text_encoder", "clip-l"},
                 {"sd35_medium/text_encoder_2", "clip-g"}};
    char path[512];
    if (enter_folder(state) != 0) return -1;
    setenv("SPARGE_GEN_MODEL", SG_TINY_WAN, 1);
    for (size_t i = 0; i < sizeof minis / sizeof *minis; i++) {
        snprintf(path, sizeof path, SG_FIXTURES "/%s", minis[i]);
        if (symlink(path, minis[i]) != 0) return -1;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (write_other_part(parts[i].of, parts[i].name) != 0) return -1;
    write_other_tokenizer();
    lora_save_for(SG_FIXTURES "/wan22_a14b/transformer/diffusion_pytorch_model.safetensors", "high.safetensors", NULL);
    lora_save_for(SG_FIXTURES "/wan21_hd12/transformer/diffusion_pytorch_model.safetensors", "look.safetensors", NULL);
    lora_save_for(QUANTISED_FROM, "deep.safetensors", NULL);
    quantised_folder("quantised");
    quantised_write(SG_TINY_WAN "/transformer/diffusion_pytorch_model.safetensors.index.json", "q8.gguf");
    if (symlink(SG_TINY_WAN, "tiny-wan") != 0) return -1;
    write_mask();
    write_text("sparge-gen.json", "{\"transformer\": {\"num_attention_heads\": 2, \"attention_head_dim\": 12}}");
    write_text("thresholds.json",
               "{\"format\":\"sparge-gen thresholds\",\"version\":1,\"model\":\"0123456789abcdef\",\"rule\":\"topk\","
               "\"layers\":1,\"heads\":2,\"buckets\":[0],\"amount\":[[[0.1,0.2]]],\"theta\":[[[-1,-1]]],"
               "\"lambda\":[[[0,0]]]}");
    shell("ln -s " SG_PICTURES "/scene.png " SG_PICTURES "/noisy.png . && mkdir film && for i in 1 2 3 4 5; do "
          "ln -s " SG_PICTURES "/scene.png film/$i.png; done && cp -rL sd35_medium/tokenizer words && "
          "sed -i '2,100d' words/merges.txt && "
          "cp -rs \"$(readlink -f wan21_hd64)\" tuned && cp thresholds.json tuned/sparge-attention.json && "
          "ln -s denoiser/diffusion_pytorch_model.safetensors denoiser.safetensors");
    return 0;
}

/* ---- one render ---- */

/* Runs the words of a line, which may stand in quotes but hold no blanks. */
static void run(const char *line)
{
    char       *word[80], *at = strdup(line);
    char *const all = at;
    int         count = 0;
    sg_settings s;
    sg_error    e = {0};
    while ((word[count] = strsep(&at, " "))) {
        const size_t n = strlen(word[count]);
        if (n > 1 && word[count][0] == '\'') {
            word[count][n - 1] = '\0';
            word[count]++;
        }
        if (n) count++;
        assert_true(count < 80);
    }
    if (sg_options_parse(&s, count, word, &e) != SG_OK || sg_command_render(&s, &e) != SG_OK)
        fail_msg("%s: %s", line, e.text);
    free(all);
}

/* Of all that a player shows of a clip. */
static uint64_t frames_of(const char *path)
{
    sg_clip_reader *r = NULL;
    const sg_image *frame = NULL;
    sg_error        e = {0};
    uint64_t        h = SG_HASH;
    if (sg_clip_reader_open(&r, path, &e) != SG_OK) fail_msg("%s: %s", path, e.text);
    for (;;) {
        if (sg_clip_reader_next(r, &frame, &e) != SG_OK) fail_msg("%s: %s", path, e.text);
        if (!frame) break;
        const double time = r->last.time;
        h = sg_hash(h, &time, sizeof time);
        h = sg_hash(h, &frame->width, sizeof frame->width);
        h = sg_hash(h, frame->rgb, sg_image_bytes(frame->width, frame->height));
    }
    sg_clip_reader_close(&r);
    return h;
}

static off_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void expect_equal_files(const char *a, const char *b, const char *line)
{
    size_t      size[2];
    char *const of[2] = {read_file(a, &size[0]), read_file(b, &size[1])};
    if (size[0] != size[1] || memcmp(of[0], of[1], size[0]) != 0) fail_msg("other bytes come of: %s", line);
    free(of[0]);
    free(of[1]);
}

/* The command that info prints of a file; the caller's to free. */
static char *command_of(const char *path, const char *output)
{
    char    *text = NULL, *line = NULL;
    size_t   size;
    sg_error e = {0};
    if (sg_writer_read_settings(path, &text, &e) != SG_OK) fail_msg("%s: %s", path, e.text);
    json_t *const j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(j);
    FILE *const f = open_memstream(&line, &size);
    assert_non_null(f);
    sg_settings_print(f, j, SG_COMMAND_RENDER, output);
    assert_int_equal(fclose(f), 0);
    json_decref(j);
    free(text);
    return line;
}

/* ---- the tests ---- */

/* Whether the option that a row is about is o. */
static bool is_of(const row *r, const sg_option *o)
{
    const size_t n = strlen(o->name);
    return strncmp(r->set + 2, o->name, n) == 0 && (r->set[2 + n] == '\0' || r->set[2 + n] == ' ');
}

static void every_kept_option_is_tried(void **state)
{
    (void)state;
    for (int i = 0; i < sg_option_count; i++) {
        const sg_option *const o = &sg_option_table[i];
        bool                   tried = false;
        if (!(o->commands & SG_COMMAND_RENDER) || !(o->phase & SG_OPTION_KEPT)) continue;
        for (const row *r = rows; r < rows + ROWS; r++) tried = tried || is_of(r, o);
        for (size_t k = 0; k < sizeof not_here / sizeof *not_here; k++) {
            if (strcmp(not_here[k].name, o->name) != 0) continue;
            assert_false(tried);
            print_message("--%s is not tried: %s\n", o->name, not_here[k].why);
            tried = true;
        }
        if (!tried) fail_msg("--%s is kept, and no row here sets it", o->name);
    }
}

/* Renders without the option, with it, and by the command that the file of that gives. */
static void a_kept_option_comes_back(const row *r)
{
    static const char usual[] = "sparge-gen --backend cpu --threads 1 --prompt cat";
    const char *const ending = r->ending ? r->ending : ".png";
    const bool        grid = strncmp(r->set, "--batch ", 8) == 0;
    char              line[1024], without[32], with[32], again[32];
    snprintf(without, sizeof without, "without%s", ending);
    snprintf(with, sizeof with, "with%s", ending);
    snprintf(again, sizeof again, "again%s", ending);
    snprintf(line, sizeof line, "%s %s -o %s", usual, r->beside, without);
    run(line);
    snprintf(line, sizeof line, "%s %s %s %s %s", usual, r->beside, r->set, grid ? "--grid" : "-o", with);
    run(line);
    char *const printed = command_of(with, again);
    snprintf(line, sizeof line, "%s --quiet", printed);
    run(line);
    expect_equal_files(with, again, printed);
    if (r->on == ON_NOTHING && !strstr(printed, r->set)) fail_msg("%s is not in: %s", r->set, printed);
    if (r->on == ON_FRAMES && frames_of(with) == frames_of(without)) fail_msg("%s changes nothing", r->set);
    if (r->on == WITHOUT) expect_equal_files(with, without, r->set);
    if (r->on == ON_BYTES) assert_int_equal(frames_of(with), frames_of(without));
    if (r->on == ON_BYTES && llabs((long long)(size_of(with) - size_of(without))) < 100)
        fail_msg("%s changes nothing", r->set);
    free(printed);
    unlink(with);
    unlink(without);
    unlink(again);
}

/* Without FFmpeg there are no videos; not every encoder of MP4 takes --crf. */
static bool can_be_written(const row *r)
{
    sg_error   e = {0};
    const bool crf = strncmp(r->set, "--crf ", 6) == 0;
    char       path[16];
    snprintf(path, sizeof path, "a%s", r->ending ? r->ending : ".png");
    const sg_clip clip = {.size = sizeof(sg_clip),
                          .path = path,
                          .width = 32,
                          .height = 32,
                          .frames = 1,
                          .fps = 16,
                          .has_crf = crf,
                          .crf = 45};
    if (sg_writer_check_format(&clip, &e) == SG_OK) return true;
    print_message("%s is not tried: %s\n", r->set, e.text);
    return false;
}

static void every_kept_option_comes_back(void **state)
{
    (void)state;
    for (const row *r = rows; r < rows + ROWS; r++)
        if (can_be_written(r)) a_kept_option_comes_back(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kept_option_is_tried),
                                       cmocka_unit_test(every_kept_option_comes_back)};
    return cmocka_run_group_tests(tests, enter, leave_folder);
}
