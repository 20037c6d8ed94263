/* linear.cu - linear, and what conv shares with it.
 *
 * cuDNN serves large matmuls of BF16 operands, not too deep, that are added to an F32 y, without a gate or with one for
 * all rows: it has the epilogue in the same kernel. Other cases go one of three ways, by what cublasLt can do itself:
 *  - BF16 operands and y, no gate, no activation or gelu: the library adds the bias, as BF16, since it takes one of y's
 *    dtype only. At 32760 x 1536 -> 8960 on an H200 that is 1.13 ms against 2.01 ms by way of F32 sums and a pass of
 *    our own.
 *  - F32 y, no gate: the library adds the bias; an activation is a pass of our own, in place.
 *  - everything else is summed, in pieces of bounded memory, into F32 scratch, from where bias, activation, gate and
 *    the one rounding go to y. (cublasLt has scales by column, but not for these dtypes.)
 * In the first two ways the library also adds to what y holds. Up to 16 F32 rows by BF16 weights, as those that make modulations,
 * have a kernel of their own: widened in memory the weights would be five times as many bytes.
 *
 * Tensor cores truncate partial sums where F32 rounds them. An F32 y of BF16 operands shows it: at a depth of 1728 its
 * root mean square error was 1.7e-6 of y's scale on an H200, 2.2 times the budget of the same sums in F32. */
#include "cuda_kernel.cuh"

/* Bytes of scratch for an operand: few pieces, as SMs idle at the end of each. Rows of a matmul's tile. */
enum { PIECE = 64 << 20, TILE_ROWS = 128 };

/* ---- kernels ---- */

/* y = act(sum + b), or with add y += gate (sum + b); sum may be y, or absent: zeros. */
struct finish_kernel {
    sg_view    y, sum, b, gate;
    const int *gate_row;     /* for each row of y; or NULL */
    int64_t    cols, stride; /* of sum; rows of y, and of gate, are stride apart */
    sg_act     act;
    bool       add;
    __device__ void operator()(int64_t i, int n) const
    {
        int64_t       col;
        const int64_t row = sg_divide(i, cols, &col);
        float         v[SG_PACK] = {0}, w[SG_PACK] = {0};
        if (sum.data) sg_get_pack(sum, i, n, true, v);
        if (col + n <= cols) {
            const int64_t to = row * stride + col;
            if (b.data) sg_get_pack(b, col, n, col % SG_PACK == 0, w);
            for (int k = 0; k < SG_PACK; k++) v[k] = sg_activate(act, v[k] + w[k]);
            if (gate.data) {
                const int64_t at = gate_row ? gate_row[row] * stride + col : col;
                sg_get_pack(gate, at, n, at % SG_PACK == 0, w);
                for (int k = 0; k < SG_PACK; k++) v[k] *= w[k];
            }
            if (add) {
                sg_get_pack(y, to, n, to % SG_PACK == 0, w);
                for (int k = 0; k < SG_PACK; k++) v[k] += w[k];
            }
            sg_put_pack(y, to, n, to % SG_PACK == 0, v);
            return;
        }
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) {
            if (k == n) break;
            int64_t       c;
            const int64_t t = sg_divide(i + k, cols, &c), to = t * stride + c;
            const int64_t at = gate_row ? gate_row[t] * stride + c : c;
            const float   got = sg_activate(act, v[k] + sg_get_or(b, c, 0.0f)) * sg_get_or(gate, at, 1.0f);
            sg_put(y, to, add ? sg_get(y, to) + got : got);
        }
    }
};

struct convert_kernel {
    sg_view y, x;
    __device__ void operator()(int64_t i, int n) const
    {
        float p[SG_PACK];
        sg_get_pack(x, i, n, true, p);
        sg_put_pack(y, i, n, true, p);
    }
};

/* sum [n, o] = x w^T of up to ROWS F32 rows by BF16 weights. A warp has COLUMNS rows of w, 16 bytes of each a lane in flight, and
 * reads x once for all of them.
 *
 * Roofline: the bytes of w over the bandwidth. x comes from the caches: ROWS / COLUMNS times as many bytes. */
enum { FEW_ROWS = 16, COLUMNS = 4, WARPS = SG_THREADS / SG_WARP };

template <int ROWS>
static __global__ void __launch_bounds__(SG_THREADS)
    few_f32_rows(float *sum, const float *x, const uint16_t *w, int n, int64_t depth, int64_t o)
{
    const int64_t first = (blockIdx.x * (int64_t)WARPS + threadIdx.x / SG_WARP) * COLUMNS;
    const int     lane = threadIdx.x % SG_WARP;
    float         all[ROWS][COLUMNS] = {};
    if (first >= o) return;
    for (int64_t k = lane * SG_PACK; k < depth; k += SG_WARP * SG_PACK) {
        float v[COLUMNS][SG_PACK];
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) /* the last row again in place of one that is not there */
            sg_get_pack(sg_view{(void *)w, true, true}, min(first + c, o - 1) * depth + k, SG_PACK, true, v[c]);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            if (r >= n) break;
            float part[SG_PACK];
            sg_get_pack(sg_view{(void *)x, false, true}, r * depth + k, SG_PACK, true, part);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++)
