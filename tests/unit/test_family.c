/* test_family.c - that the contract of a family is neutral. A made-up one renders pictures and clips through the engine
 * and takes the memory that its plan says. It has no text encoder, a phase of its own, guidance that the model is given,
 * noise drawn by frames, a sampler that draws more of it in each step, and a decoder in chunks of two latent frames. Its
 * first layer may have text before and behind the video, of other lengths in each pass.
 *
 *   a = W mean(h, text) and h = h + a in each layer but the last, where v = a + g h;  x = x / 2 + v / 4 + noise / 10;
 *   rgb = clamp(U x). A row of text is S (1, .., 1), which the added phase computes. */
#include "block_lists.h"
#include "dit.h"
#include "engine_fixture.h"
#include "rng.h"
#include "safetensors_write.h"
#include "solver.h"

enum { C = 4, X = 6, Y = 4, HIGH = 36, STEPS = 3, FRAMES = 5, CELLS = C * FRAMES * HIGH * X, TEXT = 80 };

static const float mix[C * C] = {.5f, -.25f, 0, 1, .125f, 0, -1, .5f, 0, .75f, .5f, -.5f, 1, 0, .25f, 0};
static const float out[3 * C] = {.5f, 0, .25f, 0, 0, -.5f, 0, .25f, .25f, .25f, 0, -.5f};
static const float story[C * C] = {2, 0, 0, -1, 1, .5f, -1, 1, -2, 0, .25f, 0, 0, 0, .75f, 1};

/* ---- a sampler ---- */

static sg_status schedule(sg_sampler *p, sg_error *e)
{
    for (int i = 0; i < p->steps; i++) p->timestep[i] = p->sigma[i] = p->steps - i;
    return SG_OK;
}

static void step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    sg_copy(s, .y = st->last, .x = st->x);
    sg_combine(s, .y = st->x, .x = {st->last, v, st->noise}, .a = {.5f, .25f, .1f}, .count = 3);
}

static const sg_solver solver = {.noise = true, .schedule = schedule, .step = step};

/* ---- a decoder ---- */

typedef struct decoder {
    sg_component component;
    sg_tensor    out;                   /* [3, C] */
    int          chunks[FRAMES], count; /* latent frames; of the last less than 0 */
} decoder;

static sg_component *decoder_component(void *of) { return &((decoder *)of)->component; }

static int64_t chunk(const void *of, int64_t total, int64_t done) { return done ? 2 : (total - 1) % 2 + 1; }

static sg_status decode_open(void **run, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    ((decoder *)of)->count = 0;
    *run = of;
    return SG_OK;
}

static sg_tensor decode_next(void *run, sg_stream *s, sg_tensor z, bool last)
{
    decoder *const  m = run;
    const int64_t   n = sg_count(z) / C;
    const sg_tensor rgb = sg_new(s, SG_F32, z.dim[0], z.dim[1], z.dim[2], 3), y = sg_new(s, SG_F32, n, 3);
    m->chunks[m->count++] = (int)(last ? -z.dim[0] : z.dim[0]);
    sg_linear(s, .y = y, .x = sg_reshape(z, n, C), .w = m->out);
    sg_activate(s, .y = sg_reshape(rgb, n, 3), .x = y, .act = SG_ACT_CLAMP);
    return rgb;
}

static void decode_close(void **run) { *run = NULL; }

static const sg_vae_ops vae = {.component = decoder_component,
                               .chunk = chunk,
                               .special = 1,
                               .decode_open = decode_open,
                               .decode_next = decode_next,
                               .decode_close = decode_close};

/* ---- the made-up family begins here: what a family's own file has ---- */

typedef struct made_up {
    sg_components components;
    sg_dit        dit;
    sg_component  writer;
    decoder       decoder;
    sg_tensor     mix, story;
    sg_dit_run    run;
    float         heat, guidance;       /* queries are heat times the tokens, 0: all count the same; that it was told */
    int           before[2], behind[2]; /* tokens of text about the video in the first layer, by pass */
    float         rows[TEXT * C];       /* of text, on the host */
    sg_tensor     text;                 /* on the device, while there is a denoiser */
} made_up;

