/* blocks_wgmma.cuh - attend_blocks for Hopper, compiled for 9.0a alone: both products by wgmma, tiles by bulk copies.
 *
 * Formula: op.h. Served: BF16 and F8 values, heads of up to 128 channels in sixteens (padded to DK: 64, 96 or 128, by the
 * copies' zeros), the tail with its biases, every group of scales, causal; not pv_threshold, I8 or F32 values
 * (blocks_wgmma.cu, refusal).
 *
 * A block of threads stays on its processor and takes items one after the other from a counter: an item is a block of
 * SG_BLOCK_Q queries of one head, or of 192 where there is no list or, with F8 values, where lists are of so many. Items
 * with many tiles begin first (blocks_order.cuh). A step is a pair of tiles of SG_BLOCK_K keys: listed blocks in
 * their order, then means; where the number is odd, the last tile lies beyond the tensor, from where copies bring zeros.
 * Warpgroup 0 loads. The other two or three compute 64 rows each, 16 a warp; lane l has rows l / 4 and l / 4 + 8.
 *
 * Tiles: q 128 x WIDE and k 128 x WIDE in I8, where WIDE is 64 or 128, the lengths of row that copies swizzle; v in F8
 * DK x 64, a row a channel, twice; in BF16 64 x 64, a row a key, twice or four times. All swizzled by the row's length,
 * which is why a tile begins at a multiple of 1024 bytes.
 * Products of a step: s = q k^T by DK / 32 of m64n128k32 in I8, then sums with v by 4 of m64n(DK + 8)k32 in F8, or 8 of
 * m64n(DK)k16 in BF16. Weights are left operands where they are: op.h's sg_f8_position has permuted F8 values for it.
 * Behind the channels of an F8 tile lie 8 rows of ones, whose sums are those of the weights as rounded. F8 products of
 * a step go into sums of their own, since the tensor cores cut sums of F8 products to fewer bits than F32 has.
 *
 * Shared memory: hopper_smem. Barriers, each with a parity that waits flip:
 *   full[stage]    1 arrival with the bytes of its copies, and 64 of the warp that tells: 32 of its threads, 32 of their
 *                  copies of scales. Waited for by all that compute.
 *   empty[stage]   an arrival of each thread that computes, after the product with the stage's values. One of each warp
 *                  after __syncwarp would be as good; racecheck does not see that the other lanes' reads come before it.
 *   q_full[seat]   1 arrival with the queries' bytes; the item lies beside them. Two seats: the next block of queries comes
 *                  while this one is computed.
 *   q_empty[seat]  an arrival of each of these threads after the item's last product.
 *   ITEM_BARRIER   the four warps that load, once an item.
 *
 * Schedule of a warpgroup of two, for step t: s(t + 1) = q k^T and sums with v(t) are begun one after the other.
 * BF16: when the first is done, weights(t + 1) are made beside the second, about the bases as they are. Only if a sum of
 * them is then too large are the largest logits looked for, bases raised, what is summed scaled, the weights made again.
 * F8, whose weights have no such range: the largest logits of step t + 1 are looked for beside the second product; when
 * that is done, bases rise if they must, by more than a lag as in blocks_mma.cuh, and weights(t + 1) are made, the sums of
 * step t being added to o between them. They are made without exponentials: hopper_powers.
 * Nothing is under way at the end of the loop's body: the compiler puts a wait behind every product otherwise. The first
 * step of the next item is begun with the last of this one. Of three warpgroups, with 160 registers a thread, each does one
 * thing after the other, and its waits are filled by the other two. Both schedules of F8 round the same way: a list of all
 * blocks gives the same bits as none. With causal, logits that a row does not see are replaced, even NaN; a row that has seen
 * no key keeps the base LOWEST, about which its weights are 0. Of values that are not finite, see attend_non_finite.
 *
 * Roofline, cycles of a processor a step (both warpgroups, DK 128): products 512 (I8) + 544 (F8) or 1024 (BF16); powers of two
 * 1024 (BF16 alone, 16 a cycle); instructions about 2 x 480 (F8) or 2 x 430 a scheduler; L2 to shared memory 32 KiB (F8)
 * or 48 KiB (BF16), at 24 bytes a cycle 1370 or 2050, where 5.6 TB/s for the whole chip was measured. So 5958 steps, as every
 * block of 12 x 32,760 x 128 has on each of 132 processors, take 4.6 ms (F8; 3.6 by 192 queries) or 5.2 (BF16, at 7.4 TB/s) at
 * 1.77 GHz at the least. What is taken, and by what: LOG.md. */
