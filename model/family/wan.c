/* wan.c - the Wan family, 2.1 and 2.2 (arXiv:2503.20314): WanPipeline, WanImageToVideoPipeline and
 * WanVideoToVideoPipeline of diffusers.
 *
 * UMT5 (or T5) text encoder, one or two denoisers (2.2 A14B: transformer for the noisy steps, transformer_2 for the
 * rest, parted at boundary_ratio), WanTransformer3DModel, whose tensors have diffusers' names, AutoencoderKLWan.
 * `expand_timesteps` (2.2 5B) gives every token its own timestep; without an image all of them are equal, so that one
 * serves all. With one the first frame of the latents is the image's from the noise to the end, and its tokens have
 * timestep 0. The other models of image to video have more channels going in: behind the latents a mask and the latents
 * of the pictures, with grey frames between them. What bites, beside what wan_block.c says:
 *  - rotary axes are [t | y | x] of sizes hd - 2h, h, h with h = 2 (hd / 6), interleaved pairs, angles in double;
 *  - the patch vector is (c, pt, ph, pw) on the way in, (pt, ph, pw, c) on the way out;
 *  - the output modulation takes the time embedding itself, the blocks take its projection;
 *  - what the passes of a step share (patch embedding, time, the first block's self-attention) is computed once;
 *  - grey is 0: the frames without a picture are encoded too. */
#include "base/text.h"
#include "clip_vision.h"
#include "op.h"
#include "prompt_clean.h"
#include "t5.h"
#include "wan_block.h"

#include <stdlib.h>
#include <string.h>

static const char default_negative[] =
    "色调艳丽，过曝，静态，细节模糊不清，字幕，风格，作品，画作，画面，静止，整体发灰，最差质量，低质量，JPEG压缩残留，"
    "丑陋的，残缺的，多余的手指，画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，手指融合，静止不动的画"
    "面，"
    "杂乱的背景，三条腿，背景人很多，倒着走";

typedef struct wan {
    sg_components   components;
    sg_wan_dit      dit[2];   /* the second only with two denoisers */
    double          boundary; /* of 1: timesteps from here up are the first denoiser's; 0: one denoiser */
    bool            ti2v;     /* an image is the first frame of the latents */
    sg_clip_vision *clip;     /* where the denoiser has an image_dim */
    /* Of one render, on the host. image is F32 [channels, f, y, x] that go in beside the latents, or, with ti2v,
     * [channels, 1, y, x] that are the first frame; tokens are CLIP's states of the pictures. NULL: nothing. */
    float     *image, *tokens;
    int        images;
    sg_wan_run run;
} wan;

/* ---- opening ---- */

static sg_status read_index(wan *m, sg_config *index)
{
    const char *const second = sg_config_string_at(index, "transformer_2", 1);
    m->boundary = sg_config_real(index, "boundary_ratio", 0, 1, &(double){0});
    m->ti2v = sg_config_bool(index, "expand_timesteps", &(bool){false});
    if (m->boundary > 0 && !(second && *second))
        sg_config_fail(index, "boundary_ratio", "two experts are asked for, but there is no transformer_2");
    if (m->boundary <= 0 && second && *second)
        sg_config_fail(index, "boundary_ratio", "there are two experts, and nothing says where the second takes over");
    return sg_config_status(index);
}

/* The tokens of pictures. */
static void read_image(sg_wan_dit *d, sg_config *f)
{
    const int64_t none = 0, width = d->dit.width;
    d->image_dim = sg_config_int(f, "image_dim", 1, 1 << 20, &none);
    d->image_places = sg_config_int(f, "pos_embed_seq_len", 1, 1 << 20, &none);
    const int64_t added = sg_config_int(f, "added_kv_proj_dim", 1, 1 << 20, &none);
    if (added != (d->image_dim ? width : 0))
        sg_config_fail(f, "added_kv_proj_dim", "%lld; with image_dim %lld it should be %lld", (long long)added,
                       (long long)d->image_dim, (long long)(d->image_dim ? width : 0));
    if (d->image_places && !d->image_dim) sg_config_fail(f, "pos_embed_seq_len", "there is no image_dim");
    if (d->image_dim && d->dit.input == d->dit.channels)
        sg_config_fail(f, "image_dim", "%lld, but no channels of a picture go in", (long long)d->image_dim);
}

