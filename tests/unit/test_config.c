/* test_config.c - strict reading of configuration files: types, ranges, defaults, and one message that says what is
 * wrong. */
#include "config.h"
#include "unit.h"

#include <errno.h>

static const char path[] = "config.json";
static sg_error   e;

static sg_status open_text(sg_config **c, const char *text, size_t size)
{
    write_bytes(path, text, size);
    e = (sg_error){0};
    return sg_config_open(c, path, &e);
}

static sg_config *config(const char *text)
{
    sg_config *c = NULL;
    if (open_text(&c, text, strlen(text)) != SG_OK) fail_msg("%s", e.text);
    return c;
}

static void expect_refused(sg_status status, const char *names)
{
    for (const char *s = e.text; *s; s++) assert_true((unsigned char)*s >= 0x20);
    assert_refused(status, SG_E_FORMAT, &e, path, names);
}

static void sound_config_is_read(void **state)
{
    sg_config *c = config("{\"i\":-3,\"r\":0.5,\"whole\":2,\"b\":true,\"s\":\"\\u00e9\",\"none\":null,"
                          "\"is\":[1,2,3],\"rs\":[0.5,1],\"bs\":[true,false],\"ss\":[\"a\",null,\"c\"]}");
    int64_t    is[4] = {9, 9, 9, 9};
    double     rs[2];
    bool       bs[2];
    assert_int_equal(sg_config_int(c, "i", -3, 3, NULL), -3);
    assert_true(sg_config_real(c, "r", 0, 1, NULL) == 0.5);
    assert_true(sg_config_real(c, "whole", 0, 2, NULL) == 2.0);
    assert_true(sg_config_bool(c, "b", NULL));
    assert_string_equal(sg_config_string(c, "s", NULL), "\xc3\xa9");
    assert_true(sg_config_has(c, "i"));
    assert_false(sg_config_has(c, "none"));
    assert_false(sg_config_has(c, "absent"));
    assert_int_equal(sg_config_ints(c, "is", 1, 3, is, 1, 4), 3);
    assert_true(is[0] == 1 && is[2] == 3 && is[3] == 9);
    assert_int_equal(sg_config_reals(c, "rs", 0, 1, rs, 2, 2), 2);
    assert_true(rs[0] == 0.5 && rs[1] == 1.0);
    assert_int_equal(sg_config_bools(c, "bs", bs, 1, 2), 2);
    assert_true(bs[0] && !bs[1]);
    assert_string_equal(sg_config_string_at(c, "ss", 0), "a");
    assert_string_equal(sg_config_string_at(c, "ss", 2), "c");
    assert_null(sg_config_string_at(c, "ss", 1));
    assert_null(sg_config_string_at(c, "ss", 3));
    assert_null(sg_config_string_at(c, "ss", -1));
    assert_null(sg_config_string_at(c, "absent", 0));
    assert_int_equal(sg_config_status(c), SG_OK);
    sg_config_close(&c);
    assert_null(c);
    sg_config_close(&c);
}

static void defaults_stand_in(void **state)
{
    sg_config *c = config("{\"none\":null}");
    int64_t    is[2] = {7, 8};
    for (int i = 0; i < 2; i++) {
        const char *const key = i ? "none" : "absent";
        assert_int_equal(sg_config_int(c, key, 1, 2, &(int64_t){5}), 5);
        assert_true(sg_config_real(c, key, 1, 2, &(double){0.25}) == 0.25);
        assert_true(sg_config_bool(c, key, &(bool){true}));
        assert_string_equal(sg_config_string(c, key, "x"), "x");
        assert_int_equal(sg_config_ints(c, key, 1, 2, is, 0, 2), 0);
        assert_int_equal(is[1], 8);
    }
    assert_int_equal(sg_config_status(c), SG_OK);
    sg_config_close(&c);
}

