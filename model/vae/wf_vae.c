/* wf_vae.c - WFVAEModel of Open-Sora-Plan 1.3 (arXiv:2411.17459), streaming in both directions: two latent frames a
 * chunk, eight of pixels after the first. L latent frames give 4 (L - 1) + 1 frames.
 *
 * Frames go in and come out as coefficients of Haar wavelets, and the low band of one transform goes around the network
 * to the next: tensors of few channels, whose transforms are linear maps and convolutions with constants. Tensor names
 * are those of the authors. What bites:
 *  - the constant of a transform in three dimensions is 0.3536, not the root of 1/8; that in two dimensions counts
 *    columns before rows in its parts;
 *  - the last channels of a middle's or a level's last block are the energy, which leaves the network for the wavelets;
 *  - in time, frame 0 stands alone: it is not doubled, and the others are interpolated among themselves. So the last
 *    one waits for the next chunk: what lies behind it of the network, and its low band, are held;
 *  - what halves frames takes frame 0 twice;
 *  - norm_type groupnorm takes mean and variance over all frames, so that the clip is one chunk; but over one frame in
 *    the encoder's first level, which is of pictures;
 *  - latents go in as z / scale + shift.
 *
 * Taps "vae.conv_in", "vae.mid.%d", "vae.l2", "vae.up2.%d", "vae.l1", "vae.up1.%d", "vae.layer.%d",
 * "vae.connect_l1.%d", "vae.connect_l2.%d", "vae.conv_out", "vae.frames"; "enc.down1.%d", "enc.l1", "enc.l2",
 * "enc.down2.%d", "enc.mid.%d", "enc.conv_out", "enc.mean". */
#include "vae_parts.h"

#include <stdio.h>

enum {
    TIME = 4,
    SPACE = 8,
    CHUNK = 2, /* latent frames */
    GROUPS = 32,
    BANDS = 8,         /* of a transform in three dimensions */
    COEFFICIENTS = 24, /* BANDS of RGB */
    FLAT = 12          /* the same in two dimensions */
};

/* Blocks one after another. The decoder's and the encoder's middle are two, before and after the attention. */
enum { MID_IN, MID_OUT, UP2, WIDE, UP1, UP1_OUT, LAYER, CONNECT_L1, CONNECT_L2, STAGES, DOWN1 = UP1, DOWN2 = UP2 };

typedef struct stage {
    const char  *name;  /* before the number */
    int          first; /* number */
    int          scale; /* places beside those of latents, of a side */
    sg_vae_level level;
} stage;

typedef struct side {
    stage            stage[STAGES];
    sg_vae_conv      change[2], connect[2]; /* of levels 1 and 2, nearest to the pixels first */
    sg_vae_conv      head[2];               /* the encoder's, before the blocks of a level */
    sg_vae_attention attention;             /* of the middle */
} side;

typedef struct wf_vae {
    sg_vae_model base;
    int64_t      channels, energy[2];
    int          connect_blocks, blocks[2];
    bool         has_attention;
    float        near;    /* of frames that are doubled */
    sg_vae_kind  kind[2]; /* of pictures, of videos */
    side         side[2]; /* encoder, decoder */
} wf_vae;

/* One clip, or one tile of it. */
typedef struct run {
    sg_vae_run base;
    size_t     mark;        /* of s->keep: what is remembered comes after it */
    int64_t    seen, total; /* latent frames; INT64_MAX: it is not known yet */
    sg_tensor  held;        /* act [1, y, x, c]: the last frame before frames are doubled */
    sg_tensor  low;         /* F32 [1, 2y, 2x, 3]: the last of the low band */
    /* Transforms in two and in three dimensions. The decoder's are maps F32 [bands 3, bands 3], and of the low band
     * alone [bands 3, 3]; the encoder's convolutions F32 [bands 3, i, 1 or 2, 2, 2]. */
    sg_tensor plane, plane_low, cube, cube_low;
} run;

static const wf_vae *vae_of(const run *r) { return (const wf_vae *)r->base.vae; }
static const side   *side_of(const run *r) { return &vae_of(r)->side[r->base.coder->up]; }
static int64_t       least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- config ---- */

