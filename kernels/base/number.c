/* number.c - see number.h. */
#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Bytes of the digits that text[n] has from place i. */
static size_t digits(const char *text, size_t n, size_t i)
{
    const size_t from = i;
    while (i < n && is_digit(text[i])) i++;
    return i - from;
}

static size_t sign(const char *text, size_t n, size_t i) { return i < n && (text[i] == '-' || text[i] == '+'); }

bool sg_number_int(const char *text, size_t n, int64_t lo, int64_t hi, int64_t *out)
{
    const size_t from = sign(text, n, 0);
    const bool   minus = from && *text == '-';
    int64_t      v = 0;
    if (from == n || digits(text, n, from) != n - from) return false;
    for (size_t i = from; i < n; i++) { /* towards its sign, since INT64_MIN has no positive counterpart */
        const int digit = minus ? '0' - text[i] : text[i] - '0';
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v)) return false;
    }
    if (v < lo || v > hi) return false;
    *out = v;
    return true;
}

bool sg_number_small(const char *text, size_t n, int lo, int hi, int *out)
{
    int64_t v;
    if (!sg_number_int(text, n, lo, hi, &v)) return false;
    *out = (int)v;
    return true;
}

bool sg_number_pair(const char *text, const char *between, int lo, int hi, int out[2])
{
    const size_t      n = strcspn(text, between);
    const char *const second = text + n + 1;
    return text[n] && sg_number_small(text, n, lo, hi, &out[0]) &&
           sg_number_small(second, strlen(second), lo, hi, &out[1]);
}

static bool is_real(const char *text, size_t n)
{
    size_t       i = sign(text, n, 0);
    const size_t whole = digits(text, n, i);
    i += whole;
    const size_t point = i < n && text[i] == '.', part = point ? digits(text, n, i + 1) : 0;
    i += point + part;
    if (!whole && !part) return false;
    if (i == n) return true;
    if (text[i] != 'e' && text[i] != 'E') return false;
    i++;
    i += sign(text, n, i);
    const size_t exponent = digits(text, n, i);
    return exponent && i + exponent == n;
}

bool sg_number_real(const char *text, size_t n, double lo, double hi, double *out)
{
    char copy[SG_NUMBER_MAX + 1];
    if (n >= sizeof copy || !is_real(text, n)) return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return false;
    const double v = strtod_l(copy, NULL, c);
    freelocale(c);
    if (!isfinite(v) || !(v >= lo && v <= hi)) return false;
    *out = v;
    return true;
}

int sg_number_list(const char *text, double lo, double hi, double *out, int most)
{
    for (int count = 0; count < most; text++) {
        const size_t n = strcspn(text, ",");
        if (!sg_number_real(text, n, lo, hi, &out[count++])) return 0;
        text += n;
        if (!*text) return count;
    }
    return 0;
}