static void only_one_value_is_taken(void **state)
{
    static const char *const texts[] = {"true", "false"};
    for (int wanted = 0; wanted < 2; wanted++) {
        sg_config *c = config("{\"none\":null,\"no\":false,\"yes\":true}");
        sg_config_only_bool(c, "absent", wanted);
        sg_config_only_bool(c, "none", wanted);
        sg_config_only_bool(c, wanted ? "yes" : "no", wanted);
        assert_int_equal(sg_config_status(c), SG_OK);
        sg_config_only_bool(c, wanted ? "no" : "yes", wanted);
        char says[80];
        snprintf(says, sizeof says, "%s: %s|only %s", wanted ? "no" : "yes", texts[wanted], texts[!wanted]);
        expect_refused(sg_config_status(c), says);
        sg_config_close(&c);
        c = config("{\"k\":1}");
        sg_config_only_bool(c, "k", wanted);
        expect_refused(sg_config_status(c), "k|true or false|is 1");
        sg_config_close(&c);
    }
}

static void one_of_two_words_is_taken(void **state)
{
    sg_config *c = config("{\"none\":null,\"s\":\"b\",\"k\":\"c\"}");
    assert_true(sg_config_either(c, "none", "a", "b", "a"));
    assert_false(sg_config_either(c, "absent", "a", "b", "b"));
    assert_false(sg_config_either(c, "s", "a", "b", "a"));
    assert_true(sg_config_either(c, "s", "b", "a", NULL));
    assert_int_equal(sg_config_status(c), SG_OK);
    assert_false(sg_config_either(c, "k", "a", "b", "b"));
    expect_refused(sg_config_status(c), "k: \"c\"|\"a\" and \"b\"");
    sg_config_close(&c);
    c = config("{}");
    assert_false(sg_config_either(c, "k", "a", "b", NULL));
    expect_refused(sg_config_status(c), "k: is missing");
    sg_config_close(&c);
}

typedef enum kind { INT, REAL, BOOL, STRING, INTS, REALS, BOOLS, STRING_AT } kind;

/* Reads k by that kind, with lo 1 and hi 100, lists of 2 to 3. */
static void read_kind(sg_config *c, kind k)
{
    int64_t is[3] = {0};
    double  rs[3] = {0};
    bool    bs[3] = {true, true, true};
    switch (k) {
    case INT: assert_int_equal(sg_config_int(c, "k", 1, 100, NULL), 1); break;
    case REAL: assert_true(sg_config_real(c, "k", 1, 100, NULL) == 1); break;
    case BOOL: assert_false(sg_config_bool(c, "k", NULL)); break;
    case STRING: assert_null(sg_config_string(c, "k", NULL)); break;
    case INTS:
        assert_int_equal(sg_config_ints(c, "k", 1, 100, is, 2, 3), 0);
        assert_true(is[0] == 1 && is[1] == 1 && is[2] == 1);
        break;
    case REALS:
        assert_int_equal(sg_config_reals(c, "k", 1, 100, rs, 2, 3), 0);
        assert_true(rs[0] == 1 && rs[1] == 1 && rs[2] == 1);
        break;
    case BOOLS:
        assert_int_equal(sg_config_bools(c, "k", bs, 2, 3), 0);
        assert_false(bs[0] || bs[1] || bs[2]);
        break;
    case STRING_AT: assert_null(sg_config_string_at(c, "k", 1)); break;
    }
}

