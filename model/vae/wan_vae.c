/* wan_vae.c - AutoencoderKLWan (arXiv:2503.20314) of Wan 2.1 (plain) and 2.2 (is_residual, patch_size), streaming in
 * both directions: one latent frame at a time, any number of them in the same memory. The first makes one pixel frame,
 * the others scale_time.
 *
 * Every convolution over time is causal and keeps the last frames that it has seen, zeros before the start, so that
 * chunks one after another give what the whole clip would. Tensor names are those of diffusers. What bites:
 *  - the decoder walks dim_mult and temperal_downsample from their ends;
 *  - plain (2.1): an upsampler halves the channels; encoder.down_blocks is one flat list of blocks and downsamplers;
 *  - is_residual (2.2): an upsampler keeps the channels; blocks lie inside levels; every level but the decoder's last
 *    has a shortcut without weights, the encoder's last included;
 *  - scale_factor_* are the sizes that a pipeline goes by: they must be what the levels make;
 *  - the first latent frame stands for one pixel frame. There an upsampler passes its frame on once and its convolution
 *    over time neither runs nor remembers: it starts with the second latent frame, zeros before it;
 *  - a downsampler that halves the frames passes the first one on and remembers it; the others go in pairs behind it;
 *  - a shortcut that doubles the frames leaves out those before the clip's first;
 *  - a patch's channels count columns before rows: c p^2 + column p + row.
 *
 * What blocks add to is of the dtype that products take, as in diffusers. F32 there makes a BF16 decode of tiny-wan 56
 * dB instead of 52, but then half of the convolutions are none of cuDNN's, which are three times as fast as ours.
 *
 * Taps "vae.post_quant", "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out", "vae.frames"; "enc.conv_in",
 * "enc.down.%d" (as encoder.down_blocks counts), "enc.mid", "enc.quant", "enc.mean". */
#include "vae_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ZEROS = 1 << 18 /* bytes */ };

typedef struct wan_config {
    int     base, decoder_base, levels, blocks, patch;
    int64_t mult[SG_VAE_LEVELS];
    bool    time[SG_VAE_LEVELS]; /* the encoder's level halves the frames */
    bool    residual;
} wan_config;

/* What a coder has beside its blocks. */
typedef struct wan_side {
    sg_vae_map quant; /* decoder, before all else: [z, z]; encoder, at the end: [2 z, 2 z] */
    /* Of levels that change the frames. The decoder's is [2 out, out, 3, 1, 1]: halves of its rows make the even and
     * the odd frames. The encoder's is [out, out, 3, 1, 1]. */
    sg_vae_conv time[SG_VAE_LEVELS];
    /* x + proj(attend(qkv(norm(x)))), one head over the places of a frame. */
    sg_tensor  attention_norm; /* [c] */
    sg_vae_map qkv, proj;      /* [3 c, c], rows q, k, v; [c, c] */
} wan_side;

typedef struct wan_vae {
    sg_vae_model base;
    wan_config   config;
    wan_side     side[2]; /* encoder, decoder */
} wan_vae;

/* One clip being decoded or encoded. */
typedef struct wan_run {
    sg_vae_run base;
    bool       begun;
} wan_run;

static const wan_vae *vae_of(const wan_run *r) { return (const wan_vae *)r->base.vae; }

/* y = silu(norm(x)). */
static void norm(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x)
{
    (void)r;
    sg_norm(s, .y = y, .x = x, .w = k->norm_w, .kind = SG_NORM_L2, .act = SG_ACT_SILU);
}

static const sg_vae_kind kind = {
    .norm_w = ".gamma", .conv = "", .shortcut = "conv_shortcut", .kt = 3, .edge = SG_EDGE_ZERO, .norm = norm};

/* ---- config ---- */

static void check_scale(sg_config *f, const char *key, int64_t usual, int made, const char *by)
{
    const int64_t said = sg_config_int(f, key, 1, 1 << 16, &usual);
    if (said != made) sg_config_fail(f, key, "%lld, but %s make %d", (long long)said, by, made);
}

