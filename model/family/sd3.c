/* sd3.c - Stable Diffusion 3 medium, 3.5 large and 3.5 medium (Stability AI, 2024): StableDiffusion3Pipeline of diffusers.
 *
 * CLIP-L, OpenCLIP's bigG and T5, one denoiser whose tokens are [picture | text], AutoencoderKL. What bites:
 *  - texts are filled up with pads, which count as tokens do;
 *  - a token of CLIP's part of the text has CLIP-L's state and, behind it, bigG's, and zeros up to the width of T5's; both
 *    are those before the last layer;
 *  - T5 may be absent: zeros stand for its tokens;
 *  - the row of the whole text is CLIP-L's projection and, behind it, bigG's;
 *  - the positions that the denoiser knows bound the size. */
#include "clip_text.h"
#include "family.h"
#include "kl_vae.h"
#include "sd3_dit.h"
#include "sd3_names.h"
#include "t5.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLIP_L,
    CLIP_G,
    T5,
    CLIP_LEN = 77,
    T5_LEN = 256, /* StableDiffusion3Pipeline's max_sequence_length */
    TEXT_LEN = CLIP_LEN + T5_LEN,
    SKIP = 1
};

typedef struct sd3 {
    sg_components components;
    sg_sd3_dit   *dit;
    sg_kl_vae    *vae;
    sg_sd3_run    run;   /* of one render */
    sg_name_map   names; /* of the denoiser, by its number of blocks */
} sd3;

/* ---- opening ---- */

static bool has_t5(sg_config *index)
{
    const char *const class = sg_config_string_at(index, "text_encoder_3", 1);
    return class && *class;
}

static sg_status read_index(sg_config *index)
{
    sg_component_expect_class(index, "text_encoder", "CLIPTextModelWithProjection", "CLIPTextModel");
    sg_component_expect_class(index, "text_encoder_2", "CLIPTextModelWithProjection", NULL);
    if (has_t5(index)) sg_component_expect_class(index, "text_encoder_3", "T5EncoderModel", NULL);
    sg_component_expect_class(index, "transformer", "SD3Transformer2DModel", NULL);
    sg_component_expect_class(index, "vae", "AutoencoderKL", NULL);
    return sg_config_status(index);
}

static int64_t width_of(const sg_components *c, int k) { return c->text[k].encoder.ops->width(c->text[k].encoder.of); }
static int64_t pooled(const sg_components *c, int k) { return c->text[k].encoder.ops->pooled(c->text[k].encoder.of); }

/* Components that were made for each other agree in these numbers. */
static sg_status check_fit(const sd3 *m, const char *dir, sg_error *e)
{
    const sg_components *const c = &m->components;
    const sg_sd3_config *const d = sg_sd3_dit_config(m->dit);
    const int64_t              clip = width_of(c, CLIP_L) + width_of(c, CLIP_G);
    const int64_t              row = pooled(c, CLIP_L) + pooled(c, CLIP_G);
    if (clip > d->text_dim)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: text_encoder and text_encoder_2 give %lld numbers a token, but "
                            "transformer/config.json: joint_attention_dim is only %lld",
                            dir, (long long)clip, (long long)d->text_dim);
    if (c->texts > T5 && width_of(c, T5) != d->text_dim)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: text_encoder_3 gives %lld numbers a token, but transformer/config.json: "
                            "joint_attention_dim is %lld",
                            dir, (long long)width_of(c, T5), (long long)d->text_dim);
    if (row != d->blocks.row_dim)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: text_encoder and text_encoder_2 give %lld numbers a text, but "
                            "transformer/config.json: pooled_projection_dim is %lld",
                            dir, (long long)row, (long long)d->blocks.row_dim);
    if (c->vae.info.z != d->channels)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: vae/config.json: latent_channels is %d, but transformer/config.json: in_channels "
                            "is %lld",
                            dir, c->vae.info.z, (long long)d->channels);
    return SG_OK;
}

