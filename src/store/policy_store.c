#include "store/policy_store.h"

#include <stdio.h>

#include "base/id.h"
#include "base/limits.h"
#include "base/time.h"
#include "crypto/crypto.h"
#include "json/json.h"
#include "store/key_store.h"
#include "store/set_inside.h"

enum { LIST_BYTES = 8 << 20 /* of a page of policies: then it ends early */ };

/* A policy's present state; strings are in the caller's arena. */
struct current {
    bool exists;
    struct str id, description, format, digest, updated_by, directory;
    bool is_active;
    uint64_t number, version, revision, created_at;
};

const char *policy_effect_name(enum policy_effect effect)
{
    static const char *const names[] = {"unchanged", "updated", "created", "deleted"};
    return names[effect];
}

static enum err not_found(struct str name, struct fault *f)
{
    return fault_set(f, ERR_NOT_FOUND, "", "there is no policy %.*s in this tenant",
                     STR_FORMAT(name));
}

/* ---- entity tags ---- */

static void etag_write(uint64_t version, uint64_t revision, char to[POLICY_ETAG_TEXT])
{
    snprintf(to, POLICY_ETAG_TEXT, "\"%llu-%llu\"", (unsigned long long)version,
             (unsigned long long)revision);
}

static void etag_write_of(const struct current *now, char to[POLICY_ETAG_TEXT])
{
    to[0] = '\0';
    if (now->exists) etag_write(now->version, now->revision, to);
}

static struct str trim(struct str s)
{
    while (s.size > 0 && (s.bytes[0] == ' ' || s.bytes[0] == '\t')) s = str_skip(s, 1);
    while (s.size > 0 && (s.bytes[s.size - 1] == ' ' || s.bytes[s.size - 1] == '\t')) s.size--;
    return s;
}

static bool tag_is_listed(struct str list, struct str etag, bool weakly)
{
    if (str_equal(trim(list), STR("*"))) return true;
    struct str rest = list, one;
    while (str_split(&rest, ',', &one)) {
        one = trim(one);
        if (weakly && str_starts(one, STR("W/"))) one = str_skip(one, 2);
        if (str_equal(one, etag)) return true;
    }
    return false;
}

bool etag_matches_weakly(struct str list, struct str etag)
{
    return tag_is_listed(list, etag, true);
}

/* In the transaction, since a file may have become the owner after the request began. */
static enum err check_owner(const struct policy_change *p, const struct current *now, bool deletes,
                            struct fault *f)
{
    const struct policy_condition *c = &p->condition;
    if (str_is_absent(c->not_of) || !str_equal(now->updated_by, c->not_of) ||
        (deletes && now->revision <= c->seen))
        return ERR_OK;
    return fault_set(
        f, ERR_WATCHED_POLICY, "",
        "the policy %.*s comes from a file in %.*s: change it there, or remove the file "
        "and then delete the policy",
        STR_FORMAT(p->name), STR_FORMAT(now->directory));
}

static enum err check_condition(const struct policy_condition *c, const struct current *now,
                                struct fault *f)
{
    char text[POLICY_ETAG_TEXT];
    etag_write(now->version, now->revision, text);
    struct str etag = str_from(text);
    if (!str_is_absent(c->if_match)) {
        if (!now->exists)
            return fault_set(f, ERR_PRECONDITION_FAILED, "", "If-Match: there is no such policy");
        if (!tag_is_listed(c->if_match, etag, false)) /* If-Match compares strongly */
            return fault_set(f, ERR_PRECONDITION_FAILED, "", "If-Match: the policy is at %s now",
                             text);
    }
    if (!str_is_absent(c->if_none_match) && now->exists &&
        etag_matches_weakly(c->if_none_match, etag))
        return fault_set(f, ERR_PRECONDITION_FAILED, "", "If-None-Match: the policy exists, at %s",
                         text);
    return ERR_OK;
}

/* ---- reading ---- */

#define CURRENT                                                                                            \
    "SELECT p.number, p.id, p.description, p.is_active, p.version, p.revision, p.created_at, "             \
    "p.updated_at,"                                                                                        \
    " p.updated_by, v.format, v.digest, v.content, p.tenant_id, p.name, p.directory FROM policies p JOIN " \
    "policy_versions v"                                                                                    \
    " USING (tenant_id, name, version) "

