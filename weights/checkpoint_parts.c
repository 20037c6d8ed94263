/* checkpoint_parts.c - see checkpoint.h: from a path and the options of the parts to where every component is. */
#include "base/path.h"
#include "checkpoint_state.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HIGH "transformer" /* works first, on the noisier half */
#define LOW SECOND_EXPERT

#define TEXT SG_TEXT_ENCODER
#define IMAGE "image_encoder" /* only of models whose denoiser attends to pictures */
#define NOBODYS ""

#define GIVES(member) offsetof(sg_model_parts, member)

/* What a model is made of, and the option that gives each part. */
static const struct {
    const char *component, *what, *option;
    size_t      gives;     /* which of sg_model_parts the option is */
    const char *tokenizer; /* of a text encoder: the option that gives its tokenizer */
    bool        asked;     /* only of models whose denoiser goes with it */
} needed[] = {
    {HIGH, "denoiser", "--diffusion-model", GIVES(diffusion_model), NULL, false},
    {TEXT, "text encoder", "--text-encoder", GIVES(text_encoder), "--tokenizer", false},
    {SG_CLIP_L, "CLIP-L text encoder", "--clip-l", GIVES(clip_l), "--clip-tokenizer", true},
    {SG_CLIP_G, "CLIP-G text encoder", "--clip-g", GIVES(clip_g), "--clip-tokenizer", true},
    {IMAGE, "image encoder", "--clip-vision", GIVES(clip_vision), NULL, true},
    {"vae", "VAE", "--vae", GIVES(vae), NULL, false},
};
enum { OTHERS = 1 /* than the denoiser */, NEEDED = sizeof needed / sizeof *needed };

/* A folder's text encoders and their tokenizers. */
static const char *const encoder_names[][2] = {
    {"text_encoder", "tokenizer"}, {"text_encoder_2", "tokenizer_2"}, {"text_encoder_3", "tokenizer_3"}};
enum { ENCODERS = sizeof encoder_names / sizeof *encoder_names };

#define ALL NULL               /* every part that the file holds */
#define SAT "transformer/1000" /* in a repository of CogVideoX */

/* Original repositories. */
static const struct {
    const char *component, *folder, *begins, *holds; /* of the file's name */
} repository[] = {{HIGH, "high_noise_model", "diffusion_pytorch_model", ""},
                  {LOW, "low_noise_model", "diffusion_pytorch_model", ""},
                  {HIGH, ".", "diffusion_pytorch_model", ""},
                  {TEXT, ".", "models_t5", ""},
                  {IMAGE, ".", "models_clip", ""},
                  {"vae", ".", "", "VAE"},
                  {HIGH, SAT, "mp_rank_00", ""}, /* CogVideoX */
                  {HIGH, "transformer_t2v/1000", "mp_rank_00", ""},
                  {TEXT, "t5-v1_1-xxl", "model", ""},
                  {"vae", "vae", "3d-vae", ""},
                  {HIGH, "transformers", "mp_rank_00", ""}, /* HunyuanVideo */
                  {"vae", "vae", "pytorch_model", ""},
                  {HIGH, ".", "dit.", ""}, /* Mochi */
                  {"vae", ".", "decoder.", ""},
                  {HIGH, ".", "flux1-", ""}, /* Flux.1 */
                  {"vae", ".", "ae.", ""},
                  {ALL, ".", "sd3", ""}, /* Stable Diffusion 3 */
                  {SG_CLIP_L, "text_encoders", "clip_l", ""},
                  {SG_CLIP_G, "text_encoders", "clip_g", ""},
                  {TEXT, "text_encoders", "t5xxl", ""}};
enum { IN_REPOSITORY = sizeof repository / sizeof *repository };

#define TOKENIZER_TENSOR "spiece_model"
#define TOKENIZER_KEY "tokenizer.ggml.model"

typedef struct opening {
    sg_checkpoint             *c;
    const sg_file_part *const *known;
    const sg_file_part        *denoiser; /* the part that the denoiser is; NULL: not known */
    sg_error                  *e;
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
    if (p->part) c->place[i].map.prefix = c->place[i].prefix;
    return SG_OK;
}

