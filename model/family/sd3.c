/* sd3.c - Stable Diffusion 3 medium, 3.5 large and 3.5 medium (Stability AI, 2024; arXiv:2403.03206):
 * StableDiffusion3Pipeline of diffusers.
 *
 * CLIP-L, OpenCLIP's bigG and T5, SD3Transformer2DModel, whose tensors have diffusers' names and whose tokens are
 * [picture | text], AutoencoderKL. What bites:
 *  - texts are filled up with pads, which count as tokens do;
 *  - a token of CLIP's part of the text has CLIP-L's state and, behind it, bigG's, and zeros up to the width of T5's;
 *    both are those before the last layer;
 *  - T5 may be absent: zeros stand for its tokens;
 *  - the row of the whole text is CLIP-L's projection and, behind it, bigG's;
 *  - positions are a table of the file, the middle of which is taken; no rotation; they bound the size;
 *  - SD3.5 normalises queries and keys, SD3 does not;
 *  - in the first blocks of SD3.5 medium the picture attends to itself besides, from what the block is given;
 *  - the last block takes the text and leaves it as it is;
 *  - timesteps are of 1000 and not rounded;
 *  - the patch vector is (c, ph, pw) on the way in and (ph, pw, c) on the way out. */
#include "clip_text.h"
#include "mmdit.h"
#include "op.h"
#include "t5.h"
#include "token_table.h"

#include <stdlib.h>
#include <string.h>

enum {
    CLIP_L,
    CLIP_G,
    T5,
    CLIP_LEN = 77,
    T5_LEN = 256, /* StableDiffusion3Pipeline's max_sequence_length */
    TEXT_LEN = CLIP_LEN + T5_LEN,
    SKIP = 1,
    LAYERS_MAX = 4096,
    PLACES_MAX = 4096,
    FFN = 4
};

typedef struct sd3 {
    sg_components  components;
    sg_mmdit       net;              /* dit.patch_in [D, C, p, p], dit.text_in [D, text_dim] */
    bool           dual[LAYERS_MAX]; /* blocks with a second attention */
    int64_t        side;             /* rows, and columns, of the square of positions that the file has */
    int64_t        sample_size;      /* of the latents that the pipeline makes by default */
    sg_token_table places;           /* [side side, D]: row by row */
    sg_name_map    names;            /* of the denoiser, by its number of blocks */
    sg_dit_run     run;              /* of one render */
    sg_tensor      place;            /* F32 [n, D]: of each token, of this render */
} sd3;

/* ---- opening ---- */

static void read_duals(sd3 *m, sg_config *f)
{
    const int64_t  layers = m->net.layers;
    int64_t *const list = calloc((size_t)layers, sizeof *list);
    if (!list) {
        sg_config_fail(f, "dual_attention_layers", "no memory for %lld layers", (long long)layers);
        return;
    }
    const int count = sg_config_ints(f, "dual_attention_layers", 0, layers - 1, list, 0, (int)layers);
    for (int i = 0; i < count; i++) m->dual[list[i]] = true;
    m->net.dual = m->dual;
    free(list);
}

