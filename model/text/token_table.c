/* token_table.c - see token_table.h. */
#include "token_table.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is wrong with the table, in words, or an empty text. */
static void find_fault(const sg_token_table *t, const char *name, const char *spelt, char *text, size_t size)
{
    const sg_bind_rows *const rows = &t->rows;
    const int64_t             dim[2] = {t->vocab, t->width};
    char                      wanted[96], found[96];
    sg_shape_text(wanted, sizeof wanted, 2, dim);
    sg_shape_text(found, sizeof found, rows->rank, rows->dim);
    *text = 0;
    if (!rows->type)
        snprintf(text, size, "missing: %s %s", spelt, wanted);
    else if (rows->rank == 0)
        snprintf(text, size, "wrong type: %s is %s, should be " SG_TYPES_READ, name, rows->type);
    else if (rows->rank != 2 || rows->dim[0] != dim[0] || rows->dim[1] != dim[1])
        snprintf(text, size, "misshapen: %s is %s, should be %s", name, found, wanted);
}

sg_status sg_token_table_open(sg_token_table *t, const sg_component *p, const char *name, const char *spelt, int vocab,
                              int width, sg_error *e)
{
    char text[320];
    sg_bind_prefix(p->bind, "%s", "");
    *t = (sg_token_table){sg_bind_peek(p->bind, name), p->name, vocab, width};
    find_fault(t, name, spelt, text, sizeof text);
    const sg_status bound = sg_bind_check(p->bind, e);
    if (*text == 0) return bound;
    if (bound == SG_OK)
        return sg_error_set(e, SG_E_FORMAT, "%s: the tensors do not fit this model:\n  %s", sg_source_path(p->source),
                            text);
    if (e) {
        const size_t used = strlen(e->text);
        snprintf(e->text + used, sizeof e->text - used, "\n  %s", text);
    }
    return bound;
}

bool sg_ids_known(sg_stream *s, const char *component, int vocab, const int32_t *ids, int64_t n)
{
    for (int64_t i = 0; !s->status && i < n; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            sg_fail(s, SG_E_FORMAT, "token %d: the vocabulary of %s has %d", (int)ids[i], component, vocab);
    return !s->status;
}

bool sg_token_table_has(const sg_token_table *t, sg_stream *s, const int32_t *ids, int n, int max)
{
    if (n < 1 || n > max) sg_fail(s, SG_E_ARG, "%d tokens: the encoder takes 1 to %d", n, max);
    return sg_ids_known(s, t->component, t->vocab, ids, n);
}

void sg_token_table_embed(const sg_token_table *t, sg_stream *s, sg_tensor x, const int32_t *ids, int n)
{
    const size_t width = (size_t)t->width;
    float *const rows = malloc((size_t)n * width * sizeof *rows);
    if (rows) {
        for (int i = 0; i < n; i++)
            if (!sg_bind_row(&t->rows, ids[i], rows + (size_t)i * width))
                sg_fail(s, SG_E_NUMERIC, "%s: tensor \"%s\": the embedding of token %d is not finite",
                        t->rows.from->file, sg_show(t->rows.from->name), (int)ids[i]);
        sg_upload(s, x, rows);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for %d embeddings", n);
    }
    free(rows);
}
