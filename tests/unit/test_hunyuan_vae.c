/* test_hunyuan_vae.c - HunyuanVideo's VAE: frames and latents against diffusers', whole, in windows and in tiles; chunks and
 * memory; configs that it refuses. */
#include "backend.h"
#include "hunyuan_vae.h"
#include "hunyuan_vae_table.h"
#include "meta.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "made_file.h"

static const sg_vae_ops *ops = &sg_hunyuan_vae_ops;
static sg_backend       *backend[2];
static sg_error          e;

/* ---- made-up models: as in make_hunyuan_vae_table.py ---- */

enum { MODELS = 2, LEVELS_MAX = 4 };

typedef struct made {
    int         levels, channels[LEVELS_MAX];   /* from the pixels on */
    bool        attention, changes[LEVELS_MAX]; /* changes: which levels resample */
    const char *config;
} made;

#define UP "\"HunyuanVideoUpBlock3D\""
#define DOWN "\"HunyuanVideoDownBlock3D\""
#define COMMON                                                                                                         \
    "\"_class_name\": \"AutoencoderKLHunyuanVideo\", \"latent_channels\": 3, \"layers_per_block\": 1,"                 \
    "\"norm_num_groups\": 2, \"scaling_factor\": 0.75, \"temporal_compression_ratio\": 4,"

static const made models[MODELS] = {
    {3,
     {4, 4, 8},
     .changes = {true, true},
     .attention = true,
     .config = "{" COMMON "\"block_out_channels\": [4, 4, 8], \"spatial_compression_ratio\": 2,"
               "\"up_block_types\": [" UP "," UP "," UP "], \"down_block_types\": [" DOWN "," DOWN "," DOWN "]}"},
    {4,
     {4, 8, 4, 6},
     .changes = {true, true, true},
     .config = "{" COMMON "\"block_out_channels\": [4, 8, 4, 6], \"mid_block_add_attention\": false}"},
};

typedef struct file {
    made_file made;
    char      prefix[64];
} file;

static void put(file *f, const char *part, const char *kind, int rank, const int64_t *dim)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s.%s", f->prefix, part, kind);
    const sg_tensor t = made_file_put(&f->made, name, name, SG_F32, rank, dim);
    for (int64_t i = 0; strstr(name, "conv_out") && i < sg_count(t); i++) ((float *)t.data)[i] *= 0.125f;
}

/* Weights [o, i, k, k, k], without k [o, i], without i [o], and biases. */
static void put_pair(file *f, const char *part, int64_t o, int64_t i, int64_t k)
{
    put(f, part, "weight", k ? 5 : i ? 2 : 1, (int64_t[]){o, i, k, k, k});
    put(f, part, "bias", 1, &o);
}

static void put_block(file *f, const char *prefix, int64_t i, int64_t o)
{
    snprintf(f->prefix, sizeof f->prefix, "%s", prefix);
    put_pair(f, "norm1", i, 0, 0);
    put_pair(f, "conv1.conv", o, i, 3);
    put_pair(f, "norm2", o, 0, 0);
    put_pair(f, "conv2.conv", o, o, 3);
    if (i != o) put_pair(f, "conv_shortcut.conv", o, i, 1);
}

static void put_middle(file *f, const made *m, const char *side, int64_t c)
{
    char                     prefix[48];
    static const char *const maps[] = {"to_q", "to_k", "to_v", "to_out.0"};
    for (int j = 0; j < 2; j++) {
        snprintf(prefix, sizeof prefix, "%s.mid_block.resnets.%d.", side, j);
        put_block(f, prefix, c, c);
    }
    if (!m->attention) return;
    snprintf(f->prefix, sizeof f->prefix, "%s.mid_block.attentions.0.", side);
    put_pair(f, "group_norm", c, 0, 0);
    for (int k = 0; k < 4; k++) put_pair(f, maps[k], c, c, 0);
}

