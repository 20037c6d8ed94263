/* test_prompt_set.c - prompt sets in every format, sound and malformed, and those that come along. */
#include "prompt_set.h"
#include "unit.h"

static sg_status open_text(sg_prompt_set *s, const char *name, const char *text, bool skip_bad, sg_error *e)
{
    const sg_prompt_options o = {.what = "--prompts", .skip_bad = skip_bad};
    write_text(name, text);
    return sg_prompt_set_open(s, name, &o, e);
}

static sg_prompt_set read_sound(const char *name, const char *text)
{
    sg_prompt_set s;
    sg_error      e = {0};
    if (open_text(&s, name, text, false, &e) != SG_OK) fail_msg("%s", e.text);
    assert_int_equal(s.skipped, 0);
    return s;
}

static void expect_refused(const char *name, const char *text, const char *names)
{
    sg_prompt_set s;
    sg_error      e = {0};
    assert_refused(open_text(&s, name, text, false, &e), SG_E_ARG, &e, "--prompts", name, names);
    assert_true(s.count == 0 && !s.prompt && !s.text);
}

static const char *group(const sg_prompt_set *s, int prompt, int i)
{
    assert_in_range(i, 0, s->prompt[prompt].groups - 1);
    return s->group[s->member[s->prompt[prompt].first_group + i]];
}

/* ---- sound ones ---- */

static void text_is_read(void **state)
{
    sg_prompt_set s = read_sound("p.txt", "\xef\xbb\xbf"
                                          "a red ball\r\n \t\r\n\n# one\n # one, \"two\"\n#");
    assert_int_equal(s.count, 2);
    assert_string_equal(s.prompt[0].text, "a red ball");
    assert_string_equal(s.prompt[1].text, " # one, \"two\"");
    assert_int_equal(s.comments, 2);
    assert_int_equal(s.prompt[1].line, 5);
    assert_true(s.prompt[1].seed == -1 && s.prompt[1].image_id == -1 && !s.prompt[1].image && !s.prompt[1].last_image &&
                !s.prompt[1].negative);
    assert_true(!s.prompt[1].width && !s.prompt[1].height && !s.prompt[1].frames && !s.prompt[1].groups);
    sg_prompt_set_close(&s);
    assert_null(s.prompt);
}

static void lines_of_json_are_read(void **state)
{
    sg_prompt_set s =
        read_sound("p.JSONL", "{\"prompt\": \"a \\\"red\\\" \\u00e9\\ud83c\\udf88\", \"seed\": 7, \"size\": "
                              "\"832x480\", \"frames\": 33,\"negative_prompt\": \"\", \"group\": "
                              "[\"m\", \"n\", \"m\"]}\r\n\n"
                              "{\"TEXT\":\"two\\nlines\",\"width\":64,\"height\":\"32\",\"seed\":null,"
                              "\"sed\":1,\"category\":\"n\"}");
    assert_int_equal(s.count, 2);
    const sg_prompt *p = s.prompt;
    assert_string_equal(p->text, "a \"red\" é🎈");
    assert_string_equal(p->negative, "");
    assert_true(p->seed == 7 && p->width == 832 && p->height == 480 && p->frames == 33 && p->line == 1);
    assert_int_equal(p->groups, 2);
    assert_string_equal(group(&s, 0, 0), "m");
    assert_string_equal(group(&s, 0, 1), "n");
    p++;
    assert_string_equal(p->text, "two\nlines");
    assert_true(!p->negative && p->seed == -1 && p->width == 64 && p->height == 32 && p->line == 3);
    assert_string_equal(group(&s, 1, 0), "n");
    assert_int_equal(s.groups, 2);
    assert_string_equal(s.unread, "sed");
    sg_prompt_set_close(&s);
}

