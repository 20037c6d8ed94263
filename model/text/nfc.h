/* nfc.h - Unicode's normal form C, in linear time: utf8proc's own sorts combining marks by exchanging neighbours. */
#ifndef SG_NFC_H
#define SG_NFC_H

#include "base/text.h"

#include <utf8proc.h>

/* This is a list of code points. Zero-initialise it; free(at) frees it. */
typedef struct sg_code_points {
    int32_t *at;
    size_t   len, cap;
} sg_code_points;

/* Appends what c decomposes into by these options of utf8proc. Returns false when memory runs out. */
bool sg_code_points_add(sg_code_points *p, int32_t c, utf8proc_option_t options);

/* Appends p's composed form to out; p is lost. */
void sg_code_points_compose(sg_textbuf *out, sg_code_points *p);

/* Appends the normal form of valid UTF-8; p lends its memory. */
void sg_nfc(sg_textbuf *out, const char *text, size_t len, sg_code_points *p);

#endif
