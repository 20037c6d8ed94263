/* http_server.c - see http_server.h. */
#include "http_server.h"
#include "base/clock.h"
#include "base/json_input.h"
#include "base/thread.h"
#include "http_connection.h"
#include "http_head.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- connections ---- */

/* The address by which a connection is counted: of IPv6 the first half, as one site has all of the other. False:
 * loopback, which is not counted. */
static bool counted_address(const struct sockaddr *from, uint8_t out[16])
{
    memset(out, 0, 16);
    if (from->sa_family == AF_INET) {
        const struct sockaddr_in *const a = (const struct sockaddr_in *)(const void *)from;
        memcpy(out, &a->sin_addr, 4);
        return out[0] != 127;
    }
    if (from->sa_family != AF_INET6) return false;
    const struct in6_addr *const a = &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(a)) {
        memcpy(out, a->s6_addr + 12, 4);
        return out[0] != 127;
    }
    memcpy(out, a, 8);
    return !IN6_IS_ADDR_LOOPBACK(a);
}

/* MHD: a client comes. */
static enum MHD_Result accept_client(void *context, const struct sockaddr *from, socklen_t n)
{
    sg_http_server *const s = context;
    uint8_t               address[16];
    int                   others = 0;
    (void)n;
    if (!counted_address(from, address)) return MHD_YES;
    pthread_mutex_lock(&s->lock);
    for (const sg_http_connection *c = s->first; c; c = c->next) others += memcmp(c->address, address, 16) == 0;
    pthread_mutex_unlock(&s->lock);
    return others < s->settings.limits.address_connections ? MHD_YES : MHD_NO;
}

static void open_connection(sg_http_server *s, struct MHD_Connection *mhd, void **own)
{
    sg_http_connection *const c = calloc(1, sizeof *c);
    /* What MHD_get_connection_info returns is valid until its next call, so its value is copied. */
    const int      socket = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    const unsigned dead_ms = 60000; /* after which data that was not acknowledged ends the connection */
    *own = c;
    if (!c) { /* out of memory */
        shutdown(socket, SHUT_RDWR);
        return;
    }
    c->mhd = mhd;
    c->socket = socket;
    c->since = sg_seconds();
    counted_address(MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr, c->address);
    setsockopt(c->socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof dead_ms);
    pthread_mutex_lock(&s->lock);
    c->next = s->first;
    if (s->first) s->first->previous = c;
    s->first = c;
    s->counts.connections++;
    pthread_mutex_unlock(&s->lock);
}

static void close_connection(sg_http_server *s, sg_http_connection *c)
{
    if (!c) return;
    pthread_mutex_lock(&s->lock);
    if (c->stream) sg_http_stream_leave(c->stream);
    if (c->previous)
        c->previous->next = c->next;
    else
        s->first = c->next;
    if (c->next) c->next->previous = c->previous;
    s->counts.connections--;
    pthread_mutex_unlock(&s->lock);
    free(c);
}

/* MHD: a connection opens, or is about to be closed. */
static void on_connection(void *context, struct MHD_Connection *mhd, void **own,
                          enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        open_connection(context, mhd, own);
    else
        close_connection(context, *own);
}

/* ---- requests ---- */

/* MHD: the first line of a request. MHD passes what is returned to the later calls of the request. */
static void *on_target(void *context, const char *raw, struct MHD_Connection *mhd)
{
    sg_http_server *const     s = context;
    sg_http_connection *const c = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    sg_http_exchange *const   x = c ? calloc(1, sizeof *x) : NULL;
    if (!x) return NULL;
    x->target_valid = sg_http_target_parse(&x->request.target, raw);
    x->request.context = s->settings.context;
    x->request.body = "";
    x->request.id = x->id;
    x->server = s;
    x->references = 1;
    pthread_mutex_lock(&s->lock);
    s->references++;
    x->connection = c;
    c->exchange = x;
    pthread_mutex_unlock(&s->lock);
    return x;
}

