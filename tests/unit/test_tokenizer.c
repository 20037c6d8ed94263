/* test_tokenizer.c - token ids: a small model made here, and the fixtures' ids from transformers. */
#include "t5_tokenizer.h"
#include "unit.h"

#include "memory_source.h"
#include "spiece_maker.h"
#include "tokenizer_gguf.h"

#include <jansson.h>

#define MARK "\342\226\201"
#define BYTES(s) s, sizeof(s) - 1

static maker model, part;

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };
enum { PAD, END, UNK, M, MA, A, B, AB, AA, C, F, UDS, TWO, FI, PIECES };

static void add_pieces(maker *m)
{
    maker_piece(m, "<pad>", 0, CONTROL);
    maker_piece(m, "</s>", 0, CONTROL);
    maker_piece(m, "<unk>", 0, UNKNOWN);
    maker_piece(m, MARK, -2, NORMAL);
    maker_piece(m, MARK "a", -3, NORMAL);
    maker_piece(m, "a", -4, NORMAL);
    maker_piece(m, "b", -4, NORMAL);
    maker_piece(m, "ab", -7, NORMAL);
    maker_piece(m, "aa", -8, NORMAL); /* as much as two of "a" */
    maker_piece(m, "c", -5, NORMAL);
    maker_piece(m, "f", -5, NORMAL);
    maker_piece(m, "[u]", -1, USER);
    maker_piece(m, "a" MARK "b", 0, NORMAL); /* two words: never found */
    maker_piece(m, "fi", -6, UNUSED);
}

static void add_normalizer(maker *m)
{
    static const char *const pairs[][2] = {
        {"A", "a"}, {"\357\254\201", "fi"}, {"\302\240", " "}, {"X", ""}, {"e\314\201", "b"}, {"\342\221\240", "c"},
    };
    maker_charsmap(&part, pairs, sizeof pairs / sizeof *pairs);
    static maker normalizer;
    normalizer.len = 0;
    maker_bytes(&normalizer, 1, "test", 4);
    maker_bytes(&normalizer, 2, part.at, part.len);
    maker_bytes(m, 3, normalizer.at, normalizer.len);
}

static void add_trainer(maker *m)
{
    static maker trainer;
    trainer.len = 0;
    maker_int(&trainer, 3, 1);
    maker_bytes(m, 2, trainer.at, trainer.len);
}

static void make_model(void)
{
    model.len = 0;
    add_pieces(&model);
    add_trainer(&model);
    add_normalizer(&model);
}

static void write_json(const char *name, const char *text) { maker_file("m", name, text, text ? strlen(text) : 0); }

static void refuse_folder(sg_status code, const char *why)
{
    sg_t5_tokenizer *t = NULL;
    sg_error         e = {0};
    assert_refused(sg_t5_tokenizer_open(&t, "m", &e), code, &e, "m", why);
    assert_null(t);
}

/* The folder with that model and these files; NULL for none. */
static void write_folder(const char *config, const char *tokenizer)
{
    maker_file("m", "spiece.model", model.at, model.len);
    write_json("tokenizer_config.json", config);
    write_json("tokenizer.json", tokenizer);
    write_json("special_tokens_map.json", NULL);
    write_json("added_tokens.json", NULL);
}

static int make_folder(void **state)
{
    make_model();
    return enter_folder(state) || mkdir("m", 0700);
}

static sg_t5_tokenizer *open_folder(void)
{
    sg_t5_tokenizer *t = NULL;
    sg_error         e = {0};
    if (sg_t5_tokenizer_open(&t, "m", &e)) fail_msg("%s", e.text);
    return t;
}

