/* test_gpu_choice.c - is there an NVIDIA card, by files of a root of our own, and what auto says of it. */
#include "backend.h"
#include "unit.h"

#define PROPRIETARY                                                                                                    \
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"                        \
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
#define OPEN "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)\n"

static char root[] = "/tmp/sg-root-XXXXXX";

static int enter(void **state)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    snprintf(root, sizeof root, "/tmp/sg-root-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int leave(void **state)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}

/* A file below root; its folders are made. */
static void put(const char *path, const char *text)
{
    char name[128];
    snprintf(name, sizeof name, "%s/%s", root, path);
    for (char *at = name + strlen(root) + 1; (at = strchr(at, '/')) != NULL; *at++ = '/') {
        *at = '\0';
        (void)mkdir(name, 0700);
    }
    write_text(name, text);
}

static void expect(bool there, const char *version)
{
    char driver[32] = "?";
    assert_int_equal(sg_gpu_is_there(root, driver, sizeof driver), there);
    assert_string_equal(driver, version);
}

static void the_driver_tells_of_a_card(void **state)
{
    expect(false, "");
    put("proc/driver/nvidia/version", PROPRIETARY);
    expect(true, "550.54.14");
    put("proc/driver/nvidia/version", OPEN);
    expect(true, "580.159.04");
    put("proc/driver/nvidia/version", "");
    expect(true, "");
}

static void a_device_tells_of_a_card(void **state)
{
    put("dev/nvidia0", "");
    expect(true, "");
}

static void the_bus_tells_of_a_card_without_a_driver(void **state)
{
    put("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n"); /* Intel's graphics */
    put("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
    put("sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n"); /* sound of a card that is passed on */
    put("sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
    expect(false, "");
    put("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    expect(false, "");
    put("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
    expect(true, "");
}

static void a_hidden_card_is_not_there(void **state)
{
    put("proc/driver/nvidia/version", PROPRIETARY);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    expect(false, "");
    setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
    expect(false, "");
    setenv("CUDA_VISIBLE_DEVICES", "1", 1);
    expect(true, "550.54.14");
    unsetenv("CUDA_VISIBLE_DEVICES");
}

/* Opens a backend of that name with our root. What auto says is empty where a GPU of this machine serves. */
static void open_and_expect(const char *name, const char *passed)
{
    sg_backend              *b = NULL;
    sg_error                 e = {0};
    const sg_backend_options o = {.name = name, .threads = 1, .root = root};
    if (sg_backend_open(&b, &o, &e)) fail_msg("%s", e.text);
    const bool cuda = strcmp(b->name, "cuda") == 0;
    if (cuda || !passed)
        assert_string_equal(b->passed, "");
    else if (strncmp(b->passed, passed, strlen(passed)) != 0 || strlen(b->passed) <= strlen(passed))
        fail_msg("'%s' and not '%s...'", b->passed, passed);
    if (!cuda && !sg_backend_build().cuda && passed) assert_non_null(strstr(b->passed, "no cuda backend"));
    sg_backend_close(&b);
}

static void auto_says_which_card_it_passed_over_and_why(void **state)
{
    open_and_expect("auto", NULL);
    put("dev/nvidia0", "");
    open_and_expect("auto", "not on the NVIDIA card: ");
    put("proc/driver/nvidia/version", PROPRIETARY);
    open_and_expect("auto", "not on the NVIDIA card (driver 550.54.14): ");
    open_and_expect("cpu", NULL); /* as asked */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_driver_tells_of_a_card, enter, leave),
        cmocka_unit_test_setup_teardown(a_device_tells_of_a_card, enter, leave),
        cmocka_unit_test_setup_teardown(the_bus_tells_of_a_card_without_a_driver, enter, leave),
        cmocka_unit_test_setup_teardown(a_hidden_card_is_not_there, enter, leave),
        cmocka_unit_test_setup_teardown(auto_says_which_card_it_passed_over_and_why, enter, leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
