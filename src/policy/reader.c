/* reader.c - typed access to nodes. The error texts are for authors of policies: they name the
 * member, the value, and the expected value. */
#include "policy/reader.h"
#include "base/check.h"
#include "base/nearest.h"

#include <stdarg.h>
#include <stdio.h>

const char *const verdict_words[4] = {"allow", "compute", "human_review", "deny"};

struct value value_member(const struct value *map, const char *key)
{
    struct node *n = map->node == NULL ? NULL : node_get(map->node, key);
    return (struct value){.node = n, .place = {.parent = &map->place, .key = str_from(key)}};
}

struct value value_element(const struct value *list, const struct node *node, size_t index)
{
    return (struct value){.node = node, .place = {.parent = &list->place, .index = index}};
}

/* At the door of each reader: there is a value, and problems have their place. */
static void value_check(const struct reader *r, const struct value *v)
{
    check(v->node != NULL);
    problems_check(r->problems);
}

/* The root's place has no key and no parent: paths begin below it. */
static const struct place *below_root(const struct place *place, struct place *copies, size_t *used)
{
    if (place == NULL || (place->parent == NULL && str_is_absent(place->key))) return NULL;
    check(*used < 20);
    struct place *copy = &copies[(*used)++];
    *copy = *place;
    copy->parent = *used < 16 ? below_root(place->parent, copies, used) : NULL;
    return copy;
}

static void complain_to(struct policy_problems *problems, const struct value *v, unsigned line,
                        unsigned column, const char *format, va_list arguments)
{
    char text[512];
    struct place copies[20];
    size_t used = 0;
    vsnprintf(text, sizeof text, format, arguments);
    problem_add(problems, below_root(&v->place, copies, &used), line, column, "%s", text);
}

static void complain_at(struct reader *r, const struct value *v, unsigned line, unsigned column,
                        const char *format, va_list arguments)
{
    complain_to(r->problems, v, line, column, format, arguments);
}

void reader_complain(struct reader *r, const struct value *v, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    complain_at(r, v, v->node == NULL ? 0 : v->node->line, v->node == NULL ? 0 : v->node->column,
                format, arguments);
    va_end(arguments);
}

void reader_complain_at_key(struct reader *r, const struct value *v, const char *format, ...)
{
    value_check(r, v);
    va_list arguments;
    va_start(arguments, format);
    complain_at(r, v, v->node->key_line, v->node->key_column, format, arguments);
    va_end(arguments);
}

void reader_doubt(struct reader *r, const struct value *v, const char *format, ...)
{
    struct policy_problems one = {0};
    struct policy_document *d = r->document;
    va_list arguments;
    if (d->doubt_count++ >= POLICY_PROBLEMS_MAX) return; /* only counted */
    struct doubt *doubt = reader_take(r, sizeof *doubt);
    if (doubt == NULL) return;
    va_start(arguments, format);
    complain_to(&one, v, v->node->line, v->node->column, format, arguments);
    va_end(arguments);
    check(one.count == 1);
    *doubt = (struct doubt){.next = d->doubts, .problem = one.list[0]};
    d->doubts = doubt;
}

/* "a string", "a list", … */
static const char *type_name(const struct json *v)
{
    switch (v->type) {
    case JSON_NULL: return "null";
    case JSON_FALSE:
    case JSON_TRUE: return "a boolean";
    case JSON_NUMBER: return "a number";
    case JSON_STRING: return "a string";
    case JSON_ARRAY: return "a list";
    case JSON_OBJECT: return "a map";
    }
    return "a value";
}

void *reader_take(struct reader *r, size_t size)
{
    void *taken = arena_take(&r->document->arena, size == 0 ? 1 : size);
    if (taken == NULL) r->full = true;
    return taken;
}

struct str reader_copy(struct reader *r, struct str s)
{
    struct str copy = arena_copy(&r->document->arena, s);
    if (str_is_absent(copy)) r->full = true;
    return str_is_absent(copy) ? STR("") : copy;
}

bool want_map(struct reader *r, const struct value *v)
{
    value_check(r, v);
    if (v->node->bad) return false;
    if (v->node->json.type == JSON_OBJECT) return true;
    reader_complain(r, v, "has to be a map, not %s", type_name(&v->node->json));
    return false;
}

