/* opensora.c - Open-Sora-Plan 1.3 (PKU-YuanGroup, 2024), text to video: the layout that OpenSoraPipeline would save.
 *
 * mT5, OpenSoraT2V_v1_3, whose tensors have the names of its own code, WFVAEModel. A block is self-attention,
 * cross-attention to the text, feed-forward. What bites:
 *  - Skiparse: with sparse1d a token of most blocks attends to one quarter of the tokens (groups_of), and rows of x
 *    stand in the groups of the block at work;
 *  - cross-attention reads the tokens as they are, without a norm, and is added without a gate; it sees the text's real
 *    tokens alone;
 *  - rotary axes are three thirds of a head, whose halves are partners: rows of q and k become pairs as they are loaded;
 *  - places are divided by a scale of each axis; an axis as long as one before it takes that one's scale;
 *  - the output's modulation takes the time embedding itself, the blocks a projection of it;
 *  - timesteps are rounded to the dtype of the model: 999 is 1000 in BF16;
 *  - the patch vector is (c, ph, pw) on the way in, (ph, pw, c) on the way out. */
#include "base/text.h"
#include "dit.h"
#include "op.h"
#include "opensora_files.h"
#include "t5.h"

#include <math.h>
#include <stdlib.h>

enum {
    TEXT_LEN = 512, /* OpenSoraPipeline's max_sequence_length */
    FREQ_DIM = 256, /* of the time's sinusoid */
    ROWS = 6,       /* of a block's modulation: shift, scale, gate of attention, then of the feed-forward */
    FFN = 4,
    FIRST_SPARSE = 2,
    END_SPARSE = 30 /* blocks between these have groups */
};

typedef struct block_weights {
    sg_tensor               table; /* [6, D] */
    sg_attention_weights    self, cross;
    sg_feed_forward_weights ff;
} block_weights;

typedef struct opensora {
    sg_components     components;
    sg_dit            dit; /* patch_in [D, C, p, p] */
    int64_t           layers;
    double            eps;
    double            scale[3];           /* of places along time, rows, columns */
    int               groups;             /* of tokens in blocks that have them; 1: no block has */
    sg_linear_weights time[2], time_proj; /* [D, 256] [D, D]; [6 D, D] */
    sg_linear_weights text[2];            /* [D, text_dim] [D, D] */
    sg_tensor         table;              /* [2, D]: shift, scale of the output */
    block_weights    *block;              /* [layers] */

    /* Of one render, in s->keep but for what is on the host. */
    sg_dit_run run;
    sg_keys   *keys; /* host [2 layers]: of layer i and text k at 2 i + k */

    /* What the passes of a step share, in s->scratch from the first to the last: F32. */
    sg_tensor temb, e6, e;    /* [1, D] [1, 6 D] [6, D]: time, its projection, the modulation of the block at work */
    sg_tensor x, copy, spare; /* [n, D]: tokens; those of a pass but the last?; room to move them, and for a block */
} opensora;

/* ---- opening ---- */

static void read_same(sg_config *f, const char *key, int64_t want, const char *what)
{
    const int64_t n = sg_config_int(f, key, 1, 1 << 20, &want);
    if (n == want) return;
    sg_config_fail(f, key, "%lld, but %s is %lld: they should agree", (long long)n, what, (long long)want);
}

static void read_groups(opensora *m, sg_config *f)
{
    const bool    sparse = sg_config_bool(f, "sparse1d", &(bool){false});
    const int64_t n = sg_config_int(f, "sparse_n", 1, 1 << 20, &(int64_t){2});
    m->groups = sparse ? (int)n : 1;
    if (sparse && n != 1 && n != 4)
        sg_config_fail(f, "sparse_n", "%lld groups of tokens, but the model's own code has masks for 1 and 4 alone",
                       (long long)n);
}

