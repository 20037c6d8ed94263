/* hunyuan_vae.c - AutoencoderKLHunyuanVideo of diffusers (arXiv:2412.03603): config, tensors, what they must be.
 *
 * What bites:
 *  - the first levels change in space, the two before the last in time, some in both; levels count from the pixels on in
 *    the encoder, from the latents on in the decoder;
 *  - the mean and variance of a group norm, attention and the frames before the first are those of a window, so that the
 *    windows are part of the model: hunyuan_vae_decode.c;
 *  - quant_conv and post_quant_conv know no neighbours. */
#include "hunyuan_vae_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PUBLISHED_LEVELS = 4, RGB = 3 };

sg_component *sg_hunyuan_vae_component(sg_hunyuan_vae *v) { return &v->component; }
sg_component *sg_hunyuan_vae_encoder(sg_hunyuan_vae *v) { return &v->encoder_component; }

sg_vae_info sg_hunyuan_vae_describe(const sg_hunyuan_vae *v)
{
    sg_vae_info i = {.z = v->z, .scale_time = 1, .scale_space = 1};
    for (int k = 0; k < v->decoder.levels; k++) {
        i.scale_time <<= v->decoder.level[k].time;
        i.scale_space <<= v->decoder.level[k].space;
    }
    return i;
}

/* ---- config ---- */

static void check_types(sg_config *f, int levels, const char *key, const char *only)
{
    const char *type[SG_HUNYUAN_LEVELS] = {NULL};
    const int count = sg_config_has(f, key) ? sg_config_strings(f, key, type, 1, SG_HUNYUAN_LEVELS) : PUBLISHED_LEVELS;
    if (count != levels) sg_config_fail(f, key, "%d of them, but block_out_channels has %d", count, levels);
    for (int i = 0; i < count; i++)
        if (type[i] && strcmp(type[i], only) != 0)
            sg_config_fail(f, key, "\"%s\" is not supported; only \"%s\" is", type[i], only);
}

