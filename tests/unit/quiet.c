/* quiet.c - what the shared library does to its process: nothing. Renders, writes, and fails in many ways; then stdout
 * and stderr have got no byte, and handlers of signals, the environment and OpenMP's threads are as they were.
 * usage: quiet MODEL [BACKEND], in a folder of its own */
#include <spargegen/spargegen.h>

#include <fcntl.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 64, FRAMES = 5, THREADS = 3, TOLD = 3 };

extern char **environ;

static FILE *err; /* what was stderr */
static int   faults;

static void expect(bool ok, const char *what)
{
    if (!ok) fprintf(err, "quiet: %s\n", what);
    faults += !ok;
}

/* ---- the process ---- */

typedef struct process {
    void (*handler[NSIG])(int);
    int  flags[NSIG];
    int  threads;
    char variables[1 << 16];
} process;

static void look(process *p)
{
    size_t n = 0;
    memset(p, 0, sizeof *p);
    for (int i = 1; i < NSIG; i++) {
        struct sigaction a;
        if (sigaction(i, NULL, &a) != 0) continue;
        p->handler[i] = a.sa_handler;
        p->flags[i] = a.sa_flags;
    }
    for (char **v = environ; *v; v++)
        n += (size_t)snprintf(p->variables + n, n < sizeof p->variables ? sizeof p->variables - n : 0, "%s\n", *v);
    expect(n < sizeof p->variables, "the environment is too large for this test");
    p->threads = omp_get_max_threads();
}

/* Sends a descriptor into a file. */
static void redirect(int descriptor, const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    expect(fd >= 0 && dup2(fd, descriptor) == descriptor && close(fd) == 0, path);
}

static void expect_empty(const char *path)
{
    char        text[4096];
    FILE *const f = fopen(path, "r");
    for (size_t n; f && (n = fread(text, 1, sizeof text, f)) > 0; faults++)
        fprintf(err, "quiet: %s: %.*s\n", path, (int)n, text);
    expect(f && fclose(f) == 0, path);
}

/* ---- what works ---- */

static sg_clip clip_of(const sg_request *r, const char *path)
{
    sg_clip clip = {.size = sizeof clip};
    sg_clip_of(&clip, r, path);
    clip.settings = "{}";
    return clip;
}

/* Each frame goes to the file of every format of this build. */
static const char *const names[] = {"a.y4m", "a.mp4", "a.mkv", "a.webp", "a-%d.png"};
enum { NAMES = sizeof names / sizeof *names };

typedef struct film {
    sg_writer *writer[NAMES];
    int        frames;
} film;

static sg_status take_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    film *const f = context;
    sg_status   status = SG_OK;
    for (int i = 0; i < NAMES && status == SG_OK; i++)
        if (f->writer[i]) status = sg_writer_write(f->writer[i], index, rgb, e);
    f->frames++;
    return status;
}

static void render(sg_engine *engine, const sg_request *r)
{
    film               f = {0};
    sg_error           e = {0};
    const sg_callbacks cb = {.size = sizeof cb, .context = &f, .frame = take_frame};
    for (int i = 0; i < NAMES; i++) {
        const sg_clip clip = clip_of(r, names[i]);
        (void)!sg_writer_open(&f.writer[i], &clip, NULL); /* NULL where FFmpeg is missing or lacks the format */
    }
    expect(f.writer[0] != NULL, "no Y4M");
    expect(sg_engine_render(engine, r, &cb, NULL, &e) == SG_OK && f.frames == r->frames, e.text);
    for (int i = 0; i < NAMES; i++) {
        if (f.writer[i]) expect(sg_writer_finish(f.writer[i], &e) == SG_OK, e.text);
        sg_writer_close(&f.writer[i]);
    }
}

/* ---- what fails ---- */

#define REFUSED(call)                                                                                                  \
    do {                                                                                                               \
        sg_error e = {0};                                                                                              \
        expect((call) != SG_OK && *e.text, #call);                                                                     \
    } while (0)

static void fail_to_open(const char *path, const char *backend)
{
    sg_engine              *engine = NULL;
    const sg_engine_options o = {.size = sizeof o, .model_dir = path, .backend = backend};
    REFUSED(sg_engine_open(&engine, &o, &e));
}

/* A file that begins so and breaks off. */
static void fail_to_read(const char *path, const char *bytes, size_t n)
{
    char       *settings = NULL;
    FILE *const f = fopen(path, "wb");
    expect(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, path);
    REFUSED(sg_writer_read_settings(path, &settings, &e));
    fail_to_open(path, NULL);
}

static void fail_to_write(const sg_request *r, const char *path)
{
    const sg_clip clip = clip_of(r, path);
    sg_writer    *writer = NULL;
    REFUSED(sg_writer_open(&writer, &clip, &e));
}

static sg_status refuse_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    (void)context, (void)index, (void)rgb;
    return sg_error_set(e, SG_E_FILE, "no room");
}

