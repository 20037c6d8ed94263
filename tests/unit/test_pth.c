/* test_pth.c - torch's zip of a pickle: a sound one, and every lie in the zip and in the pickle. */
#include "tensor_source.h"
#include "unit.h"

static const char path[] = "m.pth";

/* ---- bytes ---- */

typedef struct bytes {
    uint8_t at[4096];
    size_t  size;
} bytes;

static void put(bytes *b, const void *from, size_t n)
{
    assert_true(n <= sizeof b->at - b->size);
    memcpy(b->at + b->size, from, n);
    b->size += n;
}

static void put_number(bytes *b, uint64_t n, int count)
{
    for (int i = 0; i < count; i++) put(b, &(uint8_t){(uint8_t)(i < 8 ? n >> (8 * i) : 0)}, 1);
}

/* ---- a pickle ---- */

#define OPS(b, literal) put(b, literal, sizeof literal - 1)

static void text(bytes *p, const char *s)
{
    OPS(p, "X");
    put_number(p, strlen(s), 4);
    put(p, s, strlen(s));
}

static void whole(bytes *p, int64_t n)
{
    OPS(p, "\x8a\x08");
    put_number(p, (uint64_t)n, 8);
}

/* A tensor [2, 3] in storage "0" of 6 elements, but for the offset, the number of rows and the stride of rows. */
static void tensor(bytes *p, int64_t offset, int64_t rows, int64_t stride)
{
    OPS(p, "ctorch._utils\n_rebuild_tensor_v2\n((");
    text(p, "storage");
    OPS(p, "ctorch\nFloatStorage\n");
    text(p, "0");
    text(p, "cpu");
    OPS(p, "K\6tQ");
    whole(p, offset);
    whole(p, rows);
    OPS(p, "K\3\x86");
    whole(p, stride);
    OPS(p, "K\1\x86\x89"
           "ccollections\nOrderedDict\n)RtR");
}

/* {"a": [2, 3], "column": its transpose's first two rows, "n": 5, "seed": 2^64 - 1, "list": [1.5, None]} */
static void sound_pickle(bytes *p)
{
    p->size = 0;
    OPS(p, "\x80\2}q\0(");
    text(p, "a");
    tensor(p, 0, 2, 3);
    text(p, "column");
    OPS(p, "ctorch._utils\n_rebuild_parameter\n(ctorch._utils\n_rebuild_tensor_v3\n((");
    text(p, "storage");
    OPS(p, "ctorch.storage\nUntypedStorage\n");
    text(p, "0");
    text(p, "cpu");
    OPS(p, "K\x18tQK\1K\2K\2\x86K\1K\3\x86\x89"
           "ccollections\nOrderedDict\n)Rctorch\nfloat32\ntR\x88"
           "ccollections\nOrderedDict\n)RtR");
    text(p, "n");
    OPS(p, "M\5\0");
    text(p, "seed");
    OPS(p, "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0");
    text(p, "list");
    OPS(p, "](G\x3f\xf8\0\0\0\0\0\0Neuh\0"
           "ccollections\nOrderedDict\n)Rb.");
}

/* ---- a zip ---- */

typedef struct lie {
    const char *name; /* of the entry that it is about; NULL: of none */
    const char *local_name;
    const char *twice; /* another entry's name */
    int         method, flags;
    int64_t     central_offset, size; /* added */
    int64_t     directory;            /* added to where it is */
    uint64_t    entries;              /* instead of the right number */
    bool        zip64, zip64_lies;
    bool        far; /* only its place is in the zip64 field, as behind 4 GiB */
} lie;

static bytes zip, directory;

