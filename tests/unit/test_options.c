/* test_options.c - values of options: what is a number, a size, an amount of memory, a place to capture, and what is not. */
#include "option_names.h"
#include "option_rules.h"
#include "setup.h"
#include "unit.h"

static sg_settings set(const char *name, const char *value)
{
    sg_settings s = sg_options_empty(SG_COMMAND_RENDER);
    sg_error    e = {0};
    if (sg_options_set(&s, name, value, &e) != SG_OK) fail_msg("%s", e.text);
    return s;
}

static void numbers_are_read(void **state)
{
    assert_int_equal(set("steps", "007").steps, 7);
    assert_int_equal(set("steps", "+5").steps, 5);
    assert_true(set("seed", "-9223372036854775808").seed == INT64_MIN);
    assert_true(set("cfg-scale", "1e1").cfg_scale == 10);
    assert_true(set("cfg-scale", ".5").cfg_scale == 0.5);
    static const char *const sizes[] = {"832x480", "832X480", "832*480"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const sg_settings s = set("size", sizes[i]);
        assert_int_equal(s.size[0], 832);
        assert_int_equal(s.size[1], 480);
    }
}

static void amounts_of_memory_have_units(void **state)
{
    static const struct {
        const char *text;
        size_t      bytes;
    } rows[] = {{"1", 1},      {"12B", 12},          {"1k", 1024},          {"1.5K", 1536},       {"2Ki", 2048},
                {"3KB", 3072}, {"512M", 512u << 20}, {"512mB", 512u << 20}, {"8GiB", 8ull << 30}, {"0.5T", 1ull << 39},
                {"1e3", 1000}, {"0.001g", 1073741}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (set("memory-limit", rows[i].text).memory_limit != rows[i].bytes) fail_msg("%s", rows[i].text);
    }
}

static void other_values_are_refused(void **state)
{
    static const struct {
        const char *name, *value;
    } rows[] = {{"steps", ""},
                {"steps", " 5"},
                {"steps", "5 "},
                {"steps", "0x5"},
                {"steps", "1001"},
                {"steps", "+"},
                {"seed", "9223372036854775808"},
                {"cfg-scale", ""},
                {"cfg-scale", "inf"},
                {"cfg-scale", "0x2"},
                {"cfg-scale", "1,5"},
                {"cfg-scale", " 1"},
                {"cfg-scale", "1e"},
                {"size", "832"},
                {"size", "832x"},
                {"size", "x480"},
                {"size", "832x480x2"},
                {"size", "832x 480"},
                {"size", "16385x1"},
                {"memory-limit", ""},
                {"memory-limit", "G"},
                {"memory-limit", "GB"},
                {"memory-limit", "iB"},
                {"memory-limit", "8i"},
                {"memory-limit", "8iB"},
                {"memory-limit", "8Gi B"},
                {"memory-limit", "8BB"},
                {"memory-limit", "8GK"},
                {"memory-limit", "0"},
                {"memory-limit", "-1G"},
                {"memory-limit", "0x1G"},
                {"memory-limit", "inf"},
                {"memory-limit", "5e18"},
                {"memory-limit", "5000000T"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sg_settings s = sg_options_empty(SG_COMMAND_RENDER);
        sg_error    e = {0};
        char        wanted[80];
        snprintf(wanted, sizeof wanted, "--%s: '%s'", rows[i].name, rows[i].value);
        assert_refused(sg_options_set(&s, rows[i].name, rows[i].value, &e), SG_E_ARG, &e, wanted);
    }
}

static void captures_are_split(void **state)
{
    int         layer, step;
    const char *file;
    assert_true(sg_options_capture("4:16:a:b.safetensors", &layer, &step, &file));
    assert_int_equal(layer, 4);
    assert_int_equal(step, 16);
    assert_string_equal(file, "a:b.safetensors");
    static const char *const bad[] = {"",
                                      "4",
                                      "4:6",
                                      "4:6:",
                                      "4:6:.safetensors",
                                      "4:6:a.png",
                                      ":6:a.safetensors",
                                      "-1:6:a.safetensors",
                                      "4: 6:a.safetensors",
                                      "4:1000000:a.safetensors"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (sg_options_capture(bad[i], &layer, &step, &file)) fail_msg("'%s' is accepted", bad[i]);
}

static void models_keep_their_loras(void **state)
{
    static const char *const text[2] = {SG_TINY_WAN "/model_index.json:0.5", SG_TINY_WAN "/vae/config.json"};
    static const char *const path[2] = {SG_TINY_WAN "/model_index.json", SG_TINY_WAN "/vae/config.json"};
    sg_model_path            model[2];
    sg_engine_options        o[2];
    sg_error                 e = {0};
    for (int i = 0; i < 2; i++) {
        sg_settings s = sg_options_empty(SG_COMMAND_RENDER);
        assert_int_equal(sg_options_set(&s, "model", SG_TINY_WAN, &e), SG_OK);
        assert_int_equal(sg_options_set(&s, "lora", text[i], &e), SG_OK);
        if (sg_setup_model(&model[i], &s, &e) || sg_setup_options(&o[i], &model[i], &s, &e)) fail_msg("%s", e.text);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(o[i].loras, 1);
        assert_string_equal(o[i].lora[0].path, path[i]);
        assert_true(o[i].lora[0].strength == (i ? 1 : 0.5));
        assert_int_equal(o[i].lora[0].denoisers, 0);
    }
}

static void failures_name_options(void **state)
{
    static const struct {
        sg_status   status;
        const char *members, *options;
    } rows[] = {{SG_E_ARG, "clip_vision: a.pth: no such part", "--clip-vision: a.pth: no such part"},
                {SG_E_ARG, "mask: U8 [1]", "--block-mask: U8 [1]"},
                {SG_E_ARG, "rule: there is no number 9", "rule: there is no number 9"},
                {SG_E_ARG, "video of 3 frames", "video of 3 frames"},
                {SG_E_FILE, "a/b: missing:\n  give it by vae=FILE (v.pth)\n  give it by clip_tokenizer=FOLDER (c/)",
                 "a/b: missing:\n  give it by --vae FILE (v.pth)\n  give it by --clip-tokenizer FOLDER (c/)"},
                {SG_E_FILE, "vae: cannot be opened", "vae: cannot be opened"}, /* a file of this name */
                {SG_E_FILE, "cfg_scale=3/vae=a.pth: cannot be opened", "cfg_scale=3/vae=a.pth: cannot be opened"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sg_error e = {0};
        (void)sg_error_set(&e, rows[i].status, "%s", rows[i].members);
        sg_option_names(&e, SG_COMMAND_RENDER);
        assert_string_equal(e.text, rows[i].options);
    }
    sg_error whole = {.code = SG_E_FILE};
    memset(whole.text, ' ', sizeof whole.text - 1);
    memcpy(whole.text + sizeof whole.text - 9, "vae=FILE", 8);
    sg_option_names(&whole, SG_COMMAND_RENDER);
    assert_string_equal(whole.text + sizeof whole.text - 9, "--vae FI");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_read),         cmocka_unit_test(amounts_of_memory_have_units),
        cmocka_unit_test(other_values_are_refused), cmocka_unit_test(captures_are_split),
        cmocka_unit_test(models_keep_their_loras),  cmocka_unit_test(failures_name_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
