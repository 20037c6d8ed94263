/* bind.c - see bind.h. */
#include "base/array.h"
#include "base/text.h"
#include "bind_state.h"
#include "convert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_LINES = 9 }; /* of one kind of trouble in the report */

sg_status sg_bind_open(sg_bind **out, const sg_source *w, const sg_name_map *map, sg_error *e)
{
    sg_bind *const b = *out = calloc(1, sizeof *b);
    const size_t   n = sg_source_count(w);
    if (b) b->bound = calloc(n ? n : 1, sizeof *b->bound);
    if (!b || !b->bound) {
        free(b);
        *out = NULL;
        return sg_error_memory(e, sg_source_path(w));
    }
    b->source = w;
    b->map = map;
    b->number = -1;
    return SG_OK;
}

/* ---- the list ---- */

static void mistake(sg_bind *b, sg_status code, const char *what)
{
    if (b->mistake) return;
    b->mistake = what;
    b->mistake_code = code;
}

static bool full_name(const sg_bind *b, const char *name, char out[SG_NAME_MAX])
{
    const int n = snprintf(out, SG_NAME_MAX, "%s%s", b->prefix, name);
    return n >= 0 && n < SG_NAME_MAX;
}

void sg_bind_prefix(sg_bind *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(b->prefix, sizeof b->prefix, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= SG_NAME_MAX) mistake(b, SG_E_ARG, "a prefix is too long");
}

/* Finds the runs that w->cut means. False: they are no equal parts, or no whole blocks. */
static bool cut(sg_bind_want *w)
{
    const sg_tensor all = sg_source_shape(w->from);
    const int64_t   of = w->cut->of;
    const size_t    part = (size_t)(sg_count(all) / of);
    if (all.dim[0] % of || part % (size_t)w->from->type->block) return false;
    for (int i = 0; i < SG_NAME_ROWS && w->cut->rows[i].count; i++) {
        const size_t first = (size_t)w->cut->rows[i].first, count = (size_t)w->cut->rows[i].count;
        w->run[w->runs++] = (sg_bind_run){first * part, count * part};
    }
    return true;
}

/* The shape of w's rows in the file; absent: they are of no type that is read. */
static sg_tensor shape_in_file(const sg_bind_want *w)
{
    sg_tensor     t = sg_source_shape(w->from);
    const int64_t part = w->cut ? t.dim[0] / w->cut->of : 0;
    if (!sg_convert_reads(w->from->type)) return (sg_tensor){0};
    if (w->cut) t.dim[0] = 0;
    for (int i = 0; w->cut && i < SG_NAME_ROWS; i++) t.dim[0] += part * w->cut->rows[i].count;
    return t;
}

/* What the file has under the full name w->name: where from, runs and data. False: the map leads nowhere. */
static bool look_up(sg_bind *b, sg_bind_want *w, const char *full)
{
    char file[SG_NAME_MAX];
    if (!sg_name_map_find(b->map, full, file, &w->cut)) return false;
    if (w->cut && !w->cut->of) w->cut = NULL;
    const int64_t index = sg_source_index(b->source, file);
    if (index < 0) return true;
    b->bound[index] = true;
    w->from = sg_source_at(b->source, (size_t)index);
    if (!sg_convert_reads(w->from->type)) return true;
    const sg_source_type *const type = w->from->type;
    if (!w->cut)
        w->run[w->runs++] = (sg_bind_run){0, (size_t)sg_count(sg_source_shape(w->from))};
    else if (!cut(w))
        w->trouble = SG_BIND_MISSHAPEN;
    if (w->runs == 1) w->data = w->from->data + w->run[0].first / (size_t)type->block * (size_t)type->bytes;
    return true;
}

bool sg_bind_has(const sg_bind *b, const char *name)
{
    char                full[SG_NAME_MAX], file[SG_NAME_MAX];
    const sg_name_rule *rule;
    return full_name(b, name, full) && sg_name_map_find(b->map, full, file, &rule) &&
           sg_source_index(b->source, file) >= 0;
}

