/* test_weights.c - safetensors files, single and sharded, sound and hostile; and the writer. */
#include "safetensors_write.h"
#include "tensor_source.h"
#include "unit.h"

#include <fcntl.h>

/* A header of that text without padding, and data 0 1 2 ... */
static void put_sized(const char *name, const char *header, size_t n, size_t data)
{
    char *const bytes = malloc(8 + n + data);
    assert_non_null(bytes);
    for (size_t i = 0; i < 8; i++) bytes[i] = (char)(n >> (8 * i) & 0xff);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < data; i++) bytes[8 + n + i] = (char)i;
    write_bytes(name, bytes, 8 + n + data);
    free(bytes);
}

static void put(const char *name, const char *header, size_t data) { put_sized(name, header, strlen(header), data); }

static sg_source *open_good(const char *stem)
{
    sg_error   e = {0};
    sg_source *w = NULL;
    assert_done(sg_source_open_stem(&w, ".", stem, &e), &e);
    return w;
}

static void refuse(const char *names)
{
    sg_error        e = {0};
    sg_source      *w = NULL;
    const sg_status status = sg_source_open_stem(&w, ".", "m", &e);
    assert_true(status == SG_E_FILE || status == SG_E_FORMAT);
    assert_null(w);
    for (const char *c = e.text; *c; c++) assert_true((unsigned char)*c >= 0x20);
    assert_refused(status, status, &e, names);
}

static void sound_file_is_read(void **state)
{
    put("m.safetensors",
        "{\"__metadata__\":{\"format\":\"pt\",\"\":\"\\u00e9\"},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[0,12]},"
        "\"none\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[12,12]},"
        "\"a\\u002e1\":{\"data_offsets\":[12,16],\"shape\":[],\"dtype\":\"F32\"},"
        "\"long\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[16,24]}}  \n",
        24);
    sg_source *w = open_good("m");
    assert_int_equal(sg_source_count(w), 4);
    assert_int_equal(sg_source_files(w), 1);
    assert_string_equal(sg_source_path(w), "./m.safetensors");
    struct stat st;
    assert_int_equal(stat("m.safetensors", &st), 0);
    assert_int_equal(sg_source_bytes(w), st.st_size);

    sg_tensor t = sg_source_find(w, "b");
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.dtype, SG_BF16);
    assert_int_equal(t.dim[0], 2);
    assert_int_equal(t.dim[1], 3);
    assert_memory_equal(t.data, "\0\1\2\3\4\5\6\7\10\11\12\13", 12);
    t = sg_source_find(w, "a.1");
    assert_int_equal(t.rank, 1);
    assert_int_equal(sg_count(t), 1);
    assert_memory_equal(t.data, "\14\15\16\17", 4);
    t = sg_source_find(w, "none");
    assert_int_equal(t.rank, 2);
    assert_int_equal(sg_count(t), 0);

    assert_int_equal(sg_source_find(w, "long").rank, 0);
    assert_int_equal(sg_source_find(w, "c").rank, 0);
    assert_int_equal(sg_source_index(w, "c"), -1);
    assert_int_equal(sg_source_index(w, "long"), 3);
    assert_string_equal(sg_source_at(w, 3)->type->name, "I64");
    const char *const order[] = {"b", "none", "a.1", "long"};
    for (size_t i = 0; i < 4; i++) assert_string_equal(sg_source_at(w, i)->name, order[i]);
    t = sg_source_view(w, 0);
    assert_int_equal(t.rank, 2);
    sg_source_close(&w);
    assert_null(w);
    sg_source_close(&w);
}

static void file_without_tensors_is_read(void **state)
{
    put("m.safetensors", "{}", 0);
    sg_source *w = open_good("m");
    assert_int_equal(sg_source_count(w), 0);
    assert_int_equal(sg_source_find(w, "").rank, 0);
    sg_source_close(&w);
}

#define T(fields) "{\"x\":{" fields "}}"
#define X(dtype, shape, offsets) T("\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets)

