/* replicated_edges.c - convolutions whose edges are replicated, by a library that knows none: x is copied with its edges, for
 * a few frames of y at a time.
 *
 * oneDNN 2.6 takes 1.3 to 2.9 times as long for a BF16 convolution by tiles when there is no padding left and right. So it
 * gets a column of padding there, and of its result the columns between go to y. */
#include "cpu.h"

enum { FRAMES = 4 }; /* of a piece, at most */

bool sg_replicates(const sg_conv_args *a)
{
    return a->edge == SG_EDGE_REPLICATE && (a->pad[0] || a->pad[1] || a->pad[2] || a->pad[3]);
}

int64_t sg_replicated_frames(const sg_conv_args *a)
{
    const int64_t f = a->y.dim[0];
    return sg_div_up(f, sg_div_up(f, FRAMES));
}

sg_conv_args sg_replicated_piece(const sg_conv_args *a, int64_t t, sg_dtype type)
{
    const int64_t f = sg_min64(sg_replicated_frames(a), a->y.dim[0] - t);
    sg_conv_args  p = *a;
    p.y = sg_rows(a->y, t, f);
    p.x.data = NULL;
    p.x.dtype = type;
    p.x.dim[0] = (f - 1) * a->stride[0] + a->w.dim[2];
    p.x.dim[1] += a->pad[0] + a->pad[1];
    p.x.dim[2] += a->pad[2] + a->pad[3];
    p.edge = SG_EDGE_ZERO;
    memset(p.pad, 0, sizeof p.pad);
    if (type == SG_BF16 && a->w.dim[4] > 1) {
        p.y.data = NULL;
        p.y.dim[2] += 2;
        if (a->add) p.y.dtype = SG_F32; /* rounded once */
        p.pad[2] = p.pad[3] = 1;
        p.add = false;
    }
    return p;
}

/* All columns of y but the first and the last to frames of a->y from t on, or added to them. */
static sg_status put_columns(sg_stream *s, const sg_conv_args *a, sg_tensor y, int64_t t)
{
    const sg_ops *const plain = &sg_cpu_of(s)->ops;
    const int64_t       rows = y.dim[0] * y.dim[1], o = y.dim[3], n = a->y.dim[2] * o;
    const size_t        size = sg_dtype_size(y.dtype), to_size = sg_dtype_size(a->y.dtype);
    for (int64_t r = 0; r < rows; r++) {
        const int64_t   at = (t * a->y.dim[1] + r) * n;
        const sg_tensor from = {(char *)y.data + (size_t)(r * y.dim[2] + 1) * (size_t)o * size, y.dtype, 1, {n}};
        const sg_tensor to = {(char *)a->y.data + (size_t)at * to_size, a->y.dtype, 1, {n}};
        SG_TRY(a->add ? plain->gate_add(s, &(sg_gate_add_args){.x = to, .r = from})
                      : plain->copy(s, &(sg_copy_args){.y = to, .x = from}));
    }
    return SG_OK;
}

/* y[t, r, s] = x[first + t, r - above, s - left], or the nearest place inside x. */
static void copy_with_edges(const sg_cpu *c, sg_tensor y, sg_tensor x, int64_t first, int64_t above, int64_t left)
{
    const int64_t *const yd = y.dim, *const xd = x.dim, n = xd[3], right = yd[2] - left - xd[2];
#pragma omp parallel for schedule(static) num_threads(c->threads)
    for (int64_t i = 0; i < yd[0] * yd[1]; i++) {
        const int64_t row = (first + i / yd[1]) * xd[1] + sg_edge_place(SG_EDGE_REPLICATE, i % yd[1] - above, xd[1]);
        const int64_t from = row * xd[2] * n, last = from + (xd[2] - 1) * n, to = i * yd[2] * n;
        for (int64_t s = 0; s < left; s++) sg_move_run(&y, to + s * n, &x, from, n);
        sg_move_run(&y, to + left * n, &x, from, xd[2] * n);
        for (int64_t s = 0; s < right; s++) sg_move_run(&y, to + (left + xd[2] + s) * n, &x, last, n);
    }
}

sg_status sg_conv_replicated(sg_stream *s, const sg_conv_args *a, sg_dtype type, sg_library_conv_fn *conv,
                             sg_conv_fn *plain)
{
    sg_cpu *const c = sg_cpu_of(s);
    for (int64_t t = 0; t < a->y.dim[0]; t += sg_replicated_frames(a)) {
        sg_conv_args p = sg_replicated_piece(a, t, type);
        const bool   wider = !p.y.data;
        p.x.data = sg_cpu_scratch(c, SG_SLOT_X, sg_bytes(p.x));
        if (wider) p.y.data = sg_cpu_scratch(c, SG_SLOT_Y, sg_bytes(p.y));
        if (!p.x.data || !p.y.data) return SG_E_MEMORY;
        copy_with_edges(c, p.x, a->x, t * a->stride[0], a->pad[0], a->pad[2]);
        SG_TRY(conv(s, &p, plain));
        if (wider) SG_TRY(put_columns(s, a, p.y, t));
    }
    return SG_OK;
}
