/* report_arms.c - see report_arms.h. */
#include "report_arms.h"
#include "collage.h"

#include <math.h>
#include <stdio.h>
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

/* The same kernel everywhere, and none that leaves something out. */
static bool same_kernels(const sg_arm_result *a, const sg_arm_result *b)
{
    const size_t count = (size_t)a->steps * (size_t)a->passes * (size_t)a->layers;
    const bool   values = a->policy.pv_dtype == b->policy.pv_dtype;
    for (size_t i = 0; i < count; i++)
        if (a->count[i].kind != b->count[i].kind || a->count[i].kind == SG_ATTENTION_SPARGE ||
            (a->count[i].kind == SG_ATTENTION_SAGE && !values))
            return false;
    return true;
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
            /* The one that was asked for more tells why it came to nothing. */
            const sg_arm_result *const told = y->policy.kind >= x->policy.kind ? y : x;
            if (kernels)
                sg_attention_outlook_text(same->why, sizeof same->why, &told->policy, &told->outlook, c->plan->tokens);
            else
                snprintf(same->why, sizeof same->why, "their latents are equal, bit for bit");
            c->same_count++;
        }
}

/* ---- for machines ---- */

static json_t *numbers(const double *v, int count)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; whole && i < count; i++) whole = json_array_append_new(a, sg_report_number(v[i])) == 0;
    return sg_report_whole(a, whole);
}

static json_t *scored(const sg_summary *s, const double *v, int count)
{
    return json_pack("{s:o, s:o, s:o, s:i, s:o}", "mean", sg_report_number(s->mean), "minimum",
                     sg_report_number(s->minimum), "percentile_5", sg_report_number(s->percentile_5), "worst", s->worst,
                     "frames", numbers(v, count));
}

static json_t *seconds(const sg_arm_result *r)
{
    const double *const s = r->report.seconds;
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "load", s[SG_STAGE_LOAD], "text", s[SG_STAGE_TEXT],
                     "denoise", s[SG_STAGE_DENOISE], "decode", s[SG_STAGE_DECODE], "total", r->report.total_seconds,
                     "attention", sg_report_number(r->attention_seconds), "steps", numbers(r->step_seconds, r->steps));
}

static json_t *speedup(const sg_arm_result *first, const sg_arm_result *r)
{
    const double *const a = first->report.seconds, *const b = r->report.seconds;
    return json_pack("{s:o, s:o, s:o}", "total",
                     sg_report_number(first->report.total_seconds / r->report.total_seconds), "denoise",
                     sg_report_number(a[SG_STAGE_DENOISE] / b[SG_STAGE_DENOISE]), "attention",
                     sg_report_number(first->attention_seconds / r->attention_seconds));
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
    return sg_report_whole(steps, whole);
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
    json_t *j =
        json_pack("{s:s, s:s, s:O, s:o, s:o, s:o, s:o, s:o, s:O, s:I}", "name", r->arm->name, "file", r->file,
                  "settings", r->settings, "seconds", seconds(r), "speedup", speedup(&c->result[0], r), "density",
                  sg_report_number(sg_arm_density(r, -1, -1)), "kept", by_layer(r, sg_arm_density), "attention_error",
                  attention_error(r), "attention", r->attention, "peak_bytes", (json_int_t)r->report.peak_bytes);
    return sg_report_whole(j, j && add_scores(j, r, r == c->result));
}

static json_t *arms_json(const sg_comparison *c)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; whole && i < c->count; i++) whole = json_array_append_new(a, arm_json(c, &c->result[i])) == 0;
    return sg_report_whole(a, whole);
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
    return sg_report_whole(a, whole);
}

static json_t *columns_json(int frames)
{
    json_t *const a = json_array();
    bool          whole = a;
    int           column[SG_COLLAGE_COLUMNS];
    const int     count = sg_collage_columns(column, frames);
    for (int i = 0; whole && i < count; i++) whole = json_array_append_new(a, json_integer(column[i])) == 0;
    return sg_report_whole(a, whole);
}

