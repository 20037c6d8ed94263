/* command_compare.c - `sparge-gen compare`: how far two pictures are apart, or two clips, as videos or as folders of
 * frames. */
#include "base/output_file.h"
#include "base/text.h"
#include "clip_reader.h"
#include "clip_scores.h"
#include "clip_similarity.h"
#include "command.h"
#include "compare.h"
#include "environment.h"
#include "interrupt.h"
#include "json_build.h"
#include "progress.h"
#include "report.h"
#include "setup.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    const char        *path[2];
    sg_clip_reader    *clip[2];
    sg_clip_scores     scores;
    sg_clip_totals     total;
    sg_clip_model     *judge;         /* NULL: without --clip */
    float             *text;          /* row of --prompt; NULL: there is none; owned */
    sg_clip_similarity similarity[2]; /* at each clip */
} pair;

static bool holds(const sg_frame_list *l, const char *name)
{
    for (int i = 0; i < l->count; i++)
        if (strcmp(sg_frame_list_name(l, i), name) == 0) return true;
    return false;
}

static sg_status as_many(const pair *p, int first, int second, sg_error *e)
{
    if (first == second) return SG_OK;
    return sg_error_set(e, SG_E_SHAPE, "%s and %s have %d and %d frames; they must be as many", p->path[0], p->path[1],
                        first, second);
}

/* Frames pair up by place. Where the first names differ and one is in the other folder too, a frame is missing. */
static sg_status check_names(const pair *p, sg_error *e)
{
    const sg_frame_list *const l[] = {sg_clip_reader_list(p->clip[0]), sg_clip_reader_list(p->clip[1])};
    if (!l[0] || !l[1]) return SG_OK;
    const int least = l[0]->count < l[1]->count ? l[0]->count : l[1]->count;
    int       i = 0;
    while (i < least && strcmp(sg_frame_list_name(l[0], i), sg_frame_list_name(l[1], i)) == 0) i++;
    for (int k = 0; k < 2 && i < least; k++)
        if (holds(l[!k], sg_frame_list_name(l[k], i)))
            return sg_error_set(e, SG_E_SHAPE, "%s has no %s, and %s has", p->path[k],
                                sg_show(sg_frame_list_name(l[!k], i)), p->path[!k]);
    return as_many(p, l[0]->count, l[1]->count, e);
}

/* The next frame of each, NULL after its last. */
static sg_status next_frames(const pair *p, const sg_image *frame[2], sg_error *e)
{
    SG_TRY(sg_interrupt_check(e));
    SG_TRY(sg_clip_reader_next(p->clip[0], &frame[0], e));
    return sg_clip_reader_next(p->clip[1], &frame[1], e);
}

static sg_status open_judge(pair *p, const sg_settings *s, sg_error *e)
{
    int cut = 0;
    if (!s->clip) return SG_OK;
    SG_TRY(sg_setup_clip(&p->judge, s, s->threads, e));
    const char *const passed = sg_environment_passed(sg_clip_model_passed(p->judge));
    if (*passed && !s->quiet) sg_print(stderr, "%s\n", passed);
    if (s->prompt) {
        p->text = malloc((size_t)sg_clip_model_size(p->judge) * sizeof *p->text);
        if (!p->text) return sg_error_set(e, SG_E_MEMORY, "out of memory");
        SG_TRY(sg_clip_model_text(p->judge, s->prompt, p->text, &cut, e));
    }
    if (cut)
        sg_print(stderr, "--clip: the prompt has more tokens than the %d that CLIP reads: not the last %d\n",
                 sg_clip_model_tokens(p->judge), cut);
    for (int i = 0; i < 2; i++) p->similarity[i] = (sg_clip_similarity){.model = p->judge, .text = p->text};
    return SG_OK;
}

static sg_status score_pair(pair *p, const sg_image *frame[2], sg_error *e)
{
    SG_TRY(sg_clip_scores_add(&p->scores, frame[0], frame[1], e));
    for (int i = 0; p->judge && i < 2; i++) SG_TRY(sg_clip_similarity_add(&p->similarity[i], frame[i], e));
    return SG_OK;
}

static sg_status score_all(pair *p, sg_error *e)
{
    const sg_image *frame[2];
    SG_TRY(next_frames(p, frame, e));
    while (frame[0] && frame[1]) {
        sg_error why = {0};
        if (score_pair(p, frame, &why) != SG_OK)
            return sg_error_set(e, why.code, "%s: %s", sg_clip_reader_where(p->clip[0]), why.text);
        SG_TRY(next_frames(p, frame, e));
    }
    while (frame[0] || frame[1]) SG_TRY(next_frames(p, frame, e)); /* for the message to say how many there are */
    SG_TRY(as_many(p, p->clip[0]->count, p->clip[1]->count, e));
    return sg_clip_scores_total(&p->scores, &p->total, e);
}

static const char *frame_name(char *text, size_t size, const pair *p, int i)
{
    const sg_frame_list *const l = sg_clip_reader_list(p->clip[0]);
    snprintf(text, size, "frame %d", i);
    return l ? sg_show_(text, size, sg_frame_list_name(l, i)) : text;
}

/* What the figures are of: of two clips the one that may have lost more. */
static sg_clip_loss loss(const pair *p)
{
    const sg_clip_loss a = p->clip[0]->last.loss, b = p->clip[1]->last.loss;
    return a > b ? a : b;
}