static void fail_to_render(sg_engine *engine, const sg_request *good)
{
    const sg_callbacks cb = {.size = sizeof cb, .frame = refuse_frame};
    sg_request         r = *good;
    REFUSED(sg_engine_render(engine, &r, &cb, NULL, &e));
    sg_engine_cancel(engine, true);
    REFUSED(sg_engine_render(engine, &r, NULL, NULL, &e));
    r.width = 7;
    REFUSED(sg_engine_render(engine, &r, NULL, NULL, &e));
    r = *good;
    r.latents_in = "a.y4m";
    REFUSED(sg_engine_render(engine, &r, NULL, NULL, &e));
    r = *good;
    r.latents_out = "no/such/folder/l.safetensors";
    REFUSED(sg_engine_render(engine, &r, NULL, NULL, &e));
    r = *good;
    r.attention.thresholds = "a.y4m";
    REFUSED(sg_engine_render(engine, &r, NULL, NULL, &e));
}

static void fail(sg_engine *engine, const sg_request *r)
{
    static const char png[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\0\0\0\0",
                      jpeg[] = "\xff\xd8\xff\xe0\0\x10JFIF";
    static const char mp4[] = "\0\0\0\x20"
                              "ftypisom\0\0\2\0\0\0\0\x10moov\0\0",
                      webp[] = "RIFF\x40\0\0\0WEBPVP8 \xff";
    sg_attention_context *context = NULL;
    fail_to_open("nowhere", NULL);
    fail_to_open("nowhere", "abacus");
    fail_to_read("b.png", png, sizeof png);
    fail_to_read("b.jpg", jpeg, sizeof jpeg);
    fail_to_read("b.mp4", mp4, sizeof mp4);
    fail_to_read("b.mkv", "\x1a\x45\xdf\xa3\x80", 5);
    fail_to_read("b.webp", webp, sizeof webp);
    fail_to_read("b.gguf", "GGUF\3\0\0\0\xff\xff", 10);
    fail_to_read("b.safetensors", "\x10\0\0\0\0\0\0\0{\"a\":", 13);
    fail_to_write(r, "a.gif");
    fail_to_write(r, "a.jpg");
    fail_to_write(r, "no/such/folder/a.mp4");
    fail_to_write(r, "-");
    fail_to_render(engine, r);
    REFUSED(sg_attention_context_open(&context, &(sg_attention_options){.backend = "abacus"}, &e));
    expect(sg_attention_context_open(&context, NULL, NULL) == SG_OK, "attention");
    REFUSED(sg_attention_call(context, &(sg_attention_call_args){.heads = -1}, NULL, &e));
    sg_attention_context_close(&context);
}

static void work(const char *model, const char *backend)
{
    sg_error                e = {0};
    sg_engine              *engine = NULL;
    sg_request              r = {.size = sizeof r};
    const sg_engine_options o = {.size = sizeof o, .model_dir = model, .backend = backend, .threads = THREADS - 1};
    expect(sg_engine_open(&engine, &o, &e) == SG_OK, e.text);
    if (!engine) return;
    sg_engine_defaults(engine, &r);
    r.prompt = "a red ball";
    r.width = r.height = SIDE;
    r.frames = FRAMES;
    r.steps = 2;
    render(engine, &r);
    fail(engine, &r);
    render(engine, &r);
    sg_engine_close(&engine);
}

int main(int argc, char **argv)
{
    static process before, after;
    const int      copy = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, TOLD);
    if (argc < 2 || !(err = fdopen(copy, "w"))) return 2;
    omp_set_num_threads(THREADS);
    redirect(STDOUT_FILENO, "stdout");
    redirect(STDERR_FILENO, "stderr");
    look(&before);
    for (int i = 1; i < NSIG; i++)
        expect(before.handler[i] == SIG_DFL || before.handler[i] == SIG_IGN, "it caught a signal when it was loaded");
    work(argv[1], argc > 2 ? argv[2] : NULL);
    look(&after);
    for (int i = 1; i < NSIG; i++)
        expect(after.handler[i] == before.handler[i] && after.flags[i] == before.flags[i], strsignal(i));
    expect(strcmp(after.variables, before.variables) == 0, "the environment is another one");
    expect(after.threads == before.threads, "the calling thread has another number of OpenMP's threads");
    fflush(NULL);
    expect_empty("stdout");
    expect_empty("stderr");
    return faults != 0;
}
