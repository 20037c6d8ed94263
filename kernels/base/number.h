/* number.h - numbers in text that comes from outside. All of the n bytes have to be the number. Accepted is one sign, plus
 * or minus, before decimal digits; a real may also have a point, a dot in every locale, and an exponent. White space,
 * hexadecimal, infinities, NaN and empty text are refused. */
#ifndef SG_NUMBER_H
#define SG_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SG_NUMBER_MAX = 127 }; /* bytes of a real at most; a longer one is refused */

/* Reads a whole number from lo to hi. Returns false, with *out as it was, where text[n] is none. */
bool sg_number_int(const char *text, size_t n, int64_t lo, int64_t hi, int64_t *out);

/* Reads the same as an int, and two of them with one of the characters `between` between them, as in 832x480. */
bool sg_number_small(const char *text, size_t n, int lo, int hi, int *out);
bool sg_number_pair(const char *text, const char *between, int lo, int hi, int out[2]);

/* Reads a finite number from lo to hi, as the nearest double to what is written. Returns false, with *out as it was,
 * where text[n] is none. */
bool sg_number_real(const char *text, size_t n, double lo, double hi, double *out);

/* Reads such numbers with commas between them. Returns how many there are, 0 where text is no such list or has more than
 * `most`. */
int sg_number_list(const char *text, double lo, double hi, double *out, int most);

#endif
