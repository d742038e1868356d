/* key.c - the key as a row: JSON in, JSON out.
 *
 * A row is read strictly: every member must have its type and be within its limits, since a
 * partly understood key would grant more than its author intended. An absent list takes its
 * default (actors: the key's name; reviewers: its owner; users, nodes, tenants: none), unless
 * that would be a pattern; an empty one stays empty, so key_put() always writes the lists.
 * Unknown members are ignored. */
#include "access/key.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"

enum {
    KEY_ARENA_FIRST = 1 << 10,
    KEY_ARENA_LIMIT = 1 << 20, /* five lists of KEY_GLOBS_MAX names of the greatest length fit */
};

static const struct {
    enum role role;
    struct str name;
} roles[] = {
    {ROLE_AGENT, {"agent", 5}},       {ROLE_APP, {"app", 3}},
    {ROLE_REVIEWER, {"reviewer", 8}}, {ROLE_POLICY_ADMIN, {"policy_admin", 12}},
    {ROLE_AUDITOR, {"auditor", 7}},   {ROLE_INGEST, {"ingest", 6}},
    {ROLE_METRICS, {"metrics", 7}},   {ROLE_ADMIN, {"admin", 5}},
};
enum { ROLES = sizeof roles / sizeof *roles };

const char *role_name(enum role r)
{
    for (size_t i = 0; i < ROLES; i++)
        if (roles[i].role == r) return roles[i].name.bytes;
    return "none";
}

bool role_read(struct str name, enum role *ret)
{
    for (size_t i = 0; i < ROLES; i++) {
        if (!str_equal(roles[i].name, name)) continue;
        *ret = roles[i].role;
        return true;
    }
    return false;
}

bool globs_match(const struct globs *g, struct str text)
{
    for (size_t i = 0; i < g->count; i++)
        if (str_glob(g->list[i], text, false)) return true;
    return false;
}

/* ---- reading ---- */

/* The member, or NULL if it is absent or null, which mean the same. */
static const struct json *member(const struct json *row, const char *name)
{
    const struct json *v = json_get(row, str_from(name));
    return v == NULL || v->type == JSON_NULL ? NULL : v;
}

/* A fault of the member `name`, with its pointer and a text that begins with its name. */
static enum err member_fault(struct fault *f, enum err err, const char *name, const char *format,
                             ...) __attribute__((format(printf, 4, 5)));
static enum err member_fault(struct fault *f, enum err err, const char *name, const char *format,
                             ...)
{
    char field[64], text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(field, sizeof field, "/%s", name);
    return fault_set(f, err, field, "%s: %s", name, text);
}

static enum err check_name(const char *what, struct str text, struct fault *f)
{
    if (text.size == 0) return member_fault(f, ERR_OUT_OF_RANGE, what, "must not be empty");
    if (str_code_points(text) > LIMIT_ID_CHARACTERS)
        return member_fault(f, ERR_OUT_OF_RANGE, what, "is longer than %d characters",
                            LIMIT_ID_CHARACTERS);
    return ERR_OK;
}

static enum err wrong_type(const char *name, const char *wanted, struct fault *f)
{
    return member_fault(f, ERR_WRONG_TYPE, name, "must be %s", wanted);
}

static enum err read_name(const struct json *row, const char *name, struct arena *a,
                          struct str *ret, struct fault *f)
{
    const struct json *v = member(row, name);
    if (v == NULL) return member_fault(f, ERR_MISSING_MEMBER, name, "is missing");
    if (v->type != JSON_STRING) return wrong_type(name, "a string", f);
    enum err err = check_name(name, v->string, f);
    if (err == ERR_OK) *ret = arena_copy(a, v->string);
    return err;
}

enum err globs_read(const struct json *row, const char *name, struct str fallback, struct arena *a,
                    struct globs *ret, struct fault *f)
{
    const struct json *v = member(row, name);
    if (v == NULL) {
        if (str_is_absent(fallback)) return ERR_OK;
        if (str_find(fallback, '*') < fallback.size)
            return member_fault(f, ERR_BAD_VALUE, name,
                                "is needed, since \"%.*s\" would be a pattern there, not a name",
                                STR_FORMAT(fallback));
        ret->list = arena_new(a, struct str);
        if (ret->list == NULL) return fault_plain(f, ERR_FULL);
        ret->list[0] = fallback;
        ret->count = 1;
        return ERR_OK;
    }
    if (v->type != JSON_ARRAY) return wrong_type(name, "an array of strings", f);
    if (v->count > KEY_GLOBS_MAX)
        return member_fault(f, ERR_OUT_OF_RANGE, name, "has more than %d entries", KEY_GLOBS_MAX);
    if (v->count == 0) return ERR_OK;
    ret->list = arena_array(a, struct str, v->count);
    if (ret->list == NULL) return fault_plain(f, ERR_FULL);
    for (const struct json *e = v->child; e != NULL; e = e->next) {
        if (e->type != JSON_STRING) return wrong_type(name, "an array of strings", f);
        enum err err = check_name(name, e->string, f);
        if (err != ERR_OK) return err;
        ret->list[ret->count++] = arena_copy(a, e->string);
    }
    return ERR_OK;
}

