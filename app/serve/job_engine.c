/* job_engine.c - see job_engine.h. */
#include "job_engine.h"
#include "base/clock.h"
#include "base/image.h"
#include "base/path.h"
#include "json_build.h"
#include "notices.h"
#include "option_rules.h"
#include "report.h"
#include "report_settings.h"
#include "settings.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    DECODED_EVERY = 5,       /* decoded previews take longer than many a step */
    CHECKED_PIXELS = 1 << 28 /* of a video, 129 frames of 1920x1080: others wait for a few seconds at most */
};

/* ---- what is asked for ---- */

/* What all jobs have in common. */
static sg_settings usual(const sg_job_engine *x)
{
    const sg_settings *const base = x->setup->base;
    sg_settings              s = sg_options_empty(SG_COMMAND_RENDER);
    sg_settings_take(&s, base, SG_OPTION_LOAD);
    s.device = base->device;
    s.memory_limit = x->available ? x->available : base->memory_limit;
    s.offload = base->offload;
    s.preview_decoder = base->preview_decoder;
    s.model = NULL;
    return s;
}

/* The server's --lora-merge is for jobs with LoRAs. */
static void drop_merge(sg_settings *s)
{
    s->lora_merge = s->lora_merge && (s->lora.count || s->high_noise_lora.count || s->fast);
}

/* Another model has neither LoRAs nor denoisers of the usual one; a file alone may have its other parts. */
static void take_other(sg_settings *s)
{
    struct stat st;
    if (stat(s->model, &st) == 0 && S_ISDIR(st.st_mode)) s->parts = (sg_model_parts){0};
    s->parts.diffusion_model = s->parts.high_noise_diffusion_model = NULL;
    s->preview_decoder = NULL;
    s->fast = false;
}

static sg_status read_settings(sg_job_engine *x, const json_t *object, bool form, sg_error *e)
{
    sg_settings *const s = &x->asked;
    *s = usual(x);
    const sg_text_list own = s->lora, own_high = s->high_noise_lora;
    s->lora = s->high_noise_lora = (sg_text_list){0};
    SG_TRY(sg_serve_options_read(s, object, form, e));
    const bool other = s->model && strcmp(s->model, x->setup->files.usual_name) != 0;
    SG_TRY(sg_served_paths_of(&x->paths[!x->at], &x->setup->files, s, e));
    if (other) {
        take_other(s);
        return SG_OK;
    }
    s->model = x->setup->files.usual;
    if (!s->lora.count) s->lora = own;
    if (!s->high_noise_lora.count) s->high_noise_lora = own_high;
    return SG_OK;
}

/* ---- the engine ---- */

/* For x's asked. The room of its paths is then the engine's. */
static sg_status ready(sg_job_engine *x, sg_error *e)
{
    const double      start = sg_seconds();
    sg_session *const s = &x->session;
    x->opened = 0;
    if (s->engine && !sg_settings_difference(&x->loaded, &x->asked, SG_OPTION_LOAD)) return SG_OK;
    x->opening = true;
    sg_engine_close(&s->engine);
    SG_TRY(sg_session_open(s, e));
    x->loaded = x->asked;
    x->at = !x->at;
    x->opening = false;
    x->opened = sg_seconds() - start;
    return SG_OK;
}

sg_status sg_job_engine_open(sg_job_engine *x, const sg_job_setup *setup, sg_error *e)
{
    x->setup = setup;
    x->asked = usual(x);
    x->asked.model = setup->files.usual;
    drop_merge(&x->asked);
    SG_TRY(sg_session_inputs(&x->session, &x->asked, e));
    SG_TRY(ready(x, e));
    x->now = (sg_rendering){.settings = x->asked};
    return sg_session_resolve(&x->session, &x->now, e);
}

/* A model may be unable to render its defaults; then each engine goes by what it finds. */
void sg_job_engine_plan_for(sg_job_engine *x, sg_job_engine *renders)
{
    sg_error why = {0};
    if (sg_rendering_plan(&renders->now, renders->session.engine, &why) != SG_OK) return;
    x->available = renders->now.plan.available;
    x->host_free = renders->now.plan.host_free;
}

void sg_job_engine_close(sg_job_engine *x) { sg_session_close(&x->session); }

/* ---- a job ---- */

