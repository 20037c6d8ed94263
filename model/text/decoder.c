/* decoder.c - see decoder.h.
 *
 * Tensors, each with or without "model." or "language_model.model." in front, l = 0 .. layers - 1:
 *   embed_tokens.weight [vocab, width]
 *   layers.l.{input_layernorm,post_attention_layernorm}.weight [width]
 *   layers.l.self_attn.q_proj.weight [heads d, width], .{k,v}_proj.weight [key_heads d, width], .o_proj.weight [width, heads d]
 *   layers.l.self_attn.{q,k,v}_proj.bias of Qwen2; .{q,k}_norm.weight [d] of Qwen3
 *   layers.l.mlp.{gate,up}_proj.weight [ffn, width], .down_proj.weight [width, ffn]
 *   norm.weight [width]
 *   lm_head.weight [vocab, width], beside "model."
 *   rope_freqs.weight [d / 2] of a GGUF: by what the frequencies are divided
 *
 * Rotation pairs channel i of a head with channel i + d/2. sg_rope pairs neighbours, so the rows of q and k are put in that
 * order when they are loaded, where the file does not have them so (rope_by_pairs, of a GGUF of Llama); scores do not depend
 * on the order. */
#include "decoder.h"

#include "base/text.h"
#include "text_layers.h"
#include "token_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 4096 }; /* of a text that is encoded */

/* ---- config ---- */

static const char *const kinds[] = {"llama", "qwen2", "qwen3"};
enum { LLAMA, QWEN2, QWEN3, KINDS };

/* Llama 3.1's frequencies: a wave longer than before / low turns slower by factor, one shorter than before / high as it was, those
 * between in between. */
typedef struct rope_scaling {
    double factor, low, high, before; /* factor 0: none */
} rope_scaling;

typedef struct decoder_layer {
    sg_tensor norm[2];        /* [width]: of attention, of the feed-forward part */
    sg_tensor q, k, v, o;     /* [heads d, width] [key_heads d, width] x 2 [width, heads d] */
    sg_tensor q_b, k_b, v_b;  /* [heads d]? [key_heads d]? x 2 */
    sg_tensor q_norm, k_norm; /* [d]? x 2 */
    sg_tensor gate, up, down; /* [ffn, width] x 2 [width, ffn] */
} decoder_layer;

struct sg_decoder {
    sg_component    component;
    sg_decoder_info size;
    int             kind;
    double          theta;
    rope_scaling    scaling;
    float           eps;
    bool            by_pairs;        /* the rows of q and k are in the order of the rotation */
    int             loaded;          /* layers that compute */
    decoder_layer  *layer;           /* loaded */
    sg_tensor       norm;            /* [width]? */
    sg_tensor       embedding, head; /* [vocab, width]? x 2: of a language model */
    sg_token_table  table;           /* of a text encoder */
    sg_bind_rows    slower;          /* rope_freqs */
};

static int required(sg_config *c, const char *key, int64_t hi) { return (int)sg_config_int(c, key, 1, hi, NULL); }

static int with_default(sg_config *c, const char *key, int64_t hi, int64_t usual)
{
    return (int)sg_config_int(c, key, 1, hi, &usual);
}

/* transformers 5 has theta among the other numbers of rotation, older files have it at the top. */
static void read_rope(sg_decoder *l, sg_config *rope)
{
    const char *const old = sg_config_string(rope, "type", "default");
    const char *const type = sg_config_string(rope, "rope_type", old);
    l->theta = sg_config_real(rope, "rope_theta", 1.0, 1e12, &l->theta);
    if (sg_config_real(rope, "partial_rotary_factor", 0, 1e6, &(double){1}) != 1)
        sg_config_fail(rope, "partial_rotary_factor", "should be 1: all channels of a head are rotated");
    if (type && strcmp(type, "llama3") == 0)
        l->scaling = (rope_scaling){sg_config_real(rope, "factor", 1.0, 1e6, NULL),
                                    sg_config_real(rope, "low_freq_factor", 1e-6, 1e6, NULL),
                                    sg_config_real(rope, "high_freq_factor", 1e-6, 1e6, NULL),
                                    sg_config_real(rope, "original_max_position_embeddings", 1.0, 1e9, NULL)};
    else if (type && strcmp(type, "default") != 0)
        sg_config_fail(rope, "rope_type", "\"%s\" is not supported; \"default\" and \"llama3\" are", sg_show(type));
    if (l->scaling.factor > 0 && l->scaling.high <= l->scaling.low)
        sg_config_fail(rope, "high_freq_factor", "should be above low_freq_factor");
}

