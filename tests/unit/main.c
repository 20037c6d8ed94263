/* main.c - all unit tests in one executable, which links once and not forty times. usage: units NAME
 *
 * CMake compiles each test_NAME.c with its main renamed to test_NAME, and lists the names in SG_UNITS. */
#include <stdio.h>
#include <string.h>

#define X(name) int name(void);
SG_UNITS
#undef X

static const struct {
    const char *name;
    int (*run)(void);
} units[] = {
#define X(name) {#name, name},
    SG_UNITS
#undef X
};

int main(int argc, char **argv)
{
    const size_t n = sizeof units / sizeof *units;
    for (size_t i = 0; argc == 2 && i < n; i++)
        if (strcmp(argv[1], units[i].name) == 0) return units[i].run();
    fprintf(stderr, "usage: %s NAME, one of:", argv[0]);
    for (size_t i = 0; i < n; i++) fprintf(stderr, " %s", units[i].name);
    fputc('\n', stderr);
    return 2;
}
