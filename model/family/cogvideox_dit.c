/* cogvideox_dit.c - the denoiser of CogVideoX 2B, 5B and 1.5 (arXiv:2408.06072), of text and of an image to video.
 *
 * Tensor names are those of diffusers' CogVideoXTransformer3DModel. What bites:
 *  - text and video are one sequence, the text first, and share every weight but the modulation: six rows of a norm's linear
 *    are shift, scale, gate of the video, then of the text;
 *  - the norms have weights, which come before the modulation;
 *  - q and k are normalised by head, mean and all, with an eps of their own, 1e-6; only the video's rows are rotated;
 *  - positions of 2B are sines that are added to the video's tokens: a quarter of the channels for the frame, then as many
 *    for the column as for the row, each all sines, then all cosines;
 *  - positions of 5B are those of the grid fitted into the one of the training, so that they need not be whole; 1.5 has
 *    whole ones, and no more of them than in its training;
 *  - of image to video 5B adds learned positions to all tokens beside rotating them. They are for as many rows and columns as in
 *    the training; with another number of frames sines take their place;
 *  - the patch vector is (c, pt, ph, pw) on the way in and on the way out; a picture's channels come after the latents'. */
#include "cogvideox_dit.h"
#include "base/text.h"
#include "op.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 12 };              /* of modulation in a block: shift, scale, gate of the video, the text; of two norms */
static const double theta = 1e4; /* of rotary angles and of sines */
static const float  offset = 2;  /* CogVideoXImageToVideoPipeline's ofs */

/* One of the two norms of a block, with what modulates it. */
typedef struct cog_norm {
    sg_linear_weights linear; /* [6 D, time_dim]; of the output [2 D, time_dim]: shift, scale */
    sg_tensor         w, b;   /* [D]? x 2 */
} cog_norm;

typedef struct cog_block {
    cog_norm                norm[2]; /* before attention, before the feed-forward */
    sg_attention_weights    attn;
    sg_tensor               norm_q_b, norm_k_b; /* [d] */
    sg_feed_forward_weights ff;
} cog_block;

struct sg_cogvideox_dit {
    sg_component        component;
    sg_cogvideox_config config;
    sg_tensor           patch_w, patch_b; /* [D, C, ph, pw] or [D, C pt ph pw]; [D]? */
    sg_tensor           places;           /* [1, text_len + tokens of a clip of the sample's size, D]? */
    sg_linear_weights   text, time[2];    /* [D, text_dim]; [time_dim, D] [time_dim, time_dim] */
    sg_linear_weights   offset[2];        /* [time_dim, time_dim]? x 2 */
    sg_tensor           final_w, final_b; /* [D]? x 2 */
    cog_norm            out;              /* of the output */
    sg_linear_weights   proj_out;         /* [C pt ph pw, D] */
    cog_block          *block;            /* [layers] */
};

sg_component              *sg_cogvideox_dit_component(sg_cogvideox_dit *d) { return &d->component; }
const sg_cogvideox_config *sg_cogvideox_dit_config(const sg_cogvideox_dit *d) { return &d->config; }

/* ---- opening ---- */

/* Numbers of a patch of so many channels. */
static int64_t patch_size(const sg_cogvideox_config *c, int64_t channels)
{
    return channels * c->patch[0] * c->patch[1] * c->patch[2];
}

/* What only image to video has. */
static void read_image(sg_cogvideox_config *c, sg_config *f)
{
    const int64_t dim = sg_config_has(f, "ofs_embed_dim") ? sg_config_int(f, "ofs_embed_dim", 0, 1 << 20, NULL) : 0;
    c->learned = sg_config_bool(f, "use_learned_positional_embeddings", &(bool){false});
    c->offset = dim > 0;
    if (c->input != c->channels && c->input != 2 * c->channels)
        sg_config_fail(f, "in_channels",
                       "%lld in and %lld out: for text to video they agree, for image to video twice "
                       "as many go in",
                       (long long)c->input, (long long)c->channels);
    if (c->offset && c->input == c->channels)
        sg_config_fail(f, "ofs_embed_dim", "is for image to video, where twice as many channels go in as come out");
    if (c->offset && dim != c->time_dim)
        sg_config_fail(f, "ofs_embed_dim", "%lld, but it is added to the time's embedding of time_embed_dim %lld",
                       (long long)dim, (long long)c->time_dim);
    if (c->learned && !c->rotary)
        sg_config_fail(f, "use_learned_positional_embeddings", "true needs use_rotary_positional_embeddings");
    if (c->learned && c->patch[0] > 1)
        sg_config_fail(f, "use_learned_positional_embeddings", "true does not go with patches of %lld frames",
                       (long long)c->patch[0]);
    for (int k = 1; k < 3 && c->learned; k++)
        if (c->sample[k] % c->patch[k])
            sg_config_fail(f, k == 1 ? "sample_height" : "sample_width",
                           "%lld is no multiple of patch_size %lld, as learned positions need", (long long)c->sample[k],
                           (long long)c->patch[k]);
}

