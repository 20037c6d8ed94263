/* command_render.c - `sparge-gen --prompt`: everything that can be refused is refused before the model is opened or, at
 * the latest, before it works; then prompt after prompt becomes a clip. */
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "collage.h"
#include "command.h"
#include "interrupt.h"
#include "json_build.h"
#include "notices.h"
#include "option_rules.h"
#include "output_options.h"
#include "preview_file.h"
#include "prompt_set.h"
#include "render_names.h"
#include "report.h"
#include "report_attention.h"
#include "report_settings.h"
#include "session.h"
#include "settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLIPS_MOST = 1000000 };

typedef struct job {
    const sg_settings *settings; /* as asked */
    sg_session         session;
    sg_progress       *progress; /* the session's */
    sg_rendering       now;      /* the clip at work */
    sg_writer         *writer;
    sg_preview_file   *preview;
    sg_collage         collage; /* of --grid */
    sg_image           grid;    /* zero: there is none */
    char              *grid_settings;
    bool               decode_only;
    sg_render_names    names;
    int                clip; /* at work, from 0 */
    char              *note; /* what the latents file tells of how it was made; or NULL */
} job;

static void mark(const job *j, const char *piece)
{
    if (j->settings->mark) j->settings->mark(piece);
}

static const char *const stage_names[SG_STAGES] = {"loading", "prompt", "encoding", "denoising", "decoding"};

static void mark_stage(const job *j, int stage, int done, int total)
{
    static const char *const step[] = {"loading", "first step", "second step"}; /* ends when so many are done */
    if (stage == SG_STAGE_DENOISE)
        mark(j, done < 3 ? step[done] : "other steps");
    else if (done == total)
        mark(j, stage_names[stage]);
}

static int on_progress(void *context, int stage, int done, int total)
{
    job *j = context;
    sg_progress_update(j->progress, stage, done, total);
    mark_stage(j, stage, done, total);
    return sg_interrupt_asked();
}

static sg_status on_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    job *j = context;
    SG_TRY(sg_interrupt_check(e));
    if (j->grid.rgb) sg_collage_grid_put(&j->grid, &j->collage, j->clip, rgb);
    return sg_writer_write(j->writer, index, rgb, e);
}

/* A preview that cannot be written is no reason to give up the render: there are no more. */
static void close_preview(job *j, bool all, sg_error *why)
{
    sg_preview_file_close(&j->preview, all, why);
    if (why->code != SG_OK) sg_progress_warn(j->progress, "--preview: %s; there are no more previews", why->text);
}

static sg_status on_preview(void *context, int step, const uint8_t *rgb, const int size[3], sg_error *e)
{
    job *const       j = context;
    const sg_preview p = {step, size[0], size[1], size[2], rgb};
    sg_error         why = {0};
    (void)e;
    if (j->preview && sg_preview_file_show(j->preview, &p, &why) != SG_OK) close_preview(j, false, &why);
    return SG_OK;
}

static int batch_of(const job *j) { return j->settings->batch ? j->settings->batch : 1; }

/* ---- before the work ---- */

static sg_status check_latents(job *j, sg_error *e)
{
    static const char *const idle[] = {"lora",  "high-noise-lora", "image",      "last-image",
                                       "video", "preview",         "capture-qkv"};
    const sg_settings *const s = j->settings;
    const bool               prompted = s->prompt || s->prompt_file;
    if (!sg_text_ends(s->latents, SG_SAFETENSORS))
        return sg_error_set(e, SG_E_ARG, "--latents: %s: the name must end in " SG_SAFETENSORS, s->latents);
    j->decode_only = access(s->latents, F_OK) == 0;
    if (j->decode_only && prompted)
        return sg_error_set(e, SG_E_ARG,
                            "--latents: %s exists: leave the prompt out to decode it, or remove the file to save new "
                            "latents there",
                            s->latents);
    if (!j->decode_only && !prompted)
        return sg_error_set(e, SG_E_ARG,
                            "--latents: %s does not exist, and without a prompt there is nothing to save there",
                            s->latents);
    for (size_t i = 0; j->decode_only && i < sizeof idle / sizeof *idle; i++)
        if (sg_settings_has(s, sg_settings_option(s, idle[i])))
            return sg_error_set(e, SG_E_ARG, "--%s has no effect where --latents are only decoded", idle[i]);
    return SG_OK;
}