static sg_status read_config(sg_wan_dit *d, sg_config *f)
{
    sg_dit *const c = &d->dit;
    sg_config_ints(f, "patch_size", 1, 16, c->patch, 3, 3);
    c->heads = sg_config_int(f, "num_attention_heads", 1, 1024, NULL);
    c->head_dim = sg_config_int(f, "attention_head_dim", 2, 256, NULL);
    c->width = c->heads * c->head_dim;
    d->ffn = sg_config_int(f, "ffn_dim", 1, 1 << 20, NULL);
    d->layers = sg_config_int(f, "num_layers", 1, 4096, NULL);
    c->input = sg_config_int(f, "in_channels", 1, 4096, NULL);
    c->channels = sg_config_int(f, "out_channels", 1, 4096, &c->input);
    c->channels_last = true;
    c->text_dim = sg_config_int(f, "text_dim", 1, 1 << 20, NULL);
    d->freq_dim = sg_config_int(f, "freq_dim", 2, 1 << 16, NULL);
    d->rope_max = sg_config_int(f, "rope_max_seq_len", 1, 1 << 20, &(int64_t){1024});
    d->eps = sg_config_real(f, "eps", 0, 1, &(double){1e-6});
    d->cross_norm = sg_config_bool(f, "cross_attn_norm", &(bool){true});

    if (c->channels > c->input)
        sg_config_fail(f, "out_channels", "%lld, but only %lld go in", (long long)c->channels, (long long)c->input);
    if (c->patch[0] > 1)
        sg_config_fail(f, "patch_size",
                       "entry 0 is %lld, but patches of several latent frames cannot be rendered: it should be 1",
                       (long long)c->patch[0]);
    if (c->head_dim % 2) sg_config_fail(f, "attention_head_dim", "%lld is odd", (long long)c->head_dim);
    if (d->freq_dim % 2) sg_config_fail(f, "freq_dim", "%lld is odd", (long long)d->freq_dim);
    sg_config_only(f, "qk_norm", "rms_norm_across_heads", "rms_norm_across_heads");
    read_image(d, f);
    return sg_config_status(f);
}

static void bind_image(sg_wan_dit *d)
{
    const sg_dtype act = d->dit.component.act;
    const int64_t  w = d->dit.width, i = d->image_dim;
    sg_bind *const b = d->dit.component.bind;
    sg_bind_prefix(b, "condition_embedder.image_embedder.");
    sg_bind_tensor(b, &d->norm_w[0], SG_F32, "norm1.weight", i);
    sg_bind_tensor(b, &d->norm_b[0], SG_F32, "norm1.bias", i);
    sg_want_linear(b, &d->image[0], act, "ff.net.0.proj", i, i);
    sg_want_linear(b, &d->image[1], act, "ff.net.2", w, i);
    sg_bind_tensor(b, &d->norm_w[1], SG_F32, "norm2.weight", w);
    sg_bind_tensor(b, &d->norm_b[1], SG_F32, "norm2.bias", w);
    if (d->image_places) sg_bind_tensor(b, &d->places, SG_F32, "pos_embed", 1, d->image_places, i);
}

static void bind_weights(sg_wan_dit *d)
{
    sg_dit *const        c = &d->dit;
    const sg_dtype       act = c->component.act;
    const int64_t        w = c->width;
    const int64_t *const patch = c->patch;
    sg_bind *const       b = c->component.bind;

    sg_bind_tensor(b, &c->patch_in.w, act, "patch_embedding.weight", w, c->input, patch[0], patch[1], patch[2]);
    sg_bind_tensor(b, &c->patch_in.b, SG_F32, "patch_embedding.bias", w);
    sg_bind_prefix(b, "condition_embedder.");
    sg_want_linear(b, &d->time[0], SG_F32, "time_embedder.linear_1", w, d->freq_dim);
    sg_want_linear(b, &d->time[1], SG_F32, "time_embedder.linear_2", w, w);
    sg_want_linear(b, &d->time_proj, act, "time_proj", SG_WAN_ROWS * w, w);
    sg_want_linear(b, &d->text[0], act, "text_embedder.linear_1", w, c->text_dim);
    sg_want_linear(b, &d->text[1], act, "text_embedder.linear_2", w, w);
    if (d->image_dim) bind_image(d);
    for (int i = 0; i < d->layers; i++) sg_wan_bind_block(d, i);
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    sg_want_linear(b, &c->proj_out, act, "proj_out", sg_dit_patch_size(c, c->channels), w);
    sg_bind_tensor(b, &d->table, SG_F32, "scale_shift_table", 1, 2, w);
    sg_bind_ignore(b, "norm_added_q"); /* left over in some published files */
}