static sg_status check(const void *of, const sg_request *r, sg_error *e)
{
    return r->width == X ? SG_OK : sg_error_set(e, SG_E_ARG, "size: not %d wide", X);
}

static void attention(const void *of, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                      sg_attention_shape *shape)
{
    const made_up *const m = of;
    assert_true(pass < c->passes);
    sg_dit_shape(&m->dit, g, layer ? 0 : m->before[pass], layer ? 0 : m->behind[pass], shape);
}

/* The phase that the family adds. */
static void compute_story(void *of, sg_stream *s, const sg_request *r, const sg_geometry *g, sg_watch watch)
{
    made_up *const m = of;
    sg_watch_tell(watch, s, 1, 1);
    const float     one[C] = {1, 1, 1, 1};
    const sg_tensor x = sg_new(s, SG_F32, 1, C), y = sg_new(s, SG_F32, 1, C);
    sg_upload(s, x, one);
    sg_linear(s, .y = y, .x = x, .w = m->story);
    if (!s->memory->alloc) return; /* a plan has no data */
    for (int i = 0; i < TEXT; i++) sg_download(s, m->rows + i * C, y);
}

static void render_open(void *of, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    sg_dit_run_open(&((made_up *)of)->run, &((made_up *)of)->dit, s, g, self);
}

static void denoiser_open(void *of, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    made_up *const m = of;
    assert_int_equal(denoiser, 0);
    m->guidance = (float)c->guidance;
    m->text = sg_new_keep(s, SG_F32, TEXT, 1, C);
    sg_upload(s, m->text, m->rows);
}

/* The layer's tokens, in the middle of h and of o [TEXT + n + TEXT, 1, C], with their text about them: the result for the
 * video's becomes v [n, C]. */
static void attend(const made_up *m, sg_stream *s, const sg_pass *p, int i, sg_tensor h, sg_tensor o, sg_tensor v)
{
    const int64_t   n = v.dim[0], before = i ? 0 : m->before[p->index], behind = i ? 0 : m->behind[p->index];
    const int64_t   all = before + n + behind;
    const sg_tensor q = sg_new(s, SG_F32, all, 1, C), k = sg_rows(h, TEXT - before, all);
    if (before) sg_copy(s, .y = sg_rows(k, 0, before), .x = sg_rows(m->text, 0, before));
    if (behind) sg_copy(s, .y = sg_rows(k, before + n, behind), .x = sg_rows(m->text, 0, behind));
    sg_combine(s, .y = q, .x = {k}, .a = {m->heat}, .count = 1);
    sg_dit_attend(&m->dit, &m->run, s, p, i, sg_rows(o, TEXT - before, all), (const sg_tensor[]){q, k, k});
    sg_linear(s, .y = v, .x = sg_reshape(sg_rows(o, TEXT, n), n, C), .w = m->mix);
}

static void forward(void *of, sg_stream *s, const sg_pass *p)
{
    const made_up *const m = of;
    const int            last = m->components.denoiser[0].layers - 1;
    const int64_t        n = m->run.n;
    const sg_tensor      h = sg_new(s, SG_F32, TEXT + n + TEXT, 1, C), o = sg_new(s, SG_F32, TEXT + n + TEXT, 1, C);
    const sg_tensor      v = sg_new(s, SG_F32, n, C), y = sg_new(s, SG_F32, n, C);
    const sg_tensor      x = sg_reshape(sg_rows(h, TEXT, n), n, C);
    const bool           guided = m->components.guidance == SG_GUIDANCE_EMBEDDED;
    sg_dit_patch_embed(&m->dit, &m->run, s, p, x, false);
    for (int i = 0; i <= last; i++) {
        attend(m, s, p, i, h, o, v);
        sg_combine(s, .y = y, .x = {v, x}, .a = {1, i == last && guided ? m->guidance : 1}, .count = 2);
        if (i < last) sg_copy(s, .y = x, .x = y);
    }
    sg_dit_project_out(&m->dit, &m->run, s, p, y);
}

