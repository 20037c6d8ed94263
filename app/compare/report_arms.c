/* report_arms.c - see report_arms.h. */
#include "report_arms.h"
#include "base/text.h"
#include "base/utf8.h"
#include "collage.h"
#include "report_result.h"
#include "report_settings.h"
#include "settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is said of arms ---- */

double sg_arm_density(const sg_arm_result *r, int step, int layer)
{
    int64_t   kept = 0, blocks = 0;
    const int first = step < 0 ? 0 : step, last = step < 0 ? r->steps - 1 : step;
    for (int i = first; i <= last; i++)
        for (int p = 0; p < r->passes; p++)
            for (int l = 0; l < r->layers; l++) {
                const sg_attention_count *const c =
                    &r->count[((size_t)i * (size_t)r->passes + (size_t)p) * (size_t)r->layers + (size_t)l];
                if (layer >= 0 && l != layer) continue;
                blocks += c->blocks;
                kept += c->kept;
            }
    return blocks ? (double)kept / (double)blocks : NAN;
}

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

void sg_arms_find_speed(sg_comparison *c)
{
    const sg_arm_times *times[SG_ARMS_MAX];
    for (int k = 0; k < c->count; k++) {
        sg_arm_result *const r = &c->result[k];
        for (int i = 0; i < r->steps; i++) r->times.shared[i] = k == 0 || same_step(c->result, r, i);
        times[k] = &r->times;
    }
    for (int k = 0; k < c->count; k++) c->result[k].speed = sg_arm_speed_of(times, c->count, k);
}

void sg_arms_find_same(sg_comparison *c)
{
    const int64_t *const d = c->plan->latent;
    const size_t         bytes = (size_t)(d[0] * d[1] * d[2] * d[3]) * sizeof(float);
    c->same_count = 0;
    for (int b = 1; b < c->count; b++)
        for (int a = 0; a < b; a++) {
            const sg_arm_result *const x = &c->result[a], *const y = &c->result[b];
            sg_same_kernel *const same = &c->same[c->same_count];
            const bool            kernels = same_kernels(x, y);
            if (!kernels && memcmp(x->latents, y->latents, bytes) != 0) continue;
            *same = (sg_same_kernel){.a = a, .b = b};
            /* The arm that asked for more says why it had no effect. */
            const sg_arm_result *const more = y->now.request.attention.kind >= x->now.request.attention.kind ? y : x;
            if (kernels)
                sg_attention_forecast_text(same->why, sizeof same->why, &more->now.request.attention,
                                           &more->now.forecast, c->plan->tokens);
            else
                snprintf(same->why, sizeof same->why, "their latents are equal, bit for bit");
            c->same_count++;
        }
}

/* r is not the first arm. */
static const char *result_text(char *text, const sg_comparison *c, const sg_arm_result *r)
{
    const sg_clip_scores *const s = &r->scores.frames;
    const sg_result             of = {.arm = r->arm->name,
                                      .first = c->result[0].arm->name,
                                      .part = "attention",
                                      .part_speed = r->speed.attention,
                                      .clip_speed = r->speed.total,
                                      .psnr = s->identical == s->count ? INFINITY : r->scores.total.psnr.mean,
                                      .identical = s->identical,
                                      .what = "frame",
                                      .images = c->request->frames == 1};
    return sg_result_text(text, &of);
}

/* ---- for machines ---- */

static json_t *numbers(const double *v, int count)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; whole && i < count; i++) whole = json_array_append_new(a, sg_report_number(v[i])) == 0;
    return sg_report_if_complete(a, whole);
}

static json_t *scored(const sg_summary *s, const double *v, int count)
{
    return json_pack("{s:o, s:o, s:o, s:i, s:o}", "mean", sg_report_number(s->mean), "minimum",
                     sg_report_number(s->minimum), "p5", sg_report_number(s->p5), "worst", s->worst, "frames",
                     numbers(v, count));
}

