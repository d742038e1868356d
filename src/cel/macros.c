/* macros.c - macros, which look like calls: has, the comprehensions and cel.bind.
 *
 *   has(e.f)                    range.all(x, p)        range.all(k, v, p)
 *   cel.bind(x, value, body)    range.exists(x, p)     range.exists(k, v, p)
 *                               range.exists_one(x, p) range.existsOne(k, v, p)
 *   range.map(x, t)             range.filter(x, p)     range.transformList(k, v, [p,] t)
 *   range.map(x, p, t)                                 range.transformMap(k, v, [p,] t)
 *
 * A call with the name but another count of arguments stays a call, and the checker reports that
 * there is no such function. With two variables a list gives index and element, a map key and
 * value. */
#include "cel/parse.h"

struct shape {
    const char *name;
    enum cel_macro macro;
    uint8_t arguments; /* with the receiver */
    uint8_t variables;
};

static const struct shape shapes[] = {
    {"all", MACRO_ALL, 3, 1},
    {"exists", MACRO_EXISTS, 3, 1},
    {"exists_one", MACRO_ONE, 3, 1},
    {"existsOne", MACRO_ONE, 3, 1},
    {"map", MACRO_MAP, 3, 1},
    {"map", MACRO_MAP, 4, 1},
    {"filter", MACRO_FILTER, 3, 1},
    {"all", MACRO_ALL, 4, 2},
    {"exists", MACRO_EXISTS, 4, 2},
    {"exists_one", MACRO_ONE, 4, 2},
    {"existsOne", MACRO_ONE, 4, 2},
    {"transformList", MACRO_MAP, 4, 2},
    {"transformList", MACRO_MAP, 5, 2},
    {"transformMap", MACRO_MAP_VALUES, 4, 2},
    {"transformMap", MACRO_MAP_VALUES, 5, 2},
};

static const struct shape *shape_of(const struct cel_node *call)
{
    if (!call->has_receiver) return NULL;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (call->count == shapes[i].arguments && str_equal(call->name, str_from(shapes[i].name)))
            return &shapes[i];
    return NULL;
}

/* The variable that a macro makes: a plain name. */
static bool take_name(struct cel_parser *p, const struct cel_node *n, struct str *ret)
{
    if (n->kind == NODE_WRONG) return false;
    if (n->kind != NODE_NAME || n->is_rooted) {
        cel_problem_add(p->problems, p->text, n->offset, "a variable's name is expected here");
        return false;
    }
    *ret = n->name;
    return true;
}

static struct cel_node *spoil(struct cel_node *call)
{
    call->kind = NODE_WRONG;
    call->count = 0;
    return call;
}

static struct cel_node *expand_has(struct cel_parser *p, struct cel_node *call)
{
    struct cel_node *field = call->children[0];
    if (field->kind == NODE_WRONG) return spoil(call);
    if (field->kind != NODE_SELECT) {
        cel_problem_add(p->problems, p->text, field->offset,
                        "has() needs a field: has(args.amount)");
        return spoil(call);
    }
    call->kind = NODE_HAS;
    call->name = field->name;
    call->children = field->children;
    return call;
}

static struct cel_node *expand_bind(struct cel_parser *p, struct cel_node *call)
{
    struct str name;
    if (!take_name(p, call->children[1], &name)) return spoil(call);
    call->kind = NODE_BIND;
    call->name = name;
    call->children += 2;
    call->count = 2;
    return call;
}

static struct cel_node *expand_comprehension(struct cel_parser *p, struct cel_node *call,
                                             const struct shape *shape)
{
    struct str names[2] = {{0}};
    struct cel_node **a = call->children;
    for (uint8_t i = 0; i < shape->variables; i++)
        if (!take_name(p, a[1 + i], &names[i])) return spoil(call);
    if (shape->variables == 2 && str_equal(names[0], names[1])) {
        cel_problem_add(p->problems, p->text, a[2]->offset, "both variables have the same name");
        return spoil(call);
    }
    struct cel_node **children = arena_array(p->arena, struct cel_node *, 3);
    if (children == NULL) return spoil(call);
    bool filters = call->count == shape->variables + 3u;
    children[0] = a[0];
    children[1] = a[call->count - 1];
    children[2] = filters ? a[call->count - 2] : NULL;
    call->kind = NODE_MACRO;
    call->macro = (uint8_t)shape->macro;
    call->names[0] = names[0];
    call->names[1] = names[1];
    call->children = children;
    call->count = 3;
    return call;
}

struct cel_node *cel_macro_expand(struct cel_parser *p, struct cel_node *call)
{
    if (!call->has_receiver && call->count == 1 && str_equal(call->name, STR("has")))
        return expand_has(p, call);
    if (call->has_receiver && call->count == 4 && str_equal(call->name, STR("bind")) &&
        call->children[0]->kind == NODE_NAME && str_equal(call->children[0]->name, STR("cel")))
        return expand_bind(p, call);
    const struct shape *shape = shape_of(call);
    return shape == NULL ? call : expand_comprehension(p, call, shape);
}
