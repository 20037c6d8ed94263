/* golden.c - renders the mini checkpoints and compares every sublayer with what diffusers computed in double.
 *
 *   golden [--backend cpu|ref] [--dtype f32|bf16] [--verbose] CASE_FOLDER...
 *
 * Schedule and decoder come first, on their own, then a render from the prompt; its taps are compared in the order of the
 * computation. The first beyond its gate is the bug's address and ends the case. Of a
 * large tap the fixture has sums and samples (counter.h): the distance is that of the sums, and of the samples the worst is
 * printed.
 * Gate of a tap: f32, the smaller of 2e-5 and 4 times the error that diffusers' own f32 run has (but at least 2.5e-6,
 * what checkkern allows one convolution of 72 channels, whose sums may be taken in any order, and as the root of the channels
 * where a case has more: metadata "channels"); bf16, twice the error of diffusers' own bf16 run plus one unit of BF16's last place. */
#include "../held.h"
#include "base/array.h"
#include "counter.h"
#include "engine_state.h"
#include "meta.h"
#include "safetensors_write.h"
#include "vae_encode.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct tap {
    char    name[96];
    float  *data;
    int64_t count;
    int     calls;
} tap;

/* What a render showed, in order. */
typedef struct recorder {
    const sg_source *fixture;
    tap             *tap;
    size_t           count, buffer;
} recorder;

typedef struct golden_case {
    const char *dir, *backend, *dtype;
    bool        verbose;
    sg_source  *taps;
    json_t     *about; /* tap name to its shape, its norm and the relative error of the reference's own rounding */
    sg_engine  *g;
    sg_request  r;
    uint8_t    *picture[SG_IMAGES]; /* of r's images */
    uint8_t    *video;              /* of r's */
    int         compared;
    double      worst;
    char        worst_name[96];
} golden_case;

static void die(const char *what)
{
    fprintf(stderr, "golden: %s\n", what);
    exit(2);
}

/* ---- recording ---- */

static tap *find(recorder *rec, const char *name)
{
    for (size_t i = 0; i < rec->count; i++)
        if (strcmp(rec->tap[i].name, name) == 0) return &rec->tap[i];
    return NULL;
}

static tap *append(recorder *rec, const char *name, int64_t more)
{
    tap *t = find(rec, name);
    if (!t) {
        if (!sg_array_push(rec->tap, rec->count, rec->buffer, (tap){0})) die("out of memory");
        t = &rec->tap[rec->count - 1];
        snprintf(t->name, sizeof t->name, "%s", name);
    }
    t->data = realloc(t->data, (size_t)(t->count + more) * sizeof *t->data);
    if (!t->data) die("out of memory");
    t->count += more;
    t->calls++;
    return t;
}

static void keep(recorder *rec, const char *name, sg_stream *s, sg_tensor t)
{
    const int64_t n = sg_count(t);
    tap *const    to = append(rec, name, n);
    float *const  at = to->data + to->count - n;
    char *const   raw = malloc(sg_bytes(t) + 1);
    if (!raw) die("out of memory");
    sg_download(s, raw, t);
    t.data = raw;
    for (int64_t i = 0; i < n; i++) at[i] = sg_load(&t, i);
    free(raw);
}

/* Streams (vae.*, enc.*) come chunk by chunk and are joined; of the rest the first pass of the first step counts, and what
 * the fixture has of its negative pass under dit_u.*, text_u.* */
static void record(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    recorder *const rec = context;
    char            own[96];
    const bool      joined = strncmp(name, "vae.", 4) == 0 || strncmp(name, "enc.", 4) == 0;
    snprintf(own, sizeof own, "%s", name);
    if (sg_count(t) == 0) return; /* of a text without a token */
    if (!joined && find(rec, own)) {
        const char *const dot = strchr(name, '.');
        if (!dot || find(rec, "step.0.v_cond")) return;
        snprintf(own, sizeof own, "%.*s_u%.80s", (int)(dot - name), name, dot);
        if (find(rec, own) || !sg_source_find(rec->fixture, own).rank) return;
    }
    keep(rec, own, s, t);
}