static sg_status check_inputs(job *j, sg_error *e)
{
    const sg_settings *s = j->settings;
    if (s->latents) SG_TRY(check_latents(j, e));
    if (!s->latents && !s->prompt && !s->prompt_file)
        return sg_error_set(e, SG_E_ARG, "a prompt is needed: sparge-gen --prompt \"a red ball\"");
    if (s->json) SG_TRY(sg_output_file_check(s->json, "--json", e));
    if (!s->preview && (s->preview_every || s->preview_decoder))
        return sg_error_set(e, SG_E_ARG, "--preview-%s has no effect: there is no --preview",
                            s->preview_every ? "every" : "decoder");
    return s->preview ? sg_preview_file_check(s->preview, e) : SG_OK;
}

static sg_status check_many(const sg_settings *s, int64_t count, sg_error *e)
{
    if (count > CLIPS_MOST)
        return sg_error_set(e, SG_E_ARG, "--batch %d: %lld clips are more than %d", s->batch, (long long)count,
                            CLIPS_MOST);
    const bool        to_stdout = s->output && sg_output_is_stdout(s->output);
    const char *const alone = s->latents ? "--latents" : to_stdout ? "-o -" : NULL;
    if (!alone || count == 1) return SG_OK;
    if (s->batch > 1) return sg_error_set(e, SG_E_ARG, "%s goes with one clip, not with --batch", alone);
    return sg_error_set(e, SG_E_ARG, "%s goes with one prompt, not with %lld", alone, (long long)count);
}

/* Decoded ones take longer than many a step. */
static sg_status take_preview(job *j, sg_error *e)
{
    enum { DECODED_EVERY = 5 };
    const sg_settings *const s = j->settings;
    sg_request *const        r = &j->now.request;
    int                      size[3];
    if (!s->preview) return SG_OK;
    r->preview_every = s->preview_every ? s->preview_every : s->preview_decoder ? DECODED_EVERY : 1;
    SG_TRY(sg_engine_preview_size(j->session.engine, r, size, e));
    return sg_preview_file_plan(s->preview, r, size, &r->preview_bytes, e);
}

/* The size is the latents' own; what else was asked for must agree with it. */
static sg_status fit_latents(job *j, sg_error *e)
{
    sg_request *const        r = &j->now.request;
    const sg_request         asked = *r;
    const sg_settings *const s = j->settings;
    SG_TRY(sg_engine_fit_latents(j->session.engine, s->latents, r, &j->note, e));
    r->latents_in = s->latents;
    if ((s->size[0] && asked.width != r->width) || (s->size[1] && asked.height != r->height) ||
        ((s->frames || s->seconds > 0) && asked.frames != r->frames))
        return sg_error_set(e, SG_E_ARG, "--latents: %s holds %dx%d with %d frame%s, which cannot be changed any more",
                            s->latents, r->width, r->height, r->frames, sg_plural(r->frames));
    return SG_OK;
}

static sg_status open_engine(job *j, sg_error *e)
{
    sg_request *const r = &j->now.request;
    SG_TRY(sg_session_open(&j->session, e));
    SG_TRY(sg_session_resolve(&j->session, &j->now, e));
    sg_notice_request(&j->session, &j->now);
    if (j->settings->capture_qkv)
        sg_options_capture(j->settings->capture_qkv, &r->capture_layer, &r->capture_step, &r->capture_out);
    if (j->decode_only) {
        SG_TRY(fit_latents(j, e));
        return sg_engine_check_request(j->session.engine, r, e);
    }
    r->latents_out = j->settings->latents;
    SG_TRY(take_preview(j, e));
    return sg_session_give(&j->session, r, e);
}

