/* prompt_set.c - see prompt_set.h. */
#include "prompt_set.h"
#include "base/array.h"
#include "base/path.h"
#include "prompt_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { FIRST_CAPACITY = 1 << 16, MAX_BYTES = 256 << 20 };

static sg_status read_all(sg_prompt_reader *r, int fd, size_t most, sg_error *e)
{
    size_t  n = 0, capacity = 0;
    ssize_t got;
    do {
        if (capacity - n < 2 && !sg_array_reserve(r->set->text, capacity, capacity ? 2 * capacity : FIRST_CAPACITY))
            return sg_error_set(e, SG_E_MEMORY, "out of memory");
        if ((got = read(fd, r->set->text + n, capacity - n - 1)) < 0)
            return sg_error_set(e, SG_E_FILE, "%s", strerror(errno));
        n += (size_t)got;
    } while (got && n <= most);
    if (n > most) return sg_error_set(e, SG_E_ARG, "more than %zu MiB cannot be prompts", most >> 20);
    if (memchr(r->set->text, '\0', n)) return sg_error_set(e, SG_E_ARG, "has a zero byte, so it is no text");
    r->end = r->set->text + n;
    *r->end = '\0';
    return SG_OK;
}

/* A pipe that nobody writes is empty rather than waited for; one that somebody writes is read to its end. */
static sg_status read_text(sg_prompt_reader *r, sg_error *e)
{
    const size_t most = r->options->max_bytes ? r->options->max_bytes : MAX_BYTES;
    if (r->options->dash && strcmp(r->file, "-") == 0) return read_all(r, STDIN_FILENO, most, e);
    const int fd = open(r->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fcntl(fd, F_SETFL, 0) != 0) return sg_error_set(e, SG_E_FILE, "%s", strerror(errno));
    const sg_status status = read_all(r, fd, most, e);
    close(fd);
    return status;
}

static sg_status read_lines(sg_prompt_reader *r, char *text, sg_error *e)
{
    sg_prompt_record c;
    int              number = 0;
    while (text) {
        const char *const line = sg_prompt_line(&text);
        number++;
        if (line[strspn(line, " \t\v\f")] == '\0') continue;
        if (*line == '#') {
            r->set->comments++;
            continue;
        }
        sg_prompt_record_start(&c, number, 0);
        c.prompt.text = line;
        SG_TRY(sg_prompt_record_done(r, &c, sg_prompt_check(line, "the text", &c.why), e));
    }
    return SG_OK;
}

static sg_prompt_format format_of(const char *file)
{
    static const struct {
        const char      *ending;
        sg_prompt_format format;
    } known[] = {{".jsonl", SG_PROMPTS_JSONL},
                 {".ndjson", SG_PROMPTS_JSONL},
                 {".csv", SG_PROMPTS_CSV},
                 {".json", SG_PROMPTS_JSON}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(sg_path_extension(file), known[i].ending) == 0) return known[i].format;
    return SG_PROMPTS_TEXT;
}

static sg_status read_set(sg_prompt_reader *r, sg_error *e)
{
    const sg_prompt_format format = r->options->format ? r->options->format : format_of(r->file);
    SG_TRY(read_text(r, e));
    char *const text = r->set->text + (strncmp(r->set->text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0);
    r->foreign = format == SG_PROMPTS_JSON;
    r->kept = r->foreign || format == SG_PROMPTS_JSONL ? r->set->text : NULL;
    SG_TRY(format == SG_PROMPTS_TEXT    ? read_lines(r, text, e)
           : format == SG_PROMPTS_JSONL ? sg_prompt_read_jsonl(r, text, e)
           : format == SG_PROMPTS_CSV   ? sg_prompt_read_csv(r, text, e)
                                        : sg_prompt_read_json(r, text, e));
    if (r->set->count) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "has no prompt in it%s%s", r->set->skipped ? "; what was skipped first: " : "",
                        r->set->first_skipped.text);
}

sg_status sg_prompt_set_open(sg_prompt_set *out, const char *file, const sg_prompt_options *o, sg_error *e)
{
    sg_prompt_reader r = {.set = out, .options = o, .file = file};
    *out = (sg_prompt_set){0};
    sg_error        why = {0};
    const sg_status status = read_set(&r, &why);
    if (status == SG_OK) return SG_OK;
    sg_prompt_set_close(out);
    return sg_error_set(e, status, "%s: %s: %s", o->what, file, why.text);
}

sg_status sg_prompt_set_single(sg_prompt_set *out, const char *text, const char *what, sg_error *e)
{
    *out = (sg_prompt_set){0};
    SG_TRY(sg_prompt_check(text, what, e));
    if (!(out->prompt = malloc(sizeof *out->prompt))) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    out->prompt[out->count++] = (sg_prompt){.text = text, .seed = -1, .image_id = -1, .line = 1};
    return SG_OK;
}

void sg_prompt_set_close(sg_prompt_set *s)
{
    free(s->prompt);
    free(s->member);
    free(s->text);
    *s = (sg_prompt_set){0};
}
