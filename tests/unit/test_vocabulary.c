/* test_vocabulary.c - which words of a prompt a model's vocabulary lacks. What is malformed is in cli/hostile_cases.h. */
#include "unit.h"
#include "vocabulary.h"

static sg_error      e;
static sg_vocabulary v;
static sg_config    *own;

static int open_text(const char *text)
{
    write_text("own.json", text);
    const sg_status status = sg_config_open(&own, "own.json", &e);
    return (int)(status == SG_OK ? sg_vocabulary_read(&v, own, &e) : status);
}

static int open_sound(void **state)
{
    return open_text(
        "{\"world\": \"draws balls\", \"vocabulary\": [\"red\", \"Ball\", \"a\", \"don't\", \"stra\\u00dfe\", "
        "\"caf\\u00e9\", \"red\"]}");
}

static int open_empty(void **state) { return open_text("{}"); }

static int close_it(void **state)
{
    sg_vocabulary_free(&v);
    sg_config_close(&own);
    return 0;
}

static void expect(const char *text, int count, const char *list)
{
    char got[200] = "untouched";
    assert_int_equal(sg_vocabulary_unknown(&v, text, got, sizeof got), count);
    assert_string_equal(got, list);
}

static void known_words_are_compared_folded(void **state)
{
    static const char *const list[] = {"red", "ball", "a", "don't", "strasse", "caf\xc3\xa9"}; /* in the file's order */
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) assert_string_equal(v.list[i], list[i]);
    assert_null(v.list[sizeof list / sizeof *list]);
    assert_string_equal(v.world, "draws balls");
    expect("", 0, "");
    expect(" ,.!? - \xe2\x80\xa6", 0, "");
    expect("A RED ball, (red) \"Ball\"; ball's", 0, "");
    expect("the ball\xe2\x80\x99s", 1, "'the'"); /* a typographer's apostrophe */
    expect("don't Don\xe2\x80\x99t 'a'", 0, "");
    expect("STRASSE stra\xc3\x9f"
           "e",
           0, "");
    expect("cafe\xcc\x81 \xef\xbd\x92\xef\xbd\x85\xef\xbd\x84", 0, ""); /* e with a mark of its own; wide letters */
}

static void unknown_words_are_listed_once(void **state)
{
    expect("a red Cat", 1, "'cat'");
    expect("cat dog cat", 2, "'cat' and 'dog'");
    expect("cat dog hat", 3, "'cat', 'dog' and 'hat'");
    expect("cat dog hat cat mat", 4, "'cat', 'dog', 'hat' and 1 other word");
    expect("zoo cat dog-hat zoo mat pat", 6, "'zoo', 'cat', 'dog' and 3 other words");
    expect("7 balls", 2, "'7' and 'balls' (ball?)"); /* no grammar is known but the model's own */
    expect("\xe7\x8c\xab", 1, "'\xe7\x8c\xab'");
    expect("ball''s", 1, "'s'");
}

static void a_near_word_is_named(void **state)
{
    expect("bal rde", 2, "'bal' and 'rde'"); /* as near to others as to what was meant */
    expect("blal", 1, "'blal' (ball?)");
    expect("call", 1, "'call'");
    expect("bawls", 1, "'bawls'");
    expect("strases", 1, "'strases' (strasse?)");
    expect("cafes caves", 2, "'cafes' and 'caves'"); /* an accent is two bytes */
}

/* A prompt may be anything that is UTF-8. */
static void long_and_odd_text_is_bounded(void **state)
{
    char  list[40];
    char *text = malloc(200001);
    assert_non_null(text);
    memset(text, 'x', 200000);
    text[200000] = '\0';
    assert_int_equal(sg_vocabulary_unknown(&v, text, list, sizeof list), 1);
    assert_true(strlen(list) < sizeof list && strncmp(list, "'xxx", 4) == 0);
    for (int i = 0; i < 200000; i += 4) memcpy(text + i, i % 8 ? "cat " : "dog ", 4);
    assert_int_equal(sg_vocabulary_unknown(&v, text, list, sizeof list), 2);
    assert_string_equal(list, "'dog' and 'cat'");
    free(text);
}

static void without_a_vocabulary_every_word_is_fine(void **state)
{
    assert_true(!v.world && !v.list);
    expect("a cat", 0, "");
}

/* So many different words. */
static int open_words(int count)
{
    const size_t buffer = 20 * (size_t)count + 64;
    char *const  text = malloc(buffer);
    size_t       n = 0;
    if (!text) return -1;
    n += (size_t)sprintf(text, "{\"vocabulary\": [\"a\"");
    for (int i = 1; i < count; i++) n += (size_t)snprintf(text + n, buffer - n, ", \"w%d\"", i);
    snprintf(text + n, buffer - n, "]}");
    const int status = open_text(text);
    free(text);
    return status;
}

static void many_words_are_bounded(void **state)
{
    assert_int_equal(open_words(10000), SG_OK);
    expect("a w9999 w10000", 1, "'w10000' (w1000?)");
    close_it(state);
    assert_refused((sg_status)open_words(10001), SG_E_FORMAT, &e, "vocabulary", "10000", "10001");
    close_it(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(known_words_are_compared_folded, open_sound, close_it),
        cmocka_unit_test_setup_teardown(a_near_word_is_named, open_sound, close_it),
        cmocka_unit_test_setup_teardown(unknown_words_are_listed_once, open_sound, close_it),
        cmocka_unit_test_setup_teardown(long_and_odd_text_is_bounded, open_sound, close_it),
        cmocka_unit_test_setup_teardown(without_a_vocabulary_every_word_is_fine, open_empty, close_it),
        cmocka_unit_test(many_words_are_bounded),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
