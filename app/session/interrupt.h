/* interrupt.h - signals. Ctrl-C: the first asks the render to stop at its next step, the second ends the process at
 * once. A mapped file that was cut short ends it with exit code 1 and a message that names the file. What is
 * unpublished is removed. */
#ifndef SG_INTERRUPT_H
#define SG_INTERRUPT_H

#include <spargegen/spargegen.h>
#include <stdbool.h>

/* Catches SIGINT, SIGTERM, SIGHUP, and SIGBUS of mapped files. Makes writes to closed pipes, and beyond the limit of
 * file sizes, fail with an error. Call it once, at the start. */
void sg_interrupt_catch(void);

/* Opens /dev/null, read-only, for each standard stream that is closed. Otherwise a file could get its descriptor, and
 * messages would be written to that file. Call it once, at the start. */
void sg_interrupt_fill_streams(void);

bool sg_interrupt_asked(void);

/* Returns SG_E_CANCELLED where it was. */
sg_status sg_interrupt_check(sg_error *e) SG_MUST_USE;

/* From now on the first Ctrl-C is answered at once on stderr: "stopping after this step; again to quit". On a terminal
 * the line that the cursor is in goes. */
void sg_interrupt_answer(bool terminal);

#endif
