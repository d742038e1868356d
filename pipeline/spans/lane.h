/* lane.h - spans on their way from one reactor to the sending thread: a bounded ring, no locks.
 *
 *        tail            filled
 *    head  v               v
 *   ---+---+---+---+---+---+---      head … tail     published: for the sender
 *      | p | p | w | p | w |         tail … filled   waiting: the reactor's; a span ends when its reply's
 *   ---+---+---+---+---+---+---                      barrier is passed, and is published with all before it
 *
 * The reactor writes `filled` and `tail`, the sender `head`. Neither waits: a full ring loses the
 * new span and counts it. A span is written in place, once, and encoded from there. */
#ifndef SPANS_LANE_H
#define SPANS_LANE_H

#include <stdatomic.h>

#include "base/limits.h"
#include "metrics/metrics.h"
#include "pipeline/spans/trace_context.h"

enum {
    SPAN_RULE_BYTES = 80,
    SPAN_REQUEST_BYTES = 32,
    SPAN_POLICY_BYTES = 64,
    SPAN_CALL_BYTES = 128,
    /* 2.2 s at 900 sampled decisions a second, 1.4 MB a reactor. */
    LANE_PLACES = 2048,
};

/* A text of at most so many bytes within the span. */
#define SPAN_TEXT(name, most)                                                                      \
    char name[most];                                                                               \
    uint8_t name##_size

struct span_place { /* the span's trace and parent */
    uint8_t trace[TRACE_ID_BYTES], parent[SPAN_ID_BYTES];
    bool has_parent;
};

struct span { /* one decision, or one request without a decision */
    struct span_place place;
    uint8_t id[SPAN_ID_BYTES];
    bool dry_run;
    uint16_t status; /* of HTTP */
    /* the durability that its reply waits for: 0 nothing, 1 written, 2 synced */
    uint32_t barrier_durability;
    uint64_t barrier_block;
    uint64_t begin_ns, decided_ns, end_ns; /* monotonic; end 0: its reply still waits */
    uint64_t policy_version;               /* 0: none */
    const char *decision, *kind, *error;   /* static texts; NULL: none */
    SPAN_TEXT(rule, SPAN_RULE_BYTES);
    SPAN_TEXT(request, SPAN_REQUEST_BYTES);
    SPAN_TEXT(policy, SPAN_POLICY_BYTES);
    SPAN_TEXT(trace_text, LIMIT_TRACE_ID_BYTES); /* as in the decision: it may not be a W3C id */
    SPAN_TEXT(tool_call, SPAN_CALL_BYTES);
    SPAN_TEXT(conversation, SPAN_CALL_BYTES);
};

struct span_lane {
    struct span *places;
    struct metrics_sheet *sheet; /* the reactor's */
    size_t filled, head_seen;    /* the reactor's own */
    _Alignas(64) _Atomic size_t tail;
    _Alignas(64) _Atomic size_t head;
};

/* LANE_PLACES, from the heap, at boot; `sheet` must be set before the lane is used. */
void lane_init(struct span_lane *l);
void lane_fini(struct span_lane *l);

/* Copies the whole characters that fit. */
size_t span_copy(char *to, size_t most, struct str text);
#define span_set(span, name, text)                                                                 \
    ((span)->name##_size = (uint8_t)span_copy((span)->name, sizeof(span)->name, (text)))

/* ---- the reactor ---- */

/* The next entry, zeroed; NULL: the ring is full, and the loss is counted. The entry counts after
 * lane_keep() is called. */
struct span *lane_open(struct span_lane *l);
void lane_keep(struct span_lane *l);
static inline bool lane_waits(const struct span_lane *l)
{
    return l->filled != atomic_load_explicit(&l->tail, memory_order_relaxed);
}
/* Ends, as of `now_ns`, the spans whose barriers are at or below these positions, and publishes.
 * True: the ring has just become half full, so the sender should be woken. */
bool lane_release(struct span_lane *l, uint64_t written, uint64_t synced, uint64_t now_ns);

/* ---- the sender ---- */

const struct span *lane_peek(const struct span_lane *l); /* the oldest; NULL: none */
void lane_drop(struct span_lane *l);                     /* frees the oldest one's entry */

#endif
