/* test_text_encoders.c - Llama and CLIP: states and rows against transformers, names, what is left out, refusals, memory. */
#include "clip_text.h"
#include "decoder.h"

#include "backend.h"
#include "base/text.h"
#include "meta.h"
#include "text_encoder_table.h"

#include "made_file.h"

/* ---- made-up checkpoints: as in make_text_encoder_table.py ---- */

enum { LAYERS = 3, LLAMA_FFN = 14, CLIP_FFN = 20, PLACES = TABLE_TOKENS + 2 };

#define LLAMA_SIZES                                                                                                    \
    "\"hidden_size\": 12, \"num_hidden_layers\": 3, \"intermediate_size\": 14, \"vocab_size\": 23,"                    \
    "\"rms_norm_eps\": 1e-5, "
#define CLIP_SIZES                                                                                                     \
    "\"hidden_size\": 12, \"num_attention_heads\": 3, \"num_hidden_layers\": 3, \"intermediate_size\": 20,"            \
    "\"vocab_size\": 23, \"max_position_embeddings\": 21, \"projection_dim\": 7, "

typedef struct made {
    const char *prefix, *config;
    bool        llama, projected;
    int         skip, heads, key_heads, head_dim; /* heads and sizes of Llama */
    const char *without;                          /* a tensor that is left out */
    bool        only_loaded;                      /* the layers that are skipped are not in the file */
} made;

static const made llamas[] = {
    {"",
     "{" LLAMA_SIZES "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 6, \"rope_theta\": 500}",
     true, .heads = 4, .key_heads = 2, .head_dim = 6},
    {"model.",
     "{" LLAMA_SIZES
     "\"num_attention_heads\": 3, \"num_key_value_heads\": 1, \"head_dim\": 8, \"model_type\": \"llama\","
     "\"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 5000, \"factor\": 4, \"low_freq_factor\": 1,"
     "\"high_freq_factor\": 3, \"original_max_position_embeddings\": 16}}",
     true, .skip = 2, .heads = 3, .key_heads = 1, .head_dim = 8},
};

static const made clips[] = {
    {"text_model.", "{" CLIP_SIZES "\"hidden_act\": \"quick_gelu\", \"eos_token_id\": 2}", .skip = 0},
    {"", "{" CLIP_SIZES "\"hidden_act\": \"gelu\", \"eos_token_id\": 14}", false, true, .skip = 1},
    {"", "{" CLIP_SIZES "\"hidden_act\": \"gelu\", \"eos_token_id\": 3}", false, .skip = 2},
};

enum { LLAMAS = sizeof llamas / sizeof *llamas, CLIPS = sizeof clips / sizeof *clips };

static sg_backend *backend;

/* i 0: a vector. */
static void put(made_file *f, const made *m, const char *name, int64_t o, int64_t i)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", strcmp(name, "text_projection.weight") ? m->prefix : "", name);
    if (!m->without || strcmp(name, m->without) != 0)
        made_file_put(f, full, name, SG_F32, i ? 2 : 1, (int64_t[]){o, i});
}

typedef struct part {
    const char *name;
    int64_t     o, i;
} part;

static void put_layers(made_file *f, const made *m, const char *layers, const part *parts, size_t count)
{
    char name[96];
    for (int l = 0; l < (m->only_loaded ? LAYERS - m->skip : LAYERS); l++)
        for (size_t k = 0; k < count; k++) {
            snprintf(name, sizeof name, "%s%d.%s", layers, l, parts[k].name);
            put(f, m, name, parts[k].o, parts[k].i);
        }
}

static void put_llama(made_file *f, const made *m)
{
    const int64_t c = LLAMA_WIDTH, hd = m->heads * m->head_dim, kd = m->key_heads * m->head_dim;
    const part    parts[] = {{"input_layernorm.weight", c, 0},       {"post_attention_layernorm.weight", c, 0},
                             {"self_attn.q_proj.weight", hd, c},     {"self_attn.k_proj.weight", kd, c},
                             {"self_attn.v_proj.weight", kd, c},     {"self_attn.o_proj.weight", c, hd},
                             {"mlp.gate_proj.weight", LLAMA_FFN, c}, {"mlp.up_proj.weight", LLAMA_FFN, c},
                             {"mlp.down_proj.weight", c, LLAMA_FFN}};
    put(f, m, "embed_tokens.weight", TABLE_VOCAB, c);
    put(f, m, "norm.weight", c, 0);
    put_layers(f, m, "layers.", parts, sizeof parts / sizeof *parts);
}