bool want_list(struct reader *r, const struct value *v, size_t count_max)
{
    value_check(r, v);
    if (v->node->bad) return false;
    if (v->node->json.type != JSON_ARRAY) {
        struct str word =
            v->node->json.type == JSON_STRING ? v->node->json.string : (struct str){0};
        if (word.size > 0 && word.size <= 60 && memchr(word.bytes, '\0', word.size) == NULL)
            reader_complain(r, v, "has to be a list, not a string: write [%.*s]", STR_FORMAT(word));
        else
            reader_complain(r, v, "has to be a list, not %s", type_name(&v->node->json));
        return false;
    }
    if (v->node->json.count <= count_max) return true;
    reader_complain(r, v, "has %u entries; %zu are the most", v->node->json.count, count_max);
    return false;
}

bool want_text(struct reader *r, const struct value *v, size_t characters_max, struct str *ret)
{
    value_check(r, v);
    const struct json *j = &v->node->json;
    if (v->node->bad) return false;
    if (j->type != JSON_STRING) {
        bool scalar = (json_is_number(j) || json_is_bool(j)) && !str_is_empty(j->raw);
        if (scalar)
            reader_complain(r, v, "has to be a string; %.*s is %s: write \"%.*s\"",
                            (int)(j->raw.size > 40 ? 40 : j->raw.size), j->raw.bytes, type_name(j),
                            (int)(j->raw.size > 40 ? 40 : j->raw.size), j->raw.bytes);
        else
            reader_complain(r, v, "has to be a string, not %s", type_name(j));
        return false;
    }
    if (j->string.size == 0) {
        reader_complain(r, v, "must not be empty");
        return false;
    }
    if (j->has_nul) {
        reader_complain(r, v, "must not contain U+0000");
        return false;
    }
    size_t characters = str_code_points(j->string);
    if (characters > characters_max) {
        reader_complain(r, v, "has %zu characters; %zu are the most", characters, characters_max);
        return false;
    }
    *ret = reader_copy(r, j->string);
    return true;
}

bool want_name(struct reader *r, const struct value *v, size_t size_max, struct str *ret)
{
    struct str text;
    if (!want_text(r, v, size_max, &text)) return false;
    if (!str_is_name(text)) {
        reader_complain(r, v, "\"%.64s\" may only have letters, digits, '.', '_' and '-'",
                        text.bytes);
        return false;
    }
    check(text.size > 0 && text.size <= size_max);
    *ret = text;
    return true;
}

bool reader_is_role(struct str name)
{
    if (name.size == 0 || name.size > RULE_ID_MAX || name.bytes[0] == ' ' ||
        name.bytes[name.size - 1] == ' ')
        return false;
    for (size_t i = 0; i < name.size; i++)
        if (strchr(":/@ ", name.bytes[i]) == NULL && !str_is_name(str_of(name.bytes + i, 1)))
            return false;
    return true;
}

bool want_role(struct reader *r, const struct value *v, struct str *ret)
{
    struct str text;
    if (!want_text(r, v, RULE_ID_MAX, &text)) return false;
    if (reader_is_role(text)) {
        *ret = text;
        return true;
    }
    reader_complain(r, v,
                    "\"%.64s\" may only have letters, digits, '.', '_', '-', ':', '/', '@', and "
                    "blanks inside",
                    text.bytes);
    return false;
}

bool want_number(struct reader *r, const struct value *v, double least, double most, double *ret)
{
    value_check(r, v);
    check(least <= most);
    if (v->node->bad) return false;
    if (v->node->json.type != JSON_NUMBER) {
        reader_complain(r, v, "has to be a number from %.15g to %.15g, not %s", least, most,
                        type_name(&v->node->json));
        return false;
    }
    double number = v->node->json.number;
    if (!(number >= least && number <= most)) {
        reader_complain(r, v, "%.15g is out of range [%.15g, %.15g]", number, least, most);
        return false;
    }
    *ret = number;
    return true;
}