static void wrong_values_are_named(void **state)
{
    static const struct {
        kind        kind;
        const char *value, *words;
    } bad[] = {
        {INT, "0", "k|100|is 0"},
        {INT, "101", "is 101"},
        {INT, "-9223372036854775808", "is -9223372036854775808"},
        {INT, "8.0", "is 8.0"},
        {INT, "1e1", "is 10.0"},
        {INT, "true", "is true"},
        {INT, "\"8\\n\"", "is \"8\\n\""},
        {INT, "[8]", "is a list"},
        {INT, "{}", "is an object"},
        {INT, "null", "k: is missing"},
        {REAL, "0.999", "k|100|is 0.999"},
        {REAL, "1e308", "is 1"},
        {REAL, "\"1\"", "is \"1\""},
        {REAL, "null", "k: is missing"},
        {BOOL, "1", "k|is 1"},
        {BOOL, "null", "k: is missing"},
        {STRING, "1", "k|is 1"},
        {STRING, "null", "k: is missing"},
        {INTS, "null", "k: is missing"},
        {INTS, "2", "k|3 entries|is 2"},
        {INTS, "[1]", "k|3 entries|has 1"},
        {INTS, "[1,2,3,4]", "has 4"},
        {INTS, "[1,2,0]", "k|entry 2|100|is 0"},
        {INTS, "[1.5,2]", "k|entry 0"},
        {REALS, "[1,\"\"]", "k|entry 1|100|is \"\""},
        {REALS, "[1,null]", "k|entry 1|100|is null"},
        {BOOLS, "[true,0]", "k|entry 1|is 0"},
        {STRING_AT, "\"ab\"", "k|is \"ab\""},
        {STRING_AT, "[\"a\",7]", "k|entry 1|is 7"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"k\":%s}", bad[i].value);
        sg_config *c = config(text);
        read_kind(c, bad[i].kind);
        expect_refused(sg_config_status(c), bad[i].words);
        sg_config_close(&c);
    }
}

static void first_failure_latches(void **state)
{
    sg_config *c = config("{\"a\":\"x\",\"b\":5,\"l\":[5,5]}");
    int64_t    is[2] = {0};
    assert_int_equal(sg_config_int(c, "a", 3, 9, NULL), 3);
    assert_int_equal(sg_config_int(c, "b", 3, 9, NULL), 3);
    assert_int_equal(sg_config_int(c, "b", 3, 9, &(int64_t){4}), 4);
    assert_int_equal(sg_config_ints(c, "l", 3, 9, is, 2, 2), 0);
    assert_int_equal(is[1], 3);
    assert_null(sg_config_string(c, "gone", NULL));
    assert_string_equal(sg_config_string(c, "a", "y"), "y");
    sg_config_fail(c, "b", "another");
    expect_refused(sg_config_status(c), "config.json|a|is \"x\"");
    sg_config_close(&c);
    c = config("{}");
    sg_config_fail(c, "b", "is \"%s\"", "\x1b[2J");
    expect_refused(sg_config_status(c), "config.json|b|is \"?[2J\"");
    sg_config_close(&c);
}

static void ranges_without_end_read_well(void **state)
{
    sg_config *c = config("{\"i\":0,\"r\":-1}");
    sg_config_int(c, "i", 1, INT64_MAX, NULL);
    expect_refused(sg_config_status(c), "i|is 0");
    sg_config_close(&c);
    c = config("{\"i\":0,\"r\":-1}");
    sg_config_real(c, "r", 0, INFINITY, NULL);
    expect_refused(sg_config_status(c), "r|is -1");
    sg_config_close(&c);
}