static void put_clip(made_file *f, const made *m)
{
    const int64_t c = CLIP_WIDTH;
    const part    parts[] = {{"layer_norm1.weight", c, 0},        {"layer_norm1.bias", c, 0},
                             {"layer_norm2.weight", c, 0},        {"layer_norm2.bias", c, 0},
                             {"self_attn.q_proj.weight", c, c},   {"self_attn.q_proj.bias", c, 0},
                             {"self_attn.k_proj.weight", c, c},   {"self_attn.k_proj.bias", c, 0},
                             {"self_attn.v_proj.weight", c, c},   {"self_attn.v_proj.bias", c, 0},
                             {"self_attn.out_proj.weight", c, c}, {"self_attn.out_proj.bias", c, 0},
                             {"mlp.fc1.weight", CLIP_FFN, c},     {"mlp.fc1.bias", CLIP_FFN, 0},
                             {"mlp.fc2.weight", c, CLIP_FFN},     {"mlp.fc2.bias", c, 0}};
    put(f, m, "embeddings.token_embedding.weight", TABLE_VOCAB, c);
    put(f, m, "embeddings.position_embedding.weight", PLACES, c);
    put(f, m, "final_layer_norm.weight", c, 0);
    put(f, m, "final_layer_norm.bias", c, 0);
    put(f, m, "text_projection.weight", PROJECTED, c); /* where it is not asked for it may be there */
    put_layers(f, m, "encoder.layers.", parts, sizeof parts / sizeof *parts);
}

static void write_checkpoint(const made *m)
{
    static made_file f;
    if (m->llama)
        put_llama(&f, m);
    else
        put_clip(&f, m);
    made_file_write(&f, "text_encoder/model.safetensors");
    write_text("text_encoder/config.json", m->config);
}

/* ---- running them ---- */

enum { SCRATCH = 1 << 20, NUMBERS = TABLE_TOKENS * CLIP_WIDTH + CLIP_WIDTH };

typedef struct encoder {
    sg_decoder   *llama; /* one of the two */
    sg_clip_text *clip;
} encoder;

static sg_status open_made(encoder *t, const made *m, sg_dtype act, sg_error *e)
{
    write_checkpoint(m);
    *t = (encoder){0};
    return m->llama ? sg_decoder_open(&t->llama, from, "text_encoder", m->skip, false, act, e)
                    : sg_clip_text_open(&t->clip, from, "text_encoder", m->projected, m->skip, act, e);
}

static void close_made(encoder *t)
{
    sg_decoder_close(&t->llama);
    sg_clip_text_close(&t->clip);
    if (backend) sg_backend_drop_packed(backend); /* known by addresses, which the next weights may get */
}

static void run(const encoder *t, sg_stream *s, float *y, const int32_t *ids, int n)
{
    const int       width = t->llama ? sg_decoder_describe(t->llama).width : sg_clip_text_describe(t->clip).width;
    const sg_tensor states = {.data = y, .rank = 2, .dim = {n, width}};
    const sg_tensor row = {
        .data = y + n * width, .rank = 2, .dim = {1, t->clip ? sg_clip_text_describe(t->clip).pooled : 1}};
    if (t->llama)
        sg_decoder_encode(t->llama, s, states, ids, n);
    else
        sg_clip_text_encode(t->clip, s, states, row, ids, n);
}

static void some_ids(int32_t *ids)
{
    for (int i = 0; i < TABLE_TOKENS; i++) ids[i] = i * 7 % TABLE_VOCAB;
}

/* Loads t and encodes n ids into y: the states, then CLIP's row. */
static sg_stream encode(encoder *t, const int32_t *ids, int n, float *y)
{
    static _Alignas(SG_ALIGN) unsigned char buffer[SCRATCH];
    sg_error                                e = {0};
    sg_component *const c = t->llama ? sg_decoder_component(t->llama) : sg_clip_text_component(t->clip);
    if (sg_bind_load(c->bind, backend, NULL, NULL, &e) != SG_OK) fail_msg("%s", e.text);
    sg_stream s = sg_stream_of(backend);
    s.scratch = (sg_arena){.base = (uintptr_t)buffer, .cap = SCRATCH};
    run(t, &s, y, ids, n);
    assert_int_equal(s.scratch.used, 0);
    return s;
}

