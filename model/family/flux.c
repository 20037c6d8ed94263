/* flux.c - Flux.1 dev and schnell (Black Forest Labs, 2024), text to image: FluxPipeline of diffusers.
 *
 * CLIP-L and T5, one denoiser whose tokens are [text | picture], AutoencoderKL. What bites:
 *  - of CLIP only the row of the whole text counts; T5's text is filled up, and its pads are tokens like others;
 *  - guidance is an input of dev's denoiser (embedded guidance), and the tokens of the picture shift its schedule; schnell has
 *    neither, and was distilled to four steps and texts of 256 tokens, which nothing in its files says;
 *  - a negative prompt is read only where cfg_scale asks for a second pass;
 *  - noise is drawn before latents are packed, in the dtype of the model. */
#include "clip_text.h"
#include "family.h"
#include "flux_dit.h"
#include "flux_names.h"
#include "kl_vae.h"
#include "solver.h"
#include "t5.h"

#include <stdlib.h>

enum { CLIP, T5, TEXTS /* encoders */, CLIP_LEN = 77, TEXT_LEN = 512, SCHNELL_LEN = 256 };

typedef struct flux {
    sg_components components;
    sg_flux_dit  *dit;
    sg_kl_vae    *vae;
    sg_flux_run   run; /* of one render */
} flux;

/* ---- opening ---- */

static sg_status read_index(sg_config *index)
{
    sg_component_expect_class(index, "text_encoder", "CLIPTextModel", NULL);
    sg_component_expect_class(index, "text_encoder_2", "T5EncoderModel", NULL);
    sg_component_expect_class(index, "transformer", "FluxTransformer2DModel", NULL);
    sg_component_expect_class(index, "vae", "AutoencoderKL", NULL);
    return sg_config_status(index);
}

/* Components that were made for each other agree in these numbers. */
static sg_status check_fit(const flux *m, const char *dir, sg_error *e)
{
    const sg_text_encoder *const t = &m->components.text[T5].encoder, *const r = &m->components.text[CLIP].encoder;
    const sg_flux_config *const c = sg_flux_dit_config(m->dit);
    const int                   width = t->ops->width(t->of), row = r->ops->pooled(r->of), z = m->components.vae.info.z;
    if (c->text_dim != width)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: text_encoder_2 gives %d numbers a token, but transformer/config.json: "
                            "joint_attention_dim is %lld",
                            dir, width, (long long)c->text_dim);
    if (c->blocks.row_dim != row)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: text_encoder gives %d numbers a text, but transformer/config.json: "
                            "pooled_projection_dim is %lld",
                            dir, row, (long long)c->blocks.row_dim);
    if (c->channels != z)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: vae/config.json: latent_channels is %d, but transformer/config.json: in_channels "
                            "is %lld, of which a place of a patch has %lld",
                            dir, z, (long long)c->blocks.features, (long long)c->channels);
    if (t->ops->pad(t->of) < 0)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s/tokenizer_2/tokenizer_config.json: pad_token: there is none, but texts are filled up "
                            "with it",
                            dir);
    return SG_OK;
}

/* No other number of its files than these two tells. */
static bool is_schnell(const flux *m)
{
    return !sg_flux_dit_config(m->dit)->blocks.guided && !m->components.sampler.by_tokens.on;
}

static sg_status open_texts(sg_components *c, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    sg_text_source *const clip = &c->text[CLIP], *const t5 = &c->text[T5];
    SG_TRY(sg_clip_text_encoder_open(&clip->encoder, from, "text_encoder", "tokenizer", false, 0, act, e));
    sg_component_note_class(clip->encoder.ops->component(clip->encoder.of), index, "text_encoder");
    clip->tokens_max = CLIP_LEN;
    SG_TRY(sg_t5_encoder_open(&t5->encoder, from, "text_encoder_2", "tokenizer_2", act, e));
    sg_component_note_class(t5->encoder.ops->component(t5->encoder.of), index, "text_encoder_2");
    t5->padded = true;
    c->texts = TEXTS;
    return SG_OK;
}