static sg_status open_denoiser(wan *m, sg_wan_dit *d, const sg_checkpoint *from, const char *name, sg_dtype act,
                               sg_error *e)
{
    sg_dit *const c = &d->dit;
    SG_TRY(sg_dit_open(c, from, name, "WanTransformer3DModel", act, e));
    SG_TRY(read_config(d, c->config));
    d->block = calloc((size_t)d->layers, sizeof *d->block);
    if (!d->block) return sg_error_memory(e, c->component.dir);
    bind_weights(d);
    sg_components_add_dit(&m->components, c, sg_files_wan.names, d->layers);
    return sg_dit_check(c, e, "%lld layer%s, %lld heads x %lld, ffn %lld, %lld latent channels", (long long)d->layers,
                        sg_plural(d->layers), (long long)c->heads, (long long)c->head_dim, (long long)d->ffn,
                        (long long)c->channels);
}

/* Components that were made for each other agree in these numbers. */
static sg_status check_fit(const wan *m, const char *path, sg_error *e)
{
#define DIT "transformer/config.json: "
#define SAME(member, key) ((sg_fit){b->member, "transformer_2/config.json: " key, a->member, DIT key})
    const sg_components *const c = &m->components;
    const sg_wan_dit *const a = &m->dit[0], *const b = &m->dit[c->denoisers - 1];
    const sg_clip_vision_info v = m->clip ? sg_clip_vision_describe(m->clip) : (sg_clip_vision_info){0};
    const int64_t             in = a->dit.input, out = a->dit.channels, beside = 2 * out + c->vae.info.scale_time;
    const int64_t             two = a->image_places ? 2 * v.tokens : 0;

    const sg_fit fit[] = {{sg_text_width(c, 0), "the width of text_encoder", a->dit.text_dim, DIT "text_dim"},
                          {c->vae.info.z, "vae/config.json: z_dim", out, DIT "out_channels"},
                          {in, DIT "in_channels", m->ti2v ? out : in, "out_channels, the same with expand_timesteps,"},
                          {in, DIT "in_channels", in == out ? in : beside,
                           "what latents, a picture's mask and its latents have together"},
                          {v.width, "the width of image_encoder", a->image_dim, DIT "image_dim"},
                          {two, "twice the number of image_encoder's tokens", a->image_places, DIT "pos_embed_seq_len"},
                          SAME(dit.input, "in_channels"),
                          SAME(dit.channels, "out_channels"),
                          SAME(dit.text_dim, "text_dim"),
                          SAME(image_dim, "image_dim"),
                          SAME(image_places, "pos_embed_seq_len"),
                          SAME(layers, "num_layers"),
                          SAME(dit.heads, "num_attention_heads"),
                          SAME(dit.head_dim, "attention_head_dim"),
                          SAME(dit.patch[1], "patch_size: entry 1"),
                          SAME(dit.patch[2], "patch_size: entry 2"),
                          {0}};
    return sg_check_fit(fit, path, e);
#undef SAME
#undef DIT
}

/* ---- pictures ---- */

/* A clip that is grey between its pictures. */
typedef struct clip {
    const sg_request       *request;
    const sg_request_image *last;          /* NULL: none */
    int64_t                 frames, plane; /* of the latents: how many, places of each */
    int                     chunk;         /* frames of each latent frame but the first */
} clip;

