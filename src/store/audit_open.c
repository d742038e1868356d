/* audit_open.c - makes the audit store of a database: insertion depends on the kind of database. */
#include "store/audit_rows.h"

#include <stdlib.h>

#include "base/check.h"

struct audit_rows *audit_rows_create(struct database *d)
{
    struct audit_rows *a = calloc(1, sizeof *a);
    check(a != NULL);
    a->database = d;
    a->index = audit_index_create(d);
    if (database_is_postgres(d)) a->pending = audit_pending_create();
    return a;
}

void audit_rows_destroy(struct audit_rows *a)
{
    if (a == NULL) return;
    audit_index_destroy(a->index);
    audit_pending_destroy(a->pending);
    free(a);
}

const struct audit_store_ops *audit_rows_ops(const struct database *d)
{
    return database_is_postgres(d) ? &audit_postgres_ops : &audit_sqlite_ops;
}
