/* test_groups.c - layers whose tokens attend by groups: rows of x in the order of each, attention within them, what is
 * counted, and what the forecast says of short groups. */
#include "../held.h"
#include "dit.h"
#include "forecast.h"
#include "op.h"
#include "render.h"
#include "report_attention.h"
#include "unit.h"

enum { WHOLE, EVERY, RUNS, LAYERS, PASSES = 2, HEADS = 2, WIDE = 24, ROW = HEADS * WIDE, ROOM = 96 << 20 };

static const sg_groups groups[LAYERS] = {{0, 0}, {4, 1}, {4, 4}};

/* ---- a model of three layers ---- */

typedef struct bench {
    sg_backend       *backend;
    sg_stream         s;
    sg_dit            dit;
    sg_geometry       g;
    int64_t           n;
    sg_self_attention self;
    sg_dit_run        run;
    int32_t          *order, *token; /* [n]; [layers, n]: the rows of each layer */
    float            *q, *k, *v;     /* by token: [n, h, d] */
    int               calls;         /* of attention */
    int64_t           tokens;        /* in these */
} bench;

/* Neighbours on the grid are similar. */
static float *smooth(const bench *b, double phase)
{
    float *const x = malloc((size_t)(b->n * ROW) * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < b->n; i++)
        for (int64_t c = 0; c < ROW; c++) {
            const int64_t *const g = b->g.grid;
            const double         place[] = {(double)(i / g[2] / g[1]), (double)(i / g[2] % g[1]), (double)(i % g[2])};
            const double         at = place[c % 3] / 3 + place[c / 3 % 3] / 6;
            x[i * ROW + c] = (float)(1.5 * sin(at + phase * (double)(c + 1)));
        }
    return x;
}

static void count_call(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                       double timestep, const sg_attend_args *args)
{
    bench *const b = context;
    assert_int_equal(args->q.dim[0], shape->n);
    assert_int_equal(args->k.dim[0], shape->n);
    b->calls++;
    b->tokens += shape->n;
}

static void place(bench *b)
{
    b->order = malloc((size_t)b->n * sizeof *b->order);
    b->token = malloc((size_t)(LAYERS * b->n) * sizeof *b->token);
    assert_true(b->order && b->token);
    if (b->self.ordered)
        assert_int_equal(sg_order_make(b->order, SG_ORDER_HILBERT, b->g.grid[0], b->g.grid[1], b->g.grid[2]), SG_OK);
    b->self.order = b->self.ordered ? b->order : NULL;
    b->s = sg_stream_of(b->backend);
    b->s.keep = (sg_arena){.base = (uintptr_t)b->s.memory->alloc(b->backend, ROOM), .cap = ROOM};
    b->s.scratch = (sg_arena){.base = (uintptr_t)b->s.memory->alloc(b->backend, ROOM), .cap = ROOM};
    assert_true(b->s.keep.base && b->s.scratch.base);
    sg_self_attention_place(&b->self, &b->s);
    sg_dit_run_open(&b->run, &b->dit, &b->s, &b->g, &b->self);
    sg_dit_run_rotary(&b->run, &b->s, (const int64_t[]){8, 8, 8}, 10000, NULL);
    for (int i = 0; i < LAYERS; i++) sg_order_group(b->token + i * b->n, b->self.order, b->n, groups[i]);
}

static void open_bench(bench *b, const char *backend, const int64_t grid[3], bool ordered, sg_policy p)
{
    sg_attention_shape shape[PASSES * LAYERS];
    sg_error           e = {0};
    *b = (bench){.g.grid = {grid[0], grid[1], grid[2]}, .n = grid[0] * grid[1] * grid[2]};
    b->dit = (sg_dit){.heads = HEADS, .head_dim = WIDE, .width = ROW};
    assert_done(sg_backend_open(&b->backend, &(sg_backend_options){.name = backend, .cpu_mask = held_mask()}, &e), &e);
    for (int i = 0; i < PASSES * LAYERS; i++) {
        shape[i] = (sg_attention_shape){.layers = LAYERS,
                                        .steps = 1,
                                        .passes = PASSES,
                                        .values = b->backend->values,
                                        .watch = {.on_begin = count_call, .on_begin_context = b}};
        sg_dit_shape(&b->dit, &b->g, 0, 0, &shape[i]);
        shape[i].groups = groups[i % LAYERS];
    }
    assert_done(sg_self_attention_open(&b->self, &p, shape, &e), &e);
    b->self.ordered = ordered;
    place(b);
    b->q = smooth(b, 0.3);
    b->k = smooth(b, 0.3); /* tokens attend to those near them */
    b->v = smooth(b, 1.1);
}

