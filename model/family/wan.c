/* wan.c - the Wan family, 2.1 and 2.2: WanPipeline, WanImageToVideoPipeline and WanVideoToVideoPipeline of diffusers.
 *
 * UMT5 (or T5) text encoder, one or two denoisers (2.2 A14B: transformer for the noisy steps, transformer_2 for the
 * rest, parted at boundary_ratio), AutoencoderKLWan. `expand_timesteps` (2.2 5B) gives every token its own timestep;
 * without an image all of them are equal, so the scalar path is the same. With one the first frame of the latents is the
 * image's from the noise to the end, and its tokens have timestep 0. The other models of image to video have more channels
 * going in: behind the latents a mask and the latents of the pictures, with grey frames between them. */
#include "clip_vision.h"
#include "family.h"
#include "prompt_clean.h"
#include "t5.h"
#include "wan_dit.h"
#include "wan_image.h"
#include "wan_vae.h"

#include <stdlib.h>

enum { TEXT_LEN = 512 }; /* rows that the denoisers were trained with; WanPipeline's max_sequence_length */

static const char default_negative[] =
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，JPEG压缩残留，"
    "丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，手指融合，静止不动的画"
    "面，"
    "杂乱的背景，三条腿，背景人很多，倒着走";

typedef struct wan {
    sg_components   components;
    sg_wan_dit     *dit[2]; /* the second only with two denoisers */
    sg_wan_vae     *vae;
    double          boundary; /* of 1: timesteps from here up are the first denoiser's; 0: one denoiser */
    bool            ti2v;     /* an image is the first frame of the latents */
    float          *image;    /* host: what sg_wan_image_encode made for this render; NULL: nothing */
    sg_clip_vision *clip;     /* where the denoiser has an image_dim */
    float          *tokens;   /* host: its states of this render's pictures; NULL: nothing */
    int             images;   /* of this render */
    sg_wan_run      run;      /* of one render */
} wan;

/* ---- opening ---- */

static sg_status read_index(wan *w, sg_config *index)
{
    const double      none = 0;
    const bool        no = false;
    const char *const second = sg_config_string_at(index, "transformer_2", 1);
    w->boundary = sg_config_real(index, "boundary_ratio", 0, 1, &none);
    w->ti2v = sg_config_bool(index, "expand_timesteps", &no);
    if (w->boundary > 0 && !(second && *second))
        sg_config_fail(index, "boundary_ratio", "two experts are asked for, but there is no transformer_2");
    if (w->boundary <= 0 && second && *second)
        sg_config_fail(index, "boundary_ratio", "there are two experts, and nothing says where the second takes over");
    return sg_config_status(index);
}

/* Components that were made for each other agree in these numbers. */
static sg_status check_fit(const wan *w, const char *dir, sg_error *e)
{
    const sg_text_encoder *const t = &w->components.text[0].encoder;
    const sg_wan_config *const   c = sg_wan_dit_config(w->dit[0]);
    const sg_wan_config *const   d = w->dit[1] ? sg_wan_dit_config(w->dit[1]) : c;
    const int                    width = t->ops->width(t->of), z = w->components.vae.info.z;
    if (c->text_dim != width)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: the text encoder gives %d numbers a token, but transformer/config.json: "
                            "text_dim is %lld",
                            dir, width, (long long)c->text_dim);
    if (c->channels != z)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: vae/config.json: z_dim is %d, but %lld channels come out of the transformer", dir, z,
                            (long long)c->channels);
    if (c->input != c->channels && c->input != 2 * c->channels + w->components.vae.info.scale_time)
        return sg_error_set(
            e, SG_E_FORMAT,
            "%s: transformer/config.json: in_channels is %lld: for text to video it would be %d, for image "
            "to video %d",
            dir, (long long)c->input, z, 2 * z + w->components.vae.info.scale_time);
    if (w->ti2v && c->input != c->channels)
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: model_index.json: expand_timesteps is for a transformer without channels "
                            "of an image",
                            dir);
    if (d->channels != c->channels || d->input != c->input || d->text_dim != c->text_dim ||
        d->image_dim != c->image_dim || d->image_places != c->image_places || d->layers != c->layers ||
        d->heads != c->heads || d->head_dim != c->head_dim || memcmp(d->patch, c->patch, sizeof c->patch) != 0)
        return sg_error_set(e, SG_E_FORMAT, "%s: transformer and transformer_2 differ in size", dir);
    return SG_OK;
}

