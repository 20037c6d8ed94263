/* test_dequantise.c - types that no sg_dtype can view, from the file to the device: the bits of gguf-py's values, row cuts,
 * patches, merged and beside, and scales that are no numbers. */
#include "convert.h"
#include "dequantise_table.h"
#include "memory_source.h"
#include "quant.h"

#include <float.h>
#include <math.h>

enum {
    CASES = sizeof table / sizeof *table,
    BYTES_MAX = TABLE_BLOCKS * 210,
    FLOATS_MAX = TABLE_BLOCKS * SG_QUANT_BLOCK_MAX
};

static uint8_t bits[BYTES_MAX];
static float   plain_data[FLOATS_MAX];

static bool is_number(const char *type, int byte)
{
    if (strcmp(type, "F8_E4M3") == 0) return (byte & 0x7f) != 0x7f;
    return strcmp(type, "F8_E5M2") != 0 || (byte & 0x7c) != 0x7c;
}

/* As make_dequantise_table.py makes them: the number of elements. */
static size_t make_bits(int c)
{
    const size_t size = (size_t)table[c].bytes;
    size_t       n = 0;
    uint32_t     state = 1;
    if (table[c].block == 1) {
        for (int byte = 0; byte < 256; byte++)
            if (is_number(table[c].type, byte)) bits[n++] = (uint8_t)byte;
        return n;
    }
    for (size_t i = 0; i < TABLE_BLOCKS * size; i++) {
        state = state * 1664525u + 1013904223u;
        bits[i] = (uint8_t)(state >> 24);
    }
    for (size_t block = 0; block < TABLE_BLOCKS; block++)
        for (int k = 0; k < 2 && table[c].scale[k] >= 0; k++) {
            uint8_t *const high = bits + block * size + table[c].scale[k] + 1;
            if ((*high & 0x7c) == 0x7c) *high &= 0xbf;
        }
    return (size_t)TABLE_BLOCKS * (size_t)table[c].block;
}

static sg_source_type type_of(int c)
{
    return (sg_source_type){table[c].type, SG_DTYPES, table[c].block, table[c].bytes};
}

/* A tensor of so many elements at `bits`, in rows. */
static void add_bits(arrays *a, const char *name, const sg_source_type *type, size_t rows, size_t n)
{
    assert_true(a->count < TENSORS_MAX);
    a->tensor[a->count++] = (sg_source_tensor){.name = name,
                                               .type = type,
                                               .data = bits,
                                               .bytes = n / (size_t)type->block * (size_t)type->bytes,
                                               .dim = {(int64_t)rows, (int64_t)(n / rows)},
                                               .rank = 2,
                                               .file = "arrays"};
}

static uint64_t sum_of(const float *x, size_t n)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) {
        uint32_t u;
        memcpy(&u, x + i, sizeof u);
        sum = (sum ^ u) * 0x100000001b3u;
    }
    return sum;
}

static void check_type(int c, const sg_backend *device)
{
    static const sg_name_rule rules[] = {{"cut", "w", 4, {{2, 1}, {0, 1}}}}; /* the third quarter, then the first */
    const sg_name_map         map = {.rules = rules, .count = 1};
    const sg_source_type      type = type_of(c);
    const size_t              n = make_bits(c), rows = n % 4 ? 1 : 4, row = n / rows;
    arrays                    a = {.count = 0};
    sg_tensor                 whole, rounded, part = {0};
    size_t                    mapped;
    add_bits(&a, "w.weight", &type, rows, n);
    sg_source *s = open_arrays(&a);
    sg_bind   *b = bind_to(s, &map);
    sg_bind_tensor(b, &whole, SG_F32, "w.weight", (int64_t)rows, (int64_t)row);
    sg_bind_tensor(b, &rounded, SG_BF16, "w.weight", (int64_t)rows, (int64_t)row);
    if (rows == 4) sg_bind_tensor(b, &part, SG_F32, "cut.weight", 2, (int64_t)row);
    assert_true(sg_bind_bytes(b, device, &mapped) > 0 && mapped == 0);
    load(b, device);
    const float *const x = whole.data;
    if (sum_of(x, n) != table[c].sum) fail_msg("%s: other values than gguf-py's", type.name);
    for (size_t i = 0; i < n; i++) assert_int_equal(((const uint16_t *)rounded.data)[i], sg_f32_to_bf16(x[i]));
    if (rows == 4) assert_memory_equal(part.data, x + 2 * row, row * sizeof *x);
    if (rows == 4) assert_memory_equal((const float *)part.data + row, x, row * sizeof *x);
    const sg_bind_rows peeked = sg_bind_peek(b, "w.weight");
    assert_string_equal(peeked.type, type.name);
    assert_true(peeked.rank == 2 && sg_bind_row(&peeked, (int64_t)rows - 1, plain_data));
    assert_memory_equal(plain_data, x + (rows - 1) * row, row * sizeof *x);
    close_both(&b, &s);
}

