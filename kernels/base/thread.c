/* thread.c - see thread.h. */
#include "base/thread.h"

#include <signal.h>

int sg_thread_start(pthread_t *out, void *(*run)(void *), void *context)
{
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    const int failure = pthread_create(out, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure;
}
