/* test_wan_vae.c - the VAE as a stream: its memory does not grow, chunks depend on the past alone, two clips at once do
 * not disturb each other; and checkpoints that it refuses. Golden tests hold the numbers. */
#include "vae_fixture.h"

enum { Y = 1, X = 2, CHUNKS = 3 };

static const char *const models[] = {SG_FIXTURES "/wan21_hd64", SG_FIXTURES "/wan22_ti2v"}; /* plain, is_residual */
static const sg_vae_ops *const ops = &sg_wan_vae_ops;
static sg_backend             *backend;
static sg_error                e;

static sg_checkpoint *from; /* of the VAE that was opened last */

static sg_status open_at(sg_vae *v, const char *dir)
{
    sg_checkpoint_close(&from);
    SG_TRY(sg_checkpoint_open(&from, dir, &e));
    return sg_vae_open(v, ops, from, SG_F32, &e);
}

static sg_vae open_vae(const char *dir, bool load)
{
    sg_vae v = {0};
    e = (sg_error){0};
    if (open_at(&v, dir)) fail_msg("%s", e.text);
    if (load && (sg_bind_load(ops->component(v.of)->bind, backend, NULL, NULL, &e) ||
                 sg_bind_load(ops->encoder(v.of)->bind, backend, NULL, NULL, &e)))
        fail_msg("%s", e.text);
    return v;
}

/* ---- streaming ---- */

typedef struct clip {
    sg_vae    v;
    void     *run;
    sg_stream s;
    bool      encodes;
    int       seed, given;
} clip;

static void clip_open(clip *c)
{
    const int       m = c->v.info.scale_space;
    const sg_status st = c->encodes ? ops->encode_open(&c->run, c->v.of, &c->s, Y * m, X * m, &e)
                                    : ops->decode_open(&c->run, c->v.of, &c->s, Y, X, &e);
    if (st) fail_msg("%s", e.text);
}

