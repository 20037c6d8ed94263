/* test_bpe.c - byte-level tokenizers: words and ids against tokenizers and transformers, refusals, long texts. */
#include "bpe_tokenizer.h"
#include "bpe_words.h"
#include "unit.h"

#include "bpe_table.h"
#include "prompt_clean.h"

#include <jansson.h>

static const char *const names[] = {"m/tokenizer.json", "m/tokenizer_config.json", "m/vocab.json", "m/merges.txt"};
enum { TOKENIZER, CONFIG, VOCAB, MERGES, NAMES };

static int make_folder(void **state) { return enter_folder(state) || mkdir("m", 0700); }

static void empty_folder(void)
{
    for (int i = 0; i < NAMES; i++) remove(names[i]);
}

/* ---- the tokenizers of make_bpe_table.py ---- */

#define SPECIAL(name)                                                                                                  \
    "{\"__type\": \"AddedToken\", \"content\": \"" name                                                                \
    "\", \"lstrip\": false, \"normalized\": true, \"rstrip\": false}"
#define CLIP_CONFIG                                                                                                    \
    "{\"tokenizer_class\": \"CLIPTokenizer\", \"bos_token\": " SPECIAL("<|startoftext|>") ", \"eos_token\": " SPECIAL( \
        "<|endoftext|>") ", \"unk_token\": " SPECIAL("<|endoftext|>") ", \"model_max_length\": 77, \"pad_token\": "

static const char *const configs[TABLE_TOKENIZERS] = {NULL, NULL, CLIP_CONFIG "\"<|endoftext|>\"}",
                                                      CLIP_CONFIG "\"!\"}"};

static sg_bpe_tokenizer *open_folder(const char *path)
{
    sg_bpe_tokenizer *t = NULL;
    sg_error          e = {0};
    if (sg_bpe_tokenizer_open(&t, path, &e)) fail_msg("%s", e.text);
    return t;
}

/* Llama's folder, CLIP's, and CLIP's lists beside another configuration. */
static sg_bpe_tokenizer *open_number(int i)
{
    if (!configs[i]) return open_folder(i ? SG_BPE "/clip" : SG_BPE "/llama");
    empty_folder();
    assert_int_equal(symlink(SG_BPE "/clip/vocab.json", names[VOCAB]), 0);
    assert_int_equal(symlink(SG_BPE "/clip/merges.txt", names[MERGES]), 0);
    write_text(names[CONFIG], configs[i]);
    return open_folder("m");
}

static int encode(const sg_bpe_tokenizer *t, const char *text, size_t size, int max, int32_t **ids)
{
    int      count = -1;
    sg_error e = {0};
    *ids = NULL;
    if (sg_bpe_tokenizer_encode(t, text, size, max, ids, &count, &e)) fail_msg("%s", e.text);
    return count;
}

static void words_are_those_of_tokenizers(void **state)
{
    const int *want = table_words;
    for (int s = 0; s < TABLE_SPLITS; s++) {
        const sg_bpe_split *const split = sg_bpe_split_find(table_regex[s]);
        assert_non_null(split);
        for (int i = 0; i < TABLE_TEXTS; i++) {
            const size_t size = strlen(table_texts[i]);
            size_t       at = 0, bytes, end = 0;
            while ((bytes = sg_bpe_split_next(split, table_texts[i], size, &at)) > 0) {
                if (*want++ != (int)bytes) fail_msg("split %d, text %d: %zu bytes at %zu", s, i, bytes, at);
                assert_true(at >= end && (at == end || sg_bpe_split_drops_space(split)));
                at = end = at + bytes;
            }
            assert_int_equal(*want++, -1);
        }
    }
    assert_ptr_equal(want, table_words + sizeof table_words / sizeof *table_words);
    assert_null(sg_bpe_split_find("\\s+"));
}

static void ids_are_those_of_transformers(void **state)
{
    const int *want = table_ids;
    for (int k = 0; k < TABLE_TOKENIZERS; k++) {
        sg_bpe_tokenizer *t = open_number(k);
        for (int i = 0; i < TABLE_TEXTS; i++) {
            int32_t  *ids;
            const int count = encode(t, table_texts[i], strlen(table_texts[i]), 1000, &ids);
            for (int n = 0; n < count; n++)
                if (ids[n] != *want++) fail_msg("tokenizer %d, text %d: id %d is %d", k, i, n, (int)ids[n]);
            if (*want++ != -1) fail_msg("tokenizer %d, text %d: only %d ids", k, i, count);
            free(ids);
        }
        sg_bpe_tokenizer_close(&t);
    }
    assert_ptr_equal(want, table_ids + sizeof table_ids / sizeof *table_ids);
}

