/* test_tokenizer_gguf.c - the SentencePiece model in a GGUF file's keys. */
#include "memory_source.h"
#include "t5_tokenizer_gguf.h"

/* ---- a source with keys only, encoded as in the file ---- */

enum { KEYS_MAX = 8, BYTES_MAX = 512 };

typedef struct keys {
    struct {
        const char    *name;
        sg_source_list value;
    } key[KEYS_MAX];
    size_t      count;
    const char *model;
    uint8_t     bytes[BYTES_MAX];
    size_t      used;
} keys;

static size_t      no_tensors(const void *of) { return of ? 0 : 1; }
static const char *keys_path(const void *of) { return of ? "m.gguf" : NULL; }
static void        keys_close(void *of) { (void)of; }

static const char *keys_text(const void *of, const char *key)
{
    return strcmp(key, "tokenizer.ggml.model") == 0 ? ((const keys *)of)->model : NULL;
}

static bool keys_list(const void *of, const char *name, sg_source_list *out)
{
    const keys *const k = of;
    for (size_t i = 0; i < k->count; i++)
        if (strcmp(k->key[i].name, name) == 0) {
            *out = k->key[i].value;
            return true;
        }
    return false;
}

static const sg_source_ops keys_ops = {
    .count = no_tensors, .metadata = keys_text, .list = keys_list, .path = keys_path, .close = keys_close};

static sg_source_list *put_key(keys *k, const char *name, char kind, int bytes, uint64_t count, const void *data,
                               size_t size)
{
    assert_true(k->count < KEYS_MAX && size <= BYTES_MAX - k->used);
    memcpy(k->bytes + k->used, data, size);
    k->key[k->count].name = name;
    k->key[k->count].value = (sg_source_list){count, kind, bytes, k->bytes + k->used};
    k->used += size;
    return &k->key[k->count++].value;
}

enum { TOKENS = 6 };
static const char *const texts[TOKENS] = {"<pad>", "</s>", "<unk>", "\342\226\201a", "[PAD4]", "[PAD5]"};
static const float       scores[TOKENS] = {0, 0, 0, -1.5f, -10000, -10000};
static const int32_t     piece_types[TOKENS] = {3, 3, 2, 1, 5, 5};

static sg_source_list *value(keys *k, const char *name)
{
    for (size_t i = 0; i < k->count; i++)
        if (strcmp(k->key[i].name, name) == 0) return &k->key[i].value;
    fail_msg("no key %s", name);
    return NULL;
}

static void make_keys(keys *k)
{
    uint8_t        bytes[256];
    size_t         used = 0;
    const uint32_t end = 1;
    *k = (keys){.model = "t5"};
    for (int i = 0; i < TOKENS; i++) {
        const uint64_t n = strlen(texts[i]);
        memcpy(bytes + used, &n, 8);
        memcpy(bytes + used + 8, texts[i], n);
        used += 8 + n;
    }
    put_key(k, "tokenizer.ggml.tokens", 's', 0, TOKENS, bytes, used);
    put_key(k, "tokenizer.ggml.scores", 'f', 4, TOKENS, scores, sizeof scores);
    put_key(k, "tokenizer.ggml.token_type", 'i', 4, TOKENS, piece_types, sizeof piece_types);
    put_key(k, "tokenizer.ggml.eos_token_id", 'u', 4, 1, &end, sizeof end);
    put_key(k, "tokenizer.ggml.add_space_prefix", 'u', 1, 1, "\1", 1);
    put_key(k, "tokenizer.ggml.precompiled_charsmap", 'u', 1, 3, "map", 3);
}

static sg_source *open_keys(keys *k)
{
    sg_source *s = NULL;
    assert_int_equal(sg_source_new(&s, &keys_ops, k, NULL), SG_OK);
    return s;
}

