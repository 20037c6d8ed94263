/* hostile_make.c - see hostile.h: the ways to break a file. */
#include "hostile.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct bytes {
    char  *at; /* a NUL follows */
    size_t n;
} bytes;

static bytes load(const char *path)
{
    FILE *const f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) hostile_die(path);
    bytes b = {.n = (size_t)ftell(f)};
    rewind(f);
    if (!(b.at = calloc(b.n + 1, 1)) || fread(b.at, 1, b.n, f) != b.n) hostile_die(path);
    fclose(f);
    return b;
}

static FILE *create(const char *path)
{
    FILE *const f = fopen(path, "wb");
    if (!f) hostile_die(path);
    return f;
}

static void finish(FILE *f, const char *path)
{
    if (fclose(f) != 0) hostile_die(path);
}

static void save(const char *path, const void *at, size_t n)
{
    FILE *const f = create(path);
    fwrite(at, 1, n, f);
    finish(f, path);
}

static void put_length(FILE *f, uint64_t n)
{
    for (int i = 0; i < 8; i++) putc((int)(n >> (8 * i) & 0xff), f);
}

/* ---- any file ---- */

void hostile_put(const char *from, const char *to, const hostile_case *c)
{
    (void)from;
    save(to, c->value, strlen(c->value));
}

void hostile_swap(const char *from, const char *to, const hostile_case *c)
{
    const bytes b = load(from);
    char *const at = memmem(b.at, b.n, c->key, strlen(c->key));
    if (!at) hostile_die(c->name);
    const size_t before = (size_t)(at - b.at), after = before + strlen(c->key);
    FILE *const  f = create(to);
    fwrite(b.at, 1, before, f);
    fputs(c->value, f);
    fwrite(b.at + after, 1, b.n - after, f);
    finish(f, to);
    free(b.at);
}

void hostile_add(const char *from, const char *to, const hostile_case *c)
{
    const bytes b = load(from);
    FILE *const f = create(to);
    fwrite(b.at, 1, b.n, f);
    fputs(c->value, f);
    finish(f, to);
    free(b.at);
}

void hostile_cut(const char *from, const char *to, const hostile_case *c)
{
    const bytes b = load(from);
    const long  n = atol(c->value);
    save(to, b.at, n < 0 ? b.n - (size_t)-n : (size_t)n);
    free(b.at);
}

void hostile_size(const char *from, const char *to, const hostile_case *c)
{
    const bytes b = load(from);
    save(to, b.at, b.n);
    if (truncate(to, atoll(c->value)) != 0) hostile_die(to);
    free(b.at);
}

void hostile_gone(const char *from, const char *to, const hostile_case *c) { (void)from, (void)to, (void)c; }

void hostile_folder(const char *from, const char *to, const hostile_case *c)
{
    (void)from, (void)c;
    if (mkdir(to, 0700) != 0) hostile_die(to);
}

void hostile_fifo(const char *from, const char *to, const hostile_case *c)
{
    (void)from, (void)c;
    if (mkfifo(to, 0600) != 0) hostile_die(to);
}

void hostile_link(const char *from, const char *to, const hostile_case *c)
{
    (void)from;
    if (symlink(c->value, to) != 0) hostile_die(to);
}

void hostile_other(const char *from, const char *to, const hostile_case *c)
{
    if (symlink(hostile_text("%s/../../%s", from, c->value), to) != 0) hostile_die(to);
}

void hostile_shut(const char *from, const char *to, const hostile_case *c)
{
    hostile_add(from, to, &(hostile_case){.value = ""});
    (void)c;
    if (chmod(to, 0) != 0) hostile_die(to);
}

void hostile_repeat(const char *from, const char *to, const hostile_case *c)
{
    (void)from;
    char        *what = strdup(c->value);
    char *const  space = strrchr(what, ' ');
    const size_t n = (size_t)atol(space + 1) / (size_t)(space - what);
    FILE *const  f = create(to);
    *space = '\0';
    fputs(c->key, f);
    for (size_t i = 0; i < n; i++) fputs(what, f);
    finish(f, to);
    free(what);
}

void hostile_pieces(const char *from, const char *to, const hostile_case *c)
{
    hostile_folder(from, to, c);
    hostile_cut(hostile_text("%s/spiece.model", from), hostile_text("%s/spiece.model", to), c);
    hostile_put(from, hostile_text("%s/tokenizer_config.json", to), &(hostile_case){.value = "{\"extra_ids\": 0}"});
}

/* ---- JSON ---- */

