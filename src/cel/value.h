/* value.h - inside of the room: makes, compares and reads values.
 *
 * Equality is CEL's: numbers are compared across their types, values of otherwise different types
 * are unequal, never an error; NaN equals nothing. Every function whose time grows with its input
 * pays for it from a meter, so that an input cannot make it run long. */
#ifndef CEL_VALUE_H
#define CEL_VALUE_H

#include "cel/cel.h"

/* The rest of a run's cost and memory limits, and its arena. */
struct cel_meter {
    struct arena *arena;
    uint64_t cost_left;
    size_t memory_left;
};

/* A map of CEL's own: keys and values in turns, in the order of writing; an index above a few. */
struct cel_map {
    uint32_t count;
    uint32_t index_mask;   /* 0: no index, because a walk over so few pairs is as fast */
    const uint32_t *index; /* place of the pair + 1; 0: free */
    const struct cel_value *pairs;
};

/* A range of addresses, or one of them. */
struct cel_cidr {
    uint8_t bytes[16];
    uint8_t bits;   /* of the prefix */
    uint8_t family; /* 4 or 6 */
};

enum { CEL_VALUE_DEPTH_MAX = 512 }; /* of nested lists and maps: inputs and expression together */

/* Writes all eight bytes of the union, so that the next copy of the value does not stall: a load of
 * eight bytes after a store of one byte has to wait for the store. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a bool is the first byte of an integer");
static inline struct cel_value cel_bool(bool b)
{
    return (struct cel_value){.kind = CEL_BOOL, .natural = b};
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
/* An error with the kinds of its first three arguments, five bits each. As text they would cost
 * memory even if && or || absorbs the error. */
static inline struct cel_value cel_give_kinds(struct cel_value error, const struct cel_value *given,
                                              uint32_t count)
{
    if (error.kind != CEL_ERROR || error.form != CEL_FAULT_OVERLOAD) return error;
    for (uint32_t i = 0; i < count && i < 3; i++)
        error.kinds = (uint16_t)(error.kinds | given[i].kind << (5 * i));
    return error;
}
_Static_assert(CEL_KINDS <= 32, "a kind has five bits in an error");
static inline bool cel_is_limit(struct cel_value v)
{
    return v.kind == CEL_ERROR && v.form >= CEL_FAULT_COST;
}

const char *cel_kind_name(enum cel_kind kind); /* "google.protobuf.Timestamp" */

/* False: the limit is reached, and stays reached. */
static inline bool cel_pay(struct cel_meter *m, uint64_t cost)
{
    if (__builtin_expect(m->cost_left < cost, 0)) {
        m->cost_left = 0;
        return false;
    }
    m->cost_left -= cost;
    return true;
}
/* Pays for bytes, sixteen to a step, or fewer if each takes longer: a step is meant to be 20 ns at
 * most. */
static inline bool cel_pay_bytes(struct cel_meter *m, size_t bytes)
{
    return cel_pay(m, 1 + bytes / 16);
}
static inline bool cel_pay_slow_bytes(struct cel_meter *m, size_t bytes, unsigned to_a_step)
{
    return cel_pay(m, 1 + bytes / to_a_step);
}

/* Memory of the run; NULL: the limit is reached. Not zeroed. */
void *cel_take(struct cel_meter *m, size_t bytes); /* aligned to 16 */
struct cel_value *cel_take_values(struct cel_meter *m, size_t count);

/* A copy that is an error's text or a string's bytes. */
struct cel_value cel_copy_text(struct cel_meter *m, enum cel_kind kind, struct str text);

/* A JSON number, string, ... as a value; lists and objects stay where they are. */
static inline struct cel_value cel_of_member(const struct json *v);

/* Equal or not; an error (a limit) only if the meter ran out. */
struct cel_value cel_equal(struct cel_meter *m, struct cel_value a, struct cel_value b);

/* <0, 0, >0 in *ret; false: these have no order (or one is NaN: *ret_unordered). */
bool cel_compare(struct cel_value a, struct cel_value b, int *ret, bool *ret_unordered);

