/* flux.c - Flux.1 dev and schnell (Black Forest Labs, 2024), text to image: FluxPipeline of diffusers.
 *
 * CLIP-L and T5, FluxTransformer2DModel, whose tensors have diffusers' names and whose tokens are [text | picture],
 * AutoencoderKL. What bites:
 *  - of CLIP only the row of the whole text counts; T5's text is filled up, and its pads are tokens like others;
 *  - guidance is an input of dev's denoiser (embedded guidance), and the tokens of the picture shift its schedule; schnell has
 *    neither, and was distilled to four steps and texts of 256 tokens, which nothing in its files says;
 *  - a negative prompt is read only where cfg_scale asks for a second pass;
 *  - noise is drawn before latents are packed, in the dtype of the model;
 *  - the model takes packed latents: in_channels counts the numbers of 2 x 2 places, (c, py, px);
 *  - the text's rows have place (0, 0, 0), which rotates nothing; the picture's rotate by row and column, theta 10000;
 *  - in BF16 the time is rounded thrice: the timestep, its thousandth, and a thousand times that. */
#include "clip_text.h"
#include "mmdit.h"
#include "op.h"
#include "solver.h"
#include "t5.h"

enum {
    CLIP,
    T5,
    TEXTS, /* encoders */
    CLIP_LEN = 77,
    TEXT_LEN = 512,
    SCHNELL_LEN = 256,
    PATCH = 2 /* rows and columns of latents in a token: FluxPipeline's, no number of a file */
};

typedef struct flux {
    sg_components components;
    sg_mmdit      net;     /* dit.patch_in [D, C p p], dit.text_in [D, text_dim] */
    int64_t       axis[3]; /* channels of a head that each axis rotates; the first, a picture's number, is 0 */
    sg_dit_run    run;     /* of one render */
} flux;

/* ---- opening ---- */

static sg_status read_config(flux *m, sg_config *f)
{
    sg_mmdit *const n = &m->net;
    sg_dit *const   d = &n->dit;
    const int64_t   places = PATCH * PATCH;
    d->heads = sg_config_int(f, "num_attention_heads", 1, 1024, &(int64_t){24});
    d->head_dim = sg_config_int(f, "attention_head_dim", 2, 256, &(int64_t){128});
    d->width = d->heads * d->head_dim;
    n->ffn = 4 * d->width;
    n->layers = sg_config_int(f, "num_layers", 1, 4096, &(int64_t){19});
    n->singles = sg_config_int(f, "num_single_layers", 0, 4096, &(int64_t){38});
    n->row_dim = sg_config_int(f, "pooled_projection_dim", 1, 1 << 18, &(int64_t){768});
    n->guided = sg_config_bool(f, "guidance_embeds", &(bool){false});
    n->text_first = true;
    const int64_t in = sg_config_int(f, "in_channels", 1, 1 << 14, &(int64_t){64});
    d->channels = d->input = in / places;
    d->patch[0] = 1;
    d->patch[1] = d->patch[2] = PATCH;
    d->text_dim = sg_config_int(f, "joint_attention_dim", 1, 1 << 18, &(int64_t){4096});
    sg_config_int(f, "patch_size", 1, 1, &(int64_t){1});
    const int64_t out = sg_config_int(f, "out_channels", 1, 1 << 14, &in);
    if (out != in)
        sg_config_fail(f, "out_channels",
                       "%lld, but in_channels is %lld: a model that is given a picture beside its "
                       "latents is not supported",
                       (long long)out, (long long)in);
    if (in % places)
        sg_config_fail(f, "in_channels", "%lld is no multiple of %lld, the places of a patch", (long long)in,
                       (long long)places);
    sg_mmdit_read_axes(f, "axes_dims_rope", d->head_dim, m->axis);
    return sg_config_status(f);
}

static sg_status open_denoiser(flux *m, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_mmdit *const n = &m->net;
    sg_dit *const   d = &n->dit;
    SG_TRY(sg_dit_open(d, from, "transformer", "FluxTransformer2DModel", act, e));
    SG_TRY(read_config(m, d->config));
    SG_TRY(sg_mmdit_bind(n, e));
    sg_bind *const b = d->component.bind;
    sg_want_linear(b, &d->patch_in, act, "x_embedder", d->width, sg_dit_patch_size(d, d->input));
    sg_want_linear(b, &d->text_in, act, "context_embedder", d->width, d->text_dim);
    return sg_mmdit_check(n, e);
}

static sg_status open_texts(sg_components *c, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_text_source *const clip = &c->text[CLIP], *const t5 = &c->text[T5];
    SG_TRY(sg_clip_text_encoder_open(&clip->encoder, from, "text_encoder", "tokenizer", false, 0, act, e));
    clip->tokens_max = CLIP_LEN;
    SG_TRY(sg_t5_encoder_open(&t5->encoder, from, "text_encoder_2", "tokenizer_2", act, e));
    t5->padded = true;
    c->texts = TEXTS;
    return SG_OK;
}

