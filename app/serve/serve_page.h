/* serve_page.h - the page for people, with its script and its style, as bytes in the program. They load nothing from
 * elsewhere. They need no key, and hold nothing secret: the page asks for the key. */
#ifndef SG_SERVE_PAGE_H
#define SG_SERVE_PAGE_H

#include "http_server.h"

/* The handlers of "/", "/page.js" and "/page.css". */
sg_http_handler sg_serve_page, sg_serve_page_script, sg_serve_page_style;

/* The build makes these of page.html, and of page.js and page.css, each after its part that reports have, too. */
extern const char sg_serve_page_html[], sg_serve_page_js[], sg_serve_page_css[];

#endif
