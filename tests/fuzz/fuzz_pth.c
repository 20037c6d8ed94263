/* fuzz_pth.c - any bytes as a zip of torch.save, and any bytes as the pickle in a sound one: opened, looked through, bound
 * and loaded. */
#include "input_file.h"
#include "source_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(uint8_t **at, uint64_t n, int bytes)
{
    for (int i = 0; i < bytes; i++) *(*at)++ = (uint8_t)(i < 8 ? n >> (8 * i) : 0);
}

static void put_text(uint8_t **at, const void *text, size_t n)
{
    memcpy(*at, text, n);
    *at += n;
}

/* The record in front of an entry's data, or that of the directory. */
static void put_header(uint8_t **at, const char *name, size_t size, const uint8_t *start, const uint8_t *local)
{
    put_text(at, local ? "PK\1\2" : "PK\3\4", 4);
    put(at, 0, local ? 16 : 14);
    put(at, size, 4);
    put(at, size, 4);
    put(at, strlen(name), 2);
    put(at, 0, local ? 12 : 2);
    if (local) put(at, (uint64_t)(local - start), 4);
    put_text(at, name, strlen(name));
}

/* "m/data.pkl" and 64 numbers in "m/data/0". */
static size_t wrap(uint8_t *out, const uint8_t *pickle, size_t size)
{
    static const char *const name[] = {"m/data.pkl", "m/data/0"};
    static const uint8_t     numbers[256];
    const uint8_t *const     content[] = {pickle, numbers};
    const size_t             length[] = {size, sizeof numbers};
    uint8_t                 *at = out, *local[2];
    for (int i = 0; i < 2; i++) {
        local[i] = at;
        put_header(&at, name[i], length[i], out, NULL);
        put_text(&at, content[i], length[i]);
    }
    uint8_t *const directory = at;
    for (int i = 0; i < 2; i++) put_header(&at, name[i], length[i], out, local[i]);
    const size_t bytes = (size_t)(at - directory);
    put_text(&at, "PK\5\6\0\0\0\0\2\0\2", 12);
    put(&at, bytes, 4);
    put(&at, (uint64_t)(directory - out), 4);
    put(&at, 0, 2);
    return (size_t)(at - out);
}

static void open_one(const uint8_t *data, size_t size)
{
    sg_error   e = {0};
    sg_source *s = NULL;
    if (sg_source_open(&s, input_file(data, size), &e) == SG_OK) {
        source_look_through(s, false);
        source_load(s);
        source_keep_all(s);
    } else if (e.text[0] == '\0' || s) {
        abort();
    }
    sg_source_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= 4 && memcmp(data, "PK\3\4", 4) == 0) {
        open_one(data, size);
        return 0;
    }
    uint8_t *const zip = malloc(size + 1024);
    if (!zip) abort();
    open_one(zip, wrap(zip, data, size));
    free(zip);
    return 0;
}
