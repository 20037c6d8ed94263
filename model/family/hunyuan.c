/* hunyuan.c - HunyuanVideo (Tencent, 2024; arXiv:2412.03603), text to video: HunyuanVideoPipeline of diffusers.
 *
 * Llama-3 and CLIP, HunyuanVideoTransformer3DModel, whose tensors have diffusers' names and whose tokens are [video |
 * text], AutoencoderKLHunyuanVideo. What bites:
 *  - Llama sees the prompt in a template, and the denoiser Llama's states without those of the template's first tokens;
 *  - these states are those before the last two layers; of CLIP, which sees the prompt alone, the row of the whole
 *    text;
 *  - guidance is an input of the denoiser (embedded guidance); a negative prompt is read only where cfg_scale asks for
 *    a second pass;
 *  - the text's states go through a refiner first: blocks of its own, whose gates come from time and text, so that it
 *    runs in every step;
 *  - the time that modulates the refiner is its own too: time, and the mean of the text's states before any layer;
 *  - only the video's rows are rotated, by whole places, theta 256;
 *  - timesteps are of 1000; guidance is 1000 times the number, in BF16 rounded twice, so that 6 becomes 6016;
 *  - the patch vector is (c, pt, ph, pw) on the way in and on the way out. */
#include "clip_text.h"
#include "decoder.h"
#include "mmdit.h"
#include "op.h"
#include "prompt_clean.h"
#include "solver.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LLAMA,
    CLIP,
    TEXTS, /* encoders */
    SKIP = 2,
    CROP = 95,      /* tokens of the template, before those of the prompt */
    TEXT_LEN = 256, /* HunyuanVideoPipeline's max_sequence_length */
    CLIP_LEN = 77
};

static const float eps = 1e-6f;

/* DEFAULT_PROMPT_TEMPLATE, around the prompt. */
static const char before[] =
    "<|start_header_id|>system<|end_header_id|>\n\nDescribe the video by detailing the following aspects: "
    "1. The main content and theme of the video."
    "2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects."
    "3. Actions, events, behaviors temporal relationships, physical movement changes of the objects."
    "4. background environment, light, style and atmosphere."
    "5. camera angles, movements, and transitions used in the video:<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n";
static const char behind[] = "<|eot_id|>";

typedef struct refiner {
    sg_tensor               norm_w[2], norm_b[2]; /* [D] */
    sg_attention_weights    attn;                 /* without norms */
    sg_feed_forward_weights ff;
    sg_linear_weights       gates; /* [2 D, D] */
} refiner;

typedef struct hunyuan {
    sg_components     components;
    sg_mmdit          net;                        /* dit.patch_in [D, C, pt, p, p], dit.text_in [D, text_dim] */
    sg_linear_weights text_time[2], text_mean[2]; /* [D, WAVE] [D, D]; [D, text_dim] [D, D] */
    int64_t           refiners;                   /* blocks of the text alone */
    refiner          *refiner;                    /* [refiners] */
    int64_t           axis[3];                    /* channels of a head that each axis rotates */
    double            theta;
    sg_dit_run        run;                  /* of one render; text is before the refiner, which goes by the time too */
    sg_tensor         mean[SG_TEXT_PASSES]; /* F32 [1, D]: what the refiner adds to the time */
} hunyuan;

/* ---- opening ---- */

static sg_status read_config(hunyuan *m, sg_config *f)
{
    sg_mmdit *const n = &m->net;
    sg_dit *const   d = &n->dit;
    d->patch[0] = sg_config_int(f, "patch_size_t", 1, 16, &(int64_t){1});
    d->patch[1] = d->patch[2] = sg_config_int(f, "patch_size", 1, 16, &(int64_t){2});
    d->heads = sg_config_int(f, "num_attention_heads", 1, 1024, &(int64_t){24});
    d->head_dim = sg_config_int(f, "attention_head_dim", 2, 256, &(int64_t){128});
    d->width = d->heads * d->head_dim;
    d->channels = d->input = sg_config_int(f, "in_channels", 1, 4096, &(int64_t){16});
    d->text_dim = sg_config_int(f, "text_embed_dim", 1, 1 << 18, &(int64_t){4096});
    n->layers = sg_config_int(f, "num_layers", 1, 4096, &(int64_t){20});
    n->singles = sg_config_int(f, "num_single_layers", 0, 4096, &(int64_t){40});
    n->ffn = (int64_t)((double)d->width * sg_config_real(f, "mlp_ratio", 0.01, 64, &(double){4}));
    n->row_dim = sg_config_int(f, "pooled_projection_dim", 1, 1 << 18, &(int64_t){768});
    n->guided = sg_config_bool(f, "guidance_embeds", &(bool){true});
    m->refiners = sg_config_int(f, "num_refiner_layers", 0, 4096, &(int64_t){2});
    const int64_t out = sg_config_int(f, "out_channels", 1, 4096, &d->channels);
    if (out != d->channels)
        sg_config_fail(f, "out_channels", "%lld, but in_channels is %lld: they should agree", (long long)out,
                       (long long)d->channels);
    if (n->ffn < 1) sg_config_fail(f, "mlp_ratio", "leaves the feed-forward without a channel");
    if (sg_config_has(f, "image_condition_type"))
        sg_config_fail(f, "image_condition_type",
                       "is not null: this is a model of image to video, which is not supported");
    sg_config_only(f, "qk_norm", "rms_norm", "rms_norm");
    m->theta = sg_config_real(f, "rope_theta", 1, 1e9, &(double){256});
    sg_mmdit_read_axes(f, "rope_axes_dim", d->head_dim, m->axis);
    return sg_config_status(f);
}

