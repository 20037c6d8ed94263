/* engine_info.c - what an engine tells of itself: its model, and what attention did. */
#include "base/hash.h"
#include "engine_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const sg_attention_count *sg_engine_attention(const sg_engine *engine, int *steps, int *passes, int *layers)
{
    *steps = engine->steps;
    *passes = engine->passes;
    *layers = engine->layers;
    return engine->count;
}

int sg_engine_unknown_words(const sg_engine *engine, const char *text, char *list, size_t size)
{
    return sg_vocabulary_unknown(&engine->vocabulary, text, list, size);
}

enum { TYPES_MAX = 24 }; /* of one component that are counted one by one */

typedef struct type_share {
    const char *name;
    uint64_t    bytes;
} type_share;

static int by_share(const void *a, const void *b)
{
    const uint64_t x = ((const type_share *)a)->bytes, y = ((const type_share *)b)->bytes;
    return (x < y) - (x > y);
}

/* The types of the weights as they are on disk, most bytes first. */
static void describe_types(sg_component_info *c, const sg_component *p)
{
    type_share type[TYPES_MAX] = {{0}};
    int        types = 0;
    for (size_t i = 0; i < sg_source_count(p->source); i++) {
        const sg_source_tensor *const t = sg_source_at(p->source, i);
        uint64_t                      n = 1;
        int                           k = 0;
        for (int d = 0; d < t->rank; d++) n *= (uint64_t)t->dim[d];
        c->parameters += n;
        while (k < types && strcmp(type[k].name, t->type->name) != 0) k++;
        if (k == TYPES_MAX) continue;
        if (k == types) type[types++].name = t->type->name;
        type[k].bytes += t->bytes;
    }
    qsort(type, (size_t)types, sizeof *type, by_share);
    if (types) snprintf(c->dtype, sizeof c->dtype, "%s", type[0].name);
    size_t n = 0;
    for (int k = 0; k < types && n < sizeof c->types; k++) {
        const double mib = (double)type[k].bytes / 0x1p20, factor = mib >= 1000 ? 0x1p-10 : mib < 1 ? 1024 : 1;
        const char  *unit = mib >= 1000 ? "GiB" : mib < 1 ? "KiB" : "MiB";
        n += (size_t)snprintf(c->types + n, sizeof c->types - n, "%s%s %.3g %s", k ? ", " : "", type[k].name,
                              mib * factor, unit);
    }
}

static sg_component_info describe(const sg_component *p)
{
    sg_component_info c = {.size = sizeof c, .bytes = sg_source_bytes(p->source), .files = sg_source_files(p->source)};
    snprintf(c.name, sizeof c.name, "%s", p->name);
    snprintf(c.class_name, sizeof c.class_name, "%s", p->class_name);
    snprintf(c.summary, sizeof c.summary, "%s", p->summary);
    snprintf(c.place, sizeof c.place, "%s", sg_source_path(p->source));
    describe_types(&c, p);
    return c;
}

enum { COMPONENTS_MAX = SG_TEXTS_MAX + SG_ADDED_MAX + SG_DENOISERS_MAX + 1 };

/* Lists the components of a model, in the order of their work. A VAE whose encoder has a phase of its own is listed
 * once, as the decoder, and a denoiser whose modulations have one as the denoiser. */
static int list_components(const sg_components *components, const sg_component *list[COMPONENTS_MAX])
{
    const sg_component *const decoder = components->vae.ops->component(components->vae.of), *p;
    sg_phase                  phase[SG_PHASES_MAX];
    const int                 phases = sg_phases_of(components, NULL, phase);
    int                       n = 0;
    for (int k = 0; k < phases; k++)
        for (int i = 0; (p = sg_phase_component(components, &phase[k], i)) != NULL; i++)
            if (p == decoder || (phase[k].kind != SG_PHASE_START && phase[k].kind != SG_PHASE_MODULATION &&
                                 p->source != decoder->source))
                list[n++] = p;
    return n;
}

