/* test_family.c - that the contract of a family is neutral: a made-up one with no text encoder, guidance that the model is
 * given, noise drawn by frames, a sampler that draws more of it in each step, and a decoder in chunks of two latent frames
 * renders pictures and clips through the engine, and takes the memory that its plan says.
 *
 *   v = W mean(x) + g x over the tokens x;  x = x / 2 + v / 4 + noise / 10;  rgb = clamp(U x) */
#include "capture.h"
#include "engine_fixture.h"
#include "rng.h"
#include "safetensors_write.h"
#include "solver.h"

#include <math.h>

enum { C = 4, X = 6, Y = 4, STEPS = 3, FRAMES = 5, CELLS = C * FRAMES * Y * X };

static const float mix[C * C] = {.5f, -.25f, 0, 1, .125f, 0, -1, .5f, 0, .75f, .5f, -.5f, 1, 0, .25f, 0};
static const float out[3 * C] = {.5f, 0, .25f, 0, 0, -.5f, 0, .25f, .25f, .25f, 0, -.5f};

typedef struct made_up {
    sg_components       components;
    sg_checkpoint      *checkpoint;
    sg_part             part[2];
    sg_tensor           mix, out;
    const sg_attention *attention;
    int64_t             grid[3];
    int                 chunks[FRAMES], count;
    int                 text_layer; /* in which a token is text; none renders such a mixture */
} made_up;

/* ---- the family ---- */

static void family_close(void *of)
{
    for (int i = 0; i < 2; i++) sg_part_close(&((made_up *)of)->part[i]);
    sg_checkpoint_close(&((made_up *)of)->checkpoint);
}

static const sg_components *components(const void *of) { return &((const made_up *)of)->components; }

static void geometry(const void *of, const sg_request *r, sg_geometry *g)
{
    (void)of;
    *g = (sg_geometry){.latent = {C, r->frames, r->height, r->width}, .grid = {r->frames, r->height, r->width}};
}

static sg_status check(const void *of, const sg_request *r, sg_error *e)
{
    (void)of;
    return r->width == X ? SG_OK : sg_error_set(e, SG_E_ARG, "size: not %d wide", X);
}

static void attention(const void *of, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                      sg_attention_shape *shape)
{
    assert_int_equal(c->passes, 1);
    assert_int_equal(pass, 0);
    shape->front = ((const made_up *)of)->text_layer == layer ? 1 : 0;
    shape->n = g->grid[0] * g->grid[1] * g->grid[2];
    shape->h = shape->hk = 1;
    shape->d = C;
}

static void render_open(void *of, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    (void)s;
    ((made_up *)of)->attention = self->attention;
    memcpy(((made_up *)of)->grid, g->grid, sizeof g->grid);
}

static void denoiser_open(void *of, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    (void)of, (void)s, (void)c;
    assert_int_equal(denoiser, 0);
}

static void forward(void *of, sg_stream *s, const sg_pass *p)
{
    const made_up *const m = of;
    const int64_t        n = m->grid[0] * m->grid[1] * m->grid[2];
    const sg_tensor      x = sg_new(s, SG_F32, n, 1, C), q = sg_new(s, SG_F32, n, 1, C), o = sg_new(s, SG_F32, n, 1, C);
    const sg_tensor      v = sg_new(s, SG_F32, n, C), y = sg_new(s, SG_F32, n, C);
    sg_permute(s, .y = x, .x = p->x, .rank = 2, .dim = {C, n}, .perm = {1, 0});
    sg_combine(s, .y = q, .x = {x}, .a = {0}, .count = 1); /* so that every token counts the same */
    sg_attention_run(m->attention, s, p->first_layer, p->step, p->index, p->timestep,
                     &(sg_attend_args){.y = o, .q = q, .k = x, .v = x, .scale = 1});
    sg_linear(s, .y = v, .x = sg_reshape(o, n, C), .w = m->mix);
    sg_combine(s, .y = y, .x = {v, sg_reshape(x, n, C)}, .a = {1, (float)p->guidance}, .count = 2);
    sg_permute(s, .y = p->out, .x = y, .rank = 2, .dim = {n, C}, .perm = {1, 0});
    sg_count_bad(s, .y = sg_rows(p->bad, 2, 1), .x = p->out);
}

