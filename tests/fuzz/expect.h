/* expect.h - what targets that check results have in common. */
#ifndef SG_FUZZ_EXPECT_H
#define SG_FUZZ_EXPECT_H

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>

/* A crash is what a fuzzer reports. */
static inline void expect(bool so)
{
    if (!so) abort();
}

/* Returns how many entries a folder has. */
static inline int entries_of(const char *folder)
{
    DIR *const d = opendir(folder);
    int        n = 0;
    expect(d != NULL);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2; /* without . and .. */
}

#endif
