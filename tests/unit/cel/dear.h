/* dear.h - calls that are made to take as long as they can for what they pay: every function of
 * functions.def with values of the types it takes, errors among them, and every macro, literal and
 * operator that has instructions of its own. bench_cel looks for the worst time per step among
 * them, test_prices for the most that is walked per step.
 *
 * The calls are made from the table, so a new function is among them by itself; a type that has no
 * values here ends the program. */
#ifndef UNIT_CEL_DEAR_H
#define UNIT_CEL_DEAR_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cel/address.h"
#include "cel/functions.h"
#include "cel/url.h"

enum {
    DEAR_ARGUMENTS = 4, /* variables v0 to v3; v4 is a list to repeat a call by */
    DEAR_VARIABLES = DEAR_ARGUMENTS + 1,
    DEAR_VALUES = 80, /* of a type */
    DEAR_FEW = 3,     /* of a type, from the third argument on */
    DEAR_REPEATS = 4096,
};

struct dear_value {
    const char *name;
    struct cel_value value;
};

struct dear_values {
    struct dear_value list[DEAR_VALUES];
    size_t count;
};

struct dear {
    struct arena *arena;
    struct cel_meter meter;
    size_t size;        /* bytes of a long text */
    size_t pairs_every; /* of the values of a type beside those of another, one of so many */
    struct dear_values of['z' + 1];
};

/* Called with each call: its text, and values for its variables. */
typedef void dear_visit(void *context, const char *text, const struct cel_value *values,
                        const char *names);

/* ---- values ---- */

static void dear_add(struct dear *d, char type, const char *name, struct cel_value v)
{
    struct dear_values *values = &d->of[(unsigned char)type];
    check(values->count < DEAR_VALUES && !cel_is_error(v));
    values->list[values->count++] = (struct dear_value){name, v};
}

/* head, then as many of `unit` as there is room for, then tail. */
static struct str dear_text(struct dear *d, const char *head, const char *unit, size_t size,
                            const char *tail)
{
    size_t before = strlen(head), one = strlen(unit), after = strlen(tail);
    char *bytes = arena_bytes(d->arena, before + size + one + after + 1);
    check(bytes != NULL);
    memcpy(bytes, head, before);
    size_t at = before;
    for (; one > 0 && at < before + size; at += one) memcpy(bytes + at, unit, one);
    memcpy(bytes + at, tail, after + 1);
    return str_of(bytes, at + after);
}

static void dear_add_text(struct dear *d, const char *name, const char *head, const char *unit,
                          const char *tail)
{
    dear_add(d, 's', name, cel_of_str(dear_text(d, head, unit, d->size, tail)));
}