static void print_similarity(const pair *p)
{
    if (!p->judge) return;
    const sg_similarity_totals a = sg_clip_similarity_total(&p->similarity[0]),
                               b = sg_clip_similarity_total(&p->similarity[1]);
    if (!isnan(a.clipsim)) printf("CLIPSIM              %8.6f  %8.6f\n", a.clipsim, b.clipsim);
    if (!isnan(a.clip_t)) printf("CLIP-T               %8.6f  %8.6f\n", a.clip_t, b.clip_t);
    if (!isnan(a.clip_score)) printf("CLIP score           %8.4f  %8.4f\n", a.clip_score, b.clip_score);
}

static void print_table(const pair *p)
{
    const sg_clip_scores *const s = &p->scores;
    const sg_summary *const psnr = &p->total.psnr, *const ssim = &p->total.ssim, *const ms = &p->total.ms_ssim;
    const sg_clip_figures *const a = &p->total.of[0], *const b = &p->total.of[1];
    char first[112], second[112];
    printf(s->count == 1 ? "%d image" : "%d frames", s->count);
    if (loss(p) != SG_CLIP_STORED) printf(" %s", sg_clip_loss_names[loss(p)]);
    if (s->identical == s->count)
        printf(", identical: PSNR is infinite");
    else if (s->identical)
        printf(", %d of them identical and left out of PSNR's mean", s->identical);
    printf("\n              mean   minimum  5th percentile\n");
    printf("PSNR, dB  %8.3f  %8.3f  %14.3f\n", psnr->mean, psnr->minimum, psnr->p5);
    printf("SSIM      %8.6f  %8.6f  %14.6f\n", ssim->mean, ssim->minimum, ssim->p5);
    printf("MS-SSIM   %8.6f  %8.6f  %14.6f  (%d of %d scales)\n", ms->mean, ms->minimum, ms->p5, s->scales,
           SG_SSIM_SCALES);
    if (s->count > 1 && s->identical < s->count)
        printf("lowest    PSNR %s, SSIM %s\n", frame_name(first, sizeof first, p, psnr->worst),
               frame_name(second, sizeof second, p, ssim->worst));
    printf("                        first    second\n");
    printf("sharpness            %8.3f  %8.3f\n", a->sharpness, b->sharpness);
    if (s->count > 1) printf("temporal flickering  %8.6f  %8.6f\n", a->flicker, b->flicker);
    print_similarity(p);
    if (a->black || b->black) printf("black frames         %8d  %8d\n", a->black, b->black);
    if (a->frozen || b->frozen) printf("frozen pairs         %8d  %8d\n", a->frozen, b->frozen);
}

static json_t *figures(const pair *p, int clip)
{
    const sg_clip_figures *const f = &p->total.of[clip];
    json_t *j = json_pack("{s:o, s:f, s:o, s:i, s:i}", "path", sg_report_name(p->path[clip]), "sharpness", f->sharpness,
                          "flicker", sg_report_number(f->flicker), "black", f->black, "frozen", f->frozen);
    if (!p->judge) return j;
    const sg_similarity_totals s = sg_clip_similarity_total(&p->similarity[clip]);
    sg_json_join(&j, sg_report_similarity(&s));
    return j;
}

static json_t *frame_path(const pair *p, int clip, int i)
{
    const sg_frame_list *const l = sg_clip_reader_list(p->clip[clip]);
    return sg_report_name(l ? l->path[i] : p->path[clip]);
}

static sg_status save(const char *path, const pair *p, sg_error *e)
{
    const sg_clip_scores *const s = &p->scores;
    json_t                     *frames = json_array();
    for (int i = 0; i < s->count; i++)
        sg_json_append(&frames, json_pack("{s:i, s:o, s:o, s:o, s:f, s:f}", "frame", i, "a", frame_path(p, 0, i), "b",
                                          frame_path(p, 1, i), "psnr", sg_report_number(s->psnr[i]), "ssim", s->ssim[i],
                                          "ms_ssim", s->ms_ssim[i]));
    json_t *const j =
        json_pack("{s:s, s:i, s:i, s:o, s:o, s:o, s:i, s:o, s:o, s:o}", "measured", sg_clip_loss_names[loss(p)],
                  "frames", s->count, "identical", s->identical, "psnr", sg_report_summary(&p->total.psnr), "ssim",
                  sg_report_summary(&p->total.ssim), "ms_ssim", sg_report_summary(&p->total.ms_ssim), "ms_ssim_scales",
                  s->scales, "a", figures(p, 0), "b", figures(p, 1), "each", frames);
    return sg_report_take(path, sg_report_envelope(SG_COMMAND_COMPARE, j), e);
}

static sg_status run(pair *p, const sg_settings *s, sg_error *e)
{
    for (int i = 0; i < 2; i++) SG_TRY(sg_clip_reader_open(&p->clip[i], p->path[i], e));
    SG_TRY(check_names(p, e));
    SG_TRY(open_judge(p, s, e));
    SG_TRY(score_all(p, e));
    if (s->json) SG_TRY(save(s->json, p, e));
    if (!s->json || !sg_output_is_stdout(s->json)) print_table(p);
    return SG_OK;
}

sg_status sg_command_compare(const sg_settings *s, sg_error *e)
{
    if (!s->operand && s->prompt) return sg_compare_arms(s, e);
    if (!s->second_operand)
        return sg_error_set(
            e, SG_E_ARG,
            "compare takes a prompt, or two pictures, videos or folders of frames: sparge-gen compare A B");
    pair            p = {.path = {s->operand, s->second_operand}};
    const sg_status status = run(&p, s, e);
    for (int i = 0; i < 2; i++) {
        sg_clip_similarity_close(&p.similarity[i]);
        sg_clip_reader_close(&p.clip[i]);
    }
    free(p.text);
    sg_clip_model_close(&p.judge);
    sg_clip_scores_close(&p.scores);
    return status;
}
