/* sd3_dit.c - the denoiser of Stable Diffusion 3 (arXiv:2403.03206) and 3.5.
 *
 * Tensor names are those of diffusers' SD3Transformer2DModel. Tokens stand as [picture | text]. What bites:
 *  - positions are a table of the file, the middle of which is taken; no rotation;
 *  - SD3.5 normalises queries and keys, SD3 does not;
 *  - in the first blocks of SD3.5 medium the picture attends to itself besides, from what the block is given;
 *  - the last block takes the text and leaves it as it is;
 *  - timesteps are of 1000 and not rounded;
 *  - the output modulation has scale before shift;
 *  - the patch vector is (c, ph, pw) on the way in and (ph, pw, c) on the way out. */
#include "sd3_dit.h"
#include "base/text.h"
#include "op.h"
#include "token_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 4096, PLACES_MAX = 4096, FFN = 4 };

struct sg_sd3_dit {
    sg_component      component;
    sg_sd3_config     config;
    bool              dual[LAYERS_MAX];
    sg_tensor         patch_w, patch_b; /* [D, C, p, p] [D] */
    sg_linear_weights text_in;          /* [D, text_dim] */
    sg_mmdit          blocks;
    sg_token_table    places; /* [places places, D]: row by row */
};

sg_component        *sg_sd3_dit_component(sg_sd3_dit *d) { return &d->component; }
const sg_sd3_config *sg_sd3_dit_config(const sg_sd3_dit *d) { return &d->config; }

/* ---- opening ---- */

static void read_duals(sg_sd3_dit *d, sg_config *f)
{
    const int64_t  layers = d->config.blocks.layers;
    int64_t *const list = calloc((size_t)layers, sizeof *list);
    if (!list) {
        sg_config_fail(f, "dual_attention_layers", "no memory for %lld layers", (long long)layers);
        return;
    }
    const int count = sg_config_ints(f, "dual_attention_layers", 0, layers - 1, list, 0, (int)layers);
    for (int i = 0; i < count; i++) {
        d->config.duals += !d->dual[list[i]];
        d->dual[list[i]] = true;
    }
    d->config.blocks.dual = d->dual;
    free(list);
}

static sg_status read_config(sg_sd3_dit *d, sg_config *f)
{
    sg_sd3_config *const   c = &d->config;
    sg_mmdit_config *const m = &c->blocks;
    c->patch[0] = 1;
    c->patch[1] = c->patch[2] = sg_config_int(f, "patch_size", 1, 16, &(int64_t){2});
    m->heads = sg_config_int(f, "num_attention_heads", 1, 1024, &(int64_t){18});
    m->head_dim = sg_config_int(f, "attention_head_dim", 1, 256, &(int64_t){64});
    m->width = m->heads * m->head_dim;
    m->layers = sg_config_int(f, "num_layers", 1, LAYERS_MAX, &(int64_t){18});
    m->ffn = FFN * m->width;
    m->row_dim = sg_config_int(f, "pooled_projection_dim", 1, 1 << 18, &(int64_t){2048});
    m->text_ends = true;
    c->channels = sg_config_int(f, "in_channels", 1, 4096, &(int64_t){16});
    m->features = c->channels * c->patch[1] * c->patch[2];
    c->text_dim = sg_config_int(f, "joint_attention_dim", 1, 1 << 18, &(int64_t){4096});
    c->places = sg_config_int(f, "pos_embed_max_size", 1, PLACES_MAX, &(int64_t){96});
    c->sample_size = sg_config_int(f, "sample_size", 1, 1 << 14, &(int64_t){128});
    const int64_t out = sg_config_int(f, "out_channels", 1, 4096, &c->channels);
    if (out != c->channels)
        sg_config_fail(f, "out_channels", "%lld, but in_channels is %lld: they should agree", (long long)out,
                       (long long)c->channels);
    const int64_t text = sg_config_int(f, "caption_projection_dim", 1, 1 << 18, &(int64_t){1152});
    if (text != m->width)
        sg_config_fail(f, "caption_projection_dim", "%lld, but the %lld heads of %lld channels have %lld",
                       (long long)text, (long long)m->heads, (long long)m->head_dim, (long long)m->width);
    m->plain_heads = !sg_config_has(f, "qk_norm");
    if (!m->plain_heads) sg_config_only(f, "qk_norm", "rms_norm", NULL);
    SG_TRY(sg_config_status(f));
    read_duals(d, f);
    return sg_config_status(f);
}

