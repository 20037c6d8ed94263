/* eval_files.c - see eval_files.h. */
#include "eval_files.h"
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "eval_results.h"
#include "run_folder.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PICTURES "frames"
#define FRAMES ".frames-"
#define PART ".part"
enum { LINE = 1 << 20, PART_STEM = 200 };

/* ---- names ---- */

sg_status sg_eval_files_check(const sg_eval *v, sg_error *e)
{
    static const char *const taken[] = {PICTURES,      SG_EVAL_MANIFEST, "summary.csv", "summary.json",
                                        "report.html", "image",          "last_image",  NULL};
    for (int i = 0; i < v->run.arms.count; i++) {
        const sg_arm *const a = &v->run.arms.arm[i];
        if (sg_eval_results_owns(a->file) || taken[sg_text_place(a->file, taken)])
            return sg_error_set(e, SG_E_ARG, "--arms: '%s': name: %s is something else in the folder", a->name,
                                a->file);
    }
    return SG_OK;
}

static const char *path_of(char path[PATH_MAX], const sg_eval *v, const char *folder, const char *arm, int prompt,
                           int clip, const char *ending)
{
    char name[SG_CLIP_NAME];
    sg_clip_name_write(name, &v->names[prompt], clip, ending);
    snprintf(path, PATH_MAX, "%s/%s%s/%s", v->folder, folder, arm, name);
    return path + strlen(v->folder) + 1;
}

const char *sg_eval_clip_path(char path[PATH_MAX], const sg_eval *v, int prompt, int clip, int arm)
{
    const char *const name = sg_writer_default_name(sg_eval_frames(v, prompt));
    return path_of(path, v, "", v->run.arms.arm[arm].file, prompt, clip, sg_path_extension(name));
}

const char *sg_eval_picture_path(char path[PATH_MAX], const sg_eval *v, int prompt, int clip, int arm)
{
    return path_of(path, v, PICTURES "/", v->run.arms.arm[arm].file, prompt, clip, ".png");
}

const char *sg_eval_image_path(char path[PATH_MAX], const sg_eval *v, int prompt, int image)
{
    return path_of(path, v, sg_picture_keys[image], "", prompt, 0, ".png");
}

static sg_status make_folder(const sg_eval *v, const char *name, const char *arm, sg_error *e)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s%s", v->folder, name, arm);
    return sg_output_folder_make(path, NULL, "--output", e);
}

sg_status sg_eval_folders_make(const sg_eval *v, sg_error *e)
{
    SG_TRY(make_folder(v, PICTURES, "", e));
    for (int i = 0; i < v->run.arms.count; i++) {
        SG_TRY(make_folder(v, "", v->run.arms.arm[i].file, e));
        SG_TRY(make_folder(v, PICTURES "/", v->run.arms.arm[i].file, e));
    }
    for (int i = 0; i < SG_IMAGES; i++) {
        bool some = false;
        for (int p = 0; p < v->set.count; p++) some = some || v->pictures.hash[p][i];
        if (some) SG_TRY(make_folder(v, sg_picture_keys[i], "", e));
    }
    return SG_OK;
}

/* ---- what kills leave ---- */

typedef const char *path_maker(char path[PATH_MAX], const sg_eval *v, int prompt, int clip, int arm);

/* Is name ".CLIP.1234abcd.part" of a clip that this rank is to make? */
static bool is_part(const sg_eval *v, path_maker *make, int arm, const char *name)
{
    for (int p = 0; *name == '.' && sg_text_ends(name, PART) && p < v->set.count; p++)
        for (int k = 0; k < v->per_prompt; k++) {
            char path[PATH_MAX], own[NAME_MAX];
            if (!sg_eval_takes(v, p, k) || *sg_eval_log_state(&v->log, p, k, arm) == SG_EVAL_DONE) continue;
            make(path, v, p, k, arm);
            const size_t n = (size_t)snprintf(own, sizeof own, ".%.*s", PART_STEM, sg_path_name(path));
            if (strncmp(name, own, n) == 0 && strlen(name + n) == strlen(".1234abcd" PART)) return true;
        }
    return false;
}

/* Is it the frames of a unit that is done, or such a file on its way? */
static bool is_frames(const sg_eval *v, const char *name)
{
    int         prompt, clip, arm, n = 0;
    const bool  part = strncmp(name, "." FRAMES, strlen("." FRAMES)) == 0;
    const char *own = name + part;
    if (sscanf(own, FRAMES "%9d-%9d-%9d%n", &prompt, &clip, &arm, &n) != 3 || prompt < 0 || prompt >= v->set.count ||
        clip < 0 || clip >= v->per_prompt || (own[n] != '\0') != part)
        return false;
    return part ? sg_eval_takes(v, prompt, clip) : sg_eval_log_done(&v->log, prompt, clip);
}

/* make: of the parts in its folder; NULL: of frames. */
static void clean(const sg_eval *v, path_maker *make, int arm)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/", v->folder);
    if (make) make(path, v, 0, 0, arm);
    path[sg_path_name(path) - path - 1] = '\0';
    DIR *const d = opendir(path);
    for (const struct dirent *f; d && (f = readdir(d)) != NULL;)
        if (make ? is_part(v, make, arm, f->d_name) : is_frames(v, f->d_name)) unlinkat(dirfd(d), f->d_name, 0);
    if (d) closedir(d);
}

void sg_eval_files_clean(const sg_eval *v)
{
    for (int i = 0; i < v->run.arms.count; i++) {
        clean(v, sg_eval_clip_path, i);
        clean(v, sg_eval_picture_path, i);
    }
    clean(v, NULL, 0);
}

/* ---- frames that wait ---- */

static void frames_path(char path[PATH_MAX], const sg_eval *v, int prompt, int clip, int arm)
{
    snprintf(path, PATH_MAX, "%s/" FRAMES "%d-%d-%d", v->folder, prompt, clip, arm);
}

static void describe(char text[64], const sg_request *r)
{
    snprintf(text, 64, "frames %dx%d, %d of them, seed %" PRIu64, r->width, r->height, r->frames, r->seed);
}

sg_status sg_eval_frames_save(const sg_eval *v, int prompt, int clip, int arm, const sg_request *r, uint8_t *rgb,
                              char *line, sg_error *e)
{
    const sg_kept part[] = {{rgb, sg_arm_clip_bytes(r)}, {line, strlen(line)}};
    char          path[PATH_MAX], what[64];
    frames_path(path, v, prompt, clip, arm);
    describe(what, r);
    return sg_kept_save(path, what, part, 2, e);
}

sg_status sg_eval_frames_load(const sg_eval *v, int prompt, int clip, int arm, const sg_request *r, uint8_t *rgb,
                              char **line, sg_error *e)
{
    char *const   text = calloc(1, LINE);
    const sg_kept part[] = {{rgb, sg_arm_clip_bytes(r)}, {text, LINE - 1}};
    char          path[PATH_MAX], what[64];
    frames_path(path, v, prompt, clip, arm);
    describe(what, r);
    const sg_status status = text ? sg_kept_load(path, what, part, 2, e) : sg_error_memory(e, path);
    if (line && status == SG_OK)
        *line = text;
    else
        free(text);
    return status;
}

void sg_eval_frames_remove(const sg_eval *v, int prompt, int clip, int arm)
{
    char path[PATH_MAX];
    frames_path(path, v, prompt, clip, arm);
    unlink(path);
}
