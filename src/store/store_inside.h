/* store_inside.h - shared by the stores of this room; inside this room only. */
#ifndef STORE_STORE_INSIDE_H
#define STORE_STORE_INSIDE_H

#include "access/set_mac.h"
#include "base/limits.h"
#include "base/log_rate.h"
#include "base/planted.h"
#include "base/map.h"
#include "evidence/run_mac.h"
#include "base/world.h"
#include "store/audit_rows.h"
#include "store/database.h"
#include "store/decoder.h"
#include "store/own_event.h"
#include "store/store.h"

/* The revision that the current transaction has made; number 0: none. */
struct raised {
    struct revision to;
    uint64_t lost;       /* the newest seen revision that the store has lost; 0: none */
    uint64_t adopted_at; /* of its set */
};

/* The key of the stream whose run was checked last: the next run is mostly of the same one. */
struct last_run_key {
    char node[LIMIT_ID_CHARACTERS], journal[LIMIT_ID_CHARACTERS];
    size_t node_size, journal_size; /* node_size 0: there is none */
    struct hmac_key key;
};

struct store {
    struct database *database;
    struct audit_store audit; /* on the same connection */
    struct audit_rows *audit_state;
    struct decoder *decoder; /* of batches */
    struct chance chance;
    char log_id[STORE_LOG_ID_TEXT + 1];
    struct log_rate alarms[REASON_COUNT]; /* of entries that go to quarantine */
    struct history *history;              /* NULL: no history is compared */
    struct raised raised;
    struct set_keys set_keys; /* if has_set_keys (set.h) */
    bool has_set_keys;
    /* if has_set_keys: of all streams (evidence/run_mac.h); of the rows of engine_key.h */
    struct sha256 record_key, registered_key;
    struct last_run_key run_key;       /* made of record_key */
    struct hasher *hasher;             /* of the store's thread */
    const struct ed25519 *signer;      /* the platform's; NULL: none */
    struct log_rate checkpoint_alarms; /* of checkpoints that are refused */
    struct stored_set *set;            /* of this transaction; NULL: not read */
    /* Existing streams and replays plus one, as counted in this transaction; 0: not counted. */
    uint64_t streams_counted, replays_counted;
    struct map asked; /* consumer_store.c: since when this process knows of each requested replay */
};

/* Describes the database's failure in *f; ERR_OK is returned unchanged. */
static inline enum err store_fault(struct store *s, enum err err, struct fault *f)
{
    return err == ERR_OK ? ERR_OK : database_fault(s->database, err, f);
}
/* history.c: raises the revision within the transaction; *ret: its number. */
enum err store_raise_revision(struct store *s, uint64_t *ret, struct fault *f);
/* history.c: the newest revision that this process saw in a good set; number 0: none. */
struct seen {
    struct revision revision;
    uint64_t adopted_at;
};
struct seen history_seen(const struct store *s);
/* history.c: it is in the store, in a good set, and follows what was seen. */
void history_note(struct store *s, const struct revision *now, uint64_t adopted_at);
/* history.c: the store's revision, and whether it follows what was seen: one statement, one snapshot. */
enum err history_look(struct store *s, const struct revision *seen, struct revision *ret,
                      bool *ret_follows, struct fault *f);
/* history.c: the transaction has ended. */
void history_committed(struct store *s, bool is_committed);

/* A page of a list that is written into a body. The cursors are the ids by which its rows are
 * sorted. */
struct list_page {
    uint64_t limit;    /* of rows */
    size_t bytes_most; /* of the body: then the page ends early; 0: no limit */
    int id_column;
    /* rows so far; the last row's id; the next page's cursor, or 0 */
    uint64_t count, last, next;
};

/* Steps to the page's next row and puts the comma before it. ERR_END: no row, or no room. */
enum err list_page_step(struct list_page *p, struct statement *q, struct buf *out);

void store_forget_asked(struct store *s);

/* Takes the write lock. ERR_STORE_UNAVAILABLE also if the schema is another program's now. */
enum err store_begin(struct store *s, struct fault *f);
/* Ends the transaction: commits if `err` is ERR_OK, else rolls back and returns the error. Fills *f
 * if the commit fails. */
enum err store_end(struct store *s, enum err err, struct fault *f);

/* A bound of the store's content; smaller for the planted small_store. */
static inline uint64_t store_most(uint64_t bound)
{
    return planted("small_store") ? bound / 6250 : bound;
}

#endif
