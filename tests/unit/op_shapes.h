/* op_shapes.h - what an op accepts and refuses, with tensors that have shapes and no data: on a stream `s` of the backend that
 * computes nothing. */
#ifndef SG_OP_SHAPES_H
#define SG_OP_SHAPES_H

#include "op.h"
#include "unit.h"

static inline sg_tensor shape(sg_dtype type, int rank, const int64_t *dim)
{
    sg_tensor t = {.dtype = type, .rank = rank};
    for (int i = 0; i < rank; i++) t.dim[i] = dim[i];
    return t;
}
#define SHAPE(type, ...) shape(SG_##type, SG_DIMS(__VA_ARGS__))
#define ABSENT ((sg_tensor){0})

static inline bool refused(sg_stream *s)
{
    const bool is = s->status == SG_E_SHAPE;
    assert_true(is || s->status == SG_OK);
    s->status = SG_OK;
    return is;
}

#define ACCEPTS(op, args)                                                                                              \
    do {                                                                                                               \
        sg_##op##_(&s, &(args));                                                                                       \
        assert_false(refused(&s));                                                                                     \
    } while (0)
/* The args with one member changed. */
#define REFUSES(op, args, member, ...)                                                                                 \
    do {                                                                                                               \
        sg_##op##_args other_ = (args);                                                                                \
        other_.member = __VA_ARGS__;                                                                                   \
        sg_##op##_(&s, &other_);                                                                                       \
        assert_true(refused(&s));                                                                                      \
    } while (0)
#define ALLOWS(op, args, member, ...)                                                                                  \
    do {                                                                                                               \
        sg_##op##_args other_ = (args);                                                                                \
        other_.member = __VA_ARGS__;                                                                                   \
        ACCEPTS(op, other_);                                                                                           \
    } while (0)

#endif