/* What Qwen's configs may switch on. */
static void check_windows(sg_config *c)
{
    enum { LAYERS_MAX = 1 << 12 };
    const char *type;
    sg_config_only_bool(c, "use_sliding_window", false);
    for (int i = 0; i < LAYERS_MAX && (type = sg_config_string_at(c, "layer_types", i)) != NULL; i++)
        if (strcmp(type, "full_attention") != 0)
            sg_config_fail(c, "layer_types", "layer %d: \"%s\" is not supported; \"full_attention\" is", i,
                           sg_show(type));
}

static void read_sizes(sg_decoder *l, sg_config *c)
{
    l->size = (sg_decoder_info){.kind = kinds[l->kind],
                                .width = required(c, "hidden_size", 1 << 20),
                                .layers = required(c, "num_hidden_layers", 1 << 12),
                                .heads = required(c, "num_attention_heads", 1 << 14),
                                .ffn = required(c, "intermediate_size", 1 << 24),
                                .vocab = required(c, "vocab_size", INT32_MAX)};
    const int heads = l->size.heads, usual = l->size.width / heads > 0 ? l->size.width / heads : 1;
    l->size.key_heads = l->kind == LLAMA ? with_default(c, "num_key_value_heads", 1 << 14, heads)
                                         : required(c, "num_key_value_heads", 1 << 14);
    l->size.head_dim = with_default(c, "head_dim", 1 << 16, l->kind == QWEN3 ? 128 : usual);
    l->size.longest = sg_config_int(c, "max_position_embeddings", 1, INT32_MAX, &(int64_t){0});
    l->size.tied = sg_config_bool(c, "tie_word_embeddings", &(bool){false});
    if (heads % l->size.key_heads)
        sg_config_fail(c, "num_key_value_heads", "%d does not divide the %d heads", l->size.key_heads, heads);
    if (l->size.head_dim % 2) sg_config_fail(c, "head_dim", "%d should be even", l->size.head_dim);
}

static sg_status read_config(sg_decoder *l, sg_config *c, sg_error *e)
{
    char              path[1200];
    const char *const kind = sg_config_string(c, "model_type", kinds[LLAMA]);
    while (l->kind < KINDS && strcmp(kind, kinds[l->kind]) != 0) l->kind++;
    if (l->kind == KINDS)
        sg_config_fail(c, "model_type", "\"%s\" is not supported; \"llama\", \"qwen2\" and \"qwen3\" are",
                       sg_show(kind));
    SG_TRY(sg_config_status(c));
    sg_config_only(c, "hidden_act", "silu", "silu");
    read_sizes(l, c);
    check_windows(c);
    l->eps = (float)sg_config_real(c, "rms_norm_eps", 1e-12, 1.0, &(double){1e-6});
    l->theta = sg_config_real(c, "rope_theta", 1.0, 1e12, &(double){10000.0});
    l->by_pairs = sg_config_bool(c, "rope_by_pairs", &(bool){false});
    static const char *const biases[] = {"attention_bias", "mlp_bias"};
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++)
        if (sg_config_bool(c, biases[i], &(bool){false})) sg_config_fail(c, biases[i], "should be false");
    SG_TRY(sg_config_status(c));
    const char *const key = sg_config_has(c, "rope_parameters") ? "rope_parameters" : "rope_scaling";
    sg_config        *rope = NULL;
    snprintf(path, sizeof path, "%s/config.json: %s", l->component.dir, key);
    SG_TRY(sg_config_member(&rope, c, key, path, e));
    read_rope(l, rope);
    const sg_status status = sg_config_status(rope);
    sg_config_close(&rope);
    return status;
}

