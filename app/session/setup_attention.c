/* setup_attention.c - see setup_attention.h. */
#include "setup_attention.h"
#include "checkpoint.h"
#include "setup.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is(const char *given, const char *value) { return given && strcmp(given, value) == 0; }

static bool names_threshold(const sg_settings *s)
{
    return !isnan(s->topk) || !isnan(s->tau) || !isnan(s->sim) || !isnan(s->pv) || s->block_mask;
}

/* ---- files ---- */

/* The one tensor of a safetensors file. */
static sg_status open_mask(sg_tensor *out, sg_source **w, const char *path, sg_error *e)
{
    SG_TRY(sg_setup_safetensors(w, path, "--block-mask", e));
    if (sg_source_count(*w) == 1) *out = sg_source_view(*w, 0);
    if (out->rank == 3 && out->dtype == SG_U8 && sg_count(*out) > 0) return SG_OK;
    return sg_error_set(
        e, SG_E_FORMAT,
        "--block-mask: %s: should hold one tensor, U8 or BOOL [heads or 1, blocks of queries, blocks of "
        "keys]",
        path);
}

static sg_status open_files(sg_policy *p, sg_attention_files *f, const sg_settings *s, sg_error *e)
{
    if (names_threshold(s) || s->sparse_config) p->tuned = NULL;
    if (s->sparse_config && !is(s->sparse_config, "none")) {
        SG_TRY(sg_thresholds_read(&f->tuned, s->sparse_config, e));
        if (!f->tuned.values.layers)
            return sg_error_set(e, SG_E_FORMAT, "--sparse-config: %s: has no thresholds of attention",
                                s->sparse_config);
        p->tuned = &f->tuned.values;
    }
    if (!s->block_mask) return SG_OK;
    p->rule = SG_SELECT_GIVEN;
    return open_mask(&p->mask, &f->mask, s->block_mask, e);
}

void sg_attention_files_close(sg_attention_files *f)
{
    sg_thresholds_free(&f->tuned);
    sg_source_close(&f->mask);
}

/* ---- the policy ---- */

static void start_from(sg_policy *p, const char *preset)
{
    const sg_thresholds *const tuned = p->tuned;
    if (is(preset, "paper")) *p = sg_policy_paper();
    if (!is(preset, "usual")) return;
    *p = sg_policy_default();
    p->tuned = tuned;
}

static void set_numbers(sg_policy *p, const sg_settings *s)
{
    if (!isnan(s->topk)) p->rule = SG_SELECT_TOPK, p->amount = (float)s->topk;
    if (!isnan(s->tau)) p->rule = SG_SELECT_MASS, p->amount = (float)s->tau;
    if (!isnan(s->sim)) p->theta = (float)s->sim;
    if (!isnan(s->pv)) p->pv_threshold = (float)s->pv;
    if (!isnan(s->dense_steps)) p->dense_steps = s->dense_steps;
    if (s->dense_layers) p->dense_layers = s->dense_layers;
    if (s->sink) p->sink = s->sink;
}

static void set_choices(sg_policy *p, const sg_settings *s)
{
    if (s->attention) p->kind = (sg_attention_kind)sg_setup_place(s->attention, sg_attention_names);
    if (s->dense_steps_kind)
        p->dense_steps_kind = (sg_attention_kind)sg_setup_place(s->dense_steps_kind, sg_attention_names);
    if (s->score) p->score = (sg_score_kind)sg_setup_place(s->score, sg_score_names);
    if (s->tail) p->tail = is(s->tail, "on");
    if (s->tail_bias) p->tail_bias = (sg_tail_bias)sg_setup_place(s->tail_bias, sg_tail_bias_names);
    if (s->pv_dtype) p->pv_dtype = (sg_pv_dtype)sg_setup_place(s->pv_dtype, sg_pv_dtype_names);
    if (s->budget) p->heads = is(s->budget, "heads");
    if (s->order) p->order = (sg_order)sg_setup_place(s->order, sg_order_names);
}

sg_status sg_setup_attention(sg_policy *p, sg_attention_files *f, const sg_settings *s, sg_error *e)
{
    start_from(p, s->preset);
    set_choices(p, s);
    set_numbers(p, s);
    SG_TRY(open_files(p, f, s, e));
    p->named = s->attention || !isnan(s->topk) || !isnan(s->tau) || s->block_mask || p->tuned == &f->tuned.values;
    if (p->kind != SG_ATTENTION_SPARGE) p->tuned = NULL;
    if (!s->budget && (p->tuned ? p->tuned->rule : p->rule) != SG_SELECT_TOPK) p->heads = false;
    return sg_policy_check(p, e);
}

/* ---- doubts ---- */

static const char *differs(const sg_policy *a, const sg_policy *b)
{
    if (a->score != b->score) return "score";
    if (a->tail != b->tail) return "tail";
    if (a->tail && a->tail_bias != b->tail_bias) return "tail-bias";
    return a->order != b->order ? "order" : NULL;
}

/* The engine has read the file before. The caller frees, after a failure too. */
static bool read_own(sg_thresholds_file *own, const sg_model_path *model)
{
    char     path[PATH_MAX + sizeof SG_THRESHOLDS_NAME + 1];
    sg_error why = {0};
    return sg_checkpoint_beside(model->dir, SG_THRESHOLDS_NAME, path, sizeof path) &&
           sg_thresholds_read(own, path, &why) == SG_OK;
}

/* "another checkpoint (its hash; this is HASH)", or "" if t is of this model or does not say. */
static const char *another(char text[80], const sg_thresholds_file *t, const sg_model_path *model)
{
    char     hash[17] = "";
    sg_error why = {0};
    *text = '\0';
    if (*t->model && sg_thresholds_hash(hash, model->dir, &model->parts, &why) == SG_OK && strcmp(hash, t->model) != 0)
        snprintf(text, 80, "another checkpoint (%s; this is %s)", t->model, hash);
    return text;
}

const char *sg_setup_warning(char *text, size_t size, const sg_policy *p, const sg_attention_files *f,
                             const sg_model_path *model)
{
    char               of[80];
    sg_thresholds_file own = {0};
    const bool         given = p->tuned == &f->tuned.values;
    *text = '\0';
    if (p->tuned && (given || read_own(&own, model))) {
        const sg_thresholds_file *const t = given ? &f->tuned : &own;
        const char *const               other = t->has_policy ? differs(p, &t->policy) : NULL;
        if (t->spargeattn)
            snprintf(
                text, size,
                "the thresholds are SpargeAttn's own, found with --preset paper --order row; in blocks of %d queries "
                "and %d keys, as here, or on Hopper of %d and %d",
                SG_BLOCK_Q, SG_BLOCK_K, SG_BLOCK_K, SG_BLOCK_Q);
        else if (*another(of, t, model))
            snprintf(text, size, "the thresholds were tuned for %s", of);
        else if (other)
            snprintf(text, size, "the thresholds were tuned with another --%s", other);
    }
    sg_thresholds_free(&own);
    return text;
}

const char *sg_setup_cache_warning(char *text, size_t size, const sg_model_path *model)
{
    char               of[80];
    sg_thresholds_file own = {0};
    *text = '\0';
    if (read_own(&own, model) && *another(of, &own, model)) snprintf(text, size, "it was tuned for %s", of);
    sg_thresholds_free(&own);
    return text;
}