static void refuse_others(sg_config *f)
{
    if (!sg_config_bool(f, "flip_sin_to_cos", &(bool){true}))
        sg_config_fail(f, "flip_sin_to_cos", "false is not supported; only true is");
    if (sg_config_int(f, "freq_shift", 0, 1 << 16, &(int64_t){0}) != 0)
        sg_config_fail(f, "freq_shift", "is not supported; only 0 is");
    sg_config_only(f, "activation_fn", "gelu-approximate", "gelu-approximate");
    sg_config_only(f, "timestep_activation_fn", "silu", "silu");
}

static void check_sizes(const sg_cogvideox_config *c, sg_config *f)
{
    if (c->rotary && c->head_dim % 16)
        sg_config_fail(f, "attention_head_dim", "%lld is no multiple of 16, as rotary positions need",
                       (long long)c->head_dim);
    if ((!c->rotary || c->learned) && c->width % 16)
        sg_config_fail(f, "attention_head_dim", "%lld heads of %lld are no multiple of 16, as sines for positions need",
                       (long long)c->heads, (long long)c->head_dim);
    if (!c->rotary && c->patch[0] > 1)
        sg_config_fail(f, "patch_size_t", "patches of %lld frames need use_rotary_positional_embeddings",
                       (long long)c->patch[0]);
    if (c->sample[1] < c->patch[1] || c->sample[2] < c->patch[2])
        sg_config_fail(f, "patch_size", "%lld is more than the sample of %lld rows and %lld columns",
                       (long long)c->patch[1], (long long)c->sample[1], (long long)c->sample[2]);
}

/* The defaults are those of the class. */
static sg_status read_config(sg_cogvideox_config *c, sg_config *f)
{
    c->heads = sg_config_int(f, "num_attention_heads", 1, 1024, &(int64_t){30});
    c->head_dim = sg_config_int(f, "attention_head_dim", 1, 256, &(int64_t){64});
    c->width = c->heads * c->head_dim;
    c->layers = sg_config_int(f, "num_layers", 1, 4096, &(int64_t){30});
    c->input = sg_config_int(f, "in_channels", 1, 4096, &(int64_t){16});
    c->channels = sg_config_int(f, "out_channels", 1, 4096, &(int64_t){16});
    c->text_dim = sg_config_int(f, "text_embed_dim", 1, 1 << 20, &(int64_t){4096});
    c->text_len = sg_config_int(f, "max_text_seq_length", 1, 4096, &(int64_t){226});
    c->time_dim = sg_config_int(f, "time_embed_dim", 1, 1 << 20, &(int64_t){512});
    c->frame_patch = sg_config_has(f, "patch_size_t");
    c->patch[0] = c->frame_patch ? sg_config_int(f, "patch_size_t", 1, 16, NULL) : 1;
    c->patch[1] = c->patch[2] = sg_config_int(f, "patch_size", 1, 16, &(int64_t){2});
    c->sample[0] = sg_config_int(f, "sample_frames", 1, 1 << 20, &(int64_t){49});
    c->sample[1] = sg_config_int(f, "sample_height", 1, 1 << 16, &(int64_t){60});
    c->sample[2] = sg_config_int(f, "sample_width", 1, 1 << 16, &(int64_t){90});
    c->ratio = sg_config_int(f, "temporal_compression_ratio", 1, 1 << 16, &(int64_t){4});
    c->eps = sg_config_real(f, "norm_eps", 0, 1, &(double){1e-5});
    c->scale_time = sg_config_real(f, "temporal_interpolation_scale", 1e-3, 1e3, &(double){1});
    c->scale_space = sg_config_real(f, "spatial_interpolation_scale", 1e-3, 1e3, &(double){1.875});
    c->rotary = sg_config_bool(f, "use_rotary_positional_embeddings", &(bool){false});
    c->norm_affine = sg_config_bool(f, "norm_elementwise_affine", &(bool){true});
    c->attention_bias = sg_config_bool(f, "attention_bias", &(bool){true});
    c->patch_bias = c->frame_patch || sg_config_bool(f, "patch_bias", &(bool){true});
    refuse_others(f);
    SG_TRY(sg_config_status(f));
    read_image(c, f);
    check_sizes(c, f);
    return sg_config_status(f);
}

