/* eval_manifest.h - DIR/manifest.json: everything that determines the results of an evaluation.
 * ../report/schema/eval.json describes it, and ../report/schema/settings.json its members that are options. device is
 * that of the first run; it may change, as program, file, threads and again may: they are for people.
 *
 * Clip k of an entry has the seed of the entry, or seed, plus first + k of its name (clip_names.h). */
#ifndef SG_EVAL_MANIFEST_H
#define SG_EVAL_MANIFEST_H

#include "eval.h"

/* Makes the manifest of v, which the caller owns. Returns SG_E_MEMORY. */
sg_status sg_eval_manifest_make(json_t **out, const sg_eval *v, sg_error *e) SG_MUST_USE;

/* Reads the folder's manifest, which the caller owns; an older one gets the members above. Returns SG_E_FILE or
 * SG_E_FORMAT. */
sg_status sg_eval_manifest_read(json_t **out, const char *folder, sg_error *e) SG_MUST_USE;

/* Adds `clip`, that of the folder dir, to the manifest of a folder, if it has none. Returns SG_E_ARG if it has another
 * one. */
sg_status sg_eval_manifest_add_clip(const char *folder, json_t *clip, const char *dir, sg_error *e) SG_MUST_USE;

/* Lets there have now's set, that of v, if it is the one there and new entries after it. Returns SG_E_ARG for another
 * set. */
sg_status sg_eval_manifest_grow(json_t *there, const json_t *now, const sg_eval *v, sg_error *e) SG_MUST_USE;

/* Compares the two, of which one may have no clip. Returns SG_E_ARG, with every difference as "name: there -> now". */
sg_status sg_eval_manifest_compare(const json_t *there, const json_t *now, const char *folder, sg_error *e) SG_MUST_USE;

#endif
