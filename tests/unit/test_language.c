/* test_language.c - language models: likelihoods, logits and greedy tokens against transformers, pieces, GGUF, what a sequence
 * keeps, refusals. */
#include "language.h"

#include "base/text.h"
#include "language_table.h"
#include "made_file.h"
#include "thresholds/thresholds.h"
#include "tune.h"

#include "gguf_file.h"

enum { CASES = sizeof language_cases / sizeof *language_cases };

static const char *backend;

/* ---- made-up models: as in make_language_table.py ---- */

typedef struct made {
    language_case of;
    const char   *prefix;  /* "model.", "" or "language_model.model." */
    const char   *without; /* a tensor that is left out */
    bool          gguf;
} made;

static made made_of(int i)
{
    static const char *const prefixes[] = {"model.", "", "language_model.model."};
    return (made){.of = language_cases[i], .prefix = prefixes[i % 3]};
}

static bool is_kind(const made *m, const char *kind)
{
    char text[64];
    snprintf(text, sizeof text, "\"model_type\": \"%s\"", kind);
    return strstr(m->of.config, text) != NULL;
}

typedef struct spelling {
    const char *name, *gguf;
} spelling;

/* Rows of heads of d, in the order of llama.cpp: those that are rotated together side by side. */
static void put_in_pairs(sg_tensor t, int64_t d)
{
    const int64_t row = t.dim[1];
    float *const to = t.data, *const rows = malloc(sg_bytes(t));
    memcpy(rows, to, sg_bytes(t));
    for (int64_t r = 0; r < t.dim[0]; r++) {
        const int64_t at = r % d, pair = at % (d / 2), second = at / (d / 2);
        memcpy(to + (r - at + 2 * pair + second) * row, rows + r * row, (size_t)row * sizeof *to);
    }
    free(rows);
}

/* i 0: a vector. */
static void put(made_file *f, const made *m, const char *layer, spelling part, int64_t o, int64_t i)
{
    char name[96], full[128];
    snprintf(name, sizeof name, "%s%s", layer, part.name);
    if (m->gguf)
        snprintf(full, sizeof full, "%s%.*s%s", *layer ? "blk." : "", *layer ? (int)strlen(layer) - 7 : 0, layer + 7,
                 part.gguf);
    else if (strcmp(part.name, "lm_head.weight") == 0)
        snprintf(full, sizeof full, "%s%s",
                 strcmp(m->prefix, "model.") > 0 ? ""
                 : *m->prefix == 'l'             ? "language_model."
                                                 : "",
                 name);
    else
        snprintf(full, sizeof full, "%s%s", m->prefix, name);
    if (m->without && strcmp(name, m->without) == 0) return;
    const sg_tensor t = made_file_put(f, full, name, SG_F32, i ? 2 : 1, (int64_t[]){o, i});
    if (m->gguf && is_kind(m, "llama") && (strstr(name, "q_proj") || strstr(name, "k_proj")))
        put_in_pairs(t, m->of.head_dim);
}

static void put_layer(made_file *f, const made *m, int l)
{
    const language_case *const z = &m->of;
    const int64_t              c = z->width, d = z->head_dim, hd = z->heads * d, kd = z->key_heads * d;
    char                       layer[32];
    snprintf(layer, sizeof layer, "layers.%d.", l);
    put(f, m, layer, (spelling){"input_layernorm.weight", "attn_norm.weight"}, c, 0);
    put(f, m, layer, (spelling){"post_attention_layernorm.weight", "ffn_norm.weight"}, c, 0);
    put(f, m, layer, (spelling){"self_attn.q_proj.weight", "attn_q.weight"}, hd, c);
    put(f, m, layer, (spelling){"self_attn.k_proj.weight", "attn_k.weight"}, kd, c);
    put(f, m, layer, (spelling){"self_attn.v_proj.weight", "attn_v.weight"}, kd, c);
    put(f, m, layer, (spelling){"self_attn.o_proj.weight", "attn_output.weight"}, c, hd);
    put(f, m, layer, (spelling){"mlp.gate_proj.weight", "ffn_gate.weight"}, z->ffn, c);
    put(f, m, layer, (spelling){"mlp.up_proj.weight", "ffn_up.weight"}, z->ffn, c);
    put(f, m, layer, (spelling){"mlp.down_proj.weight", "ffn_down.weight"}, c, z->ffn);
    if (is_kind(m, "qwen2")) {
        put(f, m, layer, (spelling){"self_attn.q_proj.bias", "attn_q.bias"}, hd, 0);
        put(f, m, layer, (spelling){"self_attn.k_proj.bias", "attn_k.bias"}, kd, 0);
        put(f, m, layer, (spelling){"self_attn.v_proj.bias", "attn_v.bias"}, kd, 0);
    }
    if (is_kind(m, "qwen3")) {
        put(f, m, layer, (spelling){"self_attn.q_norm.weight", "attn_q_norm.weight"}, d, 0);
        put(f, m, layer, (spelling){"self_attn.k_norm.weight", "attn_k_norm.weight"}, d, 0);
    }
}

static void put_model(made_file *f, const made *m)
{
    put(f, m, "", (spelling){"embed_tokens.weight", "token_embd.weight"}, m->of.vocab, m->of.width);
    put(f, m, "", (spelling){"norm.weight", "output_norm.weight"}, m->of.width, 0);
    if (!m->of.tied) put(f, m, "", (spelling){"lm_head.weight", "output.weight"}, m->of.vocab, m->of.width);
    for (int l = 0; l < m->of.layers; l++) put_layer(f, m, l);
}

#define TOKENIZER                                                                                                      \
    "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, \"added_tokens\": [{\"id\": 6, "      \
    "\"content\": \"<end>\", \"special\": true}, {\"id\": 7, \"content\": \"<bos>\", \"special\": true}], "            \
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<bos>\"}}, "    \
    "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"<bos>\": {\"ids\": [7]}}}, "                             \
    "\"model\": {\"merges\": [\"a b\"], \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120\": 3, \"\\u00c3\": 4, "   \
    "\"\\u00a9\": 5"

