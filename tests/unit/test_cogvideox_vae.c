/* test_cogvideox_vae.c - CogVideoX's decoder and encoder as streams: their chunks, how many frames they make, their memory, what
 * a chunk depends on; and configs that are refused. Golden tests hold the numbers. */
#include "vae_encode.h"
#include "vae_fixture.h"

enum { Y = 1, X = 2 };

static const char        model[] = SG_FIXTURES "/cogvideox_5b"; /* 4 x 4 x 4, 3 levels */
static const sg_vae_ops *ops = &sg_cogvideox_vae_ops;
static sg_backend       *backend;
static sg_error          e;
static sg_checkpoint    *from; /* of the decoder that was opened last */

static sg_status open_at(sg_vae *v, const char *dir)
{
    sg_checkpoint_close(&from);
    SG_TRY(sg_checkpoint_open(&from, dir, &e));
    return sg_vae_open(v, ops, from, SG_F32, &e);
}

static sg_vae open_vae(bool load)
{
    sg_vae v = {0};
    e = (sg_error){0};
    if (open_at(&v, model)) fail_msg("%s", e.text);
    if (load && sg_bind_load(ops->component(v.of)->bind, backend, NULL, NULL, &e)) fail_msg("%s", e.text);
    return v;
}

/* ---- streaming ---- */

/* Latents of a made-up clip from frame `first` on: those of frames from `other` on are those of another clip. */
static void fill(float *z, int channels, int64_t first, int64_t frames, int64_t other)
{
    const int64_t plane = Y * X * channels;
    for (int64_t i = 0; i < frames * plane; i++) {
        const int64_t f = first + i / plane;
        z[i] = (float)sin((f < other ? 1.3 : 2.1) * (double)(f * plane + i % plane));
    }
}

/* Decodes a clip of `total` latent frames; its frames go to out, which may be NULL. How many numbers they have. */
static size_t decode(sg_vae v, sg_stream *s, int64_t total, int64_t other, float *out)
{
    const int z = v.info.z;
    void     *run = NULL;
    size_t    numbers = 0;
    if (ops->decode_open(&run, v.of, s, Y, X, &e)) fail_msg("%s", e.text);
    for (int64_t done = 0, count; done < total; done += count) {
        float     host[3 * Y * X * 16];
        sg_tensor given;
        count = ops->chunk(v.of, total, done);
        assert_true(count >= 1 && count <= 3 && z <= 16);
        s->scratch.used = 0;
        given = sg_new(s, SG_F32, count, Y, X, z);
        fill(host, z, done, count, other);
        sg_upload(s, given, host);
        const size_t    mark = s->scratch.used;
        const sg_tensor y = ops->decode_next(run, s, given, done + count == total);
        if (s->status) fail_msg("%s", s->why);
        assert_int_equal(s->scratch.used, mark + (sg_bytes(y) + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN); /* that only */
        if (out) sg_download(s, out + numbers, y);
        numbers += (size_t)sg_count(y);
    }
    ops->decode_close(&run);
    return numbers;
}

static size_t frame_numbers(sg_vae v)
{
    const int m = v.info.scale_space;
    return (size_t)(Y * m * X * m * 3);
}

static void frames_of_latents(void **state)
{
    const struct {
        int64_t total, chunk[4]; /* chunks, then 0 */
        size_t  frames;
    } of[] = {{1, {1}, 1},     {2, {2}, 8},        {3, {3}, 9},       {4, {2, 2}, 16},
              {5, {3, 2}, 17}, {6, {2, 2, 2}, 24}, {7, {3, 2, 2}, 25}};
    sg_vae v = open_vae(false);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_plan_totals totals = {0};
        sg_stream      s = sg_plan_stream(&totals);
        int            k = 0;
        for (int64_t done = 0; done < of[i].total; done += of[i].chunk[k++])
            assert_int_equal(ops->chunk(v.of, of[i].total, done), of[i].chunk[k]);
        assert_int_equal(decode(v, &s, of[i].total, INT64_MAX, NULL), of[i].frames * frame_numbers(v));
    }
    sg_vae_close(&v);
}

