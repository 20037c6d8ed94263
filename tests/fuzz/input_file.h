/* input_file.h - a fuzz target's input as a file, for readers that open by name. */
#ifndef SG_FUZZ_INPUT_FILE_H
#define SG_FUZZ_INPUT_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char input_path[] = "/tmp/sg_fuzz_XXXXXX";

static void input_unlink(void) { unlink(input_path); }

/* The name of a file that holds data until the next call. It goes when the process ends. */
static const char *input_file(const uint8_t *data, size_t size)
{
    static int fd = -1;
    if (fd < 0) {
        if ((fd = mkstemp(input_path)) < 0) abort();
        close(fd);
        atexit(input_unlink);
    }
    FILE *const f = fopen(input_path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
    return input_path;
}

#endif