static sg_status bind_weights(sg_sd3_dit *d, const char *what, sg_error *e)
{
    static const char          places[] = "pos_embed.pos_embed";
    const sg_sd3_config *const c = &d->config;
    sg_bind *const             b = d->component.bind;
    const int64_t              o = c->blocks.width;
    sg_bind_prefix(b, "%s", "");
    sg_bind_tensor(b, &d->patch_w, d->component.act, "pos_embed.proj.weight", o, c->channels, c->patch[1], c->patch[2]);
    sg_bind_tensor(b, &d->patch_b, SG_F32, "pos_embed.proj.bias", o);
    sg_want_linear(b, &d->text_in, d->component.act, "context_embedder", o, c->text_dim);
    SG_TRY(sg_mmdit_bind(&d->blocks, b, d->component.act, what, e));
    return sg_token_table_open(&d->places, &d->component, places, places, (int)(c->places * c->places), (int)o, e);
}

static void describe(sg_sd3_dit *d)
{
    const sg_sd3_config *const   c = &d->config;
    const sg_mmdit_config *const m = &c->blocks;
    char                         dual[48] = "";
    if (c->duals) snprintf(dual, sizeof dual, ", %lld with a second attention", (long long)c->duals);
    snprintf(d->component.summary, sizeof d->component.summary,
             "%lld layer%s%s, %lld heads x %lld, ffn %lld, %lld latent channels", (long long)m->layers,
             sg_plural(m->layers), dual, (long long)m->heads, (long long)m->head_dim, (long long)m->ffn,
             (long long)c->channels);
}

static sg_status open_into(sg_sd3_dit *d, const sg_checkpoint *from, const char *name, sg_dtype act, sg_error *e)
{
    sg_config *f = NULL;
    sg_status  st = sg_component_open(&d->component, from, name, "SD3Transformer2DModel", act, &f, e);
    if (!st) st = read_config(d, f);
    sg_config_close(&f);
    SG_TRY(st);
    if ((size_t)d->config.blocks.layers > sg_source_count(d->component.source))
        return sg_error_set(e, SG_E_FORMAT, "%s/config.json: num_layers: %lld, but the weights are %zu tensors in all",
                            d->component.dir, (long long)d->config.blocks.layers, sg_source_count(d->component.source));
    d->blocks.config = d->config.blocks;
    describe(d);
    return bind_weights(d, d->component.dir, e);
}

sg_status sg_sd3_dit_open(sg_sd3_dit **out, const sg_checkpoint *from, sg_dtype act, sg_error *e)
{
    static const char name[] = "transformer";
    sg_sd3_dit       *d = calloc(1, sizeof *d);
    if (!d) return sg_error_set(e, SG_E_MEMORY, "%s/%s: out of memory", sg_checkpoint_path(from), name);
    const sg_status st = open_into(d, from, name, act, e);
    if (st) sg_sd3_dit_close(&d);
    *out = d;
    return st;
}

void sg_sd3_dit_close(sg_sd3_dit **d)
{
    if (!*d) return;
    sg_component_close(&(*d)->component);
    sg_mmdit_free(&(*d)->blocks);
    free(*d);
    *d = NULL;
}

/* ---- what steps share ---- */

static int64_t tokens(const sg_sd3_run *run) { return run->grid[1] * run->grid[2]; }

/* The places of the tokens, in their order: the middle of the file's square. So many at once that the host needs little. */
static void place_tokens(sg_sd3_run *run, const sg_sd3_dit *d, sg_stream *s)
{
    enum { AT_ONCE = 256 };
    const int64_t n = tokens(run), rows = run->grid[1], columns = run->grid[2], all = d->config.places;
    const int64_t top = (all - rows) / 2, left = (all - columns) / 2;
    run->place = sg_new_keep(s, SG_F32, n, d->config.blocks.width);
    if (!s->memory->alloc) return; /* a plan has no data */
    for (int64_t first = 0; first < n && !s->status; first += AT_ONCE) {
        const int64_t count = n - first < AT_ONCE ? n - first : AT_ONCE;
        int32_t       id[AT_ONCE];
        for (int64_t i = 0; i < count; i++) {
            const int64_t at = run->self->order ? run->self->order[first + i] : first + i;
            id[i] = (int32_t)((top + at / columns) * all + left + at % columns);
        }
        sg_token_table_embed(&d->places, s, sg_rows(run->place, first, count), id, (int)count);
    }
}