static void csv_is_read(void **state)
{
    sg_prompt_set s = read_sound("p.csv", "Prompt,seed,\"size\",num_frames,negative,dimension,id\r\n"
                                          "\"a \"\"red\"\", ball\",7,64*32,5,\"\",g,x\r\n"
                                          "\r\n"
                                          "\"two\r\nlines\",9223372036854775807,,,blurry,h,\r\n"
                                          "plain,0,,,,,");
    assert_int_equal(s.count, 3);
    const sg_prompt *p = s.prompt;
    assert_string_equal(p[0].text, "a \"red\", ball");
    assert_true(p[0].seed == 7 && p[0].width == 64 && p[0].height == 32 && p[0].frames == 5 && p[0].line == 2);
    assert_null(p[0].negative);
    assert_string_equal(group(&s, 0, 0), "g");
    assert_string_equal(p[1].text, "two\r\nlines");
    assert_string_equal(p[1].negative, "blurry");
    assert_true(p[1].seed == INT64_MAX && p[1].line == 4);
    assert_string_equal(group(&s, 1, 0), "h");
    assert_string_equal(p[2].text, "plain");
    assert_true(p[2].seed == 0 && p[2].line == 6 && p[2].groups == 0);
    assert_string_equal(s.unread, "id");
    sg_prompt_set_close(&s);
}

static void vbench_is_read(void **state)
{
    sg_prompt_set s = read_sound("VBench_full_info.json",
                                 " [\n  {\n    \"prompt_en\": \"a cat, in super slow motion\",\n    \"dimension\": [\n"
                                 "      \"subject_consistency\",\n      \"motion_smoothness\"\n    ]\n  },\n"
                                 "  {\"prompt_en\": \"a dog\", \"dimension\": [\"motion_smoothness\"],\n"
                                 "   \"auxiliary_info\": {\"color\": {\"color\": \"red\"}}}\n]\n");
    assert_int_equal(s.count, 2);
    assert_string_equal(s.prompt[0].text, "a cat, in super slow motion");
    assert_int_equal(s.prompt[0].line, 2);
    assert_int_equal(s.prompt[0].groups, 2);
    assert_string_equal(group(&s, 0, 1), "motion_smoothness");
    assert_string_equal(s.prompt[1].text, "a dog");
    assert_int_equal(s.prompt[1].line, 9);
    assert_string_equal(group(&s, 1, 0), "motion_smoothness");
    assert_int_equal(s.groups, 2);
    assert_string_equal(s.unread, "");
    sg_prompt_set_close(&s);
}

static void pictures_and_videos_are_read(void **state)
{
    sg_prompt_set s = read_sound("i2v-bench-info.json",
                                 "[{\"file_name\": \"a \\\"red\\\" ball.jpg\", \"prompt_en\": \"a ball\", \"type\": "
                                 "\"indoor\", \"caption_id\": 3},\n{\"prompt_en\": \"two\", \"image_name\": null}]");
    assert_int_equal(s.count, 2);
    assert_string_equal(s.prompt[0].image, "a \"red\" ball.jpg");
    assert_string_equal(s.prompt[0].text, "a ball");
    assert_string_equal(group(&s, 0, 0), "indoor");
    assert_true(!s.prompt[0].last_image && !s.prompt[1].image);
    sg_prompt_set_close(&s);

    s = read_sound("p.jsonl", "{\"prompt\": \"a\", \"image\": \"../\\u00e9.png\", \"last_image\": \"/b.jpg\"}");
    assert_string_equal(s.prompt[0].image, "../é.png");
    assert_string_equal(s.prompt[0].last_image, "/b.jpg");
    sg_prompt_set_close(&s);

    s = read_sound("p.jsonl", "{\"prompt\": \"a\", \"video\": \"a\\u00e9\", \"strength\": 0.25}\n"
                              "{\"prompt\": \"a\", \"strength\": 1}\n{\"prompt\": \"a\", \"video\": null}");
    assert_string_equal(s.prompt[0].video, "aé");
    assert_true(s.prompt[0].strength == 0.25 && s.prompt[1].strength == 1 && s.prompt[2].strength == 0);
    assert_true(!s.prompt[1].video && !s.prompt[2].video);
    sg_prompt_set_close(&s);

    s = read_sound("p.csv", "strength,prompt,video\n.5,a,a.y4m\n,b,\n");
    assert_string_equal(s.prompt[0].video, "a.y4m");
    assert_true(s.prompt[0].strength == 0.5 && s.prompt[1].strength == 0 && !s.prompt[1].video);
    sg_prompt_set_close(&s);

    s = read_sound("p.csv", "last_image,prompt,image\n,a,\"x,y.png\"\nb.png,c,\n");
    assert_string_equal(s.prompt[0].image, "x,y.png");
    assert_true(!s.prompt[0].last_image && !s.prompt[1].image);
    assert_string_equal(s.prompt[1].last_image, "b.png");
    sg_prompt_set_close(&s);
}

