/* options.h - the command line: one table drives parsing, help and the messages about a wrong value. */
#ifndef SG_OPTIONS_H
#define SG_OPTIONS_H

#include "checkpoint.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum sg_command {
    SG_COMMAND_RENDER = 1,
    SG_COMMAND_INFO = 2,
    SG_COMMAND_CHECK = 4,
    SG_COMMAND_BENCH_STEP = 8,
    SG_COMMAND_BENCH_ATTENTION = 16,
    SG_COMMAND_COMPARE = 32,
    SG_COMMAND_TUNE = 64,
    SG_COMMAND_EVAL = 128,
    SG_COMMAND_BENCH_COLD = 256,
    SG_COMMAND_ARMS = SG_COMMAND_COMPARE | SG_COMMAND_EVAL,
    SG_COMMAND_BENCH = /* while it is not known which */
    SG_COMMAND_BENCH_STEP | SG_COMMAND_BENCH_ATTENTION | SG_COMMAND_BENCH_COLD
} sg_command;

enum { SG_REPEAT_MAX = 400 };

extern const char *const sg_cold_parts[];    /* of bench cold, NULL-ended */
extern const char *const sg_offload_names[]; /* in sg_offload's order, NULL-ended */
extern const char *const sg_picture_fits[];  /* "crop", "pad", "stretch", NULL */

/* The values of an option that may be given several times. */
typedef struct sg_text_list {
    const char *item[8];
    int         count;
} sg_text_list;

/* What is asked for and, once resolved (resolve.h), what is in effect. Strings are borrowed: from argv, from the engine, or
 * from the JSON that they were read from. Not given is NULL, false, 0, NAN or, where 0 is a value, -1. */
typedef struct sg_settings {
    sg_command  command;
    bool        help, version, quiet, verbose, info_json;
    const char *topic;          /* help: "all", "man", "bash" or "zsh"; NULL: of the command */
    const char *operand;        /* info: the folder or file; compare: the first of two */
    const char *second_operand; /* compare */

    const char    *model;
    sg_model_parts parts;
    sg_text_list   lora, high_noise_lora; /* FILE or FILE:STRENGTH */
    bool           fast;                  /* the few steps that the model has of its own */
    const char    *prompt, *prompt_file, *negative_prompt;
    const char    *image, *last_image, *fit; /* picture.h */
    const char    *image_folder;             /* of the pictures that a set names */
    const char    *clip;                     /* clip_model.h: the folder */
    const char    *video;                    /* video_input.h */
    double         strength;                 /* of the video */
    int            size[2];                  /* width, height; pixels */
    bool           strict;                   /* refuse what the model cannot render, rather than take the nearest */
    int            batch;                    /* clips of each prompt; 0: one */
    int            frames, fps, steps;
    double         seconds; /* length of the clip, instead of frames; NAN once resolved */
    double         cfg_scale, cfg_scale_2, guidance, flow_shift;
    bool           dynamic_cfg;
    double         slg_scale, skip_layer_start, skip_layer_end;
    const char    *skip_layers;
    const char    *sampler, *preset_steps, *sigmas, *sched_compat, *cache;
    int64_t        seed; /* negative: drawn at random */

    /* self-attention */
    const char *preset, *attention, *dense_steps_kind, *score, *tail, *tail_bias, *pv_dtype, *budget, *order;
    double      topk, tau, sim, pv, dense_steps;
    int         sink; /* negative: not asked for */
    const char *dense_layers, *sparse_config, *block_mask, *capture_qkv;
    const char *arms; /* compare, eval: arms.h */

    const char *output, *grid, *latents, *json, *preview, *preview_decoder;
    int         preview_every; /* steps; 0: not asked for */
    double      crf;
    int         png_level; /* negative: not asked for */
    const char *backend, *dtype, *cpumask, *gpumask, *vae_tiling, *offload;
    int         device; /* negative: not asked for */
    int         threads;
    size_t      memory_limit;
    const char *shape, *qkv, *kinds, *topk_list; /* bench attention; the last two are lists with commas */
    int         heads;                           /* bench attention: so many of the model's */
    int         repeat;                          /* bench, compare */
    double      l1, l2;  /* tune: relative L1 that may come of prediction, and of it with the PV filter */
    const char *rule;    /* tune */
    double      least;   /* tune: the least amount of a head */
    int         buckets; /* tune */
    bool        force;   /* tune */
    bool        tune_cache;
    double      cache_error; /* tune: relative L2 of the final latents that the cache may make */
    const char *prompts;     /* eval: a file */
    bool        skip_bad;
    int         per_prompt;
    const char *shard, *merge; /* eval: part i/n; a folder */

    /* Of what went in; 0: none. tuned: of the thresholds beside the model, where they are in use; they replace topk, tau, sim
     * and pv. */
    struct {
        uint64_t model, image, last_image, video, sparse_config, block_mask, tuned;
    } hash;

    const char  *part;               /* bench cold: one of sg_cold_parts */
    char *const *arguments;          /* bench cold: the whole command line */
    void (*mark)(const char *piece); /* called at the end of each piece of a render; may be NULL */
} sg_settings;

/* Reads argv[1..argc-1], a command's name first or none for render. Unknown options, values out of range and stray
 * arguments are SG_E_ARG; e names the option, the value and what would do. With --help or --version the rest is left
 * unread; `help COMMAND` is `COMMAND --help`. */
sg_status sg_options_parse(sg_settings *s, int argc, char **argv, sg_error *e) SG_MUST_USE;

/* Settings of command c with nothing given. */
sg_settings sg_options_empty(sg_command c);

/* Sets the option of this name, without dashes, of s->command as the command line does; value is borrowed. SG_E_ARG. */
sg_status sg_options_set(sg_settings *s, const char *name, const char *value, sg_error *e) SG_MUST_USE;

enum { SG_HINT_TEXT = 80 };

/* "; did you mean --NAME?" with the entry of a NULL-ended list that was probably meant, or "". Returns text. */
const char *sg_options_hint(char text[SG_HINT_TEXT], const char *typed, const char *const *list, const char *dashes);

#endif
