/* vae_parts.c - what VAEs share: see vae_parts.h. */
#include "vae_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

sg_component *sg_vae_component(void *of) { return &((sg_vae_model *)of)->component; }
sg_component *sg_vae_encoder(void *of) { return &((sg_vae_model *)of)->encoder_component; }

/* Two lists over one set of files: each half is loaded by itself, but a checkpoint must be whole. */
static sg_status bind_all(sg_vae_model *v, sg_error *e)
{
    sg_bind *const decoder = v->component.bind;
    sg_bind       *encoder = NULL;
    v->ops->bind(v, &v->component, &v->coder[SG_VAE_DECODER]);
    if (!v->ops->encoder) return sg_bind_check(decoder, e);
    SG_TRY(sg_bind_open(&encoder, v->component.source, v->component.map, e));
    v->encoder_component = v->component;
    v->encoder_component.bind = encoder;
    v->ops->bind(v, &v->encoder_component, &v->coder[SG_VAE_ENCODER]);
    sg_bind_share(decoder, encoder);
    sg_bind_ignore(encoder, ""); /* the decoder's list tells of what neither wants */
    return sg_bind_check_both(decoder, encoder, e);
}

/* What info says, unless the VAE has said it. */
static void summarize(sg_vae_model *v)
{
    const sg_vae_coder *const k = &v->coder[SG_VAE_ENCODER];
    char                      time[16] = "";
    if (v->component.summary[0]) return;
    if (v->info.scale_time > 1) snprintf(time, sizeof time, "%d x ", v->info.scale_time);
    snprintf(v->component.summary, sizeof v->component.summary, "%s%d x %d, %d latent channels, %d levels from %d",
             time, v->info.scale_space, v->info.scale_space, v->info.z, k->levels, (int)k->level[0].in);
}

static sg_status open_model(sg_vae_model *v, const sg_checkpoint *c, sg_dtype act, sg_config **f, sg_error *e)
{
    SG_TRY(sg_component_open(&v->component, c, "vae", v->ops->class_name, act, f, e));
    SG_TRY(v->ops->read(v, *f));
    summarize(v);
    return bind_all(v, e);
}

sg_status sg_vae_open(sg_vae *out, const sg_vae_ops *ops, const sg_checkpoint *c, sg_dtype act, sg_error *e)
{
    sg_vae_model *const v = calloc(1, ops->size);
    sg_config          *f = NULL;
    if (!v) return sg_error_set(e, SG_E_MEMORY, "%s/vae: out of memory", sg_checkpoint_path(c));
    v->ops = ops;
    v->tile = SG_TILE;
    const sg_status st = open_model(v, c, act, &f, e);
    sg_config_close(&f);
    if (st) {
        sg_vae_model_close(v);
        return st;
    }
    *out = (sg_vae){.ops = ops, .of = v, .info = v->info};
    return SG_OK;
}

void sg_vae_model_close(void *of)
{
    sg_vae_model *const v = of;
    sg_bind_close(&v->encoder_component.bind);
    sg_component_close(&v->component);
    free(v);
}

void sg_vae_close(sg_vae *v)
{
    if (v->ops && v->ops->close) v->ops->close(v->of);
    *v = (sg_vae){0};
}

/* ---- config ---- */

void sg_vae_read_coders(sg_vae_model *v, const sg_vae_kind *kind, int64_t layers, sg_config *f)
{
    int64_t   channels[SG_VAE_LEVELS] = {0};
    const int levels = sg_config_ints(f, "block_out_channels", 1, SG_VAE_CHANNELS, channels, 1, SG_VAE_LEVELS);
    const int blocks = (int)sg_config_int(f, "layers_per_block", 1, SG_VAE_LAYERS, &layers);
    const int groups = (int)sg_config_int(f, "norm_num_groups", 1, SG_VAE_CHANNELS, &(int64_t){32});
    if (sg_config_status(f)) return;
    for (int up = 0; up < 2; up++) {
        sg_vae_coder *const k = &v->coder[up];
        *k = (sg_vae_coder){.up = up, .kind = kind, .levels = levels, .groups = groups};
        for (int i = 0; i < levels; i++) {
            const int64_t out = channels[up ? levels - 1 - i : i];
            k->level[i] = (sg_vae_level){
                .in = i ? k->level[i - 1].out : out, .out = out, .blocks = blocks + up, .time = 1, .space = 1};
        }
        sg_vae_set_middle(k, channels[levels - 1]);
    }
    for (int i = 0; i < levels; i++)
        if (channels[i] % groups)
            sg_config_fail(f, "block_out_channels", "%lld is no multiple of the %d norm_num_groups",
                           (long long)channels[i], groups);
}