static json_t *rounds_json(const sg_arm_times *t)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int n = 0; whole && n < t->rounds; n++)
        whole = json_array_append_new(a, json_pack("{s:f, s:o, s:o}", "total", t->total[n], "steps",
                                                   numbers(t->step + (size_t)n * (size_t)t->steps, t->steps), "decode",
                                                   numbers(t->decode + (size_t)n * (size_t)t->chunks, t->chunks))) == 0;
    return sg_report_if_complete(a, whole);
}

static json_t *steps_json(const sg_arm_times *t)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; whole && i < t->steps; i++)
        whole = json_array_append_new(a, json_real(sg_arm_times_step(t, i))) == 0;
    return sg_report_if_complete(a, whole);
}

static json_t *seconds(const sg_arm_result *r)
{
    const double *const       s = r->report.seconds;
    const sg_arm_times *const t = &r->times;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "load", s[SG_STAGE_LOAD], "text", s[SG_STAGE_TEXT],
                     "denoise", sg_arm_times_step(t, -1), "decode", sg_arm_times_decode(t), "total",
                     sg_arm_times_total(t), "attention", sg_report_number(sg_arm_times_attention(t)), "steps",
                     steps_json(t), "rounds", rounds_json(t));
}

static json_t *interval(const sg_interval *v)
{
    return json_pack("{s:o, s:o, s:o}", "mean", sg_report_number(v->mean), "low", sg_report_number(v->low), "high",
                     sg_report_number(v->high));
}

static json_t *speedup(const sg_arm_result *r)
{
    const sg_arm_speed *const s = &r->speed;
    json_t *const             steps = json_array();
    bool                      whole = steps;
    for (int i = 0; whole && i < r->steps; i++)
        if (r->times.shared[i]) whole = json_array_append_new(steps, json_integer(i)) == 0;
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "total", interval(&s->total), "denoise", interval(&s->denoise),
                     "attention", interval(&s->attention), "shared_steps", sg_report_if_complete(steps, whole), "noise",
                     sg_report_number(s->noise));
}

/* [[of layer 0, 1, ...] of step 0, 1, ...] */
static json_t *by_layer(const sg_arm_result *r, double (*of)(const sg_arm_result *, int step, int layer))
{
    json_t *const steps = json_array();
    bool          whole = steps;
    for (int i = 0; whole && i < r->steps; i++) {
        json_t *const layers = json_array();
        whole = layers != NULL;
        for (int l = 0; whole && l < r->layers; l++)
            whole = json_array_append_new(layers, sg_report_number(of(r, i, l))) == 0;
        whole = json_array_append_new(steps, layers) == 0 && whole;
    }
    return sg_report_if_complete(steps, whole);
}

/* What ran and was not looked at was dense. */
static double error_of(const sg_arm_result *r, int step, int layer)
{
    const double v = sg_attention_error_of(&r->error, step, layer);
    return isnan(v) && !isnan(sg_arm_density(r, step, layer)) ? 0 : v;
}

static json_t *attention_error(const sg_arm_result *r)
{
    if (!r->error.sum) return json_null();
    return json_pack("{s:o, s:o, s:f}", "relative_l1", sg_report_number(sg_attention_error_of(&r->error, -1, -1)),
                     "layers", by_layer(r, error_of), "seconds", r->error.seconds);
}

/* What compares an arm with the first, and what its clip shows by itself. */
static bool add_scores(json_t *j, const sg_arm_result *r, bool first)
{
    const sg_clip_scores *const  s = &r->scores.frames;
    const sg_clip_totals *const  t = &r->scores.total;
    const sg_clip_figures *const own = &t->of[1];
    json_t                      *scores;
    if (first)
        scores = json_pack("{s:n, s:n, s:n, s:n, s:n, s:n}", "psnr", "ssim", "ms_ssim", "ms_ssim_scales",
                           "identical_frames", "latents");
    else
        scores =
            json_pack("{s:o, s:o, s:o, s:i, s:i, s:{s:o, s:o}}", "psnr", scored(&t->psnr, s->psnr, s->count), "ssim",
                      scored(&t->ssim, s->ssim, s->count), "ms_ssim", scored(&t->ms_ssim, s->ms_ssim, s->count),
                      "ms_ssim_scales", s->scales, "identical_frames", s->identical, "latents", "relative_l2",
                      numbers(r->scores.relative_l2, r->steps), "cosine", numbers(r->scores.cosine, r->steps));
    json_t *const figures =
        json_pack("{s:f, s:o, s:i, s:i}", "sharpness", own->sharpness, "temporal_flickering",
                  sg_report_number(own->flicker), "black_frames", own->black, "frozen_pairs", own->frozen);
    const bool whole = json_object_update_new(j, scores) == 0;
    return json_object_update_new(j, figures) == 0 && whole;
}

