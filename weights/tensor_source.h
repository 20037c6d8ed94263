/* tensor_source.h - named tensors as a file has them, mapped read-only and never copied, whatever the format:
 * safetensors, as one file or in shards, GGUF, and what torch.save writes. Tensors have numbers from 0 on, in the order
 * of the files. What is returned lives as long as the source. */
#ifndef SG_TENSOR_SOURCE_H
#define SG_TENSOR_SOURCE_H

#include "status.h"
#include "tensor.h"

/* Says what a file stores numbers as. Types that no sg_tensor can view have a name and a size, too. */
typedef struct sg_source_type {
    const char *name;         /* as the file spells it: "BF16", "F8_E4M3" */
    sg_dtype    dtype;        /* SG_DTYPES: no view */
    int         block, bytes; /* so many elements of a row take so many bytes: 1 and 2 for BF16, 32 and 34 for Q8_0 */
} sg_source_type;

typedef struct sg_source_tensor {
    const char           *name;
    const sg_source_type *type;
    const uint8_t        *data; /* in the map, perhaps misaligned */
    uint64_t              bytes;
    int64_t               dim[SG_MAX_RANK]; /* elements, outermost dimension first */
    int                   rank;             /* 0: a scalar */
    const char           *file;             /* that it is in, for messages */
    const uint8_t        *scale; /* F32, perhaps misaligned: the numbers are to be multiplied by it; NULL: by nothing */
    int64_t               scales;      /* one; one for each row of the outermost dimension; or [rows / b, columns / b],
                                     * rounded up, of blocks of b = scale_block rows and columns of a matrix */
    int64_t               scale_block; /* 0: there are no such blocks */
    bool                  attached;    /* belongs to another tensor, as its scale: nobody wants it by itself */
} sg_source_tensor;

/* This is a value of a file's metadata: numbers or texts, one behind the other as the file has them. */
typedef struct sg_source_list {
    uint64_t       count;
    char           kind;  /* 'u' whole numbers, 'i' whole numbers with a sign, 'f' floats, 's' texts */
    int            bytes; /* of a number, little endian; 0 for texts, each of which follows its length in 8 bytes */
    const uint8_t *data;
} sg_source_list;

typedef struct sg_source sg_source;

/* Opens the file at path, whose first bytes tell its format, or the shards that it names if it is an index: its name then
 * ends in ".index.json". Everything
 * in the headers is checked here: one message tells file, tensor and reason. Takes memory in proportion to the headers
 * only. Owns the maps. */
sg_status sg_source_open(sg_source **out, const char *path, sg_error *e) SG_MUST_USE;

/* Opens the weights that are called `stem` in a folder: stem.safetensors, or the shards that stem.safetensors.index.json
 * names (its weight_map: tensor name to a file name in the same folder). Where both exist the index is taken for stems
 * that begin with "diffusion_", as diffusers does, and the single file for others, as transformers does. */
sg_status sg_source_open_stem(sg_source **out, const char *dir, const char *stem, sg_error *e) SG_MUST_USE;

void sg_source_close(sg_source **s);

/* Returns the tensor of that name, its data in the map. It is absent (rank 0) when there is none, or one of a type that
 * sg_dtype lacks. A scalar has shape [1]. Data may be misaligned to their element where the file has them so. */
sg_tensor sg_source_find(const sg_source *s, const char *name);
int64_t   sg_source_index(const sg_source *s, const char *name); /* for the calls below; -1: there is none */

size_t                  sg_source_count(const sg_source *s);
const sg_source_tensor *sg_source_at(const sg_source *s, size_t i);
sg_tensor               sg_source_view(const sg_source *s, size_t i); /* as sg_source_find has it */
sg_tensor               sg_source_shape(const sg_source_tensor *t);   /* of any type, without data; a scalar's is [1] */

const char *sg_source_metadata(const sg_source *s, const char *key); /* a text, or NULL */

/* Reads any value of that key, a single one too, as a list that lives as long as the source. Returns false where there
 * is none. */
bool   sg_source_metadata_list(const sg_source *s, const char *key, sg_source_list *out);
double sg_source_number(const sg_source_list *l, uint64_t i); /* of a list that is not of texts; i below its count */
/* Returns the first text of a list, which leaves the list. The list must not be empty. */
const char *sg_source_next_text(sg_source_list *l, size_t *length);

const char *sg_source_path(const sg_source *s); /* for messages: of the file or the index */
int         sg_source_files(const sg_source *s);
uint64_t    sg_source_bytes(const sg_source *s); /* of all files */

/* Says that these bytes have been read and are not needed for now; they come back by themselves if they are. */
void sg_source_drop(const sg_source *s, const void *data, size_t bytes);

/* Tells weights apart, by names, shapes and first numbers of the tensors, in whatever order and files they are; F32 and
 * the BF16 of it are the same. Reads one page of each tensor. start is SG_HASH, or another for another part of a
 * model. */
uint64_t sg_source_hash(const sg_source *s, uint64_t start);

#endif
