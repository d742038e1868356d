/* lint.c - see lint.h. Four walks over the typed tree; three checks are in files of their own.
 *
 * The walk of tests goes down the boolean parts of the condition, and tracks at each part whether
 * the number of negations above it is odd. Only there can a missing value make the whole true.
 * Order comparisons are no such tests: !(args.n > 5) needs an n just as args.n <= 5 does.
 *
 * Variables of macros and binds count as the values that they iterate over: `chosen` has the slots
 * with values that an agent chose, `asked` also those with parts of the resource, `json` those
 * with any part of the request. */
#include <stdarg.h>
#include <stdio.h>

#include "cel/check.h"
#include "cel/compile.h"
#include "cel/linter.h"
#include "cel/parse.h"

enum { SCRATCH_FIRST = 32 << 10, SCRATCH_MOST = 32 << 20 };

/* ---- remarks ---- */

#define tell(l, kind, at, ...) lint_tell(l, kind, false, at, __VA_ARGS__)

/* ---- kinds of nodes ---- */

static bool is_literal_bool(const struct cel_node *n, bool value)
{
    return n->kind == NODE_LITERAL && n->value.kind == CEL_BOOL && n->value.boolean == value;
}

/* A path into args or context, or into the commands of such a text. */
static bool is_chosen(const struct linter *l, const struct cel_node *n)
{
    if (n->kind == NODE_NAME && n->reference == REFERENCE_LOCAL)
        return lint_has_slot(l->chosen, n->slot);
    if (n->kind == NODE_NAME)
        return lint_is_variable(n, CEL_ARGS) || lint_is_variable(n, CEL_CONTEXT);
    if (lint_is_call(n, FUNCTION_SHELL)) return is_chosen(l, n->children[0]);
    if (!lint_is_step(n)) return false;
    const struct cel_node *of = n->children[0];
    if (of->kind != NODE_NAME || !lint_is_variable(of, CEL_REQUEST)) return is_chosen(l, of);
    struct str step = lint_step_of(n);
    return str_equal(step, STR("args")) || str_equal(step, STR("context"));
}

/* A path into any part of the request that is JSON. */
static bool is_json(const struct linter *l, const struct cel_node *n)
{
    if (n->kind == NODE_NAME && n->reference == REFERENCE_LOCAL)
        return lint_has_slot(l->json, n->slot);
    if (n->kind == NODE_NAME)
        return lint_is_variable(n, CEL_ARGS) || lint_is_variable(n, CEL_CONTEXT) ||
               lint_is_variable(n, CEL_RESOURCE) || lint_is_variable(n, CEL_REQUEST);
    return n->kind != NODE_HAS && lint_is_step(n) && is_json(l, n->children[0]);
}

static bool has_chosen(const struct linter *l, const struct cel_node *n)
{
    if (is_chosen(l, n)) return true;
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] != NULL && has_chosen(l, n->children[i])) return true;
    return false;
}

/* The locals of a macro or a bind stand for (parts of) children[0]. */
static void note_locals(struct linter *l, const struct cel_node *n)
{
    bool chosen = is_chosen(l, n->children[0]), asked = lint_is_asked(l, n->children[0]),
         json = is_json(l, n->children[0]);
    for (uint32_t slot = n->slot; slot < n->slot + 2 && slot < LINT_SLOTS; slot++) {
        uint64_t bit = UINT64_C(1) << slot;
        l->chosen = chosen ? l->chosen | bit : l->chosen & ~bit;
        l->asked = asked ? l->asked | bit : l->asked & ~bit;
        l->json = json ? l->json | bit : l->json & ~bit;
    }
}

/* ---- negated tests ---- */

static void walk_test(struct linter *l, const struct cel_node *n, bool negated);

static void tell_absent(struct linter *l, const struct cel_node *n)
{
    tell(
        l, CEL_REMARK_NEGATION, n,
        "%s is negated: it permits what leaves that out, and an agent chooses its args and context",
        lint_excerpt_of(l, n).text);
}

