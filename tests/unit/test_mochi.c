/* test_mochi.c - what Mochi has of its own: its schedule, its decoder as a stream and in tiles, what it refuses. Golden tests
 * hold the numbers of a render. */
#include "engine_fixture.h"
#include "made_file.h"
#include "meta.h"
#include "render.h"
#include "sampler_table.h"
#include "solver.h"
#include "vae_fixture.h"

#include <jansson.h>

static const char mini[] = SG_FIXTURES "/mochi_hd16";

/* ---- schedule ---- */

static sg_sampler_config config_of(double shift)
{
    return (sg_sampler_config){.solver = &sg_solver_flow_mochi,
                               .kind = SG_SAMPLER_EULER,
                               .kinds = 1 << SG_SAMPLER_EULER,
                               .flow_shift = shift,
                               .train_steps = 1000};
}

/* One number's path under the made-up model that make_sampler_table.py describes. */
static void check_path(const sg_sampler *p, const double *wanted)
{
    static _Alignas(SG_ALIGN) unsigned char arena[1 << 12];
    sg_stream        s = {.ops = &sg_ref_ops, .keep = {.base = (uintptr_t)arena, .cap = sizeof arena}};
    sg_sampler_state st = sg_sampler_state_new(p, &s, (int64_t[4]){1, 1, 1, 1});
    float *const     x = st.x.data;
    float            v;
    *x = 1.2f;
    for (int i = 0; i < p->steps; i++) {
        v = (float)(0.3 * (double)*x + sin(1.7 * i + 0.4));
        sg_sampler_step(p, &st, &s, i, (sg_tensor){.data = &v, .rank = 4, .dim = {1, 1, 1, 1}});
        assert_int_equal(s.status, SG_OK);
        assert_true(fabs((double)*x - wanted[i]) <= 1e-6 * fmax(1.0, fabs(wanted[i])));
    }
}

static void schedule_is_that_of_diffusers(void **state)
{
    static sg_sampler p;
    const double     *t = mochi_numbers;
    sg_error          e = {0};
    for (size_t k = 0; k < sizeof mochi_shift / sizeof *mochi_shift; k++)
        for (size_t j = 0; j < sizeof mochi_steps / sizeof *mochi_steps; j++) {
            const sg_sampler_config c = config_of(mochi_shift[k]);
            const int               steps = mochi_steps[j];
            assert_int_equal(sg_sampler_init(&p, &c, steps, &e), SG_OK);
            for (int i = 0; i < steps; i++) {
                assert_true(1.0f - (float)p.sigma[i] == (float)t[i]);
                assert_true((float)p.timestep[i] == (float)t[steps + i]);
                assert_true(fabs(sg_sampler_of_1000(&p, i) - (1000 - t[steps + i])) < 1e-3); /* falls */
            }
            check_path(&p, t + 2 * steps);
            t += 3 * steps;
        }
    assert_ptr_equal(t, mochi_numbers + sizeof mochi_numbers / sizeof *mochi_numbers);
}

static void schedule_takes_a_list(void **state)
{
    static sg_sampler p;
    sg_error          e = {0};
    sg_sampler_config c = config_of(7); /* which does nothing to a list */
    c.sigmas = (sg_sigmas){.count = 2, .at = {1, 0.25}};
    assert_int_equal(sg_sampler_init(&p, &c, 2, &e), SG_OK);
    assert_true(p.sigma[1] == 0.25 && p.timestep[0] == 0 && p.timestep[1] == 750);
}

static void schedule_refuses(void **state)
{
    static sg_sampler p;
    sg_error          e = {0};
    sg_sampler_config c = config_of(1);
    assert_refused(sg_sampler_init(&p, &c, 1, &e), SG_E_ARG, &e, "begins with 2");
    c.kind = SG_SAMPLER_LCM;
    e = (sg_error){0};
    assert_refused(sg_sampler_init(&p, &c, 4, &e), SG_E_ARG, &e, "lcm|euler");
}

/* ---- decoder: a made-up one, one frame a latent ---- */

enum { Z = 2, C = 32, SPACE = 8, TILE = 256, STRIDE = 192, BLEND = 64 };

static const sg_vae_ops *const ops = &sg_mochi_vae_ops;
static sg_backend             *backend;

static made_file made;

