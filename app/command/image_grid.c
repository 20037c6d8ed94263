/* image_grid.c - see image_grid.h. */
#include "image_grid.h"
#include "sink.h"

#include <stdlib.h>

sg_status sg_image_grid_check(const char *path, int count, sg_error *e)
{
    SG_TRY(sg_sink_check_ending(path, "--grid", ".png .jpg .jpeg .webp", e));
    if (count < 2) return sg_error_set(e, SG_E_ARG, "--grid is of several images: add --batch N, or a --prompt-file");
    return SG_OK;
}

static sg_clip clip_of(const sg_image_grid *g)
{
    sg_clip clip = {.path = g->path, .frames = 1, .fps = 1};
    sg_collage_grid_size(&g->collage, &clip.width, &clip.height);
    return clip;
}

void sg_image_grid_open(sg_image_grid *out, const char *path, int count, int width, int height)
{
    *out = (sg_image_grid){.path = path, .collage = {.width = width, .height = height, .frames = 1, .arms = count}};
}

size_t sg_image_grid_bytes(const sg_image_grid *g)
{
    if (!g->path) return 0;
    const sg_clip clip = clip_of(g);
    return sg_image_bytes(clip.width, clip.height) + sg_sink_bytes(&clip);
}

sg_status sg_image_grid_put(sg_image_grid *g, int k, const uint8_t *rgb, sg_error *e)
{
    if (!g->path) return SG_OK;
    if (!g->on.rgb) {
        const sg_clip clip = clip_of(g);
        g->on = (sg_image){clip.width, clip.height, calloc(1, sg_image_bytes(clip.width, clip.height))};
        if (!g->on.rgb) return sg_error_memory(e, g->path);
    }
    sg_collage_grid_put(&g->on, &g->collage, k, rgb);
    return SG_OK;
}

sg_status sg_image_grid_save(sg_image_grid *g, sg_error *e)
{
    return sg_sink_save_picture(g->path, &g->on, g->settings, e);
}

void sg_image_grid_close(sg_image_grid *g)
{
    sg_image_close(&g->on);
    free(g->settings);
    *g = (sg_image_grid){0};
}
