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

/* ---- which names are masked at all ---- */

static enum mask_root root_of(struct str name)
{
    return str_equal(name, STR("args"))      ? MASK_ARGS
           : str_equal(name, STR("context")) ? MASK_CONTEXT
                                             : MASK_RESOURCE;
}

/* Three of a filter's bits (Bloom 1970), by the ends, the middle and the length of a name. */
static inline uint64_t name_bits(struct str name)
{
    if (name.size == 0) return 1;
    const unsigned char *bytes = (const unsigned char *)name.bytes;
    uint64_t mixed = bytes[0] | (uint64_t)bytes[name.size - 1] << 8 |
                     (uint64_t)bytes[name.size / 2] << 16 | (uint64_t)name.size << 24;
    mixed *= 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio, odd */
    return (uint64_t)1 << (mixed >> 58) | (uint64_t)1 << (mixed >> 52 & 63) |
           (uint64_t)1 << (mixed >> 46 & 63);
}

void masks_summarize(struct policy_set *s)
{
    for (size_t i = 0; i < s->mask_count; i++) {
        const struct mask *m = s->masks[i];
        bool any = m->count == 1 || str_equal(m->segments[1], STR("*"));
        s->masked_names[root_of(m->segments[0])] |= any ? UINT64_MAX : name_bits(m->segments[1]);
    }
}

/* False: certainly nothing of it is masked. Most requests have none of the names. */
static bool may_be_masked(const struct policy_set *s, struct str root_name, const struct json *root)
{
    uint64_t names = s->masked_names[root_of(root_name)];
    if (root->type != JSON_OBJECT || names == 0) return names != 0;
    for (const struct json *m = root->child; m != NULL; m = m->next) {
        uint64_t bits = name_bits(m->key);
        if ((names & bits) == bits) return true;
    }
    return names == UINT64_MAX;
}

static bool mask_all(const struct policy_set *s, struct str root_name, struct json *root,
                     bool only_look)
{
    bool found = false;
    if (!may_be_masked(s, root_name, root)) return false;
    for (size_t i = 0; i < s->mask_count; i++) {
        const struct mask *m = s->masks[i];
        if (!str_equal(m->segments[0], root_name)) continue;
        found |= mask_below(m, masks_text(m, root) ? 2 : 1, root, only_look);
    }
    return found;
}

bool policy_masks_in(const struct policy_set *s, struct str root_name, const struct json *root)
{
    /* Looking alone changes nothing, so the cast takes no liberty. */
    return root != NULL && mask_all(s, root_name, (struct json *)(uintptr_t)root, true);
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
    if (!policy_masks_in(s, root_name, root)) return root;
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
