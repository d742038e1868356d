/* review_index.h - how the table indexes a review; for review_table.c alone. */
#ifndef SHARDS_REVIEW_INDEX_H
#define SHARDS_REVIEW_INDEX_H

#include "shards/review_table.h"

/* The existing subject, or a new one without reviews (the caller releases it if no review follows).
 * NULL: out of memory. */
struct review_subject *review_subject_take(struct review_table *t, struct str tenant, bool is_user,
                                           struct str name);
/* frees it if it has no reviews */
void review_subject_release(struct review_table *t, struct review_subject *s);
/* To the list of the review's present state, and from it. */
void review_subject_add(struct review_subject *s, struct review *r);
void review_subject_remove(struct review *r);

/* Puts it at the head of the row of those with its request; false: out of memory. */
bool review_same_file(struct review_table *t, struct review *r);
void review_same_remove(struct review_table *t, struct review *r);

/* NULL: out of memory */
struct review_tenant *review_tenant_take(struct review_table *t, struct str name);
void review_tenant_destroy(struct review_tenant *n);

/* k->key is set, and lives as long as the review. False: out of memory. */
bool review_trace_file(struct review_table *t, struct review *r, struct review_trace *k);
void review_traces_remove(struct review_table *t, struct review *r); /* all of the review's */

#endif