static void dear_texts(struct dear *d)
{
    static const struct {
        const char *name, *head, *unit, *tail;
    } made[] = {
        {"a…", "", "a", ""},
        {"commas", "", ",", ""},
        {"a,…", "", "a,", ""},
        {"a…b", "", "a", "b"},
        {"e-acute…", "", "\xC3\xA9", ""},
        {"wide blanks", "", "\xE2\x80\x83", ""},
        {"blanks around", " ", " ", "x "},
        {"zeros, one", "", "0", "1"},
        {"-zeros", "-", "0", ""},
        {"nines", "", "9", ""},
        {"long fraction", "0.", "9", ""},
        {"time of a long fraction", "2026-01-01T00:00:00.", "1", "Z"},
        {"1ns…", "", "1ns", ""},
        {"0.1h…", "-", "0.1h", ""},
        {"duration of a long fraction", "1.", "7", "s"},
        {"duration, wrong at its end", "", "1us", "x"},
        {"/a…", "", "/a", ""},
        {"../…", "", "../", ""},
        {"/…", "", "/", ""},
        {"/a/../…", "/srv", "/a/..", ""},
        {"quotes", "", "\"\\", ""},
        {"%s…", "", "%s", ""},
        {"%%…", "", "%%", ""},
        {"*a…", "", "*a", ""},
        {"*…", "", "*", ""},
        {"url of a long query", "http://a/?", "a=b&", ""},
        {"url of many names", "http://a/?", "a&b&c&dd&ee&ff&%41%42&", ""},
        {"url of a long path", "http://a/", "%2e%2e/a%41/", ""},
        {"url of a long user", "http://", "a%40", "@b/"},
        {"dots", "", "1.", ""},
        {"colons", "", "1:", ""},
        {"commands", "", "a;", ""},
        {"commands, then a refusal", "", "a;", "$"},
        {"arguments", "a ", "b ", ""},
        {"redirections", "a ", ">b ", ""},
        {"commands with all parts", "", "A=1 b>c d|", "e"},
    };
    static const char *const short_texts[] = {
        "",
        "abc",
        "1",
        "-9223372036854775808",
        "1e308",
        "10.0.0.1",
        "fe80::1%x",
        "10.0.0.0/8",
        "::ffff:10.0.0.0/104",
        "Europe/Paris",
        "+02:00",
        "Nowhere/City",
        "true",
        "2026-11-20T09:30:00Z",
        "1h2m3.5s",
        "[ab]*a[ab]{8}c",
        "\\pL\\pN",
        "(",
        "http://a.example:80/b?c=d#e",
        "/srv",
    };
    size_t size = d->size;
    char *random = arena_bytes(d->arena, size);
    uint64_t state = 1;
    for (size_t i = 0; i < size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        random[i] = (state >> 63) != 0 ? 'a' : 'b';
    }
    dear_add(d, 's', "random a and b", cel_string(random, size));
    dear_add(d, 's', "abc", cel_of_str(STR("abc")));
    dear_add(d, 's', "a of one byte", cel_of_str(STR("a")));
    for (size_t i = 0; i < sizeof short_texts / sizeof *short_texts; i++)
        dear_add(d, 's', short_texts[i], cel_of_str(str_from(short_texts[i])));
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        dear_add_text(d, made[i].name, made[i].head, made[i].unit, made[i].tail);
    dear_add(d, 's', "needle a…b", cel_of_str(dear_text(d, "", "a", size / 30, "b")));
    dear_add(d, 's', "needle ab…", cel_of_str(dear_text(d, "", "ab", size / 30, "")));
    dear_add(d, 's', "390 digits", cel_of_str(dear_text(d, "1.", "4940656", 380, "e-5")));
    dear_add(d, 's', "halfway", cel_of_str(dear_text(d, "9007199254740993.", "0", 370, "1")));
}

/* A JSON text of head, `unit` by its number, separated by commas, and tail. */
static struct cel_value dear_json(struct dear *d, const char *head, const char *unit, size_t count,
                                  const char *tail)
{
    struct buf out;
    struct json *v;
    const struct json_options options = {.depth_max = JSON_DEPTH_CAP};
    buf_init(&out, 1 << 12, 8 << 20);
    buf_put(&out, str_from(head));
    for (size_t i = 0; i < count; i++) {
        char one[128];
        int size = snprintf(one, sizeof one, unit, (unsigned)i);
        if (i > 0) buf_put_byte(&out, ',');
        buf_put(&out, str_of(one, (size_t)size));
    }
    buf_put(&out, str_from(tail));
    struct str text = arena_copy(d->arena, buf_view(&out));
    buf_fini(&out);
    check(json_read(text, &options, d->arena, &v, NULL) == ERR_OK);
    return cel_of_json(v);
}

/* A list of CEL's own of the same value, or of texts that differ in their last bytes only. */
static struct cel_value dear_list(struct dear *d, struct cel_value of, size_t count)
{
    struct cel_value *items = arena_array(d->arena, struct cel_value, count);
    check(items != NULL);
    for (size_t i = 0; i < count; i++) items[i] = of;
    return cel_list(items, count);
}

static struct cel_value dear_alike(struct dear *d, size_t bytes, size_t count)
{
    struct cel_value list = dear_list(d, cel_null(), count);
    for (size_t i = 0; i < count; i++) {
        char end[24];
        snprintf(end, sizeof end, "%06zu", i);
        ((struct cel_value *)(uintptr_t)list.items)[i] =
            cel_of_str(dear_text(d, "", "k", bytes, end));
    }
    return list;
}