static void check_fixed(sg_config *f)
{
    static const char *const rgb[] = {"in_channels", "out_channels"};
    for (int i = 0; i < 2; i++)
        if (sg_config_int(f, rgb[i], 1, SG_HUNYUAN_CHANNELS, &(int64_t){RGB}) != RGB)
            sg_config_fail(f, rgb[i], "only 3, of RGB frames, are supported");
    const char *const act = sg_config_string(f, "act_fn", "silu");
    if (act && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        sg_config_fail(f, "act_fn", "\"%s\" is not supported; only \"silu\" is", act);
}

/* Which levels change, and in what. */
static void set_scales(sg_hunyuan_coder *k, sg_config *f)
{
    const int64_t time = sg_config_int(f, "temporal_compression_ratio", 1, 1 << SG_HUNYUAN_LEVELS, &(int64_t){4});
    const int64_t space = sg_config_int(f, "spatial_compression_ratio", 1, 1 << SG_HUNYUAN_LEVELS, &(int64_t){8});
    const int     doublings = 2; /* in time */
    int           made = 1;
    if (time != SG_HUNYUAN_TIME)
        sg_config_fail(f, "temporal_compression_ratio", "%lld is not supported; only %d is", (long long)time,
                       SG_HUNYUAN_TIME);
    if (k->levels <= doublings)
        sg_config_fail(f, "block_out_channels", "%d entries are too few for a temporal_compression_ratio of %d",
                       k->levels, SG_HUNYUAN_TIME);
    for (int i = 0; i < k->levels; i++) {
        k->level[i].time = i >= k->levels - 1 - doublings && i + 1 < k->levels;
        k->level[i].space = made < space;
        made *= k->level[i].space ? 2 : 1;
    }
    if (made != space)
        sg_config_fail(f, "spatial_compression_ratio", "%lld, but %d levels make powers of 2 up to %d",
                       (long long)space, k->levels, 1 << k->levels);
}

static void read_coder(sg_hunyuan_coder *k, bool up, sg_config *f)
{
    int64_t channels[SG_HUNYUAN_LEVELS];
    k->up = up;
    k->levels = sg_config_ints(f, "block_out_channels", 1, SG_HUNYUAN_CHANNELS, channels, 1, SG_HUNYUAN_LEVELS);
    k->blocks = (int)sg_config_int(f, "layers_per_block", 1, SG_HUNYUAN_BLOCKS - 1, &(int64_t){2}) + up;
    k->groups = (int)sg_config_int(f, "norm_num_groups", 1, SG_HUNYUAN_CHANNELS, &(int64_t){32});
    k->attention = sg_config_bool(f, "mid_block_add_attention", &(bool){true});
    for (int i = 0; i < k->levels; i++) {
        sg_hunyuan_level *const l = &k->level[i];
        l->out = channels[up ? k->levels - 1 - i : i];
        l->in = i ? l[-1].out : l->out;
        if (l->out % k->groups)
            sg_config_fail(f, "block_out_channels", "%lld is no multiple of the %d norm_num_groups", (long long)l->out,
                           k->groups);
    }
    if (!sg_config_status(f)) set_scales(k, f);
}

static sg_status read_config(sg_hunyuan_vae *v, sg_config *f)
{
    read_coder(&v->decoder, true, f);
    read_coder(&v->encoder, false, f);
    v->decoder.act = v->encoder.act = v->component.act;
    v->z = (int)sg_config_int(f, "latent_channels", 1, SG_HUNYUAN_Z, &(int64_t){16});
    v->scaling = sg_config_real(f, "scaling_factor", 1e-6, 1e6, &(double){0.476986});
    check_types(f, v->decoder.levels, "up_block_types", "HunyuanVideoUpBlock3D");
    check_types(f, v->encoder.levels, "down_block_types", "HunyuanVideoDownBlock3D");
    check_fixed(f);
    return sg_config_status(f);
}

/* ---- tensors ---- */

static void bind_norm(sg_bind *b, sg_hunyuan_norm *n, const char *name, int64_t c)
{
    char full[48];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(b, &n->w, SG_F32, full, c);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, &n->b, SG_F32, full, c);
}

static void bind_map(sg_bind *b, sg_dtype type, sg_hunyuan_map *m, const char *name, int64_t o, int64_t i)
{
    char full[48];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(b, &m->w, type, full, o, i);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, &m->b, SG_F32, full, o);
}

static void bind_conv(sg_bind *b, sg_dtype type, sg_hunyuan_map *m, const char *name, int64_t o, int64_t i)
{
    char full[48];
    snprintf(full, sizeof full, "%s.conv.weight", name);
    sg_bind_tensor(b, &m->w, type, full, o, i, 3, 3, 3);
    snprintf(full, sizeof full, "%s.conv.bias", name);
    sg_bind_tensor(b, &m->b, SG_F32, full, o);
}

static void bind_block(sg_bind *b, sg_dtype type, sg_hunyuan_block *w, int64_t i, int64_t o)
{
    bind_norm(b, &w->norm[0], "norm1", i);
    bind_conv(b, type, &w->conv[0], "conv1", o, i);
    bind_norm(b, &w->norm[1], "norm2", o);
    bind_conv(b, type, &w->conv[1], "conv2", o, o);
    if (i != o) bind_map(b, type, &w->shortcut, "conv_shortcut.conv", o, i);
}

static void bind_middle(sg_bind *b, sg_hunyuan_coder *k, const char *side, int64_t c)
{
    for (int j = 0; j < SG_HUNYUAN_MID; j++) {
        sg_bind_prefix(b, "%s.mid_block.resnets.%d.", side, j);
        bind_block(b, k->act, &k->mid[j], c, c);
    }
    if (!k->attention) return;
    sg_bind_prefix(b, "%s.mid_block.attentions.0.", side);
    bind_norm(b, &k->attention_norm, "group_norm", c);
    bind_map(b, k->act, &k->q, "to_q", c, c);
    bind_map(b, k->act, &k->k, "to_k", c, c);
    bind_map(b, k->act, &k->v, "to_v", c, c);
    bind_map(b, k->act, &k->attention_out, "to_out.0", c, c);
}

