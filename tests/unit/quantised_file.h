/* quantised_file.h - the weights of a mini checkpoint, with quantised matrices. */
#ifndef SG_QUANTISED_FILE_H
#define SG_QUANTISED_FILE_H

#include "unit.h"

#include "gguf_file.h"
#include "quant.h"

/* Weights of which most matrices have rows of whole blocks. */
#define QUANTISED_FROM SG_FIXTURES "/wan21_hd64/transformer/diffusion_pytorch_model.safetensors.index.json"

/* t as Q8_0, or as FP8; its data are the caller's to free. */
static inline sg_tensor quantised(sg_tensor t, bool q8_0)
{
    const int64_t n = sg_count(t);
    float *const  x = malloc((size_t)n * sizeof *x);
    sg_tensor     q = {.data = malloc(2 * (size_t)n), .dtype = SG_F8, .rank = 2, .dim = {t.dim[0], t.dim[1]}};
    assert_true(x && q.data);
    for (int64_t i = 0; i < n; i++) {
        x[i] = sg_load(&t, i);
        sg_store(&q, i, x[i]);
    }
    if (q8_0) q.quant.type = SG_QUANT_Q8_0;
    if (q8_0) assert_true(sg_quant_pack(q.data, x, (size_t)n));
    free(x);
    return q;
}

/* The weights at `from` to the file `to`, GGUF with Q8_0 or safetensors with FP8, with scales of rows for every second
 * matrix. What has no rows of whole blocks stays as it is. */
static inline void quantised_write(const char *from, const char *to)
{
    enum { MOST = 256, ROWS = 1024 };
    static sg_named_tensor all[2 * MOST];
    static char            name[MOST][128];
    static float           scale[ROWS];
    const gguf_key         key = {.name = "general.architecture", .kind = 's', .text = "wan"};
    const bool             gguf = strstr(to, ".gguf") != NULL;
    sg_source             *s = NULL;
    sg_error               e = {0};
    if (sg_source_open(&s, from, &e)) fail_msg("%s", e.text);
    const int count = (int)sg_source_count(s);
    int       sum = count;
    assert_true(count <= MOST);
    for (int i = 0; i < ROWS; i++) scale[i] = i % 3 ? 1 : 0.5f;
    for (int i = 0; i < count; i++) {
        sg_tensor t = sg_source_view(s, (size_t)i);
        if (t.rank == 5 && t.dim[2] == 1) t = sg_reshape(t, t.dim[0], t.dim[1], t.dim[3], t.dim[4]);
        all[i] = (sg_named_tensor){sg_source_at(s, (size_t)i)->name, t};
        if (t.rank != 2 || t.dim[1] % 32) continue;
        all[i].t = quantised(t, gguf);
        snprintf(name[i], sizeof name[i], "%s_scale", all[i].name);
        const sg_tensor rows = {.data = scale, .rank = 1, .dim = {t.dim[0]}};
        if (!gguf && i % 2 && t.dim[0] <= ROWS) all[sum++] = (sg_named_tensor){name[i], rows};
    }
    if (gguf)
        gguf_write(to, &key, 1, all, count);
    else if (sg_safetensors_write_all(to, all, sum, NULL, &e))
        fail_msg("%s", e.text);
    for (int i = 0; i < count; i++)
        if (all[i].t.dtype == SG_F8) free(all[i].t.data);
    sg_source_close(&s);
}

/* The mini checkpoint wan21_hd64 as the folder `to`, its denoiser with matrices of FP8. */
static inline void quantised_folder(const char *to)
{
    char path[512];
    shell("cp -rs \"$(readlink -f " SG_FIXTURES "/wan21_hd64)\" %s && rm %s/transformer/*model*", to, to);
    snprintf(path, sizeof path, "%s/transformer/diffusion_pytorch_model.safetensors", to);
    quantised_write(QUANTISED_FROM, path);
}

#endif
