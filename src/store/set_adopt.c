/* set_adopt.c - makes the present rows the good set, for a command of an operator. See set.h. */
#include "store/set.h"

#include <stdlib.h>

#include "base/world.h"
#include "json/json.h"
#include "store/key_row.h"
#include "store/set_inside.h"

/* ---- the list for people ---- */

static const char *state_of(struct set_entry *e, const struct sha256 *digest)
{
    if (e == NULL) return "added";
    bool was_seen = e->is_seen;
    e->is_seen = true;
    if (was_seen) return "twice";
    if (digest == NULL || memcmp(e->digest.bytes, digest->bytes, SHA256_BYTES) != 0)
        return "changed";
    return "good";
}

/* The members of a key, without its MAC; of a row that cannot be read only the id. */
static void put_key(struct buf *out, struct str id, struct str row, const char *state)
{
    struct key *k;
    struct fault f;
    if (key_row_read(row, &k, &f) == ERR_OK) {
        key_put(out, k, false);
        if (out->size > 0 && !out->overflow) out->size--; /* the brace is closed below */
        key_destroy(k);
    } else {
        buf_put_literal(out, "{\"id\":");
        json_put_string(out, id);
    }
    buf_printf(out, ",\"row\":\"%s\"}", state);
}

static enum err put_keys(struct store *s, struct stored_set *t, struct buf *out)
{
    struct statement *q =
        database_statement(s->database, "SELECT id, tenant_id, key FROM keys ORDER BY number");
    enum err err;
    bool first = true;
    while ((err = statement_step(q)) == ERR_OK) {
        struct str id = column_text(q, 0), row = column_text(q, 2);
        const struct sha256 digest = set_key_digest(t, id, column_text(q, 1), row);
        if (!first) buf_put_byte(out, ',');
        first = false;
        put_key(out, id, row, state_of(set_find(t, SET_KEY, STR(""), id), &digest));
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static enum err put_policies(struct store *s, struct stored_set *t, struct buf *out)
{
    struct statement *q = database_statement(s->database, SET_POLICY_ROWS);
    enum err err;
    bool first = true;
    while ((err = statement_step(q)) == ERR_OK) {
        struct set_policy p;
        bool is_whole = set_policy_of(q, &p);
        const struct sha256 digest = set_policy_digest(t, &p);
        buf_put(out, first ? STR("{\"digest\":") : STR(",{\"digest\":"));
        first = false;
        json_put_string(out, p.digest);
        buf_printf(out, ",\"is_active\":%s,\"name\":", p.is_active ? "true" : "false");
        json_put_string(out, p.name);
        buf_printf(out, ",\"row\":\"%s\",\"tenant_id\":",
                   state_of(set_find(t, SET_POLICY, p.tenant, p.name), is_whole ? &digest : NULL));
        json_put_string(out, p.tenant);
        buf_put_literal(out, ",\"updated_by\":");
        json_put_string(out, p.updated_by);
        buf_printf(out, ",\"version\":%llu}", (unsigned long long)p.version);
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static void put_missing(const struct stored_set *t, struct buf *out)
{
    bool first = true;
    for (size_t i = 0; i < t->count; i++) {
        if (t->list[i].is_seen) continue;
        struct set_name n = set_name_of(&t->list[i]);
        buf_printf(out, "%s{\"kind\":\"%s\",\"name\":", first ? "" : ",",
                   n.kind == SET_KEY ? "key" : "policy");
        first = false;
        json_put_string(out, n.name);
        buf_put_literal(out, ",\"tenant_id\":");
        json_put_string(out, n.kind == SET_KEY ? (struct str){0} : n.tenant);
        buf_put_byte(out, '}');
    }
}

/* In a transaction. */
static enum err put_rows(struct store *s, struct buf *out, bool *ret_has_list, struct fault *f)
{
    struct fault trouble = {.text = ""};
    enum err err = set_verify(s, true, &trouble);
    *ret_has_list = s->set != NULL && s->set->is_authentic;
    if (err == ERR_SET_REFUSED && s->set == NULL)
        err = set_open_empty(s, &trouble); /* so all rows are "added" */
    else if (err == ERR_SET_REFUSED)
        err = ERR_OK;
    if (err != ERR_OK) {
        *f = trouble;
        return err;
    }
    struct stored_set *t = s->set;
    for (size_t i = 0; i < t->count; i++) t->list[i].is_seen = false;
    buf_put_literal(out, "{\"keys\":[");
    err = put_keys(s, t, out);
    buf_put_literal(out, "],\"policies\":[");
    if (err == ERR_OK) err = put_policies(s, t, out);
    buf_put_literal(out, "],\"missing\":[");
    put_missing(t, out);
    buf_put_literal(out, "],\"trouble\":");
    json_put_string(out, trouble.text[0] == '\0' ? (struct str){0} : str_from(trouble.text));
    buf_put_byte(out, '}');
    if (err != ERR_OK) return store_fault(s, err, f);
    return out->overflow ? fault_plain(f, ERR_FULL) : ERR_OK;
}

enum err set_show(struct store *s, struct buf *out, struct fault *f)
{
    enum err err = database_begin_read(s->database);
    if (err != ERR_OK) return store_fault(s, err, f);
    err = database_check_schema(s->database, f);
    if (err == ERR_OK) err = put_rows(s, out, &(bool){false}, f);
    set_close(s);
    database_rollback(s->database); /* it only reads */
    return err;
}

/* ---- adoption ---- */

static enum err take_keys(struct store *s, struct fault *f)
{
    struct statement *q =
        database_statement(s->database, "SELECT id, tenant_id, key FROM keys ORDER BY number");
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) {
        struct key *k;
        struct str id = column_text(q, 0), row = column_text(q, 2);
        err = key_row_read(row, &k, f);
        if (err != ERR_OK)
            return fault_set(f, err, "", "the row of key %.*s cannot be read: correct or delete it",
                             STR_FORMAT(id));
        bool is_its_own =
            str_equal(id, str_of(k->id_text, ID_TEXT)) && str_equal(column_text(q, 1), k->tenant);
        key_destroy(k);
        if (!is_its_own)
            return fault_set(f, ERR_CORRUPT, "",
                             "the row of key %.*s has another id or tenant in its text: correct or "
                             "delete it",
                             STR_FORMAT(id));
        err = set_put_key(s, id, column_text(q, 1), row, f);
        if (err != ERR_OK) return err;
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : store_fault(s, err, f);
}

static enum err take_policies(struct store *s, struct fault *f)
{
    struct statement *q = database_statement(s->database, SET_POLICY_ROWS);
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) {
        struct set_policy p;
        if (!set_policy_of(q, &p))
            return fault_set(f, ERR_CORRUPT, "",
                             "policy %.*s of tenant %.*s has no text, or one with another digest: "
                             "correct or delete it",
                             STR_FORMAT(p.name), STR_FORMAT(p.tenant));
        err = set_put_policy(s, &p, f);
        if (err != ERR_OK) return err;
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : store_fault(s, err, f);
}

static enum err version_sign(struct store *s, struct str tenant, struct str name, uint64_t version,
                             struct str format, struct str content)
{
    char mac[SHA256_HEX];
    set_version_mac(s, tenant, name, version, format, content, mac);
    struct statement *q =
        database_statement(s->database, "UPDATE policy_versions SET mac = ?4 WHERE tenant_id = ?1 "
                                        "AND name = ?2 AND version = ?3");
    bind_text(q, 1, tenant);
    bind_text(q, 2, name);
    bind_u64(q, 3, version);
    bind_text(q, 4, str_of(mac, sizeof mac));
    return statement_run(q);
}

/* Each step changes the row that it is at, which SQLite permits if the order does not change. */
static enum err take_versions(struct store *s, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "SELECT tenant_id, name, version, format, content FROM policy_versions"
                     " ORDER BY tenant_id, name, version");
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) {
        err = version_sign(s, column_text(q, 0), column_text(q, 1), column_u64(q, 2),
                           column_text(q, 3), column_text(q, 4));
        if (err != ERR_OK) break;
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : store_fault(s, err, f);
}

static enum err start_over(struct store *s, uint64_t adopted_at, struct fault *f)
{
    set_close(s);
    enum err err = set_open_empty(s, f);
    if (err != ERR_OK) return err;
    s->set->adopted_at = adopted_at;
    s->set->is_changed = true;
    return store_fault(s, statement_run(database_statement(s->database, "DELETE FROM set_rows")),
                       f);
}

static enum err adopt_step(struct store *s, const struct actor *by, struct buf *out,
                           struct fault *f)
{
    uint64_t revision;
    bool has_list;
    enum err err = put_rows(s, out, &has_list, f);
    if (err != ERR_OK) return err;
    /* It follows every set that was adopted before. The time of a list without a good MAC may be
     * any. */
    uint64_t before_ms = has_list ? s->set->adopted_at : 0;
    err = start_over(s, by->now_ms > before_ms ? by->now_ms : before_ms + 1, f);
    if (err == ERR_OK) err = take_keys(s, f);
    if (err == ERR_OK) err = take_policies(s, f);
    if (err == ERR_OK) err = take_versions(s, f);
    return err == ERR_OK ? store_raise_revision(s, &revision, f) : err;
}

enum err set_adopt(struct store *s, const struct actor *by, struct buf *out, struct fault *f)
{
    enum err err = store_begin(s, f);
    return err == ERR_OK ? store_end(s, adopt_step(s, by, out, f), f) : err;
}

/* ---- a new store ---- */

static enum err needs_mac(struct store *s, bool *ret, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "SELECT 1 FROM store WHERE set_mac = '' AND NOT EXISTS (SELECT 1 FROM keys)"
                     " AND NOT EXISTS (SELECT 1 FROM policies)");
    return store_fault(s, statement_finds(q, ret), f);
}

static enum err needs_time(struct store *s, bool *ret, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "SELECT 1 FROM store WHERE set_mac <> '' AND adopted_at = 0");
    return store_fault(s, statement_finds(q, ret), f);
}

/* Asks again, because another program may have been first. */
static enum err found_step(struct store *s, uint64_t adopted_at, struct fault *f)
{
    bool without_mac = false, without_time = false;
    enum err err = needs_mac(s, &without_mac, f);
    if (err == ERR_OK && adopted_at != 0) err = needs_time(s, &without_time, f);
    if (err == ERR_OK && without_mac) {
        err = start_over(s, adopted_at, f);
        if (err == ERR_OK) {
            const struct revision now = s->set->revision;
            set_note_revision(s, &now);
        }
    } else if (err == ERR_OK && without_time) {
        err = set_open(s, f);
        if (err == ERR_OK && s->set->adopted_at == 0) {
            s->set->adopted_at = adopted_at;
            s->set->is_changed = true;
        }
    }
    return err;
}

enum err set_found(struct store *s, uint64_t adopted_at, struct fault *f)
{
    bool without_mac = false, without_time = false;
    enum err err = needs_mac(s, &without_mac, f);
    if (err == ERR_OK && adopted_at != 0) err = needs_time(s, &without_time, f);
    if (err != ERR_OK || (!without_mac && !without_time)) return err;
    err = store_begin(s, f);
    return err == ERR_OK ? store_end(s, found_step(s, adopted_at, f), f) : err;
}
