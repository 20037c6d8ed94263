/* taehv_table.h - made by make_taehv_table.py. */
#ifndef SG_TAEHV_TABLE_H
#define SG_TAEHV_TABLE_H

enum { TABLE_CASES = 2, TABLE_PICKS = 24 };

/* Sum and sum of squares of the frames, and every so-manieth number from the first on. */
static const struct {
    double sum, squares, pick[TABLE_PICKS];
} taehv_table[TABLE_CASES] = {
    {6814.26723909, 5477.10388752, {
    0.548141629, 0.284936942, 0.194602712, 1, 0.591227497, 1, 0.21035126, 0.512731733,
    0.458861211, 0.993996678, 0.739657186, 0.470819396, 0.458501668, 0.563755522, 1, 1,
    0.456674063, 0.674233439, 0.374741339, 0.872390647, 1, 1, 0.280718001, 0.0839596788,
    }},
    {22708.5077028, 19127.2950772, {
    0.514291891, 0.0737574312, 0.896122118, 1, 0.249930266, 1, 0.403508664, 0,
    0.381702702, 1, 0.94425958, 0.423142281, 0.601429382, 0.392673558, 0.842994132, 1,
    0.451781596, 0, 0.242062213, 1, 1, 1, 0.0794884074, 0,
    }},
};

#endif
