/* rank.h - which of the processes that share a prompt set this one is.
 *
 * Launchers tell by variables, the first found of which count:
 *   OMPI_COMM_WORLD_RANK and _SIZE   mpirun of Open MPI
 *   MV2_COMM_WORLD_RANK and _SIZE    MVAPICH
 *   PMI_RANK, PMI_SIZE               mpirun of MPICH and Intel MPI; srun --mpi=pmi2
 *   SLURM_PROCID, SLURM_NTASKS       srun; SLURM_STEP_NUM_TASKS, where it is set, goes before SLURM_NTASKS
 * MPI goes before Slurm, since mpirun within an allocation of Slurm leaves the variables of its batch script to all. That
 * script itself has SLURM_PROCID too, but it is one process: SLURM_JOB_ID without SLURM_STEP_ID tells. */
#ifndef SG_RANK_H
#define SG_RANK_H

#include "status.h"

#include <stdbool.h>
#include <stdint.h>

enum { SG_RANKS_MAX = 1 << 20 };

typedef struct sg_rank {
    int         rank, size;             /* 0 <= rank < size; alone: 0 of 1 */
    int         local_rank, local_size; /* on this host; 0 of 0 where nothing tells */
    const char *from;                   /* "--shard", or the variable of the rank; NULL: nothing told */
} sg_rank;

/* shard is the value of --shard, "2/8" for the second of eight, or NULL. SG_E_ARG, naming the variable or the option: no
 * number, out of range, one of a pair missing, or --shard beside a launcher that started several. */
sg_status sg_rank_find(sg_rank *out, const char *shard, sg_error *e) SG_MUST_USE;

/* Entries go round, so that neighbours, which tend to cost the same, go to different ranks. */
bool sg_rank_takes(const sg_rank *r, int64_t entry);

#endif
