/* clip_layer.c - see clip_layer.h. */
#include "clip_layer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void sg_clip_kind_read(sg_clip_kind *k, sg_config *c)
{
    const char *const act = sg_config_string(c, "hidden_act", "quick_gelu");
    k->eps = (float)sg_config_real(c, "layer_norm_eps", 1e-12, 1.0, &(double){1e-5});
    k->act = act && strcmp(act, "gelu") == 0 ? SG_ACT_GELU_ERF : SG_ACT_GELU_QUICK;
    if (act && k->act == SG_ACT_GELU_QUICK && strcmp(act, "quick_gelu") != 0)
        sg_config_fail(c, "hidden_act", "\"%s\" is not supported; \"gelu\" and \"quick_gelu\" are", act);
    if (k->width % k->heads)
        sg_config_fail(c, "num_attention_heads", "%d does not divide hidden_size %d", (int)k->heads, (int)k->width);
}

void sg_want_clip_norm(sg_bind *b, sg_tensor *w, sg_tensor *bias, const char *name, int64_t width)
{
    char full[64];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor(b, w, SG_F32, full, width);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(b, bias, SG_F32, full, width);
}

void sg_want_clip_layer(sg_bind *b, sg_clip_layer *l, const sg_clip_kind *k)
{
    sg_want_clip_norm(b, &l->norm_w[0], &l->norm_b[0], "layer_norm1", k->width);
    sg_want_clip_norm(b, &l->norm_w[1], &l->norm_b[1], "layer_norm2", k->width);
    sg_want_linear(b, &l->q, k->dtype, "self_attn.q_proj", k->width, k->width);
    sg_want_linear(b, &l->k, k->dtype, "self_attn.k_proj", k->width, k->width);
    sg_want_linear(b, &l->v, k->dtype, "self_attn.v_proj", k->width, k->width);
    sg_want_linear(b, &l->out, k->dtype, "self_attn.out_proj", k->width, k->width);
    sg_want_linear(b, &l->ffn.up, k->dtype, "mlp.fc1", k->ffn, k->width);
    sg_want_linear(b, &l->ffn.down, k->dtype, "mlp.fc2", k->width, k->ffn);
}

void sg_clip_attend(const sg_clip_layer *l, const sg_clip_kind *kind, sg_stream *s, sg_tensor x, bool causal)
{
    const size_t    mark = s->scratch.used;
    const sg_dtype  act = kind->dtype;
    const int64_t   n = x.dim[0], c = x.dim[1], h = kind->heads, d = c / h;
    const sg_tensor y = sg_new(s, act, n, c), q = sg_new(s, act, n, h, d), k = sg_new(s, act, n, h, d);
    const sg_tensor u = sg_new(s, act, n, h, d), a = sg_new(s, act, n, h, d);
    sg_norm(s, .y = y, .x = x, .w = l->norm_w[0], .b = l->norm_b[0], .kind = SG_NORM_LAYER, .eps = kind->eps);
    sg_linear(s, .y = sg_reshape(q, n, c), .x = y, .w = l->q.w, .b = l->q.b);
    sg_linear(s, .y = sg_reshape(k, n, c), .x = y, .w = l->k.w, .b = l->k.b);
    sg_linear(s, .y = sg_reshape(u, n, c), .x = y, .w = l->v.w, .b = l->v.b);
    sg_attend(s, .y = a, .q = q, .k = k, .v = u, .scale = (float)(1 / sqrt((double)d)), .causal = causal);
    sg_project_out(s, x, a, &l->out, (sg_tensor){0});
    s->scratch.used = mark;
}

void sg_clip_feed_forward(const sg_clip_layer *l, const sg_clip_kind *k, sg_stream *s, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor y = sg_new(s, k->dtype, x.dim[0], x.dim[1]);
    sg_norm(s, .y = y, .x = x, .w = l->norm_w[1], .b = l->norm_b[1], .kind = SG_NORM_LAYER, .eps = k->eps);
    sg_feed_forward(s, x, y, &l->ffn, k->act, (sg_tensor){0});
    s->scratch.used = mark;
}
