/* checkkern_elem.c - what the ops are tried with that look at one element, and those along the last dimension. */
#include "checkkern.h"

static const int64_t counts[] = {1, 2, 3, 15, 16, 17, 31, 33, 64, 127, 257, 1009, 1023, 1024, 1025, 4099};
enum { COUNTS = sizeof counts / sizeof counts[0] };
static const ck_fill usual[] = {CK_RANDOM, CK_CONSTANT, CK_OUTLIER, CK_LARGE, CK_TINY, CK_ZERO, CK_NAN, CK_INF};
enum { USUAL = sizeof usual / sizeof usual[0] };

/* Pass 0: all F32, 1: all BF16, else each its own. */
static sg_dtype type_in(ck *c, int pass)
{
    if (pass < 2) return pass ? SG_BF16 : SG_F32;
    return ck_draw(c, 2) ? SG_BF16 : SG_F32;
}

static sg_tensor maybe(ck *c, int64_t n) { return ck_draw(c, 2) ? ck_new(c, SG_F32, CK_RANDOM, n) : (sg_tensor){0}; }

/* One row count and one row length of a sweep: short, odd, around powers of two; now and then more rows than 65,535. */
static int64_t sweep_rows(ck *c, int i) { return i == 1 ? 65537 : 1 + (int64_t)ck_draw(c, 7); }

#define FOR_EACH(c)                                                                                                    \
    for (int pass = 0; pass < 4; pass++)                                                                               \
        for (int i = (int)ck_draw(c, 2); i < COUNTS; i += (c)->quick ? 4 : 1)

void ck_try_gate_add(ck *c)
{
    FOR_EACH(c)
    {
        const int64_t    n = sweep_rows(c, i), m = counts[i];
        const ck_fill    f = usual[ck_draw(c, USUAL)];
        sg_gate_add_args a = {.x = ck_out(c, type_in(c, pass), n, m),
                              .r = ck_new(c, type_in(c, pass), f, n, m),
                              .tanh_gate = ck_draw(c, 3) == 0};
        if (a.tanh_gate || ck_draw(c, 3)) a.gate = ck_gates(c, a.tanh_gate ? CK_GATES : CK_RANDOM, n, m, &a.row);
        ck_case(c, &a);
    }
}

void ck_try_add(ck *c)
{
    FOR_EACH(c)
    {
        const int64_t n = sweep_rows(c, i), m = counts[i];
        const ck_fill f = usual[ck_draw(c, USUAL)];
        ck_case(c, &(sg_add_args){.y = ck_out(c, type_in(c, pass), n, m),
                                  .a = ck_new(c, type_in(c, pass), f, n, m),
                                  .b = ck_new(c, type_in(c, pass), CK_RANDOM, ck_draw(c, 2) ? n : 1, m)});
    }
}

void ck_try_mul(ck *c)
{
    FOR_EACH(c)
    {
        const int64_t n = sweep_rows(c, i), m = counts[i];
        const ck_fill f = usual[ck_draw(c, USUAL)];
        ck_case(c, &(sg_mul_args){.y = ck_out(c, type_in(c, pass), n, m),
                                  .a = ck_new(c, type_in(c, pass), f, n, m),
                                  .b = ck_new(c, type_in(c, pass), CK_RANDOM, n, m)});
    }
}

void ck_try_act(ck *c)
{
    for (int act = SG_ACT_NONE; act <= SG_ACT_TANH; act++) FOR_EACH(c)
        {
            const ck_fill f = i % 2 ? CK_WIDE : usual[ck_draw(c, USUAL)];
            ck_case(c, &(sg_act_args){.y = ck_out(c, type_in(c, pass), 3, counts[i]),
                                      .x = ck_new(c, type_in(c, pass), f, 3, counts[i]),
                                      .act = (sg_act)act});
        }
}

