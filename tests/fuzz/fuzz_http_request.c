/* fuzz_http_request.c - any bytes as what a client sends to the web server. Handlers get what keeps to the limits, answers are
 * HTTP, and nothing of it stays: no connection and no upload. */
#include "expect.h"
#include "http_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LIMIT = 4096 };

static char            folder[] = "/tmp/sg_fuzz_uploads_XXXXXX";
static sg_http_server *server;

static void answer(sg_http_request *r)
{
    expect(strlen(r->id) < SG_HTTP_ID && !strchr(r->id, '/') && r->body_size <= LIMIT && r->body[r->body_size] == '\0');
    expect(!r->form || (r->form->field_bytes <= LIMIT && r->form->upload_bytes <= LIMIT && !r->form->status));
    sg_http_answer_json(r, 200, json_pack("{s:s}", "id", r->id));
}

static const sg_http_route routes[] = {{"GET", "/jobs/{id}", answer, 0},
                                       {"GET", "/jobs", answer, SG_HTTP_PUBLIC},
                                       {"POST", "/jobs", answer, SG_HTTP_JSON | SG_HTTP_FORM}};

static void end(void)
{
    sg_http_server_stop(&server);
    rmdir(folder);
}

static void start(void)
{
    sg_http_settings settings = {
        .host = "127.0.0.1", .uploads = folder, .limits = SG_HTTP_LIMITS, .route = routes, .routes = 3};
    static const char *const hosts[] = {"a", NULL};
    sg_error                 e = {0};
    settings.hosts = hosts;
    settings.limits.json = settings.limits.upload = settings.limits.head = LIMIT;
    expect(mkdtemp(folder) != NULL);
    expect(sg_http_server_start(&server, &settings, &e) == SG_OK);
    atexit(end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char         heard[1 << 16];
    const struct linger reset = {.l_onoff = 1}; /* else each connection takes a port for a minute */
    size_t              n = 0;
    ssize_t             got;
    if (!server) start();
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)sg_http_server_port(server))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    expect(s >= 0 && connect(s, (struct sockaddr *)&to, sizeof to) == 0);
    setsockopt(s, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    for (size_t sent = 0; sent < size && (got = send(s, data + sent, size - sent, MSG_NOSIGNAL)) > 0;)
        sent += (size_t)got;
    shutdown(s, SHUT_WR);
    while (n < sizeof heard - 1 && (got = recv(s, heard + n, sizeof heard - 1 - n, 0)) > 0) n += (size_t)got;
    heard[n] = '\0';
    close(s);
    expect(!n || strncmp(heard, "HTTP/1.", 7) == 0);
    while (sg_http_server_counts(server).connections) poll(NULL, 0, 1);
    expect(entries_of(folder) == 0);
    return 0;
}
