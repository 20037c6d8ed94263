/* notices.c - see notices.h. */
#include "notices.h"
#include "base/output_file.h"
#include "base/text.h"
#include "environment.h"

#include <stdio.h>
#include <string.h>

const char *sg_weights_text(const sg_model_info *info)
{
    static const char *const text[] = {[SG_WEIGHTS_AUTO] = "",
                                       [SG_WEIGHTS_FILE] = ", quantised weights as in the file",
                                       [SG_WEIGHTS_BF16] = ", quantised weights widened"};
    return text[info->weights_as];
}

/* Of all LoRAs in a word. */
static const char *loras_text(const sg_model_info *info)
{
    for (int i = 0; i < info->loras; i++)
        if (info->lora[i]->beside) return ", LoRA beside them";
    return info->loras ? ", LoRA merged" : "";
}

void sg_notice_device(sg_session *x)
{
    const char *const passed = sg_environment_passed(x->info.passed);
    sg_progress_say(&x->progress, "%s in %s on %s%s%s", x->model.name, x->info.dtype, x->info.device,
                    sg_weights_text(&x->info), loras_text(&x->info));
    if (*passed) sg_progress_warn(&x->progress, "%s", passed);
}

void sg_notice_start(sg_session *x, const sg_request *r, int64_t tokens)
{
    char                     all[32] = "", of[32] = "";
    const int                done = sg_request_steps(r), batch = x->asked->batch;
    const unsigned long long seed = r->seed, last = (r->seed + (uint64_t)batch - 1) & INT64_MAX;
    if (done < r->steps) snprintf(of, sizeof of, " of %d", r->steps);
    if (tokens) snprintf(all, sizeof all, ", %lld token%s", (long long)tokens, sg_plural(tokens));
    sg_notice_device(x);
    sg_progress_say(&x->progress, "%s, %d%s step%s, guidance %s, seed %llu%s", sg_clip_text((char[SG_CLIP_TEXT]){0}, r),
                    done, of, sg_plural(r->steps), sg_guidance_text((char[SG_GUIDANCE_TEXT]){0}, r), seed, all);
    if (x->progress.quiet && x->asked->seed < 0)
        fprintf(stderr, batch > 1 ? "sparge-gen: seeds %llu to %llu\n" : "sparge-gen: seed %llu\n", seed, last);
}

void sg_notice_plan(sg_session *x, const sg_plan *plan)
{
    for (int i = 0; i < plan->phases; i++)
        if (plan->phase[i].host)
            sg_progress_say(&x->progress,
                            "offload: %.2f GiB of the %s, %lld block%s, stay on the host and are copied when they are "
                            "needed",
                            (double)plan->phase[i].host * 0x1p-30, sg_offloaded_part(&plan->phase[i]),
                            (long long)plan->phase[i].blocks_on_host, sg_plural(plan->phase[i].blocks_on_host));
    if (plan->rows_at_once)
        sg_progress_say(&x->progress,
                        "denoising: tokens in pieces, since all at once would not fit; the frames are the same");
    if (plan->untiled)
        sg_progress_warn(&x->progress,
                         "the VAE works in tiles, because whole frames would take %.2f GiB: the frames will differ a "
                         "little (--vae-tiling)",
                         (double)plan->untiled * 0x1p-30);
}

void sg_notice_size(sg_session *x, const sg_settings *s)
{
    sg_progress *const       p = &x->progress;
    const sg_settings *const asked = x->asked;
    static const char        end[] = "the nearest that the model can render";
    const bool               wide = asked->size[0] && asked->size[0] != s->size[0];
    const bool               high = asked->size[1] && asked->size[1] != s->size[1];
    if (wide && !asked->size[1])
        sg_progress_warn(p, "--width %d: %d, %s", asked->size[0], s->size[0], end);
    else if (high && !asked->size[0])
        sg_progress_warn(p, "--height %d: %d, %s", asked->size[1], s->size[1], end);
    else if (wide || high)
        sg_progress_warn(p, "--size %dx%d: %dx%d, %s", asked->size[0], asked->size[1], s->size[0], s->size[1], end);
    if (asked->frames && s->frames && asked->frames != s->frames)
        sg_progress_warn(p, "--frames %d: %d, %s", asked->frames, s->frames, end);
}

