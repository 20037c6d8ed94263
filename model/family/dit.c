/* dit.c - see dit.h. */
#include "dit.h"
#include "op.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a model ---- */

static void check_classes(const sg_class_rule *rule, sg_config *index)
{
    for (; rule && rule->component; rule++) {
        const char *const name = sg_config_string_at(index, rule->component, 1), *const have = name ? name : "";
        if (strcmp(have, rule->name) == 0 || (rule->other && strcmp(have, rule->other) == 0)) continue;
        if (rule->optional && !*have) continue;
        sg_config_fail(index, rule->component, "the class is \"%s\", but this program implements %s%s%s", have,
                       rule->name, rule->other ? " and " : "", rule->other ? rule->other : "");
    }
}

static void note_class(sg_component *p, sg_config *index)
{
    const char *const name = sg_config_string_at(index, p->name, 1);
    snprintf(p->class_name, sizeof p->class_name, "%s", name ? name : "");
}

static sg_component *encoder_of(const sg_text_source *t) { return t->encoder.ops->component(t->encoder.of); }

static void note_classes(const sg_components *c, sg_config *index)
{
    for (int k = 0; k < c->texts; k++) note_class(encoder_of(&c->text[k]), index);
    for (int k = 0; k < c->addeds; k++) note_class(c->added[k].component, index);
    for (int k = 0; k < c->denoisers; k++) note_class(c->denoiser[k].component, index);
    note_class(c->vae.ops->component(c->vae.of), index);
}

/* Texts that are filled up need a token to fill them with. The tokenizer of "text_encoder_2" is "tokenizer_2". */
static sg_status check_pads(const sg_components *c, const char *path, sg_error *e)
{
    static const char encoder[] = "text_encoder";
    for (int k = 0; k < c->texts; k++) {
        const sg_text_source *const t = &c->text[k];
        if (!t->padded || t->encoder.ops->pad(t->encoder.of) >= 0) continue;
        return sg_error_set(
            e, SG_E_FORMAT,
            "%s/tokenizer%s/tokenizer_config.json: pad_token: there is none, but texts are filled up with it", path,
            encoder_of(t)->name + strlen(encoder));
    }
    return SG_OK;
}

static void complete_defaults(sg_components *c)
{
    sg_request *const r = &c->defaults;
    if (!r->negative_prompt) r->negative_prompt = "";
    if (r->cfg_scale_2 <= 0) r->cfg_scale_2 = -1;
    r->flow_shift = c->sampler.flow_shift;
    r->sampler = c->sampler.kind;
}

sg_status sg_model_open(void **model, const sg_family *f, const sg_checkpoint *from, sg_config *index, sg_dtype act,
                        sg_error *e)
{
    const char *const path = sg_checkpoint_path(from);
    *model = NULL;
    check_classes(f->classes, index);
    SG_TRY(sg_config_status(index));
    sg_components *const c = *model = calloc(1, f->size);
    if (!c) return sg_error_memory(e, path);
    sg_status st = f->open(c, from, index, act, e);
    if (!st) st = check_pads(c, path, e);
    if (st) {
        sg_model_close(model, f);
        return st;
    }
    note_classes(c, index);
    complete_defaults(c);
    return SG_OK;
}

void sg_model_close(void **model, const sg_family *f)
{
    sg_components *const c = *model;
    if (!c) return;
    f->close(c);
    sg_vae_close(&c->vae);
    for (int k = 0; k < SG_TEXTS_MAX; k++) sg_text_encoder_close(&c->text[k].encoder);
    free(c);
    *model = NULL;
}

sg_status sg_check_fit(const sg_fit *row, const char *path, sg_error *e)
{
    for (; row->where; row++)
        if (row->number != row->wanted)
            return sg_error_set(e, SG_E_FORMAT, "%s: %s is %lld, but %s is %lld", path, row->where,
                                (long long)row->number, row->there, (long long)row->wanted);
    return SG_OK;
}

int64_t sg_text_width(const sg_components *c, int k) { return c->text[k].encoder.ops->width(c->text[k].encoder.of); }
int64_t sg_text_pooled(const sg_components *c, int k) { return c->text[k].encoder.ops->pooled(c->text[k].encoder.of); }

sg_geometry sg_geometry_of(const sg_components *c, const sg_request *r)
{
    const sg_vae_info v = c->vae.info;
    const int64_t     frames = (r->frames - 1) / v.scale_time + 1, grid = (frames - 1) / c->patch[0] + 1;
    sg_geometry       g = {.latent = {v.z, grid * c->patch[0], r->height / v.scale_space, r->width / v.scale_space}};
    g.pad = g.latent[1] - frames;
    for (int k = 0; k < 3; k++) g.grid[k] = g.latent[k + 1] / c->patch[k];
    for (int i = 0; i < SG_IMAGES; i++)
        if (r->image[i].rgb || c->image[i] == SG_IMAGE_NEEDED) g.images = i + 1;
    return g;
}

