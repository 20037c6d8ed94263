/* http_server.h - a small web server on libmicrohttpd, which reads requests whole, in limits and deadlines, checks who
 * asks, and gives them to handlers. It knows nothing of what they do.
 *
 *   Host, Origin       as sg_http_names has it; else 403. A request that a browser marks as cross-site needs an Origin
 *                      that may
 *   key                "Authorization: Bearer KEY", or the cookie that POST /login {"key": KEY} gives; else 401
 *   errors             JSON of one shape: http_request.h. What is no HTTP, or has a head of twice the limit, is
 *                      answered by libmicrohttpd, in HTML
 *   HEAD, OPTIONS      by the routes of GET, and by the server
 *   one thread         has the sockets and runs the handlers; another ends what is late */
#ifndef SG_HTTP_SERVER_H
#define SG_HTTP_SERVER_H

#include "http_request.h"

#include <spargegen/spargegen.h>

typedef enum sg_http_route_flag {
    SG_HTTP_JSON = 1,  /* takes application/json */
    SG_HTTP_FORM = 2,  /* takes multipart/form-data */
    SG_HTTP_PUBLIC = 4 /* needs no key */
} sg_http_route_flag;

typedef struct sg_http_route {
    const char      *method;  /* "GET", "POST", "DELETE", "PUT", "PATCH" */
    const char      *pattern; /* sg_http_path_fits */
    sg_http_handler *handler;
    int              flags;
} sg_http_route;

/* Bytes and seconds. A rate is the bytes a second by which a larger body has more time. */
typedef struct sg_http_limits {
    int    connections;
    int    address_connections; /* of one address, which may be a proxy's; loopback has no such limit */
    int    streams;
    size_t head, json;
    size_t upload;       /* the files of one request */
    size_t memory, disk; /* requests with bodies, all at once: heads, JSON and fields; files */
    size_t answers;      /* in memory at once; while there are as many, only small ones are let in */
    size_t stream;       /* what waits for a slow reader of a stream */
    double head_time;    /* from the connection, or the last answer, to the end of the head */
    double body_time, answer_time, rate;
    double hurry;        /* the share of these three times that is left while all connections are taken */
    double stream_time;  /* in which a reader of a stream takes something */
    double stream_pause; /* after which a silent stream sends a comment, so that nothing between takes it for dead */
    double stop_time;    /* for answers under way when the server stops */
} sg_http_limits;

#define SG_HTTP_LIMITS                                                                                                 \
    ((sg_http_limits){.connections = 256,                                                                              \
                      .address_connections = 128,                                                                      \
                      .streams = 64,                                                                                   \
                      .head = 32 << 10,                                                                                \
                      .json = 1 << 20,                                                                                 \
                      .upload = 64 << 20,                                                                              \
                      .memory = 64 << 20,                                                                              \
                      .disk = 512 << 20,                                                                               \
                      .answers = 256 << 20,                                                                            \
                      .stream = 2 << 20,                                                                               \
                      .head_time = 10,                                                                                 \
                      .body_time = 60,                                                                                 \
                      .answer_time = 60,                                                                               \
                      .rate = 65536,                                                                                   \
                      .hurry = 0.1,                                                                                    \
                      .stream_time = 30,                                                                               \
                      .stream_pause = 15,                                                                              \
                      .stop_time = 2})

/* All that it points at has to last as long as the server. */
typedef struct sg_http_settings {
    const char          *host;  /* an address or a name of this machine */
    int                  port;  /* 0: any that is free */
    const char          *key;   /* NULL: anybody may use it */
    const char *const   *hosts; /* sg_http_names */
    const char *const   *origins;
    const char          *uploads; /* a folder that is there */
    sg_http_limits       limits;
    const sg_http_route *route;
    int                  routes;
    void                *context; /* for handlers */
} sg_http_settings;

typedef struct sg_http_server sg_http_server;

/* Listens and answers from now on. Returns SG_E_ARG where the address is none of this machine or is taken,
 * SG_E_DEVICE or SG_E_MEMORY. */
sg_status sg_http_server_start(sg_http_server **out, const sg_http_settings *settings, sg_error *e) SG_MUST_USE;

int sg_http_server_port(const sg_http_server *s);

/* For metrics; any thread. */
typedef struct sg_http_counts {
    int       connections, streams;
    long long requests, refused, late; /* heads read; answers of 400 and above; ended by a deadline */
} sg_http_counts;
sg_http_counts sg_http_server_counts(sg_http_server *s);

/* Takes no more connections, ends streams, answers kept requests with 503, gives answers under way their time, and
 * closes. Threads may still answer kept requests, and feed and end streams: nobody hears them. */
void sg_http_server_stop(sg_http_server **s);

#endif
