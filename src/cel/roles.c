/* roles.c - see roles.h. One walk over the typed tree, with the range of each local. */
#include "cel/roles.h"

#include "cel/check.h"
#include "cel/compile.h"
#include "cel/parse.h"

enum { SCRATCH_FIRST = 32 << 10, SCRATCH_MOST = 32 << 20, SLOTS = 64 };

struct walk {
    void (*each)(void *context, struct str role);
    void *context;
    /* by slot: the range of a macro's variable, or the value of a bind's; NULL: none */
    const struct cel_node *ranges[SLOTS], *bound[SLOTS];
};

/* The value of a local of cel.bind, or the node itself. */
static const struct cel_node *meant(const struct walk *w, const struct cel_node *n)
{
    while (n->kind == NODE_NAME && n->reference == REFERENCE_LOCAL && n->slot < SLOTS &&
           w->bound[n->slot] != NULL)
        n = w->bound[n->slot];
    return n;
}

/* The range of the macro with this variable, or NULL. */
static const struct cel_node *range_of(const struct walk *w, const struct cel_node *n)
{
    bool is_local = n->kind == NODE_NAME && n->reference == REFERENCE_LOCAL && n->slot < SLOTS;
    return is_local && w->ranges[n->slot] != NULL ? meant(w, w->ranges[n->slot]) : NULL;
}

static bool is_roles(const struct cel_node *n)
{
    return n->kind == NODE_NAME && n->reference == REFERENCE_VARIABLE && n->slot == CEL_ROLES;
}

static bool is_one_role(const struct walk *w, const struct cel_node *n)
{
    const struct cel_node *range = range_of(w, n);
    return range != NULL && is_roles(range);
}

/* A literal, each literal of a list, or a variable that iterates over such a list. */
static void tell_literals(const struct walk *w, const struct cel_node *n)
{
    const struct cel_node *range = range_of(w, n), *list = meant(w, range != NULL ? range : n);
    if (list->kind == NODE_LITERAL && list->value.kind == CEL_STRING)
        w->each(w->context, str_of(list->value.bytes, list->value.size));
    for (uint32_t i = 0; list->kind == NODE_LIST && i < list->count; i++) {
        const struct cel_node *one = meant(w, list->children[i]);
        if (one->kind == NODE_LITERAL && one->value.kind == CEL_STRING)
            w->each(w->context, str_of(one->value.bytes, one->value.size));
    }
}

static void look_at_call(const struct walk *w, const struct cel_node *n)
{
    if (n->count != 2) return;
    const struct cel_node *left = meant(w, n->children[0]), *right = meant(w, n->children[1]);
    bool equals = n->function == FUNCTION_EQUAL || n->function == FUNCTION_UNEQUAL;
    bool in = n->function == FUNCTION_IN;
    if ((in || equals) && (is_roles(right) || is_one_role(w, right))) tell_literals(w, left);
    if ((in && is_one_role(w, left)) || (equals && (is_roles(left) || is_one_role(w, left))))
        tell_literals(w, right);
}

static void walk(struct walk *w, const struct cel_node *n)
{
    if (n->kind == NODE_CALL) look_at_call(w, n);
    for (uint32_t slot = n->slot; n->kind == NODE_MACRO && slot < n->slot + 2 && slot < SLOTS;
         slot++) {
        w->ranges[slot] = n->children[0];
        w->bound[slot] = NULL;
    }
    if (n->kind == NODE_BIND && n->slot < SLOTS) {
        w->ranges[n->slot] = NULL;
        w->bound[n->slot] = meant(w, n->children[0]);
    }
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] != NULL) walk(w, n->children[i]);
}

void cel_each_role(struct str text, void (*each)(void *context, struct str role), void *context)
{
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems = {0};
    struct walk w = {.each = each, .context = context};
    struct arena scratch;
    size_t wrong;
    if (text.size > CEL_TEXT_MAX || !str_is_utf8(text, &wrong)) return;
    arena_init(&scratch, SCRATCH_FIRST, SCRATCH_MOST);
    struct cel_node *root = cel_parse(text, false, &scratch, &problems);
    if (root != NULL) cel_check(root, text, &environment, &scratch, &problems);
    if (root != NULL && problems.count == 0 && !scratch.overflow) walk(&w, root);
    arena_fini(&scratch);
}
