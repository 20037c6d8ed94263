/* engine_fixture.h - a mini checkpoint, a small render of it, and a copy to be spoilt. */
#ifndef SG_ENGINE_FIXTURE_H
#define SG_ENGINE_FIXTURE_H

#include "engine_state.h"
#include "unit.h"

static const char model[] = SG_FIXTURES "/wan21_hd12";

/* The backend that SG_TEST_BACKEND names for tests that run on others, too; NULL: it does not. */
static inline const char *test_device(void) { return getenv("SG_TEST_BACKEND"); }

static inline bool test_device_is_missing(void)
{
    return test_device() && sg_backend_touch(&(sg_backend_options){.name = test_device()}, NULL) == SG_E_UNSUPPORTED;
}

static inline sg_engine *open_engine(const sg_engine_options *o)
{
    sg_engine *g = NULL;
    sg_error   e = {0};
    assert_done(sg_engine_open(&g, o, &e), &e);
    return g;
}

static inline sg_engine *open_model(const char *dir, size_t limit)
{
    return open_engine(&(sg_engine_options){
        .size = sizeof(sg_engine_options), .model_dir = dir, .backend = "ref", .memory_limit = limit});
}

static inline void engine_refused(const sg_engine_options *o, sg_status code, const char *names)
{
    sg_engine *g = NULL;
    sg_error   e = {0};
    assert_refused(sg_engine_open(&g, o, &e), code, &e, names);
    assert_null(g);
}

static inline void request_refused(const sg_engine *g, const sg_request *r, const char *names)
{
    sg_error e = {0};
    assert_refused(sg_engine_check_request(g, r, &e), SG_E_ARG, &e, names);
}

static inline sg_request small(const sg_engine *g)
{
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(g, &r);
    r.prompt = "a cat";
    r.negative_prompt = "";
    r.width = 32;
    r.height = 48;
    r.frames = 5;
    r.steps = 2;
    r.cfg_scale = 3;
    r.seed = 7;
    return r;
}

/* What a render gives. */
typedef struct film {
    int     frames;
    size_t  bytes;                 /* of a frame */
    uint8_t rgb[16 * 64 * 64 * 3]; /* one frame behind the other */
} film;

static inline sg_status film_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    film *const f = context;
    assert_int_equal(index, f->frames++);
    assert_true((size_t)f->frames * f->bytes <= sizeof f->rgb);
    memcpy(f->rgb + (size_t)index * f->bytes, rgb, f->bytes);
    return SG_OK;
}

static inline sg_status render_film(sg_engine *g, const sg_request *r, film *f, sg_report *report, sg_error *e)
{
    *f = (film){.bytes = (size_t)r->width * (size_t)r->height * 3};
    return sg_engine_render(g, r, &(sg_callbacks){.size = sizeof(sg_callbacks), .context = f, .frame = film_frame},
                            report, e);
}

/* Setup of a group: as enter_folder, with a copy of the checkpoint in it. */
#define COPY "copy"

static inline int make_copy(void **state)
{
    if (enter_folder(state)) return -1;
    shell("cp -r '%s' " COPY, model);
    return 0;
}

#endif