#ifndef SG_BLOCKS_WGMMA_CUH
#define SG_BLOCKS_WGMMA_CUH

#include "blocks_wgmma_softmax.cuh"

/* ---- the warpgroups that compute ---- */

/* What descriptors hold beside addresses, and those of the first tiles. */
template <int DK, bool F8, int GROUPS> struct hopper_operands {
    uint64_t   q, k, v;
    __device__ __forceinline__ explicit hopper_operands(hopper_smem<DK, F8, GROUPS> &smem, int group)
    {
        constexpr int WIDE = hopper_shape<DK, F8, GROUPS>::WIDE;
        q = sg_wgmma_descriptor<WIDE>(smem.q[0] + group * 64 * WIDE, 16, 8 * WIDE);
        k = sg_wgmma_descriptor<WIDE>(smem.k[0][0], 16, 8 * WIDE);
        v = F8 ? sg_wgmma_descriptor<64>(smem.v[0][0], 16, 8 * SG_BLOCK_K)
               : sg_wgmma_descriptor<128>(smem.v[0][0], SG_BLOCK_K * 128, 1024);
    }
};

/* A place so many bytes further on. */
static __device__ __forceinline__ uint64_t hopper_at(uint64_t place, int bytes)
{
    return place + (uint64_t)(bytes >> 4);
}

template <int DK> static __device__ __forceinline__ void hopper_qk_matmul(uint64_t q, uint64_t k, uint32_t (&s)[64])
{
#pragma unroll
    for (int e = 0; e < DK; e += 32) sg_wgmma_i8(s, hopper_at(q, e), hopper_at(k, e), e > 0);
    sg_wgmma_commit();
}

/* o = p v, or with add o += p v */
template <int DK, bool F8, int SUMS>
static __device__ __forceinline__ void hopper_pv_matmul(const uint32_t (&p)[F8 ? 16 : 32], uint64_t v, float (&o)[SUMS],
                                                        bool add)
{
    constexpr int TILE = hopper_shape<DK, F8, 2>::V_BYTES;
    if constexpr (F8) {
#pragma unroll
        for (int k = 0; k < 4; k++) sg_wgmma_f8(o, p + 4 * k, hopper_at(v, k / 2 * TILE + k % 2 * 32), k > 0 || add);
    } else {
#pragma unroll
        for (int k = 0; k < 8; k++)
            sg_wgmma_bf16(o, p + 4 * k, hopper_at(v, k / 4 * TILE + k % 4 * 2048), k > 0 || add);
    }
    sg_wgmma_commit();
}

template <bool CAUSAL, int DK>
static __device__ __forceinline__ void hopper_store(const blocks_job &j, const hopper_item &item, int64_t to, int lane,
                                                    const hopper_rows<DK> &w)
{
    const int   gk = item.g / (j.h / j.hk);
    const float by[2] = {w.sum[0] == 0.0f ? 0.0f : 1.0f / w.sum[0], w.sum[1] == 0.0f ? 0.0f : 1.0f / w.sum[1]};
#pragma unroll
    for (int c = 0; c < DK / 8; c++) {
        const int e = c * 8 + lane % 4 * 2;
        if (e >= j.d) continue;
        const float2 scale = j.v_scale ? *(const float2 *)(j.v_scale + gk * j.d + e) : make_float2(1.0f, 1.0f),
                     center = j.v_center ? *(const float2 *)(j.v_center + gk * j.d + e) : make_float2(0.0f, 0.0f);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int64_t at = ((to + 8 * r) * j.h + item.g) * j.d + e;
            const bool    none = CAUSAL && w.sum[r] == 0.0f; /* it sees nothing of the tiles that others see */
            const float   x = none ? 0.0f : w.o[c * 4 + 2 * r] * by[r] * scale.x + center.x,
                        y = none ? 0.0f : w.o[c * 4 + 2 * r + 1] * by[r] * scale.y + center.y;
            if (to + 8 * r >= j.n) continue;
            if (!j.wide_y)
                sg_put(j.y, at, x), sg_put(j.y, at + 1, y);
            else if (j.y.bf16)
                *(uint32_t *)((uint16_t *)j.y.data + at) = sg_pack_bf16x2(x, y);
            else
                *(float2 *)((float *)j.y.data + at) = make_float2(x, y);
        }
    }
}

