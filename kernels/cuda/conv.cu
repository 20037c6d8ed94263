/* conv.cu - convolutions, the large ones in BF16 by cuDNN, the others as products: for a run of output places, all that
 * their windows see is gathered into rows [kt, ky, kx, i], and these are multiplied with the weights put in the same
 * order. The gathered rows take at most SG_CUDA_X_BYTES at a time; a window of one place is no window and needs no
 * gathering.
 *
 * cuDNN knows no replicated edges. It convolves with zeros there, and what the places at the edge see beyond it is
 * gathered, multiplied and added afterwards: of 480 x 848 places that is one in 150. */
#include "cuda_kernel.cuh"

/* ---- kernels ---- */

/* to[o, tap, i] = w[o, i, tap]; zeros for o beyond w's */
struct permute_weights {
    sg_view to, w;
    int64_t in, taps, out;
    __device__ void operator()(int64_t at) const
    {
        int64_t       i, tap;
        const int64_t o = sg_divide(sg_divide(at, in, &i), taps, &tap);
        sg_put(to, at, o < out ? sg_get(w, (o * in + i) * taps + tap) : 0.0f);
    }
};

/* y = sum + b, or with add y += sum + b, of the first `out` channels of a place of sum, which has `packs` packs. */
struct take_channels {
    sg_view y, sum, b;
    int64_t packs, out;
    bool    add;
    __device__ void operator()(int64_t at) const
    {
        int64_t       pack;
        const int64_t place = sg_divide(at, packs, &pack), o = pack * SG_PACK, to = place * out + o;
        const int     n = (int)min((int64_t)SG_PACK, out - o);
        float         v[SG_PACK];
        sg_get_pack(sum, at * SG_PACK, SG_PACK, true, v);
#pragma unroll
        for (int k = 0; k < SG_PACK; k++) {
            if (k == n) break;
            const float got = v[k] + sg_get_or(b, o + k, 0.0f);
            sg_put(y, to + k, add ? sg_get(y, to + k) + got : got);
        }
    }
};

/* The places of y whose windows leave the frame of x, frame by frame: rows above and below, then, of the rows between, what
 * lies left and right. */
struct edge_places {
    int64_t rows, cols;               /* of y */
    int64_t above, below, left, right; /* rows, columns */

    __host__ __device__ int64_t of_frame() const
    {
        return (above + below) * cols + (rows - above - below) * (left + right);
    }

    /* The i-th place of all: frame, row, column. */
    __device__ void place(int64_t i, int64_t *t, int64_t *r, int64_t *u) const
    {
        int64_t k;
        *t = sg_divide(i, of_frame(), &k);
        if (k < (above + below) * cols) {
            *r = sg_divide(k, cols, u);
            if (*r >= above) *r += rows - above - below;
        } else {
            *r = above + sg_divide(k - (above + below) * cols, left + right, u);
            if (*u >= left) *u += cols - left - right;
        }
    }
};

/* What a window sees: of places beyond the edge zeros, or the nearest inside, or these alone, of edge_places. */
enum window_reads { READ_INSIDE, READ_ALL, READ_OUTSIDE };

struct gather_kernel {
    sg_view to, x;
    int64_t first;                 /* output place of row 0 */
    int64_t in, depth;             /* channels; taps in */
    int64_t rows, cols;            /* of the output */
    int64_t x_rows, x_cols;
    int64_t ky, kx, stride[3], above, left;
    window_reads reads;
    edge_places  edges;