static void check_pixels(sg_config *f, const char *key, int patch)
{
    const int64_t rgb = SG_VAE_RGB, said = sg_config_int(f, key, 1, SG_VAE_CHANNELS, &rgb);
    if (said != 3 * patch * patch)
        sg_config_fail(f, key, "%lld, but RGB frames in patches of patch_size %d have %d", (long long)said, patch,
                       3 * patch * patch);
}

/* How many channels leave a level. */
static int64_t next(const sg_vae_coder *k, int i) { return i + 1 < k->levels ? k->level[i + 1].in : k->level[i].out; }

/* is_residual: the input joins the output, its channels averaged or repeated. */
static bool has_shortcut(const wan_config *c, const sg_vae_coder *k, int i)
{
    return c->residual && (!k->up || i + 1 < k->levels);
}

static void set_shapes(sg_vae_coder *k, const wan_config *c, bool up)
{
    *k = (sg_vae_coder){.up = up, .kind = &kind, .levels = c->levels};
    for (int i = 0; i < c->levels; i++) {
        sg_vae_level *const l = &k->level[i];
        const bool          more = i + 1 < c->levels;
        l->out = up ? c->decoder_base * c->mult[c->levels - 1 - i] : c->base * c->mult[i];
        l->in = i ? l[-1].out / (up && !c->residual ? 2 : 1) : up ? l->out : c->base;
        l->blocks = c->blocks + up;
        l->space = more ? 2 : 1;
        l->time = more && c->time[up ? c->levels - 2 - i : i] ? 2 : 1;
    }
    sg_vae_set_middle(k, up ? k->level[0].in : k->level[c->levels - 1].out);
}

/* A shortcut deals the channels of a place, or of a block of places, out evenly. */
static void check_shortcuts(sg_config *f, const wan_config *c, const sg_vae_coder *k)
{
    for (int i = 0; i < k->levels; i++) {
        const sg_vae_level *const l = &k->level[i];
        const int                 block = l->space * l->space * l->time;
        const int64_t             out = next(k, i), many = (k->up ? out : l->in) * block, few = k->up ? l->in : out;
        if (has_shortcut(c, k, i) && many % few)
            sg_config_fail(
                f, "dim_mult", "the %s's level %d cannot join its %lld channels to %lld: %lld is no multiple of %lld",
                k->up ? "decoder" : "encoder", i, (long long)l->in, (long long)out, (long long)many, (long long)few);
    }
}

static sg_status read_config(void *of, sg_config *f)
{
    const bool          no = false;
    const int64_t       one = 1;
    wan_vae *const      v = of;
    sg_vae_model *const m = &v->base;
    wan_config *const   c = &v->config;
    double              scale[64];
    c->base = (int)sg_config_int(f, "base_dim", 2, SG_VAE_CHANNELS, NULL);
    const int64_t base = c->base;
    c->decoder_base = (int)sg_config_int(f, "decoder_base_dim", 2, SG_VAE_CHANNELS, &base);
    m->info.z = (int)sg_config_int(f, "z_dim", 1, SG_VAE_Z, NULL);
    c->levels = sg_config_ints(f, "dim_mult", 1, SG_VAE_CHANNELS, c->mult, 1, SG_VAE_LEVELS);
    c->blocks = (int)sg_config_int(f, "num_res_blocks", 1, SG_VAE_LAYERS, NULL);
    c->residual = sg_config_bool(f, "is_residual", &no);
    c->patch = (int)sg_config_int(f, "patch_size", 1, 32, &one);
    SG_TRY(sg_config_status(f)); /* what follows goes by these */

    sg_config_bools(f, "temperal_downsample", c->time, c->levels - 1, c->levels - 1);
    sg_config_reals(f, "latents_mean", -1e6, 1e6, m->mean, m->info.z, m->info.z);
    sg_config_reals(f, "latents_std", 1e-6, 1e6, m->std, m->info.z, m->info.z);
    if (sg_config_reals(f, "attn_scales", -INFINITY, INFINITY, scale, 0, 64) > 0)
        sg_config_fail(f, "attn_scales", "attention between the levels is not supported: only an empty list is");
    for (int i = 0; i < c->levels; i++)
        if (c->mult[i] * (c->base > c->decoder_base ? c->base : c->decoder_base) > SG_VAE_CHANNELS)
            sg_config_fail(f, "dim_mult", "entry %d makes more than %d channels", i, SG_VAE_CHANNELS);
    for (int up = 0; up < 2; up++) set_shapes(&m->coder[up], c, up);
    sg_vae_measure(m);
    m->info.scale_space *= c->patch;
    check_pixels(f, "in_channels", c->patch);
    check_pixels(f, "out_channels", c->patch);
    check_scale(f, "scale_factor_temporal", 4, m->info.scale_time, "the levels of temperal_downsample");
    check_scale(f, "scale_factor_spatial", 8, m->info.scale_space, "the levels of dim_mult and patch_size");
    SG_TRY(sg_config_status(f));
    for (int up = 1; up >= 0; up--) check_shortcuts(f, c, &m->coder[up]);
    snprintf(m->component.summary, sizeof m->component.summary, "%d x %d x %d, %d latent channels, %d levels from %d%s",
             m->info.scale_time, m->info.scale_space, m->info.scale_space, m->info.z, c->levels, c->base,
             c->residual ? ", residual" : "");
    return sg_config_status(f);
}

