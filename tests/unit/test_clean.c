/* test_clean.c - prompt cleaning against what diffusers' prompt_clean makes of the same text. */
#include "prompt_clean.h"
#include "unit.h"

#include <jansson.h>

#define BYTES(s) s, sizeof(s) - 1

/* Texts and results are from ftfy 6.3.1 and Python 3.11's html, in octal where they are not plain ASCII. */
static const struct {
    const char *text;
    size_t      len;
    const char *clean;
} rows[] = {
    /* quotes */
    {BYTES("\342\200\230a\342\200\231 \342\200\232b\342\200\233 \342\200\234c\342\200\235 "
           "\342\200\236d\342\200\237 \312\274e"),
     "'a' 'b' \042c\042 \042d\042 'e"},
    {BYTES("\342\200\262 \302\264 ` stay"), "\342\200\262 \302\264 ` stay"},
    /* ligatures */
    {BYTES("\357\254\202u\357\254\203e\357\254\206 \357\254\200 \357\254\201 \357\254\204 \357\254\205"),
     "fluffiest ff fi ffl \305\277t"},
    {BYTES("\304\262\304\263 \305\211 \307\204\307\205\307\206 \307\207\307\210\307\211 "
           "\307\212\307\213\307\214 \307\261\307\262\307\263"),
     "IJij 'n D\305\275D\305\276d\305\276 LJLjlj NJNjnj DZDzdz"},
    {BYTES("\303\246\305\223 stay"), "\303\246\305\223 stay"},
    /* width */
    {BYTES("\357\274\254\357\274\257\357\274\265\357\274\244\343\200\200\357\274\201\357\274\214"), "LOUD !,"},
    {BYTES("\357\275\266\357\276\236 \357\276\241 \357\277\243 \357\277\245 \357\274\207\357\274\202"),
     "\343\202\254 \341\204\200 \314\204 \302\245 '\042"},
    {BYTES("\343\200\202\343\200\214 stay"), "\343\200\202\343\200\214 stay"},
    /* line breaks */
    {BYTES("a\015\nb\015c\342\200\250d\342\200\251e\302\205f\nb"), "a b c d e\342\200\246f b"},
    {BYTES("\015\n\015\n"), ""},
    /* controls */
    {BYTES("a\001\010\013\016\037\177b"), "ab"},
    {BYTES("\357\273\277a\357\273\277\342\201\252\342\201\257\357\277\271\357\277\274b"), "ab"},
    {BYTES("a\000b"), "ab"},
    {BYTES("a\tb\014c"), "a b c"},
    {BYTES("\342\200\216\342\200\256a\342\200\215\342\200\213 stay"),
     "\342\200\216\342\200\256a\342\200\215\342\200\213 stay"},
    /* windows-1252 */
    {BYTES("\302\200 \302\223a\302\224 \302\201\302\215"), "\342\202\254 \042a\042 \302\201\302\215"},
    {BYTES("\302\234uf"), "\305\223uf"},
    /* escapes */
    {BYTES("\033[36;44mblue\033[0m"), "blue"},
    {BYTES("\033[\331\241;\331\242mx"), "x"},
    {BYTES("\033[\07725l \033]0;t\007 \033[1;"), "[\07725l ]0;t [1;"},
    {BYTES("&#27;[0mx"), "[0mx"},
    {BYTES("\033[\033[0mm"), "[m"},
    /* names, first round */
    {BYTES("&NTILDE;&ntilde;&nTILDE; &SZLIG; &BUMP;"), "\303\221\303\261&nTILDE; SS \342\211\216"},
    {BYTES("&lt;b&gt;"), "<b>"},
    {BYTES("1 < 2 &NTILDE; &amp;amp;lt;"), "1 < 2 &NTILDE; &lt;"},
    {BYTES("a &NTILDE;\n<\n&NTILDE;"), "a \303\221 < &NTILDE;"},
    {BYTES("&amp;amp;amp;amp;amp;lt;"), "<"},
    {BYTES("&amp;&#35;60;"), "<"},
    {BYTES("&CounterClockwiseContourIntegral; &rarr;"), "\342\210\263 \342\206\222"},
    /* names, second round */
    {BYTES("a&ampb &ltx &notit; &notin; &timesx;"), "a&b <x \302\254it; \342\210\211 \303\227x;"},
    {BYTES("&amp &lt &copy2024 &notanentity; &;"), "& < \302\2512024 \302\254anentity; &;"},
    {BYTES("&nvlt; &fjlig; &NotEqualTilde; &bne;"), "<\342\203\222 fj \342\211\202\314\270 =\342\203\245"},
    {BYTES("&acE"), "&acE"},
    {BYTES("&amp;"), "&"},
    {BYTES("&\303\251; &#; &#x; &#xg;"), "&\303\251; &#; &#x; &#xg;"},
    /* numbers */
    {BYTES("&#65;&#x42;&#X43; &#68 &#x45 &#070"), "ABC D E F"},
    {BYTES("&#128;&#x9f;&#129;"), "\342\202\254\305\270\302\201"},
    {BYTES("&#0;&#xD800;&#x110000;&#99999999999999999999;"), "\357\277\275\357\277\275\357\277\275\357\277\275"},
    {BYTES("&#1;&#xFFFF;&#xFDD0;&#127;|"), "|"},
    {BYTES("&#59; &#x3b"), "; ;"},
    {BYTES("&#13;&#10;&#9;x"), "x"},
    {BYTES("&#160;x&#160;"), "x"},
    {BYTES("&#x202e;"), "\342\200\256"},
    {BYTES("&a&#1;mp;lt;"), "<"},
    /* canonical form */
    {BYTES("e\314\201 n\314\203 A\314\212 \342\204\253 \342\204\246"), "\303\251 \303\261 \303\205 \303\205 \316\251"},
    {BYTES("a\314\243\314\207 a\314\207\314\243 s\314\207\314\243"),
     "\341\272\241\314\207 \341\272\241\314\207 \341\271\251"},
    {BYTES("\341\204\222\341\205\241\341\206\253 \352\260\200\341\206\250"), "\355\225\234 \352\260\201"},
    {BYTES("\340\245\230 \342\253\234 \357\254\235 \315\204"),
     "\340\244\225\340\244\274 \342\253\235\314\270 \327\231\326\264 \314\210\314\201"},
    {BYTES("q\314\207\314\243\314\201"), "q\314\243\314\207\314\201"},
    {BYTES("\360\235\205\236"), "\360\235\205\227\360\235\205\245"},
    {BYTES("\340\244\225\340\244\274 \340\247\207\340\246\276"), "\340\244\225\340\244\274 \340\247\213"},
    {BYTES("\302\275 \302\262 \342\221\240 stay"), "\302\275 \302\262 \342\221\240 stay"},
    /* white space */
    {BYTES(""), ""},
    {BYTES("   "), ""},
    {BYTES(" a  b "), "a b"},
    {BYTES("\ta\302\240\302\240b\342\200\203c\343\200\200"), "a b c"},
    {BYTES("\034a\035b\036"), "ab"},
    {BYTES("\342\200\213 a \342\200\213"), "\342\200\213 a \342\200\213"},
    {BYTES("a\341\232\200\342\201\237\342\200\257b"), "a b"},
    {BYTES("\n\n\na\n\n"), "a"},
    /* scripts */
    {BYTES("\344\270\200\345\217\252\347\272\242\350\211\262\347\232\204\347\214\253\357\274\214\345\234\250"
           "\350\215\211\345\234\260\344\270\212\345\245\224\350\267\221\343\200\202"),
     "\344\270\200\345\217\252\347\272\242\350\211\262\347\232\204\347\214\253,\345\234\250\350\215\211\345\234"
     "\260\344\270\212\345\245\224\350\267\221\343\200\202"},
    {BYTES("\327\220\326\270\327\221\326\274 \331\204\330\247\330\245 \340\270\201\340\270\263 \341\272\277"),
     "\327\220\326\270\327\221\326\274 \331\204\330\247\330\245 \340\270\201\340\270\263 \341\272\277"},
    {BYTES("\360\237\207\251\360\237\207\252 \360\237\221\250\342\200\215\360\237\221\251\342\200\215\360\237"
           "\221\247 \342\235\244\357\270\217"),
     "\360\237\207\251\360\237\207\252 \360\237\221\250\342\200\215\360\237\221\251\342\200\215\360\237\221\247 "
     "\342\235\244\357\270\217"},
};

