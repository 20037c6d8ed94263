/* bind_adapter.c - LoRAs of a tensor that stays as its file has it: one product beside it, of the sum of
 * their ranks. */
#include "base/text.h"
#include "bind_state.h"
#include "convert.h"

#include <stdlib.h>
#include <string.h>

static bool is_of(const sg_bind *b, size_t i, const sg_bind_want *w) { return &b->binding[b->patch[i].binding] == w; }

static int64_t rank_of(const sg_patch *p) { return p->factor[0].down->dim[0]; }

/* Where row t of the file's rows goes: see sg_bind_pairs. */
static int64_t place_of(const sg_bind_want *w, int64_t t)
{
    if (!w->pairs) return t;
    const int64_t i = t % w->pairs, half = w->pairs / 2;
    return t - i + (i < half ? 2 * i : 2 * (i - half) + 1);
}

/* Columns `at` and on of up become those of p, times its scale: the rows that w has of them. */
static void put_up(float *up, int64_t at, const sg_bind_want *w, const sg_patch *p, const float *from)
{
    const sg_name_rule *const cut = p->cut;
    const int64_t             rank = w->adapter->down.dim[0], r = rank_of(p), rows = p->factor[0].up->dim[0];
    const int64_t             part = cut ? rows / cut->of : rows;
    int64_t                   t = 0; /* rows so far */
    for (int k = 0; cut ? k < SG_NAME_ROWS && cut->rows[k].count : k == 0; k++) {
        const int64_t first = cut ? cut->rows[k].first * part : 0, count = cut ? cut->rows[k].count * part : part;
        for (int64_t i = first; i < first + count; i++, t++)
            for (int64_t c = 0; c < r; c++) up[place_of(w, t) * rank + at + c] = (float)p->scale * from[i * r + c];
    }
}

/* up [o, rank] and down [rank, i] of all patches. */
static sg_status gather(const sg_bind *b, const sg_bind_want *w, float *up, float *down, sg_error *e)
{
    int64_t at = 0;
    for (size_t i = 0; i < b->patches; i++) {
        const sg_patch *const p = &b->patch[i].patch;
        float                *from[2] = {NULL, NULL};
        if (!is_of(b, i, w)) continue;
        sg_status status = sg_bind_take(&from[0], p, p->factor[0].up, b->backend->threads, e);
        if (status == SG_OK) status = sg_bind_take(&from[1], p, p->factor[0].down, b->backend->threads, e);
        if (status == SG_OK) {
            put_up(up, at, w, p, from[0]);
            memcpy(down + at * w->dim[1], from[1], (size_t)(rank_of(p) * w->dim[1]) * sizeof *down);
        }
        free(from[0]);
        free(from[1]);
        SG_TRY(status);
        at += rank_of(p);
    }
    return SG_OK;
}

/* y = x as t has it. */
static sg_status put(const sg_bind *b, const sg_bind_want *w, const sg_tensor *t, uint8_t *y, const float *x,
                     sg_error *e)
{
    if (sg_convert(y, t->dtype, x, SG_F32, (size_t)sg_count(*t), b->backend->threads)) return SG_OK;
    return sg_error_set(e, SG_E_NUMERIC, "%s: tensor \"%s\" has patches with numbers too large for %s",
                        sg_source_path(b->source), sg_show(w->name), sg_dtype_name(t->dtype));
}

sg_status sg_bind_adapter_make(const sg_bind *b, const sg_bind_want *w, uint8_t *y, sg_error *e)
{
    const sg_adapter *const a = w->adapter;
    float *const            up = malloc((size_t)sg_count(a->up) * sizeof *up);
    float *const            down = malloc((size_t)sg_count(a->down) * sizeof *down);
    sg_status status = up && down ? gather(b, w, up, down, e) : sg_error_memory(e, sg_source_path(b->source));
    if (status == SG_OK) status = put(b, w, &a->up, y, up, e);
    if (status == SG_OK) status = put(b, w, &a->down, y + sg_aligned(sg_bytes(a->up)), down, e);
    free(up);
    free(down);
    return status;
}

bool sg_bind_is_beside(const sg_bind *b, const char *path)
{
    for (size_t i = 0; i < b->patches; i++)
        if (b->binding[b->patch[i].binding].adapter && strcmp(b->patch[i].patch.path, path) == 0) return true;
    return false;
}
