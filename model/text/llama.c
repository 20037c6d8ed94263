/* llama.c - see llama.h.
 *
 * Tensors, each with or without "model." or "language_model.model." in front, l = 0 .. layers - 1:
 *   embed_tokens.weight [vocab, width]
 *   layers.l.{input_layernorm,post_attention_layernorm}.weight [width]
 *   layers.l.self_attn.q_proj.weight [heads d, width], .{k,v}_proj.weight [key_heads d, width], .o_proj.weight [width, heads d]
 *   layers.l.mlp.{gate,up}_proj.weight [ffn, width], .down_proj.weight [width, ffn]
 *   norm.weight [width]
 *
 * Rotation pairs channel i of a head with channel i + d/2. sg_rope pairs neighbours, so the channels of q and k are put in that
 * order before it, where the weights do not have it so (rope_by_pairs, of a GGUF); scores do not depend on the order. Each head of keys serves heads / key_heads neighbouring heads of queries, and
 * is repeated for them: a text is short beside the weights. */
#include "llama.h"

#include "text_layers.h"
#include "token_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 4096 };

/* ---- config ---- */

/* Llama 3.1's frequencies: a wave longer than before / low turns slower by factor, one shorter than before / high as it was, those
 * between in between. */
typedef struct rope_scaling {
    double factor, low, high, before; /* factor 0: none */
} rope_scaling;

typedef struct llama_layer {
    sg_tensor norm[2];        /* [width]: of attention, of the feed-forward part */
    sg_tensor q, k, v, o;     /* [heads d, width] [key_heads d, width] x 2 [width, heads d] */
    sg_tensor gate, up, down; /* [ffn, width] x 2 [width, ffn] */
} llama_layer;

struct sg_llama {
    sg_component   component;
    sg_llama_info  size;
    double         theta;
    rope_scaling   scaling;
    float          eps;
    bool           by_pairs; /* the rows of q and k are in the order of the rotation */
    int            loaded;   /* layers that compute */
    llama_layer   *layer;    /* loaded */
    sg_tensor      norm;     /* [width]? */
    sg_token_table table;
};

static int required(sg_config *c, const char *key, int64_t hi) { return (int)sg_config_int(c, key, 1, hi, NULL); }

static int with_default(sg_config *c, const char *key, int64_t hi, int64_t usual)
{
    return (int)sg_config_int(c, key, 1, hi, &usual);
}

/* transformers 5 has theta among the other numbers of rotation, older files have it at the top. */
static void read_rope(sg_llama *l, sg_config *rope)
{
    const char *const old = sg_config_string(rope, "type", "default");
    const char *const type = sg_config_string(rope, "rope_type", old);
    l->theta = sg_config_real(rope, "rope_theta", 1.0, 1e12, &l->theta);
    if (type && strcmp(type, "llama3") == 0)
        l->scaling = (rope_scaling){sg_config_real(rope, "factor", 1.0, 1e6, NULL),
                                    sg_config_real(rope, "low_freq_factor", 1e-6, 1e6, NULL),
                                    sg_config_real(rope, "high_freq_factor", 1e-6, 1e6, NULL),
                                    sg_config_real(rope, "original_max_position_embeddings", 1.0, 1e9, NULL)};
    else if (type && strcmp(type, "default") != 0)
        sg_config_fail(rope, "rope_type", "\"%s\" is not supported; \"default\" and \"llama3\" are", type);
    if (l->scaling.factor > 0 && l->scaling.high <= l->scaling.low)
        sg_config_fail(rope, "high_freq_factor", "should be above low_freq_factor");
}

