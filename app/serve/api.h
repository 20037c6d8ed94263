/* api.h - what the routes have in common: a request becomes a job, and is answered at once or when that is over. */
#ifndef SG_API_H
#define SG_API_H

#include "http_server.h"
#include "job_runner.h"

#include <pthread.h>
#include <semaphore.h>

/* A request that makes a job, and what becomes of its answer. */
typedef struct sg_ask sg_ask;

typedef void sg_ask_answer(sg_ask *a, const json_t *job);

typedef struct sg_api {
    sg_job_queue   *queue;
    sg_job_events  *events;
    sg_job_runner  *runner;
    sg_http_server *server; /* for metrics; NULL until it listens */
    sg_job_log      log;
    pthread_t       waiter;
    sem_t           changed; /* for the waiter */
    pthread_mutex_t lock;    /* is taken before all others; guards what follows, and asks that have a stream */
    sg_ask         *waiting; /* for the end of their jobs */
    bool            stopped;
} sg_api;

/* Faces use url, edit, partial, sent and index as they like. */
struct sg_ask {
    sg_api          *api;
    sg_http_request *request;
    char             id[SG_JOB_ID]; /* of its job */
    sg_ask_answer   *answer;
    bool             wait;
    bool (*more)(sg_ask *a);
    bool               over; /* of a stream: the job is, and its reader knows */
    bool               cancels;
    bool               url, edit;
    int                partial, sent, index;
    sg_ask            *next;
    sg_http_stream    *stream;
    sg_job_subscriber *subscriber;
};

/* The queue, the events and the runner are there. */
sg_status sg_api_open(sg_api *api, sg_error *e) SG_MUST_USE;

/* No handler runs any more. */
void sg_api_close(sg_api *api);

extern const sg_http_route sg_api_routes[];
extern const int           sg_api_route_count;

/* ---- for handlers ---- */

/* Reads what a request has: of JSON its object, of a form its fields as strings, lists where there are several of a
 * name. Returns NULL where it has answered. */
json_t *sg_api_body(sg_http_request *r);

/* Submits a job for this request, which is kept. ask is copied and has what the face wants of it; settings are taken;
 * form: they are strings. answer answers once the job is taken or, with wait, has its result: then a client that leaves
 * cancels it, and a job without a result is answered with the reason. The job's JSON is not NULL. What is not taken is
 * refused. */
void sg_api_submit(sg_http_request *r, const sg_ask *ask, json_t *settings, bool form,
                   const char *const upload[SG_JOB_INPUTS]);

/* Answers with a stream of events about the job of this id. ask is copied: its more sends one event at most, by
 * sg_api_event, and returns false when the stream is over. cancels: a reader who leaves before that cancels the job. */
void sg_api_stream(sg_http_request *r, const sg_ask *ask, const char *id);

/* Sends an event; takes the JSON. Returns false where nobody reads any more, or memory is out. */
bool sg_api_event(sg_ask *a, const char *name, json_t *json);

/* Returns the job that the path names as JSON; NULL: there is none, which is answered. */
json_t *sg_api_job(sg_http_request *r);

/* Tells whether the job of this JSON is in a state, or over. */
bool sg_api_is(const json_t *job, sg_job_state state);
bool sg_api_over(const json_t *job);

/* Returns why the job of this JSON, which is over, has no result; NULL: it was removed. */
const char *sg_api_failure(const json_t *job);

/* Returns the settings of the job of this JSON: those in effect or, before there is a result, those that were asked. */
const json_t *sg_api_settings(const json_t *job);

/* Returns its "WIDTHxHEIGHT", "auto" where that is not known yet. */
json_t *sg_api_size(const json_t *job);

/* Returns the page of jobs that ?limit=, ?after= and ?order= ask for; NULL: that is answered. */
json_t *sg_api_list(sg_http_request *r);

/* Removes the path's job, and answers with an object of this name. */
void sg_api_delete(sg_http_request *r, const char *object);

/* Returns member key of object as a string, "" where it has none. */
const char *sg_api_text(const json_t *object, const char *key);

/* Reads the integer of member key, which in forms is a string; *out stays where there is none. False: it is none, or
 * out of range, which is answered. */
bool sg_api_integer(sg_http_request *r, const json_t *object, const char *key, int lo, int hi, int *out);

/* Reads the integer of ?key= in the same way. */
bool sg_api_query(sg_http_request *r, const char *key, int lo, int hi, int *out);

/* Most results of a request of another program's. */
enum { SG_API_RESULTS = 10 };

/* Takes out of a body of OpenAI's or SGLang's what is no member of a job: their number of results becomes batch; what
 * has no meaning here is dropped, and so are members that are null or empty. False: it was refused. */
bool sg_api_take_foreign(sg_http_request *r, json_t *body);

/* Returns a number as this request has numbers: those of a form are strings. */
json_t *sg_api_number(const sg_http_request *r, int v);

/* Return bytes in base64: NULL where memory is out, or the file of result i has gone. */
json_t *sg_api_base64(const uint8_t *data, size_t bytes);
json_t *sg_api_result(const sg_api *api, const char *id, size_t i);

/* Answers with the file of result i of the path's job. */
void sg_api_content(sg_http_request *r, size_t i);

sg_http_handler sg_api_options, sg_api_jobs_post, sg_api_jobs, sg_api_job_get, sg_api_job_delete, sg_api_job_events,
    sg_api_job_content, sg_api_job_input, sg_api_health, sg_api_metrics;
sg_http_handler sg_api_models, sg_api_images, sg_api_edits;
sg_http_handler sg_api_videos_post, sg_api_videos, sg_api_video, sg_api_video_content, sg_api_video_delete;
sg_http_handler sg_api_txt2img, sg_api_sd_options, sg_api_sd_models;

#endif