static void check_ids(const sg_t5_tokenizer *t, const char *text, size_t len, int max_len, const int32_t *wanted,
                      int count)
{
    int32_t *ids = NULL;
    int      n = 0;
    sg_error e = {0};
    if (sg_t5_tokenizer_encode(t, text, len, max_len, &ids, &n, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < n && i < count; i++)
        if (ids[i] != wanted[i]) fail_msg("\"%s\": id %d is %d, not %d", text, i, ids[i], wanted[i]);
    if (n != count) fail_msg("\"%s\": %d ids, not %d", text, n, count);
    free(ids);
}

#define check(t, text, ...)                                                                                            \
    check_ids(t, BYTES(text), 512, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static void takes_the_best_pieces(void **state)
{
    write_folder(NULL, NULL);
    sg_t5_tokenizer *t = open_folder();
    check(t, "", END);
    check(t, " \t\n ", END);
    check(t, "a", MA, END);
    check(t, "ab b", MA, B, M, B, END);
    check(t, "cab", M, C, AB, END);
    check(t, "caa", M, C, AA, END); /* equal sums: what was found first, from the earlier start, stays */
    check(t, "caaa", M, C, A, AA, END);
    check(t, "fi", M, FI, END); /* unused pieces are pieces */
    check(t, "a" MARK "b", MA, M, B, END);
    check(t, MARK "a", MA, END);
    check(t, MARK MARK "a" MARK, M, MA, M, END);
    check(t, "a\302\205b\343\200\200c", MA, M, B, M, C, END); /* U+0085 and U+3000 */
    check(t, "a\034b", MA, UNK, B, END);                      /* U+001C is not white space here */
    assert_int_equal(sg_t5_tokenizer_vocab(t), PIECES + 100);
    sg_t5_tokenizer_close(&t);
    assert_null(t);
    sg_t5_tokenizer_close(&t);
}

static void unites_unknown_characters(void **state)
{
    write_folder(NULL, NULL);
    sg_t5_tokenizer *t = open_folder();
    check(t, "xyz", M, UNK, END);
    check(t, "a\360\237\230\200\360\237\230\200b\342\230\203", MA, UNK, B, UNK, END);
    check(t, "x x", M, UNK, M, UNK, END);
    sg_t5_tokenizer_close(&t);
}

static void normalises_by_grapheme(void **state)
{
    write_folder(NULL, NULL);
    sg_t5_tokenizer *t = open_folder();
    check(t, "A\302\240A", MA, MA, END);
    check(t, "b\357\254\201", M, B, FI, END);
    check(t, "aXb X", MA, B, END);
    check(t, "ce\314\201", M, C, B, END);
    check(t, "ce\314\201\314\201", M, C, B, END);        /* five bytes: the rest of the grapheme goes too */
    check(t, "A\314\201\314\201\314\201", MA, UNK, END); /* seven: character by character */
    check(t, "\342\221\240\314\201a", M, C, A, END);
    sg_t5_tokenizer_close(&t);
}

static void cuts_out_added_tokens(void **state)
{
    write_folder(NULL, NULL);
    sg_t5_tokenizer *t = open_folder();
    check(t, "a</s>b", MA, END, M, B, END);
    check(t, "a </s><pad> b", MA, END, PAD, M, B, END);
    check(t, "<extra_id_0><extra_id_99>a", PIECES + 99, PIECES, MA, END);
    check(t, "a[u]b", MA, UDS, M, B, END);
    check(t, "<unk>", UNK, END);
    check(t, "<extra_id_100", M, UNK, A, UNK, END);
    sg_t5_tokenizer_close(&t);

    write_folder(
        "{\"tokenizer_class\": \"T5Tokenizer\", \"model_max_length\": 1000000000000000019884624838656, \"extra_ids\": "
        "2, \"pad_token\": \"<pad>\","
        "\"added_tokens_decoder\": {\"40\": {\"content\": \"new\", \"normalized\": false, \"single_word\": true},"
        "\"5\": {\"content\": \"newer\", \"special\": true}, \"0\": {\"content\": \"<pad>\"},"
        "\"41\": {\"content\": \"Af\", \"lstrip\": true}},"
        "\"eos_token\": \"</s>\", \"mask_token\": \"a\"}",
        NULL);
    t = open_folder();
    const int newer = PIECES + 2, new = newer + 1, af = newer + 2;
    assert_int_equal(sg_t5_tokenizer_vocab(t), af + 1);
    check(t, "newer", newer, END); /* the longest */
    check(t, "new newb", new, M, UNK, B, END);
    check(t, "new\314\201 _new -new", M, UNK, M, UNK, M, UNK, new, END);
    check(t, "fafAf", M, F, A, M, F, af, END); /* mask_token is looked for in the raw text, "Af" after A has become a */
    check(t, "<extra_id_1>", PIECES, END);
    check(t, "<pad>", PAD, END); /* a named one is raw unless it says otherwise */
    sg_t5_tokenizer_close(&t);
}

static const char tokenizer_json[] =
    "{\"added_tokens\": [{\"id\": 1, \"content\": \"</s>\", \"special\": true, \"normalized\": false, \"lstrip\": "
    "false,"
    "\"rstrip\": false, \"single_word\": false}],"
    "\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
    "\"WhitespaceSplit\"},"
    "{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"prepend_scheme\": \"always\", \"split\": true}]},"
    "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": "
    "0}},"
    "{\"SpecialToken\": {\"id\": \"</s>\", \"type_id\": 0}}], \"pair\": [{\"Sequence\": {\"id\": \"A\", \"type_id\": "
    "0}},"
    "{\"Sequence\": {\"id\": \"B\", \"type_id\": 1}}], \"special_tokens\": {\"</s>\": {\"id\": \"</s>\","
    "\"ids\": [1], \"tokens\": [\"</s>\"]}}},"
    "\"model\": {\"type\": \"Unigram\", \"unk_id\": 3, \"byte_fallback\": true, \"vocab\": [[\"<pad>\", 0], [\"</s>\", "
    "0],"
    "[\"<s>\", 0.0], [\"<unk>\", 0.0], [\"" MARK "\", -2.0], [\"a\", -3.0], [\"<0xE2>\", 0], [\"<0x98>\", 0],"
    "[\"<0x83>\", 0], [\"tail\", -1.5]]}}";

static void make_byte_model(void)
{
    model.len = 0;
    maker_piece(&model, "<pad>", 0, CONTROL);
    maker_piece(&model, "</s>", 0, CONTROL);
    maker_piece(&model, "<s>", 0, CONTROL);
    maker_piece(&model, "<unk>", 0, UNKNOWN);
    maker_piece(&model, MARK, -2, NORMAL);
    maker_piece(&model, "a", -3, NORMAL);
    maker_piece(&model, "<0xE2>", 0, BYTE);
    maker_piece(&model, "<0x98>", 0, BYTE);
    maker_piece(&model, "<0x83>", 0, BYTE);
}

static void falls_back_to_bytes_by_config(void **state)
{
    make_byte_model();
    write_folder("{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}", tokenizer_json);
    sg_t5_tokenizer *t = open_folder();
    assert_int_equal(sg_t5_tokenizer_vocab(t), 10);
    check(t, "a\342\230\203", 4, 5, 6, 7, 8, 1);
    check(t, "\342\230\203\342\230\203", 4, 6, 7, 8, 6, 7, 8, 1);
    check(t, "\342\230\204", 4, 3, 1); /* a byte has no piece */
    check(t, "\342\230\203x", 4, 3, 1);
    check(t, "a<0x98>tail", 4, 5, 7, 9, 1);
    check(t, "<s>", 4, 2, 1); /* no added token here, but a piece */
    sg_t5_tokenizer_close(&t);
    write_folder("{\"tokenizer_class\": \"T5TokenizerFast\", \"extra_special_tokens\": [\"<s>\"]}", tokenizer_json);
    t = open_folder();
    check(t, "a\342\230\203 <s>", 4, 5, 3, 2, 1); /* the T5 rules: the id of unk_token, and no bytes */
    sg_t5_tokenizer_close(&t);
    write_folder("{\"tokenizer_class\": \"T5Tokenizer\", \"unk_token\": \"none\"}", tokenizer_json);
    t = open_folder();
    check(t, "a\342\230\203", 4, 5, 2, 1);
    sg_t5_tokenizer_close(&t);
    /* as google/mt5-xxl is, and as transformers 4 may save it: pieces of bytes, which nobody falls back to */
    static const char *const mt5[] = {"T5Tokenizer", "MT5Tokenizer", "MT5TokenizerFast"};
    add_trainer(&model);
    for (size_t i = 0; i < sizeof mt5 / sizeof *mt5; i++) {
        char config[80];
        snprintf(config, sizeof config, "{\"tokenizer_class\": \"%s\", \"extra_ids\": 0}", mt5[i]);
        write_folder(config, NULL);
        t = open_folder();
        assert_int_equal(sg_t5_tokenizer_vocab(t), 9);
        check(t, "a\342\230\203 <0x98> <extra_id_0>", 4, 5, 3, 4, 7, 4, 3, 5, 3, 1);
        sg_t5_tokenizer_close(&t);
    }
    make_model();
}

static void names_the_pad(void **state)
{
    const struct {
        const char *config;
        int32_t     pad;
    } cases[] = {{NULL, PAD},
                 {"{\"tokenizer_class\": \"T5Tokenizer\", \"pad_token\": null}", PAD},
                 {"{\"tokenizer_class\": \"T5Tokenizer\", \"pad_token\": \"[u]\"}", UDS},
                 {"{\"tokenizer_class\": \"T5Tokenizer\", \"pad_token\": {\"content\": \"</s>\"}}", END}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_folder(cases[i].config, NULL);
        sg_t5_tokenizer *t = open_folder();
        assert_int_equal(sg_t5_tokenizer_pad(t), cases[i].pad);
        sg_t5_tokenizer_close(&t);
    }
    make_byte_model();
    write_folder("{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}", tokenizer_json);
    sg_t5_tokenizer *t = open_folder();
    assert_int_equal(sg_t5_tokenizer_pad(t), -1);
    sg_t5_tokenizer_close(&t);
    make_model();
}

static void cuts_to_length(void **state)
{
    write_folder(NULL, NULL);
    sg_t5_tokenizer *t = open_folder();
    const char       text[] = "cab a <pad>";
    const int32_t    whole[] = {M, C, AB, MA, PAD};
    for (int max_len = 1; max_len < 8; max_len++) {
        int32_t   wanted[8];
        const int n = max_len < 6 ? max_len : 6;
        for (int i = 0; i < n - 1; i++) wanted[i] = whole[i];
        wanted[n - 1] = END;
        check_ids(t, BYTES(text), max_len, wanted, n);
    }
    char *megabyte = malloc(1 << 20);
    assert_non_null(megabyte);
    memset(megabyte, 'a', 1 << 20);
    check_ids(t, megabyte, 1 << 20, 3, (const int32_t[]){MA, A, END}, 3);
    for (int i = 0; i < 1 << 20; i += 2) megabyte[i] = ' ';
    check_ids(t, megabyte, 1 << 20, 3, (const int32_t[]){MA, MA, END}, 3);
    free(megabyte);
    sg_t5_tokenizer_close(&t);
}

static void refuse_text(const sg_t5_tokenizer *t, const char *text, size_t len, int max_len, const char *why)
{
    int32_t *ids = NULL;
    int      n = -1;
    sg_error e = {0};
    assert_refused(sg_t5_tokenizer_encode(t, text, len, max_len, &ids, &n, &e), SG_E_ARG, &e, why);
    assert_null(ids);
    assert_int_equal(n, -1);
}

static void refuses_bad_texts(void **state)
{
    write_folder(NULL, NULL);
    sg_t5_tokenizer *t = open_folder();
    refuse_text(t, BYTES("a\200"), 512, "byte 1 (0x80)");
    refuse_text(t, BYTES("a"), 0, "max_len is 0");
    refuse_text(t, "", ((size_t)1 << 20) + 1, 512, "1048577 bytes");
    sg_t5_tokenizer_close(&t);
}

static void refuses_missing_files(void **state)
{
    write_folder(NULL, NULL);
    maker_file("m", "spiece.model", NULL, 0);
    refuse_folder(SG_E_FILE, "spiece.model|opened");
    write_json("tokenizer.json", "{}");
    refuse_folder(SG_E_FILE, "tokenizer.json|enough");
}

static void refuse_model(const char *why)
{
    write_folder(NULL, NULL);
    refuse_folder(SG_E_FORMAT, why);
}

static void refuses_broken_models(void **state)
{
    const struct {
        const char *text;
        float       score;
        int         type;
        const char *why;
    } pieces[] = {
        {"", 0, NORMAL, "piece 14|empty"},     {"\377", 0, NORMAL, "piece 14|UTF-8"},
        {"n", NAN, NORMAL, "piece 14|finite"}, {"n", INFINITY, NORMAL, "piece 14|finite"},
        {"n", 0, 7, "piece 14|unknown"},       {"n", 0, 0, "piece 14|unknown"},
        {"ab", 0, NORMAL, "14|vocabulary"},
    };
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        make_model();
        maker_piece(&model, pieces[i].text, pieces[i].score, pieces[i].type);
        refuse_model(pieces[i].why);
    }
    static char longest[1024];
    memset(longest, 'a', sizeof longest - 1);
    make_model();
    maker_piece(&model, longest, 0, NORMAL);
    refuse_model("longer|512 bytes");
    make_model();
    maker_bytes(&model, 1, "\012\003a\000b", 5);
    refuse_model("holds a NUL");
    make_model();
    maker_bytes(&model, 1, "\012\377", 2);
    refuse_model("SentencePiece|message");
    model.len = 0;
    refuse_model("file|empty");
    maker_put(&model, "\040\001", 2); /* field 4 alone */
    refuse_model("has no pieces");
    model.len = 0;
    maker_put(&model, "{\"a\": 1}", 8);
    refuse_model("broken|byte 0");
    make_model();
    maker_varint(&model, 1 << 3 | 2);
    maker_varint(&model, UINT64_MAX);
    refuse_model("broken at byte");
    make_model();
    maker_bytes(&model, 2, "\030\002", 2);
    write_folder(NULL, NULL);
    refuse_folder(SG_E_UNSUPPORTED, "model_type is 2");
    make_model();
}

/* Every cut of the model is refused or is a model of fewer pieces; none is read past its end (the sanitizers watch). */
static void survives_every_cut(void **state)
{
    make_model();
    for (size_t len = 0; len < 400 && len < model.len; len++) {
        maker_file("m", "spiece.model", model.at, len);
        sg_t5_tokenizer *t = NULL;
        sg_error         e = {0};
        if (sg_t5_tokenizer_open(&t, "m", &e) == SG_OK) sg_t5_tokenizer_close(&t);
        assert_null(t);
    }
}

static void refuse_map(const void *map, size_t n, const char *why)
{
    static maker normalizer;
    model.len = normalizer.len = 0;
    add_pieces(&model);
    maker_bytes(&normalizer, 2, map, n);
    maker_bytes(&model, 3, normalizer.at, normalizer.len);
    refuse_model(why);
}

static void refuses_broken_maps(void **state)
{
    make_model();
    refuse_map("abc", 3, "trie|0 bytes");
    refuse_map("\0\0\0\0a", 5, "trie|0 bytes");
    refuse_map("\377\377\377\377abcd", 8, "trie|4294967295 bytes");
    refuse_map("\2\0\0\0abcd", 8, "trie|2 bytes");
    refuse_map("\4\0\0\0abcd", 8, "not NUL-terminated UTF-8");
    refuse_map("\4\0\0\0abcd\377", 10, "not NUL-terminated UTF-8");
    refuse_map("\4\0\0\0\0\1\1\1ab", 11, "strings");            /* the place of the value */
    refuse_map("\10\0\0\0\0\5\0\0\3\0\0\200ab", 15, "strings"); /* the value */
    make_model();
}

static void refuse_json(sg_status code, const char *config, const char *tokenizer, const char *why)
{
    write_folder(config, tokenizer);
    refuse_folder(code, why);
}

static void refuses_broken_json(void **state)
{
    make_model();
    refuse_json(SG_E_FORMAT, "{", NULL, "tokenizer_config.json: line 1");
    refuse_json(SG_E_FORMAT, "[]", NULL, "tokenizer_config.json|JSON");
    refuse_json(SG_E_FORMAT, "{\"a\": 1, \"a\": 2}", NULL, "duplicate");
    refuse_json(SG_E_FORMAT, "{\"tokenizer_class\": 3}", NULL, "tokenizer_class|string");
    refuse_json(SG_E_UNSUPPORTED, "{\"tokenizer_class\": \"LlamaTokenizer\"}", NULL, "LlamaTokenizer");
    refuse_json(SG_E_UNSUPPORTED, "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}", NULL, "needs a tokenizer.json");
    refuse_json(SG_E_UNSUPPORTED, "{\"split_special_tokens\": true}", NULL, "split_special_tokens");
    refuse_json(SG_E_FORMAT, "{\"extra_ids\": -1}", NULL, "extra_ids");
    refuse_json(SG_E_FORMAT, "{\"extra_ids\": 1000000000}", NULL, "extra_ids");
    refuse_json(SG_E_FORMAT, "{\"added_tokens_decoder\": []}", NULL, "added_tokens_decoder|object");
    refuse_json(SG_E_FORMAT, "{\"added_tokens_decoder\": {\"-1\": {\"content\": \"x\"}}}", NULL, "a token id");
    refuse_json(SG_E_FORMAT, "{\"added_tokens_decoder\": {\"99999999999\": {\"content\": \"x\"}}}", NULL, "a token id");
    refuse_json(SG_E_FORMAT, "{\"added_tokens_decoder\": {\"1\": 5}}", NULL, "neither a string");
    refuse_json(SG_E_FORMAT, "{\"pad_token\": \"\"}", NULL, "added|empty");
    refuse_json(SG_E_FORMAT, "{\"pad_token\": \"a\\u0000b\"}", NULL, "pad_token");
    refuse_json(SG_E_FORMAT, NULL, "{}", "model.vocab: missing");
    refuse_json(SG_E_UNSUPPORTED, NULL, "{\"model\": {\"type\": \"BPE\", \"vocab\": []}}", "model.type");
    refuse_json(SG_E_FORMAT, NULL, "{\"model\": {\"vocab\": []}}", "entry 0|piece 0|spiece.model");
    refuse_json(SG_E_FORMAT, NULL, tokenizer_json, "entry 2|piece 2|spiece.model");
}

/* tokenizer_json with `from`, which it holds, replaced by `to`. */
static const char *changed(const char *from, const char *to)
{
    static char text[4096];
    const char *at = strstr(tokenizer_json, from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - tokenizer_json), tokenizer_json, to, at + strlen(from));
    return text;
}

