/* test_cogvideox.c - what CogVideoX asks of a request and of its folder. Golden tests hold the numbers. */
#include "engine_fixture.h"
#include "tensor_source.h"
#include "vae.h"

#include <jansson.h>
#include <math.h>

static const char of_15[] = SG_FIXTURES "/cogvideox_15", of_2b[] = SG_FIXTURES "/cogvideox_2b";

/* Each count that is asked for becomes that of diffusers: of (frames - 1) / 4 + 1 latent frames, decoded in pairs. */
static void frames_are_those_of_diffusers(void **state)
{
    sg_error   e = {0};
    sg_engine *g = open_model(of_2b, 0);
    sg_request r = small(g);
    for (int asked = 1; asked <= 60; asked++) {
        const int latents = (asked - 1) / 4 + 1, made = latents % 2 ? 4 * latents - 3 : 4 * latents;
        r.frames = asked;
        e = (sg_error){0};
        assert_int_equal(sg_engine_check_request(g, &r, &e), made == asked ? SG_OK : SG_E_ARG);
        sg_engine_nearest_size(g, NULL, NULL, &r.frames);
        assert_int_equal(r.frames, made);
    }
    r.frames = 50;
    request_refused(g, &r, "frames: 50|8 n|nearest is 49");
    sg_engine_close(&g);
}

typedef struct seen {
    film    film;
    int64_t latent_frames;
} seen;

static sg_status take_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
    ((seen *)context)->latent_frames = shape[1];
    return SG_OK;
}

static seen render(sg_engine *g, const sg_request *r)
{
    static seen        s;
    sg_report          report = {.size = sizeof report};
    sg_error           e = {0};
    const sg_callbacks cb = {.size = sizeof(sg_callbacks), .context = &s, .latents = take_latents, .frame = film_frame};
    s = (seen){.film.bytes = (size_t)r->width * (size_t)r->height * 3};
    if (sg_engine_render(g, r, &cb, &report, &e)) fail_msg("%s", e.text);
    return s;
}

/* Patches of two latent frames want one frame more in front of three, which is neither saved nor decoded. */
static void pads_in_front_are_dropped(void **state)
{
    static const char path[] = "latents.safetensors";
    sg_error          e = {0};
    sg_source        *source = NULL;
    sg_engine        *g = open_model(of_15, 0);
    sg_request        r = small(g);
    char             *note = NULL;
    r.frames = 9;
    r.latents_out = path;
    const seen made = render(g, &r);
    assert_int_equal(made.latent_frames, 4);
    assert_int_equal(made.film.frames, 9);
    assert_int_equal(sg_source_open(&source, path, &e), SG_OK);
    assert_int_equal(sg_source_find(source, "latents").dim[1], 3);
    sg_source_close(&source);

    sg_request again = {.size = sizeof again};
    sg_engine_defaults(g, &again);
    again.latents_in = path;
    assert_int_equal(sg_engine_fit_latents(g, path, &again, &note, &e), SG_OK);
    assert_int_equal(again.frames, 9);
    assert_int_equal(again.width, 32);
    assert_int_equal(again.height, 48);
    const seen decoded = render(g, &again);
    assert_int_equal(decoded.film.frames, 9);
    assert_memory_equal(&decoded.film, &made.film, sizeof made.film);
    r.frames = 8;
    assert_int_equal(render(g, &r).latent_frames, 2);
    assert_int_equal(sg_engine_fit_latents(g, path, &again, &note, &e), SG_OK);
    assert_int_equal(again.frames, 8);
    sg_engine_close(&g);
}

/* Texts count without their pads. */
static void plan_has_the_real_tokens(void **state)
{
    sg_error   e = {0};
    sg_plan    plan = {.size = sizeof plan};
    sg_engine *g = open_model(of_2b, 0);
    sg_request r = small(g);
    r.frames = 9;
    assert_int_equal(sg_engine_plan(g, &r, &plan, &e), SG_OK);
    assert_true(plan.text_tokens[0] > 1 && plan.text_tokens[0] < g->components->text[0].tokens_max);
    assert_int_equal(plan.text_tokens[1], 1); /* the end */
    assert_int_equal(plan.cut[0], 0);
    assert_int_equal(plan.tokens, g->components->text[0].tokens_max + plan.latent[1] * 3 * 2);
    sg_engine_close(&g);
}

