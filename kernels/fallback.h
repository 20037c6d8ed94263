/* fallback.h - the calls of ops that a slower kernel served than the backend's best: sg_backend_served tells of
 * them. */
#ifndef SG_FALLBACK_H
#define SG_FALLBACK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SG_FALLBACKS = 12 };

/* Zero-initialise it. */
typedef struct sg_fallbacks {
    struct {
        const char *what; /* NULL: no more */
        int64_t     calls;
    } row[SG_FALLBACKS];
} sg_fallbacks;

/* Counts a call. `what` is a literal: "attend_blocks by mma.sync, not wgmma: a PV filter". */
void sg_fallback_count(sg_fallbacks *f, const char *what);

/* Counts all calls of g. */
void sg_fallbacks_add(sg_fallbacks *f, const sg_fallbacks *g);

/* Puts "WHAT (40 calls); .." behind the text there. */
void sg_fallbacks_describe(const sg_fallbacks *f, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
