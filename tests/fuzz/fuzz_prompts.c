/* fuzz_prompts.c - any bytes as a prompt file. */
#include "input_file.h"
#include "prompt_list.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Prompts are text, one line each, and no longer together than the file. */
static void look_through(const sg_prompt_list *l, size_t size)
{
    size_t bytes = 0;
    if (l->count < 1) abort();
    for (int i = 0; i < l->count; i++) {
        const char *const p = l->prompt[i];
        if (sg_prompt_check(p, "prompt", NULL) != SG_OK || strchr(p, '\n') || p[strspn(p, " \t\v\f")] == '\0') abort();
        bytes += strlen(p) + 1;
    }
    if (bytes > size + 1) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sg_prompt_list    l = {0};
    sg_error          e = {0};
    const char *const path = input_file(data, size);
    if (sg_prompt_list_open(&l, NULL, path, &e) == SG_OK)
        look_through(&l, size);
    else if (e.text[0] == '\0' || l.count || l.prompt || l.text)
        abort();
    sg_prompt_list_close(&l);
    return 0;
}