static sg_status open_part(sg_component *p, const sg_checkpoint *c, const char *name, sg_tensor *t, int64_t o,
                           sg_error *e)
{
    sg_config      *config = NULL;
    const sg_status st = sg_component_open(p, c, name, NULL, SG_F32, &config, e);
    sg_config_close(&config);
    if (st) return st;
    sg_bind_tensor(p->bind, t, SG_F32, name, o, C);
    return sg_bind_check(p->bind, e);
}

static sg_status open_all(void *of, const sg_checkpoint *c, sg_config *index, sg_dtype act, sg_error *e)
{
    made_up *const m = of;
    sg_dit *const  d = &m->dit;
    SG_TRY(sg_dit_open(d, c, "made_up", NULL, act, e));
    d->heads = 1;
    d->width = d->head_dim = d->channels = d->input = C;
    for (int k = 0; k < 3; k++) d->patch[k] = 1;
    sg_bind_tensor(d->component.bind, &d->patch_in.w, act, "in", C, C);
    sg_bind_tensor(d->component.bind, &m->mix, act, "mix", C, C);
    sg_bind_tensor(d->component.bind, &d->proj_out.w, act, "proj_out", C, C);
    SG_TRY(sg_dit_check(d, e, "one head"));
    SG_TRY(open_part(&m->decoder.component, c, "out", &m->decoder.out, 3, e));
    SG_TRY(open_part(&m->writer, c, "story", &m->story, C, e));
    m->components = (sg_components){.added = {{.name = "story", .component = &m->writer, .run = compute_story}},
                                    .addeds = 1,
                                    .sampler = {.solver = &solver, .kinds = 1, .flow_shift = 1, .train_steps = STEPS},
                                    .guidance = SG_GUIDANCE_EMBEDDED,
                                    .noise_by_frame = true,
                                    .frames = {.step = 1}};
    sg_components_add_dit(&m->components, d, NULL, 1);
    m->components.vae = (sg_vae){.ops = &vae, .of = &m->decoder, .info = {.z = C, .scale_time = 1, .scale_space = 1}};
    m->components.size_multiple = 1;
    return SG_OK;
}

static void close_all(void *of)
{
    made_up *const m = of;
    sg_dit_close(&m->dit);
    sg_component_close(&m->decoder.component);
    sg_component_close(&m->writer);
}

static const sg_family family = {.name = "made up",
                                 .size = sizeof(made_up),
                                 .open = open_all,
                                 .close = close_all,
                                 .check = check,
                                 .attention = attention,
                                 .render_open = render_open,
                                 .denoiser_open = denoiser_open,
                                 .forward = forward};

/* ---- the made-up family ends here ---- */

/* ---- an engine with it ---- */

/* A component of matrices [o, C]. */
static void write_component(const char *name, const char *const *weight, const float *const *values, int count,
                            int64_t o)
{
    char            path[128];
    float           copy[3][3 * C * C];
    sg_named_tensor t[3];
    sg_error        e = {0};
    for (int i = 0; i < count; i++)
        t[i] = (sg_named_tensor){
            weight[i], {.data = memcpy(copy[i], values[i], (size_t)(o * C) * sizeof **copy), .rank = 2, .dim = {o, C}}};
    snprintf(path, sizeof path, COPY "/%s/config.json", name);
    write_text(path, "{}");
    snprintf(path, sizeof path, COPY "/%s/diffusion_pytorch_model.safetensors", name);
    assert_done(sg_safetensors_write_all(path, t, count, NULL, &e), &e);
}

