/* test_offload.c - blocks of denoisers and text encoders that stay on the host: the bits are those without, the memory
 * is that of the plan, and who may choose; and weights that stay from one render to the next. The device is the oracle
 * behind memory that counts, with a fetch that spoils the slot before. */
#include "engine_fixture.h"
#include "lora_file.h"
#include "quantised_file.h"
#include "tensor_source.h"

/* ---- the device ---- */

enum { PINS = 4 }; /* as many components have blocks on the host */

static struct device {
    sg_backend *real; /* NULL: not in use */
    sg_backend  backend;
    sg_ops      ops;
    sg_memory   memory;
    size_t      held, most;       /* bytes on the device now, at most */
    size_t      pinned, most_pin; /* on the host */
    uint8_t    *pin[PINS];        /* NULL: none */
    size_t      pin_bytes[PINS];
    int         fetches;
    void       *slot[2]; /* what was fetched last */
    size_t      slot_bytes[2];
    bool        no_pin;
    uint8_t     idle[1 << 16]; /* as state of a backend that holds nothing */
} device;

/* Memory that knows its size. */
static uint8_t *take(size_t bytes)
{
    uint8_t *const p = aligned_alloc(SG_ALIGN, (bytes + 2 * SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN);
    assert_non_null(p);
    memcpy(p, &bytes, sizeof bytes);
    return p + SG_ALIGN;
}

static size_t give(uint8_t *p)
{
    size_t bytes;
    memcpy(&bytes, p - SG_ALIGN, sizeof bytes);
    free(p - SG_ALIGN);
    return bytes;
}

static void *device_alloc(const sg_backend *b, size_t bytes)
{
    device.held += bytes;
    if (device.held > device.most) device.most = device.held;
    return take(bytes);
}

static void device_release(const sg_backend *b, void *p)
{
    if (p) device.held -= give(p);
    for (int i = 0; i < 2; i++) device.slot[i] = NULL; /* one of them may be gone */
}

/* Which pin has p; NULL: the first that is free. */
static int find_pin(const uint8_t *p, size_t bytes)
{
    int i = 0;
    while (i < PINS && (p ? !device.pin[i] || p < device.pin[i] || p + bytes > device.pin[i] + device.pin_bytes[i]
                          : device.pin[i] != NULL))
        i++;
    assert_true(i < PINS);
    return i;
}

static void *device_pin(const sg_backend *b, size_t bytes)
{
    const int i = find_pin(NULL, 0);
    if (device.no_pin) return NULL;
    device.pinned += bytes;
    if (device.pinned > device.most_pin) device.most_pin = device.pinned;
    device.pin_bytes[i] = bytes;
    return device.pin[i] = take(bytes);
}

static void device_unpin(const sg_backend *b, void *p)
{
    device.pin[find_pin(p, 0)] = NULL;
    device.pinned -= give(p);
}

static sg_status device_fetch(sg_stream *s, const sg_fetch_args *a)
{
    const int other = !a->slot;
    assert_true(a->slot == 0 || a->slot == 1);
    find_pin(a->host, a->bytes);
    if (device.slot[other]) memset(device.slot[other], 0xff, device.slot_bytes[other]);
    memcpy(a->device, a->host, a->bytes);
    device.slot[a->slot] = a->device;
    device.slot_bytes[a->slot] = a->bytes;
    device.fetches++;
    return SG_OK;
}

/* g computes on the device from here on, until close_engine. */
static void use_device(sg_engine *g)
{
    device = (struct device){.real = g->backend, .backend = *g->backend};
    device.ops = *g->backend->ops;
    device.ops.fetch = device_fetch;
    device.memory = *g->backend->memory;
    device.memory.alloc = device_alloc;
    device.memory.release = device_release;
    device.memory.pin = device_pin;
    device.memory.unpin = device_unpin;
    device.backend.ops = &device.ops;
    device.backend.memory = &device.memory;
    device.backend.host_memory = device.backend.process_memory = device.backend.synchronous = false;
    device.backend.impl = device.idle;
    g->backend = &device.backend;
}

static void close_engine(sg_engine **g)
{
    sg_backend *real = device.real;
    (*g)->backend = NULL;
    sg_engine_close(g);
    sg_backend_close(&real);
    assert_int_equal(device.held, 0);
    assert_int_equal(device.pinned, 0);
}

/* ---- renders ---- */

enum { SIDE = 32 }; /* of frames */

static sg_engine *open_on_device(const char *dir, const char *dtype)
{
    sg_engine *g = open_engine(
        &(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = dir, .backend = "ref", .dtype = dtype});
    use_device(g);
    return g;
}

static sg_request square(const sg_engine *g)
{
    sg_request r = small(g);
    r.width = r.height = SIDE;
    sg_engine_nearest_size(g, NULL, NULL, &r.frames);
    return r;
}

/* Renders, and the memory taken is that planned. */
static void render_as_planned(sg_engine *g, const sg_request *r, film *f, sg_report *report)
{
    sg_error e = {0};
    device.most = device.most_pin = 0;
    device.fetches = 0;
    if (render_film(g, r, f, report, &e)) fail_msg("%s", e.text);
    assert_int_equal(f->frames, r->frames);
    assert_int_equal(device.most, report->held_bytes);
    assert_int_equal(device.most_pin, report->plan.host);
    assert_int_equal(device.fetches > 0, report->plan.host > 0);
}

/* One expert and two, blocks that take turns and a block that follows itself, both dtypes; again, and after the other
 * way. */
static void bits_are_the_same(void **state)
{
    static const char *const models[] = {SG_FIXTURES "/wan21_hd12", SG_FIXTURES "/wan22_a14b",
                                         SG_FIXTURES "/wan22_ti2v", SG_FIXTURES "/cogvideox_2b"};
    static const char *const dtypes[] = {"f32", "bf16"};
    static const sg_offload  ways[] = {SG_OFFLOAD_AUTO, SG_OFFLOAD_ON, SG_OFFLOAD_OFF};
    static film              first, f;
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 3; k++) {
            sg_engine *g = open_on_device(models[i / 2], dtypes[i % 2]);
            sg_request r = square(g);
            sg_report  report = {.size = sizeof report};
            sg_error   e = {0};
            g->offload = ways[k];
            render_as_planned(g, &r, k ? &f : &first, &report);
            assert_int_equal(report.plan.host > 0, ways[k] == SG_OFFLOAD_ON);
            for (int again = 0; again < 3; again++) { /* the same way, the other, and back */
                if (k || again) assert_memory_equal(&first, &f, sizeof f);
                if (render_film(g, &r, &f, &report, &e)) fail_msg("%s", e.text);
                g->offload = g->offload == SG_OFFLOAD_ON ? SG_OFFLOAD_OFF : SG_OFFLOAD_ON;
            }
            assert_memory_equal(&first, &f, sizeof f);
            close_engine(&g);
        }
}

