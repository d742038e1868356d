/* parse.h - tokens to a tree; this room only. The grammar is at the top of parse.c. */
#ifndef CEL_PARSE_H
#define CEL_PARSE_H

#include "cel/ast.h"
#include "cel/lex.h"

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
    struct cel_node spare; /* the result if there is no room; it has no children */
};

enum { CEL_NODES_MAX = 20000 };

/* The whole text as one expression; NULL if there are problems or the arena is full. */
struct cel_node *cel_parse(struct str text, bool is_strict, struct arena *arena,
                           struct cel_problems *problems);

/* ---- between parse.c and macros.c ---- */

/* The call itself, or the expansion of its macro. */
struct cel_node *cel_macro_expand(struct cel_parser *p, struct cel_node *call);

#endif
