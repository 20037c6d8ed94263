/* eval_log.c - see eval_log.h. */
#include "eval_log.h"
#include "input.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_CLIPS = 1 << 28, MOST_VALUES = 1000 };

sg_status sg_eval_log_make(sg_eval_log *l, int prompts, int per_prompt, int arms, sg_error *e)
{
    const size_t count = (size_t)prompts * (size_t)per_prompt * (size_t)arms;
    *l = (sg_eval_log){.prompts = prompts, .per_prompt = per_prompt, .arms = arms, .fd = -1};
    if (count > MOST_CLIPS)
        return sg_error_set(e, SG_E_ARG, "--prompts: %zu clips are more than %d; take a part of the set", count,
                            MOST_CLIPS);
    l->state = calloc(count, 1);
    return l->state ? SG_OK : sg_error_set(e, SG_E_MEMORY, "no memory for a list of %zu clips", count);
}

uint8_t *sg_eval_log_state(const sg_eval_log *l, int prompt, int clip, int arm)
{
    return l->state + ((size_t)prompt * (size_t)l->per_prompt + (size_t)clip) * (size_t)l->arms + (size_t)arm;
}

size_t sg_eval_log_count(const sg_eval_log *l, sg_eval_state s)
{
    const size_t count = (size_t)l->prompts * (size_t)l->per_prompt * (size_t)l->arms;
    size_t       n = 0;
    for (size_t i = 0; i < count; i++) n += l->state[i] == s;
    return n;
}

bool sg_eval_log_owns(const char *name)
{
    static const char begin[] = "results", end[] = ".jsonl";
    if (strncmp(name, begin, strlen(begin)) != 0) return false;
    name += strlen(begin);
    if (*name == '-' && name[1] != '.') name += 1 + strspn(name + 1, "0123456789");
    return strcmp(name, end) == 0;
}

/* ---- reading ---- */

static bool take_int(const json_t *line, const char *name, int below, int *out)
{
    const json_t *const v = json_object_get(line, name);
    *out = json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) < below
               ? (int)json_integer_value(v)
               : -1;
    return *out >= 0;
}

/* NULL, or what is wrong. */
static const char *take_line(sg_eval_log *l, const json_t *line)
{
    int               version, prompt, clip, arm;
    const char *const status = json_string_value(json_object_get(line, "status"));
    if (!take_int(line, "version", INT_MAX, &version) || version != SG_EVAL_VERSION) return "version is not 1";
    if (!take_int(line, "prompt", l->prompts, &prompt)) return "prompt is not one of the set's";
    if (!take_int(line, "clip", l->per_prompt, &clip)) return "clip is not one of its prompt's";
    if (!take_int(line, "arm_index", l->arms, &arm)) return "arm_index is not that of an arm";
    const bool done = status && strcmp(status, "done") == 0;
    if (!done && (!status || strcmp(status, "failed") != 0)) return "status is neither done nor failed";
    uint8_t *const state = sg_eval_log_state(l, prompt, clip, arm);
    if (done) *state = SG_EVAL_DONE;
    if (*state == SG_EVAL_MISSING) *state = SG_EVAL_FAILED;
    return NULL;
}

static sg_status read_line(sg_eval_log *l, const char *text, size_t size, const char *path, int number, sg_error *e)
{
    json_error_t      why = {0};
    json_t *const     line = sg_json_fits(text, size, MOST_VALUES) ? json_loadb(text, size, 0, &why) : NULL;
    const char *const problem = line ? take_line(l, line) : *why.text ? why.text : "too many values";
    const sg_status   status = problem ? sg_error_set(e, SG_E_FORMAT, "%s:%d: %s", path, number, problem) : SG_OK;
    json_decref(line);
    return status;
}

