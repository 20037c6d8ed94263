/* vec_select.c - select. Scores are compared as integers that have their order. The k best of a row are those above a
 * threshold, which is found two bits at a time by counting. The threshold of a whole layer, which gives each row's
 * count, is found in the same way. Only the rule of mass, which sums in falling order, sorts rows: a radix sort of four
 * passes. */
#include "predict.h"

#include <omp.h>

/* The lowest key pads rows; the next is NaN's. */
enum {
    SG_LOWEST = INT32_MIN,
    SG_NAN_KEY,
    SG_RADIX_BITS = 8,
    SG_RADIX = 1 << SG_RADIX_BITS,
    SG_PASSES = 16,
    SG_MARKS = 3
};

typedef struct select_job {
    const sg_select_args *a;
    sg_fixed              queries, keys;
    int64_t               h, nq, nk, words; /* words of 64 blocks */
    uint64_t             *forced;           /* [h][words]: kept by every row */
    int32_t              *count;            /* the args': how many the rule takes, then how many are kept */
    double               *share;            /* [h][nq], -1 for a row without mass */
} select_job;

/* A thread's workspace for a row: its keys, padded to whole words, its bits, and two lists to sort. */
typedef struct row_workspace {
    int32_t  *key;
    uint64_t *bits, *list[2];
} row_workspace;

static const float *scores_of(const select_job *j, int64_t row)
{
    return (const float *)j->a->score.data + row * j->nk;
}

/* An integer with the order of the floats; both zeros are equal, NaN is below all. */
static inline int32_t key_of(float x)
{
    const int32_t bits = (int32_t)sg_bits(x);
    return x != x ? SG_NAN_KEY : bits >= 0 ? bits : -(bits & 0x7fffffff);
}

static void row_keys(const select_job *j, int64_t row, int32_t *key)
{
    const float *const x = scores_of(j, row);
    for (int64_t i = 0; i < j->nk; i++) key[i] = key_of(x[i]);
    for (int64_t i = j->nk; i < 64 * j->words; i++) key[i] = SG_LOWEST;
}

/* The candidate thresholds: `least` with each value of the two bits at `shift`. */
static void marks_above(int32_t least, int shift, int32_t mark[SG_MARKS])
{
    for (int i = 0; i < SG_MARKS; i++) mark[i] = (int32_t)((uint32_t)least + ((uint32_t)(i + 1) << shift));
}

/* Counts the keys that are not below each mark. */
static void count_from(const int32_t *key, int64_t n, const int32_t mark[SG_MARKS], int32_t count[SG_MARKS])
{
    int32_t a = 0, b = 0, c = 0;
    for (int64_t i = 0; i < n; i++) {
        a += key[i] >= mark[0];
        b += key[i] >= mark[1];
        c += key[i] >= mark[2];
    }
    count[0] = a;
    count[1] = b;
    count[2] = c;
}

static int32_t count_above(const int32_t *key, int64_t n, int32_t least)
{
    int32_t count = 0;
    for (int64_t i = 0; i < n; i++) count += key[i] > least;
    return count;
}

/* A bit for each of 64 neighbours: it is not 0. */
static uint64_t word_of(const sg_lane_ints *v)
{
    uint64_t word = 0;
    for (int i = 0; i < 64 / SG_LANES; i++) word |= (uint64_t)sg_lanes_mask(v[i]) << (i * SG_LANES);
    return word;
}

/* Sets the bits of keys above `least` and of the first `equals` keys equal to it. */
static void mark(const int32_t *key, int64_t words, int32_t least, int64_t equals, uint64_t *bits)
{
    for (int64_t w = 0; w < words; w++) {
        sg_lane_ints above[64 / SG_LANES], equal[64 / SG_LANES];
        for (int i = 0; i < 64 / SG_LANES; i++) {
            const sg_lane_ints k = *(const sg_lane_ints *)(key + w * 64 + i * SG_LANES);
            above[i] = k > least;
            equal[i] = k == least;
        }
        bits[w] = word_of(above);
        for (uint64_t rest = word_of(equal); rest && equals > 0; rest &= rest - 1, equals--) bits[w] |= rest & -rest;
    }
}

