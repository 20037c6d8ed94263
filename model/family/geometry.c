/* geometry.c - where the latents of a render lie: by the scales of the VAE and the patches of the denoiser. */
#include "family.h"

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
