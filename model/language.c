/* language.c - see language.h. A piece goes through all layers at once, so that activations take as much as a piece and not
 * as a sequence. */
#include "language.h"

#include "base/hash.h"
#include "base/path.h"
#include "bpe_tokenizer.h"
#include "decoder.h"
#include "device.h"
#include "family.h"
#include "thresholds/thresholds.h"
#include "token_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 8192, LEAST_PIECE = 128, STATES = 16, ENDS = 16 };

/* The states behind the last token of an append, before the final norm: of them follow logits. */
typedef struct end_state {
    int64_t at; /* so many tokens were there */
    float  *x;  /* [width], of `numbers` */
} end_state;

struct sg_language {
    sg_checkpoint      *checkpoint;
    sg_backend         *backend;
    sg_decoder         *decoder;
    sg_bpe_tokenizer   *tokenizer;
    sg_language_info    info;
    sg_dtype            act;
    int32_t             end[ENDS];
    int                 ends;
    size_t              available, weights;
    sg_stream           own;     /* its keep arena is the cache's */
    sg_stream           work;    /* its arenas are those of a piece */
    bool                planned; /* which are as large as policy and watch want */
    sg_decoder_cache    cache;
    sg_policy           policy;
    sg_thresholds_file  tuned; /* of the policy's file; or empty */
    sg_attention_watch  watch;
    int64_t             length;
    end_state           state[STATES]; /* in rising order of `at` */
    int                 states;
    float              *numbers; /* of state[].x, and one row more */
    sg_attention_count *count;   /* [2 layers]: sums, and room for those of a piece */
};

/* ---- a piece ---- */

/* Tokens on their way. */
typedef struct piece {
    sg_language                *l;
    sg_attention               *attention; /* NULL: dense, by sg_attend */
    const sg_language_progress *progress;
    int64_t                     done, n, total; /* of the append: tokens before, of the piece, all */
    int64_t                     before, of;    /* for progress, with the pieces and tokens before: tokens before, all */
    const int32_t              *ids;           /* of the append; NULL on a plan */
    float                      *logp, *states; /* of the append; NULL: not asked for */
    float                      *state;         /* [width]: gets those behind the last token */
} piece;

static void attend(void *context, sg_stream *s, int layer, const sg_attend_args *a)
{
    sg_attention_run(((const piece *)context)->attention, s, layer, 0, 0, 0, a);
}

static bool tell(void *context, int layer)
{
    const piece *const p = context;
    const int64_t      done = p->before + p->done + p->n * layer / p->l->info.layers;
    return p->progress && p->progress->call && p->progress->call(p->progress->context, done, p->of);
}

/* The next p->n tokens, on a plan too. */
static void compute(piece *p, sg_stream *s, const sg_decoder_cache *cache, int64_t at)
{
    const sg_language *const l = p->l;
    const size_t             mark = s->scratch.used;
    const sg_tensor          x = sg_new(s, SG_F32, p->n, l->info.width);
    const int32_t *const     ids = p->ids ? p->ids + p->done : NULL;
    const sg_decoder_piece   of_layers = {
          .cache = *cache, .at = at, .attend = p->attention ? attend : NULL, .layer = tell, .context = p};
    sg_decoder_run(l->decoder, s, &of_layers, x, ids);
    const int64_t known = p->done + p->n < p->total ? p->n : p->n - 1; /* rows whose next token is there */
    if (!p->ids || (p->logp && known))
        sg_decoder_likelihoods(l->decoder, s, sg_rows(x, 0, ids ? known : p->n), ids ? ids + 1 : NULL,
                               ids ? p->logp + p->done + 1 : NULL);
    if (p->states) sg_download(s, p->states + p->done * l->info.width, x);
    sg_download(s, p->state, sg_rows(x, p->n - 1, 1));
    s->scratch.used = mark;
}

/* ---- memory ---- */

static sg_status status_of(const sg_stream *s, const char *doing, sg_error *e)
{
    return s->status ? sg_error_set(e, s->status, s->status == SG_E_CANCELLED ? "%.0s%s" : "%s: %s", doing, s->why)
                     : SG_OK;
}

