/* store_inside.h - what the stores of this room share; inside this room only. */
#ifndef INGEST_STORE_INSIDE_H
#define INGEST_STORE_INSIDE_H

#include "base/map.h"
#include "base/world.h"
#include "pipeline/ingest/audit_rows.h"
#include "pipeline/ingest/database.h"
#include "pipeline/ingest/decoder.h"
#include "pipeline/ingest/own_event.h"
#include "pipeline/ingest/store.h"

struct store {
    struct database *database;
    struct audit_store audit; /* over the same connection */
    struct audit_rows *audit_state;
    struct decoder *decoder; /* of batches */
    struct chance chance;
    char log_id[STORE_LOG_ID_TEXT + 1];
    uint64_t alarm_second; /* when it was last told of a quarantined record */
    unsigned alarms;       /* in that second */
    struct map asked;      /* consumer_store.c: since when this process knows of which replay */
};

/* Says in *f what the database does of this failure; ERR_OK stays so. */
enum err store_fault(struct store *s, enum err err, struct fault *f);
/* Raises the revision within the transaction. */
enum err store_raise_revision(struct store *s, uint64_t *ret, struct fault *f);

/* A page of a list on its way into a body: the ids by which its rows are sorted are its cursors. */
struct list_page {
    uint64_t limit;    /* of rows */
    size_t bytes_most; /* of the body: then the page ends early; 0 = whatever its rows need */
    int id_column;
    /* rows so far; the last one's id; not 0: where the next page begins */
    uint64_t count, last, next;
};

/* Steps to the page's next row and puts the comma before it. ERR_END: there is none, or no room. */
enum err list_page_step(struct list_page *p, struct statement *q, struct buf *out);

void store_forget_asked(struct store *s);

/* Takes the write lock; ERR_STORE_UNAVAILABLE, too, where the schema is another program's by
 * now. */
enum err store_begin(struct store *s, struct fault *f);
/* Ends the transaction: commits where `err` is ERR_OK, else rolls back and keeps the error. Fills
 * *f where the commit is what failed. */
enum err store_end(struct store *s, enum err err, struct fault *f);

#endif