/* A JSON object of these names, each with that value. */
static struct cel_value dear_object(struct dear *d, struct cel_value names, const char *value,
                                    const char *more)
{
    struct buf out;
    struct json *v;
    buf_init(&out, 1 << 12, 8 << 20);
    for (uint32_t i = 0; i < names.size; i++)
        buf_printf(&out, "%c\"%.*s\":%s", i > 0 ? ',' : '{', STR_FORMAT(cel_text(names.items[i])),
                   value);
    buf_printf(&out, "%s}", more);
    struct str text = arena_copy(d->arena, buf_view(&out));
    buf_fini(&out);
    check(json_read(text, NULL, d->arena, &v, NULL) == ERR_OK);
    return cel_of_json(v);
}

static struct cel_value dear_map(struct dear *d, struct cel_value keys)
{
    struct cel_value *pairs = arena_array(d->arena, struct cel_value, 2 * (size_t)keys.size);
    for (uint32_t i = 0; i < keys.size; i++) {
        pairs[2 * i] = keys.items[i];
        pairs[2 * i + 1] = cel_int(i);
    }
    return cel_map_make(&d->meter, pairs, keys.size);
}

static struct cel_value dear_last(struct dear *d, struct cel_value list, struct cel_value last)
{
    struct cel_value copy = dear_list(d, last, list.size);
    memcpy((struct cel_value *)(uintptr_t)copy.items, list.items,
           (list.size - 1) * sizeof *list.items);
    return copy;
}

static void dear_lists(struct dear *d)
{
    size_t size = d->size;
    struct cel_value many = dear_list(d, cel_of_str(STR("a")), size / 4),
                     eight = dear_alike(d, size / 8, 8), wide = dear_alike(d, 30, size / 36);
    struct str *texts = arena_array(d->arena, struct str, size / 4);
    for (size_t i = 0; i < size / 4; i++) texts[i] = STR("a");
    dear_add(d, 'L', "JSON [a, …, 1]", dear_json(d, "[", "\"a\"", size / 4, ",1]"));
    dear_add(d, 'L', "[1.5]", dear_list(d, cel_double(1.5), 1));
    dear_add(d, 'L', "8 long alike", eight);
    dear_add(d, 'L', "[]", cel_list(NULL, 0));
    dear_add(d, 'L', "own [a, …, 1]", dear_last(d, many, cel_int(1)));
    dear_add(d, 'L', "own [a, …]", many);
    dear_add(d, 'L', "JSON [a, …]", dear_json(d, "[", "\"a\"", size / 4, "]"));
    dear_add(d, 'L', "JSON doubles", dear_json(d, "[", "0.1234567890%06u", size / 19, "]"));
    dear_add(d, 'L', "JSON large doubles", dear_json(d, "[", "1.%u234567e307", size / 16, "]"));
    dear_add(d, 'L', "JSON integers", dear_json(d, "[", "%u", size / 5, "]"));
    dear_add(d, 'L', "JSON large integers", dear_json(d, "[", "90071992547%u0993", size / 19, "]"));
    dear_add(d, 'L', "JSON lists", dear_json(d, "[", "[1]", size / 4, "]"));
    dear_add(d, 'L', "JSON objects", dear_json(d, "[", "{\"k\":%u}", size / 8, "]"));
    dear_add(d, 'L', "JSON deep",
             dear_json(d, "[[[[[[[[[[[[[[[[[[[[[[[[[", "1", size / 2, "]]]]]]]]]]]]]]]]]]]]]]]]]"));
    dear_add(d, 'L', "texts", cel_of_strs(texts, size / 4));
    dear_add(d, 'L', "many alike", wide);
    dear_add(d, 'L', "many alike, 1", dear_last(d, wide, cel_int(1)));
    dear_add(d, 'L', "sixteen long alike", dear_alike(d, size / 16, 16));
    dear_add(d, 'L', "doubles", dear_list(d, cel_double(1.0 / 3), size / 16));
    dear_add(d, 'L', "large doubles", dear_list(d, cel_double(-1.7e308 / 3), size / 16));
    dear_add(d, 'L', "times", dear_list(d, cel_timestamp(1795167000, 123456789), size / 16));
    dear_add(d, 'L', "durations", dear_list(d, cel_duration(-9223372036854775807), size / 16));
    dear_add(d, 'L', "types", dear_list(d, cel_type_value(CEL_TIMESTAMP), size / 16));
    dear_add(d, 'L', "long texts", dear_list(d, cel_of_str(dear_text(d, "", "a", size, "")), 16));
    dear_add(d, 'M', "JSON many alike", dear_object(d, wide, "1", ""));
    dear_add(d, 'M', "JSON 8 long alike",
             dear_object(d, eight, "{\"z\":1}", ",\"k\":{\"y\":[1,2]}"));
    dear_add(d, 'M', "8 long alike", dear_map(d, eight));
    dear_add(d, 'M', "many alike", dear_map(d, wide));
    dear_add(d, 'M', "{}", cel_of_json(NULL));
}

