/* session.c - see session.h. */
#include "session.h"
#include "clip_reader.h"
#include "settings.h"

#include <string.h>
#include <sys/stat.h>

void sg_session_close_inputs(sg_session *x)
{
    sg_pictures_close(&x->pictures);
    sg_video_input_close(&x->video);
    x->video = (sg_video_input){0};
}

sg_status sg_session_inputs(sg_session *x, const sg_settings *s, sg_error *e)
{
    x->asked = s;
    sg_textbuf_free(&x->progress.warnings); /* of the inputs before */
    sg_progress_init(&x->progress, s->quiet);
    if (s->prompt) SG_TRY(sg_prompt_check(s->prompt, "--prompt", e));
    if (s->negative_prompt) SG_TRY(sg_prompt_check(s->negative_prompt, "--negative-prompt", e));
    sg_session_close_inputs(x);
    SG_TRY(sg_pictures_open(&x->pictures, s, e));
    return sg_video_input_open(&x->video, s->video, "--video", e);
}

sg_status sg_session_read(sg_session *x, const sg_pictures *named, const char *video, const char *what, sg_error *e)
{
    sg_session_close_inputs(x);
    x->pictures = *named;
    SG_TRY(sg_pictures_read(&x->pictures, e));
    return sg_video_input_open(&x->video, video, what, e);
}

/* Where what is named as the model is a video or a picture, tells which option was probably meant. */
static sg_status check_clip(const sg_session *x, sg_error *e)
{
    const char *const path = x->model.dir;
    struct stat       st;
    sg_clip_reader   *clip = NULL;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || sg_clip_reader_open(&clip, path, &(sg_error){0})) return SG_OK;
    const bool picture = sg_clip_reader_list(clip);
    sg_clip_reader_close(&clip);
    const char *const option = picture ? "image" : "video";
    const bool        has = sg_settings_option(x->asked, option);
    return sg_error_set(e, SG_E_ARG, "%s is a %s, no model%s%s%s; `sparge-gen info %s` tells how it was made", path,
                        picture ? "picture" : option, has ? ": --" : "", has ? option : "",
                        has ? " starts from it" : "", path);
}

sg_status sg_session_open(sg_session *x, sg_error *e)
{
    sg_engine_options engine;
    sg_error          why = {0};
    SG_TRY(sg_setup_model(&x->model, x->asked, e));
    SG_TRY(sg_setup_options(&engine, &x->model, x->asked, e));
    if (x->threads) engine.threads = x->threads;
    engine.check = x->check;
    engine.timed = x->timed;
    engine.given_bytes = sg_pictures_bytes(&x->pictures);
    if (sg_setup_engine(&x->engine, &x->model, &engine, &why) != SG_OK) {
        SG_TRY(check_clip(x, e));
        return sg_error_copy(e, &why);
    }
    x->info = *sg_engine_info(x->engine);
    return SG_OK;
}

sg_status sg_session_resolve(sg_session *x, sg_rendering *r, sg_error *e)
{
    sg_settings *const s = &r->settings;
    SG_TRY(sg_resolve(r, x->engine, e));
    s->model = x->model.dir;
    /* A denoiser that is the model has been named with it. */
    if (s->parts.diffusion_model && strcmp(s->parts.diffusion_model, s->model) == 0) s->parts.diffusion_model = NULL;
    if (!s->hash.model) s->hash.model = sg_engine_hash(x->engine);
    s->hash.image = x->pictures.hash[SG_IMAGE_FIRST];
    s->hash.last_image = x->pictures.hash[SG_IMAGE_LAST];
    s->hash.video = x->video.hash;
    return SG_OK;
}

sg_status sg_session_give(sg_session *x, sg_request *r, sg_error *e)
{
    sg_video_input_give(&x->video, &x->info, r); /* that there is one is known before it is read */
    SG_TRY(sg_pictures_check(&x->pictures, x->engine, r, e));
    SG_TRY(sg_pictures_fit(&x->pictures, x->engine, r, e));
    return sg_video_input_read(&x->video, x->engine, r, x->pictures.fit, e);
}

void sg_session_close(sg_session *x)
{
    sg_progress_end(&x->progress);
    sg_engine_close(&x->engine);
    sg_session_close_inputs(x);
}
