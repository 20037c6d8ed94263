/* spargegen.h - a prompt becomes a video: open a model, ask what a render needs, render, write.
 *
 *   sg_error          e = {0};
 *   sg_engine        *engine = NULL;
 *   sg_engine_options o = {.size = sizeof o, .model_dir = "tiny-wan"};
 *   if (sg_engine_open(&engine, &o, &e)) return fprintf(stderr, "%s\n", e.text), 1;
 *   sg_request r = {.size = sizeof r};
 *   sg_engine_defaults(engine, &r);
 *   r.prompt = "a red ball bouncing on green grass";
 *   sg_callbacks cb = {.size = sizeof cb, .frame = take_frame};
 *   if (sg_engine_render(engine, &r, &cb, NULL, &e)) fprintf(stderr, "%s\n", e.text);
 *   sg_engine_close(&engine);
 *
 * Structs. What a caller makes opens with `size`, which he sets to its sizeof, and is otherwise 0: 0 is the usual everywhere.
 * A library that knows more members takes those that are not there as 0. A size that is not set is SG_E_ARG; members that
 * the library does not know and that are not 0 are SG_E_UNSUPPORTED. What the library makes it hands out by pointer; size is
 * then how much of it there is. `reserved` is 0. A choice is an int, whose values have names here.
 *
 * Ownership. Strings, pictures and structs that are given are borrowed for the call, those of a writer until it is closed. What
 * is handed out lives as long as the engine, or as its line says; what the caller frees says so. Strings are UTF-8. A
 * pointer that may be NULL says so.
 *
 * Errors. A call that can fail returns a status and fills e, which may be NULL, unless it holds a failure already; out
 * parameters are then NULL or as they were. No call ends the process, prints, catches a signal, or reads or changes the
 * environment. The files of a model are mapped: where another program makes one shorter while the engine is open, the
 * system raises SIGBUS.
 *
 * Threads. An engine, a writer, a CLIP model and a context of attention.h serve one thread at a time, which may be
 * another one for each call. Several of them work at once, on the same files too, and so do calls that have none of
 * them. Nobody needs a lock but to hand one of them on. sg_engine_cancel alone may be called beside another call of its
 * engine, which must be open. Callbacks and lines of the log come in the thread that called; of their engine they may
 * call sg_engine_cancel, sg_engine_info and sg_engine_attention_seconds, and all of other engines; a render or plan within
 * another of its engine is SG_E_ARG. On a GPU a call leaves the engine's as the calling thread's current CUDA device; a
 * callback may leave another one.
 *
 * The threads of the CPU are OpenMP's: each thread that calls has a team of its own, of `threads`, so those that render
 * at once should share the processors by it. In a parallel region of the program it is a team of one, unless the
 * program allows more. How long these spin between two operations is the program's to decide, before it loads the
 * library: GOMP_SPINCOUNT=1500 in its environment where it shares its processors with others. They do not come with a
 * fork: in the child a thread that rendered before gets SG_E_UNSUPPORTED, a new one may render on the CPU, and writers and
 * GPUs are the parent's.
 *
 * One process. What may be taken is what was free when an engine was opened: of engines that render at once each wants
 * a memory_limit. oneDNN is held to cpu_mask once, by the first engine on the CPU; later ones have it as it is, or none
 * where they allow less.
 *
 * FFmpeg, which writes videos, has one log for the whole process: a writer of a video turns it off. Where none of
 * its encoders of H.264 opens, its SVT-AV1 writes to stderr, unless the program's environment has SVT_LOG=0. */
#ifndef SG_SPARGEGEN_H
#define SG_SPARGEGEN_H

#include "attention.h"
#include "clip_model.h"
#include "clips.h"
#include "model_parts.h"
#include "policy.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SG_VERSION_MAJOR 0
#define SG_VERSION_MINOR 1
#define SG_VERSION_PATCH 0

/* Returns the version of the library that runs, "0.1.0"; the macros are that of this header. */
SG_PUBLIC const char *sg_version(void);