/* A Metaspace that splits the text alone, under each normalizer that is published with one. The ids are those of the
 * tokenizers library. */
static void metaspace_has_a_mark_for_each_space(void **state)
{
    static const char words[] =
        "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"WhitespaceSplit\"},"
        "{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"prepend_scheme\": \"always\", \"split\": true}]}";
    static const char        alone[] = "{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", ";
    static const char        several[] = "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, \"content\": ";
    static const char        strip[] = "{\"type\": \"Strip\", \"strip_left\": %s, \"strip_right\": %s}";
    static const char *const texts[] = {"a  tail ", "  a",      "  ",     "a\na",
                                        MARK "a",   "a </s> a", "a </s>", " a \343\200\200 "};
    enum { TEXTS = sizeof texts / sizeof *texts, KINDS = 5 };
    static const int32_t ids[KINDS][TEXTS][8] = {
        {{4, 5, 4, 4, 9, 4, 1},
         {4, 4, 5, 1},
         {4, 4, 1},
         {4, 5, 3, 5, 1},
         {4, 5, 1},
         {4, 5, 4, 1, 4, 5, 1},
         {4, 5, 4, 1, 1},
         {4, 5, 4, 3, 4, 1}},
        {{4, 5, 4, 4, 9, 4, 1},
         {4, 4, 5, 1},
         {4, 4, 1},
         {4, 5, 3, 5, 1},
         {4, 5, 1},
         {4, 5, 4, 1, 4, 5, 1},
         {4, 5, 4, 1, 1},
         {4, 5, 4, 3, 4, 1}},
        {{4, 5, 4, 9, 4, 1},
         {4, 5, 1},
         {4, 1},
         {4, 5, 3, 5, 1},
         {4, 5, 1},
         {4, 5, 4, 1, 4, 5, 1},
         {4, 5, 4, 1, 1},
         {4, 5, 4, 3, 4, 1}},
        {{4, 5, 4, 9, 1}, {4, 5, 1}, {1}, {4, 5, 3, 5, 1}, {4, 5, 1}, {4, 5, 1, 4, 5, 1}, {4, 5, 1, 1}, {4, 5, 1}},
        {{4, 5, 4, 4, 9, 4, 1},
         {4, 5, 1},
         {1},
         {4, 5, 3, 5, 1},
         {4, 5, 1},
         {4, 5, 4, 1, 4, 5, 1},
         {4, 5, 4, 1, 1},
         {4, 5, 4, 3, 4, 1}},
    };
    make_byte_model();
    for (int k = 0; k < KINDS; k++) {
        char splitter[256], normalizer[512], strips[128], text[4096];
        snprintf(splitter, sizeof splitter, "%s%s}", alone,
                 k == 1 ? "\"add_prefix_space\": true" : "\"prepend_scheme\": \"always\", \"split\": true");
        snprintf(strips, sizeof strips, strip, k == 4 ? "true" : "false", k == 4 ? "false" : "true");
        if (k < 2) snprintf(normalizer, sizeof normalizer, "null");
        if (k == 2) snprintf(normalizer, sizeof normalizer, "%s\" \"}", several);
        if (k == 3)
            snprintf(normalizer, sizeof normalizer, "{\"type\": \"Sequence\", \"normalizers\": [%s, %s\"%s\"}]}",
                     strips, several, MARK);
        if (k == 4) snprintf(normalizer, sizeof normalizer, "%s", strips);
        snprintf(text, sizeof text, "%s", changed(words, splitter));
        char *const at = strstr(text, "null"), *const rest = strdup(at + 4);
        snprintf(at, sizeof text - (size_t)(at - text), "%s%s", normalizer, rest);
        free(rest);
        write_folder(NULL, text);
        sg_t5_tokenizer *t = open_folder();
        for (int i = 0; i < TEXTS; i++) {
            int n = 8;
            while (!ids[k][i][n - 1]) n--;
            check_ids(t, texts[i], strlen(texts[i]), 512, ids[k][i], n);
        }
        check(t, "", 1);
        sg_t5_tokenizer_close(&t);
    }
    make_model();
}

