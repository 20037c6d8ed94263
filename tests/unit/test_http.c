/* test_http.c - the web server by raw sockets: what it answers, what it refuses, which connections it ends. Tests of
 * deadlines shorten them, and wait for what they do, however long the machine takes. */
#include "http_server.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

enum { PATIENCE_MS = 30000, READERS = 10 };
static const char key[] = "a secret of these tests";

/* ---- handlers ---- */

static pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER;
static sg_http_request *kept;
static sg_http_stream  *stream[READERS];
static int              streams, calls;

static void tell(sg_http_request *r)
{
    const char *const a = sg_http_target_value(&r->target, "a");
    calls++;
    assert_string_equal(r->context, "context");
    sg_http_answer_json(
        r, 200,
        json_pack("{s:s, s:s, s:s?, s:i}", "method", r->method, "id", r->id, "a", a, "bytes", (int)r->body_size));
}

static void echo(sg_http_request *r)
{
    calls++;
    if (r->form) {
        json_t *const fields = json_object(), *const files = json_object();
        for (int i = 0; i < r->form->fields; i++)
            json_object_set_new(fields, r->form->field[i].name, json_string(r->form->field[i].value.data));
        for (int i = 0; i < r->form->uploads; i++) {
            const sg_http_upload *const u = &r->form->upload[i];
            json_object_set_new(files, u->name, json_integer((json_int_t)u->bytes));
            if (strcmp(u->name, "keep") == 0) assert_int_equal(rename(u->path, "kept"), 0);
        }
        sg_http_answer_json(r, 200, json_pack("{s:o, s:o}", "fields", fields, "files", files));
        return;
    }
    sg_http_answer(r, 200, "text/plain", memcpy(malloc(r->body_size + 1), r->body, r->body_size + 1), r->body_size);
}

static void file(sg_http_request *r) { sg_http_answer_file(r, "video/mp4", r->id); }

static void page(sg_http_request *r)
{
    sg_http_header(r, "Content-Security-Policy", "default-src 'self'");
    sg_http_answer(r, 200, "text/html", strdup("<!doctype html>"), 15);
}

static void big(sg_http_request *r)
{
    const size_t n = 32 << 20;
    sg_http_answer(r, 200, "text/plain", calloc(1, n), n);
}

static void where(sg_http_request *r)
{
    sg_http_answer_json(r, 200, json_pack("[o]", json_sprintf("%s://%s", sg_http_scheme(r), sg_http_host(r))));
}

static void cut(sg_http_request *r) { sg_http_answer_error(r, 400, NULL, "%.4s", "a \xe2\x82\xac"); }

static void nothing(sg_http_request *r) { (void)r; }

static void later(sg_http_request *r)
{
    sg_http_keep(r);
    pthread_mutex_lock(&lock);
    kept = r;
    pthread_mutex_unlock(&lock);
}

static void events(sg_http_request *r)
{
    sg_http_stream *const s = sg_http_answer_stream(r, NULL);
    pthread_mutex_lock(&lock);
    if (s) stream[streams++] = s;
    pthread_mutex_unlock(&lock);
}

/* A source of events that gives one whenever it is asked, up to `given`. */
static sg_http_stream *pulled;
static int             given, pulls, sources_gone;

static void more_events(void *context)
{
    char data[20];
    assert_string_equal(context, "source");
    pthread_mutex_lock(&lock);
    if (pulls < given) {
        snprintf(data, sizeof data, "%d.", pulls++);
        sg_http_stream_event(pulled, NULL, data);
    }
    if (pulls == 100) sg_http_stream_end(&pulled);
    pthread_mutex_unlock(&lock);
}

static void source_gone(void *context)
{
    assert_string_equal(context, "source");
    pthread_mutex_lock(&lock);
    sg_http_stream_end(&pulled);
    sources_gone++;
    pthread_mutex_unlock(&lock);
}

static void pull(sg_http_request *r)
{
    pthread_mutex_lock(&lock);
    pulled = sg_http_answer_stream(r, &(sg_http_source){more_events, source_gone, "source"});
    pthread_mutex_unlock(&lock);
}

static const sg_http_route routes[] = {
    {"GET", "/tell", tell, 0},
    {"POST", "/tell", tell, 0},
    {"DELETE", "/tell/{id}", tell, 0},
    {"GET", "/tell/{id}", tell, 0},
    {"POST", "/echo", echo, SG_HTTP_JSON | SG_HTTP_FORM},
    {"POST", "/json", echo, SG_HTTP_JSON},
    {"GET", "/file/{id}", file, 0},
    {"GET", "/", page, SG_HTTP_PUBLIC},
    {"GET", "/big", big, 0},
    {"GET", "/where", where, 0},
    {"GET", "/cut", cut, 0},
    {"GET", "/nothing", nothing, 0},
    {"GET", "/later", later, 0},
    {"POST", "/later", later, SG_HTTP_JSON},
    {"GET", "/events", events, 0},
    {"GET", "/pull", pull, 0},
};

/* ---- server and client ---- */

static const char *const allowed_hosts[] = {"video.example", NULL}, *const allowed_origins[] = {"https://app.example",
                                                                                                NULL};

static sg_http_server  *server;
static sg_http_settings settings;

static int usual(void **state)
{
    settings = (sg_http_settings){.host = "127.0.0.1",
                                  .hosts = allowed_hosts,
                                  .origins = allowed_origins,
                                  .uploads = "uploads",
                                  .limits = SG_HTTP_LIMITS,
                                  .route = routes,
                                  .routes = sizeof routes / sizeof *routes,
                                  .context = "context"};
    settings.limits.head_time = settings.limits.body_time = settings.limits.answer_time = 1000;
    settings.limits.stream_time = settings.limits.stream_pause = 1000;
    settings.limits.stop_time = PATIENCE_MS / 1000;
    calls = streams = given = pulls = sources_gone = 0;
    kept = NULL;
    mkdir("uploads", 0700);
    return 0;
}

static void start(void)
{
    sg_error e = {0};
    assert_done(sg_http_server_start(&server, &settings, &e), &e);
}

static int stop(void **state)
{
    for (int i = 0; i < streams; i++) sg_http_stream_end(&stream[i]);
    settings.limits.stop_time = 0;
    sg_http_server_stop(&server);
    const int left = files_in("uploads");
    rmdir("uploads");
    return left;
}

static int dial_from(const char *address)
{
    const int          s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)sg_http_server_port(server))};
    inet_pton(AF_INET, address, &to.sin_addr);
    if (s < 0 || connect(s, (struct sockaddr *)&to, sizeof to) != 0) fail_msg("connect: %s", strerror(errno));
    return s;
}

static int dial(void) { return dial_from("127.0.0.1"); }

/* False: the server has closed. */
static bool give(int s, const void *data, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t k = send(s, (const char *)data + done, n - done, MSG_NOSIGNAL);
        if (k <= 0) return false;
        done += (size_t)k;
    }
    return true;
}

