/* set.c - the list of digests, its MAC, and the changes of both. See set.h. */
#include "store/set.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "store/set_inside.h"

enum {
    SET_ARENA_FIRST = 64 << 10,
    SET_ARENA_LIMIT = 256 << 20,
    SET_TEXT_MAX = 16 << 10, /* the text of an entry */
};

static const char *const kind_names[] = {[SET_KEY] = "key", [SET_POLICY] = "policy"};

void store_share_pepper(struct store *s, const struct pepper *p)
{
    s->set_keys = set_keys_derive(p);
    s->record_key = pepper_derive(p, STR(RUN_KEY_LABEL));
    s->run_key.node_size = 0;
    s->registered_key = pepper_derive(p, STR("writ registered keys of engines 1"));
    s->has_set_keys = true;
}

enum err set_refused(struct fault *f, enum set_kind kind, struct str tenant, struct str name,
                     const char *what)
{
    if (kind == SET_KEY)
        return fault_set(f, ERR_SET_REFUSED, "", "key %.*s %s", STR_FORMAT(name), what);
    return fault_set(f, ERR_SET_REFUSED, "", "policy %.*s of tenant %.*s %s", STR_FORMAT(name),
                     STR_FORMAT(tenant), what);
}

/* ---- digests ---- */

/* With its length, so that no two lists of fields have the same bytes. */
static void add_text(struct hasher *h, struct str text)
{
    char size[U64_DIGITS];
    struct str digits = str_is_absent(text) ? STR("-") : str_of_u64(text.size, size);
    hasher_add(h, digits);
    hasher_add(h, STR(":"));
    if (text.size > 0) hasher_add(h, text);
}

static void add_number(struct hasher *h, uint64_t number)
{
    char digits[U64_DIGITS];
    add_text(h, str_of_u64(number, digits));
}

struct sha256 set_key_digest(struct stored_set *t, struct str id, struct str tenant, struct str row)
{
    hasher_begin(t->hasher);
    add_text(t->hasher, STR("key"));
    add_text(t->hasher, id);
    add_text(t->hasher, tenant);
    add_text(t->hasher, row);
    return hasher_end(t->hasher);
}

struct sha256 set_policy_digest(struct stored_set *t, const struct set_policy *p)
{
    hasher_begin(t->hasher);
    add_text(t->hasher, STR("policy"));
    add_text(t->hasher, p->tenant);
    add_text(t->hasher, p->name);
    add_text(t->hasher, p->format);
    add_text(t->hasher, p->digest);
    add_text(t->hasher, p->updated_by);
    add_text(t->hasher, p->directory);
    add_number(t->hasher, p->version);
    add_number(t->hasher, p->revision);
    add_number(t->hasher, p->is_active ? 1 : 0);
    return hasher_end(t->hasher);
}

/* Of everything that the set is. */
static void mac_write(const struct store *s, const struct stored_set *t, char to[SHA256_HEX])
{
    hasher_begin(t->hasher);
    add_text(t->hasher, STR("writ set 1"));
    add_text(t->hasher, str_from(s->log_id));
    add_number(t->hasher, t->adopted_at);
    add_number(t->hasher, t->revision.number);
    add_text(t->hasher, str_from(t->revision.history_id));
    add_text(t->hasher, str_of(t->history, t->history_size));
    for (size_t i = 0; i < t->count; i++) {
        add_text(t->hasher, t->list[i].text);
        hasher_add(t->hasher, str_of((const char *)t->list[i].digest.bytes, SHA256_BYTES));
    }
    const struct sha256 all = hasher_end(t->hasher);
    const struct sha256 *key = &s->set_keys.stored;
    sha256_write_hex(hmac_once(str_of((const char *)key->bytes, SHA256_BYTES),
                               str_of((const char *)all.bytes, SHA256_BYTES)),
                     to);
}

const char SET_POLICY_ROWS[] =
    "SELECT p.tenant_id, p.name, v.format, v.digest, p.updated_by, p.directory, p.version, p.revision,"
    " p.is_active, v.content FROM policies p LEFT JOIN policy_versions v"
    " ON v.tenant_id = p.tenant_id AND v.name = p.name AND v.version = p.version"
    " ORDER BY p.tenant_id, p.name";

bool set_policy_of(struct statement *q, struct set_policy *ret)
{
    char hex[SHA256_HEX];
    *ret = (struct set_policy){.tenant = column_text(q, 0),
                               .name = column_text(q, 1),
                               .format = column_text(q, 2),
                               .digest = column_text(q, 3),
                               .updated_by = column_text(q, 4),
                               .directory = column_text(q, 5),
                               .version = column_u64(q, 6),
                               .revision = column_u64(q, 7),
                               .is_active = column_u64(q, 8) != 0};
    struct str content = column_text(q, 9);
    if (str_is_absent(content)) return false;
    sha256_write_hex(sha256_once(content), hex);
    return str_equal(ret->digest, str_of(hex, sizeof hex));
}

