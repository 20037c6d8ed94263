/* answer_score.h - what an answer is worth, by the formulas of published sets of long texts.
 *
 *   overlap    distinct words that both have / words of the expected answer, repeated ones counted. Both are in lower case and
 *              split at white space. A perfect answer with a repeated word scores below 1: .917 for the published needle.
 *              (FranxYao/Long-Context-Data-Engineering, eval/needle/visualize.py)
 *   f1         2 p r / (p + r) of words in lower case, without ASCII punctuation and the articles a, an, the. A word counts
 *              as often as both have it: p is its share of the answer's words, r of the expected ones.
 *              (THUDM/LongBench, metrics.py, qa_f1_score; InfiniteBench has the same)
 *   rouge-l    the "rouge-l" "f" of the Python package rouge 1.0.1: 2 p r / (p + r + 1e-8). Sentences end at full stops; words
 *              keep their case. U is the set of words in the longest common subsequences of every expected sentence with
 *              every sentence of the answer. p = |U| / distinct words of the answer, r = |U| / distinct expected words.
 *              A sentence of white space alone has one word, the empty one. Of equal subsequences the package's is taken.
 *              Python's limit of recursion, where LongBench scores 0, is not kept. (LongBench, rouge_score)
 *   choice     with choices: of those that stand in the answer, the ones that are only a part of the expected answer are left
 *              out, but never the next after one left out. It is 1 / the number of the others if the expected answer is
 *              among them, else 0.
 *              (LongBench, classification_score)
 *              Without choices: 1 if the answer names the expected letter of A to D, else 0. The expected answers are the
 *              letter and its text. The first of these that is there decides: a letter at the beginning; the text alone; what
 *              follows "answer is:", "answer:", "answer is" or "option is"; the first word that is a part of "ABCD".
 *              (InfiniteBench, get_score_one_longbook_choice_eng)
 *   match      the share of the expected answers that stand in the answer, in lower case. (RULER, string_match_all)
 *   match-any  1 if one of them does, else 0. (RULER's question answering, string_match_part)
 *
 * Of several expected answers the best counts, but for match. A text without words scores 0.
 *
 * Texts are UTF-8, and other bytes are taken as they are. Lower case is Unicode's simple mapping. Python's differs for U+0130
 * and for a final sigma. White space is Unicode's and U+001C to U+001F; choice takes each as a blank. Languages without blanks
 * need a splitter of words that is not here. */
#ifndef SG_ANSWER_SCORE_H
#define SG_ANSWER_SCORE_H

#include "base/text.h"

enum { SG_ANSWER_WORDS = 4096 }; /* of an answer, of an expected one */

/* Their names are sg_answer_metric_names (options.h). */
typedef enum sg_answer_metric {
    SG_ANSWER_OVERLAP,
    SG_ANSWER_F1,
    SG_ANSWER_ROUGE_L,
    SG_ANSWER_CHOICE,
    SG_ANSWER_MATCH,
    SG_ANSWER_MATCH_ANY,
    SG_ANSWER_METRICS
} sg_answer_metric;

typedef struct sg_answer_figures {
    double score; /* 0 to 1 */
    bool   exact; /* an expected answer, byte by byte, stands in the answer */
} sg_answer_figures;

/* Scores an answer by `count` expected ones; `choices` counts for SG_ANSWER_CHOICE alone. It takes 17 MiB while it runs.
 * Returns SG_E_UNSUPPORTED where a text has more than SG_ANSWER_WORDS words (the matches take any), SG_E_MEMORY. */
sg_status sg_answer_score(sg_answer_figures *out, sg_answer_metric metric, const char *answer,
                          const char *const *expected, int count, const char *const *choices, int choice_count,
                          sg_error *e) SG_MUST_USE;

#endif
