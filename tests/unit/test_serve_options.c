/* test_serve_options.c - what a job may ask for: each row of the option table, values, refusals in JSON's spelling,
 * names of models and LoRAs. */
#include "report_settings.h"
#include "serve_options.h"
#include "served_files.h"
#include "settings.h"
#include "unit.h"

static json_t *parse(const char *text)
{
    json_error_t  why;
    json_t *const j = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (!j) fail_msg("%s: %s", text, why.text);
    return j;
}

static sg_status read_text(sg_settings *s, json_t **j, const char *text, bool form, sg_error *e)
{
    *j = parse(text);
    *s = sg_options_empty(SG_COMMAND_RENDER);
    return sg_serve_options_read(s, *j, form, e);
}

/* A value that the option takes. */
static json_t *value_of(const sg_option *o)
{
    switch (o->kind) {
    case SG_OPTION_FLAG: return json_true();
    case SG_OPTION_CHOICE: return json_string(*sg_option_choices(o));
    case SG_OPTION_INT:
    case SG_OPTION_INT64: return json_integer((json_int_t)o->lo + 1);
    case SG_OPTION_REAL: return json_real(o->hi);
    case SG_OPTION_SIZE: return json_string("32x48");
    default: return json_string("0.5");
    }
}

/* Options that decide what is rendered are allowed, no others. A text might be a path, so those are listed. */
static void each_row_is_allowed_or_not(void **state)
{
    static const char *const texts[] = {"prompt", "negative-prompt", "skip-layers", "sigmas", "dense-layers"};
    const sg_option         *o;
    size_t                   seen = 0;
    int                      allowed = 0;
    for (int i = 0; (o = sg_option_next(SG_COMMAND_RENDER, &i)) != NULL;) {
        char          key[48];
        sg_error      e = {0};
        sg_settings   s = sg_options_empty(SG_COMMAND_RENDER);
        json_t *const j = json_object();
        const bool    decides = o->phase & (SG_OPTION_INPUT | SG_OPTION_RENDER);
        assert_int_equal(json_object_set_new(j, sg_settings_key(key, o), value_of(o)), 0);
        const sg_status status = sg_serve_options_read(&s, j, false, &e);
        if (decides && !o->files) {
            assert_done(status, &e);
            assert_true(sg_settings_has(&s, o));
            allowed++;
            if (o->kind == SG_OPTION_TEXT) assert_string_equal(o->name, texts[seen++]);
        } else if (strcmp(o->name, "model") != 0 && o->kind != SG_OPTION_LIST) {
            assert_refused(status, SG_E_ARG, &e, key);
            assert_false(sg_settings_has(&s, o));
        }
        json_decref(j);
    }
    assert_int_equal(seen, sizeof texts / sizeof *texts);
    assert_true(allowed > 30);
}

static void values_are_read(void **state)
{
    static const char *const texts[] = {
        "{\"prompt\": \"a red ball\", \"size\": \"64x48\", \"frames\": 9, \"seed\": -1, \"cfg_scale\": 4.5, "
        "\"strict\": true,"
        " \"dynamic_cfg\": false, \"sampler\": \"euler\", \"num_inference_steps\": 7, \"model\": \"m\","
        " \"lora\": [\"a\", \"b:0.5\"], \"output_format\": \"jpeg\"}",
        "{\"prompt\": \"a red ball\", \"size\": \"64x48\", \"frames\": \"9\", \"seed\": \"-1\", \"cfg_scale\": \"4.5\","
        " \"strict\": \"true\", \"dynamic_cfg\": \"false\", \"sampler\": \"euler\", \"steps\": \"7\", \"model\": \"m\","
        " \"lora\": [\"a\", \"b:0.5\"], \"output_format\": \"jpeg\"}"};
    for (int form = 0; form < 2; form++) {
        sg_settings s, again = sg_options_empty(SG_COMMAND_RENDER);
        json_t     *j;
        sg_error    e = {0};
        assert_done(read_text(&s, &j, texts[form], form, &e), &e);
        assert_string_equal(s.prompt, "a red ball");
        assert_true(s.size[0] == 64 && s.size[1] == 48 && s.frames == 9 && s.seed == -1 && s.steps == 7);
        assert_true(s.cfg_scale == 4.5 && s.strict && !s.dynamic_cfg);
        assert_string_equal(s.sampler, "euler");
        assert_string_equal(s.model, "m");
        assert_string_equal(s.lora.item[1], "b:0.5");
        assert_string_equal(s.output, "content.jpg");
        json_t *const kept = sg_serve_options_json(&s);
        assert_done(sg_serve_options_read(&again, kept, false, &e), &e);
        assert_null(sg_settings_difference(&s, &again, SG_OPTION_INPUT | SG_OPTION_RENDER));
        assert_false(sg_settings_difference(&again, &s, SG_OPTION_INPUT | SG_OPTION_RENDER));
        json_decref(kept);
        json_decref(j);
    }
}

