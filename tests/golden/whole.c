/* whole.c - whole renders of the embedded model against what diffusers made of them (whole.py): at its defaults, or small ones
 * without and with a picture.
 *
 *   golden_whole BACKEND MODEL FIXTURE.safetensors default|small
 *
 * Gates: our f32 frames within 50 dB of diffusers' f32 frames; our small bf16 clips, of several seeds, on average no more
 * than 1 dB further from our f32 clips than those of diffusers are from its own. */
#include "counter.h"
#include "engine.h"
#include "tensor_source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRIDE = 8 };

typedef struct clip {
    uint8_t *pixels; /* [frames, height, width, 3] */
    size_t   frame_bytes;
    int      frames;
} clip;

static void die(const char *what)
{
    fprintf(stderr, "golden_whole: %s\n", what);
    exit(2);
}

static sg_status take(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    (void)e;
    clip *const c = context;
    memcpy(c->pixels + (size_t)index * c->frame_bytes, rgb, c->frame_bytes);
    return SG_OK;
}

static sg_engine *open_engine(const char *backend, const char *model, const char *dtype)
{
    sg_engine              *g = NULL;
    sg_error                e = {0};
    const sg_engine_options o = {
        .size = sizeof(sg_engine_options), .model_dir = model, .backend = backend, .dtype = dtype};
    if (sg_engine_open(&g, &o, &e)) die(e.text);
    return g;
}

static clip render(sg_engine *g, sg_request r)
{
    sg_report report = {.size = sizeof report};
    sg_error  e = {0};
    clip      c = {.frame_bytes = (size_t)r.width * (size_t)r.height * 3, .frames = r.frames};
    c.pixels = calloc((size_t)c.frames, c.frame_bytes);
    if (!c.pixels) die("out of memory");
    if (sg_engine_render(g, &r, &(sg_callbacks){.size = sizeof(sg_callbacks), .context = &c, .frame = take}, &report,
                         &e))
        die(e.text);
    printf("%dx%d, %d frames, %s: %.1f s, of them %.1f denoising and %.1f decoding, on %s\n", r.width, r.height,
           r.frames, report.dtype, report.total_seconds, report.seconds[SG_STAGE_DENOISE],
           report.seconds[SG_STAGE_DECODE], report.device);
    return c;
}

static double psnr(const uint8_t *a, const uint8_t *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum > 0 ? 10 * log10(255.0 * 255.0 * (double)n / sum) : INFINITY;
}

static sg_source *open_fixture(const char *path)
{
    sg_source *w = NULL;
    sg_error   e = {0};
    if (sg_source_open(&w, path, &e)) die(e.text);
    return w;
}

static const char *text(const sg_source *fixture, const char *key)
{
    const char *const value = sg_source_metadata(fixture, key);
    if (!value) die("not a fixture of whole.py");
    return value;
}

/* A clip in f32 against the fixture's pixels: of each eight in a row one. */
static bool check_clip(sg_engine *g, sg_request r, const sg_source *fixture, const char *name)
{
    const sg_tensor pixels = sg_source_find(fixture, name);
    r.prompt = text(fixture, "prompt");
    const clip     c = render(g, r);
    const size_t   groups = c.frame_bytes / 3 / STRIDE;
    const uint64_t seed = counter_seed("pixels");
    const int      at[3] = {0, c.frames / 2, c.frames - 1};
    uint8_t *const ours = malloc(3 * groups);
    bool           ok = ours && pixels.dtype == SG_U8 && sg_bytes(pixels) == 9 * groups;
    for (size_t k = 0; ok && k < 3; k++) {
        const uint8_t *const frame = c.pixels + (size_t)at[k] * c.frame_bytes;
        for (size_t i = 0; i < groups; i++)
            memcpy(ours + 3 * i, frame + 3 * (STRIDE * i + counter_bits(seed, k * groups + i) % STRIDE), 3);
        const double db = psnr(ours, (const uint8_t *)pixels.data + k * 3 * groups, 3 * groups);
        printf("%s, frame %d: our f32 is %.2f dB from diffusers' f32\n", name, at[k], db);
        ok = db >= 50;
    }
    free(ours);
    free(c.pixels);
    return ok;
}

static sg_request small(const sg_engine *g, const sg_source *fixture)
{
    sg_request r = {.size = sizeof r};
    sg_engine_defaults(g, &r);
    r.prompt = text(fixture, "prompt");
    r.width = atoi(text(fixture, "width"));
    r.height = atoi(text(fixture, "height"));
    r.frames = atoi(text(fixture, "frames"));
    return r;
}

/* A small clip that begins with a picture of counter.h's numbers. */
static bool check_picture(sg_engine *g, const sg_source *fixture)
{
    sg_request     r = small(g, fixture);
    const size_t   n = (size_t)r.width * (size_t)r.height * 3;
    const uint64_t seed = counter_seed("picture.0");
    uint8_t *const rgb = malloc(n);
    if (!rgb) die("out of memory");
    for (size_t i = 0; i < n; i++)
        rgb[i] = (uint8_t)((ldexp(counter_integer(seed, i, COUNTER_CLIP), -COUNTER_CLIP.shift) + 1) * 127.5);
    r.image[SG_IMAGE_FIRST].rgb = rgb;
    const bool ok = check_clip(g, r, fixture, "image_pixels");
    free(rgb);
    return ok;
}

/* The fixture's small clips in both dtypes against each other. */
static bool check_bf16(sg_engine *f32, sg_engine *bf16, const sg_source *fixture)
{
    const int    seeds = atoi(text(fixture, "seeds"));
    const double theirs = atof(text(fixture, "psnr_bf16"));
    sg_request   r = small(f32, fixture);
    double       ours = 0;
    for (int i = 0; i < seeds; i++) {
        r.seed = (uint64_t)i;
        const clip   high = render(f32, r), low = render(bf16, r);
        const double db = psnr(low.pixels, high.pixels, (size_t)high.frames * high.frame_bytes);
        printf("seed %d: our bf16 is %.2f dB from our f32\n", i, db);
        ours += db / seeds;
        free(high.pixels);
        free(low.pixels);
    }
    printf("mean of %d seeds: %.2f dB; diffusers' bf16 is %.2f dB from its f32\n", seeds, ours, theirs);
    return seeds > 0 && ours >= theirs - 1;
}

int main(int argc, char **argv)
{
    const bool whole = argc == 5 && !strcmp(argv[4], "default");
    if (!whole && (argc != 5 || strcmp(argv[4], "small") != 0))
        die("usage: golden_whole BACKEND MODEL FIXTURE.safetensors default|small");
    sg_source *fixture = open_fixture(argv[3]);
    sg_engine *f32 = open_engine(argv[1], argv[2], "f32"), *bf16 = NULL;
    bool       ok;
    if (whole) {
        sg_request r = {.size = sizeof r};
        sg_engine_defaults(f32, &r);
        ok = check_clip(f32, r, fixture, "pixels");
    } else {
        bf16 = open_engine(argv[1], argv[2], "bf16");
        ok = check_clip(f32, small(f32, fixture), fixture, "small_pixels");
        ok = check_picture(f32, fixture) && ok;
        ok = check_bf16(f32, bf16, fixture) && ok;
    }
    puts(ok ? "ok" : "FAILED");
    sg_engine_close(&f32);
    sg_engine_close(&bf16);
    sg_source_close(&fixture);
    return !ok;
}
