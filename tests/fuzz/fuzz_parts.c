/* fuzz_parts.c - a single file of a part of a model, from outside, beside a sound model: shapes that lie, names of others.
 *
 * The first byte of an input says which part the file is to be, the second which model it is beside; then come the tensors, a
 * line each: F32 or BF16, the dimensions, the name. Numbers are a hole in the file: nothing reads them before a render. */
#include "engine.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT = 1 << 16, TENSORS = 512, BYTES_MAX = 1 << 30 };

static char folder[] = "/tmp/sg_fuzz_parts_XXXXXX", path[64], config[64];

static void remove_folder(void)
{
    unlink(path);
    unlink(config);
    rmdir(folder);
}

static void make_folder(void)
{
    static bool made;
    if (!made && (!mkdtemp(folder) || atexit(remove_folder) != 0)) abort();
    made = true;
    snprintf(path, sizeof path, "%s/part.safetensors", folder);
    snprintf(config, sizeof config, "%s/config.json", folder);
}

/* What no file says, for the models' sizes. */
static void write_config(const char *text)
{
    FILE *const f = fopen(config, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) abort();
}

/* A line as an entry of the header; false: it is none. */
static bool put_entry(char *header, size_t *used, char *line, uint64_t *end)
{
    char *const dims = strchr(line, ' '), *const name = dims ? strchr(dims + 1, ' ') : NULL;
    const bool f32 = strncmp(line, "F32 ", 4) == 0;
    uint64_t   n = 1;
    if (!name || strspn(dims + 1, "0123456789,") != (size_t)(name - dims - 1) ||
        (!f32 && strncmp(line, "BF16 ", 5) != 0))
        return false;
    *dims = *name = '\0';
    for (const char *c = name + 1; *c; c++)
        if (*c < ' ' || *c > '~' || *c == '"' || *c == '\\') return false;
    for (char *d = dims + 1; *d && n <= BYTES_MAX; d += *d == ',') n *= strtoull(d, &d, 10);
    if (n > BYTES_MAX || *end + 4 * n > BYTES_MAX) return false;
    const uint64_t begin = *end;
    *end += (f32 ? 4 : 2) * n;
    *used += (size_t)snprintf(
        header + *used, 3 * TEXT - *used, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
        *used > 1 ? "," : "", name + 1, line, dims + 1, (unsigned long long)begin, (unsigned long long)*end);
    return true;
}

static void write_file(char *lines)
{
    static char header[3 * TEXT + 8];
    size_t      used = 1;
    uint64_t    end = 0;
    int         count = 0;
    strcpy(header, "{");
    for (char *line; (line = strsep(&lines, "\n")) && count < TENSORS && used < TEXT;)
        count += put_entry(header, &used, line, &end);
    header[used++] = '}';
    const int      f = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const uint64_t length = used;
    if (f < 0 || write(f, &length, 8) != 8 || write(f, header, used) != (ssize_t)used) abort();
    if (ftruncate(f, (off_t)(8 + used + end)) != 0 || close(f) != 0) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const models[] = {SG_FIXTURES "/wan21_i2v",    SG_FIXTURES "/cogvideox_15",
                                         SG_FIXTURES "/mochi_hd16",   SG_FIXTURES "/wan21_hd12",
                                         SG_FIXTURES "/hunyuan_hd16", SG_FIXTURES "/sd35_medium",
                                         SG_FIXTURES "/flux_dev",     SG_FIXTURES "/opensora_hd96"};
    static char              lines[TEXT];
    static const char        clip[] = "{\"num_attention_heads\":2}";
    static const char *const beside[] = {
        "{}",
        "{\"_class_name\":\"WanModel\",\"num_heads\":2}",
        "{}",
        "{\"_class_name\":\"AutoencoderKLCogVideoX\",\"norm_num_groups\":2}",
        "{\"_class_name\":\"CLIPVisionModel\",\"num_attention_heads\":2,\"hidden_act\":\"gelu\"}",
        "{}",
        clip,
        clip};
    enum { MODELS = sizeof models / sizeof *models, PARTS = sizeof beside / sizeof *beside };
    if (size < 2 || size >= TEXT) return 0;
    /* letters, from A on */
    const size_t part = (data[0] + 256u - 'A') % PARTS, model = (data[1] + 256u - 'A') % MODELS;
    make_folder();
    write_config(beside[part]);
    memcpy(lines, data + 2, size - 2);
    lines[size - 2] = '\0';
    write_file(lines);
    sg_engine_options o = {
        .size = sizeof(sg_engine_options), .model_dir = models[model], .backend = "ref", .dtype = "f32"};
    const char **to[] = {&o.model_dir,         &o.parts.diffusion_model, &o.parts.text_encoder, &o.parts.vae,
                         &o.parts.clip_vision, &o.preview_decoder,       &o.parts.clip_l,       &o.parts.clip_g};
    *to[part] = path;
    sg_engine *engine = NULL;
    sg_error   e = {0};
    if ((sg_engine_open(&engine, &o, &e) != SG_OK) != (e.text[0] != '\0') || (!e.text[0]) != (engine != NULL)) abort();
    if (engine) {
        sg_request r = {.size = sizeof r};
        sg_engine_defaults(engine, &r);
        int      preview[3];
        sg_plan  plan = {.size = sizeof plan};
        sg_error why = {0};
        r.prompt = "a";
        if (sg_engine_plan(engine, &r, &plan, &why) != SG_OK && !why.text[0]) abort();
        if (sg_engine_preview_size(engine, &r, preview, &why) != SG_OK && !why.text[0]) abort();
    }
    sg_engine_close(&engine);
    return 0;
}