static sg_status open_components(flux *m, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    sg_components *const c = &m->components;
    SG_TRY(read_index(index));
    SG_TRY(sg_sampler_config_read_own(&c->sampler, from, &sg_solver_flow_flux, e));
    SG_TRY(open_texts(c, from, index, act, e));
    SG_TRY(sg_flux_dit_open(&m->dit, from, act, e));
    const sg_mmdit_config *const d = &sg_flux_dit_config(m->dit)->blocks;
    c->text[T5].tokens_max = is_schnell(m) ? SCHNELL_LEN : TEXT_LEN;
    c->denoiser[0] = (sg_denoiser){.component = sg_flux_dit_component(m->dit),
                                   .names = &sg_flux_dit_names,
                                   .layers = (int)(d->layers + d->singles)};
    c->denoisers = 1;
    c->guidance = d->guided ? SG_GUIDANCE_EMBEDDED : SG_GUIDANCE_CLASSIFIER_FREE;
    c->noise_dtype = act;
    sg_component_note_class(c->denoiser[0].component, index, "transformer");
    SG_TRY(sg_kl_vae_open(&m->vae, from, act, e));
    sg_component_note_class(sg_kl_vae_component(m->vae), index, "vae");
    c->patch[0] = 1;
    c->patch[1] = c->patch[2] = SG_FLUX_PATCH;
    c->vae = (sg_vae){.ops = &sg_kl_vae_ops, .of = m->vae, .info = sg_kl_vae_describe(m->vae)};
    if (c->vae.info.z == sg_latent_rgb_flux.z) c->rgb = &sg_latent_rgb_flux;
    c->size_multiple = c->vae.info.scale_space * SG_FLUX_PATCH;
    return check_fit(m, sg_checkpoint_path(from), e);
}

static void flux_close(void *model)
{
    flux *const m = model;
    sg_kl_vae_close(&m->vae);
    sg_flux_dit_close(&m->dit);
    for (int k = 0; k < TEXTS; k++) sg_text_encoder_close(&m->components.text[k].encoder);
    free(m);
}

static sg_status flux_open(void **model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    flux *m = calloc(1, sizeof *m);
    if (!m) return sg_error_memory(e, sg_checkpoint_path(from));
    const sg_status st = open_components(m, from, index, act, e);
    if (st) {
        flux_close(m);
        m = NULL;
    }
    *model = m;
    return st;
}

/* ---- what it is ---- */

static const sg_components *flux_components(const void *model) { return &((const flux *)model)->components; }

static sg_request flux_defaults(const void *model)
{
    const flux *const          m = model;
    const sg_components *const c = &m->components;
    return (sg_request){.negative_prompt = "",
                        .width = 1024,
                        .height = 1024,
                        .frames = 1,
                        .fps = 1,
                        .steps = is_schnell(m) ? 4 : 28,
                        .cfg_scale = 1,
                        .cfg_scale_2 = -1,
                        .guidance = c->guidance == SG_GUIDANCE_EMBEDDED ? 3.5 : 0,
                        .flow_shift = c->sampler.flow_shift,
                        .sampler = c->sampler.kind};
}

static void flux_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                           sg_attention_shape *shape)
{
    const sg_mmdit_config *const d = &sg_flux_dit_config(((const flux *)model)->dit)->blocks;
    (void)layer;
    shape->text_prefix = c->text[pass][T5].len;
    shape->n = shape->text_prefix + g->grid[0] * g->grid[1] * g->grid[2];
    shape->h = shape->hk = d->heads;
    shape->d = d->head_dim;
}

/* ---- denoising ---- */

static void flux_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    flux *const m = model;
    sg_flux_run_open(&m->run, m->dit, s, g->grid, self);
}

static void flux_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    flux *const m = model;
    (void)denoiser;
    for (int k = 0; k < c->passes; k++) {
        const sg_text_states *const t = &c->text[k][T5];
        sg_flux_run_text(&m->run, m->dit, s, k, t->states, t->len, c->text[k][CLIP].row, c->guidance);
    }
}

static void flux_forward(void *model, sg_stream *s, const sg_pass *p)
{
    const flux *const m = model;
    sg_flux_dit_forward(m->dit, &m->run, s, p);
}

static const sg_known_shape shapes[] = {
    {"flux-1024", 24, 128, 57, {1, 64, 64}, TEXT_LEN, 0}, /* 1024x1024 */
    {"flux-2048", 24, 128, 57, {1, 128, 128}, TEXT_LEN, 0},
    {0},
};

static const sg_known_width widths[] = {{"Flux.1", 3072}, {0}};

const sg_family sg_family_flux = {
    .name = "flux",
    .class_names = (const char *const[]){"FluxPipeline", "FluxImg2ImgPipeline", NULL},
    .shapes = shapes,
    .widths = widths,
    .open = flux_open,
    .close = flux_close,
    .components = flux_components,
    .defaults = flux_defaults,
    .attention = flux_attention,
    .render_open = flux_render_open,
    .denoiser_open = flux_denoiser_open,
    .forward = flux_forward,
};
