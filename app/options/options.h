/* options.h - the command line: one table drives parsing, help and the messages about a wrong value. */
#ifndef SG_OPTIONS_H
#define SG_OPTIONS_H

#include <spargegen/spargegen.h>
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
    SG_COMMAND_SERVE = 512,
    SG_COMMAND_LANGUAGE = 1024,
    SG_COMMAND_ARMS = SG_COMMAND_COMPARE | SG_COMMAND_EVAL,
    SG_COMMAND_BENCH = /* while it is not known which */
    SG_COMMAND_BENCH_STEP | SG_COMMAND_BENCH_ATTENTION | SG_COMMAND_BENCH_COLD
} sg_command;

enum { SG_REPEAT_MAX = 400 };

/* These lists of choices end with NULL: parts of bench cold, where bench attention plants keys, how a picture is fitted, and how
 * an answer is scored. */
extern const char *const sg_cold_parts[], *const sg_planted_names[], *const sg_picture_fits[], *const sg_answer_metric_names[];

enum { SG_LIST_MAX = 8 };

/* A list has the values of an option that may be given several times. */
typedef struct sg_text_list {
    const char *item[SG_LIST_MAX];
    int         count;
} sg_text_list;

/* Settings are what is asked for and, once resolved (resolve.h), what is in effect. Strings are borrowed: from argv,
 * from the engine, or from the JSON that they were read from. A member that is not given is NULL, false, 0, NAN or,
 * where 0 is a value, -1. The option table has the meaning of most. */
typedef struct sg_settings {
    sg_command command;
    bool       help, version, quiet, verbose;
    /* topic of help is "all", "man", "bash", "zsh" or a word to be found; NULL is that of the command. */
    const char *topic;
    /* info has one operand, a folder or file; compare has two; language has a task and perhaps a file. */
    const char *operand, *second_operand;

    const char    *model;
    sg_model_parts parts;
    sg_text_list   lora, high_noise_lora; /* FILE or FILE:STRENGTH */
    bool           fast;
    const char    *prompt, *prompt_file, *negative_prompt;
    const char    *image, *last_image, *fit, *image_folder, *clip, *video;
    double         strength;
    int            size[2]; /* width, height; pixels */
    bool           strict;
    /* batch is the number of clips of each prompt; 0 is one. seconds, once resolved, have become frames. A negative
     * seed is drawn at random. */
    int         batch, frames, fps, steps;
    double      seconds;
    double      cfg_scale, cfg_scale_2, guidance, flow_shift;
    bool        dynamic_cfg;
    double      slg_scale, skip_layer_start, skip_layer_end;
    const char *skip_layers;
    const char *sampler, *preset_steps, *sigmas, *sched_compat, *cache;
    int64_t     seed;

    /* self-attention */
    const char *preset, *attention, *dense_steps_kind, *score, *tail, *tail_bias, *pv_dtype, *budget, *order;
    double      topk, tau, sim, pv, dense_steps;
    int         sink;
    const char *dense_layers, *sparse_config, *block_mask, *capture_qkv, *arms;

    const char *output, *grid, *latents, *json, *preview, *preview_decoder;
    int         preview_every; /* steps */
    double      crf;
    int         png_level;
    const char *backend, *dtype, *cpumask, *gpumask, *vae_tiling, *offload, *weights_as;
    bool        lora_merge;
    int         device, threads;
    size_t      memory_limit;

    /* bench; kinds and topk_list are lists with commas */
    const char *shape, *qkv, *kinds, *topk_list, *part, *inputs, *planted, *margins, *save_qkv;
    int         heads, kv_heads, repeat;

    /* tune: l1 is the relative L1 that may come of prediction, l2 that of it with the PV filter, cache_error the
     * relative L2 of the final latents that the cache may make. */
    double      l1, l2, least, cache_error;
    const char *rule;
    const char *text;
    int         buckets, length;
    bool        force, tune_cache;

    /* eval */
    const char *prompts, *shard, *merge;
    bool        skip_bad;
    int         per_prompt;

    /* language; lengths and depths are lists with commas */
    const char *haystack, *lengths, *depths, *template, *metric;
    int         window, stride, max_tokens;
    bool        kl;

    /* serve */
    const char  *host, *models, *loras, *api_key_file;
    int          port, max_queue, max_jobs;
    sg_text_list allow_host, allow_origin;
    size_t       max_upload, max_disk;

    /* These are the hashes of what went in; 0: none. tuned is that of the thresholds beside the model, where they are
     * in use; they replace topk, tau, sim and pv. */
    struct {
        uint64_t model, image, last_image, video, sparse_config, block_mask, tuned;
    } hash;

    /* bench cold has the whole command line, and calls mark, unless it is NULL, at the end of each piece of a
     * render. */
    char *const *arguments;
    void (*mark)(const char *piece);
} sg_settings;

/* Reads argv[1..argc-1], a command's name first or none for render. Unknown options, values out of range and stray
 * arguments are SG_E_ARG; e names the option, the value and what would do. With --help or --version the rest is left
 * unread; `help COMMAND` is `COMMAND --help`. */
sg_status sg_options_parse(sg_settings *s, int argc, char **argv, sg_error *e) SG_MUST_USE;

/* Returns settings of command c with nothing given. */
sg_settings sg_options_empty(sg_command c);

/* Sets the option of this name, without dashes, of s->command as the command line does; value is borrowed. SG_E_ARG. */
sg_status sg_options_set(sg_settings *s, const char *name, const char *value, sg_error *e) SG_MUST_USE;

enum { SG_HINT_TEXT = 80 };

/* Puts "; did you mean --NAME?" into text, with the entry of a NULL-ended list that was probably meant, or "". Returns
 * text. */
const char *sg_options_hint(char text[SG_HINT_TEXT], const char *typed, const char *const *list, const char *dashes);

#endif
