/* fuzz_y4m.c - any bytes as a Y4M, read to its end or to its first failure. */
#include "clip_reader.h"
#include "input_file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static _Alignas(16) char state[1 << 13];
    const char *const        path = input_file(data, size);
    sg_clip_frame            frame = {0};
    sg_error                 e = {0};
    size_t                   samples = 0;
    if (sg_clip_y4m.state_size > sizeof state) abort();
    memset(state, 0, sizeof state);
    sg_status status = sg_clip_y4m.open(state, path, &e);
    while (status == SG_OK && (status = sg_clip_y4m.next(state, &frame, &e)) == SG_OK && frame.image) {
        const sg_image *const image = frame.image;
        const size_t          count = sg_image_bytes(image->width, image->height);
        uint64_t              sum = 0;
        for (size_t k = 0; k < count; k++) sum += image->rgb[k];
        if (count == 0 || sum > 255 * (uint64_t)count || (samples += count) > 2 * size) abort(); /* 4:2:0 */
        frame = (sg_clip_frame){0};
    }
    if (status != SG_OK && (frame.image || e.code != status || !strstr(e.text, path))) abort();
    sg_clip_y4m.close(state);
    return 0;
}