static void want_norm(sg_bind *b, sg_tensor *w, sg_tensor *bias, const char *name, bool affine, int64_t width)
{
    char full[104];
    if (!affine) return;
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(b, w, SG_F32, full, width);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, bias, SG_F32, full, width);
}

/* name.linear, of so many rows of modulation, and name.norm. */
static void want_modulated(sg_cogvideox_dit *d, cog_norm *n, const char *name, int64_t rows)
{
    const sg_cogvideox_config *const c = &d->config;
    char                             full[96];
    snprintf(full, sizeof full, "%s.linear", name);
    sg_want_linear(d->component.bind, &n->linear, d->component.act, full, rows * c->width, c->time_dim);
    snprintf(full, sizeof full, "%s.norm", name);
    want_norm(d->component.bind, &n->w, &n->b, full, c->norm_affine, c->width);
}

static void want_projection(const sg_cogvideox_dit *d, sg_linear_weights *l, const char *name)
{
    const int64_t w = d->config.width;
    char          full[96];
    snprintf(full, sizeof full, "%s.weight", name);
    if (d->config.attention_bias)
        sg_want_linear(d->component.bind, l, d->component.act, name, w, w);
    else
        sg_bind_tensor(d->component.bind, &l->w, d->component.act, full, w, w);
}

/* Tables of positions and of words, which files of the original repository have and nobody reads. Beside rotary positions
 * others would be learned ones. */
static void ignore_tables(sg_bind *b, bool rotary)
{
    static const char *const tables[] = {"freqs_sin", "freqs_cos", "position_embedding", "embed_tokens"};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) sg_bind_ignore(b, tables[i]);
    if (!rotary) sg_bind_ignore(b, "pos_embedding");
}

static void bind_block(sg_cogvideox_dit *d, int i)
{
    const sg_cogvideox_config *const c = &d->config;
    const sg_dtype                   act = d->component.act;
    sg_bind *const                   b = d->component.bind;
    cog_block *const                 k = &d->block[i];
    sg_bind_block(b, i);
    sg_bind_prefix(b, "transformer_blocks.%d.", i);
    want_modulated(d, &k->norm[0], "norm1", 6);
    want_projection(d, &k->attn.q, "attn1.to_q");
    want_projection(d, &k->attn.k, "attn1.to_k");
    want_projection(d, &k->attn.v, "attn1.to_v");
    sg_want_linear(b, &k->attn.out, act, "attn1.to_out.0", c->width, c->width);
    want_norm(b, &k->attn.norm_q, &k->norm_q_b, "attn1.norm_q", true, c->head_dim);
    want_norm(b, &k->attn.norm_k, &k->norm_k_b, "attn1.norm_k", true, c->head_dim);
    want_modulated(d, &k->norm[1], "norm2", 6);
    sg_want_linear(b, &k->ff.up, act, "ff.net.0.proj", 4 * c->width, c->width);
    sg_want_linear(b, &k->ff.down, act, "ff.net.2", c->width, 4 * c->width);
}

static int64_t learned_places(const sg_cogvideox_config *c)
{
    return ((c->sample[0] - 1) / c->ratio + 1) * (c->sample[1] / c->patch[1]) * (c->sample[2] / c->patch[2]);
}