static void put_entry(const char *name, const bytes *data, const lie *l)
{
    const bool   me = l->name && strcmp(l->name, name) == 0;
    const char  *local = me && l->local_name ? l->local_name : name;
    const size_t at = zip.size;
    put(&zip, "PK\3\4", 4);
    put_number(&zip, 0x0808 << 16, 4); /* a streaming writer's: sizes follow the data */
    put_number(&zip, 0, 18);
    put_number(&zip, strlen(local), 2);
    put_number(&zip, 5, 2); /* an extra field that only the local header has */
    put(&zip, local, strlen(local));
    put(&zip, "FB\1\0Z", 5);
    put(&zip, data->at, data->size);
    const uint64_t size = data->size + (uint64_t)(me ? l->size : 0), from = at + (uint64_t)(me ? l->central_offset : 0);
    put(&directory, "PK\1\2", 4);
    put_number(&directory, 0, 4);
    put_number(&directory, me ? (uint64_t)l->flags : 0, 2);
    put_number(&directory, me ? (uint64_t)l->method : 0, 2);
    put_number(&directory, 0, 8);
    put_number(&directory, l->zip64 ? UINT32_MAX : size, 4);
    put_number(&directory, l->zip64 ? UINT32_MAX : size, 4);
    put_number(&directory, strlen(name), 2);
    put_number(&directory, l->zip64 ? 28 : l->far ? 12 : 0, 2);
    put_number(&directory, 0, 10);
    put_number(&directory, l->zip64 || l->far ? UINT32_MAX : from, 4);
    put(&directory, name, strlen(name));
    if (l->far) {
        put_number(&directory, 8 << 16 | 1, 4);
        put_number(&directory, from, 8);
    }
    if (!l->zip64) return;
    put_number(&directory, 1, 2);
    put_number(&directory, l->zip64_lies && me ? 8 : 24, 2);
    put_number(&directory, size, 8);
    put_number(&directory, size, 8);
    put_number(&directory, from, 8);
}

static void put_end(const lie *l, uint64_t entries)
{
    const uint64_t at = zip.size + (uint64_t)l->directory;
    put(&zip, directory.at, directory.size);
    const uint64_t end64 = zip.size;
    if (l->entries) entries = l->entries;
    if (l->zip64) {
        put(&zip, "PK\6\6", 4);
        put_number(&zip, 44, 8);
        put_number(&zip, 0, 12);
        put_number(&zip, entries, 8);
        put_number(&zip, entries, 8);
        put_number(&zip, directory.size, 8);
        put_number(&zip, at, 8);
        put(&zip, "PK\6\7", 4);
        put_number(&zip, 0, 4);
        put_number(&zip, end64 + (l->zip64_lies && !l->name ? 1u << 30 : 0), 8);
        put_number(&zip, 1, 4);
    }
    put(&zip, "PK\5\6", 4);
    put_number(&zip, 0, 4);
    put_number(&zip, l->zip64 ? 0xffff : entries, 2);
    put_number(&zip, l->zip64 ? 0xffff : entries, 2);
    put_number(&zip, l->zip64 ? UINT32_MAX : directory.size, 4);
    put_number(&zip, l->zip64 ? UINT32_MAX : at, 4);
    put_number(&zip, 3, 2);
    put(&zip, "end", 3);
}

static void make_zip(const bytes *pickle, const lie *l)
{
    bytes data = {.size = 0}, order = {.size = 0};
    zip.size = directory.size = 0;
    for (int i = 0; i < 6; i++) {
        const float f = (float)i;
        put(&data, &f, sizeof f);
    }
    put(&order, "little", 6);
    put_entry("m/data.pkl", pickle, l);
    put_entry("m/byteorder", &order, l);
    put_entry("m/data/0", &data, l);
    if (l->twice) put_entry(l->twice, pickle, l);
    put_end(l, 3 + (l->twice != NULL));
    write_bytes(path, zip.at, zip.size);
}

/* ---- the sound file ---- */

static void a_sound_file_is_read(void **state)
{
    bytes pickle;
    sound_pickle(&pickle);
    for (int i = 0; i < 3; i++) {
        sg_error   e = {0};
        sg_source *s = NULL;
        make_zip(&pickle, &(lie){.zip64 = i == 1, .far = i == 2});
        if (sg_source_open(&s, path, &e)) fail_msg("%s", e.text);
        assert_int_equal(sg_source_count(s), 2);
        assert_int_equal(sg_source_bytes(s), zip.size);
        assert_null(sg_source_metadata(s, "format"));
        const sg_source_tensor *const a = sg_source_at(s, (size_t)sg_source_index(s, "a"));
        assert_true(a->rank == 2 && a->dim[0] == 2 && a->dim[1] == 3);
        assert_string_equal(a->type->name, "F32");
        assert_memory_equal(a->data, ((float[]){0, 1, 2, 3, 4, 5}), 24);
        const sg_source_tensor *const column = sg_source_at(s, (size_t)sg_source_index(s, "column"));
        assert_true(column->rank == 2 && column->dim[0] == 2 && column->dim[1] == 2);
        assert_memory_equal(column->data, ((float[]){1, 4, 2, 5}), 16);
        sg_source_drop(s, a->data, a->bytes);
        sg_source_drop(s, column->data, column->bytes);
        sg_source_close(&s);
    }
}

