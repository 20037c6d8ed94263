/* language.c - what a language model makes of tokens, for language.py:
 *
 *   golden_language MODEL BACKEND DTYPE PIECE GREEDY < IDS
 *
 * IDS are numbers. On stdout come three lines of numbers: the log-likelihoods of the tokens but the first, the logits behind
 * them, and GREEDY greedy tokens. */
#include "language.h"

#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 1 << 16 };

static int fail(const char *what)
{
    fprintf(stderr, "golden_language: %s\n", what);
    return 1;
}

static void print(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) printf("%.9g%c", (double)x[i], i + 1 < n ? ' ' : '\n');
}

static int run(sg_language *l, const int32_t *ids, int64_t n, int64_t greedy, sg_error *e)
{
    const int64_t  vocab = sg_language_describe(l).vocab;
    float *const   numbers = malloc((size_t)(n + vocab) * sizeof *numbers);
    int32_t *const next = malloc((size_t)greedy * sizeof *next + 1);
    int64_t        count = 0;
    int            status = numbers && next ? 0 : fail("no memory");
    if (!status && (sg_language_append(l, ids, n, numbers, NULL, NULL, e) || sg_language_logits(l, numbers + n, e) ||
                    sg_language_greedy(l, next, greedy, &count, NULL, e)))
        status = fail(e->text);
    if (!status) {
        print(numbers + 1, n - 1);
        print(numbers + n, vocab);
        for (int64_t i = 0; i < count; i++) printf("%d ", (int)next[i]);
        puts("");
    }
    free(next);
    free(numbers);
    return status;
}

int main(int argc, char **argv)
{
    static int32_t ids[TOKENS];
    sg_error       e = {0};
    sg_language   *l = NULL;
    int64_t        n = 0;
    if (argc != 6) return fail("MODEL BACKEND DTYPE PIECE GREEDY");
    while (n < TOKENS && scanf("%d", &ids[n]) == 1) n++;
    const int64_t             greedy = strtoll(argv[5], NULL, 10);
    const sg_language_options o = {
        .backend = argv[2], .dtype = argv[3], .piece = strtoll(argv[4], NULL, 10), .tokens = n + greedy};
    if (n < 2) return fail("fewer than two tokens");
    if (sg_language_open(&l, argv[1], &o, &e)) return fail(e.text);
    const int status = run(l, ids, n, greedy, &e);
    sg_language_close(&l);
    return status;
}
