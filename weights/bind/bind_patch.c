/* bind_patch.c - see sg_bind_patch in bind.h: differences of any form, added as a tensor is loaded. */
#include "base/array.h"
#include "base/text.h"
#include "bind_state.h"
#include "convert.h"
#include "low_rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PIECE = 1 << 18 }; /* elements at a time, at most */

/* ---- shapes ---- */

typedef struct shape {
    int64_t rows, row; /* row: numbers of one */
} shape;

/* Numbers behind the first dimension, of a shape that has a size. */
static int64_t row_of(int rank, const int64_t *dim)
{
    int64_t n = 1;
    for (int i = 1; i < rank; i++) n *= dim[i];
    return n;
}

/* False: t is no matrix with a number in it. */
static bool shape_of(const sg_source_tensor *t, shape *out)
{
    if (t->rank < 1 || !sg_bind_has_size(t->rank, t->dim)) return false;
    *out = (shape){t->dim[0], row_of(t->rank, t->dim)};
    return out->rows > 0 && out->row > 0;
}

static bool shape_of_factor(const sg_factor *f, shape *out)
{
    shape down;
    if (!shape_of(f->up, out)) return false;
    if (!f->down) return true;
    if (!shape_of(f->down, &down) || out->row != down.rows) return false;
    out->row = down.row;
    return true;
}

/* Finds the shape of D, where w has the rows of it that cut means. */
static bool shape_of_whole(const sg_bind_want *w, const sg_name_rule *cut, shape *out)
{
    int64_t parts = 0;
    *out = (shape){.rows = w->dim[0]};
    if (!sg_bind_has_size(w->rank, w->dim)) return false;
    out->row = row_of(w->rank, w->dim);
    if (!cut) return true;
    for (int i = 0; i < SG_NAME_ROWS; i++) parts += cut->rows[i].count;
    return parts > 0 && w->dim[0] % parts == 0 && !__builtin_mul_overflow(w->dim[0] / parts, cut->of, &out->rows);
}

static bool are_equal(shape a, shape b) { return a.rows == b.rows && a.row == b.row; }

/* a b = whole? */
static bool divides(int64_t a, int64_t b, int64_t whole) { return whole % a == 0 && whole / a == b; }

static bool fits(const sg_patch *p, shape d)
{
    shape a, b;
    if (!shape_of_factor(&p->factor[0], &a)) return false;
    if (!p->factor[1].up) return are_equal(a, d);
    if (!shape_of_factor(&p->factor[1], &b)) return false;
    return (are_equal(a, d) && are_equal(b, d)) || (divides(a.rows, b.rows, d.rows) && divides(a.row, b.row, d.row));
}

static bool is_float(const sg_source_tensor *t)
{
    return !t || (t->type->block == 1 && strcmp(t->type->name, "I8") != 0 && sg_convert_reads(t->type));
}

/* "[8, 2] by [2, 16]", or "[8, 16]". */
static const char *factor_text(char out[256], const sg_factor *f)
{
    char up[120], down[120];
    sg_shape_text(up, sizeof up, f->up->rank, f->up->dim);
    if (f->down) sg_shape_text(down, sizeof down, f->down->rank, f->down->dim);
    snprintf(out, 256, f->down ? "%s by %s" : "%s", up, down);
    return out;
}

static sg_status misshapen(const sg_patch *p, const sg_bind_want *w, shape d, sg_error *e)
{
    char    is[256], times[256], should[120];
    int64_t dim[SG_MAX_RANK];
    memcpy(dim, w->dim, sizeof dim);
    dim[0] = d.rows;
    sg_shape_text(should, sizeof should, w->rank, dim);
    const bool two = p->factor[1].up != NULL;
    return sg_error_set(e, SG_E_FORMAT, "%s: the patch of tensor \"%s\" is %s%s%s, which do%s not fit %s", p->path,
                        sg_show(w->name), factor_text(is, &p->factor[0]), two ? " and " : "",
                        two ? factor_text(times, &p->factor[1]) : "", two ? "" : "es", should);
}

