/* job_queue.c - see job_queue.h. */
#include "job_queue.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/output_file.h"
#include "base/path.h"
#include "job_folder.h"
#include "json_build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_ATTEMPTS = 3 };

/* bytes are those of its folder. cancelled and doomed are of one at work: it is to end, and to go when it has. */
typedef struct entry {
    sg_job  job;
    int64_t bytes;
    bool    cancelled, doomed;
} entry;

struct sg_job_queue {
    char            dir[PATH_MAX];
    int             lock;
    sg_job_limits   limits;
    sg_job_events  *events;
    sg_job_log      log;
    pthread_mutex_t order; /* whoever changes what follows takes it before the other one, and keeps it over the disk */
    pthread_mutex_t mutex; /* guards what follows from whoever looks, who never waits for the disk */
    pthread_cond_t  changed; /* under order */
    entry         **entry;   /* by their numbers */
    int             count;
    size_t          room;
    int64_t         bytes, number; /* of all; of the next job */
    sg_job_counts   since;         /* the start: ended, seconds */
    double          began;         /* the job at work; 0: none is */
    bool            stopped;
    void (*cancel)(void *context, const char *id);
    void *cancel_context;
};

void sg_job_log_say(const sg_job_log *log, const char *fmt, ...)
{
    char   *text = NULL;
    va_list args;
    va_start(args, fmt);
    const bool whole = vasprintf(&text, fmt, args) >= 0;
    va_end(args);
    if (whole && log->line) log->line(log->context, text);
    if (whole) free(text);
}

static void lock(sg_job_queue *q)
{
    pthread_mutex_lock(&q->order);
    pthread_mutex_lock(&q->mutex);
}

static void unlock(sg_job_queue *q)
{
    pthread_mutex_unlock(&q->mutex);
    pthread_mutex_unlock(&q->order);
}

/* ---- one job; both are locked ---- */

static entry *find(const sg_job_queue *q, const char *id)
{
    int i = 0;
    while (i < q->count && strcmp(q->entry[i]->job.id, id) != 0) i++;
    return i < q->count ? q->entry[i] : NULL;
}

sg_status sg_job_queue_folder(const sg_job_queue *q, const char *id, char path[PATH_MAX], sg_error *e)
{
    return sg_path_join(path, PATH_MAX, q->dir, id, e);
}

/* x as this job, or as one that is to go and whose folder goes at the next start, if not before. What cannot be
 * written is logged; the job goes on. Meanwhile others may look. */
static void save(sg_job_queue *q, entry *x, const sg_job *as)
{
    char      path[PATH_MAX];
    sg_error  e = {0};
    sg_status status = sg_job_queue_folder(q, as->id, path, &e);
    pthread_mutex_unlock(&q->mutex);
    if (status == SG_OK && x->doomed)
        sg_job_folder_forget(path);
    else if (status == SG_OK)
        status = sg_job_save(as, path, &e);
    if (status != SG_OK) sg_job_log_say(&q->log, "job %s: %s", as->id, e.text);
    const int64_t bytes = sg_job_folder_bytes(path);
    pthread_mutex_lock(&q->mutex);
    q->bytes += bytes - x->bytes;
    x->bytes = bytes;
}

/* On the disk first, and then for whoever looks. */
static void settle(sg_job_queue *q, entry *x, sg_job_state state)
{
    const double now = sg_seconds();
    sg_job       as = x->job;
    as.state = state;
    if (state == SG_JOB_IN_PROGRESS) as.started = time(NULL);
    if (state == SG_JOB_QUEUED) as.started = 0;
    if (sg_job_is_over(&as)) as.finished = time(NULL);
    save(q, x, &as);
    if (x->job.state == SG_JOB_IN_PROGRESS && q->began > 0) {
        q->since.seconds += now - q->began;
        q->began = 0;
    }
    if (state == SG_JOB_IN_PROGRESS) q->began = now;
    if (sg_job_is_over(&as)) q->since.ended[state]++;
    x->job.state = state;
    x->job.started = as.started;
    x->job.finished = as.finished;
    sg_job_events_state(q->events, x->job.id);
    pthread_cond_broadcast(&q->changed);
}

