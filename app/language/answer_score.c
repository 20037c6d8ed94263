/* answer_score.c - see answer_score.h. */
#include "answer_score.h"
#include "base/utf8.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef struct word {
    const char *at;
    size_t      bytes;
    int         sentence, id; /* id: the place of the first word that is equal */
} word;

enum { MOST = SG_ANSWER_WORDS };

typedef struct words {
    sg_textbuf text[2]; /* of the answer, of the expected one */
    int        n[2];
    word       word[2 * MOST];   /* of the answer, then of the expected one */
    int        had[2][2 * MOST]; /* how often, by id */
    bool       common[2 * MOST]; /* it is in a longest common subsequence, by id */
    int        row[MOST + 1];    /* lengths of common subsequences */
    /* Of two sentences, [x][y]: the longest subsequence is that of one word less of x. The last member, never cleared. */
    bool up[MOST][MOST];
} words;

/* Returns the bytes of the character at s, 0 at the end. A byte that is not UTF-8 is one, and *c is -1. */
static size_t next(const char *s, int32_t *c)
{
    const size_t used = sg_utf8_next(s, *s ? 4 : 0, c);
    return used || !*s ? used : 1;
}

static bool is_space(int32_t c) { return sg_utf8_is_space(c) || (c >= 0x1c && c <= 0x1f); }

static bool is_article(const char *s) { return !strcmp(s, "a") || !strcmp(s, "an") || !strcmp(s, "the"); }

/* Puts what the metric compares. All but the matches have one blank for white space. ROUGE-L and choice keep the case, F1
 * drops punctuation and articles, and choice has blanks for some marks. */
