/* cogvideox.c - the CogVideoX family, 2B, 5B and 1.5: CogVideoXPipeline, CogVideoXImageToVideoPipeline and
 * CogVideoXVideoToVideoPipeline of diffusers.
 *
 * T5 text encoder, one denoiser, AutoencoderKLCogVideoX. What bites:
 *  - texts are filled up with pads, which the encoder and the denoiser see as any other token;
 *  - the decoder takes latent frames in pairs, so that an even number of them has no first frame alone: 12 make 48 frames
 *    where 13 make 49;
 *  - where patches have several latent frames (1.5), latents are filled up with frames in front, which the decoder does not
 *    get;
 *  - noise is drawn frame by frame, in the dtype of the model;
 *  - the encoder gives a distribution for a picture, and the latents are drawn from it before the noise is. They stand beside
 *    the first frame of the noise, which with 1.5 may be one that the decoder does not get; beside the others are zeros. */
#include "cogvideox_dit.h"
#include "cogvideox_vae.h"
#include "t5.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct cogvideox {
    sg_components     components;
    sg_cogvideox_dit *dit;
    sg_cogvideox_vae *vae;
    float           *picture; /* host [3 z, y, x]: mean, logarithm of the variance of its latents, a draw; NULL: none */
    float           *image;   /* host [z, f, y, x]: what goes in beside the noise; NULL: none */
    int64_t          latent[4]; /* z, f, y, x */
    sg_cogvideox_run run;       /* of one render */
} cogvideox;

/* ---- opening ---- */

/* Components that were made for each other agree in these numbers. */
static sg_status check_fit(const cogvideox *m, const char *dir, sg_error *e)
{
    const sg_text_encoder *const     t = &m->components.text[0].encoder;
    const sg_cogvideox_config *const c = sg_cogvideox_dit_config(m->dit);
    const int                        width = t->ops->width(t->of), z = m->components.vae.info.z;
    if (c->text_dim != width)
        return sg_error_set(
            e, SG_E_FORMAT,
            "%s: the text encoder gives %d numbers a token, but transformer/config.json: text_embed_dim "
            "is %lld",
            dir, width, (long long)c->text_dim);
    if (c->channels != z)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: vae/config.json: latent_channels is %d, but transformer/config.json: out_channels is "
                            "%lld",
                            dir, z, (long long)c->channels);
    return SG_OK;
}

static void fill_picture(const void *context, float *rgb, int64_t first, int64_t count)
{
    const sg_request *const r = context;
    (void)first;
    (void)count;
    sg_vae_samples(rgb, r->image[SG_IMAGE_FIRST].rgb, (size_t)r->height * (size_t)r->width * 3);
}

static void encode_picture(void *model, sg_stream *s, const sg_request *r, const sg_geometry *g, sg_watch watch)
{
    cogvideox *const  m = model;
    const int64_t     latent[4] = {g->latent[0], 1, g->latent[2], g->latent[3]};
    const size_t      one = (size_t)(latent[0] * latent[2] * latent[3]);
    const bool        real = s->memory->alloc != NULL;
    const sg_vae_clip clip = {.frames = 1, .height = r->height, .width = r->width, .fill = fill_picture, .context = r};
    if (real) {
        free(m->picture);
        free(m->image);
        memcpy(m->latent, g->latent, sizeof m->latent);
        m->picture = calloc(3 * one, sizeof *m->picture);
        m->image = calloc((size_t)g->latent[1] * one, sizeof *m->image);
        if (!m->picture || !m->image) {
            sg_fail(s, SG_E_MEMORY, "no memory for a picture of %dx%d", r->width, r->height);
            return;
        }
    }
    sg_vae_encode(&m->components.vae, s, &clip, latent, real ? m->picture : NULL, watch);
}

static void add_image(cogvideox *m)
{
    sg_components *const             c = &m->components;
    const sg_cogvideox_config *const d = sg_cogvideox_dit_config(m->dit);
    if (d->input == d->channels) return;
    c->image[SG_IMAGE_FIRST] = SG_IMAGE_NEEDED;
    c->added[c->addeds++] = (sg_added_phase){
        .name = "image", .component = sg_cogvideox_vae_encoder(m->vae), .of_images = true, .run = encode_picture};
}

