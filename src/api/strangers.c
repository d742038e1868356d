#include "api/strangers.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/list.h"
#include "base/world.h"

enum {
    WAYS = 4, /* addresses of a set */
    SETS = LIMIT_STRANGER_ADDRESSES / WAYS,
    SLOWED_MAX = LIMIT_STRANGERS / 4 * 3, /* the other places are for sources without a fault */
    FIRST_DELAY_MS = 20,
    DOUBLINGS_MAX = 7, /* 20 ms to LIMIT_FALSE_DELAY_SECONDS */
    PAUSE_MS = 2,      /* until parked requests are looked at again */
    SLOWED_SHOWN_MS = 10000,
    AROUND_NS = 8000, /* reading a request and sending its answer, beside the handler */
    MOST_LEFT_NS = 2000000,
    USUAL_NS = 100000, /* of a request, to choose how many a turn takes */
};
_Static_assert((SETS & (SETS - 1)) == 0, "a mask chooses the set");

void strangers_init(struct strangers *s, const struct strangers_ports *ports)
{
    *s = (struct strangers){.ports = *ports, .left_ns = {MOST_LEFT_NS, MOST_LEFT_NS}};
    s->parked = calloc(LIMIT_STRANGERS, sizeof *s->parked);
    s->addresses = calloc(LIMIT_STRANGER_ADDRESSES, sizeof *s->addresses);
    check(s->parked != NULL && s->addresses != NULL);
    world_random(&s->seed, sizeof s->seed);
    s->filled_ns = world_monotonic_ns();
}

void strangers_fini(struct strangers *s)
{
    if (s->ports.loop == NULL) return;
    loop_timer_stop(s->ports.loop, &s->timer);
    free(s->parked);
    free(s->addresses);
    s->parked = NULL;
    s->addresses = NULL;
}

/* ---- addresses ---- */

/* A client has a whole /64, so its other bits choose nothing (RFC 6177). */
static struct client_address source_of(const struct client_address *a)
{
    struct client_address source = {.kind = a->kind};
    memcpy(source.bytes, a->bytes, a->kind == CLIENT_IPV6 ? 8 : 4);
    return source;
}

static struct false_address *set_of(const struct strangers *s, const struct client_address *source)
{
    uint64_t half;
    memcpy(&half, source->bytes, sizeof half);
    /* the finalizer of MurmurHash3 (Appleby 2011), with a secret */
    uint64_t hash = half ^ s->seed;
    hash = (hash ^ hash >> 33) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return &s->addresses[((hash ^ hash >> 33) & (SETS - 1)) * WAYS];
}

static uint32_t count_now(const struct false_address *a, uint64_t now_ms)
{
    if (a->seen_ms == 0) return 0;
    uint64_t over = (now_ms - a->seen_ms) / 1000;
    return over < a->count ? a->count - (uint32_t)over : 0;
}

static struct false_address *address_find(const struct strangers *s,
                                          const struct client_address *source)
{
    struct false_address *set = set_of(s, source);
    for (unsigned i = 0; i < WAYS; i++)
        if (set[i].seen_ms != 0 && client_address_equal(&set[i].address, source)) return &set[i];
    return NULL;
}

/* A new one takes the place of the one with the fewest false credentials. */
static struct false_address *address_take(const struct strangers *s,
                                          const struct client_address *source, uint64_t now_ms)
{
    struct false_address *found = address_find(s, source);
    if (found != NULL) return found;
    struct false_address *set = set_of(s, source), *least = set;
    for (unsigned i = 1; i < WAYS; i++)
        if (count_now(&set[i], now_ms) < count_now(least, now_ms)) least = &set[i];
    *least = (struct false_address){.address = *source};
    return least;
}

static bool has_address(const struct http_exchange *x)
{
    return x->client.kind == CLIENT_IPV4 || x->client.kind == CLIENT_IPV6;
}

/* ---- false credentials ---- */

static uint64_t delay_ms(uint32_t count, uint32_t free_ones)
{
    if (count <= free_ones) return 0;
    uint32_t doublings = count - free_ones - 1;
    if (doublings >= DOUBLINGS_MAX) return LIMIT_FALSE_DELAY_SECONDS * 1000;
    return (uint64_t)FIRST_DELAY_MS << doublings;
}

static void note_slowed(struct strangers *s, uint64_t now_ms)
{
    atomic_store_explicit(&s->slowed_ms, now_ms, memory_order_relaxed);
}

bool strangers_are_slowed(const struct strangers *s, uint64_t now_ms)
{
    uint64_t at_ms = atomic_load_explicit(&s->slowed_ms, memory_order_relaxed);
    return at_ms != 0 && now_ms < at_ms + SLOWED_SHOWN_MS;
}

void strangers_note_false(struct strangers *s, const struct http_exchange *x)
{
    uint64_t now_ms = loop_now_ms(s->ports.loop);
    s->shown_false = true;
    if (x->kept != NULL) *x->kept = (struct http_kept){0};
    if (has_address(x)) {
        struct client_address source = source_of(&x->client);
        struct false_address *a = address_take(s, &source, now_ms);
        a->count = count_now(a, now_ms) + 1;
        a->seen_ms = now_ms;
        a->until_ms = now_ms + delay_ms(a->count, LIMIT_FALSE_FREE_OF_ADDRESS);
        if (a->until_ms > now_ms) note_slowed(s, now_ms);
    }
    if (http_is_forwarded(x)) return;
    struct http_notes *n = x->notes;
    n->count++;
    n->until_ms = now_ms + delay_ms(n->count, LIMIT_FALSE_FREE);
    if (n->until_ms > now_ms) note_slowed(s, now_ms);
    if (n->count < LIMIT_FALSE_OF_CONNECTION) return;
    http_end(x);
    metric_add(s->ports.api->sheet, s->ports.closed, 1);
}