/* What is planned for chunks up to the first that is not special holds for all, and all of it is used. */
static void memory_is_flat(void **state)
{
    sg_vae v = open_vae(false);
    for (int odd = 0; odd < 2; odd++) {
        sg_plan_totals totals = {0};
        sg_stream      few = sg_plan_stream(&totals), many = sg_plan_stream(&totals);
        decode(v, &few, 2 * (ops->special + 1) + odd, INT64_MAX, NULL);
        decode(v, &many, 40 + odd, INT64_MAX, NULL);
        assert_int_equal(few.keep.peak, many.keep.peak);
        assert_int_equal(few.scratch.peak, many.scratch.peak);
    }
    sg_vae_close(&v);
}

/* A clip in memory that is as large as the plan has it. */
static float *decoded(sg_vae v, int64_t total, int64_t other)
{
    sg_plan_totals totals = {0};
    sg_stream      plan = sg_plan_stream(&totals);
    const size_t   numbers = decode(v, &plan, total, other, NULL);
    sg_stream      s = stream_as_planned(backend, &plan);
    float *const   out = malloc(numbers * sizeof *out);
    assert_non_null(out);
    assert_int_equal(decode(v, &s, total, other, out), numbers);
    for (size_t i = 0; i < numbers; i++) assert_true(isfinite(out[i]) && fabsf(out[i]) <= 1);
    assert_int_equal(s.keep.peak, plan.keep.peak);
    assert_int_equal(s.scratch.peak, plan.scratch.peak);
    stream_release(backend, &s);
    return out;
}

/* Frames of a chunk do not see the chunks after it, but those before it, and all of their own. */
static void chunks_follow_the_past_alone(void **state)
{
    sg_vae       v = open_vae(true);
    const size_t n = frame_numbers(v) * sizeof(float);
    float *const whole = decoded(v, 5, INT64_MAX), *const late = decoded(v, 5, 4), *const early = decoded(v, 5, 0);
    char *const a = (char *)whole, *const b = (char *)late, *const c = (char *)early;
    assert_memory_equal(a, b, 9 * n);
    assert_memory_not_equal(a + 9 * n, b + 9 * n, n); /* by its norms alone: the frame is before those that changed */
    assert_memory_not_equal(a, c, n);
    float *const short_one = decoded(v, 3, INT64_MAX);
    assert_memory_equal(whole, short_one, 9 * n);
    float *const even = decoded(v, 4, INT64_MAX), *const start = decoded(v, 2, INT64_MAX);
    assert_memory_equal(even, start, 8 * n);
    assert_memory_not_equal(even, whole, 8 * n);
    free(whole), free(late), free(early), free(short_one), free(even), free(start);
    sg_vae_close(&v);
}

/* ---- encoding ---- */

enum { ROWS = 4 * Y, COLUMNS = 4 * X };

/* A made-up clip; its frames from *other on are those of another one. */
static void fill_clip(const void *other, float *rgb, int64_t first, int64_t count)
{
    const int64_t plane = 3 * ROWS * COLUMNS;
    for (int64_t i = 0; i < count * plane; i++)
        rgb[i] = (float)sin((first + i / plane < *(const int64_t *)other ? 1.3 : 2.1) * (double)(first * plane + i));
}

static bool go_on(void *context, int done, int total)
{
    *(int *)context = total;
    return done > total;
}

/* Encodes a clip, to out unless s is a plan; how many chunks it has. */
static int encode(sg_vae v, sg_stream *s, int64_t total, int64_t other, float *out)
{
    const int64_t     latent[4] = {v.info.z, (total - 1) / 4 + 1, Y, X};
    const sg_vae_clip clip = {total, ROWS, COLUMNS, .fill = fill_clip, .context = &other};
    int               chunks = 0;
    sg_vae_encode(&v, s, &clip, latent, out, (sg_watch){go_on, &chunks});
    if (s->status) fail_msg("%s", s->why);
    return chunks;
}