/* Returns the names of a choice, by value, and NULL behind the last: sg_names("sampler")[SG_SAMPLER_EULER] is "euler".
 *   "sampler"      SG_SAMPLER_UNIPC ..
 *   "step_preset"  what sg_step_preset_apply takes
 *   "cache"        SG_CACHE_OFF ..
 *   "vae_tiling"   SG_TILING_AUTO ..
 *   "stage"        SG_STAGE_LOAD ..
 *   "offload"      SG_OFFLOAD_AUTO ..
 *   "weights_as"   SG_WEIGHTS_AUTO ..
 *   "attention"    SG_ATTENTION_DENSE ..
 *   "score"        SG_SCORE_MEAN ..
 *   "tail_bias"    SG_TAIL_BIAS_NONE ..
 *   "budget"       SG_BUDGET_ROW ..
 *   "pv_dtype"     SG_PV_AUTO ..
 *   "order"        SG_ORDER_ROW ..
 *   "cpu_mask", "gpu_mask"  what sg_cpu_mask_of and sg_gpu_mask_of know
 * NULL: there is no such choice. */
SG_PUBLIC const char *const *sg_names(const char *what);

/* ---- a model ---- */

typedef struct sg_engine sg_engine;

/* Says where the blocks of layers of a denoiser or a text encoder are while it works: on the device, or on the host, and
 * of those two at a time on the device. With AUTO as many are on the host as leave room for the others. With ON all of the
 * denoiser's are, a text encoder's as with AUTO. The results are the same. */
enum { SG_OFFLOAD_AUTO, SG_OFFLOAD_OFF, SG_OFFLOAD_ON };

/* Says how quantised weights lie in memory: as the file has them, and every product widens what it reads; or widened to
 * the dtype of the products when they are loaded. AUTO is FILE. The results are the same. */
enum { SG_WEIGHTS_AUTO, SG_WEIGHTS_FILE, SG_WEIGHTS_BF16 };

enum { SG_LORAS_MAX = 16, SG_COMPONENTS_MAX = 12 };

/* How much a line of the log matters: what is done and with what; what was asked for and has no effect. */
enum { SG_LOG_INFO, SG_LOG_WARNING };

typedef struct sg_engine_options {
    size_t size;
    /* model_dir is a Diffusers folder, the one that holds model_index.json; a folder in the layout of an original
     * repository; or a file. It is NULL where parts has a denoiser. */
    const char    *model_dir;
    sg_model_parts parts;              /* that take the place of model_dir's */
    const char    *backend;            /* "auto" (NULL), "cuda", "cpu", "ref" */
    const char    *dtype;              /* "auto" (NULL), "f32", "bf16": of the products; auto takes the faster here */
    int            threads;            /* 0: all cores; 4096 at most */
    unsigned       cpu_mask;           /* sg_cpu_mask_of; 0: all; others overrule ONEDNN_MAX_CPU_ISA */
    unsigned       gpu_mask;           /* sg_gpu_mask_of: all of which it must have; 0: all that it has */
    int            device;             /* which GPU, as CUDA counts them from 0; above 0, auto takes no other backend */
    int            local_rank;         /* with device 0: of this host's processes, which take its GPUs in turn */
    size_t         memory_limit;       /* bytes a render may take; 0: what the machine has free */
    size_t         given_bytes;        /* of pictures that the caller has read: a plan counts them with its request */
    bool           plan_only;          /* "cuda" where no GPU opens plans; a render is SG_E_UNSUPPORTED */
    sg_lora_option lora[SG_LORAS_MAX]; /* SG_E_ARG where there is no such denoiser */
    int            loras;
    bool           fast;    /* the few steps, and the LoRA for them, that the model's sparge-gen.json names */
    int            offload; /* SG_OFFLOAD_AUTO ..; ON is SG_E_ARG where the device computes in the host's memory */
    bool           check;   /* run every op against the oracle as well (slow), fail at the first that differs */
    bool           timed;   /* take the time of each stage of attention: sg_engine_attention_seconds */

    const char *preview_decoder; /* TAEHV's file, which decodes previews; NULL: colours follow from the latents */

    /* log gets lines about what the engine does, without a newline, in the thread of the call that does it; level is
     * SG_LOG_INFO .. . NULL: nobody does. Both stay until the engine is closed. */
    void (*log)(void *context, int level, const char *text);
    void *log_context;

    int weights_as; /* SG_WEIGHTS_AUTO .. */
    /* Merges LoRAs into the quantised weights that they change, and packs these as Q8_0. Otherwise a LoRA's product is
     * computed beside them, or, where it is none of low rank or would take more memory, they are widened. */
    bool lora_merge;
} sg_engine_options;

