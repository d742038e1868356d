/* streams.h - the limits of streams, and how a stream and its engine are forgotten.
 *
 * A stream (node, journal) begins with its first record, from any client with a key for the node.
 * To bound this, a node has at most LIMIT_STREAMS_PER_NODE streams, and all nodes together
 * LIMIT_STREAMS. An existing stream continues whatever others begin. A new one is refused with
 * ERR_NODE_FULL until some are forgotten.
 *
 * Forgetting a stream removes its position and its requested replays. Its records stay, with their
 * seqs: a later record with the same seq is a duplicate, or a clash. Forgetting a whole node also
 * removes it from the engines that revocations wait for (follower_store.h).
 *
 * Blocking; belongs to the thread of its store (a writer, except for streams_full). */
#ifndef STORE_STREAMS_H
#define STORE_STREAMS_H

#include "store/store.h"

enum { FORGET_REASON_CHARACTERS = 512, STREAM_RECENT_HOURS = 24 };

/* Within a transaction: whether a new stream of this node may begin. ERR_NODE_FULL names the next
 * step. */
enum err stream_room(struct store *s, struct str node, struct fault *f);
/* The same for a replay of a stream that does not exist. */
enum err replay_room(struct store *s, struct str node, bool *ret, struct fault *f);

struct stream_forget {
    struct str node,
        journal;       /* journal absent: the node, and all its streams that are not recent */
    bool force;        /* the recent ones, too */
    struct str reason; /* at most FORGET_REASON_CHARACTERS */
};

struct stream_forgotten {
    uint64_t streams, kept; /* removed; left of those that were named */
    bool engine;            /* revocations do not wait for the node any more */
};

/* Removes the streams, and records that as an event `audit.forgotten` of tenant `*`, in one
 * transaction. ERR_NOT_FOUND: the node has none, and follows nothing. ERR_PRECONDITION_FAILED: each
 * stream has a record within STREAM_RECENT_HOURS, or is the journal 0 of a node that followed
 * policies and keys within that time. Also the errors of key_store_begin(): the caller's key has
 * ended. */
enum err stream_forget(struct store *s, const struct stream_forget *what, const struct actor *by,
                       struct stream_forgotten *ret, struct fault *f);

struct streams_full {
    char text[400]; /* the nodes that can begin no other stream; "": all can */
};
/* The first streams that have checkpoints and no registered key that counts, as JSON:
 * [{"journal":…,"node":…}]. */
enum { STREAMS_UNTRUSTED_TOLD = 8, STREAMS_UNTRUSTED_TEXT = 32 << 10 };
struct streams_untrusted {
    char json[STREAMS_UNTRUSTED_TEXT]; /* "": not looked up yet */
};
enum err streams_untrusted(struct store *s, struct streams_untrusted *ret, struct fault *f);

enum err streams_full(struct store *s, struct streams_full *ret, struct fault *f);

#endif
