/* test_engine.c - rendering as a caller sees it: memory, progress, refusals, poisoned weights. Golden tests hold the
 * numbers; here the model is a mini checkpoint of theirs. */
#include "engine_state.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char model[] = SG_FIXTURES "/wan21_hd12";

typedef struct seen {
    int     frames, last_index, stage, steps, cancel_at;
    uint8_t pixels[16][64 * 64 * 3];
    size_t  frame_bytes;
} seen;

static sg_status take_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    (void)e;
    seen *const s = context;
    assert_int_equal(index, s->frames);
    assert_true(index < 16);
    memcpy(s->pixels[s->frames++], rgb, s->frame_bytes);
    return SG_OK;
}

static int take_progress(void *context, sg_stage stage, int done, int total)
{
    seen *const s = context;
    assert_true(done >= 0 && done <= total);
    assert_true(stage == SG_STAGE_LOAD || (int)stage >= s->stage);
    if (stage != SG_STAGE_LOAD) s->stage = (int)stage;
    if (stage == SG_STAGE_DENOISE) s->steps = done;
    return s->cancel_at && s->steps == s->cancel_at;
}

static sg_engine *open_model(const char *dir, size_t limit)
{
    sg_engine *g = NULL;
    sg_error   e = {0};
    if (sg_engine_open(&g, &(sg_engine_options){.model_dir = dir, .backend = "ref", .memory_limit = limit}, &e))
        fail_msg("%s", e.text);
    return g;
}

static sg_request small(const sg_engine *g)
{
    sg_request r = sg_engine_defaults(g);
    r.prompt = "a cat";
    r.negative_prompt = "";
    r.width = 32;
    r.height = 48;
    r.frames = 5;
    r.steps = 2;
    r.cfg_scale = 3;
    r.seed = 7;
    return r;
}

static sg_status render(sg_engine *g, const sg_request *r, seen *s, sg_report *rep, sg_error *e)
{
    s->frame_bytes = (size_t)r->width * (size_t)r->height * 3;
    return sg_engine_render(g, r, &(sg_callbacks){.context = s, .frame = take_frame, .progress = take_progress}, rep,
                            e);
}

static void renders_frames_in_order(void **state)
{
    (void)state;
    static seen a, b;
    sg_engine  *g = open_model(model, 0);
    sg_request  r = small(g);
    sg_report   rep;
    sg_error    e = {0};
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    assert_int_equal(render(g, &r, &a, &rep, &e), SG_OK);
    assert_int_equal(a.frames, 5);
    assert_int_equal(rep.steps_done, 2);
    assert_true(rep.prompt_tokens > 1 && rep.negative_tokens == 1);
    assert_int_equal(render(g, &r, &b, &rep, &e), SG_OK); /* the same engine again */
    assert_memory_equal(a.pixels, b.pixels, sizeof a.pixels);
    r.seed++;
    memset(&b, 0, sizeof b);
    assert_int_equal(render(g, &r, &b, &rep, &e), SG_OK);
    assert_memory_not_equal(a.pixels, b.pixels, sizeof a.pixels);
    sg_engine_close(&g);
}

typedef struct watch {
    int    steps, texts;
    size_t count;
    float  last[4096];
} watch;

static sg_status take_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
    (void)e;
    watch *const w = context;
    assert_int_equal(step, w->steps++);
    w->count = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    assert_true(w->count <= sizeof w->last / sizeof *w->last);
    memcpy(w->last, latents, w->count * sizeof *latents);
    return step == 7 ? sg_error_set(e, SG_E_FILE, "enough") : SG_OK;
}

static int count_texts(void *context, sg_stage stage, int done, int total)
{
    watch *const w = context;
    w->texts += stage == SG_STAGE_TEXT && done == total;
    return 0;
}

/* Each step's latents are shown, the last being those that a file gets; a caller who refuses them ends the render. */
static void latents_are_shown(void **state)
{
    (void)state;
    static watch       w;
    char               path[] = "/tmp/sg_latents_XXXXXX.safetensors";
    const int          fd = mkstemps(path, 12);
    sg_engine         *g = open_model(model, 0);
    sg_request         r = small(g);
    const sg_callbacks cb = {.context = &w, .latents = take_latents};
    sg_weights        *file = NULL;
    sg_tensor          t;
    sg_report          rep;
    sg_error           e = {0};
    assert_true(fd >= 0);
    close(fd);
    w = (watch){0};
    r.latents_out = path;
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_OK);
    assert_int_equal(w.steps, 2);
    assert_int_equal(sg_latents_open(g, path, &file, &t, &e), SG_OK);
    assert_int_equal(sg_count(t), w.count);
    assert_memory_equal(t.data, w.last, w.count * sizeof *w.last);
    sg_weights_close(&file);
    unlink(path);

    w = (watch){0};
    r.latents_out = NULL;
    r.steps = 9;
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_E_FILE);
    assert_string_equal(e.text, "enough");
    assert_int_equal(rep.steps_done, 8);
    sg_engine_close(&g);
}

