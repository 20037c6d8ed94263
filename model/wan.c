/* wan.c - the Wan family, 2.1 and 2.2, text to video: WanPipeline of diffusers.
 *
 * UMT5 (or T5) text encoder, one or two denoisers (2.2 A14B: transformer for the noisy steps, transformer_2 for the
 * rest, parted at boundary_ratio), AutoencoderKLWan. `expand_timesteps` (2.2 5B) gives every token its own timestep;
 * without an image all of them are equal, so the scalar path is the same. */
#include "family.h"
#include "prompt_clean.h"
#include "t5.h"
#include "t5_tokenizer.h"
#include "wan_dit.h"
#include "wan_vae.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT_LEN = 512 }; /* rows that the denoisers were trained with; WanPipeline's max_sequence_length */

static const char default_negative[] =
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，JPEG压缩残留，"
    "丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，手指融合，静止不动的画"
    "面，"
    "杂乱的背景，三条腿，背景人很多，倒着走";

typedef struct wan {
    sg_t5_tokenizer  *tokenizer;
    sg_t5            *text;
    sg_wan_dit       *dit[2]; /* the second only with two experts */
    sg_wan_vae       *vae;
    sg_sampler_config sampler;
    double            boundary;              /* timesteps from here up are the first expert's; 0: one expert */
    bool              ti2v;                  /* the 5B: 24 frames a second, 720p */
    char              pipeline_class[5][64]; /* for people: tokenizer, text_encoder, transformer, transformer_2, vae */

    /* one render */
    int32_t        *ids[2];
    int             len[2];    /* tokens; 0: the pass is left out */
    float          *states[2]; /* [len, text width] */
    int             expert;    /* whose text keys are in run */
    sg_wan_run      run;
    sg_wan_vae_run *decode;
} wan;

/* ---- opening ---- */

static void note_class(wan *w, int slot, sg_config *index, const char *key)
{
    const char *const name = sg_config_string_at(index, key, 1);
    snprintf(w->pipeline_class[slot], sizeof w->pipeline_class[slot], "%s", name ? name : "");
}

/* A component must be of one of the classes that are implemented here. */
static void expect_class(sg_config *index, const char *key, const char *have, const char *want, const char *other)
{
    if (strcmp(have, want) == 0 || (other && strcmp(have, other) == 0)) return;
    sg_config_fail(index, key, "the class is \"%s\", but this program implements %s%s%s", have, want,
                   other ? " and " : "", other ? other : "");
}

static sg_status read_index(wan *w, sg_config *index)
{
    const double none = 0;
    const bool   no = false;
    note_class(w, 0, index, "tokenizer");
    note_class(w, 1, index, "text_encoder");
    note_class(w, 2, index, "transformer");
    note_class(w, 3, index, "transformer_2");
    note_class(w, 4, index, "vae");
    expect_class(index, "text_encoder", w->pipeline_class[1], "UMT5EncoderModel", "T5EncoderModel");
    expect_class(index, "transformer", w->pipeline_class[2], "WanTransformer3DModel", NULL);
    if (w->pipeline_class[3][0])
        expect_class(index, "transformer_2", w->pipeline_class[3], "WanTransformer3DModel", NULL);
    expect_class(index, "vae", w->pipeline_class[4], "AutoencoderKLWan", NULL);
    w->boundary = sg_config_real(index, "boundary_ratio", 0, 1, &none);
    w->ti2v = sg_config_bool(index, "expand_timesteps", &no);
    if (w->boundary > 0 && !w->pipeline_class[3][0])
        sg_config_fail(index, "boundary_ratio", "two experts are asked for, but there is no transformer_2");
    return sg_config_status(index);
}