static void frames_are_encoded_in_eights(void **state)
{
    const struct {
        int64_t total, chunk[4]; /* chunks, then 0 */
    } of[] = {{1, {1}}, {5, {5}}, {7, {7}}, {8, {8}}, {9, {9}}, {15, {15}}, {16, {8, 8}}, {27, {11, 8, 8}}};
    sg_vae v = open_vae(false);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_plan_totals totals = {0};
        sg_stream      s = sg_plan_stream(&totals);
        int            k = 0;
        for (int64_t done = 0; done < of[i].total; done += of[i].chunk[k++])
            assert_int_equal(ops->encode_chunk(v.of, of[i].total, done), of[i].chunk[k]);
        assert_int_equal(encode(v, &s, of[i].total, INT64_MAX, NULL), k);
    }
    sg_vae_close(&v);
}

/* In memory that is as large as the plan of a shorter clip has it. */
static float *encoded(sg_vae v, int64_t total, int64_t other)
{
    sg_plan_totals totals = {0};
    sg_stream      plan = sg_plan_stream(&totals);
    float *const   out = malloc((size_t)(2 * v.info.z * (total / 4 + 1) * Y * X) * sizeof *out);
    encode(v, &plan, 17, INT64_MAX, NULL);
    sg_stream s = stream_as_planned(backend, &plan);
    assert_non_null(out);
    encode(v, &s, total, other, out);
    assert_int_equal(s.keep.peak, plan.keep.peak);
    assert_int_equal(s.scratch.peak, plan.scratch.peak);
    stream_release(backend, &s);
    return out;
}

/* Latents of a chunk do not see the chunks after it. Those of a channel's first chunk are 3, of 7. */
static void latents_follow_the_past_alone(void **state)
{
    sg_vae v = open_vae(false);
    if (sg_bind_load(ops->encoder(v.of)->bind, backend, NULL, NULL, &e)) fail_msg("%s", e.text);
    float *const whole = encoded(v, 25, INT64_MAX), *const late = encoded(v, 25, 9);
    const size_t  one = Y * X * sizeof(float);
    const int64_t channels = 2 * v.info.z;
    for (int64_t c = 0; c < channels; c++) {
        const float *const a = whole + c * 7 * Y * X, *const b = late + c * 7 * Y * X;
        assert_memory_equal(a, b, 3 * one);
        assert_memory_not_equal(a + 3 * Y * X, b + 3 * Y * X, one);
        for (int i = 0; i < 7 * Y * X; i++) assert_true(isfinite(a[i]));
    }
    free(whole), free(late);
    sg_vae_close(&v);
}

static void wrong_latents_latch(void **state)
{
    sg_vae    v = open_vae(false);
    const int z = v.info.z;
    LATCHES(ops, v.of, Y, X, true, {1, Y, X, z + 1}, {2, Y, X + 1, z}, {2, Y + 1, X, z});
    sg_vae_close(&v);
}

static void impossible_sizes_are_refused(void **state)
{
    sg_vae v = open_vae(false);
    SIZES_REFUSED(ops, v.of, false, {0, 1}, {1, -1}, {1, (1 << 14) + 1}, {INT64_MAX, 1}, {1, INT64_MIN});
    SIZES_REFUSED(ops, v.of, true, {0, 4}, {4, -4}, {4, 6}, {7, 8}, {4, (1 << 16) + 4}, {INT64_MIN, 4});
    sg_vae_close(&v);
}

/* ---- refused configs ---- */

/* Opens the model with one field of its config changed to JSON text, NULL: left out. */
static sg_status open_changed(const char *key, const char *value)
{
    write_changed("vae/config.json", SG_FIXTURES "/cogvideox_5b/vae/config.json", key, value);
    sg_vae v = {0};
    e = (sg_error){0};
    const sg_status st = open_at(&v, ".");
    assert_true(st ? !v.of : !!v.of);
    sg_vae_close(&v);
    return st;
}

