/* test_bind.c - binding, its report, conversion and upload, on two made-up devices: one that shares host memory and one
 * that does not. */
#include "bind.h"
#include "unit.h"

#include <dirent.h>
#include <errno.h>

/* ---- the devices ---- */

static int       blocks; /* allocated and not yet released */
static size_t    block_bytes;
static char     *block;
static bool      alloc_fails;
static sg_status upload_result;

enum { PIECE = 8 << 20 };
static char  *staged[2]; /* as device and host have it: what was sent from here stays until it is given again */
static size_t sent[2];
static int    turn;
static bool   stages_there, stage_fails;

static void *take(const sg_backend *b, size_t bytes)
{
    if (alloc_fails) return NULL;
    blocks++;
    block_bytes = bytes;
    assert_int_equal(bytes % SG_ALIGN, 0);
    return block = aligned_alloc(SG_ALIGN, bytes);
}

static void give(const sg_backend *b, void *p)
{
    blocks--;
    free(p);
}

static sg_status upload(sg_stream *s, void *to, const void *from, size_t n)
{
    assert_true((char *)to >= block && (char *)to + n <= block + block_bytes);
    if (upload_result == SG_OK) memcpy(to, from, n);
    if (stages_there) {
        assert_ptr_equal(from, staged[turn]);
        memcpy(staged[turn] + PIECE, from, n);
        sent[turn] = n;
    }
    return upload_result;
}

static sg_status download(sg_stream *s, void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
    return SG_OK;
}

static bool stages(sg_stream *s, size_t bytes, size_t all)
{
    assert_int_equal(bytes, PIECE);
    assert_int_equal(all % SG_ALIGN, 0);
    for (int i = 0; i < 2 && !staged[i]; i++) assert_non_null(staged[i] = calloc(2, PIECE));
    return stages_there;
}

static void *stage(sg_stream *s)
{
    if (stage_fails) {
        sg_fail(s, SG_E_DEVICE, "an earlier piece was not sent");
        return NULL;
    }
    turn = !turn;
    assert_memory_equal(staged[turn], staged[turn] + PIECE, sent[turn]);
    sent[turn] = 0;
    return staged[turn];
}

static const sg_memory memory = {
    .alloc = take, .release = give, .upload = upload, .download = download, .stages = stages, .stage = stage};
static const sg_backend host = {.name = "host", .memory = &memory, .host_memory = true, .threads = 2};
static const sg_backend card = {.name = "card", .memory = &memory, .threads = 2};

/* ---- files ---- */

static int remove_folder(void **state)
{
    for (int i = 0; i < 2; i++) free(staged[i]);
    return leave_folder(state);
}

typedef struct entry {
    const char *name, *dtype, *shape;
    size_t      bytes;
} entry;

/* Opens a file of these tensors, one after the other, the last one without a name; `blanks` more before the data than
 * alignment needs. */
static sg_source *file_of(const entry *t, int blanks, const void *data)
{
    char     header[1024] = "{";
    uint64_t n = 1, at = 0;
    for (; t->name; at += t->bytes, t++)
        n += (uint64_t)snprintf(header + n, sizeof header - n,
                                "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", n > 1 ? "," : "",
                                t->name, t->dtype, t->shape, (size_t)at, (size_t)at + t->bytes);
    n += (uint64_t)snprintf(header + n, sizeof header - n, "}%*s", (int)(7 - n % 8) + blanks, "");
    FILE *const f = fopen("m.safetensors", "wb");
    assert_non_null(f);
    fwrite(&n, 8, 1, f);
    fwrite(header, 1, n, f);
    fwrite(data, 1, at, f);
    assert_int_equal(fclose(f), 0);
    sg_error   e = {0};
    sg_source *w = NULL;
    if (sg_source_open_stem(&w, ".", "m", &e) != SG_OK) fail_msg("%s", e.text);
    return w;
}
#define FILE_OF(data, ...) file_of((const entry[]){__VA_ARGS__, {0}}, 0, data)

static sg_bind *bind_to(const sg_source *w)
{
    sg_bind *b = NULL;
    assert_int_equal(sg_bind_open(&b, w, NULL, NULL), SG_OK);
    return b;
}

