/* test_answer_score.c - scores of answers against the published formulas, and what no formula covers. */
#include "answer_score.h"
#include "options.h"
#include "unit.h"

#include "answer_table.h"

enum { CASES = sizeof answer_cases / sizeof *answer_cases };

static int count_of(const char *const *list)
{
    int n = 0;
    while (list[n]) n++;
    return n;
}

static sg_answer_figures figures_of(sg_answer_metric metric, const char *answer, const char *const *expected,
                                    const char *const *choices)
{
    sg_answer_figures f;
    sg_error          e = {0};
    assert_done(sg_answer_score(&f, metric, answer, expected, count_of(expected), choices, count_of(choices), &e), &e);
    return f;
}

static double score_of(sg_answer_metric metric, const char *answer, const char *expected)
{
    return figures_of(metric, answer, (const char *const[]){expected, NULL}, (const char *const[]){NULL}).score;
}

/* Sums and quotients of small integers in double precision, and at most five operations. */
static void matches_the_published_formulas(void **state)
{
    for (int i = 0; i < CASES; i++) {
        const answer_case *const c = &answer_cases[i];
        const double             score = figures_of(c->metric, c->answer, c->expected, c->choices).score;
        if (!(fabs(score - c->score) <= 1e-15))
            fail_msg("case %d, %s: %.17g for %.17g", i, sg_answer_metric_names[c->metric], score, c->score);
    }
}

/* 11 of 12 words, since "a" stands twice in the published needle's answer. */
static void a_perfect_needle(void **state)
{
    static const char expected[] = "eat a sandwich and sit in Dolores Park on a sunny day.";
    assert_true(score_of(SG_ANSWER_OVERLAP, expected, expected) == 11.0 / 12);
    assert_true(score_of(SG_ANSWER_OVERLAP, "a b and IN on", expected) == 4.0 / 12);
}

/* By hand: "b a" and "a b" share one word, of two equal ways the last word of the expected answer's; "c" is shared by the second
 * sentences. A blank sentence has the empty word. */
static void subsequences_of_sentences(void **state)
{
    assert_true(fabs(score_of(SG_ANSWER_ROUGE_L, "b a. c d e.", "a b. c x") - 2 * .4 * .5 / (.4 + .5 + 1e-8)) < 1e-15);
    assert_true(fabs(score_of(SG_ANSWER_ROUGE_L, "a.\n", "a") - 2 * .5 / (1.5 + 1e-8)) < 1e-15);
    assert_true(score_of(SG_ANSWER_ROUGE_L, "A", "a") == 0);
}

static void exact_is_byte_by_byte(void **state)
{
    static const char *const expected[] = {"Dolores Park", "42", NULL}, *const none[] = {NULL};
    assert_true(figures_of(SG_ANSWER_F1, "in Dolores Park.", expected, none).exact);
    assert_true(figures_of(SG_ANSWER_MATCH, "it is 42", expected, none).exact);
    assert_false(figures_of(SG_ANSWER_MATCH, "in dolores park", expected, none).exact);
    assert_true(figures_of(SG_ANSWER_MATCH, "in dolores park", expected, none).score == .5);
}

/* Nothing, bytes that are no UTF-8, and a character that is cut. */
static void any_bytes(void **state)
{
    static const char *const texts[] = {"",  " ",      ".", "\xff", "a\xc3", "\xe6\x97", "\xc0\x80. \xf4\x90\x80\x80",
                                        "A", "answer:"};
    enum { TEXTS = sizeof texts / sizeof *texts };
    for (int m = 0; m < SG_ANSWER_METRICS; m++) {
        assert_true(
            figures_of((sg_answer_metric)m, "x", (const char *const[]){NULL}, (const char *const[]){NULL}).score == 0);
        for (int i = 0; i < TEXTS * TEXTS; i++) {
            const double score = score_of((sg_answer_metric)m, texts[i % TEXTS], texts[i / TEXTS]);
            assert_true(score >= 0 && score <= 1);
        }
    }
    assert_true(score_of(SG_ANSWER_OVERLAP, "\xff \xE6\x97 B", "\xff \xe6\x97 b c") == .75);
}

/* As many words as are allowed, all different or all equal; and one more. */
static void many_words(void **state)
{
    static char       distinct[(SG_ANSWER_WORDS + 1) * 6 + 1], equal[(SG_ANSWER_WORDS + 1) * 2 + 1];
    sg_answer_figures f;
    sg_error          e = {0};
    for (int i = 0; i < SG_ANSWER_WORDS; i++) snprintf(distinct + 6 * i, 7, "x%04d ", i);
    for (int i = 0; i < SG_ANSWER_WORDS; i++) memcpy(equal + 2 * i, "y ", 3);
    assert_true(fabs(score_of(SG_ANSWER_ROUGE_L, distinct, distinct) - 1) < 1e-8);
    assert_true(score_of(SG_ANSWER_F1, equal, equal) == 1);
    assert_true(score_of(SG_ANSWER_F1, equal, distinct) == 0);
    strcat(equal, "y");
    const char *const expected[] = {"y"}, *const many[] = {equal};
    assert_refused(sg_answer_score(&f, SG_ANSWER_F1, equal, expected, 1, NULL, 0, &e), SG_E_UNSUPPORTED, &e, "4096");
    assert_refused(sg_answer_score(&f, SG_ANSWER_OVERLAP, "y", many, 1, NULL, 0, &e), SG_E_UNSUPPORTED, &e, "4096",
                   "expected");
    assert_true(score_of(SG_ANSWER_MATCH, equal, "y Y") == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(matches_the_published_formulas),
                                       cmocka_unit_test(a_perfect_needle),
                                       cmocka_unit_test(subsequences_of_sentences),
                                       cmocka_unit_test(exact_is_byte_by_byte),
                                       cmocka_unit_test(any_bytes),
                                       cmocka_unit_test(many_words)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