static sg_status open_denoiser(wan *w, int i, const sg_checkpoint *from, const char *name, sg_dtype act, sg_error *e)
{
    SG_TRY(sg_wan_dit_open(&w->dit[i], from, name, act, e));
    sg_component *const component = sg_wan_dit_component(w->dit[i]);
    w->components.denoiser[i] = (sg_denoiser){
        .component = component, .names = sg_files_wan.names, .layers = (int)sg_wan_dit_config(w->dit[i])->layers};
    w->components.denoisers = i + 1;
    return SG_OK;
}

static void encode_image(void *model, sg_stream *s, const sg_request *r, const sg_geometry *g, sg_watch watch)
{
    wan *const   w = model;
    float *const image = sg_wan_image_encode(&w->components.vae, s, r, g, w->ti2v, watch);
    if (!s->memory->alloc) return;
    free(w->image);
    w->image = image;
}

/* CLIP sees pictures whole, where they are given so. */
static void encode_tokens(void *model, sg_stream *s, const sg_request *r, const sg_geometry *g, sg_watch watch)
{
    wan *const                w = model;
    const sg_clip_vision_info v = sg_clip_vision_describe(w->clip);
    const size_t              numbers = (size_t)v.tokens * (size_t)v.width;
    const bool                real = s->memory->alloc != NULL;
    if (real) {
        free(w->tokens);
        w->tokens = malloc((size_t)g->images * numbers * sizeof *w->tokens);
    }
    if (real && !w->tokens) sg_fail(s, SG_E_MEMORY, "no memory for the tokens of %d pictures", g->images);
    for (int i = 0; i < g->images; i++) {
        const size_t                  mark = s->scratch.used;
        const sg_tensor               y = sg_new(s, SG_F32, v.tokens, v.width);
        const sg_request_image *const p = &r->image[i];
        if (p->whole)
            sg_clip_vision_encode(w->clip, s, y, real ? p->whole : NULL, p->whole_width, p->whole_height);
        else
            sg_clip_vision_encode(w->clip, s, y, real ? p->rgb : NULL, r->width, r->height);
        if (real) sg_download(s, w->tokens + (size_t)i * numbers, y);
        s->scratch.used = mark;
        sg_watch_tell(watch, s, i + 1, g->images);
    }
}

static sg_status add_tokens(wan *w, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_components *const       c = &w->components;
    const sg_wan_config *const d = sg_wan_dit_config(w->dit[0]);
    if (!d->image_dim) return SG_OK;
    if (!sg_checkpoint_has(from, "image_encoder"))
        return sg_error_set(e, SG_E_FILE,
                            "%s: the denoiser sees pictures through an image encoder, and there is none: give it by "
                            "--clip-vision (clip_vision_h.safetensors)",
                            sg_checkpoint_path(from));
    SG_TRY(sg_clip_vision_open(&w->clip, from, "image_encoder", false, act, e));
    const sg_clip_vision_info v = sg_clip_vision_describe(w->clip);
    c->image[SG_IMAGE_LAST] = d->image_places ? SG_IMAGE_NEEDED : SG_IMAGE_NONE;
    c->added[c->addeds++] = (sg_added_phase){
        .name = "image clip", .component = sg_clip_vision_component(w->clip), .of_images = true, .run = encode_tokens};
    if (v.width == d->image_dim && (!d->image_places || d->image_places == 2 * v.tokens)) return SG_OK;
    return sg_error_set(
        e, SG_E_FORMAT,
        "%s: the image encoder gives %d tokens of %d numbers, but transformer/config.json: image_dim is "
        "%lld, pos_embed_seq_len %lld",
        sg_checkpoint_path(from), v.tokens, v.width, (long long)d->image_dim, (long long)d->image_places);
}

