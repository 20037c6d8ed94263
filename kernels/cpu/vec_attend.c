/* vec_attend.c - dense attention, blocked, with an online softmax in F32.
 *
 * Per head, keys and values are widened and packed into panels of SG_NR columns: k as [m / SG_NR][d][SG_NR], v as
 * [d / SG_NR][m][SG_NR], both padded with zeros. A task is SG_BQ queries of one head; it walks the keys in blocks of
 * SG_KC. What a row holds between blocks is its largest score so far, the sum of its weights and its unscaled output.
 */
#include "vec_tile.h"

#include <omp.h>

enum { SG_BQ = 4 * SG_MR, SG_PLANE = SG_BQ * SG_LDA };

/* Heads are taken in groups whose panels stay below this, so that scratch does not grow with the number of heads. */
enum { SG_GROUP_BYTES = 64 << 20 };

typedef struct attend_job {
    const sg_attend_args *a;
    int64_t               n, m, h, d, wide; /* wide: d rounded up to whole panels */
    int64_t               planes;           /* of SG_KC columns that hold d */
    float                *k, *v;            /* of the heads of a group; one head is m_up * d and m_up * wide numbers */
    int64_t               m_up, first;      /* m rounded up to whole panels; first head of the group */
} attend_job;

/* What a task needs, in its thread's scratch. q and o are planes of SG_KC columns, SG_BQ rows SG_LDA apart. */
typedef struct attend_room {
    float *q, *o, *score, *top, *sum;
} attend_room;

static int64_t room_floats(const attend_job *b) { return (2 * b->planes + 1) * SG_PLANE + 2 * SG_BQ; }

static attend_room room_at(const attend_job *b, float *p)
{
    float *const score = p + 2 * b->planes * SG_PLANE;
    return (attend_room){p, p + b->planes * SG_PLANE, score, score + SG_PLANE, score + SG_PLANE + SG_BQ};
}

/* Panel j of k and rows [SG_NR j, SG_NR j + SG_NR) of v of one head. */
static void pack_keys(const attend_job *b, int64_t head, int64_t j)
{
    float *const k = b->k + ((head - b->first) * b->m_up + j * SG_NR) * b->d;
    float *const v = b->v + (head - b->first) * b->m_up * b->wide;
    for (int64_t key = j * SG_NR; key < (j + 1) * SG_NR; key++)
        for (int64_t e = 0; e < b->wide; e += SG_NR) {
            float              room[SG_NR];
            const int64_t      n = sg_min64(SG_NR, b->d - e), at = (key * b->h + head) * b->d + e;
            const float *const x = key < b->m ? sg_in(&b->a->k, at, n, room) : NULL;
            for (int64_t i = 0; i < n; i++) k[(e + i) * SG_NR + key % SG_NR] = x ? x[i] : 0.0f;
            const float *const y = key < b->m ? sg_in(&b->a->v, at, n, room) : NULL;
            for (int64_t i = 0; i < SG_NR; i++) v[e * b->m_up + key * SG_NR + i] = y && i < n ? y[i] : 0.0f;
        }
}

/* Scores of a block of keys become weights; returns how much what was summed before fades. Rows without any key so far
 * keep top -INFINITY and weights 0. */
static float softmax_row(float *score, int64_t count, int64_t padded, float scale, const float *bias,
                         const float *key_bias, float *top, float *sum)
{
    float max = *top, total = 0, lane[SG_LANES];
    if (bias && key_bias) {
#pragma omp simd
        for (int64_t j = 0; j < count; j++) score[j] = score[j] * scale + (bias[j] + key_bias[j]);
    } else if (bias || key_bias) {
        const float *const add = bias ? bias : key_bias;
#pragma omp simd
        for (int64_t j = 0; j < count; j++) score[j] = score[j] * scale + add[j];
    } else {
#pragma omp simd
        for (int64_t j = 0; j < count; j++) score[j] *= scale;
    }
    for (int64_t j = count; j < padded; j++) score[j] = -INFINITY;
    for (int64_t i = 0; i < SG_LANES; i++) lane[i] = *top;
    for (int64_t j = 0; j < padded; j += SG_LANES)
        for (int64_t i = 0; i < SG_LANES; i++) lane[i] = score[j + i] > lane[i] ? score[j + i] : lane[i];
    for (int64_t i = 0; i < SG_LANES; i++) max = lane[i] > max ? lane[i] : max;
    const float base = max == -INFINITY ? 0.0f : max;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < padded; j++) {
        const float p = sg_expf(score[j] - base);
        score[j] = p;
        total += p;
    }
    const float fade = sg_expf(*top - base);
    *sum = *sum * fade + total;
    *top = max;
    return fade;
}