static sg_status read_config(opensora *m, sg_config *f)
{
    static const char *const scales[] = {"interpolation_scale_t", "interpolation_scale_h", "interpolation_scale_w"};
    sg_dit *const            d = &m->dit;
    d->patch[0] = sg_config_int(f, "patch_size_t", 1, 16, NULL);
    d->patch[1] = d->patch[2] = sg_config_int(f, "patch_size", 1, 16, NULL);
    d->heads = sg_config_int(f, "num_attention_heads", 1, 1024, &(int64_t){16});
    d->head_dim = sg_config_int(f, "attention_head_dim", 1, 256, &(int64_t){88});
    d->width = d->heads * d->head_dim;
    d->channels = d->input = sg_config_int(f, "in_channels", 1, 4096, NULL);
    d->channels_last = true;
    d->text_dim = sg_config_int(f, "caption_channels", 1, 1 << 18, NULL);
    m->layers = sg_config_int(f, "num_layers", 1, 4096, &(int64_t){1});
    m->eps = sg_config_real(f, "norm_eps", 0, 1, &(double){1e-6});
    for (int k = 0; k < 3; k++) m->scale[k] = sg_config_real(f, scales[k], 1e-6, 1e6, &(double){1});
    if (d->head_dim % 6)
        sg_config_fail(f, "attention_head_dim", "%lld is no multiple of 6: three axes have pairs of channels each",
                       (long long)d->head_dim);
    read_groups(m, f);
    read_same(f, "out_channels", d->channels, "in_channels");
    read_same(f, "cross_attention_dim", d->width, "the width of all heads");
    if (d->patch[0] > 1)
        sg_config_fail(f, "patch_size_t", "%lld: patches of several latent frames cannot be rendered: it should be 1",
                       (long long)d->patch[0]);
    sg_config_only(f, "activation_fn", "gelu-approximate", NULL);
    sg_config_only_bool(f, "attention_bias", true);
    sg_config_only_bool(f, "norm_elementwise_affine", false);
    sg_config_only_bool(f, "only_cross_attention", false);
    sg_config_only_bool(f, "double_self_attention", false);
    return sg_config_status(f);
}

static void bind_block(opensora *m, int i)
{
    sg_dit *const        d = &m->dit;
    const sg_dtype       act = d->component.act;
    const int64_t        w = d->width;
    sg_bind *const       b = d->component.bind;
    block_weights *const k = &m->block[i];
    sg_bind_block(b, i);
    sg_bind_prefix(b, "transformer_blocks.%d.attn1.", i);
    sg_bind_pairs(b, d->head_dim / 3);
    sg_want_linear(b, &k->self.q, act, "to_q", w, w);
    sg_want_linear(b, &k->self.k, act, "to_k", w, w);
    sg_bind_pairs(b, 0);
    sg_want_linear(b, &k->self.v, act, "to_v", w, w);
    sg_want_linear(b, &k->self.out, act, "to_out.0", w, w);
    sg_bind_prefix(b, "transformer_blocks.%d.attn2.", i);
    sg_want_attention(b, &k->cross, act, w, 0);
    sg_bind_prefix(b, "transformer_blocks.%d.", i);
    sg_bind_tensor(b, &k->table, SG_F32, "scale_shift_table", ROWS, w);
    sg_want_linear(b, &k->ff.up, act, "ff.net.0.proj", FFN * w, w);
    sg_want_linear(b, &k->ff.down, act, "ff.net.2", w, FFN * w);
}

static void bind_weights(opensora *m)
{
    sg_dit *const  d = &m->dit;
    const sg_dtype act = d->component.act;
    const int64_t  w = d->width;
    sg_bind *const b = d->component.bind;
    sg_bind_tensor(b, &d->patch_in.w, act, "pos_embed.proj.weight", w, d->input, d->patch[1], d->patch[2]);
    sg_bind_tensor(b, &d->patch_in.b, SG_F32, "pos_embed.proj.bias", w);
    sg_want_linear(b, &m->time[0], SG_F32, "adaln_single.emb.timestep_embedder.linear_1", w, FREQ_DIM);
    sg_want_linear(b, &m->time[1], SG_F32, "adaln_single.emb.timestep_embedder.linear_2", w, w);
    sg_want_linear(b, &m->time_proj, act, "adaln_single.linear", ROWS * w, w);
    sg_want_linear(b, &m->text[0], act, "caption_projection.linear_1", w, d->text_dim);
    sg_want_linear(b, &m->text[1], act, "caption_projection.linear_2", w, w);
    for (int i = 0; i < m->layers; i++) bind_block(m, i);
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    sg_want_linear(b, &d->proj_out, act, "proj_out", sg_dit_patch_size(d, d->channels), w);
    sg_bind_tensor(b, &m->table, SG_F32, "scale_shift_table", 2, w);
}

static sg_status open_denoiser(opensora *m, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    sg_dit *const d = &m->dit;
    SG_TRY(sg_dit_open(d, from, "transformer", "OpenSoraT2V_v1_3", act, e));
    SG_TRY(read_config(m, d->config));
    m->block = calloc((size_t)m->layers, sizeof *m->block);
    if (!m->block) return sg_error_memory(e, d->component.dir);
    bind_weights(m);
    sg_components_add_dit(&m->components, d, sg_files_opensora.names, m->layers);
    return SG_OK;
}

