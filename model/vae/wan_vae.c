/* wan_vae.c - AutoencoderKLWan (arXiv:2503.20314): config, tensors, what they must be.
 *
 * Tensor names are those of diffusers. What bites:
 *  - the decoder walks dim_mult and temperal_downsample from their ends;
 *  - plain (2.1): an upsampler halves the channels; encoder.down_blocks is one flat list of blocks and downsamplers;
 *  - is_residual (2.2): an upsampler keeps the channels; blocks lie inside levels; every level but the decoder's last
 *    has a shortcut without weights, the encoder's last included;
 *  - scale_factor_* are the sizes that a pipeline goes by: they must be what the levels make. */
#include "wan_vae_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

sg_component *sg_wan_vae_component(sg_wan_vae *v) { return &v->component; }
sg_component *sg_wan_vae_encoder(sg_wan_vae *v) { return &v->encoder_component; }

static int scale_time(const sg_vae_config *c)
{
    int scale = 1;
    for (int i = 0; i + 1 < c->levels; i++) scale <<= c->time[i];
    return scale;
}

static int scale_space(const sg_vae_config *c) { return c->patch << (c->levels - 1); }

sg_wan_vae_info sg_wan_vae_describe(const sg_wan_vae *v)
{
    const sg_vae_config *const c = &v->config;
    return (sg_wan_vae_info){.z = c->z,
                             .scale_time = scale_time(c),
                             .scale_space = scale_space(c),
                             .levels = c->levels,
                             .base = c->base,
                             .residual = c->residual,
                             .patch = c->patch};
}

/* ---- config ---- */

static void check_scale(sg_config *f, const char *key, int64_t usual, int made, const char *by)
{
    const int64_t said = sg_config_int(f, key, 1, 1 << 16, &usual);
    if (said != made) sg_config_fail(f, key, "%lld, but %s make %d", (long long)said, by, made);
}

static void check_pixels(sg_config *f, const char *key, int patch)
{
    const int64_t rgb = 3, said = sg_config_int(f, key, 1, SG_VAE_CHANNELS, &rgb);
    if (said != 3 * patch * patch)
        sg_config_fail(f, key, "%lld, but RGB frames in patches of patch_size %d have %d", (long long)said, patch,
                       3 * patch * patch);
}

static sg_status read_config(sg_vae_config *c, sg_config *f)
{
    const bool    no = false;
    const int64_t one = 1;
    double        scale[64];
    c->base = (int)sg_config_int(f, "base_dim", 2, SG_VAE_CHANNELS, NULL);
    const int64_t base = c->base;
    c->decoder_base = (int)sg_config_int(f, "decoder_base_dim", 2, SG_VAE_CHANNELS, &base);
    c->z = (int)sg_config_int(f, "z_dim", 1, SG_VAE_Z, NULL);
    c->levels = sg_config_ints(f, "dim_mult", 1, SG_VAE_CHANNELS, c->mult, 1, SG_VAE_LEVELS);
    c->blocks = (int)sg_config_int(f, "num_res_blocks", 1, SG_VAE_BLOCKS - 1, NULL);
    c->residual = sg_config_bool(f, "is_residual", &no);
    c->patch = (int)sg_config_int(f, "patch_size", 1, 32, &one);
    SG_TRY(sg_config_status(f)); /* what follows goes by these */

    sg_config_bools(f, "temperal_downsample", c->time, c->levels - 1, c->levels - 1);
    sg_config_reals(f, "latents_mean", -1e6, 1e6, c->mean, c->z, c->z);
    sg_config_reals(f, "latents_std", 1e-6, 1e6, c->std, c->z, c->z);
    if (sg_config_reals(f, "attn_scales", -INFINITY, INFINITY, scale, 0, 64) > 0)
        sg_config_fail(f, "attn_scales", "attention between the levels is not supported: only an empty list is");
    for (int i = 0; i < c->levels; i++)
        if (c->mult[i] * (c->base > c->decoder_base ? c->base : c->decoder_base) > SG_VAE_CHANNELS)
            sg_config_fail(f, "dim_mult", "entry %d makes more than %d channels", i, SG_VAE_CHANNELS);
    check_pixels(f, "in_channels", c->patch);
    check_pixels(f, "out_channels", c->patch);
    check_scale(f, "scale_factor_temporal", 4, scale_time(c), "the levels of temperal_downsample");
    check_scale(f, "scale_factor_spatial", 8, scale_space(c), "the levels of dim_mult and patch_size");
    return sg_config_status(f);
}

/* ---- levels ---- */