/* ---- tensors ---- */

static void bind_level(wan_vae *v, const sg_component *p, sg_vae_coder *k, int i)
{
    static const char *const resample[2][2] = {{"", "downsampler."}, {"upsamplers.0.", "upsampler."}};
    const bool               residual = v->config.residual, flat = !k->up && !residual;
    const char *const        side = k->up ? "decoder.up_blocks" : "encoder.down_blocks";
    sg_vae_level *const      l = &k->level[i];
    const int                index = flat ? i * (l->blocks + 1) : i; /* in the list, of the level or its first block */
    char                     name[48];
    snprintf(name, sizeof name, flat ? "%s" : "%s.%d.resnets", side, i);
    sg_vae_bind_blocks(p, k, l, name, flat ? index : 0);
    if (!sg_vae_changes(l)) return;
    sg_bind_prefix(p->bind, "%s.%d.%s", side, flat ? index + l->blocks : i, resample[k->up][residual]);
    sg_vae_bind_conv(p, k, &l->resample, "resample.1", next(k, i), l->out, 1, 3);
    if (l->time > 1) sg_vae_bind_conv(p, k, &v->side[k->up].time[i], "time_conv", l->out << k->up, l->out, 3, 1);
}

/* The quantisers are small and their sides F32, so that they cost the latents nothing. */
static void bind(void *of, const sg_component *p, sg_vae_coder *k)
{
    wan_vae *const  v = of;
    wan_side *const side = &v->side[k->up];
    const int       z = k->up ? v->base.info.z : 2 * v->base.info.z, pixel = 3 * v->config.patch * v->config.patch;
    const int64_t   c = k->mid.in;
    sg_bind_prefix(p->bind, "%s", "");
    sg_vae_bind_map(p, SG_F32, &side->quant, k->up ? "post_quant_conv" : "quant_conv", z, z);
    sg_vae_bind_ends(p, k, k->up ? z : pixel, k->up ? pixel : z, "norm_out");
    sg_bind_prefix(p->bind, "%s.mid_block.attentions.0.", k->up ? "decoder" : "encoder");
    sg_bind_tensor(p->bind, &side->attention_norm, SG_F32, "norm.gamma", c);
    sg_vae_bind_map(p, p->act, &side->qkv, "to_qkv", 3 * c, c);
    sg_vae_bind_map(p, p->act, &side->proj, "proj", c, c);
    for (int i = 0; i < k->levels; i++) bind_level(v, p, k, i);
}

/* ---- the middle ---- */

