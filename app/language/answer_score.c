/* answer_score.c - see answer_score.h. */
#include "answer_score.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

const char *const sg_answer_metric_names[SG_ANSWER_METRICS + 1] = {"overlap", "f1",    "rouge-l",
                                                                   "choice",  "match", "match-any"};

typedef struct word {
    const char *at;
    size_t      bytes;
    int         sentence, id; /* id: the place of the first word that is equal */
} word;

typedef struct words {
    sg_textbuf text[2]; /* of the answer, of the expected one */
    word       word[2 * SG_ANSWER_WORDS];
    int        n[2];
    int        had[2][2 * SG_ANSWER_WORDS]; /* how often, by id */
    bool       common[2 * SG_ANSWER_WORDS]; /* it is in a longest common subsequence, by id */
    int        row[SG_ANSWER_WORDS + 1];    /* lengths of common subsequences */
    uint8_t   *up; /* of two sentences, [x][y]: the longest subsequence is that of one word less of the first */
} words;

static bool is_article(const char *s) { return !strcmp(s, "a") || !strcmp(s, "an") || !strcmp(s, "the"); }

/* What the metric compares: lower case, or for ROUGE-L and choice the case as it is; white space as one blank, but for the
 * matches. For F1 punctuation and articles are dropped; for choice some marks are blanks. */
