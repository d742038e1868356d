/* parse.h - tokens to a tree; this room only. The grammar is at the top of parse.c. */
#ifndef POLICY_CEL_PARSE_H
#define POLICY_CEL_PARSE_H

#include "policy/cel/ast.h"
#include "policy/cel/lex.h"

struct cel_parser {
    struct cel_lexer lexer;
    struct cel_token token; /* the next one */
    uint32_t last_end;      /* end of the one before */
    struct str text;
    struct arena *arena;
    struct cel_problems *problems;
    unsigned depth; /* of recursion */
    uint32_t nodes;
    bool is_strict;        /* see struct cel_environment */
    struct cel_node spare; /* what is given where there is no room; it has no children */
};

enum { CEL_NODES_MAX = 20000 };

/* The whole text as one expression; NULL where there are problems or the arena is full. */
struct cel_node *cel_parse(struct str text, bool is_strict, struct arena *arena,
                           struct cel_problems *problems);

/* ---- between parse.c and macros.c ---- */

/* The call itself, or what its macro makes of it. */
struct cel_node *cel_macro_expand(struct cel_parser *p, struct cel_node *call);

#endif
