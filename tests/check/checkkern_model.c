/* checkkern_model.c - the shapes of weights/tiny-wan, at small sizes, so that every level is tried with what people run
 * first: its text encoder, its transformer, its VAE. */
#include "checkkern.h"

#include <math.h>

#define LENGTH(list) (sizeof(list) / sizeof(list)[0])

typedef struct conv_shape {
    int64_t f, side, in, out, k[3]; /* frames and rows and columns of y */
    int     stride[3], pad[4];
} conv_shape;

static void try_conv(ck *c, const conv_shape *s, sg_dtype t, bool levels)
{
    sg_conv_args a = {.add = ck_draw(c, 2)};
    int64_t      x[3];
    for (int i = 0; i < 3; i++) {
        const int64_t y = i ? s->side : s->f, pad = i ? s->pad[2 * i - 2] + s->pad[2 * i - 1] : 0;
        a.stride[i] = s->stride[i];
        x[i] = (y - 1) * s->stride[i] + s->k[i] - pad;
    }
    for (int i = 0; i < 4; i++) a.pad[i] = s->pad[i];
    a.y = ck_out(c, t, s->f, s->side, s->side, s->out);
    a.x = ck_new(c, t, levels ? CK_LEVELS : CK_RANDOM, x[0], x[1], x[2], s->in);
    a.w = ck_new(c, t, levels ? CK_SIGNED : CK_RANDOM, s->out, s->in, s->k[0], s->k[1], s->k[2]);
    a.b = ck_new(c, SG_F32, CK_RANDOM, s->out);
    ck_case(c, &a);
}

/* Half of a decoder's convolution comes after an activation: sums of 1,944 terms, of one sign in each channel. */
void ck_model_conv(ck *c)
{
    static const conv_shape shape[] = {
        {1, 8, 72, 72, {3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1}},  {1, 8, 16, 72, {3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1}},
        {1, 8, 72, 72, {1, 3, 3}, {1, 1, 1}, {1, 1, 1, 1}},  {1, 8, 72, 72, {3, 1, 1}, {1, 1, 1}, {0}},
        {1, 16, 72, 12, {3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1}}, {2, 16, 72, 72, {3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1}},
        {1, 8, 12, 32, {3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1}},  {1, 8, 32, 32, {3, 3, 3}, {1, 1, 1}, {1, 1, 1, 1}},
        {1, 8, 32, 32, {1, 3, 3}, {1, 2, 2}, {0, 1, 0, 1}},  {2, 8, 32, 32, {3, 1, 1}, {2, 1, 1}, {0}},
    };
    for (size_t i = 0; i < (c->quick ? 1 : LENGTH(shape)); i++)
        for (int k = 0; k < 3; k++) try_conv(c, &shape[i], k == 2 ? SG_BF16 : SG_F32, k != 1);
}

typedef struct linear_shape {
    int64_t n, in, out;
    sg_act  act;
    bool    add, gate, bare; /* bare: no bias */
} linear_shape;

static void try_linear(ck *c, const linear_shape *s, sg_dtype y, sg_dtype t, bool levels)
{
    ck_case(c, &(sg_linear_args){.y = ck_out(c, y, s->n, s->out),
                                 .x = ck_new(c, t, levels ? CK_LEVELS : CK_RANDOM, s->n, s->in),
                                 .w = ck_new(c, t, levels ? CK_SIGNED : CK_RANDOM, s->out, s->in),
                                 .b = s->bare ? (sg_tensor){0} : ck_new(c, SG_F32, CK_RANDOM, s->out),
                                 .gate = s->gate ? ck_new(c, SG_F32, CK_RANDOM, s->out) : (sg_tensor){0},
                                 .act = s->act,
                                 .add = s->add});
}

void ck_model_linear(ck *c)
{
    static const linear_shape shape[] = {
        {32, 384, 384, SG_ACT_NONE, false, false, false}, {32, 384, 1152, SG_ACT_GELU_TANH, false, false, false},
        {32, 1152, 384, SG_ACT_NONE, true, true, false},  {32, 384, 384, SG_ACT_NONE, true, false, false},
        {32, 384, 64, SG_ACT_NONE, false, false, false},  {32, 64, 384, SG_ACT_NONE, false, false, false},
        {1, 384, 2304, SG_ACT_NONE, false, false, false}, {1, 256, 384, SG_ACT_SILU, false, false, false},
        {5, 384, 384, SG_ACT_NONE, false, false, false},  {4, 256, 512, SG_ACT_GELU_TANH, false, false, true},
        {4, 512, 256, SG_ACT_NONE, true, false, true},    {1, 256, 256, SG_ACT_NONE, false, false, true},
        {64, 72, 72, SG_ACT_NONE, true, false, false},    {64, 72, 216, SG_ACT_NONE, false, false, false},
        {64, 32, 96, SG_ACT_NONE, false, false, false},   {64, 16, 16, SG_ACT_NONE, false, false, false},
    };
    for (size_t i = 0; i < (c->quick ? 3 : LENGTH(shape)); i++)
        for (int k = 0; k < 3; k++) {
            const sg_dtype t = k == 2 ? SG_BF16 : SG_F32;
            try_linear(c, &shape[i], shape[i].add ? SG_F32 : t, t, k != 1);
        }
}

