/* types.h - types of expressions, and their inference.
 *
 * Types are richer than kinds of values: list(int), map(string, dyn). `dyn` fits everything and
 * everything fits it, which makes the typing gradual. A type variable stands for a type that is not
 * known yet (the element of []) and is bound when it meets one. The trail records bindings, so that
 * those of an overload that does not fit can be undone. */
#ifndef CEL_TYPES_H
#define CEL_TYPES_H

#include "cel/cel.h"

enum { TYPE_DYN = CEL_KINDS, TYPE_VARIABLE }; /* tags beside enum cel_kind */

struct cel_type {
    uint8_t tag;
    const struct cel_type *first,
        *second;                   /* list: element; map: key, value; type: of what (may be NULL) */
    const struct cel_type **bound; /* TYPE_VARIABLE: the cell of its binding */
};

/* The bindings of one check. */
struct cel_trail {
    struct cel_trail *before;
    const struct cel_type **cell;
    const struct cel_type *was;
};

struct cel_types {
    struct arena *arena;
    struct cel_trail *trail;
};

const struct cel_type *
cel_type_simple(unsigned tag); /* any tag but list, map, variable: a constant */
/* These return dyn if the arena is full; the compiler checks the arena at its end. */
const struct cel_type *cel_type_list(struct cel_types *t, const struct cel_type *element);
const struct cel_type *cel_type_map(struct cel_types *t, const struct cel_type *key,
                                    const struct cel_type *value);
const struct cel_type *cel_type_of(struct cel_types *t,
                                   const struct cel_type *what); /* type(what) */
const struct cel_type *cel_type_fresh(struct cel_types *t);

/* Whether a value of type `from` is assignable to `to`; binds variables. */
bool cel_type_assign(struct cel_types *t, const struct cel_type *to, const struct cel_type *from);
/* The same, but without bindings if it is false. */
bool cel_type_fits(struct cel_types *t, const struct cel_type *to, const struct cel_type *from);
void cel_types_undo(struct cel_types *t, struct cel_trail *back_to);

/* One type for several elements: the more general one, else dyn. */
const struct cel_type *cel_type_join(struct cel_types *t, const struct cel_type *a,
                                     const struct cel_type *b);
const struct cel_type *cel_type_most_general(const struct cel_type *a, const struct cel_type *b);

const struct cel_type *cel_type_resolved(const struct cel_type *type); /* the outermost binding */
/* Replaces all bound variables; unbound variables become dyn. */
const struct cel_type *cel_type_final(struct cel_types *t, const struct cel_type *type);
bool cel_type_same(const struct cel_type *a, const struct cel_type *b);

#endif