/* MHD: a request is over, answered or not. */
static void on_end(void *context, struct MHD_Connection *mhd, void **request, enum MHD_RequestTerminationCode how)
{
    sg_http_server *const   s = context;
    sg_http_exchange *const x = *request;
    (void)mhd;
    (void)how;
    if (!x) return;
    *request = NULL;
    pthread_mutex_lock(&s->lock);
    sg_http_connection *const c = x->connection;
    if (c->stream) sg_http_stream_leave(c->stream);
    x->connection = NULL;
    c->exchange = NULL;
    c->phase = SG_HTTP_HEAD;
    c->since = sg_seconds();
    pthread_mutex_unlock(&s->lock);
    sg_http_exchange_release(x);
}

static void enter(sg_http_exchange *x, sg_http_phase phase, uint64_t bytes)
{
    pthread_mutex_lock(&x->server->lock);
    x->connection->phase = phase;
    x->connection->since = sg_seconds();
    x->connection->bytes = bytes;
    pthread_mutex_unlock(&x->server->lock);
}

/* Hands the answer to MHD, in its thread. */
static enum MHD_Result send_answer(sg_http_exchange *x)
{
    static char           no_memory[] = "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\"}}";
    sg_http_server *const s = x->server;
    struct MHD_Response  *response = x->response;
    x->response = NULL;
    if (!response) {
        x->status = 500;
        response = MHD_create_response_from_buffer(sizeof no_memory - 1, no_memory, MHD_RESPMEM_PERSISTENT);
        if (!response) return MHD_NO;
    }
    pthread_mutex_lock(&s->lock);
    s->counts.refused += x->status >= 400;
    pthread_mutex_unlock(&s->lock);
    enter(x, x->connection->stream ? SG_HTTP_STREAM : SG_HTTP_ANSWER, x->bytes);
    const enum MHD_Result result = MHD_queue_response(x->connection->mhd, (unsigned)x->status, response);
    MHD_destroy_response(response);
    return result;
}

/* The request is complete: calls its handler once. Sends the answer, or suspends the connection until there is one. */
static enum MHD_Result answer(sg_http_exchange *x)
{
    sg_http_server *const     s = x->server;
    sg_http_connection *const c = x->connection;
    if (!x->handled) {
        x->handled = true;
        enter(x, SG_HTTP_WAITS, 0);
        if (!x->answered) sg_http_body_end(x);
        if (!x->answered) x->route->handler(&x->request);
    }
    pthread_mutex_lock(&s->lock);
    if (!x->answered && !x->kept) sg_http_exchange_refuse(x, 500, "nothing answers this");
    if (!x->answered && s->stopping) sg_http_exchange_refuse(x, 503, "the server stops");
    const bool gone = c->hung_up, answered = x->answered;
    if (!answered && !gone) {
        c->suspended = true;
        MHD_suspend_connection(c->mhd);
    }
    pthread_mutex_unlock(&s->lock);
    if (gone) return MHD_NO;
    return answered ? send_answer(x) : MHD_YES;
}

/* MHD calls this with the head, then with bytes of the body, then once all of it is there, and after each wake. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *mhd, const char *path, const char *method,
                                  const char *version, const char *data, size_t *bytes, void **request)
{
    sg_http_exchange *const x = *request;
    (void)context;
    (void)mhd;
    (void)path;
    if (!x) return MHD_NO;
    if (!x->begun) {
        x->begun = true;
        pthread_mutex_lock(&x->server->lock);
        x->server->counts.requests++;
        pthread_mutex_unlock(&x->server->lock);
        enter(x, SG_HTTP_BODY, 0);
        return sg_http_head(x, method, version) ? MHD_YES : send_answer(x);
    }
    if (*bytes) {
        pthread_mutex_lock(&x->server->lock);
        x->connection->bytes += *bytes;
        const uint64_t got = x->connection->bytes;
        pthread_mutex_unlock(&x->server->lock);
        if (!sg_http_body(x, data, *bytes, got)) return MHD_NO;
        *bytes = 0;
        return MHD_YES;
    }
    return answer(x);
}

/* ---- deadlines ---- */

