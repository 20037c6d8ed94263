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

sg_status sg_clip_gaze_add(sg_clip_gaze *g, const sg_image *frame, sg_error *e)
{
    const int     n = sg_clip_model_describe(g->model).pooled;
    float **const row = &g->row[g->frames % 2];
    if (!*row && !(*row = malloc((size_t)n * sizeof **row))) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    SG_TRY(sg_clip_model_picture(g->model, frame->rgb, frame->width, frame->height, *row, e));
    if (g->text) g->to_text += cosine(g->text, *row, n);
    if (g->frames) g->to_next += cosine(g->row[0], g->row[1], n);
    g->frames++;
    return SG_OK;
}

sg_clip_similarity sg_clip_gaze_similarity(const sg_clip_gaze *g)
{
    sg_clip_similarity s = {NAN, NAN, NAN};
    const double       to_text = g->to_text / g->frames;
    if (g->frames > 1) s.clip_t = g->to_next / (g->frames - 1);
    if (g->text && g->frames > 1) s.clipsim = to_text;
    if (g->text && g->frames == 1) s.clip_score = 100 * fmax(0, to_text);
    return s;
}

void sg_clip_gaze_close(sg_clip_gaze *g)
{
    for (int i = 0; i < 2; i++) free(g->row[i]);
    g->row[0] = g->row[1] = NULL;
}
