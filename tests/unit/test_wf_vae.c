/* test_wf_vae.c - Open-Sora-Plan's VAE as a stream: chunks of any length give what the whole clip gives, in memory that
 * does not grow; tiles; configs that it refuses. Golden tests hold the numbers. */
#include "vae_fixture.h"

enum { LAYER_NORM, GROUP_NORM, Y = 2, X = 3, LATENTS = 6 };

static const char *const       models[] = {SG_FIXTURES "/opensora_hd96", SG_FIXTURES "/opensora_hd24"};
static const sg_vae_ops *const ops = &sg_wf_vae_ops;
static sg_backend             *backend;
static sg_error                e;

static sg_checkpoint *from; /* of the VAE that was opened last */

static sg_status open_at(sg_vae *v, const char *dir)
{
    sg_checkpoint_close(&from);
    SG_TRY(sg_checkpoint_open(&from, dir, &e));
    return sg_vae_open(v, ops, from, SG_F32, &e);
}

static sg_vae open_vae(int model)
{
    sg_vae v = {0};
    e = (sg_error){0};
    if (open_at(&v, models[model])) fail_msg("%s", e.text);
    return v;
}

/* ---- clips ---- */

/* One clip; its chunks are of so many frames, the first of which of `first`; 0: as the VAE has them. */
typedef struct clip {
    sg_vae  v;
    bool    encodes;
    int64_t frames, y, x, first, chunk; /* places of latents */
} clip;

static int64_t chunk_of(const clip *c, int64_t done)
{
    const int64_t left = c->frames - done, n = done ? c->chunk : c->first;
    if (!n) return (c->encodes ? ops->encode_chunk : ops->chunk)(c->v.of, c->frames, done);
    return n < left ? n : left;
}

/* Decodes made-up latents, or encodes made-up frames, the same for every length up to it, to `out`, which may be NULL.
 * Returns how many numbers come. */
static size_t work(const clip *c, sg_stream *s, float *out)
{
    const int64_t m = c->encodes ? c->v.info.scale_space : 1, channels = c->encodes ? 3 : c->v.info.z;
    size_t        numbers = 0;
    void         *run = NULL;
    if ((c->encodes ? ops->encode_open : ops->decode_open)(&run, c->v.of, s, c->y * m, c->x * m, &e))
        fail_msg("%s", e.text);
    for (int64_t done = 0, count; done < c->frames; done += count) {
        count = chunk_of(c, done);
        s->scratch.used = 0;
        const sg_tensor x = sg_new(s, SG_F32, count, c->y * m, c->x * m, channels);
        const size_t    mark = s->scratch.used, n = (size_t)sg_count(x);
        float *const    host = malloc(n * sizeof *host);
        assert_non_null(host);
        for (size_t i = 0; i < n; i++) host[i] = sinf(1.7f * (float)(i + (size_t)done * n / (size_t)count));
        sg_upload(s, x, host);
        free(host);
        const sg_tensor y =
            c->encodes ? ops->encode_next(run, s, x) : ops->decode_next(run, s, x, done + count == c->frames);
        if (s->status) fail_msg("%s", s->why);
        assert_int_equal(s->scratch.used, mark + sg_aligned(sg_bytes(y))); /* the result only */
        if (out) sg_download(s, out + numbers, y);
        numbers += (size_t)sg_count(y);
    }
    (c->encodes ? ops->encode_close : ops->decode_close)(&run);
    return numbers;
}

static sg_stream planned(const clip *c, size_t *numbers)
{
    sg_plan_totals totals = {0};
    sg_stream      s = sg_plan_stream(&totals);
    *numbers = work(c, &s, NULL);
    return s;
}

/* What comes of c in memory as planned; the caller frees it. */
static float *worked(const clip *c, size_t *numbers)
{
    const sg_stream plan = planned(c, numbers);
    sg_stream       s = stream_as_planned(backend, &plan);
    float *const    out = malloc(*numbers * sizeof *out);
    sg_bind *const  bind = (c->encodes ? ops->encoder : ops->component)(c->v.of)->bind;
    assert_non_null(out);
    assert_done(sg_bind_load(bind, backend, NULL, NULL, &e), &e);
    assert_int_equal(work(c, &s, out), *numbers);
    for (size_t i = 0; i < *numbers; i++) assert_true(isfinite(out[i]));
    sg_bind_unload(bind);
    stream_release(backend, &s);
    return out;
}

static void expect_same(const clip *a, const clip *b)
{
    size_t       n, m;
    float *const one = worked(a, &n), *const two = worked(b, &m);
    assert_int_equal(n, m);
    assert_memory_equal(one, two, n * sizeof *one);
    free(one);
    free(two);
}

/* ---- streaming ---- */

