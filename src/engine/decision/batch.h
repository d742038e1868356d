/* batch.h - several requests for decisions in one HTTP request: one after the other, one answer.
 *
 *   batch_begin → [confirm the token] → [relay] → (item → authorization → answered)* → finish
 *
 * Each item is decided and recorded like a request of its own. The records of items that need no
 * other reactor are in one block, so they are written together, and one answer waits for all. An
 * item that cannot be judged has a fault instead of a decision. A replica of a fleet relays the whole
 * batch if one of its items touches state. */
#ifndef ENGINE_BATCH_H
#define ENGINE_BATCH_H

#include "engine/decision/redeem.h"

struct batch {
    struct redemption r; /* first: the present item, which may become a redemption */
    struct caller caller;
    struct str text; /* the request's body */
    struct json *body;
    size_t count, at;
    uint64_t turn_ns; /* when its first item of this turn was begun */
    struct str *answers;
    struct str retry_header; /* the Idempotency-Key of item N is this with /N */
    /* Sets form and body of item `at` (r.a), which is then decided. */
    enum err (*prepare)(struct batch *b, struct fault *f);
    /* NEXT: *ret is the JSON of the item's decision, or of its fault (else NULL), in the arena, and
     * *ret_ends: no further item is decided; or *ret stays absent, and the item goes on. DONE: the
     * batch was refused. */
    enum step_result (*answered)(struct batch *b, const struct fault *f, struct str *ret,
                                 bool *ret_ends);
    /* Appends what is before and behind the items' answers. */
    struct str before, behind;
};

/* At the head of `size` zeroed bytes. NULL: refused already. Admits the caller and reads the body. */
struct batch *batch_begin(struct engine_reactor *w, struct http_exchange *x, size_t size);
/* After count, prepare and answered are set. Continues on its own until the answer. */
void batch_start(struct batch *b);
enum step_result batch_refuse(struct batch *b, const struct fault *f);
/* ERR_WRONG_TYPE, ERR_OUT_OF_RANGE: there are more than LIMIT_BATCH. */
enum err batch_count(const struct json *list, const char *name, size_t *ret, struct fault *f);
/* The item number `at` of a list. */
struct json *batch_item(const struct json *list, size_t at);

#endif