/* x += attention over the places of its one frame. */
static void attend(const wan_run *r, sg_stream *s, sg_tensor x)
{
    const wan_side *const w = &vae_of(r)->side[r->base.coder->up];
    const size_t          mark = s->scratch.used;
    const int64_t         c = x.dim[3], n = sg_count(x) / c;
    const sg_tensor       y = sg_new(s, x.dtype, 1, 1, n, c);
    sg_tensor             qkv[3];
    sg_norm(s, .y = y, .x = sg_reshape(x, 1, 1, n, c), .w = w->attention_norm, .kind = SG_NORM_L2);
    for (int i = 0; i < 3; i++) {
        const sg_vae_map rows = {.w = sg_rows(w->qkv.w, i * c, c), .b = sg_rows(w->qkv.b, i * c, c)};
        const sg_tensor  made = sg_new(s, x.dtype, 1, 1, n, c);
        sg_vae_map_places(s, &rows, made, y, false);
        qkv[i] = sg_reshape(made, n, 1, c);
    }
    sg_attend(s, .y = sg_reshape(y, n, 1, c), .q = qkv[0], .k = qkv[1], .v = qkv[2], .scale = 1 / sqrtf((float)c));
    sg_vae_map_places(s, &w->proj, x, y, true);
    s->scratch.used = mark;
}

static void middle(const wan_run *r, sg_stream *s, sg_tensor x)
{
    for (int j = 0; j < r->base.coder->mid.blocks; j++) {
        const sg_vae_work w = sg_vae_work_on(s, &r->base.coder->mid, x);
        sg_vae_block_run(&r->base, s, &r->base.coder->mid, j, &w);
        s->scratch.used = w.mark;
        if (j == 0) attend(r, s, x);
    }
    sg_tap(s, x, r->base.coder->up ? "vae.mid" : "enc.mid");
}

/* ---- levels ---- */

/* Changes scale by a level's last convolutions; with `add` y has the shortcut. */
typedef struct change {
    const sg_vae_level *level;
    const sg_vae_conv  *time; /* NULL: frames stay as many */
    bool                add;
} change;

/* Frame by frame: the tensors of all of them would be the largest of the whole decoder. */
static void upsample(const wan_run *r, sg_stream *s, const change *c, sg_tensor y, sg_tensor x)
{
    const sg_vae_conv *const k = c->time, *const resample = &c->level->resample;
    const bool    twice = k && r->begun;
    const int64_t channels = x.dim[3];
    sg_tensor     input = {0};
    if (twice) {
        input = sg_vae_input(&r->base, s, k, x.dim[0], x.dim[1], x.dim[2]);
        sg_copy(s, .y = sg_vae_present(&r->base, k, input), .x = x);
        sg_vae_recall(&r->base, s, k, input);
    }
    for (int64_t i = 0; i < y.dim[0]; i++) {
        const size_t mark = s->scratch.used;
        sg_tensor    one = sg_rows(x, twice ? i / 2 : i, 1);
        if (twice) {
            one = sg_new(s, x.dtype, 1, x.dim[1], x.dim[2], channels);
            sg_conv(s, .y = one, .x = sg_rows(input, i / 2, 3), .w = sg_rows(k->w, i % 2 * channels, channels),
                    .b = sg_rows(k->b, i % 2 * channels, channels), .stride = {1, 1, 1});
        }
        sg_conv(s, .y = sg_rows(y, i, 1), .x = one, .w = resample->w, .b = resample->b, .stride = {1, 1, 1},
                .pad = {1, 1, 1, 1}, .add = c->add, .twice = true);
        s->scratch.used = mark;
    }
}

/* y = or += x of half the rows and columns: a row and a column of zeros at the end. */
static void halve(sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x, bool add)
{
    sg_conv(s, .y = y, .x = x, .w = k->w, .b = k->b, .stride = {1, 2, 2}, .pad = {0, 1, 0, 1}, .add = add);
}