static void close_both(sg_bind **b, sg_source **w)
{
    sg_bind_close(b);
    assert_null(*b);
    sg_source_close(w);
    assert_int_equal(blocks, 0);
}

/* ---- the list and the report ---- */

static void names_shapes_and_prefixes_bind(void **state)
{
    sg_source *w = FILE_OF(((float[]){1, 2, 3}), {"blocks.3.q", "F32", "[2,1]", 8}, {"b", "F32", "[]", 4});
    sg_bind   *b = bind_to(w);
    sg_error   e = {0};
    sg_tensor  q, s;
    sg_bind_tensor(b, &s, SG_BF16, "b", 1);
    sg_bind_prefix(b, "blocks.%d.", 3);
    assert_true(sg_bind_has(b, "q"));
    assert_false(sg_bind_has(b, "b"));
    sg_bind_tensor(b, &q, SG_F32, "q", 2, 1);
    assert_int_equal(q.rank, 2);
    assert_int_equal(q.dtype, SG_F32);
    assert_int_equal(q.dim[0], 2);
    assert_null(q.data);
    assert_int_equal(s.dtype, SG_BF16);
    assert_int_equal(sg_bind_check(b, &e), SG_OK);
    close_both(&b, &w);
    sg_bind_close(&b);
}

static void all_troubles_are_told_at_once(void **state)
{
    static const entry list[] = {{"x", "U8", "[2,3]", 6},  {"long", "I64", "[1]", 8},    {"f", "F16", "[2]", 4},
                                 {"rest", "U8", "[2]", 2}, {"opt.rest", "U8", "[0]", 0}, {0}};
    sg_source         *w = file_of(list, 0, (char[20]){0});
    sg_bind           *b = bind_to(w);
    sg_error           e = {0};
    sg_tensor          t[5];
    sg_bind_tensor(b, &t[0], SG_F32, "x", 2, 3);
    sg_bind_tensor(b, &t[1], SG_F32, "long", 1);
    sg_bind_tensor(b, &t[2], SG_F32, "f", 3, 2);
    sg_bind_tensor(b, &t[3], SG_F32, "gone", 4);
    sg_bind_tensor(b, &t[4], SG_F32, "huge", INT64_MAX, INT64_MAX);
    assert_int_equal(t[4].rank, 0);
    sg_bind_ignore(b, "opt.");
    const sg_status status = sg_bind_check(b, &e);
    assert_null(strstr(e.text, "opt.rest"));
    assert_refused(status, SG_E_FORMAT, &e, "m.safetensors", "2 missing|1 misshapen|2 of the wrong|1 extra",
                   "missing: gone [4]", "missing: huge [9223372036854775807, 9223372036854775807]",
                   "misshapen: f is [2]|[3, 2]", "type: x is U8", "type: long is I64", "extra: rest [2]");
    assert_int_equal(sg_bind_load(b, &host, NULL, NULL, NULL), SG_E_FORMAT);
    close_both(&b, &w);
}

static void long_reports_are_cut_by_kind(void **state)
{
    sg_source *w = FILE_OF("", {"extra", "U8", "[1]", 1});
    sg_bind   *b = bind_to(w);
    sg_error   e = {0};
    sg_tensor  t;
    char       prefix[300];
    memset(prefix, 'p', 299);
    prefix[299] = 0;
    sg_bind_prefix(b, "%s", prefix);
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof name, "gone.%d", i);
        sg_bind_tensor(b, &t, SG_F32, name, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX);
    }
    assert_refused(sg_bind_check(b, &e), SG_E_FORMAT, &e, "1000 missing|1 extra", "991 more missing|extra: extra [1]");
    assert_true(strlen(e.text) < sizeof e.text - 1);
    close_both(&b, &w);
}