static void set_decoder_shapes(sg_vae_coder *k, const sg_vae_config *c)
{
    k->up = true;
    k->levels = c->levels;
    for (int i = 0; i < c->levels; i++) {
        sg_vae_level *const l = &k->level[i];
        l->out = c->decoder_base * c->mult[c->levels - 1 - i];
        l->in = i ? k->level[i - 1].next : l->out;
        l->scale = i + 1 < c->levels;
        l->time = l->scale && c->time[c->levels - 2 - i];
        l->shortcut = l->scale && c->residual;
        l->next = l->scale && !c->residual ? l->out / 2 : l->out;
        l->blocks = c->blocks + 1;
        l->index = i;
    }
}

static void set_encoder_shapes(sg_vae_coder *k, const sg_vae_config *c)
{
    int index = 0;
    k->flat = !c->residual;
    k->levels = c->levels;
    for (int i = 0; i < c->levels; i++) {
        sg_vae_level *const l = &k->level[i];
        l->in = i ? k->level[i - 1].next : c->base;
        l->out = l->next = c->base * c->mult[i];
        l->scale = i + 1 < c->levels;
        l->time = l->scale && c->time[i];
        l->shortcut = c->residual;
        l->blocks = c->blocks;
        l->index = index;
        index += k->flat ? l->blocks + l->scale : 1;
    }
}

/* A shortcut deals the channels of a place, or of a block of places, out evenly. */
static void check_shortcuts(sg_config *f, const sg_vae_coder *k)
{
    for (int i = 0; i < k->levels; i++) {
        const sg_vae_level *const l = &k->level[i];
        const int                 block = (l->scale ? 4 : 1) * (l->time ? 2 : 1);
        const int64_t             many = (k->up ? l->next : l->in) * block, few = k->up ? l->in : l->next;
        if (l->shortcut && many % few)
            sg_config_fail(f, "dim_mult",
                           "the %s's level %d cannot join its %lld channels to %lld: %lld is no multiple of %lld",
                           k->up ? "decoder" : "encoder", i, (long long)l->in, (long long)l->next, (long long)many,
                           (long long)few);
    }
}

/* ---- tensors ---- */

/* Wants name.weight and name.bias; kt 0: a convolution of single frames. One that reads past frames gets a history. */
static void bind_conv(sg_bind *b, sg_vae_coder *k, sg_vae_conv *c, sg_dtype as, const char *name, int64_t o, int64_t i,
                      int kt, int ks)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    if (kt)
        sg_bind_tensor(b, &c->w, as, full, o, i, kt, ks, ks);
    else
        sg_bind_tensor(b, &c->w, as, full, o, i, ks, ks);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, &c->b, SG_F32, full, o);
    if (kt > 1) c->history = k->histories++;
}

static void bind_block(sg_bind *b, sg_vae_coder *k, sg_vae_block *w, sg_dtype act, int64_t i, int64_t o)
{
    sg_bind_tensor(b, &w->norm[0], SG_F32, "norm1.gamma", i, 1, 1, 1);
    bind_conv(b, k, &w->conv[0], act, "conv1", o, i, 3, 3);
    sg_bind_tensor(b, &w->norm[1], SG_F32, "norm2.gamma", o, 1, 1, 1);
    bind_conv(b, k, &w->conv[1], act, "conv2", o, o, 3, 3);
    if (i != o) bind_conv(b, k, &w->shortcut, act, "conv_shortcut", o, i, 1, 1);
}

static void bind_level(sg_bind *b, sg_vae_coder *k, sg_vae_level *l, sg_dtype act)
{
    const char *const side = k->up ? "decoder.up_blocks" : "encoder.down_blocks";
    const char *const up = l->shortcut ? "upsampler" : "upsamplers.0";
    for (int j = 0; j < l->blocks; j++) {
        if (k->flat)
            sg_bind_prefix(b, "%s.%d.", side, l->index + j);
        else
            sg_bind_prefix(b, "%s.%d.resnets.%d.", side, l->index, j);
        bind_block(b, k, &l->block[j], act, j ? l->out : l->in, l->out);
    }
    if (!l->scale) return;
    if (k->flat)
        sg_bind_prefix(b, "%s.%d.", side, l->index + l->blocks);
    else
        sg_bind_prefix(b, "%s.%d.%s.", side, l->index, k->up ? up : "downsampler");
    bind_conv(b, k, &l->space_conv, act, "resample.1", l->next, l->out, 0, 3);
    if (l->time) bind_conv(b, k, &l->time_conv, act, "time_conv", k->up ? 2 * l->out : l->out, l->out, 3, 1);
}