void sg_vae_set_middle(sg_vae_coder *k, int64_t channels)
{
    k->mid = (sg_vae_level){.in = channels, .out = channels, .blocks = 2, .time = 1, .space = 1};
}

double sg_vae_read_latents(sg_vae_model *v, int64_t z, double scaling, sg_config *f)
{
    v->info.z = (int)sg_config_int(f, "latent_channels", 1, SG_VAE_Z, &z);
    const double scale = sg_config_real(f, "scaling_factor", 1e-6, 1e6, &scaling);
    v->info.scaling = scale;
    for (int i = 0; i < v->info.z; i++) v->std[i] = 1 / scale;
    return scale;
}

void sg_vae_measure(sg_vae_model *v)
{
    const sg_vae_coder *const k = &v->coder[SG_VAE_DECODER];
    v->info.scale_time = v->info.scale_space = 1;
    for (int i = 0; i < k->levels; i++) {
        v->info.scale_time *= k->level[i].time;
        v->info.scale_space *= k->level[i].space;
    }
}

void sg_vae_check_types(sg_config *f, const char *key, const char *only, int levels, int assumed)
{
    const char *type[SG_VAE_LEVELS] = {NULL};
    const int   count = sg_config_has(f, key) ? sg_config_strings(f, key, type, 1, SG_VAE_LEVELS) : assumed;
    if (count != levels) sg_config_fail(f, key, "%d of them, but block_out_channels has %d", count, levels);
    for (int i = 0; i < count; i++)
        if (type[i] && strcmp(type[i], only) != 0)
            sg_config_fail(f, key, "\"%s\" is not supported; only \"%s\" is", type[i], only);
}

void sg_vae_check_rgb(sg_config *f, const char *key)
{
    if (sg_config_int(f, key, 1, SG_VAE_CHANNELS, &(int64_t){SG_VAE_RGB}) != SG_VAE_RGB)
        sg_config_fail(f, key, "only 3, of RGB frames, are supported");
}

