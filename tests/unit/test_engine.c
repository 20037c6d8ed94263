/* test_engine.c - rendering as a caller sees it: memory, progress, refusals, poisoned weights. Golden tests hold the
 * numbers; here the model is a mini checkpoint of theirs. */
#include "engine_fixture.h"
#include "lora_file.h"
#include "report.h"

#include <jansson.h>
#include <limits.h>

typedef struct seen {
    film film;
    int  stage, steps, cancel_at;
} seen;

static int take_progress(void *context, sg_stage stage, int done, int total)
{
    seen *const s = context;
    assert_true(done >= 0 && done <= total);
    assert_true(stage == SG_STAGE_LOAD || (int)stage >= s->stage);
    if (stage != SG_STAGE_LOAD) s->stage = (int)stage;
    if (stage == SG_STAGE_DENOISE) s->steps = done;
    return s->cancel_at && s->steps == s->cancel_at;
}

static sg_status render(sg_engine *g, const sg_request *r, seen *s, sg_report *rep, sg_error *e)
{
    s->film.bytes = (size_t)r->width * (size_t)r->height * 3;
    return sg_engine_render(
        g, r,
        &(sg_callbacks){.size = sizeof(sg_callbacks), .context = s, .frame = film_frame, .progress = take_progress},
        rep, e);
}

static void renders_frames_in_order(void **state)
{
    static seen a, b;
    sg_engine  *g = open_model(model, 0);
    sg_request  r = small(g);
    sg_report   rep = {.size = sizeof rep};
    sg_error    e = {0};
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    assert_int_equal(render(g, &r, &a, &rep, &e), SG_OK);
    assert_int_equal(a.film.frames, 5);
    assert_int_equal(rep.steps_done, 2);
    assert_true(rep.prompt_tokens > 1 && rep.negative_tokens == 1);
    assert_int_equal(render(g, &r, &b, &rep, &e), SG_OK); /* the same engine again */
    assert_memory_equal(&a.film, &b.film, sizeof a.film);
    r.seed++;
    memset(&b, 0, sizeof b);
    assert_int_equal(render(g, &r, &b, &rep, &e), SG_OK);
    assert_memory_not_equal(&a.film, &b.film, sizeof a.film);
    sg_engine_close(&g);
}

typedef struct watch {
    int    steps, texts;
    size_t count;
    float  last[4096];
} watch;

/* A device on whose transfers nobody has waited yet: what is downloaded into staged memory comes when it is settled. */
static struct staging {
    uint8_t  *piece[2]; /* what the caller sees, then what has been sent */
    size_t    bytes;
    int       given, ahead, most_ahead; /* pieces given; given and not settled */
    bool      there;
    sg_memory memory;
    sg_status (*copy)(sg_stream *, void *, const void *, size_t);
} staging;

static bool stages(sg_stream *s, size_t bytes, size_t all)
{
    assert_int_equal(all, 4 * bytes); /* latent frames */
    staging.bytes = bytes;
    return staging.there;
}

static void *stage(sg_stream *s)
{
    uint8_t **const p = &staging.piece[staging.given++ % 2];
    free(*p);
    *p = malloc(2 * staging.bytes);
    assert_non_null(*p);
    memset(*p, 0xff, staging.bytes);
    if (++staging.ahead > staging.most_ahead) staging.most_ahead = staging.ahead;
    return *p;
}

static sg_status download(sg_stream *s, void *host, const void *device, size_t bytes)
{
    size_t later = 0;
    for (int i = 0; i < 2; i++)
        if (staging.piece[i] && (uint8_t *)host >= staging.piece[i] &&
            (uint8_t *)host < staging.piece[i] + staging.bytes)
            later = staging.bytes;
    return staging.copy(s, (uint8_t *)host + later, device, bytes);
}

static sg_status wait_stage(sg_stream *s, const void *staged)
{
    if (!staging.there) return SG_OK;
    uint8_t *const p = staging.piece[staged != staging.piece[0]];
    memcpy(p, p + staging.bytes, staging.bytes);
    staging.ahead--;
    return SG_OK;
}

/* A device with staging decodes the next frames before the host takes those before; the frames are the same. */
static void devices_decode_ahead(void **state)
{
    static seen a, b;
    sg_engine  *g = open_model(model, 0);
    sg_request  r = small(g);
    sg_report   rep = {.size = sizeof rep};
    sg_error    e = {0};
    r.frames = 13;
    assert_int_equal(render(g, &r, &a, &rep, &e), SG_OK);
    staging.memory = *g->backend->memory;
    staging.copy = staging.memory.download;
    staging.memory.download = download;
    staging.memory.stages = stages;
    staging.memory.stage = stage;
    staging.memory.wait_stage = wait_stage;
    g->backend->memory = &staging.memory;
    for (int there = 0; there < 2; there++) {
        staging.there = there;
        memset(&b, 0, sizeof b);
        assert_int_equal(render(g, &r, &b, &rep, &e), SG_OK);
        assert_string_equal(rep.served, ""); /* the CPU's kernels are all there always */
        assert_memory_equal(&a.film, &b.film, sizeof a.film);
        assert_int_equal(staging.given, there ? 4 : 0);
        assert_int_equal(staging.most_ahead, there ? 2 : 0);
        assert_int_equal(staging.ahead, 0);
    }
    for (int i = 0; i < 2; i++) free(staging.piece[i]);
    sg_engine_close(&g);
}

