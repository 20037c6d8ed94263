/* mochi_vae.c - AutoencoderKLMochi of diffusers, the decoder: as a stream, one latent frame at a time, or in tiles.
 *
 * diffusers decodes the whole clip at once. Group norm is of single frames, and every convolution over time is causal
 * and keeps the last two frames that it has seen, so that frames one after another give the same. What bites:
 *  - layers_per_block is read from its end: the last is block_in's, the first block_out's;
 *  - decoder_block_out_channels and both expansions are read from their ends as well;
 *  - group norm has 32 groups, whatever the config says;
 *  - a latent goes in as z std / scaling_factor + mean;
 *  - before the clip's start a convolution sees its first frame twice, and beyond the edges of a frame the nearest
 *    pixel;
 *  - an up_block makes `time` frames of each, of the first one too; of the frames that the first latent makes all but
 *    the last are left out at the very end: the first makes one frame, the others scale_time;
 *  - the channels of an up_block's projection count c before frames, rows, columns.
 *
 * What blocks add to is of the dtype that products take, as in diffusers. A chunk is one latent frame; in tiles it is
 * all of them. Taps "vae.conv_in", "vae.block_in", "vae.up.%d", "vae.block_out", "vae.conv_out", "vae.frames". */
#include "vae_parts.h"

#include <stdio.h>

enum { GROUPS = 32, EXPANSION_MAX = 8, SCALES = 6 /* up_blocks, at most */ };

typedef struct mochi_vae {
    sg_vae_model base;
    sg_vae_map   in, out;
    sg_vae_map expand[SG_VAE_LEVELS]; /* [next time space space, channels]; of an up_block: what makes frames, rows and
                                         * columns of channels */
} mochi_vae;

/* y = silu(norm(x)), each frame by itself. */
static void norm(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x)
{
    sg_norm(s, .y = y, .x = x, .w = k->norm_w, .b = k->norm_b, .kind = SG_NORM_GROUP, .groups = r->coder->groups,
            .chunk = 1, .eps = 1e-5f, .act = SG_ACT_SILU);
}

static const sg_vae_kind kind = {.norm_w = ".norm_layer.weight",
                                 .norm_b = ".norm_layer.bias",
                                 .conv = ".conv",
                                 .shortcut = "conv_shortcut",
                                 .kt = 3,
                                 .edge = SG_EDGE_REPLICATE,
                                 .norm = norm};

/* ---- config ---- */

static void expect_count(sg_config *f, const char *key, int have, int want)
{
    if (have != want) sg_config_fail(f, key, "has %d entries, but decoder_block_out_channels wants %d", have, want);
}

/* The middle is block_in, the last level block_out; lists are read from their ends. */
static sg_status read_levels(sg_vae_coder *k, sg_config *f)
{
    int64_t   channels[SCALES + 1], layers[SCALES + 2], time[SCALES], space[SCALES];
    const int levels =
        sg_config_ints(f, "decoder_block_out_channels", GROUPS, SG_VAE_CHANNELS, channels, 2, SCALES + 1);
    expect_count(f, "layers_per_block", sg_config_ints(f, "layers_per_block", 1, SG_VAE_BLOCKS, layers, 1, SCALES + 2),
                 levels + 1);
    expect_count(f, "temporal_expansions", sg_config_ints(f, "temporal_expansions", 1, EXPANSION_MAX, time, 1, SCALES),
                 levels - 1);
    expect_count(f, "spatial_expansions", sg_config_ints(f, "spatial_expansions", 1, EXPANSION_MAX, space, 1, SCALES),
                 levels - 1);
    SG_TRY(sg_config_status(f));
    for (int i = 0; i < levels; i++)
        if (channels[i] % GROUPS)
            sg_config_fail(f, "decoder_block_out_channels", "entry %d is %lld, no multiple of %d groups", i,
                           (long long)channels[i], GROUPS);
    *k = (sg_vae_coder){.up = true, .kind = &kind, .groups = GROUPS, .levels = levels};
    for (int i = 0; i < levels; i++) {
        const int64_t c = channels[levels - 1 - i];
        const bool    up = i + 1 < levels;
        k->level[i] = (sg_vae_level){.in = c,
                                     .out = c,
                                     .blocks = (int)layers[levels - 1 - i],
                                     .time = up ? (int)time[levels - 2 - i] : 1,
                                     .space = up ? (int)space[levels - 2 - i] : 1};
    }
    k->mid = (sg_vae_level){.in = k->level[0].in, .out = k->level[0].in, .blocks = (int)layers[levels]};
    return sg_config_status(f);
}

