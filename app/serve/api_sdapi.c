/* api_sdapi.c - /sdapi/v1/txt2img as programs for Stable Diffusion web UI ask for it. */
#include "api.h"
#include "base/json_input.h"
#include "json_build.h"

#include <stdlib.h>

/* {"images": [base64, ...], "parameters": what was asked, "info": the settings as text}. */
static void answer_images(sg_ask *a, const json_t *job)
{
    const size_t n = json_array_size(json_object_get(job, "files"));
    json_t      *images = json_array();
    char *const  info = sg_json_text(json_object_get(job, "made"), JSON_COMPACT | JSON_REAL_PRECISION(15));
    for (size_t i = 0; i < n; i++) sg_json_append(&images, sg_api_result(a->api, a->id, i));
    sg_http_answer_json(a->request, 200,
                        json_pack("{s:o, s:O, s:o}", "images", images, "parameters", json_object_get(job, "settings"),
                                  "info", json_string(info)));
    free(info);
}

/* Members that mean the same here; what else its clients send, such as samplers' names, is of its models. */
void sg_api_txt2img(sg_http_request *r)
{
    static const char *const same[] = {"prompt", "negative_prompt", "steps", "width", "height", "cfg_scale", "seed"};
    const sg_ask             ask = {.answer = answer_images, .wait = true};
    json_t *const            body = sg_api_body(r);
    json_t                  *settings = json_pack("{s:i, s:s}", "frames", 1, "output_format", "png");
    int                      size = 1, times = 1;
    if (body && sg_api_integer(r, body, "batch_size", 1, SG_API_RESULTS, &size) &&
        sg_api_integer(r, body, "n_iter", 1, SG_API_RESULTS, &times)) {
        json_t *const model = json_object_get(json_object_get(body, "override_settings"), "sd_model_checkpoint");
        for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
            json_t *const v = json_object_get(body, same[i]);
            if (v && !json_is_null(v)) sg_json_set(&settings, same[i], json_incref(v));
        }
        if (model) sg_json_set(&settings, "model", json_incref(model));
        sg_json_set(&settings, "batch", json_integer((json_int_t)size * times));
        sg_api_submit(r, &ask, settings, false, (const char *const[SG_JOB_INPUTS]){NULL});
        settings = NULL;
    }
    json_decref(settings);
    json_decref(body);
}

/* Open WebUI asks for the model's name before each image. */
void sg_api_sd_options(sg_http_request *r)
{
    const sg_api *const api = r->context;
    json_t *const       files = sg_job_runner_files(api->runner);
    json_t *const       usual = json_array_get(json_object_get(files, "models"), 0);
    sg_http_answer_json(r, 200, json_pack("{s:O}", "sd_model_checkpoint", usual));
    json_decref(files);
}

void sg_api_sd_models(sg_http_request *r)
{
    const sg_api *const api = r->context;
    json_t *const       files = sg_job_runner_files(api->runner);
    json_t             *all = json_array(), *name;
    size_t              i;
    json_array_foreach(json_object_get(files, "models"), i, name)
        sg_json_append(&all, json_pack("{s:O, s:O}", "title", name, "model_name", name));
    json_decref(files);
    sg_http_answer_json(r, 200, all);
}