/* What the passes share is computed once, and a tap of it comes once. */
static void share(recorder *rec)
{
    for (size_t i = 0; i < sg_source_count(rec->fixture); i++) {
        const char *const name = sg_source_at(rec->fixture, i)->name;
        char              of_prompt[96];
        if (strncmp(name, "dit_u.", 6) != 0 || find(rec, name)) continue;
        snprintf(of_prompt, sizeof of_prompt, "dit.%.80s", name + 6);
        const tap *const t = find(rec, of_prompt);
        if (!t) continue;
        float *const  data = t->data;
        const int64_t count = t->count;
        const tap    *made = append(rec, name, count);
        memcpy(made->data, data, (size_t)count * sizeof *data);
    }
}

static void forget(recorder *rec)
{
    for (size_t i = 0; i < rec->count; i++) free(rec->tap[i].data);
    free(rec->tap);
    *rec = (recorder){0};
}

/* ---- comparing ---- */

static double number(const golden_case *c, const char *name, const char *key)
{
    return json_number_value(json_object_get(json_object_get(c->about, name), key));
}

static double gate(const golden_case *c, const char *name)
{
    const double own = number(c, name, c->dtype);
    if (strcmp(c->dtype, "bf16") == 0) return 2 * own + 0x1p-8;
    const char *const channels = sg_source_metadata(c->taps, "channels");
    return fmin(2e-5, fmax(2.5e-6 * sqrt(channels ? atof(channels) / 72 : 1), 4 * own));
}

/* How many numbers the whole tap has. */
static int64_t size_of_tap(const golden_case *c, const char *name)
{
    const json_t *const shape = json_object_get(json_object_get(c->about, name), "shape");
    int64_t             n = 1;
    for (size_t i = 0; i < json_array_size(shape); i++) n *= json_integer_value(json_array_get(shape, i));
    return n;
}

/* L2 distance to a tap of n numbers relative to its norm; NaN anywhere is infinitely far. */
static double distance(const float *ours, const float *want, int64_t n, uint64_t seed, double norm)
{
    double sums[COUNTER_SUMS], d = 0;
    if (n > COUNTER_WHOLE) counter_sums(sums, seed, ours, n);
    for (int64_t i = 0; i < (n > COUNTER_WHOLE ? COUNTER_SUMS : n); i++) {
        const double x = (n > COUNTER_WHOLE ? sums[i] : (double)ours[i]) - (double)want[i];
        d += x * x;
    }
    return isfinite(d) ? sqrt(d) / (norm + 1e-300) : INFINITY;
}

/* Of the numbers that the fixture has, the one that ours is farthest from. */
static void print_worst(const float *ours, const float *want, int64_t n, uint64_t seed)
{
    const bool    whole = n <= COUNTER_WHOLE;
    const int64_t count = whole ? n : COUNTER_SAMPLES;
    int64_t       worst = -1;
    float         should = 0;
    for (int64_t k = 0; k < count; k++) {
        const int64_t i = whole ? k : counter_sample(seed, (int)k, n);
        const float   w = whole ? want[k] : want[COUNTER_SUMS + k];
        if (worst >= 0 && !(fabsf(ours[i] - w) > fabsf(ours[worst] - should))) continue;
        worst = i;
        should = w;
    }
    printf("  %-28s %.9g should be %.9g at element %lld, the worst of %lld%s\n", "", (double)ours[worst],
           (double)should, (long long)worst, (long long)count, whole ? "" : " samples");
}

/* True when the tap passes. */
static bool compare(golden_case *c, const char *name, const float *ours, int64_t count)
{
    const sg_tensor want = sg_source_find(c->taps, name);
    const int64_t   size = size_of_tap(c, name);
    if (!want.rank) {
        printf("  %-28s is not in the fixture\n", name);
        return false;
    }
    if (size != count || sg_count(want) != (size > COUNTER_WHOLE ? COUNTER_WHOLE : size)) {
        printf("  %-28s has %lld numbers, should have %lld\n", name, (long long)count, (long long)size);
        return false;
    }
    const uint64_t seed = counter_seed(name);
    const double   limit = gate(c, name), d = distance(ours, want.data, count, seed, number(c, name, "norm"));
    if (c->verbose) printf("  %-28s %.2e of %.2e\n", name, d, limit);
    if (!c->verbose && !(d <= limit)) printf("  %-28s relative error %.2e, gate %.2e\n", name, d, limit);
    if (!(d <= limit)) print_worst(ours, want.data, count, seed);
    c->compared++;
    if (d / limit > c->worst) {
        c->worst = d / limit;
        snprintf(c->worst_name, sizeof c->worst_name, "%s", name);
    }
    return d <= limit;
}