static struct set_policy set_row(struct str tenant, struct str name, const struct current *now,
                                 struct str directory)
{
    return (struct set_policy){.tenant = tenant,
                               .name = name,
                               .format = now->format,
                               .digest = now->digest,
                               .updated_by = now->updated_by,
                               .directory = directory,
                               .version = now->version,
                               .revision = now->revision,
                               .is_active = now->is_active};
}

/* For a change, in its transaction. ERR_SET_REFUSED: it is not what was stored. */
static enum err current_read(struct store *s, struct str tenant, struct str name, struct arena *a,
                             struct current *ret, struct fault *f)
{
    *ret = (struct current){0};
    struct statement *q =
        database_statement(s->database, CURRENT "WHERE p.tenant_id = ?1 AND p.name = ?2");
    bind_text(q, 1, tenant);
    bind_text(q, 2, name);
    enum err err = statement_step(q);
    if (err == ERR_OK) {
        *ret = (struct current){.exists = true,
                                .number = column_u64(q, 0),
                                .id = arena_copy(a, column_text(q, 1)),
                                .description = arena_copy(a, column_text(q, 2)),
                                .is_active = column_u64(q, 3) != 0,
                                .version = column_u64(q, 4),
                                .revision = column_u64(q, 5),
                                .created_at = column_u64(q, 6),
                                .updated_by = arena_copy(a, column_text(q, 8)),
                                .directory = arena_copy(a, column_text(q, 14)),
                                .format = arena_copy(a, column_text(q, 9)),
                                .digest = arena_copy(a, column_text(q, 10))};
        const struct set_policy row = set_row(tenant, name, ret, ret->directory);
        err = a->overflow ? fault_plain(f, ERR_FULL) : set_check_policy(s, &row, f);
    } else if (err == ERR_END) {
        err = set_check_no_policy(s, tenant, name, f);
    } else {
        (void)store_fault(s, err, f);
    }
    statement_reset(q);
    return err;
}

static void put_member(struct buf *out, const char *name, struct str text)
{
    if (str_is_absent(text)) return;
    buf_printf(out, "\"%s\":", name);
    json_put_string(out, text);
    buf_put_byte(out, ',');
}

static void put_time(struct buf *out, const char *name, uint64_t ms)
{
    char text[TIME_TEXT];
    time_write(ms, text);
    buf_printf(out, "\"%s\":\"%.*s\",", name, TIME_TEXT, text);
}

/* The row of a statement that begins with CURRENT. */
static void put_policy(struct buf *out, struct statement *q)
{
    buf_put_byte(out, '{');
    put_member(out, "content", column_text(q, 11));
    put_time(out, "created_at", column_u64(q, 6));
    put_member(out, "description", column_text(q, 2));
    put_member(out, "digest", column_text(q, 10));
    put_member(out, "format", column_text(q, 9));
    put_member(out, "id", column_text(q, 1));
    buf_printf(out, "\"is_active\":%s,", column_u64(q, 3) != 0 ? "true" : "false");
    put_member(out, "name", column_text(q, 13));
    put_member(out, "tenant_id", column_text(q, 12));
    put_time(out, "updated_at", column_u64(q, 7));
    put_member(out, "updated_by", column_text(q, 8));
    buf_printf(out, "\"version\":%llu}", (unsigned long long)column_u64(q, 4));
}

enum err policy_store_get(struct store *s, struct str tenant, struct str name, struct buf *out,
                          char ret_etag[POLICY_ETAG_TEXT], struct fault *f)
{
    struct statement *q =
        database_statement(s->database, CURRENT "WHERE p.tenant_id = ?1 AND p.name = ?2");
    bind_text(q, 1, tenant);
    bind_text(q, 2, name);
    enum err err = statement_step(q);
    if (err == ERR_OK) {
        put_policy(out, q);
        etag_write(column_u64(q, 4), column_u64(q, 5), ret_etag);
    } else if (err == ERR_END) {
        err = not_found(name, f);
    } else {
        (void)store_fault(s, err, f);
    }
    statement_reset(q);
    return err;
}

/* Ends a list. The next page's cursor is added only if there is one. */
static enum err list_end(struct store *s, enum err err, struct buf *out, const struct list_page *p,
                         struct fault *f)
{
    if (err != ERR_END) return store_fault(s, err, f);
    buf_printf(out, "],\"count\":%llu", (unsigned long long)p->count);
    if (p->next != 0) buf_printf(out, ",\"next_cursor\":%llu", (unsigned long long)p->next);
    buf_put_byte(out, '}');
    return out->overflow ? fault_plain(f, ERR_FULL) : ERR_OK;
}