static void remove_entry(sg_job_queue *q, entry *x)
{
    char       path[PATH_MAX];
    int        i = 0;
    const bool has_path = sg_job_queue_folder(q, x->job.id, path, NULL) == SG_OK;
    q->bytes -= x->bytes;
    while (q->entry[i] != x) i++;
    memmove(q->entry + i, q->entry + i + 1, (size_t)(--q->count - i) * sizeof(entry *));
    sg_job_close(&x->job);
    free(x);
    pthread_mutex_unlock(&q->mutex);
    if (has_path) sg_job_folder_remove(path);
    pthread_mutex_lock(&q->mutex);
}

static int count(const sg_job_queue *q, sg_job_state state)
{
    int n = 0;
    for (int i = 0; i < q->count; i++) n += q->entry[i]->job.state == state;
    return n;
}

/* Of those that are over the first go, until no more are kept than may be, and more bytes have room. but stays. */
static void drop_oldest(sg_job_queue *q, int64_t more, const entry *but)
{
    int over = 0;
    for (int i = 0; i < q->count; i++) over += sg_job_is_over(&q->entry[i]->job);
    for (int i = 0; i < q->count && (over > q->limits.kept || q->bytes > q->limits.bytes - more);) {
        if (!sg_job_is_over(&q->entry[i]->job) || q->entry[i] == but) {
            i++;
            continue;
        }
        remove_entry(q, q->entry[i]);
        over--;
    }
}

/* Takes the job. NULL: no memory, and it is closed. */
static entry *append(sg_job_queue *q, sg_job *job)
{
    entry *const x = calloc(1, sizeof *x);
    if (!x || !sg_array_push(q->entry, q->count, q->room, x)) {
        free(x);
        sg_job_close(job);
        return NULL;
    }
    x->job = *job;
    *job = (sg_job){0};
    return x;
}

/* ---- the start ---- */

static void take_up_state(sg_job_queue *q, entry *x, bool whole)
{
    static const char *const causes[] = {"it was interrupted three times", "files of it have gone"};
    sg_job *const            j = &x->job;
    const bool               again = j->state == SG_JOB_IN_PROGRESS && whole && j->attempts < MOST_ATTEMPTS;
    const bool               lost = !whole && (!sg_job_is_over(j) || j->state == SG_JOB_COMPLETED);
    if (again) {
        sg_job_log_say(&q->log, "job %s was interrupted and is queued again", j->id);
        settle(q, x, SG_JOB_QUEUED);
    } else if (j->state == SG_JOB_IN_PROGRESS || lost) {
        free(j->error);
        j->error = strdup(causes[lost]);
        json_array_clear(j->files);
        sg_job_log_say(&q->log, "job %s failed: %s", j->id, causes[lost]);
        settle(q, x, SG_JOB_FAILED);
    }
}

static sg_status take_up(sg_job_queue *q, const char *id, sg_error *e)
{
    char        path[PATH_MAX], file[PATH_MAX];
    struct stat st;
    sg_job      job = {0};
    sg_error    why = {0};
    SG_TRY(sg_job_queue_folder(q, id, path, e));
    SG_TRY(sg_path_join(file, sizeof file, path, "job.json", e));
    sg_status status = sg_job_folder_check(path, &why);
    if (status == SG_OK && lstat(file, &st) != 0 && errno == ENOENT) {
        sg_job_folder_remove(path);
        return SG_OK;
    }
    if (status == SG_OK) status = sg_job_read(&job, path, id, &why);
    if (status == SG_OK) {
        const bool   whole = sg_job_folder_clean(path, &job);
        entry *const x = append(q, &job);
        if (!x) return sg_error_memory(e, q->dir);
        x->bytes = sg_job_folder_bytes(path);
        q->bytes += x->bytes;
        if (x->job.number >= q->number) q->number = x->job.number + 1;
        take_up_state(q, x, whole);
        return SG_OK;
    }
    sg_job_close(&job);
    if (status == SG_E_MEMORY) return sg_error_copy(e, &why);
    sg_job_log_say(&q->log, "left alone: %s", why.text);
    return SG_OK;
}

static int by_number(const void *a, const void *b)
{
    const sg_job *const x = &(*(entry *const *)a)->job, *const y = &(*(entry *const *)b)->job;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number) : strcmp(x->id, y->id);
}

