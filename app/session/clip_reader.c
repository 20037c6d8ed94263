/* clip_reader.c - see clip_reader.h. */
#include "clip_reader.h"
#include "base/file.h"
#include "image_reader.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const sg_clip_loss_names[] = {"as stored", "after conversion to YUV", "after compression"};

static sg_status find_type(const sg_clip_type **out, const char *path, sg_error *e)
{
    struct stat st;
    sg_map      map;
    *out = NULL;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return SG_OK;
    SG_TRY(sg_map_open(&map, path, e));
    const bool picture = sg_image_is(&map);
    const bool y4m = map.size >= 9 && memcmp(map.data, "YUV4MPEG2", 9) == 0;
    sg_map_close(&map);
    if (picture) return SG_OK;
#if SG_FFMPEG
    *out = y4m ? &sg_clip_y4m : &sg_clip_video;
#else
    if (!y4m)
        return sg_error_set(e, SG_E_UNSUPPORTED,
                            "%s: is no picture and no Y4M; this build has no FFmpeg to read other videos", path);
    *out = &sg_clip_y4m;
#endif
    return SG_OK;
}

static void close_state(sg_clip_reader *r)
{
    if (r->state) r->type->close(r->state);
    free(r->state);
    r->state = NULL;
}

static sg_status open_as(sg_clip_reader *r, const sg_clip_type *type, sg_error *e)
{
    r->type = type;
    if (!(r->state = calloc(1, type->state_size))) return sg_error_memory(e, r->path);
    return type->open(r->state, r->path, e);
}

static sg_status open_clip(sg_clip_reader *r, sg_error *e)
{
    const sg_clip_type *type;
    SG_TRY(find_type(&type, r->path, e));
    if (!type) return sg_frame_list_open(&r->list, r->path, e);
    const sg_status status = open_as(r, type, e);
#if SG_FFMPEG
    if (status == SG_E_UNSUPPORTED && type == &sg_clip_y4m) {
        close_state(r);
        *e = (sg_error){0};
        return open_as(r, &sg_clip_video, e);
    }
#endif
    return status;
}

sg_status sg_clip_reader_open(sg_clip_reader **out, const char *path, sg_error *e)
{
    sg_clip_reader *r = *out = calloc(1, sizeof *r);
    if (!r) return sg_error_memory(e, path);
    r->path = path;
    const sg_status status = open_clip(r, e);
    if (status != SG_OK) sg_clip_reader_close(out);
    return status;
}

static sg_status next_picture(sg_clip_reader *r, sg_clip_frame *frame, sg_error *e)
{
    sg_map map;
    if (r->count == r->list.count) return SG_OK;
    sg_image_close(&r->picture);
    SG_TRY(sg_map_open(&map, r->list.path[r->count], e));
    const sg_status status = sg_image_decode(&r->picture, &map, r->list.path[r->count], false, e);
    *frame = (sg_clip_frame){&r->picture, -1, sg_image_is_lossy(&map) ? SG_CLIP_COMPRESSED : r->last.loss};
    sg_map_close(&map);
    return status;
}

sg_status sg_clip_reader_next(sg_clip_reader *r, const sg_image **frame, sg_error *e)
{
    sg_clip_frame next = {0};
    *frame = NULL;
    if (r->count == INT_MAX) return sg_error_set(e, SG_E_UNSUPPORTED, "%s: has too many frames", r->path);
    SG_TRY(r->type ? r->type->next(r->state, &next, e) : next_picture(r, &next, e));
    if (!next.image) return SG_OK;
    r->count++;
    r->last = next;
    *frame = next.image;
    return SG_OK;
}

const sg_frame_list *sg_clip_reader_list(const sg_clip_reader *r) { return r->type ? NULL : &r->list; }

const char *sg_clip_reader_where(sg_clip_reader *r)
{
    if (!r->count) return r->path;
    if (!r->type) return r->list.path[r->count - 1];
    snprintf(r->where, sizeof r->where, "%s: frame %d", r->path, r->count - 1);
    return r->where;
}

void sg_clip_reader_close(sg_clip_reader **reader)
{
    sg_clip_reader *const r = *reader;
    if (!r) return;
    close_state(r);
    sg_image_close(&r->picture);
    sg_frame_list_close(&r->list);
    free(r);
    *reader = NULL;
}
