/* mask.c - replaces the values that must never be recorded.
 *
 * A path names keys (or positions in a list) from args, context or resource on; `*` is any key,
 * `**` any number of keys, also zero. The masks of all documents of the tenant apply together,
 * shadow documents included, because hiding more is safe. mask.h describes the algorithm. */
#include "policy/mask.h"

#include "base/check.h"
#include "base/map.h"
#include "spelling/spelling.h"

#define MASKED STR("[masked]")

enum { ROOT = 0, NO_NODE = 0 }; /* the root is no child of a node */

struct mask_node {
    uint64_t hash;              /* of the name that leads here */
    uint64_t names;             /* a filter of the names of its named children */
    uint32_t parent;            /* of a named child */
    uint32_t first_child, next; /* named ones */
    uint32_t star, deep;        /* after `*`; after `**` */
    bool ends;                  /* a value at this node is masked */
    bool stays;                 /* after `**`: any name leads here again */
    bool has_positions;         /* some named child is a number */
};

struct mask_tree {
    struct mask_node *nodes;
    uint32_t count;
    uint32_t *slots; /* named nodes, hashed by parent and name; NO_NODE: free */
    uint64_t slot_mask;
    uint32_t roots[MASK_ROOTS];
};

/* ---- names ---- */

static const struct str root_names[MASK_ROOTS] = {
    [MASK_ARGS] = STR("args"), [MASK_CONTEXT] = STR("context"), [MASK_RESOURCE] = STR("resource")};

static enum mask_root root_of(struct str name)
{
    check(str_equal(name, root_names[MASK_ARGS]) || str_equal(name, root_names[MASK_CONTEXT]) ||
          str_equal(name, root_names[MASK_RESOURCE]));
    return str_equal(name, root_names[MASK_ARGS])      ? MASK_ARGS
           : str_equal(name, root_names[MASK_CONTEXT]) ? MASK_CONTEXT
                                                       : MASK_RESOURCE;
}

static bool is_number(struct str name)
{
    for (size_t i = 0; i < name.size; i++)
        if (name.bytes[i] < '0' || name.bytes[i] > '9') return false;
    return name.size > 0;
}

/* Whether two spellings of the name may differ in ASCII case only. */
static inline bool is_simple(struct str name)
{
    unsigned odd = name.size == 0 || (name.bytes[0] == '0' && name.size > 1);
    for (size_t i = 0; i < name.size; i++) odd |= (unsigned char)(name.bytes[i] - '!') > '~' - '!';
    return odd == 0;
}

/* Three of a filter's bits (Bloom 1970), by the ends, the middle and the length of a simple name;
 * the same in either case. */
static inline uint64_t name_bits(struct str name)
{
    check(name.size > 0);
    const unsigned char *bytes = (const unsigned char *)name.bytes;
    uint64_t mixed = (bytes[0] | 0x20u) | (uint64_t)(bytes[name.size - 1] | 0x20u) << 8 |
                     (uint64_t)(bytes[name.size / 2] | 0x20u) << 16 | (uint64_t)name.size << 24;
    mixed *= 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio, odd */
    return (uint64_t)1 << (mixed >> 58) | (uint64_t)1 << (mixed >> 52 & 63) |
           (uint64_t)1 << (mixed >> 46 & 63);
}

/* Without leading zeros, if it is a whole number. */
static struct str segment_trim(struct str name)
{
    if (is_number(name))
        while (name.size > 1 && name.bytes[0] == '0') name = str_skip(name, 1);
    return name;
}

/* The same for all spellings of a name; 0: it cannot be folded. */
static uint64_t segment_hash(struct str name) { return spelling_hash(segment_trim(name)); }

/* ---- the tree ---- */

static uint64_t slot_of(uint32_t parent, uint64_t hash)
{
    return (hash ^ hash >> 32) + parent * UINT64_C(0x9E3779B97F4A7C15);
}

static uint32_t child_named(const struct mask_tree *t, uint32_t parent, uint64_t hash)
{
    for (uint64_t at = slot_of(parent, hash);; at++) {
        uint32_t node = t->slots[at & t->slot_mask];
        if (node == NO_NODE) return NO_NODE;
        if (t->nodes[node].parent == parent && t->nodes[node].hash == hash) return node;
    }
}

