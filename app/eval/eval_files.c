/* eval_files.c - see eval_files.h. */
#include "eval_files.h"
#include "base/hash.h"
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "eval_results.h"
#include "sink.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PICTURES "frames"
#define FRAMES ".frames-"
#define PART ".part"
enum { HEAD = 128, PART_STEM = 200 };

/* ---- names ---- */

sg_status sg_eval_files_check(const sg_eval *v, sg_error *e)
{
    static const char *const taken[] = {PICTURES,      SG_EVAL_MANIFEST, "summary.csv", "summary.json",
                                        "report.html", "image",          "last_image"};
    for (int i = 0; i < v->run.arms.count; i++) {
        const sg_arm *const a = &v->run.arms.arm[i];
        bool                free_name = !sg_eval_results_owns(a->file);
        for (size_t k = 0; k < sizeof taken / sizeof *taken; k++)
            free_name = free_name && strcmp(a->file, taken[k]) != 0;
        if (!free_name)
            return sg_error_set(e, SG_E_ARG, "--arms: '%s': name: %s is something else in the folder", a->name,
                                a->file);
    }
    return SG_OK;
}

static void path_of(char path[PATH_MAX], const char **inside, const sg_eval *v, const char *folder, int place[3],
                    const char *ending)
{
    char      name[SG_CLIP_NAME];
    const int n = snprintf(path, PATH_MAX, "%s/", v->folder);
    sg_clip_name_write(name, &v->names[place[0]], place[1], ending);
    *inside = path + n;
    snprintf(path + n, (size_t)(PATH_MAX - n), "%s%s/%s", folder, v->run.arms.arm[place[2]].file, name);
}

void sg_eval_clip_path(char path[PATH_MAX], const char **inside, const sg_eval *v, int prompt, int clip, int arm)
{
    const char *const name = sg_sink_default_name(sg_eval_frames(v, prompt));
    path_of(path, inside, v, "", (int[]){prompt, clip, arm}, sg_path_extension(name));
}

void sg_eval_picture_path(char path[PATH_MAX], const char **inside, const sg_eval *v, int prompt, int clip, int arm)
{
    path_of(path, inside, v, PICTURES "/", (int[]){prompt, clip, arm}, ".png");
}

sg_status sg_eval_folders_make(const sg_eval *v, sg_error *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/" PICTURES, v->folder);
    SG_TRY(sg_output_folder_make(path, NULL, "--out", e));
    for (int i = 0; i < v->run.arms.count; i++) {
        snprintf(path, sizeof path, "%s/%s", v->folder, v->run.arms.arm[i].file);
        SG_TRY(sg_output_folder_make(path, NULL, "--out", e));
        snprintf(path, sizeof path, "%s/" PICTURES "/%s", v->folder, v->run.arms.arm[i].file);
        SG_TRY(sg_output_folder_make(path, NULL, "--out", e));
    }
    return SG_OK;
}

/* ---- what kills leave ---- */

typedef void path_maker(char path[PATH_MAX], const char **inside, const sg_eval *v, int prompt, int clip, int arm);

/* Is name ".CLIP.1234abcd.part" of a clip that this rank is to make? */
static bool is_ours(const sg_eval *v, path_maker *make, int arm, const char *name)
{
    const size_t n = strlen(name), tail = strlen(".1234abcd" PART);
    for (int64_t u = 0; u < (int64_t)v->set.count * v->per_prompt; u++) {
        char        path[PATH_MAX];
        const char *inside;
        const int   prompt = (int)(u / v->per_prompt), clip = (int)(u % v->per_prompt);
        if (!sg_rank_takes(&v->rank, u) || *sg_eval_log_state(&v->log, prompt, clip, arm) == SG_EVAL_DONE) continue;
        make(path, &inside, v, prompt, clip, arm);
        const char *const own = sg_path_name(path);
        const size_t      stem = strlen(own) < PART_STEM ? strlen(own) : PART_STEM;
        if (n == 1 + stem + tail && strncmp(name + 1, own, stem) == 0) return true;
    }
    return false;
}