static void norm(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x)
{
    const int  groups = r->coder->groups;
    const bool picture = !r->coder->up && k->w.dim[2] == 1;
    sg_norm(s, .y = y, .x = x, .w = k->norm_w, .b = k->norm_b, .kind = groups ? SG_NORM_GROUP : SG_NORM_LAYER,
            .groups = groups, .chunk = groups && picture, .eps = 1e-6f, .act = SG_ACT_SILU);
}

static void check_blocks(sg_config *f)
{
    static const char *const only[] = {"attention_type",        "AttnBlock3DFix",
                                       "l1_dowmsample_block",   "Downsample",
                                       "l1_downsample_wavelet", "HaarWaveletTransform2D",
                                       "l2_dowmsample_block",   "Spatial2xTime2x3DDownsample",
                                       "l2_downsample_wavelet", "HaarWaveletTransform3D",
                                       "l1_upsample_block",     "Upsample",
                                       "l1_upsample_wavelet",   "InverseHaarWaveletTransform2D",
                                       "l2_upsample_block",     "Spatial2xTime2x3DUpsample",
                                       "l2_upsample_wavelet",   "InverseHaarWaveletTransform3D"};
    for (size_t i = 0; i < sizeof only / sizeof *only; i += 2) sg_config_only(f, only[i], only[i + 1], only[i + 1]);
}

static void read_latents(sg_vae_model *m, sg_config *f)
{
    double scale[SG_VAE_Z];
    m->info = (sg_vae_info){
        .z = (int)sg_config_int(f, "latent_dim", 1, SG_VAE_Z, &(int64_t){8}), .scale_time = TIME, .scale_space = SPACE};
    for (int i = 0; i < m->info.z; i++) scale[i] = 0.18215;
    if (sg_config_has(f, "scale")) sg_config_reals(f, "scale", 1e-6, 1e6, scale, m->info.z, m->info.z);
    if (sg_config_has(f, "shift")) sg_config_reals(f, "shift", -1e6, 1e6, m->mean, m->info.z, m->info.z);
    for (int i = 0; i < m->info.z; i++) m->std[i] = 1 / scale[i];
}

static void set_stage(stage *g, const char *name, int first, int blocks, int scale, int64_t in, int64_t out)
{
    *g = (stage){name, first, scale, {.in = in, .out = out, .blocks = blocks}};
}

static void set_stages(wf_vae *v)
{
    const int     after = v->has_attention ? 2 : 1;
    const int64_t b = v->channels;
    for (int up = 0; up < 2; up++) {
        const int     n = v->blocks[up];
        const int64_t e = v->energy[up];
        stage *const  g = v->side[up].stage;
        set_stage(&g[MID_IN], "mid", 0, 1, 1, up ? 4 * b : 2 * b + e, 4 * b);
        set_stage(&g[MID_OUT], "mid", after, 1, 1, 4 * b, up ? 4 * b + e : 4 * b);
        if (!up) {
            set_stage(&g[DOWN1], "down1", 1, n, 4, b, b);
            set_stage(&g[DOWN2], "down2", 1, n, 2, 2 * b, 2 * b);
            continue;
        }
        set_stage(&g[UP2], "up2", 0, n, 1, 4 * b, 4 * b);
        set_stage(&g[WIDE], "up2", n + 1, 1, 2, 4 * b, 4 * b + e);
        set_stage(&g[UP1], "up1", 0, n, 2, 4 * b, 2 * b);
        set_stage(&g[UP1_OUT], "up1", n + 1, 1, 4, 2 * b, 2 * b);
        set_stage(&g[LAYER], "layer", 0, 2, 4, 2 * b, b);
        set_stage(&g[CONNECT_L1], "connect_l1", 0, v->connect_blocks, 2, e, e);
        set_stage(&g[CONNECT_L2], "connect_l2", 0, v->connect_blocks, 1, e, e);
    }
}