static double distance(const float *y, const double *wanted, int count)
{
    double apart = 0.0, size = 0.0;
    for (int i = 0; i < count; i++) {
        apart += ((double)y[i] - wanted[i]) * ((double)y[i] - wanted[i]);
        size += wanted[i] * wanted[i];
    }
    return sqrt(apart / size);
}

/* Of the states; *row gets that of the row. */
static double distance_of(const made *m, sg_dtype act, const double *wanted, double *row)
{
    static float y[NUMBERS];
    int32_t      ids[TABLE_TOKENS];
    encoder      t;
    sg_error     e = {0};
    some_ids(ids);
    if (open_made(&t, m, act, &e)) fail_msg("%s", e.text);
    assert_int_equal(encode(&t, ids, TABLE_TOKENS, y).status, SG_OK);
    const int states = TABLE_TOKENS * (m->llama ? LLAMA_WIDTH : CLIP_WIDTH);
    const int pooled = t.clip ? sg_clip_text_describe(t.clip).pooled : 0;
    assert_true(m->llama || pooled == (m->projected ? PROJECTED : CLIP_WIDTH));
    if (row) *row = distance(y + states, wanted + states, pooled);
    close_made(&t);
    return distance(y, wanted, states);
}

static void llamas_states_are_those_of_transformers(void **state)
{
    for (int i = 0; i < LLAMAS; i++) {
        const double d = distance_of(&llamas[i], SG_F32, table_llama[i], NULL);
        if (!(d <= 2e-6)) fail_msg("case %d: relative distance %g", i, d);
        const double near = distance_of(&llamas[i], SG_BF16, table_llama[i], NULL);
        if (!(near <= 5e-2 && near > 1e-5)) fail_msg("case %d: BF16: relative distance %g", i, near);
    }
}

static void clips_states_and_rows_are_those_of_transformers(void **state)
{
    for (int i = 0; i < CLIPS; i++) {
        double       row;
        const double d = distance_of(&clips[i], SG_F32, table_clip[i], &row);
        if (!(d <= 2e-6 && row <= 2e-6)) fail_msg("case %d: relative distance %g, of the row %g", i, d, row);
        const double near = distance_of(&clips[i], SG_BF16, table_clip[i], &row);
        if (!(near <= 5e-2 && row <= 5e-2 && row > 1e-5)) fail_msg("case %d: BF16: %g, of the row %g", i, near, row);
    }
}

/* The layers after the wanted states need not be there, and neither need the last norm. */
static void a_file_may_lack_what_is_not_computed(void **state)
{
    made m = llamas[1];
    m.only_loaded = true;
    m.without = "norm.weight";
    assert_true(distance_of(&m, SG_F32, table_llama[1], NULL) <= 2e-6);
    m.prefix = "language_model.model.";
    assert_true(distance_of(&m, SG_F32, table_llama[1], NULL) <= 2e-6);
}

/* What follows a token does not change its states: pads at the end may be left out. */
static void a_token_sees_none_after_it(void **state)
{
    static float whole[NUMBERS], few[NUMBERS];
    int32_t      ids[TABLE_TOKENS];
    const made  *both[] = {&llamas[0], &clips[2]};
    some_ids(ids);
    for (int i = 0; i < 2; i++) {
        encoder t;
        assert_int_equal(open_made(&t, both[i], SG_F32, NULL), SG_OK);
        assert_int_equal(encode(&t, ids, TABLE_TOKENS, whole).status, SG_OK);
        assert_int_equal(encode(&t, ids, 5, few).status, SG_OK);
        for (int k = 0; k < 5 * LLAMA_WIDTH; k++) assert_true(fabsf(whole[k] - few[k]) <= 1e-5f * (1 + fabsf(few[k])));
        close_made(&t);
    }
}

static void a_plan_asks_for_what_it_takes(void **state)
{
    static float y[NUMBERS];
    int32_t      ids[TABLE_TOKENS];
    const made  *both[] = {&llamas[0], &clips[1]};
    some_ids(ids);
    for (int i = 0; i < 2; i++) {
        encoder        t;
        sg_plan_totals totals = {0};
        sg_stream      plan = sg_plan_stream(&totals);
        assert_int_equal(open_made(&t, both[i], SG_F32, NULL), SG_OK);
        run(&t, &plan, y, ids, TABLE_TOKENS);
        assert_int_equal(plan.status, SG_OK);
        assert_int_equal(plan.scratch.peak, encode(&t, ids, TABLE_TOKENS, y).scratch.peak);
        assert_true(totals.flops > 0);
        close_made(&t);
    }
}