/* Tensors of that name are so many times as large. */
static void write_scaled(const made *m, const char *name, float by)
{
    static made_file f;
    put_model(&f, m);
    for (int i = 0; i < f.count; i++)
        for (int64_t k = 0; strstr(f.t[i].name, name) && k < sg_count(f.t[i].t); k++) ((float *)f.t[i].t.data)[k] *= by;
    shell("rm -rf model");
    made_file_write(&f, "model/model.safetensors");
    write_text("model/config.json", m->of.config);
    write_text("model/tokenizer.json", TOKENIZER "}}}");
}

static void write_model(const made *m) { write_scaled(m, "norm", 1); }

static sg_language *open_with(const char *path, sg_language_options o)
{
    sg_language *l = NULL;
    sg_error     e = {0};
    o.backend = backend;
    o.threads = 1;
    if (!o.dtype) o.dtype = "f32";
    assert_done(sg_language_open(&l, path, &o, &e), &e);
    return l;
}

static sg_language *open_made(const made *m, sg_language_options o)
{
    write_model(m);
    return open_with("model", o);
}

static void prompt_of(const language_case *c, int32_t *ids)
{
    for (int i = 0; i < TABLE_TOKENS; i++) ids[i] = (i * 7 + 3) % c->vocab;
}

/* The largest difference, of the largest number wanted. */
static double apart(const float *y, const double *wanted, int count)
{
    double most = 0, size = 0;
    for (int i = 0; i < count; i++) {
        const double d = fabs((double)y[i] - wanted[i]);
        if (!(d <= most)) most = d;
        if (fabs(wanted[i]) > size) size = fabs(wanted[i]);
    }
    return most / size;
}

static double apart_from(const float *y, const float *wanted, int count)
{
    double wide[TABLE_VOCAB];
    for (int i = 0; i < count; i++) wide[i] = (double)wanted[i];
    return apart(y, wide, count);
}

/* All that the table has of a case; bound is that of logits and likelihoods. */
static void check_case(sg_language *l, int i, double bound)
{
    const language_case *const c = &language_cases[i];
    int32_t                    ids[TABLE_TOKENS], greedy[TABLE_GREEDY];
    float                      logp[TABLE_TOKENS], logits[TABLE_VOCAB];
    int64_t                    count = 0;
    sg_error                   e = {0};
    prompt_of(c, ids);
    assert_done(sg_language_append(l, ids, TABLE_TOKENS, logp, NULL, NULL, &e), &e);
    assert_done(sg_language_logits(l, logits, &e), &e);
    assert_true(isnan(logp[0]));
    const double of_logp = apart(logp + 1, c->logp, TABLE_TOKENS - 1), of_logits = apart(logits, c->logits, c->vocab);
    if (!(of_logp <= bound && of_logits <= bound))
        fail_msg("case %d: likelihoods %g, logits %g; at most %g", i, of_logp, of_logits, bound);
    if (bound > 1e-4) return;
    assert_done(sg_language_greedy(l, greedy, TABLE_GREEDY, &count, NULL, &e), &e);
    assert_int_equal(count, TABLE_GREEDY);
    assert_memory_equal(greedy, c->greedy, sizeof greedy);
    assert_int_equal(sg_language_length(l), TABLE_TOKENS + TABLE_GREEDY);
}

/* ---- against transformers ---- */

static void all_are_as_transformers_has_it(void **state)
{
    for (int i = 0; i < CASES; i++) {
        const made   m = made_of(i);
        sg_language *l = open_made(&m, (sg_language_options){0});
        check_case(l, i, 1e-5);
        sg_language_close(&l);
    }
}

static void bf16_is_near(void **state)
{
    for (int i = 0; i < 4; i++) {
        const made   m = made_of(i);
        sg_language *l = open_made(&m, (sg_language_options){.dtype = "bf16"});
        assert_string_equal(sg_language_describe(l).dtype, "bf16");
        check_case(l, i, 0.1);
        sg_language_close(&l);
    }
}

/* Whatever pieces a text is cut into, and in however many appends it comes. */
static void pieces_make_the_whole(void **state)
{
    static const int64_t pieces[] = {1, 5, 8, 23};
    for (int i = 0; i < 4; i++) {
        const made m = made_of(i);
        for (size_t k = 0; k < sizeof pieces / sizeof *pieces; k++) {
            sg_language *l = open_made(&m, (sg_language_options){.piece = pieces[k]});
            check_case(l, i, 1e-5);
            sg_language_close(&l);
        }
        sg_language *l = open_made(&m, (sg_language_options){0});
        int32_t      ids[TABLE_TOKENS];
        float        logp[TABLE_TOKENS];
        sg_error     e = {0};
        prompt_of(&m.of, ids);
        for (int at = 0; at < TABLE_TOKENS; at += 8)
            assert_done(sg_language_append(l, ids + at, 8, logp + at, NULL, NULL, &e), &e);
        assert_true(apart(logp + 1, m.of.logp, TABLE_TOKENS - 1) <= 1e-5);
        sg_language_close(&l);
    }
}