static sg_status read_config(void *of, sg_config *f)
{
    static const char *const blocks[] = {"encoder_num_resblocks", "decoder_num_resblocks"},
                             *energy[] = {"encoder_energy_flow_hidden_size", "decoder_energy_flow_hidden_size"};
    wf_vae *const       v = of;
    sg_vae_model *const m = &v->base;
    const bool          group = sg_config_either(f, "norm_type", "groupnorm", "layernorm", "groupnorm");
    read_latents(m, f);
    check_blocks(f);
    v->channels = sg_config_int(f, "base_channels", 1, SG_VAE_CHANNELS / 8, &(int64_t){128});
    v->has_attention = sg_config_bool(f, "use_attention", &(bool){true});
    v->connect_blocks = (int)sg_config_int(f, "connect_res_layer_num", 0, SG_VAE_LAYERS, &(int64_t){1});
    v->near = sg_config_either(f, "t_interpolation", "nearest", "trilinear", "nearest") ? 1 : 0.75f;
    if (group && v->channels % GROUPS)
        sg_config_fail(f, "base_channels", "%lld is no multiple of %d groups", (long long)v->channels, GROUPS);
    for (int i = 0; i < 2; i++)
        v->kind[i] = (sg_vae_kind){.norm_w = group ? ".weight" : ".norm.weight",
                                   .norm_b = group ? ".bias" : ".norm.bias",
                                   .conv = i ? ".conv" : "",
                                   .shortcut = "nin_shortcut.conv",
                                   .kt = i ? 3 : 1,
                                   .edge = SG_EDGE_ZERO,
                                   .norm = norm};
    for (int up = 0; up < 2; up++) {
        v->blocks[up] = (int)sg_config_int(f, blocks[up], 1, SG_VAE_LAYERS, &(int64_t){2});
        v->energy[up] = sg_config_int(f, energy[up], 1, SG_VAE_CHANNELS / 2, &(int64_t){up ? 128 : 64});
        if (group && v->energy[up] % GROUPS)
            sg_config_fail(f, energy[up], "%lld is no multiple of %d groups", (long long)v->energy[up], GROUPS);
        m->coder[up] = (sg_vae_coder){.up = up, .kind = &v->kind[1], .groups = group ? GROUPS : 0};
    }
    set_stages(v);
    snprintf(m->component.summary, sizeof m->component.summary,
             "%d x %d x %d, %d latent channels, wavelets, %d channels", TIME, SPACE, SPACE, m->info.z,
             (int)v->channels);
    return sg_config_status(f);
}

/* ---- tensors ---- */

/* What stands between the stages. */
static void bind_rest(const sg_component *p, wf_vae *v, sg_vae_coder *k)
{
    side *const   g = &v->side[k->up];
    const int64_t b = v->channels, e = v->energy[k->up];
    char          name[32];
    sg_bind_prefix(p->bind, k->up ? "decoder." : "encoder.");
    for (int i = 0; i < 2; i++) {
        const int64_t c = b << (i + k->up), bands = i ? COEFFICIENTS : FLAT;
        snprintf(name, sizeof name, "%s%d.%d.conv%s", k->up ? "up" : "down", i + 1, v->blocks[k->up] + !k->up,
                 i ? ".conv" : "");
        sg_vae_bind_conv(p, k, &g->change[i], name, c, c, i ? 3 : 1, 3);
        snprintf(name, sizeof name, k->up ? "connect_l%d.%d" : "connect_l%d", i + 1, v->connect_blocks);
        sg_vae_bind_conv(p, k, &g->connect[i], name, k->up ? bands : e, k->up ? e : bands, 1, 3);
        snprintf(name, sizeof name, "down%d.0", i + 1);
        if (!k->up) sg_vae_bind_conv(p, k, &g->head[i], name, c, i ? b + e : COEFFICIENTS, 1, 3);
    }
    if (k->up) sg_vae_bind_conv(p, k, &k->conv_in, "conv_in.conv", 4 * b, v->base.info.z, 3, 3);
    k->kind = &v->kind[!k->up];
    sg_vae_bind_norm_conv(p, k, &k->conv_out, "norm_out", "conv_out", k->up ? COEFFICIENTS : 2 * v->base.info.z,
                          k->up ? b : 4 * b);
    k->kind = &v->kind[1];
    sg_bind_ignore(p->bind, "wavelet_transform_"); /* constants */
}

static void bind(void *of, const sg_component *p, sg_vae_coder *k)
{
    wf_vae *const     v = of;
    side *const       g = &v->side[k->up];
    const char *const names[] = {k->groups ? "norm" : "norm.norm", "q.conv", "k.conv", "v.conv", "proj_out.conv"};
    char              name[32];
    for (int i = 0; i < STAGES; i++) {
        if (!g->stage[i].name) continue;
        snprintf(name, sizeof name, "%s.%s", k->up ? "decoder" : "encoder", g->stage[i].name);
        k->kind = &v->kind[k->up || i != DOWN1];
        sg_vae_bind_blocks(p, k, &g->stage[i].level, name, g->stage[i].first);
    }
    sg_bind_prefix(p->bind, "%s.mid.1.", k->up ? "decoder" : "encoder");
    if (v->has_attention) sg_vae_bind_attention(p, &g->attention, names, 4 * v->channels);
    bind_rest(p, v, k);
}

