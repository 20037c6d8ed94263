/* test_thresholds.c - files of tuned thresholds: ours, SpargeAttn's, broken ones; and by what a model is known. */
#include "base/hash.h"
#include "engine.h"
#include "safetensors_write.h"
#include "tensor_source.h"
#include "thresholds/thresholds.h"
#include "thresholds/thresholds_spargeattn.h"
#include "unit.h"

static const char         path[] = "t.json";
static sg_error           e;
static sg_thresholds_file f;

static sg_status read_text(const char *text, size_t size)
{
    write_bytes(path, text, size);
    e = (sg_error){0};
    return sg_thresholds_read(&f, path, &e);
}

static void expect_read(const char *text)
{
    if (read_text(text, strlen(text)) != SG_OK) fail_msg("%s", e.text);
}

static void expect_refused(const char *text, const char *words)
{
    assert_refused(read_text(text, strlen(text)), SG_E_FORMAT, &e, path, words);
    assert_null(f.values.amount);
}

/* A sound file of two buckets, one layer and three heads, with some text put in place of another. */
static const char sound[] = "{\"format\":\"sparge-gen thresholds\",\"version\":1,\"model\":\"0123456789abcdef\","
                            "\"rule\":\"topk\",\"layers\":1,\"heads\":3,\"buckets\":[500,0],"
                            "\"amount\":[[[0.5,0.25,1]],[[0.75,0,1]]],\"theta\":[[[-1,0,0.5]],[[-1,1,-0.5]]],"
                            "\"lambda\":[[[0,5,20]],[[0,0,1000]]],\"bound\":{\"l1\":0.05,\"l2\":0.06},"
                            "\"reached\":{\"density\":0.375},\"prompts\":[\"a cat\",\"\\u00e9\"]}";

static const char *swapped(const char *what, const char *by)
{
    static char       text[4096];
    const char *const at = strstr(sound, what);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - sound), sound, by, at + strlen(what));
    return text;
}

static void sound_file_is_read(void **state)
{
    expect_read(sound);
    const sg_thresholds *const t = &f.values;
    assert_true(t->buckets == 2 && t->layers == 1 && t->heads == 3 && t->rule == SG_SELECT_TOPK);
    assert_true(t->from[0] == 500 && t->from[1] == 0);
    assert_true(t->amount[1] == 0.25F && t->amount[3] == 0.75F && t->theta[2] == 0.5F && t->pv_threshold[5] == 1000);
    assert_string_equal(f.model, "0123456789abcdef");
    assert_true(f.bound[0] == 0.05 && f.bound[1] == 0.06 && isnan(f.reached[0]) && f.density == 0.375);
    assert_int_equal(f.prompts, 2);
    assert_string_equal(f.prompt[1], "\xc3\xa9");
    assert_false(f.has_policy);
    sg_thresholds_free(&f);
}

static void what_is_for_people_may_be_missing(void **state)
{
    expect_read("{\"format\":\"sparge-gen thresholds\",\"version\":1,\"rule\":\"tau\",\"layers\":1,\"heads\":1,"
                "\"buckets\":[0],\"amount\":[[[0.9]]],\"theta\":[[[0]]],\"lambda\":[[[0]]]}");
    assert_int_equal(f.values.rule, SG_SELECT_MASS);
    assert_true(*f.model == '\0' && f.prompts == 0 && isnan(f.density));
    sg_thresholds_free(&f);
    expect_read(swapped("\"density\":0.375", "\"sparsity\":0.5"));
    assert_true(f.density == 0.5);
    sg_thresholds_free(&f);
}

#define CACHE_ALONE "{\"format\":\"sparge-gen thresholds\",\"version\":1,\"cache\":{\"threshold\":0.2%s}%s}"

static const char *cache_alone(const char *more, const char *rest)
{
    static char text[512];
    snprintf(text, sizeof text, CACHE_ALONE, more, rest);
    return text;
}

