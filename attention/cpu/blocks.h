/* blocks.h - what the CPU kernels of attend_blocks share: which keys a block of queries visits, and the counts.
 *
 * Keys come in tiles of SG_BLOCK_K. Tile j < nk is block j of keys. Tile nk + t has the keys of the tail: the means of
 * blocks SG_BLOCK_K t and on. A kernel packs tile by tile, so one loop visits both kinds. */
#ifndef SG_BLOCKS_H
#define SG_BLOCKS_H

#include "vec.h"

sg_status sg_vec_blocks_base(sg_stream *s, const sg_attend_blocks_args *a);
sg_status sg_vec_blocks_avx2(sg_stream *s, const sg_attend_blocks_args *a);
sg_status sg_vec_blocks_avx512(sg_stream *s, const sg_attend_blocks_args *a);
sg_status sg_int8_blocks_avx2(sg_stream *s, const sg_attend_blocks_args *a);
sg_status sg_int8_blocks_avx_vnni(sg_stream *s, const sg_attend_blocks_args *a);
sg_status sg_int8_blocks_avx512_vnni(sg_stream *s, const sg_attend_blocks_args *a);

/* Heads of keys are packed in groups into a ring of two groups. A group is packed when the one before it is nearly
 * done, so it overwrites lines that are still in a cache, and scratch does not grow with the number of heads. The ring
 * has at most SG_RING_BYTES, unless one head, or SG_GROUP_BLOCKS blocks of queries a thread, need more. */
enum { SG_RING_BYTES = 16 << 20, SG_GROUP_BLOCKS = 32 };

enum { SG_FILTER_ROWS = 32 }; /* rows that skip a block together; 64 do so in vec_blocks.c alone */

/* Counts what one block of queries of one head skipped by pv_threshold. */
typedef struct sg_blocks_count {
    int64_t skips;
    double  share; /* summed over its rows */
} sg_blocks_count;

typedef struct sg_blocks_job {
    const sg_attend_blocks_args *a;
    int64_t                      n, m, h, hk, d, nq, nk;
    int64_t                      tiles;       /* of a head of keys */
    int64_t                      serves;      /* neighbouring heads of queries that share a head of keys */
    int64_t                      group, ring; /* heads of keys packed together; heads that the ring holds */
    sg_blocks_count             *count;       /* [h, nq], or NULL without pv_threshold */
} sg_blocks_job;

static inline sg_blocks_job sg_blocks_job_of(const sg_attend_blocks_args *a)
{
    sg_blocks_job b = {.a = a, .h = a->q.dim[0], .n = a->q.dim[1], .d = a->q.dim[2], .hk = a->k.dim[0]};
    b.m = a->k.dim[1];
    b.nq = sg_div_up(b.n, SG_BLOCK_Q);
    b.nk = sg_div_up(b.m, SG_BLOCK_K);
    b.tiles = b.nk + (a->tail_k.rank ? sg_div_up(b.nk, SG_BLOCK_K) : 0);
    b.serves = b.h / b.hk;
    return b;
}

/* Sets group and ring and allocates scratch: `workspaces` bytes for the kernel, then the ring, `head_bytes` for each
 * head, then the counts. Returns the ring, or NULL when memory is short. */
static inline char *sg_blocks_scratch(sg_blocks_job *b, sg_cpu *cpu, int64_t workspaces, int64_t head_bytes)
{
    const int64_t fit = SG_RING_BYTES / (2 * head_bytes + 1);
    const int64_t busy = sg_div_up(SG_GROUP_BLOCKS * cpu->threads, b->nq * b->serves);
    b->group = sg_min64(fit > busy ? fit : busy, b->hk);
    b->ring = sg_min64(2 * b->group, b->hk);
    const int64_t counts = b->a->pv_threshold.rank ? b->h * b->nq * (int64_t)sizeof(sg_blocks_count) : 0;
    char *const   p = (char *)sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)(workspaces + b->ring * head_bytes + counts));
    if (p && counts) b->count = (sg_blocks_count *)(p + workspaces + b->ring * head_bytes);
    return p ? p + workspaces : NULL;
}

/* Returns the index in the ring of the first tile of a head of keys. */
static inline int64_t sg_blocks_ring_at(const sg_blocks_job *b, int64_t hk) { return hk % b->ring * b->tiles; }

/* Packs tile `at` of a head of keys, or runs task `at` of a head of queries. job begins with an sg_blocks_job.
 * workspace is the thread's. */
typedef void sg_blocks_task(const void *job, const void *workspace, int64_t head, int64_t at);

/* Runs `tasks` tasks of each head, group by group. Every thread of a team calls it. With causal a group's longest tasks
 * come first. A thread without a task packs the next group. The group after that overwrites this one, when all threads
 * are done with it. */
static inline void sg_blocks_heads(const void *job, const void *workspace, int64_t tasks, sg_blocks_task *pack,
                                   sg_blocks_task *attend)
{
    const sg_blocks_job *const b = (const sg_blocks_job *)job;
    for (int64_t first = 0; first < b->hk; first += b->group) {
        const int64_t heads = sg_min64(b->group, b->hk - first);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < heads * b->tiles; i++) pack(job, workspace, first + i / b->tiles, i % b->tiles);
#pragma omp for schedule(dynamic) nowait
        for (int64_t i = 0; i < heads * b->serves * tasks; i++)
            attend(job, workspace, first * b->serves + i / tasks, tasks - 1 - i % tasks);
    }
}