static void shards_are_one(void **state)
{
    const made       m = made_of(0);
    static made_file f;
    sg_language     *l = open_made(&m, (sg_language_options){0});
    sg_language_close(&l);
    put_model(&f, &m);
    const int half = f.count / 2;
    sg_error  e = {0};
    assert_done(sg_safetensors_write_all("model/a.safetensors", f.t, half, NULL, &e), &e);
    assert_done(sg_safetensors_write_all("model/b.safetensors", f.t + half, f.count - half, NULL, &e), &e);
    char   text[8192];
    size_t n = (size_t)snprintf(text, sizeof text, "{\"weight_map\": {");
    for (int i = 0; i < f.count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s\": \"%s.safetensors\"", i ? ", " : "", f.t[i].name,
                              i < half ? "a" : "b");
    snprintf(text + n, sizeof text - n, "}}");
    write_text("model/model.safetensors.index.json", text);
    shell("rm model/model.safetensors");
    f.count = 0;
    f.used = 0;
    l = open_with("model", (sg_language_options){0});
    check_case(l, 0, 1e-5);
    sg_language_close(&l);
}

/* ---- GGUF ---- */

static double number_of(const char *config, const char *key, double otherwise)
{
    char full[64];
    snprintf(full, sizeof full, "\"%s\": ", key);
    const char *const at = strstr(config, full);
    return at ? strtod(at + strlen(full), NULL) : otherwise;
}

/* What llama.cpp's converter divides frequencies by for the scaling "llama3". */
static bool put_factors(made_file *f, const made *m)
{
    const char *const c = m->of.config;
    const int64_t     half = m->of.head_dim / 2;
    if (!strstr(c, "\"llama3\"")) return false;
    const double    low = number_of(c, "low_freq_factor", 1), high = number_of(c, "high_freq_factor", 1);
    const double    factor = number_of(c, "factor", 1), before = number_of(c, "original_max_position_embeddings", 1);
    const sg_tensor t = made_file_put(f, "rope_freqs.weight", "rope_freqs", SG_F32, 1, &half);
    for (int64_t i = 0; i < half; i++) {
        const double wave = 2 * M_PI * pow(number_of(c, "rope_theta", 10000), 2 * (double)i / (double)m->of.head_dim);
        const double smooth = (before / wave - low) / (high - low);
        const double by = wave < before / high  ? 1
                          : wave > before / low ? factor
                                                : 1 / ((1 - smooth) / factor + smooth);
        sg_store(&t, i, (float)by);
    }
    return true;
}

static json_t *texts_of(const char *const *text)
{
    json_t *const list = json_array();
    for (; *text; text++) json_array_append_new(list, json_string(*text));
    return list;
}

enum { ARCH, HEADS, KEY, LONGEST, EPSILON, THETA, MODEL, PRE, TOKENS, TYPES, MERGES, BOS, EOS, SCALING, KEYS };

static void write_gguf(made m, const char *change_pre, const char *scaling)
{
    static made_file         f;
    const char *const        kind = is_kind(&m, "llama") ? "llama" : is_kind(&m, "qwen2") ? "qwen2" : "qwen3";
    char                     name[8][64];
    static const char *const keys[] = {"attention.head_count", "attention.key_length",
                                       "context_length",       "attention.layer_norm_rms_epsilon",
                                       "rope.freq_base",       "rope.scaling.type"};
    m.gguf = true;
    put_model(&f, &m);
    put_factors(&f, &m);
    for (int i = 0; i < 6; i++) snprintf(name[i], sizeof name[i], "%s.%s", kind, keys[i]);
    json_t *const types = json_pack("[i,i,i,i,i,i,i,i]", 1, 1, 1, 1, 1, 1, 3, 3);
    gguf_key      key[KEYS] = {
             [ARCH] = {.name = "general.architecture", .kind = 's', .text = kind},
             [HEADS] = {.name = name[0], .kind = 'u', .number = m.of.heads},
             [KEY] = {.name = name[1], .kind = 'u', .number = m.of.head_dim},
             [LONGEST] = {.name = name[2], .kind = 'u', .number = 96},
             [EPSILON] = {.name = name[3], .kind = 'f', .number = number_of(m.of.config, "rms_norm_eps", 1e-6)},
             [THETA] = {.name = name[4], .kind = 'f', .number = number_of(m.of.config, "rope_theta", 10000)},
             [SCALING] = {.name = name[5], .kind = scaling ? 's' : '\0', .text = scaling},
             [MODEL] = {.name = "tokenizer.ggml.model", .kind = 's', .text = "gpt2"},
             [PRE] = {.name = "tokenizer.ggml.pre",
                      .kind = 's',
                      .text = change_pre     ? change_pre
                              : *kind == 'l' ? "llama-bpe"
                                             : "qwen2"},
             [TOKENS] = {.name = "tokenizer.ggml.tokens",
                         .kind = 'S',
                         .list = texts_of((const char *const[]){"a", "b", "ab", "\304\240", "\303\203", "\302\251", "<end>",
                                                                "<bos>", NULL})},
             [TYPES] = {.name = "tokenizer.ggml.token_type", .kind = 'I', .list = types},
             [MERGES] = {.name = "tokenizer.ggml.merges", .kind = 'S', .list = texts_of((const char *const[]){"a b", NULL})},
             [BOS] = {.name = "tokenizer.ggml.bos_token_id", .kind = 'u', .number = 7},
             [EOS] = {.name = "tokenizer.ggml.eos_token_id", .kind = 'u', .number = 70},
    };
    gguf_write("model.gguf", key, KEYS, f.t, f.count);
    f.count = 0;
    f.used = 0;
    for (int i = 0; i < KEYS; i++) json_decref(key[i].list);
}

static void a_gguf_is_its_folder(void **state)
{
    for (int i = 0; i < CASES; i++) {
        const made m = made_of(i);
        write_gguf(m, NULL, i % 2 ? "none" : NULL);
        sg_language           *l = open_with("model.gguf", (sg_language_options){0});
        const sg_language_info info = sg_language_describe(l);
        assert_true(is_kind(&m, info.kind));
        assert_int_equal(info.key_heads, m.of.key_heads);
        assert_int_equal(info.longest, 96);
        assert_true(sg_language_ends(l, 70) && !sg_language_ends(l, 6)); /* an id that greedy never meets */
        check_case(l, i, 1e-5);
        int32_t *ids = NULL;
        int64_t  n = 0;
        sg_error e = {0};
        assert_done(sg_language_encode(l, "ab", 2, true, &ids, &n, &e), &e);
        assert_int_equal(n, is_kind(&m, "llama") ? 2 : 1); /* Qwen2 puts nothing before a text */
        free(ids);
        sg_language_close(&l);
    }
}