static bool is_late(const sg_http_server *s, const sg_http_connection *c, double now)
{
    const sg_http_limits *const limits = &s->settings.limits;
    const double                passed = now - c->since, more = (double)c->bytes / limits->rate;
    const double                share = s->counts.connections >= limits->connections ? limits->hurry : 1;
    switch (c->phase) {
    case SG_HTTP_HEAD: return passed > share * limits->head_time;
    case SG_HTTP_BODY: return passed > share * limits->body_time + more;
    case SG_HTTP_ANSWER: return passed > share * limits->answer_time + more;
    case SG_HTTP_STREAM: return c->stream && sg_http_stream_sweep(c->stream, now);
    default: return false;
    }
}

/* Tells whether the client of a suspended connection has left: MHD does not look at those. */
static bool hung_up(const sg_http_connection *c)
{
    struct pollfd p = {.fd = c->socket, .events = POLLRDHUP};
    return c->suspended && poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* Locked. */
static void sweep(sg_http_server *s, double now)
{
    for (sg_http_connection *c = s->first; c; c = c->next) {
        if (!c->late && is_late(s, c, now)) {
            c->late = true;
            s->counts.late++;
            shutdown(c->socket, SHUT_RDWR); /* upon which MHD closes it */
        }
        if (hung_up(c)) {
            c->hung_up = true;
            sg_http_connection_wake(c);
        }
    }
}

/* Locked. Waits for `changed`, at most for so many seconds. */
static void wait_for(sg_http_server *s, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    const long nanoseconds = until.tv_nsec + (long)(seconds * 1e9);
    until.tv_sec += nanoseconds / 1000000000;
    until.tv_nsec = nanoseconds % 1000000000;
    pthread_cond_timedwait(&s->changed, &s->lock, &until);
}

/* Looks for late connections often enough that one is found within an eighth of its time. */
static void *sweep_always(void *context)
{
    enum { PARTS = 8 };
    sg_http_server *const       s = context;
    const sg_http_limits *const l = &s->settings.limits;
    double                      period = 0.5;
    const double                times[] = {l->head_time, l->body_time, l->answer_time, l->stream_time, l->stream_pause};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i] / PARTS < period) period = times[i] / PARTS;
    pthread_mutex_lock(&s->lock);
    while (!s->ended) {
        wait_for(s, period);
        sweep(s, sg_seconds());
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- start and stop ---- */

static sg_status listen_at(sg_http_server *s, sg_error *e)
{
    const sg_http_settings *const t = &s->settings;
    const struct addrinfo         wanted = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo              *found = NULL;
    char                          port[16];
    const int                     yes = 1;
    struct sockaddr_storage       bound;
    socklen_t                     size = sizeof bound;
    snprintf(port, sizeof port, "%d", t->port);
    const int failure = getaddrinfo(t->host, port, &wanted, &found);
    if (failure) return sg_error_set(e, SG_E_ARG, "--host: %s: %s", sg_show(t->host), gai_strerror(failure));
    s->socket = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->socket >= 0) setsockopt(s->socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const bool done = s->socket >= 0 && bind(s->socket, found->ai_addr, found->ai_addrlen) == 0 &&
                      listen(s->socket, SOMAXCONN) == 0 &&
                      getsockname(s->socket, (struct sockaddr *)&bound, &size) == 0;
    const int why = errno;
    freeaddrinfo(found);
    if (!done) {
        if (s->socket >= 0) close(s->socket);
        return sg_error_set(e, SG_E_DEVICE, "--host %s, --port %d: %s", sg_show(t->host), t->port, strerror(why));
    }
    const struct sockaddr_in *const  four = (const struct sockaddr_in *)(const void *)&bound;
    const struct sockaddr_in6 *const six = (const struct sockaddr_in6 *)(const void *)&bound;
    const bool                       old = bound.ss_family == AF_INET;
    s->names =
        (sg_http_names){.listen = t->host,
                        .port = ntohs(old ? four->sin_port : six->sin6_port),
                        .any = old ? four->sin_addr.s_addr == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr),
                        .hosts = t->hosts,
                        .origins = t->origins};
    return SG_OK;
}

/* MHD leaves the target's escapes alone: http_parse.c decodes them. */
static size_t no_unescape(void *context, struct MHD_Connection *mhd, char *text)
{
    (void)context;
    (void)mhd;
    return strlen(text);
}

