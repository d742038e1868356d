/* resource.c - reads a request's resource, in the same way for live decisions, for recorded
 * requests and for the tests of documents. */
#include "base/check.h"
#include "policy/policy.h"
#include "spelling/spelling.h"

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

/* Removes members that are `null`, because null counts as absent, for conditions too. Returns the
 * same object if it has none. NULL: no memory. */
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
    check(copy->count < object->count);
    *tail = NULL;
    return copy;
}

/* False: the arena is full. */
static bool join(struct str type, struct str id, struct arena *arena, struct str *ret)
{
    *ret = id;
    if (str_is_absent(type)) return true;
    char *bytes = arena_bytes(arena, type.size + 1 + id.size);
    if (bytes == NULL) return false;
    struct buf out = buf_over(bytes, type.size + 1 + id.size);
    buf_put(&out, type);
    buf_put_byte(&out, ':');
    buf_put(&out, id);
    check(!out.overflow && out.size == type.size + 1 + id.size);
    *ret = buf_view(&out);
    return true;
}

/* False: it cannot be folded. */
static bool plain_of(struct str part, struct arena *arena, struct str *ret)
{
    *ret = spelling_plainly(part, arena);
    return str_is_absent(part) || !str_is_absent(*ret);
}

/* Type and id separately: a blank beside the colon is at an end of one of them. */
static bool spell_plainly(struct policy_request *q, struct str type, struct str id,
                          struct arena *arena)
{
    struct str plain_type, plain_id;
    q->resource_plain = (struct str){0};
    if (spelling_is_plain(type) && spelling_is_plain(id)) return true;
    if (!plain_of(type, arena, &plain_type) || !plain_of(id, arena, &plain_id)) return false;
    q->resource_partial |= str_is_empty(plain_type) || str_is_empty(plain_id);
    return join(plain_type, plain_id, arena, &q->resource_plain);
}

bool policy_name_resource(struct policy_request *q, const struct json *object, struct arena *arena)
{
    check(object->type == JSON_OBJECT);
    object = without_nulls(object, arena);
    if (object == NULL) return false;
    struct str type = json_text(object, STR("type")), id = json_text(object, STR("id"));
    q->resource_object = object;
    q->resource_partial = str_is_empty(type) || str_is_empty(id);
    return join(type, id, arena, &q->resource) && spell_plainly(q, type, id, arena);
}
