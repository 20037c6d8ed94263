/* prompt_record.c - see prompt_reader.h: what a prompt is made of, whatever the format. */
#include "base/array.h"
#include "base/number.h"
#include "base/text.h"
#include "base/utf8.h"
#include "prompt_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_PROMPTS = 1 << 20, MAX_PIXELS = 16384, MAX_FRAMES = 100000 };

static const struct {
    const char     *name;
    sg_prompt_field field;
} names[] = {{"prompt", SG_PROMPT_TEXT},       {"prompt_en", SG_PROMPT_TEXT},
             {"caption", SG_PROMPT_TEXT},      {"text", SG_PROMPT_TEXT},
             {"seed", SG_PROMPT_SEED},         {"negative_prompt", SG_PROMPT_NEGATIVE},
             {"size", SG_PROMPT_SIZE},         {"width", SG_PROMPT_WIDTH},
             {"negative", SG_PROMPT_NEGATIVE}, {"height", SG_PROMPT_HEIGHT},
             {"frames", SG_PROMPT_FRAMES},     {"num_frames", SG_PROMPT_FRAMES},
             {"group", SG_PROMPT_GROUP},       {"dimension", SG_PROMPT_GROUP},
             {"category", SG_PROMPT_GROUP},    {"type", SG_PROMPT_GROUP},
             {"image", SG_PROMPT_IMAGE},       {"image_name", SG_PROMPT_IMAGE},
             {"file_name", SG_PROMPT_IMAGE},   {"last_image", SG_PROMPT_LAST_IMAGE},
             {"video", SG_PROMPT_VIDEO},       {"strength", SG_PROMPT_STRENGTH},
             {"image_id", SG_PROMPT_IMAGE_ID}};

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

/* ---- messages ---- */

sg_status sg_prompt_reader_fail(const sg_prompt_reader *r, sg_error *e, sg_status code, const char *fmt, ...)
{
    char    text[sizeof e->text];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return sg_error_set(e, code, "%s: %s: %s", r->options->what, r->file, text);
}

sg_status sg_prompt_record_refuse(const sg_prompt_record *c, sg_error *e, const char *fmt, ...)
{
    char    text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return sg_error_set(e, SG_E_ARG, "%s: %s", c->where, text);
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
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(names[i].name, name) == 0) return names[i].field;
    if (!r->foreign && !r->set->unread[0]) sg_show_(r->set->unread, sizeof r->set->unread, name);
    return SG_PROMPT_FIELDS;
}

static sg_status set_number(sg_prompt_record *c, int64_t *out, const char *name, const char *value, int64_t lo,
                            int64_t hi, sg_error *e)
{
    if (sg_number_int(value, strlen(value), lo, hi, out)) return SG_OK;
    return sg_prompt_record_refuse(c, e, "%s should be a whole number from %lld to %lld, is '%s'", sg_show(name),
                                   (long long)lo, (long long)hi, sg_show(value));
}

static sg_status set_int(sg_prompt_record *c, int *out, const char *name, const char *value, int hi, sg_error *e)
{
    int64_t x = 0;
    SG_TRY(set_number(c, &x, name, value, 1, hi, e));
    *out = (int)x;
    return SG_OK;
}

static sg_status set_size(sg_prompt_record *c, const char *name, const char *value, sg_error *e)
{
    const size_t      n = strcspn(value, "xX*");
    const char *const height = value[n] ? value + n + 1 : value + n;
    int64_t           x, y;
    if (sg_number_int(value, n, 1, MAX_PIXELS, &x) && sg_number_int(height, strlen(height), 1, MAX_PIXELS, &y)) {
        c->prompt.width = (int)x;
        c->prompt.height = (int)y;
        return SG_OK;
    }
    return sg_prompt_record_refuse(c, e, "%s should be WxH, each from 1 to %d, is '%s'", sg_show(name), MAX_PIXELS,
                                   sg_show(value));
}

static sg_status set_file(sg_prompt_record *c, const char **out, const char *name, const char *value, sg_error *e)
{
    if (!*value) return sg_prompt_record_refuse(c, e, "%s should not be empty", sg_show(name));
    *out = value;
    return SG_OK;
}

static sg_status set_strength(sg_prompt_record *c, const char *name, const char *value, sg_error *e)
{
    if (sg_number_real(value, strlen(value), 0.001, 1, &c->prompt.strength)) return SG_OK;
    return sg_prompt_record_refuse(c, e, "%s should be a number from 0.001 to 1, is '%s'", sg_show(name),
                                   sg_show(value));
}

static sg_status add_group(sg_prompt_record *c, const char *name, const char *value, sg_error *e)
{
    for (int i = 0; i < c->prompt.groups; i++)
        if (strcmp(c->group[i], value) == 0) return SG_OK;
    if (!*value) return sg_prompt_record_refuse(c, e, "%s should not be empty", sg_show(name));
    if (c->prompt.groups == SG_PROMPT_GROUPS)
        return sg_prompt_record_refuse(c, e, "%s names more than %d", sg_show(name), SG_PROMPT_GROUPS);
    c->group[c->prompt.groups++] = value;
    return SG_OK;
}