/* Sets the bits of the `count` highest of n keys, of equals the first. */
static void mark_best(const int32_t *key, int64_t n, int64_t count, uint64_t *bits)
{
    const int64_t words = sg_div_up(n, 64);
    int32_t       least = SG_LOWEST, above[SG_MARKS], have[SG_MARKS];
    if (count == 0) {
        memset(bits, 0, (size_t)words * sizeof *bits);
        return;
    }
    for (int shift = 30; shift >= 0; shift -= 2) {
        marks_above(least, shift, above);
        count_from(key, n, above, have);
        for (int i = SG_MARKS - 1; i >= 0; i--)
            if (have[i] >= count) {
                least = above[i];
                break;
            }
    }
    mark(key, words, least, count - count_above(key, n, least), bits);
}

/* The row's places, highest score first, of equals the first: the lower half of each number. */
static const uint64_t *row_sorted(const row_workspace *r, int64_t n)
{
    uint64_t *from = r->list[0], *to = r->list[1];
    for (int64_t i = 0; i < n; i++) from[i] = (uint64_t) ~((uint32_t)r->key[i] ^ 0x80000000u) << 32 | (uint64_t)i;
    for (int shift = 32; shift < 64; shift += SG_RADIX_BITS) {
        int64_t at[SG_RADIX] = {0}, sum = 0;
        for (int64_t i = 0; i < n; i++) at[from[i] >> shift & (SG_RADIX - 1)]++;
        for (int k = 0; k < SG_RADIX; k++) {
            const int64_t count = at[k];
            at[k] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++) to[at[from[i] >> shift & (SG_RADIX - 1)]++] = from[i];
        uint64_t *const other = from;
        from = to;
        to = other;
    }
    return from;
}

/* Scores are added in double in falling order, for the whole of the row as for its part. */
static void mark_mass(const select_job *j, int64_t row, float amount, const row_workspace *r)
{
    const float *const    x = scores_of(j, row);
    const uint64_t *const place = row_sorted(r, j->nk);
    double                all = 0, sum = 0;
    memset(r->bits, 0, (size_t)j->words * sizeof *r->bits);
    for (int64_t i = 0; i < j->nk; i++) all += (double)x[(uint32_t)place[i]];
    for (int64_t i = 0; i < j->nk; i++) {
        const int64_t at = (uint32_t)place[i];
        sum += (double)x[at];
        if (i > 0 && !(sum <= (double)amount * all)) break;
        r->bits[at / 64] |= (uint64_t)1 << at % 64;
        if (!(sum <= (double)amount * all)) break;
    }
}

static int64_t top_count(const select_job *j, int64_t row)
{
    const int64_t of = sg_visible_blocks(j->a->causal && !j->a->count_hidden, row % j->nq, j->a->n, j->a->m);
    return sg_topk_count(((const float *)j->a->amount.data)[row / j->nq], of);
}

/* ---- one budget for all heads ---- */

/* How many blocks a row takes where `have` are at the threshold or above: at least its quarter. */
static int64_t row_takes(const select_job *j, int64_t row, int32_t have)
{
    const int64_t quarter = top_count(j, row) / 4;
    return have > quarter ? have : quarter;
}

/* The highest threshold at which all rows together take `budget` blocks or more. Every thread of the team calls it. The
 * team shares taken, which is zero at first. */
static int32_t layer_threshold(const select_job *j, const row_workspace *r, int64_t budget, int64_t taken[][SG_MARKS])
{
    int32_t least = SG_LOWEST, above[SG_MARKS], have[SG_MARKS];
    for (int pass = 0; pass < SG_PASSES; pass++) {
        int64_t own[SG_MARKS] = {0};
        marks_above(least, 30 - 2 * pass, above);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < j->h * j->nq; row++) {
            row_keys(j, row, r->key);
            count_from(r->key, j->nk, above, have);
            for (int i = 0; i < SG_MARKS; i++) own[i] += row_takes(j, row, have[i]);
        }
        for (int i = 0; i < SG_MARKS; i++) {
#pragma omp atomic
            taken[pass][i] += own[i];
        }
#pragma omp barrier
        for (int i = SG_MARKS - 1; i >= 0; i--)
            if (taken[pass][i] >= budget) {
                least = above[i];
                break;
            }
    }
    return least;
}