/* One more tensor of it; the numbers are small, so that frames stay within 1. */
static void put(const char *prefix, const char *name, int rank, const int64_t *dim)
{
    char full[96];
    snprintf(full, sizeof full, "decoder.%s%s", prefix, name);
    const sg_tensor t = made_file_put(&made, full, full, SG_F32, rank, dim);
    for (int64_t i = 0; i < sg_count(t); i++) ((float *)t.data)[i] /= 20;
}

static void put_block(const char *prefix)
{
    for (int i = 1; i <= 2; i++) {
        char name[48];
        snprintf(name, sizeof name, "norm%d.norm_layer.weight", i);
        put(prefix, name, SG_DIMS(C));
        snprintf(name, sizeof name, "norm%d.norm_layer.bias", i);
        put(prefix, name, SG_DIMS(C));
        snprintf(name, sizeof name, "conv%d.conv.weight", i);
        put(prefix, name, SG_DIMS(C, C, 3, 3, 3));
        snprintf(name, sizeof name, "conv%d.conv.bias", i);
        put(prefix, name, SG_DIMS(C));
    }
}

/* Opens and loads one that makes `time` frames of a latent. */
static sg_vae decoder_of(int time)
{
    sg_vae   v = {0};
    sg_error e = {0};
    char     config[512];
    snprintf(
        config, sizeof config,
        "{\"_class_name\": \"AutoencoderKLMochi\", \"latent_channels\": %d, \"out_channels\": 3, \"scaling_factor\": "
        "1, \"latents_mean\": [0.25, -0.5], \"latents_std\": [1, 1], \"decoder_block_out_channels\": [%d, %d], "
        "\"layers_per_block\": [1, 1, 1], \"temporal_expansions\": [%d], \"spatial_expansions\": [%d]}",
        Z, C, C, time, SPACE);
    put("", "conv_in.weight", SG_DIMS(C, Z, 1, 1, 1));
    put("", "conv_in.bias", SG_DIMS(C));
    put_block("block_in.resnets.0.");
    put_block("up_blocks.0.resnets.0.");
    put("up_blocks.0.", "proj.weight", SG_DIMS(C * time * SPACE * SPACE, C));
    put("up_blocks.0.", "proj.bias", SG_DIMS(C * time * SPACE * SPACE));
    put_block("block_out.resnets.0.");
    put("", "proj_out.weight", SG_DIMS(3, C));
    put("", "proj_out.bias", SG_DIMS(3));
    write_text("vae/config.json", config);
    made_file_write(&made, "vae/diffusion_pytorch_model.safetensors");
    sg_checkpoint_close(&from);
    if (sg_checkpoint_open(&from, ".", &e) || sg_vae_open(&v, ops, from, SG_F32, &e) ||
        sg_bind_load(ops->component(v.of)->bind, backend, NULL, NULL, &e))
        fail_msg("%s", e.text);
    return v;
}

/* A stream with as much memory as decoding such latents takes; NaN to begin with. */
static sg_stream stream_for(const sg_vae *v, int64_t f, int64_t y, int64_t x)
{
    sg_plan_totals  totals = {0};
    sg_stream       plan = sg_plan_stream(&totals);
    sg_error        e = {0};
    void           *run = NULL;
    const sg_tensor z = sg_new_keep(&plan, SG_F32, f, y, x, Z);
    assert_int_equal(ops->decode_open(&run, v->of, &plan, y, x, &e), SG_OK);
    for (int64_t done = 0, n; done < f; done += n) {
        n = ops->chunk(v->of, f, done);
        plan.scratch.used = 0;
        ops->decode_next(run, &plan, sg_rows(z, done, n), done + n == f);
    }
    ops->decode_close(&run);
    return stream_as_planned(backend, &plan);
}

/* All frames of host latents z [f, y, x, c]; the caller frees them. */
static float *decode(const sg_vae *v, const float *z, int64_t f, int64_t y, int64_t x)
{
    const int       time = v->info.scale_time;
    const size_t    all = (size_t)((f - 1) * time + 1) * (size_t)(y * x * SPACE * SPACE * 3);
    float *const    out = malloc(all * sizeof *out), *to = out;
    sg_stream       s = stream_for(v, f, y, x);
    sg_error        e = {0};
    void           *run = NULL;
    const sg_tensor given = sg_new_keep(&s, SG_F32, f, y, x, Z);
    assert_non_null(out);
    sg_upload(&s, given, z);
    assert_int_equal(ops->decode_open(&run, v->of, &s, y, x, &e), SG_OK);
    for (int64_t done = 0, n; done < f; done += n) {
        n = ops->chunk(v->of, f, done);
        s.scratch.used = 0;
        const sg_tensor frames = ops->decode_next(run, &s, sg_rows(given, done, n), done + n == f);
        sg_download(&s, to, frames);
        to += sg_count(frames);
    }
    if (s.status) fail_msg("%s", s.why);
    assert_int_equal(to - out, all);
    ops->decode_close(&run);
    stream_release(backend, &s);
    return out;
}