template <int DK, bool CAUSAL>
static __device__ __forceinline__ void hopper_f8_two(const hopper_job &p, hopper_smem<DK, true, 2> &smem, int group)
{
    typedef hopper_shape<DK, true, 2>  shape;
    constexpr int                      STAGES = shape::STAGES, SUMS = DK / 2 + 4; /* of weights, behind the channels */
    const hopper_operands<DK, true, 2> operands(smem, group);
    const blocks_job                  &j = p.b;
    const int       lane = threadIdx.x % SG_WARP, row = group * 64 + threadIdx.x % 128 / SG_WARP * 16 + lane / 4;
    int             stage = 0, seat = 0; /* of the queries */
    uint32_t        phase = 0, q_phase = 0;
    hopper_item     item = {}, next;
    hopper_rows<DK> w;
    uint32_t        s[64], weights[16];
    float           part[SUMS], x[64], scale, unit[2], row_max[2];

    const auto begin = [&]() {
        w.base[0] = w.base[1] = LOWEST;
        w.sum[0] = w.sum[1] = 0;
#pragma unroll
        for (int i = 0; i < DK / 2; i++) w.o[i] = 0;
#pragma unroll
        for (int i = 0; i < SUMS; i++) part[i] = 0;
    };
    const auto scale_of = [&](const hopper_item &of) {
        const int64_t at = (int64_t)of.i * SG_BLOCK_Q + row - lane / 4;
        return at < j.n ? j.scale * j.q_scale[at / j.q_group * j.h + of.g] : 0.0f;
    };
    /* A block of queries. */
    const auto take = [&](int from, uint32_t parity) {
        sg_mbarrier_wait(&smem.q_full[from], parity);
        return smem.item[from];
    };

    item = take(0, 0);
    if (item.steps < 0) return;
    int left = item.steps;
    begin();
    scale = scale_of(item);
    sg_mbarrier_wait(&smem.full[0], 0);
    sg_wgmma_fence();
    hopper_qk_matmul<DK>(operands.q, operands.k, s);
    sg_wgmma_wait<0>();
    sg_wgmma_pin_registers(s);
    hopper_row_max<CAUSAL>(smem.info[0], lane, row, scale, s, x, unit, row_max);
    hopper_rescale<true>(w, row_max, part);
    hopper_weights<DK, true>(unit, x, part, weights, w);
    for (;;) {
        const bool last = --left == 0;
        int        then = stage + 1, then_seat = seat;
        uint32_t   then_phase = phase;
        if (then == STAGES) then = 0, then_phase ^= 1;
        next.steps = 1;
        if (last) {
            then_seat = seat ^ 1;
            next = take(then_seat, then_seat ? q_phase : q_phase ^ 1);
            if (next.steps > 0) scale = scale_of(next);
        }
        if (next.steps > 0) sg_mbarrier_wait(&smem.full[then], then_phase);
        sg_wgmma_pin_registers(weights);
        sg_wgmma_fence();
        hopper_qk_matmul<DK>(hopper_at(operands.q, then_seat * SG_BLOCK_Q * shape::WIDE),
                             hopper_at(operands.k, then * PAIR * shape::K_BYTES), s);
        hopper_pv_matmul<DK, true>(weights, hopper_at(operands.v, stage * PAIR * shape::V_BYTES), part, false);
        sg_wgmma_wait<1>();
        sg_wgmma_pin_registers(s);
        hopper_row_max<CAUSAL>(smem.info[then], lane, row, scale, s, x, unit, row_max);
        sg_wgmma_wait<0>();
        sg_wgmma_pin_registers(part);
        sg_mbarrier_arrive(&smem.empty[stage]);
        if (last) {
            sg_mbarrier_arrive(&smem.q_empty[seat]);
            hopper_add<DK>(w, part);
            hopper_store<CAUSAL>(j, item, (int64_t)item.i * SG_BLOCK_Q + row, lane, w);
            item = next;
            left = item.steps;
            if (left < 0) break;
            q_phase ^= (uint32_t)seat; /* after both seats */
            seat = then_seat;
            begin();
        }
        hopper_rescale<true>(w, row_max, part);
        hopper_weights<DK, true>(unit, x, part, weights, w);
        stage = then;
        phase = then_phase;
    }
}

