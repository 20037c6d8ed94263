/* test_allocation.c - memory that runs out anywhere: the n-th allocation fails, for every n until the whole passes.
 *
 * Linked with --wrap for every call below, so that the allocations of this program fail, and those of Jansson and libpng,
 * which let their caller give them memory; not those of libraries that end the process themselves. Each failure must be
 * SG_E_MEMORY (or, where those two do not tell the reason, any other code) with a message, leave no file, and leave
 * nothing behind, which the leak check of the sanitizers sees. An operation that knows another way may also succeed. */
#include "answer_score.h"
#include "backend.h"
#include "bpe_tokenizer.h"
#include "clip_names.h"
#include "command.h"
#include "engine.h"
#include "eval_report.h"
#include "lora_file.h"
#include "picture_file.h"
#include "prompt_set.h"
#include "quantised_file.h"
#include "t5_tokenizer.h"
#include "tensor_source.h"
#include "unit.h"
#include "writer.h"

#include <jansson.h>
#include <stdatomic.h>

#include "failing_memory.h"

/* Runs work until nothing fails any more, failing every step-th allocation. */
static void fail_each(const char *name, int step, sg_status (*work)(sg_error *e))
{
    const int files = files_in(".");
    long      survived = 0, n = 1;
    for (;; n += step) {
        sg_error e = {0};
        atomic_store(&calls, 0);
        atomic_store(&foreign, false);
        atomic_store(&failing, n);
        const sg_status status = work(&e);
        const long      made = atomic_load(&calls);
        atomic_store(&failing, 0);
        if (status == SG_OK && made < n) break;
        if (status == SG_OK) {
            survived++;
            continue;
        }
        const bool right = status == SG_E_MEMORY || (foreign && status != SG_OK);
        if (!right || e.code != status || !e.text[0])
            fail_msg("%s, allocation %ld of %ld: status %d, error %d \"%s\"", name, n, made, (int)status, (int)e.code,
                     e.text);
        if (files_in(".") != files) fail_msg("%s, allocation %ld: a file is left (%s)", name, n, e.text);
    }
    print_message("%s: %ld allocations%s, %ld survived\n", name, n - 1, ours_only ? " of ours" : "", survived);
    assert_true(n > 1);
}

/* Of the large works only every so many-th allocation fails: ALLOCATION_STEP in the environment. */
static int sparse_step;

/* Every step-th of our own allocations, and some of all: Jansson makes thousands of one kind. */
static void exhaust(const char *name, int step, sg_status (*work)(sg_error *e))
{
    enum { FOREIGN_STEP = 97 };
    atomic_store(&ours_only, true);
    fail_each(name, step, work);
    atomic_store(&ours_only, false);
    fail_each(name, FOREIGN_STEP * step, work);
}

/* ---- what is exhausted ---- */

static const char mini[] = SG_FIXTURES "/wan21_hd12", two_experts[] = SG_FIXTURES "/wan22_a14b", tiny[] = SG_TINY_WAN;

static sg_status open_at(const char *dir, const char *backend, sg_engine **g, sg_error *e)
{
    return sg_engine_open(
        g, &(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = dir, .backend = backend, .threads = 1},
        e);
}

static sg_status open_and_plan(const char *dir, sg_error *e)
{
    sg_engine *g = NULL;
    sg_plan    plan = {.size = sizeof plan};
    SG_TRY(open_at(dir, "cpu", &g, e));
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(g, &r);
    r.width = r.height = 32;
    r.frames = 5;
    const sg_status status = sg_engine_plan(g, &r, &plan, e);
    sg_engine_close(&g);
    return status;
}

static sg_status open_mini(sg_error *e) { return open_and_plan(mini, e); }
static sg_status open_tiny(sg_error *e) { return open_and_plan(tiny, e); }