static struct cel_value dear_call(struct dear *d, enum cel_function_id id, struct cel_value of)
{
    return cel_functions[id].code(&d->meter, &of, 1);
}

static void dear_others(struct dear *d)
{
    size_t size = d->size;
    static const int64_t integers[] = {0, 1, -1, 7, 1000, INT64_MIN, INT64_MAX};
    static const double doubles[] = {0.1, 1.0 / 3, -1.7976931348623157e308, 5e-324, 1e15 / 7,
                                     0,   -1};
    dear_add(d, 'i', "size - 1", cel_int((int64_t)size - 1));
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        dear_add(d, 'i', "an int", cel_int(integers[i]));
        dear_add(d, 'u', "a uint", cel_uint((uint64_t)integers[i]));
        dear_add(d, 'd', "a double", cel_double(doubles[i]));
    }
    dear_add(d, 'b', "true", cel_bool(true));
    dear_add(d, 'n', "null", cel_null());
    dear_add(d, 'y', "bytes a…", cel_bytes(dear_text(d, "", "a", size, "").bytes, size));
    dear_add(d, 'y', "bytes of three", cel_bytes("abc", 3));
    dear_add(d, 'y', "wrong bytes", cel_bytes(dear_text(d, "", "\xFF", size, "").bytes, size));
    dear_add(d, 'y', "bytes cut off",
             cel_bytes(dear_text(d, "", "\xE2\x80", size, "").bytes, size));
    dear_add(d, 't', "a time", cel_timestamp(1795167000, 123456789));
    dear_add(d, 't', "the last time", cel_timestamp(253402300799, 999999999));
    dear_add(d, 'r', "a duration", cel_duration(3723500000000));
    dear_add(d, 'r', "the longest", cel_duration(INT64_MIN));
    dear_add(d, 'T', "a type", cel_type_value(CEL_DOUBLE));
    dear_add(d, 'c', "10.0.0.0/8", dear_call(d, FUNCTION_CIDR, cel_of_str(STR("10.0.0.0/8"))));
    dear_add(d, 'c', "fe80::/10", dear_call(d, FUNCTION_CIDR, cel_of_str(STR("fe80::/10"))));
    dear_add(d, 'p', "10.1.2.3", dear_call(d, FUNCTION_IP, cel_of_str(STR("10.1.2.3"))));
    dear_add(d, 'p', "2a00::1", dear_call(d, FUNCTION_IP, cel_of_str(STR("2a00::1"))));
    static const struct {
        const char *name, *unit;
    } queries[] = {
        {"a=b&…", "a=b&"}, {"escapes", "a%41=%42%43&"}, {"one name", "%61%62%63%64"}, {"&…", "&"}};
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
        dear_add(d, 'w', queries[i].name,
                 dear_call(d, FUNCTION_URL,
                           cel_of_str(dear_text(d, "http://a/?", queries[i].unit, size, ""))));
    struct buf out;
    buf_init(&out, 1 << 12, 8 << 20);
    buf_put_literal(&out, "http://a/?");
    for (size_t i = 0; i < size / 31; i++) buf_printf(&out, "kkkkkkkkkkkkkkkkkkkkkkkk%06zu&", i);
    dear_add(d, 'w', "many alike",
             dear_call(d, FUNCTION_URL, cel_of_str(arena_copy(d->arena, buf_view(&out)))));
    buf_fini(&out);
    /* one or two of each for what takes any type */
    static const char any[] = "sLMsLLdtrybn";
    for (size_t i = 0; any[i] != '\0'; i++) {
        const struct dear_values *from = &d->of[(unsigned char)any[i]];
        size_t seen = 0;
        for (size_t j = 0; j < i; j++) seen += any[j] == any[i];
        struct dear_value v = from->list[seen * 4 % from->count];
        dear_add(d, '*', v.name, v.value);
    }
    d->of['A'] = d->of['B'] = d->of['*'];
}