static void values_have_the_bits_of_the_reference(void **state)
{
    for (int c = 0; c < CASES; c++) {
        check_type(c, &devices[0]);
        check_type(c, &devices[1]);
    }
}

/* Rows of `kept`, as sg_linear reads them, against those of `wide`. */
static void assert_reads_as(const sg_tensor *kept, const sg_tensor *wide)
{
    const int64_t row = kept->dim[1];
    assert_true(kept->quant.type != SG_QUANT_NONE && kept->dtype == wide->dtype);
    for (int64_t i = 0; i < kept->dim[0]; i++) {
        sg_quant_read(plain_data, kept, i * row, row);
        for (int64_t k = 0; k < row; k++) assert_true(plain_data[k] == sg_load(wide, i * row + k));
        const sg_tensor own = sg_rows(sg_rows(*kept, i / 2, kept->dim[0] - i / 2), i - i / 2, 1);
        sg_quant_read(plain_data, &own, 0, row);
        for (int64_t k = 0; k < row; k++) assert_true(plain_data[k] == sg_load(wide, i * row + k));
    }
}

/* A matrix that stays as the file has it stands for the numbers that it is else converted to: whole, cut, with rows in
 * pairs, with scales behind it. */
static void check_kept(int c, const sg_backend *device, int scales)
{
    static const sg_name_rule rules[] = {{"cut", "w", 4, {{2, 1}, {0, 1}}}};
    static const float        scale[4] = {0.5f, 3, 0.125f, 1.25f};
    const sg_name_map         map = {.rules = rules, .count = 1};
    const sg_source_type      type = type_of(c);
    const size_t              all = make_bits(c), n = type.block == 1 ? 192 : all, row = n / 4;
    arrays                    a = {.count = 0};
    sg_tensor                 t[3], wide[3];
    size_t                    mapped;
    add_bits(&a, "w.weight", &type, 4, n);
    a.tensor[0].scale = scales ? (const uint8_t *)scale : NULL;
    a.tensor[0].scales = scales;
    sg_source *s = open_arrays(&a);
    sg_bind   *b[2] = {bind_to(s, &map), bind_to(s, &map)};
    for (int k = 0; k < 2; k++) {
        sg_tensor *const to = k ? wide : t;
        sg_bind_matrix(b[k], &to[0], SG_F32, "w.weight", 4, (int64_t)row);
        sg_bind_matrix(b[k], &to[1], SG_BF16, "cut.weight", 2, (int64_t)row);
        sg_bind_pairs(b[k], 4);
        sg_bind_matrix(b[k], &to[2], SG_BF16, "w.weight", 4, (int64_t)row);
        sg_bind_keep_types(b[k], k == 0);
        load(b[k], device);
    }
    for (int k = 0; k < 3; k++) assert_reads_as(&t[k], &wide[k]);
    const size_t bytes = sg_bind_bytes(b[0], device, &mapped);
    assert_int_equal(mapped, device->host_memory && !scales ? sg_bytes(t[0]) : 0);
    assert_true(bytes + mapped >= sg_bytes(t[0]) + sg_bytes(t[1]) + sg_bytes(t[2]));
    sg_bind_close(&b[1]);
    close_both(&b[0], &s);
}

