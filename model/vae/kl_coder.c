/* kl_coder.c - see kl_coder.h. What bites:
 *  - of a video convolutions are causal in time and see the nearest place beyond an edge; of an image they see zeros there;
 *  - an image's encoder halves by a convolution that is padded below and to the right alone;
 *  - group norms are over all frames and places that come at once;
 *  - a token of the middle's attention sees those of its own frame and of the frames before it, one head as wide as the
 *    channels;
 *  - before the first frame a causal convolution sees that frame again;
 *  - enlarging in time repeats every frame but the first, enlarging in space all of them; the other way round a causal
 *    convolution of stride 2 takes the first frame and every other after it. */
#include "kl_coder.h"

#include <stdio.h>

enum { RESAMPLED = 4 /* frames at once, so that what stands between takes little memory */ };

static const float eps = 1e-6f;

static const sg_kl_side *side_of(const sg_vae_run *r) { return &((const sg_kl_model *)r->vae)->side[r->coder->up]; }

/* ---- config and tensors ---- */

void sg_kl_read(sg_kl_model *v, const sg_vae_kind *kind, int64_t layers, sg_config *f)
{
    const bool attention = sg_config_bool(f, "mid_block_add_attention", &(bool){true});
    sg_vae_read_coders(&v->vae, kind, layers, f);
    for (int i = 0; i < 2; i++) v->side[i] = (sg_kl_side){.has_attention = attention, .has_quant = true};
}

/* quant and post_quant are small and F32, so that they cost the latents nothing. */
void sg_kl_bind(void *of, const sg_component *p, sg_vae_coder *k)
{
    sg_kl_model *const v = of;
    sg_kl_side *const  side = &v->side[k->up];
    const int          z = k->up ? v->vae.info.z : 2 * v->vae.info.z;
    const char *const  resample = k->kind->kt > 1 ? "conv.conv" : "conv";
    if (side->has_quant) {
        sg_bind_prefix(p->bind, "%s", "");
        sg_vae_bind_map(p, SG_F32, &side->quant, k->up ? "post_quant_conv" : "quant_conv", z, z);
    }
    sg_vae_bind_ends(p, k, k->up ? z : SG_VAE_RGB, k->up ? SG_VAE_RGB : z, "conv_norm_out");
    sg_vae_bind_levels(p, k, resample, k->kind->kt);
    if (!side->has_attention) return;
    sg_bind_prefix(p->bind, "%s.mid_block.attentions.0.", k->up ? "decoder" : "encoder");
    sg_vae_bind_attention(p, &side->attention, (const char *const[]){"group_norm", "to_q", "to_k", "to_v", "to_out.0"},
                          k->mid.in);
}

/* ---- what stands between blocks ---- */

void sg_kl_norm(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x)
{
    sg_norm(s, .y = y, .x = x, .w = k->norm_w, .b = k->norm_b, .kind = SG_NORM_GROUP, .groups = r->coder->groups,
            .eps = eps, .act = SG_ACT_SILU);
}

/* y = conv(x made larger), or a convolution with strides, some frames at a time. An image's has no padding before it. */
static void resample(const sg_vae_coder *k, sg_stream *s, const sg_vae_level *l, sg_tensor y, sg_tensor x)
{
    const int     time = k->up ? 1 : l->time, space = k->up ? 1 : l->space; /* strides */
    const int     past = k->kind->kt - 1, before = k->up || past;
    const int64_t larger = (k->up ? y.dim[1] * y.dim[2] : x.dim[1] * x.dim[2]) * x.dim[3];
    const int64_t f = y.dim[0], n = sg_vae_at_once(f, RESAMPLED, time * larger);
    for (int64_t t = 0, count; t < f; t += count) {
        const size_t mark = s->scratch.used;
        count = n < f - t ? n : f - t;
        sg_tensor input = sg_rows(x, t, count); /* of an image */
        if (past) {
            input = sg_new(s, x.dtype, past + (count - 1) * time + 1, x.dim[1], x.dim[2], x.dim[3]);
            for (int64_t i = 0; i < input.dim[0]; i++) {
                const int64_t at = t * time + i > past ? t * time + i - past : 0; /* which frame of the larger clip */
                sg_copy(s, .y = sg_rows(input, i, 1), .x = sg_rows(x, k->up && l->time > 1 ? (at + 1) / 2 : at, 1));
            }
        }
        sg_conv(s, .y = sg_rows(y, t, count), .x = input, .w = l->resample.w, .b = l->resample.b,
                .stride = {time, space, space}, .pad = {before, 1, before, 1}, .twice = k->up && l->space > 1,
                .edge = k->kind->edge);
        s->scratch.used = mark;
    }
}