/* The object with its member replaced by text that need not be JSON. */
static char *edited(const char *text, size_t n, const char *key, const char *raw)
{
    json_error_t  je;
    json_t *const object = json_loadb(text, n, 0, &je);
    if (!object) hostile_die(je.text);
    json_object_del(object, key);
    char *const rest = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (!raw) return rest;
    char *all = NULL;
    if (asprintf(&all, "{\"%s\":%s%s%s", key, raw, rest[1] == '}' ? "" : ",", rest + 1) < 0) hostile_die("memory");
    free(rest);
    return all;
}

void hostile_set(const char *from, const char *to, const hostile_case *c)
{
    const bytes b = access(from, F_OK) == 0 ? load(from) : (bytes){strdup("{}"), 2};
    char *const text = edited(b.at, b.n, c->key, c->value);
    save(to, text, strlen(text));
    free(text);
    free(b.at);
}

/* ---- safetensors ---- */

typedef struct parts {
    bytes file, header, data; /* header and data lie in file */
} parts;

static parts split(const char *path)
{
    parts    p = {.file = load(path)};
    uint64_t n = 0;
    memcpy(&n, p.file.at, 8);
    p.header = (bytes){p.file.at + 8, n};
    p.data = (bytes){p.file.at + 8 + n, p.file.n - 8 - n};
    return p;
}

static void join(const char *path, const char *header, size_t n, bytes data)
{
    FILE *const f = create(path);
    put_length(f, n);
    fwrite(header, 1, n, f);
    fwrite(data.at, 1, data.n, f);
    finish(f, path);
}

void hostile_length(const char *from, const char *to, const hostile_case *c)
{
    (void)from;
    FILE *const f = create(to);
    put_length(f, strtoull(c->key, NULL, 10));
    fputs(c->value, f);
    finish(f, to);
}

void hostile_entry(const char *from, const char *to, const hostile_case *c)
{
    const parts p = split(from);
    char *const header = edited(p.header.at, p.header.n, c->key, c->value);
    join(to, header, strlen(header), p.data);
    free(header);
    free(p.file.at);
}

void hostile_shift(const char *from, const char *to, const hostile_case *c)
{
    (void)c;
    const parts  p = split(from);
    const size_t n = p.header.n + 1 + p.header.n % 2;
    char *const  header = malloc(n);
    memset(header, ' ', n);
    memcpy(header, p.header.at, p.header.n);
    join(to, header, n, p.data);
    free(header);
    free(p.file.at);
}

void hostile_poke(const char *from, const char *to, const hostile_case *c)
{
    const parts   p = split(from);
    json_t *const object = json_loadb(p.header.at, p.header.n, 0, NULL), *const t = json_object_get(object, c->key);
    const size_t at = (size_t)json_integer_value(json_array_get(json_object_get(t, "data_offsets"), 0));
    if (!t) hostile_die(c->key);
    const uint32_t value = strcmp(c->value, "nan") == 0 ? 0x7fc00000 : 0x7f800000;
    const bool     wide = strcmp(json_string_value(json_object_get(t, "dtype")), "F32") == 0;
    memcpy(p.data.at + at, (const char *)&value + (wide ? 0 : 2), wide ? 4 : 2);
    save(to, p.file.at, p.file.n);
    json_decref(object);
    free(p.file.at);
}

void hostile_poison(const char *from, const char *to, const hostile_case *c)
{
    (void)c;
    const parts p = split(from);
    memset(p.data.at, 0xff, p.data.n);
    save(to, p.file.at, p.file.n);
    free(p.file.at);
}

/* A file whose first bytes tell how many of the rest are the header; the data are zeros. */
void hostile_many(const char *from, const char *to, const hostile_case *c)
{
    (void)from;
    const long  n = atol(c->value) / (HOSTILE_SANITIZED ? 10 : 1);
    FILE *const f = create(to);
    put_length(f, 0);
    for (long i = 0; i < n; i++)
        fprintf(f, "%c\"t%ld\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%ld,%ld]}", i ? ',' : '{', i, i,
                i + 1);
    putc('}', f);
    const long end = ftell(f);
    rewind(f);
    put_length(f, (uint64_t)end - 8);
    finish(f, to);
    if (truncate(to, end + n) != 0) hostile_die(to);
}

void hostile_index(const char *from, const char *to, const hostile_case *c)
{
    (void)from;
    const long  n = atol(c->value);
    FILE *const f = create(to);
    fputs("{\"weight_map\":{", f);
    for (long i = 0; i < n; i++) fprintf(f, "%s\"t%ld\":\"s%ld\"", i ? "," : "", i, i);
    fputs("}}", f);
    finish(f, to);
}
