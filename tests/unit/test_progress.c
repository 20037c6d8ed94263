/* test_progress.c - the changing line of a terminal: bar, estimates, stages that are over, widths; by a clock of its own. */
#include "progress.h"
#include "unit.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <termios.h>

static int         terminal, own_stderr;
static sg_progress p;
static char        got[65536];
static size_t      length;
static atomic_int  tenths; /* of a second */

static double now(void) { return atomic_load(&tenths) / 10.0; }

static void pass(int n) { atomic_fetch_add(&tenths, n); }

/* stderr becomes a terminal of so many columns. */
static int open_terminal(int columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) return -1;
    const char *const name = ptsname(terminal);
    const int         line = name ? open(name, O_RDWR | O_NOCTTY) : -1;
    struct termios    raw;
    if (line < 0 || tcgetattr(line, &raw) != 0) return -1;
    raw.c_oflag &= ~(tcflag_t)OPOST;
    if (tcsetattr(line, TCSANOW, &raw) != 0 || ioctl(line, TIOCSWINSZ, &size) != 0) return -1;
    own_stderr = dup(STDERR_FILENO);
    dup2(line, STDERR_FILENO);
    close(line);
    setenv("TERM", "xterm", 1);
    fcntl(terminal, F_SETFL, O_NONBLOCK);
    sg_progress_init(&p, false);
    p.clock = now;
    p.tick_ms = 0;
    atomic_store(&tenths, 10);
    length = 0;
    return 0;
}

static int usual(void **state) { return open_terminal(100); }

static int narrow(void **state) { return open_terminal(38); }

static int unknown_width(void **state)
{
    setenv("COLUMNS", "22", 1);
    return open_terminal(0);
}

static int close_terminal(void **state)
{
    sg_progress_clear(&p);
    dup2(own_stderr, STDERR_FILENO);
    close(own_stderr);
    close(terminal);
    unsetenv("COLUMNS");
    unsetenv("TERM");
    return 0;
}

/* What was written since the last time. */
static const char *written(void)
{
    ssize_t n;
    length = 0;
    while ((n = read(terminal, got + length, sizeof got - 1 - length)) > 0) length += (size_t)n;
    got[length] = '\0';
    return got;
}

/* The line as it is left after these units. */
static void expect(int stage, int done, int total, const char *line)
{
    char whole[300];
    written();
    sg_progress_update(&p, stage, done, total);
    snprintf(whole, sizeof whole, "\r%s\033[K", line);
    assert_string_equal(written(), whole);
}

static void expect_sum(int stage, int total, bool again, const char *line)
{
    char whole[300];
    written();
    sg_progress_update(&p, stage, total, total);
    snprintf(whole, sizeof whole, "\r\033[K%s%s\033[K\n", again ? "\033[A\r" : "", line);
    assert_string_equal(written(), whole);
}