#if MHD_VERSION >= 0x00097701
#define STRICT MHD_OPTION_CLIENT_DISCIPLINE_LVL
#else
#define STRICT MHD_OPTION_STRICT_FOR_CLIENT
#endif

/* MHD's thread takes no signals: they are for the thread that ends the program. It uses poll, because with epoll 0.9.75
 * does not see the end of a connection that comes together with data. */
static struct MHD_Daemon *start_daemon(sg_http_server *s)
{
    sigset_t blocked, before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    struct MHD_Daemon *const daemon = MHD_start_daemon(
        MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, accept_client, s, on_request, s,
        MHD_OPTION_LISTEN_SOCKET, s->socket, MHD_OPTION_CONNECTION_LIMIT, (unsigned)s->settings.limits.connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, 2 * s->settings.limits.head + 4096, MHD_OPTION_NOTIFY_CONNECTION,
        on_connection, s, MHD_OPTION_NOTIFY_COMPLETED, on_end, s, MHD_OPTION_URI_LOG_CALLBACK, on_target, s,
        MHD_OPTION_UNESCAPE_CALLBACK, no_unescape, NULL, STRICT, 1, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

static sg_status start(sg_http_server *s, sg_error *e)
{
    uint8_t random[SG_HTTP_TOKEN / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return sg_error_set(e, SG_E_DEVICE, "no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++) snprintf(s->token + 2 * i, 3, "%02x", random[i]);
    SG_TRY(listen_at(s, e));
    snprintf(s->cookie, sizeof s->cookie, "sparge_gen_%d", s->names.port); /* browsers send cookies to all ports */
    s->daemon = start_daemon(s);
    if (!s->daemon) return sg_error_set(e, SG_E_DEVICE, "the web server does not start: %s", strerror(errno));
    const int failure = sg_thread_start(&s->sweeper, sweep_always, s);
    if (failure) return sg_error_set(e, SG_E_MEMORY, "no thread for the web server: %s", strerror(failure));
    return SG_OK;
}

sg_status sg_http_server_start(sg_http_server **out, const sg_http_settings *settings, sg_error *e)
{
    pthread_condattr_t    monotonic;
    sg_http_server *const s = *out = calloc(1, sizeof *s);
    if (!s) return sg_error_memory(e, "the web server");
    s->settings = *settings;
    s->socket = -1;
    s->references = 1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    const sg_status status = start(s, e);
    if (status == SG_OK) return SG_OK;
    if (s->daemon) MHD_stop_daemon(s->daemon); /* which closes the socket */
    sg_http_server_release(s);
    *out = NULL;
    return status;
}

int sg_http_server_port(const sg_http_server *s) { return s->names.port; }

sg_http_counts sg_http_server_counts(sg_http_server *s)
{
    pthread_mutex_lock(&s->lock);
    const sg_http_counts counts = s->counts;
    pthread_mutex_unlock(&s->lock);
    return counts;
}

/* Locked. Tells whether an answer is on its way. */
static bool answers(const sg_http_server *s)
{
    for (const sg_http_connection *c = s->first; c; c = c->next)
        if (c->phase > SG_HTTP_BODY) return true;
    return false;
}

void sg_http_server_stop(sg_http_server **server)
{
    sg_http_server *const s = *server;
    if (!s) return;
    MHD_quiesce_daemon(s->daemon);
    shutdown(s->socket, SHUT_RDWR); /* refuses new connections, which would otherwise wait */
    pthread_mutex_lock(&s->lock);
    s->stopping = true; /* from now on nothing suspends */
    for (sg_http_connection *c = s->first; c; c = c->next) {
        if (c->exchange && c->exchange->kept && !c->exchange->answered)
            sg_http_exchange_refuse(c->exchange, 503, "the server stops");
        if (c->stream) sg_http_stream_close(c->stream);
    }
    const double end = sg_seconds() + s->settings.limits.stop_time;
    while (answers(s) && sg_seconds() < end) wait_for(s, 0.01);
    pthread_mutex_unlock(&s->lock);
    MHD_stop_daemon(s->daemon);
    close(s->socket);
    pthread_mutex_lock(&s->lock);
    s->ended = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->sweeper, NULL);
    sg_http_server_release(s);
    *server = NULL;
}
