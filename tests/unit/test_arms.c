/* test_arms.c - what `compare` takes and draws: arms, captions, clips side by side, contact sheets. */
#include "arm_run.h"
#include "arms.h"
#include "caption.h"
#include "collage.h"
#include "render.h"
#include "unit.h"

static sg_settings nothing(void) { return sg_options_empty(SG_COMMAND_COMPARE); }

static void open_arms(sg_arms *a, const char *list, const sg_settings *base)
{
    sg_error e = {0};
    if (sg_arms_open(a, list, base, &e) != SG_OK) fail_msg("%s", e.text);
}

static void arms_are_read(void **state)
{
    const sg_settings base = nothing();
    sg_arms           a;
    open_arms(&a,
              "dense,sage:dense-steps=0.5,sparge:topk=0.3:tail=off,sparge:tau=.95:dense-layers=0\\,2-3:name=mine,"
              "sparge:sparse-config=a\\:b\\\\c.json:order=row",
              &base);
    assert_int_equal(a.count, 5);
    assert_string_equal(a.arm[0].name, "dense");
    assert_string_equal(a.arm[0].settings.attention, "dense");
    assert_true(isnan(a.arm[0].settings.topk));
    assert_string_equal(a.arm[1].settings.attention, "sage");
    assert_true(a.arm[1].settings.dense_steps == 0.5);
    assert_string_equal(a.arm[2].name, "sparge:topk=0.3:tail=off");
    assert_string_equal(a.arm[2].file, "sparge-topk=0.3-tail=off");
    assert_true(a.arm[2].settings.topk == 0.3);
    assert_string_equal(a.arm[2].settings.tail, "off");
    assert_string_equal(a.arm[3].name, "mine");
    assert_string_equal(a.arm[3].file, "mine");
    assert_true(a.arm[3].settings.tau == 0.95 && isnan(a.arm[3].settings.topk));
    assert_string_equal(a.arm[3].settings.dense_layers, "0,2-3");
    assert_string_equal(a.arm[4].settings.sparse_config, "a:b\\c.json");
    assert_string_equal(a.arm[4].settings.order, "row");
    sg_arms_close(&a);
    open_arms(&a, "dense,dense:steps=31", &base);
    assert_true(a.arm[0].settings.steps == 0 && a.arm[1].settings.steps == 31);
    sg_arms_close(&a);
    open_arms(&a, "dense,dense:guidance=4", &base);
    assert_true(isnan(a.arm[0].settings.guidance) && a.arm[1].settings.guidance == 4);
    sg_arms_close(&a);
    open_arms(&a, "dense,dense:slg-scale=2.5", &base);
    assert_true(isnan(a.arm[0].settings.slg_scale) && a.arm[1].settings.slg_scale == 2.5);
    sg_arms_close(&a);
    assert_int_equal(a.count, 0);
}

/* The command's options hold for all arms that they concern, unless an arm says otherwise. */
static void arms_start_from_the_command(void **state)
{
    sg_settings base = nothing();
    sg_arms     a;
    base.prompt = "ball";
    base.topk = 0.4;
    base.tail = "off";
    base.dense_steps = 0.1;
    open_arms(&a, "dense,sage,sparge,sparge:tau=0.9,sparge:topk=0.2,sparge:tail=on", &base);
    assert_true(isnan(a.arm[0].settings.topk) && isnan(a.arm[0].settings.dense_steps) && !a.arm[0].settings.tail);
    assert_true(isnan(a.arm[1].settings.topk) && a.arm[1].settings.dense_steps == 0.1);
    assert_true(a.arm[2].settings.topk == 0.4 && a.arm[2].settings.dense_steps == 0.1);
    assert_true(isnan(a.arm[3].settings.topk) && a.arm[3].settings.tau == 0.9);
    assert_string_equal(a.arm[3].settings.tail, "off");
    assert_true(a.arm[4].settings.topk == 0.2);
    assert_string_equal(a.arm[5].settings.tail, "on");
    sg_arms_close(&a);
}

