/* http_head.c - see http_head.h. */
#include "http_head.h"
#include "base/json_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- headers ---- */

/* A name is a token, and a value has no control characters (RFC 9110, 5.1 and 5.5). A proxy may read a header
 * that breaks this rule, as "Host :" does, in another way than we do. */
static bool header_is_valid(const char *name, size_t name_size, const char *value, size_t value_size)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    bool              valid = name && strspn(name, token) == name_size;
    for (size_t i = 0; i < value_size && valid; i++)
        valid = ((unsigned char)value[i] >= ' ' && value[i] != 0x7f) || value[i] == '\t';
    return valid;
}

static enum MHD_Result take_header(void *context, enum MHD_ValueKind kind, const char *name, size_t name_size,
                                   const char *value, size_t value_size)
{
    static const char *const names[SG_HTTP_HEADERS] = {[SG_HTTP_HOST] = "Host",
                                                       [SG_HTTP_ORIGIN] = "Origin",
                                                       [SG_HTTP_FORWARDED_PROTO] = "X-Forwarded-Proto",
                                                       [SG_HTTP_AUTHORIZATION] = "Authorization",
                                                       [SG_HTTP_CONTENT_TYPE] = "Content-Type",
                                                       [SG_HTTP_CONTENT_LENGTH] = "Content-Length",
                                                       [SG_HTTP_TRANSFER_ENCODING] = "Transfer-Encoding",
                                                       [SG_HTTP_EXPECT] = "Expect",
                                                       [SG_HTTP_FETCH_SITE] = "Sec-Fetch-Site",
                                                       [SG_HTTP_FETCH_MODE] = "Sec-Fetch-Mode",
                                                       [SG_HTTP_RANGE] = "Range",
                                                       [SG_HTTP_IF_RANGE] = "If-Range",
                                                       [SG_HTTP_IF_NONE_MATCH] = "If-None-Match",
                                                       [SG_HTTP_COOKIE] = "Cookie"};
    sg_http_exchange *const  x = context;
    (void)kind;
    x->malformed = !header_is_valid(name, name_size, value, value_size);
    for (int i = 0; i < SG_HTTP_HEADERS && !x->malformed; i++) {
        if (strcasecmp(name, names[i]) != 0) continue;
        if (x->header[i]) x->malformed = true; /* a proxy may have used the other one */
        if (!x->malformed) x->header[i] = strdup(value ? value : "");
        if (!x->header[i]) x->malformed = true;
    }
    return x->malformed ? MHD_NO : MHD_YES;
}

