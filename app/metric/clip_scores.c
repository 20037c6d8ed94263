/* clip_scores.c - see clip_scores.h. */
#include "clip_scores.h"
#include "base/array.h"

#include <math.h>
#include <stdlib.h>

static sg_status grow(sg_clip_scores *s, sg_error *e)
{
    double **const list[] = {&s->psnr, &s->ssim, &s->ms_ssim};
    size_t         capacity = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        capacity = s->capacity;
        if (!sg_array_reserve(*list[i], capacity, (size_t)s->count + 1))
            return sg_error_set(e, SG_E_MEMORY, "out of memory for the scores");
    }
    s->capacity = capacity;
    return SG_OK;
}

sg_status sg_clip_scores_add(sg_clip_scores *s, const sg_image *a, const sg_image *b, sg_error *e)
{
    sg_similarity both;
    if (a->width != b->width || a->height != b->height)
        return sg_error_set(e, SG_E_SHAPE, "is %dx%d pixels, and what it is compared with %dx%d", a->width, a->height,
                            b->width, b->height);
    if ((size_t)s->count == s->capacity) SG_TRY(grow(s, e));
    SG_TRY(sg_ms_ssim(&both, a, b, e));
    SG_TRY(sg_clip_watch_add(&s->watch[0], a, e));
    SG_TRY(sg_clip_watch_add(&s->watch[1], b, e));
    s->ssim[s->count] = both.ssim;
    s->ms_ssim[s->count] = both.ms_ssim;
    s->psnr[s->count] = sg_psnr(a, b);
    s->identical += isinf(s->psnr[s->count]) != 0;
    if (!s->count || both.scales < s->scales) s->scales = both.scales;
    s->count++;
    return SG_OK;
}

sg_status sg_clip_scores_total(const sg_clip_scores *s, sg_clip_totals *out, sg_error *e)
{
    SG_TRY(sg_summarise(&out->psnr, s->psnr, s->count, e));
    SG_TRY(sg_summarise(&out->ssim, s->ssim, s->count, e));
    SG_TRY(sg_summarise(&out->ms_ssim, s->ms_ssim, s->count, e));
    for (int i = 0; i < 2; i++) out->of[i] = sg_clip_watch_figures(&s->watch[i]);
    return SG_OK;
}

void sg_clip_scores_close(sg_clip_scores *s)
{
    for (int i = 0; i < 2; i++) sg_clip_watch_close(&s->watch[i]);
    free(s->ms_ssim);
    free(s->ssim);
    free(s->psnr);
    *s = (sg_clip_scores){0};
}
