/* test_eval_report.c - what an evaluation's lines say, which of them count, and what is made of them. Expected figures are
 * SciPy 1.17.1's: t.ppf(0.975, n), and t.interval(0.95, n - 1, loc=mean, scale=sem) of the prompts' means. */
#include "eval_report.h"
#include "eval_summary.h"
#include "report_result.h"
#include "unit.h"

#include <dirent.h>
#include <jansson.h>

static void remove_files(void)
{
    DIR *const d = opendir(".");
    assert_non_null(d);
    for (const struct dirent *f; (f = readdir(d));)
        if (f->d_name[0] != '.') unlink(f->d_name);
    closedir(d);
}

static void assert_close(double a, double b)
{
    if (!(fabs(a - b) <= 1e-12 * fabs(b))) fail_msg("%.17g is not %.17g", a, b);
}

static void assert_interval(const sg_interval *v, double mean, double low, double high)
{
    assert_close(v->mean, mean);
    assert_close(v->low, low);
    assert_close(v->high, high);
}

static sg_interval of(const sg_eval_summary *s, int arm, int group, const char *name)
{
    return *sg_eval_summary_find(s, arm, group, name);
}

/* ---- one line ---- */

#define PLACE "\"version\":2,\"arm\":\"dense\",\"arm_index\":0,\"prompt\":0,\"clip\":0,\"text\":\"a ball\""
#define DONE "{" PLACE ",\"status\":\"done\",\"file\":\"a/b.mp4\",\"seconds\":{\"total\":2}"

static void test_line(void **state)
{
    static const char text[] =
        "{\"version\":2,\"arm\":\"sparge:topk=0.3\",\"arm_index\":1,\"prompt\":12,\"clip\":3,\"status\":\"done\","
        "\"text\":\"\\u7ea2 <b>\",\"groups\":[\"motion\",\"colour\",\"motion\"],\"seed\":9007199254740993,\"width\":64,"
        "\"height\":32,\"frames\":33,\"file\":\"a b/c..d.mp4\",\"picture\":\"frames/%2e.png\",\"seconds\":{\"total\":9,"
        "\"text\":1,\"encode\":0.5,\"denoise\":6.5,\"decode\":1.5},\"density\":0.48,"
        "\"psnr\":{\"mean\":31,\"minimum\":24.5,\"p5\":null},"
        "\"ssim\":{\"mean\":0.9,\"minimum\":0.8,\"p5\":0.85},\"flicker\":0.97,\"sharpness\":120,\"black\":1,\"frozen\":"
        "2,"
        "\"non_finite\":3,\"last_image\":{\"file\":\"../a b.jpg\",\"hash\":\"0f\",\"picture\":\"last_image/a.png\"},"
        "\"fit\":\"crop\",\"video\":{\"file\":\"v.y4m\",\"hash\":\"1f\"},\"strength\":0.5,\"else\":[{}]}";
    sg_eval_clip c;
    sg_error     e = {0};
    assert_int_equal(sg_eval_line_read(&c, text, strlen(text), "f", 1, &e), SG_OK);
    assert_true(c.done && c.arm == 1 && c.prompt == 12 && c.clip == 3);
    assert_string_equal(c.name, "sparge:topk=0.3");
    assert_string_equal(c.text, "\xE7\xBA\xA2 <b>");
    assert_int_equal(json_array_size(c.groups), 3);
    assert_string_equal(json_string_value(json_array_get(c.groups, 1)), "colour");
    assert_string_equal(c.file, "a b/c..d.mp4");
    assert_string_equal(c.picture, "frames/%2e.png");
    assert_null(c.error);
    assert_null(c.image[SG_IMAGE_FIRST].file);
    assert_string_equal(c.image[SG_IMAGE_LAST].file, "../a b.jpg");
    assert_string_equal(c.image[SG_IMAGE_LAST].hash, "0f");
    assert_string_equal(c.image[SG_IMAGE_LAST].picture, "last_image/a.png");
    assert_string_equal(c.video.file, "v.y4m");
    assert_string_equal(c.video.hash, "1f");
    assert_true(c.strength == 0.5);
    assert_true(c.seed == 9007199254740993 && c.width == 64 && c.height == 32 && c.frames == 33);
    assert_true(c.black == 1 && c.frozen == 2 && c.non_finite == 3);
    assert_true(c.psnr.mean == 31 && c.psnr.minimum == 24.5 && isinf(c.psnr.p5));
    assert_true(c.ssim.mean == 0.9 && c.ssim.minimum == 0.8 && c.ssim.p5 == 0.85 && isnan(c.ms_ssim.mean));
    assert_true(c.density == 0.48 && c.seconds.denoise == 6.5 && c.seconds.decode == 1.5 && c.seconds.own == 7.5);
    sg_eval_clip_free(&c);
}

static void test_unknown(void **state)
{
    static const char text[] = "{" PLACE ",\"status\":\"failed\",\"error\":\"no\",\"seed\":null,\"psnr\":null}";
    sg_eval_clip      c;
    sg_error          e = {0};
    assert_int_equal(sg_eval_line_read(&c, text, strlen(text), "f", 1, &e), SG_OK);
    assert_true(!c.done && c.seed == -1 && isnan(c.width) && isnan(c.black) && !c.file && !c.picture && !c.groups);
    assert_true(isnan(c.seconds.own) && isnan(c.density) && isnan(c.psnr.mean) && isnan(c.flicker));
    assert_string_equal(c.error, "no");
    sg_eval_clip_free(&c);
}