/* ---- wavelets ---- */

/* The transform of the first three of `in` channels, as a convolution. With inverse it is a map from that many of the
 * bands' channels to those of places, which come first in w as well. */
static sg_tensor wavelets(sg_stream *s, bool cube, bool inverse, int64_t in)
{
    const int       bands = cube ? BANDS : BANDS / 2, rows = bands * SG_VAE_RGB;
    const sg_tensor w = inverse ? sg_new_keep(s, SG_F32, rows, in) : sg_new_keep(s, SG_F32, rows, in, bands / 4, 2, 2);
    float           host[COEFFICIENTS * COEFFICIENTS * BANDS] = {0};
    for (int i = 0; i < bands * rows; i++) {
        /* `at` has a bit each of frame, row and column. */
        const int at = i % bands, band = i / bands / SG_VAE_RGB, c = i / bands % SG_VAE_RGB;
        const int both = at & (cube ? band : band >> 1 | (band & 1) << 1), odd = (both ^ both >> 1 ^ both >> 2) & 1;
        const int from = (inverse ? band * SG_VAE_RGB : 0) + c, to = (inverse ? at : band) * SG_VAE_RGB + c;
        if (from >= in) continue;
        host[inverse ? to * in + from : (to * in + from) * bands + at] = (odd ? -1.0f : 1.0f) * (cube ? 0.3536f : 0.5f);
    }
    sg_upload(s, w, host);
    return w;
}

/* y = the inverse transform of x, to whose low band `low` is added. */
static void invert(const run *r, sg_stream *s, bool cube, sg_tensor y, sg_tensor x, sg_tensor low)
{
    const size_t    mark = s->scratch.used;
    const int64_t   c = x.dim[3], n = sg_count(x) / c;
    const sg_tensor blocks = sg_new(s, SG_F32, n, c);
    sg_linear(s, .y = blocks, .x = sg_reshape(x, n, c), .w = cube ? r->cube : r->plane);
    if (low.rank)
        sg_linear(s, .y = blocks, .x = sg_reshape(low, n, SG_VAE_RGB), .w = cube ? r->cube_low : r->plane_low,
                  .add = true);
    sg_permute(s, .y = y, .x = blocks, .rank = 7, .dim = {x.dim[0], x.dim[1], x.dim[2], cube ? 2 : 1, 2, 2, SG_VAE_RGB},
               .perm = {0, 3, 1, 4, 2, 5, 6});
    s->scratch.used = mark;
}

/* ---- what both directions do ---- */

/* Begins a clip of y x x latents, or a tile of it. With group norms it is one chunk, so that nothing is remembered; but
 * the encoder's halving of frames always reads one of the past. */
static void begin(void *of, sg_stream *s, int64_t y, int64_t x)
{
    run *const                r = of;
    const side *const         g = side_of(r);
    const sg_vae_coder *const k = r->base.coder;
    s->keep.used = r->mark;
    r->base.remembers = false;
    r->seen = 0;
    if (!k->up || !k->groups) sg_vae_keep(&r->base, s, &g->change[1], k->up ? 2 : 1, 2 * y, 2 * x);
    if (k->groups) return;
    sg_vae_keep(&r->base, s, k->up ? &k->conv_in : &k->conv_out, 2, y, x);
    for (int i = 0; i < STAGES; i++)
        sg_vae_keep_blocks(&r->base, s, &g->stage[i].level, g->stage[i].scale * y, g->stage[i].scale * x);
    if (!k->up) return;
    r->held = sg_new_keep(s, r->base.vae->component.act, 1, y, x, 4 * vae_of(r)->channels);
    r->low = sg_new_keep(s, SG_F32, 1, 2 * y, 2 * x, SG_VAE_RGB);
}

