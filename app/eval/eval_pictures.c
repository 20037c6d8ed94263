/* eval_pictures.c - see eval_pictures.h. */
#include "eval_pictures.h"
#include "base/output_file.h"
#include "base/path.h"
#include "eval_files.h"
#include "file_options.h"
#include "json_build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- where they are ---- */

/* A path is empty where there is no such input. */
static sg_status find(char path[SG_EVAL_INPUTS][PATH_MAX], const sg_eval *v, const sg_prompt *p, sg_error *e)
{
    const sg_settings *const s = v->settings;
    const char *const own[] = {p->image, p->last_image, p->video}, *const usual[] = {s->image, s->last_image, s->video};
    for (int i = 0; i < SG_EVAL_INPUTS; i++) {
        const bool  by_prompt = !own[i] && i == SG_IMAGE_FIRST && s->image_folder;
        const char *name = by_prompt ? p->text : own[i];
        int         n;
        if (!name || (*name == '/' && !by_prompt))
            n = snprintf(path[i], PATH_MAX, "%s", name ? name : usual[i] ? usual[i] : "");
        else if (s->image_folder)
            n = snprintf(path[i], PATH_MAX, "%s/%s%s", s->image_folder, name, by_prompt ? ".jpg" : "");
        else
            n = snprintf(path[i], PATH_MAX, "%.*s%s", (int)(sg_path_name(s->prompts) - s->prompts), s->prompts, name);
        if (n >= PATH_MAX) return sg_error_set(e, SG_E_ARG, "the path of a picture or video is too long");
    }
    return SG_OK;
}

/* Do clips start from this picture, as others from a video? */
static bool starts(const sg_eval *v, const char *path)
{
    return *path && v->session->info.image[SG_IMAGE_FIRST] == SG_IMAGE_START;
}

/* Reads what entry p has, of its video the first frame, unless it is at hand; r has the size of its clips. */
static sg_status fetch(sg_eval *v, const sg_prompt *p, const sg_request *r, sg_error *e)
{
    sg_eval_pictures *const at = &v->pictures;
    const int               size[] = {r->width, r->height, r->frames};
    sg_pictures             now = {.fit = v->settings->fit ? v->settings->fit : sg_picture_fits[0], .of_entry = true};
    char path[SG_EVAL_INPUTS][PATH_MAX], *const video = at->path[SG_EVAL_VIDEO];
    bool same = at->read && memcmp(size, at->video_size, sizeof size) == 0;
    SG_TRY(find(path, v, p, e));
    if (p->strength > 0 && !*path[SG_EVAL_VIDEO] && !starts(v, path[SG_IMAGE_FIRST]))
        return sg_error_set(e, SG_E_ARG, "strength has no effect: there is no video of its own and no --video");
    for (int i = 0; i < SG_EVAL_INPUTS; i++) same = same && strcmp(path[i], at->path[i]) == 0;
    if (same) return SG_OK;
    memcpy(at->path, path, sizeof path);
    memcpy(at->video_size, size, sizeof size);
    at->read = false;
    for (int i = 0; i < SG_IMAGES; i++) now.path[i] = *path[i] ? at->path[i] : NULL;
    SG_TRY(sg_session_read(v->session, &now, *video ? video : NULL, "video", e));
    at->read = true;
    return SG_OK;
}

/* Reads all of the video, unless it is at hand; before, whether there is memory for the clip. */
static sg_status read_video(sg_eval *v, sg_request *r, sg_error *e)
{
    sg_video_input *const in = &v->session->video;
    sg_plan               plan = {.size = sizeof plan};
    sg_error              why = {0};
    if (!in->path) return SG_OK;
    sg_video_input_give(in, &v->session->info, r);
    if (in->rgb) return SG_OK;
    SG_TRY(sg_engine_plan(v->session->engine, r, &plan, e));
    if (sg_plan_fits(&plan, &why) != SG_OK) return sg_error_set(e, SG_E_ARG, "video: %s", why.text);
    v->pictures.read = false;
    SG_TRY(sg_video_input_read(in, v->session->engine, r, v->session->pictures.fit, e));
    v->pictures.read = true;
    return SG_OK;
}

/* ---- before the first render ---- */

static uint64_t hash_of(const sg_eval *v, int i)
{
    return i == SG_EVAL_VIDEO ? v->session->video.hash : v->session->pictures.hash[i];
}

