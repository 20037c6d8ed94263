/* cogvideox.c - the CogVideoX family, 2B, 5B and 1.5 (arXiv:2408.06072): CogVideoXPipeline,
 * CogVideoXImageToVideoPipeline and CogVideoXVideoToVideoPipeline of diffusers.
 *
 * T5 text encoder, CogVideoXTransformer3DModel, whose tensors have diffusers' names, AutoencoderKLCogVideoX. What
 * bites, beside what cogvideox_block.c says:
 *  - texts are filled up with pads, which the encoder and the denoiser see as any other token;
 *  - the decoder takes latent frames in pairs, so that an even number of them has no first frame alone: 12 make 48
 *    frames where 13 make 49;
 *  - where patches have several latent frames (1.5), latents are filled up with frames in front, which the decoder does
 *    not get;
 *  - noise is drawn frame by frame, in the dtype of the model;
 *  - the encoder gives a distribution for a picture, and the latents are drawn from it before the noise is. They stand
 *    beside the first frame of the noise, which with 1.5 may be one that the decoder does not get; beside the others
 *    are zeros;
 *  - positions of 2B are sines that are added to the video's tokens: a quarter of the channels for the frame, then as
 *    many for the column as for the row, each all sines, then all cosines;
 *  - positions of 5B are those of the grid fitted into the one of the training, so that they need not be whole; 1.5 has
 *    whole ones, and no more of them than in its training;
 *  - of image to video 5B adds learned positions to all tokens beside rotating them. They are for as many rows and
 *    columns as in the training; with another number of frames sines take their place;
 *  - the patch vector is (c, pt, ph, pw) on the way in and on the way out; a picture's channels come after the
 *    latents'. */
#include "base/text.h"
#include "cogvideox_block.h"
#include "op.h"
#include "t5.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double theta = 1e4; /* of rotary angles and of sines */
static const float  offset = 2;  /* CogVideoXImageToVideoPipeline's ofs */

typedef struct cogvideox {
    sg_components    components;
    sg_cogvideox_dit net; /* dit.patch_in [D, C, ph, pw] or [D, C pt ph pw]; dit.text_in [D, text_dim] */
    int64_t          text_len;
    int64_t sample[3]; /* that the model was trained with: frames of the clip, rows and columns of the latent */
    int64_t ratio;     /* of the clip's frames to the latent's */
    double  scale_time, scale_space; /* how many places a unit of a sine's position is */
    bool    frame_patch;             /* patches have frames at all, as in 1.5 */
    bool    rotary;                  /* or sines added to the tokens */
    bool    learned;                 /* added to the tokens beside that: for clips of the sample's size alone */
    bool    offset;                  /* an embedding that is added to that of the time */
    bool    patch_bias;

    sg_tensor         places;           /* [1, text_len + tokens of a clip of the sample's size, D]? */
    sg_linear_weights time[2];          /* [time_dim, D] [time_dim, time_dim] */
    sg_linear_weights offsets[2];       /* [time_dim, time_dim]? x 2 */
    sg_tensor         final_w, final_b; /* [D]? x 2 */
    sg_cogvideox_norm out;              /* of the output */

    float     *picture;     /* host [3 z, y, x]: mean, logarithm of the variance of its latents, a draw; NULL: none */
    float     *image;       /* host [z, f, y, x]: what goes in beside the noise; NULL: none */
    int64_t    latent[4];   /* z, f, y, x */
    sg_dit_run run;         /* of one render, as what follows */
    sg_tensor  sines, part; /* F32 [frames + 3 places, D / 4]?; I32 [4 n]?: which rows a token is made of */
    bool       learns;      /* learned positions, in place of sines */
    sg_tensor  ofs;         /* F32 [1, time_dim]? */
    /* What the passes of a step share, in s->scratch from the first pass to the end of the last. */
    sg_tensor hidden; /* F32 [1, time_dim]: silu of the time embedding */
    sg_tensor e;      /* F32 [SG_COGVIDEOX_ROWS layers + 2, D]: modulation of every block, then of the output */
    sg_tensor x;      /* F32 [text_len + n, D]: the tokens */
} cogvideox;