static void refuses_other_pipelines(void **state)
{
    make_byte_model();
    refuse_json(SG_E_FORMAT, NULL, changed("\"unk_id\": 3", "\"unk_id\": 10"), "model.unk_id");
    refuse_json(SG_E_FORMAT, NULL, changed("\"unk_id\": 3", "\"unk_id\": 1.5"), "model.unk_id");
    refuse_json(SG_E_FORMAT, NULL, changed("true, \"vocab\"", "1, \"vocab\""), "byte_fallback|boolean");
    refuse_json(SG_E_FORMAT, NULL, changed("\"tail\", -1.5", "\"tail\""), "entry 9|piece");
    refuse_json(SG_E_FORMAT, NULL, changed("\"ids\": [1]", "\"ids\": [10]"), "post_processor.special_tokens");
    refuse_json(SG_E_FORMAT, NULL, changed("\"id\": 1,", "\"id\": -1,"), "a token id");
    refuse_json(SG_E_UNSUPPORTED, NULL, changed("TemplateProcessing", "Roberta"), "post_processor");
    refuse_json(SG_E_UNSUPPORTED, NULL, changed("always", "first"), "pre_tokenizer");
    refuse_json(SG_E_UNSUPPORTED, NULL, changed("null", "{\"type\": \"Lowercase\"}"), "normalizer");
    refuse_json(SG_E_FORMAT, NULL, changed("null", "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"QUJD\"}"),
                "spiece.model");
    write_folder(NULL, changed("\"unk_id\": 3", "\"unk_id\": null"));
    sg_t5_tokenizer *t = open_folder();
    int32_t         *ids = NULL;
    int              n;
    sg_error         e = {0};
    assert_refused(sg_t5_tokenizer_encode(t, "x", 1, 8, &ids, &n, &e), SG_E_FORMAT, &e, "piece|\"x\"");
    sg_t5_tokenizer_close(&t);
    make_model();
}