static void bind_weights(sg_cogvideox_dit *d)
{
    const sg_cogvideox_config *const c = &d->config;
    const sg_dtype                   act = d->component.act;
    const int64_t                    w = c->width;
    sg_bind *const                   b = d->component.bind;

    if (c->frame_patch)
        sg_bind_tensor(b, &d->patch_w, act, "patch_embed.proj.weight", w, patch_size(c, c->input));
    else
        sg_bind_tensor(b, &d->patch_w, act, "patch_embed.proj.weight", w, c->input, c->patch[1], c->patch[2]);
    if (c->patch_bias) sg_bind_tensor(b, &d->patch_b, SG_F32, "patch_embed.proj.bias", w);
    if (c->learned)
        sg_bind_tensor(b, &d->places, SG_F32, "patch_embed.pos_embedding", 1, c->text_len + learned_places(c), w);
    sg_want_linear(b, &d->text, act, "patch_embed.text_proj", w, c->text_dim);
    sg_want_linear(b, &d->time[0], SG_F32, "time_embedding.linear_1", c->time_dim, w);
    sg_want_linear(b, &d->time[1], SG_F32, "time_embedding.linear_2", c->time_dim, c->time_dim);
    for (int k = 0; k < 2 && c->offset; k++)
        sg_want_linear(b, &d->offset[k], SG_F32, k ? "ofs_embedding.linear_2" : "ofs_embedding.linear_1", c->time_dim,
                       c->time_dim);
    for (int i = 0; i < c->layers; i++) bind_block(d, i);
    sg_bind_block(b, -1);
    ignore_tables(b, c->rotary);
    sg_bind_prefix(b, "%s", "");
    want_norm(b, &d->final_w, &d->final_b, "norm_final", c->norm_affine, w);
    want_modulated(d, &d->out, "norm_out", 2);
    sg_want_linear(b, &d->proj_out, act, "proj_out", patch_size(c, c->channels), w);
}

sg_status sg_cogvideox_dit_open(sg_cogvideox_dit **out, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_cogvideox_dit *d = calloc(1, sizeof *d);
    sg_config        *f = NULL;
    if (!d) return sg_error_set(e, SG_E_MEMORY, "%s/transformer: out of memory", sg_checkpoint_path(from));
    sg_status st = sg_component_open(&d->component, from, "transformer", "CogVideoXTransformer3DModel", act, &f, e);
    if (!st) st = read_config(&d->config, f);
    if (!st && !(d->block = calloc((size_t)d->config.layers, sizeof *d->block)))
        st = sg_error_set(e, SG_E_MEMORY, "%s/transformer: out of memory", sg_checkpoint_path(from));
    if (!st) {
        const sg_cogvideox_config *const c = &d->config;
        snprintf(d->component.summary, sizeof d->component.summary,
                 "%lld layer%s, %lld heads x %lld, %s, %lld latent channels%s", (long long)c->layers,
                 sg_plural(c->layers), (long long)c->heads, (long long)c->head_dim,
                 c->learned  ? "rotary and learned positions"
                 : c->rotary ? "rotary positions"
                             : "sines for positions",
                 (long long)c->channels, c->input != c->channels ? ", a picture beside them" : "");
        bind_weights(d);
        st = sg_bind_check(d->component.bind, e);
    }
    sg_config_close(&f);
    if (st) sg_cogvideox_dit_close(&d);
    *out = d;
    return st;
}

void sg_cogvideox_dit_close(sg_cogvideox_dit **d)
{
    if (!*d) return;
    sg_component_close(&(*d)->component);
    free((*d)->block);
    free(*d);
    *d = NULL;
}

/* ---- positions ---- */

static int64_t tokens(const sg_cogvideox_run *run) { return run->grid[0] * run->grid[1] * run->grid[2]; }

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