/* All images in one picture. */
static sg_status open_grid(job *j, size_t *bytes, sg_error *e)
{
    const sg_request *const r = &j->now.request;
    sg_clip                 clip = {.size = sizeof(sg_clip), .path = j->settings->grid, .frames = 1, .fps = 1};
    *bytes = 0;
    if (!clip.path) return SG_OK;
    if (r->frames > 1)
        return sg_error_set(e, SG_E_ARG, "--grid is of images, and the clips have %d frames; add --frames 1",
                            r->frames);
    j->collage = (sg_collage){.width = r->width, .height = r->height, .frames = 1, .arms = j->names.clips};
    sg_collage_grid_size(&j->collage, &clip.width, &clip.height);
    *bytes = sg_image_bytes(clip.width, clip.height) + sg_writer_bytes(&clip);
    j->grid = (sg_image){clip.width, clip.height, calloc(1, sg_image_bytes(clip.width, clip.height))};
    return j->grid.rgb ? SG_OK : sg_error_memory(e, clip.path);
}

static sg_clip clip_of(const job *j, const char *path)
{
    sg_clip clip = {.size = sizeof clip};
    sg_output_options_clip(&clip, &j->now.request, path);
    clip.crf = j->settings->crf;
    clip.has_crf = !isnan(clip.crf);
    clip.png_level = j->settings->png_level;
    clip.has_png_level = clip.png_level >= 0;
    return clip;
}

/* ---- what is said ---- */

static void say_start(job *j, const sg_prompt_set *prompts)
{
    const sg_request *const r = &j->now.request;
    if (j->names.usual && strcmp(j->names.output, j->names.usual) != 0)
        sg_progress_say(j->progress, j->names.numbered ? "names like %s are taken: %s" : "%s is there: this becomes %s",
                        j->names.usual, j->names.output);
    if (!j->decode_only) {
        sg_notice_start(&j->session, r, 0);
        sg_notice_prompts(&j->session, prompts);
        return;
    }
    sg_notice_device(&j->session);
    sg_progress_say(j->progress, "decoding %s: %s", r->latents_in, sg_clip_text((char[SG_CLIP_TEXT]){0}, r));
}

static void say_plan(job *j)
{
    const sg_plan *const    p = &j->now.plan;
    const sg_request *const r = &j->now.request;
    const double            gib = 0x1p-30;
    double                  flops = 0;
    if (!j->settings->verbose) return;
    for (int i = 0; i < p->phases; i++) flops += p->phase[i].flops;
    sg_progress_say(j->progress, "planned: %lld token%s, peak %.2f GiB, %.2f of %.2f GiB to be free, %.3g TFLOP",
                    (long long)p->tokens, sg_plural(p->tokens), (double)p->peak * gib, (double)p->need * gib,
                    (double)p->available * gib, flops * 1e-12);
    if (!j->decode_only)
        sg_progress_say(j->progress, "attention: %s",
                        sg_attention_forecast_text((char[SG_FORECAST_TEXT]){0}, &r->attention, p));
}

/* The peaks are those so far, as planned and as the system tells. */
static void say_stages(job *j, const sg_report *r)
{
    size_t       planned[SG_STAGES] = {0};
    const double mib = 0x1p-20;
    for (int i = 0; i < r->plan.phases; i++) {
        const sg_phase_plan *const phase = &r->plan.phase[i];
        if (phase->peak > planned[phase->stage]) planned[phase->stage] = phase->peak;
    }
    for (int i = 0; i < SG_STAGES; i++)
        if (planned[i])
            sg_progress_say(j->progress, "%-10s %8.2f s, peak %.0f MiB, planned %.0f MiB", stage_names[i],
                            r->seconds[i], (double)r->stage_peak[i] * mib, (double)planned[i] * mib);
        else
            sg_progress_say(j->progress, "%-10s %8.2f s", stage_names[i], r->seconds[i]);
    if (*r->served) sg_progress_say(j->progress, "%s", r->served);
}