static sg_status open_texts(sg_components *c, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    static const char *const names[] = {"text_encoder", "text_encoder_2", "text_encoder_3"};
    static const char *const tokenizers[] = {"tokenizer", "tokenizer_2", "tokenizer_3"};
    const int                texts = has_t5(index) ? T5 + 1 : T5;
    for (int k = 0; k < texts; k++) {
        sg_text_source *const t = &c->text[k];
        if (k == T5)
            SG_TRY(sg_t5_encoder_open(&t->encoder, from, names[k], tokenizers[k], act, e));
        else
            SG_TRY(sg_clip_text_encoder_open(&t->encoder, from, names[k], tokenizers[k], true, SKIP, act, e));
        sg_component_note_class(t->encoder.ops->component(t->encoder.of), index, names[k]);
        t->tokens_max = k == T5 ? T5_LEN : CLIP_LEN;
        t->padded = true;
        c->texts = k + 1;
    }
    return SG_OK;
}

static sg_status open_components(sd3 *m, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    sg_components *const c = &m->components;
    SG_TRY(read_index(index));
    SG_TRY(sg_sampler_config_read(&c->sampler, from, SG_SAMPLERS_FLOW, e));
    SG_TRY(open_texts(c, from, index, act, e));
    SG_TRY(sg_sd3_dit_open(&m->dit, from, act, e));
    const sg_sd3_config *const d = sg_sd3_dit_config(m->dit);
    m->names = sg_sd3_dit_names;
    m->names.span = (int)d->blocks.layers;
    c->denoiser[0] = (sg_denoiser){
        .component = sg_sd3_dit_component(m->dit), .names = &m->names, .layers = (int)(d->blocks.layers + d->duals)};
    c->denoisers = 1;
    c->skip_blocks = (int)d->blocks.layers;
    c->guidance = SG_GUIDANCE_CLASSIFIER_FREE;
    c->noise_dtype = act;
    memcpy(c->patch, d->patch, sizeof c->patch);
    sg_component_note_class(c->denoiser[0].component, index, "transformer");
    SG_TRY(sg_kl_vae_open(&m->vae, from, act, e));
    sg_component_note_class(sg_kl_vae_component(m->vae), index, "vae");
    c->vae = (sg_vae){.ops = &sg_kl_vae_ops, .of = m->vae, .info = sg_kl_vae_describe(m->vae)};
    if (c->vae.info.z == sg_latent_rgb_sd3.z) c->rgb = &sg_latent_rgb_sd3;
    c->size_multiple = c->vae.info.scale_space * (int)d->patch[1];
    return check_fit(m, sg_checkpoint_path(from), e);
}

static void sd3_close(void *model)
{
    sd3 *const m = model;
    sg_kl_vae_close(&m->vae);
    sg_sd3_dit_close(&m->dit);
    for (int k = 0; k < SG_TEXTS_MAX; k++) sg_text_encoder_close(&m->components.text[k].encoder);
    free(m);
}

static sg_status sd3_open(void **model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    sd3 *m = calloc(1, sizeof *m);
    if (!m) return sg_error_memory(e, sg_checkpoint_path(from));
    const sg_status st = open_components(m, from, index, act, e);
    if (st) {
        sd3_close(m);
        m = NULL;
    }
    *model = m;
    return st;
}

/* ---- what it is ---- */

static const sg_components *sd3_components(const void *model) { return &((const sd3 *)model)->components; }

/* Pixels a side of the largest picture whose places the denoiser knows. */
static int largest(const sd3 *m) { return (int)sg_sd3_dit_config(m->dit)->places * m->components.size_multiple; }

static sg_request sd3_defaults(const void *model)
{
    const sd3 *const           m = model;
    const sg_components *const c = &m->components;
    const int                  side = (int)sg_sd3_dit_config(m->dit)->sample_size * c->vae.info.scale_space;
    return (sg_request){.negative_prompt = "",
                        .width = side,
                        .height = side,
                        .frames = 1,
                        .fps = 16,
                        .steps = 28,
                        .cfg_scale = 7,
                        .cfg_scale_2 = -1,
                        .skip_layers = "7-9",
                        .skip_layer_start = 0.01,
                        .skip_layer_end = 0.2,
                        .flow_shift = c->sampler.flow_shift,
                        .sampler = c->sampler.kind};
}

