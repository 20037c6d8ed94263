/* api_routes.c - what the server answers. */
#include "api.h"
#include "serve_page.h"

const sg_http_route sg_api_routes[] = {
    {"GET", "/", sg_serve_page, SG_HTTP_PUBLIC},
    {"GET", "/page.js", sg_serve_page_script, SG_HTTP_PUBLIC},
    {"GET", "/page.css", sg_serve_page_style, SG_HTTP_PUBLIC},
    {"GET", "/options", sg_api_options, 0},
    {"POST", "/jobs", sg_api_jobs_post, SG_HTTP_JSON | SG_HTTP_FORM},
    {"GET", "/jobs", sg_api_jobs, 0},
    {"GET", "/jobs/{id}", sg_api_job_get, 0},
    {"DELETE", "/jobs/{id}", sg_api_job_delete, 0},
    {"GET", "/jobs/{id}/events", sg_api_job_events, 0},
    {"GET", "/jobs/{id}/content", sg_api_job_content, 0},
    {"GET", "/jobs/{id}/inputs/image", sg_api_job_input, 0},
    {"GET", "/jobs/{id}/inputs/last_image", sg_api_job_input, 0},
    {"GET", "/jobs/{id}/inputs/video", sg_api_job_input, 0},
    {"GET", "/v1/models", sg_api_models, 0},
    {"POST", "/v1/images/generations", sg_api_images, SG_HTTP_JSON},
    {"POST", "/v1/images/edits", sg_api_edits, SG_HTTP_FORM},
    {"POST", "/v1/videos", sg_api_videos_post, SG_HTTP_JSON | SG_HTTP_FORM},
    {"GET", "/v1/videos", sg_api_videos, 0},
    {"GET", "/v1/videos/{id}", sg_api_video, 0},
    {"DELETE", "/v1/videos/{id}", sg_api_video_delete, 0},
    {"GET", "/v1/videos/{id}/content", sg_api_video_content, 0},
    {"POST", "/sdapi/v1/txt2img", sg_api_txt2img, SG_HTTP_JSON},
    {"GET", "/sdapi/v1/options", sg_api_sd_options, 0},
    {"GET", "/sdapi/v1/sd-models", sg_api_sd_models, 0},
    {"GET", "/healthz", sg_api_health, SG_HTTP_PUBLIC},
    {"GET", "/health", sg_api_health, SG_HTTP_PUBLIC}, /* as SGLang and FastVideo call it */
    {"GET", "/metrics", sg_api_metrics, 0},
};
const int sg_api_route_count = (int)(sizeof sg_api_routes / sizeof *sg_api_routes);
