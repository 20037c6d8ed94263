/* bench_shapes.c - what help says of bench attention's shapes. */
#include "base/text.h"
#include "command.h"
#include "engine.h"

#include <string.h>

const char *sg_bench_shapes(char *text, size_t size)
{
    enum { COLUMNS = 80 };
    const sg_known_shape *s, *const first = sg_known_shape_at(0);
    const char *line = text;
    *text = '\0';
    for (int i = 0; (s = sg_known_shape_at(i)) != NULL; i++) {
        const bool fits = strlen(line) + strlen(s->name) + 3 <= COLUMNS;
        sg_text_append(text, size, "%s", i == 0 ? "" : fits ? ", " : ",\n");
        if (!fits) line = text + strlen(text);
        sg_text_append(text, size, "%s", s->name);
    }
    sg_text_append(text, size, "\n(default: %s, which is 1,%d,%lldx%lldx%lld,%d)", first->name, first->heads,
                   (long long)first->grid[0], (long long)first->grid[1], (long long)first->grid[2], first->head_dim);
    return text;
}
