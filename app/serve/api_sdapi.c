/* api_sdapi.c - /sdapi/v1/txt2img as programs for Stable Diffusion web UI ask for it. */
#include "api.h"
#include "base/json_input.h"
#include "json_build.h"

#include <stdlib.h>

enum { IMAGES_MOST = 10 };

/* {"images": [base64, ...], "parameters": what was asked, "info": the settings as text}. */
static void answer_images(sg_ask *a, const json_t *job)
{
    const size_t n = json_array_size(json_object_get(job, "files"));
    json_t      *images = json_array();
    for (size_t i = 0; i < n; i++) sg_json_append(&images, sg_api_result(a->api, a->id, i));
    if (sg_api_is(job, SG_JOB_COMPLETED)) {
        char *const info = sg_json_text(json_object_get(job, "made"), JSON_COMPACT | JSON_REAL_PRECISION(15));
        sg_http_answer_json(a->request, 200,
                            json_pack("{s:o, s:O, s:o}", "images", images, "parameters",
                                      json_object_get(job, "settings"), "info", info ? json_string(info) : NULL));
        free(info);
    } else {
        json_decref(images);
        sg_http_answer_error(a->request, 500, NULL, "%s", sg_api_failure(job));
    }
}

/* Members that mean the same here; what else its clients send, such as samplers' names, is of its models. */
void sg_api_txt2img(sg_http_request *r)
{
    static const char *const same[] = {"prompt", "negative_prompt", "steps", "width", "height", "cfg_scale", "seed"};
    const sg_ask             ask = {.answer = answer_images, .wait = true};
    json_t *const            body = sg_api_body(r);
    json_t                  *settings = json_pack("{s:i, s:s}", "frames", 1, "output_format", "png");
    int                      size = 1, times = 1;
    if (body && sg_api_integer(r, body, "batch_size", 1, IMAGES_MOST, &size) &&
        sg_api_integer(r, body, "n_iter", 1, IMAGES_MOST, &times)) {
        for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
            json_t *const v = json_object_get(body, same[i]);
            if (v && !json_is_null(v)) sg_json_set(&settings, same[i], json_incref(v));
        }
        sg_json_set(&settings, "batch", json_integer((json_int_t)size * times));
        sg_api_submit(r, &ask, settings, false, (const char *const[SG_JOB_INPUTS]){NULL});
        settings = NULL;
    }
    json_decref(settings);
    json_decref(body);
}
