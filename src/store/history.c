/* history.c - see history.h. */
#include "store/history.h"

#include "base/log.h"
#include "store/set_inside.h"

bool revision_equal(const struct revision *a, const struct revision *b)
{
    return a->number == b->number && strcmp(a->history_id, b->history_id) == 0;
}

void history_init(struct history *h)
{
    *h = (struct history){0};
    pthread_mutex_init(&h->lock, NULL);
}

void history_fini(struct history *h) { pthread_mutex_destroy(&h->lock); }

void store_share_history(struct store *s, struct history *h) { s->history = h; }

struct seen history_seen(const struct store *s)
{
    struct seen seen = {.adopted_at = 0};
    if (s->history == NULL) return seen;
    pthread_mutex_lock(&s->history->lock);
    seen = (struct seen){s->history->newest, s->history->adopted_at};
    pthread_mutex_unlock(&s->history->lock);
    return seen;
}

static void note(struct history *h, const struct revision *now, uint64_t adopted_at)
{
    if (now->number <= h->newest.number) return;
    h->newest = *now;
    h->adopted_at = adopted_at;
}

void history_note(struct store *s, const struct revision *now, uint64_t adopted_at)
{
    struct history *h = s->history;
    if (h == NULL) return;
    pthread_mutex_lock(&h->lock);
    note(h, now, adopted_at);
    pthread_mutex_unlock(&h->lock);
}

/* Reads the store's revision, and whether it follows the revisions that this process saw: one
 * statement, one snapshot. */
enum err history_look(struct store *s, const struct revision *seen, struct revision *ret,
                      bool *ret_follows, struct fault *f)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT revision, history_id, CASE WHEN revision >= ?1 AND (?1 < (SELECT min(number) FROM"
        " revisions) OR EXISTS (SELECT 1 FROM revisions WHERE number = ?1 AND history_id = ?2))"
        " THEN 1 ELSE 0 END FROM store");
    bind_u64(q, 1, seen->number);
    bind_text(q, 2, str_from(seen->history_id));
    enum err err = statement_step(q);
    *ret = (struct revision){0};
    if (err == ERR_OK) {
        struct str id = column_text(q, 1);
        ret->number = column_u64(q, 0);
        if (id.size > HISTORY_ID_TEXT) err = ERR_CORRUPT;
        if (err == ERR_OK && id.size > 0) memcpy(ret->history_id, id.bytes, id.size);
        *ret_follows = column_u64(q, 2) == 1;
    } else if (err == ERR_END) {
        err = ERR_CORRUPT;
    }
    if (err != ERR_OK) (void)store_fault(s, err, f);
    statement_reset(q);
    return err;
}

enum err store_revision(struct store *s, struct revision *ret, struct fault *f)
{
    return history_look(s, &(struct revision){0}, ret, &(bool){false}, f);
}

static enum err write_revision(struct store *s, const struct revision *to)
{
    struct statement *q =
        database_statement(s->database, "UPDATE store SET revision = ?1, history_id = ?2");
    bind_u64(q, 1, to->number);
    bind_text(q, 2, str_from(to->history_id));
    enum err err = statement_run(q);
    if (err != ERR_OK) return err;
    q = database_statement(s->database,
                           "INSERT INTO revisions (number, history_id) VALUES (?1, ?2)");
    bind_u64(q, 1, to->number);
    bind_text(q, 2, str_from(to->history_id));
    err = statement_run(q);
    if (err != ERR_OK || to->number <= REVISIONS_KEPT) return err;
    q = database_statement(s->database, "DELETE FROM revisions WHERE number <= ?1");
    bind_u64(q, 1, to->number - REVISIONS_KEPT);
    return statement_run(q);
}

enum err store_raise_revision(struct store *s, uint64_t *ret, struct fault *f)
{
    const struct seen seen = history_seen(s);
    struct revision now;
    bool follows;
    enum err err = set_open(s, f);
    if (err == ERR_OK) err = history_look(s, &seen.revision, &now, &follows, f);
    if (err != ERR_OK) return err;
    if (!follows && s->set->adopted_at <= seen.adopted_at) return set_is_older(f, &now, &seen);
    struct raised *r = &s->raised;
    r->lost = follows ? 0 : seen.revision.number;
    r->adopted_at = s->set->adopted_at;
    r->to.number = (r->lost > now.number ? r->lost : now.number) + 1;
    uint8_t bytes[HISTORY_ID_TEXT / 2];
    struct buf id = buf_over(r->to.history_id, HISTORY_ID_TEXT);
    world_random(bytes, sizeof bytes);
    buf_put_hex(&id, bytes, sizeof bytes);
    r->to.history_id[HISTORY_ID_TEXT] = '\0';
    err = write_revision(s, &r->to);
    if (err != ERR_OK) return store_fault(s, err, f);
    set_note_revision(s, &r->to);
    *ret = r->to.number;
    return ERR_OK;
}

void history_committed(struct store *s, bool is_committed)
{
    const struct raised r = s->raised;
    struct history *h = s->history;
    s->raised = (struct raised){0};
    if (!is_committed || h == NULL || r.to.number == 0) return;
    pthread_mutex_lock(&h->lock);
    note(h, &r.to, r.adopted_at);
    if (r.lost > h->lost) h->lost = r.lost;
    pthread_mutex_unlock(&h->lock);
    if (r.lost > 0)
        log_text(
            LOG_ERROR, "store_went_back",
            "the store has lost revision %llu: it was restored, or a "
            "failover lost its newest changes. It goes on with revision %llu. Repeat the changes "
            "of policies and keys that are missing",
            (unsigned long long)r.lost, (unsigned long long)r.to.number);
}
