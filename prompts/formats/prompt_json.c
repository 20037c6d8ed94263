/* prompt_json.c - prompts of JSON files: an object a line, a list of objects, or COCO's captions. One object at a time is
 * decoded, so that memory goes with the file's size. */
#include "base/json_input.h"
#include "base/text.h"
#include "prompt_reader.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { MAX_BYTES = 1 << 20, MAX_VALUES = 1 << 16 }; /* of an object */

static sg_status wrong_type(sg_prompt_record *c, const char *name, const char *should)
{
    return sg_error_set(&c->why, SG_E_ARG, "%s should be %s", sg_show(name), should);
}

static sg_status set_groups(sg_prompt_record *c, const char *name, const json_t *list)
{
    size_t        i;
    const json_t *v;
    json_array_foreach(list, i, v)
    {
        if (!json_is_string(v)) return wrong_type(c, name, "a list of strings");
        SG_TRY(sg_prompt_record_set(c, SG_PROMPT_GROUP, name, json_string_value(v)));
    }
    return SG_OK;
}

static sg_status set_member(sg_prompt_record *c, sg_prompt_field f, const char *name, const json_t *v)
{
    char number[32];
    if (f == SG_PROMPT_FIELDS || json_is_null(v)) return SG_OK;
    const sg_prompt_kind kind = sg_prompt_kind_of(f);
    const bool           is_whole = kind == SG_PROMPT_ID || kind == SG_PROMPT_COUNT;
    if (kind == SG_PROMPT_LIST && json_is_array(v)) return set_groups(c, name, v);
    if (json_is_string(v)) return sg_prompt_record_set(c, f, name, json_string_value(v));
    if (is_whole && json_is_integer(v))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
    else if (kind == SG_PROMPT_SHARE && json_is_number(v))
        snprintf(number, sizeof number, "%.17g", json_number_value(v));
    else
        return wrong_type(c, name,
                          is_whole                  ? "a whole number"
                          : kind == SG_PROMPT_SHARE ? "a number"
                          : kind == SG_PROMPT_LIST  ? "a string or a list of strings"
                                                    : "a string");
    return sg_prompt_record_set(c, f, name, number);
}

static sg_status decode(json_t **out, const char *text, size_t size, sg_error *e)
{
    sg_json_fault f;
    if (size > MAX_BYTES) return sg_error_set(e, SG_E_ARG, "has more than %d bytes", MAX_BYTES);
    const sg_status status = sg_json_parse(out, text, size, MAX_VALUES, JSON_DECODE_ANY, &f);
    if (status != SG_OK) return sg_error_set(e, status == SG_E_MEMORY ? status : SG_E_ARG, "%s", f.text);
    return json_is_object(*out) ? SG_OK : sg_error_set(e, SG_E_ARG, "should be a JSON object");
}

static sg_status read_object(sg_prompt_reader *r, sg_prompt_record *c, const char *text, size_t size, sg_error *e)
{
    json_t     *json = NULL, *v;
    const char *name;
    sg_status   status = decode(&json, text, size, &c->why);
    if (status == SG_OK) json_object_foreach(json, name, v)
        {
            status = set_member(c, sg_prompt_field_of(r, name), name, v);
            if (status != SG_OK) break;
        }
    status = sg_prompt_record_done(r, c, status, e);
    json_decref(json);
    return status;
}

sg_status sg_prompt_read_jsonl(sg_prompt_reader *r, char *text, sg_error *e)
{
    sg_prompt_record c;
    for (int number = 1; text; number++) {
        const char *const line = sg_prompt_line(&text);
        if (line[strspn(line, " \t")] == '\0') continue;
        sg_prompt_record_start(&c, number, 0);
        SG_TRY(read_object(r, &c, line, strlen(line), e));
    }
    return SG_OK;
}

static int lines(const char *from, const char *to)
{
    int n = 0;
    for (; from < to; from++) n += *from == '\n';
    return n;
}

/* An object of the list at a time; line: where the list begins. */
static sg_status read_list(sg_prompt_reader *r, const char *text, size_t size, int line, sg_error *e)
{
    sg_prompt_record c;
    sg_items         list;
    size_t           entry = 0;
    const char      *counted = text;
    sg_items_start(&list, text, size);
    while (sg_items_next(&list)) {
        line += lines(counted, list.value);
        sg_prompt_record_start(&c, line, ++entry);
        counted = list.value + list.size; /* before anything is kept, which may be written there */
        line += lines(list.value, counted);
        SG_TRY(read_object(r, &c, list.value, list.size, e));
    }
    if (!list.problem) return SG_OK;
    line += lines(counted, list.at);
    return sg_error_set(e, SG_E_ARG, "line %d: not valid JSON: %s", line, list.problem);
}

static sg_status read_captions(sg_prompt_reader *r, const char *text, size_t size, sg_error *e)
{
    sg_members       members = {0};
    const sg_member *found = NULL;
    sg_error         why = {0};
    sg_status        status = sg_members_read(&members, text, size, "captions", "the object", &why);
    if (status != SG_OK) status = sg_error_set(e, status == SG_E_FORMAT ? SG_E_ARG : status, "%s", why.text);
    for (size_t i = 0; status == SG_OK && i < members.count; i++)
        if (strcmp(members.item[i].name, "annotations") == 0) found = &members.item[i];
    if (status == SG_OK && !found)
        status = sg_error_set(e, SG_E_ARG,
                              "has no \"annotations\" as captions of COCO have; an object a line would be .jsonl");
    if (status == SG_OK) status = read_list(r, found->value, found->size, 1 + lines(text, found->value), e);
    sg_members_free(&members);
    return status;
}

sg_status sg_prompt_read_json(sg_prompt_reader *r, char *text, sg_error *e)
{
    const size_t size = (size_t)(r->end - text), space = strspn(text, " \t\r\n");
    if (text[space] == '{') return read_captions(r, text, size, e);
    return read_list(r, text, size, 1, e);
}
