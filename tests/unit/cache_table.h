/* cache_table.h - written by make_cache_table.py from diffusers 0.42.1. */
static const struct {
    int shape[4], steps, first;
    double threshold;
    int longest;
    const char *steps_skipped; /* s: skipped */
} skip_table[] = {
    {{4, 5, 8, 12}, 50, 10, 0.25, 2, "..........s.ss.ss.ss.ss.ss.ss.ss.ss.ss.ss.ss.ss.s."},
    {{4, 5, 8, 12}, 50, 2, 0.1, 2, "................s.s.s.s.s.s.s.s.ss.ss.ss.s.s.s...."},
    {{4, 5, 8, 12}, 50, 10, 0.35, 3, "..........ss.sss.sss.sss.sss.sss.sss.sss.sss.sss.."},
    {{3, 1, 9, 7}, 30, 6, 0.25, 2, ".......s.s.ss.ss.ss.ss.ss.s.s."},
    {{3, 4, 6, 15}, 16, 4, 0.25, 2, ".......s.s.s.s.."},
    {{2, 9, 8, 8}, 40, 8, 0.02, 2, "........................................"},
};

/* As filtered: sum and sum of squares of F, and F at the first place and in the middle, [c, f, y, x] */
static const struct {
    int shape[4];
    double sigma, sum, squares, first, middle;
} filter_table[] = {
    {{2, 5, 6, 9}, 0.9, 58.8316043, 1032.75834, 0.806624711, 2.81716776},
    {{2, 5, 6, 9}, 0.05, -103.950668, 170.239927, 1.04012907, 0.747103214},
    {{1, 8, 4, 10}, 1.0, 5122.14844, 81988.7644, 16.0067139, 16.0067139},
    {{3, 1, 7, 8}, 0.0, -3.13180743, 58.2189425, 1.00000024, -0.0791209191},
};