static sg_status open_components(cogvideox *m, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_components *const   c = &m->components;
    sg_text_encoder *const t = &c->text[0].encoder;
    SG_TRY(sg_sampler_config_read(&c->sampler, from, SG_SAMPLERS_BETAS, e));
    SG_TRY(sg_t5_encoder_open(t, from, "text_encoder", "tokenizer", act, e));
    SG_TRY(sg_cogvideox_dit_open(&m->dit, from, act, e));
    SG_TRY(sg_cogvideox_vae_open(&m->vae, from, act, e));

    const sg_cogvideox_config *const d = sg_cogvideox_dit_config(m->dit);
    c->text[0].tokens_max = (int)d->text_len;
    c->text[0].padded = true;
    c->texts = 1;
    c->denoiser[0] = (sg_denoiser){
        .component = sg_cogvideox_dit_component(m->dit), .names = sg_files_cogvideox.names, .layers = (int)d->layers};
    c->denoisers = 1;
    memcpy(c->patch, d->patch, sizeof c->patch);
    c->vae = (sg_vae){.ops = &sg_cogvideox_vae_ops, .of = m->vae, .info = sg_cogvideox_vae_describe(m->vae)};
    add_image(m);
    c->guidance = SG_GUIDANCE_CLASSIFIER_FREE;
    c->noise_by_frame = true;
    c->noise_dtype = act;
    c->size_multiple = c->vae.info.scale_space * (int)d->patch[1];
    c->frames = (sg_frame_rule){.step = c->vae.info.scale_time, .pairs = true};
    return check_fit(m, sg_checkpoint_path(from), e);
}

static void cogvideox_close(void *model)
{
    cogvideox *const m = model;
    free(m->picture);
    free(m->image);
    sg_cogvideox_dit_close(&m->dit);
}

static int64_t at_most(int64_t v, int64_t most) { return v < most ? v : most; }

/* The size of the training; but 1.5 was trained with many, up to its sample's, and its card has one. */
static sg_request defaults(const cogvideox *m)
{
    const sg_components *const       k = &m->components;
    const sg_cogvideox_config *const c = sg_cogvideox_dit_config(m->dit);
    const int64_t                    scale = k->vae.info.scale_space, p = c->patch[1];
    const int64_t                    most[2] = {c->frame_patch ? 1360 : INT32_MAX, c->frame_patch ? 768 : INT32_MAX};
    return (sg_request){.width = (int)at_most(c->sample[2] / p * p * scale, most[0]),
                        .height = (int)at_most(c->sample[1] / p * p * scale, most[1]),
                        .frames = (int)sg_frame_rule_count(k->frames, (c->sample[0] - 1) / k->frames.step + 1),
                        .fps = c->frame_patch ? 16 : 8,
                        .steps = 50,
                        .cfg_scale = 6};
}

static sg_status cogvideox_open(void *model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    cogvideox *const m = model;
    (void)index;
    SG_TRY(open_components(m, from, act, e));
    m->components.defaults = defaults(m);
    return SG_OK;
}

/* ---- what it is ---- */

static sg_status cogvideox_check(const void *model, const sg_request *r, sg_error *e)
{
    const cogvideox *const           m = model;
    const sg_cogvideox_config *const c = sg_cogvideox_dit_config(m->dit);
    const int                        step = m->components.size_multiple;
    const int64_t                    most[2] = {c->sample[1] / c->patch[1], c->sample[2] / c->patch[2]};
    const sg_geometry                g = sg_geometry_of(&m->components, r);
    if (c->learned && (g.grid[1] != most[0] || g.grid[2] != most[1]))
        return sg_error_set(e, SG_E_ARG, "size: %dx%d: this model knows the positions of %lldx%lld alone", r->width,
                            r->height, (long long)most[1] * step, (long long)most[0] * step);
    if (!c->rotary || !c->frame_patch || (g.grid[1] <= most[0] && g.grid[2] <= most[1])) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "size: %dx%d: this model knows the positions of %lldx%lld at most", r->width,
                        r->height, (long long)most[1] * step, (long long)most[0] * step);
}