static void rotary_tables(sg_cogvideox_run *run, const sg_cogvideox_config *c, sg_stream *s, const int32_t *order)
{
    const int64_t side = c->head_dim / 8 * 3, *const g = run->grid;
    sg_rotary_axis axis[3] = {
        {.size = c->head_dim / 4, .theta = theta}, {.size = side, .theta = theta}, {.size = side, .theta = theta}};
    double *const place = c->frame_patch ? NULL : calloc((size_t)(g[1] + g[2]), sizeof *place);
    if (place) {
        fit_places(place, place + g[1], g + 1, (int64_t[]){c->sample[1] / c->patch[1], c->sample[2] / c->patch[2]});
        axis[1].place = place;
        axis[2].place = place + g[1];
    }
    if (!place && !c->frame_patch) sg_fail(s, SG_E_MEMORY, "no memory for the places of %lld rows", (long long)g[1]);
    run->rotary = sg_rotary_place(s, g, axis, 3, order);
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
static void sine_tables(sg_cogvideox_run *run, const sg_cogvideox_config *c, sg_stream *s, const int32_t *order)
{
    const int64_t quarter = c->width / 4, n = tokens(run), *const g = run->grid, rows = g[0] + 3 * g[1] * g[2];
    run->sines = sg_new_keep(s, SG_F32, rows, quarter);
    run->part = sg_new_keep(s, SG_I32, 4 * n);
    if (!s->memory->alloc) return; /* a plan needs no sines */
    float *const   sines = calloc((size_t)(rows * quarter), sizeof *sines);
    int32_t *const part = calloc((size_t)(4 * n), sizeof *part);
    if (sines && part) {
        for (int64_t f = 0; f < g[0]; f++)
            fill_sines(sines + f * quarter, quarter, (double)((float)f / (float)c->scale_time));
        for (int64_t i = 0; i < g[1] * g[2]; i++) {
            float *const to = sines + (g[0] + 3 * i) * quarter;
            fill_sines(to, quarter / 2 * 3, (double)((float)(i % g[2]) / (float)c->scale_space));
            fill_sines(to + quarter / 2 * 3, quarter / 2 * 3, (double)((float)(i / g[2]) / (float)c->scale_space));
        }
        for (int64_t i = 0; i < n; i++) {
            const int64_t token = order ? order[i] : i, first = g[0] + 3 * (token % (g[1] * g[2]));
            part[4 * i] = (int32_t)(token / (g[1] * g[2]));
            for (int k = 0; k < 3; k++) part[4 * i + 1 + k] = (int32_t)(first + k);
        }
        sg_upload(s, run->sines, sines);
        sg_upload(s, run->part, part);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for the positions of %lld tokens", (long long)n);
    }
    free(sines);
    free(part);
}

void sg_cogvideox_run_tables(sg_cogvideox_run *run, const sg_cogvideox_dit *d, sg_stream *s, const sg_geometry *g,
                             const sg_self_attention *self)
{
    const sg_cogvideox_config *const c = &d->config;
    const int64_t *const grid = g->grid, *const latent = g->latent;
    *run = (sg_cogvideox_run){.grid = {grid[0], grid[1], grid[2]}, .self = self};
    run->tokens = sg_token_order_place(s, self, tokens(run));
    run->learned = c->learned && (grid[0] - 1) * c->ratio + 1 == c->sample[0];
    if (c->rotary) rotary_tables(run, c, s, self->order);
    if (!c->rotary || (c->learned && !run->learned)) sine_tables(run, c, s, self->order);
    if (c->input != c->channels) run->input = sg_new_keep(s, SG_F32, c->input, latent[1], latent[2], latent[3]);
}

/* Learned positions of count tokens, in F32 [count, D]. */
static sg_tensor places(const sg_cogvideox_dit *d, int64_t first, int64_t count)
{
    return sg_rows(sg_reshape(d->places, d->places.dim[1], d->places.dim[2]), first, count);
}

void sg_cogvideox_run_image(const sg_cogvideox_run *run, const sg_cogvideox_dit *d, sg_stream *s, const float *image)
{
    const sg_cogvideox_config *const c = &d->config;
    const sg_tensor                  to = sg_rows(run->input, c->channels, c->input - c->channels);
    sg_upload(s, to, image);
    sg_tap(s, to, "image");
}

/* ---- text ---- */

static void embed_offset(sg_cogvideox_run *run, const sg_cogvideox_dit *d, sg_stream *s)
{
    run->offset = sg_new_keep(s, SG_F32, 1, d->config.time_dim);
    const size_t    mark = s->scratch.used;
    const sg_tensor t = sg_new(s, SG_F32, 1), wave = sg_new(s, SG_F32, 1, d->config.time_dim);
    sg_upload(s, t, &offset);
    sg_sinusoid(s, .y = wave, .t = t);
    sg_mlp(s, run->offset, wave, d->offset, SG_ACT_SILU);
    sg_tap(s, run->offset, "dit.offset");
    s->scratch.used = mark;
}

void sg_cogvideox_run_text(sg_cogvideox_run *run, const sg_cogvideox_dit *d, sg_stream *s, const sg_conditioning *c)
{
    const sg_cogvideox_config *const k = &d->config;
    if (k->offset) embed_offset(run, d, s);
    for (int pass = 0; pass < c->passes; pass++) {
        const sg_text_states *const text = &c->text[pass][0];
        run->text[pass] = sg_new_keep(s, SG_F32, text->len, k->width);
        const size_t    mark = s->scratch.used;
        const sg_tensor states = sg_new(s, SG_F32, text->len, k->text_dim);
        const sg_tensor x = sg_new(s, d->component.act, text->len, k->text_dim);
        if (text->states) sg_upload(s, states, text->states);
        sg_copy(s, .y = x, .x = states);
        sg_linear(s, .y = run->text[pass], .x = x, .w = d->text.w, .b = d->text.b);
        if (run->learned) sg_gate_add(s, .x = run->text[pass], .r = places(d, 0, text->len));
        sg_tap(s, run->text[pass], "dit.text");
        s->scratch.used = mark;
    }
}

/* ---- one forward ---- */

/* Which rows of the tokens are the text's, or the video's, and what modulates them in a block. */
typedef struct cog_rows {
    int64_t       first, count;
    sg_modulation attn, ff;
} cog_rows;

static sg_tensor rows_of(sg_tensor x, const cog_rows *r) { return sg_rows(x, r->first, r->count); }

/* y = the modulated norm of x. */
static void norm(sg_stream *s, const sg_cogvideox_dit *d, sg_tensor y, sg_tensor x, const cog_norm *w,
                 const sg_modulation *e, sg_tensor non_finite)
{
    sg_norm(s, .y = y, .non_finite = non_finite, .x = x, .w = w->w, .b = w->b, .shift = e->shift, .scale = e->scale,
            .kind = SG_NORM_LAYER, .eps = (float)d->config.eps);
}

/* y [N, h, d] = the norm of x l by head, the video's rows rotated. spare has y's shape. */
static void project_heads(sg_stream *s, const sg_cogvideox_run *run, sg_tensor y, sg_tensor spare, sg_tensor x,
                          const sg_linear_weights *l, sg_tensor w, sg_tensor b)
{
    const int64_t   n = y.dim[0], h = y.dim[1], d = y.dim[2], text = n - tokens(run);
    const bool      rotary = run->rotary.cos.rank > 0;
    const sg_tensor p = rotary ? y : spare, normed = rotary ? spare : y;
    sg_linear(s, .y = sg_reshape(p, n, h * d), .x = x, .w = l->w, .b = l->b);
    sg_norm(s, .y = sg_reshape(normed, n * h, d), .x = sg_reshape(p, n * h, d), .w = w, .b = b, .kind = SG_NORM_LAYER,
            .eps = 1e-6f);
    if (!rotary) return;
    sg_copy(s, .y = sg_rows(y, 0, text), .x = sg_rows(normed, 0, text));
    sg_rope(s, .y = sg_rows(y, text, n - text), .x = sg_rows(normed, text, n - text), .cos = run->rotary.cos,
            .sin = run->rotary.sin);
}

static void tap_rows(sg_stream *s, sg_tensor x, const cog_rows rows[2], const char *name, int i)
{
    sg_tap(s, rows_of(x, &rows[1]), "dit.block.%d.%s", i, name);
    sg_tap(s, rows_of(x, &rows[0]), "dit.block.%d.%s_text", i, name);
}

static void self_attention(sg_stream *s, const sg_cogvideox_dit *d, const sg_cogvideox_run *run, const sg_pass *p,
                           int i, sg_tensor x, const cog_rows rows[2])
{
    const sg_cogvideox_config *const c = &d->config;
    const cog_block *const           k = &d->block[i];
    const int64_t                    n = x.dim[0];
    const sg_dtype                   act = d->component.act;
    const size_t                     mark = s->scratch.used;
    const sg_tensor query = sg_new(s, act, n, c->heads, c->head_dim), key = sg_new(s, act, n, c->heads, c->head_dim);
    const sg_tensor value = sg_new(s, act, n, c->heads, c->head_dim), y = sg_new(s, act, n, c->width);
    const sg_tensor o = sg_reshape(y, n, c->heads, c->head_dim); /* y is used up by then */

    for (int r = 0; r < 2; r++)
        norm(s, d, rows_of(y, &rows[r]), rows_of(x, &rows[r]), &k->norm[0], &rows[r].attn,
             sg_rows(p->non_finite, i, 1));
    project_heads(s, run, query, value, y, &k->attn.q, k->attn.norm_q, k->norm_q_b);
    project_heads(s, run, key, value, y, &k->attn.k, k->attn.norm_k, k->norm_k_b);
    sg_linear(s, .y = sg_reshape(value, n, c->width), .x = y, .w = k->attn.v.w, .b = k->attn.v.b);
    sg_self_attention_run(
        run->self, s, p->first_layer + i, p->step, p->index, p->timestep,
        &(sg_attend_args){.y = o, .q = query, .k = key, .v = value, .scale = 1.0f / sqrtf((float)c->head_dim)});
    for (int r = 0; r < 2; r++)
        sg_project_out(s, rows_of(x, &rows[r]), rows_of(o, &rows[r]), &k->attn.out, rows[r].attn.gate);
    tap_rows(s, x, rows, "attn1", i);
    s->scratch.used = mark;
}

static void feed_forward(sg_stream *s, const sg_cogvideox_dit *d, int i, sg_tensor x, const cog_rows rows[2])
{
    for (int r = 0; r < 2; r++) {
        const size_t    mark = s->scratch.used;
        const sg_tensor own = rows_of(x, &rows[r]), y = sg_new(s, d->component.act, own.dim[0], own.dim[1]);
        norm(s, d, y, own, &d->block[i].norm[1], &rows[r].ff, (sg_tensor){0});
        sg_feed_forward(s, own, y, &d->block[i].ff, SG_ACT_GELU_TANH, rows[r].ff.gate);
        s->scratch.used = mark;
    }
    tap_rows(s, x, rows, "ff", i);
}

/* x [n, D] = the patches of latent [c, f, y, x], in order, embedded, with sines or learned positions where the model has
 * them. */
static void patch_embed(sg_stream *s, const sg_cogvideox_dit *d, const sg_cogvideox_run *run, sg_tensor x,
                        sg_tensor latent)
{
    const sg_cogvideox_config *const c = &d->config;
    const bool                       sines = run->sines.rank > 0;
    const int64_t                    n = tokens(run), size = patch_size(c, c->input);
    const size_t                     mark = s->scratch.used;
    sg_tensor                        patches = sg_new(s, d->component.act, n, size);
    if (run->input.rank) sg_copy(s, .y = sg_rows(run->input, 0, c->channels), .x = latent);
    sg_patchify(s, patches, run->input.rank ? run->input : latent, run->grid, c->patch);
    patches = sg_rows_of(s, patches, run->tokens.order);
    if (run->learned) sg_copy(s, .y = x, .x = sg_rows_of(s, places(d, c->text_len, n), run->tokens.order));
    if (sines) sg_embed(s, .y = sg_reshape(x, 4 * n, c->width / 4), .w = run->sines, .ids = run->part);
    sg_linear(s, .y = x, .x = patches, .w = sg_reshape(d->patch_w, c->width, size), .b = d->patch_b,
              .add = sines || run->learned);
    sg_tap(s, x, "dit.patch_embed");
    s->scratch.used = mark;
}

/* pass->out = the video's tokens x, normalised, modulated, projected and put back in place. */
static void project_out(sg_stream *s, const sg_cogvideox_dit *d, const sg_cogvideox_run *run, const sg_pass *pass,
                        sg_tensor x)
{
    const sg_cogvideox_config *const c = &d->config;
    const sg_modulation              e = sg_modulation_at(sg_rows(run->now.e, ROWS * c->layers, 2), 0);
    const int64_t n = tokens(run), *const g = run->grid, *const p = c->patch;
    const size_t    mark = s->scratch.used;
    const sg_tensor final = sg_new(s, SG_F32, n, c->width), y = sg_new(s, d->component.act, n, c->width);
    sg_tensor       v = sg_new(s, SG_F32, n, patch_size(c, c->channels));
    sg_norm(s, .y = final, .non_finite = sg_rows(pass->non_finite, c->layers, 1), .x = x, .w = d->final_w,
            .b = d->final_b, .kind = SG_NORM_LAYER, .eps = (float)c->eps);
    norm(s, d, y, final, &d->out, &e, (sg_tensor){0});
    sg_linear(s, .y = v, .x = y, .w = d->proj_out.w, .b = d->proj_out.b);
    v = sg_rows_of(s, v, run->tokens.inverse);
    sg_tap(s, v, "dit.proj_out");
    sg_permute(s, .y = pass->out, .x = v, .rank = 7, .dim = {g[0], g[1], g[2], c->channels, p[0], p[1], p[2]},
               .perm = {3, 0, 4, 1, 5, 2, 6});
    s->scratch.used = mark;
}

/* y [rows, D] = what the time makes of a norm's linear. */
static void modulate(sg_stream *s, const sg_cogvideox_run *run, sg_tensor y, const sg_linear_weights *l)
{
    sg_linear(s, .y = sg_reshape(y, 1, sg_count(y)), .x = run->now.hidden, .w = l->w, .b = l->b);
}

/* What the time makes, and room for the tokens, for all passes of the step. */
static void step_open(const sg_cogvideox_dit *d, sg_cogvideox_run *run, sg_stream *s, const sg_pass *p)
{
    const sg_cogvideox_config *const c = &d->config;
    run->now.hidden = sg_new(s, SG_F32, 1, c->time_dim);
    run->now.e = sg_new(s, SG_F32, ROWS * c->layers + 2, c->width);
    run->now.x = sg_new(s, SG_F32, c->text_len + tokens(run), c->width);
    const size_t    mark = s->scratch.used;
    const sg_tensor wave = sg_new(s, SG_F32, 1, c->width), temb = sg_new(s, SG_F32, 1, c->time_dim);
    sg_sinusoid(s, .y = wave, .t = p->t);
    sg_mlp(s, temb, wave, d->time, SG_ACT_SILU);
    sg_tap(s, temb, "dit.temb");
    if (run->offset.rank) sg_gate_add(s, .x = temb, .r = run->offset);
    sg_activate(s, .y = run->now.hidden, .x = temb, .act = SG_ACT_SILU);
    modulate(s, run, sg_rows(run->now.e, ROWS * c->layers, 2), &d->out.linear);
    s->scratch.used = mark;
}

void sg_cogvideox_dit_forward(const sg_cogvideox_dit *d, sg_cogvideox_run *run, sg_stream *s, const sg_pass *p)
{
    const int64_t layers = d->config.layers, text = d->config.text_len;
    if (p->index == 0) step_open(d, run, s, p);
    if (s->status) return; /* modulation may be missing */
    const sg_tensor x = run->now.x;
    sg_copy(s, .y = sg_rows(x, 0, text), .x = run->text[p->text]);
    patch_embed(s, d, run, sg_rows(x, text, tokens(run)), p->x);
    for (int i = 0; i < layers; i++) {
        const sg_tensor e = sg_rows(run->now.e, ROWS * i, ROWS);
        const cog_rows  rows[2] = {
             {.count = text, .attn = sg_modulation_at(e, 3), .ff = sg_modulation_at(e, 9)},
             {.first = text, .count = tokens(run), .attn = sg_modulation_at(e, 0), .ff = sg_modulation_at(e, 6)}};
        sg_bind_fetch(d->component.bind, s, i);
        for (int k = 0; k < 2 && p->index == 0; k++)
            modulate(s, run, sg_rows(e, 6 * k, 6), &d->block[i].norm[k].linear);
        self_attention(s, d, run, p, i, x, rows);
        feed_forward(s, d, i, x, rows);
    }
    project_out(s, d, run, p, sg_rows(x, text, tokens(run)));
    sg_count_non_finite(s, .y = sg_rows(p->non_finite, layers + 1, 1), .x = p->out);
}
