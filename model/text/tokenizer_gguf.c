/* tokenizer_gguf.c - see tokenizer_gguf.h. */
#include "tokenizer_gguf.h"
#include "base/text.h"
#include "bpe_words.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 1 << 22, PIECES_MAX = 1 << 24, NORMAL = 1, UNUSED = 5 };

#define KEY "tokenizer.ggml."

static sg_status bad(const sg_source *s, const char *key, const char *what, sg_error *e)
{
    return sg_error_set(e, SG_E_FORMAT, "%s: key \"%s\": %s", sg_source_path(s), key, what);
}

static sg_status no_memory(const sg_source *s, sg_error *e)
{
    return sg_error_set(e, SG_E_MEMORY, "%s: no memory for its tokens", sg_source_path(s));
}

/* A list of texts. */
static sg_status texts(const sg_source *s, const char *key, uint64_t most, sg_source_list *out, sg_error *e)
{
    if (!sg_source_metadata_list(s, key, out)) return bad(s, key, "is missing", e);
    if (out->kind != 's' || out->count == 0 || out->count > most) return bad(s, key, "should be a list of texts", e);
    return SG_OK;
}

/* One number for each token. */
static sg_status numbers(const sg_source *s, const char *key, uint64_t count, sg_source_list *out, sg_error *e)
{
    if (!sg_source_metadata_list(s, key, out)) return bad(s, key, "is missing", e);
    if (out->kind == 's' || out->count != count) return bad(s, key, "should be one number for each token", e);
    return SG_OK;
}

/* ---- byte-level ---- */

/* The next text, of letters alone that JSON can have. */
static json_t *next_text(sg_source_list *l)
{
    size_t            n;
    const char *const text = sg_source_next_text(l, &n);
    return memchr(text, 0, n) ? NULL : json_stringn(text, n);
}

static int type_of(const sg_source_list *types, uint64_t i)
{
    const double type = sg_source_number(types, i);
    return type >= 0 && type < 100 ? (int)type : 0;
}

/* Without those at the end that are nobody's. */
static uint64_t tokens_used(const sg_source_list *types)
{
    uint64_t n = types->count;
    while (n && type_of(types, n - 1) == UNUSED) n--;
    return n;
}

/* Normal tokens into the vocabulary, the others into the list of those that are cut out of a text. */
static sg_status read_tokens(json_t *vocabulary, json_t *added, const sg_source *s, sg_error *e)
{
    sg_source_list tokens, types;
    SG_TRY(texts(s, KEY "tokens", TOKENS_MAX, &tokens, e));
    SG_TRY(numbers(s, KEY "token_type", tokens.count, &types, e));
    const uint64_t count = tokens_used(&types);
    for (uint64_t i = 0; i < count; i++) {
        json_t *const text = next_text(&tokens);
        if (!text) return bad(s, KEY "tokens", "has a token that is no UTF-8, or has a NUL", e);
        const bool normal = type_of(&types, i) == NORMAL;
        const bool put = normal ? json_object_set_new(vocabulary, json_string_value(text), json_real((double)i)) == 0
                                : json_array_append_new(added, json_pack("{s:f, s:O, s:b}", "id", (double)i, "content",
                                                                         text, "special", 1)) == 0;
        json_decref(text);
        if (!put) return no_memory(s, e);
    }
    return SG_OK;
}

static sg_status read_merges(json_t *merges, const sg_source *s, sg_error *e)
{
    sg_source_list list;
    SG_TRY(texts(s, KEY "merges", TOKENS_MAX, &list, e));
    for (uint64_t i = 0; i < list.count; i++) {
        json_t *const text = next_text(&list);
        if (!text) return bad(s, KEY "merges", "has a text that is no UTF-8, or has a NUL", e);
        if (json_array_append_new(merges, text) != 0) return no_memory(s, e);
    }
    return SG_OK;
}