/* Components that were made for each other agree in three numbers. */
static sg_status check_fit(const wan *w, const char *dir, sg_error *e)
{
    const sg_wan_config *const c = sg_wan_dit_config(w->dit[0]), *const d =
                                                                     w->dit[1] ? sg_wan_dit_config(w->dit[1]) : c;
    const int width = sg_t5_describe(w->text).width, z = sg_wan_vae_describe(w->vae).z;
    if (c->text_dim != width)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: the text encoder gives %d numbers a token, but transformer/config.json: "
                            "text_dim is %lld",
                            dir, width, (long long)c->text_dim);
    if (c->channels != z)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: vae/config.json: z_dim is %d, but transformer/config.json: in_channels "
                            "is %lld",
                            dir, z, (long long)c->channels);
    if (d->channels != c->channels || d->text_dim != c->text_dim || d->layers != c->layers || d->heads != c->heads ||
        d->head_dim != c->head_dim || memcmp(d->patch, c->patch, sizeof c->patch) != 0)
        return sg_error_set(e, SG_E_FORMAT, "%s: transformer and transformer_2 differ in size", dir);
    if (sg_t5_tokenizer_vocab(w->tokenizer) > sg_t5_describe(w->text).vocab)
        return sg_error_set(e, SG_E_FORMAT, "%s: the tokenizer has %d ids, but the text encoder's table only %d rows",
                            dir, sg_t5_tokenizer_vocab(w->tokenizer), sg_t5_describe(w->text).vocab);
    return SG_OK;
}

static void wan_close(void *model);

static sg_status open_parts(wan *w, const char *dir, sg_config *index, sg_dtype act, sg_error *e)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/tokenizer", dir);
    SG_TRY(read_index(w, index));
    SG_TRY(sg_sampler_config_read(&w->sampler, dir, e));
    SG_TRY(sg_t5_tokenizer_open(&w->tokenizer, path, e));
    SG_TRY(sg_t5_open(&w->text, dir, "text_encoder", act, e));
    SG_TRY(sg_wan_dit_open(&w->dit[0], dir, "transformer", act, e));
    if (w->boundary > 0) SG_TRY(sg_wan_dit_open(&w->dit[1], dir, "transformer_2", act, e));
    SG_TRY(sg_wan_vae_open(&w->vae, dir, act, e));
    w->boundary *= w->sampler.train_steps;
    return check_fit(w, dir, e);
}

static sg_status wan_open(void **model, const char *dir, sg_config *index, sg_dtype act, sg_error *e)
{
    wan *w = calloc(1, sizeof *w);
    if (!w) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", dir);
    const sg_status st = open_parts(w, dir, index, act, e);
    if (st) {
        wan_close(w);
        w = NULL;
    }
    *model = w;
    return st;
}

static void forget_text(wan *w, int k)
{
    free(w->ids[k]);
    free(w->states[k]);
    w->ids[k] = NULL;
    w->states[k] = NULL;
}

static void forget_render(wan *w)
{
    sg_wan_run_close(&w->run);
    sg_wan_vae_run_close(&w->decode);
}

static void wan_close(void *model)
{
    wan *const w = model;
    forget_render(w);
    for (int k = 0; k < 2; k++) forget_text(w, k);
    sg_wan_vae_close(&w->vae);
    sg_wan_dit_close(&w->dit[1]);
    sg_wan_dit_close(&w->dit[0]);
    sg_t5_close(&w->text);
    sg_t5_tokenizer_close(&w->tokenizer);
    free(w);
}

/* ---- what it is ---- */

static const sg_sampler_config *wan_sampler(const void *model) { return &((const wan *)model)->sampler; }

static sg_request wan_defaults(const void *model)
{
    const wan *const w = model;
    return (sg_request){.negative_prompt = default_negative,
                        .width = w->ti2v ? 1280 : 832,
                        .height = w->ti2v ? 704 : 480,
                        .frames = w->ti2v ? 121 : 81,
                        .fps = w->ti2v ? 24 : 16,
                        .steps = 50,
                        .cfg_scale = 5.0,
                        .cfg_scale_2 = -1,
                        .flow_shift = w->sampler.flow_shift,
                        .sampler = w->sampler.kind};
}

static sg_component component(const wan *w, int slot, sg_part *p)
{
    sg_component c = {.bytes = sg_weights_bytes(p->weights), .files = sg_weights_files(p->weights)};
    size_t       count[SG_DTYPES] = {0};
    int          most = 0;
    snprintf(c.name, sizeof c.name, "%s", p->name);
    snprintf(c.class_name, sizeof c.class_name, "%s", w->pipeline_class[slot]);
    for (size_t i = 0; i < sg_weights_count(p->weights); i++) {
        sg_tensor t;
        sg_weights_name(p->weights, i, &t);
        c.parameters += (uint64_t)sg_count(t);
        count[t.dtype] += (size_t)sg_count(t);
    }
    for (int i = 1; i < SG_DTYPES; i++)
        if (count[i] > count[most]) most = i;
    snprintf(c.dtype, sizeof c.dtype, "%s", sg_dtype_name((sg_dtype)most));
    return c;
}