static void matrices_may_stay_as_the_file_has_them(void **state)
{
    for (int c = 0; c < CASES; c++)
        for (int k = 0; k < 2; k++) {
            check_kept(c, &devices[k], 0);
            if (table[c].block == 1) check_kept(c, &devices[k], 1);
            if (table[c].block == 1) check_kept(c, &devices[k], 4);
        }
}

/* A scale for each 128 rows and columns; the last blocks are smaller. test_scales has the numbers. */
static void scales_may_be_of_blocks(void **state)
{
    enum { O = 300, I = 272, BLOCK = 128, ACROSS = 3, SCALES = 3 * ACROSS };
    static const sg_name_rule rules[] = {{"even", "w", 300, {{128, 172}}}, {"odd", "w", 300, {{1, 299}}}};
    const sg_name_map         map = {.rules = rules, .count = 2};
    static float              scale[SCALES];
    arrays                    a = {.count = 0};
    sg_tensor                 t[2][3];
    int                       c = 0;
    while (strcmp(table[c].type, "I8") != 0) c++;
    const sg_source_type type = type_of(c);
    for (int i = 0; i < O * I; i++) bits[i] = (uint8_t)(i * 37 + i / 256);
    for (int i = 0; i < SCALES; i++) scale[i] = 0.01f * (float)(i + 1);
    add_bits(&a, "w.weight", &type, O, O * I);
    a.tensor[0].scale = (const uint8_t *)scale;
    a.tensor[0].scales = SCALES;
    a.tensor[0].scale_block = BLOCK;
    sg_source *s = open_arrays(&a);
    for (int d = 0; d < 2; d++) {
        sg_bind *b[2] = {bind_to(s, &map), bind_to(s, &map)};
        for (int k = 0; k < 2; k++) {
            sg_bind_matrix(b[k], &t[k][0], SG_F32, "w.weight", O, I);
            sg_bind_matrix(b[k], &t[k][1], SG_BF16, "even.weight", 172, I);
            sg_bind_matrix(b[k], &t[k][2], SG_F32, "odd.weight", 299, I);
            sg_bind_keep_types(b[k], k == 0);
            load(b[k], &devices[d]);
        }
        assert_reads_as(&t[0][0], &t[1][0]);
        assert_reads_as(&t[0][1], &t[1][1]);
        assert_true(!t[0][2].quant.type); /* no whole blocks */
        sg_bind_close(&b[0]);
        sg_bind_close(&b[1]);
    }
    sg_source_close(&s);
}

/* Where rows are no whole blocks, where an op but linear reads it, or a patch is no product of low rank. */
static void what_else_is_converted(void **state)
{
    int c = 0;
    while (table[c].block > 1) c++;
    const sg_source_type   type = type_of(c);
    arrays                 a = {.count = 0};
    sg_tensor              odd, table_of_rows, patched;
    const sg_source_tensor diff = in_file("", numbers(plain_data, SG_F32, 4, 16));
    const sg_patch         p = {.path = "p", .name = "patched", .scale = 1, .factor = {{&diff, NULL}}};
    assert_true(make_bits(c) >= 64);
    add_bits(&a, "odd", &type, 8, 8 * 7);
    add_bits(&a, "table", &type, 4, 64);
    add_bits(&a, "patched", &type, 4, 64);
    sg_source *s = open_arrays(&a);
    sg_bind   *b = bind_to(s, NULL);
    sg_bind_matrix(b, &odd, SG_F32, "odd", 8, 7);
    sg_bind_tensor(b, &table_of_rows, SG_F32, "table", 4, 16);
    sg_bind_matrix(b, &patched, SG_F32, "patched", 4, 16);
    assert_int_equal(sg_bind_patch(b, &p, NULL), SG_OK);
    sg_bind_keep_types(b, true);
    load(b, &devices[1]);
    assert_true(!odd.quant.type && !table_of_rows.quant.type && !patched.quant.type);
    close_both(&b, &s);
}

