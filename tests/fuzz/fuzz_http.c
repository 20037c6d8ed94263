/* fuzz_http.c - any bytes as what a client says in a head, to each of its readers; and as the parts of a form. */
#include "base/utf8.h"
#include "expect.h"
#include "http_form.h"
#include "http_parse.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_plain(const char *text)
{
    size_t bad;
    expect(sg_utf8_check(text, strlen(text), &bad));
    for (; *text; text++) expect(!sg_utf8_control(text) || *text == '\t' || *text == '\n');
}

static void read_target(const char *text)
{
    static const char *const patterns[] = {"/", "/jobs", "/{id}", "/jobs/{id}", "/jobs/{id}/content"};
    sg_http_target           t;
    if (sg_http_target_parse(&t, text)) {
        expect(*t.path == '/' && !strchr(t.path, '?') && t.parameters <= SG_HTTP_PARAMETERS);
        for (int i = 0; i < t.parameters; i++) {
            expect_plain(t.query[i].name);
            expect_plain(t.query[i].value);
            expect(sg_http_target_value(&t, t.query[i].name) != NULL);
        }
        for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
            char       id[SG_HTTP_ID];
            const bool fits = sg_http_path_fits(t.path, patterns[i], id);
            expect(strlen(id) < SG_HTTP_ID && (*id != '\0') == (fits && strchr(patterns[i], '{')));
            expect_plain(id);
            expect(!strpbrk(id, "/\\\t\n") && strcmp(id, ".") != 0 && strcmp(id, "..") != 0);
        }
    }
    sg_http_target_free(&t);
}

static void read_names(const char *text, const char *second)
{
    static const char *const hosts[] = {"video.example", "box:9000", NULL}, *const origins[] = {"https://app.example",
                                                                                                NULL};
    const sg_http_names names = {.listen = "127.0.0.1", .port = 8080, .hosts = hosts, .origins = origins};
    if (sg_http_host_allowed(&names, text)) {
        static const char *const allowed[] = {"localhost:8080", "127.0.0.1:8080", "[::1]:8080", "video.example",
                                              "box:9000"};
        bool                     known = false;
        for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
            known |= strncasecmp(text, allowed[i], strlen(allowed[i])) == 0;
        expect((known || strchr(text, '0')) &&
               !text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:[]")]);
    }
    const sg_http_origin who = sg_http_origin_of(&names, text, second);
    if (who == SG_HTTP_OTHER) expect(strcasecmp(text, origins[0]) == 0);
    if (who == SG_HTTP_OURS)
        expect(strlen(text) >= strlen(second) + 7 && strcasecmp(text + strlen(text) - strlen(second), second) == 0);
}

static void read_others(const char *text, const char *second)
{
    char              value[SG_HTTP_TOKEN + 1];
    uint64_t          first, count;
    const uint64_t    size = strlen(second);
    const char *const key = sg_http_bearer(text);
    expect(!key || (*key && strcmp(text + strlen(text) - strlen(key), key) == 0));
    expect(sg_http_same_secret(text, second) == (strcmp(text, second) == 0));
    if (sg_http_cookie(text, "a", value)) expect(strlen(value) == SG_HTTP_TOKEN && strstr(text, value));
    if (sg_http_range_parse(text, size, &first, &count) == SG_HTTP_PART)
        expect(count && first < size && count <= size - first);
    if (sg_http_boundary_valid(text)) expect(strstr(text, "boundary=") && strlen(text) > 10);
    sg_http_type_is(text, "multipart/form-data");
}

/* ---- forms ---- */

static char folder[] = "/tmp/sg_fuzz_uploads_XXXXXX";

static void remove_folder(void) { rmdir(folder); }

/* Lines of a part each: flags, how many bytes of the name, the name, the data. */
static void read_form(const uint8_t *data, size_t size)
{
    enum { LIMIT = 500 };
    static bool  made;
    sg_http_form f;
    uint64_t     offset = 0;
    if (!made) {
        expect(mkdtemp(folder) != NULL);
        atexit(remove_folder);
        made = true;
    }
    sg_http_form_init(&f, folder, (sg_http_form_limits){LIMIT, LIMIT});
    while (size > 2) {
        const uint8_t *const end = memchr(data, '\n', size);
        const size_t         line = end ? (size_t)(end - data) : size;
        if (line >= 2) {
            const size_t room = line - 2, n = data[1] % 80U < room ? data[1] % 80U : room;
            char         name[80] = "";
            memcpy(name, data + 2, n);
            if (data[0] & 1) offset = 0;
            sg_http_form_take(&f, data[0] & 2 ? NULL : name, data[0] & 4 ? "../x" : NULL, offset,
                              (const char *)data + 2 + n, room - n);
            offset += room - n;
        }
        data += line + (end != NULL);
        size -= line + (end != NULL);
    }
    sg_http_form_end(&f);
    expect(!f.status == !*f.problem && f.field_bytes <= LIMIT && f.upload_bytes <= LIMIT &&
           entries_of(folder) == f.uploads);
    size_t fields = 0, uploads = 0;
    for (int i = 0; i < f.fields && !f.status; i++) {
        size_t bad;
        fields += f.field[i].value.len;
        expect(*f.field[i].name && strlen(f.field[i].value.data) == f.field[i].value.len &&
               sg_utf8_check(f.field[i].value.data, f.field[i].value.len, &bad));
    }
    for (int i = 0; i < f.uploads && !f.status; i++) {
        struct stat st;
        uploads += f.upload[i].bytes;
        expect(stat(f.upload[i].path, &st) == 0 && (size_t)st.st_size == f.upload[i].bytes &&
               !strchr(f.upload[i].name, '/'));
    }
    expect(f.status || (fields == f.field_bytes && uploads == f.upload_bytes));
    sg_http_form_free(&f);
    expect(entries_of(folder) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *const text = malloc(size + 1);
    expect(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    char *const line = strchr(text, '\n');
    if (line) *line = '\0';
    const char *const second = line ? line + 1 : text + strlen(text);
    read_target(text);
    read_names(text, second);
    read_others(text, second);
    free(text);
    read_form(data, size);
    return 0;
}