static sg_engine *open_family(made_up **opened, const char *backend)
{
    static const float one[C * C] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
    sg_error           e = {0};
    write_component("made_up", (const char *const[]){"in", "mix", "proj_out"}, (const float *const[]){one, mix, one}, 3,
                    C);
    write_component("out", (const char *const[]){"out"}, (const float *const[]){out}, 1, 3);
    write_component("story", (const char *const[]){"story"}, (const float *const[]){story}, 1, C);
    sg_engine *const g = open_engine(
        &(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = COPY, .backend = backend, .dtype = "f32"});
    sg_config *index = NULL;
    assert_done(sg_checkpoint_index(g->checkpoint, &index, &e), &e);
    sg_model_close(&g->model, g->family);
    g->family = &family; /* which registers it */
    assert_done(sg_model_open(&g->model, g->family, g->checkpoint, index, g->act, &e), &e);
    sg_config_close(&index);
    g->components = g->model;
    *opened = g->model;
    return g;
}

typedef struct seen {
    int     frames, height, chunks; /* chunks: as progress tells them */
    float   latents[CELLS];
    uint8_t pixels[FRAMES * HIGH * X * 3];
} seen;

static sg_status take_latents(void *context, int step_, const float *latents, const int64_t shape[4], sg_error *e)
{
    memcpy(((seen *)context)->latents, latents, (size_t)(shape[0] * shape[1] * shape[2] * shape[3]) * sizeof *latents);
    return SG_OK;
}

static sg_status take_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    seen *const s = context;
    assert_int_equal(index, s->frames++);
    if (s->height == Y) memcpy(s->pixels + index * Y * X * 3, rgb, Y * X * 3);
    return SG_OK;
}

/* The decoder's work is told chunk by chunk. */
static int count_chunks(void *context, sg_stage stage, int done, int total)
{
    seen *const s = context;
    if (stage != SG_STAGE_DECODE) return 0;
    assert_int_equal(done, done ? s->chunks + 1 : 0);
    assert_true(done <= total);
    s->chunks = done;
    return 0;
}

/* x [n, C], tokens as the model has them: noise of one generator, [f, c, y, x]. */
static void add_noise(sg_rng *rng, double *x, double factor, int frames)
{
    static float normal[CELLS];
    sg_rng_randn(rng, normal, (size_t)(C * frames * Y * X));
    for (int i = 0; i < C * frames * Y * X; i++)
        x[(i / (C * Y * X) * Y * X + i % (Y * X)) * C + i / (Y * X) % C] += factor * (double)normal[i];
}

/* v [n, C] of the model for x in one pass, where all tokens count the same. */
static void predict(const made_up *m, int pass, const double *x, int n, double guidance, double *v)
{
    static double h[CELLS];
    const int     last = m->components.denoiser[0].layers - 1;
    memcpy(h, x, (size_t)(n * C) * sizeof *h);
    for (int i = 0; i <= last; i++) {
        const int text = i ? 0 : m->before[pass] + m->behind[pass];
        double    sum[C] = {0}, mixed[C] = {0};
        for (int j = 0; j < n * C; j++) sum[j % C] += h[j];
        for (int j = 0; j < C * C; j++) sum[j / C] += text * (double)story[j];
        for (int j = 0; j < C * C; j++) mixed[j / C] += (double)mix[j] * sum[j % C] / (n + text);
        for (int j = 0; j < n * C; j++) v[j] = mixed[j % C] + (i == last ? guidance : 1) * h[j];
        memcpy(h, v, (size_t)(n * C) * sizeof *h);
    }
}

static void expect(const made_up *m, double *x, int frames, uint64_t seed, double guidance)
{
    static double v[2][CELLS];
    const int     n = frames * Y * X;
    const bool    given = m->components.guidance == SG_GUIDANCE_EMBEDDED;
    sg_rng        rng;
    sg_rng_seed(&rng, seed);
    memset(x, 0, CELLS * sizeof *x);
    add_noise(&rng, x, 1, frames);
    for (int i = 0; i < STEPS; i++) {
        for (int pass = 0; pass < 2; pass++) predict(m, pass, x, n, given ? guidance : 1, v[pass]);
        for (int j = 0; j < n * C; j++)
            x[j] = x[j] / 2 + (given ? v[0][j] : guidance * v[0][j] + (1 - guidance) * v[1][j]) / 4;
        add_noise(&rng, x, .1, frames);
    }
}

/* ---- tests ---- */