/* Returns the features of the levels up to that of this name, "avx2" for example, 0 for an unknown one: what a mask of the
 * options allows. */
SG_PUBLIC unsigned sg_cpu_mask_of(const char *name);
SG_PUBLIC unsigned sg_gpu_mask_of(const char *name);

/* Reads configs and headers, binds every tensor; loads no weights yet. SG_E_FILE, SG_E_FORMAT, SG_E_SHAPE of the model's
 * files, SG_E_UNSUPPORTED of what is not rendered here, SG_E_DEVICE, SG_E_MEMORY, SG_E_ARG. */
SG_PUBLIC sg_status sg_engine_open(sg_engine **out, const sg_engine_options *o, sg_error *e) SG_MUST_USE;
/* Frees all of *engine, which becomes NULL and may be it already. While a render or a plan is at work in it, from a
 * callback for example, nothing is done and *engine stays. No call may come any more, not even sg_engine_cancel. */
SG_PUBLIC void sg_engine_close(sg_engine **engine);

/* Tells people what is in this checkpoint. */
typedef struct sg_component_info {
    size_t   size;
    char     name[32];       /* "transformer", "vae", ... */
    char     class_name[64]; /* as model_index.json has it */
    char     summary[160];   /* "30 layers, 12 heads x 128, ffn 8960" */
    char     dtype[16];      /* of most weights on disk */
    char     types[160];     /* of all: "F8_E4M3 13.6 GiB, BF16 52.1 MiB" */
    char     place[1024];    /* its file, its index, or its first one */
    uint64_t parameters, bytes;
    int      files;
} sg_component_info;

enum { SG_IMAGE_FIRST, SG_IMAGE_LAST, SG_IMAGES };

/* Says whether a model takes such a picture, or cannot do without it. START is for a model of images, which starts from
 * the picture; a request has it as start_image. */
enum { SG_IMAGE_NONE, SG_IMAGE_OPTIONAL, SG_IMAGE_NEEDED, SG_IMAGE_START };

typedef struct sg_model_info {
    size_t                   size;
    const char              *family;
    int                      components;
    const sg_component_info *component[SG_COMPONENTS_MAX]; /* in the order of their work */
    int                      multiple;                     /* of width and height, pixels */
    /* Of l latent frames it makes frame_step (l - 1) + 1; or, with frame_pairs and an even l, frame_step l. A model of
     * images has frame_step 0: it makes one. */
    int                 frame_step;
    bool                frame_pairs;
    int                 image[SG_IMAGES]; /* SG_IMAGE_NONE .. */
    int                 experts;          /* denoisers that share the steps */
    const char         *backend;          /* "cuda", "cpu" or "ref" */
    int                 threads;          /* of the host */
    const char         *dtype;            /* "bf16" or "f32" */
    const char         *device;           /* for people */
    const char         *passed;           /* for people: which NVIDIA card "auto" took it for, and why; or empty */
    bool                skips;            /* the device has quantised and sparse attention */
    bool                synchronous;      /* an op is over when its call is, so that a trace has the time of the work */
    int                 loras;
    const sg_lora_info *lora[SG_LORAS_MAX];
    uint64_t            thresholds;       /* hash of the sparge-attention.json beside it; 0: there is none */
    const char         *thresholds_model; /* the sg_engine_denoiser_hash that it was tuned for; "": not known */
    const char         *world;            /* what it draws, a sentence of its sparge-gen.json; or NULL */
    const char *const *words; /* that it was trained with, as that has them, folded; NULL is behind the last. Or NULL */
    int                weights_as; /* SG_WEIGHTS_FILE or SG_WEIGHTS_BF16 of quantised weights; AUTO: there are none */
} sg_model_info;