static uint32_t checksum(const int32_t *ids, int count)
{
    uint32_t h = 2166136261u;
    for (int i = 0; i < count; i++) h = (h ^ (uint32_t)ids[i]) * 16777619u;
    return h;
}

static void the_prompt_lists_ids_are_those_of_transformers(void **state)
{
    static char line[1 << 16];
    for (int k = 0; k < TABLE_TOKENIZERS; k++) {
        sg_bpe_tokenizer *t = open_number(k);
        FILE *const       f = fopen(SG_FIXTURES "/prompts_200.txt", "r");
        int               number = 0;
        assert_non_null(f);
        for (; fgets(line, sizeof line, f); number++) {
            int32_t      *ids;
            json_t *const entry = json_loads(line, 0, NULL), *const prompt = json_object_get(entry, "prompt");
            const int count = encode(t, json_string_value(prompt), json_string_length(prompt), 77, &ids);
            if (checksum(ids, count) != table_prompts[k][number]) fail_msg("tokenizer %d, prompt %d", k, number + 1);
            free(ids);
            json_decref(entry);
        }
        assert_int_equal(number, sizeof table_prompts[0] / sizeof *table_prompts[0]);
        fclose(f);
        sg_bpe_tokenizer_close(&t);
    }
}

static void the_end_stays_when_a_text_is_cut(void **state)
{
    for (int k = 0; k < 2; k++) {
        sg_bpe_tokenizer *t = open_number(k);
        int32_t          *whole, *cut;
        const char        text[] = "a cat plays the piano in a jazz club";
        const int         count = encode(t, text, sizeof text - 1, INT32_MAX, &whole);
        const int         fixed = sg_bpe_tokenizer_fixed(t);
        sg_error          e = {0};
        assert_int_equal(fixed, k + 1);
        assert_int_equal(encode(t, text, sizeof text - 1, 5, &cut), 5);
        for (int i = 0; i < 4; i++) assert_int_equal(cut[i], whole[i]);
        assert_int_equal(cut[4], k ? whole[count - 1] : whole[4]);
        free(cut);
        assert_int_equal(encode(t, text, sizeof text - 1, fixed, &cut), fixed);
        free(cut);
        cut = NULL;
        assert_int_equal(sg_bpe_tokenizer_encode(t, text, 1, fixed - 1, &cut, &(int){0}, &e), SG_E_ARG);
        assert_null(cut);
        free(whole);
        sg_bpe_tokenizer_close(&t);
    }
}

static void pads_and_sizes_are_named(void **state)
{
    static const int pads[TABLE_TOKENIZERS] = {908, 822, 822, 0}, sizes[TABLE_TOKENIZERS] = {909, 823, 823, 823};
    for (int k = 0; k < TABLE_TOKENIZERS; k++) {
        sg_bpe_tokenizer *t = open_number(k);
        assert_int_equal(sg_bpe_tokenizer_pad(t), pads[k]);
        assert_int_equal(sg_bpe_tokenizer_vocab(t), sizes[k]);
        sg_bpe_tokenizer_close(&t);
    }
}

static void texts_are_refused(void **state)
{
    sg_bpe_tokenizer *t = open_number(0);
    int32_t          *ids = NULL;
    int               count = 7;
    sg_error          e = {0};
    char *const       long_text = calloc(1, SG_PROMPT_MAX + 1);
    assert_refused(sg_bpe_tokenizer_encode(t, "a\377", 2, 9, &ids, &count, &e), SG_E_ARG, &e, "byte 1 (0xff)");
    assert_refused(sg_bpe_tokenizer_encode(t, long_text, SG_PROMPT_MAX + 1, 9, &ids, &count, &e), SG_E_ARG, &e,
                   "more than");
    assert_null(ids);
    assert_int_equal(count, 7);
    free(long_text);
    sg_bpe_tokenizer_close(&t);
}

/* One word, white space, combining marks in the wrong order, many words: what takes time by the square takes hours here. */
static void the_longest_texts_are_short_work(void **state)
{
    static const char *const parts[] = {"a", " ", "\n ", "\314\201\314\243", "ab", "'s"};
    char *const              text = malloc(SG_PROMPT_MAX);
    for (int k = 0; k < 2; k++) {
        sg_bpe_tokenizer *t = open_number(k);
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            const size_t n = strlen(parts[i]), size = SG_PROMPT_MAX / n * n;
            int32_t     *ids;
            for (size_t at = 0; at < size; at += n) memcpy(text + at, parts[i], n);
            assert_true(encode(t, text, size, INT32_MAX, &ids) >= 1);
            free(ids);
        }
        sg_bpe_tokenizer_close(&t);
    }
    free(text);
}