/* One patch of w more, or one less. */
static void count(sg_bind_want *w, const sg_patch *p, int by)
{
    const bool product = p->factor[0].down && !p->factor[1].up;
    w->patches += by;
    if (product)
        w->ranks += by * p->factor[0].down->dim[0];
    else
        w->others += by;
}

sg_status sg_bind_patch(sg_bind *b, const sg_patch *p, sg_error *e)
{
    size_t at = 0;
    shape  d = {0};
    while (at < b->count && strcmp(b->binding[at].name, p->name) != 0) at++;
    if (at == b->count)
        return sg_error_set(e, SG_E_ARG, "%s: the patch is of tensor \"%s\", which this model does not have", p->path,
                            sg_show(p->name));
    sg_bind_want *const w = &b->binding[at];
    if (b->backend)
        return sg_error_set(e, SG_E_ARG, "%s: the patch of tensor \"%s\" comes after loading", p->path,
                            sg_show(p->name));
    if (!shape_of_whole(w, p->cut, &d) || !fits(p, d)) return misshapen(p, w, d, e);
    for (int i = 0; i < 2; i++)
        if (!isfinite(p->scale) || !is_float(p->factor[i].up) || !is_float(p->factor[i].down))
            return sg_error_set(e, SG_E_FORMAT,
                                "%s: the patch of tensor \"%s\" should be F32, F16, BF16 or FP8, its scale %g finite",
                                p->path, sg_show(w->name), p->scale);
    if (!sg_array_push(b->patch, b->patches, b->patch_room, (sg_bound_patch){*p, at}))
        return sg_error_memory(e, p->path);
    count(w, p, 1);
    sg_bind_settle(b, w);
    return b->mistake_code == SG_E_MEMORY ? sg_error_memory(e, p->path) : SG_OK;
}

size_t sg_bind_patches(const sg_bind *b) { return b->patches; }

void sg_bind_unpatch(sg_bind *b, size_t kept)
{
    while (b->patches > kept) {
        const sg_bound_patch *const last = &b->patch[--b->patches];
        count(&b->binding[last->binding], &last->patch, -1);
        sg_bind_settle(b, &b->binding[last->binding]);
    }
}

/* ---- as a tensor is loaded ---- */

/* A factor as it is computed with. */
struct sg_bind_factor {
    const sg_source_tensor *whole;     /* of D's shape, converted as far as it is needed; or */
    float                  *up, *down; /* of D's shape, down [r, row] in panels; or */
    float                  *small;     /* [of.rows, of.row], of Kronecker's product */
    size_t                  r;
    shape                   of, d;
};

static sg_status not_finite(const sg_patch *p, sg_error *e)
{
    return sg_error_set(e, SG_E_NUMERIC, "%s: the patch of tensor \"%s\" has a NaN or an infinity", p->path,
                        sg_show(p->name));
}

sg_status sg_bind_take(float **out, const sg_patch *p, const sg_source_tensor *t, int threads, sg_error *e)
{
    shape s = {0};
    shape_of(t, &s);
    const size_t n = (size_t)(s.rows * s.row);
    *out = malloc(n * sizeof **out);
    if (!*out) return sg_error_memory(e, p->path);
    return sg_convert_from(*out, SG_F32, t, 0, n, threads) ? SG_OK : not_finite(p, e);
}

static sg_status take_low_rank(struct sg_bind_factor *f, const sg_bind_patched *to, const sg_patch *p,
                               const sg_factor *from, sg_error *e)
{
    float *down = NULL;
    f->r = (size_t)from->down->dim[0];
    SG_TRY(sg_bind_take(&f->up, p, from->up, to->threads, e));
    sg_status status = sg_bind_take(&down, p, from->down, to->threads, e);
    f->down = status == SG_OK ? malloc(sg_low_rank_panels(f->r, (size_t)f->of.row) * sizeof *down) : NULL;
    if (status == SG_OK && !f->down) status = sg_error_memory(e, p->path);
    if (status == SG_OK) sg_low_rank_pack(f->down, down, f->r, (size_t)f->of.row);
    free(down);
    return status;
}