static void chunks_make_what_the_whole_makes(void **state)
{
    sg_vae v = open_vae(LAYER_NORM);
    for (int encodes = 0; encodes < 2; encodes++)
        for (int64_t f = 1; f <= (encodes ? 3 : LATENTS); f++) {
            const int64_t n = encodes ? 4 * (f - 1) + 1 : f;
            const clip    whole = {v, encodes, n, Y, X, n, n}, own = {v, encodes, n, Y, X, 0, 0};
            const clip    odd = {v, encodes, n, Y, X, encodes ? 5 : 3, encodes ? 4 : 1};
            const clip    single = {v, encodes, n, Y, X, 1, encodes ? 4 : 1};
            expect_same(&whole, &own);
            expect_same(&whole, &odd);
            expect_same(&whole, &single);
        }
    sg_vae_close(&v);
}

static void chunks_and_frames_of_latents(void **state)
{
    for (int model = LAYER_NORM; model <= GROUP_NORM; model++) {
        sg_vae v = open_vae(model);
        for (int64_t f = 1; f < 8; f++) {
            size_t n;
            planned(&(clip){v, false, f, Y, X, 0, 0}, &n);
            assert_int_equal(n, (4 * (f - 1) + 1) * Y * X * 64 * 3);
            planned(&(clip){v, true, 4 * (f - 1) + 1, Y, X, 0, 0}, &n);
            assert_int_equal(n, f * Y * X * v.info.z);
            assert_int_equal(ops->chunk(v.of, f, 0), model == GROUP_NORM || f < 2 ? f : 2);
        }
        sg_vae_close(&v);
    }
}

static void memory_is_flat(void **state)
{
    sg_vae v = open_vae(LAYER_NORM);
    for (int encodes = 0; encodes < 2; encodes++) {
        size_t          n;
        const sg_stream few = planned(&(clip){v, encodes, 17, Y, X, 0, 0}, &n),
                        many = planned(&(clip){v, encodes, 97, Y, X, 0, 0}, &n);
        assert_int_equal(few.keep.peak, many.keep.peak);
        assert_int_equal(few.scratch.peak, many.scratch.peak);
    }
    sg_vae_close(&v);
}

/* ---- tiles ---- */

static void one_tile_is_the_whole_frame(void **state)
{
    for (int model = LAYER_NORM; model <= GROUP_NORM; model++) {
        sg_vae     v = open_vae(model);
        const clip c = {v, false, 3, Y, X, 0, 0};
        size_t     n, m;
        float     *out[2];
        for (int tiled = 0; tiled < 2; tiled++) {
            assert_true(ops->set_tiles(v.of, tiled));
            assert_int_equal(ops->chunk(v.of, 9, 0), tiled || model == GROUP_NORM ? 9 : 2);
            out[tiled] = worked(&c, tiled ? &m : &n);
        }
        assert_int_equal(n, m);
        assert_memory_equal(out[0], out[1], n * sizeof *out[0]);
        free(out[0]);
        free(out[1]);
        sg_vae_close(&v);
    }
}

static void tiles_take_less_memory(void **state)
{
    for (int model = LAYER_NORM; model <= GROUP_NORM; model++) {
        sg_vae v = open_vae(model);
        size_t n, peak[2];
        for (int tiled = 0; tiled < 2; tiled++) {
            assert_true(ops->set_tiles(v.of, tiled));
            const sg_stream s = planned(&(clip){v, false, 3, 160, 160, 0, 0}, &n);
            peak[tiled] = s.scratch.peak + s.keep.peak;
        }
        assert_true(peak[1] < peak[0] / 2);
        sg_vae_close(&v);
    }
}

/* ---- what is refused ---- */

static void wrong_latents_latch(void **state)
{
    sg_vae    v = open_vae(LAYER_NORM);
    const int z = v.info.z;
    LATCHES(ops, v.of, Y, X, false, {2, Y + 1, X, z}, {1, Y, X + 1, z}, {1, Y, X, z + 1});
    sg_vae_close(&v);
}

static void impossible_sizes_are_refused(void **state)
{
    sg_vae v = open_vae(GROUP_NORM);
    SIZES_REFUSED(ops, v.of, true, {0, 16}, {16, 12}, {-16, 16}, {16, 1 << 17}, {INT64_MAX, 16});
    SIZES_REFUSED(ops, v.of, false, {0, 1}, {1, -1}, {1, (1 << 13) + 1}, {INT64_MAX, 1}, {1, INT64_MIN});
    sg_vae_close(&v);
}

/* Opens the model with one field of its VAE's config changed to JSON text, NULL: left out. */
static sg_status open_changed(int model, const char *key, const char *value)
{
    char   config[512];
    sg_vae v = {0};
    snprintf(config, sizeof config, "%s/vae/config.json", models[model]);
    shell("rm -rf vae && mkdir vae && ln -s '%s'/vae/*.safetensors* vae", models[model]);
    write_changed("vae/config.json", config, key, value);
    e = (sg_error){0};
    const sg_status st = open_at(&v, ".");
    assert_true(st ? !v.of : !!v.of);
    sg_vae_close(&v);
    return st;
}

