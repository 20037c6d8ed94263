/* t5.c - the encoder of T5 v1.1 (Raffel et al., 2020; Shazeer, 2020), mT5 and UMT5 (Chung et al., 2023).
 *
 * Tensors, b = 0 .. layers - 1, inner = heads d:
 *   shared.weight or encoder.embed_tokens.weight [vocab, width]; where both are there, the second is used
 *   encoder.block.b.layer.0.layer_norm.weight [width]
 *   encoder.block.b.layer.0.SelfAttention.{q,k,v}.weight [inner, width], .o.weight [width, inner]
 *   encoder.block.b.layer.0.SelfAttention.relative_attention_bias.weight [buckets, heads]: UMT5 in each block, T5 in 0
 *   encoder.block.b.layer.1.layer_norm.weight [width]
 *   encoder.block.b.layer.1.DenseReluDense.{wi_0,wi_1}.weight [ffn, width] or wi.weight, wo.weight [width, ffn]
 *   encoder.final_layer_norm.weight [width]
 *
 * Scores are not scaled by 1/sqrt(d); norms are RMS without bias; embeddings are not scaled. The bias of key j for
 * query i is a row of the table, that of the bucket of j - i. */
#include "t5.h"
#include "base/text.h"

#include "text_layers.h"
#include "token_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- config ---- */

enum { TOKENS_MAX = 1 << 14 };

typedef struct t5_config {
    sg_t5_info size;
    int        buckets, max_distance;
    float      eps;
    bool       gated; /* gelu(wi_0 x) (wi_1 x); else relu(wi x) */
} t5_config;

/* T5's first published configs leave out feed_forward_proj; transformers then assumes what each class began with. */
static const char *default_feed_forward(sg_config *c)
{
    static const char *const known[] = {"t5", "mt5", "umt5"};
    const char *const        type = sg_config_string(c, "model_type", "t5");
    for (size_t i = 0; type && i < sizeof known / sizeof *known; i++)
        if (!strcmp(type, known[i])) return i == 0 ? "relu" : "gated-gelu";
    if (type) sg_config_fail(c, "model_type", "\"%s\" is not supported; t5, mt5 and umt5 are", type);
    return "relu";
}

/* feed_forward_proj decides; the two fields that it implies must agree where they stand. */
static bool read_gated(sg_config *c)
{
    const bool        gated = sg_config_either(c, "feed_forward_proj", "gated-gelu", "relu", default_feed_forward(c));
    const char *const implied = gated ? "gelu_new" : "relu";
    sg_config_only(c, "dense_act_fn", implied, implied);
    if (sg_config_bool(c, "is_gated_act", &gated) != gated)
        sg_config_fail(c, "is_gated_act", "contradicts feed_forward_proj \"%s\"", gated ? "gated-gelu" : "relu");
    return gated;
}

static int required(sg_config *c, const char *key, int64_t hi) { return (int)sg_config_int(c, key, 1, hi, NULL); }

static t5_config read_config(sg_config *c)
{
    t5_config r = {.size.width = required(c, "d_model", 1 << 20),
                   .size.head_dim = required(c, "d_kv", 1 << 16),
                   .size.heads = required(c, "num_heads", 1 << 14),
                   .size.layers = required(c, "num_layers", 1 << 14),
                   .size.ffn = required(c, "d_ff", 1 << 24),
                   .size.vocab = required(c, "vocab_size", INT32_MAX)};
    r.buckets = (int)sg_config_int(c, "relative_attention_num_buckets", 4, 1 << 16, &(int64_t){32});
    r.max_distance = (int)sg_config_int(c, "relative_attention_max_distance", 1, 1 << 20, &(int64_t){128});
    r.eps = (float)sg_config_real(c, "layer_norm_epsilon", 1e-12, 1.0, &(double){1e-6});
    r.gated = read_gated(c);
    if (r.max_distance <= r.buckets / 4)
        sg_config_fail(c, "relative_attention_max_distance", "%d must be above a quarter of the %d buckets",
                       r.max_distance, r.buckets);
    return r;
}