static json_t *arm_json(const sg_comparison *c, const sg_arm_result *r)
{
    char    text[SG_RESULT_TEXT];
    json_t *j = json_pack("{s:s, s:s?, s:s, s:O, s:o, s:o, s:o, s:o, s:o, s:O, s:o, s:I}", "name", r->arm->name,
                          "result", r == c->result ? NULL : result_text(text, c, r), "file", r->file, "settings",
                          r->settings, "seconds", seconds(r), "speedup", r == c->result ? json_null() : speedup(r),
                          "density", sg_report_number(sg_arm_density(r, -1, -1)), "kept", by_layer(r, sg_arm_density),
                          "attention_error", attention_error(r), "attention", r->attention, "skipped_steps",
                          sg_report_skipped_steps(&r->report), "peak_bytes", (json_int_t)r->report.peak_bytes);
    return sg_report_if_complete(j, j && add_scores(j, r, r == c->result));
}

static json_t *arms_json(const sg_comparison *c)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; whole && i < c->count; i++) whole = json_array_append_new(a, arm_json(c, &c->result[i])) == 0;
    return sg_report_if_complete(a, whole);
}

static json_t *same_json(const sg_comparison *c)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; whole && i < c->same_count; i++) {
        const sg_same_kernel *const s = &c->same[i];
        whole = json_array_append_new(a, json_pack("{s:s, s:s, s:s}", "a", c->result[s->a].arm->name, "b",
                                                   c->result[s->b].arm->name, "why", s->why)) == 0;
    }
    return sg_report_if_complete(a, whole);
}

static sg_collage collage_of(const sg_comparison *c)
{
    const sg_request *const r = c->request;
    return (sg_collage){.width = r->width, .height = r->height, .frames = r->frames, .arms = c->count};
}

static json_t *side_json(const sg_comparison *c)
{
    json_t *const    places = json_array();
    const sg_collage collage = collage_of(c);
    bool             whole = places;
    for (int k = 1; whole && k < c->count; k++) {
        int x, y;
        sg_collage_difference(&collage, k, &x, &y);
        whole = json_array_append_new(places, json_pack("[i, i]", x, y)) == 0;
    }
    return json_pack("{s:s, s:i, s:i, s:o}", "file", c->side, "width", c->side_size[0], "height", c->side_size[1],
                     "differences", sg_report_if_complete(places, whole));
}

static json_t *columns_json(int frames)
{
    json_t *const a = json_array();
    bool          whole = a;
    int           column[SG_COLLAGE_COLUMNS];
    const int     count = sg_collage_columns(column, frames);
    for (int i = 0; whole && i < count; i++) whole = json_array_append_new(a, json_integer(column[i])) == 0;
    return sg_report_if_complete(a, whole);
}

static json_t *sheet_json(const sg_comparison *c)
{
    if (!c->sheet) return json_null();
    const sg_collage collage = collage_of(c);
    return json_pack("{s:s, s:i, s:i, s:i, s:o}", "file", c->sheet, "width", c->sheet_size[0], "height",
                     c->sheet_size[1], "picture_height", sg_collage_sheet_picture(&collage), "columns",
                     columns_json(c->request->frames));
}

