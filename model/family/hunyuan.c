/* hunyuan.c - HunyuanVideo (Tencent, 2024), text to video: HunyuanVideoPipeline of diffusers.
 *
 * Llama-3 and CLIP, one denoiser whose tokens are [video | text], AutoencoderKLHunyuanVideo. What bites:
 *  - Llama sees the prompt in a template, and the denoiser Llama's states without those of the template's first tokens;
 *  - these states are those before the last two layers; of CLIP, which sees the prompt alone, the row of the whole text;
 *  - guidance is an input of the denoiser (embedded guidance); a negative prompt is read only where cfg_scale asks for a
 *    second pass. */
#include "clip_text.h"
#include "family.h"
#include "hunyuan_dit.h"
#include "hunyuan_names.h"
#include "hunyuan_vae.h"
#include "llama.h"
#include "solver.h"

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

typedef struct hunyuan {
    sg_components   components;
    sg_hunyuan_dit *dit;
    sg_hunyuan_vae *vae;
    sg_hunyuan_run  run; /* of one render */
} hunyuan;

/* ---- opening ---- */

static sg_status read_index(sg_config *index)
{
    sg_component_expect_class(index, "text_encoder", "LlamaModel", "LlamaForCausalLM");
    sg_component_expect_class(index, "text_encoder_2", "CLIPTextModel", NULL);
    sg_component_expect_class(index, "transformer", "HunyuanVideoTransformer3DModel", NULL);
    sg_component_expect_class(index, "vae", "AutoencoderKLHunyuanVideo", NULL);
    return sg_config_status(index);
}

static sg_status in_template(const char *text, char **out, size_t *size, sg_error *e)
{
    const size_t n = strlen(text);
    *size = sizeof before - 1 + n + sizeof behind - 1;
    *out = malloc(*size + 1);
    if (!*out) return sg_error_set(e, SG_E_MEMORY, "no memory for a prompt of %zu bytes", n);
    memcpy(*out, before, sizeof before - 1);
    memcpy(*out + sizeof before - 1, text, n);
    memcpy(*out + sizeof before - 1 + n, behind, sizeof behind);
    return SG_OK;
}

/* Checks that the template alone has something behind the tokens that are cut off. */
static sg_status check_template(const hunyuan *m, const char *dir, sg_error *e)
{
    const sg_text_encoder *const t = &m->components.text[LLAMA].encoder;
    char                        *text = NULL;
    int32_t                     *ids = NULL;
    size_t                       size;
    int                          count = 0;
    SG_TRY(in_template("", &text, &size, e));
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

/* Components that were made for each other agree in these numbers. */
static sg_status check_fit(const hunyuan *m, const char *dir, sg_error *e)
{
    const sg_text_encoder *const t = &m->components.text[LLAMA].encoder, *const r = &m->components.text[CLIP].encoder;
    const sg_hunyuan_config *const c = sg_hunyuan_dit_config(m->dit);
    const int width = t->ops->width(t->of), row = r->ops->pooled(r->of), z = m->components.vae.info.z;
    if (c->text_dim != width)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: the text encoder gives %d numbers a token, but transformer/config.json: "
                            "text_embed_dim is %lld",
                            dir, width, (long long)c->text_dim);
    if (c->blocks.row_dim != row)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: text_encoder_2 gives %d numbers a text, but transformer/config.json: "
                            "pooled_projection_dim is %lld",
                            dir, row, (long long)c->blocks.row_dim);
    if (c->channels != z)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: vae/config.json: latent_channels is %d, but transformer/config.json: in_channels "
                            "is %lld",
                            dir, z, (long long)c->channels);
    return check_template(m, dir, e);
}

static sg_status open_texts(sg_components *c, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    sg_text_source *const llama = &c->text[LLAMA], *const clip = &c->text[CLIP];
    SG_TRY(sg_llama_encoder_open(&llama->encoder, from, "text_encoder", "tokenizer", SKIP, act, e));
    sg_component_note_class(llama->encoder.ops->component(llama->encoder.of), index, "text_encoder");
    llama->tokens_max = CROP + TEXT_LEN;
    llama->before = CROP;
    SG_TRY(sg_clip_text_encoder_open(&clip->encoder, from, "text_encoder_2", "tokenizer_2", false, 0, act, e));
    sg_component_note_class(clip->encoder.ops->component(clip->encoder.of), index, "text_encoder_2");
    clip->tokens_max = CLIP_LEN;
    c->texts = TEXTS;
    return SG_OK;
}

