/* fuzz_index.c - any bytes as the index of two sound shards. */
#include "safetensors_write.h"
#include "tensor_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SHARDS = 2 };

static char dir[] = "/tmp/sg_fuzz_index_XXXXXX";
static char path[SHARDS + 1][64];

static void clean_up(void)
{
    for (int i = 0; i <= SHARDS; i++) unlink(path[i]);
    rmdir(dir);
}

static void set_up(void)
{
    static const char *const names[SHARDS] = {"a", "b.c"};
    float                    x[2] = {1, 2};
    if (path[0][0]) return;
    if (!mkdtemp(dir)) abort();
    snprintf(path[SHARDS], sizeof path[SHARDS], "%s/m.safetensors.index.json", dir);
    for (int i = 0; i < SHARDS; i++) {
        snprintf(path[i], sizeof path[i], "%s/m-%d.safetensors", dir, i + 1);
        if (sg_safetensors_write(path[i], names[i], (sg_tensor){x, SG_F32, 1, {2}}, NULL, NULL) != SG_OK) abort();
    }
    atexit(clean_up);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sg_error   e = {0};
    sg_source *w = NULL;
    set_up();
    FILE *const f = fopen(path[SHARDS], "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0) abort();
    if (sg_source_open_stem(&w, dir, "m", &e) == SG_OK) {
        if (sg_source_files(w) > SHARDS || sg_source_count(w) != (size_t)sg_source_files(w)) abort();
    } else if (e.text[0] == '\0' || w) {
        abort();
    }
    sg_source_close(&w);
    return 0;
}