/* A phase of its own for the VAE's encoder, where the model takes images. */
static void add_image(wan *w)
{
    sg_components *const c = &w->components;
    const bool           beside = sg_wan_dit_config(w->dit[0])->input != sg_wan_dit_config(w->dit[0])->channels;
    if (!beside && !w->ti2v) return;
    c->image[SG_IMAGE_FIRST] = beside ? SG_IMAGE_NEEDED : SG_IMAGE_OPTIONAL;
    c->image[SG_IMAGE_LAST] = beside ? SG_IMAGE_OPTIONAL : SG_IMAGE_NONE;
    c->added[c->addeds++] = (sg_added_phase){
        .name = "image", .component = sg_wan_vae_encoder(w->vae), .of_images = true, .run = encode_image};
}

static sg_status open_components(wan *w, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    sg_components *const   c = &w->components;
    sg_text_encoder *const t = &c->text[0].encoder;
    c->guidance = SG_GUIDANCE_CLASSIFIER_FREE;
    SG_TRY(read_index(w, index));
    SG_TRY(sg_sampler_config_read(&c->sampler, from, SG_SAMPLERS_FLOW, e));
    SG_TRY(sg_t5_encoder_open(t, from, "text_encoder", "tokenizer", act, e));
    c->text[0].tokens_max = TEXT_LEN;
    c->texts = 1;
    SG_TRY(open_denoiser(w, 0, from, "transformer", act, e));
    if (w->boundary > 0) {
        SG_TRY(open_denoiser(w, 1, from, "transformer_2", act, e));
        c->denoiser[0].from = w->boundary * c->sampler.train_steps;
    }
    SG_TRY(sg_wan_vae_open(&w->vae, from, act, e));
    const sg_wan_vae_info v = sg_wan_vae_describe(w->vae);
    c->vae = (sg_vae){.ops = &sg_wan_vae_ops, .of = w->vae, .info = {v.z, v.scale_time, v.scale_space}};
    add_image(w);
    SG_TRY(add_tokens(w, from, act, e));

    const int64_t *const patch = sg_wan_dit_config(w->dit[0])->patch;
    memcpy(c->patch, patch, sizeof c->patch);
    /* both sides of a patch are powers of two in every known checkpoint */
    c->size_multiple = v.scale_space * (int)(patch[1] > patch[2] ? patch[1] : patch[2]);
    c->frames.step = v.scale_time * (int)patch[0];
    return check_fit(w, sg_checkpoint_path(from), e);
}

static void wan_close(void *model)
{
    wan *const w = model;
    sg_wan_run_close(&w->run);
    free(w->image);
    free(w->tokens);
    sg_clip_vision_close(&w->clip);
    sg_wan_dit_close(&w->dit[1]);
    sg_wan_dit_close(&w->dit[0]);
}

static sg_request defaults(const wan *w)
{
    const bool two = w->dit[1] != NULL;                        /* as wan_t2v_A14B.py and wan_i2v_A14B.py of Wan2.2 */
    const bool large = w->components.vae.info.scale_space > 8; /* the 5B: 24 frames a second, 720p */
    const bool image = w->components.image[SG_IMAGE_FIRST] == SG_IMAGE_NEEDED;
    return (sg_request){.negative_prompt = default_negative,
                        .width = large ? 1280 : 832,
                        .height = large ? 704 : 480,
                        .frames = large ? 121 : 81,
                        .fps = large ? 24 : 16,
                        .steps = two || image ? 40 : 50,
                        .cfg_scale = !two    ? 5.0
                                     : image ? 3.5
                                             : 4.0,
                        .cfg_scale_2 = !two    ? -1
                                       : image ? 3.5
                                               : 3.0};
}

static sg_status wan_open(void *model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    wan *const w = model;
    SG_TRY(open_components(w, from, index, act, e));
    w->components.defaults = defaults(w);
    return SG_OK;
}

/* ---- what it is ---- */

static sg_status wan_check(const void *model, const sg_request *r, sg_error *e)
{
    const wan *const  w = model;
    const int64_t     most = sg_wan_dit_config(w->dit[0])->rope_max;
    const sg_geometry g = sg_geometry_of(&w->components, r);
    for (int k = 0; k < 3; k++)
        if (g.grid[k] > most)
            return sg_error_set(e, SG_E_ARG, "%s: %lld patches are more than the %lld positions that the model knows",
                                k ? "size" : "frames", (long long)g.grid[k], (long long)most);
    return SG_OK;
}

