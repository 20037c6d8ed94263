/* bind_patch.c - see sg_bind_patch in bind.h: low-rank and whole differences, added as a tensor is loaded. */
#include "base/array.h"
#include "base/text.h"
#include "bind_state.h"
#include "convert.h"

#include <math.h>
#include <stdlib.h>

enum { PIECE = 1 << 18, BLOCK = 1024 }; /* elements; a block stays in the first cache while it is summed */

static bool is_low_rank(const sg_patch *p) { return p->diff.rank == 0; }

/* Numbers behind the first dimension, of a shape that has a size. */
static int64_t row_of(int rank, const int64_t *dim)
{
    int64_t n = 1;
    for (int i = 1; i < rank; i++) n *= dim[i];
    return n;
}

static bool low_rank_fits(const sg_patch *p, const sg_bind_want *w)
{
    const sg_tensor *const up = &p->up, *const down = &p->down;
    if (up->rank < 1 || down->rank < 1 || !sg_bind_has_size(up->rank, up->dim) ||
        !sg_bind_has_size(down->rank, down->dim) || !sg_bind_has_size(w->rank, w->dim))
        return false;
    const int64_t r = row_of(up->rank, up->dim);
    return r > 0 && up->dim[0] == w->dim[0] && down->dim[0] == r &&
           row_of(down->rank, down->dim) == row_of(w->rank, w->dim);
}

static bool diff_fits(const sg_patch *p, const sg_bind_want *w)
{
    return sg_bind_has_size(w->rank, w->dim) && p->diff.rank == w->rank &&
           memcmp(p->diff.dim, w->dim, (size_t)w->rank * sizeof *w->dim) == 0;
}

static bool is_float(const sg_tensor *t) { return t->dtype == SG_F32 || t->dtype == SG_F16 || t->dtype == SG_BF16; }

static sg_status check_patch(const sg_patch *p, const sg_bind_want *w, sg_error *e)
{
    char should[120], is[120], by[120];
    if (is_low_rank(p) ? low_rank_fits(p, w) : diff_fits(p, w)) {
        if (isfinite(p->scale) && (is_low_rank(p) ? is_float(&p->up) && is_float(&p->down) : is_float(&p->diff)))
            return SG_OK;
        return sg_error_set(e, SG_E_FORMAT,
                            "%s: the patch of tensor \"%s\" should be F32, F16 or BF16, its scale %g finite", p->path,
                            sg_show(w->name), p->scale);
    }
    sg_shape_text(should, sizeof should, w->rank, w->dim);
    sg_shape_text(is, sizeof is, is_low_rank(p) ? p->up.rank : p->diff.rank, is_low_rank(p) ? p->up.dim : p->diff.dim);
    sg_shape_text(by, sizeof by, p->down.rank, p->down.dim);
    if (is_low_rank(p))
        return sg_error_set(e, SG_E_FORMAT, "%s: the patch of tensor \"%s\" is %s by %s, which does not fit %s",
                            p->path, sg_show(w->name), is, by, should);
    return sg_error_set(e, SG_E_FORMAT, "%s: the patch of tensor \"%s\" is %s, which does not fit %s", p->path,
                        sg_show(w->name), is, should);
}

sg_status sg_bind_patch(sg_bind *b, const sg_patch *p, sg_error *e)
{
    size_t at = 0;
    while (at < b->count && strcmp(b->binding[at].name, p->name) != 0) at++;
    if (at == b->count)
        return sg_error_set(e, SG_E_ARG, "%s: the patch is of tensor \"%s\", which this model does not have", p->path,
                            sg_show(p->name));
    if (b->backend)
        return sg_error_set(e, SG_E_ARG, "%s: the patch of tensor \"%s\" comes after loading", p->path,
                            sg_show(p->name));
    SG_TRY(check_patch(p, &b->binding[at], e));
    if (!sg_array_push(b->patch, b->patches, b->patch_room, (sg_bound_patch){*p, at}))
        return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", p->path);
    b->binding[at].patches++;
    return SG_OK;
}

/* ---- as a tensor is loaded ---- */

static bool is_of(const sg_bind_patched *p, size_t i)
{
    return &p->bind->binding[p->bind->patch[i].binding] == p->binding;
}

static size_t factor_count(const sg_patch *p)
{
    return is_low_rank(p) ? (size_t)sg_count(p->up) + (size_t)sg_count(p->down) : 0;
}

static sg_status not_finite(const sg_bind_patched *p, const sg_patch *patch, sg_error *e)
{
    return sg_error_set(e, SG_E_NUMERIC, "%s: the patch of tensor \"%s\" has a NaN or an infinity", patch->path,
                        sg_show(p->binding->name));
}

