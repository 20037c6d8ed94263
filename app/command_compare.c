/* command_compare.c - `sparge-gen compare`: how far two pictures are apart, or two clips as folders of frames. */
#include "command.h"
#include "compare_arms.h"
#include "frame_list.h"
#include "input.h"
#include "interrupt.h"
#include "metrics.h"
#include "output_file.h"
#include "report.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct scores {
    int        count, identical;
    double    *psnr, *ssim; /* [count] */
    sg_summary psnr_of_all, ssim_of_all;
} scores;

static bool holds(const sg_frame_list *l, const char *name)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(sg_frame_list_name(l, i), name) == 0) return true;
    return false;
}

/* Frames pair up by place. Where the first names differ and one is in the other folder too, a frame is missing. */
static sg_status check_pairs(const sg_frame_list *a, const sg_frame_list *b, const sg_settings *s, sg_error *e)
{
    const int least = a->count < b->count ? a->count : b->count;
    int       i = 0;
    while (i < least && strcmp(sg_frame_list_name(a, i), sg_frame_list_name(b, i)) == 0) i++;
    if (i < least && holds(b, sg_frame_list_name(a, i)))
        return sg_error_set(e, SG_E_SHAPE, "%s has no %s, and %s has", s->operand, sg_show(sg_frame_list_name(b, i)),
                            s->second_operand);
    if (i < least && holds(a, sg_frame_list_name(b, i)))
        return sg_error_set(e, SG_E_SHAPE, "%s has no %s, and %s has", s->second_operand,
                            sg_show(sg_frame_list_name(a, i)), s->operand);
    if (a->count == b->count) return SG_OK;
    return sg_error_set(e, SG_E_SHAPE, "%s and %s have %d and %d frames; they must be as many", s->operand,
                        s->second_operand, a->count, b->count);
}

static sg_status score_images(scores *r, int i, const sg_image *a, const sg_image *b, const char *name, sg_error *e)
{
    if (a->width != b->width || a->height != b->height)
        return sg_error_set(e, SG_E_SHAPE, "%s: is %dx%d pixels, and what it is compared with %dx%d", name, a->width,
                            a->height, b->width, b->height);
    sg_error why = {0};
    if (sg_ssim(&r->ssim[i], a, b, &why) != SG_OK) return sg_error_set(e, why.code, "%s: %s", name, why.text);
    r->psnr[i] = sg_psnr(a, b);
    r->identical += isinf(r->psnr[i]) != 0;
    return SG_OK;
}

static sg_status score_frame(scores *r, int i, const sg_frame_list *a, const sg_frame_list *b, sg_error *e)
{
    sg_image  first = {0}, second = {0};
    sg_status status = sg_image_read(&first, a->path[i], e);
    if (status == SG_OK) status = sg_image_read(&second, b->path[i], e);
    if (status == SG_OK) status = score_images(r, i, &first, &second, a->path[i], e);
    sg_image_close(&second);
    sg_image_close(&first);
    return status;
}

static sg_status score_all(scores *r, const sg_frame_list *a, const sg_frame_list *b, sg_error *e)
{
    r->count = a->count;
    r->psnr = calloc((size_t)r->count, sizeof *r->psnr);
    r->ssim = calloc((size_t)r->count, sizeof *r->ssim);
    if (!r->psnr || !r->ssim) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    for (int i = 0; i < r->count; i++) {
        if (sg_interrupt_asked()) return sg_error_set(e, SG_E_CANCELLED, "interrupted");
        SG_TRY(score_frame(r, i, a, b, e));
    }
    SG_TRY(sg_summarise(&r->psnr_of_all, r->psnr, r->count, e));
    return sg_summarise(&r->ssim_of_all, r->ssim, r->count, e);
}

static void print_table(const scores *r, const sg_frame_list *a)
{
    const sg_summary *const p = &r->psnr_of_all, *const s = &r->ssim_of_all;
    printf("%d %s", r->count, r->count == 1 ? "frame" : "frames");
    if (r->identical == r->count)
        printf(", identical: PSNR is infinite");
    else if (r->identical)
        printf(", %d of them identical and left out of PSNR's mean", r->identical);
    printf("\n              mean   minimum  5th percentile\n");
    printf("PSNR, dB  %8.3f  %8.3f  %14.3f\n", p->mean, p->minimum, p->percentile_5);
    printf("SSIM      %8.6f  %8.6f  %14.6f\n", s->mean, s->minimum, s->percentile_5);
    if (r->count > 1 && r->identical < r->count)
        printf("lowest    PSNR %s, SSIM %s\n", sg_show(sg_frame_list_name(a, p->worst)),
               sg_show(sg_frame_list_name(a, s->worst)));
}

/* JSON has no infinity. */
static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *summary(const sg_summary *s)
{
    return json_pack("{s:o, s:o, s:o}", "mean", number(s->mean), "minimum", number(s->minimum), "percentile_5",
                     number(s->percentile_5));
}

static sg_status save(const char *path, const scores *r, const sg_frame_list *a, const sg_frame_list *b, sg_error *e)
{
    json_t *const frames = json_array();
    bool          whole = frames;
    for (int i = 0; i < r->count && whole; i++)
        whole = json_array_append_new(frames, json_pack("{s:o, s:o, s:o, s:f}", "a", sg_report_name(a->path[i]), "b",
                                                        sg_report_name(b->path[i]), "psnr", number(r->psnr[i]), "ssim",
                                                        r->ssim[i])) == 0;
    json_t *const j =
        whole ? json_pack("{s:i, s:i, s:o, s:o, s:O}", "frames", r->count, "identical_frames", r->identical, "psnr",
                          summary(&r->psnr_of_all), "ssim", summary(&r->ssim_of_all), "each", frames)
              : NULL;
    json_decref(frames);
    if (!j) return sg_error_set(e, SG_E_MEMORY, "--json: out of memory");
    const sg_status status = sg_report_save(path, j, e);
    json_decref(j);
    return status;
}

static sg_status compare(const sg_settings *s, const sg_frame_list *a, const sg_frame_list *b, sg_error *e)
{
    scores r = {0};
    SG_TRY(check_pairs(a, b, s, e));
    sg_status status = score_all(&r, a, b, e);
    if (status == SG_OK && s->json) status = save(s->json, &r, a, b, e);
    if (status == SG_OK && (!s->json || strcmp(s->json, "-") != 0)) print_table(&r, a);
    free(r.ssim);
    free(r.psnr);
    return status;
}

sg_status sg_command_compare(const sg_settings *s, sg_error *e)
{
    if (!s->operand && s->prompt) return sg_compare_arms(s, e);
    if (!s->second_operand)
        return sg_error_set(e, SG_E_ARG,
                            "compare takes a prompt, or two pictures or two folders of frames: sparge-gen compare A B");
    if (s->json) SG_TRY(sg_output_file_check(s->json, "--json", e));
    sg_frame_list a = {0}, b = {0};
    sg_status     status = sg_frame_list_open(&a, s->operand, e);
    if (status == SG_OK) status = sg_frame_list_open(&b, s->second_operand, e);
    if (status == SG_OK) status = compare(s, &a, &b, e);
    sg_frame_list_close(&b);
    sg_frame_list_close(&a);
    return status;
}