/* Of the same model, single files and a folder. */
static sg_status open_parts(sg_error *e)
{
    sg_engine              *g = NULL;
    const sg_engine_options o = {.size = sizeof(sg_engine_options),
                                 .model_dir = SG_TINY_WAN "/transformer/diffusion_pytorch_model.safetensors.index.json",
                                 .parts = {.vae = SG_TINY_WAN "/vae/diffusion_pytorch_model.safetensors",
                                           .text_encoder = SG_TINY_WAN "/text_encoder",
                                           .tokenizer = SG_TINY_WAN "/tokenizer/spiece.model"},
                                 .backend = "cpu",
                                 .threads = 1};
    const sg_status         status = sg_engine_open(&g, &o, e);
    sg_engine_close(&g);
    return status;
}

static sg_status open_backend(sg_error *e)
{
    sg_backend     *b = NULL;
    const sg_status status = sg_backend_open(&b, &(sg_backend_options){.name = "cpu", .threads = 1}, e);
    sg_backend_close(&b);
    return status;
}

/* A convolution, and, where that fails, the same once more: nothing half made may be left of its weights. */
static sg_status convolve(sg_error *e)
{
    enum { C = 64, SIDE = 9 };
    static float x[SIDE * SIDE * C], w[C * C * 9], y[SIDE * SIDE * C];
    sg_backend  *b = NULL;
    SG_TRY(sg_backend_open(&b, &(sg_backend_options){.name = "cpu", .threads = 1}, e));
    for (int i = 0; i < SIDE * SIDE * C; i++) x[i] = 0.5f;
    for (int i = 0; i < C * C * 9; i++) w[i] = 1;
    const sg_conv_args a = {.y = {y, SG_F32, 4, {1, SIDE, SIDE, C}},
                            .x = {x, SG_F32, 4, {1, SIDE, SIDE, C}},
                            .w = {w, SG_F32, 5, {C, C, 1, 3, 3}},
                            .stride = {1, 1, 1},
                            .pad = {1, 1, 1, 1}};
    sg_stream          s = sg_stream_of(b);
    sg_conv_(&s, &a);
    const sg_status status = s.status;
    const long      now = atomic_exchange(&failing, 0);
    if (status) sg_error_set(e, status, "%s", s.why);
    s = sg_stream_of(b);
    sg_conv_(&s, &a);
    assert_int_equal(s.status, SG_OK);
    assert_float_equal(y[(SIDE + 1) * C], C * 9 * 0.5, 1e-3);
    atomic_store(&failing, now);
    sg_backend_close(&b);
    return status;
}

static sg_status open_tokenizer(sg_error *e)
{
    static const char text[] = "a red ball &amp; x\xc3\xa9 \xe2\x80\x94 <extra_id_0> bouncing";
    sg_t5_tokenizer  *t = NULL;
    int32_t          *ids = NULL;
    int               count;
    SG_TRY(sg_t5_tokenizer_open(&t, SG_TINY_WAN "/tokenizer", e));
    const sg_status status = sg_t5_tokenizer_encode(t, text, sizeof text - 1, 64, &ids, &count, e);
    free(ids);
    sg_t5_tokenizer_close(&t);
    return status;
}

static sg_status open_byte_level(sg_error *e)
{
    static const char        text[] = "A  red\n ball x\xc3\xa9 e\xcc\x81 <|endoftext|>bouncing";
    static const char *const folders[] = {SG_BPE "/llama", SG_BPE "/clip"};
    sg_status                status = SG_OK;
    for (int i = 0; status == SG_OK && i < 2; i++) {
        sg_bpe_tokenizer *t = NULL;
        int32_t          *ids = NULL;
        int               count;
        status = sg_bpe_tokenizer_open(&t, folders[i], e);
        if (status == SG_OK) status = sg_bpe_tokenizer_encode(t, text, sizeof text - 1, 64, &ids, &count, e);
        free(ids);
        sg_bpe_tokenizer_close(&t);
    }
    return status;
}