/* in and out: channels of the whole; c: of the middle; last: before the way out. The quantisers are small and their
 * sides F32, so that they cost the latents nothing. */
static void bind_coder(sg_bind *b, sg_vae_coder *k, sg_dtype act, int64_t in, int64_t out, int64_t c, int64_t last)
{
    const char *const side = k->up ? "decoder" : "encoder";
    sg_bind_prefix(b, "%s", "");
    bind_conv(b, k, &k->quant, SG_F32, k->up ? "post_quant_conv" : "quant_conv", k->up ? in : out, k->up ? in : out, 1,
              1);
    sg_bind_prefix(b, "%s.", side);
    bind_conv(b, k, &k->conv_in, act, "conv_in", k->level[0].in, in, 3, 3);
    sg_bind_tensor(b, &k->norm_out, SG_F32, "norm_out.gamma", last, 1, 1, 1);
    bind_conv(b, k, &k->conv_out, act, "conv_out", out, last, 3, 3);
    for (int i = 0; i < 2; i++) {
        sg_bind_prefix(b, "%s.mid_block.resnets.%d.", side, i);
        bind_block(b, k, &k->mid[i], act, c, c);
    }
    sg_bind_prefix(b, "%s.mid_block.attentions.0.", side);
    sg_bind_tensor(b, &k->attention.norm, SG_F32, "norm.gamma", c, 1, 1);
    bind_conv(b, k, &k->attention.qkv, act, "to_qkv", 3 * c, c, 0, 1);
    bind_conv(b, k, &k->attention.proj, act, "proj", c, c, 0, 1);
    for (int i = 0; i < k->levels; i++) bind_level(b, k, &k->level[i], act);
}

/* Two lists over one set of files: each half is loaded by itself, but a checkpoint must be whole. */
static sg_status bind_all(sg_wan_vae *v, sg_error *e)
{
    const sg_vae_config *const c = &v->config;
    const int64_t              pixel = 3 * c->patch * c->patch;
    sg_vae_coder *const d = &v->decoder, *const n = &v->encoder;
    sg_bind *encoder = NULL;
    SG_TRY(sg_bind_open(&encoder, v->component.source, v->component.map, e));
    v->encoder_component = v->component;
    v->encoder_component.bind = encoder;
    bind_coder(v->component.bind, d, v->component.act, c->z, pixel, d->level[0].in, d->level[c->levels - 1].next);
    bind_coder(encoder, n, v->component.act, pixel, 2 * c->z, n->level[c->levels - 1].next,
               n->level[c->levels - 1].next);
    sg_bind_share(v->component.bind, encoder);
    sg_bind_ignore(encoder, ""); /* the decoder's list tells of what neither wants */
    return sg_bind_check_both(v->component.bind, encoder, e);
}

/* ---- opening ---- */

static sg_status open_components(sg_wan_vae *v, const sg_checkpoint *c, sg_dtype act, sg_config **f, sg_error *e)
{
    SG_TRY(sg_component_open(&v->component, c, "vae", "AutoencoderKLWan", act, f, e));
    SG_TRY(read_config(&v->config, *f));
    set_decoder_shapes(&v->decoder, &v->config);
    set_encoder_shapes(&v->encoder, &v->config);
    check_shortcuts(*f, &v->decoder);
    check_shortcuts(*f, &v->encoder);
    SG_TRY(sg_config_status(*f));
    const sg_wan_vae_info i = sg_wan_vae_describe(v);
    snprintf(v->component.summary, sizeof v->component.summary, "%d x %d x %d, %d latent channels, %d levels from %d%s",
             i.scale_time, i.scale_space, i.scale_space, i.z, i.levels, i.base, i.residual ? ", residual" : "");
    return bind_all(v, e);
}

sg_status sg_wan_vae_open(sg_wan_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e)
{
    sg_wan_vae *v = *out = calloc(1, sizeof *v);
    sg_config  *f = NULL;
    if (!v) return sg_error_set(e, SG_E_MEMORY, "%s/vae: out of memory", sg_checkpoint_path(c));
    const sg_status st = open_components(v, c, act, &f, e);
    sg_config_close(&f);
    if (st) sg_wan_vae_close(out);
    return st;
}

void sg_wan_vae_close(sg_wan_vae **v)
{
    if (!*v) return;
    sg_bind_close(&(*v)->encoder_component.bind);
    sg_component_close(&(*v)->component);
    free(*v);
    *v = NULL;
}