/* ---- opening ---- */

/* What only image to video has. */
static void read_image(cogvideox *m, sg_config *f)
{
    const sg_dit *const d = &m->net.dit;
    const int64_t dim = sg_config_has(f, "ofs_embed_dim") ? sg_config_int(f, "ofs_embed_dim", 0, 1 << 20, NULL) : 0;
    m->learned = sg_config_bool(f, "use_learned_positional_embeddings", &(bool){false});
    m->offset = dim > 0;
    if (d->input != d->channels && d->input != 2 * d->channels)
        sg_config_fail(f, "in_channels",
                       "%lld in and %lld out: for text to video they agree, for image to video twice "
                       "as many go in",
                       (long long)d->input, (long long)d->channels);
    if (m->offset && d->input == d->channels)
        sg_config_fail(f, "ofs_embed_dim", "is for image to video, where twice as many channels go in as come out");
    if (m->offset && dim != m->net.time_dim)
        sg_config_fail(f, "ofs_embed_dim", "%lld, but it is added to the time's embedding of time_embed_dim %lld",
                       (long long)dim, (long long)m->net.time_dim);
    if (m->learned && !m->rotary)
        sg_config_fail(f, "use_learned_positional_embeddings", "true needs use_rotary_positional_embeddings");
    if (m->learned && d->patch[0] > 1)
        sg_config_fail(f, "use_learned_positional_embeddings", "true does not go with patches of %lld frames",
                       (long long)d->patch[0]);
    for (int k = 1; k < 3 && m->learned; k++)
        if (m->sample[k] % d->patch[k])
            sg_config_fail(f, k == 1 ? "sample_height" : "sample_width",
                           "%lld is no multiple of patch_size %lld, as learned positions need", (long long)m->sample[k],
                           (long long)d->patch[k]);
}

static void refuse_others(sg_config *f)
{
    sg_config_only_bool(f, "flip_sin_to_cos", true);
    if (sg_config_int(f, "freq_shift", 0, 1 << 16, &(int64_t){0}) != 0)
        sg_config_fail(f, "freq_shift", "is not supported; only 0 is");
    sg_config_only(f, "activation_fn", "gelu-approximate", "gelu-approximate");
    sg_config_only(f, "timestep_activation_fn", "silu", "silu");
}

static void check_sizes(const cogvideox *m, sg_config *f)
{
    const sg_dit *const d = &m->net.dit;
    if (m->rotary && d->head_dim % 16)
        sg_config_fail(f, "attention_head_dim", "%lld is no multiple of 16, as rotary positions need",
                       (long long)d->head_dim);
    if ((!m->rotary || m->learned) && d->width % 16)
        sg_config_fail(f, "attention_head_dim", "%lld heads of %lld are no multiple of 16, as sines for positions need",
                       (long long)d->heads, (long long)d->head_dim);
    if (!m->rotary && d->patch[0] > 1)
        sg_config_fail(f, "patch_size_t", "patches of %lld frames need use_rotary_positional_embeddings",
                       (long long)d->patch[0]);
    if (m->sample[1] < d->patch[1] || m->sample[2] < d->patch[2])
        sg_config_fail(f, "patch_size", "%lld is more than the sample of %lld rows and %lld columns",
                       (long long)d->patch[1], (long long)m->sample[1], (long long)m->sample[2]);
}

