/* report_arms.c - see report_arms.h. */
#include "report_arms.h"
#include "base/text.h"
#include "base/utf8.h"
#include "json_build.h"
#include "report_result.h"
#include "report_settings.h"
#include "settings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- what is said of arms ---- */

/* Did both run the same kernels in this step, or none, and none that leaves something out? */
static bool same_step(const sg_arm_result *a, const sg_arm_result *b, int step)
{
    const size_t count = (size_t)a->passes * (size_t)a->layers, first = (size_t)step * count;
    const bool   values = a->now.request.attention.pv_dtype == b->now.request.attention.pv_dtype;
    if (a->steps != b->steps || a->passes != b->passes || a->report.skipped[step] != b->report.skipped[step])
        return false;
    for (size_t i = first; i < first + count; i++)
        if (a->count[i].kind != b->count[i].kind || a->count[i].kind == SG_ATTENTION_SPARGE ||
            (a->count[i].kind == SG_ATTENTION_SAGE && !values))
            return false;
    return true;
}

/* Did both compute the same throughout? */
static bool same_kernels(const sg_arm_result *a, const sg_arm_result *b)
{
    for (int i = 0; i < a->steps; i++)
        if (!same_step(a, b, i)) return false;
    return !sg_settings_difference(&a->now.settings, &b->now.settings, SG_OPTION_SAMPLING);
}

/* Their latents tell it too: of blocks only a render shows which were left out. */
static bool same_latents(const sg_comparison *c, const sg_arm_result *a, const sg_arm_result *b)
{
    return memcmp(a->latents, b->latents, sg_latents_count(c->plan.latent) * sizeof(float)) == 0;
}

static void times_of(const sg_arm_times *times[SG_ARMS_MAX], const sg_comparison *c)
{
    for (int k = 0; k < c->run.arms.count; k++) times[k] = &c->run.arm[k].times;
}

bool sg_arms_find_speed(sg_comparison *c)
{
    const sg_arm_times *times[SG_ARMS_MAX];
    sg_arm_run *const   x = &c->run;
    times_of(times, c);
    for (int k = 0; k < x->arms.count; k++) {
        const bool all = x->arm[k].steps == x->arm->steps && same_latents(c, x->arm, &x->arm[k]);
        for (int i = 0; i < x->arm[k].steps; i++) x->arm[k].times.shared[i] = all || same_step(x->arm, &x->arm[k], i);
    }
    for (int k = 0; k < x->arms.count; k++) x->arm[k].speed = sg_arm_speed_of(times, x->arms.count, k);
    return sg_arms_settled(times, x->arms.count);
}

void sg_arms_find_same(sg_comparison *c)
{
    c->same = json_array();
    for (int b = 1; b < c->run.arms.count; b++)
        for (int a = 0; a < b; a++) {
            const sg_arm_result *const x = &c->run.arm[a], *const y = &c->run.arm[b];
            char why[SG_FORECAST_TEXT] = "their latents are equal, bit for bit";
            if (same_kernels(x, y))
                sg_arms_why_same(why, x, y);
            else if (!same_latents(c, x, y))
                continue;
            sg_json_append(&c->same, json_pack("{s:s, s:s, s:s}", "a", x->arm->name, "b", y->arm->name, "why", why));
        }
}

/* r is not the first arm. */
static const char *result_text(char *text, const sg_comparison *c, const sg_arm_result *r)
{
    const sg_result of = {.arm = r->arm->name,
                          .first = c->run.arm->arm->name,
                          .part = "attention",
                          .part_speed = r->speed.attention,
                          .clip_speed = r->speed.total,
                          .psnr = r->scores.identical == r->scores.count ? INFINITY : r->total.psnr.mean,
                          .identical = r->scores.identical,
                          .what = "frame",
                          .images = r->now.request.frames == 1,
                          .same_kernels = r->speed.shared_steps == r->steps};
    return sg_result_text(text, &of);
}

/* ---- for machines ---- */

static json_t *numbers(const double *v, int count)
{
    json_t *a = json_array();
    for (int i = 0; i < count; i++) sg_json_append(&a, sg_report_number(v[i]));
    return a;
}

static json_t *measured(const sg_arm_times *t)
{
    return json_pack("{s:f, s:f, s:o, s:f}", "total", sg_arm_times_total(t), "denoise",
                     sg_arm_times_mean(t, t->step, t->steps, -1), "attention",
                     sg_report_number(sg_arm_times_mean(t, t->attention, t->steps, -1)), "decode",
                     sg_arm_times_mean(t, t->decode, t->chunks, -1));
}

