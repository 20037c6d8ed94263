/* test_gguf.c - GGUF files: a sound one, what it may hold, and every lie in its header. */
#include "bind.h"
#include "host_memory.h"
#include "unit.h"

static const char path[] = "m.gguf";

/* ---- a file as it is written ---- */

/* Places of the sound file, for the cases that change it. */
typedef enum place {
    VERSION,
    TENSORS,
    KEYS,
    KEY_LENGTH,
    KEY_NAME,
    KEY_TYPE,
    TEXT_LENGTH,
    ALIGNMENT_TYPE,
    ALIGNMENT,
    TEXTS_ELEMENT,
    TEXTS_COUNT,
    SHAPE_TYPE,
    SHAPE_COUNT,
    SHAPE_FIRST,
    SPLIT,
    A_NAME,
    A_RANK,
    A_NE,
    A_TYPE,
    A_OFFSET,
    B_NAME,
    B_NE,
    ODD_TYPE,
    PLACES
} place;

static struct {
    uint8_t byte[2048];
    size_t  size, at[PLACES];
} file;

static void put(uint64_t n, int bytes)
{
    for (int i = 0; i < bytes; i++) file.byte[file.size++] = (uint8_t)(i < 8 ? n >> (8 * i) : 0);
}

static void put_at(place p, uint64_t n, int bytes)
{
    file.at[p] = file.size;
    put(n, bytes);
}

static void put_text(const char *text)
{
    put(strlen(text), 8);
    memcpy(file.byte + file.size, text, strlen(text));
    file.size += strlen(text);
}

static void put_bits(double x, int bytes)
{
    const float f = (float)x;
    uint64_t    n = 0;
    memcpy(&n, bytes == 4 ? (const void *)&f : (const void *)&x, (size_t)bytes);
    put(n, bytes);
}

enum { U8, I8, U16, I16, U32, I32, FLOAT, BOOL, TEXT, ARRAY, U64, I64, DOUBLE };

static void put_key(const char *name, int type)
{
    put_text(name);
    put((uint64_t)type, 4);
}

static void put_keys(void)
{
    file.at[KEY_LENGTH] = file.size;
    file.at[KEY_NAME] = file.size + 8;
    put_key("general.architecture", TEXT);
    file.at[KEY_TYPE] = file.size - 4;
    file.at[TEXT_LENGTH] = file.size;
    put_text("wan");
    put_key("general.alignment", U32);
    file.at[ALIGNMENT_TYPE] = file.size - 4;
    put_at(ALIGNMENT, 16, 4);
    put_key("texts", ARRAY);
    put_at(TEXTS_ELEMENT, TEXT, 4);
    put_at(TEXTS_COUNT, 3, 8);
    put_text("one");
    put_text("");
    put_text("three");
    put_key("comfy.gguf.orig_shape.b", ARRAY);
    put_at(SHAPE_TYPE, I32, 4);
    put_at(SHAPE_COUNT, 3, 8);
    put_at(SHAPE_FIRST, 2, 4);
    put(4, 4);
    put(8, 4);
    put_key("split.count", U16);
    put_at(SPLIT, 1, 2);
    put_key("scores", ARRAY);
    put(FLOAT, 4);
    put(2, 8);
    put_bits(-0.5, 4);
    put_bits(3, 4);
    put_key("negative", I16);
    put((uint64_t)-7, 2);
    put_key("yes", BOOL);
    put(1, 1);
    put_key("double", DOUBLE);
    put_bits(0.1, 8);
}

enum { SOUND_KEYS = 9, SOUND_TENSORS = 5 };

