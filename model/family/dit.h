/* dit.h - the shell of a diffusion transformer: what the families have around their blocks. It opens and closes a
 * model, checks that its components fit, and makes of the latents the tokens that the blocks work on, and of these the
 * latents again. A family calls it, and it calls no family while denoising. A forward is
 *
 *   x = sg_dit_patch_embed(latents);  x = blocks(x), by sg_dit_attend;  latents = sg_dit_project_out(norm(x))
 *
 * Tokens x F32 [n, D] stand in the order that attention asks for. Where layers attend by groups of tokens,
 * sg_dit_arrange brings x into those of a layer before it runs. Sizes: D is the width, h heads, d head_dim, n tokens of
 * the video. Tensors that a function returns are in s->scratch, what belongs to a render is in s->keep; failures are
 * latched in s. Only what says so allocates host memory, and the caller frees it. */
#ifndef SG_DIT_H
#define SG_DIT_H

#include "family.h"
#include "layers.h"

/* ---- a model ---- */

/* Opens a model of family f: checks the classes in index by f->classes, calls f->open, gives each component its class
 * for people, and completes the defaults by what families have in common (sampler, flow_shift, the negative prompt "",
 * one cfg_scale for all experts). Errors: SG_E_FORMAT for another class, and for an encoder whose texts are filled up
 * but whose tokenizer has no pad; SG_E_MEMORY; those of f->open. *model is NULL after a failure, else the caller's to
 * close. */
sg_status sg_model_open(void **model, const sg_family *f, const sg_checkpoint *c, sg_config *index, sg_dtype act,
                        sg_error *e) SG_MUST_USE;

/* Closes what f opened, its text encoders and its VAE, and frees the model. *model may be NULL, and is so after it. */
void sg_model_close(void **model, const sg_family *f);

/* One row of what must agree among components: `number`, which stands at `where`, equals `wanted`, which stands at
 * `there`. Both places are words for the message: "the width of text_encoder", "vae/config.json: latent_channels". */
typedef struct sg_fit {
    int64_t     number;
    const char *where;
    int64_t     wanted;
    const char *there;
} sg_fit;

/* Returns SG_E_FORMAT for the first row that differs, "path: where is number, but there is wanted". The table ends with
 * a row without `where`. */
sg_status sg_check_fit(const sg_fit *rows, const char *path, sg_error *e) SG_MUST_USE;

/* These are numbers for rows of that table: of a token's state, and of the row that stands for a whole text, from text
 * encoder k. */
int64_t sg_text_width(const sg_components *c, int k);
int64_t sg_text_pooled(const sg_components *c, int k);

/* ---- a denoiser ---- */

typedef struct sg_dit {
    sg_component      component;
    sg_config        *config;                 /* config.json, from sg_dit_open to sg_dit_check */
    int64_t           heads, head_dim, width; /* width = heads x head_dim */
    int64_t           text_dim;               /* numbers of a token's state, as the text encoder gives them */
    int64_t           channels;               /* of the latents, which come out */
    int64_t           input;         /* channels that go in: those, or behind them as many more as a picture has */
    int64_t           patch[3];      /* of latents in one token: frames, rows, columns */
    bool              channels_last; /* a token comes out as [pt, ph, pw, c], not as [c, pt, ph, pw] */
    sg_linear_weights patch_in;      /* [D, input, pt, ph, pw], in any number of dimensions; [D]? */
    sg_linear_weights text_in;       /* [any, text_dim] [any]; absent: the text is another way's */
    sg_linear_weights proj_out;      /* [channels pt ph pw, D] [channels pt ph pw] */
} sg_dit;

/* Opens component `name` of c; loads nothing. Its config.json is in d->config, where the family reads its numbers;
 * then it binds the weights. Errors: those of sg_component_open, SG_E_FORMAT for a config of another class than
 * class_name. sg_dit_close closes, after a failure too. */
sg_status sg_dit_open(sg_dit *d, const sg_checkpoint *c, const char *name, const char *class_name, sg_dtype act,
                      sg_error *e) SG_MUST_USE;

/* Ends opening: closes d->config and checks the tensors by sg_bind_check, whose error it returns. The text, at most 159
 * bytes, is the component's summary for people. */
sg_status sg_dit_check(sg_dit *d, sg_error *e, const char *summary, ...) SG_MUST_USE SG_PRINTF(3, 4);

void sg_dit_close(sg_dit *d); /* one that never opened is fine */

/* Adds d to the denoisers of c, with so many layers of self-attention. names may be NULL. d stays the family's to
 * close. The patch of c becomes that of d. */
void sg_components_add_dit(sg_components *c, sg_dit *d, const sg_name_map *names, int64_t layers);

/* Opens the VAE of c, to be called behind sg_components_add_dit: size_multiple follows from the patch, too. It is
 * closed with the model, after its denoiser. Errors: sg_vae_open's. */
sg_status sg_components_open_vae(sg_components *c, const sg_vae_ops *ops, const sg_checkpoint *from, sg_dtype act,
                                 sg_error *e) SG_MUST_USE;

/* Returns how many numbers a token has of so many channels: channels x pt x ph x pw. */
int64_t sg_dit_patch_size(const sg_dit *d, int64_t channels);

/* Describes self-attention of a layer over the n tokens of g with so many of text before and behind them, as
 * sg_family.attention does. */
void sg_dit_shape(const sg_dit *d, const sg_geometry *g, int64_t before, int64_t behind, sg_attention_shape *shape);

/* ---- a render ---- */

