/* test_part_text.c - text encoders in files: Llama in GGUF with its tokenizer, CLIP's two and the tokenizer that they share. */
#include "part_files.h"

#include "bpe_tokenizer.h"
#include "file_names.h"
#include "gguf_file.h"

/* ---- Llama in GGUF ---- */

/* Rows of heads of d in the order of llama.cpp: those that are rotated together side by side. */
static void put_in_pairs(contents *c, int i, int64_t d)
{
    const sg_tensor from = c->all[i].t;
    const int64_t   row = from.dim[1];
    float *const    to = calloc((size_t)sg_count(from), sizeof *to);
    for (int64_t r = 0; r < from.dim[0]; r++) {
        const int64_t at = r % d, pair = at % (d / 2), second = at / (d / 2);
        memcpy(to + (r - at + 2 * pair + second) * row, (const float *)from.data + r * row, (size_t)row * sizeof *to);
    }
    c->joined[i] = to;
    c->all[i].t.data = to;
}

enum { HEAD, EPSILON, THETA, MODEL, PRE, TOKENS, TYPES, MERGES, BOS, KEYS };

/* As llama.cpp converts the folder's text encoder and tokenizer. */
static void make_keys(gguf_key key[KEYS])
{
    json_error_t        why;
    json_t *const       file = json_load_file(HUNYUAN "/tokenizer/tokenizer.json", 0, &why);
    json_t *const       vocabulary = json_object_get(json_object_get(file, "model"), "vocab");
    const json_t *const added = json_object_get(file, "added_tokens");
    json_t *const tokens = json_array(), *const types = json_array(), *const merges = json_array();
    const char *text;
    json_t     *id;
    assert_non_null(file);
    for (size_t i = 0; i < json_object_size(vocabulary); i++) json_array_append_new(tokens, json_null());
    json_object_foreach(vocabulary, text, id)
    {
        json_array_set_new(tokens, (size_t)json_integer_value(id), json_string(text));
        json_array_append_new(types, json_integer(1));
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        json_array_append(tokens, json_object_get(json_array_get(added, i), "content"));
        json_array_append_new(types, json_integer(3));
    }
    json_array_append_new(tokens, json_string("[PAD571]"));
    json_array_append_new(types, json_integer(5));
    const json_t *const pairs = json_object_get(json_object_get(file, "model"), "merges");
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *const pair = json_array_get(pairs, i);
        json_array_append_new(merges, json_sprintf("%s %s", json_string_value(json_array_get(pair, 0)),
                                                   json_string_value(json_array_get(pair, 1))));
    }
    const gguf_key made[KEYS] = {
        [HEAD] = {.name = "llama.rope.dimension_count", .kind = 'u', .number = 8},
        [EPSILON] = {.name = "llama.attention.layer_norm_rms_epsilon", .kind = 'f', .number = 1e-5},
        [THETA] = {.name = "llama.rope.freq_base", .kind = 'f', .number = 500000},
        [MODEL] = {.name = "tokenizer.ggml.model", .kind = 's', .text = "gpt2"},
        [PRE] = {.name = "tokenizer.ggml.pre", .kind = 's', .text = "llama-bpe"},
        [TOKENS] = {.name = "tokenizer.ggml.tokens", .kind = 'S', .list = tokens},
        [TYPES] = {.name = "tokenizer.ggml.token_type", .kind = 'I', .list = types},
        [MERGES] = {.name = "tokenizer.ggml.merges", .kind = 'S', .list = merges},
        [BOS] = {.name = "tokenizer.ggml.bos_token_id", .kind = 'u', .number = 565},
    };
    memcpy(key, made, sizeof made);
    json_decref(file);
}

static void free_keys(gguf_key key[KEYS])
{
    for (int i = 0; i < KEYS; i++) json_decref(key[i].list);
}

static void write_llama(const char *path, const gguf_key key[KEYS])
{
    static const float factors[4] = {1, 1, 1, 1};
    put_component(&now, HUNYUAN, "text_encoder", &sg_llama_gguf_names, 0, "");
    for (int i = 0; i < now.count; i++)
        if (strstr(now.name[i], ".attn_q.") || strstr(now.name[i], ".attn_k.")) put_in_pairs(&now, i, 8);
    put(&now, "rope_freqs.weight",
        (sg_tensor){.data = (void *)(uintptr_t)factors, .dtype = SG_F32, .rank = 1, .dim = {4}});
    gguf_write(path, key, KEYS, now.all, now.count);
    take_out(&now);
}

static void llama_in_gguf_renders(void **state)
{
    gguf_key key[KEYS];
    make_keys(key);
    write_llama("llama.gguf", key);
    renders_as(HUNYUAN, HUNYUAN, &(sg_model_parts){.text_encoder = "llama.gguf"});
    /* without the folder, whose tokenizer is then in the file */
    assert_int_equal(system("mkdir -p parts"), 0);
    write_component("parts/dit.safetensors", HUNYUAN, "transformer", NULL, 0, "");
    write_component("parts/vae.safetensors", HUNYUAN, "vae", NULL, 0, "");
    write_component("parts/clip_l.safetensors", HUNYUAN, "text_encoder_2", NULL, 0, "");
    write_beside("parts", HUNYUAN, configs_of(HUNYUAN, (const char *const[]){"vae", "text_encoder_2", NULL}));
    const sg_model_parts parts = {.vae = "parts/vae.safetensors",
                                  .text_encoder = "llama.gguf",
                                  .clip_l = "parts/clip_l.safetensors",
                                  .clip_tokenizer = HUNYUAN "/tokenizer_2"};
    renders_as(HUNYUAN, "parts/dit.safetensors", &parts);
    free_keys(key);
}

