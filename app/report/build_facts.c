/* build_facts.c - see build_facts.h. */
#include "build_facts.h"
#include "backend.h"
#include "base/text.h"
#include "json_build.h"
#include "sink.h"

#include <stdio.h>
#include <string.h>

/* FFmpeg and what it writes MP4 by, of what is not in kernels/. */
typedef struct build_facts {
    sg_build    kernels;
    const char *ffmpeg;        /* its version; NULL: not there */
    const char *encoder, *mp4; /* FFmpeg's name and what it makes; NULL: none opens */
} build_facts;

static build_facts facts(void)
{
    build_facts f = {.kernels = sg_backend_build(), .ffmpeg = sg_sink_ffmpeg()};
    if (f.ffmpeg) f.encoder = sg_sink_encoder(&(sg_clip){.path = "a.mp4"}, &f.mp4);
    return f;
}

/* The next of CMake's names of architectures from *at on: "80" is machine code and PTX, "80-real" and "80-virtual" are one of
 * them. False past the last. */
static bool next_target(char *name, size_t size, bool *code, bool *ptx, const char **at)
{
    const size_t whole = strcspn(*at, ","), n = strcspn(*at, ",-");
    if (!whole) return false;
    *code = strncmp(*at + n, "-virtual", 8) != 0;
    *ptx = strncmp(*at + n, "-real", 5) != 0;
    snprintf(name, size, "%.*s", (int)n, *at);
    *at += whole + ((*at)[whole] == ',');
    return true;
}

/* "machine code for 80, 90", "PTX of 80": one of both. */
static void add_targets(sg_textbuf *b, const char *targets, bool machine)
{
    char name[32];
    bool code, ptx;
    int  count = 0;
    while (next_target(name, sizeof name, &code, &ptx, &targets))
        if (machine ? code : ptx)
            sg_textbuf_printf(b, "%s%s", count++ ? ", " : machine ? ", machine code for " : ", PTX of ", name);
}

const char *sg_build_facts_text(char *text, size_t size, const char *indent)
{
    const build_facts f = facts();
    sg_textbuf        b = {0};
    if (f.kernels.cuda) {
        sg_textbuf_printf(&b, "CUDA %s", f.kernels.cuda);
        add_targets(&b, f.kernels.cuda_targets, true);
        add_targets(&b, f.kernels.cuda_targets, false);
    } else {
        sg_textbuf_printf(&b, "without CUDA: runs on the CPU");
    }
    if (*f.kernels.onednn)
        sg_textbuf_printf(&b, "\n%soneDNN %s", indent, f.kernels.onednn);
    else
        sg_textbuf_printf(&b, "\n%swithout oneDNN: products by plain C code", indent);
    if (!f.ffmpeg)
        sg_textbuf_printf(&b, "\n%swithout FFmpeg: no MP4, MKV or WebP; clips are Y4M or PNG", indent);
    else if (f.encoder)
        sg_textbuf_printf(&b, "\n%sFFmpeg %s, MP4 holds %s by %s", indent, f.ffmpeg, f.mp4, f.encoder);
    else
        sg_textbuf_printf(&b, "\n%sFFmpeg %s, which has no encoder for MP4 that opens", indent, f.ffmpeg);
    snprintf(text, size, "%s", b.failed ? "" : b.data);
    sg_textbuf_free(&b);
    return text;
}

static json_t *cuda_json(const sg_build *build)
{
    char        name[32];
    bool        code, ptx;
    const char *at = build->cuda_targets;
    if (!build->cuda) return json_null();
    json_t *codes = json_array(), *ptxs = json_array();
    while (next_target(name, sizeof name, &code, &ptx, &at)) {
        if (code) sg_json_append(&codes, json_string(name));
        if (ptx) sg_json_append(&ptxs, json_string(name));
    }
    return json_pack("{s:s, s:o, s:o}", "toolkit", build->cuda, "machine_code", codes, "ptx", ptxs);
}

json_t *sg_build_facts_json(void)
{
    const build_facts f = facts();
    return json_pack("{s:o, s:s?, s:s?, s:s?}", "cuda", cuda_json(&f.kernels), "onednn",
                     *f.kernels.onednn ? f.kernels.onednn : NULL, "ffmpeg", f.ffmpeg, "mp4_encoder", f.encoder);
}
