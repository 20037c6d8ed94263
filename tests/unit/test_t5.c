/* test_t5.c - the text encoder: buckets and hidden states against transformers, refusals, memory. */
#include "t5.h"

#include "backend.h"
#include "meta.h"
#include "t5_table.h"

#include "made_file.h"

/* ---- a made-up checkpoint ---- */

enum { WIDTH = 12, HEADS = 3, HEAD_DIM = 5, LAYERS = 2, FFN = 21, VOCAB = 23, BUCKETS = 8, INNER = HEADS * HEAD_DIM };

typedef struct made {
    bool        umt5, gated;
    sg_dtype    dtype;    /* of the file */
    const char *table;    /* name of the embedding table; NULL: shared.weight */
    const char *without;  /* a tensor that is left out */
    const char *extra;    /* a tensor [1] more */
    const char *config;   /* in place of the usual config.json */
    bool        poisoned; /* the table's first number is not one */
} made;

static const made cases[TABLE_CASES] = {
    {.umt5 = true, .gated = true, .dtype = SG_F32},
    {.dtype = SG_F32},
    {.gated = true, .dtype = SG_BF16},
    {.umt5 = true, .dtype = SG_F16},
};

static void put(made_file *f, const made *m, const char *name, int rows, int columns)
{
    /* Both names of the table stand for one tensor. */
    const char *const as = m->table && !strcmp(name, m->table) ? "shared.weight" : name;
    if (m->without && !strcmp(m->without, name)) return;
    const sg_tensor t = made_file_put(f, name, as, m->dtype, columns ? 2 : 1, (int64_t[]){rows, columns});
    if (m->poisoned && f->count == 1) sg_store(&t, 0, NAN);
}

static void put_block(made_file *f, const made *m, int i)
{
    static const struct {
        const char *name;
        int         rows, columns, kind; /* kind: 0 always, 1 gated, 2 not gated, 3 position bias */
    } components[] = {{"0.SelfAttention.q.weight", INNER, WIDTH, 0},
                      {"0.SelfAttention.k.weight", INNER, WIDTH, 0},
                      {"0.SelfAttention.v.weight", INNER, WIDTH, 0},
                      {"0.SelfAttention.o.weight", WIDTH, INNER, 0},
                      {"0.SelfAttention.relative_attention_bias.weight", BUCKETS, HEADS, 3},
                      {"0.layer_norm.weight", WIDTH, 0, 0},
                      {"1.DenseReluDense.wi_0.weight", FFN, WIDTH, 1},
                      {"1.DenseReluDense.wi_1.weight", FFN, WIDTH, 1},
                      {"1.DenseReluDense.wi.weight", FFN, WIDTH, 2},
                      {"1.DenseReluDense.wo.weight", WIDTH, FFN, 0},
                      {"1.layer_norm.weight", WIDTH, 0, 0}};
    const bool wanted[] = {true, m->gated, !m->gated, m->umt5 || i == 0};
    char       name[96];
    for (size_t k = 0; k < sizeof components / sizeof *components; k++) {
        snprintf(name, sizeof name, "encoder.block.%d.layer.%s", i, components[k].name);
        if (wanted[components[k].kind]) put(f, m, name, components[k].rows, components[k].columns);
    }
}

static void write_weights(const made *m)
{
    static made_file f;
    put(&f, m, m->table ? m->table : "shared.weight", VOCAB, WIDTH);
    for (int i = 0; i < LAYERS; i++) put_block(&f, m, i);
    put(&f, m, "encoder.final_layer_norm.weight", WIDTH, 0);
    if (m->extra) put(&f, m, m->extra, 1, 0);
    made_file_write(&f, "text_encoder/model.safetensors");
}

#define SIZES "\"d_model\": 12, \"d_kv\": 5, \"num_heads\": 3, \"d_ff\": 21, \"vocab_size\": 23"
#define BIAS "\"relative_attention_num_buckets\": 8, \"relative_attention_max_distance\": 12"

static void write_checkpoint(const made *m)
{
    write_weights(m);
    char usual[512];
    snprintf(usual, sizeof usual,
             "{\"model_type\": \"%s\", \"feed_forward_proj\": \"%s\", \"is_gated_act\": %s,"
             "\"dense_act_fn\": \"%s\", \"num_layers\": 2, \"layer_norm_epsilon\": 1e-06, " SIZES ", " BIAS "}",
             m->umt5 ? "umt5" : "t5", m->gated ? "gated-gelu" : "relu", m->gated ? "true" : "false",
             m->gated ? "gelu_new" : "relu");
    write_text("text_encoder/config.json", m->config ? m->config : usual);
}

/* ---- running it ---- */