static void bad_headers_are_refused(void **state)
{
    static const struct {
        const char *header;
        size_t      data;
        const char *words;
    } bad[] = {
        {"[]", 0, "m.safetensors|begin"},
        {"{", 0, "begin"},
        {"{ ", 0, "header|JSON|byte 2"},
        {"{\"x", 0, "closing quote"},
        {"{\"x\\", 0, "closing quote"},
        {"{\"x\"}", 0, "colon"},
        {"{\"x\":}", 0, "complete value"},
        {"{\"x\":{}", 0, "closing"},
        {"{\"x\":{}}}", 0, "something follows"},
        {"{\"x\":{},}", 0, "double"},
        {"{,}", 0, "double"},
        {"{\"x\":{]}", 0, "tensor \"x\"|JSON"},
        {"{\"x\":3}", 0, "tensor \"x\"|JSON"},
        {"{\"x\":[]}", 0, "tensor \"x\"|object"},
        {"{\"x\":{\"dtype\":NaN}}", 0, "JSON"},
        {"{\"\xff\":{}}", 0, "JSON|byte 1"},
        {"{\"\xc3\":{}}", 0, "JSON|byte 1"},
        {"{\"\xed\xa0\x80\":{}}", 0, "JSON|byte 1"},
        {"{\"\\ud800\":{}}", 0, "JSON|byte 1"},
        {"{\"a\\u0000b\":{}}", 0, "JSON|byte 1"},
        {"{\"a\x1b\":{}}", 0, "JSON|byte 1"},
        {"{\"\\u001b[2J\":{}}", 0, "tensor \"?[2J\"|dtype|missing"},
        {X("\"F32\"", "[1]", "[0,4]}, \"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]"), 4,
         "\"x\"|twice"},
        {X("\"F32\"", "[1]", "[0,4]}, \"\\u0078\":{"), 4, "\"x\"|twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__|twice"},
        {"{\"__metadata__\":[]}", 0, "__metadata__|JSON|object"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "__metadata__|\"k\"|string"},
        {"{\"__metadata__\":{\"k\":\"\\x\"}}", 0, "__metadata__|\"k\"|invalid"},
        {"{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", 0, "__metadata__|\"k\"|twice"},
        {T("\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]"), 4, "tensor \"x\"|duplicate"},
        {T("\"shape\":[1],\"data_offsets\":[0,4]"), 4, "dtype|missing"},
        {T("\"dtype\":\"F32\",\"data_offsets\":[0,4]"), 4, "shape|missing"},
        {T("\"dtype\":\"F32\",\"shape\":[1]"), 4, "data_offsets|missing"},
        {T("\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"b\":0"), 4, "\"b\"|field"},
        {X("32", "[1]", "[0,4]"), 4, "dtype|string"},
        {X("\"F33\"", "[1]", "[0,4]"), 4, "dtype|\"F33\"|known"},
        {X("\"F32\"", "1", "[0,4]"), 4, "shape|list"},
        {X("\"F32\"", "[1,1,1,1,1,1]", "[0,4]"), 4, "6|dimensions|5"},
        {X("\"F32\"", "[1,-1]", "[0,4]"), 4, "shape[1]|number"},
        {X("\"F32\"", "[1.0]", "[0,4]"), 4, "shape[0]|number"},
        {X("\"F32\"", "[1e30]", "[0,4]"), 4, "shape[0]|number"},
        {X("\"F32\"", "[\"1\"]", "[0,4]"), 4, "shape[0]|number"},
        {X("\"F32\"", "[18446744073709551617]", "[0,4]"), 4, "tensor \"x\"|integer"},
        {X("\"F32\"", "[4611686018427387905,4]", "[0,16]"), 16, "too large"},
        {X("\"F32\"", "[0,9223372036854775807,2]", "[0,0]"), 0, "too large"},
        {X("\"F32\"", "[1]", "4"), 4, "data_offsets|list"},
        {X("\"F32\"", "[1]", "[0]"), 4, "data_offsets|list"},
        {X("\"F32\"", "[1]", "[0,4,4]"), 4, "data_offsets|list"},
        {X("\"F32\"", "[1]", "[0,4.0]"), 4, "data_offsets|list"},
        {X("\"F32\"", "[1]", "[4,0]"), 4, "[4, 0]|rise"},
        {X("\"F32\"", "[1]", "[-4,0]"), 4, "[-4, 0]|rise"},
        {X("\"F32\"", "[2]", "[0,8]"), 4, "[0, 8]|beyond|4"},
        {X("\"F32\"", "[1]", "[9223372036854775803,9223372036854775807]"), 4, "go beyond"},
        {X("\"F32\"", "[2]", "[0,4]"), 4, "F32|[2]|64|bits|4|bytes"},
        {X("\"F4\"", "[3]", "[0,1]"), 1, "F4|[3]|12|bits"},
        {X("\"F32\"", "[0]", "[0,4]"), 4, "F32|[0]|0|bits"},
        {X("\"U8\"", "[3]", "[1,4]"), 4, "tensor \"x\"|1|belongs"},
        {X("\"U8\"", "[3]", "[0,3]"), 4, "1|belongs"},
        {"{}", 1, "1|belongs"},
        {X("\"U8\"", "[3]", "[0,3]},\"y\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]"), 4,
         "tensor \"y\"|overlaps|tensor \"x\""},
        {X("\"U8\"", "[4]", "[0,4]},\"y\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]"), 4, "overlaps"},
        {X("\"U8\"", "[4]", "[0,4]},\"y\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]"), 4, "overlaps"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put("m.safetensors", bad[i].header, bad[i].data);
        refuse(bad[i].words);
    }
    put_sized("m.safetensors", "{\"a\0b\":{}}", 10, 0);
    refuse("JSON|byte 3|zero");
    put_sized("m.safetensors", "{}\0", 3, 0);
    refuse("JSON|byte 2|zero");
}

static void bad_lengths_are_refused(void **state)
{
    static const uint64_t lengths[] = {3, 100, 100000001, (uint64_t)1 << 63, UINT64_MAX, UINT64_MAX - 7};
    char                  bytes[10] = {0};
    write_bytes("m.safetensors", bytes, 0);
    refuse("m.safetensors|empty");
    for (size_t n = 1; n < 8; n++) {
        write_bytes("m.safetensors", bytes, n);
        refuse("too few");
    }
    write_bytes("m.safetensors", bytes, 8);
    refuse("begin");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memcpy(bytes, &lengths[i], 8);
        memcpy(bytes + 8, "{}", 2);
        write_bytes("m.safetensors", bytes, 10);
        refuse(lengths[i] > 100000000 ? "announced|100000000" : "cut short");
    }
}