enum err policy_store_list(struct store *s, struct str tenant, uint64_t limit, uint64_t cursor,
                           struct buf *out, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, CURRENT "WHERE p.tenant_id = ?1 AND p.number > ?2 ORDER BY p.number LIMIT ?3");
    bind_text(q, 1, tenant);
    bind_u64(q, 2, cursor);
    bind_u64(q, 3, limit + 1);
    buf_put_literal(out, "{\"policies\":[");
    struct list_page page = {.limit = limit, .bytes_most = LIST_BYTES};
    enum err err;
    while ((err = list_page_step(&page, q, out)) == ERR_OK) put_policy(out, q);
    statement_reset(q);
    return list_end(s, err, out, &page, f);
}

/* The row of: version, format, digest, created_at, created_by, content (NULL: left out). */
static void put_version(struct buf *out, struct statement *q)
{
    buf_put_byte(out, '{');
    put_member(out, "content", column_text(q, 5));
    put_time(out, "created_at", column_u64(q, 3));
    put_member(out, "created_by", column_text(q, 4));
    put_member(out, "digest", column_text(q, 2));
    put_member(out, "format", column_text(q, 1));
    buf_printf(out, "\"version\":%llu}", (unsigned long long)column_u64(q, 0));
}

enum err policy_store_versions(struct store *s, struct str tenant, struct str name, uint64_t limit,
                               uint64_t before, struct buf *out, struct fault *f)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT version, format, digest, created_at, created_by, NULL FROM policy_versions"
        " WHERE tenant_id = ?1 AND name = ?2 AND version < ?3 ORDER BY version DESC LIMIT ?4");
    bind_text(q, 1, tenant);
    bind_text(q, 2, name);
    bind_u64(q, 3, before == 0 ? INT64_MAX : before);
    bind_u64(q, 4, limit + 1);
    buf_put_literal(out, "{\"versions\":[");
    struct list_page page = {.limit = limit};
    enum err err;
    while ((err = list_page_step(&page, q, out)) == ERR_OK) put_version(out, q);
    statement_reset(q);
    if (err == ERR_END && page.count == 0 && before == 0) return not_found(name, f);
    return list_end(s, err, out, &page, f);
}

static const char select_version[] =
    "SELECT version, format, digest, created_at, created_by, content FROM policy_versions"
    " WHERE tenant_id = ?1 AND name = ?2 AND version = ?3";

/* Moves to the version's row; ERR_NOT_FOUND: there is none. */
static enum err version_find(struct store *s, struct str tenant, struct str name, uint64_t version,
                             struct statement **ret, struct fault *f)
{
    struct statement *q = *ret = database_statement(s->database, select_version);
    if (version > INT64_MAX) version = INT64_MAX;
    bind_text(q, 1, tenant);
    bind_text(q, 2, name);
    bind_u64(q, 3, version);
    enum err err = statement_step(q);
    if (err == ERR_END)
        return fault_set(f, ERR_NOT_FOUND, "",
                         "there is no version %llu of policy %.*s in this tenant",
                         (unsigned long long)version, STR_FORMAT(name));
    return store_fault(s, err, f);
}

enum err policy_store_version(struct store *s, struct str tenant, struct str name, uint64_t version,
                              struct buf *out, struct fault *f)
{
    struct statement *q;
    enum err err = version_find(s, tenant, name, version, &q, f);
    if (err == ERR_OK) put_version(out, q);
    statement_reset(q);
    return err;
}

static enum err version_text(struct store *s, struct str tenant, struct str name, uint64_t version,
                             struct buf *out, bool *ret_is_json, struct fault *f)
{
    struct statement *q;
    enum err err = version_find(s, tenant, name, version, &q, f);
    if (err == ERR_OK) {
        buf_put(out, column_text(q, 5));
        *ret_is_json = str_equal(column_text(q, 1), STR("json"));
    }
    statement_reset(q);
    return err;
}

enum err policy_store_content(struct store *s, struct str tenant, struct str name, uint64_t version,
                              struct buf *out, struct fault *f)
{
    return version_text(s, tenant, name, version, out, &(bool){false}, f);
}

/* ---- changing: everything below is within one transaction ---- */

