/* prompt_record.c - see prompt_reader.h: what a prompt is made of, whatever the format. */
#include "base/array.h"
#include "base/number.h"
#include "base/text.h"
#include "base/utf8.h"
#include "prompt_reader.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MAX_PROMPTS = 1 << 20, MAX_PIXELS = 16384, MAX_FRAMES = 100000 };

static const struct {
    const char    *names; /* apart by spaces */
    sg_prompt_kind kind;
    size_t         at;   /* in sg_prompt */
    int            most; /* of a COUNT */
} fields[SG_PROMPT_FIELDS] = {
    [SG_PROMPT_TEXT] = {"prompt prompt_en caption text", SG_PROMPT_STRING, offsetof(sg_prompt, text), 0},
    [SG_PROMPT_NEGATIVE] = {"negative_prompt negative", SG_PROMPT_STRING, offsetof(sg_prompt, negative), 0},
    [SG_PROMPT_SEED] = {"seed", SG_PROMPT_ID, offsetof(sg_prompt, seed), 0},
    [SG_PROMPT_SIZE] = {"size", SG_PROMPT_PAIR, 0, 0},
    [SG_PROMPT_WIDTH] = {"width", SG_PROMPT_COUNT, offsetof(sg_prompt, width), MAX_PIXELS},
    [SG_PROMPT_HEIGHT] = {"height", SG_PROMPT_COUNT, offsetof(sg_prompt, height), MAX_PIXELS},
    [SG_PROMPT_FRAMES] = {"frames num_frames", SG_PROMPT_COUNT, offsetof(sg_prompt, frames), MAX_FRAMES},
    [SG_PROMPT_GROUP] = {"group dimension category type", SG_PROMPT_LIST, 0, 0},
    [SG_PROMPT_IMAGE] = {"image image_name file_name", SG_PROMPT_NAME, offsetof(sg_prompt, image), 0},
    [SG_PROMPT_LAST_IMAGE] = {"last_image", SG_PROMPT_NAME, offsetof(sg_prompt, last_image), 0},
    [SG_PROMPT_VIDEO] = {"video", SG_PROMPT_NAME, offsetof(sg_prompt, video), 0},
    [SG_PROMPT_STRENGTH] = {"strength", SG_PROMPT_SHARE, offsetof(sg_prompt, strength), 0},
    [SG_PROMPT_IMAGE_ID] = {"image_id", SG_PROMPT_ID, offsetof(sg_prompt, image_id), 0}};

/* ---- text ---- */

sg_status sg_prompt_check(const char *text, const char *what, sg_error *e)
{
    size_t bad;
    if (sg_utf8_check(text, strlen(text), &bad)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s is not UTF-8: byte 0x%02x at position %zu", what, (unsigned char)text[bad],
                        bad + 1);
}

char *sg_prompt_line(char **at)
{
    char *const line = *at;
    char *const next = strchr(line, '\n');
    *at = next ? next + 1 : NULL;
    if (next) *next = '\0';
    const size_t n = next ? (size_t)(next - line) : strlen(line);
    if (n && line[n - 1] == '\r') line[n - 1] = '\0';
    return line;
}

/* ---- one member ---- */

void sg_prompt_record_start(sg_prompt_record *c, int line, size_t entry)
{
    *c = (sg_prompt_record){.prompt = {.seed = -1, .image_id = -1, .line = line}};
    const int n = snprintf(c->where, sizeof c->where, "line %d", line);
    if (entry) snprintf(c->where + n, sizeof c->where - (size_t)n, ", entry %zu", entry);
}

sg_prompt_field sg_prompt_field_of(sg_prompt_reader *r, const char *name)
{
    const size_t n = strlen(name);
    for (int f = 0; f < SG_PROMPT_FIELDS; f++)
        for (const char *at = fields[f].names; *at; at += strcspn(at, " "), at += *at == ' ')
            if (n == strcspn(at, " ") && strncasecmp(at, name, n) == 0) return (sg_prompt_field)f;
    if (!r->foreign && !r->set->unread[0]) sg_show_(r->set->unread, sizeof r->set->unread, name);
    return SG_PROMPT_FIELDS;
}

sg_prompt_kind sg_prompt_kind_of(sg_prompt_field f) { return fields[f].kind; }

static sg_status set_whole(int64_t *out, const char *name, const char *value, int64_t lo, int64_t hi, sg_error *e)
{
    if (sg_number_int(value, strlen(value), lo, hi, out)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s should be a whole number from %lld to %lld, is '%s'", sg_show(name),
                        (long long)lo, (long long)hi, sg_show(value));
}

static sg_status set_size(sg_prompt *p, const char *name, const char *value, sg_error *e)
{
    int size[2];
    if (!sg_number_pair(value, "xX*", 1, MAX_PIXELS, size))
        return sg_error_set(e, SG_E_ARG, "%s should be WxH, each from 1 to %d, is '%s'", sg_show(name), MAX_PIXELS,
                            sg_show(value));
    p->width = size[0];
    p->height = size[1];
    return SG_OK;
}