/* Returns what was found at opening; it lives as long as engine. */
SG_PUBLIC const sg_model_info *sg_engine_info(const sg_engine *engine);

/* Returns how many different words of text the model was not trained with; 0 where it does not tell its words, and where
 * memory is out. The first three are put into list, each with the nearest that it knows, if one is near: "'cat'", "'rde'
 * and 'balls' (ball?)". */
SG_PUBLIC int sg_engine_unknown_words(const sg_engine *engine, const char *text, char *list, size_t size);

/* Returns the next key from number *at on of that LoRA that fits nothing, and moves *at behind it; NULL where there are
 * no more, and no such LoRA. */
SG_PUBLIC const char *sg_engine_lora_unused(const sg_engine *engine, int lora, size_t *at);

/* Tells models apart by the names, shapes and first numbers of the tensors of all components. How the tensors are cut
 * into files does not matter, nor whether they are F32 or the BF16 of it. Reads one page of each. */
SG_PUBLIC uint64_t sg_engine_hash(const sg_engine *engine);

/* Tells denoisers apart in the same way, by sixteen hexadecimal digits and a NUL. */
SG_PUBLIC void sg_engine_denoiser_hash(const sg_engine *engine, char out[17]);

/* ---- what to render ---- */

enum { SG_STEPS_MAX = 1000, SG_SIGMAS_MAX = 64 };

/* The samplers. The first three are for flow matching, the others for noise schedules of betas. LCM, DPM and ancestral
 * Euler (EULER_A) draw fresh noise in each step. */
enum { SG_SAMPLER_UNIPC, SG_SAMPLER_EULER, SG_SAMPLER_LCM, SG_SAMPLER_DDIM, SG_SAMPLER_DPM, SG_SAMPLER_EULER_A };

/* Tells whether a sampler is for flow matching; flow_shift, sigmas and presets of few steps are for these alone. */
static inline bool sg_sampler_flows(int sampler) { return sampler <= SG_SAMPLER_LCM; }

/* Says how many steps have their velocity extrapolated instead of computed, chosen by how little the latents changed:
 * none, few, the usual number, more. SHADOW takes the usual number, but computes them too, so that the report has their
 * error. Below SG_CACHE_STEPS_MIN steps there are none. */
enum { SG_CACHE_OFF, SG_CACHE_FINE, SG_CACHE_USUAL, SG_CACHE_FAST, SG_CACHE_SHADOW };
enum { SG_CACHE_STEPS_MIN = 16 };

/* Says whether the decoder, and with AutoencoderKL the encoder, works in tiles, as after diffusers' enable_tiling. This
 * takes less memory, and the frames differ a little from those of a whole decode. AUTO chooses tiles where a whole
 * decode would not fit. ON is SG_E_ARG with a decoder that has no tiles. */
enum { SG_TILING_AUTO, SG_TILING_OFF, SG_TILING_ON };

/* This is a picture that a clip begins or ends with, RGB8. Image encoders, which fit a picture themselves, are given the
 * one that it was made from, if there is one. */
typedef struct sg_request_image {
    const uint8_t *rgb;   /* [height][width][3] of the clip's size; NULL: none */
    const uint8_t *whole; /* [whole_height][whole_width][3]; NULL: rgb is */
    int            whole_width, whole_height;
    void          *reserved[2]; /* NULL */
} sg_request_image;

