/* mochi_vae.c - AutoencoderKLMochi of diffusers, the decoder: config, tensors, what they must be.
 *
 * What bites:
 *  - layers_per_block is read from its end: the last is block_in's, the first block_out's;
 *  - decoder_block_out_channels and both expansions are read from their ends as well;
 *  - group norm has 32 groups, whatever the config says;
 *  - a latent goes in as z std / scaling_factor + mean. */
#include "mochi_vae_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 32 };

sg_component *sg_mochi_vae_component(sg_mochi_vae *v) { return &v->component; }

sg_vae_info sg_mochi_vae_describe(const sg_mochi_vae *v)
{
    sg_vae_info i = {.z = v->z, .scale_time = 1, .scale_space = 1};
    for (int k = 0; k < v->stages; k++) {
        i.scale_time *= (int)v->stage[k].time;
        i.scale_space *= (int)v->stage[k].space;
    }
    return i;
}

/* ---- config ---- */

static void expect_count(sg_config *f, const char *key, int have, int want)
{
    if (have != want) sg_config_fail(f, key, "has %d entries, but decoder_block_out_channels wants %d", have, want);
}

/* Stage 0 is block_in, the last is block_out; lists are read from their ends. */
static sg_status read_stages(sg_mochi_vae *v, sg_config *f)
{
    int64_t   channels[SG_MOCHI_SCALES + 1], layers[SG_MOCHI_STAGES], time[SG_MOCHI_SCALES], space[SG_MOCHI_SCALES];
    const int levels =
        sg_config_ints(f, "decoder_block_out_channels", GROUPS, SG_MOCHI_CHANNELS, channels, 2, SG_MOCHI_SCALES + 1);
    expect_count(f, "layers_per_block",
                 sg_config_ints(f, "layers_per_block", 1, SG_MOCHI_BLOCKS, layers, 1, SG_MOCHI_STAGES), levels + 1);
    expect_count(f, "temporal_expansions", sg_config_ints(f, "temporal_expansions", 1, 8, time, 1, SG_MOCHI_SCALES),
                 levels - 1);
    expect_count(f, "spatial_expansions", sg_config_ints(f, "spatial_expansions", 1, 8, space, 1, SG_MOCHI_SCALES),
                 levels - 1);
    SG_TRY(sg_config_status(f));
    for (int i = 0; i < levels; i++)
        if (channels[i] % GROUPS)
            sg_config_fail(f, "decoder_block_out_channels", "entry %d is %lld, no multiple of %d groups", i,
                           (long long)channels[i], GROUPS);
    v->stages = levels + 1;
    for (int k = 0; k < v->stages; k++) {
        const bool up = k > 0 && k + 1 < v->stages;
        v->stage[k].channels = channels[levels - 1 - (k ? k - 1 : 0)];
        v->stage[k].blocks = (int)layers[levels - k];
        v->stage[k].time = up ? time[levels - 1 - k] : 1;
        v->stage[k].space = up ? space[levels - 1 - k] : 1;
    }
    return sg_config_status(f);
}