/* The text encoder runs once for the same texts, whatever else changes, and anew for others. */
static void texts_are_encoded_once(void **state)
{
    (void)state;
    static seen        a, b;
    static watch       w;
    sg_engine         *g = open_model(model, 0);
    sg_request         r = small(g);
    const sg_callbacks cb = {.context = &w, .progress = count_texts};
    sg_plan            plan;
    sg_report          rep;
    sg_error           e = {0};
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    w = (watch){0};
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_OK);
    assert_int_equal(w.texts, 1);
    r.seed++;
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_OK);
    assert_int_equal(w.texts, 1);
    assert_int_equal(render(g, &r, &a, &rep, &e), SG_OK);
    const char *const others[][2] = {{"a dog", ""}, {"a cat", "blue"}, {"a cat", ""}};
    for (int i = 0; i < 3; i++) {
        r.prompt = others[i][0];
        r.negative_prompt = others[i][1];
        assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_OK);
        assert_int_equal(w.texts, 2 + i);
    }
    r.cfg_scale = 1;
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_OK);
    assert_int_equal(w.texts, 4);
    r.cfg_scale = 3;
    assert_int_equal(render(g, &r, &b, &rep, &e), SG_OK);
    assert_memory_equal(a.pixels, b.pixels, sizeof a.pixels);
    sg_engine_close(&g);
}

static void memory_is_as_planned(void **state)
{
    (void)state;
    static seen s;
    sg_engine  *g = open_model(model, 0);
    sg_request  r = small(g);
    sg_plan     plan;
    sg_report   rep;
    sg_error    e = {0};
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    assert_int_equal(plan.tokens, 2 * 3 * 2);
    sg_engine_close(&g);

    g = open_model(model, plan.need);
    r = small(g);
    memset(&s, 0, sizeof s);
    assert_int_equal(render(g, &r, &s, &rep, &e), SG_OK);
    assert_true(rep.held_bytes == plan.need - plan.staging);
    sg_engine_close(&g);

    g = open_model(model, plan.need - 1);
    r = small(g);
    memset(&s, 0, sizeof s);
    assert_int_equal(render(g, &r, &s, &rep, &e), SG_E_MEMORY);
    assert_non_null(strstr(e.text, "needs"));
    assert_int_equal(s.frames, 0);
    sg_engine_close(&g);
}

