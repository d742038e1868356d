/* value.c - see value.h. */
#include "cel/value.h"

#include <math.h>

#include "base/map.h"
#include "cel/url.h"

const char *cel_kind_name(enum cel_kind kind)
{
    static const char *const names[CEL_KINDS] = {
        [CEL_ABSENT] = "nothing",
        [CEL_ERROR] = "error",
        [CEL_NULL] = "null_type",
        [CEL_BOOL] = "bool",
        [CEL_INT] = "int",
        [CEL_UINT] = "uint",
        [CEL_DOUBLE] = "double",
        [CEL_STRING] = "string",
        [CEL_BYTES] = "bytes",
        [CEL_LIST] = "list",
        [CEL_MAP] = "map",
        [CEL_TIMESTAMP] = "google.protobuf.Timestamp",
        [CEL_TYPE] = "type",
        [CEL_CIDR] = "net.CIDR",
        [CEL_IP] = "net.IP",
        [CEL_URL] = "kubernetes.URL",
        [CEL_DURATION] = "google.protobuf.Duration",
        [CEL_REGEX] = "regex",
        [CEL_ZONE] = "zone",
    };
    return kind < CEL_KINDS ? names[kind] : "nothing";
}

/* ---- making values ---- */

struct cel_value cel_of_str(struct str text)
{
    check(text.size <= UINT32_MAX);
    return cel_string(text.bytes == NULL ? "" : text.bytes, text.size);
}

struct cel_value cel_of_strs(const struct str *texts, size_t count)
{
    check(count <= UINT32_MAX);
    return (struct cel_value){
        .kind = CEL_LIST, .form = CEL_TEXTS, .size = (uint32_t)count, .texts = texts};
}

struct cel_value cel_of_ms(uint64_t ms)
{
    return cel_timestamp((int64_t)(ms / 1000), (uint32_t)(ms % 1000) * 1000000u);
}

struct cel_value cel_of_json(const struct json *value)
{
    static const struct json nothing = {.type = JSON_OBJECT};
    return cel_of_member(value == NULL ? &nothing : value);
}

void *cel_take(struct cel_meter *m, size_t bytes)
{
    if (m->memory_left < bytes) {
        m->memory_left = 0;
        return NULL;
    }
    /* arena_take() would zero the memory; this memory is written at once. */
    size_t pad = (size_t)(-(uintptr_t)m->arena->next & 15u);
    char *at = arena_bytes(m->arena, bytes + pad);
    if (at == NULL) return NULL;
    m->memory_left -= bytes;
    return at + ((size_t)(-(uintptr_t)at & 15u)); /* where a new chunk began, it is aligned */
}

struct cel_value *cel_take_values(struct cel_meter *m, size_t count)
{
    return count > SIZE_MAX / 2 / sizeof(struct cel_value)
               ? NULL
               : cel_take(m, count * sizeof(struct cel_value));
}

