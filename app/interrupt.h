/* interrupt.h - Ctrl-C: the first asks the render to stop at its next step, the second ends the process at once. */
#ifndef SG_INTERRUPT_H
#define SG_INTERRUPT_H

#include <stdbool.h>

/* Catches SIGINT, SIGTERM and SIGHUP; lets writes to closed pipes and beyond a limit on the size of files fail as errors.
 * Once, at the start. */
void sg_interrupt_catch(void);

/* Where a standard stream is closed no file must take its number, or messages would go into it: /dev/null takes it, for
 * reading, so that writing there fails too. Once, at the start. */
void sg_interrupt_fill_streams(void);

bool sg_interrupt_asked(void);

/* From now on the first Ctrl-C is answered at once on stderr: "stopping after this step; again to quit". On a terminal the
 * line that the cursor is in goes. */
void sg_interrupt_answer(bool terminal);

/* Around pthread_create: a thread born between the two takes no signals. */
void sg_interrupt_block(void);
void sg_interrupt_unblock(void);

#endif
