/* test_base.c - kernels/base: arrays, text, UTF-8, numbers, paths, files, hashes, threads. */
#include "base/array.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/path.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/utf8.h"
#include "fallback.h"
#include "unit.h"

#include <signal.h>

/* ---- arrays ---- */

static void arrays_grow(void **state)
{
    struct pair {
        int a, b;
    } *at = NULL;
    size_t count = 0, buffer = 0;
    int    moves = 0;
    for (int i = 0; i < 1000; i++) {
        const size_t before = buffer;
        assert_true(sg_array_push(at, count, buffer, (struct pair){i, -i}));
        moves += buffer != before;
    }
    assert_int_equal(count, 1000);
    assert_true(buffer >= count);
    assert_in_range(moves, 2, 10); /* doubling, not an element at a time */
    for (int i = 0; i < 1000; i++) assert_true(at[i].a == i && at[i].b == -i);
    const void *const before = at;
    assert_true(sg_array_reserve(at, buffer, buffer));
    assert_ptr_equal(at, before);
    assert_true(sg_array_reserve(at, buffer, 5000));
    assert_true(buffer >= 5000);
    assert_int_equal(at[999].a, 999);
    free(at);
}

static void arrays_count_in_int(void **state)
{
    int    count = 0;
    char  *at = NULL;
    size_t buffer = 0;
    for (char c = 'a'; c <= 'z'; c++) assert_true(sg_array_push(at, count, buffer, c));
    assert_int_equal(count, 26);
    assert_memory_equal(at, "abcdefghijklmnopqrstuvwxyz", 26);
    free(at);
}

static void arrays_do_not_overflow(void **state)
{
    int64_t *at = NULL;
    size_t   buffer = 0, count = 0;
    assert_true(sg_array_push(at, count, buffer, 7));
    int64_t *const before = at;
    const size_t   had = buffer;
    const size_t   bad[] = {SIZE_MAX, SIZE_MAX / 8 + 2, (size_t)PTRDIFF_MAX / 8 + 1};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(sg_array_reserve(at, buffer, bad[i]));
        assert_ptr_equal(at, before);
        assert_int_equal(buffer, had);
    }
    assert_int_equal(at[0], 7);
    size_t full = SIZE_MAX / 2; /* as if it held half of all memory: twice that is more than there is */
    char  *none = NULL;
    assert_false(sg_array_reserve(none, full, (size_t)PTRDIFF_MAX + 1));
    assert_null(none);
    assert_int_equal(full, SIZE_MAX / 2);
    free(at);
}

/* ---- text ---- */

static void text_grows(void **state)
{
    sg_textbuf b = {0};
    sg_textbuf_put(&b, "", 0);
    assert_string_equal(b.data, "");
    for (int i = 0; i < 500; i++) sg_textbuf_printf(&b, "%d,", i);
    sg_textbuf_put_char(&b, 0x1f534);
    sg_textbuf_put(&b, "\0x", 2);
    assert_false(b.failed);
    assert_int_equal(b.len, 10 * 2 + 90 * 3 + 400 * 4 + 4 + 2);
    assert_memory_equal(b.data, "0,1,2,", 6);
    assert_memory_equal(b.data + b.len - 10, "499,\360\237\224\264\0x", 11);
    sg_textbuf_clear(&b);
    assert_string_equal(b.data, "");
    assert_true(sg_textbuf_reserve(&b, 100));
    const char *const at = b.data;
    for (int i = 0; i < 100; i++) sg_textbuf_put(&b, "x", 1);
    assert_ptr_equal(b.data, at);
    sg_textbuf_free(&b);
    assert_null(b.data);
}

static void text_fails_for_good(void **state)
{
    const size_t bad[] = {SIZE_MAX, SIZE_MAX - 4, SIZE_MAX / 2};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sg_textbuf b = {0};
        sg_textbuf_put(&b, "abc", 3);
        assert_false(sg_textbuf_reserve(&b, bad[i]));
        assert_true(b.failed);
        sg_textbuf_put(&b, "d", 1);
        sg_textbuf_printf(&b, "%d", 1);
        assert_string_equal(b.data, "abc");
        sg_textbuf_free(&b);
    }
}