sg_status sg_bind_patched_open(sg_bind_patched *p, const sg_bind *b, const sg_bind_want *w, int threads, sg_error *e)
{
    size_t n = 1;
    *p = (sg_bind_patched){.bind = b, .binding = w, .threads = threads > 0 ? threads : 1};
    for (size_t i = 0; i < b->patches; i++) n += is_of(p, i) ? factor_count(&b->patch[i].patch) : 0;
    p->factor = malloc(n * sizeof *p->factor);
    p->sum = malloc(PIECE * sizeof *p->sum);
    p->term = malloc(PIECE * sizeof *p->term);
    if (!p->factor || !p->sum || !p->term)
        return sg_error_set(e, SG_E_MEMORY, "%s: out of memory for the patches of \"%s\"", sg_source_path(b->source),
                            sg_show(w->name));
    float *to = p->factor;
    for (size_t i = 0; i < b->patches; i++) {
        const sg_patch *const patch = &b->patch[i].patch;
        if (!is_of(p, i) || !is_low_rank(patch)) continue;
        const size_t up = (size_t)sg_count(patch->up), down = (size_t)sg_count(patch->down);
        if (!sg_convert(to, SG_F32, patch->up.data, patch->up.dtype, up, p->threads) ||
            !sg_convert(to + up, SG_F32, patch->down.data, patch->down.dtype, down, p->threads))
            return not_finite(p, patch, e);
        to += up + down;
    }
    return SG_OK;
}

void sg_bind_patched_close(sg_bind_patched *p)
{
    free(p->factor);
    free(p->sum);
    free(p->term);
    *p = (sg_bind_patched){0};
}

/* y[n] = the sum over r of up[r] down[r, width]. */
static void combine(float *y, const float *up, const float *down, size_t r, size_t width, size_t n)
{
    memset(y, 0, n * sizeof *y);
    for (size_t k = 0; k < r; k++) {
        const float  u = up[k];
        const float *d = down + k * width;
        for (size_t c = 0; c < n; c++) y[c] += u * d[c];
    }
}

/* term[count] = elements i to i + count of up[o, r] down[r, width]. */
static void multiply(float *term, const float *up, const float *down, size_t r, size_t width, size_t i, size_t count,
                     int threads)
{
    const size_t first = i / width, last = (i + count - 1) / width;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (size_t row = first; row <= last; row++) {
        const size_t from = row == first ? i % width : 0, to = row == last ? (i + count - 1) % width + 1 : width;
        for (size_t at = from; at < to; at += BLOCK)
            combine(term + (row * width + at - i), up + row * r, down + at, r, width,
                    to - at < BLOCK ? to - at : BLOCK);
    }
}

static void add(float *sum, const float *term, float scale, size_t n)
{
    for (size_t i = 0; i < n; i++) sum[i] += scale * term[i];
}

/* sum[count] += elements i to i + count of every patch. */
static sg_status add_all(sg_bind_patched *p, size_t i, size_t count, sg_error *e)
{
    const float *factor = p->factor;
    for (size_t k = 0; k < p->bind->patches; k++) {
        const sg_patch *const patch = &p->bind->patch[k].patch;
        if (!is_of(p, k)) continue;
        if (is_low_rank(patch)) {
            const size_t up = (size_t)sg_count(patch->up), r = (size_t)patch->down.dim[0];
            multiply(p->term, factor, factor + up, r, (size_t)sg_count(patch->down) / r, i, count, p->threads);
            factor += factor_count(patch);
        } else {
            const uint8_t *const x = (const uint8_t *)patch->diff.data + i * sg_dtype_size(patch->diff.dtype);
            if (!sg_convert(p->term, SG_F32, x, patch->diff.dtype, count, p->threads)) return not_finite(p, patch, e);
        }
        add(p->sum, p->term, (float)patch->scale, count);
    }
    return SG_OK;
}

sg_status sg_bind_patched_make(sg_bind_patched *p, void *y, size_t i, size_t count, bool *in_file, sg_error *e)
{
    const sg_dtype as = p->binding->tensor->dtype;
    const size_t   out = sg_dtype_size(as);
    for (size_t done = 0; done < count; done += PIECE) {
        const size_t n = count - done < PIECE ? count - done : PIECE;
        *in_file = !sg_bind_convert(p->binding, p->sum, SG_F32, i + done, n, p->threads);
        if (*in_file) return SG_E_NUMERIC;
        SG_TRY(add_all(p, i + done, n, e));
        if (!sg_convert((uint8_t *)y + done * out, as, p->sum, SG_F32, n, p->threads))
            return sg_error_set(e, SG_E_NUMERIC, "%s: tensor \"%s\" with its patches has numbers too large for %s",
                                sg_source_path(p->bind->source), sg_show(p->binding->name), sg_dtype_name(as));
    }
    return SG_OK;
}
