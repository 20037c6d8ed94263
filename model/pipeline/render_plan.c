/* render_plan.c - what a render needs, found by running the model on streams that compute nothing. */
#include "device.h"
#include "render.h"
#include "sized.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of bytes that a caller tells of so many count: more than there are, but sums of them have room. */
static const size_t TOLD = SIZE_MAX / 8;

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static bool native_bf16(const sg_engine *engine) { return engine->act == SG_BF16 && engine->backend->dtype == SG_BF16; }

/* Notes for the keeper what a component takes in phase i. */
static sg_kept *note_weights(sg_render *render, sg_component *c, int i, uint64_t unpacked, int offload)
{
    const sg_engine *const engine = render->engine;
    const size_t           size = native_bf16(engine) ? sizeof(uint16_t) : sizeof(float);
    sg_kept *const         w = sg_keeper_find(&render->engine->keeper, c);
    sg_bind_offload(c->bind, offload);
    w->phases |= 1u << i;
    w->bytes.device = sg_bind_bytes(c->bind, engine->backend, &w->bytes.mapped);
    w->bytes.host = sg_bind_host_bytes(c->bind, engine->backend);
    const uint64_t numbers = sg_bind_packed_numbers(c->bind, engine->backend);
    w->bytes.packed = engine->backend->packs && numbers > unpacked ? (size_t)(numbers - unpacked) * size : 0;
    return w;
}

static int most_blocks(const sg_render *render, const sg_phase *phase)
{
    const sg_component *c;
    int                 most = 0;
    for (int k = 0; (c = sg_phase_component(render->engine->components, phase, k)) != NULL; k++)
        if (sg_bind_blocks(c->bind) > most) most = sg_bind_blocks(c->bind);
    return most;
}

/* With so many blocks of layers of each component on the host. */
static void plan_weights(sg_render *render, int i, sg_phase_plan *out, const sg_plan_totals *t, int offload)
{
    const sg_phase *const phase = &render->phase[i];
    const uint64_t        unpacked = phase->kind == SG_PHASE_MODULATION
                                         ? UINT64_MAX /* they are read row by row */
                                         : t->thin + (phase->kind == SG_PHASE_TEXT ? t->table : 0);
    sg_component *const   preview = phase->kind == SG_PHASE_DENOISE ? sg_preview_component(render) : NULL;
    sg_component         *c;
    for (int k = 0; (c = sg_phase_component(render->engine->components, phase, k)) != NULL; k++)
        note_weights(render, c, i, unpacked, offload);
    if (preview) note_weights(render, preview, i, 0, 0)->beside = true;
    const sg_weight_bytes now = sg_keeper_during(&render->engine->keeper, i, false);
    out->weights = now.device;
    out->mapped = now.mapped;
    out->packed = now.packed;
    out->host = now.host;
    const int blocks = most_blocks(render, phase);
    out->blocks_on_host = !now.host ? 0 : offload < blocks ? offload : blocks;
}

/* Checks what is to be captured. Of several denoisers only one is at work in a step. */
static sg_status check_capture(const sg_render *render)
{
    const sg_components *const components = render->engine->components;
    if (!render->request->capture_out || render->request->latents_in) return SG_OK;
    const int at = sg_denoiser_at(components, render->sampler.timestep[render->request->capture_step]);
    const int first = sg_first_layer(components, at), end = first + components->denoiser[at].layers;
    if (render->request->capture_layer >= first && render->request->capture_layer < end) return SG_OK;
    return sg_error_set(render->e, SG_E_ARG, "capture_out: layer %d does not run at step %d, but %d to %d do",
                        render->request->capture_layer, render->request->capture_step, first, end - 1);
}

/* Whether the video's tokens stand in the same places, so that one mask of blocks serves both: that for the longer one,
 * which has more text behind. */
static bool same_places(const sg_attention_shape *a, const sg_attention_shape *b)
{
    return a->text_prefix == b->text_prefix && a->n - a->text_suffix == b->n - b->text_suffix;
}

