/* aa.c - how often `eval` states a difference in time: in sets of arms that are equal, and in sets where one is 5 % faster.
 *
 *   aa record DIR NAME          prints what an evaluation of equal arms took: a line for each render, in the order of time
 *   aa simulate FILE SETS       makes so many sets for each row of a table from such lines; exit code 1 where the table says FAIL
 *
 * A set is PROMPTS units of 2 or 4 arms. Each unit's renders are as many successive ones of the record from a random place on,
 * so what neighbours have in common they keep; eval's own order deals them to the arms (eval_order.h), and eval's own code reads
 * the lines and decides (eval_results.h, eval_summary.h). On top of the record:
 *
 *   drift     the whole set, by up to 30 % up or down, evenly or soon at its end
 *   periods   of a load that takes 10 to 50 % of the speed for a part of each period, which is 0.5 to 8 renders long
 *   bursts    of the same, at random: 0.5 to 8 renders without and with it, on average
 *   first     the first render of a unit takes 2 to 15 % longer than the others */
#include "eval_order.h"
#include "eval_results.h"
#include "eval_summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPTS = 20, QUIET = 40, RECORDS = 8, RENDERS = 4096, LINE = 512 };

typedef struct render {
    double denoise, rest;
} render;

typedef struct record {
    char   name[32];
    int    count;
    render at[RENDERS];
} record;

/* ---- chance ---- */

static uint64_t state;

