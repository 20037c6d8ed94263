/* conditioning.h - the texts of a render: tokens and states, by pass and encoder, kept from one render to the next. */
#ifndef SG_CONDITIONING_H
#define SG_CONDITIONING_H

#include "family.h"

/* Tells whether step i of so many that r does has a pass that leaves out blocks. */
bool sg_skips_layers(const sg_request *r, int steps, int step);

/* Puts the tokens of r's texts into c, by work of the host. States of the same tokens stay. Without a prompt, as when a
 * plan is asked for no prompt in particular, the longest is assumed. */
sg_status sg_conditioning_tokenize(sg_conditioning *c, const sg_family *f, const void *model,
                                   const sg_components *components, const sg_request *r, sg_error *e) SG_MUST_USE;

/* Tells whether the states that this encoder made of the tokens are there. */
bool sg_conditioning_encoded(const sg_conditioning *c, int encoder);

/* Runs an encoder on the tokens of all passes whose states are missing; the states come back to the host. On a plan the
 * states that are there stay as they are. SG_E_NUMERIC is latched where one is not finite. */
void sg_conditioning_encode(sg_conditioning *c, const sg_components *components, int encoder, sg_stream *s);

void sg_conditioning_free(sg_conditioning *c);

#endif
