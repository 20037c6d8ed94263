/* test_taehv.c - TAEHV: frames against its formulas in float64, hostile files, memory. */
#include "vae.h"

#include "backend.h"
#include "meta.h"
#include "taehv_table.h"

#include "made_file.h"

/* ---- a made-up file: as in make_taehv_table.py ---- */

enum { FRAMES = 3, HEIGHT = 2, WIDTH = 3, STAGES = 3, ARENA = 1 << 21 };

static const int widths[STAGES + 1] = {6, 5, 4, 3}, grows[STAGES] = {1, 2, 2};
static const struct {
    int z, patch;
} cases[TABLE_CASES] = {{5, 1}, {7, 2}};

/* What a hostile file has otherwise: a tensor is left out, or has another shape. */
typedef struct spoilt {
    const char *name;
    int         rank;
    int64_t     dim[4];
} spoilt;

static void put(made_file *f, const spoilt *bad, const char *name, int rank, const int64_t *dim)
{
    char own[48];
    snprintf(own, sizeof own, "decoder.%s", name);
    if (bad && strcmp(own, bad->name) == 0) {
        if (!bad->rank) return;
        rank = bad->rank;
        dim = bad->dim;
    }
    const sg_tensor t = made_file_put(f, own, own, SG_F32, rank, dim);
    const float     by = rank > 1 ? 2 / sqrtf((float)(sg_count(t) / dim[0])) : 0.25f;
    const float     about = rank == 1 && strstr(own, ".22.") ? 0.5f : 0;
    for (int64_t i = 0; i < sg_count(t); i++) ((float *)t.data)[i] = by * ((float *)t.data)[i] + about;
}

static void put_conv(made_file *f, const spoilt *bad, const char *name, int64_t o, int64_t i, bool bias)
{
    char full[40];
    snprintf(full, sizeof full, "%s.weight", name);
    put(f, bad, full, 4, (int64_t[]){o, i, 3, 3});
    snprintf(full, sizeof full, "%s.bias", name);
    if (bias) put(f, bad, full, 1, &o);
}

static const char path[] = "taehv.safetensors";

static void write_file(int z, int patch, const spoilt *bad)
{
    static made_file f;
    char             name[32];
    put_conv(&f, bad, "1", widths[0], z, true);
    for (int k = 0; k < STAGES; k++) {
        const int n = 3 + 6 * k, c = widths[k];
        for (int j = 0; j < 9; j++) {
            snprintf(name, sizeof name, "%d.conv.%d", n + j / 3, j % 3 * 2);
            put_conv(&f, bad, name, c, j % 3 ? c : 2 * c, true);
        }
        snprintf(name, sizeof name, "%d.conv.weight", n + 4);
        put(&f, bad, name, 4, (int64_t[]){grows[k] * c, c, 1, 1});
        snprintf(name, sizeof name, "%d", n + 5);
        put_conv(&f, bad, name, widths[k + 1], c, false);
    }
    put_conv(&f, bad, "22", 3 * patch * patch, widths[STAGES], true);
    made_file_put(&f, "encoder.0.weight", "unwanted", SG_F32, 1, (int64_t[]){4});
    made_file_write(&f, path);
}

static sg_backend *backend;

static int open_backend(void **state)
{
    return enter_folder(state) ||
           sg_backend_open(&backend, &(sg_backend_options){.name = "cpu", .threads = 1}, NULL) != SG_OK;
}

static int close_backend(void **state)
{
    sg_backend_close(&backend);
    return leave_folder(state);
}

/* ---- running it ---- */

static sg_vae open_made(int i, sg_dtype act)
{
    sg_vae            v = {0};
    sg_error          e = {0};
    const sg_vae_info of = {.z = cases[i].z, .scale_time = 4, .scale_space = 8 * cases[i].patch};
    write_file(cases[i].z, cases[i].patch, NULL);
    if (sg_taehv_open(&v, path, &of, act, &e) != SG_OK) fail_msg("%s", e.text);
    return v;
}

/* All frames, one latent after the other, to y, which a plan has not. */
static void decode(const sg_vae *v, sg_stream *s, int i, float *y)
{
    const int z = cases[i].z;
    float     latents[FRAMES * HEIGHT * WIDTH * 7];
    void     *run = NULL;
    sg_error  e = {0};
    for (int k = 0; k < FRAMES * HEIGHT * WIDTH * z; k++) latents[k] = 4 * made_up("latents", (uint32_t)k);
    const sg_tensor all = sg_new_keep(s, SG_F32, FRAMES, HEIGHT, WIDTH, z);
    sg_upload(s, all, latents);
    if (v->ops->decode_open(&run, v->of, s, HEIGHT, WIDTH, &e) != SG_OK) fail_msg("%s", e.text);
    for (int f = 0; f < FRAMES; f++) {
        const size_t    mark = s->scratch.used;
        const sg_tensor frames = v->ops->decode_next(run, s, sg_rows(all, f, 1), f + 1 == all.dim[0]);
        assert_int_equal(frames.dim[0], f ? 4 : 1);
        if (y) sg_download(s, y, frames);
        if (y) y += sg_count(frames);
        s->scratch.used = mark;
    }
    v->ops->decode_close(&run);
    if (s->status) fail_msg("%s", s->why);
}

static sg_stream stream(void)
{
    static _Alignas(SG_ALIGN) unsigned char keep[ARENA], scratch[ARENA];
    sg_stream                               s = sg_stream_of(backend);
    memset(keep, 0xff, sizeof keep); /* NaN: nothing may be read that was not written */
    memset(scratch, 0xff, sizeof scratch);
    s.keep = (sg_arena){.base = (uintptr_t)keep, .cap = ARENA};
    s.scratch = (sg_arena){.base = (uintptr_t)scratch, .cap = ARENA};
    return s;
}

