/* recover.h - checks the journal at a start: which frames are whole, and whether the first bad one
 * was promised to be durable.
 *
 * Two questions, in this order. How far do whole frames follow each other (checksum, seq, the
 * previous frame's digest)? And which is the highest durable seq that any header claims, also
 * beyond the damage? If a record that is now missing was claimed durable, the disk has broken a
 * promise: ERR_CORRUPT, and nothing is changed. Otherwise the power failed while the first bad
 * frame was written: it and everything after it are cut. Two cases are not a torn tail. A frame of
 * a later program is ERR_BAD_VALUE, and nothing is changed. A whole frame of another segment or
 * engine behind the last own one is ERR_CORRUPT: a file was replaced by another.
 *
 * Segments with records that no frame claims durable, and always the last segment, are copied to
 * fresh files and synced, cut or not. After a failed fdatasync Linux marks the pages clean: they
 * read well and are not on the disk. Only writing them again puts them there. */
#ifndef JOURNAL_RECOVER_H
#define JOURNAL_RECOVER_H

#include "journal/journal_writer.h"

struct recovery {
    struct tail tail;
    uint64_t spare, spare_bytes; /* an empty segment after the last, or 0 */
};

/* Fills the shelf and the report (all but `epoch`); `segment_bytes` is for files made here. Ends
 * early, with ERR_CLOSED and nothing changed, when `given_up` is true (NULL: it cannot be
 * cancelled). */
enum err recover_run(struct disk *d, uint64_t segment_bytes, const _Atomic bool *given_up,
                     struct shelf *shelf, struct recovery *ret, struct journal_report *ret_report,
                     struct fault *f);

/* Passes every record of the shelf to `replay`, in order. */
enum err recover_replay(struct disk *d, struct shelf *shelf, const struct tail *tail,
                        const _Atomic bool *given_up,
                        enum err (*replay)(void *context, const struct journal_record *record),
                        void *context, struct fault *f);

#endif
