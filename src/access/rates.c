#include "access/rates.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/map.h"

enum {
    WAYS = 8, /* places for one name */
    SETS = LIMIT_METERS / WAYS,
};
_Static_assert((SETS & (SETS - 1)) == 0, "a mask chooses the set");

#define NS_OF_SECOND UINT64_C(1000000000)

static const struct {
    const char *member, *name; /* in keys; in errors and headers */
    uint64_t window_s;         /* 0: at a time */
    uint64_t unit;             /* of what meters are given, in one of the limit's */
} kinds[RATE_KINDS] = {
    [RATE_REQUESTS] = {"requests", "requests", 1, 1},
    [RATE_CPU] = {"cpu_ms", "cpu-ms", 1, 1000000},
    [RATE_JOURNAL] = {"journal_bytes", "journal-bytes", 86400, 1},
    [RATE_AUDIT_QUERIES] = {"audit_queries", "audit-queries", 60, 1},
    [RATE_CONNECTIONS] = {"connections", "connections", 0, 1},
};

/* ---- rates of a key ---- */

const char *rate_member(enum rate_kind kind)
{
    check(kind < RATE_KINDS);
    return kinds[kind].member;
}

bool rates_any(const struct rates *r)
{
    for (int i = 0; i < RATE_KINDS; i++)
        if (r->most[i] != 0) return true;
    return false;
}

static enum err read_one(const struct json *rates, const struct json *v, struct rates *ret,
                         struct fault *f)
{
    for (int i = 0; i < RATE_KINDS; i++) {
        if (!str_equal(v->key, str_from(kinds[i].member))) continue;
        char field[64];
        snprintf(field, sizeof field, "/rates/%s", kinds[i].member);
        if (v->type == JSON_NULL) return ERR_OK;
        if (!json_is_number(v))
            return fault_set(f, ERR_WRONG_TYPE, field, "rates: %s must be a whole number",
                             kinds[i].member);
        ret->most[i] = json_u64(rates, v->key, 0);
        if (ret->most[i] < 1 || ret->most[i] > LIMIT_RATE)
            return fault_set(f, ERR_OUT_OF_RANGE, field,
                             "rates: %s must be a whole number from 1 to %" PRIu64, kinds[i].member,
                             LIMIT_RATE);
        return ERR_OK;
    }
    return fault_set(f, ERR_UNKNOWN_MEMBER, "/rates",
                     "rates: \"%.*s\" is not one of requests, cpu_ms, journal_bytes, "
                     "audit_queries, connections",
                     STR_FORMAT(v->key));
}

enum err rates_read(const struct json *row, struct rates *ret, struct fault *f)
{
    const struct json *v = json_get(row, STR("rates"));
    *ret = (struct rates){0};
    if (v == NULL || v->type == JSON_NULL) return ERR_OK;
    if (v->type != JSON_OBJECT)
        return fault_set(f, ERR_WRONG_TYPE, "/rates", "rates: must be an object");
    for (const struct json *e = v->child; e != NULL; e = e->next) {
        enum err err = read_one(v, e, ret, f);
        if (err != ERR_OK) return err;
    }
    return ERR_OK;
}

void rates_put(struct buf *out, const struct rates *r)
{
    /* in JCS order */
    static const enum rate_kind order[RATE_KINDS] = {RATE_AUDIT_QUERIES, RATE_CONNECTIONS, RATE_CPU,
                                                     RATE_JOURNAL, RATE_REQUESTS};
    bool first = true;
    if (!rates_any(r)) return;
    buf_put_literal(out, "\"rates\":{");
    for (int i = 0; i < RATE_KINDS; i++) {
        if (r->most[order[i]] == 0) continue;
        buf_printf(out, "%s\"%s\":%" PRIu64, first ? "" : ",", kinds[order[i]].member,
                   r->most[order[i]]);
        first = false;
    }
    buf_put_literal(out, "},");
}

/* ---- meters ---- */

/* `identity` is the hash of a name; a place may be taken by another one between the moment at which a
 * thread finds it and the moment at which the thread uses it. Then one use counts for the wrong name:
 * both had used nothing within a window. */
struct meter {
    _Atomic uint64_t identity; /* 0: free */
    _Atomic uint64_t paid_ns[RATE_WINDOWS];
    _Atomic uint32_t connections;
};

struct meters {
    struct meter *places; /* LIMIT_METERS, in sets; pages that are not used take no memory */
    struct meter shared;  /* of names whose set has no free place */
};

struct meters *meters_create(void)
{
    struct meters *m = calloc(1, sizeof *m);
    check(m != NULL);
    m->places = calloc(LIMIT_METERS, sizeof *m->places);
    check(m->places != NULL);
    return m;
}