template <int DK, bool CAUSAL>
static __device__ __forceinline__ void hopper_bf16_two(const hopper_job &p, hopper_smem<DK, false, 2> &smem, int group)
{
    typedef hopper_shape<DK, false, 2>  shape;
    const hopper_operands<DK, false, 2> operands(smem, group);
    const blocks_job                   &j = p.b;
    const uint32_t  none = (uint32_t)(CAUSAL ? !j.causal : j.causal); /* 0, which the compiler does not know */
    const int       lane = threadIdx.x % SG_WARP, row = group * 64 + threadIdx.x % 128 / SG_WARP * 16;
    int             stage = 0, seat = 0, summed = 0; /* of the queries; steps of the item */
    uint32_t        phase = 0, q_phase = 0;
    hopper_item     item, next;
    hopper_rows<DK> w;
    uint32_t        s[64], weights[32], fresh[32];
    float           x[64], scale, unit[2], sum[2];

    /* A block of queries. */
    const auto take = [&](int from, uint32_t parity) {
        sg_mbarrier_wait(&smem.q_full[from], parity);
        const hopper_item taken = smem.item[from];
        const int64_t     at = (int64_t)taken.i * SG_BLOCK_Q + row;
        if (taken.steps > 0) scale = at < j.n ? j.scale * j.q_scale[at / j.q_group * j.h + taken.g] : 0.0f;
        return taken;
    };
    const auto begin = [&]() {
        w.base[0] = w.base[1] = LOWEST;
        w.sum[0] = w.sum[1] = 0;
        summed = 0;
    };

    item = take(0, 0);
    if (item.steps < 0) return;
    int left = item.steps;
    begin();
    sg_mbarrier_wait(&smem.full[0], 0);
    sg_wgmma_fence();
    hopper_qk_matmul<DK>(operands.q, operands.k, s);
    sg_wgmma_wait<0>();
    sg_wgmma_pin_registers(s);
    hopper_floats<CAUSAL>(smem.info[0], lane, row + lane / 4, scale, s, x, unit);
    hopper_bf16_raise(w, unit, x, false);
    hopper_bf16_weights(unit, x, w.base, weights, w.sum);
    for (;;) {
        const bool last = --left == 0;
        int        then = stage + 1, then_seat = seat;
        uint32_t   then_phase = phase;
        if (then == shape::STAGES) then = 0, then_phase ^= 1;
        next.steps = 1;
        if (last) {
            then_seat = seat ^ 1;
            next = take(then_seat, then_seat ? q_phase : q_phase ^ 1);
        }
        if (next.steps > 0) sg_mbarrier_wait(&smem.full[then], then_phase);
        sg_wgmma_pin_registers(weights);
        sg_wgmma_fence();
        sg_wgmma_pin_registers(w.o);
        hopper_qk_matmul<DK>(hopper_at(operands.q, then_seat * SG_BLOCK_Q * shape::WIDE),
                             hopper_at(operands.k, then * PAIR * shape::K_BYTES), s);
        hopper_pv_matmul<DK, false>(weights, hopper_at(operands.v, stage * PAIR * shape::V_BYTES), w.o, summed > 0);
        summed++;
        sg_wgmma_wait<1>();
        sg_wgmma_pin_registers(s);
        hopper_floats<CAUSAL>(smem.info[then], lane, row + lane / 4, scale, s, x, unit);
        bool again = last;
        if (!last) again = hopper_bf16_weights(unit, x, w.base, fresh, sum);
        sg_wgmma_wait<0>(); /* after the vote, so after the weights; before the branch, which warps take each for itself */
        sg_wgmma_pin_registers(w.o);
        if (again) {
            if (last) {
                sg_mbarrier_arrive(&smem.q_empty[seat]);
                w.sum[0] = sg_lanes_sum<4>(w.sum[0]);
                w.sum[1] = sg_lanes_sum<4>(w.sum[1]);
                hopper_store<CAUSAL>(j, item, (int64_t)item.i * SG_BLOCK_Q + row + lane / 4, lane, w);
                item = next;
                left = item.steps;
                if (left < 0) break;
                q_phase ^= (uint32_t)seat; /* after both seats */
                seat = then_seat;
                begin();
            }
            hopper_bf16_raise(w, unit, x, !last);
            hopper_bf16_weights(unit, x, w.base, fresh, sum);
        }
        sg_mbarrier_arrive(&smem.empty[stage]);
#pragma unroll
        for (int i = 0; i < 32; i++) weights[i] = fresh[i] ^ none; /* else both are in one place, and products wait */
        w.sum[0] += sum[0];
        w.sum[1] += sum[1];
        stage = then;
        phase = then_phase;
    }
}