static void bind_refiner(hunyuan *m, int i)
{
    static const char *const weight[] = {"norm1.weight", "norm2.weight"}, *const bias[] = {"norm1.bias", "norm2.bias"};
    refiner *const w = &m->refiner[i];
    const sg_dtype act = m->net.dit.component.act;
    sg_bind *const b = m->net.dit.component.bind;
    const int64_t  o = m->net.dit.width;
    sg_bind_prefix(b, "context_embedder.token_refiner.refiner_blocks.%d.", i);
    for (int k = 0; k < 2; k++) {
        sg_bind_tensor(b, &w->norm_w[k], SG_F32, weight[k], o);
        sg_bind_tensor(b, &w->norm_b[k], SG_F32, bias[k], o);
    }
    sg_want_linear(b, &w->ff.up, act, "ff.net.0.proj", 4 * o, o);
    sg_want_linear(b, &w->ff.down, act, "ff.net.2", o, 4 * o);
    sg_want_linear(b, &w->gates, act, "norm_out.linear", 2 * o, o);
    sg_bind_prefix(b, "context_embedder.token_refiner.refiner_blocks.%d.attn.", i);
    sg_want_attention(b, &w->attn, act, o, 0);
}

static sg_status open_denoiser(hunyuan *m, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_mmdit *const n = &m->net;
    sg_dit *const   d = &n->dit;
    SG_TRY(sg_dit_open(d, from, "transformer", "HunyuanVideoTransformer3DModel", act, e));
    SG_TRY(read_config(m, d->config));
    m->refiner = calloc((size_t)m->refiners + 1, sizeof *m->refiner);
    if (!m->refiner) return sg_error_memory(e, d->component.dir);
    SG_TRY(sg_mmdit_bind(n, e));
    sg_bind *const b = d->component.bind;
    const int64_t o = d->width, *const p = d->patch;
    sg_mmdit_want_embedder(n, b, m->text_time, "context_embedder.time_text_embed.timestep_embedder", SG_MMDIT_WAVE);
    sg_mmdit_want_embedder(n, b, m->text_mean, "context_embedder.time_text_embed.text_embedder", d->text_dim);
    sg_want_linear(b, &d->text_in, act, "context_embedder.proj_in", o, d->text_dim);
    sg_bind_tensor(b, &d->patch_in.w, act, "x_embedder.proj.weight", o, d->input, p[0], p[1], p[2]);
    sg_bind_tensor(b, &d->patch_in.b, SG_F32, "x_embedder.proj.bias", o);
    for (int i = 0; i < m->refiners; i++) bind_refiner(m, i);
    return sg_mmdit_check(n, e);
}

/* Checks that the template alone has something behind the tokens that are cut off. */
static sg_status check_template(const sg_components *c, const char *dir, sg_error *e)
{
    const sg_text_encoder *const t = &c->text[LLAMA].encoder;
    char                        *text = NULL;
    int32_t                     *ids = NULL;
    size_t                       size;
    int                          count = 0;
    SG_TRY(sg_prompt_in_template(before, "", behind, &text, &size, e));
    const sg_status st = t->ops->tokenize(t->of, text, size, CROP + TEXT_LEN, &ids, &count, e);
    free(text);
    free(ids);
    SG_TRY(st);
    if (count > CROP) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT,
                        "%s/tokenizer: the template of prompts has %d tokens, of which the first %d are cut off: "
                        "this is no tokenizer of Llama 3",
                        dir, count, CROP);
}

static sg_status open_texts(sg_components *c, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_text_source *const llama = &c->text[LLAMA], *const clip = &c->text[CLIP];
    SG_TRY(sg_decoder_encoder_open(&llama->encoder, from, "text_encoder", "tokenizer", SKIP, act, e));
    llama->tokens_max = CROP + TEXT_LEN;
    llama->before = CROP;
    SG_TRY(sg_clip_text_encoder_open(&clip->encoder, from, "text_encoder_2", "tokenizer_2", false, 0, act, e));
    clip->tokens_max = CLIP_LEN;
    c->texts = TEXTS;
    return SG_OK;
}

