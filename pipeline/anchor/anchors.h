/* anchors.h - sends the checkpoints of the audit trail to places outside the store: files, buckets with
 * object lock, and witnesses. A later change of the store does not change what was sent.
 *
 *   checkpoints ─▶ due (newer than the anchor's) ─┬▶ append and fsync, or PUT ──────▶ anchors (a row)
 *                                                 └▶ proof ─▶ witness ─▶ signature ─▶ checkpoint, anchors
 *
 * A witness is asked for one tree after another. One that it refuses does not hold up the others; a
 * witness that does not answer ends the round.
 *
 * One thread with a connection to the store of its own, and all of the sending. Each checkpoint goes
 * out at least once: it is noted in the store afterwards. An anchor that fails waits longer each time
 * and delays no other. Several platforms on one store share the rows: each checkpoint then goes to a
 * file of one of them, and to the same object of a bucket. */
#ifndef ANCHOR_ANCHORS_H
#define ANCHOR_ANCHORS_H

#include "pipeline/anchor/anchor.h"
#include "store/history.h"

struct anchors;

struct anchors_options {
    const char *store;         /* path or address */
    const char *ca_file;       /* "": the system's authorities */
    const struct anchor *list; /* checked; must outlive the anchors */
    size_t count;
};

enum { ANCHORS_TEXT = 512, ANCHORS_ERROR_TEXT = 320, ANCHORS_TREES_TEXT = 4096 };

struct anchors_one {
    const char *name, *kind; /* "file", "s3", "witness" */
    uint64_t trees, waiting; /* of the streams; those with a newer checkpoint than the anchor has */
    uint64_t since_ms;       /* when the anchor got the oldest of what it has of those; 0: never */
    char error[ANCHORS_ERROR_TEXT]; /* of the last attempt; "": it was good */
    /* Elements of a JSON array: what the anchor has of each tree, as many as there is room for. */
    char anchored[ANCHORS_TREES_TEXT];
};

struct anchors_status {
    bool is_well;
    char text[ANCHORS_TEXT]; /* why not */
    size_t count;
    struct anchors_one list[ANCHORS_OF_ALL_MAX];
};

/* The error is the store's; *ret is NULL then. */
enum err anchors_start(const struct anchors_options *o, struct history *history,
                       struct anchors **ret, struct fault *f);
/* Gives up what is being sent. NULL is permitted. */
void anchors_stop(struct anchors *a);
void anchors_status(struct anchors *a, struct anchors_status *ret); /* any thread */

#endif