/* ---- a denoiser ---- */

sg_status sg_dit_open(sg_dit *d, const sg_checkpoint *c, const char *name, const char *class_name, sg_dtype act,
                      sg_error *e)
{
    return sg_component_open(&d->component, c, name, class_name, act, &d->config, e);
}

sg_status sg_dit_check(sg_dit *d, sg_error *e, const char *summary, ...)
{
    va_list ap;
    va_start(ap, summary);
    vsnprintf(d->component.summary, sizeof d->component.summary, summary, ap);
    va_end(ap);
    sg_config_close(&d->config);
    return sg_bind_check(d->component.bind, e);
}

void sg_dit_close(sg_dit *d)
{
    sg_config_close(&d->config);
    sg_component_close(&d->component);
}

void sg_components_add_dit(sg_components *c, sg_dit *d, const sg_name_map *names, int64_t layers)
{
    c->denoiser[c->denoisers++] = (sg_denoiser){.component = &d->component, .names = names, .layers = (int)layers};
    memcpy(c->patch, d->patch, sizeof c->patch);
}

sg_status sg_components_open_vae(sg_components *c, const sg_vae_ops *ops, const sg_checkpoint *from, sg_dtype act,
                                 sg_error *e)
{
    const int64_t *const p = c->patch;
    SG_TRY(sg_vae_open(&c->vae, ops, from, act, e));
    /* both sides of a patch are powers of two in every known checkpoint */
    c->size_multiple = c->vae.info.scale_space * (int)(p[1] > p[2] ? p[1] : p[2]);
    return SG_OK;
}

int64_t sg_dit_patch_size(const sg_dit *d, int64_t channels)
{
    return channels * d->patch[0] * d->patch[1] * d->patch[2];
}

void sg_dit_shape(const sg_dit *d, const sg_geometry *g, int64_t before, int64_t behind, sg_attention_shape *shape)
{
    shape->text_prefix = before;
    shape->text_suffix = behind;
    shape->n = before + g->grid[0] * g->grid[1] * g->grid[2] + behind;
    shape->h = shape->hk = d->heads;
    shape->d = d->head_dim;
}

/* ---- a render ---- */

/* n numbers in s->keep; a plan has none. */
static sg_tensor kept(sg_stream *s, const int32_t *number, int64_t n)
{
    const sg_tensor y = sg_new_keep(s, SG_I32, n);
    if (number) sg_upload(s, y, number);
    return y;
}

/* Which order has these groups; r->orders when none has. */
static int order_by(const sg_dit_run *r, sg_groups g)
{
    int k = 0;
    while (k < r->orders && (r->groups[k].count != g.count || r->groups[k].run != g.run)) k++;
    return k;
}

/* Tables of all orders, from each to each other. */
static void place_orders(sg_dit_run *r, sg_stream *s)
{
    const int64_t  n = r->n, all = r->orders * n;
    int32_t *const token = s->memory->alloc ? calloc((size_t)(2 * all + n), sizeof *token) : NULL;
    int32_t *const row = token ? token + all : NULL, *const move = token ? row + all : NULL;
    if (!token && s->memory->alloc) sg_fail(s, SG_E_MEMORY, "no memory for the order of %lld tokens", (long long)n);
    for (int k = 0; k < r->orders; k++) {
        if (token) sg_order_group(token + k * n, r->self->order, n, r->groups[k]);
        if (token) sg_order_invert(row + k * n, token + k * n, n);
        if (k || r->self->ordered) r->inverse[k] = kept(s, token ? row + k * n : NULL, n);
    }
    if (r->self->ordered) r->order = kept(s, token, n);
    for (int from = 0; from < r->orders; from++)
        for (int to = 0; to < r->orders; to++) {
            if (from == to) continue;
            for (int64_t i = 0; token && i < n; i++) move[i] = row[from * n + token[to * n + i]];
            r->move[from][to] = kept(s, move, n);
        }
    free(token);
}

void sg_dit_run_open(sg_dit_run *r, const sg_dit *d, sg_stream *s, const sg_geometry *g, const sg_self_attention *self)
{
    *r = (sg_dit_run){.grid = {g->grid[0], g->grid[1], g->grid[2]},
                      .n = g->grid[0] * g->grid[1] * g->grid[2],
                      .orders = 1,
                      .self = self};
    for (int i = 0; i < self->layers; i++)
        if (order_by(r, self->rule[i]) == r->orders) r->groups[r->orders++] = self->rule[i];
    if (self->ordered || r->orders > 1) place_orders(r, s);
    if (d->input != d->channels) r->input = sg_new_keep(s, SG_F32, d->input, g->latent[1], g->latent[2], g->latent[3]);
}