static void clean_folder(const sg_eval *v, path_maker *make, int arm)
{
    char        path[PATH_MAX];
    const char *inside;
    make(path, &inside, v, 0, 0, arm);
    path[sg_path_name(path) - path - 1] = '\0';
    DIR *const d = opendir(path);
    if (!d) return;
    for (const struct dirent *f; (f = readdir(d)) != NULL;) {
        const char *const name = f->d_name;
        if (name[0] == '.' && sg_text_ends(name, PART) && is_ours(v, make, arm, name)) unlinkat(dirfd(d), name, 0);
    }
    closedir(d);
}

static void clean_frames(const sg_eval *v)
{
    DIR *const d = opendir(v->folder);
    if (!d) return;
    for (const struct dirent *f; (f = readdir(d)) != NULL;) {
        int         prompt, clip, n = 0;
        const bool  part = strncmp(f->d_name, "." FRAMES, strlen("." FRAMES)) == 0; /* of such a file on its way */
        const char *name = f->d_name + part;
        if (sscanf(name, FRAMES "%9d-%9d%n", &prompt, &clip, &n) != 2 || prompt < 0 || prompt >= v->set.count ||
            clip < 0 || clip >= v->per_prompt || (name[n] != '\0') != part)
            continue;
        const bool ours = sg_rank_takes(&v->rank, (int64_t)prompt * v->per_prompt + clip);
        if (part ? ours : sg_eval_log_done(&v->log, prompt, clip)) unlinkat(dirfd(d), f->d_name, 0);
    }
    closedir(d);
}

void sg_eval_files_clean(const sg_eval *v)
{
    for (int i = 0; i < v->run.arms.count; i++) {
        clean_folder(v, sg_eval_clip_path, i);
        clean_folder(v, sg_eval_picture_path, i);
    }
    clean_frames(v);
}

/* ---- the first arm's frames ---- */

static void frames_path(char path[PATH_MAX], const sg_eval *v, int prompt, int clip)
{
    snprintf(path, PATH_MAX, "%s/" FRAMES "%d-%d", v->folder, prompt, clip);
}

static size_t bytes_of(const sg_request *r) { return (size_t)r->frames * sg_image_bytes(r->width, r->height); }

static void make_head(char head[HEAD], const sg_request *r, const uint8_t *rgb)
{
    memset(head, 0, HEAD);
    snprintf(head, HEAD, "sparge-gen frames %dx%d, %d of them, seed %" PRIu64 ", hash %016" PRIx64 "\n", r->width,
             r->height, r->frames, r->seed, sg_hash(SG_HASH, rgb, bytes_of(r)));
}

sg_status sg_eval_frames_save(const sg_eval *v, int prompt, int clip, const sg_request *r, const uint8_t *rgb,
                              sg_error *e)
{
    char            path[PATH_MAX], head[HEAD];
    sg_output_file *f = NULL;
    frames_path(path, v, prompt, clip);
    make_head(head, r, rgb);
    sg_status status = sg_output_file_open(&f, path, e);
    if (status == SG_OK) status = sg_output_file_write(f, head, HEAD, e);
    if (status == SG_OK) status = sg_output_file_write(f, rgb, bytes_of(r), e);
    if (status == SG_OK) status = sg_output_file_publish(&f, e);
    sg_output_file_discard(&f);
    return status;
}

sg_status sg_eval_frames_load(const sg_eval *v, int prompt, int clip, const sg_request *r, uint8_t *rgb, sg_error *e)
{
    char path[PATH_MAX], head[HEAD], wanted[HEAD];
    frames_path(path, v, prompt, clip);
    FILE *const f = fopen(path, "rbe");
    if (!f) return sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    const size_t n = bytes_of(r);
    const bool   whole = fread(head, 1, HEAD, f) == HEAD && fread(rgb, 1, n, f) == n && fgetc(f) == EOF;
    fclose(f);
    if (whole) make_head(wanted, r, rgb);
    if (whole && memcmp(head, wanted, HEAD) == 0) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: is damaged", path);
}

void sg_eval_frames_remove(const sg_eval *v, int prompt, int clip)
{
    char path[PATH_MAX];
    frames_path(path, v, prompt, clip);
    unlink(path);
}