/* What a render is by default stands in the denoiser's config. */
static sg_status read_defaults(opensora *m, sg_error *e)
{
    sg_dit *const d = &m->dit;
    m->components.defaults = sg_opensora_defaults(&m->components, d->config);
    SG_TRY(sg_config_status(d->config));
    return sg_dit_check(d, e, "%lld layer%s, %lld heads x %lld, %lld latent channels%s", (long long)m->layers,
                        sg_plural(m->layers), (long long)d->heads, (long long)d->head_dim, (long long)d->channels,
                        m->groups > 1 ? ", attention in groups" : "");
}

static sg_status opensora_open(void *model, const sg_checkpoint *from, sg_config *index, sg_dtype act, sg_error *e)
{
    opensora *const      m = model;
    sg_components *const c = &m->components;
    (void)index;
    SG_TRY(sg_sampler_config_read(&c->sampler, from, 1u << SG_SAMPLER_EULER_A, e));
    SG_TRY(sg_t5_encoder_open(&c->text[0].encoder, from, "text_encoder", "tokenizer", act, e));
    c->text[0].tokens_max = TEXT_LEN;
    c->texts = 1;
    SG_TRY(open_denoiser(m, from, act, e));
    SG_TRY(sg_components_open_vae(c, &sg_wf_vae_ops, from, act, e));
    c->frames.step = c->vae.info.scale_time;
    c->guidance = SG_GUIDANCE_CLASSIFIER_FREE;
    c->noise_dtype = act;
    SG_TRY(read_defaults(m, e));

    const sg_fit fit[] = {
        {sg_text_width(c, 0), "the width of text_encoder", m->dit.text_dim,
         "transformer/config.json: caption_channels"},
        {c->vae.info.z, "vae/config.json: latent_dim", m->dit.channels, "transformer/config.json: in_channels"},
        {0}};
    return sg_check_fit(fit, sg_checkpoint_path(from), e);
}

static void opensora_close(void *model)
{
    opensora *const m = model;
    sg_dit_close(&m->dit);
    free(m->block);
    free(m->keys);
}

/* ---- groups ---- */

/* Which tokens attend to one another: all, every fourth one, or runs of four of every sixteen. */
static sg_groups groups_of(const opensora *m, int block)
{
    if (m->groups < 2 || block < FIRST_SPARSE || block >= END_SPARSE) return (sg_groups){0};
    return (sg_groups){.count = m->groups, .run = block % 2 ? m->groups : 1};
}

static void opensora_attention(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                               sg_attention_shape *shape)
{
    const opensora *const m = model;
    (void)c; /* text is attended to by itself */
    (void)pass;
    sg_dit_shape(&m->dit, g, 0, 0, shape);
    shape->groups = groups_of(m, layer);
}

/* ---- a render ---- */

static void place_rotary(opensora *m, sg_stream *s)
{
    const int64_t  size[3] = {m->dit.head_dim / 3, m->dit.head_dim / 3, m->dit.head_dim / 3};
    const double  *place[3];
    const int64_t *g = m->run.grid;
    double *const  all = calloc((size_t)(g[0] + g[1] + g[2]), sizeof *all);
    double        *at = all;
    if (!all) {
        sg_fail(s, SG_E_MEMORY, "no memory for the places of tokens");
        return;
    }
    for (int k = 0; k < 3; k++) {
        const int like = g[k] == g[0] ? 0 : g[k] == g[1] ? 1 : k; /* the first axis of this length */
        place[k] = at;
        for (int64_t i = 0; i < g[k]; i++) *at++ = (double)i / m->scale[like];
    }
    sg_dit_run_rotary(&m->run, s, size, 10000, place);
    free(all);
}

static void opensora_render_open(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    opensora *const m = model;
    sg_dit_run_open(&m->run, &m->dit, s, g, self);
    place_rotary(m, s);
}

static void opensora_denoiser_open(void *model, sg_stream *s, int denoiser, const sg_conditioning *c)
{
    opensora *const m = model;
    (void)denoiser;
    sg_keys_new(&m->keys, s, 2 * m->layers);
    for (int k = 0; k < c->passes && !s->status; k++) {
        const size_t    mark = s->scratch.used;
        const sg_tensor x = sg_dit_embed_text(&m->dit, s, m->text, c->text[k][0].states, c->text[k][0].len);
        for (int i = 0; i < m->layers; i++) {
            const sg_attention_weights *const a = &m->block[i].cross;
            sg_bind_fetch(m->dit.component.bind, s, i);
            m->keys[2 * i + k] = sg_keys_of(s, &s->keep, x, m->dit.heads, &a->k, &a->v, (sg_tensor){0}, 0);
        }
        s->scratch.used = mark;
    }
}

