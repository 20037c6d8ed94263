/* gpu_choice.c - which GPU, and which of its features: what needs no CUDA. */
#include "backend.h"

#include <stdlib.h>

/* What each level stands on beside those before it. */
static const unsigned gpu_level[] = {SG_GPU_MMA, SG_GPU_FP8, SG_GPU_WGMMA};
const char *const     sg_gpu_level_names[] = {"sm80", "sm89", "sm90", NULL};

unsigned sg_gpu_features(int capability)
{
    if (capability < 80) return 0;
    return SG_GPU_MMA | (capability < 89 ? 0u : SG_GPU_FP8) | (capability / 10 == 9 ? SG_GPU_WGMMA : 0u);
}

bool sg_gpu_runs(int capability, const char *architectures)
{
    for (const char *at = architectures; *at; at += strcspn(at, " "), at += *at == ' ') {
        char      *kind;
        const long own = strtol(at, &kind, 10);
        if (*kind == 'a' ? capability == own : capability >= own && (kind[1] == 'v' || capability / 10 == own / 10))
            return true;
    }
    return false;
}

unsigned sg_gpu_mask_of(const char *name)
{
    unsigned mask = 0;
    for (int i = 0; sg_gpu_level_names[i]; i++) {
        mask |= gpu_level[i];
        if (strcmp(name, sg_gpu_level_names[i]) == 0) return mask;
    }
    return 0;
}

sg_status sg_backend_choose_gpu(int *out, const sg_backend_options *o, int gpus, sg_error *e)
{
    *out = o->device ? o->device : o->local_rank % gpus;
    if (*out >= 0 && *out < gpus) return SG_OK;
    if (gpus == 1) return sg_error_set(e, SG_E_ARG, "device: there is no GPU %d: there is one, number 0", *out);
    return sg_error_set(e, SG_E_ARG, "device: there is no GPU %d: there are %d, from 0 to %d", *out, gpus, gpus - 1);
}