static void test_bad_lines(void **state)
{
    static const char *const of[][2] = {
        {"", "not valid JSON"},
        {"[]", "JSON|object"},
        {DONE, "not valid JSON"},
        {DONE ",\"seed\":1,\"seed\":2}", "not valid JSON"},
        {"{\"version\":3}", "version|1 to 2"},
        {"{\"arm\":\"x\"}", "version is missing"},
        {"{" PLACE ",\"status\":\"lost\"}", "status|\"done\"|\"failed\"|\"scored\""},
        {"{" PLACE "}", "status should be"},
        {"{" PLACE ",\"status\":\"done\",\"file\":\"a\"}", "seconds.total is missing"},
        {"{" PLACE ",\"status\":\"done\",\"file\":\"a\",\"seconds\":{}}", "seconds.total is missing"},
        {"{" PLACE ",\"status\":\"done\",\"file\":\"a\",\"seconds\":{\"total\":-1}}", "seconds.total|number"},
        {"{" PLACE ",\"status\":\"done\",\"file\":\"a\",\"seconds\":{\"total\":1,\"text\":2}}", "seconds.text|at most"},
        {"{" PLACE ",\"status\":\"done\",\"file\":\"a\",\"seconds\":{\"total\":3,\"text\":2,\"encode\":2}}",
         "seconds.encode and seconds.text"},
        {"{" PLACE ",\"status\":\"done\",\"seconds\":{\"total\":1}}", "file is missing"},
        {DONE ",\"psnr\":3}", "psnr|object"},
        {DONE ",\"psnr\":{\"mean\":\"x\"}}", "psnr.mean|number"},
        {DONE ",\"psnr\":{\"mean\":1e300}}", "psnr.mean|number"},
        {DONE ",\"psnr\":{\"mean\":1e999}}", "not valid JSON"},
        {DONE ",\"density\":1.5}", "density|0 to 1"},
        {DONE ",\"steps\":0}", "steps|1 to 1000"},
        {DONE ",\"steps\":1001}", "steps|1 to 1000"},
        {DONE ",\"steps\":2,\"skipped_steps\":[0,0,0]}", "skipped_steps|some"},
        {DONE ",\"steps\":2,\"skipped_steps\":1}", "skipped_steps|some"},
        {DONE ",\"skipped_steps\":[]}", "skipped_steps|some"},
        {DONE ",\"black\":0.5}", "black|whole number"},
        {DONE ",\"seed\":-1}", "seed|whole number"},
        {DONE ",\"width\":0}", "width|whole number"},
        {DONE ",\"groups\":\"x\"}", "groups|list of strings"},
        {DONE ",\"groups\":[1]}", "groups|list of strings"},
        {DONE ",\"error\":1}", "error|string"},
        {DONE ",\"picture\":\"../a.png\"}", "picture|../a.png"},
        {DONE ",\"video\":\"a.y4m\"}", "video|object"},
        {DONE ",\"video\":{\"file\":\"a.y4m\"}}", "video.hash is missing"},
        {DONE ",\"strength\":2}", "strength|0 to 1"},
        {"{" PLACE ",\"status\":\"scored\",\"clipsim\":1.5}", "clipsim|-1.001 to 1.001"},
        {"{" PLACE ",\"status\":\"scored\",\"clip_t\":\"1\"}", "clip_t|number"},
        {"{" PLACE ",\"status\":\"scored\",\"clip_score\":-1}", "clip_score|number from 0"},
        {DONE ",\"image\":\"a.png\"}", "image|object"},
        {DONE ",\"image\":{\"file\":\"a.png\",\"picture\":\"a.png\"}}", "image.hash is missing"},
        {DONE ",\"last_image\":{\"file\":\"a.png\",\"hash\":1,\"picture\":\"a.png\"}}", "last_image.hash|string"},
        {DONE ",\"image\":{\"file\":\"a.png\",\"hash\":\"0\",\"picture\":\"/a.png\"}}", "image|/a.png"},
        {"{\"version\":2,\"arm_index\":-1}", "arm_index|whole number"},
        {"{\"version\":2,\"arm_index\":0,\"prompt\":1048576}", "prompt|whole number"},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_eval_clip c;
        sg_error     e = {0};
        assert_refused(sg_eval_line_read(&c, of[i][0], strlen(of[i][0]), "f", 7, &e), SG_E_FORMAT, &e,
                       "f: line 7: ", of[i][1]);
        sg_eval_clip_free(&c);
    }
    sg_eval_clip c;
    sg_error     e = {0};
    assert_refused(sg_eval_line_read(&c, "{\0}", 3, "f", 1, &e), SG_E_FORMAT, &e, "zero byte");
    sg_eval_clip_free(&c);
}