static json_t *rounds_json(const sg_arm_times *t)
{
    json_t *rounds = json_array();
    for (int n = 0; n < t->rounds; n++)
        sg_json_append(&rounds, json_pack("{s:f, s:o, s:o}", "total", t->total[n], "steps",
                                          numbers(t->step + (size_t)n * (size_t)t->steps, t->steps), "decode",
                                          numbers(t->decode + (size_t)n * (size_t)t->chunks, t->chunks)));
    return rounds;
}

/* The stages of attention, means over the rounds. */
static void stage_seconds(double out[SG_ATTENTION_STAGES], const sg_arm_times *t)
{
    for (int i = 0; i < SG_ATTENTION_STAGES; i++) out[i] = sg_arm_times_mean(t, t->stage, SG_ATTENTION_STAGES, i);
}

/* Corrected attention, divided as what was measured was. */
static json_t *stages_json(const sg_arm_result *r)
{
    double of[SG_ATTENTION_STAGES], all = 0;
    stage_seconds(of, &r->times);
    for (int i = 0; i < SG_ATTENTION_STAGES; i++) all += of[i];
    for (int i = 0; i < SG_ATTENTION_STAGES; i++) of[i] *= all > 0 ? r->speed.attention_seconds / all : 0;
    return sg_report_attention_seconds(of);
}

static json_t *steps_json(const sg_comparison *c, int k)
{
    const sg_arm_times *times[SG_ARMS_MAX];
    json_t             *a = json_array();
    times_of(times, c);
    for (int i = 0; i < times[k]->steps; i++)
        sg_json_append(&a, json_real(sg_arm_step_seconds(times, c->run.arms.count, k, i)));
    return a;
}

/* Puts into an arm's seconds the corrected ones, and what only rounds have. */
static void put_times(json_t **seconds, const sg_comparison *c, int k)
{
    const sg_arm_result *const r = &c->run.arm[k];
    const sg_arm_speed *const  s = &r->speed;
    json_t *own = json_pack("{s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "load", r->report.seconds[SG_STAGE_LOAD],
                            "total", s->seconds, "denoise", s->denoise_seconds, "decode", s->decode_seconds, "between",
                            s->seconds - s->denoise_seconds - s->decode_seconds, "attention",
                            sg_report_number(s->attention_seconds), "steps", steps_json(c, k), "measured",
                            measured(&r->times), "rounds", rounds_json(&r->times));
    if (c->run.session.info.synchronous) sg_json_set(&own, "stages", stages_json(r));
    sg_json_join(seconds, own);
}

static json_t *speedup(const sg_arm_result *r)
{
    const sg_arm_speed *const s = &r->speed;
    json_t                   *steps = json_array();
    for (int i = 0; i < r->steps; i++)
        if (r->times.shared[i]) sg_json_append(&steps, json_integer(i));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "total", sg_report_interval(&s->total), "denoise",
                     sg_report_interval(&s->denoise), "attention", sg_report_interval(&s->attention), "shared_steps",
                     steps, "noise", sg_report_number(s->noise));
}

/* [[of layer 0, 1, ...] of step 0, 1, ...] */
static json_t *by_layer(const sg_arm_result *r, double (*of)(const sg_arm_result *, int step, int layer))
{
    json_t *steps = json_array();
    for (int i = 0; i < r->steps; i++) {
        json_t *layers = json_array();
        for (int l = 0; l < r->layers; l++) sg_json_append(&layers, sg_report_number(of(r, i, l)));
        sg_json_append(&steps, layers);
    }
    return steps;
}

/* Of a layer of a step; -1 stands for all. What ran and was not looked at was dense. */
static double error_of(const sg_arm_result *r, int step, int layer)
{
    const int n = r->passes * r->layers, end = (step < 0 ? r->steps : step + 1) * n;
    double    difference = 0, dense = 0;
    for (int i = step < 0 ? 0 : step * n; i < end; i++) {
        if (layer >= 0 && i % r->layers != layer) continue;
        difference += r->error[i].difference;
        dense += r->error[i].dense;
    }
    if (dense > 0) return difference / dense;
    return step >= 0 && !isnan(sg_arm_density(r, step, layer)) ? 0 : (double)NAN;
}

static json_t *attention_error(const sg_arm_result *r)
{
    if (!r->error) return json_null();
    return json_pack("{s:o, s:o, s:f}", "relative_l1", sg_report_number(error_of(r, -1, -1)), "layers",
                     by_layer(r, error_of), "seconds", r->error_seconds);
}

/* Adds to an arm's scores those of each frame. */
static void add_frames(json_t *arm, const char *key, const sg_summary *s, const double *v, int count)
{
    json_t *score = json_incref(json_object_get(arm, key));
    sg_json_set(&score, "worst", json_integer(s->worst));
    sg_json_set(&score, "frames", numbers(v, count));
    json_decref(score);
}