static sg_status open_factor(struct sg_bind_factor *f, const sg_bind_patched *to, const sg_patch *p,
                             const sg_factor *from, shape d, sg_error *e)
{
    f->d = d;
    shape_of_factor(from, &f->of);
    if (from->down) SG_TRY(take_low_rank(f, to, p, from, e));
    if (are_equal(f->of, d)) {
        f->whole = from->down ? NULL : from->up;
        return SG_OK;
    }
    if (!from->down) return sg_bind_take(&f->small, p, from->up, to->threads, e);
    const size_t n = (size_t)(f->of.rows * f->of.row);
    if (!(f->small = malloc(n * sizeof *f->small))) return sg_error_memory(e, p->path);
    sg_low_rank(f->small, f->up, f->down, f->r, (size_t)f->of.row, 0, n, to->features, to->threads);
    return SG_OK;
}

sg_status sg_bind_patched_open(sg_bind_patched *p, const sg_bind *b, const sg_bind_want *w, sg_error *e)
{
    const size_t n = (size_t)sg_count(*w->tensor), piece = n < PIECE ? n : PIECE;
    const int    threads = b->backend->threads > 0 ? b->backend->threads : 1;
    *p = (sg_bind_patched){.piece = piece, .threads = threads, .features = b->backend->features};
    p->factor = calloc(2 * (size_t)w->patches, sizeof *p->factor);
    p->sum = malloc(3 * piece * sizeof *p->sum);
    if (!p->factor || !p->sum) return sg_error_memory(e, sg_source_path(b->source));
    struct sg_bind_factor *f = p->factor;
    for (size_t i = 0; i < b->patches; i++) {
        const sg_patch *const patch = &b->patch[i].patch;
        shape                 d;
        if (&b->binding[b->patch[i].binding] != w) continue;
        shape_of_whole(w, patch->cut, &d);
        for (int k = 0; k < 2 && patch->factor[k].up; k++)
            SG_TRY(open_factor(f + k, p, patch, &patch->factor[k], d, e));
        f += 2;
    }
    return SG_OK;
}

void sg_bind_patched_close(sg_bind_patched *p, const sg_bind_want *w)
{
    for (int i = 0; p->factor && i < 2 * w->patches; i++) {
        free(p->factor[i].up);
        free(p->factor[i].down);
        free(p->factor[i].small);
    }
    free(p->factor);
    free(p->sum);
}

/* y[to - from] = numbers `from` to `to` of a row of Kronecker's first factor, each of them run times; of its second, all of
 * them run times. */
static void spread(float *y, const float *row, const struct sg_bind_factor *f, bool second, size_t from, size_t to)
{
    const size_t own = (size_t)f->of.row, run = (size_t)(f->d.row / f->of.row);
    for (size_t x = from, n; x < to; x += n, y += n) {
        const size_t whole = second ? own - x % own : run - x % run;
        n = to - x < whole ? to - x : whole;
        if (second)
            memcpy(y, row + x % own, n * sizeof *y);
        else
            for (size_t k = 0; k < n; k++) y[k] = row[x / run];
    }
}

/* y[count] = what the factor is at elements i to i + count of D. False: a NaN or an infinity. */
static bool factor_at(float *y, const sg_bind_patched *p, const struct sg_bind_factor *f, bool second, size_t i,
                      size_t count)
{
    const size_t width = (size_t)f->d.row, first = i / width, last = (i + count - 1) / width;
    if (f->whole) return sg_convert_from(y, SG_F32, f->whole, i, count, p->threads);
    if (!f->small) {
        sg_low_rank(y, f->up, f->down, f->r, width, i, count, p->features, p->threads);
        return true;
    }
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (size_t row = first; row <= last; row++) {
        const size_t from = row == first ? i % width : 0, to = row == last ? (i + count - 1) % width + 1 : width;
        const size_t own = second ? row % (size_t)f->of.rows : row / (size_t)(f->d.rows / f->of.rows);
        spread(y + (row * width + from - i), f->small + own * (size_t)f->of.row, f, second, from, to);
    }
    return true;
}