/* Binds the policy to n tokens behind `at`, of a sequence of `whole`. */
static sg_status bind(const sg_language *l, sg_attention **out, int64_t n, int64_t at, int64_t whole, sg_error *e)
{
    const sg_attention_shape shape = {.n = n,
                                      .m = at ? at + n : 0,
                                      .whole = whole,
                                      .h = l->info.heads,
                                      .hk = l->info.key_heads,
                                      .d = l->info.head_dim,
                                      .layers = l->info.layers,
                                      .steps = 1,
                                      .passes = 1,
                                      .values = l->backend->values,
                                      .f8 = l->backend->f8,
                                      .causal = true,
                                      .tuned = l->tuned.values.layers ? &l->tuned.values : NULL,
                                      .watch = l->watch};
    return sg_attention_open(out, &l->policy, &shape, e);
}

static sg_decoder_cache new_cache(const sg_language *l, sg_stream *s)
{
    const int64_t t = l->info.tokens, layers = l->info.layers, g = l->info.key_heads, d = l->info.head_dim;
    return (sg_decoder_cache){sg_new_keep(s, SG_F32, t, d / 2), sg_new_keep(s, SG_F32, t, d / 2),
                              sg_new_keep(s, l->act, layers, t, g, d), sg_new_keep(s, l->act, layers, t, g, d)};
}

/* What a piece takes at the end of the longest sequence. *besides gets what the backend takes beside tensors. */
static sg_status plan(sg_language *l, size_t *keep, size_t *scratch, size_t *besides, sg_error *e)
{
    sg_plan_totals t = {.backend = l->backend};
    sg_stream      s = sg_plan_stream(&t), of_cache = sg_plan_stream(&(sg_plan_totals){0});
    const int64_t  n = l->info.piece, at = l->info.tokens - n;
    piece          p = {.l = l, .n = n, .total = n, .state = l->numbers};
    SG_TRY(bind(l, &p.attention, n, at, l->info.tokens, e));
    const sg_decoder_cache cache = new_cache(l, &of_cache);
    s.keep.base += of_cache.keep.peak; /* apart from the cache */
    sg_attention_upload(p.attention, &s);
    compute(&p, &s, &cache, at);
    sg_attention_close(&p.attention);
    SG_TRY(status_of(&s, "planning", e));
    *keep = s.keep.peak;
    *scratch = s.scratch.peak;
    *besides = sg_device_staged(&t) + t.weight;
    l->info.cache = of_cache.keep.peak;
    l->info.scratch = *keep + *scratch + *besides;
    return SG_OK;
}

static size_t need_of(const sg_language *l) { return l->info.weights + l->info.cache + l->info.scratch; }

static sg_status check_fits(const sg_language *l, sg_error *e)
{
    const double gib = 1.0 / (1 << 30);
    if (need_of(l) <= l->available) return SG_OK;
    return sg_error_set(e, SG_E_MEMORY,
                        "%lld tokens need %.2f GiB (weights %.2f, keys and values %.2f, a piece of %lld tokens %.2f), "
                        "but %.2f GiB may be used. Fewer tokens or a smaller piece take less.",
                        (long long)l->info.tokens, (double)need_of(l) * gib, (double)l->info.weights * gib,
                        (double)l->info.cache * gib, (long long)l->info.piece, (double)l->info.scratch * gib,
                        (double)l->available * gib);
}

/* Plans anew after a change of policy or watch, and gives l->work what that takes. */
static sg_status make_ready(sg_language *l, sg_error *e)
{
    size_t keep, scratch, besides;
    if (l->planned) return SG_OK;
    SG_TRY(plan(l, &keep, &scratch, &besides, e));
    SG_TRY(check_fits(l, e));
    if (keep > l->work.keep.cap || scratch > l->work.scratch.cap) {
        sg_device_release(&l->work);
        SG_TRY(sg_device_take(&l->work, keep, scratch, e));
    }
    l->planned = true;
    return SG_OK;
}

/* ---- opening ---- */

/* Adds the ids of a list, or the one, that end a text. */
static sg_status add_ends(sg_language *l, sg_config *c)
{
    static const char key[] = "eos_token_id";
    int64_t           id[ENDS];
    int               count = 1;
    if (!sg_config_has(c, key)) return SG_OK;
    if (sg_config_counts(c, key))
        id[0] = sg_config_int(c, key, 0, INT32_MAX, NULL);
    else
        count = sg_config_ints(c, key, 0, INT32_MAX, id, 0, ENDS);
    for (int i = 0; i < count; i++)
        if (!sg_language_ends(l, (int32_t)id[i]) && l->ends < ENDS) l->end[l->ends++] = (int32_t)id[i];
    return sg_config_status(c);
}