enum { SCRATCH = 1 << 20 };

static sg_backend *backend;

static sg_t5 *open_made(const made *m, sg_dtype act)
{
    sg_t5   *t = NULL;
    sg_error e = {0};
    write_checkpoint(m);
    if (sg_t5_open(&t, from, "text_encoder", act, &e) != SG_OK) fail_msg("%s", e.text);
    return t;
}

static void some_ids(int32_t *ids)
{
    for (int i = 0; i < TABLE_TOKENS; i++) ids[i] = i * 7 % VOCAB;
}

/* Loads t and encodes n ids into y, which has room for TABLE_TOKENS rows. */
static sg_stream encode(sg_t5 *t, const int32_t *ids, int n, float *y)
{
    static _Alignas(SG_ALIGN) unsigned char buffer[SCRATCH];
    sg_error                                e = {0};
    sg_bind *const                          bind = sg_t5_component(t)->bind;
    if (sg_bind_load(bind, backend, NULL, NULL, &e) != SG_OK) fail_msg("%s", e.text);
    sg_stream s = sg_stream_of(backend);
    s.scratch = (sg_arena){.base = (uintptr_t)buffer, .cap = SCRATCH};
    sg_t5_encode(t, &s, (sg_tensor){.data = y, .rank = 2, .dim = {n, WIDTH}}, ids, n);
    return s;
}

static double distance(const float *y, const double *wanted)
{
    double apart = 0.0, size = 0.0;
    for (int i = 0; i < TABLE_TOKENS * WIDTH; i++) {
        apart += ((double)y[i] - wanted[i]) * ((double)y[i] - wanted[i]);
        size += wanted[i] * wanted[i];
    }
    return sqrt(apart / size);
}

static double distance_of(const made *m, sg_dtype act, const double *wanted)
{
    float   y[TABLE_TOKENS * WIDTH];
    int32_t ids[TABLE_TOKENS];
    some_ids(ids);
    sg_t5          *t = open_made(m, act);
    const sg_stream s = encode(t, ids, TABLE_TOKENS, y);
    assert_int_equal(s.status, SG_OK);
    assert_int_equal(s.scratch.used, 0);
    sg_t5_close(&t);
    return distance(y, wanted);
}

static void test_buckets(void **state)
{
    const int *turn = table_turns;
    for (size_t i = 0; i < sizeof table_bias / sizeof *table_bias; i++, turn++) {
        const int n = table_bias[i][0], far = table_bias[i][1];
        int       bucket = 0;
        assert_int_equal(sg_t5_bucket(n, far, 0), 0);
        for (int d = 1; d <= TABLE_REACH; d++) {
            if (d == *turn) bucket++, turn++;
            assert_int_equal(sg_t5_bucket(n, far, -d), bucket);
            assert_int_equal(sg_t5_bucket(n, far, d), bucket + n / 2);
        }
        assert_int_equal(*turn, 0);
    }
}

static void test_transformers(void **state)
{
    for (int i = 0; i < TABLE_CASES; i++) {
        const double d = distance_of(&cases[i], SG_F32, table_hidden[i]);
        if (!(d <= 2e-6)) fail_msg("case %d: relative distance %g", i, d);
    }
}

/* Eight bits of mantissa over two layers. */
static void test_bf16_is_near(void **state)
{
    for (int i = 0; i < TABLE_CASES; i++) {
        const double d = distance_of(&cases[i], SG_BF16, table_hidden[i]);
        if (!(d <= 5e-2 && d > 1e-5)) fail_msg("case %d: relative distance %g", i, d);
    }
}

static void test_table_names_and_extras(void **state)
{
    static const char *const extras[] = {"decoder.block.0.layer.0.layer_norm.weight", "lm_head.weight",
                                         "decoder.embed_tokens.weight"};
    made                     m = cases[0];
    m.table = "encoder.embed_tokens.weight";
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        m.extra = extras[i];
        assert_true(distance_of(&m, SG_F32, table_hidden[0]) <= 2e-6);
    }
}

static void test_plan_asks_for_what_it_takes(void **state)
{
    float   y[TABLE_TOKENS * WIDTH];
    int32_t ids[TABLE_TOKENS];
    some_ids(ids);
    sg_t5         *t = open_made(&cases[0], SG_F32);
    sg_plan_totals totals = {0};
    sg_stream      plan = sg_plan_stream(&totals);
    sg_t5_encode(t, &plan, sg_alloc(&plan, &plan.keep, SG_F32, 2, (int64_t[]){TABLE_TOKENS, WIDTH}), ids, TABLE_TOKENS);
    assert_int_equal(plan.status, SG_OK);
    const sg_stream real = encode(t, ids, TABLE_TOKENS, y);
    assert_int_equal(plan.scratch.peak, real.scratch.peak);
    const double linear = 2.0 * TABLE_TOKENS * LAYERS * (4.0 * WIDTH * INNER + 3.0 * WIDTH * FFN);
    assert_true(totals.flops == linear + 4.0 * LAYERS * TABLE_TOKENS * TABLE_TOKENS * INNER);
    sg_t5_close(&t);
}