/* Matrices of all types in one binding, and a float among them. */
static void types_may_be_mixed(void **state)
{
    enum { ROWS = 3, ROW = 256, N = ROWS * ROW };
    static uint8_t copy[CASES][2 * N];
    static float   plain[N];
    static char    name[CASES + 1][2];
    sg_source_type type[CASES];
    arrays         a = {.count = 0};
    sg_tensor      t[2][CASES + 1];
    for (int c = 0; c < CASES; c++) {
        make_bits(c);
        if (table[c].block == 1) memset(bits + 128, 0x35, N - 128); /* of which there are not so many */
        memcpy(copy[c], bits, sizeof copy[c]);
        type[c] = type_of(c);
        name[c][0] = (char)('a' + c);
        add_bits(&a, name[c], &type[c], ROWS, N);
        a.tensor[c].data = copy[c];
    }
    name[CASES][0] = 'z';
    add(&a, name[CASES], numbers(plain, SG_BF16, ROWS, ROW));
    sg_source *s = open_arrays(&a);
    for (int d = 0; d < 2; d++) {
        sg_bind *b[2] = {bind_to(s, NULL), bind_to(s, NULL)};
        for (int k = 0; k < 2; k++) {
            for (int c = 0; c <= CASES; c++) sg_bind_matrix(b[k], &t[k][c], SG_BF16, name[c], ROWS, ROW);
            sg_bind_keep_types(b[k], k == 0);
            load(b[k], &devices[d]);
        }
        for (int c = 0; c < CASES; c++) assert_reads_as(&t[0][c], &t[1][c]);
        assert_false(t[0][CASES].quant.type);
        assert_memory_equal(t[0][CASES].data, t[1][CASES].data, N * sizeof(uint16_t));
        sg_bind_close(&b[0]);
        sg_bind_close(&b[1]);
    }
    sg_source_close(&s);
}

/* Onto the dequantised numbers, before they are rounded. */
static void patches_come_onto_the_values(void **state)
{
    const sg_source_type type = type_of(0);
    const size_t         n = make_bits(0);
    arrays               a = {.count = 0};
    sg_tensor            patched, plain;
    add_bits(&a, "w", &type, 4, n);
    add_bits(&a, "v", &type, 4, n);
    const sg_source_tensor diff = in_file("", numbers(plain_data, SG_F32, 4, (int64_t)n / 4));
    const sg_patch         p = {.path = "p", .name = "w", .scale = 0.5, .factor = {{&diff, NULL}}};
    sg_source             *s = open_arrays(&a);
    sg_bind               *b = bind_to(s, NULL);
    sg_bind_tensor(b, &patched, SG_BF16, "w", 4, (int64_t)n / 4);
    sg_bind_tensor(b, &plain, SG_F32, "v", 4, (int64_t)n / 4);
    assert_int_equal(sg_bind_patch(b, &p, NULL), SG_OK);
    load(b, &devices[0]);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(((const uint16_t *)patched.data)[i],
                         sg_f32_to_bf16(((const float *)plain.data)[i] + 0.5f * plain_data[i]));
    close_both(&b, &s);
}

/* ---- patches of matrices that stay quantised ---- */