static void captions_of_coco_are_read(void **state)
{
    sg_prompt_set s =
        read_sound("captions_val2014.json",
                   "{\"info\": {\"year\": 2014}, \"images\": [{\"id\": 12, \"file_name\": \"12.jpg\"}],\n"
                   "\"licenses\": [], \"annotations\": [{\"image_id\": 12, \"id\": 5, \"caption\": \"A cat.\"},\n"
                   "{\"image_id\": 13, \"id\": 6, \"caption\": \"A dog\\n\"}]}");
    assert_int_equal(s.count, 2);
    assert_string_equal(s.prompt[0].text, "A cat.");
    assert_true(s.prompt[0].image_id == 12 && s.prompt[0].line == 2);
    assert_string_equal(s.prompt[1].text, "A dog\n");
    assert_true(s.prompt[1].image_id == 13 && s.prompt[1].line == 3);
    sg_prompt_set_close(&s);
}

/* ---- malformed ones ---- */

static void malformed_text_is_refused(void **state)
{
    expect_refused("p.txt", "a\n\nbad \x80\n", "line 3|UTF-8|byte 0x80|position 5");
    expect_refused("p.txt", " \n\r\n", "no prompt");
    expect_refused("p.txt", "", "no prompt");
}

static void malformed_json_is_refused(void **state)
{
    static const char *const bad[][2] = {
        {"[1]", "JSON object"},
        {"{\"seed\": 1}", "no prompt"},
        {"{\"prompt\": \" \\n\"}", "blank"},
        {"{\"prompt\": 3}", "prompt|string"},
        {"{\"prompt\": \"x\", \"seed\": 1.5}", "seed|whole number"},
        {"{\"prompt\": \"x\", \"seed\": -1}", "seed|9223372036854775807|'-1'"},
        {"{\"prompt\": \"x\", \"seed\": \"9223372036854775808\"}", "seed|9223372036854775807|'9223372036854775808'"},
        {"{\"prompt\": \"x\", \"frames\": 0}", "frames|100000|'0'"},
        {"{\"prompt\": \"x\", \"width\": 16385}", "width|16384|'16385'"},
        {"{\"prompt\": \"x\", \"size\": \"8x\"}", "size|WxH|'8x'"},
        {"{\"prompt\": \"x\", \"size\": \"0x8\"}", "size|WxH|'0x8'"},
        {"{\"prompt\": \"x\", \"size\": [8, 8]}", "size|string"},
        {"{\"prompt\": \"x\", \"size\": \"8x8\", \"height\": 8}", "'size'|'height'"},
        {"{\"prompt\": \"x\", \"text\": \"y\"}", "'prompt'|'text'"},
        {"{\"prompt\": \"x\", \"group\": [1]}", "group|list of strings"},
        {"{\"prompt\": \"x\", \"group\": {}}", "group|a string or"},
        {"{\"prompt\": \"x\", \"group\": \"\"}", "group|empty"},
        {"{\"prompt\": \"x\", \"image\": \"\"}", "image|empty"},
        {"{\"prompt\": \"x\", \"last_image\": 3}", "last_image|string"},
        {"{\"prompt\": \"x\", \"video\": \"\"}", "video|empty"},
        {"{\"prompt\": \"x\", \"video\": []}", "video|string"},
        {"{\"prompt\": \"x\", \"strength\": 0}", "strength|1|'0'"},
        {"{\"prompt\": \"x\", \"strength\": \"1.1\"}", "strength|1|'1.1'"},
        {"{\"prompt\": \"x\", \"strength\": true}", "strength|number"},
        {"{\"prompt\": \"x\", \"image\": \"a\", \"file_name\": \"a\"}", "'image'|'file_name'"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256], names[256];
        snprintf(text, sizeof text, "{\"prompt\": \"x\"}\n%s\n", bad[i][0]);
        snprintf(names, sizeof names, "line 2|%s", bad[i][1]);
        expect_refused("p.jsonl", text, names);
    }
    sg_prompt_set s;
    sg_error      e = {0};
    assert_refused(open_text(&s, "p.jsonl", "{\"prompt\": \"x\", \"prompt\": \"y\"}", false, &e), SG_E_ARG, &e,
                   "line 1|JSON|duplicate");
}

