/* driver.c - runs the files of corpus folders, or single files, through a fuzz target. usage: fuzz_corpus fuzz_TARGET PATH...
 *
 * CMake compiles each fuzz_TARGET.c with its entry renamed to fuzz_TARGET, and lists the names in SG_TARGETS. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef int fuzz_target(const uint8_t *data, size_t size);

#define X(name) fuzz_target name;
SG_TARGETS
#undef X

static const struct {
    const char  *name;
    fuzz_target *run;
} targets[] = {
#define X(name) {#name, name},
    SG_TARGETS
#undef X
};

static void die(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(2);
}

/* The input is a block of exactly its size, so that a sanitizer sees every step past its end. */
static void run_file(fuzz_target *run, const char *path)
{
    FILE       *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st)) die(path);
    const size_t size = (size_t)st.st_size;
    uint8_t     *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, f) != size) die(path);
    fclose(f);
    run(data, size);
    free(data);
}

static int run_folder(fuzz_target *run, const char *path)
{
    DIR *d = opendir(path);
    int  count = 0;
    if (!d) die(path);
    for (const struct dirent *entry; (entry = readdir(d));) {
        char name[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        run_file(run, name);
        count++;
    }
    closedir(d);
    return count;
}

int main(int argc, char **argv)
{
    fuzz_target *run = NULL;
    int          count = 0;
    for (size_t i = 0; argc > 1 && i < sizeof targets / sizeof *targets; i++)
        if (strcmp(argv[1], targets[i].name) == 0) run = targets[i].run;
    if (!run) {
        fprintf(stderr, "usage: %s fuzz_TARGET PATH...\n", argv[0]);
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st)) die(argv[i]);
        if (S_ISDIR(st.st_mode))
            count += run_folder(run, argv[i]);
        else
            run_file(run, argv[i]), count++;
    }
    printf("%d inputs\n", count);
    return count ? 0 : 2; /* an empty corpus tests nothing */
}
