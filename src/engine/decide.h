/* decide.h - the life of one decision, in named steps.
 *
 *   begin → evaluate → (deny by token, suspension, limit: the caller's) → describe → settle
 *
 *   begin      who asks, under which ids; a body of which nothing is masked is hashed
 *   evaluate   the tenant's policies give an outcome
 *   describe   what is asked: its full form kept where a person has to approve it, then masked, and
 *              hashed so; once
 *   settle     the outcome in bytes: hashed, the events to record, the answer to give. Again
 *              where the owner of a slot says no and the outcome becomes another.
 *
 * Pure but for the arena and the hasher; the caller commits the records and parks the answer. An
 * event that would be too large loses its args, then its context, then its resource's properties
 * (each becomes {bytes, omitted}); a human_review that would be cut so is denied by `limit:record`,
 * because nobody can judge what they cannot see, and so is a compute whose safe arguments are over
 * half of a record. What shadow documents would have changed is left out of an event that is
 * too large with it, or where memory ends: it decides nothing, here neither. */
#ifndef ENGINE_DECIDE_H
#define ENGINE_DECIDE_H

#include "engine/ask.h"
#include "engine/place.h"
#include "event/event.h"

struct decide_tools { /* one reactor's */
    struct hasher *hasher;
    struct chance *chance;
    const struct place_keys *keys;
    const struct policy_set *policies;
    struct policy_memory *memory;
    uint64_t now_ms;
    uint64_t started_ns; /* monotonic: when the request was wholly there */
    bool dry_run, explain;
};

enum { INPUT_SALT_BYTES = 16 };

struct decision { /* zeroed, then decide_begin() */
    const struct decide_tools *tools;
    const struct caller *caller;
    struct ask *ask;
    struct arena *arena;

    /* Before settling, where they apply. */
    struct policy_outcome outcome;
    unsigned slot; /* of the subject: a review lives there */
    /* the same request waits for a person: its review is named, none is made */
    bool is_pending_already;
    uint64_t pending_expires_ms;
    struct review_digest pending_binding;
    struct id review;       /* that review's, or the new one's */
    struct str redeems;     /* the text of the review's id that is redeemed, or absent */
    struct str asked_trace; /* that review's own */
    struct str redemption_id;
    bool replayed; /* the answer was given before */

    /* Of settling. */
    struct event event;   /* views into the arena and the ask */
    struct str record;    /* the event's JSON */
    struct str beside;    /* `review.enqueued`'s, or `review.redeemed`'s; absent: neither */
    struct str answer;    /* the response's JSON */
    struct str safe_args; /* compute: as the client gets them; the event's are masked */
    uint64_t latency_ns;

    /* Inside. */
    char ids[3][ID_TEXT], token_id[ID_TEXT]; /* request, event, review */
    /* A mask covers something of what was sent; or its tenant's masks are not known. */
    bool is_masked;
    char input_salt[2 * INPUT_SALT_BYTES];
    /* Room for a review's id as text, and behind it the request's full form; NULL: not bound. */
    char *bound;
    size_t bound_size;
    struct review_digest binding,
        redeemed_binding; /* of the outcome's review; of the redeemed one */
    char binding_text[SHA256_HEX];
    struct str explain; /* the array of rules, and the member would_allow behind it */
    /* canonical, within the body's canonical form; absent where something of it is masked, or the
     * record has it otherwise */
    struct str args, context, resource;
};

/* All of it is borrowed until the answer is encoded. */
void decide_begin(struct decision *d, const struct decide_tools *tools, const struct caller *caller,
                  struct ask *ask, struct arena *arena);
void decide_evaluate(struct decision *d);
/* The same, and d->explain (explain.c): part of evaluating. */
void decide_explain(struct decision *d, const struct policy_request *request);
extern const struct str explain_too_many; /* d->explain where all of it has no room */
/* Makes it a deny of the service's own; both texts live as long as the decision. */
void decide_deny(struct decision *d, const char *rule, const char *reason);
/* Whether the request, which redeems this review, is the one that the review was opened for. Before
 * describing, which masks. */
bool decide_bind_to(struct decision *d, const struct review_facts *r);
/* By which the same request is found while a person looks at it: as it is kept now, and as earlier
 * versions kept it. Of what was described as a human_review. */
struct review_digest decide_request_digest(const struct decision *d);
struct review_digest decide_request_plain(const struct decision *d);
void decide_describe(struct decision *d);
/* ERR_BODY_TOO_LARGE: the arena is full, or the record is too large even without args, context and
 * properties. Otherwise there is a decision. It may have become a deny (`limit:record`): look at
 * the outcome. */
enum err decide_settle(struct decision *d, struct fault *f);
/* The answer that was given with this record of an earlier decision. Not ERR_OK: it cannot be
 * read, or the arena is full. */
enum err decide_repeat(struct decision *d, struct str record);

#endif
