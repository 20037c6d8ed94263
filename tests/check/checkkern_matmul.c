/* checkkern_matmul.c - what linear, conv and attend are tried with. */
#include "checkkern.h"
#include "quant.h"

#include <math.h>

static const ck_fill usual[] = {CK_RANDOM, CK_RANDOM, CK_INTEGER, CK_OUTLIER, CK_LARGE, CK_ZERO, CK_NAN, CK_INF};
enum { USUAL = sizeof usual / sizeof usual[0] };

static int64_t upto(ck *c, int64_t most) { return 1 + (int64_t)ck_draw(c, (uint64_t)most); }
static int     trials(const ck *c, int most) { return c->quick ? most / 8 : most; }

static sg_dtype type_in(ck *c, int i)
{
    if (i % 3 < 2) return i % 3 ? SG_BF16 : SG_F32;
    return ck_draw(c, 2) ? SG_BF16 : SG_F32;
}

/* oneDNN's emulation of BF16 multiplies what it pads odd depths with: infinity becomes NaN. */
static ck_fill matmul_fill(ck *c)
{
    const ck_fill f = usual[ck_draw(c, USUAL)];
    return f == CK_INF && c->level->emulated ? CK_RANDOM : f;
}

/* Lengths around the tiles of every level (4, 6, 12 rows; 8, 16, 32 columns; blocks of 8 tiles; depth 256), and others.
 */
static int64_t length(ck *c)
{
    static const int64_t tile[] = {1, 2, 4, 6, 8, 12, 16, 32, 48, 64, 96, 128, 256};
    if (ck_draw(c, 3) == 0) return upto(c, 300);
    const int64_t t = tile[ck_draw(c, sizeof tile / sizeof tile[0])] + (int64_t)ck_draw(c, 3) - 1;
    return t < 1 ? 1 : t;
}

/* Every type, with the scales that it may have behind it: one, one of a row, of a square; all rows, or some. */
static void try_quantised(ck *c)
{
    const int rounds = c->quick ? 1 : 6;
    for (int i = 0; i < rounds * (SG_QUANT_COUNT - 1); i++) {
        const int      type = 1 + i % (SG_QUANT_COUNT - 1), block = sg_quant_block((sg_quant_type)type);
        const int64_t  n = ck_draw(c, 3) ? upto(c, 6) : length(c), m = block * upto(c, 512 / block), o = length(c);
        const bool     add = ck_draw(c, 3) == 0;
        const int32_t  all = (int32_t)(m + o + 256);
        const sg_quant scaled[] = {{type, all, all / 16 * 16 + 16}, {type, 1, all / 16 * 16 + 16}, {type, 128, 128}};
        const bool     scales = block == 16 && ck_draw(c, 4);
        const sg_quant q = scales ? scaled[ck_draw(c, 3)] : (sg_quant){.type = type};
        const int64_t  before = ck_draw(c, 3) ? 0 : upto(c, 200), behind = before ? upto(c, 6) : 0;
        sg_linear_args a = {.y = ck_out(c, type_in(c, i), n, o),
                            .x = ck_new(c, type_in(c, i / 2), CK_RANDOM, n, m),
                            .w = sg_rows(ck_quantised(c, type_in(c, i), q, before + o + behind, m), before, o),
                            .b = ck_draw(c, 3) ? ck_new(c, SG_F32, CK_RANDOM, o) : (sg_tensor){0},
                            .act = add ? SG_ACT_NONE : (sg_act)ck_draw(c, SG_ACT_TANH + 1),
                            .add = add};
        if (add && ck_draw(c, 2)) a.gate = ck_gates(c, CK_RANDOM, n, o, &a.row);
        ck_case(c, &a);
    }
}

