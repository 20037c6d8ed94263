/* lent_threads.h - the threads that a library divides its work among are the calling thread's own setting of OpenMP: it is
 * lent, and put back. */
#ifndef SG_LENT_THREADS_H
#define SG_LENT_THREADS_H

#include <omp.h>

/* Returns how many of so many threads a team of the calling thread has: work that is divided among more is left undone. In
 * a parallel region of the program it takes one, too. */
static inline int sg_team_of(int threads)
{
    const int limit = omp_get_thread_limit();
    if (omp_in_parallel() || omp_get_max_active_levels() < 1) return 1;
    return threads < limit ? threads : limit;
}

/* What the calling thread had set, how many and by load. */
typedef struct sg_lent_threads {
    int count, by_load;
} sg_lent_threads;

static inline sg_lent_threads sg_threads_lend(int threads)
{
    const sg_lent_threads own = {omp_get_max_threads(), omp_get_dynamic()};
    omp_set_num_threads(threads);
    omp_set_dynamic(0);
    return own;
}

static inline void sg_threads_put_back(sg_lent_threads own)
{
    omp_set_num_threads(own.count);
    omp_set_dynamic(own.by_load);
}

#endif