/* ---- lies ---- */

static void refuse(const char *words)
{
    sg_error   e = {0};
    sg_source *s = NULL;
    assert_refused(sg_source_open(&s, path, &e), SG_E_FORMAT, &e, path, words);
    assert_null(s);
}

static void lies_of_the_zip_are_refused(void **state)
{
    static const struct {
        lie         l;
        const char *words;
    } cases[] = {
        {{.name = "m/data/0", .method = 8}, "entry \"m/data/0\"|compressed"},
        {{.name = "m/data/0", .flags = 1}, "entry \"m/data/0\"|encrypted"},
        {{.name = "m/data/0", .local_name = "m/data/1"}, "entry \"m/data/0\"|another"},
        {{.name = "m/data/0", .local_name = "m/data/00"}, "entry \"m/data/0\"|another"},
        {{.name = "m/data/0", .central_offset = 1}, "entry \"m/data/0\"|header"},
        {{.name = "m/data/0", .central_offset = 1 << 30}, "entry \"m/data/0\"|lies"},
        {{.name = "m/data/0", .size = 4}, "entry \"m/data/0\"|28 bytes"},
        {{.name = "m/data/0", .size = UINT32_MAX - 30}, "entry \"m/data/0\"|4294967289 bytes"},
        {{.name = "m/data.pkl", .size = 40}, "\"m/data.pkl\"|\"m/byteorder\""},
        {{.name = "m/data/0", .size = -4}, "tensor \"a\"|24 bytes|20"},
        {{.name = "m/byteorder", .size = -1}, "m/byteorder|\"little\""},
        {{.twice = "n/data.pkl"}, "\"m/data.pkl\"|\"n/data.pkl\""},
        {{.twice = "m/data.pkl"}, "entry \"m/data.pkl\"|twice"},
        {{.twice = "m/../x"}, "entry \"m/../x\"|folder"},
        {{.twice = "/x"}, "entry \"/x\"|folder"},
        {{.twice = ".."}, "entry \"..\"|folder"},
        {{.twice = ""}, "entry 3"},
        {{.twice = "\xff"}, "entry 3"},
        {{.directory = 1}, "beyond"},
        {{.directory = 1 << 30}, "beyond"},
        {{.directory = -1}, "entry 0|broken"},
        {{.entries = 4}, "4 entries|announced"},
        {{.entries = 60000}, "60000 entries|announced"},
        {{.entries = UINT64_MAX, .zip64 = true}, "18446744073709551615 entries|announced"},
        {{.directory = INT64_MAX, .zip64 = true}, "beyond"},
        {{.zip64 = true, .zip64_lies = true}, "zip64|record"},
        {{.name = "m/data/0", .zip64 = true, .zip64_lies = true}, "entry \"m/data/0\"|zip64|missing"},
        {{.name = "m/data/0", .size = INT64_MAX, .zip64 = true}, "beyond"},
        {{.name = "m/data/0", .central_offset = INT64_MAX, .zip64 = true}, "entry \"m/data/0\"|lies"},
    };
    bytes pickle;
    sound_pickle(&pickle);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_zip(&pickle, &cases[i].l);
        refuse(cases[i].words);
    }
    make_zip(&pickle, &(lie){0});
    for (size_t n = 4; n < zip.size; n++) {
        write_bytes(path, zip.at, n);
        refuse("");
    }
    write_text(path, "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.");
    refuse("torch|1.6|safetensors");
}

#define LIE(literal, words)                                                                                            \
    {                                                                                                                  \
        literal, sizeof literal - 1, words                                                                             \
    }

