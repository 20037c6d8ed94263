/* fuzz_prompts.c - any bytes as a prompt file. */
#include "input_file.h"
#include "prompt_set.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prompts are text, one line each, and no longer together than the file. */
static void look_through(const sg_prompt_set *s, size_t size)
{
    size_t bytes = 0;
    if (s->count < 1) abort();
    for (int i = 0; i < s->count; i++) {
        const char *const p = s->prompt[i].text;
        if (sg_prompt_check(p, "prompt", NULL) != SG_OK || strchr(p, '\n') || p[strspn(p, " \t\v\f")] == '\0') abort();
        bytes += strlen(p) + 1;
    }
    if (bytes > size + 1) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const sg_prompt_options options = {.what = "--prompt-file", .format = SG_PROMPTS_TEXT, .max_bytes = 1 << 20};
    sg_prompt_set                  s = {0};
    sg_error                       e = {0};
    const char *const              path = input_file(data, size);
    if (sg_prompt_set_open(&s, path, &options, &e) == SG_OK)
        look_through(&s, size);
    else if (e.text[0] == '\0' || s.count || s.prompt || s.text)
        abort();
    sg_prompt_set_close(&s);
    return 0;
}