/* The defaults are those of the class. */
static sg_status read_config(cogvideox *m, sg_config *f)
{
    sg_dit *const d = &m->net.dit;
    d->heads = sg_config_int(f, "num_attention_heads", 1, 1024, &(int64_t){30});
    d->head_dim = sg_config_int(f, "attention_head_dim", 1, 256, &(int64_t){64});
    d->width = d->heads * d->head_dim;
    m->net.layers = sg_config_int(f, "num_layers", 1, 4096, &(int64_t){30});
    d->input = sg_config_int(f, "in_channels", 1, 4096, &(int64_t){16});
    d->channels = sg_config_int(f, "out_channels", 1, 4096, &(int64_t){16});
    d->text_dim = sg_config_int(f, "text_embed_dim", 1, 1 << 20, &(int64_t){4096});
    m->text_len = sg_config_int(f, "max_text_seq_length", 1, 4096, &(int64_t){226});
    m->net.time_dim = sg_config_int(f, "time_embed_dim", 1, 1 << 20, &(int64_t){512});
    m->frame_patch = sg_config_has(f, "patch_size_t");
    d->patch[0] = m->frame_patch ? sg_config_int(f, "patch_size_t", 1, 16, NULL) : 1;
    d->patch[1] = d->patch[2] = sg_config_int(f, "patch_size", 1, 16, &(int64_t){2});
    m->sample[0] = sg_config_int(f, "sample_frames", 1, 1 << 20, &(int64_t){49});
    m->sample[1] = sg_config_int(f, "sample_height", 1, 1 << 16, &(int64_t){60});
    m->sample[2] = sg_config_int(f, "sample_width", 1, 1 << 16, &(int64_t){90});
    m->ratio = sg_config_int(f, "temporal_compression_ratio", 1, 1 << 16, &(int64_t){4});
    m->net.eps = sg_config_real(f, "norm_eps", 0, 1, &(double){1e-5});
    m->scale_time = sg_config_real(f, "temporal_interpolation_scale", 1e-3, 1e3, &(double){1});
    m->scale_space = sg_config_real(f, "spatial_interpolation_scale", 1e-3, 1e3, &(double){1.875});
    m->rotary = sg_config_bool(f, "use_rotary_positional_embeddings", &(bool){false});
    m->net.norm_affine = sg_config_bool(f, "norm_elementwise_affine", &(bool){true});
    m->net.attention_bias = sg_config_bool(f, "attention_bias", &(bool){true});
    m->patch_bias = m->frame_patch || sg_config_bool(f, "patch_bias", &(bool){true});
    refuse_others(f);
    SG_TRY(sg_config_status(f));
    read_image(m, f);
    check_sizes(m, f);
    return sg_config_status(f);
}

/* Tables of positions and of words, which files of the original repository have and nobody reads. Beside rotary
 * positions others would be learned ones. */
static void ignore_tables(sg_bind *b, bool rotary)
{
    static const char *const tables[] = {"freqs_sin", "freqs_cos", "position_embedding", "embed_tokens"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) sg_bind_ignore(b, tables[i]);
    if (!rotary) sg_bind_ignore(b, "pos_embedding");
}

static int64_t learned_places(const cogvideox *m)
{
    const int64_t *const p = m->net.dit.patch;
    return ((m->sample[0] - 1) / m->ratio + 1) * (m->sample[1] / p[1]) * (m->sample[2] / p[2]);
}

static void bind_weights(cogvideox *m)
{
    sg_cogvideox_dit *const n = &m->net;
    sg_dit *const           d = &n->dit;
    const sg_dtype          act = d->component.act;
    const int64_t           w = d->width, time = n->time_dim;
    sg_bind *const          b = d->component.bind;

    if (m->frame_patch)
        sg_bind_tensor(b, &d->patch_in.w, act, "patch_embed.proj.weight", w, sg_dit_patch_size(d, d->input));
    else
        sg_bind_tensor(b, &d->patch_in.w, act, "patch_embed.proj.weight", w, d->input, d->patch[1], d->patch[2]);
    if (m->patch_bias) sg_bind_tensor(b, &d->patch_in.b, SG_F32, "patch_embed.proj.bias", w);
    if (m->learned)
        sg_bind_tensor(b, &m->places, SG_F32, "patch_embed.pos_embedding", 1, m->text_len + learned_places(m), w);
    sg_want_linear(b, &d->text_in, act, "patch_embed.text_proj", w, d->text_dim);
    sg_want_linear(b, &m->time[0], SG_F32, "time_embedding.linear_1", time, w);
    sg_want_linear(b, &m->time[1], SG_F32, "time_embedding.linear_2", time, time);
    for (int k = 0; k < 2 && m->offset; k++)
        sg_want_linear(b, &m->offsets[k], SG_F32, k ? "ofs_embedding.linear_2" : "ofs_embedding.linear_1", time, time);
    for (int i = 0; i < n->layers; i++) sg_cogvideox_bind_block(n, i);
    sg_bind_block(b, -1);
    ignore_tables(b, m->rotary);
    sg_bind_prefix(b, "%s", "");
    sg_cogvideox_bind_affine(n, &m->final_w, &m->final_b, "norm_final", w, false);
    sg_cogvideox_bind_norm(n, &m->out, "norm_out", 2);
    sg_want_linear(b, &d->proj_out, act, "proj_out", sg_dit_patch_size(d, d->channels), w);
}