/* The decoder, or the encoder, which has a block less a level. */
static void put_coder(file *f, const made *m, bool up, int64_t in, int64_t out)
{
    const char *const side = up ? "decoder" : "encoder", *const way = up ? "up" : "down";
    const int64_t wide = m->channels[m->levels - 1];
    int64_t       c = up ? wide : m->channels[0];
    char          prefix[64];
    snprintf(f->prefix, sizeof f->prefix, "%s.", side);
    put_pair(f, "conv_in.conv", c, in, 3);
    put_pair(f, "conv_norm_out", up ? m->channels[0] : wide, 0, 0);
    put_pair(f, "conv_out.conv", out, up ? m->channels[0] : wide, 3);
    put_middle(f, m, side, wide);
    for (int i = 0; i < m->levels; i++) {
        const int64_t o = m->channels[up ? m->levels - 1 - i : i];
        for (int j = 0; j < 1 + up; j++) {
            snprintf(prefix, sizeof prefix, "%s.%s_blocks.%d.resnets.%d.", side, way, i, j);
            put_block(f, prefix, j ? o : c, o);
        }
        snprintf(f->prefix, sizeof f->prefix, "%s.%s_blocks.%d.%ssamplers.0.", side, way, i, way);
        if (m->changes[i]) put_pair(f, "conv.conv", o, o, 3);
        c = o;
    }
}

static void write_model(const made *m)
{
    static file f;
    *f.prefix = '\0';
    put_pair(&f, "post_quant_conv", TABLE_LATENT, TABLE_LATENT, 1);
    put_pair(&f, "quant_conv", 2 * TABLE_LATENT, 2 * TABLE_LATENT, 1);
    put_coder(&f, m, true, TABLE_LATENT, 3);
    put_coder(&f, m, false, 3, 2 * TABLE_LATENT);
    write_text(in_folder("vae/config.json"), m->config);
    made_file_write(&f.made, in_folder("vae/diffusion_pytorch_model.safetensors"));
}

static sg_hunyuan_vae *open_vae(int model)
{
    sg_hunyuan_vae *v = NULL;
    e = (sg_error){0};
    write_model(&models[model]);
    if (sg_hunyuan_vae_open(&v, from, SG_F32, &e)) fail_msg("%s", e.text);
    return v;
}

/* ---- frames ---- */

/* Decodes made-up latents, or encodes a made-up clip, both the same for every length up to it; what comes goes to out,
 * which may be NULL. How many numbers they have. */
static size_t work(sg_hunyuan_vae *v, bool encodes, sg_stream *s, int64_t f, int64_t y, int64_t x, float *out)
{
    const int64_t   c = encodes ? 3 : TABLE_LATENT;
    const size_t    n = (size_t)(f * y * x * c);
    float *const    host = malloc(n * sizeof *host);
    const sg_tensor given = sg_new_keep(s, SG_F32, f, y, x, c);
    void           *run = NULL;
    size_t          numbers = 0;
    assert_non_null(host);
    for (uint32_t i = 0; i < n; i++) host[i] = encodes ? made_up("clip", i) : 2 * made_up("latents", i);
    sg_upload(s, given, host);
    free(host);
    if ((encodes ? ops->encode_open : ops->decode_open)(&run, v, s, y, x, &e)) fail_msg("%s", e.text);
    for (int64_t done = 0, count; done < f; done += count) {
        count = (encodes ? ops->encode_chunk : ops->chunk)(v, f, done);
        s->scratch.used = 0;
        const sg_tensor z = sg_rows(given, done, count);
        const sg_tensor come = encodes ? ops->encode_next(run, s, z) : ops->decode_next(run, s, z, done + count == f);
        if (s->status) fail_msg("%s", s->why);
        assert_int_equal(s->scratch.used, (sg_bytes(come) + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN); /* that only */
        if (out) sg_download(s, out + numbers, come);
        numbers += (size_t)sg_count(come);
    }
    (encodes ? ops->encode_close : ops->decode_close)(&run);
    return numbers;
}

/* The same in memory that is NaN to begin with and as large as the plan has it; the caller frees it. */
static float *worked(sg_hunyuan_vae *v, bool encodes, sg_backend *b, int64_t f, int64_t y, int64_t x, size_t *numbers)
{
    sg_plan_totals  totals = {.backend = b};
    sg_stream       plan = sg_plan_stream(&totals), s = sg_stream_of(b);
    float *const    out = malloc((*numbers = work(v, encodes, &plan, f, y, x, NULL)) * sizeof *out);
    sg_bind *const  bind = (encodes ? ops->encoder : ops->component)(v)->bind;
    sg_arena *const arena[2] = {&s.keep, &s.scratch};
    const size_t    need[2] = {plan.keep.peak, plan.scratch.peak};
    if (sg_bind_load(bind, b, NULL, NULL, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < 2; i++) {
        void *const block = s.memory->alloc(b, need[i]);
        assert_non_null(block);
        memset(block, 0xff, need[i]);
        *arena[i] = (sg_arena){.base = (uintptr_t)block, .cap = need[i]};
    }
    assert_non_null(out);
    assert_int_equal(work(v, encodes, &s, f, y, x, out), *numbers);
    assert_int_equal(s.keep.peak, need[0]);
    assert_int_equal(s.scratch.peak, need[1]);
    for (int i = 0; i < 2; i++) s.memory->release(b, (void *)arena[i]->base);
    sg_backend_drop_packed(b);
    sg_bind_unload(bind);
    return out;
}

static size_t decode(sg_hunyuan_vae *v, sg_stream *s, int64_t f, int64_t y, int64_t x, float *out)
{
    return work(v, false, s, f, y, x, out);
}

static float *decoded(sg_hunyuan_vae *v, sg_backend *b, int64_t f, int64_t y, int64_t x, size_t *numbers)
{
    return worked(v, false, b, f, y, x, numbers);
}

/* Against a row of the table on both backends. */
static void check_case(const table_case *t, bool encodes)
{
    for (int b = 0; b < 2; b++) {
        sg_hunyuan_vae *v = open_vae(t->model);
        size_t          n;
        double          sum[TABLE_SUMS] = {0};
        assert_true(ops->set_tiles(v, t->tiled));
        float *const out = worked(v, encodes, backend[b], t->f, t->y, t->x, &n);
        assert_int_equal(n, t->numbers);
        for (size_t i = 0; i < n; i++) sum[i % TABLE_SUMS] += (double)out[i];
        for (int i = 0; i < TABLE_SUMS; i++)
            if (!(fabs(sum[i] - t->sum[i]) <= 1e-5 + 2e-6 * (double)n / TABLE_SUMS))
                fail_msg("%dx%dx%d, %s: sum %d is %.9g, should be %.9g", t->f, t->y, t->x, backend[b]->name, i, sum[i],
                         t->sum[i]);
        free(out);
        sg_hunyuan_vae_close(&v);
    }
}

static void frames_are_those_of_diffusers(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof table_decoded / sizeof *table_decoded; k++) check_case(&table_decoded[k], false);
}

static void latents_are_those_of_diffusers(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof table_encoded / sizeof *table_encoded; k++) check_case(&table_encoded[k], true);
}

