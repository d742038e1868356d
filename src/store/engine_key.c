#include "store/engine_key.h"

#include "base/limits.h"
#include "base/time.h"
#include "crypto/base64.h"
#include "json/json.h"
#include "store/key_store.h"
#include "store/store_inside.h"

enum {
    KEY_TEXT_MAX = 48,
    MAC_TEXT_MAX = 2 * LIMIT_ID_CHARACTERS + KEY_TEXT_MAX + 2 + U64_DIGITS + 1
};

static struct str key_text(const uint8_t key[ED25519_KEY_BYTES], char to[KEY_TEXT_MAX])
{
    struct buf b = buf_over(to, KEY_TEXT_MAX);
    base64_put(&b, str_of((const char *)key, ED25519_KEY_BYTES), 0);
    return buf_view(&b);
}

bool engine_key_mac(const struct sha256 *mac_key, struct str node, struct str journal,
                    struct str key, uint64_t distrusted_from, char to[SHA256_HEX])
{
    char bytes[MAC_TEXT_MAX];
    struct buf b = buf_over(bytes, sizeof bytes);
    buf_put(&b, node);
    buf_put_byte(&b, '\0');
    buf_put(&b, journal);
    buf_put_byte(&b, '\0');
    buf_put(&b, key);
    if (distrusted_from > 0) {
        buf_put_byte(&b, '\0');
        buf_put_u64(&b, distrusted_from);
    }
    if (b.overflow) return false;
    sha256_write_hex(hmac_once(str_of((const char *)mac_key->bytes, SHA256_BYTES), buf_view(&b)),
                     to);
    return true;
}

static bool mac_of(const struct store *s, struct str node, struct str journal, struct str key,
                   uint64_t distrusted_from, char to[SHA256_HEX])
{
    return s->has_set_keys &&
           engine_key_mac(&s->registered_key, node, journal, key, distrusted_from, to);
}

static bool mac_is_right(const struct store *s, struct str node, struct str journal, struct str key,
                         uint64_t distrusted_from, struct str mac)
{
    char expected[SHA256_HEX];
    return mac.size == sizeof expected &&
           mac_of(s, node, journal, key, distrusted_from, expected) &&
           bytes_equal_secret(expected, mac.bytes, sizeof expected);
}

static enum err count_of(struct store *s, struct str node, struct str journal, uint64_t *ret)
{
    struct statement *q = database_statement(
        s->database, "SELECT count(*) FROM engine_keys WHERE node = ?1 AND journal = ?2");
    bind_text(q, 1, node);
    bind_text(q, 2, journal);
    enum err err = statement_step(q);
    if (err == ERR_OK) *ret = column_u64(q, 0);
    statement_reset(q);
    return err;
}

struct stored_key {
    uint64_t distrusted_from; /* 0: it counts */
    bool is_right;            /* its MAC */
};

static enum err find(struct store *s, const struct engine_key *k, struct str key,
                     struct stored_key *ret)
{
    struct statement *q = database_statement(
        s->database, "SELECT mac, distrusted_from FROM engine_keys WHERE node = ?1 AND"
                     " journal = ?2 AND public_key = ?3");
    bind_text(q, 1, k->node);
    bind_text(q, 2, k->journal);
    bind_text(q, 3, key);
    enum err err = statement_step(q);
    *ret = (struct stored_key){0};
    if (err == ERR_OK) {
        ret->distrusted_from = column_u64(q, 1);
        ret->is_right =
            mac_is_right(s, k->node, k->journal, key, ret->distrusted_from, column_text(q, 0));
    }
    statement_reset(q);
    return err == ERR_END ? ERR_NOT_FOUND : err;
}

