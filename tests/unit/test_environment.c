/* test_environment.c - the environment's variables that the command reads for the library, which reads none. */
#include "backend.h"
#include "environment.h"
#include "unit.h"

#define CPUMASK "SPARGE_GEN_CPUMASK"

static int clear(void **state)
{
    unsetenv(CPUMASK);
    unsetenv("CUDA_VISIBLE_DEVICES");
    return 0;
}

static void a_level_of_the_cpu_comes_from_the_option_or_the_variable(void **state)
{
    unsigned mask;
    sg_error e = {0};
    assert_done(sg_environment_cpu_mask(&mask, NULL, &e), &e);
    assert_int_equal(mask, 0);
    setenv(CPUMASK, "", 1);
    assert_done(sg_environment_cpu_mask(&mask, NULL, &e), &e);
    assert_int_equal(mask, 0);
    assert_null(sg_environment_cpumask());
    setenv(CPUMASK, "base", 1);
    assert_done(sg_environment_cpu_mask(&mask, NULL, &e), &e);
    assert_int_equal(mask, SG_CPU_BASE);
    assert_string_equal(sg_environment_cpumask(), "base");
    assert_done(sg_environment_cpu_mask(&mask, "avx2", &e), &e);
    assert_int_equal(mask, sg_cpu_mask_of("avx2"));
    setenv(CPUMASK, "avx3", 1);
    assert_done(sg_environment_cpu_mask(&mask, "avx2", &e), &e);
    assert_refused(sg_environment_cpu_mask(&mask, NULL, &e), SG_E_ARG, &e, CPUMASK "|avx3|base, avx2f32");
}

static void the_library_goes_by_its_options_alone(void **state)
{
    sg_error    e = {0};
    sg_backend *b = NULL;
    setenv(CPUMASK, "base", 1);
    assert_done(sg_backend_open(&b, &(sg_backend_options){.name = "cpu", .threads = 1}, &e), &e);
    assert_int_equal(b->features, sg_cpu_features_of(0));
    sg_backend_close(&b);
}

static void a_card_that_is_hidden_was_not_passed(void **state)
{
    assert_string_equal(sg_environment_passed("why"), "why");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_string_equal(sg_environment_passed("why"), "");
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    assert_string_equal(sg_environment_passed("why"), "");
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    assert_string_equal(sg_environment_passed("why"), "why");
}

static void onednn_keeps_to_its_own_variable(void **state)
{
    setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
    assert_string_equal(sg_environment_settle(), "AVX2");
    unsetenv("ONEDNN_MAX_CPU_ISA");
    assert_null(sg_environment_settle());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_level_of_the_cpu_comes_from_the_option_or_the_variable, clear),
        cmocka_unit_test_setup(the_library_goes_by_its_options_alone, clear),
        cmocka_unit_test_setup(a_card_that_is_hidden_was_not_passed, clear),
        cmocka_unit_test_setup(onednn_keeps_to_its_own_variable, clear),
    };
    return cmocka_run_group_tests(tests, clear, clear);
}