static void wan_describe(const void *model, sg_model_info *info)
{
    const wan *const      w = model;
    const sg_t5_info      t = sg_t5_describe(w->text);
    const sg_wan_vae_info v = sg_wan_vae_describe(w->vae);
    sg_component         *c = info->component;

    *c = component(w, 1, sg_t5_part(w->text));
    snprintf(c++->summary, sizeof c->summary, "%d layers, width %d, %d heads x %d, ffn %d, %d ids", t.layers, t.width,
             t.heads, t.head_dim, t.ffn, t.vocab);
    for (int k = 0; k < 2 && w->dit[k]; k++) {
        const sg_wan_config *const d = sg_wan_dit_config(w->dit[k]);
        *c = component(w, 2 + k, sg_wan_dit_part(w->dit[k]));
        snprintf(c++->summary, sizeof c->summary, "%lld layers, %lld heads x %lld, ffn %lld, %lld latent channels",
                 (long long)d->layers, (long long)d->heads, (long long)d->head_dim, (long long)d->ffn,
                 (long long)d->channels);
    }
    *c = component(w, 4, sg_wan_vae_part(w->vae));
    snprintf(c++->summary, sizeof c->summary, "%d x %d x %d, %d latent channels, %d levels from %d%s", v.scale_time,
             v.scale_space, v.scale_space, v.z, v.levels, v.base, v.residual ? ", residual" : "");
    info->components = (int)(c - info->component);

    const sg_wan_config *const d = sg_wan_dit_config(w->dit[0]);
    const int64_t              y = d->patch[1], x = d->patch[2];
    info->multiple = v.scale_space * (int)(y > x ? y : x); /* both are powers of two in every known checkpoint */
    info->frame_multiple = v.scale_time * (int)d->patch[0];
}

static int64_t wan_latent(const void *model, const sg_request *r, int64_t shape[4])
{
    const wan *const           w = model;
    const sg_wan_vae_info      v = sg_wan_vae_describe(w->vae);
    const sg_wan_config *const d = sg_wan_dit_config(w->dit[0]);
    shape[0] = v.z;
    shape[1] = (r->frames - 1) / v.scale_time + 1;
    shape[2] = r->height / v.scale_space;
    shape[3] = r->width / v.scale_space;
    return shape[1] / d->patch[0] * (shape[2] / d->patch[1]) * (shape[3] / d->patch[2]);
}

static void wan_attention(const void *model, const sg_request *r, sg_attention_shape *shape, int64_t grid[3])
{
    const wan *const           w = model;
    const sg_wan_config *const d = sg_wan_dit_config(w->dit[0]);
    int64_t                    latent[4];
    *shape = (sg_attention_shape){.n = wan_latent(model, r, latent),
                                  .h = d->heads,
                                  .hk = d->heads,
                                  .d = d->head_dim,
                                  .layers = (int)d->layers * (w->dit[1] ? 2 : 1),
                                  .passes = r->cfg_scale > 1 ? 2 : 1};
    for (int k = 0; k < 3; k++) grid[k] = latent[k + 1] / d->patch[k];
}

static sg_status wan_check(const void *model, const sg_request *r, sg_error *e)
{
    const sg_wan_config *const d = sg_wan_dit_config(((const wan *)model)->dit[0]);
    int64_t                    shape[4];
    wan_latent(model, r, shape);
    for (int k = 0; k < 3; k++)
        if (shape[k + 1] / d->patch[k] > d->rope_max)
            return sg_error_set(e, SG_E_ARG, "%s: %lld patches are more than the %lld positions that the model knows",
                                k ? "size" : "frames", (long long)(shape[k + 1] / d->patch[k]), (long long)d->rope_max);
    return SG_OK;
}

