/* job_folder.h - the folders of jobs on the disk. */
#ifndef SG_JOB_FOLDER_H
#define SG_JOB_FOLDER_H

#include "job.h"

/* Makes the folder of a job and moves what was uploaded there; job.json comes later. */
sg_status sg_job_folder_make(const char *path, sg_job *job, const char *const upload[SG_JOB_INPUTS],
                             sg_error *e) SG_MUST_USE;

/* Checks that it is a folder, and job.json in it a file, unless that is missing: what a link leads to is not ours. */
sg_status sg_job_folder_check(const char *path, sg_error *e) SG_MUST_USE;

/* Returns the bytes of all files in it. */
int64_t sg_job_folder_bytes(const char *path);

/* Removes files that the job does not name. Returns false where one that it names has gone. */
bool sg_job_folder_clean(const char *path, const sg_job *job);

/* Removes job.json: the rest goes at the next start. */
void sg_job_folder_forget(const char *path);

/* Removes it with all files; job.json goes first. */
void sg_job_folder_remove(const char *path);

#endif