typedef struct rotary_axis {
    int64_t       size;
    const double *place;
} rotary_axis;

/* Tables [n, columns] of the tokens of the grid. */
static void fill_rotary(const sg_dit_run *r, float *cosines, float *sines, int64_t columns, const rotary_axis axis[3],
                        double theta)
{
    for (int64_t i = 0; i < r->n; i++) {
        int64_t rest = r->self->order ? r->self->order[i] : i, column = (i + 1) * columns;
        for (int k = 2; k >= 0; k--) { /* the last axis counts fastest */
            const int64_t number = rest % r->grid[k];
            const double  place = axis[k].place ? axis[k].place[number] : (double)number;
            rest /= r->grid[k];
            column -= axis[k].size / 2;
            for (int64_t j = 0; j < axis[k].size / 2; j++) {
                const double angle = place * pow(theta, -2.0 * (double)j / (double)axis[k].size);
                cosines[column + j] = (float)cos(angle);
                sines[column + j] = (float)sin(angle);
            }
        }
    }
}

/* The tables of order 0. */
static void place_rotary(const sg_dit_run *r, sg_stream *s, const rotary_axis axis[3], double theta)
{
    const int64_t columns = r->rotary->cos.dim[1], all = r->n * columns;
    float *const  table = calloc((size_t)(2 * all), sizeof *table);
    if (table) {
        fill_rotary(r, table, table + all, columns, axis, theta);
        sg_upload(s, r->rotary->cos, table);
        sg_upload(s, r->rotary->sin, table + all);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for rotary tables of %lld tokens", (long long)r->n);
    }
    free(table);
}

void sg_dit_run_rotary(sg_dit_run *r, sg_stream *s, const int64_t size[3], double theta, const double *const place[3])
{
    const int64_t columns = (size[0] + size[1] + size[2]) / 2;
    rotary_axis   axis[3];
    for (int k = 0; k < 3; k++) axis[k] = (rotary_axis){size[k], place ? place[k] : NULL};
    for (int k = 0; k < r->orders; k++) {
        sg_rotary *const to = &r->rotary[k];
        *to = (sg_rotary){.cos = sg_new_keep(s, SG_F32, r->n, columns), .sin = sg_new_keep(s, SG_F32, r->n, columns)};
        if (k) {
            sg_embed(s, .y = to->cos, .w = r->rotary->cos, .ids = r->move[0][k]);
            sg_embed(s, .y = to->sin, .w = r->rotary->sin, .ids = r->move[0][k]);
        } else if (s->memory->alloc) { /* a plan needs no angles */
            place_rotary(r, s, axis, theta);
        }
    }
}

/* States on the host as products take them: act [len, text_dim]. */
static sg_tensor upload_states(const sg_dit *d, sg_stream *s, const float *states, int64_t len)
{
    const sg_tensor given = sg_new(s, SG_F32, len, d->text_dim), x = sg_new(s, d->component.act, len, d->text_dim);
    if (states) sg_upload(s, given, states);
    sg_copy(s, .y = x, .x = given);
    return x;
}

void sg_dit_run_text(sg_dit_run *r, const sg_dit *d, sg_stream *s, int k, const float *states, int64_t len)
{
    const size_t mark = s->scratch.used;
    r->text[k] = sg_new_keep(s, SG_F32, len, d->text_in.w.dim[0]);
    sg_linear(s, .y = r->text[k], .x = upload_states(d, s, states, len), .w = d->text_in.w, .b = d->text_in.b);
    s->scratch.used = mark;
}

sg_tensor sg_dit_embed_text(const sg_dit *d, sg_stream *s, const sg_linear_weights l[2], const float *states,
                            int64_t len)
{
    const sg_tensor text = sg_new(s, d->component.act, len, d->width), y = sg_new(s, SG_F32, len, d->width);
    sg_mlp(s, y, upload_states(d, s, states, len), l, SG_ACT_GELU_TANH);
    sg_tap(s, y, "dit.text");
    sg_copy(s, .y = text, .x = y);
    return text;
}

void sg_dit_mean(float *mean, const float *states, int64_t len, int64_t dim)
{
    for (int64_t j = 0; j < dim; j++) {
        double sum = 0;
        for (int64_t i = 0; i < len; i++) sum += (double)states[i * dim + j];
        mean[j] = len ? (float)(sum / (double)len) : 0;
    }
}

/* ---- one forward ---- */

sg_tensor sg_dit_time(sg_stream *s, sg_tensor t, const sg_linear_weights l[2], sg_tensor added, const char *tap)
{
    const int64_t   width = added.dim[1];
    const sg_tensor y = sg_new(s, SG_F32, 1, width);
    const size_t    mark = s->scratch.used;
    const sg_tensor wave = sg_new(s, SG_F32, 1, l[0].w.dim[1]), time = sg_new(s, SG_F32, 1, width);
    const sg_tensor temb = sg_new(s, SG_F32, 1, width);
    sg_sinusoid(s, .y = wave, .t = t);
    sg_mlp(s, time, wave, l, SG_ACT_SILU);
    sg_add(s, .y = temb, .a = time, .b = added);
    sg_tap(s, temb, "%s", tap);
    sg_activate(s, .y = y, .x = temb, .act = SG_ACT_SILU);
    s->scratch.used = mark;
    return y;
}

