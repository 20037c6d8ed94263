/* ranked_scores.h - a row's scores in descending order, and how many of them stay within a share of its mass. */
#ifndef SG_RANKED_SCORES_H
#define SG_RANKED_SCORES_H

#include "ref/ref.h"

typedef struct place {
    float   score;
    int64_t at; /* in the tensor of scores */
} place;

/* Orders scores from the highest down. Of equal ones the first comes first, and NaN comes last. */
static inline int by_score(const void *x, const void *y)
{
    const place *const a = x, *const b = y;
    const bool lost = a->score != a->score, other_lost = b->score != b->score;
    if (lost != other_lost) return lost ? 1 : -1;
    if (!lost && a->score != b->score) return a->score > b->score ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static inline int log2_up(int64_t n)
{
    int bits = 0;
    while ((int64_t)1 << bits < n) bits++;
    return bits;
}

/* Replaces the scores of one of `rows` rows by their running sums, in the order of torch's scan on a GPU: stretches of
 * 32 to 1024, each started with the sum before it, and Sklansky's tree inside a stretch. */
static inline void add_up(place *p, int64_t nk, int64_t rows)
{
    const int     wanted = (9 + log2_up(nk) - log2_up(rows)) / 2, bits = wanted < 4 ? 4 : wanted > 9 ? 9 : wanted;
    const int64_t stretch = (int64_t)2 << bits;
    for (int64_t from = 0; from < nk; from += stretch) {
        place *const  own = p + from;
        const int64_t count = nk - from < stretch ? nk - from : stretch;
        if (from) own->score = (float)stored((real)own->score + (real)own[-1].score);
        for (int64_t step = 1; step < count; step *= 2)
            for (int64_t i = step; i < count; i++)
                if (i & step) own[i].score = (float)stored((real)own[i].score + (real)own[(i & -step) - 1].score);
    }
}

/* Returns how many of nk ranked scores, at least 1, have a sum of at most `amount` times the sum of all. The published
 * variant, whose shares sum to 1, leaves running sums in p. */
static inline int64_t mass_count(place *p, int64_t nk, int64_t rows, float amount)
{
    int64_t count = 0;
    double  all = 0, sum = 0;
    if (SG_REF_IS_PUBLISHED) {
        add_up(p, nk, rows);
        while (count < nk && !(p[count].score > amount)) count++;
        return count ? count : 1;
    }
    for (int64_t j = 0; j < nk; j++) all += (double)p[j].score;
    while (count < nk && (sum += (double)p[count].score) <= (double)amount * all) count++;
    return count ? count : 1;
}

#endif
