/* fold.c - see compile.h. Functions are pure, so a call of constants can be replaced by its result.
 * Each call has a small meter, so that a short source cannot make a large program or a long
 * compile. */
#include "cel/compile.h"

enum { FOLD_COST = 20000, FOLD_MEMORY = 64 << 10 };

static bool is_literal(const struct cel_node *n) { return n->kind == NODE_LITERAL; }

static bool is_bool(const struct cel_node *n, bool wanted)
{
    return is_literal(n) && n->value.kind == CEL_BOOL && n->value.boolean == wanted;
}

static bool are_literals(const struct cel_node *n)
{
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] == NULL || !is_literal(n->children[i])) return false;
    return true;
}

static struct cel_node *become(struct cel_node *n, struct cel_value value)
{
    n->kind = NODE_LITERAL;
    n->value = value;
    n->count = 0;
    return n;
}

static struct cel_node *fold_call(struct cel_node *n, struct cel_meter *m, struct cel_value *values)
{
    const struct cel_function *f = &cel_functions[n->function];
    if (!cel_function_takes((enum cel_function_id)n->function, n->has_receiver, n->count)) return n;
    /* Regular expressions are made into constants of their own, and zones want to be found first.
     */
    if (f->prepares == PREPARES_REGEX || (f->prepares == PREPARES_ZONE && n->count > 1)) return n;
    struct cel_value result = f->code(m, values, n->count);
    return cel_is_error(result) ? n : become(n, result);
}

static struct cel_node *fold_with(struct cel_node *n, struct cel_meter *m, struct cel_value *values)
{
    if (n->kind == NODE_CALL) return fold_call(n, m, values);
    struct cel_value whole =
        n->kind == NODE_LIST ? cel_list(values, n->count) : cel_map_make(m, values, n->count / 2);
    return cel_is_error(whole) ? n : become(n, whole);
}

static struct cel_node *fold_constants(struct cel_node *n, struct arena *arena, uint64_t *cost_left)
{
    uint64_t most = *cost_left < FOLD_COST ? *cost_left : FOLD_COST;
    struct cel_meter m = {.arena = arena, .cost_left = most, .memory_left = FOLD_MEMORY};
    struct cel_value *values = arena_array(arena, struct cel_value, n->count + 1);
    if (most == 0 || values == NULL) return n;
    for (uint32_t i = 0; i < n->count; i++) values[i] = n->children[i]->value;
    n = fold_with(n, &m, values);
    *cost_left -= most - m.cost_left;
    return n;
}

/* A side that is true for && (false for ||) drops out where the other is known to be a bool. */
static struct cel_node *fold_logic(struct cel_node *n)
{
    bool decides = n->kind == NODE_OR;
    for (uint32_t i = 0; i < 2; i++) {
        struct cel_node *side = n->children[i], *other = n->children[1 - i];
        if (is_bool(side, decides)) return become(n, cel_bool(decides));
        if (is_bool(side, !decides) && other->type != NULL && other->type->tag == CEL_BOOL)
            return other;
    }
    return n;
}

struct cel_node *cel_fold(struct cel_node *n, struct arena *arena, uint64_t *cost_left)
{
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] != NULL) n->children[i] = cel_fold(n->children[i], arena, cost_left);
    switch ((enum cel_node_kind)n->kind) {
    case NODE_CALL:
        return n->function < FUNCTIONS && are_literals(n) ? fold_constants(n, arena, cost_left) : n;
    case NODE_LIST:
    case NODE_MAP: return are_literals(n) ? fold_constants(n, arena, cost_left) : n;
    case NODE_AND:
    case NODE_OR: return fold_logic(n);
    case NODE_CHOICE:
        if (is_bool(n->children[0], true)) return n->children[1];
        if (is_bool(n->children[0], false)) return n->children[2];
        return n;
    default: return n;
    }
}
