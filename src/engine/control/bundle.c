#include "engine/control/bundle.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/reserve.h"
#include "engine/decision/digest.h"

enum { UNLOADABLE_GRACE_MS = 60000, BUNDLE_ARENA_BYTES = 1 << 30 };

/* Revisions in which nothing of the tenant changed share a set. */
struct shared_set {
    atomic_uint holders;
    struct policy_set *set;
};

struct tenant {
    struct str name;
    struct shared_set *policies;
    /* chained over names, versions and digests of the rows */
    struct sha256 fingerprint;
    uint64_t unloadable_since_ms; /* 0 = the newest documents are in use */
    struct policy_set_entry *entries;
    size_t entry_count, row_count;
    bool is_broken; /* a document did not load */
};

struct bundle {
    struct arena arena; /* names, tenants, entries */
    atomic_uint holders;
    struct bundle *next_retired;
    struct bundle_facts facts;
    struct key_table *keys;
    struct globs served;        /* the tenants of this engine's own key */
    bool serves_all;            /* the bundle does not list them */
    struct map tenants;         /* name → struct tenant */
    struct map documents;       /* tenant + 0 + name → struct policy_document, for sharing */
    struct policy_set *nothing; /* denies everything: for tenants without documents */
    struct limit_windows limit_windows;
};

/* What holds for a bundle that reactors may use. */
static void bundle_check(const struct bundle *b)
{
    check(b->keys != NULL && b->nothing != NULL);
    check(b->facts.tenants == b->tenants.count && b->facts.documents == b->documents.count);
    check(b->facts.tenants_unloadable <= b->facts.tenants);
    check(b->facts.close_at_ms == 0 || b->facts.tenants_unloadable > 0);
    check(b->limit_windows.count == 0 || b->limit_windows.longest_ms > 0);
    check(b->facts.keys <= LIMIT_KEYS);
}

static struct shared_set *set_share(struct shared_set *s)
{
    check(atomic_load(&s->holders) > 0);
    atomic_fetch_add(&s->holders, 1);
    return s;
}

/* NULL: out of memory, and the set was freed. */
static struct shared_set *set_hold(struct policy_set *set)
{
    struct shared_set *s = malloc(sizeof *s);
    if (s == NULL) {
        policy_set_destroy(set);
        return NULL;
    }
    atomic_init(&s->holders, 1);
    s->set = set;
    return s;
}

static void set_drop(struct shared_set *s)
{
    if (s == NULL || atomic_fetch_sub(&s->holders, 1) != 1) return;
    check(s->set != NULL);
    policy_set_destroy(s->set);
    free(s);
}

void bundle_destroy(struct bundle *b)
{
    if (b == NULL) return;
    struct str key;
    void *value;
    for (size_t at = 0; map_next(&b->tenants, &at, &key, &value);) {
        struct tenant *t = value;
        set_drop(t->policies);
    }
    for (size_t at = 0; map_next(&b->documents, &at, &key, &value);) policy_document_release(value);
    map_fini(&b->tenants);
    map_fini(&b->documents);
    key_table_destroy(b->keys);
    policy_set_destroy(b->nothing);
    arena_fini(&b->arena);
    free(b);
}

static atomic_uint *holders_of(const struct bundle *b)
{
    return &((struct bundle *)(uintptr_t)b)->holders; /* the rest never changes */
}

void bundle_hold(const struct bundle *b)
{
    atomic_fetch_add_explicit(holders_of(b), 1, memory_order_relaxed);
}

void bundle_let_go(const struct bundle *b)
{
    const unsigned before = atomic_fetch_sub_explicit(holders_of(b), 1, memory_order_release);
    check(before > 0);
}

void bundle_retire(struct bundle **retired, struct bundle *b)
{
    if (b != NULL) {
        b->next_retired = *retired;
        *retired = b;
    }
    for (struct bundle **at = retired; *at != NULL;) {
        struct bundle *one = *at;
        if (atomic_load_explicit(&one->holders, memory_order_acquire) > 0) {
            at = &one->next_retired;
            continue;
        }
        *at = one->next_retired;
        bundle_destroy(one);
    }
}

/* ---- keys ---- */

