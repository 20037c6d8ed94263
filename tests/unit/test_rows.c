/* test_rows.c - denoisers that work on fewer tokens at once to take less memory: the latents are those of all at once, bit
 * for bit, in every family, and a plan does it where a device lacks the room. */
#include "../held.h"
#include "engine_fixture.h"
#include "notices.h"

enum { STEPS = 2 };

/* ---- the bits ---- */

static sg_status take_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
    sg_tensor *const t = context;
    *t = (sg_tensor){.data = t->data, .dtype = SG_F32, .rank = 4};
    memcpy(t->dim, shape, 4 * sizeof *shape);
    assert_non_null(t->data = realloc(t->data, sg_bytes(*t)));
    memcpy(t->data, latents, sg_bytes(*t));
    return step + 1 < STEPS ? SG_OK : sg_error_set(e, SG_E_CANCELLED, "nothing is decoded");
}

/* The latents, from so many tokens at once, and what that was planned to take. */
static sg_plan denoise(sg_engine *g, const sg_request *r, int64_t rows, sg_tensor *latents)
{
    sg_report report = {.size = sizeof report};
    sg_error  e = {0};
    g->rows_at_once = rows;
    const sg_callbacks cb = {.size = sizeof cb, .context = latents, .latents = take_latents};
    if (sg_engine_render(g, r, &cb, &report, &e) != SG_E_CANCELLED) fail_msg("%s", e.text);
    return report.plan;
}

static const sg_phase_plan *denoising(const sg_plan *p)
{
    int i = 0;
    while (p->phase[i].stage != SG_STAGE_DENOISE) i++;
    assert_true(i < p->phases);
    return &p->phase[i];
}

/* Three pieces of the tokens and a text before or behind them, of whose rows one piece may have some, too; passes that
 * share their first layer; attention in groups, by blocks and a second one of the same tokens. */
static void bits_are_the_same(void **state)
{
    static const struct {
        const char *model;
        int         side, frames, rows;
    } models[] = {{"wan21_hd12", 384, 5, 512},   {"cogvideox_5b", 264, 1, 512}, {"flux_dev", 264, 1, 512},
                  {"hunyuan_hd16", 384, 5, 512}, {"mochi_hd16", 384, 7, 512},   {"opensora_hd24", 264, 1, 512},
                  {"sd35_medium", 104, 1, 128}};
    static const char *const dtypes[] = {"f32", "bf16"};
    for (size_t i = 0; i < 2 * sizeof models / sizeof *models; i++) {
        char      dir[256];
        sg_tensor all = {0}, pieces = {0};
        snprintf(dir, sizeof dir, SG_FIXTURES "/%s", models[i / 2].model);
        sg_engine *g = open_engine(&(sg_engine_options){.size = sizeof(sg_engine_options),
                                                        .model_dir = dir,
                                                        .backend = test_device() ? test_device() : "cpu",
                                                        .cpu_mask = held_mask(),
                                                        .threads = 2,
                                                        .dtype = dtypes[i % 2]});
        sg_request r = small(g);
        r.width = r.height = models[i / 2].side;
        r.frames = models[i / 2].frames;
        r.steps = STEPS;
        r.attention.kind = i % 2 ? SG_ATTENTION_SPARGE : SG_ATTENTION_DENSE;
        r.attention.named = true;
        r.attention.dense_steps = 0;
        const sg_plan whole = denoise(g, &r, 0, &all), p = denoise(g, &r, models[i / 2].rows, &pieces);
        assert_true(whole.rows_at_once == 0 && p.rows_at_once == models[i / 2].rows);
        if (i % 2 == 0 && denoising(&p)->work >= denoising(&whole)->work)
            fail_msg("%s takes as much", models[i / 2].model);
        if (memcmp(all.data, pieces.data, sg_bytes(all)) != 0) fail_msg("%s %s", models[i / 2].model, dtypes[i % 2]);
        free(all.data);
        free(pieces.data);
        sg_engine_close(&g);
    }
}

/* ---- the plan ---- */

/* A device that can keep blocks on the host, as far as a plan goes. */
static void *no_pin(const sg_backend *b, size_t bytes) { return NULL; }

/* 119,312 tokens, on a device of that much memory. */
static sg_plan plan_on(sg_engine *g, size_t memory, sg_offload offload)
{
    sg_request r = {.size = sizeof r};
    sg_plan    p = {.size = sizeof p};
    sg_error   e = {0};
    sg_engine_defaults(g, &r);
    g->memory_limit = memory;
    g->offload = offload;
    assert_done(sg_engine_plan(g, &r, &p, &e), &e);
    return p;
}

/* What denoising needs. */
static size_t need(const sg_plan *p) { return denoising(p)->weights + denoising(p)->work + p->staging; }

static void a_device_without_room_takes_pieces(void **state)
{
    sg_engine        *g = open_model(SG_FIXTURES "/hunyuan_hd16", 0);
    sg_backend *const real = g->backend;
    sg_backend        device = *real;
    sg_memory         memory = *real->memory;
    device.process_memory = device.host_memory = false;
    device.memory = &memory;
    memory.pin = no_pin;
    g->backend = &device;

    const size_t  lots = (size_t)1 << 40;
    const sg_plan whole = plan_on(g, lots, SG_OFFLOAD_AUTO), exact = plan_on(g, need(&whole), SG_OFFLOAD_AUTO);
    assert_true(whole.rows_at_once == 0 && exact.rows_at_once == 0);
    const sg_plan pieces = plan_on(g, need(&whole) - 1, SG_OFFLOAD_AUTO);
    assert_true(pieces.rows_at_once == 8192 && need(&pieces) < need(&whole) && denoising(&pieces)->host == 0);
    const sg_plan tight = plan_on(g, need(&pieces) - 1, SG_OFFLOAD_AUTO); /* the same, and blocks on the host */
    assert_true(tight.rows_at_once == 8192 && denoising(&tight)->host > 0);
    assert_int_equal(denoising(&tight)->work, denoising(&pieces)->work);

    /* blocks that were sent to the host on purpose are no want of room */
    const sg_plan on = plan_on(g, lots, SG_OFFLOAD_ON), close = plan_on(g, need(&on) - 1, SG_OFFLOAD_ON);
    assert_true(on.rows_at_once == 0 && denoising(&on)->host > 0 && close.rows_at_once == 8192);
    assert_int_equal(plan_on(g, need(&whole) - 1, SG_OFFLOAD_OFF).rows_at_once, 8192);

    /* a host has one memory, which is the system's */
    g->backend = real;
    assert_int_equal(plan_on(g, need(&whole) - 1, SG_OFFLOAD_AUTO).rows_at_once, 0);
    sg_engine_close(&g);
}

static void it_is_said(void **state)
{
    const int  own = dup(STDERR_FILENO);
    sg_session x = {0};
    sg_progress_init(&x.progress, false);
    assert_non_null(freopen("said", "w", stderr));
    sg_notice_plan(&x, &(sg_plan){0});
    sg_notice_plan(&x, &(sg_plan){.rows_at_once = 8192});
    fflush(stderr);
    dup2(own, STDERR_FILENO);
    close(own);
    char *const said = read_file("said", NULL);
    assert_string_equal(said,
                        "denoising: tokens in pieces, since all at once would not fit; the frames are the same\n");
    free(said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_are_the_same),
                                       cmocka_unit_test(a_device_without_room_takes_pieces),
                                       cmocka_unit_test(it_is_said)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
