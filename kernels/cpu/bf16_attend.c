/* bf16_attend.c - dense attention of BF16 operands by BF16 products. Compiled for AVX-512 BF16 and for AMX. */
#include "vec.h"

#define SG_BF16_INIT(file) SG_PASTE4(sg_bf16_, file, _init_, SG_LEVEL)

void SG_BF16_INIT(attend)(sg_ops *t) { t->attend = sg_vec_attend_avx512; }