enum err set_is_older(struct fault *f, const struct revision *now, const struct seen *seen)
{
    return fault_set(
        f, ERR_SET_REFUSED, "",
        "the store has revision %llu, which does not follow revision %llu that this platform has seen: an "
        "older database was restored, or a failover lost changes. Run writ set show and writ set adopt",
        (unsigned long long)now->number, (unsigned long long)seen->revision.number);
}

void set_version_mac(const struct store *s, struct str tenant, struct str name, uint64_t version,
                     struct str format, struct str content, char to[SHA256_HEX])
{
    struct hasher *h = hasher_create();
    hasher_begin(h);
    add_text(h, STR("writ version 1"));
    add_text(h, tenant);
    add_text(h, name);
    add_number(h, version);
    add_text(h, format);
    add_text(h, content);
    const struct sha256 all = hasher_end(h);
    hasher_destroy(h);
    const struct sha256 *key = &s->set_keys.stored;
    sha256_write_hex(hmac_once(str_of((const char *)key->bytes, SHA256_BYTES),
                               str_of((const char *)all.bytes, SHA256_BYTES)),
                     to);
}

/* ---- the list ---- */

static struct str entry_text(char room[SET_TEXT_MAX], enum set_kind kind, struct str tenant,
                             struct str name)
{
    struct buf b = buf_over(room, SET_TEXT_MAX);
    buf_put_byte(&b, kind_names[kind][0]);
    buf_put(&b, tenant);
    buf_put_byte(&b, '\0');
    buf_put(&b, name);
    return b.overflow ? (struct str){0} : buf_view(&b);
}

struct set_name set_name_of(const struct set_entry *e)
{
    struct str rest = str_skip(e->text, 1);
    size_t end = str_find(rest, '\0');
    return (struct set_name){.kind = e->text.bytes[0] == 'k' ? SET_KEY : SET_POLICY,
                             .tenant = str_of(rest.bytes, end),
                             .name = end < rest.size ? str_skip(rest, end + 1) : STR("")};
}