static sg_status open_denoiser(cogvideox *m, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_cogvideox_dit *const n = &m->net;
    sg_dit *const           d = &n->dit;
    SG_TRY(sg_dit_open(d, from, "transformer", "CogVideoXTransformer3DModel", act, e));
    SG_TRY(read_config(m, d->config));
    n->block = calloc((size_t)n->layers, sizeof *n->block);
    if (!n->block) return sg_error_memory(e, d->component.dir);
    bind_weights(m);
    return sg_dit_check(d, e, "%lld layer%s, %lld heads x %lld, %s, %lld latent channels%s", (long long)n->layers,
                        sg_plural(n->layers), (long long)d->heads, (long long)d->head_dim,
                        m->learned  ? "rotary and learned positions"
                        : m->rotary ? "rotary positions"
                                    : "sines for positions",
                        (long long)d->channels, d->input != d->channels ? ", a picture beside them" : "");
}

/* ---- pictures ---- */

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

/* As DiagonalGaussianDistribution.sample, into the first frame. */
static void cogvideox_draw(void *model, sg_stream *s, sg_rng *rng)
{
    cogvideox *const m = model;
    const int64_t    plane = m->latent[2] * m->latent[3], n = m->latent[0] * plane;
    const double     scale = sg_cogvideox_vae_picture_scale(&m->components.vae);
    float *const     noise = m->picture + 2 * n;
    sg_rng_randn_as(rng, m->components.noise_dtype, noise, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)m->picture[i] + exp((double)m->picture[n + i] / 2) * (double)noise[i];
        m->image[i / plane * m->latent[1] * plane + i % plane] = (float)(scale * x);
    }
    const sg_tensor to = sg_rows(m->run.input, m->net.dit.channels, m->net.dit.channels);
    sg_upload(s, to, m->image);
    sg_tap(s, to, "image");
}

/* ---- the model ---- */

static int64_t at_most(int64_t v, int64_t most) { return v < most ? v : most; }

/* The size of the training; but 1.5 was trained with many, up to its sample's, and its card has one. */
static sg_request defaults(const cogvideox *m)
{
    const sg_components *const c = &m->components;
    const int64_t              scale = c->vae.info.scale_space, p = m->net.dit.patch[1];
    const int64_t              most[2] = {m->frame_patch ? 1360 : INT32_MAX, m->frame_patch ? 768 : INT32_MAX};
    return (sg_request){.width = (int)at_most(m->sample[2] / p * p * scale, most[0]),
                        .height = (int)at_most(m->sample[1] / p * p * scale, most[1]),
                        .frames = (int)sg_frame_rule_count(c->frames, (m->sample[0] - 1) / c->frames.step + 1),
                        .fps = m->frame_patch ? 16 : 8,
                        .steps = 50,
                        .cfg_scale = 6};
}