static void monsters_are_refused(void **state)
{
    const size_t size = 2000000;
    char *const  text = malloc(size + 64);
    assert_non_null(text);
    memcpy(text, "{\"x\":", 5);
    memset(text + 5, '[', size);
    put_sized("m.safetensors", text, size, 0);
    refuse("complete value");
    memset(text + 5 + size / 2, ']', size / 2);
    text[5 + size / 2 * 2] = '}';
    put_sized("m.safetensors", text, 6 + size, 0);
    refuse("tensor \"x\"|description|2000000");
    memset(text + 5, '[', 4000);
    memset(text + 5 + 2000, ']', 2000);
    text[4005] = '}';
    put_sized("m.safetensors", text, 4006, 0);
    refuse("tensor \"x\"|object");

    memset(text, 'n', size); /* a name of nearly 2 MB */
    memcpy(text, "{\"", 2);
    strcpy(text + size, "\":{\"dtype\":\"F32\"}}");
    put("m.safetensors", text, 0);
    refuse("tensor \"nnnn|shape|missing");
    free(text);
}

static void many_tensors_are_read(void **state)
{
    const size_t n = 20000;
    char *const  text = malloc(n * 90);
    char        *at = text;
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        at += sprintf(at, "%c\"t%zu\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}", i ? ',' : '{', i,
                      n - 1 - i, n - i);
    strcpy(at, "}");
    put("m.safetensors", text, n);
    free(text);
    sg_source *w = open_good("m");
    assert_int_equal(sg_source_count(w), n);
    for (size_t i = 0; i < n; i += 999) {
        char name[32];
        snprintf(name, sizeof name, "t%zu", i);
        assert_int_equal(((uint8_t *)sg_source_find(w, name).data)[0], (n - 1 - i) & 0xff);
        assert_int_equal(sg_source_index(w, name), n - 1 - i);
    }
    sg_source_close(&w);
}

