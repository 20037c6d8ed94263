/* compare_arms.c - compares arms. The model is loaded once, texts are encoded once, and every arm is warmed: what it
 * runs then counts for none, takes the weights' pages in and brings them into the layout of the products. Then the
 * arms take turns, and each round begins with another arm: an engine has one render at work at a time, so arms cannot
 * take turns by step. There are --repeat rounds or, where renders are short, as many as it takes
 * (sg_arms_settled). */
#include "base/output_file.h"
#include "notices.h"
#include "report_arms.h"
#include "report_settings.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- before the work ---- */

/* The need of each arm; frames, latents and encoders are included. */
static sg_status plan_arms(sg_comparison *c, sg_error *e)
{
    sg_arm_run *const x = &c->run;
    c->plan = x->arm->now.plan; /* for sizes that are the same in all */
    const size_t arms = (size_t)x->arms.count,
                 latents = ((size_t)x->arm->steps + arms) * sg_latents_count(c->plan.latent);
    const size_t bytes =
        arms * sg_arm_clip_bytes(&x->shared.request) + latents * sizeof(float) + sg_compare_files_bytes(c);
    for (int i = 0; i < x->arms.count; i++) {
        sg_rendering *const now = &x->arm[i].now;
        now->request.output_bytes = bytes;
        SG_TRY(sg_engine_plan(x->session.engine, &now->request, &now->plan, e));
        if (now->plan.need > c->plan.need) c->plan = now->plan;
    }
    return sg_plan_fits(&c->plan, e);
}

static void make_settings(sg_comparison *c, const char *list)
{
    sg_arm_run *const          x = &c->run;
    const sg_model_info *const info = &x->session.info;
    sg_settings                all = x->shared.settings;
    all.arms = list;
    c->settings = sg_report_settings(&all, &x->shared.request, info, false);
    for (int i = 0; i < x->arms.count; i++) {
        const sg_settings kept = sg_arm_kept(&x->arm[i]);
        c->arm_settings[i] = sg_report_settings(&kept, &x->arm[i].now.request, info, false);
    }
}

static sg_status reserve(sg_comparison *c, sg_error *e)
{
    sg_arm_run *const x = &c->run;
    const size_t      n = sg_latents_count(c->plan.latent);
    x->latents = malloc((size_t)x->arm->steps * n * sizeof(float));
    bool enough = x->latents != NULL;
    SG_TRY(sg_arm_run_reserve(x, x->arms.count, &x->shared.request, e));
    for (int i = 0; i < x->arms.count && enough; i++) {
        sg_arm_result *const r = &x->arm[i];
        const size_t         steps = (size_t)r->steps;
        c->rgb[i] = r->rgb;
        r->latents = malloc(n * sizeof(float));
        r->relative_l2 = calloc(steps, sizeof(double));
        r->cosine = calloc(steps, sizeof(double));
        enough = r->latents && r->relative_l2 && r->cosine;
        SG_TRY(sg_arm_times_make(&r->times, x->rounds, r->steps, c->plan.chunks, e));
        r->times.rounds = 0;
    }
    return enough ? SG_OK : sg_error_set(e, SG_E_MEMORY, "no memory for the latents of %d arms", x->arms.count);
}

static sg_status open_all(sg_comparison *c, const sg_settings *s, sg_error *e)
{
    sg_arm_run *const x = &c->run;
    const char *const list = s->arms ? s->arms : SG_ARMS_DEFAULT;
    SG_TRY(sg_arms_open(&x->arms, list, s, e));
    if (x->arms.count < 2) return sg_error_set(e, SG_E_ARG, "--arms: '%s' is one arm; it takes two to compare", list);
    SG_TRY(sg_session_inputs(&x->session, s, e));
    x->session.timed = true;
    SG_TRY(sg_arm_run_open(x, e));
    x->rounds = SG_REPEAT_MAX;
    c->repeat = s->repeat;
    for (int i = 0; i < x->arms.count; i++) x->arm[i].now.request.attention_error = true;
    SG_TRY(sg_compare_files_name(c, s->output, e));
    SG_TRY(plan_arms(c, e));
    SG_TRY(sg_arms_refuse_same(x, e));
    make_settings(c, list);
    return sg_compare_state_open(c, e);
}

/* ---- the renders ---- */

