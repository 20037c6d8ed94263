/* cogvideox_vae.c - AutoencoderKLCogVideoX (arXiv:2408.06072), streaming in both directions: two latent frames a
 * chunk, eight of pixels. L latent frames give scale_time (L - 1) + 1 frames where L is odd, scale_time L where it is
 * even.
 *
 * Tensor names are those of diffusers. What bites:
 *  - the decoder walks block_out_channels from their end and has a block a level more than the encoder;
 *  - in either half the first levels are those that change the number of frames;
 *  - norm_eps is for the encoder's blocks alone; all other norms have 1e-6;
 *  - the mean and variance of a group norm are those of a chunk, so that the chunks are part of the model: two latent
 *    frames, three in the first of an odd number; eight pixel frames, the first takes what is left over;
 *  - every norm of the decoder multiplies and adds maps of the chunk's latents, enlarged to its own size by nearest
 *    neighbours;
 *  - in time, enlarging keeps the first of an odd number of frames, and a single frame, apart, and so does averaging,
 *    which comes before the encoder's change of size;
 *  - before the clip a causal convolution sees its first frame again, not zeros;
 *  - an upsampler's convolution works on single frames, and those that enlarging in time repeats come out the same:
 *    they are computed once.
 *
 * Taps "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out", "vae.frames"; "enc.conv_in", "enc.down.%d", "enc.mid",
 * "enc.quant", which is not normalised. */
#include "vae_parts.h"

#include <stdio.h>

enum { CHUNK = 2, PIXEL_CHUNK = 8 /* latent frames, pixel frames */ };

static const float usual_eps = 1e-6f;

/* Of the decoder's norms: silu(group_norm(x) scale(latents) + shift(latents)). */
typedef struct spatial_maps {
    sg_vae_map map[2]; /* scale, shift */
} spatial_maps;

typedef struct cogvideox_vae {
    sg_vae_model base;
    double       eps;                   /* of the norms of the encoder's blocks */
    double       picture;               /* what sg_cogvideox_vae_picture_scale returns */
    spatial_maps spatial[SG_VAE_CONVS]; /* by number of the convolution behind the norm */
} cogvideox_vae;

/* One clip being decoded or encoded. */
typedef struct run {
    sg_vae_run base;
    sg_tensor  z; /* act: of the decoder, the chunk's latents, as many frames as the level at work has */
} run;

double sg_cogvideox_vae_picture_scale(const sg_vae *v) { return ((const cogvideox_vae *)v->of)->picture; }

/* ---- norms ---- */

static void norm(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x)
{
    const cogvideox_vae *const v = (const cogvideox_vae *)r->vae;
    const sg_tensor            z = ((const run *)r)->z;
    const bool                 block = !r->coder->up && k != &r->coder->conv_out;
    const size_t               mark = s->scratch.used;
    sg_tensor                  map[2] = {{0}};
    for (int i = 0; i < 2 && z.rank; i++) {
        map[i] = sg_new(s, z.dtype, z.dim[0], z.dim[1], z.dim[2], x.dim[3]);
        sg_vae_map_places(s, &v->spatial[k->number].map[i], map[i], z, false);
    }
    sg_norm(s, .y = y, .x = x, .w = k->norm_w, .b = k->norm_b, .place_scale = map[0], .place_shift = map[1],
            .kind = SG_NORM_GROUP, .eps = block ? (float)v->eps : usual_eps, .act = SG_ACT_SILU,
            .groups = r->coder->groups);
    s->scratch.used = mark;
}

static const sg_vae_kind of_encoder = {.norm_w = ".weight",
                                       .norm_b = ".bias",
                                       .conv = ".conv",
                                       .shortcut = "conv_shortcut",
                                       .kt = 3,
                                       .edge = SG_EDGE_ZERO,
                                       .norm = norm};
static const sg_vae_kind of_decoder = {.norm_w = ".norm_layer.weight",
                                       .norm_b = ".norm_layer.bias",
                                       .conv = ".conv",
                                       .shortcut = "conv_shortcut",
                                       .kt = 3,
                                       .edge = SG_EDGE_ZERO,
                                       .norm = norm};

/* ---- config ---- */