/* Compares two numbers of any types; NaN gives 2. By the specification an integer beside a double
 * is converted to a double: 9223372036854775807 and 9223372036854775808.0 are equal. Two integers
 * of JSON are compared as integers, in any representation. */
int cel_compare_numbers(struct cel_value a, struct cel_value b);
/* The same without loss, for the keys of maps and for stored numbers. */
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

/* ---- inline, because every condition uses it ---- */

/* *to = *from, in two halves, as values are written. A compiler would load sixteen bytes, for
 * which the processor waits until two pending stores are complete, longer than most instructions
 * of a condition take. */
static inline void cel_move(struct cel_value *to, const struct cel_value *from)
{
    uint64_t head, tail;
    memcpy(&head, from, 8);
    memcpy(&tail, (const char *)from + 8, 8);
    __asm__("" : "+r"(head), "+r"(tail)); /* keeps them apart */
    memcpy(to, &head, 8);
    memcpy((char *)to + 8, &tail, 8);
}

/* Whether the bytes are equal; short texts without a call and without reading beyond their ends. */
static inline bool cel_bytes_same(const char *a, const char *b, size_t size)
{
    uint64_t a_first, a_last, b_first, b_last;
    uint32_t a_head, a_tail, b_head, b_tail;
    if (size > 16) return memcmp(a, b, size) == 0;
    if (size >= 8) {
        memcpy(&a_first, a, 8);
        memcpy(&b_first, b, 8);
        memcpy(&a_last, a + size - 8, 8);
        memcpy(&b_last, b + size - 8, 8);
        return ((a_first ^ b_first) | (a_last ^ b_last)) == 0;
    }
    if (size >= 4) {
        memcpy(&a_head, a, 4);
        memcpy(&b_head, b, 4);
        memcpy(&a_tail, a + size - 4, 4);
        memcpy(&b_tail, b + size - 4, 4);
        return ((a_head ^ b_head) | (a_tail ^ b_tail)) == 0;
    }
    return size == 0 || (a[0] == b[0] && a[size / 2] == b[size / 2] && a[size - 1] == b[size - 1]);
}

/* The value of the member of that name, CEL_ABSENT, or a limit. Each member that is read costs a
 * step, and so do sixteen bytes of names of the same length; the walk ends at the cost limit. */
static inline struct cel_value cel_member_get(struct cel_meter *m, const struct json *object,
                                              struct str key)
{
    for (const struct json *member = object->child; member != NULL; member = member->next) {
        bool same_size = member->key.size == key.size;
        if (!cel_pay(m, same_size ? 1 + key.size / 16 : 1)) return cel_fail(CEL_FAULT_COST, NULL);
        if (same_size && cel_bytes_same(member->key.bytes, key.bytes, key.size))
            return cel_of_member(member);
    }
    return cel_pay(m, 1) ? (struct cel_value){0} : cel_fail(CEL_FAULT_COST, NULL);
}

static inline struct cel_value cel_of_member(const struct json *v)
{
    if (v->type == JSON_STRING)
        return cel_string(v->string.bytes == NULL ? "" : v->string.bytes, v->string.size);
    if (v->type == JSON_NUMBER) {
        if (__builtin_expect(v->number_kind == JSON_DOUBLE, 1)) return cel_double(v->number);
        if (v->number_kind == JSON_LONG)
            return (struct cel_value){.kind = CEL_DOUBLE, .is_long = true, .number = v->number};
        return v->number_kind == JSON_INT64 ? cel_int(v->int64) : cel_uint(v->uint64);
    }
    if (v->type >= JSON_ARRAY)
        return (struct cel_value){.kind = v->type == JSON_ARRAY ? CEL_LIST : CEL_MAP,
                                  .form = CEL_JSON,
                                  .size = v->count,
                                  .json = v};
    return v->type == JSON_NULL ? cel_null() : cel_bool(v->type == JSON_TRUE);
}

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
