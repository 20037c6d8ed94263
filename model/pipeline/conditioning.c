/* conditioning.c - see engine_state.h. */
#include "engine_state.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sg_skips_layers(const sg_request *r, int steps, int step)
{
    return r->slg_scale > 0 && step > steps * r->skip_layer_start && step < steps * r->skip_layer_end;
}

static void forget(sg_text_states *t)
{
    free(t->ids);
    free(t->states);
    free(t->row);
    *t = (sg_text_states){0};
}

void sg_conditioning_free(sg_conditioning *c)
{
    for (int p = 0; p < SG_TEXT_PASSES; p++)
        for (int k = 0; k < SG_TEXTS_MAX; k++) forget(&c->text[p][k]);
}

/* How many tokens the whole text has beyond those that were taken, which are as many as the encoder takes. */
static sg_status count_cut(int *cut, const sg_text_source *source, const char *text, size_t size, sg_error *e)
{
    int32_t *ids = NULL;
    int      all = 0;
    SG_TRY(source->encoder.ops->tokenize(source->encoder.of, text, size, INT_MAX, &ids, &all, e));
    free(ids);
    *cut = all - source->tokens_max;
    return SG_OK;
}

static sg_status no_memory(sg_error *e) { return sg_error_set(e, SG_E_MEMORY, "no memory for token ids"); }

/* Fills the ids of t up to n with the encoder's pad. */
static sg_status fill_up(sg_text_states *t, const sg_text_encoder *encoder, int n, sg_error *e)
{
    int32_t *const ids = realloc(t->ids, (size_t)n * sizeof *ids);
    if (!ids) return no_memory(e);
    t->ids = ids;
    while (t->len < n) ids[t->len++] = encoder->ops->pad(encoder->of);
    return SG_OK;
}

/* t, which is zero, gets the ids of `text`, as the family gives it to the encoder. */
static sg_status tokenize(sg_text_states *t, const sg_family *f, const void *model, const sg_text_source *source,
                          int encoder, int pass, const char *text, sg_error *e)
{
    char  *changed = NULL;
    size_t size = strlen(text);
    if (f->prompt) SG_TRY(f->prompt(model, encoder, pass, text, &changed, &size, e));
    const char *const given = changed ? changed : text;
    sg_status         st = SG_OK;
    if (size || !source->none_for_empty)
        st = source->encoder.ops->tokenize(source->encoder.of, given, size, source->tokens_max, &t->ids, &t->len, e);
    t->tokens = t->len > source->before ? t->len - source->before : 0;
    if (!st && t->len >= source->tokens_max) st = count_cut(&t->cut, source, given, size, e);
    if (!st && source->padded) st = fill_up(t, &source->encoder, source->tokens_max, e);
    free(changed);
    return st;
}

/* The tokens of `text`, or, without one, len of any. States of the same tokens stay. */
static sg_status take_tokens(sg_text_states *t, const sg_family *f, const void *model, const sg_components *components,
                             int encoder, int pass, const char *text, int len, sg_error *e)
{
    sg_text_states now = {.len = text ? 0 : len, .tokens = text ? 0 : len};
    sg_status      st = SG_OK;
    if (text)
        st = tokenize(&now, f, model, &components->text[encoder], encoder, pass, text, e);
    else if (len && !(now.ids = calloc((size_t)len, sizeof *now.ids)))
        st = no_memory(e);
    if (st) {
        forget(&now);
        return st;
    }
    if (now.len && now.len == t->len && memcmp(now.ids, t->ids, (size_t)now.len * sizeof *now.ids) == 0) {
        now.states = t->states;
        now.row = t->row;
        t->states = t->row = NULL;
    }
    forget(t);
    *t = now;
    return SG_OK;
}

sg_status sg_conditioning_tokenize(sg_conditioning *c, const sg_family *f, const void *model,
                                   const sg_components *components, const sg_request *r, sg_error *e)
{
    const char *const negative = r->negative_prompt ? r->negative_prompt : "";
    c->passes = components->guidance != SG_GUIDANCE_NONE && r->cfg_scale > 1 ? 2 : 1; /* as many texts */
    c->guidance = r->guidance;
    for (int p = 0; p < SG_TEXT_PASSES; p++)
        for (int k = 0; k < components->texts; k++) {
            const bool        used = p < c->passes;
            const char *const text = used && r->prompt ? (p ? negative : r->prompt) : NULL;
            SG_TRY(take_tokens(&c->text[p][k], f, model, components, k, p, text,
                               used ? components->text[k].tokens_max : 0, e));
        }
    return SG_OK;
}

bool sg_conditioning_encoded(const sg_conditioning *c, int encoder)
{
    for (int p = 0; p < c->passes; p++)
        if (c->text[p][encoder].len && !c->text[p][encoder].states) return false;
    return true;
}

/* *host = y F32 [rows, width], which the encoder made. */
static void keep(float **host, sg_stream *s, sg_tensor y)
{
    const size_t n = (size_t)sg_count(y);
    free(*host);
    *host = calloc(n, sizeof **host);
    if (*host)
        sg_download(s, *host, y);
    else
        sg_fail(s, SG_E_MEMORY, "no memory for text states");
    for (size_t i = 0; !s->status && i < n; i++)
        if (!isfinite((*host)[i]))
            sg_fail(s, SG_E_NUMERIC, "the text encoder gave NaN or infinity for token %lld",
                    (long long)(i / (size_t)y.dim[1]));
}

void sg_conditioning_encode(sg_conditioning *c, const sg_components *components, int encoder, sg_stream *s)
{
    const sg_text_encoder *const of = &components->text[encoder].encoder;
    const int64_t                width = of->ops->width(of->of);
    const int64_t                pooled = of->ops->pooled ? of->ops->pooled(of->of) : 0;
    const bool                   computes = s->memory->alloc != NULL;
    for (int p = 0; p < c->passes; p++) {
        sg_text_states *const t = &c->text[p][encoder];
        if (!t->len || (computes && t->states)) continue;
        const size_t    mark = s->scratch.used;
        const sg_tensor y = sg_new(s, SG_F32, t->len, width);
        const sg_tensor row = pooled ? sg_new(s, SG_F32, 1, pooled) : (sg_tensor){0};
        of->ops->encode(of->of, s, y, row, t->ids, t->len);
        if (computes) keep(&t->states, s, y);
        if (computes && pooled) keep(&t->row, s, row);
        s->scratch.used = mark;
    }
    for (int p = 0; s->status && computes && p < SG_TEXT_PASSES; p++) forget(&c->text[p][encoder]);
}