/* A single file, shards, a GGUF, what torch.save wrote. */
static sg_status open_weights(sg_error *e)
{
    static const char *const at[] = {"/vae", "/transformer", "/gguf/tokenizer", "/gguf/large_blocks", "/pth/plain"};
    for (int i = 0; i < 5; i++) {
        char       path[1024];
        sg_source *w = NULL;
        snprintf(path, sizeof path, "%s%s", i < 2 ? tiny : SG_CORPUS, at[i]);
        SG_TRY(i < 2 ? sg_source_open_stem(&w, path, "diffusion_pytorch_model", e) : sg_source_open(&w, path, e));
        sg_source_close(&w);
    }
    return SG_OK;
}

#define MINI_WEIGHTS SG_FIXTURES "/wan21_hd12/transformer/diffusion_pytorch_model.safetensors"

/* A LoRA on quantised weights: beside them, or packed into them. */
static sg_status load_patched(bool merged, sg_error *e)
{
    enum { MOST = 64 };
    static sg_tensor tensor[MOST];
    sg_source       *s = NULL;
    sg_bind         *b = NULL;
    sg_lora         *l = NULL;
    sg_backend      *backend = NULL;
    sg_status        status = sg_source_open(&s, "q.gguf", e);
    if (status == SG_OK) status = sg_backend_open(&backend, &(sg_backend_options){.name = "ref", .threads = 1}, e);
    if (status == SG_OK) status = sg_bind_open(&b, s, NULL, e);
    if (status == SG_OK) status = sg_lora_open(&l, "lora.safetensors", 1, e);
    for (size_t i = 0; status == SG_OK && i < sg_source_count(s); i++) {
        const sg_source_tensor *const t = sg_source_at(s, i);
        assert_true(i < MOST);
        if (t->rank == 2)
            sg_bind_matrix(b, &tensor[i], SG_BF16, t->name, t->dim[0], t->dim[1]);
        else
            sg_bind_tensor_(b, &tensor[i], SG_F32, t->name, t->rank, t->dim);
    }
    if (status == SG_OK) sg_bind_keep_types(b, true);
    if (status == SG_OK) sg_bind_merge(b, merged);
    if (status == SG_OK) status = sg_lora_add(l, b, "transformer", sg_files_wan.names, 1, e);
    if (status == SG_OK) status = sg_bind_load(b, backend, NULL, NULL, e);
    if (status == SG_OK) assert_true(sg_bind_is_beside(b, sg_lora_file(l)) == !merged);
    sg_bind_close(&b);
    sg_lora_close(&l);
    sg_source_close(&s);
    sg_backend_close(&backend);
    return status;
}

static sg_status load_beside(sg_error *e) { return load_patched(false, e); }
static sg_status load_merged(sg_error *e) { return load_patched(true, e); }

static sg_status merge(sg_error *e) { return lora_merge(MINI_WEIGHTS, "lora.safetensors", 1, NULL, e); }

static sg_engine *engine; /* opened while nothing fails */

static sg_status take_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    return sg_writer_write(context, index, rgb, e);
}

static sg_request small_request(void)
{
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(engine, &r);
    r.prompt = "a cat";
    r.negative_prompt = "";
    r.width = r.height = 32;
    r.frames = 5;
    r.steps = 2;
    return r;
}

/* With a file of latents and a Y4M, which go again. */
static sg_status render(sg_error *e)
{
    sg_request    r = small_request();
    sg_report     report = {.size = sizeof report};
    sg_writer    *writer = NULL;
    const sg_clip clip = {
        .size = sizeof(sg_clip), .path = "a.y4m", .width = r.width, .height = r.height, .frames = r.frames, .fps = 16};
    r.latents_out = "a.safetensors";
    r.latents_note = "{}";
    SG_TRY(sg_writer_open(&writer, &clip, e));
    sg_status status = sg_engine_render(
        engine, &r, &(sg_callbacks){.size = sizeof(sg_callbacks), .context = writer, .frame = take_frame}, &report, e);
    if (status == SG_OK) status = sg_writer_finish(writer, e);
    sg_writer_close(&writer);
    unlink("a.safetensors"); /* complete, it stays when decoding fails */
    if (status == SG_OK) unlink("a.y4m");
    return status;
}