/* Weights are patched on their way, wherever they go; quantised ones have LoRAs beside them, or are packed anew. */
static void bits_are_the_same_with_a_lora(void **state)
{
    static film              f[3];
    static const char *const dtypes[] = {"f32", "bf16"};
    static const char *const models[] = {model, "quantised"}, *const loras[] = {"l.safetensors", "q.safetensors"};
    lora_save_for(SG_FIXTURES "/wan21_hd12/transformer/diffusion_pytorch_model.safetensors", loras[0], NULL);
    lora_save_for(QUANTISED_FROM, loras[1], NULL);
    quantised_folder(models[1]);
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 3; k++) { /* without, on the device, on the host */
            sg_report               report = {.size = sizeof report};
            const sg_engine_options o = {.size = sizeof(sg_engine_options),
                                         .model_dir = models[i > 1],
                                         .backend = "ref",
                                         .dtype = dtypes[i % 2],
                                         .lora = {{.path = loras[i > 1], .strength = 1}},
                                         .loras = k > 0,
                                         .lora_merge = i > 3};
            sg_engine              *g = open_engine(&o);
            assert_int_equal(sg_engine_info(g)->weights_as, i > 1 ? SG_WEIGHTS_FILE : SG_WEIGHTS_AUTO);
            if (k) assert_int_equal(sg_engine_info(g)->lora[0]->beside, i == 2 || i == 3);
            use_device(g);
            const sg_request r = square(g);
            g->offload = k == 2 ? SG_OFFLOAD_ON : SG_OFFLOAD_OFF;
            render_as_planned(g, &r, &f[k], &report);
            close_engine(&g);
        }
        assert_memory_equal(&f[1], &f[2], sizeof *f);
        assert_memory_not_equal(&f[0], &f[1], sizeof *f);
    }
}

