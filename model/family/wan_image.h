/* wan_image.h - the pictures that a Wan clip begins and ends with, as latents: WanImageToVideoPipeline of diffusers. */
#ifndef SG_WAN_IMAGE_H
#define SG_WAN_IMAGE_H

#include "family.h"

/* Encodes the pictures of r by v, an sg_wan_vae, as a phase of a render, into the host's F32 [channels, f, y, x]; the
 * caller frees. It is NULL on a plan and after a failure, which s latches. With `alone` it is the first picture as a
 * clip of one frame; f is 1, the channels are z. Otherwise it is a clip that is grey between its pictures. The channels
 * are a mask of scale_time, which is 1 where a frame of the clip is a picture (frame 0 counts scale_time times), then
 * z. */
float *sg_wan_image_encode(const sg_vae *v, sg_stream *s, const sg_request *r, const sg_geometry *g, bool alone,
                           sg_watch watch);

#endif
