/* eval_unit.c - one clip of one prompt by all arms. They render in turn (eval_order.h), and what they have rendered waits
 * in files, with its seconds, until all are there: then the others are compared with the first arm's frames, and their
 * lines are written. So two clips are in memory, however many arms there are, each arm finds the machine as the one
 * before it left it, and a run that goes on renders only what is missing. Where the file of a first arm whose line is
 * there is missing or damaged, it is rendered once more, which changes neither its clip nor its line. */
#include "base/clock.h"
#include "base/json_input.h"
#include "base/text.h"
#include "collage.h"
#include "eval.h"
#include "eval_files.h"
#include "eval_order.h"
#include "eval_pictures.h"
#include "json_build.h"
#include "notices.h"
#include "output_options.h"
#include "report_settings.h"
#include "settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

sg_status sg_eval_request(sg_request *out, sg_eval *v, int prompt, int clip, sg_error *e)
{
    const sg_prompt *const p = &v->set.prompt[prompt];
    *out = sg_eval_sized(v, p);
    out->prompt = p->text;
    if (p->negative) out->negative_prompt = p->negative;
    if (p->seed >= 0) out->seed = (uint64_t)p->seed;
    out->seed = (out->seed + (uint64_t)(v->names[prompt].first + clip)) & INT64_MAX;
    return sg_eval_pictures_take(v, prompt, out, e);
}

/* A clip on its way, of arm r. */
typedef struct work {
    sg_eval       *v;
    int            prompt, clip, arm;
    sg_arm_result *r;
    char           path[PATH_MAX], picture[PATH_MAX];
    const char    *file, *picture_file; /* within the folder */
} work;

/* After a failure all is there but the pictures and the video. */
static sg_status start_work(work *w, sg_eval *v, int prompt, int clip, int arm, sg_error *e)
{
    sg_request shared;
    *w = (work){.v = v, .prompt = prompt, .clip = clip, .arm = arm, .r = &v->run.arm[arm]};
    const sg_status status = sg_eval_request(&shared, v, prompt, clip, e);
    sg_rendering_request(&w->r->now.request, &shared, &w->r->now);
    w->file = sg_eval_clip_path(w->path, v, prompt, clip, arm);
    w->picture_file = sg_eval_picture_path(w->picture, v, prompt, clip, arm);
    return status;
}

/* ---- rendering ---- */

/* Before anything is allocated for it. */
static sg_status check_fits(work *w, sg_error *e)
{
    sg_rendering *const now = &w->r->now;
    const sg_clip       clip = sg_arm_clip(w->r, w->path, NULL);
    now->request.output_bytes = 2 * sg_arm_clip_bytes(&now->request) + sg_writer_bytes(&clip);
    SG_TRY(sg_rendering_plan(now, w->v->session->engine, e));
    return sg_plan_fits(&now->plan, e);
}

static sg_status render(work *w, sg_error *e)
{
    sg_progress_render(w->v->progress, 0, 0, NULL);
    return sg_arm_run_render(&w->v->run, w->r, e);
}

/* Of this clip by this arm. */
static sg_settings kept_of(const work *w)
{
    sg_settings s = sg_arm_kept(w->r);
    s.strength = w->r->now.request.strength;
    sg_eval_pictures_note(w->v, w->prompt, &s);
    return s;
}

static sg_status make_settings(const work *w, char **text, sg_error *e)
{
    const sg_settings kept = kept_of(w);
    json_t *const     j = sg_report_settings(&kept, &w->r->now.request, &w->v->session->info, false);
    const sg_status   status = sg_report_text(text, j, e);
    json_decref(j);
    return status;
}

/* ---- its line ---- */

static json_t *groups_json(const sg_eval *v, int prompt)
{
    const sg_prompt *const p = &v->set.prompt[prompt];
    json_t                *a = json_array();
    for (int i = 0; i < p->groups; i++)
        sg_json_append(&a, json_string(v->set.group[v->set.member[p->first_group + i]]));
    return a;
}

static json_t *start_line(const work *w, const char *status)
{
    static const char *const made_from[] = {"image", "last-image", "video", "strength", "fit"};
    const sg_eval *const     v = w->v;
    const sg_request *const  r = &w->r->now.request;
    const sg_settings        kept = kept_of(w);
    json_t                  *line = sg_eval_line(w->r->arm->name, w->arm, w->prompt, w->clip, status, r->prompt);
    sg_json_join(&line, json_pack("{s:o, s:I, s:i, s:i, s:i}", "groups", groups_json(v, w->prompt), "seed",
                                  (json_int_t)r->seed, "width", r->width, "height", r->height, "frames", r->frames));
    for (size_t i = 0; i < sizeof made_from / sizeof *made_from; i++)
        sg_settings_put_option(&line, &kept, sg_settings_option(&kept, made_from[i]), false);
    sg_eval_pictures_add(v, w->prompt, line);
    return line;
}

/* ---- its files ---- */