    static __device__ int64_t inside(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

    /* Where in x the channels of a row's tap begin; -1: they are zeros. */
    __device__ int64_t source(int64_t row, int64_t tap) const
    {
        int64_t t, u, r, dx, dy;
        if (reads == READ_OUTSIDE)
            edges.place(first + row, &t, &r, &u);
        else
            t = sg_divide(sg_divide(first + row, cols, &u), rows, &r);
        const int64_t dt = sg_divide(sg_divide(tap, kx, &dx), ky, &dy);
        const int64_t f = t * stride[0] + dt, y = r * stride[1] + dy - above, c = u * stride[2] + dx - left;
        const bool    outside = y < 0 || y >= x_rows || c < 0 || c >= x_cols;
        if (outside ? reads == READ_INSIDE : reads == READ_OUTSIDE) return -1;
        return ((f * x_rows + inside(y, x_rows)) * x_cols + inside(c, x_cols)) * in;
    }

    __device__ void operator()(int64_t at, int n) const
    {
        float v[SG_PACK] = {0};
        if (in % SG_PACK == 0) {
            int64_t       k, i;
            const int64_t row = sg_divide(at, depth, &k), tap = sg_divide(k, in, &i), from = source(row, tap);
            if (from >= 0) sg_get_pack(x, from + i, n, true, v);
        } else {
#pragma unroll
            for (int e = 0; e < SG_PACK; e++) {
                if (e == n) break;
                int64_t       k, i;
                const int64_t row = sg_divide(at + e, depth, &k), tap = sg_divide(k, in, &i), from = source(row, tap);
                if (from >= 0) v[e] = sg_get(x, from + i);
            }
        }
        sg_put_pack(to, at, n, true, v);
    }
};

/* y += sum at the places of rows of sum. */
struct add_edges {
    sg_view     y;
    const float *sum;
    int64_t     first, out; /* place of row 0; channels */
    edge_places edges;
    __device__ void operator()(int64_t at) const
    {
        int64_t       o, t, r, u;
        const int64_t row = sg_divide(at, out, &o);
        edges.place(first + row, &t, &r, &u);
        const int64_t to = ((t * edges.rows + r) * edges.cols + u) * out + o;
        sg_put(y, to, sg_get(y, to) + sum[at]);
    }
};

/* ---- launchers ---- */

static bool is_pointwise(const sg_conv_args *a)
{
    for (int k = 0; k < 3; k++)
        if (a->w.dim[2 + k] != 1 || a->stride[k] != 1) return false;
    for (int k = 0; k < 4; k++)
        if (a->pad[k]) return false;
    return true;
}

static sg_linear_job linear_of(const sg_conv_args *a)
{
    return {.y = a->y.data, .x = a->x.data, .w = a->w.data, .b = sg_data(a->b),
            .n = a->y.dim[0] * a->y.dim[1] * a->y.dim[2], .i = a->w.dim[1] * a->w.dim[2] * a->w.dim[3] * a->w.dim[4],
            .o = a->w.dim[0], .y_type = a->y.dtype, .x_type = a->x.dtype, .w_type = a->w.dtype, .add = a->add};
}

static gather_kernel gather_of(const sg_conv_args *a, const sg_linear_job *p, void *to)
{
    return {.to = sg_view_at(to, p->x_type), .x = sg_view_of(a->x), .in = a->w.dim[1], .depth = p->i,
            .rows = a->y.dim[1], .cols = a->y.dim[2], .x_rows = a->x.dim[1], .x_cols = a->x.dim[2], .ky = a->w.dim[3],
            .kx = a->w.dim[4], .stride = {a->stride[0], a->stride[1], a->stride[2]}, .above = a->pad[0],
            .left = a->pad[2], .reads = a->edge == SG_EDGE_REPLICATE ? READ_ALL : READ_INSIDE};
}

/* With strides of 1. */
static edge_places edges_of(const sg_conv_args *a)
{
    const int64_t rows = a->y.dim[1], cols = a->y.dim[2];
    const int64_t above = sg_min64(a->pad[0], rows), left = sg_min64(a->pad[2], cols);
    return {rows, cols, above, sg_min64(a->pad[1], rows - above), left, sg_min64(a->pad[3], cols - left)};
}

/* y holds the convolution with zeros beyond the edges, in BF16, as cuDNN has it: adds what replicated ones give. w in the
 * order [o, taps, i]. */
static sg_status finish_edges(sg_stream *s, const sg_conv_args *a, void *w)
{
    const edge_places edges = edges_of(a);
    sg_linear_job     p = linear_of(a);
    const int64_t     places = a->y.dim[0] * edges.of_frame(), width = p.i * (int64_t)sizeof(uint16_t);
    const int64_t     both = width + p.o * (int64_t)sizeof(float); /* a gathered row, and its sums behind all of them */
    const int64_t     rows = sg_min64(places, sg_max64(1, (SG_CUDA_X_BYTES - SG_ALIGN) / both));
    if (places == 0) return SG_OK;
    char *const x = (char *)sg_cuda_scratch(s, "conv", SG_CUDA_X, (size_t)(rows * both) + SG_ALIGN);
    if (!x) return s->status;
    gather_kernel g = gather_of(a, &p, x);
    g.reads = READ_OUTSIDE;
    g.edges = edges;
    float *const sum = (float *)(x + sg_div_up(rows * width, SG_ALIGN) * SG_ALIGN);
    add_edges    add = {sg_view_of(a->y), sum, 0, p.o, edges};
    p.x = x;
    p.w = w;
    p.y = sum;
    p.y_type = SG_F32;
    p.b = NULL;
    p.add = false;
    for (g.first = 0; g.first < places; g.first += rows) {
        p.n = sg_min64(rows, places - g.first);
        add.first = g.first;
        SG_TRY(sg_cuda_each_pack(s, "conv", p.n * p.i, g));
        SG_TRY(sg_cuda_linear(s, "conv", &p));
        SG_TRY(sg_cuda_each(s, "conv", p.n * p.o, add));
    }
    return SG_OK;
}

static sg_status put_bias(sg_stream *s, const sg_conv_args *a)
{
    sg_linear_job p = linear_of(a);
    p.i = 0; /* a sum of nothing, plus the bias */
    return sg_cuda_linear(s, "conv", &p);
}

/* cuDNN's engines want channels in packs: a decoder's last convolution takes 35 ms to 3 channels and 4 ms to 128
 * (kernels/LOG.md). */
static bool fills_channels(const sg_conv_args *a)
{
    return a->w.dim[0] % SG_PACK && a->w.dim[1] % SG_PACK == 0 && a->y.dtype == SG_BF16 && a->x.dtype == SG_BF16 &&
           a->w.dtype == SG_BF16;
}

/* The convolution by cuDNN, with output channels of zero weights up to whole packs, into scratch, for as many frames at a
 * time as fit; the last frames overlap those before them, so that all are of one shape. w has the zeros. False: as
 * sg_cuda_conv_dnn, or a frame does not fit. */
static bool conv_filled(sg_stream *s, const sg_conv_args *a, void *w, sg_status *status)
{
    const int64_t out = a->w.dim[0], packs = sg_div_up(out, SG_PACK), frames = a->y.dim[0];
    const int64_t places = a->y.dim[1] * a->y.dim[2], bytes = places * packs * SG_PACK * (int64_t)sizeof(uint16_t);
    const int64_t most = SG_CUDA_SUM_BYTES / bytes, piece = most ? sg_div_up(frames, sg_div_up(frames, most)) : 0;
    void *const   sum = most ? sg_cuda_scratch(s, "conv", SG_CUDA_SUM, (size_t)(piece * bytes)) : NULL;
    sg_conv_args  filled = *a;
    if (!sum) return (*status = s->status) != SG_OK;
    filled.b = sg_tensor();
    filled.add = false;
    filled.edge = SG_EDGE_ZERO;
    filled.y.data = sum;
    filled.y.dim[0] = piece;
    filled.y.dim[3] = filled.w.dim[0] = packs * SG_PACK;
    filled.x.dim[0] = piece + a->w.dim[2] - 1;
    const int64_t x_frame = a->x.dim[1] * a->x.dim[2] * a->x.dim[3];
    for (int64_t done = 0; done < frames; done += piece) {
        const int64_t from = sg_min64(done, frames - piece), again = done - from;
        filled.x.data = (uint16_t *)a->x.data + from * x_frame;
        if (!sg_cuda_conv_dnn(s, &filled, w, NULL, status)) return false;
        const uint16_t *const y = (const uint16_t *)a->y.data + done * places * out;
        const take_channels   take = {sg_view_at(y, SG_BF16), sg_view_at((char *)sum + again * bytes, SG_BF16),
                                      sg_view_of(a->b), packs, out, a->add};
        if (*status || (*status = sg_cuda_each(s, "conv", (piece - again) * places * packs, take))) return true;
    }
    return true;
}

static bool conv_by_dnn(sg_stream *s, const sg_conv_args *a, void *w, sg_status *status)
{
    return fills_channels(a) ? conv_filled(s, a, w, status) : sg_cuda_conv_dnn(s, a, w, put_bias, status);
}

static sg_status conv(sg_stream *s, const sg_conv_args *a)
{
    sg_linear_job p = linear_of(a);
    if (is_pointwise(a) || p.i == 0) return sg_cuda_linear(s, "conv", &p);
    const sg_dtype type = p.x_type == SG_BF16 && p.w_type == SG_BF16 ? SG_BF16 : SG_F32;
    const size_t   width = (size_t)p.i * sg_dtype_size(type), y_width = (size_t)p.o * sg_dtype_size(p.y_type);
    const int64_t  places = p.n, most = sg_max64(1, (int64_t)(SG_CUDA_X_BYTES / width));
    const int64_t  rows = sg_div_up(places, sg_div_up(places, most)); /* of equal pieces */
    const int64_t  w_rows = fills_channels(a) ? sg_div_up(p.o, SG_PACK) * SG_PACK : p.o;
    void *const    w = sg_cuda_scratch(s, "conv", SG_CUDA_W, (size_t)w_rows * width);
    sg_status      status = SG_OK;
    if (!w) return s->status;
    const permute_weights permute = {sg_view_at(w, type), sg_view_of(a->w), a->w.dim[1], p.i / a->w.dim[1], p.o};
    SG_TRY(sg_cuda_each(s, "conv", w_rows * p.i, permute));
    if (conv_by_dnn(s, a, w, &status)) return status || a->edge != SG_EDGE_REPLICATE ? status : finish_edges(s, a, w);
    void *const x = sg_cuda_scratch(s, "conv", SG_CUDA_X, (size_t)rows * width);
    if (!x) return s->status;
    p.x_type = p.w_type = type;
    p.x = x;
    p.w = w;
    gather_kernel g = gather_of(a, &p, x);
    for (g.first = 0; g.first < places; g.first += rows) {
        p.n = sg_min64(rows, places - g.first);
        p.y = (char *)a->y.data + (size_t)g.first * y_width;
        SG_TRY(sg_cuda_each_pack(s, "conv", p.n * p.i, g));
        SG_TRY(sg_cuda_linear(s, "conv", &p));
    }
    return SG_OK;
}

void sg_cuda_conv_init(sg_ops *t) { t->conv = conv; }
