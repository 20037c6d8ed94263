/* report_page.h - a report as a page for a browser: a template of ours, with the report's JSON where it says @REPORT@.
 * */
#ifndef SG_REPORT_PAGE_H
#define SG_REPORT_PAGE_H

#include "base/output_file.h"

#include <jansson.h>

/* The build takes these templates from the .html of the same name. */
extern const char sg_report_arms_page[], sg_report_eval_page[], sg_report_language_page[];

/* Makes the page. The JSON is one line of ASCII and has no "<", so that nothing in it ends its element or becomes HTML.
 * *out is the caller's to free. SG_E_MEMORY. */
sg_status sg_report_page_text(char **out, const char *page, const json_t *report, sg_error *e) SG_MUST_USE;

/* Writes it into a file that is whole, but has no name yet: the caller publishes or discards. */
sg_status sg_report_page_open(sg_output_file **out, const char *path, const char *page, const json_t *report,
                              sg_error *e) SG_MUST_USE;

#endif