static void broken_files_are_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "empty"},
        {" ", "line 1|column 1|JSON"},
        {"[]", "JSON|object"},
        {"3", "not valid JSON"},
        {"{\"a\":1,\n \"a\":2}", "line 2|column 4|duplicate"},
        {"{\"a\":NaN}", "not valid JSON"},
        {"{\"a\":Infinity}", "not valid JSON"},
        {"{\"a\":1e999}", "real number overflow"},
        {"{\"a\":9223372036854775808}", "too big integer"},
        {"{\"a\":-9223372036854775809}", "negative integer"},
        {"{\"a\":1}x", "end of file"},
        {"{\"a\":1,}", "not valid JSON"},
        {"{'a':1}", "not valid JSON"},
        {"\xef\xbb\xbf{}", "not valid JSON"},
        {"{\"a\":\"\xff\"}", "unable|byte 0xff"},
        {"{\"a\":\"\\u0000\"}", "\\u0000|allowed"},
    };
    sg_config *c = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_refused(open_text(&c, bad[i].text, strlen(bad[i].text)), bad[i].words);
    assert_int_equal(open_text(&c, "{}\0", 3), SG_E_FORMAT);
    expect_refused(open_text(&c, "{\"a\":4\0}", 8), "zero byte");
    const size_t size = 17 << 20;
    char *const  deep = malloc(size);
    assert_non_null(deep);
    memset(deep, '[', size);
    expect_refused(open_text(&c, deep, 1 << 15), "depth");
    expect_refused(open_text(&c, deep, 1 << 20), "65536 values");
    expect_refused(open_text(&c, deep, size), "17825792 bytes|16777216");
    free(deep);
    assert_int_equal(sg_config_open(&c, ".", NULL), SG_E_FILE);
    assert_int_equal(sg_config_open(&c, "/nonexistent", NULL), SG_E_FILE);
}

/* Numbers do not become text on their way, so that no locale and no number of digits matters. */
static void fields_are_put_as_they_are(void **state)
{
    const int64_t whole[] = {1, INT64_MAX, -3};
    const double  ratio[] = {22 / 7.0, 1e-5};
    sg_config    *c = config("{\"other\": {\"kept\": 1, \"replaced\": \"x\"}}"), *made = NULL;
    int64_t       number[3];
    double        real[2];
    const char   *text[2];
    bool          yes[1];
    sg_config_set(c, "made", SG_NUMBERS("numbers", whole, 3), SG_REALS("reals", ratio, 2), SG_REAL("ratio", 22 / 7.0),
                  SG_TEXTS("texts", ((const char *const[]){"", "\"quoted\""}), 2), SG_BOOL("yes", true),
                  SG_BOOLS("flags", ((const bool[]){true}), 1), SG_NUMBERS("none", whole, 0), SG_NUMBER(NULL, 5));
    sg_config_set(c, "other", SG_NUMBER("replaced", 2));
    assert_int_equal(sg_config_status(c), SG_OK);
    assert_int_equal(sg_config_member(&made, c, "made", path, &e), SG_OK);
    assert_int_equal(sg_config_ints(made, "numbers", INT64_MIN, INT64_MAX, number, 3, 3), 3);
    assert_memory_equal(number, whole, sizeof whole);
    assert_int_equal(sg_config_reals(made, "reals", 0, 4, real, 2, 2), 2);
    assert_memory_equal(real, ratio, sizeof ratio);
    assert_true(sg_config_real(made, "ratio", 0, 4, NULL) == 22 / 7.0);
    assert_int_equal(sg_config_strings(made, "texts", text, 2, 2), 2);
    assert_string_equal(text[1], "\"quoted\"");
    assert_true(sg_config_bool(made, "yes", NULL));
    assert_int_equal(sg_config_bools(made, "flags", yes, 1, 1), 1);
    assert_int_equal(sg_config_ints(made, "none", 0, 1, number, 0, 3), 0);
    assert_true(sg_config_has(made, "none"));
    assert_int_equal(sg_config_status(made), SG_OK);
    sg_config_close(&made);
    assert_int_equal(sg_config_member(&made, c, "other", path, &e), SG_OK);
    assert_int_equal(sg_config_int(made, "kept", 0, 9, NULL), 1);
    assert_int_equal(sg_config_int(made, "replaced", 0, 9, NULL), 2);
    sg_config_close(&made);
    sg_config_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_config_is_read),         cmocka_unit_test(defaults_stand_in),
        cmocka_unit_test(only_one_value_is_taken),      cmocka_unit_test(one_of_two_words_is_taken),
        cmocka_unit_test(wrong_values_are_named),       cmocka_unit_test(first_failure_latches),
        cmocka_unit_test(ranges_without_end_read_well), cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(fields_are_put_as_they_are),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