sg_status sg_report_arms(json_t **out, const sg_comparison *c, sg_error *e)
{
    const sg_report *const w = &c->warm_up;
    const int64_t *const   d = c->plan->latent;
    *out = json_pack("{s:s, s:i, s:O, s:I, s:[I, I, I, I], s:i, s:i, s:{s:f, s:f, s:f}, s:{s:s, s:i, s:i}, "
                     "s:{s:s, s:i, s:i, s:o}, s:i, s:o, s:o}",
                     "format", "sparge-gen compare", "version", 1, "settings", c->settings, "tokens",
                     (json_int_t)c->plan->tokens, "latent", (json_int_t)d[0], (json_int_t)d[1], (json_int_t)d[2],
                     (json_int_t)d[3], "prompt_tokens", w->prompt_tokens, "negative_tokens", w->negative_tokens,
                     "shared_seconds", "load", w->seconds[SG_STAGE_LOAD], "text", w->seconds[SG_STAGE_TEXT], "warm_up",
                     w->seconds[SG_STAGE_DENOISE] + w->seconds[SG_STAGE_DECODE], "side", "file", c->side, "width",
                     c->side_size[0], "height", c->side_size[1], "sheet", "file", c->sheet, "width", c->sheet_size[0],
                     "height", c->sheet_size[1], "columns", columns_json(c->request->frames), "gain", SG_COLLAGE_GAIN,
                     "same_kernel", same_json(c), "arms", arms_json(c));
    return *out ? SG_OK : sg_error_set(e, SG_E_MEMORY, "report.json: out of memory");
}

static bool set_text(json_t *j, const char *key, const char *text)
{
    return !text || json_object_set_new(j, key, sg_report_name(text)) == 0;
}

static bool set_number(json_t *j, const char *key, double v)
{
    return isnan(v) || json_object_set_new(j, key, json_real(v)) == 0;
}

sg_status sg_report_add_arms(json_t *settings, const char *list, const sg_settings *s, sg_error *e)
{
    json_t *const j = settings;
    const bool ok = set_text(j, "arms", list) && set_text(j, "preset", s->preset) && set_number(j, "topk", s->topk) &&
                    set_number(j, "tau", s->tau) && set_number(j, "sim", s->sim) && set_number(j, "pv", s->pv) &&
                    (!s->sink || json_object_set_new(j, "sink", json_integer(s->sink)) == 0) &&
                    set_text(j, "score", s->score) && set_text(j, "tail", s->tail) &&
                    set_text(j, "tail_bias", s->tail_bias) && set_text(j, "pv_dtype", s->pv_dtype) &&
                    set_text(j, "budget", s->budget) && set_text(j, "order", s->order) &&
                    set_number(j, "dense_steps", s->dense_steps) && set_text(j, "dense_layers", s->dense_layers) &&
                    set_text(j, "sparse_config", s->sparse_config) && set_text(j, "block_mask", s->block_mask);
    return ok ? SG_OK : sg_error_set(e, SG_E_MEMORY, "settings: cannot be put into JSON");
}

/* ---- for people ---- */

/* A name's columns on a terminal: characters, not bytes. */
static int columns_of(const char *text)
{
    int n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

static void print_number(int width, int digits, double v, const char *unit)
{
    if (isnan(v))
        printf(" %*s", width, "-");
    else
        printf(" %*.*f%s", width - (int)strlen(unit), digits, v, unit);
}

void sg_report_arms_table(const sg_comparison *c)
{
    const sg_arm_result *const first = &c->result[0];
    int                        widest = 3;
    for (int i = 0; i < c->count; i++) {
        const int n = columns_of(c->result[i].arm->name);
        if (n > widest) widest = n;
    }
    printf("%-*s density  seconds   speed-up  denoising  attention  PSNR mean    minimum      SSIM\n", widest, "arm");
    for (int i = 0; i < c->count; i++) {
        const sg_arm_result *const  r = &c->result[i];
        const sg_clip_totals *const t = &r->scores.total;
        printf("%s%*s", r->arm->name, widest - columns_of(r->arm->name), "");
        print_number(7, 3, sg_arm_density(r, -1, -1), "");
        print_number(8, 2, r->report.total_seconds, "");
        print_number(10, 2, first->report.total_seconds / r->report.total_seconds, "x");
        print_number(10, 2, first->report.seconds[SG_STAGE_DENOISE] / r->report.seconds[SG_STAGE_DENOISE], "x");
        print_number(10, 2, first->attention_seconds / r->attention_seconds, "x");
        print_number(10, 2, i ? t->psnr.mean : NAN, "");
        print_number(10, 2, i ? t->psnr.minimum : NAN, "");
        print_number(9, 4, i ? t->ssim.mean : NAN, "");
        printf("\n");
    }
}
