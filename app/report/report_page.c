/* report_page.c - see report_page.h. */
#include "report_page.h"
#include "base/json_input.h"
#include "base/text.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

static const char PLACE[] = "@REPORT@";

sg_status sg_report_page_text(char **out, const char *page, const json_t *report, sg_error *e)
{
    const char *const place = strstr(page, PLACE);
    char *const       json = sg_json_text(report, JSON_COMPACT | JSON_ENSURE_ASCII | SG_REPORT_DIGITS);
    sg_textbuf        b = {.failed = !json};
    sg_textbuf_put(&b, page, (size_t)(place - page));
    for (const char *p = json; p && *p;) { /* "<" stands in JSON only inside of strings */
        const size_t n = strcspn(p, "<");
        sg_textbuf_put(&b, p, n);
        if (p[n]) sg_textbuf_printf(&b, "\\u003c");
        p += n + !!p[n];
    }
    sg_textbuf_printf(&b, "%s", place + strlen(PLACE));
    free(json);
    if (b.failed) sg_textbuf_free(&b);
    *out = b.data;
    return *out ? SG_OK : sg_error_memory(e, "report.html");
}

sg_status sg_report_page_open(sg_output_file **out, const char *path, const char *page, const json_t *report,
                              sg_error *e)
{
    char *text;
    *out = NULL;
    SG_TRY(sg_report_page_text(&text, page, report, e));
    sg_status status = sg_output_file_open(out, path, e);
    if (status == SG_OK) status = sg_output_file_write(*out, text, strlen(text), e);
    if (status == SG_OK) status = sg_output_file_complete(*out, e);
    if (status != SG_OK) sg_output_file_discard(out);
    free(text);
    return status;
}