static const sg_family family = {.name = "made up",
                                 .close = family_close,
                                 .components = components,
                                 .geometry = geometry,
                                 .check = check,
                                 .attention = attention,
                                 .render_open = render_open,
                                 .denoiser_open = denoiser_open,
                                 .forward = forward};

/* ---- its sampler ---- */

static sg_status schedule(sg_sampler *p, bool old, sg_error *e)
{
    (void)old, (void)e;
    for (int i = 0; i < p->steps; i++) p->timestep[i] = p->sigma[i] = p->steps - i;
    return SG_OK;
}

static void step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    (void)p, (void)i;
    sg_copy(s, .y = st->last, .x = st->x);
    sg_combine(s, .y = st->x, .x = {st->last, v, st->noise}, .a = {.5f, .25f, .1f}, .count = 3);
}

static const sg_solver solver = {.noise = true, .schedule = schedule, .step = step};

/* ---- its decoder ---- */

static sg_part *decoder_part(void *of) { return &((made_up *)of)->part[1]; }

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return done ? 2 : (total - 1) % 2 + 1;
}

static int special(const void *of)
{
    (void)of;
    return 1;
}

static sg_status decode_open(void **run, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    (void)s, (void)y, (void)x, (void)e;
    ((made_up *)of)->count = 0;
    *run = of;
    return SG_OK;
}

static sg_tensor decode_next(void *run, sg_stream *s, sg_tensor z)
{
    made_up *const  m = run;
    const int64_t   n = sg_count(z) / C;
    const sg_tensor rgb = sg_new(s, SG_F32, z.dim[0], z.dim[1], z.dim[2], 3), y = sg_new(s, SG_F32, n, 3);
    m->chunks[m->count++] = (int)z.dim[0];
    sg_linear(s, .y = y, .x = sg_reshape(z, n, C), .w = m->out);
    sg_activate(s, .y = sg_reshape(rgb, n, 3), .x = y, .act = SG_ACT_CLAMP);
    return rgb;
}

static void decode_close(void **run) { *run = NULL; }

static const sg_vae_ops vae = {.part = decoder_part,
                               .chunk = chunk,
                               .special = special,
                               .decode_open = decode_open,
                               .decode_next = decode_next,
                               .decode_close = decode_close};

/* ---- an engine with it ---- */

static void component(sg_part *p, const sg_checkpoint *from, const char *name, const char *weight, sg_tensor *to, const float *values, int64_t o)
{
    char            path[128], command[64];
    sg_config      *config = NULL;
    sg_error        e = {0};
    float           copy[C * C];
    const sg_tensor t = {.data = memcpy(copy, values, (size_t)(o * C) * sizeof *copy), .rank = 2, .dim = {o, C}};
    snprintf(command, sizeof command, "mkdir -p '%s/%s'", copy_dir, name);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/%s/config.json", copy_dir, name);
    FILE *const f = fopen(path, "w");
    assert_non_null(f);
    fputs("{}", f);
    fclose(f);
    snprintf(path, sizeof path, "%s/%s/diffusion_pytorch_model.safetensors", copy_dir, name);
    assert_int_equal(sg_safetensors_write(path, weight, t, NULL, &e), SG_OK);
    if (sg_part_open(p, from, name, NULL, SG_F32, &config, &e)) fail_msg("%s", e.text);
    sg_config_close(&config);
    sg_want(p->bind, to, SG_F32, weight, o, C);
    assert_int_equal(sg_bind_check(p->bind, &e), SG_OK);
}