/* ---- one forward ---- */

/* Time, and room for tokens, for all passes of the step. */
static void begin_step(opensora *m, sg_stream *s, const sg_pass *p)
{
    const sg_dit *const d = &m->dit;
    const int64_t       n = m->run.n, w = d->width;
    const sg_tensor     wave = sg_new(s, SG_F32, 1, FREQ_DIM), hidden = sg_new(s, SG_F32, 1, w);
    const sg_tensor     rounded = sg_new(s, d->component.act, 1), t = sg_new(s, SG_F32, 1);
    m->temb = sg_new(s, SG_F32, 1, w);
    m->e6 = sg_new(s, SG_F32, 1, ROWS * w);
    m->e = sg_new(s, SG_F32, ROWS, w);
    m->x = sg_new(s, SG_F32, n, w);
    m->copy = p->count > 1 && !s->rows_at_once ? sg_new(s, SG_F32, n, w) : (sg_tensor){0};
    m->spare = sg_new(s, SG_F32, n, w);

    sg_copy(s, .y = rounded, .x = p->t);
    sg_copy(s, .y = t, .x = rounded);
    sg_sinusoid(s, .y = wave, .t = t);
    sg_mlp(s, m->temb, wave, m->time, SG_ACT_SILU);
    sg_tap(s, m->temb, "dit.temb");
    sg_activate(s, .y = hidden, .x = m->temb, .act = SG_ACT_SILU);
    sg_linear(s, .y = m->e6, .x = hidden, .w = m->time_proj.w, .b = m->time_proj.b);
}

/* Room for n rows of products' dtype [n, D], where x may move to: it is free while a block works. */
static sg_tensor room_of(const opensora *m, const sg_dit_tokens *k)
{
    sg_tensor y = k->spare;
    y.dtype = m->dit.component.act;
    return y;
}

/* As much again: behind it, or in s->scratch where a number of products is as long as one of x. */
static sg_tensor more_room_of(const opensora *m, sg_stream *s, const sg_dit_tokens *k)
{
    sg_tensor     y = room_of(m, k);
    const int64_t n = y.dim[0];
    if (y.dtype == SG_F32) return sg_new(s, SG_F32, n, y.dim[1]);
    y.dim[0] = 2 * n;
    return sg_rows(y, n, n);
}

static void tap(const opensora *m, sg_stream *s, const sg_dit_tokens *k, const char *part, int i)
{
    if (s->tap) sg_tap(s, sg_dit_row_by_row(&m->run, s, k), "dit.block.%d.%s", i, part);
}

static void self_attention(const opensora *m, sg_stream *s, const sg_pass *p, int i, const sg_dit_tokens *k)
{
    const sg_dit *const               d = &m->dit;
    const sg_dit_run *const           r = &m->run;
    const sg_attention_weights *const a = &m->block[i].self;
    const sg_modulation               e = sg_modulation_at(m->e, 0);
    const int64_t                     n = r->n, w = d->width, h = d->heads, hd = d->head_dim;
    const sg_dtype                    act = d->component.act;
    const size_t                      mark = s->scratch.used;
    const sg_tensor                   qkv[3] = {sg_reshape(more_room_of(m, s, k), n, h, hd), sg_new(s, act, n, h, hd),
                                                sg_new(s, act, n, h, hd)};
    const sg_tensor                   y = room_of(m, k), o = sg_reshape(y, n, h, hd); /* y is used up by then */
    sg_norm(s, .y = y, .non_finite = sg_rows(p->non_finite, i, 1), .x = k->x, .shift = e.shift, .scale = e.scale,
            .kind = SG_NORM_LAYER, .eps = (float)m->eps);
    sg_project_heads(s, qkv[0], y, &a->q, (sg_tensor){0}, 0, &r->rotary[k->order]);
    sg_project_heads(s, qkv[1], y, &a->k, (sg_tensor){0}, 0, &r->rotary[k->order]);
    sg_linear(s, .y = sg_reshape(qkv[2], n, w), .x = y, .w = a->v.w, .b = a->v.b);
    sg_dit_attend(d, r, s, p, i, o, qkv);
    sg_project_out(s, k->x, o, &a->out, e.gate);
    s->scratch.used = mark;
    tap(m, s, k, "attn1", i);
}