static sg_status read_config(sg_mochi_vae *v, sg_config *f)
{
    const double  one = 1;
    const int64_t rgb = 3;
    double        mean[SG_MOCHI_Z] = {0}, std[SG_MOCHI_Z];
    v->z = (int)sg_config_int(f, "latent_channels", 1, SG_MOCHI_Z, NULL);
    if (sg_config_int(f, "out_channels", 1, SG_MOCHI_CHANNELS, &rgb) != rgb)
        sg_config_fail(f, "out_channels", "RGB frames have 3");
    const char *const act = sg_config_string(f, "act_fn", "silu");
    if (act && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        sg_config_fail(f, "act_fn", "\"%s\" is not known; \"silu\" is", act);
    const double scaling = sg_config_real(f, "scaling_factor", 1e-6, 1e6, &one);
    SG_TRY(sg_config_status(f));
    for (int i = 0; i < v->z; i++) std[i] = 1;
    if (sg_config_has(f, "latents_mean") && sg_config_has(f, "latents_std")) {
        sg_config_reals(f, "latents_mean", -1e6, 1e6, mean, v->z, v->z);
        sg_config_reals(f, "latents_std", 1e-6, 1e6, std, v->z, v->z);
    }
    for (int i = 0; i < v->z; i++) {
        v->scale[i] = std[i] / scaling;
        v->shift[i] = mean[i];
    }
    return read_stages(v, f);
}

/* ---- tensors ---- */

static void bind_block(sg_mochi_vae *v, sg_mochi_block *w, int64_t c)
{
    sg_bind *const b = v->component.bind;
    for (int i = 0; i < 2; i++) {
        char name[48];
        snprintf(name, sizeof name, "norm%d.norm_layer.weight", i + 1);
        sg_bind_tensor(b, &w->norm[i].w, SG_F32, name, c);
        snprintf(name, sizeof name, "norm%d.norm_layer.bias", i + 1);
        sg_bind_tensor(b, &w->norm[i].b, SG_F32, name, c);
        snprintf(name, sizeof name, "conv%d.conv.weight", i + 1);
        sg_bind_tensor(b, &w->conv[i].w, v->component.act, name, c, c, 3, 3, 3);
        snprintf(name, sizeof name, "conv%d.conv.bias", i + 1);
        sg_bind_tensor(b, &w->conv[i].b, SG_F32, name, c);
        w->conv[i].history = v->histories++;
    }
}

static void name_stage(const sg_mochi_vae *v, int k, char *name, size_t size)
{
    if (k > 0 && k + 1 < v->stages)
        snprintf(name, size, "decoder.up_blocks.%d", k - 1);
    else
        snprintf(name, size, "decoder.%s", k ? "block_out" : "block_in");
}

/* conv_in is small and F32, so that it costs the latents nothing. */
static void bind_weights(sg_mochi_vae *v)
{
    sg_bind *const b = v->component.bind;
    const sg_dtype act = v->component.act;
    char           name[32];
    sg_bind_prefix(b, "decoder.");
    sg_bind_tensor(b, &v->conv_in_w, SG_F32, "conv_in.weight", v->stage[0].channels, v->z, 1, 1, 1);
    sg_bind_tensor(b, &v->conv_in_b, SG_F32, "conv_in.bias", v->stage[0].channels);
    for (int k = 0; k < v->stages; k++) {
        sg_mochi_stage *const t = &v->stage[k];
        name_stage(v, k, name, sizeof name);
        for (int j = 0; j < t->blocks; j++) {
            sg_bind_prefix(b, "%s.resnets.%d.", name, j);
            bind_block(v, &t->block[j], t->channels);
        }
        if (k == 0 || k + 1 == v->stages) continue;
        const int64_t o = t[1].channels * t->time * t->space * t->space;
        sg_bind_prefix(b, "%s.", name);
        sg_bind_tensor(b, &t->proj_w, act, "proj.weight", o, t->channels);
        sg_bind_tensor(b, &t->proj_b, SG_F32, "proj.bias", o);
    }
    sg_bind_prefix(b, "decoder.");
    sg_bind_tensor(b, &v->out_w, act, "proj_out.weight", 3, v->stage[v->stages - 1].channels);
    sg_bind_tensor(b, &v->out_b, SG_F32, "proj_out.bias", 3);
    sg_bind_ignore(b, "encoder.");
}

/* ---- opening ---- */

static sg_status open_component(sg_mochi_vae *v, const sg_checkpoint *c, sg_dtype act, sg_config **f, sg_error *e)
{
    SG_TRY(sg_component_open(&v->component, c, "vae", "AutoencoderKLMochi", act, f, e));
    SG_TRY(read_config(v, *f));
    const sg_vae_info i = sg_mochi_vae_describe(v);
    snprintf(v->component.summary, sizeof v->component.summary, "%d x %d x %d, %d latent channels, %d to %d channels",
             i.scale_time, i.scale_space, i.scale_space, i.z, (int)v->stage[0].channels,
             (int)v->stage[v->stages - 1].channels);
    bind_weights(v);
    return sg_bind_check(v->component.bind, e);
}

sg_status sg_mochi_vae_open(sg_mochi_vae **out, const sg_checkpoint *c, sg_dtype act, sg_error *e)
{
    sg_mochi_vae *v = *out = calloc(1, sizeof *v);
    sg_config    *f = NULL;
    if (!v) return sg_error_set(e, SG_E_MEMORY, "%s/vae: out of memory", sg_checkpoint_path(c));
    const sg_status st = open_component(v, c, act, &f, e);
    sg_config_close(&f);
    if (st) sg_mochi_vae_close(out);
    return st;
}

void sg_mochi_vae_close(sg_mochi_vae **v)
{
    if (!*v) return;
    sg_component_close(&(*v)->component);
    free(*v);
    *v = NULL;
}