/* Says what to render. Take sg_engine_defaults and change members. */
typedef struct sg_request {
    size_t      size;
    const char *prompt;
    const char *negative_prompt; /* NULL counts as "" */
    int         width, height;   /* pixels */
    int         frames;
    int         fps; /* for whoever writes the file; the model does not see it */
    int         steps;
    double      cfg_scale;   /* guidance; at 1 and below the negative pass is left out */
    double      cfg_scale_2; /* guidance of the low-noise expert; negative: as cfg_scale */
    double      guidance;    /* embedded: an input of denoisers that were distilled with it; 0 with all others */
    bool        dynamic_cfg; /* guidance changes from step to step, as the family has it; SG_E_ARG where it has none */
    /* Skip-layer guidance is this: in the steps i of N with start N < i < end N a further pass has the prompt and
     * leaves out blocks of the denoiser, and v += slg_scale (v_prompt - v_skipped). It goes with classifier-free
     * guidance only, and is SG_E_ARG where the family has none. */
    double      slg_scale;   /* 0: none */
    const char *skip_layers; /* "7,8,9": these blocks; a list as the policy's dense_layers */
    double      skip_layer_start, skip_layer_end;
    double      flow_shift; /* 0: by the picture's tokens, of models that have it so */
    int         sampler;    /* SG_SAMPLER_UNIPC .. */
    /* Noise levels of the steps, which take the place of the schedule of EULER or LCM: at most 1, falling, above 0. After
     * the last comes 0, which does not count. steps is then their count, and flow_shift does nothing. */
    struct {
        int    count; /* 0: the sampler's schedule */
        double at[SG_SIGMAS_MAX];
    } sigmas;
    bool        sigmas_old;      /* UniPC: the base sigmas of diffusers before 0.37 */
    uint64_t    seed;            /* noise is torch's CPU generator's */
    const char *latents_in;      /* safetensors: skip denoising, decode these */
    const char *latents_out;     /* safetensors: written before decoding starts */
    const char *latents_note;    /* kept in the latents file as metadata "settings"; may be NULL */
    sg_policy   attention;       /* of the denoiser's self-attention */
    bool        attention_error; /* measure how far attention that is not dense is from dense: a slower render */
    const char *capture_out;     /* safetensors: q, k and v of one self-attention, of the prompt's pass; NULL: none */
    int         capture_layer, capture_step;
    int         cache;           /* SG_CACHE_OFF .. */
    double      cache_threshold; /* a step is computed above it, with USUAL and SHADOW; 0: the usual one */
    int         vae_tiling;      /* SG_TILING_AUTO .. */
    int         preview_every;   /* there is a preview after every so many steps and after the last; 0: none */
    size_t      preview_bytes;   /* of memory that the caller takes for previews: the plan counts it */
    size_t      output_bytes;    /* of memory that the caller takes for the frames: the plan counts it */

    /* An image is SG_E_ARG where the model takes none, and its lack in a render that needs one. */
    sg_request_image image[SG_IMAGES];

    /* What a render starts from, [frames][height][width][3] of the clip's size; both are NULL where it starts from noise
     * alone. A model of images starts from an image, others from a video; SG_E_ARG for the other one, and where the
     * model's VAE does not encode. Only the last steps of the schedule are done; the first of them starts from the frames
     * with as much noise as its sigma says. */
    const uint8_t *start_image, *start_video;
    double         strength; /* share of the steps that are done: above 0; at 1 nothing of the start is left */
} sg_request;

/* Sets all of r but its size to the defaults of the model: its family's, overridden by its files. attention is
 * sg_policy_default, by its thresholds where there is a sparge-attention.json beside the model, which has
 * cache_threshold, too. prompt is NULL, seed is 0, and strength is 0.8, with models of images 0.6. The strings live as
 * long as engine. */
SG_PUBLIC void sg_engine_defaults(const sg_engine *engine, sg_request *r);

/* Reads a list with commas into r's sigmas; a 0 at its end may be left out. SG_E_ARG tells what is wrong with which
 * number. */
SG_PUBLIC sg_status sg_sigmas_read(sg_request *r, const char *list, sg_error *e) SG_MUST_USE;

/* Presets say how weights that are distilled to few steps want to be sampled. Sets sampler, sigmas and steps of r to those
 * of a preset, by its place in their names, and guidance to 1. Without such a preset r stays as it is. */
SG_PUBLIC void sg_step_preset_apply(sg_request *r, int preset);

/* Returns start_image or start_video, NULL where r has neither. */
SG_PUBLIC const uint8_t *sg_request_start(const sg_request *r);

/* Returns how many of so many steps are done from an image, or from a video. diffusers rounds the one up, the other
 * down. */
