#include "store/key_store.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"
#include "store/key_row.h"
#include "store/set_inside.h"

enum { KEY_ROW_BYTES = 512 << 10 /* five lists at their longest, escaped */ };

/* ---- rows ---- */

static enum err row_write(struct store *s, const char *sql, const struct key *k, struct fault *f)
{
    struct buf row;
    buf_init(&row, 1 << 10, KEY_ROW_BYTES);
    key_put(&row, k, true);
    enum err err = row.overflow ? ERR_FULL : ERR_OK;
    if (err == ERR_OK) {
        struct statement *q = database_statement(s->database, sql);
        bind_text(q, 1, str_of(k->id_text, ID_TEXT));
        bind_text(q, 2, k->tenant);
        bind_text(q, 3, buf_view(&row));
        err = store_fault(s, statement_run(q), f);
        if (err == ERR_OK)
            err = set_put_key(s, str_of(k->id_text, ID_TEXT), k->tenant, buf_view(&row), f);
    } else {
        (void)fault_plain(f, err);
    }
    buf_fini(&row);
    return err;
}

static enum err row_add(struct store *s, const struct key *k, struct fault *f)
{
    return row_write(s, "INSERT INTO keys (id, tenant_id, key) VALUES (?1, ?2, ?3)", k, f);
}

static enum err row_change(struct store *s, const struct key *k, struct fault *f)
{
    return row_write(s, "UPDATE keys SET tenant_id = ?2, key = ?3 WHERE id = ?1", k, f);
}

/* The tenant's key with that id. The caller owns it. `changes`: a change of the key is about to be
 * made from its row. */
static enum err key_find(struct store *s, struct str tenant, struct id id, bool changes,
                         struct key **ret, struct fault *f)
{
    char text[ID_TEXT];
    id_write("key_", id, text);
    struct statement *q = database_statement(
        s->database,
        "SELECT key, id, tenant_id FROM keys WHERE id = ?1 AND (?2 IS NULL OR tenant_id = ?2)");
    bind_text(q, 1, str_of(text, sizeof text));
    bind_text(q, 2, tenant);
    enum err err = statement_step(q);
    if (err == ERR_OK) {
        if (changes)
            err = set_check_key(s, column_text(q, 1), column_text(q, 2), column_text(q, 0), f);
        if (err == ERR_OK) err = key_row_read(column_text(q, 0), ret, f);
    } else if (err == ERR_END) {
        err = fault_set(f, ERR_NOT_FOUND, "", "there is no key %.*s in this tenant", ID_TEXT, text);
    } else {
        (void)store_fault(s, err, f);
    }
    statement_reset(q);
    return err;
}

/* Changes without a key come from the command line or a directory of policies. The caller's key was
 * found in a good table before, so only its end is asked for here, and records are stored while the
 * set is refused. */
static enum err check_holds(struct store *s, struct str key_id, struct fault *f)
{
    struct id id;
    struct key *k;
    if (str_is_absent(key_id)) return ERR_OK;
    check(id_read("key_", key_id, &id));
    enum err err = key_find(s, (struct str){0}, id, false, &k, f);
    if (err == ERR_NOT_FOUND) return fault_plain(f, ERR_CREDENTIAL_REVOKED);
    if (err != ERR_OK) return err;
    err = key_in_force(k, world_expiry_ms(world_now_ms()));
    key_destroy(k);
    return err == ERR_OK ? ERR_OK : fault_plain(f, err);
}

enum err key_store_begin(struct store *s, struct str key_id, struct fault *f)
{
    enum err err = store_begin(s, f);
    if (err != ERR_OK) return err;
    err = check_holds(s, key_id, f);
    return err == ERR_OK ? ERR_OK : store_end(s, err, f);
}

/* Call after adding a row. If there are more than engines accept, the transaction is rolled
 * back. */