static void wishes_are_checked(void **state)
{
    (void)state;
    sg_engine *g = open_model(model, 0);
    const struct {
        int         width, height, frames, steps;
        double      cfg, shift;
        const char *says;
    } bad[] = {{33, 48, 5, 2, 1, 3, "nearest is 32x48"}, {32, 0, 5, 2, 1, 3, "not between"},
               {8, 48, 5, 2, 1, 3, "nearest is 16x48"},  {32, 48, 7, 2, 1, 3, "nearest is 9"},
               {32, 48, 6, 2, 1, 3, "nearest is 5"},     {32, 48, 0, 2, 1, 3, "frames"},
               {32, 48, 5, 0, 1, 3, "steps: 0"},         {32, 48, 5, 2, NAN, 3, "cfg-scale"},
               {32, 48, 5, 2, -1, 3, "cfg-scale"},       {32, 48, 5, 2, 1, 0, "flow-shift"},
               {1 << 16, 48, 5, 2, 1, 3, "positions"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sg_request r = small(g);
        sg_error   e = {0};
        r.width = bad[i].width;
        r.height = bad[i].height;
        r.frames = bad[i].frames;
        r.steps = bad[i].steps;
        r.cfg_scale = bad[i].cfg;
        r.flow_shift = bad[i].shift;
        assert_int_equal(sg_engine_check_request(g, &r, &e), SG_E_ARG);
        if (!strstr(e.text, bad[i].says)) fail_msg("\"%s\" does not say \"%s\"", e.text, bad[i].says);
    }
    sg_engine_close(&g);
}

static void cancelling_stops_at_the_step(void **state)
{
    (void)state;
    static seen s = {.cancel_at = 1};
    sg_engine  *g = open_model(model, 0);
    sg_request  r = small(g);
    sg_report   rep;
    sg_error    e = {0};
    r.steps = 5;
    assert_int_equal(render(g, &r, &s, &rep, &e), SG_E_CANCELLED);
    assert_int_equal(rep.steps_done, 1);
    assert_int_equal(s.frames, 0);
    sg_engine_close(&g);
}

static void latents_decode_again(void **state)
{
    (void)state;
    static seen a, b;
    char        path[] = "/tmp/sg_latents_XXXXXX.safetensors";
    const int   fd = mkstemps(path, 12);
    sg_engine  *g = open_model(model, 0);
    sg_request  r = small(g), again = small(g);
    sg_report   rep;
    sg_error    e = {0};
    char       *note = NULL;
    assert_true(fd >= 0);
    close(fd);
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    r.latents_out = path;
    r.latents_note = "{\"note\":1}";
    assert_int_equal(render(g, &r, &a, &rep, &e), SG_OK);

    again.latents_in = path;
    again.prompt = NULL;
    again.width = again.height = again.frames = 1;
    assert_int_equal(sg_engine_fit_latents(g, path, &again, &note, &e), SG_OK);
    assert_string_equal(note, r.latents_note);
    free(note);
    assert_int_equal(again.width, 32);
    assert_int_equal(again.height, 48);
    assert_int_equal(again.frames, 5);
    assert_int_equal(render(g, &again, &b, &rep, &e), SG_OK);
    assert_memory_equal(a.pixels, b.pixels, sizeof a.pixels);
    assert_int_equal(rep.steps_done, 0);

    again.frames = 9;
    assert_int_equal(render(g, &again, &b, &rep, &e), SG_E_ARG);
    unlink(path);
    sg_engine_close(&g);
}

/* ---- sparse attention ---- */

enum { TOKENS = 1024, HEADS = 2, HEAD_DIM = 12, BLOCK_LAYERS = 2, BLOCK_STEPS = 5 };

/* The fewest tokens that a named policy skips blocks of. */
static sg_request sparse(const sg_engine *g)
{
    sg_request r = small(g);
    r.width = r.height = 256;
    r.frames = 13;
    r.steps = BLOCK_STEPS;
    r.attention.named = true;
    return r;
}

static float *read_tensor(const char *path, const char *name, size_t count)
{
    sg_weights *w = NULL;
    sg_error    e = {0};
    char        dir[] = "/tmp", stem[64];
    snprintf(stem, sizeof stem, "%.*s", (int)(strlen(path) - 5 - strlen(".safetensors")), path + 5);
    if (sg_weights_open(&w, dir, stem, &e)) fail_msg("%s", e.text);
    const sg_tensor t = sg_weights_find(w, name);
    assert_int_equal(sg_count(t), count);
    float *const x = malloc(count * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < count; i++) x[i] = sg_load(&t, (int64_t)i);
    sg_weights_close(&w);
    return x;
}

/* The latents of a render without frames; the caller frees. */
static float *latents_of(sg_engine *g, sg_request r)
{
    char         path[] = "/tmp/sg_sparse_XXXXXX.safetensors";
    const int    fd = mkstemps(path, 12);
    sg_report    rep;
    sg_error     e = {0};
    sg_callbacks none = {0};
    assert_true(fd >= 0);
    close(fd);
    r.latents_out = path;
    if (sg_engine_render(g, &r, &none, &rep, &e)) fail_msg("%s", e.text);
    float *const x = read_tensor(path, "latents", 16 * 4 * 32 * 32);
    unlink(path);
    return x;
}

static double distance(const float *a, const float *b, size_t n)
{
    double far = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        far += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(far / size);
}

static sg_engine *open_fast(void)
{
    sg_engine *g = NULL;
    sg_error   e = {0};
    if (sg_engine_open(&g, &(sg_engine_options){.model_dir = model, .backend = "cpu", .dtype = "f32", .threads = 2},
                       &e))
        fail_msg("%s", e.text);
    return g;
}

static void sparse_renders_are_near_dense(void **state)
{
    (void)state;
    enum { COUNT = 16 * 4 * 32 * 32 };
    sg_engine *g = open_fast();
    sg_request r = sparse(g);
    int        steps, passes, layers;
    r.attention.kind = SG_ATTENTION_DENSE;
    float *const dense = latents_of(g, r);
    r.attention.kind = SG_ATTENTION_SAGE;
    float *const sage = latents_of(g, r);
    r.attention.kind = SG_ATTENTION_SPARGE;
    float *const half = latents_of(g, r);

    const sg_attention_count *const c = sg_engine_attention(g, &steps, &passes, &layers);
    assert_non_null(c);
    assert_int_equal(steps, BLOCK_STEPS);
    assert_int_equal(passes, 2);
    assert_int_equal(layers, BLOCK_LAYERS);
    for (int i = 0; i < steps * passes * layers; i++) {
        const int step = i / passes / layers, pass = i / layers % passes, layer = i % layers;
        assert_int_equal(c[i].kind, step ? SG_ATTENTION_SPARGE : SG_ATTENTION_DENSE);
        assert_int_equal(c[i].why, step ? SG_WHY_POLICY : SG_WHY_STEP);
        assert_int_equal(c[i].blocks, pass && !layer ? 0 : 2 * 8 * 16); /* the first is for both passes */
        if (c[i].blocks) assert_int_equal(c[i].kept, step ? c[i].blocks / 2 : c[i].blocks);
    }
    r.attention.order = SG_ORDER_ROW;
    r.attention.amount = 1;
    float *const all = latents_of(g, r);
    r.attention.order = SG_ORDER_HILBERT;
    float *const turned = latents_of(g, r);
    assert_memory_equal(all, sage, COUNT * sizeof *all);
    assert_true(distance(sage, dense, COUNT) < 0.01);
    assert_true(distance(half, dense, COUNT) < 0.05);
    assert_true(distance(half, dense, COUNT) > 0);
    assert_true(distance(turned, sage, COUNT) < 0.01);
    r.attention.named = false; /* too short to skip blocks of unasked */
    float *const again = latents_of(g, r);
    assert_memory_equal(again, dense, COUNT * sizeof *again);
    float *const results[] = {dense, sage, half, all, turned, again};
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) free(results[i]);
    sg_engine_close(&g);
}