static sg_status write_picture(work *w, sg_error *e)
{
    const sg_request *const r = &w->r->now.request;
    const uint8_t *const    rgb[] = {w->r->rgb};
    const sg_collage        collage = {r->width, r->height, r->frames, 1, rgb};
    sg_image                on = {0};
    sg_collage_strip_size(&collage, &on.width, &on.height);
    on.rgb = malloc(sg_image_bytes(on.width, on.height));
    if (!on.rgb) return sg_error_memory(e, w->picture);
    sg_collage_strip(&on, &collage);
    const sg_status status = sg_writer_save_picture(w->picture, on.rgb, on.width, on.height, NULL, e);
    free(on.rgb);
    return status;
}

static void say_cut(sg_eval *v, int prompt, const sg_plan *plan)
{
    char which[48];
    snprintf(which, sizeof which, "--prompts: line %d", v->set.prompt[prompt].line);
    sg_notice_cut(v->session, plan, which);
}

/* Whether it would run what the first arm runs. */
static bool same_as_first(const work *w)
{
    work     first;
    sg_error why = {0};
    char     text[SG_FORECAST_TEXT];
    return start_work(&first, w->v, w->prompt, w->clip, 0, &why) == SG_OK &&
           sg_rendering_plan(&first.r->now, w->v->session->engine, &why) == SG_OK &&
           *sg_arms_would_be_same(text, first.r, w->r);
}

/* What a line has before its clip is scored. */
static json_t *made_line(const work *w)
{
    json_t *line = start_line(w, "done");
    sg_json_join(&line, sg_arm_made_json(w->r));
    sg_json_set(&line, "ran", sg_arm_ran_json(w->r));
    if (w->arm) sg_json_set(&line, "same_kernels", json_boolean(same_as_first(w)));
    sg_json_join(&line, json_pack("{s:o, s:o, s:i}", "file", sg_report_name(w->file), "picture",
                                  sg_report_name(w->picture_file), "non_finite", 0));
    return line;
}

/* Renders a clip, which is on the disk then. */
static sg_status make_clip(work *w, sg_error *e)
{
    sg_eval *const v = w->v;
    char          *settings = NULL;
    SG_TRY(check_fits(w, e));
    if (w->arm == 0 && w->clip == 0) say_cut(v, w->prompt, &w->r->now.plan);
    SG_TRY(make_settings(w, &settings, e));
    const sg_clip clip = sg_arm_clip(w->r, w->path, settings);
    sg_status     status = sg_output_options_name(e, sg_writer_open(&v->run.writer, &clip, e));
    if (status == SG_OK) status = render(w, e);
    if (status == SG_OK) status = sg_writer_finish(v->run.writer, e);
    sg_writer_close(&v->run.writer);
    free(settings);
    return status == SG_OK ? write_picture(w, e) : status;
}

/* Its frames and its line wait. */
static sg_status keep(const work *w, sg_error *e)
{
    json_t *const line = made_line(w);
    char *const   text = sg_json_text(line, JSON_COMPACT | SG_REPORT_DIGITS);
    json_decref(line);
    if (!text) return sg_error_memory(e, w->path);
    const sg_status status =
        sg_eval_frames_save(w->v, w->prompt, w->clip, w->arm, &w->r->now.request, w->r->rgb, text, e);
    free(text);
    return status;
}

static bool ends_the_run(sg_status s) { return s == SG_E_FILE || s == SG_E_DEVICE || s == SG_E_CANCELLED; }

/* A clip that failed, unless the failure concerns all of them. */
static sg_status log_failed(const work *w, const sg_error *why, sg_error *e)
{
    sg_eval *const v = w->v;
    if (ends_the_run(why->code)) return sg_error_copy(e, why);
    json_t *line = start_line(w, "failed");
    sg_json_join(&line,
                 json_pack("{s:o, s:i}", "error", sg_report_name(why->text), "non_finite", why->code == SG_E_NUMERIC));
    const sg_status status = sg_eval_log_add(&v->log, line, e);
    v->failed++;
    v->failure = why->code;
    sg_progress_say(v->progress, "failed: %s: %s", w->file, why->text);
    return status;
}

/* ---- the unit ---- */

static void say_row(sg_eval *v, int prompt, int arm)
{
    const int made = v->done + v->failed;
    char      left[48] = "", duration[32], text[48];
    if (made)
        snprintf(left, sizeof left, ", %s left",
                 sg_duration(duration, (sg_seconds() - v->start) / (double)made * (double)(v->due - made)));
    sg_progress_row(v->progress, "%d/%d %ss, %d failed%s: %.40s, %s", made, v->due,
                    sg_clip_noun(v->run.shared.request.frames), v->failed, left, v->run.arms.arm[arm].name,
                    sg_show_(text, sizeof text, v->set.prompt[prompt].text));
}

/* The others have nothing to compare with. */
static void note_first_failed(const sg_eval *v, sg_error *first)
{
    sg_error_set(first, v->failure, "there is nothing to compare with: %s failed", v->run.arms.arm[0].name);
}