static void dear_init(struct dear *d, size_t size, struct arena *arena)
{
    *d = (struct dear){.arena = arena, .size = size, .pairs_every = 1};
    d->meter = (struct cel_meter){arena, UINT64_MAX, SIZE_MAX};
    dear_texts(d);
    dear_lists(d);
    dear_others(d);
}

/* ---- calls ---- */

/* Behind the type that begins there. */
static const char *dear_skip(const char *type)
{
    char letter = *type++;
    if (letter == 'M') type = dear_skip(type);
    return letter == 'M' || letter == 'L' || letter == 'T' ? dear_skip(type) : type;
}

/* All values of the argument at `at`, and of those behind it. */
static void dear_combine(const struct dear *d, const char *text, const char *types, unsigned at,
                         struct cel_value *values, const char *const *names, dear_visit *visit,
                         void *context)
{
    const char *all[DEAR_ARGUMENTS] = {"", "", "", ""};
    memcpy(all, names, at * sizeof *all);
    if (*types == ':' || *types == '+' || *types == '\0') {
        char shown[256];
        snprintf(shown, sizeof shown, "%.60s | %.60s | %.40s | %.40s", all[0], all[1], all[2],
                 all[3]);
        visit(context, text, values, shown);
        return;
    }
    check(at < DEAR_ARGUMENTS);
    const struct dear_values *from = &d->of[(unsigned char)*types];
    if (from->count == 0) {
        fprintf(stderr, "dear.h has no values of the type '%c', which %s takes\n", *types, text);
        abort();
    }
    size_t every =
        at == 0 || from->count < 16 ? 1 : d->pairs_every; /* with another first each time */
    for (size_t i = 0; i <= from->count && (at < 2 || i < DEAR_FEW); i++) {
        if (at == 1 && (i + strlen(all[0])) % every != 0) continue;
        bool wrong = i == from->count; /* a value that the function does not take */
        values[at] = wrong ? cel_null() : from->list[i].value;
        all[at] = wrong ? "null" : from->list[i].name;
        dear_combine(d, text, dear_skip(types), at + 1, values, all, visit, context);
    }
}

static void dear_with_values(const struct dear *d, const char *text, const char *types,
                             dear_visit *visit, void *context)
{
    struct cel_value values[DEAR_VARIABLES] = {0};
    const char *names[DEAR_ARGUMENTS] = {"", "", "", ""};
    values[DEAR_ARGUMENTS] = d->of['L'].list[0].value; /* set by whoever repeats */
    dear_combine(d, text, types, 0, values, names, visit, context);
}