/* Ends a render of two experts in the second one's last step, or with the first frame. */
enum { CANCELLED_STEP, FAILED_STEP, FAILED_FRAME, ENDINGS };

typedef struct ending {
    int how, steps;
} ending;

static int end_progress(void *context, sg_stage stage, int done, int total)
{
    const ending *const end = context;
    return end->how == CANCELLED_STEP && stage == SG_STAGE_DENOISE && done == total;
}

static sg_status end_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
    const ending *const end = context;
    return end->how == FAILED_STEP && step == end->steps - 1 ? sg_error_set(e, SG_E_FILE, "disk full") : SG_OK;
}

static sg_status end_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    return sg_error_set(e, SG_E_FILE, "disk full");
}

/* A render that ends early leaves the weights on the device that stay, and no others; the next one takes the memory
 * and gives the frames that it would on a fresh engine. */
static void only_what_stays_is_there(const sg_engine *g)
{
    assert_int_equal(device.held, sg_keeper_held(&g->keeper));
    for (int i = 0; i < g->keeper.count; i++) assert_true(g->keeper.kept[i].stays || !g->keeper.kept[i].is_loaded);
}

static void early_ends_leave_what_stays(void **state)
{
    static film first, f;
    size_t      need = 0;
    for (int i = 0; i < 2 * ENDINGS; i++) {
        const int  how = i % ENDINGS;
        const bool little = i >= ENDINGS; /* as little memory as the render can do with */
        sg_engine *g = open_on_device(SG_FIXTURES "/wan22_a14b", "f32");
        sg_request r = square(g);
        sg_report  report = {.size = sizeof report};
        sg_error   e = {0};
        r.steps = 4;
        ending end = {.how = how, .steps = r.steps};
        if (i == 0) render_as_planned(g, &r, &first, &report);
        if (i == 0) need = report.plan.need;
        if (little) g->memory_limit = need;
        const sg_callbacks cb = {.size = sizeof(sg_callbacks),
                                 .context = &end,
                                 .progress = end_progress,
                                 .latents = end_latents,
                                 .frame = end_frame};
        assert_int_equal(sg_engine_render(g, &r, &cb, &report, &e), how == CANCELLED_STEP ? SG_E_CANCELLED : SG_E_FILE);
        assert_int_equal(report.steps_done, r.steps);
        only_what_stays_is_there(g);
        render_as_planned(g, &r, &f, &report);
        if (little) assert_int_equal(device.most, report.plan.need - report.plan.staging);
        assert_memory_equal(&first, &f, sizeof f);
        only_what_stays_is_there(g);
        close_engine(&g);
    }
}

