/* http_connection.h - what http_server.c, http_head.c and http_request.c share: connections and the requests on them.
 * The server's lock guards each member that more than one thread uses. libmicrohttpd (MHD) holds no lock of its own
 * when it calls us, so it may be called while ours is held. */
#ifndef SG_HTTP_CONNECTION_H
#define SG_HTTP_CONNECTION_H

#include "http_request.h"
#include "http_server.h"

#include <microhttpd.h>
#include <pthread.h>

typedef enum sg_http_phase {
    SG_HTTP_HEAD,   /* reads a head, or is idle */
    SG_HTTP_BODY,   /* reads a body */
    SG_HTTP_WAITS,  /* waits for the handler's answer */
    SG_HTTP_ANSWER, /* sends the answer */
    SG_HTTP_STREAM  /* sends events */
} sg_http_phase;

typedef struct sg_http_exchange sg_http_exchange;

typedef struct sg_http_connection {
    struct sg_http_connection *previous, *next;
    struct MHD_Connection     *mhd;
    int                        socket;
    uint8_t                    address[16]; /* as sg_http_limits.address_connections counts it */
    sg_http_phase              phase;
    double                     since;     /* the beginning of the phase */
    uint64_t                   bytes;     /* of the body so far, or of the answer */
    bool                       suspended; /* MHD does not look at it until it is woken */
    bool                       late;      /* a deadline has ended it */
    bool                       hung_up;   /* the client has left */
    sg_http_exchange          *exchange;  /* the request at hand */
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
    size_t              answers;      /* bytes of answers in memory */
    bool                stopping, ended;
    int                 references; /* the owner's, and one of each exchange and stream */
};

/* The headers that are read; a request has each of them once at most. */
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

/* A request and its answer. */
struct sg_http_exchange {
    sg_http_request           request; /* first, so that handlers' pointers lead here */
    sg_http_server           *server;
    sg_http_connection       *connection; /* NULL: it is closed */
    const sg_http_route      *route;
    char                      id[SG_HTTP_ID];
    char                     *header[SG_HTTP_HEADERS];
    bool                      target_valid;
    bool                      malformed;      /* a header is */
    bool                      begun, handled; /* the head was checked; the handler was called */
    bool                      kept, answered; /* by sg_http_keep; by any answer */
    bool                      drop;           /* the body is read and ignored */
    bool                      head_only;      /* the method is HEAD */
    bool                      other_site;     /* asks, and is one of --allow-origin */
    sg_textbuf                body;
    struct MHD_PostProcessor *form_reader;
    size_t                    memory, disk; /* reserved */
    size_t                    answer;       /* its bytes of the server's answers */
    struct {
        char *name, *value;
    } own[SG_HTTP_OWN_HEADERS]; /* headers of the answer that the handler adds */
    int                  owns;
    struct MHD_Response *response; /* not yet sent */
    int                  status;
    uint64_t             bytes;      /* of the response */
    int                  references; /* the connection's, and that of whoever keeps the request */
};

/* The lock is not held. */
void sg_http_server_release(sg_http_server *s);
void sg_http_exchange_release(sg_http_exchange *x);

/* The lock is held. Lets a suspended connection go on. */
void sg_http_connection_wake(sg_http_connection *c);

/* The lock is held. Answers a request whose handler has not. */
void sg_http_exchange_refuse(sg_http_exchange *x, int status, const char *why);

/* The lock is not held. Answers with 503 and a Retry-After: a limit of all requests together is reached. */
void sg_http_answer_busy(sg_http_request *r, const char *why);

/* The lock is held. The connection of a stream is closed. */
void sg_http_stream_leave(sg_http_stream *s);

/* The lock is held. Ends a stream once the client has what was sent. */
void sg_http_stream_close(sg_http_stream *s);

/* The lock is held. Tells whether the client has read nothing for too long. Sends a comment where there was no event
 * for a while, which keeps the connection open. */
bool sg_http_stream_sweep(sg_http_stream *s, double now);

#endif