/* ---- weights ---- */

static const char *const prefixes[] = {"", "model.", "language_model.model."};

static const char *prefix_of(const sg_decoder *l)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        sg_bind_prefix(l->component.bind, "%s", prefixes[i]);
        if (sg_bind_has(l->component.bind, "embed_tokens.weight") ||
            sg_bind_has(l->component.bind, "layers.0.input_layernorm.weight"))
            return prefixes[i];
    }
    return "";
}

/* q or k: its rows, and what goes with them, in the order of the rotation. */
static void want_rotated(sg_decoder *l, const char *name, int64_t rows, sg_tensor *w, sg_tensor *bias, sg_tensor *norm)
{
    sg_bind *const b = l->component.bind;
    char           full[64];
    sg_bind_pairs(b, l->by_pairs ? 0 : l->size.head_dim);
    snprintf(full, sizeof full, "self_attn.%s_proj.weight", name);
    sg_bind_matrix(b, w, l->component.act, full, rows, l->size.width);
    snprintf(full, sizeof full, "self_attn.%s_proj.bias", name);
    if (l->kind == QWEN2) sg_bind_tensor(b, bias, SG_F32, full, rows);
    snprintf(full, sizeof full, "self_attn.%s_norm.weight", name);
    if (l->kind == QWEN3) sg_bind_tensor(b, norm, SG_F32, full, l->size.head_dim);
    sg_bind_pairs(b, 0);
}

static void want_layer(sg_decoder *l, int i, const char *prefix)
{
    sg_bind *const       b = l->component.bind;
    decoder_layer *const w = &l->layer[i];
    const sg_dtype       act = l->component.act;
    const int64_t        c = l->size.width, d = l->size.head_dim, hd = l->size.heads * d, kd = l->size.key_heads * d;
    const int64_t        f = l->size.ffn;
    sg_bind_block(b, i);
    sg_bind_prefix(b, "%slayers.%d.", prefix, i);
    sg_bind_tensor(b, &w->norm[0], SG_F32, "input_layernorm.weight", c);
    want_rotated(l, "q", hd, &w->q, &w->q_b, &w->q_norm);
    want_rotated(l, "k", kd, &w->k, &w->k_b, &w->k_norm);
    sg_bind_matrix(b, &w->v, act, "self_attn.v_proj.weight", kd, c);
    if (l->kind == QWEN2) sg_bind_tensor(b, &w->v_b, SG_F32, "self_attn.v_proj.bias", kd);
    sg_bind_matrix(b, &w->o, act, "self_attn.o_proj.weight", c, hd);
    sg_bind_tensor(b, &w->norm[1], SG_F32, "post_attention_layernorm.weight", c);
    sg_bind_matrix(b, &w->gate, act, "mlp.gate_proj.weight", f, c);
    sg_bind_matrix(b, &w->up, act, "mlp.up_proj.weight", f, c);
    sg_bind_matrix(b, &w->down, act, "mlp.down_proj.weight", c, f);
}

/* What begins so may be there without anybody wanting it. */
static void ignore(const sg_decoder *l, const char *begins)
{
    char                file[SG_NAME_MAX];
    const sg_name_rule *rule;
    sg_bind_ignore(l->component.bind, sg_name_map_find(l->component.map, begins, file, &rule) ? file : begins);
}

/* The table and the head of a language model: products and rows are of one tensor where they are tied. */
static void want_head(sg_decoder *l, const char *prefix)
{
    static const char name[] = "lm_head.weight";
    sg_bind *const    b = l->component.bind;
    const int64_t     o = l->size.vocab, c = l->size.width;
    const size_t      own = strlen(prefix) - (*prefix ? strlen("model.") : 0);
    sg_bind_tensor(b, &l->embedding, l->component.act, "embed_tokens.weight", o, c);
    sg_bind_prefix(b, "%.*s", (int)own, prefix);
    l->size.tied = l->size.tied || !sg_bind_has(b, name);
    if (l->size.tied)
        ignore(l, "lm_head.");
    else
        sg_bind_matrix(b, &l->head, l->component.act, name, o, c);
}

