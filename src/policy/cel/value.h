/* value.h - values inside of the room: made, compared, looked into.
 *
 * Equality is CEL's: numbers are compared across their types, values of otherwise different types
 * are unequal, never an error; NaN equals nothing. Whatever takes time in proportion to its input
 * pays for it from a meter, so that nothing here can be made to run long. */
#ifndef POLICY_CEL_VALUE_H
#define POLICY_CEL_VALUE_H

#include "policy/cel/cel.h"

/* What a run may still spend, and where its memory comes from. */
struct cel_meter {
    struct arena *arena;
    uint64_t cost_left;
    size_t memory_left;
};

/* A map of CEL's own: keys and values in turns, in the order of writing; an index above a few. */
struct cel_map {
    uint32_t count;
    uint32_t index_mask;   /* 0: no index, so few that a walk is as fast */
    const uint32_t *index; /* place of the pair + 1; 0: free */
    const struct cel_value *pairs;
};

struct cel_cidr {
    uint8_t bytes[16];
    uint8_t bits;   /* of the prefix */
    uint8_t family; /* 4 or 6 */
};

enum { CEL_VALUE_DEPTH_MAX = 512 }; /* of nested lists and maps: inputs and expression together */

static inline struct cel_value cel_bool(bool b)
{
    return (struct cel_value){.kind = CEL_BOOL, .boolean = b};
}
static inline struct cel_value cel_int(int64_t i)
{
    return (struct cel_value){.kind = CEL_INT, .integer = i};
}
static inline struct cel_value cel_uint(uint64_t u)
{
    return (struct cel_value){.kind = CEL_UINT, .natural = u};
}
static inline struct cel_value cel_double(double d)
{
    return (struct cel_value){.kind = CEL_DOUBLE, .number = d};
}
static inline struct cel_value cel_null(void) { return (struct cel_value){.kind = CEL_NULL}; }
static inline struct cel_value cel_duration(int64_t ns)
{
    return (struct cel_value){.kind = CEL_DURATION, .integer = ns};
}
static inline struct cel_value cel_timestamp(int64_t seconds, uint32_t nanoseconds)
{
    return (struct cel_value){.kind = CEL_TIMESTAMP, .size = nanoseconds, .integer = seconds};
}
static inline struct cel_value cel_type_value(enum cel_kind kind)
{
    return (struct cel_value){.kind = CEL_TYPE, .integer = kind};
}
static inline struct cel_value cel_string(const char *bytes, size_t size)
{
    return (struct cel_value){.kind = CEL_STRING, .size = (uint32_t)size, .bytes = bytes};
}
static inline struct cel_value cel_bytes(const char *bytes, size_t size)
{
    return (struct cel_value){.kind = CEL_BYTES, .size = (uint32_t)size, .bytes = bytes};
}
static inline struct cel_value cel_list(const struct cel_value *items, size_t count)
{
    return (struct cel_value){
        .kind = CEL_LIST, .form = CEL_OWN, .size = (uint32_t)count, .items = items};
}
static inline struct cel_value cel_map_value(const struct cel_map *map)
{
    return (struct cel_value){.kind = CEL_MAP, .form = CEL_OWN, .size = map->count, .map = map};
}
static inline struct str cel_text(struct cel_value v) { return str_of(v.bytes, v.size); }

/* `about` outlives the error or is NULL. */
static inline struct cel_value cel_fail(enum cel_fault fault, const struct str *about)
{
    return (struct cel_value){.kind = CEL_ERROR, .form = (uint8_t)fault, .texts = about};
}
static inline bool cel_is_error(struct cel_value v) { return v.kind == CEL_ERROR; }
static inline bool cel_is_limit(struct cel_value v)
{
    return v.kind == CEL_ERROR && v.form >= CEL_FAULT_COST;
}

const char *cel_kind_name(enum cel_kind kind); /* "google.protobuf.Timestamp" */