/* The call as it is written; operators stand between underscores in the table. */
static void dear_put_call(char *to, size_t room, enum cel_function_id id, bool has_receiver,
                          unsigned count)
{
    struct buf out = buf_over(to, room - 1);
    struct str name = cel_functions[id].name;
    if (str_equal(name, STR("_[_]"))) {
        buf_put_literal(&out, "v0[v1]");
    } else if (str_find(name, '_') == 0) {
        buf_printf(&out, "v0 %.*s v1", (int)name.size - 2, name.bytes + 1);
    } else if (name.bytes[name.size - 1] == '_') {
        buf_printf(&out, "%cv0", name.bytes[0]);
    } else {
        if (has_receiver) buf_put_literal(&out, "v0.");
        buf_printf(&out, "%.*s(", STR_FORMAT(name));
        for (unsigned i = has_receiver; i < count; i++)
            buf_printf(&out, "%sv%u", i > has_receiver ? ", " : "", i);
        buf_put_byte(&out, ')');
    }
    to[out.size] = '\0';
}

static void dear_function(const struct dear *d, enum cel_function_id id, dear_visit *visit,
                          void *context)
{
    for (const char *overload = cel_functions[id].overloads; *overload != '\0';) {
        char text[128], types[32];
        bool has_receiver = *overload == '.';
        unsigned count = 0;
        if (has_receiver) overload++;
        size_t size = strcspn(overload, ":+");
        snprintf(types, sizeof types, "%.*s", (int)size, overload);
        for (const char *at = types; *at != '\0'; at = dear_skip(at)) count++;
        dear_put_call(text, sizeof text, id, has_receiver, count);
        dear_with_values(d, text, types, visit, context);
        overload += strcspn(overload, " ");
        overload += strspn(overload, " ");
    }
}

/* What is no function: macros, literals, instructions for a constant; and constants that are
 * prepared. */
static const struct {
    const char *text, *types;
} dear_forms[] = {
    {"v0.all(x, v1.join(',').contains(x))", "L*L*"},
    {"v0.exists(x, v1.contains(x))", "L*s"},
    {"v0.exists(x, x in v1)", "L*L*"},
    {"v0.exists(x, v1[x] == 1)", "L*M**"},
    {"v0.exists_one(x, x == v1)", "L**"},
    {"v0.all(k, x, k == x)", "M**"},
    {"v0.map(x, x)", "L*"},
    {"v0.map(x, x == v1, x)", "L**"},
    {"v0.map(x, v0)", "L*"},
    {"v0.filter(x, true)", "L*"},
    {"v0.filter(x, x)", "L*"},
    {"v0.transformList(k, x, [k, x])", "M**"},
    {"v0.transformMap(k, x, x)", "M**"},
    {"v0.transformMap(i, x, x)", "L*"},
    {"v0.transformMap(i, x, i > 0, x)", "L*"},
    {"{v0: 1, v1: 2, v0 + v1: 3}", "ss"},
    {"v0.map(x, {x: 1})", "L*"},
    {"{v0[0]: 1, v0[1]: 1, v0[2]: 1, v0[3]: 1, v0[4]: 1, v0[5]: 1, v0[6]: 1, v0[7]: 1}", "L*"},
    {"{v0[0]: 1, v0[1]: 1, v0[2]: 1, v0[3]: 1, v0[4]: 1, v0[5]: 1, v0[6]: 1, v0[7]: 1,"
     " v0[8]: 1, v0[9]: 1, v0[10]: 1, v0[11]: 1, v0[12]: 1, v0[13]: 1, v0[14]: 1}",
     "L*"},
    {"{v0: v1}[v0]", "s*"},
    {"[v0, v1] == [v0, v1]", "**"},
    {"cel.bind(x, [v0, v0], x == x)", "*"},
    {"has(v0.k.z)", "M**"},
    {"has(v0.k) && v0.k.z == 1", "M**"},
    {"v0.exists(x, x.k == 1)", "L*"},
    {"v0.exists(x, has(x.k))", "L*"},
    {"v0.nothing.x", "*"},
    {"nothing(v0)", "*"},
    {"v0 == 'abc'", "*"},
    {"v0 < 'abc'", "*"},
    {"v0 >= 5", "*"},
    {"v0 in ['abc', 'def', 5]", "*"},
    {"v0 in ['abc', 'def', 'ghi', 'jkl', 'mno', 'pqr', 'stu', 'vwx', 'yz', 'aa', 'bb', 'cc']", "s"},
    {"v0 in [1, 2.5, 3u]", "*"},
    {"v0 != v1", "**"},
    {"v0 < v1", "**"},
    {"(v0 ? v1 : v0) == v1", "**"},
    {"!v0 && v1 || v0", "**"},
    {"v0.matches('^[a-z]+$')", "s"},
    {"v0.matches('[ab]*a[ab]{4}c')", "s"},
    {"v0.matches('[ab]*a[ab]{10}c')", "s"},
    {"v0.matches('[ab]*a[ab]{100}c')", "s"},
    {"v0.getHours('Europe/Paris')", "t"},
    {"v0.cidr('10.0.0.0/8')", "s"},
    {"v0.containsCIDR('10.1.0.0/16')", "c"},
    {"'%s %d'.format([v0, v1])", "**"},
    {"'%s'.format([v0])", "L*"},
    {"'%s'.format([v0])", "M**"},
    {"'%s'.format([v0])", "y"},
    {"'%s'.format([v0])", "d"},
    {"'%d'.format([v0])", "d"},
    {"'%.100f'.format([v0])", "d"},
    {"'%.0e'.format([v0])", "d"},
    {"'%b %o'.format([v0, v0])", "i"},
    {"'%x'.format([v0])", "s"},
};

