/* inside.h - the definition of `struct journal`, for the journal's own files and its simulator. */
#ifndef JOURNAL_INSIDE_H
#define JOURNAL_INSIDE_H

#include "journal/journal_writer.h"

/* A cursor drops this many bytes of the page cache at once, at this distance behind it. */
enum { CURSOR_DROP_BYTES = 1 << 20, CURSOR_DISTANCE_BYTES = 4 << 20 };

struct journal {
    struct journal_writer journal_writer;
};

/* journal_open without threads: the caller performs the journal writer's steps. `epoch` and
 * `now_ms` are arguments, so that one seed makes one history. */
enum err journal_open_driven(const struct journal_options *options, const char *epoch,
                             uint64_t now_ms,
                             enum err (*replay)(void *context, const struct journal_record *record),
                             void *replay_context, struct journal **ret,
                             struct journal_report *ret_report, struct fault *f);
/* Writes and syncs the sealed blocks, claims that they are durable, and frees. */
void journal_close_driven(struct journal *j, uint64_t now_ms);
/* Frees. Of the disk it only closes files, as if the process was killed. */
void journal_abandon(struct journal *j);

#endif
