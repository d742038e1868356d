#include "store/session_store.h"

#include <stdio.h>

#include "base/time.h"
#include "base/world.h"
#include "json/json.h"
#include "store/key_store.h"
#include "store/store_inside.h"

bool session_is_over(const struct session *s, uint64_t idle_ms, uint64_t now_ms)
{
    return now_ms >= s->expires_at || now_ms >= s->seen_at + idle_ms;
}

/* ---- rows ---- */

struct texts { /* what a row has as text */
    char hash[SHA256_HEX], id[ID_TEXT], key_bytes[ID_TEXT];
    struct str key; /* empty: none */
};

static void texts_of(const struct session *s, struct texts *ret)
{
    sha256_write_hex(s->hash, ret->hash);
    id_write("ses_", s->id, ret->id);
    id_write("key_", s->key, ret->key_bytes);
    ret->key = s->proof == PROOF_KEY ? str_of(ret->key_bytes, ID_TEXT) : STR("");
}

static bool copy_text(struct str from, char *to, size_t most)
{
    if (from.size > most || str_is_absent(from)) return false;
    memcpy(to, from.bytes, from.size);
    to[from.size] = '\0';
    return true;
}

#define COLUMNS                                                                                    \
    "hash, id, key_id, tenant_id, person, proof, client_address, created_at, seen_at, expires_at," \
    " provider, subject, roles, claims"

/* The rights come from a key, or from a provider: never from both, and never from none. */
static bool read_rights(struct statement *q, struct session *ret)
{
    struct str key = column_text(q, 2);
    uint64_t roles = column_u64(q, 12);
    bool right = proof_read(column_text(q, 5), &ret->proof) &&
                 copy_text(column_text(q, 10), ret->provider, SESSION_PROVIDER_BYTES) &&
                 copy_text(column_text(q, 11), ret->subject, SESSION_SUBJECT_BYTES) &&
                 copy_text(column_text(q, 13), ret->claims, SESSION_CLAIMS_BYTES) &&
                 (roles & ~(uint64_t)ROLES_OF_PEOPLE) == 0;
    ret->roles = (uint32_t)roles;
    if (!right) return false;
    if (ret->proof == PROOF_KEY)
        return id_read("key_", key, &ret->key) && roles == 0 && ret->provider[0] == '\0';
    return str_is_empty(key) && roles != 0 && ret->provider[0] != '\0';
}

static enum err read_row(struct statement *q, struct session *ret)
{
    *ret = (struct session){.created_at = column_u64(q, 7),
                            .seen_at = column_u64(q, 8),
                            .expires_at = column_u64(q, 9)};
    bool right = sha256_read_hex(column_text(q, 0), &ret->hash) &&
                 id_read("ses_", column_text(q, 1), &ret->id) &&
                 copy_text(column_text(q, 3), ret->tenant, SESSION_NAME_BYTES) &&
                 copy_text(column_text(q, 4), ret->person, SESSION_NAME_BYTES) &&
                 copy_text(column_text(q, 6), ret->client, SESSION_CLIENT_BYTES) &&
                 read_rights(q, ret);
    return right ? ERR_OK : ERR_CORRUPT;
}

static enum err insert(struct store *s, const struct session *n)
{
    struct texts t;
    texts_of(n, &t);
    struct statement *q =
        database_statement(s->database, "INSERT INTO sessions (" COLUMNS
                                        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
                                        " ?10, ?11, ?12, ?13, ?14)");
    bind_text(q, 1, str_of(t.hash, SHA256_HEX));
    bind_text(q, 2, str_of(t.id, ID_TEXT));
    bind_text(q, 3, t.key);
    bind_text(q, 4, str_from(n->tenant));
    bind_text(q, 5, str_from(n->person));
    bind_text(q, 6, str_from(proof_name(n->proof)));
    bind_text(q, 7, str_from(n->client));
    bind_u64(q, 8, n->created_at);
    bind_u64(q, 9, n->seen_at);
    bind_u64(q, 10, n->expires_at);
    bind_text(q, 11, str_from(n->provider));
    bind_text(q, 12, str_from(n->subject));
    bind_u64(q, 13, n->roles);
    bind_text(q, 14, str_from(n->claims));
    return statement_run(q);
}

