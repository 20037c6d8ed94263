/* lexicon.c - see lexicon.h. */
#include "lexicon.h"

#include <stdlib.h>
#include <string.h>

bool sg_lexicon_add(sg_lexicon *l, sg_word w)
{
    if (l->count == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 64;
        sg_word     *words = realloc(l->words, cap * sizeof *words);
        if (!words) return false;
        l->words = words;
        l->cap = cap;
    }
    l->words[l->count++] = w;
    return true;
}

static int compare(const void *x, const void *y)
{
    const sg_word *a = x, *b = y;
    const int      order = memcmp(a->text, b->text, a->len < b->len ? a->len : b->len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

size_t sg_lexicon_sort(sg_lexicon *l)
{
    if (l->count) qsort(l->words, l->count, sizeof *l->words, compare);
    for (size_t i = 0, b = 0; b < 257; b++) {
        while (i < l->count && (unsigned char)l->words[i].text[0] < b) i++;
        l->first[b] = i;
    }
    for (size_t i = 1; i < l->count; i++)
        if (!compare(&l->words[i - 1], &l->words[i])) return i;
    return l->count;
}

void sg_lexicon_free(sg_lexicon *l)
{
    free(l->words);
    *l = (sg_lexicon){0};
}

sg_lexicon_range sg_lexicon_all(const sg_lexicon *l) { return (sg_lexicon_range){0, l->count}; }

/* The first word of [lo, hi) whose byte at depth is at least c; a word that ends there comes before all. */
static size_t lower_bound(const sg_lexicon *l, sg_lexicon_range r, size_t depth, unsigned c)
{
    while (r.lo < r.hi) {
        const size_t   mid = r.lo + (r.hi - r.lo) / 2;
        const sg_word *w = &l->words[mid];
        if (w->len <= depth || (unsigned char)w->text[depth] < c)
            r.lo = mid + 1;
        else
            r.hi = mid;
    }
    return r.lo;
}

bool sg_lexicon_step(const sg_lexicon *l, sg_lexicon_range *r, size_t depth, char c)
{
    const unsigned b = (unsigned char)c;
    if (depth == 0) {
        *r = (sg_lexicon_range){l->first[b], l->first[b + 1]};
    } else {
        r->lo = lower_bound(l, *r, depth, b);
        r->hi = lower_bound(l, *r, depth, b + 1);
    }
    return r->lo < r->hi;
}

const sg_word *sg_lexicon_exact(const sg_lexicon *l, sg_lexicon_range r, size_t len)
{
    return r.lo < r.hi && l->words[r.lo].len == len ? &l->words[r.lo] : NULL;
}

const sg_word *sg_lexicon_find(const sg_lexicon *l, const char *text, size_t len)
{
    const sg_word key = {.text = text, .len = len};
    return l->count ? bsearch(&key, l->words, l->count, sizeof *l->words, compare) : NULL;
}

const sg_word *sg_lexicon_longest(const sg_lexicon *l, const char *s, size_t n)
{
    const sg_word   *best = NULL;
    sg_lexicon_range r = sg_lexicon_all(l);
    for (size_t i = 0; i < n && sg_lexicon_step(l, &r, i, s[i]); i++) {
        const sg_word *w = sg_lexicon_exact(l, r, i + 1);
        if (w) best = w;
    }
    return best;
}
