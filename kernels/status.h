/* status.h - how all libraries report failures. */
#ifndef SG_STATUS_H
#define SG_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SG_PUBLIC __attribute__((visibility("default"))) /* what libspargegen exports; tests/example/symbols lists it */
#define SG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SG_MUST_USE __attribute__((warn_unused_result))
#else
#define SG_PUBLIC
#define SG_PRINTF(fmt, args)
#define SG_MUST_USE
#endif

typedef enum sg_status {
    SG_OK,
    SG_E_ARG,         /* an invalid argument */
    SG_E_FILE,        /* a file cannot be opened, read or written */
    SG_E_FORMAT,      /* a file's content is invalid */
    SG_E_SHAPE,       /* tensors do not fit each other */
    SG_E_MEMORY,      /* too little memory */
    SG_E_UNSUPPORTED, /* valid, but not supported by this program or this machine */
    SG_E_DEVICE,      /* the device or a library below us failed */
    SG_E_MISMATCH,    /* a result differs from the oracle's */
    SG_E_NUMERIC,     /* NaN or infinity in a result or a file */
    SG_E_CANCELLED    /* the caller asked to stop */
} sg_status;

/* Tells people of a failure in one or more lines, without a newline at the end. Zero-initialise it. */
typedef struct sg_error {
    sg_status code;
    char      text[4096];
} sg_error;

/* Fills e (which may be NULL) unless it already holds a failure: the first cause is kept. Control characters but newlines
 * become question marks. Returns code. */
SG_PUBLIC sg_status sg_error_set(sg_error *e, sg_status code, const char *fmt, ...) SG_PRINTF(3, 4);

/* Puts WHERE and a colon before e's text, which a failure has just filled. Returns status. */
SG_PUBLIC sg_status sg_error_in(sg_error *e, sg_status status, const char *where);

/* Puts the failure of `from`, if it has one, into e in the same way. Returns its code. */
SG_PUBLIC sg_status sg_error_copy(sg_error *e, const sg_error *from);

/* Puts SG_E_MEMORY into e: "WHAT: out of memory". */
SG_PUBLIC sg_status sg_error_memory(sg_error *e, const char *what);

/* Forwards a failure of `call`, whose error has been filled already. */
#define SG_TRY(call)                                                                                                   \
    do {                                                                                                               \
        const sg_status sg_try_ = (call);                                                                              \
        if (sg_try_ != SG_OK) return sg_try_;                                                                          \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
