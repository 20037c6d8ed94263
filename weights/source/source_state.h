/* source_state.h - what a source holds, and how a format fills it. It is internal to weights/, and for tests. */
#ifndef SG_SOURCE_STATE_H
#define SG_SOURCE_STATE_H

#include "base/file.h"
#include "tensor_source.h"

enum { SG_TENSOR_NAME_MAX = 127, SG_TENSORS_MAX = 1 << 20 }; /* bytes; how many a file may have */

/* This is an entry of a file's metadata. */
typedef struct sg_source_key {
    const char    *name;
    const char    *text;  /* of a single text; NULL: it is something else */
    bool           array; /* not a single value */
    sg_source_list value; /* kind 0: there is nothing but the text */
} sg_source_key;

struct sg_source {
    char             *path;
    sg_map           *map; /* of each file */
    size_t            maps, map_room;
    sg_source_tensor *tensor;
    size_t            count, room;
    sg_source_key    *key;
    size_t            keys, key_room;
    void            **own; /* names, texts and numbers that lie in no map */
    size_t            owned, own_room;
    size_t           *by_name; /* [count] numbers of tensors, sorted by their names */
};

/* Opens a source of nothing; path is for messages. The caller closes. */
sg_status sg_source_new(sg_source **out, const char *path, sg_error *e) SG_MUST_USE;

/* Maps a file, as long as s lives. */
sg_status sg_source_map(sg_source *s, sg_map *out, const char *path, sg_error *e) SG_MUST_USE;

/* Makes memory of so many bytes and a NUL behind them, the same as `bytes` where that is not NULL. It lives as long as
 * s. NULL when memory runs out. */
void *sg_source_keep(sg_source *s, const void *bytes, size_t n);

/* Appends a tensor or a key; names and text are copied. sg_source_add_fit returns SG_E_FORMAT if the name[len] is no
 * fit one, or there are too many tensors. */
sg_status sg_source_add(sg_source *s, sg_source_tensor t, const char *name, size_t len, sg_error *e) SG_MUST_USE;
sg_status sg_source_add_fit(sg_source *s, sg_source_tensor t, const char *name, size_t len, sg_error *e) SG_MUST_USE;
sg_status sg_source_add_key(sg_source *s, sg_source_key k, sg_error *e) SG_MUST_USE;

/* Puts the tensors from `first` on into the order of their data. */
void sg_source_order(sg_source *s, size_t first);

/* Makes keys findable, once all are there; then tensors, which is SG_E_FORMAT if two have one name. */
void                 sg_source_sort_keys(sg_source *s);
const sg_source_key *sg_source_key_of(const sg_source *s, const char *name); /* NULL: there is none */
sg_status            sg_source_sort(sg_source *s, sg_error *e) SG_MUST_USE;

/* Finds a type by the name that safetensors or GGUF gives it; NULL where there is none with blocks of at most so many
 * elements. Only GGUF has larger ones. */
enum { SG_ELEMENTS = 4 };
const sg_source_type *sg_source_type_of(const char *name, int most);

bool sg_source_fits_name(const char *name, size_t len, size_t most); /* UTF-8 of 1 to so many bytes */

/* Sets scale, scales and attached of s's tensors, which are sorted. Returns SG_E_FORMAT for a scale of another shape,
 * type or value, or without its weight, and SG_E_UNSUPPORTED, with its name, for another kind of quantisation. */
sg_status sg_scales_attach(sg_source *s, sg_error *e) SG_MUST_USE;

/* ---- the formats: each reads a mapped file into s, but for its path, and sorts it ---- */

/* safetensors, every byte of its header accounted for: 8 bytes N, little endian; N bytes of JSON, name to {dtype,
 * shape, data_offsets}; the data, without holes. Source: https://github.com/huggingface/safetensors#format */
sg_status sg_safetensors_read(sg_source *s, const sg_map *map, sg_error *e) SG_MUST_USE;
sg_status sg_safetensors_read_index(sg_source *s,
                                    sg_error  *e) SG_MUST_USE; /* at s's path, and the shards that it names */

/* GGUF, every count and length of its header checked before use: "GGUF", version, counts; keys with values; names,
 * shapes (fastest dimension first), types and offsets of tensors; the data, aligned. All little endian. Source:
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; comfy.gguf.orig_shape: city96/ComfyUI-GGUF */
sg_status sg_gguf_read(sg_source *s, const sg_map *map, sg_error *e) SG_MUST_USE;

/* What torch.save writes: a zip of a pickle and of the bytes of its tensors. The older form, which is all pickle, is
 * refused, with what to do. */
sg_status sg_pth_read(sg_source *s, const sg_map *map, sg_error *e) SG_MUST_USE;
sg_status sg_old_pth_read(sg_source *s, const sg_map *map, sg_error *e) SG_MUST_USE;

#endif
