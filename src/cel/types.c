/* types.c - see types.h. The rules of assignment are those of the specification's reference
 * checker: dyn is assignable to everything; null is assignable to timestamp and duration;
 * aggregates are compared by their parts; and a bound variable takes a more general type if it
 * meets one. */
#include "cel/types.h"

#include "cel/value.h"

enum { TYPE_DEPTH_MAX = 200 };

const struct cel_type *cel_type_simple(unsigned tag)
{
    static const struct cel_type simple[TYPE_DYN + 1] = {
        [CEL_NULL] = {.tag = CEL_NULL},         [CEL_BOOL] = {.tag = CEL_BOOL},
        [CEL_INT] = {.tag = CEL_INT},           [CEL_UINT] = {.tag = CEL_UINT},
        [CEL_DOUBLE] = {.tag = CEL_DOUBLE},     [CEL_STRING] = {.tag = CEL_STRING},
        [CEL_BYTES] = {.tag = CEL_BYTES},       [CEL_TIMESTAMP] = {.tag = CEL_TIMESTAMP},
        [CEL_DURATION] = {.tag = CEL_DURATION}, [CEL_TYPE] = {.tag = CEL_TYPE},
        [CEL_CIDR] = {.tag = CEL_CIDR},         [CEL_IP] = {.tag = CEL_IP},
        [CEL_URL] = {.tag = CEL_URL},           [TYPE_DYN] = {.tag = TYPE_DYN},
    };
    check(tag <= TYPE_DYN && simple[tag].tag == tag);
    return &simple[tag];
}

const struct cel_type *cel_type_bool(void) { return cel_type_simple(CEL_BOOL); }

static const struct cel_type *make(struct cel_types *t, unsigned tag, const struct cel_type *first,
                                   const struct cel_type *second)
{
    struct cel_type *type = arena_new(t->arena, struct cel_type);
    if (type == NULL) return cel_type_simple(TYPE_DYN);
    *type = (struct cel_type){.tag = (uint8_t)tag, .first = first, .second = second};
    return type;
}

const struct cel_type *cel_type_list(struct cel_types *t, const struct cel_type *element)
{
    return make(t, CEL_LIST, element, NULL);
}

const struct cel_type *cel_type_map(struct cel_types *t, const struct cel_type *key,
                                    const struct cel_type *value)
{
    return make(t, CEL_MAP, key, value);
}

const struct cel_type *cel_type_of(struct cel_types *t, const struct cel_type *what)
{
    return make(t, CEL_TYPE, what, NULL);
}

const struct cel_type *cel_type_fresh(struct cel_types *t)
{
    struct cel_type *type = arena_new(t->arena, struct cel_type);
    const struct cel_type **cell = arena_new(t->arena, const struct cel_type *);
    if (type == NULL || cell == NULL) return cel_type_simple(TYPE_DYN);
    *type = (struct cel_type){.tag = TYPE_VARIABLE, .bound = cell};
    return type;
}

const struct cel_type *cel_type_resolved(const struct cel_type *type)
{
    while (type->tag == TYPE_VARIABLE && *type->bound != NULL) type = *type->bound;
    return type;
}

static void bind(struct cel_types *t, const struct cel_type *variable, const struct cel_type *to)
{
    struct cel_trail *trail = arena_new(t->arena, struct cel_trail);
    if (trail == NULL) return;
    *trail =
        (struct cel_trail){.before = t->trail, .cell = variable->bound, .was = *variable->bound};
    t->trail = trail;
    *variable->bound = to;
}

void cel_types_undo(struct cel_types *t, struct cel_trail *back_to)
{
    for (; t->trail != back_to; t->trail = t->trail->before) *t->trail->cell = t->trail->was;
}

/* Whether the type contains the variable: list(A) is no binding for A. */
static bool occurs(const struct cel_type *variable, const struct cel_type *type, unsigned depth)
{
    type = cel_type_resolved(type);
    if (type == variable || depth > TYPE_DEPTH_MAX) return true;
    return (type->first != NULL && occurs(variable, type->first, depth + 1)) ||
           (type->second != NULL && occurs(variable, type->second, depth + 1));
}

/* Whether `a` is as general as `b`, or more. */
static bool as_general(const struct cel_type *a, const struct cel_type *b, unsigned depth)
{
    a = cel_type_resolved(a);
    b = cel_type_resolved(b);
    if (a->tag >= TYPE_DYN || a == b) return true;
    if (b->tag >= TYPE_DYN || a->tag != b->tag || depth > TYPE_DEPTH_MAX) return false;
    return (a->first == NULL || b->first == NULL || as_general(a->first, b->first, depth + 1)) &&
           (a->second == NULL || b->second == NULL || as_general(a->second, b->second, depth + 1));
}

const struct cel_type *cel_type_most_general(const struct cel_type *a, const struct cel_type *b)
{
    return as_general(a, b, 0) ? a : b;
}

static bool assign(struct cel_types *t, const struct cel_type *to, const struct cel_type *from,
                   unsigned depth);

static bool assign_bound(struct cel_types *t, const struct cel_type *variable,
                         const struct cel_type *other, bool other_is_from, unsigned depth)
{
    const struct cel_type *bound = *variable->bound;
    if (!(other_is_from ? assign(t, bound, other, depth + 1) : assign(t, other, bound, depth + 1)))
        return false;
    const struct cel_type *resolved = cel_type_resolved(other);
    if (resolved != cel_type_resolved(bound) && resolved->tag != TYPE_VARIABLE &&
        as_general(resolved, bound, 0) && !occurs(variable, resolved, 0))
        bind(t, variable, resolved);
    return true;
}

