/* fixtures.c - writes the mini checkpoints: copies what is committed and makes the weights that each weights.txt lists.
 *
 *   golden_fixtures SOURCE TARGET
 *
 * Links are followed. A weights.txt has a line "file PATH" for every safetensors file, and after it a line
 * "NAME DTYPE SHAPE SCALE OFFSET SHIFT" for every tensor, SHAPE as 24,16,3. Numbers are those of counter.h under the name
 * CASE/PART/NAME: the folders of weights.txt and of the file. Files have the bytes that the safetensors library writes. */
#include "counter.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_ROOM = 4096, NAME_ROOM = 256, TENSORS_MAX = 4096 };

typedef struct tensor {
    char           name[NAME_ROOM], dtype[8], shape[64];
    counter_format format;
    counter_rule   rule;
    int64_t        count;
} tensor;

static tensor list[TENSORS_MAX];
static int    listed;

static void die(const char *path, const char *why)
{
    fprintf(stderr, "golden_fixtures: %s: %s\n", path, why);
    exit(1);
}

static FILE *open_file(const char *path, const char *mode)
{
    FILE *const f = fopen(path, mode);
    if (!f) die(path, "cannot be opened");
    return f;
}

static void close_written(FILE *f, const char *path)
{
    if (ferror(f) | fclose(f)) die(path, "cannot be written");
}

static void join(char to[PATH_ROOM], const char *folder, const char *name)
{
    if (snprintf(to, PATH_ROOM, "%s/%s", folder, name) >= PATH_ROOM) die(folder, "the path is too long");
}

static void copy(const char *from, const char *to)
{
    static char buffer[1 << 16];
    FILE *const in = open_file(from, "rb"), *const out = open_file(to, "wb");
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, in)) > 0;) fwrite(buffer, 1, n, out);
    if (ferror(in)) die(from, "cannot be read");
    fclose(in);
    close_written(out, to);
}

/* ---- weights ---- */

static void put_little_endian(FILE *f, uint64_t v, int bytes)
{
    for (int b = 0; b < bytes; b++) putc((int)(v >> (8 * b) & 0xff), f);
}

static void put_header(FILE *f)
{
    int64_t at = 0;
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", f);
    for (int i = 0; i < listed; i++) {
        const tensor *const t = &list[i];
        const int64_t       end = at + t->count * t->format.bytes;
        fprintf(f, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", t->name,
                t->dtype, t->shape, at, end);
        at = end;
    }
    putc('}', f);
}

/* The listed tensors as a safetensors file; then none is listed. */
static void write_file(const char *path, const char *scope)
{
    static char name[PATH_ROOM];
    char       *header = NULL;
    size_t      length = 0;
    FILE *const f = open_file(path, "wb"), *const text = open_memstream(&header, &length);
    if (!text) die(path, "no memory for the header");
    put_header(text);
    close_written(text, path);
    const size_t padded = (length + 7) / 8 * 8;
    put_little_endian(f, padded, 8);
    fprintf(f, "%s%*s", header, (int)(padded - length), "");
    free(header);
    for (int k = 0; k < listed; k++) {
        const tensor *const t = &list[k];
        join(name, scope, t->name);
        const uint64_t seed = counter_seed(name);
        for (int64_t i = 0; i < t->count; i++) {
            const int32_t v = counter_integer(seed, (uint64_t)i, t->rule);
            put_little_endian(f, counter_encode(v, t->rule.shift, t->format), t->format.bytes);
        }
    }
    close_written(f, path);
    listed = 0;
}

static bool read_tensor(const char *line, tensor *t)
{
    if (sscanf(line, "%255s %7s %63s %" SCNd32 " %" SCNd32 " %d", t->name, t->dtype, t->shape, &t->rule.scale,
               &t->rule.offset, &t->rule.shift) != 6)
        return false;
    if (strcmp(t->dtype, "F32") == 0)
        t->format = COUNTER_F32;
    else if (strcmp(t->dtype, "F16") == 0)
        t->format = COUNTER_F16;
    else if (strcmp(t->dtype, "BF16") == 0)
        t->format = COUNTER_BF16;
    else
        return false;
    t->count = 1;
    for (const char *s = t->shape; s; s = strchr(s, ','), s = s ? s + 1 : NULL) t->count *= atoll(s);
    return t->count > 0;
}

/* to: the case's folder in the target. */
static void make_weights(const char *spec, const char *to)
{
    static char line[1024], file[PATH_ROOM], path[PATH_ROOM], scope[PATH_ROOM];
    FILE *const f = open_file(spec, "r");
    *file = '\0';
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "file ", 5) == 0) {
            if (listed) write_file(path, scope);
            snprintf(file, sizeof file, "%s", line + 5);
            char *const slash = strrchr(file, '/');
            if (!slash) die(spec, line);
            join(path, to, file);
            *slash = '\0';
            join(scope, strrchr(to, '/') + 1, file);
        } else if (listed == TENSORS_MAX || !*file || !read_tensor(line, &list[listed++])) {
            die(spec, line);
        }
    }
    if (listed) write_file(path, scope);
    fclose(f);
}

/* ---- folders ---- */

static void make_folder(const char *from, const char *to)
{
    char       a[PATH_ROOM], b[PATH_ROOM];
    DIR *const d = opendir(from);
    if (!d) die(from, "cannot be opened");
    if (mkdir(to, 0777) != 0) die(to, "cannot be made; it must not be there");
    bool weights = false;
    for (const struct dirent *entry; (entry = readdir(d));) {
        struct stat st;
        if (entry->d_name[0] == '.') continue;
        join(a, from, entry->d_name);
        join(b, to, entry->d_name);
        if (stat(a, &st) != 0) die(a, "cannot be read");
        if (S_ISDIR(st.st_mode))
            make_folder(a, b);
        else if (strcmp(entry->d_name, "weights.txt") == 0)
            weights = true;
        else
            copy(a, b);
    }
    closedir(d);
    if (!weights) return;
    join(a, from, "weights.txt");
    make_weights(a, to);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: golden_fixtures SOURCE TARGET\n", stderr);
        return 2;
    }
    make_folder(argv[1], argv[2]);
    return 0;
}
