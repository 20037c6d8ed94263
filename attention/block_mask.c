/* block_mask.c - see block_mask.h. */
#include "block_mask.h"

sg_status sg_block_mask_check(const sg_policy *p, const sg_attention_shape *x, sg_error *e)
{
    const sg_tensor *const m = &p->mask;
    const int64_t          n = x->masked ? x->masked : x->n;
    const int64_t          nq = sg_div_up(n, SG_BLOCK_Q), nk = sg_div_up(x->m ? x->m : n, SG_BLOCK_K);
    if (m->dtype == SG_U8 && m->rank == 3 && (m->dim[0] == 1 || m->dim[0] == x->h) && m->dim[1] == nq &&
        m->dim[2] == nk)
        return SG_OK;
    char shape[96];
    sg_shape_text(shape, sizeof shape, m->rank, m->dim);
    return sg_error_set(e, SG_E_ARG, "block-mask: %s %s is not U8 [1 or %lld, %lld, %lld]", sg_dtype_name(m->dtype),
                        shape, (long long)x->h, (long long)nq, (long long)nk);
}

/* Whether a block of queries, or of keys, has text in it. */
static bool has_text(const sg_attention_shape *x, int64_t block, int64_t size)
{
    return block * size < x->text_prefix || (x->text_suffix > 0 && (block + 1) * size > x->n - x->text_suffix);
}

int32_t sg_block_mask_list(uint16_t *list, const sg_policy *p, const sg_attention_shape *x, int64_t head, int64_t i,
                           int64_t seen)
{
    const int64_t *const dim = p->mask.dim;
    const uint8_t *const row = (const uint8_t *)p->mask.data + ((dim[0] > 1 ? head : 0) * dim[1] + i) * dim[2];
    const bool           all = has_text(x, i, SG_BLOCK_Q);
    int32_t              count = 0;
    for (int64_t j = 0; j < seen; j++)
        if (all || row[j] || has_text(x, j, SG_BLOCK_K)) list[count++] = (uint16_t)j;
    return count;
}