static bool assign(struct cel_types *t, const struct cel_type *to, const struct cel_type *from,
                   unsigned depth)
{
    if (to == from) return true;
    if (depth > TYPE_DEPTH_MAX) return false;
    if (to->tag == TYPE_VARIABLE && *to->bound != NULL)
        return assign_bound(t, to, from, true, depth);
    if (from->tag == TYPE_VARIABLE && *from->bound != NULL)
        return assign_bound(t, from, to, false, depth);
    if (to->tag == TYPE_VARIABLE || from->tag == TYPE_VARIABLE) {
        const struct cel_type *variable = to->tag == TYPE_VARIABLE ? to : from,
                              *other = variable == to ? from : to;
        if (occurs(variable, other, 0)) return false;
        bind(t, variable, other);
        return true;
    }
    if (to->tag == TYPE_DYN || from->tag == TYPE_DYN) return true;
    if (from->tag == CEL_NULL && (to->tag == CEL_TIMESTAMP || to->tag == CEL_DURATION)) return true;
    if (to->tag != from->tag) return false;
    if (to->tag == CEL_TYPE) return true;
    return (to->first == NULL || assign(t, to->first, from->first, depth + 1)) &&
           (to->second == NULL || assign(t, to->second, from->second, depth + 1));
}

bool cel_type_assign(struct cel_types *t, const struct cel_type *to, const struct cel_type *from)
{
    return assign(t, to, from, 0);
}

bool cel_type_fits(struct cel_types *t, const struct cel_type *to, const struct cel_type *from)
{
    struct cel_trail *before = t->trail;
    if (assign(t, to, from, 0)) return true;
    cel_types_undo(t, before);
    return false;
}

const struct cel_type *cel_type_join(struct cel_types *t, const struct cel_type *a,
                                     const struct cel_type *b)
{
    if (a == NULL) return b;
    return cel_type_fits(t, a, b) ? cel_type_most_general(a, b) : cel_type_simple(TYPE_DYN);
}

const struct cel_type *cel_type_final(struct cel_types *t, const struct cel_type *type)
{
    type = cel_type_resolved(type);
    if (type->tag == TYPE_VARIABLE) return cel_type_simple(TYPE_DYN);
    if (type->first == NULL) return type;
    const struct cel_type *first = cel_type_final(t, type->first);
    const struct cel_type *second = type->second == NULL ? NULL : cel_type_final(t, type->second);
    return first == type->first && second == type->second ? type
                                                          : make(t, type->tag, first, second);
}

bool cel_type_same(const struct cel_type *a, const struct cel_type *b)
{
    a = cel_type_resolved(a);
    b = cel_type_resolved(b);
    if (a == b) return true;
    if (a->tag != b->tag || a->tag == TYPE_VARIABLE) return false;
    if (a->tag == CEL_TYPE) return true;
    return (a->first == NULL || cel_type_same(a->first, b->first)) &&
           (a->second == NULL || cel_type_same(a->second, b->second));
}

/* ---- as text ---- */

void cel_put_type(struct buf *out, const struct cel_type *type)
{
    type = cel_type_resolved(type);
    if (type->tag >= TYPE_DYN) {
        buf_put_literal(out, "dyn");
        return;
    }
    buf_put(out, str_from(cel_kind_name(type->tag)));
    if (type->first == NULL) return;
    buf_put_byte(out, '(');
    cel_put_type(out, type->first);
    if (type->second != NULL) {
        buf_put_literal(out, ", ");
        cel_put_type(out, type->second);
    }
    buf_put_byte(out, ')');
}

static void skip_blanks(struct str *text)
{
    while (text->size > 0 && text->bytes[0] == ' ') *text = str_skip(*text, 1);
}

static bool take_byte(struct str *text, char byte)
{
    skip_blanks(text);
    if (text->size == 0 || text->bytes[0] != byte) return false;
    *text = str_skip(*text, 1);
    return true;
}

static const struct cel_type *read_type(struct str *text, struct cel_types *t, unsigned depth)
{
    skip_blanks(text);
    size_t size = 0;
    while (size < text->size && strchr("(), ", text->bytes[size]) == NULL) size++;
    struct str name = str_of(text->bytes, size);
    *text = str_skip(*text, size);
    if (depth > 20) return NULL;
    if (str_equal(name, STR("dyn"))) return cel_type_simple(TYPE_DYN);
    unsigned kind = CEL_NULL;
    while (kind < CEL_REGEX && !str_equal(name, str_from(cel_kind_name(kind)))) kind++;
    if (kind >= CEL_REGEX) return NULL;
    bool has_parts = take_byte(text, '(');
    if (!has_parts) {
        if (kind == CEL_LIST) return cel_type_list(t, cel_type_simple(TYPE_DYN));
        if (kind == CEL_MAP)
            return cel_type_map(t, cel_type_simple(TYPE_DYN), cel_type_simple(TYPE_DYN));
        return cel_type_simple(kind);
    }
    if (kind != CEL_LIST && kind != CEL_MAP && kind != CEL_TYPE) return NULL;
    const struct cel_type *first = read_type(text, t, depth + 1), *second = NULL;
    if (first == NULL) return NULL;
    if (kind == CEL_MAP) {
        if (!take_byte(text, ',')) return NULL;
        second = read_type(text, t, depth + 1);
        if (second == NULL) return NULL;
    }
    return take_byte(text, ')') ? make(t, kind, first, second) : NULL;
}

const struct cel_type *cel_type_read(struct str text, struct arena *arena)
{
    struct cel_types types = {.arena = arena};
    const struct cel_type *type = read_type(&text, &types, 0);
    skip_blanks(&text);
    return text.size == 0 && !arena->overflow ? type : NULL;
}
