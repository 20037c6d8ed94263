/* http_request.h - a request as its handler sees it, and the functions that answer it. */
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
    /* Of a JSON request, at most SG_HTTP_LIMITS.json bytes and a NUL; "" where there is none. */
    const char   *body;
    size_t        body_size;
    sg_http_form *form; /* of a form, else NULL */
} sg_http_request;

/* A handler runs in the thread of the server and must not block: it answers once, by a function below, before it
 * returns, or it keeps the request. The request lives until it is answered. */
typedef void sg_http_handler(sg_http_request *r);

/* The handler will return without an answer. Any thread then answers, once, even if the client has left. */
void sg_http_keep(sg_http_request *r);

/* Tells whether the client of a kept request has left, or the server has answered it, as when it stops. */
bool sg_http_gone(sg_http_request *r);

/* Returns the Host header, which is one that is allowed. */
const char *sg_http_host(sg_http_request *r);

/* Returns the scheme of the client's URL: "https" where X-Forwarded-Proto of a proxy says so, else "http". */
const char *sg_http_scheme(sg_http_request *r);

enum { SG_HTTP_OWN_HEADERS = 8 };

/* Adds a header to the answer that follows, in place of the usual one of that name; at most SG_HTTP_OWN_HEADERS. */
void sg_http_header(sg_http_request *r, const char *name, const char *value);

/* Answers with bytes, which are malloc'd and become the server's. NULL is for no bytes; with some it is out of memory,
 * and answers with 500. */
void sg_http_answer(sg_http_request *r, int status, const char *type, char *data, size_t bytes);

/* Answers with JSON. The reference becomes the server's. NULL answers with 500: out of memory. */
void sg_http_answer_json(sg_http_request *r, int status, json_t *json);

/* Answers {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}; param, which may be NULL, is the
 * member that is wrong. */
void sg_http_answer_error(sg_http_request *r, int status, const char *param, const char *fmt, ...) SG_PRINTF(4, 5);

/* Answers with a regular file, or the part of it that Range asks for; 404 where it is not there. */
void sg_http_answer_file(sg_http_request *r, const char *type, const char *path);

/* ---- streams of events ---- */

typedef struct sg_http_stream sg_http_stream;

/* A source is asked for events when the client can take more. `more` sends those there are, if any, or ends the stream.
 * `gone` is called once the client has left or has everything, and ends the stream if `more` has not. The server's
 * thread calls both, without a lock. */
typedef struct sg_http_source {
    void (*more)(void *context);
    void (*gone)(void *context);
    void *context;
} sg_http_source;

/* Answers with a stream of server-sent events. The caller ends it. Where source is NULL, any thread may send events and
 * end the stream. Returns NULL, having answered otherwise, where there are too many streams or the client has left; the
 * source is not called then. */
sg_http_stream *sg_http_answer_stream(sg_http_request *r, const sg_http_source *source);

/* Tells that the source may have more events. Any thread. */
void sg_http_stream_wake(sg_http_stream *s);

/* Sends an event: its name, which may be NULL, and a `data:` line for each line of data. Returns false, upon which the
 * caller ends the stream, once the client has left or more than SG_HTTP_LIMITS.stream bytes wait for it. */
bool sg_http_stream_event(sg_http_stream *s, const char *name, const char *data);

/* Ends a stream; the client still gets what was sent. *s becomes NULL. */
void sg_http_stream_end(sg_http_stream **s);

#endif