static float *made_latents(int64_t n)
{
    float *const z = malloc((size_t)n * sizeof *z);
    assert_non_null(z);
    for (int64_t i = 0; i < n; i++) z[i] = (float)sin(0.7 * (double)i + (double)(i % 5));
    return z;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Frames of one tile, decoded by itself and, here, not clamped: the made-up weights keep them within 1. */
typedef struct piece {
    float  *at;
    int64_t h, w; /* pixels */
} piece;

static piece decode_piece(const sg_vae *v, const float *z, int64_t f, int64_t y, int64_t x, int64_t row, int64_t column)
{
    const int64_t h = least(TILE / SPACE, y - row), w = least(TILE / SPACE, x - column);
    float *const  part = malloc((size_t)(f * h * w * Z) * sizeof *part);
    float        *to = part;
    assert_non_null(part);
    for (int64_t t = 0; t < f; t++)
        for (int64_t i = 0; i < h; i++, to += w * Z)
            memcpy(to, z + ((t * y + row + i) * x + column) * Z, (size_t)(w * Z) * sizeof *to);
    const piece p = {decode(v, part, f, h, w), h * SPACE, w * SPACE};
    free(part);
    return p;
}

/* blend_v and blend_h of diffusers, in place. */
static void blend(piece a, piece b, int64_t f, bool rows)
{
    const int64_t n = least(BLEND, rows ? least(a.h, b.h) : least(a.w, b.w));
    for (int64_t t = 0; t < f; t++)
        for (int64_t i = 0; i < (rows ? n : b.h); i++)
            for (int64_t j = 0; j < (rows ? b.w : n) * 3; j++) {
                const int64_t k = rows ? i : j / 3;
                const double  share = (double)k / (double)n;
                const float  *other =
                    a.at + (t * a.h + (rows ? a.h - n + i : i)) * a.w * 3 + (rows ? j : (a.w - n) * 3 + j);
                float *const to = b.at + (t * b.h + i) * b.w * 3 + j;
                *to = (float)((double)*other * (1 - share) + (double)*to * share);
            }
}

/* tiled_decode of diffusers in plain C against the decoder in tiles. */
static void check_tiles(int64_t f, int64_t y, int64_t x, int time)
{
    sg_vae        v = decoder_of(time);
    const int64_t step = STRIDE / SPACE, rows = sg_div_up(y, step), columns = sg_div_up(x, step), wide = x * SPACE;
    const int64_t n = (f - 1) * time + 1;
    float *const  z = made_latents(f * y * x * Z);
    piece         tile[3][3];
    assert_true(rows <= 3 && columns <= 3);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) tile[i][j] = decode_piece(&v, z, f, y, x, i * step, j * step);
    assert_true(ops->set_tiles(v.of, true));
    float *const got = decode(&v, z, f, y, x);
    double       worst = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const piece p = tile[i][j];
            if (i) blend(tile[i - 1][j], p, n, true);
            if (j) blend(tile[i][j - 1], p, n, false);
            for (int64_t t = 0; t < n; t++)
                for (int64_t r = 0; r < least(p.h, STRIDE); r++)
                    for (int64_t c = 0; c < least(p.w, STRIDE) * 3; c++) {
                        const float mine = got[((t * y * SPACE + i * STRIDE + r) * wide + j * STRIDE) * 3 + c];
                        const float want = p.at[(t * p.h + r) * p.w * 3 + c];
                        assert_true(fabsf(want) < 1 && isfinite(mine));
                        worst = fmax(worst, fabs((double)mine - (double)want));
                    }
        }
    if (worst > 1e-5) fail_msg("tiles are off by %g", worst);
    for (int64_t i = 0; i < rows * columns; i++) free(tile[i / columns][i % columns].at);
    free(got);
    free(z);
    sg_vae_close(&v);
}

