/* system.h - what the system says of memory and time. */
#ifndef SG_SYSTEM_H
#define SG_SYSTEM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Host memory that is free now: of the machine, and of the control group (version 2) that limits this process. */
size_t sg_free_bytes(void);

/* Host memory that this process has resident, and the most that it ever had; bytes, 0 where the system does not tell. */
size_t sg_resident_bytes(void);
size_t sg_resident_peak(void);

/* Seconds on a clock that only goes forward. */
double sg_seconds(void);

#ifdef __cplusplus
}
#endif
#endif