/* ---- windows ---- */

static void chunks_and_frames_of_latents(void **state)
{
    (void)state;
    static const int64_t chunks[][5] = {{1},    {2},       {3},       {4},       {5},          {5, 1},      {5, 2},
                                        {5, 3}, {5, 3, 1}, {5, 3, 2}, {5, 3, 3}, {5, 3, 3, 1}, {5, 3, 3, 2}};
    sg_hunyuan_vae      *v = open_vae(0);
    for (int64_t f = 1; f <= (int64_t)(sizeof chunks / sizeof *chunks); f++) {
        sg_plan_totals totals = {0};
        sg_stream      s = sg_plan_stream(&totals);
        int            k = 0;
        for (int64_t done = 0; done < f; done += chunks[f - 1][k++])
            assert_int_equal(ops->chunk(v, f, done), chunks[f - 1][k]);
        assert_int_equal(decode(v, &s, f, 1, 2, NULL), (4 * (f - 1) + 1) * 2 * 4 * 3);
    }
    sg_hunyuan_vae_close(&v);
}

/* What is planned for the first chunks and the last holds for all; only what is given, which is the engine's, grows. */
static void memory_is_flat(void **state)
{
    (void)state;
    sg_hunyuan_vae *v = open_vae(1);
    for (int tiled = 0; tiled < 2; tiled++)
        for (int64_t f = 9; f < 12; f++) {
            sg_plan_totals totals = {0};
            sg_stream      few = sg_plan_stream(&totals), many = sg_plan_stream(&totals);
            assert_true(ops->set_tiles(v, tiled));
            decode(v, &few, f, 40, 4, NULL);
            decode(v, &many, f + 60, 40, 4, NULL);
            assert_int_equal(few.scratch.peak, many.scratch.peak);
            assert_int_equal(many.keep.peak - few.keep.peak, 60 * 40 * 4 * TABLE_LATENT * sizeof(float));
        }
    sg_plan_totals totals = {0};
    sg_stream      few = sg_plan_stream(&totals), many = sg_plan_stream(&totals);
    work(v, true, &few, 29, 16, 8, NULL);
    work(v, true, &many, 29 + 48, 16, 8, NULL);
    assert_int_equal(few.scratch.peak, many.scratch.peak);
    assert_int_equal(many.keep.peak - few.keep.peak, 48 * 16 * 8 * 3 * sizeof(float));
    sg_hunyuan_vae_close(&v);
}