static sg_status hunyuan_open(void *model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    hunyuan *const       m = model;
    sg_components *const c = &m->components;
    sg_dit *const        d = &m->net.dit;
    (void)index;
    SG_TRY(sg_sampler_config_read_own(&c->sampler, from, &sg_solver_flow_even, e));
    SG_TRY(open_texts(c, from, act, e));
    SG_TRY(open_denoiser(m, from, act, e));
    sg_components_add_mmdit(c, &m->net, sg_files_hunyuan.names);
    SG_TRY(sg_components_open_vae(c, &sg_hunyuan_vae_ops, from, act, e));
    c->frames.step = c->vae.info.scale_time;
    c->guidance = m->net.guided ? SG_GUIDANCE_EMBEDDED : SG_GUIDANCE_CLASSIFIER_FREE;
    c->defaults = (sg_request){.width = 1280,
                               .height = 720,
                               .frames = 129,
                               .fps = 24,
                               .steps = 50,
                               .cfg_scale = 1,
                               .guidance = m->net.guided ? 6 : 0};

    const char *const path = sg_checkpoint_path(from);
    const sg_fit      fit[] = {
             {sg_text_width(c, LLAMA), "the width of text_encoder", d->text_dim, "transformer/config.json: text_embed_dim"},
             {sg_text_pooled(c, CLIP), "the pooled width of text_encoder_2", m->net.row_dim,
              "transformer/config.json: pooled_projection_dim"},
             {c->vae.info.z, "vae/config.json: latent_channels", d->channels, "transformer/config.json: in_channels"},
             {0}};
    SG_TRY(sg_check_fit(fit, path, e));
    return check_template(c, path, e);
}

static void hunyuan_close(void *model)
{
    hunyuan *const m = model;
    sg_mmdit_close(&m->net);
    free(m->refiner);
}

static sg_status hunyuan_prompt(const void *model, int encoder, int pass, const char *text, char **out, size_t *size,
                                sg_error *e)
{
    (void)model;
    (void)pass;
    if (encoder != LLAMA) return SG_OK; /* CLIP: the text as it is */
    return sg_prompt_in_template(before, text, behind, out, size, e);
}

/* ---- denoising ---- */

/* Tokens that the denoiser has of a text. A prompt that begins with white space may take the last token of the
 * template. */
static int text_rows(const sg_text_states *t) { return t->len > CROP ? t->len - CROP : 1; }

static void hunyuan_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                              sg_attention_shape *shape)
{
    (void)layer;
    sg_dit_shape(&((const hunyuan *)model)->net.dit, g, 0, text_rows(&c->text[pass][LLAMA]), shape);
}

static void hunyuan_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    hunyuan *const m = model;
    sg_dit_run_open(&m->run, &m->net.dit, s, g, self);
    sg_dit_run_rotary(&m->run, s, m->axis, m->theta, NULL);
}

static void hunyuan_modulate(void *model, sg_stream *s, const sg_conditioning *c, sg_tensor t, sg_tensor y)
{
    const float *const row[SG_TEXT_PASSES] = {c->text[0][CLIP].row, c->text[1][CLIP].row};
    sg_mmdit_modulate(&((const hunyuan *)model)->net, s, c, row, t, y);
}

/* The mean of the states through its embedder. */
static void embed_mean(hunyuan *m, sg_stream *s, int k, const float *states, int len)
{
    const int64_t dim = m->net.dit.text_dim;
    m->mean[k] = sg_new_keep(s, SG_F32, 1, m->net.dit.width);
    const size_t    mark = s->scratch.used;
    const sg_tensor x = sg_new(s, SG_F32, 1, dim);
    float *const    mean = calloc((size_t)dim, sizeof *mean);
    if (!mean) sg_fail(s, SG_E_MEMORY, "no memory for the mean of %d text states", len);
    if (mean && states) sg_dit_mean(mean, states, len, dim);
    if (mean) sg_upload(s, x, mean);
    free(mean);
    sg_mlp(s, m->mean[k], x, m->text_mean, SG_ACT_SILU);
    s->scratch.used = mark;
}

static void hunyuan_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    hunyuan *const m = model;
    (void)denoiser;
    for (int k = 0; k < c->passes; k++) {
        const sg_text_states *const t = &c->text[k][LLAMA];
        const int                   rows = text_rows(t);
        const float *const          states = t->states ? t->states + (t->len - rows) * m->net.dit.text_dim : NULL;
        embed_mean(m, s, k, states, rows);
        sg_dit_run_text(&m->run, &m->net.dit, s, k, states, rows);
        sg_tap(s, m->run.text[k], "dit.text_in");
    }
}