static void sparse_memory_is_as_planned(void **state)
{
    (void)state;
    sg_engine *g = open_model(model, 0);
    sg_request r = small(g);
    sg_plan    dense, plan;
    sg_report  rep;
    sg_error   e = {0};
    r.width = r.height = 512; /* too large for the oracle, and only planned */
    r.attention.named = true;
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    r.attention.kind = SG_ATTENTION_DENSE;
    assert_int_equal(sg_engine_plan(g, &r, &dense, &e), SG_OK);
    assert_true(plan.denoise.work > dense.denoise.work);
    sg_engine_close(&g);

    g = open_fast();
    r = sparse(g);
    r.steps = 2;
    assert_int_equal(sg_engine_render(g, &r, NULL, &rep, &e), SG_OK); /* in arenas of just that size */
    sg_engine_close(&g);
}

static void attention_is_captured(void **state)
{
    (void)state;
    enum { COUNT = TOKENS * HEADS * HEAD_DIM };
    char              path[] = "/tmp/sg_capture_XXXXXX.safetensors";
    const int         fd = mkstemps(path, 12);
    static const char names[3][2] = {"q", "k", "v"};
    float            *captured[2][3];
    sg_engine        *g = open_fast();
    sg_request        r = sparse(g);
    sg_report         rep;
    sg_error          e = {0};
    assert_true(fd >= 0);
    close(fd);
    r.capture_out = path;
    r.attention.dense_steps = 0.5; /* what is captured comes before anything is skipped */
    r.steps = 2;
    for (int way = 0; way < 2; way++) {
        if (way) r.attention.kind = SG_ATTENTION_DENSE;
        assert_int_equal(sg_engine_render(g, &r, NULL, &rep, &e), SG_OK);
        for (int i = 0; i < 3; i++) captured[way][i] = read_tensor(path, names[i], COUNT);
    }
    for (int i = 0; i < 3; i++) { /* of Hilbert's order, and row by row */
        assert_true(distance(captured[0][i], captured[1][i], COUNT) < 1e-5);
        assert_true(distance(captured[0][i], captured[0][(i + 1) % 3], COUNT) > 0.1);
    }
    for (int i = 0; i < 6; i++) free(captured[i / 3][i % 3]);
    unlink(path);
    sg_engine_close(&g);
}