/* What tokenizer.ggml.pre stands for. */
static const struct pre {
    const char *name, *regex;
    bool        llama; /* a word of the vocabulary is not merged, and a text begins with bos; else it becomes NFC */
} pres[] = {
    {"llama-bpe", sg_bpe_llama, true},
    {"llama3", sg_bpe_llama, true},
    {"llama-v3", sg_bpe_llama, true},
    {"qwen2", sg_bpe_qwen, false},
};

static sg_status find_pre(const struct pre **out, const sg_source *s, sg_error *e)
{
    const char *const model = sg_source_metadata(s, KEY "model"), *const pre = sg_source_metadata(s, KEY "pre");
    if (!model || strcmp(model, "gpt2") != 0)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: " KEY "model is %s; only gpt2 is understood", sg_source_path(s),
                            model ? sg_show(model) : "missing");
    for (size_t i = 0; pre && i < sizeof pres / sizeof *pres; i++)
        if (strcmp(pre, pres[i].name) == 0) {
            *out = &pres[i];
            return SG_OK;
        }
    return sg_error_set(e, SG_E_UNSUPPORTED,
                        "%s: " KEY "pre is %s; only llama-bpe, of Llama 3, and qwen2 are understood", sg_source_path(s),
                        pre ? sg_show(pre) : "missing");
}

/* The token that every text begins with; *bos stays NULL where there is none. */
static sg_status read_first(json_t **bos, const sg_source *s, bool usual, sg_error *e)
{
    sg_source_list add, id, tokens;
    const bool     said = sg_source_metadata_list(s, KEY "add_bos_token", &add) && add.kind != 's' && add.count == 1;
    if (said ? sg_source_number(&add, 0) == 0 : !usual) return SG_OK;
    if (!sg_source_metadata_list(s, KEY "bos_token_id", &id)) return SG_OK;
    SG_TRY(texts(s, KEY "tokens", TOKENS_MAX, &tokens, e));
    if (id.kind != 'u' || id.count != 1 || !(sg_source_number(&id, 0) < (double)tokens.count))
        return bad(s, KEY "bos_token_id", "is no token", e);
    *bos = json_pack("{s:s, s:[{s:{s:s}}, {s:{s:s}}], s:{s:{s:[f]}}}", "type", "TemplateProcessing", "single",
                     "SpecialToken", "id", "bos", "Sequence", "id", "A", "special_tokens", "bos", "ids",
                     sg_source_number(&id, 0));
    return *bos ? SG_OK : no_memory(s, e);
}