static sg_status run_open(void **out, const void *of, bool up, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    SG_TRY(sg_vae_run_open(out, sizeof(run), of, up, s, y, x, e));
    run *const r = *out;
    r->plane = wavelets(s, false, up, up ? FLAT : COEFFICIENTS);
    r->plane_low = wavelets(s, false, up, SG_VAE_RGB);
    r->cube = wavelets(s, true, up, up ? COEFFICIENTS : SG_VAE_RGB);
    r->cube_low = wavelets(s, true, up, up ? SG_VAE_RGB : FLAT);
    r->mark = s->keep.used;
    if (!up)
        begin(r, s, y / SPACE, x / SPACE);
    else if (!r->base.vae->tiled)
        begin(r, s, y, x);
    return SG_OK;
}

/* x may change; the result lies there, or above it in s->scratch. */
static sg_tensor run_stage(const run *r, sg_stream *s, int i, sg_tensor x)
{
    const stage *const g = &side_of(r)->stage[i];
    const sg_vae_work  w = sg_vae_work_on(s, &g->level, x);
    for (int j = 0; j < g->level.blocks; j++) {
        sg_vae_block_run(&r->base, s, &g->level, j, &w);
        sg_tap(s, w.y, r->base.coder->up ? "vae.%s.%d" : "enc.%s.%d", g->name, g->first + j);
    }
    s->scratch.used = w.mark;
    return w.y;
}

static sg_tensor middle(const run *r, sg_stream *s, sg_tensor x)
{
    x = run_stage(r, s, MID_IN, x);
    if (vae_of(r)->has_attention) {
        sg_vae_attend(s, &side_of(r)->attention, x, r->base.coder->groups, false);
        sg_tap(s, x, r->base.coder->up ? "vae.mid.1" : "enc.mid.1");
    }
    return run_stage(r, s, MID_OUT, x);
}

/* A convolution of single frames. */
static sg_tensor convolve(const run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor x)
{
    const sg_tensor y = sg_new(s, r->base.vae->component.act, x.dim[0], x.dim[1], x.dim[2], k->w.dim[0]);
    sg_vae_convolve(&r->base, s, k, y, x, false);
    return y;
}

/* ---- the decoder ---- */

/* How many frames the next f latent frames make before the last transform: all between those that are known. */
static int64_t doubled(const run *r, int64_t f)
{
    const int64_t alone = least(f, r->seen < 2 ? 2 - r->seen : 0);
    return alone + 2 * (f - alone) + (r->seen + f == r->total && r->total > 1);
}

/* y = x at twice its size; x begins with the frame that was held. Frames 0 and 1, and the last one, stand alone. */
static void enlarge(const run *r, sg_stream *s, sg_tensor y, sg_tensor x)
{
    const int64_t f = x.dim[0] - 1, alone = least(f, r->seen < 2 ? 2 - r->seen : 0), twice = 2 * (f - alone);
    const int64_t end = y.dim[0] - alone - twice;
    sg_upsample(s, .y = sg_rows(y, 0, alone), .x = sg_rows(x, 1, alone), .linear = true);
    sg_upsample(s, .y = sg_rows(y, alone, twice), .x = sg_rows(x, alone, f - alone + 1), .linear = true,
                .near = vae_of(r)->near);
    sg_upsample(s, .y = sg_rows(y, alone + twice, end), .x = sg_rows(x, f + 1 - end, end), .linear = true);
}

/* The first channels of x go to y, the others to s->scratch. */
static sg_tensor split(sg_stream *s, sg_tensor y, sg_tensor x)
{
    const int64_t   all = x.dim[3], c = y.dim[3], n = sg_count(x) / all;
    const sg_tensor rest = sg_new(s, x.dtype, x.dim[0], x.dim[1], x.dim[2], all - c), row = sg_reshape(x, sg_count(x));
    sg_strided_copy(s, .y = sg_reshape(y, n, 1, c), .x = row, .token = all, .head = c);
    sg_strided_copy(s, .y = sg_reshape(rest, n, 1, all - c), .x = row, .first = c, .token = all, .head = all - c);
    return rest;
}

/* y = the inverse transform of what energy x becomes. */
static void connect(const run *r, sg_stream *s, int i, sg_tensor y, sg_tensor x, sg_tensor low)
{
    x = run_stage(r, s, i ? CONNECT_L2 : CONNECT_L1, x);
    invert(r, s, i, y, convolve(r, s, &side_of(r)->connect[i], x), low);
}