/* As numbers_to_pack of make_dequantise_table.py. */
static void packed_blocks_have_the_bytes_of_the_reference(void **state)
{
    enum { BLOCK = 32, BYTES = 34 };
    float    x[BLOCK];
    uint8_t  y[BYTES];
    uint64_t sum = 0xcbf29ce484222325u;
    uint32_t seed = 1;
    for (int block = 0; block < TABLE_BLOCKS; block++) {
        for (int i = 0; i < BLOCK; i++) {
            seed = seed * 1664525u + 1013904223u;
            x[i] = ldexpf((float)(seed >> 8) / (1 << 23) - 1, block % 60 - 40);
            if (block == 0) x[i] = 0;
            if (block == 1) x[i] = i == BLOCK - 1 ? 127 : ((float)i + 0.5f) * (i % 2 ? -1.0f : 1.0f);
        }
        assert_true(sg_quant_pack(y, x, BLOCK));
        for (int i = 0; i < BYTES; i++) sum = (sum ^ y[i]) * 0x100000001b3u;
    }
    assert_true(sum == packed_sum);
}

static void numbers_that_cannot_be_packed_are_refused(void **state)
{
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, FLT_MAX, 65520 * 127.0f};
    float              x[64] = {0};
    uint8_t            y[68], least[34] = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        x[63] = bad[i];
        assert_false(sg_quant_pack(y, x, 64));
    }
    x[63] = 65504 * 127.0f;
    assert_true(sg_quant_pack(y, x, 64));
    x[0] = FLT_TRUE_MIN; /* the reciprocal of its scale is infinite */
    assert_true(sg_quant_pack(y, x, 32));
    assert_memory_equal(y, least, sizeof least);
}

enum { SIDE = 64, RANK_MAX = 32 };

/* A patch of w, whose low-rank factors are of small whole numbers, so that sums are exact. */
typedef struct product {
    float            up[SIDE * RANK_MAX], down[RANK_MAX * SIDE];
    sg_source_tensor of[2];
    sg_patch         patch;
} product;

static const sg_patch *make_product(product *p, const char *name, int64_t rows, int rank, double scale)
{
    for (int i = 0; i < SIDE * RANK_MAX; i++) p->up[i] = (float)((i * 7 + rank) % 5 - 2);
    for (int i = 0; i < SIDE * RANK_MAX; i++) p->down[i] = (float)((i * 5 + rank) % 7 - 3);
    p->of[0] = in_file("", (sg_tensor){.data = p->up, .rank = 2, .dim = {rows, rank}});
    p->of[1] = in_file("", (sg_tensor){.data = p->down, .rank = 2, .dim = {rank, SIDE}});
    p->patch = (sg_patch){.path = "l", .name = name, .scale = scale, .factor = {{&p->of[0], &p->of[1]}}};
    return &p->patch;
}

/* A source with a square matrix, w, of bytes of this value. */
static sg_source *square_of(uint8_t value)
{
    static const sg_source_type type = {"I8", SG_I8, 1, 1};
    arrays                      a = {.count = 0};
    memset(bits, value, SIDE * SIDE);
    add_bits(&a, "w", &type, SIDE, SIDE * SIDE);
    return open_arrays(&a);
}

/* w itself; the third quarter of its rows, then the first; w with rows in pairs. */
static const sg_name_rule parts[] = {{"part", "w", 4, {{2, 1}, {0, 1}}}, {"pairs", "w", 0, {{0, 0}}}};
static const sg_name_map  of_parts = {.rules = parts, .count = 2};

static sg_bind *bind_parts(const sg_source *s, sg_tensor t[3])
{
    sg_bind *const b = bind_to(s, &of_parts);
    sg_bind_matrix(b, &t[0], SG_F32, "w", SIDE, SIDE);
    sg_bind_matrix(b, &t[1], SG_F32, "part", SIDE / 2, SIDE);
    sg_bind_pairs(b, SIDE / 4);
    sg_bind_matrix(b, &t[2], SG_F32, "pairs", SIDE, SIDE);
    sg_bind_pairs(b, 0);
    return b;
}

