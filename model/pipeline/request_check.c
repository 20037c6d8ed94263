/* request_check.c - what may be asked of an engine. */
#include "base/text.h"
#include "base/utf8.h"
#include "render.h"
#include "sized.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The number nearest to v of m, 2 m, ... */
static int nearest(int v, int m)
{
    const int n = v < m ? 0 : (int)(((int64_t)v - m + m / 2) / m), most = (INT_MAX - m) / m;
    return m + (n > most ? most : n) * m;
}

static sg_status check_attention(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    const int layers = sg_first_layer(engine->components, engine->components->denoisers);
    SG_TRY(sg_policy_check(&r->attention, e));
    if (r->attention.rule == SG_SELECT_GIVEN && !r->attention.mask)
        return sg_error_set(e, SG_E_ARG, "mask: no file is named, by which the rule chooses blocks");
    if (r->attention.dense_layers) SG_TRY(sg_layers_check("dense_layers", r->attention.dense_layers, layers, e));
    if (!r->capture_out) return SG_OK;
    if (r->latents_in) return sg_error_set(e, SG_E_ARG, "capture_out: latents that are only decoded have no attention");
    if (r->capture_layer < 0 || r->capture_layer >= layers)
        return sg_error_set(e, SG_E_ARG, "capture_out: layer %d: this model has 0 to %d", r->capture_layer, layers - 1);
    if (r->capture_step < 0 || r->capture_step >= sg_request_steps(r))
        return sg_error_set(e, SG_E_ARG, "capture_out: step %d: this render has 0 to %d", r->capture_step,
                            sg_request_steps(r) - 1);
    return SG_OK;
}

enum { SIDE = 1 << 24 }; /* of a picture, pixels */

/* Pictures that the model does not take, and pictures of no frame. */
static sg_status check_images(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    static const char *const name[SG_IMAGES] = {"image", "last_image"}, *const edge[SG_IMAGES] = {"begin", "end"};
    for (int i = 0; i < SG_IMAGES; i++)
        if (r->image[i].rgb && !engine->components->image[i])
            return sg_error_set(e, SG_E_ARG, "%s: this model does not take a picture for the clip to %s with", name[i],
                                edge[i]);
    for (int i = 0; i < SG_IMAGES; i++) {
        const sg_request_image *const p = &r->image[i];
        if (p->whole && (p->whole_width < 1 || p->whole_height < 1 || p->whole_width > SIDE || p->whole_height > SIDE))
            return sg_error_set(e, SG_E_ARG, "%s: a picture of %dx%d is not between 1x1 and %dx%d", name[i],
                                p->whole_width, p->whole_height, SIDE, SIDE);
    }
    if (r->image[SG_IMAGE_LAST].rgb && !r->image[SG_IMAGE_FIRST].rgb)
        return sg_error_set(e, SG_E_ARG, "last_image: it needs image too, the first frame");
    if (r->image[SG_IMAGE_LAST].rgb && r->frames < 2)
        return sg_error_set(e, SG_E_ARG, "last_image: a clip of one frame begins and ends with the same");
    return SG_OK;
}

/* The most frames below r's whose latents this model does not pad; 0: there are none. */
static int unpadded_frames(const sg_engine *engine, const sg_request *r)
{
    sg_request less = *r;
    for (int i = r->frames - 1; i > 0; i--) {
        less.frames = i;
        sg_engine_nearest_size(engine, NULL, NULL, &less.frames);
        if (less.frames < r->frames && !sg_geometry_of(engine->components, &less).pad) return less.frames;
    }
    return 0;
}

