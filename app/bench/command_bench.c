/* command_bench.c - `sparge-gen bench`: how fast the program is here, and what the machine would allow. */
#include "bench.h"
#include "command.h"
#include "output_file.h"
#include "setup.h"

#include <string.h>

enum { REPEAT = 3 };

sg_status sg_command_bench(const sg_settings *s, sg_error *e)
{
    sg_bench          b = {.settings = s, .repeat = s->repeat ? s->repeat : REPEAT};
    sg_engine_options o;
    SG_TRY(sg_setup_options(&o, NULL, s, e));
    const sg_backend_options backend = {.name = o.backend,
                                        .threads = o.threads,
                                        .cpu_mask = o.cpu_mask,
                                        .gpu_level = (sg_gpu_level)o.gpu_level,
                                        .device = o.device,
                                        .local_rank = o.local_rank};
    b.silent = s->json && strcmp(s->json, "-") == 0;
    if (s->json) SG_TRY(sg_output_file_check(s->json, "--json", e));
    SG_TRY(sg_backend_open(&b.backend, &backend, e));
    const sg_status status =
        s->command == SG_COMMAND_BENCH_ATTENTION ? sg_bench_attention(&b, e) : sg_bench_step(&b, e);
    sg_backend_close(&b.backend);
    return status;
}