static sg_status decode(sg_error *e)
{
    sg_request r = small_request();
    sg_report  report = {.size = sizeof report};
    char      *note = NULL;
    r.prompt = NULL;
    r.latents_in = "latents.safetensors";
    SG_TRY(sg_engine_fit_latents(engine, r.latents_in, &r, &note, e));
    if (!note) return sg_error_set(e, SG_E_FORMAT, "the note is lost");
    free(note);
    return sg_engine_render(engine, &r, NULL, &report, e);
}

static const char *written;

static sg_status write_clip(sg_error *e)
{
    enum { SIDE = 32, FRAMES = 3 };
    static const uint8_t rgb[SIDE * SIDE * 3];
    const sg_clip        clip = {.size = sizeof(sg_clip),
                                 .path = written,
                                 .beside = strchr(written, '%') ? NULL : written,
                                 .width = SIDE,
                                 .height = SIDE,
                                 .frames = FRAMES,
                                 .fps = 16,
                                 .settings = "{\"a\": \"b\"}"};
    sg_writer           *s = NULL;
    sg_status            status = sg_writer_open(&s, &clip, e);
    for (int i = 0; i < FRAMES && status == SG_OK; i++) status = sg_writer_write(s, i, rgb, e);
    if (status == SG_OK) status = sg_writer_finish(s, e);
    sg_writer_close(&s);
    if (status != SG_OK) return status;
    for (int i = 0; i < FRAMES; i++) {
        char name[32];
        snprintf(name, sizeof name, "a-%04d.png", i + 1);
        unlink(strchr(written, '%') ? name : written);
    }
    return SG_OK;
}

static sg_status read_settings(sg_error *e)
{
    char           *text = NULL;
    const sg_status status = sg_writer_read_settings(written, &text, e);
    free(text);
    return status;
}

static const struct {
    const char *name, *text;
} prompt_files[] = {{"prompts.txt", "a red ball\n\na blue box\n"},
                    {"prompts.jsonl", "{\"prompt\": \"a red ball\", \"seed\": 1, \"group\": [\"a\", \"b\"]}\n"},
                    {"prompts.csv", "prompt,group\na red ball,a\n"},
                    {"prompts.json", "{\"annotations\": [{\"caption\": \"a red ball\", \"image_id\": 1}]}"}};
enum { PROMPT_FILES = sizeof prompt_files / sizeof *prompt_files };

static sg_status score_answer(sg_error *e)
{
    static const char *const expected[] = {"a b. c", "B"};
    sg_answer_figures        f;
    sg_status                status = SG_OK;
    for (int m = 0; m < SG_ANSWER_METRICS && status == SG_OK; m++)
        status = sg_answer_score(&f, (sg_answer_metric)m, " It is b. C", expected, 2, NULL, 0, e);
    return status;
}

static sg_status list_prompts(sg_error *e)
{
    sg_prompt_set s = {0};
    for (size_t i = 0; i < PROMPT_FILES; i++) {
        sg_clip_name *names = NULL;
        SG_TRY(sg_prompt_set_open(&s, prompt_files[i].name, &(sg_prompt_options){.what = "--prompts"}, e));
        const sg_status status = sg_clip_names_make(&names, &s, 5, e);
        sg_prompt_set_close(&s);
        free(names);
        if (status != SG_OK) return status;
    }
    SG_TRY(sg_prompt_set_single(&s, "a ball", "--prompt", e));
    sg_prompt_set_close(&s);
    return SG_OK;
}