static sg_status open_components(hunyuan *m, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    sg_components *const c = &m->components;
    SG_TRY(read_index(index));
    SG_TRY(sg_sampler_config_read_own(&c->sampler, from, &sg_solver_flow_even, e));
    SG_TRY(open_texts(c, from, index, act, e));
    SG_TRY(sg_hunyuan_dit_open(&m->dit, from, act, e));
    const sg_hunyuan_config *const d = sg_hunyuan_dit_config(m->dit);
    c->denoiser[0] = (sg_denoiser){.component = sg_hunyuan_dit_component(m->dit),
                                   .names = &sg_hunyuan_dit_names,
                                   .layers = (int)(d->blocks.layers + d->blocks.singles)};
    c->denoisers = 1;
    c->guidance = d->blocks.guided ? SG_GUIDANCE_EMBEDDED : SG_GUIDANCE_CLASSIFIER_FREE;
    sg_component_note_class(c->denoiser[0].component, index, "transformer");
    SG_TRY(sg_hunyuan_vae_open(&m->vae, from, act, e));
    sg_component_note_class(sg_hunyuan_vae_component(m->vae), index, "vae");
    memcpy(c->patch, d->patch, sizeof c->patch);
    c->vae = (sg_vae){.ops = &sg_hunyuan_vae_ops, .of = m->vae, .info = sg_hunyuan_vae_describe(m->vae)};
    if (c->vae.info.z == sg_latent_rgb_hunyuan.z) c->rgb = &sg_latent_rgb_hunyuan;
    c->size_multiple = c->vae.info.scale_space * (int)d->patch[1];
    c->frames.step = c->vae.info.scale_time;
    return check_fit(m, sg_checkpoint_path(from), e);
}

static void hunyuan_close(void *model)
{
    hunyuan *const m = model;
    sg_hunyuan_vae_close(&m->vae);
    sg_hunyuan_dit_close(&m->dit);
    for (int k = 0; k < TEXTS; k++) sg_text_encoder_close(&m->components.text[k].encoder);
    free(m);
}

static sg_status hunyuan_open(void **model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    hunyuan *m = calloc(1, sizeof *m);
    if (!m) return sg_error_memory(e, sg_checkpoint_path(from));
    const sg_status st = open_components(m, from, index, act, e);
    if (st) {
        hunyuan_close(m);
        m = NULL;
    }
    *model = m;
    return st;
}

/* ---- what it is ---- */

static const sg_components *hunyuan_components(const void *model) { return &((const hunyuan *)model)->components; }

static sg_request hunyuan_defaults(const void *model)
{
    const sg_components *const c = &((const hunyuan *)model)->components;
    return (sg_request){.negative_prompt = "",
                        .width = 1280,
                        .height = 720,
                        .frames = 129,
                        .fps = 24,
                        .steps = 50,
                        .cfg_scale = 1,
                        .cfg_scale_2 = -1,
                        .guidance = c->guidance == SG_GUIDANCE_EMBEDDED ? 6 : 0,
                        .flow_shift = c->sampler.flow_shift,
                        .sampler = c->sampler.kind};
}

static sg_status hunyuan_prompt(const void *model, int encoder, const char *text, char **out, size_t *size, sg_error *e)
{
    (void)model;
    return encoder == LLAMA ? in_template(text, out, size, e) : SG_OK; /* CLIP: the text as it is */
}

/* Tokens that the denoiser has of a text. A prompt that begins with white space may take the last token of the template. */
static int text_rows(const sg_text_states *t) { return t->len > CROP ? t->len - CROP : 1; }

static void hunyuan_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                              sg_attention_shape *shape)
{
    const sg_hunyuan_config *const d = sg_hunyuan_dit_config(((const hunyuan *)model)->dit);
    (void)layer;
    shape->text_suffix = text_rows(&c->text[pass][LLAMA]);
    shape->n = g->grid[0] * g->grid[1] * g->grid[2] + shape->text_suffix;
    shape->h = shape->hk = d->blocks.heads;
    shape->d = d->blocks.head_dim;
}

/* ---- denoising ---- */

static void hunyuan_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    hunyuan *const m = model;
    sg_hunyuan_run_open(&m->run, m->dit, s, g->grid, self);
}

static void hunyuan_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    hunyuan *const m = model;
    (void)denoiser;
    for (int k = 0; k < c->passes; k++) {
        const sg_text_states *const t = &c->text[k][LLAMA];
        const int                   rows = text_rows(t);
        const float *const          states =
            t->states ? t->states + (t->len - rows) * sg_hunyuan_dit_config(m->dit)->text_dim : NULL;
        sg_hunyuan_run_text(&m->run, m->dit, s, k, states, rows, c->text[k][CLIP].row, c->guidance);
    }
}

static void hunyuan_forward(void *model, sg_stream *s, const sg_pass *p)
{
    const hunyuan *const m = model;
    sg_hunyuan_dit_forward(m->dit, &m->run, s, p);
}

static const sg_known_shape shapes[] = {
    {"hunyuan-720p", 24, 128, 60, {33, 45, 80}, 0, TEXT_LEN}, /* 1280x720, 129 frames */
    {"hunyuan-540p", 24, 128, 60, {33, 34, 60}, 0, TEXT_LEN}, /* 960x544, 129 frames */
    {0},
};

const sg_family sg_family_hunyuan = {
    .name = "hunyuan",
    .class_names = (const char *const[]){"HunyuanVideoPipeline", NULL},
    .shapes = shapes,
    .open = hunyuan_open,
    .close = hunyuan_close,
    .components = hunyuan_components,
    .defaults = hunyuan_defaults,
    .prompt = hunyuan_prompt,
    .attention = hunyuan_attention,
    .render_open = hunyuan_render_open,
    .denoiser_open = hunyuan_denoiser_open,
    .forward = hunyuan_forward,
};