/* What compares an arm with the first. */
static json_t *compared(const sg_comparison *c, const sg_arm_result *r, json_t *j)
{
    const sg_clip_scores *const s = &r->scores;
    char                        text[SG_RESULT_TEXT];
    add_frames(j, "psnr", &r->total.psnr, s->psnr, s->count);
    add_frames(j, "ssim", &r->total.ssim, s->ssim, s->count);
    add_frames(j, "ms_ssim", &r->total.ms_ssim, s->ms_ssim, s->count);
    sg_json_join(&j,
                 json_pack("{s:s, s:o, s:i, s:i, s:{s:o, s:o}}", "result", result_text(text, c, r), "speedup",
                           speedup(r), "ms_ssim_scales", s->scales, "identical", s->identical, "latents", "relative_l2",
                           numbers(r->relative_l2, r->steps), "cosine", numbers(r->cosine, r->steps)));
    return j;
}

static json_t *attention_json(const sg_comparison *c, const sg_arm_result *r)
{
    const sg_attention_record record = {r->count, r->steps, r->passes, r->layers};
    double                    seconds[SG_ATTENTION_STAGES];
    stage_seconds(seconds, &r->times);
    return sg_report_attention(&r->now.request.attention, &r->now.plan, &record,
                               c->run.session.info.synchronous ? seconds : NULL);
}

static json_t *arm_json(const sg_comparison *c, int k)
{
    const sg_arm_result *const r = &c->run.arm[k];
    json_t                    *j = sg_arm_made_json(r), *seconds = json_incref(json_object_get(j, "seconds"));
    sg_json_join(&j, sg_arm_scores_json(r, k == 0));
    put_times(&seconds, c, k);
    json_decref(seconds);
    sg_json_join(&j, json_pack("{s:s, s:s, s:O, s:o, s:o, s:o, s:I}", "name", r->arm->name, "file", c->file[k].name,
                               "settings", c->arm_settings[k], "densities", by_layer(r, sg_arm_density),
                               "attention_error", attention_error(r), "attention", attention_json(c, r), "peak_bytes",
                               (json_int_t)r->report.peak_bytes));
    return k ? compared(c, r, j) : j;
}

static json_t *arms_json(const sg_comparison *c)
{
    json_t *a = json_array();
    for (int k = 0; k < c->run.arms.count; k++) sg_json_append(&a, arm_json(c, k));
    return a;
}

static json_t *side_json(const sg_comparison *c)
{
    json_t *places = json_array();
    for (int k = 1; k < c->run.arms.count; k++) {
        int x, y;
        sg_collage_difference(&c->collage, k, &x, &y);
        sg_json_append(&places, json_pack("[i, i]", x, y));
    }
    return json_pack("{s:s, s:i, s:i, s:o}", "file", c->side->name, "width", c->side->clip.width, "height",
                     c->side->clip.height, "differences", places);
}

static json_t *sheet_json(const sg_comparison *c)
{
    const int count = sg_collage_columns(c->collage.frames);
    json_t   *columns = json_array();
    for (int i = 0; i < count; i++)
        sg_json_append(&columns, json_integer(sg_collage_frame(i, count, c->collage.frames)));
    return json_pack("{s:s, s:i, s:i, s:i, s:o}", "file", c->sheet->name, "width", c->sheet->clip.width, "height",
                     c->sheet->clip.height, "picture_height", sg_collage_sheet_picture(&c->collage), "columns",
                     columns);
}

static json_t *pictures_json(const sg_comparison *c)
{
    json_t *j = json_object();
    for (int i = 0; i < SG_IMAGES; i++)
        if (c->picture[i]) sg_json_set(&j, sg_picture_keys[i], json_string(c->picture[i]->name));
    return j;
}

sg_status sg_report_arms(json_t **out, const sg_comparison *c, sg_error *e)
{
    const sg_report *const w = &c->run.warm_up;
    const int64_t *const   d = c->plan.latent;
    json_t *const          own =
        json_pack("{s:o, s:O, s:i, s:s, s:I, s:[I, I, I, I], s:i, s:i, s:{s:f, s:f, s:f, s:f}, s:o, s:o, "
                  "s:o, s:i, s:O, s:o}",
                  "again", sg_settings_command(c->settings, SG_COMMAND_COMPARE, "again"), "settings", c->settings,
                  "repeat", c->run.arm->times.rounds, "measured", "before compression", "tokens",
                  (json_int_t)c->plan.tokens, "latent", (json_int_t)d[0], (json_int_t)d[1], (json_int_t)d[2],
                  (json_int_t)d[3], "prompt_tokens", w->prompt_tokens, "negative_tokens", w->negative_tokens,
                  "shared_seconds", "load", w->seconds[SG_STAGE_LOAD], "text", w->seconds[SG_STAGE_TEXT], "encode",
                  w->seconds[SG_STAGE_ENCODE], "warm_up", w->seconds[SG_STAGE_DENOISE] + w->seconds[SG_STAGE_DECODE],
                  "side", side_json(c), "sheet", c->sheet ? sheet_json(c) : json_null(), "pictures", pictures_json(c),
                  "gain", SG_COLLAGE_GAIN, "same_kernel", c->same, "arms", arms_json(c));
    *out = sg_report_envelope(SG_COMMAND_COMPARE, own);
    return *out ? SG_OK : sg_error_memory(e, "report.json");
}