static sg_status want_weights(sg_decoder *l, bool head, sg_error *e)
{
    sg_bind *const    b = l->component.bind;
    const char *const prefix = prefix_of(l);
    char              name[64];
    for (int i = 0; i < l->loaded; i++) want_layer(l, i, prefix);
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    l->slower = sg_bind_peek(b, "rope_freqs.weight");
    if (l->slower.type && (l->slower.rank != 1 || l->slower.dim[0] != l->size.head_dim / 2))
        return sg_error_set(e, SG_E_FORMAT, "%s: rope_freqs.weight: should be F32 [%d], half of a head's channels",
                            sg_source_path(l->component.source), l->size.head_dim / 2);
    sg_bind_prefix(b, "%s", prefix);
    if (l->loaded == l->size.layers)
        sg_bind_tensor(b, &l->norm, SG_F32, "norm.weight", l->size.width);
    else
        ignore(l, "norm.weight");
    for (int i = l->loaded; i < l->size.layers; i++) {
        snprintf(name, sizeof name, "layers.%d.", i);
        ignore(l, name);
    }
    static const char *const others[] = {"rotary_emb.inv_freq", "vision_tower.", "multi_modal_projector."};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) ignore(l, others[i]);
    if (head) {
        want_head(l, prefix);
        return sg_bind_check(b, e);
    }
    ignore(l, "lm_head.");
    snprintf(name, sizeof name, "%sembed_tokens.weight", prefix);
    return sg_token_table_open(&l->table, &l->component, name, name, l->size.vocab, l->size.width, e);
}

static sg_status open_into(sg_decoder *l, const sg_checkpoint *from, const char *name, int skip, bool head,
                           sg_dtype act, sg_error *e)
{
    sg_config *c = NULL;
    sg_status  status = sg_component_open(&l->component, from, name, NULL, act, &c, e);
    if (status == SG_OK) status = read_config(l, c, e);
    sg_config_close(&c);
    SG_TRY(status);
    l->loaded = l->size.layers - skip;
    if (skip < 0 || l->loaded < 0)
        return sg_error_set(e, SG_E_FORMAT, "%s/config.json: num_hidden_layers: %d, of which %d would be left out",
                            l->component.dir, l->size.layers, skip);
    l->layer =
        sg_layers_new(&l->component, "num_hidden_layers", l->size.layers, l->loaded, sizeof *l->layer, &status, e);
    SG_TRY(status);
    return want_weights(l, head, e);
}

sg_status sg_decoder_open(sg_decoder **out, const sg_checkpoint *c, const char *name, int skip, bool head, sg_dtype act,
                          sg_error *e)
{
    *out = NULL;
    sg_decoder *l = calloc(1, sizeof *l);
    if (!l) return sg_error_set(e, SG_E_MEMORY, "no memory for %s", name);
    const sg_status status = open_into(l, c, name, skip, head, act, e);
    if (status) {
        sg_decoder_close(&l);
        return status;
    }
    const sg_decoder_info z = l->size;
    snprintf(l->component.summary, sizeof l->component.summary,
             "%d of %d layers, width %d, %d heads x %d, %d of keys, ffn %d, %d ids", l->loaded, z.layers, z.width,
             z.heads, z.head_dim, z.key_heads, z.ffn, z.vocab);
    *out = l;
    return SG_OK;
}

void sg_decoder_close(sg_decoder **l)
{
    if (!*l) return;
    sg_component_close(&(*l)->component);
    free((*l)->layer);
    free(*l);
    *l = NULL;
}

sg_component *sg_decoder_component(sg_decoder *l) { return &l->component; }

sg_decoder_info sg_decoder_describe(const sg_decoder *l) { return l->size; }

/* ---- rotation ---- */