static sg_status add_group(sg_prompt_record *c, const char *name, const char *value, sg_error *e)
{
    for (int i = 0; i < c->prompt.groups; i++)
        if (strcmp(c->group[i], value) == 0) return SG_OK;
    if (c->prompt.groups == SG_PROMPT_GROUPS)
        return sg_error_set(e, SG_E_ARG, "%s names more than %d", sg_show(name), SG_PROMPT_GROUPS);
    c->group[c->prompt.groups++] = value;
    return SG_OK;
}

sg_status sg_prompt_record_set(sg_prompt_record *c, sg_prompt_field f, const char *name, const char *value)
{
    const sg_prompt_kind kind = fields[f].kind;
    void *const          to = (char *)&c->prompt + fields[f].at;
    sg_error *const      e = &c->why;
    int64_t              count = 0;
    if (c->given[f] && c->given[f] != name) /* a list comes entry by entry, under one name */
        return sg_error_set(e, SG_E_ARG, "'%s' and '%s' say the same", sg_show(c->given[f]), sg_show(name));
    c->given[f] = name;
    if (!*value && (kind == SG_PROMPT_NAME || kind == SG_PROMPT_LIST))
        return sg_error_set(e, SG_E_ARG, "%s should not be empty", sg_show(name));
    switch (kind) {
    case SG_PROMPT_STRING:
    case SG_PROMPT_NAME: *(const char **)to = value; return SG_OK;
    case SG_PROMPT_ID: return set_whole(to, name, value, 0, INT64_MAX, e);
    case SG_PROMPT_COUNT:
        SG_TRY(set_whole(&count, name, value, 1, fields[f].most, e));
        *(int *)to = (int)count;
        return SG_OK;
    case SG_PROMPT_SHARE:
        if (sg_number_real(value, strlen(value), 0.001, 1, to)) return SG_OK;
        return sg_error_set(e, SG_E_ARG, "%s should be a number from 0.001 to 1, is '%s'", sg_show(name),
                            sg_show(value));
    case SG_PROMPT_PAIR: return set_size(&c->prompt, name, value, e);
    case SG_PROMPT_LIST: return add_group(c, name, value, e);
    }
    return SG_OK;
}

/* ---- a whole record ---- */

static sg_status check(const sg_prompt_record *c, sg_error *e)
{
    const char *const text = c->prompt.text, *const part = c->given[SG_PROMPT_WIDTH] ? "width" : "height";
    if (!text) return sg_error_set(e, SG_E_ARG, "has no prompt");
    if (text[strspn(text, " \t\v\f\r\n")] == '\0') return sg_error_set(e, SG_E_ARG, "the prompt is blank");
    if (c->given[SG_PROMPT_SIZE] && (c->given[SG_PROMPT_WIDTH] || c->given[SG_PROMPT_HEIGHT]))
        return sg_error_set(e, SG_E_ARG, "'size' and '%s' say the same", part);
    return SG_OK;
}

static const char *keep(sg_prompt_reader *r, const char *text)
{
    if (!r->kept) return text;
    char *const  to = r->kept;
    const size_t n = strlen(text) + 1;
    memcpy(to, text, n);
    r->kept += n;
    return to;
}

static sg_status add_members(sg_prompt_reader *r, const sg_prompt_record *c, sg_error *e)
{
    sg_prompt_set *const s = r->set;
    for (int i = 0; i < c->prompt.groups; i++) {
        int g = 0;
        while (g < s->groups && strcmp(s->group[g], c->group[i]) != 0) g++;
        if (g == SG_PROMPT_GROUPS) return sg_error_set(e, SG_E_ARG, "a set has at most %d groups", SG_PROMPT_GROUPS);
        if (g == s->groups) s->group[s->groups++] = keep(r, c->group[i]);
        if (!sg_array_push(s->member, r->members, r->member_capacity, g))
            return sg_error_set(e, SG_E_MEMORY, "out of memory");
    }
    return SG_OK;
}

static sg_status add(sg_prompt_reader *r, sg_prompt_record *c, sg_error *e)
{
    sg_prompt_set *const s = r->set;
    if (s->count == MAX_PROMPTS) return sg_error_set(e, SG_E_ARG, "a set has at most %d prompts", MAX_PROMPTS);
    if (!sg_array_reserve(s->prompt, r->capacity, (size_t)s->count + 1))
        return sg_error_set(e, SG_E_MEMORY, "out of memory");
    c->prompt.first_group = (int)r->members;
    SG_TRY(add_members(r, c, e));
    for (int f = 0; f < SG_PROMPT_FIELDS; f++) {
        const char **const text = (void *)((char *)&c->prompt + fields[f].at);
        if (fields[f].kind <= SG_PROMPT_NAME && *text) *text = keep(r, *text);
    }
    s->prompt[s->count++] = c->prompt;
    return SG_OK;
}

sg_status sg_prompt_record_done(sg_prompt_reader *r, sg_prompt_record *c, sg_status status, sg_error *e)
{
    if (status == SG_OK) status = check(c, &c->why);
    if (status == SG_OK) return sg_error_in(e, add(r, c, e), c->where);
    sg_error_in(&c->why, status, c->where);
    if (status == SG_E_MEMORY || !r->options->skip_bad) return sg_error_copy(e, &c->why);
    r->set->skipped++;
    sg_error_copy(&r->set->first_skipped, &c->why);
    return SG_OK;
}