static void close_bench(bench *b)
{
    b->s.memory->release(b->backend, (void *)b->s.keep.base);
    b->s.memory->release(b->backend, (void *)b->s.scratch.base);
    sg_self_attention_close(&b->self);
    sg_backend_close(&b->backend);
    free(b->order);
    free(b->token);
    free(b->q);
    free(b->k);
    free(b->v);
}

static int64_t token_of(const bench *b, int layer, int64_t row) { return b->token[layer * b->n + row]; }

/* x on the device, its rows as that layer has them. */
static sg_tensor upload(bench *b, int layer, const float *x)
{
    const sg_tensor t = sg_new(&b->s, SG_F32, b->n, HEADS, WIDE);
    float *const    rows = malloc(sg_bytes(t));
    assert_non_null(rows);
    for (int64_t i = 0; i < b->n; i++) memcpy(rows + i * ROW, x + token_of(b, layer, i) * ROW, ROW * sizeof *rows);
    sg_upload(&b->s, t, rows);
    free(rows);
    return t;
}

/* y [n, h, d] by token. */
static void attend(bench *b, int layer, int pass, float *y)
{
    const size_t    mark = b->s.scratch.used;
    const sg_tensor qkv[3] = {upload(b, layer, b->q), upload(b, layer, b->k), upload(b, layer, b->v)};
    const sg_tensor o = sg_new(&b->s, SG_F32, b->n, HEADS, WIDE);
    const sg_pass   p = {.index = pass, .count = PASSES, .timestep = 500};
    float *const    rows = malloc(sg_bytes(o));
    assert_non_null(rows);
    sg_dit_attend(&b->dit, &b->run, &b->s, &p, layer, o, qkv);
    sg_download(&b->s, rows, o);
    if (b->s.status) fail_msg("%s", b->s.why);
    for (int64_t i = 0; i < b->n; i++) memcpy(y + token_of(b, layer, i) * ROW, rows + i * ROW, ROW * sizeof *rows);
    free(rows);
    b->s.scratch.used = mark;
}

static bool together(int layer, int64_t one, int64_t other)
{
    const sg_groups g = groups[layer];
    return !g.count || one / g.run % g.count == other / g.run % g.count;
}

/* Of one token and head, in double. */
static void expect(const bench *b, int layer, int64_t token, int head, double *y)
{
    double sum = 0;
    memset(y, 0, WIDE * sizeof *y);
    for (int64_t j = 0; j < b->n; j++) {
        double dot = 0;
        if (!together(layer, token, j)) continue;
        for (int c = 0; c < WIDE; c++)
            dot += (double)b->q[token * ROW + head * WIDE + c] * (double)b->k[j * ROW + head * WIDE + c];
        const double weight = exp(dot / sqrt(WIDE));
        for (int c = 0; c < WIDE; c++) y[c] += weight * (double)b->v[j * ROW + head * WIDE + c];
        sum += weight;
    }
    for (int c = 0; c < WIDE; c++) y[c] /= sum;
}

/* Relative distance of every so many tokens. */
static double error_of(const bench *b, int layer, const float *y, int64_t every)
{
    double far = 0, size = 0, want[WIDE];
    for (int64_t i = 0; i < b->n; i += every)
        for (int h = 0; h < HEADS; h++) {
            expect(b, layer, i, h, want);
            for (int c = 0; c < WIDE; c++) {
                far += pow((double)y[i * ROW + h * WIDE + c] - want[c], 2);
                size += want[c] * want[c];
            }
        }
    return sqrt(far / size);
}

