/* thread.c - see thread.h. */
#include "base/thread.h"

#include <signal.h>
#include <unistd.h>

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

sg_status sg_thread_check_fork(sg_error *e)
{
    static _Thread_local pid_t process; /* where this thread worked; 0: nowhere yet */
    const pid_t                now = getpid();
    if (process && process != now)
        return sg_error_set(e, SG_E_UNSUPPORTED, "OpenMP's threads stayed behind in the fork: call from a new thread");
    process = now;
    return SG_OK;
}