static void odd_configs_are_refused(void **state)
{
    static const struct {
        const char *key, *value, *says;
    } bad[] = {{"_class_name", "\"AutoencoderKLWan\"", "_class_name: is \"AutoencoderKLWan\""},
               {"block_out_channels", NULL, "block_out_channels: is missing"},
               {"block_out_channels", "[]", "block_out_channels|list"},
               {"block_out_channels", "[8, 8, 8, 8, 8, 8, 8, 8, 8]", "block_out_channels|list"},
               {"block_out_channels", "[8, 15, 24]", "block_out_channels: 15|norm_num_groups"},
               {"block_out_channels", "[8, 16, 100000]", "block_out_channels|entry 2"},
               {"block_out_channels", "[8, 16]", "temporal_compression_ratio: 4|2 levels"},
               {"temporal_compression_ratio", "3", "temporal_compression_ratio: 3|3 levels"},
               {"temporal_compression_ratio", "8", "temporal_compression_ratio: 8|3 levels"},
               {"temporal_compression_ratio", "2.5", "temporal_compression_ratio: should be"},
               {"norm_num_groups", "0", "norm_num_groups: should be"},
               {"norm_num_groups", "3", "the 3 norm_num_groups"},
               {"layers_per_block", "0", "layers_per_block: should be"},
               {"layers_per_block", "9", "layers_per_block: should be"},
               {"layers_per_block", "1", "tensors do not fit"},
               {"latent_channels", "0", "latent_channels: should be"},
               {"latent_channels", "7", "misshapen: decoder.conv_in.conv.weight"},
               {"scaling_factor", "0", "scaling_factor: should be"},
               {"out_channels", "4", "out_channels: only 3"},
               {"act_fn", "\"gelu\"", "act_fn: \"gelu\""},
               {"use_post_quant_conv", "true", "use_post_quant_conv: true"},
               {"use_quant_conv", "true", "use_quant_conv: true"},
               {"in_channels", "4", "in_channels: only 3"},
               {"norm_eps", "2", "norm_eps: should be"},
               {"invert_scale_latents", "1", "invert_scale_latents: should be"},
               {"down_block_types", "[\"A\", \"A\", \"A\"]", "down_block_types: \"A\""},
               {"up_block_types", "[\"CogVideoXUpBlock3D\"]", "up_block_types: 1|block_out_channels|has 3"},
               {"up_block_types", "[\"A\", \"A\", \"A\"]", "up_block_types: \"A\""}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(open_changed(bad[i].key, bad[i].value), SG_E_FORMAT, &e, bad[i].says);
}

static void harmless_changes_are_taken(void **state)
{
    static const struct {
        const char *key, *value;
    } good[] = {{"unheard_of", "{}"},       {"norm_eps", "1e-3"},    {"sample_height", "7"}, {"act_fn", "\"swish\""},
                {"up_block_types", "null"}, {"scaling_factor", "2"}, {"act_fn", NULL},       {"norm_num_groups", "4"}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (open_changed(good[i].key, good[i].value)) fail_msg("%s: %s", good[i].key, e.text);
}

static int set_up(void **state)
{
    if (enter_folder(state)) return -1;
    shell("mkdir vae && ln -s '%s'/vae/*.safetensors* vae", model);
    return sg_backend_open(&backend, &(sg_backend_options){.name = "ref"}, &e) != SG_OK;
}

static int tear_down(void **state)
{
    sg_checkpoint_close(&from);
    sg_backend_close(&backend);
    return leave_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames_of_latents),
                                       cmocka_unit_test(memory_is_flat),
                                       cmocka_unit_test(chunks_follow_the_past_alone),
                                       cmocka_unit_test(frames_are_encoded_in_eights),
                                       cmocka_unit_test(latents_follow_the_past_alone),
                                       cmocka_unit_test(wrong_latents_latch),
                                       cmocka_unit_test(impossible_sizes_are_refused),
                                       cmocka_unit_test(odd_configs_are_refused),
                                       cmocka_unit_test(harmless_changes_are_taken)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