static void patch_parts(sg_bind *b, product p[5])
{
    const sg_patch *const all[] = {make_product(&p[0], "w", SIDE, 3, 0.5), make_product(&p[1], "w", SIDE, 2, -2),
                                   make_product(&p[2], "part", SIDE, 2, 1), make_product(&p[3], "part", SIDE / 2, 1, 0),
                                   make_product(&p[4], "pairs", SIDE, 4, 1)};
    p[2].patch.cut = &parts[0];
    for (int i = 0; i < 5; i++) assert_int_equal(sg_bind_patch(b, all[i], NULL), SG_OK);
}

/* Onto zeros, so that what is added is all that is there. */
static void products_beside_are_what_is_added(void **state)
{
    static product p[5];
    sg_tensor      t[2][3];
    size_t         mapped;
    sg_source     *zeros = square_of(0);
    for (int d = 0; d < 4; d++) {
        sg_bind *b[2] = {bind_parts(zeros, t[0]), bind_parts(zeros, t[1])};
        if (d < 2) sg_bind_keep_types(b[0], true); /* before the patches or after them */
        for (int k = 0; k < 2; k++) patch_parts(b[k], p);
        if (d >= 2) sg_bind_keep_types(b[0], true);
        for (int k = 0; k < 2; k++) load(b[k], &devices[d % 2]);
        assert_int_equal(t[0][0].data == bits, devices[d % 2].host_memory); /* serves as it lies */
        sg_bind_bytes(b[0], &devices[d % 2], &mapped);
        assert_int_equal(mapped, devices[d % 2].host_memory ? sg_bytes(t[0][0]) : 0);
        assert_true(sg_bind_is_beside(b[0], "l") && !sg_bind_is_beside(b[0], "m") && !sg_bind_is_beside(b[1], "l"));
        for (int k = 0; k < 3; k++) {
            const sg_adapter *const a = t[0][k].adapter;
            assert_true(t[0][k].quant.type == SG_QUANT_I8 && a && !t[1][k].quant.type && !t[1][k].adapter);
            assert_ptr_equal(sg_reshape(t[0][k], t[0][k].dim[0], SIDE).adapter, a);
            assert_ptr_equal(sg_rows(t[0][k], 1, 1).adapter, a);
            const int64_t rank = a->down.dim[0];
            assert_int_equal(rank, k == 0 ? 5 : k == 1 ? 3 : 4);
            for (int64_t i = 0; i < sg_count(t[1][k]); i++) {
                float sum = 0;
                for (int64_t r = 0; r < rank; r++)
                    sum += sg_load(&a->up, i / SIDE * rank + r) * sg_load(&a->down, r * SIDE + i % SIDE);
                assert_true(sum == sg_load(&t[1][k], i));
            }
        }
        sg_bind_close(&b[0]);
        sg_bind_close(&b[1]);
    }
    sg_source_close(&zeros);
}

/* What is merged is packed: the numbers that it is else widened to. No patch is of a form that cannot be. */
static void merged_matrices_are_packed(void **state)
{
    static product         p[5];
    static float           ones[SIDE * SIDE / 2];
    sg_tensor              t[2][3], kept;
    uint8_t                bytes[SIDE / 32 * 34];
    size_t                 mapped;
    sg_source             *s = square_of(3);
    const sg_source_tensor diff = in_file("", numbers(ones, SG_F32, SIDE / 2, SIDE));
    const sg_patch         whole = {.path = "d", .name = "part", .scale = 0.25, .factor = {{&diff, NULL}}};
    for (int d = 0; d < 2; d++) {
        sg_bind *b[2] = {bind_parts(s, t[0]), bind_parts(s, t[1])};
        for (int k = 0; k < 2; k++) {
            if (k == 0) sg_bind_matrix(b[0], &kept, SG_F32, "w", SIDE, SIDE); /* the second of its name has no patch */
            sg_bind_keep_types(b[k], k == 0);
            sg_bind_merge(b[k], true);
            patch_parts(b[k], p);
            assert_int_equal(sg_bind_patch(b[k], &whole, NULL), SG_OK);
            load(b[k], &devices[d]);
        }
        assert_true(kept.quant.type == SG_QUANT_I8 && !sg_bind_is_beside(b[0], "l"));
        size_t sum = d ? sg_aligned(sg_bytes(kept)) : 0;
        for (int k = 0; k < 3; k++) {
            assert_true(t[0][k].quant.type == SG_QUANT_Q8_0 && !t[0][k].adapter && !t[1][k].quant.type);
            for (int64_t i = 0; i < t[0][k].dim[0]; i++) {
                assert_true(sg_quant_pack(bytes, (const float *)t[1][k].data + i * SIDE, SIDE));
                assert_memory_equal(bytes, (const uint8_t *)t[0][k].data + (size_t)i * sizeof bytes, sizeof bytes);
            }
            sum += sg_aligned((size_t)t[0][k].dim[0] * sizeof bytes);
        }
        assert_int_equal(sg_bind_bytes(b[0], &devices[d], &mapped), sum);
        sg_bind_close(&b[0]);
        sg_bind_close(&b[1]);
    }
    sg_source_close(&s);
}