static enum err read_roles(const struct json *row, uint32_t *ret, struct fault *f)
{
    const struct json *v = member(row, "roles");
    if (v == NULL) return fault_set(f, ERR_MISSING_MEMBER, "/roles", "roles: is missing");
    if (v->type != JSON_ARRAY) return wrong_type("roles", "an array of strings", f);
    uint32_t all = 0;
    for (const struct json *e = v->child; e != NULL; e = e->next) {
        enum role role;
        if (e->type != JSON_STRING) return wrong_type("roles", "an array of strings", f);
        if (!role_read(e->string, &role))
            return fault_set(f, ERR_BAD_VALUE, "/roles",
                             "roles: \"%.*s\" is not one of agent, app, reviewer, policy_admin, "
                             "auditor, ingest, "
                             "metrics, admin",
                             STR_FORMAT(e->string));
        all |= (uint32_t)role;
    }
    if (all == 0) return fault_set(f, ERR_OUT_OF_RANGE, "/roles", "roles: at least one is needed");
    *ret = all;
    return ERR_OK;
}

static enum err read_time(const struct json *row, const char *name, uint64_t *ret, struct fault *f)
{
    const struct json *v = member(row, name);
    if (v == NULL) return ERR_OK;
    if (v->type != JSON_STRING) return wrong_type(name, "a string with an RFC 3339 time", f);
    /* Zero means never, so a time that is read as zero would make an expired key permanent. */
    if (time_read(v->string, ret) && *ret != 0) return ERR_OK;
    return member_fault(f, ERR_BAD_VALUE, name, "\"%.*s\" is not an RFC 3339 time since 1970",
                        STR_FORMAT(v->string));
}

static enum err read_identity(const struct json *row, struct key *k, struct fault *f)
{
    const struct json *id = member(row, "id"), *mac = member(row, "mac"),
                      *mark = member(row, "pepper_mark");
    if (id != NULL && (id->type != JSON_STRING || !id_read("key_", id->string, &k->id)))
        return fault_set(f, ERR_BAD_VALUE, "/id", "id: must be key_ and 26 digits");
    id_write("key_", k->id, k->id_text);
    if (mac != NULL && (mac->type != JSON_STRING || !sha256_read_hex(mac->string, &k->mac)))
        return fault_set(f, ERR_BAD_VALUE, "/mac", "mac: must be 64 lowercase hex digits");
    uint64_t number = json_u64(row, STR("pepper_mark"), 0);
    if (mark != NULL && (number == 0 || number > UINT32_MAX))
        return fault_set(f, ERR_BAD_VALUE, "/pepper_mark",
                         "pepper_mark: must be a whole number from 1 to 4294967295");
    k->pepper_fingerprint = (uint32_t)number;
    return ERR_OK;
}

static enum err read_replaced(const struct json *row, struct key *k, struct fault *f)
{
    const struct json *v = member(row, "replaced_by");
    struct id id;
    if (v != NULL && (v->type != JSON_STRING || !id_read("key_", v->string, &id)))
        return fault_set(f, ERR_BAD_VALUE, "/replaced_by",
                         "replaced_by: must be key_ and 26 digits");
    if (v != NULL) k->replaced_by = arena_copy(k->arena, v->string);
    return read_time(row, "original_expires_at", &k->original_expires_at, f);
}

static enum err key_fill(const struct json *row, struct key *k, struct fault *f)
{
    struct arena *a = k->arena;
    enum err err;
    if ((err = read_identity(row, k, f)) != ERR_OK) return err;
    if ((err = read_name(row, "name", a, &k->name, f)) != ERR_OK) return err;
    if ((err = read_name(row, "owner", a, &k->owner, f)) != ERR_OK) return err;
    if ((err = read_name(row, "tenant", a, &k->tenant, f)) != ERR_OK) return err;
    if ((err = read_roles(row, &k->roles, f)) != ERR_OK) return err;
    if ((err = globs_read(row, "actors", k->name, a, &k->actors, f)) != ERR_OK) return err;
    if ((err = globs_read(row, "users", (struct str){0}, a, &k->users, f)) != ERR_OK) return err;
    if ((err = globs_read(row, "reviewers", k->owner, a, &k->reviewers, f)) != ERR_OK) return err;
    if ((err = globs_read(row, "nodes", (struct str){0}, a, &k->nodes, f)) != ERR_OK) return err;
    if ((err = globs_read(row, "tenants", (struct str){0}, a, &k->tenants, f)) != ERR_OK)
        return err;
    if ((err = read_time(row, "created_at", &k->created_at, f)) != ERR_OK) return err;
    if ((err = read_time(row, "expires_at", &k->expires_at, f)) != ERR_OK) return err;
    if ((err = read_time(row, "revoked_at", &k->revoked_at, f)) != ERR_OK) return err;
    if ((err = read_replaced(row, k, f)) != ERR_OK) return err;
    if ((err = rates_read(row, &k->rates, f)) != ERR_OK) return err;
    return a->overflow ? fault_plain(f, ERR_FULL) : ERR_OK;
}

