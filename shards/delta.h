/* delta.h - what a record changes: the private bytes behind the public event.
 *
 * A delta is a list of entries, each `kind (1 byte), slot (2), size (4), body`, little-endian. The
 * state of a slot is the fold of its entries in the journal's order, and of nothing else: recovery,
 * snapshots and the mirror in Redis all read them by delta_next() and apply them by shard_apply().
 *
 * TOKEN_SPENT, LIMIT_COUNTED and REVIEW_TRACED commute, so they may ride in the record of a decision,
 * whoever journals it. Everything else about a slot is journaled by its owner alone, hence in the
 * order in which it happened. Unknown kinds are refused (ERR_BAD_VALUE; 0 is damage): an older
 * program must not drop what a newer one wrote. Pure. */
#ifndef SHARDS_DELTA_H
#define SHARDS_DELTA_H

#include "base/buf.h"
#include "base/fault.h"
#include "shards/call.h"
#include "shards/signer.h"

enum delta_kind {
#define DELTA(name, number, text) DELTA_##name = number,
#include "shards/delta.def"
#undef DELTA
};

struct delta_entry {
    enum delta_kind kind;
    unsigned slot;
    struct str body;
};

/* Overflow shows in the buf. */
void delta_put_minted(struct buf *out, const struct token_facts *t, const struct retry *retry);
void delta_put_spent(struct buf *out, struct id token, uint32_t uses);
void delta_put_revoked(struct buf *out, struct id token, uint64_t at_ms);
/* LIMIT_COUNTED, or COUNTED where the key is an old one. */
void delta_put_counted(struct buf *out, const struct limit_ask *ask, const struct limit_told *told);
/* The item is the record's own public bytes, so it is not in the delta. */
void delta_put_opened(struct buf *out, const struct review_facts *r);
void delta_put_traced(struct buf *out, struct id review, struct str trace_id);
void delta_put_voted(struct buf *out, struct id review, const struct review_vote *v);
/* Any move of a review; `r` is how it is after it. A redemption's record is the public bytes. */
void delta_put_moved(struct buf *out, const struct review_facts *r);
void delta_put_suspended(struct buf *out, unsigned slot, const struct actor_facts *a);
void delta_put_resumed(struct buf *out, unsigned slot, struct str tenant, struct str actor,
                       uint64_t at_ms);
void delta_put_rotated(struct buf *out, const struct signer_rotation *r);

/* The next entry of `rest`, which moves on; false: the end, or *ret_err: ERR_CORRUPT, damage;
 * ERR_BAD_VALUE, a kind that only a later program knows. */
bool delta_next(struct str *rest, struct delta_entry *ret, enum err *ret_err);

/* Bodies, for shard_apply() and for who shows them. False: damaged. Views into the body. */
bool delta_read_minted(struct str body, struct token_facts *ret, struct retry *ret_retry);
bool delta_read_spent(struct str body, struct id *ret_token, uint32_t *ret_uses);
bool delta_read_revoked(struct str body, struct id *ret_token, uint64_t *ret_at_ms);
/* Of both kinds. */
bool delta_read_counted(const struct delta_entry *e, struct limit_ask *ret_ask,
                        struct limit_told *ret_told);
/* Of either kind that opens a review. */
bool delta_read_opened(const struct delta_entry *e, struct review_facts *ret);
static inline bool delta_opens_review(enum delta_kind kind)
{
    return kind == DELTA_REVIEW_OPENED || kind == DELTA_REVIEW_OPENED_PLAIN;
}
bool delta_read_traced(struct str body, struct id *ret_review, struct str *ret_trace_id);
bool delta_read_voted(struct str body, struct id *ret_review, struct review_vote *ret);
bool delta_read_moved(struct str body,
                      struct review_facts *ret); /* id, state and the times and names of the move */
bool delta_read_suspended(struct str body, struct actor_facts *ret);
bool delta_read_rotated(struct str body, struct signer_rotation *ret);
bool delta_read_resumed(struct str body, struct str *ret_tenant, struct str *ret_actor,
                        uint64_t *ret_at_ms);

#endif