static sg_engine *open_family(made_up *m, const char *backend)
{
    sg_engine *g = NULL;
    sg_error   e = {0};
    *m = (made_up){.text_layer = -1};
    assert_int_equal(sg_checkpoint_open(&m->checkpoint, copy_dir, &e), SG_OK);
    component(&m->part[0], m->checkpoint, "made_up", "mix", &m->mix, mix, C);
    component(&m->part[1], m->checkpoint, "made_up_vae", "out", &m->out, out, 3);
    m->components = (sg_components){.denoiser = {{.part = &m->part[0], .layers = 1}},
                                    .denoisers = 1,
                                    .vae = {.ops = &vae, .of = m},
                                    .sampler = {.solver = &solver, .flow_shift = 1, .train_steps = STEPS},
                                    .guidance = SG_GUIDANCE_EMBEDDED,
                                    .noise_by_frame = true,
                                    .size_multiple = 1,
                                    .frame_multiple = 1};
    const sg_engine_options o = {.model_dir = model, .backend = backend, .dtype = "f32"};
    if (sg_engine_open(&g, &o, &e)) fail_msg("%s", e.text);
    g->family->close(g->model);
    g->family = &family;
    g->model = m;
    g->parts = components(m);
    return g;
}

typedef struct seen {
    int     frames;
    float   latents[CELLS];
    uint8_t pixels[FRAMES * Y * X * 3];
} seen;

static sg_status take_latents(void *context, int step_, const float *latents, const int64_t shape[4], sg_error *e)
{
    (void)step_, (void)e;
    memcpy(((seen *)context)->latents, latents, (size_t)(shape[0] * shape[1] * shape[2] * shape[3]) * sizeof *latents);
    return SG_OK;
}

static sg_status take_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    (void)e;
    seen *const s = context;
    assert_int_equal(index, s->frames++);
    memcpy(s->pixels + index * Y * X * 3, rgb, Y * X * 3);
    return SG_OK;
}

/* x [n, C], tokens as the model has them: noise of one generator, [f, c, y, x]. */
static void add_noise(sg_rng *rng, double *x, double factor, int frames)
{
    float normal[CELLS];
    sg_rng_randn(rng, normal, (size_t)(C * frames * Y * X));
    for (int i = 0; i < C * frames * Y * X; i++)
        x[(i / (C * Y * X) * Y * X + i % (Y * X)) * C + i / (Y * X) % C] += factor * (double)normal[i];
}

static void expect(double *x, int frames, uint64_t seed, double guidance)
{
    const int n = frames * Y * X;
    sg_rng    rng;
    sg_rng_seed(&rng, seed);
    memset(x, 0, CELLS * sizeof *x);
    add_noise(&rng, x, 1, frames);
    for (int i = 0; i < STEPS; i++) {
        double mean[C] = {0}, mixed[C] = {0};
        for (int j = 0; j < n * C; j++) mean[j % C] += x[j] / n;
        for (int j = 0; j < C * C; j++) mixed[j / C] += (double)mix[j] * mean[j % C];
        for (int j = 0; j < n * C; j++) x[j] = x[j] / 2 + (mixed[j % C] + guidance * x[j]) / 4;
        add_noise(&rng, x, .1, frames);
    }
}

/* ---- tests ---- */