/* Of six blocks two are on the device at a time: auto does that where six are too many, and with as few as need be. */
static void auto_takes_what_fits(void **state)
{
    static film first, f;
    sg_engine  *g = open_on_device(SG_TINY_WAN, "bf16");
    sg_request  r = square(g);
    sg_plan     off = {.size = sizeof off}, on = {.size = sizeof on}, p = {.size = sizeof p};
    sg_report   report = {.size = sizeof report};
    sg_error    e = {0};
    r.steps = r.frames = 1;
    r.cfg_scale = 1;
    g->offload = SG_OFFLOAD_ON;
    assert_int_equal(sg_engine_plan(g, &r, &on, &e), SG_OK);
    g->offload = SG_OFFLOAD_OFF;
    assert_int_equal(sg_engine_plan(g, &r, &off, &e), SG_OK);
    assert_int_equal(off.host, 0);
    assert_int_equal(off.phase[1].weights - on.phase[1].weights, on.host / 6 * 4);
    assert_int_equal(off.phase[1].peak - on.phase[1].peak, on.host / 6 * 4);
    assert_true(off.need > on.need);
    g->offload = SG_OFFLOAD_AUTO;
    g->memory_limit = off.need;
    assert_int_equal(sg_engine_plan(g, &r, &p, &e), SG_OK);
    assert_int_equal(p.host, 0);
    render_as_planned(g, &r, &first, &report);
    const size_t block = on.host / 6;
    size_t       hosted = 0;
    for (size_t limit = off.need - 1; hosted < 6; limit -= block / 2) { /* fewer than three save nothing */
        g->memory_limit = limit;
        render_as_planned(g, &r, &f, &report);
        assert_memory_equal(&first, &f, sizeof f);
        assert_true(report.plan.rows_at_once > 0 && report.plan.need <= limit);
        assert_true(report.plan.host >= hosted * block && report.plan.host % block == 0);
        hosted = report.plan.host / block;
        assert_int_equal(report.plan.phase[1].blocks_on_host, hosted);
        if (hosted > 3) assert_true(report.plan.need + block > limit);
    }

    g->offload = SG_OFFLOAD_OFF;
    assert_int_equal(render_film(g, &r, &f, &report, &e), SG_E_MEMORY);
    g->offload = SG_OFFLOAD_AUTO;
    device.backend.host_bytes = on.host - 1;
    e = (sg_error){0};
    assert_refused(render_film(g, &r, &f, &report, &e), SG_E_MEMORY, &e, "offload: 0.0");
    close_engine(&g);
}

/* A plan as if the engine had been opened with other options is that of an engine that was, whatever is loaded; and the
 * engine's own is as before. */
static void a_plan_as_another_engine(void **state)
{
    enum { WAYS = 12 };
    static film    f;
    static sg_plan other[WAYS];
    const int      types[] = {SG_WEIGHTS_FILE, SG_WEIGHTS_BF16};
    const size_t   limits[] = {(size_t)1 << 40, 1};
    sg_plan        own = {.size = sizeof own}, p = {.size = sizeof p};
    sg_report      report = {.size = sizeof report};
    sg_error       e = {0};
    quantised_folder("ways");
    for (int i = 0; i <= WAYS; i++) { /* the last is as the first */
        const sg_engine_options o = {.size = sizeof(sg_engine_options),
                                     .model_dir = "ways",
                                     .backend = "ref",
                                     .dtype = "bf16",
                                     .memory_limit = limits[i / 6 % 2],
                                     .weights_as = types[i / 3 % 2]};
        sg_engine              *g = open_engine(&o);
        const sg_request        r = square(g);
        use_device(g);
        g->offload = i % 3;
        g->base_bytes = 0; /* those of this process */
        if (i < WAYS) other[i].size = sizeof *other;
        if (i < WAYS) assert_done(sg_engine_plan(g, &r, &other[i], &e), &e);
        for (int k = 0; i == WAYS && k < WAYS; k++) {
            if (k % 4 == 0) render_as_planned(g, &r, &f, &report);
            assert_done(sg_engine_plan_as(g, &r, k % 3, types[k / 3 % 2], limits[k / 6], &p, &e), &e);
            assert_int_equal(device.held, 0);
            p.host_free = other[k].host_free; /* found at open */
            assert_memory_equal(&p, &other[k], sizeof p);
            assert_done(sg_engine_plan(g, &r, &own, &e), &e);
            own.host_free = other[0].host_free;
            assert_memory_equal(&own, &other[0], sizeof own);
        }
        if (i == WAYS) assert_refused(sg_engine_plan_as(g, &r, 3, 0, 1, &p, &e), SG_E_ARG, &e, "offload");
        if (i == WAYS) assert_refused(sg_engine_plan_as(g, &r, 0, 3, 1, &p, &e), SG_E_ARG, &e, "weights_as");
        close_engine(&g);
    }
    assert_true(other[0].need < other[3].need && other[2].host < other[5].host && other[6].need < other[0].need);
}