static bool compare_all(golden_case *c, const recorder *rec, const char *prefix)
{
    for (size_t i = 0; i < rec->count; i++)
        if (strncmp(rec->tap[i].name, prefix, strlen(prefix)) == 0 &&
            !compare(c, rec->tap[i].name, rec->tap[i].data, rec->tap[i].count))
            return false;
    return true;
}

/* Every tap that the fixture keeps must have been seen. */
static bool complete(const golden_case *c, recorder *rec, const char *const *prefixes)
{
    bool all = true;
    for (size_t i = 0; i < sg_source_count(c->taps); i++) {
        const char *const name = sg_source_at(c->taps, i)->name;
        bool              mine = false;
        for (int k = 0; prefixes[k]; k++) mine = mine || strncmp(name, prefixes[k], strlen(prefixes[k])) == 0;
        if (!mine || find(rec, name)) continue;
        printf("  %-28s never came\n", name);
        all = false;
    }
    return all;
}

/* ---- stages ---- */

static bool report(const char *stage, sg_status st, const sg_error *e)
{
    if (st) printf("  %s: %s\n", stage, e->text);
    return st == SG_OK;
}

/* After the decoder, whose faults show in the frames too. */
static bool text_to_render(golden_case *c)
{
    static const char *const stages[] = {"text",  "clip", "vision.", "noise",   "image",
                                         "video", "dit",  "step.",   "render.", NULL};
    static const char *const prefixes[] = {"text.",     "text_u.", "clip.", "clip_u.", "clip_g.",
                                           "clip_g_u.", "vision.", "noise", "image",   "video",
                                           "dit.",      "dit_u.",  "step.", "render.", NULL};
    recorder                 rec = {.fixture = c->taps};
    sg_report                rep = {.size = sizeof rep};
    sg_error                 e = {0};
    c->g->tap = record;
    c->g->tap_context = &rec;
    bool       ok = report("render", sg_engine_render(c->g, &c->r, NULL, &rep, &e), &e);
    tap *const frames = find(&rec, "vae.frames");
    if (frames && sg_source_find(c->taps, "render.frames").rank) strcpy(frames->name, "render.frames");
    share(&rec);
    for (int i = 0; stages[i]; i++) ok = ok && compare_all(c, &rec, stages[i]);
    ok = ok && complete(c, &rec, prefixes);
    forget(&rec);
    return ok;
}

static bool schedule(golden_case *c)
{
    const sg_geometry g = sg_geometry_of(c->g->components, &c->r);
    sg_sampler_config config = c->g->components->sampler;
    sg_sampler       *p = calloc(1, sizeof *p);
    sg_error          e = {0};
    float             sigma[SG_STEPS_MAX + 1], step[SG_STEPS_MAX];
    if (!p) die("out of memory");
    config.tokens = g.grid[0] * g.grid[1] * g.grid[2];
    bool ok = report("sampler", sg_sampler_init(p, &config, c->r.steps, &e), &e);
    for (int i = 0; ok && i <= p->steps; i++) sigma[i] = (float)p->sigma[i];
    for (int i = 0; ok && i < p->steps; i++) step[i] = (float)p->timestep[i];
    ok = ok && compare(c, "sigmas", sigma, p->steps + 1) && compare(c, "timesteps", step, p->steps);
    free(p);
    return ok;
}

/* Numbers of counter.h in a shape; the caller frees the data. */
static sg_tensor made(const char *name, counter_rule rule, int rank, const int64_t *dim)
{
    const uint64_t seed = counter_seed(name);
    sg_tensor      t = {.dtype = SG_F32, .rank = rank};
    memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    float *const x = malloc(sg_bytes(t));
    if (!x) die("out of memory");
    for (int64_t i = 0; i < sg_count(t); i++)
        x[i] = ldexpf((float)counter_integer(seed, (uint64_t)i, rule), -rule.shift);
    t.data = x;
    return t;
}

static const char *meta(const golden_case *c, const char *key)
{
    const char *const v = sg_source_metadata(c->taps, key);
    if (!v) {
        fprintf(stderr, "golden: %s/taps.safetensors: no metadata \"%s\"\n", c->dir, key);
        exit(2);
    }
    return v;
}

/* Those that are decoded. */
static sg_tensor made_latents(const golden_case *c)
{
    sg_geometry g = sg_geometry_of(c->g->components, &c->r);
    g.latent[1] -= g.pad;
    return made("latents", COUNTER_LATENTS, 4, g.latent);
}

