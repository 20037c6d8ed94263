/* test_gpu_choice.c - is there an NVIDIA card, by files of a root of our own, and what auto says of it. */
#include "backend.h"
#include "unit.h"

#define PROPRIETARY                                                                                                    \
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"                        \
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n"
#define OPEN "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)\n"

static void expect(bool there, const char *version)
{
    char driver[32] = "?";
    assert_int_equal(sg_gpu_is_there(".", driver, sizeof driver), there);
    assert_string_equal(driver, version);
}

static void the_driver_tells_of_a_card(void **state)
{
    expect(false, "");
    write_text("proc/driver/nvidia/version", PROPRIETARY);
    expect(true, "550.54.14");
    write_text("proc/driver/nvidia/version", OPEN);
    expect(true, "580.159.04");
    write_text("proc/driver/nvidia/version", "");
    expect(true, "");
}

static void a_device_tells_of_a_card(void **state)
{
    write_text("dev/nvidia0", "");
    expect(true, "");
}

static void the_bus_tells_of_a_card_without_a_driver(void **state)
{
    write_text("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n"); /* Intel's graphics */
    write_text("sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
    write_text("sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n"); /* sound of a card that is passed on */
    write_text("sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
    expect(false, "");
    write_text("sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    expect(false, "");
    write_text("sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
    expect(true, "");
}

/* Opens a backend of that name with our root. What auto says is empty where a GPU of this machine serves. */
static void open_and_expect(const char *name, const char *passed)
{
    sg_backend              *b = NULL;
    sg_error                 e = {0};
    const sg_backend_options o = {.name = name, .threads = 1, .root = "."};
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
    write_text("dev/nvidia0", "");
    open_and_expect("auto", "not on the NVIDIA card: ");
    write_text("proc/driver/nvidia/version", PROPRIETARY);
    open_and_expect("auto", "not on the NVIDIA card (driver 550.54.14): ");
    open_and_expect("cpu", NULL); /* as asked */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_driver_tells_of_a_card, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(a_device_tells_of_a_card, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(the_bus_tells_of_a_card_without_a_driver, enter_folder, leave_folder),
        cmocka_unit_test_setup_teardown(auto_says_which_card_it_passed_over_and_why, enter_folder, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