/* The one tensor of the file that the policy names. */
static sg_status read_mask(sg_render *render, sg_tensor *out)
{
    const char *const path = render->request->attention.mask;
    SG_TRY(sg_source_open(&render->mask, path, render->e));
    if (sg_source_count(render->mask) == 1) *out = sg_source_view(render->mask, 0);
    if (out->rank == 3 && out->dtype == SG_U8 && sg_count(*out) > 0) return SG_OK;
    return sg_error_set(
        render->e, SG_E_FORMAT,
        "%s: a mask of blocks should be one tensor, U8 or BOOL [heads or 1, blocks of queries, blocks of keys]", path);
}

/* Those of the file that the policy names, and for the plan what it has. */
static sg_status read_thresholds(sg_render *render, const sg_thresholds **out, sg_plan *plan)
{
    const sg_engine *const          engine = render->engine;
    const char *const               path = render->request->attention.thresholds;
    const bool                      own = !engine->tuned_path || strcmp(path, engine->tuned_path) != 0;
    const sg_thresholds_file *const f = own ? &render->tuned : &engine->tuned;
    if (own) SG_TRY(sg_thresholds_read(&render->tuned, path, render->e));
    *out = &f->values;
    plan->thresholds.rule = f->values.rule;
    plan->thresholds.buckets = f->values.buckets;
    plan->thresholds.layers = f->values.layers;
    plan->thresholds.heads = f->values.heads;
    plan->thresholds.hash = f->hash;
    memcpy(plan->thresholds.model, f->model, sizeof f->model);
    plan->thresholds.spargeattn = f->spargeattn;
    plan->thresholds.has_policy = f->has_policy;
    plan->thresholds.tail = f->policy.tail;
    plan->thresholds.score = f->policy.score;
    plan->thresholds.tail_bias = f->policy.tail_bias;
    plan->thresholds.order = f->policy.order;
    return (*out)->layers ? SG_OK : sg_error_set(render->e, SG_E_FORMAT, "thresholds: %s: has none of attention", path);
}

/* Who looks at attention: the engine's watch, and what the request asks for in front of it. */
static void watch(sg_render *render, sg_attention_watch *w)
{
    *w = render->engine->watch;
    if (render->request->capture_out) {
        render->capture = (sg_capture){.layer = render->request->capture_layer,
                                       .step = render->request->capture_step,
                                       .next = w->on_begin,
                                       .next_context = w->on_begin_context};
        w->on_begin = sg_capture_hook;
        w->on_begin_context = &render->capture;
    }
    if (!render->request->attention_error) return;
    w->on_end = sg_attention_error_hook;
    w->on_end_context = &render->error;
}

/* Asks the family for the shape [passes][layers] of every self-attention; the rest is as in `all`. */
static void read_layout(const sg_render *render, sg_attention_shape *shape, const sg_attention_shape *all)
{
    const sg_engine *const engine = render->engine;
    const int              layers = all->layers, count = all->passes * layers;
    for (int i = 0; i < count; i++) {
        shape[i] = *all;
        engine->family->attention(engine->model, &render->geometry, &engine->texts, i / layers % engine->texts.passes,
                                  i % layers, &shape[i]);
    }
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            if (same_places(&shape[k], &shape[i]) && shape[k].n > shape[i].masked) shape[i].masked = shape[k].n;
}

void sg_plan_attention(sg_plan *out, const sg_policy *p, const sg_attention *longest)
{
    if (out->group < (p->named ? SG_NAMED_TOKENS : SG_TOKENS)) out->short_layers = out->grouped;
    for (int i = 0; i < out->steps; i++) {
        out->attention_why = SG_WHY_POLICY;
        for (int l = 0; l < out->layers; l++) {
            sg_attention_why why;
            if (sg_attention_kind_of(longest, l, i, &why) != SG_ATTENTION_DENSE) out->attention_kind = p->kind;
            if (why != SG_WHY_LAYER) out->attention_why = why;
        }
        out->attention_steps += out->attention_why == SG_WHY_POLICY && p->kind != SG_ATTENTION_DENSE;
    }
}