/* The same with three warpgroups: what one waits for hides under the other two, so it does one thing after the other. F8 is
 * rounded as in hopper_f8_two. */
template <int DK, bool F8>
static __device__ __forceinline__ void hopper_three(const hopper_job &p, hopper_smem<DK, F8, 3> &smem, int group)
{
    typedef hopper_shape<DK, F8, 3>  shape;
    const hopper_operands<DK, F8, 3> operands(smem, group);
    const blocks_job                &j = p.b;
    const int       lane = threadIdx.x % SG_WARP, row = group * 64 + threadIdx.x % 128 / SG_WARP * 16;
    int             stage = 0;
    uint32_t        phase = 0;
    hopper_rows<DK> w;
    uint32_t        s[64], weights[F8 ? 16 : 32];
    float           x[64], part[DK / 2 + 4], unit[2], row_max[2];
    for (int turn = 0;; turn++) {
        const int seat = turn % 2;
        sg_mbarrier_wait(&smem.q_full[seat], (uint32_t)turn / 2 % 2);
        const hopper_item item = smem.item[seat];
        const int64_t     at = (int64_t)item.i * shape::ROWS + row;
        if (item.steps < 0) return;
        const float scale = at < j.n ? j.scale * j.q_scale[at / j.q_group * j.h + item.g] : 0.0f;
        w.base[0] = w.base[1] = LOWEST;
        w.sum[0] = w.sum[1] = 0;
#pragma unroll
        for (int i = 0; i < DK / 2; i++) w.o[i] = 0;
        for (int step = 0; step < item.steps; step++) {
            sg_mbarrier_wait(&smem.full[stage], phase);
            sg_wgmma_fence();
            hopper_qk_matmul<DK>(hopper_at(operands.q, seat * shape::ROWS * shape::WIDE),
                                 hopper_at(operands.k, stage * PAIR * shape::K_BYTES), s);
            sg_wgmma_wait<0>();
            sg_wgmma_pin_registers(s);
            hopper_row_max<false>(smem.info[stage], lane, row, scale, s, x, unit, row_max);
            const uint64_t v = hopper_at(operands.v, stage * PAIR * shape::V_BYTES);
            if constexpr (F8) {
                hopper_rescale<false>(w, row_max, part);
                hopper_weights<DK, false>(unit, x, part, weights, w);
                sg_wgmma_pin_registers(weights);
                sg_wgmma_fence();
                hopper_pv_matmul<DK, true>(weights, v, part, false);
                sg_wgmma_wait<0>();
                sg_wgmma_pin_registers(part);
            } else {
                hopper_bf16_weigh(unit, x, row_max, weights, w);
                sg_wgmma_pin_registers(weights);
                sg_wgmma_fence();
                sg_wgmma_pin_registers(w.o);
                hopper_pv_matmul<DK, false>(weights, v, w.o, true);
                sg_wgmma_wait<0>();
                sg_wgmma_pin_registers(w.o);
            }
            sg_mbarrier_arrive(&smem.empty[stage]);
            if constexpr (F8) hopper_add<DK>(w, part);
            if (++stage == shape::STAGES) stage = 0, phase ^= 1;
        }
        sg_mbarrier_arrive(&smem.q_empty[seat]);
        if constexpr (!F8) {
            w.sum[0] = sg_lanes_sum<4>(w.sum[0]);
            w.sum[1] = sg_lanes_sum<4>(w.sum[1]);
        }
        hopper_store<false>(j, item, at + lane / 4, lane, w);
    }
}

