/* checkkern_trial.h - one case while it runs, and what both oracles make of it. */
#ifndef SG_CHECKKERN_TRIAL_H
#define SG_CHECKKERN_TRIAL_H

#include "checkkern.h"

enum { CK_ARGS_MAX = 1536, CK_OUTPUTS = SG_OP_OUTPUTS };

/* One output: where it stands in the args, and results of all repeats, one after the other. */
typedef struct ck_output {
    sg_tensor y;
    size_t    bytes, at;
    char     *pool[3]; /* truth, rounded, kernel */
    char     *before, *result;
} ck_output;

typedef struct ck_trial {
    const void *args, *same;
    ck_output   out[CK_OUTPUTS];
    int         outputs, repeats;
} ck_trial;

/* Hash of the regions of all inputs, guard bands too. */
uint64_t ck_hash_inputs(const ck *c);

/* Runs both oracles into their pools, unless a lower level has had the same case, with inputs of this hash. False, and
 * *why is set: they failed. */
bool ck_oracles(const ck *c, const ck_trial *t, int repeat, uint64_t inputs, char why[320]);

#endif