/* The rows of the same person, known in the same way. A name alone is not enough: another provider
 * may give it to somebody else. */
#define OF_SAME "key_id = ?1 AND person = ?2 AND provider = ?3 AND subject = ?4"

static void bind_same(struct statement *q, const struct texts *t, const struct session *s)
{
    bind_text(q, 1, t->key);
    bind_text(q, 2, str_from(s->person));
    bind_text(q, 3, str_from(s->provider));
    bind_text(q, 4, str_from(s->subject));
}

/* ---- find, touch, end ---- */

static enum err record(struct store *s, const char *kind, const struct session *of,
                       struct str client, uint64_t expires_at, const struct actor *by,
                       struct fault *f)
{
    struct texts t;
    char reason[SESSION_PROVIDER_BYTES + SESSION_SUBJECT_BYTES + 64];
    texts_of(of, &t);
    snprintf(reason, sizeof reason, "identity provider %s, subject %s", of->provider, of->subject);
    const struct own_event e = {
        .kind = kind,
        .reason = of->proof == PROOF_OIDC ? str_from(reason) : (struct str){0},
        /* a session of every tenant is filed like other records of a program */
        .tenant = strcmp(of->tenant, "*") == 0 ? STR("default") : str_from(of->tenant),
        .resource_type = "session",
        .resource_id = str_of(t.id, ID_TEXT),
        .client_address = client,
        .user_id = str_from(of->person),
        .proof = str_from(proof_name(of->proof)),
        .expires_at = expires_at};
    return own_event_store(s, by, &e, f);
}

enum err session_store_find(struct store *s, const struct sha256 *hash, struct session *ret,
                            struct fault *f)
{
    char hex[SHA256_HEX];
    sha256_write_hex(*hash, hex);
    struct statement *q =
        database_statement(s->database, "SELECT " COLUMNS " FROM sessions WHERE hash = ?1");
    bind_text(q, 1, str_of(hex, SHA256_HEX));
    enum err err = statement_step(q);
    if (err == ERR_OK) err = read_row(q, ret);
    statement_reset(q);
    if (err == ERR_END) return fault_plain(f, ERR_NOT_FOUND);
    if (err == ERR_CORRUPT) return fault_set(f, err, "", "a row of the table sessions is damaged");
    return store_fault(s, err, f);
}

enum err session_store_touch(struct store *s, const struct sha256 *hash, uint64_t seen_at,
                             struct fault *f)
{
    char hex[SHA256_HEX];
    sha256_write_hex(*hash, hex);
    enum err err = store_begin(s, f);
    if (err != ERR_OK) return err;
    struct statement *q = database_statement(
        s->database, "UPDATE sessions SET seen_at = ?2 WHERE hash = ?1 AND seen_at < ?2");
    bind_text(q, 1, str_of(hex, SHA256_HEX));
    bind_u64(q, 2, seen_at);
    err = statement_run(q);
    if (err != ERR_OK) (void)store_fault(s, err, f);
    return store_end(s, err, f);
}

static enum err find_own(struct store *s, struct id id, const struct session *own,
                         struct session *ret, struct fault *f)
{
    struct texts t;
    char text[ID_TEXT];
    texts_of(own, &t);
    id_write("ses_", id, text);
    struct statement *q = database_statement(
        s->database, "SELECT " COLUMNS " FROM sessions WHERE " OF_SAME " AND id = ?5");
    bind_same(q, &t, own);
    bind_text(q, 5, str_of(text, ID_TEXT));
    enum err err = statement_step(q);
    if (err == ERR_OK) err = read_row(q, ret);
    statement_reset(q);
    if (err == ERR_END)
        return fault_set(f, ERR_NOT_FOUND, "", "you have no such session, or it has ended");
    if (err == ERR_CORRUPT) return fault_set(f, err, "", "a row of the table sessions is damaged");
    return store_fault(s, err, f);
}

static enum err end_step(struct store *s, const struct session *gone, struct str client,
                         const struct actor *by, struct fault *f)
{
    char hex[SHA256_HEX];
    sha256_write_hex(gone->hash, hex);
    struct statement *q = database_statement(s->database, "DELETE FROM sessions WHERE hash = ?1");
    bind_text(q, 1, str_of(hex, SHA256_HEX));
    enum err err = statement_run(q);
    if (err != ERR_OK) return store_fault(s, err, f);
    return record(s, "session.ended", gone, client, 0, by, f);
}