static bool set_path(sg_place *p, const char *path)
{
    return snprintf(p->path, sizeof p->path, "%s", path) < SG_PATH_BYTES;
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

/* What the file is, where one of its tensors tells a model that is not rendered; NULL: not known. */
static const char *stranger(const sg_source *s)
{
    static const char *const prefixes[] = {"", "model.diffusion_model.", "diffusion_model.", "model."};
    static const struct {
        const char *tensor, *what;
    } known[] = {{"input_blocks.0.0.weight", "the U-Net of Stable Diffusion"},
                 {"controlnet_blocks.0.weight", "a ControlNet"},
                 {"patchify_proj.weight", "the denoiser of LTX-Video"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
            char name[128];
            snprintf(name, sizeof name, "%s%s", prefixes[k], known[i].tensor);
            if (sg_source_index(s, name) >= 0) return known[i].what;
        }
    return NULL;
}

/* What a file holds of models that are rendered; NULL: nothing. */
static const sg_file_part *part_of(const opening *o, const sg_source *s)
{
    for (int i = 0; i < NEEDED; i++) {
        sg_place p = {.component = needed[i].component};
        bool     found = false;
        if (sg_place_recognise(&p, &found, s, p.component, o->known, NULL) == SG_OK && found) return p.part;
    }
    return NULL;
}

/* For who has the wrong file; component: what it should hold, NULL: any. */
static sg_status not_known(const opening *o, const sg_source *s, const char *component)
{
    char   names[400] = "";
    size_t n = 0;
    for (size_t i = 0; i < sg_source_count(s) && i < 3; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", sg_show(sg_source_at(s, i)->name));
    char   known[400] = "";
    size_t k = 0;
    for (const sg_file_part *const *p = o->known; *p && k < sizeof known; p++)
        if ((!component || strcmp((*p)->component, component) == 0) && !strstr(known, (*p)->what))
            k += (size_t)snprintf(known + k, sizeof known - k, "%s%s", k ? ", " : "", (*p)->what);
    const char *const         is = stranger(s);
    const sg_file_part *const part = part_of(o, s);
    return sg_error_set(o->e, SG_E_UNSUPPORTED, "%s: holds no %s that this program knows (%s); %s %s",
                        sg_source_path(s), component ? needed[needed_of(component)].what : "part of a model", known,
                        is     ? "by its tensors it is"
                        : part ? "by its tensors it is the"
                               : "its first tensors are",
                        is     ? is
                        : part ? part->what
                               : names);
}

/* A file, or a component's folder, as `component`; as_known: which the families call so. */
static sg_status put_file(opening *o, const char *component, const char *as_known, const char *path)
{
    sg_place   p = {.component = component};
    sg_source *s = NULL;
    bool       found = false;
    if (!set_path(&p, path)) return sg_error_set(o->e, SG_E_ARG, "%s: the path is too long", path);
    if (is_folder(path)) return put(o, &p);
    SG_TRY(sg_source_open(&s, path, o->e));
    sg_status status = sg_place_recognise(&p, &found, s, as_known, o->known, o->e);
    if (status == SG_OK && !found) status = not_known(o, s, as_known);
    sg_source_close(&s);
    return status ? status : put(o, &p);
}

/* Every part that one file holds. */
static sg_status put_all(opening *o, const char *path)
{
    sg_source *s = NULL;
    SG_TRY(sg_source_open(&s, path, o->e));
    sg_status status = SG_OK;
    bool      any = false;
    for (int i = 0; status == SG_OK && i < NEEDED; i++) {
        sg_place p = {.component = needed[i].component};
        bool     found = false;
        if (!set_path(&p, path)) status = sg_error_set(o->e, SG_E_ARG, "%s: the path is too long", path);
        if (status == SG_OK) status = sg_place_recognise(&p, &found, s, p.component, o->known, o->e);
        if (status == SG_OK && found) status = put(o, &p);
        any = any || found;
    }
    if (status == SG_OK && !any) status = not_known(o, s, NULL);
    sg_source_close(&s);
    return status;
}

/* ---- an original repository ---- */

/* How good a name is for weights, 0 best; -1: not at all. */
static int rank_of(const char *name)
{
    static const char *const ends[] = {".safetensors.index.json", ".safetensors", ".gguf", ".pth", ".pt"};
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

static sg_status put_repository(opening *o, const char *path)
{
    char folder[SG_PATH_BYTES], file[SG_PATH_BYTES];
    int  count;
    for (int i = 0; i < IN_REPOSITORY; i++) {
        const bool here = repository[i].folder[0] == '.';
        SG_TRY(sg_path_join(folder, sizeof folder, path, here ? "" : repository[i].folder, o->e));
        const char *const component = repository[i].component;
        if (sg_place_find(o->c, component ? component : HIGH)) continue;
        if (!best_file(file, sizeof file, folder, repository[i].begins, repository[i].holds, &count)) continue;
        SG_TRY(component ? put_file(o, component, strcmp(component, LOW) == 0 ? HIGH : component, file)
                         : put_all(o, file));
    }
    if (o->c->places) return SG_OK;
    if (best_file(file, sizeof file, path, "", "", &count) && count == 1)
        return put_all(o, file); /* as if it was given */
    return sg_error_set(
        o->e, SG_E_FILE,
        "%s: is no model: it has neither model_index.json, as a Diffusers folder has, nor "
        "diffusion_pytorch_model.safetensors, models_t5_*.pth or *VAE.pth of an original repository of "
        "Wan, nor " SAT "/ of CogVideoX's, nor transformers/ of HunyuanVideo's, nor "
        "dit.safetensors of Mochi's, nor flux1-*.safetensors of Flux.1's, nor sd3*.safetensors of Stable Diffusion 3's",
        path);
}

/* ---- two experts ---- */

typedef enum expert { EITHER, FOR_HIGH, FOR_LOW } expert;

/* By the last name of a path without _ and -, which is cut off: the name of a file or of a folder. */
static expert take_name(char *path)
{
    char *const       slash = strrchr(path, '/');
    const char *const name = slash ? slash : path;
    const expert      is = strstr(name, "highnoise") ? FOR_HIGH : strstr(name, "lownoise") ? FOR_LOW : EITHER;
    if (slash) *slash = '\0';
    return is;
}

/* By the name of its file, "wan2.2_t2v_high_noise_14B", "Wan2.2-T2V-A14B-HighNoise", else by that of the folder, as in
 * high_noise_model/diffusion_pytorch_model.safetensors. */
static expert expert_of(const char *path)
{
    char   plain[SG_PATH_BYTES];
    size_t n = 0;
    for (const char *p = path; *p && n + 1 < sizeof plain; p++)
        if (*p != '_' && *p != '-') plain[n++] = (char)tolower((unsigned char)*p);
    plain[n] = '\0';
    const expert of_file = take_name(plain);
    return of_file != EITHER ? of_file : take_name(plain);
}

/* Tells which expert a component is that an option or a repository gives. */
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
                        "both, --high-noise-diffusion-model FILE --diffusion-model FILE",
                        one->path, is_high ? "high" : "low", is_high ? "low" : "high");
}

/* ---- the options ---- */

/* What the option of needed[i] gives; NULL: nothing. */
static const char *given(const sg_model_parts *parts, int i)
{
    const char *path;
    memcpy(&path, (const char *)parts + needed[i].gives, sizeof path);
    return path;
}

static sg_status put_options(opening *o, const sg_model_parts *parts)
{
    /* beside a file for high noise the option gives the other expert */
    const bool beside =
        expert_at(o, HIGH) == FOR_HIGH && parts->diffusion_model && expert_of(parts->diffusion_model) != FOR_HIGH;
    const bool two = parts->high_noise_diffusion_model || sg_checkpoint_has(o->c, LOW) || beside;
    if (parts->high_noise_diffusion_model) {
        const sg_place *const one = sg_place_find(o->c, HIGH);
        if (one && !sg_place_find(o->c, LOW)) { /* of the path: it is the other expert now */
            sg_place other = *one;
            other.component = LOW;
            SG_TRY(put(o, &other));
        }
        SG_TRY(put_file(o, HIGH, HIGH, parts->high_noise_diffusion_model));
    }
    if (parts->diffusion_model) SG_TRY(put_file(o, two ? LOW : HIGH, HIGH, parts->diffusion_model));
    if (parts->high_noise_diffusion_model && !sg_checkpoint_has(o->c, LOW))
        return sg_error_set(
            o->e, SG_E_ARG,
            "--high-noise-diffusion-model gives one of two experts; --diffusion-model FILE gives the other");
    for (int i = OTHERS; i < NEEDED; i++)
        if (given(parts, i)) SG_TRY(put_file(o, needed[i].component, needed[i].component, given(parts, i)));
    return SG_OK;
}

/* ---- what goes with the denoiser ---- */

/* The denoiser in a folder of its own, by the class in its config; NULL: not known, of which its family says why. */
static const sg_file_part *part_of_folder(const opening *o, const char *folder)
{
    char                path[SG_PATH_BYTES + 64];
    sg_config          *config = NULL;
    const sg_file_part *part = NULL;
    if (sg_path_join(path, sizeof path, folder, "config.json", NULL) != SG_OK) return NULL;
    if (sg_config_open(&config, path, NULL) != SG_OK) return NULL;
    const char *const class = sg_config_string(config, "_class_name", "");
    for (const sg_file_part *const *p = o->known; class && *p && !part; p++)
        if (strcmp((*p)->component, HIGH) == 0 && strcmp((*p)->class_name, class) == 0) part = *p;
    sg_config_close(&config);
    return part;
}

static void find_denoiser(opening *o)
{
    char                  folder[SG_PATH_BYTES + 64];
    const sg_place *const dit = sg_place_find(o->c, HIGH);
    if (dit && dit->part)
        o->denoiser = dit->part;
    else if (sg_checkpoint_has(o->c, HIGH) && !sg_checkpoint_place(o->c, HIGH, folder, sizeof folder, NULL))
        o->denoiser = part_of_folder(o, folder);
}

/* The part of this kind that goes with the denoiser; NULL: none does. */
static const sg_file_part *partner(const opening *o, const char *component)
{
    const sg_file_part *const *p = o->denoiser ? o->denoiser->with : NULL;
    while (p && *p && strcmp((*p)->component, component) != 0) p++;
    return p ? *p : NULL;
}

/* The usual file of a kind of part; NULL: none is known. */
static const sg_file_part *usual(const opening *o, const char *component)
{
    const sg_file_part *const *p = o->known;
    const sg_file_part *const  known = partner(o, component);
    while (*p && strcmp((*p)->component, component) != 0) p++;
    return known ? known : *p;
}

/* Which of encoder_names a kind of text encoder is with this denoiser; -1: none. */
static int encoder_of(const opening *o, const char *component)
{
    const sg_file_part *const *with = o->denoiser ? o->denoiser->with : NULL;
    int                        n = 0;
    if (!with) return strcmp(component, TEXT) == 0 ? 0 : -1;
    for (; *with && strcmp((*with)->component, component) != 0; with++)
        n += needed[needed_of((*with)->component)].tokenizer != NULL;
    return *with && n < ENCODERS ? n : -1;
}

/* The place of needed[i]; NULL: there is none. */
static sg_place *place_of(opening *o, int i)
{
    int k = 0;
    while (k < o->c->places && strcmp(o->c->place[k].component, needed[i].component) != 0) k++;
    return k < o->c->places ? &o->c->place[k] : NULL;
}

static void drop(sg_checkpoint *c, sg_place *p)
{
    const sg_place *const last = &c->place[--c->places];
    if (p != last) *p = *last;
    if (p->part) p->map.prefix = p->prefix;
}

/* Kinds of text encoders become the components that they are with this denoiser. A file with all parts may have one of which the
 * denoiser makes no use, but no option may give one. "text_encoder" is a kind and a component: all kinds are looked up first. */
static sg_status name_encoders(opening *o, const sg_model_parts *parts)
{
    sg_place *of[NEEDED] = {NULL};
    if (!sg_checkpoint_has(o->c, HIGH)) return SG_OK; /* which will be missed */
    for (int i = OTHERS; i < NEEDED; i++) {
        if (!needed[i].tokenizer) continue;
        of[i] = place_of(o, i);
        if (encoder_of(o, needed[i].component) < 0 && given(parts, i))
            return sg_error_set(o->e, SG_E_ARG, "%s: %s: this model has no %s", needed[i].option, given(parts, i),
                                needed[i].what);
    }
    for (int i = OTHERS; i < NEEDED; i++) {
        const int n = of[i] ? encoder_of(o, needed[i].component) : -1;
        if (of[i]) of[i]->component = n < 0 ? NOBODYS : encoder_names[n][0];
    }
    for (int i = o->c->places; i-- > 0;)
        if (strcmp(o->c->place[i].component, NOBODYS) == 0) drop(o->c, &o->c->place[i]);
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

/* Text encoder needed[i] as it is given, else as it usually is; NULL: the model has none. */
static const sg_file_part *encoder_part(const opening *o, int i)
{
    const int             n = encoder_of(o, needed[i].component);
    const sg_place *const from = n < 0 ? NULL : sg_place_find(o->c, encoder_names[n][0]);
    return n < 0 ? NULL : from && from->part ? from->part : usual(o, needed[i].component);
}

/* The tokenizer of text encoder needed[i]. */
static sg_status put_tokenizer(opening *o, int i, const char *asked)
{
    const int n = encoder_of(o, needed[i].component);
    if (n < 0) return SG_OK;
    const sg_place *const     from = sg_place_find(o->c, encoder_names[n][0]);
    const sg_file_part *const part = encoder_part(o, i);
    const char *const         folder = part && part->tokenizer ? part->tokenizer : "tokenizer";
    const char *const         beside[] = {part && part->pieces ? "spiece.model" : folder, folder};
    sg_place                  p = {.component = encoder_names[n][1], .pad = part ? part->pad : NULL};
    bool                      inside = false;
    if (asked && !set_path(&p, asked)) return sg_error_set(o->e, SG_E_ARG, "%s: the path is too long", asked);
    if (asked && access(asked, R_OK) != 0)
        return sg_error_set(o->e, SG_E_FILE, "%s: %s: %s", needed[i].tokenizer, asked, strerror(errno));
    if (asked) return put(o, &p);
    if (sg_checkpoint_has(o->c, p.component) || !from) return SG_OK;
    if (from->part) SG_TRY(holds_tokenizer(&inside, from->path, o->e));
    if (inside) {
        set_path(&p, from->path);
        return put(o, &p);
    }
    for (size_t k = 0; k < sizeof beside / sizeof *beside; k++)
        if (sg_checkpoint_beside(from->path, beside[k], p.path, sizeof p.path) && access(p.path, R_OK) == 0)
            return put(o, &p);
    return SG_OK;
}

static sg_status put_tokenizers(opening *o, const sg_model_parts *parts)
{
    if (parts->clip_tokenizer && encoder_of(o, SG_CLIP_L) < 0 && sg_checkpoint_has(o->c, HIGH))
        return sg_error_set(o->e, SG_E_ARG, "--clip-tokenizer: %s: this model has no text encoder of CLIP",
                            parts->clip_tokenizer);
    for (int i = 0; i < NEEDED; i++)
        if (needed[i].tokenizer)
            SG_TRY(put_tokenizer(o, i, needed[i].asked ? parts->clip_tokenizer : parts->tokenizer));
    return SG_OK;
}

/* ---- all of it ---- */

/* A list of what is missing. */
typedef struct missing {
    char   text[1600];
    size_t n;
} missing;

SG_PRINTF(4, 5) static void miss(missing *m, const char *what, const char *option, const char *fmt, ...)
{
    char    usual_text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(usual_text, sizeof usual_text, fmt, ap);
    va_end(ap);
    if (m->n < sizeof m->text)
        m->n += (size_t)snprintf(m->text + m->n, sizeof m->text - m->n, "\n  the %s: give it by %s (%s)", what, option,
                                 usual_text);
}

/* Text encoder needed[i], component n, and its tokenizer. */
static void miss_encoder(const opening *o, missing *m, int i, int n)
{
    const sg_file_part *const part = encoder_part(o, i);
    const bool                there = sg_checkpoint_has(o->c, encoder_names[n][0]);
    char                      what[64];
    if (!there && o->denoiser && o->denoiser->spare == partner(o, needed[i].component)) return;
    if (!there) miss(m, needed[i].what, needed[i].option, "%s", part ? part->usual : "a file");
    if (sg_checkpoint_has(o->c, encoder_names[n][1])) return;
    snprintf(what, sizeof what, "tokenizer%s%s", needed[i].asked ? " of the " : "",
             needed[i].asked ? needed[i].what : "");
    miss(m, what, needed[i].tokenizer, "%s%s/ beside the text encoder", part && part->pieces ? "spiece.model, or " : "",
         part && part->tokenizer ? part->tokenizer : "tokenizer");
}

static sg_status check_whole(const opening *o)
{
    missing m = {.n = 0};
    for (int i = 0; i < NEEDED; i++) {
        const sg_file_part *const part = usual(o, needed[i].component);
        const int                 n = needed[i].tokenizer ? encoder_of(o, needed[i].component) : -1;
        if (needed[i].asked && !partner(o, needed[i].component)) continue;
        if (n >= 0)
            miss_encoder(o, &m, i, n);
        else if (!sg_checkpoint_has(o->c, needed[i].component))
            miss(&m, needed[i].what, needed[i].option, "%s", part ? part->usual : "a file");
    }
    return m.n ? sg_error_set(o->e, SG_E_FILE, "%s: the model is not whole; missing:%s", o->c->path, m.text) : SG_OK;
}

static sg_status open_into(opening *o, const char *path, const sg_model_parts *parts)
{
    if (path && !o->c->diffusers) SG_TRY(is_folder(path) ? put_repository(o, path) : put_all(o, path));
    SG_TRY(put_options(o, parts));
    SG_TRY(check_experts(o));
    find_denoiser(o);
    SG_TRY(name_encoders(o, parts));
    SG_TRY(put_tokenizers(o, parts));
    if (!o->c->diffusers) SG_TRY(check_whole(o));
    return o->c->places ? sg_checkpoint_describe(o->c, o->e) : SG_OK;
}

static bool is_diffusers(const char *path)
{
    char part[SG_PATH_BYTES + 16];
    if (sg_checkpoint_is(path)) return true;
    if (sg_path_join(part, sizeof part, path, SAT, NULL) == SG_OK && is_folder(part)) return false;
    return sg_path_join(part, sizeof part, path, HIGH, NULL) == SG_OK && is_folder(part);
}

sg_status sg_checkpoint_open_parts(sg_checkpoint **out, const char *path, const sg_model_parts *parts,
                                   const sg_file_part *const *known, sg_error *e)
{
    static const sg_model_parts none;
    if (!parts) parts = &none;
    const char *const any[] = {path, parts->diffusion_model, parts->high_noise_diffusion_model};
    const char       *name = NULL;
    struct stat       st;
    for (size_t i = 0; !name && i < sizeof any / sizeof *any; i++) name = any[i];
    *out = NULL;
    if (!name) return sg_error_set(e, SG_E_ARG, "the denoiser is missing: --model PATH or --diffusion-model FILE");
    SG_TRY(sg_checkpoint_open(out, name, e));
    (*out)->diffusers = path && is_diffusers(path);
    sg_status status = SG_OK;
    if (path && stat(path, &st) != 0) status = sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    if (status == SG_OK) status = open_into(&(opening){.c = *out, .known = known, .e = e}, path, parts);
    if (status != SG_OK) sg_checkpoint_close(out);
    return status;
}
