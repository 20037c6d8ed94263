/* notices.c - see notices.h. */
#include "notices.h"
#include "thresholds.h"

#include <string.h>

void sg_notice_size(sg_progress *p, sg_request *r, const sg_engine *engine, const sg_settings *s)
{
    static const char end[] = "the nearest that the model can render";
    const sg_request  asked = *r;
    const bool        wide = s->size[0] != 0, high = s->size[1] != 0;
    if (s->strict) return;
    sg_engine_nearest_size(engine, wide ? &r->width : NULL, high ? &r->height : NULL, s->frames ? &r->frames : NULL);
    if (r->width != asked.width && !high)
        sg_progress_say(p, "--width %d: %d, %s", asked.width, r->width, end);
    else if (r->height != asked.height && !wide)
        sg_progress_say(p, "--height %d: %d, %s", asked.height, r->height, end);
    else if (r->width != asked.width || r->height != asked.height)
        sg_progress_say(p, "--size %dx%d: %dx%d, %s", asked.width, asked.height, r->width, r->height, end);
    if (r->frames != asked.frames) sg_progress_say(p, "--frames %d: %d, %s", asked.frames, r->frames, end);
}

static bool is_blank(const char *text) { return text[strspn(text, " \t\v\f\r\n")] == '\0'; }

void sg_notice_prompt(sg_progress *p, const sg_engine *engine, const char *model, const char *prompt)
{
    char              list[320];
    const char *const world = sg_engine_world(engine);
    if (!prompt) return;
    if (is_blank(prompt)) sg_progress_say(p, "--prompt is empty: nothing tells the model what to draw");
    if (!sg_engine_unknown_words(engine, prompt, list, sizeof list)) return;
    if (world)
        sg_progress_say(p, "%s; it has never seen %s", world, list);
    else
        sg_progress_say(p, "%s has never seen %s", model, list);
}

void sg_notice_prompts(sg_progress *p, const sg_engine *engine, const char *model, const sg_prompt_set *set)
{
    char              list[320], first[320] = "";
    int               count = 0;
    const char *const world = sg_engine_world(engine);
    if (set->count == 1) {
        sg_notice_prompt(p, engine, model, set->prompt[0].text);
        return;
    }
    for (int i = 0; i < set->count; i++) {
        if (!sg_engine_unknown_words(engine, set->prompt[i].text, list, sizeof list)) continue;
        if (count++ == 0) memcpy(first, list, sizeof first);
    }
    if (!count) return;
    sg_progress_say(p, "%s; %d of %d prompts %s words that it has never seen, first %s", world ? world : model, count,
                    set->count, count == 1 ? "has" : "have", first);
}

void sg_notice_cut(sg_progress *p, const sg_plan *plan, const char *which)
{
    static const char *const name[] = {"--prompt", "--negative-prompt"};
    for (int i = 0; i < 2; i++)
        if (plan->cut[i])
            sg_progress_say(p, "%s: the text encoder reads %d tokens; the last %d are cut off",
                            which && i == 0 ? which : name[i], plan->text_tokens[i], plan->cut[i]);
}

void sg_notice_cache(sg_progress *p, const sg_request *r, const char *arm)
{
    const double threshold = sg_request_cache_threshold(r);
    if (threshold > 0)
        sg_progress_say(p, "%s%scache: threshold %.4g, as " SG_THRESHOLDS_NAME " beside the model has it",
                        arm ? arm : "", arm ? ": " : "", threshold);
}

void sg_notice_comments(sg_progress *p, const char *file, const sg_prompt_set *set)
{
    if (set->comments)
        sg_progress_say(p, "%s: %d line%s with # at the beginning skipped as comment%s", file, set->comments,
                        sg_plural(set->comments), sg_plural(set->comments));
}
