/* source_formats.c - which format a file has. A new format is a source of its own and a line here. */
#include "base/text.h"
#include "gguf.h"
#include "pth.h"
#include "safetensors.h"

static sg_status open_safetensors(sg_source **out, const char *path, sg_error *e)
{
    return sg_safetensors_source(out, path, false, e);
}

/* By a file's first bytes. A safetensors file begins with the length of its header, so that two bytes tell nothing: torch's
 * old form has 0x80 2, then its number, 0x8a 10 .... */
static const struct {
    const char *magic;
    size_t      bytes;
    sg_status (*open)(sg_source **out, const char *path, sg_error *e);
} formats[] = {{"GGUF", 4, sg_gguf_source},
               {"PK\3\4", 4, sg_pth_source},
               {"\x80\x02\x8a\x0a", 4, sg_old_pth_source},
               {"", 0, open_safetensors}};

sg_status sg_source_open(sg_source **out, const char *path, sg_error *e)
{
    sg_map map;
    size_t i = 0;
    *out = NULL;
    if (sg_text_ends(path, ".index.json")) return sg_safetensors_source(out, path, true, e);
    SG_TRY(sg_map_open(&map, path, e));
    while (map.size < formats[i].bytes || memcmp(map.data, formats[i].magic, formats[i].bytes) != 0) i++;
    sg_map_close(&map);
    return formats[i].open(out, path, e);
}
