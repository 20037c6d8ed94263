/* prompt_list.c - see prompt_list.h. */
#include "prompt_list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_FILE = 1 << 20 };

/* Bytes of the character at p, 0 if it is none. A NUL ends the text, so p never runs past it. */
static int character_length(const uint8_t *p)
{
    const int n = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    if (p[0] == 0xE0 && p[1] < 0xA0) return 0; /* overlong */
    if (p[0] == 0xED && p[1] > 0x9F) return 0; /* surrogates */
    if (p[0] == 0xF0 && p[1] < 0x90) return 0; /* overlong */
    if (p[0] == 0xF4 && p[1] > 0x8F) return 0; /* above U+10FFFF */
    return n;
}

sg_status sg_prompt_check(const char *text, const char *what, sg_error *e)
{
    const uint8_t *p = (const uint8_t *)text;
    while (*p) {
        const int n = character_length(p);
        if (n == 0)
            return sg_error_set(e, SG_E_ARG, "%s is not UTF-8: byte 0x%02x at position %td", what, *p,
                                p - (const uint8_t *)text + 1);
        p += n;
    }
    return SG_OK;
}

/* A pipe that nobody writes is empty rather than waited for; one that somebody writes is read to its end. */
static FILE *open_text(const char *file)
{
    const int   fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *const f = fd < 0 || fcntl(fd, F_SETFL, 0) != 0 ? NULL : fdopen(fd, "rb");
    if (fd >= 0 && !f) close(fd);
    return f;
}

static sg_status read_text(char **out, const char *file, sg_error *e)
{
    FILE *f = open_text(file);
    if (!f) return sg_error_set(e, SG_E_FILE, "--prompt-file: %s: %s", file, strerror(errno));
    char *text = malloc(LONGEST_FILE + 2);
    errno = 0;
    const size_t n = text ? fread(text, 1, LONGEST_FILE + 1, f) : 0;
    const bool   failed = ferror(f) != 0;
    const int    cause = errno;
    fclose(f);
    sg_status status = SG_OK;
    if (!text)
        status = sg_error_set(e, SG_E_MEMORY, "--prompt-file: %s: out of memory", file);
    else if (failed)
        status = sg_error_set(e, SG_E_FILE, "--prompt-file: %s: %s", file, strerror(cause));
    else if (n > LONGEST_FILE)
        status = sg_error_set(e, SG_E_ARG, "--prompt-file: %s: more than 1 MiB cannot be prompts", file);
    else if (memchr(text, '\0', n))
        status = sg_error_set(e, SG_E_ARG, "--prompt-file: %s: has a zero byte, so it is no text", file);
    if (status != SG_OK) {
        free(text);
        return status;
    }
    text[n] = '\0';
    *out = text;
    return SG_OK;
}

static bool is_blank(const char *line) { return line[strspn(line, " \t\v\f")] == '\0'; }

/* Cuts l->text into lines and lists those that hold something. */
static sg_status list_lines(sg_prompt_list *l, const char *file, sg_error *e)
{
    char  *line = l->text + (strncmp(l->text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0);
    size_t most = 1;
    for (const char *p = line; *p; p++) most += *p == '\n';
    if (!(l->prompt = malloc(most * sizeof *l->prompt)))
        return sg_error_set(e, SG_E_MEMORY, "--prompt-file: %s: out of memory", file);
    int number = 0;
    for (char *next = line; next; line = next) {
        number++;
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        const size_t n = strlen(line);
        if (n && line[n - 1] == '\r') line[n - 1] = '\0';
        if (is_blank(line)) continue;
        char what[PATH_MAX + 64];
        snprintf(what, sizeof what, "--prompt-file: %s: line %d", file, number);
        SG_TRY(sg_prompt_check(line, what, e));
        l->prompt[l->count++] = line;
    }
    return l->count ? SG_OK : sg_error_set(e, SG_E_ARG, "--prompt-file: %s: has no prompt in it", file);
}

sg_status sg_prompt_list_open(sg_prompt_list *out, const char *text, const char *file, sg_error *e)
{
    *out = (sg_prompt_list){0};
    if (text) {
        SG_TRY(sg_prompt_check(text, "--prompt", e));
        if (!(out->prompt = malloc(sizeof *out->prompt))) return sg_error_set(e, SG_E_MEMORY, "out of memory");
        out->prompt[out->count++] = text;
        return SG_OK;
    }
    SG_TRY(read_text(&out->text, file, e));
    const sg_status status = list_lines(out, file, e);
    if (status != SG_OK) sg_prompt_list_close(out);
    return status;
}

void sg_prompt_list_close(sg_prompt_list *l)
{
    free(l->prompt);
    free(l->text);
    *l = (sg_prompt_list){0};
}
