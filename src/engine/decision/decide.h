/* decide.h - the life of one decision, in named steps.
 *
 *   begin → evaluate → (deny by token, suspension, limit: the caller's) → describe → settle
 *
 *   begin      sets caller and ids; hashes a body of which nothing is masked
 *   evaluate   the tenant's policies give an outcome. That of a dry run uses no more than them, the
 *              request and the arena, so it may run on any thread
 *   describe   describes the request once: keeps its full form if a person has to approve it, then masks
 *              and hashes it
 *   settle     turns the outcome into bytes: hash, events to record, answer. Repeated if the owner
 *              of a slot refuses and the outcome changes.
 *
 * Pure except for the arena and the hasher; the caller commits the records and parks the answer. An
 * event that would be too large loses its args, then its context, then its resource's properties
 * (each becomes {bytes, omitted}). If that happens to a human_review, `limit:record` denies it,
 * because a person cannot judge what is not shown. It also denies a compute whose safe arguments
 * are larger than half of a record. The changes that shadow documents would have made are omitted
 * from an event that is too large with them, or if memory ends: they never affect the decision. */
#ifndef ENGINE_DECIDE_H
#define ENGINE_DECIDE_H

#include "engine/decision/auth_request.h"
#include "engine/decision/digest.h"
#include "event/event.h"

struct decide_tools { /* one reactor's */
    struct hasher *hasher;
    struct chance *chance;
    const struct digest_keys *keys;
    const struct policy_set *policies;
    struct policy_memory *memory;
    uint64_t now_ms;
    uint64_t steps;      /* that conditions may cost: policy_request.steps */
    uint64_t started_ns; /* monotonic: when the whole request had arrived */
    bool dry_run, explain;
    bool asks_nobody; /* a human_review opens no review */
};

enum { INPUT_SALT_BYTES = 16 };

struct decision { /* zeroed, then decide_begin() */
    const struct decide_tools *tools;
    const struct caller *caller;
    struct auth_request *ask;
    struct arena *arena;

    /* Set before settling, if they apply. */
    struct policy_outcome outcome;
    unsigned slot; /* of the subject: a review lives there */
    /* the same request has a review already, which waits for a person or is approved and not
     * redeemed: the decision names that one, and none is made */
    bool has_review;
    bool review_is_approved;
    uint64_t review_expires_ms;
    struct review_digest review_binding;
    struct id review;       /* that review's, or the new one's */
    struct str redeems;     /* the text of the id of the review that is redeemed, or absent */
    struct str asked_trace; /* that review's own */
    struct str redemption_id;
    bool replayed; /* this is an earlier answer, repeated */

    /* Set by settling. */
    struct event event;   /* views into the arena and the request */
    struct str record;    /* the event's JSON */
    struct str beside;    /* `review.enqueued`'s, or `review.redeemed`'s; absent: neither */
    struct str answer;    /* the response's JSON */
    struct str safe_args; /* compute: in the form for the client; the event has them masked */
    uint64_t latency_ns;

    /* Internal. */
    char ids[3][ID_TEXT], token_id[ID_TEXT]; /* request, event, review */
    bool is_described;                       /* by decide_describe() */
    /* A mask covers part of the request, or the masks of its tenant are unknown. */
    bool is_masked;
    char input_salt[2 * INPUT_SALT_BYTES];
    /* Room for a review's id as text, followed by the request's full form; NULL: not bound. */
    char *bound;
    size_t bound_size;
    struct review_digest binding,
        redeemed_binding; /* of the outcome's review; of the redeemed one */
    char binding_text[SHA256_HEX];
    struct str limits;  /* of a dry run: the array of what its limits have left; or absent */
    struct str explain; /* the array of rules, and the member would_allow behind it */
    /* canonical, within the body's canonical form; absent if a part is masked, or the record needs
     * another form */
    struct str args, context, resource;
};

/* What holds for a decision between two of these functions. */
void decision_check(const struct decision *d);
/* Everything passed is borrowed until the answer is encoded. */
void decide_begin(struct decision *d, const struct decide_tools *tools, const struct caller *caller,
                  struct auth_request *ask, struct arena *arena);
void decide_evaluate(struct decision *d);
/* The same, and sets d->explain (explain.c): a part of evaluating. */
void decide_explain(struct decision *d, const struct policy_request *request);
extern const struct str explain_too_many; /* d->explain if there is no room for all rules */
/* Changes the outcome to a deny by the engine; both texts live as long as the decision. */
void decide_deny(struct decision *d, const char *rule, const char *reason);
/* Whether this request, which redeems the review, is the one that the review was opened for. Call
 * it before describing, which masks. */
bool decide_bind_to(struct decision *d, const struct review_facts *r);
/* The digest by which the same request finds its review: in the present form,
 * and in that of earlier versions. Only after a human_review was described. */
struct review_digest decide_request_digest(const struct decision *d);
struct review_digest decide_request_plain(const struct decision *d);
/* Describes the request, the first time. */
void decide_describe(struct decision *d);
/* ERR_BODY_TOO_LARGE: the arena is full, or the record is too large even without args, context and
 * properties. Otherwise there is a decision. It may have become a deny (`limit:record`): check the
 * outcome. */
enum err decide_settle(struct decision *d, struct fault *f);
/* Repeats the answer of an earlier decision from its record; if its review is approved now
 * (d->review_is_approved), the answer has that, and until when. Not ERR_OK: the record cannot be read,
 * or the arena is full. */
enum err decide_repeat(struct decision *d, struct str record);

#endif
