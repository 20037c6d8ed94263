#!/usr/bin/env python3
"""Writes rng_table.h: what torch.randn gives on the CPU.

    python tests/unit/make_rng_table.py > tests/unit/rng_table.h

Of each draw the ends and the sums that tell an element out of place. F16 and BF16 have draws of their own. Versions: tests/golden/requirements.txt.
"""
import torch

SIZES = (1, 2, 5, 15, 16, 17, 31, 33, 1000, 16 * 21 * 60 * 104)
SEEDS = (0, 42, 2**32 + 5, 2**63)
DTYPES = {"SG_F32": torch.float32, "SG_F16": torch.float16, "SG_BF16": torch.bfloat16}
LARGE = 1000
HEAD, TAIL = 8, 17


def row(values):
    texts = [format(v, ".9g") for v in values]
    lines = [", ".join(texts[i:i + 8]) for i in range(0, len(texts), 8)]
    return "     {" + ",\n      ".join(lines) + "}"


def main():
    print("/* rng_table.h - made by make_rng_table.py. */")
    print("#ifndef SG_RNG_TABLE_H\n#define SG_RNG_TABLE_H\n\n#include <stddef.h>\n#include <stdint.h>\n")
    print(f"enum {{ TABLE_HEAD = {HEAD}, TABLE_TAIL = {TAIL} }};\n")
    print("typedef struct draw {")
    print("    sg_dtype as;")
    print("    uint64_t seed;")
    print("    size_t   n;")
    print("    double   sum, squares, turns; /* of x, of x^2, of x[i] (i mod 7 - 3) */")
    print("    double   head[TABLE_HEAD];    /* the first elements, as many as there are */")
    print("    double   tail[TABLE_TAIL];    /* the last elements, as many as there are */")
    print("} draw;\n\nstatic const draw table_draws[] = {")
    draws = [("SG_F32", seed, n) for seed in SEEDS for n in SIZES]
    draws += [(name, 42, n) for name in ("SG_F16", "SG_BF16") for n in SIZES if n <= LARGE]
    for name, seed, n in draws:
        x = torch.randn(n, dtype=DTYPES[name], generator=torch.Generator("cpu").manual_seed(seed)).double()
        turns = (x * (torch.arange(n) % 7 - 3)).sum()
        print(f"    {{{name}, UINT64_C({seed}), {n}, {x.sum():.9f}, {(x * x).sum():.9f}, {turns:.9f},")
        print(row(x[:HEAD].tolist()) + ",")
        print(row(x[-TAIL:].tolist()) + "},")
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