enum err session_store_end(struct store *s, struct id id, const struct session *own,
                           struct str client, const struct actor *by, struct sha256 *ret_hash,
                           struct fault *f)
{
    struct session gone;
    enum err err = store_begin(s, f);
    if (err != ERR_OK) return err;
    err = find_own(s, id, own, &gone, f);
    if (err == ERR_OK) err = end_step(s, &gone, client, by, f);
    err = store_end(s, err, f);
    if (err == ERR_OK) *ret_hash = gone.hash;
    return err;
}

enum err session_store_end_person(struct store *s, struct str tenant, struct str person,
                                  struct str client, const struct actor *by, uint64_t *ret_count,
                                  struct fault *f)
{
    struct session gone;
    *ret_count = 0;
    enum err err = key_store_begin(s, by->key_id, f);
    if (err != ERR_OK) return err;
    for (;;) {
        struct statement *q =
            database_statement(s->database, "SELECT " COLUMNS " FROM sessions WHERE person = ?1"
                                            " AND (tenant_id = ?2 OR ?2 = '') ORDER BY id LIMIT 1");
        bind_text(q, 1, person);
        bind_text(q, 2, str_is_absent(tenant) ? STR("") : tenant);
        err = statement_step(q);
        if (err == ERR_OK) err = read_row(q, &gone);
        statement_reset(q);
        if (err == ERR_OK) err = end_step(s, &gone, client, by, f);
        if (err != ERR_OK) break;
        (*ret_count)++;
    }
    if (err == ERR_END)
        err = ERR_OK;
    else if (err == ERR_CORRUPT)
        (void)fault_set(f, err, "", "a row of the table sessions is damaged");
    else
        (void)store_fault(s, err, f);
    return store_end(s, err, f);
}

/* ---- start ---- */

static enum err remove_over(struct store *s, uint64_t idle_ms, uint64_t now_ms)
{
    struct statement *q = database_statement(
        s->database, "DELETE FROM sessions WHERE expires_at <= ?1 OR seen_at <= ?2");
    bind_u64(q, 1, now_ms);
    bind_u64(q, 2, now_ms > idle_ms ? now_ms - idle_ms : 0);
    return statement_run(q);
}

static enum err remove_oldest(struct store *s, const struct session *n)
{
    struct texts t;
    texts_of(n, &t);
    struct statement *q =
        database_statement(s->database, "DELETE FROM sessions WHERE " OF_SAME " AND hash NOT IN"
                                        " (SELECT hash FROM sessions WHERE " OF_SAME
                                        " ORDER BY created_at DESC, id DESC LIMIT ?5)");
    bind_same(q, &t, n);
    bind_u64(q, 5, LIMIT_SESSIONS_OF_ONE - 1);
    return statement_run(q);
}

static enum err check_room(struct store *s, struct fault *f)
{
    struct statement *q = database_statement(s->database, "SELECT count(*) FROM sessions");
    enum err err = statement_step(q);
    uint64_t count = err == ERR_OK ? column_u64(q, 0) : 0;
    statement_reset(q);
    if (err != ERR_OK) return store_fault(s, err, f);
    if (count < LIMIT_SESSIONS) return ERR_OK;
    return fault_set(f, ERR_OVERLOADED, "",
                     "%d people are signed in already: no more sessions are kept", LIMIT_SESSIONS);
}

/* A state is for one session, on whatever platform it is shown again. */
static enum err use_state(struct store *s, const struct sign_in *from, uint64_t now_ms,
                          struct fault *f)
{
    char hex[SHA256_HEX];
    bool was_used = false;
    if (from->state_ends_at == 0) return ERR_OK;
    sha256_write_hex(from->state, hex);
    struct statement *q =
        database_statement(s->database, "DELETE FROM sign_ins WHERE ends_at <= ?1");
    bind_u64(q, 1, now_ms);
    enum err err = statement_run(q);
    if (err == ERR_OK) {
        q = database_statement(s->database, "SELECT 1 FROM sign_ins WHERE hash = ?1");
        bind_text(q, 1, str_of(hex, SHA256_HEX));
        err = statement_finds(q, &was_used);
    }
    if (err == ERR_OK && was_used)
        return fault_set(f, ERR_EXISTS, "", "this sign-in was completed already: begin again");
    if (err == ERR_OK) {
        q = database_statement(s->database, "INSERT INTO sign_ins (hash, ends_at) VALUES (?1, ?2)");
        bind_text(q, 1, str_of(hex, SHA256_HEX));
        bind_u64(q, 2, from->state_ends_at);
        err = statement_run(q);
    }
    return store_fault(s, err, f);
}