static sg_status read_config(void *of, sg_config *f)
{
    const double        one = 1;
    sg_vae_model *const v = of;
    sg_vae_coder *const k = &v->coder[SG_VAE_DECODER];
    v->info.z = (int)sg_config_int(f, "latent_channels", 1, SG_VAE_Z, NULL);
    sg_vae_check_rgb(f, "out_channels");
    sg_vae_check_act(f);
    const double scaling = sg_config_real(f, "scaling_factor", 1e-6, 1e6, &one);
    SG_TRY(sg_config_status(f));
    for (int i = 0; i < v->info.z; i++) v->std[i] = 1;
    if (sg_config_has(f, "latents_mean") && sg_config_has(f, "latents_std")) {
        sg_config_reals(f, "latents_mean", -1e6, 1e6, v->mean, v->info.z, v->info.z);
        sg_config_reals(f, "latents_std", 1e-6, 1e6, v->std, v->info.z, v->info.z);
    }
    for (int i = 0; i < v->info.z; i++) v->std[i] /= scaling;
    SG_TRY(read_levels(k, f));
    sg_vae_measure(v);
    snprintf(v->component.summary, sizeof v->component.summary, "%d x %d x %d, %d latent channels, %d to %d channels",
             v->info.scale_time, v->info.scale_space, v->info.scale_space, v->info.z, (int)k->level[0].in,
             (int)k->level[k->levels - 1].out);
    return SG_OK;
}

/* ---- tensors ---- */

/* conv_in is small and F32, so that it costs the latents nothing. */
static void bind(void *of, const sg_component *p, sg_vae_coder *k)
{
    mochi_vae *const v = of;
    char             name[48];
    sg_bind_prefix(p->bind, "decoder.");
    sg_vae_bind_map(p, SG_F32, &v->in, "conv_in", k->mid.in, v->base.info.z);
    sg_vae_bind_blocks(p, k, &k->mid, "decoder.block_in.resnets", 0);
    for (int i = 0; i < k->levels; i++) {
        sg_vae_level *const l = &k->level[i];
        const bool          up = i + 1 < k->levels;
        snprintf(name, sizeof name, up ? "decoder.up_blocks.%d.resnets" : "decoder.block_out.resnets", i);
        sg_vae_bind_blocks(p, k, l, name, 0);
        if (!up) continue;
        sg_bind_prefix(p->bind, "decoder.up_blocks.%d.", i);
        sg_vae_bind_map(p, p->act, &v->expand[i], "proj", l[1].in * l->time * l->space * l->space, l->out);
    }
    sg_bind_prefix(p->bind, "decoder.");
    sg_vae_bind_map(p, p->act, &v->out, "proj_out", SG_VAE_RGB, k->level[k->levels - 1].out);
    sg_bind_ignore(p->bind, "encoder.");
}

/* ---- decoding ---- */

/* One clip, or one tile of it. */
typedef struct run {
    sg_vae_run base;
    size_t     mark; /* of s->keep: histories come after it */
} run;

/* Channels of x become frames, rows and columns of y. Frame by frame: all of them would be the largest of the
 * decoder. */
static void expand(sg_stream *s, const sg_vae_level *l, const sg_vae_map *m, sg_tensor y, sg_tensor x)
{
    const int64_t rows = x.dim[1], columns = x.dim[2], c = y.dim[3];
    for (int64_t i = 0; i < x.dim[0]; i++) {
        const size_t    mark = s->scratch.used;
        const sg_tensor wide = sg_new(s, x.dtype, 1, rows, columns, m->w.dim[0]);
        sg_vae_map_places(s, m, wide, sg_rows(x, i, 1), false);
        sg_permute(s, .y = sg_rows(y, i * l->time, l->time), .x = wide, .rank = 6,
                   .dim = {rows, columns, c, l->time, l->space, l->space}, .perm = {3, 0, 4, 1, 5, 2});
        s->scratch.used = mark;
    }
}

/* Frames of the last level become pixels, frame by frame. */
static void project_out(const mochi_vae *v, sg_stream *s, sg_tensor frames, sg_tensor x)
{
    for (int64_t i = 0; i < x.dim[0]; i++) {
        const size_t    mark = s->scratch.used;
        const sg_tensor y = sg_new(s, x.dtype, 1, x.dim[1], x.dim[2], x.dim[3]);
        sg_activate(s, .y = y, .x = sg_rows(x, i, 1), .act = SG_ACT_SILU);
        sg_vae_map_places(s, &v->out, sg_rows(frames, i, 1), y, false);
        s->scratch.used = mark;
    }
    sg_tap(s, frames, "vae.conv_out");
}

