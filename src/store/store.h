/* store.h - one connection to all data of the platform.
 *
 * A file of SQLite, or a database on a PostgreSQL server. Code above database.h does not depend on
 * which.
 *
 * Belongs to one thread. A platform has a writer, a consumer, a retention thread and some readers
 * on the same store. Other platforms and the command line may use it, too (writers take turns).
 * Policies and keys share one revision, which every change of either raises in its own transaction
 * (history.h). Engines follow this revision. log_id is random per database. */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/buf.h"
#include "base/fault.h"
#include "store/audit_store.h"
#include "store/history.h"

struct store;

enum { STORE_LOG_ID_TEXT = 32 };

/* Whether this is the address of a PostgreSQL server rather than the path of a file. */
bool store_is_address(const char *place);
/* `path`: a path or an address. A writer creates a missing file (0600) and migrates it. */
enum err store_open(const char *path, bool writer, struct store **ret, struct fault *f);
void store_close(struct store *s);

/* On the same connection; ends with the store. */
struct audit_store *store_audit(struct store *s);
const char *store_log_id(const struct store *s); /* STORE_LOG_ID_TEXT characters, NUL-terminated */
/* Whether the store can be read now, and has the schema that this program knows. */
enum err store_probe(struct store *s, struct fault *f);

/* The actor of changes by files (policies.dir). No key may have this name. */
#define FILES_PRINCIPAL "policies.dir"

/* The actor of a change, for its audit row. */
struct actor {
    struct str principal; /* the key's name */
    struct str key_id;    /* absent: no key (the command line on the data directory) */
    struct str request_id;
    uint64_t now_ms;
};

struct ed25519;
/* The platform's key, for notes about removed records (removal.h). It outlives the store. */
void store_share_signer(struct store *s, const struct ed25519 *key);

#endif