static void tell_negated(struct linter *l, const struct cel_node *n, bool by_operator)
{
    tell(l, CEL_REMARK_NEGATION, n,
         "%s is %s: an agent chooses its args and context and can write anything else; say what it "
         "has to be",
         lint_excerpt_of(l, n).text, by_operator ? "a negated test" : "negated");
}

/* `test == false` is !test. A path beside a literal is a comparison, which needs the value. */
static bool walk_bool_comparison(struct linter *l, const struct cel_node *n, bool negated)
{
    for (uint32_t i = 0; i < 2; i++) {
        const struct cel_node *literal = n->children[i], *test = n->children[1 - i];
        bool is_false = is_literal_bool(literal, false);
        if (!is_false && !is_literal_bool(literal, true)) continue;
        if (test->kind != NODE_HAS && lint_is_asked(l, test)) return false;
        walk_test(l, test, negated ^ is_false ^ lint_is_call(n, FUNCTION_UNEQUAL));
        return true;
    }
    return false;
}

/* path_under(root, path) != "": the path is below the root, or the call fails. */
static bool is_path_test(const struct cel_node *n)
{
    for (uint32_t i = 0; i < n->count; i++)
        if (lint_is_call(n->children[i], FUNCTION_PATH_UNDER)) return n->count == 2;
    return false;
}

static void walk_call(struct linter *l, const struct cel_node *n, bool negated)
{
    if (lint_is_call(n, FUNCTION_NOT)) {
        walk_test(l, n->children[0], !negated);
        return;
    }
    bool unequal = lint_is_call(n, FUNCTION_UNEQUAL), equal = lint_is_call(n, FUNCTION_EQUAL);
    if ((unequal || equal) && walk_bool_comparison(l, n, negated)) return;
    lint_asked(l, n, negated != unequal);
    bool is_order = lint_is_call(n, FUNCTION_LESS) || lint_is_call(n, FUNCTION_LESS_EQUAL) ||
                    lint_is_call(n, FUNCTION_GREATER) || lint_is_call(n, FUNCTION_GREATER_EQUAL);
    if (is_order || negated == unequal || !has_chosen(l, n) || is_path_test(n)) return;
    if (lint_is_call(n, FUNCTION_IN) && is_chosen(l, n->children[1]) &&
        !has_chosen(l, n->children[0]))
        tell_absent(l, n);
    else
        tell_negated(l, n, unequal);
}

/* The part before `?` also permits by being false, if the third part can be true. */
static void walk_choice(struct linter *l, const struct cel_node *n, bool negated)
{
    const struct cel_node *yes = n->children[1], *no = n->children[2];
    if (!is_literal_bool(no, negated))
        walk_test(l, n->children[0], true);
    else if (!is_literal_bool(yes, negated))
        walk_test(l, n->children[0], false);
    walk_test(l, yes, negated);
    walk_test(l, no, negated);
}

static void walk_test(struct linter *l, const struct cel_node *n, bool negated)
{
    switch ((enum cel_node_kind)n->kind) {
    case NODE_AND:
    case NODE_OR:
        walk_test(l, n->children[0], negated);
        walk_test(l, n->children[1], negated);
        return;
    case NODE_CHOICE: walk_choice(l, n, negated); return;
    case NODE_HAS:
        if (negated && is_chosen(l, n)) tell_absent(l, n);
        return;
    case NODE_NAME:
    case NODE_SELECT:
        if (negated && is_chosen(l, n)) tell_negated(l, n, false);
        return;
    case NODE_CALL: walk_call(l, n, negated); return;
    case NODE_MACRO:
        lint_shell(l, n, negated);
        note_locals(l, n);
        if (n->macro == MACRO_ALL || n->macro == MACRO_EXISTS || n->macro == MACRO_ONE)
            walk_test(l, n->children[1], negated);
        return;
    case NODE_BIND:
        note_locals(l, n);
        walk_test(l, n->children[1], negated);
        return;
    default: return;
    }
}