/* Itself, text of two and of five tokens, the text encoder with its bias, the VAE's one head of 72. */
void ck_model_attend(ck *c)
{
    static const int64_t shape[][4] = {{32, 32, 6, 64}, {32, 2, 6, 64}, {32, 5, 6, 64}, {4, 4, 4, 64}, {64, 64, 1, 72}};
    for (size_t i = 0; i < (c->quick ? 1 : LENGTH(shape)); i++)
        for (int k = 0; k < 2; k++) {
            const int64_t  n = shape[i][0], m = shape[i][1], h = shape[i][2], d = shape[i][3];
            const sg_dtype t = k ? SG_BF16 : SG_F32;
            ck_case(c, &(sg_attend_args){.y = ck_out(c, t, n, h, d),
                                         .q = ck_new(c, t, CK_RANDOM, n, h, d),
                                         .k = ck_new(c, t, CK_RANDOM, m, h, d),
                                         .v = ck_new(c, t, CK_RANDOM, m, h, d),
                                         .bias = i == 3 ? ck_new(c, SG_F32, CK_RANDOM, h, n, m) : (sg_tensor){0},
                                         .key_bias = m < 6 ? ck_new(c, SG_F32, CK_MASK, m) : (sg_tensor){0},
                                         .scale = i == 3 ? 1 : 1 / sqrtf((float)d)});
        }
}

void ck_model_norm(ck *c)
{
    static const struct {
        int64_t      n, m;
        sg_norm_kind kind;
        sg_act       act;
        bool         moved; /* by a scale and a shift of its own */
    } shape[] = {{32, 384, SG_NORM_LAYER, SG_ACT_NONE, true}, {32, 384, SG_NORM_LAYER, SG_ACT_NONE, false},
                 {32, 384, SG_NORM_RMS, SG_ACT_NONE, false},  {5, 384, SG_NORM_RMS, SG_ACT_NONE, false},
                 {4, 256, SG_NORM_RMS, SG_ACT_NONE, false},   {64, 72, SG_NORM_L2, SG_ACT_SILU, false},
                 {64, 72, SG_NORM_L2, SG_ACT_NONE, false},    {64, 32, SG_NORM_L2, SG_ACT_SILU, false},
                 {64, 16, SG_NORM_NONE, SG_ACT_NONE, false}};
    for (size_t i = 0; i < (c->quick ? 1 : LENGTH(shape)); i++)
        for (int k = 0; k < 2; k++) {
            const sg_dtype  t = k ? SG_BF16 : SG_F32;
            const int64_t   m = shape[i].m;
            const sg_tensor none = {0};
            ck_case(c, &(sg_norm_args){.y = ck_out(c, t, shape[i].n, m),
                                       .x = ck_new(c, t, CK_LEVELS, shape[i].n, m),
                                       .w = ck_new(c, SG_F32, CK_RANDOM, m),
                                       .b = shape[i].kind == SG_NORM_NONE ? ck_new(c, SG_F32, CK_RANDOM, m) : none,
                                       .scale = shape[i].moved ? ck_new(c, SG_F32, CK_RANDOM, m) : none,
                                       .shift = shape[i].moved ? ck_new(c, SG_F32, CK_RANDOM, m) : none,
                                       .kind = shape[i].kind,
                                       .eps = 1e-6f,
                                       .act = shape[i].act});
        }
}

void ck_model_rope(ck *c)
{
    const int64_t n = 32, h = 6, d = 64;
    for (int k = 0; k < 2; k++)
        ck_case(c, &(sg_rope_args){.y = ck_out(c, k ? SG_BF16 : SG_F32, n, h, d),
                                   .x = ck_new(c, k ? SG_BF16 : SG_F32, CK_LEVELS, n, h, d),
                                   .w = ck_new(c, SG_F32, CK_RANDOM, h * d),
                                   .eps = 1e-6f,
                                   .cos = ck_new(c, SG_F32, CK_RANDOM, n, d / 2),
                                   .sin = ck_new(c, SG_F32, CK_RANDOM, n, d / 2)});
}