static sg_status read_config(sd3 *m, sg_config *f)
{
    sg_mmdit *const n = &m->net;
    sg_dit *const   d = &n->dit;
    d->patch[0] = 1;
    d->patch[1] = d->patch[2] = sg_config_int(f, "patch_size", 1, 16, &(int64_t){2});
    d->channels_last = true;
    d->heads = sg_config_int(f, "num_attention_heads", 1, 1024, &(int64_t){18});
    d->head_dim = sg_config_int(f, "attention_head_dim", 1, 256, &(int64_t){64});
    d->width = d->heads * d->head_dim;
    d->channels = d->input = sg_config_int(f, "in_channels", 1, 4096, &(int64_t){16});
    d->text_dim = sg_config_int(f, "joint_attention_dim", 1, 1 << 18, &(int64_t){4096});
    n->layers = sg_config_int(f, "num_layers", 1, LAYERS_MAX, &(int64_t){18});
    n->ffn = FFN * d->width;
    n->row_dim = sg_config_int(f, "pooled_projection_dim", 1, 1 << 18, &(int64_t){2048});
    n->text_ends = true;
    m->side = sg_config_int(f, "pos_embed_max_size", 1, PLACES_MAX, &(int64_t){96});
    m->sample_size = sg_config_int(f, "sample_size", 1, 1 << 14, &(int64_t){128});
    const int64_t out = sg_config_int(f, "out_channels", 1, 4096, &d->channels);
    if (out != d->channels)
        sg_config_fail(f, "out_channels", "%lld, but in_channels is %lld: they should agree", (long long)out,
                       (long long)d->channels);
    const int64_t text = sg_config_int(f, "caption_projection_dim", 1, 1 << 18, &(int64_t){1152});
    if (text != d->width)
        sg_config_fail(f, "caption_projection_dim", "%lld, but the %lld heads of %lld channels have %lld",
                       (long long)text, (long long)d->heads, (long long)d->head_dim, (long long)d->width);
    n->plain_heads = !sg_config_has(f, "qk_norm");
    if (!n->plain_heads) sg_config_only(f, "qk_norm", "rms_norm", NULL);
    SG_TRY(sg_config_status(f));
    if ((size_t)n->layers > sg_source_count(d->component.source))
        sg_config_fail(f, "num_layers", "%lld, but the weights are %zu tensors in all", (long long)n->layers,
                       sg_source_count(d->component.source));
    read_duals(m, f);
    return sg_config_status(f);
}

static sg_status open_denoiser(sd3 *m, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    static const char places[] = "pos_embed.pos_embed";
    sg_mmdit *const   n = &m->net;
    sg_dit *const     d = &n->dit;
    SG_TRY(sg_dit_open(d, from, "transformer", "SD3Transformer2DModel", act, e));
    SG_TRY(read_config(m, d->config));
    SG_TRY(sg_mmdit_bind(n, e));
    sg_bind *const b = d->component.bind;
    sg_bind_tensor(b, &d->patch_in.w, act, "pos_embed.proj.weight", d->width, d->input, d->patch[1], d->patch[2]);
    sg_bind_tensor(b, &d->patch_in.b, SG_F32, "pos_embed.proj.bias", d->width);
    sg_want_linear(b, &d->text_in, act, "context_embedder", d->width, d->text_dim);
    SG_TRY(sg_token_table_open(&m->places, &d->component, places, places, (int)(m->side * m->side), (int)d->width, e));
    return sg_mmdit_check(n, e);
}

static sg_status open_texts(sg_components *c, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    static const char *const names[] = {"text_encoder", "text_encoder_2", "text_encoder_3"};
    static const char *const tokenizers[] = {"tokenizer", "tokenizer_2", "tokenizer_3"};
    const char *const        last = sg_config_string_at(index, names[T5], 1);
    const int                texts = last && *last ? T5 + 1 : T5;
    for (int k = 0; k < texts; k++) {
        sg_text_source *const t = &c->text[k];
        if (k == T5)
            SG_TRY(sg_t5_encoder_open(&t->encoder, from, names[k], tokenizers[k], act, e));
        else
            SG_TRY(sg_clip_text_encoder_open(&t->encoder, from, names[k], tokenizers[k], true, SKIP, act, e));
        t->tokens_max = k == T5 ? T5_LEN : CLIP_LEN;
        t->padded = true;
        c->texts = k + 1;
    }
    return SG_OK;
}

/* Components that were made for each other agree in these numbers. */
static sg_status check_fit(const sd3 *m, const char *path, sg_error *e)
{
    static const char          width[] = "transformer/config.json: joint_attention_dim";
    const sg_components *const c = &m->components;
    const sg_dit *const        d = &m->net.dit;
    const int64_t              clip = sg_text_width(c, CLIP_L) + sg_text_width(c, CLIP_G);
    const sg_fit               fit[] = {
                      {clip > d->text_dim ? clip : d->text_dim, "the width of text_encoder and text_encoder_2 together",
                       d->text_dim, width},
                      {c->texts > T5 ? sg_text_width(c, T5) : d->text_dim, "the width of text_encoder_3", d->text_dim,
                       width},
                      {sg_text_pooled(c, CLIP_L) + sg_text_pooled(c, CLIP_G),
                       "the pooled width of text_encoder and text_encoder_2 together", m->net.row_dim,
                       "transformer/config.json: pooled_projection_dim"},
                      {c->vae.info.z, "vae/config.json: latent_channels", d->channels,
                       "transformer/config.json: in_channels"},
                      {0}};
    return sg_check_fit(fit, path, e);
}

