/* thread.h - a thread that takes no signals, so that Ctrl-C interrupts the thread that answers it. */
#ifndef SG_THREAD_H
#define SG_THREAD_H

#include <pthread.h>

/* Starts a thread by pthread_create with the usual attributes. The new thread blocks SIGINT, SIGTERM and SIGHUP.
 * Returns 0 or an errno. */
int sg_thread_start(pthread_t *out, void *(*run)(void *), void *context);

#endif
