/* command_eval.c - `sparge-gen eval`: a set of prompts by several arms, in parts or at once, until all clips are
 * there. */
#include "base/array.h"
#include "base/clock.h"
#include "command.h"
#include "eval.h"
#include "eval_report.h"
#include "eval_similarity.h"
#include "notices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is said ---- */

static void say_set(sg_eval *v)
{
    const sg_prompt_set *const set = &v->set;
    if (set->skipped)
        sg_progress_warn(v->progress, "%d left out; the first: %s", set->skipped, set->first_skipped.text);
    if (*set->unread)
        sg_progress_warn(v->progress, "%s: %s is not known and passed over", v->settings->prompts, set->unread);
    if (v->moved)
        sg_progress_warn(
            v->progress,
            "--prompts: %d entr%s a size that the model cannot render, the nearest is taken; the first is %s", v->moved,
            v->moved == 1 ? "y has" : "ies have", v->first_moved);
    sg_notice_prompts(v->session, set);
    if (v->log.file.cut) sg_progress_warn(v->progress, "%s: the last line was cut short, and is taken off", v->log.file.path);
}

static const char *noun(const sg_eval *v) { return sg_eval_makes_images(v) ? "image" : "clip"; }

static void say_start(sg_eval *v)
{
    char part[64] = "", there[64] = "";
    sg_arm_run_say(&v->run, &v->run.arm->now.plan);
    if (v->rank.size > 1) snprintf(part, sizeof part, " (part %d of %d)", v->rank.rank + 1, v->rank.size);
    if (v->there) snprintf(there, sizeof there, ", %d %s there", v->there, v->there == 1 ? "is" : "are");
    sg_progress_say(v->progress, "%d prompt%s%s, %d each, by %d arm%s: %d %s%s to be made%s", v->set.count,
                    sg_plural(v->set.count), part, v->per_prompt, v->run.arms.count, sg_plural(v->run.arms.count),
                    v->due, noun(v), sg_plural(v->due), there);
}

static void say_end(sg_eval *v)
{
    char took[32];
    sg_duration(took, v->start > 0 ? sg_seconds() - v->start : 0);
    sg_progress_say(v->progress, "%s: %d %s%s made, %d failed, in %s", v->folder, v->done, noun(v), sg_plural(v->done),
                    v->failed, took);
}

/* ---- the work ---- */

/* Warms all arms up for the clips of this size, if none was made in this run. Failures are left to the clip. */
static sg_status warm_up(sg_eval *v, int prompt, int clip, sg_error *e)
{
    sg_request r;
    sg_error   why = {0};
    if (sg_eval_request(&r, v, prompt, clip, &why) != SG_OK) return SG_OK;
    const sg_clip_size size = {r.width, r.height, r.frames};
    for (int i = 0; i < v->warm_sizes; i++)
        if (memcmp(&v->warm[i], &size, sizeof size) == 0) return SG_OK;
    if (!sg_array_push(v->warm, v->warm_sizes, v->warm_room, size)) return sg_error_memory(e, "warming up");
    const sg_status status = sg_arm_run_warm_up(&v->run, &r, &why);
    return status == SG_E_CANCELLED ? sg_error_copy(e, &why) : SG_OK;
}

static sg_status make_all(sg_eval *v, sg_error *e)
{
    for (int prompt = 0; prompt < v->set.count; prompt++)
        for (int clip = 0; clip < v->per_prompt; clip++) {
            if (!sg_eval_takes(v, prompt, clip) || sg_eval_log_done(&v->log, prompt, clip)) continue;
            SG_TRY(warm_up(v, prompt, clip, e));
            if (v->start == 0) v->start = sg_seconds();
            SG_TRY(sg_eval_unit(v, prompt, clip, e));
        }
    return SG_OK;
}

/* The engine is not needed any more, and its memory may be. */
static sg_status score_all(sg_eval *v, sg_eval_scored *out, sg_error *e)
{
    if (!v->clip) return SG_OK;
    sg_engine_close(&v->session->engine);
    free(v->run.frames);
    v->run.frames = NULL;
    return sg_eval_similarity_make(v, out, e);
}

/* Whoever finds that nothing is missing any more is the last. */
static sg_status finish(sg_eval *v, sg_error *e)
{
    const char *const made = noun(v); /* the engine that tells it closes before clips are scored */
    sg_eval_scored    scored = {0};
    say_end(v);
    SG_TRY(score_all(v, &scored, e));
    SG_TRY(sg_eval_log_read(&v->log, v->folder, e));
    const size_t missing = sg_eval_log_count(&v->log, SG_EVAL_MISSING);
    if (missing || scored.left) {
        sg_progress_say(v->progress, "%zu %s%s of other ranks still %s; the last of them makes the report",
                        missing ? missing : (size_t)scored.left, made,
                        sg_plural(missing ? (int64_t)missing : scored.left),
                        missing ? "missing" : "without CLIP's scores");
    } else {
        SG_TRY(sg_eval_report(v->folder, v->progress, e));
        sg_notice_file(v->session, v->folder);
        sg_progress_say(v->progress, "%s: report.html, summary.csv", v->folder);
    }
    if (!v->failed) return sg_eval_similarity_status(v, &scored, e);
    return sg_error_set(e, v->failure == SG_E_ARG ? SG_E_MISMATCH : v->failure,
                        "%s: %d %s%s failed; the same command tries again", v->folder, v->failed, made,
                        sg_plural(v->failed));
}

static sg_status run(sg_eval *v, sg_error *e)
{
    SG_TRY(sg_eval_open(v, e));
    say_set(v);
    say_start(v);
    const sg_status status = make_all(v, e);
    if (status == SG_OK) return finish(v, e);
    say_end(v);
    return status;
}

sg_status sg_command_eval(const sg_settings *s, sg_error *e)
{
    if (s->merge && !s->clip) return sg_eval_report(s->merge, NULL, e); /* without a model: of what is there */
    sg_eval *const v = calloc(1, sizeof *v);
    if (!v) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    v->settings = s;
    v->session = &v->run.session;
    v->progress = &v->session->progress;
    v->log.file.fd = -1;
    v->pictures.of = -1;
    v->list = s->arms ? s->arms : SG_ARMS_DEFAULT;
    v->per_prompt = s->per_prompt ? s->per_prompt : 1;
    const sg_status status = s->merge ? sg_eval_similarity_merge(v, e) : run(v, e);
    sg_eval_close(v);
    free(v);
    return status;
}
