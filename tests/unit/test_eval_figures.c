/* test_eval_figures.c - the table of the figures of a clip: a row is all that a figure needs. */
#include "eval_summary.h"
#include "unit.h"

/* Reads a line with this figure; c is to be freed. */
static sg_status read_with(sg_eval_clip *c, const sg_eval_figure *f, double v, sg_error *e)
{
    char              key[32];
    const char *const dot = strchr(f->key, '.');
    json_t           *value = f->flags & SG_EVAL_WHOLE ? json_integer((json_int_t)v) : json_real(v);
    snprintf(key, sizeof key, "%.*s", dot ? (int)(dot - f->key) : 31, f->key);
    if (f->flags & SG_EVAL_SCORE) value = json_pack("{s:o}", "p5", value);
    if (dot) value = json_pack("{s:o}", dot + 1, value);
    json_t *const line = json_pack("{s:i, s:s, s:i, s:i, s:i, s:s, s:s, s:o}", "version", 2, "arm", "x", "arm_index", 0,
                                   "prompt", 0, "clip", 0, "text", "t", "status", "failed", key, value);
    char *const   text = json_dumps(line, 0);
    assert_non_null(text);
    const sg_status status = sg_eval_line_read(c, text, strlen(text), "f", 1, e);
    json_decref(line);
    free(text);
    return status;
}

/* By the row a line is read, or refused, and the summary has its columns. */
static void test_every_figure(void **state)
{
    sg_eval_results none = {0};
    sg_eval_summary s;
    sg_error        e = {0};
    assert_int_equal(sg_eval_summary_make(&s, &none, 1, &e), SG_OK);
    for (const sg_eval_figure *f = sg_eval_figures; f->key; f++) {
        sg_eval_clip c;
        if (f->kinds >= SG_EVAL_MEAN) assert_true(isnan(sg_eval_summary_find(&s, 0, 0, f->key)->mean));
        if (f->flags & (SG_EVAL_SCORE | SG_EVAL_JUDGED)) assert_true(f->name && f->unit && f->digits > 0);
        if (f->flags & SG_EVAL_MADE) continue;
        assert_done(read_with(&c, f, f->hi, &e), &e);
        assert_true(sg_eval_values(f, &c)[f->flags & SG_EVAL_SCORE ? 2 : 0] == f->hi);
        sg_eval_clip_free(&c);
        assert_refused(read_with(&c, f, f->hi + 1, &e), SG_E_FORMAT, &e, f->key);
        sg_eval_clip_free(&c);
    }
    sg_eval_summary_close(&s);
}

/* Lines of version 1, which are those of 0.1.0, have other names for some. */
static void test_figures_of_version_1(void **state)
{
    static const char line[] =
        "{\"version\":1,\"arm\":\"x\",\"arm_index\":0,\"prompt\":0,\"clip\":0,\"text\":\"t\",\"status\":\"done\","
        "\"file\":\"a\","
        "\"seconds\":{\"whole\":11,\"text\":1,\"encoder\":2,\"denoiser\":5,\"decoder\":3},\"kept\":0.25}";
    sg_eval_clip c;
    sg_error     e = {0};
    assert_int_equal(sg_eval_line_read(&c, line, sizeof line - 1, "f", 1, &e), SG_OK);
    assert_true(c.seconds.total == 11 && c.seconds.encode == 2 && c.seconds.denoise == 5 && c.seconds.decode == 3);
    assert_true(c.seconds.own == 8 && c.density == 0.25);
    sg_eval_clip_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_figure),
                                       cmocka_unit_test(test_figures_of_version_1)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