/* ---- arithmetic ---- */

static bool is_arithmetic(const struct cel_node *n)
{
    return n->kind == NODE_CALL && n->count == 2 &&
           n->function <= FUNCTION_MODULUS; /* ADD is the first */
}

static bool is_int(const struct cel_node *n)
{
    return n->type != NULL && (n->type->tag == CEL_INT || n->type->tag == CEL_UINT);
}

/* A number of the request, or the result of arithmetic with doubles: a double, unless the run
 * failed before. */
static bool is_json_number(const struct linter *l, const struct cel_node *n)
{
    if (lint_is_call(n, FUNCTION_NEGATE)) return is_json_number(l, n->children[0]);
    if (is_arithmetic(n))
        return is_json_number(l, n->children[0]) || is_json_number(l, n->children[1]);
    return is_json(l, n);
}

static void tell_arithmetic(struct linter *l, const struct cel_node *n, const struct cel_node *json,
                            const struct cel_node *whole)
{
    struct lint_excerpt all = lint_excerpt_of(l, n), other = lint_excerpt_of(l, whole);
    if (lint_is_call(n, FUNCTION_MODULUS))
        tell(l, CEL_REMARK_ARITHMETIC, n,
             "%s always fails: a number of JSON is a double, which has no %%; write int(%s)",
             all.text, lint_excerpt_of(l, json).text);
    else if (whole->kind == NODE_LITERAL && whole->value.kind == CEL_INT)
        tell(l, CEL_REMARK_ARITHMETIC, n,
             "%s always fails: a number of JSON is a double, and %s is an int; write %s.0",
             all.text, other.text, other.text);
    else
        tell(l, CEL_REMARK_ARITHMETIC, n,
             "%s always fails: a number of JSON is a double, and %s is none; write double(%s)",
             all.text, other.text, other.text);
}

static void walk_arithmetic(struct linter *l, const struct cel_node *n)
{
    if (n->kind == NODE_MACRO || n->kind == NODE_BIND) note_locals(l, n);
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] != NULL) walk_arithmetic(l, n->children[i]);
    if (!is_arithmetic(n)) return;
    for (uint32_t i = 0; i < 2; i++) {
        const struct cel_node *json = n->children[i], *whole = n->children[1 - i];
        /* The remark about a combined operand was made at that operand. */
        if (!is_json_number(l, json) || !is_int(whole) || is_json_number(l, whole)) continue;
        tell_arithmetic(l, n, json, whole);
        return;
    }
}

/* ---- conditions that are never true ---- */

static bool number_of(const struct cel_node *n, double *ret)
{
    if (n->kind != NODE_LITERAL) return false;
    switch (n->value.kind) {
    case CEL_INT: *ret = (double)n->value.integer; return true;
    case CEL_UINT: *ret = (double)n->value.natural; return true;
    case CEL_DOUBLE: *ret = n->value.number; return true;
    default: return false;
    }
}

static struct lint_bound *bound_of(struct linter *l, const struct cel_node *path)
{
    struct str written = str_of(l->text.bytes + path->offset, path->end - path->offset);
    for (size_t i = 0; i < l->bound_count; i++)
        if (str_equal(l->bounds[i].path, written)) return &l->bounds[i];
    if (l->bound_count == LINT_BOUNDS) return NULL;
    l->bounds[l->bound_count] =
        (struct lint_bound){.path = written, .low = -__builtin_inf(), .high = __builtin_inf()};
    return &l->bounds[l->bound_count++];
}

static void raise_low(struct lint_bound *b, double number, bool above)
{
    if (number < b->low || (number <= b->low && b->above)) return;
    b->low = number;
    b->above = above;
}

static void lower_high(struct lint_bound *b, double number, bool below)
{
    if (number > b->high || (number >= b->high && b->below)) return;
    b->high = number;
    b->below = below;
}