static void bad_arms_are_refused(void **state)
{
    static const char *const bad[][2] = {
        {"", "arm 1|empty"},
        {"dense,", "arm 2|empty"},
        {",dense", "arm 1|empty"},
        {"dense,sparse", "'sparse'|dense, sage, sparge|mean sparge?"},
        {"dense,sparge:dense-layers=0,3", "a comma|\\,"},
        {"dense,dense", "'dense'|before"},
        {"sparge:name=a b,sparge:topk=0.1:name=a-b", "of that name"},
        {"sparge:name=side", "all arms"},
        {"dense:steps=0", "'dense:steps=0': steps: '0'|1000"},
        {"dense:steps=", "steps needs"},
        {"sparge:topk=2", "'sparge:topk=2': topk: '2'"},
        {"sparge:topk=nan", "topk"},
        {"sparge:topk", "topk needs"},
        {"sparge:topk=", "topk needs"},
        {"sparge:", "''|option"},
        {"sparge:seed=3", "'seed'|option"},
        {"sparge:attention=dense", "'attention'|option"},
        {"sparge:tpk=1", "mean topk?"},
        {"sparge:score=by", "score: 'by'|mean"},
        {"dense:topk=0.3", "'dense:topk=0.3'|--topk|--attention dense"},
        {"sparge:topk=0.3:tau=0.3", "--topk|--tau"},
        {"sparge:dense-layers=3-", "'sparge:dense-layers=3-': --dense-layers"},
        {"sparge:name=\n", "control character|position 13"},
        {"dense,\xff", "not UTF-8"},
        {"dense,sage,sparge,sparge:topk=.1,sparge:topk=.2,sparge:topk=.3,sparge:topk=.4,sparge:topk=.5,sparge:topk=.6",
         "more than 8"},
    };
    const sg_settings base = nothing();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sg_arms  a;
        sg_error e = {0};
        assert_refused(sg_arms_open(&a, bad[i][0], &base, &e), SG_E_ARG, &e, "--arms", bad[i][1]);
        sg_arms_close(&a);
    }
}

static void long_names_are_refused(void **state)
{
    const sg_settings base = nothing();
    char              list[600];
    sg_arms           a;
    sg_error          e = {0};
    snprintf(list, sizeof list, "sparge:sparse-config=%0200d", 1);
    assert_refused(sg_arms_open(&a, list, &base, &e), SG_E_ARG, &e, "120 bytes");
    sg_arms_close(&a);
    snprintf(list, sizeof list, "sparge:sparse-config=%0200d:name=x", 1);
    open_arms(&a, list, &base);
    assert_string_equal(a.arm[0].name, "x");
    assert_int_equal(strlen(a.arm[0].settings.sparse_config), 200);
    sg_arms_close(&a);
    e = (sg_error){0};
    snprintf(list, sizeof list, "sparge:name=%0200d", 1);
    assert_int_equal(sg_arms_open(&a, list, &base, &e), SG_E_ARG);
    sg_arms_close(&a);
}

/* ---- pictures ---- */

static sg_image blank(int width, int height)
{
    const sg_image i = {width, height, calloc((size_t)width * (size_t)height, 3)};
    assert_non_null(i.rgb);
    return i;
}

static bool lit(const sg_image *i, int x, int y) { return i->rgb[3 * (y * i->width + x)] != 0; }

/* The letters of a line as rows of "#" and "." joined by newlines. */
static void read_dots(const sg_image *i, int scale, char *out)
{
    for (int y = 0; y < i->height / scale; y++) {
        for (int x = 0; x < i->width / scale; x++) *out++ = lit(i, x * scale, y * scale) ? '#' : '.';
        *out++ = '\n';
    }
    *out = '\0';
}