static sg_status take_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
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
    static watch       w;
    static const char  path[] = "latents.safetensors";
    sg_engine         *g = open_model(model, 0);
    sg_request         r = small(g);
    const sg_callbacks cb = {.size = sizeof(sg_callbacks), .context = &w, .latents = take_latents};
    sg_source         *file = NULL;
    sg_tensor          t;
    sg_report          rep = {.size = sizeof rep};
    sg_error           e = {0};
    w = (watch){0};
    r.latents_out = path;
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_OK);
    assert_int_equal(w.steps, 2);
    assert_int_equal(sg_source_open(&file, path, &e), SG_OK);
    t = sg_source_find(file, "latents");
    assert_int_equal(sg_count(t), w.count);
    assert_memory_equal(t.data, w.last, w.count * sizeof *w.last);
    sg_source_close(&file);

    w = (watch){0};
    r.latents_out = NULL;
    r.steps = 9;
    assert_refused(sg_engine_render(g, &r, &cb, &rep, &e), SG_E_FILE, &e, "enough");
    assert_int_equal(rep.steps_done, 8);
    sg_engine_close(&g);
}

static void count_encoded(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    *(int *)context += strcmp(name, "text.final") == 0;
}

/* The text encoder runs once for the same texts, whatever else changes, and anew for others: for the one that changed. */
static void texts_are_encoded_once(void **state)
{
    static seen        a, b;
    static watch       w;
    sg_engine         *g = open_model(model, 0);
    sg_request         r = small(g);
    const sg_callbacks cb = {.size = sizeof(sg_callbacks), .context = &w, .progress = count_texts};
    sg_plan            plan = {.size = sizeof plan};
    sg_report          rep = {.size = sizeof rep};
    sg_error           e = {0};
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    w = (watch){0};
    int encoded = 0;
    g->tap = count_encoded;
    g->tap_context = &encoded;
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_OK);
    assert_int_equal(w.texts, 1);
    assert_int_equal(encoded, 2);
    r.seed++;
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_OK);
    assert_int_equal(w.texts, 1);
    assert_int_equal(render(g, &r, &a, &rep, &e), SG_OK);
    const char *const others[][2] = {{"a dog", ""}, {"a cat", "blue"}, {"a cat", ""}};
    const int         so_far[] = {3, 5, 6};
    for (int i = 0; i < 3; i++) {
        r.prompt = others[i][0];
        r.negative_prompt = others[i][1];
        assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_OK);
        assert_int_equal(w.texts, 2 + i);
        assert_int_equal(encoded, so_far[i]);
    }
    r.cfg_scale = 1;
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_OK);
    assert_int_equal(w.texts, 4);
    r.cfg_scale = 3;
    assert_int_equal(render(g, &r, &b, &rep, &e), SG_OK);
    assert_memory_equal(&a.film, &b.film, sizeof a.film);
    sg_engine_close(&g);
}

static void memory_is_as_planned(void **state)
{
    static seen s;
    sg_engine  *g = open_model(model, 0);
    sg_request  r = small(g);
    sg_plan     plan = {.size = sizeof plan};
    sg_report   rep = {.size = sizeof rep};
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
    assert_refused(render(g, &r, &s, &rep, &e), SG_E_MEMORY, &e, "needs");
    assert_int_equal(s.film.frames, 0);
    sg_engine_close(&g);
}

