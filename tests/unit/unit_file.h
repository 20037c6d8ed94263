/* unit_file.h - files that unit tests write, and a locale with a decimal comma. Include it behind cmocka.h. */
#ifndef SG_UNIT_FILE_H
#define SG_UNIT_FILE_H

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static inline void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *const f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void write_text(const char *path, const char *text) { write_bytes(path, text, strlen(text)); }

/* Runs what(context) where the decimal point is a comma, in a locale made for this, as glibc stores one: magic, count of
 * strings, their offsets, the strings. False where the C library does not take it. */
static inline bool with_decimal_comma(void (*what)(void *context), void *context)
{
    static const uint32_t head[] = {0x20031115 ^ 1, 6, 32, 34, 35, 40, 44, 48};
    static const char     strings[] = ",\0\0\0\0\0\0\0,\0\0\0\0\0\0\0UTF-8";
    char                  top[] = "/tmp/sg-locale-XXXXXX", folder[64], path[96], bytes[sizeof head + sizeof strings];
    memcpy(bytes, head, sizeof head);
    memcpy(bytes + sizeof head, strings, sizeof strings);
    assert_non_null(mkdtemp(top));
    snprintf(folder, sizeof folder, "%s/xx_XX", top);
    snprintf(path, sizeof path, "%s/LC_NUMERIC", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    write_bytes(path, bytes, sizeof bytes);
    setenv("LOCPATH", top, 1);
    const bool there = setlocale(LC_NUMERIC, "xx_XX") && strtod("0,5", NULL) == 0.5;
    if (there) what(context);
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    unlink(path);
    rmdir(folder);
    rmdir(top);
    return there;
}

#endif