/* The first levels change the number of frames, one for each factor of 2. */
static void set_scales(sg_vae_coder *k, int64_t ratio, sg_config *f)
{
    int made = 1;
    for (int i = 0; i + 1 < k->levels; i++) {
        k->level[i].space = 2;
        k->level[i].time = made < ratio ? 2 : 1;
        made *= k->level[i].time;
    }
    if (made != ratio)
        sg_config_fail(f, "temporal_compression_ratio", "%lld, but %d levels make powers of 2 up to %d",
                       (long long)ratio, k->levels, 1 << (k->levels - 1));
}

static sg_status read_config(void *of, sg_config *f)
{
    cogvideox_vae *const v = of;
    sg_vae_model *const  m = &v->base;
    const int64_t        ratio = sg_config_int(f, "temporal_compression_ratio", 1, 1 << SG_VAE_LEVELS, &(int64_t){4});
    sg_vae_read_coders(m, &of_encoder, 3, f);
    const double scaling = sg_vae_read_latents(m, 16, 1.15258426, f);
    v->eps = sg_config_real(f, "norm_eps", 0, 1, &(double){1e-6});
    v->picture = sg_config_bool(f, "invert_scale_latents", &(bool){false}) ? 1 / (scaling * scaling) : 1;
    sg_config_only_bool(f, "use_quant_conv", false);
    sg_config_only_bool(f, "use_post_quant_conv", false);
    sg_vae_check_rgb(f, "in_channels");
    sg_vae_check_rgb(f, "out_channels");
    sg_vae_check_act(f);
    SG_TRY(sg_config_status(f));
    m->coder[SG_VAE_DECODER].kind = &of_decoder;
    set_scales(&m->coder[SG_VAE_ENCODER], ratio, f);
    SG_TRY(sg_config_status(f));
    set_scales(&m->coder[SG_VAE_DECODER], ratio, f);
    sg_vae_measure(m);
    sg_vae_check_types(f, "up_block_types", "CogVideoXUpBlock3D", m->coder[0].levels, m->coder[0].levels);
    sg_vae_check_types(f, "down_block_types", "CogVideoXDownBlock3D", m->coder[0].levels, m->coder[0].levels);
    return sg_config_status(f);
}

/* ---- tensors ---- */

static void bind_maps(cogvideox_vae *v, const sg_component *p, const sg_vae_conv *k, const char *norm)
{
    static const char *const names[] = {"conv_y", "conv_b"};
    char                     name[48];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s.%s.conv", norm, names[i]);
        sg_vae_bind_map(p, p->act, &v->spatial[k->number].map[i], name, k->norm_w.dim[0], v->base.info.z);
    }
}

static void bind_maps_of(cogvideox_vae *v, const sg_component *p, const sg_vae_level *l, const char *level)
{
    for (int j = 0; j < l->blocks; j++) {
        sg_bind_prefix(p->bind, "decoder.%s.resnets.%d.", level, j);
        bind_maps(v, p, &l->block[j].conv[0], "norm1");
        bind_maps(v, p, &l->block[j].conv[1], "norm2");
    }
}

static void bind(void *of, const sg_component *p, sg_vae_coder *k)
{
    cogvideox_vae *const v = of;
    const int            z = v->base.info.z;
    char                 level[32];
    sg_vae_bind_ends(p, k, k->up ? z : SG_VAE_RGB, k->up ? SG_VAE_RGB : 2 * z, "norm_out");
    sg_vae_bind_levels(p, k, "conv", 1);
    if (!k->up) return;
    bind_maps_of(v, p, &k->mid, "mid_block");
    for (int i = 0; i < k->levels; i++) {
        snprintf(level, sizeof level, "up_blocks.%d", i);
        bind_maps_of(v, p, &k->level[i], level);
    }
    sg_bind_prefix(p->bind, "decoder.");
    bind_maps(v, p, &k->conv_out, "norm_out");
}

/* ---- changes of scale ---- */

/* Which of n frames is the t-th of f, by nearest neighbours. */
static int64_t nearest_frame(int64_t t, int64_t f, int64_t n)
{
    if (f == 1 || f % 2 == 0) return t * n / f;
    return t ? 1 + (t - 1) * (n - 1) / (f - 1) : 0;
}

/* How many frames each level has of f, and behind the last; returns those. */
static int64_t count_frames(const sg_vae_coder *k, int64_t f, int64_t frames[SG_VAE_LEVELS + 1])
{
    for (int i = 0; i < k->levels; i++) {
        frames[i] = f;
        if (k->level[i].time > 1 && f > 1) f = k->up ? 2 * f - f % 2 : f / 2 + f % 2;
    }
    return frames[k->levels] = f;
}