static void downsample(const wan_run *r, sg_stream *s, const change *c, sg_tensor y, sg_tensor x)
{
    const sg_vae_conv *const k = c->time, *const resample = &c->level->resample;
    if (k && r->begun) {
        const sg_tensor input = sg_vae_input(&r->base, s, k, x.dim[0], y.dim[1], y.dim[2]);
        halve(s, resample, sg_vae_present(&r->base, k, input), x, false);
        sg_vae_recall(&r->base, s, k, input);
        sg_conv(s, .y = y, .x = input, .w = k->w, .b = k->b, .stride = {2, 1, 1}, .add = c->add);
    } else if (k) { /* the first frame is remembered as it is without the shortcut */
        const sg_tensor first = c->add ? sg_alloc(s, &s->scratch, y.dtype, y.rank, y.dim) : y;
        halve(s, resample, first, x, false);
        sg_copy(s, .y = r->base.history[k->number], .x = first);
        if (c->add) sg_gate_add(s, .x = y, .r = first);
    } else
        halve(s, resample, y, x, c->add);
}

/* y = the input of a level as its output begins: channels averaged or repeated, places in or out of them. */
static void shortcut(const wan_run *r, sg_stream *s, const sg_vae_level *l, sg_tensor y, sg_tensor x)
{
    if (r->base.coder->up)
        sg_dup_up(s, .y = y, .x = x, .ft = l->time, .fs = l->space, .drop = r->begun ? 0 : l->time - 1);
    else
        sg_avg_down(s, .y = y, .x = x, .ft = l->time, .fs = l->space);
}

/* Level i, from m->in[i] to the next level's; where there is none, to scratch. */
static sg_tensor level(const wan_run *r, sg_stream *s, const sg_vae_inputs *m, int i)
{
    const wan_vae *const      v = vae_of(r);
    const sg_vae_coder *const k = r->base.coder;
    const sg_vae_level *const l = &k->level[i];
    const bool   more = i + 1 < k->levels, flat = !k->up && !v->config.residual; /* flat: taps are of single blocks */
    const int    index = flat ? i * (l->blocks + 1) : i;
    const change c = {l, l->time > 1 ? &v->side[k->up].time[i] : NULL, has_shortcut(&v->config, k, i)};
    const sg_tensor x = m->in[i];
    sg_tensor       y = m->in[i + 1];
    if (c.add && !more) y = sg_new(s, x.dtype, x.dim[0], x.dim[1], x.dim[2], l->out);
    if (c.add) shortcut(r, s, l, y, x);
    const sg_vae_work w = sg_vae_work_on(s, l, x);
    for (int j = 0; j < l->blocks; j++) {
        sg_vae_block_run(&r->base, s, l, j, &w);
        if (flat) sg_tap(s, w.y, "enc.down.%d", index + j);
    }
    s->scratch.used = w.mark;
    if (more)
        (k->up ? upsample : downsample)(r, s, &c, y, w.y);
    else if (c.add)
        sg_gate_add(s, .x = y, .r = w.y);
    else
        y = w.y;
    if (more || !flat) sg_tap(s, y, k->up ? "vae.up.%d" : "enc.down.%d", flat ? index + l->blocks : index);
    return y;
}

static sg_vae_inputs reserve(const wan_run *r, sg_stream *s, int64_t f, int64_t y, int64_t x)
{
    const sg_vae_coder *const k = r->base.coder;
    int64_t                   frames[SG_VAE_LEVELS + 1] = {f};
    for (int i = 0; i < k->levels; i++) {
        const int time = r->begun ? k->level[i].time : 1;
        frames[i + 1] = k->up ? frames[i] * time : frames[i] / time;
    }
    return sg_vae_reserve(&r->base, s, frames, y, x);
}

static sg_tensor levels(const wan_run *r, sg_stream *s, const sg_vae_inputs *m)
{
    sg_tensor x = {0};
    for (int i = 0; i < r->base.coder->levels; i++) {
        x = level(r, s, m, i);
        if (i + 1 < r->base.coder->levels) s->scratch.used = m->mark[i + 1];
    }
    return x;
}

/* ---- the two directions ---- */

