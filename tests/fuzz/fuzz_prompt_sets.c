/* fuzz_prompt_sets.c - a first byte that chooses the format, then any bytes as a prompt set; and the names of its clips. */
#include "clip_names.h"
#include "input_file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const sg_prompt_set *s, const sg_prompt *p)
{
    if (sg_prompt_check(p->text, "prompt", NULL) != SG_OK || p->text[strspn(p->text, " \t\v\f\r\n")] == '\0') abort();
    if (p->negative && sg_prompt_check(p->negative, "negative", NULL) != SG_OK) abort();
    if (p->image && (!*p->image || sg_prompt_check(p->image, "image", NULL) != SG_OK)) abort();
    if (p->last_image && (!*p->last_image || sg_prompt_check(p->last_image, "image", NULL) != SG_OK)) abort();
    if (p->video && (!*p->video || sg_prompt_check(p->video, "video", NULL) != SG_OK)) abort();
    if (!(p->strength >= 0 && p->strength <= 1)) abort();
    if (p->seed < -1 || p->image_id < -1 || p->line < 1) abort();
    if (p->width < 0 || p->width > 16384 || p->height < 0 || p->height > 16384) abort();
    if (p->frames < 0 || p->frames > 100000 || p->groups < 0 || p->groups > s->groups) abort();
    for (int i = 0; i < p->groups; i++)
        if (s->member[p->first_group + i] < 0 || s->member[p->first_group + i] >= s->groups) abort();
}

/* All strings lie in the file's text, each once, so together they are no longer than it. */
static void look_through(const sg_prompt_set *s, size_t size)
{
    size_t bytes = 0;
    if (s->count < 1) abort();
    for (int i = 0; i < s->count; i++) {
        const sg_prompt *const p = &s->prompt[i];
        const char *const      kept[] = {p->text, p->negative, p->image, p->last_image, p->video};
        look_at(s, p);
        for (int k = 0; k < 5; k++) bytes += kept[k] ? strlen(kept[k]) + 1 : 0;
    }
    for (int i = 0; i < s->groups; i++) {
        bytes += strlen(s->group[i]) + 1;
        for (int k = 0; k < i; k++)
            if (strcmp(s->group[i], s->group[k]) == 0) abort();
    }
    if (bytes > size + 1) abort();
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

static void name(const sg_prompt_set *s)
{
    sg_clip_name *names = NULL;
    char(*file)[SG_CLIP_NAME] = calloc((size_t)s->count, sizeof *file);
    if (!file || sg_clip_names_make(&names, s, 3, NULL) != SG_OK) abort();
    for (int i = 0; i < s->count; i++) {
        sg_clip_name_write(file[i], &names[i], 2, ".mp4");
        const size_t n = strlen(file[i]);
        if (n < 7 || n > 253 || file[i][0] == '.' || file[i][0] == '-' || strchr(file[i], '/')) abort();
        if (sg_prompt_check(file[i], "name", NULL) != SG_OK) abort();
    }
    qsort(file, (size_t)s->count, sizeof *file, by_text);
    for (int i = 1; i < s->count; i++)
        if (strcmp(file[i], file[i - 1]) == 0) abort();
    free(file);
    free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char formats[] = "tlcj"; /* text, lines of JSON, CSV, JSON; capital: malformed lines are skipped */
    sg_prompt_set     s = {0};
    sg_error          e = {0};
    const char *const at = size && data[0] ? strchr(formats, data[0] | 0x20) : NULL;
    if (!at) return 0;
    const sg_prompt_options o = {.what = "--prompts",
                                 .format = (sg_prompt_format)(SG_PROMPTS_TEXT + (at - formats)),
                                 .skip_bad = !(data[0] & 0x20)};
    if (sg_prompt_set_open(&s, input_file(data + 1, size - 1), &o, &e) == SG_OK) {
        look_through(&s, size - 1);
        name(&s);
        if (!s.skipped != !s.first_skipped.text[0]) abort();
    } else if (e.text[0] == '\0' || s.count || s.prompt || s.text) {
        abort();
    }
    sg_prompt_set_close(&s);
    return 0;
}
