/* http_parse.h - parses and checks what the head of a request has, as text: no sockets, no files. */
#ifndef SG_HTTP_PARSE_H
#define SG_HTTP_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SG_HTTP_PARAMETERS = 32, SG_HTTP_ID = 129, SG_HTTP_TOKEN = 32 };

typedef struct sg_http_pair {
    const char *name, *value; /* decoded: UTF-8 without control characters but tab and newline */
} sg_http_pair;

/* The target of a request: "/jobs/1?limit=2". */
typedef struct sg_http_target {
    const char  *path; /* as it was sent: escapes stay */
    sg_http_pair query[SG_HTTP_PARAMETERS];
    int          parameters;
    char        *memory; /* that they point into */
} sg_http_target;

/* False: malformed, or too many parameters, or no memory. The caller frees the target, after a failure too. */
bool sg_http_target_parse(sg_http_target *t, const char *raw);
void sg_http_target_free(sg_http_target *t);

/* Returns the first value of that name, or NULL. */
const char *sg_http_target_value(const sg_http_target *t, const char *name);

/* Tells whether path fits a pattern like "/jobs/{id}/content", with one {id} at most, which is a whole segment. id
 * becomes what stands there, decoded: UTF-8 without control characters and slashes, neither empty nor "." nor "..". */
bool sg_http_path_fits(const char *path, const char *pattern, char id[SG_HTTP_ID]);

/* Returns the key in "Bearer KEY", or NULL. */
const char *sg_http_bearer(const char *authorization);

/* Compares in a time that depends on the length of `given` alone. */
bool sg_http_same_secret(const char *given, const char *secret);

/* Copies the value of the cookie of that name from a Cookie header. False: it is not there, or its length is not
 * SG_HTTP_TOKEN. */
bool sg_http_cookie(const char *header, const char *name, char value[SG_HTTP_TOKEN + 1]);

/* Which hosts and origins a server answers to. The lists end in NULL; a NULL is an empty list. */
typedef struct sg_http_names {
    const char        *listen; /* the address that it listens on, as it was given */
    int                port;
    bool               any;     /* it is 0.0.0.0 or ::, so any address, though no name, may be this machine's */
    const char *const *hosts;   /* of --allow-host, with a port or for all: "video.example", "box:9000" */
    const char *const *origins; /* of --allow-origin: "https://app.example" */
} sg_http_names;

/* Tells whether a text has the form of a Host header, NAME[:PORT], or of an Origin header, SCHEME://NAME[:PORT]. */
bool sg_http_host_valid(const char *name);
bool sg_http_origin_valid(const char *origin);

/* Tells whether a request with this Host header is answered: it has to name an address that the server listens on, or
 * a name of --allow-host. Else a page of another site could send requests here, by a name of that site that resolves to
 * our address (DNS rebinding). */
bool sg_http_host_allowed(const sg_http_names *n, const char *host);

typedef enum sg_http_origin { SG_HTTP_OURS, SG_HTTP_OTHER, SG_HTTP_FOREIGN } sg_http_origin;

/* Tells whose an Origin header is, beside an allowed Host header: our own page's, that of a site of --allow-origin, or
 * that of any other. */
sg_http_origin sg_http_origin_of(const sg_http_names *n, const char *origin, const char *host);

/* Tells whether a Content-Type is this one, whatever its parameters are. */
bool sg_http_type_is(const char *header, const char *type);

/* Tells whether the Content-Type of a form has a valid boundary as its one parameter, of at least two bytes, as
 * libmicrohttpd needs it. */
bool sg_http_boundary_valid(const char *header);

typedef enum sg_http_range { SG_HTTP_WHOLE, SG_HTTP_PART, SG_HTTP_OUTSIDE } sg_http_range;

/* Reads a Range header for a file of that size. Of a part, *first and *count become its place, within the file. What is
 * malformed, or names several parts, asks for the whole (RFC 9110, 14.2). */
sg_http_range sg_http_range_parse(const char *header, uint64_t size, uint64_t *first, uint64_t *count);

#endif
