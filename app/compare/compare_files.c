/* compare_files.c - see compare_files.h. */
#include "compare_files.h"
#include "base/output_file.h"
#include "base/path.h"
#include "collage.h"
#include "interrupt.h"
#include "report_page.h"
#include "report_settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static const char REPORT[] = "report.json", PAGE[] = "report.html";

static sg_collage collage_of(const sg_comparison *c, const uint8_t **rgb)
{
    for (int i = 0; i < c->run.arms.count; i++) rgb[i] = c->run.arm[i].rgb;
    return (sg_collage){c->run.shared.request.width, c->run.shared.request.height, c->run.shared.request.frames,
                        c->run.arms.count, rgb};
}

static bool is_sheet(const sg_comparison *c, int k) { return c->sheet && k == c->run.arms.count + 1; }

static sg_clip clip_of(const sg_compare_files *f, const sg_comparison *c, int k)
{
    const sg_request *const r = &c->run.shared.request;
    sg_clip                 clip = {.path = f->file[k].path,
                                    .width = r->width,
                                    .height = r->height,
                                    .frames = r->frames,
                                    .fps = r->fps,
                                    .settings = f->file[k].settings};
    if (k == c->run.arms.count || is_sheet(c, k)) {
        const int *const size = k == c->run.arms.count ? c->side_size : c->sheet_size;
        clip.width = size[0];
        clip.height = size[1];
    }
    if (k > c->run.arms.count) clip.frames = 1;
    return clip;
}

/* The picture that file k is; NULL: it is none. */
static const sg_image *picture_of(const sg_compare_files *f, const sg_comparison *c, int k)
{
    for (int i = 0; i < SG_IMAGES; i++)
        if (c->picture[i] == f->file[k].name) return &c->run.session.pictures.fitted[i];
    return NULL;
}

/* ---- before the work ---- */

static sg_status choose_folder(sg_compare_files *f, const sg_comparison *c, const char *asked, sg_error *e)
{
    char usual[48];
    snprintf(usual, sizeof usual, "compare-%llu", (unsigned long long)c->run.shared.request.seed);
    return sg_output_folder_check(&f->folder, asked ? asked : usual, sizeof f->file->name, "--output", e);
}

static void name_file(sg_compare_files *f, const char *stem, const char *ending)
{
    sg_compare_file *const o = &f->file[f->count++];
    snprintf(o->name, sizeof o->name, "%s%s", stem, ending);
    snprintf(o->path, sizeof o->path, "%s/%s%s", f->folder, stem, ending);
}

static void report_path(char path[PATH_MAX], const sg_compare_files *f, const char *name)
{
    snprintf(path, PATH_MAX, "%s/%s", f->folder, name);
}

static sg_status check_report(const sg_compare_files *f, const char *name, sg_error *e)
{
    char path[PATH_MAX];
    report_path(path, f, name);
    return sg_output_file_check(path, "--output", e);
}

static sg_status check_file(const sg_compare_files *f, const sg_comparison *c, int k, bool there, sg_error *e)
{
    const sg_clip clip = clip_of(f, c, k);
    if (clip.width > SG_IMAGE_MAX_SIDE || clip.height > SG_IMAGE_MAX_SIDE)
        return sg_error_set(e, SG_E_ARG, "--arms: %d of %dx%d make %s %dx%d, and %d is the most a side",
                            c->run.arms.count, c->run.shared.request.width, c->run.shared.request.height,
                            f->file[k].name, clip.width, clip.height, SG_IMAGE_MAX_SIDE);
    return there ? sg_sink_check(&clip, e) : sg_sink_check_format(&clip, e);
}

sg_status sg_compare_files_name(sg_compare_files *f, sg_comparison *c, const char *folder, sg_error *e)
{
    const int         frames = c->run.shared.request.frames;
    const char *const ending = sg_path_extension(sg_sink_default_name(frames));
    const uint8_t    *rgb[SG_ARMS_MAX];
    const sg_collage  collage = collage_of(c, rgb);
    struct stat       st;
    SG_TRY(choose_folder(f, c, folder, e));
    f->count = 0;
    for (int k = 0; k < c->run.arms.count; k++) {
        name_file(f, c->run.arms.arm[k].file, ending);
        c->file[k] = f->file[k].name;
    }
    name_file(f, "side", ending);
    c->side = f->file[c->run.arms.count].name;
    if (frames > 1) name_file(f, "frames", ".png");
    c->sheet = frames > 1 ? f->file[c->run.arms.count + 1].name : NULL; /* the images stand in the other already */
    for (int i = 0; i < SG_IMAGES; i++) {
        if (!c->run.session.pictures.path[i]) continue;
        name_file(f, i == SG_IMAGE_FIRST ? "image" : "last-image", ".png");
        c->picture[i] = f->file[f->count - 1].name;
    }
    sg_collage_side_size(&collage, &c->side_size[0], &c->side_size[1]);
    sg_collage_sheet_size(&collage, &c->sheet_size[0], &c->sheet_size[1]);
    const bool there = stat(f->folder, &st) == 0;
    for (int k = 0; k < f->count; k++) SG_TRY(check_file(f, c, k, there, e));
    if (!there) return SG_OK;
    SG_TRY(check_report(f, REPORT, e));
    return check_report(f, PAGE, e);
}

size_t sg_compare_files_bytes(const sg_compare_files *f, const sg_comparison *c)
{
    size_t bytes = 0;
    for (int k = 0; k < f->count; k++) {
        const sg_clip clip = clip_of(f, c, k);
        bytes += sg_sink_bytes(&clip);
        if (k >= c->run.arms.count && !picture_of(f, c, k)) bytes += sg_image_bytes(clip.width, clip.height);
    }
    return bytes;
}