/* Beside I8 a rank of 24 takes as much as F32 does; one taken back, it is beside again. */
static void what_takes_more_beside_is_widened(void **state)
{
    static product   p[3];
    static const int rank[] = {24, 20, 5};
    sg_tensor        t;
    sg_source       *s = square_of(0);
    sg_bind         *b = bind_to(s, NULL);
    sg_bind_matrix(b, &t, SG_F32, "w", SIDE, SIDE);
    sg_bind_keep_types(b, true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sg_bind_patch(b, make_product(&p[i], "w", SIDE, rank[i], 1), NULL), SG_OK);
        assert_true(i == 2 ? !t.quant.type && !t.adapter : t.quant.type == SG_QUANT_I8);
        if (i < 2) assert_int_equal(t.adapter->up.dim[1], rank[i]);
        if (i == 0) sg_bind_unpatch(b, 0);
        assert_true(i || (t.quant.type && !t.adapter));
    }
    load(b, &devices[1]);
    assert_true(!t.adapter && t.data);
    sg_bind_unload(b);
    sg_bind_unpatch(b, 1);
    assert_int_equal(t.adapter->down.dim[0], rank[1]);
    load(b, &devices[1]);
    assert_non_null(t.adapter->up.data);
    sg_bind_unload(b);
    assert_true(!t.data && !t.adapter->up.data && !t.adapter->down.data);
    close_both(&b, &s);
}

/* A factor is infinite, or grows so by its scale; W' is, is no number, or has a scale beyond F16. */
static void patches_that_are_no_numbers_are_refused(void **state)
{
    static const struct {
        float       number;
        double      scale;
        bool        merge;
        const char *text;
    } bad[] = {{INFINITY, 1, false, "l|patch|\"w\"|infinity"},
               {1e20f, 1e20, false, "arrays|\"w\"|patches|too large for F32"},
               {NAN, 1, true, "l|patch|\"w\"|NaN"},
               {1e20f, 1e20, true, "arrays|\"w\"|patches|too large for Q8_0"},
               {1e20f, 1, true, "arrays|\"w\"|patches|too large for Q8_0"},
               {2e7f, 1, true, "arrays|\"w\"|patches|too large for Q8_0"}};
    static product p;
    sg_source     *s = square_of(1);
    for (int i = 0; i < 12; i++) {
        sg_error  e = {0};
        sg_tensor t;
        sg_bind  *b = bind_to(s, NULL);
        sg_bind_matrix(b, &t, SG_F32, "w", SIDE, SIDE);
        sg_bind_keep_types(b, true);
        sg_bind_merge(b, bad[i / 2].merge);
        make_product(&p, "w", SIDE, 1, bad[i / 2].scale);
        p.up[SIDE - 1] = bad[i / 2].number;
        assert_int_equal(sg_bind_patch(b, &p.patch, NULL), SG_OK);
        assert_refused(sg_bind_load(b, &devices[i % 2], NULL, NULL, &e), SG_E_NUMERIC, &e, bad[i / 2].text);
        assert_null(t.data);
        sg_bind_close(&b);
    }
    sg_source_close(&s);
}