static sg_part *wan_part(void *model, sg_phase phase, int expert, int i)
{
    wan *const w = model;
    if (i > 0) return NULL;
    switch (phase) {
    case SG_PHASE_TEXT: return sg_t5_part(w->text);
    case SG_PHASE_DENOISE: return w->dit[expert] ? sg_wan_dit_part(w->dit[expert]) : NULL;
    default: return sg_wan_vae_part(w->vae);
    }
}

/* ---- text ---- */

static sg_status tokenize_one(wan *w, const char *text, int32_t **ids, int *len, sg_error *e)
{
    char  *clean = NULL;
    size_t size = 0;
    SG_TRY(sg_prompt_clean(text, strlen(text), &clean, &size, e));
    const sg_status st = sg_t5_tokenizer_encode(w->tokenizer, clean, size, TEXT_LEN, ids, len, e);
    free(clean);
    return st;
}

/* The tokens of one pass; len of a text is what it has. States of the same tokens stay. */
static sg_status take_text(wan *w, int k, const char *text, int len, sg_error *e)
{
    int32_t *ids = NULL;
    if (text) SG_TRY(tokenize_one(w, text, &ids, &len, e));
    if (!text && len && !(ids = calloc((size_t)len, sizeof *ids)))
        return sg_error_set(e, SG_E_MEMORY, "no memory for token ids");
    if (ids && w->ids[k] && len == w->len[k] && memcmp(ids, w->ids[k], (size_t)len * sizeof *ids) == 0) {
        free(ids);
        return SG_OK;
    }
    forget_text(w, k);
    w->ids[k] = ids;
    w->len[k] = len;
    return SG_OK;
}

static sg_status wan_tokenize(void *model, const sg_request *r, int count[2], sg_error *e)
{
    wan *const        w = model;
    const bool        guided = r->cfg_scale > 1;
    const char *const negative = r->negative_prompt ? r->negative_prompt : "";
    forget_render(w);
    SG_TRY(take_text(w, 0, r->prompt, TEXT_LEN, e));
    SG_TRY(take_text(w, 1, guided && r->prompt ? negative : NULL, guided ? TEXT_LEN : 0, e));
    for (int k = 0; k < 2; k++) count[k] = w->len[k];
    return SG_OK;
}

static bool wan_encoded(const void *model)
{
    const wan *const w = model;
    return w->states[0] && (w->states[1] || !w->len[1]);
}

/* y F32 [len, width] becomes the states of pass k. */
static void keep_states(wan *w, sg_stream *s, int k, sg_tensor y)
{
    const size_t n = (size_t)sg_count(y);
    free(w->states[k]);
    w->states[k] = calloc(n, sizeof *w->states[k]);
    if (w->states[k])
        sg_download(s, w->states[k], y);
    else
        sg_fail(s, SG_E_MEMORY, "no memory for text states");
    for (size_t i = 0; !s->status && i < n; i++)
        if (!isfinite(w->states[k][i]))
            sg_fail(s, SG_E_NUMERIC, "the text encoder gave NaN or infinity for token %lld",
                    (long long)(i / (size_t)y.dim[1]));
}

static void wan_encode(void *model, sg_stream *s)
{
    wan *const    w = model;
    const int64_t width = sg_t5_describe(w->text).width;
    const bool    computes = s->memory->alloc != NULL; /* a plan leaves the states of an earlier render alone */
    for (int k = 0; k < 2; k++) {
        if (!w->len[k] || (computes && w->states[k])) continue; /* another prompt leaves the negative one's */
        const size_t    mark = s->scratch.used;
        const sg_tensor y = sg_new(s, SG_F32, w->len[k], width);
        sg_t5_encode(w->text, s, y, w->ids[k], w->len[k]);
        if (computes) keep_states(w, s, k, y);
        s->scratch.used = mark;
    }
    for (int k = 0; s->status && computes && k < 2; k++) forget_text(w, k);
}

/* ---- denoising ---- */

static int wan_expert(const void *model, double timestep)
{
    const wan *const w = model;
    return w->boundary > 0 && timestep < w->boundary;
}

static void wan_denoise_open(void *model, sg_stream *s, const int64_t latent[4], const sg_attending *how)
{
    wan *const w = model;
    w->run.attention = how->attention;
    sg_wan_run_tables(&w->run, w->dit[0], s, latent, how->ordered, how->order);
}