void ck_try_copy(ck *c)
{
    FOR_EACH(c)
    {
        const int64_t n = sweep_rows(c, i), m = counts[i];
        const bool    rounds = pass == 3;
        const ck_fill f = rounds ? CK_HALVES : usual[ck_draw(c, USUAL)];
        ck_case(c, &(sg_copy_args){.y = ck_out(c, rounds ? SG_BF16 : type_in(c, pass), n * m),
                                   .x = ck_new(c, rounds ? SG_F32 : type_in(c, pass), f, m, n)});
    }
}

void ck_try_combine(ck *c)
{
    FOR_EACH(c)
    {
        const int64_t   n = sweep_rows(c, i), m = counts[i];
        sg_combine_args a = {.y = ck_out(c, SG_F32, n, m), .count = 1 + (int)ck_draw(c, SG_COMBINE_MAX)};
        for (int k = 0; k < a.count; k++) {
            a.x[k] = ck_new(c, SG_F32, usual[ck_draw(c, USUAL)], n * m);
            a.a[k] = ck_draw(c, 4) ? ck_normal(c) : 0;
        }
        ck_case(c, &a);
    }
}

void ck_try_rgb8(ck *c)
{
    FOR_EACH(c)
    {
        const ck_fill f = i % 2 ? CK_TIES : usual[ck_draw(c, USUAL)];
        const int64_t n = sweep_rows(c, i);
        ck_case(c, &(sg_rgb8_args){.y = ck_out(c, SG_U8, n, counts[i], 3),
                                   .x = ck_new(c, type_in(c, pass), f, n, counts[i], 3)});
    }
}

void ck_try_count_non_finite(ck *c)
{
    FOR_EACH(c)
    {
        ck_case(c, &(sg_count_non_finite_args){
                       .y = ck_out(c, SG_I32, 1),
                       .x = ck_new(c, type_in(c, pass), usual[ck_draw(c, USUAL)], sweep_rows(c, i), counts[i])});
    }
}

void ck_try_distance(ck *c)
{
    FOR_EACH(c)
    {
        const int64_t n = sweep_rows(c, i), parts = 1 + (int64_t)ck_draw(c, 300);
        ck_case(c, &(sg_distance_args){.y = ck_out(c, SG_F32, parts, 2),
                                       .a = ck_new(c, SG_F32, usual[ck_draw(c, USUAL)], n, counts[i]),
                                       .b = ck_new(c, SG_F32, usual[ck_draw(c, USUAL)], n, counts[i])});
    }
}

/* Of f frames of y x x places and m channels. */
static void try_group(ck *c, int pass, int64_t f, int64_t y, int64_t x, int64_t m, int64_t groups)
{
    static const ck_fill fills[] = {CK_RANDOM, CK_OFFSET, CK_LEVELS, CK_OUTLIER, CK_CONSTANT,
                                    CK_LARGE,  CK_TINY,   CK_ZERO,   CK_NAN,     CK_INF};
    const int64_t   rows = 1 + (int64_t)ck_draw(c, (uint64_t)y + 1), columns = 1 + (int64_t)ck_draw(c, (uint64_t)x + 1);
    const sg_tensor none = {0};
    const int       placed = (int)ck_draw(c, 4), chunk = (int)ck_draw(c, 3);
    ck_case(c, &(sg_norm_args){
                   .y = ck_out(c, type_in(c, pass), f, y, x, m),
                   .x = ck_new(c, type_in(c, pass), fills[ck_draw(c, 10)], f, y, x, m),
                   .w = maybe(c, m),
                   .b = maybe(c, m),
                   .place_scale = placed & 1 ? ck_new(c, type_in(c, pass), CK_RANDOM, f, rows, columns, m) : none,
                   .place_shift = placed & 2 ? ck_new(c, type_in(c, pass), CK_RANDOM, f, rows, columns, m) : none,
                   .kind = SG_NORM_GROUP,
                   .eps = ck_draw(c, 2) ? 1e-6f : 1e-5f,
                   .act = (sg_act)ck_draw(c, SG_ACT_TANH + 1),
                   .groups = (int)groups,
                   .chunk = chunk == 2 ? (int)f : chunk});
}

