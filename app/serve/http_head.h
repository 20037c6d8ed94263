/* http_head.h - checks the head of a request and collects its body, up to the call of its handler. MHD's thread calls
 * these, without the lock. */
#ifndef SG_HTTP_HEAD_H
#define SG_HTTP_HEAD_H

#include "http_connection.h"

/* The head is complete. Answers a request that is refused. False: that answer is sent at once, and the connection ends.
 * True: the body is read first, even if only to be dropped. */
bool sg_http_head(sg_http_exchange *x, const char *method, const char *version);

/* Bytes of the body, of which `got` have come by now. False: there are too many, and the connection is to be closed. */
bool sg_http_body(sg_http_exchange *x, const char *data, size_t bytes, uint64_t got);

/* The body is complete. Answers a request that is refused. */
void sg_http_body_end(sg_http_exchange *x);

#endif
