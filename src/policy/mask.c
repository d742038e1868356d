/* mask.c - taking out of a value what may never be written down.
 *
 * A path names keys (or positions in a list) from args, context or resource on; `*` is any of
 * them. The union over all documents of the tenant holds, shadow ones too: hiding more is safe. */
#include "policy/ballot.h"

#define MASKED STR("[masked]")

static bool segment_matches(struct str segment, const struct json *parent, const struct json *child,
                            size_t index)
{
    if (str_equal(segment, STR("*"))) return true;
    if (parent->type == JSON_OBJECT) return str_equal(segment, child->key);
    uint64_t number;
    return parent->type == JSON_ARRAY && str_to_u64(segment, &number) && number == index;
}

/* Masks what the segments from `at` on lead to. With `only_look` changes nothing. True: there is
 * something to mask. */
static bool mask_below(const struct mask *m, size_t at, struct json *v, bool only_look)
{
    if (at == m->count) {
        if (!only_look) json_become_string(v, MASKED);
        return true;
    }
    bool found = false;
    size_t index = 0;
    for (struct json *child = v->child; child != NULL; child = child->next, index++)
        if (segment_matches(m->segments[at], v, child, index))
            found |= mask_below(m, at + 1, child, only_look);
    return found;
}

/* A context that is a string reads as {"text": …}, so that path masks the string. */
static bool masks_text(const struct mask *m, const struct json *root)
{
    return m->count == 2 && root->type == JSON_STRING &&
           str_equal(m->segments[0], STR("context")) &&
           (str_equal(m->segments[1], STR("text")) || str_equal(m->segments[1], STR("*")));
}

static bool mask_all(const struct policy_set *s, struct str root_name, struct json *root,
                     bool only_look)
{
    bool found = false;
    for (size_t i = 0; i < s->mask_count; i++) {
        const struct mask *m = s->masks[i];
        if (!str_equal(m->segments[0], root_name)) continue;
        found |= mask_below(m, masks_text(m, root) ? 2 : 1, root, only_look);
    }
    return found;
}

void policy_mask(const struct policy_set *s, struct str root_name, struct json *root)
{
    if (root != NULL) mask_all(s, root_name, root, false);
}

static struct json *copy(const struct json *from, struct arena *arena)
{
    struct json *to = arena_new(arena, struct json);
    if (to == NULL) return NULL;
    *to = *from;
    to->child = to->next = NULL;
    struct json **tail = &to->child;
    for (const struct json *child = from->child; child != NULL; child = child->next) {
        *tail = copy(child, arena);
        if (*tail == NULL) return NULL;
        tail = &(*tail)->next;
    }
    return to;
}

const struct json *policy_masked_copy(const struct policy_set *s, struct str root_name,
                                      const struct json *root, struct arena *arena)
{
    /* Looking alone changes nothing, so the cast takes no liberty. */
    if (root == NULL || !mask_all(s, root_name, (struct json *)(uintptr_t)root, true)) return root;
    struct json *mine = copy(root, arena);
    if (mine != NULL) mask_all(s, root_name, mine, false);
    return mine;
}

/* ---- what may be shown ---- */

static bool segments_meet(struct str mask, struct str asked)
{
    return str_is_absent(asked) || str_equal(mask, STR("*")) || str_equal(mask, asked);
}

/* Two paths meet where neither leaves the other before its end. */
static bool paths_meet(const struct mask *m, const struct str *segments, size_t count)
{
    for (size_t i = 0; i < m->count && i < count; i++)
        if (!segments_meet(m->segments[i], segments[i])) return false;
    return true;
}

bool mask_hides(const struct policy_set *s, const struct str *segments, size_t count)
{
    bool all = str_equal(segments[0], STR("request")); /* holds args, context and resource */
    for (size_t i = 0; i < s->mask_count; i++) {
        if (all ? paths_meet(s->masks[i], segments + 1, count - 1)
                : paths_meet(s->masks[i], segments, count))
            return true;
    }
    return false;
}