/* From one channel a group to all in one; the last shapes take several blocks and parts of a chunk. */
static void try_groups(ck *c)
{
    static const int64_t channels[][2] = {{1, 1},  {3, 3},   {3, 1},    {12, 4}, {16, 16},   {33, 11},  {32, 32},
                                          {64, 8}, {96, 32}, {128, 32}, {40, 5}, {2048, 32}, {1026, 2}, {1500, 3}};
    for (int pass = 0; pass < 4; pass++)
        for (int i = (int)ck_draw(c, 2); i < 14; i += c->quick ? 4 : 1)
            try_group(c, pass, 1 + (int64_t)ck_draw(c, 4), 1 + (int64_t)ck_draw(c, 9), 1 + (int64_t)ck_draw(c, 9),
                      channels[i][0], channels[i][1]);
    for (int pass = 0; pass < 2 && !c->quick; pass++) {
        try_group(c, pass, 2, 17, 23, 64, 32);
        try_group(c, pass, 1, 37, 41, 96, 3);
        try_group(c, pass, 3, 121, 67, 12, 4);
    }
    try_group(c, 1, 2, 3, 301, 136, 8); /* rows that are cut into runs, packs that do not fill a block */
    if (c->all) try_group(c, 1, 9, 121, 67, 160, 32);
}

/* Scale and shift of n rows of m: for all of them, or, by draw, some, and which each row takes. */
static void modulate(ck *c, sg_norm_args *a, int64_t n, int64_t m)
{
    const int which = (int)ck_draw(c, 4);
    if (which & 1) a->scale = ck_gates(c, CK_RANDOM, n, m, &a->row);
    if (!(which & 2)) return;
    a->shift = a->row.rank ? ck_new(c, SG_F32, CK_RANDOM, a->scale.dim[0], m)
               : which & 1 ? ck_new(c, SG_F32, CK_RANDOM, m)
                           : ck_gates(c, CK_RANDOM, n, m, &a->row);
}

/* BF16 rows as long as a head or as the channels of a decoder, which lie as arenas have them: in fours and not. And a
 * model's rows of 3072. */
static void try_heads(ck *c)
{
    static const int64_t rows[] = {1, 3, 8, 259}, lengths[] = {64, 128, 96, 192, 256, 384, 512, 640};
    const bool           aligned = c->level->aligned;
    c->level->aligned = true;
    for (int i = 0; i < (c->quick ? 8 : 64); i++) {
        const int64_t n = rows[(i / 8 + i) % 4], m = lengths[i % 8];
        const ck_fill f = i < 16 ? CK_OFFSET : usual[ck_draw(c, USUAL - 1)]; /* infinity has no norm */
        const bool    layer = i < 32;
        ck_case(c, &(sg_norm_args){.y = ck_out(c, SG_BF16, n, m),
                                   .non_finite = layer ? ck_out(c, SG_I32, 1) : (sg_tensor){0},
                                   .x = ck_new(c, SG_BF16, f, n, m),
                                   .w = maybe(c, m),
                                   .b = maybe(c, m),
                                   .kind = layer ? SG_NORM_LAYER : (sg_norm_kind)ck_draw(c, SG_NORM_NONE + 1),
                                   .eps = 1e-5f,
                                   .act = ck_draw(c, 2) ? SG_ACT_SILU : SG_ACT_NONE});
    }
    for (int i = 0; i < (c->quick ? 1 : 6); i++) {
        const int64_t n = 9, m = i < 4 ? 3072 : 2972;
        sg_norm_args  a = {.y = ck_out(c, i % 2 ? SG_BF16 : SG_F32, n, m),
                           .x = ck_new(c, i % 3 ? SG_BF16 : SG_F32, CK_OFFSET, n, m),
                           .w = maybe(c, m),
                           .b = maybe(c, m),
                           .kind = i % 2 ? SG_NORM_LAYER : SG_NORM_RMS,
                           .eps = 1e-6f};
        modulate(c, &a, n, m);
        ck_case(c, &a);
    }
    c->level->aligned = aligned;
}

