/* clip_similarity.c - see clip_similarity.h. */
#include "clip_similarity.h"

#include <math.h>
#include <stdlib.h>

static double cosine(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

sg_status sg_clip_similarity_add(sg_clip_similarity *s, const sg_image *frame, sg_error *e)
{
    const int     n = sg_clip_model_size(s->model);
    float **const row = &s->row[s->frames % 2];
    if (!*row && !(*row = malloc((size_t)n * sizeof **row))) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    SG_TRY(sg_clip_model_picture(s->model, frame->rgb, frame->width, frame->height, *row, e));
    if (s->text) s->to_text += cosine(s->text, *row, n);
    if (s->frames) s->to_next += cosine(s->row[0], s->row[1], n);
    s->frames++;
    return SG_OK;
}

sg_similarity_totals sg_clip_similarity_total(const sg_clip_similarity *s)
{
    sg_similarity_totals out = {NAN, NAN, NAN};
    const double         to_text = s->to_text / s->frames;
    if (s->frames > 1) out.clip_t = s->to_next / (s->frames - 1);
    if (s->text && s->frames > 1) out.clipsim = to_text;
    if (s->text && s->frames == 1) out.clip_score = 100 * fmax(0, to_text);
    return out;
}

void sg_clip_similarity_close(sg_clip_similarity *s)
{
    for (int i = 0; i < 2; i++) free(s->row[i]);
    s->row[0] = s->row[1] = NULL;
}
