/* linter.h - common code of the checks (lint.c, lint_asked.c, lint_shell.c, lint_values.c); this room only. */
#ifndef CEL_LINTER_H
#define CEL_LINTER_H

#include "cel/ast.h"
#include "cel/lint.h"

enum {
    LINT_EXCERPT = 48,
    LINT_BOUNDS = 16,
    LINT_TOLD = 16,
    LINT_SLOTS = 64 /* bits of a set of locals */
};

/* The demands on one number so far. */
struct lint_bound {
    struct str path; /* as written */
    double low, high;
    bool above, below; /* low, high themselves are excluded */
};

/* Paths with a remark of this kind: one remark a path is enough. */
struct lint_told {
    enum cel_remark_kind kind;
    struct str path;
};

struct linter {
    struct str text;
    const struct cel_node *root;
    void (*each)(void *context, const struct cel_remark *remark);
    void *context;
    uint64_t chosen, asked, json; /* locals, by slot */
    struct lint_bound bounds[LINT_BOUNDS];
    size_t bound_count;
    struct lint_told told[LINT_TOLD];
    size_t told_count;
    bool knows_members, reads_env, reads_redirects; /* lint_shell.c */
};

struct lint_excerpt {
    char text[LINT_EXCERPT + 4];
};

/* lint_node.c */
/* The node as it is written, on one line and cut. */
struct lint_excerpt lint_excerpt_of(const struct linter *l, const struct cel_node *n);

struct cel_remark lint_remark_at(const struct linter *l, enum cel_remark_kind kind,
                                 uint32_t offset);
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

static inline bool lint_is_variable(const struct cel_node *n, enum cel_policy_variable variable)
{
    return n->reference == REFERENCE_VARIABLE && n->slot == variable;
}

static inline bool lint_has_slot(uint64_t set, uint32_t slot)
{
    return slot < LINT_SLOTS && (set >> slot & 1) != 0;
}

/* The step of a path to children[0]: its name, or its key if that is a literal; absent: another. */
static inline struct str lint_step_of(const struct cel_node *n)
{
    if (n->kind == NODE_SELECT || n->kind == NODE_HAS) return n->name;
    const struct cel_node *key = n->children[1];
    return lint_is_text(key) ? str_of(key->value.bytes, key->value.size) : (struct str){0};
}

static inline bool lint_is_step(const struct cel_node *n)
{
    return n->kind == NODE_SELECT || n->kind == NODE_HAS ||
           (lint_is_call(n, FUNCTION_INDEX) && n->count == 2);
}

/* A path into args, context or resource, which the requester chooses. */
bool lint_is_asked(const struct linter *l, const struct cel_node *n);

/* lint_asked.c: one test of a condition; `negated`: the condition is true if the test is false. */
void lint_asked(struct linter *l, const struct cel_node *test, bool negated);
/* lint_shell.c: one macro over a list; `negated` as above. */
void lint_shell(struct linter *l, const struct cel_node *macro, bool negated);
/* lint_values.c: constants that the other operand never has, or that mean something else. */
void lint_values(struct linter *l, const struct cel_node *root);

#endif