bool want_count(struct reader *r, const struct value *v, unsigned least, unsigned most,
                unsigned *ret)
{
    double number;
    if (!want_number(r, v, least, most, &number)) return false;
    if (number != (double)(unsigned)number) {
        reader_complain(r, v, "%.15g is not a whole number", number);
        return false;
    }
    check(number >= least && number <= most);
    *ret = (unsigned)number;
    return true;
}

static uint64_t unit_ms(char unit)
{
    switch (unit) {
    case 's': return 1000;
    case 'm': return 60 * 1000;
    case 'h': return 60 * 60 * 1000;
    case 'd': return 24 * 60 * 60 * 1000;
    default: return 0;
    }
}

bool want_duration(struct reader *r, const struct value *v, uint64_t most_ms, const char *most,
                   uint64_t *ret_ms)
{
    value_check(r, v);
    struct str text;
    const struct json *j = &v->node->json;
    if (j->type == JSON_NUMBER && !v->node->bad) {
        reader_complain(r, v, "has to say its unit, as in 90s, 30m, 1h or 2d");
        return false;
    }
    if (!want_text(r, v, 32, &text)) return false;
    uint64_t number = 0, unit = unit_ms(text.bytes[text.size - 1]);
    if (unit == 0 || !str_to_u64(str_of(text.bytes, text.size - 1), &number)) {
        reader_complain(r, v, "\"%s\" is not a duration like 90s, 30m, 1h or 2d", text.bytes);
        return false;
    }
    if (number == 0 || number > most_ms / unit) {
        reader_complain(r, v, "\"%s\" is out of range: more than 0 and at most %s", text.bytes,
                        most);
        return false;
    }
    *ret_ms = number * unit;
    check(*ret_ms > 0 && *ret_ms <= most_ms);
    return true;
}

static void words_put(struct buf *out, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++) buf_printf(out, "%s%s", i == 0 ? "" : ", ", words[i]);
}

bool want_word(struct reader *r, const struct value *v, const char *const *words, size_t count,
               size_t *ret)
{
    value_check(r, v);
    check(count > 0);
    const struct json *j = &v->node->json;
    struct str text;
    char list[200];
    struct buf out = buf_over(list, sizeof list - 1);
    words_put(&out, words, count);
    list[out.size] = '\0';
    if (!v->node->bad && j->type != JSON_STRING) {
        reader_complain(r, v, "has to be one of %s, not %s", list, type_name(j));
        return false;
    }
    if (!want_text(r, v, 200, &text)) return false;
    for (size_t i = 0; i < count; i++) {
        if (!str_equal(text, str_from(words[i]))) continue;
        *ret = i;
        return true;
    }
    const char *near = nearest_word(text, words, count);
    reader_complain(r, v, "\"%.60s\" is not one of %s%s%s%s", text.bytes, list,
                    near == NULL ? "" : "; did you mean ", near == NULL ? "" : near,
                    near == NULL ? "" : "?");
    return false;
}

bool is_among(struct str word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (str_equal(word, str_from(words[i]))) return true;
    return false;
}

void reader_check_keys(struct reader *r, const struct value *map, const char *const *keys,
                       size_t count)
{
    value_check(r, map);
    for (const struct node *n = node_first(map->node); n != NULL; n = node_next(n)) {
        if (n->bad || is_among(n->json.key, keys, count)) continue;
        struct value v = {.node = n, .place = {.parent = &map->place, .key = n->json.key}};
        const char *near = nearest_word(n->json.key, keys, count);
        char list[256];
        struct buf out = buf_over(list, sizeof list - 1);
        words_put(&out, keys, count);
        list[out.size] = '\0';
        if (near != NULL)
            reader_complain_at_key(r, &v, "unknown key; did you mean %s?", near);
        else if (memchr(n->json.key.bytes, ')', n->json.key.size) != NULL)
            reader_complain_at_key(
                r, &v,
                "unknown key; if it belongs to the text before it, put that in quotes: within { } a comma ends it");
        else
            reader_complain_at_key(r, &v, "unknown key; known here are %s", list);
    }
}

bool reader_require(struct reader *r, const struct value *map, const struct value *v)
{
    check(map->node != NULL);
    if (v->node != NULL) return true;
    struct value missing = *v;
    missing.node = map->node;
    reader_complain(r, &missing, "is missing here");
    return false;
}