static sg_status read_ends(sg_language *l, sg_error *e)
{
    char       path[2048];
    sg_config *c = NULL;
    SG_TRY(sg_checkpoint_config(l->checkpoint, "text_encoder", &c, e));
    sg_status status = add_ends(l, c);
    sg_config_close(&c);
    SG_TRY(status);
    if (sg_path_join(path, sizeof path, sg_checkpoint_path(l->checkpoint), "generation_config.json", NULL) != SG_OK ||
        access(path, F_OK) != 0)
        return SG_OK;
    SG_TRY(sg_config_open(&c, path, e));
    status = add_ends(l, c);
    sg_config_close(&c);
    return status;
}

static sg_status open_tokenizer(sg_language *l, sg_error *e)
{
    char        path[1100];
    struct stat st;
    SG_TRY(sg_checkpoint_place(l->checkpoint, "tokenizer", path, sizeof path, e));
    const bool inside = stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
    SG_TRY((inside ? sg_bpe_tokenizer_open_inside : sg_bpe_tokenizer_open)(&l->tokenizer, path, e));
    const int ids = sg_bpe_tokenizer_vocab(l->tokenizer);
    if (ids <= l->info.vocab) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: the tokenizer has %d ids, but the model's vocab_size is only %d", path,
                        ids, l->info.vocab);
}

static void describe(sg_language *l, const sg_language_options *o)
{
    const sg_decoder_info z = sg_decoder_describe(l->decoder);
    const bool            most = !o->tokens || (o->cap && z.longest && o->tokens > z.longest);
    l->info = (sg_language_info){.kind = z.kind,
                                 .width = z.width,
                                 .layers = z.layers,
                                 .heads = z.heads,
                                 .key_heads = z.key_heads,
                                 .head_dim = z.head_dim,
                                 .ffn = z.ffn,
                                 .vocab = z.vocab,
                                 .longest = z.longest,
                                 .tokens = most ? z.longest : o->tokens,
                                 .hash = sg_source_hash(sg_decoder_component(l->decoder)->source, SG_HASH),
                                 .device = l->backend->device,
                                 .dtype = l->act == SG_BF16 ? "bf16" : "f32"};
}

static sg_status check_options(const sg_language *l, const sg_language_options *o, sg_error *e)
{
    const sg_language_info *const i = &l->info;
    if (i->tokens < 1 || (i->longest && i->tokens > i->longest) || i->tokens > INT32_MAX / 2)
        return sg_error_set(e, SG_E_ARG, "tokens: %lld: this model takes 1 to %lld", (long long)i->tokens,
                            (long long)(i->longest ? i->longest : INT32_MAX / 2));
    if (o->piece < 0 || o->piece > INT32_MAX)
        return sg_error_set(e, SG_E_ARG, "piece: %lld: should be 1 token or more", (long long)o->piece);
    return SG_OK;
}

/* As many tokens at a time as fit, where nobody says how many. */
static sg_status plan_piece(sg_language *l, int64_t asked, sg_error *e)
{
    size_t keep, scratch, besides;
    for (l->info.piece = sg_min64(asked ? asked : PIECE, l->info.tokens);; l->info.piece /= 2) {
        SG_TRY(plan(l, &keep, &scratch, &besides, e));
        if (asked || need_of(l) <= l->available || l->info.piece / 2 < LEAST_PIECE) return check_fits(l, e);
    }
}