/* ---- weights ---- */

typedef struct t5_block {
    sg_tensor attn_norm; /* [width] */
    sg_tensor q, k, v;   /* [inner, width] */
    sg_tensor o;         /* [width, inner] */
    sg_tensor bias;      /* [buckets, heads]? */
    sg_tensor ff_norm;   /* [width] */
    sg_tensor wi, gate;  /* [ffn, width] [ffn, width]? */
    sg_tensor wo;        /* [width, ffn] */
} t5_block;

struct sg_t5 {
    sg_component   component;
    t5_config      config;
    t5_block      *block;
    sg_tensor      final_norm; /* [width] */
    sg_token_table embed;
};

static void bind_block(sg_t5 *t, int i, t5_block *w, bool with_bias)
{
    sg_bind *const   b = t->component.bind;
    const sg_dtype   act = t->component.act;
    const sg_t5_info d = t->config.size;
    const int64_t    width = d.width, inner = (int64_t)d.heads * d.head_dim, ffn = d.ffn;
    sg_bind_block(b, i);
    sg_bind_prefix(b, "encoder.block.%d.layer.0.", i);
    sg_bind_tensor(b, &w->attn_norm, SG_F32, "layer_norm.weight", width);
    sg_bind_matrix(b, &w->q, act, "SelfAttention.q.weight", inner, width);
    sg_bind_matrix(b, &w->k, act, "SelfAttention.k.weight", inner, width);
    sg_bind_matrix(b, &w->v, act, "SelfAttention.v.weight", inner, width);
    sg_bind_matrix(b, &w->o, act, "SelfAttention.o.weight", width, inner);
    if (with_bias)
        sg_bind_tensor(b, &w->bias, SG_F32, "SelfAttention.relative_attention_bias.weight", t->config.buckets, d.heads);

    sg_bind_prefix(b, "encoder.block.%d.layer.1.", i);
    sg_bind_tensor(b, &w->ff_norm, SG_F32, "layer_norm.weight", width);
    sg_bind_matrix(b, &w->wi, act, t->config.gated ? "DenseReluDense.wi_0.weight" : "DenseReluDense.wi.weight", ffn,
                   width);
    if (t->config.gated) sg_bind_matrix(b, &w->gate, act, "DenseReluDense.wi_1.weight", ffn, width);
    sg_bind_matrix(b, &w->wo, act, "DenseReluDense.wo.weight", width, ffn);
}

/* One bias in a block after the first makes it a UMT5: then every block must have its own. */
static bool bias_everywhere(const sg_t5 *t)
{
    for (int i = 1; i < t->config.size.layers; i++) {
        sg_bind_prefix(t->component.bind, "encoder.block.%d.", i);
        if (sg_bind_has(t->component.bind, "layer.0.SelfAttention.relative_attention_bias.weight")) return true;
    }
    return false;
}

static void bind_weights(sg_t5 *t)
{
    sg_bind *const b = t->component.bind;
    const bool     own = bias_everywhere(t);
    for (int i = 0; i < t->config.size.layers; i++) bind_block(t, i, &t->block[i], own || i == 0);
    sg_bind_block(b, -1);
    sg_bind_prefix(b, "%s", "");
    sg_bind_tensor(b, &t->final_norm, SG_F32, "encoder.final_layer_norm.weight", t->config.size.width);
    sg_bind_ignore(b, "shared.weight");
    sg_bind_ignore(b, "encoder.embed_tokens.weight");
    sg_bind_ignore(b, "decoder.");
    sg_bind_ignore(b, "lm_head.");
}

