/* test_scales.c - scaled FP8 and INT8 in safetensors: every kind that people have, and what is refused. */
#include "memory_source.h"
#include "quant.h"
#include "safetensors_write.h"

#include <math.h>
#include <stdio.h>

enum { ROWS = 3, COLUMNS = 5 };

static const char path[] = "m.safetensors";

/* ---- files ---- */

static const uint8_t q[ROWS * COLUMNS + 1] = {0x00, 0x80, 0x01, 0x07, 0x08, 0x38, 0xb8, 0x7e,
                                              0xfe, 0x40, 0x33, 0x22, 0x91, 0x5a, 0x6c};

static sg_tensor bytes(const void *data, sg_dtype type, int rank, int64_t a, int64_t b)
{
    return (sg_tensor){.data = (void *)(uintptr_t)data, .dtype = type, .rank = rank, .dim = {a, b}};
}

static sg_named_tensor weight(sg_dtype type) { return (sg_named_tensor){"x.weight", bytes(q, type, 2, ROWS, COLUMNS)}; }

static sg_named_tensor text(const char *name, const char *json)
{
    return (sg_named_tensor){name, bytes(json, SG_U8, 1, (int64_t)strlen(json), 0)};
}

static sg_status open_file(sg_source **s, const sg_named_tensor *all, int count, const char *metadata, sg_error *e)
{
    const char *const note[] = {"_quantization_metadata", metadata, NULL};
    if (sg_safetensors_write_all(path, all, count, metadata ? note : NULL, e)) fail_msg("%s", e->text);
    return sg_source_open(s, path, e);
}

/* ---- what is read ---- */

/* q times scale, as F32 and as BF16, of the file's weight; nothing in the file is left over. */
static void is_read(const sg_named_tensor *all, int count, const char *metadata, sg_dtype type, const float *scale,
                    int scales)
{
    sg_error   e = {0};
    sg_source *s = NULL;
    if (open_file(&s, all, count, metadata, &e)) fail_msg("%s", e.text);
    for (int as = 0; as < 2; as++) {
        sg_bind  *b = bind_to(s, NULL);
        sg_tensor t;
        sg_bind_tensor(b, &t, as ? SG_BF16 : SG_F32, "x.weight", ROWS, COLUMNS);
        if (sg_bind_check(b, &e)) fail_msg("%s", e.text);
        load(b, &devices[1]);
        for (int i = 0; i < ROWS * COLUMNS; i++) {
            const sg_tensor one = {.data = (void *)(uintptr_t)q, .dtype = type, .rank = 1, .dim = {ROWS * COLUMNS}};
            const float     x = type == SG_I8 ? (float)(int8_t)q[i] : sg_load(&one, i);
            const float     y = x * scale[scales > 1 ? i / COLUMNS : 0];
            assert_true(sg_load(&t, i) == (as ? sg_bf16_to_f32(sg_f32_to_bf16(y)) : y));
        }
        sg_bind_close(&b);
    }
    sg_source_close(&s);
}

static const float rows[ROWS] = {0.37f, 0, 1e-3f}, one[1] = {0.0123f};