static bool say(int s, const char *text) { return give(s, text, strlen(text)); }

static char heard[1 << 20];

/* Reads into heard until `end` has come or the server closes. Returns the number of bytes. */
static size_t hear(int s, const char *end)
{
    size_t        n = 0;
    struct pollfd p = {.fd = s, .events = POLLIN};
    heard[0] = '\0';
    while (n < sizeof heard - 1 && !(end && strstr(heard, end))) {
        if (poll(&p, 1, PATIENCE_MS) != 1) fail_msg("nothing came after: %.300s", heard);
        const ssize_t k = recv(s, heard + n, end ? 1 : sizeof heard - 1 - n, 0);
        if (k <= 0) break;
        n += (size_t)k;
        heard[n] = '\0';
    }
    return n;
}

static bool closed(int s)
{
    char          byte;
    struct pollfd p = {.fd = s, .events = POLLIN};
    return poll(&p, 1, PATIENCE_MS) == 1 && recv(s, &byte, 1, 0) <= 0;
}

static int status_of(const char *answer)
{
    int status = 0;
    return sscanf(answer, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

/* A request on a connection of its own. */
static int ask_bytes(const char *text, size_t n)
{
    const int s = dial();
    give(s, text, n);
    hear(s, NULL);
    close(s);
    return status_of(heard);
}

/* Makes a request of "METHOD TARGET", a Host, more lines of the head, each with its \r\n, and a body. */
static char asked[1 << 20];

static const char *request(const char *what, const char *lines, const char *body)
{
    snprintf(asked, sizeof asked, "%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n%s\r\n%s", what,
             sg_http_server_port(server), lines, body);
    return asked;
}

static int ask(const char *what, const char *lines, const char *body)
{
    request(what, lines, body);
    return ask_bytes(asked, strlen(asked));
}

static int post(const char *path, const char *type, const char *body)
{
    char lines[300], what[100];
    snprintf(what, sizeof what, "POST %s", path);
    snprintf(lines, sizeof lines, "Content-Type: %s\r\nContent-Length: %zu\r\n", type, strlen(body));
    return ask(what, lines, body);
}

static const char *body(void)
{
    const char *const end = strstr(heard, "\r\n\r\n");
    return end ? end + 4 : "";
}

/* Expects an answer in the form that errors have. */
static void expect_error(const char *name, int got, int status)
{
    json_t *const     json = json_loads(body(), 0, NULL);
    const char *const message = json_string_value(json_object_get(json_object_get(json, "error"), "message"));
    if (got != status || !message || !strstr(heard, "Content-Type: application/json"))
        fail_msg("%s: %d\n%.600s", name, got, heard);
    json_decref(json);
}

static void expect_body(const char *text)
{
    if (strcmp(body(), text) != 0) fail_msg("%s\n%.600s", text, heard);
}

static void pass_ms(int ms) { poll(NULL, 0, ms); }

/* Waits until it is so, and gives up after PATIENCE_MS. */
#define wait_until(what)                                                                                               \
    do {                                                                                                               \
        int waited_ = 0;                                                                                               \
        while (!(what)) {                                                                                              \
            if (waited_++ > PATIENCE_MS / 5) fail_msg("never: %s", #what);                                             \
            pass_ms(5);                                                                                                \
        }                                                                                                              \
    } while (0)

static int connections(void) { return sg_http_server_counts(server).connections; }

/* ---- answers ---- */

static void handlers_answer_requests(void **state)
{
    start();
    assert_int_equal(ask("GET /tell?a=x%20y", "", ""), 200);
    expect_body("{\"method\":\"GET\",\"id\":\"\",\"a\":\"x y\",\"bytes\":0}");
    assert_int_equal(ask("DELETE /tell/a%20b", "", ""), 200);
    expect_body("{\"method\":\"DELETE\",\"id\":\"a b\",\"a\":null,\"bytes\":0}");
    assert_int_equal(ask("POST /tell", "", ""), 200); /* needs no body */
    assert_int_equal(ask("POST /tell", "Content-Length: 3\r\n", "abc"), 200);
    expect_body("{\"method\":\"POST\",\"id\":\"\",\"a\":null,\"bytes\":0}");
    assert_int_equal(post("/json", "application/json; charset=utf-8", "{\"a\": 1}"), 200);
    expect_body("{\"a\": 1}");
    assert_int_equal(post("/json", "application/json", ""), 200);
    expect_body("");
    assert_int_equal(sg_http_server_counts(server).refused, 0);
    const int s = dial();
    say(s,
        request("POST /json", "Content-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n", ""));
    hear(s, "\r\n\r\n");
    assert_int_equal(status_of(heard), 100);
    say(s, "{}");
    hear(s, NULL);
    close(s);
    assert_int_equal(status_of(heard), 200);
    assert_int_equal(ask("HEAD /tell", "", ""), 200);
    expect_body("");
    assert_non_null(strstr(heard, "Content-Length: 43\r\n"));
    expect_error("no answer", ask("GET /nothing", "", ""), 500);
    expect_error("within a character", ask("GET /cut", "", ""), 400);
    assert_non_null(strstr(heard, "\"message\":\"a \""));
}

static void answers_keep_browsers_in_bounds(void **state)
{
    static const char *const lines[] = {"Content-Security-Policy: default-src 'none';",
                                        "X-Content-Type-Options: nosniff\r\n", "Referrer-Policy: no-referrer\r\n",
                                        "Cache-Control: no-store\r\n", "Cross-Origin-Resource-Policy: same-origin\r\n"};
    start();
    for (int i = 0; i < 2; i++) {
        ask(i ? "GET /no" : "GET /tell", "", "");
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
            if (!strstr(heard, lines[k])) fail_msg("%s\n%s", lines[k], heard);
        assert_null(strstr(heard, "Access-Control"));
    }
    assert_int_equal(ask("GET /", "", ""), 200);
    assert_non_null(strstr(heard, "Content-Security-Policy: default-src 'self'\r\n"));
    assert_null(strstr(heard, "'none'"));
}

static void files_are_sent_in_parts(void **state)
{
    static const struct {
        const char *lines;
        int         status;
        const char *body, *span;
    } cases[] = {{"", 200, "0123456789", NULL},
                 {"Range: bytes=2-4\r\n", 206, "234", "Content-Range: bytes 2-4/10\r\n"},
                 {"Range: bytes=-3\r\n", 206, "789", "Content-Range: bytes 7-9/10\r\n"},
                 {"Range: bytes=0-\r\n", 206, "0123456789", "Content-Range: bytes 0-9/10\r\n"},
                 {"Range: bytes=4-2\r\n", 200, "0123456789", NULL},
                 {"Range: bytes=2-4\r\nIf-Range: \"other\"\r\n", 200, "0123456789", NULL}};
    char tag[100], lines[200];
    write_text("clip", "0123456789");
    assert_int_equal(symlink("clip", "link"), 0);
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (ask("GET /file/clip", cases[i].lines, "") != cases[i].status) fail_msg("%s\n%s", cases[i].lines, heard);
        expect_body(cases[i].body);
        assert_non_null(strstr(heard, "Content-Type: video/mp4\r\n"));
        assert_non_null(strstr(heard, "Accept-Ranges: bytes\r\n"));
        assert_true(!cases[i].span || strstr(heard, cases[i].span));
    }
    assert_int_equal(sscanf(strstr(heard, "ETag: "), "ETag: %99s", tag), 1);
    snprintf(lines, sizeof lines, "If-None-Match: %s\r\n", tag);
    assert_int_equal(ask("GET /file/clip", lines, ""), 304);
    expect_body("");
    assert_null(strstr(heard, "Content-Length: 0\r\n"));
    snprintf(lines, sizeof lines, "Range: bytes=2-4\r\nIf-Range: %s\r\n", tag);
    assert_int_equal(ask("GET /file/clip", lines, ""), 206);
    expect_error("outside", ask("GET /file/clip", "Range: bytes=10-\r\n", ""), 416);
    assert_non_null(strstr(heard, "Content-Range: bytes */10\r\n"));
    assert_int_equal(ask("HEAD /file/clip", "Range: bytes=2-4\r\n", ""), 200); /* which are for GET */
    assert_non_null(strstr(heard, "Content-Length: 10\r\n"));
    expect_body("");
    expect_error("a folder", ask("GET /file/uploads", "", ""), 404);
    expect_error("none", ask("GET /file/none", "", ""), 404);
    expect_error("a link", ask("GET /file/link", "", ""), 404);
    unlink("clip");
    unlink("link");
}

static void a_file_may_go_while_it_is_sent(void **state)
{
    enum { BYTES = 32 << 20 }; /* more than sockets hold */
    size_t n = 0;
    char  *text = malloc(BYTES);
    memset(text, 'a', BYTES);
    write_bytes("clip", text, BYTES);
    start();
    const int s = dial();
    say(s, request("GET /file/clip", "", ""));
    hear(s, "\r\n\r\n");
    write_text("other", "bbbb");
    assert_int_equal(rename("other", "clip"), 0);
    unlink("clip");
    for (ssize_t got; (got = recv(s, text, BYTES, 0)) > 0; n += (size_t)got)
        assert_null(memchr(text, 'b', (size_t)got));
    assert_int_equal(n, BYTES);
    close(s);
    free(text);
}

static void requests_may_follow_each_other(void **state)
{
    static const char more[] =
        "GET /tell HTTP/1.1\r\nHost: video.example\r\n\r\n"
        "POST /json HTTP/1.1\r\nHost: video.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        "POST /none HTTP/1.1\r\nHost: video.example\r\nContent-Length: 45\r\n\r\n" /* no request in a body */
        "GET /tell HTTP/1.1\r\nHost: video.example\r\n\r\n  "
        "HEAD /events HTTP/1.1\r\nHost: video.example\r\n\r\n"
        "GET /tell/{} HTTP/1.1\r\nHost: video.example\r\nConnection: close\r\n\r\n";
    int answers = 0;
    start();
    ask_bytes(more, sizeof more - 1);
    for (const char *at = heard; (at = strstr(at, "HTTP/1.1 ")); at++) {
        static const int status[] = {200, 200, 404, 200, 200};
        assert_true(answers < 5);
        assert_int_equal(status_of(at), status[answers++]);
    }
    assert_int_equal(answers, 5);
    assert_int_equal(calls, 3);
    assert_null(strstr(heard, "\r\n\r\n0\r\n")); /* the end of a body, behind a HEAD */
}

/* ---- what is refused ---- */

static void heads_are_judged(void **state)
{
    static const struct {
        const char *what, *lines;
        int         status;
    } cases[] = {
        {"GET /none", "", 404},
        {"GET /tell/", "", 404},
        {"GET /tell/../tell", "", 404},
        {"GET /tell/%2e%2e", "", 404},
        {"GET /tell/..%2f..%2fetc%2fpasswd", "", 404},
        {"GET /file/..", "", 404},
        {"GET /file/%2e%2e%2fetc", "", 404},
        {"GET //tell", "", 404},
        {"GET /tell?a=%00", "", 400},
        {"GET /tell/%00", "", 404},
        {"GET /tell?a=%zz", "", 400},
        {"GET http://127.0.0.1/tell", "", 400},
        {"GET *", "", 400},
        {"PUT /tell", "", 405},
        {"POST /tell/1", "", 405},
        {"TRACE /tell", "", 405},
        {"CONNECT /tell", "", 405},
        {"get /tell", "", 405},
        {"BREW /tell", "", 405},
        {"GET /tell", "Host: 127.0.0.1\r\n", 400}, /* two */
        {"GET /tell", "Origin: http://evil.example\r\n", 403},
        {"GET /tell", "Origin: null\r\n", 403},
        {"POST /json", "Origin: http://evil.example\r\nContent-Length: 0\r\nContent-Type: application/json\r\n", 403},
        {"POST /tell", "Sec-Fetch-Site: cross-site\r\n", 403},
        {"GET /tell", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n", 403},
        {"POST /tell", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", 403},
        {"POST /json", "", 411},
        {"POST /json", "Content-Type: application/json\r\n", 411},
        {"POST /json", "Content-Length: 0\r\n", 415},
        {"POST /json", "Content-Length: 0\r\nContent-Type: text/plain\r\n", 415},
        {"POST /json", "Content-Length: 0\r\nContent-Type: application/x-www-form-urlencoded\r\n", 415},
        {"POST /json", "Content-Length: 0\r\nContent-Type: multipart/form-data; boundary=ab\r\n", 415},
        {"POST /echo", "Content-Length: 0\r\nContent-Type: multipart/form-data\r\n", 400},
        {"POST /echo", "Content-Length: 0\r\nContent-Type: multipart/form-data; boundary=\"\r\n", 400},
        {"POST /json", "Content-Length: 1048577\r\nContent-Type: application/json\r\n", 413},
        {"POST /json", "Content-Length: 1048577\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n", 413},
        {"POST /json", "Content-Length: 0\r\nContent-Length: 5\r\nContent-Type: application/json\r\n", 400},
    };
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[300];
        snprintf(name, sizeof name, "%s %s", cases[i].what, cases[i].lines);
        expect_error(name, ask(cases[i].what, cases[i].lines, ""), cases[i].status);
    }
    assert_int_equal(calls, 0);
    assert_int_equal(sg_http_server_counts(server).refused, sizeof cases / sizeof *cases);
    expect_error("PUT", ask("PUT /tell", "", ""), 405);
    assert_non_null(strstr(heard, "Allow: GET, HEAD, POST, OPTIONS\r\n"));
}

static void names_of_other_sites_are_refused(void **state)
{
    static const struct {
        const char *host; /* %d: the port */
        int         status;
    } cases[] = {
        {"127.0.0.1:%d", 200},      {"localhost:%d", 200},       {"[::1]:%d", 200},        {"video.example", 200},
        {"evil.example:%d", 403},   {"127.0.0.1", 403},          {"127.0.0.1:1%d", 403},   {"", 403},
        {"127.0.0.1:%d@evil", 403}, {"127.0.0.1:%d, evil", 403}, {"video.example/x", 403}, {"video.example:443", 200}};
    char text[300], host[100];
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(host, sizeof host, cases[i].host, sg_http_server_port(server));
#pragma GCC diagnostic pop
        snprintf(text, sizeof text, "GET /tell HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host);
        const int status = ask_bytes(text, strlen(text));
        if (cases[i].status == 403)
            expect_error(host, status, 403);
        else if (status != 200)
            fail_msg("%s: %s", host, heard);
    }
    assert_int_equal(ask_bytes("GET /tell HTTP/1.1\r\nConnection: close\r\n\r\n", 41), 400);
    static const char old[] = "GET /tell HTTP/1.0\r\n\r\n";
    expect_error("HTTP/1.0 without a Host", ask_bytes(old, sizeof old - 1), 400);
}

static void other_sites_need_leave(void **state)
{
    char own[100];
    start();
    snprintf(own, sizeof own, "Origin: http://127.0.0.1:%d\r\nSec-Fetch-Site: same-origin\r\n",
             sg_http_server_port(server));
    assert_int_equal(ask("GET /tell", own, ""), 200);
    assert_null(strstr(heard, "Access-Control"));
    assert_int_equal(ask("GET /tell", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n", ""), 200);
    assert_int_equal(ask("GET /tell", "Sec-Fetch-Site: none\r\n", ""), 200);
    assert_int_equal(ask("GET /tell", "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n", ""), 200);
    assert_non_null(strstr(heard, "Access-Control-Allow-Origin: https://app.example\r\n"));
    assert_non_null(strstr(heard, "Vary: Origin\r\n"));
    assert_int_equal(ask("OPTIONS /tell", "Origin: https://app.example\r\n", ""), 204);
    assert_non_null(strstr(heard, "Access-Control-Allow-Methods: GET, HEAD, POST, OPTIONS\r\n"));
    assert_int_equal(ask("OPTIONS /tell", "", ""), 204);
    assert_non_null(strstr(heard, "Allow: GET, HEAD, POST, OPTIONS\r\n"));
    assert_null(strstr(heard, "Access-Control"));
    expect_error("preflight of another", ask("OPTIONS /tell", "Origin: http://evil.example\r\n", ""), 403);
}

static void the_key_opens(void **state)
{
    static const char *const wrong[] = {"",
                                        "Authorization: Bearer\r\n",
                                        "Authorization: Bearer a secret\r\n",
                                        "Authorization: Bearer a secret of these tests!\r\n",
                                        "Authorization: Basic a secret of these tests\r\n",
                                        "Authorization: Bearer a secret of these tests\r\nAuthorization: Bearer x\r\n",
                                        "Cookie: sparge_gen_1=0123456789abcdef0123456789abcdef\r\n"};
    char                     cookie[200], text[100], *end;
    settings.key = key;
    start();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_error(wrong[i], ask("GET /tell", wrong[i], ""), i == 5 ? 400 : 401);
    assert_int_equal(calls, 0);
    expect_error("the key in the target", ask("GET /tell?key=a+secret+of+these+tests", "", ""), 401);
    assert_non_null(strstr(heard, "WWW-Authenticate: Bearer\r\n"));
    assert_int_equal(ask("GET /tell", "Authorization: Bearer a secret of these tests\r\n", ""), 200);
    assert_int_equal(ask("GET /", "", ""), 200); /* public */
    assert_int_equal(ask("OPTIONS /tell", "", ""), 204);

    expect_error("a wrong key", post("/login", "application/json", "{\"key\": \"a secret\"}"), 401);
    expect_error("no key", post("/login", "application/json", "{\"key\": 1}"), 401);
    expect_error("no JSON", post("/login", "application/json", "key"), 400);
    expect_error("a form of another site", post("/login", "text/plain", "{\"key\": \"a secret of these tests\"}"), 415);
    assert_null(strstr(heard, "Set-Cookie"));
    assert_int_equal(post("/login", "application/json", "{\"key\": \"a secret of these tests\"}"), 204);
    assert_non_null(strstr(heard, "; HttpOnly; SameSite=Strict\r\n"));
    snprintf(cookie, sizeof cookie, "Cookie: other=1; %s", strstr(heard, "Set-Cookie: ") + 12);
    end = strchr(cookie, ';');
    end = strchr(end + 1, ';');
    strcpy(end, "\r\n");
    assert_int_equal(ask("GET /tell", cookie, ""), 200);
    end[-1] = end[-1] == '0' ? '1' : '0';
    expect_error("a wrong cookie", ask("GET /tell", cookie, ""), 401);
    snprintf(text, sizeof text, "Cookie: sparge_gen_%d=\r\n", sg_http_server_port(server));
    expect_error("an empty cookie", ask("GET /tell", text, ""), 401);
}

static void a_proxy_says_how_it_was_asked(void **state)
{
    static const struct {
        const char *line, *url;
    } cases[] = {{"X-Forwarded-Proto: https\r\n", "[\"https://video.example\"]"},
                 {"X-Forwarded-Proto: http\r\n", "[\"http://video.example\"]"},
                 {"X-Forwarded-Proto: https://evil.example/\r\n", "[\"http://video.example\"]"},
                 {"", "[\"http://video.example\"]"}};
    char text[400];
    settings.key = key;
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(text, sizeof text,
                 "POST /login HTTP/1.1\r\nHost: video.example\r\n%sContent-Type: application/json\r\n"
                 "Content-Length: 34\r\nConnection: close\r\n\r\n{\"key\": \"a secret of these tests\"}",
                 cases[i].line);
        assert_int_equal(ask_bytes(text, strlen(text)), 204);
        assert_int_equal(strstr(heard, "; SameSite=Strict; Secure\r\n") != NULL, i == 0);
        snprintf(text, sizeof text,
                 "GET /where HTTP/1.1\r\nHost: video.example\r\n%sAuthorization: Bearer %s\r\nConnection: close\r\n"
                 "\r\n",
                 cases[i].line, key);
        assert_int_equal(ask_bytes(text, strlen(text)), 200);
        expect_body(cases[i].url);
    }
}

/* ---- bodies ---- */

static void forms_become_fields_and_files(void **state)
{
    static const char form[] =
        "--ab\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na red\r\nball\r\n"
        "--ab\r\nContent-Disposition: form-data; name=\"image\"; filename=\"../../x.png\"\r\n"
        "Content-Type: image/png\r\n\r\n0123456789\r\n"
        "--ab\r\nContent-Disposition: form-data; name=\"keep\"; filename=\"/etc/passwd\"\r\n\r\nkept\r\n"
        "--ab--\r\n";
    char lines[300], part[1024];
    start();
    assert_int_equal(post("/echo", "multipart/form-data; boundary=ab", form), 200);
    expect_body("{\"fields\":{\"prompt\":\"a red\\r\\nball\"},\"files\":{\"image\":10,\"keep\":4}}");
    char *const text = read_file("kept", NULL);
    assert_string_equal(text, "kept");
    free(text);
    unlink("kept");
    wait_until(files_in("uploads") == 0);

    /* a byte at a time */
    const int s = dial();
    snprintf(lines, sizeof lines, "Content-Type: multipart/form-data; boundary=\"ab\"\r\nContent-Length: %zu\r\n",
             sizeof form - 1);
    request("POST /echo", lines, form);
    for (const char *c = asked; *c; c++) assert_true(give(s, c, 1));
    hear(s, NULL);
    close(s);
    assert_int_equal(status_of(heard), 200);
    expect_body("{\"fields\":{\"prompt\":\"a red\\r\\nball\"},\"files\":{\"image\":10,\"keep\":4}}");
    unlink("kept");

    expect_error("cut",
                 post("/echo", "multipart/form-data; boundary=ab",
                      "--ab\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\nabc"),
                 400);
    expect_error("no name",
                 post("/echo", "multipart/form-data; boundary=ab",
                      "--ab\r\nContent-Disposition: form-data\r\n\r\nabc\r\n--ab--\r\n"),
                 400);
    expect_error("a name",
                 post("/echo", "multipart/form-data; boundary=ab",
                      "--ab\r\nContent-Disposition: form-data; name=\"../x\"\r\n\r\nabc\r\n--ab--\r\n"),
                 400);
    expect_error("not UTF-8",
                 post("/echo", "multipart/form-data; boundary=ab",
                      "--ab\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\xff\r\n--ab--\r\n"),
                 400);
    asked[0] = '\0';
    char *const many = calloc(1, 1 << 16);
    for (int i = 0; i <= SG_HTTP_UPLOADS; i++) {
        snprintf(part, sizeof part,
                 "--ab\r\nContent-Disposition: form-data; name=\"x%d\"; filename=\"y\"\r\n\r\nabc\r\n", i);
        strcat(many, part);
    }
    expect_error("many files", post("/echo", "multipart/form-data; boundary=ab", strcat(many, "--ab--\r\n")), 400);
    free(many);
    wait_until(files_in("uploads") == 0);
}

static void uploads_have_limits(void **state)
{
    settings.limits.upload = 1000;
    settings.limits.json = 500;
    settings.limits.disk = 1500;
    settings.limits.memory = 10000;
    start();
    char         form[3000] = "--ab\r\nContent-Disposition: form-data; name=\"x\"; filename=\"y\"\r\n\r\n";
    const size_t head = strlen(form);
    memset(form + head, 'x', 1001);
    strcpy(form + head + 1001, "\r\n--ab--\r\n");
    expect_error("a file", post("/echo", "multipart/form-data; boundary=ab", form), 413);
    strcpy(form + head + 1000, "\r\n--ab--\r\n");
    assert_int_equal(post("/echo", "multipart/form-data; boundary=ab", form), 200);
    strcpy(form, "--ab\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n");
    memset(form + strlen(form), 'x', 501);
    strcat(form, "\r\n--ab--\r\n");
    expect_error("a field", post("/echo", "multipart/form-data; boundary=ab", form), 413);
    expect_error("the whole",
                 ask("POST /echo", "Content-Type: multipart/form-data; boundary=ab\r\nContent-Length: 1501\r\n", ""),
                 413);

    /* all at once: while the body of one is still to come, there is no room for another */
    static const char lines[] = "Content-Type: multipart/form-data; boundary=ab\r\nContent-Length: 1000\r\n";
    const int         s = dial();
    say(s,
        request("POST /echo", lines, "--ab\r\nContent-Disposition: form-data; name=\"x\"; filename=\"y\"\r\n\r\nabc"));
    wait_until(files_in("uploads") == 1);
    expect_error("no room", ask("POST /echo", lines, ""), 503);
    close(s);
    wait_until(files_in("uploads") == 0);
    wait_until(connections() == 0);
    assert_int_equal(post("/json", "application/json", "{}"), 200);
}

static void bodies_of_wrong_length(void **state)
{
    int before;
    start();
    /* shorter than its Content-Length: never handled */
    const int s = dial();
    say(s, request("POST /json", "Content-Type: application/json\r\nContent-Length: 10\r\n", "{}"));
    shutdown(s, SHUT_WR);
    assert_true(closed(s));
    close(s);
    assert_int_equal(calls, 0);
    /* longer: the rest is no request */
    snprintf(asked, sizeof asked,
             "POST /json HTTP/1.1\r\nHost: video.example\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n"
             "{}GARBAGE\r\n\r\n");
    assert_int_equal(ask_bytes(asked, strlen(asked)), 200);
    assert_int_equal(calls, 1);
    /* no numbers */
    static const char *const lengths[] = {
        "-1", "+2", "2 2", "0x2", "", "99999999999999999999999999", "18446744073709551615"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        char lines[200];
        before = calls;
        snprintf(lines, sizeof lines, "Content-Type: application/json\r\nContent-Length: %s\r\n", lengths[i]);
        const int status = ask("POST /json", lines, "");
        if (status < 400 || status == 500 || calls != before) fail_msg("'%s': %d", lengths[i], status);
    }
}

static void bodies_in_chunks(void **state)
{
    static const char chunked[] = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    settings.limits.json = 1000;
    start();
    assert_int_equal(ask("POST /json", chunked, "3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n"), 200);
    expect_body("{\"a\":1}");
    char body_[2000] = "3f0\r\n";
    memset(body_ + 5, ' ', 0x3f0);
    strcat(body_, "\r\n0\r\n\r\n");
    expect_error("too long", ask("POST /json", chunked, body_), 413);
    static const char *const bad[] = {"zz\r\n{}\r\n0\r\n\r\n", "-2\r\n{}\r\n0\r\n\r\n", "ffffffffffffffffff\r\n{}\r\n",
                                      "2\r\n{}}\r\n0\r\n\r\n"};
    const int                before = calls;
    static const char *const codings[] = {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                                          "Transfer-Encoding: gzip\r\n", "Transfer-Encoding: gzip, chunked\r\n",
                                          "Transfer-Encoding: identity\r\n",
                                          "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"};
    /* libmicrohttpd 1.0 refuses some of these itself, in HTML */
    for (size_t i = 0; i < sizeof codings / sizeof *codings; i++) {
        char lines[200];
        snprintf(lines, sizeof lines, "Content-Type: application/json\r\n%s", codings[i]);
        if (ask("POST /json", lines, "0\r\n\r\n") != 400) fail_msg("%s: %.300s", codings[i], heard);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const int status = ask("POST /json", chunked, bad[i]);
        if (status == 200 || calls != before) fail_msg("%s: %d", bad[i], status);
    }
    /* without end */
    const int s = dial();
    say(s, request("POST /json", chunked, ""));
    int sent = 0;
    while (say(s, "10\r\n0123456789abcdef\r\n")) assert_true(sent++ < 1 << 22);
    close(s);
    assert_int_equal(calls, before);
}

static void heads_have_limits(void **state)
{
    start();
    char *const lines = calloc(1, 100000);
    for (int i = 0; i < 40; i++) {
        char *const at = lines + strlen(lines);
        sprintf(at, "X-%d: ", i);
        memset(at + strlen(at), 'x', 1000);
        strcat(lines, "\r\n");
    }
    expect_error("40 KB", ask("GET /tell", lines, ""), 431);
    lines[25 * 1000] = '\0';
    strcpy(strrchr(lines, '\n') + 1, "");
    assert_int_equal(ask("GET /tell", lines, ""), 200);
    free(lines);

    /* a header and a target of a gigabyte, and as many small headers */
    static const char *const endless[] = {"GET /tell HTTP/1.1\r\nHost: video.example\r\nX: ", "GET /",
                                          "GET /tell HTTP/1.1\r\n"};
    static char              block[1 << 16];
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < sizeof block; k++) block[k] = i < 2 ? 'x' : "A: b\r\n"[k % 6];
        const int s = dial();
        say(s, endless[i]);
        int sent = 0;
        while (sent < 1 << 14 && give(s, block, sizeof block / 6 * 6)) sent++;
        assert_true(sent < 1 << 12); /* of the 16384 that make a gigabyte */
        close(s);
    }
    wait_until(connections() == 0);
    assert_int_equal(calls, 1);
}

static void bytes_that_are_no_http(void **state)
{
    static const struct {
        const char *bytes;
        size_t      n;
    } cases[] = {
#define BYTES(text) {text, sizeof text - 1}
        BYTES("\r\n\r\n\r\n"),
        BYTES("GET\r\n\r\n"),
        BYTES("GET /tell\r\n\r\n"),
        BYTES("GET /tell HTTP/9.9\r\nHost: video.example\r\n\r\n"),
        BYTES("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        BYTES("GET /te\0ll HTTP/1.1\r\nHost: video.example\r\n\r\n"),
        BYTES("GET /none\0/tell HTTP/1.1\r\nHost: video.example\r\n\r\n"),
        BYTES("GET /tell HTTP/1.1\r\nHost: evil.example\0video.example\r\n\r\n"),
        BYTES("GET /tell HTTP/1.1\r\nHost: video.example\r\nX\0Y: z\r\n\r\n"),
        BYTES("GET /tell HTTP/1.1\r\nHost: video.example\r\nno colon\r\n\r\n"),
        BYTES("GET /tell HTTP/1.1\r\nHost : evil.example\r\nHost: video.example\r\n\r\n"),
        BYTES("GET /tell HTTP/1.1\r\nHost: video.example\r\n Origin: http://evil.example\r\n\r\n"),
        BYTES("GET /tell HTTP/1.1\r\nHost: video.example\r\nX\x0b: y\r\n\r\n"),
        BYTES("GET /tell HTTP/1.1\r\nHost: video.example\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n"),
        BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
#undef BYTES
    };
    start();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int s = dial();
        give(s, cases[i].bytes, cases[i].n);
        shutdown(s, SHUT_WR);
        hear(s, NULL);
        close(s);
        if (status_of(heard) == 200) fail_msg("%zu: %.300s", i, heard);
    }
    assert_int_equal(calls, 0);
    assert_int_equal(ask("GET /tell", "", ""), 200);
}

/* ---- deadlines ---- */

/* Sends a byte at a time until the server closes the connection. */
static void drip(int s, const char *text)
{
    int           n = 0;
    struct pollfd p = {.fd = s, .events = POLLIN | POLLRDHUP};
    while (poll(&p, 1, 20) == 0 && give(s, text, 1)) assert_true(n++ < PATIENCE_MS / 20);
    close(s);
    wait_until(connections() == 0);
    assert_int_equal(calls, 0);
}

static void a_slow_head_is_ended(void **state)
{
    settings.limits.head_time = 0.2;
    start();
    const int s = dial();
    say(s, "GET /tell?");
    drip(s, "a");
    drip(dial(), "x");
    const int silent = dial(); /* and one that says nothing */
    assert_true(closed(silent));
    close(silent);
    assert_int_equal(sg_http_server_counts(server).late, 3);
}

static void a_slow_body_is_ended(void **state)
{
    settings.limits.body_time = 0.2;
    settings.limits.rate = 1000;
    start();
    const int s = dial();
    say(s, request("POST /json", "Content-Type: application/json\r\nContent-Length: 100000\r\n", ""));
    drip(s, " ");
    const int form = dial();
    say(form, request("POST /echo", "Content-Type: multipart/form-data; boundary=ab\r\nContent-Length: 100000\r\n",
                      "--ab\r\n"));
    drip(form, "x");
    const int dropped = dial();
    say(dropped, request("POST /none", "Content-Length: 100000\r\n", ""));
    drip(dropped, "x");
    assert_int_equal(sg_http_server_counts(server).late, 3);
}

static void a_slow_reader_is_ended(void **state)
{
    const int small = 4096;
    settings.limits.answer_time = 0.2;
    settings.limits.rate = 1e12;
    start();
    const int s = dial();
    setsockopt(s, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    say(s, request("GET /big", "", ""));
    wait_until(sg_http_server_counts(server).late == 1);
    wait_until(connections() == 0);
    close(s);
}

static void many_connections_take_turns(void **state)
{
    enum { MANY = 300 };
    static int s[MANY];
    settings.limits.connections = 64;
    settings.limits.head_time = 0.3;
    start();
    for (int i = 0; i < MANY; i++) s[i] = dial(); /* which say nothing */
    wait_until(ask("GET /tell", "", "") == 200);  /* a busy machine may have it late, too */
    for (int i = 0; i < MANY; i++) {
        assert_true(closed(s[i]));
        close(s[i]);
    }
    sg_http_server_stop(&server);
    settings.limits.head_time = 1000;
    settings.limits.hurry = 1;
    start();
    for (int i = 0; i < MANY; i++) s[i] = dial();
    for (int i = 0; i < MANY; i++) say(s[i], request("GET /tell", "", ""));
    int answered = 0;
    for (int i = 0; i < MANY; i++) {
        hear(s[i], NULL);
        answered += status_of(heard) == 200;
        close(s[i]);
    }
    assert_int_equal(answered, MANY);
    assert_true(sg_http_server_counts(server).connections <= 64);
}

static void idle_connections_make_room(void **state)
{
    int s[4];
    settings.limits.connections = 4;
    settings.limits.hurry = 1e-4; /* of a thousand seconds */
    start();
    for (int i = 0; i < 3; i++) s[i] = dial();
    say(s[0], "GET /te");
    say(s[1], request("POST /json", "Content-Type: application/json\r\nContent-Length: 100\r\n", "{"));
    wait_until(connections() == 3);
    pass_ms(1000); /* in which nothing happens */
    assert_int_equal(sg_http_server_counts(server).late, 0);
    s[3] = dial();
    for (int i = 0; i < 3; i++) assert_true(closed(s[i]));
    for (int i = 0; i < 4; i++) close(s[i]);
    wait_until(connections() == 0);
    assert_int_equal(ask("GET /tell", "", ""), 200);
}

static void an_address_has_a_share(void **state)
{
    struct ifaddrs *all = NULL;
    char            address[INET_ADDRSTRLEN] = "";
    int             s[3];
    getifaddrs(&all);
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET) continue;
        const struct in_addr *const in = &((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr;
        if (ntohl(in->s_addr) >> 24 != 127) inet_ntop(AF_INET, in, address, sizeof address);
    }
    freeifaddrs(all);
    if (!*address) skip();
    settings.host = "0.0.0.0";
    settings.limits.address_connections = 2;
    start();
    for (int i = 0; i < 3; i++) s[i] = dial_from(address);
    assert_true(closed(s[2]));
    close(s[2]);
    assert_int_equal(ask("GET /tell", "", ""), 200); /* loopback has no share */
    close(s[0]);
    wait_until(connections() == 1);
    s[2] = dial_from(address);
    snprintf(asked, sizeof asked, "GET /tell HTTP/1.1\r\nHost: %s:%d\r\n\r\n", address, sg_http_server_port(server));
    say(s[2], asked);
    hear(s[2], "\r\n\r\n");
    assert_int_equal(status_of(heard), 200);
    close(s[1]);
    close(s[2]);
}

/* ---- later answers and streams ---- */

static sg_http_request *wait_for_kept(void)
{
    sg_http_request *r = NULL;
    for (int waited = 0; !r; waited++) {
        pthread_mutex_lock(&lock);
        r = kept;
        kept = NULL;
        pthread_mutex_unlock(&lock);
        if (waited > PATIENCE_MS / 5) fail_msg("no request was kept");
        if (!r) pass_ms(5);
    }
    return r;
}

static void an_answer_may_come_later(void **state)
{
    settings.limits.body_time = settings.limits.answer_time = 0.5; /* which do not limit the wait for a handler */
    settings.limits.rate = 1e12;
    start();
    const int s = dial();
    say(s, request("GET /later?a=1", "", ""));
    sg_http_request *const r = wait_for_kept();
    pass_ms(1200);
    assert_false(sg_http_gone(r));
    assert_string_equal(sg_http_target_value(&r->target, "a"), "1");
    sg_http_answer_json(r, 200, json_pack("{s:i}", "later", 1));
    hear(s, NULL);
    expect_body("{\"later\":1}");
    close(s);

    /* the client goes */
    const int gone = dial();
    say(gone, request("GET /later", "", ""));
    sg_http_request *const second = wait_for_kept();
    close(gone);
    wait_until(sg_http_gone(second));
    wait_until(connections() == 0);
    sg_http_answer_error(second, 500, NULL, "nobody hears it");
}

/* Its head and body stay in memory until it is answered. */
static void a_kept_request_counts_when_its_client_has_left(void **state)
{
    char lines[10000] = "Content-Type: application/json\r\nContent-Length: 2\r\nX: ";
    memset(lines + strlen(lines), 'x', 8000);
    strcat(lines, "\r\n");
    settings.limits.memory = 15000;
    start();
    const int s = dial();
    say(s, request("POST /later", lines, "{}"));
    sg_http_request *const r = wait_for_kept();
    close(s);
    wait_until(connections() == 0);
    expect_error("no room", ask("POST /later", lines, "{}"), 503);
    sg_http_answer_error(r, 500, NULL, "nobody hears it");
    assert_int_equal(ask("POST /json", lines, "{}"), 200);
}

static void answers_that_nobody_reads_have_limits(void **state)
{
    const int small = 4096;
    settings.limits.answers = 1 << 20;
    start();
    const int s = dial();
    setsockopt(s, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    say(s, request("GET /big", "", ""));
    wait_until(sg_http_server_counts(server).requests == 1);
    expect_error("no room", ask("GET /big", "", ""), 503);
    assert_non_null(strstr(heard, "Retry-After: "));
    assert_int_equal(ask("GET /tell", "", ""), 200);
    close(s);
    wait_until(connections() == 0);
    assert_int_equal(ask("GET /big", "", ""), 200);
}

static int open_stream(void)
{
    const int s = dial(), before = streams;
    say(s, request("GET /events", "", ""));
    hear(s, "\r\n\r\n");
    assert_int_equal(status_of(heard), 200);
    assert_non_null(strstr(heard, "Content-Type: text/event-stream\r\n"));
    for (int now = before; now == before;) {
        pthread_mutex_lock(&lock);
        now = streams;
        pthread_mutex_unlock(&lock);
    }
    return s;
}

static void streams_have_many_readers(void **state)
{
    enum { EVENTS = 50 };
    int s[READERS];
    settings.limits.streams = READERS;
    start();
    for (int i = 0; i < READERS; i++) s[i] = open_stream();
    expect_error("one more", ask("GET /events", "", ""), 503);
    for (int k = 0; k < EVENTS; k++) {
        char data[40];
        if (k == EVENTS / 2) close(s[3]);
        snprintf(data, sizeof data, "{\"step\": %d}", k);
        for (int i = 0; i < READERS; i++)
            if (!sg_http_stream_event(stream[i], "progress", data)) assert_int_equal(i, 3);
    }
    wait_until(!sg_http_stream_event(stream[3], NULL, "")); /* the client has left; the others get everything */
    for (int i = 0; i < READERS; i++) {
        if (i == 3) continue;
        assert_true(sg_http_stream_event(stream[i], NULL, "two\nlines\r\nthree"));
        sg_http_stream_end(&stream[i]);
        assert_null(stream[i]);
        hear(s[i], NULL);
        int events_ = 0;
        for (const char *at = heard; (at = strstr(at, "event: progress\ndata: {\"step\": ")); at++, events_++)
            assert_int_equal(atoi(at + 31), events_);
        assert_int_equal(events_, EVENTS);
        assert_non_null(strstr(heard, "data: two\ndata: lines\ndata: three\n\n"));
        close(s[i]);
    }
    sg_http_stream_end(&stream[3]);
    wait_until(sg_http_server_counts(server).streams == 0);
    streams = 0;
    close(open_stream());
}

static int gone_sources(void)
{
    pthread_mutex_lock(&lock);
    const int n = sources_gone;
    pthread_mutex_unlock(&lock);
    return n;
}

static void events_come_from_a_source(void **state)
{
    start();
    for (int round = 0; round < 2; round++) { /* the source ends; the client leaves */
        const int s = dial();
        say(s, request("GET /pull", "", ""));
        hear(s, "\r\n\r\n");
        for (int i = 10; i <= (round ? 50 : 100); i += 10) {
            char last[20];
            pthread_mutex_lock(&lock);
            given = i;
            if (pulled) sg_http_stream_wake(pulled);
            pthread_mutex_unlock(&lock);
            snprintf(last, sizeof last, "data: %d.\n\n", i - 1);
            hear(s, last);
        }
        if (!round) {
            hear(s, NULL);
            assert_string_equal(heard, "\r\n0\r\n\r\n");
        }
        close(s);
        wait_until(gone_sources() == round + 1);
        assert_null(pulled);
        pulls = given = 0;
    }
    assert_int_equal(sg_http_server_counts(server).streams, 0);
}

static void a_silent_stream_is_kept_alive(void **state)
{
    settings.limits.stream_pause = 0.1;
    settings.limits.answer_time = 0.1;
    settings.limits.rate = 1e12;
    start();
    const int s = open_stream();
    for (int i = 0; i < 3; i++) hear(s, ":\n\n");
    assert_true(sg_http_stream_event(stream[0], NULL, "still here"));
    hear(s, "data: still here\n\n");
    close(s);
}

static void an_event_may_be_larger_than_what_may_wait(void **state)
{
    static char data[5000];
    int         got = 0;
    memset(data, 'x', sizeof data - 1);
    settings.limits.stream = 1000;
    start();
    const int s = open_stream();
    assert_true(sg_http_stream_event(stream[0], NULL, data));
    hear(s, "\n\n");
    for (const char *c = heard; *c; c++) got += *c == 'x';
    assert_int_equal(got, sizeof data - 1);
    close(s);
}

static void a_slow_reader_loses_its_stream(void **state)
{
    static char data[1 << 16];
    memset(data, 'x', sizeof data - 1);
    settings.limits.stream_time = 0.3;
    start();
    int s = open_stream();
    for (int i = 0; sg_http_stream_event(stream[0], NULL, data); i++) assert_true(i < 10000); /* more than may wait */
    wait_until(connections() == 0);
    close(s);
    s = open_stream();
    for (int i = 0; connections() == 1; i++) { /* less than may wait, and sockets hold some; but nothing is taken */
        assert_true(i < PATIENCE_MS / 5);
        sg_http_stream_event(stream[1], NULL, "x");
        if (i < 200) sg_http_stream_event(stream[1], NULL, data);
        pass_ms(5);
    }
    close(s);
}

static void *feed(void *context)
{
    (void)context;
    for (bool open = true; open;) {
        open = false;
        for (int i = 0; i < READERS; i++) open |= sg_http_stream_event(stream[i], "progress", "{}");
        pass_ms(1);
    }
    return NULL;
}

static void a_stop_ends_all(void **state)
{
    int       s[READERS];
    pthread_t feeder;
    start();
    const int waits = dial(), idle = dial(), half = dial();
    say(half, "GET /te");
    for (int i = 0; i < READERS; i++) s[i] = open_stream();
    say(waits, request("GET /later", "", ""));
    sg_http_request *const r = wait_for_kept();
    assert_int_equal(pthread_create(&feeder, NULL, feed, NULL), 0);
    const int port = sg_http_server_port(server);
    hear(s[0], "event: progress");
    sg_http_server_stop(&server);
    assert_null(server);
    pthread_join(feeder, NULL);
    for (int i = 0; i < READERS; i++) {
        hear(s[i], NULL);
        const size_t n = strlen(heard);
        assert_true(n >= 5 && strcmp(heard + n - 5, "0\r\n\r\n") == 0); /* the end, not a cut */
        close(s[i]);
    }
    hear(waits, NULL);
    expect_error("kept", status_of(heard), 503);
    assert_true(closed(idle) && closed(half));
    assert_true(sg_http_gone(r));
    sg_http_answer_error(r, 500, NULL, "nobody hears it");
    close(waits), close(idle), close(half);
    settings.port = port; /* which is free again */
    for (int i = 0; i < READERS; i++) sg_http_stream_end(&stream[i]);
    streams = 0;
    start();
    assert_int_equal(ask("GET /tell", "", ""), 200);
}

static void addresses_that_cannot_be(void **state)
{
    sg_error        e = {0};
    sg_http_server *other = NULL;
    start();
    settings.port = sg_http_server_port(server);
    assert_refused(sg_http_server_start(&other, &settings, &e), SG_E_DEVICE, &e, "127.0.0.1");
    settings.host = "192.0.2.1"; /* of documents */
    assert_refused(sg_http_server_start(&other, &settings, &e), SG_E_DEVICE, &e, "192.0.2.1");
    settings.host = "not a name";
    assert_refused(sg_http_server_start(&other, &settings, &e), SG_E_ARG, &e, "not a name");
    assert_null(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, usual, stop)
    const struct CMUnitTest tests[] = {
        TEST(handlers_answer_requests),
        TEST(answers_keep_browsers_in_bounds),
        TEST(files_are_sent_in_parts),
        TEST(a_file_may_go_while_it_is_sent),
        TEST(requests_may_follow_each_other),
        TEST(heads_are_judged),
        TEST(names_of_other_sites_are_refused),
        TEST(other_sites_need_leave),
        TEST(the_key_opens),
        TEST(a_proxy_says_how_it_was_asked),
        TEST(forms_become_fields_and_files),
        TEST(uploads_have_limits),
        TEST(bodies_of_wrong_length),
        TEST(bodies_in_chunks),
        TEST(heads_have_limits),
        TEST(bytes_that_are_no_http),
        TEST(a_slow_head_is_ended),
        TEST(a_slow_body_is_ended),
        TEST(a_slow_reader_is_ended),
        TEST(many_connections_take_turns),
        TEST(idle_connections_make_room),
        TEST(an_address_has_a_share),
        TEST(an_answer_may_come_later),
        TEST(a_kept_request_counts_when_its_client_has_left),
        TEST(answers_that_nobody_reads_have_limits),
        TEST(streams_have_many_readers),
        TEST(events_come_from_a_source),
        TEST(a_silent_stream_is_kept_alive),
        TEST(an_event_may_be_larger_than_what_may_wait),
        TEST(a_slow_reader_loses_its_stream),
        TEST(a_stop_ends_all),
        TEST(addresses_that_cannot_be),
    };
    return cmocka_run_group_tests_name("http", tests, enter_folder, leave_folder);
}
