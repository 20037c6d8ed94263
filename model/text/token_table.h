/* token_table.h - the embedding table of a text encoder. It is the largest tensor of a published file and is never converted:
 * the few rows of a text are read from the map, on the host. */
#ifndef SG_TOKEN_TABLE_H
#define SG_TOKEN_TABLE_H

#include "component.h"
#include "op.h"

typedef struct sg_token_table {
    sg_bind_rows rows;
    const char  *component; /* its name, for messages */
    int          vocab, width;
} sg_token_table;

/* Finds the table [vocab, width] of that whole name in p, which outlives it, and checks p's binding: a fault of the
 * table becomes one line more of what the binding has to say. `spelt` is the name, or the names, as a message has them.
 * Returns SG_E_FORMAT on failure. */
sg_status sg_token_table_open(sg_token_table *t, const sg_component *p, const char *name, const char *spelt, int vocab,
                              int width, sg_error *e) SG_MUST_USE;

/* Tells whether each of n ids is below vocab; if not, SG_E_FORMAT is latched. */
bool sg_ids_known(sg_stream *s, const char *component, int vocab, const int32_t *ids, int64_t n);

/* Tells whether n is 1 to max and the table has a row for each of n ids; if not, SG_E_ARG or SG_E_FORMAT is latched. */
bool sg_token_table_has(const sg_token_table *t, sg_stream *s, const int32_t *ids, int n, int max);

/* Computes x F32 [n, width] = the rows of n ids on the host, which the table has. Latches SG_E_NUMERIC for a row that
 * is not finite. */
void sg_token_table_embed(const sg_token_table *t, sg_stream *s, sg_tensor x, const int32_t *ids, int n);

#endif