sg_status sg_report_arms(json_t **out, const sg_comparison *c, sg_error *e)
{
    const sg_report *const w = &c->warm_up;
    const int64_t *const   d = c->plan->latent;
    *out = json_pack(
        "{s:s, s:i, s:o, s:O, s:i, s:s, s:I, s:[I, I, I, I], s:i, s:i, s:{s:f, s:f, s:f, s:f}, s:o, s:o, "
        "s:{s:s*, s:s*}, s:i, s:o, s:o}",
        "format", "sparge-gen compare", "version", 3, "command",
        sg_settings_command(c->settings, SG_COMMAND_COMPARE, "again"), "settings", c->settings, "repeat", c->rounds,
        "measured", "before compression", "tokens", (json_int_t)c->plan->tokens, "latent", (json_int_t)d[0],
        (json_int_t)d[1], (json_int_t)d[2], (json_int_t)d[3], "prompt_tokens", w->prompt_tokens, "negative_tokens",
        w->negative_tokens, "shared_seconds", "load", w->seconds[SG_STAGE_LOAD], "text", w->seconds[SG_STAGE_TEXT],
        "encode", w->seconds[SG_STAGE_ENCODE], "warm_up", w->seconds[SG_STAGE_DENOISE] + w->seconds[SG_STAGE_DECODE],
        "side", side_json(c), "sheet", sheet_json(c), "pictures", sg_picture_keys[0], c->picture[0], sg_picture_keys[1],
        c->picture[1], "gain", SG_COLLAGE_GAIN, "same_kernel", same_json(c), "arms", arms_json(c));
    return *out ? SG_OK : sg_error_set(e, SG_E_MEMORY, "report.json: out of memory");
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

static void print_speed(int width, const sg_interval *v, bool first)
{
    char text[64] = "-";
    if (!first && !isnan(v->mean)) sg_speedup_text(text, sizeof text, v);
    printf("  %*s", -width, text);
}

static void print_name(const sg_arm_result *r, int widest)
{
    printf("%s%*s", r->arm->name, widest - columns_of(r->arm->name), "");
}

/* Which arms have no speed-up, and why. */
static void print_doubt(const sg_comparison *c)
{
    const char *const first = c->result[0].arm->name;
    printf("speed-ups are to %s, with intervals that hold 95 %%\n", first);
    for (int k = 1; k < c->count; k++) {
        const sg_arm_result *const r = &c->result[k];
        const sg_interval *const   v = &r->speed.total;
        if (!isnan(v->mean)) continue;
        printf("%s is not distinguishable in time from %s", r->arm->name, first);
        if (r->speed.shared_steps == r->steps)
            printf(": they ran the same kernels\n");
        else if (isnan(v->low))
            printf(": too little was timed; --repeat %d measures more\n", c->rounds + 1);
        else
            printf(" (%.2f to %.2f); --repeat %d narrows the interval\n", v->low, v->high, 3 * c->rounds);
    }
}

void sg_report_arms_table(const sg_comparison *c)
{
    int widest = 3;
    for (int i = 0; i < c->count; i++) {
        const int n = columns_of(c->result[i].arm->name);
        if (n > widest) widest = n;
    }
    for (int k = 1; k < c->count; k++) {
        char text[SG_RESULT_TEXT];
        printf("%s\n", result_text(text, c, &c->result[k]));
    }
    printf("\n%-*s density  seconds  %-21s  %-21s  %s\n", widest, "arm", "speed-up", "denoising", "attention");
    for (int i = 0; i < c->count; i++) {
        const sg_arm_result *const r = &c->result[i];
        print_name(r, widest);
        print_number(7, 3, sg_arm_density(r, -1, -1));
        print_number(8, 2, sg_arm_times_total(&r->times));
        print_speed(21, &r->speed.total, i == 0);
        print_speed(21, &r->speed.denoise, i == 0);
        print_speed(0, &r->speed.attention, i == 0);
        printf("\n");
    }
    print_doubt(c);
    const bool image = c->request->frames == 1;
    printf("%-*s %9s%s %9s  to %s%s\n", widest, "arm", image ? "PSNR" : "PSNR mean", image ? "" : "    minimum", "SSIM",
           c->result[0].arm->name, image ? "" : ", before compression");
    for (int i = 1; i < c->count; i++) {
        const sg_clip_scores *const s = &c->result[i].scores.frames;
        const sg_clip_totals *const t = &c->result[i].scores.total;
        print_name(&c->result[i], widest);
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
