/* cogvideox_vae.c - AutoencoderKLCogVideoX (arXiv:2408.06072): config, tensors, what they must be.
 *
 * Tensor names are those of diffusers. What bites:
 *  - the decoder walks block_out_channels from their end and has a block a level more than the encoder;
 *  - in either half the first levels are those that change the number of frames;
 *  - norm_eps is for the encoder's blocks alone; all other norms have 1e-6. */
#include "cogvideox_vae_weights.h"
#include "kl_coder.h"

#include <stdio.h>
#include <stdlib.h>

static const float usual_eps = 1e-6f;

sg_component *sg_cogvideox_vae_component(sg_cogvideox_vae *v) { return &v->component; }
sg_component *sg_cogvideox_vae_encoder(sg_cogvideox_vae *v) { return &v->encoder_component; }

sg_vae_info sg_cogvideox_vae_describe(const sg_cogvideox_vae *v)
{
    const sg_cog_coder *const d = &v->decoder;
    sg_vae_info               i = {.z = v->z, .scale_time = 1, .scale_space = 1, .scaling = v->scaling};
    for (int k = 0; k < d->levels; k++) {
        i.scale_time <<= d->level[k].time;
        i.scale_space <<= d->level[k].space;
    }
    return i;
}

double sg_cogvideox_vae_picture_scale(const sg_cogvideox_vae *v)
{
    return v->inverse ? 1 / (v->scaling * v->scaling) : 1;
}

/* ---- config ---- */

/* Levels of either half; out: of the encoder's. The first of them change the number of frames, one for each factor of 2. */
static void set_levels(sg_cogvideox_vae *v, const int64_t *out, int levels, int blocks, int64_t ratio, sg_config *f)
{
    int made = 1;
    v->decoder = (sg_cog_coder){.up = true, .levels = levels, .blocks = blocks + 1};
    v->encoder = (sg_cog_coder){.levels = levels, .blocks = blocks};
    for (int i = 0; i < levels; i++) {
        sg_cog_level *const d = &v->decoder.level[i], *const n = &v->encoder.level[i];
        d->out = out[levels - 1 - i];
        n->out = out[i];
        d->in = i ? d[-1].out : d->out;
        n->in = i ? n[-1].out : n->out;
        d->space = n->space = i + 1 < levels;
        d->time = n->time = d->space && made < ratio;
        made <<= d->time;
        if (n->out % v->groups)
            sg_config_fail(f, "block_out_channels", "%lld is no multiple of the %d norm_num_groups", (long long)n->out,
                           v->groups);
    }
    if (made != ratio)
        sg_config_fail(f, "temporal_compression_ratio", "%lld, but %d levels make powers of 2 up to %d",
                       (long long)ratio, levels, 1 << (levels - 1));
}

static sg_status read_config(sg_cogvideox_vae *v, sg_config *f)
{
    static const char *const quant[] = {"use_quant_conv", "use_post_quant_conv"};
    int64_t                  out[SG_COG_LEVELS];
    const int     levels = sg_config_ints(f, "block_out_channels", 1, SG_COG_CHANNELS, out, 1, SG_COG_LEVELS);
    const int     blocks = (int)sg_config_int(f, "layers_per_block", 1, SG_COG_BLOCKS - 1, &(int64_t){3});
    const int64_t ratio = sg_config_int(f, "temporal_compression_ratio", 1, 1 << SG_COG_LEVELS, &(int64_t){4});
    v->z = (int)sg_config_int(f, "latent_channels", 1, SG_COG_Z, &(int64_t){16});
    v->groups = (int)sg_config_int(f, "norm_num_groups", 1, SG_COG_CHANNELS, &(int64_t){32});
    v->eps = sg_config_real(f, "norm_eps", 0, 1, &(double){1e-6});
    v->scaling = sg_config_real(f, "scaling_factor", 1e-6, 1e6, &(double){1.15258426});
    v->inverse = sg_config_bool(f, "invert_scale_latents", &(bool){false});
    for (int i = 0; i < 2; i++)
        if (sg_config_bool(f, quant[i], &(bool){false})) sg_config_fail(f, quant[i], "true is not supported");
    sg_kl_check_fixed(f);
    SG_TRY(sg_config_status(f));
    set_levels(v, out, levels, blocks, ratio, f);
    sg_kl_check_types(f, "up_block_types", "CogVideoXUpBlock3D", levels, levels);
    sg_kl_check_types(f, "down_block_types", "CogVideoXDownBlock3D", levels, levels);
    return sg_config_status(f);
}

/* ---- tensors ---- */

/* One half, and where its tensors are wanted. */
typedef struct binding {
    sg_bind                *b;
    sg_cog_coder           *coder;
    const sg_cogvideox_vae *vae;
} binding;

static void bind_conv(const binding *t, sg_cog_conv *c, const char *name, int64_t o, int64_t i, int kt)
{
    char full[80];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(t->b, &c->w, t->vae->component.act, full, o, i, kt, 3, 3);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(t->b, &c->b, SG_F32, full, o);
    if (kt > 1) c->history = t->coder->histories++;
}

static void bind_mix(const binding *t, sg_cog_mix *m, const char *name, int64_t o, int64_t i)
{
    char full[80];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(t->b, &m->w, t->vae->component.act, full, o, i);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(t->b, &m->b, SG_F32, full, o);
}

