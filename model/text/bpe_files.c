/* bpe_files.c - see bpe_files.h. */
#include "bpe_files.h"
#include "base/path.h"
#include "tokenizer_gguf.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MERGES_BYTES = 64 << 20 };

static const char *const clip_specials[SG_SPECIALS] = {[SG_SPECIAL_BOS] = "<|startoftext|>",
                                                       [SG_SPECIAL_EOS] = "<|endoftext|>",
                                                       [SG_SPECIAL_UNK] = "<|endoftext|>",
                                                       [SG_SPECIAL_PAD] = "<|endoftext|>"};

static sg_status refuse(const sg_bpe_files *f, sg_status status, const char *field, const char *why, sg_error *e)
{
    return sg_error_set(e, status, "%s/tokenizer.json: %s: %s", f->json.dir, field, why);
}

/* ---- the files ---- */

static sg_status open_lists(sg_bpe_files *f, sg_error *e)
{
    SG_TRY(
        sg_path_join(f->where, sizeof f->where, f->json.dir, f->json.tokenizer ? "tokenizer.json" : "vocab.json", e));
    SG_TRY(sg_path_join(f->merges_where, sizeof f->merges_where, f->json.dir,
                        f->json.tokenizer ? "tokenizer.json" : "merges.txt", e));
    if (f->json.tokenizer) return SG_OK;
    SG_TRY(sg_tokenizer_files_load(&f->json, "vocab.json", &f->vocabulary, e));
    if (!f->vocabulary)
        return sg_error_set(e, SG_E_FILE, "%s: not there, and there is no tokenizer.json in its place", f->where);
    return sg_map_open_most(&f->merges, f->merges_where, MERGES_BYTES, e);
}

/* The pad token is an added token, too, wherever a folder lists those. */
static sg_status put_pad(sg_bpe_files *f, sg_error *e)
{
    sg_tokenizer_files *const j = &f->json;
    json_t *const             added = json_object_get(j->config, "added_tokens_decoder");
    if (!j->config) j->config = json_object();
    json_object_del(j->special, "pad_token");
    bool put = json_object_set_new(j->config, "pad_token", json_string(f->pad)) == 0;
    if (json_is_object(added)) put = put && json_object_set_new(added, "0", json_string(f->pad)) == 0;
    return put ? SG_OK : sg_error_set(e, SG_E_MEMORY, "%s: no memory for its pad token", j->dir);
}

sg_status sg_bpe_files_open(sg_bpe_files *f, const char *dir, sg_error *e)
{
    SG_TRY(sg_tokenizer_files_open(&f->json, dir, e));
    if (f->pad) SG_TRY(put_pad(f, e));
    const json_t *const class = json_object_get(f->json.config, "tokenizer_class");
    const char *const name = json_string_value(class);
    const bool        named = class && !json_is_null(class);
    if (named && !name)
        return sg_error_set(e, SG_E_FORMAT, "%s/tokenizer_config.json: tokenizer_class: not a string", dir);
    f->clip = named ? strcmp(name, "CLIPTokenizer") == 0 || strcmp(name, "CLIPTokenizerFast") == 0 : !f->json.tokenizer;
    if (!f->clip && !f->json.tokenizer)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: tokenizer_class %s needs a tokenizer.json", dir, sg_show(name));
    f->json.rebuilt = f->clip;
    f->json.defaults = f->clip ? clip_specials : NULL;
    return open_lists(f, e);
}

sg_status sg_bpe_files_open_inside(sg_bpe_files *f, const char *path, sg_error *e)
{
    sg_source *s = NULL;
    f->json.dir = path;
    SG_TRY(sg_path_join(f->where, sizeof f->where, path, "", e));
    SG_TRY(sg_source_open(&s, path, e));
    const sg_status status = sg_bpe_gguf_read(&f->json.tokenizer, s, e);
    sg_source_close(&s);
    return status;
}

void sg_bpe_files_close(sg_bpe_files *f)
{
    sg_tokenizer_files_close(&f->json);
    json_decref(f->vocabulary);
    sg_map_close(&f->merges);
    *f = (sg_bpe_files){0};
}

/* ---- the model ---- */

static bool is_null(const json_t *value) { return !value || json_is_null(value); }