void sg_engine_describe(sg_engine *engine)
{
    const sg_components *const components = engine->components;
    const sg_component        *list[COMPONENTS_MAX];
    sg_model_info *const       info = &engine->info;
    *info = (sg_model_info){.size = sizeof *info,
                            .components = list_components(components, list),
                            .multiple = components->size_multiple,
                            .frame_step = components->frames.step,
                            .frame_pairs = components->frames.pairs,
                            .image = {components->image[SG_IMAGE_FIRST], components->image[SG_IMAGE_LAST]},
                            .experts = components->denoisers,
                            .family = engine->family->name,
                            .dtype = engine->act == SG_BF16 ? "bf16" : "f32",
                            .backend = engine->backend->name,
                            .device = engine->backend->device,
                            .passed = engine->backend->passed,
                            .threads = engine->backend->threads,
                            .skips = engine->backend->values != SG_F32,
                            .synchronous = engine->backend->synchronous,
                            .loras = engine->loras,
                            .thresholds = engine->tuned.hash,
                            .thresholds_model = engine->tuned.model,
                            .world = engine->vocabulary.world,
                            .words = engine->vocabulary.list,
                            .weights_as = engine->weights_as};
    if (components->frames.step == 0 && !info->image[SG_IMAGE_FIRST] && components->vae.ops->encode_open)
        info->image[SG_IMAGE_FIRST] = SG_IMAGE_START;
    _Static_assert((int)SG_COMPONENTS_MAX >= (int)COMPONENTS_MAX, "there is room for every one");
    for (int i = 0; i < info->components; i++) {
        engine->component_info[i] = describe(list[i]);
        info->component[i] = &engine->component_info[i];
    }
    for (int i = 0; i < info->loras; i++) {
        info->lora[i] = &engine->lora_info[i];
        engine->lora_info[i].beside = sg_engine_lora_is_beside(engine, i);
    }
}

#define TEXT_OF(x) #x
#define VERSION(a, b, c) TEXT_OF(a) "." TEXT_OF(b) "." TEXT_OF(c)

const char *sg_version(void) { return VERSION(SG_VERSION_MAJOR, SG_VERSION_MINOR, SG_VERSION_PATCH); }

void sg_engine_log(const sg_engine *engine, int level, const char *fmt, ...)
{
    char    text[512];
    va_list ap;
    if (!engine->log) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    engine->log(engine->log_context, level, text);
    sg_backend_make_current(engine->backend);
}

const sg_model_info *sg_engine_info(const sg_engine *engine) { return &engine->info; }

void sg_engine_trace(sg_engine *engine, sg_trace *t) { engine->trace = t; }

uint64_t sg_engine_hash(const sg_engine *engine)
{
    const sg_component *list[COMPONENTS_MAX];
    const int           count = list_components(engine->components, list);
    uint64_t            sum = 0, number = 0;
    for (int i = 0; i < count; i++)
        if (list[i]->source) sum += sg_source_hash(list[i]->source, SG_HASH + number++);
    return sum;
}

void sg_engine_denoiser_hash(const sg_engine *engine, char out[17])
{
    uint64_t sum = 0;
    for (int i = 0; i < engine->components->denoisers; i++)
        sum += sg_source_hash(engine->components->denoiser[i].component->source, SG_HASH + (uint64_t)i);
    snprintf(out, 17, "%016" PRIx64, sum);
}

void sg_engine_watch(sg_engine *engine, const sg_attention_watch *w) { engine->watch = *w; }

/* ---- the time of attention ---- */

static const struct {
    const char *op;
    int         stage;
} timed[] = {{"pool", SG_TIMED_PREDICT},         {"self_similarity", SG_TIMED_PREDICT},
             {"score", SG_TIMED_PREDICT},        {"tail_bias", SG_TIMED_PREDICT},
             {"select", SG_TIMED_SELECT},        {"quantise", SG_TIMED_QUANTISE},
             {"attend_blocks", SG_TIMED_ATTEND}, {"attend", SG_TIMED_DENSE}};

/* The stage that a row is of; -1: none. Queries and keys are [n, h, d]. */
static int stage_of(const sg_trace_row *r)
{
    int stage = -1;
    for (size_t i = 0; i < sizeof timed / sizeof *timed; i++)
        if (strcmp(r->op, timed[i].op) == 0) stage = timed[i].stage;
    return stage == SG_TIMED_DENSE && r->t[1].dim[0] != r->t[2].dim[0] ? SG_TIMED_CROSS : stage;
}

bool sg_engine_attention_seconds(const sg_engine *engine, double out[SG_ATTENTION_STAGES])
{
    memset(out, 0, SG_ATTENTION_STAGES * sizeof *out);
    for (size_t k = 0; k < engine->times.rows; k++) {
        const int stage = stage_of(&engine->times.row[k]);
        if (stage >= 0) out[stage] += engine->times.row[k].seconds;
    }
    return engine->times.rows > 0;
}
