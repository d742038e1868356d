/* decide.h - the life of one decision, in named steps.
 *
 *   read the ask → evaluate → bind (reviews) → mask → describe (the event) → hash → encode
 *
 * Pure but for the arena and the hasher: what comes out are bytes, the event to record and the
 * answer to give; the caller commits the first and parks the second. An event that would be too
 * large loses its args, then its context, then its resource's properties (each becomes {bytes,
 * omitted}); a human_review that would be cut so is denied by `limit:record`, because nobody can
 * judge what they cannot see. */
#ifndef ENGINE_DECIDE_H
#define ENGINE_DECIDE_H

#include "engine/ask.h"
#include "event/event.h"

struct decide_tools {        /* one reactor's */
    struct hasher *hasher;
    struct chance *chance;
    const struct policy_set *policies;
    uint64_t now_ms;
    uint64_t started_ns;     /* monotonic: when the request was wholly there */
    bool dry_run, explain;
};

struct decision {
    struct policy_outcome outcome;
    struct event event;      /* views into the arena and the ask */
    char ids[3][ID_TEXT];    /* request, event, review */
    struct str safe_args;    /* compute: as the client gets them; the event's are masked */
    struct str record;       /* the event's JSON */
    struct str enqueued;     /* `review.enqueued`'s JSON; absent: no review */
    struct str answer;       /* the response's JSON */
    uint64_t latency_ns;
};

/* ERR_BODY_TOO_LARGE where the arena is full; otherwise there is a decision. */
enum err decide(const struct decide_tools *tools, const struct caller *caller, struct ask *ask, struct arena *arena,
                struct decision *ret, struct fault *f);

#endif
