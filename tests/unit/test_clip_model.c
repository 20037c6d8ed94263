/* test_clip_model.c - CLIP as a judge: rows against transformers from words and pictures on, scores of a clip, refusals. */
#include "unit.h"

#include "../golden/counter.h"
#include "backend.h"
#include "clip_model_table.h"
#include "clip_similarity.h"

#define FOLDER SG_FIXTURES "/judge/clip"

static sg_clip_model *open_clip(const char *backend)
{
    sg_clip_model *m = NULL;
    sg_error       e = {0};
    if (sg_clip_model_open(
            &m, FOLDER, &(sg_engine_options){.size = sizeof(sg_engine_options), .backend = backend, .threads = 1}, &e))
        fail_msg("%s", e.text);
    return m;
}

/* Picture i of [n, height, width, 3]. */
static void make_picture(uint8_t *rgb, const char *name, int i, int width, int height)
{
    const uint64_t     seed = counter_seed(name);
    const counter_rule rule = {1, 0, 13};
    const int          n = width * height * 3;
    for (int k = 0; k < n; k++) {
        const double x = ldexp(counter_integer(seed, (uint64_t)(i * n + k), rule), -rule.shift);
        rgb[k] = (uint8_t)((x + 1) * 127.5);
    }
}

static void expect_row(const float *row, const double *table, const char *what)
{
    for (int i = 0; i < TABLE_ROW; i++)
        if (!(fabs((double)row[i] - table[i]) <= 1e-6))
            fail_msg("%s: %d: %.9g, not %.9g", what, i, (double)row[i], table[i]);
}

static void rows_are_those_of_transformers(void **state)
{
    static const char *const backends[] = {"ref", "cpu"};
    float                    row[TABLE_ROW];
    uint8_t                  rgb[45 * 57 * 3];
    for (int b = 0; b < 2; b++) {
        sg_clip_model *m = open_clip(backends[b]);
        assert_int_equal(sg_clip_model_size(m), TABLE_ROW);
        assert_int_equal(sg_clip_model_tokens(m), 20);
        assert_non_null(strstr(sg_clip_model_describe(m), "pictures: "));
        assert_string_equal(sg_clip_model_passed(m), "");
        for (int i = 0; i < TABLE_TEXTS; i++) {
            int cut = -1;
            assert_int_equal(sg_clip_model_text(m, table_text[i].text, row, &cut, NULL), SG_OK);
            assert_int_equal(cut, table_text[i].cut);
            expect_row(row, table_text[i].row, table_text[i].text);
        }
        for (int i = 0; i < TABLE_PICTURES; i++) {
            char name[32];
            snprintf(name, sizeof name, "picture.%d", i);
            make_picture(rgb, name, 0, table_picture[i].width, table_picture[i].height);
            assert_int_equal(sg_clip_model_picture(m, rgb, table_picture[i].width, table_picture[i].height, row, NULL),
                             SG_OK);
            expect_row(row, table_picture[i].row, name);
        }
        sg_clip_model_close(&m);
        assert_null(m);
    }
}

static sg_similarity_totals of_frames(sg_clip_model *m, const float *text, int frames)
{
    sg_clip_similarity g = {.model = m, .text = text};
    uint8_t            rgb[40 * 32 * 3];
    for (int i = 0; i < frames; i++) {
        make_picture(rgb, "clip", i, 40, 32);
        assert_int_equal(sg_clip_similarity_add(&g, &(sg_image){40, 32, rgb}, NULL), SG_OK);
    }
    const sg_similarity_totals s = sg_clip_similarity_total(&g);
    sg_clip_similarity_close(&g);
    return s;
}

static void scores_are_means_of_cosines(void **state)
{
    float          text[TABLE_ROW], against[TABLE_ROW];
    sg_clip_model *m = open_clip("cpu");
    assert_int_equal(sg_clip_model_text(m, table_text[0].text, text, NULL, NULL), SG_OK);
    for (int i = 0; i < TABLE_ROW; i++) against[i] = -text[i];
    const sg_similarity_totals clip = of_frames(m, text, TABLE_FRAMES), mute = of_frames(m, NULL, TABLE_FRAMES);
    assert_true(fabs(clip.clipsim - table_clipsim) < 1e-6 && fabs(clip.clip_t - table_clip_t) < 1e-6);
    assert_true(isnan(clip.clip_score) && isnan(mute.clipsim) && mute.clip_t == clip.clip_t);
    assert_true(fabs(of_frames(m, against, TABLE_FRAMES).clipsim + table_clipsim) < 1e-6); /* not cut at 0 */
    const sg_similarity_totals two = of_frames(m, text, 2), one = of_frames(m, text, 1),
                               other = of_frames(m, against, 1);
    assert_true(two.clipsim > 0 && isnan(one.clipsim) && isnan(one.clip_t));
    assert_true(one.clip_score > 1 && one.clip_score < 100 && other.clip_score == 0); /* cut */
    sg_clip_model_close(&m);
}