static void tiles_take_less_memory(void **state)
{
    (void)state;
    sg_hunyuan_vae *v = open_vae(1);
    size_t          peak[2];
    for (int tiled = 0; tiled < 2; tiled++) {
        sg_plan_totals totals = {0};
        sg_stream      s = sg_plan_stream(&totals);
        assert_true(ops->set_tiles(v, tiled));
        decode(v, &s, 8, 90, 160, NULL);
        peak[tiled] = s.scratch.peak;
    }
    assert_true(peak[1] < peak[0] / 2);
    sg_hunyuan_vae_close(&v);
}

/* Frames of a chunk do not see the chunks after it; those that no window has to itself are blends of both. */
static void windows_follow_the_past_alone(void **state)
{
    (void)state;
    sg_hunyuan_vae *v = open_vae(0);
    const size_t    frame = 2 * 4 * 3;
    size_t          n[3];
    float *const few = decoded(v, backend[1], 5, 1, 2, &n[0]), *const more = decoded(v, backend[1], 8, 1, 2, &n[1]),
                 *const most = decoded(v, backend[1], 9, 1, 2, &n[2]);
    char *const a = (char *)few, *const b = (char *)more, *const c = (char *)most;
    const size_t bytes = frame * sizeof(float);
    assert_memory_equal(a, b, 14 * bytes); /* the first blended frame is the earlier window's */
    assert_memory_not_equal(a + 14 * bytes, b + 14 * bytes, 3 * bytes);
    assert_memory_equal(b, c, 26 * bytes);
    assert_memory_not_equal(b + 26 * bytes, c + 26 * bytes, 3 * bytes);
    free(few), free(more), free(most);
    sg_hunyuan_vae_close(&v);
}

static void wrong_latents_latch(void **state)
{
    (void)state;
    sg_hunyuan_vae *v = open_vae(0);
    const int64_t   bad[][4] = {{2, 1, 2, TABLE_LATENT + 1}, {5, 1, 3, TABLE_LATENT}, {5, 2, 2, TABLE_LATENT}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sg_plan_totals totals = {0};
        sg_stream      s = sg_plan_stream(&totals);
        void          *run = NULL;
        assert_int_equal(ops->decode_open(&run, v, &s, 1, 2, &e), SG_OK);
        ops->decode_next(run, &s, sg_alloc(&s, &s.scratch, SG_F32, 4, bad[i]), false);
        assert_int_equal(s.status, SG_E_SHAPE);
        ops->decode_close(&run);
    }
    sg_hunyuan_vae_close(&v);
}

static void impossible_sizes_are_refused(void **state)
{
    (void)state;
    sg_hunyuan_vae *v = open_vae(1);
    sg_plan_totals  totals = {0};
    sg_stream       s = sg_plan_stream(&totals);
    const int64_t   places[][2] = {{0, 1}, {1, -1}, {1, (1 << 13) + 1}, {INT64_MAX, 1}, {1, INT64_MIN}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        void *run = v;
        e = (sg_error){0};
        assert_int_equal(ops->decode_open(&run, v, &s, places[i][0], places[i][1], &e), SG_E_ARG);
        assert_null(run);
        run = v;
        e = (sg_error){0};
        assert_int_equal(ops->encode_open(&run, v, &s, places[i][0], places[i][1], &e), SG_E_ARG);
        assert_null(run);
    }
    sg_hunyuan_vae_close(&v);
}

/* ---- refused configs ---- */

/* Opens the second model with one field more in its config, in JSON; of two fields of a name the reader would complain. */
static sg_status open_with(const char *key, const char *value)
{
    static char     text[1024], old[48];
    const made      m = models[1];
    sg_hunyuan_vae *v = NULL;
    snprintf(old, sizeof old, "\"%s\": ", key);
    const char *const there = strstr(m.config, old);
    size_t            length = there ? strcspn(there + strlen(old), there[strlen(old)] == '[' ? "]" : ",}") : 0;
    if (there && there[strlen(old)] == '[') length++;
    snprintf(text, sizeof text, "%.*s\"%s\": %s%s%s", there ? (int)(there - m.config) : 1, m.config, key, value,
             there ? "" : ",", there ? there + strlen(old) + length : m.config + 1);
    write_text(in_folder("vae/config.json"), text);
    e = (sg_error){0};
    const sg_status st = sg_hunyuan_vae_open(&v, from, SG_F32, &e);
    assert_true(st ? !v : !!v);
    sg_hunyuan_vae_close(&v);
    return st;
}