static sg_request request(int height, int frames)
{
    return (sg_request){.size = sizeof(sg_request),
                        .width = X,
                        .height = height,
                        .frames = frames,
                        .steps = STEPS,
                        .guidance = 1.5,
                        .flow_shift = 1,
                        .seed = 5,
                        .attention = sg_policy_default()};
}

/* Tokens of text in the first of two layers, before and behind the video in each pass. */
typedef struct texts {
    int before[2], behind[2];
} texts;

static void add_text(made_up *m, sg_request *r, const texts *t)
{
    r->cfg_scale = 1.5, r->guidance = 0;
    m->components.denoiser[0].layers = 2;
    m->components.guidance = SG_GUIDANCE_CLASSIFIER_FREE;
    memcpy(m->before, t->before, sizeof m->before);
    memcpy(m->behind, t->behind, sizeof m->behind);
}

/* Sees that text stands where the shape says, and nothing else does. */
static void see_text(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step_, int pass,
                     double timestep, const sg_attend_args *args)
{
    static float         k[(TEXT + CELLS / C + TEXT) * C];
    const made_up *const m = context;
    if (!s->memory->alloc) return; /* a plan has no data */
    assert_int_equal(shape->n, args->q.dim[0]);
    assert_int_equal(shape->text_prefix, layer ? 0 : m->before[pass]);
    assert_int_equal(shape->text_suffix, layer ? 0 : m->behind[pass]);
    sg_download(s, k, args->k);
    for (int64_t i = 0; i < shape->n; i++) {
        const bool text = i < shape->text_prefix || i >= shape->n - shape->text_suffix;
        assert_int_equal(memcmp(k + i * C, m->rows, C * sizeof *k) == 0, text);
    }
    assert_true(m->run.order.rank);
}

static void expect_pixels(const seen *s, const double *x, int frames)
{
    for (int i = 0; i < frames * Y * X; i++) {
        for (int c = 0; c < C; c++) assert_true(fabs((double)s->latents[c * frames * Y * X + i] - x[i * C + c]) < 1e-5);
        for (int k = 0; k < 3; k++) {
            double rgb = 0;
            for (int c = 0; c < C; c++) rgb += (double)out[k * C + c] * x[i * C + c];
            assert_true(fabs(s->pixels[i * 3 + k] - 127.5 * (fmax(-1, fmin(1, rgb)) + 1)) < 0.51);
        }
    }
}

static void render(const char *backend, const texts *text, int frames, int chunks, const int *chunk_sizes)
{
    static double x[CELLS];
    static seen   s;
    made_up      *m;
    sg_plan       plan = {.size = sizeof plan};
    sg_report     rep = {.size = sizeof rep};
    sg_error      e = {0};
    sg_engine    *g = open_family(&m, backend);
    sg_request    r = request(Y, frames);
    if (text) {
        add_text(m, &r, text);
        r.attention.kind = SG_ATTENTION_DENSE; /* but looked at, so that tokens are in order */
        sg_engine_watch(g, &(sg_attention_watch){.on_begin = see_text, .on_begin_context = m});
    }
    s = (seen){.height = Y};
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    assert_int_equal(plan.tokens, frames * Y * X + (text ? 5 : 0));
    assert_int_equal(plan.phases, 3);
    assert_string_equal(plan.phase[0].name, "story");
    assert_int_equal(plan.phase[0].weights + plan.phase[0].mapped, sizeof story);
    g->memory_limit = plan.need;
    const sg_callbacks cb = {.size = sizeof(sg_callbacks),
                             .context = &s,
                             .progress = count_chunks,
                             .frame = take_frame,
                             .latents = take_latents};
    if (sg_engine_render(g, &r, &cb, &rep, &e)) fail_msg("%s", e.text);
    assert_int_equal(s.chunks, plan.chunks);
    if (strcmp(backend, "ref") == 0) /* libraries hold what they like beside it */
        assert_true(rep.held_bytes == plan.need - plan.staging);
    assert_int_equal(s.frames, frames);
    assert_int_equal(m->decoder.count, chunks);
    assert_memory_equal(m->decoder.chunks, chunk_sizes, (size_t)chunks * sizeof *chunk_sizes);
    expect(m, x, frames, r.seed, 1.5);
    expect_pixels(&s, x, frames);
    g->memory_limit = plan.need - 1;
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_E_MEMORY);
    r.width++;
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_E_ARG);
    sg_engine_close(&g);
}

