/* http_parse.c - see http_parse.h. */
#include "http_parse.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the target ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes text[n] to out, which has room for n + 1 bytes and may be text. */
static bool decode(char *out, const char *text, size_t n, bool plus)
{
    size_t length = 0, bad;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == '%') {
            const int high = i + 2 < n ? hex_digit(text[i + 1]) : -1;
            const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
            if (low < 0) return false;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        out[length++] = c;
    }
    out[length] = '\0';
    if (!sg_utf8_check(out, length, &bad)) return false;
    for (const char *c = out; c < out + length; c++)
        if (!*c || (sg_utf8_control(c) && *c != '\t' && *c != '\n')) return false;
    return true;
}

bool sg_http_target_parse(sg_http_target *t, const char *raw)
{
    *t = (sg_http_target){0};
    for (const char *c = raw; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f || *c == '#') return false;
    if (*raw != '/') return false;
    char *at = t->memory = strdup(raw);
    if (!at) return false;
    t->path = at;
    at = strchr(at, '?');
    if (!at) return true;
    *at++ = '\0';
    while (*at) {
        char *const  name = at;
        const size_t n = strcspn(at, "&");
        const bool   last = !name[n];
        at += last ? n : n + 1;
        name[n] = '\0';
        if (!n) continue;
        if (t->parameters == SG_HTTP_PARAMETERS) return false;
        char *value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        else
            value = name + n;
        if (!decode(name, name, strlen(name), true) || !decode(value, value, strlen(value), true)) return false;
        t->query[t->parameters++] = (sg_http_pair){name, value};
    }
    return true;
}

void sg_http_target_free(sg_http_target *t)
{
    free(t->memory);
    *t = (sg_http_target){0};
}

const char *sg_http_target_value(const sg_http_target *t, const char *name)
{
    for (int i = 0; i < t->parameters; i++)
        if (strcmp(t->query[i].name, name) == 0) return t->query[i].value;
    return NULL;
}

bool sg_http_path_fits(const char *path, const char *pattern, char id[SG_HTTP_ID])
{
    static const char place[] = "{id}";
    const char *const hole = strstr(pattern, place);
    *id = '\0';
    if (!hole) return strcmp(path, pattern) == 0;
    const size_t before = (size_t)(hole - pattern);
    if (strncmp(path, pattern, before) != 0) return false;
    const char *const segment = path + before;
    const size_t      n = strcspn(segment, "/");
    if (strcmp(segment + n, hole + sizeof place - 1) != 0) return false;
    if (n >= SG_HTTP_ID || !decode(id, segment, n, false) || strpbrk(id, "/\\\t\n") || !*id || strcmp(id, ".") == 0 ||
        strcmp(id, "..") == 0) {
        *id = '\0';
        return false;
    }
    return true;
}

/* ---- who asks ---- */

const char *sg_http_bearer(const char *authorization)
{
    static const char scheme[] = "Bearer ";
    if (strncasecmp(authorization, scheme, sizeof scheme - 1) != 0) return NULL;
    authorization += sizeof scheme - 1;
    authorization += strspn(authorization, " ");
    return *authorization ? authorization : NULL;
}

bool sg_http_same_secret(const char *given, const char *secret)
{
    const size_t    n = strlen(given), length = strlen(secret);
    volatile size_t differs = n ^ length;
    for (size_t i = 0; i < n; i++) differs |= (size_t)(unsigned char)(given[i] ^ secret[length ? i % length : 0]);
    return !differs;
}

bool sg_http_cookie(const char *header, const char *name, char value[SG_HTTP_TOKEN + 1])
{
    const size_t length = strlen(name);
    for (const char *at = header;; at++) {
        at += strspn(at, " ;");
        const size_t n = strcspn(at, ";");
        if (n == length + 1 + SG_HTTP_TOKEN && strncmp(at, name, length) == 0 && at[length] == '=') {
            memcpy(value, at + length + 1, SG_HTTP_TOKEN);
            value[SG_HTTP_TOKEN] = '\0';
            return true;
        }
        at += n;
        if (!*at) return false;
    }
}

/* ---- hosts and origins ---- */

/* The parts of NAME[:PORT]. */
typedef struct host_parts {
    const char *name; /* an address of IPv6 is without its brackets */
    size_t      n;
    int         port; /* -1: none */
    bool        address;
} host_parts;

static bool all_of(const char *text, size_t n, const char *set) { return n && strspn(text, set) >= n; }