/* A copy of a model at `to`, whose text encoder has `deep` blocks, named by `mark` and a number: the first of them more
 * often. So two blocks are a small part of it. */
static void copy_deep(const char *of, const char *to, const char *mark, int deep)
{
    char       text[640], name[160];
    sg_source *s = NULL;
    lora_file  f = {.size = 0};
    shell("cp -r '%s' '%s' && sed -i -E 's/(num_layers|num_hidden_layers)\": [0-9]+/\\1\": %d/' "
          "'%s'/text_encoder/config.json",
          of, to, deep, to);
    snprintf(text, sizeof text, "%s/text_encoder/model.safetensors", to);
    assert_int_equal(sg_source_open(&s, text, NULL), SG_OK);
    for (size_t i = 0; i < sg_source_count(s); i++) {
        const sg_source_tensor *const t = sg_source_at(s, i);
        const char *const             at = strstr(t->name, mark);
        const char *const             rest = at ? strchr(at + strlen(mark), '.') : NULL;
        if (at && at[strlen(mark)] != '0') continue;
        for (int k = 0; k < (at ? deep : 1); k++) {
            snprintf(name, sizeof name, "%s", t->name);
            if (at) snprintf(name, sizeof name, "%.*s%s%d%s", (int)(at - t->name), t->name, mark, k, rest);
            lora_put(&f, name, t->type->name, t->rank, t->dim, t->data, t->bytes);
        }
    }
    sg_source_close(&s);
    lora_save(&f, text, NULL);
}

/* The blocks of a text encoder are on the host where it does not fit otherwise, whatever those of the denoiser are. */
static void text_encoders_take_what_fits(void **state)
{
    static const char *const models[][2] = {{SG_FIXTURES "/wan21_hd12", ".block."},
                                            {SG_FIXTURES "/hunyuan_hd16", "layers."}};
    static film              first, f;
    static const int         deep[] = {6, 80};
    static char              prompt[2048]; /* so long, and so deep, that the text takes the most memory */
    for (size_t i = 0; i + 5 < sizeof prompt; i += 4) memcpy(prompt + i, "fox ", 5);
    for (int i = 0; i < 2; i++) {
        char       dir[128];
        sg_plan    off = {.size = sizeof off};
        sg_report  report = {.size = sizeof report};
        sg_error   e = {0};
        const bool last = i == 1;
        snprintf(dir, sizeof dir, "deep.%d", i);
        copy_deep(models[i][0], dir, models[i][1], deep[i]);
        sg_engine *g = open_on_device(dir, "f32");
        sg_request r = square(g);
        r.frames = 1;
        r.prompt = prompt;
        r.cfg_scale = 3; /* two texts, one after the other */
        g->offload = last ? SG_OFFLOAD_ON : SG_OFFLOAD_AUTO;
        render_as_planned(g, &r, &first, &report);
        off = report.plan;
        assert_int_equal(off.phase[0].stage, SG_STAGE_TEXT);
        assert_int_equal(off.phase[0].host, 0);
        assert_int_equal(off.need, off.phase[0].weights + off.phase[0].work + off.staging);
        close_engine(&g);

        g = open_on_device(dir, "f32");
        g->offload = last ? SG_OFFLOAD_ON : SG_OFFLOAD_AUTO;
        g->memory_limit = off.need - 1;
        render_as_planned(g, &r, &f, &report);
        assert_true(report.plan.phase[0].host > 0 && report.plan.phase[0].weights < off.phase[0].weights);
        assert_memory_equal(&first, &f, sizeof f);
        g->offload = SG_OFFLOAD_OFF;
        assert_int_equal(render_film(g, &r, &f, &report, &e), SG_E_MEMORY);
        close_engine(&g);
    }
}