/* Guidance by CogVideoXPipeline's formula, in Python: 1 + g * ((1 - math.cos(math.pi * ((n - t) / n) ** 5.0)) / 2). */
static void guidance_follows_the_timestep(void **state)
{
    sg_error   e = {0};
    sg_engine *g = open_model(of_2b, 0), *wan = open_model(model, 0);
    sg_request r = small(g);
    r.frames = 9;
    r.dynamic_cfg = true;
    assert_int_equal(sg_engine_check_request(g, &r, &e), SG_OK);
    const struct {
        double scale, timestep, guidance;
        int    steps;
    } rows[] = {{6, 19, 1.12339794, 50}, {6, 99, 6.86437181, 50}, {6, 999, 2.29148717, 50}, {7, 999, 5.38186069, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(fabs(g->family->dynamic_guidance(rows[i].scale, rows[i].steps, rows[i].timestep) -
                         rows[i].guidance) < 1e-8);
    r = small(wan);
    r.dynamic_cfg = true;
    request_refused(wan, &r, "dynamic_cfg|family wan");
    sg_engine_close(&wan);
    sg_engine_close(&g);
}

/* 1.5 has positions for the rows and columns of its sample, 2B and 5B for any. */
static void sizes_beyond_known_positions_are_refused(void **state)
{
    char       text[128];
    sg_error   e = {0};
    sg_engine *g = open_model(of_15, 0), *any = open_model(SG_FIXTURES "/cogvideox_5b", 0);
    sg_request r = {.size = sizeof r}, large = r;
    sg_engine_defaults(g, &r);
    sg_engine_defaults(any, &large);
    assert_int_equal(sg_engine_check_request(g, &r, &e), SG_OK);
    snprintf(text, sizeof text, "size: %dx%d|%dx%d", r.width, r.height + 16, r.width, r.height);
    r.height += 16;
    request_refused(g, &r, text);
    assert_int_equal(sg_engine_check_request(any, &large, &e), SG_OK);
    large.width = large.height = 1024;
    assert_int_equal(sg_engine_check_request(any, &large, &e), SG_OK);
    sg_engine_close(&any);
    sg_engine_close(&g);
}

/* Learned positions are for one size, with any number of frames. */
static void sizes_beside_the_learned_are_refused(void **state)
{
    sg_error   e = {0};
    sg_engine *g = open_model(SG_FIXTURES "/cogvideox_i2v", 0);
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(g, &r);
    r.frames = 17;
    assert_int_equal(sg_engine_check_request(g, &r, &e), SG_OK);
    r.width -= 8;
    request_refused(g, &r, "size|32x24|40x24");
    sg_engine_close(&g);
}

/* The real encoder's means, with logarithms of variances that are too large. */
static sg_tensor encode_wide(void *run, sg_stream *s, sg_tensor frames)
{
    const sg_tensor y = sg_cogvideox_vae_ops.encode_next(run, s, frames);
    const int64_t   c = y.dim[3];
    for (int64_t i = 0; s->memory->alloc && i < sg_count(y); i++)
        if (i % c >= c / 2) ((float *)y.data)[i] = 1000;
    return y;
}

static void largest_of_image(void *context, const char *name, sg_stream *s, sg_tensor t)
{
    (void)s;
    if (strcmp(name, "image") != 0) return;
    for (int64_t i = 0; i < sg_count(t); i++) *(float *)context = fmaxf(*(float *)context, fabsf(sg_load(&t, i)));
}

/* As diffusers clamps them: the logarithm to 20. */
static void variances_of_a_picture_have_an_end(void **state)
{
    static uint8_t picture[40 * 24 * 3];
    float          largest = 0;
    sg_engine     *g = open_model(SG_FIXTURES "/cogvideox_i2v", 0);
    sg_request     r = small(g);
    sg_vae_ops     ops = sg_cogvideox_vae_ops;
    ops.encode_next = encode_wide;
    ((sg_components *)g->components)->vae.ops = &ops;
    g->tap = largest_of_image;
    g->tap_context = &largest;
    r.frames = 8;
    r.width = 40;
    r.height = 24;
    r.image[SG_IMAGE_FIRST] = (sg_request_image){.rgb = picture};
    (void)render(g, &r);
    assert_true(largest > 1 && (double)largest < 10 * exp(10)); /* ten deviations */
    sg_engine_close(&g);
}

/* One field of transformer/config.json is another. */
static void other_models_are_refused_by_field(void **state)
{
    static const struct {
        const char *field, *value, *what;
    } cases[] = {
        {"ofs_embed_dim", "20", "ofs_embed_dim|twice"},
        {"use_learned_positional_embeddings", "true",
         "use_learned_positional_embeddings: true|use_rotary_positional_embeddings"},
        {"out_channels", "4", "in_channels: 6|4"},
        {"flip_sin_to_cos", "false", "flip_sin_to_cos: false|true"},
        {"freq_shift", "1", "freq_shift|0"},
        {"activation_fn", "\"geglu\"", "activation_fn: \"geglu\"|\"gelu-approximate\""},
        {"timestep_activation_fn", "\"gelu\"", "timestep_activation_fn: \"gelu\"|\"silu\""},
        {"patch_size_t", "2", "patch_size_t|2 frames|use_rotary_positional_embeddings"},
        {"patch_size", "16", "patch_size: 16|sample"},
        {"num_attention_heads", "5", "misshapen|patch_embed.proj.bias|is ["},
        {"attention_head_dim", "12", "attention_head_dim: 3|12|16"},
        {"text_embed_dim", "48", "text_proj.weight"},
        {"num_layers", "4294967296", "num_layers: "},
        {"spatial_interpolation_scale", "0", "spatial_interpolation_scale: "},
        {"_class_name", "\"WanTransformer3DModel\"", "_class_name: is \"WanTransformer3DModel\""},
    };
    static const char config[] = SG_FIXTURES "/cogvideox_2b/transformer/config.json";
    shell("rm -rf " COPY " && cp -r '%s' " COPY, of_2b);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char names[160];
        snprintf(names, sizeof names, "transformer/|%s", cases[i].what);
        write_changed(COPY "/transformer/config.json", config, cases[i].field, cases[i].value);
        engine_refused(&(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = COPY, .backend = "ref"},
                       SG_E_FORMAT, names);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames_are_those_of_diffusers),
                                       cmocka_unit_test(pads_in_front_are_dropped),
                                       cmocka_unit_test(plan_has_the_real_tokens),
                                       cmocka_unit_test(guidance_follows_the_timestep),
                                       cmocka_unit_test(sizes_beyond_known_positions_are_refused),
                                       cmocka_unit_test(sizes_beside_the_learned_are_refused),
                                       cmocka_unit_test(variances_of_a_picture_have_an_end),
                                       cmocka_unit_test(other_models_are_refused_by_field)};
    return cmocka_run_group_tests(tests, make_copy, leave_folder);
}