/* No output takes the place of what an entry names. */
static sg_status protect(const sg_session *x, sg_error *e)
{
    for (int i = 0; i < SG_IMAGES; i++)
        if (x->pictures.path[i]) SG_TRY(sg_output_file_protect(x->pictures.path[i], sg_picture_keys[i], e));
    return x->video.path ? sg_file_options_protect_frames(x->video.path, "video", e) : SG_OK;
}

sg_status sg_eval_pictures_check(sg_eval *v, const sg_prompt *p, int prompt, const sg_request *r, sg_error *e)
{
    sg_eval_pictures *const at = &v->pictures;
    if (!at->hash && !(at->hash = calloc((size_t)v->set.count, sizeof *at->hash)))
        return sg_error_set(e, SG_E_MEMORY, "out of memory");
    SG_TRY(fetch(v, p, r, e));
    SG_TRY(protect(v->session, e));
    sg_request of = *r;
    for (int i = 0; i < v->run.arms.count; i++) { /* a strength may leave too few steps of an arm's */
        sg_request arm;
        sg_rendering_request(&arm, r, &v->run.arm[i].now);
        sg_video_input_give(&v->session->video, &v->session->info, &arm);
        SG_TRY(sg_pictures_check(&v->session->pictures, v->session->engine, &arm, e));
    }
    SG_TRY(read_video(v, &of, e));
    for (int i = 0; i < SG_EVAL_INPUTS; i++) {
        at->hash[prompt][i] = *at->path[i] ? hash_of(v, i) : 0;
        at->any = at->any || (i < SG_IMAGES && *at->path[i]);
    }
    at->any_start = at->any_start || v->session->video.path || starts(v, at->path[SG_IMAGE_FIRST]);
    return SG_OK;
}

/* ---- for a clip ---- */

static sg_status take(sg_eval *v, int prompt, sg_request *r, sg_error *e)
{
    sg_eval_pictures *const at = &v->pictures;
    SG_TRY(fetch(v, &v->set.prompt[prompt], r, e));
    SG_TRY(sg_pictures_fit(&v->session->pictures, v->session->engine, r, e));
    for (int i = 0; i < SG_EVAL_INPUTS; i++) {
        char path[PATH_MAX];
        if (!*at->path[i]) continue;
        if (hash_of(v, i) != at->hash[prompt][i])
            return sg_error_set(e, SG_E_FORMAT, "%s: %s: has changed since this run began",
                                i == SG_EVAL_VIDEO ? "video" : sg_picture_keys[i], at->path[i]);
        if (i == SG_EVAL_VIDEO) break;
        sg_eval_image_path(path, v, prompt, i);
        const sg_image *const fitted = &v->session->pictures.fitted[i];
        if (access(path, F_OK) != 0)
            SG_TRY(sg_writer_save_picture(path, fitted->rgb, fitted->width, fitted->height, NULL, e));
    }
    return read_video(v, r, e);
}

sg_status sg_eval_pictures_take(sg_eval *v, int prompt, sg_request *r, sg_error *e)
{
    sg_error        why = {0};
    const sg_status status = take(v, prompt, r, &why);
    v->pictures.of = status == SG_OK ? prompt : -1;
    if (status == SG_OK) return SG_OK;
    const bool own = status == SG_E_MEMORY || status == SG_E_CANCELLED;
    return sg_error_set(e, own ? status : SG_E_FORMAT, "%s", why.text);
}

void sg_eval_pictures_note(const sg_eval *v, int prompt, sg_settings *s)
{
    const sg_pictures *const    now = &v->session->pictures;
    const sg_video_input *const video = &v->session->video;
    const bool                  taken = v->pictures.of == prompt;
    s->image = taken ? now->path[SG_IMAGE_FIRST] : NULL;
    s->last_image = taken ? now->path[SG_IMAGE_LAST] : NULL;
    s->video = taken ? video->path : NULL;
    s->hash.image = now->hash[SG_IMAGE_FIRST];
    s->hash.last_image = now->hash[SG_IMAGE_LAST];
    s->hash.video = video->hash;
    s->fit = s->image || s->last_image || s->video ? now->fit : NULL;
    if (!s->video && !starts(v, v->pictures.path[SG_IMAGE_FIRST])) s->strength = NAN;
}

void sg_eval_pictures_add(const sg_eval *v, int prompt, json_t *line)
{
    const sg_eval_pictures *const at = &v->pictures;
    for (int i = 0; i < SG_IMAGES && at->of == prompt; i++) {
        char    path[PATH_MAX];
        json_t *picture = json_incref(json_object_get(line, sg_picture_keys[i]));
        if (picture) sg_json_set(&picture, "picture", sg_report_name(sg_eval_image_path(path, v, prompt, i)));
        json_decref(picture);
    }
}