void sg_vae_check_act(sg_config *f)
{
    const char *const act = sg_config_string(f, "act_fn", "silu");
    if (act && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        sg_config_fail(f, "act_fn", "\"%s\" is not supported; only \"silu\" is", act);
}

/* ---- tensors ---- */

enum { NAME_MAX = 64, FULL_MAX = NAME_MAX + 8 };

static void bind_pair(const sg_component *p, sg_dtype as, sg_tensor *w, sg_tensor *b, const char *name, int rank,
                      const int64_t *dim)
{
    char full[FULL_MAX];
    snprintf(full, sizeof full, "%s.weight", name);
    sg_bind_tensor_(p->bind, w, as, full, rank, dim);
    snprintf(full, sizeof full, "%s.bias", name);
    sg_bind_tensor(p->bind, b, SG_F32, full, dim[0]);
}

void sg_vae_bind_map(const sg_component *p, sg_dtype as, sg_vae_map *m, const char *name, int64_t o, int64_t i)
{
    bind_pair(p, as, &m->w, &m->b, name, SG_DIMS(o, i));
}

void sg_vae_bind_attention(const sg_component *p, sg_vae_attention *a, const char *const name[5], int64_t c)
{
    bind_pair(p, SG_F32, &a->norm_w, &a->norm_b, name[0], SG_DIMS(c));
    for (int i = 0; i < 4; i++) sg_vae_bind_map(p, p->act, &a->map[i], name[1 + i], c, c);
}

void sg_vae_bind_conv(const sg_component *p, sg_vae_coder *k, sg_vae_conv *c, const char *name, int64_t o, int64_t i,
                      int kt, int ks)
{
    bind_pair(p, p->act, &c->w, &c->b, name, SG_DIMS(o, i, kt, ks, ks));
    c->number = k->convs++;
}

void sg_vae_bind_norm_conv(const sg_component *p, sg_vae_coder *k, sg_vae_conv *c, const char *norm, const char *conv,
                           int64_t o, int64_t i)
{
    const sg_vae_kind *const d = k->kind;
    char                     full[NAME_MAX];
    snprintf(full, sizeof full, "%s%s", norm, d->norm_w);
    sg_bind_tensor(p->bind, &c->norm_w, SG_F32, full, i);
    snprintf(full, sizeof full, "%s%s", norm, d->norm_b ? d->norm_b : "");
    if (d->norm_b) sg_bind_tensor(p->bind, &c->norm_b, SG_F32, full, i);
    snprintf(full, sizeof full, "%s%s", conv, d->conv);
    sg_vae_bind_conv(p, k, c, full, o, i, d->kt, 3);
}

void sg_vae_bind_blocks(const sg_component *p, sg_vae_coder *k, sg_vae_level *l, const char *prefix, int first)
{
    for (int j = 0; j < l->blocks; j++) {
        sg_vae_block *const w = &l->block[j];
        const int64_t       in = j ? l->out : l->in;
        sg_bind_prefix(p->bind, "%s.%d.", prefix, first + j);
        sg_vae_bind_norm_conv(p, k, &w->conv[0], "norm1", "conv1", l->out, in);
        sg_vae_bind_norm_conv(p, k, &w->conv[1], "norm2", "conv2", l->out, l->out);
        if (in != l->out) sg_vae_bind_map(p, p->act, &w->shortcut, k->kind->shortcut, l->out, in);
    }
}

void sg_vae_bind_ends(const sg_component *p, sg_vae_coder *k, int64_t in, int64_t out, const char *norm_out)
{
    const char *const         half = k->up ? "decoder" : "encoder";
    const sg_vae_level *const last = &k->level[k->levels - 1];
    char                      name[NAME_MAX];
    sg_bind_prefix(p->bind, "%s.", half);
    snprintf(name, sizeof name, "conv_in%s", k->kind->conv);
    sg_vae_bind_conv(p, k, &k->conv_in, name, k->level[0].in, in, k->kind->kt, 3);
    sg_vae_bind_norm_conv(p, k, &k->conv_out, norm_out, "conv_out", out, last->out);
    snprintf(name, sizeof name, "%s.mid_block.resnets", half);
    sg_vae_bind_blocks(p, k, &k->mid, name, 0);
}

void sg_vae_bind_levels(const sg_component *p, sg_vae_coder *k, const char *resample, int kt)
{
    const char *const half = k->up ? "decoder" : "encoder", *const way = k->up ? "up" : "down";
    char name[NAME_MAX];
    for (int i = 0; i < k->levels; i++) {
        sg_vae_level *const l = &k->level[i];
        snprintf(name, sizeof name, "%s.%s_blocks.%d.resnets", half, way, i);
        sg_vae_bind_blocks(p, k, l, name, 0);
        sg_bind_prefix(p->bind, "%s.%s_blocks.%d.%ssamplers.0.", half, way, i, way);
        if (sg_vae_changes(l)) sg_vae_bind_conv(p, k, &l->resample, resample, l->out, l->out, kt, 3);
    }
}

/* ---- a run ---- */

/* To latents as the decoder takes them, or from those that the encoder makes; of these, with `sampled`, the logarithm
 * of the variance follows the mean. */
static void keep_latent_map(sg_vae_run *r, sg_stream *s)
{
    const sg_vae_model *const v = r->vae;
    const int                 z = v->info.z, n = !r->coder->up && v->ops->sampled ? 2 * z : z;
    float                     scale[2 * SG_VAE_Z], shift[2 * SG_VAE_Z];
    bool                      shifts = false;
    for (int i = 0; i < z; i++) {
        scale[i] = (float)(r->coder->up ? v->std[i] : 1 / v->std[i]);
        shift[i] = (float)(r->coder->up ? v->mean[i] : -v->mean[i] / v->std[i]);
        scale[z + i] = 1;
        shift[z + i] = (float)(-2 * log(v->std[i]));
    }
    for (int i = 0; i < n; i++) shifts = shifts || shift[i] != 0;
    r->scale = sg_new_keep(s, SG_F32, n);
    sg_upload(s, r->scale, scale);
    if (!shifts) return;
    r->shift = sg_new_keep(s, SG_F32, n);
    sg_upload(s, r->shift, shift);
}

sg_status sg_vae_run_open(void **out, size_t size, const void *of, bool up, sg_stream *s, int64_t y, int64_t x,
                          sg_error *e)
{
    const sg_vae_model *const v = of;
    const int                 m = v->info.scale_space;
    const int64_t             most = SG_VAE_SIDE / (up ? m : 1);
    *out = NULL;
    if (up && (y < 1 || y > most || x < 1 || x > most))
        return sg_error_set(e, SG_E_ARG, "latents of %lld x %lld places cannot be decoded", (long long)x, (long long)y);
    if (!up && (y < 1 || y > most || y % m || x < 1 || x > most || x % m))
        return sg_error_set(e, SG_E_ARG, "frames of %lld x %lld: width and height must be multiples of %d up to %d",
                            (long long)x, (long long)y, m, SG_VAE_SIDE);
    sg_vae_run *const r = *out = calloc(1, size);
    if (!r) return sg_error_memory(e, v->component.dir);
    r->vae = v;
    r->coder = &v->coder[up];
    keep_latent_map(r, s);
    return SG_OK;
}

void sg_vae_run_close(void **run)
{
    free(*run);
    *run = NULL;
}

int64_t sg_vae_chunk_of_one(const void *of, int64_t total, int64_t done)
{
    (void)of;
    return done < total;
}

bool sg_vae_set_tiles(void *of, bool on)
{
    sg_vae_model *const v = of;
    v->tiled = on && sg_tiles_fit(v->tile, v->info.scale_space);
    return v->tiled == on;
}

void sg_vae_keep(sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, int64_t f, int64_t y, int64_t x)
{
    r->history[k->number] = sg_new_keep(s, r->vae->component.act, f, y, x, k->w.dim[1]);
}

static void keep_if_causal(sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, int64_t y, int64_t x)
{
    if (k->w.rank && k->w.dim[2] > 1) sg_vae_keep(r, s, k, k->w.dim[2] - 1, y, x);
}

void sg_vae_keep_blocks(sg_vae_run *r, sg_stream *s, const sg_vae_level *l, int64_t y, int64_t x)
{
    for (int j = 0; j < 2 * l->blocks; j++) keep_if_causal(r, s, &l->block[j / 2].conv[j % 2], y, x);
}

static int64_t side_after(const sg_vae_coder *k, const sg_vae_level *l, int64_t side)
{
    return k->up ? side * l->space : sg_div_up(side, l->space);
}

void sg_vae_keep_all(sg_vae_run *r, sg_stream *s, int64_t y, int64_t x)
{
    const sg_vae_coder *const k = r->coder;
    keep_if_causal(r, s, &k->conv_in, y, x);
    if (k->up) sg_vae_keep_blocks(r, s, &k->mid, y, x);
    for (int i = 0; i < k->levels; i++) {
        sg_vae_keep_blocks(r, s, &k->level[i], y, x);
        y = side_after(k, &k->level[i], y);
        x = side_after(k, &k->level[i], x);
    }
    if (!k->up) sg_vae_keep_blocks(r, s, &k->mid, y, x);
    keep_if_causal(r, s, &k->conv_out, y, x);
}

/* ---- convolutions ---- */

static sg_tensor rows_of(sg_tensor t) { return sg_reshape(t, sg_count(t) / t.dim[3], t.dim[3]); }

void sg_vae_map_places(sg_stream *s, const sg_vae_map *m, sg_tensor y, sg_tensor x, bool add)
{
    sg_linear(s, .y = rows_of(y), .x = rows_of(x), .w = m->w, .b = m->b, .add = add);
}

static int64_t past(const sg_vae_run *r, const sg_vae_conv *k)
{
    const sg_tensor h = r->history[k->number];
    return h.rank ? h.dim[0] : k->w.dim[2] - 1;
}

sg_tensor sg_vae_input(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, int64_t f, int64_t y, int64_t x)
{
    return sg_new(s, r->vae->component.act, past(r, k) + f, y, x, k->w.dim[1]);
}

sg_tensor sg_vae_present(const sg_vae_run *r, const sg_vae_conv *k, sg_tensor input)
{
    return sg_rows(input, past(r, k), input.dim[0] - past(r, k));
}

void sg_vae_recall(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor input)
{
    const sg_tensor h = r->history[k->number];
    const int64_t   n = past(r, k);
    if (r->remembers && n) sg_copy(s, .y = sg_rows(input, 0, n), .x = h);
    for (int64_t i = 0; i < n && !r->remembers; i++) sg_copy(s, .y = sg_rows(input, i, 1), .x = sg_rows(input, n, 1));
    if (h.rank) sg_copy(s, .y = h, .x = sg_rows(input, input.dim[0] - n, n));
}

sg_tensor sg_vae_decode(const sg_vae_model *v, sg_stream *s, sg_tiles t, int64_t n, sg_tensor z)
{
    const int64_t   scale = v->info.scale_space;
    const sg_tensor frames = sg_new(s, SG_F32, n, z.dim[1] * scale, z.dim[2] * scale, SG_VAE_RGB);
    const size_t    mark = s->scratch.used;
    t.x_side = v->tile / scale;
    t.y_side = v->tile;
    t.clamp = true;
    if (v->tiled)
        sg_tiles_run(&t, s, frames, z);
    else
        sg_activate(s, .y = frames, .x = t.next(t.run, s, z), .act = SG_ACT_CLAMP);
    sg_tap(s, frames, "vae.frames");
    s->scratch.used = mark;
    return frames;
}

int64_t sg_vae_at_once(int64_t f, int64_t most, int64_t numbers)
{
    const int64_t past_most = 2, fit = INT32_MAX / numbers - past_most, n = fit < most ? fit : most;
    return sg_div_up(f, sg_div_up(f, n < 1 ? 1 : n));
}

void sg_vae_convolve(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor input, bool add)
{
    const int64_t f = y.dim[0], c = input.dim[3] > y.dim[3] ? input.dim[3] : y.dim[3];
    const int64_t n = sg_vae_at_once(f, f, input.dim[1] * input.dim[2] * c);
    sg_vae_recall(r, s, k, input);
    for (int64_t t = 0, count; t < f; t += count) {
        count = n < f - t ? n : f - t;
        sg_conv(s, .y = sg_rows(y, t, count), .x = sg_rows(input, t, past(r, k) + count), .w = k->w, .b = k->b,
                .stride = {1, 1, 1}, .pad = {1, 1, 1, 1}, .add = add, .edge = r->coder->kind->edge);
    }
}

void sg_vae_norm_conv(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x, bool add)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor input = sg_vae_input(r, s, k, x.dim[0], x.dim[1], x.dim[2]);
    r->coder->kind->norm(r, s, k, sg_vae_present(r, k, input), x);
    sg_vae_convolve(r, s, k, y, input, add);
    s->scratch.used = mark;
}