/* ---- small ones, made here ---- */

#define VOCABULARY "{\"a\": 0, \"b\": 1, \"ab\": 2, \"c\": 3, \"?\": 4}"
#define LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"
#define JSON(model, more) "{\"pre_tokenizer\": " LEVEL ", \"model\": {" model "}" more "}"
#define MODEL "\"type\": \"BPE\", \"vocab\": " VOCABULARY ", \"merges\": [[\"a\", \"b\"]]"

static void expect(const char *json, const char *config, const char *text, const char *want)
{
    char     have[128] = "";
    int32_t *ids;
    empty_folder();
    write_text(names[TOKENIZER], json);
    if (config) write_text(names[CONFIG], config);
    sg_bpe_tokenizer *t = open_folder("m");
    const int         count = encode(t, text, strlen(text), 100, &ids);
    for (int i = 0; i < count; i++) snprintf(have + strlen(have), sizeof have - strlen(have), "%d ", (int)ids[i]);
    assert_string_equal(have, want);
    free(ids);
    sg_bpe_tokenizer_close(&t);
}

static void small_models_do_as_they_say(void **state)
{
    static const char bos[] =
        "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\", \"add_bos_token\": true, \"add_eos_token\": true}";
    expect(JSON(MODEL, ""), NULL, "abcab", "2 3 2 ");
    expect(JSON(MODEL, ""), NULL, "azb", "2 "); /* a byte that nobody knows makes no token */
    expect(JSON(MODEL ", \"unk_token\": \"?\"", ""), NULL, "azb", "0 4 1 ");
    expect(JSON(MODEL, ", \"normalizer\": {\"type\": \"Lowercase\"}"), NULL, "ABC", "2 3 ");
    expect(JSON(MODEL, ""), bos, "ab", "5 2 6 ");
    expect(JSON(MODEL, ""), bos, "a</s>b", "5 0 6 1 6 ");
    /* Without merges that make it a word of the vocabulary stays in parts, but for ignore_merges. */
    expect(JSON("\"vocab\": " VOCABULARY ", \"merges\": []", ""), NULL, "ab", "0 1 ");
    expect(JSON("\"vocab\": " VOCABULARY ", \"merges\": [], \"ignore_merges\": true", ""), NULL, "ab", "2 ");
    expect("{\"pre_tokenizer\": " LEVEL ", \"model\": {\"vocab\": {}, \"merges\": []}}", NULL, "a", "");
}

/* Of all pairs the first of the list, of equal ones the leftmost. */
static void merges_go_by_their_order(void **state)
{
#define LADDER "\"vocab\": {\"a\": 0, \"b\": 1, \"aa\": 2, \"ab\": 3, \"aab\": 4, \"aaa\": 5}, \"merges\": "
    expect(JSON(LADDER "[\"a b\", \"a a\", \"a ab\"]", ""), NULL, "aab", "4 ");
    expect(JSON(LADDER "[\"a a\", \"a b\", \"a ab\"]", ""), NULL, "aab", "2 1 ");
    expect(JSON(LADDER "[\"a a\", \"aa a\"]", ""), NULL, "aaaaa", "2 5 ");
    expect(JSON(LADDER "[\"a b\", \"a a\", \"a b\"]", ""), NULL, "aab", "2 1 "); /* the later of two counts */
}

static void refuse(const char *json, const char *config, sg_status status, const char *why)
{
    sg_bpe_tokenizer *t = NULL;
    sg_error          e = {0};
    empty_folder();
    if (json) write_text(names[TOKENIZER], json);
    if (config) write_text(names[CONFIG], config);
    assert_refused(sg_bpe_tokenizer_open(&t, "m", &e), status, &e, "m", why);
    assert_null(t);
}