static void say_attention(job *j, const sg_attention_record *a, const sg_report *r)
{
    char text[512];
    for (int i = 0; i < a->steps && j->settings->verbose; i++)
        if (r->skipped[i])
            sg_progress_say(j->progress, "step %d: extrapolated", i + 1);
        else
            sg_progress_say(j->progress, "%s", sg_attention_step_text(text, sizeof text, a, i));
    if (*sg_attention_summary(text, sizeof text, a)) sg_progress_say(j->progress, "attention: %s", text);
}

static void say_cache(job *j, const sg_report *r)
{
    float worst = 0;
    if (!j->now.request.cache || j->decode_only) return;
    for (int i = 0; i < r->steps_done; i++)
        if (r->skip_error[i] > worst) worst = r->skip_error[i];
    if (j->now.request.cache != SG_CACHE_SHADOW)
        sg_progress_say(j->progress, "cache: %d of %d steps extrapolated%s", r->steps_skipped, r->steps_done,
                        j->settings->cache ? "" : "; --cache off computes them");
    else
        sg_progress_say(
            j->progress,
            "cache: %d of %d steps extrapolated, each within %.2g %% of the computed one; latents within %.2g %%",
            r->steps_skipped, r->steps_done, 100 * (double)worst, 100 * r->latent_error);
}

static void say_end(job *j, const char *path, const sg_report *r)
{
    char took[32];
    sg_duration(took, r->total_seconds);
    if (j->settings->verbose) say_stages(j, r);
    const char *const name = sg_output_is_stdout(path) ? "stdout" : path;
    if (j->now.request.frames == 1)
        sg_progress_say(j->progress, "%s: image in %s", name, took);
    else
        sg_progress_say(j->progress, "%s: %.3g s of video in %s", name,
                        (double)j->now.request.frames / j->now.request.fps, took);
}

/* ---- the work ---- */

/* Of this clip; whole paths are for --json. */
static json_t *make_settings(const job *j, bool paths)
{
    const sg_request *const r = &j->now.request;
    sg_settings             kept = sg_rendering_kept(&j->now);
    kept.prompt = r->prompt;
    kept.seed = (int64_t)r->seed;
    kept.batch = 0;
    return j->decode_only ? sg_report_decoding(&kept, r, j->note, &j->session.info, paths)
                          : sg_report_settings(&kept, r, &j->session.info, paths);
}

static sg_status finish_report(job *j, const char *path, const char *report_path, const sg_report *report, sg_error *e)
{
    sg_attention_record a = {0};
    a.count = sg_engine_attention(j->session.engine, &a.steps, &a.passes, &a.layers);
    if (report_path) {
        json_t    *all = sg_report_render(make_settings(j, true), path, report);
        double     seconds[SG_ATTENTION_STAGES];
        const bool timed = sg_engine_attention_seconds(j->session.engine, seconds);
        if (a.count)
            sg_json_set(&all, "attention",
                        sg_report_attention(&j->now.request.attention, &j->now.plan, &a, timed ? seconds : NULL));
        SG_TRY(sg_report_take(report_path, all, e));
    }
    if (a.count) say_attention(j, &a, report);
    say_cache(j, report);
    say_end(j, path, report);
    return SG_OK;
}

/* Of one clip; report and preview may be NULL. */
typedef struct clip_paths {
    char *output, *report, *preview;
} clip_paths;

/* The names that its files have got. */
static sg_status take_names(const job *j, clip_paths *path, sg_error *e)
{
    const char *name;
    for (int i = 0; (name = sg_writer_file(j->writer, i)) != NULL; i++) sg_notice_file(&j->session, name);
    if (!j->names.usual) return SG_OK;
    free(path->output);
    path->output = strdup(sg_writer_file(j->writer, 0));
    return path->output ? SG_OK : sg_error_memory(e, "--output");
}