static enum err check_room(struct store *s, struct str tenant, struct fault *f)
{
    static const struct {
        uint64_t most;
        const char *of, *what;
    } bounds[] = {{LIMIT_KEYS_PER_TENANT, "a tenant", "keys"},
                  {LIMIT_KEY_BYTES_PER_TENANT, "a tenant", "bytes of keys"},
                  {LIMIT_KEYS, "all tenants together", "keys"},
                  {LIMIT_KEY_BYTES, "all tenants together", "bytes of keys"}};
    struct statement *q = database_statement(
        s->database, "SELECT count(CASE WHEN tenant_id = ?1 THEN 1 END),"
                     " coalesce(sum(CASE WHEN tenant_id = ?1 THEN octet_length(key) END), 0),"
                     " count(*), coalesce(sum(octet_length(key)), 0) FROM keys");
    uint64_t have[4] = {0};
    bind_text(q, 1, tenant);
    enum err err = statement_step(q);
    for (int i = 0; i < 4 && err == ERR_OK; i++) have[i] = column_u64(q, i);
    statement_reset(q);
    if (err != ERR_OK) return store_fault(s, err, f);
    for (int i = 0; i < 4; i++)
        if (have[i] > store_most(bounds[i].most))
            return fault_set(f, ERR_OUT_OF_RANGE, "",
                             "%s may have %llu %s, with those that ended within %d days",
                             bounds[i].of, (unsigned long long)store_most(bounds[i].most),
                             bounds[i].what, LIMIT_ENDED_KEY_DAYS);
    return ERR_OK;
}

static enum err record(struct store *s, const char *kind, const struct key *k, struct str reason,
                       const struct actor *by, struct fault *f)
{
    const struct own_event e = {.kind = kind,
                                .tenant = k->tenant,
                                .resource_type = "key",
                                .resource_id = str_of(k->id_text, ID_TEXT),
                                .reason = reason,
                                .expires_at = k->expires_at};
    return own_event_store(s, by, &e, f);
}

/* The start or end of a key counts from the transaction's turn, however long the request waited. */
static struct actor actor_now(const struct actor *by)
{
    struct actor now = *by;
    now.now_ms = world_now_ms();
    return now;
}

/* ---- making ---- */

/* Gives the key an id and a credential. The credential is written only to `to`. */
static void key_arm(struct store *s, const struct pepper *p, struct key *k, uint64_t now_ms,
                    char to[CREDENTIAL_TEXT])
{
    k->id = id_make(now_ms, &s->chance);
    id_write("key_", k->id, k->id_text);
    k->created_at = now_ms;
    k->revoked_at = 0;
    k->replaced_by = (struct str){0};
    k->original_expires_at = 0;
    credential_make(k->id, to);
    k->mac = credential_mac(p, str_of(to, CREDENTIAL_TEXT));
    k->pepper_fingerprint = pepper_fingerprint(p);
}

/* {…row, "key": credential: the row's own closing brace is reopened. */
static void put_with_credential(struct buf *out, const struct key *k,
                                const char credential[CREDENTIAL_TEXT])
{
    key_put(out, k, false);
    if (out->size > 0 && !out->overflow) out->size--;
    buf_put_literal(out, ",\"key\":\"");
    buf_put(out, str_of(credential, CREDENTIAL_TEXT));
    buf_put_literal(out, "\"");
}

static enum err create_step(struct store *s, struct key *k, const struct actor *by,
                            struct key_result *ret, struct fault *f)
{
    enum err err = row_add(s, k, f);
    if (err == ERR_OK) err = check_room(s, k->tenant, f);
    if (err == ERR_OK) err = store_raise_revision(s, &ret->revision, f);
    if (err == ERR_OK) err = record(s, "key.created", k, (struct str){0}, by, f);
    return err;
}