static void others_are_refused_by_name(void **state)
{
    static const char *const refused[][2] = {
        {"{\"frames\": 0}", "frames|0|1 to 100000"},
        {"{\"frames\": 9.5}", "frames|whole number"},
        {"{\"frames\": \"9\"}", "frames|whole number"},
        {"{\"frames\": null}", "frames|whole number"},
        {"{\"seed\": 1e30}", "seed|whole number"},
        {"{\"cfg_scale\": 1e9}", "cfg_scale|1000000000.0|1000"},
        {"{\"cfg_scale\": \"4\"}", "cfg_scale|a number"},
        {"{\"prompt\": [\"a\"]}", "prompt|a string"},
        {"{\"strict\": 1}", "strict|true or false"},
        {"{\"sampler\": \"eulr\"}", "sampler|eulr|did you mean euler"},
        {"{\"size\": \"0x9\"}", "size|0x9|832x480"},
        {"{\"size\": [64, 64]}", "size|832x480"},
        {"{\"framse\": 9}", "framse|did you mean frames"},
        {"{\"\": 9}", "no member"},
        {"{\"output\": \"/etc/passwd\"}", "output"},
        {"{\"image\": \"/etc/passwd\"}", "image|uploaded"},
        {"{\"video\": \"/etc/passwd\"}", "video|uploaded"},
        {"{\"sparse_config\": \"/etc/passwd\"}", "sparse_config"},
        {"{\"backend\": \"ref\"}", "backend"},
        {"{\"threads\": 4096}", "threads"},
        {"{\"model\": \"../m\"}", "model|../m"},
        {"{\"model\": \"a/b\"}", "model|a/b"},
        {"{\"model\": \".m\"}", "model|.m"},
        {"{\"model\": \"a..b\"}", "model|a..b"},
        {"{\"model\": \"\"}", "model"},
        {"{\"model\": 3}", "model"},
        {"{\"lora\": [\"a\", \"/b\"]}", "lora|/b"},
        {"{\"lora\": [3]}", "lora|names"},
        {"{\"lora\": [\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\"]}", "lora|8"},
        {"{\"high_noise_lora\": \"../a\"}", "high_noise_lora|../a"},
        {"{\"output_format\": \"exe\"}", "output_format|mp4"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        sg_settings     s;
        json_t         *j;
        sg_error        e = {0};
        const sg_status status = read_text(&s, &j, refused[i][0], false, &e);
        if (strstr(e.text, "--")) fail_msg("%s: %s", refused[i][0], e.text);
        assert_refused(status, SG_E_ARG, &e, refused[i][1]);
        json_decref(j);
    }
}

static void failures_are_spelled_as_members(void **state)
{
    static const char *const texts[][2] = {
        {"--cfg-scale-2 has no effect: --image is not --there", "cfg_scale_2 has no effect: image is not --there"},
        {"cfg_scale: 3 -- or --steps", "cfg_scale: 3 -- or steps"},
        {"frames=9: add --frames", "frames=9: add frames"},
        {"--", "--"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sg_error e = {0};
        sg_error_set(&e, SG_E_ARG, "%s", texts[i][0]);
        sg_serve_options_spell(&e);
        assert_string_equal(e.text, texts[i][1]);
    }
}

static void the_list_tells_each(void **state)
{
    sg_settings s = sg_options_empty(SG_COMMAND_RENDER);
    size_t      i;
    json_t     *o;
    bool        seen[3] = {false};
    s.size[0] = 64, s.size[1] = 48, s.frames = 9, s.sampler = "euler", s.cfg_scale = 4.5;
    json_t *const list = sg_serve_options_list(&s);
    assert_non_null(list);
    json_array_foreach(list, i, o)
    {
        const char *const   name = json_string_value(json_object_get(o, "name"));
        const char *const   help = json_string_value(json_object_get(o, "help"));
        const json_t *const usual = json_object_get(o, "default");
        assert_true(name && help && *help && !strchr(name, '-') && !strchr(help, '\n') && !strstr(help, "--"));
        assert_true(json_is_string(json_object_get(o, "kind")));
        if (strcmp(name, "size") == 0) seen[0] = true, assert_string_equal(json_string_value(usual), "64x48");
        if (strcmp(name, "cfg_scale") == 0) {
            seen[1] = true;
            assert_true(json_real_value(usual) == 4.5 && json_real_value(json_object_get(o, "hi")) == 1000);
        }
        if (strcmp(name, "sampler") == 0) {
            seen[2] = true;
            assert_string_equal(json_string_value(usual), "euler");
            assert_true(json_array_size(json_object_get(o, "choices")) > 3);
        }
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    json_decref(list);
}

static void names_are_entries_of_folders(void **state)
{
    sg_served_files  f = {.models = "models", .loras = "loras", .usual = "/m/tiny", .usual_name = "tiny"};
    sg_served_paths *room = calloc(1, sizeof *room);
    sg_settings      s;
    json_t          *j;
    sg_error         e = {0};
    write_text("models/big/model_index.json", "{}");
    write_text("models/one.gguf", "");
    write_text("models/.hidden", "");
    write_text("models/config.json", "{}");
    write_text("loras/style.safetensors", "");
    assert_done(read_text(&s, &j,
                          "{\"model\": \"one.gguf\", \"lora\": [\"style.safetensors:0.5\", \"style.safetensors\"]}",
                          false, &e),
                &e);
    assert_done(sg_served_paths_of(room, &f, &s, &e), &e);
    assert_string_equal(s.model, "models/one.gguf");
    assert_string_equal(s.lora.item[0], "loras/style.safetensors:0.5");
    assert_string_equal(s.lora.item[1], "loras/style.safetensors");
    json_decref(j);
    assert_done(read_text(&s, &j, "{\"model\": \"tiny\"}", false, &e), &e);
    assert_done(sg_served_paths_of(room, &f, &s, &e), &e);
    assert_string_equal(s.model, "/m/tiny");
    json_decref(j);
    assert_done(read_text(&s, &j, "{\"model\": \"other\"}", false, &e), &e);
    assert_refused(sg_served_paths_of(room, &f, &s, &e), SG_E_ARG, &e, "model", "other");
    f.models = NULL;
    assert_refused(sg_served_paths_of(room, &f, &s, &e), SG_E_ARG, &e, "model", "other", "--models");
    json_decref(j);
    f.models = "models";
    j = sg_served_list(&f);
    char *const text = json_dumps(j, JSON_COMPACT);
    assert_string_equal(text, "{\"models\":[\"tiny\",\"big\",\"one.gguf\"],\"loras\":[\"style.safetensors\"]}");
    free(text);
    json_decref(j);
    free(room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_is_allowed_or_not), cmocka_unit_test(values_are_read),
        cmocka_unit_test(others_are_refused_by_name), cmocka_unit_test(failures_are_spelled_as_members),
        cmocka_unit_test(the_list_tells_each),        cmocka_unit_test(names_are_entries_of_folders)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