static sg_status flux_open(void *model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    flux *const          m = model;
    sg_components *const c = &m->components;
    sg_dit *const        d = &m->net.dit;
    (void)index;
    SG_TRY(sg_sampler_config_read_own(&c->sampler, from, &sg_solver_flow_flux, e));
    SG_TRY(open_texts(c, from, act, e));
    SG_TRY(open_denoiser(m, from, act, e));
    sg_components_add_mmdit(c, &m->net, sg_files_flux.names);
    SG_TRY(sg_components_open_vae(c, &sg_kl_vae_ops, from, act, e));

    /* no other number of its files than these two tells */
    const bool schnell = !m->net.guided && !c->sampler.by_tokens.on;
    c->text[T5].tokens_max = schnell ? SCHNELL_LEN : TEXT_LEN;
    c->guidance = m->net.guided ? SG_GUIDANCE_EMBEDDED : SG_GUIDANCE_CLASSIFIER_FREE;
    c->noise_dtype = act;
    c->defaults = (sg_request){.width = 1024,
                               .height = 1024,
                               .frames = 1,
                               .fps = 1,
                               .steps = schnell ? 4 : 28,
                               .cfg_scale = 1,
                               .guidance = m->net.guided ? 3.5 : 0};

    const sg_fit fit[] = {{sg_text_width(c, T5), "the width of text_encoder_2", d->text_dim,
                           "transformer/config.json: joint_attention_dim"},
                          {sg_text_pooled(c, CLIP), "the pooled width of text_encoder", m->net.row_dim,
                           "transformer/config.json: pooled_projection_dim"},
                          {c->vae.info.z, "vae/config.json: latent_channels", d->channels,
                           "a fourth of transformer/config.json: in_channels"},
                          {0}};
    return sg_check_fit(fit, sg_checkpoint_path(from), e);
}

static void flux_close(void *model) { sg_mmdit_close(&((flux *)model)->net); }

/* ---- denoising ---- */

static void flux_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                           sg_attention_shape *shape)
{
    (void)layer;
    sg_dit_shape(&((const flux *)model)->net.dit, g, c->text[pass][T5].len, 0, shape);
}

static void flux_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    flux *const m = model;
    sg_dit_run_open(&m->run, &m->net.dit, s, g, self);
    sg_dit_run_rotary(&m->run, s, m->axis, 10000, NULL);
}

static void flux_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    flux *const m = model;
    (void)denoiser;
    for (int k = 0; k < c->passes; k++) {
        sg_dit_run_text(&m->run, &m->net.dit, s, k, c->text[k][T5].states, c->text[k][T5].len);
        sg_tap(s, m->run.text[k], "dit.text");
    }
}

/* F32 [steps]: timesteps as the embedder takes them: FluxPipeline and the model round in the dtype of the denoiser. */
static sg_tensor time_input(sg_stream *s, sg_tensor t, sg_dtype act)
{
    static const float factor[] = {1, 0.001f, 1000};
    if (act != SG_BF16) return t;
    const sg_tensor y = sg_new(s, SG_F32, t.dim[0]);
    const size_t    mark = s->scratch.used;
    const sg_tensor product = sg_new(s, SG_F32, t.dim[0]), rounded = sg_new(s, SG_BF16, t.dim[0]);
    for (size_t i = 0; i < sizeof factor / sizeof *factor; i++) {
        sg_combine(s, .y = product, .x = {i ? y : t}, .a = {factor[i]}, .count = 1);
        sg_copy(s, .y = rounded, .x = product);
        sg_copy(s, .y = y, .x = rounded);
    }
    s->scratch.used = mark;
    return y;
}

static void flux_modulate(void *model, sg_stream *s, const sg_conditioning *c, sg_tensor t, sg_tensor y)
{
    const flux *const  m = model;
    const float *const row[SG_TEXT_PASSES] = {c->text[0][CLIP].row, c->text[1][CLIP].row};
    sg_mmdit_modulate(&m->net, s, c, row, time_input(s, t, m->net.dit.component.act), y);
}

static void flux_forward(void *model, sg_stream *s, const sg_pass *p)
{
    const flux *const       m = model;
    const sg_dit_run *const r = &m->run;
    const sg_dit *const     d = &m->net.dit;
    const size_t            mark = s->scratch.used;
    const sg_tensor         text = r->text[p->text], x = sg_new(s, SG_F32, text.dim[0] + r->n, d->width);
    const sg_mmdit_pass     pass = sg_mmdit_pass_of(&m->net, r, p);
    sg_copy(s, .y = sg_mmdit_rows(&pass, x, SG_MMDIT_TEXT), .x = text);
    sg_dit_patch_embed(d, r, s, p, sg_mmdit_rows(&pass, x, SG_MMDIT_PICTURE), false);
    sg_mmdit_blocks(&m->net, &pass, s, x);
    sg_mmdit_project_out(&m->net, &pass, s, x);
    s->scratch.used = mark;
}

static const sg_class_rule classes[] = {{.component = "text_encoder", .name = "CLIPTextModel"},
                                        {.component = "text_encoder_2", .name = "T5EncoderModel"},
                                        {.component = "transformer", .name = "FluxTransformer2DModel"},
                                        {.component = "vae", .name = "AutoencoderKL"},
                                        {0}};

static const sg_known_shape shapes[] = {
    {"flux-1024", 24, 128, 57, {1, 64, 64}, TEXT_LEN, 0}, /* 1024x1024 */
    {"flux-2048", 24, 128, 57, {1, 128, 128}, TEXT_LEN, 0},
    {0},
};

static const sg_known_width widths[] = {{"Flux.1", 3072}, {0}};

const sg_family sg_family_flux = {
    .name = "flux",
    .files = &sg_files_flux,
    .class_names = (const char *const[]){"FluxPipeline", "FluxImg2ImgPipeline", NULL},
    .classes = classes,
    .shapes = shapes,
    .widths = widths,
    .size = sizeof(flux),
    .open = flux_open,
    .close = flux_close,
    .attention = flux_attention,
    .modulate = flux_modulate,
    .render_open = flux_render_open,
    .denoiser_open = flux_denoiser_open,
    .forward = flux_forward,
};