static void wan_expert_open(void *model, sg_stream *s, int expert)
{
    wan *const        w = model;
    const sg_wan_text text[2] = {{w->states[0], w->len[0]}, {w->states[1], w->len[1]}};
    w->expert = expert;
    w->run.first_layer = expert * (int)sg_wan_dit_config(w->dit[0])->layers;
    sg_wan_run_text(&w->run, w->dit[expert], s, text, TEXT_LEN);
}

static void wan_denoise(void *model, sg_stream *s, sg_tensor v, sg_tensor x, int step, double timestep, double guidance)
{
    wan *const      w = model;
    const bool      guided = w->run.active[1];
    const size_t    mark = s->scratch.used;
    const sg_tensor t = sg_new(s, SG_F32, 1);
    sg_tensor       out[2] = {v, {0}};
    if (guided)
        for (int k = 0; k < 2; k++) out[k] = sg_alloc(s, &s->scratch, SG_F32, v.rank, v.dim);
    sg_upload(s, t, &(float){(float)timestep});
    w->run.step = step;
    w->run.timestep = 1000 * timestep / w->sampler.train_steps;
    sg_attention_enter(w->run.attention, s, w->run.timestep);
    sg_step_begin(s, sg_attention_same_steps(w->run.attention, step));
    sg_wan_dit_forward(w->dit[w->expert], &w->run, s, out, x, t);
    sg_tap(s, out[0], "step.%d.v_cond", step);
    if (guided) {
        sg_tap(s, out[1], "step.%d.v_uncond", step);
        sg_combine(s, .y = v, .x = {out[1], out[0]}, .a = {(float)(1 - guidance), (float)guidance}, .count = 2);
    }
    sg_step_end(s);
    s->scratch.used = mark;
}

static void wan_inspect(void *model, sg_stream *s, int step)
{
    const wan *const w = model;
    const int64_t    count = w->run.bad.dim[0];
    int32_t *const   bad = calloc((size_t)count, sizeof *bad);
    if (!bad) {
        sg_fail(s, SG_E_MEMORY, "no memory for %lld counters", (long long)count);
        return;
    }
    sg_download(s, bad, w->run.bad);
    for (int64_t i = 0; i < count; i++) {
        if (!bad[i]) continue;
        if (i == 0) sg_fail(s, SG_E_NUMERIC, "NaN or infinity after the patch embedding at step %d", step + 1);
        if (i == count - 1) sg_fail(s, SG_E_NUMERIC, "NaN or infinity in the output projection at step %d", step + 1);
        sg_fail(s, SG_E_NUMERIC, "NaN or infinity first appears in block %lld of the %s at step %d", (long long)i - 1,
                w->expert ? "transformer_2" : "transformer", step + 1);
    }
    free(bad);
}

/* ---- decoding ---- */

static sg_status wan_decode_open(void *model, sg_stream *s, const int64_t latent[4], sg_error *e)
{
    wan *const w = model;
    sg_wan_vae_run_close(&w->decode);
    return sg_wan_vae_decode_open(&w->decode, w->vae, s, latent[2], latent[3], e);
}

static sg_tensor wan_decode_next(void *model, sg_stream *s, sg_tensor z)
{
    return sg_wan_vae_decode_next(((wan *)model)->decode, s, z);
}

static void wan_decode_close(void *model) { sg_wan_vae_run_close(&((wan *)model)->decode); }

const sg_family sg_family_wan = {
    .name = "wan",
    .class_name = "WanPipeline",
    .open = wan_open,
    .close = wan_close,
    .defaults = wan_defaults,
    .describe = wan_describe,
    .sampler = wan_sampler,
    .latent = wan_latent,
    .attention = wan_attention,
    .check = wan_check,
    .part = wan_part,
    .tokenize = wan_tokenize,
    .encode = wan_encode,
    .encoded = wan_encoded,
    .expert = wan_expert,
    .denoise_open = wan_denoise_open,
    .expert_open = wan_expert_open,
    .denoise = wan_denoise,
    .inspect = wan_inspect,
    .decode_open = wan_decode_open,
    .decode_next = wan_decode_next,
    .decode_close = wan_decode_close,
};