/* Pairs of blocks of all groups of a layer, over all heads. */
static int64_t blocks_of(int layer, int64_t n)
{
    int64_t blocks = 0;
    for (int k = 0; k < (groups[layer].count ? groups[layer].count : 1); k++) {
        const int64_t tokens = sg_group_tokens(groups[layer], n, k);
        blocks += HEADS * sg_div_up(tokens, SG_BLOCK_Q) * sg_div_up(tokens, SG_BLOCK_K);
    }
    return blocks;
}

/* ---- tests ---- */

static const int64_t grids[][3] = {{3, 5, 22}, {2, 7, 30}, {2, 3, 40}, {1, 1, 1}, {1, 1, 3}, {1, 2, 9}};

/* Whatever the width and the order, groups of unequal lengths attend to themselves, and all of them are counted. */
static void tokens_attend_to_their_group(void **state)
{
    for (size_t i = 0; i < sizeof grids / sizeof *grids * 4; i++) {
        bench              b;
        sg_policy          p = sg_policy_default();
        sg_attention_count count[PASSES * LAYERS];
        p.kind = SG_ATTENTION_DENSE;
        open_bench(&b, i % 2 ? "cpu" : "ref", grids[i / 4], i / 2 % 2, p);
        float *const y = malloc((size_t)(b.n * ROW) * sizeof *y);
        assert_non_null(y);
        for (int pass = 0; pass < PASSES; pass++)
            for (int layer = 0; layer < LAYERS; layer++) {
                b.calls = 0;
                b.tokens = 0;
                attend(&b, layer, pass, y);
                assert_true(error_of(&b, layer, y, 1) < 1e-5);
                assert_int_equal(b.tokens, b.n);
                assert_int_equal(b.calls, !layer ? 1 : layer == RUNS && b.n < 13 ? (b.n + 3) / 4 : b.n < 4 ? b.n : 4);
            }
        assert_int_equal(sg_self_attention_counts(&b.self, &b.s, 0, count), SG_OK);
        for (int k = 0; k < PASSES * LAYERS; k++) {
            assert_int_equal(count[k].blocks, blocks_of(k % LAYERS, b.n));
            assert_int_equal(count[k].kept, count[k].blocks);
            assert_true(fabs(count[k].mass - 1) < 1e-12);
            assert_int_equal(count[k].why, SG_WHY_POLICY);
        }
        free(y);
        close_bench(&b);
    }
}

/* Blocks are left out inside of groups, whose counters are those of all four. In a group, too, a curve through the grid
 * makes better blocks than rows do. */
static void groups_skip_blocks(void **state)
{
    static const int64_t grid[3] = {6, 35, 22}; /* 4,620: groups of 1,155; of 1,156, 1,156, 1,156, 1,152 */
    sg_policy            p = sg_policy_default();
    p.named = true;
    p.dense_steps = 0;
    for (int way = 0; way < 2; way++) {
        double error[2][LAYERS];
        for (int ordered = 0; ordered < 2; ordered++) {
            bench              b;
            sg_attention_count count[PASSES * LAYERS];
            open_bench(&b, way ? "cpu" : "ref", grid, ordered, p);
            float *const y = malloc((size_t)(b.n * ROW) * sizeof *y);
            assert_non_null(y);
            for (int layer = EVERY; layer <= RUNS; layer++) {
                attend(&b, layer, 1, y);
                error[ordered][layer] = error_of(&b, layer, y, 37);
            }
            assert_int_equal(sg_self_attention_counts(&b.self, &b.s, 0, count), SG_OK);
            for (int layer = EVERY; layer <= RUNS; layer++) {
                const sg_attention_count *const c = &count[LAYERS + layer];
                assert_int_equal(c->kind, SG_ATTENTION_SPARGE);
                assert_int_equal(c->blocks, blocks_of(layer, b.n));
                assert_true((double)c->kept > 0.5 * (double)c->blocks && (double)c->kept < 0.7 * (double)c->blocks);
                assert_true(c->mass > 0.5 && c->mass < 1);
                assert_int_equal(count[layer].blocks, 0); /* that pass did not run */
            }
            free(y);
            close_bench(&b);
        }
        for (int layer = EVERY; layer <= RUNS; layer++)
            assert_true(error[true][layer] < 0.11 && error[true][layer] < 0.85 * error[false][layer]);
    }
}