static int32_t *read_ids(const json_t *list, int *n)
{
    *n = (int)json_array_size(list);
    int32_t *ids = calloc((size_t)*n + 1, sizeof *ids);
    assert_non_null(ids);
    for (int i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return ids;
}

/* Ids of a text by the tokenizer of each name in `ids`. Opened ones stay open, in the order of the names. */
static void check_row(const json_t *text, json_t *ids, int most, sg_t5_tokenizer *open[16])
{
    const char *name;
    json_t     *list;
    int         tokenizer = 0;
    json_object_foreach(ids, name, list)
    {
        char     dir[4096];
        sg_error e = {0};
        if (strcmp(name, "tiny-wan") == 0)
            snprintf(dir, sizeof dir, SG_TINY_WAN "/tokenizer");
        else
            snprintf(dir, sizeof dir, "%s/%s/tokenizer", SG_FIXTURES, name);
        assert_in_range(tokenizer, 0, 15);
        if (!open[tokenizer] && sg_t5_tokenizer_open(&open[tokenizer], dir, &e)) fail_msg("%s", e.text);
        int      n;
        int32_t *wanted = read_ids(list, &n);
        check_ids(open[tokenizer++], json_string_value(text), json_string_length(text), most, wanted, n);
        free(wanted);
    }
}

/* Wan cleans a prompt and takes 512 tokens, CogVideoX takes 226 of it as it is. */
static void check_prompt_list(int most)
{
    FILE *f = fopen(SG_FIXTURES "/prompts_200.txt", "r");
    if (!f) skip();
    char            *line = NULL;
    size_t           cap = 0;
    int              count = 0;
    sg_t5_tokenizer *open[16] = {0}, *open_raw[16] = {0};
    while (count < most && getline(&line, &cap, f) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        check_row(json_object_get(row, "clean"), json_object_get(row, "ids"), 512, open);
        check_row(json_object_get(row, "prompt"), json_object_get(row, "raw_ids"), 226, open_raw);
        json_decref(row);
        count++;
    }
    assert_non_null(open_raw[0]);
    for (int i = 0; i < 16; i++) sg_t5_tokenizer_close(&open[i]);
    for (int i = 0; i < 16; i++) sg_t5_tokenizer_close(&open_raw[i]);
    free(line);
    fclose(f);
    assert_int_equal(count, most);
}

static void follows_the_prompt_list(void **state) { check_prompt_list(200); }

static void check_some_prompts(void *context) { check_prompt_list(*(const int *)context); }

static void the_locale_changes_no_id(void **state)
{
    if (!with_decimal_comma(check_some_prompts, &(int){100})) skip();
}

/* ---- in a GGUF ---- */

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
static const char *const gguf_texts[TOKENS] = {"<pad>", "</s>", "<unk>", "\342\226\201a", "[PAD4]", "[PAD5]"};
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
        const uint64_t n = strlen(gguf_texts[i]);
        memcpy(bytes + used, &n, 8);
        memcpy(bytes + used + 8, gguf_texts[i], n);
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
    assert_int_equal(sg_source_new(&s, "m.gguf", NULL), SG_OK);
    for (size_t i = 0; i < k->count; i++)
        assert_int_equal(sg_source_add_key(s, (sg_source_key){.name = k->key[i].name, .value = k->key[i].value}, NULL),
                         SG_OK);
    if (k->model)
        assert_int_equal(sg_source_add_key(s, (sg_source_key){.name = "tokenizer.ggml.model", .text = k->model}, NULL),
                         SG_OK);
    sg_source_sort_keys(s);
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
        assert_int_equal(m.pieces[i].len, strlen(gguf_texts[i]));
        assert_memory_equal(m.pieces[i].text, gguf_texts[i], m.pieces[i].len);
        assert_true(m.pieces[i].score == scores[i]);
        assert_int_equal(m.pieces[i].type, piece_types[i]);
    }
    assert_int_equal(m.charsmap_size, 3);
    assert_memory_equal(m.charsmap, "map", 3);
    sg_sentencepiece_file_close(&m);
    sg_source_close(&s);
}

