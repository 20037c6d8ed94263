/* kl_vae.c - AutoencoderKL of diffusers (arXiv:2112.10752): config, tensors, decoder and encoder as vae.h has them.
 *
 * What bites:
 *  - use_quant_conv, use_post_quant_conv and mid_block_add_attention are true where the config lacks them,
 *    shift_factor is 0;
 *  - the pipelines of its models subtract shift_factor before they multiply by scaling_factor, and draw latents from
 *    the distribution;
 *  - a tile has sample_size pixels a side, so that frames up to that size are decoded whole in tiles too;
 *  - a frame of a clip is an image by itself;
 *  - force_upcast is for pipelines that run in F16: those of Flux.1 and Stable Diffusion 3 do not read it, and neither
 *    do we.
 *
 * Taps, of each tile: "vae.post_quant", "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out", "enc.conv_in",
 * "enc.down.%d", "enc.mid", "enc.quant"; then comes "vae.frames". */
#include "kl_coder.h"

static const sg_vae_kind kind = {.norm_w = ".weight",
                                 .norm_b = ".bias",
                                 .conv = "",
                                 .shortcut = "conv_shortcut",
                                 .kt = 1,
                                 .edge = SG_EDGE_ZERO,
                                 .norm = sg_kl_norm};

static sg_status read_config(void *of, sg_config *f)
{
    static const char *const absent[] = {"latents_mean", "latents_std"};
    const bool               yes = true;
    const double             none = 0;
    sg_kl_model *const       v = of;
    sg_vae_model *const      m = &v->vae;
    sg_kl_read(v, &kind, 1, f);
    SG_TRY(sg_config_status(f)); /* what follows goes by these */
    const int levels = m->coder[0].levels;
    for (int i = 0; i < 2 * (levels - 1); i++) m->coder[i % 2].level[i / 2].space = 2;
    v->side[SG_VAE_DECODER].has_quant = sg_config_bool(f, "use_post_quant_conv", &yes);
    v->side[SG_VAE_ENCODER].has_quant = sg_config_bool(f, "use_quant_conv", &yes);
    sg_vae_read_latents(m, 4, 0.18215, f);
    const double shift = sg_config_real(f, "shift_factor", -1e6, 1e6, &none);
    for (int i = 0; i < m->info.z; i++) m->mean[i] = shift;
    m->tile = sg_config_int(f, "sample_size", 1, SG_VAE_SIDE, &(int64_t){32});
    sg_vae_check_types(f, "up_block_types", "UpDecoderBlock2D", levels, 1);
    sg_vae_check_types(f, "down_block_types", "DownEncoderBlock2D", levels, 1);
    sg_vae_check_rgb(f, "in_channels");
    sg_vae_check_rgb(f, "out_channels");
    sg_vae_check_act(f);
    for (int i = 0; i < 2; i++)
        if (sg_config_has(f, absent[i])) sg_config_fail(f, absent[i], "only null is supported");
    sg_vae_measure(m);
    return sg_config_status(f);
}

/* Nothing goes from one frame to the next. */
static sg_status decode_open(void **out, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e)
{
    return sg_vae_run_open(out, sizeof(sg_vae_run), of, true, s, y, x, e);
}

static sg_status encode_open(void **out, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e)
{
    return sg_vae_run_open(out, sizeof(sg_vae_run), of, false, s, height, width, e);
}

/* Not clamped, F32 in s->scratch. */
static sg_tensor decode_whole(void *run, sg_stream *s, sg_tensor z)
{
    const sg_vae_run *const r = run;
    const int               scale = r->vae->info.scale_space;
    const sg_tensor         frame = sg_new(s, SG_F32, 1, z.dim[1] * scale, z.dim[2] * scale, SG_VAE_RGB);
    const size_t            mark = s->scratch.used;
    sg_copy(s, .y = frame, .x = sg_kl_decode(r, s, z));
    s->scratch.used = mark;
    return frame;
}

static sg_tensor decode_next(void *run, sg_stream *s, sg_tensor z, bool last)
{
    const sg_vae_run *const r = run;
    (void)last;
    return sg_vae_decode(r->vae, s, (sg_tiles){.run = run, .count = 1, .next = decode_whole}, 1, z);
}

static sg_tensor encode_whole(void *run, sg_stream *s, sg_tensor frame)
{
    const sg_vae_run *const r = run;
    const int               scale = r->vae->info.scale_space;
    const sg_tensor         both = sg_new(s, SG_F32, 1, frame.dim[1] / scale, frame.dim[2] / scale, 2 * r->vae->info.z);
    const size_t            mark = s->scratch.used;
    sg_copy(s, .y = both, .x = sg_kl_encode(r, s, frame));
    s->scratch.used = mark;
    return both;
}

static sg_tensor encode_next(void *run, sg_stream *s, sg_tensor frame)
{
    const sg_vae_run *const   r = run;
    const sg_vae_model *const v = r->vae;
    const int                 scale = v->info.scale_space;
    const sg_tiles tiles = {.run = run, .x_side = v->tile, .y_side = v->tile / scale, .count = 1, .next = encode_whole};
    const sg_tensor latents = sg_new(s, SG_F32, 1, frame.dim[1] / scale, frame.dim[2] / scale, 2 * v->info.z);
    const size_t    mark = s->scratch.used;
    sg_tensor       both;
    if (v->tiled)
        sg_tiles_run(&tiles, s, both = sg_alloc(s, &s->scratch, SG_F32, 4, latents.dim), frame);
    else
        both = encode_whole(run, s, frame);
    sg_norm(s, .y = latents, .x = both, .w = r->scale, .b = r->shift, .kind = SG_NORM_NONE);
    s->scratch.used = mark;
    return latents;
}

const sg_vae_ops sg_kl_vae_ops = {.class_name = "AutoencoderKL",
                                  .size = sizeof(sg_kl_model),
                                  .read = read_config,
                                  .bind = sg_kl_bind,
                                  .component = sg_vae_component,
                                  .chunk = sg_vae_chunk_of_one,
                                  .set_tiles = sg_vae_set_tiles,
                                  .decode_open = decode_open,
                                  .decode_next = decode_next,
                                  .decode_close = sg_vae_run_close,
                                  .encoder = sg_vae_encoder,
                                  .encode_chunk = sg_vae_chunk_of_one,
                                  .encode_open = encode_open,
                                  .encode_next = encode_next,
                                  .encode_close = sg_vae_run_close,
                                  .sampled = true,
                                  .close = sg_vae_model_close};
