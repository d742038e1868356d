#include "store/store.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/set_inside.h"

static const char select_store[] = "SELECT log_id FROM store";

static enum err read_log_id(struct store *s, struct fault *f)
{
    struct statement *q = database_statement(s->database, select_store);
    enum err err = statement_step(q);
    struct str id = err == ERR_OK ? column_text(q, 0) : (struct str){0};
    if (err == ERR_OK && id.size != STORE_LOG_ID_TEXT) err = ERR_CORRUPT;
    if (err == ERR_OK) {
        memcpy(s->log_id, id.bytes, STORE_LOG_ID_TEXT);
        database_identify(s->database, s->log_id);
    } else {
        (void)store_fault(s, err == ERR_END ? ERR_CORRUPT : err, f);
    }
    statement_reset(q);
    return err == ERR_END ? ERR_CORRUPT : err;
}

enum err list_page_step(struct list_page *p, struct statement *q, struct buf *out)
{
    enum err err = statement_step(q);
    if (err != ERR_OK) return err;
    if (p->count == p->limit || (p->bytes_most > 0 && out->size > p->bytes_most)) {
        p->next = p->last;
        return ERR_END;
    }
    if (p->count++ > 0) buf_put_byte(out, ',');
    p->last = column_u64(q, p->id_column);
    return ERR_OK;
}

bool store_is_address(const char *place) { return database_is_address(place); }

/* SQLite creates files with the umask. Ours has MACs and people's arguments, so it is created
 * before, closed to others (WAL and index files take their mode from it). An existing file is not
 * opened: closing any descriptor of a file releases the locks that this process's other connections
 * have on it, and then another process would delete the log that they write to. */
static void make_private(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
}

enum err store_open(const char *path, bool writer, struct store **ret, struct fault *f)
{
    struct store *s = calloc(1, sizeof *s);
    if (s == NULL) return fault_plain(f, ERR_FULL);
    if (writer && !database_is_address(path)) make_private(path);
    enum err err = database_open(path, writer, &s->database, f);
    if (err == ERR_OK) err = read_log_id(s, f);
    if (err != ERR_OK) {
        store_close(s);
        return err;
    }
    s->audit_state = audit_rows_create(s->database);
    s->audit = (struct audit_store){.ops = audit_rows_ops(s->database), .state = s->audit_state};
    s->decoder = decoder_create();
    s->hasher = hasher_create();
    *ret = s;
    return ERR_OK;
}

void store_forget_asked(struct store *s)
{
    size_t cursor = 0;
    struct str name;
    void *known;
    while (map_next(&s->asked, &cursor, &name, &known)) free(known);
    map_fini(&s->asked);
}

void store_close(struct store *s)
{
    if (s == NULL) return;
    set_close(s);
    memory_wipe(&s->set_keys, sizeof s->set_keys);
    store_forget_asked(s);
    decoder_destroy(s->decoder);
    hasher_destroy(s->hasher);
    memory_wipe(&s->run_key, sizeof s->run_key);
    audit_rows_destroy(s->audit_state);
    database_close(s->database);
    free(s);
}

void store_share_signer(struct store *s, const struct ed25519 *key) { s->signer = key; }

struct audit_store *store_audit(struct store *s) { return &s->audit; }

const char *store_log_id(const struct store *s) { return s->log_id; }

enum err store_probe(struct store *s, struct fault *f)
{
    struct revision revision;
    enum err err = database_present(s->database);
    if (err != ERR_OK) return store_fault(s, err, f);
    err = store_revision(s, &revision, f);
    return err == ERR_OK ? database_check_schema(s->database, f) : err;
}

enum err store_begin(struct store *s, struct fault *f)
{
    s->streams_counted = s->replays_counted = 0;
    enum err err = s->audit.ops->begin(s->audit.state);
    if (err != ERR_OK) return store_fault(s, err, f);
    err = database_check_schema(s->database, f);
    if (err != ERR_OK) s->audit.ops->rollback(s->audit.state);
    return err;
}

enum err store_end(struct store *s, enum err err, struct fault *f)
{
    if (err == ERR_OK) err = set_seal(s, f);
    set_close(s);
    if (err != ERR_OK) {
        s->audit.ops->rollback(s->audit.state);
        history_committed(s, false);
        return err;
    }
    err = s->audit.ops->commit(s->audit.state);
    history_committed(s, err == ERR_OK);
    return store_fault(s, err, f);
}

/* The time of its adoption; only the MAC makes it true. */
static enum err read_adopted_at(struct store *s, uint64_t *ret, struct fault *f)
{
    struct statement *q = database_statement(s->database, "SELECT adopted_at FROM store");
    enum err err = statement_step(q);
    if (err == ERR_OK) *ret = column_u64(q, 0);
    statement_reset(q);
    return store_fault(s, err == ERR_END ? ERR_CORRUPT : err, f);
}

enum err store_settle_history(struct store *s, uint64_t *ret_lost, struct fault *f)
{
    const struct seen seen = history_seen(s);
    struct history *h = s->history;
    struct revision now;
    bool follows;
    uint64_t number, adopted_at = 0;
    *ret_lost = 0;
    enum err err = history_look(s, &seen.revision, &now, &follows, f);
    if (err == ERR_OK && !follows) err = read_adopted_at(s, &adopted_at, f);
    if (err == ERR_OK && adopted_at > seen.adopted_at) {
        err = store_begin(s, f);
        if (err == ERR_OK) err = store_end(s, store_raise_revision(s, &number, f), f);
    }
    if (err != ERR_OK || h == NULL) return err;
    pthread_mutex_lock(&h->lock);
    *ret_lost = h->lost;
    h->lost = 0;
    pthread_mutex_unlock(&h->lock);
    return ERR_OK;
}
