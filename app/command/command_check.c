/* command_check.c - `sparge-gen check`: a render in which every operation is computed by the oracle as well. */
#include "command.h"
#include "interrupt.h"
#include "notices.h"
#include "session.h"

#include <stdio.h>

/* The oracle is plain scalar code, so by default: a small picture, two steps, and frames enough that the
 * decoder's first and later chunks both occur. */
enum { SIDE = 64, STEPS = 2, CHUNKS = 2 };

static int on_progress(void *context, int stage, int done, int total)
{
    sg_progress_update(context, stage, done, total);
    return sg_interrupt_asked();
}

static int round_up(int v, int multiple) { return (v + multiple - 1) / multiple * multiple; }

static sg_status render(sg_session *x, sg_rendering *now, const sg_settings *asked, sg_error *e)
{
    sg_settings *const s = &now->settings;
    sg_request *const  r = &now->request;
    sg_report          report = {.size = sizeof report};
    SG_TRY(sg_session_inputs(x, asked, e));
    SG_TRY(sg_session_open(x, e));
    for (int i = 0; i < 2; i++)
        if (!s->size[i]) s->size[i] = round_up(SIDE, x->info.multiple);
    if (!s->frames) s->frames = CHUNKS * x->info.frame_step + 1;
    if (!s->steps && !s->fast) s->steps = STEPS;
    SG_TRY(sg_session_resolve(x, now, e));
    sg_notice_request(x, now);
    SG_TRY(sg_session_give(x, r, e));
    r->prompt = asked->prompt ? asked->prompt : "a red ball bouncing on green grass";
    sg_notice_prompt(x, asked->prompt);
    sg_progress_say(&x->progress, "%s; %dx%d, %d frame%s, %d step%s, seed %llu", x->info.device, r->width, r->height,
                    r->frames, sg_plural(r->frames), r->steps, sg_plural(r->steps), (unsigned long long)r->seed);
    sg_progress_render(&x->progress, 0, 1, NULL);
    const sg_callbacks callbacks = {.size = sizeof(sg_callbacks), .context = &x->progress, .progress = on_progress};
    const sg_status    status = sg_engine_render(x->engine, r, &callbacks, &report, e);
    sg_progress_clear(&x->progress);
    if (status != SG_OK) return status;
    char took[32];
    printf("every operation agrees with the oracle: %s on %s, %s\n", report.dtype, report.device,
           sg_duration(took, report.total_seconds));
    return SG_OK;
}

sg_status sg_command_check(const sg_settings *s, sg_error *e)
{
    sg_session      x = {.check = true};
    sg_rendering    now = {.settings = *s};
    const sg_status status = render(&x, &now, s, e);
    sg_session_close(&x);
    return status;
}