/* ---- with a tokenizer ---- */

#define TOKENIZER                                                                                                      \
    "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"model\": {\"merges\": [\"a b\"],"   \
    "\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2"

static sg_status open_encoder(sg_text_encoder *t, const made *m, sg_error *e)
{
    return m->llama ? sg_decoder_encoder_open(t, from, "text_encoder", "tokenizer", m->skip, SG_F32, e)
                    : sg_clip_text_encoder_open(t, from, "text_encoder", "tokenizer", m->projected, m->skip, SG_F32, e);
}

static void an_encoder_has_its_tokenizer(void **state)
{
    const made *both[] = {&llamas[1], &clips[1]};
    for (int i = 0; i < 2; i++) {
        static float    y[NUMBERS], want[NUMBERS];
        int32_t        *ids = NULL;
        int             count = 0;
        sg_text_encoder t;
        sg_error        e = {0};
        write_checkpoint(both[i]);
        write_text("tokenizer/tokenizer.json", TOKENIZER "}}}");
        if (open_encoder(&t, both[i], &e)) fail_msg("%s", e.text);
        assert_int_equal(t.ops->width(t.of), 12);
        assert_int_equal(t.ops->pooled ? t.ops->pooled(t.of) : 0, i ? PROJECTED : 0);
        assert_int_equal(t.ops->pad(t.of), -1);
        assert_int_equal(t.ops->tokenize(t.of, "abb", 3, 9, &ids, &count, &e), SG_OK);
        assert_int_equal(count, 2);

        encoder same;
        assert_int_equal(open_made(&same, both[i], SG_F32, NULL), SG_OK);
        sg_stream s = encode(&same, ids, count, want);
        assert_int_equal(sg_bind_load(t.ops->component(t.of)->bind, backend, NULL, NULL, &e), SG_OK);
        t.ops->encode(t.of, &s, (sg_tensor){.data = y, .rank = 2, .dim = {count, 12}},
                      i ? (sg_tensor){.data = y + count * 12, .rank = 2, .dim = {1, PROJECTED}} : (sg_tensor){0}, ids,
                      count);
        assert_int_equal(s.status, SG_OK);
        assert_memory_equal(y, want, (size_t)(count * 12 + (i ? PROJECTED : 0)) * sizeof *y);
        close_made(&same);
        t.ops->close(t.of);
        free(ids);
    }
}

static void more_ids_than_rows_are_refused(void **state)
{
    const made     *both[] = {&llamas[1], &clips[1]};
    sg_textbuf      text = {0};
    sg_text_encoder t;
    sg_textbuf_printf(&text, TOKENIZER);
    for (int i = 3; i <= TABLE_VOCAB; i++) sg_textbuf_printf(&text, ", \"%d\": %d", i, i);
    sg_textbuf_printf(&text, "}}}");
    for (int i = 0; i < 2; i++) {
        sg_error e = {0};
        write_checkpoint(both[i]);
        write_text("tokenizer/tokenizer.json", text.data);
        assert_refused(open_encoder(&t, both[i], &e), SG_E_FORMAT, &e, "24 ids|23 rows");
        assert_null(t.ops);
    }
    sg_textbuf_free(&text);
}

/* ---- refusals ---- */

static void ids_are_refused(void **state)
{
    static float y[NUMBERS + 64 * CLIP_WIDTH];
    int32_t      many[PLACES + 1] = {0};
    const made  *both[] = {&llamas[0], &clips[0]};
    for (int i = 0; i < 2; i++) {
        encoder t;
        assert_int_equal(open_made(&t, both[i], SG_F32, NULL), SG_OK);
        assert_int_equal(encode(&t, (int32_t[]){0, TABLE_VOCAB}, 2, y).status, SG_E_FORMAT);
        assert_int_equal(encode(&t, (int32_t[]){-1}, 1, y).status, SG_E_FORMAT);
        assert_int_equal(encode(&t, many, 0, y).status, SG_E_ARG);
        assert_int_equal(encode(&t, many, PLACES, y).status, SG_OK);
        assert_int_equal(encode(&t, many, PLACES + 1, y).status, i ? SG_E_ARG : SG_OK);
        close_made(&t);
    }
}

static void refuse(made m, const char *names)
{
    encoder  t;
    sg_error e = {0};
    assert_refused(open_made(&t, &m, SG_F32, &e), SG_E_FORMAT, &e, names);
    assert_null(t.llama);
    assert_null(t.clip);
}

