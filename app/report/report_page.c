/* report_page.c - see report_page.h. */
#include "report_page.h"
#include "json_input.h"

#include <stdlib.h>
#include <string.h>

static const char PLACE[] = "@REPORT@";
static const char LESS[] = "\\u003c"; /* "<" stands in JSON only inside of strings */

static char *copy_escaped(char *to, const char *json)
{
    for (; *json; json++) {
        if (*json != '<')
            *to++ = *json;
        else
            to = stpcpy(to, LESS);
    }
    return to;
}

sg_status sg_report_page_text(char **out, const char *page, const json_t *report, sg_error *e)
{
    const char *const place = strstr(page, PLACE), *const rest = place + strlen(PLACE);
    char *const json = sg_json_text(report, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
    size_t      bytes = strlen(page) + 1;
    for (const char *p = json; p && *p; p++) bytes += *p == '<' ? strlen(LESS) : 1;
    char *const text = json ? malloc(bytes) : NULL;
    if (text) strcpy(copy_escaped(mempcpy(text, page, (size_t)(place - page)), json), rest);
    free(json);
    *out = text;
    return text ? SG_OK : sg_error_memory(e, "report.html");
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