static void test_paths(void **state)
{
    static const char *const good[] = {"a",     "a/b.mp4", "a..b/...", "-a",          "1:2",
                                       "a/b:c", " ",       "%2e%2e/a", "\xE7\xBA\xA2"};
    static const char *const bad[] = {"",        "/a",    "a/",        "a//b", "..",       "../a",
                                      "a/../b",  "a/..",  "./a",       "a/.",  "a\\..\\b", "http://x",
                                      "file:/a", "data:", "a+b-c.1:x", "a\nb", "a\x7F",    "javascript:x"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!sg_eval_path_stays(good[i])) fail_msg("%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (sg_eval_path_stays(bad[i])) fail_msg("%s", bad[i]);
}

/* ---- files ---- */

#define AT(prompt, clip, arm, status, error)                                                                           \
    "{\"version\":2,\"arm\":\"x\",\"arm_index\":" arm ",\"prompt\":" prompt ",\"clip\":" clip ",\"status\":\"" status  \
    "\",\"text\":\"t\",\"file\":\"f\",\"seconds\":{\"total\":1},\"error\":\"" error "\"}"

static void test_which_line(void **state)
{
    sg_eval_results r;
    sg_error        e = {0};
    write_text("results-0.jsonl", AT("1", "0", "0", "failed", "1") "\n\n" AT("1", "0", "0", "failed", "2") "\r\n" AT(
                                      "0", "1", "1", "done", "3") "\n" AT("0", "1", "0", "done",
                                                                          "4") "\n" AT("0", "0", "0", "failed", "5"));
    write_text("results-1.jsonl", AT("0", "1", "1", "failed", "6") "\n" AT("0", "1", "0", "done", "7") "\n{\"torn");
    write_text("results.jsonl", "");
    write_text("results.json", "?");
    assert_int_equal(sg_eval_results_open(&r, ".", &e), SG_OK);
    assert_int_equal(r.sources, 3);
    assert_int_equal(r.count, 3);
    static const char *const last[] = {"7", "3", "2"};
    for (int i = 0; i < 3; i++) assert_string_equal(r.clip[i].error, last[i]);
    assert_true(r.clip[2].line == 3 && r.clip[0].source == 1);
    assert_int_equal(sg_eval_results_find(&r, 0, 1, 1), 1);
    assert_int_equal(sg_eval_results_find(&r, 1, 0, 0), 2);
    assert_int_equal(sg_eval_results_find(&r, 0, 0, 0), -1);
    sg_eval_results_close(&r);
    remove_files();
    assert_int_equal(sg_eval_results_open(&r, ".", &e), SG_OK);
    assert_int_equal(r.count, 0);
    sg_eval_results_close(&r);
    assert_int_equal(sg_eval_results_open(&r, "nowhere", &e), SG_E_FILE);
    sg_eval_results_close(&r);
}

/* ---- figures ---- */

static void test_student(void **state)
{
    static const struct {
        int    freedom;
        double t;
    } of[] = {{1, 12.7062047361747},  {2, 4.30265272974946},   {3, 3.18244630528371},   {4, 2.77644510519779},
              {5, 2.57058183563631},  {10, 2.22813885198627},  {29, 2.0452296421327},   {60, 2.00029782201426},
              {99, 1.98421695158642}, {500, 1.96471983746737}, {9999, 1.96020126362136}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) assert_close(sg_student_t(of[i].freedom, 1), of[i].t);
    assert_true(fabs(sg_student_t(2000000, 1) / 1.95996398454005 - 1) < 2e-4);
    static const struct {
        int    freedom, together;
        double t;
    } many[] = {{1, 3, 38.1884592970257},  {2, 2, 6.20534681657071},  {19, 3, 2.62510591322279},
                {19, 7, 3.01362461031077}, {99, 2, 2.27600347475127}, {9999, 7, 2.69066362916379}};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        assert_close(sg_student_t(many[i].freedom, many[i].together), many[i].t);
    static const double v[] = {3, 1, 4, 1, 5, 9};
    sg_running          r = {0};
    sg_interval         after[6];
    for (int i = 0; i < 6; i++) after[i] = sg_running_interval(&r, 1), sg_running_add(&r, v[i]);
    assert_interval(&after[5], 2.8, 0.578843915841765, 5.02115608415823);
    assert_true(after[1].mean == 3 && isnan(after[1].low) && isnan(after[1].high) && isnan(after[0].mean));
}

#define FORMAT "{\"format\":\"sparge-gen eval\""
static const char manifest[] = FORMAT ",\"arms\": [\"dense\", \"a,\\\"b\\\"\"], \"model\": \"<m>\"}";

/* 3 prompts; the first with two clips. Of the last, arm 0 failed; of the second, arm 1 gave an equal clip. */
static const char lines[] =
    "{\"version\":2,\"arm\":\"dense\",\"arm_index\":0,\"prompt\":0,\"clip\":0,\"status\":\"done\",\"text\":\"</"
    "script><b>\","
    "\"groups\":[\"g\"],\"file\":\"f\",\"seconds\":{\"total\":11,\"text\":1,\"denoise\":8},\"flicker\":0.9,\"density\":"
    "1}\n"
    "{\"version\":2,\"arm\":\"dense\",\"arm_index\":0,\"prompt\":0,\"clip\":1,\"status\":\"done\",\"text\":\"x\","
    "\"groups\":[\"g\"],\"file\":\"f\",\"seconds\":{\"total\":12,\"text\":0,\"denoise\":9},\"flicker\":0.8,\"density\":"
    "1}\n"
    "{\"version\":2,\"arm\":\"dense\",\"arm_index\":0,\"prompt\":1,\"clip\":0,\"status\":\"done\",\"text\":\"y\","
    "\"file\":\"f\",\"seconds\":{\"total\":10,\"denoise\":7},\"flicker\":0.7,\"density\":1,\"black\":2}\n"
    "{\"version\":2,\"arm\":\"dense\",\"arm_index\":0,\"prompt\":2,\"clip\":0,\"status\":\"failed\",\"text\":\"z\"}\n"
    "{\"version\":2,\"arm\":\"a,\\\"b\\\"\",\"arm_index\":1,\"prompt\":0,\"clip\":0,\"status\":\"done\",\"text\":\"x\","
    "\"groups\":[\"g\"],\"file\":\"f\",\"seconds\":{\"total\":5,\"denoise\":4},\"flicker\":0.95,\"density\":0.5,"
    "\"steps\":50,\"skipped_steps\":[4,7],"
    "\"psnr\":{\"mean\":30,\"minimum\":20,\"p5\":25}}\n"
    "{\"version\":2,\"arm\":\"a,\\\"b\\\"\",\"arm_index\":1,\"prompt\":0,\"clip\":1,\"status\":\"done\",\"text\":\"x\","
    "\"groups\":[\"g\"],\"file\":\"f\",\"seconds\":{\"total\":6,\"denoise\":3},\"flicker\":0.85,\"density\":0.25,"
    "\"steps\":31,"
    "\"psnr\":{\"mean\":34,\"minimum\":22,\"p5\":25}}\n"
    "{\"version\":2,\"arm\":\"a,\\\"b\\\"\",\"arm_index\":1,\"prompt\":1,\"clip\":0,\"status\":\"done\",\"text\":\"y\","
    "\"file\":\"f\",\"seconds\":{\"total\":8,\"denoise\":5},\"flicker\":0.7,\"density\":0.5,"
    "\"psnr\":{\"mean\":null,\"minimum\":null,\"p5\":null}}\n"
    "{\"version\":2,\"arm\":\"a,\\\"b\\\"\",\"arm_index\":1,\"prompt\":2,\"clip\":0,\"status\":\"done\",\"text\":\"z\","
    "\"file\":\"f\",\"seconds\":{\"total\":4,\"denoise\":3},\"flicker\":0.6,\"density\":0.5,\"frozen\":1,\"non_"
    "finite\":"
    "4}\n"
    "{\"version\":2,\"arm\":\"dense\",\"arm_index\":0,\"prompt\":0,\"clip\":0,\"status\":\"scored\",\"text\":\"x\","
    "\"clipsim\":0.25,\"clip_t\":0.5}\n"
    "{\"version\":2,\"arm\":\"dense\",\"arm_index\":0,\"prompt\":1,\"clip\":0,\"status\":\"scored\",\"text\":\"y\","
    "\"clipsim\":-0.5,\"clip_t\":0.75}\n"
    "{\"version\":2,\"arm\":\"a,\\\"b\\\"\",\"arm_index\":1,\"prompt\":0,\"clip\":0,\"status\":\"scored\",\"text\":"
    "\"x\","
    "\"clipsim\":0.125,\"clip_t\":0.25}\n"
    "{\"version\":2,\"arm\":\"a,\\\"b\\\"\",\"arm_index\":1,\"prompt\":1,\"clip\":0,\"status\":\"scored\",\"text\":"
    "\"y\","
    "\"clipsim\":-0.5,\"clip_t\":1}\n";

static void test_summary(void **state)
{
    sg_eval_results r;
    sg_eval_summary s;
    sg_error        e = {0};
    write_text("results.jsonl", lines);
    assert_int_equal(sg_eval_results_open(&r, ".", &e), SG_OK);
    assert_int_equal(sg_eval_summary_make(&s, &r, 2, &e), SG_OK);
    assert_int_equal(s.groups, 2);
    assert_string_equal(s.group[0], "all");
    assert_string_equal(s.group[1], "g");
    const sg_eval_row *const first = &s.row[0], *const second = &s.row[2], *const of_g = &s.row[3];
    assert_true(first->prompts == 2 && first->done == 3 && first->failed == 1 && first->paired == 0);
    assert_true(first->black == 1 && first->frozen == 0 && first->identical == 0);
    assert_close(of(&s, 0, 0, "seconds").mean, pow(120, 0.25) * sqrt(10)); /* of sqrt(10 12), and 10 */
    assert_close(of(&s, 0, 0, "total_seconds").mean, 10.75);
    assert_true(isnan(of(&s, 0, 0, "psnr").mean) && isnan(of(&s, 0, 0, "speedup").mean));
    assert_true(second->prompts == 3 && second->done == 4 && second->failed == 0 && second->paired == 3);
    assert_true(second->identical == 1 && second->frozen == 1 && second->non_finite == 1 && second->black == 0);
    assert_true(of(&s, 1, 0, "psnr").mean == 32 &&
                isnan(of(&s, 1, 0, "psnr").low)); /* of one prompt: the equal clip is left out */
    assert_close(of(&s, 1, 0, "psnr_minimum").mean, 21);
    assert_close(of(&s, 1, 0, "seconds").mean, cbrt(sqrt(30) * 32));
    assert_close(of(&s, 1, 0, "density").mean, 11 / 24.0);
    assert_close(of(&s, 1, 0, "steps_computed").mean, (48 + 31) / 2.0);
    assert_true(isnan(of(&s, 0, 0, "steps_computed").mean));
    assert_close(of(&s, 1, 0, "speedup").low, 0.079831604702171); /* 1 lies within: there is no speed-up */
    assert_close(of(&s, 1, 0, "speedup").high, 31.3159181670817);
    assert_true(isnan(of(&s, 1, 0, "speedup").mean));
    assert_interval(sg_eval_summary_find(&s, 1, 0, "flicker_change"), 0.025, -0.292655118404367, 0.342655118404367);
    assert_close(of(&s, 0, 0, "clipsim").mean, -0.125);
    assert_close(of(&s, 1, 0, "clip_t").mean, 0.625);
    assert_interval(sg_eval_summary_find(&s, 1, 0, "clipsim_change"), -0.0625, -0.856637796010919, 0.731637796010919);
    assert_true(of(&s, 1, 0, "clip_t_change").mean == 0 && isnan(of(&s, 1, 0, "clip_score").mean));
    assert_true(of_g->prompts == 1 && of_g->done == 2);
    assert_close(of(&s, 1, 1, "psnr").mean, 32);
    assert_true(isnan(of(&s, 1, 1, "psnr").low));
    assert_true(isnan(of(&s, 1, 1, "speedup").mean)); /* one prompt has no interval */
    sg_eval_summary_close(&s);
    sg_eval_results_close(&r);
    remove_files();
}

/* Of these prompts of one clip each: SSIM to arm 0. */
static sg_interval ssim_of(const double *ssim, int count)
{
    char            text[4000] = "";
    sg_eval_results r;
    sg_eval_summary s;
    sg_error        e = {0};
    for (int i = 0; i < count; i++) {
        const size_t n = strlen(text);
        snprintf(
            text + n, sizeof text - n,
            "{\"version\":2,\"arm\":\"s\",\"arm_index\":1,\"prompt\":%d,\"clip\":0,\"status\":\"done\",\"text\":\"x\","
            "\"file\":\"f\",\"seconds\":{\"total\":1},\"ssim\":{\"mean\":%.17g,\"minimum\":0,\"p5\":0}}\n",
            i, ssim[i]);
    }
    write_text("results.jsonl", text);
    assert_int_equal(sg_eval_results_open(&r, ".", &e), SG_OK);
    assert_int_equal(sg_eval_summary_make(&s, &r, 2, &e), SG_OK);
    const sg_interval v = of(&s, 1, 0, "ssim");
    sg_eval_summary_close(&s);
    sg_eval_results_close(&r);
    remove_files();
    return v;
}

/* SSIM is 1 at most, and so are the ends of its interval. Where it is narrow it is that of Student's t. */
static void test_ssim_stays_below_one(void **state)
{
    sg_interval v = ssim_of((double[]){0.84, 0.93, 0.92}, 3); /* t alone: 0.7741 to 1.0192 */
    assert_interval(&v, 0.896666666666667, 0.680319782210495, 0.969275730811009);
    v = ssim_of((double[]){0.2, 0.9999}, 2);
    assert_true(v.low > -1 && v.low < v.mean && v.mean < v.high && v.high <= 1);
    v = ssim_of((double[]){0.9, 0.9002, 0.9001}, 3);
    assert_true(fabs(v.low - 0.899852) < 2e-6 && fabs(v.high - 0.900348) < 2e-6);
    v = ssim_of((double[]){1, 1}, 2);
    assert_true(v.mean == 1 && v.low == 1 && v.high == 1);
    v = ssim_of((double[]){0.9}, 1);
    assert_true(v.mean == 0.9 && isnan(v.low) && isnan(v.high));
}

/* ---- the sentence ---- */

static void assert_result(const sg_result *r, const char *expected)
{
    char text[SG_RESULT_TEXT];
    assert_string_equal(sg_result_text(text, r), expected);
}

static void test_result(void **state)
{
    const sg_interval clear = {2.104, 1.9, 2.3}, slower = {0.81, 0.7, 0.9}, same = {NAN, 0.9, 1.1},
                      none = {NAN, NAN, NAN};
    sg_result r = {.arm = "sparge",
                   .first = "dense",
                   .part = "attention",
                   .part_speed = clear,
                   .clip_speed = {1.268, 1.2, 1.3},
                   .psnr = 24.14,
                   .what = "frame"};
    assert_result(&r, "sparge: attention 2.10x as fast, clip 1.27x, 24.1 dB to dense");
    r.clip_speed = same;
    assert_result(&r, "sparge: attention 2.10x as fast, clip not distinguishable in time, 24.1 dB to dense");
    r.part_speed = same;
    assert_result(&r, "sparge: not distinguishable in time, 24.1 dB to dense");
    r.clip_speed = slower;
    assert_result(&r, "sparge: attention not distinguishable in time, clip 0.81x as fast, 24.1 dB to dense");
    r.part_speed = none; /* not measured */
    assert_result(&r, "sparge: clip 0.81x as fast, 24.1 dB to dense");
    r.clip_speed = none;
    r.identical = 5;
    assert_result(&r, "sparge: not distinguishable in time, 24.1 dB to dense, 5 equal frames not counted");
    r.psnr = INFINITY;
    assert_result(&r, "sparge: not distinguishable in time, every frame equal to that of dense");
    r.clips = 6;
    assert_result(&r, "sparge: not distinguishable in time, every frame equal to that of dense in 6 clips");
    r.images = true;
    assert_result(&r, "sparge: not distinguishable in time, every image equal to that of dense in 6 images");
    r.psnr = 24.14;
    r.clip_speed = slower;
    assert_result(&r, "sparge: image 0.81x as fast, 24.1 dB to dense over 1 image, 5 equal images not counted");
    r.psnr = NAN;
    assert_result(&r, "sparge: nothing was compared with dense");
    r.psnr = INFINITY;
    r.same_kernels = true;
    assert_result(&r, "sparge: same kernels, every image equal to that of dense in 6 images");
    char long_name[301];
    memset(long_name, 'n', 300);
    long_name[300] = '\0';
    r = (sg_result){long_name, long_name, "attention", same, clear, 24, 100000, long_name, true, 1000000, false};
    char text[SG_RESULT_TEXT];
    assert_true(strlen(sg_result_text(text, &r)) < SG_RESULT_TEXT);
}

static void test_files(void **state)
{
    sg_error e = {0};
    write_text("results.jsonl", lines);
    write_text("manifest.json", manifest);
    assert_int_equal(sg_eval_report(".", NULL, &e), SG_OK);
    char *const csv = read_file("summary.csv", NULL);
    int         rows = 0;
    assert_memory_equal(csv, "arm,group,prompts,done,failed,paired,identical,psnr,psnr_low,psnr_high,psnr_minimum,",
                        83);
    for (const char *p = csv; (p = strstr(p, "\r\n")); p++) rows++;
    assert_int_equal(rows, 5);
    assert_non_null(strstr(csv, "\r\n\"a,\"\"b\"\"\",\"g\",1,2,0,2,0,32,,,21,"));
    json_t *const       j = json_load_file("summary.json", JSON_REJECT_DUPLICATES, NULL);
    const json_t *const row = json_array_get(json_object_get(j, "rows"), 2);
    assert_true(json_array_size(json_object_get(j, "rows")) == 4);
    const json_t *const results = json_object_get(j, "results");
    assert_true(json_array_size(results) == 2 && json_is_null(json_array_get(results, 0)));
    assert_string_equal(json_string_value(json_array_get(results, 1)),
                        "a,\"b\": not distinguishable in time, 32.0 dB to dense over 2 clips, "
                        "1 equal clip not counted");
    assert_string_equal(json_string_value(json_object_get(json_object_get(j, "settings"), "model")), "<m>");
    assert_true(json_integer_value(json_object_get(row, "arm")) == 1 &&
                json_integer_value(json_object_get(row, "group")) == 0);
    assert_true(json_real_value(json_object_get(json_object_get(row, "psnr"), "mean")) == 32);
    assert_true(json_is_null(json_object_get(json_object_get(row, "speedup"), "mean")));
    assert_true(json_real_value(json_object_get(json_object_get(row, "speedup"), "high")) > 18);
    assert_true(json_is_null(json_object_get(row, "ssim_p5")));
    json_decref(j);
    char *const page = read_file("report.html", NULL);
    assert_null(strstr(page, "</script><b>"));
    assert_non_null(strstr(page, "\\u003c/script>\\u003cb>"));
    free(csv);
    free(page);
    remove_files();
}

/* Of `arms` arms and four prompts of one clip each, which arms but the first denoise in these shares of arm 0's seconds; what is
 * no denoising takes arm 0 and the others so long. more is what their lines have, too. */
static void summarise(sg_eval_summary *s, sg_eval_results *r, int arms, const double share[4], double first,
                      double second, const char *more)
{
    FILE *const f = fopen("results.jsonl", "w");
    sg_error    e = {0};
    assert_non_null(f);
    for (int i = 0; i < 4 * arms; i++) {
        const int    arm = i % arms, prompt = i / arms;
        const double denoiser = arm ? (2 * prompt + 3) * share[prompt] : 2 * prompt + 3;
        fprintf(f,
                "{\"version\":2,\"arm\":\"x\",\"arm_index\":%d,\"prompt\":%d,\"clip\":0,\"status\":\"done\","
                "\"text\":\"t\",\"file\":\"f\",\"seconds\":{\"total\":%.17g,\"denoise\":%.17g}%s}\n",
                arm, prompt, denoiser + (arm ? second : first), denoiser, arm ? more : ",\"ran\":\"0f\"");
    }
    fclose(f);
    assert_int_equal(sg_eval_results_open(r, ".", &e), SG_OK);
    assert_int_equal(sg_eval_summary_make(s, r, arms, &e), SG_OK);
}

static sg_interval speedup_of(const double share[4], double first, double second, int arms)
{
    sg_eval_results r;
    sg_eval_summary s;
    summarise(&s, &r, arms, share, first, second, "");
    const sg_interval v = of(&s, 1, 0, "speedup");
    if (!isnan(v.mean)) assert_close(of(&s, 0, 0, "seconds").mean / of(&s, 1, 0, "seconds").mean, v.mean);
    sg_eval_summary_close(&s);
    sg_eval_results_close(&r);
    remove_files();
    return v;
}

/* Paired: prompts that take longer in both arms are no noise. What lies within the interval is no speed-up. */
static void test_speedup(void **state)
{
    sg_interval v = speedup_of((double[]){0.75, 0.77, 0.78, 0.76}, 0, 0, 2);
    assert_true(v.mean > 1.3 && v.mean < 1.32 && v.low > 1.27 && v.high < 1.35);
    const double alone = log(v.high / v.low);
    v = speedup_of((double[]){0.75, 0.77, 0.78, 0.76}, 0, 0, 4); /* SciPy: t.ppf(1 - 0.05 / 6, 3) and t.ppf(0.975, 3) */
    assert_true(fabs(log(v.high / v.low) / alone - 4.856657272769 / 3.182446305284) < 1e-9);
    v = speedup_of((double[]){0.6, 1.05, 0.9, 1.02}, 0, 0, 2);
    assert_true(isnan(v.mean) && v.low < 1 && v.high > 1);
    v = speedup_of((double[]){1.3, 1.31, 1.29, 1.3}, 0, 0, 2);
    assert_true(v.mean < 0.78 && v.high < 0.78);
    v = speedup_of((double[]){0.99, 1.02, 1.01, 0.97}, 40, 30,
                   2); /* the decoder took the first arm longer: not its doing */
    assert_true(isnan(v.mean) && isnan(v.low) && isnan(v.high));
    v = speedup_of((double[]){0, 0, 0, 0}, 0, 0, 2);
    assert_true(isnan(v.mean) && isnan(v.low) && isnan(v.high));
}

/* An arm that ran the first arm's kernels in all pairs has no times, however far apart they are, and says why. */
static void test_same_kernels(void **state)
{
    static const double      share[] = {0.5, 0.51, 0.52, 0.53};
    static const char *const timed[] = {"seconds", "denoiser_seconds", "total_seconds", "speedup", "denoiser_speedup"};
    sg_eval_results          r;
    sg_eval_summary          s;
    sg_error                 e = {0};
    summarise(&s, &r, 2, share, 1, 1, ",\"same_kernels\":true,\"psnr\":{\"mean\":null,\"minimum\":null,\"p5\":null}");
    assert_true(sg_eval_same_kernels(&s.row[1]) && !sg_eval_same_kernels(&s.row[0]) && s.row[1].same == 4);
    for (size_t i = 0; i < sizeof timed / sizeof *timed; i++) {
        const sg_interval v = of(&s, 1, 0, timed[i]);
        assert_true(isnan(v.mean) && isnan(v.low) && isnan(v.high));
    }
    assert_true(of(&s, 0, 0, "seconds").mean > 0);
    sg_eval_summary_close(&s);
    sg_eval_results_close(&r);
    write_text("manifest.json", FORMAT ",\"arms\": [\"x\", \"x\"]}");
    assert_done(sg_eval_report(".", NULL, &e), &e);
    json_t *const       j = json_load_file("summary.json", JSON_REJECT_DUPLICATES, NULL);
    const json_t *const row = json_array_get(json_object_get(j, "rows"), 1);
    assert_string_equal(json_string_value(json_array_get(json_object_get(j, "results"), 1)),
                        "x: same kernels, every frame equal to that of x in 4 clips");
    assert_string_equal(json_string_value(json_object_get(row, "speed")), "same kernels");
    assert_true(json_is_null(json_object_get(row, "seconds")));
    json_decref(j);
    char *const csv = read_file("summary.csv", NULL);
    assert_non_null(strstr(csv, ",0,0,0,4,\"same kernels\"\r\n"));
    free(csv);
    remove_files();
    summarise(&s, &r, 2, share, 1, 1, ",\"same_kernels\":false");
    assert_true(of(&s, 1, 0, "denoiser_speedup").mean > 1.8);
    sg_eval_summary_close(&s);
    sg_eval_results_close(&r);
    remove_files();
}

/* What ran tells it too, where the frames are equal: thresholds that keep all blocks. In frames of 8 bits another kernel may
 * leave no trace, and the same blocks may be kept of other numbers. */
static void test_same_that_ran(void **state)
{
    static const struct {
        const char *line;
        int         same;
    } cases[] = {{",\"ran\":\"0f\",\"same_kernels\":false,\"psnr\":{\"mean\":null}", 4},
                 {",\"ran\":\"0e\",\"same_kernels\":false,\"psnr\":{\"mean\":null}", 0},
                 {",\"ran\":\"0f\",\"same_kernels\":false,\"psnr\":{\"mean\":60}", 0},
                 {",\"same_kernels\":false,\"psnr\":{\"mean\":null}", 0}};
    static const double share[] = {0.5, 0.51, 0.52, 0.53};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_eval_results r;
        sg_eval_summary s;
        summarise(&s, &r, 2, share, 1, 1, cases[i].line);
        assert_int_equal(s.row[1].same, cases[i].same);
        assert_int_equal(isnan(of(&s, 1, 0, "speedup").mean), cases[i].same > 0);
        sg_eval_summary_close(&s);
        sg_eval_results_close(&r);
        remove_files();
    }
}