/* When this request's source may show its next credential; 0: it has shown no false one. */
static uint64_t slowed_until(const struct strangers *s, const struct http_exchange *x,
                             uint64_t now_ms)
{
    uint64_t until_ms = x->notes->count > 0 && !http_is_forwarded(x) ? x->notes->until_ms : 0;
    if (!has_address(x)) return until_ms;
    struct client_address source = source_of(&x->client);
    const struct false_address *a = address_find(s, &source);
    if (a == NULL || count_now(a, now_ms) == 0) return until_ms;
    return a->until_ms > until_ms ? a->until_ms : until_ms;
}

void strangers_new_keys(struct strangers *s)
{
    for (size_t i = 0; i < s->count; i++) s->parked[i].due_ms = 0;
    for (size_t i = 0; i < LIMIT_STRANGER_ADDRESSES; i++) s->addresses[i].until_ms = 0;
}

/* ---- shares of time ---- */

static bool has_time(struct strangers *s, enum stranger_kind kind)
{
    uint64_t now_ns = world_monotonic_ns();
    int64_t more = (int64_t)((now_ns - s->filled_ns) / 100 * LIMIT_STRANGER_SHARE);
    s->filled_ns = now_ns;
    for (int i = 0; i < STRANGER_KINDS; i++) {
        s->left_ns[i] += more;
        if (s->left_ns[i] > MOST_LEFT_NS) s->left_ns[i] = MOST_LEFT_NS;
    }
    return s->left_ns[kind] > 0;
}

static void spend(struct strangers *s, enum stranger_kind kind, uint64_t begun_ns)
{
    s->left_ns[kind] -= (int64_t)(world_monotonic_ns() - begun_ns) + AROUND_NS;
}

/* ---- turns ---- */

static void resume(struct strangers *s, bool slowed, unsigned room[STRANGER_KINDS])
{
    uint64_t now_ms = loop_now_ms(s->ports.loop);
    size_t left = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct stranger *p = &s->parked[i];
        if (p->is_slowed == slowed && p->due_ms <= now_ms && room[p->kind] > 0) {
            room[p->kind]--;
            http_unpark(*s->ports.server, p->token);
        } else {
            s->parked[left++] = *p;
        }
    }
    s->count = left;
}

static void look_due(struct loop_timer *t)
{
    struct strangers *s = link_owner(t, struct strangers, timer);
    unsigned room[STRANGER_KINDS];
    if (s->count == 0) return;
    for (int kind = 0; kind < STRANGER_KINDS; kind++) {
        bool any = has_time(s, (enum stranger_kind)kind);
        int64_t fits = any ? s->left_ns[kind] / USUAL_NS + 1 : 0;
        room[kind] = (unsigned)(fits < LIMIT_STRANGERS_PER_TURN ? fits : LIMIT_STRANGERS_PER_TURN);
        if (s->draining) room[kind] = LIMIT_STRANGERS;
    }
    resume(s, false, room);
    resume(s, true, room);
    if (s->count > 0) loop_timer_start(s->ports.loop, &s->timer, PAUSE_MS, look_due);
}

/* ---- requests ---- */

static enum stranger_kind kind_of(const struct http_exchange *x)
{
    return x->route->roles == 0 ? STRANGER_PUBLIC : STRANGER_UNKNOWN;
}

static void park(struct strangers *s, struct http_exchange *x, uint64_t until_ms)
{
    size_t most = until_ms != 0 ? SLOWED_MAX : LIMIT_STRANGERS;
    if (s->count >= most || !http_may_park(x)) {
        struct fault f;
        (void)fault_set(&f, ERR_OVERLOADED, "",
                        "too many requests with unknown credentials wait to be verified; try again "
                        "later");
        metric_add(s->ports.api->sheet, s->ports.refused, 1);
        api_refuse(s->ports.api, x, &f, (struct str){0});
        return;
    }
    if (s->count == 0) loop_timer_start(s->ports.loop, &s->timer, PAUSE_MS, look_due);
    s->parked[s->count++] = (struct stranger){
        .due_ms = until_ms, .kind = kind_of(x), .is_slowed = until_ms != 0, .token = http_park(x)};
    metric_add(s->ports.api->sheet, s->ports.waited, 1);
}

void strangers_handle(struct strangers *s, struct http_exchange *x)
{
    const enum stranger_kind kind = kind_of(x);
    struct http_notes *notes = x->notes;
    if (!x->is_resumed && !s->draining) {
        uint64_t now_ms = loop_now_ms(s->ports.loop);
        uint64_t until_ms = kind == STRANGER_UNKNOWN ? slowed_until(s, x, now_ms) : 0;
        if (until_ms > now_ms || !has_time(s, kind)) {
            park(s, x, until_ms);
            return;
        }
    }
    uint64_t begun_ns = world_monotonic_ns();
    s->shown_false = false;
    s->ports.proceed(s->ports.context, x);
    if (kind == STRANGER_PUBLIC || s->shown_false)
        spend(s, kind, begun_ns);
    else
        notes->until_ms = notes->count = 0;
}

bool strangers_may_verify(struct strangers *s, const struct http_exchange *x,
                          uint64_t *ret_begun_ns)
{
    *ret_begun_ns = world_monotonic_ns();
    s->shown_false = false;
    uint64_t now_ms = loop_now_ms(s->ports.loop);
    return slowed_until(s, x, now_ms) <= now_ms && has_time(s, STRANGER_UNKNOWN);
}

void strangers_verified(struct strangers *s, uint64_t begun_ns)
{
    if (s->shown_false) spend(s, STRANGER_UNKNOWN, begun_ns);
}
