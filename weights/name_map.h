/* name_map.h - which tensor of a file is meant by a model's name for it, and which of its rows. A model has one list of
 * names, those of its Diffusers folder; another layout is a table of rules beside it.
 *
 *   static const sg_name_rule rules[] = {
 *       {"blocks.%d.attn1.to_q", "blocks.%d.attn.qkv", 3, {{0, 1}}},    q: the first third of the rows of qkv
 *       {"norm_out.linear", "final_layer.mod", 2, {{1, 1}, {0, 1}}},    its halves, the second one first
 *       {"proj_out", "final_layer.linear"},
 *       {NULL, "rope.freqs"}};                                          in the file, and nobody reads it
 *   static const sg_name_map map = {.prefix = "model.diffusion_model.", .rules = rules, .count = 4};
 *
 * A pattern stands for the first components of a name; the components after them (weight, bias) stay as they are. %d is a
 * component that is a number without leading zeros; the numbers of a name take their places in the same order. Where
 * several rules fit the one with the most components counts, of these the first in the table. A name that no rule fits
 * stays as it is. The prefix is put before every name; tensors without it are another component's.
 *
 * A file may count in one list what the model has in levels of `span` entries each. In its pattern %p is the place there:
 * span times the next number plus the one after it, the level's last where the name has no second number. %1 and %2 are
 * span - 1 and span - 2. A file may count the levels from the other end, of which span is then the number: %r is span - 1 less
 * the next number. In a pattern of the model's names %1 is the number span - 1 alone: the last of span blocks. */
#ifndef SG_NAME_MAP_H
#define SG_NAME_MAP_H

#include <stdbool.h>
#include <stddef.h>

enum { SG_NAME_MAX = 512, SG_NAME_ROWS = 2 };

typedef struct sg_name_rule {
    const char *bound; /* pattern of the model's names; NULL: tensors that the file may have for nobody */
    const char *file;  /* pattern of the file's names */
    int         of;    /* equal parts that the file's rows are cut into; 0: all rows are meant */
    struct {
        int first, count; /* parts; a count of 0: no more */
    } rows[SG_NAME_ROWS]; /* what is meant, in this order */
} sg_name_rule;

typedef struct sg_name_map {
    const char         *prefix; /* may be NULL */
    const sg_name_rule *rules;
    size_t              count;
    int                 span; /* of %p, %r, %1 and %2 */
} sg_name_map;

/* Finds the file's name for the model's name `bound`; *rule gets the rule that was used, or NULL. map may be NULL:
 * every name stays. Returns false if the name is too long, or the rule cuts rows that are not there. */
bool sg_name_map_find(const sg_name_map *map, const char *bound, char file[SG_NAME_MAX], const sg_name_rule **rule);

/* Tells whether the file may have a tensor of this name that nobody wants. */
bool sg_name_map_drops(const sg_name_map *map, const char *file);

#endif
