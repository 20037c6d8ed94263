/* test_packed.c - weights that are packed ahead of their products, or widened for them. */
#include "meta.h"
#include "quant.h"
#include "unit.h"

/* Packed bytes alone: scratch is let go. */
static size_t packed_bytes(sg_backend *b)
{
    sg_backend_drop_scratch(b);
    return sg_backend_packed_bytes(b);
}

/* Only some processors and builds pack ahead; on others the product packs. */
static void weights_packed_ahead_are_those_of_the_product(void **state)
{
    static float x[16 * 64], w[32 * 64], y[2][16 * 32];
    sg_backend  *b = NULL;
    sg_error     e = {0};
    assert_int_equal(sg_backend_open(&b, &(sg_backend_options){.name = "cpu", .threads = 1}, &e), SG_OK);
    for (int i = 0; i < 16 * 64; i++) x[i] = (float)(i % 13 - 6);
    for (int i = 0; i < 32 * 64; i++) w[i] = (float)(i % 11 - 5);
    sg_linear_args a = {.y = {.dtype = SG_F32, .rank = 2, .dim = {16, 32}},
                        .x = {.dtype = SG_F32, .rank = 2, .dim = {16, 64}},
                        .w = {.dtype = SG_F32, .rank = 2, .dim = {32, 64}}};
    sg_stream      plan = sg_plan_stream(&(sg_plan_totals){.backend = b});
    sg_linear_(&plan, &a);
    (void)sg_backend_code_bytes(b);
    sg_backend_pack(b, &a.w); /* not loaded: there is nothing to pack */
    assert_int_equal(packed_bytes(b), 0);
    a.x.data = x;
    a.w.data = w;
    size_t held[2];
    for (int ahead = 0; ahead < 2; ahead++) {
        sg_stream s = sg_stream_of(b);
        a.y.data = y[ahead];
        if (ahead) sg_backend_pack(b, &a.w);
        const size_t before = packed_bytes(b);
        sg_linear_(&s, &a);
        held[ahead] = packed_bytes(b);
        assert_int_equal(s.status, SG_OK);
        assert_true(before == 0 || (ahead && before == held[0]));
        sg_backend_drop_packed(b);
    }
    assert_int_equal(held[1], held[0]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    for (int i = 0; i < 16 * 32; i++) {
        float sum = 0; /* of whole numbers: exact */
        for (int k = 0; k < 64; k++) sum += x[i / 32 * 64 + k] * w[i % 32 * 64 + k];
        assert_true(y[1][i] == sum);
    }
    sg_backend_close(&b);
}

/* Weights of a phase go with it; those of the model stay packed. */
static void packed_weights_go_by_place(void **state)
{
    static float x[16 * 64], w[2][32 * 64], y[16 * 32];
    sg_backend  *b = NULL;
    sg_error     e = {0};
    size_t       held[2];
    (void)state;
    assert_int_equal(sg_backend_open(&b, &(sg_backend_options){.name = "cpu", .threads = 1}, &e), SG_OK);
    sg_stream s = sg_stream_of(b);
    for (int i = 0; i < 2; i++) {
        sg_linear_(&s, &(sg_linear_args){.y = {.dtype = SG_F32, .rank = 2, .dim = {16, 32}, .data = y},
                                         .x = {.dtype = SG_F32, .rank = 2, .dim = {16, 64}, .data = x},
                                         .w = {.dtype = SG_F32, .rank = 2, .dim = {32, 64}, .data = w[i]}});
        held[i] = packed_bytes(b);
    }
    assert_int_equal(s.status, SG_OK);
    assert_int_equal(held[1], 2 * held[0]);
    sg_backend_drop_packed_in(b, (uintptr_t)w[1], sizeof w[1]);
    assert_int_equal(packed_bytes(b), held[0]);
    sg_backend_drop_packed_in(b, (uintptr_t)w[1], sizeof w[1]);
    assert_int_equal(packed_bytes(b), held[0]);
    sg_backend_drop_packed(b);
    assert_int_equal(packed_bytes(b), 0);
    sg_backend_close(&b);
}

/* A plan for a GPU counts the memory for quantised weights, widened, but for a few rows, which widen in registers; for
 * BF16 by F32 that of weights in F32, piece by piece; and for a convolution that of its weights in another layout. */
static void gpus_widen_weights(void **state)
{
    sg_backend     gpu = {0};
    sg_plan_totals t = {0};
    sg_linear_args a = {.y = {.dtype = SG_F32, .rank = 2, .dim = {SG_GPU_FEW_ROWS, 64}},
                        .x = {.dtype = SG_F32, .rank = 2, .dim = {SG_GPU_FEW_ROWS, 32}},
                        .w = {.dtype = SG_BF16, .rank = 2, .dim = {64, 32}, .quant.type = SG_QUANT_Q8_0}};
    (void)state;
    sg_plan_gpu(&gpu, 1);
    gpu.call.count(&gpu, &t, "linear", &a);
    assert_true(t.staged[0] == 0 && t.staged[1] == 0);
    a.x.dtype = SG_BF16;
    a.y.dim[0] = ++a.x.dim[0];
    gpu.call.count(&gpu, &t, "linear", &a);
    assert_true(t.staged[0] == 0 && t.staged[1] == sizeof(uint16_t) * 64 * 32);
    a.x.dtype = SG_F32;
    gpu.call.count(&gpu, &t, "linear", &a);
    assert_int_equal(t.staged[0], sizeof(float) * 64 * 32);
    a.w.dim[0] = a.y.dim[1] = 1 << 20;
    gpu.call.count(&gpu, &t, "linear", &a);
    assert_int_equal(t.staged[0], 64 << 20);
    t.staged[0] = 0;
    gpu.call.count(&gpu, &t, "conv",
                   &(sg_conv_args){.x = {.dtype = SG_BF16, .rank = 4, .dim = {1, 8, 8, 16}},
                                   .w = {.dtype = SG_BF16, .rank = 5, .dim = {16, 16, 1, 3, 3}}});
    assert_int_equal(t.staged[0], sizeof(uint16_t) * 16 * 16 * 9);
}

/* ---- quantised weights ---- */

enum { OUT = 150, IN = 512, ROWS_MOST = 33, ROOM = 2 * OUT * IN };

typedef struct products {
    _Alignas(SG_ALIGN) uint8_t kept[ROOM];
    float wide[OUT * IN], x[ROWS_MOST * IN], y[2][ROWS_MOST * OUT];
} products;

/* Any bits, with scales of blocks of 1/16 and scales behind them. */
static void make_weights(products *p, sg_tensor *kept, sg_tensor *wide)
{
    static const int halves[SG_QUANT_COUNT][2] = {
#define X(name, block, bytes, scale, minimum) [SG_QUANT_##name] = {scale, minimum},
        SG_QUANT_TYPES(X)
#undef X
    };
    const sg_quant_type type = (sg_quant_type)kept->quant.type;
    const size_t        n = sg_quant_bytes(type, OUT * IN), block = sg_quant_bytes(type, sg_quant_block(type));
    assert_true(sg_bytes(*kept) <= ROOM);
    for (size_t i = 0; i < n; i++) p->kept[i] = (uint8_t)(i * 2654435761u >> 13) & (halves[type][0] < 0 ? 0xbb : 255);
    for (size_t i = 0; i < n && halves[type][0] >= 0; i += block)
        for (int k = 0; k < 2; k++) p->kept[i + (size_t)halves[type][k] + 1] = 0x2c;
    float *const scale = (float *)(void *)(p->kept + sg_quant_scales_at(kept));
    for (int64_t i = 0; i < sg_quant_scales(kept); i++) scale[i] = 0.37f / (float)(i % 5 + 1);
    kept->data = p->kept;
    wide->data = p->wide;
    for (int64_t o = 0; o < OUT; o++) {
        static float row[IN];
        sg_quant_read(row, kept, o * IN, IN);
        for (int64_t i = 0; i < IN; i++) sg_store(wide, o * IN + i, row[i]);
    }
}

static void compare_products(sg_backend *b, products *p, sg_quant q, sg_dtype as, sg_dtype dtype)
{
    const sg_tensor w = {.dtype = as, .rank = 2, .dim = {OUT, IN}};
    sg_tensor       both[2] = {w, w};
    both[0].quant = q;
    make_weights(p, &both[0], &both[1]);
    for (int64_t n = 1; n <= ROWS_MOST; n += 16) {
        const sg_tensor x = {.data = p->x, .dtype = dtype, .rank = 2, .dim = {n, IN}};
        for (int64_t i = 0; i < n * IN; i++) sg_store(&x, i, (float)(i * 7 % 31 - 15) / 8);
        for (int k = 0; k < 2; k++) {
            sg_stream s = sg_stream_of(b);
            sg_linear(&s, .y = {.data = p->y[k], .dtype = SG_F32, .rank = 2, .dim = {n, OUT}}, .x = x, .w = both[k]);
            if (s.status) fail_msg("%s", s.why);
            sg_backend_drop_packed(b);
        }
        if (memcmp(p->y[0], p->y[1], (size_t)(n * OUT) * sizeof(float)) != 0)
            fail_msg("%s: %s, a scale for %dx%d, as %s, by %s in %d rows: other products", b->device,
                     sg_quant_name((sg_quant_type)q.type), q.scale_rows, q.scale_columns, sg_dtype_name(as),
                     sg_dtype_name(dtype), (int)n);
    }
}

/* At every level, bit by bit: the library is held down by the first of them that is not the highest. */
static void quantised_weights_give_the_products_of_their_numbers(void **state)
{
    static products p;
    int             level = 0;
    while (sg_cpu_mask_names[level]) level++;
    for (; level >= 0; level--) {
        static const sg_quant scaled[] = {{0}, {0, OUT, IN}, {0, 1, IN}, {0, 128, 128}};
        sg_backend           *b = NULL;
        const char *const     name = sg_cpu_mask_names[level];
        sg_backend_options    o = {.name = name ? "cpu" : "ref", .cpu_mask = name ? sg_cpu_mask_of(name) : 0};
        if (sg_backend_open(&b, &o, NULL) != SG_OK) continue; /* the machine lacks it */
        for (int type = 1; type < SG_QUANT_COUNT; type++)
            for (int k = 0; k < (sg_quant_block((sg_quant_type)type) == 16 ? 4 : 1); k++)
                for (int as = 0; as < 4; as++) {
                    sg_quant q = scaled[k];
                    q.type = type;
                    compare_products(b, &p, q, as % 2 ? SG_BF16 : SG_F32, as / 2 ? SG_BF16 : SG_F32);
                }
        sg_backend_close(&b);
    }
}

/* Some rows of quantised weights, with a scale for each 24 rows and 16 columns and an adapter beside them, give those
 * columns of the product. */
static void rows_of_quantised_weights_are_theirs(void **state)
{
    enum { N = 6, I = 32, O = 80, FIRST = 30, ROWS = 40, RANK = 3, ACROSS = I / 16, SCALES = (O + 23) / 24 * ACROSS };
    static const char *const names[] = {"ref", "cpu"};
    static float             x[N * I], up[O * RANK], down[RANK * I], all[N * O], some[N * ROWS];
    static struct {
        _Alignas(SG_ALIGN) int8_t w[O * I]; /* whole SG_ALIGNs */
        float scale[SCALES];
    } q;
    static _Alignas(SG_ALIGN) uint8_t room[1 << 16];
    for (int i = 0; i < N * I; i++) x[i] = (float)(i % 13 - 6);
    for (int i = 0; i < O * I; i++) q.w[i] = (int8_t)(i % 101 - 50);
    for (int i = 0; i < SCALES; i++) q.scale[i] = 0.01f * (float)(i + 1);
    for (int i = 0; i < O * RANK; i++) up[i] = (float)(i % 7 - 3);
    for (int i = 0; i < RANK * I; i++) down[i] = (float)(i % 5 - 2);
    const sg_adapter adapter = {{.data = up, .rank = 2, .dim = {O, RANK}}, {.data = down, .rank = 2, .dim = {RANK, I}}};
    const sg_tensor  w = {.data = q.w, .rank = 2, .dim = {O, I}, .quant = {SG_QUANT_I8, 24, 16}, .adapter = &adapter};
    const sg_tensor  part = sg_rows(w, FIRST, ROWS);
    assert_ptr_equal((char *)part.data + sg_bytes(part), q.scale + (FIRST + ROWS + 23) / 24 * ACROSS);
    for (int i = 0; i < 2; i++) {
        sg_backend *b = NULL;
        sg_error    e = {0};
        assert_done(sg_backend_open(&b, &(sg_backend_options){.name = names[i], .threads = 1}, &e), &e);
        sg_stream s = sg_stream_of(b);
        s.scratch = (sg_arena){.base = (uintptr_t)room, .cap = sizeof room};
        const sg_tensor of = {.data = x, .rank = 2, .dim = {N, I}};
        sg_linear(&s, .y = (sg_tensor){.data = all, .rank = 2, .dim = {N, O}}, .x = of, .w = w);
        sg_linear(&s, .y = (sg_tensor){.data = some, .rank = 2, .dim = {N, ROWS}}, .x = of, .w = part);
        if (s.status) fail_msg("%s", s.why);
        for (int k = 0; k < N * ROWS; k++) assert_true(some[k] == all[k / ROWS * O + FIRST + k % ROWS]);
        sg_backend_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_packed_ahead_are_those_of_the_product),
                                       cmocka_unit_test(packed_weights_go_by_place),
                                       cmocka_unit_test(gpus_widen_weights),
                                       cmocka_unit_test(rows_of_quantised_weights_are_theirs),
                                       cmocka_unit_test(quantised_weights_give_the_products_of_their_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
