/* hunyuan_vae.c - AutoencoderKLHunyuanVideo of diffusers (arXiv:2412.03603), the decoder: config, tensors, what they must
 * be.
 *
 * What bites:
 *  - the last levels before the last are made larger in time, the first ones in space; a level may be both or one;
 *  - the mean and variance of a group norm, attention and the frames before the first are those of a window, so that the
 *    windows are part of the model: hunyuan_vae_decode.c;
 *  - post_quant_conv knows no neighbours. */
#include "hunyuan_vae_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PUBLISHED_LEVELS = 4 };

sg_component *sg_hunyuan_vae_component(sg_hunyuan_vae *v) { return &v->component; }

sg_vae_info sg_hunyuan_vae_describe(const sg_hunyuan_vae *v)
{
    sg_vae_info i = {.z = v->z, .scale_time = 1, .scale_space = 1};
    for (int k = 0; k < v->levels; k++) {
        i.scale_time <<= v->level[k].time;
        i.scale_space <<= v->level[k].space;
    }
    return i;
}

/* ---- config ---- */

static void check_types(const sg_hunyuan_vae *v, sg_config *f, const char *key, const char *only)
{
    const char *type[SG_HUNYUAN_LEVELS] = {NULL};
    const int count = sg_config_has(f, key) ? sg_config_strings(f, key, type, 1, SG_HUNYUAN_LEVELS) : PUBLISHED_LEVELS;
    if (count != v->levels) sg_config_fail(f, key, "%d of them, but block_out_channels has %d", count, v->levels);
    for (int i = 0; i < count; i++)
        if (type[i] && strcmp(type[i], only) != 0)
            sg_config_fail(f, key, "\"%s\" is not supported; only \"%s\" is", type[i], only);
}