/* Block i of the refiner, on the text's tokens x. */
static void refine(const hunyuan *m, sg_stream *s, sg_tensor x, sg_tensor time, int i)
{
    const sg_dit *const  d = &m->net.dit;
    const refiner *const w = &m->refiner[i];
    const sg_dtype       act = d->component.act;
    const size_t         mark = s->scratch.used;
    const int64_t        n = x.dim[0];
    const sg_tensor      gates = sg_modulation_by(s, &w->gates, time, d->width), y = sg_new(s, act, n, d->width);
    const sg_tensor      o = sg_new(s, act, n, d->heads, d->head_dim), q = sg_new(s, act, n, d->heads, d->head_dim);
    const sg_tensor      k = sg_new(s, act, n, d->heads, d->head_dim), v = sg_new(s, act, n, d->heads, d->head_dim);
    sg_norm(s, .y = y, .x = x, .w = w->norm_w[0], .b = w->norm_b[0], .kind = SG_NORM_LAYER, .eps = eps);
    sg_project_heads(s, q, y, &w->attn.q, (sg_tensor){0}, eps, NULL);
    sg_project_heads(s, k, y, &w->attn.k, (sg_tensor){0}, eps, NULL);
    sg_project_heads(s, v, y, &w->attn.v, (sg_tensor){0}, eps, NULL);
    sg_attend(s, .y = o, .q = q, .k = k, .v = v, .scale = 1.0f / sqrtf((float)d->head_dim));
    sg_project_out(s, x, o, &w->attn.out, sg_reshape(sg_rows(gates, 0, 1), d->width));
    sg_tap(s, x, "dit.refiner.%d.attn", i);
    sg_norm(s, .y = y, .x = x, .w = w->norm_w[1], .b = w->norm_b[1], .kind = SG_NORM_LAYER, .eps = eps);
    sg_feed_forward(s, x, y, &w->ff, SG_ACT_SILU, sg_reshape(sg_rows(gates, 1, 1), d->width));
    sg_tap(s, x, "dit.refiner.%d.ff", i);
    s->scratch.used = mark;
}

static void hunyuan_forward(void *model, sg_stream *s, const sg_pass *p)
{
    const hunyuan *const    m = model;
    const sg_dit_run *const r = &m->run;
    const sg_dit *const     d = &m->net.dit;
    const size_t            mark = s->scratch.used;
    const sg_tensor         given = r->text[p->text], x = sg_new(s, SG_F32, r->n + given.dim[0], d->width);
    const sg_tensor         text_time = sg_dit_time(s, p->t, m->text_time, m->mean[p->text], "dit.text_temb");
    const sg_mmdit_pass     pass = sg_mmdit_pass_of(&m->net, r, p);
    const sg_tensor         text = sg_mmdit_rows(&pass, x, SG_MMDIT_TEXT);
    sg_copy(s, .y = text, .x = given);
    for (int i = 0; i < m->refiners; i++) refine(m, s, text, text_time, i);
    sg_dit_patch_embed(d, r, s, p, sg_mmdit_rows(&pass, x, SG_MMDIT_PICTURE), false);
    sg_mmdit_blocks(&m->net, &pass, s, x);
    sg_mmdit_project_out(&m->net, &pass, s, x);
    s->scratch.used = mark;
}

static const sg_class_rule classes[] = {
    {.component = "text_encoder", .name = "LlamaModel", .other = "LlamaForCausalLM"},
    {.component = "text_encoder_2", .name = "CLIPTextModel"},
    {.component = "transformer", .name = "HunyuanVideoTransformer3DModel"},
    {.component = "vae", .name = "AutoencoderKLHunyuanVideo"},
    {0}};

static const sg_known_shape shapes[] = {
    {"hunyuan-720p", 24, 128, 60, {33, 45, 80}, 0, TEXT_LEN}, /* 1280x720, 129 frames */
    {"hunyuan-540p", 24, 128, 60, {33, 34, 60}, 0, TEXT_LEN}, /* 960x544, 129 frames */
    {0},
};

const sg_family sg_family_hunyuan = {
    .name = "hunyuan",
    .files = &sg_files_hunyuan,
    .class_names = (const char *const[]){"HunyuanVideoPipeline", NULL},
    .classes = classes,
    .shapes = shapes,
    .size = sizeof(hunyuan),
    .open = hunyuan_open,
    .close = hunyuan_close,
    .prompt = hunyuan_prompt,
    .attention = hunyuan_attention,
    .modulate = hunyuan_modulate,
    .render_open = hunyuan_render_open,
    .denoiser_open = hunyuan_denoiser_open,
    .forward = hunyuan_forward,
};