static void a_picture_that_cannot_be_seen_fails_alone(void **state)
{
    static const uint8_t line[6000 * 3];
    float                row[TABLE_ROW];
    uint8_t              rgb[45 * 57 * 3];
    sg_error             e = {0};
    sg_clip_model       *m = open_clip("cpu");
    assert_refused(sg_clip_model_picture(m, line, 1, 6000, row, &e), SG_E_ARG, &e, "narrow");
    assert_int_equal(sg_clip_model_picture(m, line, 0, 1, row, NULL), SG_E_ARG);
    assert_int_equal(sg_clip_model_picture(m, line, 1, -1, row, NULL), SG_E_ARG);
    assert_int_equal(sg_clip_model_text(m, "\xff", row, NULL, NULL), SG_E_ARG);
    make_picture(rgb, "picture.0", 0, table_picture[0].width, table_picture[0].height);
    assert_int_equal(sg_clip_model_picture(m, rgb, table_picture[0].width, table_picture[0].height, row, NULL), SG_OK);
    expect_row(row, table_picture[0].row, "after a failure");
    sg_clip_model_close(&m);
}

static void memory_is_refused_with_figures(void **state)
{
    sg_clip_model          *m = NULL;
    sg_error                e = {0};
    const sg_engine_options o = {
        .size = sizeof(sg_engine_options), .backend = "cpu", .threads = 1, .memory_limit = 1000};
    assert_refused(sg_clip_model_open(&m, FOLDER, &o, &e), SG_E_MEMORY, &e, "CLIP needs");
    assert_null(m);
}

/* Opens a copy of the fixture with one file of other contents, or without it. The hash of what was opened. */
static uint64_t open_with(const char *file, const char *contents, sg_status status, const char *words)
{
    static const char *const names[] = {
        "config.json", "preprocessor_config.json", "processor_config.json", "model.safetensors", "vocab.json",
        "merges.txt",  "tokenizer_config.json"};
    sg_clip_model *m = NULL;
    sg_error       e = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char from[512];
        remove(names[i]);
        snprintf(from, sizeof from, "%s/%s", FOLDER, names[i]);
        if (strcmp(names[i], file) != 0 && access(from, F_OK) == 0) assert_int_equal(symlink(from, names[i]), 0);
    }
    if (contents) write_text(file, contents);
    const sg_status got = sg_clip_model_open(
        &m, ".", &(sg_engine_options){.size = sizeof(sg_engine_options), .backend = "cpu", .threads = 1}, &e);
    if (status == SG_OK)
        assert_done(got, &e);
    else
        assert_refused(got, status, &e, words ? words : "");
    const uint64_t hash = m ? sg_clip_model_hash(m) : 0;
    sg_clip_model_close(&m);
    return hash;
}

/* Scores can be compared with each other if weights and preparation are the same. */
static void pictures_prepared_otherwise_are_another_clip(void **state)
{
    static const char *const others[] = {"{\"image_processor\": {\"resample\": 1}}",
                                         "{\"image_processor\": {\"image_mean\": [0.5, 0.5, 0.25]}}"};
    const uint64_t           own = open_with("", NULL, SG_OK, NULL);
    assert_int_equal(open_with("", NULL, SG_OK, NULL), own);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_not_equal(open_with("processor_config.json", others[i], SG_OK, NULL), own);
}

static void files_are_refused_by_field_and_tensor(void **state)
{
    open_with("", NULL, SG_OK, NULL);
    open_with("preprocessor_config.json", NULL, SG_OK, NULL);
    open_with("preprocessor_config.json", "{\"size\": 31}", SG_E_FORMAT, "preprocessor_config.json: size: ");
    open_with("processor_config.json", "{\"processor_class\": \"CLIPProcessor\"}", SG_OK, NULL);
    open_with("processor_config.json", "{\"image_processor\": 3}", SG_E_FORMAT,
              "processor_config.json: image_processor: ");
    open_with("processor_config.json", "{\"image_processor\": {\"size\": 31}}", SG_E_FORMAT,
              "processor_config.json|image_processor|size");
    open_with("config.json", NULL, SG_E_FILE, "config.json");
    open_with("config.json", "{\"model_type\": \"clip_text_model\"}", SG_E_FORMAT, "config.json: model_type: ");
    open_with("config.json", "{\"model_type\": \"clip\", \"projection_dim\": 0}", SG_E_FORMAT,
              "config.json: projection_dim: ");
    open_with("config.json", "{\"model_type\": \"clip\", \"text_config\": 3}", SG_E_FORMAT,
              "config.json: text_config: ");
    open_with("config.json", "{\"model_type\": \"clip\", \"text_config\": {\"hidden_size\": 0}}", SG_E_FORMAT,
              "config.json|text_config|hidden_size");
    open_with("config.json", "{\"model_type\": \"clip\"}", SG_E_FORMAT, "text_model.embeddings.token_embedding.weight");
    open_with("model.safetensors", NULL, SG_E_FILE, "model.safetensors");
    open_with("model.safetensors", "", SG_E_FORMAT, "model.safetensors");
    open_with("vocab.json", NULL, SG_E_FILE, "vocab.json");
    open_with("merges.txt", NULL, SG_E_FILE, "merges.txt");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_transformers),
        cmocka_unit_test(scores_are_means_of_cosines),
        cmocka_unit_test(a_picture_that_cannot_be_seen_fails_alone),
        cmocka_unit_test(memory_is_refused_with_figures),
        cmocka_unit_test(files_are_refused_by_field_and_tensor),
        cmocka_unit_test(pictures_prepared_otherwise_are_another_clip),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