/* Latents z up to what up1 reads, y, and the low band of the last transform, l1. */
static void begin_decoding(run *r, sg_stream *s, sg_tensor y, sg_tensor l1, sg_tensor z)
{
    const sg_vae_coder *const k = r->base.coder;
    const sg_vae_conv *const  change = &side_of(r)->change[1];
    const size_t              mark = s->scratch.used;
    const int64_t             f = z.dim[0], rows = z.dim[1], columns = z.dim[2], skip = 2 - least(r->seen, 2);
    const sg_tensor           l2 = sg_new(s, SG_F32, 1 + 2 * f, 2 * rows, 2 * columns, SG_VAE_RGB);
    const sg_tensor           x = sg_new(s, y.dtype, 1 + f, rows, columns, y.dim[3]), now = sg_rows(x, 1, f);
    const size_t              inner = s->scratch.used;
    sg_tensor                 input = sg_vae_input(&r->base, s, &k->conv_in, f, rows, columns);
    sg_norm(s, .y = sg_vae_present(&r->base, &k->conv_in, input), .x = z, .w = r->base.scale, .b = r->base.shift,
            .kind = SG_NORM_NONE);
    sg_vae_convolve(&r->base, s, &k->conv_in, now, input, false);
    s->scratch.used = inner;
    sg_tap(s, now, "vae.conv_in");
    sg_tensor energy = split(s, now, middle(r, s, now));
    if (r->seen) sg_copy(s, .y = sg_rows(l2, 0, 1), .x = r->low);
    connect(r, s, 1, sg_rows(l2, 1, 2 * f), energy, (sg_tensor){0});
    if (r->low.rank) sg_copy(s, .y = r->low, .x = sg_rows(l2, 2 * f, 1));
    sg_tap(s, sg_rows(l2, r->seen ? 1 : 2, r->seen ? 2 * f : 2 * f - 1), "vae.l2");
    s->scratch.used = inner;
    run_stage(r, s, UP2, now);
    if (r->seen) sg_copy(s, .y = sg_rows(x, 0, 1), .x = r->held);
    input = sg_vae_input(&r->base, s, change, y.dim[0], y.dim[1], y.dim[2]);
    enlarge(r, s, sg_vae_present(&r->base, change, input), x);
    if (r->held.rank) sg_copy(s, .y = r->held, .x = sg_rows(x, f, 1));
    sg_vae_convolve(&r->base, s, change, y, input, false);
    s->scratch.used = inner;
    sg_tap(s, y, "vae.up2.%d", vae_of(r)->blocks[1]);
    energy = split(s, y, run_stage(r, s, WIDE, y));
    connect(r, s, 0, l1, energy, sg_rows(l2, skip, y.dim[0]));
    sg_tap(s, l1, "vae.l1");
    s->scratch.used = mark;
}

/* The next latents z F32 [f, y, x, c] as frames F32 [n, H, W, 3] in s->scratch, which are not clamped. */
static sg_tensor next_of_tile(void *of, sg_stream *s, sg_tensor z)
{
    run *const                r = of;
    const side *const         g = side_of(r);
    const sg_vae_coder *const k = r->base.coder;
    const sg_dtype            act = r->base.vae->component.act;
    const int64_t             b = vae_of(r)->channels, f = doubled(r, z.dim[0]), y = z.dim[1], x = z.dim[2];
    const sg_tensor           frames = sg_new(s, SG_F32, 2 * f, SPACE * y, SPACE * x, SG_VAE_RGB);
    const size_t              mark = s->scratch.used;
    const sg_tensor           l1 = sg_new(s, SG_F32, f, 4 * y, 4 * x, SG_VAE_RGB);
    const sg_tensor           fine = sg_new(s, act, f, 4 * y, 4 * x, 2 * b);
    const size_t              inner = s->scratch.used;
    const sg_tensor           coarse = sg_new(s, act, f, 2 * y, 2 * x, 4 * b);
    begin_decoding(r, s, coarse, l1, z);
    const sg_tensor half = run_stage(r, s, UP1, coarse);
    for (int64_t t = 0; t < f; t++)
        sg_conv(s, .y = sg_rows(fine, t, 1), .x = sg_rows(half, t, 1), .w = g->change[0].w, .b = g->change[0].b,
                .stride = {1, 1, 1}, .pad = {1, 1, 1, 1}, .twice = true);
    s->scratch.used = inner;
    sg_tap(s, fine, "vae.up1.%d", vae_of(r)->blocks[1]);
    const sg_tensor last = run_stage(r, s, LAYER, run_stage(r, s, UP1_OUT, fine));
    const sg_tensor out = sg_new(s, act, f, 4 * y, 4 * x, COEFFICIENTS);
    sg_vae_norm_conv(&r->base, s, &k->conv_out, out, last, false);
    sg_tap(s, out, "vae.conv_out");
    invert(r, s, true, frames, out, l1);
    s->scratch.used = mark;
    const int64_t skip = r->seen == 0;
    r->seen += z.dim[0];
    r->base.remembers = true;
    return sg_rows(frames, skip, 2 * f - skip);
}

