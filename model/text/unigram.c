/* unigram.c - see unigram.h. */
#include "unigram.h"

#include "textbuf.h"

#include <stdlib.h>

/* The best way to cover the bytes before this one: its last token begins at start. */
typedef struct node {
    double  sum;
    size_t  start;
    int32_t id; /* -1: not reached yet */
} node;

enum { NOT_REACHED = -1, UNKNOWN = -2 };

bool sg_ids_put(sg_ids *l, int32_t id)
{
    if (l->len == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 64;
        int32_t     *at = realloc(l->at, cap * sizeof *at);
        if (!at) return false;
        l->at = at;
        l->cap = cap;
    }
    l->at[l->len++] = id;
    return true;
}

static void offer(node *to, double sum, size_t start, int32_t id)
{
    if (to->id == NOT_REACHED || sum > to->sum) *to = (node){sum, start, id};
}

static void search(const sg_unigram *u, const char *word, size_t n, node *best)
{
    for (size_t i = 0; i <= n; i++) best[i] = (node){.id = NOT_REACHED};
    best[0].sum = 0;
    int32_t c;
    for (size_t i = 0, used; i < n; i += used) {
        used = sg_utf8_next(word + i, n - i, &c);
        bool             known = false;
        sg_lexicon_range r = sg_lexicon_all(&u->pieces);
        for (size_t k = 0; i + k < n && sg_lexicon_step(&u->pieces, &r, k, word[i + k]); k++) {
            const sg_word *w = sg_lexicon_exact(&u->pieces, r, k + 1);
            if (!w) continue;
            offer(&best[i + k + 1], best[i].sum + u->score[w->id], i, w->id);
            known |= k + 1 == used;
        }
        if (!known) offer(&best[i + used], best[i].sum + u->unknown, i, UNKNOWN);
    }
}

/* The tokens in order of the text: links the nodes forward by overwriting start with the end of the token there. */
static void turn_round(node *best, size_t n)
{
    size_t  end = n, next_end = 0;
    int32_t next_id = 0;
    while (true) {
        const size_t  start = best[end].start;
        const int32_t id = best[end].id;
        best[end].start = next_end;
        best[end].id = next_id;
        if (!end) return;
        next_end = end;
        next_id = id;
        end = start;
    }
}

static bool put_bytes(const sg_unigram *u, const char *s, size_t n, sg_ids *ids, bool *memory)
{
    for (size_t i = 0; i < n; i++)
        if (u->byte_id[(unsigned char)s[i]] < 0) return false;
    for (size_t i = 0; i < n && *memory; i++) *memory = sg_ids_put(ids, u->byte_id[(unsigned char)s[i]]);
    return true;
}

static sg_status put_unknown(const sg_unigram *u, const char *s, size_t n, sg_ids *ids, sg_error *e)
{
    bool memory = true;
    if (!u->use_bytes || !put_bytes(u, s, n, ids, &memory)) {
        if (u->unknown_id < 0)
            return sg_error_set(e, SG_E_FORMAT, "tokenizer: no piece for \"%.*s\", and none for what is unknown",
                                n < 64 ? (int)n : 64, s);
        memory = sg_ids_put(ids, u->unknown_id);
    }
    return memory ? SG_OK : sg_error_set(e, SG_E_MEMORY, "tokenizer: no memory for token ids");
}

static sg_status put_tokens(const sg_unigram *u, const char *word, size_t n, const node *best, sg_ids *ids, sg_error *e)
{
    for (size_t i = 0; i < n;) {
        const int32_t id = best[i].id;
        size_t        end = best[i].start;
        bool          known = id != UNKNOWN;
        if (!known || id == u->unknown_id)
            for (; end < n && (best[end].id == UNKNOWN || best[end].id == u->unknown_id); known = false)
                end = best[end].start;
        if (!known)
            SG_TRY(put_unknown(u, word + i, end - i, ids, e));
        else if (!sg_ids_put(ids, id))
            return sg_error_set(e, SG_E_MEMORY, "tokenizer: no memory for token ids");
        i = end;
    }
    return SG_OK;
}

sg_status sg_unigram_encode(const sg_unigram *u, const char *word, size_t n, sg_ids *ids, sg_error *e)
{
    if (!n) return SG_OK;
    node *best = malloc((n + 1) * sizeof *best);
    if (!best) return sg_error_set(e, SG_E_MEMORY, "tokenizer: no memory for a word of %zu bytes", n);
    search(u, word, n, best);
    turn_round(best, n);
    const sg_status s = put_tokens(u, word, n, best, ids, e);
    free(best);
    return s;
}

void sg_unigram_free(sg_unigram *u)
{
    sg_lexicon_free(&u->pieces);
    free(u->score);
    *u = (sg_unigram){0};
}