static sg_status read_config(sg_llama *l, sg_config *c, sg_error *e)
{
    char path[1200];
    sg_config_only(c, "model_type", "llama", "llama");
    sg_config_only(c, "hidden_act", "silu", "silu");
    l->size = (sg_llama_info){.width = required(c, "hidden_size", 1 << 20),
                              .layers = required(c, "num_hidden_layers", 1 << 12),
                              .heads = required(c, "num_attention_heads", 1 << 14),
                              .ffn = required(c, "intermediate_size", 1 << 24),
                              .vocab = required(c, "vocab_size", INT32_MAX)};
    const int heads = l->size.heads;
    l->size.key_heads = with_default(c, "num_key_value_heads", 1 << 14, heads);
    l->size.head_dim = with_default(c, "head_dim", 1 << 16, l->size.width / heads > 0 ? l->size.width / heads : 1);
    l->eps = (float)sg_config_real(c, "rms_norm_eps", 1e-12, 1.0, &(double){1e-6});
    l->theta = sg_config_real(c, "rope_theta", 1.0, 1e12, &(double){10000.0});
    l->by_pairs = sg_config_bool(c, "rope_by_pairs", &(bool){false});
    static const char *const biases[] = {"attention_bias", "mlp_bias"};
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++)
        if (sg_config_bool(c, biases[i], &(bool){false})) sg_config_fail(c, biases[i], "should be false");
    if (heads % l->size.key_heads)
        sg_config_fail(c, "num_key_value_heads", "%d does not divide the %d heads", l->size.key_heads, heads);
    if (l->size.head_dim % 2) sg_config_fail(c, "head_dim", "%d should be even", l->size.head_dim);
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

static const char *prefix_of(const sg_llama *l)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        sg_bind_prefix(l->component.bind, "%s", prefixes[i]);
        if (sg_bind_has(l->component.bind, "embed_tokens.weight")) return prefixes[i];
    }
    return "";
}

static void want_layer(sg_llama *l, int i, const char *prefix)
{
    sg_bind *const     b = l->component.bind;
    llama_layer *const w = &l->layer[i];
    const sg_dtype     act = l->component.act;
    const int64_t      c = l->size.width, d = l->size.head_dim, hd = l->size.heads * d, kd = l->size.key_heads * d;
    const int64_t      f = l->size.ffn;
    sg_bind_block(b, i);
    sg_bind_prefix(b, "%slayers.%d.", prefix, i);
    sg_bind_tensor(b, &w->norm[0], SG_F32, "input_layernorm.weight", c);
    sg_bind_matrix(b, &w->q, act, "self_attn.q_proj.weight", hd, c);
    sg_bind_matrix(b, &w->k, act, "self_attn.k_proj.weight", kd, c);
    sg_bind_matrix(b, &w->v, act, "self_attn.v_proj.weight", kd, c);
    sg_bind_matrix(b, &w->o, act, "self_attn.o_proj.weight", c, hd);
    sg_bind_tensor(b, &w->norm[1], SG_F32, "post_attention_layernorm.weight", c);
    sg_bind_matrix(b, &w->gate, act, "mlp.gate_proj.weight", f, c);
    sg_bind_matrix(b, &w->up, act, "mlp.up_proj.weight", f, c);
    sg_bind_matrix(b, &w->down, act, "mlp.down_proj.weight", c, f);
}

/* What begins so may be there without anybody wanting it. */
static void ignore(const sg_llama *l, const char *begins)
{
    char                file[SG_NAME_MAX];
    const sg_name_rule *rule;
    sg_bind_ignore(l->component.bind, sg_name_map_find(l->component.map, begins, file, &rule) ? file : begins);
}

static sg_status want_weights(sg_llama *l, sg_error *e)
{
    sg_bind *const    b = l->component.bind;
    const char *const prefix = prefix_of(l);
    char              name[64];
    for (int i = 0; i < l->loaded; i++) want_layer(l, i, prefix);
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", prefix);
    if (l->loaded == l->size.layers)
        sg_bind_tensor(b, &l->norm, SG_F32, "norm.weight", l->size.width);
    else
        ignore(l, "norm.weight");
    for (int i = l->loaded; i < l->size.layers; i++) {
        snprintf(name, sizeof name, "layers.%d.", i);
        ignore(l, name);
    }
    static const char *const others[] = {"lm_head.", "rotary_emb.inv_freq", "vision_tower.", "multi_modal_projector."};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) ignore(l, others[i]);
    snprintf(name, sizeof name, "%sembed_tokens.weight", prefix);
    return sg_token_table_open(&l->table, &l->component, name, name, l->size.vocab, l->size.width, e);
}