/* With more kinds than there is room for the last row has the others' calls. */
static void fallbacks_are_counted(void **state)
{
    static const char *const many[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n"};
    char                     text[320] = "";
    sg_fallbacks             f = {0}, g = {0}, full = {0};
    sg_fallbacks_describe(&f, text, sizeof text);
    assert_string_equal(text, "");
    sg_fallback_count(&f, "ops in F32: wide");
    sg_fallback_count(&g, "ops in F32: odd");
    for (int i = 0; i < 2; i++) sg_fallback_count(&g, "ops in F32: wide");
    sg_fallbacks_add(&f, &g);
    snprintf(text, sizeof text, "first");
    sg_fallbacks_describe(&f, text, sizeof text);
    assert_string_equal(text, "first; ops in F32: wide (3 calls); ops in F32: odd (1 call)");
    for (int i = 0; i < 14; i++) sg_fallback_count(&full, many[i]);
    assert_string_equal(full.row[SG_FALLBACKS - 1].what, "l");
    assert_int_equal(full.row[SG_FALLBACKS - 1].calls, 3);
}

static void endings_are_found(void **state)
{
    assert_true(sg_text_ends("a.mp4", ".mp4"));
    assert_true(sg_text_ends("a", ""));
    assert_false(sg_text_ends(".mp4", ".mp4"));
    assert_false(sg_text_ends("a.mp", ".mp4"));
    assert_false(sg_text_ends("a.mp4x", ".mp4"));
    assert_false(sg_text_ends("", ""));
}

static void foreign_text_is_shown(void **state)
{
    static const struct {
        size_t      size;
        const char *text, *shown;
    } rows[] = {
        {8, "", ""},
        {8, "abcdefg", "abcdefg"},
        {8, "abcdefgh", "abcd..."},
        {8, "a\nb\033c\177", "a?b?c?"},
        {8, "\302\200\302\237x", "????x"},      /* C1 */
        {8, "\302\240x", "\302\240x"},          /* no-break space is none */
        {8, "abc\303\251fgh", "abc..."},        /* not within a character */
        {8, "ab\303\251fghi", "ab\303\251..."}, /* behind one */
        {8, "a\360\237\224\264bcd", "a..."},    /* nor within a long one */
        {8, "abcdef\302\205", "abcd..."},       /* a control character that is cut through */
        {4, "abcd", "..."},
        {8, "\377\376", "\377\376"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[16];
        memset(out, '#', sizeof out);
        assert_string_equal(sg_show_(out, rows[i].size, rows[i].text), rows[i].shown);
        assert_int_equal(out[rows[i].size], '#');
        snprintf(out, sizeof out, "%s", rows[i].text); /* in place */
        assert_string_equal(sg_show_(out, rows[i].size, out), rows[i].shown);
    }
    sg_error e = {0};
    assert_refused(sg_error_set(&e, SG_E_ARG, "%s", "a\nb\tc\302\205d"), SG_E_ARG, &e, "a\nb?c??d");
}

/* ---- UTF-8 ---- */

static void every_code_point_returns(void **state)
{
    for (int32_t c = 0; c <= 0x10ffff; c++) {
        char         bytes[4];
        int32_t      got;
        const size_t n = sg_utf8_put(bytes, c);
        const bool   surrogate = c >= 0xd800 && c <= 0xdfff;
        if (sg_utf8_next(bytes, n, &got) != (surrogate ? 0 : n) || got != (surrogate ? -1 : c))
            fail_msg("U+%04X", (unsigned)c);
        if (n > 1 && sg_utf8_next(bytes, n - 1, &got)) fail_msg("U+%04X is cut short and accepted", (unsigned)c);
    }
}

static void bad_bytes_are_refused(void **state)
{
    static const struct {
        const char *text;
        size_t      bad;
    } rows[] = {
        {"\200", 0},             /* a continuation byte alone */
        {"a\300\200", 1},        /* NUL in two bytes */
        {"\301\277", 0},         /* DEL in two bytes */
        {"\340\237\277", 0},     /* U+07FF in three */
        {"\360\217\277\277", 0}, /* U+FFFF in four */
        {"ab\355\240\200", 2},   /* U+D800 */
        {"\355\277\277", 0},     /* U+DFFF */
        {"\364\220\200\200", 0}, /* U+110000 */
        {"\365\200\200\200", 0},
        {"\370\210\200\200\200", 0}, /* five bytes */
        {"\377", 0},
        {"a\303", 1}, /* cut short */
        {"\342\202", 0},
        {"\342\202x", 0},
        {"\360\237\224", 0},
        {"\303\251\303\251\303", 4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t  bad = 99;
        int32_t c = 0;
        assert_false(sg_utf8_check(rows[i].text, strlen(rows[i].text), &bad));
        assert_int_equal(bad, rows[i].bad);
        assert_int_equal(sg_utf8_next(rows[i].text + bad, 4, &c), 0); /* the NUL behind it stops the decoder */
        assert_int_equal(c, -1);
    }
    size_t  bad = 99;
    int32_t c;
    assert_true(sg_utf8_check("", 0, &bad));
    assert_true(sg_utf8_check("a\0b\355\237\277\356\200\200\364\217\277\277", 13, &bad));
    assert_int_equal(bad, 99);
    assert_int_equal(sg_utf8_next("a", 0, &c), 0);
    assert_int_equal(sg_utf8_next("", 1, &c), 1); /* NUL is a character */
    assert_int_equal(c, 0);
}

static void kinds_of_characters(void **state)
{
    static const struct {
        const char *text;
        size_t      bytes;
    } control[] = {{"", 0},         {" ", 0},        {"\n", 1},   {"\001", 1}, {"\037x", 1},    {"\177", 1},
                   {"\302\200", 2}, {"\302\237", 2}, {"\302", 0}, {"\200", 0}, {"\302\240", 0}, {"\303\200", 0}};
    for (size_t i = 0; i < sizeof control / sizeof *control; i++)
        assert_int_equal(sg_utf8_control(control[i].text), control[i].bytes);
    static const int32_t spaces[] = {9, 10, 13, 32, 0x85, 0xa0, 0x1680, 0x2000, 0x200a, 0x2028, 0x202f, 0x205f, 0x3000};
    static const int32_t others[] = {0, 8, 14, 0x1c, 0x1f, 33, 0x200b, 0x2060, 0xfeff};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) assert_true(sg_utf8_is_space(spaces[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_false(sg_utf8_is_space(others[i]));
    int characters = 0;
    for (const char *c = "a\303\251\342\202\254\360\237\224\264"; *c; c++) characters += !sg_utf8_continues(*c);
    assert_int_equal(characters, 4);
}

/* ---- numbers ---- */

static void whole_numbers(void **state)
{
    static const struct {
        const char *text;
        int64_t     lo, hi, value;
    } good[] = {{"0", 0, 0, 0},
                {"7", 1, 7, 7},
                {"007", 0, 9, 7},
                {"+5", 0, 9, 5},
                {"-5", -5, 9, -5},
                {"-0", 0, 9, 0},
                {"9223372036854775807", INT64_MIN, INT64_MAX, INT64_MAX},
                {"-9223372036854775808", INT64_MIN, INT64_MAX, INT64_MIN},
                {"00000000000000000000000000000001", 0, 1, 1}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        int64_t v = -77;
        if (!sg_number_int(good[i].text, strlen(good[i].text), good[i].lo, good[i].hi, &v))
            fail_msg("%s", good[i].text);
        assert_int_equal(v, good[i].value);
    }
    static const char *const bad[] = {"",
                                      " ",
                                      "+",
                                      "-",
                                      " 5",
                                      "5 ",
                                      "\t5",
                                      "5\n",
                                      "+-5",
                                      "--5",
                                      "- 5",
                                      "0x10",
                                      "1e3",
                                      "1.0",
                                      "1,0",
                                      "five",
                                      "5a",
                                      "inf",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "99999999999999999999999999",
                                      "\331\245"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int64_t v = -77;
        if (sg_number_int(bad[i], strlen(bad[i]), INT64_MIN, INT64_MAX, &v)) fail_msg("'%s' is accepted", bad[i]);
        assert_int_equal(v, -77);
    }
    int64_t v = -77;
    assert_false(sg_number_int("8", 1, 0, 7, &v));
    assert_false(sg_number_int("-1", 2, 0, 7, &v));
    assert_false(sg_number_int("5\0", 2, 0, 7, &v)); /* a NUL within is no digit */
    assert_int_equal(v, -77);
    assert_true(sg_number_int("12x34", 2, 0, 99, &v)); /* n bytes, whatever follows */
    assert_int_equal(v, 12);
}

static void pairs_of_numbers(void **state)
{
    static const char *const bad[] = {"",         "832",   "832x",     "x480",   "832x480x2",
                                      "832 x480", "0x480", "832x1001", "832:480"};
    int                      of[2] = {-77, -77};
    (void)state;
    assert_true(sg_number_pair("832x480", "xX*", 1, 1000, of));
    assert_true(of[0] == 832 && of[1] == 480);
    assert_true(sg_number_pair("7*+8", "xX*", 1, 1000, of));
    assert_true(of[0] == 7 && of[1] == 8);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (sg_number_pair(bad[i], "xX*", 1, 1000, of)) fail_msg("'%s' is accepted", bad[i]);
    assert_false(sg_number_small("4294967297", 10, 0, INT32_MAX, of)); /* which is no int */
    double list[3];
    assert_int_equal(sg_number_list("1,-2.5,3e1", -9, 30, list, 3), 3);
    assert_true(list[0] == 1 && list[1] == -2.5 && list[2] == 30);
    assert_int_equal(sg_number_list("7", 0, 9, list, 3), 1);
    for (const char *const *no =
             (const char *const[]){"", ",", "1,", ",1", "1,,2", "1 ,2", "1;2", "1,2,3,4", "1,31", NULL};
         *no; no++)
        assert_int_equal(sg_number_list(*no, -9, 30, list, 3), 0);
}

static void real_numbers(void **state)
{
    static const struct {
        const char *text;
        double      value;
    } good[] = {{"0", 0},
                {"-0", -0.0},
                {"1", 1},
                {"+1.5", 1.5},
                {"-1.5e2", -150},
                {".5", 0.5},
                {"5.", 5},
                {"1E-3", 1e-3},
                {"1e+3", 1e3},
                {"0.1", 0.1},
                {"1e-400", 0},
                {"4.9e-324", 0x1p-1074},
                {"1.7976931348623157e308", 0x1.fffffffffffffp1023},
                {"9007199254740993", 0x1p53}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double v = -77;
        if (!sg_number_real(good[i].text, strlen(good[i].text), -INFINITY, INFINITY, &v)) fail_msg("%s", good[i].text);
        assert_memory_equal(&v, &good[i].value, sizeof v);
    }
    static const char *const bad[] = {"",    " ",   "+",        ".",      "e5",  "1e",    "1e+",    "-.e1",  " 1",
                                      "1 ",  "1\n", "+-1",      "0x1",    "1,5", "1.5.",  "1..5",   "inf",   "-inf",
                                      "nan", "NAN", "infinity", "nan(1)", "1f",  "1e999", "-1e999", "1_000", "0x1p3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double v = -77;
        if (sg_number_real(bad[i], strlen(bad[i]), -INFINITY, INFINITY, &v)) fail_msg("'%s' is accepted", bad[i]);
        assert_true(v == -77);
    }
    char   digits[SG_NUMBER_MAX + 2];
    double v = -77;
    memset(digits, '0', sizeof digits);
    assert_true(sg_number_real(digits, SG_NUMBER_MAX, 0, 1, &v));
    assert_true(v == 0);
    assert_false(sg_number_real(digits, SG_NUMBER_MAX + 1, 0, 1, &v));
    assert_false(sg_number_real("1.5", 3, 0, 1, &v));
    assert_false(sg_number_real("-0.5", 4, 0, 1, &v));
    assert_false(sg_number_real("1\0", 2, 0, 1, &v));
    assert_true(v == 0);
    assert_true(sg_number_real("0.5,0.3", 3, 0, 1, &v));
    assert_true(v == 0.5);
}

static void read_both(void *context)
{
    double *const v = context;
    if (!sg_number_real("0.5", 3, 0, 1, &v[0])) v[0] = -1;
    if (sg_number_real("0,5", 3, 0, 1, &v[1])) v[0] = -1;
}

static void the_locale_changes_no_number(void **state)
{
    double v[2] = {0, 7};
    if (!with_decimal_comma(read_both, v)) skip();
    assert_true(v[0] == 0.5);
    assert_true(v[1] == 7);
}

/* ---- paths ---- */

static void paths_come_apart(void **state)
{
    static const struct {
        const char *path, *folder, *name, *extension;
    } rows[] = {{"a", ".", "a", ""},
                {"a.txt", ".", "a.txt", ".txt"},
                {"a/b.tar.gz", "a", "b.tar.gz", ".gz"},
                {"/a", "/", "a", ""},
                {"/", "/", "", ""},
                {"", ".", "", ""},
                {"a/b/", "a/b", "", ""},
                {"a.b/c", "a.b", "c", ""},
                {"a//b", "a/", "b", ""},
                {"./.x", ".", ".x", ".x"},
                {"a/..", "a", "..", "."}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *const folder = sg_path_folder(rows[i].path);
        assert_string_equal(folder, rows[i].folder);
        assert_string_equal(sg_path_name(rows[i].path), rows[i].name);
        assert_string_equal(sg_path_extension(rows[i].path), rows[i].extension);
        free(folder);
    }
}

static void paths_join(void **state)
{
    static const struct {
        const char *folder, *name, *path;
    } rows[] = {{"a", "b", "a/b"},     {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"},
                {"a", "b/c", "a/b/c"}, {".", "", "./"},    {"", "", ""}};
    char     out[8];
    sg_error e = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(sg_path_join(out, sizeof out, rows[i].folder, rows[i].name, &e), SG_OK);
        assert_string_equal(out, rows[i].path);
    }
    assert_int_equal(sg_path_join(out, sizeof out, "abc", "def", &e), SG_OK); /* fits exactly */
    assert_string_equal(out, "abc/def");
    assert_int_equal(sg_path_join(out, sizeof out, "abc", "defg", NULL), SG_E_FILE);
    assert_string_equal(out, "");
    assert_refused(sg_path_join(out, sizeof out, "abcd/", "efg", &e), SG_E_FILE, &e, "abcd/...|path");
}

/* ---- files ---- */

static void files_are_mapped(void **state)
{
    static const char path[] = "f", pipe[] = "p";
    sg_map            m;
    sg_error          e = {0};
    write_text(path, "12345");
    assert_int_equal(sg_map_open(&m, path, &e), SG_OK);
    assert_int_equal(m.size, 5);
    assert_memory_equal(m.data, "12345", 5);
    sg_map_close(&m);
    assert_null(m.data);
    sg_map_close(&m);
    assert_int_equal(sg_map_open_most(&m, path, 5, &e), SG_OK);
    sg_map_close(&m);
    assert_refused(sg_map_open_most(&m, path, 4, &e), SG_E_FORMAT, &e, "f: 5 bytes|most 4");
    write_text(path, "");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    const struct {
        const char *path, *reason;
        sg_status   status;
    } bad[] = {{path, "f: |empty", SG_E_FORMAT},           {".", "folder", SG_E_FILE},
               {pipe, "p: |regular", SG_E_FILE},           {"/dev/null", "/dev/null|regular", SG_E_FILE},
               {"/no/such", "/no/such|opened", SG_E_FILE}, {"", "opened", SG_E_FILE}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_refused(sg_map_open(&m, bad[i].path, &e), bad[i].status, &e, bad[i].reason);
        assert_null(m.data);
    }
}

static void hashes_are_fnv_1a(void **state)
{
    assert_true(sg_hash(SG_HASH, "", 0) == 0xcbf29ce484222325u);
    assert_true(sg_hash(SG_HASH, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(sg_hash(SG_HASH, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(sg_hash(sg_hash(SG_HASH, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}

static void *note_mask(void *context)
{
    pthread_sigmask(SIG_BLOCK, NULL, context);
    return NULL;
}

static void threads_take_no_signals(void **state)
{
    static const int number[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t         mine, before, after, inside;
    pthread_t        thread;
    sigemptyset(&mine);
    sigaddset(&mine, SIGTERM); /* blocked before, it stays so */
    pthread_sigmask(SIG_SETMASK, &mine, &before);
    assert_int_equal(sg_thread_start(&thread, note_mask, &inside), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_sigmask(SIG_SETMASK, &before, &after);
    for (int i = 0; i < 3; i++) {
        assert_true(sigismember(&inside, number[i]));
        assert_int_equal(sigismember(&after, number[i]), number[i] == SIGTERM);
    }
    assert_false(sigismember(&inside, SIGBUS)); /* which a thread answers for itself */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_grow),
        cmocka_unit_test(arrays_count_in_int),
        cmocka_unit_test(arrays_do_not_overflow),
        cmocka_unit_test(text_grows),
        cmocka_unit_test(text_fails_for_good),
        cmocka_unit_test(fallbacks_are_counted),
        cmocka_unit_test(endings_are_found),
        cmocka_unit_test(foreign_text_is_shown),
        cmocka_unit_test(every_code_point_returns),
        cmocka_unit_test(bad_bytes_are_refused),
        cmocka_unit_test(kinds_of_characters),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(pairs_of_numbers),
        cmocka_unit_test(real_numbers),
        cmocka_unit_test(the_locale_changes_no_number),
        cmocka_unit_test(paths_come_apart),
        cmocka_unit_test(paths_join),
        cmocka_unit_test_setup_teardown(files_are_mapped, enter_folder, leave_folder),
        cmocka_unit_test(hashes_are_fnv_1a),
        cmocka_unit_test(threads_take_no_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