/* A running change. */
struct changing {
    struct store *store;
    const struct policy_change *change;
    const struct actor *by;
    const struct policy_guard *guard; /* has already run; NULL: none */
    struct current now;
    const char *kind;        /* of its audit event */
    uint64_t rolled_back_to; /* the version whose text is restored; 0: no rollback */
    struct fault *fault;
};

static struct str format_name(bool is_json) { return is_json ? STR("json") : STR("yaml"); }

static enum err version_sign(const struct changing *c, uint64_t version)
{
    const struct policy_change *p = c->change;
    char mac[SHA256_HEX];
    set_version_mac(c->store, p->tenant, p->name, version, format_name(p->is_json), p->content,
                    mac);
    struct statement *s = database_statement(
        c->store->database, "UPDATE policy_versions SET mac = ?4"
                            " WHERE tenant_id = ?1 AND name = ?2 AND version = ?3");
    bind_text(s, 1, p->tenant);
    bind_text(s, 2, p->name);
    bind_u64(s, 3, version);
    bind_text(s, 4, str_of(mac, sizeof mac));
    return statement_run(s);
}

static enum err version_add(struct changing *c, uint64_t *ret_version)
{
    const struct policy_change *p = c->change;
    struct statement *s = database_statement(
        c->store->database,
        "INSERT INTO policy_versions (tenant_id, name, version, format, digest, content, "
        "created_at,"
        " created_by) SELECT ?1, ?2, coalesce(max(version), 0) + 1, ?3, ?4, ?5, ?6, ?7"
        " FROM policy_versions WHERE tenant_id = ?1 AND name = ?2 RETURNING version");
    bind_text(s, 1, p->tenant);
    bind_text(s, 2, p->name);
    bind_text(s, 3, format_name(p->is_json));
    bind_text(s, 4, p->digest);
    bind_text(s, 5, p->content);
    bind_u64(s, 6, c->by->now_ms);
    bind_text(s, 7, c->by->principal);
    enum err err = statement_step(s);
    if (err != ERR_OK) return store_fault(c->store, err, c->fault);
    *ret_version = column_u64(s, 0);
    err = statement_run(s);
    if (err == ERR_OK) err = version_sign(c, *ret_version);
    return store_fault(c->store, err, c->fault);
}

/* A policy's number is its position in the list, and is never reused. By default SQLite would give
 * a new policy the number of the last deleted one, and a client that pages would miss it. SQLite's
 * numbers here are revisions, which only rise; so do the numbers that PostgreSQL assigns. */
#define ROW_WRITE(number)                                                                           \
    "INSERT INTO policies (number, id, tenant_id, name, description, is_active, version, revision," \
    " created_at, updated_at, updated_by, directory)"                                               \
    " VALUES (" number ", ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9, ?10)"                             \
    " ON CONFLICT (tenant_id, name) DO UPDATE SET description = excluded.description,"              \
    " is_active = excluded.is_active, version = excluded.version, revision = excluded.revision,"    \
    " updated_at = excluded.updated_at, updated_by = excluded.updated_by,"                          \
    " directory = excluded.directory"

static enum err row_write(struct changing *c, struct str description, bool is_active,
                          const struct policy_result *to)
{
    static const char sqlite[] = ROW_WRITE("?7"), postgres[] = ROW_WRITE("DEFAULT");
    const struct policy_change *p = c->change;
    char id[ID_TEXT];
    id_write("pol_", id_make(c->by->now_ms, &c->store->chance), id);
    struct statement *s = database_statement(
        c->store->database, database_is_postgres(c->store->database) ? postgres : sqlite);
    bind_text(s, 1, str_of(id, sizeof id));
    bind_text(s, 2, p->tenant);
    bind_text(s, 3, p->name);
    bind_text(s, 4, description);
    bind_u64(s, 5, is_active ? 1 : 0);
    bind_u64(s, 6, to->version);
    bind_u64(s, 7, to->revision);
    bind_u64(s, 8, c->by->now_ms);
    bind_text(s, 9, c->by->principal);
    bind_text(s, 10, p->directory);
    enum err err = store_fault(c->store, statement_run(s), c->fault);
    const struct set_policy row = {
        .tenant = p->tenant,
        .name = p->name,
        /* the text of an unchanged version is not written again */
        .format = to->version == c->now.version ? c->now.format : format_name(p->is_json),
        .digest = p->digest,
        .updated_by = c->by->principal,
        .directory = p->directory,
        .version = to->version,
        .revision = to->revision,
        .is_active = is_active};
    return err == ERR_OK ? set_put_policy(c->store, &row, c->fault) : err;
}

