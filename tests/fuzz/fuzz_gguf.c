/* fuzz_gguf.c - any bytes behind the magic of a GGUF file: opened, looked through, bound and loaded; its keys as a
 * tokenizer. */
#include "input_file.h"
#include "source_input.h"
#include "tokenizer_gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tokenizer(const sg_source *s)
{
    sg_error              e = {0};
    sg_sentencepiece_file m;
    size_t                bytes = 0;
    if (sg_sentencepiece_file_from(&m, s, &e) != SG_OK) {
        if (e.text[0] == '\0') abort();
        return;
    }
    for (size_t i = 0; i < m.count; i++) bytes += m.pieces[i].len;
    if (bytes + m.charsmap_size > sg_source_bytes(s)) abort();
    sg_sentencepiece_file_close(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sg_error   e = {0};
    sg_source *s = NULL;
    if (size < 4 || memcmp(data, "GGUF", 4) != 0) return 0;
    if (sg_source_open(&s, input_file(data, size), &e) == SG_OK) {
        const char *const family = sg_source_metadata(s, "general.architecture");
        if (family && strlen(family) > size) abort();
        source_look_through(s, true);
        source_load(s);
        source_keep_all(s);
        read_tokenizer(s);
    } else if (e.text[0] == '\0' || s) {
        abort();
    }
    sg_source_close(&s);
    return 0;
}
