/* http_request.h - a request as its handler has it, and what answers it. All that a client is told goes through
 * here. */
#ifndef SG_HTTP_REQUEST_H
#define SG_HTTP_REQUEST_H

#include "http_form.h"
#include "http_parse.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct sg_http_request {
    void          *context; /* of the server's owner */
    const char    *method;  /* "GET" for HEAD, too */
    const char    *id;      /* what stands for {id} in the path, or "" */
    sg_http_target target;
    const char
          *body; /* of a JSON request, whole and of at most SG_HTTP_LIMITS.json bytes, a NUL behind it; "" without */
    size_t body_size;
    sg_http_form *form; /* of a form, else NULL */
} sg_http_request;

/* A handler runs in the thread of the server and does not wait: it answers once, by a function below, before it
 * returns, or it keeps the request. What it is given lasts until it has answered. */
typedef void sg_http_handler(sg_http_request *r);

/* The handler will return without an answer. Any thread then answers, once, whatever became of the client. */
void sg_http_keep(sg_http_request *r);

/* Tells whether nobody waits for the answer of a kept request any more. */
bool sg_http_gone(sg_http_request *r);

/* Returns the Host that the client asked, which is allowed. */
const char *sg_http_host(sg_http_request *r);

/* Returns "https" where a proxy says so, else "http": how the client asked. */
const char *sg_http_scheme(sg_http_request *r);

/* Adds a header to the answer that follows: at most 8 of them. It takes the place of the usual one of that name. */
void sg_http_header(sg_http_request *r, const char *name, const char *value);

/* Answers with bytes, which are malloc'd, and become the server's. NULL: out of memory, which is answered. */
void sg_http_answer(sg_http_request *r, int status, const char *type, char *data, size_t bytes);

/* Answers with JSON. The reference becomes the server's; NULL: out of memory. */
void sg_http_answer_json(sg_http_request *r, int status, json_t *json);

/* Answers {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}; param, which may be NULL, is the
 * member that is wrong. */
void sg_http_answer_error(sg_http_request *r, int status, const char *param, const char *fmt, ...) SG_PRINTF(4, 5);

/* Answers with a regular file or the part of it that is asked for; 404 where it is not there. */
void sg_http_answer_file(sg_http_request *r, const char *type, const char *path);

/* ---- streams of events ---- */

typedef struct sg_http_stream sg_http_stream;

/* Where events come from when the client can take more: `more` sends those there are, or none, or ends the stream. `gone`
 * tells that the client has left or has all; it ends the stream, too, if `more` did not. Both are called in the server's
 * thread, without a lock, never at once. */
typedef struct sg_http_source {
    void (*more)(void *context);
    void (*gone)(void *context);
    void *context;
} sg_http_source;

/* Answers with a stream of server-sent events. The caller ends it: from any thread where source is NULL, and he sends
 * events of his own accord. Returns NULL, and has answered, where there are too many streams, or nobody waits for it:
 * no source is asked then. */
sg_http_stream *sg_http_answer_stream(sg_http_request *r, const sg_http_source *source);

/* There may be more now: the source is asked again. Any thread. */
void sg_http_stream_wake(sg_http_stream *s);

/* Sends an event: its name, which may be NULL, and data, of which each line becomes one. Returns false once the
 * client has gone, or was too slow: events wait for it, and with this one are more than SG_HTTP_LIMITS.stream bytes.
 * End it then. */
bool sg_http_stream_event(sg_http_stream *s, const char *name, const char *data);

/* What was sent still reaches the client. *s becomes NULL. */
void sg_http_stream_end(sg_http_stream **s);

#endif