/* a F32 [2, 3], b Q8_0 [2, 32] that was [2, 4, 8], five F16 [1, 3, 1, 2, 2], odd of type 99, one F32 []. */
static void put_tensors(void)
{
    file.at[A_NAME] = file.size + 8;
    put_text("a");
    put_at(A_RANK, 2, 4);
    put_at(A_NE, 3, 8);
    put(2, 8);
    put_at(A_TYPE, 0, 4);
    put_at(A_OFFSET, 0, 8);
    file.at[B_NAME] = file.size + 8;
    put_text("b");
    put(2, 4);
    put_at(B_NE, 32, 8);
    put(2, 8);
    put(8, 4);
    put(32, 8);
    put_text("five");
    put(5, 4);
    for (int i = 0; i < 5; i++) put((uint64_t[]){2, 2, 1, 3, 1}[i], 8);
    put(1, 4);
    put(112, 8);
    put_text("odd");
    put(1, 4);
    put(7, 8);
    put_at(ODD_TYPE, 99, 4);
    put(0, 8);
    put_text("one");
    put(0, 4);
    put(0, 4);
    put(144, 8);
}

static size_t header_size;

static void make_sound(void)
{
    file.size = 0;
    memcpy(file.byte, "GGUF", 4);
    file.size = 4;
    put_at(VERSION, 3, 4);
    put_at(TENSORS, SOUND_TENSORS, 8);
    put_at(KEYS, SOUND_KEYS, 8);
    put_keys();
    put_tensors();
    header_size = file.size;
    while (file.size % 16) put(0, 1);
    for (int i = 0; i < 6; i++) put_bits(i + 0.5, 4); /* a, then padding */
    put(0, 8);
    for (int row = 0; row < 2; row++) {
        put(0x3800, 2); /* F16: a half */
        for (int i = 0; i < 32; i++) put((uint64_t)(i - 16 * row), 1);
    }
    put(0, 12);
    for (int i = 0; i < 12; i++) put(0x3c00, 2);
    put(0, 8);
    put_bits(8, 4);
    assert_true(file.size <= sizeof file.byte);
}

/* ---- the sound file ---- */

static sg_source *open_sound(void)
{
    sg_error   e = {0};
    sg_source *s = NULL;
    make_sound();
    write_bytes(path, file.byte, file.size);
    if (sg_source_open(&s, path, &e)) fail_msg("%s", e.text);
    return s;
}

static const sg_backend host = {.name = "host", .memory = &host_memory, .host_memory = true, .threads = 1};

