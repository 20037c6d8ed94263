/* compare_files.c - the files of a comparison: see compare.h. */
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "compare.h"
#include "interrupt.h"
#include "output_options.h"
#include "report_arms.h"
#include "report_page.h"
#include "report_settings.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REPORT, PAGE };
static const char *const report[] = {SG_COMPARE_REPORT, "report.html"};

/* Is it the clip or the sheet with all arms? */
static bool is_drawn(const sg_comparison *c, const sg_compare_file *f) { return f == c->side || f == c->sheet; }

/* ---- before the work ---- */

static void report_path(char path[PATH_MAX], const sg_comparison *c, const char *name)
{
    snprintf(path, PATH_MAX, "%s/%s", c->folder, name);
}

static sg_compare_file *add_file(sg_comparison *c, const char *stem, const char *ending, const int size[2], int frames)
{
    sg_compare_file *const f = &c->file[c->files++];
    char                   name[sizeof f->name];
    snprintf(name, sizeof name, "%s%s", stem, ending);
    memcpy(f->name, name, sizeof name);
    report_path(f->path, c, name);
    f->clip = (sg_clip){.size = sizeof(sg_clip),
                        .path = f->path,
                        .width = size[0],
                        .height = size[1],
                        .frames = frames,
                        .fps = c->run.shared.request.fps};
    return f;
}

static sg_status check_files(const sg_comparison *c, sg_error *e)
{
    const sg_request *const r = &c->run.shared.request;
    const bool              there = access(c->folder, F_OK) == 0;
    char                    path[PATH_MAX];
    for (const sg_compare_file *f = c->file; f < c->file + c->files; f++) {
        if (f->clip.width > SG_IMAGE_MAX_SIDE || f->clip.height > SG_IMAGE_MAX_SIDE)
            return sg_error_set(e, SG_E_ARG, "--arms: %d of %dx%d make %s %dx%d, and %d is the most a side",
                                c->run.arms.count, r->width, r->height, f->name, f->clip.width, f->clip.height,
                                SG_IMAGE_MAX_SIDE);
        SG_TRY(sg_output_options_name(e, there ? sg_writer_check(&f->clip, e) : sg_writer_check_format(&f->clip, e)));
    }
    for (size_t i = 0; there && i < sizeof report / sizeof *report; i++) {
        report_path(path, c, report[i]);
        SG_TRY(sg_output_file_check(path, "--output", e));
    }
    return SG_OK;
}

sg_status sg_compare_files_name(sg_comparison *c, const char *folder, sg_error *e)
{
    const sg_request *const r = &c->run.shared.request;
    const char *const       ending = sg_path_extension(sg_writer_default_name(r->frames));
    const int               own[] = {r->width, r->height};
    char                    usual[48];
    int                     size[2];
    snprintf(usual, sizeof usual, "compare-%llu", (unsigned long long)r->seed);
    SG_TRY(sg_output_folder_check(&c->folder, folder ? folder : usual, sizeof c->file->name, "--output", e));
    SG_TRY(sg_compare_state_check(c->folder, e));
    c->collage = (sg_collage){r->width, r->height, r->frames, c->run.arms.count, c->rgb};
    for (int k = 0; k < c->run.arms.count; k++) (void)add_file(c, c->run.arms.arm[k].file, ending, own, r->frames);
    sg_collage_side_size(&c->collage, &size[0], &size[1]);
    c->side = add_file(c, "side", ending, size, r->frames);
    sg_collage_sheet_size(&c->collage, &size[0], &size[1]);
    if (r->frames > 1) c->sheet = add_file(c, "frames", ".png", size, 1); /* images stand in the other already */
    for (int i = 0; i < SG_IMAGES; i++) {
        if (!c->run.session.pictures.path[i]) continue;
        c->picture[i] = add_file(c, i == SG_IMAGE_FIRST ? "image" : "last-image", ".png", own, 1);
        c->picture[i]->picture = &c->run.session.pictures.fitted[i];
    }
    return check_files(c, e);
}

size_t sg_compare_files_bytes(const sg_comparison *c)
{
    size_t bytes = 0;
    for (const sg_compare_file *f = c->file; f < c->file + c->files; f++)
        bytes += sg_writer_bytes(&f->clip) + (is_drawn(c, f) ? sg_image_bytes(f->clip.width, f->clip.height) : 0);
    return bytes;
}

/* ---- what is shown ---- */

/* PSNR of frames 0 to i: as the summary has it, the mean of the finite ones. */
static double psnr_so_far(const sg_clip_scores *s, int i)
{
    double sum = 0;
    int    finite = 0;
    for (int k = 0; k <= i; k++)
        if (isfinite(s->psnr[k])) sum += s->psnr[k], finite++;
    return finite ? sum / finite : INFINITY;
}

static void caption_arm(const sg_comparison *c, int k, int i, sg_caption text)
{
    const sg_arm_result *const r = &c->run.arm[k];
    snprintf(text[0], SG_COLLAGE_TEXT, "%s", r->arm->name);
    snprintf(text[1], SG_COLLAGE_TEXT, "%.0f %% skipped, ", 100 * (1 - sg_arm_density(r, -1, -1)));
    if (r->report.steps_skipped)
        sg_text_append(text[1], SG_COLLAGE_TEXT, "%d of %d steps, ", r->steps - r->report.steps_skipped, r->steps);
    sg_text_append(text[1], SG_COLLAGE_TEXT, "%.*f s", r->speed.seconds < 1 ? 3 : 1, r->speed.seconds);
    *text[2] = *text[3] = '\0';
    if (k == 0) return;
    if (r->speed.shared_steps == r->steps)
        snprintf(text[2], SG_COLLAGE_TEXT, "same kernels");
    else
        sg_speedup_text(text[2], SG_COLLAGE_TEXT, &r->speed.total);
    const double psnr = psnr_so_far(&r->scores, i);
    if (c->run.shared.request.frames == 1)
        snprintf(text[3], SG_COLLAGE_TEXT, "PSNR %.2f dB, SSIM %.4f, MS-SSIM %.4f", psnr, r->scores.ssim[0],
                 r->scores.ms_ssim[0]);
    else
        snprintf(text[3], SG_COLLAGE_TEXT, "PSNR %.2f dB so far, before compression", psnr);
}