/* Registers of a thread that loads and of one that computes, of GROUPS warpgroups of the latter. */
template <int GROUPS> static __device__ __forceinline__ void hopper_few()
{
    if constexpr (GROUPS == 2)
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    else
        asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
}
template <int GROUPS> static __device__ __forceinline__ void hopper_many()
{
    if constexpr (GROUPS == 2)
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    else
        asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
}

template <int DK, bool F8, int GROUPS, bool CAUSAL>
static __global__ void __launch_bounds__(128 * (GROUPS + 1), 1)
    attend_blocks_wgmma(const __grid_constant__ hopper_job p)
{
    extern __shared__ __align__(1024) unsigned char bytes[];
    typedef hopper_smem<DK, F8, GROUPS>             shared;
    typedef hopper_shape<DK, F8, GROUPS>            shape;
    shared                                         &smem = *(shared *)bytes;
    if (sg_smem_address(bytes) % 1024) __trap();
    /* After a shuffle the compiler keeps the number and does not compute it again. Two warpgroups of 64 BF16 channels are slower so. */
    const int group = F8 || DK > 64 || GROUPS == 3 ? __shfl_sync(~0u, threadIdx.x / 128, 0) : threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < shape::STAGES; i++) {
            sg_mbarrier_init(&smem.full[i], 1 + 2 * SG_WARP);
            sg_mbarrier_init(&smem.empty[i], shape::CONSUMERS);
        }
        for (int i = 0; i < 2; i++) {
            sg_mbarrier_init(&smem.q_full[i], 1);
            sg_mbarrier_init(&smem.q_empty[i], shape::CONSUMERS);
        }
    }
    for (int i = threadIdx.x; i < (int)sizeof smem.v / 16; i += shape::THREADS) /* finite until values come */
        ((uint4 *)smem.v)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    if (F8) /* rows of ones after each tile's channels; of equal numbers, so no swizzle matters */
        for (int i = threadIdx.x; i < shape::STAGES * PAIR * 8 * SG_BLOCK_K / 4; i += shape::THREADS)
            ((uint32_t *)(smem.v[0][i / (2 * SG_BLOCK_K)] + DK * SG_BLOCK_K))[i % (2 * SG_BLOCK_K)] = 0x38383838u;
    sg_fence_proxy_async();
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    if (group == 0) {
        hopper_few<GROUPS>();
        hopper_load_loop<CAUSAL>(p, smem, threadIdx.x / SG_WARP);
    } else {
        hopper_many<GROUPS>();
        if constexpr (GROUPS == 3)
            hopper_three<DK, F8>(p, smem, group - 1);
        else if constexpr (F8)
            hopper_f8_two<DK, CAUSAL>(p, smem, group - 1);
        else
            hopper_bf16_two<DK, CAUSAL>(p, smem, group - 1);
    }
}

#endif