static void bind_norm(const binding *t, sg_cog_norm *n, const char *name, int64_t c, float eps)
{
    const char *const layer = t->coder->up ? ".norm_layer" : "";
    char              full[64];
    n->eps = eps;
    snprintf(full, sizeof full, "%s%s.weight", name, layer);
    sg_bind_tensor(t->b, &n->w, SG_F32, full, c);
    snprintf(full, sizeof full, "%s%s.bias", name, layer);
    sg_bind_tensor(t->b, &n->b, SG_F32, full, c);
    if (!t->coder->up) return;
    snprintf(full, sizeof full, "%s.conv_y.conv", name);
    bind_mix(t, &n->scale, full, c, t->vae->z);
    snprintf(full, sizeof full, "%s.conv_b.conv", name);
    bind_mix(t, &n->shift, full, c, t->vae->z);
}

static void bind_block(const binding *t, sg_cog_block *w, int64_t i, int64_t o)
{
    const float eps = t->coder->up ? usual_eps : (float)t->vae->eps;
    bind_norm(t, &w->norm[0], "norm1", i, eps);
    bind_conv(t, &w->conv[0], "conv1.conv", o, i, 3);
    bind_norm(t, &w->norm[1], "norm2", o, eps);
    bind_conv(t, &w->conv[1], "conv2.conv", o, o, 3);
    if (i != o) bind_mix(t, &w->shortcut, "conv_shortcut", o, i);
}

/* in and out: channels of the whole; mid: of the middle. */
static void bind_coder(const binding *t, int64_t in, int64_t out, int64_t mid)
{
    sg_cog_coder *const k = t->coder;
    const char *const half = k->up ? "decoder" : "encoder", *const way = k->up ? "up" : "down";
    const int64_t first = k->level[0].in, last = k->level[k->levels - 1].out;
    sg_bind_prefix(t->b, "%s.", half);
    bind_conv(t, &k->conv_in, "conv_in.conv", first, in, 3);
    bind_norm(t, &k->norm_out, "norm_out", last, usual_eps);
    bind_conv(t, &k->conv_out, "conv_out.conv", out, last, 3);
    for (int j = 0; j < SG_COG_MID; j++) {
        sg_bind_prefix(t->b, "%s.mid_block.resnets.%d.", half, j);
        bind_block(t, &k->mid[j], mid, mid);
    }
    for (int i = 0; i < k->levels; i++) {
        sg_cog_level *const l = &k->level[i];
        for (int j = 0; j < k->blocks; j++) {
            sg_bind_prefix(t->b, "%s.%s_blocks.%d.resnets.%d.", half, way, i, j);
            bind_block(t, &l->block[j], j ? l->out : l->in, l->out);
        }
        sg_bind_prefix(t->b, "%s.%s_blocks.%d.%ssamplers.0.", half, way, i, way);
        if (l->space) bind_conv(t, &l->resize, "conv", l->out, l->out, 1);
    }
}

/* Two lists over one set of files: each half is loaded by itself, but a checkpoint must be whole. */
static sg_status bind_all(sg_cogvideox_vae *v, sg_error *e)
{
    sg_bind *const decoder = v->component.bind;
    sg_bind       *encoder = NULL;
    const int64_t  mid = v->decoder.level[0].in;
    SG_TRY(sg_bind_open(&encoder, v->component.source, v->component.map, e));
    v->encoder_component = v->component;
    v->encoder_component.bind = encoder;
    bind_coder(&(binding){decoder, &v->decoder, v}, v->z, 3, mid);
    bind_coder(&(binding){encoder, &v->encoder, v}, 3, 2 * v->z, mid);
    sg_bind_share(decoder, encoder);
    sg_bind_ignore(encoder, ""); /* the decoder's list tells of what neither wants */
    return sg_bind_check_both(decoder, encoder, e);
}

/* ---- opening ---- */

static sg_status open_component(sg_cogvideox_vae *v, const sg_checkpoint *c, sg_dtype act, sg_config **f, sg_error *e)
{
    SG_TRY(sg_component_open(&v->component, c, "vae", "AutoencoderKLCogVideoX", act, f, e));
    SG_TRY(read_config(v, *f));
    const sg_vae_info i = sg_cogvideox_vae_describe(v);
    snprintf(v->component.summary, sizeof v->component.summary, "%d x %d x %d, %d latent channels, %d levels from %d",
             i.scale_time, i.scale_space, i.scale_space, i.z, v->encoder.levels, (int)v->encoder.level[0].out);
    return bind_all(v, e);
}

sg_status sg_cogvideox_vae_open(sg_cogvideox_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e)
{
    sg_cogvideox_vae *v = *out = calloc(1, sizeof *v);
    sg_config        *f = NULL;
    if (!v) return sg_error_set(e, SG_E_MEMORY, "%s/vae: out of memory", sg_checkpoint_path(c));
    const sg_status st = open_component(v, c, act, &f, e);
    sg_config_close(&f);
    if (st) sg_cogvideox_vae_close(out);
    return st;
}

void sg_cogvideox_vae_close(sg_cogvideox_vae **v)
{
    if (!*v) return;
    sg_bind_close(&(*v)->encoder_component.bind);
    sg_component_close(&(*v)->component);
    free(*v);
    *v = NULL;
}