static void tiles_are_those_of_diffusers(void **state)
{
    check_tiles(3, 1, 51, 2);  /* three tiles side by side, the last of 3 latents; several chunks */
    check_tiles(1, 25, 33, 1); /* a corner where four meet */
}

static void one_tile_is_the_whole(void **state)
{
    enum { F = 3, HIGH = 32, WIDE = 2 }; /* up to 32 latents a side, though the second tile would begin at 24 */
    sg_vae       v = decoder_of(2);
    float *const z = made_latents(F * HIGH * WIDE * Z), *const whole = decode(&v, z, F, HIGH, WIDE);
    assert_true(ops->set_tiles(v.of, true));
    float *const tiled = decode(&v, z, F, HIGH, WIDE);
    assert_memory_equal(whole, tiled, (size_t)((2 * F - 1) * HIGH * WIDE * SPACE * SPACE * 3) * sizeof *tiled);
    free(tiled);
    free(whole);
    free(z);
    sg_vae_close(&v);
}

static void memory_does_not_grow_with_the_clip(void **state)
{
    sg_vae       v = decoder_of(2);
    sg_stream    few = stream_for(&v, 2, 2, 2), many = stream_for(&v, 9, 2, 2);
    const size_t latents = (9 - 2) * 2 * 2 * Z * sizeof(float);
    assert_int_equal(few.scratch.cap, many.scratch.cap);
    assert_true(many.keep.cap <= few.keep.cap + latents + SG_ALIGN);
    stream_release(backend, &few);
    stream_release(backend, &many);
    sg_vae_close(&v);
}

/* ---- tiles where memory wants them ---- */

static size_t planned(sg_engine *g, sg_request r, sg_tiling tiling, sg_plan *p)
{
    sg_error e = {0};
    r.vae_tiling = tiling;
    if (sg_engine_plan(g, &r, p, &e)) fail_msg("%s", e.text);
    return p->need;
}

static void tiles_come_where_memory_wants_them(void **state)
{
    sg_plan    p = {.size = sizeof p};
    sg_error   e = {0};
    sg_engine *g = open_model(mini, (size_t)1 << 40);
    sg_request r = small(g);
    r.width = r.height = 1024;
    r.frames = 1;
    const size_t whole = planned(g, r, SG_TILING_OFF, &p), work = p.phase[p.phases - 1].work;
    const size_t tiles = planned(g, r, SG_TILING_ON, &p);
    assert_true(tiles < whole && p.untiled == 0);
    assert_true(planned(g, r, SG_TILING_AUTO, &p) == whole && p.untiled == 0);
    g->memory_limit = tiles + (whole - tiles) / 2;
    assert_true(planned(g, r, SG_TILING_AUTO, &p) == tiles && p.untiled == work);
    assert_int_equal(sg_plan_fits(&p, &e), SG_OK);
    planned(g, r, SG_TILING_OFF, &p);
    assert_int_equal(sg_plan_fits(&p, &e), SG_E_MEMORY);
    r.width = r.height = 32; /* where tiles take more */
    g->memory_limit = 1;
    planned(g, r, SG_TILING_AUTO, &p);
    assert_int_equal(p.untiled, 0);
    sg_engine_close(&g);
}

static void other_decoders_have_no_tiles(void **state)
{
    sg_plan    p = {.size = sizeof p};
    sg_error   e = {0};
    sg_engine *g = open_model(model, 0);
    sg_request r = small(g);
    r.vae_tiling = SG_TILING_ON;
    assert_refused(sg_engine_plan(g, &r, &p, &e), SG_E_ARG, &e, "vae_tiling|AutoencoderKLWan");
    sg_engine_close(&g);
}

/* ---- what it refuses ---- */

/* Opens the mini with one field of one JSON file changed, NULL: left out. */
static sg_status open_changed(const char *file, const char *key, const char *value, sg_error *e)
{
    char       source[512], to[128];
    sg_engine *g = NULL;
    snprintf(source, sizeof source, "%s/%s", mini, file);
    snprintf(to, sizeof to, "mochi/%s", file);
    shell("rm -rf mochi && cp -rL '%s' mochi", mini);
    write_changed(to, source, key, value);
    *e = (sg_error){0};
    const sg_status st = sg_engine_open(
        &g, &(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = "mochi", .backend = "ref"}, e);
    sg_engine_close(&g);
    return st;
}

