/* program.c - the public functions: text to program, and texts of programs and errors. */
#include "cel/cel.h"

#include "cel/check.h"
#include "cel/code.h"
#include "cel/compile.h"
#include "cel/parse.h"

enum { SCRATCH_FIRST = 32 << 10, SCRATCH_MOST = 32 << 20 };

/* ---- environments ---- */

struct cel_environment cel_policy_environment(void)
{
    static const struct cel_type dyn = {.tag = TYPE_DYN}, string = {.tag = CEL_STRING},
                                 now = {.tag = CEL_TIMESTAMP};
    static const struct cel_type object = {.tag = CEL_MAP, .first = &string, .second = &dyn};
    static const struct cel_type strings = {.tag = CEL_LIST, .first = &string};
    static const struct cel_variable variables[CEL_POLICY_VARIABLES] = {
        [CEL_ACTION] = {{"action", 6}, &string},
        [CEL_TOOL] = {{"tool", 4}, &string},
        [CEL_ARGS] = {{"args", 4}, &object},
        [CEL_RESOURCE] = {{"resource", 8}, &object},
        [CEL_CONTEXT] = {{"context", 7}, &object},
        [CEL_REQUEST] = {{"request", 7}, &object},
        [CEL_ACTOR] = {{"actor", 5}, &string},
        [CEL_USER] = {{"user", 4}, &string},
        [CEL_ACTING_FOR] = {{"acting_for", 10}, &string},
        [CEL_TENANT] = {{"tenant", 6}, &string},
        [CEL_SCOPE] = {{"scope", 5}, &strings},
        [CEL_ROLES] = {{"roles", 5}, &strings},
        [CEL_NOW] = {{"now", 3}, &now},
    };
    return (struct cel_environment){.variables = variables, .count = CEL_POLICY_VARIABLES};
}

/* ---- compiling ---- */

/* The checked tree, or NULL with problems, or NULL with a full arena. */
static struct cel_node *read_tree(struct str text, const struct cel_environment *environment,
                                  struct arena *scratch, struct cel_problems *problems)
{
    size_t wrong;
    if (text.size > CEL_TEXT_MAX) {
        cel_problem_add(problems, str_of(text.bytes, 0), 0,
                        "the expression is longer than %d bytes", CEL_TEXT_MAX);
        return NULL;
    }
    if (!str_is_utf8(text, &wrong)) {
        cel_problem_add(problems, text, (uint32_t)wrong, "the expression is not UTF-8");
        return NULL;
    }
    struct cel_node *root = cel_parse(text, environment->is_strict, scratch, problems);
    if (root == NULL) return NULL;
    cel_check(root, text, environment, scratch, problems);
    return problems->count > 0 || scratch->overflow ? NULL : root;
}

static enum err why_not(const struct cel_problems *problems)
{
    return problems->count > 0 ? ERR_INVALID_POLICY : ERR_FULL;
}

enum err cel_compile(struct str text, const struct cel_environment *environment,
                     struct arena *arena, struct cel_program **ret,
                     struct cel_problems *ret_problems)
{
    struct arena scratch;
    ret_problems->count = 0;
    arena_init(&scratch, SCRATCH_FIRST, SCRATCH_MOST);
    struct cel_node *root = read_tree(text, environment, &scratch, ret_problems);
    enum err e = why_not(ret_problems);
    if (root != NULL) {
        struct cel_compilation c = {text, environment, &scratch, arena, ret_problems, root->type};
        uint64_t unbounded = UINT64_MAX;
        uint64_t *left = environment->room == NULL ? &unbounded : &environment->room->folding_left;
        e = cel_compile_tree(&c, cel_fold(root, &scratch, left), ret);
    }
    cel_problems_sort(ret_problems);
    arena_fini(&scratch);
    return e;
}

enum err cel_examine(struct str text, const struct cel_environment *environment,
                     struct cel_problems *ret_problems)
{
    struct arena scratch;
    ret_problems->count = 0;
    arena_init(&scratch, SCRATCH_FIRST, SCRATCH_MOST);
    struct cel_node *root = read_tree(text, environment, &scratch, ret_problems);
    enum err e = root != NULL ? ERR_OK : why_not(ret_problems);
    cel_problems_sort(ret_problems);
    arena_fini(&scratch);
    return e;
}

void cel_program_fini(struct cel_program *program)
{
    if (program == NULL) return;
    for (uint32_t i = 0; i < program->regex_count; i++) cel_regex_destroy(program->regexes[i]);
    program->regex_count = 0;
}

const struct cel_type *cel_program_type(const struct cel_program *program) { return program->type; }

bool cel_program_reads(const struct cel_program *program, size_t variable)
{
    return (program->reads >> (variable < 63 ? variable : 63) & 1) != 0;
}

bool cel_program_looks_up(const struct cel_program *program)
{
    for (uint32_t i = 0; i < program->count; i++)
        if (program->code[i].op == OP_CALL && program->code[i].b == FUNCTION_INDEX) return true;
    return false;
}

enum err cel_put_tree(struct buf *out, struct str text, const struct cel_environment *environment,
                      struct cel_problems *ret_problems)
{
    struct arena scratch;
    ret_problems->count = 0;
    arena_init(&scratch, SCRATCH_FIRST, SCRATCH_MOST);
    struct cel_node *root = read_tree(text, environment, &scratch, ret_problems);
    if (root != NULL) cel_node_put(out, root, 0);
    cel_problems_sort(ret_problems);
    arena_fini(&scratch);
    return root != NULL ? ERR_OK : why_not(ret_problems);
}

/* ---- for people ---- */