static void fill_frames(const void *context, float *rgb, int64_t first, int64_t count)
{
    const clip *const c = context;
    const size_t      pixels = (size_t)c->request->height * (size_t)c->request->width * 3, n = (size_t)count * pixels;
    memset(rgb, 0, n * sizeof *rgb);
    if (first == 0) sg_vae_samples(rgb, c->request->image[SG_IMAGE_FIRST].rgb, pixels);
    if (c->last && first + count == (c->frames - 1) * c->chunk + 1)
        sg_vae_samples(rgb + n - pixels, c->last->rgb, pixels);
}

/* [chunk, f, y, x]: 1 where a frame of the clip is a picture; frame 0 counts chunk times. */
static void fill_mask(const clip *c, float *mask)
{
    for (int64_t k = 0; k < c->chunk; k++)
        for (int64_t p = 0; p < c->plane; p++) {
            mask[k * c->frames * c->plane + p] = 1;
            if (c->last && k == c->chunk - 1) mask[(k * c->frames + c->frames - 1) * c->plane + p] = 1;
        }
}

/* Sets m->image: the first picture's latents alone, with ti2v, or a mask and the latents of a whole clip. */
static void encode_image(void *model, sg_stream *s, const sg_request *r, const sg_geometry *g, sg_watch watch)
{
    wan *const        m = model;
    const int         scale = m->components.vae.info.scale_time;
    const int64_t     latent[4] = {g->latent[0], m->ti2v ? 1 : g->latent[1], g->latent[2], g->latent[3]};
    const clip        c = {.request = r,
                           .last = g->images > 1 ? &r->image[SG_IMAGE_LAST] : NULL,
                           .frames = latent[1],
                           .plane = latent[2] * latent[3],
                           .chunk = scale};
    const sg_vae_clip whole = {.frames = (latent[1] - 1) * scale + 1,
                               .height = r->height,
                               .width = r->width,
                               .fill = fill_frames,
                               .context = &c};
    const size_t      mask = m->ti2v ? 0 : (size_t)(scale * c.frames * c.plane);
    float            *out = NULL;
    if (s->memory->alloc) {
        free(m->image);
        m->image = out = calloc(mask + (size_t)(latent[0] * c.frames * c.plane), sizeof *out);
        if (!out) sg_fail(s, SG_E_MEMORY, "no memory for a picture of %dx%d", r->width, r->height);
    }
    if (!s->status) sg_vae_encode(&m->components.vae, s, &whole, latent, out ? out + mask : NULL, watch);
    if (out && mask) fill_mask(&c, out);
}

/* CLIP sees pictures whole, where they are given so. */
static void encode_tokens(void *model, sg_stream *s, const sg_request *r, const sg_geometry *g, sg_watch watch)
{
    wan *const                m = model;
    const sg_clip_vision_info v = sg_clip_vision_describe(m->clip);
    const size_t              numbers = (size_t)v.tokens * (size_t)v.width;
    const bool                real = s->memory->alloc != NULL;
    if (real) {
        free(m->tokens);
        m->tokens = malloc((size_t)g->images * numbers * sizeof *m->tokens);
    }
    if (real && !m->tokens) sg_fail(s, SG_E_MEMORY, "no memory for the tokens of %d pictures", g->images);
    for (int i = 0; i < g->images; i++) {
        const size_t                  mark = s->scratch.used;
        const sg_tensor               y = sg_new(s, SG_F32, v.tokens, v.width);
        const sg_request_image *const p = &r->image[i];
        if (p->whole)
            sg_clip_vision_encode(m->clip, s, y, real ? p->whole : NULL, p->whole_width, p->whole_height);
        else
            sg_clip_vision_encode(m->clip, s, y, real ? p->rgb : NULL, r->width, r->height);
        if (real) sg_download(s, m->tokens + (size_t)i * numbers, y);
        s->scratch.used = mark;
        sg_watch_tell(watch, s, i + 1, g->images);
    }
}