/* Beside thresholds of attention, or without them. */
static void the_cache_may_stand_alone(void **state)
{
    expect_read(swapped("\"bound\"", "\"cache\":{\"threshold\":0.125,\"reached\":0.009},\"bound\""));
    assert_true(f.cache.threshold == 0.125 && f.cache.reached == 0.009 && isnan(f.cache.bound) && f.values.layers == 1);
    sg_thresholds_free(&f);
    expect_read(sound);
    assert_true(f.cache.threshold == 0);
    sg_thresholds_free(&f);
    expect_read(cache_alone("", ",\"prompts\":[\"a\"]"));
    assert_true(f.cache.threshold == 0.2 && f.values.layers == 0 && !f.values.amount && f.prompts == 1);
    char *text = NULL;
    assert_int_equal(sg_thresholds_text(&text, &f, &e), SG_OK);
    sg_thresholds_free(&f);
    expect_read(text);
    assert_true(f.cache.threshold == 0.2 && isnan(f.cache.steps) && f.values.layers == 0);
    free(text);
    sg_thresholds_free(&f);
}

static void bad_caches_are_refused(void **state)
{
    expect_refused(cache_alone("", ",\"rule\":\"topk\""), "layers: is missing");
    expect_refused(cache_alone("", ",\"theta\":[]"), "rule: should be");
    expect_refused(cache_alone(",\"bound\":-1", ""), "cache: bound");
    expect_refused(cache_alone(",\"steps\":\"x\"", ""), "cache: steps");
    static const char *const bad[][2] = {
        {"{}", "threshold|1e-06|1e+06"},
        {"{\"threshold\":0}", "threshold|1e-06|1e+06"},
        {"{\"threshold\":1e7}", "threshold|1e-06|1e+06"},
        {"{\"threshold\":-0.2}", "threshold"},
        {"{\"threshold\":[1]}", "threshold"},
        {"0.2", "cache|object"},
        {"null", "cache|object"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[200];
        snprintf(text, sizeof text, "\"cache\":%s,\"bound\"", bad[i][0]);
        expect_refused(swapped("\"bound\"", text), bad[i][1]);
    }
}

static void what_is_written_is_read_back(void **state)
{
    char              *text = NULL;
    sg_thresholds_file g = {0};
    assert_int_equal(sg_thresholds_new(&f, 2, 3, 4, &e), SG_OK);
    f.values.rule = SG_SELECT_MASS;
    f.values.from[0] = 612.5F;
    for (int i = 0; i < 24; i++) {
        f.values.amount[i] = (float)i / 25;
        f.values.theta[i] = (float)i / 12 - 1;
        f.values.pv_threshold[i] = (float)i / 4;
    }
    strcpy(f.model, "fedcba9876543210");
    f.reached[1] = 0.0625;
    f.cache = (sg_cache_tuned){.threshold = 0.25, .bound = 0.01, .reached = 0.0099, .skipped = 0.5, .steps = 50};
    f.has_policy = true;
    f.policy = sg_policy_default();
    assert_int_equal(sg_thresholds_add_prompt(&f, "\"quoted\"\n\xe7\x8c\xab", &e), SG_OK);
    assert_int_equal(sg_thresholds_text(&text, &f, &e), SG_OK);
    g = f;
    expect_read(text);
    free(text);
    for (int i = 0; i < 24; i++) {
        assert_true(fabsf(f.values.amount[i] - g.values.amount[i]) < 1e-6F);
        assert_true(fabsf(f.values.theta[i] - g.values.theta[i]) < 1e-6F);
        assert_true(f.values.pv_threshold[i] == g.values.pv_threshold[i]);
    }
    assert_true(f.values.from[0] == 612.5F && f.values.from[1] == 0 && f.values.rule == SG_SELECT_MASS);
    assert_string_equal(f.model, g.model);
    assert_string_equal(f.prompt[0], g.prompt[0]);
    assert_true(f.reached[1] == 0.0625 && isnan(f.reached[0]) && isnan(f.bound[0]));
    assert_memory_equal(&f.cache, &g.cache, sizeof f.cache);
    assert_true(f.has_policy && f.policy.score == g.policy.score && f.policy.tail == g.policy.tail &&
                f.policy.tail_bias == g.policy.tail_bias && f.policy.order == g.policy.order);
    sg_thresholds_free(&g);
    sg_thresholds_free(&f);
}

static void broken_files_are_refused(void **state)
{
    static const struct {
        const char *what, *by, *words;
    } cases[] = {
        {"thresholds", "settings", "format: should be"},
        {"\"version\":1", "\"version\":2", "version|is 2"},
        {"\"version\":1", "\"version\":1.5", "version|number"},
        {"\"version\":1,", "", "version: is missing"},
        {"\"topk\"", "\"top\"", "rule: should be"},
        {"\"topk\"", "7", "rule|string"},
        {"\"layers\":1", "\"layers\":2", "amount|2 layers"},
        {"\"layers\":1", "\"layers\":0", "layers: should be"},
        {"\"layers\":1", "\"layers\":-1", "layers: should be"},
        {"\"layers\":1", "\"layers\":1000000", "layers: should be"},
        {"\"heads\":3", "\"heads\":65536", "amount|65536 heads"},
        {"\"heads\":3", "\"heads\":\"3\"", "heads: should be"},
        {"[500,0]", "[500,1]", "buckets|last"},
        {"[500,0]", "[0,500]", "buckets|entry 1"},
        {"[500,0]", "[0,0]", "buckets|entry 1"},
        {"[500,0]", "[1001,0]", "buckets|entry 0|1000"},
        {"[500,0]", "[]", "buckets|list"},
        {"[500,0]", "500", "buckets|list"},
        {"[500,0]", "[500,100,0]", "amount|3 buckets"},
        {"[[0.5,0.25,1]]", "[[0.5,0.25,1.1]]", "amount|entry 2"},
        {"[[0.5,0.25,1]]", "[[0.5,0.25,null]]", "amount: entry 2"},
        {"[[0.5,0.25,1]]", "[[0.5,-0.25,1]]", "amount: entry 1"},
        {"[[0.5,0.25,1]]", "[[0.5,0.25,true]]", "amount: entry 2"},
        {"[[0.5,0.25,1]]", "[[0.5,0.25]]", "amount|3 heads"},
        {"[[0.5,0.25,1]]", "[0.5,0.25,1]", "amount|1 layer"},
        {"[[0.5,0.25,1]]", "{}", "amount|1 layer"},
        {"[[0.5,0.25,1]]", "[[0.5,0.25,1e999]]", "not valid JSON"},
        {"[[0.5,0.25,1]]", "[[0.5,0.25,NaN]]", "not valid JSON"},
        {"\"theta\"", "\"thema\"", "theta|2 buckets"},
        {"[-1,0,0.5]", "[-1.5,0,0.5]", "theta|entry 0|-1"},
        {"[0,5,20]", "[0,-5,20]", "lambda: entry 1"},
        {"[0,0,1000]", "[0,0,1001]", "lambda: entry 2"},
        {"0123456789abcdef", "0123456789abcdeg", "model|16"},
        {"0123456789abcdef", "0", "model|16"},
        {"{\"l1\":0.05,\"l2\":0.06}", "[0.05,0.06]", "bound|object"},
        {"\"l1\":0.05", "\"l1\":-0.05", "bound|l1"},
        {"[\"a cat\",", "[3,", "prompts: entry 0"},
        {"\"prompts\":[\"a cat\",\"\\u00e9\"]", "\"prompts\":\"a cat\"", "prompts|list"},
        {"\"prompts\"", "\"policy\":{\"score\":\"best\",\"tail\":true},\"prompts\"", "policy: score"},
        {"\"prompts\"", "\"policy\":[],\"prompts\"", "policy: tail"},
        {"\"heads\":3", "\"heads\":3,\"heads\":3", "JSON|duplicate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refused(swapped(cases[i].what, cases[i].by), cases[i].words);
    expect_refused("[]", "JSON|object");
    expect_refused("{}", "format: should be");
    expect_refused("{\"format\":null}", "format: should be");
    assert_refused(read_text(sound, sizeof sound), SG_E_FORMAT, &e, "zero byte");
}

static void absurd_files_are_refused_before_they_take_memory(void **state)
{
    enum { VALUES = 1 << 18 };
    char *const text = malloc(2 * VALUES + 64);
    assert_non_null(text);
    size_t n = (size_t)sprintf(text, "{\"amount\":[0");
    for (int i = 0; i < VALUES; i++) text[n++] = ',', text[n++] = '0';
    n += (size_t)sprintf(text + n, "]}");
    assert_refused(read_text(text, n), SG_E_FORMAT, &e, "262144 values");
    free(text);
    assert_int_equal(truncate(path, (16 << 20) + 1), 0);
    e = (sg_error){0};
    assert_refused(sg_thresholds_read(&f, path, &e), SG_E_FORMAT, &e, "at most");
    assert_int_equal(sg_thresholds_read(&f, "/dev/zero", &e), SG_E_FILE);
    e = (sg_error){0};
    assert_int_equal(sg_thresholds_read(&f, "/nowhere", &e), SG_E_FILE);
}

/* ---- what SpargeAttn saves ---- */

enum { THEIR_LAYERS = 2, THEIR_HEADS = 3, THEIR_LISTS = 4 * THEIR_LAYERS };

/* As many tensors as that, by which a case is made: names and values of two layers. */
typedef struct theirs {
    char            name[THEIR_LISTS + 1][80];
    float           value[4][THEIR_LAYERS][THEIR_HEADS];
    sg_named_tensor list[THEIR_LISTS + 1];
    int             count;
} theirs;

static void make_theirs(theirs *t, const char *prefix)
{
    static const char *const names[] = {"is_sparse", "cdfthreshd", "simthreshd1", "pvthreshd"};
    *t = (theirs){.value = {{{1, 0, 1}, {1, 1, 0}},
                            {{0.98F, 1, 0.5F}, {0.96F, 0.5F, 1}},
                            {{-0.9375F, 1, 0}, {0.0625F, 0, 1}},
                            {{5.9F, 20, 0}, {49.97F, 3, 0}}}};
    for (int i = 0; i < THEIR_LISTS; i++, t->count++) {
        const int layer = i / 4, of = i % 4;
        snprintf(t->name[i], sizeof t->name[i], "%s%d.attn1.inner_attention.%s", prefix, layer, names[of]);
        t->list[i] = (sg_named_tensor){t->name[i],
                                       {.data = t->value[of][layer], .dtype = SG_F32, .rank = 1, .dim = {THEIR_HEADS}}};
    }
}

static sg_status take_theirs(const theirs *t)
{
    sg_source *s = NULL;
    e = (sg_error){0};
    assert_done(sg_safetensors_write_all("theirs.safetensors", t->list, t->count, NULL, &e), &e);
    assert_done(sg_source_open(&s, "theirs.safetensors", &e), &e);
    f = (sg_thresholds_file){0};
    const sg_status status = sg_spargeattn_read(&f.values, s, &e);
    sg_source_close(&s);
    return status;
}

static void expect_theirs_refused(const theirs *t, const char *words)
{
    assert_refused(take_theirs(t), SG_E_FORMAT, &e, words);
    sg_thresholds_free(&f);
}

static void values_of_spargeattn_are_read(void **state)
{
    static const char *const prefix[] = {"transformer_blocks.", "blocks."};
    static const float       amount[] = {0.98F, 1, 0.5F, 0.96F, 0.5F, 1}, theta[] = {-0.9375F, -1, 0, 0.0625F, 0, -1};
    static const float       pv[] = {5.9F, 0, 0, 49.97F, 3, 0};
    theirs                   their;
    for (int i = 0; i < 2; i++) {
        make_theirs(&their, prefix[i]);
        if (take_theirs(&their) != SG_OK) fail_msg("%s", e.text);
        const sg_thresholds *const t = &f.values;
        assert_true(t->buckets == 1 && t->layers == THEIR_LAYERS && t->heads == THEIR_HEADS && t->from[0] == 0);
        assert_true(t->rule == SG_SELECT_MASS);
        assert_memory_equal(t->amount, amount, sizeof amount);
        assert_memory_equal(t->theta, theta, sizeof theta);
        assert_memory_equal(t->pv_threshold, pv, sizeof pv);
        sg_thresholds_free(&f);
    }
}

static void broken_values_of_spargeattn_are_refused(void **state)
{
    static const struct {
        int         of, layer, head; /* a value; head -1: the name of a list */
        float       value;
        const char *name, *words;
    } cases[] = {
        {0, 0, 1, 0.5F, NULL, "layer 0|is_sparse|head 1"},
        {1, 0, 2, 1.5F, NULL, "layer 0|cdfthreshd|head 2"},
        {1, 1, 1, NAN, NULL, "layer 1|cdfthreshd|head 1"},
        {2, 1, 0, -7, NULL, "layer 1|simthreshd1|head 0|-1"},
        {3, 0, 0, -1, NULL, "layer 0|pvthreshd|head 0|1000"},
        {0, 0, -1, 0, "other", "layer 0|is_sparse|missing"},
        {0, 0, -1, 0, "blocks.999999.attn1.inner_attention.is_sparse", "999999|is_sparse"},
        {0, 0, -1, 0, "blocks.1.attn2.inner_attention.is_sparse", "layer 1|is_sparse|twice"},
    };
    theirs their;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_theirs(&their, "blocks.");
        if (cases[i].head >= 0) their.value[cases[i].of][cases[i].layer][cases[i].head] = cases[i].value;
        if (cases[i].name) their.list[cases[i].of].name = cases[i].name;
        expect_theirs_refused(&their, cases[i].words);
    }
    make_theirs(&their, "blocks.");
    their.list[6].t.dim[0] = 2;
    expect_theirs_refused(&their, "layer 1|simthreshd1");
    make_theirs(&their, "blocks.");
    their.list[1].t.rank = 2;
    their.list[1].t.dim[1] = 1;
    expect_theirs_refused(&their, "layer 0|cdfthreshd");
    make_theirs(&their, "layers.");
    expect_theirs_refused(&their, "tensor|transformer_blocks.0.attn1.inner_attention.cdfthreshd");
}

/* As torch.save wrote it: layer l has cdfthreshd 0.9 + l / 64, and a last head that is not sparse. */
static void what_torch_saved_is_read(void **state)
{
    e = (sg_error){0};
    if (sg_thresholds_read(&f, SG_CORPUS "/thresholds/spargeattn", &e) != SG_OK) fail_msg("%s", e.text);
    assert_true(f.spargeattn && f.values.layers == 6 && f.values.heads == 6);
    for (int i = 0; i < 36; i++) {
        assert_true(f.values.amount[i] == (i % 6 == 5 ? 1 : 0.9F + 0.015625F * (float)(i / 6)));
        assert_true(f.values.pv_threshold[i] == (i % 6 == 5 ? 0 : (float)(5 + i / 6)));
    }
    sg_thresholds_free(&f);
    assert_refused(sg_thresholds_read(&f, SG_CORPUS "/thresholds/spargeattn_f64", &e), SG_E_FORMAT, &e,
                   "layer 0|cdfthreshd|F64");
}

/* ---- by what a model is known ---- */

static void a_model_is_known_by_names_shapes_and_numbers(void **state)
{
    float     x[6] = {1, 2, -3, 4, 5, 0.5F};
    uint16_t  half[6];
    uint64_t  hash[5];
    sg_tensor t = {.data = x, .dtype = SG_F32, .rank = 2, .dim = {2, 3}};
    for (int i = 0; i < 6; i++) half[i] = sg_f32_to_bf16(x[i]);
    for (int i = 0; i < 5; i++) {
        if (i == 1) t.data = half, t.dtype = SG_BF16;
        if (i == 2) t.dim[0] = 3, t.dim[1] = 2;
        if (i == 4) half[5]++;
        sg_source *s = NULL;
        assert_done(sg_safetensors_write("model.safetensors", i == 3 ? "y" : "x", t, NULL, &e), &e);
        assert_done(sg_source_open(&s, "model.safetensors", &e), &e);
        hash[i] = sg_source_hash(s, SG_HASH);
        sg_source_close(&s);
        for (int k = 0; k < i; k++)
            if ((hash[i] == hash[k]) != (i == 1 && k == 0)) fail_msg("%d and %d", i, k);
    }
    shell("rm model.safetensors theirs.safetensors");
}

static void tiny_wan_is_known(void **state)
{
    sg_engine *g = NULL;
    char       hash[17];
    assert_done(sg_engine_open(
                    &g,
                    &(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = SG_TINY_WAN, .backend = "ref"},
                    &e),
                &e);
    sg_engine_denoiser_hash(g, hash);
    assert_string_equal(hash, "7e4fe2659a30a9a5");
    sg_engine_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_file_is_read),
        cmocka_unit_test(what_is_for_people_may_be_missing),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(broken_files_are_refused),
        cmocka_unit_test(the_cache_may_stand_alone),
        cmocka_unit_test(bad_caches_are_refused),
        cmocka_unit_test(absurd_files_are_refused_before_they_take_memory),
        cmocka_unit_test(values_of_spargeattn_are_read),
        cmocka_unit_test(broken_values_of_spargeattn_are_refused),
        cmocka_unit_test(what_torch_saved_is_read),
        cmocka_unit_test(a_model_is_known_by_names_shapes_and_numbers),
        cmocka_unit_test(tiny_wan_is_known),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
