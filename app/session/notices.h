/* notices.h - what a person may not have expected of a prompt or a size, one line each on stderr, most as warnings.
 * Nothing is refused here, and with --quiet nothing is said. */
#ifndef SG_NOTICES_H
#define SG_NOTICES_H

#include "session.h"

/* Returns how quantised weights lie, for the end of a line; "" where there are none. */
const char *sg_weights_text(const sg_model_info *info);

/* Tells which model is on which device, how its quantised weights and LoRAs lie, and why it is not on the NVIDIA card
 * that is there. */
void sg_notice_device(sg_session *x);

/* Prints the device as above, and what will be rendered. tokens 0: unknown. Random seeds are printed even if quiet. */
void sg_notice_start(sg_session *x, const sg_request *r, int64_t tokens);

/* Tells what the plan does so that memory suffices: how much of the model stays on the host, whether decoding is in
 * tiles. */
void sg_notice_plan(sg_session *x, const sg_plan *plan);

/* Tells sizes and frames that the model cannot render, and what is rendered in their place. */
void sg_notice_size(sg_session *x, const sg_settings *resolved);

/* Tells the same, and keys of LoRAs that fit nothing, a render that a LoRA for few steps was not made for, and a
 * negative prompt that is not read. */
void sg_notice_request(sg_session *x, const sg_rendering *r);

/* Tells of an empty prompt, and of words that the model was not trained with. */
void sg_notice_prompt(sg_session *x, const char *prompt);

/* Tells the words of a set in one line, with the number of prompts that have them, and how many comments its file
 * has. */
void sg_notice_prompts(sg_session *x, const sg_prompt_set *set);

/* Tells of texts that the text encoder does not read to their end. which, "prompt 3" or NULL, tells apart those of a
 * file. */
void sg_notice_cut(sg_session *x, const sg_plan *plan, const char *which);

/* Puts into text a doubt about the thresholds that r's attention goes by, --sparse-config's or those beside the model:
 * they are of another checkpoint, or for another way to choose blocks. "": there is none. Returns text. */
const char *sg_doubt_thresholds(char text[SG_FORECAST_TEXT], const sg_rendering *r, const sg_engine *engine);

/* Tells a threshold of the step cache that comes from the model's own file. arm names the one whose request r is, or is
 * NULL. */
void sg_notice_cache(sg_session *x, const sg_request *r, const char *arm);

/* Tells doubts about thresholds and the step cache as above, and why attention that was asked for by name has no
 * effect. */
void sg_notice_attention(sg_session *x, const sg_rendering *r);

/* With --quiet: prints the name of a file that is there now on stdout, unless a report goes there. */
void sg_notice_file(const sg_session *x, const char *path);

/* Tells by which encoder a clip of r becomes the MP4 path (NULL: the default name), if it is not H.264, which plays
 * everywhere, or always. Says nothing of other formats. */
void sg_notice_encoder(sg_session *x, const sg_request *r, const char *path, bool always);

#endif
