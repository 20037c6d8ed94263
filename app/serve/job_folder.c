/* job_folder.c - see job_folder.h. */
#include "job_folder.h"
#include "base/path.h"
#include "json_build.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

sg_status sg_job_folder_make(const char *path, sg_job *job, const char *const upload[SG_JOB_INPUTS], sg_error *e)
{
    if (mkdir(path, 0777) != 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be made: %s", path, strerror(errno));
    for (int i = 0; i < SG_JOB_INPUTS; i++) {
        char to[PATH_MAX];
        if (!upload[i]) continue;
        SG_TRY(sg_path_join(to, sizeof to, path, sg_job_inputs[i], e));
        if (rename(upload[i], to) != 0)
            return sg_error_set(e, SG_E_FILE, "%s: cannot be moved: %s", upload[i], strerror(errno));
        job->inputs |= 1u << i;
    }
    return SG_OK;
}

sg_status sg_job_folder_check(const char *path, sg_error *e)
{
    char        file[PATH_MAX];
    struct stat st;
    SG_TRY(sg_path_join(file, sizeof file, path, "job.json", e));
    if (lstat(path, &st) == 0 && !S_ISDIR(st.st_mode)) return sg_error_set(e, SG_E_FILE, "%s: is no folder", path);
    if (lstat(file, &st) == 0 && !S_ISREG(st.st_mode)) return sg_error_set(e, SG_E_FILE, "%s: is no file", file);
    return SG_OK;
}

/* Of a link no folder is opened. */
static DIR *open_folder(const char *path)
{
    const int  fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *const d = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !d) close(fd);
    return d;
}

int64_t sg_job_folder_bytes(const char *path)
{
    DIR *const  d = open_folder(path);
    struct stat st;
    int64_t     bytes = 0;
    for (const struct dirent *entry; d && (entry = readdir(d));)
        if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) bytes += st.st_size;
    if (d) closedir(d);
    return bytes;
}

/* What the job names, as keys: there may be ten thousand. NULL: no memory. */
static json_t *names_of(const sg_job *job)
{
    json_t     *names = json_pack("{s:b}", "job.json", 1);
    const char *own;
    for (int i = 0; i < SG_JOB_INPUTS; i++)
        if (job->inputs >> i & 1) sg_json_set(&names, sg_job_inputs[i], json_true());
    for (size_t i = 0; (own = sg_job_file(job, i)) != NULL; i++) sg_json_set(&names, own, json_true());
    return names;
}

static bool has(DIR *folder, const char *file)
{
    struct stat st;
    return fstatat(dirfd(folder), file, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

bool sg_job_folder_clean(const char *path, const sg_job *job)
{
    DIR *const    d = open_folder(path);
    json_t *const names = names_of(job);
    bool          whole = d;
    const char   *name;
    json_t       *v;
    for (const struct dirent *entry; names && d && (entry = readdir(d));)
        if (!json_object_get(names, entry->d_name)) unlinkat(dirfd(d), entry->d_name, 0); /* which no folder heeds */
    json_object_foreach(names, name, v) whole = whole && has(d, name);
    if (d) closedir(d);
    json_decref(names);
    return whole;
}

void sg_job_folder_forget(const char *path)
{
    DIR *const d = open_folder(path);
    if (!d) return;
    unlinkat(dirfd(d), "job.json", 0);
    closedir(d);
}

void sg_job_folder_remove(const char *path)
{
    sg_job_folder_forget(path);
    DIR *const d = open_folder(path);
    if (!d) return;
    for (const struct dirent *entry; (entry = readdir(d));) unlinkat(dirfd(d), entry->d_name, 0);
    closedir(d);
    rmdir(path);
}