/* Where every clip equals the first arm's PSNR is infinite: inf in text, null in JSON, and their number is there. */
static void test_identical(void **state)
{
    static const char equal[] =
        "{\"version\":2,\"arm\":\"dense\",\"arm_index\":0,\"prompt\":0,\"clip\":0,\"status\":\"done\",\"text\":\"y\","
        "\"file\":\"f\",\"seconds\":{\"total\":10}}\n"
        "{\"version\":2,\"arm\":\"a,\\\"b\\\"\",\"arm_index\":1,\"prompt\":0,\"clip\":0,\"status\":\"done\",\"text\":"
        "\"y\","
        "\"file\":\"f\",\"seconds\":{\"total\":8},\"psnr\":{\"mean\":null,\"minimum\":null,\"p5\":null}}\n";
    sg_error e = {0};
    write_text("results.jsonl", equal);
    write_text("manifest.json", manifest);
    assert_int_equal(sg_eval_report(".", NULL, &e), SG_OK);
    char *const csv = read_file("summary.csv", NULL);
    assert_non_null(strstr(csv, "\r\n\"a,\"\"b\"\"\",\"all\",1,1,0,1,1,inf,,,inf,inf,"));
    free(csv);
    json_t *const       j = json_load_file("summary.json", JSON_REJECT_DUPLICATES, NULL);
    const json_t *const row = json_array_get(json_object_get(j, "rows"), 1);
    assert_true(json_is_null(json_object_get(json_object_get(row, "psnr"), "mean")));
    assert_int_equal(json_integer_value(json_object_get(row, "identical")), 1);
    assert_string_equal(json_string_value(json_object_get(j, "measured")), "before compression");
    json_decref(j);
    remove_files();
}

