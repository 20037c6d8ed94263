/* wgmma.cuh - what kernels for Hopper (9.0a alone) say in PTX: barriers in shared memory, bulk copies of tiles,
 * products of a warpgroup.
 *
 * A warpgroup is four warps; its products have 64 rows, 16 a warp. Accumulators: lane l of a warp holds rows l/4 and
 * l/4 + 8, columns 8 c + 2 (l%4) and the next, as four numbers of each c. A left operand from registers has 32 bytes
 * of each row: rows l/4, l/4 + 8, l/4, l/4 + 8, bytes 4 (l%4) on of the first 16, the same, of the last 16, the same.
 * Right operands lie in shared memory as the bulk copies put them: rows of 128 or 64 bytes whose 16-byte parts are
 * swizzled. */
#ifndef SG_WGMMA_CUH
#define SG_WGMMA_CUH

#include "mma.cuh"

#include <cuda.h>

/* ---- barriers ---- */

static __device__ __forceinline__ void sg_mbarrier_init(uint64_t *b, int count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sg_smem_address(b)), "r"(count) : "memory");
}

static __device__ __forceinline__ void sg_mbarrier_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(sg_smem_address(b)) : "memory");
}

/* Arrives, and lets the phase end only when `bytes` more have come. */
static __device__ __forceinline__ void sg_mbarrier_arrive_expect(uint64_t *b, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(sg_smem_address(b)), "r"(bytes)
                 : "memory");
}

/* Arrives when all copies of 4 or 16 bytes are there that this thread has begun. */
static __device__ __forceinline__ void sg_mbarrier_arrive_cp_async(uint64_t *b)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(sg_smem_address(b)) : "memory");
}

/* Waits for the end of the phase of that parity. */
static __device__ __forceinline__ void sg_mbarrier_wait(uint64_t *b, uint32_t parity)
{
    uint32_t done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done)
                     : "r"(sg_smem_address(b)), "r"(parity)
                     : "memory");
    } while (!done);
}

/* A barrier of the block, by number. */
static __device__ __forceinline__ void sg_named_barrier_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* What ordinary stores have put into shared memory becomes visible to products and bulk copies. */
static __device__ __forceinline__ void sg_fence_proxy_async()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- bulk copies ---- */

/* A box of the tensor from (x, y, z) on; b counts its bytes. Zeros beyond the edges. */
static __device__ __forceinline__ void sg_tma_load(void *to, const CUtensorMap *map, uint64_t *b, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, "
                 "%5}], [%2];" ::"r"(sg_smem_address(to)),
                 "l"(map), "r"(sg_smem_address(b)), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* Where byte `at` of a tile lies whose rows have ROW bytes, 64 or 128. */
template <int ROW> static __device__ __forceinline__ int sg_swizzled(int at)
{
    return at ^ (at >> 7 & (ROW / 16 - 1)) << 4;
}

/* ---- products ---- */

/* Describes a right operand: `leading` and `stride` in bytes, see the PTX manual's canonical layouts; ROW as above. */
template <int ROW>
static __device__ __forceinline__ uint64_t sg_wgmma_descriptor(const void *p, int leading, int stride)
{
    return (uint64_t)(sg_smem_address(p) >> 4 & 0x3fff) | (uint64_t)(leading >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32 | (uint64_t)(ROW == 128 ? 1 : 2) << 62;
}

static __device__ __forceinline__ void sg_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ __forceinline__ void sg_wgmma_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* At most N groups are under way after it. */
template <int N> static __device__ __forceinline__ void sg_wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* The compiler may not move what uses x across. */
template <typename T, int N> static __device__ __forceinline__ void sg_wgmma_pin_registers(T (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        if constexpr (sizeof(T) == 4 && (T)0.5 == 0)
            asm volatile("" : "+r"(x[i])::"memory");
        else
            asm volatile("" : "+f"(x[i])::"memory");
    }
}

#define SG_4(c, x, i) "+" c(x[(i) + 0]), "+" c(x[(i) + 1]), "+" c(x[(i) + 2]), "+" c(x[(i) + 3])
#define SG_16(c, x, i) SG_4(c, x, i), SG_4(c, x, i + 4), SG_4(c, x, i + 8), SG_4(c, x, i + 12)
#define SG_48(c, x) SG_16(c, x, 0), SG_16(c, x, 16), SG_16(c, x, 32)
#define SG_64(c, x) SG_48(c, x), SG_16(c, x, 48)
#define SG_NAMES_32                                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SG_NAMES_48 SG_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define SG_NAMES_64 SG_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* s = a b, or with add s += a b, both in shared memory, 64 and 128 rows of 32 I8 each. */
static __device__ __forceinline__ void sg_wgmma_i8(uint32_t (&s)[64], uint64_t a, uint64_t b, bool add)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" SG_NAMES_64
                 "}, %64, %65, p;}"
                 : SG_64("r", s)
                 : "l"(a), "l"(b), "r"((int)add));
}

/* sg_wgmma_f8 and sg_wgmma_bf16: o = a b, or with add o += a b; b has a row of 32 F8, or 16 rows of BF16, for the
 * COUNT * 2 columns of o. The operands behind o's COUNT have numbers A0 to A3, B and P. */
#define SG_WGMMA(name, COUNT, shape, types, outputs, tail, A0, A1, A2, A3, B, P, ...)                                  \
    static __device__ __forceinline__ void name(float(&o)[COUNT], const uint32_t *a, uint64_t b, bool add)             \
    {                                                                                                                  \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" P ", 0; wgmma.mma_async.sync.aligned." shape ".f32." types      \
                     " {" outputs "}, {%" A0 ", %" A1 ", %" A2 ", %" A3 "}, %" B ", p, " tail ";}"                     \
                     : __VA_ARGS__                                                                                     \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add));                             \
    }
SG_WGMMA(sg_wgmma_f8, 36, "m64n72k32", "e4m3.e4m3", SG_NAMES_32 ", %32, %33, %34, %35", "1, 1", "36", "37", "38", "39",
         "40", "41", SG_16("f", o, 0), SG_16("f", o, 16), SG_4("f", o, 32))
SG_WGMMA(sg_wgmma_f8, 52, "m64n104k32", "e4m3.e4m3", SG_NAMES_48 ", %48, %49, %50, %51", "1, 1", "52", "53", "54", "55",
         "56", "57", SG_48("f", o), SG_4("f", o, 48))
SG_WGMMA(sg_wgmma_f8, 68, "m64n136k32", "e4m3.e4m3", SG_NAMES_64 ", %64, %65, %66, %67", "1, 1", "68", "69", "70", "71",
         "72", "73", SG_64("f", o), SG_4("f", o, 64))
SG_WGMMA(sg_wgmma_bf16, 32, "m64n64k16", "bf16.bf16", SG_NAMES_32, "1, 1, 1", "32", "33", "34", "35", "36", "37",
         SG_16("f", o, 0), SG_16("f", o, 16))
SG_WGMMA(sg_wgmma_bf16, 48, "m64n96k16", "bf16.bf16", SG_NAMES_48, "1, 1, 1", "48", "49", "50", "51", "52", "53",
         SG_48("f", o))
SG_WGMMA(sg_wgmma_bf16, 64, "m64n128k16", "bf16.bf16", SG_NAMES_64, "1, 1, 1", "64", "65", "66", "67", "68", "69",
         SG_64("f", o))

#endif
