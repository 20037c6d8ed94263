/* test_http_parse.c - what a client says in a head, and a form part by part. */
#include "http_form.h"
#include "http_parse.h"
#include "unit.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void targets_are_taken_apart(void **state)
{
    sg_http_target t;
    assert_true(sg_http_target_parse(&t, "/a%2e/b?x=1&y=a+b%26%c3%a9&&z&x=2"));
    assert_string_equal(t.path, "/a%2e/b");
    assert_int_equal(t.parameters, 4);
    assert_string_equal(sg_http_target_value(&t, "x"), "1");
    assert_string_equal(sg_http_target_value(&t, "y"), "a b&\xc3\xa9");
    assert_string_equal(sg_http_target_value(&t, "z"), "");
    assert_null(sg_http_target_value(&t, "w"));
    sg_http_target_free(&t);
    assert_true(sg_http_target_parse(&t, "/?"));
    assert_int_equal(t.parameters, 0);
    sg_http_target_free(&t);
}

static void malformed_targets_are_refused(void **state)
{
    static const char *const targets[] = {
        "",      "*",      "http://127.0.0.1/", "a",       "/\x01",   "/a b",    "/#a",     "/\xc3\xa9",
        "/?a=%", "/?a=%4", "/?a=%4g",           "/?a=%00", "/?%00=a", "/?a=%ff", "/?a=%1b", "/?a=%c2%9b"};
    for (size_t i = 0; i < COUNT(targets); i++) {
        sg_http_target t;
        if (sg_http_target_parse(&t, targets[i])) fail_msg("%s", targets[i]);
        sg_http_target_free(&t);
    }
    char many[600] = "/?";
    for (int i = 0; i <= SG_HTTP_PARAMETERS; i++) strcat(many, "a=1&");
    sg_http_target t;
    assert_false(sg_http_target_parse(&t, many));
    sg_http_target_free(&t);
    many[strlen(many) - 4] = '\0';
    assert_true(sg_http_target_parse(&t, many));
    sg_http_target_free(&t);
}

