/* mochi.c - Mochi 1 (Genmo, 2024), text to video: MochiPipeline of diffusers.
 *
 * T5, one denoiser whose tokens are [video | text], AutoencoderKLMochi. What bites:
 *  - the denoiser sees the text's real tokens alone, so that the passes of guidance differ in length;
 *  - with force_zeros_for_empty_prompt an empty prompt has no token at all, otherwise it has the end;
 *  - timesteps rise from 0, the noise, to 1000. */
#include "family.h"
#include "mochi_dit.h"
#include "mochi_vae.h"
#include "solver.h"
#include "t5.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_LEN = 256 }; /* MochiPipeline's max_sequence_length */

typedef struct mochi {
    sg_components components;
    sg_mochi_dit *dit;
    sg_mochi_vae *vae;
    sg_mochi_run  run; /* of one render */
} mochi;

/* ---- opening ---- */

static sg_status read_index(mochi *m, sg_config *index)
{
    m->components.text[0].none_for_empty = sg_config_bool(index, "force_zeros_for_empty_prompt", &(bool){false});
    return sg_config_status(index);
}

/* Components that were made for each other agree in these numbers. */
static sg_status check_fit(const mochi *m, const char *dir, sg_error *e)
{
    const sg_text_encoder *const t = &m->components.text[0].encoder;
    const sg_mochi_config *const c = sg_mochi_dit_config(m->dit);
    const int                    width = t->ops->width(t->of), z = m->components.vae.info.z;
    if (c->text_dim != width)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: the text encoder gives %d numbers a token, but transformer/config.json: "
                            "text_embed_dim is %lld",
                            dir, width, (long long)c->text_dim);
    if (c->channels != z)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: vae/config.json: latent_channels is %d, but transformer/config.json: in_channels "
                            "is %lld",
                            dir, z, (long long)c->channels);
    return SG_OK;
}

static sg_status open_components(mochi *m, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    sg_components *const   c = &m->components;
    sg_text_encoder *const t = &c->text[0].encoder;
    c->guidance = SG_GUIDANCE_CLASSIFIER_FREE;
    SG_TRY(read_index(m, index));
    SG_TRY(sg_sampler_config_read_own(&c->sampler, from, &sg_solver_flow_mochi, e));
    SG_TRY(sg_t5_encoder_open(t, from, "text_encoder", "tokenizer", act, e));
    c->text[0].tokens_max = TEXT_LEN;
    c->texts = 1;
    SG_TRY(sg_mochi_dit_open(&m->dit, from, act, e));
    const sg_mochi_config *const d = sg_mochi_dit_config(m->dit);
    c->denoiser[0] = (sg_denoiser){
        .component = sg_mochi_dit_component(m->dit), .names = sg_files_mochi.names, .layers = (int)d->layers};
    c->denoisers = 1;
    SG_TRY(sg_mochi_vae_open(&m->vae, from, act, e));
    memcpy(c->patch, d->patch, sizeof c->patch);
    c->vae = (sg_vae){.ops = &sg_mochi_vae_ops, .of = m->vae, .info = sg_mochi_vae_describe(m->vae)};
    c->size_multiple = c->vae.info.scale_space * (int)d->patch[1];
    c->frames.step = c->vae.info.scale_time;
    return check_fit(m, sg_checkpoint_path(from), e);
}

static void mochi_close(void *model) { sg_mochi_dit_close(&((mochi *)model)->dit); }

static sg_status mochi_open(void *model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    mochi *const m = model;
    SG_TRY(open_components(m, from, index, act, e));
    m->components.defaults =
        (sg_request){.width = 848, .height = 480, .frames = 19, .fps = 30, .steps = 64, .cfg_scale = 4.5};
    return SG_OK;
}

/* ---- what it is ---- */

static void mochi_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                            sg_attention_shape *shape)
{
    const sg_mochi_config *const d = sg_mochi_dit_config(((const mochi *)model)->dit);
    (void)layer;
    shape->text_suffix = c->text[pass][0].len;
    shape->n = g->grid[0] * g->grid[1] * g->grid[2] + shape->text_suffix;
    shape->h = shape->hk = d->heads;
    shape->d = d->head_dim;
}

/* ---- denoising ---- */

static void mochi_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    sg_mochi_run_open(&((mochi *)model)->run, s, g->grid, self);
}

static void mochi_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    mochi *const m = model;
    (void)denoiser;
    for (int k = 0; k < c->passes; k++)
        sg_mochi_run_text(&m->run, m->dit, s, k, c->text[k][0].states, c->text[k][0].len);
    sg_mochi_run_rotary(&m->run, m->dit, s);
}

static void mochi_forward(void *model, sg_stream *s, const sg_pass *p)
{
    const mochi *const m = model;
    sg_mochi_dit_forward(m->dit, &m->run, s, p);
}

static const sg_class_rule classes[] = {{.component = "text_encoder", .name = "T5EncoderModel"},
                                        {.component = "transformer", .name = "MochiTransformer3DModel"},
                                        {.component = "vae", .name = "AutoencoderKLMochi"},
                                        {0}};

static const sg_known_shape shapes[] = {
    {"mochi", 24, 128, 48, {28, 30, 53}, 0, TEXT_LEN}, /* 848x480, 163 frames */
    {0},
};

const sg_family sg_family_mochi = {
    .name = "mochi",
    .files = &sg_files_mochi,
    .class_names = (const char *const[]){"MochiPipeline", NULL},
    .shapes = shapes,
    .classes = classes,
    .size = sizeof(mochi),
    .open = mochi_open,
    .close = mochi_close,
    .attention = mochi_attention,
    .render_open = mochi_render_open,
    .denoiser_open = mochi_denoiser_open,
    .forward = mochi_forward,
};
