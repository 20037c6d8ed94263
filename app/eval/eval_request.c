/* eval_request.c - what an entry of the set asks for: its own, and the options for the rest. */
#include "eval.h"
#include "settings.h"

sg_request sg_eval_sized(const sg_eval *v, const sg_prompt *p)
{
    sg_request r = v->run.shared.request;
    if (p->width) r.width = p->width;
    if (p->height) r.height = p->height;
    if (p->frames) r.frames = p->frames;
    if (p->strength > 0) r.strength = p->strength;
    if (!sg_settings_strict(v->settings))
        sg_engine_nearest_size(v->session->engine, p->width ? &r.width : NULL, p->height ? &r.height : NULL,
                               p->frames ? &r.frames : NULL);
    return r;
}

int sg_eval_frames(const sg_eval *v, int prompt) { return sg_eval_sized(v, &v->set.prompt[prompt]).frames; }

bool sg_eval_takes(const sg_eval *v, int prompt, int clip)
{
    return sg_rank_takes(&v->rank, (int64_t)prompt * v->per_prompt + clip);
}

bool sg_eval_makes_images(const sg_eval *v)
{
    int i = 0;
    while (i < v->set.count && sg_eval_frames(v, i) == 1) i++;
    return i == v->set.count;
}