static void pieces_come_from_the_keys(void **state)
{
    keys                  k;
    sg_error              e = {0};
    sg_sentencepiece_file m;
    make_keys(&k);
    sg_source *s = open_keys(&k);
    assert_true(sg_sentencepiece_is_in(s));
    if (sg_sentencepiece_file_from(&m, s, &e)) fail_msg("%s", e.text);
    assert_int_equal(m.count, 4); /* those that pad are none */
    assert_true(m.complete);
    for (size_t i = 0; i < m.count; i++) {
        assert_int_equal(m.pieces[i].len, strlen(texts[i]));
        assert_memory_equal(m.pieces[i].text, texts[i], m.pieces[i].len);
        assert_true(m.pieces[i].score == scores[i]);
        assert_int_equal(m.pieces[i].type, piece_types[i]);
    }
    assert_int_equal(m.charsmap_size, 3);
    assert_memory_equal(m.charsmap, "map", 3);
    sg_sentencepiece_file_close(&m);
    sg_source_close(&s);
}

static void refuse(keys *k, sg_status code, const char *text)
{
    sg_error              e = {0};
    sg_sentencepiece_file m;
    sg_source            *s = open_keys(k);
    assert_refused(sg_sentencepiece_file_from(&m, s, &e), code, &e, text);
    sg_source_close(&s);
}

static void keys_that_make_no_tokenizer_are_refused(void **state)
{
    keys              k;
    const float       not_a_number[TOKENS] = {0, 0, 0, (float)INFINITY};
    const int32_t     strange[TOKENS] = {3, 3, 2, 7, 5, 5};
    const char *const missing[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"};
    char              text[160];
    for (int i = 0; i < 3; i++) {
        make_keys(&k);
        k.key[i].name = "other";
        snprintf(text, sizeof text, "m.gguf|key \"%s\"|missing", missing[i]);
        refuse(&k, SG_E_FORMAT, text);
        make_keys(&k);
        k.key[i].value.count = i ? TOKENS - 1 : 0;
        snprintf(text, sizeof text, "m.gguf|key \"%s\"|%s", missing[i], i ? "each token" : "list of texts");
        refuse(&k, SG_E_FORMAT, text);
    }
    make_keys(&k);
    value(&k, "tokenizer.ggml.scores")->data = (const uint8_t *)not_a_number;
    refuse(&k, SG_E_FORMAT, "m.gguf|tokenizer.ggml.tokens|token 3|finite");
    make_keys(&k);
    value(&k, "tokenizer.ggml.token_type")->data = (const uint8_t *)strange;
    refuse(&k, SG_E_FORMAT, "m.gguf|tokenizer.ggml.tokens|token 3|unknown type");
    make_keys(&k);
    k.bytes[8] = 0xff;
    refuse(&k, SG_E_FORMAT, "m.gguf|tokenizer.ggml.tokens|token 0|UTF-8");
    make_keys(&k);
    k.model = "llama";
    refuse(&k, SG_E_UNSUPPORTED, "m.gguf|tokenizer.ggml.model|llama|t5");
    k.model = NULL;
    refuse(&k, SG_E_UNSUPPORTED, "m.gguf|tokenizer.ggml.model|missing|t5");
    make_keys(&k);
    value(&k, "tokenizer.ggml.add_space_prefix")->data = (const uint8_t *)"";
    refuse(&k, SG_E_FORMAT, "m.gguf|key \"tokenizer.ggml.add_space_prefix\"|T5");
    make_keys(&k);
    value(&k, "tokenizer.ggml.eos_token_id")->data = (const uint8_t *)"\2\0\0";
    refuse(&k, SG_E_FORMAT, "m.gguf|key \"tokenizer.ggml.eos_token_id\"|\"</s>\"");
    value(&k, "tokenizer.ggml.eos_token_id")->data = (const uint8_t *)"\4\0\0";
    refuse(&k, SG_E_FORMAT, "m.gguf|key \"tokenizer.ggml.eos_token_id\"|no token");
    make_keys(&k);
    value(&k, "tokenizer.ggml.precompiled_charsmap")->bytes = 4;
    refuse(&k, SG_E_FORMAT, "m.gguf|key \"tokenizer.ggml.precompiled_charsmap\"|bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_come_from_the_keys),
        cmocka_unit_test(keys_that_make_no_tokenizer_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
