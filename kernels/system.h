/* system.h - what the system says of memory. */
#ifndef SG_SYSTEM_H
#define SG_SYSTEM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the host memory that is free now, in the machine and in the control group (version 2) that limits this
 * process. */
size_t sg_free_bytes(void);

/* These return the bytes of host memory that this process has resident, and the most that it ever had; 0 where the
 * system does not tell. */
size_t sg_resident_bytes(void);
size_t sg_resident_peak(void);

#ifdef __cplusplus
}
#endif
#endif