static sg_status cogvideox_open(void *model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    cogvideox *const     m = model;
    sg_components *const c = &m->components;
    sg_dit *const        d = &m->net.dit;
    (void)index;
    SG_TRY(sg_sampler_config_read(&c->sampler, from, SG_SAMPLERS_BETAS, e));
    SG_TRY(sg_t5_encoder_open(&c->text[0].encoder, from, "text_encoder", "tokenizer", act, e));
    c->texts = 1;
    SG_TRY(open_denoiser(m, from, act, e));
    c->text[0].tokens_max = (int)m->text_len;
    c->text[0].padded = true;
    sg_components_add_dit(c, d, sg_files_cogvideox.names, m->net.layers);
    SG_TRY(sg_components_open_vae(c, &sg_cogvideox_vae_ops, from, act, e));
    if (d->input != d->channels) {
        c->image[SG_IMAGE_FIRST] = SG_IMAGE_NEEDED;
        c->added[c->addeds++] = (sg_added_phase){
            .name = "image", .component = c->vae.ops->encoder(c->vae.of), .of_images = true, .run = encode_picture};
    }
    c->guidance = SG_GUIDANCE_CLASSIFIER_FREE;
    c->noise_by_frame = true;
    c->noise_dtype = act;
    c->frames = (sg_frame_rule){.step = c->vae.info.scale_time, .pairs = true};
    c->defaults = defaults(m);

    const sg_fit fit[] = {
        {sg_text_width(c, 0), "the width of text_encoder", d->text_dim, "transformer/config.json: text_embed_dim"},
        {c->vae.info.z, "vae/config.json: latent_channels", d->channels, "transformer/config.json: out_channels"},
        {0}};
    return sg_check_fit(fit, sg_checkpoint_path(from), e);
}

static void cogvideox_close(void *model)
{
    cogvideox *const m = model;
    free(m->picture);
    free(m->image);
    sg_dit_close(&m->net.dit);
    free(m->net.block);
}

static sg_status cogvideox_check(const void *model, const sg_request *r, sg_error *e)
{
    const cogvideox *const m = model;
    const int              step = m->components.size_multiple;
    const int64_t *const   p = m->net.dit.patch, most[2] = {m->sample[1] / p[1], m->sample[2] / p[2]};
    const sg_geometry      g = sg_geometry_of(&m->components, r);
    if (m->learned && (g.grid[1] != most[0] || g.grid[2] != most[1]))
        return sg_error_set(e, SG_E_ARG, "size: %dx%d: this model knows the positions of %lldx%lld alone", r->width,
                            r->height, (long long)most[1] * step, (long long)most[0] * step);
    if (!m->rotary || !m->frame_patch || (g.grid[1] <= most[0] && g.grid[2] <= most[1])) return SG_OK;
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
    (void)layer;
    sg_dit_shape(&((const cogvideox *)model)->net.dit, g, c->text[pass][0].len, 0, shape);
}

/* ---- positions ---- */

/* n places from first to last, in F32 as torch.linspace has them. */
static void fill_places(double *place, int64_t n, float first, float last)
{
    const float step = n > 1 ? (last - first) / (float)(n - 1) : 0;
    for (int64_t i = 0; i < n; i++)
        place[i] = (double)(i < n / 2 || n == 1 ? first + step * (float)i : last - step * (float)(n - 1 - i));
}

/* Places of the rows and columns of a grid [h, w] that is fitted into the middle of the one of the training. */
static void fit_places(double *rows, double *columns, const int64_t grid[2], const int64_t trained[2])
{
    const double h = (double)grid[0], w = (double)grid[1], th = (double)trained[0], tw = (double)trained[1];
    const bool   high = h / w > th / tw;
    const double rh = high ? th : rint(tw / w * h), rw = high ? rint(th / h * w) : tw;
    const double top = rint((th - rh) / 2), left = rint((tw - rw) / 2);
    fill_places(rows, grid[0], (float)top, (float)((top + rh) * (h - 1) / h));
    fill_places(columns, grid[1], (float)left, (float)((left + rw) * (w - 1) / w));
}

static void place_rotary(cogvideox *m, sg_stream *s)
{
    const sg_dit *const  d = &m->net.dit;
    const int64_t *const g = m->run.grid, trained[2] = {m->sample[1] / d->patch[1], m->sample[2] / d->patch[2]};
    const int64_t        side = d->head_dim / 8 * 3, size[3] = {d->head_dim / 4, side, side};
    double *const        place = m->frame_patch ? NULL : calloc((size_t)(g[1] + g[2]), sizeof *place);
    if (place) fit_places(place, place + g[1], g + 1, trained);
    if (!place && !m->frame_patch) sg_fail(s, SG_E_MEMORY, "no memory for the places of %lld rows", (long long)g[1]);
    sg_dit_run_rotary(&m->run, s, size, theta, (const double *const[]){NULL, place, place ? place + g[1] : NULL});
    free(place);
}