static void odd_configs_are_refused(void **state)
{
    static const struct {
        int         model;
        const char *key, *value, *says;
    } bad[] = {{LAYER_NORM, "_class_name", "\"CausalVAEModel\"", "_class_name: is \"CausalVAEModel\""},
               {LAYER_NORM, "latent_dim", "0", "latent_dim: should be"},
               {LAYER_NORM, "latent_dim", "4", "scale|4"},
               {LAYER_NORM, "scale", "[1]", "scale|8"},
               {LAYER_NORM, "scale", "[0, 1, 1, 1, 1, 1, 1, 1]", "scale|entry 0"},
               {LAYER_NORM, "shift", "[]", "shift|8"},
               {LAYER_NORM, "base_channels", "0", "base_channels: should be"},
               {LAYER_NORM, "base_channels", "100000", "base_channels: should be"},
               {LAYER_NORM, "base_channels", "16", "misshapen"},
               {LAYER_NORM, "encoder_num_resblocks", "0", "encoder_num_resblocks: should be"},
               {LAYER_NORM, "decoder_num_resblocks", "9", "decoder_num_resblocks: should be"},
               {LAYER_NORM, "connect_res_layer_num", "-1", "connect_res_layer_num: should be"},
               {LAYER_NORM, "connect_res_layer_num", "0", "tensors do not fit"},
               {LAYER_NORM, "encoder_energy_flow_hidden_size", "0", "encoder_energy_flow_hidden_size: should be"},
               {LAYER_NORM, "use_attention", "false", "tensors do not fit"},
               {LAYER_NORM, "norm_type", "\"batchnorm\"", "norm_type: \"batchnorm\"|groupnorm|layernorm"},
               {LAYER_NORM, "norm_type", "\"groupnorm\"", "base_channels: 12|32"},
               {LAYER_NORM, "norm_type", NULL, "base_channels: 12|32"},
               {LAYER_NORM, "t_interpolation", "\"area\"", "t_interpolation: \"area\"|nearest|trilinear"},
               {GROUP_NORM, "decoder_energy_flow_hidden_size", "48", "decoder_energy_flow_hidden_size: 48|32"},
               {GROUP_NORM, "norm_type", "\"layernorm\"", "missing|norm1.norm.weight"},
               {GROUP_NORM, "attention_type", "\"AttnBlock3D\"", "attention_type|AttnBlock3DFix"},
               {GROUP_NORM, "l1_dowmsample_block", "\"TimeDownsample2x\"", "l1_dowmsample_block|Downsample"},
               {GROUP_NORM, "l1_downsample_wavelet", "\"x\"", "l1_downsample_wavelet|HaarWaveletTransform2D"},
               {GROUP_NORM, "l2_dowmsample_block", "\"x\"", "l2_dowmsample_block|Spatial2xTime2x3DDownsample"},
               {GROUP_NORM, "l2_downsample_wavelet", "\"x\"", "l2_downsample_wavelet|HaarWaveletTransform3D"},
               {GROUP_NORM, "l1_upsample_block", "\"x\"", "l1_upsample_block|Upsample"},
               {GROUP_NORM, "l1_upsample_wavelet", "\"x\"", "l1_upsample_wavelet|InverseHaarWaveletTransform2D"},
               {GROUP_NORM, "l2_upsample_block", "\"x\"", "l2_upsample_block|Spatial2xTime2x3DUpsample"},
               {GROUP_NORM, "l2_upsample_wavelet", "\"x\"", "l2_upsample_wavelet|InverseHaarWaveletTransform3D"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(open_changed(bad[i].model, bad[i].key, bad[i].value), SG_E_FORMAT, &e, bad[i].says);
}

static void harmless_changes_are_taken(void **state)
{
    static const struct {
        const char *key, *value;
    } good[] = {{"unheard_of", "{}"},     {"dropout", "0.5"},        {"scale", NULL},     {"shift", "null"},
                {"attention_type", NULL}, {"t_interpolation", NULL}, {"latent_dim", NULL}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (open_changed(LAYER_NORM, good[i].key, good[i].value)) fail_msg("%s: %s", good[i].key, e.text);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(chunks_make_what_the_whole_makes),
                                       cmocka_unit_test(chunks_and_frames_of_latents),
                                       cmocka_unit_test(memory_is_flat),
                                       cmocka_unit_test(one_tile_is_the_whole_frame),
                                       cmocka_unit_test(tiles_take_less_memory),
                                       cmocka_unit_test(wrong_latents_latch),
                                       cmocka_unit_test(impossible_sizes_are_refused),
                                       cmocka_unit_test(odd_configs_are_refused),
                                       cmocka_unit_test(harmless_changes_are_taken)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