static void refuse_ids(sg_t5 *t, const int32_t *ids, int n, sg_status wanted)
{
    float           y[TABLE_TOKENS * WIDTH];
    const sg_stream s = encode(t, ids, n, y);
    assert_int_equal(s.status, wanted);
    assert_int_equal(s.scratch.used, 0);
}

static void test_ids_refused(void **state)
{
    sg_t5 *t = open_made(&cases[0], SG_F32);
    refuse_ids(t, (int32_t[]){0, VOCAB}, 2, SG_E_FORMAT);
    refuse_ids(t, (int32_t[]){-1}, 1, SG_E_FORMAT);
    refuse_ids(t, (int32_t[]){0}, 0, SG_E_ARG);
    refuse_ids(t, (int32_t[]){VOCAB - 1}, 1, SG_OK);
    sg_t5_close(&t);
}

static void test_only_rows_in_use_must_be_finite(void **state)
{
    made m = cases[2];
    m.poisoned = true;
    sg_t5 *t = open_made(&m, SG_F32);
    refuse_ids(t, (int32_t[]){1, 2}, 2, SG_OK);
    refuse_ids(t, (int32_t[]){1, 0}, 2, SG_E_NUMERIC);
    sg_t5_close(&t);
}

static void refuse(made m, const char *names)
{
    sg_t5   *t = NULL;
    sg_error e = {0};
    write_checkpoint(&m);
    assert_refused(sg_t5_open(&t, from, "text_encoder", SG_F32, &e), SG_E_FORMAT, &e, names);
    assert_null(t);
}

#define CONFIG(text) ((made){.umt5 = true, .gated = true, .config = "{" SIZES ", " text "}"})
#define LAYERS_AND "\"num_layers\": 2, "

static void test_configs_refused(void **state)
{
    refuse(CONFIG(BIAS), "config.json|num_layers");
    refuse(CONFIG("\"num_layers\": 0"), "num_layers");
    refuse(CONFIG("\"num_layers\": 16000"), "num_layers|16000");
    refuse(CONFIG(LAYERS_AND "\"feed_forward_proj\": \"gated-silu\""), "feed_forward_proj|gated-silu");
    refuse(CONFIG(LAYERS_AND "\"feed_forward_proj\": \"gelu\""), "feed_forward_proj|gelu");
    refuse(CONFIG(LAYERS_AND "\"feed_forward_proj\": \"gated-gelu\", \"dense_act_fn\": \"gelu\""), "dense_act_fn");
    refuse(CONFIG(LAYERS_AND "\"feed_forward_proj\": \"relu\", \"is_gated_act\": true"), "is_gated_act");
    refuse(CONFIG(LAYERS_AND "\"model_type\": \"bert\""), "model_type|bert");
    refuse(CONFIG(LAYERS_AND "\"relative_attention_max_distance\": 8"), "relative_attention_max_distance");
}

static void test_weights_refused(void **state)
{
    made m = cases[0];
    m.without = "shared.weight";
    refuse(m, "shared.weight|[23, 12]");
    m.extra = "encoder.block.7.layer.0.layer_norm.weight";
    refuse(m, "shared.weight|encoder.block.7.layer.0.layer_norm.weight");
    m = cases[0];
    m.without = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
    refuse(m, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
    m = cases[1];
    m.config = "{" SIZES ", " BIAS ", \"num_layers\": 2, \"feed_forward_proj\": \"gated-gelu\"}";
    refuse(m, "encoder.block.1.layer.1.DenseReluDense.wi_0.weight|encoder.block.0.layer.1.DenseReluDense.wi.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_transformers),
        cmocka_unit_test(test_bf16_is_near),
        cmocka_unit_test(test_table_names_and_extras),
        cmocka_unit_test(test_plan_asks_for_what_it_takes),
        cmocka_unit_test(test_ids_refused),
        cmocka_unit_test(test_only_rows_in_use_must_be_finite),
        cmocka_unit_test(test_configs_refused),
        cmocka_unit_test(test_weights_refused),
    };
    sg_error e = {0};
    if (sg_backend_open(&backend, &(sg_backend_options){.name = "ref", .threads = 1}, &e) != SG_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, make_folder, remove_folder);
    sg_backend_close(&backend);
    return failed;
}