static enum err read_keys(struct bundle *b, const struct json *rows, struct fault *f)
{
    if (!json_is_array(rows)) return fault_set(f, ERR_BAD_VALUE, "/keys", "keys: must be an array");
    size_t count = 0, capacity = rows->count;
    if (capacity > LIMIT_KEYS)
        return fault_set(f, ERR_BAD_VALUE, "/keys", "keys: more than %d", LIMIT_KEYS);
    struct key **keys = calloc(capacity + 1, sizeof(struct key *));
    if (keys == NULL) return fault_plain(f, ERR_FULL);
    for (const struct json *row = capacity == 0 ? NULL : rows->child; row != NULL;
         row = row->next) {
        struct fault why;
        if (key_read(row, &keys[count], &why) == ERR_OK) count++;
        /* the key stays unknown, so it permits nothing */
        else
            log_line(LOG_ERROR, "key_unreadable", "why", why.text, NULL);
    }
    check(count <= capacity);
    enum err err = key_table_create(keys, count, &b->keys);
    if (err != ERR_OK) { /* the table took none of them */
        for (size_t i = 0; i < count; i++) key_destroy(keys[i]);
        count = 0;
    }
    free(keys);
    b->facts.keys = count;
    if (err == ERR_EXISTS)
        return fault_set(f, ERR_BAD_VALUE, "/keys", "keys: two of them have the same id");
    return err == ERR_OK ? ERR_OK : fault_plain(f, err);
}

/* A database that was restored may have lost revocations: keys that it no longer lists as revoked
 * stay revoked. Another database starts over. */
static void keep_revoked(struct bundle *b, const struct bundle *before)
{
    if (before == NULL || strcmp(b->facts.log_id, before->facts.log_id) != 0) return;
    check(b->keys != NULL && before->keys != NULL);
    size_t count = key_table_keep_revoked(b->keys, before->keys, NULL, 0);
    if (count > 0)
        log_text(
            LOG_WARNING, "keys_stay_revoked",
            "the platform has %zu revoked keys as valid again: its database was restored to an older "
            "state. They stay revoked in this engine until it stops",
            count);
}

/* ---- policies ---- */

static struct str document_key(struct arena *a, struct str tenant, struct str name)
{
    char *bytes = arena_bytes(a, tenant.size + 1 + name.size);
    if (bytes == NULL) return (struct str){0};
    struct buf b = buf_over(bytes, tenant.size + 1 + name.size);
    buf_put(&b, tenant);
    buf_put_byte(&b, '\0');
    buf_put(&b, name);
    check(!b.overflow);
    return buf_view(&b);
}

/* The document that the bundle before has under this key, if it has this digest; NULL otherwise. */
static struct policy_document *document_held(const struct bundle *before, struct str key,
                                             struct str hex)
{
    struct policy_document *held = before == NULL ? NULL : map_get(&before->documents, key);
    struct sha256 digest;
    if (held == NULL || !sha256_read_hex(hex, &digest)) return NULL;
    struct sha256 have = policy_document_digest(held);
    return memcmp(have.bytes, digest.bytes, SHA256_BYTES) == 0 ? policy_document_share(held) : NULL;
}

static enum err document_load(struct str tenant, struct str name, struct str content,
                              struct policy_document **ret)
{
    struct policy_problems problems = {0};
    enum err err = policy_load(name, content, ret, &problems);
    if (err != ERR_OK)
        log_text(LOG_ERROR, "policy_unloadable", "tenant %.*s, policy %.*s: %s %s",
                 STR_FORMAT(tenant), STR_FORMAT(name),
                 problems.count > 0 ? problems.list[0].path : "",
                 problems.count > 0 ? problems.list[0].message : err_sentence(err));
    return err;
}

/* The compiled document of this row: the existing one if its digest is the same. */
static enum err document_of(struct bundle *b, const struct bundle *before, struct str tenant,
                            const struct json *row, struct policy_document **ret)
{
    struct str name = json_text(row, STR("name")), content = json_text(row, STR("content"));
    struct str key = document_key(&b->arena, tenant, name);
    if (str_is_absent(key) || str_is_absent(name) || str_is_absent(content) ||
        map_get(&b->documents, key) != NULL) {
        log_text(LOG_ERROR, "policy_unloadable",
                 "tenant %.*s: a policy without name or content, or twice in the bundle",
                 STR_FORMAT(tenant));
        return ERR_BAD_VALUE;
    }
    struct policy_document *document = document_held(before, key, json_text(row, STR("digest")));
    enum err err = document != NULL ? ERR_OK : document_load(tenant, name, content, &document);
    if (err != ERR_OK) return err;
    if (!map_put(&b->documents, key, document)) {
        policy_document_release(document);
        return ERR_FULL;
    }
    *ret = document;
    return ERR_OK;
}

