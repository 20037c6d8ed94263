/* picture.c - see picture.h. */
#include "picture.h"
#include "base/file.h"
#include "base/hash.h"
#include "image_reader.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

const char *const sg_picture_keys[] = {"image", "last_image"};

static const char *const option[SG_IMAGES] = {"--image", "--last-image"};

static const char *name_of(const sg_pictures *p, int i) { return p->of_entry ? sg_picture_keys[i] : option[i]; }

static sg_status read_one(sg_pictures *p, int i, sg_error *e)
{
    sg_map map;
    SG_TRY(sg_error_in(e, sg_map_open(&map, p->path[i], e), name_of(p, i)));
    p->hash[i] = sg_hash(SG_HASH, map.data, map.size);
    const sg_status status = sg_image_decode(&p->whole[i], &map, p->path[i], true, e);
    sg_map_close(&map);
    return sg_error_in(e, status, name_of(p, i));
}

sg_status sg_pictures_open(sg_pictures *p, const sg_settings *s, sg_error *e)
{
    *p = (sg_pictures){.path = {s->image, s->last_image}, .fit = s->fit ? s->fit : sg_picture_fits[0]};
    if (s->fit && !s->image && !s->last_image && !s->video)
        return sg_error_set(e, SG_E_ARG, "--fit has no effect: there is no --image and no --video");
    return sg_pictures_read(p, e);
}

sg_status sg_pictures_read(sg_pictures *p, sg_error *e)
{
    for (int i = 0; i < SG_IMAGES; i++)
        if (p->path[i]) SG_TRY(read_one(p, i, e));
    return SG_OK;
}

size_t sg_pictures_bytes(const sg_pictures *p)
{
    size_t bytes = 0;
    for (int i = 0; i < SG_IMAGES; i++) bytes += sg_image_bytes(p->whole[i].width, p->whole[i].height);
    return bytes;
}

/* Puts picture i where r has it. */
static void give(const sg_model_info *info, sg_request *r, int i, sg_request_image picture)
{
    if (info->image[i] == SG_IMAGE_START)
        r->start_image = picture.rgb;
    else
        r->image[i] = picture;
}

sg_status sg_pictures_check(const sg_pictures *p, const sg_engine *engine, const sg_request *r, sg_error *e)
{
    static const char *const edge[SG_IMAGES] = {"begins", "ends"};
    const sg_model_info      info = *sg_engine_info(engine);
    sg_request               whole = *r; /* what the model takes is known before they are fitted */
    for (int i = 0; i < SG_IMAGES; i++) {
        if (p->path[i]) give(&info, &whole, i, (sg_request_image){.rgb = p->whole[i].rgb});
        if (info.image[i] == SG_IMAGE_START && p->path[i] && sg_request_start(r))
            return sg_error_set(e, SG_E_ARG, "%s and a video: this model starts from one of them", name_of(p, i));
        if (info.image[i] == SG_IMAGE_NEEDED && !p->path[i])
            return sg_error_set(e, SG_E_ARG, "%s%s FILE is needed: this model makes a video that %s with a picture",
                                p->of_entry ? "a picture of its own or " : "", option[i], edge[i]);
    }
    return sg_engine_check_request(engine, &whole, e);
}

/* The size in which a picture covers a clip, or lies in it; at least a pixel. */
static void scaled_size(int size[2], const sg_image *from, int width, int height, bool cover)
{
    const int64_t across = (int64_t)width * from->height, down = (int64_t)height * from->width;
    const bool    wide = cover ? across >= down : across <= down; /* the width is the clip's */
    const int64_t other = wide ? across / from->width : down / from->height;
    const int     length = (int)(other < 1 ? 1 : other > INT_MAX ? INT_MAX : other);
    size[0] = wide ? width : length;
    size[1] = wide ? length : height;
}

/* What crop cuts out of may be longer than a picture from a file: its area is bounded, and with it the memory. */
static sg_status resize(sg_image *out, const sg_image *from, int width, int height, sg_error *e)
{
    *out = (sg_image){0};
    if ((int64_t)width * height > SG_IMAGE_MAX_PIXELS)
        return sg_error_set(e, SG_E_FORMAT, "scaled to the clip it is %dx%d pixels; at most %d in all are taken", width,
                            height, SG_IMAGE_MAX_PIXELS);
    *out = (sg_image){width, height, malloc(sg_image_bytes(width, height))};
    if (!out->rgb) return sg_error_set(e, SG_E_MEMORY, "out of memory for %dx%d pixels", width, height);
    return sg_picture_resize(out->rgb, width, height, from->rgb, from->width, from->height, e);
}

sg_status sg_picture_fit(sg_image *out, const sg_image *from, const char *fit, int width, int height, sg_error *e)
{
    int       size[2];
    sg_image  scaled = {0};
    sg_status status;
    sg_image_close(out);
    if (strcmp(fit, "stretch") == 0) return resize(out, from, width, height, e);
    scaled_size(size, from, width, height, strcmp(fit, "crop") == 0);
    status = resize(&scaled, from, size[0], size[1], e);
    if (status == SG_OK) status = sg_image_alloc(out, (size_t)width, (size_t)height, e);
    if (status == SG_OK) { /* what both have, with one center; what is left is black */
        memset(out->rgb, 0, sg_image_bytes(width, height));
        sg_image_put(out, width / 2 - size[0] / 2, height / 2 - size[1] / 2, size[0], size[1], scaled.rgb);
    }
    sg_image_close(&scaled);
    return status;
}

sg_status sg_pictures_fit(sg_pictures *p, const sg_engine *engine, sg_request *r, sg_error *e)
{
    const sg_model_info info = *sg_engine_info(engine);
    for (int i = 0; i < SG_IMAGES; i++) {
        if (!p->path[i]) continue;
        const sg_status status = sg_picture_fit(&p->fitted[i], &p->whole[i], p->fit, r->width, r->height, e);
        SG_TRY(sg_error_in(e, sg_error_in(e, status, p->path[i]), name_of(p, i)));
        give(&info, r, i,
             (sg_request_image){.rgb = p->fitted[i].rgb,
                                .whole = p->whole[i].rgb,
                                .whole_width = p->whole[i].width,
                                .whole_height = p->whole[i].height});
    }
    return SG_OK;
}

void sg_pictures_close(sg_pictures *p)
{
    for (int i = 0; i < SG_IMAGES; i++) {
        sg_image_close(&p->whole[i]);
        sg_image_close(&p->fitted[i]);
    }
}
