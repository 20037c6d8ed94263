/* environment.c - see environment.h. */
#include "environment.h"
#include "base/text.h"

#include <spargegen/spargegen.h>
#include <stdlib.h>
#include <string.h>

#define CPUMASK "SPARGE_GEN_CPUMASK"

const char *sg_environment_settle(void)
{
    const char *const most = getenv("ONEDNN_MAX_CPU_ISA");
    setenv("SVT_LOG", "0", 0); /* FFmpeg's SVT-AV1 writes to stderr by itself, unless this says no */
    return most ? most : getenv("DNNL_MAX_CPU_ISA");
}

const char *sg_environment_cpumask(void)
{
    const char *const level = getenv(CPUMASK);
    return level && *level ? level : NULL;
}

sg_status sg_environment_cpu_mask(unsigned *mask, const char *level, sg_error *e)
{
    char names[128] = "";
    if (!level) level = sg_environment_cpumask();
    *mask = level ? sg_cpu_mask_of(level) : 0;
    if (*mask || !level) return SG_OK;
    for (const char *const *name = sg_names("cpu_mask"); *name; name++)
        sg_text_append(names, sizeof names, "%s%s", *names ? ", " : "", *name);
    return sg_error_set(e, SG_E_ARG, CPUMASK ": '%s' is not one of %s", level, names);
}

const char *sg_environment_passed(const char *passed)
{
    const char *const shown = getenv("CUDA_VISIBLE_DEVICES");
    return shown && (!*shown || strcmp(shown, "-1") == 0) ? "" : passed;
}