/* The phases of pictures, where the model takes them, of the VAE's encoder and of CLIP. */
static sg_status add_pictures(wan *m, sg_component *encoder, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_components *const    c = &m->components;
    const sg_wan_dit *const d = &m->dit[0];
    const bool              beside = d->dit.input != d->dit.channels;
    if (!beside && !m->ti2v) return SG_OK;
    c->image[SG_IMAGE_FIRST] = beside ? SG_IMAGE_NEEDED : SG_IMAGE_OPTIONAL;
    c->image[SG_IMAGE_LAST] = beside ? SG_IMAGE_OPTIONAL : SG_IMAGE_NONE;
    c->added[c->addeds++] =
        (sg_added_phase){.name = "image", .component = encoder, .of_images = true, .run = encode_image};
    if (!d->image_dim) return SG_OK;
    if (!sg_checkpoint_has(from, "image_encoder"))
        return sg_error_set(e, SG_E_FILE,
                            "%s: the denoiser sees pictures through an image encoder, and there is none: give it by "
                            "clip_vision=FILE (clip_vision_h.safetensors)",
                            sg_checkpoint_path(from));
    SG_TRY(sg_clip_vision_open(&m->clip, from, "image_encoder", false, act, e));
    c->image[SG_IMAGE_LAST] = d->image_places ? SG_IMAGE_NEEDED : SG_IMAGE_NONE;
    c->added[c->addeds++] = (sg_added_phase){
        .name = "image clip", .component = sg_clip_vision_component(m->clip), .of_images = true, .run = encode_tokens};
    return SG_OK;
}

/* ---- the model ---- */

static sg_request defaults(const wan *m)
{
    const bool two = m->components.denoisers > 1;              /* as wan_t2v_A14B.py and wan_i2v_A14B.py of Wan2.2 */
    const bool large = m->components.vae.info.scale_space > 8; /* the 5B: 24 frames a second, 720p */
    const bool image = m->components.image[SG_IMAGE_FIRST] == SG_IMAGE_NEEDED;
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
    wan *const           m = model;
    sg_components *const c = &m->components;
    SG_TRY(read_index(m, index));
    SG_TRY(sg_sampler_config_read(&c->sampler, from, SG_SAMPLERS_FLOW, e));
    SG_TRY(sg_t5_encoder_open(&c->text[0].encoder, from, "text_encoder", "tokenizer", act, e));
    c->text[0].tokens_max = SG_WAN_TEXT_LEN;
    c->texts = 1;
    SG_TRY(open_denoiser(m, &m->dit[0], from, "transformer", act, e));
    if (m->boundary > 0) SG_TRY(open_denoiser(m, &m->dit[1], from, "transformer_2", act, e));
    c->denoiser[0].from = m->boundary * c->sampler.train_steps;
    SG_TRY(sg_components_open_vae(c, &sg_wan_vae_ops, from, act, e));
    SG_TRY(add_pictures(m, c->vae.ops->encoder(c->vae.of), from, act, e));
    c->frames.step = c->vae.info.scale_time;
    c->guidance = SG_GUIDANCE_CLASSIFIER_FREE;
    c->defaults = defaults(m);
    return check_fit(m, sg_checkpoint_path(from), e);
}

static void wan_close(void *model)
{
    wan *const m = model;
    free(m->run.keys);
    free(m->image);
    free(m->tokens);
    sg_clip_vision_close(&m->clip);
    for (int i = 0; i < 2; i++) {
        sg_dit_close(&m->dit[i].dit);
        free(m->dit[i].block);
    }
}

static sg_status wan_check(const void *model, const sg_request *r, sg_error *e)
{
    const wan *const           m = model;
    const sg_components *const c = &m->components;
    const int64_t              most = m->dit[0].rope_max;
    const sg_geometry          g = sg_geometry_of(c, r);
    if (g.grid[0] > most)
        return sg_error_set(e, SG_E_ARG,
                            "frames: %lld patches are more than the %lld positions that the model knows; %lld frames "
                            "are the most",
                            (long long)g.grid[0], (long long)most,
                            (long long)sg_frame_rule_count(c->frames, most * c->patch[0]));
    for (int k = 1; k < 3; k++)
        if (g.grid[k] > most)
            return sg_error_set(e, SG_E_ARG,
                                "size: %lld patches are more than the %lld positions that the model knows; %lldx%lld "
                                "is the largest size",
                                (long long)g.grid[k], (long long)most, (long long)(r->width / g.grid[2] * most),
                                (long long)(r->height / g.grid[1] * most));
    return SG_OK;
}

static sg_status wan_prompt(const void *model, int encoder, int pass, const char *text, char **out, size_t *size,
                            sg_error *e)
{
    (void)model;
    (void)encoder;
    (void)pass;
    return sg_prompt_clean(text, strlen(text), out, size, e);
}