/* d sines and cosines of a place, half each. */
static void fill_sines(float *y, int64_t d, double place)
{
    for (int64_t k = 0; k < d / 2; k++) {
        const double angle = place * (1 / pow(theta, (double)k / ((double)d / 2)));
        y[k] = (float)sin(angle);
        y[d / 2 + k] = (float)cos(angle);
    }
}

/* Rows of a quarter of the width: one for each frame, three for each place in it. */
static void place_sines(cogvideox *m, sg_stream *s)
{
    const int64_t        quarter = m->net.dit.width / 4, n = m->run.n;
    const int64_t *const g = m->run.grid, rows = g[0] + 3 * g[1] * g[2];
    const int32_t *const order = m->run.self->order;
    m->sines = sg_new_keep(s, SG_F32, rows, quarter);
    m->part = sg_new_keep(s, SG_I32, 4 * n);
    if (!s->memory->alloc) return; /* a plan needs no sines */
    float *const   sines = calloc((size_t)(rows * quarter), sizeof *sines);
    int32_t *const part = calloc((size_t)(4 * n), sizeof *part);
    if (sines && part) {
        for (int64_t f = 0; f < g[0]; f++)
            fill_sines(sines + f * quarter, quarter, (double)((float)f / (float)m->scale_time));
        for (int64_t i = 0; i < g[1] * g[2]; i++) {
            float *const to = sines + (g[0] + 3 * i) * quarter;
            fill_sines(to, quarter / 2 * 3, (double)((float)(i % g[2]) / (float)m->scale_space));
            fill_sines(to + quarter / 2 * 3, quarter / 2 * 3, (double)((float)(i / g[2]) / (float)m->scale_space));
        }
        for (int64_t i = 0; i < n; i++) {
            const int64_t token = order ? order[i] : i, first = g[0] + 3 * (token % (g[1] * g[2]));
            part[4 * i] = (int32_t)(token / (g[1] * g[2]));
            for (int k = 0; k < 3; k++) part[4 * i + 1 + k] = (int32_t)(first + k);
        }
        sg_upload(s, m->sines, sines);
        sg_upload(s, m->part, part);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for the positions of %lld tokens", (long long)n);
    }
    free(sines);
    free(part);
}

/* ---- a render ---- */

static void cogvideox_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    cogvideox *const m = model;
    sg_dit_run_open(&m->run, &m->net.dit, s, g, self);
    m->sines = m->part = m->ofs = (sg_tensor){0};
    m->learns = m->learned && (g->grid[0] - 1) * m->ratio + 1 == m->sample[0];
    if (m->rotary) place_rotary(m, s);
    if (!m->rotary || (m->learned && !m->learns)) place_sines(m, s);
}

/* Learned positions of count tokens, in F32 [count, D]. */
static sg_tensor places(const cogvideox *m, int64_t first, int64_t count)
{
    return sg_rows(sg_reshape(m->places, m->places.dim[1], m->places.dim[2]), first, count);
}

static void embed_offset(cogvideox *m, sg_stream *s)
{
    m->ofs = sg_new_keep(s, SG_F32, 1, m->net.time_dim);
    const size_t    mark = s->scratch.used;
    const sg_tensor t = sg_new(s, SG_F32, 1), wave = sg_new(s, SG_F32, 1, m->net.time_dim);
    sg_upload(s, t, &offset);
    sg_sinusoid(s, .y = wave, .t = t);
    sg_mlp(s, m->ofs, wave, m->offsets, SG_ACT_SILU);
    sg_tap(s, m->ofs, "dit.offset");
    s->scratch.used = mark;
}

static void cogvideox_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    cogvideox *const m = model;
    (void)denoiser;
    if (m->offset) embed_offset(m, s);
    for (int k = 0; k < c->passes; k++) {
        const sg_text_states *const t = &c->text[k][0];
        sg_dit_run_text(&m->run, &m->net.dit, s, k, t->states, t->len);
        if (m->learns) sg_gate_add(s, .x = m->run.text[k], .r = places(m, 0, t->len));
        sg_tap(s, m->run.text[k], "dit.text");
    }
}

