/* record_source.h - where the publisher's records come from: an engine's journal, or the log of a
 * fleet that this engine leads.
 *
 *   end        the newest record that may be published; any thread, never waits
 *   go, next   the records from one seq on, one after the other
 *   confirm    the platform has them, so the source may give them up
 *
 * All other calls are made by the publisher's thread. */
#ifndef PUBLISH_RECORD_SOURCE_H
#define PUBLISH_RECORD_SOURCE_H

#include "evidence/merkle.h"
#include "journal/journal.h"
#include "metrics/metrics.h"

struct record_source {
    void *state;
    uint64_t (*end)(const void *state);
    /* JOURNAL_EPOCH_TEXT bytes: of the records that come from now on. */
    const char *(*epoch)(const void *state);
    /* The next record will be `seq`. ERR_NOT_FOUND: it is not kept any more, or is beyond the end;
     * ERR_IO. */
    enum err (*go)(void *state, uint64_t seq, struct fault *f);
    /* Views are valid until the next call of go or next. ERR_END: it is not here yet, ask again; the
     * errors of journal_cursor_next(). */
    enum err (*next)(void *state, struct journal_record *ret, struct fault *f);
    /* Whether record `seq` is of this epoch. ERR_NOT_FOUND: it is not kept any more, or its epoch is
     * not known. Moves nothing. */
    enum err (*epoch_is)(void *state, uint64_t seq, const char epoch[JOURNAL_EPOCH_TEXT],
                         bool *ret_same, struct fault *f);
    /* The oldest record that is kept. */
    uint64_t (*oldest)(const void *state);
    void (*confirm)(void *state, uint64_t seq);
    /* The frontier of all records below *ret_next, the stream's first one included: the newest that is
     * known at or below `seq`, else the oldest. NULL: the tree is kept in a file (stream_tree.h). */
    void (*tree)(void *state, uint64_t seq, uint64_t *ret_next, struct frontier *ret);
    void (*destroy)(struct record_source *s);
    enum metric confirmed_gauge, lag_gauge;
    bool is_journal;
    /* For people: what to do where the platform has other records than the source. */
    const char *advice;
};

/* Of this journal, which outlives it. */
struct record_source journal_source(struct journal *j);

#endif
