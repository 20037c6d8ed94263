/* utf8.c - see utf8.h. */
#include "base/utf8.h"

size_t sg_utf8_next(const char *s, size_t n, int32_t *c)
{
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* by length: below it the form is overlong */
    const unsigned char  first = n ? (unsigned char)*s : 0xff;
    const size_t         length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    int32_t              v = length < 2 ? first : first & (0x7f >> length);
    *c = -1;
    if (!length || first > 0xf4) return 0;
    for (size_t i = 1; i < length; i++) {
        if (i == n || !sg_utf8_continues(s[i])) return 0;
        v = v << 6 | (s[i] & 0x3f);
    }
    if (v < least[length] || (v >= 0xd800 && v <= 0xdfff) || v > 0x10ffff) return 0;
    *c = v;
    return length;
}

size_t sg_utf8_put(char out[4], int32_t c)
{
    const size_t   length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    const unsigned mark[] = {0, 0, 0xc0, 0xe0, 0xf0};
    unsigned       v = (unsigned)c;
    for (size_t i = length; --i; v >>= 6) out[i] = (char)(0x80 | (v & 0x3f));
    out[0] = (char)(mark[length] | v);
    return length;
}

bool sg_utf8_check(const char *s, size_t n, size_t *bad)
{
    for (size_t i = 0; i < n;) {
        int32_t      c;
        const size_t used = sg_utf8_next(s + i, n - i, &c);
        if (!used) return (void)(*bad = i), false;
        i += used;
    }
    return true;
}

size_t sg_utf8_control(const char *s)
{
    const unsigned char first = (unsigned char)s[0], second = first ? (unsigned char)s[1] : 0;
    if (!first) return 0;
    if (first < 0x20 || first == 0x7f) return 1;
    return first == 0xc2 && second >= 0x80 && second < 0xa0 ? 2 : 0;
}

bool sg_utf8_is_space(int32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