/* ---- attention ---- */

void sg_vae_attend(sg_stream *s, const sg_vae_attention *a, sg_tensor x, int groups, bool causal)
{
    const size_t    mark = s->scratch.used;
    const int64_t   f = x.dim[0], frame = x.dim[1] * x.dim[2], c = x.dim[3];
    const sg_tensor y = sg_alloc(s, &s->scratch, x.dtype, 4, x.dim);
    sg_tensor       token[4] = {sg_reshape(y, f * frame, 1, c)}; /* of y, which are attended to; q, k, v */
    sg_norm(s, .y = y, .x = x, .w = a->norm_w, .b = a->norm_b, .kind = groups ? SG_NORM_GROUP : SG_NORM_LAYER,
            .groups = groups, .eps = 1e-6f);
    for (int i = 0; i < 3; i++) {
        const sg_tensor made = sg_alloc(s, &s->scratch, x.dtype, 4, x.dim);
        sg_vae_map_places(s, &a->map[i], made, y, false);
        token[i + 1] = sg_reshape(made, f * frame, 1, c);
    }
    for (int64_t t = 0; t < f; t++) {
        const int64_t from = causal ? 0 : t * frame, count = (t + 1) * frame - from;
        sg_attend(s, .y = sg_rows(token[0], t * frame, frame), .q = sg_rows(token[1], t * frame, frame),
                  .k = sg_rows(token[2], from, count), .v = sg_rows(token[3], from, count),
                  .scale = (float)(1 / sqrt((double)c)));
    }
    sg_vae_map_places(s, &a->map[3], x, y, true);
    s->scratch.used = mark;
}