SG_PUBLIC int sg_steps_of_strength(int steps, double strength, bool image);

/* Returns how many steps of r are done: what step_done, capture_step and the steps of attention and cache count. */
SG_PUBLIC int sg_request_steps(const sg_request *r);

/* Returns the cache_threshold of r if its render goes by it, else 0. */
SG_PUBLIC double sg_request_cache_threshold(const sg_request *r);

/* Replaces each of these, all at least 1, by the nearest that the model renders, the larger of two as near. NULL means
 * that it is not asked. */
SG_PUBLIC void sg_engine_nearest_size(const sg_engine *engine, int *width, int *height, int *frames);

/* Tells frames, height and width of the previews of a render. Returns SG_E_ARG if none can be made of this model's
 * latents. */
SG_PUBLIC sg_status sg_engine_preview_size(const sg_engine *engine, const sg_request *r, int size[3],
                                           sg_error *e) SG_MUST_USE;

/* Checks every member of r against the model. SG_E_ARG tells the member, its value and the nearest that would do. */
SG_PUBLIC sg_status sg_engine_check_request(const sg_engine *engine, const sg_request *r, sg_error *e) SG_MUST_USE;

/* Sets width, height and frames of r to those of the latents in this file. *note gets its latents_note, which the
 * caller frees, or NULL when it has none. SG_E_FILE, SG_E_FORMAT, SG_E_SHAPE for latents of another model. */
SG_PUBLIC sg_status sg_engine_fit_latents(const sg_engine *engine, const char *path, sg_request *r, char **note,
                                          sg_error *e) SG_MUST_USE;

/* ---- what it needs ---- */

/* This is a part of a render's work. ENCODE is that of pictures, and of what the render starts from. */
enum { SG_STAGE_LOAD, SG_STAGE_TEXT, SG_STAGE_ENCODE, SG_STAGE_DENOISE, SG_STAGE_DECODE, SG_STAGES };

enum { SG_PHASES_MAX = 8, SG_PHASE_NAME = 24 };

/* Plans one phase of a render, whose memory is gone when the next begins. */
typedef struct sg_phase_plan {
    char    name[SG_PHASE_NAME]; /* "text", "modulation", "denoise", "decode", or as the family calls what it adds */
    int     number;              /* of those of this name, from 1: each text encoder has a phase of its own */
    int     stage;               /* in which its time and progress are counted */
    size_t  weights;             /* bytes of converted weights */
    size_t  mapped;              /* bytes of weight files used in place, as page cache */
    size_t  packed;              /* bytes of weights in the layout of the products, as far as there is room for them */
    size_t  host;                /* bytes of weights on the host, of which the device has two blocks at a time */
    size_t  work;                /* bytes of activations */
    size_t  peak;           /* bytes resident at most, in total: with base, input, output and the weights that stay */
    double  flops;          /* of the whole phase */
    int64_t blocks_on_host; /* of layers, of the component that has the most of them there */
    int64_t reserved[3];
} sg_phase_plan;

