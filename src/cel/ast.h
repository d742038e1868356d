/* ast.h - the tree of an expression: made by the parser, typed by the checker, shortened by the
 * folder, read by the compiler; this room only. All of it lies in the scratch arena of one compile.
 */
#ifndef CEL_AST_H
#define CEL_AST_H

#include "cel/functions.h"

enum cel_node_kind {
    NODE_WRONG,   /* a problem was reported; fits everything */
    NODE_LITERAL, /* value */
    NODE_NAME,    /* name; `slot` once resolved */
    NODE_SELECT,  /* children[0].name */
    NODE_HAS,     /* has(children[0].name) */
    NODE_CALL,    /* function or name; children are the arguments, the receiver first */
    NODE_LIST,    /* children */
    NODE_MAP,     /* children: key, value, key, value, … */
    NODE_AND,
    NODE_OR,
    NODE_CHOICE, /* children[0] ? children[1] : children[2] */
    NODE_MACRO,  /* a comprehension: children[0] is the range, [1] the body, [2] a filter or NULL */
    NODE_BIND,   /* cel.bind(name, children[0], children[1]) */
};

enum cel_macro { MACRO_ALL, MACRO_EXISTS, MACRO_ONE, MACRO_MAP, MACRO_FILTER, MACRO_MAP_VALUES };

/* The meaning of a name. */
enum cel_reference { REFERENCE_NONE, REFERENCE_VARIABLE, REFERENCE_LOCAL, REFERENCE_TYPE };

struct cel_node {
    uint8_t kind;         /* enum cel_node_kind */
    uint8_t reference;    /* NODE_NAME, and a NODE_SELECT that is a qualified name */
    uint8_t macro;        /* NODE_MACRO: enum cel_macro */
    bool has_receiver;    /* NODE_CALL: written receiver.name(…) */
    bool is_rooted;       /* NODE_NAME: written with a leading point */
    uint8_t depth;        /* of nesting below */
    uint16_t function;    /* NODE_CALL: enum cel_function_id; FUNCTIONS: by name */
    uint32_t slot;        /* of the variable or local; NODE_MACRO, NODE_BIND: of the first local */
    uint32_t offset, end; /* the node's bytes of the source */
    uint32_t from, to;    /* the same with the brackets around it */
    uint32_t place;       /* the position for errors: the operator, the name */
    uint32_t count;
    struct cel_node **children;
    struct str name;
    struct str names[2]; /* NODE_MACRO: the variables; [1] absent: one variable */
    struct cel_value value;
    const struct cel_type *type; /* NULL: not checked */
};

/* An indented tree with types. */
void cel_node_put(struct buf *out, const struct cel_node *node, unsigned indent);

/* "a.b.c" for a chain of selects on a name, in the arena; absent: another node. */
struct str cel_node_qualified(const struct cel_node *node, struct arena *arena,
                              const struct cel_node **ret_root);

#endif
