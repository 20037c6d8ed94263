/* engine_state.h - what an open engine holds, and what it can do for a render: a section for each file. engine.c opens
 * it, engine_info.c describes it, request_check.c says what may be asked of it. It is for this folder and for tests. */
#ifndef SG_ENGINE_STATE_H
#define SG_ENGINE_STATE_H

#include "engine.h"
#include "family.h"
#include "lora.h"
#include "meta.h"
#include "vocabulary.h"
#include "weight_keeper.h"

struct sg_engine {
    sg_checkpoint       *checkpoint;
    sg_backend          *backend;
    const sg_family     *family;
    void                *model;
    const sg_components *components;         /* of model, which owns them */
    sg_lora             *lora[SG_LORAS_MAX]; /* outlive the model */
    sg_lora_info         lora_info[SG_LORAS_MAX];
    int                  loras;
    sg_component_info    component_info[SG_COMPONENTS_MAX];
    sg_model_info        info;
    const char          *image_file; /* "image_lora" of sparge-gen.json: a LoRA for renders with a picture; or NULL */
    sg_lora             *image_lora; /* that file while the denoisers have it; or NULL */
    size_t               patches[SG_DENOISERS_MAX + 1]; /* of each denoiser, and of the modulations, without it */
    sg_keeper            keeper;                        /* of all weights */
    sg_conditioning      texts;                         /* of the last render or plan */
    uint64_t             encoded[SG_ADDED_MAX]; /* hash of the pictures that an added phase has encoded; 0: none */
    float               *start; /* host: the latents of the image or video encoded last, as sg_vae_encode has them */
    uint64_t             start_hash;      /* of its frames; 0: there are none */
    float               *modulation;      /* host: sg_family's y of the last render */
    uint64_t             modulation_hash; /* of what it was made of; 0: there is none */
    sg_dtype             act;
    sg_request           defaults;
    sg_config           *own;        /* sparge-gen.json, which holds strings of defaults; or NULL */
    sg_vocabulary        vocabulary; /* of it */
    sg_latent_rgb        own_rgb;    /* of sparge-gen.json; z 0: none */
    sg_vae               preview;    /* the decoder of previews; no ops: none */
    char                *tuned_path; /* of sparge-attention.json where that has thresholds, for defaults; or NULL */
    sg_thresholds_file   tuned;      /* what it has; or empty */
    sg_attention_watch   watch;
    size_t               memory_limit; /* 0: none given */
    int64_t              rows_at_once; /* of tokens, in every render; 0: all, or fewer where they do not fit */
    size_t               base_bytes; /* before any render: of this process, resident; of a device, what its ops hold */
    sg_offload           offload;
    int                  weights_as; /* as sg_model_info has it */
    bool                 lora_merge;
    bool                 check;
    sg_trace            *trace; /* times, another, or NULL */
    sg_trace             times; /* of the last render, where the options say timed */
    void (*log)(void *context, int level, const char *text);
    void               *log_context;
    sg_tap_fn          *tap; /* given to every stream of a render */
    void               *tap_context;
    bool                at_work; /* a call is, that renders or plans; atomic */
    int                 cancel;  /* 1: another thread has asked the call at work to end; atomic */
    sg_attention_count *count;   /* [steps][passes][layers], of the last render; NULL: none */
    int                 steps, passes, layers;
};

/* ---- engine.c ---- */

/* Says how quantised weights lie, of which none is loaded. */
void sg_engine_hold_weights(sg_engine *engine, bool widened);

/* ---- engine_info.c ---- */

/* Fills engine->info, when all is open. */
void sg_engine_describe(sg_engine *engine);

/* Gives a line to the caller's log, if there is one. level is SG_LOG_INFO .. . */
void sg_engine_log(const sg_engine *engine, int level, const char *fmt, ...) SG_PRINTF(3, 4);

/* ---- loras.c ---- */

/* Adds so many LoRAs to the denoisers that they are for. */
sg_status sg_engine_add_loras(sg_engine *engine, const sg_lora_option *o, int count, sg_error *e);

/* Returns whether products of a LoRA are computed beside weights that it changes. */
bool sg_engine_lora_is_beside(const sg_engine *engine, int lora);

/* Adds image_file to the denoisers, which do not have it, or takes it back; nothing is loaded. After a failure they do
 * not have it. */
sg_status sg_engine_set_image(sg_engine *engine, bool on, sg_error *e);

/* ---- conditioning.c: texts, as tokens and states by pass and encoder, kept from one render to the next ---- */

/* Tells whether step i of so many that r does has a pass that leaves out blocks. */
bool sg_skips_layers(const sg_request *r, int steps, int step);

/* Puts the tokens of r's texts into c, by work of the host. States of the same tokens stay. Without a prompt, as when a
 * plan is asked for no prompt in particular, the longest is assumed. */
sg_status sg_conditioning_tokenize(sg_conditioning *c, const sg_family *f, const void *model,
                                   const sg_components *components, const sg_request *r, sg_error *e) SG_MUST_USE;

/* Tells whether the states that this encoder made of the tokens are there. */
bool sg_conditioning_encoded(const sg_conditioning *c, int encoder);

/* Runs an encoder on the tokens of all passes whose states are missing; the states come back to the host. On a plan the
 * states that are there stay as they are. SG_E_NUMERIC is latched where one is not finite. */
void sg_conditioning_encode(sg_conditioning *c, const sg_components *components, int encoder, sg_stream *s);

void sg_conditioning_free(sg_conditioning *c);

/* ---- phase.c: the phases of a render in the order of their work, and the weights that each works with ---- */

typedef enum sg_phase_kind {
    SG_PHASE_TEXT,
    SG_PHASE_MODULATION, /* of all steps */
    SG_PHASE_START,      /* of renders that start from an image or a video */
    SG_PHASE_ADDED,
    SG_PHASE_DENOISE,
    SG_PHASE_DECODE
} sg_phase_kind;

/* A phase of a render has memory of its own. */
typedef struct sg_phase {
    sg_phase_kind kind;
    int           index;         /* of the text encoder, or of what the family adds */
    const char   *name;          /* as sg_phase_plan has it */
    sg_stage      stage;         /* in which its time and its progress are counted */
    size_t        keep, scratch; /* bytes of its arenas, as the plan found them */
    int           units; /* of its work that progress tells of, as the plan found them; not of the last two kinds */
} sg_phase;

/* Lists the phases of r, and returns how many: each text encoder, modulations, the start, what the family adds,
 * denoising, decoding. Latents that are there already are only decoded. r NULL: all that the model has. */
int sg_phases_of(const sg_components *components, const sg_request *r, sg_phase phase[SG_PHASES_MAX]);

/* Returns the weights that a phase works with. i counts denoisers, which take turns; any other phase has one. NULL is
 * past the last. */
sg_component *sg_phase_component(const sg_components *components, const sg_phase *phase, int i);

/* Returns "image" or "video": what r starts from, for names and messages. */
const char *sg_start_name(const sg_request *r);

/* Returns the number of the denoiser that works at this timestep of the sampler. */
int sg_denoiser_at(const sg_components *components, double timestep);

/* Returns how many layers of self-attention the denoisers before this one have. Where `denoiser` is the number of
 * denoisers, these are all of them. */
int sg_first_layer(const sg_components *components, int denoiser);

#endif
