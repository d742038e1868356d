/* read_json.c - values that a document holds as they are: the arguments of a safe call, the
 * requests of tests. They are copied out of the tree, which is freed after loading. */
#include "policy/reader.h"

/* `$${` is a literal `${`. A bare `${` is refused: what it means is not decided by leaving it. */
static bool unescape(struct reader *r, const struct value *v, struct str text, struct str *ret)
{
    char *bytes = reader_take(r, text.size + 1);
    if (bytes == NULL) return false;
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        struct str rest = str_skip(text, i);
        if (str_starts(rest, STR("${"))) {
            complain(r, v, "expressions (${…}) are not supported yet; write $${ for a literal ${");
            return false;
        }
        if (str_starts(rest, STR("$${"))) i++; /* and the two that follow are copied */
        bytes[size++] = text.bytes[i];
        if (str_starts(rest, STR("$${"))) bytes[size++] = text.bytes[++i];
    }
    *ret = str_of(bytes, size);
    return true;
}

struct json *read_json(struct reader *r, const struct value *v, bool expressions)
{
    struct json *copy = v->node->bad ? NULL : reader_take(r, sizeof *copy);
    if (copy == NULL) return NULL;
    *copy = v->node->json;
    copy->raw = (struct str){0};
    copy->child = copy->next = NULL;
    copy->key = str_is_absent(copy->key) ? copy->key : reader_copy(r, copy->key);
    if (copy->type == JSON_STRING) {
        if (!expressions)
            copy->string = reader_copy(r, copy->string);
        else if (!unescape(r, v, copy->string, &copy->string))
            return NULL;
    }
    struct json **tail = &copy->child;
    bool complete = true;
    size_t index = 0;
    for (const struct node *n = node_first(v->node); n != NULL; n = node_next(n), index++) {
        struct value child = element(v, n, index);
        if (v->node->json.type == JSON_OBJECT) child.place.key = n->json.key;
        struct json *child_copy = read_json(r, &child, expressions);
        if (child_copy == NULL) {
            complete = false;
            continue;
        }
        *tail = child_copy;
        tail = &child_copy->next;
    }
    return complete ? copy : NULL;
}
