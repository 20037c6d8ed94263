/* test_report_page.c - the JSON in a page: nothing in it ends its element, and all of it comes back. */
#include "report_page.h"
#include "unit.h"

static const char BEGIN[] = "<script type=\"application/json\" id=\"report\">", END[] = "</script>";

static const char *const hostile[] = {
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "]]>",
    "a\xE2\x80\xA8line\xE2\x80\xA9s",
    "\"&'\\\n\r\t\x01\x7F",
    "@REPORT@",
    "\xF0\x9F\x8E\x88 \xE7\xBA\xA2",
    "",
    "<",
    "\\u003c",
};
enum { COUNT = sizeof hostile / sizeof *hostile };

/* The page with the report, whose JSON is returned, as text; the caller frees both. */
static char *json_in_page(char **page, const char *template, const json_t *report)
{
    sg_error e = {0};
    assert_int_equal(sg_report_page_text(page, template, report, &e), SG_OK);
    const char *const from = strstr(*page, BEGIN);
    assert_non_null(from);
    const char *const to = strstr(from, END);
    assert_non_null(to);
    return strndup(from + strlen(BEGIN), (size_t)(to - from) - strlen(BEGIN));
}

static void test_hostile_text(void **state)
{
    json_t *const report = json_object(), *const list = json_array();
    for (int i = 0; i < COUNT; i++) {
        json_array_append_new(list, json_string(hostile[i]));
        json_object_set_new(report, hostile[i], json_real(0.5 * i));
    }
    json_object_set_new(report, "list", list);
    char       *page;
    char *const json = json_in_page(&page, sg_report_arms_page, report);
    json_t     *back = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_equal(back, report));
    for (const char *p = json; *p; p++) assert_true(*p != '<' && *p >= ' ' && (unsigned char)*p < 0x80);
    json_decref(back);
    json_decref(report);
    free(json);
    free(page);
}

/* All of a template is there, before and after, and nothing of it is away from this folder. */
static void check_template(const char *template)
{
    json_t *const report = json_object();
    char         *page;
    char *const   json = json_in_page(&page, template, report);
    const char   *place = strstr(template, "@REPORT@");
    assert_string_equal(json, "{}");
    assert_non_null(place);
    assert_null(strstr(place + 1, "@REPORT@"));
    const size_t head = (size_t)(place - template);
    assert_memory_equal(page, template, head);
    assert_string_equal(page + head + 2, place + strlen("@REPORT@"));
    assert_string_equal(page + strlen(page) - strlen("</script>\n"), "</script>\n");
    for (const char *p = page; (p = strstr(p, "://")); p++) /* a name of XML, which nobody fetches */
        assert_memory_equal(p, "://www.w3.org/2000/svg'", strlen("://www.w3.org/2000/svg'"));
    assert_null(strstr(page, "innerHTML"));
    assert_memory_equal(page, "<!doctype html>\n", strlen("<!doctype html>\n"));
    assert_null(strstr(page, "@HEAD@"));
    assert_null(strstr(page, "@STYLE@"));
    assert_null(strstr(page, "@SCRIPT@"));
    json_decref(report);
    free(json);
    free(page);
}

static void test_templates(void **state)
{
    check_template(sg_report_arms_page);
    check_template(sg_report_eval_page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hostile_text), cmocka_unit_test(test_templates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
