/* test_clip_names.c - prompts as names of files: safe, within bounds, each its own. */
#include "clip_names.h"
#include "unit.h"

static void expect_stem(const char *prompt, const char *stem)
{
    char out[SG_CLIP_STEM + 1];
    sg_clip_stem(out, prompt);
    assert_string_equal(out, stem);
}

static void stems_are_safe(void **state)
{
    expect_stem("a cat, in the style of Van Gogh.", "a cat, in the style of Van Gogh.");
    expect_stem("don't (stop) #1 100% é 漢字 🎈", "don't (stop) #1 100% é 漢字 🎈");
    expect_stem("../../etc/passwd", "_._.._etc_passwd");
    expect_stem("/", "_");
    expect_stem(".", "_");
    expect_stem("..", "_.");
    expect_stem("", "_");
    expect_stem("-rf *", "_rf _");
    expect_stem(".hidden", "_hidden");
    expect_stem("a\\b:c*d?e\"f<g>h|i~j", "a_b_c_d_e_f_g_h_i_j");
    expect_stem("two\nlines\tand\x7f", "two_lines_and_");
    expect_stem("a\u202eb\u200bc\u2028d\ufeffe\xc2\x85"
                "f",
                "a_b_c_d_e_f");
    expect_stem("a\xff\xc3", "a__");
}

static void stems_are_cut_between_characters(void **state)
{
    char prompt[1024], out[SG_CLIP_STEM + 1];
    memset(prompt, 'x', sizeof prompt);
    prompt[sizeof prompt - 1] = '\0';
    sg_clip_stem(out, prompt);
    assert_int_equal(strlen(out), SG_CLIP_STEM);
    memcpy(prompt + SG_CLIP_STEM - 1, "é", 2);
    sg_clip_stem(out, prompt);
    assert_int_equal(strlen(out), SG_CLIP_STEM - 1);
    memcpy(prompt + SG_CLIP_STEM - 2, "🎈", 4);
    sg_clip_stem(out, prompt);
    assert_int_equal(strlen(out), SG_CLIP_STEM - 2);
    memcpy(prompt + SG_CLIP_STEM - 4, "🎈", 4);
    sg_clip_stem(out, prompt);
    assert_int_equal(strlen(out), SG_CLIP_STEM);
    assert_memory_equal(out + SG_CLIP_STEM - 4, "🎈", 4);
}

enum { ENTRIES = 13 };

/* Names of clip k of these prompts, three clips each. */
static void expect_names(const char *const *prompt, const char *const *want, int count, int k)
{
    sg_prompt     all[ENTRIES] = {0};
    sg_clip_name *names = NULL;
    sg_prompt_set set = {.count = count, .prompt = all};
    for (int i = 0; i < count; i++) all[i] = (sg_prompt){.text = prompt[i], .image_id = -1};
    assert_int_equal(sg_clip_names_make(&names, &set, 3, NULL), SG_OK);
    for (int i = 0; i < count; i++) {
        char out[SG_CLIP_NAME];
        sg_clip_name_write(out, &names[i], k, ".mp4");
        assert_string_equal(out, want[i]);
    }
    free(names);
}

static void names_differ(void **state)
{
    static const char *const prompt[ENTRIES] = {"a/b", "z",   "a_b", "z",       "a?b", "a/b", "a",
                                                "a-1", "con", "é",   "e\u0301", "ﬁsh", "fish"};
    static const char *const want[ENTRIES] = {"a_b-1.mp4",     "z-1.mp4",   "a_b~2-1.mp4", "z-4.mp4",   "a_b~3-1.mp4",
                                              "a_b-4.mp4",     "a-1.mp4",   "a-1-1.mp4",   "con-1.mp4", "é-1.mp4",
                                              "e\u0301-1.mp4", "ﬁsh-1.mp4", "fish-1.mp4"};
    expect_names(prompt, want, ENTRIES, 1);
}

/* A prompt that looks like another's second name, and long ones that begin the same. */
static void names_that_were_made_are_not_taken(void **state)
{
    char              x[SG_CLIP_STEM + 20], y[SG_CLIP_STEM + 20], want_x[SG_CLIP_NAME], want_y[SG_CLIP_NAME];
    const char *const prompt[] = {"a", "A", "a~2", x, y};
    const char *const want[] = {"a-0.mp4", "A-0.mp4", "a_2-0.mp4", want_x, want_y};
    memset(x, 'x', sizeof x);
    x[sizeof x - 1] = '\0';
    strcpy(y, x);
    y[sizeof y - 2] = 'y';
    snprintf(want_x, sizeof want_x, "%.*s-0.mp4", SG_CLIP_STEM, x);
    snprintf(want_y, sizeof want_y, "%.*s~2-0.mp4", SG_CLIP_STEM, x);
    expect_names(prompt, want, 5, 0);
}

/* Of COCO's captions, several of which are of one image, and some of which say the same. */
static void captions_are_named_by_image(void **state)
{
    static const char *const want[] = {"12-0.png", "12~2-0.png", "9000000000-2.png", "12~2-2.png", "a dog-0.png"};
    sg_prompt                all[] = {{.text = "a cat", .image_id = 12},
                                      {.text = "a dog on a mat", .image_id = 12},
                                      {.text = "a cat", .image_id = 9000000000},
                                      {.text = "a dog on a mat", .image_id = 12},
                                      {.text = "a dog", .image_id = -1}};
    sg_clip_name            *names = NULL;
    sg_prompt_set            set = {.count = 5, .prompt = all};
    assert_int_equal(sg_clip_names_make(&names, &set, 2, NULL), SG_OK);
    for (int i = 0; i < 5; i++) {
        char out[SG_CLIP_NAME];
        sg_clip_name_write(out, &names[i], 0, ".png");
        assert_string_equal(out, want[i]);
    }
    free(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stems_are_safe),
        cmocka_unit_test(stems_are_cut_between_characters),
        cmocka_unit_test(names_differ),
        cmocka_unit_test(captions_are_named_by_image),
        cmocka_unit_test(names_that_were_made_are_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