static void every_kind_is_its_numbers_times_its_scale(void **state)
{
    const sg_named_tensor marker = {"scaled_fp8", bytes(q, SG_F8, 1, 2, 0)};
    const sg_named_tensor input = {"x.scale_input", bytes(one, SG_F32, 1, 1, 0)};
    const sg_named_tensor scale = {"x.scale_weight", bytes(one, SG_F32, 1, 1, 0)};
    const sg_named_tensor mixed = {"x.weight_scale", bytes(one, SG_F32, 1, 1, 0)};
    const sg_named_tensor by_row = {"x.weight_scale", bytes(rows, SG_F32, 2, ROWS, 1)};
    const sg_named_tensor in_list = {"x.weight_scale", bytes(rows, SG_F32, 1, ROWS, 0)};
    const sg_named_tensor fp8 =
        text("x.comfy_quant", "{\"format\": \"float8_e4m3fn\", \"full_precision_matrix_mult\": true}");
    const sg_named_tensor int8 = text("x.comfy_quant", "{\"format\": \"int8_tensorwise\", \"convrot\": false}");
    const char *const     note = "{\"format_version\": \"1.0\", \"layers\": {\"x\": {\"format\": \"float8_e4m3fn\"}}}";
    is_read((sg_named_tensor[]){weight(SG_F8)}, 1, NULL, SG_F8, (float[]){1}, 1);
    is_read((sg_named_tensor[]){weight(SG_F8), marker, input, scale}, 4, NULL, SG_F8, one, 1);
    is_read((sg_named_tensor[]){mixed, weight(SG_F8), fp8}, 3, NULL, SG_F8, one, 1);
    is_read((sg_named_tensor[]){mixed, weight(SG_F8)}, 2, note, SG_F8, one, 1);
    is_read((sg_named_tensor[]){by_row, weight(SG_F8)}, 2, NULL, SG_F8, rows, ROWS);
    is_read((sg_named_tensor[]){weight(SG_I8), by_row}, 2, NULL, SG_I8, rows, ROWS);
    is_read((sg_named_tensor[]){weight(SG_I8), in_list, int8}, 3, NULL, SG_I8, rows, ROWS);
    is_read((sg_named_tensor[]){weight(SG_I8), mixed}, 2, NULL, SG_I8, one, 1);
}

/* ---- matrices that stay as the file has them ---- */

enum { O = 150, I = 272 };

static uint8_t matrix[O * I];

/* What a byte of the file is, by its type's definition. */
static float number_of(const char *type, uint8_t byte)
{
    const int e5m2 = strcmp(type, "F8_E5M2") == 0, bits = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7;
    const int exponent = (byte & 0x7f) >> bits, fraction = byte & ((1 << bits) - 1);
    if (strcmp(type, "I8") == 0) return (float)(int8_t)byte;
    return (byte & 0x80 ? -1.0f : 1.0f) *
           ldexpf((float)(exponent ? fraction + (1 << bits) : fraction), (exponent ? exponent : 1) - bias - bits);
}

/* E4M3 in a file becomes E5M2, which the writer does not know. */
static void retype(const char *type)
{
    static char head[4096];
    FILE *const f = fopen(path, "r+b");
    assert_non_null(f);
    const size_t n = fread(head, 1, sizeof head - 1, f);
    for (size_t i = 0; strcmp(type, "F8_E5M2") == 0 && i + 7 < n; i++)
        if (memcmp(head + i, "F8_E4M3", 7) == 0) memcpy(head + i, type, 7);
    rewind(f);
    assert_true(fwrite(head, 1, n, f) == n && fclose(f) == 0);
}

/* A matrix of that type with these scales, kept and converted: the numbers by their definition, times the scale of so
 * many rows and columns. */
static void is_kept(const char *type, const char *name, sg_tensor scales, int64_t tall, int64_t wide)
{
    const float *const    scale = scales.data;
    const sg_named_tensor all[] = {{"x.weight", bytes(matrix, strcmp(type, "I8") ? SG_F8 : SG_I8, 2, O, I)},
                                   {name, scales}};
    sg_error              e = {0};
    sg_source            *s = NULL;
    if (sg_safetensors_write_all(path, all, scales.data ? 2 : 1, NULL, &e)) fail_msg("%s", e.text);
    retype(type);
    if (sg_source_open(&s, path, &e)) fail_msg("%s", e.text);
    for (int form = 0; form < 8; form++) {
        static float row[I];
        sg_tensor    t;
        sg_bind     *b = bind_to(s, NULL);
        sg_bind_matrix(b, &t, form & 1 ? SG_BF16 : SG_F32, "x.weight", O, I);
        sg_bind_keep_types(b, form & 2);
        if (sg_bind_check(b, &e)) fail_msg("%s", e.text);
        load(b, &devices[form / 4]);
        assert_true((form & 2) ? t.quant.type == (int32_t)sg_quant_of(type) : !t.quant.type);
        for (int64_t k = 0; k < O * I; k++) {
            const int64_t o = k / I, i = k % I, across = (I + wide - 1) / wide;
            const float   y = number_of(type, matrix[k]) * (scale ? scale[o / tall * across + i / wide] : 1);
            if (i == 0 && t.quant.type) sg_quant_read(row, &t, k, I);
            const float x = t.quant.type ? row[i] : sg_load(&t, k);
            if (x != (form & 1 ? sg_bf16_to_f32(sg_f32_to_bf16(y)) : y))
                fail_msg("%s, %s: element %d, form %d is %g, should be %g", type, name, (int)k, form, (double)x,
                         (double)y);
        }
        sg_bind_close(&b);
    }
    sg_source_close(&s);
}

