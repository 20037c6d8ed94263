/* family.h - what a model family is: one const struct of functions and the components that they opened. Engine and
 * pipeline drive every family through it and ask nobody which model it is: texts and their states, passes and guidance,
 * noise, the sampler's loop, the names of what is not finite, memory and decoding are theirs. A model holds at most one
 * render at a time. */
#ifndef SG_FAMILY_H
#define SG_FAMILY_H

#include "checkpoint_files.h"
#include "component.h"
#include "engine.h"
#include "rng.h"
#include "sampler.h"
#include "self_attention.h"
#include "text_encoder.h"
#include "vae_encode.h"

enum {
    SG_TEXT_PASSES = 2, /* that have a text of their own: the prompt's, the negative prompt's */
    SG_PASSES_MAX = 3,  /* of a step through a denoiser: these; the prompt's once more, without some blocks */
    SG_TEXTS_MAX = 3,   /* text encoders */
    SG_ADDED_MAX = 2,   /* phases that a family adds */
    SG_DENOISERS_MAX = 4
};

/* Says how a family is guided. With CLASSIFIER_FREE, where cfg_scale is above 1, a second pass has the negative prompt
 * and the engine makes v = (1 - g) v_negative + g v_prompt. With EMBEDDED the request's guidance is an input of the
 * denoiser; a cfg_scale above 1 adds the second pass. With NONE there is one pass. */
typedef enum sg_guidance { SG_GUIDANCE_NONE, SG_GUIDANCE_CLASSIFIER_FREE, SG_GUIDANCE_EMBEDDED } sg_guidance;

typedef struct sg_text_source {
    sg_text_encoder encoder;
    int             tokens_max; /* longer texts are cut */
    int             before; /* of these, of the family's template before the text; they do not count as the text's */
    bool            padded; /* shorter ones are filled up, and the encoder and the denoiser see the pads too */
    bool            none_for_empty; /* an empty text has no token, not even the end */
} sg_text_source;

typedef struct sg_denoiser {
    sg_component      *component;
    const sg_name_map *names; /* of its tensors in the original repository, by which LoRAs go too; NULL: none */
    double             from; /* works at the sampler's timesteps from here up to the `from` of the denoiser before it */
    int                layers; /* of self-attention: of its blocks in turn; then those that a block has besides */
} sg_denoiser;

/* Says where the latents of a render lie. */
typedef struct sg_geometry {
    int64_t latent[4]; /* c, f, y, x */
    int64_t pad;       /* the first of these f are denoised with the others, and neither decoded nor saved */
    int64_t grid[3];   /* the denoiser's tokens of the video: frames, rows, columns */
    int     images;    /* that the render has, or will need: 0; 1, the first; 2, the last too */
} sg_geometry;

/* This is a phase that a family adds between its texts and denoising, for example to encode an image. */
typedef struct sg_added_phase {
    const char   *name;      /* in a plan, of SG_PHASE_NAME characters at most; not "text", "denoise" or "decode" */
    sg_component *component; /* loaded for this phase alone */
    bool          of_images; /* only of renders that have an image */
    /* run computes something of r, which the model keeps, on the host; for renders with the same images it is called
     * once. On a plan, which has no data, there may be no pixels, and what it computed before stays. g->images counts
     * in both. run tells `watch` of each unit of its work, at least one, on a plan too. */
    void (*run)(void *model, sg_stream *s, const sg_request *r, const sg_geometry *g, sg_watch watch);
} sg_added_phase;

/* Says what modulates the blocks of a model's only denoiser: rows that follow from a timestep and a text alone. A
 * render computes those of all its steps before them, in a phase of its own: the steps need none of its weights. */
typedef struct sg_modulations {
    sg_component *component;   /* has the weights that nothing else reads; NULL: the model has no such phase */
    int64_t       rows, width; /* of a step with a text */
} sg_modulations;

/* Describes what a model is made of, with which every model begins. The model owns all of it and keeps it where it is
 * until it is closed. */
