/* resource.c - what a request's resource is to the policies: one reading for live decisions, for
 * recorded ones that are asked again, and for the tests of documents. */
#include "policy/policy.h"

static struct json *text_member(struct arena *arena, struct str key, struct str text)
{
    struct json *v = arena_new(arena, struct json);
    if (v != NULL) *v = (struct json){.type = JSON_STRING, .key = key, .string = text};
    return v;
}

struct json *policy_resource_of_text(struct str text, struct arena *arena)
{
    size_t colon = str_find(text, ':');
    bool has_type = colon < text.size;
    struct json *object = arena_new(arena, struct json), *type = NULL;
    struct json *id = text_member(arena, STR("id"), has_type ? str_skip(text, colon + 1) : text);
    if (has_type) type = text_member(arena, STR("type"), str_of(text.bytes, colon));
    if (object == NULL || id == NULL || (has_type && type == NULL)) return NULL;
    id->next = type;
    *object = (struct json){.type = JSON_OBJECT, .child = id, .count = has_type ? 2 : 1};
    return object;
}

/* `null` is absent, for conditions too; the same object where it has none. NULL: no memory. */
static const struct json *without_nulls(const struct json *object, struct arena *arena)
{
    const struct json *null = object->child;
    while (null != NULL && null->type != JSON_NULL) null = null->next;
    if (null == NULL) return object;
    struct json *copy = arena_new(arena, struct json);
    if (copy == NULL) return NULL;
    *copy = *object;
    copy->count = 0;
    struct json **tail = &copy->child;
    for (const struct json *m = object->child; m != NULL; m = m->next) {
        if (m->type == JSON_NULL) continue;
        *tail = arena_new(arena, struct json);
        if (*tail == NULL) return NULL;
        **tail = *m;
        tail = &(*tail)->next;
        copy->count++;
    }
    *tail = NULL;
    return copy;
}

bool policy_name_resource(struct policy_request *q, const struct json *object, struct arena *arena)
{
    object = without_nulls(object, arena);
    if (object == NULL) return false;
    struct str type = json_text(object, STR("type")), id = json_text(object, STR("id"));
    q->resource_object = object;
    q->resource_partial = str_is_empty(type) || str_is_empty(id);
    q->resource = id;
    if (str_is_absent(type)) return true;
    char *bytes = arena_bytes(arena, type.size + 1 + id.size);
    if (bytes == NULL) return false;
    struct buf out = buf_over(bytes, type.size + 1 + id.size);
    buf_put(&out, type);
    buf_put_byte(&out, ':');
    buf_put(&out, id);
    q->resource = buf_view(&out);
    return true;
}