static sg_status read_file(sg_eval_log *l, const char *path, sg_error *e)
{
    FILE *const f = fopen(path, "re");
    char       *text = NULL;
    size_t      room = 0;
    sg_status   status = SG_OK;
    if (!f) return sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    for (int number = 1; status == SG_OK; number++) {
        errno = 0;
        const ssize_t n = getline(&text, &room, f);
        if (n < 0 && (ferror(f) || errno == ENOMEM))
            status = sg_error_set(e, errno == ENOMEM ? SG_E_MEMORY : SG_E_FILE, "%s: %s", path, strerror(errno));
        if (n <= 0 || text[n - 1] != '\n') break; /* another rank may be writing the last */
        status = read_line(l, text, (size_t)n - 1, path, number, e);
    }
    free(text);
    fclose(f);
    return status;
}

sg_status sg_eval_log_read(sg_eval_log *l, const char *folder, sg_error *e)
{
    char       path[PATH_MAX];
    DIR *const d = opendir(folder);
    sg_status  status = SG_OK;
    if (!d) return sg_error_set(e, SG_E_FILE, "%s: %s", folder, strerror(errno));
    for (const struct dirent *f; status == SG_OK && (f = readdir(d)) != NULL;) {
        if (!sg_eval_log_owns(f->d_name)) continue;
        snprintf(path, sizeof path, "%s/%s", folder, f->d_name);
        status = read_file(l, path, e);
    }
    closedir(d);
    return status;
}

/* ---- writing ---- */

static sg_status failed(const sg_eval_log *l, const char *what, sg_error *e)
{
    return sg_error_set(e, SG_E_FILE, "%s: %s: %s", l->path, what, strerror(errno));
}

/* The file ends with its last newline. */
static sg_status take_off(sg_eval_log *l, sg_error *e)
{
    const off_t size = lseek(l->fd, 0, SEEK_END);
    off_t       end = size;
    char        c;
    if (size < 0) return failed(l, "cannot be read", e);
    while (end > 0 && pread(l->fd, &c, 1, end - 1) == 1 && c != '\n') end--;
    l->cut = end < size;
    if (l->cut && ftruncate(l->fd, end) != 0) return failed(l, "cannot be cut", e);
    return SG_OK;
}

sg_status sg_eval_log_open(sg_eval_log *l, const char *folder, const sg_rank *r, sg_error *e)
{
    char number[16] = "";
    if (r->size > 1) snprintf(number, sizeof number, "-%d", r->rank);
    snprintf(l->path, sizeof l->path, "%s/results%s.jsonl", folder, number);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files fails the write, not the process */
    l->fd = open(l->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (l->fd < 0) return failed(l, "cannot be opened", e);
    if (flock(l->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return sg_error_set(e, SG_E_FILE, "%s: another process is writing it", l->path);
    return take_off(l, e);
}

static sg_status write_line(sg_eval_log *l, const char *text, size_t bytes, sg_error *e)
{
    const off_t   before = lseek(l->fd, 0, SEEK_END);
    const ssize_t n = write(l->fd, text, bytes);
    const int     cause = n < 0 ? errno : ENOSPC;
    if (n == (ssize_t)bytes && (fsync(l->fd) == 0 || errno == EINVAL || errno == ENOTSUP)) return SG_OK;
    if (n == (ssize_t)bytes) return failed(l, "cannot be written", e);
    if (n > 0 && ftruncate(l->fd, before) != 0) return failed(l, "cannot be written", e);
    errno = cause;
    return failed(l, "cannot be written", e);
}

sg_status sg_eval_log_add(sg_eval_log *l, const json_t *line, sg_error *e)
{
    char *const  text = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(15));
    const size_t bytes = text ? strlen(text) : 0;
    if (!text) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", l->path);
    text[bytes] = '\n'; /* in place of its NUL */
    sg_status         status = write_line(l, text, bytes + 1, e);
    const char *const problem = status == SG_OK ? take_line(l, line) : NULL;
    if (problem) status = sg_error_set(e, SG_E_FORMAT, "%s: %s", l->path, problem);
    free(text);
    return status;
}

void sg_eval_log_close(sg_eval_log *l)
{
    if (l->fd >= 0) close(l->fd);
    free(l->state);
    *l = (sg_eval_log){.fd = -1};
}
