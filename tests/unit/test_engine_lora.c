/* test_engine_lora.c - a render with a LoRA is, bit for bit, that of a checkpoint whose weights were merged before. */
#include "engine_fixture.h"
#include "lora_file.h"

enum { FRAME = 32 * 48 * 3 };

typedef struct film {
    uint8_t pixels[5][FRAME];
} film;

static const char lora[] = "l.safetensors", dir[] = "model";
static const char experts[] = SG_FIXTURES "/wan22_a14b";

#define WEIGHTS "diffusion_pytorch_model.safetensors"

static sg_status take_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    (void)e;
    memcpy(((film *)context)->pixels[index], rgb, FRAME);
    return SG_OK;
}

/* With a picture to begin with, or without. */
static sg_status render_on(sg_engine *g, film *f, bool picture, sg_error *e)
{
    static uint8_t grey[FRAME];
    sg_report      report;
    sg_request     r = small(g);
    r.steps = 4;
    memset(grey, 100, sizeof grey);
    if (picture) r.image[SG_IMAGE_FIRST].rgb = grey;
    return sg_engine_render(g, &r, &(sg_callbacks){.context = f, .frame = take_frame}, &report, e);
}

static sg_engine *open_with(const sg_engine_options *o)
{
    sg_engine *g = NULL;
    sg_error   e = {0};
    if (sg_engine_open(&g, o, &e)) fail_msg("%s", e.text);
    return g;
}

static void render(film *f, const sg_engine_options *o)
{
    sg_engine *g = open_with(o);
    sg_error   e = {0};
    if (render_on(g, f, false, &e)) fail_msg("%s", e.text);
    sg_engine_close(&g);
}

/* Of an expert alone, of both, of both with different strengths. */
static void a_render_is_that_of_merged_weights(void **state)
{
    static const struct {
        unsigned denoisers;
        double   strength[2];
    } of[] = {{1, {0.5, 0}}, {~1u, {0, -1}}, {0, {1, 1}}};
    static const char *const parts[] = {"transformer", "transformer_2"};
    static film              plain, with, merged;
    char                     from[256], to[256];
    sg_error                 e = {0};
    snprintf(from, sizeof from, "%s/transformer/" WEIGHTS, experts);
    lora_save_for(from, lora, NULL);
    sg_engine_options o = {.model_dir = experts, .backend = "ref", .dtype = "f32"};
    render(&plain, &o);
    for (int i = 0; i < 3; i++) {
        shell("rm -rf %s && cp -r '%s' %s", dir, experts, dir);
        for (int k = 0; k < 2; k++) {
            snprintf(from, sizeof from, "%s/%s/" WEIGHTS, experts, parts[k]);
            snprintf(to, sizeof to, "%s/%s/" WEIGHTS, dir, parts[k]);
            unlink(to); /* a link, perhaps */
            if (lora_merge(from, lora, of[i].strength[k], to, &e)) fail_msg("%s", e.text);
        }
        render(&merged, &(sg_engine_options){.model_dir = dir, .backend = "ref", .dtype = "f32"});
        o.lora[0] =
            (sg_lora_option){lora, of[i].strength[0] != 0 ? of[i].strength[0] : of[i].strength[1], of[i].denoisers};
        o.loras = 1;
        render(&with, &o);
        assert_memory_equal(&with, &merged, sizeof with);
        assert_memory_not_equal(&with, &plain, sizeof with);
    }
}

/* Two halves of a LoRA are, but for rounding, a whole one; the plan knows that patched weights do not serve in place. */
static void several_add_up_and_are_planned(void **state)
{
    char       from[256];
    sg_plan    p[2];
    sg_engine *g = NULL;
    sg_error   e = {0};
    snprintf(from, sizeof from, "%s/transformer/" WEIGHTS, model);
    lora_save_for(from, lora, NULL);
    sg_engine_options o = {.model_dir = model, .backend = "ref", .dtype = "f32"};
    for (int i = 0; i < 2; i++) {
        if (sg_engine_open(&g, &o, &e)) fail_msg("%s", e.text);
        const sg_request r = small(g);
        assert_int_equal(sg_engine_plan(g, &r, &p[i], &e), SG_OK);
        const sg_model_info info = sg_engine_info(g);
        assert_int_equal(info.loras, 2 * i);
        for (int k = 0; k < info.loras; k++) {
            assert_string_equal(info.lora[k].name, "l.safetensors");
            assert_int_equal(info.lora[k].rank[1], 2);
            assert_int_equal(info.lora[k].unused, 0);
            assert_true(info.lora[k].tensors > 10 && info.lora[k].hash);
        }
        sg_engine_close(&g);
        o.lora[0] = o.lora[1] = (sg_lora_option){lora, 0.5, 0};
        o.loras = 2;
    }
    assert_true(p[1].phase[1].weights > p[0].phase[1].weights);
    assert_true(p[1].phase[1].mapped < p[0].phase[1].mapped);
}