/* One more chunk of made-up frames; what comes of it goes to out, as many numbers as returned. */
static size_t clip_next(clip *c, float *out)
{
    const sg_vae_info v = c->v.info;
    const int         m = c->encodes ? v.scale_space : 1;
    const sg_tensor   x =
        sg_new(&c->s, SG_F32, c->encodes && c->given ? v.scale_time : 1, Y * m, X * m, c->encodes ? 3 : v.z);
    const size_t mark = c->s.scratch.used, n = (size_t)sg_count(x);
    float *const host = malloc(n * sizeof *host);
    assert_non_null(host);
    for (size_t i = 0; i < n; i++) host[i] = (float)sin((double)(c->seed + 1) * (double)i + 7 * c->given);
    sg_upload(&c->s, x, host);
    const sg_tensor y = c->encodes ? ops->encode_next(c->run, &c->s, x) : ops->decode_next(c->run, &c->s, x, false);
    if (c->s.status) fail_msg("%s", c->s.why);
    assert_int_equal(c->s.scratch.used,
                     mark + (sg_bytes(y) + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN); /* the result only */
    if (out) sg_download(&c->s, out, y);
    c->s.scratch.used = 0;
    c->given++;
    free(host);
    return (size_t)sg_count(y);
}

/* The memory and the numbers of a clip of so many chunks. */
static sg_stream planned(sg_vae v, bool encodes, int chunks, size_t *numbers)
{
    sg_plan_totals totals = {0};
    clip           c = {.v = v, .encodes = encodes, .s = sg_plan_stream(&totals)};
    clip_open(&c);
    *numbers = 0;
    for (int i = 0; i < chunks; i++) *numbers += clip_next(&c, NULL);
    ops->decode_close(&c.run);
    return c.s;
}

/* A clip in memory as planned. */
static clip clip_begin(sg_vae v, bool encodes, int seed, sg_stream plan)
{
    clip c = {.v = v, .encodes = encodes, .seed = seed, .s = stream_as_planned(backend, &plan)};
    clip_open(&c);
    return c;
}

static void clip_end(clip *c)
{
    stream_release(backend, &c->s);
    ops->decode_close(&c->run);
}

static void memory_is_flat(void **state)
{
    for (int k = 0; k < 4; k++) {
        sg_vae          v = open_vae(models[k / 2], false);
        size_t          n;
        const sg_stream few = planned(v, k % 2, 3, &n), many = planned(v, k % 2, 30, &n);
        assert_int_equal(few.keep.peak, many.keep.peak);
        assert_int_equal(few.scratch.peak, many.scratch.peak);
        sg_vae_close(&v);
    }
}

static void chunks_follow_the_past_alone(void **state)
{
    for (int k = 0; k < 4; k++) {
        sg_vae          v = open_vae(models[k / 2], true);
        size_t          n, m = 0, a_at = 0, b_at = 0;
        const sg_stream plan = planned(v, k % 2, CHUNKS, &n);
        float *const whole = malloc(n * sizeof *whole), *const a = malloc(n * sizeof *a),
                     *const b = malloc(n * sizeof *b);
        clip                one = clip_begin(v, k % 2, 1, plan);
        for (int i = 0; i < CHUNKS; i++) m += clip_next(&one, whole + m);
        assert_int_equal(m, n);
        for (size_t i = 0; i < n; i++) assert_true(isfinite(whole[i]) && (k % 2 || fabsf(whole[i]) <= 1));
        clip_end(&one);

        clip same = clip_begin(v, k % 2, 1, plan), other = clip_begin(v, k % 2, 2, plan);
        for (int i = 0; i + 1 < CHUNKS; i++) {
            a_at += clip_next(&same, a + a_at);
            b_at += clip_next(&other, b + b_at);
        }
        assert_memory_equal(whole, a, a_at * sizeof *a);
        assert_memory_not_equal(whole, b, b_at * sizeof *b);
        clip_end(&same);
        clip_end(&other);
        free(whole);
        free(a);
        free(b);
        sg_vae_close(&v);
    }
}

static void wrong_frames_latch(void **state)
{
    sg_vae    v = open_vae(models[0], false);
    const int z = v.info.z;
    LATCHES(ops, v.of, Y, X, false, {2, Y, X, z}, {1, X, Y, z}, {1, Y, X, z + 1});
    sg_vae_close(&v);
}

static void impossible_sizes_are_refused(void **state)
{
    sg_vae v = open_vae(models[1], false);
    SIZES_REFUSED(ops, v.of, true, {0, 16}, {16, 8}, {40, 16}, {-16, 16}, {16, 1 << 17}, {INT64_MAX, 16});
    SIZES_REFUSED(ops, v.of, false, {0, 1}, {1, -1}, {1, 1 << 13}, {INT64_MAX, 1}, {1, INT64_MIN});
    sg_vae_close(&v);
}

/* ---- refused checkpoints ---- */

/* Opens the model with one field of its VAE's config changed to JSON text, NULL: left out. */
static sg_status open_changed(const char *dir, const char *key, const char *value)
{
    char config[512];
    snprintf(config, sizeof config, "%s/vae/config.json", dir);
    shell("rm -rf vae && mkdir vae && ln -s '%s'/vae/*.safetensors vae", dir);
    write_changed("vae/config.json", config, key, value);
    sg_vae v = {0};
    e = (sg_error){0};
    const sg_status st = open_at(&v, ".");
    assert_true(st ? !v.of : !!v.of);
    sg_vae_close(&v);
    return st;
}

static void odd_configs_are_refused(void **state)
{
    const struct {
        int         model;
        const char *key, *value, *says;
    } bad[] = {{0, "base_dim", NULL, "base_dim: is missing"},
               {0, "base_dim", "1", "base_dim: should be"},
               {0, "base_dim", "1e3", "base_dim: should be"},
               {0, "z_dim", "0", "z_dim: should be"},
               {0, "z_dim", "17", "latents_mean|17"},
               {0, "latents_std", "[1, 2]", "latents_std|16"},
               {0, "latents_std", "[0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "latents_std|entry 0"},
               {0, "dim_mult", "[]", "dim_mult|list"},
               {0, "dim_mult", "[1,2,2,2,2,2,2,2,2]", "dim_mult|list"},
               {0, "dim_mult", "[1, 2, 10000]", "dim_mult|entry 2"},
               {0, "dim_mult", "[1, 2]", "temperal_downsample|list"},
               {0, "temperal_downsample", "[true, 1]", "temperal_downsample|entry 1"},
               {0, "temperal_downsample", "[true, true]", "scale_factor_temporal: 2|levels"},
               {0, "scale_factor_spatial", "8", "scale_factor_spatial: 8|levels"},
               {0, "scale_factor_spatial", NULL, "scale_factor_spatial: 8|levels"},
               {0, "patch_size", "2", "in_channels: 3|RGB"},
               {0, "attn_scales", "[0.5]", "attn_scales|attention"},
               {0, "num_res_blocks", "0", "num_res_blocks: should be"},
               {0, "num_res_blocks", "9", "num_res_blocks: should be"},
               {0, "is_residual", "\"yes\"", "is_residual|false"},
               {0, "num_res_blocks", "1", "tensors do not fit"},
               {0, "is_residual", "true", "missing: decoder.up_blocks.0.upsampler.resample.1.weight"},
               {1, "out_channels", "3", "out_channels: 3|RGB"},
               {1, "dim_mult", "[1, 3, 2, 2]", "dim_mult|level 1|3 channels"},
               {1, "base_dim", "4", "misshapen|encoder.conv_in.weight|is [3, 12, 3, 3, 3]|[4, 12, 3, 3, 3]"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(open_changed(models[bad[i].model], bad[i].key, bad[i].value), SG_E_FORMAT, &e, bad[i].says);
}

static void harmless_changes_are_taken(void **state)
{
    const struct {
        const char *key, *value;
    } good[] = {{"attn_scales", NULL}, {"dropout", "0.5"},        {"patch_size", NULL},
                {"patch_size", "1"},   {"is_residual", NULL},     {"in_channels", NULL},
                {"base_dim", "4"},     {"decoder_base_dim", "4"}, {"unheard_of", "{}"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (open_changed(models[0], good[i].key, good[i].value)) fail_msg("%s: %s", good[i].key, e.text);
}

static int set_up(void **state)
{
    return enter_folder(state) || sg_backend_open(&backend, &(sg_backend_options){.name = "ref"}, &e);
}

static int tear_down(void **state)
{
    sg_checkpoint_close(&from);
    sg_backend_close(&backend);
    return leave_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_flat),          cmocka_unit_test(chunks_follow_the_past_alone),
        cmocka_unit_test(wrong_frames_latch),      cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(odd_configs_are_refused), cmocka_unit_test(harmless_changes_are_taken)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
