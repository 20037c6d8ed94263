/* engine_state.h - what an open engine holds, for the files of this folder and for tests. engine.c opens it,
 * engine_info.c describes it, request_check.c says what may be asked of it. */
#ifndef SG_ENGINE_STATE_H
#define SG_ENGINE_STATE_H

#include "engine.h"
#include "family.h"
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
    const char          *image_file; /* "image_lora" of sparge-gen.json: a LoRA for renders with a picture; or NULL */
    sg_lora             *image_lora; /* that file while the denoisers have it; or NULL */
    size_t               patches[SG_DENOISERS_MAX]; /* of each denoiser without it */
    sg_keeper            keeper;                    /* of all weights */
    sg_conditioning      texts;                     /* of the last render or plan */
    uint64_t             encoded[SG_ADDED_MAX];     /* hash of the pictures that an added phase has encoded; 0: none */
    float               *start; /* host: the latents of the image or video encoded last, as sg_vae_encode has them */
    uint64_t             start_hash; /* of its frames; 0: there are none */
    sg_dtype             act;
    sg_request           defaults;
    sg_config           *own;          /* sparge-gen.json, which holds strings of defaults; or NULL */
    sg_latent_rgb        own_rgb;      /* of sparge-gen.json; z 0: none */
    sg_vae               preview;      /* the decoder of previews; no ops: none */
    sg_thresholds_file   tuned;        /* sparge-attention.json, which defaults point to; or empty */
    size_t               memory_limit; /* 0: none given */
    size_t               base_bytes; /* before any render: of this process, resident; of a device, what its ops hold */
    sg_offload           offload;
    bool                 check;
    sg_trace            *trace;
    sg_tap_fn           *tap; /* given to every stream of a render */
    void                *tap_context;
    sg_attention_count  *count; /* [steps][passes][layers], of the last render; NULL: none */
    int                  steps, passes, layers;
};

/* Adds so many LoRAs to the denoisers that they are for. */
sg_status sg_engine_add_loras(sg_engine *engine, const sg_lora_option *o, int count, sg_error *e);

/* Adds image_file to the denoisers, which do not have it, or takes it back; nothing is loaded. After a failure they do
 * not have it. */
sg_status sg_engine_set_image(sg_engine *engine, bool on, sg_error *e);

#endif