static void files_are_refused(void **state)
{
    static const struct {
        const char *json;
        sg_status   status;
        const char *why;
    } cases[] = {
        {"[]", SG_E_FORMAT, "tokenizer.json"},
        {"{}", SG_E_FORMAT, "model.vocab"},
        {"{\"model\": {\"type\": \"Unigram\"}}", SG_E_UNSUPPORTED, "model.type"},
        {"{\"model\": {\"vocab\": {}}}", SG_E_FORMAT, "model.merges"},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}", SG_E_UNSUPPORTED, "pre_tokenizer"},
        {JSON("\"vocab\": {\"a\": 1}, \"merges\": []", ""), SG_E_FORMAT, "id|\"a\""},
        {JSON("\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []", ""), SG_E_FORMAT, "id|\"b\""},
        {JSON("\"vocab\": {\"a\": -1}, \"merges\": []", ""), SG_E_FORMAT, "id|\"a\""},
        {JSON("\"vocab\": {\"\": 0}, \"merges\": []", ""), SG_E_FORMAT, "id|\"\""},
        {JSON("\"vocab\": {\"a\": 0, \"a\": 1}, \"merges\": []", ""), SG_E_FORMAT, "duplicate"},
        {JSON("\"vocab\": " VOCABULARY ", \"merges\": [\"a z\"]", ""), SG_E_FORMAT, "entry 0|\"az\""},
        {JSON("\"vocab\": " VOCABULARY ", \"merges\": [\"a b\", \"ab\"]", ""), SG_E_FORMAT, "entry 1|parts"},
        {JSON("\"vocab\": " VOCABULARY ", \"merges\": [\"a b c\"]", ""), SG_E_FORMAT, "entry 0|parts"},
        {JSON("\"vocab\": " VOCABULARY ", \"merges\": [[\"a\"]]", ""), SG_E_FORMAT, "neither"},
        {JSON(MODEL ", \"dropout\": 0.1", ""), SG_E_UNSUPPORTED, "dropout"},
        {JSON(MODEL ", \"byte_fallback\": true", ""), SG_E_UNSUPPORTED, "byte_fallback"},
        {JSON(MODEL ", \"unk_token\": \"?\", \"fuse_unk\": true", ""), SG_E_UNSUPPORTED, "fuse_unk"},
        {JSON(MODEL ", \"unk_token\": \"x\"", ""), SG_E_FORMAT, "unknown|token \"x\""},
        {JSON(MODEL ", \"end_of_word_suffix\": 3", ""), SG_E_FORMAT, "end_of_word_suffix"},
        {JSON(MODEL ", \"end_of_word_suffix\": \"0123456789abcdefg\"", ""), SG_E_UNSUPPORTED, "suffix"},
        {JSON(MODEL, ", \"normalizer\": {\"type\": \"NFKC\"}"), SG_E_UNSUPPORTED, "normalizer"},
        {JSON(MODEL, ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Lowercase\"}, "
                     "{\"type\": \"NFC\"}]}"),
         SG_E_UNSUPPORTED, "normalizer"},
        {JSON(MODEL, ", \"post_processor\": {\"type\": \"BertProcessing\"}"), SG_E_UNSUPPORTED, "post_processor"},
        {JSON(MODEL, ", \"post_processor\": {\"type\": \"TemplateProcessing\"}"), SG_E_UNSUPPORTED,
         "post_processor.single"},
        {JSON(MODEL,
              ", \"post_processor\": {\"type\": \"RobertaProcessing\", \"cls\": [\"a\", 0], \"sep\": [\"z\", 99]}"),
         SG_E_FORMAT, "post_processor"},
        {"{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true}, \"model\": {" MODEL "}}",
         SG_E_UNSUPPORTED, "pre_tokenizer"},
        {"{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": "
         "{\"Regex\": \"a+b\"},"
         "\"behavior\": \"Isolated\"}, " LEVEL "]}, \"model\": {" MODEL "}}",
         SG_E_UNSUPPORTED, "pre_tokenizer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse(cases[i].json, NULL, cases[i].status, cases[i].why);
    refuse(NULL, NULL, SG_E_FILE, "vocab.json: not there");
    refuse(NULL, "{\"tokenizer_class\": \"Qwen2Tokenizer\"}", SG_E_UNSUPPORTED, "Qwen2Tokenizer|tokenizer.json");
    refuse(JSON(MODEL, ""), "{\"tokenizer_class\": 3}", SG_E_FORMAT, "tokenizer_class");
    empty_folder();
    write_text(names[VOCAB], "{\"a\": 0, \"<|endoftext|>\": 1}");
    sg_error          e = {0};
    sg_bpe_tokenizer *t = NULL;
    assert_refused(sg_bpe_tokenizer_open(&t, "m", &e), SG_E_FILE, &e, "merges.txt");
    write_text(names[MERGES], "#version: 0.2\na b\n");
    assert_refused(sg_bpe_tokenizer_open(&t, "m", &e), SG_E_FORMAT, &e, "merges.txt|merges|entry 0");
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_those_of_tokenizers),
        cmocka_unit_test(ids_are_those_of_transformers),
        cmocka_unit_test(the_prompt_lists_ids_are_those_of_transformers),
        cmocka_unit_test(the_end_stays_when_a_text_is_cut),
        cmocka_unit_test(pads_and_sizes_are_named),
        cmocka_unit_test(texts_are_refused),
        cmocka_unit_test(the_longest_texts_are_short_work),
        cmocka_unit_test(small_models_do_as_they_say),
        cmocka_unit_test(merges_go_by_their_order),
        cmocka_unit_test(files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_folder);
}
