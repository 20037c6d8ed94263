/* source_formats.c - which format a file has. A new format is a source of its own and a line here. */
#include "base/text.h"
#include "source_state.h"

/* By a file's first bytes. A safetensors file begins with the length of its header, so that two bytes tell nothing:
 * torch's old form has 0x80 2, then its number, 0x8a 10 .... */
static const struct {
    const char *magic;
    size_t      bytes;
    sg_status (*read)(sg_source *s, const sg_map *map, sg_error *e);
} formats[] = {{"GGUF", 4, sg_gguf_read},
               {"PK\3\4", 4, sg_pth_read},
               {"\x80\x02\x8a\x0a", 4, sg_old_pth_read},
               {"", 0, sg_safetensors_read}};

static sg_status read_all(sg_source *s, const char *path, sg_error *e)
{
    sg_map map;
    size_t i = 0;
    if (sg_text_ends(path, ".index.json")) return sg_safetensors_read_index(s, e);
    SG_TRY(sg_source_map(s, &map, path, e));
    while (map.size < formats[i].bytes || memcmp(map.data, formats[i].magic, formats[i].bytes) != 0) i++;
    return formats[i].read(s, &map, e);
}

sg_status sg_source_open(sg_source **out, const char *path, sg_error *e)
{
    SG_TRY(sg_source_new(out, path, e));
    const sg_status status = read_all(*out, path, e);
    if (status != SG_OK) sg_source_close(out);
    return status;
}
