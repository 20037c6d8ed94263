/* names.c - the names of choices. */
#include "backend.h"
#include "sampler.h"

#include <string.h>

/* By value, as spargegen.h has them. */
static const char *const samplers[] = {"unipc", "euler", "lcm", "ddim", "dpm", "euler_a", NULL};
static const char *const stages[] = {"load", "text", "encode", "denoise", "decode", NULL};
static const char *const caches[] = {"off", "fine", "usual", "fast", "shadow", NULL};
static const char *const when[] = {"auto", "off", "on", NULL}; /* of vae_tiling, and of offload */

static const char *const weights_as[] = {"auto", "file", "bf16", NULL};

static const struct {
    const char        *what;
    const char *const *names;
} lists[] = {{"sampler", samplers},
             {"step_preset", sg_step_preset_names},
             {"stage", stages},
             {"cache", caches},
             {"vae_tiling", when},
             {"offload", when},
             {"weights_as", weights_as},
             {"attention", sg_attention_names},
             {"score", sg_score_names},
             {"tail_bias", sg_tail_bias_names},
             {"budget", sg_budget_names},
             {"pv_dtype", sg_pv_dtype_names},
             {"order", sg_order_names},
             {"cpu_mask", sg_cpu_mask_names},
             {"gpu_mask", sg_gpu_level_names}};

const char *const *sg_names(const char *what)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (strcmp(lists[i].what, what) == 0) return lists[i].names;
    return NULL;
}