void ck_try_linear(ck *c)
{
    for (int i = 0; i < trials(c, 130); i++) {
        const int64_t  n = length(c), m = i % 16 == 0 ? 1000 + upto(c, 200) : length(c), o = length(c);
        const ck_fill  f = matmul_fill(c);
        const bool     add = ck_draw(c, 3) == 0;
        sg_linear_args a = {.y = ck_out(c, type_in(c, i), n, o),
                            .x = ck_new(c, type_in(c, i), f, n, m),
                            .w = ck_new(c, type_in(c, i), f == CK_INTEGER ? f : CK_RANDOM, o, m),
                            .b = ck_draw(c, 3) ? ck_new(c, SG_F32, CK_RANDOM, o) : (sg_tensor){0},
                            /* a large sum clamped is its rounding error and nothing else */
                            .act = add || f == CK_LARGE ? SG_ACT_NONE : (sg_act)ck_draw(c, SG_ACT_TANH + 1),
                            .add = add};
        if (add && ck_draw(c, 3)) a.gate = ck_gates(c, CK_RANDOM, n, o, &a.row);
        ck_case(c, &a);
    }
    for (int i = 0; i < trials(c, 32); i++) { /* BF16 operands added to F32 by a gate, even: what a library fuses */
        const int64_t  o = 8 * upto(c, 40), m = 8 * upto(c, i % 4 ? o / 8 : 80), n = length(c);
        sg_linear_args a = {.y = ck_out(c, SG_F32, n, o),
                            .x = ck_new(c, SG_BF16, matmul_fill(c), n, m),
                            .w = ck_new(c, SG_BF16, CK_RANDOM, o, m),
                            .b = ck_draw(c, 3) ? ck_new(c, SG_F32, CK_RANDOM, o) : (sg_tensor){0},
                            .add = true};
        a.gate = ck_gates(c, CK_RANDOM, n, o, &a.row);
        ck_case(c, &a);
    }
    try_quantised(c);
    ck_model_linear(c);
}

/* Replicated edges: pads wider than a frame, on one side, of kernels of one place; more frames than a piece has. */
static void try_edges(ck *c)
{
    static const int64_t channels[] = {1, 3, 12, 17, 32, 64, 72, 130};
    for (int i = 0; i < trials(c, 48); i++) {
        const bool    even = i % 3 == 2; /* all BF16, no strides */
        const int64_t in = channels[even ? 4 + ck_draw(c, 3) : ck_draw(c, 8)], o = channels[ck_draw(c, 7)];
        sg_conv_args  a = {.stride = {1, 1, 1}, .add = ck_draw(c, 3) == 0, .edge = SG_EDGE_REPLICATE};
        int64_t       k[3], x[3], y[3];
        for (int j = 0; j < 3; j++) k[j] = ck_draw(c, 2) ? 3 : upto(c, 3);
        for (int j = 0; j < 4; j++) a.pad[j] = (int)ck_draw(c, ck_draw(c, 3) ? 2 : 5);
        for (int j = 0; j < 3; j++) {
            const int64_t pad = j ? a.pad[2 * j - 2] + a.pad[2 * j - 1] : 0, least = k[j] > pad ? k[j] - pad : 1;
            if (!even) a.stride[j] = (int)upto(c, 2);
            x[j] = least + (int64_t)ck_draw(c, 12);
            y[j] = (x[j] + pad - k[j]) / a.stride[j] + 1;
        }
        const ck_fill f = matmul_fill(c);
        a.y = ck_out(c, even ? SG_BF16 : type_in(c, i), y[0], y[1], y[2], o);
        a.x = ck_new(c, even ? SG_BF16 : type_in(c, i), f, x[0], x[1], x[2], in);
        a.w = ck_new(c, even ? SG_BF16 : type_in(c, i), f == CK_INTEGER ? f : CK_RANDOM, o, in, k[0], k[1], k[2]);
        if (ck_draw(c, 3)) a.b = ck_new(c, SG_F32, CK_RANDOM, o);
        ck_case(c, &a);
    }
}

/* Kernels of 3 x 3 places with many channels, which Winograd's filtering serves: odd sizes, tiles cut by any edge, more
 * than one block of tiles; as a decoder's, and of a picture at twice its size. */
