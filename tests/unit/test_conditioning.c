/* test_conditioning.c - the texts of a render: filled up to one length, or without any token. A made-up encoder has an id
 * for each character and one at the end; its state is the id. */
#include "engine_state.h"
#include "unit.h"

enum { END = 1, PAD = 2, MOST = 6 };

static int encoded, rows; /* texts and their tokens */

static int width(const void *of) { return 1; }

static sg_status tokenize(const void *of, const char *text, size_t size, int max, int32_t **ids, int *count,
                          sg_error *e)
{
    const int n = size < (size_t)max ? (int)size : max - 1;
    *ids = calloc((size_t)n + 1, sizeof **ids);
    assert_non_null(*ids);
    for (int i = 0; i < n; i++) (*ids)[i] = text[i];
    (*ids)[n] = END;
    *count = n + 1;
    return SG_OK;
}

static int32_t pad(const void *of) { return PAD; }

static int pooled(const void *of) { return 2; }

/* The row has the first id and how many there are. */
static void encode(const void *of, sg_stream *s, sg_tensor y, sg_tensor row, const int32_t *ids, int n)
{
    float state[MOST];
    for (int i = 0; i < n; i++) state[i] = (float)ids[i];
    sg_upload(s, y, state);
    if (row.rank) sg_upload(s, row, (float[]){(float)ids[0], (float)n});
    encoded++;
    rows += n;
}

static const sg_text_encoder_ops ops = {
    .width = width, .pooled = pooled, .tokenize = tokenize, .pad = pad, .encode = encode};

/* Tokens and states of these texts. */
static void condition(sg_conditioning *c, const sg_text_source *source, const char *prompt, const char *negative)
{
    static const sg_family   family = {0};
    static _Alignas(64) char memory[4096];
    const sg_components      components = {.text = {*source}, .texts = 1, .guidance = SG_GUIDANCE_CLASSIFIER_FREE};
    const sg_request         r = {.prompt = prompt, .negative_prompt = negative, .cfg_scale = 6};
    const sg_backend_options o = {.name = "ref"};
    sg_backend              *backend = NULL;
    sg_error                 e = {0};
    assert_int_equal(sg_backend_open(&backend, &o, &e), SG_OK);
    sg_stream s = sg_stream_of(backend);
    s.scratch = (sg_arena){.base = (uintptr_t)memory, .cap = sizeof memory};
    encoded = rows = 0;
    assert_int_equal(sg_conditioning_tokenize(c, &family, NULL, &components, &r, &e), SG_OK);
    if (!sg_conditioning_encoded(c, 0)) sg_conditioning_encode(c, &components, 0, &s);
    assert_int_equal(s.status, SG_OK);
    assert_true(sg_conditioning_encoded(c, 0));
    sg_backend_close(&backend);
}

static void expect(const sg_text_states *t, const char *text, int tokens, int len, int cut)
{
    assert_int_equal(t->tokens, tokens);
    assert_int_equal(t->len, len);
    assert_int_equal(t->cut, cut);
    for (int i = 0; i < len; i++) {
        assert_int_equal(t->ids[i], i < tokens - 1 ? text[i] : i < tokens ? END : PAD);
        assert_true(t->states[i] == (float)t->ids[i]);
    }
    assert_true(len == 0 || (t->row[0] == (float)t->ids[0] && t->row[1] == (float)len));
}

static void texts_are_filled_up(void **state)
{
    const sg_text_source source = {.encoder = {.ops = &ops}, .tokens_max = MOST, .padded = true};
    sg_conditioning      c = {0};
    condition(&c, &source, "abc", "");
    expect(&c.text[0][0], "abc", 4, MOST, 0);
    expect(&c.text[1][0], "", 1, MOST, 0);
    assert_int_equal(rows, 2 * MOST);
    condition(&c, &source, "abcdefgh", ""); /* the other one stays */
    expect(&c.text[0][0], "abcde", MOST, MOST, 3);
    expect(&c.text[1][0], "", 1, MOST, 0);
    assert_int_equal(encoded, 1);
    condition(&c, &source, "abcdefgh", "");
    assert_int_equal(encoded, 0);
    sg_conditioning_free(&c);
}

/* What a family puts before a text is cut with it, and is not counted. */
static void a_template_does_not_count(void **state)
{
    const sg_text_source source = {.encoder = {.ops = &ops}, .tokens_max = MOST, .before = 2};
    sg_conditioning      c = {0};
    condition(&c, &source, "ABcdefgh", "AB");
    assert_int_equal(c.text[0][0].len, MOST);
    assert_int_equal(c.text[0][0].tokens, MOST - 2);
    assert_int_equal(c.text[0][0].cut, 3);
    assert_int_equal(c.text[1][0].tokens, 1);
    sg_conditioning_free(&c);
}

/* A text without tokens is a pass as any other, and nothing to encode. */
static void an_empty_text_may_have_no_token(void **state)
{
    const sg_text_source source = {.encoder = {.ops = &ops}, .tokens_max = MOST, .none_for_empty = true};
    sg_conditioning      c = {0};
    condition(&c, &source, "ab", "");
    assert_int_equal(c.passes, 2);
    expect(&c.text[0][0], "ab", 3, 3, 0);
    expect(&c.text[1][0], "", 0, 0, 0);
    assert_null(c.text[1][0].states);
    assert_int_equal(encoded, 1);
    condition(&c, &source, "", "no");
    expect(&c.text[0][0], "", 0, 0, 0);
    expect(&c.text[1][0], "no", 3, 3, 0);
    condition(&c, &source, "", "");
    assert_int_equal(encoded, 0);
    sg_conditioning_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_filled_up),
                                       cmocka_unit_test(a_template_does_not_count),
                                       cmocka_unit_test(an_empty_text_may_have_no_token)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