static void check(const char *text, size_t len, const char *wanted, size_t wanted_len)
{
    char    *out = NULL;
    size_t   n = 0;
    sg_error e = {0};
    if (sg_prompt_clean(text, len, &out, &n, &e)) fail_msg("%s", e.text);
    if (n != wanted_len || memcmp(out, wanted, n)) fail_msg("\"%s\" became \"%s\", not \"%s\"", text, out, wanted);
    assert_int_equal(out[n], 0);
    free(out);
}

static void follows_the_table(void **state)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(rows[i].text, rows[i].len, rows[i].clean, strlen(rows[i].clean));
}

static void follows_the_prompt_list(void **state)
{
    FILE *f = fopen(SG_FIXTURES "/prompts_200.txt", "r");
    if (!f) skip();
    char  *line = NULL;
    size_t cap = 0;
    int    count = 0;
    while (getline(&line, &cap, f) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        const json_t *prompt = json_object_get(row, "prompt"), *clean = json_object_get(row, "clean");
        check(json_string_value(prompt), json_string_length(prompt), json_string_value(clean),
              json_string_length(clean));
        json_decref(row);
        count++;
    }
    free(line);
    fclose(f);
    assert_int_equal(count, 200);
}

static void refuse(const char *text, size_t len, const char *why)
{
    char    *out = NULL;
    size_t   n = 0;
    sg_error e = {0};
    assert_refused(sg_prompt_clean(text, len, &out, &n, &e), SG_E_ARG, &e, why);
    assert_null(out);
}