static void try_square(ck *c)
{
    static const int64_t channels[] = {32, 33, 64, 72, 96, 192, 384};
    for (int i = 0; i < trials(c, 32); i++) {
        const int64_t  in = channels[ck_draw(c, 7)], o = in > 96 ? upto(c, 16) : ck_draw(c, 2) ? in : upto(c, 40);
        const int64_t  taps = upto(c, 3), f = in > 96 ? 1 : upto(c, 6), side = in > 96 ? 6 : i % 8 ? 12 : 24;
        const sg_dtype t = type_in(c, i);
        const ck_fill  fill = i % 3 ? matmul_fill(c) : CK_LEVELS;
        const int64_t  y = upto(c, side), x = upto(c, side);
        sg_conv_args   a = {.stride = {1, 1, 1}, .pad = {1, 1, 1, 1}, .add = ck_draw(c, 3) == 0, .twice = i % 2};
        const int64_t  scale = a.twice ? 2 : 1;
        if (i % 3 == 1) a.edge = SG_EDGE_REPLICATE;
        for (int j = 0; j < 4 && i % 4 > 1; j++) a.pad[j] = (int)ck_draw(c, 3);
        const int64_t rows = scale * y + a.pad[0] + a.pad[1] - 2, cols = scale * x + a.pad[2] + a.pad[3] - 2;
        if (rows < 1 || cols < 1) continue;
        a.y = ck_out(c, t, f, rows, cols, o);
        a.x = ck_new(c, t, fill, f + taps - 1, y, x, in);
        a.w = ck_new(c, type_in(c, i),
                     fill == CK_INTEGER  ? fill
                     : fill == CK_LEVELS ? CK_SIGNED
                                         : CK_RANDOM,
                     o, in, taps, 3, 3);
        if (ck_draw(c, 3)) a.b = ck_new(c, SG_F32, CK_RANDOM, o);
        if (a.twice) c->room = ck_out(c, SG_F32, f + taps - 1, 2 * y, 2 * x, in + 64);
        ck_case(c, &a);
    }
}

/* To 3 channels, of so many places that cuDNN's scratch holds no more than eight of nine frames of whole packs. */
static void try_pieces(ck *c)
{
    sg_conv_args a = {.stride = {1, 1, 1}, .pad = {0, 0, 1, 1}, .add = true};
    a.y = ck_out(c, SG_BF16, 9, 1024, 1024, 3);
    a.x = ck_new(c, SG_BF16, CK_RANDOM, 9, 1024, 1024, 8);
    a.w = ck_new(c, SG_BF16, CK_RANDOM, 3, 8, 1, 1, 3);
    a.b = ck_new(c, SG_F32, CK_RANDOM, 3);
    ck_case(c, &a);
}

/* Kernels of 1 to 3, strides of 1 and 2, pads on any side, channel counts that models have and some that they have not.
 */
void ck_try_conv(ck *c)
{
    static const int64_t channels[] = {1, 3, 12, 16, 17, 32, 33, 64, 96};
    for (int i = 0; i < trials(c, 120); i++) {
        const bool    even = i % 4 == 3; /* all BF16, no strides: what a library does best */
        const int64_t in = channels[even ? 5 + ck_draw(c, 4) : ck_draw(c, 9)], o = channels[ck_draw(c, 9)];
        sg_conv_args  a = {.stride = {1, 1, 1}, .add = ck_draw(c, 3) == 0};
        int64_t       k[3], x[3], y[3];
        for (int j = 0; j < 3 && !even; j++) a.stride[j] = (int)upto(c, 2);
        for (int j = 0; j < 3; j++) k[j] = ck_draw(c, 2) ? 3 : upto(c, 3);
        for (int j = 0; j < 4; j++) a.pad[j] = (int)ck_draw(c, (uint64_t)(j < 2 ? k[1] : k[2]));
        for (int j = 0; j < 3; j++) {
            const int64_t pad = j ? a.pad[2 * j - 2] + a.pad[2 * j - 1] : 0;
            x[j] = k[j] + (int64_t)ck_draw(c, j ? 14 : 4);
            y[j] = (x[j] + pad - k[j]) / a.stride[j] + 1;
        }
        const ck_fill f = matmul_fill(c);
        a.y = ck_out(c, even ? SG_BF16 : type_in(c, i), y[0], y[1], y[2], o);
        a.x = ck_new(c, even ? SG_BF16 : type_in(c, i), f, x[0], x[1], x[2], in);
        a.w = ck_new(c, even ? SG_BF16 : type_in(c, i), f == CK_INTEGER ? f : CK_RANDOM, o, in, k[0], k[1], k[2]);
        if (ck_draw(c, 3)) a.b = ck_new(c, SG_F32, CK_RANDOM, o);
        ck_case(c, &a);
    }
    try_edges(c);
    try_square(c);
    if (c->all && c->level->backend) try_pieces(c);
    ck_model_conv(c);
}

