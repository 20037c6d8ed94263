/* t5_tokenizer_gguf.c - see t5_tokenizer_gguf.h. */
#include "t5_tokenizer_gguf.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { PIECES_MAX = 1 << 24 };

static const char TOKENS[] = "tokenizer.ggml.tokens", SCORES[] = "tokenizer.ggml.scores";
static const char TYPES[] = "tokenizer.ggml.token_type", MAP[] = "tokenizer.ggml.precompiled_charsmap";
static const char END[] = "tokenizer.ggml.eos_token_id", PREFIX[] = "tokenizer.ggml.add_space_prefix";

bool sg_sentencepiece_is_in(const sg_source *s)
{
    sg_source_list tokens;
    return sg_source_metadata_list(s, TOKENS, &tokens);
}

static sg_status bad(const sg_source *s, const char *key, const char *what, sg_error *e)
{
    return sg_error_set(e, SG_E_FORMAT, "%s: key \"%s\": %s", sg_source_path(s), key, what);
}

/* One number for each piece. */
static sg_status numbers(const sg_source *s, const char *key, uint64_t count, sg_source_list *out, sg_error *e)
{
    if (!sg_source_metadata_list(s, key, out)) return bad(s, key, "is missing", e);
    if (out->kind == 's' || out->count != count) return bad(s, key, "should be one number for each token", e);
    return SG_OK;
}

static sg_status read_pieces(sg_sentencepiece_file *m, const sg_source *s, sg_source_list tokens, sg_error *e)
{
    sg_source_list scores, types;
    const uint64_t count = tokens.count;
    SG_TRY(numbers(s, SCORES, count, &scores, e));
    SG_TRY(numbers(s, TYPES, count, &types, e));
    m->pieces = calloc((size_t)count, sizeof *m->pieces);
    if (!m->pieces) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for its tokens", sg_source_path(s));
    for (m->cap = (size_t)count; m->count < count; m->count++) {
        sg_sentencepiece *const p = &m->pieces[m->count];
        const double            type = sg_source_number(&types, m->count);
        p->text = sg_source_next_text(&tokens, &p->len);
        p->score = (float)sg_source_number(&scores, m->count);
        p->type = type >= SG_PIECE_NORMAL && type <= SG_PIECE_BYTE ? (sg_sentencepiece_type)type : 0;
        const char *const fault = sg_sentencepiece_fault(p);
        if (fault)
            return sg_error_set(e, SG_E_FORMAT, "%s: %s: token %zu %s", sg_source_path(s), TOKENS, m->count, fault);
    }
    while (m->count && m->pieces[m->count - 1].type == SG_PIECE_UNUSED && m->pieces[m->count - 1].len > 4 &&
           memcmp(m->pieces[m->count - 1].text, "[PAD", 4) == 0)
        m->count--;
    return SG_OK;
}

/* What this program's tokenizer does always. */
static sg_status check_rules(const sg_sentencepiece_file *m, const sg_source *s, sg_error *e)
{
    sg_source_list    l;
    const char *const model = sg_source_metadata(s, "tokenizer.ggml.model");
    if (!model || strcmp(model, "t5") != 0)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: tokenizer.ggml.model is %s; only t5 is understood",
                            sg_source_path(s), model ? sg_show(model) : "missing");
    if (sg_source_metadata_list(s, PREFIX, &l) && (l.kind == 's' || l.count != 1 || sg_source_number(&l, 0) == 0))
        return bad(s, PREFIX, "should be true, as for every T5", e);
    if (!sg_source_metadata_list(s, END, &l)) return SG_OK;
    if (l.kind != 'u' || l.count != 1 || !(sg_source_number(&l, 0) < (double)m->count))
        return bad(s, END, "is no token", e);
    const sg_sentencepiece *const end = &m->pieces[(size_t)sg_source_number(&l, 0)];
    return end->len == 4 && memcmp(end->text, "</s>", 4) == 0 ? SG_OK : bad(s, END, "should be that of \"</s>\"", e);
}

static sg_status read_model(sg_sentencepiece_file *m, const sg_source *s, sg_error *e)
{
    sg_source_list tokens, map;
    if (!sg_source_metadata_list(s, TOKENS, &tokens)) return bad(s, TOKENS, "is missing", e);
    if (tokens.kind != 's' || tokens.count == 0 || tokens.count > PIECES_MAX)
        return bad(s, TOKENS, "should be a list of texts", e);
    SG_TRY(read_pieces(m, s, tokens, e));
    SG_TRY(check_rules(m, s, e));
    m->complete = true;
    if (!sg_source_metadata_list(s, MAP, &map)) return SG_OK;
    if (map.bytes != 1) return bad(s, MAP, "should be a list of bytes", e);
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