enum { SG_DIT_ORDERS = 3 }; /* of the rows of x, at most: without groups, and by two kinds of them */

/* Holds what the steps of a render share, in s->keep. Rows of x stand in one of several orders: number 0 is that in
 * which attention without groups wants them; in others they stand group after group, and within one as in that. */
typedef struct sg_dit_run {
    int64_t   grid[3], n; /* tokens of the video: frames, rows, columns; all */
    sg_tensor order;      /* I32 [n]: which token each row of x is, in order 0; absent: row by row */
    int       orders;
    sg_groups groups[SG_DIT_ORDERS];
    sg_tensor inverse[SG_DIT_ORDERS];             /* I32 [n]: which row each token is; absent: row by row */
    sg_tensor move[SG_DIT_ORDERS][SG_DIT_ORDERS]; /* I32 [n]: from, to: which row of the one each row of the other is */
    sg_rotary rotary[SG_DIT_ORDERS];              /* of the rows of x; absent: none are rotated */
    sg_tensor input; /* F32 [input, f, y, x]: the latents, and behind them a picture's; absent: they alone */
    /* For families whose tokens of text go into the blocks, by text: F32 [tokens, any], text_in of the states; F32
     * [1, D], what is added to the time's embedding. */
    sg_tensor text[SG_TEXT_PASSES], row[SG_TEXT_PASSES];

    const sg_self_attention *self; /* borrowed */
} sg_dit_run;

/* Starts a render with the tokens of g: grid, the orders that layers of `self` want, and room for input, where d has
 * more channels of it than of the latents. Whatever r had before is forgotten. `self` is borrowed until the next
 * call. */
void sg_dit_run_open(sg_dit_run *r, const sg_dit *d, sg_stream *s, const sg_geometry *g, const sg_self_attention *self);

/* Sets r->rotary, in all orders, for a grid whose axis k rotates size[k] channels of a head, an even number: pair j by
 * the angle place theta^(-2 j / size[k]). Axes follow one another. place[k] has the place of each row along axis k;
 * where it or `place` is NULL, that is its number from 0. Angles are in double, cosines and sines are rounded once. */
void sg_dit_run_rotary(sg_dit_run *r, sg_stream *s, const int64_t size[3], double theta, const double *const place[3]);

/* Sets r->text[k] to the states F32 [len, text_dim], on the host and NULL on a plan, through text_in. */
void sg_dit_run_text(sg_dit_run *r, const sg_dit *d, sg_stream *s, int k, const float *states, int64_t len);

/* Returns act [len, D], the states F32 [len, text_dim] of a text, on the host and NULL on a plan, through l: what
 * cross-attention makes its keys of. Taps "dit.text". */
sg_tensor sg_dit_embed_text(const sg_dit *d, sg_stream *s, const sg_linear_weights l[2], const float *states,
                            int64_t len);

/* Sets `mean`, on the host, to the mean of len states of dim numbers; zeros where there is none. */
void sg_dit_mean(float *mean, const float *states, int64_t len, int64_t dim);

/* ---- one forward ---- */

/* Returns F32 [1, D] = silu(temb), temb = l[1] silu(l[0] sinusoid(t)) + added, where t is F32 [1]. Taps temb. */
sg_tensor sg_dit_time(sg_stream *s, sg_tensor t, const sg_linear_weights l[2], sg_tensor added, const char *tap);

/* Sets x [n, D] to the patches of the latents p->x, and of what stands behind them in r->input, in order, times
 * patch_in; with `add` adds them to x. Taps "dit.patch_embed". */
void sg_dit_patch_embed(const sg_dit *d, const sg_dit_run *r, sg_stream *s, const sg_pass *p, sg_tensor x, bool add);

/* The tokens of a pass on their way through layers that attend by groups. */
typedef struct sg_dit_tokens {
    sg_tensor x, spare; /* F32 [n, D]: the rows; room to move them */
    int       order;    /* in which they stand; 0 behind sg_dit_patch_embed, and for sg_dit_project_out */
} sg_dit_tokens;

/* Brings the rows of t->x into groups that a layer of r->self attends by, or with zeros into order 0. x and spare
 * change places where rows move. */
void sg_dit_arrange(const sg_dit_run *r, sg_stream *s, sg_dit_tokens *t, sg_groups groups);

/* Returns t->x with a row for each token, row by row, as whoever looks wants it: t->x itself, or t->spare. */
sg_tensor sg_dit_row_by_row(const sg_dit_run *r, sg_stream *s, const sg_dit_tokens *t);

/* Returns the o of sg_dit_attend of layer i: a tensor in s->scratch, or where memory is short q or k, if it may be: both
 * are then written over. */
sg_tensor sg_dit_attended(const sg_dit_run *r, sg_stream *s, const sg_pass *p, int i, sg_tensor q, sg_tensor k);

/* Runs attention of layer i of this denoiser, scores scaled by 1 / sqrt(d): o [m, h, d] of q, k, v [m, h, d], where m
 * counts the text's tokens too. */
void sg_dit_attend(const sg_dit *d, const sg_dit_run *r, sg_stream *s, const sg_pass *p, int i, sg_tensor o,
                   const sg_tensor qkv[3]);

/* Sets p->out to y [n, D], the last norm of the tokens, times proj_out and put back in place, and counts what of it is
 * not finite. Taps "dit.proj_out". */
void sg_dit_project_out(const sg_dit *d, const sg_dit_run *r, sg_stream *s, const sg_pass *p, sg_tensor y);

#endif
