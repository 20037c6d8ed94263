/* onednn_version.h - what oneDNN 2 and 3 have different. onednn.c makes the calls of oneDNN 3; this file has them for
 * oneDNN 2, as far as onednn.c needs them. Checked against dnnl.h of 2.6 and of 3.7. */
#ifndef SG_ONEDNN_VERSION_H
#define SG_ONEDNN_VERSION_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdlib.h>

/* Describes how a tensor lies in memory. The arrays belong to the descriptor. */
typedef struct sg_memory_layout {
    int               rank, blocks;
    dnnl_data_type_t  type;
    const dnnl_dim_t *padded, *stride; /* [rank] */
    const dnnl_dim_t *block, *index;   /* [blocks]: sizes, the innermost last, and the dimension that each divides */
} sg_memory_layout;

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t       sg_memory_desc;
typedef const_dnnl_memory_desc_t sg_const_memory_desc;

/* Reads the layout of a descriptor. Returns false where it is oneDNN's secret. */
static inline bool sg_memory_layout_of(sg_memory_layout *out, sg_const_memory_desc d)
{
    dnnl_format_kind_t kind;
    return dnnl_memory_desc_query(d, dnnl_query_format_kind, &kind) == dnnl_success && kind == dnnl_blocked &&
           dnnl_memory_desc_query(d, dnnl_query_ndims_s32, &out->rank) == dnnl_success &&
           dnnl_memory_desc_query(d, dnnl_query_data_type, &out->type) == dnnl_success &&
           dnnl_memory_desc_query(d, dnnl_query_padded_dims, &out->padded) == dnnl_success &&
           dnnl_memory_desc_query(d, dnnl_query_strides, &out->stride) == dnnl_success &&
           dnnl_memory_desc_query(d, dnnl_query_inner_nblks_s32, &out->blocks) == dnnl_success &&
           dnnl_memory_desc_query(d, dnnl_query_inner_blks, &out->block) == dnnl_success &&
           dnnl_memory_desc_query(d, dnnl_query_inner_idxs, &out->index) == dnnl_success;
}

#else

/* oneDNN 2's descriptors are structs, of which its calls take addresses: a struct on the heap serves as a handle. */
typedef dnnl_memory_desc_t       *sg_memory_desc;
typedef const dnnl_memory_desc_t *sg_const_memory_desc;

static inline dnnl_status_t dnnl_memory_desc_clone(sg_memory_desc *out, sg_const_memory_desc from)
{
    *out = malloc(sizeof **out);
    if (!*out) return dnnl_out_of_memory;
    **out = *from;
    return dnnl_success;
}

static inline dnnl_status_t dnnl_memory_desc_destroy(sg_memory_desc d)
{
    free(d);
    return dnnl_success;
}

static inline dnnl_status_t dnnl_memory_desc_create_with_tag(sg_memory_desc *out, int rank, const dnnl_dims_t dim,
                                                             dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t  d;
    const dnnl_status_t status = dnnl_memory_desc_init_by_tag(&d, rank, dim, type, tag);
    return status == dnnl_success ? dnnl_memory_desc_clone(out, &d) : status;
}

static inline dnnl_status_t dnnl_matmul_primitive_desc_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                              sg_const_memory_desc x, sg_const_memory_desc w,
                                                              sg_const_memory_desc b, sg_const_memory_desc y,
                                                              const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t  d;
    const dnnl_status_t status = dnnl_matmul_desc_init(&d, x, w, b, y);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, engine, NULL) : status;
}

static inline dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_prop_kind_t kind, dnnl_alg_kind_t algorithm,
    sg_const_memory_desc x, sg_const_memory_desc w, sg_const_memory_desc b, sg_const_memory_desc y,
    const dnnl_dims_t stride, const dnnl_dims_t dilation, const dnnl_dims_t before, const dnnl_dims_t after,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    const dnnl_status_t     status =
        dnnl_dilated_convolution_forward_desc_init(&d, kind, algorithm, x, w, b, y, stride, dilation, before, after);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &d, attr, engine, NULL) : status;
}

/* oneDNN 2 has these names for calls with other arguments. */
#define dnnl_post_ops_append_eltwise(ops, kind, alpha, beta)                                                           \
    (dnnl_post_ops_append_eltwise)(ops, 1.0f, kind, alpha, beta)
#define dnnl_post_ops_append_sum(ops, scale, zero_point, type) (dnnl_post_ops_append_sum)(ops, scale)

static inline bool sg_memory_layout_of(sg_memory_layout *out, sg_const_memory_desc d)
{
    const dnnl_blocking_desc_t *const b = &d->format_desc.blocking;
    *out = (sg_memory_layout){.rank = d->ndims,
                              .blocks = b->inner_nblks,
                              .type = d->data_type,
                              .padded = d->padded_dims,
                              .stride = b->strides,
                              .block = b->inner_blks,
                              .index = b->inner_idxs};
    return d->format_kind == dnnl_blocked;
}

#endif
#endif