/* A manifest of before reports had an envelope: its command for a shell is found again. */
static void test_older(void **state)
{
    static const char *const key[] = {"format", "command", "again"}, *const value[] = {"sparge-gen", "eval",
                                                                                       "eval -o x"};
    sg_error e = {0};
    write_text("manifest.json",
               FORMAT ",\"version\":2,\"command\":\"eval -o x\",\"arms\":[\"dense\",\"a,\\\"b\\\"\"]}");
    write_text("results.jsonl", lines);
    assert_done(sg_eval_report(".", NULL, &e), &e);
    json_t *const j = json_load_file("summary.json", JSON_REJECT_DUPLICATES, NULL),
                  *settings = json_object_get(j, "settings");
    for (int i = 0; i < 3; i++) assert_string_equal(json_string_value(json_object_get(settings, key[i])), value[i]);
    json_decref(j);
    remove_files();
}

static void refused(const char *settings, const char *results, const char *why)
{
    sg_error e = {0};
    if (settings) write_text("manifest.json", settings);
    write_text("results.jsonl", results);
    assert_refused(sg_eval_report(".", NULL, &e), settings ? SG_E_FORMAT : SG_E_FILE, &e, why);
    assert_int_not_equal(access("summary.csv", F_OK), 0);
    assert_int_not_equal(access("report.html", F_OK), 0);
    remove_files();
}

