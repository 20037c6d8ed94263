/* blocks_order.cuh - the order in which a launch of attend_blocks takes rows of blocks: the longest first, so that SMs
 * end with short ones. Rows are sorted within groups of neighbouring heads. A group has the fewest heads that give two
 * rows for each CTA that runs at once, as more heads at a time would evict each other's keys from the L2 cache. */
#ifndef SG_BLOCKS_ORDER_CUH
#define SG_BLOCKS_ORDER_CUH

#include "blocks_iterator.cuh"

/* count [h nq]: the number of tiles of row i of head g, at g nq + i. */
static __global__ void __launch_bounds__(SG_THREADS) count_tiles(blocks_job j, int *count)
{
    const int row = blockIdx.x * SG_THREADS + threadIdx.x;
    if (row >= j.h * j.nq) return;
    const blocks_iterator w = iterator_of(j, row / j.nq, row % j.nq);
    int                   tiles = w.count; /* hidden ones with them */
    for (int word = 0; j.tail_k && word < j.words; word++)
        tiles += (~j.kept[row_of(j, w) * j.words + word] & low_bits(whole_of(j, w.i) - word * 64)) != 0;
    count[row] = tiles;
}

/* order [h nq]: values are g nq + i. Group p of `groups` has the heads from h p / groups on. The sort is stable. A warp
 * counts the rows that come before one. */
static __global__ void __launch_bounds__(SG_THREADS) order_rows(blocks_job j, int groups, const int *count, int *order)
{
    const int row = (int)(((int64_t)blockIdx.x * SG_THREADS + threadIdx.x) / SG_WARP), lane = threadIdx.x % SG_WARP;
    if (row >= j.h * j.nq) return;
    const int64_t p = ((int64_t)(row / j.nq + 1) * groups - 1) / j.h;
    const int     first = (int)(j.h * p / groups) * j.nq, end = (int)(j.h * (p + 1) / groups) * j.nq, mine = count[row];
    int           before = 0;
#pragma unroll 4
    for (int o = first + lane; o < end; o += SG_WARP) before += count[o] > mine || (count[o] == mine && o < row);
    before = __reduce_add_sync(~0u, before);
    if (lane == 0) order[first + before] = row;
}

/* Sets j's order where rows may differ in their number of tiles. An SM runs so many CTAs at once. scratch: 2 h nq
 * numbers. */
static sg_status order_job(sg_stream *s, blocks_job *j, int ctas, int *scratch)
{
    const int64_t  rows = (int64_t)j->h * j->nq, at_once = ctas * (int64_t)sg_cuda_of(s)->processors;
    const int      groups = (int)sg_max64(1, sg_min64(j->h, rows / (2 * at_once)));
    const unsigned blocks = sg_div_up(rows, SG_THREADS);
    if (!j->list && !j->causal) return SG_OK;
    SG_TRY(sg_cuda_launch(s, "attend_blocks", count_tiles, blocks, SG_THREADS, 0, *j, scratch));
    j->tiles = scratch;
    j->order = scratch + rows;
    return sg_cuda_launch(s, "attend_blocks", order_rows, sg_div_up(rows, SG_THREADS / SG_WARP), SG_THREADS, 0, *j,
                          groups, scratch, scratch + rows);
}

#endif
