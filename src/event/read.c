/* read.c - an event's JSON to its members, each checked as schemas/event.schema.json requires.
 *
 * One table, made from event.def, has each member's name, type and offset in the struct; a
 * second has the narrower shape of some members. Members usually come in the table's order, so
 * the search for a name begins where the last one was found. */
#include <stddef.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"
#include "event/event.h"
#include "json/json.h"

/* 1e20 has four bytes and is written with 21; no other value grows more */
enum { CANONICAL_GROWTH = 8 };

enum index {
#define EVENT(name, type) INDEX_##name,
#include "event/event.def"
#undef EVENT
    INDEX_COUNT
};

struct member {
    struct str name;
    enum event_type type;
    size_t place;     /* of the value in struct event */
    size_t has_place; /* of its has_ flag, for numbers and counts */
};

#define HAS_TEXT(name) 0
#define HAS_PLAIN(name) 0
#define HAS_JSON(name) 0
#define HAS_TIME(name) 0
#define HAS_NUMBER(name) offsetof(struct event, has_##name)
#define HAS_COUNT(name) offsetof(struct event, has_##name)

static const struct member members[] = {
#define EVENT(name, type)                                                                          \
    {{"" #name, sizeof #name - 1}, EVENT_##type, offsetof(struct event, name), HAS_##type(name)},
#include "event/event.def"
#undef EVENT
};

/* Restrictions of a member beyond its type. */
enum shape {
    SHAPE_ANY,  /* TEXT: any text; PLAIN: a short one; JSON: an object */
    SHAPE_NAME, /* at most LIMIT_ID_CHARACTERS characters, not empty */
    SHAPE_ID,   /* [A-Za-z0-9._:-]{1,128} */
    SHAPE_HASH, /* 64 lowercase hex digits */
    SHAPE_SALT, /* 32 of them */
    SHAPE_KIND,
    SHAPE_DECISION,
    SHAPE_MODE,
    SHAPE_PROOF,
    SHAPE_UNIT,     /* a number in [0, 1] */
    SHAPE_POSITIVE, /* a number that is not negative */
    SHAPE_OBJECT_OR_STRING,
    SHAPE_STRING_OR_ARRAY,
    SHAPE_OBJECT_WITH_NUL, /* input of a caller: may contain U+0000 */
    SHAPE_OBJECT_OR_STRING_WITH_NUL,
};

static const enum shape shapes[INDEX_COUNT] = {
    [INDEX_acting_for] = SHAPE_NAME,
    [INDEX_action] = SHAPE_NAME,
    [INDEX_actor] = SHAPE_NAME,
    [INDEX_args] = SHAPE_OBJECT_WITH_NUL,
    [INDEX_binding_hash] = SHAPE_HASH,
    [INDEX_confidence] = SHAPE_UNIT,
    [INDEX_confidence_used] = SHAPE_UNIT,
    [INDEX_context] = SHAPE_OBJECT_OR_STRING_WITH_NUL,
    [INDEX_conversation_id] = SHAPE_NAME,
    [INDEX_decision] = SHAPE_DECISION,
    [INDEX_event_id] = SHAPE_ID,
    [INDEX_idempotency_key] = SHAPE_NAME,
    [INDEX_input_hash] = SHAPE_HASH,
    [INDEX_input_salt] = SHAPE_SALT,
    [INDEX_key_id] = SHAPE_ID,
    [INDEX_kind] = SHAPE_KIND,
    [INDEX_latency_ms] = SHAPE_POSITIVE,
    [INDEX_mode] = SHAPE_MODE,
    [INDEX_output_hash] = SHAPE_HASH,
    [INDEX_policy_digest] = SHAPE_HASH,
    [INDEX_proof] = SHAPE_PROOF,
    [INDEX_redemption_id] = SHAPE_ID,
    [INDEX_request_id] = SHAPE_ID,
    [INDEX_resolved_by] = SHAPE_NAME,
    [INDEX_resource] = SHAPE_OBJECT_OR_STRING,
    [INDEX_resource_properties] = SHAPE_OBJECT_WITH_NUL,
    [INDEX_review_id] = SHAPE_ID,
    [INDEX_safe_args] = SHAPE_OBJECT_WITH_NUL,
    [INDEX_safe_tool] = SHAPE_NAME,
    [INDEX_scope] = SHAPE_STRING_OR_ARRAY,
    [INDEX_tenant_id] = SHAPE_NAME,
    [INDEX_token_id] = SHAPE_ID,
    [INDEX_tool_call_id] = SHAPE_NAME,
    [INDEX_trace_id] = SHAPE_ID,
    [INDEX_user_id] = SHAPE_NAME,
};

/* One member being read. */
struct reading {
    enum index index;
    const struct json *value;
    struct arena *arena;
    struct event *event;
    struct fault *fault;
};

static inline void *place_of(const struct reading *r)
{
    return (char *)r->event + members[r->index].place;
}

static enum err member_fault(const struct reading *r, enum err err, const char *what)
{
    char pointer[64] = "/";
    const struct str name = members[r->index].name;
    memcpy(pointer + 1, name.bytes, name.size);
    pointer[1 + name.size] = '\0';
    return fault_set(r->fault, err, pointer, "%s: %s", pointer + 1, what);
}

/* ---- strings ---- */

static bool is_one_of(struct str text, const char *const *words)
{
    for (; *words != NULL; words++)
        if (str_equal(text, str_from(*words))) return true;
    return false;
}

static bool is_id(struct str text)
{
    if (text.size == 0 || text.size > LIMIT_TRACE_ID_BYTES) return false;
    for (size_t i = 0; i < text.size; i++)
        if (text.bytes[i] != ':' && !str_is_name(str_of(text.bytes + i, 1))) return false;
    return true;
}

static bool is_hex(struct str text, size_t size)
{
    uint8_t bytes[32];
    return text.size == 2 * size && hex_read(text.bytes, bytes, size);
}

/* Whether the text is printable ASCII that needs no escape. */
static bool is_plain(struct str text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.bytes[i];
        if (c < 0x20 || c > 0x7E || c == '"' || c == '\\') return false;
    }
    return text.size <= LIMIT_ID_CHARACTERS;
}

static enum err shape_check(const struct reading *r, struct str text)
{
    static const char *const decisions[] = {"allow", "deny", "human_review", "compute", NULL};
    static const char *const modes[] = {"live", "dry_run", NULL};
    static const char *const proofs[] = {"owner", "named", "key", "oidc", NULL};
    switch (shapes[r->index]) {
    case SHAPE_NAME:
        if (text.size == 0) return member_fault(r, ERR_BAD_VALUE, "must not be empty");
        if (str_code_points(text) <= LIMIT_ID_CHARACTERS) return ERR_OK;
        return member_fault(r, ERR_OUT_OF_RANGE, "is over 256 characters");
    case SHAPE_ID:
        if (is_id(text)) return ERR_OK;
        return member_fault(r, ERR_BAD_VALUE, "must be 1 to 128 of A-Z a-z 0-9 . _ : -");
    case SHAPE_HASH:
        if (is_hex(text, 32)) return ERR_OK;
        return member_fault(r, ERR_BAD_VALUE, "must be 64 lowercase hex digits");
    case SHAPE_SALT:
        if (is_hex(text, 16)) return ERR_OK;
        return member_fault(r, ERR_BAD_VALUE, "must be 32 lowercase hex digits");
    case SHAPE_KIND:
        if (event_kind_is_known(text)) return ERR_OK;
        return member_fault(r, ERR_BAD_VALUE, "is not a known kind of event");
    case SHAPE_DECISION:
        if (is_one_of(text, decisions)) return ERR_OK;
        return member_fault(r, ERR_BAD_VALUE, "must be allow, deny, human_review or compute");
    case SHAPE_MODE:
        if (is_one_of(text, modes)) return ERR_OK;
        return member_fault(r, ERR_BAD_VALUE, "must be live or dry_run");
    case SHAPE_PROOF:
        if (is_one_of(text, proofs)) return ERR_OK;
        return member_fault(r, ERR_BAD_VALUE, "must be owner, named, key or oidc");
    default: return ERR_OK;
    }
}

static enum err text_read(const struct reading *r)
{
    if (!json_is_string(r->value)) return member_fault(r, ERR_WRONG_TYPE, "must be a string");
    if (r->value->has_nul) return member_fault(r, ERR_BAD_VALUE, "must not have a U+0000");
    struct str text = r->value->string;
    if (members[r->index].type == EVENT_PLAIN && !is_plain(text))
        return member_fault(r, ERR_BAD_VALUE,
                            "must be at most 256 printable ASCII characters that need no escape");
    *(struct str *)place_of(r) = text;
    return shape_check(r, text);
}

/* Times have one spelling, because they are hashed. */
static enum err time_member_read(const struct reading *r)
{
    uint64_t ms;
    char again[TIME_TEXT];
    if (!json_is_string(r->value)) return member_fault(r, ERR_WRONG_TYPE, "must be a string");
    if (!time_read(r->value->string, &ms) || ms == 0)
        return member_fault(r, ERR_BAD_VALUE, "must be an RFC 3339 time after 1970");
    time_write(ms, again);
    if (!str_equal(r->value->string, str_of(again, sizeof again)))
        return member_fault(r, ERR_BAD_VALUE,
                            "must be in UTC with milliseconds, like 2026-11-20T09:30:00.123Z");
    *(uint64_t *)place_of(r) = ms;
    return ERR_OK;
}

/* ---- numbers ---- */

/* 1e-400 is 0 here, but an error for PostgreSQL in the view `events`. */
static bool is_too_small(const struct json *v)
{
    struct str digits = v->raw;
    for (size_t i = 0; i < digits.size && (digits.bytes[i] | 0x20) != 'e'; i++)
        if (digits.bytes[i] >= '1' && digits.bytes[i] <= '9') return v->number == 0;
    return false;
}

/* Whether a double can represent the number. */
static bool is_double(const struct json *v)
{
    if (v->number_kind == JSON_INT64) return v->number < 0x1p63 && (int64_t)v->number == v->int64;
    if (v->number_kind == JSON_UINT64)
        return v->number < 0x1p64 && (uint64_t)v->number == v->uint64;
    return true;
}

static enum err number_member_read(const struct reading *r)
{
    if (!json_is_number(r->value)) return member_fault(r, ERR_WRONG_TYPE, "must be a number");
    double number = r->value->number;
    if (!is_double(r->value) || !(number >= 0))
        return member_fault(r, ERR_OUT_OF_RANGE, "must be a number that is not negative");
    if (shapes[r->index] == SHAPE_UNIT && number > 1)
        return member_fault(r, ERR_OUT_OF_RANGE, "is out of range [0, 1]");
    if (is_too_small(r->value))
        return member_fault(r, ERR_OUT_OF_RANGE, "is too small for a double");
    *(double *)place_of(r) = number;
    *(bool *)((char *)r->event + members[r->index].has_place) = true;
    return ERR_OK;
}

static enum err count_member_read(const struct reading *r)
{
    if (!json_is_number(r->value)) return member_fault(r, ERR_WRONG_TYPE, "must be a number");
    double number = r->value->number;
    if (!(number >= 0 && number <= (double)EVENT_COUNT_MAX) || number != (double)(uint64_t)number)
        return member_fault(r, ERR_OUT_OF_RANGE, "must be an integer from 0 to 9007199254740991");
    *(uint64_t *)place_of(r) = (uint64_t)number;
    *(bool *)((char *)r->event + members[r->index].has_place) = true;
    return ERR_OK;
}

/* ---- embedded JSON ---- */

static bool has_nul_within(const struct json *v)
{
    if (v->has_nul) return true;
    if (v->type != JSON_OBJECT && v->type != JSON_ARRAY) return false;
    for (const struct json *child = v->child; child != NULL; child = child->next)
        if (has_nul_within(child)) return true;
    return false;
}

static enum err json_shape_check(const struct reading *r)
{
    enum shape shape = shapes[r->index];
    enum json_type type = r->value->type;
    bool string_too = shape == SHAPE_OBJECT_OR_STRING || shape == SHAPE_OBJECT_OR_STRING_WITH_NUL;
    if (shape == SHAPE_STRING_OR_ARRAY) {
        if (type != JSON_STRING && type != JSON_ARRAY)
            return member_fault(r, ERR_WRONG_TYPE, "must be a string or an array");
    } else if (type != JSON_OBJECT && !(string_too && type == JSON_STRING)) {
        return member_fault(r, ERR_WRONG_TYPE,
                            string_too ? "must be an object or a string" : "must be an object");
    }
    bool nul_too = shape == SHAPE_OBJECT_WITH_NUL || shape == SHAPE_OBJECT_OR_STRING_WITH_NUL;
    if (!nul_too && has_nul_within(r->value))
        return member_fault(r, ERR_BAD_VALUE, "must not have a U+0000");
    return ERR_OK;
}

/* Its canonical form, in the arena. */
static enum err json_member_read(const struct reading *r)
{
    enum err err = json_shape_check(r);
    if (err != ERR_OK) return err;
    size_t size = r->value->raw.size;
    for (size_t room = size; room <= size * CANONICAL_GROWTH; room *= CANONICAL_GROWTH) {
        char *bytes = arena_bytes(r->arena, room);
        if (bytes == NULL) break;
        struct buf out = buf_over(bytes, room);
        json_put_canonical(&out, r->value);
        if (!out.overflow) {
            arena_trim(r->arena, bytes, room, out.size);
            *(struct str *)place_of(r) = buf_view(&out);
            return ERR_OK;
        }
        arena_trim(r->arena, bytes, room, 0);
    }
    return member_fault(r, ERR_BODY_TOO_LARGE, "is larger than there is room for");
}

/* ---- the whole ---- */

static enum err member_read(const struct reading *r)
{
    switch (members[r->index].type) {
    case EVENT_TEXT:
    case EVENT_PLAIN: return text_read(r);
    case EVENT_JSON: return json_member_read(r);
    case EVENT_NUMBER: return number_member_read(r);
    case EVENT_COUNT: return count_member_read(r);
    case EVENT_TIME: return time_member_read(r);
    }
    check(false);
    return ERR_INTERNAL;
}

/* The index of `name`, searched from `from` on and then from the start; INDEX_COUNT: none. */
static enum index member_find(struct str name, enum index from)
{
    for (unsigned i = 0; i < INDEX_COUNT; i++) {
        enum index index = (enum index)((from + i) % INDEX_COUNT);
        if (str_equal(members[index].name, name)) return index;
    }
    return INDEX_COUNT;
}

enum { MEMBER_TOLD_BYTES = 48 }; /* twice this size fits into a fault's field */

static enum err required_check(const struct event *e, struct fault *f)
{
    const char *missing = str_is_absent(e->event_id)    ? "/event_id"
                          : str_is_absent(e->kind)      ? "/kind"
                          : str_is_absent(e->tenant_id) ? "/tenant_id"
                          : e->timestamp == 0           ? "/timestamp"
                                                        : NULL;
    if (missing == NULL) return ERR_OK;
    return fault_set(f, ERR_MISSING_MEMBER, missing, "%s: is required", missing + 1);
}

static void pointer_put_name(struct buf *pointer, struct str name)
{
    buf_put_byte(pointer, '/');
    for (size_t i = 0; i < name.size; i++) /* RFC 6901 */
        buf_put(pointer, name.bytes[i] == '~'   ? STR("~0")
                         : name.bytes[i] == '/' ? STR("~1")
                                                : str_of(name.bytes + i, 1));
}

/* A name that is too long for a pointer is cut, and only in the text. */
static enum err unknown_member(struct str name, struct fault *f)
{
    char field[2 * MEMBER_TOLD_BYTES + 2];
    struct buf pointer = buf_over(field, sizeof field - 1);
    struct str told = str_cut(name, MEMBER_TOLD_BYTES);
    pointer_put_name(&pointer, told);
    field[told.size == name.size ? pointer.size : 0] = '\0';
    return fault_set(f, ERR_BAD_VALUE, field, "an event has no member \"%.*s\"", STR_FORMAT(told));
}

/* ---- names in their written form ---- */

/* Whether the member's name is written without escapes. A text with escapes is never shorter
 * than its meaning, so the bytes before its closing quote can be compared. */
static bool name_is_literal(const struct json *m)
{
    const char *end = m->raw.bytes;
    while (*--end != '"') {
    } /* the colon, and blanks */
    const char *begin = end - m->key.size;
    return memcmp(begin, m->key.bytes, m->key.size) == 0 && begin[-1] == '"';
}

/* `up` is the pointer of the object that `m` is a member of. */
static enum err escaped_name(const char *up, const struct json *m, struct fault *f)
{
    char field[2 * MEMBER_TOLD_BYTES + 16];
    struct buf pointer = buf_over(field, sizeof field - 1);
    struct str told = str_cut(m->key, MEMBER_TOLD_BYTES);
    buf_put(&pointer, str_from(up));
    if (told.size == m->key.size) pointer_put_name(&pointer, told);
    field[pointer.size] = '\0';
    return fault_set(f, ERR_BAD_VALUE, field,
                     "%s: the name \"%.*s\" must be written without an escape", field + 1,
                     STR_FORMAT(told));
}

static enum err names_check_in(const char *up, const struct json *object, struct fault *f)
{
    for (const struct json *m = object->child; m != NULL; m = m->next)
        if (is_plain(m->key) && !name_is_literal(m)) return escaped_name(up, m, f);
    return ERR_OK;
}

/* SQLite's JSON functions find a member by its name in its written form. */
static enum err names_check(const struct json *root, struct fault *f)
{
    static const char *const objects[] = {"/notify", "/previous", "/resource", "/would_have"};
    enum err err = names_check_in("", root, f);
    for (size_t i = 0; err == ERR_OK && i < sizeof objects / sizeof *objects; i++) {
        const struct json *object = json_get(root, str_from(objects[i] + 1));
        if (json_is_object(object)) err = names_check_in(objects[i], object, f);
    }
    return err;
}

static enum err members_read(const struct json *object, struct arena *arena, struct event *e,
                             struct fault *f)
{
    struct reading r = {.arena = arena, .event = e, .fault = f};
    enum index from = 0;
    for (const struct json *m = object->child; m != NULL; m = m->next) {
        r.index = member_find(m->key, from);
        if (r.index == INDEX_COUNT) return unknown_member(m->key, f);
        r.value = m;
        enum err err = member_read(&r);
        if (err != ERR_OK) return err;
        from = r.index + 1;
    }
    return required_check(e, f);
}

static enum err read_event(struct str text, bool posted, struct arena *arena, struct event *ret,
                           struct fault *f)
{
    /* The format decides where U+0000 is allowed, not the names of members at any depth. */
    static const struct json_options options = {.nul_anywhere = true};
    struct json *root;
    if (text.size > LIMIT_EVENT_BYTES)
        return fault_set(f, ERR_BODY_TOO_LARGE, "", "an event is at most %d bytes, this one is %zu",
                         LIMIT_EVENT_BYTES, text.size);
    enum err err = json_read(text, &options, arena, &root, f);
    if (err != ERR_OK) return err;
    if (!json_is_object(root)) return fault_set(f, ERR_WRONG_TYPE, "", "an event is a JSON object");
    struct event event = {0};
    err = members_read(root, arena, &event, f);
    if (err == ERR_OK && posted) err = names_check(root, f);
    if (err == ERR_OK) *ret = event;
    return err;
}

enum err event_read(struct str text, struct arena *arena, struct event *ret, struct fault *f)
{
    return read_event(text, false, arena, ret, f);
}

enum err event_read_posted(struct str text, struct arena *arena, struct event *ret, struct fault *f)
{
    return read_event(text, true, arena, ret, f);
}

bool event_is_later(struct str text, struct arena *arena)
{
    static const struct json_options options = {.nul_anywhere = true};
    static const char *const always[] = {"event_id", "kind", "tenant_id", "timestamp"};
    struct json *root;
    struct fault ignored;
    if (text.size > LIMIT_EVENT_BYTES ||
        json_read(text, &options, arena, &root, &ignored) != ERR_OK || !json_is_object(root))
        return false;
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (str_is_empty(json_text(root, str_from(always[i])))) return false;
    bool later = !event_kind_is_known(json_text(root, STR("kind")));
    for (const struct json *m = root->child; m != NULL; m = m->next)
        later = later || member_find(m->key, 0) == INDEX_COUNT;
    return later;
}