static sg_status wan_prompt(const void *model, int encoder, const char *text, char **out, size_t *size, sg_error *e)
{
    (void)model;
    (void)encoder;
    return sg_prompt_clean(text, strlen(text), out, size, e);
}

static void wan_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                          sg_attention_shape *shape)
{
    const sg_wan_config *const d = sg_wan_dit_config(((const wan *)model)->dit[0]);
    (void)c; /* text is attended to by itself */
    (void)pass;
    (void)layer;
    shape->n = g->grid[0] * g->grid[1] * g->grid[2];
    shape->h = shape->hk = d->heads;
    shape->d = d->head_dim;
}

/* ---- denoising ---- */

static void wan_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    wan *const w = model;
    sg_wan_run_close(&w->run);
    sg_wan_run_tables(&w->run, w->dit[0], s, g->grid, self);
    w->images = g->images;
    if (g->images) sg_wan_run_image(&w->run, w->dit[0], s, s->memory->alloc ? w->image : NULL, g->latent);
}

static void wan_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    wan *const  w = model;
    sg_wan_text text[2] = {{0}}, pictures = {s->memory->alloc ? w->tokens : NULL, 0};
    if (w->clip) pictures.rows = w->images * sg_clip_vision_describe(w->clip).tokens;
    for (int k = 0; k < c->passes; k++) text[k] = (sg_wan_text){c->text[k][0].states, c->text[k][0].len};
    sg_wan_run_text(&w->run, w->dit[denoiser], s, text, c->passes, TEXT_LEN, &pictures);
}

static void wan_forward(void *model, sg_stream *s, const sg_pass *p)
{
    wan *const w = model;
    sg_wan_dit_forward(w->dit[p->denoiser], &w->run, s, p);
}

static void wan_hold(void *model, sg_stream *s, sg_tensor x) { sg_wan_run_hold(&((const wan *)model)->run, s, x); }

static const sg_class_rule classes[] = {
    {.component = "text_encoder", .name = "UMT5EncoderModel", .other = "T5EncoderModel"},
    {.component = "transformer", .name = "WanTransformer3DModel"},
    {.component = "transformer_2", .name = "WanTransformer3DModel", .optional = true},
    {.component = "vae", .name = "AutoencoderKLWan"},
    {.component = "image_encoder",
     .name = "CLIPVisionModel",
     .other = "CLIPVisionModelWithProjection",
     .optional = true},
    {0}};

static const sg_known_shape wan_shapes[] = {
    {"wan-240p", 12, 128, 30, {21, 15, 26}, 0, 0},     /* 2.1 1.3B, 416x240, 81 frames */
    {"wan1.3b-480p", 12, 128, 30, {21, 30, 52}, 0, 0}, /* 832x480 */
    {"wan1.3b-720p", 12, 128, 30, {21, 45, 80}, 0, 0}, /* 1280x720 */
    {"wan14b-480p", 40, 128, 40, {21, 30, 52}, 0, 0},
    {"tiny-wan", 6, 64, 8, {9, 16, 16}, 0, 0}, /* which comes along; 256x256, 33 frames */
    {"tiny-wan-512", 6, 64, 8, {9, 32, 32}, 0, 0},
    {0},
};

static const sg_known_width wan_widths[] = {
    {"tiny-wan", 384}, {"Wan 2.1 1.3B", 1536}, {"Wan 2.2 5B", 3072}, {"Wan 2.1 14B and Wan 2.2 A14B", 5120}, {0}};

const sg_family sg_family_wan = {
    .name = "wan",
    .files = &sg_files_wan,
    .class_names = (const char *const[]){"WanPipeline", "WanImageToVideoPipeline", "WanVideoToVideoPipeline", NULL},
    .shapes = wan_shapes,
    .widths = wan_widths,
    .classes = classes,
    .size = sizeof(wan),
    .open = wan_open,
    .close = wan_close,
    .check = wan_check,
    .prompt = wan_prompt,
    .attention = wan_attention,
    .render_open = wan_render_open,
    .denoiser_open = wan_denoiser_open,
    .forward = wan_forward,
    .hold = wan_hold,
};