/* ---- texts ---- */

static void texts_become_ids_and_ids_texts(void **state)
{
    made         m = made_of(0);
    sg_language *l = open_made(&m, (sg_language_options){0});
    sg_error     e = {0};
    int32_t     *ids = NULL;
    int64_t      n = 0;
    char        *text = NULL;
    assert_done(sg_language_encode(l, "ab a\303\251<end>", 11, true, &ids, &n, &e), &e);
    static const int32_t want[] = {7, 2, 3, 0, 4, 5, 6};
    assert_int_equal(n, 7);
    assert_memory_equal(ids, want, sizeof want);
    assert_done(sg_language_decode(l, ids, n, &text, &e), &e);
    assert_string_equal(text, "ab a\303\251"); /* without the added tokens */
    free(text);
    free(ids);
    assert_done(sg_language_encode(l, "ab", 2, false, &ids, &n, &e), &e);
    assert_int_equal(n, 1);
    free(ids);
    assert_done(sg_language_decode(l, (const int32_t[]){30, -1, 0}, 3, &text, &e), &e);
    assert_string_equal(text, "a"); /* ids that no token has are no text */
    free(text);
    enum { BYTES = 3 << 20 };
    char *const many = malloc(BYTES);
    memset(many, 'a', BYTES);
    for (int i = 0; i < BYTES; i += 64) many[i] = ' ';
    assert_done(sg_language_encode(l, many, BYTES, false, &ids, &n, &e), &e);
    assert_int_equal(n, BYTES);
    free(many);
    free(ids);
    assert_refused(sg_language_encode(l, "a\377", 2, false, &ids, &n, &e), SG_E_ARG, &e, "UTF-8");
    sg_language_close(&l);
}

static void ends_are_those_of_the_configs(void **state)
{
    made m = made_of(0);
    write_model(&m);
    write_changed("model/config.json", "model/config.json", "eos_token_id", "3");
    write_text("model/generation_config.json", "{\"eos_token_id\": [5, 3]}");
    sg_language *l = open_with("model", (sg_language_options){0});
    for (int32_t i = 0; i < 9; i++) assert_int_equal(sg_language_ends(l, i), i == 3 || i == 5);
    sg_language_close(&l);
    write_text("model/generation_config.json", "{\"eos_token_id\": \"a\"}");
    sg_error                  e = {0};
    const sg_language_options o = {.backend = backend};
    assert_refused(sg_language_open(&l, "model", &o, &e), SG_E_FORMAT, &e, "generation_config.json", "eos_token_id");
    write_text("model/generation_config.json", "{}");
    char text[16];
    snprintf(text, sizeof text, "%d", (int)language_cases[0].greedy[9]); /* greedy ends behind its first */
    write_changed("model/config.json", "model/config.json", "eos_token_id", text);
    l = open_with("model", (sg_language_options){0});
    int32_t ids[TABLE_TOKENS], greedy[TABLE_GREEDY];
    int64_t count = 0, first = 0;
    while (language_cases[0].greedy[first] != language_cases[0].greedy[9]) first++;
    prompt_of(&m.of, ids);
    assert_done(sg_language_append(l, ids, TABLE_TOKENS, NULL, NULL, NULL, &e), &e);
    assert_done(sg_language_greedy(l, greedy, TABLE_GREEDY, &count, NULL, &e), &e);
    assert_int_equal(count, first + 1);
    assert_memory_equal(greedy, language_cases[0].greedy, (size_t)count * sizeof *greedy);
    sg_language_close(&l);
}

/* ---- the sequence ---- */

static void a_rewound_sequence_is_as_it_was(void **state)
{
    const made   m = made_of(2);
    sg_language *l = open_made(&m, (sg_language_options){0});
    int32_t      ids[TABLE_TOKENS], greedy[8], again[8];
    float        logits[TABLE_VOCAB], same[TABLE_VOCAB], logp[TABLE_TOKENS];
    int64_t      count = 0;
    sg_error     e = {0};
    prompt_of(&m.of, ids);
    assert_refused(sg_language_logits(l, logits, &e), SG_E_ARG, &e, "logits");
    assert_done(sg_language_append(l, ids, 10, NULL, NULL, NULL, &e), &e);
    assert_done(sg_language_logits(l, logits, &e), &e);
    assert_done(sg_language_greedy(l, greedy, 8, &count, NULL, &e), &e);
    sg_language_rewind(l, 10);
    assert_int_equal(sg_language_length(l), 10);
    assert_done(sg_language_logits(l, same, &e), &e); /* an append ended there */
    assert_memory_equal(logits, same, (size_t)m.of.vocab * sizeof *same);
    assert_done(sg_language_greedy(l, again, 8, &count, NULL, &e), &e);
    assert_memory_equal(greedy, again, sizeof greedy);
    sg_language_rewind(l, 10);
    assert_done(sg_language_append(l, ids + 10, TABLE_TOKENS - 10, logp, NULL, NULL, &e), &e);
    assert_true(apart(logp, m.of.logp + 9, TABLE_TOKENS - 10) <= 1e-5);
    sg_language_rewind(l, 7); /* where none ended */
    assert_refused(sg_language_logits(l, logits, &e), SG_E_ARG, &e, "logits");
    assert_done(sg_language_append(l, ids + 7, TABLE_TOKENS - 7, logp, NULL, NULL, &e), &e);
    assert_true(isnan(logp[0]) && apart(logp + 1, m.of.logp + 7, TABLE_TOKENS - 8) <= 1e-5);
    sg_language_rewind(l, 99); /* nothing */
    assert_int_equal(sg_language_length(l), TABLE_TOKENS);
    sg_language_rewind(l, 0);
    check_case(l, 2, 1e-5);
    sg_language_close(&l);
}