/* From one order to another and back, with the rotary tables of the tokens. */
static void rows_move_between_orders(void **state)
{
    for (size_t i = 0; i < sizeof grids / sizeof *grids * 2; i++) {
        bench b;
        open_bench(&b, "ref", grids[i / 2], i % 2, sg_policy_default());
        sg_stream *const s = &b.s;
        float *const     row = malloc((size_t)b.n * sizeof *row);
        sg_dit_tokens    t = {sg_new(s, SG_F32, b.n, 1), sg_new(s, SG_F32, b.n, 1), 0};
        assert_non_null(row);
        for (int64_t k = 0; k < b.n; k++) row[k] = (float)token_of(&b, WHOLE, k);
        sg_upload(s, t.x, row);
        for (int step = 0; step < 2 * LAYERS * LAYERS; step++) { /* from each to each */
            const int layer = step % 2 ? step / 2 % LAYERS : step / 2 / LAYERS;
            sg_dit_arrange(&b.run, s, &t, groups[layer]);
            for (int64_t k = 0; k < b.n; k++) assert_true(((float *)t.x.data)[k] == (float)token_of(&b, layer, k));
            const float *const seen = sg_dit_row_by_row(&b.run, s, &t).data;
            for (int64_t k = 0; k < b.n; k++) assert_true(seen[k] == (float)k);
        }
        for (int layer = EVERY; layer < LAYERS; layer++) {
            sg_dit_arrange(&b.run, s, &t, groups[layer]);
            for (int64_t k = 0; k < b.n; k++) {
                int64_t at = 0;
                while (token_of(&b, WHOLE, at) != token_of(&b, layer, k)) at++;
                assert_memory_equal((float *)b.run.rotary[t.order].sin.data + k * 12,
                                    (float *)b.run.rotary[0].sin.data + at * 12, 12 * sizeof(float));
            }
        }
        if (s->status) fail_msg("%s", s->why);
        free(row);
        close_bench(&b);
    }
}

/* A sequence may be long where its groups are short. These layers are dense then, and the forecast says so. */
static void short_groups_are_dense(void **state)
{
    static const int64_t grid[3] = {8, 32, 40};
    bench                b;
    sg_attention_count   count[PASSES * LAYERS];
    sg_attention_record  record = {count, 1, PASSES, LAYERS};
    char                 text[SG_FORECAST_TEXT];
    sg_policy            p = sg_policy_default();
    p.dense_steps = 0;
    open_bench(&b, "ref", grid, true, p);
    assert_int_equal(sg_self_attention_counts(&b.self, &b.s, 0, count), SG_OK);
    for (int k = 0; k < PASSES * LAYERS; k++) {
        assert_int_equal(count[k].kind, k % LAYERS ? SG_ATTENTION_DENSE : SG_ATTENTION_SPARGE);
        assert_int_equal(count[k].why, k % LAYERS ? SG_WHY_SHORT : SG_WHY_POLICY);
        count[k].blocks = count[k].kept = k == LAYERS ? 0 : 8; /* both passes share the first layer */
    }
    sg_attention_step_text(text, sizeof text, &record, 0);
    assert_non_null(strstr(text, ", 2 of 3 layers dense: their sequences are short"));
    assert_null(strstr(text, "the sequence is short"));
    assert_non_null(strstr(sg_attention_summary(text, sizeof text, &record), ", 2 of 3 layers dense: their sequ"));
    for (int named = 0; named < 2; named++) {
        sg_plan plan = {.tokens = 10240, .layers = LAYERS, .steps = 1, .grouped = 2, .group = 2560};
        p.named = named;
        sg_plan_attention(&plan, &p, b.self.bound[0]);
        sg_attention_forecast_text(text, &p, &plan);
        assert_int_equal(strstr(text, ", 2 of 3 layers dense: groups of 2560 tokens are short") != NULL, !named);
    }
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_attend_to_their_group),
                                       cmocka_unit_test(groups_skip_blocks), cmocka_unit_test(rows_move_between_orders),
                                       cmocka_unit_test(short_groups_are_dense)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