static sg_status sd3_open(void *model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    sd3 *const           m = model;
    sg_components *const c = &m->components;
    SG_TRY(sg_sampler_config_read(&c->sampler, from, SG_SAMPLERS_FLOW, e));
    SG_TRY(open_texts(c, from, index, act, e));
    SG_TRY(open_denoiser(m, from, act, e));
    m->names = *sg_files_sd3.names;
    m->names.span = (int)m->net.layers;
    sg_components_add_mmdit(c, &m->net, &m->names);
    SG_TRY(sg_components_open_vae(c, &sg_kl_vae_ops, from, act, e));
    c->skip_blocks = (int)m->net.layers;
    c->guidance = SG_GUIDANCE_CLASSIFIER_FREE;
    c->noise_dtype = act;
    const int side = (int)m->sample_size * c->vae.info.scale_space;
    c->defaults = (sg_request){.width = side,
                               .height = side,
                               .frames = 1,
                               .fps = 16,
                               .steps = 28,
                               .cfg_scale = 7,
                               .skip_layers = "7-9",
                               .skip_layer_start = 0.01,
                               .skip_layer_end = 0.2};
    return check_fit(m, sg_checkpoint_path(from), e);
}

static void sd3_close(void *model) { sg_mmdit_close(&((sd3 *)model)->net); }

/* No picture is larger than the square of positions that the denoiser knows. */
static sg_status sd3_check(const void *model, const sg_request *r, sg_error *e)
{
    const sd3 *const m = model;
    const int        most = (int)m->side * m->components.size_multiple;
    if (r->width <= most && r->height <= most) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "size: %dx%d: this model has positions for pictures of up to %dx%d", r->width,
                        r->height, most, most);
}

/* ---- denoising ---- */

static void sd3_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                          sg_attention_shape *shape)
{
    const sd3 *const m = model;
    (void)c;
    (void)pass;
    sg_dit_shape(&m->net.dit, g, 0, layer < m->net.layers ? TEXT_LEN : 0, shape);
}

/* The places of the tokens, in their order: the middle of the file's square. So many at once that the host needs
 * little. */
static void place_tokens(sd3 *m, sg_stream *s)
{
    enum { AT_ONCE = 256 };
    const sg_dit_run *const r = &m->run;
    const int64_t rows = r->grid[1], columns = r->grid[2], top = (m->side - rows) / 2, left = (m->side - columns) / 2;
    m->place = sg_new_keep(s, SG_F32, r->n, m->net.dit.width);
    if (!s->memory->alloc) return; /* a plan has no data */
    for (int64_t first = 0; first < r->n && !s->status; first += AT_ONCE) {
        const int64_t count = r->n - first < AT_ONCE ? r->n - first : AT_ONCE;
        int32_t       id[AT_ONCE];
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = r->self->order ? r->self->order[first + i] : first + i;
            id[i] = (int32_t)((top + at / columns) * m->side + left + at % columns);
        }
        sg_token_table_embed(&m->places, s, sg_rows(m->place, first, count), id, (int)count);
    }
}

static void sd3_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    sd3 *const m = model;
    sg_dit_run_open(&m->run, &m->net.dit, s, g, self);
    place_tokens(m, s);
}

/* states [TEXT_LEN, text_dim], which are zero, get those of a text's encoders. */
static void join(const sd3 *m, const sg_text_states *text, float *states)
{
    const sg_components *const c = &m->components;
    const int64_t              width = m->net.dit.text_dim;
    int64_t                    at = 0;
    for (int k = CLIP_L; k <= CLIP_G; k++) {
        const int64_t own = sg_text_width(c, k);
        for (int64_t i = 0; i < CLIP_LEN; i++)
            memcpy(states + i * width + at, text[k].states + i * own, (size_t)own * sizeof *states);
        at += own;
    }
    if (c->texts > T5) memcpy(states + CLIP_LEN * width, text[T5].states, (size_t)(T5_LEN * width) * sizeof *states);
}