/* A header's length may begin with the bytes of anything: 640 with those of a pickle. */
static void length_of_a_header_is_no_magic(void **state)
{
    char header[641];
    snprintf(header, sizeof header, "%-640s", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}");
    put("m.safetensors", header, 1);
    sg_error   e = {0};
    sg_source *w = NULL;
    assert_done(sg_source_open(&w, "m.safetensors", &e), &e);
    assert_int_equal(sg_source_count(w), 1);
    sg_source_close(&w);
}

static void places_that_are_no_files_are_refused(void **state)
{
    refuse("neither|m.safetensors|m.safetensors.index.json");
    write_text("pytorch_model.bin", "");
    refuse("neither|pytorch_model.bin|safetensors");
    write_text("m.fp16.safetensors", "");
    refuse("neither|m.fp16.safetensors");
    assert_int_equal(mkdir("m.safetensors", 0700), 0);
    refuse("m.safetensors|folder");
    assert_int_equal(rmdir("m.safetensors"), 0);
    assert_int_equal(mkfifo("m.safetensors", 0600), 0);
    refuse("m.safetensors|regular");
    assert_int_equal(unlink("m.safetensors"), 0);
    assert_int_equal(symlink("nowhere", "m.safetensors"), 0);
    refuse("m.safetensors|opened");
    assert_int_equal(unlink("m.safetensors"), 0);
    if (geteuid() != 0) { /* root may read anything */
        put("m.safetensors", "{}", 0);
        assert_int_equal(chmod("m.safetensors", 0), 0);
        refuse("m.safetensors|opened|Permission");
    }
    sg_error   e = {0};
    sg_source *w = NULL;
    assert_refused(sg_source_open_stem(&w, "/nonexistent/folder", "m", &e), SG_E_FILE, &e, "/nonexistent/folder");
    assert_int_equal(sg_source_open_stem(&w, "/dev/null", "m", NULL), SG_E_FILE);
}

#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}"

static void put_shards(void)
{
    put("m-1.safetensors", ONE("z"), 2);
    put("m-2.safetensors", ONE("a"), 2);
}

static void sound_index_is_read(void **state)
{
    put_shards();
    write_text("m.safetensors.index.json", "{\"metadata\":{\"total_size\":4},\"weight_map\":"
                                           "{\"a\":\"m-2.safetensors\",\"z\":\"m\\u002d1.safetensors\"}}\n");
    sg_source *w = open_good("m");
    assert_int_equal(sg_source_files(w), 2);
    assert_int_equal(sg_source_count(w), 2);
    assert_string_equal(sg_source_path(w), "./m.safetensors.index.json");
    assert_string_equal(sg_source_at(w, 0)->name, "z");
    assert_string_equal(sg_source_at(w, 1)->name, "a");
    assert_int_equal(sg_source_index(w, "a"), 1);
    assert_int_equal(sg_source_find(w, "a").dim[0], 2);
    sg_source_close(&w);
    assert_int_equal(rename("m-1.safetensors", "blob"), 0); /* the hub's cache keeps links to blobs */
    assert_int_equal(symlink("blob", "m-1.safetensors"), 0);
    w = open_good("m");
    sg_source_close(&w);
}

#define MAP(map) "{\"weight_map\":{" map "}}"
#define A "\"a\":\"m-2.safetensors\""
#define Z "\"z\":\"m-1.safetensors\""

