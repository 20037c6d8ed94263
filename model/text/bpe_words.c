/* bpe_words.c - see bpe_words.h. A word is the leftmost match, and of the alternatives that match there the first:
 *   special tokens; contractions; letters; numbers; other characters; white space
 *
 * \s is Unicode's White_Space, as in the library of regular expressions that tokenizers is built with. */
#include "bpe_words.h"
#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

typedef enum lead { LEAD_NONE, LEAD_SPACE, LEAD_ANY } lead;

struct sg_bpe_split {
    const char *regex;
    bool        specials; /* <\|startoftext\|>|<\|endoftext\|> */
    bool        any_case; /* contractions in capitals too */
    lead letters; /* what one character before letters may be: a space, or any but a line break, letter, number */
    lead numbers; /* the same of numbers, */
    lead others;  /* and of other characters */
    int  digits;  /* most numbers of a word; 0: any count */
    bool lines;   /* line breaks go to the other characters before them, or to the white space before them */
    bool drops_space;
};

#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define CLIP_REST CONTRACTIONS "|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"
#define LLAMA_HEAD "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define LLAMA_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const sg_bpe_split splits[] = {
    {.regex = "<\\|startoftext\\|>|<\\|endoftext\\|>|" CLIP_REST, .specials = true, .digits = 1, .drops_space = true},
    {.regex = CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     .letters = LEAD_SPACE,
     .numbers = LEAD_SPACE,
     .others = LEAD_SPACE},
    {.regex = CLIP_REST, .digits = 1, .drops_space = true},
    {.regex = LLAMA_HEAD "\\p{N}{1,3}" LLAMA_REST,
     .any_case = true,
     .letters = LEAD_ANY,
     .others = LEAD_SPACE,
     .digits = 3,
     .lines = true},
    {.regex = LLAMA_HEAD "\\p{N}" LLAMA_REST,
     .any_case = true,
     .letters = LEAD_ANY,
     .others = LEAD_SPACE,
     .digits = 1,
     .lines = true},
};
const char sg_bpe_llama[] = LLAMA_HEAD "\\p{N}{1,3}" LLAMA_REST;
const char sg_bpe_qwen[] = LLAMA_HEAD "\\p{N}" LLAMA_REST;
enum { SPLITS = sizeof splits / sizeof *splits };

const sg_bpe_split *sg_bpe_split_find(const char *regex)
{
    for (int i = 0; i < SPLITS; i++)
        if (strcmp(splits[i].regex, regex) == 0) return &splits[i];
    return NULL;
}

const sg_bpe_split *sg_bpe_split_clip(void) { return &splits[0]; }

const sg_bpe_split *sg_bpe_split_gpt2(void) { return &splits[1]; }

bool sg_bpe_split_drops_space(const sg_bpe_split *s) { return s->drops_space; }

/* ---- characters ---- */

typedef enum kind { KIND_END, KIND_LETTER, KIND_NUMBER, KIND_SPACE, KIND_OTHER } kind;

typedef struct scanner {
    const char *text;
    size_t      len;
} scanner;

/* What stands at `at`, and its bytes. */
static kind kind_at(const scanner *s, size_t at, size_t *bytes)
{
    int32_t c;
    *bytes = sg_utf8_next(s->text + at, s->len - at, &c);
    if (*bytes == 0) return KIND_END;
    if (sg_utf8_is_space(c)) return KIND_SPACE;
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return KIND_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return KIND_NUMBER;
    default: return KIND_OTHER;
    }
}

static bool is_line_break(const scanner *s, size_t at)
{
    return at < s->len && (s->text[at] == '\n' || s->text[at] == '\r');
}

/* The end of at most `most` (0: any count) characters of this kind from `at` on. */
static size_t run(const scanner *s, size_t at, kind of, int most)
{
    size_t bytes;
    for (int i = 0; (most == 0 || i < most) && kind_at(s, at, &bytes) == of; i++) at += bytes;
    return at;
}

/* ---- alternatives: the end of the match at `at`, or `at` itself ---- */

static size_t special(const scanner *s, size_t at)
{
    static const char *const names[] = {"<|startoftext|>", "<|endoftext|>"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (s->len - at >= n && memcmp(s->text + at, names[i], n) == 0) return at + n;
    }
    return at;
}

static size_t contraction(const scanner *s, size_t at, bool any_case)
{
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    const size_t             left = s->len - at;
    if (left < 2 || s->text[at] != '\'') return at;
    const char *const text = s->text + at + 1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t n = strlen(ends[i]);
        size_t       same = 0;
        while (same < n && same < left - 1 && (any_case ? text[same] | 0x20 : text[same]) == ends[i][same]) same++;
        if (same == n) return at + 1 + n;
    }
    return any_case && left > 2 && memcmp(text, "\305\277", 2) == 0 ? at + 3 : at; /* U+017F, a small s in all cases */
}

/* Characters of one kind, with one before them that `before` allows. */
static size_t led(const scanner *s, size_t at, kind of, lead before, int most)
{
    size_t     bytes = 0, from = at;
    const kind first = kind_at(s, at, &bytes);
    if (before == LEAD_SPACE && s->text[at] == ' ') from += 1;
    if (before == LEAD_ANY && (first == KIND_SPACE || first == KIND_OTHER) && !is_line_break(s, at)) from += bytes;
    const size_t end = run(s, from, of, most);
    return end > from ? end : at;
}

static size_t others(const scanner *s, size_t at, lead before, bool lines)
{
    size_t end = led(s, at, KIND_OTHER, before, 0);
    while (lines && end > at && is_line_break(s, end)) end++;
    return end;
}

/* With lines, up to the last line break of the white space; without one, or without lines, all of it but for its last character
 * where something follows; that character, where it is alone. */
static size_t white(const scanner *s, size_t at, bool lines)
{
    const size_t end = run(s, at, KIND_SPACE, 0);
    size_t       last = at, broken = at, bytes;
    for (size_t i = at; i < end; i += bytes) {
        kind_at(s, i, &bytes);
        last = i;
        if (is_line_break(s, i)) broken = i + 1;
    }
    if (lines && broken > at) return broken;
    return end < s->len && last > at ? last : end;
}

size_t sg_bpe_split_next(const sg_bpe_split *split, const char *text, size_t len, size_t *at)
{
    const scanner s = {text, len};
    size_t        from = *at, end;
    if (split->drops_space) from = run(&s, from, KIND_SPACE, 0);
    *at = from;
    if (from == len) return 0;
    if (split->specials && (end = special(&s, from)) > from) return end - from;
    if ((end = contraction(&s, from, split->any_case)) > from) return end - from;
    if ((end = led(&s, from, KIND_LETTER, split->letters, 0)) > from) return end - from;
    if ((end = led(&s, from, KIND_NUMBER, split->numbers, split->digits)) > from) return end - from;
    if ((end = others(&s, from, split->others, split->lines)) > from) return end - from;
    return white(&s, from, split->lines) - from;
}
