/* fuzz_tokenizer.c - tokenizer folders and prompts from outside.
 *
 * The first byte of an input says what the rest is: 'm' a spiece.model, 'j' a tokenizer.json, 'c' a
 * tokenizer_config.json, 's' a special_tokens_map.json, 'a' an added_tokens.json, each beside a valid model. Anything
 * else is a prompt. */
#include "prompt_clean.h"
#include "t5_tokenizer.h"

#include "../unit/spiece_maker.h"

#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/tmp/sg_fuzz_tokenizer_XXXXXX";

static const char *const names[] = {"spiece.model", "tokenizer.json", "tokenizer_config.json",
                                    "special_tokens_map.json", "added_tokens.json"};

static void write_model(void)
{
    static const char *const pairs[][2] = {{"A", "a"}, {"\357\254\201", "fi"}, {"X", ""}};
    static maker             model, part;
    static const char *const pieces[] = {"\342\226\201", "\342\226\201a", "a",      "b",     "ab",
                                         "fi",           "<0xE2>",        "<0x98>", "<0x83>"};
    model.len = part.len = 0;
    maker_piece(&model, "<pad>", 0, 3);
    maker_piece(&model, "</s>", 0, 3);
    maker_piece(&model, "<unk>", 0, 2);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        maker_piece(&model, pieces[i], -(float)i - 1, *pieces[i] == '<' ? 6 : 1);
    maker_charsmap(&part, pairs, sizeof pairs / sizeof *pairs);
    static maker normalizer;
    normalizer.len = 0;
    maker_bytes(&normalizer, 2, part.at, part.len);
    maker_bytes(&model, 3, normalizer.at, normalizer.len);
    maker_file(folder, names[0], model.at, model.len);
}

static void remove_folder(void)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) maker_file(folder, names[i], NULL, 0);
    rmdir(folder);
}

static void encode(const sg_t5_tokenizer *t, const char *text, size_t len, int max_len)
{
    int32_t *ids = NULL;
    int      count = 0;
    sg_error e = {0};
    if (sg_t5_tokenizer_encode(t, text, len, max_len, &ids, &count, &e)) return;
    if (count < 1 || count > max_len) abort();
    for (int i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= sg_t5_tokenizer_vocab(t)) abort();
    free(ids);
}

static void open_and_encode(const char *text, size_t len)
{
    static const char sample[] = "a cab</s> \342\230\203 fi\357\254\201 A\302\240<extra_id_0>X e\314\201\342\226\201b";
    sg_t5_tokenizer  *t = NULL;
    sg_error          e = {0};
    if (sg_t5_tokenizer_open(&t, folder, &e)) {
        if (!e.text[0] || t) abort();
        return;
    }
    encode(t, sample, sizeof sample - 1, 512);
    encode(t, text, len, 7);
    sg_t5_tokenizer_close(&t);
}

static void clean_and_encode(const char *text, size_t len)
{
    char    *clean = NULL;
    size_t   n = 0;
    sg_error e = {0};
    if (!sg_prompt_clean(text, len, &clean, &n, &e)) open_and_encode(clean, n);
    free(clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char kinds[] = "mjcsa";
    static int        ready;
    if (!ready) {
        if (!mkdtemp(folder)) abort();
        atexit(remove_folder);
        write_model();
        ready = 1;
    }
    const char  *text = size ? (const char *)data + 1 : "", *kind = size && *data ? strchr(kinds, *data) : NULL;
    const size_t len = size ? size - 1 : 0;
    if (!kind) {
        clean_and_encode(text, len);
        return 0;
    }
    maker_file(folder, names[kind - kinds], text, len);
    open_and_encode(text, len);
    maker_file(folder, names[kind - kinds], NULL, 0);
    if (kind == kinds) write_model();
    return 0;
}