static void tensors_of_a_sound_file_are_read(void **state)
{
    sg_error         e = {0};
    sg_tensor        a, b, five, one;
    sg_source *const s = open_sound();
    sg_bind         *x = NULL;
    assert_int_equal(sg_source_count(s), SOUND_TENSORS);
    assert_int_equal(sg_source_files(s), 1);
    assert_int_equal(sg_source_bytes(s), file.size);
    assert_string_equal(sg_source_at(s, (size_t)sg_source_index(s, "b"))->type->name, "Q8_0");
    assert_int_equal(sg_source_find(s, "a").rank, 2);
    assert_int_equal(sg_bind_open(&x, s, NULL, &e), SG_OK);
    sg_bind_ignore(x, "odd");
    sg_bind_tensor(x, &a, SG_F32, "a", 2, 3);
    sg_bind_tensor(x, &b, SG_F32, "b", 2, 4, 8);
    sg_bind_tensor(x, &five, SG_F32, "five", 3, 2, 2);
    sg_bind_tensor(x, &one, SG_F32, "one", 1);
    if (sg_bind_load(x, &host, NULL, NULL, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < 6; i++) assert_true(sg_load(&a, i) == (float)i + 0.5f);
    for (int i = 0; i < 64; i++) assert_true(sg_load(&b, i) == (float)(i % 32 - i / 32 * 16) / 2);
    for (int i = 0; i < 12; i++) assert_true(sg_load(&five, i) == 1);
    assert_true(sg_load(&one, 0) == 8);
    sg_bind_close(&x);
    sg_source *w = s;
    sg_source_close(&w);
}

static void metadata_of_every_type_is_read(void **state)
{
    sg_source     *s = open_sound();
    sg_source_list l;
    size_t         n;
    assert_string_equal(sg_source_metadata(s, "general.architecture"), "wan");
    assert_null(sg_source_metadata(s, "general.alignment"));
    assert_null(sg_source_metadata(s, "texts"));
    assert_true(sg_source_metadata_list(s, "texts", &l));
    assert_int_equal(l.count, 3);
    assert_memory_equal(sg_source_next_text(&l, &n), "one", 3);
    assert_int_equal(n, 3);
    sg_source_next_text(&l, &n);
    assert_int_equal(n, 0);
    assert_memory_equal(sg_source_next_text(&l, &n), "three", 5);
    assert_int_equal(l.count, 0);
    assert_true(sg_source_metadata_list(s, "scores", &l));
    assert_int_equal(l.count, 2);
    assert_true(sg_source_number(&l, 0) == -0.5 && sg_source_number(&l, 1) == 3);
    assert_true(sg_source_metadata_list(s, "negative", &l) && sg_source_number(&l, 0) == -7);
    assert_true(sg_source_metadata_list(s, "yes", &l) && sg_source_number(&l, 0) == 1);
    assert_true(sg_source_metadata_list(s, "double", &l) && sg_source_number(&l, 0) == 0.1);
    assert_true(sg_source_metadata_list(s, "general.alignment", &l) && sg_source_number(&l, 0) == 16);
    assert_false(sg_source_metadata_list(s, "none", &l));
    sg_source_close(&s);
}

/* ggml has four dimensions at most, and drops those of 1; a type that is not known harms who wants it. */
static void shapes_and_types_are_judged_when_wanted(void **state)
{
    static const struct {
        int         rank;
        int64_t     dim[5];
        const char *name, *words;
    } wanted[] = {{1, {6}, "a", "misshapen|is [2, 3]|[6]"},
                  {2, {3, 2}, "a", "misshapen|is [2, 3]|[3, 2]"},
                  {3, {1, 2, 3}, "a", NULL},
                  {3, {2, 3, 1}, "a", NULL},
                  {5, {2, 1, 3, 1, 1}, "a", NULL},
                  {5, {2, 2, 8, 1, 2}, "b", "misshapen|is [2, 4, 8]|[2, 2, 8, 1, 2]"},
                  {5, {2, 1, 1, 4, 8}, "b", NULL},
                  {5, {1, 2, 4, 1, 8}, "b", NULL},
                  {4, {1, 2, 4, 8}, "b", NULL},
                  {1, {7}, "odd", "type|F32"}};
    sg_source *s = open_sound();
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        sg_error  e = {0};
        sg_tensor t;
        sg_bind  *b = NULL;
        assert_int_equal(sg_bind_open(&b, s, NULL, &e), SG_OK);
        for (size_t k = 0; k < SOUND_TENSORS; k++) sg_bind_ignore(b, sg_source_at(s, k)->name);
        sg_bind_tensor_(b, &t, SG_F32, wanted[i].name, wanted[i].rank, wanted[i].dim);
        if (wanted[i].words)
            assert_refused(sg_bind_check(b, &e), SG_E_FORMAT, &e, wanted[i].words);
        else
            assert_done(sg_bind_check(b, &e), &e);
        sg_bind_close(&b);
    }
    sg_source_close(&s);
}

/* Numbers between those of known types, too: ggml once had such types. */
static void types_without_a_name_are_not_known(void **state)
{
    for (int i = 0; i < 3; i++) {
        sg_source *s = NULL;
        make_sound();
        file.byte[file.at[ODD_TYPE]] = (uint8_t[]){4, 31, 38}[i];
        write_bytes(path, file.byte, file.size);
        assert_int_equal(sg_source_open(&s, path, NULL), SG_OK);
        assert_string_equal(sg_source_at(s, (size_t)sg_source_index(s, "odd"))->type->name,
                            "of a type that is not known");
        sg_source_close(&s);
    }
}

