/* blocks_mma.cu - attend_blocks with values as BF16, see blocks_mma.cuh: all but F8 ones become that. */
#include "blocks_mma.cuh"

static sg_status attend_blocks(sg_stream *s, const sg_attend_blocks_args *a)
{
    sg_status status;
    if (sg_cuda_attend_wgmma(s, a, &status)) return status;
    return a->v.dtype == SG_F8 ? sg_cuda_attend_f8(s, a) : attend_blocks_as<false>(s, a);
}

void sg_cuda_blocks_init(sg_ops *t) { t->attend_blocks = attend_blocks; }
