/* rank.c - see rank.h. */
#include "rank.h"
#include "base/number.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* Step ids above are those of Slurm's batch scripts, interactive shells and the like. */
#define LAST_STEP 0xffffffefLL

typedef struct launcher {
    const char *rank, *size[2]; /* the first size that is set counts */
    const char *local_rank, *local_size;
    bool        by_slurm; /* without local_rank Slurm's counts, where its rank is the same */
} launcher;

#define WORLD(name)                                                                                                    \
    {                                                                                                                  \
        name "_RANK", {name "_SIZE", NULL}, name "_LOCAL_RANK", name "_LOCAL_SIZE", false                              \
    }

static const launcher launchers[] = {
    WORLD("OMPI_COMM_WORLD"),
    WORLD("MV2_COMM_WORLD"),
    {"PMI_RANK", {"PMI_SIZE", NULL}, "MPI_LOCALRANKID", "MPI_LOCALNRANKS", true},
    {"SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, "SLURM_LOCALID", NULL, false},
};

/* NULL for a variable that is empty, too. */
static const char *variable(const char *name)
{
    const char *const value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

static sg_status read_variable(int *out, const char *name, int lo, int hi, sg_error *e)
{
    const char *const value = variable(name);
    if (sg_number_small(value, strlen(value), lo, hi, out)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s should be a whole number from %d to %d, is '%s'", name, lo, hi,
                        sg_show(value));
}

static bool is_step_of_slurm(void)
{
    const char *const step = variable("SLURM_STEP_ID");
    int64_t           id;
    if (!variable("SLURM_JOB_ID")) return true;
    return step && sg_number_int(step, strlen(step), 0, LAST_STEP, &id);
}

static sg_status read_local(sg_rank *r, const launcher *l, sg_error *e)
{
    const char *const rank = variable("SLURM_PROCID"), *const local = "SLURM_LOCALID";
    r->local_rank = r->local_size = 0;
    if (!variable(l->local_rank) && l->by_slurm && rank && variable(local) && is_step_of_slurm() &&
        strcmp(rank, variable(l->rank)) == 0)
        return read_variable(&r->local_rank, local, 0, r->size - 1, e);
    if (!variable(l->local_rank)) return SG_OK;
    SG_TRY(read_variable(&r->local_rank, l->local_rank, 0, r->size - 1, e));
    if (!variable(l->local_size)) return SG_OK;
    return read_variable(&r->local_size, l->local_size, r->local_rank + 1, r->size, e);
}

static sg_status ask(sg_rank *r, const launcher *l, sg_error *e)
{
    const char *const size = variable(l->size[0]) || !l->size[1] ? l->size[0] : l->size[1];
    const bool        has_rank = variable(l->rank), has_size = variable(size);
    if (!has_rank && !has_size) return SG_OK;
    if (!has_rank || !has_size)
        return sg_error_set(e, SG_E_ARG, "%s is set and %s is not: a launcher sets both", has_rank ? l->rank : size,
                            has_rank ? size : l->rank);
    SG_TRY(read_variable(&r->size, size, 1, SG_RANKS_MAX, e));
    SG_TRY(read_variable(&r->rank, l->rank, 0, r->size - 1, e));
    r->from = l->rank;
    return read_local(r, l, e);
}

static sg_status ask_launchers(sg_rank *r, sg_error *e)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && !r->from; i++) {
        const launcher *const l = &launchers[i];
        if (strcmp(l->rank, "SLURM_PROCID") == 0 && !is_step_of_slurm()) continue;
        SG_TRY(ask(r, l, e));
    }
    return SG_OK;
}

sg_status sg_rank_find(sg_rank *out, const char *shard, sg_error *e)
{
    *out = (sg_rank){.size = 1};
    SG_TRY(ask_launchers(out, e));
    if (!shard) return SG_OK;
    if (out->size > 1)
        return sg_error_set(e, SG_E_ARG, "--shard goes without a launcher of several, and %s says this is one of %d",
                            out->from, out->size);
    int part[2]; /* I and N */
    if (!sg_number_pair(shard, "/", 1, SG_RANKS_MAX, part) || part[0] > part[1])
        return sg_error_set(e, SG_E_ARG,
                            "--shard: '%s' is not I/N, the I-th of N parts: 1/4, 2/4, 3/4 and 4/4 are a whole",
                            sg_show(shard));
    out->rank = part[0] - 1;
    out->size = part[1];
    out->from = "--shard";
    return SG_OK;
}

bool sg_rank_takes(const sg_rank *r, int64_t entry) { return entry % r->size == r->rank; }
