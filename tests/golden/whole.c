/* whole.c - a whole render of the embedded model at its defaults, against what diffusers made of it (whole.py).
 *
 *   golden_whole MODEL FIXTURE.safetensors
 *
 * Gates: our f32 frames within 50 dB of diffusers' f32 frames; our bf16 render no more than 1 dB further from our f32 render
 * than diffusers' bf16 render is from its own. */
#include "engine.h"
#include "weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static clip render(const char *model, const char *dtype, const char *prompt)
{
    sg_engine *g = NULL;
    sg_report  report;
    sg_error   e = {0};
    if (sg_engine_open(&g, &(sg_engine_options){.model_dir = model, .dtype = dtype}, &e)) die(e.text);
    sg_request r = sg_engine_defaults(g);
    r.prompt = prompt;
    clip c = {.frame_bytes = (size_t)r.width * (size_t)r.height * 3, .frames = r.frames};
    c.pixels = calloc((size_t)c.frames, c.frame_bytes);
    if (!c.pixels) die("out of memory");
    if (sg_engine_render(g, &r, &(sg_callbacks){.context = &c, .frame = take}, &report, &e)) die(e.text);
    printf("%s: %.1f s, of them %.1f denoising and %.1f decoding, on %s\n", dtype, report.total_seconds,
           report.seconds[SG_STAGE_DENOISE], report.seconds[SG_STAGE_DECODE], report.device);
    sg_engine_close(&g);
    return c;
}

static double psnr(const uint8_t *a, const uint8_t *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum > 0 ? 10 * log10(255.0 * 255.0 * (double)n / sum) : INFINITY;
}

int main(int argc, char **argv)
{
    sg_weights *fixture = NULL;
    sg_error    e = {0};
    char        dir[1024], *name;
    if (argc != 3) die("usage: golden_whole MODEL FIXTURE.safetensors");
    snprintf(dir, sizeof dir, "%s", argv[2]);
    name = strrchr(dir, '/');
    if (!name || strlen(name) < 13) die("the fixture is DIR/NAME.safetensors");
    *name++ = '\0';
    name[strlen(name) - strlen(".safetensors")] = '\0';
    if (sg_weights_open(&fixture, dir, name, &e)) die(e.text);
    const sg_tensor   frames = sg_weights_find(fixture, "frames");
    const char *const prompt = sg_weights_metadata(fixture, "prompt");
    const char *const low = sg_weights_metadata(fixture, "psnr_bf16");
    if (frames.rank != 4 || frames.dim[0] != 3 || !prompt || !low) die("not a fixture of whole.py");

    const clip   f32 = render(argv[1], "f32", prompt), bf16 = render(argv[1], "bf16", prompt);
    const int    at[3] = {0, f32.frames / 2, f32.frames - 1};
    bool         ok = sg_bytes(frames) == 3 * f32.frame_bytes;
    const double theirs = atof(low), ours = psnr(bf16.pixels, f32.pixels, (size_t)f32.frames * f32.frame_bytes);
    for (int k = 0; ok && k < 3; k++) {
        const uint8_t *const want = (const uint8_t *)frames.data + (size_t)k * f32.frame_bytes;
        const double         db = psnr(f32.pixels + (size_t)at[k] * f32.frame_bytes, want, f32.frame_bytes);
        printf("frame %d: our f32 is %.2f dB from diffusers' f32\n", at[k], db);
        ok = db >= 50;
    }
    printf("our bf16 is %.2f dB from our f32; diffusers' bf16 is %.2f dB from its f32\n", ours, theirs);
    ok = ok && ours >= theirs - 1;
    puts(ok ? "ok" : "FAILED");
    free(f32.pixels);
    free(bf16.pixels);
    sg_weights_close(&fixture);
    return !ok;
}