static void sd3_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    sd3 *const    m = model;
    const int64_t states = TEXT_LEN * m->net.dit.text_dim;
    (void)denoiser;
    for (int k = 0; k < c->passes; k++) {
        const bool   there = c->text[k][CLIP_L].states != NULL;
        float *const all = there ? calloc((size_t)states, sizeof *all) : NULL;
        if (there && !all) {
            sg_fail(s, SG_E_MEMORY, "no memory for the states of a text");
            return;
        }
        if (all) join(m, c->text[k], all);
        sg_dit_run_text(&m->run, &m->net.dit, s, k, all, TEXT_LEN);
        sg_tap(s, m->run.text[k], "dit.text");
        free(all);
    }
}

/* The row of a text is those of both CLIPs. */
static void sd3_modulate(void *model, sg_stream *s, const sg_conditioning *c, sg_tensor t, sg_tensor y)
{
    const sd3 *const m = model;
    const size_t     first = (size_t)sg_text_pooled(&m->components, CLIP_L), all = (size_t)m->net.row_dim;
    float *const     rows = malloc(SG_TEXT_PASSES * all * sizeof *rows);
    const float     *row[SG_TEXT_PASSES] = {NULL};
    if (!rows) sg_fail(s, SG_E_MEMORY, "no memory for the rows of texts");
    for (int k = 0; rows && k < c->passes; k++) {
        const sg_text_states *const text = c->text[k];
        if (!text[CLIP_L].row) continue;
        memcpy(rows + (size_t)k * all, text[CLIP_L].row, first * sizeof *rows);
        memcpy(rows + (size_t)k * all + first, text[CLIP_G].row, (all - first) * sizeof *rows);
        row[k] = rows + (size_t)k * all;
    }
    sg_mmdit_modulate(&m->net, s, c, row, t, y);
    free(rows);
}

static void sd3_forward(void *model, sg_stream *s, const sg_pass *p)
{
    const sd3 *const        m = model;
    const sg_dit_run *const r = &m->run;
    const sg_dit *const     d = &m->net.dit;
    const size_t            mark = s->scratch.used;
    const sg_tensor         text = r->text[p->text], x = sg_new(s, SG_F32, r->n + text.dim[0], d->width);
    const sg_mmdit_pass     pass = sg_mmdit_pass_of(&m->net, r, p);
    const sg_tensor         picture = sg_mmdit_rows(&pass, x, SG_MMDIT_PICTURE);
    sg_copy(s, .y = sg_mmdit_rows(&pass, x, SG_MMDIT_TEXT), .x = text);
    sg_copy(s, .y = picture, .x = m->place);
    sg_dit_patch_embed(d, r, s, p, picture, true);
    sg_mmdit_blocks(&m->net, &pass, s, x);
    sg_mmdit_project_out(&m->net, &pass, s, x);
    s->scratch.used = mark;
}

static const sg_class_rule classes[] = {
    {.component = "text_encoder", .name = "CLIPTextModelWithProjection", .other = "CLIPTextModel"},
    {.component = "text_encoder_2", .name = "CLIPTextModelWithProjection"},
    {.component = "text_encoder_3", .name = "T5EncoderModel", .optional = true},
    {.component = "transformer", .name = "SD3Transformer2DModel"},
    {.component = "vae", .name = "AutoencoderKL"},
    {0}};

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
    .files = &sg_files_sd3,
    .class_names = (const char *const[]){"StableDiffusion3Pipeline", "StableDiffusion3Img2ImgPipeline", NULL},
    .classes = classes,
    .shapes = shapes,
    .widths = widths,
    .size = sizeof(sd3),
    .open = sd3_open,
    .close = sd3_close,
    .check = sd3_check,
    .attention = sd3_attention,
    .modulate = sd3_modulate,
    .render_open = sd3_render_open,
    .denoiser_open = sd3_denoiser_open,
    .forward = sd3_forward,
};
