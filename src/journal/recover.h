/* recover.h - what a start finds on the disk: which frames are whole, and whether the first one
 * that is not was ever promised.
 *
 * Two questions, in this order. How far do whole frames follow each other (checksum, seq, the
 * previous frame's digest)? And what is the highest durable seq that any header tells, anywhere,
 * beyond the damage too? If a record that is now missing was told to be durable, the disk has
 * broken a promise: ERR_CORRUPT, and nothing is changed. Else the first frame that is not whole
 * was being written when the power went: it and all after it are cut. A frame that a later program
 * wrote is not of these: ERR_BAD_VALUE, and nothing is changed.
 *
 * The segments that hold records which no frame tells to be durable, and the last one always, are
 * copied to fresh files and synced, cut or not. After a failed fdatasync Linux calls the pages
 * clean: they read well and are not on the disk. Only writing them anew makes them so. */
#ifndef JOURNAL_RECOVER_H
#define JOURNAL_RECOVER_H

#include "journal/scribe.h"

struct recovery {
    struct tail tail;
    uint64_t spare, spare_bytes; /* an empty segment after the last, or 0 */
};

/* Fills the shelf and the report (all but `epoch`); `segment_bytes` is for files made here. */
enum err recover_run(struct disk *d, uint64_t segment_bytes, struct shelf *shelf,
                     struct recovery *ret, struct journal_report *ret_report, struct fault *f);

/* Gives every record of the shelf to `replay`, in order. */
enum err recover_replay(struct disk *d, struct shelf *shelf, const struct tail *tail,
                        enum err (*replay)(void *context, const struct journal_record *record),
                        void *context, struct fault *f);

#endif
