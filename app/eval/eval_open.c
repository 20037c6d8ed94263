/* eval_open.c - what an evaluation does before its first render: everything that can be refused is refused here. */
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "eval.h"
#include "eval_files.h"
#include "eval_manifest.h"
#include "eval_pictures.h"
#include "eval_report.h"
#include "eval_similarity.h"
#include "run_folder.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- inputs ---- */

/* Pictures and the video of options are read with each entry that has no other; here they fail in their own name. */
static sg_status check_usual_inputs(sg_eval *v, sg_error *e)
{
    sg_settings s = *v->settings;
    if (!s.image && !s.last_image && !s.video) s.fit = NULL; /* which is for those of entries */
    const sg_status status = sg_session_inputs(v->session, &s, e);
    v->session->asked = v->settings;
    if (status == SG_OK) SG_TRY(sg_session_read(v->session, &(sg_pictures){0}, NULL, NULL, e));
    return status;
}

static sg_status check_inputs(sg_eval *v, sg_error *e)
{
    const sg_settings *const s = v->settings;
    const sg_prompt_options  o = {.what = "--prompts", .skip_bad = s->skip_bad};
    if (!s->prompts || !s->output)
        return sg_error_set(e, SG_E_ARG, "eval needs a set and a folder: sparge-gen eval --prompts FILE --output DIR");
    SG_TRY(sg_rank_find(&v->rank, s->shard, e));
    if (s->seed < 0 && v->rank.size > 1)
        return sg_error_set(e, SG_E_ARG, "--seed: a random one does not go with %d ranks, which have to agree",
                            v->rank.size);
    SG_TRY(sg_arms_open(&v->run.arms, v->list, s, e));
    SG_TRY(sg_eval_files_check(v, e));
    SG_TRY(sg_output_folder_check(&v->folder, s->output, SG_EVAL_NAME_BYTES, "--output", e));
    SG_TRY(sg_run_folder_check(v->folder, (const char *const[]){SG_EVAL_MANIFEST, NULL}, e));
    SG_TRY(check_usual_inputs(v, e));
    return sg_prompt_set_open(&v->set, s->prompts, &o, e);
}

/* Ranks of one host that are free to run on all of its cores would be in each other's way. */
static int threads_of(const sg_eval *v)
{
    cpu_set_t mine;
    const int cores = (int)sysconf(_SC_NPROCESSORS_ONLN), ranks = v->rank.local_size;
    if (v->settings->threads || ranks < 2) return v->settings->threads;
    const bool bound = sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) < cores;
    return bound ? 0 : cores > ranks ? cores / ranks : 1;
}

/* ---- the set ---- */

static void note_moved(sg_eval *v, const sg_prompt *p, const sg_request *r)
{
    const bool size = (p->width && p->width != r->width) || (p->height && p->height != r->height);
    const bool frames = p->frames && p->frames != r->frames;
    if ((!size && !frames) || v->moved++) return;
    snprintf(v->first_moved, sizeof v->first_moved, "line %d: ", p->line);
    if (size)
        sg_text_append(v->first_moved, sizeof v->first_moved, "%dx%d becomes %dx%d", p->width ? p->width : r->width,
                       p->height ? p->height : r->height, r->width, r->height);
    else
        sg_text_append(v->first_moved, sizeof v->first_moved, "%d frame%s become %d", p->frames, sg_plural(p->frames),
                       r->frames);
}

/* Entries that the model cannot make are refused with their line, or left out. */
static sg_status check_entries(sg_eval *v, sg_error *e)
{
    sg_prompt_set *const set = &v->set;
    sg_error *const      to = v->settings->skip_bad ? &set->first_skipped : e;
    int                  kept = 0;
    for (int i = 0; i < set->count; i++) {
        const sg_prompt  p = set->prompt[i];
        const sg_request r = sg_eval_sized(v, &p);
        sg_error         why = {0};
        const sg_status  status = sg_eval_pictures_check(v, &p, kept, &r, &why);
        if (status == SG_E_MEMORY || status == SG_E_CANCELLED) return sg_error_copy(e, &why);
        if (status == SG_OK) {
            set->prompt[kept++] = p;
            note_moved(v, &p, &r);
            continue;
        }
        sg_error_set(to, status, "--prompts: %s: line %d: %s", v->settings->prompts, p.line, why.text);
        if (to == e) return status;
        set->skipped++;
    }
    set->count = kept;
    const sg_eval_pictures *const at = &v->pictures;
    if (v->settings->fit && !at->any && !at->any_start)
        return sg_error_set(e, SG_E_ARG, "--fit has no effect: no entry of the set has a picture or a video");
    if (!isnan(v->settings->strength) && !at->any_start)
        return sg_error_set(e, SG_E_ARG, "--strength has no effect: no entry of the set has a video%s",
                            v->session->info.image[SG_IMAGE_FIRST] == SG_IMAGE_START ? " or a picture" : "");
    return kept ? SG_OK : sg_error_set(e, SG_E_ARG, "%s", set->first_skipped.text);
}

