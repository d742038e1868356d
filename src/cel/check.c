/* check.c - names and types, bottom-up, in one walk.
 *
 * A name is looked up among the variables of the macros around it, then in the environment: within
 * the container, within its outer containers, then without a container. For a.b.c the longest
 * declared beginning wins. A wrong node gets a problem and the type dyn, so that one mistake is
 * reported once. */
#include "cel/check.h"

#include "base/nearest.h"

/* A variable of a macro. */
struct scope {
    const struct scope *outer;
    struct str name;
    const struct cel_type *type;
    uint32_t slot;
};

struct checker {
    struct cel_types types;
    const struct cel_environment *environment;
    struct str text;
    struct arena *arena;
    struct cel_problems *problems;
    uint32_t locals; /* slots in use */
};

static const struct cel_type *check_node(struct checker *c, struct cel_node *n,
                                         const struct scope *scope);

static const struct cel_type *dyn(void) { return cel_type_simple(TYPE_DYN); }

#define problem(c, at, ...)                                                                        \
    ((c)->environment->unchecked ? (void)0                                                         \
                                 : cel_problem_add((c)->problems, (c)->text, (at), __VA_ARGS__))

/* A type as text, cut to fit a message. */
struct shown {
    char text[64];
};

static struct shown show(const struct cel_type *type)
{
    struct shown shown;
    struct buf out = buf_over(shown.text, sizeof shown.text - 1);
    cel_put_type(&out, type);
    shown.text[out.size] = '\0';
    return shown;
}

/* ---- names ---- */

static const struct scope *find_local(const struct scope *scope, struct str name)
{
    while (scope != NULL && !str_equal(scope->name, name)) scope = scope->outer;
    return scope;
}

static bool find_variable(const struct checker *c, struct str name, uint32_t *ret)
{
    for (size_t i = 0; i < c->environment->count; i++) {
        if (!str_equal(c->environment->variables[i].name, name)) continue;
        *ret = (uint32_t)i;
        return true;
    }
    return false;
}

static bool find_type(struct str name, uint32_t *ret)
{
    for (unsigned kind = CEL_NULL; kind < CEL_REGEX; kind++) {
        if (!str_equal(name, str_from(cel_kind_name(kind)))) continue;
        *ret = kind;
        return true;
    }
    return false;
}

/* In the container "a.b": a.b.name, then a.name, then name. */
static enum cel_reference look_up(struct checker *c, struct str name, bool is_rooted, uint32_t *ret)
{
    struct str container = is_rooted ? (struct str){0} : c->environment->container;
    while (container.size > 0) {
        struct str whole =
            arena_printf(c->arena, "%.*s.%.*s", STR_FORMAT(container), STR_FORMAT(name));
        if (find_variable(c, whole, ret)) return REFERENCE_VARIABLE;
        while (container.size > 0 && container.bytes[container.size - 1] != '.') container.size--;
        if (container.size > 0) container.size--;
    }
    if (find_variable(c, name, ret)) return REFERENCE_VARIABLE;
    return find_type(name, ret) ? REFERENCE_TYPE : REFERENCE_NONE;
}

/* Makes the node a reference if its qualified name is declared. */
static bool resolve(struct checker *c, struct cel_node *n, const struct scope *scope)
{
    const struct cel_node *root = NULL;
    struct str name = cel_node_qualified(n, c->arena, &root);
    if (str_is_absent(name)) return false;
    const struct scope *local = root->is_rooted ? NULL : find_local(scope, root->name);
    if (local != NULL) {
        if (n != root) return false;
        n->reference = REFERENCE_LOCAL;
        n->slot = local->slot;
        n->type = local->type;
        return true;
    }
    n->reference = (uint8_t)look_up(c, name, root->is_rooted, &n->slot);
    if (n->reference == REFERENCE_VARIABLE) n->type = c->environment->variables[n->slot].type;
    if (n->reference == REFERENCE_TYPE)
        n->type =
            cel_type_of(&c->types, n->slot < CEL_REGEX && n->slot != CEL_LIST && n->slot != CEL_MAP
                                       ? cel_type_simple(n->slot)
                                       : NULL);
    return n->reference != REFERENCE_NONE;
}

/* "; did you mean args?", or nothing. */
static const char *suggestion(struct checker *c, struct str name)
{
    const char *names[64] = {"true", "false", "null"};
    size_t count = 3;
    for (size_t i = 0; i < c->environment->count && count < sizeof names / sizeof names[0]; i++) {
        struct str copy = arena_copy(c->arena, c->environment->variables[i].name);
        if (str_is_absent(copy)) return "";
        names[count++] = copy.bytes;
    }
    const char *near = nearest_word(name, names, count);
    if (near == NULL) return "";
    struct str text = arena_printf(c->arena, "; did you mean %s?", near);
    return str_is_absent(text) ? "" : text.bytes;
}