static void check_fixed(sg_config *f)
{
    static const char *const rgb[] = {"in_channels", "out_channels"};
    for (int i = 0; i < 2; i++)
        if (sg_config_int(f, rgb[i], 1, SG_HUNYUAN_CHANNELS, &(int64_t){3}) != 3)
            sg_config_fail(f, rgb[i], "only 3, of RGB frames, are supported");
    const char *const act = sg_config_string(f, "act_fn", "silu");
    if (act && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        sg_config_fail(f, "act_fn", "\"%s\" is not supported; only \"silu\" is", act);
}

/* Which levels are made larger, and in what. */
static void set_scales(sg_hunyuan_vae *v, sg_config *f)
{
    const int64_t time = sg_config_int(f, "temporal_compression_ratio", 1, 1 << SG_HUNYUAN_LEVELS, &(int64_t){4});
    const int64_t space = sg_config_int(f, "spatial_compression_ratio", 1, 1 << SG_HUNYUAN_LEVELS, &(int64_t){8});
    const int     doublings = 2; /* in time */
    int           made = 1;
    if (time != SG_HUNYUAN_TIME)
        sg_config_fail(f, "temporal_compression_ratio", "%lld is not supported; only %d is", (long long)time,
                       SG_HUNYUAN_TIME);
    if (v->levels <= doublings)
        sg_config_fail(f, "block_out_channels", "%d entries are too few for a temporal_compression_ratio of %d",
                       v->levels, SG_HUNYUAN_TIME);
    for (int i = 0; i < v->levels; i++) {
        v->level[i].time = i >= v->levels - 1 - doublings && i + 1 < v->levels;
        v->level[i].space = made < space;
        made *= v->level[i].space ? 2 : 1;
    }
    if (made != space)
        sg_config_fail(f, "spatial_compression_ratio", "%lld, but %d levels make powers of 2 up to %d",
                       (long long)space, v->levels, 1 << v->levels);
}

static sg_status read_config(sg_hunyuan_vae *v, sg_config *f)
{
    int64_t out[SG_HUNYUAN_LEVELS];
    v->levels = sg_config_ints(f, "block_out_channels", 1, SG_HUNYUAN_CHANNELS, out, 1, SG_HUNYUAN_LEVELS);
    v->blocks = (int)sg_config_int(f, "layers_per_block", 1, SG_HUNYUAN_BLOCKS - 1, &(int64_t){2}) + 1;
    v->z = (int)sg_config_int(f, "latent_channels", 1, SG_HUNYUAN_Z, &(int64_t){16});
    v->groups = (int)sg_config_int(f, "norm_num_groups", 1, SG_HUNYUAN_CHANNELS, &(int64_t){32});
    v->scaling = sg_config_real(f, "scaling_factor", 1e-6, 1e6, &(double){0.476986});
    v->attention = sg_config_bool(f, "mid_block_add_attention", &(bool){true});
    SG_TRY(sg_config_status(f));
    for (int i = 0; i < v->levels; i++) {
        sg_hunyuan_level *const l = &v->level[i];
        l->out = out[v->levels - 1 - i];
        l->in = i ? l[-1].out : l->out;
        if (l->out % v->groups)
            sg_config_fail(f, "block_out_channels", "%lld is no multiple of the %d norm_num_groups", (long long)l->out,
                           v->groups);
    }
    set_scales(v, f);
    check_types(v, f, "up_block_types", "HunyuanVideoUpBlock3D");
    check_types(v, f, "down_block_types", "HunyuanVideoDownBlock3D");
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

static void bind_middle(sg_hunyuan_vae *v)
{
    sg_bind *const b = v->component.bind;
    const sg_dtype type = v->component.act;
    const int64_t  c = v->level[0].in;
    for (int j = 0; j < SG_HUNYUAN_MID; j++) {
        sg_bind_prefix(b, "decoder.mid_block.resnets.%d.", j);
        bind_block(b, type, &v->mid[j], c, c);
    }
    if (!v->attention) return;
    sg_bind_prefix(b, "decoder.mid_block.attentions.0.");
    bind_norm(b, &v->attention_norm, "group_norm", c);
    bind_map(b, type, &v->q, "to_q", c, c);
    bind_map(b, type, &v->k, "to_k", c, c);
    bind_map(b, type, &v->v, "to_v", c, c);
    bind_map(b, type, &v->attention_out, "to_out.0", c, c);
}

/* post_quant_conv is small and F32, so that it costs the latents nothing. */
static void bind_all(sg_hunyuan_vae *v)
{
    sg_bind *const b = v->component.bind;
    const sg_dtype type = v->component.act;
    const int64_t  last = v->level[v->levels - 1].out;
    bind_map(b, SG_F32, &v->post_quant, "post_quant_conv", v->z, v->z);
    sg_bind_ignore(b, "encoder."); /* text to video has no use for it */
    sg_bind_ignore(b, "quant_conv.");
    sg_bind_prefix(b, "decoder.");
    bind_conv(b, type, &v->conv_in, "conv_in", v->level[0].in, v->z);
    bind_norm(b, &v->norm_out, "conv_norm_out", last);
    bind_conv(b, type, &v->conv_out, "conv_out", 3, last);
    bind_middle(v);
    for (int i = 0; i < v->levels; i++) {
        sg_hunyuan_level *const l = &v->level[i];
        for (int j = 0; j < v->blocks; j++) {
            sg_bind_prefix(b, "decoder.up_blocks.%d.resnets.%d.", i, j);
            bind_block(b, type, &l->block[j], j ? l->out : l->in, l->out);
        }
        sg_bind_prefix(b, "decoder.up_blocks.%d.", i);
        if (l->space || l->time) bind_conv(b, type, &l->up, "upsamplers.0.conv", l->out, l->out);
    }
}

/* ---- opening ---- */

static sg_status open_component(sg_hunyuan_vae *v, const sg_checkpoint *c, sg_dtype act, sg_config **f, sg_error *e)
{
    SG_TRY(sg_component_open(&v->component, c, "vae", "AutoencoderKLHunyuanVideo", act, f, e));
    SG_TRY(read_config(v, *f));
    const sg_vae_info i = sg_hunyuan_vae_describe(v);
    snprintf(v->component.summary, sizeof v->component.summary, "%d x %d x %d, %d latent channels, %d levels from %d",
             i.scale_time, i.scale_space, i.scale_space, i.z, v->levels, (int)v->level[v->levels - 1].out);
    bind_all(v);
    return sg_bind_check(v->component.bind, e);
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
    sg_component_close(&(*v)->component);
    free(*v);
    *v = NULL;
}