/* The policy of the request and the shapes of the model, made one. */
static sg_status bind_attention(sg_render *render, sg_plan *out)
{
    const sg_components *const components = render->engine->components;
    const sg_policy *const     policy = &render->request->attention;
    const int          passes = sg_denoising_passes(render), layers = sg_first_layer(components, components->denoisers);
    double             timesteps[SG_STEPS_MAX];
    sg_attention_shape all = {.passes = passes,
                              .layers = layers,
                              .steps = render->sampler.steps,
                              .values = render->engine->backend->values,
                              .f8 = render->engine->backend->f8,
                              .timesteps = timesteps};
    for (int i = 0; i < render->sampler.steps; i++) timesteps[i] = sg_sampler_of_1000(&render->sampler, i);
    SG_TRY(check_capture(render));
    if (policy->thresholds) SG_TRY(read_thresholds(render, &all.tuned, out));
    if (policy->mask) SG_TRY(read_mask(render, &all.mask));
    watch(render, &all.watch);
    sg_attention_shape *const shape = malloc((size_t)(passes * layers) * sizeof *shape);
    if (!shape) return sg_error_set(render->e, SG_E_MEMORY, "no memory for the shapes of %d layers", layers);
    read_layout(render, shape, &all);
    const sg_status st = sg_self_attention_open(&render->self, policy, shape, render->e);
    free(shape);
    if (st) return st;
    render->self.ordered =
        (sg_self_attention_skips(&render->self) || render->engine->watch.on_begin) && policy->order != SG_ORDER_ROW;
    out->layers = layers;
    out->steps = all.steps;
    int longest = 0;
    for (int k = 0; k < render->self.shapes; k++)
        if (render->self.shape[k].n > render->self.shape[longest].n) longest = k;
    out->tokens = render->self.shape[longest].n;
    for (int i = 0; i < layers; i++) {
        const sg_attention_shape *const x = sg_self_attention_shape(&render->self, 0, i);
        if (x->groups.count < 2) continue;
        if (x->n > out->group) out->group = x->n;
        out->grouped++;
    }
    sg_plan_attention(out, policy, render->self.bound[longest]);
    return SG_OK;
}

/* Returns the bytes of q, k, v and a copy of one that is put back in order. */
static size_t captured_bytes(const sg_render *render)
{
    if (!render->request->capture_out) return 0;
    const sg_attention_shape *const x = sg_self_attention_shape(&render->self, 0, render->request->capture_layer);
    return (size_t)(2 * x->h + 2 * x->hk) * (size_t)x->n * (size_t)x->d * sg_dtype_size(render->engine->act);
}

/* Of the request's pictures and its start, and of what modulates its steps. */
static size_t input_bytes(const sg_render *render)
{
    const sg_request *const r = render->request;
    const size_t            frame = (size_t)r->width * (size_t)r->height * 3;
    size_t                  bytes = sg_modulation_bytes(render);
    if (sg_request_start(r)) bytes += (size_t)r->frames * frame;
    for (int i = 0; i < render->geometry.images; i++)
        bytes += frame + (size_t)r->image[i].whole_width * (size_t)r->image[i].whole_height * 3;
    return bytes;
}

/* What every phase needs beside its weights and its work. */
static size_t beside(const sg_plan *p) { return p->staging + p->input + p->output + p->preview; }

/* Puts as few blocks on the host as leave room for the rest, or all of them. The device has room for two of them, so
 * that fewer than three save nothing. */
static void fit_weights(sg_render *render, int i, sg_phase_plan *out, const sg_plan_totals *t, size_t room)
{
    int most = most_blocks(render, &render->phase[i]), least = most < 3 ? most : 3;
    while (least < most) {
        const int half = (least + most) / 2;
        plan_weights(render, i, out, t, half);
        if (out->weights <= room)
            most = half;
        else
            least = half + 1;
    }
    plan_weights(render, i, out, t, most);
}