static sg_vae_inputs reserve(const sg_vae_run *r, sg_stream *s, int64_t y, int64_t x)
{
    int64_t frames[SG_VAE_LEVELS + 1] = {1};
    for (int i = 0; i < r->coder->levels; i++) frames[i + 1] = frames[i] * r->coder->level[i].time;
    return sg_vae_reserve(r, s, frames, y, x);
}

/* The next latent frame z F32 [1, y, x, c] as frames F32 [n, H, W, 3] in s->scratch, which are not clamped. */
static sg_tensor next_of_tile(void *of, sg_stream *s, sg_tensor z)
{
    run *const                r = of;
    const mochi_vae *const    v = (const mochi_vae *)r->base.vae;
    const sg_vae_coder *const k = r->base.coder;
    const sg_vae_info         i = v->base.info;
    const int64_t             y = z.dim[1], x = z.dim[2], made = i.scale_time, n = r->base.remembers ? made : 1;
    const sg_tensor           frames = sg_new(s, SG_F32, made, y * i.scale_space, x * i.scale_space, SG_VAE_RGB);
    const size_t              mark = s->scratch.used;
    const sg_vae_inputs       m = reserve(&r->base, s, y, x);
    const sg_tensor           latent = sg_new(s, SG_F32, 1, y, x, i.z);
    sg_norm(s, .y = latent, .x = z, .w = r->base.scale, .b = r->base.shift, .kind = SG_NORM_NONE);
    sg_vae_map_places(s, &v->in, m.in[0], latent, false);
    sg_tap(s, m.in[0], "vae.conv_in");
    s->scratch.used = m.mark[0];
    sg_vae_blocks(&r->base, s, &k->mid, m.in[0]);
    sg_tap(s, m.in[0], "vae.block_in");
    for (int j = 0; j + 1 < k->levels; j++) {
        sg_vae_blocks(&r->base, s, &k->level[j], m.in[j]);
        expand(s, &k->level[j], &v->expand[j], m.in[j + 1], m.in[j]);
        sg_tap(s, m.in[j + 1], "vae.up.%d", j);
        s->scratch.used = m.mark[j + 1];
    }
    const sg_tensor last = m.in[k->levels - 1];
    sg_vae_blocks(&r->base, s, &k->level[k->levels - 1], last);
    sg_tap(s, last, "vae.block_out");
    project_out(v, s, frames, last);
    s->scratch.used = mark;
    r->base.remembers = true;
    return sg_rows(frames, made - n, n);
}

/* Begins a clip of y x x latents, or a tile of it. */
static void begin_tile(void *of, sg_stream *s, int64_t y, int64_t x)
{
    run *const r = of;
    s->keep.used = r->mark;
    r->base.remembers = false;
    sg_vae_keep_all(&r->base, s, y, x);
}

static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    SG_TRY(sg_vae_run_open(out, sizeof(run), of, true, s, y, x, e));
    run *const r = *out;
    r->mark = s->keep.used;
    if (!r->base.vae->tiled) begin_tile(r, s, y, x);
    return SG_OK;
}

/* In tiles z are all latents, so that only one tile's histories are held; the frames are small beside them. */
static sg_tensor decode_next(void *of, sg_stream *s, sg_tensor z, bool last)
{
    const run *const          r = of;
    const sg_vae_model *const v = r->base.vae;
    const int64_t             made = v->info.scale_time;
    const int64_t             n = v->tiled ? (z.dim[0] - 1) * made + 1 : r->base.remembers ? made : 1;
    (void)last;
    return sg_vae_decode(v, s, (sg_tiles){.run = of, .count = 1, .begin = begin_tile, .next = next_of_tile}, n, z);
}

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    const sg_vae_model *const v = of;
    return v->tiled ? total - done : done < total;
}

const sg_vae_ops sg_mochi_vae_ops = {.class_name = "AutoencoderKLMochi",
                                     .size = sizeof(mochi_vae),
                                     .read = read_config,
                                     .bind = bind,
                                     .component = sg_vae_component,
                                     .chunk = chunk,
                                     .special = 1, /* the first latent makes one frame */
                                     .set_tiles = sg_vae_set_tiles,
                                     .decode_open = decode_open,
                                     .decode_next = decode_next,
                                     .decode_close = sg_vae_run_close,
                                     .close = sg_vae_model_close};