static bool split(host_parts *h, const char *text)
{
    const char *end;
    *h = (host_parts){.name = text, .port = -1};
    if (*text == '[') {
        h->name++;
        end = strchr(text, ']');
        h->n = end ? (size_t)(end - h->name) : 0;
        h->address = true;
        if (!all_of(h->name, h->n, "0123456789abcdefABCDEF:.")) return false;
        end++;
    } else {
        h->n = strcspn(text, ":");
        end = text + h->n;
        h->address = all_of(h->name, h->n, "0123456789.");
        if (!all_of(h->name, h->n, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_")) return false;
    }
    if (!*end) return true;
    const size_t digits = strspn(end + 1, "0123456789");
    if (*end != ':' || !digits || digits > 5 || end[1 + digits]) return false;
    h->port = atoi(end + 1);
    return h->port <= 65535;
}

static bool is_name(const host_parts *h, const char *name)
{
    return strlen(name) == h->n && strncasecmp(h->name, name, h->n) == 0;
}

bool sg_http_host_valid(const char *name) { return split(&(host_parts){0}, name); }

bool sg_http_origin_valid(const char *origin)
{
    const size_t n = strspn(origin, "abcdefghijklmnopqrstuvwxyz0123456789+.-");
    return n && strncmp(origin + n, "://", 3) == 0 && sg_http_host_valid(origin + n + 3);
}

bool sg_http_host_allowed(const sg_http_names *n, const char *text)
{
    host_parts h, other;
    if (!split(&h, text)) return false;
    for (const char *const *name = n->hosts; name && *name; name++)
        if (split(&other, *name) && other.n == h.n && strncasecmp(other.name, h.name, h.n) == 0 &&
            (other.port < 0 || other.port == h.port))
            return true;
    if ((h.port < 0 ? 80 : h.port) != n->port) return false;
    return is_name(&h, "localhost") || is_name(&h, "127.0.0.1") || is_name(&h, "::1") || is_name(&h, n->listen) ||
           (n->any && h.address);
}

sg_http_origin sg_http_origin_of(const sg_http_names *n, const char *origin, const char *host)
{
    for (const char *const *name = n->origins; name && *name; name++)
        if (strcasecmp(origin, *name) == 0) return SG_HTTP_OTHER;
    const char *const scheme_end = strstr(origin, "://");
    const bool        web = strncasecmp(origin, "http://", 7) == 0 || strncasecmp(origin, "https://", 8) == 0;
    return web && strcasecmp(scheme_end + 3, host) == 0 ? SG_HTTP_OURS : SG_HTTP_FOREIGN;
}

/* ---- bodies and parts of files ---- */

bool sg_http_type_is(const char *header, const char *type)
{
    const size_t n = strlen(type);
    if (strncasecmp(header, type, n) != 0) return false;
    header += n + strspn(header + n, " \t");
    return !*header || *header == ';';
}

bool sg_http_boundary_valid(const char *header)
{
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'()+_,-./:=?";
    static const char word[] = "boundary=";
    const char       *at = strchr(header, ';');
    if (!at) return false;
    at += 1 + strspn(at + 1, " \t");
    if (strncmp(at, word, sizeof word - 1) != 0) return false;
    at += sizeof word - 1;
    const bool   quoted = *at == '"';
    const size_t n = strspn(at + quoted, set);
    at += quoted + n;
    return n >= 2 && n <= 70 && (quoted ? strcmp(at, "\"") == 0 : !*at);
}

/* Reads digits; what is too large becomes the largest. False: there are none. */
static bool read_number(const char **at, uint64_t *v)
{
    const size_t n = strspn(*at, "0123456789");
    *v = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t digit = (uint64_t)((*at)[i] - '0');
        *v = *v > (UINT64_MAX - digit) / 10 ? UINT64_MAX : 10 * *v + digit;
    }
    *at += n;
    return n > 0;
}

sg_http_range sg_http_range_parse(const char *header, uint64_t size, uint64_t *first, uint64_t *count)
{
    uint64_t from, to = UINT64_MAX;
    if (strncasecmp(header, "bytes=", 6) != 0) return SG_HTTP_WHOLE;
    header += 6;
    const bool has_from = read_number(&header, &from);
    if (*header++ != '-') return SG_HTTP_WHOLE;
    const bool has_to = read_number(&header, &to);
    if (*header || (!has_from && !has_to) || (has_from && has_to && to < from)) return SG_HTTP_WHOLE;
    if (!has_from) { /* the last `to` bytes */
        if (!to || !size) return SG_HTTP_OUTSIDE;
        *first = to < size ? size - to : 0;
        *count = size - *first;
        return SG_HTTP_PART;
    }
    if (from >= size) return SG_HTTP_OUTSIDE;
    *first = from;
    *count = (has_to && to < size ? to + 1 : size) - from;
    return SG_HTTP_PART;
}