/* What the weights of each phase take, with the blocks on the host that have to be there, and what follows from it. */
static void sum_memory(sg_render *render, sg_plan *p, const sg_plan_totals *t)
{
    const sg_offload asked = render->engine->offload;
    p->need = p->staging = 0;
    sg_keeper_begin(&render->engine->keeper);
    for (int i = 0; i < p->phases; i++) p->staging = larger(p->staging, sg_device_staged(&t[i]) + t[i].weight);
    for (int i = 0; i < p->phases; i++) {
        sg_phase_plan *const out = &p->phase[i];
        const bool           all = asked == SG_OFFLOAD_ON && render->phase[i].kind == SG_PHASE_DENOISE;
        const size_t         taken = out->work + beside(p);
        plan_weights(render, i, out, &t[i], all ? INT_MAX : 0);
        if (asked != SG_OFFLOAD_OFF && out->weights + taken > p->available)
            fit_weights(render, i, out, &t[i], p->available > taken ? p->available - taken : 0);
        p->need = larger(p->need, out->weights + out->work + beside(p));
    }
}

/* What stays, and what the system will show, phase by phase. */
static void plan_peaks(sg_render *render, sg_plan *p, const sg_plan_totals *t)
{
    sg_keeper *const keeper = &render->engine->keeper;
    size_t           most = 0;
    sg_keeper_choose(keeper, p, beside(p));
    for (int i = 0; i < p->phases; i++)
        most = larger(most, sg_keeper_during(keeper, i, true).device + p->phase[i].work + beside(p));
    const size_t limit = render->packed_limit =
        smaller(render->engine->backend->total_bytes / 8, most < p->available ? p->available - most : 0);
    for (int i = 0; i < p->phases; i++) {
        sg_phase_plan *const  phase = &p->phase[i];
        const sg_weight_bytes now = sg_keeper_during(keeper, i, false);
        const size_t          packed = smaller(now.packed, limit);
        phase->packed = smaller(phase->packed, packed);
        phase->peak = p->base + p->input + now.device + now.mapped + packed + phase->work + sg_device_staged(&t[i]);
        if (packed < now.packed) phase->peak += t[i].weight;
        if (render->phase[i].kind == SG_PHASE_DECODE) phase->peak += p->output;
        if (render->phase[i].kind == SG_PHASE_DENOISE) phase->peak += p->preview;
        p->peak = larger(p->peak, phase->peak);
        p->host = larger(p->host, now.host);
    }
}

/* A phase tells its units on the plan. */
static bool count_units(void *phase, int done, int total)
{
    (void)done;
    ((sg_phase *)phase)->units = total;
    return false;
}

/* The phase on a stream that computes nothing. */
static sg_status plan_phase(sg_render *render, sg_phase *phase, sg_phase_plan *out, sg_plan_totals *t)
{
    const sg_engine *const engine = render->engine;
    *t = (sg_plan_totals){.backend = engine->backend};
    sg_stream s = sg_plan_stream(t);
    s.cancel = &engine->cancel;
    if (phase->kind == SG_PHASE_DENOISE) s.rows_at_once = render->rows_at_once;
    snprintf(out->name, sizeof out->name, "%s", phase->name);
    out->number = phase->kind == SG_PHASE_TEXT ? phase->index + 1 : 1;
    out->stage = phase->stage;
    phase->units = 1;
    switch (phase->kind) {
    case SG_PHASE_DENOISE: SG_TRY(sg_denoising_plan(render, &s, t)); break;
    case SG_PHASE_DECODE: SG_TRY(sg_decoding_plan(render, &s, t)); break;
    default: sg_encoding_compute(render, phase, &s, (sg_watch){count_units, phase});
    }
    SG_TRY(sg_stage_status(&s, "planning", render->e));
    phase->keep = s.keep.peak;
    phase->scratch = s.scratch.peak;
    out->work = s.keep.peak + s.scratch.peak;
    out->flops = t->flops;
    return SG_OK;
}

static bool of_vae(const sg_phase *phase) { return phase->kind == SG_PHASE_START || phase->kind == SG_PHASE_DECODE; }

/* The most that decoding, or encoding the start, works with; weights: with what they load. */
static size_t work_of_vae(const sg_render *render, const sg_plan *p, bool weights)
{
    size_t most = 0;
    for (int i = 0; i < p->phases; i++)
        if (of_vae(&render->phase[i])) most = larger(most, (weights ? p->phase[i].weights : 0) + p->phase[i].work);
    return most;
}