#pragma unroll
                for (int e = 0; e < SG_PACK; e++) all[r][c] += part[e] * v[c][e];
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            if (r >= n) break;
            const float one = sg_lanes_sum(all[r][c]);
            if (lane == 0 && first + c < o) sum[r * o + first + c] = one;
        }
}

/* ---- launchers ---- */

static void *advance(const void *p, int64_t elements, sg_dtype type)
{
    return (char *)p + (size_t)elements * sg_dtype_size(type);
}

/* The length of equal runs of n, at most `most`; whole tiles where a run is longer than one. */
static int64_t piece_of(int64_t n, int64_t most)
{
    if (n <= most) return n;
    const int64_t even = sg_div_up(n, sg_div_up(n, sg_max64(1, most)));
    return even < TILE_ROWS ? even : sg_min64(n, sg_div_up(even, TILE_ROWS) * TILE_ROWS);
}

/* `count` elements of p from `first` on as to_type: where they are, or converted into slot. NULL: latched. */
static const void *operand(sg_stream *s, const char *op, const void *p, sg_dtype type, sg_dtype to_type, int64_t first,
                           int64_t count, sg_cuda_slot slot)
{
    const void *const from = advance(p, first, type);
    if (type == to_type) return from;
    void *const to = sg_cuda_scratch(s, op, slot, (size_t)count * sg_dtype_size(to_type));
    if (!to) return NULL;
    const convert_kernel k = {sg_view_at(to, to_type), sg_view_at(from, type)};
    return sg_cuda_each_pack(s, op, count, k) ? NULL : to;
}

/* How a product ends. */
typedef struct linear_plan {
    sg_dtype type;       /* that x and w are multiplied in */
    bool     direct;     /* the library writes y */
    bool     bias, gelu; /* the library's epilogue */
} linear_plan;

/* Runs what the library's epilogue lacks, for rows [row, row + rows) and columns [col, col + cols) of y. */
static sg_status finish(sg_stream *s, const char *op, const sg_linear_job *p, const linear_plan *plan, const void *sum,
                        int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    const bool          add = p->add && !plan->direct;
    const void *const   y = advance(p->y, row * p->o + col, p->y_type);
    const float *const  b = p->b && !plan->bias ? p->b + col : NULL, *const gate = p->gate ? p->gate + col : NULL;
    const finish_kernel k = {sg_view_at(y, p->y_type), sg_view_at(sum, SG_F32), sg_view_at(b, SG_F32),
                             sg_view_at(gate, SG_F32), p->gate_row ? p->gate_row + row : NULL, cols, p->o, p->act, add};
    return sg_cuda_each_pack(s, op, rows * cols, k);
}

static linear_plan plan_of(const sg_linear_job *p, int64_t cols)
{
    linear_plan plan = {SG_F32, false, false, false};
    if (p->x_type == SG_BF16 && p->w_type == SG_BF16) plan.type = SG_BF16;
    const bool even = p->o % SG_PACK == 0, plain = !p->b && p->act == SG_ACT_NONE;
    if (p->gate) return plan;
    if (p->y_type == SG_F32) {
        plan.direct = cols == p->o;
        plan.bias = plan.direct && p->b && even && (uintptr_t)p->b % 16 == 0;
    } else if (plan.type == SG_BF16 && (plain || (even && (p->act == SG_ACT_NONE || p->act == SG_ACT_GELU_TANH)))) {
        plan.direct = true;
        plan.bias = p->b != NULL;
        plan.gelu = p->act == SG_ACT_GELU_TANH;
    }
    return plan;
}

/* Multiplies rows [row, row + rows) of x by the weights w of columns [col, col + cols); bias in the library's form. */
static sg_status piece(sg_stream *s, const char *op, const sg_linear_job *p, const linear_plan *plan, const void *w,
                       const void *bias, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    const void *const x = operand(s, op, p->x, p->x_type, plan->type, row * p->i, rows * p->i, SG_CUDA_X);
    void *const       y = plan->direct ? advance(p->y, row * p->o + col, p->y_type)
                                       : sg_cuda_scratch(s, op, SG_CUDA_SUM, (size_t)(rows * cols) * sizeof(float));
    if (!x || !y) return s->status;
    const sg_gemm g = {.y = y, .x = x, .w = w, .b = plan->bias ? bias : NULL, .n = rows, .i = p->i, .o = cols,
                       .stride = plan->direct ? p->o : cols, .type = plan->type,
                       .y_type = plan->direct ? p->y_type : SG_F32, .gelu = plan->gelu, .add = plan->direct && p->add};
    SG_TRY(sg_cuda_gemm(s, op, &g));
    const bool all = plan->direct && (plan->bias || !p->b) && (plan->gelu || p->act == SG_ACT_NONE);
    return all ? SG_OK : finish(s, op, p, plan, y, row, rows, col, cols);
}

