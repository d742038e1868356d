/* reads.h - reads of the audit trail, counted per key and minute until they are recorded (audit.read).
 * So a client that polls each second costs one event a minute.
 *
 * The first filters of a minute are named; further ones are counted together. An answer that has only
 * events about the same key's reads is not counted: else a client that waits for new events would make
 * one itself by each look. Up to a minute of reads is lost if the platform is killed. Belongs to the
 * reactor. */
#ifndef PLATFORM_READS_H
#define PLATFORM_READS_H

#include "base/id.h"
#include "http/client_address.h"

enum {
    READERS_COUNTED_MAX = 64, /* beyond it the oldest is recorded early */
    READ_FILTERS_MAX = 4,
    READ_FILTER_TEXT = 200,
    READ_NAME_TEXT = 1024,
    READ_REASON_TEXT = 2048,
};

struct read_filter {
    char text[READ_FILTER_TEXT]; /* "query kind=decision actor=bot" */
    uint64_t requests, events;
};

struct reader {
    char key_id[ID_TEXT + 1], principal[READ_NAME_TEXT], tenant[READ_NAME_TEXT];
    char request_id[ID_TEXT];                             /* of the latest */
    uint64_t minute;                                      /* since 1970 */
    struct client_address client;                         /* of the latest */
    struct read_filter filters[READ_FILTERS_MAX], others; /* others: without a text */
    size_t filter_count;
};

struct reads {
    struct reader readers[READERS_COUNTED_MAX]; /* the oldest first */
    size_t count;
    bool is_waiting; /* the last one could not be recorded */
};

struct job;
struct platform;

/* The job has read so many events, by this filter. */
void reads_note(struct job *j, struct str filter, uint64_t events);
/* Records the minutes that are over; while the platform drains, all. Each second. */
void reads_record(struct platform *p);

#endif