static made llama_of(const char *config)
{
    made m = llamas[0];
    m.config = config;
    return m;
}

static made clip_of(const char *config)
{
    made m = clips[0];
    m.config = config;
    return m;
}

#define HEADS "\"num_attention_heads\": 2"

static void configs_are_refused(void **state)
{
    refuse(llama_of("{}"), "config.json|hidden_size");
    refuse(llama_of("{" LLAMA_SIZES HEADS ", \"model_type\": \"mistral\"}"), "model_type|mistral");
    refuse(llama_of("{" LLAMA_SIZES HEADS ", \"hidden_act\": \"gelu\"}"), "hidden_act");
    refuse(llama_of("{" LLAMA_SIZES HEADS ", \"num_key_value_heads\": 3}"), "num_key_value_heads|2 heads");
    refuse(llama_of("{" LLAMA_SIZES HEADS ", \"head_dim\": 5}"), "head_dim|even");
    refuse(llama_of("{" LLAMA_SIZES HEADS ", \"attention_bias\": true}"), "attention_bias");
    refuse(llama_of("{" LLAMA_SIZES HEADS ", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}"),
           "rope_scaling|rope_type|linear");
    refuse(llama_of("{" LLAMA_SIZES HEADS ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 2}}"),
           "low_freq_factor");
    refuse(llama_of("{" LLAMA_SIZES HEADS ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 2,"
                    "\"low_freq_factor\": 2, \"high_freq_factor\": 2, \"original_max_position_embeddings\": 8}}"),
           "high_freq_factor");
    refuse(llama_of(
               "{\"hidden_size\": 12, \"num_hidden_layers\": 4000, \"intermediate_size\": 14, \"vocab_size\": 23," HEADS
               "}"),
           "num_hidden_layers|4000");
    made m = llamas[0];
    m.skip = LAYERS + 1;
    refuse(m, "num_hidden_layers|of which 4");
    refuse(clip_of("{" CLIP_SIZES "\"model_type\": \"clip\"}"), "model_type");
    refuse(clip_of("{" CLIP_SIZES "\"hidden_act\": \"silu\"}"), "hidden_act|silu");
    refuse(clip_of("{\"hidden_size\": 10, \"num_attention_heads\": 3}"), "num_attention_heads");
    refuse(clip_of("{\"num_hidden_layers\": 4000}"), "num_hidden_layers|4000");
    m = clips[0];
    m.skip = LAYERS + 1;
    refuse(m, "num_hidden_layers|last 4");
}

static void weights_are_refused(void **state)
{
    made m = llamas[0];
    m.without = "embed_tokens.weight";
    refuse(m, "missing|embed_tokens.weight|[23, 12]");
    m = llamas[0];
    m.without = "norm.weight";
    refuse(m, "missing|norm.weight");
    m = llamas[0];
    m.without = "layers.2.mlp.up_proj.weight";
    refuse(m, "layers.2.mlp.up_proj.weight|[14, 12]");
    m = clips[1];
    m.without = "text_projection.weight";
    refuse(m, "text_projection.weight|[7, 12]");
    m = clips[0];
    m.without = "embeddings.position_embedding.weight";
    refuse(m, "text_model.embeddings.position_embedding.weight");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llamas_states_are_those_of_transformers),
        cmocka_unit_test(clips_states_and_rows_are_those_of_transformers),
        cmocka_unit_test(a_file_may_lack_what_is_not_computed),
        cmocka_unit_test(a_token_sees_none_after_it),
        cmocka_unit_test(a_plan_asks_for_what_it_takes),
        cmocka_unit_test(an_encoder_has_its_tokenizer),
        cmocka_unit_test(more_ids_than_rows_are_refused),
        cmocka_unit_test(ids_are_refused),
        cmocka_unit_test(configs_are_refused),
        cmocka_unit_test(weights_are_refused),
    };
    static const char *const names[] = {"ref", "cpu"};
    int                      failed = 0;
    for (int i = 0; i < 2; i++) {
        sg_error e = {0};
        if (sg_backend_open(&backend, &(sg_backend_options){.name = names[i], .threads = 1}, &e) != SG_OK) {
            fprintf(stderr, "%s\n", e.text);
            return 1;
        }
        failed += cmocka_run_group_tests_name(names[i], tests, make_folder, remove_folder);
        sg_backend_close(&backend);
    }
    return failed;
}