/* The same text now comes from another directory of the same owner. This does not concern engines,
 * so it raises no revision and is no event. */
static enum err directory_write(struct changing *c)
{
    struct statement *s = database_statement(
        c->store->database, "UPDATE policies SET directory = ?2 WHERE number = ?1");
    bind_u64(s, 1, c->now.number);
    bind_text(s, 2, c->change->directory);
    enum err err = store_fault(c->store, statement_run(s), c->fault);
    const struct set_policy row =
        set_row(c->change->tenant, c->change->name, &c->now, c->change->directory);
    return err == ERR_OK ? set_put_policy(c->store, &row, c->fault) : err;
}

static enum err check_room(struct changing *c)
{
    struct statement *s = database_statement(c->store->database,
                                             "SELECT count(*) FROM policies WHERE tenant_id = ?1");
    bind_text(s, 1, c->change->tenant);
    enum err err = statement_step(s);
    uint64_t count = err == ERR_OK ? column_u64(s, 0) : 0;
    statement_reset(s);
    if (err != ERR_OK) return store_fault(c->store, err, c->fault);
    if (count < LIMIT_POLICIES_PER_TENANT) return ERR_OK;
    return fault_set(c->fault, ERR_OUT_OF_RANGE, "", "a tenant may have at most %d policies",
                     LIMIT_POLICIES_PER_TENANT);
}

/* The bytes in force of one tenant or (absent) of all, as they count toward a bundle. */
static enum err active_bytes(struct changing *c, struct str tenant, uint64_t *ret)
{
    struct statement *s = database_statement(
        c->store->database, "SELECT coalesce(sum(octet_length(v.content) + ?2), 0) FROM policies p"
                            " JOIN policy_versions v USING (tenant_id, name, version)"
                            " WHERE p.is_active = 1 AND (?1 IS NULL OR tenant_id = ?1)");
    bind_text(s, 1, tenant);
    bind_u64(s, 2, LIMIT_POLICY_ROW_BYTES);
    enum err err = statement_step(s);
    if (err == ERR_OK) *ret = column_u64(s, 0);
    statement_reset(s);
    return store_fault(c->store, err, c->fault);
}

/* Checks the limits with the policy that was just written. If one is exceeded, the transaction is
 * rolled back. */
static enum err check_bundle(struct changing *c)
{
    uint64_t bytes = 0;
    enum err err = active_bytes(c, c->change->tenant, &bytes);
    if (err == ERR_OK && bytes > store_most(LIMIT_POLICY_BYTES_PER_TENANT))
        return fault_set(c->fault, ERR_OUT_OF_RANGE, "",
                         "the policies in force of a tenant may have %llu bytes together",
                         (unsigned long long)store_most(LIMIT_POLICY_BYTES_PER_TENANT));
    if (err == ERR_OK) err = active_bytes(c, (struct str){0}, &bytes);
    if (err != ERR_OK || bytes <= store_most(LIMIT_POLICY_BYTES)) return err;
    return fault_set(c->fault, ERR_OUT_OF_RANGE, "",
                     "the policies in force of all tenants may have %llu bytes together",
                     (unsigned long long)store_most(LIMIT_POLICY_BYTES));
}

/* Switching a policy off changes permissions as much as deleting it, so its event records it. */
static const char *activity(const struct changing *c, bool is_active)
{
    if (is_active) return c->now.exists && !c->now.is_active ? "in force again" : "";
    return c->now.exists && c->now.is_active ? "not in force any more" : "not in force";
}

static void put_reason(struct buf *out, const struct changing *c, bool is_active)
{
    const char *now = activity(c, is_active);
    if (c->rolled_back_to > 0)
        buf_printf(out, "to version %llu%s", (unsigned long long)c->rolled_back_to,
                   *now == '\0' ? "" : ", ");
    buf_put(out, str_from(now));
}

