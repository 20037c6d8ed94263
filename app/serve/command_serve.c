/* command_serve.c - `sparge-gen serve`: opens all, listens until a signal comes or the device is broken, closes. */
#include "api.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/path.h"
#include "command.h"
#include "interrupt.h"
#include "progress.h"
#include "setup.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_LEAST = 16, KEY_MOST = 512, PORT = 8080, QUEUED = 100, KEPT = 1000 };
#define DISK ((int64_t)16 << 30)

typedef struct served {
    char        *folder, uploads[PATH_MAX], key[KEY_MOST + 1];
    const char  *hosts[SG_LIST_MAX + 1], *origins[SG_LIST_MAX + 1];
    sg_job_setup setup;
    sg_api       api;
    bool         has_api;
} served;

static void say(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "%s\n", text);
}

/* ---- who may use it ---- */

static bool is_loopback(const char *host)
{
    struct in_addr  v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, host, &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
    return strcmp(host, "localhost") == 0;
}

static sg_status read_key(char key[KEY_MOST + 1], const char *path, sg_error *e)
{
    sg_map map = {0};
    SG_TRY(sg_map_open_most(&map, path, KEY_MOST, e));
    size_t n = map.size;
    while (n && strchr(" \t\r\n", map.data[n - 1])) n--;
    memcpy(key, map.data, n);
    key[n] = '\0';
    sg_map_close(&map);
    for (size_t i = 0; i < n; i++)
        if (key[i] < 0x21 || key[i] > 0x7e)
            return sg_error_set(e, SG_E_FORMAT, "%s: a key has letters, digits and signs of ASCII, in one line", path);
    if (n < KEY_LEAST) return sg_error_set(e, SG_E_FORMAT, "%s: a key has at least %d characters", path, KEY_LEAST);
    return SG_OK;
}

static sg_status take_key(served *v, const sg_settings *s, sg_error *e)
{
    struct stat       st;
    const char *const file = s->api_key_file;
    if (file) {
        SG_TRY(sg_error_in(e, read_key(v->key, file, e), "--api-key-file"));
        if (stat(file, &st) == 0 && st.st_mode & S_IROTH)
            fprintf(stderr, "--api-key-file: %s: all users of this machine can read it\n", sg_show(file));
        return SG_OK;
    }
    if (!s->host || is_loopback(s->host)) return SG_OK;
    return sg_error_set(e, SG_E_ARG,
                        "--host %s: is none of 127.0.0.1, ::1 and localhost, which only this machine can use, so "
                        "--api-key-file FILE is needed",
                        sg_show(s->host));
}

/* What can never be in a header would be forgotten in silence. */
static sg_status check_names(const sg_settings *s, sg_error *e)
{
    for (int i = 0; i < s->allow_host.count; i++)
        if (!sg_http_host_valid(s->allow_host.item[i]))
            return sg_error_set(e, SG_E_ARG, "--allow-host: '%s' is no name as in video.example or box:9000",
                                sg_show(s->allow_host.item[i]));
    for (int i = 0; i < s->allow_origin.count; i++)
        if (!sg_http_origin_valid(s->allow_origin.item[i]))
            return sg_error_set(e, SG_E_ARG,
                                "--allow-origin: '%s' is no site as in https://app.example, without a path",
                                sg_show(s->allow_origin.item[i]));
    return SG_OK;
}

/* ---- folders ---- */

/* What a killed server left: a job has taken the others. */
static void clean(const char *folder)
{
    DIR *const d = opendir(folder);
    char       path[PATH_MAX];
    for (const struct dirent *at; d && (at = readdir(d));)
        if (sg_path_join(path, sizeof path, folder, at->d_name, NULL) == SG_OK) unlink(path);
    if (d) closedir(d);
}

static sg_status open_folder(served *v, const sg_settings *s, sg_error *e)
{
    enum { RESERVE = 128 }; /* for jobs/ID/FILE */
    SG_TRY(sg_output_folder_check(&v->folder, s->output ? s->output : "served", RESERVE, "--output", e));
    SG_TRY(sg_output_folder_make(v->folder, NULL, "--output", e));
    SG_TRY(sg_path_join(v->uploads, sizeof v->uploads, v->folder, "uploads", e));
    return sg_output_folder_make(v->uploads, NULL, "--output", e);
}