static sg_status open_into(sg_llama *l, const sg_checkpoint *from, const char *name, int skip, sg_dtype act,
                           sg_error *e)
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
    return want_weights(l, e);
}

sg_status sg_llama_open(sg_llama **out, const sg_checkpoint *c, const char *name, int skip, sg_dtype act, sg_error *e)
{
    *out = NULL;
    sg_llama *l = calloc(1, sizeof *l);
    if (!l) return sg_error_set(e, SG_E_MEMORY, "no memory for %s", name);
    const sg_status status = open_into(l, c, name, skip, act, e);
    if (status) {
        sg_llama_close(&l);
        return status;
    }
    const sg_llama_info z = l->size;
    snprintf(l->component.summary, sizeof l->component.summary,
             "%d of %d layers, width %d, %d heads x %d, %d of keys, ffn %d, %d ids", l->loaded, z.layers, z.width,
             z.heads, z.head_dim, z.key_heads, z.ffn, z.vocab);
    *out = l;
    return SG_OK;
}

void sg_llama_close(sg_llama **l)
{
    if (!*l) return;
    sg_component_close(&(*l)->component);
    free((*l)->layer);
    free(*l);
    *l = NULL;
}

sg_component *sg_llama_component(sg_llama *l) { return &l->component; }

sg_llama_info sg_llama_describe(const sg_llama *l) { return l->size; }

/* ---- rotation ---- */

/* In F32 up to the angle, as transformers has it. */
static float frequency(const sg_llama *l, int pair)
{
    const rope_scaling *const r = &l->scaling;
    const double              exponent = (double)((float)(2 * pair) / (float)l->size.head_dim);
    const float               f = 1.0f / (float)pow(l->theta, exponent);
    if (r->factor == 0) return f;
    const double turns = r->before * (double)f / (2 * M_PI), share = (turns - r->low) / (r->high - r->low);
    if (turns < r->low) return (float)((double)f / r->factor);
    return turns > r->high ? f : (float)((1 - share) * (double)f / r->factor + share * (double)f);
}

typedef struct rotation {
    sg_tensor cos, sin; /* F32 [n, d/2] */
} rotation;

static rotation new_rotation(const sg_llama *l, sg_stream *s, int n)
{
    const int      half = l->size.head_dim / 2;
    const rotation r = {sg_new(s, SG_F32, n, half), sg_new(s, SG_F32, n, half)};
    const size_t   count = (size_t)n * (size_t)half;
    float *const   host = s->status ? NULL : malloc(2 * count * sizeof *host);
    if (!s->status && !host) sg_fail(s, SG_E_MEMORY, "no memory for the rotation of %d tokens", n);
    for (int j = 0; host && j < half; j++) {
        const float f = frequency(l, j);
        for (int i = 0; i < n; i++) {
            const size_t at = (size_t)i * (size_t)half + (size_t)j;
            const float  angle = (float)i * f;
            host[at] = (float)cos((double)angle);
            host[count + at] = (float)sin((double)angle);
        }
    }
    if (host) {
        sg_upload(s, r.cos, host);
        sg_upload(s, r.sin, host + count);
    }
    free(host);
    return r;
}

/* ---- encoder ---- */