/* So many steps that what modulates them takes the most memory: its weights make room block by block. */
static void modulations_take_what_fits(void **state)
{
    enum { STEPS = 300 };
    static film first, f;
    sg_engine  *g = open_on_device(SG_FIXTURES "/hunyuan_hd16", "f32");
    sg_request  r = square(g);
    sg_report   report = {.size = sizeof report};
    r.frames = 1;
    r.cfg_scale = 1;
    r.steps = STEPS;
    render_as_planned(g, &r, &first, &report);
    const sg_phase_plan off = report.plan.phase[2];
    assert_string_equal(off.name, "modulation");
    assert_int_equal(report.plan.need, off.weights + off.work + report.plan.staging);
    close_engine(&g);
    g = open_on_device(SG_FIXTURES "/hunyuan_hd16", "f32");
    g->memory_limit = report.plan.need - 1;
    render_as_planned(g, &r, &f, &report);
    assert_true(report.plan.phase[2].host > 0 && report.plan.phase[2].weights < off.weights);
    assert_memory_equal(&first, &f, sizeof f);
    close_engine(&g);
}

/* ---- from one render to the next ---- */

/* A render while it is watched: its frames, and how many components were loaded. */
typedef struct watched {
    film film; /* first, as film_frame's context */
    int  loads;
} watched;

static int count_loads(void *context, sg_stage stage, int done, int total)
{
    ((watched *)context)->loads += stage == SG_STAGE_LOAD && done == 1;
    return 0;
}

/* Renders another prompt, in no more memory than was planned or may be used. */
static void render_prompt(sg_engine *g, const char *prompt, watched *w, sg_report *report)
{
    sg_request         r = square(g);
    sg_error           e = {0};
    const sg_callbacks cb = {.size = sizeof(sg_callbacks), .context = w, .progress = count_loads, .frame = film_frame};
    r.prompt = prompt;
    r.steps = 4;
    *w = (watched){.film = {.bytes = SIDE * SIDE * 3}};
    device.most = device.most_pin = 0;
    assert_done(sg_engine_render(g, &r, &cb, report, &e), &e);
    assert_int_equal(device.most, report->held_bytes);
    assert_int_equal(device.most_pin, report->plan.host);
    assert_true(device.most <= report->plan.peak);
    if (g->memory_limit) assert_true(device.most + report->plan.staging <= g->memory_limit);
}

/* Several text encoders, two experts: with room for all of them each is loaded once. */
static void weights_stay_while_they_fit(void **state)
{
    static const char *const models[] = {SG_FIXTURES "/flux_dev", SG_FIXTURES "/sd35_medium",
                                         SG_FIXTURES "/hunyuan_hd16", SG_FIXTURES "/wan22_a14b"};
    static watched           fresh, w;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        sg_report  report = {.size = sizeof report};
        sg_engine *g = open_on_device(models[i], "f32");
        render_prompt(g, "a dog", &fresh, &report);
        assert_int_equal(fresh.loads, sg_engine_info(g)->components + (g->components->modulation.component != NULL));
        close_engine(&g);
        g = open_on_device(models[i], "f32");
        render_prompt(g, "a cat", &w, &report);
        assert_int_equal(w.loads, fresh.loads);
        render_prompt(g, "a dog", &w, &report);
        assert_int_equal(w.loads, 0);
        assert_memory_equal(&fresh.film, &w.film, sizeof w.film);
        close_engine(&g);
    }
}

static const sg_kept *cheapest(const sg_engine *g)
{
    const sg_kept *least = g->keeper.kept;
    for (int i = 1; i < g->keeper.count; i++)
        if (g->keeper.kept[i].bytes.device < least->bytes.device) least = &g->keeper.kept[i];
    return least;
}