/* Returns the row of a tile's `key` in k and v, or in tail_k and tail_v; -1 where there is none. */
static inline int64_t sg_blocks_row(const sg_blocks_job *b, int64_t tile, int64_t key)
{
    const int64_t row = (tile < b->nk ? tile : tile - b->nk) * SG_BLOCK_K + key;
    return row < (tile < b->nk ? b->m : b->nk) ? row : -1;
}

/* Returns the scale of keys [key, key + SG_BLOCK_SUB) of a tile; 0 where there are none. */
static inline float sg_blocks_scale(const sg_blocks_job *b, int64_t head, int64_t tile, int64_t key)
{
    const int64_t row = sg_blocks_row(b, tile, key);
    if (row < 0) return 0.0f;
    if (tile >= b->nk) return ((const float *)b->a->tail_k_scale.data)[(tile - b->nk) * b->hk + head];
    return ((const float *)b->a->k_scale.data)[row / b->a->k_group * b->hk + head];
}

/* ---- the tiles of a block of queries ---- */

typedef struct sg_blocks_tile {
    int64_t      index;
    uint64_t     seen;   /* a bit per key: visible to the block of queries, or to its last rows */
    bool         edge;   /* not to all rows: key k of block j from row SG_BLOCK_K j + k - before on */
    int64_t      before; /* keys before the first query's */
    const float *bias;   /* of a tail's keys; NULL: none */
    float        add;    /* to every logit: ln SG_BLOCK_K where a tail lacks a bias */
} sg_blocks_tile;

typedef struct sg_blocks_iterator {
    const sg_blocks_job *b;
    int64_t              head, i;              /* which block of queries */
    int64_t              visible;              /* how many blocks of keys are visible to it */
    const uint16_t      *list;                 /* NULL: all blocks */
    int64_t              count;                /* of the list */
    int64_t              next, tail;           /* in the list; the next tile of the tail */
    uint64_t             kept[SG_LISTED / 64]; /* with a tail: a bit of each listed block */
} sg_blocks_iterator;

static inline void sg_blocks_begin(sg_blocks_iterator *w, const sg_blocks_job *b, int64_t head, int64_t i)
{
    const int64_t row = head * b->nq + i;
    w->b = b;
    w->head = head;
    w->i = i;
    w->visible = sg_visible_blocks(b->a->causal, i, b->n, b->m);
    w->list = b->a->list.rank ? (const uint16_t *)b->a->list.data + row * b->nk : NULL;
    w->count = w->list ? ((const int32_t *)b->a->count.data)[row] : w->visible;
    w->next = w->tail = 0;
    if (b->tiles == b->nk) return;
    memset(w->kept, 0, (size_t)(b->tiles - b->nk) * sizeof *w->kept);
    for (int64_t k = 0; k < w->count; k++) w->kept[w->list[k] / 64] |= (uint64_t)1 << w->list[k] % 64;
}

static inline uint64_t sg_low_bits(int64_t n) { return n >= 64 ? ~0ull : n <= 0 ? 0 : (1ull << n) - 1; }

/* Finds the next tile: tiles of keys come first, then those of the tail. Returns false behind the last one. */
static inline bool sg_blocks_next(sg_blocks_iterator *w, sg_blocks_tile *t)
{
    const sg_blocks_job *const b = w->b;
    const int64_t before = b->m - b->n, first = w->i * SG_BLOCK_Q + before + 1; /* keys that the first row sees */
    while (w->next < w->count) {
        const int64_t j = w->list ? w->list[w->next] : w->next;
        w->next++;
        if (j >= w->visible) continue;
        *t = (sg_blocks_tile){.index = j,
                              .seen = sg_low_bits(b->m - j * SG_BLOCK_K),
                              .edge = b->a->causal && (j + 1) * SG_BLOCK_K > first,
                              .before = before};
        return true;
    }
    while (w->tail < b->tiles - b->nk) {
        const int64_t  word = w->tail++, full = b->m / SG_BLOCK_K;
        const int64_t  whole = b->a->causal ? sg_min64(full, first / SG_BLOCK_K) : full;
        const uint64_t seen = ~w->kept[word] & sg_low_bits(whole - word * 64);
        if (!seen) continue;
        *t = (sg_blocks_tile){.index = b->nk + word, .seen = seen, .add = 4.15888308335967186f};
        if (b->a->tail_bias.rank)
            t->bias = (const float *)b->a->tail_bias.data + (w->head * b->nq + w->i) * b->nk + word * 64;
        if (t->bias) t->add = 0.0f;
        return true;
    }
    return false;
}

/* Returns the keys of a tile, a bit for each, that are visible to row `row` of the tensor. */
static inline uint64_t sg_blocks_visible(const sg_blocks_tile *t, int64_t row)
{
    return t->edge ? t->seen & sg_low_bits(row + t->before - t->index * SG_BLOCK_K + 1) : t->seen;
}

/* ---- counts ---- */

/* Returns the share that a row skipped of the sum of its weights. */
static inline double sg_blocks_share(float lost, float sum)
{
    return lost > 0.0f ? (double)lost / ((double)lost + (double)sum) : 0.0;
}

/* Sums the tasks' counts, in order, into skips. */
static inline void sg_blocks_sum_counts(const sg_blocks_job *b)
{
    if (!b->count) return;
    float *const skips = (float *)b->a->skips.data;
    for (int64_t head = 0; head < b->h; head++) {
        sg_blocks_count all = {0};
        for (int64_t i = 0; i < b->nq; i++) {
            all.skips += b->count[head * b->nq + i].skips;
            all.share += b->count[head * b->nq + i].share;
        }
        skips[head * 2] = (float)all.skips;
        skips[head * 2 + 1] = (float)(all.share / (double)b->n);
    }
}

#endif