typedef struct sg_components {
    sg_text_source    text[SG_TEXTS_MAX]; /* may be none */
    int               texts;
    sg_added_phase    added[SG_ADDED_MAX];
    int               addeds;                     /* 0 where there are modulations */
    sg_denoiser       denoiser[SG_DENOISERS_MAX]; /* in the order of their work; the last one's `from` is 0 */
    int               denoisers;
    sg_modulations    modulation;
    int64_t           patch[3]; /* of latents in one of their tokens: frames, rows, columns */
    sg_vae            vae;
    sg_sampler_config sampler;
    sg_guidance       guidance;
    bool              noise_by_frame; /* noise is drawn as [f, c, y, x], not [c, f, y, x] */
    sg_dtype          noise_dtype;    /* in which it is drawn: SG_F32, SG_F16, SG_BF16 give different numbers */
    int               size_multiple;  /* of width and height, pixels */
    sg_frame_rule     frames;
    int               skip_blocks; /* of the denoiser, for skip-layer guidance; 0: the family has none */
    sg_image_use      image[SG_IMAGES];
    sg_request        defaults; /* strings live as long as the model; what is of the sampler is set for all families */
} sg_components;

/* Finds the geometry of a request whose size and frames the model renders. Pads fill up the patches of frames. */
sg_geometry sg_geometry_of(const sg_components *c, const sg_request *r);

/* Holds what one encoder has of the text of one pass. */
typedef struct sg_text_states {
    int32_t *ids;    /* host [len] */
    int      len;    /* of them, pads too; may be 0 */
    int      tokens; /* of the text, without pads and the template before it */
    int      cut;    /* tokens of the text beyond these, which the encoder does not take */
    float   *states; /* host, F32 [len, width of the encoder]; NULL until they are computed, and where len is 0 */
    float   *row;    /* host, F32 [pooled]: of the whole text; NULL as states is, and where the encoder makes none */
} sg_text_states;

/* Holds the texts of all passes, by pass and encoder. */
typedef struct sg_conditioning {
    int            passes;   /* 1 or 2: those of text[] that there are */
    double         guidance; /* for SG_GUIDANCE_EMBEDDED */
    sg_text_states text[SG_TEXT_PASSES][SG_TEXTS_MAX];
} sg_conditioning;

/* Describes one pass of one step through a denoiser. */
typedef struct sg_pass {
    int         index, count; /* which of how many */
    int         text;         /* whose texts: 0 the prompt, 1 the negative prompt */
    const char *skipped;      /* blocks that it leaves out, as sg_request's skip_layers; NULL: none */
    int         denoiser, step;
    double      timestep;    /* of 1000, for sg_self_attention_run */
    int         first_layer; /* of this denoiser, as attention counts them through all */
    sg_tensor   t;           /* F32 [1]: the sampler's timestep */
    sg_tensor   modulation;  /* F32 [rows, width]: of this step with this text, where the model has such */
    sg_tensor   x, out;      /* F32 [c, f, y, x]: the latents, the model's output for them */
    /* non_finite I32 [layers + 2] += how many rows are not finite after the embedding and after each block, and how
     * many values of out. */
    sg_tensor non_finite;
} sg_pass;

/* Names a published model by the width of its denoiser. */
typedef struct sg_known_width {
    const char *name;
    int         width;
} sg_known_width;

/* Names the class of a component in model_index.json: this or, unless that is NULL, the other. */
typedef struct sg_class_rule {
    const char *component, *name, *other;
    bool        optional; /* there may be no such component */
} sg_class_rule;

enum { SG_LATENT_RGB_Z = 128 };

/* These are colours of latents without a decoder, for previews: rgb = bias + sum over channels c of z[c] factor[c], in
 * [-1, 1], of latents as the denoiser leaves them, before the decoder scales and shifts them. */
typedef struct sg_latent_rgb {
    int   z; /* channels */
    float bias[3];
    float factor[SG_LATENT_RGB_Z][3];
} sg_latent_rgb;

/* Holds what a family has of files, and knows of what stands in no file: its X_files.c. */
typedef struct sg_family_files {
    sg_model_files       checkpoint;
    const sg_name_map   *names; /* of its denoiser in the original repository, by which LoRAs go too */
    const sg_latent_rgb *rgb;   /* of its published models, the last without channels; NULL: none are known */
} sg_family_files;

