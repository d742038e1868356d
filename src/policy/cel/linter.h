/* linter.h - what the looks of a lint share (lint.c, lint_asked.c, lint_values.c); this room only. */
#ifndef POLICY_CEL_LINTER_H
#define POLICY_CEL_LINTER_H

#include "policy/cel/ast.h"
#include "policy/cel/lint.h"

enum { LINT_EXCERPT = 48, LINT_BOUNDS = 16, LINT_TOLD = 16 };

/* What is demanded of one number so far. */
struct lint_bound {
    struct str path; /* as written */
    double low, high;
    bool above, below; /* low, high themselves do not do */
};

/* Paths that a kind of remark has been made about: one is enough. */
struct lint_told {
    enum cel_remark_kind kind;
    struct str path;
};

struct linter {
    struct str text;
    void (*each)(void *context, const struct cel_remark *remark);
    void *context;
    uint64_t chosen, asked, json; /* locals, by slot */
    struct lint_bound bounds[LINT_BOUNDS];
    size_t bound_count;
    struct lint_told told[LINT_TOLD];
    size_t told_count;
};

struct lint_excerpt {
    char text[LINT_EXCERPT + 4];
};

/* The node as it is written, on one line and cut. */
struct lint_excerpt lint_excerpt_of(const struct linter *l, const struct cel_node *n);

void lint_tell(struct linter *l, enum cel_remark_kind kind, bool negated, const struct cel_node *at,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

static inline bool lint_is_call(const struct cel_node *n, enum cel_function_id id)
{
    return n->kind == NODE_CALL && n->function == id;
}

static inline bool lint_is_text(const struct cel_node *n)
{
    return n->kind == NODE_LITERAL && n->value.kind == CEL_STRING;
}

/* A path into args, context or resource: whoever asks writes it. */
bool lint_is_asked(const struct linter *l, const struct cel_node *n);

/* lint_asked.c: one test of a condition; `negated`: it helps the condition by being false. */
void lint_asked(struct linter *l, const struct cel_node *test, bool negated);
/* lint_values.c: constants that are no value of what they stand beside, or mean something else. */
void lint_values(struct linter *l, const struct cel_node *root);

#endif
