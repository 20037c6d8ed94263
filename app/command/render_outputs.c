/* render_outputs.c - see render_outputs.h. */
#include "render_outputs.h"
#include "base/output_file.h"
#include "base/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char *sg_output_numbered(const char *path, int index, int count)
{
    char *name;
    if (!path || count == 1) return path ? strdup(path) : NULL;
    const char *const extension = sg_path_extension(path);
    return asprintf(&name, "%.*s-%04d%s", (int)(extension - path), path, index + 1, extension) < 0 ? NULL : name;
}

char *sg_report_numbered(const char *path, int index, int count)
{
    struct stat st;
    const bool  stream = !path || strcmp(path, "-") == 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode));
    return sg_output_numbered(path, index, stream ? 1 : count);
}

static sg_status check_different(const char *a, const char *option_a, const char *b, const char *option_b, sg_error *e)
{
    if (!a || !b || !sg_output_file_same(a, b)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s and %s are one file, %s", option_a, option_b, a);
}

/* One file of several; takes its name. */
static sg_status check_one(char *name, const char *option, const char *grid, sg_error *e)
{
    if (!name) return sg_error_memory(e, option);
    sg_status status = sg_output_file_check(name, option, e);
    if (status == SG_OK) status = check_different(grid, "--grid", name, option, e);
    free(name);
    return status;
}

sg_status sg_outputs_check(const sg_settings *s, const char *output, bool saves_latents, int count, sg_error *e)
{
    const struct {
        const char *option, *path;
    } out[] = {{"--preview", s->preview},
               {"--json", s->json},
               {"--grid", s->grid},
               {"--latents", saves_latents ? s->latents : NULL},
               {"--output", output}};
    enum { OUTPUTS = sizeof out / sizeof *out };
    for (int b = 1; b < OUTPUTS; b++)
        for (int a = 0; a < b; a++) SG_TRY(check_different(out[a].path, out[a].option, out[b].path, out[b].option, e));
    for (int i = 0; i < count && count > 1; i++) {
        SG_TRY(check_one(sg_output_numbered(output, i, count), "--output", s->grid, e));
        if (s->preview) SG_TRY(check_one(sg_output_numbered(s->preview, i, count), "--preview", s->grid, e));
        if (s->json) SG_TRY(check_one(sg_report_numbered(s->json, i, count), "--json", s->grid, e));
    }
    return SG_OK;
}