sg_status sg_prompt_record_set(sg_prompt_record *c, sg_prompt_field f, const char *name, const char *value, sg_error *e)
{
    if (c->given[f] && c->given[f] != name) /* a list comes entry by entry, under one name */
        return sg_prompt_record_refuse(c, e, "'%s' and '%s' say the same", sg_show(c->given[f]), sg_show(name));
    c->given[f] = name;
    switch (f) {
    case SG_PROMPT_TEXT: c->prompt.text = value; return SG_OK;
    case SG_PROMPT_NEGATIVE: c->prompt.negative = value; return SG_OK;
    case SG_PROMPT_SEED: return set_number(c, &c->prompt.seed, name, value, 0, INT64_MAX, e);
    case SG_PROMPT_IMAGE: return set_file(c, &c->prompt.image, name, value, e);
    case SG_PROMPT_LAST_IMAGE: return set_file(c, &c->prompt.last_image, name, value, e);
    case SG_PROMPT_VIDEO: return set_file(c, &c->prompt.video, name, value, e);
    case SG_PROMPT_STRENGTH: return set_strength(c, name, value, e);
    case SG_PROMPT_IMAGE_ID: return set_number(c, &c->prompt.image_id, name, value, 0, INT64_MAX, e);
    case SG_PROMPT_SIZE: return set_size(c, name, value, e);
    case SG_PROMPT_WIDTH: return set_int(c, &c->prompt.width, name, value, MAX_PIXELS, e);
    case SG_PROMPT_HEIGHT: return set_int(c, &c->prompt.height, name, value, MAX_PIXELS, e);
    case SG_PROMPT_FRAMES: return set_int(c, &c->prompt.frames, name, value, MAX_FRAMES, e);
    case SG_PROMPT_GROUP: return add_group(c, name, value, e);
    case SG_PROMPT_FIELDS: break;
    }
    return SG_OK;
}

/* ---- a whole record ---- */

static sg_status check(const sg_prompt_record *c, sg_error *e)
{
    const char *const text = c->prompt.text, *const part = c->given[SG_PROMPT_WIDTH] ? "width" : "height";
    if (!text) return sg_prompt_record_refuse(c, e, "has no prompt");
    if (text[strspn(text, " \t\v\f\r\n")] == '\0') return sg_prompt_record_refuse(c, e, "the prompt is blank");
    if (c->given[SG_PROMPT_SIZE] && (c->given[SG_PROMPT_WIDTH] || c->given[SG_PROMPT_HEIGHT]))
        return sg_prompt_record_refuse(c, e, "'size' and '%s' say the same", part);
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

/* The index of the group of this name, which may be new; -1: there are too many. */
static int group_of(sg_prompt_reader *r, const char *name)
{
    sg_prompt_set *const s = r->set;
    for (int i = 0; i < s->groups; i++)
        if (strcmp(s->group[i], name) == 0) return i;
    if (s->groups == SG_PROMPT_GROUPS) return -1;
    s->group[s->groups] = keep(r, name);
    return s->groups++;
}

static sg_status add_members(sg_prompt_reader *r, const sg_prompt_record *c, sg_error *e)
{
    for (int i = 0; i < c->prompt.groups; i++) {
        const int g = group_of(r, c->group[i]);
        if (g < 0)
            return sg_prompt_reader_fail(r, e, SG_E_ARG, "%s: a set has at most %d groups", c->where, SG_PROMPT_GROUPS);
        if (!sg_array_push(r->set->member, r->members, r->member_capacity, g))
            return sg_prompt_reader_fail(r, e, SG_E_MEMORY, "out of memory");
    }
    return SG_OK;
}

static sg_status add(sg_prompt_reader *r, sg_prompt_record *c, sg_error *e)
{
    sg_prompt_set *const s = r->set;
    if (s->count == MAX_PROMPTS)
        return sg_prompt_reader_fail(r, e, SG_E_ARG, "%s: a set has at most %d prompts", c->where, MAX_PROMPTS);
    if (!sg_array_reserve(s->prompt, r->capacity, (size_t)s->count + 1))
        return sg_prompt_reader_fail(r, e, SG_E_MEMORY, "out of memory");
    c->prompt.first_group = (int)r->members;
    SG_TRY(add_members(r, c, e));
    c->prompt.text = keep(r, c->prompt.text);
    if (c->prompt.negative) c->prompt.negative = keep(r, c->prompt.negative);
    if (c->prompt.image) c->prompt.image = keep(r, c->prompt.image);
    if (c->prompt.last_image) c->prompt.last_image = keep(r, c->prompt.last_image);
    if (c->prompt.video) c->prompt.video = keep(r, c->prompt.video);
    s->prompt[s->count++] = c->prompt;
    return SG_OK;
}

sg_status sg_prompt_record_done(sg_prompt_reader *r, sg_prompt_record *c, sg_status status, sg_error *why, sg_error *e)
{
    if (status == SG_OK) status = check(c, why);
    if (status == SG_OK) return add(r, c, e);
    if (status == SG_E_MEMORY || !r->options->skip_bad) return sg_prompt_reader_fail(r, e, status, "%s", why->text);
    r->set->skipped++;
    sg_error_set(&r->set->first_skipped, status, "%s", why->text);
    return SG_OK;
}