static void malformed_lists_are_refused(void **state)
{
    expect_refused("p.json", "{\"prompt\": \"x\"}", "\"annotations\"|COCO");
    expect_refused("p.json", "{\"annotations\": 3}", "line 1|JSON|brackets");
    expect_refused("p.json", "{\"annotations\": [}", "captions|JSON|byte 18|brace");
    expect_refused("p.json", "[\n{\"prompt\": \"x\"},\n]", "line 3|JSON|complete value");
    expect_refused("p.json", "[\n{\"prompt\": \"x\"}\n}", "line 3|JSON|closing bracket");
    expect_refused("p.json", "[{\"prompt\": \"x\"}] 3", "line 1|JSON|follows");
    expect_refused("p.json", "[{\"prompt\": \"x\"},\n{\"prompt\": \"\"}]", "line 2|entry 2|blank");
    expect_refused("p.json", "[]", "no prompt");
    expect_refused("p.json", "x", "line 1|JSON|brackets");
}

static void malformed_csv_is_refused(void **state)
{
    expect_refused("p.csv", "\na,b\n1,2\n", "line 2|'prompt'");
    expect_refused("p.csv", "prompt,text\n1,2\n", "line 1|'prompt'|'text'");
    expect_refused("p.csv", "prompt\n\"a\nb\nc\n", "line 2|quoted");
    expect_refused("p.csv", "prompt\n\"a\nb\"\n\"a\"b\n", "line 4|closing");
    expect_refused("p.csv", "prompt\na\"b\n", "line 2|within a field");
    expect_refused("p.csv", "prompt,seed\na\n", "line 2|1 field");
    expect_refused("p.csv", "prompt,seed\na,1,2\n", "line 2|3 fields");
    expect_refused("p.csv", "prompt,seed\na,x\n", "line 2|seed|9223372036854775807|'x'");
    expect_refused("p.csv", "prompt,seed\n,1\n", "line 2|no prompt");
    expect_refused("p.csv", "prompt,seed\na\xff,1\n", "line 2|UTF-8|byte 0xff|position 2");
    expect_refused("p.csv", "prompt,\xff\n", "line 1|UTF-8|byte 0xff|position 8");
}

static void bounds_hold(void **state)
{
    sg_prompt_set           s;
    sg_error                e = {0};
    const sg_prompt_options small = {.what = "--prompts", .max_bytes = 1 << 20};
    char *const             text = malloc((1 << 20) + 1);
    assert_non_null(text);
    memset(text, 'x', (1 << 20) + 1);
    write_bytes("p.txt", text, (1 << 20) + 1);
    assert_refused(sg_prompt_set_open(&s, "p.txt", &small, &e), SG_E_ARG, &e, "--prompts|p.txt|1 MiB");
    write_bytes("p.txt", text, 1 << 20);
    assert_int_equal(sg_prompt_set_open(&s, "p.txt", &small, NULL), SG_OK);
    assert_int_equal(strlen(s.prompt[0].text), 1 << 20);
    sg_prompt_set_close(&s);
    write_bytes("p.txt", "a\0b", 3);
    assert_refused(sg_prompt_set_open(&s, "p.txt", &small, &e), SG_E_ARG, &e, "--prompts|p.txt|zero byte");
    free(text);
    unlink("p.txt");
    assert_refused(sg_prompt_set_open(&s, "p.txt", &small, &e), SG_E_FILE, &e, "--prompts|p.txt|No such file");
}