void ck_try_norm(ck *c)
{
    static const int64_t more[] = {1, 3, 12, 16, 32, 96, 192, 384, 1536, 2500};
    for (int kind = SG_NORM_LAYER; kind <= SG_NORM_NONE; kind++) FOR_EACH(c)
        {
            const int64_t m = ck_draw(c, 2) ? counts[i] : more[ck_draw(c, sizeof more / sizeof more[0])];
            const int64_t n = i == 1 && m < 20 ? 65537 : 1 + (int64_t)ck_draw(c, 9);
            const bool    judged = kind == SG_NORM_LAYER && ck_draw(c, 2);
            ck_fill       f = usual[ck_draw(c, USUAL)];
            if (f == CK_INF && kind == SG_NORM_L2) f = CK_RANDOM; /* infinity over infinity, and the rest is 0 or NaN */
            sg_norm_args a = {.y = ck_out(c, type_in(c, pass), n, m),
                              .non_finite = judged ? ck_out(c, SG_I32, 1) : (sg_tensor){0},
                              .x = ck_new(c, type_in(c, pass), f, n, m),
                              .w = maybe(c, m),
                              .b = maybe(c, m),
                              .kind = (sg_norm_kind)kind,
                              .eps = ck_draw(c, 2) ? 1e-6f : 1e-5f,
                              .act = (sg_act)ck_draw(c, SG_ACT_TANH + 1)};
            modulate(c, &a, n, m);
            ck_case(c, &a);
        }
    try_groups(c);
    try_heads(c);
    ck_model_norm(c);
}

static sg_tensor angles(ck *c, bool by_head, int64_t n, int64_t h, int64_t pairs)
{
    return by_head ? ck_new(c, SG_F32, CK_RANDOM, n, h, pairs) : ck_new(c, SG_F32, CK_RANDOM, n, pairs);
}

/* BF16 heads of 64 and 128 as arenas have them: fours of a token and not, angles of a token and of a head. */
static void rope_heads(ck *c)
{
    static const int64_t heads[] = {4, 3, 8, 6};
    const bool           aligned = c->level->aligned;
    c->level->aligned = true;
    for (int i = 0; i < (c->quick ? 4 : 16); i++) {
        const int64_t n = 1 + (int64_t)ck_draw(c, 40), h = heads[i % 4], d = i / 4 % 2 ? 128 : 64;
        ck_case(c, &(sg_rope_args){.y = ck_out(c, SG_BF16, n, h, d),
                                   .x = ck_new(c, SG_BF16, usual[ck_draw(c, USUAL)], n, h, d),
                                   .w = maybe(c, d),
                                   .eps = 1e-6f,
                                   .cos = angles(c, i >= 8, n, h, d / 2),
                                   .sin = angles(c, i >= 8, n, h, d / 2)});
    }
    c->level->aligned = aligned;
}

void ck_try_rope(ck *c)
{
    static const int64_t sizes[] = {2, 4, 12, 64, 96, 128, 1026, 34};
    FOR_EACH(c)
    {
        const int64_t n = i == 1 ? 40000 : 1 + (int64_t)ck_draw(c, 40), d = i == 1 ? 2 : sizes[ck_draw(c, 8)];
        const int64_t h = 1 + (int64_t)ck_draw(c, 5);
        const bool    by_head = ck_draw(c, 2);
        ck_case(c, &(sg_rope_args){.y = ck_out(c, type_in(c, pass), n, h, d),
                                   .x = ck_new(c, type_in(c, pass), usual[ck_draw(c, USUAL)], n, h, d),
                                   .w = maybe(c, ck_draw(c, 2) ? d : h * d),
                                   .eps = ck_draw(c, 2) ? 1e-6f : 1e-5f,
                                   .cos = angles(c, by_head, n, h, d / 2),
                                   .sin = angles(c, by_head, n, h, d / 2)});
    }
    rope_heads(c);
    ck_model_rope(c);
}