static const struct cel_type *check_name(struct checker *c, struct cel_node *n,
                                         const struct scope *scope)
{
    if (resolve(c, n, scope)) return n->type;
    problem(c, n->place, "there is no variable \"%.*s\"%s", STR_FORMAT(n->name),
            suggestion(c, n->name));
    return dyn();
}

static const struct cel_type *check_select(struct checker *c, struct cel_node *n,
                                           const struct scope *scope)
{
    if (n->kind == NODE_SELECT && resolve(c, n, scope)) return n->type;
    const struct cel_type *of = cel_type_resolved(check_node(c, n->children[0], scope));
    const struct cel_type *result = dyn();
    if (of->tag == CEL_MAP)
        result = of->second;
    else if (of->tag < TYPE_DYN)
        problem(c, n->place, "\"%.*s\" is looked for in a value of type %s, which has no fields",
                STR_FORMAT(n->name), show(of).text);
    return n->kind == NODE_HAS ? cel_type_bool() : result;
}

/* ---- calls ---- */

/* math.greatest(1, 2) looks like a call on a receiver. If the whole name is a function, the call
 * has no receiver. */
static void take_namespace(struct checker *c, struct cel_node *n, const struct scope *scope)
{
    const struct cel_node *root = NULL;
    if (!n->has_receiver || n->count == 0) return;
    struct str space = cel_node_qualified(n->children[0], c->arena, &root);
    if (str_is_absent(space) || (!root->is_rooted && find_local(scope, root->name) != NULL)) return;
    struct str whole = arena_printf(c->arena, "%.*s.%.*s", STR_FORMAT(space), STR_FORMAT(n->name));
    if (str_is_absent(whole) || cel_function_find(whole) == FUNCTIONS) return;
    n->name = whole;
    n->has_receiver = false;
    n->children++;
    n->count--;
}

static bool is_number(const struct cel_type *type)
{
    unsigned tag = cel_type_resolved(type)->tag;
    return tag == CEL_INT || tag == CEL_UINT || tag == CEL_DOUBLE;
}

static void tell_no_overload(struct checker *c, const struct cel_node *n,
                             const struct cel_type *const *types)
{
    char list[160];
    struct buf out = buf_over(list, sizeof list - 1);
    for (uint32_t i = n->has_receiver; i < n->count; i++) {
        buf_put(&out, str_from(i > n->has_receiver ? ", " : ""));
        cel_put_type(&out, cel_type_final(&c->types, types[i]));
    }
    list[out.size] = '\0';
    if (n->function <= FUNCTION_INDEX && n->count == 2)
        problem(c, n->place, "%s %.*s %s is not possible%s", show(types[0]).text,
                (int)n->name.size - 2, n->name.bytes + 1, show(types[1]).text,
                is_number(types[0]) && is_number(types[1])
                    ? ": convert one, as in double(2) or int(2.0)"
                    : "");
    else if (n->has_receiver)
        problem(c, n->place, "there is no %s.%.*s(%s)", show(types[0]).text, STR_FORMAT(n->name),
                list);
    else
        problem(c, n->place, "there is no %.*s(%s)", STR_FORMAT(n->name), list);
}

/* "; did you mean startsWith?", the syntax of a macro, or nothing. Operators do not begin with a
 * letter. */
static const char *suggested_function(struct checker *c, struct str name)
{
    enum { MACROS = 6 };
    static const char *const forms[MACROS] = {"has(args.name)",
                                              "args.list.all(x, x > 5)",
                                              "args.list.exists(x, x > 5)",
                                              "args.list.exists_one(x, x > 5)",
                                              "args.list.map(x, x.name)",
                                              "args.list.filter(x, x > 5)"};
    const char *names[FUNCTIONS + MACROS] = {"has", "all", "exists", "exists_one", "map", "filter"};
    size_t count = MACROS;
    for (size_t i = 0; i < MACROS; i++) {
        if (!str_equal(name, str_from(names[i]))) continue;
        struct str form =
            arena_printf(c->arena, " that takes this; a macro is written as in %s", forms[i]);
        return str_is_absent(form) ? "" : form.bytes;
    }
    for (size_t i = 0; i < FUNCTIONS; i++) {
        struct str one = arena_copy(c->arena, cel_functions[i].name);
        if (str_is_absent(one)) return "";
        if (one.bytes[0] >= 'a' && one.bytes[0] <= 'z') names[count++] = one.bytes;
    }
    const char *near = nearest_word(name, names, count);
    if (near == NULL) return "";
    struct str text = arena_printf(c->arena, "; did you mean %s?", near);
    return str_is_absent(text) ? "" : text.bytes;
}