/* ---- lies ---- */

static void refuse(size_t size, const char *words)
{
    sg_error   e = {0};
    sg_source *s = NULL;
    write_bytes(path, file.byte, size);
    assert_refused(sg_source_open(&s, path, &e), SG_E_FORMAT, &e, path, words);
    assert_null(s);
}

static const struct {
    place       at;
    int         bytes;
    uint64_t    value;
    const char *words;
} lies[] = {
    {VERSION, 4, 1, "version 1|GGUF"},
    {VERSION, 4, 4, "version 4|GGUF"},
    {VERSION, 4, 3u << 24, "is big-endian"},
    {TENSORS, 8, UINT64_MAX, "18446744073709551615 tensors|announced"},
    {TENSORS, 8, 1ull << 63, "9223372036854775808 tensors|announced"},
    {TENSORS, 8, 60, "60 tensors|announced"},
    {KEYS, 8, UINT64_MAX, "18446744073709551615 keys|announced"},
    {KEYS, 8, 1ull << 63, "9223372036854775808 keys|announced"},
    {KEYS, 8, 90, "90 keys|announced"},
    {KEY_LENGTH, 8, UINT64_MAX, "key 0|name: 18446744073709551615"},
    {KEY_LENGTH, 8, 1ull << 63, "key 0|name: 9223372036854775808"},
    {KEY_LENGTH, 8, 0, "key 0"},
    {KEY_NAME, 1, 0, "key 0"},
    {KEY_NAME, 1, 0xff, "key 0"},
    {KEY_TYPE, 4, 13, "key \"general.architecture\"|type 13"},
    {KEY_TYPE, 4, UINT32_MAX, "values|type 4294967295"},
    {TEXT_LENGTH, 8, UINT64_MAX, "key \"general.architecture\"|text: 18446744073709551615"},
    {ALIGNMENT_TYPE, 4, I32, "key \"general.alignment\"|number"},
    {ALIGNMENT, 4, 0, "\"general.alignment\"|is 0"},
    {ALIGNMENT, 4, 3, "\"general.alignment\"|is 3"},
    {ALIGNMENT, 4, 1u << 31, "tensor \"b\"|offset 32|2147483648"},
    {ALIGNMENT, 4, 64, "tensor \"b\"|offset 32|64"},
    {TEXTS_ELEMENT, 4, ARRAY, "key \"texts\"|arrays"},
    {TEXTS_ELEMENT, 4, 77, "key \"texts\"|type 77"},
    {TEXTS_COUNT, 8, UINT64_MAX, "key \"texts\"|18446744073709551615 elements"},
    {TEXTS_COUNT, 8, 1ull << 61, "key \"texts\"|2305843009213693952 elements"},
    {TEXTS_COUNT, 8, 30, "key \"texts\"|text"},
    {SHAPE_TYPE, 4, FLOAT, "key \"comfy.gguf.orig_shape.b\"|5 whole"},
    {SHAPE_COUNT, 8, UINT64_MAX / 4 + 1, "key \"comfy.gguf.orig_shape.b\"|4611686018427387904 elements"},
    {SHAPE_FIRST, 4, 0, "key \"comfy.gguf.orig_shape.b\"|number 0"},
    {SHAPE_FIRST, 4, UINT32_MAX, "key \"comfy.gguf.orig_shape.b\"|number 0"},
    {SHAPE_FIRST, 4, 3, "key \"comfy.gguf.orig_shape.b\"|96 elements|tensor 64"},
    {SPLIT, 2, 3, "3|llama.cpp's|gguf-split|--merge"},
    {A_NAME, 1, 0, "tensor 0"},
    {A_NAME, 1, 0xc0, "tensor 0"},
    {B_NAME, 1, 'a', "tensor \"a\"|twice"},
    {A_RANK, 4, 6, "tensor \"a\"|6 dimensions"},
    {A_RANK, 4, UINT32_MAX, "tensor \"a\"|4294967295 dimensions"},
    {A_NE, 8, 0, "tensor \"a\"|is 0"},
    {A_NE, 8, 1ull << 63, "tensor \"a\"|shape"},
    {A_NE, 8, UINT64_MAX, "tensor \"a\"|shape"},
    {A_NE, 8, 1ull << 58, "tensor \"a\"|2305843009213693952 bytes|offset 0"},
    {A_NE, 8, 5, "tensor \"b\"|tensor \"a\""},
    {A_TYPE, 4, 12, "tensor \"a\"|3 elements|Q4_K|256"},
    {A_OFFSET, 8, 8, "tensor \"a\"|offset 8|16"},
    {A_OFFSET, 8, 32, "overlaps tensor"},
    {A_OFFSET, 8, UINT64_MAX - 15, "tensor \"a\"|24 bytes|offset 18446744073709551600"},
    {A_OFFSET, 8, 1ull << 40, "tensor \"a\"|24 bytes|offset 1099511627776"},
    {B_NE, 8, 33, "tensor \"b\"|33 elements|Q8_0|32"},
};

