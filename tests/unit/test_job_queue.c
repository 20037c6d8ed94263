/* test_job_queue.c - jobs without an engine: their order, each way to end, limits, what a kill leaves, hostile
 * files, events. */
#include "base/image.h"
#include "job_queue.h"
#include "picture_file.h"
#include "unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const sg_job_limits usual = {.queued = 100, .kept = 100, .bytes = 1 << 30};

static sg_job_events *events;
static sg_job_queue  *queue;
static char           said[4096];

static void note(void *context, const char *text)
{
    const size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", text);
}

static void open_limited(const sg_job_limits *limits)
{
    sg_error e = {0};
    *said = '\0';
    if (!events) events = sg_job_events_open();
    assert_done(sg_job_queue_open(&queue, ".", limits, events, &(sg_job_log){note, NULL}, &e), &e);
}

static void reopen(void)
{
    sg_job_queue_close(&queue);
    open_limited(&usual);
}

static int open_queue(void **state)
{
    if (enter_folder(state)) return -1;
    open_limited(&usual);
    return 0;
}

static int close_queue(void **state)
{
    sg_job_queue_close(&queue);
    sg_job_events_close(&events);
    return leave_folder(state);
}

/* ---- jobs ---- */

typedef char job_id[SG_JOB_ID];

static sg_job_verdict try_add(job_id id, const char *upload, sg_error *e)
{
    sg_job job;
    assert_done(sg_job_make(&job, json_pack("{s:s}", "prompt", "a cat"), json_pack("[s]", "size 33x32: 32x32"), e), e);
    if (id) memcpy(id, job.id, SG_JOB_ID);
    return sg_job_queue_add(queue, &job, (const char *const[SG_JOB_INPUTS]){upload}, e);
}

static void add(job_id id)
{
    sg_error e = {0};
    if (try_add(id, NULL, &e) != SG_JOB_TAKEN) fail_msg("%s", e.text);
}

static json_t *member(const char *id, const char *key)
{
    json_t *const j = sg_job_queue_get(queue, id), *const v = json_incref(json_object_get(j, key));
    json_decref(j);
    return v;
}

static void expect_member(const char *id, const char *key, const char *json)
{
    json_t *const v = member(id, key);
    char *const   text = v ? json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY) : strdup("none");
    assert_string_equal(text, json);
    free(text);
    json_decref(v);
}

#define expect_status(id, status) expect_member(id, "status", "\"" status "\"")

/* The job that is next, as a worker takes it. */
static void begin(const char *id)
{
    sg_job job;
    assert_true(sg_job_queue_next(queue, &job));
    assert_string_equal(job.id, id);
    sg_job_close(&job);
}

static void write_content(const char *id, size_t bytes)
{
    char        path[192];
    char *const content = calloc(1, bytes);
    snprintf(path, sizeof path, "jobs/%s/content.png", id);
    write_bytes(path, content, bytes);
    free(content);
}

/* What the worker gives back of a job; result is a file that it wrote, of these bytes. */
static void finish(const char *id, sg_job_state state, const char *error, size_t result)
{
    sg_job over = {.state = state, .error = error ? strdup(error) : NULL};
    memcpy(over.id, id, SG_JOB_ID);
    over.files = json_pack("[{s:s, s:i, s:i}]", "file", "content.png", "seed", 3, "bytes", (int)result);
    over.made = json_pack("{s:i}", "seed", 3);
    if (result) over.notices = json_pack("[s]", "it took long");
    sg_job_queue_finish(queue, &over);
    sg_job_close(&over);
}

static void complete(const char *id, size_t bytes)
{
    write_content(id, bytes);
    finish(id, SG_JOB_COMPLETED, NULL, bytes);
}

static bool has_folder(const char *id)
{
    char path[192];
    snprintf(path, sizeof path, "jobs/%s", id);
    return access(path, F_OK) == 0;
}

/* ---- order ---- */