typedef struct calls {
    int     left, seen;
    int64_t done, of;
} calls;

static bool count_down(void *context, int64_t done, int64_t of)
{
    calls *const c = context;
    assert_true(done >= c->done && done < of);
    c->done = done;
    c->of = of;
    c->seen++;
    return c->left-- == 0;
}

static void what_is_cancelled_leaves_no_trace(void **state)
{
    const made   m = made_of(0);
    sg_language *l = open_made(&m, (sg_language_options){.piece = 5});
    int32_t      ids[TABLE_TOKENS], greedy[TABLE_GREEDY];
    float        logits[TABLE_VOCAB], same[TABLE_VOCAB];
    int64_t      count = 0;
    sg_error     e = {0};
    prompt_of(&m.of, ids);
    assert_done(sg_language_append(l, ids, 9, NULL, NULL, NULL, &e), &e);
    assert_done(sg_language_logits(l, logits, &e), &e);
    calls                c = {.left = 4};
    sg_language_progress p = {count_down, &c};
    assert_refused(sg_language_append(l, ids + 9, TABLE_TOKENS - 9, NULL, NULL, &p, &e), SG_E_CANCELLED, &e, "cancelled");
    assert_int_equal(c.seen, 5);
    assert_int_equal(c.of, TABLE_TOKENS - 9);
    c = (calls){.left = 9};
    assert_refused(sg_language_greedy(l, greedy, 60, &count, &p, &e), SG_E_CANCELLED, &e, "cancelled");
    assert_int_equal(count, 0);
    assert_int_equal(c.of, 60);
    assert_int_equal(sg_language_length(l), 9);
    assert_done(sg_language_logits(l, same, &e), &e);
    assert_memory_equal(logits, same, (size_t)m.of.vocab * sizeof *same);
    c = (calls){.left = 1000};
    sg_language_rewind(l, 0);
    assert_done(sg_language_append(l, ids, TABLE_TOKENS, NULL, NULL, &p, &e), &e);
    assert_int_equal(c.seen, 5 * m.of.layers);
    assert_done(sg_language_logits(l, logits, &e), &e);
    assert_true(apart(logits, m.of.logits, m.of.vocab) <= 1e-5);
    sg_language_close(&l);
}

static void room_and_ids_have_ends(void **state)
{
    const made   m = made_of(0);
    sg_language *l = open_made(&m, (sg_language_options){.tokens = 20});
    int32_t      ids[TABLE_TOKENS];
    int64_t      count = 1;
    sg_error     e = {0};
    prompt_of(&m.of, ids);
    assert_int_equal(sg_language_describe(l).tokens, 20);
    assert_refused(sg_language_append(l, ids, 21, NULL, NULL, NULL, &e), SG_E_ARG, &e, "21 tokens", "20");
    assert_refused(sg_language_append(l, ids, 0, NULL, NULL, NULL, &e), SG_E_ARG, &e, "0 tokens");
    assert_done(sg_language_append(l, ids, 19, NULL, NULL, NULL, &e), &e);
    assert_refused(sg_language_greedy(l, ids, 2, &count, NULL, &e), SG_E_ARG, &e, "2 tokens", "20");
    assert_int_equal(count, 0);
    ids[0] = m.of.vocab;
    assert_refused(sg_language_append(l, ids, 1, NULL, NULL, NULL, &e), SG_E_FORMAT, &e, "vocabulary");
    ids[0] = -1;
    assert_refused(sg_language_append(l, ids, 1, NULL, NULL, NULL, &e), SG_E_FORMAT, &e, "vocabulary");
    assert_int_equal(sg_language_length(l), 19);
    assert_done(sg_language_greedy(l, ids, 1, &count, NULL, &e), &e);
    assert_int_equal(sg_language_length(l), 20);
    sg_language_close(&l);
}

/* Those of less than e^-87 are read from all logits: the final norm makes them a hundred times as large. */
static void the_least_likely_are_exact(void **state)
{
    const made m = made_of(0);
    float      logits[TABLE_VOCAB], logp;
    double     least = 0;
    sg_error   e = {0};
    write_scaled(&m, "model.norm.weight", 100);
    sg_language *l = open_with("model", (sg_language_options){0});
    for (int32_t id = 0; id < 30; id++) {
        if (id) assert_done(sg_language_logits(l, logits, &e), &e);
        assert_done(sg_language_append(l, &id, 1, &logp, NULL, NULL, &e), &e);
        double sum = 0;
        for (int i = 0; id && i < m.of.vocab; i++) sum += exp((double)logits[i] - (double)logits[id]);
        if (!id) continue;
        assert_true(fabs((double)logp + log(sum)) <= 1e-5 * (1 + log(sum)));
        if ((double)logp < least) least = (double)logp;
    }
    assert_true(least < -100);
    sg_language_close(&l);
}

/* ---- attention ---- */

enum { LONG = 1280, LAYERS = 2 };

/* Two layers of heads of 64, two of queries for one of keys. */
static made long_model(void)
{
    return (made){.of = {.config = "{\"model_type\": \"llama\", \"hidden_size\": 32, \"num_hidden_layers\": 2, "
                                   "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 64, "
                                   "\"intermediate_size\": 16, \"vocab_size\": 40, \"max_position_embeddings\": 2048}",
                         .width = 32,
                         .layers = LAYERS,
                         .heads = 2,
                         .key_heads = 1,
                         .head_dim = 64,
                         .ffn = 16,
                         .vocab = 40},
                  .prefix = "model."};
}