void meters_destroy(struct meters *m)
{
    if (m == NULL) return;
    free(m->places);
    free(m);
}

static uint64_t load(const _Atomic uint64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed);
}

static bool is_idle(const struct meter *m, uint64_t now_ns)
{
    for (int i = 0; i < RATE_WINDOWS; i++)
        if (load(&m->paid_ns[i]) > now_ns) return false;
    return atomic_load_explicit(&m->connections, memory_order_relaxed) == 0;
}

struct meter *meters_find(struct meters *m, enum meter_of of, struct str name, uint64_t now_ns)
{
    uint64_t identity = hash_bytes(name.bytes, name.size) * 2 + (of == METER_TENANT ? 1 : 0);
    if (identity < 2) identity += 2;
    struct meter *set = &m->places[((identity >> 1) & (SETS - 1)) * WAYS];
    for (int i = 0; i < WAYS; i++)
        if (load(&set[i].identity) == identity) return &set[i];
    for (int i = 0; i < WAYS; i++) {
        uint64_t before = load(&set[i].identity);
        if (!is_idle(&set[i], now_ns)) continue;
        if (atomic_compare_exchange_strong(&set[i].identity, &before, identity) ||
            before == identity)
            return &set[i];
    }
    return &m->shared;
}

static uint64_t window_ns(enum rate_kind kind) { return kinds[kind].window_s * NS_OF_SECOND; }

/* What the amount costs of the window. */
static uint64_t cost_ns(enum rate_kind kind, uint64_t most, uint64_t amount)
{
    check(kind < RATE_WINDOWS && most > 0);
    double whole = (double)most * (double)kinds[kind].unit;
    double cost = (double)amount * (double)window_ns(kind) / whole;
    return cost < 1e18 ? (uint64_t)cost : (uint64_t)1e18;
}

static uint64_t later(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* The time until which all would be paid for, with one more; false: it is too late for that. */
static bool fits(uint64_t paid_ns, enum rate_kind kind, uint64_t most, uint64_t now_ns,
                 uint64_t *ret_ns, uint32_t *ret_s)
{
    *ret_ns = later(paid_ns, now_ns) + cost_ns(kind, most, 1);
    if (*ret_ns <= now_ns + window_ns(kind)) return true;
    uint64_t wait_ns = *ret_ns - now_ns - window_ns(kind);
    uint64_t wait_s = (wait_ns + NS_OF_SECOND - 1) / NS_OF_SECOND;
    *ret_s = wait_s < UINT32_MAX ? (uint32_t)wait_s : UINT32_MAX;
    return false;
}

bool meter_has(const struct meter *m, enum rate_kind kind, uint64_t most, uint64_t now_ns,
               uint32_t *ret_s)
{
    uint64_t next_ns;
    return fits(load(&m->paid_ns[kind]), kind, most, now_ns, &next_ns, ret_s);
}

bool meter_take(struct meter *m, enum rate_kind kind, uint64_t most, uint64_t now_ns,
                uint32_t *ret_s)
{
    uint64_t before = load(&m->paid_ns[kind]), next_ns;
    do {
        if (!fits(before, kind, most, now_ns, &next_ns, ret_s)) return false;
    } while (!atomic_compare_exchange_weak_explicit(&m->paid_ns[kind], &before, next_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void meter_spend(struct meter *m, enum rate_kind kind, uint64_t most, uint64_t amount,
                 uint64_t now_ns)
{
    uint64_t before = load(&m->paid_ns[kind]), next_ns;
    do next_ns = later(before, now_ns) + cost_ns(kind, most, amount);
    while (!atomic_compare_exchange_weak_explicit(&m->paid_ns[kind], &before, next_ns,
                                                  memory_order_relaxed, memory_order_relaxed));
}

bool meter_connect(struct meter *m, uint64_t most)
{
    uint32_t now = atomic_load_explicit(&m->connections, memory_order_relaxed);
    do {
        if (most > 0 && now >= most) return false;
    } while (!atomic_compare_exchange_weak_explicit(&m->connections, &now, now + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void meter_disconnect(struct meter *m)
{
    check(atomic_fetch_sub_explicit(&m->connections, 1, memory_order_relaxed) > 0);
}

struct quota rate_quota(enum rate_kind kind, uint64_t most, uint32_t retry_s)
{
    check(kind < RATE_KINDS);
    return (struct quota){.name = kinds[kind].name,
                          .most = most,
                          .window_s = (uint32_t)kinds[kind].window_s,
                          .retry_s = retry_s};
}
