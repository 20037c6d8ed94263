/* fuzz_lora.c - any lines as the keys of a LoRA on a small model: "KEY TYPE DIMENSION...". A line that begins with @ is
 * the adapter's metadata. */
#include "../unit/lora_file.h"
#include "../unit/memory_source.h"
#include "input_file.h"
#include "lora.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TENSORS = 8, KEPT = 7, KEYS = 64, MOST = 4096 };

static const struct {
    const char *name;
    int         rank;
    int64_t     dim[5];
} wanted[TENSORS] = {
    {"patch_embedding.weight", 5, {8, 2, 1, 2, 2}}, {"blocks.0.attn1.to_q.weight", 2, {8, 12}},
    {"blocks.0.attn1.to_q.bias", 1, {8}},           {"blocks.0.norm2.weight", 1, {8}},
    {"blocks.0.scale_shift_table", 3, {1, 6, 4}},   {"scale_shift_table", 3, {1, 2, 4}},
    {"blocks.0.fused.weight", 2, {16, 8}},          {"blocks.0.kept.weight", 2, {8, 16}},
};

/* The model's names, and one matrix that the file has more rows of. */
static const sg_name_rule rules[] = {{"blocks.%d.attn1.to_q", "blocks.%d.self_attn.q", 0, {{0}}},
                                     {"blocks.%d.norm2", "blocks.%d.norm3", 0, {{0}}},
                                     {"blocks.%d.scale_shift_table", "blocks.%d.modulation", 0, {{0}}},
                                     {"blocks.%d.fused", "blocks.%d.qkv", 3, {{2, 1}, {0, 1}}}};
static const sg_name_map  map = {.rules = rules, .count = 4};

static float weights[TENSORS][256]; /* of the last, in FP8, the first bytes */

static sg_bind *model(arrays *a, sg_tensor t[TENSORS], sg_source **s)
{
    static const sg_source_type fp8 = {"F8_E4M3", SG_F8, 1, 1};
    for (int i = 0; i < TENSORS; i++) {
        sg_tensor of = {weights[i], SG_F32, wanted[i].rank, {0}};
        memcpy(of.dim, wanted[i].dim, sizeof wanted[i].dim);
        add(a, wanted[i].name, of);
        if (i != KEPT) continue;
        a->tensor[i].type = &fp8;
        a->tensor[i].bytes /= sizeof(float);
    }
    *s = open_arrays(a);
    sg_bind *const b = bind_to(*s, NULL);
    for (int i = 0; i < KEPT; i++)
        sg_bind_tensor_(b, &t[i], i % 2 ? SG_F32 : SG_BF16, wanted[i].name, wanted[i].rank, wanted[i].dim);
    sg_bind_matrix(b, &t[KEPT], SG_F32, wanted[KEPT].name, wanted[KEPT].dim[0], wanted[KEPT].dim[1]);
    return b;
}

static int bytes_of(const char *type)
{
    const char *const digits = type + strcspn(type, "0123456789");
    return atoi(digits) < 16 ? 1 : atoi(digits) > 64 ? 8 : atoi(digits) / 8;
}

/* A line as a tensor; what is no name or type of JSON is left out. */
static void put_line(lora_file *f, char *line)
{
    static float numbers_[MOST / 4];
    int64_t      dim[SG_MAX_RANK], n = 1;
    int          rank = 0;
    char        *at = NULL;
    const char *name = strtok_r(line, " ", &at), *const type = strtok_r(NULL, " ", &at);
    for (char *c = line; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == '"' || *c == '\\') *c = '_';
    if (!name || !type || type[strspn(type, "BFIU0123456789_EM")]) return;
    for (const char *d; rank < SG_MAX_RANK && (d = strtok_r(NULL, " ", &at)) != NULL; n *= dim[rank++])
        dim[rank] = (int64_t)(strtoul(d, NULL, 10) % 64);
    if (n * bytes_of(type) > MOST) return;
    for (int i = 0; i < MOST / 4; i++) numbers_[i] = (float)((i + (int)f->size) % 5) / 4;
    if (strchr(name, '!')) numbers_[0] = NAN;
    lora_put(f, name, type, rank, dim, numbers_, (size_t)(n * bytes_of(type)));
}

/* The text as a JSON string, but for what JSON lacks. */
static char *metadata_of(const char *line)
{
    sg_textbuf b = {0};
    sg_textbuf_printf(&b, "{\"lora_adapter_metadata\":\"");
    for (; *line; line++) {
        if (*line == '"' || *line == '\\') sg_textbuf_put(&b, "\\", 1);
        if ((unsigned char)*line >= 0x20) sg_textbuf_put(&b, line, 1);
    }
    sg_textbuf_put(&b, "\"}", 2);
    if (b.failed) abort();
    return b.data;
}

static const char *write_file(const uint8_t *data, size_t size)
{
    char *const       text = calloc(1, size + 1), *metadata = NULL, *at = NULL;
    const char *const path = input_file((const uint8_t *)"", 0);
    lora_file         f = {.size = 0};
    int               keys = 0;
    if (!text) abort();
    if (size) memcpy(text, data, size);
    for (char *line = strtok_r(text, "\n", &at); line && keys < KEYS; line = strtok_r(NULL, "\n", &at), keys++)
        if (*line != '@')
            put_line(&f, line);
        else if (!metadata)
            metadata = metadata_of(line + 1);
    lora_save(&f, path, metadata);
    free(metadata);
    free(text);
    return path;
}

static void expect_message(const sg_error *e)
{
    if (e->text[0] == '\0') abort();
}

static void check_figures(const sg_lora *l)
{
    const sg_lora_info f = sg_lora_describe(l);
    int                unused = 0;
    for (size_t at = 0; sg_lora_unused(l, &at);) unused++;
    if (unused != f.unused || f.unused > f.keys || f.text > f.unused || f.tensors < 0 || f.tensors > TENSORS ||
        f.rank[0] > f.rank[1])
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *const path = write_file(data, size);
    arrays            a = {.count = 0};
    sg_tensor         t[TENSORS];
    sg_source        *s;
    sg_lora          *l = NULL;
    sg_error          e = {0};
    sg_bind          *b = model(&a, t, &s);
    if (sg_lora_open(&l, path, 1, &e) != SG_OK) {
        expect_message(&e);
        if (l) abort();
    } else {
        const bool whole = sg_lora_add(l, b, size % 2 ? "transformer" : "transformer_2", &map, 0.5, &e) == SG_OK;
        if (!whole) expect_message(&e);
        check_figures(l);
        e = (sg_error){0};
        if (whole && sg_lora_check(l, &e) != SG_OK) expect_message(&e);
        e = (sg_error){0};
        sg_bind_keep_types(b, true);
        sg_bind_merge(b, size % 5 % 2);
        if (sg_bind_load(b, &devices[size % 3 % 2], NULL, NULL, &e) != SG_OK) expect_message(&e);
    }
    close_both(&b, &s);
    sg_lora_close(&l);
    return 0;
}
