/* system.c - small files of Linux, read. */
#include "system.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* The one number in a line of a small system file that begins with `key`; SIZE_MAX when it is not there. */
static size_t number_in(const char *path, const char *key)
{
    size_t      found = SIZE_MAX;
    char        line[256];
    FILE *const f = fopen(path, "r");
    if (!f) return found;
    while (found == SIZE_MAX && fgets(line, sizeof line, f)) {
        unsigned long long v;
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%llu", &v) == 1) found = (size_t)v;
    }
    fclose(f);
    return found;
}

size_t sg_free_bytes(void)
{
    const size_t kib = number_in("/proc/meminfo", "MemAvailable:");
    const size_t machine = kib > SIZE_MAX / 1024 ? SIZE_MAX : kib * 1024;
    char         own[256] = "", path[320];
    FILE *const  f = fopen("/proc/self/cgroup", "r");
    if (f) {
        char line[256];
        while (fgets(line, sizeof line, f))
            if (sscanf(line, "0::%255[^\n]", own) == 1) break;
        fclose(f);
    }
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", own);
    const size_t limit = number_in(path, "");
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", own);
    const size_t used = number_in(path, "");
    if (limit == SIZE_MAX) return machine;
    const size_t left = used < limit ? limit - used : 0;
    return used != SIZE_MAX && left < machine ? left : limit < machine ? limit : machine;
}

static size_t status_bytes(const char *key)
{
    const size_t kib = number_in("/proc/self/status", key);
    return kib == SIZE_MAX ? 0 : kib * 1024;
}

size_t sg_resident_bytes(void) { return status_bytes("VmRSS:"); }

size_t sg_resident_peak(void) { return status_bytes("VmHWM:"); }