/* In F32 up to the angle, as transformers has it. */
static float frequency(const sg_decoder *l, int pair)
{
    const rope_scaling *const r = &l->scaling;
    const double              exponent = (double)((float)(2 * pair) / (float)l->size.head_dim);
    const float               f = 1.0f / (float)pow(l->theta, exponent);
    float                     slower = 1;
    if (l->slower.from) {
        (void)sg_bind_row(&l->slower, pair, &slower);
        return slower > 0 ? f / slower : f;
    }
    if (r->factor == 0) return f;
    const double turns = r->before * (double)f / (2 * M_PI), share = (turns - r->low) / (r->high - r->low);
    if (turns < r->low) return (float)((double)f / r->factor);
    return turns > r->high ? f : (float)((1 - share) * (double)f / r->factor + share * (double)f);
}

void sg_decoder_rotation(const sg_decoder *l, sg_stream *s, sg_tensor cosines, sg_tensor sines)
{
    const int     half = l->size.head_dim / 2;
    const int64_t n = cosines.dim[0];
    const size_t  count = (size_t)n * (size_t)half;
    float *const  host = s->status || !s->memory->alloc ? NULL : malloc(2 * count * sizeof *host);
    if (!s->status && s->memory->alloc && !host)
        sg_fail(s, SG_E_MEMORY, "no memory for the rotation of %lld tokens", (long long)n);
    for (int j = 0; host && j < half; j++) {
        const float f = frequency(l, j);
        for (int64_t i = 0; i < n; i++) {
            const size_t at = (size_t)i * (size_t)half + (size_t)j;
            const float  angle = (float)i * f;
            host[at] = (float)cos((double)angle);
            host[count + at] = (float)sin((double)angle);
        }
    }
    if (host) {
        sg_upload(s, cosines, host);
        sg_upload(s, sines, host + count);
    }
    free(host);
}

/* ---- layers ---- */

/* y [n, h, d] = x w + b, with each head's norm where there is one, rotated. */
static void rotate(const sg_decoder *l, sg_stream *s, sg_tensor y, sg_tensor x, sg_tensor w, sg_tensor b,
                   sg_tensor norm, const sg_decoder_piece *p)
{
    const size_t    mark = s->scratch.used;
    const int64_t   n = y.dim[0], h = y.dim[1], d = y.dim[2];
    const sg_tensor plain = sg_new(s, y.dtype, n, h, d);
    sg_linear(s, .y = sg_reshape(plain, n, h * d), .x = x, .w = w, .b = b);
    sg_rope(s, .y = y, .x = plain, .w = norm, .cos = sg_rows(p->cache.cos, p->at, n),
            .sin = sg_rows(p->cache.sin, p->at, n), .eps = l->eps);
    s->scratch.used = mark;
}

/* [tokens, key_heads, d]: a layer's part of the keys or the values. */
static sg_tensor of_layer(sg_tensor t, int layer)
{
    return sg_reshape(sg_rows(t, layer, 1), t.dim[1], t.dim[2], t.dim[3]);
}

static void attention(const sg_decoder *l, sg_stream *s, int layer, sg_tensor x, const sg_decoder_piece *p)
{
    const decoder_layer *const w = &l->layer[layer];
    const size_t               mark = s->scratch.used;
    const sg_dtype             act = l->component.act;
    const int64_t   n = x.dim[0], c = x.dim[1], h = l->size.heads, g = l->size.key_heads, d = l->size.head_dim;
    const sg_tensor keys = of_layer(p->cache.k, p->cache.k.dim[0] > 1 ? layer : 0);
    const sg_tensor values = of_layer(p->cache.v, p->cache.v.dim[0] > 1 ? layer : 0);
    const sg_tensor y = sg_new(s, act, n, c), q = sg_new(s, act, n, h, d), a = sg_new(s, act, n, h, d);
    sg_norm(s, .y = y, .x = x, .w = w->norm[0], .kind = SG_NORM_RMS, .eps = l->eps);
    rotate(l, s, q, y, w->q, w->q_b, w->q_norm, p);
    rotate(l, s, sg_rows(keys, p->at, n), y, w->k, w->k_b, w->k_norm, p);
    sg_linear(s, .y = sg_reshape(sg_rows(values, p->at, n), n, g * d), .x = y, .w = w->v, .b = w->v_b);
    const sg_attend_args args = {.y = a,
                                 .q = q,
                                 .k = sg_rows(keys, 0, p->at + n),
                                 .v = sg_rows(values, 0, p->at + n),
                                 .scale = (float)(1 / sqrt((double)d)),
                                 .causal = true};
    if (p->attend)
        p->attend(p->context, s, layer, &args);
    else
        sg_attend_(s, &args);
    sg_linear(s, .y = x, .x = sg_reshape(a, n, h * d), .w = w->o, .add = true);
    s->scratch.used = mark;
}