static sg_status bind(sg_t5 *t, sg_error *e)
{
    const int n = t->config.size.layers;
    sg_status status;
    t->block = sg_layers_new(&t->component, "num_layers", n, n, sizeof *t->block, &status, e);
    SG_TRY(status);
    bind_weights(t);
    const char *const own = "encoder.embed_tokens.weight", *const shared = "shared.weight";
    return sg_token_table_open(&t->embed, &t->component, sg_bind_has(t->component.bind, own) ? own : shared,
                               "shared.weight or encoder.embed_tokens.weight", t->config.size.vocab,
                               t->config.size.width, e);
}

static sg_status open_into(sg_t5 *t, const sg_checkpoint *checkpoint, const char *name, sg_dtype act, sg_error *e)
{
    sg_config *c = NULL;
    sg_status  status = sg_component_open(&t->component, checkpoint, name, NULL, act, &c, e);
    if (status == SG_OK) {
        t->config = read_config(c);
        status = sg_config_status(c);
    }
    sg_config_close(&c);
    return status == SG_OK ? bind(t, e) : status;
}

sg_status sg_t5_open(sg_t5 **out, const sg_checkpoint *from, const char *name, sg_dtype act, sg_error *e)
{
    *out = NULL;
    sg_t5 *t = calloc(1, sizeof *t);
    if (!t) return sg_error_set(e, SG_E_MEMORY, "no memory for %s", name);
    const sg_status status = open_into(t, from, name, act, e);
    if (status) {
        sg_t5_close(&t);
        return status;
    }
    const sg_t5_info c = t->config.size;
    snprintf(t->component.summary, sizeof t->component.summary, "%d layer%s, width %d, %d heads x %d, ffn %d, %d ids",
             c.layers, sg_plural(c.layers), c.width, c.heads, c.head_dim, c.ffn, c.vocab);
    *out = t;
    return SG_OK;
}

void sg_t5_close(sg_t5 **t)
{
    if (!*t) return;
    sg_component_close(&(*t)->component);
    free((*t)->block);
    free(*t);
    *t = NULL;
}

sg_component *sg_t5_component(sg_t5 *t) { return &t->component; }

sg_t5_info sg_t5_describe(const sg_t5 *t) { return t->config.size; }

/* ---- position bias ---- */

/* In F32, as transformers has it: the cut to a whole number hangs on the rounding. */
int32_t sg_t5_bucket(int buckets, int max_distance, int distance)
{
    const int half = buckets / 2, exact = half / 2, r = abs(distance), side = distance > 0 ? half : 0;
    if (r < exact) return side + r;
    const float span = (float)log((double)max_distance / exact);
    const int   grown = exact + (int)(logf((float)r / (float)exact) / span * (float)(half - exact));
    return side + (grown < half ? grown : half - 1);
}

/* I32 [n n]: the bucket of each pair of query i and key j. */
static sg_tensor new_buckets(sg_stream *s, const t5_config *c, int n)
{
    const size_t    count = (size_t)n;
    const sg_tensor ids = sg_new(s, SG_I32, (int64_t)n * n);
    if (s->status) return ids;
    int32_t *const host = malloc(count * count * sizeof *host), *const row = malloc((2 * count - 1) * sizeof *row);
    if (host && row) {
        for (int j = 0; j < 2 * n - 1; j++) row[j] = sg_t5_bucket(c->buckets, c->max_distance, j - (n - 1));
        for (size_t i = 0; i < count; i++) memcpy(host + i * count, row + (count - 1 - i), count * sizeof *host);
        sg_upload(s, ids, host);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for the buckets of %d tokens", n);
    }
    free(row);
    free(host);
    return ids;
}

/* y F32 [h, n, n]. */
static void make_bias(sg_stream *s, sg_tensor y, sg_tensor table, sg_tensor ids)
{
    const size_t    mark = s->scratch.used;
    const int64_t   pairs = ids.dim[0], h = table.dim[1];
    const sg_tensor rows = sg_new(s, SG_F32, pairs, h);
    sg_embed(s, .y = rows, .w = table, .ids = ids);
    sg_permute(s, .y = y, .x = rows, .rank = 2, .dim = {pairs, h}, .perm = {1, 0});
    s->scratch.used = mark;
}

