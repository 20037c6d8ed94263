/* dequantise_table.h - made by make_dequantise_table.py. */
#ifndef SG_DEQUANTISE_TABLE_H
#define SG_DEQUANTISE_TABLE_H

#include <stdint.h>

enum { TABLE_BLOCKS = 512 };

/* Where the F16 scales of a block are, -1: there is no second one; the sum over the elements. Types of single bytes have no
 * scale, and the sum is over all bytes, in order, that are finite numbers. */
static const struct {
    const char *type;
    int         block, bytes, scale[2];
    uint64_t    sum;
} table[] = {
    {"Q8_0", 32, 34, {0, -1}, 0xc5e0126f38c349e5u},
    {"Q6_K", 256, 210, {208, -1}, 0x083c3d12501717cbu},
    {"Q5_K", 256, 176, {0, 2}, 0x3bd412fbc361a84fu},
    {"Q5_0", 32, 22, {0, -1}, 0x658355a4ae656b25u},
    {"Q5_1", 32, 24, {0, 2}, 0xb8ba4a0028e5a98fu},
    {"Q4_K", 256, 144, {0, 2}, 0xb215fbec0c788293u},
    {"Q4_0", 32, 18, {0, -1}, 0xc8aa796a9cbdb325u},
    {"Q4_1", 32, 20, {0, 2}, 0x8570e045f47567efu},
    {"Q3_K", 256, 110, {108, -1}, 0xb6cfef47d0137525u},
    {"Q2_K", 256, 84, {80, 82}, 0xb6e5e62fc965d4a1u},
    {"IQ4_NL", 32, 18, {0, -1}, 0x0b16f1a7d36720e5u},
    {"IQ4_XS", 256, 136, {0, -1}, 0x892794d60c44f28bu},
    {"F8_E4M3", 1, 1, {-1, -1}, 0xa5e825ec78ff0f9du},
    {"F8_E5M2", 1, 1, {-1, -1}, 0x6766a9e9a09bb485u},
    {"I8", 1, 1, {-1, -1}, 0x240d70763513b725u},
};

static const uint64_t packed_sum = 0x1a7cffa97b7eca4bu;

#endif