static const struct cel_type *check_call(struct checker *c, struct cel_node *n,
                                         const struct scope *scope)
{
    bool is_named = n->function == FUNCTIONS;
    if (is_named) {
        take_namespace(c, n, scope);
        n->function = (uint16_t)cel_function_find(n->name);
    }
    const struct cel_type **types = arena_array(c->arena, const struct cel_type *, n->count + 1);
    if (types == NULL) return dyn();
    for (uint32_t i = 0; i < n->count; i++) types[i] = check_node(c, n->children[i], scope);
    if (n->function == FUNCTIONS) {
        problem(c, n->place, "there is no function \"%.*s\"%s", STR_FORMAT(n->name),
                suggested_function(c, n->name));
        return dyn();
    }
    const struct cel_type *result = cel_function_result(
        &c->types, (enum cel_function_id)n->function, n->has_receiver, types, n->count);
    if (result != NULL) return result;
    tell_no_overload(c, n, types);
    return dyn();
}

/* ---- the rest ---- */

static void want_bool(struct checker *c, const struct cel_node *n, const struct cel_type *type,
                      const char *what)
{
    if (!cel_type_fits(&c->types, cel_type_bool(), type))
        problem(c, n->offset, "%s is a bool, but this is %s", what,
                show(cel_type_final(&c->types, type)).text);
}

static const struct cel_type *check_list(struct checker *c, struct cel_node *n,
                                         const struct scope *scope)
{
    const struct cel_type *element = NULL;
    for (uint32_t i = 0; i < n->count; i++)
        element = cel_type_join(&c->types, element, check_node(c, n->children[i], scope));
    return cel_type_list(&c->types, element == NULL ? cel_type_fresh(&c->types) : element);
}

static const struct cel_type *check_map(struct checker *c, struct cel_node *n,
                                        const struct scope *scope)
{
    const struct cel_type *key = NULL, *value = NULL;
    for (uint32_t i = 0; i + 1 < n->count; i += 2) {
        const struct cel_type *one = cel_type_resolved(check_node(c, n->children[i], scope));
        bool can_be_key = one->tag >= TYPE_DYN || one->tag == CEL_STRING || one->tag == CEL_INT ||
                          one->tag == CEL_UINT || one->tag == CEL_BOOL;
        if (!can_be_key)
            problem(c, n->children[i]->offset, "a value of type %s is no key of a map",
                    show(one).text);
        key = cel_type_join(&c->types, key, one);
        value = cel_type_join(&c->types, value, check_node(c, n->children[i + 1], scope));
    }
    return cel_type_map(&c->types, key == NULL ? cel_type_fresh(&c->types) : key,
                        value == NULL ? cel_type_fresh(&c->types) : value);
}

static const struct cel_type *check_choice(struct checker *c, struct cel_node *n,
                                           const struct scope *scope)
{
    want_bool(c, n->children[0], check_node(c, n->children[0], scope), "the part before \"?\"");
    const struct cel_type *yes = check_node(c, n->children[1], scope),
                          *no = check_node(c, n->children[2], scope);
    if (cel_type_fits(&c->types, yes, no)) return cel_type_most_general(yes, no);
    problem(c, n->place, "both sides of \":\" have to have one type, but they are %s and %s",
            show(cel_type_final(&c->types, yes)).text, show(cel_type_final(&c->types, no)).text);
    return dyn();
}

/* The element of [] may have any type. In a strict check its first use decides the type. */
static const struct cel_type *known_or_dyn(const struct checker *c, const struct cel_type *type)
{
    bool is_open = !c->environment->is_strict && cel_type_resolved(type)->tag == TYPE_VARIABLE;
    return is_open ? dyn() : type;
}

