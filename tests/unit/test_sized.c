/* test_sized.c - structs of programs that were compiled with another version of spargegen.h, and its types. */
#include "engine_fixture.h"
#include "sized.h"

typedef struct known {
    size_t      size;
    int         a;
    const char *b;
} known;

typedef struct larger {
    known   k;
    int64_t more;
} larger;

static void what_is_not_there_is_zero(void **state)
{
    sg_error     e = {0};
    const known  given = {offsetof(known, b), 7, "beyond it"};
    const larger of_later = {{sizeof of_later, 8, "b"}, 0}, set = {{sizeof set, 8, "b"}, 1};
    known        own = {1, 1, "old"};
    assert_done(sg_sized_take(&own, sizeof own, &given, "known", &e), &e);
    assert_true(own.size == sizeof own && own.a == 7 && !own.b);
    assert_done(sg_sized_take(&own, sizeof own, &of_later, "known", &e), &e);
    assert_true(own.size == sizeof own && own.a == 8 && own.b == of_later.k.b);
    assert_refused(sg_sized_take(&own, sizeof own, &set, "known", &e), SG_E_UNSUPPORTED, &e, "known");
    e = (sg_error){0};
    assert_refused(sg_sized_take(&own, sizeof own, &(known){.a = 1}, "known", &e), SG_E_ARG, &e, "known|size");
    e = (sg_error){0};
    assert_refused(sg_sized_take(&own, sizeof own, &(known){.size = SIZE_MAX}, "known", &e), SG_E_ARG, &e,
                   "known|size");
}

static void as_much_is_given_as_there_is_room_for(void **state)
{
    const known own = {sizeof own, 7, "b"};
    known       small = {offsetof(known, b), 1, "kept"}, unset = {.a = 3};
    larger      large = {{sizeof large, 1, NULL}, 9};
    sg_sized_give(&small, &own, sizeof own);
    assert_true(small.size == offsetof(known, b) && small.a == 7);
    assert_string_equal(small.b, "kept");
    sg_sized_give(&large, &own, sizeof own);
    assert_true(large.k.size == sizeof large && large.k.a == 7 && large.k.b == own.b && large.more == 0);
    sg_sized_give(&unset, &own, sizeof own);
    assert_int_equal(unset.a, 3);
}

/* A struct in another has no size: what a later version takes of its reserved members is refused. */
static void reserved_members_are_zero(void **state)
{
    sg_engine        *g = NULL;
    sg_error          e = {0};
    sg_request        r;
    sg_engine_options o = {.size = sizeof o, .model_dir = model, .backend = "ref", .parts.reserved = {NULL, "later"}};
    assert_refused(sg_engine_open(&g, &o, &e), SG_E_UNSUPPORTED, &e, "sg_model_parts");
    o.parts.reserved[1] = NULL;
    o.lora[3].reserved[2] = 1;
    e = (sg_error){0};
    assert_refused(sg_engine_open(&g, &o, &e), SG_E_UNSUPPORTED, &e, "sg_lora_option");
    o.lora[3].reserved[2] = 0;
    e = (sg_error){0};
    assert_done(sg_engine_open(&g, &o, &e), &e);
    r = small(g);
    assert_done(sg_engine_check_request(g, &r, &e), &e);
    r.attention.reserved[3] = 1;
    assert_refused(sg_engine_check_request(g, &r, &e), SG_E_UNSUPPORTED, &e, "sg_policy");
    r.attention.reserved[3] = 0;
    r.image[1].reserved[0] = &r;
    e = (sg_error){0};
    assert_refused(sg_engine_check_request(g, &r, &e), SG_E_UNSUPPORTED, &e, "sg_request_image");
    sg_engine_close(&g);
}

