/* serve_page.c - see serve_page.h. */
#include "serve_page.h"

#include <string.h>

/* The browser runs and loads only what this server sends; blob: and data: are pictures that the page has made. */
static const char POLICY[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
                             "media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
                             "frame-ancestors 'none'";

static void answer(sg_http_request *r, const char *type, const char *text)
{
    sg_http_header(r, "Content-Security-Policy", POLICY);
    sg_http_header(r, "Cache-Control", "no-cache");
    sg_http_answer(r, 200, type, strdup(text), strlen(text));
}

void sg_serve_page(sg_http_request *r) { answer(r, "text/html; charset=utf-8", sg_serve_page_html); }

void sg_serve_page_script(sg_http_request *r) { answer(r, "text/javascript; charset=utf-8", sg_serve_page_js); }

void sg_serve_page_style(sg_http_request *r) { answer(r, "text/css; charset=utf-8", sg_serve_page_css); }