static void see(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                double timestep, const sg_attend_args *args)
{
    if (!s->memory->alloc) return; /* a plan */
    ++*(int *)context;
    assert_true(shape->causal && shape->h == 2 && shape->hk == 1 && layer < LAYERS && step == 0);
}

static void a_policy_counts_and_is_watched(void **state)
{
    const made           m = long_model();
    int32_t              ids[LONG];
    sg_attention_count   count[LAYERS];
    static const int64_t pieces[] = {0, 512};
    for (int i = 0; i < LONG; i++) ids[i] = (int32_t)(i * 7 % 40);
    for (int i = 0; i < 2; i++) {
        write_scaled(&m, "q_proj", 0.1f); /* attention is no choice of one key */
        sg_language *l = open_with("model", (sg_language_options){.piece = pieces[i]});
        float        dense[40], all[40], few[40];
        int          seen = 0;
        sg_error     e = {0};
        sg_policy    p = sg_policy_default();
        assert_done(sg_language_append(l, ids, LONG, NULL, NULL, NULL, &e), &e);
        assert_done(sg_language_logits(l, dense, &e), &e);
        sg_language_counts(l, count);
        assert_true(count[1].kind == SG_ATTENTION_DENSE && count[1].kept == count[1].blocks && count[1].blocks > 0);
        const int64_t blocks = count[1].blocks;
        sg_language_rewind(l, 0);
        sg_language_counts(l, count);
        assert_int_equal(count[0].blocks, 0);
        p.named = true;
        p.amount = 1;
        assert_done(sg_language_policy(l, &p, &e), &e);
        assert_done(sg_language_append(l, ids, LONG, NULL, NULL, NULL, &e), &e);
        assert_done(sg_language_logits(l, all, &e), &e);
        sg_language_counts(l, count);
        assert_true(count[0].kind == SG_ATTENTION_SPARGE && count[0].why == SG_WHY_POLICY);
        assert_int_equal(count[0].blocks, blocks);
        assert_int_equal(count[0].kept, blocks);
        p.amount = 0.2f;
        sg_language_rewind(l, 0);
        assert_done(sg_language_policy(l, &p, &e), &e);
        sg_language_watch(l, &(sg_attention_watch){.on_begin = see, .on_begin_context = &seen});
        assert_done(sg_language_append(l, ids, LONG, NULL, NULL, NULL, &e), &e);
        assert_done(sg_language_logits(l, few, &e), &e);
        sg_language_counts(l, count);
        assert_true(count[0].kept < blocks && count[0].kept > 0);
        assert_int_equal(seen, LAYERS * (pieces[i] ? 3 : 1));
        const double off = apart_from(all, dense, 40), skips = apart_from(few, dense, 40);
        if (!(off < 0.03 && skips > off)) fail_msg("piece %d: all blocks %g, few %g", (int)pieces[i], off, skips);
        sg_language_watch(l, NULL);
        assert_done(sg_language_policy(l, NULL, &e), &e);
        sg_language_rewind(l, 0);
        assert_done(sg_language_append(l, ids, LONG, NULL, NULL, NULL, &e), &e);
        assert_done(sg_language_logits(l, few, &e), &e);
        assert_memory_equal(few, dense, sizeof few);
        sg_language_close(&l);
    }
}

/* Writes what tune finds while l reads ids, and returns how many blocks of a layer it keeps in all of them. */
static int64_t tune(sg_language *l, const int32_t *ids, int layer)
{
    const sg_tune_options o = {.policy = sg_policy_paper(), .l1 = 0.5, .l2 = 0.5, .least = 0.2, .buckets = 4};
    sg_tune              *t = NULL;
    const sg_thresholds  *found = NULL;
    const sg_tune_figure *f = NULL;
    char                 *text = NULL;
    int64_t               kept = 0;
    sg_error              e = {0};
    assert_done(sg_tune_open(&t, &o, &e), &e);
    sg_language_watch(l, &(sg_attention_watch){.on_begin = sg_tune_hook, .on_begin_context = t});
    assert_done(sg_language_append(l, ids, LONG, NULL, NULL, NULL, &e), &e);
    sg_language_watch(l, NULL);
    sg_language_rewind(l, 0);
    assert_done(sg_tune_choose(t, &found, &f, &e), &e);
    assert_true(found->buckets == 1 && found->layers == LAYERS && found->heads == 2 && found->from[0] == 0);
    for (int i = 0; i < 2 * LAYERS; i++) assert_true(f[i].density > 0 && f[i].l1 <= 0.5f);
    for (int i = 0; i < 2 * LONG / SG_BLOCK_Q; i++)
        kept += sg_topk_count(found->amount[2 * layer + i % 2], sg_visible_blocks(true, i / 2, LONG, LONG));
    assert_done(sg_thresholds_text(&text, &(sg_thresholds_file){.values = *found}, &e), &e);
    write_text("found.json", text);
    free(text);
    sg_tune_close(&t);
    return kept;
}

/* A model is tuned in pieces, and follows what was found: shares of the visible blocks, whatever the policy's own are of. */
static void thresholds_are_found_and_followed(void **state)
{
    const made m = long_model();
    int32_t    ids[LONG];
    for (int i = 0; i < LONG; i++) ids[i] = (int32_t)(i * 7 % 40);
    for (int i = 0; i < 2; i++) {
        write_scaled(&m, "q_proj", 0.1f);
        sg_language       *l = open_with("model", (sg_language_options){.piece = i ? 512 : 0, .tokens = LONG});
        sg_policy          p = sg_policy_paper();
        sg_attention_count count[LAYERS];
        sg_error           e = {0};
        const int64_t      want = tune(l, ids, 1);
        p.thresholds = "found.json";
        p.named = true;
        p.count_hidden = true;
        assert_done(sg_language_policy(l, &p, &e), &e);
        assert_done(sg_language_append(l, ids, LONG, NULL, NULL, NULL, &e), &e);
        sg_language_counts(l, count);
        assert_true(count[1].kept >= want && count[1].kept <= want + 2 * 2 * LONG / SG_BLOCK_Q); /* and the diagonal */
        assert_true(count[1].kept < count[1].blocks);
        sg_language_close(&l);
    }
}