static void jobs_run_in_order(void **state)
{
    job_id id[3];
    char   path[PATH_MAX];
    for (int i = 0; i < 3; i++) add(id[i]);
    assert_true(strcmp(id[0], id[1]) != 0 && sg_job_is_id(id[0]));
    for (int i = 0; i < 3; i++) {
        expect_status(id[i], "queued");
        expect_member(id[2], "queue_position", (const char *const[]){"2", "1", "0"}[i]);
        begin(id[i]);
        expect_status(id[i], "in_progress");
        expect_member(id[i], "queue_position", "null");
        expect_member(id[i], "attempts", "1");
        assert_false(sg_job_queue_file(queue, id[i], 0, path));
        sg_job_queue_progress(queue, id[i], &(sg_job_progress){SG_STAGE_DENOISE, 1, 4, 0.5, 1.5});
        expect_member(id[i], "progress", "{\"stage\":\"denoise\",\"done\":1,\"total\":4,\"seconds\":0.5,\"eta\":1.5}");
        if (i == 1)
            finish(id[i], SG_JOB_FAILED, "no more memory", 0);
        else
            complete(id[i], 10);
        expect_member(id[i], "progress", "null");
    }
    expect_status(id[1], "failed");
    expect_member(id[1], "error", "\"no more memory\"");
    expect_member(id[1], "files", "[]");
    expect_member(id[1], "made", "null");
    expect_member(id[1], "notices", "[\"size 33x32: 32x32\"]");
    expect_member(id[2], "notices", "[\"it took long\"]");
    expect_member(id[2], "files", "[{\"file\":\"content.png\",\"seed\":3,\"bytes\":10}]");
    expect_member(id[2], "made", "{\"seed\":3}");
    assert_true(sg_job_queue_file(queue, id[2], 0, path));
    assert_int_equal(access(path, R_OK), 0);
    assert_false(sg_job_queue_file(queue, id[2], 1, path));
    assert_null(sg_job_queue_get(queue, "../../../etc/passwd"));
}

static void expect_page(const char *after, int most, bool newest, job_id *id, int from, int step, int count, bool more)
{
    json_t *const list = sg_job_queue_list(queue, after, most, newest);
    assert_int_equal(json_array_size(json_object_get(list, "data")), count);
    for (int i = 0; i < count; i++)
        assert_string_equal(
            json_string_value(json_object_get(json_array_get(json_object_get(list, "data"), (size_t)i), "id")),
            id[from + i * step]);
    assert_int_equal(json_is_true(json_object_get(list, "has_more")), more);
    assert_true(count ? json_is_string(json_object_get(list, "last_id"))
                      : json_is_null(json_object_get(list, "last_id")));
    json_decref(list);
}

static void lists_have_pages(void **state)
{
    job_id id[5];
    for (int i = 0; i < 5; i++) add(id[i]);
    expect_page(NULL, 3, false, id, 0, 1, 3, true);
    expect_page(id[2], 3, false, id, 3, 1, 2, false);
    expect_page(NULL, 2, true, id, 4, -1, 2, true);
    expect_page(id[3], 3, true, id, 2, -1, 3, false);
    expect_page(id[0], 3, true, id, 0, 1, 0, false);
    expect_page("nobody", 3, false, id, 0, 1, 0, false);
}

/* ---- ends ---- */

static job_id cancelled_id;

static void note_cancel(void *context, const char *id)
{
    json_decref(sg_job_queue_get(queue, id)); /* no lock of the queue is held */
    memcpy(cancelled_id, id, SG_JOB_ID);
}

