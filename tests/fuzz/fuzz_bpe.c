/* fuzz_bpe.c - folders of byte-level tokenizers and prompts from outside.
 *
 * The first byte of an input says what the rest is: 'j' a tokenizer.json, 'c' a tokenizer_config.json beside a valid
 * tokenizer.json, 'v' a vocab.json, 'm' a merges.txt, each beside the valid other one, 'g' a GGUF with a tokenizer inside. Anything else
 * is a prompt, for both kinds of folders. */
#include "bpe_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/sg_fuzz_bpe_XXXXXX";

static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
                                    "inside.gguf"};
enum { TOKENIZER, CONFIG, VOCAB, MERGES, INSIDE, NAMES };

static const char tokenizer[] =
    "{\"added_tokens\":[{\"id\":6,\"content\":\"<|x|>\",\"special\":true,\"rstrip\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Lowercase\"}]},"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
    "\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",0],\"sep\":[\"<|x|>\",6]},"
    "\"model\":{\"unk_token\":\"?\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\304\240\":3,\"abab\":4,\"?\":5},"
    "\"merges\":[\"a b\",[\"ab\",\"ab\"]]}}";
static const char vocab[] =
    "{\"a\":0,\"a</w>\":1,\"b\":2,\"b</w>\":3,\"ab</w>\":4,\"<|startoftext|>\":5,\"<|endoftext|>\":6}";
static const char merges[] = "#version: 0.2\na b</w>\n";

static void put(int file, const char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, names[file]);
    FILE *const f = fopen(path, "wb");
    if (!f || fwrite(text, 1, size, f) != size || fclose(f) != 0) abort();
}

static void empty_folder(void)
{
    char path[64];
    for (int i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
}

static void remove_folder(void)
{
    empty_folder();
    rmdir(folder);
}

static void encode(const sg_bpe_tokenizer *t, const char *text, size_t size, int max)
{
    int32_t *ids = NULL;
    int      count = 0;
    sg_error e = {0};
    if (sg_bpe_tokenizer_encode(t, text, size, max, &ids, &count, &e)) {
        if (!e.text[0] || ids) abort();
        return;
    }
    if (!ids || count < sg_bpe_tokenizer_fixed(t) || count > max) abort();
    for (int i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= sg_bpe_tokenizer_vocab(t)) abort();
    free(ids);
}

static void encode_by(sg_bpe_tokenizer *t, sg_status opened, const sg_error *e, const char *text, size_t size)
{
    static const char sample[] = "ab abab<|x|> \n A\314\201'S 12<|endoftext|>b\302\240!";
    if (opened) {
        if (!e->text[0] || t) abort();
        return;
    }
    if (sg_bpe_tokenizer_pad(t) >= sg_bpe_tokenizer_vocab(t)) abort();
    encode(t, sample, sizeof sample - 1, 512);
    encode(t, text, size, 7);
    sg_bpe_tokenizer_close(&t);
}

static void open_and_encode(const char *text, size_t size)
{
    static const char *const pads[] = {NULL, "!"};
    for (int i = 0; i < 2; i++) {
        sg_bpe_tokenizer *t = NULL;
        sg_error          e = {0};
        const sg_status   opened = sg_bpe_tokenizer_open_padded(&t, folder, pads[i], &e);
        encode_by(t, opened, &e, text, size);
    }
}

static void open_inside_and_encode(const char *text, size_t size)
{
    char              path[64];
    sg_bpe_tokenizer *t = NULL;
    sg_error          e = {0};
    put(INSIDE, text, size);
    snprintf(path, sizeof path, "%s/%s", folder, names[INSIDE]);
    const sg_status opened = sg_bpe_tokenizer_open_inside(&t, path, &e);
    encode_by(t, opened, &e, text, size);
}

static void put_clip(void)
{
    put(VOCAB, vocab, sizeof vocab - 1);
    put(MERGES, merges, sizeof merges - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char kinds[] = "jcvm";
    static int        ready;
    if (!ready) {
        if (!mkdtemp(folder)) abort();
        atexit(remove_folder);
        ready = 1;
    }
    const char *const text = size ? (const char *)data + 1 : "";
    const char *const kind = size && *data ? strchr(kinds, *data) : NULL;
    const size_t      len = size ? size - 1 : 0;
    empty_folder();
    if (size && *data == 'g') {
        open_inside_and_encode(text, len);
        return 0;
    }
    if (kind) {
        if (kind - kinds < VOCAB)
            put(TOKENIZER, tokenizer, sizeof tokenizer - 1);
        else
            put_clip();
        put((int)(kind - kinds), text, len);
        open_and_encode(text, len);
        return 0;
    }
    put(TOKENIZER, tokenizer, sizeof tokenizer - 1);
    open_and_encode(text, len);
    empty_folder();
    put_clip();
    open_and_encode(text, len);
    return 0;
}