/* Does the clip wait since an earlier run? */
static bool waits_already(const work *w)
{
    sg_error        why = {0};
    const bool      there = access(w->path, F_OK) == 0;
    const sg_status status =
        sg_eval_frames_load(w->v, w->prompt, w->clip, w->arm, &w->r->now.request, w->r->rgb, NULL, &why);
    if (status == SG_E_FORMAT) sg_progress_say(w->v->progress, "%s; %s is rendered again", why.text, w->file);
    return there && status == SG_OK;
}

/* Renders an arm. *waits: its clip waits now. first tells why there is nothing to compare with, if so. */
static sg_status make_arm(sg_eval *v, int prompt, int clip, int arm, const sg_error *first, bool *waits, sg_error *e)
{
    work     w;
    sg_error why = {0};
    say_row(v, prompt, arm);
    sg_status status = start_work(&w, v, prompt, clip, arm, &why);
    if (status == SG_OK) status = sg_arm_run_reserve(&v->run, 2, &w.r->now.request, &why);
    *waits = status == SG_OK && waits_already(&w);
    if (*waits) return SG_OK;
    if (first->code != SG_OK) status = sg_error_copy(&why, first);
    if (status == SG_OK) status = make_clip(&w, &why);
    if (status == SG_OK) status = keep(&w, &why);
    *waits = status == SG_OK;
    return *waits ? SG_OK : log_failed(&w, &why, e);
}

/* Its frames and its line, as far as that is known. */
static sg_status fetch(const work *w, json_t **line, sg_error *e)
{
    char *text = NULL;
    SG_TRY(sg_eval_frames_load(w->v, w->prompt, w->clip, w->arm, &w->r->now.request, w->r->rgb, &text, e));
    *line = json_loads(text, 0, NULL);
    free(text);
    return *line ? SG_OK : sg_error_memory(e, w->path);
}

/* Scores a clip that waits, and writes its line. */
static sg_status score_arm(sg_eval *v, int prompt, int clip, int arm, const sg_error *first, sg_error *e)
{
    work      w;
    json_t   *line = NULL;
    sg_error  why = {0};
    sg_status status = start_work(&w, v, prompt, clip, arm, &why);
    if (first->code != SG_OK) status = sg_error_copy(&why, first);
    if (status == SG_OK) status = fetch(&w, &line, &why);
    if (status == SG_OK) status = sg_arm_run_score(&v->run, w.r, &why);
    if (status == SG_OK) {
        sg_json_join(&line, sg_arm_scores_json(w.r, arm == 0));
        status = sg_eval_log_add(&v->log, line, e);
        v->done += status == SG_OK;
        return status;
    }
    json_decref(line);
    SG_TRY(log_failed(&w, &why, e));
    unlink(w.path); /* as with every clip that failed */
    unlink(w.picture);
    return SG_OK;
}

/* The frames of a first arm that was done before. */
static sg_status fetch_first(sg_eval *v, int prompt, int clip, sg_error *e)
{
    work     w;
    sg_error why = {0};
    SG_TRY(start_work(&w, v, prompt, clip, 0, e));
    if (sg_eval_frames_load(v, prompt, clip, 0, &w.r->now.request, w.r->rgb, NULL, &why) == SG_OK) return SG_OK;
    sg_progress_say(v->progress, "%s; %s is rendered again, to be compared with", why.text, w.file);
    SG_TRY(check_fits(&w, e));
    return render(&w, e);
}

/* Of the clips that wait. */
static sg_status score_all(sg_eval *v, int prompt, int clip, const bool *waits, sg_error *first, sg_error *e)
{
    bool others = false;
    for (int i = 1; i < v->run.arms.count; i++) others = others || waits[i];
    if (waits[0]) {
        SG_TRY(score_arm(v, prompt, clip, 0, first, e));
        if (*sg_eval_log_state(&v->log, prompt, clip, 0) != SG_EVAL_DONE) note_first_failed(v, first);
    } else if (others && first->code == SG_OK && fetch_first(v, prompt, clip, first) != SG_OK &&
               ends_the_run(first->code)) {
        return sg_error_copy(e, first);
    }
    for (int i = 1; i < v->run.arms.count; i++)
        if (waits[i]) SG_TRY(score_arm(v, prompt, clip, i, first, e));
    return SG_OK;
}

sg_status sg_eval_unit(sg_eval *v, int prompt, int clip, sg_error *e)
{
    const uint8_t *const state = sg_eval_log_state(&v->log, prompt, clip, 0);
    const int            arms = v->run.arms.count;
    sg_error             first = {0}; /* why there is nothing to compare with */
    bool                 waits[SG_ARMS_MAX] = {false};
    int                  order[SG_ARMS_MAX];
    sg_eval_order(order, arms, (int64_t)prompt * v->per_prompt + clip);
    for (int i = 0; i < arms; i++) {
        const int arm = order[i];
        if (state[arm] == SG_EVAL_DONE) continue;
        SG_TRY(make_arm(v, prompt, clip, arm, &first, &waits[arm], e));
        if (arm == 0 && !waits[0]) note_first_failed(v, &first);
    }
    SG_TRY(score_all(v, prompt, clip, waits, &first, e));
    for (int i = 0; i < arms; i++) sg_eval_frames_remove(v, prompt, clip, i);
    return SG_OK;
}