static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    return run_open(out, of, true, s, y, x, e);
}

static bool at_once(const sg_vae_model *v) { return v->tiled || v->coder[SG_VAE_DECODER].groups; }

static sg_tensor decode_next(void *of, sg_stream *s, sg_tensor z, bool last)
{
    run *const                r = of;
    const sg_vae_model *const v = r->base.vae;
    const sg_tiles            tiles = {
                   .run = r, .count = r->base.coder->groups ? z.dim[0] : 1, .begin = begin, .next = next_of_tile};
    r->total = at_once(v) ? z.dim[0] : last ? r->seen + z.dim[0] : INT64_MAX;
    return sg_vae_decode(v, s, tiles, 2 * doubled(r, z.dim[0]) - (r->seen == 0), z);
}

static int64_t chunk(const void *of, int64_t total, int64_t done)
{
    return at_once(of) ? total - done : least(CHUNK, total - done);
}

/* ---- the encoder ---- */

/* Channels from `first` on of y become x. */
static void join(sg_stream *s, sg_tensor y, int64_t first, sg_tensor x)
{
    const int64_t c = x.dim[3];
    sg_strided_copy(s, .y = sg_reshape(y, sg_count(y)), .x = sg_reshape(x, sg_count(x) / c, 1, c), .first = first,
                    .token = y.dim[3], .head = c, .scatter = true);
}

/* Sets the first frame of x to the second, where it stands for it. */
static void double_first(sg_stream *s, sg_tensor x, bool first)
{
    if (first) sg_copy(s, .y = sg_rows(x, 0, 1), .x = sg_rows(x, 1, 1));
}

/* What of frames goes around the network, to where it joins it, and their coefficients, which are returned. */
static sg_tensor transform(const run *r, sg_stream *s, sg_tensor level2, sg_tensor middle, sg_tensor frames)
{
    const side *const g = side_of(r);
    const sg_dtype    act = level2.dtype;
    const int64_t     b = vae_of(r)->channels, y = level2.dim[1], x = level2.dim[2], f = level2.dim[0];
    const int         first = !r->base.remembers;
    const sg_tensor   all = sg_new(s, act, f, 2 * y, 2 * x, COEFFICIENTS);
    const size_t      mark = s->scratch.used;
    const sg_tensor   flat = sg_new(s, act, f + first, y, x, FLAT);
    const sg_tensor   deep = sg_new(s, act, middle.dim[0], middle.dim[1], middle.dim[2], COEFFICIENTS);
    if (first) {
        const sg_tensor more = sg_new(s, SG_F32, frames.dim[0] + 1, frames.dim[1], frames.dim[2], SG_VAE_RGB);
        sg_copy(s, .y = sg_rows(more, 1, frames.dim[0]), .x = frames);
        double_first(s, more, true);
        frames = more;
    }
    sg_conv(s, .y = all, .x = frames, .w = r->cube, .stride = {2, 2, 2});
    sg_conv(s, .y = sg_rows(flat, first, f), .x = all, .w = r->plane, .stride = {1, 2, 2});
    double_first(s, flat, first);
    sg_conv(s, .y = deep, .x = flat, .w = r->cube_low, .stride = {2, 2, 2});
    const sg_tensor l1 = convolve(r, s, &g->connect[0], sg_rows(flat, first, f));
    sg_tap(s, l1, "enc.l1");
    join(s, level2, b, l1);
    const sg_tensor l2 = convolve(r, s, &g->connect[1], deep);
    sg_tap(s, l2, "enc.l2");
    join(s, middle, 2 * b, l2);
    s->scratch.used = mark;
    return all;
}

