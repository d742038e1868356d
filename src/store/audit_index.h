/* audit_index.h - finds the places of the table of records to read; inside this room only.
 *
 * Records are numbered in the order of arrival, so records of one time are neighbours. 1,024
 * records are a block, 64 blocks a segment:
 *
 *   places  (segment, tenant, member, value) → a word with one bit per block of the segment: set
 *           if a record of the block has this actor, action, decision, kind, rule or user. A
 *           query ANDs the words of all its values, and reads only the blocks that are left.
 *   traces  (segment, hash of the trace id, id): a trace is one seek per segment.
 *   minutes (tenant, minute of event time) → the first and the last id in it: a query by time is
 *           a query by id.
 *
 * An ordinary index on (tenant, actor) has an entry per record, and each batch dirties a page for
 * each actor in it. Eight such indexes cost more than the records. Here a batch writes one word per
 * value that it has, and the words are neighbours at the end of the table. Reading a block of 1,024
 * records for a few matches costs a fraction of a millisecond. The price is a seek per segment for
 * rare values: 1,500 seeks in a hundred million records. */
#ifndef STORE_AUDIT_INDEX_H
#define STORE_AUDIT_INDEX_H

#include "event/event.h"
#include "store/database.h"

enum { AUDIT_BLOCK_BITS = 10, AUDIT_SEGMENT_BITS = 16, AUDIT_MINUTE_MS = 60000 };

/* The members in `places`. The numbers are stored in the database and never change. */
enum audit_member {
    AUDIT_TENANT, /* any record of the tenant; its value is "" */
    AUDIT_ACTOR,
    AUDIT_ACTION,
    AUDIT_DECISION,
    AUDIT_KIND,
    AUDIT_RULE,
    AUDIT_USER,
    AUDIT_MEMBERS
};

struct audit_index; /* the index entries of one transaction */

struct audit_index *audit_index_create(struct database *d);
void audit_index_destroy(struct audit_index *x);
/* Within a transaction: the record `id` has this event. */
enum err audit_index_note(struct audit_index *x, const struct event *e, uint64_t id);
enum err audit_index_flush(struct audit_index *x); /* before the commit */
void audit_index_clear(struct audit_index *x);

/* Returns the segment's blocks that have a record with this value. */
enum err audit_index_blocks(struct database *d, uint64_t segment, struct str tenant,
                            enum audit_member member, struct str value, uint64_t *ret_blocks);
uint32_t audit_trace_hash(struct str trace_id);

#endif