static struct tenant *tenant_of(struct bundle *b, struct str name)
{
    struct tenant *t = map_get(&b->tenants, name);
    if (t != NULL) return t;
    t = arena_new(&b->arena, struct tenant);
    if (t == NULL) return NULL;
    t->name = arena_copy(&b->arena, name);
    return map_put(&b->tenants, t->name, t) ? t : NULL;
}

/* Makes the tenants, and counts the rows of each. */
static enum err count_rows(struct bundle *b, const struct json *rows, struct fault *f)
{
    for (const struct json *row = rows->child; row != NULL; row = row->next) {
        struct str name = json_text(row, STR("tenant_id"));
        struct tenant *t = str_is_absent(name) ? NULL : tenant_of(b, name);
        if (t == NULL)
            return fault_set(f, ERR_BAD_VALUE, "/policies",
                             "policies: a row without tenant_id, or no memory");
        t->row_count++;
    }
    return ERR_OK;
}

/* The same chain of digests means that nothing of the tenant changed. */
static void fingerprint_add(struct tenant *t, const struct json *row)
{
    char text[512];
    struct buf b = buf_over(text, sizeof text);
    struct str name = json_text(row, STR("name")), digest = json_text(row, STR("digest"));
    buf_put(&b, str_of((const char *)t->fingerprint.bytes, SHA256_BYTES));
    buf_put_u64(&b, json_u64(row, STR("version"), 0));
    buf_put_byte(&b, ' ');
    buf_put(&b, str_of(digest.bytes, digest.size < 64 ? digest.size : 64));
    buf_put_byte(&b, ' ');
    buf_put(&b, str_of(name.bytes, name.size < 64 ? name.size : 64));
    check(!b.overflow);
    t->fingerprint = sha256_once(buf_view(&b));
}

/* The set of a tenant whose documents do not load: its last set for a while, then nothing. */
static enum err fall_back(struct bundle *b, struct tenant *t, const struct tenant *before,
                          uint64_t now_ms)
{
    check(t->policies == NULL);
    t->unloadable_since_ms =
        before != NULL && before->unloadable_since_ms != 0 ? before->unloadable_since_ms : now_ms;
    uint64_t close_at_ms = t->unloadable_since_ms + UNLOADABLE_GRACE_MS;
    b->facts.tenants_unloadable++;
    if (before != NULL && before->policies != NULL && now_ms < close_at_ms) {
        t->policies = set_share(before->policies);
        if (b->facts.close_at_ms == 0 || close_at_ms < b->facts.close_at_ms)
            b->facts.close_at_ms = close_at_ms;
        return ERR_OK;
    }
    struct policy_set *closed;
    enum err err = policy_set_closed(
        "default:policy_unloadable",
        "The tenant's newest policies cannot be loaded, so everything is denied.", &closed);
    if (err != ERR_OK) return err;
    t->policies = set_hold(closed);
    return t->policies != NULL ? ERR_OK : ERR_FULL;
}

static enum err join_tenant(struct bundle *b, const struct bundle *before, struct tenant *t,
                            uint64_t now_ms, struct fault *f)
{
    check(t->policies == NULL && t->entry_count <= t->row_count);
    const struct tenant *old = before == NULL ? NULL : map_get(&before->tenants, t->name);
    bool all_loaded = !t->is_broken;
    if (all_loaded && old != NULL && old->unloadable_since_ms == 0 &&
        memcmp(old->fingerprint.bytes, t->fingerprint.bytes, SHA256_BYTES) == 0) {
        t->policies = set_share(old->policies);
        return ERR_OK;
    }
    struct policy_set *set;
    enum err err =
        all_loaded ? policy_set_create(t->entries, t->entry_count, &set, f) : ERR_INVALID_POLICY;
    if (err == ERR_OK) {
        t->policies = set_hold(set);
        return t->policies != NULL ? ERR_OK : fault_plain(f, ERR_FULL);
    }
    if (all_loaded)
        log_text(LOG_ERROR, "policy_unloadable", "tenant %.*s: %s", STR_FORMAT(t->name), f->text);
    return fall_back(b, t, old, now_ms);
}