static sg_status write_clip(job *j, clip_paths *path, const char *settings, sg_report *report, sg_error *e)
{
    const sg_callbacks callbacks = {
        .size = sizeof(sg_callbacks), .context = j, .progress = on_progress, .preview = on_preview, .frame = on_frame};
    sg_clip clip = clip_of(j, path->output);
    clip.settings = j->now.request.latents_note = settings;
    if (j->names.usual) clip.beside = j->names.numbered ? path->output : j->names.usual;
    SG_TRY(sg_plan_fits(&j->now.plan, e)); /* before an encoder takes its memory */
    mark(j, "plan");
    SG_TRY(sg_output_options_name(e, sg_writer_open(&j->writer, &clip, e)));
    if (path->preview) SG_TRY(sg_preview_file_open(&j->preview, path->preview, &j->now.request, e));
    SG_TRY(sg_engine_render(j->session.engine, &j->now.request, &callbacks, report, e));
    close_preview(j, true, &(sg_error){0});
    SG_TRY(sg_writer_finish(j->writer, e));
    return take_names(j, path, e);
}

static sg_status render_to(job *j, clip_paths *path, json_t *settings, sg_error *e)
{
    char     *text = NULL;
    sg_report report = {.size = sizeof report};
    SG_TRY(sg_report_text(&text, settings, e));
    sg_status status = write_clip(j, path, text, &report, e);
    close_preview(j, false, &(sg_error){0});
    mark(j, "file");
    sg_writer_close(&j->writer);
    sg_progress_clear(j->progress);
    if (status == SG_OK) status = finish_report(j, path->output, path->report, &report, e);
    j->now.request.latents_note = NULL;
    free(text);
    return status;
}

static sg_status render_one(job *j, int i, clip_paths *path, sg_error *e)
{
    const sg_request *const r = &j->now.request;
    sg_status               status = SG_OK;
    char                    which[48];
    SG_TRY(sg_rendering_plan(&j->now, j->session.engine, e));
    sg_progress_render(j->progress, i, j->names.clips, &j->now.plan);
    snprintf(which, sizeof which, "--prompt-file: prompt %d", i / batch_of(j) + 1);
    if (i % batch_of(j) == 0) sg_notice_cut(&j->session, &j->now.plan, j->settings->prompt_file ? which : NULL);
    json_t *settings = make_settings(j, false);
    if (j->grid.rgb && i == 0 && batch_of(j) == j->names.clips) { /* the grid has those of its first image */
        json_t *own = json_copy(settings);
        sg_json_set(&own, "batch", json_integer(j->names.clips));
        status = sg_report_text(&j->grid_settings, own, e);
        json_decref(own);
    }
    if (status == SG_OK) status = render_to(j, path, settings, e);
    json_decref(settings);
    if (status != SG_OK && r->latents_out && access(r->latents_out, F_OK) == 0)
        sg_progress_say(j->progress, "the latents are in %s; the same command without its prompt decodes them",
                        r->latents_out);
    return status;
}

static sg_status render_clip(job *j, int i, sg_error *e)
{
    const sg_settings *const s = j->settings;
    clip_paths               path = {.output = sg_render_name(&j->names, j->names.output, i),
                                     .report = sg_render_report_name(&j->names, s->json, i),
                                     .preview = sg_render_name(&j->names, s->preview, i)};
    char                     seed[40] = "";
    const bool               enough = path.output && !path.report == !s->json && !path.preview == !s->preview;
    if (enough && s->batch > 1) snprintf(seed, sizeof seed, "seed %llu: ", (unsigned long long)j->now.request.seed);
    if (enough && j->names.clips > 1) /* "2/6: seed 8: a red ball" */
        sg_progress_say(j->progress, "%d/%d: %s%s", i + 1, j->names.clips, seed, j->now.request.prompt);
    const sg_status status = enough ? render_one(j, i, &path, e) : sg_error_set(e, SG_E_MEMORY, "out of memory");
    free(path.output);
    free(path.report);
    free(path.preview);
    return status;
}

/* All clips of a prompt come before those of the next; they have consecutive seeds, beginning with the same for each
 * prompt. */