/* ---- blocks and levels ---- */

sg_vae_work sg_vae_work_on(sg_stream *s, const sg_vae_level *l, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const int64_t   numbers = x.dim[0] * x.dim[1] * x.dim[2] * l->out;
    const sg_tensor more = sg_new(s, x.dtype, x.dim[0], x.dim[1], x.dim[2], l->out);
    sg_vae_work     w = {.x = x, .y = more, .inner = more, .mark = s->scratch.used};
    if (l->in == l->out) {
        w.y = x;
        w.mark = mark;
    } else if (l->in > l->out) { /* x has room for it */
        w.inner = sg_reshape(sg_rows(sg_reshape(x, sg_count(x)), 0, numbers), x.dim[0], x.dim[1], x.dim[2], l->out);
    } else {
        w.inner = sg_alloc(s, &s->scratch, x.dtype, 4, more.dim);
    }
    return w;
}

void sg_vae_block_run(const sg_vae_run *r, sg_stream *s, const sg_vae_level *l, int j, const sg_vae_work *w)
{
    const sg_vae_block *const b = &l->block[j];
    if (b->shortcut.w.rank) sg_vae_map_places(s, &b->shortcut, w->y, w->x, false);
    sg_vae_norm_conv(r, s, &b->conv[0], w->inner, j ? w->y : w->x, false);
    sg_vae_norm_conv(r, s, &b->conv[1], w->y, w->inner, true);
}

