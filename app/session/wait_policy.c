/* wait_policy.c - how long OpenMP's threads spin at the end of a parallel region before they sleep.
 *
 * libgomp spins for some milliseconds. A render has thousands of regions, so beside another busy process the threads spin
 * away the processor that the last one of them waits for: a small clip takes up to 60 times as long. Threads that sleep at
 * once cost a wake-up a region instead: 1.7 times as long where nothing else runs. SPIN_NS is between the two:
 * kernels/NOTES.md, Waiting threads, has the figures.
 *
 * libgomp reads GOMP_SPINCOUNT once, in its constructor, and has no call for it. Nothing else was found to be in time:
 * setenv in main and in the program's constructors comes after libgomp's; what .preinit_array sets is lost, for the C
 * library sets environ after it; and to start the program a second time costs 26 ms. So the program answers this one
 * question itself: the getenv below stands before that of the C library for everything that is loaded, and differs from
 * it in this one variable. What the user sets goes first. Programs that this one starts inherit nothing of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SPIN_NS = 16000, PAUSES = 200, TRIES = 5, COUNT_MAX = 20000 };

static long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

/* libgomp counts pauses, which take 40 cycles on some processors and 140 on others. The shortest try counts: in a longer
 * one something else ran. */
static int spin_count(void)
{
    long shortest = SPIN_NS;
    for (int i = 0; i < TRIES; i++) {
        const long start = now_ns();
        for (int k = 0; k < PAUSES; k++) __builtin_ia32_pause();
        const long took = now_ns() - start;
        if (took < shortest) shortest = took;
    }
    const long count = SPIN_NS * (long)PAUSES / (shortest > 0 ? shortest : 1);
    return (int)(count < COUNT_MAX ? count : COUNT_MAX);
}

__attribute__((visibility("default"))) char *getenv(const char *name)
{
    static char       text[16];
    char *const       value = secure_getenv(name); /* the C library's */
    const char *const policy = secure_getenv("OMP_WAIT_POLICY");
    if (value || strcmp(name, "GOMP_SPINCOUNT") != 0 || (policy && *policy)) return value;
    snprintf(text, sizeof text, "%d", spin_count());
    return text;
}
