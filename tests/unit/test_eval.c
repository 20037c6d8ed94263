/* test_eval.c - what an evaluation keeps on the disk: its lines wherever they are cut, its manifest, frames for comparison;
 * and the order of its arms. */
#include "collage.h"
#include "eval_files.h"
#include "eval_manifest.h"
#include "eval_order.h"
#include "eval_results.h"
#include "unit.h"

static char folder[] = "eval";

static void write_inside(const char *name, const char *text, size_t bytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    write_bytes(path, text, bytes);
}

static long size_of(const char *name)
{
    char        path[256];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &st) == 0 ? (long)st.st_size : -1;
}

static void remove_file(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

/* ---- lines ---- */

static json_t *line_of(int prompt, int clip, int arm, bool done)
{
    json_t *const j =
        json_pack("{s:i, s:s, s:i, s:i, s:i, s:s, s:s}", "version", 1, "arm", "dense", "arm_index", arm, "prompt",
                  prompt, "clip", clip, "status", done ? "done" : "failed", "text", "a \"ball\"");
    if (done) json_object_update_new(j, json_pack("{s:s, s:{s:f}}", "file", "dense/a-0.mp4", "seconds", "whole", 1.5));
    return j;
}

static void add(sg_eval_log *l, int prompt, int clip, int arm, bool done)
{
    sg_error      e = {0};
    json_t *const j = line_of(prompt, clip, arm, done);
    assert_int_equal(sg_eval_log_add(l, j, &e), SG_OK);
}

static void open_log(sg_eval_log *l, const sg_rank *r)
{
    sg_error e = {0};
    assert_int_equal(sg_eval_log_make(l, 3, 2, 2, &e), SG_OK);
    if (sg_eval_log_open(l, folder, r, &e) != SG_OK || sg_eval_log_read(l, folder, &e) != SG_OK) fail_msg("%s", e.text);
}

static const sg_rank alone = {.size = 1}, second = {.rank = 1, .size = 2};

/* A file that ends anywhere within its last line is that file without the line. */
static void lines_are_cut_anywhere(void **state)
{
    sg_eval_log l;
    open_log(&l, &alone);
    assert_false(l.file.cut);
    add(&l, 0, 1, 0, true);
    const long first = size_of("results.jsonl");
    add(&l, 2, 0, 1, false);
    sg_eval_log_close(&l);
    const long whole = size_of("results.jsonl");
    char       text[1024], path[256];
    FILE      *f = fopen(strcat(strcpy(path, folder), "/results.jsonl"), "rb");
    assert_int_equal(fread(text, 1, sizeof text, f), whole);
    fclose(f);
    for (long n = 0; n <= whole; n++) {
        write_inside("results.jsonl", text, (size_t)n);
        open_log(&l, &alone);
        assert_int_equal(sg_eval_log_count(&l, SG_EVAL_DONE), n >= first);
        assert_int_equal(sg_eval_log_count(&l, SG_EVAL_FAILED), n == whole);
        assert_int_equal(l.file.cut, n != 0 && n != first && n != whole);
        assert_int_equal(size_of("results.jsonl"), n == whole ? whole : n >= first ? first : 0);
        add(&l, 1, 1, 1, true); /* begins a line of its own */
        assert_int_equal(sg_eval_log_read(&l, folder, &(sg_error){0}), SG_OK);
        assert_int_equal(*sg_eval_log_state(&l, 1, 1, 1), SG_EVAL_DONE);
        sg_eval_log_close(&l);
    }
    remove_file("results.jsonl");
}

/* Every rank sees what all have done; what is done counts before what failed, whichever was first. */
static void ranks_see_each_other(void **state)
{
    sg_eval_log a, b;
    open_log(&a, &alone);
    add(&a, 0, 0, 0, false);
    add(&a, 0, 0, 1, true);
    open_log(&b, &second);
    assert_int_equal(*sg_eval_log_state(&b, 0, 0, 0), SG_EVAL_FAILED);
    assert_false(sg_eval_log_done(&b, 0, 0));
    add(&b, 0, 0, 0, true);
    add(&b, 0, 0, 1, false);
    assert_int_equal(sg_eval_log_read(&a, folder, &(sg_error){0}), SG_OK);
    assert_int_equal(sg_eval_log_count(&a, SG_EVAL_DONE), 2);
    assert_true(sg_eval_log_done(&a, 0, 0));
    assert_false(sg_eval_log_done(&a, 0, 1));
    assert_int_equal(sg_eval_log_count(&a, SG_EVAL_MISSING), 10);

    sg_error    e = {0};
    sg_eval_log again;
    assert_int_equal(sg_eval_log_make(&again, 3, 2, 2, &e), SG_OK);
    assert_refused(sg_eval_log_open(&again, folder, &second, &e), SG_E_FILE, &e, "results-1.jsonl|another process");
    sg_eval_log_close(&again);
    sg_eval_log_close(&b);
    sg_eval_log_close(&a);
    remove_file("results-1.jsonl");
    remove_file("results.jsonl");
}

#define DONE(prompt, file)                                                                                             \
    "{\"version\":1,\"arm\":\"x\",\"arm_index\":0,\"prompt\":" prompt                                                  \
    ",\"clip\":0,\"status\":\"done\",\"text\":\"t\","                                                                  \
    "\"file\":\"" file "\",\"seconds\":{\"whole\":1}}\n"
#define SCORED(prompt, clipsim)                                                                                        \
    "{\"version\":1,\"arm\":\"x\",\"arm_index\":0,\"prompt\":" prompt                                                  \
    ",\"clip\":0,\"status\":\"scored\",\"text\":\"t\","                                                                \
    "\"clipsim\":" clipsim ",\"clip_t\":0.9,\"clip_score\":null}\n"

/* Scores are of the clip in whatever file they are, but before it in the same file they are of an earlier one. Without a clip they
 * are nothing, and they change no state. */
static void scores_find_their_clip(void **state)
{
    static const char first[] = DONE("0", "a") SCORED("0", "0.1") SCORED("0", "0.2") SCORED("1", "0.3")
        SCORED("2", "0.4") DONE("2", "b") SCORED("3", "0.5"),
                      other[] = DONE("1", "c");
    static const char *const file[] = {"a", "c", "b"};
    sg_eval_results          r;
    sg_eval_log              l;
    sg_error                 e = {0};
    write_inside("results-0.jsonl", first, sizeof first - 1);
    write_inside("results-1.jsonl", other, sizeof other - 1);
    assert_int_equal(sg_eval_results_open(&r, folder, &e), SG_OK);
    assert_int_equal(r.count, 3);
    for (int i = 0; i < r.count; i++) {
        const sg_eval_clip *const c = &r.clip[i];
        assert_string_equal(c->file, file[i]);
        assert_true(c->done && c->prompt == i && c->scored == (i < 2) && isnan(c->clip_score));
    }
    assert_true(r.clip[0].clipsim == 0.2 && r.clip[1].clipsim == 0.3 && r.clip[0].clip_t == 0.9 &&
                isnan(r.clip[2].clipsim));
    sg_eval_results_close(&r);
    open_log(&l, &second);
    assert_int_equal(sg_eval_log_count(&l, SG_EVAL_DONE), 3);
    sg_eval_log_close(&l);
    remove_file("results-0.jsonl");
    remove_file("results-1.jsonl");
}

/* Lines of another evaluation are refused. */
static void foreign_lines_are_refused(void **state)
{
    static const int places[][3] = {{3, 0, 0}, {0, 2, 0}, {0, 0, 2}};
    for (size_t i = 0; i < 3; i++) {
        sg_eval_log   l;
        sg_error      e = {0};
        json_t *const j = line_of(places[i][0], places[i][1], places[i][2], true);
        char *const   text = json_dumps(j, 0);
        const size_t  size = strlen(text);
        text[size] = '\n';
        write_inside("results-9.jsonl", text, size + 1);
        assert_int_equal(sg_eval_log_make(&l, 3, 2, 2, &e), SG_OK);
        assert_refused(sg_eval_log_read(&l, folder, &e), SG_E_FORMAT, &e, "results-9.jsonl: line 1: ");
        sg_eval_log_close(&l);
        free(text);
        json_decref(j);
        remove_file("results-9.jsonl");
    }
    sg_error e = {0};
    assert_int_equal(sg_eval_log_make(&(sg_eval_log){0}, 1 << 20, 1000, 8, &e), SG_E_ARG);
}

/* ---- the manifest ---- */

static sg_status compare(const char *there, const char *now, sg_error *e)
{
    json_t *const a = json_loads(there, 0, NULL), *const b = json_loads(now, 0, NULL);
    assert_true(a && b);
    *e = (sg_error){0};
    const sg_status status = sg_eval_manifest_compare(a, b, "out", e);
    json_decref(a);
    json_decref(b);
    return status;
}

static void differences_are_shown(void **state)
{
    sg_error e;
    assert_int_equal(
        compare("{\"steps\": 4, \"x\": [1, {\"y\": null}]}", "{\"x\": [1, {\"y\": null}], \"steps\": 4.0}", &e), SG_OK);
    assert_int_equal(compare("{\"g\": 0.333333333333333}", "{\"g\": 0.33333333333333331}", &e), SG_OK);
    assert_int_equal(compare("{\"device\": \"a\", \"prompts\": {\"file\": \"a\", \"hash\": \"1\"}}",
                             "{\"device\": \"b\", \"prompts\": {\"file\": \"b\", \"hash\": \"1\"}}", &e),
                     SG_OK);
    assert_int_equal(compare("{\"steps\": 4, \"old\": 1, \"a\": [{\"b\": \"x\"}, 2]}",
                             "{\"steps\": 12, \"new\": true, \"a\": [{\"b\": \"y\"}, 2]}", &e),
                     SG_E_ARG);
    const char *const told[] = {"\n  steps: 4 -> 12", "\n  old: 1 -> none", "\n  new: none -> true",
                                "\n  a[0].b: \"x\" -> \"y\"", "--output: out holds clips by other settings"};
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (!strstr(e.text, told[i])) fail_msg("no \"%s\" in: %s", told[i], e.text);
    assert_null(strstr(e.text, "a[1]"));
    assert_int_equal(
        compare("{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"j\":1,\"k\":1,\"l\":1}",
                "{}", &e),
        SG_E_ARG);
    assert_non_null(strstr(e.text, "\n  and 2 more"));
}

/* ---- frames ---- */

static void frames_come_back_or_are_refused(void **state)
{
    enum { BYTES = 2 * 16 * 16 * 3, HEAD = 128 };
    static char line[] = "{\"seconds\":{\"total\":1.5}}";
    const int   size = HEAD + BYTES + (int)strlen(line);
    sg_eval     v = {.folder = folder};
    sg_request  r = {.width = 16, .height = 16, .frames = 2, .seed = 5};
    uint8_t     rgb[BYTES], back[BYTES];
    char        text[HEAD + BYTES + sizeof line + 1] = {0}, path[256], *line_back = NULL;
    sg_error    e = {0};
    for (int i = 0; i < BYTES; i++) rgb[i] = (uint8_t)(i * 31 % 251);
    assert_int_equal(sg_eval_frames_load(&v, 1, 0, 2, &r, back, NULL, &e), SG_E_FILE);
    assert_int_equal(sg_eval_frames_save(&v, 1, 0, 2, &r, rgb, line, &(sg_error){0}), SG_OK);
    assert_int_equal(sg_eval_frames_load(&v, 1, 0, 1, &r, back, NULL, &(sg_error){0}), SG_E_FILE);
    assert_int_equal(sg_eval_frames_load(&v, 1, 0, 2, &r, back, &line_back, &(sg_error){0}), SG_OK);
    assert_memory_equal(rgb, back, BYTES);
    assert_string_equal(line, line_back);
    free(line_back);
    FILE *const f = fopen(strcat(strcpy(path, folder), "/.frames-1-0-2"), "rb");
    assert_int_equal(fread(text, 1, sizeof text, f), size);
    fclose(f);
    for (int i = 0; i < size; i += i < HEAD + BYTES - 7 ? 7 : 1) {
        text[i] ^= 4;
        write_inside(".frames-1-0-2", text, (size_t)size);
        text[i] ^= 4;
        assert_int_equal(sg_eval_frames_load(&v, 1, 0, 2, &r, back, NULL, &(sg_error){0}), SG_E_FORMAT);
    }
    for (int i = -1; i <= 1; i += 2) {
        text[size] = ' ';
        write_inside(".frames-1-0-2", text, (size_t)(size + i));
        assert_int_equal(sg_eval_frames_load(&v, 1, 0, 2, &r, back, NULL, &(sg_error){0}), SG_E_FORMAT);
    }
    write_inside(".frames-1-0-2", text, (size_t)size);
    r.seed++;
    assert_int_equal(sg_eval_frames_load(&v, 1, 0, 2, &r, back, NULL, &(sg_error){0}), SG_E_FORMAT);
    sg_eval_frames_remove(&v, 1, 0, 2);
    assert_int_equal(size_of(".frames-1-0-2"), -1);
}

/* ---- the order of arms ---- */

/* In twice as many units as there are arms each is twice in each place, and follows each other one twice. */
static void arms_take_turns(void **state)
{
    for (int arms = 1; arms <= SG_ARMS_MAX; arms++)
        for (int64_t block = 0; block < 50; block++) {
            int place[SG_ARMS_MAX][SG_ARMS_MAX] = {0}, follows[SG_ARMS_MAX][SG_ARMS_MAX] = {0};
            for (int64_t unit = 2 * block * arms; unit < 2 * (block + 1) * arms; unit++) {
                int order[SG_ARMS_MAX];
                sg_eval_order(order, arms, unit);
                for (int i = 0; i < arms; i++) {
                    assert_in_range(order[i], 0, arms - 1);
                    place[order[i]][i]++;
                    if (i) follows[order[i - 1]][order[i]]++;
                }
            }
            for (int a = 0; a < arms; a++)
                for (int b = 0; b < arms; b++) {
                    assert_int_equal(place[a][b], 2);
                    assert_int_equal(follows[a][b], a == b ? 0 : 2);
                }
        }
}

/* A load that comes in every second unit, or every third, ..., meets each arm first in some of them. */
static void no_period_keeps_step_with_the_order(void **state)
{
    enum { UNITS = 2400 };
    for (int arms = 2; arms <= 4; arms++)
        for (int period = 2; period <= 12; period++) {
            int first[SG_ARMS_MAX] = {0}, order[SG_ARMS_MAX], met = 0;
            for (int unit = 0; unit < UNITS; unit += period, met++) {
                sg_eval_order(order, arms, unit);
                first[order[0]]++;
            }
            for (int k = 0; k < arms; k++) assert_true(first[k] * arms * 3 > met && first[k] * arms < met * 2);
        }
}

/* It is that of the unit, whenever it is asked for, and in every version: folders that were begun go on. */
static void the_order_stays(void **state)
{
    static const char *const expected[] = {"10 10 01 01 10 01", "021 201 102 210 012 120",
                                           "2310 3021 0132 3021 2310 0132"};
    for (int arms = 2; arms <= 4; arms++) {
        char text[64];
        for (int unit = 5; unit >= 0; unit--) {
            int order[SG_ARMS_MAX];
            sg_eval_order(order, arms, unit);
            for (int i = 0; i < arms; i++) text[unit * (arms + 1) + i] = (char)('0' + order[i]);
            text[unit * (arms + 1) + arms] = unit < 5 ? ' ' : '\0';
        }
        assert_string_equal(text, expected[arms - 2]);
    }
}

/* Five frames from the first to the last, none higher than 160 pixels, each pixel a mean. */
static void strips_are_small(void **state)
{
    enum { WIDTH = 12, HEIGHT = 322, FRAMES = 9 };
    const size_t   bytes = (size_t)WIDTH * HEIGHT * 3;
    uint8_t *const rgb = malloc(FRAMES * bytes);
    for (int i = 0; i < FRAMES; i++) memset(rgb + (size_t)i * bytes, 10 * i, bytes);
    const uint8_t *const clip[] = {rgb};
    sg_collage           c = {WIDTH, HEIGHT, FRAMES, 1, clip};
    sg_image             on = {0};
    sg_collage_strip_size(&c, &on.width, &on.height);
    assert_int_equal(on.width, 5 * (WIDTH / 3));
    assert_int_equal(on.height, HEIGHT / 3);
    on.rgb = malloc((size_t)on.width * (size_t)on.height * 3);
    sg_collage_strip(&on, &c);
    for (int x = 0; x < on.width; x++) assert_int_equal(on.rgb[3 * x], x / (WIDTH / 3) * 20);
    c = (sg_collage){320, 160, 2, 1, clip};
    sg_collage_strip_size(&c, &on.width, &on.height);
    assert_int_equal(on.width, 640);
    assert_int_equal(on.height, 160);
    free(on.rgb);
    free(rgb);
}

static int make_folder(void **state) { return enter_folder(state) || mkdir(folder, 0700); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_cut_anywhere), cmocka_unit_test(ranks_see_each_other),
        cmocka_unit_test(scores_find_their_clip), cmocka_unit_test(foreign_lines_are_refused),
        cmocka_unit_test(differences_are_shown),  cmocka_unit_test(frames_come_back_or_are_refused),
        cmocka_unit_test(arms_take_turns),        cmocka_unit_test(no_period_keeps_step_with_the_order),
        cmocka_unit_test(the_order_stays),        cmocka_unit_test(strips_are_small)};
    return cmocka_run_group_tests(tests, make_folder, leave_folder);
}