static uint32_t node_new(struct mask_tree *t)
{
    check(t->count <= t->slot_mask / 2); /* a search ends at a free place */
    t->nodes[t->count] = (struct mask_node){0};
    return t->count++;
}

static uint32_t child_make(struct mask_tree *t, uint32_t parent, struct str name, uint64_t hash)
{
    uint32_t node = child_named(t, parent, hash);
    struct mask_node *from = &t->nodes[parent];
    from->names |= is_simple(name) ? name_bits(name) : UINT64_MAX;
    from->has_positions |= is_number(name);
    if (node != NO_NODE) return node;
    node = node_new(t);
    t->nodes[node].parent = parent;
    t->nodes[node].hash = hash;
    t->nodes[node].next = from->first_child;
    check(node < t->count && parent < node);
    from->first_child = node;
    uint64_t at = slot_of(parent, hash);
    while (t->slots[at & t->slot_mask] != NO_NODE) at++;
    t->slots[at & t->slot_mask] = node;
    return node;
}

/* A name that cannot be folded counts as any name, because masking more is safe. */
static void add_mask(struct mask_tree *t, const struct mask *m)
{
    check(m->count > 0 && m->count <= MASK_SEGMENTS_MAX);
    uint32_t at = ROOT;
    for (size_t i = 0; i < m->count; i++) {
        struct str name = segment_trim(m->segments[i]);
        bool deep = str_equal(name, STR("**"));
        uint64_t hash = deep || str_equal(name, STR("*")) ? 0 : segment_hash(name);
        struct mask_node *from = &t->nodes[at];
        uint32_t *unnamed = deep ? &from->deep : &from->star;
        if (hash != 0)
            at = child_make(t, at, name, hash);
        else
            at = *unnamed = *unnamed != NO_NODE ? *unnamed : node_new(t);
        t->nodes[at].stays = deep;
    }
    check(at != ROOT && at < t->count);
    t->nodes[at].ends = true;
}

static struct mask_tree *tree_new(struct policy_set *s, size_t nodes)
{
    size_t slots = 16;
    while (slots < nodes * 2) slots *= 2;
    struct mask_tree *t = arena_new(&s->arena, struct mask_tree);
    if (t == NULL || nodes > UINT32_MAX / 4) return NULL;
    t->nodes = arena_array(&s->arena, struct mask_node, nodes);
    t->slots = arena_array(&s->arena, uint32_t, slots);
    t->slot_mask = slots - 1;
    if (t->nodes == NULL || t->slots == NULL) return NULL;
    node_new(t);
    return t;
}

bool masks_build(struct policy_set *s)
{
    if (s->mask_count == 0) return true;
    size_t nodes = 1;
    for (size_t i = 0; i < s->document_count; i++) {
        const struct policy_document *d = s->documents[i].document;
        for (size_t k = 0; k < d->mask_count; k++) nodes += d->masks[k].count;
    }
    struct mask_tree *t = tree_new(s, nodes);
    if (t == NULL) return false;
    for (size_t i = 0; i < s->document_count; i++) {
        const struct policy_document *d = s->documents[i].document;
        for (size_t k = 0; k < d->mask_count; k++) add_mask(t, &d->masks[k]);
    }
    check(t->count <= nodes);
    for (size_t i = 0; i < MASK_ROOTS; i++) {
        t->roots[i] = child_named(t, ROOT, segment_hash(root_names[i]));
        if (t->roots[i] == NO_NODE) continue;
        const struct mask_node *n = &t->nodes[t->roots[i]];
        bool any = n->ends || n->star != NO_NODE || n->deep != NO_NODE;
        s->masked_names[i] = any ? UINT64_MAX : n->names;
    }
    s->masks = t;
    return true;
}

/* ---- one step ---- */

/* The lists of nodes on the path to a value, one after the other. */
struct walk {
    const struct mask_tree *tree;
    bool only_look;
    uint64_t steps;
    size_t count;
    uint32_t active[(LIMIT_JSON_DEPTH + 2) * MASK_ACTIVE_MAX];
};