/* Keys [key, key + count) enter rows [row, row + rows) of one head. */
static void attend_block(const attend_job *b, const attend_room *w, int64_t head, int64_t row, int64_t rows,
                         int64_t key, int64_t count)
{
    const int64_t      padded = sg_div_up(count, SG_NR) * SG_NR, at = head - b->first;
    const float *const k = b->k + (at * b->m_up + key) * b->d;
    const float       *a[SG_MR];
    for (int64_t e = 0; e < b->d; e += SG_KC)
        for (int64_t i = 0; i < rows; i += SG_MR) {
            sg_tile_rows(a, w->q + e / SG_KC * SG_PLANE + i * SG_LDA);
            for (int64_t j = 0; j < padded; j += SG_NR)
                sg_tile(a, 1, sg_min64(SG_KC, b->d - e), k + j * b->d + e * SG_NR, SG_NR, w->score + i * SG_LDA + j,
                        SG_LDA, e == 0);
        }
    const float *const bias =
        b->a->bias.rank ? (const float *)b->a->bias.data + (head * b->n + row) * b->m + key : NULL;
    const float *const key_bias = b->a->key_bias.rank ? (const float *)b->a->key_bias.data + key : NULL;
    for (int64_t i = 0; i < rows; i++) {
        const float fade = softmax_row(w->score + i * SG_LDA, count, padded, b->a->scale, bias ? bias + i * b->m : NULL,
                                       key_bias, &w->top[i], &w->sum[i]);
        if (fade == 1.0f) continue;
        for (int64_t e = 0; e < b->wide; e += SG_NR) {
            float *const o = w->o + e / SG_KC * SG_PLANE + i * SG_LDA + e % SG_KC;
            for (int64_t l = 0; l < SG_NR; l++) o[l] *= fade;
        }
    }
    for (int64_t i = 0; i < rows; i += SG_MR) {
        sg_tile_rows(a, w->score + i * SG_LDA);
        for (int64_t e = 0; e < b->wide; e += SG_NR)
            sg_tile(a, 1, padded, b->v + at * b->m_up * b->wide + e * b->m_up + key * SG_NR, b->d - e,
                    w->o + e / SG_KC * SG_PLANE + i * SG_LDA + e % SG_KC, SG_LDA, false);
    }
}

static void attend_task(const attend_job *b, const attend_room *w, int64_t head, int64_t row)
{
    const int64_t rows = sg_min64(SG_BQ, b->n - row);
    memset(w->q, 0, (size_t)(2 * b->planes * SG_PLANE) * sizeof *w->q); /* and o, which follows */
    for (int64_t i = 0; i < rows; i++) {
        w->top[i] = -INFINITY;
        w->sum[i] = 0;
        for (int64_t e = 0; e < b->d; e += SG_KC) {
            float *const       q = w->q + e / SG_KC * SG_PLANE + i * SG_LDA;
            const int64_t      n = sg_min64(SG_KC, b->d - e);
            const float *const x = sg_in(&b->a->q, ((row + i) * b->h + head) * b->d + e, n, q);
            if (x != q) memcpy(q, x, (size_t)n * sizeof *q);
        }
    }
    for (int64_t key = 0; key < b->m; key += SG_KC)
        attend_block(b, w, head, row, rows, key, sg_min64(SG_KC, b->m - key));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t e = 0; e < b->d; e += SG_KC) {
            const int64_t at = ((row + i) * b->h + head) * b->d + e, n = sg_min64(SG_KC, b->d - e);
            const float   by = 1.0f / w->sum[i];
            float *const  o = w->o + e / SG_KC * SG_PLANE + i * SG_LDA;
            float *const  y = sg_out(&b->a->y, at, o);
            for (int64_t l = 0; l < n; l++) y[l] = w->sum[i] == 0.0f ? 0.0f : o[l] * by; /* also where v is NaN */
            sg_out_done(&b->a->y, at, n, y);
        }
}

sg_status SG_VEC_NAME(attend)(sg_stream *s, const sg_attend_args *a)
{
    sg_cpu *const cpu = sg_cpu_of(s);
    attend_job    b = {.a = a, .n = a->q.dim[0], .m = a->k.dim[0], .h = a->q.dim[1], .d = a->q.dim[2]};
    b.wide = sg_div_up(b.d, SG_NR) * SG_NR;
    b.planes = sg_div_up(b.d, SG_KC);
    b.m_up = sg_div_up(b.m, SG_NR) * SG_NR;
    const int64_t head_size = b.m_up * (b.d + b.wide), blocks = sg_div_up(b.n, SG_BQ), panels = b.m_up / SG_NR;
    const int64_t fit = SG_GROUP_BYTES / (head_size * (int64_t)sizeof(float) + 1);
    const int64_t group = fit < 1 ? 1 : sg_min64(fit, b.h), rooms = cpu->threads * room_floats(&b);
    float *const  room = sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)(rooms + group * head_size) * sizeof(float));
    if (!room) return SG_E_MEMORY;
    b.k = room + rooms;
    b.v = b.k + group * b.m_up * b.d;
    for (b.first = 0; b.first < b.h; b.first += group) {
        const int64_t heads = sg_min64(group, b.h - b.first);
#pragma omp parallel num_threads(cpu->threads)
        {
            const attend_room mine = room_at(&b, room + omp_get_thread_num() * room_floats(&b));
#pragma omp for schedule(static)
            for (int64_t i = 0; i < heads * panels; i++) pack_keys(&b, b.first + i / panels, i % panels);
#pragma omp for schedule(dynamic)
            for (int64_t i = 0; i < heads * blocks; i++)
                attend_task(&b, &mine, b.first + i / blocks, i % blocks * SG_BQ);
        }
    }
    return SG_OK;
}

void SG_VEC_INIT(attend)(sg_ops *t) { t->attend = SG_VEC_NAME(attend); }