static void lies_of_the_pickle_are_refused(void **state)
{
    static const struct {
        const char *ops;
        size_t      size;
        const char *words;
    } cases[] = {
        LIE("\x80\4}.", "byte 0|protocol 4"),
        LIE("\x80\2}", "byte 3|pickle"),
        LIE("", "byte 0|pickle"),
        LIE("}r\0\0\0\x80.", "byte 1|memo 2147483648"),
        LIE("}h\3.", "byte 1|memo 3"),
        LIE("}q\5h\3.", "byte 3|memo 3"),
        LIE("q\0.", "byte 0|empty"),
        LIE("}t.", "byte 1|stack"),
        LIE("u.", "byte 0|stack"),
        LIE("}(u.", "names no tensors"),
        LIE("}(K\1u.", "byte 4|value"),
        LIE("](K\1K\2u.", "byte 6|list"),
        LIE("}K\1a.", "byte 3|dict"),
        LIE("}(K\1s.", "byte 4|empty"),
        LIE("K\1\x86.", "byte 2|empty"),
        LIE("(\x85.", "byte 1|empty"),
        LIE("cos\nsystem\n.", "byte 0|\"os system\""),
        LIE("cposix\nsystem\n(X\2\0\0\0lstR.", "byte 0|\"posix system\""),
        LIE("c__builtin__\neval\n.", "asks|\"__builtin__ eval\""),
        LIE("ctorch\nFloatStorage", "byte 0|end"),
        LIE("\x93.", "byte 0|opcode 0x93"),
        LIE("}\x81.", "byte 1|opcode 0x81"),
        LIE("\x8a\x09........", "byte 0|pickle"),
        LIE("X\xff\xff\xff\xff.", "byte 0|pickle"),
        LIE("K\1.", "byte 2|content"),
        LIE(".", "byte 0|empty"),
        LIE("K\1K\2R.", "byte 4|function"),
        LIE("K\1)R.", "byte 3|called"),
        LIE("ctorch\nfloat16\n)R.", "\"torch float16\"|called"),
        LIE("ccollections\nOrderedDict\n(K\1tR.", "\"collections OrderedDict\"|called"),
        LIE("ctorch._utils\n_rebuild_parameter\n(K\1tR.", "_rebuild_parameter|called"),
        LIE("ctorch._utils\n_rebuild_tensor_v2\n)R.", "arguments"),
        LIE(")Q.", "byte 1|persistent"),
        LIE("K\1Q.", "byte 2|persistent"),
        LIE("(X\7\0\0\0storagectorch\nfloat16\nX\1\0\0\0"
            "0NK\6tQ.",
            "persistent"),
        LIE("(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
            "0NJ\xff\xff\xff\xfftQ.",
            "persistent"),
        LIE("(X\7\0\0\0storagectorch\nLongStorage\nX\1\0\0\0"
            "0N\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7ftQ.",
            "storage|9223372036854775807 elements"),
        LIE("}q\0(X\1\0\0\0mh\0u.", "names no tensors"),     /* a dict in itself */
        LIE("}q\0(X\5\0\0\0modelh\0u.", "names no tensors"), /* and where tensors are looked for */
        LIE("}(X\5\0\0\0model](K\1eu.", "names no tensors"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes pickle = {.size = 0};
        put(&pickle, cases[i].ops, cases[i].size);
        make_zip(&pickle, &(lie){0});
        refuse(cases[i].words);
    }
}

static void tensors_that_do_not_fit_are_refused(void **state)
{
    static const struct {
        int64_t     offset, rows, stride;
        const char *words;
    } cases[] = {{1, 2, 3, "storage|24 bytes"}, {-1, 2, 3, "arguments"},
                 {0, 2, -3, "stride"},          {0, -2, 3, "stride"},
                 {0, 2, INT64_MAX, "storage"},  {INT64_MAX, 2, 3, "storage"},
                 {0, INT64_MAX, 0, "storage"},  {0, INT64_MAX / 128, 0, "tensor \"x\"|row|safetensors"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes pickle = {.size = 0};
        OPS(&pickle, "}");
        text(&pickle, "x");
        tensor(&pickle, cases[i].offset, cases[i].rows, cases[i].stride);
        OPS(&pickle, "s.");
        make_zip(&pickle, &(lie){0});
        refuse(cases[i].words);
    }
    static const struct {
        const char *layout;
        size_t      size;
    } layouts[] = {{"K\2K\3\x86K\1\x85", 8},                         /* a stride is missing */
                   {"(K\1K\1K\1K\1K\1K\1t(K\1K\1K\1K\1K\1K\1t", 28}, /* six dimensions */
                   {"(K\2Nt(K\1K\1t", 11},                           /* a size that is no number */
                   {"K\2K\1", 4}};                                   /* no tuples */
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        bytes other = {.size = 0};
        OPS(&other, "}X\1\0\0\0xctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
                    "0NK\6tQK\0");
        put(&other, layouts[i].layout, layouts[i].size);
        OPS(&other, "\x89NtRs.");
        make_zip(&other, &(lie){0});
        refuse("stride");
    }
    bytes pickle = {.size = 0};
    OPS(&pickle, "}");
    text(&pickle, "x");
    tensor(&pickle, 0, 2, 3);
    pickle.size -= 2; /* torch's note that signs are the other way round, for one */
    OPS(&pickle, "}X\3\0\0\0neg\x88stRs.");
    make_zip(&pickle, &(lie){0});
    refuse("arguments");
    pickle.size = 0;
    OPS(&pickle, "}(");
    for (int i = 0; i < 2; i++) {
        text(&pickle, "x");
        tensor(&pickle, 0, 2, 3);
    }
    OPS(&pickle, "u.");
    make_zip(&pickle, &(lie){0});
    refuse("tensor \"x\"|twice");
}

/* A state dict under "model", and in it one under "state_dict". */
static void inner_dicts_are_entered(void **state)
{
    sg_error   e = {0};
    sg_source *s = NULL;
    bytes      pickle = {.size = 0};
    OPS(&pickle, "}");
    text(&pickle, "model");
    OPS(&pickle, "}");
    text(&pickle, "state_dict");
    OPS(&pickle, "}");
    text(&pickle, "w");
    tensor(&pickle, 0, 0, 3);
    OPS(&pickle, "sss.");
    make_zip(&pickle, &(lie){0});
    if (sg_source_open(&s, path, &e)) fail_msg("%s", e.text);
    assert_int_equal(sg_source_count(s), 1);
    assert_string_equal(sg_source_at(s, 0)->name, "w");
    assert_int_equal(sg_source_at(s, 0)->bytes, 0);
    sg_source_close(&s);
}

/* As trainings save: averaged weights count, unless there are none. */
static void averaged_weights_count(void **state)
{
    static const char *const counts[] = {"gen", "averaged"};
    for (int averaged = 0; averaged < 2; averaged++) {
        sg_error   e = {0};
        sg_source *s = NULL;
        bytes      pickle = {.size = 0};
        OPS(&pickle, "}(");
        text(&pickle, "state_dict");
        OPS(&pickle, "}(");
        text(&pickle, "gen_model");
        OPS(&pickle, "}");
        text(&pickle, "gen");
        tensor(&pickle, 0, 0, 3);
        OPS(&pickle, "s");
        text(&pickle, "dics_model");
        OPS(&pickle, "}u");
        text(&pickle, "ema_state_dict");
        OPS(&pickle, "}");
        if (averaged) {
            text(&pickle, "averaged");
            tensor(&pickle, 0, 0, 3);
            OPS(&pickle, "s");
        }
        OPS(&pickle, "u.");
        make_zip(&pickle, &(lie){0});
        assert_done(sg_source_open(&s, path, &e), &e);
        assert_int_equal(sg_source_count(s), 1);
        assert_string_equal(sg_source_at(s, 0)->name, counts[averaged]);
        sg_source_close(&s);
    }
}

/* A million lists, each in the one before. */
static void depth_costs_nothing(void **state)
{
    enum { DEPTH = 1000000 };
    static char  pickle[2 * DEPTH + 64];
    const size_t name = strlen("m/data.pkl");
    FILE *const  f = fopen(path, "wb");
    uint8_t      end[22] = "PK\5\6\0\0\0\0\1\0\1", local[30] = "PK\3\4", central[46] = "PK\1\2";
    assert_non_null(f);
    memset(pickle, ']', DEPTH);
    memset(pickle + DEPTH, 'a', DEPTH - 1);
    pickle[2 * DEPTH - 1] = '.';
    const size_t size = 2 * DEPTH, at = sizeof local + name + size, directory_size = sizeof central + name;
    local[26] = central[28] = (uint8_t)name;
    for (int i = 0; i < 4; i++) {
        central[20 + i] = central[24 + i] = (uint8_t)(size >> (8 * i));
        end[12 + i] = (uint8_t)(directory_size >> (8 * i));
        end[16 + i] = (uint8_t)(at >> (8 * i));
    }
    fwrite(local, 1, sizeof local, f);
    fputs("m/data.pkl", f);
    fwrite(pickle, 1, size, f);
    fwrite(central, 1, sizeof central, f);
    fputs("m/data.pkl", f);
    fwrite(end, 1, sizeof end, f);
    assert_int_equal(fclose(f), 0);
    refuse("content");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_file_is_read),
        cmocka_unit_test(lies_of_the_zip_are_refused),
        cmocka_unit_test(lies_of_the_pickle_are_refused),
        cmocka_unit_test(tensors_that_do_not_fit_are_refused),
        cmocka_unit_test(inner_dicts_are_entered),
        cmocka_unit_test(averaged_weights_count),
        cmocka_unit_test(depth_costs_nothing),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
