/* build_facts.c - see build_facts.h. */
#include "build_facts.h"
#include "backend.h"
#include "base/text.h"
#include "json_build.h"
#include "writer.h"

#include <stdio.h>
#include <string.h>

static const sg_clip an_mp4 = {.size = sizeof(sg_clip), .path = "a.mp4"}; /* its encoder is printed */

/* From CMake's names of architectures: "80" is machine code and PTX, "80-real" and "80-virtual" are one of them. */
static json_t *cuda_json(const sg_build *build)
{
    if (!build->cuda) return json_null();
    json_t *codes = json_array(), *ptxs = json_array();
    for (const char *at = build->cuda_targets; *at; at += strcspn(at, ","), at += *at == ',') {
        const size_t n = strcspn(at, ",-");
        if (strncmp(at + n, "-virtual", 8) != 0) sg_json_append(&codes, json_stringn(at, n));
        if (strncmp(at + n, "-real", 5) != 0) sg_json_append(&ptxs, json_stringn(at, n));
    }
    return json_pack("{s:s, s:o, s:o}", "toolkit", build->cuda, "machine_code", codes, "ptx", ptxs);
}

/* ", machine code for 80, 90" */
static void append_targets(char *text, size_t size, const char *what, const json_t *targets)
{
    size_t  i;
    json_t *v;
    json_array_foreach(targets, i, v) sg_text_append(text, size, "%s%s", i ? ", " : what, json_string_value(v));
}

const char *sg_build_facts_text(char text[SG_BUILD_TEXT], const char *indent)
{
    const sg_build    build = sg_backend_build();
    const char *const ffmpeg = sg_writer_ffmpeg();
    const char *what, *const encoder = sg_writer_encoder(&an_mp4, &what);
    json_t *const cuda = cuda_json(&build);
    snprintf(text, SG_BUILD_TEXT, build.cuda ? "CUDA %s" : "without CUDA: runs on the CPU", build.cuda);
    append_targets(text, SG_BUILD_TEXT, ", machine code for ", json_object_get(cuda, "machine_code"));
    append_targets(text, SG_BUILD_TEXT, ", PTX of ", json_object_get(cuda, "ptx"));
    json_decref(cuda);
    sg_text_append(text, SG_BUILD_TEXT,
                   *build.onednn ? "\n%soneDNN %s" : "\n%swithout oneDNN: products by plain C code", indent,
                   build.onednn);
    if (!ffmpeg)
        sg_text_append(text, SG_BUILD_TEXT, "\n%swithout FFmpeg: no MP4, MKV or WebP; clips are Y4M or PNG", indent);
    else if (encoder)
        sg_text_append(text, SG_BUILD_TEXT, "\n%sFFmpeg %s, MP4 holds %s by %s", indent, ffmpeg, what, encoder);
    else
        sg_text_append(text, SG_BUILD_TEXT, "\n%sFFmpeg %s, which has no encoder for MP4 that opens", indent, ffmpeg);
    sg_text_append(text, SG_BUILD_TEXT,
                   SG_STB_IMAGE ? "\n%sstb_image for pictures in BMP, GIF and TGA"
                                : "\n%swithout stb_image: pictures in BMP, GIF and TGA are not read",
                   indent);
    sg_text_append(text, SG_BUILD_TEXT,
                   SG_SERVE ? "\n%slibmicrohttpd for the web server" : "\n%swithout libmicrohttpd: no web server", indent);
    return text;
}

json_t *sg_build_facts_json(void)
{
    const sg_build build = sg_backend_build();
    const char    *what;
    return json_pack("{s:o, s:s?, s:s?, s:s?, s:b, s:b}", "cuda", cuda_json(&build), "onednn",
                     *build.onednn ? build.onednn : NULL, "ffmpeg", sg_writer_ffmpeg(), "mp4_encoder",
                     sg_writer_encoder(&an_mp4, &what), "stb_image", SG_STB_IMAGE, "microhttpd", SG_SERVE);
}