static enum err read_policies(struct bundle *b, const struct bundle *before,
                              const struct json *rows, uint64_t now_ms, struct fault *f)
{
    if (!json_is_array(rows))
        return fault_set(f, ERR_BAD_VALUE, "/policies", "policies: must be an array");
    enum err err = count_rows(b, rows, f);
    for (const struct json *row = rows->child; row != NULL && err == ERR_OK; row = row->next) {
        struct tenant *t = map_get(&b->tenants, json_text(row, STR("tenant_id")));
        if (t->entries == NULL)
            t->entries = arena_array(&b->arena, struct policy_set_entry, t->row_count);
        if (t->entries == NULL) {
            err = fault_plain(f, ERR_FULL);
            break;
        }
        struct policy_document *document;
        fingerprint_add(t, row);
        if (document_of(b, before, t->name, row, &document) != ERR_OK)
            t->is_broken = true;
        else
            t->entries[t->entry_count++] =
                (struct policy_set_entry){document, json_u64(row, STR("version"), 0)};
    }
    struct str key;
    void *value;
    for (size_t at = 0; err == ERR_OK && map_next(&b->tenants, &at, &key, &value);) {
        struct tenant *t = value;
        err = join_tenant(b, before, t, now_ms, f);
        if (err == ERR_OK) b->facts.rules += policy_set_rules(t->policies->set);
    }
    b->facts.tenants = b->tenants.count;
    b->facts.documents = b->documents.count;
    return err;
}

/* ---- windows of limits ---- */

struct listing {
    struct limit_windows_entry *list; /* NULL: only count them */
    size_t count;
    struct str tenant;
};

static void list_limit(void *context, struct str policy_name, struct str rule_id,
                       enum limit_per per, uint64_t window_ms)
{
    struct listing *l = context;
    if (l->list != NULL)
        l->list[l->count] = (struct limit_windows_entry){
            limit_tag_of(l->tenant, policy_name, rule_id, per), window_ms};
    l->count++;
}

static void list_all(const struct bundle *b, struct listing *l)
{
    struct str key;
    void *value;
    for (size_t at = 0; map_next(&b->tenants, &at, &key, &value);) {
        const struct tenant *t = value;
        l->tenant = t->name;
        policy_set_limits(t->policies->set, list_limit, l);
    }
}

static int by_tag(const void *a, const void *b)
{
    const struct limit_windows_entry *x = a, *y = b;
    return x->tag < y->tag ? -1 : x->tag > y->tag;
}

static enum err list_windows(struct bundle *b, struct fault *f)
{
    struct listing l = {0};
    list_all(b, &l);
    const size_t room = l.count;
    l.list = arena_array(&b->arena, struct limit_windows_entry, l.count + 1);
    if (l.list == NULL) return fault_plain(f, ERR_FULL);
    l.count = 0;
    list_all(b, &l);
    check(l.count == room);
    qsort(l.list, l.count, sizeof *l.list, by_tag);
    b->limit_windows = (struct limit_windows){
        .list = l.list, .count = l.count, .is_unknown = b->facts.revision == 0};
    for (size_t i = 0; i < l.count; i++)
        if (l.list[i].window_ms > b->limit_windows.longest_ms)
            b->limit_windows.longest_ms = l.list[i].window_ms;
    return ERR_OK;
}

const struct limit_windows *bundle_limit_windows(const struct bundle *b)
{
    return &b->limit_windows;
}

/* A program that skips what it does not know may skip what restricts a key or a policy. */
static enum err check_format(const struct json *root, struct fault *f)
{
    const struct json *format = json_get(root, STR("format"));
    const uint64_t number = json_u64(root, STR("format"), 0);
    if (format == NULL || (number >= LIMIT_BUNDLE_FORMAT_PLAIN && number <= LIMIT_BUNDLE_FORMAT))
        return ERR_OK;
    const struct str shown = str_cut(format->raw, 32);
    return fault_set(
        f, ERR_BAD_VALUE, "/format",
        "the bundle has format %.*s, and this engine reads %d: a newer platform made it, so this engine has to be upgraded, too",
        STR_FORMAT(shown), LIMIT_BUNDLE_FORMAT);
}

enum err bundle_create(struct str text, const struct bundle *before, uint64_t now_ms,
                       struct bundle **ret, struct fault *f)
{
    static const struct json_options options = {.nul_anywhere = false};
    struct arena tree;
    arena_init(&tree, 1 << 16, BUNDLE_ARENA_BYTES);
    struct bundle *b = calloc(1, sizeof *b);
    if (b == NULL) {
        arena_fini(&tree);
        return fault_plain(f, ERR_FULL);
    }
    uint64_t missed = memory_missed();
    arena_init(&b->arena, 1 << 16, BUNDLE_ARENA_BYTES);

