/* bench_shapes.c - shapes of language models, and what help says of bench attention's shapes. */
#include "base/text.h"
#include "bench_input.h"
#include "command.h"
#include "engine.h"

#include <string.h>

const sg_bench_text sg_bench_texts[] = {
    {"llama-8b-24k", 32, 8, 128, 24576}, {"llama-8b-128k", 32, 8, 128, 131072}, {0}};

static void add_name(char *text, size_t size, const char *name)
{
    enum { COLUMNS = 80 };
    const char *const end = strrchr(text, '\n'), *const line = end ? end + 1 : text;
    const char *const between = !*text ? "" : strlen(line) + strlen(name) + 3 <= COLUMNS ? ", " : ",\n";
    sg_text_append(text, size, "%s%s", between, name);
}

const char *sg_bench_shapes(char *text, size_t size)
{
    const sg_known_shape *s, *const first = sg_known_shape_at(0);
    *text = '\0';
    for (int i = 0; (s = sg_known_shape_at(i)) != NULL; i++) add_name(text, size, s->name);
    for (const sg_bench_text *t = sg_bench_texts; t->name; t++) add_name(text, size, t->name);
    sg_text_append(text, size, "\n(default: %s, which is 1,%d,%lldx%lldx%lld,%d)", first->name, first->heads,
                   (long long)first->grid[0], (long long)first->grid[1], (long long)first->grid[2], first->head_dim);
    return text;
}
