/* capture.h - q, k and v of one self-attention of a render, into a file. */
#ifndef SG_CAPTURE_H
#define SG_CAPTURE_H

#include "run.h"

typedef struct sg_capture {
    int                layer, step; /* which; of the pass of the prompt */
    const int32_t     *order;       /* in which the video's tokens stand, text aside; NULL: row by row. Borrowed */
    sg_attention_hook *next;        /* sees what comes as well; may be NULL */
    void              *next_context;
    sg_tensor          q, k, v; /* host, rows as the model lays them out; owned */
    int64_t            text_prefix, text_suffix;
    double             timestep;
} sg_capture;

/* Serves as sg_policy's `on_begin`, with the sg_capture as context. A lack of memory is latched in s. */
sg_attention_hook sg_capture_hook;

/* Writes tensors "q" [n, h, d], "k" and "v" [n, hk, d], dtype as computed, with grid "frames,rows,columns", text_prefix
 * and text_suffix (tokens of text before and behind those of the grid), layer, step and timestep (of 1000) as metadata. */
sg_status sg_capture_write(const sg_capture *c, const char *path, const int64_t grid[3], sg_error *e) SG_MUST_USE;
void      sg_capture_free(sg_capture *c);

#endif