static sg_tensor decode_next(void *run, sg_stream *s, sg_tensor z, bool last_chunk)
{
    (void)last_chunk;
    wan_run *const            r = run;
    const sg_vae_coder *const k = r->base.coder;
    const sg_vae_info         v = r->base.vae->info;
    const sg_tensor           past = r->base.history[k->conv_in.number];
    const int64_t       y = past.dim[1], x = past.dim[2], p = vae_of(r)->config.patch, f = r->begun ? v.scale_time : 1;
    const sg_tensor     frames = sg_new(s, SG_F32, f, y * v.scale_space, x * v.scale_space, SG_VAE_RGB);
    const size_t        mark = s->scratch.used;
    const sg_vae_inputs m = reserve(r, s, 1, y, x);

    const sg_tensor latent = sg_new(s, SG_F32, 1, y, x, v.z), quant = sg_new(s, SG_F32, 1, y, x, v.z);
    sg_norm(s, .y = latent, .x = z, .w = r->base.scale, .b = r->base.shift, .kind = SG_NORM_NONE);
    sg_vae_map_places(s, &vae_of(r)->side[SG_VAE_DECODER].quant, quant, latent, false);
    sg_tap(s, quant, "vae.post_quant");
    const sg_tensor input = sg_vae_input(&r->base, s, &k->conv_in, 1, y, x);
    sg_copy(s, .y = sg_vae_present(&r->base, &k->conv_in, input), .x = quant);
    sg_vae_convolve(&r->base, s, &k->conv_in, m.in[0], input, false);
    s->scratch.used = m.mark[0];
    sg_tap(s, m.in[0], "vae.conv_in");

    middle(r, s, m.in[0]);
    const sg_tensor last = levels(r, s, &m);

    const int64_t   rows = last.dim[1], columns = last.dim[2];
    const sg_tensor out = sg_new(s, last.dtype, f, rows, columns, 3 * p * p);
    sg_vae_norm_conv(&r->base, s, &k->conv_out, out, last, false);
    sg_tap(s, out, "vae.conv_out");
    const sg_tensor pixels = sg_new(s, SG_F32, f, rows * p, columns * p, 3);
    sg_permute(s, .y = pixels, .x = out, .rank = 6, .dim = {f, rows, columns, 3, p, p}, .perm = {0, 1, 5, 2, 4, 3});
    sg_activate(s, .y = frames, .x = pixels, .act = SG_ACT_CLAMP);
    sg_tap(s, frames, "vae.frames");
    s->scratch.used = mark;
    r->begun = true;
    return frames;
}

static sg_tensor encode_next(void *run, sg_stream *s, sg_tensor frames)
{
    wan_run *const            r = run;
    const sg_vae_coder *const k = r->base.coder;
    const sg_vae_info         v = r->base.vae->info;
    const sg_tensor           past = r->base.history[k->conv_in.number];
    const int64_t             p = vae_of(r)->config.patch, f = r->begun ? v.scale_time : 1, rows = past.dim[1],
                  columns = past.dim[2], y = rows * p / v.scale_space, x = columns * p / v.scale_space;
    const sg_tensor     mean = sg_new(s, SG_F32, 1, y, x, v.z);
    const size_t        mark = s->scratch.used;
    const sg_vae_inputs m = reserve(r, s, f, rows, columns);

    const sg_tensor input = sg_vae_input(&r->base, s, &k->conv_in, f, rows, columns);
    sg_permute(s, .y = sg_vae_present(&r->base, &k->conv_in, input), .x = frames, .rank = 6,
               .dim = {f, rows, p, columns, p, 3}, .perm = {0, 1, 3, 5, 4, 2});
    sg_vae_convolve(&r->base, s, &k->conv_in, m.in[0], input, false);
    s->scratch.used = m.mark[0];
    sg_tap(s, m.in[0], "enc.conv_in");

    const sg_tensor last = levels(r, s, &m);
    middle(r, s, last);

    const sg_tensor out = sg_new(s, SG_F32, 1, y, x, 2 * v.z), quant = sg_new(s, SG_F32, 1, y, x, 2 * v.z);
    sg_vae_norm_conv(&r->base, s, &k->conv_out, out, last, false);
    sg_vae_map_places(s, &vae_of(r)->side[SG_VAE_ENCODER].quant, quant, out, false);
    sg_tap(s, quant, "enc.quant");
    const sg_tensor halves = sg_new(s, SG_F32, 2, y, x, v.z); /* mean, logarithm of the variance */
    sg_permute(s, .y = halves, .x = quant, .rank = 3, .dim = {y * x, 2, v.z}, .perm = {1, 0, 2});
    sg_norm(s, .y = mean, .x = sg_rows(halves, 0, 1), .w = r->base.scale, .b = r->base.shift, .kind = SG_NORM_NONE);
    sg_tap(s, mean, "enc.mean");
    s->scratch.used = mark;
    r->begun = true;
    return mean;
}

