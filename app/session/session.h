/* session.h - what every command that renders opens: pictures and a video, the model, its engine. */
#ifndef SG_SESSION_H
#define SG_SESSION_H

#include "picture.h"
#include "progress.h"
#include "resolve.h"
#include "setup.h"
#include "video_input.h"

/* A session that is zero is closed. Before it is opened: a timed one takes the time of attention, and one with check
 * has every op computed by the oracle, too; threads stands in place of --threads, unless it is 0. */
typedef struct sg_session {
    const sg_settings *asked;
    bool               timed, check;
    int                threads;
    sg_progress        progress;
    sg_pictures        pictures;
    sg_video_input     video;
    sg_model_path      model;
    sg_engine         *engine;
    sg_model_info      info;
} sg_session;

/* Checks prompts, and reads the pictures of s and its video's first frame in the place of those before. Fails in the
 * option's name. The caller closes x, after a failure too. One engine serves all inputs that come. */
sg_status sg_session_inputs(sg_session *x, const sg_settings *s, sg_error *e) SG_MUST_USE;

/* Reads the pictures that this one names, and a video's first frame, in the place of those before. */
sg_status sg_session_read(sg_session *x, const sg_pictures *named, const char *video, const char *what,
                          sg_error *e) SG_MUST_USE;

/* Returns how many numbers latents of this shape have. */
static inline size_t sg_latents_count(const int64_t d[4]) { return (size_t)(d[0] * d[1] * d[2] * d[3]); }

/* Opens the engine, after the inputs. */
sg_status sg_session_open(sg_session *x, sg_error *e) SG_MUST_USE;

/* Resolves r, whose settings are x's or derived from them, and adds the hashes of x's model and inputs. */
sg_status sg_session_resolve(sg_session *x, sg_rendering *r, sg_error *e) SG_MUST_USE;

/* Reads the video, fits the pictures, and gives both to r, which borrows them. */
sg_status sg_session_give(sg_session *x, sg_request *r, sg_error *e) SG_MUST_USE;

/* Frees pictures and video, which may take hundreds of MiB; others may come. */
void sg_session_close_inputs(sg_session *x);

void sg_session_close(sg_session *x);

#endif
