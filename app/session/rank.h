/* rank.h - the rank of this process among those that share a prompt set.
 *
 * Launchers set environment variables. The first pair found here counts:
 *   OMPI_COMM_WORLD_RANK and _SIZE   mpirun of Open MPI
 *   MV2_COMM_WORLD_RANK and _SIZE    MVAPICH
 *   PMI_RANK, PMI_SIZE               mpirun of MPICH and Intel MPI; srun --mpi=pmi2
 *   SLURM_PROCID, SLURM_NTASKS       srun; SLURM_STEP_NUM_TASKS, where it is set, goes before SLURM_NTASKS
 * MPI goes before Slurm, because with mpirun in a Slurm allocation all processes have the variables of the batch
 * script. The script itself has SLURM_PROCID too, but is one process: it has SLURM_JOB_ID and no SLURM_STEP_ID. */
#ifndef SG_RANK_H
#define SG_RANK_H

#include <spargegen/spargegen.h>
#include <stdbool.h>
#include <stdint.h>

enum { SG_RANKS_MAX = 1 << 20 };

typedef struct sg_rank {
    /* 0 <= rank < size; one alone is 0 of 1. Local ones are those of this host; 0 of 0 is unknown. */
    int rank, size, local_rank, local_size;
    /* The rank comes from "--shard", from this variable, or, if it is NULL, from neither. */
    const char *from;
} sg_rank;

/* shard is the value of --shard, "2/8" for the second of eight, or NULL. SG_E_ARG, naming the variable or the option,
 * for: no number; out of range; one of a pair missing; --shard with a launcher that started several processes. */
sg_status sg_rank_find(sg_rank *out, const char *shard, sg_error *e) SG_MUST_USE;

/* Tells whether r renders this entry. Entries are dealt round-robin, as neighbours tend to cost the same. */
bool sg_rank_takes(const sg_rank *r, int64_t entry);

#endif