static void test_refused(void **state)
{
    refused(NULL, lines, "./manifest.json|opened");
    refused("[]", lines, "./manifest.json|JSON");
    refused("{\"arms\":[\"dense\"]}", lines, "./manifest.json|format|command");
    refused("{\"format\":\"sparge-gen\",\"command\":\"render\",\"arms\":[\"dense\"]}", lines,
            "./manifest.json|format|command");
    refused(FORMAT "}", lines, "./manifest.json: arms|1 to 8");
    refused(FORMAT ",\"arms\":[]}", lines, "./manifest.json: arms|1 to 8");
    refused(FORMAT ",\"arms\":[{\"name\":\"dense\"}]}", lines, "./manifest.json: arms: entry 0");
    refused(FORMAT ",\"arms\":[\"dense\"]}", lines, "./results.jsonl: line 5|arm_index is 1|has 1 arms");
    refused(FORMAT ",\"arms\":[\"dense\",\"b\"]}", lines, "./results.jsonl: line 5|a,\"b\"|is b");
    refused(manifest, "\n?\n", "./results.jsonl: line 2: ");
}

static void test_many_groups(void **state)
{
    FILE *const     f = fopen("results.jsonl", "w");
    sg_eval_results r;
    sg_eval_summary s;
    sg_error        e = {0};
    assert_non_null(f);
    for (int i = 0; i <= SG_EVAL_GROUPS; i++)
        fprintf(f,
                "{\"version\":2,\"arm\":\"x\",\"arm_index\":0,\"prompt\":%d,\"clip\":0,\"status\":\"failed\","
                "\"text\":\"t\",\"groups\":[\"g%d\"]}\n",
                i, i);
    fclose(f);
    assert_int_equal(sg_eval_results_open(&r, ".", &e), SG_OK);
    assert_refused(sg_eval_summary_make(&s, &r, 1, &e), SG_E_FORMAT, &e, "results.jsonl: line 257|groups|256");
    sg_eval_summary_close(&s);
    sg_eval_results_close(&r);
    remove_files();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_line),
                                       cmocka_unit_test(test_unknown),
                                       cmocka_unit_test(test_bad_lines),
                                       cmocka_unit_test(test_paths),
                                       cmocka_unit_test(test_which_line),
                                       cmocka_unit_test(test_student),
                                       cmocka_unit_test(test_ssim_stays_below_one),
                                       cmocka_unit_test(test_result),
                                       cmocka_unit_test(test_summary),
                                       cmocka_unit_test(test_files),
                                       cmocka_unit_test(test_speedup),
                                       cmocka_unit_test(test_same_kernels),
                                       cmocka_unit_test(test_same_that_ran),
                                       cmocka_unit_test(test_identical),
                                       cmocka_unit_test(test_older),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_many_groups)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