/* The largest difference of a picked number, in [0, 1], and of sums by count. */
static double distance_of(int i, sg_dtype act)
{
    static float y[9 * HEIGHT * WIDTH * 256 * 3];
    const int    n = 9 * HEIGHT * WIDTH * 64 * cases[i].patch * cases[i].patch * 3, step = n / TABLE_PICKS;
    double       sum = 0, squares = 0, worst = 0;
    sg_error     e = {0};
    sg_vae       v = open_made(i, act);
    sg_stream    s = stream();
    if (sg_bind_load(v.ops->component(v.of)->bind, backend, NULL, NULL, &e) != SG_OK) fail_msg("%s", e.text);
    decode(&v, &s, i, y);
    for (int k = 0; k < n; k++) {
        const double u = (double)y[k] / 2 + 0.5;
        sum += u;
        squares += u * u;
        if (k % step == 0 && k / step < TABLE_PICKS) worst = fmax(worst, fabs(u - taehv_table[i].pick[k / step]));
    }
    worst = fmax(worst, fabs(sum - taehv_table[i].sum) / n);
    worst = fmax(worst, fabs(squares - taehv_table[i].squares) / n);
    v.ops->close(v.of);
    return worst;
}

static void frames_are_those_of_the_formulas(void **state)
{
    for (int i = 0; i < TABLE_CASES; i++) {
        const double d = distance_of(i, SG_F32);
        if (!(d <= 2e-6)) fail_msg("case %d: off by %g", i, d);
    }
}

static void bf16_is_near(void **state)
{
    for (int i = 0; i < TABLE_CASES; i++) {
        const double d = distance_of(i, SG_BF16);
        if (!(d <= 5e-2 && d > 2e-6)) fail_msg("case %d: off by %g", i, d);
    }
}

static void a_plan_asks_for_what_it_takes(void **state)
{
    static float   y[9 * HEIGHT * WIDTH * 256 * 3];
    sg_error       e = {0};
    sg_vae         v = open_made(1, SG_F32);
    sg_plan_totals totals = {0};
    sg_stream      plan = sg_plan_stream(&totals), s = stream();
    decode(&v, &plan, 1, NULL);
    assert_int_equal(sg_bind_load(v.ops->component(v.of)->bind, backend, NULL, NULL, &e), SG_OK);
    decode(&v, &s, 1, y);
    assert_int_equal(plan.keep.peak, s.keep.peak);
    assert_true(plan.scratch.peak >= s.scratch.peak);
    v.ops->close(v.of);
}

/* ---- hostile files ---- */

static void refuse(const sg_vae_info *of, const char *tensor, const char *reason)
{
    sg_vae   v = {0};
    sg_error e = {0};
    assert_refused(sg_taehv_open(&v, path, of, SG_F32, &e), SG_E_FORMAT, &e, path, tensor, reason);
    assert_null(v.ops);
}

static void files_are_refused_by_tensor_and_reason(void **state)
{
    static const struct {
        spoilt      bad;
        const char *reason;
    } all[] = {
        {{"decoder.1.weight", 0, {0}}, "is missing"},
        {{"decoder.8.weight", 2, {5, 6}}, "[5, 6]"},
        {{"decoder.14.weight", 4, {4, 5, 1, 1}}, "[4, 5, 1, 1]"},
        {{"decoder.20.weight", 4, {5000, 1, 3, 3}}, "up to 4096"},
        {{"decoder.22.weight", 4, {5, 3, 3, 3}}, "patches|RGB"},
        {{"decoder.4.conv.2.weight", 4, {6, 7, 3, 3}}, "[6, 7, 3, 3]"},
        {{"decoder.13.conv.weight", 4, {5, 5, 1, 1}}, "[5, 5, 1, 1]"},
        {{"decoder.17.conv.4.bias", 0, {0}}, "decoder.17.conv.4.bias"},
        {{"decoder.1.bias", 1, {5}}, "[5]"},
    };
    static float      big[5000 * 9];
    const sg_vae_info of = {.z = 5, .scale_time = 4, .scale_space = 8};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].bad.dim[0] == 5000) {
            const sg_named_tensor t[] = {{"decoder.1.weight", {.data = big, .rank = 4, .dim = {6, 5, 3, 3}}},
                                         {"decoder.8.weight", {.data = big, .rank = 4, .dim = {5, 6, 3, 3}}},
                                         {"decoder.14.weight", {.data = big, .rank = 4, .dim = {4, 5, 3, 3}}},
                                         {"decoder.20.weight", {.data = big, .rank = 4, .dim = {5000, 1, 3, 3}}}};
            assert_int_equal(sg_safetensors_write_all(path, t, 4, NULL, NULL), SG_OK);
        } else
            write_file(5, 1, &all[i].bad);
        refuse(&of, all[i].bad.name, all[i].reason);
    }
}

static void files_of_other_models_are_refused(void **state)
{
    write_file(5, 1, NULL);
    refuse(&(sg_vae_info){.z = 16, .scale_time = 4, .scale_space = 8}, "decoder.1.weight", "16");
    refuse(&(sg_vae_info){.z = 5, .scale_time = 6, .scale_space = 8}, "decoder.22.weight", "has 6");
    refuse(&(sg_vae_info){.z = 5, .scale_time = 4, .scale_space = 16}, "decoder.22.weight", "16x16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_those_of_the_formulas),  cmocka_unit_test(bf16_is_near),
        cmocka_unit_test(a_plan_asks_for_what_it_takes),     cmocka_unit_test(files_are_refused_by_tensor_and_reason),
        cmocka_unit_test(files_of_other_models_are_refused),
    };
    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