static sg_status open_folder(sg_job_queue *q, sg_error *e)
{
    char path[PATH_MAX];
    SG_TRY(sg_output_folder_make(q->dir, NULL, "jobs", e));
    SG_TRY(sg_path_join(path, sizeof path, q->dir, ".lock", e));
    q->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (q->lock < 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be opened: %s", path, strerror(errno));
    if (flock(q->lock, LOCK_EX | LOCK_NB) != 0)
        return sg_error_set(e, SG_E_FILE, "%s: another server has this folder", q->dir);
    DIR *const d = opendir(q->dir);
    sg_status  status = SG_OK;
    if (!d) return sg_error_set(e, SG_E_FILE, "%s: cannot be read: %s", q->dir, strerror(errno));
    for (const struct dirent *at; status == SG_OK && (at = readdir(d));)
        if (sg_job_is_id(at->d_name)) status = take_up(q, at->d_name, e);
    closedir(d);
    if (q->count) qsort(q->entry, (size_t)q->count, sizeof(entry *), by_number);
    drop_oldest(q, 0, NULL);
    return status;
}

sg_status sg_job_queue_open(sg_job_queue **out, const char *dir, const sg_job_limits *limits, sg_job_events *events,
                            const sg_job_log *log, sg_error *e)
{
    sg_job_queue *const q = *out = calloc(1, sizeof *q);
    if (!q) return sg_error_memory(e, dir);
    q->lock = -1;
    q->limits = *limits;
    q->events = events;
    q->log = *log;
    pthread_mutex_init(&q->order, NULL);
    pthread_mutex_init(&q->mutex, NULL);
    pthread_cond_init(&q->changed, NULL);
    sg_status status = sg_path_join(q->dir, sizeof q->dir, dir, "jobs", e);
    lock(q);
    if (status == SG_OK) status = open_folder(q, e);
    unlock(q);
    if (status != SG_OK) sg_job_queue_close(out);
    return status;
}

void sg_job_queue_close(sg_job_queue **queue)
{
    sg_job_queue *const q = *queue;
    if (!q) return;
    for (int i = 0; i < q->count; i++) {
        sg_job_close(&q->entry[i]->job);
        free(q->entry[i]);
    }
    free(q->entry);
    if (q->lock >= 0) close(q->lock);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->mutex);
    pthread_mutex_destroy(&q->order);
    free(q);
    *queue = NULL;
}

/* ---- what comes ---- */

static sg_job_verdict refuse(sg_error *e, sg_job_verdict verdict, sg_status code, const char *text)
{
    sg_error_set(e, code, "%s", text);
    return verdict;
}

/* Locked. For a job with so many bytes of uploads, whose result has as many more at most; but few are as large as
 * that. */
static sg_job_verdict room(sg_job_queue *q, int64_t bytes, int64_t result, sg_error *e)
{
    if (q->stopped) return refuse(e, SG_JOB_STOPPED, SG_E_CANCELLED, "the server is about to stop");
    if (count(q, SG_JOB_QUEUED) >= q->limits.queued)
        return refuse(e, SG_JOB_QUEUE_FULL, SG_E_MEMORY, "the queue is full; try again later");
    if (bytes > q->limits.bytes || result > q->limits.bytes - bytes)
        return refuse(e, SG_JOB_TOO_LARGE, SG_E_MEMORY, "its files are larger than all that the server may keep");
    drop_oldest(q, bytes, NULL);
    if (q->bytes <= q->limits.bytes - bytes) return SG_JOB_TAKEN;
    return refuse(e, SG_JOB_DISK_FULL, SG_E_FILE, "the server's disk is full of jobs that wait; try again later");
}

sg_job_verdict sg_job_queue_room(sg_job_queue *q, int64_t result, sg_error *e)
{
    lock(q);
    const sg_job_verdict verdict = room(q, 0, result, e);
    unlock(q);
    return verdict;
}

/* Locked. The folder is whole before the job is known. */
static sg_job_verdict add(sg_job_queue *q, sg_job *job, const char *const *upload, sg_error *e)
{
    char        path[PATH_MAX];
    struct stat st;
    int64_t     bytes = 0;
    for (int i = 0; i < SG_JOB_INPUTS; i++)
        if (upload[i] && stat(upload[i], &st) == 0) bytes += st.st_size;
    const sg_job_verdict verdict = room(q, bytes, 0, e);
    if (verdict != SG_JOB_TAKEN) return verdict;
    job->number = q->number++;
    sg_status status = sg_job_queue_folder(q, job->id, path, e);
    pthread_mutex_unlock(&q->mutex);
    if (status == SG_OK) status = sg_job_folder_make(path, job, upload, e);
    if (status == SG_OK) status = sg_job_save(job, path, e);
    pthread_mutex_lock(&q->mutex);
    entry *const x = status == SG_OK ? append(q, job) : NULL;
    if (!x) {
        sg_job_folder_remove(path);
        if (status != SG_E_FILE) return refuse(e, SG_JOB_BROKEN, SG_E_MEMORY, "out of memory");
        sg_job_log_say(&q->log, "a job was not taken: %s", e->text);
        *e = (sg_error){0};
        return refuse(e, SG_JOB_DISK_FULL, SG_E_FILE, "the server cannot write to its disk; try again later");
    }
    x->bytes = sg_job_folder_bytes(path);
    q->bytes += x->bytes;
    sg_job_events_state(q->events, x->job.id);
    pthread_cond_broadcast(&q->changed);
    return SG_JOB_TAKEN;
}