typedef struct sg_plan {
    size_t        size;
    sg_phase_plan phase[SG_PHASES_MAX]; /* in the order of their work */
    int           phases;
    size_t        base;       /* bytes of the process itself: program, libraries, files' headers; 0 on a device */
    size_t        input;      /* bytes: the request's pictures, its start, its steps' modulations; 0 on a device */
    size_t        output;     /* bytes: the request's output_bytes and what is captured; 0 on a device */
    size_t        preview;    /* bytes: the request's preview_bytes and one preview; 0 on a device */
    size_t        staging;    /* bytes that a library may take beside these, for the operands of one product */
    size_t        need;       /* bytes that must be free: the largest phase's weights and work, and these but base */
    size_t        available;  /* bytes that the machine or memory_limit leaves for need */
    size_t        host;       /* the most bytes of weights that are on the host for the device at once; 0: none are */
    size_t        host_free;  /* bytes that the host has for these */
    size_t        untiled;    /* bytes of work that decoding would take whole, where it is in tiles for that; else 0 */
    size_t        peak;       /* the largest phase's: what the system will show of this process, or of the device */
    int64_t       latent[4];  /* c, f, y, x, as they are denoised */
    int64_t       tokens;     /* of the denoiser's sequence */
    int64_t       group;      /* tokens of the longest group, where layers attend by groups of them; 0: none does */
    int           grouped;    /* layers that do */
    double        flow_shift; /* of the schedule */
    int           layers;     /* of the denoiser's self-attention, of all experts */
    int           steps;      /* that are done */
    /* What attention will do, as far as it is known before. The last attention_steps of the steps run as the policy says,
     * but for dense layers; where that is 0, attention_why (SG_WHY_POLICY ..) is why none does. */
    int attention_steps, attention_why;
    int attention_kind; /* the policy's, or DENSE where no layer of any step runs otherwise */
    int short_layers;   /* those that are dense because the groups that they attend by are short */
    /* What the policy's file of thresholds has. layers 0: it names none. */
    struct {
        int      rule; /* SG_SELECT_TOPK or SG_SELECT_MASS, in place of the policy's */
        int      buckets, layers, heads;
        uint64_t hash;       /* of the file */
        char     model[24];  /* the sg_engine_denoiser_hash that it was tuned for; "": not known */
        bool     spargeattn; /* saved by SpargeAttn's own tuning */
        bool     has_policy; /* the next are what it was tuned with, of the policy's members of these names */
        bool     tail;
        int      score, tail_bias, order;
    } thresholds;
    int     chunks;         /* of latent frames, as they are decoded */
    int     text_tokens[2]; /* of prompt and negative prompt, that are read, without pads */
    int     cut[2];         /* those after them, which are not */
    int64_t rows_at_once;   /* most tokens of a piece, or of half a piece, where the denoiser works in pieces; else 0 */
    int64_t reserved[7];
} sg_plan;

/* Finds out what r would need by running the model without computing. Touches no weights. Without a prompt it is for the
 * longest. Fails as sg_engine_check_request, and SG_E_FILE, SG_E_FORMAT, SG_E_SHAPE or SG_E_ARG for files of attention's
 * thresholds or mask that do not fit; SG_E_MEMORY, SG_E_CANCELLED. */
SG_PUBLIC sg_status sg_engine_plan(sg_engine *engine, const sg_request *r, sg_plan *out, sg_error *e) SG_MUST_USE;

/* Does the same as if engine had been opened with these of its options; a memory_limit of 1 gives the least that is
 * enough. So a program sees what other ways take. Weights that are loaded leave memory. SG_E_ARG: offload or weights_as is
 * none of the choices. */
SG_PUBLIC sg_status sg_engine_plan_as(sg_engine *engine, const sg_request *r, int offload, int weights_as,
                                      size_t memory_limit, sg_plan *out, sg_error *e) SG_MUST_USE;

/* Returns SG_E_MEMORY, with the figures, when p needs more than may be used. A render asks this too, before it
 * works. */
SG_PUBLIC sg_status sg_plan_fits(const sg_plan *p, sg_error *e) SG_MUST_USE;

/* ---- the render ---- */

/* Each may be NULL. What they get is valid during the call, which no exception and no longjmp may leave. Anything but
 * SG_OK ends the render, with this status and with the text that the callback leaves in e (sg_error_set), if it does. */
typedef struct sg_callbacks {
    size_t size;
    void  *context;
    /* progress is called when a stage (SG_STAGE_LOAD ..) begins, with done 0, and after each unit of its work (a tensor,
     * a step, a chunk of frames), with how many of total are done. A return that is not 0 cancels. */
    int (*progress)(void *context, int stage, int done, int total);
    /* latents gets the latents after each step, from 0, F32 [c, f, y, x] of this shape (the plan's). */
    sg_status (*latents)(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e);
    /* preview gets a preview after every preview_every steps and after the last: what the clip would be if denoising
     * ended after this step, small or roughly decoded, rgb [frames][height][width][3] of this size. */
    sg_status (*preview)(void *context, int step, const uint8_t *rgb, const int size[3], sg_error *e);
    /* frame gets the frames in order, from 0, rgb [height][width][3]. */
    sg_status (*frame)(void *context, int index, const uint8_t *rgb, sg_error *e);
} sg_callbacks;