/* ---- the folder ---- */

/* path is that of the manifest there. */
static sg_status check_manifest(const sg_eval *v, json_t *there, const json_t *now, const char *path, sg_error *e)
{
    const json_int_t count = json_integer_value(json_object_get(json_object_get(there, "prompts"), "count"));
    SG_TRY(sg_eval_manifest_grow(there, now, v, e));
    SG_TRY(sg_eval_manifest_compare(there, now, v->folder, e));
    if (count < v->set.count) SG_TRY(sg_report_save(path, there, e));
    return v->clip ? sg_eval_manifest_add_clip(v->folder, v->clip, v->settings->clip, e) : SG_OK;
}

static sg_status settle_manifest(sg_eval *v, sg_error *e)
{
    char    path[PATH_MAX];
    json_t *there = NULL, *now = NULL;
    SG_TRY(sg_output_folder_make(v->folder, NULL, "--output", e));
    SG_TRY(sg_eval_report_check(v->folder, e));
    SG_TRY(sg_path_join(path, sizeof path, v->folder, SG_EVAL_MANIFEST, e));
    if (access(path, F_OK) == 0) SG_TRY(sg_eval_manifest_read(&there, v->folder, e));
    const json_t *const seed = json_object_get(there, "seed");
    if (v->settings->seed < 0 && json_is_integer(seed)) {
        v->run.shared.settings.seed = json_integer_value(seed);
        v->run.shared.request.seed = (uint64_t)v->run.shared.settings.seed;
    }
    sg_status status = sg_eval_manifest_make(&now, v, e);
    if (status == SG_OK) status = there ? check_manifest(v, there, now, path, e) : sg_report_save(path, now, e);
    json_decref(now);
    json_decref(there);
    return status;
}

/* Counts the clips that this rank is to make. One whose file has gone is to be made again. */
static void count_due(sg_eval *v)
{
    for (int p = 0; p < v->set.count; p++)
        for (int k = 0; k < v->per_prompt; k++)
            for (int i = 0; i < v->run.arms.count; i++) {
                char           path[PATH_MAX];
                uint8_t *const state = sg_eval_log_state(&v->log, p, k, i);
                sg_eval_clip_path(path, v, p, k, i);
                if (*state == SG_EVAL_DONE && access(path, F_OK) != 0 && errno == ENOENT) *state = SG_EVAL_MISSING;
                if (sg_eval_takes(v, p, k)) *(*state == SG_EVAL_DONE ? &v->there : &v->due) += 1;
            }
}

static sg_status open_folder(sg_eval *v, sg_error *e)
{
    SG_TRY(sg_eval_log_make(&v->log, v->set.count, v->per_prompt, v->run.arms.count, e));
    SG_TRY(settle_manifest(v, e));
    SG_TRY(sg_eval_folders_make(v, e));
    SG_TRY(sg_eval_log_open(&v->log, v->folder, &v->rank, e));
    SG_TRY(sg_eval_log_read(&v->log, v->folder, e));
    count_due(v);
    sg_eval_files_clean(v);
    return SG_OK;
}

/* Refuses at once what no clip of the usual size could be made with, and arms that no such clip would tell apart. */
static sg_status check_usual(const sg_eval *v, sg_error *e)
{
    bool usual = false;
    for (const sg_prompt *p = v->set.prompt; p < v->set.prompt + v->set.count; p++)
        usual = usual || !(p->width || p->height || p->frames);
    if (!usual) return SG_OK;
    SG_TRY(sg_plan_fits(&v->run.arm->now.plan, e));
    return sg_arms_refuse_same(&v->run, e);
}

sg_status sg_eval_open(sg_eval *v, sg_error *e)
{
    SG_TRY(check_inputs(v, e));
    v->session->threads = threads_of(v);
    if (v->settings->clip) SG_TRY(sg_eval_similarity_check(&v->clip, v->settings, e));
    SG_TRY(sg_arm_run_open(&v->run, e));
    SG_TRY(sg_engine_check_request(v->session->engine, &v->run.shared.request, e));
    SG_TRY(check_entries(v, e));
    SG_TRY(check_usual(v, e));
    SG_TRY(sg_clip_names_make(&v->names, &v->set, v->per_prompt, e));
    return open_folder(v, e);
}

void sg_eval_close(sg_eval *v)
{
    sg_eval_log_close(&v->log);
    free(v->pictures.hash);
    json_decref(v->clip);
    free(v->names);
    free(v->warm);
    sg_arm_run_close(&v->run);
    sg_prompt_set_close(&v->set);
    free(v->folder);
}
