/* http_connection.h - what http_server.c and http_request.c share of connections and of the requests on them. All
 * members that more than one thread uses are guarded by the server's lock; MHD is called with it, and calls us
 * without locks of its own. */
#ifndef SG_HTTP_CONNECTION_H
#define SG_HTTP_CONNECTION_H

#include "http_request.h"
#include "http_server.h"

#include <microhttpd.h>
#include <pthread.h>

typedef enum sg_http_phase {
    SG_HTTP_HEAD,   /* a head comes, or none does */
    SG_HTTP_BODY,   /* a body comes */
    SG_HTTP_WAITS,  /* a handler has it */
    SG_HTTP_ANSWER, /* the answer goes */
    SG_HTTP_STREAM
} sg_http_phase;

typedef struct sg_http_exchange sg_http_exchange;

typedef struct sg_http_connection {
    struct sg_http_connection *previous, *next;
    struct MHD_Connection     *mhd;
    int                        socket;
    uint8_t                    address[16]; /* that it is counted by */
    sg_http_phase              phase;
    double                     since; /* of the phase */
    uint64_t                   bytes; /* that came of the body, or that the answer has */
    bool                       suspended, late, hung_up;
    sg_http_exchange          *exchange; /* the request at hand */
    sg_http_stream            *stream;
} sg_http_connection;

struct sg_http_server {
    sg_http_settings    settings;
    sg_http_names       names;
    int                 socket;
    char                cookie[32], token[SG_HTTP_TOKEN + 1];
    struct MHD_Daemon  *daemon;
    pthread_t           sweeper;
    pthread_mutex_t     lock;
    pthread_cond_t      changed;
    sg_http_connection *first;
    sg_http_counts      counts;
    size_t              memory, disk; /* reserved for requests with bodies */
    size_t              answers;      /* bytes of those in memory */
    bool                stopping, ended;
    int                 references; /* of its owner, exchanges, streams */
};

/* What the head has of these, once each. */
enum {
    SG_HTTP_HOST,
    SG_HTTP_ORIGIN,
    SG_HTTP_FORWARDED_PROTO,
    SG_HTTP_AUTHORIZATION,
    SG_HTTP_CONTENT_TYPE,
    SG_HTTP_CONTENT_LENGTH,
    SG_HTTP_TRANSFER_ENCODING,
    SG_HTTP_EXPECT,
    SG_HTTP_FETCH_SITE,
    SG_HTTP_FETCH_MODE,
    SG_HTTP_RANGE,
    SG_HTTP_IF_RANGE,
    SG_HTTP_IF_NONE_MATCH,
    SG_HTTP_COOKIE,
    SG_HTTP_HEADERS
};

enum { SG_HTTP_OWN_HEADERS = 8 };

/* A request and its answer. */
struct sg_http_exchange {
    sg_http_request           request; /* first, so that handlers' pointers lead here */
    sg_http_server           *server;
    sg_http_connection       *connection; /* NULL: has gone */
    const sg_http_route      *route;
    char                      id[SG_HTTP_ID];
    char                     *header[SG_HTTP_HEADERS];
    bool                      sound;          /* the target */
    bool                      malformed;      /* a header */
    bool                      begun, handled; /* the head was judged; the handler was called */
    bool                      kept, answered;
    bool                      drop;      /* the body */
    bool                      head_only; /* the method is HEAD */
    bool                      other_site;
    sg_textbuf                body;
    struct MHD_PostProcessor *form_reader;
    size_t                    memory, disk; /* reserved */
    size_t                    answer;       /* its part of the server's answers */
    struct {
        char *name, *value;
    } own[SG_HTTP_OWN_HEADERS];
    int                  owns;
    struct MHD_Response *response; /* ready, not yet on its way */
    int                  status;
    uint64_t             bytes;      /* of it */
    int                  references; /* of MHD's connection, of whoever keeps it */
};

/* The lock is not held. */
void sg_http_server_release(sg_http_server *s);
void sg_http_exchange_release(sg_http_exchange *x);

/* The lock is held. Lets a suspended connection go on. */
void sg_http_connection_wake(sg_http_connection *c);

/* The lock is held. Answers a kept request in its owner's place. */
void sg_http_exchange_refuse(sg_http_exchange *x, int status, const char *why);

/* The lock is held. The reader of a stream has gone, or its feeder has to. */
void sg_http_stream_leave(sg_http_stream *s);
void sg_http_stream_close(sg_http_stream *s);

/* The lock is held. Tells whether the reader has taken nothing for too long; keeps a silent stream alive. */
bool sg_http_stream_sweep(sg_http_stream *s, double now);

#endif
