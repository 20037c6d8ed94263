/* clip_text.c - see clip_text.h.
 *
 * Tensors, each but the last with or without "text_model." in front (transformers 5 leaves it out), l = 0 .. layers - 1:
 *   embeddings.token_embedding.weight [vocab, width], embeddings.position_embedding.weight [tokens, width]
 *   encoder.layers.l.{layer_norm1,layer_norm2}.{weight,bias} [width]
 *   encoder.layers.l.self_attn.{q,k,v,out}_proj.{weight,bias} [width, width] [width]
 *   encoder.layers.l.mlp.{fc1,fc2}.{weight,bias} [ffn, width] [width, ffn]
 *   final_layer_norm.{weight,bias} [width]
 *   text_projection.weight [pooled, width], with a projection */
#include "clip_text.h"

#include "clip_layer.h"
#include "text_layers.h"
#include "token_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 4096, EOS_OF_OLD = 2 };

struct sg_clip_text {
    sg_component      component;
    sg_clip_text_info size;
    sg_clip_kind      kind;
    bool              projected;
    int               skip;
    const char       *tap; /* what the names of its taps begin with */
    int32_t           eos;
    sg_clip_layer    *layer;
    sg_tensor         place;          /* [tokens, width] */
    sg_tensor         norm_w, norm_b; /* [width] */
    sg_tensor         projection;     /* [pooled, width]? */
    sg_token_table    table;
};

/* ---- config ---- */

static int whole(sg_config *c, const char *key, int64_t hi, int64_t usual)
{
    return (int)sg_config_int(c, key, 1, hi, &usual);
}

static void read_config(sg_clip_text *t, sg_config *c, bool projected)
{
    sg_config_only(c, "model_type", "clip_text_model", "clip_text_model");
    t->size = (sg_clip_text_info){.width = whole(c, "hidden_size", 1 << 16, 512),
                                  .layers = whole(c, "num_hidden_layers", 1 << 12, 12),
                                  .heads = whole(c, "num_attention_heads", 1 << 12, 8),
                                  .ffn = whole(c, "intermediate_size", 1 << 20, 2048),
                                  .vocab = whole(c, "vocab_size", INT32_MAX, 49408),
                                  .tokens = whole(c, "max_position_embeddings", TOKENS_MAX, 77)};
    const int to = projected ? (int)sg_config_int(c, "projection_dim", 0, 1 << 16, &(int64_t){512}) : 0;
    t->size.pooled = to ? to : t->size.width;
    t->projected = to > 0;
    t->eos = (int32_t)sg_config_int(c, "eos_token_id", 0, INT32_MAX, &(int64_t){49407});
    t->kind = (sg_clip_kind){t->component.act, t->size.width, t->size.heads, t->size.ffn, 0, SG_ACT_NONE};
    sg_clip_kind_read(&t->kind, c);
    if (t->skip < 0 || t->skip > t->size.layers)
        sg_config_fail(c, "num_hidden_layers", "%d, but the states before the last %d are wanted", t->size.layers,
                       t->skip);
}

/* ---- weights ---- */

static sg_status want_weights(sg_clip_text *t, sg_error *e)
{
    sg_bind *const b = t->component.bind;
    char           name[64];
    sg_bind_prefix(b, "%s", "");
    const char *const prefix = sg_bind_has(b, "text_model.embeddings.token_embedding.weight") ? "text_model." : "";
    if (t->projected)
        sg_bind_matrix(b, &t->projection, t->kind.dtype, "text_projection.weight", t->size.pooled, t->size.width);
    else
        sg_bind_ignore(b, "text_projection.");
    sg_bind_prefix(b, "%s", prefix);
    sg_bind_tensor(b, &t->place, SG_F32, "embeddings.position_embedding.weight", t->size.tokens, t->size.width);
    for (int i = 0; i < t->size.layers; i++) {
        sg_bind_prefix(b, "%sencoder.layers.%d.", prefix, i);
        sg_want_clip_layer(b, &t->layer[i], &t->kind);
    }
    sg_bind_prefix(b, "%s", prefix);
    sg_want_clip_norm(b, &t->norm_w, &t->norm_b, "final_layer_norm", t->size.width);
    sg_bind_ignore(b, "embeddings.position_ids");
    sg_bind_ignore(b, "logit_scale");
    sg_bind_ignore(b, "vision_model."); /* of a CLIPModel, which has both encoders in one file */
    sg_bind_ignore(b, "visual_projection.");
    snprintf(name, sizeof name, "%sembeddings.token_embedding.weight", prefix);
    return sg_token_table_open(&t->table, &t->component, name, name, t->size.vocab, t->size.width, e);
}