/* *ret_new: it was not registered. */
static enum err insert(struct store *s, const struct engine_key *k, struct str by, uint64_t now_ms,
                       bool *ret_new, struct fault *f)
{
    char text[KEY_TEXT_MAX], mac[SHA256_HEX];
    struct str key = key_text(k->public_key, text);
    uint64_t count = 0;
    if (!mac_of(s, k->node, k->journal, key, 0, mac)) return fault_plain(f, ERR_FULL);
    enum err err = count_of(s, k->node, k->journal, &count);
    if (err != ERR_OK) return store_fault(s, err, f);
    struct stored_key stored;
    err = find(s, k, key, &stored);
    if (err != ERR_OK && err != ERR_NOT_FOUND) return store_fault(s, err, f);
    if (err == ERR_OK && stored.is_right && stored.distrusted_from > 0)
        return fault_set(f, ERR_BAD_VALUE, "/public_key",
                         "public_key: this key was withdrawn; the engine must make another one");
    /* A row with a wrong MAC is replaced: the database's owner made it, not an admin. */
    struct statement *q = database_statement(
        s->database,
        "INSERT INTO engine_keys (node, journal, public_key, created_at, created_by, mac)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (node, journal, public_key)"
        " DO UPDATE SET created_at = ?4, created_by = ?5, mac = ?6, distrusted_from = NULL"
        " WHERE engine_keys.mac <> ?6");
    bind_text(q, 1, k->node);
    bind_text(q, 2, k->journal);
    bind_text(q, 3, key);
    bind_u64(q, 4, now_ms);
    bind_text(q, 5, by);
    bind_text(q, 6, str_of(mac, sizeof mac));
    err = statement_run(q);
    if (err != ERR_OK) return store_fault(s, err, f);
    *ret_new = database_changes(s->database) == 1;
    if (*ret_new && count >= ENGINE_KEYS_MAX)
        return fault_set(f, ERR_OUT_OF_RANGE, "/public_key",
                         "public_key: a stream has at most %d registered keys", ENGINE_KEYS_MAX);
    return ERR_OK;
}

static enum err add(struct store *s, const struct engine_key *k, const struct actor *by,
                    struct fault *f)
{
    bool is_new = false;
    char text[KEY_TEXT_MAX], bytes[LIMIT_ID_CHARACTERS + 128];
    enum err err = insert(s, k, by->principal, by->now_ms, &is_new, f);
    if (err != ERR_OK || !is_new) return err;
    struct buf reason = buf_over(bytes, sizeof bytes);
    buf_printf(&reason, "journal %.*s signs with %.*s", STR_FORMAT(k->journal),
               STR_FORMAT(key_text(k->public_key, text)));
    const struct own_event e = {.kind = "engine.trusted",
                                .tenant = STR("*"),
                                .resource_type = "engine",
                                .resource_id = k->node,
                                .reason = buf_view(&reason)};
    return own_event_store(s, by, &e, f);
}

enum err engine_key_add(struct store *s, const struct engine_key *k, const struct actor *by,
                        struct fault *f)
{
    enum err err = key_store_begin(s, by->key_id, f);
    return err == ERR_OK ? store_end(s, add(s, k, by, f), f) : err;
}

enum err engine_key_add_own(struct store *s, const uint8_t public_key[ED25519_KEY_BYTES],
                            uint64_t now_ms, struct fault *f)
{
    struct engine_key k = {.node = STR(""), .journal = STR("")};
    bool is_new;
    memcpy(k.public_key, public_key, sizeof k.public_key);
    enum err err = store_begin(s, f);
    return err == ERR_OK ? store_end(s, insert(s, &k, STR("platform"), now_ms, &is_new, f), f)
                         : err;
}

