/* fuzz_config.c - any bytes as a configuration file, each getter on fields that the corpus has; and as what a model's owner
 * says of its vocabulary. */
#include "config.h"
#include "input_file.h"
#include "vocabulary.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KINDS = 8 };

/* A getter and the field that the corpus has for it; then all of them on one config, to meet the latch. */
static void read_kind(sg_config *c, int kind, const char *key)
{
    int64_t is[4];
    double  rs[4];
    bool    bs[4];
    int     n = 0;
    int64_t i = 0;
    double  r = 0;
    switch (kind) {
    case 0: i = sg_config_int(c, key, -5, 1000, NULL); break;
    case 1: r = sg_config_real(c, key, -0.5, 0.5, NULL); break;
    case 2: sg_config_bool(c, key, NULL); break;
    case 3: sg_config_string(c, key, NULL); break;
    case 4: n = sg_config_ints(c, key, 0, 9, is, 0, 4); break;
    case 5: n = sg_config_reals(c, key, 0, 1, rs, 1, 4); break;
    case 6: n = sg_config_bools(c, key, bs, 2, 4); break;
    default: sg_config_string_at(c, key, 1); break;
    }
    if (i < -5 || i > 1000 || !(r >= -0.5 && r <= 0.5) || n < 0 || n > 4) abort();
    for (int k = 0; kind == 4 && k < n; k++)
        if (is[k] < 0 || is[k] > 9) abort();
}

static void read_config(const char *path, int first, int last)
{
    static const char *const keys[KINDS] = {"i", "r", "b", "s", "is", "rs", "bs", "ss"};
    sg_config               *c = NULL;
    sg_error                 e = {0};
    if (sg_config_open(&c, path, &e) == SG_OK) {
        for (int k = first; k <= last; k++) read_kind(c, k, keys[k]);
        if (sg_config_status(c) != e.code) abort();
    } else if (c) {
        abort();
    }
    if ((e.code == SG_OK) != (e.text[0] == '\0')) abort();
    sg_config_close(&c);
}

/* What was accepted holds no control character, and a list of words is bounded. */
static void read_vocabulary(const char *path)
{
    sg_vocabulary v = {0};
    sg_config    *c = NULL;
    sg_error      e = {0};
    char          list[64] = "";
    sg_status     status = sg_config_open(&c, path, &e);
    if (status == SG_OK) status = sg_vocabulary_read(&v, c, &e);
    if ((status == SG_OK) != (e.text[0] == '\0')) abort();
    for (const char *w = v.world; status == SG_OK && w && *w; w++)
        if ((unsigned char)*w < 0x20) abort();
    if (status == SG_OK && v.world) sg_vocabulary_unknown(&v, v.world, list, sizeof list);
    if (status == SG_OK && strlen(list) >= sizeof list) abort();
    sg_vocabulary_free(&v);
    sg_config_close(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const path = input_file(data, size);
    read_vocabulary(path);
    for (int k = 0; k < KINDS; k++) read_config(path, k, k);
    read_config(path, 0, KINDS - 1);
    return 0;
}