/* [n, h, d]: x w, its channels in pairs and rotated. */
static sg_tensor rotated(const sg_llama *l, sg_stream *s, sg_tensor x, sg_tensor w, const rotation *r)
{
    const sg_dtype  act = l->component.act;
    const int64_t   n = x.dim[0], d = l->size.head_dim, h = w.dim[0] / d;
    const sg_tensor y = sg_new(s, act, n, h, d), plain = sg_new(s, act, n, h, d);
    const sg_tensor pairs = l->by_pairs ? plain : sg_new(s, act, n, h, d);
    sg_linear(s, .y = sg_reshape(plain, n, h * d), .x = x, .w = w);
    if (!l->by_pairs) sg_permute(s, .y = pairs, .x = plain, .rank = 3, .dim = {n * h, 2, d / 2}, .perm = {0, 2, 1});
    sg_rope(s, .y = y, .x = pairs, .cos = r->cos, .sin = r->sin);
    return y;
}

/* [n, heads, d]: each of x's heads as often as heads of queries use it. */
static sg_tensor repeated(sg_stream *s, sg_tensor x, int64_t heads)
{
    const int64_t n = x.dim[0], g = x.dim[1], d = x.dim[2];
    if (g == heads) return x;
    const sg_tensor y = sg_new(s, x.dtype, n, heads, d);
    sg_strided_copy(s, .y = sg_reshape(y, n * g, heads / g, d), .x = sg_reshape(x, n * g * d), .token = d);
    return y;
}

static void attention(const sg_llama *l, sg_stream *s, const llama_layer *w, sg_tensor x, const rotation *r,
                      sg_tensor bias)
{
    const size_t    mark = s->scratch.used;
    const sg_dtype  act = l->component.act;
    const int64_t   n = x.dim[0], c = x.dim[1], h = l->size.heads, g = l->size.key_heads, d = l->size.head_dim;
    const sg_tensor y = sg_new(s, act, n, c), v = sg_new(s, act, n, g, d), a = sg_new(s, act, n, h, d);
    sg_norm(s, .y = y, .x = x, .w = w->norm[0], .kind = SG_NORM_RMS, .eps = l->eps);
    const sg_tensor q = rotated(l, s, y, w->q, r), k = rotated(l, s, y, w->k, r);
    sg_linear(s, .y = sg_reshape(v, n, g * d), .x = y, .w = w->v);
    sg_attend(s, .y = a, .q = q, .k = repeated(s, k, h), .v = repeated(s, v, h), .bias = bias,
              .scale = (float)(1 / sqrt((double)d)));
    sg_linear(s, .y = x, .x = sg_reshape(a, n, h * d), .w = w->o, .add = true);
    s->scratch.used = mark;
}

void sg_llama_encode(const sg_llama *l, sg_stream *s, sg_tensor y, const int32_t *ids, int n)
{
    if (!sg_token_table_has(&l->table, s, ids, n, TOKENS_MAX)) return;
    const size_t    mark = s->scratch.used;
    const bool      whole = l->loaded == l->size.layers;
    const sg_tensor x = whole ? sg_new(s, SG_F32, n, l->size.width) : y;
    const sg_tensor bias = sg_causal_bias(s, l->size.heads, n);
    const rotation  r = new_rotation(l, s, n);
    sg_token_table_embed(&l->table, s, x, ids, n);
    sg_tap(s, x, "text.embed");
    for (int i = 0; i < l->loaded; i++) {
        const llama_layer *const w = &l->layer[i];
        sg_bind_fetch(l->component.bind, s, i);
        attention(l, s, w, x, &r, bias);
        sg_tap(s, x, "text.block.%d.attn", i);
        sg_gated_feed_forward(s, &(sg_gated){w->norm[1], w->gate, w->up, w->down, SG_ACT_SILU, l->eps}, x);
        sg_tap(s, x, "text.block.%d.ff", i);
    }
    if (whole) sg_norm(s, .y = y, .x = x, .w = l->norm, .kind = SG_NORM_RMS, .eps = l->eps);
    sg_tap(s, y, "text.final");
    s->scratch.used = mark;
}