/* sum[count] += scale D at its elements i to i + count. */
static bool add(const sg_bind_patched *p, const struct sg_bind_factor *f, float scale, float *sum, size_t i,
                size_t count)
{
    float *const term = p->sum + p->piece, *const times = term + p->piece;
    const bool two = f[1].d.rows > 0;
    if (!factor_at(term, p, &f[0], false, i, count)) return false;
    if (two && !factor_at(times, p, &f[1], true, i, count)) return false;
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (size_t k = 0; k < count; k++) {
        if (two) term[k] *= times[k];
        sum[k] += scale * term[k];
    }
    return true;
}

/* p->sum[count] += elements i to i + count of a patch: those of D that are the tensor's, run after run. */
static bool add_rows(const sg_bind_patched *p, const sg_patch *patch, const struct sg_bind_factor *f, size_t i,
                     size_t count)
{
    const sg_name_rule *const cut = patch->cut;
    const size_t              part = cut ? (size_t)(f->d.rows / cut->of * f->d.row) : 0;
    size_t                    at = 0; /* elements of the tensor in the runs before */
    if (!cut) return add(p, f, (float)patch->scale, p->sum, i, count);
    for (int k = 0; k < SG_NAME_ROWS && cut->rows[k].count; k++) {
        const size_t end = at + (size_t)cut->rows[k].count * part;
        const size_t from = i > at ? i : at, to = i + count < end ? i + count : end;
        if (from < to && !add(p, f, (float)patch->scale, p->sum + (from - i),
                              (size_t)cut->rows[k].first * part + (from - at), to - from))
            return false;
        at = end;
    }
    return true;
}

/* The sum's numbers as w is wanted. False: they are too large, or not finite. */
static bool put(const sg_bind_patched *p, const sg_bind_want *w, uint8_t *y, size_t count)
{
    enum { STEP = 1 << 12 };
    int bad = 0;
    if (!w->tensor->quant.type) return sg_convert(y, w->tensor->dtype, p->sum, SG_F32, count, p->threads);
#pragma omp parallel for schedule(static) num_threads(p->threads) reduction(| : bad)
    for (size_t i = 0; i < count; i += STEP)
        bad |= !sg_quant_pack(y + sg_bind_bytes_of(w, i), p->sum + i, count - i < STEP ? count - i : STEP);
    return !bad;
}

sg_status sg_bind_patched_make(const sg_bind_patched *p, const sg_bind *b, const sg_bind_want *w, void *y, size_t i,
                               size_t count, sg_error *e)
{
    const sg_tensor *const t = w->tensor;
    for (size_t done = 0; done < count; done += p->piece) {
        const size_t                 n = count - done < p->piece ? count - done : p->piece;
        const struct sg_bind_factor *f = p->factor;
        SG_TRY(sg_bind_convert(b, w, p->sum, SG_F32, i + done, n, p->threads, e));
        for (size_t k = 0; k < b->patches; k++) {
            if (&b->binding[b->patch[k].binding] != w) continue;
            if (!add_rows(p, &b->patch[k].patch, f, i + done, n)) return not_finite(&b->patch[k].patch, e);
            f += 2;
        }
        if (!put(p, w, (uint8_t *)y + sg_bind_bytes_of(w, done), n))
            return sg_error_set(e, SG_E_NUMERIC, "%s: tensor \"%s\" with its patches has numbers too large for %s",
                                sg_source_path(b->source), sg_show(w->name),
                                t->quant.type ? sg_quant_name((sg_quant_type)t->quant.type) : sg_dtype_name(t->dtype));
    }
    return SG_OK;
}
