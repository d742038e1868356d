/* count.c - counts what limits let through, without an engine: for the tests of documents, and for
 * the comparison of sets.
 *
 * A counter has each moment at which something was counted, so it is exact, where an engine, which
 * counts in sixtieths of the window, may be stricter by one of these. As there, time never goes back
 * within a counter, and the limits of one request count all or nothing.
 *
 * Of a recorded request it may not be known whether it counted, or which amount. So a counter has
 * what was counted for sure and what was perhaps. A limit between the two is over or not by
 * assumption (unknown.c). */
#include <stdlib.h>

#include "base/check.h"
#include "base/map.h"
#include "policy/evaluation.h"

struct used {
    uint64_t count, perhaps_count;
    int64_t sum, perhaps_sum;
    uint64_t unbounded; /* amounts that are not known */
};

struct moment {
    uint64_t ms;
    struct used used;
};

struct counter {
    struct moment *moments; /* in the order of time; the first `gone` are out of the window */
    size_t gone, size, room;
    struct used used; /* in the window */
    uint64_t history; /* the same of two counters that have counted the same */
    /* of the request at hand */
    struct counter *next;
    size_t evaluations; /* that counted it; 0: it is not on the list */
    uint64_t assumed;   /* names these */
    int64_t amount;
    bool is_of_cut_resource;
    size_t key_size;
    char key[];
};

struct policy_counts {
    struct map by_key;
    struct counter *at_hand;
    uint64_t requests;
};

struct policy_counts *policy_counts_create(void) { return calloc(1, sizeof(struct policy_counts)); }

void policy_counts_destroy(struct policy_counts *c)
{
    size_t cursor = 0;
    struct str key;
    void *value;
    if (c == NULL) return;
    while (map_next(&c->by_key, &cursor, &key, &value)) {
        struct counter *one = value;
        free(one->moments);
        free(one);
    }
    map_fini(&c->by_key);
    free(c);
}

static void counter_check(const struct counter *c)
{
    check(c->gone <= c->size && c->size <= c->room);
    check(c->used.sum >= 0 && c->used.perhaps_sum >= 0);
    check(c->size > c->gone || (c->used.count == 0 && c->used.sum == 0)); /* the window is empty */
}

/* Names the counter; "-" stands for an absent value, which all such requests share. */
static struct str key_of(const struct policy_limit *l, struct str tenant, struct arena *arena)
{
    bool none = str_is_absent(l->value);
    return arena_printf(arena, "%zu %.*s %zu %.*s %zu %.*s %d %s%.*s", tenant.size,
                        STR_FORMAT(tenant), l->policy_name.size, STR_FORMAT(l->policy_name),
                        l->rule_id.size, STR_FORMAT(l->rule_id), (int)l->per, none ? "-" : "+",
                        STR_FORMAT(none ? STR("") : l->value));
}

static struct counter *counter_find(struct policy_counts *c, struct str key)
{
    struct counter *one = map_get(&c->by_key, key);
    if (one != NULL) return one;
    one = calloc(1, sizeof *one + key.size);
    if (one == NULL) return NULL;
    one->key_size = key.size;
    memcpy(one->key, key.bytes, key.size);
    if (map_put(&c->by_key, str_of(one->key, one->key_size), one)) return one;
    free(one);
    return NULL;
}

static void counter_slide(struct counter *c, uint64_t window_ms, uint64_t now_ms)
{
    while (c->gone < c->size && now_ms >= window_ms &&
           c->moments[c->gone].ms <= now_ms - window_ms) {
        const struct used *gone = &c->moments[c->gone++].used;
        check(c->used.count >= gone->count && c->used.sum >= gone->sum);
        c->used.count -= gone->count;
        c->used.perhaps_count -= gone->perhaps_count;
        c->used.sum -= gone->sum;
        c->used.perhaps_sum -= gone->perhaps_sum;
        c->used.unbounded -= gone->unbounded;
    }
    counter_check(c);
}

/* Room for one more moment; false: memory ran out. */
static bool counter_reserve(struct counter *c)
{
    if (c->size < c->room) return true;
    if (c->gone > c->size / 2) {
        memmove(c->moments, c->moments + c->gone, (c->size - c->gone) * sizeof *c->moments);
        c->size -= c->gone;
        c->gone = 0;
        return true;
    }
    size_t room = c->room * 2 + 4;
    struct moment *larger = realloc(c->moments, room * sizeof *larger);
    if (larger == NULL) return false;
    c->moments = larger;
    c->room = room;
    check(c->size < c->room);
    return true;
}

/* ---- one request ---- */

/* Whatever is not known. */
static bool is_over(const struct used *u, const struct policy_limit *l)
{
    check(u->sum >= 0);
    if (l->count_max != 0 && u->count >= l->count_max) return true;
    if (!l->has_max || l->amount == AMOUNT_CUT) return false;
    return l->amount < 0 || l->amount > l->amount_max - u->sum;
}

static bool is_perhaps_over(const struct used *u, const struct policy_limit *l)
{
    int64_t sum;
    if (l->count_max != 0 && u->count + u->perhaps_count >= l->count_max) return true;
    if (!l->has_max) return false;
    return l->amount < 0 || u->unbounded > 0 ||
           __builtin_add_overflow(u->sum, u->perhaps_sum, &sum) || l->amount > l->amount_max - sum;
}

static uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t both[] = {a, b};
    return hash_bytes(both, sizeof both);
}

/* Two limits of the same bounds with the same history are over for the same requests. */
static bool is_assumed_over(struct policy_unknowns *u, const struct counter *c,
                            const struct policy_limit *l, struct arena *arena)
{
    struct str sum = l->has_max ? l->terms->sum_text : STR("");
    struct str text = arena_printf(
        arena, "limit: %s %llu %llu %lld %lld %.*s %llx", limit_per_name(l->per),
        (unsigned long long)l->window_ms, (unsigned long long)l->count_max,
        (long long)(l->has_max ? l->amount_max : 0), (long long)(l->has_max ? l->amount : 0),
        STR_FORMAT(sum), (unsigned long long)c->history);
    if (!str_is_absent(text)) return unknown_is_over(u, l, text);
    u->is_open = true;
    return true;
}

static bool counter_is_over(struct policy_unknowns *u, const struct counter *c,
                            const struct policy_limit *l, struct arena *arena)
{
    if (l->over == VERDICT_ALLOW) return false;
    struct used sure = l->is_of_cut_resource ? (struct used){0} : c->used;
    if (is_over(&sure, l)) return true;
    return is_perhaps_over(&c->used, l) && is_assumed_over(u, c, l, arena);
}

static void counter_note(struct policy_counts *all, struct counter *c, const struct policy_limit *l,
                         const struct policy_unknowns *u)
{
    uint64_t assumed = 0;
    for (size_t i = u->count; i > 0; i--) assumed = assumed * 3 + u->open[i - 1].assumed;
    if (c->evaluations++ == 0) {
        c->next = all->at_hand;
        all->at_hand = c;
        c->assumed = 0;
    }
    c->assumed = mixed(c->assumed, assumed);
    c->amount = l->has_max ? l->amount : 0;
    c->is_of_cut_resource = l->is_of_cut_resource;
}

bool policy_count_weigh(struct policy_counts *c, struct policy_unknowns *u,
                        const struct policy_request *q, struct arena *arena,
                        struct policy_outcome *ret)
{
    size_t count = ret->limit_count;
    if (count == 0) return true;
    struct counter **counters = arena_array(arena, struct counter *, count);
    if (counters == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        const struct policy_limit *l = &ret->limits[i];
        limit_check(l);
        struct str key = key_of(l, q->tenant, arena);
        counters[i] = str_is_absent(key) ? NULL : counter_find(c, key);
        if (counters[i] == NULL || !counter_reserve(counters[i])) return false;
        counter_slide(counters[i], l->window_ms, q->now_ms);
        if (!counter_is_over(u, counters[i], l, arena)) continue;
        policy_over_limit(l, arena, ret);
        return true;
    }
    for (size_t i = 0; i < count; i++) counter_note(c, counters[i], &ret->limits[i], u);
    return true;
}

/* What a person let through is not bounded: a sum is cut where an int64 ends. */
static int64_t fitting(int64_t sum, int64_t amount)
{
    check(sum >= 0);
    if (amount < 0) return 0;
    return amount > INT64_MAX - sum ? INT64_MAX - sum : amount;
}

static void counter_add(struct counter *c, bool is_sure, uint64_t now_ms)
{
    struct moment *last = c->size > c->gone ? &c->moments[c->size - 1] : NULL;
    if (last == NULL || last->ms < now_ms) {
        check(c->size < c->room); /* counter_reserve() made room */
        last = &c->moments[c->size++];
        *last = (struct moment){.ms = now_ms};
    }
    struct used *both[] = {&c->used, &last->used};
    bool is_bounded = c->amount != AMOUNT_CUT;
    int64_t sum = is_sure ? fitting(c->used.sum, c->amount) : 0;
    int64_t perhaps = is_sure ? 0 : fitting(c->used.perhaps_sum, c->amount);
    if (!is_sure && perhaps < c->amount) is_bounded = false;
    for (size_t i = 0; i < 2; i++) {
        both[i]->count += is_sure;
        both[i]->perhaps_count += !is_sure;
        both[i]->sum += sum;
        both[i]->perhaps_sum += perhaps;
        both[i]->unbounded += !is_bounded;
    }
    counter_check(c);
}

void policy_count_settle(struct policy_counts *all, size_t evaluations, uint64_t now_ms)
{
    all->requests++;
    for (struct counter *c = all->at_hand; c != NULL; c = c->next) {
        check(c->evaluations > 0 && c->evaluations <= evaluations);
        counter_add(c, c->evaluations == evaluations && !c->is_of_cut_resource, now_ms);
        c->history =
            mixed(mixed(c->history, all->requests), mixed(c->assumed, (uint64_t)c->amount));
        c->evaluations = 0;
    }
    all->at_hand = NULL;
}

bool policy_count(struct policy_counts *c, const struct policy_request *q, struct arena *arena,
                  struct policy_outcome *ret)
{
    struct policy_unknowns none = {0};
    bool done = policy_count_weigh(c, &none, q, arena, ret);
    policy_count_settle(c, 1, q->now_ms);
    return done;
}