static void normalise(sg_textbuf *out, const char *text, sg_answer_metric metric)
{
    size_t run = 0; /* where the letters at the end begin */
    for (size_t used = 1; used; text += used) {
        int32_t c;
        used = sg_utf8_next(text, *text ? 4 : 0, &c);
        if (!used && *text) used = 1;
        const utf8proc_category_t k = utf8proc_category(c);
        const bool                letter = (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
                            (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
        const bool blank = sg_utf8_is_space(c) || (c >= 0x1c && c <= 0x1f) ||
                           (metric == SG_ANSWER_CHOICE && c > 0 && c < 0x7f && strchr("\"'.,?!{}", c));
        if (metric == SG_ANSWER_F1 && c > ' ' && c < 0x7f && !letter) continue;
        if (metric == SG_ANSWER_F1 && !letter && out->len > run && is_article(out->data + run)) {
            out->len = run;
            sg_textbuf_put(out, " ", 1);
        }
        if (blank && metric <= SG_ANSWER_CHOICE)
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
    if (w->n[which] == SG_ANSWER_WORDS) return false;
    while (id < n && (w->word[id].bytes != bytes || memcmp(w->word[id].at, at, bytes))) id++;
    w->word[n] = (word){at, bytes, sentence, id};
    w->had[which][id]++;
    w->n[which]++;
    return true;
}

/* False: too many. */
static bool split(words *w, int which, bool by_sentence)
{
    const char *const stops = by_sentence ? " ." : " ";
    const char       *end = w->text[which].data;
    for (int sentence = 0; *end; sentence++) {
        const char *const begin = end + (by_sentence ? strspn(end, ".") : 0), *at = begin;
        const int         before = w->n[which];
        for (end = begin + strcspn(begin, stops + 1); at < end;) {
            at += strspn(at, " ");
            const size_t bytes = strcspn(at, stops);
            if (bytes && !put_word(w, which, at, bytes, sentence)) return false;
            at += bytes;
        }
        if (by_sentence && end > begin && w->n[which] == before && !put_word(w, which, begin, 0, sentence))
            return false;
    }
    return true;
}

static sg_status read_words(words *w, sg_answer_metric metric, const char *const text[2], sg_error *e)
{
    for (int i = 0; i < 2; i++) {
        normalise(&w->text[i], text[i], metric);
        if (w->text[i].failed) return sg_error_memory(e, "words of an answer");
        if (metric <= SG_ANSWER_CHOICE && !split(w, i, metric == SG_ANSWER_ROUGE_L))
            return sg_error_set(e, SG_E_UNSUPPORTED, "an %s of more than %d words", i ? "expected answer" : "answer",
                                SG_ANSWER_WORDS);
    }
    w->up = metric == SG_ANSWER_ROUGE_L ? malloc((size_t)w->n[0] * (size_t)w->n[1] + 1) : NULL;
    return w->up || metric != SG_ANSWER_ROUGE_L ? SG_OK : sg_error_memory(e, "ROUGE-L");
}

/* Marks the words of the longest common subsequence of two sentences of n and m words. */
static void mark_common(words *w, const word *x, int n, const word *y, int m)
{
    memset(w->row, 0, ((size_t)m + 1) * sizeof *w->row);
    for (int i = 0; i < n; i++)
        for (int j = 0, corner = 0; j < m; j++) {
            const int above = w->row[j + 1], left = w->row[j];
            w->up[(size_t)i * (size_t)m + (size_t)j] = above > left;
            w->row[j + 1] = x[i].id == y[j].id ? corner + 1 : above > left ? above : left;
            corner = above;
        }
    for (int i = n - 1, j = m - 1; i >= 0 && j >= 0;) {
        const bool equal = x[i].id == y[j].id, up = w->up[(size_t)i * (size_t)m + (size_t)j];
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

static double f_of(double p, double r, double epsilon) { return p + r > 0 ? 2 * p * r / (p + r + epsilon) : 0; }

static double score_words(words *w, sg_answer_metric metric)
{
    const word *const middle = w->word + w->n[0], *const end = middle + w->n[1];
    const double n = w->n[0], m = w->n[1];
    double       distinct[2] = {0}, both = 0, shared = 0, common = 0;
    if (metric >= SG_ANSWER_MATCH) return strstr(w->text[0].data, w->text[1].data) != NULL;
    if (!w->n[0] || !w->n[1]) return 0;
    for (const word *x = middle; w->up && x < end; x += sentence_length(x, end))
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
    if (metric == SG_ANSWER_OVERLAP) return both / m;
    return metric == SG_ANSWER_F1 ? f_of(shared / n, shared / m, 0)
                                  : f_of(common / distinct[0], common / distinct[1], 1e-8);
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

static bool score_letter(const words *w, const char *answer, const char *expected)
{
    static const char *const prefixes[] = {"answer is:", "answer:", "answer is", "option is"};
    const size_t             n = strlen(expected);
    if (*answer >= 'A' && *answer <= 'D') return n == 1 && *expected == *answer;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const char *at = strstr(w->text[0].data, prefixes[i]);
        if (!at) continue;
        at += strlen(prefixes[i]);
        if (!*at) return false;
        while (sg_utf8_continues(*++at)) {
        }
        return !strncmp(at, expected, n);
    }
    for (const word *x = w->word; x < w->word + w->n[0]; x++)
        if (memmem("ABCD", 4, x->at, x->bytes)) return n == x->bytes && !memcmp(x->at, expected, n);
    return false;
}

sg_status sg_answer_score(sg_answer_figures *out, sg_answer_metric metric, const char *answer,
                          const char *const *expected, int count, const char *const *choices, int choice_count,
                          sg_error *e)
{
    sg_status status = SG_OK;
    double    sum = 0;
    *out = (sg_answer_figures){0};
    for (int i = 0; i < count && status == SG_OK; i++) {
        words *const w = calloc(1, sizeof *w);
        double       score = 0;
        status = w ? read_words(w, metric, (const char *const[]){answer, expected[i]}, e) : sg_error_memory(e, "words");
        if (status == SG_OK && metric != SG_ANSWER_CHOICE) score = score_words(w, metric);
        if (status == SG_OK && metric == SG_ANSWER_CHOICE)
            score = choice_count ? score_classes(answer, expected[i], choices, choice_count)
                                 : score_letter(w, answer, expected[i]);
        sum += score;
        out->score = score > out->score ? score : out->score;
        out->exact |= strstr(answer, expected[i]) != NULL;
        for (int k = 0; w && k < 2; k++) sg_textbuf_free(&w->text[k]);
        if (w) free(w->up);
        free(w);
    }
    if (metric == SG_ANSWER_MATCH && count) out->score = sum / count;
    return status;
}