static void render(const char *backend, int frames, int chunks, const int *chunk_sizes)
{
    static double x[CELLS];
    made_up       m;
    seen          s = {0};
    sg_plan       plan;
    sg_report     rep;
    sg_error      e = {0};
    sg_engine    *g = open_family(&m, backend);
    sg_request    r = {.width = X,
                       .height = Y,
                       .frames = frames,
                       .steps = STEPS,
                       .cfg_scale = 1.5,
                       .flow_shift = 1,
                       .seed = 5,
                       .attention = sg_policy_usual()};
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    g->memory_limit = plan.need;
    const sg_callbacks cb = {.context = &s, .frame = take_frame, .latents = take_latents};
    if (sg_engine_render(g, &r, &cb, &rep, &e)) fail_msg("%s", e.text);
    if (strcmp(backend, "ref") == 0) /* libraries hold what they like beside it */
        assert_true(rep.held_bytes == plan.need - plan.staging);
    assert_int_equal(s.frames, frames);
    assert_int_equal(m.count, chunks);
    assert_memory_equal(m.chunks, chunk_sizes, (size_t)chunks * sizeof *chunk_sizes);

    expect(x, frames, r.seed, r.cfg_scale);
    for (int i = 0; i < frames * Y * X; i++) {
        for (int c = 0; c < C; c++) assert_true(fabs((double)s.latents[c * frames * Y * X + i] - x[i * C + c]) < 1e-5);
        for (int k = 0; k < 3; k++) {
            double rgb = 0;
            for (int c = 0; c < C; c++) rgb += (double)out[k * C + c] * x[i * C + c];
            assert_true(fabs(s.pixels[i * 3 + k] - 127.5 * (fmax(-1, fmin(1, rgb)) + 1)) < 0.51);
        }
    }
    g->memory_limit = plan.need - 1;
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_E_MEMORY);
    r.width++;
    assert_int_equal(sg_engine_render(g, &r, &cb, &rep, &e), SG_E_ARG);
    sg_engine_close(&g);
}

static void a_picture(void **state)
{
    (void)state;
    render("ref", 1, 1, (int[]){1});
    render("cpu", 1, 1, (int[]){1});
}

static void a_clip(void **state)
{
    (void)state;
    render("ref", FRAMES, 3, (int[]){1, 2, 2});
    render("cpu", FRAMES, 3, (int[]){1, 2, 2});
    render("ref", FRAMES - 1, 2, (int[]){2, 2});
}

/* Attention is bound once: layers that differ are refused, not computed in the shape of the first. */
static void layers_that_differ_are_refused(void **state)
{
    (void)state;
    made_up          m;
    sg_plan          plan;
    sg_error         e = {0};
    sg_engine       *g = open_family(&m, "ref");
    const sg_request r = {
        .width = X, .height = Y, .frames = 1, .steps = STEPS, .flow_shift = 1, .attention = sg_policy_usual()};
    m.components.denoiser[0].layers = 2;
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    assert_int_equal(plan.tokens, Y * X);
    m.text_layer = 1;
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_E_UNSUPPORTED);
    assert_non_null(strstr(e.text, "layer 1 in pass 0"));
    sg_engine_close(&g);
}

/* Text before and after the video is captured where it is; the video's tokens go back to their places. */
static void text_is_captured_in_place(void **state)
{
    (void)state;
    made_up         m;
    sg_engine      *g = open_family(&m, "ref");
    sg_stream       s = sg_stream_on(g->backend);
    float           rows[6] = {10, 11, 12, 13, 14, 15};
    const float     back[6] = {10, 11, 14, 12, 13, 15};
    const int32_t   order[] = {1, 2, 0};
    const sg_tensor t = {.data = rows, .rank = 3, .dim = {6, 1, 1}};
    sg_capture      c = {.order = order, .front = 2, .back = 1};
    sg_attend_args  args = {.q = t, .k = t, .v = t};
    sg_capture_see(&c, &s, NULL, 0, 0, 0, 1, &args);
    assert_int_equal(s.status, SG_OK);
    assert_memory_equal(c.q.data, back, sizeof back);
    assert_memory_equal(c.v.data, back, sizeof back);
    sg_capture_free(&c);
    sg_engine_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_picture), cmocka_unit_test(a_clip),
                                       cmocka_unit_test(layers_that_differ_are_refused),
                                       cmocka_unit_test(text_is_captured_in_place)};
    return cmocka_run_group_tests(tests, make_copy, remove_copy);
}