/* The types of a macro's two variables: index and element, or key and value. */
static void range_types(struct checker *c, const struct cel_node *range,
                        const struct cel_type *type, const struct cel_type **ret_key,
                        const struct cel_type **ret_value)
{
    type = cel_type_resolved(type);
    *ret_key = *ret_value = dyn();
    if (type->tag == CEL_LIST) {
        *ret_key = cel_type_simple(CEL_INT);
        *ret_value = known_or_dyn(c, type->first);
    } else if (type->tag == CEL_MAP) {
        *ret_key = known_or_dyn(c, type->first);
        *ret_value = known_or_dyn(c, type->second);
    } else if (type->tag < TYPE_DYN) {
        problem(c, range->offset, "a macro goes over a list or a map, but this is %s",
                show(type).text);
    }
}

static const struct cel_type *check_macro(struct checker *c, struct cel_node *n,
                                          const struct scope *outer)
{
    const struct cel_type *range = check_node(c, n->children[0], outer), *key, *value;
    range_types(c, n->children[0], range, &key, &value);
    bool has_two = !str_is_absent(n->names[1]), is_map = cel_type_resolved(range)->tag == CEL_MAP;
    n->slot = c->locals;
    struct scope first = {outer, n->names[0], has_two || is_map ? key : value, c->locals};
    struct scope second = {&first, n->names[1], value, c->locals + 1};
    const struct scope *scope = has_two ? &second : &first;
    c->locals += has_two ? 2 : 1;
    if (n->children[2] != NULL)
        want_bool(c, n->children[2], check_node(c, n->children[2], scope), "the filter of a macro");
    const struct cel_type *body = check_node(c, n->children[1], scope);
    c->locals = n->slot;
    switch ((enum cel_macro)n->macro) {
    case MACRO_ALL:
    case MACRO_EXISTS:
    case MACRO_ONE:
        want_bool(c, n->children[1], body, "the condition of this macro");
        return cel_type_bool();
    case MACRO_FILTER:
        want_bool(c, n->children[1], body, "the condition of this macro");
        return cel_type_list(&c->types, first.type);
    case MACRO_MAP: return cel_type_list(&c->types, body);
    case MACRO_MAP_VALUES: return cel_type_map(&c->types, key, body);
    }
    return dyn();
}

static const struct cel_type *check_bind(struct checker *c, struct cel_node *n,
                                         const struct scope *outer)
{
    struct scope scope = {outer, n->name, check_node(c, n->children[0], outer), c->locals};
    n->slot = c->locals++;
    const struct cel_type *type = check_node(c, n->children[1], &scope);
    c->locals--;
    return type;
}

static const struct cel_type *check_logic(struct checker *c, struct cel_node *n,
                                          const struct scope *scope)
{
    for (uint32_t i = 0; i < n->count; i++)
        want_bool(c, n->children[i], check_node(c, n->children[i], scope),
                  n->kind == NODE_AND ? "each side of \"&&\"" : "each side of \"||\"");
    return cel_type_bool();
}

static const struct cel_type *type_of_node(struct checker *c, struct cel_node *n,
                                           const struct scope *scope)
{
    switch ((enum cel_node_kind)n->kind) {
    case NODE_WRONG: return dyn();
    case NODE_LITERAL: return cel_type_simple(n->value.kind);
    case NODE_NAME: return check_name(c, n, scope);
    case NODE_SELECT:
    case NODE_HAS: return check_select(c, n, scope);
    case NODE_CALL: return check_call(c, n, scope);
    case NODE_LIST: return check_list(c, n, scope);
    case NODE_MAP: return check_map(c, n, scope);
    case NODE_AND:
    case NODE_OR: return check_logic(c, n, scope);
    case NODE_CHOICE: return check_choice(c, n, scope);
    case NODE_MACRO: return check_macro(c, n, scope);
    case NODE_BIND: return check_bind(c, n, scope);
    }
    return dyn();
}

static const struct cel_type *check_node(struct checker *c, struct cel_node *n,
                                         const struct scope *scope)
{
    n->type = type_of_node(c, n, scope);
    return n->type;
}

/* Applies bindings that were found after a node's type. */
static void finish(struct checker *c, struct cel_node *n)
{
    if (n->type != NULL) n->type = cel_type_final(&c->types, n->type);
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] != NULL) finish(c, n->children[i]);
}

void cel_check(struct cel_node *root, struct str text, const struct cel_environment *environment,
               struct arena *arena, struct cel_problems *problems)
{
    struct checker c = {.types = {.arena = arena},
                        .environment = environment,
                        .text = text,
                        .arena = arena,
                        .problems = problems};
    check_node(&c, root, NULL);
    finish(&c, root);
    if (environment->wants != NULL && !cel_type_fits(&c.types, environment->wants, root->type))
        problem(&c, root->offset, "this has to be %s, but it is %s", show(environment->wants).text,
                show(root->type).text);
}