sg_bind_rows sg_bind_peek(sg_bind *b, const char *name)
{
    char         full[SG_NAME_MAX];
    sg_bind_want w = {0};
    sg_bind_rows r = {0};
    if (!full_name(b, name, full) || !look_up(b, &w, full) || !w.from) return r;
    r.type = w.from->type->name;
    const sg_tensor file = shape_in_file(&w);
    const int       one = file.rank > 2 && file.dim[0] == 1;
    r.row = w.runs == 1 && file.dim[one] ? w.run[0].count / (size_t)file.dim[one] : 0;
    if (w.runs != 1 || r.row % (size_t)w.from->type->block) return r;
    r.from = w.from;
    r.first = w.run[0].first;
    r.rank = file.rank - one;
    memcpy(r.dim, file.dim + one, (size_t)r.rank * sizeof *r.dim);
    return r;
}

bool sg_bind_row(const sg_bind_rows *r, int64_t row, float *y)
{
    return sg_convert_from(y, SG_F32, r->from, r->first + (size_t)row * r->row, r->row, 1);
}

const char *sg_bind_name(const sg_bind *b, size_t i) { return i < b->count ? b->binding[i].name : NULL; }

/* One more, of that name; NULL latches. */
static sg_bind_want *more(sg_bind *b, const char *name)
{
    char *const copy = strdup(name);
    if (copy && sg_array_push(b->binding, b->count, b->capacity, (sg_bind_want){.name = copy}))
        return &b->binding[b->count - 1];
    free(copy);
    mistake(b, SG_E_MEMORY, "out of memory");
    return NULL;
}

bool sg_bind_has_size(int rank, const int64_t *dim)
{
    int64_t n = sizeof(float);
    for (int i = 0; i < rank; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(n, dim[i] ? dim[i] : 1, &n)) return false;
    return true;
}

/* Without the dimensions that are 1. */
static int squeeze(int64_t out[SG_MAX_RANK], int rank, const int64_t *dim)
{
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (dim[i] != 1) out[n++] = dim[i];
    return n;
}