static void policies_are_refused(void **state)
{
    const made   m = made_of(0);
    sg_language *l = open_made(&m, (sg_language_options){0});
    sg_policy    p = sg_policy_default();
    sg_error     e = {0};
    p.rule = SG_SELECT_GIVEN;
    p.mask = "mask.safetensors";
    p.tail = false;
    assert_refused(sg_language_policy(l, &p, &e), SG_E_UNSUPPORTED, &e, "mask");
    p = sg_policy_default();
    p.amount = 2;
    assert_refused(sg_language_policy(l, &p, &e), SG_E_ARG, &e, "topk", "2");
    p = sg_policy_default();
    p.budget = SG_BUDGET_ROW;
    p.thresholds = "thresholds.json";
    assert_refused(sg_language_policy(l, &p, &e), SG_E_FILE, &e, "thresholds.json");
    write_text("thresholds.json", "{\"format\": \"sparge-gen thresholds\", \"version\": 1, \"rule\": \"topk\", "
                                  "\"layers\": 1, \"heads\": 2, \"buckets\": [0], \"amount\": [[[0.5, 0.5]]], "
                                  "\"theta\": [[[-1, -1]]], \"lambda\": [[[0, 0]]]}");
    assert_refused(sg_language_policy(l, &p, &e), SG_E_ARG, &e, "thresholds", "1 layers", "2 heads");
    check_case(l, 0, 1e-5); /* by the policy from before */
    sg_language_close(&l);
}

/* ---- refusals ---- */

static void refuse_with(const char *path, sg_language_options o, sg_status status, const char *names)
{
    sg_language *l = NULL;
    sg_error     e = {0};
    o.backend = backend;
    assert_refused(sg_language_open(&l, path, &o, &e), status, &e, names);
    assert_null(l);
}

static void refuse_config(const char *key, const char *value, sg_status status, const char *names)
{
    const made m = made_of(0);
    write_model(&m);
    write_changed("model/config.json", "model/config.json", key, value);
    refuse_with("model", (sg_language_options){0}, status, names);
}