typedef struct sg_report {
    size_t size;
    double seconds[SG_STAGES];
    double total_seconds;
    int    steps_done;
    /* With a cache these say which steps were extrapolated, and how many; with SG_CACHE_SHADOW skip_error is |v -
     * computed v| / |computed v| of each, and latent_error to first order what all of them change in the final latents,
     * relative to their norm. */
    uint8_t skipped[SG_STEPS_MAX];
    float   distance[SG_STEPS_MAX]; /* how much the latents had changed; 0: of a step that is computed in any case */
    int     steps_skipped;
    float   skip_error[SG_STEPS_MAX];
    double  latent_error;
    double  attention_error_seconds; /* spent on measuring what the request's attention_error asks for */
    size_t  held_bytes;              /* weights, activations and what the backend keeps at once, at most */
    /* This many bytes were resident at most from the start of the process to the end of the stage. The system tells it;
     * on a device it is held_bytes. It is 0 for a stage that was not reached. */
    size_t   stage_peak[SG_STAGES];
    size_t   peak_bytes; /* the last of them */
    sg_plan  plan;
    int      prompt_tokens, negative_tokens;
    uint64_t seed;
    char     device[160];
    char     dtype[8];
    char     served[320]; /* for people: what served, where that depends on what else the machine has; or empty */
} sg_report;

/* Renders r. Fails as sg_engine_plan; SG_E_ARG without a prompt or a picture that the model needs. Refuses with
 * figures what cannot fit before anything heavy starts (SG_E_MEMORY); NaN or infinity is SG_E_NUMERIC with the first
 * block and step; SG_E_FILE, SG_E_FORMAT and SG_E_SHAPE are of latents and of weights, SG_E_DEVICE of the GPU.
 * Weights stay for the next call as far as they fit, those first that take the longest to load; and so does what the
 * text encoders made of prompt and negative prompt: with the same ones again they do not run. cb and report may be
 * NULL; report is filled as far as it got. */
SG_PUBLIC sg_status sg_engine_render(sg_engine *engine, const sg_request *r, const sg_callbacks *cb, sg_report *report,
                                     sg_error *e) SG_MUST_USE;

/* Ends the render or the plan at work in engine, or else its next one, with SG_E_CANCELLED: before the next op, tensor to
 * load or frame, of whatever phase; on a GPU what is in its queue, a step at most, is still computed. Any thread may call
 * it, at any time while engine is open, and a signal handler too. A call takes with it what came too late for it; on
 * false takes back what no call has met. The engine stays as usable as before. */
SG_PUBLIC void sg_engine_cancel(sg_engine *engine, bool on);

/* Returns what attention did in the last render of engine: [steps][passes][layers], those of experts one after the
 * other. It is NULL when there was none, and valid until the next call of a render. */
SG_PUBLIC const sg_attention_count *sg_engine_attention(const sg_engine *engine, int *steps, int *passes, int *layers);

/* The stages of attention: the four of blocks, which leave something out or are quantised; attention without blocks; and
 * cross-attention, which in these models is to the prompt or to a picture. */
enum {
    SG_TIMED_PREDICT,
    SG_TIMED_SELECT,
    SG_TIMED_QUANTISE,
    SG_TIMED_ATTEND,
    SG_TIMED_DENSE,
    SG_TIMED_CROSS,
    SG_ATTENTION_STAGES
};

/* Adds up the seconds of each stage in the last render of engine, so far, of whatever ran: text encoders and the VAE have
 * dense attention, too. Returns false, and out is 0, where no time was taken: without the option `timed`, with `check`,
 * and on a device that is not synchronous, whose steps run as in any render. */
SG_PUBLIC bool sg_engine_attention_seconds(const sg_engine *engine, double out[SG_ATTENTION_STAGES]);

/* Sets path to this, and size and rate to those of what r renders. */
SG_PUBLIC void sg_clip_of(sg_clip *clip, const sg_request *r, const char *path);

#ifdef __cplusplus
}
#endif
#endif
