/* thread.h - a thread that takes no signals, so that Ctrl-C interrupts the thread that answers it; and threads that a fork
 * leaves behind. */
#ifndef SG_THREAD_H
#define SG_THREAD_H

#include "status.h"

#include <pthread.h>

/* Starts a thread by pthread_create with the usual attributes. The new thread blocks SIGINT, SIGTERM and SIGHUP.
 * Returns 0 or an errno. */
int sg_thread_start(pthread_t *out, void *(*run)(void *), void *context);

/* To be called before work in parallel. The child of a fork goes on in one thread, whose team of OpenMP's is not there:
 * libgomp would wait for it for ever. SG_E_UNSUPPORTED where this thread called before the fork. */
sg_status sg_thread_check_fork(sg_error *e) SG_MUST_USE;

#endif