static void every_type_and_scale_may_stay_as_the_file_has_it(void **state)
{
    static const char *const type[] = {"F8_E4M3", "F8_E5M2", "I8"};
    static const char *const name[] = {"x.weight_scale", "x.scale_weight", "x.weight_scale_inv"};
    static float             scale[O];
    for (uint32_t k = 0; k < O * I; k++)
        matrix[k] = (uint8_t)(k * 2654435761u >> 13) & 0xbb; /* no NaN in either float */
    for (int o = 0; o < O; o++) scale[o] = 0.37f / (float)(o % 7 + 1);
    memcpy(scale + 3, (float[]){0, 1e-41f, 1e30f}, 3 * sizeof *scale);
    for (int t = 0; t < 3; t++)
        for (int n = 0; n < 3; n++) {
            if (t < 2) is_kept(type[t], name[n], (sg_tensor){0}, O, I);
            is_kept(type[t], name[n], bytes(scale, SG_F32, 1, 1, 0), O, I);
            is_kept(type[t], name[n], bytes(scale, SG_F32, 2, 1, 1), O, I);
            is_kept(type[t], name[n], bytes(scale, SG_F32, 1, O, 0), 1, I);
            is_kept(type[t], name[n], bytes(scale, SG_F32, 2, O, 1), 1, I);
            is_kept(type[t], name[n], bytes(scale, SG_F32, 2, 2, 3), 128, 128);
        }
}

/* Rows of a fused matrix keep the scales of their rows. */
static void rows_are_cut_with_their_scales(void **state)
{
    static const sg_name_rule rules[] = {{"v.weight", "x.weight", 3, {{2, 1}, {0, 1}}}};
    static const sg_name_map  map = {.rules = rules, .count = 1};
    sg_error                  e = {0};
    sg_source                *s = NULL;
    sg_tensor                 t;
    const sg_named_tensor     all[] = {weight(SG_I8), {"x.weight_scale", bytes(rows, SG_F32, 2, ROWS, 1)}};
    assert_int_equal(open_file(&s, all, 2, NULL, &e), SG_OK);
    sg_bind *b = bind_to(s, &map);
    sg_bind_tensor(b, &t, SG_F32, "v.weight", 2, COLUMNS);
    if (sg_bind_check(b, &e)) fail_msg("%s", e.text);
    load(b, &devices[0]);
    for (int i = 0; i < 2 * COLUMNS; i++) {
        const int from = i < COLUMNS ? 2 * COLUMNS + i : i - COLUMNS;
        assert_true(sg_load(&t, i) == (float)(int8_t)q[from] * rows[from / COLUMNS]);
    }
    close_both(&b, &s);
}

/* A column that is wanted as a row, whose numbers have scales of their own, and rows of nothing: they are widened. */
static void rows_of_other_lengths_are_widened(void **state)
{
    static const int64_t file[][2] = {{32, 1}, {4, 0}, {4, 0}}, want[][2] = {{1, 32}, {4, 0}, {4, 0}};
    static float         scale[32];
    static uint8_t       column[32];
    for (int i = 0; i < 32; i++) scale[i] = (float)(i + 1);
    for (int i = 0; i < 32; i++) column[i] = (uint8_t)(0x30 + i);
    for (int i = 0; i < 3; i++) {
        const sg_named_tensor all[] = {{"x.weight", bytes(column, SG_F8, 2, file[i][0], file[i][1])},
                                       {"x.weight_scale", bytes(scale, SG_F32, 1, i == 2 ? 1 : file[i][0], 0)}};
        sg_error              e = {0};
        sg_source            *s = NULL;
        sg_tensor             t;
        assert_int_equal(open_file(&s, all, 2, NULL, &e), SG_OK);
        sg_bind *b = bind_to(s, NULL);
        sg_bind_matrix(b, &t, SG_F32, "x.weight", want[i][0], want[i][1]);
        sg_bind_keep_types(b, true);
        load(b, &devices[0]);
        assert_false(t.quant.type);
        for (int k = 0; i == 0 && k < 32; k++)
            assert_true(sg_load(&t, k) == number_of("F8_E4M3", column[k]) * scale[k]);
        close_both(&b, &s);
    }
}

