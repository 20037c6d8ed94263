/* metrics_table.h - made by make_metrics_table.py. */
#ifndef SG_METRICS_TABLE_H
#define SG_METRICS_TABLE_H

typedef struct pair {
    const char *a, *b;
    double      psnr, ssim;
} pair;

static const pair table_pairs[] = {
    {"scene.png", "noisy.png", 29.1041321026462, 0.786145321996239},
    {"scene.png", "blurred.png", 30.1615097843941, 0.943772011710871},
    {"scene.png", "brighter.png", 32.5677786010062, 0.9961169708104},
    {"scene.png", "coded.jpg", 25.3233271279411, 0.764953642351753},
    {"scene.png", "grey.jpg", 12.8200063482576, 0.415849069093161},
    {"noisy.png", "coded.jpg", 23.8389515095809, 0.61934650553969},
    {"small_a.png", "small_b.png", 7.80741156002163, 0.067593319972556},
};

static const double table_values[] = {31.5, 40.25, 28.0, 33.125, 36.0, 29.5, 41.0};
static const double table_mean = 34.196428571428569, table_percentile_5 = 28.449999999999999;

#endif