static sg_status open_into(sg_language *l, const char *path, const sg_language_options *o, sg_error *e)
{
    const sg_backend_options b = {.name = o->backend ? o->backend : "auto",
                                  .threads = o->threads,
                                  .cpu_mask = o->cpu_mask,
                                  .gpu_mask = o->gpu_mask,
                                  .device = o->device};
    SG_TRY(sg_checkpoint_open_language(&l->checkpoint, path, sg_files_of, e));
    SG_TRY(sg_backend_open(&l->backend, &b, e));
    SG_TRY(sg_device_dtype(&l->act, o->dtype, l->backend, e));
    SG_TRY(sg_decoder_open(&l->decoder, l->checkpoint, "text_encoder", 0, true, l->act, e));
    describe(l, o);
    SG_TRY(check_options(l, o, e));
    SG_TRY(open_tokenizer(l, e));
    SG_TRY(read_ends(l, e));
    sg_bind *const weights = sg_decoder_component(l->decoder)->bind;
    size_t         mapped = 0;
    sg_bind_keep_types(weights, true);
    l->info.weights = sg_bind_bytes(weights, l->backend, &mapped);
    l->available = o->memory_limit ? o->memory_limit : l->backend->total_bytes;
    l->count = calloc(2 * (size_t)l->info.layers, sizeof *l->count);
    l->numbers = calloc((STATES + 1) * (size_t)l->info.width, sizeof *l->numbers);
    if (!l->count || !l->numbers) return sg_error_memory(e, path);
    for (int i = 0; i < STATES; i++) l->state[i].x = l->numbers + (size_t)(i + 1) * (size_t)l->info.width;
    SG_TRY(plan_piece(l, o->piece, e));
    sg_backend_limit_packed(l->backend, l->available - need_of(l));
    SG_TRY(sg_bind_load(weights, l->backend, NULL, NULL, e));
    l->own = sg_stream_of(l->backend);
    l->work = sg_stream_of(l->backend);
    SG_TRY(sg_device_take(&l->own, l->info.cache, 0, e));
    l->cache = new_cache(l, &l->own);
    sg_decoder_rotation(l->decoder, &l->own, l->cache.cos, l->cache.sin);
    SG_TRY(status_of(&l->own, "rotation", e));
    return make_ready(l, e);
}

sg_status sg_language_open(sg_language **out, const char *path, const sg_language_options *o, sg_error *e)
{
    *out = NULL;
    sg_language *l = calloc(1, sizeof *l);
    if (!l) return sg_error_memory(e, path);
    const sg_status status = open_into(l, path, o, e);
    if (status) sg_language_close(&l);
    *out = l;
    return status;
}

void sg_language_close(sg_language **of)
{
    sg_language *const l = *of;
    if (!l) return;
    if (l->backend) sg_backend_make_current(l->backend);
    if (l->own.memory) sg_device_release(&l->own);
    if (l->work.memory) sg_device_release(&l->work);
    sg_decoder_close(&l->decoder);
    sg_bpe_tokenizer_close(&l->tokenizer);
    sg_checkpoint_close(&l->checkpoint);
    sg_thresholds_free(&l->tuned);
    free(l->count);
    free(l->numbers);
    sg_backend_close(&l->backend);
    free(l);
    *of = NULL;
}

sg_language_info sg_language_describe(const sg_language *l) { return l->info; }

/* ---- texts ---- */

sg_status sg_language_encode(const sg_language *l, const char *text, size_t bytes, bool with_bos, int32_t **ids,
                             int64_t *n, sg_error *e)
{
    int count = 0;
    SG_TRY(sg_bpe_tokenizer_encode_long(l->tokenizer, text, bytes, with_bos, ids, &count, e));
    *n = count;
    return SG_OK;
}

sg_status sg_language_decode(const sg_language *l, const int32_t *ids, int64_t n, char **text, sg_error *e)
{
    return sg_bpe_tokenizer_decode(l->tokenizer, ids, (size_t)n, text, e);
}

bool sg_language_ends(const sg_language *l, int32_t id)
{
    for (int i = 0; i < l->ends; i++)
        if (l->end[i] == id) return true;
    return false;
}

/* ---- attention ---- */

/* Puts policy and thresholds in place of those that are there, and the other way round. */
static void swap_policy(sg_language *l, sg_policy *p, sg_thresholds_file *tuned)
{
    const sg_policy          policy = l->policy;
    const sg_thresholds_file file = l->tuned;
    l->policy = *p;
    l->tuned = *tuned;
    *p = policy;
    *tuned = file;
    l->planned = false;
}

sg_policy sg_language_default(void)
{
    sg_policy p = sg_policy_default();
    p.similarity = 0.6F;
    p.order = SG_ORDER_ROW; /* the only one of a text */
    return p;
}