static void an_expert_that_is_not_there_is_told(void **state)
{
    sg_engine              *g = NULL;
    sg_error                e = {0};
    const sg_engine_options o = {.model_dir = model, .backend = "ref", .lora = {{lora, 1, 1}}, .loras = 1};
    assert_refused(sg_engine_open(&g, &o, &e), SG_E_ARG, &e, "two experts|one denoiser");
}

/* As of the 14B on a smaller model. */
static void the_model_of_a_lora_is_named(void **state)
{
    enum { D = 5120 };
    static float x[D];
    sg_engine   *g = NULL;
    sg_error     e = {0};
    lora_file    f = {.size = 0};
    lora_put(&f, "blocks.0.self_attn.q.lora_A.weight", "F32", 2, (int64_t[]){1, D}, x, sizeof x);
    lora_put(&f, "blocks.0.self_attn.q.lora_B.weight", "F32", 2, (int64_t[]){D, 1}, x, sizeof x);
    lora_save(&f, lora, NULL);
    const sg_engine_options o = {.model_dir = model, .backend = "ref", .lora = {{lora, 1, 0}}, .loras = 1};
    assert_refused(sg_engine_open(&g, &o, &e), SG_E_FORMAT, &e,
                   "[5120, 1]|[1, 5120]|[24, 24]|Wan 2.1 14B|Wan 2.2 A14B");
}

/* A copy of the model that takes a picture, with that in its sparge-gen.json. */
static void model_with(const char *own)
{
    shell("rm -rf model && cp -rL '%s' model && cp l.safetensors model &&"
          "sed -i 's/\"expand_timesteps\": false/\"expand_timesteps\": true/' model/model_index.json &&"
          "echo '%s' >model/sparge-gen.json",
          model, own);
}

/* "image_lora" is there for renders with a picture alone, however they follow one another. */
static void a_picture_brings_the_model_s_own(void **state)
{
    static film plain[2], want, got;
    char        from[256];
    sg_plan     p[2];
    sg_error    e = {0};
    snprintf(from, sizeof from, "%s/transformer/" WEIGHTS, model);
    lora_save_for(from, lora, NULL);
    sg_engine_options o = {.model_dir = dir, .backend = "ref", .dtype = "f32"};

    model_with("{}");
    sg_engine *g = open_with(&o);
    for (int k = 0; k < 2; k++)
        if (render_on(g, &plain[k], k, &e)) fail_msg("%s", e.text);
    sg_request r = small(g);
    assert_int_equal(sg_engine_plan(g, &r, &p[0], &e), SG_OK);
    sg_engine_close(&g);
    o.lora[0] = (sg_lora_option){lora, 1, 0};
    o.loras = 1;
    g = open_with(&o);
    if (render_on(g, &want, true, &e)) fail_msg("%s", e.text);
    sg_engine_close(&g);
    assert_memory_not_equal(&want, &plain[1], sizeof want);

    o.loras = 0;
    model_with("{\"image_lora\": \"l.safetensors\"}");
    g = open_with(&o);
    for (int k = 0; k < 4; k++) {
        if (render_on(g, &got, k % 2, &e)) fail_msg("%s", e.text);
        assert_memory_equal(&got, k % 2 ? &want : &plain[0], sizeof got);
    }
    assert_int_equal(sg_engine_plan(g, &r, &p[1], &e), SG_OK);
    assert_int_equal(p[1].phase[1].mapped, p[0].phase[1].mapped);
    sg_engine_close(&g);
}

static void a_missing_lora_for_pictures_is_told(void **state)
{
    static film             got;
    sg_error                e = {0};
    sg_engine              *g = NULL;
    const sg_engine_options o = {.model_dir = dir, .backend = "ref"};
    model_with("{\"image_lora\": \"none.safetensors\"}");
    g = open_with(&o);
    for (int k = 0; k < 2; k++) {
        assert_refused(render_on(g, &got, true, &e), SG_E_FILE, &e, "model/none.safetensors: ");
        if (render_on(g, &got, false, &e)) fail_msg("%s", e.text);
    }
    sg_engine_close(&g);
    static const char *const no_file[] = {"../l.safetensors", "", ".", ".."};
    for (size_t i = 0; i < sizeof no_file / sizeof *no_file; i++) {
        char own[64], told[96];
        e = (sg_error){0};
        snprintf(own, sizeof own, "{\"image_lora\": \"%s\"}", no_file[i]);
        snprintf(told, sizeof told, "image_lora|\"%s\"", no_file[i]);
        model_with(own);
        assert_refused(sg_engine_open(&g, &o, &e), SG_E_FORMAT, &e, told);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_render_is_that_of_merged_weights),  cmocka_unit_test(several_add_up_and_are_planned),
        cmocka_unit_test(an_expert_that_is_not_there_is_told), cmocka_unit_test(the_model_of_a_lora_is_named),
        cmocka_unit_test(a_picture_brings_the_model_s_own),    cmocka_unit_test(a_missing_lora_for_pictures_is_told)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