static void refuses_what_is_not_utf8(void **state)
{
    refuse(BYTES("ab\377"), "byte 2 (0xff)");
    refuse(BYTES("\xc0\x80"), "byte 0");              /* overlong */
    refuse(BYTES("a\355\240\200"), "byte 1");         /* surrogate */
    refuse(BYTES("\364\220\200\200"), "byte 0");      /* past U+10FFFF */
    refuse(BYTES("long enough \342\202"), "byte 12"); /* cut short */
    refuse(BYTES("\200"), "byte 0");
}

/* A text of SG_PROMPT_MAX bytes that repeats unit. */
static char *repeat(const char *unit)
{
    char        *s = malloc(SG_PROMPT_MAX + 1);
    const size_t n = strlen(unit);
    assert_non_null(s);
    for (size_t i = 0; i <= SG_PROMPT_MAX; i++) s[i] = unit[i % n];
    return s;
}

static void refuses_what_is_too_long(void **state)
{
    char *s = repeat("a");
    refuse(s, SG_PROMPT_MAX + 1, "1048576");
    check(s, SG_PROMPT_MAX, s, SG_PROMPT_MAX);
    free(s);
}

static void refuses_endless_nesting(void **state)
{
    char *s = repeat(";amp");
    s[0] = '&';
    refuse(s, SG_PROMPT_MAX, "nested|byte 0");
    free(s);
    static char deep[2048] = "&"; /* what is short may nest as deep as it likes */
    for (int i = 0; i < 500; i++) strcat(deep, "amp;");
    strcat(deep, "lt;");
    check(deep, strlen(deep), "<", 1);
}

/* A megabyte of each of these ends in the time of a few passes; a quadratic step would be noticed by the time limit. */
static void takes_a_megabyte_of_anything(void **state)
{
    static const char *const units[] = {
        "\n",
        "\r\n",
        "<\n",
        "a\n",
        "&",
        "&#",
        "&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "\033[",
        "\033[;;;;;;;;;;;;;;;;",
        "&ac;",
        "&#x1;",
        " ",
        "\357\254\203",
        "\357\275\261",
        "\314\201",
        "\314\243",
        "\314\201\314\243",
        "a\314\243\314\201",
        "\\",
    };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        char        *s = repeat(units[i]), *out = NULL;
        size_t       n = 0;
        const size_t unit = strlen(units[i]);
        sg_error     e = {0};
        if (sg_prompt_clean(s, SG_PROMPT_MAX / unit * unit, &out, &n, &e)) fail_msg("%s", e.text);
        free(out);
        free(s);
    }
    char *s = repeat("\314\201"), *out = NULL; /* half a megabyte of marks in the wrong order */
    for (size_t i = SG_PROMPT_MAX / 2; i < SG_PROMPT_MAX; i += 2) memcpy(s + i, "\314\243", 2);
    size_t   n = 0;
    sg_error e = {0};
    assert_int_equal(sg_prompt_clean(s, SG_PROMPT_MAX, &out, &n, &e), SG_OK);
    assert_int_equal(n, SG_PROMPT_MAX);
    assert_memory_equal(out, "\314\243", 2);
    assert_memory_equal(out + n - 2, "\314\201", 2);
    free(out);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_table),        cmocka_unit_test(follows_the_prompt_list),
        cmocka_unit_test(refuses_what_is_not_utf8), cmocka_unit_test(refuses_what_is_too_long),
        cmocka_unit_test(refuses_endless_nesting),  cmocka_unit_test(takes_a_megabyte_of_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