/* Distributes the layer's budget over its rows: how many blocks each takes. */
static void share_budget(const select_job *j, const row_workspace *workspaces, int threads)
{
    const int64_t rows = j->h * j->nq;
    int64_t       taken[SG_PASSES][SG_MARKS] = {{0}}, budget = 0;
    for (int64_t row = 0; row < rows; row++) budget += top_count(j, row);
#pragma omp parallel num_threads(threads) if (rows * j->nk > SG_TINY)
    {
        const row_workspace *const r = &workspaces[omp_get_thread_num()];
        const int32_t              least = layer_threshold(j, r, budget, taken);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            const int32_t above[SG_MARKS] = {least, least + 1, least + 1};
            int32_t       have[SG_MARKS];
            row_keys(j, row, r->key);
            count_from(r->key, j->nk, above, have);
            j->count[row] = (int32_t)row_takes(j, row, have[1]);
            j->share[row] = (double)(row_takes(j, row, have[0]) - j->count[row]); /* equals that the row could take */
        }
    }
    for (int64_t row = 0; row < rows; row++) budget -= j->count[row];
    for (int64_t row = 0; row < rows; row++) {
        const int64_t more = sg_min64((int64_t)j->share[row], budget);
        j->count[row] += (int32_t)more;
        budget -= more;
    }
}

/* ---- the op ---- */

static void mark_row(const select_job *j, int64_t row, const row_workspace *r)
{
    row_keys(j, row, r->key);
    if (j->a->rule == SG_SELECT_TOPK)
        mark_best(r->key, j->nk, j->a->heads ? j->count[row] : top_count(j, row), r->bits);
    else
        mark_mass(j, row, ((const float *)j->a->amount.data)[row / j->nq], r);
}

/* Adds the marked blocks of a word to a list of `count`; best: the place of the highest key. Returns the new count. */
static int64_t list_word(const int32_t *key, int64_t word, uint64_t bits, uint16_t *list, int64_t count, int64_t *best)
{
    for (; bits; bits &= bits - 1, count++) {
        const int64_t k = word * 64 + __builtin_ctzll(bits);
        list[count] = (uint16_t)k;
        if (count == 0 || key[k] > key[list[*best]]) *best = count;
    }
    return count;
}

/* Adds the blocks that are always kept, removes hidden ones, counts and lists. */
static void finish_row(const select_job *j, int64_t row, const row_workspace *r)
{
    const int64_t      head = row / j->nq, i = row % j->nq, seen = sg_visible_blocks(j->a->causal, i, j->a->n, j->a->m);
    const float *const x = scores_of(j, row);
    uint16_t *const    list = (uint16_t *)j->a->list.data + row * j->nk;
    const bool         all = sg_is_fixed(&j->queries, head, i);
    const int64_t      diagonal = sg_whole_blocks(j->a->causal && !j->a->count_hidden, i, j->a->n, j->a->m);
    double             sum = 0, mass = 0;
    int64_t            kept = 0, best = 0;
    for (int64_t w = 0; w < j->words; w++) {
        const int64_t visible = seen - w * 64, count = sg_min64(64, j->nk - w * 64);
        uint64_t      word = r->bits[w] | (all ? ~(uint64_t)0 : j->forced[head * j->words + w]);
        if (diagonal < (w + 1) * 64) word |= ~(uint64_t)0 << (diagonal > w * 64 ? diagonal - w * 64 : 0);
        if (visible < 64) word &= visible > 0 ? ((uint64_t)1 << visible) - 1 : 0;
        kept = list_word(r->key, w, word, list, kept, &best);
#pragma omp simd reduction(+ : sum, mass)
        for (int64_t k = 0; k < count; k++) {
            const double one = (double)x[w * 64 + k];
            sum += one;
            mass += word >> k & 1 ? one : 0.0;
        }
    }
    const uint16_t first = kept ? list[best] : 0;
    memmove(list + 1, list, (size_t)best * sizeof *list);
    list[0] = first;
    for (int64_t k = kept ? kept : 1; k < j->nk; k++) list[k] = 0;
    j->count[row] = (int32_t)kept;
    j->share[row] = sum == 0 ? -1 : mass / sum;
}