/* Whether a field is absent, null, or as a byte-level tokenizer has it. */
static bool is_empty(const json_t *value)
{
    return is_null(value) || json_is_false(value) || (json_is_real(value) && json_real_value(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

sg_status sg_bpe_files_source(const sg_bpe_files *f, sg_bpe_source *out, sg_error *e)
{
    static const char *const unread[] = {"dropout", "continuing_subword_prefix", "byte_fallback"};
    const json_t *const      model = json_object_get(f->json.tokenizer, "model");
    const json_t *const      suffix = json_object_get(model, "end_of_word_suffix");
    const json_t *const      unknown = json_object_get(model, "unk_token");
    *out = (sg_bpe_source){.where = f->where,
                           .merges_where = f->merges_where,
                           .vocabulary = f->vocabulary,
                           .lines = (const char *)f->merges.data,
                           .lines_size = f->merges.size,
                           .suffix = "</w>",
                           .unknown = sg_tokenizer_files_special_text(&f->json, SG_SPECIAL_UNK)};
    if (!f->json.tokenizer) return SG_OK;
    if (!is_null(json_object_get(model, "type")) && !sg_tokenizer_files_is(model, "BPE"))
        return refuse(f, SG_E_UNSUPPORTED, "model.type", "not BPE", e);
    out->vocabulary = json_object_get(model, "vocab");
    out->merges = json_object_get(model, "merges");
    if (!json_is_object(out->vocabulary)) return refuse(f, SG_E_FORMAT, "model.vocab", "missing or not an object", e);
    if (!json_is_array(out->merges)) return refuse(f, SG_E_FORMAT, "model.merges", "missing or not a list", e);
    if (f->clip) return SG_OK;
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++)
        if (!is_empty(json_object_get(model, unread[i])))
            return refuse(f, SG_E_UNSUPPORTED, "model", "dropout, continuing_subword_prefix or byte_fallback is set",
                          e);
    if (!is_null(unknown) && !is_empty(json_object_get(model, "fuse_unk")))
        return refuse(f, SG_E_UNSUPPORTED, "model.fuse_unk", "should be false", e);
    if ((!is_null(suffix) && !json_is_string(suffix)) || (!is_null(unknown) && !json_is_string(unknown)))
        return refuse(f, SG_E_FORMAT, "model", "end_of_word_suffix or unk_token is not a string", e);
    out->suffix = is_null(suffix) ? "" : json_string_value(suffix);
    out->unknown = json_string_value(unknown);
    out->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    return SG_OK;
}

/* ---- normalizer and splits ---- */

static const char *pattern_of(const json_t *step)
{
    return json_string_value(json_object_get(json_object_get(step, "pattern"), "Regex"));
}

/* The number of a step of the normalizer, from 1 on; 0: an unknown one. */
static int normalizer_step(const json_t *step)
{
    const char *const pattern = pattern_of(step), *const by = json_string_value(json_object_get(step, "content"));
    if (sg_tokenizer_files_is(step, "NFC")) return 1;
    if (sg_tokenizer_files_is(step, "Replace") && pattern && strcmp(pattern, "\\s+") == 0 && by && strcmp(by, " ") == 0)
        return 2;
    return sg_tokenizer_files_is(step, "Lowercase") ? 3 : 0;
}

static sg_status read_normalizer(const sg_bpe_files *f, sg_bpe_rules *out, sg_error *e)
{
    const json_t *const one = json_object_get(f->json.tokenizer, "normalizer");
    const json_t *const list = sg_tokenizer_files_is(one, "Sequence") ? json_object_get(one, "normalizers") : NULL;
    const size_t        count = list ? json_array_size(list) : !is_null(one);
    for (size_t i = 0, last = 0; i < count; i++) {
        const size_t step = (size_t)normalizer_step(list ? json_array_get(list, i) : one);
        if (step <= last) return refuse(f, SG_E_UNSUPPORTED, "normalizer", "not one of a byte-level tokenizer", e);
        *(step == 1 ? &out->nfc : step == 2 ? &out->one_space : &out->lower) = true;
        last = step;
    }
    return SG_OK;
}

/* The split of a Split that takes its words as they are; NULL: it is another one. */
static const sg_bpe_split *split_of(const json_t *step)
{
    const char *const pattern = pattern_of(step), *const how = json_string_value(json_object_get(step, "behavior"));
    const bool                invert = json_is_true(json_object_get(step, "invert"));
    const sg_bpe_split *const split =
        sg_tokenizer_files_is(step, "Split") && pattern ? sg_bpe_split_find(pattern) : NULL;
    if (!split || !how) return NULL;
    if (strcmp(how, "Removed") == 0) return invert ? split : NULL;
    return strcmp(how, "Isolated") == 0 && !sg_bpe_split_drops_space(split) ? split : NULL;
}

static sg_status read_splits(const sg_bpe_files *f, sg_bpe_rules *out, sg_error *e)
{
    static const char   field[] = "pre_tokenizer", other[] = "not one of the byte-level tokenizers that are known";
    const json_t *const one = json_object_get(f->json.tokenizer, field);
    const json_t *const list = sg_tokenizer_files_is(one, "Sequence") ? json_object_get(one, "pretokenizers") : NULL;
    const size_t        count = list ? json_array_size(list) : 1;
    int                 splits = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *const step = list ? json_array_get(list, i) : one;
        const bool          last = i + 1 == count, split = !last || json_is_true(json_object_get(step, "use_regex")) ||
                                                  !json_object_get(step, "use_regex");
        if (last &&
            (!sg_tokenizer_files_is(step, "ByteLevel") || !json_is_false(json_object_get(step, "add_prefix_space"))))
            return refuse(f, SG_E_UNSUPPORTED, field, other, e);
        if (!split) continue;
        const sg_bpe_split *const by = last ? sg_bpe_split_gpt2() : split_of(step);
        if (!by || splits == 2) return refuse(f, SG_E_UNSUPPORTED, field, other, e);
        out->split[splits++] = by;
    }
    return splits ? SG_OK : refuse(f, SG_E_UNSUPPORTED, field, other, e);
}

sg_status sg_bpe_files_rules(const sg_bpe_files *f, sg_bpe_rules *out, sg_error *e)
{
    *out = (sg_bpe_rules){.nfc = true, .one_space = true, .lower = true};
    out->split[0] = sg_bpe_split_clip();
    out->split[1] = sg_bpe_split_gpt2();
    if (f->clip) return SG_OK;
    *out = (sg_bpe_rules){0};
    SG_TRY(read_normalizer(f, out, e));
    return read_splits(f, out, e);
}

/* ---- before and behind a text ---- */

static sg_status add_fixed(const sg_bpe_files *f, int32_t *list, int *count, const json_t *id, int most, sg_error *e)
{
    if (*count == SG_BPE_FIXED) return refuse(f, SG_E_UNSUPPORTED, "post_processor", "more than 8 tokens", e);
    if (!sg_tokenizer_files_int(id, most, &list[*count]))
        return refuse(f, SG_E_FORMAT, "post_processor", "an id that is not a number below that of all tokens", e);
    ++*count;
    return SG_OK;
}

static sg_status read_template(const sg_bpe_files *f, const json_t *post, int most, sg_bpe_rules *out, sg_error *e)
{
    const json_t *const single = json_object_get(post, "single"), *const tokens =
                                                                      json_object_get(post, "special_tokens");
    int texts = 0;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *const entry = json_array_get(single, i), *const token = json_object_get(entry, "SpecialToken");
        const char *const   name = json_string_value(json_object_get(token, "id"));
        const json_t *const ids = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
        texts += json_object_get(entry, "Sequence") != NULL;
        for (size_t k = 0; k < json_array_size(ids); k++)
            SG_TRY(add_fixed(f, texts ? out->after : out->before, texts ? &out->afters : &out->befores,
                             json_array_get(ids, k), most, e));
    }
    return texts == 1 ? SG_OK
                      : refuse(f, SG_E_UNSUPPORTED, "post_processor.single", "not one text with tokens around it", e);
}

