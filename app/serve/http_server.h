/* http_server.h - a small web server on libmicrohttpd. It reads whole requests, within limits and deadlines, checks who
 * sends them, and passes them to handlers. It knows nothing of what those do.
 *
 *   Host, Origin       those that sg_http_names allows; else 403. A request that a browser marks as cross-site needs an
 *                      Origin that is allowed
 *   key                "Authorization: Bearer KEY", or the cookie that POST /login {"key": KEY} gives; else 401
 *   errors             JSON of one form: http_request.h. To what is no HTTP, or has a head of twice the limit,
 *                      libmicrohttpd answers itself, in HTML
 *   HEAD, OPTIONS      by the routes of GET, and by the server
 *   threads            one has the sockets and runs the handlers; another ends late connections */
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

/* Bytes and seconds. A body or an answer of n bytes has n / rate seconds more. */
typedef struct sg_http_limits {
    int    connections;
    int    address_connections; /* of one address, which may be a proxy's; loopback has no such limit */
    int    streams;
    size_t head, json;
    size_t upload;       /* the files of one request */
    size_t memory, disk; /* of all requests with bodies: heads, JSON and fields; files */
    size_t answers;      /* in memory; beyond it only small ones are given */
    size_t stream;       /* events that wait for a slow client */
    double head_time;    /* from the connection, or the last answer, to the end of the head */
    double body_time, answer_time, rate;
    double hurry;        /* while all connections are taken, this share of the three times is left */
    double stream_time;  /* within which the client of a stream reads something */
    double stream_pause; /* after which a stream sends a comment, lest a proxy closes it */
    double stop_time;    /* for unfinished answers when the server stops */
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

/* What it points at has to live as long as the server. */
typedef struct sg_http_settings {
    const char          *host;  /* an address or a name of this machine */
    int                  port;  /* 0: any that is free */
    const char          *key;   /* NULL: anybody may use it */
    const char *const   *hosts; /* sg_http_names */
    const char *const   *origins;
    const char          *uploads; /* a folder, which exists */
    sg_http_limits       limits;
    const sg_http_route *route;
    int                  routes;
    void                *context; /* for handlers */
} sg_http_settings;

typedef struct sg_http_server sg_http_server;

/* Listens and answers from now on. Returns SG_E_ARG where there is no such host, SG_E_DEVICE where its address is not
 * of this machine or the port is in use, or SG_E_MEMORY. */
sg_status sg_http_server_start(sg_http_server **out, const sg_http_settings *settings, sg_error *e) SG_MUST_USE;

int sg_http_server_port(const sg_http_server *s);

/* For metrics; any thread. */
typedef struct sg_http_counts {
    int       connections, streams;
    long long requests, refused, late; /* heads read; answers of 400 and above; connections ended by a deadline */
} sg_http_counts;
sg_http_counts sg_http_server_counts(sg_http_server *s);

/* Takes no more connections, ends streams, answers kept requests with 503, waits for unfinished answers, and closes.
 * Threads may still answer kept requests, and feed and end streams, without effect. */
void sg_http_server_stop(sg_http_server **s);

#endif
