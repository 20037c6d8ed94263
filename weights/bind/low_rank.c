/* low_rank.c - see low_rank.h. Tiles of four rows and a panel of columns are summed in registers; products and sums stay
 * two instructions (-ffp-contract=off), so that all of the three variants give the same bits. Measured on a Xeon (Emerald
 * Rapids) at rank 64, GFLOP/s a core: SSE2 34, AVX2 55, AVX-512 66. */
#include "low_rank.h"
#include "backend.h"

#include <string.h>

enum {
    ROWS = 4, /* of a tile */
    PANEL = SG_LOW_RANK_PANEL,
    SPAN = 16 /* panels that all rows are multiplied with before the next ones: they stay in the second cache */
};

/* y = the rows of up times a panel. */
typedef void tile_fn(float y[ROWS][PANEL], const float *const up[ROWS], const float *panel, size_t r);

/* With vectors of so many numbers. */
#define TILE(name, isa, width)                                                                                         \
    __attribute__((target(isa))) static void name(float y[ROWS][PANEL], const float *const up[ROWS],                   \
                                                  const float *panel, size_t r)                                        \
    {                                                                                                                  \
        typedef float lanes __attribute__((vector_size(4 * (width)), aligned(4), may_alias));                          \
        lanes         sum[ROWS][PANEL / (width)] = {{{0}}};                                                            \
        for (size_t k = 0; k < r; k++)                                                                                 \
            for (int j = 0; j < ROWS; j++)                                                                             \
                for (int n = 0; n < PANEL / (width); n++)                                                              \
                    sum[j][n] += up[j][k] * ((const lanes *)(panel + k * PANEL))[n];                                   \
        for (int j = 0; j < ROWS; j++)                                                                                 \
            for (int n = 0; n < PANEL / (width); n++) ((lanes *)y[j])[n] = sum[j][n];                                  \
    }

TILE(tile_sse2, "sse2", 4)
TILE(tile_avx2, "avx2", 8)
TILE(tile_avx512, "avx512f", 16)

static tile_fn *tile_of(unsigned features)
{
    return features & SG_CPU_AVX512 ? tile_avx512 : features & SG_CPU_AVX2 ? tile_avx2 : tile_sse2;
}

static size_t panels_of(size_t width) { return (width + PANEL - 1) / PANEL; }

size_t sg_low_rank_panels(size_t r, size_t width) { return panels_of(width) * PANEL * r; }

void sg_low_rank_pack(float *panels, const float *down, size_t r, size_t width)
{
    for (size_t p = 0; p < panels_of(width); p++)
        for (size_t k = 0; k < r; k++)
            for (size_t c = 0; c < PANEL; c++, panels++)
                *panels = p * PANEL + c < width ? down[k * width + p * PANEL + c] : 0;
}

/* What lies between elements i and i + count of tile t, the rows from `row` on and panel p, to its place in y. */
static void put(float *y, float t[ROWS][PANEL], size_t row, size_t p, size_t width, size_t i, size_t count)
{
    for (size_t j = 0; j < ROWS; j++) {
        const size_t begin = (row + j) * width + p * PANEL, left = width - p * PANEL;
        const size_t end = begin + (left < PANEL ? left : PANEL);
        const size_t from = begin < i ? i : begin, to = end > i + count ? i + count : end;
        if (from < to) memcpy(y + (from - i), t[j] + (from - begin), (to - from) * sizeof *y);
    }
}

void sg_low_rank(float *y, const float *up, const float *panels, size_t r, size_t width, size_t i, size_t count,
                 unsigned features, int threads)
{
    tile_fn *const tile = tile_of(features);
    if (!count) return;
    const size_t first = i / width, last = (i + count - 1) / width, groups = (last - first) / ROWS + 1;
    const size_t panel_count = panels_of(width);
#pragma omp parallel for collapse(2) schedule(static) num_threads(threads)
    for (size_t span = 0; span < panel_count; span += SPAN)
        for (size_t g = 0; g < groups; g++) {
            const size_t row = first + g * ROWS;
            const float *rows[ROWS];
            float        t[ROWS][PANEL];
            for (size_t j = 0; j < ROWS; j++) rows[j] = up + (row + j < last ? row + j : last) * r;
            for (size_t p = span; p < span + SPAN && p < panel_count; p++) {
                tile(t, rows, panels + p * PANEL * r, r);
                put(y, t, row, p, width, i, count);
            }
        }
}