sg_job_verdict sg_job_queue_add(sg_job_queue *q, sg_job *job, const char *const upload[SG_JOB_INPUTS], sg_error *e)
{
    lock(q);
    const sg_job_verdict verdict = add(q, job, upload, e);
    unlock(q);
    sg_job_close(job);
    return verdict;
}

/* ---- what is asked ---- */

static json_t *entry_json(const sg_job_queue *q, const entry *x)
{
    int position = x->job.state == SG_JOB_QUEUED ? 0 : -1;
    for (int i = 0; position >= 0 && q->entry[i] != x; i++) position += q->entry[i]->job.state == SG_JOB_QUEUED;
    return sg_job_json(&x->job, position);
}

json_t *sg_job_queue_get(sg_job_queue *q, const char *id)
{
    pthread_mutex_lock(&q->mutex);
    const entry *const x = find(q, id);
    json_t *const      j = x ? entry_json(q, x) : NULL;
    pthread_mutex_unlock(&q->mutex);
    return j;
}

json_t *sg_job_queue_list(sg_job_queue *q, const char *after, int most, bool newest_first)
{
    json_t *data = json_array();
    int     at = 0;
    pthread_mutex_lock(&q->mutex);
    const int n = q->count;
    while (after && at < n && strcmp(q->entry[newest_first ? n - 1 - at : at]->job.id, after) != 0) at++;
    for (at += after != NULL; at < n && most > 0; at++, most--)
        sg_json_append(&data, entry_json(q, q->entry[newest_first ? n - 1 - at : at]));
    pthread_mutex_unlock(&q->mutex);
    const size_t  count = json_array_size(data);
    json_t *const first = json_object_get(json_array_get(data, 0), "id");
    json_t *const last = json_object_get(json_array_get(data, count ? count - 1 : 0), "id");
    return json_pack("{s:s, s:o, s:O?, s:O?, s:b}", "object", "list", "data", data, "first_id", first, "last_id", last,
                     "has_more", at < n);
}

sg_job_counts sg_job_queue_counts(sg_job_queue *q)
{
    pthread_mutex_lock(&q->mutex);
    sg_job_counts counts = q->since;
    for (int i = 0; i < q->count; i++) counts.kept[q->entry[i]->job.state]++;
    if (q->began > 0) counts.seconds += sg_seconds() - q->began;
    pthread_mutex_unlock(&q->mutex);
    return counts;
}

/* name is NULL where there is no such file. */
static bool put_path(const sg_job_queue *q, const char *id, const char *name, char path[PATH_MAX])
{
    char folder[PATH_MAX];
    return name && sg_job_queue_folder(q, id, folder, NULL) == SG_OK &&
           sg_path_join(path, PATH_MAX, folder, name, NULL) == SG_OK;
}

bool sg_job_queue_file(sg_job_queue *q, const char *id, size_t i, char path[PATH_MAX])
{
    pthread_mutex_lock(&q->mutex);
    const entry *const x = find(q, id);
    const bool there = put_path(q, id, x && x->job.state == SG_JOB_COMPLETED ? sg_job_file(&x->job, i) : NULL, path);
    pthread_mutex_unlock(&q->mutex);
    return there;
}

bool sg_job_queue_input(sg_job_queue *q, const char *id, int input, char path[PATH_MAX])
{
    pthread_mutex_lock(&q->mutex);
    const entry *const x = find(q, id);
    const bool         there = put_path(q, id, x && x->job.inputs >> input & 1 ? sg_job_inputs[input] : NULL, path);
    pthread_mutex_unlock(&q->mutex);
    return there;
}