static void caption_difference(const sg_comparison *c, int k, int i, sg_caption text)
{
    const sg_clip_scores *const s = &c->run.arm[k].scores;
    snprintf(text[0], SG_COLLAGE_TEXT, "difference x%d", SG_COLLAGE_GAIN);
    snprintf(text[1], SG_COLLAGE_TEXT, "%s to %.60s", c->run.arm[k].arm->name, c->run.arm[0].arm->name);
    *text[2] = *text[3] = '\0';
    if (c->run.shared.request.frames > 1)
        snprintf(text[2], SG_COLLAGE_TEXT, "frame %d: PSNR %.2f dB, before compression", i + 1, s->psnr[i]);
}

static void draw_side(const sg_comparison *c, const sg_image *on, int i)
{
    sg_caption caption[2 * SG_ARMS_MAX - 1];
    for (int k = 0; k < c->run.arms.count; k++) caption_arm(c, k, i, caption[k]);
    for (int k = 1; k < c->run.arms.count; k++) caption_difference(c, k, i, caption[c->run.arms.count + k - 1]);
    sg_collage_side(on, &c->collage, i, caption);
}

static void draw_sheet(const sg_comparison *c, const sg_image *on)
{
    char        text[SG_ARMS_MAX][3 * SG_COLLAGE_TEXT];
    const char *line[SG_ARMS_MAX];
    for (int k = 0; k < c->run.arms.count; k++) {
        const sg_clip_totals *const t = &c->run.arm[k].total;
        sg_caption                  caption;
        caption_arm(c, k, 0, caption);
        snprintf(text[k], sizeof text[k], "%s: %s", caption[0], caption[1]);
        if (k)
            sg_text_append(text[k], sizeof text[k], ", %s, PSNR %.2f dB, SSIM %.4f before compression", caption[2],
                           t->psnr.mean, t->ssim.mean);
        line[k] = text[k];
    }
    sg_collage_sheet(on, &c->collage, line);
}

/* ---- the files ---- */

static sg_status write_frames(const sg_comparison *c, const sg_compare_file *f, sg_error *e)
{
    const size_t   bytes = sg_image_bytes(f->clip.width, f->clip.height);
    const sg_image on = {f->clip.width, f->clip.height, is_drawn(c, f) ? malloc(bytes) : NULL};
    sg_status      status = SG_OK;
    if (is_drawn(c, f) && !on.rgb) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for a frame", f->path);
    for (int i = 0; i < f->clip.frames && status == SG_OK; i++) {
        const uint8_t *const from = on.rgb ? on.rgb : f->picture ? f->picture->rgb : c->rgb[f - c->file];
        if (f == c->side) draw_side(c, &on, i);
        if (f == c->sheet) draw_sheet(c, &on);
        status = sg_interrupt_check(e);
        if (status == SG_OK) status = sg_writer_write(f->writer, i, from + (on.rgb ? 0 : (size_t)i * bytes), e);
    }
    free(on.rgb);
    return status;
}

/* The whole file, without its name. */
static sg_status write_file(const sg_comparison *c, sg_compare_file *f, sg_error *e)
{
    const ptrdiff_t k = f - c->file;
    SG_TRY(sg_report_text(&f->settings, k < c->run.arms.count ? c->arm_settings[k] : c->settings, e));
    f->clip.settings = f->settings;
    SG_TRY(sg_output_options_name(e, sg_writer_open(&f->writer, &f->clip, e)));
    SG_TRY(write_frames(c, f, e));
    return sg_writer_complete(f->writer, e);
}

static sg_status save_reports(const sg_comparison *c, const char *json, sg_error *e)
{
    char            path[PATH_MAX];
    json_t         *j = NULL;
    sg_output_file *page = NULL;
    SG_TRY(sg_report_arms(&j, c, e));
    report_path(path, c, report[PAGE]);
    sg_status status = sg_report_page_open(&page, path, sg_report_arms_page, j, e);
    if (status == SG_OK && json) status = sg_report_save(json, j, e);
    report_path(path, c, report[REPORT]);
    if (status == SG_OK) status = sg_report_save(path, j, e);
    if (status == SG_OK) status = sg_output_file_publish(&page, e);
    sg_output_file_discard(&page);
    json_decref(j);
    return status;
}

sg_status sg_compare_files_write(sg_comparison *c, const char *json, sg_error *e)
{
    for (int k = 0; k < c->files; k++) SG_TRY(write_file(c, &c->file[k], e));
    SG_TRY(sg_interrupt_check(e));
    SG_TRY(save_reports(c, json, e));
    c->made = false;
    for (int k = 0; k < c->files; k++) SG_TRY(sg_writer_finish(c->file[k].writer, e));
    sg_compare_state_remove(c);
    return SG_OK;
}

void sg_compare_files_close(sg_comparison *c)
{
    for (sg_compare_file *f = c->file; f < c->file + c->files; f++) {
        sg_writer_close(&f->writer);
        free(f->settings);
    }
    if (c->made) rmdir(c->folder);
    free(c->folder);
}