enum err key_store_create(struct store *s, const struct pepper *p, struct key *draft,
                          const struct actor *by, struct buf *out, struct key_result *ret,
                          struct fault *f)
{
    char credential[CREDENTIAL_TEXT];
    if (str_equal(draft->name, STR(FILES_PRINCIPAL)))
        return fault_set(f, ERR_BAD_VALUE, "/name",
                         "name: " FILES_PRINCIPAL
                         " is the service's own name for changes by files");
    if (str_is_dots(draft->name)) /* the name is also an actor, and could not be suspended */
        return fault_set(f, ERR_BAD_VALUE, "/name", "name: " STR_NO_DOTS);
    enum err err = key_store_begin(s, by->key_id, f);
    if (err == ERR_OK) {
        const struct actor now = actor_now(by);
        key_arm(s, p, draft, now.now_ms, credential);
        err = store_end(s, create_step(s, draft, &now, ret, f), f);
    }
    if (err == ERR_OK) {
        ret->id = draft->id;
        put_with_credential(out, draft, credential);
        buf_put_byte(out, '}');
    }
    memory_wipe(credential, sizeof credential);
    return err;
}

/* ---- ending ---- */

static enum err revoke_step(struct store *s, struct key *k, const struct actor *by,
                            struct key_result *ret, struct fault *f)
{
    k->revoked_at = by->now_ms;
    enum err err = row_change(s, k, f);
    if (err == ERR_OK) err = store_raise_revision(s, &ret->revision, f);
    if (err == ERR_OK) err = record(s, "key.revoked", k, (struct str){0}, by, f);
    return err;
}

enum err key_store_revoke(struct store *s, struct str tenant, struct id id, const struct actor *by,
                          bool *ret_changed, struct key_result *ret, struct fault *f)
{
    struct key *k = NULL;
    enum err err = key_store_begin(s, by->key_id, f);
    if (err != ERR_OK) return err;
    err = key_find(s, tenant, id, true, &k, f);
    bool changes = err == ERR_OK && k->revoked_at == 0;
    struct revision now = {0};
    if (changes)
        err = revoke_step(s, k, by, ret, f);
    else if (err == ERR_OK)
        err = store_revision(s, &now, f);
    err = store_end(s, err, f);
    if (err == ERR_OK) {
        ret->id = id;
        *ret_changed = changes;
        if (!changes) ret->revision = now.number;
    }
    key_destroy(k);
    return err;
}

/* ---- rotating ---- */

enum err key_check_end(const struct key *k, uint64_t now_ms, struct fault *f)
{
    if (k->expires_at == 0 || k->expires_at > now_ms) return ERR_OK;
    return fault_set(f, ERR_OUT_OF_RANGE, "/expires_at", "expires_at: is in the past");
}

enum err key_check_maker(const struct key *k, bool everywhere, struct fault *f)
{
    if (everywhere || (k->roles & ROLE_INGEST) == 0) return ERR_OK;
    return fault_set(f, ERR_MISSING_ROLE, "/roles",
                     "roles: only an admin of every tenant may make ingest keys");
}

struct rotation {
    /* fresh: a copy of the old row with a new identity, and the end that the old key had before the
     * rotation. It lives as long as `old`, which names it. */
    struct key *old, *fresh;
    uint64_t ends_at;
    char credential[CREDENTIAL_TEXT];
};

static enum err copy_row(const struct key *k, struct key **ret, struct fault *f)
{
    struct buf row;
    buf_init(&row, 1 << 10, KEY_ROW_BYTES);
    key_put(&row, k, true);
    enum err err = key_row_read(buf_view(&row), ret, f);
    buf_fini(&row);
    return err;
}

/* Checks now, because the rotation may have waited. */
static enum err check_lives(const struct key *old, struct fault *f)
{
    switch (key_in_force(old, world_expiry_ms(world_now_ms()))) {
    case ERR_OK: return ERR_OK;
    case ERR_CREDENTIAL_REVOKED:
        return fault_set(f, ERR_KEY_ENDED, "", "the key was revoked: make a new one");
    default: return fault_set(f, ERR_KEY_ENDED, "", "the key has expired: make a new one");
    }
}

