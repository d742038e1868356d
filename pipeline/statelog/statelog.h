/* statelog.h - a fleet's log in Kafka: one topic with one partition, appended to and read in order.
 *
 *            entries ──▶ producer, acks=all, one in flight ──┐
 *   member                                                   ├─▶ topic ──▶ reader ──▶ member
 *            heartbeats ▶ producer of their own ─────────────┘
 *   watch    each minute: topic, settings, brokers, the log's end
 *
 * Entries never time out here: an append that Kafka delays may be acknowledged late, and until then
 * its outcome is open. It fails only where the library cannot go on, and then its outcome is
 * unknown. A heartbeat fails after STATELOG_HEARTBEAT_MS, since the next one replaces it.
 *
 * Kafka shows to readers only what is on all replicas in sync. So an entry that was read back
 * outlives the loss of a broker, if the topic's settings are safe; statelog_open() refuses others.
 *
 * One thread, the member's, makes all calls, except for those that are marked. */
#ifndef STATELOG_STATELOG_H
#define STATELOG_STATELOG_H

#include "base/fault.h"
#include "pipeline/topic/topic.h"

struct statelog;

enum {
    STATELOG_HEARTBEAT_MS = 3000,
    STATELOG_WATCH_MS = 60000,
    STATELOG_REASON_TEXT = 320,
    STATELOG_MESSAGE_BYTES = 512 << 10, /* that the topic has to take at least */
};

struct statelog_options {
    struct topic_access access; /* its topic is the log's; copied */
    bool single_broker;         /* accepts one replica */
    bool make;                  /* makes the topic if it is missing */
    /* A second reader: nothing is checked, watched or appended. */
    bool reads_only;
};

/* Connects and checks the topic. ERR_BAD_VALUE: an option, the topic or a broker is not as it has to
 * be, with what to do; ERR_UPSTREAM_FAILED: no broker answers. */
enum err statelog_open(const struct statelog_options *options, struct statelog **ret,
                       struct fault *f);
void statelog_close(struct statelog *l);

/* The offsets that the log has: [*ret_begin, *ret_end). ERR_UPSTREAM_FAILED. */
enum err statelog_bounds(struct statelog *l, uint64_t *ret_begin, uint64_t *ret_end,
                         struct fault *f);

/* ---- reading ---- */

/* From this offset on; once. */
enum err statelog_read_from(struct statelog *l, uint64_t offset, struct fault *f);

/* The same while it reads. */
enum err statelog_read_again(struct statelog *l, uint64_t offset, struct fault *f);

struct statelog_message {
    uint64_t offset;
    uint64_t append_ms; /* the broker's clock */
    struct str bytes;   /* valid until the next call */
};
enum statelog_read {
    STATELOG_NOTHING,
    STATELOG_MESSAGE,
    STATELOG_GONE, /* the log does not have the offset any more, or not yet */
};
/* After a while without the next offset, an engine's own log sends the message before it again. */
enum statelog_read statelog_next(struct statelog *l, struct statelog_message *ret);

/* ---- appending: at most one of each kind at a time ---- */

enum statelog_kind { STATELOG_ENTRY, STATELOG_HEARTBEAT };
/* Copies. False: the library does not take it; for an entry its outcome is certain: it failed. */
bool statelog_append(struct statelog *l, enum statelog_kind kind, struct str bytes);
/* How an append came out: one result for each. False: none is here. */
bool statelog_result(struct statelog *l, enum statelog_kind *ret_kind, bool *ret_good);

/* ---- waiting ---- */

/* Until there is something to read, a result, or a wake. */
void statelog_wait(struct statelog *l, uint32_t ms);
void statelog_wake(struct statelog *l); /* any thread */

/* ---- the watch ---- */

/* The reader has read all below `next`: the log must not end before it. */
void statelog_note_next(struct statelog *l, uint64_t next);
/* The log ends at *ret_end, before what was read. False: that was not seen. */
bool statelog_was_cut(struct statelog *l, uint64_t *ret_end);
/* Gives up all entries below this offset: the brokers remove them soon. An offset below an earlier one
 * is ignored. Any thread. */
void statelog_trim(struct statelog *l, uint64_t below);
/* The entries that the log has, as of the latest look; any thread. */
uint64_t statelog_size(const struct statelog *l);
/* Why the log is not safe, or cannot be reached, as of the latest look. False: all is well. Any
 * thread. */
bool statelog_trouble(struct statelog *l, char to[STATELOG_REASON_TEXT]);
/* Whether that is about a setting: then nothing may be answered by this log. */
bool statelog_is_unsafe(struct statelog *l);

#endif