static void attention_is_checked(void **state)
{
    (void)state;
    sg_engine *g = open_model(model, 0);
    for (int i = 0; i < 6; i++) {
        static const char *const says[] = {"topk", "dense-layers", "layer 2", "step 2", "only decoded", "dense-steps"};
        sg_request               r = small(g);
        sg_error                 e = {0};
        if (i == 0) r.attention.amount = 1.5f;
        if (i == 1) r.attention.dense_layers = "0,2";
        if (i >= 2 && i < 5) r.capture_out = "/tmp/none.safetensors";
        if (i == 2) r.capture_layer = BLOCK_LAYERS;
        if (i == 3) r.capture_step = r.steps;
        if (i == 4) r.latents_in = "/tmp/none.safetensors";
        if (i == 5) r.attention.dense_steps = NAN;
        assert_int_equal(sg_engine_check_request(g, &r, &e), SG_E_ARG);
        if (!strstr(e.text, says[i])) fail_msg("\"%s\" does not say \"%s\"", e.text, says[i]);
    }
    sg_engine_close(&g);
}

/* Layers are counted through both experts, of which one is at work in a step. */
static void experts_take_turns(void **state)
{
    (void)state;
    sg_engine *g = NULL;
    sg_report  rep;
    sg_error   e = {0};
    int        steps, passes, layers;
    assert_int_equal(
        sg_engine_open(&g, &(sg_engine_options){.model_dir = SG_FIXTURES "/wan22_a14b", .backend = "cpu"}, &e), SG_OK);
    sg_request r = sparse(g);
    r.attention.dense_layers = "0";
    r.attention.dense_steps = 0;
    if (sg_engine_render(g, &r, NULL, &rep, &e)) fail_msg("%s", e.text);
    const sg_attention_count *const c = sg_engine_attention(g, &steps, &passes, &layers);
    assert_int_equal(layers, 2);
    for (int i = 0; i < steps; i++) {
        const sg_attention_count *const of = c + i * passes * layers;
        assert_true((of[0].blocks > 0) != (of[1].blocks > 0));
        assert_int_equal(of[0].kind, SG_ATTENTION_DENSE);
        assert_int_equal(of[1].kind, SG_ATTENTION_SPARGE);
    }
    assert_true(c[0].blocks > 0 && c[(steps - 1) * passes * layers + 1].blocks > 0);

    r.capture_out = "/tmp/none.safetensors";
    r.capture_step = steps - 1;
    assert_int_equal(sg_engine_render(g, &r, NULL, &rep, &e), SG_E_ARG);
    assert_non_null(strstr(e.text, "layer 0 does not run at step 4, but 1 to 1 do"));
    sg_engine_close(&g);
}

/* ---- poisoned weights ---- */

static char copy_dir[] = "/tmp/sg_poison_XXXXXX";

static int make_copy(void **state)
{
    (void)state;
    char command[512];
    if (!mkdtemp(copy_dir)) return -1;
    snprintf(command, sizeof command, "cp -r '%s'/. '%s'", model, copy_dir);
    return system(command);
}

static int remove_copy(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", copy_dir);
    return system(command);
}

/* Writes one F32 value of a tensor of the copy; returns what stood there. */
static float poke(const char *file, const char *tensor, int index, float value)
{
    char     path[256];
    uint64_t length;
    float    before;
    snprintf(path, sizeof path, "%s/%s", copy_dir, file);
    FILE *const f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fread(&length, 8, 1, f), 1);
    char *const header = malloc(length);
    assert_int_equal(fread(header, 1, length, f), length);
    json_t *const j = json_loadb(header, length, 0, NULL), *const t = json_object_get(j, tensor);
    assert_non_null(t);
    const json_t *const offsets = json_object_get(t, "data_offsets");
    const long          at = (long)(8 + length) + (long)json_integer_value(json_array_get(offsets, 0)) + 4L * index;
    fseek(f, at, SEEK_SET);
    assert_int_equal(fread(&before, sizeof before, 1, f), 1);
    fseek(f, at, SEEK_SET);
    assert_int_equal(fwrite(&value, sizeof value, 1, f), 1);
    fclose(f);
    json_decref(j);
    free(header);
    return before;
}

static void expect_numeric(const char *file, const char *tensor, float value, const char *says)
{
    static seen s;
    const float before = poke(file, tensor, 0, value);
    sg_engine  *g = open_model(copy_dir, 0);
    sg_request  r = small(g);
    sg_report   rep;
    sg_error    e = {0};
    memset(&s, 0, sizeof s);
    assert_int_equal(render(g, &r, &s, &rep, &e), SG_E_NUMERIC);
    if (!strstr(e.text, says)) fail_msg("\"%s\" does not say \"%s\"", e.text, says);
    assert_int_equal(s.frames, 0);
    sg_engine_close(&g);
    poke(file, tensor, 0, before);
}