/* CogVideoXPipeline's use_dynamic_cfg. It takes the timestep, up to the 1000 of the training, for the number of a step, so
 * that the sign changes. */
static double dynamic_guidance(double scale, int steps, double timestep)
{
    const double pi = 3.14159265358979323846;
    return 1 + scale * (1 - cos(pi * pow((steps - timestep) / steps, 5))) / 2;
}

static void cogvideox_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                                sg_attention_shape *shape)
{
    const sg_cogvideox_config *const d = sg_cogvideox_dit_config(((const cogvideox *)model)->dit);
    (void)layer;
    shape->text_prefix = c->text[pass][0].len;
    shape->n = shape->text_prefix + g->grid[0] * g->grid[1] * g->grid[2];
    shape->h = shape->hk = d->heads;
    shape->d = d->head_dim;
}

/* ---- denoising ---- */

static void cogvideox_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    cogvideox *const m = model;
    sg_cogvideox_run_tables(&m->run, m->dit, s, g, self);
}

/* As DiagonalGaussianDistribution.sample, into the first frame. */
static void cogvideox_draw(void *model, sg_stream *s, sg_rng *rng)
{
    cogvideox *const m = model;
    const int64_t    plane = m->latent[2] * m->latent[3], n = m->latent[0] * plane;
    const double     scale = sg_cogvideox_vae_picture_scale(m->vae);
    float *const     noise = m->picture + 2 * n;
    sg_rng_randn_as(rng, m->components.noise_dtype, noise, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)m->picture[i] + exp((double)m->picture[n + i] / 2) * (double)noise[i];
        m->image[i / plane * m->latent[1] * plane + i % plane] = (float)(scale * x);
    }
    sg_cogvideox_run_image(&m->run, m->dit, s, m->image);
}

static void cogvideox_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    cogvideox *const m = model;
    (void)denoiser;
    sg_cogvideox_run_text(&m->run, m->dit, s, c);
}

static void cogvideox_forward(void *model, sg_stream *s, const sg_pass *p)
{
    cogvideox *const m = model;
    sg_cogvideox_dit_forward(m->dit, &m->run, s, p);
}

static const sg_class_rule classes[] = {{.component = "text_encoder", .name = "T5EncoderModel"},
                                        {.component = "transformer", .name = "CogVideoXTransformer3DModel"},
                                        {.component = "vae", .name = "AutoencoderKLCogVideoX"},
                                        {0}};

static const sg_known_shape shapes[] = {
    {"cogvideox2b", 30, 64, 30, {13, 30, 45}, 226, 0}, /* 720x480, 49 frames */
    {"cogvideox5b", 48, 64, 42, {13, 30, 45}, 226, 0},
    {"cogvideox1.5-5b", 48, 64, 42, {11, 48, 85}, 226, 0}, /* 1360x768, 81 frames */
    {0},
};

static const sg_known_width widths[] = {{"CogVideoX 2B", 1920}, {"CogVideoX 5B and 1.5", 3072}, {0}};

const sg_family sg_family_cogvideox = {
    .name = "cogvideox",
    .files = &sg_files_cogvideox,
    .class_names = (const char *const[]){"CogVideoXPipeline", "CogVideoXImageToVideoPipeline",
                                         "CogVideoXVideoToVideoPipeline", NULL},
    .shapes = shapes,
    .widths = widths,
    .classes = classes,
    .size = sizeof(cogvideox),
    .open = cogvideox_open,
    .close = cogvideox_close,
    .check = cogvideox_check,
    .dynamic_guidance = dynamic_guidance,
    .attention = cogvideox_attention,
    .render_open = cogvideox_render_open,
    .draw = cogvideox_draw,
    .denoiser_open = cogvideox_denoiser_open,
    .forward = cogvideox_forward,
};
