/* solver.c - see solver.h: what the solvers' readers of a configuration share. */
#include "solver.h"

#include <string.h>

/* For a switch that is off by default in diffusers. */
void sg_solver_off(sg_config *c, const char *key)
{
    if (sg_config_bool(c, key, &(bool){false})) sg_config_fail(c, key, "true is not supported");
}

void sg_solver_absent(sg_config *c, const char *key)
{
    if (sg_config_has(c, key)) sg_config_fail(c, key, "is not supported; only null is");
}

void sg_solver_says(sg_config *c, const char *key, const char *wanted, const char *fallback)
{
    const char *const found = sg_config_string(c, key, fallback);
    if (found && strcmp(found, wanted))
        sg_config_fail(c, key, "\"%s\" is not supported; only \"%s\" is", found, wanted);
}

double sg_solver_shift(sg_config *c, const char *key) { return sg_config_real(c, key, 1e-3, 1e3, &(double){1.0}); }