static void dear_each(const struct dear *d, dear_visit *visit, void *context)
{
    for (unsigned id = 0; id < FUNCTIONS; id++)
        dear_function(d, (enum cel_function_id)id, visit, context);
    for (size_t i = 0; i < sizeof dear_forms / sizeof *dear_forms; i++)
        dear_with_values(d, dear_forms[i].text, dear_forms[i].types, visit, context);
}

/* ---- running them ---- */

/* A call, and the loops that repeat it whatever it gives: exists() goes on over false, errors and
 * what is no bool, all() over true. */
struct dear_programs {
    char text[256];
    struct arena arena;
    struct cel_program *once, *exists, *all; /* NULL: the text is not compiled */
};

static struct cel_program *dear_compile(const char *form, const char *text, struct arena *arena)
{
    static const struct cel_type dyn = {.tag = TYPE_DYN};
    static const struct cel_variable variables[DEAR_VARIABLES] = {{{"v0", 2}, &dyn},
                                                                  {{"v1", 2}, &dyn},
                                                                  {{"v2", 2}, &dyn},
                                                                  {{"v3", 2}, &dyn},
                                                                  {{"v4", 2}, &dyn}};
    struct cel_environment environment = {
        .variables = variables, .count = DEAR_VARIABLES, .unchecked = true};
    struct cel_problems problems;
    struct cel_program *program;
    char whole[512];
    snprintf(whole, sizeof whole, form, text);
    if (cel_compile(str_from(whole), &environment, arena, &program, &problems) == ERR_OK)
        return program;
    fprintf(stderr, "%s: %s\n", whole, problems.list[0].message);
    abort();
}

static void dear_programs_fini(struct dear_programs *p)
{
    cel_program_fini(p->once);
    cel_program_fini(p->exists);
    cel_program_fini(p->all);
    if (p->once != NULL) arena_fini(&p->arena);
    p->once = NULL;
}

static void dear_programs_of(struct dear_programs *p, const char *text)
{
    if (p->once != NULL && strcmp(p->text, text) == 0) return;
    dear_programs_fini(p);
    snprintf(p->text, sizeof p->text, "%s", text);
    arena_init(&p->arena, 16 << 10, 1 << 20);
    p->once = dear_compile("%s", text, &p->arena);
    p->exists = dear_compile("v4.exists(i, %s)", text, &p->arena);
    p->all = dear_compile("v4.all(i, %s)", text, &p->arena);
}

/* The loop that goes on with these values, as long as the cost lasts. */
static const struct cel_program *dear_loop(const struct dear_programs *p,
                                           const struct cel_value *values, struct arena *arena,
                                           const struct cel_limits *limits)
{
    struct cel_value value;
    return cel_run(p->once, values, arena, limits, &value) && cel_is_true(value) ? p->all
                                                                                 : p->exists;
}

#endif