static bool same_but_for_ones(int rank, const int64_t *dim, const sg_tensor *file)
{
    int64_t   a[SG_MAX_RANK], b[SG_MAX_RANK];
    const int n = squeeze(a, rank, dim);
    return n == squeeze(b, file->rank, file->dim) && memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* Formats of four dimensions drop those of 1, and make the first two of five one. */
static bool same_shape(const sg_bind_want *w, const sg_tensor *file)
{
    int64_t dim[SG_MAX_RANK];
    if (same_but_for_ones(w->rank, w->dim, file)) return true;
    if (w->rank != 5 || file->rank > 4) return false;
    memcpy(dim, w->dim, sizeof dim);
    return !__builtin_mul_overflow(dim[0], dim[1], &dim[1]) && same_but_for_ones(4, dim + 1, file);
}

static sg_bind_trouble judge(const sg_bind_want *w)
{
    if (!w->from) return SG_BIND_MISSING;
    const sg_tensor file = shape_in_file(w);
    if (file.rank == 0) return SG_BIND_MISTYPED;
    return same_shape(w, &file) ? w->trouble : SG_BIND_MISSHAPEN;
}

void sg_bind_tensor_(sg_bind *b, sg_tensor *t, sg_dtype as, const char *name, int rank, const int64_t *dim)
{
    char full[SG_NAME_MAX];
    *t = (sg_tensor){0};
    if (rank < 1 || rank > SG_MAX_RANK || (as != SG_F32 && as != SG_BF16) || !full_name(b, name, full)) {
        mistake(b, SG_E_ARG, "a tensor of unsuitable rank, dtype or name is wanted");
        return;
    }
    sg_bind_want *const w = more(b, full);
    if (!w) return;
    w->tensor = t;
    w->block = b->number;
    w->pairs = b->pairs;
    if (w->pairs && (w->pairs % 2 || dim[0] % w->pairs)) mistake(b, SG_E_ARG, "rows that are to be pairs are not even");
    w->rank = rank;
    memcpy(w->dim, dim, (size_t)rank * sizeof *dim);
    if (!look_up(b, w, full))
        mistake(b, SG_E_ARG, "the name map has a name that is too long, or rows that are not there");
    w->trouble = judge(w);
    if (!sg_bind_has_size(rank, dim)) return;
    *t = (sg_tensor){.dtype = as, .rank = rank};
    memcpy(t->dim, dim, (size_t)rank * sizeof *dim);
}

void sg_bind_matrix(sg_bind *b, sg_tensor *t, sg_dtype as, const char *name, int64_t o, int64_t i)
{
    const size_t before = b->count;
    sg_bind_tensor(b, t, as, name, o, i);
    if (b->count == before) return;
    b->binding[before].matrix = true;
    sg_bind_settle(b, &b->binding[before]);
}

/* Scales beyond this could make numbers that are too large for BF16: those are found where they are converted. */
#define SCALE_MAX 1e30f

static bool scales_are_moderate(const sg_source_tensor *t)
{
    for (int64_t i = 0; i < t->scales; i++) {
        float scale;
        memcpy(&scale, t->scale + (size_t)i * sizeof scale, sizeof scale);
        if (scale > SCALE_MAX) return false;
    }
    return true;
}

/* Whether the patches of w may stay beside it, as it is in the file, of this type: they are products of low rank, and take
 * less than widening it. True where there are none. */
static bool adapts(const sg_bind_want *w, sg_quant_type type)
{
    const int64_t size = (int64_t)sg_dtype_size(w->tensor->dtype), o = w->dim[0], i = w->dim[1];
    if (!w->patches) return true;
    const int64_t saved = size * o * i - (int64_t)sg_quant_bytes(type, o * i);
    return !w->others && w->ranks <= saved / (size * (o + i));
}

/* How w stays quantised; of type SG_QUANT_NONE: it does not. */
static sg_quant quant_of(const sg_bind *b, const sg_bind_want *w)
{
    const sg_quant      none = {0};
    const bool          packed = w->patches && b->merges;
    const sg_quant_type of_file = w->from ? sg_quant_of(w->from->type->name) : SG_QUANT_NONE;
    const sg_quant_type type = of_file && packed ? SG_QUANT_Q8_0 : of_file;
    if (!b->keeps_types || !w->matrix || w->trouble != SG_BIND_FITS || !type) return none;
    if (w->dim[1] % sg_quant_block(type) || w->dim[0] > INT32_MAX || w->dim[1] > INT32_MAX) return none;
    if (packed) return (sg_quant){.type = (int32_t)type};
    if (!scales_are_moderate(w->from) || !adapts(w, type)) return none;
    if (!w->from->scale) return (sg_quant){.type = (int32_t)type};
    if (w->from->rank != 2 || w->from->dim[1] != w->dim[1] || !w->dim[1]) return none; /* other rows than the file's */
    const int32_t block = (int32_t)w->from->scale_block, rows = w->from->scales > 1 ? 1 : (int32_t)w->dim[0];
    if (!block) return (sg_quant){(int32_t)type, rows, (int32_t)w->dim[1]};
    const bool cut = w->run[0].first / (size_t)w->dim[1] % (size_t)block != 0;
    return cut || w->runs > 1 || w->pairs ? none : (sg_quant){(int32_t)type, block, block};
}

/* Sets w->adapter to their shapes, all as one; false: memory is out. */
static bool shape_adapter(sg_bind_want *w)
{
    const sg_dtype    as = w->tensor->dtype;
    sg_adapter *const a = w->adapter = malloc(sizeof *a);
    if (!a) return false;
    *a = (sg_adapter){.up = {.dtype = as, .rank = 2, .dim = {w->dim[0], w->ranks}},
                      .down = {.dtype = as, .rank = 2, .dim = {w->ranks, w->dim[1]}}};
    return true;
}

void sg_bind_settle(sg_bind *b, sg_bind_want *w)
{
    w->tensor->quant = quant_of(b, w);
    free(w->adapter);
    w->adapter = NULL;
    if (w->tensor->quant.type && w->patches && !b->merges && !shape_adapter(w))
        mistake(b, SG_E_MEMORY, "out of memory");
    w->tensor->adapter = w->adapter;
}

static void settle_all(sg_bind *b)
{
    for (size_t i = 0; i < b->count && !b->backend; i++) sg_bind_settle(b, &b->binding[i]);
}

bool sg_bind_is_quantised(const sg_bind *b)
{
    for (size_t i = 0; i < b->count; i++) {
        const sg_bind_want *const w = &b->binding[i];
        if (w->matrix && w->from && sg_quant_of(w->from->type->name)) return true;
    }
    return false;
}

void sg_bind_keep_types(sg_bind *b, bool on)
{
    b->keeps_types = on;
    settle_all(b);
}

void sg_bind_merge(sg_bind *b, bool on)
{
    b->merges = on;
    settle_all(b);
}

void sg_bind_block(sg_bind *b, int number)
{
    b->number = number;
    if (number >= b->blocks) b->blocks = number + 1;
}

int sg_bind_blocks(const sg_bind *b) { return b->blocks; }

void sg_bind_pairs(sg_bind *b, int64_t rows) { b->pairs = rows; }

void sg_bind_ignore(sg_bind *b, const char *part)
{
    char *const copy = strdup(part);
    if (copy && sg_array_push(b->ignored, b->ignores, b->ignored_room, copy)) return;
    free(copy);
    mistake(b, SG_E_MEMORY, "out of memory");
}

void sg_bind_share(sg_bind *b, const sg_bind *other)
{
    for (size_t i = 0; i < sg_source_count(b->source); i++) b->bound[i] = b->bound[i] || other->bound[i];
}

static bool is_extra(const sg_bind *b, size_t i)
{
    if (b->bound[i] || sg_source_at(b->source, i)->attached) return false;
    const char *const name = sg_source_at(b->source, i)->name;
    for (size_t k = 0; k < b->ignores; k++)
        if (strstr(name, b->ignored[k])) return false;
    return !sg_name_map_drops(b->map, name);
}

/* ---- its numbers ---- */

static bool convert(const sg_bind_want *w, void *y, sg_dtype as, size_t i, size_t count, int threads)
{
    const bool kept = w->tensor->quant.type && !sg_bind_merges(w);
    uint8_t   *to = y;
    for (int k = 0; k < w->runs && count; k++) {
        const size_t left = i < w->run[k].count ? w->run[k].count - i : 0, n = left < count ? left : count;
        if (n && !(kept ? sg_convert_keep(to, w->from, w->run[k].first + i, n, threads)
                        : sg_convert_from(to, as, w->from, w->run[k].first + i, n, threads)))
            return false;
        if (to) to += kept ? sg_bind_bytes_of(w, n) : n * sg_dtype_size(as);
        i = n ? 0 : i - w->run[k].count;
        count -= n;
    }
    return true;
}

static sg_status not_finite(const sg_bind *b, const sg_bind_want *w, sg_error *e)
{
    const size_t n = (size_t)sg_count(*w->tensor), step = 1 << 16, block = (size_t)w->from->type->block;
    size_t       i = 0;
    while (i < n && convert(w, NULL, SG_F32, i, n - i < step ? n - i : step, 1)) i += step;
    while (i < n && convert(w, NULL, SG_F32, i, block, 1)) i += block;
    if (i < n)
        return sg_error_set(e, SG_E_NUMERIC, "%s: tensor \"%s\" has a NaN or an infinity, the first at element %zu%s",
                            sg_source_path(b->source), sg_show(w->name), i, block > 1 ? " or in its block" : "");
    return sg_error_set(e, SG_E_NUMERIC, "%s: tensor \"%s\" has numbers too large for BF16", sg_source_path(b->source),
                        sg_show(w->name));
}

sg_status sg_bind_convert(const sg_bind *b, const sg_bind_want *w, void *y, sg_dtype as, size_t i, size_t count,
                          int threads, sg_error *e)
{
    return convert(w, y, as, i, count, threads) ? SG_OK : not_finite(b, w, e);
}

/* ---- the report ---- */

typedef struct report {
    char   text[3600];   /* with a reserve, so that every kind can say how many more there are */
    size_t listed, more; /* of the kind at hand */
} report;

SG_PRINTF(2, 3) static void line(report *r, const char *fmt, ...)
{
    const size_t reserve = 48 * SG_BIND_TROUBLES;
    char         text[512];
    va_list      ap;
    va_start(ap, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const bool fits = r->listed < MAX_LINES && strlen(r->text) + (size_t)n + 2 <= sizeof r->text - reserve;
    *(fits ? &r->listed : &r->more) += 1;
    if (fits) sg_text_append(r->text, sizeof r->text, "\n  %s", text);
}

static void end_kind(report *r, const char *kind)
{
    if (r->more) sg_text_append(r->text, sizeof r->text, "\n  ... and %zu more %s", r->more, kind);
    r->listed = r->more = 0;
}

/* "1", "1 to 2", or "1 to 3, 7 to 9". */
static const char *parts_text(char out[64], const sg_name_rule *cut)
{
    out[0] = '\0';
    for (int i = 0; i < SG_NAME_ROWS && cut->rows[i].count; i++) {
        const int first = cut->rows[i].first + 1, last = cut->rows[i].first + cut->rows[i].count;
        sg_text_append(out, 64, "%s%d", i ? ", " : "", first);
        if (first != last) sg_text_append(out, 64, " to %d", last);
    }
    return out;
}

static void report_binding(report *r, const sg_bind *b, const sg_bind_want *w)
{
    char                has[120], should[120], parts[64], file[SG_NAME_MAX], as[160] = "";
    const sg_name_rule *ignored;
    sg_shape_text(should, sizeof should, w->rank, w->dim);
    if (sg_name_map_find(b->map, w->name, file, &ignored) && strcmp(file, w->name) != 0)
        snprintf(as, sizeof as, " (in the file %s)", sg_show(file));
    if (w->trouble == SG_BIND_MISSING) {
        line(r, "missing: %s%s %s", sg_show(w->name), as, should);
        return;
    }
    const sg_source_tensor *const t = w->from;
    const sg_tensor               whole = sg_source_shape(t);
    sg_shape_text(has, sizeof has, whole.rank, whole.dim);
    if (w->trouble == SG_BIND_MISSHAPEN && w->cut)
        line(r, "misshapen: %s is part %s of %d of %s %s, should be %s", sg_show(w->name), parts_text(parts, w->cut),
             w->cut->of, sg_show(t->name), has, should);
    else if (w->trouble == SG_BIND_MISSHAPEN)
        line(r, "misshapen: %s%s is %s, should be %s", sg_show(w->name), as, has, should);
    else
        line(r, "wrong type: %s%s is %s, should be " SG_TYPES_READ, sg_show(w->name), as, t->type->name);
}

static sg_status report_troubles(const sg_bind *b, const size_t count[SG_BIND_TROUBLES], size_t extra, sg_error *e)
{
    static const char *const kind[SG_BIND_TROUBLES] = {
        [SG_BIND_MISSING] = "missing", [SG_BIND_MISSHAPEN] = "misshapen", [SG_BIND_MISTYPED] = "of the wrong type"};
    report r = {.listed = 0};
    char   sums[160] = "";
    for (int k = SG_BIND_MISSING; k < SG_BIND_TROUBLES; k++) {
        if (count[k]) sg_text_append(sums, sizeof sums, "%s%zu %s", *sums ? ", " : "", count[k], kind[k]);
        for (size_t i = 0; i < b->count; i++)
            if ((int)b->binding[i].trouble == k) report_binding(&r, b, &b->binding[i]);
        end_kind(&r, kind[k]);
    }
    if (extra) sg_text_append(sums, sizeof sums, "%s%zu extra", *sums ? ", " : "", extra);
    for (size_t i = 0; extra && i < sg_source_count(b->source); i++) {
        if (!is_extra(b, i)) continue;
        const sg_tensor               t = sg_source_view(b->source, i);
        const sg_source_tensor *const in = sg_source_at(b->source, i);
        char                          shape[120];
        sg_shape_text(shape, sizeof shape, t.rank, t.dim);
        line(&r, "extra: %s %s", sg_show(in->name), t.rank ? shape : in->type->name);
    }
    end_kind(&r, "extra");
    return sg_error_set(e, SG_E_FORMAT, "%s: the tensors do not fit this model: %s%s", sg_source_path(b->source), sums,
                        r.text);
}

sg_status sg_bind_check(sg_bind *b, sg_error *e)
{
    size_t count[SG_BIND_TROUBLES] = {0}, extra = 0;
    if (b->mistake) return sg_error_set(e, b->mistake_code, "%s: %s", sg_source_path(b->source), b->mistake);
    for (size_t i = 0; i < b->count; i++) count[b->binding[i].trouble]++;
    for (size_t i = 0; i < sg_source_count(b->source); i++) extra += is_extra(b, i);
    if (count[SG_BIND_FITS] == b->count && !extra) return SG_OK;
    return report_troubles(b, count, extra, e);
}

sg_status sg_bind_check_both(sg_bind *one, sg_bind *other, sg_error *e)
{
    sg_error        a = {0}, b = {0};
    const sg_status first = sg_bind_check(one, &a), second = sg_bind_check(other, &b);
    if (!first && !second) return SG_OK;
    if (second == SG_E_MEMORY) return sg_error_set(e, second, "%s", b.text); /* its list is not whole */
    return sg_error_set(e, first ? first : second, "%s%s%s", a.text, first && second ? "\n" : "", b.text);
}
