/* command_check.c - `sparge-gen check`: a render in which every operation is computed by the oracle as well. */
#include "command.h"
#include "interrupt.h"
#include "notices.h"
#include "picture.h"
#include "progress.h"
#include "prompt_set.h"
#include "setup.h"
#include "setup_attention.h"

#include <stdio.h>

/* The oracle is plain scalar code, so by default: a small picture, two steps, and frames enough that the
 * decoder's first and later chunks both occur. */
enum { SIDE = 64, STEPS = 2, CHUNKS = 2 };

static int on_progress(void *context, sg_stage stage, int done, int total)
{
    sg_progress_update(context, stage, done, total);
    return sg_interrupt_asked();
}

static int round_up(int v, int multiple) { return (v + multiple - 1) / multiple * multiple; }

static sg_status render(sg_engine *engine, const char *model, const sg_settings *s, sg_attention_files *f,
                        sg_pictures *pictures, sg_error *e)
{
    sg_progress         progress;
    const sg_model_info info = sg_engine_info(engine);
    sg_settings         small = *s;
    sg_request          r;
    sg_report           report = {0};
    for (int i = 0; i < 2; i++)
        if (!small.size[i]) small.size[i] = round_up(SIDE, info.multiple);
    if (!small.frames) small.frames = CHUNKS * info.frames.step + 1;
    if (!small.steps && !s->fast) small.steps = STEPS;
    sg_progress_init(&progress, s->quiet);
    SG_TRY(sg_setup_request(&r, engine, &small, e));
    sg_notice_request(&progress, &r, engine, s);
    SG_TRY(sg_setup_attention(&r.attention, f, s, e));
    SG_TRY(sg_pictures_apply(pictures, engine, &r, e));
    r.prompt = s->prompt ? s->prompt : "a red ball bouncing on green grass";
    sg_notice_prompt(&progress, engine, model, s->prompt);
    sg_progress_say(&progress, "%s; %dx%d, %d frame%s, %d step%s, seed %llu", info.device, r.width, r.height, r.frames,
                    sg_plural(r.frames), r.steps, sg_plural(r.steps), (unsigned long long)r.seed);
    sg_progress_render(&progress, 0, 1, NULL);
    const sg_status status =
        sg_engine_render(engine, &r, &(sg_callbacks){.context = &progress, .progress = on_progress}, &report, e);
    sg_progress_clear(&progress);
    if (status != SG_OK) return status;
    char took[32];
    printf("every operation agrees with the oracle: %s on %s, %s\n", report.dtype, report.device,
           sg_duration(took, sizeof took, report.total_seconds));
    return SG_OK;
}

sg_status sg_command_check(const sg_settings *s, sg_error *e)
{
    sg_model_path      model;
    sg_engine         *engine = NULL;
    sg_attention_files files = {0};
    sg_pictures        pictures = {0};
    if (s->prompt) SG_TRY(sg_prompt_check(s->prompt, "--prompt", e));
    if (s->negative_prompt) SG_TRY(sg_prompt_check(s->negative_prompt, "--negative-prompt", e));
    SG_TRY(sg_setup_model(&model, s, e));
    SG_TRY(sg_setup_engine(&engine, &model, s, true, e));
    sg_status status = sg_pictures_open(&pictures, s, e);
    if (status == SG_OK) status = render(engine, model.name, s, &files, &pictures, e);
    sg_engine_close(&engine);
    sg_pictures_close(&pictures);
    sg_attention_files_close(&files);
    return status;
}