/* With one byte less than all of them need, the one that costs the least is loaded again. Where one encoder takes all
 * the memory that there is, it stays alone. */
static void what_costs_least_goes_first(void **state)
{
    static watched fresh, w;
    sg_report      report = {.size = sizeof report};
    sg_engine     *g = open_on_device(SG_FIXTURES "/sd35_medium", "f32");
    size_t         all = 0, work = 0;
    render_prompt(g, "a dog", &fresh, &report);
    for (int i = 0; i < g->keeper.count; i++) all += g->keeper.kept[i].bytes.device;
    for (int i = 0; i < report.plan.phases; i++)
        if (report.plan.phase[i].work > work) work = report.plan.phase[i].work;
    assert_int_equal(work, report.plan.phase[2].work);
    close_engine(&g);
    const size_t limit[] = {all + work + report.plan.staging, all + work + report.plan.staging - 1, report.plan.need};
    const int    loads[] = {0, 1, 5};
    for (int i = 0; i < 3; i++) {
        g = open_on_device(SG_FIXTURES "/sd35_medium", "f32");
        g->memory_limit = limit[i];
        render_prompt(g, "a cat", &w, &report);
        assert_int_equal(w.loads, 6);
        render_prompt(g, "a dog", &w, &report);
        assert_int_equal(w.loads, loads[i]);
        assert_memory_equal(&fresh.film, &w.film, sizeof w.film);
        only_what_stays_is_there(g);
        assert_int_equal(cheapest(g)->stays, i == 0);
        assert_true(
            sg_keeper_find(&g->keeper, g->components->text[2].encoder.ops->component(g->components->text[2].encoder.of))
                ->stays);
        close_engine(&g);
    }
}

/* What an earlier render left makes room for one that needs more, and what that one does not work with stays where it
 * can. */
static void less_memory_drops_what_is_loaded(void **state)
{
    static watched w;
    sg_report      report = {.size = sizeof report};
    sg_engine     *g = open_on_device(SG_FIXTURES "/wan22_a14b", "f32");
    render_prompt(g, "a cat", &w, &report);
    const size_t held = device.held;
    g->memory_limit = report.plan.need;
    render_prompt(g, "a dog", &w, &report);
    assert_true(w.loads > 0 && device.held < held);
    g->memory_limit = 0;
    render_prompt(g, "a cat", &w, &report);
    render_prompt(g, "a dog", &w, &report);
    assert_int_equal(w.loads, 0);
    assert_int_equal(device.held, held);
    close_engine(&g);
}

static void a_host_without_memory_is_told(void **state)
{
    static film f;
    sg_engine  *g = open_on_device(model, "f32");
    sg_request  r = square(g);
    sg_report   report = {.size = sizeof report};
    sg_error    e = {0};
    g->offload = SG_OFFLOAD_ON;
    device.no_pin = true;
    assert_refused(render_film(g, &r, &f, &report, &e), SG_E_MEMORY, &e, "page-locked");
    close_engine(&g);
}

static void hosts_do_not_offload(void **state)
{
    const sg_engine_options o = {
        .size = sizeof(sg_engine_options), .model_dir = model, .backend = "ref", .offload = SG_OFFLOAD_ON};
    engine_refused(&o, SG_E_ARG, "offload|backend ref");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_the_same),           cmocka_unit_test(bits_are_the_same_with_a_lora),
        cmocka_unit_test(auto_takes_what_fits),        cmocka_unit_test(text_encoders_take_what_fits),
        cmocka_unit_test(a_plan_as_another_engine),    cmocka_unit_test(modulations_take_what_fits),
        cmocka_unit_test(early_ends_leave_what_stays), cmocka_unit_test(a_host_without_memory_is_told),
        cmocka_unit_test(hosts_do_not_offload),        cmocka_unit_test(weights_stay_while_they_fit),
        cmocka_unit_test(what_costs_least_goes_first), cmocka_unit_test(less_memory_drops_what_is_loaded)};
    return cmocka_run_group_tests(tests, make_copy, leave_folder);
}