static sg_status sd3_check(const void *model, const sg_request *r, sg_error *e)
{
    const int most = largest(model);
    if (r->width <= most && r->height <= most) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "size: %dx%d: this model has positions for pictures of up to %dx%d", r->width,
                        r->height, most, most);
}

static void sd3_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                          sg_attention_shape *shape)
{
    const sg_mmdit_config *const d = &sg_sd3_dit_config(((const sd3 *)model)->dit)->blocks;
    (void)c;
    (void)pass;
    shape->text_suffix = layer < d->layers ? TEXT_LEN : 0;
    shape->n = g->grid[1] * g->grid[2] + shape->text_suffix;
    shape->h = shape->hk = d->heads;
    shape->d = d->head_dim;
}

/* ---- denoising ---- */

static void sd3_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    sd3 *const m = model;
    sg_sd3_run_open(&m->run, m->dit, s, g->grid, self);
}

/* states [TEXT_LEN, text_dim], which are zero, get those of a text's encoders; row [row_dim] gets their rows. */
static void join(const sd3 *m, const sg_text_states *text, float *states, float *row)
{
    const int64_t width = sg_sd3_dit_config(m->dit)->text_dim;
    int64_t       at = 0;
    for (int k = CLIP_L; k <= CLIP_G; k++) {
        const int64_t own = width_of(&m->components, k), numbers = pooled(&m->components, k);
        for (int64_t i = 0; i < CLIP_LEN; i++)
            memcpy(states + i * width + at, text[k].states + i * own, (size_t)own * sizeof *states);
        memcpy(row, text[k].row, (size_t)numbers * sizeof *row);
        at += own;
        row += numbers;
    }
    if (m->components.texts > T5)
        memcpy(states + CLIP_LEN * width, text[T5].states, (size_t)(T5_LEN * width) * sizeof *states);
}

static void sd3_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    sd3 *const                 m = model;
    const sg_sd3_config *const d = sg_sd3_dit_config(m->dit);
    const int64_t              states = TEXT_LEN * d->text_dim;
    (void)denoiser;
    for (int k = 0; k < c->passes; k++) {
        const bool   there = c->text[k][CLIP_L].states != NULL;
        float *const all = there ? calloc((size_t)(states + d->blocks.row_dim), sizeof *all) : NULL;
        if (there && !all) {
            sg_fail(s, SG_E_MEMORY, "no memory for the states of a text");
            return;
        }
        if (all) join(m, c->text[k], all, all + states);
        sg_sd3_run_text(&m->run, m->dit, s, k, all, TEXT_LEN, all ? all + states : NULL);
        free(all);
    }
}

static void sd3_forward(void *model, sg_stream *s, const sg_pass *p)
{
    const sd3 *const m = model;
    sg_sd3_dit_forward(m->dit, &m->run, s, p);
}

static const sg_known_shape shapes[] = {
    {"sd35-1024", 38, 64, 38, {1, 64, 64}, 0, TEXT_LEN},   /* large, 1024x1024 */
    {"sd35-2048", 38, 64, 38, {1, 128, 128}, 0, TEXT_LEN}, /* large, 2048x2048 */
    {0},
};

static const sg_known_width widths[] = {
    {"Stable Diffusion 3.5 large", 2432},
    {"Stable Diffusion 3.5 medium and 3 medium", 1536},
    {0},
};

const sg_family sg_family_sd3 = {
    .name = "sd3",
    .class_names = (const char *const[]){"StableDiffusion3Pipeline", "StableDiffusion3Img2ImgPipeline", NULL},
    .shapes = shapes,
    .widths = widths,
    .open = sd3_open,
    .close = sd3_close,
    .components = sd3_components,
    .defaults = sd3_defaults,
    .check = sd3_check,
    .attention = sd3_attention,
    .render_open = sd3_render_open,
    .denoiser_open = sd3_denoiser_open,
    .forward = sd3_forward,
};
