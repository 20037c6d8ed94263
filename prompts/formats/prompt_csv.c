/* prompt_csv.c - prompts of CSV files as RFC 4180 has them. The files are cut where they lie. */
#include "base/text.h"
#include "prompt_reader.h"

#include <string.h>

enum { MAX_COLUMNS = 64 };

typedef struct columns {
    int             count;
    const char     *name[MAX_COLUMNS];
    sg_prompt_field field[MAX_COLUMNS];
} columns;

/* A row of the file. */
typedef struct row {
    char       *start, *end; /* end: at the LF or the NUL behind it */
    int         lines;       /* LFs within */
    int         fields;
    const char *problem; /* what is malformed; NULL: nothing */
} row;

static bool ends_field(const char *p) { return !*p || *p == ',' || *p == '\n' || (*p == '\r' && p[1] == '\n'); }

/* Behind a field: at its comma, at the end of its line, or at the end of the text. */
static char *field_end(char *p, const char **problem)
{
    if (*p != '"') {
        for (; !ends_field(p); p++)
            if (*p == '"') *problem = "a quote stands within a field that does not begin with one";
        return p;
    }
    for (p++; *p != '"' || p[1] == '"'; p++) {
        if (!*p) {
            *problem = "a quoted field does not end";
            return p;
        }
        p += *p == '"';
    }
    if (!ends_field(++p)) *problem = "something follows a closing quote";
    return p;
}

/* Finds the row's end and counts, but leaves its bytes, since a malformed row is passed over line by line. */
static row scan(char *start)
{
    row   w = {.start = start};
    char *p = start;
    for (;;) {
        char *const end = field_end(p, &w.problem);
        for (; p < end; p++) w.lines += *p == '\n';
        w.fields++;
        if (w.problem || *p != ',') break;
        p++;
    }
    w.end = *p == '\r' && p[1] == '\n' ? p + 1 : p;
    if (!w.problem) return w;
    w.end = start + strcspn(start, "\n");
    w.lines = 0;
    return w;
}

/* Takes the next field of a sound row out of its quotes. */
static char *cut(char **at)
{
    const char *none = NULL;
    char *const field = *at, *end = field_end(field, &none);
    *at = end + 1;
    if (*field == '"') {
        char *to = field;
        for (char *from = field + 1; from < end - 1; from++) {
            *to++ = *from;
            from += *from == '"';
        }
        end = to;
    }
    *end = '\0';
    return field;
}

static sg_status check(const row *w, sg_error *e)
{
    const char kept = *w->end;
    if (w->problem) return sg_error_set(e, SG_E_ARG, "%s", w->problem);
    *w->end = '\0';
    const sg_status status = sg_prompt_check(w->start, "the text", e);
    *w->end = kept;
    return status;
}

static sg_status read_header(sg_prompt_reader *r, columns *h, const row *w, sg_error *e)
{
    bool  has_text = false;
    char *at = w->start;
    SG_TRY(check(w, e));
    if (w->fields > MAX_COLUMNS)
        return sg_error_set(e, SG_E_ARG, "has %d columns; at most %d are read", w->fields, MAX_COLUMNS);
    for (h->count = 0; h->count < w->fields; h->count++) {
        const char *const     name = h->name[h->count] = cut(&at);
        const sg_prompt_field f = h->field[h->count] = sg_prompt_field_of(r, name);
        has_text = has_text || f == SG_PROMPT_TEXT;
        for (int i = 0; i < h->count; i++)
            if (f == h->field[i] && f != SG_PROMPT_FIELDS)
                return sg_error_set(e, SG_E_ARG, "columns '%s' and '%s' say the same", sg_show(h->name[i]),
                                    sg_show(name));
    }
    if (has_text) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "should name the columns, one of them 'prompt'");
}

static sg_status read_row(const columns *h, const row *w, sg_prompt_record *c)
{
    sg_error *const e = &c->why;
    char           *at = w->start;
    SG_TRY(check(w, e));
    if (w->fields != h->count)
        return sg_error_set(e, SG_E_ARG, "has %d field%s, and the first line names %d", w->fields, sg_plural(w->fields),
                            h->count);
    for (int i = 0; i < h->count; i++) {
        const char *const value = cut(&at);
        if (*value && h->field[i] != SG_PROMPT_FIELDS) SG_TRY(sg_prompt_record_set(c, h->field[i], h->name[i], value));
    }
    return SG_OK;
}

static bool is_blank(const row *w) { return w->start == w->end || (w->start[0] == '\r' && w->start + 1 == w->end); }

sg_status sg_prompt_read_csv(sg_prompt_reader *r, char *text, sg_error *e)
{
    columns          h = {0};
    sg_prompt_record c;
    int              line = 1;
    while (text < r->end) {
        const row   w = scan(text);
        const char *after = w.end;
        text = w.end + (*after == '\n');
        const int start = line;
        line += w.lines + 1;
        if (is_blank(&w)) continue;
        sg_prompt_record_start(&c, start, 0);
        if (!h.count) { /* nothing can be read without it, so it is never skipped */
            SG_TRY(sg_error_in(e, read_header(r, &h, &w, e), c.where));
            continue;
        }
        SG_TRY(sg_prompt_record_done(r, &c, read_row(&h, &w, &c), e));
    }
    return SG_OK;
}