/* ---- encoder ---- */

static void attention(const sg_t5 *t, sg_stream *s, const t5_block *w, sg_tensor x, sg_tensor bias)
{
    const size_t    mark = s->scratch.used;
    const sg_dtype  act = t->component.act;
    const int64_t   n = x.dim[0], c = x.dim[1], h = t->config.size.heads, d = t->config.size.head_dim;
    const sg_tensor y = sg_new(s, act, n, c);
    const sg_tensor q = sg_new(s, act, n, h * d), k = sg_new(s, act, n, h * d);
    const sg_tensor v = sg_new(s, act, n, h * d), a = sg_new(s, act, n, h * d);
    sg_norm(s, .y = y, .x = x, .w = w->attn_norm, .kind = SG_NORM_RMS, .eps = t->config.eps);
    sg_linear(s, .y = q, .x = y, .w = w->q);
    sg_linear(s, .y = k, .x = y, .w = w->k);
    sg_linear(s, .y = v, .x = y, .w = w->v);
    sg_attend(s, .y = sg_reshape(a, n, h, d), .q = sg_reshape(q, n, h, d), .k = sg_reshape(k, n, h, d),
              .v = sg_reshape(v, n, h, d), .bias = bias, .scale = 1.0f);
    sg_linear(s, .y = x, .x = a, .w = w->o, .add = true);
    s->scratch.used = mark;
}

/* Without a gate. */
static void feed_forward(const sg_t5 *t, sg_stream *s, const t5_block *w, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const sg_dtype  act = t->component.act;
    const int64_t   n = x.dim[0], c = x.dim[1], f = t->config.size.ffn;
    const sg_tensor y = sg_new(s, act, n, c), u = sg_new(s, act, n, f);
    sg_norm(s, .y = y, .x = x, .w = w->ff_norm, .kind = SG_NORM_RMS, .eps = t->config.eps);
    sg_linear(s, .y = u, .x = y, .w = w->wi, .act = SG_ACT_RELU);
    sg_linear(s, .y = x, .x = u, .w = w->wo, .add = true);
    s->scratch.used = mark;
}

void sg_t5_encode(const sg_t5 *t, sg_stream *s, sg_tensor y, const int32_t *ids, int n)
{
    if (!sg_token_table_has(&t->embed, s, ids, n, TOKENS_MAX)) return;
    const size_t    mark = s->scratch.used;
    const sg_tensor x = sg_new(s, SG_F32, n, t->config.size.width);
    const sg_tensor bias = sg_new(s, SG_F32, t->config.size.heads, n, n);
    const sg_tensor buckets = new_buckets(s, &t->config, n);
    sg_token_table_embed(&t->embed, s, x, ids, n);
    sg_tap(s, x, "text.embed");
    for (int i = 0; i < t->config.size.layers; i++) {
        const t5_block *const w = &t->block[i];
        sg_bind_fetch(t->component.bind, s, i);
        if (w->bias.rank) make_bias(s, bias, w->bias, buckets);
        attention(t, s, w, x, bias);
        sg_tap(s, x, "text.block.%d.attn", i);
        if (t->config.gated)
            sg_gated_feed_forward(s, &(sg_gated){w->ff_norm, w->wi, w->gate, w->wo, SG_ACT_GELU_TANH, t->config.eps},
                                  x);
        else
            feed_forward(t, s, w, x);
        sg_tap(s, x, "text.block.%d.ff", i);
    }
    sg_norm(s, .y = y, .x = x, .w = t->final_norm, .kind = SG_NORM_RMS, .eps = t->config.eps);
    sg_tap(s, y, "text.final");
    s->scratch.used = mark;
}
