/* blocks_mma.cu - attend_blocks with values as BF16, see blocks_mma.cuh: all but F8 ones become that. */
#include "blocks_mma.cuh"

sg_status sg_cuda_attend_sm80(sg_stream *s, const sg_attend_blocks_args *a)
{
    return a->v.dtype == SG_F8 ? sg_cuda_no_f8(s, "attend_blocks") : attend_blocks_as<false>(s, a);
}

void sg_cuda_blocks_init(sg_ops *t) { t->attend_blocks = sg_cuda_attend_sm80; }