/* The start. */
static sg_status check_start(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    const sg_vae *const v = &engine->components->vae;
    const double        strength = r->strength;
    char                hint[48] = "";
    if (r->start_image && r->start_video)
        return sg_error_set(e, SG_E_ARG, "image and video: a render starts from one of them");
    if (!sg_request_start(r)) return SG_OK;
    if (!r->start_image == (engine->components->frames.step == 0))
        return sg_error_set(e, SG_E_ARG, "%s: this model starts from %s", sg_start_name(r),
                            r->start_image ? "a video" : "an image");
    if (!v->ops->encode_open)
        return sg_error_set(e, SG_E_ARG, "%s: this model starts from noise only: its VAE, %s, has no encoder here",
                            sg_start_name(r), v->ops->component(v->of)->class_name);
    if (!(strength > 0 && strength <= 1))
        return sg_error_set(e, SG_E_ARG, "strength: %g is not above 0 and at most 1", strength);
    if (sg_request_steps(r) < 1)
        return sg_error_set(e, SG_E_ARG, "strength: %g of %d step%s is less than one step", strength, r->steps,
                            r->steps == 1 ? "" : "s");
    if (!sg_geometry_of(engine->components, r).pad) return SG_OK;
    const int frames = unpadded_frames(engine, r);
    if (frames) snprintf(hint, sizeof hint, "; %d frame%s would do", frames, sg_plural(frames));
    return sg_error_set(e, SG_E_ARG, "video: latents of %d frame%s are padded by this model, which a video's are not%s",
                        r->frames, sg_plural(r->frames), hint);
}

/* Skip-layer guidance. */
static sg_status check_skipping(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    const int steps = sg_request_steps(r), blocks = engine->components->skip_blocks;
    int       step = 0;
    if (!(r->slg_scale >= 0 && r->slg_scale <= 1000))
        return sg_error_set(e, SG_E_ARG, "slg_scale: %g is not between 0 and 1000", r->slg_scale);
    if (r->slg_scale == 0) return SG_OK;
    if (!blocks)
        return sg_error_set(e, SG_E_ARG, "slg_scale: models of family %s have no skip-layer guidance",
                            engine->family->name);
    if (!(r->cfg_scale > 1))
        return sg_error_set(e, SG_E_ARG, "slg_scale: skip-layer guidance goes with cfg_scale=X above 1, which is %g",
                            r->cfg_scale);
    SG_TRY(sg_layers_check("skip_layers", r->skip_layers ? r->skip_layers : "", blocks, e));
    while (step < steps && !sg_skips_layers(r, steps, step)) step++;
    if (step < steps) return SG_OK;
    return sg_error_set(e, SG_E_ARG,
                        "slg_scale: of %d step%s, counted from 0, none is above %g (skip_layer_start=X) and below %g "
                        "(skip_layer_end=X) of them",
                        steps, sg_plural(steps), r->skip_layer_start, r->skip_layer_end);
}

