/* test_order.c - orders of the tokens: every one is a permutation, curves do not jump, and blocks of neighbours are as
 * compact as they were found to be. */
#include "order.h"
#include "unit.h"

typedef struct grid {
    int64_t t, y, x;
} grid;

static int32_t *made(sg_order order, grid g)
{
    int32_t *const at = calloc((size_t)(g.t * g.y * g.x), sizeof *at);
    assert_non_null(at);
    assert_int_equal(sg_order_make(at, order, g.t, g.y, g.x), SG_OK);
    return at;
}

static void place(const grid *g, int64_t token, int64_t at[3])
{
    at[0] = token / (g->y * g->x);
    at[1] = token / g->x % g->y;
    at[2] = token % g->x;
}

/* Steps between neighbours that are not of length 1, the longest step. */
typedef struct jumps {
    int64_t count, longest;
} jumps;

static jumps count_jumps(const int32_t *at, grid g)
{
    jumps j = {0};
    for (int64_t i = 1; i < g.t * g.y * g.x; i++) {
        int64_t a[3], b[3], length = 0;
        place(&g, at[i - 1], a);
        place(&g, at[i], b);
        for (int k = 0; k < 3; k++) length += llabs(a[k] - b[k]);
        j.count += length != 1;
        if (length > j.longest) j.longest = length;
    }
    return j;
}

static const grid grids[] = {{1, 1, 1}, {1, 1, 17},  {1, 9, 1},    {5, 1, 1},   {1, 6, 8},    {1, 7, 5},   {4, 1, 6},
                             {3, 5, 1}, {2, 2, 2},   {3, 3, 3},    {7, 11, 13}, {5, 31, 2},   {13, 2, 3},  {2, 40, 3},
                             {9, 8, 8}, {1, 64, 64}, {16, 16, 16}, {9, 32, 32}, {13, 30, 45}, {21, 30, 52}};
enum { GRIDS = sizeof grids / sizeof *grids };

static void orders_are_permutations(void **state)
{
    for (int order = 0; order < SG_ORDERS; order++) {
        assert_non_null(sg_order_names[order]);
        for (int i = 0; i < GRIDS; i++) {
            const int64_t  n = grids[i].t * grids[i].y * grids[i].x;
            int32_t *const at = made((sg_order)order, grids[i]), *const inverse = malloc((size_t)n * sizeof *inverse);
            assert_non_null(inverse);
            memset(inverse, 0xff, (size_t)n * sizeof *inverse);
            for (int64_t k = 0; k < n; k++) assert_in_range(at[k], 0, n - 1);
            sg_order_invert(inverse, at, n);
            for (int64_t k = 0; k < n; k++)
                if (inverse[k] < 0 || at[inverse[k]] != k)
                    fail_msg("%s of %lldx%lldx%lld misses token %lld", sg_order_names[order], (long long)grids[i].t,
                             (long long)grids[i].y, (long long)grids[i].x, (long long)k);
            free(at);
            free(inverse);
        }
    }
    assert_null(sg_order_names[SG_ORDERS]);
}

static void plain_orders_are_as_named(void **state)
{
    static const int32_t want[3][12] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11},
                                        {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11},
                                        {0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}};
    for (int k = 0; k < 3; k++) {
        int32_t *const at = made((sg_order)k, (grid){2, 2, 3});
        assert_memory_equal(at, want[k], sizeof want[k]);
        free(at);
    }
    static const int32_t z[8] = {0, 1, 2, 3, 4, 5, 6, 7}, flat[8] = {0, 1, 4, 5, 2, 3, 6, 7};
    int32_t *const       cube = made(SG_ORDER_MORTON, (grid){2, 2, 2});
    int32_t *const       plane = made(SG_ORDER_MORTON, (grid){1, 2, 4});
    assert_memory_equal(cube, z, sizeof z);
    assert_memory_equal(plane, flat, sizeof flat);
    free(cube);
    free(plane);
}

static void expect_steps(sg_order order, grid g, int64_t longest)
{
    int32_t *const at = made(order, g);
    const jumps    j = count_jumps(at, g);
    if (j.longest > longest)
        fail_msg("%s of %lldx%lldx%lld has %lld jumps, the longest %lld", sg_order_names[order], (long long)g.t,
                 (long long)g.y, (long long)g.x, (long long)j.count, (long long)j.longest);
    free(at);
}