static enum err rotate_step(struct store *s, const struct pepper *p, struct rotation *r,
                            uint64_t overlap_ms, const struct actor *by, struct key_result *ret,
                            struct fault *f)
{
    struct key *old = r->old;
    enum err err = check_lives(old, f);
    if (err == ERR_OK) err = copy_row(old, &r->fresh, f);
    if (err != ERR_OK) return err;
    uint64_t lives_until =
        str_is_absent(old->replaced_by) ? old->expires_at : old->original_expires_at;
    r->fresh->expires_at = lives_until;
    key_arm(s, p, r->fresh, by->now_ms, r->credential);

    old->replaced_by = str_of(r->fresh->id_text, ID_TEXT);
    old->original_expires_at = lives_until;
    r->ends_at = by->now_ms + overlap_ms;
    if (old->expires_at != 0 && old->expires_at < r->ends_at) r->ends_at = old->expires_at;
    if (overlap_ms == 0)
        old->revoked_at = r->ends_at;
    else
        old->expires_at = r->ends_at;

    char text[64];
    struct buf reason = buf_over(text, sizeof text);
    buf_printf(&reason, "rotated: %.*s follows", ID_TEXT, r->fresh->id_text);
    err = row_add(s, r->fresh, f);
    if (err == ERR_OK) err = check_room(s, r->fresh->tenant, f);
    if (err == ERR_OK) err = row_change(s, old, f);
    if (err == ERR_OK) err = store_raise_revision(s, &ret->revision, f);
    if (err == ERR_OK) err = record(s, "key.created", r->fresh, (struct str){0}, by, f);
    if (err == ERR_OK) err = record(s, "key.revoked", old, buf_view(&reason), by, f);
    return err;
}

enum err key_store_rotate(struct store *s, const struct pepper *p,
                          const struct key_rotation *wanted, const struct actor *by,
                          struct buf *out, struct key_result *ret, struct fault *f)
{
    struct rotation r = {0};
    enum err err = key_store_begin(s, by->key_id, f);
    if (err != ERR_OK) return err;
    const struct actor now = actor_now(by);
    err = key_find(s, wanted->tenant, wanted->id, true, &r.old, f);
    if (err == ERR_OK) err = key_check_maker(r.old, wanted->everywhere, f);
    if (err == ERR_OK) err = rotate_step(s, p, &r, wanted->overlap_ms, &now, ret, f);
    err = store_end(s, err, f);
    if (err == ERR_OK) {
        char time[TIME_TEXT];
        ret->id = r.fresh->id;
        time_write(r.ends_at, time);
        put_with_credential(out, r.fresh, r.credential);
        buf_printf(out, ",\"replaces\":{\"expires_at\":\"%.*s\",\"id\":\"%.*s\"}}", TIME_TEXT, time,
                   ID_TEXT, r.old->id_text);
    }
    memory_wipe(r.credential, sizeof r.credential);
    key_destroy(r.fresh);
    key_destroy(r.old);
    return err;
}

/* ---- reading ---- */

enum err key_store_list(struct store *s, struct str tenant, uint64_t limit, uint64_t cursor,
                        struct buf *out, struct fault *f)
{
    struct statement *q =
        database_statement(s->database, "SELECT key, number FROM keys WHERE tenant_id = ?1 AND "
                                        "number > ?2 ORDER BY number LIMIT ?3");
    bind_text(q, 1, tenant);
    bind_u64(q, 2, cursor);
    bind_u64(q, 3, limit + 1);
    buf_put_literal(out, "{\"keys\":[");
    struct list_page page = {.limit = limit, .id_column = 1};
    enum err err;
    while ((err = list_page_step(&page, q, out)) == ERR_OK) {
        struct key *k;
        err = key_row_read(column_text(q, 0), &k, f);
        if (err != ERR_OK) break;
        key_put(out, k, false);
        key_destroy(k);
    }
    statement_reset(q);
    if (err == ERR_CORRUPT) return err;
    if (err != ERR_END) return store_fault(s, err, f);
    buf_printf(out, "],\"count\":%llu,\"limit\":%llu,\"next_cursor\":%llu}",
               (unsigned long long)page.count, (unsigned long long)limit,
               (unsigned long long)page.next);
    return out->overflow ? fault_plain(f, ERR_FULL) : ERR_OK;
}

