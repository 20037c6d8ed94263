/* render.c - a prompt becomes a video, with a line of progress; Ctrl-C ends it, and no file is left.
 * cc render.c -o render $(pkg-config --cflags --libs spargegen) && ./render MODEL-FOLDER "a red ball" ball.mp4 */
#include <signal.h>
#include <spargegen/spargegen.h>
#include <stdio.h>

static sg_engine *engine; /* where the handler finds it */

static void on_interrupt(int number) { (void)number, sg_engine_cancel(engine, true); }

static int on_progress(void *writer, int stage, int done, int total)
{
    (void)writer;
    return fprintf(stderr, "\r%-7s %3d of %3d", sg_names("stage")[stage], done, total) < 0;
}
static sg_status on_frame(void *w, int i, const uint8_t *rgb, sg_error *e) { return sg_writer_write(w, i, rgb, e); }

int main(int argc, char **argv)
{
    if (argc != 4) return fprintf(stderr, "usage: render MODEL-FOLDER PROMPT FILE.mp4\n"), 2;
    sg_error          e = {0};
    sg_engine_options o = {.size = sizeof o, .model_dir = argv[1]};
    if (sg_engine_open(&engine, &o, &e)) return fprintf(stderr, "%s\n", e.text), 1;
    signal(SIGINT, on_interrupt);
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(engine, &r);
    r.prompt = argv[2];
    sg_clip clip = {.size = sizeof clip};
    sg_clip_of(&clip, &r, argv[3]);
    sg_writer   *writer = NULL;
    sg_status    status = sg_writer_open(&writer, &clip, &e);
    sg_callbacks cb = {.size = sizeof cb, .context = writer, .progress = on_progress, .frame = on_frame};
    if (!status) status = sg_engine_render(engine, &r, &cb, NULL, &e);
    if (!status) status = sg_writer_finish(writer, &e);
    fprintf(stderr, "\n%s\n", status ? e.text : sg_writer_file(writer, 0));
    signal(SIGINT, SIG_DFL);
    sg_writer_close(&writer);
    sg_engine_close(&engine);
    return status != SG_OK;
}
