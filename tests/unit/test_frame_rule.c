/* test_frame_rule.c - how many frames models make: counts, the nearest of them, words; and a model of images in the engine. */
#include "engine_fixture.h"

#include "safetensors_write.h"

#include <limits.h>

static void rules_have_counts_and_words(void **state)
{
    static const struct {
        sg_frame_rule rule;
        const char   *text;
        int           counts[4], asked[4], nearest[4]; /* counts of 1, 2, 3, 12 latent frames */
    } want[] = {
        {{.step = 4}, "4 n + 1", {1, 5, 9, 45}, {1, 2, 3, 80}, {1, 1, 5, 81}},
        {{.step = 6}, "6 n + 1", {1, 7, 13, 67}, {3, 4, 7, 160}, {1, 7, 7, 163}},
        {{.step = 4, .pairs = true}, "8 n or 8 n + 1", {1, 8, 9, 48}, {1, 7, 10, 49}, {1, 8, 9, 49}},
        {{0}, "1", {1, 1, 1, 1}, {1, 2, 81, INT_MAX}, {1, 1, 1, 1}},
    };
    static const int64_t latents[4] = {1, 2, 3, 12};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char text[48];
        assert_string_equal(sg_frame_rule_text(text, sizeof text, want[i].rule), want[i].text);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(sg_frame_rule_count(want[i].rule, latents[k]), want[i].counts[k]);
            assert_int_equal(sg_frame_rule_nearest(want[i].rule, want[i].asked[k]), want[i].nearest[k]);
        }
    }
}

/* Nothing but one frame can be asked for, and of latents of a clip nothing is made. */
static void a_model_of_images_makes_one_frame(void **state)
{
    static float      latents[4096];
    static const char path[] = "out.safetensors";
    char             *note = NULL;
    sg_engine        *g = open_model(model, 0);
    sg_components     images = *g->components;
    sg_request        r = small(g);
    sg_report         rep = {.size = sizeof rep};
    sg_error          e = {0};
    images.frames = (sg_frame_rule){0};
    g->components = &images;
    request_refused(g, &r, "frames: 5|makes 1|is 1");
    sg_engine_nearest_size(g, NULL, NULL, &r.frames);
    assert_int_equal(r.frames, 1);
    assert_int_equal(sg_engine_check_request(g, &r, &e), SG_OK);

    const sg_tensor clip = {.data = latents, .rank = 4, .dim = {images.vae.info.z, 2, 6, 4}};
    assert_true(sg_count(clip) <= (int64_t)(sizeof latents / sizeof *latents));
    assert_int_equal(sg_safetensors_write(path, "latents", clip, NULL, &e), SG_OK);
    assert_int_equal(sg_engine_fit_latents(g, path, &r, &note, &e), SG_OK);
    assert_int_equal(r.frames, 1);
    r.latents_in = path;
    e = (sg_error){0};
    assert_refused(sg_engine_render(g, &r, NULL, &rep, &e), SG_E_ARG, &e, "2, 6, 4]|32x48|1 frame");
    sg_engine_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules_have_counts_and_words),
                                       cmocka_unit_test(a_model_of_images_makes_one_frame)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