    struct json *root;
    enum err err = json_read(text, &options, &tree, &root, f);
    if (err == ERR_OK && root->type != JSON_OBJECT)
        err = fault_set(f, ERR_BAD_VALUE, "", "the bundle is not an object");
    if (err == ERR_OK) err = check_format(root, f);
    if (err == ERR_OK) err = policy_set_create(NULL, 0, &b->nothing, f);
    if (err == ERR_OK) {
        struct str log_id = json_text(root, STR("log_id"));
        b->facts.revision = json_u64(root, STR("revision"), 0);
        if (log_id.size > 0 && log_id.size <= LOG_ID_TEXT_MAX)
            memcpy(b->facts.log_id, log_id.bytes, log_id.size);
        b->facts.adopted_at_ms = json_u64(root, STR("adopted_at_ms"), 0);
        b->facts.history = arena_copy(&b->arena, json_text(root, STR("history")));
        err = read_keys(b, json_get(root, STR("keys")), f);
        b->serves_all = json_get(root, STR("tenants")) == NULL;
    }
    if (err == ERR_OK) keep_revoked(b, before);
    if (err == ERR_OK) err = globs_read(root, "tenants", (struct str){0}, &b->arena, &b->served, f);
    if (err == ERR_OK) err = read_policies(b, before, json_get(root, STR("policies")), now_ms, f);
    if (err == ERR_OK) err = list_windows(b, f);
    /* Parts that were skipped for want of memory must not be missing until the next revision. */
    if (tree.overflow || b->arena.overflow || memory_missed() != missed)
        err = fault_plain(f, ERR_FULL);
    arena_fini(&tree);
    if (err != ERR_OK) {
        bundle_destroy(b);
        return err;
    }
    bundle_check(b);
    *ret = b;
    return ERR_OK;
}

/* The number of an entry of a history. */
static uint64_t number_of(struct str entry)
{
    uint64_t number = 0;
    (void)str_to_u64(str_of(entry.bytes, str_find(entry, ':')), &number);
    return number;
}

static struct str last_of(struct str history)
{
    struct str entry = history;
    while (str_find(entry, ' ') < entry.size) entry = str_skip(entry, str_find(entry, ' ') + 1);
    return entry;
}

/* A history that begins after the entry cannot be compared with it. */
static bool history_has(struct str history, struct str entry)
{
    struct str rest = history, one;
    for (bool first = true; str_split(&rest, ' ', &one); first = false)
        if (str_equal(one, entry) || (first && number_of(one) > number_of(entry))) return true;
    return false;
}

enum err bundle_follows(const struct bundle_facts *next, const struct bundle_facts *now,
                        struct fault *f)
{
    if (now->revision == 0 || next->adopted_at_ms > now->adopted_at_ms) return ERR_OK;
    if (next->adopted_at_ms < now->adopted_at_ms)
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "the platform's revision %llu is of before the adoption of revision %llu, which is in force: "
            "its database was restored. Run writ set adopt on the platform's machine",
            (unsigned long long)next->revision, (unsigned long long)now->revision);
    if (next->revision < now->revision)
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "the platform's revision %llu is older than %llu, which is in force: its database was restored. "
            "Run writ set adopt on the platform's machine",
            (unsigned long long)next->revision, (unsigned long long)now->revision);
    if (history_has(next->history, last_of(now->history))) return ERR_OK;
    return fault_set(
        f, ERR_BAD_VALUE, "",
        "the platform's revision %llu does not follow %llu, which is in force: its database was restored "
        "and changed. Run writ set adopt on the platform's machine",
        (unsigned long long)next->revision, (unsigned long long)now->revision);
}

const struct bundle_facts *bundle_facts(const struct bundle *b) { return &b->facts; }

const struct key_table *bundle_keys(const struct bundle *b) { return b->keys; }

const struct globs *bundle_served(const struct bundle *b)
{
    return b->serves_all ? NULL : &b->served;
}

const struct policy_set *bundle_policies(const struct bundle *b, struct str tenant)
{
    const struct tenant *t = map_get(&b->tenants, tenant);
    check(t == NULL || t->policies != NULL);
    return t == NULL ? b->nothing : t->policies->set;
}