static sg_status check_folder(const char *path, const char *what, sg_error *e)
{
    DIR *const d = path ? opendir(path) : NULL;
    if (path && !d) return sg_error_set(e, SG_E_FILE, "%s: %s is no folder that can be read", what, path);
    if (d) closedir(d);
    return SG_OK;
}

/* ---- the whole ---- */

static sg_status open_jobs(served *v, const sg_settings *s, sg_error *e)
{
    sg_api *const       api = &v->api;
    const sg_job_limits limits = {.queued = s->max_queue ? s->max_queue : QUEUED,
                                  .kept = s->max_jobs ? s->max_jobs : KEPT,
                                  .bytes = s->max_disk ? (int64_t)s->max_disk : DISK};
    v->setup = (sg_job_setup){.base = s, .files = {.models = s->models, .loras = s->loras}, .log = {say, NULL}};
    api->log = v->setup.log;
    api->events = sg_job_events_open();
    if (!api->events) return sg_error_memory(e, "events");
    SG_TRY(sg_job_queue_open(&api->queue, v->folder, &limits, api->events, &v->setup.log, e));
    clean(v->uploads);
    SG_TRY(sg_job_runner_open(&api->runner, &v->setup, api->queue, api->events, e));
    SG_TRY(sg_api_open(api, e));
    v->has_api = true;
    return SG_OK;
}

static sg_status listen_on(served *v, const sg_settings *s, sg_error *e)
{
    sg_http_settings settings = {.host = s->host ? s->host : "127.0.0.1",
                                 .port = s->port < 0 ? PORT : s->port,
                                 .key = *v->key ? v->key : NULL,
                                 .hosts = v->hosts,
                                 .origins = v->origins,
                                 .uploads = v->uploads,
                                 .limits = SG_HTTP_LIMITS,
                                 .route = sg_api_routes,
                                 .routes = sg_api_route_count,
                                 .context = &v->api};
    memcpy(v->hosts, s->allow_host.item, sizeof s->allow_host.item);
    memcpy(v->origins, s->allow_origin.item, sizeof s->allow_origin.item);
    if (s->max_upload) settings.limits.upload = s->max_upload;
    if (settings.limits.disk < settings.limits.upload) settings.limits.disk = settings.limits.upload;
    SG_TRY(sg_http_server_start(&v->api.server, &settings, e));
    const bool v6 = strchr(settings.host, ':') != NULL;
    fprintf(stderr, "serving %s at http://%s%s%s:%d/; jobs and results are in %s\n", v->setup.files.usual_name,
            v6 ? "[" : "", settings.host, v6 ? "]" : "", sg_http_server_port(v->api.server), v->folder);
    return SG_OK;
}

static sg_status run(served *v, const sg_settings *s, sg_error *e)
{
    enum { LOOK_MS = 200 };
    sg_model_path model;
    SG_TRY(check_names(s, e));
    SG_TRY(take_key(v, s, e));
    SG_TRY(sg_setup_model(&model, s, e)); /* before there is a folder */
    SG_TRY(check_folder(s->models, "--models", e));
    SG_TRY(check_folder(s->loras, "--loras", e));
    SG_TRY(open_folder(v, s, e));
    SG_TRY(open_jobs(v, s, e));
    SG_TRY(listen_on(v, s, e));
    sg_interrupt_answer(sg_progress_terminal());
    sg_status status = SG_OK;
    while (status == SG_OK && !sg_interrupt_asked()) {
        poll(NULL, 0, LOOK_MS); /* another thread may get the signal */
        status = sg_job_runner_check(v->api.runner, e);
    }
    return status;
}

sg_status sg_command_serve(const sg_settings *s, sg_error *e)
{
    served *const v = calloc(1, sizeof *v);
    if (!v) return sg_error_memory(e, "serve");
    const sg_status status = run(v, s, e);
    if (v->api.server) sg_http_server_stop(&v->api.server);
    sg_job_runner_close(&v->api.runner);
    if (v->has_api) sg_api_close(&v->api);
    sg_job_queue_close(&v->api.queue);
    sg_job_events_close(&v->api.events);
    free(v->folder);
    free(v);
    return status;
}
