/* test_lora_merge.c - whole renders with a LoRA on weights that a GGUF has as Q8_0: beside them, merged and packed
 * again, and merged as they are widened. */
#include "engine_fixture.h"
#include "lora_file.h"
#include "quantised_file.h"

#define ORIGINAL SG_FIXTURES "/wan21_hd64"

static const char lora[] = "l.safetensors", packed[] = "q8/model.gguf";

typedef struct way {
    const char *denoiser; /* NULL: the folder's own */
    bool        with, merge;
    int         weights_as;
} way;

static void render(film *f, sg_report *report, const way *w)
{
    sg_error   e = {0};
    sg_engine *g = open_engine(&(sg_engine_options){.size = sizeof(sg_engine_options),
                                                    .model_dir = ORIGINAL,
                                                    .parts = {.diffusion_model = w->denoiser},
                                                    .backend = "cpu",
                                                    .dtype = "f32",
                                                    .threads = 1,
                                                    .lora = {{.path = lora, .strength = 2}},
                                                    .loras = w->with,
                                                    .weights_as = w->weights_as,
                                                    .lora_merge = w->merge});
    sg_request r = small(g);
    r.cfg_scale = 1;
    const sg_model_info *const info = sg_engine_info(g);
    const bool                 kept = w->denoiser && w->weights_as != SG_WEIGHTS_BF16;
    assert_int_equal(info->weights_as, !w->denoiser ? SG_WEIGHTS_AUTO : kept ? SG_WEIGHTS_FILE : SG_WEIGHTS_BF16);
    if (w->with) assert_int_equal(info->lora[0]->beside, kept && !w->merge);
    *report = (sg_report){.size = sizeof *report};
    assert_done(render_film(g, &r, f, report, &e), &e);
    sg_engine_close(&g);
}

/* The mean square of differences, in levels. */
static double difference(const film *a, const film *b)
{
    double       sum = 0;
    const size_t n = a->bytes * (size_t)a->frames;
    assert_true(a->frames == b->frames && a->bytes == b->bytes);
    for (size_t i = 0; i < n; i++) sum += (a->rgb[i] - b->rgb[i]) * (a->rgb[i] - b->rgb[i]);
    return sum / (double)n;
}

/* Of the denoiser, as planned. */
static size_t weights_of(const sg_report *r)
{
    int i = 0;
    while (strcmp(r->plan.phase[i].name, "denoise") != 0) i++;
    return r->plan.phase[i].weights + r->plan.phase[i].mapped;
}

/* In F32 a product beside gives what widened weights give, but for the order of sums. Packing what is merged rounds it as
 * the file's own numbers were rounded: the error is as large, at most twice that by chance, and frames are rounded to
 * levels. */
static void a_lora_may_be_beside_or_merged(void **state)
{
    enum { ORIGINAL_WEIGHTS, WIDE, BESIDE, MERGED, WITHOUT, WAYS, TENSORS = 64 };
    static const way ways[WAYS] = {[ORIGINAL_WEIGHTS] = {.with = true},
                                   [WIDE] = {packed, true, true, SG_WEIGHTS_BF16},
                                   [BESIDE] = {packed, true, false, SG_WEIGHTS_AUTO},
                                   [MERGED] = {packed, true, true, SG_WEIGHTS_FILE},
                                   [WITHOUT] = {packed, false, true, SG_WEIGHTS_AUTO}};
    static film      f[WAYS];
    sg_report        report[WAYS];
    shell("mkdir q8 && cp " ORIGINAL "/transformer/config.json q8");
    quantised_write(QUANTISED_FROM, packed);
    lora_save_for(QUANTISED_FROM, lora, NULL);
    for (int i = 0; i < WAYS; i++) render(&f[i], &report[i], &ways[i]);
    const double once = difference(&f[WIDE], &f[ORIGINAL_WEIGHTS]), merged = difference(&f[WIDE], &f[MERGED]);
    assert_true(difference(&f[WIDE], &f[BESIDE]) < 0.01); /* numbers near a half become another level */
    assert_true(merged > 0 && merged <= 2 * once + 1.0 / 6);
    assert_true(difference(&f[WIDE], &f[WITHOUT]) > 16 * merged);
    const size_t without = weights_of(&report[WITHOUT]), ends = TENSORS * SG_ALIGN;
    assert_true(weights_of(&report[MERGED]) <= without + ends);
    assert_true(weights_of(&report[BESIDE]) > without && weights_of(&report[BESIDE]) < weights_of(&report[WIDE]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_lora_may_be_beside_or_merged)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