/* One line with the first of the keys; `info` has all of them. */
static void say_unused(sg_session *x, int i, const sg_lora_info *l)
{
    sg_textbuf  list = {0};
    size_t      at = 0;
    const char *key;
    for (int k = 0; k < 3 && (key = sg_engine_lora_unused(x->engine, i, &at)) != NULL; k++)
        sg_textbuf_printf(&list, "%s%s", k ? ", " : "", sg_show(key));
    if (l->unused > 3) sg_textbuf_printf(&list, " and %d more", l->unused - 3);
    if (l->text) sg_textbuf_printf(&list, "; %d are a text encoder's, which stays as it is", l->text);
    sg_progress_warn(&x->progress, "--lora %s: %d of %d tensors fit nothing in this model: %s", l->name, l->unused,
                     l->keys, list.failed ? "" : list.data);
    sg_textbuf_free(&list);
}

static void say_loras(sg_session *x, const sg_request *r)
{
    enum { MOST_STEPS = 8 };
    for (int i = 0; i < x->info.loras; i++) {
        const sg_lora_info *const l = x->info.lora[i];
        if (l->unused) say_unused(x, i, l);
        if (l->few_steps && (r->steps > MOST_STEPS || r->cfg_scale > 1))
            sg_progress_warn(
                &x->progress,
                "--lora %s: by its name it needs %d steps or fewer at guidance 1, but this render has %d at %g",
                l->name, MOST_STEPS, r->steps, r->cfg_scale);
    }
}

void sg_notice_request(sg_session *x, const sg_rendering *r)
{
    sg_notice_size(x, &r->settings);
    say_loras(x, &r->request);
    sg_request usual = {.size = sizeof usual};
    sg_engine_defaults(x->engine, &usual);
    const double own = usual.cfg_scale;
    if (x->asked->fast && r->request.cfg_scale != own)
        sg_progress_warn(&x->progress,
                         "--cfg-scale %g with --fast: its steps were trained at %g, and any other spoils the clip",
                         r->request.cfg_scale, own);
    const bool second = x->info.experts > 1 && r->request.cfg_scale_2 > 1;
    if (x->asked->negative_prompt && !(r->request.cfg_scale > 1) && !second)
        sg_progress_warn(&x->progress,
                         "--negative-prompt is ignored: it is read only with --cfg-scale above 1, and this is %g",
                         r->request.cfg_scale);
}

/* Who has never seen the words that follow. */
static const char *who(const sg_session *x) { return x->info.world ? x->info.world : x->model.name; }

void sg_notice_prompt(sg_session *x, const char *prompt)
{
    char list[512];
    if (!prompt) return;
    if (!prompt[strspn(prompt, " \t\v\f\r\n")])
        sg_progress_warn(&x->progress, "--prompt is empty: nothing tells the model what to draw");
    if (sg_engine_unknown_words(x->engine, prompt, list, sizeof list))
        sg_progress_warn(&x->progress, "%s%s has never seen %s", who(x), x->info.world ? "; it" : "", list);
}

void sg_notice_prompts(sg_session *x, const sg_prompt_set *set)
{
    const sg_settings *const s = x->asked;
    char                     list[512], first[512] = "";
    int                      count = 0;
    if (set->comments)
        sg_progress_warn(&x->progress, "%s: %d line%s with # at the beginning skipped as comment%s",
                         s->prompts ? s->prompts : s->prompt_file, set->comments, sg_plural(set->comments),
                         sg_plural(set->comments));
    if (set->count == 1) {
        sg_notice_prompt(x, set->prompt[0].text);
        return;
    }
    for (int i = 0; i < set->count; i++) {
        if (!sg_engine_unknown_words(x->engine, set->prompt[i].text, list, sizeof list)) continue;
        if (count++ == 0) memcpy(first, list, sizeof first);
    }
    if (!count) return;
    sg_progress_warn(&x->progress, "%s; %d of %d prompt%s %s words that it has never seen, first %s", who(x), count,
                     set->count, sg_plural(set->count), count == 1 ? "has" : "have", first);
}

void sg_notice_cut(sg_session *x, const sg_plan *plan, const char *which)
{
    static const char *const name[] = {"--prompt", "--negative-prompt"};
    for (int i = 0; i < 2; i++)
        if (plan->cut[i])
            sg_progress_warn(&x->progress, "%s: the text encoder reads %d token%s; the last %d %s cut off",
                             which && i == 0 ? which : name[i], plan->text_tokens[i], sg_plural(plan->text_tokens[i]),
                             plan->cut[i], plan->cut[i] == 1 ? "is" : "are");
}