static void bad_indices_are_refused(void **state)
{
    static const struct {
        const char *index, *words;
    } bad[] = {
        {"", "m.safetensors.index.json|empty"},
        {"[]", "index|JSON|object"},
        {"{", "index|JSON|byte 1"},
        {"{}", "weight_map|missing"},
        {"{\"weight_map\":[]}", "weight_map|JSON|object"},
        {MAP(""), "weight_map|empty"},
        {"{\"metadata\":{\"a\":1,\"a\":1},\"weight_map\":{" A "," Z "}}", "\"metadata\"|duplicate"},
        {"{\"metadata\":{\"a\":01},\"weight_map\":{" A "," Z "}}", "\"metadata\"|JSON"},
        {"{\"metadata\":[[}],\"weight_map\":{" A "," Z "}}", "\"metadata\"|JSON"},
        {"{\"weight_map\":{" A "," Z "},\"weight_map\":{" A "," Z "}}", "\"weight_map\"|twice"},
        {MAP(A "," A), "weight_map: \"a\"|twice"},
        {MAP(A ",\"z\":1"), "tensor \"z\"|string"},
        {MAP(A ",\"z\":null"), "tensor \"z\"|string"},
        {MAP(A ",\"z\":\"\""), "tensor \"z\"|\"\"|folder"},
        {MAP(A ",\"z\":\"..\""), "\"..\"|file"},
        {MAP(A ",\"z\":\".\""), "\".\"|file"},
        {MAP(A ",\"z\":\"../m-1.safetensors\""), "\"../m-1.safetensors\""},
        {MAP(A ",\"z\":\"/etc/passwd\""), "\"/etc/passwd\""},
        {MAP(A ",\"z\":\"\\/etc\""), "\"/etc\""},
        {MAP(A ",\"z\":\"sub/m-1.safetensors\""), "\"sub/m-1.safetensors\""},
        {MAP(A ",\"z\":\"m\\n\""), "\"m?\""},
        {MAP(A ",\"z\":\"m-3.safetensors\""), "index.json|shard \"m-3.safetensors\"|file"},
        {MAP(A ",\"z\":\"folder\""), "folder"},
        {MAP(A ",\"z\":\"m-2.safetensors\""), "tensor \"z\"|file|m-2.safetensors"},
        {MAP(A "," Z ",\"y\":\"m-1.safetensors\""), "tensor \"y\"|file|m-1.safetensors"},
        {MAP("\"a\":\"m-1.safetensors\",\"z\":\"m-2.safetensors\""), "tensor \"a\"|m-1.safetensors|m-2.safetensors"},
        {MAP("\"a\":\"m-2.safetensors\",\"z\":\"m-4.safetensors\""), "tensor \"x\"|m-4.safetensors"},
        {MAP(A "," Z ",\"x\":\"m-5.safetensors\""), "tensor \"a\"|m-2.safetensors|m-5.safetensors"},
    };
    put_shards();
    put("m-4.safetensors", X("\"U8\"", "[2]", "[0,2]},\"z\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]"),
        4);
    put("m-5.safetensors", X("\"U8\"", "[2]", "[0,2]},\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]"),
        4);
    assert_int_equal(mkdir("folder", 0700), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_text("m.safetensors.index.json", bad[i].index);
        refuse(bad[i].words);
    }
}

static void single_file_or_index_is_chosen_as_the_peers_do(void **state)
{
    static const char *const stems[] = {"model", "diffusion_pytorch_model"};
    put_shards();
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.safetensors.index.json", stems[i]);
        write_text(name, MAP(A "," Z));
        snprintf(name, sizeof name, "%s.safetensors", stems[i]);
        put(name, ONE("a"), 2);
        sg_source *w = open_good(stems[i]);
        assert_int_equal(sg_source_files(w), i + 1);
        sg_source_close(&w);
    }
}

static void written_file_is_read_back(void **state)
{
    float                    x[6] = {1, 2, 3, 4, 5, 6};
    const sg_tensor          t = {x, SG_F32, 2, {2, 3}};
    const char *const        notes[] = {"prompt", "a \"red\" ball\n\xe2\x82\xac", "seed", "7", NULL};
    sg_error                 e = {0};
    static const char *const names[] = {"latents", "\"odd\"\\name"};
    for (int i = 0; i < 2; i++) {
        write_text("m.safetensors", "to be replaced");
        assert_int_equal(sg_safetensors_write("m.safetensors", names[i], t, i ? NULL : notes, &e), SG_OK);
        sg_source      *w = open_good("m");
        const sg_tensor r = sg_source_find(w, names[i]);
        assert_int_equal(r.rank, 2);
        assert_int_equal((uintptr_t)r.data % sizeof(float), 0);
        assert_memory_equal(r.data, x, sizeof x);
        sg_source_close(&w);
    }
    assert_int_equal(sg_safetensors_write("m.safetensors", "empty", (sg_tensor){NULL, SG_BF16, 1, {0}}, NULL, &e),
                     SG_OK);
    sg_source *w = open_good("m");
    assert_int_equal(sg_source_find(w, "empty").rank, 1);
    sg_source_close(&w);
}

