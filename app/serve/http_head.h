/* http_head.h - judges the head of a request and takes its body, until a handler can have it. All is called in MHD's
 * thread, without the lock. */
#ifndef SG_HTTP_HEAD_H
#define SG_HTTP_HEAD_H

#include "http_connection.h"

/* The head is there. Answers what is refused. False: the answer goes now and the connection ends; else the body comes
 * first, perhaps to be dropped. */
bool sg_http_head(sg_http_exchange *x, const char *method, const char *version);

/* Bytes of the body came, `got` in all. False: it has no end, and the connection is to be dropped. */
bool sg_http_body(sg_http_exchange *x, const char *data, size_t bytes, uint64_t got);

/* The body is whole. Answers what is refused. */
void sg_http_body_end(sg_http_exchange *x);

#endif