static void jobs_are_cancelled_in_each_state(void **state)
{
    job_id id[4];
    char   path[PATH_MAX];
    sg_job_queue_on_cancel(queue, note_cancel, NULL);
    for (int i = 0; i < 4; i++) add(id[i]);
    assert_true(sg_job_queue_cancel(queue, id[1]));
    expect_status(id[1], "cancelled");
    assert_string_equal(cancelled_id, "");
    begin(id[0]);
    assert_false(sg_job_queue_cancelled(queue, id[0]));
    assert_true(sg_job_queue_cancel(queue, id[0]));
    assert_string_equal(cancelled_id, id[0]);
    assert_true(sg_job_queue_cancelled(queue, id[0]));
    expect_status(id[0], "in_progress");
    write_content(id[0], 5); /* half of a result */
    finish(id[0], SG_JOB_CANCELLED, NULL, 0);
    expect_status(id[0], "cancelled");
    assert_false(sg_job_queue_file(queue, id[0], 0, path));
    snprintf(path, sizeof path, "jobs/%s", id[0]);
    assert_int_equal(files_in(path), 1);
    begin(id[2]); /* what was cancelled is passed over */
    complete(id[2], 5);
    for (int i = 0; i < 3; i++) assert_false(sg_job_queue_cancel(queue, id[i]));
    assert_false(sg_job_queue_cancel(queue, "nobody"));
    expect_status(id[2], "completed");
}

static void jobs_are_deleted_in_each_state(void **state)
{
    job_id id[3];
    sg_job_queue_on_cancel(queue, note_cancel, NULL);
    for (int i = 0; i < 3; i++) add(id[i]);
    begin(id[0]);
    complete(id[0], 5);
    begin(id[1]);
    for (int i = 0; i < 3; i++) assert_true(sg_job_queue_delete(queue, id[i]));
    assert_false(sg_job_queue_delete(queue, id[0]));
    assert_null(sg_job_queue_get(queue, id[0]));
    assert_null(sg_job_queue_get(queue, id[2]));
    assert_string_equal(cancelled_id, id[1]);
    expect_status(id[1], "in_progress");
    finish(id[1], SG_JOB_CANCELLED, NULL, 0);
    assert_null(sg_job_queue_get(queue, id[1]));
    for (int i = 0; i < 3; i++) assert_false(has_folder(id[i]));
}

static void a_stop_leaves_the_queue(void **state)
{
    job_id   id[2];
    sg_job   job;
    sg_error e = {0};
    for (int i = 0; i < 2; i++) add(id[i]);
    begin(id[0]);
    sg_job_queue_stop(queue);
    finish(id[0], SG_JOB_QUEUED, NULL, 0);
    assert_false(sg_job_queue_next(queue, &job));
    assert_int_equal(try_add(NULL, NULL, &e), SG_JOB_STOPPED);
    reopen();
    expect_member(id[0], "attempts", "0");
    begin(id[0]);
    begin(id[1]);
}

/* ---- limits ---- */

static void limits_are_kept(void **state)
{
    job_id   id[6];
    sg_error e = {0};
    sg_job_queue_close(&queue);
    open_limited(&(sg_job_limits){.queued = 2, .kept = 2, .bytes = 60000});
    add(id[0]);
    add(id[1]);
    assert_int_equal(sg_job_queue_room(queue, 0, &e), SG_JOB_QUEUE_FULL);
    assert_int_equal(try_add(NULL, NULL, &(sg_error){0}), SG_JOB_QUEUE_FULL);
    assert_int_equal(files_in("jobs"), 2 + 1);
    begin(id[0]);
    complete(id[0], 100);
    begin(id[1]);
    complete(id[1], 20000);
    add(id[2]);
    begin(id[2]);
    complete(id[2], 30000); /* more are not kept: the oldest goes */
    assert_null(sg_job_queue_get(queue, id[0]));
    assert_false(has_folder(id[0]));
    expect_status(id[1], "completed");
    write_text("upload", "");
    shell("truncate -s 25000 upload");
    assert_int_equal(try_add(id[3], "upload", &(sg_error){0}), SG_JOB_TAKEN); /* for which the next oldest goes */
    assert_null(sg_job_queue_get(queue, id[1]));
    expect_status(id[2], "completed");
    expect_member(id[3], "inputs", "[\"image\"]");
    assert_int_not_equal(access("upload", F_OK), 0);
    write_text("upload", "");
    shell("truncate -s 40000 upload");
    assert_int_equal(try_add(id[4], "upload", &(sg_error){0}), SG_JOB_DISK_FULL); /* of one that waits */
    shell("truncate -s 70000 upload");
    assert_int_equal(try_add(id[4], "upload", &(sg_error){0}), SG_JOB_TOO_LARGE);
    assert_int_equal(access("upload", F_OK), 0);
    assert_false(has_folder(id[4]));
    expect_status(id[3], "queued");
}

