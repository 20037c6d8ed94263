/* eval_log.c - see eval_log.h. */
#include "eval_log.h"
#include "base/json_input.h"
#include "eval_results.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CLIPS = 1 << 28 };

sg_status sg_eval_log_make(sg_eval_log *l, int prompts, int per_prompt, int arms, sg_error *e)
{
    const size_t count = (size_t)prompts * (size_t)per_prompt * (size_t)arms;
    *l = (sg_eval_log){.prompts = prompts, .per_prompt = per_prompt, .arms = arms, .file.fd = -1};
    if (count > MAX_CLIPS)
        return sg_error_set(e, SG_E_ARG, "--prompts: %zu clips are more than %d; take a part of the set", count,
                            MAX_CLIPS);
    l->state = calloc(count, 1);
    return l->state ? SG_OK : sg_error_set(e, SG_E_MEMORY, "no memory for a list of %zu clips", count);
}

uint8_t *sg_eval_log_state(const sg_eval_log *l, int prompt, int clip, int arm)
{
    return l->state + ((size_t)prompt * (size_t)l->per_prompt + (size_t)clip) * (size_t)l->arms + (size_t)arm;
}

bool sg_eval_log_done(const sg_eval_log *l, int prompt, int clip)
{
    const uint8_t *const state = sg_eval_log_state(l, prompt, clip, 0);
    for (int i = 0; i < l->arms; i++)
        if (state[i] != SG_EVAL_DONE) return false;
    return true;
}

size_t sg_eval_log_count(const sg_eval_log *l, sg_eval_state s)
{
    const size_t count = (size_t)l->prompts * (size_t)l->per_prompt * (size_t)l->arms;
    size_t       n = 0;
    for (size_t i = 0; i < count; i++) n += l->state[i] == s;
    return n;
}

/* ---- reading ---- */

/* NULL, or what is wrong. */
static const char *take(sg_eval_log *l, int prompt, int clip, int arm, bool done)
{
    if (prompt >= l->prompts) return "prompt is not one of the set's";
    if (clip >= l->per_prompt) return "clip is not one of its prompt's";
    if (arm >= l->arms) return "arm_index is not that of an arm";
    *sg_eval_log_state(l, prompt, clip, arm) = done ? SG_EVAL_DONE : SG_EVAL_FAILED;
    return NULL;
}

sg_status sg_eval_log_read(sg_eval_log *l, const char *folder, sg_error *e)
{
    sg_eval_results r = {0};
    sg_status       status = sg_eval_results_open(&r, folder, e);
    for (int i = 0; status == SG_OK && i < r.count; i++) {
        const sg_eval_clip *const c = &r.clip[i];
        const char *const         problem = take(l, c->prompt, c->clip, c->arm, c->done);
        if (problem)
            status = sg_error_set(e, SG_E_FORMAT, "%s/%s: line %d: %s", folder, r.source[c->source]->d_name, c->line,
                                  problem);
    }
    sg_eval_results_close(&r);
    return status;
}

/* ---- writing ---- */

sg_status sg_eval_log_open(sg_eval_log *l, const char *folder, const sg_rank *r, sg_error *e)
{
    char number[16] = "";
    if (r->size > 1) snprintf(number, sizeof number, "-%d", r->rank);
    snprintf(l->file.path, sizeof l->file.path, "%s/results%s.jsonl", folder, number);
    return sg_line_log_open(&l->file, e);
}

sg_status sg_eval_log_add(sg_eval_log *l, json_t *line, sg_error *e)
{
    char *const  text = sg_json_text(line, JSON_COMPACT | SG_REPORT_DIGITS);
    const size_t bytes = text ? strlen(text) : 0;
    sg_eval_clip c = {0};
    json_decref(line);
    if (!text) return sg_error_memory(e, l->file.path);
    sg_status status = sg_eval_line_read(&c, text, bytes, l->file.path, 0, e); /* as it will be read */
    text[bytes] = '\n';                                                   /* in place of its NUL */
    if (status == SG_OK) status = sg_line_log_add(&l->file, text, bytes + 1, e);
    if (status == SG_OK && !c.scored) (void)take(l, c.prompt, c.clip, c.arm, c.done);
    sg_eval_clip_free(&c);
    free(text);
    return status;
}

json_t *sg_eval_line(const char *arm, int arm_index, int prompt, int clip, const char *status, const char *text)
{
    return json_pack("{s:i, s:s, s:i, s:i, s:i, s:s, s:s}", "version", SG_EVAL_LINE_VERSION, "arm", arm, "arm_index",
                     arm_index, "prompt", prompt, "clip", clip, "status", status, "text", text);
}

void sg_eval_log_close(sg_eval_log *l)
{
    sg_line_log_close(&l->file);
    free(l->state);
    *l = (sg_eval_log){.file.fd = -1};
}