static void refuse_keys(keys *k, sg_status code, const char *text)
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
        refuse_keys(&k, SG_E_FORMAT, text);
        make_keys(&k);
        k.key[i].value.count = i ? TOKENS - 1 : 0;
        snprintf(text, sizeof text, "m.gguf|key \"%s\"|%s", missing[i], i ? "each token" : "list of texts");
        refuse_keys(&k, SG_E_FORMAT, text);
    }
    make_keys(&k);
    value(&k, "tokenizer.ggml.scores")->data = (const uint8_t *)not_a_number;
    refuse_keys(&k, SG_E_FORMAT, "m.gguf|tokenizer.ggml.tokens|token 3|finite");
    make_keys(&k);
    value(&k, "tokenizer.ggml.token_type")->data = (const uint8_t *)strange;
    refuse_keys(&k, SG_E_FORMAT, "m.gguf|tokenizer.ggml.tokens|token 3|unknown type");
    make_keys(&k);
    k.bytes[8] = 0xff;
    refuse_keys(&k, SG_E_FORMAT, "m.gguf|tokenizer.ggml.tokens|token 0|UTF-8");
    make_keys(&k);
    k.model = "llama";
    refuse_keys(&k, SG_E_UNSUPPORTED, "m.gguf|tokenizer.ggml.model|llama|t5");
    k.model = NULL;
    refuse_keys(&k, SG_E_UNSUPPORTED, "m.gguf|tokenizer.ggml.model|missing|t5");
    make_keys(&k);
    value(&k, "tokenizer.ggml.add_space_prefix")->data = (const uint8_t *)"";
    refuse_keys(&k, SG_E_FORMAT, "m.gguf|key \"tokenizer.ggml.add_space_prefix\"|T5");
    make_keys(&k);
    value(&k, "tokenizer.ggml.eos_token_id")->data = (const uint8_t *)"\2\0\0";
    refuse_keys(&k, SG_E_FORMAT, "m.gguf|key \"tokenizer.ggml.eos_token_id\"|\"</s>\"");
    value(&k, "tokenizer.ggml.eos_token_id")->data = (const uint8_t *)"\4\0\0";
    refuse_keys(&k, SG_E_FORMAT, "m.gguf|key \"tokenizer.ggml.eos_token_id\"|no token");
    make_keys(&k);
    value(&k, "tokenizer.ggml.precompiled_charsmap")->bytes = 4;
    refuse_keys(&k, SG_E_FORMAT, "m.gguf|key \"tokenizer.ggml.precompiled_charsmap\"|bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_the_best_pieces),
        cmocka_unit_test(unites_unknown_characters),
        cmocka_unit_test(normalises_by_grapheme),
        cmocka_unit_test(cuts_out_added_tokens),
        cmocka_unit_test(falls_back_to_bytes_by_config),
        cmocka_unit_test(names_the_pad),
        cmocka_unit_test(cuts_to_length),
        cmocka_unit_test(refuses_bad_texts),
        cmocka_unit_test(refuses_missing_files),
        cmocka_unit_test(refuses_broken_models),
        cmocka_unit_test(survives_every_cut),
        cmocka_unit_test(refuses_broken_maps),
        cmocka_unit_test(refuses_broken_json),
        cmocka_unit_test(refuses_other_pipelines),
        cmocka_unit_test(metaspace_has_a_mark_for_each_space),
        cmocka_unit_test(follows_the_prompt_list),
        cmocka_unit_test(the_locale_changes_no_id),
        cmocka_unit_test(pieces_come_from_the_keys),
        cmocka_unit_test(keys_that_make_no_tokenizer_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, leave_folder);
}
