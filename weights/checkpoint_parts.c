/* checkpoint_parts.c - see checkpoint.h: from a path and the parts that are given to where every component is. */
#include "base/file.h"
#include "base/path.h"
#include "base/text.h"
#include "checkpoint_state.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define HIGH "transformer" /* works first, on the noisier half */
#define LOW SECOND_EXPERT

#define TEXT SG_TEXT_ENCODER
#define IMAGE "image_encoder" /* only of models whose denoiser attends to pictures */

#define GIVES(member) offsetof(sg_model_parts, member)

/* What a model is made of, and the member of sg_model_parts that gives each part. */
static const struct {
    const char *component, *what, *member;
    size_t      gives;     /* where the member is */
    const char *tokenizer; /* of a text encoder: the member that gives its tokenizer */
    bool        asked;     /* only of models whose denoiser goes with it */
} needed[] = {
    {HIGH, "denoiser", "diffusion_model", GIVES(diffusion_model), NULL, false},
    {TEXT, "text encoder", "text_encoder", GIVES(text_encoder), "tokenizer=PATH", false},
    {SG_CLIP_L, "CLIP-L text encoder", "clip_l", GIVES(clip_l), "clip_tokenizer=FOLDER", true},
    {SG_CLIP_G, "CLIP-G text encoder", "clip_g", GIVES(clip_g), "clip_tokenizer=FOLDER", true},
    {IMAGE, "image encoder", "clip_vision", GIVES(clip_vision), NULL, true},
    {"vae", "VAE", "vae", GIVES(vae), NULL, false},
};
enum { OTHERS = 1 /* than the denoiser */, NEEDED = sizeof needed / sizeof *needed };

/* A folder's text encoders and their tokenizers. */
static const char *const encoder_names[][2] = {
    {"text_encoder", "tokenizer"}, {"text_encoder_2", "tokenizer_2"}, {"text_encoder_3", "tokenizer_3"}};
enum { ENCODERS = sizeof encoder_names / sizeof *encoder_names };

#define TOKENIZER_TENSOR "spiece_model"
#define TOKENIZER_KEY "tokenizer.ggml.model"

typedef struct opening {
    sg_checkpoint        *c;
    const sg_model_parts *parts;
    sg_known_files       *known;
    const sg_file_part   *denoiser; /* the part that the denoiser is; NULL: not known */
    /* By needed[]: the part that goes with the denoiser, or NULL; of a text encoder which of encoder_names it is with
     * this denoiser, or -1. */
    const sg_file_part *with[NEEDED];
    int                 encoder[NEEDED];
    sg_error           *e;
} opening;

/* ---- places ---- */

static sg_status put(opening *o, const sg_place *p)
{
    sg_checkpoint *const c = o->c;
    int                  i = 0;
    while (i < c->places && strcmp(c->place[i].component, p->component) != 0) i++;
    if (i == SG_PLACES_MAX) return sg_error_set(o->e, SG_E_ARG, "%s: too many parts", c->path);
    if (i == c->places) c->places++;
    c->place[i] = *p;
    return SG_OK;
}

