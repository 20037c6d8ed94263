/* decoding.c - the last phase: latents to frames, chunk by chunk. */
#include "base/clock.h"
#include "render.h"

#include <stdlib.h>
#include <string.h>

/* A decoder, and the latents F32 [f, y, x, c] that it is given. */
typedef struct decoder {
    const sg_vae *vae;
    void         *run;
    sg_tensor     z;
    sg_tensor     non_finite; /* I32 [1]: how many numbers of all frames so far are not finite */
} decoder;

static sg_status open_decoder(decoder *out, sg_render *render, sg_stream *s)
{
    const sg_vae *const v = out->vae = &render->engine->components->vae;
    int64_t             d[4];
    sg_latents_decoded(render, d);
    out->z = sg_new_keep(s, SG_F32, d[1], d[2], d[3], d[0]);
    out->non_finite = sg_new_keep(s, SG_I32, 1);
    const sg_tensor given = sg_alloc(s, &s->scratch, SG_F32, 4, d);
    sg_upload(s, given, render->host_latents);
    sg_upload(s, out->non_finite, &(int32_t){0});
    sg_permute(s, .y = out->z, .x = given, .rank = 4, .dim = {d[0], d[1], d[2], d[3]}, .perm = {1, 2, 3, 0});
    s->scratch.used = 0;
    return v->ops->decode_open(&out->run, v->of, s, d[2], d[3], render->e);
}

/* RGB of `count` latent frames from `done` on, in scratch, which they have for themselves. */
static sg_tensor decode(const decoder *d, sg_stream *s, int64_t done, int64_t count)
{
    s->scratch.used = 0;
    return d->vae->ops->decode_next(d->run, s, sg_rows(d->z, done, count), done + count == d->z.dim[0]);
}

/* Chunks after the decoder's special ones all cost the same, but for the last, so that one of them stands for all. */
sg_status sg_decoding_plan(sg_render *render, sg_stream *s, sg_plan_totals *t)
{
    decoder d = {0};
    double  flops = 0;
    SG_TRY(open_decoder(&d, render, s));
    const sg_vae *const v = d.vae;
    const int64_t       all = d.z.dim[0];
    const int           special = v->ops->special;
    render->frame_bytes = 0;
    render->chunks = 0;
    for (int64_t done = 0, count; done < all; done += count, render->chunks++) {
        count = v->ops->chunk(v->of, all, done);
        if (render->chunks <= special || done + count == all) {
            const double    before = t->flops;
            const sg_tensor rgb = decode(&d, s, done, count);
            const size_t    bytes = sg_bytes(sg_alloc(s, &s->scratch, SG_U8, rgb.rank, rgb.dim));
            if (bytes > render->frame_bytes) render->frame_bytes = bytes;
            flops = t->flops - before;
        } else {
            t->flops += flops;
        }
    }
    v->ops->decode_close(&d.run);
    return SG_OK;
}

/* Frames of one chunk of latent frames on their way to the caller. */
typedef struct chunk {
    uint8_t *host;   /* the decoder's non_finite; frames, after SG_ALIGN bytes */
    int      number; /* from 1 */
    int      done;   /* latent frames decoded with it */
    int      first, frames;
    size_t   bytes; /* of the frames */
} chunk;

/* Asks for the frames in rgb as bytes on the host. */
static void ask_frames(sg_stream *s, chunk *c, sg_tensor rgb, sg_tensor non_finite)
{
    const sg_tensor bytes = sg_alloc(s, &s->scratch, SG_U8, rgb.rank, rgb.dim);
    if (!c->host && !(c->host = s->memory->stage(s))) return;
    c->frames = (int)rgb.dim[0];
    c->bytes = sg_bytes(bytes);
    sg_count_non_finite(s, .y = non_finite, .x = rgb);
    sg_rgb8(s, .y = bytes, .x = rgb);
    sg_download(s, c->host, non_finite);
    sg_download(s, c->host + SG_ALIGN, bytes);
}

/* Gives what was asked for to the caller, when it has come. */
static sg_status emit_frames(sg_render *render, sg_stream *s, const chunk *c)
{
    int32_t count = 0;
    if (!s->status && s->memory->stages && s->memory->wait_stage(s, c->host)) sg_fail(s, SG_E_DEVICE, "no frames came");
    SG_TRY(sg_stage_status(s, "decoding", render->e));
    memcpy(&count, c->host, sizeof count);
    if (count)
        return sg_error_set(render->e, SG_E_NUMERIC, "decoding: NaN or infinity in the frames from number %d on",
                            c->first + 1);
    const uint8_t *frame = c->host + SG_ALIGN;
    for (int i = 0; render->cb->frame && i < c->frames; i++, frame += c->bytes / (size_t)c->frames) {
        SG_TRY(sg_stage_check(render));
        SG_TRY(sg_stage_called(render, render->cb->frame(render->cb->context, c->first + i, frame, render->e)));
    }
    return sg_stage_progress(render, SG_STAGE_DECODE, c->number, render->chunks);
}

/* Without `host` memory of its own the device decodes the next frames while the host is busy with those before. */
static sg_status decode_frames(sg_render *render, sg_stream *s, uint8_t *host, decoder *d)
{
    const bool ahead = !host;
    chunk      last = {0};
    SG_TRY(open_decoder(d, render, s));
    const int64_t all = d->z.dim[0];
    SG_TRY(sg_stage_progress(render, SG_STAGE_DECODE, 0, render->chunks));
    while (last.done < all) {
        const int64_t count = d->vae->ops->chunk(d->vae->of, all, last.done);
        chunk         now = {.host = host, .number = last.number + 1, .first = last.first + last.frames};
        now.done = last.done + (int)count;
        ask_frames(s, &now, decode(d, s, last.done, count), d->non_finite);
        if (ahead && last.done > 0) SG_TRY(emit_frames(render, s, &last));
        if (!ahead) SG_TRY(emit_frames(render, s, &now));
        last = now;
    }
    return ahead ? emit_frames(render, s, &last) : SG_OK;
}

static sg_status run_decoder(sg_render *render, const sg_phase *phase)
{
    const double start = sg_seconds();
    decoder      d = {0};
    sg_stream    s;
    SG_TRY(sg_stage_open(render, &s, phase));
    const size_t chunk_bytes = SG_ALIGN + render->frame_bytes, all = chunk_bytes * (size_t)render->chunks;
    /* what is traced is done in turn */
    const bool     ahead = !render->engine->trace && s.memory->stages && s.memory->stages(&s, chunk_bytes, all);
    uint8_t *const host = ahead ? NULL : malloc(chunk_bytes);
    sg_status      st = ahead || host ? decode_frames(render, &s, host, &d)
                                      : sg_error_set(render->e, SG_E_MEMORY, "no memory for frames");
    render->engine->components->vae.ops->decode_close(&d.run);
    sg_stage_close(render, &s);
    free(host);
    sg_stage_end(render, SG_STAGE_DECODE, start);
    return st;
}

sg_status sg_decoding_run(sg_render *render, const sg_phase *phase)
{
    sg_component *const component = sg_phase_component(render->engine->components, phase, 0);
    SG_TRY(sg_stage_load(render, component));
    SG_TRY(run_decoder(render, phase));
    sg_stage_release(render, component);
    return SG_OK;
}