/* ---- for people ---- */

/* A name's columns on a terminal: characters, not bytes. */
static int columns_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += !sg_utf8_continues(*text);
    return n;
}

static void print_number(int width, int digits, double v)
{
    if (isnan(v))
        printf(" %*s", width, "-");
    else
        printf(" %*.*f", width, digits, v);
}

static void print_speed(int width, const sg_interval *v)
{
    char text[64] = "-";
    if (!isnan(v->mean)) sg_speedup_text(text, sizeof text, v);
    printf("  %*s", -width, text);
}

static void print_name(const sg_arm_result *r, int widest)
{
    printf("%s%*s", r->arm->name, widest - columns_of(r->arm->name), "");
}

/* What the seconds are of. */
static void print_measure(const sg_comparison *c)
{
    const int rounds = c->run.arm->times.rounds;
    if (rounds > 1)
        printf("seconds are of %d renders of each arm, in turn\n", rounds);
    else
        printf("seconds are of one render of each arm; --repeat 3 narrows the intervals\n");
}

/* Which arms have no speed-up, and why. */
static void print_doubt(const sg_comparison *c)
{
    const char *const first = c->run.arm[0].arm->name;
    const int         rounds = c->run.arm->times.rounds;
    printf("speed-ups are to %s, with intervals that hold 95 %%%s\n", first, c->run.arms.count > 2 ? " together" : "");
    for (int k = 1; k < c->run.arms.count; k++) {
        const sg_arm_result *const r = &c->run.arm[k];
        const sg_interval *const   v = &r->speed.total;
        if (!isnan(v->mean)) continue;
        printf("%s is not distinguishable in time from %s", r->arm->name, first);
        if (r->speed.shared_steps == r->steps)
            printf(": they ran the same kernels\n");
        else if (isnan(v->low))
            printf(": too little was timed; --repeat %d measures more\n", rounds + 1);
        else
            printf(" (%.2f to %.2f); --repeat %d narrows the interval\n", v->low, v->high, 3 * rounds);
    }
}

void sg_report_arms_table(const sg_comparison *c)
{
    int widest = 3;
    for (int i = 0; i < c->run.arms.count; i++) {
        char      text[SG_RESULT_TEXT];
        const int n = columns_of(c->run.arm[i].arm->name);
        if (n > widest) widest = n;
        if (i) printf("%s\n", result_text(text, c, &c->run.arm[i]));
    }
    printf("\n%-*s density  seconds  %-21s  %-21s  %s\n", widest, "arm", "speed-up", "denoising", "attention");
    for (int i = 0; i < c->run.arms.count; i++) {
        const sg_arm_result *const r = &c->run.arm[i];
        print_name(r, widest);
        print_number(7, 3, sg_arm_density(r, -1, -1));
        print_number(8, r->speed.seconds < 1 ? 3 : 2, r->speed.seconds);
        print_speed(21, &r->speed.total);
        print_speed(21, &r->speed.denoise);
        print_speed(0, &r->speed.attention);
        printf("\n");
    }
    print_measure(c);
    print_doubt(c);
    const bool image = c->run.shared.request.frames == 1;
    printf("%-*s %9s%s %9s  to %s%s\n", widest, "arm", image ? "PSNR" : "PSNR mean", image ? "" : "    minimum", "SSIM",
           c->run.arm[0].arm->name, image ? "" : ", before compression");
    for (int i = 1; i < c->run.arms.count; i++) {
        const sg_clip_scores *const s = &c->run.arm[i].scores;
        const sg_clip_totals *const t = &c->run.arm[i].total;
        print_name(&c->run.arm[i], widest);
        print_number(9, 2, t->psnr.mean);
        if (!image) print_number(10, 2, t->psnr.minimum);
        print_number(9, 4, t->ssim.mean);
        if (image && s->identical) printf("  identical");
        if (!image && s->identical)
            printf("  %d of %d frame%s identical%s", s->identical, s->count, sg_plural(s->count),
                   s->identical < s->count ? ", left out of PSNR's mean" : "");
        printf("\n");
    }
}
