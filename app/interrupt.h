/* interrupt.h - Ctrl-C: the first asks the render to stop at its next step, the second ends the process at once. */
#ifndef SG_INTERRUPT_H
#define SG_INTERRUPT_H

#include <stdbool.h>

/* Catches SIGINT, SIGTERM and SIGHUP; lets writes to closed pipes fail as errors. Once, at the start. */
void sg_interrupt_catch(void);

bool sg_interrupt_asked(void);

/* Around pthread_create: a thread born between the two takes no signals. */
void sg_interrupt_block(void);
void sg_interrupt_unblock(void);

#endif