static void failed_write_leaves_nothing(void **state)
{
    float             x[1] = {1};
    const sg_tensor   t = {x, SG_F32, 1, {1}};
    const char *const notes[] = {"k", "\xff", NULL};
    assert_int_equal(sg_safetensors_write("m", "x", (sg_tensor){0}, NULL, NULL), SG_E_ARG);
    assert_int_equal(sg_safetensors_write("m", "x", t, notes, NULL), SG_E_ARG);
    assert_int_equal(sg_safetensors_write("m", "\xff", t, NULL, NULL), SG_E_ARG);
    assert_int_equal(sg_safetensors_write("m", "__metadata__", t, NULL, NULL), SG_E_ARG);
    assert_int_equal(sg_safetensors_write("/nonexistent/m", "x", t, NULL, NULL), SG_E_FILE);
    assert_int_equal(files_in("."), 0);
    assert_int_equal(mkdir("m", 0700), 0);
    assert_int_equal(sg_safetensors_write("m", "x", t, NULL, NULL), SG_E_FILE);
    assert_int_equal(rmdir("m"), 0);
}

/* The mode of a file, its kind left out, or of a link itself. */
static unsigned mode_of(const char *name)
{
    struct stat st;
    assert_int_equal(lstat(name, &st), 0);
    return S_ISLNK(st.st_mode) ? 0 : st.st_mode & 07777;
}

/* What output_file.h says of links, of files that are there, and of pipes holds for tensors as for clips. */
static void output_goes_where_its_name_leads(void **state)
{
    float           x[1] = {1};
    const sg_tensor t = {x, SG_F32, 1, {1}};
    char            bytes[8] = "";
    write_text("old", "old");
    assert_int_equal(chmod("old", 0640), 0);
    assert_int_equal(symlink("old", "a.safetensors"), 0);
    assert_int_equal(symlink("a.safetensors", "b.safetensors"), 0);
    assert_int_equal(symlink("new", "c.safetensors"), 0);
    assert_int_equal(symlink("d.safetensors", "d.safetensors"), 0);
    assert_int_equal(sg_safetensors_write("b.safetensors", "x", t, NULL, NULL), SG_OK);
    assert_int_equal(sg_safetensors_write("c.safetensors", "x", t, NULL, NULL), SG_OK);
    assert_int_equal(mode_of("a.safetensors") + mode_of("b.safetensors") + mode_of("c.safetensors"), 0);
    assert_int_equal(mode_of("old"), 0640);
    assert_int_not_equal(mode_of("new"), 0);
    assert_int_equal(sg_safetensors_write("d.safetensors", "x", t, NULL, NULL), SG_E_FILE);
    assert_int_equal(files_in("."), 6);

    assert_int_equal(mkfifo("pipe", 0600), 0);
    const int reader = open("pipe", O_RDWR);
    assert_true(reader >= 0);
    assert_int_equal(sg_safetensors_write("pipe", "x", t, NULL, NULL), SG_OK);
    assert_int_equal(read(reader, bytes, 8), 8);
    assert_int_equal(bytes[1], 0);
    close(reader);
    assert_int_equal(sg_safetensors_write("/dev/null", "x", t, NULL, NULL), SG_OK);
    assert_int_equal(files_in("."), 7);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        TEST(sound_file_is_read),
        TEST(file_without_tensors_is_read),
        TEST(bad_headers_are_refused),
        TEST(bad_lengths_are_refused),
        TEST(monsters_are_refused),
        TEST(many_tensors_are_read),
        TEST(length_of_a_header_is_no_magic),
        TEST(places_that_are_no_files_are_refused),
        TEST(sound_index_is_read),
        TEST(bad_indices_are_refused),
        TEST(single_file_or_index_is_chosen_as_the_peers_do),
        TEST(written_file_is_read_back),
        TEST(failed_write_leaves_nothing),
        TEST(output_goes_where_its_name_leads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