/* Numbers and scales that are finite may have products that are not. They are found in what would stay, too. */
static void products_are_looked_at(void **state)
{
    static const float    large[1] = {1e38f};
    const sg_named_tensor all[] = {{"x.weight", bytes(q, SG_F8, 2, 1, ROWS * COLUMNS + 1)},
                                   {"x.scale_weight", bytes(large, SG_F32, 1, 1, 0)}};
    sg_source            *s = NULL;
    for (int as = 0; as < 4; as++) {
        sg_error e = {0};
        assert_int_equal(open_file(&s, all, 2, NULL, &e), SG_OK);
        sg_bind  *b = bind_to(s, NULL);
        sg_tensor t;
        sg_bind_matrix(b, &t, as % 2 ? SG_BF16 : SG_F32, "x.weight", 1, ROWS * COLUMNS + 1);
        sg_bind_keep_types(b, as / 2);
        assert_refused(sg_bind_load(b, &devices[1], NULL, NULL, &e), SG_E_NUMERIC, &e, "NaN|element 7");
        close_both(&b, &s);
    }
}

/* ---- what is refused ---- */

static void is_refused(const sg_named_tensor *all, int count, const char *metadata, sg_status code, const char *says)
{
    sg_error   e = {0};
    sg_source *s = NULL;
    assert_refused(open_file(&s, all, count, metadata, &e), code, &e, says);
    assert_null(s);
}

static void other_scales_are_refused(void **state)
{
    const float           two[2] = {1, 1};
    const uint16_t        half[1] = {0x3f80};
    static const float    bad[] = {NAN, INFINITY, -1};
    const sg_named_tensor w = weight(SG_F8), scale = {"x.scale_weight", bytes(one, SG_F32, 1, 1, 0)};
    is_refused((sg_named_tensor[]){weight(SG_I8)}, 1, NULL, SG_E_FORMAT, "\"x.weight\"|I8|scale");
    is_refused((sg_named_tensor[]){scale}, 1, NULL, SG_E_FORMAT, "scale|weight");
    is_refused((sg_named_tensor[]){scale, {"x.weight", bytes(one, SG_F32, 1, 1, 0)}}, 2, NULL, SG_E_FORMAT, "F32|FP8");
    is_refused((sg_named_tensor[]){w,
                                   {"x.weight_scale_inv", bytes(one, SG_F32, 1, 1, 0)},
                                   {"x.weight_scale", bytes(one, SG_F32, 1, 1, 0)}},
               3, NULL, SG_E_FORMAT, "\"x.weight_scale\"|second scale|x.weight");
    is_refused((sg_named_tensor[]){w, {"x.scale_weight", bytes(two, SG_F32, 1, 2, 0)}}, 2, NULL, SG_E_FORMAT,
               "scale|shape|[2]");
    is_refused((sg_named_tensor[]){w, {"x.weight_scale", bytes(rows, SG_F32, 2, 1, ROWS)}}, 2, NULL, SG_E_FORMAT,
               "scale|shape|[1, 3]");
    const float           squares[6] = {1, 1, 1, 1, 1, NAN};
    const sg_named_tensor many = {"x.weight", bytes(matrix, SG_F8, 2, O, I)};
    is_refused((sg_named_tensor[]){many, {"x.weight_scale_inv", bytes(squares, SG_F32, 2, 3, 2)}}, 2, NULL, SG_E_FORMAT,
               "\"x.weight_scale_inv\"|shape [3, 2]|128x128|x.weight");
    is_refused((sg_named_tensor[]){many, {"x.weight_scale_inv", bytes(squares, SG_F32, 2, 2, 3)}}, 2, NULL, SG_E_FORMAT,
               "\"x.weight_scale_inv\"|number 5|finite");
    is_refused((sg_named_tensor[]){w, {"x.scale_weight", bytes(half, SG_BF16, 1, 1, 0)}}, 2, NULL, SG_E_FORMAT,
               "should be F32");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_refused((sg_named_tensor[]){w, {"x.scale_weight", bytes(&bad[i], SG_F32, 1, 1, 0)}}, 2, NULL, SG_E_FORMAT,
                   "finite");
}

