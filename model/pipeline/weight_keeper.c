/* weight_keeper.c - see weight_keeper.h. */
#include "weight_keeper.h"

#include <stdlib.h>

void sg_keeper_begin(sg_keeper *k)
{
    for (sg_kept *w = k->kept; w < k->kept + k->count; w++) {
        w->phases = 0;
        w->stays = false;
        w->bytes = w->is_loaded ? w->loaded : (sg_weight_bytes){0};
    }
}

sg_kept *sg_keeper_find(sg_keeper *k, sg_component *component)
{
    int i = 0;
    while (i < k->count && k->kept[i].component != component) i++;
    if (i == k->count) k->kept[k->count++] = (sg_kept){.component = component};
    return &k->kept[i];
}

/* ---- what stays ---- */

static void add(sg_weight_bytes *sum, const sg_weight_bytes *b)
{
    sum->device += b->device;
    sum->mapped += b->mapped;
    sum->packed += b->packed;
    sum->host += b->host;
}

static void raise_to(size_t *most, size_t bytes)
{
    if (bytes > *most) *most = bytes;
}

sg_weight_bytes sg_keeper_during(const sg_keeper *k, int phase, bool always)
{
    sg_weight_bytes all = {0}, in_turn = {0};
    for (const sg_kept *w = k->kept; w < k->kept + k->count; w++) {
        const bool works = w->phases >> phase & 1, worked = w->phases & ((1u << phase) - 1);
        if (works ? w->stays || w->beside : w->stays && (always || w->is_loaded || worked)) {
            add(&all, &w->bytes);
        } else if (works) {
            raise_to(&in_turn.device, w->bytes.device);
            raise_to(&in_turn.mapped, w->bytes.mapped);
            raise_to(&in_turn.packed, w->bytes.packed);
            raise_to(&in_turn.host, w->bytes.host);
        }
    }
    add(&all, &in_turn);
    return all;
}

static bool all_fits(const sg_keeper *k, const sg_plan *p, size_t beside)
{
    bool fits = true;
    for (int i = 0; i < p->phases; i++) {
        const sg_weight_bytes now = sg_keeper_during(k, i, true);
        fits = fits && now.device + now.mapped + p->phase[i].work + beside <= p->available && now.host <= p->host_free;
    }
    return fits;
}

/* In bytes that are read and converted. */
static size_t cost(const sg_kept *w) { return w->bytes.device + w->bytes.mapped + w->bytes.host; }

static int by_cost(const void *a, const void *b)
{
    const sg_kept *const x = *(const sg_kept *const *)a, *const y = *(const sg_kept *const *)b;
    return cost(x) == cost(y) ? (x > y) - (x < y) : (cost(x) < cost(y)) - (cost(x) > cost(y));
}

void sg_keeper_choose(sg_keeper *k, const sg_plan *p, size_t beside)
{
    sg_kept *order[sizeof k->kept / sizeof *k->kept];
    for (int i = 0; i < k->count; i++) order[i] = &k->kept[i];
    qsort(order, (size_t)k->count, sizeof *order, by_cost);
    for (int i = 0; i < k->count; i++) {
        order[i]->stays = order[i]->phases || order[i]->is_loaded;
        if (order[i]->stays) order[i]->stays = all_fits(k, p, beside);
    }
}

/* ---- loading ---- */

static void unload(sg_kept *w, sg_backend *backend)
{
    sg_backend_drop_packed(backend);
    sg_bind_unload(w->component->bind);
    w->is_loaded = false;
}

sg_status sg_keeper_load(sg_keeper *k, sg_backend *backend, sg_component *component,
                         int (*progress)(void *context, int done, int total), void *context, sg_error *e)
{
    sg_kept *const w = sg_keeper_find(k, component);
    SG_TRY(sg_bind_load(component->bind, backend, progress, context, e));
    w->loaded = w->bytes;
    w->is_loaded = true;
    return SG_OK;
}

void sg_keeper_release(sg_keeper *k, sg_backend *backend, sg_component *component)
{
    sg_kept *const w = sg_keeper_find(k, component);
    if (!w->stays) unload(w, backend);
}

void sg_keeper_drop(sg_keeper *k, sg_backend *backend, bool all)
{
    for (sg_kept *w = k->kept; w < k->kept + k->count; w++) {
        const bool as_planned = w->bytes.device == w->loaded.device && w->bytes.host == w->loaded.host;
        if (w->is_loaded && (all || !w->stays || !as_planned)) unload(w, backend);
    }
}

size_t sg_keeper_held(const sg_keeper *k)
{
    size_t bytes = 0;
    for (const sg_kept *w = k->kept; w < k->kept + k->count; w++)
        if (w->is_loaded) bytes += w->loaded.device;
    return bytes;
}