/* Its previews cost next to nothing, unless they are decoded. */
static void take_preview(sg_job_engine *x)
{
    sg_request *const r = &x->now.request;
    int               size[3];
    if (sg_engine_preview_size(x->session.engine, r, size, NULL) != SG_OK) return;
    r->preview_every = x->asked.preview_decoder ? DECODED_EVERY : 1;
    r->preview_bytes = 2 * sg_image_bytes(size[2], size[1]); /* a strip, and the PNG of it */
}

static sg_status take_clip(sg_job_engine *x, sg_error *e)
{
    sg_request *const r = &x->now.request;
    const char *const usual = sg_path_extension(sg_writer_default_name(r->frames));
    snprintf(x->name, sizeof x->name, "%s%s", x->asked.output ? x->asked.output : "content",
             x->asked.output ? "" : usual);
    x->clip = (sg_clip){.size = sizeof x->clip};
    sg_clip_of(&x->clip, r, x->name);
    r->output_bytes = sg_writer_bytes(&x->clip);
    sg_error          why = {0};
    const sg_status   status = sg_writer_check_format(&x->clip, &why);
    const char *const at = strstr(why.text, x->name); /* which is no name that the client gave */
    if (status == SG_OK) return SG_OK;
    return sg_error_set(e, status, "output_format: %s", at ? at + strlen("content") : why.text);
}

/* What the command says on stderr. */
static void notice(sg_job_engine *x)
{
    sg_session *const s = &x->session;
    sg_notice_request(s, &x->now);
    sg_notice_prompt(s, x->now.request.prompt);
    sg_notice_cut(s, &x->now.plan, NULL);
    sg_notice_plan(s, &x->now.plan);
    sg_notice_encoder(s, &x->now.request, x->name, false);
    sg_notice_attention(s, &x->now);
}

static sg_status prepare(sg_job_engine *x, const json_t *settings, bool form, const char *const *input, sg_error *e)
{
    sg_settings *const s = &x->asked;
    sg_session *const  session = &x->session;
    x->opening = false;
    SG_TRY(read_settings(x, settings, form, e));
    s->image = input[SG_JOB_IMAGE];
    s->last_image = input[SG_JOB_LAST_IMAGE];
    s->video = input[SG_JOB_VIDEO];
    drop_merge(s);
    if (!s->prompt) return sg_error_set(e, SG_E_ARG, "prompt is needed");
    SG_TRY(sg_options_check(s, e));
    SG_TRY(sg_session_inputs(session, s, e));
    session->progress.quiet = true;
    const sg_status status = ready(x, e);
    const bool      of_model = e && strncmp(e->text, "--", 2) != 0 && json_object_get(settings, "model");
    SG_TRY(of_model ? sg_error_in(e, status, "model") : status);
    x->now = (sg_rendering){.settings = *s};
    SG_TRY(sg_session_resolve(session, &x->now, e));
    x->now.request.prompt = s->prompt;
    sg_video_input_give(&session->video, &session->info, &x->now.request);
    SG_TRY(sg_pictures_check(&session->pictures, session->engine, &x->now.request, e));
    SG_TRY(take_clip(x, e));
    take_preview(x);
    SG_TRY(sg_rendering_plan(&x->now, session->engine, e));
    if (x->available) {
        x->now.plan.available = x->available;
        x->now.plan.host_free = x->host_free;
    }
    notice(x);
    if (x->now.plan.untiled) x->now.request.vae_tiling = SG_TILING_ON;
    return sg_plan_fits(&x->now.plan, e);
}

/* What a client reads has his names and none of the server's folders. folder is that of the job, or NULL. */
static void retell(const sg_job_engine *x, const char *folder, sg_error *e)
{
    sg_serve_options_spell(e);
    sg_serve_options_hide(e, x->asked.image);
    sg_serve_options_hide(e, x->asked.last_image);
    sg_serve_options_hide(e, x->asked.video);
    sg_serve_options_hide(e, x->setup->files.usual);
    sg_serve_options_hide(e, x->setup->files.models);
    sg_serve_options_hide(e, x->setup->files.loras);
    sg_serve_options_hide(e, folder);
}

static sg_status tell(const sg_job_engine *x, const char *folder, sg_status status, sg_error *e)
{
    if (status != SG_OK) retell(x, folder, e);
    return status;
}