/* What a GGUF's tokenizer must not be. */
static void a_tokenizer_that_does_not_fit_is_refused(void **state)
{
    static const struct {
        int         key;
        char        kind; /* 0: as it is */
        const char *text;
        double      number;
        const char *says;
    } of[] = {
        {PRE, 's', "qwen2", 0, "tokenizer.ggml.pre is qwen2; only llama-bpe, of Llama 3, is understood"},
        {PRE, 0, NULL, 0, "tokenizer.ggml.pre is missing"},
        {MODEL, 's', "llama", 0, "tokenizer.ggml.model is llama; only gpt2 is understood"},
        {TOKENS, 0, NULL, 0, "key \"tokenizer.ggml.tokens\": is missing"},
        {TOKENS, 's', "a", 0, "key \"tokenizer.ggml.token_type\": should be one number for each token"},
        {TYPES, 0, NULL, 0, "key \"tokenizer.ggml.token_type\": is missing"},
        {MERGES, 'u', NULL, 3, "key \"tokenizer.ggml.merges\": should be a list of texts"},
        {BOS, 'u', NULL, 572, "key \"tokenizer.ggml.bos_token_id\": is no token"},
    };
    gguf_key key[KEYS];
    make_keys(key);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_error          e = {0};
        sg_bpe_tokenizer *t = NULL;
        const gguf_key    was = key[of[i].key];
        key[of[i].key].kind = of[i].kind;
        key[of[i].key].text = of[i].text;
        key[of[i].key].number = of[i].number;
        gguf_write("bad.gguf", key, KEYS, NULL, 0);
        assert_int_not_equal(sg_bpe_tokenizer_open_inside(&t, "bad.gguf", &e), SG_OK);
        assert_null(t);
        if (!strstr(e.text, of[i].says) || !strstr(e.text, "bad.gguf"))
            fail_msg("\"%s\" lacks \"%s\"", e.text, of[i].says);
        key[of[i].key] = was;
    }
    free_keys(key);
}

/* ---- the tokenizer of CLIP-L for CLIP-G ---- */

static int ids_of(const sg_bpe_tokenizer *t, const char *text, int32_t out[32])
{
    sg_error e = {0};
    int32_t *ids = NULL;
    int      count = 0;
    assert_int_equal(sg_bpe_tokenizer_encode(t, text, strlen(text), 32, &ids, &count, &e), SG_OK);
    memcpy(out, ids, (size_t)count * sizeof *out);
    free(ids);
    return count;
}

/* As Stable Diffusion 3's tokenizer_2, which says that "!" is its pad token. */
static void a_pad_token_takes_the_place_of_the_folders(void **state)
{
    static const char *const config[] = {"{\"tokenizer_class\": \"CLIPTokenizer\", \"pad_token\": \"!\"}",
                                         "{\"tokenizer_class\": \"CLIPTokenizer\", \"pad_token\": \"<|endoftext|>\"}",
                                         "{\"tokenizer_class\": \"CLIPTokenizer\", \"pad_token\": \"<|endoftext|>\", "
                                         "\"added_tokens_decoder\": {\"256\": "
                                         "{\"content\": \"<|endoftext|>\", \"special\": true}}}"};
    static const char        text[] = "wow! a cat!!";
    int32_t                  want[32], have[32];
    int                      count = 0;
    assert_int_equal(system("cp -rL " HUNYUAN "/tokenizer_2 pads"), 0);
    for (size_t i = 0; i < sizeof config / sizeof *config; i++) {
        sg_error          e = {0};
        sg_bpe_tokenizer *t = NULL;
        write_text("pads/tokenizer_config.json", config[i]);
        if (sg_bpe_tokenizer_open_padded(&t, "pads", i ? "!" : NULL, &e)) fail_msg("%s", e.text);
        assert_int_equal(sg_bpe_tokenizer_pad(t), 0);
        if (i == 0) count = ids_of(t, text, want);
        assert_int_equal(ids_of(t, text, have), count);
        assert_memory_equal(have, want, (size_t)count * sizeof *have);
        sg_bpe_tokenizer_close(&t);
        if (sg_bpe_tokenizer_open(&t, "pads", &e)) fail_msg("%s", e.text);
        assert_true((i == 0) == (sg_bpe_tokenizer_pad(t) == 0)); /* the folder says otherwise */
        sg_bpe_tokenizer_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_in_gguf_renders),
        cmocka_unit_test(a_tokenizer_that_does_not_fit_is_refused),
        cmocka_unit_test(a_pad_token_takes_the_place_of_the_folders),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