static void run_layers(const sg_decoder *l, sg_stream *s, const sg_decoder_piece *p, sg_tensor x)
{
    sg_tap(s, x, "text.embed");
    for (int i = 0; i < l->loaded && !s->status; i++) {
        const decoder_layer *const w = &l->layer[i];
        if (p->layer && p->layer(p->context, i)) sg_fail(s, SG_E_CANCELLED, "cancelled");
        sg_bind_fetch(l->component.bind, s, i);
        attention(l, s, i, x, p);
        sg_tap(s, x, "text.block.%d.attn", i);
        sg_gated_feed_forward(s, &(sg_gated){w->norm[1], w->gate, w->up, w->down, SG_ACT_SILU, l->eps}, x);
        sg_tap(s, x, "text.block.%d.ff", i);
    }
}

void sg_decoder_encode(const sg_decoder *l, sg_stream *s, sg_tensor y, const int32_t *ids, int n)
{
    if (!sg_token_table_has(&l->table, s, ids, n, TOKENS_MAX)) return;
    const size_t     mark = s->scratch.used;
    const int        g = l->size.key_heads, d = l->size.head_dim;
    const bool       whole = l->loaded == l->size.layers;
    const sg_tensor  x = whole ? sg_new(s, SG_F32, n, l->size.width) : y;
    sg_decoder_piece p = {0}; /* each layer's keys and values take the place of the last one's */
    p.cache = (sg_decoder_cache){sg_new(s, SG_F32, n, d / 2), sg_new(s, SG_F32, n, d / 2),
                                 sg_new(s, l->component.act, 1, n, g, d), sg_new(s, l->component.act, 1, n, g, d)};
    sg_decoder_rotation(l, s, p.cache.cos, p.cache.sin);
    sg_token_table_embed(&l->table, s, x, ids, n);
    run_layers(l, s, &p, x);
    if (whole) sg_norm(s, .y = y, .x = x, .w = l->norm, .kind = SG_NORM_RMS, .eps = l->eps);
    sg_tap(s, y, "text.final");
    s->scratch.used = mark;
}

/* ---- a language model ---- */

void sg_decoder_run(const sg_decoder *l, sg_stream *s, const sg_decoder_piece *p, sg_tensor x, const int32_t *ids)
{
    const size_t    mark = s->scratch.used;
    const int64_t   n = x.dim[0];
    const sg_tensor on_device = sg_new(s, SG_I32, n);
    if (ids && !sg_ids_known(s, l->component.name, l->size.vocab, ids, n)) return;
    if (ids) sg_upload(s, on_device, ids);
    sg_embed(s, .y = x, .w = l->embedding, .ids = on_device);
    run_layers(l, s, p, x);
    s->scratch.used = mark;
}

void sg_decoder_logits(const sg_decoder *l, sg_stream *s, sg_tensor y, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor normed = sg_new(s, l->component.act, x.dim[0], x.dim[1]);
    sg_norm(s, .y = normed, .x = x, .w = l->norm, .kind = SG_NORM_RMS, .eps = l->eps);
    sg_linear(s, .y = y, .x = normed, .w = l->size.tied ? l->embedding : l->head);
    s->scratch.used = mark;
}