static bool decode(golden_case *c)
{
    static const char *const prefixes[] = {"vae.", NULL};
    recorder                 rec = {.fixture = c->taps};
    sg_report                rep = {.size = sizeof rep};
    sg_error                 e = {0};
    char                     path[] = "/tmp/golden-XXXXXX.safetensors";
    const int                fd = mkstemps(path, 12);
    if (fd < 0) die("cannot make a temporary file");
    close(fd);
    const sg_tensor latents = made_latents(c);
    sg_request      r = c->r;
    r.latents_in = path;
    c->g->tap = record;
    c->g->tap_context = &rec;
    bool ok = report("latents", sg_safetensors_write(path, "latents", latents, (const char *const[]){NULL}, &e), &e) &&
              report("decode", sg_engine_render(c->g, &r, NULL, &rep, &e), &e);
    unlink(path);
    ok = ok && compare_all(c, &rec, "vae.") && complete(c, &rec, prefixes);
    free(latents.data);
    forget(&rec);
    return ok;
}

static void fill_clip(const void *context, float *rgb, int64_t first, int64_t count)
{
    const sg_tensor now = sg_rows(*(const sg_tensor *)context, first, count);
    memcpy(rgb, now.data, sg_bytes(now));
}

static bool never(void *context, int done, int total)
{
    (void)context;
    return done > total;
}

/* Runs the encoder over a clip on s; on a plan stream, latents are NULL, nothing is computed. */
static sg_status encode_clip(const golden_case *c, sg_stream *s, sg_tensor clip, float *latents, sg_error *e)
{
    const int   frames = (int)clip.dim[0], height = (int)clip.dim[1], width = (int)clip.dim[2];
    sg_geometry g = sg_geometry_of(c->g->components, &(sg_request){.width = width, .height = height, .frames = frames});
    g.latent[1] -= g.pad;
    sg_vae_encode(&c->g->components->vae, s,
                  &(sg_vae_clip){frames, height, width, .fill = fill_clip, .context = &clip, .taps = true}, g.latent,
                  latents, (sg_watch){never, NULL});
    return s->status ? sg_error_set(e, s->status, "%s", s->why) : SG_OK;
}

static sg_status encode_on(const golden_case *c, sg_tensor clip, recorder *rec, sg_error *e)
{
    const sg_vae *const v = &c->g->components->vae;
    sg_bind *const      weights = v->ops->encoder(v->of)->bind;
    sg_plan_totals      totals = {0};
    sg_stream           plan = sg_plan_stream(&totals), s = sg_stream_of(c->g->backend);
    SG_TRY(sg_bind_load(weights, c->g->backend, NULL, NULL, e));
    SG_TRY(encode_clip(c, &plan, clip, NULL, e));
    s.keep = (sg_arena){.base = (uintptr_t)s.memory->alloc(s.backend, plan.keep.peak), .cap = plan.keep.peak};
    s.scratch = (sg_arena){.base = (uintptr_t)s.memory->alloc(s.backend, plan.scratch.peak), .cap = plan.scratch.peak};
    s.tap = record;
    s.tap_context = rec;
    float *const    latents = malloc(sg_bytes(clip)); /* has fewer */
    const sg_status st = encode_clip(c, &s, clip, latents, e);
    free(latents);
    sg_backend_drop_packed(c->g->backend); /* known by addresses, which the next weights may get */
    sg_bind_unload(weights);
    s.memory->release(s.backend, (void *)s.keep.base);
    s.memory->release(s.backend, (void *)s.scratch.base);
    return st;
}