void sg_sd3_run_open(sg_sd3_run *run, const sg_sd3_dit *d, sg_stream *s, const int64_t grid[3],
                     const sg_self_attention *self)
{
    *run = (sg_sd3_run){.self = self};
    memcpy(run->grid, grid, sizeof run->grid);
    run->tokens = sg_token_order_place(s, self, tokens(run));
    place_tokens(run, d, s);
}

void sg_sd3_run_text(sg_sd3_run *run, const sg_sd3_dit *d, sg_stream *s, int pass, const float *states, int len,
                     const float *row)
{
    const sg_sd3_config *const c = &d->config;
    run->text[pass] = sg_new_keep(s, SG_F32, len, c->blocks.width);
    run->row[pass] = sg_new_keep(s, SG_F32, 1, c->blocks.width);
    const size_t    mark = s->scratch.used;
    const sg_tensor given = sg_new(s, SG_F32, len, c->text_dim), x = sg_new(s, d->component.act, len, c->text_dim);
    if (states) sg_upload(s, given, states);
    sg_copy(s, .y = x, .x = given);
    sg_linear(s, .y = run->text[pass], .x = x, .w = d->text_in.w, .b = d->text_in.b);
    sg_tap(s, run->text[pass], "dit.text");
    sg_mmdit_row(&d->blocks, s, run->row[pass], row, 0);
    s->scratch.used = mark;
}

/* ---- one forward ---- */

/* x [n, D] = the patches of latent [c, 1, y, x], in order, embedded, and their places. */
static void patch_embed(const sg_sd3_dit *d, const sg_sd3_run *run, sg_stream *s, sg_tensor x, sg_tensor latent)
{
    const sg_sd3_config *const c = &d->config;
    const size_t               mark = s->scratch.used;
    sg_tensor                  patches = sg_new(s, d->component.act, x.dim[0], c->blocks.features);
    sg_patchify(s, patches, latent, run->grid, c->patch);
    patches = sg_rows_of(s, patches, run->tokens.order);
    sg_copy(s, .y = x, .x = run->place);
    sg_linear(s, .y = x, .x = patches, .w = sg_reshape(d->patch_w, c->blocks.width, c->blocks.features),
              .b = d->patch_b, .add = true);
    sg_tap(s, x, "dit.patch_embed");
    s->scratch.used = mark;
}

void sg_sd3_dit_forward(const sg_sd3_dit *d, const sg_sd3_run *run, sg_stream *s, const sg_pass *p)
{
    const sg_mmdit_config *const c = &d->config.blocks;
    const size_t                 mark = s->scratch.used;
    const int64_t                n = tokens(run), layers = c->layers + d->config.duals;
    const sg_tensor              given = run->text[p->text], x = sg_new(s, SG_F32, n + given.dim[0], c->width);
    const sg_mmdit_pass          blocks = {.pass = p,
                                           .self = run->self,
                                           .first = {[SG_MMDIT_PICTURE] = 0, [SG_MMDIT_TEXT] = n},
                                           .count = {[SG_MMDIT_PICTURE] = n, [SG_MMDIT_TEXT] = given.dim[0]},
                                           .time = sg_mmdit_time(s, p, d->blocks.time, run->row[p->text], "dit.temb")};
    sg_copy(s, .y = sg_rows(x, n, given.dim[0]), .x = given);
    patch_embed(d, run, s, sg_rows(x, 0, n), p->x);
    sg_mmdit_blocks(&d->blocks, &blocks, s, x);
    const sg_tensor v = sg_rows_of(s, sg_mmdit_out(&d->blocks, &blocks, s, x), run->tokens.inverse);
    sg_tap(s, v, "dit.proj_out");
    sg_unpatchify(s, p->out, v, run->grid, d->config.patch);
    sg_count_non_finite(s, .y = sg_rows(p->non_finite, layers + 1, 1), .x = p->out);
    s->scratch.used = mark;
}