static const struct {
    const char *name, *text;
} report_files[] = {
    {"e/manifest.json", "{\"format\": \"sparge-gen eval\", \"arms\": [\"dense\", \"x\"], \"fps\": 16}"},
    {"e/results.jsonl",
     "{\"version\":1,\"arm\":\"dense\",\"arm_index\":0,\"prompt\":0,\"clip\":0,\"status\":\"done\",\"text\":\"a\","
     "\"groups\":[\"g\"],\"seed\":1,\"file\":\"f\",\"seconds\":{\"whole\":2,\"text\":1}}\n"
     "{\"version\":1,\"arm\":\"dense\",\"arm_index\":0,\"prompt\":0,\"clip\":0,\"status\":\"done\",\"text\":\"a\","
     "\"groups\":[\"g\"],\"seed\":1,\"file\":\"f\",\"seconds\":{\"whole\":2,\"text\":1}}\n"},
    {"e/results-1.jsonl",
     "{\"version\":1,\"arm\":\"x\",\"arm_index\":1,\"prompt\":0,\"clip\":0,\"status\":\"done\",\"text\":\"a\","
     "\"groups\":[\"g\",\"h\"],\"file\":\"f\",\"seconds\":{\"whole\":2},\"psnr\":{\"mean\":null,\"minimum\":20,\"p5\":"
     "null}}\n"},
};
enum { REPORT_FILES = sizeof report_files / sizeof *report_files };

static sg_status report_evaluation(sg_error *e)
{
    static const char *const made[] = {"e/summary.csv", "e/summary.json", "e/report.html"};
    const sg_status          status = sg_eval_report("e", NULL, e);
    for (int i = 0; i < 3; i++) unlink(made[i]); /* each is whole, so those before a failure stay */
    return status;
}

/* A whole command; what it prints goes to /dev/null. */
static sg_status command(int count, char **word, sg_status (*run)(const sg_settings *, sg_error *), sg_error *e)
{
    sg_settings s;
    SG_TRY(sg_options_parse(&s, count, word, e));
    return run(&s, e);
}

static sg_status render_command(sg_error *e)
{
    char           *word[] = {"sparge-gen", "--model", (char *)(uintptr_t)mini,
                              "--backend",  "cpu",     "--threads",
                              "1",          "--quiet", "--prompt",
                              "a cat",      "--size",  "32x32",
                              "--frames",   "5",       "--steps",
                              "1",          "--seed",  "1",
                              "-o",         "a.y4m",   "--json",
                              "a.json"};
    const sg_status status = command((int)(sizeof word / sizeof *word), word, sg_command_render, e);
    if (status == SG_OK || access("a.json", F_OK) != 0) unlink("a.y4m"); /* a clip whose report failed stays */
    unlink("a.json");
    return status;
}

static sg_status command_unheard(int count, char **word, sg_status (*run)(const sg_settings *, sg_error *), sg_error *e)
{
    const int       saved = dup(STDOUT_FILENO);
    FILE *const     nowhere = freopen("/dev/null", "w", stdout);
    const sg_status status = command(count, word, run, e);
    fflush(nowhere);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    return status;
}

static sg_status info_command(sg_error *e)
{
    char *word[] = {"sparge-gen", "info", (char *)(uintptr_t)mini, "--json", "-", "--backend", "cpu", "--size", "32x32",
                    "--frames",   "5"};
    return command_unheard((int)(sizeof word / sizeof *word), word, sg_command_info, e);
}

/* With words that hold no space. */
static sg_status compare(const char *model, const char *words, sg_error *e)
{
    char line[1000], *word[32], *at = line;
    int  count = 0;
    snprintf(line, sizeof line, "sparge-gen compare --backend cpu --threads 1 --quiet --prompt cat --model %s %s",
             model, words);
    while ((word[count] = strsep(&at, " "))) count++;
    return command_unheard(count, word, sg_command_compare, e);
}

/* So short a sequence runs dense in both arms, which is refused. */
static sg_status refused_command(sg_error *e)
{
    const sg_status status =
        compare(mini, "--size 32x32 --frames 1 --arms dense,sparge:topk=0.3:dense-layers=0\\,1", e);
    return status == SG_E_ARG ? SG_OK : status;
}

/* 1,024 tokens: what sparse attention takes. A comparison that fails leaves what is finished, which is hidden, and
 * nothing else. */