static void a_picture(void **state)
{
    render("ref", NULL, 1, 1, (int[]){-1});
    render("cpu", NULL, 1, 1, (int[]){-1});
}

static void a_clip(void **state)
{
    render("ref", NULL, FRAMES, 3, (int[]){1, 2, -2});
    render("cpu", NULL, FRAMES, 3, (int[]){1, 2, -2});
    render("ref", NULL, FRAMES - 1, 2, (int[]){2, -2});
}

/* Each layer of each pass attends to as many tokens as it asked for; the video's are in another order, which is undone. */
static void text_by_pass_and_layer(void **state)
{
    static const texts around[] = {{{0, 0}, {3, 5}}, {{4, 4}, {1, 0}}, {{5, 2}, {0, 0}}, {{1, 0}, {4, 1}}};
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        render("ref", &around[i], FRAMES, 3, (int[]){1, 2, -2});
        render("cpu", &around[i], FRAMES, 3, (int[]){1, 2, -2});
    }
}

enum { VIDEO = FRAMES * HIGH * X }; /* tokens */
static const texts *text;           /* of the render */

static int tokens_of(int pass, int layer) { return VIDEO + (layer ? 0 : text->before[pass] + text->behind[pass]); }
static int blocks_of(int pass, int layer, int size) { return (tokens_of(pass, layer) + size - 1) / size; }

/* Every layer of every pass is counted in its own blocks. */
static void expect_counts(const sg_engine *g)
{
    int                             steps, passes, layers;
    const sg_attention_count *const c = sg_engine_attention(g, &steps, &passes, &layers);
    assert_int_equal(steps * passes * layers, STEPS * 2 * 2);
    for (int i = 0; i < STEPS * 2 * 2; i++)
        assert_int_equal(c[i].blocks,
                         blocks_of(i / 2 % 2, i % 2, SG_BLOCK_Q) * blocks_of(i / 2 % 2, i % 2, SG_BLOCK_K));
}

/* Which blocks were kept, and how often attention was sparse. */
typedef struct keeps {
    block_lists lists;
    int         calls, left_out;
} keeps;

static bool has_text(int pass, int layer, int block, int size)
{
    const int end = tokens_of(pass, layer);
    bool      has = false;
    for (int t = block * size; !layer && t < (block + 1) * size && t < end; t++)
        has = has || t < text->before[pass] || t >= end - text->behind[pass];
    return has;
}

/* Rows and columns of blocks that hold text are dense. Lists come before their counts. */
static void see_lists(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    keeps *const c = context;
    int          layer, used = 0;
    if (sscanf(name, "attention.%d.list%n", &layer, &used) == 1 && used) c->lists.list = t;
    used = 0;
    if (sscanf(name, "attention.%d.count%n", &layer, &used) != 1 || !used || !t.data) return;
    c->lists.count = t;
    const int pass = c->calls / 2 % 2, nq = blocks_of(pass, layer, SG_BLOCK_Q), nk = blocks_of(pass, layer, SG_BLOCK_K);
    assert_int_equal(layer, c->calls++ % 2);
    assert_int_equal(t.dim[1], nq);
    for (int i = 0; i < nq; i++)
        for (int j = 0; j < nk; j++) {
            const bool kept = is_listed(&c->lists, i, j);
            if (has_text(pass, layer, i, SG_BLOCK_Q) || has_text(pass, layer, j, SG_BLOCK_K)) assert_true(kept);
            c->left_out += !kept;
        }
}