/* All phases, or those of the VAE, in tiles where it is so and can work in them. */
static sg_status plan_phases(sg_render *render, sg_plan *p, sg_plan_totals *t, bool tiled, bool all)
{
    const sg_vae *const v = &render->engine->components->vae;
    render->tiled = v->ops->set_tiles && v->ops->set_tiles(v->of, tiled) && tiled;
    for (int i = 0; i < p->phases; i++)
        if (all || of_vae(&render->phase[i])) SG_TRY(plan_phase(render, &render->phase[i], &p->phase[i], &t[i]));
    sum_memory(render, p, t);
    return SG_OK;
}

/* What of decoding, and of encoding the start, does not fit is put into tiles, unless these take no less. */
static sg_status plan_tiles(sg_render *render, sg_plan *p, sg_plan_totals *t)
{
    const sg_vae *const v = &render->engine->components->vae;
    const size_t        whole = work_of_vae(render, p, false);
    if (render->request->vae_tiling == SG_TILING_ON && !render->tiled)
        return sg_error_set(render->e, SG_E_ARG, "vae_tiling: the decoder of this model, %s, does not work in tiles",
                            v->ops->component(v->of)->class_name);
    if (render->request->vae_tiling != SG_TILING_AUTO || !v->ops->set_tiles) return SG_OK;
    if (work_of_vae(render, p, true) + beside(p) <= p->available) return SG_OK;
    SG_TRY(plan_phases(render, p, t, true, false));
    if (!render->tiled || work_of_vae(render, p, false) >= whole) return plan_phases(render, p, t, false, false);
    p->untiled = whole;
    return SG_OK;
}

/* A denoiser that does not fit, or not without blocks on the host that nobody asked for, works on its tokens in
 * pieces of at most ROWS, or of half of them, where that takes less memory: it changes nothing but time. */
static sg_status plan_rows(sg_render *render, sg_plan *p, sg_plan_totals *t)
{
    enum { ROWS = 8192, TILE = 128 };
    const sg_engine *const engine = render->engine;
    int                    i = 0;
    while (i < p->phases && render->phase[i].kind != SG_PHASE_DENOISE) i++;
    if (i == p->phases || (engine->backend->process_memory && !engine->rows_at_once)) return SG_OK;
    sg_phase_plan *const out = &p->phase[i];
    const size_t         whole = out->work;
    const bool           fits = out->weights + whole + beside(p) <= p->available;
    if (fits && (!out->host || engine->offload == SG_OFFLOAD_ON) && !engine->rows_at_once) return SG_OK;
    const int64_t half = sg_div_up(p->tokens, 2 * TILE) * TILE;
    render->rows_at_once = engine->rows_at_once ? engine->rows_at_once : half < ROWS ? half : ROWS;
    SG_TRY(plan_phase(render, &render->phase[i], out, &t[i]));
    if (out->work >= whole && !engine->rows_at_once) {
        render->rows_at_once = 0;
        SG_TRY(plan_phase(render, &render->phase[i], out, &t[i]));
    }
    p->rows_at_once = render->rows_at_once;
    sum_memory(render, p, t);
    return SG_OK;
}

/* Where several encoders read a text, the one that reads the most counts. */
static void note_texts(const sg_engine *engine, sg_plan *out)
{
    for (int p = 0; p < engine->texts.passes; p++)
        for (int k = 0; k < engine->components->texts; k++) {
            const sg_text_states *const t = &engine->texts.text[p][k];
            if (t->tokens < out->text_tokens[p]) continue;
            out->text_tokens[p] = t->tokens;
            out->cut[p] = t->cut;
        }
}

sg_status sg_render_sampler(sg_sampler *out, const sg_engine *engine, const sg_request *r, sg_error *e)
{
    const sg_geometry geometry = sg_geometry_of(engine->components, r);
    sg_sampler_config config = engine->components->sampler;
    config.kind = r->sampler;
    config.flow_shift = r->flow_shift;
    memcpy(&config.sigmas, &r->sigmas, sizeof config.sigmas);
    config.sigmas_old = r->sigmas_old;
    const int64_t *const grid = geometry.grid;
    config.tokens = grid[0] * grid[1] * grid[2];
    SG_TRY(sg_sampler_init(out, &config, r->steps, e));
    sg_sampler_skip(out, r->steps - sg_request_steps(r));
    return SG_OK;
}