static double even(double lo, double hi) /* SplitMix64 */
{
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return lo + (hi - lo) * (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* ---- a machine that does other things ---- */

typedef enum kind { AS_RECORDED, DRIFT, PERIODS, BURSTS, FIRST, KINDS } kind;
static const char *const kinds[] = {"as recorded", "drift", "periods", "bursts", "first"};

/* A load comes and goes: it is on or off until `until`, off for lasts[0] and on for lasts[1], or on average. A unit's first render
 * takes `first` times as long. */
typedef struct machine {
    kind   kind;
    double clock, until, slower, lasts[2];
    bool   on;
    double drift, bend, whole; /* seconds of the set */
    double first;
} machine;

static double lasting(const machine *m)
{
    return m->kind == BURSTS ? -log(1 - even(0, 1)) * m->lasts[m->on] : m->lasts[m->on];
}

static machine start(kind k, double render_seconds, int renders)
{
    machine      m = {.kind = k, .whole = render_seconds * renders};
    const double period = render_seconds * exp(even(log(0.5), log(8))), part = even(0.2, 0.8);
    m.slower = 1 / (1 - even(0.1, 0.5));
    m.drift = even(-0.3, 0.3);
    m.bend = even(0.2, 1);
    m.lasts[0] = k == BURSTS ? period : period * (1 - part);
    m.lasts[1] = k == BURSTS ? render_seconds * exp(even(log(0.5), log(8))) : period * part;
    m.until = k == PERIODS || k == BURSTS ? even(0, 1) * lasting(&m) : INFINITY;
    m.first = k == FIRST ? even(1.02, 1.15) : 1;
    return m;
}

/* Seconds that so many of an idle machine become. */
static double take(machine *m, double work)
{
    const double begun = m->clock;
    if (m->kind == DRIFT) work *= exp(m->drift * pow(fmin(m->clock / m->whole, 1), m->bend));
    for (;;) {
        const double slower = m->on ? m->slower : 1, left = m->until - m->clock;
        if (work * slower <= left) {
            m->clock += work * slower;
            return m->clock - begun;
        }
        m->clock = m->until;
        work -= left / slower;
        m->on = !m->on;
        m->until += lasting(m);
    }
}

/* ---- a set ---- */

/* What arm 1 is: as the others, 5 % faster, all of it in denoising, or with denoising that is 5 % faster. */
typedef enum truth { EQUAL, FASTER_CLIP, FASTER_DENOISING, TRUTHS } truth;

/* By eval's reader. */
static void make_clip(sg_eval_clip *c, machine *m, const render *r, int prompt, int arm, truth is)
{
    char         text[LINE];
    sg_error     e = {0};
    const double of = is == EQUAL || arm != 1 ? 0 : r->denoise + (is == FASTER_CLIP ? r->rest : 0);
    const double denoise = take(m, r->denoise - of * (1 - 1 / 1.05)), rest = take(m, r->rest);
    const int    n = snprintf(text, sizeof text,
                              "{\"version\":2,\"arm\":\"x\",\"arm_index\":%d,\"prompt\":%d,\"clip\":0,\"status\":\"done\","
                                 "\"text\":\"t\",\"file\":\"f\",\"seconds\":{\"total\":%.17g,\"denoise\":%.17g}}",
                              arm, prompt, denoise + rest, denoise);
    if (sg_eval_line_read(c, text, (size_t)n, "simulated", 1, &e) != SG_OK) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
}

/* Is a difference of any arm stated? Is arm 1 said to be faster, as a clip or in denoising? noise is the standard deviation of the
 * logarithm of its pairs' ratios. */
typedef struct finding {
    bool   stated, found;
    double noise;
} finding;

static finding judge(const sg_eval_results *r, int arms, truth is)
{
    sg_eval_summary s;
    sg_error        e = {0};
    finding         f = {0};
    sg_running      pairs = {0};
    if (sg_eval_summary_make(&s, r, arms, &e) != SG_OK) exit(1);
    for (int k = 1; k < arms; k++) {
        const double clip = sg_eval_summary_find(&s, k, 0, "speedup")->mean;
        const double denoise = sg_eval_summary_find(&s, k, 0, "denoiser_speedup")->mean;
        f.stated = f.stated || !isnan(clip) || !isnan(denoise);
        f.found = f.found || (k == 1 && (is == FASTER_DENOISING ? denoise : clip) > 1);
    }
    for (int p = 0; p < PROMPTS; p++) {
        const sg_eval_seconds *const a = &r->clip[p * arms].seconds, *const b = &r->clip[p * arms + 1].seconds;
        sg_running_add(&pairs, is == FASTER_DENOISING ? log(a->denoise / b->denoise) : log(a->own / b->own));
    }
    f.noise = sqrt(pairs.squares / (PROMPTS - 1));
    sg_eval_summary_close(&s);
    return f;
}

static finding try_set(const record *from, kind k, int arms, truth is)
{
    static sg_eval_clip clip[PROMPTS * SG_ARMS_MAX];
    double              mean = 0;
    for (int i = 0; i < from->count; i++) mean += (from->at[i].denoise + from->at[i].rest) / from->count;
    machine m = start(k, mean, PROMPTS * arms);
    for (int p = 0; p < PROMPTS; p++) {
        int       order[SG_ARMS_MAX];
        const int first = (int)even(0, from->count - arms + 1);
        sg_eval_order(order, arms, p);
        for (int i = 0; i < arms; i++) {
            const double longer = i ? 1 : m.first;
            const render r = {longer * from->at[first + i].denoise, longer * from->at[first + i].rest};
            make_clip(&clip[p * arms + order[i]], &m, &r, p, order[i], is);
        }
    }
    const sg_eval_results r = {.count = PROMPTS * arms, .clip = clip};
    const finding         f = judge(&r, arms, is);
    for (int i = 0; i < r.count; i++) sg_eval_clip_free(&clip[i]);
    return f;
}

/* ---- the table ---- */

/* A row of the table, of so many sets; false: a bound is passed. Of fewer than 1,000 sets chance may add three standard
 * deviations; of fewer than 40 quiet ones nothing is demanded. */
static bool try_row(const record *from, kind k, int arms, int sets)
{
    const double most = 0.06, least = 0.9, quiet = 0.05;
    double       noise[TRUTHS] = {0};
    int          stated = 0, found[TRUTHS] = {0}, of[TRUTHS] = {0};
    state = 100 * (uint64_t)k + (uint64_t)arms;
    for (truth is = EQUAL; is < TRUTHS; is++)
        for (int i = 0; i < sets; i++) {
            const finding f = try_set(from, k, arms, is);
            noise[is] += 100 * f.noise / sets;
            stated += is == EQUAL && f.stated;
            of[is] += f.noise <= quiet;
            found[is] += f.noise <= quiet && f.found;
        }
    bool holds = stated <= most * sets + (sets < 1000 ? 3 * sqrt(most * (1 - most) * sets) : 0);
    printf("%-7s %-11s %4d %11.1f %%", from->name, kinds[k], arms, 100.0 * stated / sets);
    for (truth is = FASTER_CLIP; is < TRUTHS; is++) {
        holds = holds && (of[is] < QUIET || found[is] >= least * of[is]);
        printf(" %7.1f %% %5d", noise[is], of[is]);
        if (of[is] < QUIET)
            printf("       -");
        else
            printf(" %5.1f %%", 100.0 * found[is] / of[is]);
    }
    printf("%s\n", holds ? "" : "  FAIL");
    return holds;
}

static int simulate(const char *path, int sets)
{
    static record list[RECORDS];
    int           records = 0;
    char          line[LINE], name[32];
    render        r;
    bool          holds = true;
    FILE *const   f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (*line == '#' || sscanf(line, "%31s %lf %lf", name, &r.denoise, &r.rest) != 3) continue;
        int i = 0;
        while (i < records && strcmp(list[i].name, name) != 0) i++;
        if (i == records && records < RECORDS) strcpy(list[records++].name, name);
        if (i < records && list[i].count < RENDERS) list[i].at[list[i].count++] = r;
    }
    if (f) fclose(f);
    if (!records || sets < 1) {
        fprintf(stderr, "aa: no renders in %s\n", path);
        return 2;
    }
    printf("%d sets of %d prompts a row: noise of a pair on average, in how many sets it is 5 %% at most, what is "
           "found in these\n"
           "record  load        arms equal: stated     clip 5 %% faster       denoising 5 %% faster\n",
           sets, PROMPTS);
    for (int i = 0; i < records; i++)
        for (kind k = 0; k < KINDS; k++)
            for (int arms = 2; arms <= 4; arms += 2) holds = try_row(&list[i], k, arms, sets) && holds;
    return !holds;
}

/* ---- recording ---- */

static int print_record(const char *folder, const char *name)
{
    sg_eval_results r;
    sg_error        e = {0};
    int             arms = 0;
    if (sg_eval_results_open(&r, folder, &e) != SG_OK || !r.count) {
        fprintf(stderr, "aa: %s\n", e.text);
        return 1;
    }
    for (int i = 0; i < r.count; i++) arms = r.clip[i].arm >= arms ? r.clip[i].arm + 1 : arms;
    for (int unit = 0; unit <= r.clip[r.count - 1].prompt; unit++) {
        int order[SG_ARMS_MAX];
        sg_eval_order(order, arms, unit);
        for (int i = 0; i < arms; i++) {
            const int at = sg_eval_results_find(&r, unit, 0, order[i]);
            if (at < 0) continue;
            const sg_eval_seconds *const s = &r.clip[at].seconds;
            printf("%s %.6f %.6f\n", name, s->denoise, s->own - s->denoise);
        }
    }
    sg_eval_results_close(&r);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "record") == 0) return print_record(argv[2], argv[3]);
    if (argc == 4 && strcmp(argv[1], "simulate") == 0) return simulate(argv[2], atoi(argv[3]));
    fprintf(stderr, "usage: aa record DIR NAME | aa simulate FILE SETS\n");
    return 2;
}