static sg_status set_path(const opening *o, sg_place *p, const char *path)
{
    if (snprintf(p->path, sizeof p->path, "%s", path) < SG_PATH_BYTES) return SG_OK;
    return sg_error_set(o->e, SG_E_ARG, "%s: the path is too long", path);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int needed_of(const char *component)
{
    int i = 0;
    while (strcmp(needed[i].component, component) != 0) i++;
    return i;
}

/* What a file holds, of a model that is rendered or of one that is not; NULL: nothing that is known. */
static const char *content_of(const opening *o, const sg_source *s, bool rendered)
{
    for (int i = 0; i < (rendered ? NEEDED : 1); i++) {
        sg_place p = {.component = rendered ? needed[i].component : SG_NOBODYS};
        bool     found = false;
        if (sg_place_recognise(&p, &found, s, p.component, o->known, NULL) == SG_OK && found) return p.part->what;
    }
    return NULL;
}

/* For who has the wrong file; component: what it should hold, NULL: any. */
static sg_status not_known(const opening *o, const sg_source *s, const char *component)
{
    char                known[400] = "", names[400] = "";
    const char         *is = content_of(o, s, false), *prefix = "by its tensors it is ";
    const sg_file_part *p = NULL;
    for (int i = 0; i < NEEDED; i++)
        while ((!component || needed_of(component) == i) && (p = sg_next_part(o->known, p, needed[i].component)))
            if (!strstr(known, p->what)) sg_text_append(known, sizeof known, "%s%s", *known ? ", " : "", p->what);
    for (size_t i = 0; i < sg_source_count(s) && i < 3; i++)
        sg_text_append(names, sizeof names, "%s%s", i ? ", " : "", sg_show(sg_source_at(s, i)->name));
    if (!is && (is = content_of(o, s, true))) prefix = "by its tensors it is the ";
    return sg_error_set(o->e, SG_E_UNSUPPORTED, "%s: holds no %s that this program knows (%s); %s%s", sg_source_path(s),
                        component ? needed[needed_of(component)].what : "part of a model", known,
                        is ? prefix : "its first tensors are ", is ? is : names);
}

/* What a file holds of `as_known`, which the families call so, as `component`; of all parts where that is NULL. */
static sg_status put_file(opening *o, const char *component, const char *as_known, const char *path)
{
    sg_source *s = NULL;
    bool       any = false;
    SG_TRY(sg_source_open(&s, path, o->e));
    sg_status status = SG_OK;
    for (int i = 0; status == SG_OK && i < NEEDED; i++) {
        sg_place p = {.component = component ? component : needed[i].component};
        bool     found = false;
        if (as_known && strcmp(as_known, needed[i].component) != 0) continue;
        status = set_path(o, &p, path);
        if (status == SG_OK) status = sg_place_recognise(&p, &found, s, needed[i].component, o->known, o->e);
        if (status == SG_OK && found) status = put(o, &p);
        any = any || found;
    }
    if (status == SG_OK && !any) status = not_known(o, s, as_known);
    sg_source_close(&s);
    return status;
}

/* A file, or a component's folder. */
static sg_status put_given(opening *o, const char *component, const char *as_known, const char *path)
{
    sg_place p = {.component = component};
    SG_TRY(set_path(o, &p, path));
    return is_folder(path) ? put(o, &p) : put_file(o, component, as_known, path);
}

/* ---- an original repository ---- */

/* How good a name is for weights, 0 best; -1: not at all. */
static int rank_of(const char *name)
{
    static const char *const ends[] = {".safetensors.index.json", ".safetensors", ".gguf", ".pth", ".pt", ".ckpt"};
    for (int i = 0; i < (int)(sizeof ends / sizeof *ends); i++)
        if (sg_text_ends(name, ends[i])) return i;
    return -1;
}

/* The best file in a folder whose name begins and holds so, one of *count; false: there is none. */
static bool best_file(char *out, size_t size, const char *folder, const char *begins, const char *holds, int *count)
{
    char       best[256] = "";
    DIR *const d = opendir(folder);
    *count = 0;
    for (const struct dirent *f; d && (f = readdir(d));) {
        const int rank = rank_of(f->d_name), other = rank_of(best);
        if (rank < 0 || strncmp(f->d_name, begins, strlen(begins)) != 0 || !strstr(f->d_name, holds)) continue;
        ++*count;
        if (!*best || rank < other || (rank == other && strcmp(f->d_name, best) < 0))
            snprintf(best, sizeof best, "%s", f->d_name);
    }
    if (d) closedir(d);
    return *best && sg_path_join(out, size, folder, best, NULL) == SG_OK;
}

static sg_status put_from_repository(opening *o, const char *path, const sg_repository_file *r)
{
    char folder[SG_PATH_BYTES], file[SG_PATH_BYTES];
    int  count;
    SG_TRY(sg_path_join(folder, sizeof folder, path, r->folder[0] == '.' ? "" : r->folder, o->e));
    if (sg_place_find(o->c, r->component ? r->component : HIGH) ||
        !best_file(file, sizeof file, folder, r->begins, r->holds, &count))
        return SG_OK;
    return put_file(o, r->component, r->component && strcmp(r->component, LOW) == 0 ? HIGH : r->component, file);
}

static sg_status put_repository(opening *o, const char *path)
{
    char                  file[SG_PATH_BYTES], all[800] = "";
    int                   count;
    const sg_model_files *files;
    for (int i = 0; (files = o->known(i)); i++) {
        for (int k = 0; k < files->in_repository; k++) SG_TRY(put_from_repository(o, path, &files->repository[k]));
        if (files->repository_usual) sg_text_append(all, sizeof all, ", nor %s", files->repository_usual);
    }
    if (o->c->places) return SG_OK;
    if (best_file(file, sizeof file, path, "", "", &count) && count == 1)
        return put_file(o, NULL, NULL, file); /* as if it was given */
    return sg_error_set(o->e, SG_E_FILE,
                        "%s: is no model: it has neither model_index.json, as a Diffusers folder has%s", path, all);
}

/* ---- two experts ---- */

typedef enum expert { EITHER, FOR_HIGH, FOR_LOW } expert;

/* By the name of its file, "wan2.2_t2v_high_noise_14B", "Wan2.2-T2V-A14B-HighNoise", else by that of the folder, as in
 * high_noise_model/diffusion_pytorch_model.safetensors. */
static expert expert_of(const char *path)
{
    char   plain[SG_PATH_BYTES]; /* without _ and - */
    size_t n = 0;
    for (const char *p = path; *p && n + 1 < sizeof plain; p++)
        if (*p != '_' && *p != '-') plain[n++] = (char)tolower((unsigned char)*p);
    plain[n] = '\0';
    for (int i = 0; i < 2; i++) {
        char *const       slash = strrchr(plain, '/');
        const char *const name = slash ? slash : plain;
        if (strstr(name, "highnoise")) return FOR_HIGH;
        if (strstr(name, "lownoise")) return FOR_LOW;
        if (slash) *slash = '\0';
    }
    return EITHER;
}

/* Tells which expert a component is that is given or that a repository has. */
static expert expert_at(const opening *o, const char *component)
{
    const sg_place *const p = sg_place_find(o->c, component);
    return p ? expert_of(p->path) : EITHER;
}

static sg_status check_experts(const opening *o)
{
    const bool            two = sg_checkpoint_has(o->c, HIGH) && sg_checkpoint_has(o->c, LOW);
    const expert          high = expert_at(o, HIGH), low = expert_at(o, LOW);
    const sg_place *const one = sg_place_find(o->c, sg_place_find(o->c, HIGH) ? HIGH : LOW);
    char                  path[2][SG_PATH_BYTES + 64];
    if (two && (high == FOR_LOW || low == FOR_HIGH)) {
        SG_TRY(sg_checkpoint_place(o->c, HIGH, path[0], sizeof path[0], o->e));
        SG_TRY(sg_checkpoint_place(o->c, LOW, path[1], sizeof path[1], o->e));
        return sg_error_set(
            o->e, SG_E_ARG,
            "%s is given as the expert for high noise and %s as that for low noise: by their names it is "
            "the other way round",
            path[0], path[1]);
    }
    if (two || !one || !one->part || (high == EITHER && low == EITHER)) return SG_OK;
    const bool is_high = high == FOR_HIGH;
    return sg_error_set(o->e, SG_E_FILE,
                        "%s: is by its name the expert for %s noise, one of two; the one for %s noise is missing: give "
                        "both, high_noise_diffusion_model=FILE and diffusion_model=FILE",
                        one->path, is_high ? "high" : "low", is_high ? "low" : "high");
}

/* ---- parts that are given ---- */

/* What the member of needed[i] gives; NULL: nothing. */
static const char *given(const opening *o, int i)
{
    const char *path;
    memcpy(&path, (const char *)o->parts + needed[i].gives, sizeof path);
    return path;
}

static sg_status put_parts(opening *o)
{
    const char *const high = o->parts->high_noise_diffusion_model, *const other = o->parts->diffusion_model;
    /* beside a file for high noise the member gives the other expert */
    const bool beside = expert_at(o, HIGH) == FOR_HIGH && other && expert_of(other) != FOR_HIGH;
    const bool two = high || sg_checkpoint_has(o->c, LOW) || beside;
    if (high) {
        const sg_place *const one = sg_place_find(o->c, HIGH);
        if (one && !sg_place_find(o->c, LOW)) { /* of the path: it is the other expert now */
            sg_place low = *one;
            low.component = LOW;
            SG_TRY(put(o, &low));
        }
        SG_TRY(put_given(o, HIGH, HIGH, high));
    }
    if (other) SG_TRY(put_given(o, two ? LOW : HIGH, HIGH, other));
    if (high && !sg_checkpoint_has(o->c, LOW))
        return sg_error_set(
            o->e, SG_E_ARG,
            "high_noise_diffusion_model: it is one of two experts; diffusion_model=FILE gives the other");
    for (int i = OTHERS; i < NEEDED; i++)
        if (given(o, i)) SG_TRY(put_given(o, needed[i].component, needed[i].component, given(o, i)));
    return SG_OK;
}

/* ---- what goes with the denoiser ---- */

/* The denoiser in a folder of its own, by the class in its config; NULL: not known, of which its family says why. */
static const sg_file_part *part_of_folder(const opening *o, const char *folder)
{
    sg_config          *config = NULL;
    const sg_file_part *part = NULL;
    if (sg_checkpoint_open_beside(&config, folder, "config.json", NULL) != SG_OK || !config) return NULL;
    const char *const class_name = sg_config_string(config, "_class_name", "");
    while (class_name && (part = sg_next_part(o->known, part, HIGH)) && strcmp(part->class_name, class_name) != 0)
        ;
    sg_config_close(&config);
    return part;
}

static void find_denoiser(opening *o)
{
    char                       folder[SG_PATH_BYTES + 64];
    const sg_place *const      dit = sg_place_find(o->c, HIGH);
    const sg_file_part *const *with = NULL;
    if (dit && dit->part)
        o->denoiser = dit->part;
    else if (sg_checkpoint_has(o->c, HIGH) && !sg_checkpoint_place(o->c, HIGH, folder, sizeof folder, NULL))
        o->denoiser = part_of_folder(o, folder);
    if (o->denoiser) with = o->denoiser->with;
    for (int i = 0; i < NEEDED; i++) o->encoder[i] = !with && strcmp(needed[i].component, TEXT) == 0 ? 0 : -1;
    for (int n = 0; with && *with; with++) {
        const int i = needed_of((*with)->component);
        o->with[i] = *with;
        if (needed[i].tokenizer && n < ENCODERS) o->encoder[i] = n++;
    }
}

/* The usual file of needed[i]; NULL: none is known. */
static const sg_file_part *usual(const opening *o, int i)
{
    return o->with[i] ? o->with[i] : sg_next_part(o->known, NULL, needed[i].component);
}

/* Kinds of text encoders become the components that they are with this denoiser. A file with all parts may have one of
 * which the denoiser makes no use, but none may be given. "text_encoder" is a kind and a component: each place is
 * renamed once. */
static sg_status name_encoders(opening *o)
{
    sg_checkpoint *const c = o->c;
    int                  kept = 0;
    if (!sg_checkpoint_has(c, HIGH)) return SG_OK; /* which will be missed */
    for (int i = OTHERS; i < NEEDED; i++)
        if (needed[i].tokenizer && o->encoder[i] < 0 && given(o, i))
            return sg_error_set(o->e, SG_E_ARG, "%s: %s: this model has no %s", needed[i].member, given(o, i),
                                needed[i].what);
    for (int k = 0; k < c->places; k++) {
        sg_place *const p = &c->place[k];
        int             i = 0;
        while (i < NEEDED && strcmp(needed[i].component, p->component) != 0) i++;
        const bool encodes = i < NEEDED && needed[i].tokenizer;
        const int  n = encodes ? o->encoder[i] : -1;
        if (n >= 0) p->component = encoder_names[n][0];
        if (n >= 0 || !encodes) c->place[kept++] = *p;
    }
    c->places = kept;
    return SG_OK;
}

/* ---- tokenizers ---- */

static sg_status holds_tokenizer(bool *holds, const char *path, sg_error *e)
{
    sg_source *s = NULL;
    SG_TRY(sg_source_open(&s, path, e));
    *holds = sg_source_index(s, TOKENIZER_TENSOR) >= 0 || sg_source_metadata(s, TOKENIZER_KEY);
    sg_source_close(&s);
    return SG_OK;
}

/* Text encoder needed[i], which the model has, as it is given, else as it usually is. */
static const sg_file_part *encoder_part(const opening *o, int i)
{
    const sg_place *const from = sg_place_find(o->c, encoder_names[o->encoder[i]][0]);
    return from && from->part ? from->part : usual(o, i);
}

/* The tokenizer of text encoder needed[i]. */
static sg_status put_tokenizer(opening *o, int i, const char *asked)
{
    const int                 n = o->encoder[i];
    const sg_place *const     from = sg_place_find(o->c, encoder_names[n][0]);
    const sg_file_part *const part = encoder_part(o, i);
    const char *const         folder = part && part->tokenizer ? part->tokenizer : "tokenizer";
    const char *const         beside[] = {part && part->pieces ? "spiece.model" : folder, folder};
    sg_place                  p = {.component = encoder_names[n][1], .pad = part ? part->pad : NULL};
    bool                      inside = false;
    if (asked) SG_TRY(set_path(o, &p, asked));
    if (asked && access(asked, R_OK) != 0) return sg_error_set(o->e, SG_E_FILE, "%s: %s", asked, strerror(errno));
    if (asked) return put(o, &p);
    if (sg_checkpoint_has(o->c, p.component) || !from) return SG_OK;
    if (from->part) SG_TRY(holds_tokenizer(&inside, from->path, o->e));
    if (inside) memcpy(p.path, from->path, sizeof p.path);
    if (inside) return put(o, &p);
    for (size_t k = 0; k < sizeof beside / sizeof *beside; k++)
        if (sg_file_beside(from->path, beside[k], p.path, sizeof p.path) && access(p.path, R_OK) == 0)
            return put(o, &p);
    return SG_OK;
}

static sg_status put_tokenizers(opening *o)
{
    const sg_model_parts *const parts = o->parts;
    if (parts->clip_tokenizer && o->encoder[needed_of(SG_CLIP_L)] < 0 && sg_checkpoint_has(o->c, HIGH))
        return sg_error_set(o->e, SG_E_ARG, "clip_tokenizer: %s: this model has no text encoder of CLIP",
                            parts->clip_tokenizer);
    for (int i = 0; i < NEEDED; i++)
        if (o->encoder[i] >= 0) SG_TRY(put_tokenizer(o, i, needed[i].asked ? parts->clip_tokenizer : parts->tokenizer));
    return SG_OK;
}

/* ---- all of it ---- */

enum { MISSING = 1600 }; /* bytes of a list of what is missing */

static void miss(char list[MISSING], int i, const sg_file_part *part)
{
    sg_text_append(list, MISSING, "\n  the %s: give it by %s=FILE (%s)", needed[i].what, needed[i].member,
                   part ? part->usual : "a file");
}

/* Text encoder needed[i] and its tokenizer. */
static void miss_encoder(const opening *o, char list[MISSING], int i)
{
    const int                 n = o->encoder[i];
    const sg_file_part *const part = encoder_part(o, i);
    const bool                there = sg_checkpoint_has(o->c, encoder_names[n][0]);
    if (!there && o->denoiser && o->denoiser->spare == o->with[i]) return;
    if (!there) miss(list, i, part);
    if (sg_checkpoint_has(o->c, encoder_names[n][1])) return;
    sg_text_append(list, MISSING, "\n  the tokenizer%s%s: give it by %s (%s%s/ beside the text encoder)",
                   needed[i].asked ? " of the " : "", needed[i].asked ? needed[i].what : "", needed[i].tokenizer,
                   part && part->pieces ? "spiece.model, or " : "",
                   part && part->tokenizer ? part->tokenizer : "tokenizer");
}

static sg_status check_whole(const opening *o)
{
    char list[MISSING] = "";
    for (int i = 0; i < NEEDED; i++) {
        if (needed[i].asked && !o->with[i]) continue;
        if (o->encoder[i] >= 0)
            miss_encoder(o, list, i);
        else if (!sg_checkpoint_has(o->c, needed[i].component))
            miss(list, i, usual(o, i));
    }
    return *list ? sg_error_set(o->e, SG_E_FILE, "%s: the model is not whole; missing:%s", o->c->path, list) : SG_OK;
}

static sg_status open_into(opening *o, const char *path)
{
    sg_checkpoint *const c = o->c;
    if (path && !c->diffusers) SG_TRY(is_folder(path) ? put_repository(o, path) : put_file(o, NULL, NULL, path));
    SG_TRY(put_parts(o));
    SG_TRY(check_experts(o));
    find_denoiser(o);
    SG_TRY(name_encoders(o));
    SG_TRY(put_tokenizers(o));
    if (!c->diffusers) SG_TRY(check_whole(o));
    for (int i = 0; i < c->places; i++) /* which stay where they are now */
        if (c->place[i].part) c->place[i].map.prefix = c->place[i].prefix;
    return c->places ? sg_checkpoint_describe(c, o->e) : SG_OK;
}

/* Some original repositories have their own folder within one that is called as a component is. */
static bool is_diffusers(const char *path, sg_known_files *known)
{
    char                  part[SG_PATH_BYTES + 64];
    const sg_model_files *files;
    if (sg_checkpoint_is(path)) return true;
    for (int i = 0; (files = known(i)); i++)
        for (int k = 0; k < files->in_repository; k++)
            if (strncmp(files->repository[k].folder, HIGH "/", strlen(HIGH "/")) == 0 &&
                sg_path_join(part, sizeof part, path, files->repository[k].folder, NULL) == SG_OK && is_folder(part))
                return false;
    return sg_path_join(part, sizeof part, path, HIGH, NULL) == SG_OK && is_folder(part);
}

sg_status sg_checkpoint_open_parts(sg_checkpoint **out, const char *path, const sg_model_parts *parts,
                                   sg_known_files *known, sg_error *e)
{
    static const sg_model_parts none;
    if (!parts) parts = &none;
    const char *const any[] = {path, parts->diffusion_model, parts->high_noise_diffusion_model};
    const char       *name = NULL;
    struct stat       st;
    for (size_t i = 0; !name && i < sizeof any / sizeof *any; i++) name = any[i];
    *out = NULL;
    if (!name)
        return sg_error_set(e, SG_E_ARG, "the denoiser is missing: give the path of a model, or diffusion_model=FILE");
    SG_TRY(sg_checkpoint_open(out, name, e));
    (*out)->diffusers = path && is_diffusers(path, known);
    sg_status status = SG_OK;
    if (path && stat(path, &st) != 0) status = sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    if (status == SG_OK) status = open_into(&(opening){.c = *out, .parts = parts, .known = known, .e = e}, path);
    if (status != SG_OK) sg_checkpoint_close(out);
    return status;
}

/* ---- a language model ---- */

static sg_status open_language(opening *o, const char *path)
{
    sg_checkpoint *const c = o->c;
    sg_place             tokenizer = {.component = encoder_names[0][1]};
    bool                 inside = false;
    if (access(path, R_OK) != 0) return sg_error_set(o->e, SG_E_FILE, "%s: %s", path, strerror(errno));
    SG_TRY(put_given(o, TEXT, TEXT, path));
    SG_TRY(set_path(o, &tokenizer, path));
    SG_TRY(put(o, &tokenizer));
    if (!c->place[0].part) return SG_OK;
    c->place[0].map.prefix = c->place[0].prefix;
    SG_TRY(holds_tokenizer(&inside, path, o->e));
    if (!inside)
        return sg_error_set(o->e, SG_E_UNSUPPORTED,
                            "%s: has no tokenizer in it; a language model is a folder with config.json, tokenizer.json "
                            "and safetensors, or a GGUF",
                            path);
    return sg_checkpoint_describe(c, o->e);
}

sg_status sg_checkpoint_open_language(sg_checkpoint **out, const char *path, sg_known_files *known, sg_error *e)
{
    static const sg_model_parts none;
    SG_TRY(sg_checkpoint_open(out, path, e));
    (*out)->diffusers = false;
    const sg_status status = open_language(&(opening){.c = *out, .parts = &none, .known = known, .e = e}, path);
    if (status != SG_OK) sg_checkpoint_close(out);
    return status;
}
