/* delta.h - the change of state in a record: the private bytes behind the public event.
 *
 * A delta is a list of entries, each `kind (1 byte), slot (2), size (4), body`, little-endian. The
 * state of a slot depends only on the replay of its entries in the journal's order: recovery,
 * snapshots and the mirror in Redis all read them by delta_next() and apply them by shard_apply().
 *
 * TOKEN_SPENT, LIMIT_COUNTED, LIMIT_PLACED, REVIEW_TRACED and RETRY_KEPT commute, so they may be in the record of a decision
 * that another reactor journals. Only the owner of a slot journals everything else about it, hence
 * in the order in which it happened. Unknown kinds are refused (ERR_BAD_VALUE; 0 is damage): an
 * older program must not drop what a newer one wrote. Pure. */
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

/* If the bytes do not fit, the buf shows the overflow. */
void delta_put_minted(struct buf *out, const struct token_facts *t, const struct retry *retry);
void delta_put_spent(struct buf *out, struct id token, uint32_t uses);
void delta_put_revoked(struct buf *out, struct id token, uint64_t at_ms);
/* LIMIT_COUNTED; LIMIT_PLACED where it takes a place; COUNTED where the key is an old one. */
void delta_put_counted(struct buf *out, const struct limit_request *ask,
                       const struct limit_told *told);
/* The item is the record's own public bytes, so it is not in the delta. */
void delta_put_opened(struct buf *out, const struct review_facts *r);
void delta_put_traced(struct buf *out, struct id review, struct str trace_id);
void delta_put_voted(struct buf *out, struct id review, const struct review_vote *v);
/* Any change of a review's state; `r` has the new state. The public bytes are a redemption's
 * record. */
void delta_put_moved(struct buf *out, const struct review_facts *r);
void delta_put_suspended(struct buf *out, unsigned slot, const struct actor_facts *a);
void delta_put_resumed(struct buf *out, unsigned slot, struct str tenant, struct str actor,
                       uint64_t at_ms);
/* Not its record: that is the public bytes of the record with this entry, if it has one. */
void delta_put_kept(struct buf *out, const struct retry_outcome *o);
void delta_put_rotated(struct buf *out, const struct signer_rotation *r);

/* Reads the next entry of `rest` and moves `rest` on. False: the end, or *ret_err: ERR_CORRUPT
 * (damage) or ERR_BAD_VALUE (a kind that only a later program knows). */
bool delta_next(struct str *rest, struct delta_entry *ret, enum err *ret_err);

/* Read bodies, for shard_apply() and for programs that show them. False: damaged. Views into the
 * body. */
bool delta_read_minted(struct str body, struct token_facts *ret, struct retry *ret_retry);
bool delta_read_spent(struct str body, struct id *ret_token, uint32_t *ret_uses);
bool delta_read_revoked(struct str body, struct id *ret_token, uint64_t *ret_at_ms);
/* Of any kind that counts. */
static inline bool delta_counts(enum delta_kind kind)
{
    return kind == DELTA_LIMIT_COUNTED || kind == DELTA_LIMIT_PLACED || kind == DELTA_COUNTED;
}
bool delta_read_counted(const struct delta_entry *e, struct limit_request *ret_ask,
                        struct limit_told *ret_told);
/* Of any kind that opens a review. */
bool delta_read_opened(const struct delta_entry *e, struct review_facts *ret);
static inline bool delta_opens_review(enum delta_kind kind)
{
    return kind == DELTA_REVIEW_OPENED || kind == DELTA_REVIEW_OPENED_PLAIN ||
           kind == DELTA_REVIEW_OPENED_PROVEN;
}
bool delta_read_traced(struct str body, struct id *ret_review, struct str *ret_trace_id);
/* Of any kind: a vote of an earlier version has no key. */
bool delta_read_voted(const struct delta_entry *e, struct id *ret_review, struct review_vote *ret);
static inline bool delta_votes(enum delta_kind kind)
{
    return kind == DELTA_REVIEW_VOTED || kind == DELTA_REVIEW_VOTED_PLAIN ||
           kind == DELTA_REVIEW_VOTED_PERSON;
}
/* Of either kind: id, state and the times and names of the move. */
bool delta_read_moved(const struct delta_entry *e, struct review_facts *ret);
static inline bool delta_moves_review(enum delta_kind kind)
{
    return kind == DELTA_REVIEW_MOVED || kind == DELTA_REVIEW_MOVED_PLAIN;
}
bool delta_read_suspended(struct str body, struct actor_facts *ret);
bool delta_read_kept(struct str body, struct retry_outcome *ret);
bool delta_read_rotated(struct str body, struct signer_rotation *ret);
bool delta_read_resumed(struct str body, struct str *ret_tenant, struct str *ret_actor,
                        uint64_t *ret_at_ms);

#endif