/* Level 1, of single frames, or level 2, which halves their number, too; what it makes joins y. */
static void run_level(const run *r, sg_stream *s, int i, sg_tensor y, sg_tensor x)
{
    const side *const        g = side_of(r);
    const sg_vae_conv *const k = &g->change[i];
    const int                first = i && !r->base.remembers;
    x = convolve(r, s, &g->head[i], x);
    sg_tap(s, x, "enc.down%d.0", i + 1);
    run_stage(r, s, i ? DOWN2 : DOWN1, x);
    const sg_tensor made = sg_new(s, x.dtype, y.dim[0], y.dim[1], y.dim[2], x.dim[3]);
    const sg_tensor input = sg_vae_input(&r->base, s, k, x.dim[0] + first, x.dim[1], x.dim[2]);
    const sg_tensor given = sg_vae_present(&r->base, k, input);
    sg_copy(s, .y = sg_rows(given, first, x.dim[0]), .x = x);
    double_first(s, given, first);
    sg_vae_recall(&r->base, s, k, input);
    sg_conv(s, .y = made, .x = input, .w = k->w, .b = k->b, .stride = {1 + i, 2, 2}, .pad = {0, 1, 0, 1});
    sg_tap(s, made, "enc.down%d.%d", i + 1, vae_of(r)->blocks[0] + 1);
    join(s, y, 0, made);
}

static sg_status encode_open(void **out, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e)
{
    return run_open(out, of, false, s, height, width, e);
}

static sg_tensor encode_next(void *of, sg_stream *s, sg_tensor frames)
{
    run *const                r = of;
    const sg_vae_coder *const k = r->base.coder;
    const sg_dtype            act = r->base.vae->component.act;
    const int                 first = !r->base.remembers, numbers = 2 * r->base.vae->info.z;
    const int64_t   b = vae_of(r)->channels, e = vae_of(r)->energy[SG_VAE_ENCODER], half = (frames.dim[0] + first) / 2;
    const int64_t   f = (half + first) / 2, y = frames.dim[1] / SPACE, x = frames.dim[2] / SPACE;
    const sg_tensor mean = sg_new(s, SG_F32, f, y, x, numbers / 2);
    const size_t    mark = s->scratch.used;
    const sg_tensor in = sg_new(s, act, f, y, x, 2 * b + e);
    const size_t    inner = s->scratch.used;
    const sg_tensor level2 = sg_new(s, act, half, 2 * y, 2 * x, b + e);
    const size_t    upper = s->scratch.used;
    run_level(r, s, 0, level2, transform(r, s, level2, in, frames));
    s->scratch.used = upper;
    run_level(r, s, 1, in, level2);
    s->scratch.used = inner;
    const sg_tensor last = middle(r, s, in), out = sg_new(s, SG_F32, f, y, x, numbers);
    const sg_tensor means = sg_new(s, SG_F32, f * y * x, 1, numbers / 2);
    sg_vae_norm_conv(&r->base, s, &k->conv_out, out, last, false);
    sg_tap(s, out, "enc.conv_out");
    sg_strided_copy(s, .y = means, .x = sg_reshape(out, sg_count(out)), .token = numbers, .head = numbers);
    sg_norm(s, .y = mean, .x = sg_reshape(means, f, y, x, numbers / 2), .w = r->base.scale, .b = r->base.shift,
            .kind = SG_NORM_NONE);
    sg_tap(s, mean, "enc.mean");
    s->scratch.used = mark;
    r->base.remembers = true;
    return mean;
}

static int64_t encode_chunk(const void *of, int64_t total, int64_t done)
{
    const sg_vae_model *const v = of;
    if (v->coder[SG_VAE_ENCODER].groups) return total - done;
    return done ? least(CHUNK * TIME, total - done) : 1;
}

const sg_vae_ops sg_wf_vae_ops = {
    .class_name = "WFVAEModel",
    .size = sizeof(wf_vae),
    .read = read_config,
    .bind = bind,
    .component = sg_vae_component,
    .chunk = chunk,
    .special = 1, /* the first is not doubled */
    .set_tiles = sg_vae_set_tiles,
    .decode_open = decode_open,
    .decode_next = decode_next,
    .decode_close = sg_vae_run_close,
    .encoder = sg_vae_encoder,
    .encode_chunk = encode_chunk,
    .encode_open = encode_open,
    .encode_next = encode_next,
    .encode_close = sg_vae_run_close,
    .close = sg_vae_model_close,
};