static void upsample(sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x)
{
    int64_t last = -1;
    for (int64_t t = 0; t < y.dim[0]; t++) {
        const int64_t from = nearest_frame(t, y.dim[0], x.dim[0]);
        if (from == last)
            sg_copy(s, .y = sg_rows(y, t, 1), .x = sg_rows(y, t - 1, 1));
        else
            sg_conv(s, .y = sg_rows(y, t, 1), .x = sg_rows(x, from, 1), .w = k->w, .b = k->b, .stride = {1, 1, 1},
                    .pad = {1, 1, 1, 1}, .twice = true);
        last = from;
    }
}

/* Where there are fewer frames in y, each is the mean of two of x; of an odd number the first stays as it is. */
static void downsample(sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x)
{
    const int64_t alone = y.dim[0] == x.dim[0] ? y.dim[0] : x.dim[0] % 2;
    for (int64_t t = 0; t < y.dim[0]; t++) {
        const size_t mark = s->scratch.used;
        sg_tensor    one = sg_rows(x, t, 1);
        if (t >= alone) {
            one = sg_new(s, x.dtype, 1, x.dim[1], x.dim[2], x.dim[3]);
            sg_avg_down(s, .y = one, .x = sg_rows(x, 2 * t - alone, 2), .ft = 2, .fs = 1);
        }
        sg_conv(s, .y = sg_rows(y, t, 1), .x = one, .w = k->w, .b = k->b, .stride = {1, 2, 2}, .pad = {0, 1, 0, 1});
        s->scratch.used = mark;
    }
}

/* The latents z as f frames; there are none in the encoder. */
static sg_tensor enlarge(sg_stream *s, sg_tensor z, int64_t f)
{
    if (!z.rank || f == z.dim[0]) return z;
    const sg_tensor y = sg_new(s, z.dtype, f, z.dim[1], z.dim[2], z.dim[3]);
    for (int64_t t = 0; t < f; t++)
        sg_copy(s, .y = sg_rows(y, t, 1), .x = sg_rows(z, nearest_frame(t, f, z.dim[0]), 1));
    return y;
}

/* ---- the two directions ---- */

/* The way in: what conv_in makes of x, into m->in[0]. */
static void way_in(const run *r, sg_stream *s, const sg_vae_inputs *m, sg_tensor x)
{
    const sg_vae_conv *const k = &r->base.coder->conv_in;
    const sg_tensor          input = sg_vae_input(&r->base, s, k, x.dim[0], x.dim[1], x.dim[2]);
    sg_copy(s, .y = sg_vae_present(&r->base, k, input), .x = x);
    sg_vae_convolve(&r->base, s, k, m->in[0], input, false);
    s->scratch.used = m->mark[0];
    sg_tap(s, m->in[0], r->base.coder->up ? "vae.conv_in" : "enc.conv_in");
}

/* Changes x. */
static void middle(const run *r, sg_stream *s, sg_tensor x)
{
    sg_vae_blocks(&r->base, s, &r->base.coder->mid, x);
    sg_tap(s, x, r->base.coder->up ? "vae.mid" : "enc.mid");
}

/* z: the chunk's latents, of the decoder. */
static sg_tensor levels(run *r, sg_stream *s, const sg_vae_inputs *m, sg_tensor z)
{
    const sg_vae_coder *const k = r->base.coder;
    sg_tensor                 x = {0};
    for (int i = 0; i < k->levels; i++) {
        const sg_vae_level *const l = &k->level[i];
        const bool                more = l->space > 1;
        r->z = enlarge(s, z, m->in[i].dim[0]);
        x = sg_vae_blocks(&r->base, s, l, m->in[i]);
        if (more) {
            (k->up ? upsample : downsample)(s, &l->resample, m->in[i + 1], x);
            s->scratch.used = m->mark[i + 1];
        }
        sg_tap(s, more ? m->in[i + 1] : x, k->up ? "vae.up.%d" : "enc.down.%d", i);
    }
    return x;
}

static sg_status run_open(void **out, const void *of, bool up, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    SG_TRY(sg_vae_run_open(out, sizeof(run), of, up, s, y, x, e));
    sg_vae_keep_all(*out, s, y, x);
    return SG_OK;
}

