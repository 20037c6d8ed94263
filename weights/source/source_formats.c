/* source_formats.c - which format a file has. A new format is a source of its own and a line here. */
#include "base/text.h"
#include "safetensors.h"

sg_status sg_source_open(sg_source **out, const char *path, sg_error *e)
{
    return sg_safetensors_source(out, path, sg_text_ends(path, ".index.json"), e);
}
