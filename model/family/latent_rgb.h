/* latent_rgb.h - colours of latents without a decoder, for previews: rgb = bias + sum over channels c of z[c] factor[c], in
 * [-1, 1], of latents as the denoiser leaves them. */
#ifndef SG_LATENT_RGB_H
#define SG_LATENT_RGB_H

enum { SG_LATENT_RGB_Z = 128 };

typedef struct sg_latent_rgb {
    int   z; /* channels */
    float bias[3];
    float factor[SG_LATENT_RGB_Z][3];
} sg_latent_rgb;

extern const sg_latent_rgb sg_latent_rgb_wan21, sg_latent_rgb_wan22, sg_latent_rgb_mochi, sg_latent_rgb_hunyuan,
    sg_latent_rgb_cogvideox, sg_latent_rgb_flux, sg_latent_rgb_sd3;

#endif