/* False: spent. What has been spent stays spent. */
static inline bool cel_pay(struct cel_meter *m, uint64_t cost)
{
    if (__builtin_expect(m->cost_left < cost, 0)) {
        m->cost_left = 0;
        return false;
    }
    m->cost_left -= cost;
    return true;
}
static inline bool cel_pay_bytes(struct cel_meter *m, size_t bytes)
{
    return cel_pay(m, 1 + bytes / 16);
}

/* Memory of the run; NULL: the limit is reached. Not zeroed. */
void *cel_take(struct cel_meter *m, size_t bytes); /* aligned to 16 */
struct cel_value *cel_take_values(struct cel_meter *m, size_t count);

/* A copy that is an error's text or a string's bytes. */
struct cel_value cel_copy_text(struct cel_meter *m, enum cel_kind kind, struct str text);

/* A JSON number, string, ... as a value; lists and objects stay where they are. */
struct cel_value cel_of_member(const struct json *v);

/* Equal or not; an error (a limit) only where the meter ran out. */
struct cel_value cel_equal(struct cel_meter *m, struct cel_value a, struct cel_value b);

/* <0, 0, >0 in *ret; false: these have no order (or one is NaN: *ret_unordered). */
bool cel_compare(struct cel_value a, struct cel_value b, int *ret, bool *ret_unordered);

/* Compares two numbers of any types; NaN gives 2. An integer beside a double is made one, which is
 * how the specification has it: 9223372036854775807 and 9223372036854775808.0 are equal. */
int cel_compare_numbers(struct cel_value a, struct cel_value b);
/* The same without loss, for the keys of maps and wherever numbers are kept. */
int cel_compare_exactly(struct cel_value a, struct cel_value b);

/* The value of a key: found, CEL_ABSENT, or an error (a limit, a key of an impossible type). */
struct cel_value cel_map_get(struct cel_meter *m, struct cel_value map, struct cel_value key);
struct cel_value cel_map_get_text(struct cel_meter *m, struct cel_value map, struct str key);
/* Element `at` of a list that has it. */
struct cel_value cel_list_at(struct cel_meter *m, struct cel_value list, uint32_t at);
struct cel_value cel_contains(struct cel_meter *m, struct cel_value list, struct cel_value wanted);

/* Makes a map of `count` pairs, which it keeps. CEL_FAULT_DUPLICATE, CEL_FAULT_OVERLOAD (a key's
 * type). */
struct cel_value cel_map_make(struct cel_meter *m, const struct cel_value *pairs, size_t count);

/* Walks a list's elements or a map's keys (and values). */
struct cel_walk {
    struct cel_value over;
    const struct json *next; /* CEL_JSON */
    uint32_t at;
};
struct cel_walk cel_walk_start(struct cel_value over);
/* False at the end. Lists: index and element; maps: key and value. */
static inline bool cel_walk_next(struct cel_walk *w, struct cel_value *ret_key,
                                 struct cel_value *ret_value);

/* ---- inline, because loops live by it ---- */

static inline bool cel_walk_next(struct cel_walk *w, struct cel_value *ret_key,
                                 struct cel_value *ret_value)
{
    if (w->at == w->over.size) return false;
    uint32_t at = w->at++;
    bool is_map = w->over.kind == CEL_MAP;
    if (w->over.form == CEL_JSON) {
        const struct json *member = w->next;
        w->next = member->next;
        *ret_key = is_map ? cel_string(member->key.bytes, member->key.size) : cel_int(at);
        *ret_value = cel_of_member(member);
    } else if (is_map) {
        *ret_key = w->over.map->pairs[2 * (size_t)at];
        *ret_value = w->over.map->pairs[2 * (size_t)at + 1];
    } else {
        *ret_key = cel_int(at);
        *ret_value = w->over.form == CEL_TEXTS
                         ? cel_string(w->over.texts[at].bytes, w->over.texts[at].size)
                         : w->over.items[at];
    }
    return true;
}

#endif