static void head_forced(const select_job *j, int64_t head)
{
    uint64_t *const forced = j->forced + head * j->words;
    memset(forced, 0, (size_t)j->words * sizeof *forced);
    for (int64_t k = 0; k < j->nk; k++)
        if (k < j->a->sink || sg_is_fixed(&j->keys, head, k)) forced[k / 64] |= (uint64_t)1 << k % 64;
}

static void head_done(const select_job *j, int64_t head)
{
    int64_t rows = 0, kept = 0;
    double  mass = 0;
    for (int64_t row = head * j->nq; row < (head + 1) * j->nq; row++) {
        kept += j->count[row];
        if (j->share[row] == -1) continue;
        mass += j->share[row];
        rows++;
    }
    ((int32_t *)j->a->kept.data)[2 * head] = (int32_t)kept;
    ((int32_t *)j->a->kept.data)[2 * head + 1] = j->count[(head + 1) * j->nq - 1];
    ((float *)j->a->mass.data)[head] = rows ? (float)(mass / (double)rows) : 1.0f;
}

static void select_run(const select_job *j, const row_workspace *workspaces, int threads)
{
    const int64_t rows = j->h * j->nq;
    for (int64_t g = 0; g < j->h; g++) head_forced(j, g);
    if (j->a->heads) share_budget(j, workspaces, threads);
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * j->nk > SG_TINY)
    for (int64_t row = 0; row < rows; row++) {
        const row_workspace *const r = &workspaces[omp_get_thread_num()];
        mark_row(j, row, r);
        finish_row(j, row, r);
    }
    for (int64_t g = 0; g < j->h; g++) head_done(j, g);
}

static sg_status selects(sg_stream *s, const sg_select_args *a)
{
    sg_cpu *const cpu = sg_cpu_of(s);
    const int     threads = cpu->threads;
    select_job    j = {.a = a, .h = a->score.dim[0], .nq = a->score.dim[1], .nk = a->score.dim[2]};
    j.words = sg_div_up(j.nk, 64);
    j.queries = sg_fixed_of(SG_BLOCK_Q, a->n, a->text_prefix, a->text_suffix, &a->q_similarity, &a->theta, j.h);
    j.queries.ragged = a->ragged;
    j.keys = sg_fixed_of(SG_BLOCK_K, a->m, a->text_prefix, a->text_suffix, &a->k_similarity, &a->theta, j.h);
    const int64_t rows = j.h * j.nq, mine = 64 * j.words * 2 + j.words + 32 * j.words; /* words of 8 bytes */
    const int64_t workspace_words = sg_div_up((int64_t)sizeof(row_workspace), 8);
    const int64_t all = threads * (mine + workspace_words) + j.h * j.words + rows;
    uint64_t     *p = sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)all * sizeof *p);
    if (!p) return SG_E_MEMORY;
    row_workspace *const workspaces = (row_workspace *)p;
    p += threads * workspace_words;
    for (int t = 0; t < threads; t++, p += mine)
        workspaces[t] = (row_workspace){(int32_t *)(p + 129 * j.words), p + 128 * j.words, {p, p + 64 * j.words}};
    j.forced = p;
    j.share = (double *)(p + j.h * j.words);
    j.count = (int32_t *)a->count.data;
    select_run(&j, workspaces, threads);
    return SG_OK;
}

void SG_VEC_INIT(select)(sg_ops *t) { t->select = selects; }
