/* host_backend.h - backends in the memory of the host, and the oracle, which is one. It is private to kernels/. */
#ifndef SG_HOST_BACKEND_H
#define SG_HOST_BACKEND_H

#include "backend.h"

/* Gives b its name and the host's memory. Returns SG_E_ARG where o names a GPU. */
sg_status sg_host_open(sg_backend *b, const char *name, const sg_backend_options *o, sg_error *e) SG_MUST_USE;

/* Makes b the oracle. Returns SG_E_ARG where o names a GPU. */
sg_status sg_ref_backend_open(sg_backend *b, const sg_backend_options *o, sg_error *e) SG_MUST_USE;

#endif
