/* kl_fixture.h - small VAEs of kl_coder.h with made-up weights, as make_kl_vae_table.py and make_hunyuan_vae_table.py make
 * them too, at work: against a table of what diffusers computes. Include it behind the table. */
#ifndef SG_KL_FIXTURE_H
#define SG_KL_FIXTURE_H

#include "made_file.h"
#include "vae_fixture.h"

enum { LEVELS_MAX = 4 };

/* Of a block a level in the encoder. */
typedef struct kl_made {
    bool        video, attention, plain;      /* plain: without quant_conv and post_quant_conv */
    int         levels, channels[LEVELS_MAX]; /* from the pixels on */
    bool        changes[LEVELS_MAX];          /* which levels resample */
    const char *config;
} kl_made;

static sg_backend *backend[2];
static sg_error    e;

static sg_vae open_vae(int model); /* the test's own */

/* ---- made-up models ---- */

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

/* Weights [o, i], without i [o], and biases. */
static void put_pair(file *f, const char *part, int64_t o, int64_t i)
{
    put(f, part, "weight", i ? 2 : 1, (int64_t[]){o, i});
    put(f, part, "bias", 1, &o);
}

/* Weights [o, i, k, k, k], of an image [o, i, k, k], and biases. */
static void put_conv(file *f, const kl_made *m, const char *part, int64_t o, int64_t i, int64_t k)
{
    char name[32];
    snprintf(name, sizeof name, "%s%s", part, m->video && !strstr(part, "quant") ? ".conv" : "");
    put(f, name, "weight", m->video ? 5 : 4, (int64_t[]){o, i, k, k, k});
    put(f, name, "bias", 1, &o);
}

static void put_block(file *f, const kl_made *m, const char *prefix, int64_t i, int64_t o)
{
    snprintf(f->prefix, sizeof f->prefix, "%s", prefix);
    put_pair(f, "norm1", i, 0);
    put_conv(f, m, "conv1", o, i, 3);
    put_pair(f, "norm2", o, 0);
    put_conv(f, m, "conv2", o, o, 3);
    if (i != o) put_conv(f, m, "conv_shortcut", o, i, 1);
}

static void put_middle(file *f, const kl_made *m, const char *side, int64_t c)
{
    char                     prefix[48];
    static const char *const maps[] = {"to_q", "to_k", "to_v", "to_out.0"};
    for (int j = 0; j < 2; j++) {
        snprintf(prefix, sizeof prefix, "%s.mid_block.resnets.%d.", side, j);
        put_block(f, m, prefix, c, c);
    }
    if (!m->attention) return;
    snprintf(f->prefix, sizeof f->prefix, "%s.mid_block.attentions.0.", side);
    put_pair(f, "group_norm", c, 0);
    for (int k = 0; k < 4; k++) put_pair(f, maps[k], c, c);
}

/* The decoder, or the encoder, which has a block less a level. */
static void put_coder(file *f, const kl_made *m, bool up, int64_t in, int64_t out)
{
    const char *const side = up ? "decoder" : "encoder", *const way = up ? "up" : "down";
    const int64_t wide = m->channels[m->levels - 1];
    int64_t       c = up ? wide : m->channels[0];
    char          prefix[64];
    snprintf(f->prefix, sizeof f->prefix, "%s.", side);
    put_conv(f, m, "conv_in", c, in, 3);
    put_pair(f, "conv_norm_out", up ? m->channels[0] : wide, 0);
    put_conv(f, m, "conv_out", out, up ? m->channels[0] : wide, 3);
    put_middle(f, m, side, wide);
    for (int i = 0; i < m->levels; i++) {
        const int64_t o = m->channels[up ? m->levels - 1 - i : i];
        for (int j = 0; j < 1 + up; j++) {
            snprintf(prefix, sizeof prefix, "%s.%s_blocks.%d.resnets.%d.", side, way, i, j);
            put_block(f, m, prefix, j ? o : c, o);
        }
        snprintf(f->prefix, sizeof f->prefix, "%s.%s_blocks.%d.%ssamplers.0.", side, way, i, way);
        if (m->changes[i]) put_conv(f, m, "conv", o, o, 3);
        c = o;
    }
}