static enum err next_seq_of(struct store *s, const struct engine_key *k, uint64_t *ret)
{
    struct statement *q = database_statement(
        s->database, "SELECT next_seq FROM streams WHERE node = ?1 AND journal = ?2");
    bind_text(q, 1, k->node);
    bind_text(q, 2, k->journal);
    enum err err = statement_step(q);
    *ret = err == ERR_OK ? column_u64(q, 0) : 1;
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static enum err withdraw(struct store *s, const struct engine_key *k, struct str key, uint64_t from)
{
    char mac[SHA256_HEX];
    if (!mac_of(s, k->node, k->journal, key, from, mac)) return ERR_FULL;
    struct statement *q = database_statement(
        s->database, "UPDATE engine_keys SET distrusted_from = ?4, mac = ?5 WHERE node = ?1 AND"
                     " journal = ?2 AND public_key = ?3");
    bind_text(q, 1, k->node);
    bind_text(q, 2, k->journal);
    bind_text(q, 3, key);
    bind_u64(q, 4, from);
    bind_text(q, 5, str_of(mac, sizeof mac));
    return statement_run(q);
}

static enum err distrust(struct store *s, const struct engine_key *k, struct str why,
                         const struct actor *by, uint64_t *ret_from, struct fault *f)
{
    char text[KEY_TEXT_MAX], bytes[4 * LIMIT_ID_CHARACTERS + 128 + 4096];
    struct str key = key_text(k->public_key, text);
    struct stored_key stored;
    enum err err = find(s, k, key, &stored);
    if (err == ERR_NOT_FOUND || (err == ERR_OK && !stored.is_right))
        return fault_set(f, ERR_NOT_FOUND, "/public_key",
                         "public_key: this stream has no such registered key; writ engine trust "
                         "lists them");
    *ret_from = stored.distrusted_from;
    if (err != ERR_OK || stored.distrusted_from > 0) return store_fault(s, err, f);
    err = next_seq_of(s, k, ret_from);
    if (err == ERR_OK) err = withdraw(s, k, key, *ret_from);
    if (err != ERR_OK) return store_fault(s, err, f);
    struct buf reason = buf_over(bytes, sizeof bytes);
    buf_printf(&reason, "journal %.*s, key %.*s, from record %llu on", STR_FORMAT(k->journal),
               STR_FORMAT(key), (unsigned long long)*ret_from);
    if (!str_is_empty(why)) buf_printf(&reason, ": %.*s", STR_FORMAT(why));
    const struct own_event e = {.kind = "engine.distrusted",
                                .tenant = STR("*"),
                                .resource_type = "engine",
                                .resource_id = k->node,
                                .reason = buf_view(&reason)};
    return own_event_store(s, by, &e, f);
}

enum err engine_key_distrust(struct store *s, const struct engine_key *k, struct str reason,
                             const struct actor *by, uint64_t *ret_from, struct fault *f)
{
    enum err err = key_store_begin(s, by->key_id, f);
    return err == ERR_OK ? store_end(s, distrust(s, k, reason, by, ret_from, f), f) : err;
}

static bool public_key_read(struct str text, uint8_t to[ED25519_KEY_BYTES])
{
    uint8_t bytes[KEY_TEXT_MAX];
    size_t size;
    if (text.size > KEY_TEXT_MAX || !base64_read(text, bytes, &size) || size != ED25519_KEY_BYTES)
        return false;
    memcpy(to, bytes, ED25519_KEY_BYTES);
    return true;
}

enum err engine_keys_of(struct store *s, struct str node, struct str journal,
                        uint8_t to[ENGINE_KEYS_MAX][ED25519_KEY_BYTES], size_t *ret_count,
                        bool *ret_is_known, struct fault *f)
{
    struct statement *q = database_statement(
        s->database, "SELECT public_key, mac, distrusted_from FROM engine_keys WHERE node = ?1 AND"
                     " journal = ?2");
    bind_text(q, 1, node);
    bind_text(q, 2, journal);
    size_t count = 0;
    enum err err = ERR_OK;
    *ret_is_known = false;
    while (count < ENGINE_KEYS_MAX && (err = statement_step(q)) == ERR_OK) {
        uint64_t distrusted_from = column_u64(q, 2);
        if (!mac_is_right(s, node, journal, column_text(q, 0), distrusted_from,
                          column_text(q, 1)) ||
            !public_key_read(column_text(q, 0), to[count]))
            continue;
        *ret_is_known = true;
        if (distrusted_from == 0) count++;
    }
    statement_reset(q);
    *ret_count = count;
    return err == ERR_END ? ERR_OK : store_fault(s, err, f);
}

static void put_row(const struct store *s, struct statement *q, struct buf *out)
{
    char text[TIME_TEXT];
    struct str node = column_text(q, 0), journal = column_text(q, 1), key = column_text(q, 2);
    time_write(column_u64(q, 3), text);
    buf_printf(out, "{\"created_at\":\"%.*s\",\"created_by\":", TIME_TEXT, text);
    json_put_string(out, column_text(q, 4));
    uint64_t distrusted_from = column_u64(q, 6);
    bool is_valid = mac_is_right(s, node, journal, key, distrusted_from, column_text(q, 5));
    buf_printf(out, ",\"distrusted_from\":%llu,\"is_valid\":%s,\"journal\":",
               (unsigned long long)distrusted_from, is_valid ? "true" : "false");
    json_put_string(out, journal);
    buf_put_literal(out, ",\"node\":");
    json_put_string(out, node);
    buf_put_literal(out, ",\"public_key\":");
    json_put_string(out, key);
    buf_put_byte(out, '}');
}

enum err engine_key_list(struct store *s, struct buf *out, struct fault *f)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT node, journal, public_key, created_at, created_by, mac, distrusted_from"
        " FROM engine_keys"
        " ORDER BY node, journal, created_at, public_key");
    enum err err;
    buf_put_literal(out, "{\"engine_keys\":[");
    for (bool first = true; (err = statement_step(q)) == ERR_OK; first = false) {
        if (out->size > LIMIT_REPLY_BYTES / 2) break;
        if (!first) buf_put_byte(out, ',');
        put_row(s, q, out);
    }
    statement_reset(q);
    buf_put_literal(out, "]}");
    if (err != ERR_OK && err != ERR_END) return store_fault(s, err, f);
    return out->overflow ? fault_plain(f, ERR_FULL) : ERR_OK;
}