static void odd_configs_are_refused(void **state)
{
    static const struct {
        const char *file, *key, *value, *says;
    } bad[] = {
        {"model_index.json", "vae", "[\"diffusers\", \"AutoencoderKLWan\"]", "program implements AutoencoderKLMochi"},
        {"model_index.json", "force_zeros_for_empty_prompt", "1", "force_zeros_for_empty_prompt"},
        {"scheduler/scheduler_config.json", "invert_sigmas", "false", "true"},
        {"scheduler/scheduler_config.json", "_class_name", "\"UniPCMultistepScheduler\"", "_class_name"},
        {"scheduler/scheduler_config.json", "shift", "0", "shift"},
        {"transformer/config.json", "attention_head_dim", "15", "15 is odd"},
        {"transformer/config.json", "time_embed_dim", "31", "31 is odd"},
        {"transformer/config.json", "num_attention_heads", NULL, "num_attention_heads"},
        {"transformer/config.json", "text_embed_dim", "28", "multiple|8 heads"},
        {"transformer/config.json", "out_channels", "24", "in_channels is 12"},
        {"transformer/config.json", "qk_norm", "\"layer_norm\"", "\"rms_norm\" is"},
        {"transformer/config.json", "activation_fn", "\"geglu\"", "\"swiglu\" is"},
        {"transformer/config.json", "num_layers", "3", "missing: transformer_blocks.1.norm1_context.linear"},
        {"transformer/config.json", "pooled_projection_dim", "21", "misshapen"},
        {"vae/config.json", "decoder_block_out_channels", "[32, 32, 64, 95]", "multiple|32 groups"},
        {"vae/config.json", "layers_per_block", "[1, 1, 1, 1]", "4 entries|decoder_block_out_channels"},
        {"vae/config.json", "temporal_expansions", "[1, 2]", "2 entries|decoder_block_out_channels"},
        {"vae/config.json", "spatial_expansions", "[2, 2, 9]", "spatial_expansions"},
        {"vae/config.json", "spatial_expansions", "[2, 2, 4]", "misshapen"},
        {"vae/config.json", "latents_std", "[1]", "latents_std"},
        {"vae/config.json", "latent_channels", "13", "latents_mean"},
        {"vae/config.json", "out_channels", "4", "RGB|frames"},
        {"vae/config.json", "act_fn", "\"gelu\"", "\"silu\" is"},
        {"vae/config.json", "scaling_factor", "0", "scaling_factor"}};
    sg_error e;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(open_changed(bad[i].file, bad[i].key, bad[i].value, &e), SG_E_FORMAT, &e, bad[i].says);
}

static void harmless_changes_are_taken(void **state)
{
    static const struct {
        const char *file, *key, *value;
    } good[] = {{"model_index.json", "force_zeros_for_empty_prompt", NULL},
                {"transformer/config.json", "out_channels", "12"},
                {"transformer/config.json", "max_sequence_length", "1"},
                {"vae/config.json", "latents_mean", "null"},
                {"vae/config.json", "act_fn", "\"swish\""},
                {"vae/config.json", "in_channels", "3"},
                {"vae/config.json", "scaling_factor", NULL}};
    sg_error e;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (open_changed(good[i].file, good[i].key, good[i].value, &e)) fail_msg("%s: %s", good[i].key, e.text);
}

static int set_up(void **state)
{
    return enter_folder(state) || sg_backend_open(&backend, &(sg_backend_options){.name = "cpu"}, NULL);
}

static int tear_down(void **state)
{
    sg_backend_close(&backend);
    return remove_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedule_is_that_of_diffusers),
                                       cmocka_unit_test(schedule_takes_a_list),
                                       cmocka_unit_test(schedule_refuses),
                                       cmocka_unit_test(tiles_are_those_of_diffusers),
                                       cmocka_unit_test(one_tile_is_the_whole),
                                       cmocka_unit_test(memory_does_not_grow_with_the_clip),
                                       cmocka_unit_test(tiles_come_where_memory_wants_them),
                                       cmocka_unit_test(other_decoders_have_no_tiles),
                                       cmocka_unit_test(odd_configs_are_refused),
                                       cmocka_unit_test(harmless_changes_are_taken)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