sg_status sg_compare_files_open(sg_compare_files *f, sg_error *e)
{
    return sg_output_folder_make(f->folder, &f->made, "--output", e);
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
    const int   n = snprintf(text[1], SG_COLLAGE_TEXT, "%.0f %% skipped, ", 100 * (1 - sg_arm_density(r, -1, -1)));
    char *const seconds = text[1] + n;
    if (r->report.steps_skipped)
        snprintf(seconds, SG_COLLAGE_TEXT - (size_t)n, "%d of %d steps, %.1f s", r->steps - r->report.steps_skipped,
                 r->steps, sg_arm_times_total(&r->times));
    else
        snprintf(seconds, SG_COLLAGE_TEXT - (size_t)n, "%.1f s", sg_arm_times_total(&r->times));
    *text[2] = *text[3] = '\0';
    if (k == 0) return;
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
    const uint8_t   *rgb[SG_ARMS_MAX];
    const sg_collage collage = collage_of(c, rgb);
    sg_caption       caption[2 * SG_ARMS_MAX - 1];
    for (int k = 0; k < c->run.arms.count; k++) caption_arm(c, k, i, caption[k]);
    for (int k = 1; k < c->run.arms.count; k++) caption_difference(c, k, i, caption[c->run.arms.count + k - 1]);
    sg_collage_side(on, &collage, i, caption);
}

static void draw_sheet(const sg_comparison *c, const sg_image *on)
{
    const uint8_t   *rgb[SG_ARMS_MAX];
    const sg_collage collage = collage_of(c, rgb);
    char             text[SG_ARMS_MAX][3 * SG_COLLAGE_TEXT];
    const char      *line[SG_ARMS_MAX];
    for (int k = 0; k < c->run.arms.count; k++) {
        const sg_clip_totals *const t = &c->run.arm[k].total;
        sg_caption                  caption;
        caption_arm(c, k, 0, caption);
        const int n = snprintf(text[k], sizeof text[k], "%s: %s", caption[0], caption[1]);
        if (k)
            snprintf(text[k] + n, sizeof text[k] - (size_t)n, ", %s, PSNR %.2f dB, SSIM %.4f before compression",
                     caption[2], t->psnr.mean, t->ssim.mean);
        line[k] = text[k];
    }
    sg_collage_sheet(on, &collage, line);
}

/* ---- the files ---- */

static sg_status write_frames(const sg_compare_files *f, const sg_comparison *c, int k, const sg_clip *clip,
                              sg_sink *sink, sg_error *e)
{
    const bool            drawn = k == c->run.arms.count || is_sheet(c, k);
    const size_t          bytes = sg_image_bytes(clip->width, clip->height);
    sg_image              on = {clip->width, clip->height, NULL};
    sg_status             status = SG_OK;
    const sg_image *const picture = picture_of(f, c, k);
    if (picture) return sg_sink_write(sink, 0, picture->rgb, e);
    if (drawn && !(on.rgb = malloc(bytes)))
        return sg_error_set(e, SG_E_MEMORY, "%s: no memory for a frame", clip->path);
    for (int i = 0; i < clip->frames && status == SG_OK; i++) {
        if (k == c->run.arms.count) draw_side(c, &on, i);
        if (is_sheet(c, k)) draw_sheet(c, &on);
        if (sg_interrupt_asked())
            status = sg_error_set(e, SG_E_CANCELLED, "interrupted");
        else
            status = sg_sink_write(sink, i, drawn ? on.rgb : c->run.arm[k].rgb + (size_t)i * bytes, e);
    }
    free(on.rgb);
    return status;
}

/* The whole file, without its name. */
static sg_status write_file(sg_compare_files *f, const sg_comparison *c, int k, sg_error *e)
{
    sg_compare_file *const o = &f->file[k];
    SG_TRY(sg_report_text(&o->settings, k < c->run.arms.count ? c->arm_settings[k] : c->settings, e));
    const sg_clip clip = clip_of(f, c, k);
    SG_TRY(sg_sink_open(&o->sink, &clip, e));
    SG_TRY(write_frames(f, c, k, &clip, o->sink, e));
    return sg_sink_complete(o->sink, e);
}

static sg_status save_reports(const sg_compare_files *f, const sg_comparison *c, const char *json, sg_error *e)
{
    char            path[PATH_MAX];
    json_t         *report = NULL;
    sg_output_file *page = NULL;
    SG_TRY(sg_report_arms(&report, c, e));
    report_path(path, f, PAGE);
    sg_status status = sg_report_page_open(&page, path, sg_report_arms_page, report, e);
    if (status == SG_OK && json) status = sg_report_save(json, report, e);
    report_path(path, f, REPORT);
    if (status == SG_OK) status = sg_report_save(path, report, e);
    if (status == SG_OK) status = sg_output_file_publish(&page, e);
    sg_output_file_discard(&page);
    json_decref(report);
    return status;
}

sg_status sg_compare_files_write(sg_compare_files *f, const sg_comparison *c, const char *json, sg_error *e)
{
    for (int k = 0; k < f->count; k++) SG_TRY(write_file(f, c, k, e));
    if (sg_interrupt_asked()) return sg_error_set(e, SG_E_CANCELLED, "interrupted");
    SG_TRY(save_reports(f, c, json, e));
    f->made = false;
    for (int k = 0; k < f->count; k++) SG_TRY(sg_sink_finish(f->file[k].sink, e));
    return SG_OK;
}

void sg_compare_files_close(sg_compare_files *f)
{
    for (int k = 0; k < f->count; k++) {
        sg_sink_close(&f->file[k].sink);
        free(f->file[k].settings);
    }
    if (f->made) rmdir(f->folder);
    free(f->folder);
    *f = (sg_compare_files){0};
}
