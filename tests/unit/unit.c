/* unit.c - see unit.h. */
#include "unit.h"

#include <dirent.h>
#include <ftw.h>
#include <jansson.h>
#include <locale.h>

static char before[1024], folder[32];

int enter_folder(void **state)
{
    strcpy(folder, "/tmp/sg_unit_XXXXXX");
    return !getcwd(before, sizeof before) || !mkdtemp(folder) || chdir(folder);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at) { return remove(path); }

int leave_folder(void **state) { return chdir(before) || nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

void make_folders(const char *path)
{
    char at[256];
    for (const char *slash = path; (slash = strchr(slash + 1, '/'));) {
        snprintf(at, sizeof at, "%.*s", (int)(slash - path), path);
        mkdir(at, 0700);
    }
}

void write_bytes(const char *path, const void *bytes, size_t n)
{
    make_folders(path);
    FILE *const f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void write_text(const char *path, const char *text) { write_bytes(path, text, strlen(text)); }

void write_format(const char *path, const char *fmt, ...)
{
    va_list args;
    char   *text;
    va_start(args, fmt);
    assert_true(vasprintf(&text, fmt, args) >= 0);
    va_end(args);
    write_text(path, text);
    free(text);
}

void write_changed(const char *to, const char *from, const char *key, const char *value)
{
    json_t *const object = json_load_file(from, 0, NULL);
    assert_non_null(object);
    if (value)
        assert_int_equal(json_object_set_new(object, key, json_loads(value, JSON_DECODE_ANY, NULL)), 0);
    else
        json_object_del(object, key);
    assert_int_equal(json_dump_file(object, to, 0), 0);
    json_decref(object);
}

char *read_file(const char *path, size_t *size)
{
    struct stat s;
    FILE *const f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &s), 0);
    char *const text = calloc((size_t)s.st_size + 1, 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)s.st_size, f), s.st_size);
    fclose(f);
    if (size) *size = (size_t)s.st_size;
    return text;
}

int files_in(const char *of)
{
    DIR *const d = opendir(of);
    int        n = 0;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

void shell(const char *fmt, ...)
{
    va_list args;
    char    command[2048];
    va_start(args, fmt);
    assert_in_range(vsnprintf(command, sizeof command, fmt, args), 1, sizeof command - 1);
    va_end(args);
    if (system(command) != 0) fail_msg("%s", command);
}

/* The locale is a file as glibc stores one: magic, count of strings, their offsets, the strings. */
bool with_decimal_comma(void (*what)(void *context), void *context)
{
    static const uint32_t head[] = {0x20031115 ^ 1, 6, 32, 34, 35, 40, 44, 48};
    static const char     strings[] = ",\0\0\0\0\0\0\0,\0\0\0\0\0\0\0UTF-8";
    char                  top[] = "/tmp/sg-locale-XXXXXX", path[64], bytes[sizeof head + sizeof strings];
    memcpy(bytes, head, sizeof head);
    memcpy(bytes + sizeof head, strings, sizeof strings);
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof path, "%s/xx_XX/LC_NUMERIC", top);
    write_bytes(path, bytes, sizeof bytes);
    setenv("LOCPATH", top, 1);
    const bool there = setlocale(LC_NUMERIC, "xx_XX") && strtod("0,5", NULL) == 0.5;
    if (there) what(context);
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    assert_int_equal(nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    return there;
}

void assert_done_(sg_status status, const sg_error *e, const char *file, int line)
{
    if (status == SG_OK) return;
    print_error("status %d: %s\n", (int)status, e->text);
    _fail(file, line);
}

void assert_refused_(sg_status status, sg_status code, sg_error *e, const char *const *names, const char *file,
                     int line)
{
    bool right = status == code && e->code == code && code != SG_OK && *e->text;
    if (!right) print_error("status %d, error %d, should be %d\n", (int)status, (int)e->code, (int)code);
    for (; *names; names++)
        for (const char *name = *names, *end; *name; name = end + (*end == '|')) {
            int blanks = 0;
            end = name + strcspn(name, "|");
            for (const char *c = name; c < end; c++) blanks += *c == ' ' && c > name && c[-1] != ',';
            if (memmem(e->text, strlen(e->text), name, (size_t)(end - name)) && blanks < 4) continue;
            print_error("%s: %.*s\n", blanks < 4 ? "not named" : "a sentence", (int)(end - name), name);
            right = false;
        }
    if (!right) print_error("the message is: %s\n", e->text);
    if (!right) _fail(file, line);
    *e = (sg_error){0};
}
