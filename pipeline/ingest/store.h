/* store.h - one connection to everything that the platform keeps.
 *
 * A file of SQLite's, or a database on a PostgreSQL server; above database.h nobody knows which.
 *
 * Belongs to one thread. A platform has a writer, a consumer, a keeper and some readers over the
 * same store, and so may other platforms and the command line (writers take turns). Policies and
 * keys share one revision, which every change of either raises by one in its own transaction: what
 * engines follow. log_id is random per database. */
#ifndef INGEST_STORE_H
#define INGEST_STORE_H

#include "base/buf.h"
#include "base/fault.h"
#include "pipeline/ingest/audit_store.h"

struct store;

enum { STORE_LOG_ID_TEXT = 32 };

/* Whether this is the address of a PostgreSQL server rather than the path of a file. */
bool store_is_address(const char *place);
/* `path`: or an address. A writer makes the file (0600) where there is none and migrates it. */
enum err store_open(const char *path, bool writer, struct store **ret, struct fault *f);
void store_close(struct store *s);

/* Over the same connection; ends with the store. */
struct audit_store *store_audit(struct store *s);
const char *store_log_id(const struct store *s); /* STORE_LOG_ID_TEXT characters, NUL-terminated */
enum err store_revision(struct store *s, uint64_t *ret, struct fault *f);
/* Whether the store can be read now, and has the schema that this program knows. */
enum err store_probe(struct store *s, struct fault *f);

/* The actor of changes by files (policies.dir); no key's name. */
#define FILES_PRINCIPAL "policies.dir"

/* Who did it, for the audit row of a change. */
struct actor {
    struct str principal; /* the key's name */
    struct str key_id;    /* absent: no key (the command line on the data directory) */
    struct str request_id;
    uint64_t now_ms;
};

#endif