sg_status sg_render_plan(sg_render *render, sg_plan *out)
{
    sg_engine *const        engine = render->engine;
    const sg_request *const r = render->request;
    sg_conditioning *const  texts = &engine->texts;
    const size_t            preview = sg_preview_bytes(render);
    sg_plan_totals          t[SG_PHASES_MAX];
    *out = (sg_plan){.size = sizeof *out};

    SG_TRY(sg_render_sampler(&render->sampler, engine, r, render->e));
    render->geometry = sg_geometry_of(engine->components, r);
    memcpy(out->latent, render->geometry.latent, sizeof out->latent);
    out->flow_shift = render->sampler.config.flow_shift;
    SG_TRY(sg_conditioning_tokenize(texts, engine->family, engine->model, engine->components, r, render->e));
    note_texts(engine, out);
    SG_TRY(bind_attention(render, out));
    if (render->report) {
        render->report->prompt_tokens = texts->text[0][0].tokens;
        render->report->negative_tokens = texts->text[1][0].tokens;
    }
    if (engine->backend->process_memory) {
        out->output = smaller(r->output_bytes, TOLD) + captured_bytes(render);
        if (r->cache == SG_CACHE_SHADOW) out->output += sg_latents_bytes(render);
        out->input = input_bytes(render);
        out->preview = preview ? smaller(r->preview_bytes, TOLD) + preview : 0;
    }
    out->available = engine->memory_limit ? engine->memory_limit : engine->backend->total_bytes;
    out->host_free = engine->backend->host_bytes;
    render->phases = out->phases = sg_phases_of(engine->components, r, render->phase);
    SG_TRY(plan_phases(render, out, t, r->vae_tiling == SG_TILING_ON, true));
    SG_TRY(plan_tiles(render, out, t));
    SG_TRY(plan_rows(render, out, t));
    out->chunks = render->chunks;
    out->base = engine->base_bytes;
    if (out->need <= out->available) /* kernels are compiled for what fits alone */
        out->base += sg_backend_code_bytes(engine->backend);
    plan_peaks(render, out, t);
    return SG_OK;
}

/* "text 1.00 + 0.20, denoising 2.00 + 0.40": weights and activations of each phase, in GiB. */
static void phases_text(char *text, size_t size, const sg_plan *p)
{
    static const char *const work[SG_STAGES] = {[SG_STAGE_DENOISE] = "denoising", [SG_STAGE_DECODE] = "decoding"};
    const double             gib = 1.0 / (1 << 30);
    size_t                   n = 0;
    for (int i = 0; i < p->phases && n < size; i++) {
        const sg_phase_plan *const phase = &p->phase[i];
        char                       number[16] = "";
        if (phase->number > 1) snprintf(number, sizeof number, " %d", phase->number);
        n += (size_t)snprintf(text + n, size - n, "%s%s%s %.2f + %.2f", i ? ", " : "",
                              work[phase->stage] ? work[phase->stage] : phase->name, number,
                              (double)phase->weights * gib, (double)phase->work * gib);
    }
}

sg_status sg_plan_fits(const sg_plan *given, sg_error *e)
{
    const double   gib = 1.0 / (1 << 30);
    sg_plan        own;
    const sg_plan *p = &own;
    SG_TRY(sg_sized_take(&own, sizeof own, given, "sg_plan", e));
    if (p->host > p->host_free)
        return sg_error_set(e, SG_E_MEMORY,
                            "offload: %.2f GiB of weights stay on the host, which has %.2f GiB free. Quantised weights "
                            "as the file has them or dtype bf16 take less.",
                            (double)p->host * gib, (double)p->host_free * gib);
    if (p->need <= p->available) return SG_OK;
    char text[256];
    phases_text(text, sizeof text, p);
    return sg_error_set(e, SG_E_MEMORY,
                        "this render needs %.2f GiB, but %.2f GiB may be used (weights + activations in GiB: %s). A "
                        "smaller size, fewer frames, quantised weights as the file has them or dtype bf16 take less.",
                        (double)p->need * gib, (double)p->available * gib, text);
}
