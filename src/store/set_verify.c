/* set_verify.c - compares all rows of policies and keys with the list of the set. */
#include "store/set.h"

#include <stdio.h>

#include "store/set_inside.h"

enum { NAMED_MAX = 3 };

/* The rows that are wrong, for a fault of some hundred bytes. */
struct wrong {
    char text[232];
    struct buf names;
    size_t count;
};

static void note_wrong(struct wrong *w, enum set_kind kind, struct str tenant, struct str name,
                       const char *what)
{
    struct fault f;
    if (w->count++ >= NAMED_MAX) return;
    (void)set_refused(&f, kind, str_cut(tenant, 64), str_cut(name, 64), what);
    buf_printf(&w->names, "%s%s", w->names.size > 0 ? "; " : "", f.text);
}

static void note_row(struct stored_set *t, struct wrong *w, enum set_kind kind, struct str tenant,
                     struct str name, const struct sha256 *digest)
{
    struct set_entry *e = set_find(t, kind, kind == SET_KEY ? STR("") : tenant, name);
    if (e == NULL) {
        note_wrong(w, kind, tenant, name, "was added");
        return;
    }
    if (e->is_seen)
        note_wrong(w, kind, tenant, name, "is there twice");
    else if (digest == NULL || memcmp(e->digest.bytes, digest->bytes, SHA256_BYTES) != 0)
        note_wrong(w, kind, tenant, name, "was changed");
    e->is_seen = true;
}

static enum err look_at_keys(struct store *s, struct wrong *w)
{
    struct statement *q =
        database_statement(s->database, "SELECT id, tenant_id, key FROM keys ORDER BY number");
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) {
        const struct sha256 digest =
            set_key_digest(s->set, column_text(q, 0), column_text(q, 1), column_text(q, 2));
        note_row(s->set, w, SET_KEY, column_text(q, 1), column_text(q, 0), &digest);
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static enum err look_at_policies(struct store *s, struct wrong *w)
{
    struct statement *q = database_statement(s->database, SET_POLICY_ROWS);
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) {
        struct set_policy p;
        bool is_whole = set_policy_of(q, &p);
        const struct sha256 digest = set_policy_digest(s->set, &p);
        note_row(s->set, w, SET_POLICY, p.tenant, p.name, is_whole ? &digest : NULL);
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static void look_for_missing(struct stored_set *t, bool policies, struct wrong *w)
{
    for (size_t i = 0; i < t->count; i++) {
        struct set_name name = set_name_of(&t->list[i]);
        if (!t->list[i].is_seen && (policies || name.kind == SET_KEY))
            note_wrong(w, name.kind, name.tenant, name.name, "was deleted");
    }
}

/* The state of the database may be an older one, which was good then. */
static enum err check_follows(struct store *s, struct fault *f)
{
    const struct seen seen = history_seen(s);
    struct revision now;
    bool follows;
    enum err err = history_look(s, &seen.revision, &now, &follows, f);
    if (err != ERR_OK) return err;
    if (follows) {
        history_note(s, &now, s->set->adopted_at);
        return ERR_OK;
    }
    if (s->set->adopted_at > seen.adopted_at) return ERR_OK; /* store_settle_history() notes it */
    return set_is_older(f, &now, &seen);
}

static enum err compare(struct store *s, bool policies, struct wrong *w)
{
    for (size_t i = 0; i < s->set->count; i++) s->set->list[i].is_seen = false;
    enum err err = look_at_keys(s, w);
    if (err == ERR_OK && policies) err = look_at_policies(s, w);
    if (err == ERR_OK) look_for_missing(s->set, policies, w);
    return err;
}

enum err set_verify(struct store *s, bool policies, struct fault *f)
{
    struct wrong w = {.count = 0};
    w.names = buf_over(w.text, sizeof w.text);
    enum err refused = set_open_any(s, f);
    /* An empty list is that of a store that was never adopted: it would name every row. */
    if (refused != ERR_OK && (s->set == NULL || s->set->count == 0)) return refused;
    enum err err = compare(s, policies, &w);
    if (err != ERR_OK) return store_fault(s, err, f);
    if (w.count == 0) return refused != ERR_OK ? refused : check_follows(s, f);
    char more[48] = "";
    if (w.count > NAMED_MAX) snprintf(more, sizeof more, "; and %zu more", w.count - NAMED_MAX);
    return fault_set(f, ERR_SET_REFUSED, "", "%.*s%s: in the database%s. Look with writ set show",
                     STR_FORMAT(buf_view(&w.names)), more,
                     refused != ERR_OK ? ", and the MAC does not fit" : "");
}

enum err set_compare(struct store *s, struct fault *f)
{
    f->text[0] = '\0';
    enum err err = database_begin_read(s->database);
    if (err != ERR_OK) return err;
    err = database_check_schema(s->database, f);
    if (err == ERR_OK) err = set_verify(s, true, f);
    if (err != ERR_OK && err != ERR_SET_REFUSED) f->text[0] = '\0';
    set_close(s);
    database_rollback(s->database); /* it only reads */
    return err;
}