struct cel_value cel_copy_text(struct cel_meter *m, enum cel_kind kind, struct str text)
{
    char *bytes = cel_take(m, text.size + 1);
    if (bytes == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
    if (text.size > 0) memcpy(bytes, text.bytes, text.size);
    bytes[text.size] = '\0';
    return (struct cel_value){.kind = (uint8_t)kind, .size = (uint32_t)text.size, .bytes = bytes};
}

/* ---- comparisons ---- */

static bool is_number(struct cel_value v) { return v.kind >= CEL_INT && v.kind <= CEL_DOUBLE; }

static inline bool texts_equal(struct cel_value a, struct cel_value b)
{
    return a.size == b.size && cel_bytes_same(a.bytes, b.bytes, a.size);
}

/* An integer against a double, exactly: if the double is beyond the integers its sign decides, else
 * its whole part is compared, then its fraction. */
static int compare_int_double(int64_t i, double d)
{
    if (isnan(d)) return 2;
    if (d >= 0x1p63) return -1;
    if (d < -0x1p63) return 1;
    int64_t whole = (int64_t)d;
    if (i != whole) return i < whole ? -1 : 1;
    double rest = d - (double)whole;
    return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

static int compare_uint_double(uint64_t u, double d)
{
    if (isnan(d)) return 2;
    if (d >= 0x1p64) return -1;
    if (d < 0) return 1;
    uint64_t whole = (uint64_t)d;
    if (u != whole) return u < whole ? -1 : 1;
    return d - (double)whole > 0 ? -1 : 0;
}

static int mirrored(int order) { return order == 2 ? 2 : -order; }

int cel_compare_exactly(struct cel_value a, struct cel_value b)
{
    if (a.kind == CEL_DOUBLE) {
        if (b.kind == CEL_DOUBLE)
            return a.number < b.number    ? -1
                   : a.number > b.number  ? 1
                   : a.number == b.number ? 0
                                          : 2;
        return mirrored(b.kind == CEL_INT ? compare_int_double(b.integer, a.number)
                                          : compare_uint_double(b.natural, a.number));
    }
    if (b.kind == CEL_DOUBLE)
        return a.kind == CEL_INT ? compare_int_double(a.integer, b.number)
                                 : compare_uint_double(a.natural, b.number);
    if (a.kind == b.kind) {
        if (a.kind == CEL_INT) return a.integer < b.integer ? -1 : a.integer > b.integer;
        return a.natural < b.natural ? -1 : a.natural > b.natural;
    }
    if (a.kind == CEL_INT)
        return a.integer < 0                     ? -1
               : (uint64_t)a.integer < b.natural ? -1
                                                 : (uint64_t)a.integer > b.natural;
    return b.integer < 0                     ? 1
           : a.natural < (uint64_t)b.integer ? -1
                                             : a.natural > (uint64_t)b.integer;
}

static double as_double(struct cel_value v)
{
    return v.kind == CEL_DOUBLE ? v.number
           : v.kind == CEL_INT  ? (double)v.integer
                                : (double)v.natural;
}

int cel_compare_numbers(struct cel_value a, struct cel_value b)
{
    bool as_integers = (a.kind != CEL_DOUBLE || a.is_long) && (b.kind != CEL_DOUBLE || b.is_long);
    if (as_integers) return cel_compare_exactly(a, b);
    double x = as_double(a), y = as_double(b);
    return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
}

static int compare_times(struct cel_value a, struct cel_value b)
{
    if (a.integer != b.integer) return a.integer < b.integer ? -1 : 1;
    return a.size < b.size ? -1 : a.size > b.size;
}

bool cel_compare(struct cel_value a, struct cel_value b, int *ret, bool *ret_unordered)
{
    *ret_unordered = false;
    if (is_number(a) && is_number(b)) {
        *ret = cel_compare_numbers(a, b);
        *ret_unordered = *ret == 2;
        return !*ret_unordered;
    }
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case CEL_BOOL: *ret = (int)a.boolean - (int)b.boolean; return true;
    case CEL_STRING: /* the order of UTF-8 bytes is the order of code points */
    case CEL_BYTES: *ret = str_compare(cel_text(a), cel_text(b)); return true;
    case CEL_TIMESTAMP: *ret = compare_times(a, b); return true;
    case CEL_DURATION: *ret = a.integer < b.integer ? -1 : a.integer > b.integer; return true;
    default: return false;
    }
}

static struct cel_value equal_at(struct cel_meter *m, struct cel_value a, struct cel_value b,
                                 unsigned depth);

static struct cel_value equal_lists(struct cel_meter *m, struct cel_value a, struct cel_value b,
                                    unsigned depth)
{
    if (a.size != b.size) return cel_bool(false);
    struct cel_walk left = cel_walk_start(a), right = cel_walk_start(b);
    struct cel_value key, x, y;
    while (cel_walk_next(&left, &key, &x) && cel_walk_next(&right, &key, &y)) {
        struct cel_value same = equal_at(m, x, y, depth + 1);
        if (!cel_is_true(same)) return same;
    }
    return cel_bool(true);
}

static struct cel_value equal_maps(struct cel_meter *m, struct cel_value a, struct cel_value b,
                                   unsigned depth)
{
    if (a.size != b.size) return cel_bool(false);
    struct cel_walk left = cel_walk_start(a);
    struct cel_value key, x;
    while (cel_walk_next(&left, &key, &x)) {
        struct cel_value y = cel_map_get(m, b, key);
        if (y.kind == CEL_ABSENT) return cel_bool(false);
        struct cel_value same = cel_is_error(y) ? y : equal_at(m, x, y, depth + 1);
        if (!cel_is_true(same)) return same;
    }
    return cel_bool(true);
}

static bool equal_cidrs(const struct cel_cidr *a, const struct cel_cidr *b)
{
    return a->family == b->family && a->bits == b->bits &&
           memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static struct cel_value equal_at(struct cel_meter *m, struct cel_value a, struct cel_value b,
                                 unsigned depth)
{
    if (!cel_pay(m, 1)) return cel_fail(CEL_FAULT_COST, NULL);
    if (a.kind != b.kind)
        return cel_bool(is_number(a) && is_number(b) && cel_compare_numbers(a, b) == 0);
    switch (a.kind) {
    case CEL_NULL: return cel_bool(true);
    case CEL_BOOL: return cel_bool(a.boolean == b.boolean);
    case CEL_INT:
    case CEL_UINT:
    case CEL_DURATION:
    case CEL_TYPE: return cel_bool(a.integer == b.integer);
    case CEL_DOUBLE: return cel_bool(a.number == b.number);
    case CEL_STRING:
    case CEL_BYTES:
        if (a.size != b.size) return cel_bool(false);
        if (!cel_pay_bytes(m, a.size)) return cel_fail(CEL_FAULT_COST, NULL);
        return cel_bool(texts_equal(a, b));
    case CEL_TIMESTAMP: return cel_bool(compare_times(a, b) == 0);
    case CEL_IP:
    case CEL_CIDR: return cel_bool(equal_cidrs(a.cidr, b.cidr));
    case CEL_URL:
        if (!cel_pay_bytes(m, a.url->text.size)) return cel_fail(CEL_FAULT_COST, NULL);
        return cel_bool(str_equal(a.url->text, b.url->text));
    case CEL_LIST:
    case CEL_MAP:
        if (depth > CEL_VALUE_DEPTH_MAX) return cel_fail(CEL_FAULT_DEPTH, NULL);
        return a.kind == CEL_LIST ? equal_lists(m, a, b, depth) : equal_maps(m, a, b, depth);
    default: return cel_bool(false);
    }
}

struct cel_value cel_equal(struct cel_meter *m, struct cel_value a, struct cel_value b)
{
    return equal_at(m, a, b, 0);
}

/* ---- maps ---- */

enum { INDEX_FROM = 9 }; /* from this number of pairs on an index is made */

/* Numbers that are equal have equal hashes, whatever their types. */
static uint64_t key_hash(struct cel_value key)
{
    if (key.kind == CEL_STRING) return hash_bytes(key.bytes, key.size);
    if (key.kind == CEL_BOOL) return key.boolean ? 0x9E3779B97F4A7C15u : 0x85EBCA6B2AE35C63u;
    uint64_t bits = key.natural;
    if (key.kind == CEL_DOUBLE) {
        if (key.number >= -0x1p63 && key.number < 0)
            bits = (uint64_t)(int64_t)key.number;
        else if (key.number >= 0 && key.number < 0x1p64)
            bits = (uint64_t)key.number;
    }
    return hash_bytes(&bits, sizeof bits);
}

static bool keys_equal(struct cel_value a, struct cel_value b)
{
    if (a.kind == CEL_STRING) return b.kind == CEL_STRING && texts_equal(a, b);
    if (a.kind == CEL_BOOL) return b.kind == CEL_BOOL && a.boolean == b.boolean;
    return is_number(a) && is_number(b) && cel_compare_exactly(a, b) == 0;
}

static bool is_key(struct cel_value v)
{
    return v.kind == CEL_STRING || v.kind == CEL_BOOL || v.kind == CEL_INT || v.kind == CEL_UINT;
}

/* The cost of comparing a key with another, or of its hash. */
static uint64_t key_cost(struct cel_value key)
{
    return 1 + (key.kind == CEL_STRING ? key.size / 16 : 0);
}

/* Compares a pair with the key; true: it matches, or the cost limit is reached. */
static bool try_pair(struct cel_meter *m, const struct cel_map *map, size_t pair,
                     struct cel_value key, struct cel_value *ret)
{
    if (!cel_pay(m, key_cost(key))) {
        *ret = cel_fail(CEL_FAULT_COST, NULL);
        return true;
    }
    if (!keys_equal(map->pairs[2 * pair], key)) return false;
    *ret = map->pairs[2 * pair + 1];
    return true;
}

static struct cel_value own_get(struct cel_meter *m, const struct cel_map *map,
                                struct cel_value key)
{
    struct cel_value found = {0};
    if (map->index_mask == 0) {
        for (uint32_t pair = 0; pair < map->count; pair++)
            if (try_pair(m, map, pair, key, &found)) break;
        return found;
    }
    if (!cel_pay(m, key_cost(key))) return cel_fail(CEL_FAULT_COST, NULL);
    uint32_t at = (uint32_t)key_hash(key) & map->index_mask;
    for (; map->index[at] != 0; at = (at + 1) & map->index_mask)
        if (try_pair(m, map, map->index[at] - 1, key, &found)) break;
    return found;
}

struct cel_value cel_map_get_text(struct cel_meter *m, struct cel_value map, struct str key)
{
    if (map.form != CEL_JSON) return own_get(m, map.map, cel_string(key.bytes, key.size));
    return cel_member_get(m, map.json, key);
}

struct cel_value cel_map_get(struct cel_meter *m, struct cel_value map, struct cel_value key)
{
    if (key.kind == CEL_STRING) return cel_map_get_text(m, map, cel_text(key));
    if (!is_number(key) && key.kind != CEL_BOOL) return cel_fail(CEL_FAULT_OVERLOAD, NULL);
    if (map.form == CEL_JSON) return (struct cel_value){0};
    return own_get(m, map.map, key);
}

/* Makes the index; a fault if a key is repeated or the cost limit is reached. (A client cannot
 * choose keys with equal hashes: the hash has a seed.) */
static enum cel_fault index_fill(struct cel_meter *m, uint32_t *index, uint32_t mask,
                                 const struct cel_value *pairs, size_t count)
{
    memset(index, 0, ((size_t)mask + 1) * sizeof *index);
    for (size_t i = 0; i < count; i++) {
        uint64_t cost = 2 * key_cost(pairs[2 * i]);
        if (!cel_pay(m, cost)) return CEL_FAULT_COST;
        uint32_t at = (uint32_t)key_hash(pairs[2 * i]) & mask;
        for (; index[at] != 0; at = (at + 1) & mask) {
            if (keys_equal(pairs[2 * ((size_t)index[at] - 1)], pairs[2 * i]))
                return CEL_FAULT_DUPLICATE;
            if (!cel_pay(m, 1)) return CEL_FAULT_COST;
        }
        index[at] = (uint32_t)i + 1;
    }
    return CEL_FAULT_NONE;
}

static enum cel_fault find_twice(struct cel_meter *m, const struct cel_value *pairs, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (!cel_pay(m, 1 + i * (key_cost(pairs[2 * i]) - 1))) return CEL_FAULT_COST;
        for (size_t j = 0; j < i; j++)
            if (keys_equal(pairs[2 * i], pairs[2 * j])) return CEL_FAULT_DUPLICATE;
    }
    return CEL_FAULT_NONE;
}

struct cel_value cel_map_make(struct cel_meter *m, const struct cel_value *pairs, size_t count)
{
    if (!cel_pay(m, 1 + 2 * count)) return cel_fail(CEL_FAULT_COST, NULL);
    for (size_t i = 0; i < count; i++)
        if (!is_key(pairs[2 * i])) return cel_fail(CEL_FAULT_OVERLOAD, NULL);
    struct cel_map *map = cel_take(m, sizeof *map);
    if (map == NULL || count > UINT32_MAX / 4) return cel_fail(CEL_FAULT_MEMORY, NULL);
    *map = (struct cel_map){.count = (uint32_t)count, .pairs = pairs};
    if (count < INDEX_FROM) {
        enum cel_fault fault = find_twice(m, pairs, count);
        return fault != CEL_FAULT_NONE ? cel_fail(fault, NULL) : cel_map_value(map);
    }
    uint32_t size = 16;
    while (size < count * 2) size *= 2;
    uint32_t *index = cel_take(m, size * sizeof *index);
    if (index == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
    enum cel_fault fault = index_fill(m, index, size - 1, pairs, count);
    if (fault != CEL_FAULT_NONE) return cel_fail(fault, NULL);
    map->index = index;
    map->index_mask = size - 1;
    return cel_map_value(map);
}

/* ---- lists ---- */

struct cel_value cel_list_at(struct cel_meter *m, struct cel_value list, uint32_t at)
{
    check(at < list.size);
    if (list.form == CEL_OWN) return list.items[at];
    if (list.form == CEL_TEXTS) return cel_string(list.texts[at].bytes, list.texts[at].size);
    if (!cel_pay(m, 1 + at)) return cel_fail(CEL_FAULT_COST, NULL);
    const struct json *member = list.json->child;
    while (at-- > 0) member = member->next;
    return cel_of_member(member);
}

/* Finds a text among values, without the comparisons of other types. */
static struct cel_value contains_text(struct cel_meter *m, struct cel_value list, struct str wanted)
{
    bool found = false;
    if (!cel_pay(m, 1 + (uint64_t)list.size)) return cel_fail(CEL_FAULT_COST, NULL);
    for (uint32_t i = 0; i < list.size && !found; i++) {
        const struct cel_value *item = &list.items[i];
        if (item->kind != CEL_STRING || item->size != wanted.size) continue;
        if (!cel_pay(m, wanted.size / 16)) return cel_fail(CEL_FAULT_COST, NULL);
        found = cel_bytes_same(item->bytes, wanted.bytes, wanted.size);
    }
    return cel_bool(found);
}

static struct cel_value contains_number(struct cel_meter *m, struct cel_value list,
                                        struct cel_value wanted)
{
    bool found = false;
    if (!cel_pay(m, 1 + (uint64_t)list.size)) return cel_fail(CEL_FAULT_COST, NULL);
    for (uint32_t i = 0; i < list.size && !found; i++)
        found = is_number(list.items[i]) && cel_compare_numbers(list.items[i], wanted) == 0;
    return cel_bool(found);
}

struct cel_value cel_contains(struct cel_meter *m, struct cel_value list, struct cel_value wanted)
{
    if (wanted.kind == CEL_STRING && list.form == CEL_OWN)
        return contains_text(m, list, cel_text(wanted));
    if (is_number(wanted) && list.form == CEL_OWN) return contains_number(m, list, wanted);
    struct cel_walk walk = cel_walk_start(list);
    struct cel_value key, element;
    while (cel_walk_next(&walk, &key, &element)) {
        struct cel_value same = equal_at(m, element, wanted, 0);
        if (cel_is_error(same) || same.boolean) return same;
    }
    return cel_bool(false);
}

struct cel_walk cel_walk_start(struct cel_value over)
{
    return (struct cel_walk){.over = over, .next = over.form == CEL_JSON ? over.json->child : NULL};
}