/* What cannot be written was not taken; the client reads no path. */
static void a_full_disk_takes_no_job(void **state)
{
    const struct rlimit none = {10, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
    sg_error            e = {0};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    const sg_job_verdict verdict = try_add(NULL, NULL, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_int_equal(verdict, SG_JOB_DISK_FULL);
    assert_int_equal(e.code, SG_E_FILE);
    assert_null(strstr(e.text, "job.json"));
    assert_non_null(strstr(said, "job.json"));
    assert_int_equal(files_in("jobs"), 1);
    add(NULL);
}

/* ---- restarts ---- */

static void a_folder_has_one_server(void **state)
{
    sg_job_queue *other = NULL;
    sg_error      e = {0};
    assert_refused(sg_job_queue_open(&other, ".", &usual, events, &(sg_job_log){0}, &e), SG_E_FILE, &e, "jobs");
    assert_null(other);
}

static void jobs_survive(void **state)
{
    job_id id[4], none = "00112233445566778899aabbccddeeff";
    char   path[192];
    for (int i = 0; i < 4; i++) add(id[i]);
    begin(id[0]);
    complete(id[0], 7);
    begin(id[1]);
    write_content(id[1], 5); /* a name too early */
    snprintf(path, sizeof path, "jobs/%s/image", none);
    write_text(path, "uploaded, and not taken yet");
    snprintf(path, sizeof path, "jobs/%s/.content.png.123.part", id[0]);
    write_text(path, "half");
    write_text("jobs/notes", "of somebody else");
    reopen(); /* as after a kill */
    expect_status(id[0], "completed");
    expect_member(id[0], "notices", "[\"it took long\"]");
    expect_status(id[1], "queued");
    expect_member(id[1], "notices", "[\"size 33x32: 32x32\"]");
    assert_non_null(strstr(said, id[1]));
    expect_member(id[1], "queue_position", "0");
    expect_member(id[2], "queue_position", "1");
    assert_false(has_folder(none));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(access("jobs/notes", F_OK), 0);
    snprintf(path, sizeof path, "jobs/%s", id[1]);
    assert_int_equal(files_in(path), 1);
    for (int i = 0; i < 2; i++) {
        expect_status(id[1], "queued");
        expect_member(id[1], "started_at", "0");
        begin(id[1]);
        reopen();
    }
    expect_status(id[1], "failed");
    expect_member(id[1], "error", "\"it was interrupted three times\"");
    snprintf(path, sizeof path, "jobs/%s/content.png", id[0]);
    unlink(path);
    begin(id[2]);
    complete(id[2], 3);
    reopen();
    expect_status(id[0], "failed");
    expect_status(id[2], "completed");
    expect_status(id[3], "queued");
    add(id[0]); /* comes after all that were there */
    expect_member(id[0], "queue_position", "1");
}

/* Whoever cancelled or deleted the job at work does not find it again after a kill, if it did not end before. */
static void what_was_ended_stays_so(void **state)
{
    job_id id[2];
    for (int i = 0; i < 2; i++) {
        add(id[i]);
        begin(id[i]);
        write_content(id[i], 5);
        expect_status(id[i], "in_progress");
        assert_true((i ? sg_job_queue_delete : sg_job_queue_cancel)(queue, id[i]));
        expect_status(id[i], "in_progress");
        reopen();
    }
    expect_status(id[0], "cancelled");
    assert_null(sg_job_queue_get(queue, id[1]));
    assert_false(has_folder(id[1]));
}

/* Their files are what a start reads. */
static void the_largest_jobs_are_read_again(void **state)
{
    enum { BATCH = 10000, TEXT_MOST = 16384 };
    char   text[TEXT_MOST + 1] = "", commas[TEXT_MOST + 1] = "";
    sg_job job;
    job_id id;
    memset(text, 1, TEXT_MOST);     /* each of them takes six bytes of JSON */
    memset(commas, ',', TEXT_MOST); /* each may stand between values */
    sg_error e = {0};
    assert_done(sg_job_make(&job, json_pack("{s:s, s:s}", "prompt", text, "negative_prompt", commas), json_array(), &e),
                &e);
    memcpy(id, job.id, SG_JOB_ID);
    assert_int_equal(sg_job_queue_add(queue, &job, (const char *const[SG_JOB_INPUTS]){NULL}, &e), SG_JOB_TAKEN);
    begin(id);
    write_content(id, 1);
    sg_job over = {.state = SG_JOB_COMPLETED, .files = json_array()};
    memcpy(over.id, id, SG_JOB_ID);
    const double third = 1000 / 3.0;
    for (int i = 0; i < BATCH; i++)
        json_array_append_new(over.files, json_pack("{s:s, s:I, s:i, s:{s:f, s:f, s:f, s:f, s:f, s:f}}", "file",
                                                    "content.png", "seed", (json_int_t)INT64_MAX - i, "bytes",
                                                    INT32_MAX, "seconds", "total", third, "load", third, "text", third,
                                                    "encode", third, "denoise", third, "decode", third));
    over.made = json_pack("{s:s, s:s}", "prompt", text, "negative_prompt", commas);
    sg_job_queue_finish(queue, &over);
    sg_job_close(&over);
    reopen();
    assert_string_equal(said, "");
    expect_status(id, "completed");
}

/* A process that adds, begins and completes jobs, and tells each that it added, until it is killed. */
static void work_until_killed(int to)
{
    sg_job job;
    for (;;) {
        job_id id;
        add(id);
        if (write(to, id, sizeof id) != (ssize_t)sizeof id) _exit(1);
        if (!sg_job_queue_next(queue, &job)) _exit(1);
        complete(job.id, 1000);
        sg_job_close(&job);
    }
}

static void kills_lose_nothing(void **state)
{
    enum { KILLS = 6, JOBS = 5 };
    job_id answered[KILLS * JOBS];
    int    count = 0;
    sg_job_queue_close(&queue);
    for (int i = 0; i < KILLS; i++) {
        int pipes[2];
        assert_int_equal(pipe(pipes), 0);
        const pid_t child = fork();
        if (child == 0) {
            open_limited(&usual);
            work_until_killed(pipes[1]);
        }
        close(pipes[1]);
        for (int k = 0; k < JOBS; k++) assert_int_equal(read(pipes[0], answered[count++], SG_JOB_ID), SG_JOB_ID);
        usleep((useconds_t)(i * 700)); /* somewhere in its work */
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(pipes[0]);
    }
    open_limited(&usual);
    assert_null(strstr(said, "left alone"));
    for (int i = 0; i < count; i++) {
        char          path[PATH_MAX];
        json_t *const status = member(answered[i], "status");
        assert_non_null(status);
        if (strcmp(json_string_value(status), "completed") == 0) {
            assert_true(sg_job_queue_file(queue, answered[i], 0, path));
            size_t size;
            free(read_file(path, &size));
            assert_int_equal(size, 1000);
        }
        json_decref(status);
    }
}

/* ---- hostile files ---- */

static void hostile_jobs_are_left_alone(void **state)
{
    static const char        good[] = "{\"id\": \"%s\", \"status\": \"completed\", \"number\": 1, \"attempts\": 1,"
                                      " \"created_at\": 1, \"started_at\": 1, \"finished_at\": 1, \"settings\": {},"
                                      " \"inputs\": [], \"files\": [{\"file\": \"content.png\", \"seed\": 1, \"bytes\": 1}],"
                                      " \"made\": null, \"notices\": [], \"error\": null}";
    static const char *const changed[][2] = {
        {"id", "\"../../../../etc\""},
        {"id", "null"},
        {"status", "\"done\""},
        {"status", "3"},
        {"number", "-1"},
        {"number", "1e300"},
        {"number", "9223372036854775807"},
        {"attempts", "\"1\""},
        {"attempts", "99999"},
        {"created_at", "-1"},
        {"finished_at", "[]"},
        {"settings", "[]"},
        {"settings", "{\"output\": \"/etc/passwd\"}"},
        {"settings", "{\"frames\": -1}"},
        {"settings", "{\"lora\": [\"../x\"]}"},
        {"inputs", "[\"../image\"]"},
        {"inputs", "{}"},
        {"files", "[]"},
        {"files", "null"},
        {"files", "[{\"file\": \"/etc/passwd\"}]"},
        {"files", "[{\"file\": \"content/../../../x\", \"seed\": 1, \"bytes\": 1}]"},
        {"files", "[{\"file\": \"job.json\", \"seed\": 1, \"bytes\": 1}]"},
        {"files", "[{\"file\": \"content.png\"}]"},
        {"made", "3"},
        {"notices", "null"},
        {"notices", "[\"a\", 3]"},
        {"error", "{}"},
        {"status", "\"queued\""}};
    static const char id[] = "0123456789abcdef0123456789abcdef",
                      path[] = "jobs/0123456789abcdef0123456789abcdef/job.json";
    write_text("jobs/0123456789abcdef0123456789abcdef/content.png", "x");
    write_format("good.json", good, id);
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        write_changed(path, "good.json", changed[i][0], changed[i][1]);
        reopen();
        if (sg_job_queue_get(queue, id)) fail_msg("%s: %s", changed[i][0], changed[i][1]);
        if (!strstr(said, "left alone") || !strstr(said, id)) fail_msg("%s: %s", changed[i][1], said);
        assert_int_equal(access(path, F_OK), 0);
    }
    for (const char *const *text = (const char *const[]){"", "[]", "{", "\xff", NULL}; *text; text++) {
        write_text(path, *text);
        reopen();
        assert_non_null(strstr(said, "left alone"));
    }
    write_format(path, good, id);
    reopen();
    expect_status(id, "completed");
    assert_string_equal(said, "");
}

/* Nothing is read, written or removed behind a link. */
static void links_are_not_followed(void **state)
{
    job_id id[4], none = "00112233445566778899aabbccddeeff";
    for (int i = 0; i < 4; i++) {
        add(id[i]);
        begin(id[i]);
        if (i < 3) complete(id[i], 5);
    }
    sg_job_queue_close(&queue);
    shell("mv jobs/%s folder && ln -s ../folder jobs/%s", id[0], id[0]);
    shell("mv jobs/%s/job.json . && ln -s ../../job.json jobs/%s/job.json", id[1], id[1]);
    shell("mv jobs/%s/content.png . && ln -s ../../content.png jobs/%s/content.png", id[2], id[2]);
    shell("ln -s ../../content.png jobs/%s/content.png", id[3]);
    shell("ln -s ../empty jobs/%s && mkdir empty && touch empty/file && cp -r folder before", none);
    open_limited(&usual);
    for (int i = 0; i < 2; i++) {
        assert_null(sg_job_queue_get(queue, id[i]));
        assert_non_null(strstr(said, id[i]));
    }
    expect_status(id[2], "failed");
    expect_status(id[3], "queued");
    shell("diff -r folder before && test -s job.json && test -s content.png && test -e empty/file && test -h "
          "jobs/%s/job.json",
          id[1]);
    shell("test ! -e jobs/%s/content.png", id[3]);
}

/* Jobs run in the order in which they came, whatever the clock said. */
static void a_clock_may_jump(void **state)
{
    job_id id[2];
    char   path[192];
    for (int i = 0; i < 2; i++) add(id[i]);
    sg_job_queue_close(&queue);
    snprintf(path, sizeof path, "jobs/%s/job.json", id[0]);
    shell("cp %s own.json", path);
    write_changed(path, "own.json", "created_at", "99999999999");
    open_limited(&usual);
    begin(id[0]);
    complete(id[0], 5);
    begin(id[1]);
}

/* ---- events ---- */

static void count_wake(void *context) { atomic_fetch_add((atomic_int *)context, 1); }

static void subscribers_see_the_newest(void **state)
{
    enum { STEPS = 100 };
    job_id       id, other;
    atomic_int   woken = 0;
    sg_job_event event;
    add(id);
    add(other);
    sg_job_subscriber *s = sg_job_events_subscribe(events, id, count_wake, &woken);
    assert_false(sg_job_events_next(s, &event));
    assert_true(sg_job_events_watched(events, id) && !sg_job_events_watched(events, other));
    begin(id);
    for (int i = 1; i <= STEPS; i++)
        sg_job_queue_progress(queue, id, &(sg_job_progress){SG_STAGE_DENOISE, i, STEPS, i, STEPS - i});
    complete(id, 5);
    assert_true(sg_job_queue_cancel(queue, other));
    assert_int_equal(atomic_load(&woken), STEPS + 2);
    assert_true(sg_job_events_next(s, &event) && event.kind == SG_JOB_EVENT_STATE);
    assert_true(sg_job_events_next(s, &event)); /* the newest alone */
    assert_int_equal(event.kind, SG_JOB_EVENT_PROGRESS);
    assert_int_equal(event.progress.done, STEPS);
    assert_false(sg_job_events_next(s, &event));
    sg_job_events_unsubscribe(&s);
    assert_null(s);
    sg_job_events_state(events, id);
    assert_int_equal(atomic_load(&woken), STEPS + 2);
}

static void expect_picture(sg_job_subscriber *s, int step, int frames, int width, int height, int first)
{
    sg_job_event event;
    sg_image     got;
    sg_error     e = {0};
    assert_true(sg_job_events_next(s, &event));
    assert_int_equal(event.kind, SG_JOB_EVENT_PREVIEW);
    assert_true(event.picture->step == step && event.picture->frames == frames);
    write_bytes("preview", event.picture->png, event.picture->bytes);
    sg_job_picture_drop(event.picture);
    assert_done(read_image(&got, "preview", &e), &e);
    assert_true(got.width == width && got.height == height);
    assert_int_equal(got.rgb[0], first);
    sg_image_close(&got);
}

static void previews_are_png(void **state)
{
    enum { FRAMES = 3, SIDE = 8 };
    uint8_t            rgb[FRAMES * SIDE * SIDE * 3];
    atomic_int         woken = 0;
    sg_job_subscriber *one = sg_job_events_subscribe(events, "a", count_wake, &woken);
    sg_job_subscriber *two = sg_job_events_subscribe(events, "a", count_wake, &woken);
    for (int step = 0; step < 3; step++) {
        memset(rgb, 10 + step, sizeof rgb);
        sg_job_events_preview(events, "a", step, rgb, FRAMES, SIDE, SIDE);
    }
    expect_picture(one, 2, FRAMES, FRAMES * SIDE, SIDE, 12);
    sg_job_events_preview(events, "a", 3, rgb, 1, SIDE, SIDE);
    expect_picture(two, 3, 1, SIDE, SIDE, 12);
    sg_job_events_unsubscribe(&one); /* with one that he did not take */
    sg_job_events_unsubscribe(&two);
}

/* ---- threads ---- */

static atomic_bool slow; /* the disk, until it may go on */
static sem_t       waits, may_go_on;

int fsync(int file)
{
    if (atomic_load(&slow)) {
        sem_post(&waits);
        sem_wait(&may_go_on);
    }
    return (int)syscall(SYS_fsync, file);
}

static void *begin_first(void *context)
{
    begin(context);
    return NULL;
}

static void who_looks_does_not_wait_for_the_disk(void **state)
{
    pthread_t worker;
    job_id    id;
    sem_init(&waits, 0, 0);
    sem_init(&may_go_on, 0, 0);
    add(id);
    atomic_store(&slow, true);
    assert_int_equal(pthread_create(&worker, NULL, begin_first, id), 0);
    sem_wait(&waits);
    expect_status(id, "queued");
    json_decref(sg_job_queue_list(queue, NULL, 5, true));
    assert_int_equal(sg_job_queue_counts(queue).kept[SG_JOB_QUEUED], 1);
    atomic_store(&slow, false);
    sem_post(&may_go_on);
    pthread_join(worker, NULL);
    expect_status(id, "in_progress");
}

enum { CLIENTS = 4, EACH = 25 };

static atomic_int over;

static void *ask(void *context)
{
    for (int i = 0; i < EACH; i++) {
        job_id       id;
        atomic_int   woken = 0;
        sg_job_event event;
        add(id);
        sg_job_subscriber *s = sg_job_events_subscribe(events, id, count_wake, &woken);
        if (i % 3 == 0) sg_job_queue_cancel(queue, id);
        if (i % 5 == 0) sg_job_queue_delete(queue, id);
        json_decref(sg_job_queue_get(queue, id));
        json_decref(sg_job_queue_list(queue, id, 5, i % 2));
        while (sg_job_events_next(s, &event))
            if (event.kind == SG_JOB_EVENT_PREVIEW) sg_job_picture_drop(event.picture);
        sg_job_events_unsubscribe(&s);
    }
    return NULL;
}

static void *work(void *context)
{
    const uint8_t rgb[3] = {1, 2, 3};
    sg_job        job;
    while (sg_job_queue_next(queue, &job)) {
        sg_job_queue_progress(queue, job.id, &(sg_job_progress){SG_STAGE_DENOISE, 1, 1, 0, 0});
        sg_job_events_preview(events, job.id, 0, rgb, 1, 1, 1);
        if (sg_job_queue_cancelled(queue, job.id))
            finish(job.id, SG_JOB_CANCELLED, NULL, 0);
        else
            complete(job.id, 10);
        sg_job_close(&job);
        atomic_fetch_add(&over, 1);
    }
    return NULL;
}

static void threads_share_a_queue(void **state)
{
    pthread_t client[CLIENTS], worker;
    sg_job_queue_close(&queue);
    open_limited(&(sg_job_limits){.queued = 1000, .kept = 10, .bytes = 1 << 20});
    assert_int_equal(pthread_create(&worker, NULL, work, NULL), 0);
    for (int i = 0; i < CLIENTS; i++) assert_int_equal(pthread_create(&client[i], NULL, ask, NULL), 0);
    for (int i = 0; i < CLIENTS; i++) pthread_join(client[i], NULL);
    sg_job_counts counts = sg_job_queue_counts(queue);
    for (; counts.kept[SG_JOB_QUEUED] + counts.kept[SG_JOB_IN_PROGRESS]; counts = sg_job_queue_counts(queue))
        usleep(1000);
    assert_int_equal(counts.ended[SG_JOB_COMPLETED] + counts.ended[SG_JOB_CANCELLED], CLIENTS * EACH);
    sg_job_queue_stop(queue);
    pthread_join(worker, NULL);
    assert_string_equal(said, "");
    json_t *const list = sg_job_queue_list(queue, NULL, 1000, false);
    assert_int_equal(json_array_size(json_object_get(list, "data")), 10);
    assert_int_equal(files_in("jobs"), 10 + 1);
    json_decref(list);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_queue, close_queue)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(jobs_run_in_order),
                                       TEST(lists_have_pages),
                                       TEST(jobs_are_cancelled_in_each_state),
                                       TEST(jobs_are_deleted_in_each_state),
                                       TEST(a_stop_leaves_the_queue),
                                       TEST(limits_are_kept),
                                       TEST(a_full_disk_takes_no_job),
                                       TEST(a_folder_has_one_server),
                                       TEST(jobs_survive),
                                       TEST(what_was_ended_stays_so),
                                       TEST(the_largest_jobs_are_read_again),
                                       TEST(links_are_not_followed),
                                       TEST(a_clock_may_jump),
                                       TEST(kills_lose_nothing),
                                       TEST(hostile_jobs_are_left_alone),
                                       TEST(subscribers_see_the_newest),
                                       TEST(previews_are_png),
                                       TEST(who_looks_does_not_wait_for_the_disk),
                                       TEST(threads_share_a_queue)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