/* ---- a run's memory ---- */

/* Its first ZEROS bytes come from the host, which is waited for; the device doubles them. */
static void zero(sg_stream *s, sg_tensor t, const void *zeros)
{
    const int64_t all = sg_count(t), step = ZEROS / (int64_t)sg_dtype_size(t.dtype), first = all < step ? all : step;
    t = sg_reshape(t, all);
    sg_upload(s, sg_rows(t, 0, first), zeros);
    for (int64_t done = first; done < all; done *= 2) {
        const int64_t more = all - done < done ? all - done : done;
        sg_copy(s, .y = sg_rows(t, done, more), .x = sg_rows(t, 0, more));
    }
}

/* y, x: of what goes into the first level; the decoder's time convolutions work before the change of size, the
 * encoder's behind it. */
static sg_status run_open(void **out, const void *of, bool up, sg_stream *s, int64_t height, int64_t width, sg_error *e)
{
    const wan_vae *const v = of;
    void *const          zeros = calloc(1, ZEROS);
    if (!zeros) return sg_error_memory(e, v->base.component.dir);
    sg_status         st = sg_vae_run_open(out, sizeof(wan_run), of, up, s, height, width, e);
    sg_vae_run *const r = *out;
    int64_t           y = up ? height : height / v->config.patch, x = up ? width : width / v->config.patch;
    if (r) sg_vae_keep_all(r, s, y, x);
    for (int i = 0; r && i < r->coder->levels; i++) {
        const int                shift = up ? i : i + 1;
        const sg_vae_conv *const k = &v->side[up].time[i];
        if (k->w.rank) sg_vae_keep(r, s, k, up ? 2 : 1, up ? y << shift : y >> shift, up ? x << shift : x >> shift);
    }
    for (int i = 0; r && i < r->coder->convs; i++)
        if (r->history[i].rank) zero(s, r->history[i], zeros);
    if (r) r->remembers = true;
    free(zeros);
    return st;
}

static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    return run_open(out, of, true, s, y, x, e);
}

static sg_status encode_open(void **out, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e)
{
    return run_open(out, of, false, s, height, width, e);
}

/* Frames beyond the last whole chunk of scale_time have no latent frame, and no family asks for them. */
static int64_t encode_chunk(const void *of, int64_t total, int64_t done)
{
    const int64_t many = ((const sg_vae_model *)of)->info.scale_time, left = total - done;
    return done == 0 ? 1 : left < many ? left : many;
}

const sg_vae_ops sg_wan_vae_ops = {
    .class_name = "AutoencoderKLWan",
    .size = sizeof(wan_vae),
    .read = read_config,
    .bind = bind,
    .component = sg_vae_component,
    .chunk = sg_vae_chunk_of_one,
    /* the first frame has no history, the second makes its first changes of the frame rate */
    .special = 2,
    .decode_open = decode_open,
    .decode_next = decode_next,
    .decode_close = sg_vae_run_close,
    .encoder = sg_vae_encoder,
    .encode_chunk = encode_chunk,
    .encode_open = encode_open,
    .encode_next = encode_next,
    .encode_close = sg_vae_run_close,
    .close = sg_vae_model_close};