/* The session that the browser had until now: nothing is left of it that a thief could use. */
static enum err replace(struct store *s, const struct sign_in *from, const struct session *new,
                        const struct actor *by, struct fault *f)
{
    static const struct sha256 none;
    struct session gone;
    if (memcmp(&from->replaces, &none, sizeof none) == 0) return ERR_OK;
    enum err err = session_store_find(s, &from->replaces, &gone, f);
    if (err == ERR_NOT_FOUND) return ERR_OK;
    return err == ERR_OK ? end_step(s, &gone, str_from(new->client), by, f) : err;
}

static enum err start_step(struct store *s, const struct session *new, const struct sign_in *from,
                           uint64_t idle_ms, const struct actor *by, struct fault *f)
{
    enum err err = use_state(s, from, by->now_ms, f);
    if (err != ERR_OK) return err;
    err = remove_over(s, idle_ms, new->created_at);
    if (err == ERR_OK) err = remove_oldest(s, new);
    if (err != ERR_OK) return store_fault(s, err, f);
    err = replace(s, from, new, by, f);
    if (err == ERR_OK) err = check_room(s, f);
    if (err != ERR_OK) return err;
    err = insert(s, new);
    if (err != ERR_OK) return store_fault(s, err, f);
    return record(s, "session.started", new, str_from(new->client), new->expires_at, by, f);
}

enum err session_store_start(struct store *s, const struct session *new, const struct sign_in *from,
                             uint64_t idle_ms, const struct actor *by, struct fault *f)
{
    enum err err = key_store_begin(s, by->key_id, f);
    if (err != ERR_OK) return err;
    return store_end(s, start_step(s, new, from, idle_ms, by, f), f);
}

/* ---- list ---- */

void session_put_time(struct buf *out, const char *name, uint64_t ms)
{
    char text[TIME_TEXT];
    time_write(ms, text);
    buf_printf(out, "\"%s\":\"%.*s\"", name, TIME_TEXT, text);
}

static void put_session(struct buf *out, const struct session *one, bool is_current)
{
    struct texts t;
    texts_of(one, &t);
    buf_put_literal(out, "{\"client_address\":");
    json_put_string(out, str_from(one->client));
    buf_put_byte(out, ',');
    session_put_time(out, "created_at", one->created_at);
    buf_printf(out, ",\"current\":%s,", is_current ? "true" : "false");
    session_put_time(out, "expires_at", one->expires_at);
    buf_printf(out, ",\"id\":\"%.*s\",", ID_TEXT, t.id);
    session_put_time(out, "seen_at", one->seen_at);
    buf_put_byte(out, '}');
}

enum err session_store_list(struct store *s, const struct session *own, uint64_t idle_ms,
                            uint64_t now_ms, struct buf *out, struct fault *f)
{
    struct texts t;
    texts_of(own, &t);
    struct statement *q =
        database_statement(s->database, "SELECT " COLUMNS " FROM sessions WHERE " OF_SAME
                                        " ORDER BY created_at DESC, id DESC");
    bind_same(q, &t, own);
    struct session one;
    bool is_first = true;
    enum err err;
    buf_put_literal(out, "{\"sessions\":[");
    while ((err = statement_step(q)) == ERR_OK && (err = read_row(q, &one)) == ERR_OK) {
        if (session_is_over(&one, idle_ms, now_ms)) continue;
        if (!is_first) buf_put_byte(out, ',');
        is_first = false;
        put_session(out, &one, id_equal(one.id, own->id));
    }
    statement_reset(q);
    buf_put_literal(out, "]}");
    if (err == ERR_CORRUPT) return fault_set(f, err, "", "a row of the table sessions is damaged");
    return err == ERR_END ? ERR_OK : store_fault(s, err, f);
}