/* The entry's position, or the one where it belongs. */
static size_t position_of(const struct stored_set *t, struct str text, bool *ret_is_there)
{
    size_t low = 0, high = t->count;
    *ret_is_there = false;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_compare(t->list[middle].text, text);
        if (order == 0) *ret_is_there = true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct set_entry *set_find(struct stored_set *t, enum set_kind kind, struct str tenant,
                           struct str name)
{
    char room[SET_TEXT_MAX];
    bool is_there = false;
    struct str text = entry_text(room, kind, tenant, name);
    size_t at = str_is_absent(text) ? 0 : position_of(t, text, &is_there);
    return is_there ? &t->list[at] : NULL;
}

/* False: no memory. */
static bool make_room(struct stored_set *t)
{
    if (t->count < t->room) return true;
    size_t room = t->room == 0 ? 256 : t->room * 2;
    struct set_entry *list = realloc(t->list, room * sizeof *list);
    if (list == NULL) return false;
    t->list = list;
    t->room = room;
    return true;
}

static enum err entry_put(struct stored_set *t, enum set_kind kind, struct str tenant,
                          struct str name, const struct sha256 *digest)
{
    char room[SET_TEXT_MAX];
    bool is_there;
    struct str text = entry_text(room, kind, tenant, name);
    if (str_is_absent(text)) return ERR_FULL;
    size_t at = position_of(t, text, &is_there);
    if (!is_there) {
        text = arena_copy(&t->arena, text);
        if (str_is_absent(text) || !make_room(t)) return ERR_FULL;
        memmove(t->list + at + 1, t->list + at, (t->count - at) * sizeof *t->list);
        t->count++;
        t->list[at] = (struct set_entry){.text = text};
    }
    t->list[at].digest = *digest;
    t->is_changed = true;
    return ERR_OK;
}

/* ---- opening ---- */

static enum err head_read(struct store *s, struct stored_set *t, char ret_mac[SHA256_HEX],
                          bool *ret_has_mac)
{
    struct statement *q = database_statement(
        s->database, "SELECT revision, history_id, adopted_at, set_history, set_mac FROM store");
    enum err err = statement_step(q);
    if (err == ERR_OK) {
        struct str id = column_text(q, 1), history = column_text(q, 3), mac = column_text(q, 4);
        t->revision.number = column_u64(q, 0);
        t->adopted_at = column_u64(q, 2);
        *ret_has_mac = mac.size == SHA256_HEX;
        if (*ret_has_mac) memcpy(ret_mac, mac.bytes, SHA256_HEX);
        if (id.size <= HISTORY_ID_TEXT && id.size > 0)
            memcpy(t->revision.history_id, id.bytes, id.size);
        if (history.size <= sizeof t->history && history.size > 0) {
            memcpy(t->history, history.bytes, history.size);
            t->history_size = history.size;
        }
    }
    statement_reset(q);
    return err == ERR_END ? ERR_CORRUPT : err;
}

static enum err list_read(struct store *s, struct stored_set *t)
{
    struct statement *q = database_statement(
        s->database,
        "SELECT kind, tenant_id, name, digest FROM set_rows ORDER BY kind, tenant_id, name");
    enum err err;
    while ((err = statement_step(q)) == ERR_OK) {
        struct sha256 digest = {{0}}; /* one that cannot be read fits no row */
        bool is_key = str_equal(column_text(q, 0), STR("key"));
        (void)sha256_read_hex(column_text(q, 3), &digest);
        err = entry_put(t, is_key ? SET_KEY : SET_POLICY, column_text(q, 1), column_text(q, 2),
                        &digest);
        if (err != ERR_OK) break;
    }
    statement_reset(q);
    t->is_changed = false;
    return err == ERR_END ? ERR_OK : err;
}

static void set_free(struct stored_set *t)
{
    if (t == NULL) return;
    hasher_destroy(t->hasher);
    arena_fini(&t->arena);
    free(t->list);
    free(t);
}

static struct stored_set *set_new(void)
{
    struct stored_set *t = calloc(1, sizeof *t);
    if (t == NULL) return NULL;
    arena_init(&t->arena, SET_ARENA_FIRST, SET_ARENA_LIMIT);
    t->hasher = hasher_create();
    return t;
}

static enum err check_mac(const struct store *s, const struct stored_set *t, const char *mac,
                          bool has_mac, struct fault *f)
{
    char expected[SHA256_HEX];
    if (!has_mac)
        return fault_set(
            f, ERR_SET_REFUSED, "",
            "the stored policies and keys are not adopted: an earlier version wrote them, or their MAC "
            "was removed. Check them with writ set show, then run writ set adopt");
    mac_write(s, t, expected);
    if (bytes_equal_secret(expected, mac, SHA256_HEX)) return ERR_OK;
    return fault_set(
        f, ERR_SET_REFUSED, "",
        "a row of set_rows or store does not fit store.set_mac: it was changed in the database, or "
        "this program has another pepper. Restore the database, or run writ set show and writ set adopt");
}

void set_close(struct store *s)
{
    set_free(s->set);
    s->set = NULL;
}

enum err set_open_any(struct store *s, struct fault *f)
{
    char mac[SHA256_HEX];
    bool has_mac = false;
    set_close(s);
    if (!s->has_set_keys)
        return fault_set(f, ERR_SET_REFUSED, "",
                         "this program has no pepper for the policies and keys in the store");
    struct stored_set *t = set_new();
    if (t == NULL) return fault_plain(f, ERR_FULL);
    enum err err = head_read(s, t, mac, &has_mac);
    if (err == ERR_OK) err = list_read(s, t);
    if (err != ERR_OK) {
        set_free(t);
        return store_fault(s, err, f);
    }
    err = check_mac(s, t, mac, has_mac, f);
    t->is_authentic = err == ERR_OK;
    s->set = t;
    return err;
}

enum err set_open(struct store *s, struct fault *f)
{
    if (s->set != NULL && s->set->is_authentic) return ERR_OK;
    enum err err = set_open_any(s, f);
    if (err != ERR_OK) set_close(s);
    return err;
}

enum err set_open_empty(struct store *s, struct fault *f)
{
    char mac[SHA256_HEX];
    bool has_mac;
    check(s->set == NULL && s->has_set_keys);
    struct stored_set *t = set_new();
    if (t == NULL) return fault_plain(f, ERR_FULL);
    enum err err = head_read(s, t, mac, &has_mac);
    if (err != ERR_OK) {
        set_free(t);
        return store_fault(s, err, f);
    }
    t->history_size = 0;
    t->adopted_at = 0;
    t->is_authentic = true; /* by the command that makes it */
    s->set = t;
    return ERR_OK;
}

/* ---- changing ---- */

void set_note_revision(struct store *s, const struct revision *to)
{
    struct stored_set *t = s->set;
    size_t count = 1;
    t->revision = *to;
    t->is_changed = true;
    for (size_t i = 0; i < t->history_size; i++) count += t->history[i] == ' ';
    struct str kept = str_of(t->history, t->history_size);
    while (count >= SET_HISTORY_MAX && kept.size > 0) {
        kept = str_skip(kept, str_find(kept, ' ') + 1);
        count--;
    }
    memmove(t->history, kept.bytes, kept.size);
    struct buf b = buf_over(t->history, sizeof t->history);
    b.size = kept.size;
    buf_printf(&b, "%s%llu:%s", kept.size > 0 ? " " : "", (unsigned long long)to->number,
               to->history_id);
    check(!b.overflow);
    t->history_size = b.size;
}

enum err set_seal(struct store *s, struct fault *f)
{
    struct stored_set *t = s->set;
    char mac[SHA256_HEX];
    if (t == NULL || !t->is_changed) return ERR_OK;
    mac_write(s, t, mac);
    struct statement *q = database_statement(
        s->database, "UPDATE store SET adopted_at = ?1, set_history = ?2, set_mac = ?3");
    bind_u64(q, 1, t->adopted_at);
    bind_text(q, 2, str_of(t->history, t->history_size));
    bind_text(q, 3, str_of(mac, sizeof mac));
    return store_fault(s, statement_run(q), f);
}

static enum err put(struct store *s, enum set_kind kind, struct str tenant, struct str name,
                    const struct sha256 *digest, struct fault *f)
{
    char hex[SHA256_HEX];
    sha256_write_hex(*digest, hex);
    struct statement *q = database_statement(
        s->database, "INSERT INTO set_rows (kind, tenant_id, name, digest) VALUES (?1, ?2, ?3, ?4)"
                     " ON CONFLICT (kind, tenant_id, name) DO UPDATE SET digest = excluded.digest");
    bind_text(q, 1, str_from(kind_names[kind]));
    bind_text(q, 2, tenant);
    bind_text(q, 3, name);
    bind_text(q, 4, str_of(hex, sizeof hex));
    enum err err = statement_run(q);
    if (err == ERR_OK) err = entry_put(s->set, kind, tenant, name, digest);
    return store_fault(s, err, f);
}

enum err set_put_key(struct store *s, struct str id, struct str tenant, struct str row,
                     struct fault *f)
{
    enum err err = set_open(s, f);
    if (err != ERR_OK) return err;
    const struct sha256 digest = set_key_digest(s->set, id, tenant, row);
    return put(s, SET_KEY, STR(""), id, &digest, f);
}

enum err set_put_policy(struct store *s, const struct set_policy *p, struct fault *f)
{
    enum err err = set_open(s, f);
    if (err != ERR_OK) return err;
    const struct sha256 digest = set_policy_digest(s->set, p);
    return put(s, SET_POLICY, p->tenant, p->name, &digest, f);
}

enum err set_remove(struct store *s, enum set_kind kind, struct str tenant, struct str name,
                    struct fault *f)
{
    enum err err = set_open(s, f);
    if (err != ERR_OK) return err;
    struct stored_set *t = s->set;
    struct set_entry *e = set_find(t, kind, tenant, name);
    if (e == NULL) return set_refused(f, kind, tenant, name, "was added in the database");
    size_t at = (size_t)(e - t->list);
    memmove(e, e + 1, (t->count - at - 1) * sizeof *e);
    t->count--;
    t->is_changed = true;
    struct statement *q = database_statement(
        s->database, "DELETE FROM set_rows WHERE kind = ?1 AND tenant_id = ?2 AND name = ?3");
    bind_text(q, 1, str_from(kind_names[kind]));
    bind_text(q, 2, tenant);
    bind_text(q, 3, name);
    return store_fault(s, statement_run(q), f);
}

/* ---- checking ---- */

static enum err check_row(struct store *s, enum set_kind kind, struct str tenant, struct str name,
                          const struct sha256 *digest, struct fault *f)
{
    const struct set_entry *e = set_find(s->set, kind, tenant, name);
    if (e == NULL) return set_refused(f, kind, tenant, name, "was added in the database");
    if (memcmp(e->digest.bytes, digest->bytes, SHA256_BYTES) == 0) return ERR_OK;
    return set_refused(f, kind, tenant, name, "was changed in the database");
}

enum err set_check_key(struct store *s, struct str id, struct str tenant, struct str row,
                       struct fault *f)
{
    enum err err = set_open(s, f);
    if (err != ERR_OK) return err;
    const struct sha256 digest = set_key_digest(s->set, id, tenant, row);
    return check_row(s, SET_KEY, STR(""), id, &digest, f);
}

enum err set_check_policy(struct store *s, const struct set_policy *p, struct fault *f)
{
    enum err err = set_open(s, f);
    if (err != ERR_OK) return err;
    const struct sha256 digest = set_policy_digest(s->set, p);
    return check_row(s, SET_POLICY, p->tenant, p->name, &digest, f);
}

enum err set_check_no_policy(struct store *s, struct str tenant, struct str name, struct fault *f)
{
    enum err err = set_open(s, f);
    if (err != ERR_OK || set_find(s->set, SET_POLICY, tenant, name) == NULL) return err;
    return set_refused(f, SET_POLICY, tenant, name, "was deleted in the database");
}
