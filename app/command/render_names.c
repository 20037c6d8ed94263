/* render_names.c - see render_names.h. */
#include "render_names.h"
#include "base/output_file.h"

#include <spargegen/spargegen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char *sg_render_name(const sg_render_names *n, const char *path, int i)
{
    if (!path || !n->numbered || sg_output_is_stdout(path)) return path ? strdup(path) : NULL;
    return sg_writer_numbered(path, i, n->frames);
}

char *sg_render_report_name(const sg_render_names *n, const char *path, int i)
{
    struct stat st;
    return path && stat(path, &st) == 0 && !S_ISREG(st.st_mode) ? strdup(path) : sg_render_name(n, path, i);
}

/* Is any of them? */
static bool is_there(const sg_render_names *n, const char *output)
{
    struct stat st;
    bool        there = false;
    for (int i = 0; i < n->clips && !there; i++) {
        char *const name = sg_render_name(n, output, i);
        there = name && lstat(name, &st) == 0;
        free(name);
    }
    return there;
}

sg_status sg_render_names_choose(sg_render_names *n, const sg_settings *s, int frames, sg_error *e)
{
    n->numbered = s->prompt_file || s->batch;
    n->frames = frames;
    n->usual = s->output ? NULL : sg_writer_default_name(frames);
    for (int i = 0; i == 0 || (n->output && n->usual && is_there(n, n->output)); i++) {
        free(n->output);
        n->output = sg_output_name_next(n->usual ? n->usual : s->output, i);
    }
    return n->output ? SG_OK : sg_error_memory(e, "--output");
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

sg_status sg_render_names_check(const sg_render_names *n, const sg_settings *s, bool decode_only, sg_error *e)
{
    const struct {
        const char *option, *path;
    } out[] = {{"--preview", s->preview},
               {"--json", s->json},
               {"--grid", s->grid},
               {"--latents", decode_only ? NULL : s->latents},
               {"--output", n->output}};
    enum { OUTPUTS = sizeof out / sizeof *out };
    for (int b = 1; b < OUTPUTS; b++)
        for (int a = 0; a < b; a++) SG_TRY(check_different(out[a].path, out[a].option, out[b].path, out[b].option, e));
    for (int i = 0; i < n->clips && n->numbered; i++) {
        SG_TRY(check_one(sg_render_name(n, n->output, i), "--output", s->grid, e));
        if (s->preview) SG_TRY(check_one(sg_render_name(n, s->preview, i), "--preview", s->grid, e));
        if (s->json) SG_TRY(check_one(sg_render_report_name(n, s->json, i), "--json", s->grid, e));
    }
    return SG_OK;
}