static enum err keys_read(struct store *s, bool only_good, struct key **keys, size_t room,
                          size_t *ret_count, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "SELECT key, id, tenant_id FROM keys ORDER BY number LIMIT ?1");
    bind_u64(q, 1, room);
    size_t count = 0;
    enum err err;
    while ((err = statement_step(q)) == ERR_OK && count < room) {
        if (only_good && set_check_key(s, column_text(q, 1), column_text(q, 2), column_text(q, 0),
                                       &(struct fault){0}) != ERR_OK)
            continue;
        err = key_row_read(column_text(q, 0), &keys[count], f);
        if (err != ERR_OK) break;
        count++;
    }
    statement_reset(q);
    *ret_count = count;
    if (err == ERR_CORRUPT) return err;
    return err == ERR_OK || err == ERR_END ? ERR_OK : store_fault(s, err, f);
}

static enum err table_read(struct store *s, bool only_good, struct key_table **ret, struct fault *f)
{
    struct key **keys = calloc(LIMIT_KEYS, sizeof *keys);
    if (keys == NULL) return fault_plain(f, ERR_FULL);
    size_t count = 0;
    enum err err = keys_read(s, only_good, keys, LIMIT_KEYS, &count, f);
    if (err == ERR_OK) {
        err = key_table_create(keys, count, ret);
        if (err != ERR_OK) (void)fault_plain(f, err);
    }
    if (err != ERR_OK)
        for (size_t i = 0; i < count; i++) key_destroy(keys[i]);
    free(keys);
    return err;
}

enum err key_store_table(struct store *s, struct key_table **ret, struct fault *f)
{
    enum err err = database_begin_read(s->database);
    if (err != ERR_OK) return store_fault(s, err, f);
    err = set_verify(s, false, f);
    if (err == ERR_OK) err = table_read(s, false, ret, f);
    set_close(s);
    database_rollback(s->database); /* it only reads */
    return err;
}

enum err key_store_table_of_refused(struct store *s, struct key_table **ret, struct fault *f)
{
    enum err err = database_begin_read(s->database);
    if (err != ERR_OK) return store_fault(s, err, f);
    bool has_list = set_open(s, &(struct fault){0}) == ERR_OK;
    err = table_read(s, has_list, ret, f);
    set_close(s);
    database_rollback(s->database);
    return err;
}

/* ---- the first key ---- */

enum err key_store_bootstrap(const char *path, const char *pepper_path, const struct json *request,
                             struct buf *out, struct fault *f)
{
    struct key *draft = NULL;
    struct store *s = NULL;
    struct pepper pepper;
    struct key_result result;
    const struct actor by = {.principal = STR("command-line"), .now_ms = world_now_ms()};
    enum err err = key_read(request, &draft, f);
    if (err == ERR_OK) err = key_check_end(draft, by.now_ms, f);
    if (err == ERR_OK) err = pepper_make(pepper_path, f);
    if (err == ERR_OK) err = pepper_read(pepper_path, &pepper, f);
    if (err == ERR_OK) err = store_open(path, true, &s, f);
    if (err == ERR_OK) store_share_pepper(s, &pepper);
    if (err == ERR_OK) err = set_found(s, by.now_ms, f);
    if (err == ERR_OK) err = key_store_create(s, &pepper, draft, &by, out, &result, f);
    memory_wipe(&pepper, sizeof pepper);
    store_close(s);
    key_destroy(draft);
    return err;
}