static void lies_are_refused(void **state)
{
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        make_sound();
        const size_t size = file.size;
        file.size = file.at[lies[i].at];
        put(lies[i].value, lies[i].bytes);
        refuse(size, lies[i].words);
    }
}

static void names_that_are_too_long_are_refused(void **state)
{
    char name[129] = {0};
    for (int i = 0; i < 2; i++) {
        memset(name, 'n', 127 + (size_t)i);
        memcpy(file.byte, "GGUF", 4);
        file.size = 4;
        put(2, 4); /* version 2 has the same layout */
        put(1, 8);
        put(0, 8);
        put_text(name);
        put(1, 4);
        put(1, 8);
        put(24, 4);
        put(0, 8);
        while (file.size % 32) put(0, 1);
        put(5, 1);
        if (i == 1) {
            refuse(file.size, "tensor 0|127 bytes|UTF-8");
            continue;
        }
        sg_source *s = NULL;
        write_bytes(path, file.byte, file.size);
        assert_int_equal(sg_source_open(&s, path, NULL), SG_OK);
        assert_string_equal(sg_source_at(s, 0)->name, name);
        assert_int_equal(*sg_source_at(s, 0)->data, 5);
        sg_source_close(&s);
    }
}

static void keys_that_stand_twice_are_refused(void **state)
{
    memcpy(file.byte, "GGUF", 4);
    file.size = 4;
    put(3, 4);
    put(0, 8);
    put(2, 8);
    for (int i = 0; i < 2; i++) {
        put_key("general.file_type", U32);
        put(1, 4);
    }
    refuse(file.size, "key \"general.file_type\"|twice");
}

/* Even where it is empty, at the end of the file. */
static void list_for_a_number_is_refused(void **state)
{
    memcpy(file.byte, "GGUF", 4);
    file.size = 4;
    put(3, 4);
    put(0, 8);
    put(1, 8);
    put_key("general.alignment", ARRAY);
    put(U64, 4);
    put(0, 8);
    refuse(file.size, "key \"general.alignment\"|number");
}

/* At every byte of the header, and within the data of the last tensor. */
static void cut_files_are_refused(void **state)
{
    make_sound();
    for (size_t n = 4; n <= header_size; n++) refuse(n, "");
    refuse(file.size - 1, "tensor \"one\"|4 bytes|offset 144|147 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_a_sound_file_are_read),
        cmocka_unit_test(metadata_of_every_type_is_read),
        cmocka_unit_test(shapes_and_types_are_judged_when_wanted),
        cmocka_unit_test(types_without_a_name_are_not_known),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(names_that_are_too_long_are_refused),
        cmocka_unit_test(keys_that_stand_twice_are_refused),
        cmocka_unit_test(list_for_a_number_is_refused),
        cmocka_unit_test(cut_files_are_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
