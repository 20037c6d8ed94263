/* driver.c - runs every file of the corpus folders, or the files, named on the command line through a fuzz target. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(2);
}

/* The input is a block of exactly its size, so that a sanitizer sees every step past its end. */
static void run_file(const char *path)
{
    FILE       *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st)) die(path);
    const size_t size = (size_t)st.st_size;
    uint8_t     *data = malloc(size ? size : 1);
    if (!data || fread(data, 1, size, f) != size) die(path);
    fclose(f);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static int run_folder(const char *path)
{
    DIR *d = opendir(path);
    int  count = 0;
    if (!d) die(path);
    for (const struct dirent *entry; (entry = readdir(d));) {
        char name[4096];
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        run_file(name);
        count++;
    }
    closedir(d);
    return count;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (stat(argv[i], &st)) die(argv[i]);
        if (S_ISDIR(st.st_mode))
            count += run_folder(argv[i]);
        else
            run_file(argv[i]), count++;
    }
    printf("%d inputs\n", count);
    return count ? 0 : 2; /* an empty corpus tests nothing */
}
