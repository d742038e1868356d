/* removal.h - signed notes about records that leave the store: by age, or because a person accepted
 * their loss (schemas/evidence.md).
 *
 * The platform's own key signs them. Against an administrator of the database, a note shows that
 * the platform removed these records, and a verifier can go on behind them. It shows nothing
 * against the platform itself.
 *
 * Blocking; belongs to the thread of its store (a writer). */
#ifndef STORE_REMOVAL_H
#define STORE_REMOVAL_H

#include "store/store.h"

struct removal {
    struct str node, journal;
    bool by_age; /* else a gap was accepted */
    uint64_t from_seq, end_seq;
    uint64_t now_ms;
};

/* Within the transaction of the removal, while the records are still there. Without a key
 * (store_share_signer) it writes nothing. By age: the note also has the frontier of the stream's tree
 * behind the last record, and checkpoints that end before it are removed. */
enum err removal_note(struct store *s, const struct removal *r, struct fault *f);

#endif