struct list {
    size_t from, to; /* in walk.active */
    bool ends;       /* one of these nodes is masked */
    bool overflow;   /* there are more nodes than the list can hold */
};

/* A name that is compared with a list of nodes; its hash is computed at the first use. */
struct step {
    struct str name; /* absent: any name */
    bool is_other;   /* a name that no mask has */
    bool simple, hashed;
    uint64_t bits, hash;
};

static struct step step_by(struct str name)
{
    struct step s = {.name = name, .simple = !str_is_absent(name) && is_simple(name)};
    if (s.simple) s.bits = name_bits(name);
    return s;
}

static void list_add(struct walk *w, struct list *l, uint32_t node)
{
    check(node < w->tree->count && l->from <= l->to);
    if (l->to - l->from == MASK_ACTIVE_MAX || l->to == sizeof w->active / sizeof *w->active) {
        l->overflow = true;
        return;
    }
    w->active[l->to++] = node;
    w->steps++;
    l->ends |= w->tree->nodes[node].ends;
}

/* Adds a node and the node after a following `**`, which may match zero names. Only that node may
 * be in the list already, because it stays. */
static void list_enter(struct walk *w, struct list *l, uint32_t node)
{
    uint32_t deep = w->tree->nodes[node].deep;
    list_add(w, l, node);
    if (deep == NO_NODE) return;
    for (size_t i = l->from; i < l->to; i++)
        if (w->active[i] == deep) return;
    list_add(w, l, deep);
}

static void list_enter_any(struct walk *w, struct list *l, const struct mask_node *from)
{
    for (uint32_t child = from->first_child; child != NO_NODE && !l->overflow;
         child = w->tree->nodes[child].next)
        list_enter(w, l, child);
}

/* A name that cannot be folded counts as any name. */
static void list_enter_named(struct walk *w, struct list *l, uint32_t node, struct step *s)
{
    const struct mask_node *from = &w->tree->nodes[node];
    if (from->first_child == NO_NODE || s->is_other) return;
    if (s->simple && (from->names & s->bits) != s->bits) return;
    if (!s->hashed && !str_is_absent(s->name)) s->hash = segment_hash(s->name);
    s->hashed = true;
    if (s->hash == 0) {
        list_enter_any(w, l, from);
        return;
    }
    uint32_t child = child_named(w->tree, node, s->hash);
    if (child != NO_NODE) list_enter(w, l, child);
}

/* The nodes to which a name leads from a list. */
static struct list follow(struct walk *w, const struct list *before, struct step *s)
{
    struct list l = {.from = before->to, .to = before->to};
    for (size_t i = before->from; i < before->to; i++)
        if (w->tree->nodes[w->active[i]].stays) list_add(w, &l, w->active[i]);
    for (size_t i = before->from; i < before->to && !l.overflow; i++) {
        uint32_t node = w->active[i];
        w->steps++;
        list_enter_named(w, &l, node, s);
        if (w->tree->nodes[node].star != NO_NODE) list_enter(w, &l, w->tree->nodes[node].star);
    }
    check(l.from == before->to && l.to - l.from <= MASK_ACTIVE_MAX);
    return l;
}

static struct list start(struct walk *w, uint32_t node)
{
    struct list l = {0};
    list_enter(w, &l, node);
    return l;
}

/* ---- values ---- */

static bool wants_positions(const struct walk *w, const struct list *l)
{
    for (size_t i = l->from; i < l->to; i++)
        if (w->tree->nodes[w->active[i]].has_positions) return true;
    return false;
}

static bool mask_value(struct walk *w, struct json *v, const struct list *l);

/* Elements differ only in their positions, which most masks do not name. */
static bool mask_elements(struct walk *w, struct json *v, const struct list *l)
{
    check(v->type == JSON_ARRAY);
    bool found = false, counts = wants_positions(w, l);
    uint64_t index = 0;
    for (struct json *child = v->child; child != NULL; child = child->next, index++) {
        char digits[24];
        struct buf number = buf_over(digits, sizeof digits);
        if (counts) buf_put_u64(&number, index);
        struct step s = counts ? step_by(buf_view(&number)) : (struct step){.is_other = true};
        struct list below = follow(w, l, &s);
        found |= mask_value(w, child, &below);
        if (found && w->only_look) return true;
    }
    return found;
}