/* Adds the forced problems to the reason. */
static enum err record(struct changing *c, struct str reason, uint64_t version, struct str digest)
{
    char text[1024];
    struct buf all = buf_over(text, sizeof text);
    struct str forced = c->guard == NULL ? (struct str){0} : c->guard->forced;
    if (!str_is_empty(forced)) {
        buf_printf(&all, "%.*s%sforced: %.*s", STR_FORMAT(reason), reason.size > 0 ? "; " : "",
                   STR_FORMAT(str_cut(forced, sizeof text - 128)));
        reason = buf_view(&all);
    }
    const struct own_event e = {.kind = c->kind,
                                .tenant = c->change->tenant,
                                .resource_type = "policy",
                                .resource_id = c->change->name,
                                .reason = reason,
                                .policy_name = c->change->name,
                                .policy_digest = digest,
                                .policy_version = version};
    return own_event_store(c->store, c->by, &e, c->fault);
}

static bool same_text(struct str a, struct str b)
{
    return str_is_empty(a) ? str_is_empty(b) : str_equal(a, b);
}

static enum err change_apply(struct changing *c, struct policy_result *ret)
{
    const struct policy_change *p = c->change;
    struct str description = str_is_absent(p->description) ? c->now.description : p->description;
    if (str_is_empty(description)) description = (struct str){0};
    bool is_active = p->has_active ? p->is_active : !c->now.exists || c->now.is_active;
    bool same_content = c->now.exists && str_equal(c->now.digest, p->digest);
    char text[64];
    struct buf reason = buf_over(text, sizeof text);
    ret->version = c->now.version;
    ret->revision = c->now.revision;
    ret->effect = POLICY_UNCHANGED;
    bool is_owned = !p->claims || str_equal(c->now.updated_by, c->by->principal);
    if (same_content && is_active == c->now.is_active && is_owned &&
        same_text(description, c->now.description))
        return p->claims && !same_text(c->now.directory, p->directory) ? directory_write(c)
                                                                       : ERR_OK;

    enum err err = c->now.exists ? ERR_OK : check_room(c);
    if (err == ERR_OK && !same_content) err = version_add(c, &ret->version);
    if (err == ERR_OK) err = store_raise_revision(c->store, &ret->revision, c->fault);
    if (err == ERR_OK) err = row_write(c, description, is_active, ret);
    if (err == ERR_OK && is_active && (!same_content || !c->now.is_active)) err = check_bundle(c);
    put_reason(&reason, c, is_active);
    const struct str told = reason.size == 0 ? (struct str){0} : buf_view(&reason);
    if (err == ERR_OK) err = record(c, told, ret->version, p->digest);
    if (err == ERR_OK) ret->effect = c->now.exists ? POLICY_UPDATED : POLICY_CREATED;
    return err;
}

/* For a single change. */
static enum err ask_guard(struct changing *c, bool deletes)
{
    struct policy_guard *guard = c->change->guard;
    const struct policy_step step = {.change = *c->change, .deletes = deletes};
    if (guard == NULL) return ERR_OK; /* a batch has run its own guard */
    c->guard = guard;
    return guard->run(guard, c->store, &step, 1, c->fault);
}

static enum err put_step(struct changing *c, struct arena *a, struct buf *out,
                         struct policy_result *ret)
{
    const struct policy_change *p = c->change;
    enum err err = current_read(c->store, p->tenant, p->name, a, &c->now, c->fault);
    if (err == ERR_OK) err = check_owner(p, &c->now, false, c->fault);
    if (err == ERR_OK) err = check_condition(&p->condition, &c->now, c->fault);
    if (err == ERR_OK) err = ask_guard(c, false);
    if (err == ERR_OK) err = change_apply(c, ret);
    if (err == ERR_OK)
        err = policy_store_get(c->store, p->tenant, p->name, out, ret->etag, c->fault);
    /* A dry run is rolled back, and the next change may get the same tag. So return the present
     * tag. */
    if (err == ERR_OK && p->dry_run) etag_write_of(&c->now, ret->etag);
    return err;
}

enum { CURRENT_ARENA_FIRST = 4 << 10, CURRENT_ARENA_LIMIT = 2 << 20 };

static enum err put(struct changing *c, struct buf *out, struct policy_result *ret)
{
    *ret = (struct policy_result){0};
    enum err err = key_store_begin(c->store, c->by->key_id, c->fault);
    if (err != ERR_OK) return err;
    struct arena a;
    arena_init(&a, CURRENT_ARENA_FIRST, CURRENT_ARENA_LIMIT);
    err = put_step(c, &a, out, ret);
    /* A dry run makes all changes and then rolls back, so it cannot differ from the real change. */
    if (err == ERR_OK && c->change->dry_run)
        (void)store_end(c->store, ERR_END, c->fault);
    else
        err = store_end(c->store, err, c->fault);
    arena_fini(&a);
    return err;
}

