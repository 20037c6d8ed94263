/* run_folder.c - see run_folder.h. */
#include "run_folder.h"
#include "base/hash.h"
#include "base/json_input.h"
#include "base/output_file.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHOWN = 10, HEAD = 128 };

/* ---- whose it is ---- */

static bool has_mark(const char *folder, const char *const *marks)
{
    char path[PATH_MAX];
    for (; *marks; marks++) {
        snprintf(path, sizeof path, "%s/%s", folder, *marks);
        if (access(path, F_OK) == 0) return true;
    }
    return false;
}

/* The list comes first: another process may make the mark meanwhile, and then what follows it. */
sg_status sg_run_folder_check(const char *folder, const char *const *marks, sg_error *e)
{
    char       other[NAME_MAX + 1] = "";
    DIR *const d = opendir(folder);
    if (!d && errno == ENOENT) return SG_OK;
    if (!d) return sg_error_set(e, SG_E_FILE, "--output: %s cannot be read: %s", folder, strerror(errno));
    for (const struct dirent *f; (f = readdir(d)) != NULL;) {
        const bool part = f->d_name[0] == '.' && sg_text_ends(f->d_name, ".part");
        if (strcmp(f->d_name, ".") == 0 || strcmp(f->d_name, "..") == 0 || part) continue;
        if (!*other || strcmp(f->d_name, other) < 0) snprintf(other, sizeof other, "%s", f->d_name);
    }
    closedir(d);
    if (!*other || has_mark(folder, marks)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "--output: %s holds something else (%s); take a folder that is empty or not there",
                        folder, sg_show(other));
}

/* ---- the manifest ---- */

typedef struct differences {
    sg_manifest_free *may;
    int               count;
    char              text[3000];
} differences;

static const char *shown(char text[64], const json_t *v)
{
    char *const value = v ? sg_json_text(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
    sg_show_(text, 64, value ? value : "none");
    free(value);
    return text;
}

static void note(differences *d, const char *name, const json_t *there, const json_t *now)
{
    char a[64], b[64];
    if (d->count++ < SHOWN)
        sg_text_append(d->text, sizeof d->text, "\n  %.120s: %s -> %s", name, shown(a, there), shown(b, now));
}

/* To the 15 digits that a report has. */
static bool same_number(double a, double b) { return fabs(a - b) <= 1e-14 * fabs(a); }

static void compare(differences *d, const char *name, const json_t *there, const json_t *now);

static void compare_members(differences *d, const char *name, json_t *there, json_t *now)
{
    const char *key;
    json_t     *value;
    for (int more = 0; more < 2; more++) json_object_foreach(more ? now : there, key, value)
        {
            char member[256];
            if (more && json_object_get(there, key)) continue;
            snprintf(member, sizeof member, "%s%s%s", name, *name ? "." : "", key);
            compare(d, member, more ? NULL : value, json_object_get(now, key));
        }
}

static void compare(differences *d, const char *name, const json_t *there, const json_t *now)
{
    if ((there && now && json_equal(there, now)) || d->may(name, there, now)) return;
    if (json_is_number(there) && json_is_number(now) && same_number(json_number_value(there), json_number_value(now)))
        return;
    if (json_is_object(there) && json_is_object(now)) {
        compare_members(d, name, (json_t *)(uintptr_t)there, (json_t *)(uintptr_t)now);
    } else if (json_is_array(there) && json_is_array(now) && json_array_size(there) == json_array_size(now)) {
        for (size_t i = 0; i < json_array_size(there); i++) {
            char entry[256];
            snprintf(entry, sizeof entry, "%s[%zu]", name, i);
            compare(d, entry, json_array_get(there, i), json_array_get(now, i));
        }
    } else {
        note(d, name, there, now);
    }
}

sg_status sg_manifest_compare(const json_t *there, const json_t *now, const char *folder, const char *holds,
                              sg_manifest_free *may, sg_error *e)
{
    differences       d = {.may = may};
    char              more[48] = "";
    const char *const program = json_string_value(json_object_get(there, "program"));
    if (json_integer_value(json_object_get(there, "version")) != json_integer_value(json_object_get(now, "version")))
        return sg_error_set(
            e, SG_E_ARG,
            "--output: %s was begun by %.40s, whose manifest tells other things: continue with that program, "
            "or take another folder",
            folder, program ? program : "another version");
    compare(&d, "", there, now);
    if (!d.count) return SG_OK;
    if (d.count > SHOWN) snprintf(more, sizeof more, "\n  and %d more", d.count - SHOWN);
    return sg_error_set(e, SG_E_ARG,
                        "--output: %s %s by other settings; take another folder, or the settings there "
                        "(there -> now):%s%s",
                        folder, holds, d.text, more);
}

/* ---- what waits in it ---- */

static void write_head(char head[HEAD], const char *what, uint64_t hash)
{
    memset(head, 0, HEAD);
    snprintf(head, HEAD, "sparge-gen %.80s, hash %016" PRIx64 "\n", what, hash);
}

sg_status sg_kept_save(const char *path, const char *what, const sg_kept *part, int parts, sg_error *e)
{
    char            head[HEAD];
    sg_output_file *f = NULL;
    uint64_t        hash = SG_HASH;
    for (int i = 0; i < parts; i++) hash = sg_hash(hash, part[i].data, part[i].bytes);
    write_head(head, what, hash);
    sg_status status = sg_output_file_open(&f, path, e);
    if (status == SG_OK) status = sg_output_file_write(f, head, HEAD, e);
    for (int i = 0; i < parts && status == SG_OK; i++) status = sg_output_file_write(f, part[i].data, part[i].bytes, e);
    if (status == SG_OK) status = sg_output_file_publish(&f, e);
    sg_output_file_discard(&f);
    return status;
}

sg_status sg_kept_load(const char *path, const char *what, const sg_kept *part, int parts, sg_error *e)
{
    char        head[HEAD], wanted[HEAD];
    uint64_t    hash = SG_HASH;
    FILE *const f = fopen(path, "rbe");
    if (!f) return sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    bool whole = fread(head, 1, HEAD, f) == HEAD;
    for (int i = 0; i < parts; i++) hash = sg_hash(hash, part[i].data, fread(part[i].data, 1, part[i].bytes, f));
    whole = whole && fgetc(f) == EOF;
    fclose(f);
    write_head(wanted, what, hash);
    if (whole && memcmp(head, wanted, HEAD) == 0) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: is damaged", path);
}