static void odd_configs_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *says;
    } bad[] = {
        {"_class_name", "\"AutoencoderKLWan\"", "_class_name: is \"AutoencoderKLWan\""},
        {"block_out_channels", "null", "block_out_channels: is missing"},
        {"block_out_channels", "[2, 2, 2, 2, 2, 2, 2, 2, 2]", "block_out_channels: should be a list"},
        {"block_out_channels", "[4, 8, 3, 6]", "block_out_channels: 3 is no multiple of the 2 norm_num_groups"},
        {"block_out_channels", "[4, 8, 4, 100000]", "block_out_channels: entry 3 should be"},
        {"block_out_channels", "[4, 8]", "block_out_channels: 2 entries are too few for a temporal_compression_ratio"},
        {"block_out_channels", "[4, 8, 4]", "up_block_types: 4 of them, but block_out_channels has 3"},
        {"temporal_compression_ratio", "8", "temporal_compression_ratio: 8 is not supported; only 4 is"},
        {"spatial_compression_ratio", "32", "spatial_compression_ratio: 32, but 4 levels make powers of 2 up to 16"},
        {"spatial_compression_ratio", "6", "spatial_compression_ratio: 6, but 4 levels"},
        {"spatial_compression_ratio", "16", "missing: decoder.up_blocks.3.upsamplers.0.conv.conv.weight"},
        {"spatial_compression_ratio", "0", "spatial_compression_ratio: should be"},
        {"norm_num_groups", "0", "norm_num_groups: should be"},
        {"norm_num_groups", "4", "is no multiple of the 4 norm_num_groups"},
        {"layers_per_block", "0", "layers_per_block: should be"},
        {"layers_per_block", "9", "layers_per_block: should be"},
        {"layers_per_block", "2", "the tensors do not fit this model"},
        {"latent_channels", "0", "latent_channels: should be"},
        {"latent_channels", "7", "misshapen: post_quant_conv.weight"},
        {"scaling_factor", "0", "scaling_factor: should be"},
        {"in_channels", "4", "in_channels: only 3"},
        {"out_channels", "4", "out_channels: only 3"},
        {"act_fn", "\"gelu\"", "act_fn: \"gelu\" is not supported"},
        {"mid_block_add_attention", "true", "missing: decoder.mid_block.attentions.0"},
        {"mid_block_add_attention", "1", "mid_block_add_attention: should be"},
        {"up_block_types", "[" UP "]", "up_block_types: 1 of them, but block_out_channels has 4"},
        {"up_block_types", "[" UP ", " UP ", " UP ", " DOWN "]", "up_block_types: " DOWN " is not supported"},
        {"down_block_types", "[]", "down_block_types: should be a list"}};
    write_model(&models[1]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (open_with(bad[i].key, bad[i].value) != SG_E_FORMAT) fail_msg("%s: %s is taken", bad[i].key, bad[i].value);
        if (!strstr(e.text, bad[i].says)) fail_msg("\"%s\" does not say \"%s\"", e.text, bad[i].says);
    }
}

static void harmless_changes_are_taken(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value;
    } good[] = {{"unheard_of", "{}"}, {"act_fn", "\"swish\""},  {"act_fn", "null"},        {"scaling_factor", "null"},
                {"in_channels", "3"}, {"norm_num_groups", "1"}, {"up_block_types", "null"}};
    write_model(&models[1]);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (open_with(good[i].key, good[i].value)) fail_msg("%s: %s", good[i].key, e.text);
}

static int set_up(void **state)
{
    return make_folder(state) || sg_backend_open(&backend[0], &(sg_backend_options){.name = "ref"}, &e) ||
           sg_backend_open(&backend[1], &(sg_backend_options){.name = "cpu", .threads = 1}, &e);
}

static int tear_down(void **state)
{
    for (int b = 0; b < 2; b++) sg_backend_close(&backend[b]);
    return remove_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_those_of_diffusers), cmocka_unit_test(latents_are_those_of_diffusers),
        cmocka_unit_test(chunks_and_frames_of_latents),  cmocka_unit_test(memory_is_flat),
        cmocka_unit_test(tiles_take_less_memory),        cmocka_unit_test(windows_follow_the_past_alone),
        cmocka_unit_test(wrong_latents_latch),           cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(odd_configs_are_refused),       cmocka_unit_test(harmless_changes_are_taken)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