static void cross_attention(const opensora *m, sg_stream *s, const sg_pass *p, int i, const sg_dit_tokens *k)
{
    const sg_dit *const               d = &m->dit;
    const sg_attention_weights *const a = &m->block[i].cross;
    const sg_keys *const              text = &m->keys[2 * i + p->text];
    const int64_t                     n = k->x.dim[0], h = d->heads, hd = d->head_dim;
    const size_t                      mark = s->scratch.used;
    const sg_tensor                   q = sg_new(s, d->component.act, n, h, hd);
    const sg_tensor                   y = room_of(m, k), o = sg_reshape(y, n, h, hd);
    sg_copy(s, .y = y, .x = k->x);
    sg_project_heads(s, q, y, &a->q, (sg_tensor){0}, 0, NULL);
    sg_attend(s, .y = o, .q = q, .k = text->key, .v = text->value, .scale = 1.0f / sqrtf((float)hd));
    sg_project_out(s, k->x, o, &a->out, (sg_tensor){0});
    s->scratch.used = mark;
    tap(m, s, k, "attn2", i);
}

static void feed_forward(const opensora *m, sg_stream *s, int i, const sg_dit_tokens *k)
{
    const sg_modulation e = sg_modulation_at(m->e, 3);
    const sg_tensor     y = room_of(m, k);
    sg_norm(s, .y = y, .x = k->x, .shift = e.shift, .scale = e.scale, .kind = SG_NORM_LAYER, .eps = (float)m->eps);
    sg_feed_forward(s, k->x, y, &m->block[i].ff, SG_ACT_GELU_TANH, e.gate);
    tap(m, s, k, "ffn", i);
}

static void project_out(const opensora *m, sg_stream *s, const sg_pass *p, sg_dit_tokens *k)
{
    sg_dit_arrange(&m->run, s, k, (sg_groups){0});
    const sg_tensor e = sg_rows(m->e, 0, 2), y = room_of(m, k);
    sg_add(s, .y = e, .a = m->table, .b = m->temb);
    const sg_modulation out = sg_modulation_at(e, 0);
    sg_norm(s, .y = y, .non_finite = sg_rows(p->non_finite, m->layers, 1), .x = k->x, .shift = out.shift,
            .scale = out.scale, .kind = SG_NORM_LAYER, .eps = 1e-6f);
    sg_dit_project_out(&m->dit, &m->run, s, p, y);
}

static void opensora_forward(void *model, sg_stream *s, const sg_pass *p)
{
    opensora *const m = model;
    const bool      first = p->index == 0, last = p->index + 1 == p->count;
    if (first && !s->status) begin_step(m, s, p);
    if (s->status) return;                                            /* keys and values may be missing */
    const bool    copied = m->copy.rank > 0, anew = first || !copied; /* nothing is shared where there is no room */
    sg_dit_tokens shared = {m->x, m->spare, 0}, k = last || !copied ? shared : (sg_dit_tokens){m->copy, m->spare, 0};
    if (anew) sg_dit_patch_embed(&m->dit, &m->run, s, p, m->x, false);
    for (int i = 0; i < m->layers; i++) {
        sg_bind_fetch(m->dit.component.bind, s, i);
        sg_add(s, .y = m->e, .a = m->block[i].table, .b = sg_reshape(m->e6, ROWS, m->dit.width));
        sg_dit_arrange(&m->run, s, &k, groups_of(m, i));
        if (i > 0)
            self_attention(m, s, p, i, &k);
        else if (anew)
            self_attention(m, s, p, i, &shared); /* for all passes that share it */
        if (i == 0 && !last && copied) sg_copy(s, .y = m->copy, .x = m->x);
        cross_attention(m, s, p, i, &k);
        feed_forward(m, s, i, &k);
    }
    project_out(m, s, p, &k);
}

static const sg_class_rule classes[] = {
    {.component = "text_encoder", .name = "MT5EncoderModel", .other = "T5EncoderModel"},
    {.component = "transformer", .name = "OpenSoraT2V_v1_3"},
    {.component = "vae", .name = "WFVAEModel"},
    {0}};

const sg_family sg_family_opensora = {
    .name = "opensora",
    .files = &sg_files_opensora,
    .class_names = (const char *const[]){"OpenSoraPipeline", NULL},
    .shapes = sg_opensora_shapes,
    .widths = sg_opensora_widths,
    .classes = classes,
    .size = sizeof(opensora),
    .open = opensora_open,
    .close = opensora_close,
    .prompt = sg_opensora_prompt,
    .attention = opensora_attention,
    .render_open = opensora_render_open,
    .denoiser_open = opensora_denoiser_open,
    .forward = opensora_forward,
};