static void normalise(sg_textbuf *out, const char *text, sg_answer_metric metric)
{
    size_t run = 0; /* where the letters at the end begin */
    for (size_t used = 1; used; text += used) {
        int32_t c;
        used = next(text, &c);
        const utf8proc_category_t k = utf8proc_category(c);
        const bool                letter = (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
                            (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
        const bool mark = metric == SG_ANSWER_CHOICE && c > 0 && c < 0x7f && strchr("\"'.,?!{}", c);
        if (metric == SG_ANSWER_F1 && c > ' ' && c < 0x7f && !letter) continue;
        if (metric == SG_ANSWER_F1 && !letter && out->len > run && is_article(out->data + run)) {
            out->len = run;
            sg_textbuf_put(out, " ", 1);
        }
        if (mark || (is_space(c) && metric <= SG_ANSWER_CHOICE))
            sg_textbuf_put(out, " ", !out->len || out->data[out->len - 1] != ' ');
        else if (c < 0 || metric == SG_ANSWER_ROUGE_L || metric == SG_ANSWER_CHOICE)
            sg_textbuf_put(out, text, used);
        else
            sg_textbuf_put_char(out, utf8proc_tolower(c));
        if (!letter) run = out->len;
    }
}

static bool put_word(words *w, int which, const char *at, size_t bytes, int sentence)
{
    const int n = w->n[0] + w->n[1];
    int       id = 0;
    if (w->n[which] == MOST) return false;
    while (id < n && (w->word[id].bytes != bytes || memcmp(w->word[id].at, at, bytes))) id++;
    w->word[n] = (word){at, bytes, sentence, id};
    w->had[which][id]++;
    w->n[which]++;
    return true;
}

/* stops: a blank, then what ends sentences. A sentence of a blank alone has one word, the empty one. False: too many words. */
static bool split(words *w, int which, const char *stops)
{
    const char *end = w->text[which].data;
    for (int sentence = 0; *end; sentence++) {
        const char *const begin = end + strspn(end, stops + 1), *at = begin + strspn(begin, " ");
        end = begin + strcspn(begin, stops + 1);
        if (at == end && end > begin && stops[1] && !put_word(w, which, begin, 0, sentence)) return false;
        for (size_t bytes; at < end; at += bytes + strspn(at + bytes, " ")) {
            bytes = strcspn(at, stops);
            if (!put_word(w, which, at, bytes, sentence)) return false;
        }
    }
    return true;
}

/* Marks the words of the longest common subsequence of two sentences of n and m words. */
static void mark_common(words *w, const word *x, int n, const word *y, int m)
{
    memset(w->row, 0, ((size_t)m + 1) * sizeof *w->row);
    for (int i = 0; i < n; i++)
        for (int j = 0, corner = 0; j < m; j++) {
            const int above = w->row[j + 1], left = w->row[j];
            w->up[i][j] = above > left;
            w->row[j + 1] = x[i].id == y[j].id ? corner + 1 : above > left ? above : left;
            corner = above;
        }
    for (int i = n - 1, j = m - 1; i >= 0 && j >= 0;) {
        const bool equal = x[i].id == y[j].id, up = w->up[i][j];
        if (equal) w->common[x[i].id] = true;
        i -= equal || up;
        j -= equal || !up;
    }
}

/* Returns how many words from w on are of its sentence. */
static int sentence_length(const word *w, const word *end)
{
    int n = 1;
    while (w + n < end && w[n].sentence == w->sentence) n++;
    return n;
}

static double score_words(words *w, sg_answer_metric metric)
{
    const bool        rouge = metric == SG_ANSWER_ROUGE_L;
    const word *const middle = w->word + w->n[0], *const end = middle + w->n[1];
    double distinct[2] = {0}, both = 0, shared = 0, common = 0;
    for (const word *x = middle; rouge && x < end; x += sentence_length(x, end))
        for (const word *y = w->word; y < middle; y += sentence_length(y, middle))
            mark_common(w, x, sentence_length(x, end), y, sentence_length(y, middle));
    for (int i = 0; i < w->n[0] + w->n[1]; i++) {
        const int a = w->had[0][i], b = w->had[1][i];
        distinct[0] += a > 0;
        distinct[1] += b > 0;
        both += a && b;
        shared += a < b ? a : b;
        common += w->common[i];
    }
    if (both == 0) return 0;
    if (metric == SG_ANSWER_OVERLAP) return both / w->n[1];
    const double p = rouge ? common / distinct[0] : shared / w->n[0],
                 r = rouge ? common / distinct[1] : shared / w->n[1];
    return 2 * p * r / (p + r + (rouge ? 1e-8 : 0));
}

/* As published: what follows a choice left out is not looked at. */
static double score_classes(const char *answer, const char *expected, const char *const *choices, int count)
{
    int  kept = 0;
    bool found = false, skip = false;
    for (int i = 0; i < count; i++) {
        if (!strstr(answer, choices[i])) continue;
        const bool same = !strcmp(choices[i], expected);
        skip = !skip && !same && strstr(expected, choices[i]);
        kept += !skip;
        found |= same;
    }
    return found ? 1.0 / kept : 0;
}

static bool is_text(const char *text, const char *at, size_t bytes)
{
    return strlen(text) == bytes && !memcmp(text, at, bytes);
}

static bool score_letter(const words *w, const char *answer, const char *expected)
{
    static const char *const prefixes[] = {"answer is:", "answer:", "answer is", "option is"};
    const char              *begin = NULL, *end = NULL; /* without white space around it */
    int32_t                  c;
    for (size_t used; (used = next(answer, &c)); answer += used)
        if (!is_space(c)) {
            begin = begin ? begin : answer;
            end = answer + used;
        }
    if (!begin) return false;
    if (*begin >= 'A' && *begin <= 'D') return is_text(expected, begin, 1);
    if (is_text(expected, begin, (size_t)(end - begin))) return true;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const char *at = strstr(w->text[0].data, prefixes[i]);
        if (!at) continue;
        at += strlen(prefixes[i]);
        return *at && !strncmp(at + next(at, &c), expected, strlen(expected));
    }
    for (const word *x = w->word; x < w->word + w->n[0]; x++)
        if (memmem("ABCD", 4, x->at, x->bytes)) return is_text(expected, x->at, x->bytes);
    return false;
}

static sg_status score_texts(double *out, words *w, sg_answer_metric metric, const char *answer, const char *expected,
                             sg_error *e)
{
    const char *const stops = metric == SG_ANSWER_ROUGE_L ? " ." : " ";
    normalise(&w->text[0], answer, metric);
    normalise(&w->text[1], expected, metric);
    if (w->text[0].failed || w->text[1].failed) return sg_error_memory(e, "an answer");
    *out = metric >= SG_ANSWER_MATCH && strstr(w->text[0].data, w->text[1].data);
    if (metric >= SG_ANSWER_MATCH) return SG_OK;
    for (int i = 0; i < 2; i++)
        if (!split(w, i, stops))
            return sg_error_set(e, SG_E_UNSUPPORTED, "an %s of more than %d words", i ? "expected answer" : "answer",
                                MOST);
    *out = metric == SG_ANSWER_CHOICE ? score_letter(w, answer, expected) : score_words(w, metric);
    return SG_OK;
}

sg_status sg_answer_score(sg_answer_figures *out, sg_answer_metric metric, const char *answer,
                          const char *const *expected, int count, const char *const *choices, int choice_count,
                          sg_error *e)
{
    words *const w = malloc(sizeof *w);
    sg_status    status = w ? SG_OK : sg_error_memory(e, "an answer");
    double       sum = 0, score = 0;
    *out = (sg_answer_figures){0};
    for (int i = 0; i < count && status == SG_OK; i++) {
        memset(w, 0, offsetof(words, up));
        if (metric == SG_ANSWER_CHOICE && choice_count)
            score = score_classes(answer, expected[i], choices, choice_count);
        else
            status = score_texts(&score, w, metric, answer, expected[i], e);
        for (int k = 0; k < 2; k++) sg_textbuf_free(&w->text[k]);
        sum += score;
        out->score = metric == SG_ANSWER_MATCH ? sum / count : score > out->score ? score : out->score;
        out->exact |= strstr(answer, expected[i]) != NULL;
    }
    free(w);
    return status;
}