static void groups_are_bounded(void **state)
{
    char text[SG_PROMPT_GROUPS * 8 + 64], *at = text + sprintf(text, "prompt,group\n");
    for (int i = 0; i < SG_PROMPT_GROUPS; i++) at += sprintf(at, "x,%d\n", i);
    sg_prompt_set s = read_sound("p.csv", text);
    assert_int_equal(s.groups, SG_PROMPT_GROUPS);
    sg_prompt_set_close(&s);
    sprintf(at, "x,y\n");
    expect_refused("p.csv", text, "line 258|256 groups");
}

/* ---- malformed lines that are skipped ---- */

static void expect_skips(const char *name, const char *text, const char *prompts, int skipped, const char *names)
{
    char          got[256] = "";
    sg_prompt_set s;
    sg_error      e = {0};
    if (open_text(&s, name, text, true, &e) != SG_OK) fail_msg("%s", e.text);
    for (int i = 0; i < s.count; i++) {
        strcat(got, i ? "|" : "");
        strcat(got, s.prompt[i].text);
    }
    assert_string_equal(got, prompts);
    assert_int_equal(s.skipped, skipped);
    assert_refused(s.first_skipped.code, SG_E_ARG, &s.first_skipped, names);
    sg_prompt_set_close(&s);
}

static void malformed_lines_are_skipped(void **state)
{
    expect_skips("p.txt", "a\nb\xff\nc\n\xff\n", "a|c", 2, "line 2|UTF-8|byte 0xff|position 2");
    expect_skips("p.jsonl", "{\"prompt\":\"a\"}\n{\n{\"prompt\":1}\n{\"prompt\":\"b\"}", "a|b", 2, "line 2|JSON");
    expect_skips("p.json", "[{\"prompt\":\"a\"},3,{\"prompt\":\"b\",\"group\":\"g\"},[[]],{\"prompt\":\"c\"}]", "a|b|c",
                 2, "line 1, entry 2|object");
    /* what an open quote swallowed comes back line by line */
    expect_skips("p.csv", "group,prompt\nx,\"open\ny,b\nz,a\"b\nv\nt,\"l\"\"ast\"", "b|l\"ast", 3,
                 "line 2|closing quote");
    expect_skips("p.csv", "prompt\n\"open\nb\nc", "b|c", 1, "line 2|quoted");
    sg_prompt_set s;
    sg_error      e = {0};
    assert_refused(open_text(&s, "p.txt", "\xff\n", true, &e), SG_E_ARG, &e,
                   "--prompts|p.txt|first|line 1|UTF-8|byte 0xff|position 1");
}

/* ---- those that come along ---- */

static int count_of(const char *name)
{
    char          path[4096];
    sg_prompt_set s;
    sg_error      e = {0};
    snprintf(path, sizeof path, "%s/%s", SG_PROMPTS, name);
    if (sg_prompt_set_open(&s, path, &(sg_prompt_options){.what = "--prompts"}, &e) != SG_OK) fail_msg("%s", e.text);
    assert_string_equal(s.unread, "");
    for (int i = 0; i < s.count; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(s.prompt[i].text, s.prompt[k].text) == 0) fail_msg("%s: twice: %s", name, s.prompt[i].text);
    const int count = s.count;
    sg_prompt_set_close(&s);
    return count;
}

static void own_sets_are_whole(void **state)
{
    assert_int_equal(count_of("tiny-wan-demo.csv"), 24);
    assert_int_equal(count_of("tiny-wan-held-out.csv"), 400);
    assert_int_equal(count_of("tiny-wan-two-objects.csv"), 200);
    assert_int_equal(count_of("tiny-wan-tune.txt"), 12);
    assert_int_equal(count_of("general.csv"), 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_read),
        cmocka_unit_test(lines_of_json_are_read),
        cmocka_unit_test(csv_is_read),
        cmocka_unit_test(vbench_is_read),
        cmocka_unit_test(pictures_and_videos_are_read),
        cmocka_unit_test(captions_of_coco_are_read),
        cmocka_unit_test(malformed_text_is_refused),
        cmocka_unit_test(malformed_json_is_refused),
        cmocka_unit_test(malformed_lists_are_refused),
        cmocka_unit_test(malformed_csv_is_refused),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(groups_are_bounded),
        cmocka_unit_test(malformed_lines_are_skipped),
        cmocka_unit_test(own_sets_are_whole),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
