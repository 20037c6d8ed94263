/* http_request.c - see http_request.h. */
#include "base/clock.h"
#include "base/json_input.h"
#include "base/utf8.h"
#include "http_connection.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static sg_http_exchange *of(sg_http_request *r) { return (sg_http_exchange *)r; }

/* ---- references ---- */

void sg_http_server_release(sg_http_server *s)
{
    pthread_mutex_lock(&s->lock);
    const bool last = --s->references == 0;
    pthread_mutex_unlock(&s->lock);
    if (!last) return;
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void sg_http_exchange_release(sg_http_exchange *x)
{
    sg_http_server *const s = x->server;
    pthread_mutex_lock(&s->lock);
    const bool last = --x->references == 0;
    if (last) {
        s->memory -= x->memory;
        s->disk -= x->disk;
        s->answers -= x->answer;
    }
    pthread_mutex_unlock(&s->lock);
    if (!last) return;
    if (x->form_reader) MHD_destroy_post_processor(x->form_reader);
    if (x->response) MHD_destroy_response(x->response);
    if (x->request.form) sg_http_form_free(x->request.form);
    free(x->request.form);
    sg_textbuf_free(&x->body);
    sg_http_target_free(&x->request.target);
    for (int i = 0; i < SG_HTTP_HEADERS; i++) free(x->header[i]);
    for (int i = 0; i < x->owns; i++) {
        free(x->own[i].name);
        free(x->own[i].value);
    }
    free(x);
    sg_http_server_release(s);
}

void sg_http_connection_wake(sg_http_connection *c)
{
    if (!c->suspended) return;
    c->suspended = false;
    MHD_resume_connection(c->mhd);
}

/* ---- answers ---- */

static bool has_own(const sg_http_exchange *x, const char *name)
{
    for (int i = 0; i < x->owns; i++)
        if (strcasecmp(x->own[i].name, name) == 0) return true;
    return false;
}

static void add_headers(const sg_http_exchange *x, struct MHD_Response *response)
{
    static const struct {
        const char *name, *value;
    } usual[] = {
        {"Cache-Control", "no-store"},
        {"Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
        {"Referrer-Policy", "no-referrer"},
        {"X-Content-Type-Options", "nosniff"}};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (!has_own(x, usual[i].name)) MHD_add_response_header(response, usual[i].name, usual[i].value);
    for (int i = 0; i < x->owns; i++) MHD_add_response_header(response, x->own[i].name, x->own[i].value);
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", x->other_site ? "cross-origin" : "same-origin");
    if (!x->other_site) return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", x->header[SG_HTTP_ORIGIN]);
    MHD_add_response_header(response, "Vary", "Origin");
}

/* Locked. The response becomes x's. False: it is answered, or its connection is closed. */
static bool set(sg_http_exchange *x, int status, struct MHD_Response *response, uint64_t bytes)
{
    if (x->answered || !x->connection) return false;
    x->answered = true;
    x->response = response;
    x->status = status;
    x->bytes = bytes;
    sg_http_connection_wake(x->connection);
    return true;
}

/* The answer of the handler, or of whoever keeps the request and thereby lets go of it. response may be NULL: out of
 * memory. */
static void finish(sg_http_exchange *x, int status, struct MHD_Response *response, uint64_t bytes)
{
    sg_http_server *const s = x->server;
    if (response) add_headers(x, response);
    pthread_mutex_lock(&s->lock);
    const bool kept = x->kept, taken = set(x, status, response, bytes);
    pthread_mutex_unlock(&s->lock);
    if (!taken && response) MHD_destroy_response(response); /* which may call let_go */
    if (kept) sg_http_exchange_release(x);
}

void sg_http_keep(sg_http_request *r)
{
    sg_http_exchange *const x = of(r);
    pthread_mutex_lock(&x->server->lock);
    x->kept = true;
    x->references++;
    pthread_mutex_unlock(&x->server->lock);
}

bool sg_http_gone(sg_http_request *r)
{
    sg_http_exchange *const x = of(r);
    pthread_mutex_lock(&x->server->lock);
    const bool gone = x->answered || !x->connection || x->connection->hung_up;
    pthread_mutex_unlock(&x->server->lock);
    return gone;
}

const char *sg_http_host(sg_http_request *r) { return of(r)->header[SG_HTTP_HOST]; }

const char *sg_http_scheme(sg_http_request *r)
{
    const char *const scheme = of(r)->header[SG_HTTP_FORWARDED_PROTO];
    return scheme && strcmp(scheme, "https") == 0 ? "https" : "http";
}

void sg_http_header(sg_http_request *r, const char *name, const char *value)
{
    sg_http_exchange *const x = of(r);
    if (x->owns == SG_HTTP_OWN_HEADERS) return;
    char *const own_name = strdup(name), *const own_value = strdup(value);
    if (own_name && own_value) {
        pthread_mutex_lock(&x->server->lock); /* sg_http_exchange_refuse reads them */
        x->own[x->owns].name = own_name;
        x->own[x->owns++].value = own_value;
        pthread_mutex_unlock(&x->server->lock);
    } else {
        free(own_name);
        free(own_value);
    }
}

/* Takes data, which is malloc'd. NULL: out of memory. */
static struct MHD_Response *response_of(const char *type, char *data, size_t bytes)
{
    struct MHD_Response *const response =
        data || !bytes
            ? MHD_create_response_from_buffer(bytes, data, data ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT)
            : NULL;
    if (!response) free(data);
    if (response && type) MHD_add_response_header(response, "Content-Type", type);
    return response;
}

static struct MHD_Response *json_response(json_t *json, size_t *bytes)
{
    char *const text = json ? sg_json_text(json, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(json);
    *bytes = text ? strlen(text) : 0;
    return text ? response_of("application/json", text, *bytes) : NULL;
}

static json_t *error_json(int status, const char *param, const char *message)
{
    const char *const type = status >= 500   ? "server_error"
                             : status == 401 ? "authentication_error"
                             : status == 429 ? "rate_limit_error"
                                             : "invalid_request_error";
    const char *const code = status == 401 ? "invalid_api_key" : status == 429 ? "rate_limit_exceeded" : NULL;
    return json_pack("{s:{s:s, s:s, s:s?, s:s?}}", "error", "message", message, "type", type, "param", param, "code",
                     code);
}

/* Answers with bytes in memory, if the answers that slow clients have not read yet leave room for them. */
static void finish_bytes(sg_http_exchange *x, int status, struct MHD_Response *response, size_t bytes)
{
    enum { SMALL = 65536 };
    sg_http_server *const s = x->server;
    pthread_mutex_lock(&s->lock);
    const bool room = bytes <= SMALL || s->answers < s->settings.limits.answers;
    if (room) {
        s->answers += bytes;
        x->answer += bytes;
    }
    pthread_mutex_unlock(&s->lock);
    if (!room) {
        if (response) MHD_destroy_response(response);
        sg_http_answer_busy(&x->request, "too many answers at once"); /* which is small */
        return;
    }
    finish(x, status, response, bytes);
}

void sg_http_answer(sg_http_request *r, int status, const char *type, char *data, size_t bytes)
{
    finish_bytes(of(r), status, response_of(type, data, bytes), bytes);
}

void sg_http_answer_json(sg_http_request *r, int status, json_t *json)
{
    size_t                     bytes;
    struct MHD_Response *const response = json_response(json, &bytes);
    finish_bytes(of(r), status, response, bytes);
}

void sg_http_answer_error(sg_http_request *r, int status, const char *param, const char *fmt, ...)
{
    sg_textbuf message = {0};
    size_t     good;
    va_list    args;
    va_start(args, fmt);
    sg_textbuf_vprintf(&message, fmt, args);
    va_end(args);
    if (!message.failed && !sg_utf8_check(message.data, message.len, &good))
        message.data[good] = '\0'; /* a character that was cut */
    json_t *const json = message.failed ? NULL : error_json(status, param, message.data);
    sg_textbuf_free(&message);
    sg_http_answer_json(r, status, json);
}

void sg_http_answer_busy(sg_http_request *r, const char *why)
{
    sg_http_header(r, "Retry-After", "10");
    sg_http_answer_error(r, 503, NULL, "%s", why);
}

void sg_http_exchange_refuse(sg_http_exchange *x, int status, const char *why)
{
    size_t                     bytes;
    struct MHD_Response *const response = json_response(error_json(status, NULL, why), &bytes);
    if (response) add_headers(x, response);
    if (!set(x, status, response, bytes) && response) MHD_destroy_response(response);
}

/* ---- files ---- */

void sg_http_answer_file(sg_http_request *r, const char *type, const char *path)
{
    sg_http_exchange *const x = of(r);
    const int               file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat             st;
    uint64_t                first = 0, count;
    char                    tag[64], span[96];
    if (file < 0 || fstat(file, &st) != 0 || !S_ISREG(st.st_mode)) {
        if (file >= 0) close(file);
        sg_http_answer_error(r, 404, NULL, "there is no such file");
        return;
    }
    const uint64_t    size = count = (uint64_t)st.st_size;
    const char *const range = x->header[SG_HTTP_RANGE], *const unless = x->header[SG_HTTP_IF_RANGE];
    const char *const known = x->header[SG_HTTP_IF_NONE_MATCH];
    snprintf(tag, sizeof tag, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", size, (uint64_t)st.st_mtim.tv_sec,
             (uint64_t)st.st_mtim.tv_nsec);
    sg_http_header(r, "ETag", tag);
    sg_http_header(r, "Accept-Ranges", "bytes");
    if (!has_own(x, "Cache-Control")) sg_http_header(r, "Cache-Control", "private, no-cache");
    const bool          same = known && strcmp(known, tag) == 0; /* libmicrohttpd then sends no body */
    const sg_http_range part = range && !same && !x->head_only && (!unless || strcmp(unless, tag) == 0)
                                   ? sg_http_range_parse(range, size, &first, &count)
                                   : SG_HTTP_WHOLE;
    if (part == SG_HTTP_OUTSIDE) {
        close(file);
        snprintf(span, sizeof span, "bytes */%" PRIu64, size);
        sg_http_header(r, "Content-Range", span);
        sg_http_answer_error(r, 416, NULL, "the file has %" PRIu64 " bytes", size);
        return;
    }
    if (part == SG_HTTP_PART) {
        snprintf(span, sizeof span, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, first, first + count - 1, size);
        sg_http_header(r, "Content-Range", span);
    }
    struct MHD_Response *const response = MHD_create_response_from_fd_at_offset64(count, file, first);
    if (response)
        MHD_add_response_header(response, "Content-Type", type);
    else
        close(file);
    finish(x, same ? 304 : part == SG_HTTP_PART ? 206 : 200, response, count);
}

/* ---- streams of events ---- */

struct sg_http_stream {
    sg_http_server     *server;
    sg_http_connection *connection; /* NULL: it is closed */
    sg_textbuf          waiting;    /* for the client to read; failed: it was too slow */
    size_t              taken;      /* bytes of those that are sent */
    double              since;      /* the last time that something was sent, or began to wait */
    sg_http_source      source;
    bool                ended, woken;
    int                 references; /* the response's and the caller's */
};

static void stream_release(sg_http_stream *s)
{
    sg_http_server *const server = s->server;
    pthread_mutex_lock(&server->lock);
    const bool last = --s->references == 0;
    if (last) server->counts.streams--;
    pthread_mutex_unlock(&server->lock);
    if (!last) return;
    sg_textbuf_free(&s->waiting);
    free(s);
    sg_http_server_release(server);
}

/* MHD, in its thread: the response is freed. */
static void let_go(void *context)
{
    sg_http_stream *const s = context;
    pthread_mutex_lock(&s->server->lock);
    if (s->connection) s->connection->stream = NULL;
    s->connection = NULL;
    pthread_mutex_unlock(&s->server->lock);
    if (s->source.gone) s->source.gone(s->source.context);
    stream_release(s);
}

/* Locked, except during the call of the source. */
static void ask_source(sg_http_stream *s)
{
    bool again = s->source.more != NULL;
    while (again && !s->ended && s->connection && !s->waiting.len) {
        s->woken = false;
        pthread_mutex_unlock(&s->server->lock);
        s->source.more(s->source.context);
        pthread_mutex_lock(&s->server->lock);
        again = s->woken;
    }
}

/* MHD, in its thread, can send up to `most` bytes. */
static ssize_t take(void *context, uint64_t at, char *out, size_t most)
{
    sg_http_stream *const s = context;
    (void)at;
    pthread_mutex_lock(&s->server->lock);
    ask_source(s);
    const size_t left = s->waiting.len - s->taken;
    ssize_t      n = 0;
    if (!s->connection || s->connection->hung_up || s->waiting.failed) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (left) {
        n = (ssize_t)(left < most ? left : most);
        memcpy(out, s->waiting.data + s->taken, (size_t)n);
        s->taken += (size_t)n;
        s->since = sg_seconds();
        if (s->taken == s->waiting.len) {
            sg_textbuf_clear(&s->waiting);
            s->taken = 0;
        }
    } else if (s->ended) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        s->connection->suspended = true;
        MHD_suspend_connection(s->connection->mhd);
    }
    pthread_mutex_unlock(&s->server->lock);
    return n;
}

sg_http_stream *sg_http_answer_stream(sg_http_request *r, const sg_http_source *source)
{
    enum { BLOCK = 16384 };
    sg_http_exchange *const x = of(r);
    sg_http_server *const   server = x->server;
    if (x->head_only) { /* libmicrohttpd would send the last chunk of a body */
        sg_http_answer(r, 200, "text/event-stream", NULL, 0);
        return NULL;
    }
    sg_http_stream *const      s = calloc(1, sizeof *s);
    struct MHD_Response *const response =
        s ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, take, s, let_go) : NULL;
    if (!response) {
        free(s);
        sg_http_answer_json(r, 500, NULL);
        return NULL;
    }
    *s = (sg_http_stream){.server = server, .since = sg_seconds(), .references = 2};
    MHD_add_response_header(response, "Content-Type", "text/event-stream");
    MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* nginx passes events on at once */
    add_headers(x, response);
    pthread_mutex_lock(&server->lock);
    server->references++;
    const bool room = server->counts.streams++ < server->settings.limits.streams && !server->stopping;
    const bool taken = room && set(x, 200, response, 0), kept = x->kept;
    if (taken) {
        s->connection = x->connection;
        x->connection->stream = s;
        if (source) s->source = *source;
    }
    pthread_mutex_unlock(&server->lock);
    if (!taken) {
        MHD_destroy_response(response); /* which calls let_go */
        stream_release(s);
        sg_http_answer_busy(r, "too many streams of events");
        return NULL;
    }
    if (kept) sg_http_exchange_release(x);
    return s;
}

/* Locked. Appends text, and drops what was sent. */
static void put(sg_http_stream *s, const char *text, size_t n)
{
    if (s->waiting.len == s->taken) s->since = sg_seconds();
    if (s->taken) {
        s->waiting.len -= s->taken;
        memmove(s->waiting.data, s->waiting.data + s->taken, s->waiting.len);
        s->taken = 0;
    }
    sg_textbuf_put(&s->waiting, text, n);
    sg_http_connection_wake(s->connection);
}

bool sg_http_stream_event(sg_http_stream *s, const char *name, const char *data)
{
    sg_textbuf text = {0};
    if (name) sg_textbuf_printf(&text, "event: %s\n", name);
    for (bool more = true; more;) {
        const size_t n = strcspn(data, "\r\n");
        sg_textbuf_put(&text, "data: ", 6);
        sg_textbuf_put(&text, data, n);
        sg_textbuf_put(&text, "\n", 1);
        more = data[n] != '\0';
        data += n + (data[n] == '\r' && data[n + 1] == '\n') + more;
    }
    sg_textbuf_put(&text, "\n", 1);
    pthread_mutex_lock(&s->server->lock);
    bool         open = s->connection && !s->connection->hung_up && !s->ended && !text.failed;
    const size_t waits = s->waiting.len - s->taken;
    if (open && waits && waits + text.len > s->server->settings.limits.stream) {
        s->waiting.failed = true; /* `take` ends the connection */
        s->since = sg_seconds();
        sg_http_connection_wake(s->connection);
        open = false;
    }
    if (open) put(s, text.data, text.len);
    pthread_mutex_unlock(&s->server->lock);
    sg_textbuf_free(&text);
    return open;
}

void sg_http_stream_wake(sg_http_stream *s)
{
    pthread_mutex_lock(&s->server->lock);
    s->woken = true;
    if (s->connection) sg_http_connection_wake(s->connection);
    pthread_mutex_unlock(&s->server->lock);
}

void sg_http_stream_end(sg_http_stream **stream)
{
    sg_http_stream *const s = *stream;
    if (!s) return;
    pthread_mutex_lock(&s->server->lock);
    sg_http_stream_close(s);
    pthread_mutex_unlock(&s->server->lock);
    stream_release(s);
    *stream = NULL;
}

void sg_http_stream_close(sg_http_stream *s)
{
    s->ended = true;
    s->since = sg_seconds();
    if (s->connection) sg_http_connection_wake(s->connection);
}

void sg_http_stream_leave(sg_http_stream *s)
{
    s->connection->stream = NULL;
    s->connection = NULL;
}

bool sg_http_stream_sweep(sg_http_stream *s, double now)
{
    static const char           comment[] = ":\n\n";
    const sg_http_limits *const limits = &s->server->settings.limits;
    const bool                  waits = s->waiting.len > s->taken || s->ended || s->waiting.failed;
    if (waits) return now - s->since > limits->stream_time;
    if (now - s->since > limits->stream_pause) put(s, comment, sizeof comment - 1);
    return false;
}