static sg_status open_into(sg_clip_text *t, const sg_checkpoint *from, const char *name, bool projected, sg_dtype act,
                           sg_error *e)
{
    sg_config *c = NULL;
    sg_status  status = sg_component_open(&t->component, from, name, NULL, act, &c, e);
    if (status == SG_OK) {
        read_config(t, c, projected);
        status = sg_config_status(c);
    }
    sg_config_close(&c);
    SG_TRY(status);
    const int n = t->size.layers;
    t->layer = sg_layers_new(&t->component, "num_hidden_layers", n, n, sizeof *t->layer, &status, e);
    SG_TRY(status);
    return want_weights(t, e);
}

sg_status sg_clip_text_open(sg_clip_text **out, const sg_checkpoint *c, const char *name, bool projected, int skip,
                            sg_dtype act, sg_error *e)
{
    *out = NULL;
    sg_clip_text *t = calloc(1, sizeof *t);
    if (!t) return sg_error_set(e, SG_E_MEMORY, "no memory for %s", name);
    t->skip = skip;
    t->tap = projected && strcmp(name, "text_encoder") != 0 ? "clip_g" : "clip";
    const sg_status status = open_into(t, c, name, projected, act, e);
    if (status) {
        sg_clip_text_close(&t);
        return status;
    }
    const sg_clip_text_info z = t->size;
    snprintf(t->component.summary, sizeof t->component.summary,
             "%d layers, width %d, %d heads x %d, ffn %d, %d tokens, %d ids", z.layers, z.width, z.heads,
             z.width / z.heads, z.ffn, z.tokens, z.vocab);
    *out = t;
    return SG_OK;
}

void sg_clip_text_close(sg_clip_text **t)
{
    if (!*t) return;
    sg_component_close(&(*t)->component);
    free((*t)->layer);
    free(*t);
    *t = NULL;
}

sg_component *sg_clip_text_component(sg_clip_text *t) { return &t->component; }

sg_clip_text_info sg_clip_text_describe(const sg_clip_text *t) { return t->size; }

/* ---- encoder ---- */

/* The place of the token that ends the text. */
static int end_of(const sg_clip_text *t, const int32_t *ids, int n)
{
    int at = 0;
    for (int i = 0; i < n; i++) {
        if (t->eos != EOS_OF_OLD && ids[i] == t->eos) return i;
        if (t->eos == EOS_OF_OLD && ids[i] > ids[at]) at = i;
    }
    return at;
}

/* x [n, width]: the rows of the ids, plus what stands for their places. */
static void embed(const sg_clip_text *t, sg_stream *s, sg_tensor x, const int32_t *ids, int n)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor tokens = sg_new(s, SG_F32, n, t->size.width);
    sg_token_table_embed(&t->table, s, tokens, ids, n);
    sg_add(s, .y = x, .a = tokens, .b = sg_rows(t->place, 0, n));
    s->scratch.used = mark;
}

static void norm(const sg_clip_text *t, sg_stream *s, sg_tensor y, sg_tensor x)
{
    sg_norm(s, .y = y, .x = x, .w = t->norm_w, .b = t->norm_b, .kind = SG_NORM_LAYER, .eps = t->kind.eps);
}

static void pool(const sg_clip_text *t, sg_stream *s, sg_tensor row, sg_tensor x)
{
    const size_t mark = s->scratch.used;
    if (t->projection.rank) {
        const sg_tensor y = sg_new(s, t->kind.dtype, 1, t->size.width);
        norm(t, s, y, x);
        sg_linear(s, .y = row, .x = y, .w = t->projection);
    } else {
        norm(t, s, row, x);
    }
    sg_tap(s, row, "%s.row", t->tap);
    s->scratch.used = mark;
}

void sg_clip_text_encode(const sg_clip_text *t, sg_stream *s, sg_tensor y, sg_tensor row, const int32_t *ids, int n)
{
    if (!sg_token_table_has(&t->table, s, ids, n, t->size.tokens)) return;
    const size_t    mark = s->scratch.used;
    const sg_tensor x = sg_new(s, SG_F32, n, t->size.width);
    embed(t, s, x, ids, n);
    sg_tap(s, x, "%s.embed", t->tap);
    for (int i = 0; i < t->size.layers; i++) {
        if (t->size.layers - i == t->skip) sg_copy(s, .y = y, .x = x);
        sg_clip_attend(&t->layer[i], &t->kind, s, x, true);
        sg_tap(s, x, "%s.block.%d.attn", t->tap, i);
        sg_clip_feed_forward(&t->layer[i], &t->kind, s, x);
        sg_tap(s, x, "%s.block.%d.ff", t->tap, i);
    }
    if (t->skip == 0) norm(t, s, y, x);
    sg_tap(s, y, "%s.final", t->tap);
    pool(t, s, row, sg_rows(x, end_of(t, ids, n), 1));
    s->scratch.used = mark;
}