sg_status sg_language_policy(sg_language *l, const sg_policy *p, sg_error *e)
{
    sg_policy          policy = p ? *p : (sg_policy){0};
    sg_thresholds_file tuned = {0};
    const bool         sparge = policy.kind == SG_ATTENTION_SPARGE;
    if (p) SG_TRY(sg_policy_check(p, e));
    if (sparge && policy.rule == SG_SELECT_GIVEN)
        return sg_error_set(e, SG_E_UNSUPPORTED, "mask: a language model attends piece by piece, by no mask of blocks");
    policy.dense_steps = 0;
    if (policy.thresholds) policy.count_hidden = false;
    sg_status status = sparge && policy.thresholds ? sg_thresholds_read(&tuned, policy.thresholds, e) : SG_OK;
    if (status == SG_OK && sparge && policy.thresholds && !tuned.values.layers)
        status = sg_error_set(e, SG_E_FORMAT, "thresholds: %s: has none of attention", policy.thresholds);
    if (status == SG_OK) {
        swap_policy(l, &policy, &tuned);
        status = make_ready(l, e);
        if (status != SG_OK) swap_policy(l, &policy, &tuned);
    }
    sg_thresholds_free(&tuned);
    if (status == SG_OK) memset(l->count, 0, (size_t)l->info.layers * sizeof *l->count);
    return status;
}

void sg_language_watch(sg_language *l, const sg_attention_watch *w)
{
    l->watch = w ? *w : (sg_attention_watch){0};
    l->planned = false;
}

/* a becomes the mean of what a blocks have and of what b have. */
static double mean_of(double x, int64_t a, double y, int64_t b)
{
    return a + b ? (x * (double)a + y * (double)b) / (double)(a + b) : 0;
}

static void add_counts(sg_language *l, piece *p, sg_stream *s)
{
    const int                 layers = l->info.layers;
    sg_attention_count *const now = l->count + layers;
    if (s->status || sg_attention_counts(p->attention, s, 0, now) != SG_OK) return;
    for (int i = 0; i < layers; i++) {
        sg_attention_count *const sum = &l->count[i];
        sum->kind = now[i].kind;
        sum->why = now[i].why;
        sum->mass = mean_of(sum->mass, sum->blocks, now[i].mass, now[i].blocks);
        sum->skipped_mass = mean_of(sum->skipped_mass, sum->blocks, now[i].skipped_mass, now[i].blocks);
        sum->blocks += now[i].blocks;
        sum->kept += now[i].kept;
        sum->groups += now[i].groups;
        sum->skipped += now[i].skipped;
    }
}

void sg_language_counts(const sg_language *l, sg_attention_count *out)
{
    memcpy(out, l->count, (size_t)l->info.layers * sizeof *out);
}

/* ---- the sequence ---- */

/* The states behind the last token; NULL: they are not known. */
static const float *last_state(const sg_language *l)
{
    const end_state *const s = l->states ? &l->state[l->states - 1] : NULL;
    return s && s->at == l->length ? s->x : NULL;
}

/* Notes l->numbers as the states behind the last token, in place of the newest or behind it. The oldest are forgotten. */
static void note_state(sg_language *l, bool in_place)
{
    if (l->states && in_place) l->states--;
    if (l->states == STATES) {
        const end_state first = l->state[0];
        memmove(l->state, l->state + 1, (STATES - 1) * sizeof *l->state);
        l->state[STATES - 1] = first;
        l->states--;
    }
    end_state *const s = &l->state[l->states++];
    s->at = l->length;
    memcpy(s->x, l->numbers, (size_t)l->info.width * sizeof *s->x);
}

/* A stream with the memory of l->work, whatever has failed before. */
static sg_stream start(const sg_language *l)
{
    sg_stream s = sg_stream_of(l->backend);
    s.keep = (sg_arena){.base = l->work.keep.base, .cap = l->work.keep.cap};
    s.scratch = (sg_arena){.base = l->work.scratch.base, .cap = l->work.scratch.cap};
    return s;
}

/* States on the device: [n, width]. */
static sg_tensor upload_states(const sg_language *l, sg_stream *s, const float *states, int64_t n)
{
    const sg_tensor x = sg_new(s, SG_F32, n, l->info.width);
    sg_upload(s, x, states);
    return x;
}

/* The likelihood of the first of what is appended. */
static void first_likelihood(const sg_language *l, sg_stream *s, const int32_t *ids, float *logp)
{
    const size_t mark = s->scratch.used;
    logp[0] = NAN;
    if (!last_state(l)) return;
    sg_decoder_likelihoods(l->decoder, s, upload_states(l, s, last_state(l), 1), ids, logp);
    s->scratch.used = mark;
}

