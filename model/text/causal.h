/* causal.h - attention in which a token sees itself and those before it. */
#ifndef SG_CAUSAL_H
#define SG_CAUSAL_H

#include "op.h"

/* Returns F32 [heads, n, n] in s->scratch, the bias of sg_attend that hides key j from query i where j > i. It is a
 * number so low that its weight is 0 in F32, and not an infinity, so that a row which a kernel has seen nothing of yet
 * has a finite maximum. */
sg_tensor sg_causal_bias(sg_stream *s, int heads, int n);

#endif