sg_status sg_cuda_linear(sg_stream *s, const char *op, const sg_linear_job *p)
{
    const linear_plan  nothing = {};
    sg_status          status = SG_OK;
    if (p->i == 0) return finish(s, op, p, &nothing, NULL, 0, p->n, 0, p->o);
    if (!p->gate_row && sg_cuda_added_dnn(s, op, p, &status)) return status;
    const bool         bf16 = p->x_type == SG_BF16 && p->w_type == SG_BF16;
    const int64_t      width = p->i * (int64_t)sizeof(float);
    const int64_t      cols = bf16 || p->w_type == SG_F32 ? p->o : piece_of(p->o, PIECE / width);
    const linear_plan  plan = plan_of(p, cols);
    const void *const  bias = plan.bias ? operand(s, op, p->b, SG_F32, p->y_type, 0, p->o, SG_CUDA_B) : NULL;
    int64_t            rows = p->x_type == plan.type ? p->n : piece_of(p->n, PIECE / width);
    if (plan.bias && !bias) return s->status;
    if (!plan.direct) rows = sg_min64(rows, piece_of(p->n, SG_CUDA_SUM_BYTES / (cols * (int64_t)sizeof(float))));
    for (int64_t col = 0; col < p->o; col += cols) {
        const int64_t     across = sg_min64(cols, p->o - col);
        const void *const w = operand(s, op, p->w, p->w_type, plan.type, col * p->i, across * p->i, SG_CUDA_W);
        if (!w) return s->status;
        for (int64_t row = 0; row < p->n; row += rows)
            SG_TRY(piece(s, op, p, &plan, w, bias, row, sg_min64(rows, p->n - row), col, across));
    }
    return SG_OK;
}

/* Whether x is few rows, by weights that need not be widened in memory for them: quantised, or BF16 by F32 rows. */
static bool is_few_rows(const sg_linear_args *a, const sg_linear_job *p)
{
    if (p->i == 0 || p->n == 0) return false;
    if (a->w.quant.type) return p->n <= SG_GPU_FEW_ROWS;
    return p->x_type == SG_F32 && p->w_type == SG_BF16 && p->n <= FEW_ROWS && p->i % SG_PACK == 0 && sg_cuda_aligned(p->x) &&
           sg_cuda_aligned(p->w);
}

static sg_status few_rows(sg_stream *s, const sg_linear_args *a, const sg_linear_job *p)
{
    const linear_plan nothing = {};
    const auto        kernel = p->n == 1 ? few_f32_rows<1> : p->n <= 4 ? few_f32_rows<4> : few_f32_rows<FEW_ROWS>;
    float *const      sum = (float *)sg_cuda_scratch(s, "linear", SG_CUDA_SUM, (size_t)(p->n * p->o) * sizeof *sum);
    if (!sum) return s->status;
    SG_TRY(a->w.quant.type ? sg_cuda_few_rows(s, "linear", sum, &a->x, &a->w)
                           : sg_cuda_launch(s, "linear", kernel, sg_div_up(p->o, COLUMNS * WARPS), SG_THREADS, 0, sum,
                                            (const float *)p->x, (const uint16_t *)p->w, (int)p->n, p->i, p->o));
    return finish(s, "linear", p, &nothing, sum, 0, p->n, 0, p->o);
}

static sg_status linear(sg_stream *s, const sg_linear_args *a)
{
    sg_linear_job p = {.y = a->y.data, .x = a->x.data, .w = a->w.data, .b = sg_data(a->b),
                       .gate = sg_data(a->gate), .gate_row = sg_data(a->row), .n = a->x.dim[0],
                       .i = a->x.dim[1], .o = a->w.dim[0], .y_type = a->y.dtype, .x_type = a->x.dtype,
                       .w_type = a->w.dtype, .act = a->act, .add = a->add};
    if (is_few_rows(a, &p)) return few_rows(s, a, &p);
    if (a->w.quant.type && p.i) p.w = sg_cuda_widen(s, "linear", &a->w);
    return p.w || !p.i ? sg_cuda_linear(s, "linear", &p) : s->status;
}

void sg_cuda_linear_init(sg_ops *t) { t->linear = linear; }