static sg_status read_post(const sg_bpe_files *f, const json_t *post, int most, sg_bpe_rules *out, sg_error *e)
{
    if (sg_tokenizer_files_is(post, "ByteLevel")) return SG_OK;
    if (sg_tokenizer_files_is(post, "TemplateProcessing")) return read_template(f, post, most, out, e);
    if (!sg_tokenizer_files_is(post, "RobertaProcessing"))
        return refuse(f, SG_E_UNSUPPORTED, "post_processor", "not one of a byte-level tokenizer", e);
    SG_TRY(add_fixed(f, out->before, &out->befores, json_array_get(json_object_get(post, "cls"), 1), most, e));
    return add_fixed(f, out->after, &out->afters, json_array_get(json_object_get(post, "sep"), 1), most, e);
}

/* The id of a special token, which the files say is put at every text; one that there is not is put nowhere. */
static sg_status put_special(const sg_bpe_files *f, const sg_added_tokens *added, int special, int32_t *list,
                             int *count, sg_error *e)
{
    const char *const text = sg_tokenizer_files_special_text(&f->json, special);
    const int32_t     id = sg_added_tokens_id(added, text);
    if (text && id < 0)
        return sg_error_set(e, SG_E_FORMAT, "%s: %s: not among the tokens", f->json.dir, sg_special_names[special]);
    if (text) list[(*count)++] = id;
    return SG_OK;
}

sg_status sg_bpe_files_fixed(const sg_bpe_files *f, const sg_added_tokens *added, sg_bpe_rules *out, sg_error *e)
{
    const json_t *const bos = json_object_get(f->json.config, "add_bos_token");
    const json_t *const eos = json_object_get(f->json.config, "add_eos_token");
    const json_t *const post = json_object_get(f->json.tokenizer, "post_processor");
    const json_t *const list = sg_tokenizer_files_is(post, "Sequence") ? json_object_get(post, "processors") : NULL;
    if (f->clip || bos || eos || is_null(post)) {
        if (f->clip || json_is_true(bos)) SG_TRY(put_special(f, added, SG_SPECIAL_BOS, out->before, &out->befores, e));
        if (f->clip || json_is_true(eos)) SG_TRY(put_special(f, added, SG_SPECIAL_EOS, out->after, &out->afters, e));
        return SG_OK;
    }
    for (size_t i = 0; i < (list ? json_array_size(list) : 1); i++)
        SG_TRY(read_post(f, list ? json_array_get(list, i) : post, added->next_id - 1, out, e));
    return SG_OK;
}
