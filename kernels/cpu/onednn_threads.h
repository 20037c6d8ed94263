/* onednn_threads.h - the threads that oneDNN works with, which are those of whoever calls it (onednn.c). */
#ifndef SG_ONEDNN_THREADS_H
#define SG_ONEDNN_THREADS_H

#include <omp.h>

/* Returns how many threads a team of the calling thread has, of so many that are wanted. oneDNN leaves undone what it
 * divides among more. In a parallel region of the program it takes one, too. */
static inline int sg_team_of(int wanted)
{
    const int limit = omp_get_thread_limit();
    if (omp_in_parallel() || omp_get_max_active_levels() < 1) return 1;
    return wanted < limit ? wanted : limit;
}

/* oneDNN works with as many threads as the calling thread has set for itself, and by load where that is allowed. This is
 * what it had, to be put back. */
typedef struct sg_own_threads {
    int count, by_load;
} sg_own_threads;

static inline sg_own_threads sg_lend_threads(int threads)
{
    const sg_own_threads own = {omp_get_max_threads(), omp_get_dynamic()};
    omp_set_num_threads(threads);
    omp_set_dynamic(0);
    return own;
}

static inline void sg_threads_back(sg_own_threads own)
{
    omp_set_num_threads(own.count);
    omp_set_dynamic(own.by_load);
}

#endif