static sg_status append_piece(sg_language *l, sg_stream *s, piece *p, sg_error *e)
{
    const int64_t at = l->length + p->done;
    s->keep.used = 0;
    if (p->n > 1) {
        SG_TRY(bind(l, &p->attention, p->n, at, l->length + p->total, e));
        sg_attention_upload(p->attention, s);
    }
    compute(p, s, &l->cache, at);
    if (p->attention) add_counts(l, p, s);
    sg_attention_close(&p->attention);
    return status_of(s, "tokens", e);
}

/* Appends p->total of p->of tokens, of which greedy has appended p->before. */
static sg_status append(piece p, sg_error *e)
{
    sg_language *const l = p.l;
    SG_TRY(make_ready(l, e));
    sg_stream s = start(l);
    p.state = l->numbers;
    if (!sg_ids_known(&s, "the model", l->info.vocab, p.ids, p.total)) return status_of(&s, "tokens", e);
    if (p.logp) first_likelihood(l, &s, p.ids, p.logp);
    for (; p.done < p.total; p.done += p.n) {
        p.n = sg_min64(p.total - p.done, l->info.piece);
        SG_TRY(append_piece(l, &s, &p, e));
    }
    l->length += p.total;
    note_state(l, p.before > 0);
    return SG_OK;
}

static sg_status check_room(const sg_language *l, int64_t n, sg_error *e)
{
    if (n >= 1 && n <= l->info.tokens - l->length) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%lld tokens behind %lld: there is room for %lld in all", (long long)n,
                        (long long)l->length, (long long)l->info.tokens);
}

sg_status sg_language_append(sg_language *l, const int32_t *ids, int64_t n, float *logp, float *states,
                             const sg_language_progress *p, sg_error *e)
{
    SG_TRY(check_room(l, n, e));
    return append((piece){.l = l, .progress = p, .total = n, .of = n, .ids = ids, .logp = logp, .states = states}, e);
}

sg_status sg_language_head(sg_language *l, const float *states, int64_t n, float *logits, sg_error *e)
{
    SG_TRY(make_ready(l, e));
    sg_stream     s = start(l);
    const int64_t width = l->info.width, vocab = l->info.vocab, most = sg_decoder_logit_rows(l->decoder, n);
    for (int64_t i = 0, rows; i < n && !s.status; i += rows, s.scratch.used = 0) {
        rows = sg_min64(most, n - i);
        const sg_tensor y = sg_new(&s, SG_F32, rows, vocab);
        sg_decoder_logits(l->decoder, &s, y, upload_states(l, &s, states + i * width, rows));
        sg_download(&s, logits + i * vocab, y);
    }
    return status_of(&s, "logits", e);
}

sg_status sg_language_logits(sg_language *l, float *logits, sg_error *e)
{
    if (!last_state(l))
        return sg_error_set(e, SG_E_ARG, "there are no logits behind %lld tokens", (long long)l->length);
    return sg_language_head(l, last_state(l), 1, logits, e);
}

int32_t sg_language_likeliest(const sg_language *l, const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < l->info.vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

sg_status sg_language_greedy(sg_language *l, int32_t *ids, int64_t n, int64_t *count, const sg_language_progress *p,
                             sg_error *e)
{
    const int64_t length = l->length;
    *count = 0;
    SG_TRY(check_room(l, n, e));
    float *const logits = malloc((size_t)l->info.vocab * sizeof *logits);
    if (!logits) return sg_error_memory(e, "logits");
    sg_status status = SG_OK;
    for (bool ended = false; status == SG_OK && !ended && *count < n;) {
        status = sg_language_logits(l, logits, e);
        if (status != SG_OK) break;
        ids[*count] = sg_language_likeliest(l, logits);
        status = append((piece){.l = l, .progress = p, .total = 1, .before = *count, .of = n, .ids = &ids[*count]}, e);
        ended = sg_language_ends(l, ids[(*count)++]);
    }
    free(logits);
    if (status != SG_OK) {
        *count = 0;
        sg_language_rewind(l, length);
    }
    return status;
}

int64_t sg_language_length(const sg_language *l) { return l->length; }

void sg_language_rewind(sg_language *l, int64_t tokens)
{
    if (tokens > l->length || tokens < 0) return;
    l->length = tokens;
    while (l->states && l->state[l->states - 1].at > tokens) l->states--;
    if (tokens == 0) memset(l->count, 0, (size_t)l->info.layers * sizeof *l->count);
}