static bool mask_members(struct walk *w, struct json *v, const struct list *l)
{
    bool found = false;
    for (struct json *child = v->child; child != NULL; child = child->next) {
        struct step s = step_by(child->key);
        struct list below = follow(w, l, &s);
        found |= mask_value(w, child, &below);
        if (found && w->only_look) return true;
    }
    return found;
}

/* True: something must be masked. */
static bool mask_value(struct walk *w, struct json *v, const struct list *l)
{
    if (l->ends || l->overflow) {
        if (!w->only_look) json_become_string(v, MASKED);
        return true;
    }
    if (l->from == l->to) return false;
    return v->type == JSON_ARRAY ? mask_elements(w, v, l) : mask_members(w, v, l);
}

/* A context that is a string counts as {"text": …}, so context.text masks it. */
static bool mask_text(struct walk *w, struct json *root, const struct list *l)
{
    struct step s = step_by(STR("text"));
    struct list below = follow(w, l, &s);
    below.ends |= l->ends;
    return mask_value(w, root, &below);
}

/* False: nothing of the value is masked. Most requests have none of the names. */
static bool may_be_masked(const struct policy_set *s, enum mask_root which, const struct json *root)
{
    check(which < MASK_ROOTS);
    uint64_t names = s->masked_names[which];
    if (root->type != JSON_OBJECT || names == 0 || names == UINT64_MAX) return names != 0;
    for (const struct json *m = root->child; m != NULL; m = m->next) {
        if (!is_simple(m->key)) return true;
        uint64_t bits = name_bits(m->key);
        if ((names & bits) == bits) return true;
    }
    return false;
}

bool masks_walk(const struct policy_set *s, struct str root_name, struct json *root, bool only_look,
                uint64_t *ret_steps)
{
    enum mask_root which = root_of(root_name);
    struct walk w;
    if (ret_steps != NULL) *ret_steps = 0;
    if (root == NULL || !may_be_masked(s, which, root)) return false;
    check(s->masks != NULL);
    w.tree = s->masks;
    w.only_look = only_look;
    w.steps = 0;
    struct list l = start(&w, s->masks->roots[which]);
    bool is_text = which == MASK_CONTEXT && root->type == JSON_STRING;
    bool found = is_text ? mask_text(&w, root, &l) : mask_value(&w, root, &l);
    if (ret_steps != NULL) *ret_steps = w.steps;
    return found;
}

bool policy_masks_in(const struct policy_set *s, struct str root_name, const struct json *root)
{
    /* With `only_look` the value is not changed, so the cast is safe. */
    return masks_walk(s, root_name, (struct json *)(uintptr_t)root, true, NULL);
}

void policy_mask(const struct policy_set *s, struct str root_name, struct json *root)
{
    masks_walk(s, root_name, root, false, NULL);
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
    if (mine != NULL) policy_mask(s, root_name, mine);
    return mine;
}

/* ---- paths of conditions ---- */

/* A path meets a mask if one is a prefix of the other. `request` holds args, context and resource,
 * like the root of the tree. */
bool mask_hides(const struct policy_set *s, const struct str *segments, size_t count)
{
    check(count > 0);
    struct walk w;
    if (s->masks == NULL) return false;
    w.tree = s->masks;
    w.only_look = true;
    w.steps = 0;
    struct list l = start(&w, ROOT);
    for (size_t i = str_equal(segments[0], STR("request")) ? 1 : 0; i < count; i++) {
        struct step step = step_by(segments[i]);
        l = follow(&w, &l, &step);
        if (l.ends || l.overflow) return true;
        if (l.from == l.to) return false;
    }
    return true;
}

struct str policy_resource_shown(const struct policy_set *s, const struct policy_request *q)
{
    const struct str type[] = {STR("resource"), STR("type")}, id[] = {STR("resource"), STR("id")};
    bool hidden = mask_hides(s, type, 2) || mask_hides(s, id, 2);
    return hidden && !str_is_absent(q->resource) ? MASKED : q->resource;
}