/* Every call that takes a struct looks at its size. */
static void sizes_are_asked_for(void **state)
{
    sg_engine     *g = NULL;
    sg_error       e = {0};
    sg_request     r;
    sg_plan        plan = {.size = sizeof plan};
    sg_callbacks   cb = {0};
    sg_clip_model *clip = NULL;
    assert_refused(sg_engine_open(&g, &(sg_engine_options){.model_dir = model}, &e), SG_E_ARG, &e, "sg_engine_options");
    e = (sg_error){0};
    assert_refused(sg_clip_model_open(&clip, SG_FIXTURES "/judge/clip", &(sg_engine_options){.threads = 1}, &e),
                   SG_E_ARG, &e, "sg_engine_options");
    g = open_model(model, 0);
    r = small(g);
    e = (sg_error){0};
    assert_refused(sg_engine_render(g, &r, &cb, NULL, &e), SG_E_ARG, &e, "sg_callbacks");
    r.size = 0;
    e = (sg_error){0};
    assert_refused(sg_engine_plan(g, &r, &plan, &e), SG_E_ARG, &e, "sg_request");
    e = (sg_error){0};
    assert_refused(sg_engine_render(g, &r, NULL, NULL, &e), SG_E_ARG, &e, "sg_request");
    e = (sg_error){0};
    assert_refused(sg_engine_check_request(g, &r, &e), SG_E_ARG, &e, "sg_request");
    e = (sg_error){0};
    assert_refused(sg_engine_preview_size(g, &r, (int[3]){0}, &e), SG_E_ARG, &e, "sg_request");
    r.size = sizeof r;
    e = (sg_error){0};
    assert_refused(sg_engine_render(g, &r, NULL, &(sg_report){0}, &e), SG_E_ARG, &e, "sg_report");
    e = (sg_error){0};
    assert_refused(sg_engine_plan(g, &r, &(sg_plan){0}, &e), SG_E_ARG, &e, "sg_plan");
    e = (sg_error){0};
    assert_refused(sg_plan_fits(&(sg_plan){0}, &e), SG_E_ARG, &e, "sg_plan");
    e = (sg_error){0};
    assert_done(sg_engine_render(g, &r, NULL, NULL, &e), &e); /* nobody wants anything */
    sg_engine_close(&g);
}

/* A clip of a program that knew less of it, and of one that set nothing. */
static void clips_have_sizes(void **state)
{
    static const uint8_t rgb[2 * 2 * 3];
    sg_error             e = {0};
    sg_clip              clip = {
                     .size = offsetof(sg_clip, settings), .path = "a.y4m", .width = 2, .height = 2, .frames = 1, .fps = 1};
    memset((char *)&clip + clip.size, 0x55, sizeof clip - clip.size);
    assert_done(sg_writer_check(&clip, &e), &e);
    assert_true(sg_writer_bytes(&clip) > 0);
    assert_done(sg_writer_save(&clip, rgb, &e), &e);
    clip.size = 0;
    assert_refused(sg_writer_check(&clip, &e), SG_E_ARG, &e, "sg_clip");
    e = (sg_error){0};
    assert_refused(sg_writer_check_format(&clip, &e), SG_E_ARG, &e, "sg_clip");
    e = (sg_error){0};
    assert_refused(sg_writer_save(&clip, rgb, &e), SG_E_ARG, &e, "sg_clip");
    assert_int_equal(sg_writer_bytes(&clip), 0);
}

/* What a program reads of all that is public, in C and in C++, is at most 25 types, and none of ours. */
static void the_header_stands_alone(void **state)
{
    static const char *const languages[] = {"-std=c17 -x c", "-std=c11 -x c", "-std=c++11 -x c++"};
    write_text("header.c", "#include <spargegen/spargegen.h>\n");
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++)
        shell(
            "cc %s -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I%s/model -I%s/attention -I%s/weights -I%s/kernels "
            "header.c",
            languages[i], SG_SOURCE, SG_SOURCE, SG_SOURCE, SG_SOURCE);
    shell("cc -E -P -I%s/model -I%s/attention -I%s/weights -I%s/kernels header.c >header.i", SG_SOURCE, SG_SOURCE,
          SG_SOURCE, SG_SOURCE);
    shell("test \"$(grep -oE 'sg_[a-z_]+;|(struct|enum|union) sg_[a-z_]+' header.i | grep -oE 'sg_[a-z_]+' | sort -u |"
          " while read -r t; do grep -qE \"^(typedef .*|}) $t;\" header.i && echo $t; done | wc -l)\" -le 25");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_there_is_zero), cmocka_unit_test(as_much_is_given_as_there_is_room_for),
        cmocka_unit_test(reserved_members_are_zero), cmocka_unit_test(sizes_are_asked_for),
        cmocka_unit_test(clips_have_sizes),          cmocka_unit_test(the_header_stands_alone)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