static void curves_step_to_neighbours(void **state)
{
    for (int64_t t = 1; t <= 64; t *= 2)
        for (int64_t y = 1; y <= 64; y *= 2)
            for (int64_t x = 1; x <= 64; x *= 2) expect_steps(SG_ORDER_HILBERT, (grid){t, y, x}, 1);
    for (int64_t t = 2; t <= 20; t += 2)
        for (int64_t y = 2; y <= 20; y += 2)
            for (int64_t x = 2; x <= 20; x += 2) {
                expect_steps(SG_ORDER_HILBERT, (grid){t, y, x}, 1);
                expect_steps(SG_ORDER_HILBERT_FRAME, (grid){t, y, x}, 1);
            }
    for (int64_t y = 1; y <= 41; y++)
        for (int64_t x = 1; x <= 41; x++) {
            expect_steps(SG_ORDER_HILBERT, (grid){1, y, x}, y % 2 || x % 2 ? 2 : 1);
            expect_steps(SG_ORDER_HILBERT, (grid){y, 1, x}, y % 2 || x % 2 ? 2 : 1);
            expect_steps(SG_ORDER_HILBERT, (grid){y, x, 1}, y % 2 || x % 2 ? 2 : 1);
            expect_steps(SG_ORDER_HILBERT_FRAME, (grid){5, y, x}, 2);
            expect_steps(SG_ORDER_HILBERT, (grid){7, y, x}, 3);
        }
    for (int64_t side = 2; side <= 32; side *= 2) {
        expect_steps(SG_ORDER_HILBERT_CUBE, (grid){side, side, side}, 1);
        expect_steps(SG_ORDER_HILBERT_CUBE, (grid){1, side, side}, 1);
        expect_steps(SG_ORDER_HILBERT_CUBE, (grid){side, side, 1}, 1);
    }
}

/* Means over whole blocks of `size` tokens: the root of the mean squared distance to the centre, and the volume of the
 * box around them for each token. */
static void spread(const int32_t *at, grid g, int64_t size, double *rms, double *box)
{
    const int64_t blocks = g.t * g.y * g.x / size;
    *rms = *box = 0;
    for (int64_t b = 0; b < blocks; b++) {
        double sum[3] = {0}, squares = 0, volume = 1, low[3] = {1e9, 1e9, 1e9}, high[3] = {0};
        for (int64_t i = 0; i < size; i++) {
            int64_t p[3];
            place(&g, at[b * size + i], p);
            for (int k = 0; k < 3; k++) {
                sum[k] += (double)p[k];
                squares += (double)(p[k] * p[k]);
                low[k] = fmin(low[k], (double)p[k]);
                high[k] = fmax(high[k], (double)p[k]);
            }
        }
        for (int k = 0; k < 3; k++) {
            squares -= sum[k] * sum[k] / (double)size;
            volume *= high[k] - low[k] + 1;
        }
        *rms += sqrt(squares / (double)size) / (double)blocks;
        *box += volume / (double)size / (double)blocks;
    }
}

static void blocks_are_compact(void **state)
{
    static const struct {
        grid     g;
        sg_order order;
        int64_t  jumps, longest;
        double   rms[2], box[2]; /* of 64 and 128 tokens */
    } want[] = {
        {{13, 30, 45}, SG_ORDER_ROW, 389, 74, {12.9, 13.3}, {3.4, 3.1}},
        {{13, 30, 45}, SG_ORDER_HILBERT, 175, 2, {2.31, 2.93}, {1.61, 1.69}},
        {{13, 30, 45}, SG_ORDER_HILBERT_CUBE, 252, 31, {2.18, 2.97}, {1.36, 1.50}},
        {{13, 30, 45}, SG_ORDER_HILBERT_FRAME, 13, 2, {3.76, 5.29}, {1.42, 1.46}},
        {{21, 30, 52}, SG_ORDER_HILBERT, 88, 2, {2.32, 2.91}, {1.63, 1.69}},
        {{21, 30, 52}, SG_ORDER_HILBERT_CUBE, 305, 45, {2.15, 3.02}, {1.37, 1.47}},
        {{21, 30, 52}, SG_ORDER_MORTON, 16379, 61, {2.11, 3.46}, {1.19, 2.59}},
        {{21, 45, 80}, SG_ORDER_HILBERT, 552, 2, {2.33, 2.89}, {1.73, 1.66}},
        {{21, 45, 80}, SG_ORDER_HILBERT_CUBE, 577, 58, {2.12, 2.96}, {1.20, 1.44}},
        {{33, 45, 80}, SG_ORDER_HILBERT, 672, 2, {2.30, 2.89}, {1.64, 1.59}},
        {{1, 64, 64}, SG_ORDER_ROW, 63, 64, {18.5, 18.5}, {1, 1}}, /* images: squares of 8x8, and two of them */
        {{1, 64, 64}, SG_ORDER_HILBERT, 0, 1, {3.24, 5.15}, {1, 1}},
        {{1, 64, 64}, SG_ORDER_HILBERT_CUBE, 0, 1, {3.24, 5.15}, {1, 1}},
        {{1, 128, 128}, SG_ORDER_HILBERT_CUBE, 0, 1, {3.24, 5.15}, {1, 1}},
        {{1, 96, 96}, SG_ORDER_HILBERT_CUBE, 2, 63, {3.24, 5.15}, {1, 1}},
        {{1, 45, 80}, SG_ORDER_ROW, 44, 80, {22.1, 22.6}, {1.88, 1.50}},
        {{1, 45, 80}, SG_ORDER_HILBERT, 0, 1, {3.80, 5.32}, {1.46, 1.39}},
        {{1, 45, 80}, SG_ORDER_HILBERT_CUBE, 10, 76, {3.69, 6.44}, {1.22, 1.52}},
        {{1, 63, 85}, SG_ORDER_HILBERT, 0, 1, {3.80, 5.36}, {1.45, 1.39}},
        {{1, 63, 85}, SG_ORDER_HILBERT_CUBE, 34, 91, {3.60, 6.19}, {1.23, 1.41}},
        {{1, 85, 48}, SG_ORDER_HILBERT_CUBE, 7, 36, {3.58, 5.60}, {1.09, 1.10}},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int32_t *const at = made(want[i].order, want[i].g);
        const jumps    j = count_jumps(at, want[i].g);
        assert_int_equal(j.count, want[i].jumps);
        assert_int_equal(j.longest, want[i].longest);
        for (int k = 0; k < 2; k++) {
            double rms, box;
            spread(at, want[i].g, 64 << k, &rms, &box);
            if (fabs(rms / want[i].rms[k] - 1) > 0.01 || fabs(box / want[i].box[k] - 1) > 0.02)
                fail_msg("%s: blocks of %d: radius %.3f, not %.2f; box %.3f, not %.2f", sg_order_names[want[i].order],
                         64 << k, rms, want[i].rms[k], box, want[i].box[k]);
        }
        free(at);
    }
}

