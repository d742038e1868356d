/* history.h - revisions of a store, and how the platform notices that a store went back.
 *
 * Policies and keys share one revision. Each change of either raises it in its own transaction and
 * gives it a history id, which is random. So a revision is a pair (number, history id), and the
 * pair stands for all changes up to it. The store has the newest REVISIONS_KEPT pairs.
 *
 * A database can go back under a running platform: a failover loses its last changes, or a dump is
 * restored. Then numbers are used a second time, for other changes. A process shares one `struct
 * history` among its connections, with the newest revision that any of them saw in a good set
 * (set.h). If the store does not have this pair any more, it went back. Its set is refused until an
 * operator adopts it. Then the store is numbered above all that were seen, so that no engine
 * confuses a revision with one that it has.
 *
 * If the store has dropped the pair because it is old, the pair cannot be compared. But the store's
 * number is then higher than that of any revision that this process has seen, so it did not go
 * back. */
#ifndef STORE_HISTORY_H
#define STORE_HISTORY_H

#include <pthread.h>

#include "base/fault.h"
#include "base/limits.h"

struct store;

enum { HISTORY_ID_TEXT = 32, REVISIONS_KEPT = LIMIT_REVISIONS_KEPT };

struct revision {
    uint64_t number;                      /* 0: none */
    char history_id[HISTORY_ID_TEXT + 1]; /* "": made by a program before schema 10 */
};
bool revision_equal(const struct revision *a, const struct revision *b);

/* Any thread. */
struct history {
    pthread_mutex_t lock;
    struct revision newest; /* the newest that a connection of this process saw in a good set */
    uint64_t adopted_at;    /* when that set was adopted, in Unix milliseconds (set.h); 0: never */
    uint64_t lost; /* the newest number when the store was found to have gone back; 0: it did not */
};
void history_init(struct history *h);
void history_fini(struct history *h);

/* Compares the revisions of this connection with those in `h`. `h` must outlive the store. */
void store_share_history(struct store *s, struct history *h);
enum err store_revision(struct store *s, struct revision *ret, struct fault *f);
/* For a writer, outside of a transaction. If the store went back and was adopted since, gives it a
 * new revision above all that were seen, in a transaction of its own. *ret_lost: the highest seen number of the lost
 * history, once for each time that a store went back; else 0. */
enum err store_settle_history(struct store *s, uint64_t *ret_lost, struct fault *f);

#endif
