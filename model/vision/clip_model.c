/* clip_model.c - see clip_model.h. */
#include "base/hash.h"
#include "base/thread.h"
#include "bpe_tokenizer.h"
#include "clip_text.h"
#include "clip_vision.h"
#include "meta.h"
#include "sized.h"
#include "spargegen/spargegen.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sg_clip_model {
    sg_checkpoint    *checkpoint;
    sg_backend       *backend;
    sg_bpe_tokenizer *tokenizer;
    sg_clip_text     *text;
    sg_clip_vision   *vision;
    uint64_t          hash;
    size_t            scratch; /* bytes that the larger pass takes */
    sg_stream         stream;  /* its scratch is owned; without one nothing is loaded */
    char              about[400];
};

/* ---- opening ---- */

static sg_status open_tokenizer(sg_clip_model *m, sg_error *e)
{
    const char *const       path = sg_checkpoint_path(m->checkpoint);
    const sg_clip_text_info text = sg_clip_text_describe(m->text);
    SG_TRY(sg_bpe_tokenizer_open(&m->tokenizer, path, e));
    const int ids = sg_bpe_tokenizer_vocab(m->tokenizer), fixed = sg_bpe_tokenizer_fixed(m->tokenizer);
    if (ids > text.vocab)
        return sg_error_set(e, SG_E_FORMAT, "%s: the tokenizer has %d ids, but the text encoder's table only %d rows",
                            path, ids, text.vocab);
    if (fixed >= text.tokens)
        return sg_error_set(
            e, SG_E_FORMAT,
            "%s: max_position_embeddings: %d leaves no place for a text, which the tokenizer puts %d ids around", path,
            text.tokens, fixed);
    return SG_OK;
}

/* Both passes without computing: t and the peak of the scratch. */
static sg_status plan(const sg_clip_model *m, sg_plan_totals *t, size_t *scratch, sg_error *e)
{
    const sg_clip_text_info text = sg_clip_text_describe(m->text);
    sg_stream               s = sg_plan_stream(t);
    const sg_tensor row = sg_new(&s, SG_F32, 1, text.pooled), states = sg_new(&s, SG_F32, text.tokens, text.width);
    int32_t *const  ids = calloc((size_t)text.tokens, sizeof *ids);
    if (!ids) return sg_error_set(e, SG_E_MEMORY, "no memory for %d tokens", text.tokens);
    sg_clip_text_encode(m->text, &s, states, row, ids, text.tokens);
    sg_clip_vision_row(m->vision, &s, row, NULL, 0, 0);
    free(ids);
    *scratch = s.scratch.peak;
    return s.status ? sg_error_set(e, s.status, "%s: %s", sg_checkpoint_path(m->checkpoint), s.why) : SG_OK;
}

static sg_status check_memory(sg_clip_model *m, size_t limit, sg_error *e)
{
    const double   gib = 1.0 / (1 << 30);
    sg_plan_totals t = {.backend = m->backend};
    SG_TRY(plan(m, &t, &m->scratch, e));
    const size_t weights = sg_bind_bytes(sg_clip_text_component(m->text)->bind, m->backend, NULL) +
                           sg_bind_bytes(sg_clip_vision_component(m->vision)->bind, m->backend, NULL);
    const size_t work = m->scratch + t.staged[0] + t.staged[1] + t.attended + t.weight;
    const size_t may = limit ? limit : m->backend->total_bytes;
    if (weights + work > may)
        return sg_error_set(e, SG_E_MEMORY,
                            "%s: CLIP needs %.3f GiB, but %.3f GiB may be used (weights %.3f, activations %.3f)",
                            sg_checkpoint_path(m->checkpoint), (double)(weights + work) * gib, (double)may * gib,
                            (double)weights * gib, (double)work * gib);
    sg_backend_limit_packed(m->backend, may - weights - work);
    return SG_OK;
}

static sg_status open_all(sg_clip_model *m, const char *folder, const sg_engine_options *o, sg_error *e)
{
    const sg_backend_options b = {.name = o->backend ? o->backend : "auto",
                                  .threads = o->threads,
                                  .cpu_mask = o->cpu_mask,
                                  .gpu_mask = o->gpu_mask,
                                  .device = o->device,
                                  .local_rank = o->local_rank};
    SG_TRY(sg_checkpoint_open_clip(&m->checkpoint, folder, e));
    SG_TRY(sg_clip_text_open(&m->text, m->checkpoint, "text_encoder", true, 0, SG_F32, e));
    SG_TRY(open_tokenizer(m, e));
    SG_TRY(sg_clip_vision_open(&m->vision, m->checkpoint, "image_encoder", true, SG_F32, e));
    m->hash = sg_source_hash(sg_clip_text_component(m->text)->source, SG_HASH); /* of all of the file's tensors */
    m->hash = sg_clip_vision_hash(m->vision, m->hash);
    SG_TRY(sg_backend_open(&m->backend, &b, e));
    snprintf(m->about, sizeof m->about, "%s (pictures: %.90s; texts: %.90s)", m->backend->device,
             sg_clip_vision_component(m->vision)->summary, sg_clip_text_component(m->text)->summary);
    return check_memory(m, o->memory_limit, e);
}