/* No block of 128 tokens lies within one of 8 k + 1 frames. */
static void blocks_are_not_flat_in_time(void **state)
{
    enum { BLOCK = 128 };
    for (int64_t t = 9; t <= 41; t += 8) {
        const grid     g = {t, 16, 24};
        const int64_t  frame = g.y * g.x;
        int32_t *const at = made(SG_ORDER_HILBERT_CUBE, g);
        for (int64_t b = 0; b < t * frame; b += BLOCK) {
            int64_t i = 1;
            while (i < BLOCK && at[b + i] / frame == at[b] / frame) i++;
            if (i == BLOCK) fail_msg("tokens from %lld lie in one of %lld frames", (long long)b, (long long)t);
        }
        free(at);
    }
}

/* Tokens of every fourth number, and runs of four of every sixteen, whatever the width and the count. */
static void groups_part_an_order(void **state)
{
    static const grid      wide[] = {{3, 5, 22}, {2, 3, 30}, {2, 4, 40}, {1, 3, 7}, {1, 1, 1}, {1, 1, 3}, {1, 1, 6}};
    static const sg_groups rules[] = {{4, 1}, {4, 4}, {1, 1}, {0, 0}, {3, 2}};
    for (size_t i = 0; i < sizeof wide / sizeof *wide * (sizeof rules / sizeof *rules); i++) {
        const grid      g = wide[i / (sizeof rules / sizeof *rules)];
        const sg_groups rule = rules[i % (sizeof rules / sizeof *rules)];
        const int64_t   n = g.t * g.y * g.x;
        const int       count = rule.count > 1 ? rule.count : 1;
        int32_t *const curve = made(SG_ORDER_HILBERT, g), *const at = malloc((size_t)n * sizeof *at);
        int32_t *const place = malloc((size_t)n * sizeof *place);
        assert_true(at && place);
        sg_order_invert(place, curve, n);
        for (int ordered = 0; ordered < 2; ordered++) {
            int64_t k = 0, longest = n;
            sg_order_group(at, ordered ? curve : NULL, n, rule);
            for (int group = 0; group < count; group++) {
                const int64_t tokens = sg_group_tokens(rule, n, group), first = k;
                assert_true(tokens <= longest);
                longest = tokens;
                for (; k < first + tokens; k++) {
                    if (count > 1) assert_int_equal(at[k] / rule.run % rule.count, group);
                    if (k == first) continue;
                    assert_true(ordered ? place[at[k - 1]] < place[at[k]] : at[k - 1] < at[k]);
                }
            }
            assert_int_equal(k, n);
        }
        free(curve);
        free(at);
        free(place);
    }
    assert_int_equal(sg_group_tokens((sg_groups){4, 4}, 330, 0), 84);
    assert_int_equal(sg_group_tokens((sg_groups){4, 4}, 330, 2), 82);
    assert_int_equal(sg_group_tokens((sg_groups){4, 4}, 330, 3), 80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_permutations),     cmocka_unit_test(plain_orders_are_as_named),
        cmocka_unit_test(curves_step_to_neighbours),   cmocka_unit_test(blocks_are_compact),
        cmocka_unit_test(blocks_are_not_flat_in_time), cmocka_unit_test(groups_part_an_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