enum err policy_store_put(struct store *s, const struct policy_change *change,
                          const struct actor *by, struct buf *out, struct policy_result *ret,
                          struct fault *f)
{
    struct changing c = {.store = s, .change = change, .by = by, .kind = "policy.put", .fault = f};
    return put(&c, out, ret);
}

/* Otherwise a rollback would put a text in force that was changed in the database. */
static enum err version_check(struct store *s, const struct policy_change *p, uint64_t version,
                              const struct buf *content, bool is_json, struct fault *f)
{
    char mac[SHA256_HEX];
    bool is_signed = false;
    set_version_mac(s, p->tenant, p->name, version, format_name(is_json), buf_view(content), mac);
    struct statement *q = database_statement(
        s->database, "SELECT 1 FROM policy_versions WHERE tenant_id = ?1 AND name = ?2"
                     " AND version = ?3 AND mac = ?4");
    bind_text(q, 1, p->tenant);
    bind_text(q, 2, p->name);
    bind_u64(q, 3, version);
    bind_text(q, 4, str_of(mac, sizeof mac));
    enum err err = store_fault(s, statement_finds(q, &is_signed), f);
    if (err != ERR_OK || is_signed) return err;
    char what[64];
    snprintf(what, sizeof what, "has another text in version %llu than was stored",
             (unsigned long long)version);
    return set_refused(f, SET_POLICY, p->tenant, p->name, what);
}

enum err policy_store_rollback(struct store *s, const struct policy_change *change,
                               uint64_t version, const struct actor *by, struct buf *out,
                               struct policy_result *ret, struct fault *f)
{
    struct buf content;
    buf_init(&content, 4 << 10, LIMIT_POLICY_BODY_BYTES * 2);
    char digest[SHA256_HEX];
    bool is_json = false;
    enum err err = version_text(s, change->tenant, change->name, version, &content, &is_json, f);
    if (err == ERR_OK) err = version_check(s, change, version, &content, is_json, f);
    if (err == ERR_OK) {
        /* Versions are immutable, so the text may be read before the transaction. */
        sha256_write_hex(sha256_once(buf_view(&content)), digest);
        const struct policy_change back = {.tenant = change->tenant,
                                           .name = change->name,
                                           .content = buf_view(&content),
                                           .digest = str_of(digest, sizeof digest),
                                           .is_json = is_json,
                                           .condition = change->condition,
                                           .guard = change->guard};
        struct changing c = {.store = s,
                             .change = &back,
                             .by = by,
                             .kind = "policy.rolled_back",
                             .rolled_back_to = version,
                             .fault = f};
        err = put(&c, out, ret);
    }
    buf_fini(&content);
    return err;
}

static enum err delete_step(struct changing *c, struct arena *a, struct policy_result *ret)
{
    const struct policy_change *p = c->change;
    enum err err = current_read(c->store, p->tenant, p->name, a, &c->now, c->fault);
    if (err == ERR_OK) err = check_owner(p, &c->now, true, c->fault);
    if (err == ERR_OK) err = check_condition(&p->condition, &c->now, c->fault);
    bool is_owned = !p->claims || (str_equal(c->now.updated_by, c->by->principal) &&
                                   same_text(c->now.directory, p->directory));
    if (err == ERR_OK && p->claims && (!c->now.exists || !is_owned)) return ERR_OK;
    if (err == ERR_OK && !c->now.exists) err = not_found(p->name, c->fault);
    if (err == ERR_OK) err = ask_guard(c, true);
    if (err != ERR_OK) return err;
    struct statement *s =
        database_statement(c->store->database, "DELETE FROM policies WHERE number = ?1");
    bind_u64(s, 1, c->now.number);
    err = statement_run(s);
    if (err != ERR_OK) return store_fault(c->store, err, c->fault);
    ret->effect = POLICY_DELETED;
    ret->version = c->now.version;
    err = set_remove(c->store, SET_POLICY, p->tenant, p->name, c->fault);
    if (err == ERR_OK) err = store_raise_revision(c->store, &ret->revision, c->fault);
    return err == ERR_OK ? record(c, (struct str){0}, c->now.version, c->now.digest) : err;
}