static void render_long(seen *s, const char *backend, sg_attention_kind kind)
{
    made_up   *m;
    keeps      c = {0};
    sg_report  rep = {.size = sizeof rep};
    sg_error   e = {0};
    sg_plan    plan = {.size = sizeof plan};
    sg_engine *g = open_family(&m, backend);
    sg_request r = request(HIGH, FRAMES);
    add_text(m, &r, text);
    m->heat = .6f;
    r.attention.named = true;
    r.attention.kind = kind;
    r.attention.amount = .2f;
    r.attention.dense_steps = .3; /* the first of three */
    g->tap = see_lists;
    g->tap_context = &c;
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    assert_int_equal(plan.tokens, tokens_of(1, 0));
    g->memory_limit = plan.need;
    *s = (seen){.height = HIGH};
    const sg_callbacks cb = {.size = sizeof(sg_callbacks), .context = s, .frame = take_frame, .latents = take_latents};
    if (sg_engine_render(g, &r, &cb, &rep, &e)) fail_msg("%s", e.text);
    assert_int_equal(c.calls, kind == SG_ATTENTION_SPARGE ? (STEPS - 1) * 2 * 2 : 0);
    expect_counts(g);
    assert_true(c.left_out >= c.calls * 40);
    sg_engine_close(&g);
}

static double distance(const seen *a, const seen *b)
{
    double far = 0, size = 0;
    for (int i = 0; i < CELLS; i++) {
        far += pow((double)a->latents[i] - (double)b->latents[i], 2);
        size += pow((double)b->latents[i], 2);
    }
    return sqrt(far / size);
}

/* The fast kernels do as the oracle does with the same lists, and near to dense attention. */
static void text_is_dense_where_blocks_are_skipped(void **state)
{
    static seen        dense, ref, cpu;
    static const texts around[] = {{{0, 0}, {3, TEXT}}, {{70, 70}, {0, 0}}, {{1, 1}, {2, 67}}};
    for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
        text = &around[i];
        render_long(&dense, "ref", SG_ATTENTION_DENSE);
        render_long(&ref, "ref", SG_ATTENTION_SPARGE);
        render_long(&cpu, "cpu", SG_ATTENTION_SPARGE);
        assert_true(distance(&cpu, &ref) < 0.01);
        assert_true(distance(&ref, &dense) > 0);
        render_long(&cpu, "cpu", SG_ATTENTION_DENSE);
        assert_true(distance(&cpu, &dense) < 1e-5);
    }
}

/* A mask of blocks has those of the longest sequence, whichever layer or pass has it. */
static void a_mask_is_for_the_longest_sequence(void **state)
{
    static uint8_t  numbers[10 * 19];
    const sg_tensor fits = {numbers, SG_U8, 3, {1, 10, 19}}, misfits = {numbers, SG_U8, 3, {1, 9, 17}};
    made_up        *m;
    sg_plan         plan = {.size = sizeof plan};
    sg_error        e = {0};
    sg_engine      *g = open_family(&m, "ref");
    sg_request      r = request(HIGH, FRAMES);
    add_text(m, &r, &(texts){{0, 0}, {3, TEXT}});
    r.attention.named = true;
    r.attention.rule = SG_SELECT_GIVEN;
    r.attention.budget = false;
    r.attention.mask = "mask.safetensors";
    assert_done(sg_safetensors_write(r.attention.mask, "mask", misfits, NULL, &e), &e);
    assert_refused(sg_engine_plan(g, &r, &plan, &e), SG_E_ARG, &e, "mask|U8|[1, 9, 17]|[1 or 1, 10, 19]");
    e = (sg_error){0};
    assert_done(sg_safetensors_write(r.attention.mask, "mask", fits, NULL, &e), &e);
    if (sg_engine_plan(g, &r, &plan, &e)) fail_msg("%s", e.text);
    sg_engine_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_picture), cmocka_unit_test(a_clip), cmocka_unit_test(text_by_pass_and_layer),
        cmocka_unit_test(text_is_dense_where_blocks_are_skipped), cmocka_unit_test(a_mask_is_for_the_longest_sequence)};
    return cmocka_run_group_tests(tests, make_copy, leave_folder);
}