static sg_status compare_command(sg_error *e)
{
    const sg_status status =
        compare(SG_FIXTURES "/wan21_hd64",
                "--size 256x256 --frames 1 --steps 1 --repeat 1 -o c --arms dense,sparge:topk=0.3:dense-steps=0", e);
    const long now = atomic_exchange(&failing, 0);
    if (status != SG_OK) shell("test -z \"$(ls c 2>/dev/null)\"");
    shell("rm -rf c");
    atomic_store(&failing, now);
    return status;
}

/* From nothing to the report, and then again, when there is nothing left to do. */
static sg_status eval_command(sg_error *e)
{
    char     *word[] = {"sparge-gen",
                        "eval",
                        "--model",
                        (char *)(uintptr_t)mini,
                        "--backend",
                        "cpu",
                        "--threads",
                        "1",
                        "--quiet",
                        "-o",
                        "v",
                        "--prompts",
                        "prompts.txt",
                        "--size",
                        "32x32",
                        "--frames",
                        "1",
                        "--steps",
                        "1",
                        "--arms",
                        "dense,dense:steps=2"};
    const int count = sizeof word / sizeof *word;
    sg_status status = command(count, word, sg_command_eval, e);
    if (status == SG_OK) status = command(count, word, sg_command_eval, e);
    const long now = atomic_exchange(&failing, 0);
    assert_int_equal(system("rm -rf v"), 0);
    atomic_store(&failing, now);
    return status;
}

static char *scored[2];

static sg_status score_command(sg_error *e)
{
    char           *word[] = {"sparge-gen", "compare", scored[0], scored[1], "--json", "c.json"};
    const sg_status status = command_unheard((int)(sizeof word / sizeof *word), word, sg_command_compare, e);
    unlink("c.json");
    return status;
}

/* ---- the tests ---- */

static void constructors(void **state)
{
    exhaust("backend", 1, open_backend);
    exhaust("convolution", 1, convolve);
    exhaust("weights", 3, open_weights);
    exhaust("tokenizer", 3, open_tokenizer);
    exhaust("byte-level tokenizers", 1, open_byte_level);
    exhaust("prompts", 1, list_prompts);
    exhaust("answers", 1, score_answer);
    lora_save_for(MINI_WEIGHTS, "lora.safetensors",
                  "{\"lora_adapter_metadata\":\"{\\\"transformer.lora_alpha\\\":1}\"}");
    exhaust("LoRA", 3, merge);
    quantised_write(QUANTISED_FROM, "q.gguf");
    lora_save_for(QUANTISED_FROM, "lora.safetensors", NULL);
    exhaust("LoRA beside quantised weights", 3, load_beside);
    exhaust("LoRA packed into quantised weights", 3, load_merged);
    unlink("q.gguf");
    unlink("lora.safetensors");
    exhaust("mini model", sparse_step, open_mini);
    exhaust("tiny-wan", sparse_step, open_tiny);
    exhaust("tiny-wan of parts", sparse_step, open_parts);
}

