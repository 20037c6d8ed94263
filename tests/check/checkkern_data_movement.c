/* checkkern_data_movement.c - what the ops are tried with that put data elsewhere. Nothing is computed: all must be
 * equal. */
#include "checkkern.h"

static sg_dtype any_type(ck *c) { return ck_draw(c, 2) ? SG_BF16 : SG_F32; }
static int64_t  upto(ck *c, int64_t most) { return 1 + (int64_t)ck_draw(c, (uint64_t)most); }
static int      trials(const ck *c, int most) { return c->quick ? most / 6 : most; }

void ck_try_embed(ck *c)
{
    for (int i = 0; i < trials(c, 60); i++) {
        const int64_t n = upto(c, 80), o = upto(c, 50), m = upto(c, 300);
        ck_case(c, &(sg_embed_args){.y = ck_out(c, any_type(c), n, m),
                                    .w = ck_new(c, any_type(c), ck_draw(c, 4) ? CK_RANDOM : CK_NAN, o, m),
                                    .ids = ck_ids(c, n, (int32_t)o)});
    }
}

void ck_try_sinusoid(ck *c)
{
    static const ck_fill fill[] = {CK_RANDOM, CK_LARGE, CK_ZERO, CK_INTEGER, CK_TINY, CK_NAN};
    for (int i = 0; i < trials(c, 60); i++) {
        const int64_t n = upto(c, 9), m = 2 * upto(c, 160);
        ck_case(c, &(sg_sinusoid_args){.y = ck_out(c, SG_F32, n, m), .t = ck_new(c, SG_F32, fill[ck_draw(c, 6)], n)});
    }
}

void ck_try_upsample(ck *c)
{
    static const int64_t channels[] = {1, 3, 12, 16, 96, 7};
    for (int i = 0; i < trials(c, 60); i++) {
        const int64_t  f = upto(c, 4), y = upto(c, 20), x = upto(c, 20), m = channels[ck_draw(c, 6)];
        const sg_dtype t = any_type(c);
        ck_case(c, &(sg_upsample_args){.y = ck_out(c, t, f, 2 * y, 2 * x, m), .x = ck_new(c, t, CK_NAN, f, y, x, m)});
    }
    c->exact = false;
    for (int i = 0; i < trials(c, 80); i++) {
        static const float near[] = {0, 0.75f, 1};
        const int64_t      f = upto(c, 4), y = upto(c, 9), x = upto(c, 9), m = i % 8 ? channels[ck_draw(c, 6)] : 300;
        const sg_dtype     t = any_type(c);
        const float        n = near[ck_draw(c, 3)];
        const int64_t      made = n > 0 ? 2 * f : f;
        ck_case(c, &(sg_upsample_args){.y = ck_out(c, t, made, 2 * y, 2 * x, m),
                                       .x = ck_new(c, t, CK_RANDOM, n > 0 ? f + 1 : f, y, x, m),
                                       .linear = true,
                                       .near = n});
    }
}

/* fs and ft of 1 and 2 are what models have; the formula allows any. */
void ck_try_avg_down(ck *c)
{
    for (int i = 0; i < trials(c, 80); i++) {
        const int64_t ft = upto(c, 3), fs = upto(c, 3), f = upto(c, 6), y = upto(c, 7), x = upto(c, 7),
                      group = upto(c, 4);
        const int64_t o = ft * fs * fs * upto(c, 5),
                      in = o * group / (ft * fs * fs); /* group divides by construction */
        ck_case(c, &(sg_avg_down_args){.y = ck_out(c, any_type(c), (f + ft - 1) / ft, y, x, o),
                                       .x = ck_new(c, any_type(c), CK_RANDOM, f, y * fs, x * fs, in),
                                       .ft = (int)ft,
                                       .fs = (int)fs});
    }
}

void ck_try_dup_up(ck *c)
{
    for (int i = 0; i < trials(c, 80); i++) {
        const int64_t ft = upto(c, 3), fs = upto(c, 3), f = upto(c, 5), y = upto(c, 7), x = upto(c, 7),
                      repeat = upto(c, 4);
        const int64_t in = ft * fs * fs * upto(c, 5), o = in * repeat / (ft * fs * fs),
                      drop = (int64_t)ck_draw(c, (uint64_t)ft);
        ck_case(c, &(sg_dup_up_args){.y = ck_out(c, any_type(c), f * ft - drop, y * fs, x * fs, o),
                                     .x = ck_new(c, any_type(c), CK_NAN, f, y, x, in),
                                     .ft = (int)ft,
                                     .fs = (int)fs,
                                     .drop = (int)drop});
    }
}

/* Random ranks, lengths and orders; now and then what models do: patches and their reverse, channels last and first. */
void ck_try_permute(ck *c)
{
    for (int i = 0; i < trials(c, 200); i++) {
        sg_permute_args a = {.rank = 1 + (int)ck_draw(c, SG_PERMUTE_RANK)};
        int64_t         count = 1;
        for (int k = 0; k < a.rank; k++) {
            a.dim[k] = upto(c, a.rank < 3 ? (k ? 300 : 3000) : a.rank < 5 ? 20 : 4);
            if (ck_draw(c, 6) == 0) a.dim[k] = 1;
            count *= a.dim[k];
            a.perm[k] = k;
        }
        for (int k = a.rank - 1; k > 0; k--) {
            const int j = (int)ck_draw(c, (uint64_t)k + 1), t = a.perm[k];
            a.perm[k] = a.perm[j];
            a.perm[j] = t;
        }
        a.y = ck_out(c, any_type(c), count);
        a.x = ck_new(c, any_type(c), CK_NAN, count);
        ck_case(c, &a);
    }
}

/* Tokens first or heads first, in order or not, in F16 too; what is scattered leaves no gap, so that all of it is judged. */
void ck_try_strided_copy(ck *c)
{
    static const sg_dtype types[] = {SG_F32, SG_BF16, SG_F16};
    for (int i = 0; i < trials(c, 120); i++) {
        const int64_t        n = upto(c, 300), h = upto(c, 5), d = ck_draw(c, 2) ? 8 * upto(c, 9) : upto(c, 70);
        const bool           heads_first = ck_draw(c, 2), scatter = ck_draw(c, 2);
        const int64_t        gap = (int64_t)ck_draw(c, 3) * 8, back = ck_draw(c, 4) == 0;
        const int64_t        step = (heads_first ? d : h * d) + gap, span = h * d * n + gap * n * (heads_first ? h : 1);
        const sg_dtype       of_y = types[ck_draw(c, 3)], of_x = types[ck_draw(c, 3)];
        sg_strided_copy_args a = {
            .token = back ? -step : step, .head = heads_first ? n * step : d, .first = back ? (n - 1) * step : 0};
        a.scatter = scatter;
        a.y = scatter ? ck_out(c, of_y, span) : ck_out(c, of_y, n, h, d);
        a.x = scatter ? ck_new(c, of_x, CK_NAN, n, h, d) : ck_new(c, of_x, CK_NAN, span);
        if (ck_draw(c, 2)) a.row = ck_new(c, SG_I32, CK_ORDER, n);
        ck_case(c, &a);
    }
    for (int i = 0; i < trials(c, 12); i++) { /* each head several times: a key's for its queries */
        const int64_t  n = upto(c, 300), h = upto(c, 8), d = ck_draw(c, 2) ? 128 : upto(c, 70);
        const sg_dtype t = types[i % 3];
        ck_case(c,
                &(sg_strided_copy_args){.y = ck_out(c, t, n, h, d), .x = ck_new(c, t, CK_RANDOM, n * d), .token = d});
    }
}