void sg_dit_patch_embed(const sg_dit *d, const sg_dit_run *r, sg_stream *s, const sg_pass *p, sg_tensor x, bool add)
{
    const int64_t *const g = r->grid, *const size = d->patch, o = d->patch_in.w.dim[0],
                         i = sg_dit_patch_size(d, d->input);
    const size_t    mark = s->scratch.used;
    const sg_tensor patches = sg_new(s, d->component.act, r->n, i);
    if (r->input.rank) sg_copy(s, .y = sg_rows(r->input, 0, d->channels), .x = p->x);
    sg_permute(s, .y = patches, .x = r->input.rank ? r->input : p->x, .rank = 7,
               .dim = {d->input, g[0], size[0], g[1], size[1], g[2], size[2]}, .perm = {1, 3, 5, 0, 2, 4, 6});
    sg_linear(s, .y = x, .x = sg_rows_of(s, patches, r->order), .w = sg_reshape(d->patch_in.w, o, i),
              .b = d->patch_in.b, .add = add);
    sg_tap(s, x, "dit.patch_embed");
    s->scratch.used = mark;
}

/* y = the rows of x that `rows` names, as embed would, but in the widest moves and by all threads. */
static void move_rows(sg_stream *s, sg_tensor y, sg_tensor x, sg_tensor rows)
{
    const int64_t n = x.dim[0], w = x.dim[1];
    sg_strided_copy(s, .y = sg_reshape(y, n, 1, w), .x = sg_reshape(x, n * w), .row = rows, .token = w, .head = w);
}

void sg_dit_arrange(const sg_dit_run *r, sg_stream *s, sg_dit_tokens *t, sg_groups groups)
{
    const int to = order_by(r, groups);
    if (to == t->order) return;
    move_rows(s, t->spare, t->x, r->move[t->order][to]);
    *t = (sg_dit_tokens){t->spare, t->x, to};
}

sg_tensor sg_dit_row_by_row(const sg_dit_run *r, sg_stream *s, const sg_dit_tokens *t)
{
    const sg_tensor rows = r->inverse[t->order];
    if (!rows.rank) return t->x;
    move_rows(s, t->spare, t->x, rows);
    return t->spare;
}

sg_tensor sg_dit_attended(const sg_dit_run *r, sg_stream *s, const sg_pass *p, int i, sg_tensor q, sg_tensor k)
{
    sg_tensor o = {0};
    if (s->rows_at_once) o = sg_self_attention_spare(r->self, p->first_layer + i, p->step, p->index, q, k);
    return o.rank ? o : sg_alloc(s, &s->scratch, q.dtype, q.rank, q.dim);
}

void sg_dit_attend(const sg_dit *d, const sg_dit_run *r, sg_stream *s, const sg_pass *p, int i, sg_tensor o,
                   const sg_tensor qkv[3])
{
    sg_self_attention_run(
        r->self, s, p->first_layer + i, p->step, p->index, p->timestep,
        &(sg_attend_args){.y = o, .q = qkv[0], .k = qkv[1], .v = qkv[2], .scale = 1.0f / sqrtf((float)d->head_dim)});
}

void sg_dit_project_out(const sg_dit *d, const sg_dit_run *r, sg_stream *s, const sg_pass *p, sg_tensor y)
{
    const int64_t *const g = r->grid, *const size = d->patch, c = d->channels;
    const size_t mark = s->scratch.used;
    sg_tensor    v = sg_new(s, SG_F32, r->n, sg_dit_patch_size(d, c));
    sg_linear(s, .y = v, .x = y, .w = d->proj_out.w, .b = d->proj_out.b);
    v = sg_rows_of(s, v, r->inverse[0]);
    sg_tap(s, v, "dit.proj_out");
    if (d->channels_last)
        sg_permute(s, .y = p->out, .x = v, .rank = 7, .dim = {g[0], g[1], g[2], size[0], size[1], size[2], c},
                   .perm = {6, 0, 3, 1, 4, 2, 5});
    else
        sg_permute(s, .y = p->out, .x = v, .rank = 7, .dim = {g[0], g[1], g[2], c, size[0], size[1], size[2]},
                   .perm = {3, 0, 4, 1, 5, 2, 6});
    sg_count_non_finite(s, .y = sg_rows(p->non_finite, p->non_finite.dim[0] - 1, 1), .x = p->out);
    s->scratch.used = mark;
}
