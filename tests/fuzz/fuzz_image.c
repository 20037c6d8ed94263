/* fuzz_image.c - any bytes as a picture; a PNG once more with the checksums of its chunks put right, without which
 * little of it would be reached. */
#include "image_reader.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_as(bool upright, const uint8_t *data, size_t size)
{
    sg_image i = {0};
    sg_error e = {0};
    if (sg_image_decode(&i, &(sg_map){data, size}, "picture", upright, &e) == SG_OK) {
        uint64_t     sum = 0;
        const size_t count = (size_t)i.width * (size_t)i.height * 3;
        if (i.width < 1 || i.height < 1 || count > (size_t)3 << 26) abort();
        for (size_t k = 0; k < count; k++) sum += i.rgb[k];
        if (sum > 255 * (uint64_t)count) abort();
    } else if (e.text[0] == '\0' || i.rgb) {
        abort();
    }
    sg_image_close(&i);
}

static void decode(const uint8_t *data, size_t size)
{
    decode_as(false, data, size);
    decode_as(true, data, size);
}

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Puts the checksums of all chunks right. False when none was wrong. */
static int mend(uint8_t *data, size_t size)
{
    enum { SIGNATURE = 8, FRAME = 12 }; /* a chunk: length, name, bytes, checksum */
    int wrong = 0;
    for (size_t at = SIGNATURE, n; at + FRAME <= size; at += FRAME + n) {
        n = big_endian(data + at);
        if (n > size - at - FRAME) break;
        const uint32_t sum = (uint32_t)crc32(0, data + at + 4, (uInt)n + 4);
        uint8_t *const end = data + at + 8 + n;
        wrong |= big_endian(end) != sum;
        for (int k = 0; k < 4; k++) end[k] = (uint8_t)(sum >> (24 - 8 * k));
    }
    return wrong;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    decode(data, size);
    if (size < 8 || memcmp(data, "\211PNG", 4) != 0) return 0;
    uint8_t *const copy = malloc(size);
    if (!copy) return 0;
    memcpy(copy, data, size);
    if (mend(copy, size)) decode(copy, size);
    free(copy);
    return 0;
}