/* The first step takes 5 seconds, the others 1: it is not taken for what the rest will take. */
static void a_render_is_shown(void **state)
{
    sg_plan plan = {.phase = {{.stage = SG_STAGE_DENOISE, .flops = 4}, {.stage = SG_STAGE_DECODE, .flops = 2}},
                    .phases = 2};
    sg_progress_render(&p, 0, 1, &plan);
    expect(SG_STAGE_LOAD, 0, 1, "loading 0/1 [------------------------] for 0.0 s");
    pass(4);
    expect_sum(SG_STAGE_LOAD, 3, false, "load 0.4 s");
    expect(SG_STAGE_TEXT, 0, 1, "reading the prompt 0/1 [------------------------] for 0.0 s");
    pass(3);
    expect_sum(SG_STAGE_TEXT, 1, true, "load 0.4 s, text 0.3 s");
    expect(SG_STAGE_DENOISE, 0, 4, "denoising 0/4 [------------------------] step 1 for 0.0 s");
    pass(50);
    /* 15 s of steps, half as much of decoding */
    expect(SG_STAGE_DENOISE, 1, 4, "denoising 1/4 [######------------------] 5 s/step, 25.0 s left");
    pass(10);
    expect(SG_STAGE_DENOISE, 2, 4, "denoising 2/4 [############------------] 1 s/step, 6.0 s left");
    pass(10);
    expect(SG_STAGE_DENOISE, 3, 4, "denoising 3/4 [##################------] 1 s/step, 5.0 s left");
    pass(10);
    expect_sum(SG_STAGE_DENOISE, 4, true, "load 0.4 s, text 0.3 s, denoise 4 steps 8.0 s");
    expect(SG_STAGE_DECODE, 0, 3, "decoding 0/3 [------------------------] for 0.0 s, 4.0 s left");
    pass(5);
    expect(SG_STAGE_DECODE, 1, 3, "decoding 1/3 [########----------------] 3.5 s left");
    pass(15);
    expect(SG_STAGE_DECODE, 2, 3, "decoding 2/3 [################--------] 1.5 s left");
    pass(15);
    expect_sum(SG_STAGE_DECODE, 3, true, "load 0.4 s, text 0.3 s, denoise 4 steps 8.0 s, decode 3.5 s");
    sg_progress_say(&p, "done");
    assert_string_equal(written(), "done\n");
}

static void a_job_has_an_estimate(void **state)
{
    sg_progress_render(&p, 0, 3, NULL);
    expect(SG_STAGE_DENOISE, 0, 2, "denoising 0/2 [------------------------] step 1 for 0.0 s");
    pass(20);
    /* 2 s of this one, 4 s of each of the others */
    expect(SG_STAGE_DENOISE, 1, 2, "denoising 1/2 [############------------] 2 s/step, 10.0 s left of all 3");
    pass(20);
    expect_sum(SG_STAGE_DENOISE, 2, false, "denoise 2 steps 4.0 s");
    expect(SG_STAGE_DECODE, 0, 1, "decoding 0/1 [------------------------] for 0.0 s");
    pass(20);
    expect_sum(SG_STAGE_DECODE, 1, true, "denoise 2 steps 4.0 s, decode 2.0 s");
    sg_progress_clear(&p);
    sg_progress_render(&p, 1, 3, NULL);
    expect(SG_STAGE_DENOISE, 0, 2, "denoising 0/2 [------------------------] step 1 for 0.0 s, 12.0 s left of all 3");
    pass(10);
    expect(SG_STAGE_DENOISE, 1, 2, "denoising 1/2 [############------------] 1 s/step, 9.0 s left of all 3");
    sg_progress_clear(&p);
    sg_progress_render(&p, 0, 0, NULL); /* belongs to none */
    expect(SG_STAGE_DENOISE, 0, 2, "denoising 0/2 [------------------------] step 1 for 0.0 s, 6.0 s left");
}

/* Without a plan a latent frame has to do as the measure. */
static void decoding_alone_has_an_estimate(void **state)
{
    sg_progress_render(&p, 0, 1, NULL);
    sg_progress_update(&p, SG_STAGE_DECODE, 0, 3);
    pass(10);
    expect(SG_STAGE_DECODE, 1, 3, "decoding 1/3 [########----------------] 2.0 s left");
}

/* Until the first step is over the line is drawn anew, by itself. */
static void time_goes_by_in_the_first_step(void **state)
{
    sg_progress_render(&p, 0, 1, NULL);
    p.tick_ms = 250;
    sg_progress_update(&p, SG_STAGE_DENOISE, 0, 2);
    pass(73);
    for (int i = 0; !strstr(written(), "step 1 for 7.3 s"); i++) {
        assert_true(i < 6000);
        usleep(10000);
    }
}

