/* json.c - lookups in a parsed tree. */
#include "json/json.h"

struct json *json_get(const struct json *object, struct str key)
{
    if (!json_is_object(object)) return NULL;
    for (struct json *m = object->child; m != NULL; m = m->next)
        if (str_equal(m->key, key)) return m;
    return NULL;
}

struct str json_text(const struct json *object, struct str key)
{
    const struct json *v = json_get(object, key);
    return json_is_string(v) ? v->string : (struct str){0};
}

uint64_t json_u64(const struct json *object, struct str key, uint64_t otherwise)
{
    const struct json *v = json_get(object, key);
    if (!json_is_number(v)) return otherwise;
    if (v->number_kind == JSON_UINT64) return v->uint64;
    if (v->number_kind == JSON_INT64) return v->int64 < 0 ? otherwise : (uint64_t)v->int64;
    /* Below 2^64, whole and not negative, the cast is exact. */
    if (!(v->number >= 0 && v->number < 0x1p64)) return otherwise;
    uint64_t value = (uint64_t)v->number;
    return (double)value == v->number ? value : otherwise;
}

void json_become_string(struct json *v, struct str text)
{
    v->type = JSON_STRING;
    v->count = 0;
    json_forget_text(v);
    v->has_nul = text.size > 0 && memchr(text.bytes, 0, text.size) != NULL;
    v->child = NULL;
    v->string = text;
}
