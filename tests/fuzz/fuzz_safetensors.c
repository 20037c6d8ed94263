/* fuzz_safetensors.c - any bytes as a safetensors file: opened, looked through, bound, cut, patched and loaded. */
#include "source_input.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/sg_fuzz_safetensors_XXXXXX";
static char path[64];

static void clean_up(void)
{
    unlink(path);
    rmdir(dir);
}

static void set_up(void)
{
    if (path[0]) return;
    if (!mkdtemp(dir)) abort();
    snprintf(path, sizeof path, "%s/m.safetensors", dir);
    atexit(clean_up);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sg_error   e = {0};
    sg_source *w = NULL;
    set_up();
    FILE *const f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
    if (sg_source_open_stem(&w, dir, "m", &e) == SG_OK) {
        source_look_through(w, true);
        source_load(w);
        source_keep_all(w);
    } else if (e.text[0] == '\0' || w) {
        abort();
    }
    sg_source_close(&w);
    return 0;
}