/* Columns from the last carriage return or newline on; none reaches the last one of the terminal. */
static void expect_narrow(int columns)
{
    int at = 0;
    for (const char *c = written(); *c; c++) {
        if (*c == '\033') {
            c += 2; /* as in ESC [ K */
            continue;
        }
        at = *c == '\r' || *c == '\n' ? 0 : at + 1;
        if (at >= columns) fail_msg("wraps: %s", got);
    }
    assert_true(length > 0);
}

static void render_all(int columns)
{
    sg_progress_render(&p, 0, 2, NULL);
    for (int stage = 0; stage < SG_STAGES; stage++)
        for (int i = 0; i <= 3; i++) {
            sg_progress_update(&p, stage, i, 3);
            pass(10);
            expect_narrow(columns);
        }
}

static void narrow_lines_do_not_wrap(void **state)
{
    sg_progress_render(&p, 0, 1, NULL);
    expect(SG_STAGE_DENOISE, 0, 2, "denoising 0/2, step 1 for 0.0 s");
    pass(10);
    expect(SG_STAGE_DENOISE, 1, 2, "denoising 1/2, 1 s/step, 1.0 s left");
    render_all(38);
}

static void columns_count_where_the_terminal_has_none(void **state) { render_all(22); }

static void a_row_has_no_bar_and_no_sum(void **state)
{
    sg_progress_row(&p, "1/4 clips");
    expect(SG_STAGE_DENOISE, 0, 2, "1/4 clips | denoising 0/2, step 1 for 0.0 s");
    pass(10);
    expect(SG_STAGE_DENOISE, 1, 2, "1/4 clips | denoising 1/2, 1 s/step");
    pass(5);
    expect(SG_STAGE_DENOISE, 2, 2, "1/4 clips | denoising 2/2, 0.5 s/step");
}

static void quiet_says_nothing(void **state)
{
    sg_progress_init(&p, true);
    sg_progress_render(&p, 0, 1, NULL);
    sg_progress_update(&p, SG_STAGE_DENOISE, 0, 2);
    sg_progress_update(&p, SG_STAGE_DENOISE, 2, 2);
    sg_progress_say(&p, "done");
    assert_string_equal(written(), "");
}

/* Ends a command in which a warning was said, then after some tenths of a second so many lines. */
static const char *ended_after(int tenths_later, int lines)
{
    sg_progress_warn(&p, "--size %d: %d", 39, 32);
    sg_progress_warn(&p, "twice");
    pass(tenths_later);
    for (int i = 1; i < lines; i++) sg_progress_say(&p, "a line");
    written();
    sg_progress_end(&p);
    return written();
}

static void warnings_far_up_are_repeated(void **state)
{
    static const char again[] = "warnings, once more:\n--size 39: 32\ntwice\n";
    assert_string_equal(ended_after(599, 1), "");
    assert_string_equal(ended_after(600, 1), again);
    assert_string_equal(ended_after(0, 23), "");
    assert_string_equal(ended_after(0, 24), again);
    sg_progress_say(&p, "no warning");
    pass(1000);
    written();
    sg_progress_end(&p);
    assert_string_equal(written(), "");
    p.quiet = true;
    assert_string_equal(ended_after(1000, 100), "");
}

#define ON(test, how) cmocka_unit_test_setup_teardown(test, how, close_terminal)

enum { SKIPPED = 77 }; /* to CTest */

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON(a_render_is_shown, usual),
        ON(a_job_has_an_estimate, usual),
        ON(decoding_alone_has_an_estimate, usual),
        ON(time_goes_by_in_the_first_step, usual),
        ON(narrow_lines_do_not_wrap, narrow),
        ON(columns_count_where_the_terminal_has_none, unknown_width),
        ON(a_row_has_no_bar_and_no_sum, usual),
        ON(quiet_says_nothing, usual),
        ON(warnings_far_up_are_repeated, usual),
    };
    const int any = posix_openpt(O_RDWR | O_NOCTTY); /* a bare container may have no /dev/pts */
    if (any < 0) return SKIPPED;
    close(any);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