static void captions_are_legible(void **state)
{
    for (int scale = 1; scale <= 3; scale += 2) {
        const sg_image i = blank(14 * scale, 9 * scale);
        char           dots[200];
        sg_caption_draw(&i, 0, 0, i.width, scale, "T1");
        read_dots(&i, scale, dots);
        assert_string_equal(dots, "#####....#....\n"
                                  "..#.....##....\n"
                                  "..#......#....\n"
                                  "..#......#....\n"
                                  "..#......#....\n"
                                  "..#......#....\n"
                                  "..#.....###...\n"
                                  "..............\n"
                                  "..............\n");
        free(i.rgb);
    }
    for (char c = '!'; c <= '~'; c++) {
        const sg_image i = blank(12, SG_CAPTION_LINE);
        bool           any = false;
        sg_caption_draw(&i, 0, 0, i.width, 1, (char[]){c, 0});
        for (int k = 0; k < 12 * SG_CAPTION_LINE; k++) any = any || i.rgb[3 * k];
        if (!any) fail_msg("'%c' leaves no dot", c);
        free(i.rgb);
    }
}

/* Nothing is drawn beside the picture (the sanitizers watch), nor beyond the width; long text ends in dots. */
static void captions_are_cut(void **state)
{
    static const char long_text[] = "a text that is much too long for so small a picture: Wide Wide Wide Wide Wide";
    const sg_image    i = blank(64, 30), j = blank(64, 30);
    sg_caption_draw(&i, -5, -3, 500, 2, long_text);
    sg_caption_draw(&i, 60, 25, 500, 2, long_text);
    memset(i.rgb, 0, 64 * 30 * 3);
    sg_caption_draw(&i, 2, 2, 40, 1, long_text);
    for (int y = 0; y < 30; y++)
        for (int x = 42; x < 64; x++) assert_false(lit(&i, x, y));
    memset(i.rgb, 0, 64 * 30 * 3);
    sg_caption_draw(&i, 0, 0, 64, 1, "\xc3\xa9\x01");
    sg_caption_draw(&j, 0, 0, 64, 1, "??");
    assert_memory_equal(i.rgb, j.rgb, 64 * 30 * 3);
    memset(i.rgb, 0, 64 * 30 * 3);
    sg_caption_draw(&i, 0, 0, 3, 1, long_text);
    sg_caption_draw(&i, 0, 0, 0, 1, long_text);
    char *const much = malloc(100001);
    assert_non_null(much);
    memset(much, 'W', 100000);
    much[100000] = '\0';
    sg_caption_draw(&i, 0, 0, 1 << 30, 1, much);
    free(much);
    free(j.rgb);
    free(i.rgb);
}

enum { W = 32, H = 16, FRAMES = 3 };

/* Arm k's frame i has red k * 20 + i, and nothing else. */
static uint8_t *clip(int k)
{
    uint8_t *const rgb = calloc(FRAMES * W * H, 3);
    assert_non_null(rgb);
    for (int i = 0; i < FRAMES * W * H; i++) rgb[3 * i] = (uint8_t)(k * 20 + i / (W * H));
    return rgb;
}

static int red(const sg_image *i, int x, int y) { return i->rgb[3 * (y * i->width + x)]; }