static void paths_fit_patterns(void **state)
{
    static const struct {
        const char *path, *pattern, *id; /* NULL: does not fit */
    } cases[] = {
        {"/jobs", "/jobs", ""},
        {"/jobs/", "/jobs", NULL},
        {"/job", "/jobs", NULL},
        {"/jobs/0af", "/jobs/{id}", "0af"},
        {"/jobs/a%20b%c3%a9", "/jobs/{id}", "a b\xc3\xa9"},
        {"/jobs/0af/content", "/jobs/{id}/content", "0af"},
        {"/jobs/0af/content", "/jobs/{id}", NULL},
        {"/jobs/0af/", "/jobs/{id}", NULL},
        {"/jobs/", "/jobs/{id}", NULL},
        {"/jobs//content", "/jobs/{id}/content", NULL},
        {"/jobs/..", "/jobs/{id}", NULL},
        {"/jobs/.", "/jobs/{id}", NULL},
        {"/jobs/%2e%2e", "/jobs/{id}", NULL},
        {"/jobs/%2e.", "/jobs/{id}", NULL},
        {"/jobs/a%2fb", "/jobs/{id}", NULL},
        {"/jobs/a%5cb", "/jobs/{id}", NULL},
        {"/jobs/..%2f..%2fetc", "/jobs/{id}", NULL},
        {"/jobs/%00", "/jobs/{id}", NULL},
        {"/jobs/a%00", "/jobs/{id}", NULL},
        {"/jobs/%0a", "/jobs/{id}", NULL},
        {"/jobs/%", "/jobs/{id}", NULL},
        {"/jobs/%ff", "/jobs/{id}", NULL},
        {"/%6aobs", "/jobs", NULL},
        {"/jobs/../jobs", "/jobs", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char       id[SG_HTTP_ID];
        const bool fits = sg_http_path_fits(cases[i].path, cases[i].pattern, id);
        if (fits != (cases[i].id != NULL) || strcmp(id, fits ? cases[i].id : "") != 0)
            fail_msg("%s, %s: %d '%s'", cases[i].path, cases[i].pattern, fits, id);
    }
    char long_id[200] = "/jobs/", id[SG_HTTP_ID];
    memset(long_id + 6, 'a', SG_HTTP_ID);
    assert_false(sg_http_path_fits(long_id, "/jobs/{id}", id));
    long_id[6 + SG_HTTP_ID - 1] = '\0';
    assert_true(sg_http_path_fits(long_id, "/jobs/{id}", id));
}

static void secrets_and_cookies(void **state)
{
    static const char token[] = "0123456789abcdef0123456789abcdef";
    char              value[SG_HTTP_TOKEN + 1];
    assert_string_equal(sg_http_bearer("bearer  abc"), "abc");
    assert_null(sg_http_bearer("Bearer "));
    assert_null(sg_http_bearer("Basic abc"));
    assert_null(sg_http_bearer("Bearerabc"));
    assert_true(sg_http_same_secret("abc", "abc"));
    static const char *const wrong[] = {"", "ab", "abcd", "abd", "abcabc", "Abc"};
    for (size_t i = 0; i < COUNT(wrong); i++) assert_false(sg_http_same_secret(wrong[i], "abc"));
    assert_false(sg_http_same_secret("a", ""));
    static const char *const with[] = {"a=0123456789abcdef0123456789abcdef", "b=1; a=0123456789abcdef0123456789abcdef",
                                       "a=; a=0123456789abcdef0123456789abcdef; c=2"};
    for (size_t i = 0; i < COUNT(with); i++) {
        assert_true(sg_http_cookie(with[i], "a", value));
        assert_string_equal(value, token);
    }
    static const char *const without[] = {"",
                                          ";",
                                          "a",
                                          "a=",
                                          "a=0123456789abcdef0123456789abcde",
                                          "a=0123456789abcdef0123456789abcdef0",
                                          "aa=0123456789abcdef0123456789abcdef",
                                          "A=0123456789abcdef0123456789abcdef"};
    for (size_t i = 0; i < COUNT(without); i++) assert_false(sg_http_cookie(without[i], "a", value));
}

static void hosts_are_judged(void **state)
{
    static const char *const   more[] = {"video.example", "box:9000", NULL};
    static const sg_http_names local = {.listen = "127.0.0.1", .port = 8080, .hosts = more};
    static const sg_http_names all = {.listen = "0.0.0.0", .port = 8080, .any = true};
    static const sg_http_names web = {.listen = "::1", .port = 80};
    static const struct {
        const sg_http_names *names;
        const char          *host;
        bool                 allowed;
    } cases[] = {
        {&local, "127.0.0.1:8080", true},
        {&local, "localhost:8080", true},
        {&local, "LocalHost:8080", true},
        {&local, "[::1]:8080", true},
        {&local, "video.example", true},
        {&local, "Video.Example:443", true},
        {&local, "box:9000", true},
        {&local, "box", false},
        {&local, "box:9001", false},
        {&local, "127.0.0.1", false},
        {&local, "127.0.0.1:80", false},
        {&local, "127.0.0.1:", false},
        {&local, "127.0.0.1:08080x", false},
        {&local, "127.0.0.1:99999", false},
        {&local, "127.0.0.1:8080:8080", false},
        {&local, "::1:8080", false},
        {&local, "[::1", false},
        {&local, "[::1]8080", false},
        {&local, "evil.example:8080", false},
        {&local, "localhost.evil.example:8080", false},
        {&local, "evil.example@127.0.0.1:8080", false},
        {&local, "127.0.0.1.evil.example:8080", false},
        {&local, "xvideo.example", false},
        {&local, "video.example.", false},
        {&local, "192.168.1.2:8080", false},
        {&local, "", false},
        {&local, ":8080", false},
        {&local, "[]:8080", false},
        {&all, "192.168.1.2:8080", true},
        {&all, "[fe80::1]:8080", true},
        {&all, "192.168.1.2:81", false},
        {&all, "evil.example:8080", false},
        {&all, "1.evil:8080", false},
        {&web, "[::1]", true},
        {&web, "localhost", true},
        {&web, "localhost:80", true},
        {&web, "localhost:81", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (sg_http_host_allowed(cases[i].names, cases[i].host) != cases[i].allowed) fail_msg("'%s'", cases[i].host);
}

static void names_have_a_form(void **state)
{
    static const char *const hosts[] = {"video.example", "box:9000", "10.0.0.1", "[fd00::1]:80"};
    static const char *const no_hosts[] = {"", "a b", "http://a", "a/b", "a:", "a:65536", "a\nb", "*.example", "::1"};
    static const char *const origins[] = {"https://app.example", "http://box:9000", "tauri://localhost"};
    static const char *const no_origins[] = {"",           "app.example", "https://", "://a",
                                             "https://a/", "https://a b", "null"};
    (void)state;
    for (size_t i = 0; i < COUNT(hosts); i++) assert_true(sg_http_host_valid(hosts[i]));
    for (size_t i = 0; i < COUNT(no_hosts); i++) assert_false(sg_http_host_valid(no_hosts[i]));
    for (size_t i = 0; i < COUNT(origins); i++) assert_true(sg_http_origin_valid(origins[i]));
    for (size_t i = 0; i < COUNT(no_origins); i++) assert_false(sg_http_origin_valid(no_origins[i]));
}

static void origins_are_judged(void **state)
{
    static const char *const   more[] = {"https://app.example", NULL};
    static const sg_http_names names = {.listen = "127.0.0.1", .port = 8080, .origins = more};
    static const struct {
        const char    *origin;
        sg_http_origin who;
    } cases[] = {
        {"http://127.0.0.1:8080", SG_HTTP_OURS},
        {"https://127.0.0.1:8080", SG_HTTP_OURS}, /* behind a proxy */
        {"https://app.example", SG_HTTP_OTHER},
        {"http://app.example", SG_HTTP_FOREIGN},
        {"https://app.example:444", SG_HTTP_FOREIGN},
        {"http://127.0.0.1", SG_HTTP_FOREIGN},
        {"http://localhost:8080", SG_HTTP_FOREIGN}, /* another host than that asked */
        {"http://127.0.0.1:8080.evil.example", SG_HTTP_FOREIGN},
        {"file://127.0.0.1:8080", SG_HTTP_FOREIGN},
        {"http:127.0.0.1:8080", SG_HTTP_FOREIGN},
        {"null", SG_HTTP_FOREIGN},
        {"", SG_HTTP_FOREIGN},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (sg_http_origin_of(&names, cases[i].origin, "127.0.0.1:8080") != cases[i].who)
            fail_msg("'%s'", cases[i].origin);
}

static void types_and_boundaries(void **state)
{
    assert_true(sg_http_type_is("application/json", "application/json"));
    assert_true(sg_http_type_is("Application/JSON ; charset=utf-8", "application/json"));
    assert_false(sg_http_type_is("application/jsonx", "application/json"));
    assert_false(sg_http_type_is("text/plain; application/json", "application/json"));
    static const char *const good[] = {"multipart/form-data; boundary=ab",
                                       "multipart/form-data;boundary=\"--x'()+_,-./:=?\""};
    static const char *const bad[] = {"multipart/form-data",
                                      "multipart/form-data; boundary=",
                                      "multipart/form-data; boundary=a",
                                      "multipart/form-data; boundary=\"",
                                      "multipart/form-data; boundary=\"\"",
                                      "multipart/form-data; boundary=\"a",
                                      "multipart/form-data; boundary=\"a b\"",
                                      "multipart/form-data; boundary=a\"",
                                      "multipart/form-data; boundary=a; charset=utf-8",
                                      "multipart/form-data; charset=utf-8; boundary=a",
                                      "multipart/form-data; xboundary=a"};
    for (size_t i = 0; i < COUNT(good); i++) assert_true(sg_http_boundary_valid(good[i]));
    for (size_t i = 0; i < COUNT(bad); i++)
        if (sg_http_boundary_valid(bad[i])) fail_msg("%s", bad[i]);
    char text[120] = "multipart/form-data; boundary=";
    memset(text + strlen(text), 'a', 71);
    assert_false(sg_http_boundary_valid(text));
    text[strlen(text) - 1] = '\0';
    assert_true(sg_http_boundary_valid(text));
}

static void ranges_are_read(void **state)
{
    static const struct {
        const char   *header;
        uint64_t      size;
        sg_http_range range;
        uint64_t      first, count;
    } cases[] = {
        {"bytes=0-0", 10, SG_HTTP_PART, 0, 1},
        {"bytes=3-5", 10, SG_HTTP_PART, 3, 3},
        {"Bytes=3-", 10, SG_HTTP_PART, 3, 7},
        {"bytes=3-99", 10, SG_HTTP_PART, 3, 7},
        {"bytes=-4", 10, SG_HTTP_PART, 6, 4},
        {"bytes=-40", 10, SG_HTTP_PART, 0, 10},
        {"bytes=0-18446744073709551615", 10, SG_HTTP_PART, 0, 10},
        {"bytes=0-99999999999999999999999", 10, SG_HTTP_PART, 0, 10},
        {"bytes=9-", 10, SG_HTTP_PART, 9, 1},
        {"bytes=10-", 10, SG_HTTP_OUTSIDE, 0, 0},
        {"bytes=-0", 10, SG_HTTP_OUTSIDE, 0, 0},
        {"bytes=0-", 0, SG_HTTP_OUTSIDE, 0, 0},
        {"bytes=-1", 0, SG_HTTP_OUTSIDE, 0, 0},
        {"bytes=99999999999999999999999-", 10, SG_HTTP_OUTSIDE, 0, 0},
        {"bytes=5-3", 10, SG_HTTP_WHOLE, 0, 0},
        {"bytes=0-1,3-4", 10, SG_HTTP_WHOLE, 0, 0},
        {"bytes=-", 10, SG_HTTP_WHOLE, 0, 0},
        {"bytes=", 10, SG_HTTP_WHOLE, 0, 0},
        {"bytes=--1", 10, SG_HTTP_WHOLE, 0, 0},
        {"bytes=1", 10, SG_HTTP_WHOLE, 0, 0},
        {"items=0-1", 10, SG_HTTP_WHOLE, 0, 0},
        {"", 10, SG_HTTP_WHOLE, 0, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t            first = 0, count = 0;
        const sg_http_range range = sg_http_range_parse(cases[i].header, cases[i].size, &first, &count);
        if (range != cases[i].range || (range == SG_HTTP_PART && (first != cases[i].first || count != cases[i].count)))
            fail_msg("'%s' of %d", cases[i].header, (int)cases[i].size);
    }
}

/* ---- forms ---- */

static void put(sg_http_form *f, const char *name, const char *file, uint64_t offset, const char *text)
{
    sg_http_form_take(f, name, file, offset, text, strlen(text));
}

/* As libmicrohttpd does where a part's bytes come later than its head. */
static void a_part_that_begins_twice_is_one(void **state)
{
    sg_http_form f;
    (void)state;
    mkdir("uploads", 0700);
    sg_http_form_init(&f, "uploads", (sg_http_form_limits){100, 100});
    put(&f, "seconds", NULL, 0, "");
    put(&f, "seconds", NULL, 0, "0.5");
    put(&f, "image", "a", 0, "");
    put(&f, "image", "a", 0, "bytes");
    sg_http_form_end(&f);
    assert_int_equal(f.fields, 1);
    assert_int_equal(f.uploads, 1);
    assert_string_equal(f.field[0].value.data, "0.5");
    assert_int_equal(f.upload[0].bytes, 5);
    sg_http_form_free(&f);
}

static void a_form_has_fields_and_files(void **state)
{
    sg_http_form f;
    mkdir("uploads", 0700);
    sg_http_form_init(&f, "uploads", (sg_http_form_limits){100, 100});
    put(&f, "prompt", NULL, 0, "a red ");
    put(&f, "prompt", NULL, 6, "ball");
    put(&f, "image", "../../../etc/passwd", 0, "abc");
    put(&f, "image", "../../../etc/passwd", 3, "def");
    put(&f, "empty", NULL, 0, "");
    put(&f, "mask[]", "", 0, "");
    sg_http_form_end(&f);
    assert_int_equal(f.status, 0);
    assert_int_equal(f.fields, 2);
    assert_string_equal(f.field[0].name, "prompt");
    assert_string_equal(f.field[0].value.data, "a red ball");
    assert_string_equal(f.field[1].name, "empty");
    assert_string_equal(f.field[1].value.data, "");
    const sg_http_upload *const image = &f.upload[0];
    assert_int_equal(f.uploads, 2);
    assert_string_equal(image->name, "image");
    assert_true(image->bytes == 6 && strncmp(image->path, "uploads/upload-", 15) == 0);
    char *const text = read_file(image->path, NULL);
    assert_string_equal(text, "abcdef");
    free(text);
    assert_int_equal(files_in("uploads"), 2);
    assert_int_equal(rename(image->path, "taken"), 0);
    sg_http_form_free(&f);
    assert_int_equal(files_in("uploads"), 0); /* but for what was taken */
    assert_int_equal(unlink("taken"), 0);
    rmdir("uploads");
}

/* What goes wrong, with which status. */
static void forms_have_limits(void **state)
{
    char long_name[SG_HTTP_NAME + 1], name[16];
    memset(long_name, 'a', SG_HTTP_NAME);
    long_name[SG_HTTP_NAME] = '\0';
    mkdir("uploads", 0700);
    for (int i = 0; i < 11; i++) {
        sg_http_form f;
        int          status = 400;
        sg_http_form_init(&f, i == 9 ? "not/there" : "uploads", (sg_http_form_limits){100, 100});
        switch (i) {
        case 0: put(&f, NULL, NULL, 0, "a"); break;
        case 1: put(&f, "", NULL, 0, "a"); break;
        case 2: put(&f, long_name, NULL, 0, "a"); break;
        case 3: put(&f, "../a", "b", 0, "a"); break;
        case 4: put(&f, "a", NULL, 1, "a"); break; /* without a beginning */
        case 5: sg_http_form_take(&f, "a", NULL, 0, "b\0c", 3); break;
        case 6: put(&f, "a", NULL, 0, "\xff"); break;
        case 7:
            for (int k = 0; k <= SG_HTTP_FIELDS; k++) snprintf(name, sizeof name, "a%d", k), put(&f, name, NULL, 0, "");
            break;
        case 8:
            for (int k = 0; k <= SG_HTTP_UPLOADS; k++) put(&f, "a", "b", 0, "c");
            break;
        case 9:
            put(&f, "a", "b", 0, "c");
            status = 500;
            break;
        default: /* all of the fields, all of the files */
            for (int k = 0; k < 11; k++) put(&f, "a", NULL, 0, "0123456789");
            assert_int_equal(f.status, 413);
            sg_http_form_free(&f);
            sg_http_form_init(&f, "uploads", (sg_http_form_limits){100, 100});
            for (int k = 0; k < 7; k++) put(&f, "a", "b", 0, "0123456789abcdef");
            status = 413;
        }
        sg_http_form_end(&f);
        if (f.status != status || !*f.problem) fail_msg("%d: %d '%s'", i, f.status, f.problem);
        const int fields = f.fields;
        put(&f, "more", NULL, 0, "nothing is done"); /* any more */
        assert_int_equal(f.fields, fields);
        sg_http_form_free(&f);
        assert_int_equal(files_in("uploads"), 0);
    }
    rmdir("uploads");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_taken_apart),
        cmocka_unit_test(malformed_targets_are_refused),
        cmocka_unit_test(paths_fit_patterns),
        cmocka_unit_test(secrets_and_cookies),
        cmocka_unit_test(hosts_are_judged),
        cmocka_unit_test(names_have_a_form),
        cmocka_unit_test(origins_are_judged),
        cmocka_unit_test(types_and_boundaries),
        cmocka_unit_test(ranges_are_read),
        cmocka_unit_test(a_part_that_begins_twice_is_one),
        cmocka_unit_test(a_form_has_fields_and_files),
        cmocka_unit_test(forms_have_limits),
    };
    return cmocka_run_group_tests_name("http_parse", tests, enter_folder, leave_folder);
}