static void wan_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                          sg_attention_shape *shape)
{
    (void)c; /* text is attended to by itself */
    (void)pass;
    (void)layer;
    sg_dit_shape(&((const wan *)model)->dit[0].dit, g, 0, 0, shape);
}

/* ---- a render ---- */

/* What a picture gives goes in beside the latents. */
static void place_beside(const wan *m, sg_stream *s, const float *image)
{
    const int64_t   c = m->dit[0].dit.channels;
    const sg_tensor to = sg_rows(m->run.dit.input, c, m->dit[0].dit.input - c);
    if (image) sg_upload(s, to, image);
    sg_tap(s, to, "image");
}

/* Or it is the first frame, whose tokens have timestep 0 and a modulation of their own. */
static void place_held(wan *m, sg_stream *s, const float *image, const sg_geometry *g)
{
    sg_wan_run *const r = &m->run;
    const int64_t     n = r->dit.n, first = g->grid[1] * g->grid[2];
    r->held = sg_new_keep(s, SG_F32, g->latent[0], 1, g->latent[2] * g->latent[3]);
    r->t = sg_new_keep(s, SG_F32, 2);
    r->row = sg_new_keep(s, SG_I32, n);
    if (image) {
        int32_t *const row = calloc((size_t)n, sizeof *row);
        if (!row) sg_fail(s, SG_E_MEMORY, "no memory for the times of %lld tokens", (long long)n);
        for (int64_t i = 0; row && i < n; i++)
            if ((r->dit.self->order ? r->dit.self->order[i] : i) < first) row[i] = SG_WAN_ROWS;
        if (row) sg_upload(s, r->row, row);
        free(row);
        sg_upload(s, r->held, image);
    }
    sg_upload(s, r->t, ((const float[2]){0, 0}));
    sg_tap(s, r->held, "image");
}

static void wan_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    wan *const         m = model;
    const int64_t      hd = m->dit[0].dit.head_dim, side = 2 * (hd / 6), size[3] = {hd - 2 * side, side, side};
    const float *const image = s->memory->alloc ? m->image : NULL;
    free(m->run.keys);
    m->run = (sg_wan_run){0};
    m->images = g->images;
    sg_dit_run_open(&m->run.dit, &m->dit[0].dit, s, g, self);
    sg_dit_run_rotary(&m->run.dit, s, size, 10000, NULL);
    if (g->images && m->ti2v)
        place_held(m, s, image, g);
    else if (g->images)
        place_beside(m, s, image);
}

/* Cross-attention's keys and values, of each pass' text and of the pictures. */
static void wan_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    wan *const              m = model;
    sg_wan_run *const       r = &m->run;
    const sg_wan_dit *const d = &m->dit[denoiser];
    sg_keys_new(&r->keys, s, SG_WAN_KEYS * d->layers);
    if (s->status) return;
    for (int k = 0; k < c->passes; k++) sg_wan_text_keys(r, d, s, k, c->text[k][0].states, c->text[k][0].len);
    if (m->clip)
        sg_wan_picture_keys(r, d, s, s->memory->alloc ? m->tokens : NULL,
                            m->images * sg_clip_vision_describe(m->clip).tokens);
}

/* Time and tokens, for all passes of the step. */
static void begin_step(sg_wan_run *r, const sg_wan_dit *d, sg_stream *s, const sg_pass *p)
{
    const int64_t   n = r->dit.n, w = d->dit.width, times = r->held.rank ? 2 : 1;
    const sg_tensor wave = sg_new(s, SG_F32, times, d->freq_dim), hidden = sg_new(s, SG_F32, times, w);
    r->temb = sg_new(s, SG_F32, times, w);
    r->e6 = sg_new(s, SG_F32, times, SG_WAN_ROWS * w);
    r->e = sg_new(s, SG_F32, SG_WAN_ROWS * times, w);
    r->x = sg_new(s, SG_F32, n, w);
    r->copy = p->count > 1 && !s->rows_at_once ? sg_new(s, SG_F32, n, w) : (sg_tensor){0};

    if (times > 1) sg_copy(s, .y = sg_rows(r->t, 0, 1), .x = p->t);
    sg_sinusoid(s, .y = wave, .t = times > 1 ? r->t : p->t);
    sg_mlp(s, r->temb, wave, d->time, SG_ACT_SILU);
    sg_tap(s, r->temb, "dit.temb");
    sg_activate(s, .y = hidden, .x = r->temb, .act = SG_ACT_SILU);
    sg_linear(s, .y = r->e6, .x = hidden, .w = d->time_proj.w, .b = d->time_proj.b);
    sg_tap(s, r->e6, "dit.time_proj");
}