/* y [rows, D] = what the time makes of a norm's linear. */
static void modulate(const cogvideox *m, sg_stream *s, sg_tensor y, const sg_linear_weights *l)
{
    sg_linear(s, .y = sg_reshape(y, 1, sg_count(y)), .x = m->hidden, .w = l->w, .b = l->b);
}

/* What the time makes, and room for the tokens, for all passes of the step. */
static void begin_step(cogvideox *m, sg_stream *s, const sg_pass *p)
{
    const int64_t w = m->net.dit.width, time = m->net.time_dim, rows = SG_COGVIDEOX_ROWS * m->net.layers;
    m->hidden = sg_new(s, SG_F32, 1, time);
    m->e = sg_new(s, SG_F32, rows + 2, w);
    m->x = sg_new(s, SG_F32, m->text_len + m->run.n, w);
    const size_t    mark = s->scratch.used;
    const sg_tensor wave = sg_new(s, SG_F32, 1, w), temb = sg_new(s, SG_F32, 1, time);
    sg_sinusoid(s, .y = wave, .t = p->t);
    sg_mlp(s, temb, wave, m->time, SG_ACT_SILU);
    sg_tap(s, temb, "dit.temb");
    if (m->ofs.rank) sg_gate_add(s, .x = temb, .r = m->ofs);
    sg_activate(s, .y = m->hidden, .x = temb, .act = SG_ACT_SILU);
    modulate(m, s, sg_rows(m->e, rows, 2), &m->out.linear);
    s->scratch.used = mark;
}

/* x [n, D] = the video's tokens, added to sines or learned positions where the model has them. */
static void embed(const cogvideox *m, sg_stream *s, const sg_pass *p, sg_tensor x)
{
    const sg_dit_run *const r = &m->run;
    const size_t            mark = s->scratch.used;
    if (m->learns) sg_copy(s, .y = x, .x = sg_rows_of(s, places(m, m->text_len, r->n), r->order));
    if (m->sines.rank) sg_embed(s, .y = sg_reshape(x, 4 * r->n, x.dim[1] / 4), .w = m->sines, .ids = m->part);
    sg_dit_patch_embed(&m->net.dit, r, s, p, x, m->learns || m->sines.rank);
    s->scratch.used = mark;
}

static void cogvideox_forward(void *model, sg_stream *s, const sg_pass *p)
{
    cogvideox *const              m = model;
    const sg_cogvideox_dit *const n = &m->net;
    const sg_dit *const           d = &n->dit;
    const sg_dit_run *const       r = &m->run;
    if (p->index == 0) begin_step(m, s, p);
    if (s->status) return; /* modulation may be missing */
    const sg_tensor video = sg_rows(m->x, m->text_len, r->n);
    sg_copy(s, .y = sg_rows(m->x, 0, m->text_len), .x = r->text[p->text]);
    embed(m, s, p, video);
    for (int i = 0; i < n->layers; i++) {
        const sg_tensor e = sg_rows(m->e, SG_COGVIDEOX_ROWS * i, SG_COGVIDEOX_ROWS);
        sg_bind_fetch(d->component.bind, s, i);
        for (int k = 0; k < 2 && p->index == 0; k++) modulate(m, s, sg_rows(e, 6 * k, 6), &n->block[i].norm[k].linear);
        sg_cogvideox_block_run(n, r, s, p, i, m->x, e);
    }
    const size_t        mark = s->scratch.used;
    const sg_modulation e = sg_modulation_at(sg_rows(m->e, SG_COGVIDEOX_ROWS * n->layers, 2), 0);
    const sg_tensor     final = sg_new(s, SG_F32, r->n, d->width), y = sg_new(s, d->component.act, r->n, d->width);
    sg_norm(s, .y = final, .non_finite = sg_rows(p->non_finite, n->layers, 1), .x = video, .w = m->final_w,
            .b = m->final_b, .kind = SG_NORM_LAYER, .eps = (float)n->eps);
    sg_cogvideox_norm_rows(n, s, y, final, &m->out, &e, (sg_tensor){0});
    sg_dit_project_out(d, r, s, p, y);
    s->scratch.used = mark;
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
