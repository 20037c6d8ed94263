/* settings.h - settings as rows of the option table: whoever takes, compares or forgets them names phases, not
 * options. */
#ifndef SG_SETTINGS_H
#define SG_SETTINGS_H

#include "option_table.h"

/* Returns the option of this name or alias that s's command has, or NULL. */
const sg_option *sg_settings_option(const sg_settings *s, const char *name);

/* Returns where s has the value of o. */
void       *sg_settings_at(sg_settings *s, const sg_option *o);
const void *sg_settings_value(const sg_settings *s, const sg_option *o);

/* Tells whether s has a value for o. A seed, whose default is 0, counts as given where it is another. */
bool sg_settings_has(const sg_settings *s, const sg_option *o);
void sg_settings_unset(sg_settings *s, const sg_option *o);

/* Tells whether a size or a length that the model cannot render is refused: with --quiet nobody would hear that the
 * nearest is taken. */
bool sg_settings_strict(const sg_settings *s);

/* Returns the hash of the file that o names; 0: none is kept. */
uint64_t sg_settings_hash(const sg_settings *s, const sg_option *o);

/* Returns the next option of one of these phases that s->command has, from row *i on, and puts *i behind it; NULL:
 * there are no more. It passes over --size, which sets --width and --height. */
const sg_option *sg_settings_next(const sg_settings *s, unsigned phases, int *i);

/* Gives to the value of o as from has it, with the hash of its file. */
void sg_settings_copy(sg_settings *to, const sg_settings *from, const sg_option *o);

/* Gives to the options of these phases as from has them, with the hashes of their files. */
void sg_settings_take(sg_settings *to, const sg_settings *from, unsigned phases);

/* Returns the first option of these phases, of a's command, in which both differ: by the hash of its file where it has
 * one, else by its value. NULL: there is none. */
const sg_option *sg_settings_difference(const sg_settings *a, const sg_settings *b, unsigned phases);

#endif