static void wishes_are_checked(void **state)
{
    sg_engine *g = open_model(model, 0);
    const struct {
        int         width, height, frames, steps;
        double      cfg, shift;
        const char *says;
    } bad[] = {{33, 48, 5, 2, 1, 3, "nearest is 32x48"}, {32, 0, 5, 2, 1, 3, "not between"},
               {8, 48, 5, 2, 1, 3, "nearest is 16x48"},  {32, 48, 7, 2, 1, 3, "nearest is 9"},
               {32, 48, 6, 2, 1, 3, "nearest is 5"},     {32, 48, 0, 2, 1, 3, "frames"},
               {32, 48, 5, 0, 1, 3, "steps: 0"},         {32, 48, 5, 2, NAN, 3, "cfg_scale"},
               {32, 48, 5, 2, -1, 3, "cfg_scale"},       {32, 48, 5, 2, 1, 0, "flow_shift"},
               {1 << 16, 48, 5, 2, 1, 3, "positions"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sg_request r = small(g);
        r.width = bad[i].width;
        r.height = bad[i].height;
        r.frames = bad[i].frames;
        r.steps = bad[i].steps;
        r.cfg_scale = bad[i].cfg;
        r.flow_shift = bad[i].shift;
        request_refused(g, &r, bad[i].says);
    }
    sg_engine_close(&g);
}

static void options_that_cannot_be_are_refused(void **state)
{
    static const struct {
        sg_engine_options o;
        const char       *names;
    } cases[] = {
        {{.offload = 9}, "offload|9"},
        {{.offload = -1}, "offload|-1"},
        {{.loras = SG_LORAS_MAX + 1}, "loras|17"},
        {{.loras = -1}, "loras|-1"},
        {{.loras = 1}, "lora|no file"},
        {{.loras = 1, .lora = {{.path = "l.safetensors", .strength = NAN}}}, "l.safetensors|strength|nan"},
        {{.threads = INT_MAX}, "threads|4096"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_engine_options o = cases[i].o;
        o.size = sizeof o;
        o.model_dir = model;
        o.backend = "ref";
        engine_refused(&o, SG_E_ARG, cases[i].names);
    }
}

/* Where a choice is not checked, another is taken in silence, or memory read that is none of it. */
static void choices_have_numbers(void **state)
{
    static const int values[] = {-1, 99, INT_MAX, INT_MIN};
    sg_engine       *g = open_model(model, 0);
    size_t           at = 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        sg_request r = small(g);
        int *const choice[] = {&r.sampler, &r.cache, &r.vae_tiling, &r.attention.budget, &r.attention.rule};
        static const char *const names[] = {"sampler", "cache", "vae_tiling", "budget", "rule"};
        for (size_t k = 0; k < sizeof choice / sizeof *choice; k++) {
            const int usual = *choice[k];
            *choice[k] = values[i];
            request_refused(g, &r, names[k]);
            *choice[k] = usual;
        }
        const sg_request before = r;
        sg_step_preset_apply(&r, values[i]);
        assert_memory_equal(&r, &before, sizeof r);
        assert_null(sg_engine_lora_unused(g, values[i], &at));
    }
    sg_request r = small(g);
    r.attention.rule = SG_SELECT_GIVEN;
    request_refused(g, &r, "mask|no file");
    r = small(g);
    r.negative_prompt = "a\xff";
    request_refused(g, &r, "negative_prompt|UTF-8|byte 1");
    r = small(g);
    r.image[SG_IMAGE_FIRST].whole = (const uint8_t *)"";
    r.image[SG_IMAGE_FIRST].whole_width = -1;
    request_refused(g, &r, "image|-1x0");
    sg_engine_close(&g);
}

/* As much as a caller says that it takes is not there, and no sum goes round. */
static void any_number_of_bytes_is_taken(void **state)
{
    sg_error   e = {0};
    sg_plan    plan = {.size = sizeof plan};
    sg_engine *g = open_engine(&(sg_engine_options){
        .size = sizeof(sg_engine_options), .model_dir = model, .backend = "ref", .given_bytes = SIZE_MAX});
    sg_request r = small(g);
    assert_done(sg_engine_plan(g, &r, &plan, &e), &e);
    assert_true(plan.peak < SIZE_MAX / 2);
    r.preview_every = 1;
    r.preview_bytes = r.output_bytes = SIZE_MAX;
    assert_done(sg_engine_plan(g, &r, &plan, &e), &e);
    assert_refused(sg_plan_fits(&plan, &e), SG_E_MEMORY, &e, "GiB");
    sg_engine_close(&g);
}

/* Where no GPU opens; there is a plan for one, and no crash behind it. */
static void an_engine_that_only_plans_renders_nothing(void **state)
{
    sg_error                e = {0};
    sg_engine              *g = NULL;
    sg_plan                 plan = {.size = sizeof plan};
    const sg_engine_options o = {
        .size = sizeof o, .model_dir = model, .backend = "cuda", .memory_limit = (size_t)1 << 40, .plan_only = true};
    assert_int_equal(sg_engine_open(&g, &o, NULL), SG_OK);
    const sg_request r = small(g);
    const bool       only = !g->backend->memory->alloc;
    assert_done(sg_engine_plan(g, &r, &plan, &e), &e);
    if (only) assert_refused(sg_engine_render(g, &r, NULL, NULL, &e), SG_E_UNSUPPORTED, &e, "plan_only|only plans");
    sg_engine_close(&g);
    if (!only) skip();
}

/* A place where nothing can be written is refused before the work whose result it was to take. */
static void files_are_asked_for_first(void **state)
{
    sg_engine *g = open_model(model, 0);
    sg_request r = small(g);
    sg_report  report = {.size = sizeof report};
    sg_error   e = {0};
    r.latents_out = "no/such/folder/l.safetensors";
    assert_refused(sg_engine_render(g, &r, NULL, &report, &e), SG_E_FILE, &e, "latents_out|no/such/folder");
    assert_int_equal(report.steps_done, 0);
    r.latents_out = NULL;
    r.capture_out = "no/such/folder/c.safetensors";
    e = (sg_error){0};
    assert_refused(sg_engine_render(g, &r, NULL, &report, &e), SG_E_FILE, &e, "capture_out|no/such/folder");
    assert_int_equal(report.steps_done, 0);
    sg_engine_close(&g);
}

static int call_again(void *context, int stage, int done, int total)
{
    sg_engine **const g = context;
    const sg_request  r = small(*g);
    sg_plan           plan = {.size = sizeof plan};
    sg_error          e = {0};
    assert_refused(sg_engine_render(*g, &r, NULL, NULL, &e), SG_E_ARG, &e, "engine|at work");
    e = (sg_error){0};
    assert_refused(sg_engine_plan(*g, &r, &plan, &e), SG_E_ARG, &e, "engine|at work");
    sg_engine_close(g);
    assert_non_null(*g);
    return 0;
}

static void a_call_within_a_call_is_refused(void **state)
{
    sg_error         e = {0};
    sg_engine       *g = open_model(model, 0);
    const sg_request r = small(g);
    for (int i = 0; i < 2; i++)
        assert_done(
            sg_engine_render(
                g, &r, &(sg_callbacks){.size = sizeof(sg_callbacks), .context = &g, .progress = call_again}, NULL, &e),
            &e);
    sg_engine_close(&g);
}

static void nearest_sizes_are_rendered(void **state)
{
    sg_engine *g = open_model(model, 0);
    const struct {
        int size, frames, near_size, near_frames;
    } cases[] = {{1, 1, 16, 1},
                 {23, 2, 16, 1},
                 {24, 3, 32, 5},
                 {40, 10, 48, 9},
                 {INT_MAX, INT_MAX, INT_MAX / 16 * 16, (INT_MAX - 1) / 4 * 4 + 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int width = cases[i].size, height = cases[i].size, frames = cases[i].frames;
        sg_engine_nearest_size(g, &width, &height, &frames);
        assert_int_equal(width, cases[i].near_size);
        assert_int_equal(height, cases[i].near_size);
        assert_int_equal(frames, cases[i].near_frames);
    }
    sg_engine_nearest_size(g, NULL, NULL, NULL);
    sg_engine_close(&g);
}

typedef struct lines {
    int  count[2];
    char last[2][512];
} lines;

static void take_line(void *context, int level, const char *text)
{
    lines *const l = context;
    assert_true(level == SG_LOG_INFO || level == SG_LOG_WARNING);
    assert_null(strchr(text, '\n'));
    l->count[level]++;
    snprintf(l->last[level], sizeof l->last[level], "%s", text);
}

/* The log tells what is open and what is loaded, which is not done twice, and what of a prompt is not read. */
static void the_log_tells_what_is_done(void **state)
{
    static seen             s;
    static char             long_prompt[1 << 14];
    lines                   l = {.count = {0}};
    const sg_engine_options o = {
        .size = sizeof o, .model_dir = model, .backend = "ref", .log = take_line, .log_context = &l};
    sg_engine *g = open_engine(&o);
    sg_request r = small(g);
    sg_report  rep = {.size = sizeof rep};
    sg_error   e = {0};
    assert_int_equal(l.count[SG_LOG_INFO], 1);
    assert_non_null(strstr(l.last[SG_LOG_INFO], sg_engine_info(g)->device));
    assert_int_equal(render(g, &r, &s, &rep, &e), SG_OK);
    assert_int_equal(l.count[SG_LOG_INFO], 1 + 3); /* text encoder, denoiser, VAE */
    assert_int_equal(l.count[SG_LOG_WARNING], 0);
    memset(&s, 0, sizeof s);
    for (size_t i = 0; i + 1 < sizeof long_prompt; i++) long_prompt[i] = i % 4 == 3 ? ' ' : 'a';
    r.prompt = long_prompt;
    assert_int_equal(render(g, &r, &s, &rep, &e), SG_OK);
    assert_int_equal(l.count[SG_LOG_WARNING], 1);
    assert_non_null(strstr(l.last[SG_LOG_WARNING], "prompt: "));
    sg_engine_close(&g);
}

static void the_version_is_the_projects(void **state) { assert_string_equal(sg_version(), SG_PROJECT_VERSION); }

static void names_are_in_the_order_of_values(void **state)
{
    static const struct {
        const char *what, *name[9]; /* by value; NULL-ended */
    } want[] = {
        {"sampler",
         {[SG_SAMPLER_UNIPC] = "unipc",
          [SG_SAMPLER_EULER] = "euler",
          [SG_SAMPLER_LCM] = "lcm",
          [SG_SAMPLER_DDIM] = "ddim",
          [SG_SAMPLER_DPM] = "dpm",
          [SG_SAMPLER_EULER_A] = "euler_a"}},
        {"step_preset", {"lightx2v", "fastwan", "rcm"}},
        {"cache",
         {[SG_CACHE_OFF] = "off",
          [SG_CACHE_FINE] = "fine",
          [SG_CACHE_USUAL] = "usual",
          [SG_CACHE_FAST] = "fast",
          [SG_CACHE_SHADOW] = "shadow"}},
        {"vae_tiling", {[SG_TILING_AUTO] = "auto", [SG_TILING_OFF] = "off", [SG_TILING_ON] = "on"}},
        {"stage",
         {[SG_STAGE_LOAD] = "load",
          [SG_STAGE_TEXT] = "text",
          [SG_STAGE_ENCODE] = "encode",
          [SG_STAGE_DENOISE] = "denoise",
          [SG_STAGE_DECODE] = "decode"}},
        {"offload", {[SG_OFFLOAD_AUTO] = "auto", [SG_OFFLOAD_OFF] = "off", [SG_OFFLOAD_ON] = "on"}},
        {"attention", {[SG_ATTENTION_DENSE] = "dense", [SG_ATTENTION_SAGE] = "sage", [SG_ATTENTION_SPARGE] = "sparge"}},
        {"score", {[SG_SCORE_MEAN] = "mean", [SG_SCORE_SUB16] = "sub16", [SG_SCORE_ERROR] = "error"}},
        {"tail_bias", {[SG_TAIL_BIAS_NONE] = "0", [SG_TAIL_BIAS_HALF] = "half", [SG_TAIL_BIAS_RANK1] = "rank1"}},
        {"budget", {[SG_BUDGET_ROW] = "row", [SG_BUDGET_HEADS] = "heads"}},
        {"pv_dtype", {[SG_PV_AUTO] = "auto", [SG_PV_BF16] = "bf16", [SG_PV_FP8] = "fp8", [SG_PV_INT8] = "int8"}},
        {"order",
         {[SG_ORDER_ROW] = "row",
          [SG_ORDER_COLUMN] = "column",
          [SG_ORDER_TIME] = "time",
          [SG_ORDER_HILBERT] = "hilbert",
          [SG_ORDER_HILBERT_CUBE] = "hilbert-cube",
          [SG_ORDER_HILBERT_FRAME] = "hilbert-frame",
          [SG_ORDER_MORTON] = "morton",
          [SG_ORDER_RANDOM] = "random",
          [SG_ORDERS] = NULL}},
        {"gpu_mask", {"sm80", "sm89", "sm90"}}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const char *const *got = sg_names(want[i].what);
        assert_non_null(got);
        for (const char *const *name = want[i].name; *name; name++, got++) assert_string_equal(*got, *name);
        assert_null(*got);
    }
    int levels = 0;
    for (const char *const *name = sg_names("cpu_mask"); *name; name++, levels++)
        assert_int_not_equal(sg_cpu_mask_of(*name), 0);
    assert_true(levels > 1);
    for (const char *const *name = sg_names("gpu_mask"); *name; name++) assert_int_not_equal(sg_gpu_mask_of(*name), 0);
    assert_null(sg_names("samplers"));
    assert_null(sg_names(""));
}

static void cancelling_stops_at_the_step(void **state)
{
    static seen s = {.cancel_at = 1};
    sg_engine  *g = open_model(model, 0);
    sg_request  r = small(g);
    sg_report   rep = {.size = sizeof rep};
    sg_error    e = {0};
    r.steps = 5;
    assert_int_equal(render(g, &r, &s, &rep, &e), SG_E_CANCELLED);
    assert_int_equal(rep.steps_done, 1);
    assert_int_equal(s.film.frames, 0);
    sg_engine_close(&g);
}

static void latents_decode_again(void **state)
{
    static seen       a, b;
    static const char path[] = "latents.safetensors";
    sg_engine        *g = open_model(model, 0);
    sg_request        r = small(g), again = small(g);
    sg_report         rep = {.size = sizeof rep};
    sg_error          e = {0};
    char             *note = NULL;
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
    assert_memory_equal(&a.film, &b.film, sizeof a.film);
    assert_int_equal(rep.steps_done, 0);

    again.frames = 9;
    assert_int_equal(render(g, &again, &b, &rep, &e), SG_E_ARG);
    sg_engine_close(&g);
}

enum { LARGE = 3968 }; /* pixels a latent, no power of two: patches of 31 and eight levels */

/* Latents of a VAE that makes more pixels of one than any usual side has. */
static void large_latents_have_a_size(void **state)
{
    static seen       a;
    static const char path[] = "latents.safetensors";
    sg_engine        *g = open_model(model, 0);
    sg_request        r = small(g), fitted = r;
    sg_report         rep = {.size = sizeof rep};
    sg_error          e = {0};
    char             *note = NULL;
    sg_components     large = *g->components;
    memset(&a, 0, sizeof a);
    r.latents_out = path;
    assert_int_equal(render(g, &r, &a, &rep, &e), SG_OK);
    large.vae.info.scale_space = LARGE;
    g->components = &large;
    assert_int_equal(sg_engine_fit_latents(g, path, &fitted, &note, &e), SG_OK);
    assert_int_equal(fitted.width, r.width / 8 * LARGE);
    assert_int_equal(fitted.height, r.height / 8 * LARGE);
    assert_int_equal(fitted.frames, r.frames);
    sg_engine_close(&g);
}

/* Of two encoders each runs once for each text, with the weights of no other loaded. */
static void encoders_follow_one_another(void **state)
{
    static seen   one, two;
    sg_engine    *g = open_model(model, 0);
    sg_request    r = small(g);
    sg_plan       alone = {.size = sizeof alone}, both = {.size = sizeof both};
    sg_report     rep = {.size = sizeof rep};
    sg_error      e = {0};
    json_t       *json = NULL;
    sg_components components = *g->components;
    int           encoded = 0;
    memset(&one, 0, sizeof one);
    memset(&two, 0, sizeof two);
    assert_int_equal(sg_engine_plan(g, &r, &alone, &e), SG_OK);
    assert_int_equal(render(g, &r, &one, &rep, &e), SG_OK);
    g->tap = count_encoded;
    g->tap_context = &encoded;
    components.text[1] = components.text[0];
    components.texts = 2;
    g->components = &components;
    assert_int_equal(sg_engine_plan(g, &r, &both, &e), SG_OK);
    assert_int_equal(alone.phases, 3);
    assert_int_equal(both.phases, 4);
    assert_true(both.need == alone.need);
    for (int i = 0; i < 4; i++) {
        const sg_phase_plan *const now = &both.phase[i], *const was = &alone.phase[i > 1 ? i - 1 : 0];
        assert_string_equal(now->name, was->name);
        assert_int_equal(now->number, i == 1 ? 2 : 1);
        assert_true(now->weights == was->weights && now->work == was->work && now->flops == was->flops);
    }
    json = sg_report_plan(&both);
    assert_non_null(json_object_get(json, "text"));
    assert_non_null(json_object_get(json, "text_2"));
    assert_non_null(json_object_get(json, "decode"));
    json_decref(json);
    g->memory_limit = both.need;
    assert_int_equal(render(g, &r, &two, &rep, &e), SG_OK);
    assert_int_equal(encoded, 2); /* the first had its states */
    assert_memory_equal(&one.film, &two.film, sizeof one.film);
    r.prompt = "a dog";
    memset(&two, 0, sizeof two);
    assert_int_equal(render(g, &r, &two, &rep, &e), SG_OK);
    assert_int_equal(encoded, 4);
    sg_engine_close(&g);
}

/* The number of passes follows from how a family is guided, and a single pass is not guided afterwards. */
static void guidance_is_data_of_the_family(void **state)
{
    static seen   once, twice, b;
    sg_engine    *g = open_model(model, 0);
    sg_request    r = small(g);
    sg_report     rep = {.size = sizeof rep};
    sg_error      e = {0};
    sg_components components = *g->components;
    assert_int_equal(render(g, &r, &twice, &rep, &e), SG_OK);
    assert_true(rep.negative_tokens > 0);
    r.cfg_scale = 1;
    assert_int_equal(render(g, &r, &once, &rep, &e), SG_OK);
    assert_memory_not_equal(&once.film, &twice.film, sizeof once.film);
    r.cfg_scale = 3;
    g->components = &components;
    for (int kind = SG_GUIDANCE_NONE; kind <= SG_GUIDANCE_EMBEDDED; kind++) {
        components.guidance = (sg_guidance)kind;
        r.guidance = kind == SG_GUIDANCE_EMBEDDED ? 6 : 0;
        memset(&b, 0, sizeof b);
        assert_int_equal(render(g, &r, &b, &rep, &e), SG_OK);
        assert_int_equal(rep.negative_tokens > 0, kind != SG_GUIDANCE_NONE);
        assert_memory_equal(&b.film, kind ? &twice.film : &once.film, sizeof b.film);
        r.guidance = kind == SG_GUIDANCE_EMBEDDED ? 0 : 6;
        assert_int_equal(render(g, &r, &b, &rep, &e), SG_E_ARG);
    }
    sg_engine_close(&g);
}

/* ---- poisoned weights ---- */

/* Writes one F32 value of a tensor of the copy; returns what stood there. */
static float poke(const char *file, const char *tensor, int index, float value)
{
    char     path[256];
    uint64_t length;
    float    before;
    snprintf(path, sizeof path, COPY "/%s", file);
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
    sg_engine  *g = open_model(COPY, 0);
    sg_request  r = small(g);
    sg_report   rep = {.size = sizeof rep};
    sg_error    e = {0};
    memset(&s, 0, sizeof s);
    assert_refused(render(g, &r, &s, &rep, &e), SG_E_NUMERIC, &e, says);
    assert_int_equal(s.film.frames, 0);
    sg_engine_close(&g);
    poke(file, tensor, 0, before);
}

static void poison_is_named(void **state)
{
    const char dit[] = "transformer/diffusion_pytorch_model.safetensors",
               vae[] = "vae/diffusion_pytorch_model.safetensors";
    expect_numeric(dit, "blocks.1.ffn.net.0.proj.weight", NAN, "blocks.1.ffn.net.0.proj.weight");
    for (int i = 0; i < 2; i++) { /* finite weights whose product is not: the bias times the gate, row 5 of the table */
        char bias[64], table[64], says[64];
        snprintf(bias, sizeof bias, "blocks.%d.ffn.net.2.bias", i);
        snprintf(table, sizeof table, "blocks.%d.scale_shift_table", i);
        snprintf(says, sizeof says, "block %d|transformer|step 1", i);
        const float gate = poke(dit, table, 5 * 24, 100.0f);
        expect_numeric(dit, bias, 3e38f, says);
        poke(dit, table, 5 * 24, gate);
    }
    expect_numeric(vae, "decoder.conv_in.weight", INFINITY, "decoder.conv_in.weight");
}

static void other_pipelines_are_refused(void **state)
{
    write_text(COPY "/model_index.json", "{\"_class_name\": \"StableDiffusionPipeline\"}");
    for (int i = 0; sg_families[i]; i++)
        for (const char *const *one = sg_families[i]->class_names; *one; one++)
            engine_refused(&(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = COPY}, SG_E_UNSUPPORTED,
                           *one);
}

/* ---- a LoRA: bit for bit a checkpoint whose weights were merged before ---- */

enum { FRAME = 32 * 48 * 3 };

static const char lora[] = "l.safetensors", dir[] = "model";
static const char experts[] = SG_FIXTURES "/wan22_a14b";

#define WEIGHTS "diffusion_pytorch_model.safetensors"

/* With a picture to begin with, or without. */
static sg_status render_on(sg_engine *g, film *f, bool picture, sg_error *e)
{
    static uint8_t grey[FRAME];
    sg_report      report = {.size = sizeof report};
    sg_request     r = small(g);
    r.steps = 4;
    memset(grey, 100, sizeof grey);
    if (picture) r.image[SG_IMAGE_FIRST].rgb = grey;
    return render_film(g, &r, f, &report, e);
}

static void film_of(film *f, const sg_engine_options *o)
{
    sg_engine *g = open_engine(o);
    sg_error   e = {0};
    if (render_on(g, f, false, &e)) fail_msg("%s", e.text);
    sg_engine_close(&g);
}

/* Of an expert alone, of both, of both with different strengths. */
static void a_render_is_that_of_merged_weights(void **state)
{
    static const struct {
        unsigned denoisers;
        double   strength[2];
    } of[] = {{1, {0.5, 0}}, {~1u, {0, -1}}, {0, {1, 1}}};
    static const char *const parts[] = {"transformer", "transformer_2"};
    static film              plain, with, merged;
    char                     from[256], to[256];
    sg_error                 e = {0};
    snprintf(from, sizeof from, "%s/transformer/" WEIGHTS, experts);
    lora_save_for(from, lora, NULL);
    sg_engine_options o = {.size = sizeof(sg_engine_options), .model_dir = experts, .backend = "ref", .dtype = "f32"};
    film_of(&plain, &o);
    for (int i = 0; i < 3; i++) {
        shell("rm -rf %s && cp -r '%s' %s", dir, experts, dir);
        for (int k = 0; k < 2; k++) {
            snprintf(from, sizeof from, "%s/%s/" WEIGHTS, experts, parts[k]);
            snprintf(to, sizeof to, "%s/%s/" WEIGHTS, dir, parts[k]);
            unlink(to); /* a link, perhaps */
            if (lora_merge(from, lora, of[i].strength[k], to, &e)) fail_msg("%s", e.text);
        }
        film_of(&merged, &(sg_engine_options){
                             .size = sizeof(sg_engine_options), .model_dir = dir, .backend = "ref", .dtype = "f32"});
        o.lora[0] = (sg_lora_option){.path = lora,
                                     .strength = of[i].strength[0] != 0 ? of[i].strength[0] : of[i].strength[1],
                                     .denoisers = of[i].denoisers};
        o.loras = 1;
        film_of(&with, &o);
        assert_memory_equal(&with, &merged, sizeof with);
        assert_memory_not_equal(&with, &plain, sizeof with);
    }
}

/* Two halves of a LoRA are, but for rounding, a whole one; the plan knows that patched weights do not serve in place.
 * */
static void several_add_up_and_are_planned(void **state)
{
    char     from[256];
    sg_plan  p[2] = {{.size = sizeof *p}, {.size = sizeof *p}};
    sg_error e = {0};
    snprintf(from, sizeof from, "%s/transformer/" WEIGHTS, model);
    lora_save_for(from, lora, NULL);
    sg_engine_options o = {.size = sizeof(sg_engine_options), .model_dir = model, .backend = "ref", .dtype = "f32"};
    for (int i = 0; i < 2; i++) {
        sg_engine       *g = open_engine(&o);
        const sg_request r = small(g);
        assert_int_equal(sg_engine_plan(g, &r, &p[i], &e), SG_OK);
        const sg_model_info info = *sg_engine_info(g);
        assert_int_equal(info.loras, 2 * i);
        for (int k = 0; k < info.loras; k++) {
            assert_string_equal(info.lora[k]->name, "l.safetensors");
            assert_int_equal(info.lora[k]->rank[1], 2);
            assert_int_equal(info.lora[k]->unused, 0);
            assert_true(info.lora[k]->tensors > 10 && info.lora[k]->hash);
        }
        sg_engine_close(&g);
        o.lora[0] = o.lora[1] = (sg_lora_option){.path = lora, .strength = 0.5};
        o.loras = 2;
    }
    assert_true(p[1].phase[1].weights > p[0].phase[1].weights);
    assert_true(p[1].phase[1].mapped < p[0].phase[1].mapped);
}

/* Components of other checkpoints, each whole in itself. */
static void components_that_do_not_fit_are_told(void **state)
{
    static const struct {
        const char *model, *part, *from, *what;
    } cases[] = {
        {"wan22_a14b", "transformer_2", "wan22_i2v/transformer_2",
         "transformer_2/config.json: in_channels is 36|transformer/config.json: in_channels is 16"},
        {"wan22_ti2v", "transformer", "wan22_hd128/transformer", "text_encoder is 16|text_dim is 24"},
        {"wan22_a14b", "vae", "wan22_hd128/vae", "vae/config.json: z_dim|out_channels is 16"},
    };
    char index[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shell("rm -rf %s && cp -rL " SG_FIXTURES "/%s %s && rm -r %s/%s && cp -rL " SG_FIXTURES "/%s %s/%s", dir,
              cases[i].model, dir, dir, cases[i].part, cases[i].from, dir, cases[i].part);
        engine_refused(&(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = dir, .backend = "ref"},
                       SG_E_FORMAT, cases[i].what);
    }
    shell("rm -rf %s && cp -rL " SG_FIXTURES "/wan22_i2v %s", dir, dir);
    snprintf(index, sizeof index, "%s/model_index.json", dir);
    write_changed(index, SG_FIXTURES "/wan22_i2v/model_index.json", "expand_timesteps", "true");
    engine_refused(&(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = dir, .backend = "ref"},
                   SG_E_FORMAT, "in_channels is 36|out_channels|expand_timesteps");
}

static void an_expert_that_is_not_there_is_told(void **state)
{
    const sg_engine_options o = {.size = sizeof(sg_engine_options),
                                 .model_dir = model,
                                 .backend = "ref",
                                 .lora = {{.path = lora, .strength = 1, .denoisers = 1}},
                                 .loras = 1};
    engine_refused(&o, SG_E_ARG, "two experts|one denoiser");
}

/* As of the 14B on a smaller model. */
static void the_model_of_a_lora_is_named(void **state)
{
    enum { D = 5120 };
    static float x[D];
    lora_file    f = {.size = 0};
    lora_put(&f, "blocks.0.self_attn.q.lora_A.weight", "F32", 2, (int64_t[]){1, D}, x, sizeof x);
    lora_put(&f, "blocks.0.self_attn.q.lora_B.weight", "F32", 2, (int64_t[]){D, 1}, x, sizeof x);
    lora_save(&f, lora, NULL);
    const sg_engine_options o = {.size = sizeof(sg_engine_options),
                                 .model_dir = model,
                                 .backend = "ref",
                                 .lora = {{.path = lora, .strength = 1}},
                                 .loras = 1};
    engine_refused(&o, SG_E_FORMAT, "[5120, 1]|[1, 5120]|[24, 24]|Wan 2.1 14B|Wan 2.2 A14B");
}

/* A copy of the model that takes a picture, with that in its sparge-gen.json. */
static void model_with(const char *own)
{
    shell("rm -rf model && cp -rL '%s' model && cp l.safetensors model &&"
          "sed -i 's/\"expand_timesteps\": false/\"expand_timesteps\": true/' model/model_index.json &&"
          "echo '%s' >model/sparge-gen.json",
          model, own);
}

/* "image_lora" is there for renders with a picture alone, however they follow one another. */
static void a_picture_brings_the_model_s_own(void **state)
{
    static film plain[2], want, got;
    char        from[256];
    sg_plan     p[2] = {{.size = sizeof *p}, {.size = sizeof *p}};
    sg_error    e = {0};
    snprintf(from, sizeof from, "%s/transformer/" WEIGHTS, model);
    lora_save_for(from, lora, NULL);
    sg_engine_options o = {.size = sizeof(sg_engine_options), .model_dir = dir, .backend = "ref", .dtype = "f32"};

    model_with("{}");
    sg_engine *g = open_engine(&o);
    for (int k = 0; k < 2; k++)
        if (render_on(g, &plain[k], k, &e)) fail_msg("%s", e.text);
    sg_request r = small(g);
    assert_int_equal(sg_engine_plan(g, &r, &p[0], &e), SG_OK);
    sg_engine_close(&g);
    o.lora[0] = (sg_lora_option){.path = lora, .strength = 1};
    o.loras = 1;
    g = open_engine(&o);
    if (render_on(g, &want, true, &e)) fail_msg("%s", e.text);
    sg_engine_close(&g);
    assert_memory_not_equal(&want, &plain[1], sizeof want);

    o.loras = 0;
    model_with("{\"image_lora\": \"l.safetensors\"}");
    g = open_engine(&o);
    for (int k = 0; k < 4; k++) {
        if (render_on(g, &got, k % 2, &e)) fail_msg("%s", e.text);
        assert_memory_equal(&got, k % 2 ? &want : &plain[0], sizeof got);
    }
    assert_int_equal(sg_engine_plan(g, &r, &p[1], &e), SG_OK);
    assert_int_equal(p[1].phase[1].mapped, p[0].phase[1].mapped);
    sg_engine_close(&g);
}

/* As its owner has them; test_vocabulary.c has how words are compared. */
static void a_model_tells_its_words(void **state)
{
    const sg_engine_options o = {.size = sizeof(sg_engine_options), .model_dir = dir, .backend = "ref"};
    char                    list[32];
    model_with("{\"world\": \"draws balls\", \"vocabulary\": [\"Red\", \"ball\"]}");
    sg_engine                 *g = open_engine(&o);
    const sg_model_info *const info = sg_engine_info(g);
    assert_string_equal(info->world, "draws balls");
    assert_string_equal(info->words[0], "red");
    assert_string_equal(info->words[1], "ball");
    assert_null(info->words[2]);
    assert_int_equal(sg_engine_unknown_words(g, "RED cat", list, sizeof list), 1);
    assert_string_equal(list, "'cat'");
    sg_engine_close(&g);
    model_with("{}");
    g = open_engine(&o);
    assert_true(!sg_engine_info(g)->world && !sg_engine_info(g)->words);
    assert_int_equal(sg_engine_unknown_words(g, "RED cat", list, sizeof list), 0);
    sg_engine_close(&g);
    model_with("{\"vocabulary\": [\"two words\"]}");
    engine_refused(&o, SG_E_FORMAT, "sparge-gen.json|vocabulary|one word");
}

static void a_missing_lora_for_pictures_is_told(void **state)
{
    static film             got;
    sg_error                e = {0};
    sg_engine              *g = NULL;
    const sg_engine_options o = {.size = sizeof(sg_engine_options), .model_dir = dir, .backend = "ref"};
    model_with("{\"image_lora\": \"none.safetensors\"}");
    g = open_engine(&o);
    for (int k = 0; k < 2; k++) {
        assert_refused(render_on(g, &got, true, &e), SG_E_FILE, &e, "model/none.safetensors: ");
        if (render_on(g, &got, false, &e)) fail_msg("%s", e.text);
    }
    sg_engine_close(&g);
    static const char *const no_file[] = {"../l.safetensors", "", ".", ".."};
    for (size_t i = 0; i < sizeof no_file / sizeof *no_file; i++) {
        char own[64], told[96];
        snprintf(own, sizeof own, "{\"image_lora\": \"%s\"}", no_file[i]);
        snprintf(told, sizeof told, "image_lora|\"%s\"", no_file[i]);
        model_with(own);
        engine_refused(&o, SG_E_FORMAT, told);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_frames_in_order),
        cmocka_unit_test(latents_are_shown),
        cmocka_unit_test(texts_are_encoded_once),
        cmocka_unit_test(memory_is_as_planned),
        cmocka_unit_test(nearest_sizes_are_rendered),
        cmocka_unit_test(wishes_are_checked),
        cmocka_unit_test(options_that_cannot_be_are_refused),
        cmocka_unit_test(choices_have_numbers),
        cmocka_unit_test(any_number_of_bytes_is_taken),
        cmocka_unit_test(files_are_asked_for_first),
        cmocka_unit_test(a_call_within_a_call_is_refused),
        cmocka_unit_test(an_engine_that_only_plans_renders_nothing),
        cmocka_unit_test(the_log_tells_what_is_done),
        cmocka_unit_test(the_version_is_the_projects),
        cmocka_unit_test(names_are_in_the_order_of_values),
        cmocka_unit_test(cancelling_stops_at_the_step),
        cmocka_unit_test(latents_decode_again),
        cmocka_unit_test(poison_is_named),
        cmocka_unit_test(other_pipelines_are_refused),
        cmocka_unit_test(devices_decode_ahead),
        cmocka_unit_test(large_latents_have_a_size),
        cmocka_unit_test(guidance_is_data_of_the_family),
        cmocka_unit_test(encoders_follow_one_another),
        cmocka_unit_test(a_render_is_that_of_merged_weights),
        cmocka_unit_test(several_add_up_and_are_planned),
        cmocka_unit_test(components_that_do_not_fit_are_told),
        cmocka_unit_test(an_expert_that_is_not_there_is_told),
        cmocka_unit_test(the_model_of_a_lora_is_named),
        cmocka_unit_test(a_picture_brings_the_model_s_own),
        cmocka_unit_test(a_model_tells_its_words),
        cmocka_unit_test(a_missing_lora_for_pictures_is_told),
    };
    return cmocka_run_group_tests(tests, make_copy, leave_folder);
}
