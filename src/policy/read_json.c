/* read_json.c - values that a document contains unchanged: the arguments of a safe call, the
 * requests of tests. They are copied, because the tree is freed after loading. */
#include "base/check.h"
#include "policy/condition.h"

static bool read_string(struct reader *r, const struct value *v, struct json *copy,
                        const struct template **templates)
{
    const struct template_part *parts;
    size_t count;
    if (templates == NULL) {
        copy->string = reader_copy(r, copy->string);
        return true;
    }
    if (!read_template(r, v, copy->string, &copy->string, &parts, &count)) return false;
    if (count == 0) return true;
    check(parts != NULL);
    struct template *t = reader_take(r, sizeof *t);
    if (t == NULL) return false;
    /* Only this document uses the list until it is loaded. */
    *t = (struct template){.at = copy,
                           .parts = parts,
                           .count = count,
                           .next = (struct template *)(uintptr_t)*templates};
    *templates = t;
    return true;
}

struct json *read_json(struct reader *r, const struct value *v, const struct template **templates)
{
    struct json *copy = v->node->bad ? NULL : reader_take(r, sizeof *copy);
    if (copy == NULL) return NULL;
    *copy = v->node->json;
    json_forget_text(copy);
    copy->child = copy->next = NULL;
    copy->key = str_is_absent(copy->key) ? copy->key : reader_copy(r, copy->key);
    if (copy->type == JSON_STRING && !read_string(r, v, copy, templates)) return NULL;
    struct json **tail = &copy->child;
    bool complete = true;
    size_t index = 0;
    for (const struct node *n = node_first(v->node); n != NULL; n = node_next(n), index++) {
        struct value child = value_element(v, n, index);
        if (v->node->json.type == JSON_OBJECT) child.place.key = n->json.key;
        struct json *child_copy = read_json(r, &child, templates);
        if (child_copy == NULL) {
            complete = false;
            continue;
        }
        *tail = child_copy;
        tail = &child_copy->next;
    }
    return complete ? copy : NULL;
}