/* ---- thresholds ---- */

static const char *differs(const sg_policy *p, const sg_plan *plan)
{
    if (p->score != plan->thresholds.score) return "score";
    if (p->tail != plan->thresholds.tail) return "tail";
    if (p->tail && p->tail_bias != plan->thresholds.tail_bias) return "tail-bias";
    return p->order != plan->thresholds.order ? "order" : NULL;
}

/* "another checkpoint (its hash; this is HASH)", or "" if thresholds for `model` are for this one or do not say. */
static const char *another(char text[80], const char *model, const sg_engine *engine)
{
    char hash[17];
    *text = '\0';
    if (*model) sg_engine_denoiser_hash(engine, hash);
    if (*model && strcmp(hash, model) != 0) snprintf(text, 80, "another checkpoint (%s; this is %s)", model, hash);
    return text;
}

const char *sg_doubt_thresholds(char text[SG_FORECAST_TEXT], const sg_rendering *r, const sg_engine *engine)
{
    char                   of[80];
    const sg_policy *const p = &r->request.attention;
    *text = '\0';
    if (p->thresholds) {
        const char *const other = r->plan.thresholds.has_policy ? differs(p, &r->plan) : NULL;
        if (r->plan.thresholds.spargeattn)
            snprintf(
                text, SG_FORECAST_TEXT,
                "the thresholds are SpargeAttn's own, found with --preset paper --order row; in blocks of %d queries "
                "and %d keys, as here, or on Hopper of %d and %d",
                SG_BLOCK_Q, SG_BLOCK_K, SG_BLOCK_K, SG_BLOCK_Q);
        else if (*another(of, r->plan.thresholds.model, engine))
            snprintf(text, SG_FORECAST_TEXT, "the thresholds were tuned for %s", of);
        else if (other)
            snprintf(text, SG_FORECAST_TEXT, "the thresholds were tuned with another --%s", other);
    }
    return text;
}

void sg_notice_cache(sg_session *x, const sg_request *r, const char *arm)
{
    char         of[80];
    const double threshold = sg_request_cache_threshold(r);
    if (!(threshold > 0)) return;
    const bool doubt = *another(of, x->info.thresholds_model, x->engine);
    (doubt ? sg_progress_warn : sg_progress_say)(
        &x->progress, "%s%scache: threshold %.4g, as " SG_THRESHOLDS_NAME " beside the model has it%s%s",
        arm ? arm : "", arm ? ": " : "", threshold, doubt ? "; it was tuned for " : "", doubt ? of : "");
}

void sg_notice_attention(sg_session *x, const sg_rendering *r)
{
    char                   text[SG_FORECAST_TEXT];
    const sg_policy *const p = &r->request.attention;
    if (*sg_doubt_thresholds(text, r, x->engine)) sg_progress_warn(&x->progress, "attention: %s", text);
    if (p->named && p->kind != SG_ATTENTION_DENSE && r->plan.attention_steps == 0 && !x->asked->verbose)
        sg_progress_warn(&x->progress, "attention: %s", sg_attention_forecast_text(text, p, &r->plan));
    sg_notice_cache(x, &r->request, NULL);
}

void sg_notice_file(const sg_session *x, const char *path)
{
    const sg_settings *const s = x->asked;
    const bool               data = s->mark || (s->json && sg_output_is_stdout(s->json)) || sg_output_is_stdout(path);
    if (!s->quiet || data) return;
    puts(path);
    fflush(stdout);
}

void sg_notice_encoder(sg_session *x, const sg_request *r, const char *path, bool always)
{
    const char *what;
    sg_clip     clip = {.size = sizeof clip};
    sg_clip_of(&clip, r, path ? path : sg_writer_default_name(r->frames));
    const char *const encoder = sg_writer_encoder(&clip, &what);
    const bool        usual = encoder && strcmp(what, "H.264") == 0;
    if (encoder && !usual)
        sg_progress_warn(&x->progress, "MP4: %s by %s, since no encoder of H.264 opens here", what, encoder);
    else if (encoder && always)
        sg_progress_say(&x->progress, "MP4: %s by %s", what, encoder);
}