void ck_try_attend(ck *c)
{
    static const int64_t sizes[] = {1, 8, 12, 16, 31, 64, 96, 128, 256, 257, 384};
    static const ck_fill keys[] = {CK_RANDOM, CK_RANDOM, CK_OUTLIER, CK_CONSTANT};
    static const int64_t usual_sizes[] = {64, 96, 128};
    static const ck_fill biases[] = {CK_RANDOM, CK_MASK, CK_MASK, CK_MASKED, CK_LARGE};
    for (int i = 0; i < trials(c, 90); i++) {
        const int64_t h = upto(c, 3), d = sizes[ck_draw(c, 11)], n = length(c),
                      m = i % 10 ? length(c) : 500 + upto(c, 500);
        const sg_dtype t = i % 2 ? SG_BF16 : SG_F32;
        ck_fill        f = usual[ck_draw(c, USUAL)];
        /* Large scores come by the scale. */
        if (f == CK_LARGE || f == CK_INF || f == CK_INTEGER) f = CK_RANDOM;
        ck_case(c, &(sg_attend_args){
                       .y = ck_out(c, t, n, h, d),
                       .q = ck_new(c, t, f, n, h, d),
                       .k = ck_new(c, t, keys[ck_draw(c, 4)], m, h, d),
                       .v = ck_new(c, t, ck_draw(c, 4) ? CK_RANDOM : usual[ck_draw(c, USUAL)], m, h, d),
                       .bias = ck_draw(c, 2) ? ck_new(c, SG_F32, biases[ck_draw(c, 5)], h, n, m) : (sg_tensor){0},
                       .key_bias = ck_draw(c, 3) ? (sg_tensor){0} : ck_new(c, SG_F32, biases[ck_draw(c, 4)], m),
                       .scale = (ck_draw(c, 3) ? 1.0f : 8.0f) / sqrtf((float)d)});
    }
    for (int i = 0; i < trials(c, 32); i++) { /* many queries, few keys, some with a bias of their own: a text's */
        const int64_t h = upto(c, 3), d = usual_sizes[ck_draw(c, 3)], n = 100 + upto(c, 300),
                      m = upto(c, ck_draw(c, 2) ? 16 : 100);
        const sg_dtype t = i % 4 ? SG_BF16 : SG_F32;
        ck_case(c, &(sg_attend_args){.y = ck_out(c, t, n, h, d),
                                     .q = ck_new(c, t, i % 8 == 1 ? CK_NAN : CK_RANDOM, n, h, d),
                                     .k = ck_new(c, t, keys[ck_draw(c, 4)], m, h, d),
                                     .v = ck_new(c, t, CK_RANDOM, m, h, d),
                                     .key_bias =
                                         ck_draw(c, 2) ? ck_new(c, SG_F32, biases[ck_draw(c, 4)], m) : (sg_tensor){0},
                                     .scale = 1.0f / sqrtf((float)d)});
    }
    for (int i = 0; i < trials(c, 90); i++) { /* heads share keys; causal, or with a bias. A hidden value is finite. */
        const int64_t  hk = upto(c, 2), h = hk * upto(c, 4), d = sizes[ck_draw(c, 11)], n = length(c);
        const bool     causal = ck_draw(c, 3) > 0, bias = !causal && ck_draw(c, 2);
        const int64_t  before = ck_draw(c, 2) ? 0 : length(c), m = causal ? n + before : length(c);
        const sg_dtype t = i % 2 ? SG_BF16 : SG_F32;
        ck_case(c, &(sg_attend_args){.y = ck_out(c, t, n, h, d),
                                     .q = ck_new(c, t, i % 16 == 1 ? CK_NAN : CK_RANDOM, n, h, d),
                                     .k = ck_new(c, t, keys[ck_draw(c, 4)], m, hk, d),
                                     .v = ck_new(c, t, CK_RANDOM, m, hk, d),
                                     .bias = bias ? ck_new(c, SG_F32, CK_RANDOM, h, n, m) : (sg_tensor){0},
                                     .scale = (ck_draw(c, 3) ? 1.0f : 8.0f) / sqrtf((float)d),
                                     .causal = causal});
    }
    ck_model_attend(c);
    ck_long_attend(c);
}
