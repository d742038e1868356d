/* functions.c - see functions.h and functions.def. */
#include "cel/functions.h"

const struct cel_function cel_functions[FUNCTIONS] = {
#define FUNCTION(id, name, code, prepares, overloads)                                              \
    [FUNCTION_##id] = {{name, sizeof name - 1}, code, PREPARES_##prepares, overloads},
#include "cel/functions.def"
#undef FUNCTION
};

enum cel_function_id cel_function_find(struct str name)
{
    unsigned id = 0;
    while (id < FUNCTIONS && !str_equal(cel_functions[id].name, name)) id++;
    return (enum cel_function_id)id;
}

/* ---- overloads ---- */

/* The variables of one overload, made when they are first met. */
struct instance {
    struct cel_types *types;
    const struct cel_type *variables[2];
};

static const struct cel_type *read_type(struct instance *instance, const char **at)
{
    char letter = *(*at)++;
    switch (letter) {
    case 'b': return cel_type_simple(CEL_BOOL);
    case 'i': return cel_type_simple(CEL_INT);
    case 'u': return cel_type_simple(CEL_UINT);
    case 'd': return cel_type_simple(CEL_DOUBLE);
    case 's': return cel_type_simple(CEL_STRING);
    case 'y': return cel_type_simple(CEL_BYTES);
    case 'n': return cel_type_simple(CEL_NULL);
    case 't': return cel_type_simple(CEL_TIMESTAMP);
    case 'r': return cel_type_simple(CEL_DURATION);
    case 'c': return cel_type_simple(CEL_CIDR);
    case 'p': return cel_type_simple(CEL_IP);
    case 'w': return cel_type_simple(CEL_URL);
    case '*': return cel_type_simple(TYPE_DYN);
    case 'L': return cel_type_list(instance->types, read_type(instance, at));
    case 'T': return cel_type_of(instance->types, read_type(instance, at));
    case 'M': {
        const struct cel_type *key = read_type(instance, at);
        return cel_type_map(instance->types, key, read_type(instance, at));
    }
    default: {
        check(letter == 'A' || letter == 'B');
        const struct cel_type **variable = &instance->variables[letter - 'A'];
        if (*variable == NULL) *variable = cel_type_fresh(instance->types);
        return *variable;
    }
    }
}

static void skip_type(const char **at)
{
    char letter = *(*at)++;
    if (letter == 'M') skip_type(at);
    if (letter == 'M' || letter == 'L' || letter == 'T') skip_type(at);
}

/* Arguments up to the colon; *ret_more: the last may be repeated. */
static uint32_t arity(const char *overload, bool *ret_more)
{
    uint32_t count = 0;
    *ret_more = false;
    while (*overload != ':') {
        if (*overload == '+') {
            *ret_more = true;
            overload++;
            continue;
        }
        skip_type(&overload);
        count++;
    }
    return count;
}

/* Steps to the next overload of that style and count; NULL: no more. */
static const char *next_overload(const char **rest, bool has_receiver, uint32_t count)
{
    while (**rest != '\0') {
        const char *overload = *rest;
        while (**rest != '\0' && **rest != ' ') (*rest)++;
        while (**rest == ' ') (*rest)++;
        bool is_receiver = *overload == '.', more;
        if (is_receiver) overload++;
        uint32_t least = arity(overload, &more);
        if (is_receiver == has_receiver && (count == least || (more && count > least)))
            return overload;
    }
    return NULL;
}

bool cel_function_takes(enum cel_function_id id, bool has_receiver, uint32_t count)
{
    const char *rest = cel_functions[id].overloads;
    return next_overload(&rest, has_receiver, count) != NULL;
}

/* The overload's result if the arguments fit; else NULL, without bindings. */
static const struct cel_type *try_overload(struct cel_types *types, const char *at,
                                           const struct cel_type *const *arguments, uint32_t count)
{
    struct instance instance = {.types = types};
    struct cel_trail *before = types->trail;
    const struct cel_type *wanted = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (*at != '+' && *at != ':') wanted = read_type(&instance, &at);
        if (!cel_type_assign(types, wanted, arguments[i])) {
            cel_types_undo(types, before);
            return NULL;
        }
    }
    while (*at == '+') at++;
    at++; /* the colon */
    return read_type(&instance, &at);
}

/* If several overloads fit, the run decides, and the result type is what they have in common. The
 * bindings of the first one stay, as long as all agree. */
const struct cel_type *cel_function_result(struct cel_types *types, enum cel_function_id id,
                                           bool has_receiver,
                                           const struct cel_type *const *arguments, uint32_t count)
{
    const char *rest = cel_functions[id].overloads, *overload;
    const struct cel_type *result = NULL;
    while ((overload = next_overload(&rest, has_receiver, count)) != NULL) {
        const struct cel_type *one = try_overload(types, overload, arguments, count);
        if (one == NULL) continue;
        if (result == NULL)
            result = one;
        else if (!cel_type_same(result, one))
            result = cel_type_simple(TYPE_DYN);
    }
    return result;
}

struct str cel_about(struct str text)
{
    enum { ABOUT_MAX = 120 };
    return text.size <= ABOUT_MAX ? text : str_cut(text, ABOUT_MAX);
}

struct cel_value cel_fail_text(struct cel_meter *m, enum cel_fault fault, struct str about)
{
    enum { ERROR_TEXT_COST = 6 };
    if (!cel_pay(m, ERROR_TEXT_COST)) return cel_fail(CEL_FAULT_COST, NULL);
    struct cel_value text = cel_copy_text(m, CEL_STRING, cel_about(about));
    struct str *kept = cel_is_error(text) ? NULL : cel_take(m, sizeof *kept);
    if (kept != NULL) *kept = cel_text(text);
    return cel_fail(fault, kept);
}