/* On the disk the job at work is over at once: after a kill it does not run again. */
static void end_work(sg_job_queue *q, entry *x)
{
    sg_job as = x->job;
    x->cancelled = true;
    as.state = SG_JOB_CANCELLED;
    as.finished = time(NULL);
    save(q, x, &as);
}

static bool end(sg_job_queue *q, const char *id, bool doomed)
{
    lock(q);
    entry *const x = find(q, id);
    const bool   works = x && x->job.state == SG_JOB_IN_PROGRESS, over = x && sg_job_is_over(&x->job);
    void (*const cancel)(void *, const char *) = works ? q->cancel : NULL;
    if (x) x->doomed = x->doomed || doomed;
    if (works)
        end_work(q, x);
    else if (x && !over)
        settle(q, x, SG_JOB_CANCELLED);
    if (x && !works && doomed)
        remove_entry(q, x);
    else if (x && !works && !over)
        drop_oldest(q, 0, x);
    unlock(q);
    if (cancel) cancel(q->cancel_context, id);
    return x && (doomed || !over);
}

bool sg_job_queue_cancel(sg_job_queue *q, const char *id) { return end(q, id, false); }

bool sg_job_queue_delete(sg_job_queue *q, const char *id) { return end(q, id, true); }

/* ---- for whoever does the jobs ---- */

void sg_job_queue_on_cancel(sg_job_queue *q, void (*cancel)(void *context, const char *id), void *context)
{
    lock(q);
    q->cancel = cancel;
    q->cancel_context = context;
    unlock(q);
}

static entry *first_queued(const sg_job_queue *q)
{
    int i = 0;
    while (i < q->count && q->entry[i]->job.state != SG_JOB_QUEUED) i++;
    return i < q->count ? q->entry[i] : NULL;
}

bool sg_job_queue_next(sg_job_queue *q, sg_job *out)
{
    entry *x = NULL;
    *out = (sg_job){0};
    pthread_mutex_lock(&q->order);
    while (!q->stopped && !(x = first_queued(q))) pthread_cond_wait(&q->changed, &q->order);
    pthread_mutex_lock(&q->mutex);
    const bool any = !q->stopped;
    if (any) {
        x->job.attempts++;
        settle(q, x, SG_JOB_IN_PROGRESS);
        *out = (sg_job){.inputs = x->job.inputs, .settings = json_deep_copy(x->job.settings), .files = json_array()};
        memcpy(out->id, x->job.id, sizeof out->id);
    }
    unlock(q);
    return any;
}

bool sg_job_queue_cancelled(sg_job_queue *q, const char *id)
{
    pthread_mutex_lock(&q->mutex);
    const entry *const x = find(q, id);
    const bool         cancelled = !x || x->cancelled;
    pthread_mutex_unlock(&q->mutex);
    return cancelled;
}

void sg_job_queue_progress(sg_job_queue *q, const char *id, const sg_job_progress *progress)
{
    pthread_mutex_lock(&q->mutex);
    entry *const x = find(q, id);
    if (x) x->job.progress = *progress;
    if (x) sg_job_events_progress(q->events, id, progress);
    pthread_mutex_unlock(&q->mutex);
}

/* What came of it; only what is completed has a result. */
static void take_result(sg_job *j, sg_job *over)
{
    const bool completed = over->state == SG_JOB_COMPLETED;
    if (completed) {
        json_decref(j->files);
        j->files = over->files;
        j->made = over->made;
        over->files = over->made = NULL;
    }
    if (over->notices) {
        json_decref(j->notices);
        j->notices = over->notices;
        over->notices = NULL;
    }
    j->error = over->error;
    over->error = NULL;
    j->progress = (sg_job_progress){0};
    if (over->state == SG_JOB_QUEUED) j->attempts--;
}

void sg_job_queue_finish(sg_job_queue *q, sg_job *over)
{
    lock(q);
    entry *const x = find(q, over->id);
    char         path[PATH_MAX];
    if (x) {
        take_result(&x->job, over);
        x->cancelled = false;
        if (sg_job_queue_folder(q, over->id, path, NULL) == SG_OK) sg_job_folder_clean(path, &x->job);
        settle(q, x, over->state);
        if (x->doomed)
            remove_entry(q, x);
        else
            drop_oldest(q, 0, x);
    }
    unlock(q);
}

void sg_job_queue_stop(sg_job_queue *q)
{
    lock(q);
    q->stopped = true;
    pthread_cond_broadcast(&q->changed);
    unlock(q);
}