static const char *op_name(enum cel_op op)
{
    static const char *const names[OPS] = {
#define OP(name, depth) [OP_##name] = #name,
        CEL_OPS(OP)
#undef OP
    };
    return names[op];
}

static bool has_constant(enum cel_op op)
{
    return op == OP_CONST || op == OP_SELECT || op == OP_VARIABLE_SELECT || op == OP_LOCAL_SELECT ||
           op == OP_HAS || op == OP_VARIABLE_HAS || op == OP_COMPARE_CONST ||
           op == OP_EQUAL_CONST || op == OP_IN_CONST || op == OP_IN_SET;
}

static void put_mask(struct buf *out, unsigned mask)
{
    static const char *const names[8] = {"", "<", "==", "<=", ">", "!=", ">=", ""};
    buf_printf(out, " %s", names[mask & 7]);
}

static void put_operands(struct buf *out, const struct cel_program *p,
                         const struct cel_instruction *i)
{
    switch ((enum cel_op)i->op) {
    case OP_CALL: buf_printf(out, " %.*s/%u", STR_FORMAT(cel_functions[i->b].name), i->a); break;
    case OP_COMPARE:
    case OP_COMPARE_CONST: put_mask(out, i->a); break;
    case OP_EQUAL:
    case OP_EQUAL_CONST: buf_printf(out, " %s", i->a ? "!=" : "=="); break;
    case OP_VARIABLE:
    case OP_LOCAL:
    case OP_STORE:
    case OP_LIST:
    case OP_MAP: buf_printf(out, " %u", i->c); break;
    case OP_VARIABLE_SELECT:
    case OP_VARIABLE_HAS:
    case OP_LOCAL_SELECT:
    case OP_LIST_DONE:
    case OP_MAP_DONE:
    case OP_WALK: buf_printf(out, " %u", i->b); break;
    case OP_NEXT:
    case OP_APPEND:
    case OP_APPEND_PAIR: buf_printf(out, " %u ->%u", i->b, i->c); break;
    case OP_JUMP:
    case OP_BRANCH:
    case OP_AND_TEST:
    case OP_OR_TEST:
    case OP_ALL_STEP:
    case OP_EXISTS_STEP:
    case OP_ONE_STEP:
    case OP_FILTER: buf_printf(out, " ->%u", i->c); break;
    case OP_RAISE: buf_printf(out, " %u", i->a); break;
    default: break;
    }
    if (has_constant(i->op) || (i->op == OP_CALL && i->c > 0)) {
        buf_put_byte(out, ' ');
        cel_put_value(out, p->constants[i->op == OP_CALL ? i->c - 1 : i->c]);
    }
}

void cel_put_code(struct buf *out, const struct cel_program *p)
{
    for (uint32_t at = 0; at < p->count; at++) {
        buf_printf(out, "%4u  %-4u %s", at, p->places[at] & 0xFFFF, op_name(p->code[at].op));
        put_operands(out, p, &p->code[at]);
        if (p->handlers[at] > 0)
            buf_printf(out, "   (error: %u)", p->handler[p->handlers[at] - 1].target);
        buf_put_byte(out, '\n');
    }
    buf_printf(out, "stack %u, locals %u, walks %u, constants %u, regular expressions %u\n",
               p->stack_max, p->local_count, p->walk_count, p->constant_count, p->regex_count);
}

void cel_put_error(struct buf *out, struct cel_value error)
{
    static const char *const sentences[] = {
        [CEL_FAULT_NONE] = "no error",
        [CEL_FAULT_OVERLOAD] = "no such overload",
        [CEL_FAULT_KEY] = "no such key",
        [CEL_FAULT_INDEX] = "index out of range",
        [CEL_FAULT_DIVIDE] = "division by zero",
        [CEL_FAULT_MODULUS] = "modulus by zero",
        [CEL_FAULT_OVERFLOW] = "overflow",
        [CEL_FAULT_RANGE] = "out of the range of the type",
        [CEL_FAULT_SYNTAX] = "the text cannot be read as that",
        [CEL_FAULT_ARGUMENT] = "an argument that is not taken",
        [CEL_FAULT_DUPLICATE] = "a key is there twice",
        [CEL_FAULT_REFERENCE] = "no such variable",
        [CEL_FAULT_FUNCTION] = "no such function",
        [CEL_FAULT_ESCAPE] = "the path leaves its root",
        [CEL_FAULT_SHELL] = "no command line that all shells read alike",
        [CEL_FAULT_ORDER] = "NaN has no order",
        [CEL_FAULT_COST] = "the cost limit is reached",
        [CEL_FAULT_MEMORY] = "the memory limit is reached",
        [CEL_FAULT_DEPTH] = "the value is nested too deeply",
    };
    check(error.kind == CEL_ERROR && error.form < sizeof sentences / sizeof sentences[0]);
    buf_put(out, str_from(sentences[error.form]));
    if (error.texts != NULL) buf_printf(out, ": %.*s", STR_FORMAT(*error.texts));
    if (error.form == CEL_FAULT_OVERLOAD && error.kinds != 0) {
        buf_put_literal(out, " for (");
        for (unsigned i = 0; i < 3 && error.kinds >> (5 * i) != 0; i++) {
            if (i > 0) buf_put_literal(out, ", ");
            buf_put(out, str_from(cel_kind_name((enum cel_kind)(error.kinds >> (5 * i) & 31))));
        }
        buf_put_byte(out, ')');
    }
    if (error.size >> 16 > 1)
        buf_printf(out, " (at line %u, column %u)", error.size >> 16, error.size & 0xFFFF);
    else if (error.size > 0)
        buf_printf(out, " (at column %u)", error.size & 0xFFFF);
}