sg_status sg_bpe_gguf_read(json_t **out, const sg_source *s, sg_error *e)
{
    json_t *const vocabulary = json_object(), *const added = json_array(), *const merges = json_array();
    json_t           *bos = NULL;
    const struct pre *pre = NULL;
    sg_status         status = vocabulary && added && merges ? find_pre(&pre, s, e) : no_memory(s, e);
    if (status == SG_OK) status = read_tokens(vocabulary, added, s, e);
    if (status == SG_OK) status = read_merges(merges, s, e);
    if (status == SG_OK) status = read_first(&bos, s, pre->llama, e);
    *out = NULL;
    if (status == SG_OK)
        *out = json_pack("{s:{s:s, s:O, s:O, s:b}, s:O, s:O?, s:{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}]}}",
                         "model", "type", "BPE", "vocab", vocabulary, "merges", merges, "ignore_merges", pre->llama,
                         "added_tokens", added, "post_processor", bos, "pre_tokenizer", "type", "Sequence",
                         "pretokenizers", "type", "Split", "pattern", "Regex", pre->regex, "behavior", "Isolated",
                         "invert", 0, "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
    if (*out && !pre->llama && json_object_set_new(*out, "normalizer", json_pack("{s:s}", "type", "NFC")) != 0)
        status = no_memory(s, e);
    if (status == SG_OK && !*out) status = no_memory(s, e);
    if (status != SG_OK) {
        json_decref(*out);
        *out = NULL;
    }
    json_decref(vocabulary);
    json_decref(added);
    json_decref(merges);
    json_decref(bos);
    return status;
}

/* ---- SentencePiece ---- */

bool sg_sentencepiece_is_in(const sg_source *s)
{
    sg_source_list tokens;
    return sg_source_metadata_list(s, KEY "tokens", &tokens);
}

static sg_status read_pieces(sg_sentencepiece_file *m, const sg_source *s, sg_source_list tokens, sg_error *e)
{
    sg_source_list scores, types;
    const uint64_t count = tokens.count;
    SG_TRY(numbers(s, KEY "scores", count, &scores, e));
    SG_TRY(numbers(s, KEY "token_type", count, &types, e));
    m->pieces = calloc((size_t)count, sizeof *m->pieces);
    if (!m->pieces) return no_memory(s, e);
    for (m->cap = (size_t)count; m->count < count; m->count++) {
        sg_sentencepiece *const p = &m->pieces[m->count];
        const double            type = sg_source_number(&types, m->count);
        p->text = sg_source_next_text(&tokens, &p->len);
        p->score = (float)sg_source_number(&scores, m->count);
        p->type = type >= SG_PIECE_NORMAL && type <= SG_PIECE_BYTE ? (sg_sentencepiece_type)type : 0;
        const char *const fault = sg_sentencepiece_fault(p);
        if (fault)
            return sg_error_set(e, SG_E_FORMAT, "%s: %s: token %zu %s", sg_source_path(s), KEY "tokens", m->count,
                                fault);
    }
    while (m->count && m->pieces[m->count - 1].type == SG_PIECE_UNUSED && m->pieces[m->count - 1].len > 4 &&
           memcmp(m->pieces[m->count - 1].text, "[PAD", 4) == 0)
        m->count--;
    return SG_OK;
}

/* What this program's tokenizer does always. */
static sg_status check_t5(const sg_sentencepiece_file *m, const sg_source *s, sg_error *e)
{
    sg_source_list    l;
    const char *const model = sg_source_metadata(s, KEY "model");
    if (!model || strcmp(model, "t5") != 0)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: " KEY "model is %s; only t5 is understood", sg_source_path(s),
                            model ? sg_show(model) : "missing");
    if (sg_source_metadata_list(s, KEY "add_space_prefix", &l) &&
        (l.kind == 's' || l.count != 1 || sg_source_number(&l, 0) == 0))
        return bad(s, KEY "add_space_prefix", "should be true, as for every T5", e);
    if (!sg_source_metadata_list(s, KEY "eos_token_id", &l)) return SG_OK;
    if (l.kind != 'u' || l.count != 1 || !(sg_source_number(&l, 0) < (double)m->count))
        return bad(s, KEY "eos_token_id", "is no token", e);
    const sg_sentencepiece *const end = &m->pieces[(size_t)sg_source_number(&l, 0)];
    return end->len == 4 && memcmp(end->text, "</s>", 4) == 0
               ? SG_OK
               : bad(s, KEY "eos_token_id", "should be that of \"</s>\"", e);
}

static sg_status read_model(sg_sentencepiece_file *m, const sg_source *s, sg_error *e)
{
    sg_source_list tokens, map;
    SG_TRY(texts(s, KEY "tokens", PIECES_MAX, &tokens, e));
    SG_TRY(read_pieces(m, s, tokens, e));
    SG_TRY(check_t5(m, s, e));
    m->complete = true;
    if (!sg_source_metadata_list(s, KEY "precompiled_charsmap", &map)) return SG_OK;
    if (map.bytes != 1) return bad(s, KEY "precompiled_charsmap", "should be a list of bytes", e);
    m->charsmap = (const char *)map.data;
    m->charsmap_size = (size_t)map.count;
    return SG_OK;
}

sg_status sg_sentencepiece_file_from(sg_sentencepiece_file *m, const sg_source *s, sg_error *e)
{
    *m = (sg_sentencepiece_file){0};
    const sg_status status = read_model(m, s, e);
    if (status != SG_OK) sg_sentencepiece_file_close(m);
    return status;
}