static sg_status check_text(const char *member, const char *text, sg_error *e)
{
    size_t bad;
    if (!text || sg_utf8_check(text, strlen(text), &bad)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s: not UTF-8 at byte %zu (0x%02x)", member, bad, (unsigned char)text[bad]);
}

static sg_status check(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    const sg_frame_rule frames = engine->components->frames;
    const int           m = engine->components->size_multiple;
    char                rule[48];
    SG_TRY(sg_reserved_check(r->attention.reserved, sizeof r->attention.reserved, "sg_policy", e));
    for (int i = 0; i < SG_IMAGES; i++)
        SG_TRY(sg_reserved_check(r->image[i].reserved, sizeof r->image[i].reserved, "sg_request_image", e));
    SG_TRY(check_text("prompt", r->prompt, e));
    SG_TRY(check_text("negative_prompt", r->negative_prompt, e));
    SG_TRY(check_text("latents_note", r->latents_note, e));
    if (r->width < 1 || r->height < 1 || r->width > 1 << 16 || r->height > 1 << 16)
        return sg_error_set(e, SG_E_ARG, "size: %dx%d is not between 1x1 and 65536x65536", r->width, r->height);
    if (r->width % m || r->height % m)
        return sg_error_set(e, SG_E_ARG,
                            "size: %dx%d: width and height must be multiples of %d for this model; nearest "
                            "is %dx%d",
                            r->width, r->height, m, nearest(r->width, m), nearest(r->height, m));
    if (r->frames < 1 || r->frames > 1 << 20)
        return sg_error_set(e, SG_E_ARG, "frames: %d is not between 1 and %d", r->frames, 1 << 20);
    if (sg_frame_rule_nearest(frames, r->frames) != r->frames)
        return sg_error_set(e, SG_E_ARG, "frames: %d: this model makes %s; nearest is %d", r->frames,
                            sg_frame_rule_text(rule, sizeof rule, frames), sg_frame_rule_nearest(frames, r->frames));
    if (r->steps < 1 || r->steps > SG_STEPS_MAX)
        return sg_error_set(e, SG_E_ARG, "steps: %d is not between 1 and %d", r->steps, SG_STEPS_MAX);
    if (!(r->cfg_scale >= 0 && r->cfg_scale <= 1000))
        return sg_error_set(e, SG_E_ARG, "cfg_scale: %g is not between 0 and 1000", r->cfg_scale);
    if (!(r->cfg_scale_2 <= 1000)) return sg_error_set(e, SG_E_ARG, "cfg_scale_2: %g is above 1000", r->cfg_scale_2);
    if (engine->components->guidance != SG_GUIDANCE_EMBEDDED && r->guidance != 0)
        return sg_error_set(e, SG_E_ARG, "guidance: this model has no embedded guidance; cfg_scale=X guides it");
    if (engine->components->guidance == SG_GUIDANCE_EMBEDDED && !(r->guidance > 0 && r->guidance <= 1000))
        return sg_error_set(e, SG_E_ARG, "guidance: %g is not above 0 and up to 1000", r->guidance);
    if (r->dynamic_cfg && !engine->family->dynamic_guidance)
        return sg_error_set(e, SG_E_ARG, "dynamic_cfg: guidance of a model of family %s is the same in all steps",
                            engine->family->name);
    SG_TRY(check_skipping(engine, r, e));
    const bool by_tokens = r->flow_shift == 0 && engine->components->sampler.by_tokens.on;
    if (!by_tokens && !(r->flow_shift >= 0.001 && r->flow_shift <= 1000))
        return sg_error_set(e, SG_E_ARG, "flow_shift: %g is not between 0.001 and 1000", r->flow_shift);
    if (!(r->cache_threshold >= 0 && r->cache_threshold <= SG_CACHE_THRESHOLD_MAX))
        return sg_error_set(e, SG_E_ARG, "cache: the threshold %g is not between 0 and %g", r->cache_threshold,
                            SG_CACHE_THRESHOLD_MAX);
    SG_TRY(sg_choice_check("cache", r->cache, SG_CACHE_SHADOW + 1, e));
    SG_TRY(sg_choice_check("vae_tiling", r->vae_tiling, SG_TILING_ON + 1, e));
    sg_sampler any;
    SG_TRY(check_start(engine, r, e));
    SG_TRY(sg_render_sampler(&any, engine, r, e));
    SG_TRY(check_attention(engine, r, e));
    SG_TRY(check_images(engine, r, e));
    SG_TRY(sg_preview_check(engine, r, e));
    return engine->family->check ? engine->family->check(engine->model, r, e) : SG_OK;
}

sg_status sg_engine_check_request(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    sg_request own;
    SG_TRY(sg_sized_take(&own, sizeof own, r, "sg_request", e));
    return check(engine, &own, e);
}

void sg_engine_nearest_size(const sg_engine *engine, int *width, int *height, int *frames)
{
    if (width) *width = nearest(*width, engine->components->size_multiple);
    if (height) *height = nearest(*height, engine->components->size_multiple);
    if (frames) *frames = sg_frame_rule_nearest(engine->components->frames, *frames);
}
