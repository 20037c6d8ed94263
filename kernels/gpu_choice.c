/* gpu_choice.c - which GPU, and which of its features: what needs no CUDA. */
#include "backend.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- is there a card? ---- */

/* The first line of a file below root; false: it is not there. */
static bool first_line(char *out, size_t size, const char *root, const char *path)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/%s", root, path);
    FILE *const f = fopen(name, "r");
    if (!f) return false;
    if (!fgets(out, (int)size, f)) *out = '\0';
    fclose(f);
    return true;
}

/* The first word with a dot that begins with a digit: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu
 * ...". */
static void take_version(char *out, size_t size, char *line)
{
    char *rest = NULL;
    *out = '\0';
    for (char *word = strtok_r(line, " \t\n", &rest); word && !*out; word = strtok_r(NULL, " \t\n", &rest))
        if (isdigit((unsigned char)*word) && strchr(word, '.')) snprintf(out, size, "%s", word);
}

/* A display or 3-D controller (class 3) by NVIDIA on the bus. */
static bool on_the_bus(const char *root)
{
    char   pattern[PATH_MAX];
    bool   found = false;
    glob_t devices = {0};
    snprintf(pattern, sizeof pattern, "%s/sys/bus/pci/devices/*", root);
    if (glob(pattern, 0, NULL, &devices)) return false;
    for (size_t i = 0; i < devices.gl_pathc && !found; i++) {
        char vendor[16], class[16];
        found = first_line(vendor, sizeof vendor, devices.gl_pathv[i], "vendor") && strncmp(vendor, "0x10de", 6) == 0 &&
                first_line(class, sizeof class, devices.gl_pathv[i], "class") && strncmp(class, "0x03", 4) == 0;
    }
    globfree(&devices);
    return found;
}

bool sg_gpu_is_there(const char *root, char *driver, size_t size)
{
    char line[256], device[PATH_MAX];
    *driver = '\0';
    if (!root) root = "";
    if (first_line(line, sizeof line, root, "proc/driver/nvidia/version")) {
        take_version(driver, size, line);
        return true;
    }
    snprintf(device, sizeof device, "%s/dev/nvidia0", root);
    return access(device, F_OK) == 0 || on_the_bus(root);
}