static void other_formats_are_refused_by_name(void **state)
{
    const sg_named_tensor w = weight(SG_F8), s2 = {"x.weight_scale_2", bytes(one, SG_F32, 1, 1, 0)};
    char *const           huge = malloc((1 << 16) + 2);
    memset(huge, ' ', (1 << 16) + 1);
    huge[(1 << 16) + 1] = '\0';
    static const struct {
        const char *quant, *names;
        sg_status   code;
    } texts[] = {{"{\"format\": \"mxfp8\"}", "format mxfp8", SG_E_UNSUPPORTED},
                 {"{\"format\": \"int8_tensorwise\"}", "is F8_E4M3|x.comfy_quant|is I8", SG_E_FORMAT},
                 {"no JSON", "\"x.comfy_quant\"|JSON", SG_E_FORMAT},
                 {"[]", "object with a format", SG_E_FORMAT}};
    static const struct {
        const char *metadata, *names;
        sg_status   code;
    } notes[] = {
        {"{\"layers\": {\"x\": {\"format\": \"convrot_w4a4\"}}}", "\"x\"|format convrot_w4a4", SG_E_UNSUPPORTED},
        {"{\"layers\": {\"x\": {\"format\": \"float8_e4m3fn\", \"convrot\": true, \"convrot_groupsize\": 256}}}",
         "\"x\"|format convrot", SG_E_UNSUPPORTED},
        {"{\"layers\": {\"x\": 3}}", "\"x\"|object with a format", SG_E_FORMAT},
        {"{", "\"_quantization_metadata\"|JSON", SG_E_FORMAT}};
    is_refused((sg_named_tensor[]){w, s2}, 2, NULL, SG_E_UNSUPPORTED, "format nvfp4");
    is_refused((sg_named_tensor[]){w, {"x.pre_quant_scale", bytes(one, SG_F32, 1, 1, 0)}}, 2, NULL, SG_E_UNSUPPORTED,
               "format awq");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        is_refused((sg_named_tensor[]){w, text("x.comfy_quant", texts[i].quant)}, 2, NULL, texts[i].code,
                   texts[i].names);
    is_refused((sg_named_tensor[]){w, text("x.comfy_quant", huge)}, 2, NULL, SG_E_FORMAT, "65537 bytes|65536");
    is_refused((sg_named_tensor[]){w, {"x.comfy_quant", bytes(one, SG_F32, 1, 1, 0)}}, 2, NULL, SG_E_FORMAT,
               "text, U8");
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        is_refused(&w, 1, notes[i].metadata, notes[i].code, notes[i].names);
    is_refused((sg_named_tensor[]){weight(SG_I8),
                                   {"x.weight_scale", bytes(one, SG_F32, 1, 1, 0)},
                                   text("x.comfy_quant", "{\"format\": \"int8_tensorwise\", \"convrot\": true}")},
               3, NULL, SG_E_UNSUPPORTED, "\"x.comfy_quant\"|format convrot");
    free(huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_its_numbers_times_its_scale),
        cmocka_unit_test(every_type_and_scale_may_stay_as_the_file_has_it),
        cmocka_unit_test(rows_are_cut_with_their_scales),
        cmocka_unit_test(rows_of_other_lengths_are_widened),
        cmocka_unit_test(products_are_looked_at),
        cmocka_unit_test(other_scales_are_refused),
        cmocka_unit_test(other_formats_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