sg_status sg_clip_model_open(sg_clip_model **out, const char *folder, const sg_engine_options *o, sg_error *e)
{
    sg_engine_options own;
    *out = NULL;
    SG_TRY(sg_sized_take(&own, sizeof own, o, "sg_engine_options", e));
    sg_clip_model *m = calloc(1, sizeof *m);
    if (!m) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    const sg_status status = open_all(m, folder, &own, e);
    if (status) sg_clip_model_close(&m);
    *out = m;
    return status;
}

void sg_clip_model_close(sg_clip_model **m)
{
    sg_clip_model *const c = *m;
    if (!c) return;
    if (c->backend) sg_backend_make_current(c->backend);
    if (c->stream.scratch.base) c->stream.memory->release(c->backend, (void *)c->stream.scratch.base);
    sg_clip_vision_close(&c->vision);
    sg_clip_text_close(&c->text);
    sg_bpe_tokenizer_close(&c->tokenizer);
    sg_checkpoint_close(&c->checkpoint);
    sg_backend_close(&c->backend);
    free(c);
    *m = NULL;
}

int sg_clip_model_size(const sg_clip_model *m) { return sg_clip_text_describe(m->text).pooled; }

int sg_clip_model_tokens(const sg_clip_model *m) { return sg_clip_text_describe(m->text).tokens; }

uint64_t sg_clip_model_hash(const sg_clip_model *m) { return m->hash; }

const char *sg_clip_model_describe(const sg_clip_model *m) { return m->about; }

const char *sg_clip_model_passed(const sg_clip_model *m) { return m->backend->passed; }

/* ---- rows ---- */

/* Enters the device; with the first row come the weights. */
static sg_status start(sg_clip_model *m, sg_error *e)
{
    sg_component *const part[] = {sg_clip_text_component(m->text), sg_clip_vision_component(m->vision)};
    SG_TRY(sg_thread_check_fork(e));
    sg_backend_make_current(m->backend);
    if (m->stream.scratch.base) return SG_OK;
    for (int i = 0; i < 2; i++) SG_TRY(sg_bind_load(part[i]->bind, m->backend, NULL, NULL, e));
    m->stream = sg_stream_of(m->backend);
    void *const block = m->backend->memory->alloc(m->backend, m->scratch);
    if (!block) return sg_error_set(e, SG_E_MEMORY, "the device cannot give %zu bytes", m->scratch);
    m->stream.scratch = (sg_arena){.base = (uintptr_t)block, .cap = m->scratch};
    return SG_OK;
}

static sg_status to_length_1(float *row, int n, const char *what, sg_error *e)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)row[i] * (double)row[i];
    if (!isfinite(sum) || sum <= 0)
        return sg_error_set(e, SG_E_NUMERIC, "CLIP: the row of a %s is %s", what,
                            isfinite(sum) ? "zero throughout" : "not finite");
    for (int i = 0; i < n; i++) row[i] = (float)(row[i] / sqrt(sum));
    return SG_OK;
}

/* What the stream has come to, in row; the stream is as new. */
static sg_status fetch(sg_clip_model *m, float *row, sg_tensor from, const char *what, sg_error *e)
{
    sg_stream *const s = &m->stream;
    sg_download(s, row, from);
    const sg_status status = s->status;
    if (status) sg_error_set(e, status, "CLIP: a %s: %s", what, s->why);
    s->scratch.used = 0;
    s->status = SG_OK;
    return status ? status : to_length_1(row, sg_clip_model_size(m), what, e);
}

static sg_status tokenize(const sg_clip_model *m, const char *text, int32_t **ids, int *count, int *cut, sg_error *e)
{
    const int    most = sg_clip_model_tokens(m);
    const size_t size = strlen(text);
    int32_t     *whole = NULL;
    int          all = 0;
    SG_TRY(sg_bpe_tokenizer_encode(m->tokenizer, text, size, INT_MAX, &whole, &all, e));
    free(whole);
    if (cut) *cut = all > most ? all - most : 0;
    return sg_bpe_tokenizer_encode(m->tokenizer, text, size, most, ids, count, e);
}

sg_status sg_clip_model_text(sg_clip_model *m, const char *text, float *row, int *cut, sg_error *e)
{
    const sg_clip_text_info info = sg_clip_text_describe(m->text);
    sg_stream *const        s = &m->stream;
    int32_t                *ids = NULL;
    int                     n = 0;
    SG_TRY(start(m, e));
    SG_TRY(tokenize(m, text, &ids, &n, cut, e));
    const sg_tensor y = sg_new(s, SG_F32, 1, info.pooled), states = sg_new(s, SG_F32, n, info.width);
    sg_clip_text_encode(m->text, s, states, y, ids, n);
    free(ids);
    return fetch(m, row, y, "text", e);
}

sg_status sg_clip_model_picture(sg_clip_model *m, const uint8_t *rgb, int width, int height, float *row, sg_error *e)
{
    sg_stream *const s = &m->stream;
    if (width < 1 || height < 1)
        return sg_error_set(e, SG_E_ARG, "CLIP: a picture of %dx%d has no pixels", width, height);
    SG_TRY(start(m, e));
    const sg_tensor y = sg_new(s, SG_F32, 1, sg_clip_model_size(m));
    sg_clip_vision_row(m->vision, s, y, rgb, width, height);
    return fetch(m, row, y, "picture", e);
}
