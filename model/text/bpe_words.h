/* bpe_words.h - how byte-level tokenizers split a text into words: the few regular expressions that published ones have, each
 * matched by hand in linear time. */
#ifndef SG_BPE_WORDS_H
#define SG_BPE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct sg_bpe_split sg_bpe_split;

extern const char sg_bpe_llama[], sg_bpe_qwen[]; /* the regular expressions of Llama 3 and of Qwen2 */

/* Finds the split of this regular expression, as tokenizer.json spells it; NULL where it is not one of those that are
 * known. */
const sg_bpe_split *sg_bpe_split_find(const char *regex);

/* These are GPT-2's, which "ByteLevel" of tokenizer.json is with use_regex, and that of transformers' CLIPTokenizer. */
const sg_bpe_split *sg_bpe_split_gpt2(void);
const sg_bpe_split *sg_bpe_split_clip(void);

/* Tells whether white space is in no word. Else each byte of a text is in one. */
bool sg_bpe_split_drops_space(const sg_bpe_split *s);

/* Finds the first word of text[*at..len), which is UTF-8. Returns how many bytes it has, with *at where it begins; 0
 * where there is none. */
size_t sg_bpe_split_next(const sg_bpe_split *s, const char *text, size_t len, size_t *at);

#endif
