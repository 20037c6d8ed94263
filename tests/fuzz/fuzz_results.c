/* fuzz_results.c - any bytes as the results of an evaluation; what is taken lies in order, each clip once, and no path leaves
 * the folder; its figures lie within their intervals. */
#include "eval_summary.h"
#include "expect.h"
#include "input_file.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/sg_fuzz_folder_XXXXXX", name[64];

static void remove_folder(void)
{
    unlink(name);
    rmdir(folder);
}

/* The folder in which data is results.jsonl. */
static const char *input_folder(const uint8_t *data, size_t size)
{
    const char *const file = input_file(data, size);
    if (*name) return folder;
    expect(mkdtemp(folder) != NULL);
    snprintf(name, sizeof name, "%s/results.jsonl", folder);
    expect(symlink(file, name) == 0);
    atexit(remove_folder);
    return folder;
}

static bool known(double v) { return !isnan(v); }

static void expect_sound(const sg_eval_results *r)
{
    for (int i = 0; i < r->count; i++) {
        const sg_eval_clip *const c = &r->clip[i];
        expect(sg_eval_results_find(r, c->prompt, c->clip, c->arm) == i);
        expect(c->name && c->text && (c->file || !c->done) && (!c->file || sg_eval_path_stays(c->file)));
        expect(!c->picture || sg_eval_path_stays(c->picture));
        for (int k = 0; k < SG_IMAGES; k++)
            expect(!c->image[k].file || (c->image[k].hash && sg_eval_path_stays(c->image[k].picture)));
        expect(!c->video.file || c->video.hash);
        expect(!known(c->strength) || (c->strength >= 0 && c->strength <= 1));
        expect(json_array_size(c->groups) <= SG_EVAL_GROUPS);
        expect(!known(c->density) || (c->density >= 0 && c->density <= 1));
        expect(!c->done || c->seconds.own >= 0);
    }
}

static void expect_figures(const sg_eval_results *r)
{
    enum { ARMS = 2 }; /* others are passed over */
    sg_eval_summary s;
    sg_error        e = {0};
    if (sg_eval_summary_make(&s, r, ARMS, &e) == SG_OK) {
        for (int i = 0; i < ARMS * s.groups; i++) {
            const sg_eval_row *const row = &s.row[i];
            expect(row->prompts <= row->done && row->paired <= row->done && row->identical <= row->done);
            for (int m = 0; m < s.columns; m++) {
                const sg_interval *const v = &row->measure[m];
                expect(known(v->low) == known(v->high) && (!known(v->low) || row->prompts >= 2));
                if (!known(v->low)) continue;
                expect(v->low <= v->high);
                if (known(v->mean))
                    expect(v->low <= v->mean && v->mean <= v->high);
                else
                    expect(s.column[m].kind == SG_EVAL_SPEEDUP && v->low <= 1.005 &&
                           v->high >= 0.995); /* no speed-up within the noise */
            }
        }
    } else {
        expect(*e.text);
    }
    sg_eval_summary_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sg_eval_results r;
    sg_error        e = {0};
    if (sg_eval_results_open(&r, input_folder(data, size), &e) == SG_OK) {
        expect(!*e.text);
        expect_sound(&r);
        expect_figures(&r);
    } else {
        expect(e.code != SG_OK && *e.text);
    }
    sg_eval_results_close(&r);
    return 0;
}