/* From `in` channels to `out`. */
static void bind_coder(sg_bind *b, sg_hunyuan_coder *k, int64_t in, int64_t out)
{
    const char *const side = k->up ? "decoder" : "encoder", *const way = k->up ? "up" : "down";
    const int64_t last = k->level[k->levels - 1].out;
    sg_bind_prefix(b, "%s.", side);
    bind_conv(b, k->act, &k->conv_in, "conv_in", k->level[0].in, in);
    bind_norm(b, &k->norm_out, "conv_norm_out", last);
    bind_conv(b, k->act, &k->conv_out, "conv_out", out, last);
    bind_middle(b, k, side, k->up ? k->level[0].in : last);
    for (int i = 0; i < k->levels; i++) {
        sg_hunyuan_level *const l = &k->level[i];
        for (int j = 0; j < k->blocks; j++) {
            sg_bind_prefix(b, "%s.%s_blocks.%d.resnets.%d.", side, way, i, j);
            bind_block(b, k->act, &l->block[j], j ? l->out : l->in, l->out);
        }
        sg_bind_prefix(b, "%s.%s_blocks.%d.%ssamplers.0.", side, way, i, way);
        if (l->space || l->time) bind_conv(b, k->act, &l->resample, "conv", l->out, l->out);
    }
}

/* quant_conv and post_quant_conv are small and F32, so that they cost the latents nothing. */
static sg_status bind_all(sg_hunyuan_vae *v, sg_error *e)
{
    sg_bind *const b = v->component.bind;
    sg_bind       *encoder = NULL;
    SG_TRY(sg_bind_open(&encoder, v->component.source, v->component.map, e));
    v->encoder_component = v->component;
    v->encoder_component.bind = encoder;
    bind_map(b, SG_F32, &v->post_quant, "post_quant_conv", v->z, v->z);
    bind_coder(b, &v->decoder, v->z, RGB);
    bind_map(encoder, SG_F32, &v->quant, "quant_conv", 2 * (int64_t)v->z, 2 * (int64_t)v->z);
    bind_coder(encoder, &v->encoder, RGB, 2 * (int64_t)v->z);
    sg_bind_share(b, encoder);
    sg_bind_ignore(encoder, ""); /* the decoder's list tells of what neither wants */
    const sg_status first = sg_bind_check(b, e);
    return first ? first : sg_bind_check(encoder, e);
}

/* ---- opening ---- */

static sg_status open_component(sg_hunyuan_vae *v, const sg_checkpoint *c, sg_dtype act, sg_config **f, sg_error *e)
{
    SG_TRY(sg_component_open(&v->component, c, "vae", "AutoencoderKLHunyuanVideo", act, f, e));
    SG_TRY(read_config(v, *f));
    const sg_vae_info i = sg_hunyuan_vae_describe(v);
    snprintf(v->component.summary, sizeof v->component.summary, "%d x %d x %d, %d latent channels, %d levels from %d",
             i.scale_time, i.scale_space, i.scale_space, i.z, v->encoder.levels, (int)v->encoder.level[0].out);
    return bind_all(v, e);
}

sg_status sg_hunyuan_vae_open(sg_hunyuan_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e)
{
    sg_hunyuan_vae *v = *out = calloc(1, sizeof *v);
    sg_config      *f = NULL;
    if (!v) return sg_error_set(e, SG_E_MEMORY, "%s/vae: out of memory", sg_checkpoint_path(c));
    const sg_status st = open_component(v, c, act, &f, e);
    sg_config_close(&f);
    if (st) sg_hunyuan_vae_close(out);
    return st;
}

void sg_hunyuan_vae_close(sg_hunyuan_vae **v)
{
    if (!*v) return;
    sg_bind_close(&(*v)->encoder_component.bind);
    sg_component_close(&(*v)->component);
    free(*v);
    *v = NULL;
}