static bool encode(golden_case *c)
{
    static const char *const prefixes[] = {"enc.", NULL};
    recorder                 rec = {.fixture = c->taps};
    sg_error                 e = {0};
    int64_t                  dim[4] = {0};
    if (!*meta(c, "clip")) return true; /* there is none for this case */
    if (sscanf(meta(c, "clip"), "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "x%" SCNd64, &dim[0], &dim[1], &dim[2], &dim[3]) !=
        4)
        die("metadata \"clip\" is not a shape");
    const sg_tensor clip = made("clip", COUNTER_CLIP, 4, dim);
    const bool      ok = report("encode", encode_on(c, clip, &rec, &e), &e) && compare_all(c, &rec, "enc.") &&
                    complete(c, &rec, prefixes);
    free(clip.data);
    forget(&rec);
    return ok;
}

/* ---- a case ---- */

/* A clip of counter.h as bytes; the caller frees. */
static uint8_t *make_frames(const golden_case *c, const char *name, int frames)
{
    const int64_t      dim[4] = {frames, c->r.height, c->r.width, 3};
    const sg_tensor    made_up = made(name, COUNTER_CLIP, 4, dim);
    const float *const x = made_up.data;
    uint8_t *const     bytes = malloc((size_t)sg_count(made_up));
    if (!bytes) die("out of memory");
    for (int64_t i = 0; i < sg_count(made_up); i++) bytes[i] = (uint8_t)(((double)x[i] + 1) * 127.5);
    free(made_up.data);
    return bytes;
}

/* The pictures of a case of image to video, the frames of one of video to video. */
static void make_pictures(golden_case *c)
{
    const char *const said = sg_source_metadata(c->taps, "pictures");
    const char *const strength = sg_source_metadata(c->taps, "strength");
    for (int k = 0; said && k < atoi(said) && k < SG_IMAGES; k++) {
        char name[24];
        snprintf(name, sizeof name, "picture.%d", k);
        c->r.image[k].rgb = c->picture[k] = make_frames(c, name, 1);
    }
    if (!strength) return;
    c->r.strength = atof(strength);
    c->video = make_frames(c, "video", c->r.frames);
    *(sg_engine_info(c->g)->frame_step ? &c->r.start_video : &c->r.start_image) = c->video;
}

static bool open_case(golden_case *c)
{
    sg_error e = {0};
    if (!report("taps", sg_source_open_stem(&c->taps, c->dir, "taps", &e), &e)) return false;
    c->about = json_loads(meta(c, "taps"), 0, NULL);
    const sg_engine_options o = {.size = sizeof(sg_engine_options),
                                 .model_dir = c->dir,
                                 .backend = c->backend,
                                 .dtype = c->dtype,
                                 .cpu_mask = held_mask()};
    if (!report("open", sg_engine_open(&c->g, &o, &e), &e)) return false;
    c->r.size = sizeof c->r;
    sg_engine_defaults(c->g, &c->r);
    c->r.prompt = meta(c, "prompt");
    c->r.negative_prompt = meta(c, "negative_prompt");
    c->r.width = atoi(meta(c, "width"));
    c->r.height = atoi(meta(c, "height"));
    c->r.frames = atoi(meta(c, "frames"));
    c->r.steps = atoi(meta(c, "steps"));
    c->r.cfg_scale = atof(meta(c, "cfg_scale"));
    if (*meta(c, "cfg_scale_2")) c->r.cfg_scale_2 = atof(meta(c, "cfg_scale_2"));
    const char *const guidance = sg_source_metadata(c->taps, "guidance");
    if (guidance) c->r.guidance = atof(guidance);
    const char *const slg = sg_source_metadata(c->taps, "slg_scale");
    if (slg) {
        c->r.slg_scale = atof(slg);
        c->r.skip_layers = meta(c, "skip_layers");
        c->r.skip_layer_start = atof(meta(c, "skip_layer_start"));
        c->r.skip_layer_end = atof(meta(c, "skip_layer_end"));
    }
    c->r.seed = strtoull(meta(c, "seed"), NULL, 10);
    const char *const dynamic = sg_source_metadata(c->taps, "dynamic_cfg");
    c->r.dynamic_cfg = dynamic && strcmp(dynamic, "true") == 0;
    make_pictures(c);
    return true;
}

static bool run_case(golden_case *c)
{
    printf("%s (%s, %s)\n", c->dir, c->backend, c->dtype);
    const bool ok = open_case(c) && schedule(c) && decode(c) && encode(c) && text_to_render(c);
    printf("%s: %d taps compared, nearest to its gate: %s at %.2f of it\n", ok ? "ok" : "FAILED", c->compared,
           c->worst_name, c->worst);
    sg_engine_close(&c->g);
    for (int k = 0; k < SG_IMAGES; k++) free(c->picture[k]);
    free(c->video);
    sg_source_close(&c->taps);
    json_decref(c->about);
    return ok;
}

int main(int argc, char **argv)
{
    golden_case base = {.backend = "cpu", .dtype = "f32"};
    int         passed = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            base.verbose = true;
        } else if (strcmp(argv[i], "--backend") == 0 && i + 1 < argc) {
            base.backend = argv[++i];
        } else if (strcmp(argv[i], "--dtype") == 0 && i + 1 < argc) {
            base.dtype = argv[++i];
        } else {
            golden_case c = base;
            c.dir = argv[i];
            run_case(&c) ? passed++ : failed++;
        }
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed || !passed;
}
