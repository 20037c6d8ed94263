/* file_options.c - see file_options.h. */
#include "file_options.h"
#include "arms.h"
#include "base/file.h"
#include "base/output_file.h"
#include "frame_list.h"
#include "option_rules.h"
#include "settings.h"
#include "setup.h"

#include <stdio.h>
#include <unistd.h>

enum { WHAT = 48 };

sg_status sg_file_options_protect_frames(const char *path, const char *what, sg_error *e)
{
    sg_frame_list frames = {0};
    sg_status     status = sg_output_file_protect(path, what, e);
    const bool    listed = status == SG_OK && sg_frame_list_open(&frames, path, &(sg_error){0}) == SG_OK;
    for (int i = 0; listed && i < frames.count && status == SG_OK; i++)
        status = sg_output_file_protect(frames.path[i], what, e);
    sg_frame_list_close(&frames);
    return status;
}

static sg_status protect_option(const sg_settings *s, const sg_option *o, const char *what, sg_error *e)
{
    const char *const path = *(const char *const *)sg_settings_value(s, o);
    if (!path) return SG_OK;
    if (o->files & SG_READS_FRAMES) return sg_file_options_protect_frames(path, what, e);
    if (o->files & SG_READS_MODEL) return sg_model_protect(path, what, e);
    return sg_output_file_protect(path, what, e);
}

/* Also one that no option names; and its LoRAs, whose options hold more than names. */
static sg_status protect_model(const sg_settings *s, sg_error *e)
{
    sg_model_path m;
    char          path[PATH_MAX];
    if (s->operand || !sg_settings_option(s, "model")) return SG_OK;
    if (sg_setup_model(&m, s, &(sg_error){0}) != SG_OK) return SG_OK;
    SG_TRY(sg_model_protect(m.dir, "the model", e));
    for (int i = 0; i < m.loras; i++) SG_TRY(sg_output_file_protect(m.lora[i].path, "the model", e));
    if (s->command == SG_COMMAND_TUNE || !sg_file_beside(m.dir, SG_THRESHOLDS_NAME, path, sizeof path)) return SG_OK;
    return sg_output_file_protect(path, "the model", e);
}

static sg_status protect_options(const sg_settings *s, sg_error *e)
{
    const sg_option *o;
    char             what[WHAT];
    for (int i = 0; (o = sg_option_next(s->command, &i)) != NULL;) {
        snprintf(what, sizeof what, "--%s", o->name);
        if (o->files & SG_READS_ANY) SG_TRY(protect_option(s, o, what, e));
    }
    return SG_OK;
}

/* What is wrong with a list of arms the command says. */
static sg_status protect_arms(const sg_settings *s, sg_error *e)
{
    sg_arms   arms = {0};
    sg_status status = SG_OK;
    if (!s->arms) return SG_OK;
    const bool open = sg_arms_open(&arms, s->arms, s, &(sg_error){0}) == SG_OK;
    for (int i = 0; open && i < arms.count && status == SG_OK; i++) status = protect_options(&arms.arm[i].settings, e);
    sg_arms_close(&arms);
    return status;
}

/* The name of an output in the text of its option; NULL: that is to be read. */
static const char *written(const sg_option *o, const char *text)
{
    int number[2];
    if (o->files & SG_WRITES_CAPTURE) sg_options_capture(text, &number[0], &number[1], &text);
    return o->files & SG_READS_ANY && access(text, F_OK) == 0 ? NULL : text;
}

sg_status sg_file_options_check(const sg_settings *s, sg_error *e)
{
    const char *const operand[] = {s->operand, s->second_operand};
    const sg_option  *o;
    char              what[WHAT];
    SG_TRY(protect_options(s, e));
    SG_TRY(protect_arms(s, e));
    for (int i = 0; i < 2 && s->command == SG_COMMAND_COMPARE; i++)
        if (operand[i]) SG_TRY(sg_file_options_protect_frames(operand[i], "compare", e));
    for (int i = 0; i < 2 && s->command == SG_COMMAND_LANGUAGE; i++)
        if (operand[i]) SG_TRY(sg_output_file_protect(operand[i], "language", e));
    if (s->command == SG_COMMAND_INFO && s->operand) SG_TRY(sg_model_protect(s->operand, "info", e));
    SG_TRY(protect_model(s, e));
    for (int i = 0; (o = sg_option_next(s->command, &i)) != NULL;) {
        if (!(o->files & (SG_WRITES | SG_WRITES_CAPTURE)) || !sg_settings_has(s, o)) continue;
        const char *const path = written(o, *(const char *const *)sg_settings_value(s, o));
        snprintf(what, sizeof what, "--%s", o->name);
        if (path) SG_TRY(sg_output_file_check(path, what, e));
    }
    return SG_OK;
}