static void clips_stand_side_by_side(void **state)
{
    uint8_t   *rgb[] = {clip(0), clip(1), clip(2)};
    sg_collage c = {W, H, FRAMES, 3, (const uint8_t *const *)rgb};
    sg_caption caption[5] = {0};
    int        width, height;
    sg_collage_side_size(&c, &width, &height);
    assert_int_equal(width, 3 * W);
    const int strip = height / 2 - H;
    assert_true(strip >= SG_COLLAGE_LINES * SG_CAPTION_LINE && strip % 2 == 0 && height % 2 == 0);
    sg_image on = blank(width, height);
    snprintf(caption[1][2], SG_COLLAGE_TEXT, "L");
    sg_collage_side(&on, &c, 2, caption);
    for (int k = 0; k < 3; k++) assert_int_equal(red(&on, k * W + 5, strip + 5), k * 20 + 2);
    assert_int_equal(red(&on, 5, height - 3), 0);
    assert_int_equal(red(&on, W + 5, height - 3), 160);
    assert_int_equal(red(&on, 2 * W + 5, height - 3), 255);
    int letters = 0, first = 0;
    for (int y = 0; y < strip; y++)
        for (int x = 0; x < width; x++)
            if (red(&on, x, y)) letters++, first = letters == 1 ? x : first;
    assert_true(letters > 5 && first >= W && first < 2 * W);
    free(on.rgb);

    c.arms = 2;
    sg_collage_side_size(&c, &width, &height);
    assert_int_equal(width, 3 * W);
    assert_int_equal(height, H + strip);
    on = blank(width, height);
    sg_collage_side(&on, &c, 0, caption);
    assert_int_equal(red(&on, W + 5, strip + 5), 20);
    assert_int_equal(red(&on, 2 * W + 5, strip + 5), 160);
    free(on.rgb);
    for (int k = 0; k < 3; k++) free(rgb[k]);
}

static void contact_sheets(void **state)
{
    uint8_t          *rgb[] = {clip(0), clip(1)};
    const sg_collage  c = {W, H, FRAMES, 2, (const uint8_t *const *)rgb};
    const char *const line[] = {"", "one"};
    int               width, height;
    sg_collage_sheet_size(&c, &width, &height);
    assert_int_equal(width, FRAMES * W);
    const int      row = height / 2;
    const sg_image on = blank(width, height);
    sg_collage_sheet(&on, &c, line);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < FRAMES; i++) assert_int_equal(red(&on, i * W + 3, (k + 1) * row - 4), k * 20 + i);
    free(on.rgb);

    assert_int_equal(sg_collage_columns(1), 1);
    assert_int_equal(sg_collage_columns(33), SG_COLLAGE_COLUMNS);
    assert_true(sg_collage_frame(0, SG_COLLAGE_COLUMNS, 33) == 0 && sg_collage_frame(1, SG_COLLAGE_COLUMNS, 33) == 4 &&
                sg_collage_frame(SG_COLLAGE_COLUMNS - 1, SG_COLLAGE_COLUMNS, 33) == 32);
    for (int k = 0; k < 2; k++) free(rgb[k]);
}

/* Where it would be too wide each pixel is the mean of a square. */
static void contact_sheets_shrink(void **state)
{
    enum { WIDE = 1024, HIGH = 4, MANY = 8 };
    uint8_t *const rgb = malloc((size_t)MANY * WIDE * HIGH * 3);
    assert_non_null(rgb);
    for (size_t i = 0; i < (size_t)MANY * WIDE * HIGH * 3; i++) rgb[i] = i / 3 % 2 ? 200 : 100;
    const sg_collage  c = {WIDE, HIGH, MANY, 2, (const uint8_t *const[]){rgb, rgb}};
    const char *const line[] = {"a", "b"};
    int               width, height;
    sg_collage_sheet_size(&c, &width, &height);
    assert_int_equal(width, 4096);
    const sg_image on = blank(width, height);
    sg_collage_sheet(&on, &c, line);
    assert_int_equal(red(&on, 7, height - 1), 150);
    assert_int_equal(red(&on, 4095, height - 2), 150);
    free(on.rgb);
    free(rgb);
}

/* ---- arms that would run the same ---- */

