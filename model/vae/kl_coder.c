/* kl_coder.c - config and tensors of a decoder or encoder of residual blocks: see kl_coder.h. */
#include "kl_coder.h"

#include <stdio.h>
#include <string.h>

/* ---- config ---- */

static void set_levels(sg_kl_coder *k, const int64_t *channels)
{
    for (int i = 0; i < k->levels; i++) {
        sg_kl_level *const l = &k->level[i];
        l->out = channels[k->up ? k->levels - 1 - i : i];
        l->in = i ? l[-1].out : l->out;
    }
}

void sg_kl_coders_read(sg_kl_coder *decoder, sg_kl_coder *encoder, sg_dtype act, int64_t layers, sg_config *f)
{
    int64_t   channels[SG_KL_LEVELS] = {0};
    const int levels = sg_config_ints(f, "block_out_channels", 1, SG_KL_CHANNELS, channels, 1, SG_KL_LEVELS);
    const int blocks = (int)sg_config_int(f, "layers_per_block", 1, SG_KL_BLOCKS - 1, &layers);
    const int groups = (int)sg_config_int(f, "norm_num_groups", 1, SG_KL_CHANNELS, &(int64_t){32});
    *encoder = (sg_kl_coder){.levels = levels, .blocks = blocks, .groups = groups, .act = act, .has_quant = true};
    *decoder = *encoder;
    decoder->up = true;
    decoder->blocks++;
    decoder->attention = encoder->attention = sg_config_bool(f, "mid_block_add_attention", &(bool){true});
    set_levels(decoder, channels);
    set_levels(encoder, channels);
    for (int i = 0; i < levels && !sg_config_status(f); i++)
        if (channels[i] % groups)
            sg_config_fail(f, "block_out_channels", "%lld is no multiple of the %d norm_num_groups",
                           (long long)channels[i], groups);
}

void sg_kl_check_types(sg_config *f, const char *key, const char *only, int levels, int assumed)
{
    const char *type[SG_KL_LEVELS] = {NULL};
    const int   count = sg_config_has(f, key) ? sg_config_strings(f, key, type, 1, SG_KL_LEVELS) : assumed;
    if (count != levels) sg_config_fail(f, key, "%d of them, but block_out_channels has %d", count, levels);
    for (int i = 0; i < count; i++)
        if (type[i] && strcmp(type[i], only) != 0)
            sg_config_fail(f, key, "\"%s\" is not supported; only \"%s\" is", type[i], only);
}

void sg_kl_check_fixed(sg_config *f)
{
    static const char *const rgb[] = {"in_channels", "out_channels"};
    for (int i = 0; i < 2; i++)
        if (sg_config_int(f, rgb[i], 1, SG_KL_CHANNELS, &(int64_t){SG_KL_RGB}) != SG_KL_RGB)
            sg_config_fail(f, rgb[i], "only 3, of RGB frames, are supported");
    const char *const act = sg_config_string(f, "act_fn", "silu");
    if (act && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        sg_config_fail(f, "act_fn", "\"%s\" is not supported; only \"silu\" is", act);
}

/* ---- tensors ---- */

static void bind_norm(sg_bind *b, sg_kl_norm *n, const char *name, int64_t c)
{
    char full[48];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(b, &n->w, SG_F32, full, c);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, &n->b, SG_F32, full, c);
}

static void bind_map(sg_bind *b, sg_dtype type, sg_kl_map *m, const char *name, int64_t o, int64_t i)
{
    char full[48];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(b, &m->w, type, full, o, i);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, &m->b, SG_F32, full, o);
}

static void bind_conv(sg_bind *b, const sg_kl_coder *k, sg_kl_map *m, const char *name, int64_t o, int64_t i)
{
    const char *const layer = k->video ? ".conv" : "";
    char              full[48];
    snprintf(full, sizeof full, "%s%s.weight", name, layer);
    sg_bind_tensor(b, &m->w, k->act, full, o, i, k->video ? 3 : 1, 3, 3);
    snprintf(full, sizeof full, "%s%s.bias", name, layer);
    sg_bind_tensor(b, &m->b, SG_F32, full, o);
}

static void bind_block(sg_bind *b, const sg_kl_coder *k, sg_kl_block *w, int64_t i, int64_t o)
{
    bind_norm(b, &w->norm[0], "norm1", i);
    bind_conv(b, k, &w->conv[0], "conv1", o, i);
    bind_norm(b, &w->norm[1], "norm2", o);
    bind_conv(b, k, &w->conv[1], "conv2", o, o);
    if (i != o) bind_map(b, k->act, &w->shortcut, k->video ? "conv_shortcut.conv" : "conv_shortcut", o, i);
}

static void bind_middle(sg_bind *b, sg_kl_coder *k, const char *side, int64_t c)
{
    for (int j = 0; j < SG_KL_MID; j++) {
        sg_bind_prefix(b, "%s.mid_block.resnets.%d.", side, j);
        bind_block(b, k, &k->mid[j], c, c);
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
static void bind_coder(sg_bind *b, sg_kl_coder *k, int64_t in, int64_t out)
{
    const char *const side = k->up ? "decoder" : "encoder", *const way = k->up ? "up" : "down";
    const int64_t last = k->level[k->levels - 1].out;
    sg_bind_prefix(b, "%s.", side);
    bind_conv(b, k, &k->conv_in, "conv_in", k->level[0].in, in);
    bind_norm(b, &k->norm_out, "conv_norm_out", last);
    bind_conv(b, k, &k->conv_out, "conv_out", out, last);
    bind_middle(b, k, side, k->up ? k->level[0].in : last);
    for (int i = 0; i < k->levels; i++) {
        sg_kl_level *const l = &k->level[i];
        for (int j = 0; j < k->blocks; j++) {
            sg_bind_prefix(b, "%s.%s_blocks.%d.resnets.%d.", side, way, i, j);
            bind_block(b, k, &l->block[j], j ? l->out : l->in, l->out);
        }
        sg_bind_prefix(b, "%s.%s_blocks.%d.%ssamplers.0.", side, way, i, way);
        if (l->space || l->time) bind_conv(b, k, &l->resample, "conv", l->out, l->out);
    }
}

/* quant and post_quant are small and F32, so that they cost the latents nothing. */
static void bind_quant(sg_bind *b, sg_kl_coder *k, int64_t c)
{
    if (k->has_quant) bind_map(b, SG_F32, &k->quant, k->up ? "post_quant_conv" : "quant_conv", c, c);
}

sg_status sg_kl_coders_bind(sg_component *p, sg_component *encoder_component, sg_kl_coder *decoder,
                            sg_kl_coder *encoder, int64_t z, sg_error *e)
{
    sg_bind *b = NULL;
    SG_TRY(sg_bind_open(&b, p->source, p->map, e));
    *encoder_component = *p;
    encoder_component->bind = b;
    bind_quant(p->bind, decoder, z);
    bind_coder(p->bind, decoder, z, SG_KL_RGB);
    bind_quant(b, encoder, 2 * z);
    bind_coder(b, encoder, SG_KL_RGB, 2 * z);
    sg_bind_share(p->bind, b);
    sg_bind_ignore(b, ""); /* the decoder's list tells of what neither wants */
    return sg_bind_check_both(p->bind, b, e);
}