/* Adds a demand on a number; makes a remark if no number is left. Functions are pure, so equal
 * texts have equal values. */
static void narrow(struct linter *l, const struct cel_node *n)
{
    double number;
    bool turned = number_of(n->children[0], &number);
    if (!turned && !number_of(n->children[1], &number)) return;
    const struct cel_node *path = n->children[turned ? 1 : 0];
    if (path->kind == NODE_LITERAL) return;
    struct lint_bound *b = bound_of(l, path);
    if (b == NULL) return;
    enum cel_function_id id = (enum cel_function_id)n->function;
    bool strict = id == FUNCTION_LESS || id == FUNCTION_GREATER, equal = id == FUNCTION_EQUAL;
    bool less = id == FUNCTION_LESS || id == FUNCTION_LESS_EQUAL;
    if (equal || less == turned) raise_low(b, number, strict);
    if (equal || less != turned) lower_high(b, number, strict);
    if (b->low < b->high || (b->low <= b->high && !b->above && !b->below)) return;
    tell(l, CEL_REMARK_NEVER, n, "can never be true: nothing that %s can be is left by %s",
         lint_excerpt_of(l, path).text, lint_excerpt_of(l, n).text);
    *b = (struct lint_bound){.path = b->path,
                             .low = -__builtin_inf(),
                             .high = __builtin_inf()}; /* one remark is enough */
}

static void tell_demand(struct linter *l, const struct cel_node *name, struct str wanted)
{
    struct cel_remark r = lint_remark_at(l, CEL_REMARK_DEMAND, name->offset);
    r.variable = (enum cel_policy_variable)name->slot;
    r.wanted = wanted;
    l->each(l->context, &r);
}

/* The parts that must all be true. */
static void walk_demands(struct linter *l, const struct cel_node *n)
{
    if (n->kind == NODE_AND) {
        walk_demands(l, n->children[0]);
        walk_demands(l, n->children[1]);
        return;
    }
    if (n->kind != NODE_CALL || n->count != 2) return;
    if (n->function >= FUNCTION_EQUAL && n->function <= FUNCTION_GREATER_EQUAL &&
        n->function != FUNCTION_UNEQUAL)
        narrow(l, n);
    for (uint32_t i = 0; i < 2; i++) {
        const struct cel_node *name = n->children[i], *text = n->children[1 - i];
        bool fits = lint_is_call(n, FUNCTION_EQUAL) || (i == 1 && lint_is_call(n, FUNCTION_IN));
        if (!fits || name->kind != NODE_NAME || name->reference != REFERENCE_VARIABLE ||
            !lint_is_text(text))
            continue;
        tell_demand(l, name, str_of(text->value.bytes, text->value.size));
    }
}

/* ---- the whole ---- */

void cel_lint(struct str text, uint64_t *folding_left,
              void (*each)(void *context, const struct cel_remark *remark), void *context)
{
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems = {0};
    struct linter l = {.text = text, .each = each, .context = context};
    struct arena scratch;
    size_t wrong;
    if (text.size > CEL_TEXT_MAX || !str_is_utf8(text, &wrong)) return;
    arena_init(&scratch, SCRATCH_FIRST, SCRATCH_MOST);
    struct cel_node *root = cel_parse(text, false, &scratch, &problems);
    if (root != NULL) cel_check(root, text, &environment, &scratch, &problems);
    if (root != NULL && problems.count == 0 && !scratch.overflow) {
        l.root = root;
        walk_test(&l, root, false);
        walk_arithmetic(&l, root);
        walk_demands(&l, root);
        lint_values(&l, root);
        if (is_literal_bool(cel_fold(root, &scratch, folding_left),
                            false)) /* last: it changes the tree */
            tell(&l, CEL_REMARK_NEVER, root, "is always false");
    }
    arena_fini(&scratch);
}
