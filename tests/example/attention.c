/* attention.c - how much do sparse attention's results differ from exact ones, and in what time?
 *     cc attention.c $(pkg-config --cflags --libs spargegen) -lm */
#include <spargegen/attention.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 9, Y = 16, X = 16, N = T * Y * X, H = 2, D = 64, COUNT = N * H * D };

static float q[COUNT], k[COUNT], v[COUNT], dense[COUNT], sparse[COUNT];

/* A smooth field over the video, another one for each head and channel. */
static float field(int i, float seed)
{
    const int   token = i / (H * D), t = token / (Y * X), y = token / X % Y, x = token % X;
    const float phase = seed * (float)(1 + i % (H * D));
    return 2 * sinf(phase + 0.4F * (float)x * cosf(phase) + 0.4F * (float)y * sinf(phase) + 0.2F * (float)t);
}

int main(void)
{
    sg_error               error = {0};
    sg_attention_context  *c;
    sg_attention_report    report = {0};
    sg_attention_call_args a = {.o = dense, .q = q, .k = k, .v = v, .heads = H, .head_dim = D, .n = N, .kind = "dense"};
    double                 difference = 0, sum = 0;
    for (int i = 0; i < COUNT; i++) q[i] = field(i, 1), k[i] = field(i, 1.1F), v[i] = field(i, 1.7F);
    int failed = sg_attention_context_open(&c, NULL, &error) || sg_attention_call(c, &a, NULL, &error);
    a.o = sparse, a.kind = "sparge", a.topk = 0.3, a.grid[0] = T, a.grid[1] = Y, a.grid[2] = X;
    if (!failed) failed = sg_attention_call(c, &a, &report, &error) != SG_OK;
    sg_attention_context_close(&c);
    if (failed) return fprintf(stderr, "%s\n", error.text), EXIT_FAILURE;
    for (int i = 0; i < COUNT; i++) difference += fabsf(sparse[i] - dense[i]), sum += fabsf(dense[i]);
    printf("%s: %.0f %% of the blocks, relative L1 %.4f\n", report.ran, 100 * report.density, difference / sum);
    return 0;
}
