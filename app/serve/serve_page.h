/* serve_page.h - the page for people, with the script and the style that it loads: bytes in the program, which name nothing
 * outside of it. The page says nothing that needs the key; it asks for it. */
#ifndef SG_SERVE_PAGE_H
#define SG_SERVE_PAGE_H

#include "http_server.h"

/* Of "/", "/page.js" and "/page.css". */
sg_http_handler sg_serve_page, sg_serve_page_script, sg_serve_page_style;

/* The build takes these from page.html, and from page.js and page.css behind what they have in common with the reports. */
extern const char sg_serve_page_html[], sg_serve_page_js[], sg_serve_page_css[];

#endif