enum err policy_store_delete(struct store *s, const struct policy_change *change,
                             const struct actor *by, struct policy_result *ret, struct fault *f)
{
    *ret = (struct policy_result){0};
    const struct policy_change named = {.tenant = change->tenant,
                                        .name = change->name,
                                        .condition = change->condition,
                                        .guard = change->guard};
    struct changing c = {
        .store = s, .change = &named, .by = by, .kind = "policy.deleted", .fault = f};
    enum err err = key_store_begin(s, by->key_id, f);
    if (err != ERR_OK) return err;
    struct arena a;
    arena_init(&a, CURRENT_ARENA_FIRST, CURRENT_ARENA_LIMIT);
    err = store_end(s, delete_step(&c, &a, ret), f);
    arena_fini(&a);
    return err;
}

/* ---- many at once ---- */

static enum err apply_step(struct store *s, struct policy_step *step, const struct actor *by,
                           const struct policy_guard *guard, struct fault *f)
{
    const struct policy_change *p = &step->change;
    struct changing c = {.store = s,
                         .change = p,
                         .by = by,
                         .guard = guard,
                         .kind = step->deletes ? "policy.deleted" : "policy.put",
                         .fault = f};
    struct arena a;
    arena_init(&a, CURRENT_ARENA_FIRST, CURRENT_ARENA_LIMIT);
    step->result = (struct policy_result){0};
    enum err err = current_read(s, p->tenant, p->name, &a, &c.now, f);
    if (err == ERR_OK && step->deletes && c.now.exists) err = delete_step(&c, &a, &step->result);
    if (err == ERR_OK && !step->deletes) err = check_owner(p, &c.now, false, f);
    if (err == ERR_OK && !step->deletes) err = change_apply(&c, &step->result);
    arena_fini(&a);
    return err;
}

enum err policy_store_apply(struct store *s, struct policy_batch *b, const struct actor *by,
                            struct fault *f)
{
    enum err err = key_store_begin(s, by->key_id, f);
    if (err != ERR_OK) return err;
    if (b->guard != NULL) err = b->guard->run(b->guard, s, b->steps, b->count, f);
    for (size_t i = 0; i < b->count && err == ERR_OK; i++)
        err = apply_step(s, &b->steps[i], by, b->guard, f);
    if (err != ERR_OK || !b->dry_run) return store_end(s, err, f);
    (void)store_end(s, ERR_END, f);
    return ERR_OK;
}

#define ROWS                                                                                       \
    "SELECT p.tenant_id, p.name, v.digest, p.updated_by, p.directory, p.is_active, p.revision,"    \
    " p.version FROM policies p JOIN policy_versions v USING (tenant_id, name, version)"

static enum err each_row(struct store *s, struct statement *q,
                         void (*each)(void *context, const struct policy_row *row), void *context,
                         struct fault *f)
{
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) {
        const struct policy_row row = {.tenant = column_text(q, 0),
                                       .name = column_text(q, 1),
                                       .digest = column_text(q, 2),
                                       .updated_by = column_text(q, 3),
                                       .directory = column_text(q, 4),
                                       .is_active = column_u64(q, 5) != 0,
                                       .revision = column_u64(q, 6),
                                       .version = column_u64(q, 7)};
        each(context, &row);
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : store_fault(s, err, f);
}

enum err policy_store_rows(struct store *s, struct str tenant,
                           void (*each)(void *context, const struct policy_row *row), void *context,
                           struct fault *f)
{
    struct statement *q =
        database_statement(s->database, ROWS " WHERE p.tenant_id = ?1 ORDER BY p.name");
    bind_text(q, 1, tenant);
    return each_row(s, q, each, context, f);
}

enum err policy_store_rows_in_force(struct store *s,
                                    void (*each)(void *context, const struct policy_row *row),
                                    void *context, struct fault *f)
{
    return each_row(
        s,
        database_statement(s->database, ROWS " WHERE p.is_active = 1 ORDER BY p.tenant_id, p.name"),
        each, context, f);
}

enum err policy_store_rows_elsewhere(struct store *s, struct str tenant, struct str principal,
                                     void (*each)(void *context, const struct policy_row *row),
                                     void *context, struct fault *f)
{
    struct statement *q = database_statement(
        s->database,
        ROWS " WHERE p.tenant_id <> ?1 AND p.updated_by = ?2 ORDER BY p.tenant_id, p.name");
    bind_text(q, 1, tenant);
    bind_text(q, 2, principal);
    return each_row(s, q, each, context, f);
}