static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    return run_open(out, of, true, s, y, x, e);
}

static sg_tensor decode_next(void *of, sg_stream *s, sg_tensor z, bool last_chunk)
{
    (void)last_chunk;
    run *const                r = of;
    const sg_vae_coder *const k = r->base.coder;
    const sg_dtype            act = r->base.vae->component.act;
    const int                 scale = r->base.vae->info.scale_space;
    int64_t                   count[SG_VAE_LEVELS + 1];
    const int64_t             f = count_frames(k, z.dim[0], count);
    const sg_tensor           frames = sg_new(s, SG_F32, f, z.dim[1] * scale, z.dim[2] * scale, SG_VAE_RGB);
    const size_t              mark = s->scratch.used;
    const sg_tensor           latents = sg_alloc(s, &s->scratch, act, 4, z.dim);
    sg_norm(s, .y = latents, .x = z, .w = r->base.scale, .b = r->base.shift, .kind = SG_NORM_NONE);
    const sg_vae_inputs m = sg_vae_reserve(&r->base, s, count, z.dim[1], z.dim[2]);
    way_in(r, s, &m, latents);
    r->z = latents;
    middle(r, s, m.in[0]);
    const sg_tensor last = levels(r, s, &m, latents);
    const sg_tensor out = sg_new(s, act, f, last.dim[1], last.dim[2], SG_VAE_RGB);
    r->z = enlarge(s, latents, f);
    sg_vae_norm_conv(&r->base, s, &k->conv_out, out, last, false);
    sg_tap(s, out, "vae.conv_out");
    sg_activate(s, .y = frames, .x = out, .act = SG_ACT_CLAMP);
    sg_tap(s, frames, "vae.frames");
    s->scratch.used = mark;
    r->base.remembers = true;
    return frames;
}

static sg_status encode_open(void **out, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e)
{
    return run_open(out, of, false, s, height, width, e);
}

static sg_tensor encode_next(void *of, sg_stream *s, sg_tensor frames)
{
    run *const                r = of;
    const sg_vae_coder *const k = r->base.coder;
    const int                 m = r->base.vae->info.scale_space, numbers = 2 * r->base.vae->info.z;
    int64_t                   count[SG_VAE_LEVELS + 1];
    const int64_t             f = count_frames(k, frames.dim[0], count), y = frames.dim[1] / m, x = frames.dim[2] / m;
    const sg_tensor           latents = sg_new(s, SG_F32, f, y, x, numbers);
    const size_t              mark = s->scratch.used;
    const sg_tensor           out = sg_new(s, SG_F32, f, y, x, numbers);
    const sg_vae_inputs       in = sg_vae_reserve(&r->base, s, count, frames.dim[1], frames.dim[2]);
    way_in(r, s, &in, frames);
    const sg_tensor last = levels(r, s, &in, (sg_tensor){0});
    middle(r, s, last);
    sg_vae_norm_conv(&r->base, s, &k->conv_out, out, last, false);
    sg_tap(s, out, "enc.quant");
    sg_norm(s, .y = latents, .x = out, .w = r->base.scale, .b = r->base.shift, .kind = SG_NORM_NONE);
    s->scratch.used = mark;
    r->base.remembers = true;
    return latents;
}

/* In the first chunk is what is left over of whole ones. */
static int64_t next_chunk(int64_t most, int64_t total, int64_t done)
{
    if (done) return most;
    return total > most ? most + total % most : total;
}

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return next_chunk(CHUNK, total, done);
}

static int64_t encode_chunk(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return next_chunk(PIXEL_CHUNK, total, done);
}

const sg_vae_ops sg_cogvideox_vae_ops = {.class_name = "AutoencoderKLCogVideoX",
                                         .size = sizeof(cogvideox_vae),
                                         .read = read_config,
                                         .bind = bind,
                                         .component = sg_vae_component,
                                         .chunk = chunk,
                                         .special = 1, /* the first may have a frame more */
                                         .decode_open = decode_open,
                                         .decode_next = decode_next,
                                         .decode_close = sg_vae_run_close,
                                         .encoder = sg_vae_encoder,
                                         .encode_chunk = encode_chunk,
                                         .encode_open = encode_open,
                                         .encode_next = encode_next,
                                         .encode_close = sg_vae_run_close,
                                         .sampled = true,
                                         .close = sg_vae_model_close};