/* Memory for levels of a clip of f frames. */
static sg_vae_inputs reserve(const sg_vae_run *r, sg_stream *s, int64_t f, int64_t y, int64_t x)
{
    const sg_vae_coder *const k = r->coder;
    int64_t                   frames[SG_VAE_LEVELS + 1] = {f};
    for (int i = 0; i < k->levels; i++) {
        const int time = k->level[i].time;
        frames[i + 1] = k->up ? (frames[i] - 1) * time + 1 : (frames[i] - 1) / time + 1;
    }
    return sg_vae_reserve(r, s, frames, y, x);
}

/* From m->in[0] on; the result lies in m->in, or above what is reserved for the last level. */
static sg_tensor levels(const sg_vae_run *r, sg_stream *s, const sg_vae_inputs *m)
{
    const sg_vae_coder *const k = r->coder;
    sg_tensor                 x = {0};
    for (int i = 0; i < k->levels; i++) {
        const sg_vae_level *const l = &k->level[i];
        x = sg_vae_blocks(r, s, l, m->in[i]);
        if (sg_vae_changes(l))
            resample(k, s, l, m->in[i + 1], x);
        else if (i + 1 < k->levels)
            sg_copy(s, .y = m->in[i + 1], .x = x);
        if (m->in[i + 1].rank) {
            x = m->in[i + 1];
            s->scratch.used = m->mark[i + 1];
        }
        sg_tap(s, x, k->up ? "vae.up.%d" : "enc.down.%d", i);
    }
    return x;
}

/* x through the middle. */
static void middle(const sg_vae_run *r, sg_stream *s, sg_tensor x)
{
    for (int j = 0; j < r->coder->mid.blocks; j++) {
        const sg_vae_work w = sg_vae_work_on(s, &r->coder->mid, x);
        sg_vae_block_run(r, s, &r->coder->mid, j, &w);
        s->scratch.used = w.mark;
        if (j == 0 && side_of(r)->has_attention) sg_vae_attend(s, &side_of(r)->attention, x, r->coder->groups, true);
    }
    sg_tap(s, x, r->coder->up ? "vae.mid" : "enc.mid");
}

/* ---- the whole ---- */

sg_tensor sg_kl_decode(const sg_vae_run *r, sg_stream *s, sg_tensor z)
{
    const sg_vae_coder *const k = r->coder;
    const sg_kl_side *const   side = side_of(r);
    const sg_vae_inputs       m = reserve(r, s, z.dim[0], z.dim[1], z.dim[2]);
    const sg_tensor           latent = sg_alloc(s, &s->scratch, SG_F32, 4, z.dim);
    const sg_tensor           input = sg_vae_input(r, s, &k->conv_in, z.dim[0], z.dim[1], z.dim[2]);
    const sg_tensor           given = sg_vae_present(r, &k->conv_in, input);
    sg_norm(s, .y = latent, .x = z, .w = r->scale, .b = r->shift, .kind = SG_NORM_NONE);
    if (side->has_quant)
        sg_vae_map_places(s, &side->quant, given, latent, false);
    else
        sg_copy(s, .y = given, .x = latent);
    sg_tap(s, given, "vae.post_quant");
    sg_vae_convolve(r, s, &k->conv_in, m.in[0], input, false);
    sg_tap(s, m.in[0], "vae.conv_in");
    s->scratch.used = m.mark[0];
    middle(r, s, m.in[0]);
    const sg_tensor x = levels(r, s, &m);
    const sg_tensor frames = sg_new(s, x.dtype, x.dim[0], x.dim[1], x.dim[2], SG_VAE_RGB);
    sg_vae_norm_conv(r, s, &k->conv_out, frames, x, false);
    sg_tap(s, frames, "vae.conv_out");
    return frames;
}

sg_tensor sg_kl_encode(const sg_vae_run *r, sg_stream *s, sg_tensor frames)
{
    const sg_vae_coder *const k = r->coder;
    const sg_kl_side *const   side = side_of(r);
    const int64_t             f = frames.dim[0], c = k->conv_out.w.dim[0];
    const sg_vae_inputs       m = reserve(r, s, f, frames.dim[1], frames.dim[2]);
    const sg_tensor           input = sg_vae_input(r, s, &k->conv_in, f, frames.dim[1], frames.dim[2]);
    sg_copy(s, .y = sg_vae_present(r, &k->conv_in, input), .x = frames);
    sg_vae_convolve(r, s, &k->conv_in, m.in[0], input, false);
    sg_tap(s, m.in[0], "enc.conv_in");
    s->scratch.used = m.mark[0];
    const sg_tensor x = levels(r, s, &m);
    middle(r, s, x);
    const sg_tensor out = sg_new(s, x.dtype, x.dim[0], x.dim[1], x.dim[2], c);
    const sg_tensor both = sg_new(s, SG_F32, x.dim[0], x.dim[1], x.dim[2], c);
    sg_vae_norm_conv(r, s, &k->conv_out, out, x, false);
    if (side->has_quant)
        sg_vae_map_places(s, &side->quant, both, out, false);
    else
        sg_copy(s, .y = both, .x = out);
    sg_tap(s, both, "enc.quant");
    return both;
}