/* Arm i, the nth of this round. Rounds that nobody asked for are of short renders, which change one line. */
static sg_status render_arm(sg_comparison *c, int i, int nth, sg_error *e)
{
    sg_arm_run *const    x = &c->run;
    sg_arm_result *const r = &x->arm[i];
    const int            count = x->arms.count;
    char                 round[48] = "";
    if (c->repeat > 1) snprintf(round, sizeof round, ", round %zu of %d", x->round + 1, c->repeat);
    if (c->repeat || x->round == 0)
        sg_progress_say(&x->session.progress, "%d/%d: %s%s", i + 1, count, r->arm->name, round);
    else
        sg_progress_row(&x->session.progress, "round %zu: %.40s", x->round + 1, r->arm->name);
    sg_progress_render(&x->session.progress, (int)x->round * count + nth, c->repeat * count, &c->plan);
    SG_TRY(sg_arm_run_render(x, r, e));
    sg_compare_state_keep(c, i);
    return SG_OK;
}

/* The first round is in the order of the list, for the others to be compared with the first. What an earlier run has
 * rendered of it is there. */
static sg_status render_round(sg_comparison *c, sg_error *e)
{
    sg_arm_run *const x = &c->run;
    const int         count = x->arms.count;
    x->round = (size_t)x->arm->times.rounds;
    if (!c->repeat && x->round == 1)
        sg_progress_say(&x->session.progress,
                        "more rounds, until the intervals of the speed-ups are within %.0f %%, for %.0f s at most",
                        100 * SG_ROUNDS_WITHIN, SG_ROUNDS_SECONDS);
    for (int n = 0; n < count; n++) {
        const int i = (int)((x->round + (size_t)n) % (size_t)count);
        if (!(x->arm[i].times.total[x->round] > 0)) SG_TRY(render_arm(c, i, n, e));
    }
    for (int i = 0; i < count; i++) x->arm[i].times.rounds++;
    return SG_OK;
}

static bool is_enough(sg_comparison *c)
{
    const int  done = c->run.arm->times.rounds;
    const bool settled = sg_arms_find_speed(c);
    return c->repeat ? done >= c->repeat : settled || done == c->run.rounds;
}

static sg_status render_all(sg_comparison *c, sg_error *e)
{
    sg_arm_run *const x = &c->run;
    if (x->arm->times.rounds == 0 || !is_enough(c)) SG_TRY(sg_arm_run_warm_up(x, &x->shared.request, e));
    if (x->arm->times.rounds == 0) SG_TRY(render_round(c, e));
    for (int i = 0; i < x->arms.count; i++) SG_TRY(sg_arm_run_score(x, &x->arm[i], e));
    while (!is_enough(c)) SG_TRY(render_round(c, e));
    return SG_OK;
}

/* ---- the whole ---- */

static sg_status report_same(const sg_comparison *c, sg_error *e)
{
    const char *a, *b, *why;
    if (json_unpack(json_array_get(c->same, 0), "{s:s, s:s, s:s}", "a", &a, "b", &b, "why", &why) != 0) return SG_OK;
    return sg_error_set(e, SG_E_MISMATCH, "%s and %s ran the same kernel throughout: %s", a, b, why);
}

static sg_status run(sg_comparison *c, const sg_settings *s, sg_error *e)
{
    SG_TRY(open_all(c, s, e));
    sg_arm_run_say(&c->run, &c->plan);
    SG_TRY(sg_output_folder_make(c->folder, &c->made, "--output", e));
    SG_TRY(reserve(c, e));
    sg_compare_state_load(c);
    SG_TRY(render_all(c, e));
    sg_arms_find_same(c);
    SG_TRY(sg_compare_files_write(c, s->json, e));
    if (!s->quiet && (!s->json || !sg_output_is_stdout(s->json))) sg_report_arms_table(c);
    sg_notice_file(&c->run.session, c->folder);
    sg_progress_say(&c->run.session.progress, "%s: %s%s%s, report.json, report.html", c->folder, c->side->name,
                    c->sheet ? ", " : "", c->sheet ? c->sheet->name : "");
    return report_same(c, e);
}

sg_status sg_compare_arms(const sg_settings *s, sg_error *e)
{
    sg_comparison *const c = calloc(1, sizeof *c);
    if (!c) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    sg_settings own = *s;
    if (s->seed < 0 && s->output) own.seed = sg_compare_state_seed(s->output); /* the one that was drawn */
    const sg_status status = run(c, &own, e);
    if (status != SG_OK && c->begun && !c->unkept)
        sg_progress_say(&c->run.session.progress, "%s: what is finished is kept; the same command goes on", c->folder);
    sg_compare_files_close(c);
    for (int i = 0; i < SG_ARMS_MAX; i++) json_decref(c->arm_settings[i]);
    json_decref(c->settings);
    json_decref(c->same);
    sg_arm_run_close(&c->run);
    free(c);
    return status;
}