static void renders(void **state)
{
    static const struct {
        const char *name, *dir, *backend;
    } of[] = {{"render", mini, "cpu"}, {"render of two experts", two_experts, "cpu"}, {"render by ref", mini, "ref"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_error e = {0};
        assert_int_equal(open_at(of[i].dir, of[i].backend, &engine, &e), SG_OK);
        exhaust(of[i].name, i == 2 ? sparse_step : 1, render);
        sg_request r = small_request();
        sg_report  report = {.size = sizeof report};
        r.latents_out = "latents.safetensors";
        r.latents_note = "{}";
        assert_int_equal(sg_engine_render(engine, &r, NULL, &report, &e), SG_OK);
        if (i == 0) exhaust("decoding", 1, decode);
        unlink("latents.safetensors");
        sg_engine_close(&engine);
    }
}

static void evaluations(void **state)
{
    assert_int_equal(mkdir("e", 0777), 0);
    for (size_t i = 0; i < REPORT_FILES; i++) {
        FILE *const f = fopen(report_files[i].name, "w");
        assert_non_null(f);
        fputs(report_files[i].text, f);
        fclose(f);
    }
    fail_each("report of an evaluation", 1, report_evaluation);
    for (size_t i = 0; i < REPORT_FILES; i++) unlink(report_files[i].name);
    assert_int_equal(rmdir("e"), 0); /* nothing else is left in it */
}

static void writers(void **state)
{
    char        known[80];
    const bool  mp4 = strstr(sg_writer_endings(known, sizeof known), ".mp4") != NULL;
    const char *path[] = {"a.y4m", "a-%04d.png", "a.mp4", "a.mkv", "a.webp"};
    for (int i = 0; i < 2 + 3 * mp4; i++) {
        written = path[i];
        fail_each(path[i], 1, write_clip);
    }
}

static sg_status write_picture(sg_error *e)
{
    static uint8_t rgb[4 * 4 * 3];
    return sg_writer_save_picture(written, rgb, 4, 4, "{}", e);
}

static void settings(void **state)
{
    static const char *const path[] = {"b.png", "b.jpg"};
    for (int i = 0; i < 2; i++) {
        written = path[i];
        fail_each(path[i], 1, write_picture);
        fail_each("settings of a picture", 1, read_settings);
        unlink(written);
    }
}

static sg_status read_picture(sg_error *e)
{
    sg_image        image;
    const sg_status status = read_image(&image, written, e);
    sg_image_close(&image);
    return status;
}

/* All but those that the build has no library for. */
static void pictures(void **state)
{
    static const char *const names[] = {"rgb.png", "base.jpg",        "bmp8.bmp",       "gif.gif",
                                        "ppm.ppm", "tga_palette.tga", "webp_alpha.webp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char     path[256];
        sg_error e = {0};
        snprintf(path, sizeof path, "%s/image/%s", SG_CORPUS, names[i]);
        written = path;
        if (read_picture(&e) == SG_OK) fail_each(names[i], 1, read_picture);
    }
}

static void commands(void **state)
{
    exhaust("render command", 3 * sparse_step, render_command);
    exhaust("info command", sparse_step, info_command);
    exhaust("refused command", 3 * sparse_step, refused_command);
    exhaust("compare command", 61 * sparse_step, compare_command);
    exhaust("eval command", 11 * sparse_step, eval_command);
}

/* Of a video against a video and against a picture. */
static void comparisons(void **state)
{
    enum { SIDE = 24 };
    static const uint8_t rgb[SIDE * SIDE * 3];
    char                 known[80];
    const bool           mp4 = strstr(sg_writer_endings(known, sizeof known), ".mp4") != NULL;
    char                *path[] = {"c.png", "c.y4m", "c.mp4"};
    sg_error             e = {0};
    for (int i = 0; i < 2 + mp4; i++) {
        const sg_clip clip = {
            .size = sizeof(sg_clip), .path = path[i], .width = SIDE, .height = SIDE, .frames = 1, .fps = 1};
        sg_writer *s = NULL;
        assert_int_equal(sg_writer_open(&s, &clip, &e), SG_OK);
        assert_int_equal(sg_writer_write(s, 0, rgb, &e), SG_OK);
        assert_int_equal(sg_writer_finish(s, &e), SG_OK);
        sg_writer_close(&s);
        scored[0] = path[i];
        scored[1] = path[0];
        exhaust(path[i], 1, score_command);
    }
    for (int i = 0; i < 2 + mp4; i++) unlink(path[i]);
}

static int write_prompts(void **state)
{
    if (enter_folder(state)) return -1;
    for (size_t i = 0; i < PROMPT_FILES; i++) write_text(prompt_files[i].name, prompt_files[i].text);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(constructors), cmocka_unit_test(evaluations),
                                       cmocka_unit_test(writers),      cmocka_unit_test(settings),
                                       cmocka_unit_test(pictures),     cmocka_unit_test(comparisons),
                                       cmocka_unit_test(renders),      cmocka_unit_test(commands)};
    const char *const       step = getenv("ALLOCATION_STEP");
    sparse_step = step ? atoi(step) : 1;
    json_set_alloc_funcs(jansson_take, free);
    return cmocka_run_group_tests(tests, write_prompts, leave_folder);
}