static size_t head_size(const sg_http_exchange *x)
{
    return MHD_get_connection_info(x->connection->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
}

static void refuse_head(sg_http_exchange *x)
{
    const sg_http_limits *const limits = &x->server->settings.limits;
    MHD_get_connection_values_n(x->connection->mhd, MHD_HEADER_KIND, take_header, x);
    if (head_size(x) > limits->head)
        sg_http_answer_error(&x->request, 431, NULL, "a head of more than %zu bytes", limits->head);
    else if (x->malformed)
        sg_http_answer_error(&x->request, 400, NULL, "a header is malformed, or there twice");
    else if (!x->target_valid)
        sg_http_answer_error(&x->request, 400, NULL, "the target is malformed, or has more than %d parameters",
                             SG_HTTP_PARAMETERS);
}

/* ---- who asks ---- */

/* Tells whether a browser says that a page of another site sends this, unless somebody just follows a link. */
static bool from_elsewhere(const sg_http_exchange *x, const char *method)
{
    const char *const site = x->header[SG_HTTP_FETCH_SITE], *const mode = x->header[SG_HTTP_FETCH_MODE];
    if (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0) return false;
    return !(strcmp(method, "GET") == 0 && mode && strcmp(mode, "navigate") == 0);
}

static void refuse_site(sg_http_exchange *x, const char *method)
{
    const sg_http_names *const names = &x->server->names;
    const char *const host = x->header[SG_HTTP_HOST], *const origin = x->header[SG_HTTP_ORIGIN];
    if (!host) {
        sg_http_answer_error(&x->request, 400, NULL, "there is no Host header");
    } else if (!sg_http_host_allowed(names, host)) {
        sg_http_answer_error(&x->request, 403, NULL,
                             "this server does not answer to that Host; --allow-host names more");
    } else if (origin) {
        const sg_http_origin who = sg_http_origin_of(names, origin, host);
        x->other_site = who == SG_HTTP_OTHER;
        if (who == SG_HTTP_FOREIGN)
            sg_http_answer_error(&x->request, 403, NULL, "this site may not ask; --allow-origin names those that may");
    } else if (from_elsewhere(x, method)) {
        sg_http_answer_error(&x->request, 403, NULL, "another site may not ask without an Origin");
    }
}

static void refuse_stranger(sg_http_exchange *x)
{
    const sg_http_server *const s = x->server;
    const char *const authorization = x->header[SG_HTTP_AUTHORIZATION], *const cookies = x->header[SG_HTTP_COOKIE];
    const char *const given = authorization ? sg_http_bearer(authorization) : NULL;
    char              token[SG_HTTP_TOKEN + 1];
    if (!s->settings.key || x->route->flags & SG_HTTP_PUBLIC) return;
    if (given && sg_http_same_secret(given, s->settings.key)) return;
    if (cookies && sg_http_cookie(cookies, s->cookie, token) && sg_http_same_secret(token, s->token)) return;
    sg_http_header(&x->request, "WWW-Authenticate", "Bearer");
    sg_http_answer_error(&x->request, 401, NULL,
                         given ? "the key is wrong" : "this needs the key: Authorization: Bearer KEY");
}

static void login(sg_http_request *r)
{
    const sg_http_server *const s = ((sg_http_exchange *)r)->server;
    json_t                     *json = NULL;
    sg_json_fault               fault;
    char                        cookie[128];
    if (sg_json_parse(&json, r->body, r->body_size, 4, 0, &fault) != SG_OK) {
        sg_http_answer_error(r, 400, NULL, "%s", fault.text);
        return;
    }
    const char *const key = json_string_value(json_object_get(json, "key"));
    if (!s->settings.key || (key && sg_http_same_secret(key, s->settings.key))) {
        snprintf(cookie, sizeof cookie, "%s=%s; Path=/; HttpOnly; SameSite=Strict%s", s->cookie, s->token,
                 strcmp(sg_http_scheme(r), "https") == 0 ? "; Secure" : "");
        sg_http_header(r, "Set-Cookie", cookie);
        sg_http_answer(r, 204, NULL, NULL, 0);
    } else {
        sg_http_answer_error(r, 401, "key", "the key is wrong");
    }
    json_decref(json);
}

/* ---- what is asked for ---- */

static void put_method(char *allow, size_t size, const char *method)
{
    sg_text_append(allow, size, "%s%s", *allow ? ", " : "", method);
}

/* Finds the route, or answers: with 404 or 405, and to OPTIONS. */
static void find_route(sg_http_exchange *x, const char *method)
{
    static const sg_http_route    login_route = {"POST", "/login", login, SG_HTTP_JSON | SG_HTTP_PUBLIC};
    const sg_http_settings *const t = &x->server->settings;
    const char *const             wanted = x->head_only ? "GET" : method;
    char                          allow[128] = "", id[SG_HTTP_ID];
    for (int i = -1; i < t->routes && !x->route; i++) {
        const sg_http_route *const route = i < 0 ? &login_route : &t->route[i];
        if (!sg_http_path_fits(x->request.target.path, route->pattern, id)) continue;
        put_method(allow, sizeof allow, route->method);
        if (strcmp(route->method, "GET") == 0) put_method(allow, sizeof allow, "HEAD");
        if (strcmp(route->method, wanted) != 0) continue;
        x->route = route;
        x->request.method = route->method;
        memcpy(x->id, id, sizeof id);
    }
    if (x->route) return;
    if (!*allow) {
        sg_http_answer_error(&x->request, 404, NULL, "there is nothing at this path");
        return;
    }
    put_method(allow, sizeof allow, "OPTIONS");
    sg_http_header(&x->request, "Allow", allow);
    if (strcmp(method, "OPTIONS") != 0) {
        sg_http_answer_error(&x->request, 405, NULL, "this path has %s", allow);
        return;
    }
    if (x->other_site) {
        sg_http_header(&x->request, "Access-Control-Allow-Methods", allow);
        sg_http_header(&x->request, "Access-Control-Allow-Headers", "Authorization, Content-Type, Range");
        sg_http_header(&x->request, "Access-Control-Max-Age", "600");
    }
    sg_http_answer(&x->request, 204, NULL, NULL, 0);
}

/* ---- the body ---- */

/* Reads the length of the body; UINT64_MAX: it comes in chunks. False: a header of it is malformed. */
static bool body_length(const sg_http_exchange *x, const char *version, uint64_t *length)
{
    const char *const coding = x->header[SG_HTTP_TRANSFER_ENCODING], *const size = x->header[SG_HTTP_CONTENT_LENGTH];
    *length = coding ? UINT64_MAX : 0;
    if (coding) return !size && strcasecmp(coding, "chunked") == 0 && strcmp(version, "HTTP/1.0") != 0;
    if (!size) return true;
    *length = strtoull(size, NULL, 10);
    return *size && size[strspn(size, "0123456789")] == '\0' && *length <= INT64_MAX; /* MHD's unknown is UINT64_MAX */
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Reserves memory and disk for body and head: a kept request holds them even when its client has left. */
static bool reserve(sg_http_exchange *x, size_t body, size_t disk)
{
    sg_http_server *const       s = x->server;
    const sg_http_limits *const limits = &s->settings.limits;
    const size_t                memory = sizeof *x + head_size(x) + body;
    pthread_mutex_lock(&s->lock);
    const bool fits = memory <= limits->memory - s->memory && disk <= limits->disk - s->disk;
    if (fits) {
        s->memory += x->memory = memory;
        s->disk += x->disk = disk;
    }
    pthread_mutex_unlock(&s->lock);
    return fits;
}

static enum MHD_Result take_part(void *context, enum MHD_ValueKind kind, const char *name, const char *file_name,
                                 const char *type, const char *coding, const char *data, uint64_t offset, size_t bytes)
{
    sg_http_form *const form = context;
    (void)kind;
    (void)type;
    (void)coding;
    sg_http_form_take(form, name, file_name, offset, data, bytes);
    return form->status ? MHD_NO : MHD_YES;
}

static void begin_form(sg_http_exchange *x)
{
    enum { BUFFER = 16384 };
    const sg_http_settings *const t = &x->server->settings;
    sg_http_form *const           form = x->request.form = malloc(sizeof *form);
    if (form) sg_http_form_init(form, t->uploads, (sg_http_form_limits){t->limits.json, t->limits.upload});
    if (form) x->form_reader = MHD_create_post_processor(x->connection->mhd, BUFFER, take_part, form);
    if (!x->form_reader) sg_http_answer_json(&x->request, 500, NULL);
}

static void begin_body(sg_http_exchange *x, uint64_t length)
{
    const sg_http_limits *const limits = &x->server->settings.limits;
    const char *const           type = x->header[SG_HTTP_CONTENT_TYPE] ? x->header[SG_HTTP_CONTENT_TYPE] : "";
    const int                   flags = x->route->flags;
    const bool                  form = flags & SG_HTTP_FORM && sg_http_type_is(type, "multipart/form-data");
    const bool                  json = flags & SG_HTTP_JSON && sg_http_type_is(type, "application/json");
    const uint64_t              most = form ? limits->upload + limits->json : limits->json;
    x->drop = !(flags & (SG_HTTP_FORM | SG_HTTP_JSON));
    if (!x->drop && !x->header[SG_HTTP_CONTENT_LENGTH] && length != UINT64_MAX)
        sg_http_answer_error(&x->request, 411, NULL, "there is no body, or no Content-Length");
    else if (!x->drop && !form && !json)
        sg_http_answer_error(&x->request, 415, NULL, "this takes %s%s%s",
                             flags & SG_HTTP_JSON ? "application/json" : "",
                             (flags & SG_HTTP_JSON) && (flags & SG_HTTP_FORM) ? " and " : "",
                             flags & SG_HTTP_FORM ? "multipart/form-data" : "");
    else if (form && !sg_http_boundary_valid(type))
        sg_http_answer_error(&x->request, 400, NULL,
                             "Content-Type: the boundary is missing or malformed, or not the only parameter");
    else if (length != UINT64_MAX && length > most)
        sg_http_answer_error(&x->request, 413, NULL, "a body of more than %llu bytes", (unsigned long long)most);
    else if (!x->drop && !reserve(x, form ? limits->json : (size_t)smaller(length, most) + 1,
                                  form ? (size_t)smaller(length, limits->upload) : 0))
        sg_http_answer_busy(&x->request, "too many bodies at once");
    else if (form)
        begin_form(x);
}

bool sg_http_head(sg_http_exchange *x, const char *method, const char *version)
{
    uint64_t length;
    x->head_only = strcmp(method, "HEAD") == 0;
    refuse_head(x);
    if (x->answered) return false;
    if (!body_length(x, version, &length)) {
        sg_http_answer_error(&x->request, 400, NULL, "Content-Length or Transfer-Encoding is malformed");
        return false;
    }
    refuse_site(x, method);
    if (!x->answered) find_route(x, method);
    if (!x->answered) refuse_stranger(x);
    if (!x->answered) begin_body(x, length);
    if (!x->answered) return true;
    x->drop = true; /* a short one is read, for a client that sends all of it before it reads the answer */
    return !x->header[SG_HTTP_EXPECT] && (length == UINT64_MAX || length <= x->server->settings.limits.json);
}

static void refuse_form(sg_http_exchange *x)
{
    const sg_http_form *const form = x->request.form;
    sg_http_answer_error(&x->request, form->status ? form->status : 400, NULL, "%s",
                         form->status ? form->problem : "the form is malformed");
}

bool sg_http_body(sg_http_exchange *x, const char *data, size_t bytes, uint64_t got)
{
    const sg_http_limits *const limits = &x->server->settings.limits;
    if (got > 2 * limits->json + (x->form_reader ? limits->upload : 0)) return false;
    if (x->drop) return true;
    if (x->form_reader) {
        if (MHD_post_process(x->form_reader, data, bytes) == MHD_YES) return true;
        refuse_form(x);
    } else if (bytes > limits->json - x->body.len) {
        sg_http_answer_error(&x->request, 413, NULL, "a body of more than %zu bytes", limits->json);
    } else {
        sg_textbuf_put(&x->body, data, bytes);
    }
    x->drop = x->answered;
    return true;
}

void sg_http_body_end(sg_http_exchange *x)
{
    sg_http_form *const form = x->request.form;
    if (x->form_reader) {
        const bool whole = MHD_destroy_post_processor(x->form_reader) == MHD_YES;
        x->form_reader = NULL;
        sg_http_form_end(form);
        if (!whole || form->status) refuse_form(x);
    } else if (x->body.failed) {
        sg_http_answer_json(&x->request, 500, NULL);
    } else if (x->body.len) {
        x->request.body = x->body.data;
        x->request.body_size = x->body.len;
    }
}