static void mistakes_of_the_caller_latch(void **state)
{
    static char long_name[1000];
    memset(long_name, 'x', sizeof long_name - 1);
    for (int i = 0; i < 4; i++) {
        sg_source *w = file_of(&(entry){0}, 0, "");
        sg_bind   *b = bind_to(w);
        sg_error   e = {0};
        sg_tensor  t;
        if (i == 0) sg_bind_tensor_(b, &t, SG_F32, "x", 6, (int64_t[]){1, 1, 1, 1, 1, 1});
        if (i == 1) sg_bind_tensor(b, &t, SG_U8, "x", 1);
        if (i == 2) sg_bind_tensor(b, &t, SG_F32, long_name, 1);
        if (i == 3) sg_bind_prefix(b, "%s", long_name);
        assert_int_equal(sg_bind_check(b, &e), SG_E_ARG);
        close_both(&b, &w);
    }
}

/* ---- loading ---- */

static uint32_t random_bits(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

/* n finite numbers of that type, n even. */
static void fill(void *out, sg_dtype type, size_t n)
{
    uint32_t        seed = 7;
    const sg_tensor t = {out, type, 1, {(int64_t)n}};
    uint32_t *const word = out;
    for (size_t i = 0; i < n * sg_dtype_size(type) / 4; i++) word[i] = random_bits(&seed);
    for (int64_t i = 0; i < (int64_t)n; i++)
        if (!isfinite(sg_load(&t, i)) || fabsf(sg_load(&t, i)) > 3e38f) sg_store(&t, i, 0.5f);
}

/* Every way from file to device; numbers compared with the plain scalar conversions. */
static void check_conversion(sg_dtype from, sg_dtype as, const sg_backend *backend, bool misaligned)
{
    const size_t n = backend->host_memory || !misaligned ? 40002 : PIECE / 2 + 40002; /* two pieces or more */
    const size_t size = sg_dtype_size(from);
    char         shape[32];
    void *const  x = malloc(n * size);
    assert_non_null(x);
    fill(x, from, n);
    snprintf(shape, sizeof shape, "[%zu]", n);
    const entry list[] = {{"x", sg_dtype_name(from), shape, n * size}, {0}};
    sg_source  *w = file_of(list, misaligned, x);
    sg_bind    *b = bind_to(w);
    sg_error    e = {0};
    sg_tensor   t, file = {x, from, 1, {(int64_t)n}};
    size_t      mapped;
    sg_bind_tensor(b, &t, as, "x", (int64_t)n);
    const bool stays = backend->host_memory && from == as && !misaligned;
    assert_int_equal((uintptr_t)sg_source_find(w, "x").data % size, misaligned ? 1 : 0);
    const size_t bytes = sg_bind_bytes(b, backend, &mapped);
    assert_int_equal(mapped, stays ? n * size : 0);
    if (sg_bind_load(b, backend, NULL, NULL, &e) != SG_OK) fail_msg("%s", e.text);
    assert_int_equal(blocks, !stays);
    assert_int_equal(bytes, stays ? 0 : block_bytes);
    assert_ptr_equal(t.data, stays ? sg_source_find(w, "x").data : block);
    for (int64_t i = 0; i < (int64_t)n; i++) {
        const float    want = sg_load(&file, i);
        const uint16_t half = sg_f32_to_bf16(want);
        if (memcmp((char *)t.data + (size_t)i * sg_dtype_size(as), as == SG_F32 ? (const void *)&want : &half,
                   sg_dtype_size(as)))
            fail_msg("element %lld of %s as %s", (long long)i, sg_dtype_name(from), sg_dtype_name(as));
    }
    free(x);
    close_both(&b, &w);
}

static void every_conversion_is_exact(void **state)
{
    static const sg_dtype types[] = {SG_F32, SG_F16, SG_BF16};
    for (int from = 0; from < 3; from++)
        for (int as = 0; as < 3; as += 2)
            for (int way = 0; way < 6; way++) {
                stages_there = way > 3;
                check_conversion(types[from], types[as], way & 1 || stages_there ? &card : &host, way & 2);
            }
    stages_there = false;
}

/* All 65536 halves, through the same code. */
static void every_half_is_exact(void **state)
{
    enum { N = 63488 }; /* the finite ones */
    static uint16_t x[N];
    for (int n = 0, h = 0; h < 65536; h++)
        if ((h & 0x7c00) != 0x7c00) x[n++] = (uint16_t)h;
    sg_source *w = FILE_OF(x, {"x", "F16", "[63488]", sizeof x});
    sg_bind   *b = bind_to(w);
    sg_tensor  f, h;
    sg_bind_tensor(b, &f, SG_F32, "x", N);
    sg_bind_tensor(b, &h, SG_BF16, "x", N);
    assert_int_equal(sg_bind_load(b, &host, NULL, NULL, NULL), SG_OK);
    assert_int_equal((uintptr_t)f.data % SG_ALIGN, 0);
    assert_int_equal((uintptr_t)h.data % SG_ALIGN, 0);
    for (int i = 0; i < N; i++) {
        const float want = sg_f16_to_f32(x[i]);
        assert_memory_equal((float *)f.data + i, &want, 4);
        assert_int_equal(((uint16_t *)h.data)[i], sg_f32_to_bf16(want));
    }
    close_both(&b, &w);
}

/* Of each run of six rows the halves become pairs, on every way to a device, and vectors as matrices. */
static void halves_become_pairs(void **state)
{
    enum { RUN = 6, ROWS = 4 * RUN, WIDE = 7 };
    float x[ROWS * WIDE];
    for (int i = 0; i < ROWS * WIDE; i++) x[i] = (float)i;
    for (int way = 0; way < 6; way++) {
        const int  wide = way % 2 ? 1 : WIDE;
        sg_source *w = FILE_OF(x, {"x", "F32", way % 2 ? "[24]" : "[24,7]", (size_t)(ROWS * wide) * sizeof *x});
        sg_bind   *b = bind_to(w);
        sg_error   e = {0};
        sg_tensor  t, plain;
        sg_bind_pairs(b, RUN);
        if (way % 2)
            sg_bind_tensor(b, &t, SG_F32, "x", ROWS);
        else
            sg_bind_tensor(b, &t, SG_F32, "x", ROWS, WIDE);
        sg_bind_pairs(b, 0);
        if (way > 3) { /* a patch is of the file's rows */
            const sg_source_tensor *const own = sg_source_at(w, 0);
            const sg_patch                p = {.path = "x", .name = "x", .scale = 1, .factor = {{.up = own}}};
            assert_done(sg_bind_patch(b, &p, &e), &e);
        }
        assert_done(sg_bind_load(b, way / 2 % 2 ? &card : &host, NULL, NULL, &e), &e);
        for (int i = 0; i < ROWS * wide; i++) {
            const int row = i / wide, from = row / RUN * RUN + row % RUN / 2 + row % 2 * (RUN / 2);
            assert_true(((float *)t.data)[i] == (way > 3 ? 2 : 1) * x[from * wide + i % wide]);
        }
        close_both(&b, &w);
        w = FILE_OF(x, {"x", "F32", "[24]", ROWS * sizeof *x});
        b = bind_to(w);
        sg_bind_pairs(b, 5); /* which does not divide 24, and is odd */
        sg_bind_tensor(b, &plain, SG_F32, "x", ROWS);
        assert_refused(sg_bind_check(b, &e), SG_E_ARG, &e, "pairs");
        close_both(&b, &w);
    }
}

static void not_a_number_is_refused_by_name(void **state)
{
    enum { N = 66000 };
    static const sg_dtype types[] = {SG_F32, SG_F16, SG_BF16};
    static const float    bad[] = {NAN, INFINITY, -INFINITY};
    char                  place[64];
    float                 x[N];
    for (int from = 0; from < 3; from++)
        for (int as = 0; as < 3; as += 2)
            for (int k = 0; k < 6; k++) {
                const sg_tensor t = {x, types[from], 1, {N}};
                const int       at = k < 3 ? N - 1 : 700;
                memset(x, 0, sizeof x);
                sg_store(&t, at, bad[k % 3]);
                sg_source *w =
                    FILE_OF(x, {"a.nan", sg_dtype_name(types[from]), "[66000]", sg_bytes(t)}, {"ok", "U8", "[0]", 0});
                sg_bind  *b = bind_to(w);
                sg_error  e = {0};
                sg_tensor wanted;
                sg_bind_ignore(b, "ok");
                sg_bind_tensor(b, &wanted, types[as], "a.nan", N);
                snprintf(place, sizeof place, "\"a.nan\"|element %d", at);
                assert_refused(sg_bind_load(b, k % 2 ? &card : &host, NULL, NULL, &e), SG_E_NUMERIC, &e, place);
                assert_null(wanted.data);
                close_both(&b, &w);
            }
    x[0] = 3.4e38f;
    sg_source *w = FILE_OF(x, {"x", "F32", "[1]", 4});
    sg_bind   *b = bind_to(w);
    sg_error   e = {0};
    sg_tensor  t;
    sg_bind_tensor(b, &t, SG_BF16, "x", 1);
    assert_refused(sg_bind_load(b, &host, NULL, NULL, &e), SG_E_NUMERIC, &e, "\"x\"|BF16");
    close_both(&b, &w);
}

static int last_done, last_total;

static int count_progress(void *context, int done, int total)
{
    assert_int_equal(done, last_done + 1);
    last_done = done;
    last_total = total;
    return context && done == *(int *)context;
}

static void progress_cancel_unload_and_again(void **state)
{
    const float x[4] = {1, 2, 3, 4};
    sg_source  *w = FILE_OF(x, {"a", "F32", "[2]", 8}, {"b", "F32", "[2]", 8}, {"c", "F32", "[0]", 0});
    sg_bind    *b = bind_to(w);
    sg_error    e = {0};
    sg_tensor   a, also, c;
    sg_bind_tensor(b, &a, SG_BF16, "a", 2);
    sg_bind_tensor(b, &also, SG_F32, "b", 2);
    sg_bind_tensor(b, &c, SG_BF16, "c", 0);
    last_done = 0;
    assert_int_equal(sg_bind_load(b, &host, count_progress, &(int){2}, &e), SG_E_CANCELLED);
    assert_int_equal(last_done, 2);
    assert_null(a.data);
    assert_int_equal(blocks, 0);
    for (int again = 0; again < 2; again++) {
        last_done = 0;
        assert_int_equal(sg_bind_load(b, &host, count_progress, NULL, NULL), SG_OK);
        assert_int_equal(last_done, 3);
        assert_int_equal(last_total, 3);
        assert_int_equal(sg_bind_load(b, &host, NULL, NULL, NULL), SG_OK); /* nothing happens */
        assert_int_equal(blocks, 1);
        assert_true(sg_load(&a, 1) == 2 && sg_load(&also, 1) == 4);
        sg_bind_unload(b);
        assert_null(a.data);
        assert_int_equal(a.rank, 1);
        assert_int_equal(blocks, 0);
    }
    close_both(&b, &w);
}

static void devices_may_fail(void **state)
{
    sg_source *w = FILE_OF(((float[]){1, 2}), {"a", "F32", "[2]", 8});
    sg_bind   *b = bind_to(w);
    sg_error   e = {0}, e2 = {0};
    sg_tensor  a;
    sg_bind_tensor(b, &a, SG_BF16, "a", 2);
    alloc_fails = true;
    assert_refused(sg_bind_load(b, &card, NULL, NULL, &e), SG_E_MEMORY, &e, "card|1 MiB");
    alloc_fails = false;
    upload_result = SG_E_DEVICE;
    assert_refused(sg_bind_load(b, &card, NULL, NULL, &e2), SG_E_DEVICE, &e2, "tensor \"a\"|card");
    upload_result = SG_OK;
    stages_there = stage_fails = true;
    e2 = (sg_error){0};
    assert_refused(sg_bind_load(b, &card, NULL, NULL, &e2), SG_E_DEVICE, &e2, "tensor \"a\"|card|earlier piece");
    stages_there = stage_fails = false;
    assert_null(a.data);
    close_both(&b, &w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_shapes_and_prefixes_bind),
        cmocka_unit_test(all_troubles_are_told_at_once),
        cmocka_unit_test(long_reports_are_cut_by_kind),
        cmocka_unit_test(mistakes_of_the_caller_latch),
        cmocka_unit_test(every_conversion_is_exact),
        cmocka_unit_test(every_half_is_exact),
        cmocka_unit_test(halves_become_pairs),
        cmocka_unit_test(not_a_number_is_refused_by_name),
        cmocka_unit_test(progress_cancel_unload_and_again),
        cmocka_unit_test(devices_may_fail),
    };
    return cmocka_run_group_tests(tests, enter_folder, remove_folder);
}
