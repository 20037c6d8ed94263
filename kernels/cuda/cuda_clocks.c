/* cuda_clocks.c - what a GPU does now, asked of NVIDIA's management library, NVML, which comes with the driver. Its few
 * calls are declared here, so that a build needs nothing of it. */
#include "cuda_state.cuh"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { SM = 1, MEMORY = 2, CORE = 0 }; /* NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU */

typedef struct nvmlDevice_st *nvml_device;

struct sg_nvml {
    void       *library;
    nvml_device device;
    int (*Init_v2)(void);
    int (*Shutdown)(void);
    int (*DeviceGetHandleByPciBusId_v2)(const char *, nvml_device *);
    int (*DeviceGetClockInfo)(nvml_device, int type, unsigned *mhz);
    int (*DeviceGetPowerUsage)(nvml_device, unsigned *milliwatts);
    int (*DeviceGetEnforcedPowerLimit)(nvml_device, unsigned *milliwatts);
    int (*DeviceGetTemperature)(nvml_device, int sensor, unsigned *celsius);
};

/* Returns what is lacking; NULL: nothing. */
static const char *find(struct sg_nvml *l)
{
    l->library = sg_cuda_library("libnvidia-ml.so.1");
    if (!l->library) return "there is no NVML";
    SG_CUDA_FIND(l, "NVML", "nvml", Init_v2)
    SG_CUDA_FIND(l, "NVML", "nvml", Shutdown)
    SG_CUDA_FIND(l, "NVML", "nvml", DeviceGetHandleByPciBusId_v2)
    SG_CUDA_FIND(l, "NVML", "nvml", DeviceGetClockInfo)
    SG_CUDA_FIND(l, "NVML", "nvml", DeviceGetPowerUsage)
    SG_CUDA_FIND(l, "NVML", "nvml", DeviceGetEnforcedPowerLimit)
    SG_CUDA_FIND(l, "NVML", "nvml", DeviceGetTemperature)
    return NULL;
}

static void open_nvml(sg_cuda *c)
{
    char                  bus[32];
    struct sg_nvml *const l = c->nvml = calloc(1, sizeof *l);
    if (!l || find(l) || cudaDeviceGetPCIBusId(bus, sizeof bus, c->device) || l->Init_v2()) return;
    if (l->DeviceGetHandleByPciBusId_v2(bus, &l->device)) {
        l->device = NULL;
        l->Shutdown();
    }
}

bool sg_cuda_clocks(const sg_backend *b, sg_clocks *out)
{
    sg_cuda *const c = b->impl;
    unsigned       mhz = 0, memory = 0, power = 0, limit = 0, celsius = 0;
    if (!c->nvml) open_nvml(c);
    const struct sg_nvml *const l = c->nvml;
    if (!l || !l->device) return false;
    if (l->DeviceGetClockInfo(l->device, SM, &mhz) || l->DeviceGetPowerUsage(l->device, &power)) return false;
    l->DeviceGetClockInfo(l->device, MEMORY, &memory);
    l->DeviceGetEnforcedPowerLimit(l->device, &limit);
    l->DeviceGetTemperature(l->device, CORE, &celsius);
    *out = (sg_clocks){mhz, memory, power * 1e-3, limit * 1e-3, celsius};
    return true;
}

void sg_cuda_clocks_close(sg_cuda *c)
{
    struct sg_nvml *const l = c->nvml;
    if (l && l->device) l->Shutdown();
    if (l && l->library) dlclose(l->library);
    free(l);
    c->nvml = NULL;
}