static void refuse(int c, size_t rows, size_t n, sg_status code, const char *text)
{
    const sg_source_type type = type_of(c);
    arrays               a = {.count = 0};
    sg_tensor            t;
    add_bits(&a, "blocks.0.w", &type, rows, n);
    sg_source *s = open_arrays(&a);
    sg_bind   *b = bind_to(s, NULL);
    sg_bind_matrix(b, &t, SG_BF16, "blocks.0.w", (int64_t)rows, (int64_t)(n / rows));
    for (int i = 0; i < 4; i++) {
        sg_error e = {0};
        sg_bind_keep_types(b, i >= 2);
        assert_refused(sg_bind_load(b, &devices[i % 2], NULL, NULL, &e), code, &e, text);
    }
    close_both(&b, &s);
}

/* The last block has it. */
static void scales_that_are_no_numbers_are_refused(void **state)
{
    static const uint8_t high[] = {0x7c, 0xfc, 0x7e}; /* infinite, negative too, a NaN */
    char                 text[200];
    for (int c = 0; c < CASES; c++)
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < 3 && table[c].scale[k] >= 0; i++) {
                const size_t   n = make_bits(c), size = (size_t)table[c].bytes;
                uint8_t *const scale = bits + (TABLE_BLOCKS - 1) * size + table[c].scale[k];
                scale[0] = 0;
                scale[1] = high[i];
                snprintf(text, sizeof text, "arrays|tensor \"blocks.0.w\"|NaN|element %zu", n - (size_t)table[c].block);
                refuse(c, 1, n, SG_E_NUMERIC, text);
            }
    memset(bits, 0, 32);
    bits[17] = 0xff; /* a NaN in both 8-bit floats, -1 in I8 */
    for (int c = 0; c < CASES; c++)
        if (strncmp(table[c].type, "F8", 2) == 0)
            refuse(c, 1, 32, SG_E_NUMERIC, "arrays|tensor \"blocks.0.w\"|NaN|element 17");
}

/* Where a part of the rows is no whole number of blocks. */
static void blocks_are_not_cut(void **state)
{
    static const sg_name_rule rules[] = {{"cut", "w", 2, {{0, 1}}}};
    const sg_name_map         map = {.rules = rules, .count = 1};
    const sg_source_type      type = type_of(0);
    arrays                    a = {.count = 0};
    sg_tensor                 t;
    sg_error                  e = {0};
    make_bits(0);
    add_bits(&a, "w", &type, 6, 96);
    sg_source *s = open_arrays(&a);
    sg_bind   *b = bind_to(s, &map);
    sg_bind_tensor(b, &t, SG_F32, "cut", 3, 16);
    assert_refused(sg_bind_check(b, &e), SG_E_FORMAT, &e, "misshapen|part 1|[6, 16]|[3, 16]");
    close_both(&b, &s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_have_the_bits_of_the_reference),
        cmocka_unit_test(matrices_may_stay_as_the_file_has_them),
        cmocka_unit_test(scales_may_be_of_blocks),
        cmocka_unit_test(what_else_is_converted),
        cmocka_unit_test(types_may_be_mixed),
        cmocka_unit_test(patches_come_onto_the_values),
        cmocka_unit_test(packed_blocks_have_the_bytes_of_the_reference),
        cmocka_unit_test(numbers_that_cannot_be_packed_are_refused),
        cmocka_unit_test(products_beside_are_what_is_added),
        cmocka_unit_test(merged_matrices_are_packed),
        cmocka_unit_test(what_takes_more_beside_is_widened),
        cmocka_unit_test(patches_that_are_no_numbers_are_refused),
        cmocka_unit_test(scales_that_are_no_numbers_are_refused),
        cmocka_unit_test(blocks_are_not_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