enum err key_read(const struct json *row, struct key **ret, struct fault *f)
{
    if (row == NULL || row->type != JSON_OBJECT)
        return fault_set(f, ERR_WRONG_TYPE, "", "a key must be a JSON object");
    struct key *k = calloc(1, sizeof *k);
    struct arena *arena = malloc(sizeof *arena);
    if (k == NULL || arena == NULL) {
        free(k);
        free(arena);
        return fault_plain(f, ERR_FULL);
    }
    arena_init(arena, KEY_ARENA_FIRST, KEY_ARENA_LIMIT);
    k->arena = arena;
    enum err err = key_fill(row, k, f);
    if (err != ERR_OK) {
        key_destroy(k);
        return err;
    }
    *ret = k;
    return ERR_OK;
}

void key_destroy(struct key *k)
{
    if (k == NULL) return;
    arena_fini(k->arena);
    free(k->arena);
    free(k);
}

/* ---- people without a key ---- */

const struct key *key_of_person(struct str tenant, struct str person, uint32_t may, struct arena *a)
{
    check((may & ~(uint32_t)ROLES_OF_PEOPLE) == 0);
    struct key *k = arena_new(a, struct key);
    struct str *names = arena_new(a, struct str);
    if (k == NULL || names == NULL) return NULL;
    *names = person;
    *k = (struct key){.name = person,
                      .owner = person,
                      .tenant = tenant,
                      .roles = may,
                      .reviewers = {.list = names, .count = 1}};
    return k;
}

bool key_is_person(const struct key *k)
{
    static const struct id none;
    return id_equal(k->id, none);
}

struct str key_shown_id(const struct key *k)
{
    return key_is_person(k) ? (struct str){0} : str_of(k->id_text, ID_TEXT);
}

/* ---- writing: members in JCS order ---- */

void globs_put(struct buf *out, const char *name, const struct globs *g)
{
    buf_printf(out, "\"%s\":[", name);
    for (size_t i = 0; i < g->count; i++) {
        if (i > 0) buf_put_byte(out, ',');
        json_put_string(out, g->list[i]);
    }
    buf_put_byte(out, ']');
}

static void put_time(struct buf *out, const char *name, uint64_t ms)
{
    if (ms == 0) return;
    char text[TIME_TEXT];
    time_write(ms, text);
    buf_printf(out, "\"%s\":\"%.*s\",", name, TIME_TEXT, text);
}

static void put_name(struct buf *out, const char *name, struct str text)
{
    buf_printf(out, "\"%s\":", name);
    json_put_string(out, text);
    buf_put_byte(out, ',');
}

static void put_roles(struct buf *out, uint32_t all)
{
    bool first = true;
    buf_put_literal(out, "\"roles\":[");
    for (size_t i = 0; i < ROLES; i++) {
        if ((all & (uint32_t)roles[i].role) == 0) continue;
        if (!first) buf_put_byte(out, ',');
        json_put_plain(out, roles[i].name);
        first = false;
    }
    buf_put_literal(out, "],");
}

void key_put(struct buf *out, const struct key *k, bool with_mac)
{
    buf_put_byte(out, '{');
    globs_put(out, "actors", &k->actors);
    buf_put_byte(out, ',');
    put_time(out, "created_at", k->created_at);
    put_time(out, "expires_at", k->expires_at);
    buf_printf(out, "\"id\":\"%.*s\",", ID_TEXT, k->id_text);
    if (with_mac) {
        buf_put_literal(out, "\"mac\":\"");
        buf_put_hex(out, k->mac.bytes, SHA256_BYTES);
        buf_put_literal(out, "\",");
    }
    put_name(out, "name", k->name);
    globs_put(out, "nodes", &k->nodes);
    buf_put_byte(out, ',');
    put_time(out, "original_expires_at", k->original_expires_at);
    put_name(out, "owner", k->owner);
    if (with_mac && k->pepper_fingerprint != 0)
        buf_printf(out, "\"pepper_mark\":%u,", k->pepper_fingerprint);
    rates_put(out, &k->rates);
    if (!str_is_absent(k->replaced_by)) put_name(out, "replaced_by", k->replaced_by);
    globs_put(out, "reviewers", &k->reviewers);
    buf_put_byte(out, ',');
    put_time(out, "revoked_at", k->revoked_at);
    put_roles(out, k->roles);
    put_name(out, "tenant", k->tenant);
    globs_put(out, "tenants", &k->tenants);
    buf_put_byte(out, ',');
    globs_put(out, "users", &k->users);
    buf_put_byte(out, '}');
}