static void poison_is_named(void **state)
{
    (void)state;
    const char dit[] = "transformer/diffusion_pytorch_model.safetensors",
               vae[] = "vae/diffusion_pytorch_model.safetensors";
    expect_numeric(dit, "blocks.1.ffn.net.0.proj.weight", NAN, "blocks.1.ffn.net.0.proj.weight");
    for (int i = 0; i < 2; i++) { /* finite weights whose product is not: the bias times the gate, row 5 of the table */
        char bias[64], table[64], says[64];
        snprintf(bias, sizeof bias, "blocks.%d.ffn.net.2.bias", i);
        snprintf(table, sizeof table, "blocks.%d.scale_shift_table", i);
        snprintf(says, sizeof says, "block %d of the transformer at step 1", i);
        const float gate = poke(dit, table, 5 * 24, 100.0f);
        expect_numeric(dit, bias, 3e38f, says);
        poke(dit, table, 5 * 24, gate);
    }
    expect_numeric(vae, "decoder.conv_in.weight", INFINITY, "decoder.conv_in.weight");
}

/* Thresholds beside the model are its defaults. */
static void thresholds_are_found(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/" SG_THRESHOLDS_NAME, copy_dir);
    for (int broken = 0; broken < 2; broken++) {
        FILE *const f = fopen(path, "w");
        sg_engine  *g = NULL;
        sg_error    e = {0};
        assert_non_null(f);
        fprintf(
            f,
            "{\"format\": \"sparge-gen thresholds\", \"version\": 1, \"rule\": \"topk\", \"layers\": 2, \"heads\": 2,"
            " \"buckets\": [0], \"amount\": [[[0.25, 1], [1, 0.75]]], \"theta\": [[[-1, -1], [-1, -1]]],"
            " \"lambda\": [[[0, 0], [0, 0]%s]]}",
            broken ? ", []" : "");
        fclose(f);
        const sg_status st = sg_engine_open(&g, &(sg_engine_options){.model_dir = copy_dir, .backend = "cpu"}, &e);
        assert_int_equal(st, broken ? SG_E_FORMAT : SG_OK);
        if (broken) {
            assert_non_null(strstr(e.text, SG_THRESHOLDS_NAME));
            continue;
        }
        sg_request r = sparse(g);
        sg_report  rep;
        int        steps, passes, layers;
        assert_non_null(r.attention.tuned);
        r.attention.dense_steps = 0;
        r.steps = 1;
        if (sg_engine_render(g, &r, NULL, &rep, &e)) fail_msg("%s", e.text);
        const sg_attention_count *const c = sg_engine_attention(g, &steps, &passes, &layers);
        assert_int_equal(c[0].kept, 8 * (4 + 16));
        assert_int_equal(c[1].kept, 8 * (16 + 12));
        sg_engine_close(&g);
    }
    unlink(path);
}

static void other_pipelines_are_refused(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s/model_index.json", copy_dir);
    FILE *const f = fopen(path, "w");
    fputs("{\"_class_name\": \"StableDiffusionPipeline\"}", f);
    fclose(f);
    sg_engine *g = NULL;
    sg_error   e = {0};
    assert_int_equal(sg_engine_open(&g, &(sg_engine_options){.model_dir = copy_dir}, &e), SG_E_UNSUPPORTED);
    assert_non_null(strstr(e.text, "WanPipeline"));
    assert_null(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(renders_frames_in_order),
                                       cmocka_unit_test(latents_are_shown),
                                       cmocka_unit_test(texts_are_encoded_once),
                                       cmocka_unit_test(memory_is_as_planned),
                                       cmocka_unit_test(wishes_are_checked),
                                       cmocka_unit_test(cancelling_stops_at_the_step),
                                       cmocka_unit_test(latents_decode_again),
                                       cmocka_unit_test(poison_is_named),
                                       cmocka_unit_test(sparse_renders_are_near_dense),
                                       cmocka_unit_test(sparse_memory_is_as_planned),
                                       cmocka_unit_test(attention_is_captured),
                                       cmocka_unit_test(experts_take_turns),
                                       cmocka_unit_test(attention_is_checked),
                                       cmocka_unit_test(thresholds_are_found),
                                       cmocka_unit_test(other_pipelines_are_refused)};
    return cmocka_run_group_tests(tests, make_copy, remove_copy);
}