sg_tensor sg_vae_blocks(const sg_vae_run *r, sg_stream *s, const sg_vae_level *l, sg_tensor x)
{
    const sg_vae_work w = sg_vae_work_on(s, l, x);
    for (int j = 0; j < l->blocks; j++) sg_vae_block_run(r, s, l, j, &w);
    s->scratch.used = w.mark;
    return w.y;
}

sg_vae_inputs sg_vae_reserve(const sg_vae_run *r, sg_stream *s, const int64_t *frames, int64_t y, int64_t x)
{
    const sg_vae_coder *const k = r->coder;
    const sg_vae_level *const last = &k->level[k->levels - 1];
    sg_vae_inputs             m = {0};
    int64_t                   side[SG_VAE_LEVELS + 1][2] = {{y, x}};
    for (int i = 0; i < 2 * k->levels; i++)
        side[i / 2 + 1][i % 2] = side_after(k, &k->level[i / 2], side[i / 2][i % 2]);
    for (int i = sg_vae_changes(last) ? k->levels : k->levels - 1; i >= 0; i--) {
        const int64_t c = i < k->levels ? k->level[i].in : last->out;
        m.in[i] = sg_new(s, r->vae->component.act, frames[i], side[i][0], side[i][1], c);
        m.mark[i] = s->scratch.used;
    }
    return m;
}
