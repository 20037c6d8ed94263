/* fuzz_job.c - any bytes as a job on the disk, and as what a client asks for; what is taken names no file outside its
 * folder, and is the same when it is written and read again. */
#include "base/json_input.h"
#include "expect.h"
#include "input_file.h"
#include "job.h"
#include "settings.h"

#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char id[] = "0123456789abcdef0123456789abcdef";
static char       folder[] = "/tmp/sg_fuzz_folder_XXXXXX", name[64], again[64];

static void remove_folder(void)
{
    char path[96];
    snprintf(path, sizeof path, "%s/job.json", again);
    unlink(path);
    rmdir(again);
    unlink(name);
    rmdir(folder);
}

/* The folder in which data is job.json. */
static const char *input_folder(const uint8_t *data, size_t size)
{
    const char *const file = input_file(data, size);
    if (*name) return folder;
    expect(mkdtemp(folder) != NULL);
    snprintf(name, sizeof name, "%s/job.json", folder);
    snprintf(again, sizeof again, "%s/again", folder);
    expect(symlink(file, name) == 0 && mkdir(again, 0700) == 0);
    atexit(remove_folder);
    return folder;
}

static void expect_safe(const char *text) { expect(!strchr(text, '/') && *text != '.'); }

/* What a client may decide. */
static void expect_own_settings(const sg_settings *s)
{
    const sg_settings empty = sg_options_empty(SG_COMMAND_RENDER);
    const sg_option  *o;
    for (int i = 0; (o = sg_option_next(SG_COMMAND_RENDER, &i)) != NULL;) {
        const bool others =
            strcmp(o->name, "model") == 0 || strcmp(o->name, "output") == 0 || o->kind == SG_OPTION_LIST;
        expect(others || sg_serve_option_allowed(o) || !sg_settings_has(s, o) || sg_settings_has(&empty, o));
        expect(o->kind != SG_OPTION_INT || !sg_settings_has(s, o) || *(const int *)sg_settings_value(s, o) <= o->hi);
    }
    if (s->model) expect_safe(s->model);
    if (s->output) expect_safe(s->output);
    for (int i = 0; i < s->lora.count; i++) expect_safe(s->lora.item[i]);
    for (int i = 0; i < s->high_noise_lora.count; i++) expect_safe(s->high_noise_lora.item[i]);
}

static void read_settings(const uint8_t *data, size_t size)
{
    json_t       *j = NULL;
    sg_json_fault fault;
    if (sg_json_parse(&j, (const char *)data, size, 1 << 12, 0, &fault) == SG_OK && json_is_object(j))
        for (int form = 0; form < 2; form++) {
            sg_settings s = sg_options_empty(SG_COMMAND_RENDER);
            sg_error    e = {0};
            if (sg_serve_options_read(&s, j, form, &e) == SG_OK)
                expect_own_settings(&s);
            else
                expect(*e.text && e.code != SG_OK);
        }
    json_decref(j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sg_job   job, other;
    sg_error e = {0};
    if (sg_job_read(&job, input_folder(data, size), id, &e) == SG_OK) {
        const char *file;
        for (size_t i = 0; (file = sg_job_file(&job, i)) != NULL; i++) expect_safe(file);
        expect(json_is_object(job.settings) && job.inputs < 1u << SG_JOB_INPUTS && !*e.text);
        expect(sg_job_save(&job, again, &e) == SG_OK && sg_job_read(&other, again, id, &e) == SG_OK);
        json_t *const a = sg_job_json(&job, -1), *const b = sg_job_json(&other, -1);
        expect(a && json_equal(a, b));
        json_decref(a);
        json_decref(b);
        sg_job_close(&other);
    } else {
        expect(e.code != SG_OK && *e.text);
    }
    sg_job_close(&job);
    read_settings(data, size);
    return 0;
}