static void wan_forward(void *model, sg_stream *s, const sg_pass *p)
{
    wan *const              m = model;
    sg_wan_run *const       r = &m->run;
    const sg_wan_dit *const d = &m->dit[p->denoiser];
    const bool              first = p->index == 0, last = p->index + 1 == p->count;
    if (first && !s->status) begin_step(r, d, s, p);
    if (s->status) return;                                      /* keys and values may be missing */
    const bool      anew = first || !r->copy.rank;              /* nothing is shared where there is no room for it */
    const sg_tensor x = last || !r->copy.rank ? r->x : r->copy; /* the last pass may use up what was shared */
    if (anew) sg_dit_patch_embed(&d->dit, &r->dit, s, p, r->x, false);
    for (int i = 0; i < d->layers; i++) {
        sg_bind_fetch(d->dit.component.bind, s, i);
        sg_wan_modulate(r, s, SG_WAN_ROWS, d->block[i].table, r->e6);
        if (i > 0)
            sg_wan_self_attention(d, r, s, p, i, x);
        else if (anew)
            sg_wan_self_attention(d, r, s, p, i, r->x); /* for all passes that share it */
        if (i == 0 && !last && r->copy.rank) sg_copy(s, .y = r->copy, .x = r->x);
        sg_wan_cross_attention(d, r, s, p->text, i, x);
        sg_wan_feed_forward(d, r, s, i, x);
    }
    sg_wan_modulate(r, s, 2, d->table, r->temb);
    const size_t    mark = s->scratch.used;
    const sg_tensor y = sg_new(s, d->dit.component.act, r->dit.n, d->dit.width);
    sg_wan_norm(d, r, s, y, x, 0, sg_rows(p->non_finite, d->layers, 1), r->row);
    sg_dit_project_out(&d->dit, &r->dit, s, p, y);
    s->scratch.used = mark;
}

/* The held frame into x F32 [c, f, y, x]. */
static void wan_hold(void *model, sg_stream *s, sg_tensor x)
{
    const sg_wan_run *const r = &((const wan *)model)->run;
    if (r->held.rank)
        sg_strided_copy(s, .y = sg_reshape(x, sg_count(x)), .x = r->held, .token = sg_count(x) / x.dim[0],
                        .scatter = true);
}

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

static const sg_known_shape shapes[] = {
    {"wan-240p", 12, 128, 30, {21, 15, 26}, 0, 0},     /* 2.1 1.3B, 416x240, 81 frames */
    {"wan1.3b-480p", 12, 128, 30, {21, 30, 52}, 0, 0}, /* 832x480 */
    {"wan1.3b-720p", 12, 128, 30, {21, 45, 80}, 0, 0}, /* 1280x720 */
    {"wan14b-480p", 40, 128, 40, {21, 30, 52}, 0, 0},
    {"tiny-wan", 6, 64, 8, {9, 16, 16}, 0, 0}, /* which comes along; 256x256, 33 frames */
    {"tiny-wan-512", 6, 64, 8, {9, 32, 32}, 0, 0},
    {0},
};

static const sg_known_width widths[] = {
    {"tiny-wan", 384}, {"Wan 2.1 1.3B", 1536}, {"Wan 2.2 5B", 3072}, {"Wan 2.1 14B and Wan 2.2 A14B", 5120}, {0}};

const sg_family sg_family_wan = {
    .name = "wan",
    .files = &sg_files_wan,
    .class_names = (const char *const[]){"WanPipeline", "WanImageToVideoPipeline", "WanVideoToVideoPipeline", NULL},
    .shapes = shapes,
    .widths = widths,
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