static void configs_are_refused(void **state)
{
    static const struct {
        const char *key, *value, *names;
    } rows[] = {
        {"model_type", "\"mistral\"", "model_type|mistral|qwen3"},
        {"model_type", "3", "model_type"},
        {"hidden_size", "0", "hidden_size"},
        {"hidden_size", "1e9", "hidden_size"},
        {"hidden_size", NULL, "hidden_size"},
        {"num_hidden_layers", "4000", "num_hidden_layers|4000"},
        {"num_hidden_layers", "5", "missing|layers.2.mlp.up_proj.weight"},
        {"num_attention_heads", "-1", "num_attention_heads"},
        {"num_key_value_heads", "2", "num_key_value_heads|2|3 heads"},
        {"head_dim", "5", "head_dim|even"},
        {"head_dim", "14", "misshapen|self_attn.q_proj.weight"},
        {"vocab_size", "41", "misshapen|embed_tokens.weight"},
        {"intermediate_size", "99999999999", "intermediate_size"},
        {"hidden_act", "\"gelu\"", "hidden_act|gelu"},
        {"attention_bias", "true", "attention_bias"},
        {"mlp_bias", "true", "mlp_bias"},
        {"use_sliding_window", "true", "use_sliding_window"},
        {"layer_types", "[\"full_attention\", \"sliding_attention\"]", "layer_types|layer 1|sliding_attention"},
        {"rms_norm_eps", "-1", "rms_norm_eps"},
        {"rope_theta", "0", "rope_theta"},
        {"rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 4}", "rope_scaling|rope_type|yarn"},
        {"rope_scaling", "{\"type\": \"linear\", \"factor\": 4}", "rope_type|linear"},
        {"rope_scaling", "{\"rope_type\": \"llama3\", \"factor\": 8}", "low_freq_factor"},
        {"rope_scaling", "7", "rope_scaling"},
        {"rope_parameters", "{\"partial_rotary_factor\": 0.5}", "partial_rotary_factor"},
        {"max_position_embeddings", "0", "max_position_embeddings"},
        {"tie_word_embeddings", "1", "tie_word_embeddings"},
        {"eos_token_id", "[1, -2]", "eos_token_id"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuse_config(rows[i].key, rows[i].value, SG_E_FORMAT, rows[i].names);
    refuse_config("model_type", "\"qwen2\"", SG_E_FORMAT, "missing|self_attn.q_proj.bias");
    refuse_config("model_type", "\"qwen3\"", SG_E_FORMAT, "missing|self_attn.k_norm.weight");
}

static void files_are_refused(void **state)
{
    made m = made_of(0);
    m.without = "layers.1.self_attn.o_proj.weight";
    write_model(&m);
    refuse_with("model", (sg_language_options){0}, SG_E_FORMAT, "missing|layers.1.self_attn.o_proj.weight");
    m.without = "embed_tokens.weight";
    write_model(&m);
    refuse_with("model", (sg_language_options){0}, SG_E_FORMAT, "missing|embed_tokens.weight");
    m.without = NULL;
    write_model(&m);
    shell("rm model/tokenizer.json");
    refuse_with("model", (sg_language_options){0}, SG_E_FILE, "vocab.json");
    sg_textbuf text = {0};
    sg_textbuf_printf(&text, TOKENIZER);
    for (int i = 6; i < 40; i++) sg_textbuf_printf(&text, ", \"%d\": %d", i, i);
    sg_textbuf_printf(&text, "}}}");
    write_text("model/tokenizer.json", text.data);
    sg_textbuf_free(&text);
    refuse_with("model", (sg_language_options){0}, SG_E_FORMAT, "model|42 ids|vocab_size");
    refuse_with("nowhere", (sg_language_options){0}, SG_E_FILE, "nowhere");
    refuse_with("model/model.safetensors", (sg_language_options){0}, SG_E_UNSUPPORTED, "no tokenizer");
    write_text("model.gguf", "GGUF");
    refuse_with("model.gguf", (sg_language_options){0}, SG_E_FORMAT, "model.gguf");
    write_gguf(m, NULL, "yarn");
    refuse_with("model.gguf", (sg_language_options){0}, SG_E_UNSUPPORTED, "llama.rope.scaling.type|yarn");
    write_gguf(m, "deepseek-llm", NULL);
    refuse_with("model.gguf", (sg_language_options){0}, SG_E_UNSUPPORTED, "tokenizer.ggml.pre|deepseek-llm");
}

static void options_are_refused(void **state)
{
    const made m = made_of(0);
    write_model(&m);
    refuse_with("model", (sg_language_options){.tokens = 97}, SG_E_ARG, "tokens|97|96");
    refuse_with("model", (sg_language_options){.tokens = -1}, SG_E_ARG, "tokens|-1");
    refuse_with("model", (sg_language_options){.piece = -1}, SG_E_ARG, "piece|-1");
    refuse_with("model", (sg_language_options){.dtype = "f8"}, SG_E_ARG, "dtype|f8");
    refuse_with("model", (sg_language_options){.memory_limit = 4096}, SG_E_MEMORY, "96 tokens|GiB");
    write_changed("model/config.json", "model/config.json", "max_position_embeddings", NULL);
    refuse_with("model", (sg_language_options){0}, SG_E_ARG, "tokens|0");
    write_changed("model/config.json", "model/config.json", "max_position_embeddings", "1000000000");
    refuse_with("model", (sg_language_options){0}, SG_E_MEMORY, "1000000000 tokens|GiB");
}

/* ---- the model that comes along ---- */

static void append_text(sg_language *l, const char *text)
{
    int32_t *ids;
    int64_t  n;
    sg_error e = {0};
    assert_done(sg_language_encode(l, text, strlen(text), false, &ids, &n, &e), &e);
    assert_done(sg_language_append(l, ids, n, NULL, NULL, NULL, &e), &e);
    free(ids);
}

static const char *const words[] = {"function", "struct", "call",  "set",     "device", "driver", "used",    "which",
                                    "return",   "data",   "when",  "support", "has",    "kernel", "object",  "only",
                                    "list",     "using",  "other", "system",  "any",    "type",   "number",  "read",
                                    "may",      "code",   "must",  "version", "also",   "time",   "command", "need"};

/* Writes record k's key, and behind it its value: words of four groups of eight. */
static void write_record(char *out, size_t size, int k, bool value)
{
    const int n = snprintf(out, size, "@ %s %s", words[k], words[8 + k]);
    if (value) snprintf(out + n, size - (size_t)n, " %s %s", words[16 + k], words[24 + k]);
}

/* Records "@ key key value value" between lines of text; of some keys the value is asked for. */
static void tiny_language_recalls(void **state)
{
    enum { RECORDS = 8, LINES = 12 };
    char         record[96], whole[96];
    sg_error     e = {0};
    sg_textbuf   text = {0};
    sg_language *l = open_with(SG_TINY_LANGUAGE, (sg_language_options){.tokens = 2048, .dtype = "f32"});
    for (int k = 0; k < RECORDS; k++) {
        write_record(whole, sizeof whole, k, true);
        for (int i = 0; i < LINES; i++) sg_textbuf_printf(&text, "Line %d of this page stands between them\n", i);
        sg_textbuf_printf(&text, "%s\n", whole);
    }
    append_text(l, text.data);
    sg_textbuf_free(&text);
    const int64_t context = sg_language_length(l);
    for (int k = 0; k < RECORDS; k++) {
        char   *got;
        int32_t ids[2];
        int64_t count;
        write_record(record, sizeof record, k, false);
        write_record(whole, sizeof whole, k, true);
        append_text(l, record);
        assert_done(sg_language_greedy(l, ids, 2, &count, NULL, &e), &e);
        assert_done(sg_language_decode(l, ids, count, &got, &e), &e);
        assert_string_equal(got, whole + strlen(record));
        free(got);
        sg_language_rewind(l, context);
    }
    sg_language_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_as_transformers_has_it),
        cmocka_unit_test(bf16_is_near),
        cmocka_unit_test(pieces_make_the_whole),
        cmocka_unit_test(shards_are_one),
        cmocka_unit_test(a_gguf_is_its_folder),
        cmocka_unit_test(texts_become_ids_and_ids_texts),
        cmocka_unit_test(ends_are_those_of_the_configs),
        cmocka_unit_test(a_rewound_sequence_is_as_it_was),
        cmocka_unit_test(what_is_cancelled_leaves_no_trace),
        cmocka_unit_test(room_and_ids_have_ends),
        cmocka_unit_test(the_least_likely_are_exact),
        cmocka_unit_test(a_policy_counts_and_is_watched),
        cmocka_unit_test(thresholds_are_found_and_followed),
        cmocka_unit_test(policies_are_refused),
        cmocka_unit_test(configs_are_refused),
        cmocka_unit_test(files_are_refused),
        cmocka_unit_test(options_are_refused),
        cmocka_unit_test(tiny_language_recalls),
    };
    static const char *const names[] = {"cpu", "ref"};
    int                      failed = 0;
    for (int i = 0; i < 2; i++) {
        backend = names[i];
        failed += cmocka_run_group_tests_name(names[i], tests, enter_folder, leave_folder);
    }
    return failed;
}
