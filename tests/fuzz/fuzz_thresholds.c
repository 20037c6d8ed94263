/* fuzz_thresholds.c - any bytes as a file of tuned thresholds; what is taken is sound, and is the same once written and read
 * again. */
#include "expect.h"
#include "input_file.h"
#include "thresholds/thresholds.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 1 << 18 }; /* values of a kind: a short file may tell of many, all of them the same numbers */

static void expect_sound(const sg_thresholds_file *f)
{
    const sg_thresholds *const t = &f->values;
    const size_t               n = (size_t)t->buckets * (size_t)t->layers * (size_t)t->heads;
    expect(!(f->cache.threshold < 0));
    if (!t->layers) {
        expect(n == 0 && !t->amount && f->cache.threshold > 0);
        return;
    }
    expect(t->buckets > 0 && t->layers > 0 && t->heads > 0 && n <= MOST);
    expect(t->rule == SG_SELECT_TOPK || t->rule == SG_SELECT_MASS);
    for (int b = 0; b < t->buckets; b++) expect(t->from[b] >= 0 && (b == 0 || t->from[b] < t->from[b - 1]));
    expect(t->from[t->buckets - 1] == 0);
    for (size_t i = 0; i < n; i++) {
        expect(t->amount[i] >= 0 && t->amount[i] <= 1);
        expect(t->theta[i] >= -1 && t->theta[i] <= 1);
        expect(t->pv_threshold[i] >= 0 && t->pv_threshold[i] <= 1000);
    }
}

static void expect_same(const sg_thresholds_file *f, const sg_thresholds_file *g)
{
    const sg_thresholds *const a = &f->values, *const b = &g->values;
    expect(a->buckets == b->buckets && a->layers == b->layers && a->heads == b->heads && a->rule == b->rule);
    for (int i = 0; i < a->buckets * a->layers * a->heads; i++) {
        expect(fabsf(a->amount[i] - b->amount[i]) <= 1e-6F && fabsf(a->theta[i] - b->theta[i]) <= 1e-6F);
        expect(fabsf(a->pv_threshold[i] - b->pv_threshold[i]) <= 1e-5F * a->pv_threshold[i]);
    }
    expect(fabs(f->cache.threshold - g->cache.threshold) <= 1e-5 * f->cache.threshold);
    expect(strcmp(f->model, g->model) == 0 && f->prompts == g->prompts && f->has_policy == g->has_policy);
    for (int i = 0; i < f->prompts; i++) expect(strcmp(f->prompt[i], g->prompt[i]) == 0);
}

/* Bucket bounds that six digits do not tell apart cannot be written, and longer prompts make a file too large. */
static bool can_be_written(const sg_thresholds_file *f)
{
    for (int b = 1; b < f->values.buckets; b++)
        if (f->values.from[b - 1] - f->values.from[b] < 0.01F) return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sg_thresholds_file f, g;
    sg_error           e = {0};
    if (sg_thresholds_read(&f, input_file(data, size), &e) != SG_OK) {
        expect(e.code != SG_OK && *e.text && !f.values.amount && !f.prompt);
        return 0;
    }
    expect(e.code == SG_OK && !*e.text);
    expect_sound(&f);
    char *text = NULL;
    expect(sg_thresholds_text(&text, &f, &e) == SG_OK);
    if (can_be_written(&f)) {
        expect(sg_thresholds_read(&g, input_file((const uint8_t *)text, strlen(text)), &e) == SG_OK);
        expect_same(&f, &g);
        sg_thresholds_free(&g);
    }
    free(text);
    sg_thresholds_free(&f);
    return 0;
}