static sg_status render_all(job *j, const sg_prompt_set *prompts, sg_error *e)
{
    const int      batch = batch_of(j);
    const uint64_t seed = j->now.request.seed;
    sg_status      status = SG_OK;
    for (int i = 0; i < j->names.clips && status == SG_OK; i++) {
        j->clip = i;
        j->now.request.prompt = prompts->count ? prompts->prompt[i / batch].text : NULL;
        j->now.request.seed = (seed + (uint64_t)(i % batch)) & INT64_MAX;
        status = render_clip(j, i, e);
    }
    if (status != SG_OK || !j->grid.rgb) return status;
    SG_TRY(sg_writer_save_picture(j->settings->grid, j->grid.rgb, j->grid.width, j->grid.height, j->grid_settings, e));
    sg_notice_file(&j->session, j->settings->grid);
    sg_progress_say(j->progress, "%s: all %d images", j->settings->grid, j->names.clips);
    return SG_OK;
}

/* Chooses the output's name and checks it with the others. */
static sg_status choose_names(job *j, int frames, sg_error *e)
{
    SG_TRY(sg_render_names_choose(&j->names, j->settings, frames, e));
    const sg_clip clip = clip_of(j, j->names.output);
    SG_TRY(sg_output_options_name(e, sg_writer_check(&clip, e)));
    return sg_render_names_check(&j->names, j->settings, j->decode_only, e);
}

static sg_status run(job *j, sg_prompt_set *prompts, sg_error *e)
{
    SG_TRY(check_inputs(j, e));
    if (!j->decode_only) SG_TRY(sg_setup_prompts(prompts, j->settings, e));
    SG_TRY(sg_session_inputs(&j->session, j->settings, e));
    const char *const asked = j->settings->output;
    const int64_t clips = (int64_t)(prompts->count ? prompts->count : 1) * batch_of(j); /* without prompts: latents */
    size_t        grid_bytes;
    SG_TRY(check_many(j->settings, clips, e));
    if (asked && sg_output_is_stdout(asked) && isatty(STDOUT_FILENO))
        return sg_error_set(e, SG_E_ARG, "-o - writes video, and stdout is a terminal: send it to a file or a pipe");
    j->names.clips = (int)clips;
    if (j->settings->grid) SG_TRY(sg_writer_check_ending(j->settings->grid, "--grid", ".png .jpg .jpeg .webp", e));
    if (j->settings->grid && clips < 2)
        return sg_error_set(e, SG_E_ARG, "--grid is of several images: add --batch N, or a --prompt-file");
    SG_TRY(choose_names(j, j->settings->frames, e)); /* what needs no model to be seen */
    SG_TRY(open_engine(j, e));
    mark(j, "opening");
    SG_TRY(choose_names(j, j->now.request.frames, e));
    SG_TRY(open_grid(j, &grid_bytes, e));
    const sg_clip clip = clip_of(j, j->names.output);
    j->now.request.output_bytes = sg_writer_bytes(&clip) + grid_bytes;
    j->now.request.prompt = prompts->count ? prompts->prompt[0].text : NULL;
    say_start(j, prompts);
    SG_TRY(sg_rendering_plan(&j->now, j->session.engine, e));
    sg_notice_plan(&j->session, &j->now.plan);
    if (j->now.plan.untiled) j->now.request.vae_tiling = SG_TILING_ON; /* which is what the file's settings tell */
    say_plan(j);
    sg_notice_encoder(&j->session, &j->now.request, j->names.output, j->settings->verbose);
    if (!j->decode_only) sg_notice_attention(&j->session, &j->now);
    return render_all(j, prompts, e);
}

sg_status sg_command_render(const sg_settings *s, sg_error *e)
{
    job           j = {.settings = s, .session.timed = s->verbose, .now.settings = *s, .progress = &j.session.progress};
    sg_prompt_set prompts = {0};
    const sg_status status = run(&j, &prompts, e);
    sg_prompt_set_close(&prompts);
    sg_session_close(&j.session);
    mark(&j, "closing");
    sg_image_close(&j.grid);
    free(j.grid_settings);
    free(j.note);
    free(j.names.output);
    return status;
}