/* Why two arms of a model of four layers would, or "". */
static const char *same(const char *list, int64_t tokens, int steps)
{
    static char       why[512];
    const sg_settings base = nothing();
    sg_arm_result     r[2] = {0};
    sg_arms           a;
    sg_error          e = {0};
    open_arms(&a, list, &base);
    for (int i = 0; i < 2; i++) {
        sg_rendering *const now = &r[i].now;
        *now = (sg_rendering){.settings = a.arm[i].settings,
                              .request.attention = sg_policy_default(),
                              .plan = {.tokens = tokens, .layers = 4}};
        if (!now->settings.steps) now->settings.steps = steps;
        assert_int_equal(sg_resolve_attention(now, &e), SG_OK);
        now->plan.steps = now->settings.steps;
        const sg_attention_shape shape = {.n = tokens,
                                          .h = 1,
                                          .hk = 1,
                                          .d = 64,
                                          .layers = 4,
                                          .steps = now->settings.steps,
                                          .passes = 1,
                                          .values = SG_I8,
                                          .f8 = SG_F8_SLOW};
        sg_attention            *bound;
        assert_done(sg_attention_open(&bound, &now->request.attention, &shape, &e), &e);
        sg_plan_attention(&now->plan, &now->request.attention, bound);
        sg_attention_close(&bound);
    }
    sg_arms_would_be_same(why, &r[0], &r[1]);
    sg_arms_close(&a);
    return why;
}

static void arms_that_would_be_the_same(void **state)
{
    assert_string_equal(same("dense,sparge", 1000, 10), "dense: 1000 tokens are fewer than 1024");
    assert_string_equal(same("dense,sparge", 2000, 10), "");
    assert_string_equal(same("dense,sage:dense-steps=1", 2000, 10),
                        "dense: all steps are among the first 100 % that are dense");
    assert_string_equal(same("dense,sage", 2000, 1), "dense: all steps are among the first 20 % that are dense");
    assert_string_equal(same("dense,sage:dense-layers=0-3", 2000, 10),
                        "sage in the last 8 of 10 steps, layers 0-3 dense");
    assert_string_equal(same("dense,sage:dense-layers=0-2", 2000, 10), "");
    assert_string_equal(same("sage,sparge:dense-steps=0.9", 2000, 10), "");
    assert_string_equal(same("sage:dense-steps=0.15,sage", 2000, 10), "sage in the last 8 of 10 steps");
    assert_string_equal(same("sage:pv-dtype=bf16,sage", 2000, 10), "");
    assert_string_equal(same("dense,dense:steps=6", 2000, 10), "");
    assert_string_equal(same("dense:steps=6,dense:steps=6:name=b", 2000, 10), "dense");
    assert_string_equal(same("dense,dense:steps=10", 2000, 10), "dense");
    assert_true(*same("sparge:topk=0.5:name=a,sparge:topk=0.5:name=b", 2000, 10));
    assert_true(*same("sparge:topk=0.5,sparge:topk=0.5:pv=0", 2000, 10));
    static const char *const apart[] = {"topk=0.4",
                                        "topk=0.5:tail=off",
                                        "topk=0.5:order=row",
                                        "topk=0.5:sink=1",
                                        "topk=0.5:score=mean",
                                        "tau=0.5",
                                        "topk=0.5:budget=row",
                                        "topk=0.5:budget=heads",
                                        "topk=0.5:sim=0.5",
                                        "topk=0.5:pv=8",
                                        "topk=0.5:dense-steps=0.5",
                                        "topk=0.5:dense-steps-kind=sage"};
    int                      different = 0;
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        char list[200];
        snprintf(list, sizeof list, "sparge:topk=0.5,sparge:name=b:%s", apart[i]);
        different += !*same(list, 2000, 10);
    }
    assert_int_equal(different, sizeof apart / sizeof *apart - 1); /* one of the budgets is the usual one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arms_are_read),
                                       cmocka_unit_test(arms_start_from_the_command),
                                       cmocka_unit_test(bad_arms_are_refused),
                                       cmocka_unit_test(long_names_are_refused),
                                       cmocka_unit_test(captions_are_legible),
                                       cmocka_unit_test(captions_are_cut),
                                       cmocka_unit_test(clips_stand_side_by_side),
                                       cmocka_unit_test(contact_sheets),
                                       cmocka_unit_test(contact_sheets_shrink),
                                       cmocka_unit_test(arms_that_would_be_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
