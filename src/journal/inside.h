/* inside.h - what `struct journal` is, for the journal's own files and its simulator. */
#ifndef JOURNAL_INSIDE_H
#define JOURNAL_INSIDE_H

#include "journal/scribe.h"

/* What a cursor lets go of the page cache: this much at once, so far behind it. */
enum { CURSOR_DROP_BYTES = 1 << 20, CURSOR_DISTANCE_BYTES = 4 << 20 };

struct journal {
    struct scribe scribe;
};

/* journal_open without threads: whoever drives calls the scribe's steps. `epoch` and `now_ms` are
 * arguments, so that one seed makes one history. */
enum err journal_open_driven(const struct journal_options *options, const char *epoch,
                             uint64_t now_ms,
                             enum err (*replay)(void *context, const struct journal_record *record),
                             void *replay_context, struct journal **ret,
                             struct journal_report *ret_report, struct fault *f);
/* Writes and syncs what was sealed, tells that it is durable, and frees. */
void journal_close_driven(struct journal *j, uint64_t now_ms);
/* Frees; the disk sees nothing of it but closed files. As a killed process would leave it. */
void journal_abandon(struct journal *j);

#endif