sg_status sg_job_engine_check_video(sg_job_engine *x, sg_error *e)
{
    return tell(x, NULL, sg_video_input_check(&x->session.video, x->session.engine, &x->now.request, CHECKED_PIXELS, e),
                e);
}

json_t *sg_job_engine_notices(const sg_job_engine *x)
{
    const sg_textbuf *const w = &x->session.progress.warnings;
    json_t                 *list = json_array();
    for (const char *at = w->data, *end; at && (end = strchr(at, '\n')) != NULL; at = end + 1) {
        sg_error line = {0};
        snprintf(line.text, sizeof line.text, "%.*s", (int)(end - at), at);
        retell(x, NULL, &line);
        sg_json_append(&list, sg_report_name(line.text));
    }
    return list;
}

sg_status sg_job_engine_prepare(sg_job_engine *x, const json_t *settings, bool form,
                                const char *const input[SG_JOB_INPUTS], sg_error *e)
{
    return tell(x, NULL, prepare(x, settings, form, input, e), e);
}

/* ---- its clips ---- */

static int on_progress(void *context, int stage, int done, int total)
{
    const sg_job_watch *const w = ((sg_job_engine *)context)->watch;
    return w->progress(w->context, stage, done, total);
}

static sg_status on_preview(void *context, int step, const uint8_t *rgb, const int size[3], sg_error *e)
{
    const sg_job_watch *const w = ((sg_job_engine *)context)->watch;
    (void)e;
    w->preview(w->context, step, rgb, size);
    return SG_OK;
}

static sg_status on_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    return sg_writer_write(((sg_job_engine *)context)->writer, index, rgb, e);
}

static sg_status write_clip(sg_job_engine *x, const char *path, const char *settings, sg_report *report, sg_error *e)
{
    const sg_callbacks callbacks = {
        .size = sizeof callbacks, .context = x, .progress = on_progress, .preview = on_preview, .frame = on_frame};
    x->clip.path = path;
    x->clip.settings = settings;
    SG_TRY(sg_writer_open(&x->writer, &x->clip, e));
    sg_status status = sg_engine_render(x->session.engine, &x->now.request, &callbacks, report, e);
    if (status == SG_OK) status = sg_writer_finish(x->writer, e);
    sg_writer_close(&x->writer);
    return status;
}

static json_t *made_settings(const sg_job_engine *x)
{
    sg_settings kept = sg_rendering_kept(&x->now);
    kept.prompt = x->now.request.prompt;
    kept.seed = (int64_t)x->now.request.seed;
    kept.batch = 0;
    return sg_report_settings(&kept, &x->now.request, &x->session.info, false);
}

static sg_status render(sg_job_engine *x, int i, const char *folder, const sg_job_watch *watch, json_t **file,
                        json_t **made, sg_report *report, sg_error *e)
{
    sg_request *const r = &x->now.request;
    char              path[PATH_MAX], *text = NULL;
    struct stat       st = {0};
    if (i == 0) SG_TRY(sg_session_give(&x->session, r, e));
    x->watch = watch;
    r->seed = (uint64_t)(x->now.settings.seed + i) & INT64_MAX;
    SG_TRY(sg_rendering_plan(&x->now, x->session.engine, e));
    char *const name = sg_job_engine_batch(x) > 1 ? sg_writer_numbered(x->name, i, r->frames) : strdup(x->name);
    json_t     *settings = made_settings(x);
    sg_status   status = name ? sg_path_join(path, sizeof path, folder, name, e) : sg_error_memory(e, folder);
    if (status == SG_OK) status = sg_report_text(&text, settings, e);
    if (status == SG_OK) status = write_clip(x, path, text, report, e);
    if (status == SG_OK && stat(path, &st) == 0)
        *file = json_pack("{s:s, s:I, s:I, s:o}", "file", name, "seed", (json_int_t)r->seed, "bytes",
                          (json_int_t)st.st_size, "seconds", sg_report_seconds(report));
    if (status == SG_OK && made) *made = json_incref(settings);
    json_decref(settings);
    free(text);
    free(name);
    return status;
}

sg_status sg_job_engine_render(sg_job_engine *x, int i, const char *folder, const sg_job_watch *watch, json_t **file,
                               json_t **made, sg_report *report, sg_error *e)
{
    return tell(x, folder, render(x, i, folder, watch, file, made, report, e), e);
}