typedef struct sg_family {
    const char            *name;
    const char *const     *class_names; /* _class_name in model_index.json, NULL-ended */
    const sg_family_files *files;       /* NULL: of a family that is in no registry */
    const sg_known_shape  *shapes;      /* of its published models, the last without a name; NULL: none */
    const sg_known_width  *widths;      /* ended in the same way; for messages that say which model a LoRA is for */

    const sg_class_rule *classes; /* the last without a component */
    size_t               size;    /* bytes of a model, which begins with its sg_components */

    /* open opens every component of c, which outlives the model, into a model of zeros. Loads nothing. index is
     * sg_checkpoint_index's; its classes are checked. close is called after a failure too, and closes all but text
     * encoders and VAE. The engine calls both through dit.h. */
    sg_status (*open)(void *model, const sg_checkpoint *c, sg_config *index, sg_dtype act, sg_error *e);
    void (*close)(void *model);

    /* check returns SG_E_ARG for what r may not ask beyond the engine's own checks. It is NULL where that is
     * nothing. */
    sg_status (*check)(const void *model, const sg_request *r, sg_error *e);

    /* dynamic_guidance returns, with dynamic_cfg, the guidance of one step from cfg_scale, the number of steps and the
     * sampler's timestep. It is NULL where the family has none. */
    double (*dynamic_guidance)(double scale, int steps, double timestep);

    /* prompt makes what an encoder is given of a pass's text, UTF-8: it cleans the text, or puts it into a template.
     * *out is the caller's to free and has *size bytes. Where that is the text itself, both stay as they are: NULL and
     * its length. prompt is NULL where it always is. */
    sg_status (*prompt)(const void *model, int encoder, int pass, const char *text, char **out, size_t *size,
                        sg_error *e);

    /* attention describes self-attention of one layer, counted through all denoisers, with the texts of one pass. It
     * sets n, h, hk, d and, where text stands before or after the video's tokens, text_prefix and text_suffix of
     * *shape, which is zero. c has the texts' lengths. Layers and texts may differ in all of them. */
    void (*attention)(const void *model, const sg_geometry *g, const sg_conditioning *c, int pass, int layer,
                      sg_attention_shape *shape);

    /* Sets y F32 [steps, texts, rows, width] to what modulates each step with each of c's texts. t F32 [steps] has the
     * sampler's timesteps; on a plan c has no states. It is NULL where there are no modulations. */
    void (*modulate)(void *model, sg_stream *s, const sg_conditioning *c, sg_tensor t, sg_tensor y);
    /* Puts into s->keep what all steps of a render share; `self` is borrowed until the next call. Forgets an earlier
     * render. */
    void (*render_open)(void *model, sg_stream *s, const sg_geometry *g, const sg_self_attention *self);
    /* Draws latents of an image from the render's generator, before the noise is drawn, into what render_open placed.
     * It is called in renders with images, and not on a plan. NULL means that nothing is drawn. */
    void (*draw)(void *model, sg_stream *s, sg_rng *rng);
    /* Puts into s->keep, after that, what all steps of this denoiser share, for example what follows from the texts'
     * states. On a plan c has no states. */
    void (*denoiser_open)(void *model, sg_stream *s, int denoiser, const sg_conditioning *c);
    /* Sets p->out to the model's output for p->x. The passes of a step come in turn; what the first leaves in
     * s->scratch stays there until the last is over, so that what they share is computed once. Reads nothing back from
     * the device. */
    void (*forward)(void *model, sg_stream *s, const sg_pass *p);
    /* Puts into the latents x what an image tells of them, once on the noise and after each step. NULL means that it
     * tells nothing. */
    void (*hold)(void *model, sg_stream *s, sg_tensor x);
} sg_family;

/* These are the families: each has an sg_family_NAME in NAME.c and an sg_files_NAME in NAME_files.c. */
#define SG_FAMILIES(X)                                                                                                 \
    X(wan)                                                                                                             \
    X(cogvideox)                                                                                                       \
    X(mochi)                                                                                                           \
    X(hunyuan)                                                                                                         \
    X(flux)                                                                                                            \
    X(sd3)                                                                                                             \
    X(opensora)

#define SG_FAMILY_EXTERN(name)                                                                                         \
    extern const sg_family       sg_family_##name;                                                                     \
    extern const sg_family_files sg_files_##name;
SG_FAMILIES(SG_FAMILY_EXTERN)

extern const sg_family *const sg_families[]; /* all of them, NULL-ended */

/* Returns what family i knows of files, and behind all families what they share; NULL past that. For
 * sg_checkpoint_open_parts. */
const sg_model_files *sg_files_of(int i);

#endif