static void write_model(const kl_made *m)
{
    static file f;
    *f.prefix = '\0';
    if (!m->plain) put_conv(&f, m, "post_quant_conv", TABLE_LATENT, TABLE_LATENT, 1);
    if (!m->plain) put_conv(&f, m, "quant_conv", 2 * TABLE_LATENT, 2 * TABLE_LATENT, 1);
    put_coder(&f, m, true, TABLE_LATENT, 3);
    put_coder(&f, m, false, 3, 2 * TABLE_LATENT);
    write_text("vae/config.json", m->config);
    made_file_write(&f.made, "vae/diffusion_pytorch_model.safetensors");
}

/* ---- at work ---- */

/* Decodes made-up latents, or encodes a made-up clip, both the same for every length up to it; what comes goes to out,
 * which may be NULL. How many numbers they have. */
static size_t work(const sg_vae *v, bool encodes, sg_stream *s, int64_t f, int64_t y, int64_t x, float *out)
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
    if ((encodes ? v->ops->encode_open : v->ops->decode_open)(&run, v->of, s, y, x, &e)) fail_msg("%s", e.text);
    for (int64_t done = 0, count; done < f; done += count) {
        count = (encodes ? v->ops->encode_chunk : v->ops->chunk)(v->of, f, done);
        s->scratch.used = 0;
        const sg_tensor z = sg_rows(given, done, count);
        const sg_tensor come =
            encodes ? v->ops->encode_next(run, s, z) : v->ops->decode_next(run, s, z, done + count == f);
        if (s->status) fail_msg("%s", s->why);
        assert_int_equal(s->scratch.used, (sg_bytes(come) + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN); /* that only */
        if (out) sg_download(s, out + numbers, come);
        numbers += (size_t)sg_count(come);
    }
    (encodes ? v->ops->encode_close : v->ops->decode_close)(&run);
    return numbers;
}

/* The same in memory that is as large as the plan has it; the caller frees it. */
static float *worked(const sg_vae *v, bool encodes, sg_backend *b, int64_t f, int64_t y, int64_t x, size_t *numbers)
{
    sg_plan_totals totals = {.backend = b};
    sg_stream      plan = sg_plan_stream(&totals);
    float *const   out = malloc((*numbers = work(v, encodes, &plan, f, y, x, NULL)) * sizeof *out);
    sg_bind *const bind = (encodes ? v->ops->encoder : v->ops->component)(v->of)->bind;
    sg_stream      s = stream_as_planned(b, &plan);
    assert_done(sg_bind_load(bind, b, NULL, NULL, &e), &e);
    assert_non_null(out);
    assert_int_equal(work(v, encodes, &s, f, y, x, out), *numbers);
    assert_int_equal(s.keep.peak, plan.keep.peak);
    assert_int_equal(s.scratch.peak, plan.scratch.peak);
    stream_release(b, &s);
    sg_backend_drop_packed(b);
    sg_bind_unload(bind);
    return out;
}

/* Against a row of the table on both backends. */
static void check_case(const table_case *t, bool encodes)
{
    for (int b = 0; b < 2; b++) {
        const sg_vae v = open_vae(t->model);
        size_t       n;
        double       sum[TABLE_SUMS] = {0};
        assert_true(v.ops->set_tiles(v.of, t->tiled));
        float *const out = worked(&v, encodes, backend[b], t->f, t->y, t->x, &n);
        assert_int_equal(n, t->numbers);
        for (size_t i = 0; i < n; i++) sum[i % TABLE_SUMS] += (double)out[i];
        for (int i = 0; i < TABLE_SUMS; i++)
            if (!(fabs(sum[i] - t->sum[i]) <= 1e-5 + 2e-6 * (double)n / TABLE_SUMS))
                fail_msg("%dx%dx%d, %s: sum %d is %.9g, should be %.9g", t->f, t->y, t->x, backend[b]->name, i, sum[i],
                         t->sum[i]);
        free(out);
        v.ops->close(v.of);
    }
}

/* ---- configs ---- */

/* Writes m's config with one field set, in JSON. */
static void write_with(const kl_made *m, const char *key, const char *value)
{
    write_text("vae/config.json", m->config);
    write_changed("vae/config.json", "vae/config.json", key, value);
    e = (sg_error){0};
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

#endif
