/* blocks_mma.cu - attend_blocks with values as BF16, see blocks_mma.cuh: all but F8 ones become that. */
#include "blocks_mma.cuh"

sg_status sg_cuda_attend_sm80(sg_stream *s, const sg_attend_blocks_args *a)
{
    return a->v.dtype == SG_F8 ? sg_cuda_no_f8(s, "attend_blocks") : attend_blocks_as<false>(s, a);
}

sg_status sg_cuda_attend_job_sm80(sg_stream *s, const blocks_job &j, const uint32_t *only_if)
{
    return j.d <= 64   ? launch<64, 64, false>(s, j, only_if)
           : j.d <= 96 ? launch<96, 96, false>(s, j, only_if)
                       : launch<128, 128, false>(s, j, only_if);
}

void sg_cuda_blocks_init(sg_ops *t) { t->attend_blocks = sg_cuda_attend_sm80; }
