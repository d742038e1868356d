/* trace.c - see trace.h.
 *
 * A part is run by compiling its bytes of the text again, which parse as that node. The variables
 * of macros become variables of a larger environment, innermost first, so that the parts below an
 * element can be run in the same way. Programs and values live in a scratch arena of one trace;
 * only lines are copied out. */
#include "cel/trace.h"

#include "cel/check.h"
#include "cel/parse.h"
#include "cel/types.h"
#include "cel/value.h"

enum {
    SCRATCH_FIRST = 16 << 10,
    SCRATCH_MOST = 8 << 20,
    TERMS_MAX = 64,     /* of one chain of && or || */
    LOCALS_MAX = 8,     /* variables of macros, one inside the other */
    ELEMENTS_MAX = 200, /* elements of a list or map that are searched */
    DEPTH_MAX = 24,     /* of parts within parts */
    WRITTEN_BYTES = 160,
    VALUE_BYTES = 80,
    RUN_COST = 20000, /* of a part: a fifth of a millisecond */
};

struct tracer {
    const struct cel_tracing *given;
    struct arena scratch;
    struct str text;
    struct cel_variable *names; /* locals, innermost first, then the environment's */
    struct cel_value *values;
    size_t local_count, count; /* count: of all that are in force */
    struct str prefix;         /* "in i = {…}: " */
    struct cel_trace *trace;
};

static void explain(struct tracer *t, const struct cel_node *n, struct cel_value value,
                    unsigned depth);

/* ---- running parts ---- */

static const struct cel_variable *names_in_force(const struct tracer *t)
{
    return t->names + (LOCALS_MAX - t->local_count);
}

static struct str written(const struct tracer *t, const struct cel_node *n)
{
    bool sane = n->offset < n->end && n->end <= t->text.size;
    return sane ? str_of(t->text.bytes + n->offset, n->end - n->offset) : STR("");
}

/* A program of a part; NULL: there is no room or no run left. */
static struct cel_program *compile(struct tracer *t, const struct cel_node *n)
{
    struct cel_environment environment = t->given->environment;
    struct cel_problems problems = {0};
    struct cel_program *program;
    environment.variables = names_in_force(t);
    environment.count = t->count;
    environment.wants = NULL;
    if (*t->given->runs_left == 0) return NULL;
    --*t->given->runs_left;
    enum err err = cel_compile(written(t, n), &environment, &t->scratch, &program, &problems);
    return err == ERR_OK ? program : NULL;
}

/* A limit that only this run has reached did not decide. */
static bool run_program(struct tracer *t, const struct cel_program *program, struct cel_value *ret)
{
    const struct cel_limits limits = {.cost = RUN_COST};
    cel_run(program, t->values + (LOCALS_MAX - t->local_count), &t->scratch, &limits, ret);
    return !t->scratch.overflow && !cel_is_limit(*ret);
}

/* The value of a part, or its error; false: it could not be run. */
static bool run(struct tracer *t, const struct cel_node *n, struct cel_value *ret)
{
    struct cel_program *program = compile(t, n);
    bool ran = program != NULL && run_program(t, program, ret);
    cel_program_fini(program);
    return ran;
}

/* ---- hidden values ---- */

static bool is_variable(const struct cel_node *n)
{
    return n->kind == NODE_NAME && n->reference == REFERENCE_VARIABLE;
}

static bool is_step(const struct cel_node *n)
{
    return n->kind == NODE_SELECT || (n->kind == NODE_CALL && n->function == FUNCTION_INDEX);
}

/* The key of one step, in `text` if it is a number; absent: known only at run time. */
static struct str step_key(const struct cel_node *n, char text[24])
{
    if (n->kind == NODE_SELECT) return n->name;
    const struct cel_node *key = n->children[1];
    if (key->kind != NODE_LITERAL) return (struct str){0};
    if (key->value.kind == CEL_STRING) return cel_text(key->value);
    if (key->value.kind != CEL_INT || key->value.integer < 0) return (struct str){0};
    struct buf out = buf_over(text, 24);
    buf_put_u64(&out, (uint64_t)key->value.integer);
    return buf_view(&out);
}

/* Whether the chain of steps down to a variable of the environment, or its content, is hidden. */
static bool path_is_hidden(const struct tracer *t, const struct cel_node *n, size_t steps)
{
    struct str segments[CEL_TRACE_SEGMENTS];
    char numbers[CEL_TRACE_SEGMENTS][24];
    size_t at = steps;
    const struct cel_node *root = n;
    for (; is_step(root); root = root->children[0], at--)
        if (at < CEL_TRACE_SEGMENTS) segments[at] = step_key(root, numbers[at]);
    segments[0] = root->name;
    size_t count = steps + 1 < CEL_TRACE_SEGMENTS ? steps + 1 : CEL_TRACE_SEGMENTS;
    return t->given->hidden(t->given->context, segments, count);
}

/* Elements of macros are shown only if the whole range may be shown, so a variable of a macro is
 * never hidden by itself. has() shows no value, but a failure has the text of a computed key, like
 * every failure on the path. */
static bool is_hidden(const struct tracer *t, const struct cel_node *n)
{
    if (t->given->hidden == NULL) return false;
    bool shows_value = n->kind != NODE_HAS;
    if (!shows_value) n = n->children[0];
    size_t steps = 0;
    const struct cel_node *root = n;
    for (; is_step(root); root = root->children[0]) steps++;
    if (is_variable(root)) {
        if (shows_value && path_is_hidden(t, n, steps)) return true;
        for (const struct cel_node *i = n; is_step(i); i = i->children[0])
            if (i->kind == NODE_CALL && is_hidden(t, i->children[1])) return true;
        return false;
    }
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] != NULL && is_hidden(t, n->children[i])) return true;
    return false;
}

static bool reads_something(const struct cel_node *n)
{
    if (n->kind == NODE_NAME)
        return n->reference == REFERENCE_VARIABLE || n->reference == REFERENCE_LOCAL;
    for (uint32_t i = 0; i < n->count; i++)
        if (n->children[i] != NULL && reads_something(n->children[i])) return true;
    return false;
}

/* ---- lines ---- */

/* On one line, cut if it is long. */
static void put_cut(struct buf *out, struct str text, size_t most)
{
    bool cut = text.size > most;
    text = str_cut(text, most);
    for (size_t i = 0; i < text.size; i++)
        buf_put_byte(out, (unsigned char)text.bytes[i] < ' ' ? ' ' : text.bytes[i]);
    if (cut) buf_put_literal(out, "…");
}

static void put_error(struct buf *out, struct cel_value error, bool hidden)
{
    error.size = 0; /* its position is in the part, not in the author's text */
    if (hidden) {
        error.texts = NULL;
        error.kinds = 0;
    }
    cel_put_error(out, error);
}

/* As JSON, like the request; in CEL's syntax if the type matters. */
static void put_value(struct tracer *t, struct buf *out, struct cel_value v, bool as_cel)
{
    char bytes[4096];
    struct buf whole = buf_over(bytes, sizeof bytes);
    struct json *json;
    if (!as_cel && cel_to_json(v, 16, &t->scratch, &json) == ERR_OK)
        json_put_canonical(&whole, json);
    else
        cel_put_value(&whole, v);
    put_cut(out, whole.overflow ? STR("…") : buf_view(&whole), VALUE_BYTES);
}

static void put_outcome(struct tracer *t, struct buf *out, const struct cel_node *n,
                        struct cel_value v)
{
    bool hidden = is_hidden(t, n), is_path = is_step(n) || n->kind == NODE_NAME;
    if (v.kind == CEL_ERROR)
        put_error(out, v, hidden);
    else if (hidden && (is_path || v.kind != CEL_BOOL))
        buf_put_literal(out, "[masked]");
    else
        put_value(t, out, v, false);
}

/* A call with the values of its operands in their positions; false: that shows nothing new. */
static bool put_filled(struct tracer *t, struct buf *out, const struct cel_node *n, bool as_cel)
{
    uint32_t at = n->offset;
    bool any = false;
    if (n->kind != NODE_CALL || is_step(n)) return false;
    for (uint32_t i = 0; i < n->count; i++) {
        const struct cel_node *operand = n->children[i];
        struct cel_value v;
        if (operand->from < at || !reads_something(operand)) continue;
        bool hidden = is_hidden(t, operand);
        if (!hidden && (!run(t, operand, &v) || v.kind == CEL_ERROR)) continue;
        put_cut(out, str_of(t->text.bytes + at, operand->from - at), WRITTEN_BYTES);
        if (hidden)
            buf_put_literal(out, "[masked]");
        else
            put_value(t, out, v, as_cel);
        at = operand->to;
        any = true;
    }
    put_cut(out, str_of(t->text.bytes + at, n->end - at), WRITTEN_BYTES);
    return any;
}

static void add_line(struct tracer *t, struct str line)
{
    struct cel_trace *trace = t->trace;
    if (trace->count == CEL_TRACE_LINES) {
        trace->more++;
        return;
    }
    struct str copy = arena_copy(t->given->arena, line);
    if (!str_is_absent(copy)) trace->lines[trace->count++] = copy;
}

/* "args.amount > 500 → 620 > 500 → true" */
static void tell(struct tracer *t, const struct cel_node *n, struct cel_value value)
{
    char bytes[2048], filled[1024];
    struct buf line = buf_over(bytes, sizeof bytes), middle = buf_over(filled, sizeof filled);
    bool is_of_types = value.kind == CEL_ERROR && value.form == CEL_FAULT_OVERLOAD;
    buf_put(&line, t->prefix);
    put_cut(&line, written(t, n), WRITTEN_BYTES);
    if (put_filled(t, &middle, n, is_of_types) && !middle.overflow) {
        buf_put_literal(&line, " → ");
        buf_put(&line, buf_view(&middle));
    }
    buf_put_literal(&line, " → ");
    put_outcome(t, &line, n, value);
    if (!line.overflow) add_line(t, buf_view(&line));
}

/* ---- the parts that decided ---- */

static void chain_terms(const struct cel_node *n, uint8_t kind, const struct cel_node **terms,
                        size_t *count)
{
    for (uint32_t i = 0; i < n->count && *count < TERMS_MAX; i++) {
        if (n->children[i]->kind == kind)
            chain_terms(n->children[i], kind, terms, count);
        else
            terms[(*count)++] = n->children[i];
    }
}

/* The first side that decides is the reason, even if another side failed. Otherwise all sides are,
 * or the first that is neither true nor false. */
static void explain_logic(struct tracer *t, const struct cel_node *n, struct cel_value whole,
                          unsigned depth)
{
    const struct cel_node *terms[TERMS_MAX];
    struct cel_value values[TERMS_MAX];
    bool decides = n->kind == NODE_OR;
    bool is_decided = whole.kind == CEL_BOOL && whole.boolean == decides;
    size_t count = 0;
    chain_terms(n, n->kind, terms, &count);
    for (size_t i = 0; i < count; i++) {
        if (!run(t, terms[i], &values[i])) return;
        bool is_bool = values[i].kind == CEL_BOOL;
        if (is_decided ? is_bool && values[i].boolean == decides : !is_bool) {
            explain(t, terms[i], values[i], depth + 1);
            return;
        }
    }
    for (size_t i = 0; i < count; i++) explain(t, terms[i], values[i], depth + 1);
}

static void explain_choice(struct tracer *t, const struct cel_node *n, unsigned depth)
{
    struct cel_value test, taken;
    if (!run(t, n->children[0], &test)) return;
    explain(t, n->children[0], test, depth + 1);
    if (test.kind != CEL_BOOL) return;
    const struct cel_node *side = n->children[test.boolean ? 1 : 2];
    if (run(t, side, &taken)) explain(t, side, taken, depth + 1);
}

/* Adds a variable before the present ones. */
static struct cel_value *local_add(struct tracer *t, struct str name)
{
    t->local_count++;
    t->count++;
    size_t at = LOCALS_MAX - t->local_count;
    t->names[at] = (struct cel_variable){.name = name, .type = cel_type_simple(TYPE_DYN)};
    return &t->values[at];
}

static struct str element_prefix(struct tracer *t, const struct cel_node *n,
                                 const struct cel_value *values)
{
    char bytes[512];
    struct buf out = buf_over(bytes, sizeof bytes);
    buf_put(&out, t->prefix);
    for (size_t i = 0; i < 2 && !str_is_absent(n->names[i]); i++) {
        buf_put(&out, i == 0 ? STR("with ") : STR(", "));
        buf_put(&out, n->names[i]);
        buf_put_literal(&out, " = ");
        put_value(t, &out, values[i], false);
    }
    buf_put_literal(&out, ": ");
    struct str copy = out.overflow ? STR("") : arena_copy(&t->scratch, buf_view(&out));
    return str_is_absent(copy) ? STR("") : copy;
}

/* Finds the element that decided; true: a line was added. */
static bool explain_elements(struct tracer *t, const struct cel_node *n, struct cel_value range,
                             bool wanted, unsigned depth)
{
    struct cel_walk walk = cel_walk_start(range);
    struct cel_value key, value, result, *second = NULL;
    bool has_two = !str_is_absent(n->names[1]), settled = false;
    struct str prefix = t->prefix;
    if (has_two) second = local_add(t, n->names[1]);
    struct cel_value *first = local_add(t, n->names[0]);
    struct cel_program *body = compile(t, n->children[1]);
    for (size_t i = 0; body != NULL && i < ELEMENTS_MAX && !settled; i++) {
        if (*t->given->runs_left == 0 || !cel_walk_next(&walk, &key, &value)) break;
        --*t->given->runs_left;
        *first = has_two || range.kind == CEL_MAP ? key : value;
        if (has_two) *second = value;
        if (!run_program(t, body, &result)) break;
        settled = result.kind == CEL_BOOL && result.boolean == wanted;
        if (!settled) continue;
        t->prefix = element_prefix(t, n, (struct cel_value[]){*first, value});
        explain(t, n->children[1], result, depth + 1);
    }
    cel_program_fini(body);
    t->local_count -= has_two ? 2 : 1;
    t->count -= has_two ? 2 : 1;
    t->prefix = prefix;
    return settled;
}

static bool explain_macro(struct tracer *t, const struct cel_node *n, struct cel_value whole,
                          unsigned depth)
{
    struct cel_value range;
    bool settled_by_one = whole.kind == CEL_BOOL && ((n->macro == MACRO_ALL && !whole.boolean) ||
                                                     (n->macro == MACRO_EXISTS && whole.boolean));
    if (!settled_by_one || t->local_count + 2 > LOCALS_MAX || is_hidden(t, n->children[0]))
        return false;
    if (!run(t, n->children[0], &range) || (range.kind != CEL_LIST && range.kind != CEL_MAP))
        return false;
    return explain_elements(t, n, range, whole.boolean, depth);
}

/* For a call that failed: the operand that is more than a path and failed itself. True: a line was
 * added. */
static bool explain_failure(struct tracer *t, const struct cel_node *n, unsigned depth)
{
    struct cel_value inner;
    for (uint32_t i = 0; i < n->count; i++) {
        const struct cel_node *operand = n->children[i];
        bool is_path = is_step(operand) || operand->kind == NODE_NAME;
        if (is_path || !reads_something(operand) || !run(t, operand, &inner)) continue;
        if (inner.kind != CEL_ERROR) continue;
        explain(t, operand, inner, depth + 1);
        return true;
    }
    return false;
}

static void explain(struct tracer *t, const struct cel_node *n, struct cel_value value,
                    unsigned depth)
{
    struct cel_value inner;
    size_t before = t->trace->count;
    bool told = false;
    if (depth < DEPTH_MAX) {
        switch ((enum cel_node_kind)n->kind) {
        case NODE_AND:
        case NODE_OR:
            explain_logic(t, n, value, depth);
            told = t->trace->count > before || t->trace->more > 0;
            break;
        case NODE_CHOICE:
            explain_choice(t, n, depth);
            told = t->trace->count > before || t->trace->more > 0;
            break;
        case NODE_MACRO: told = explain_macro(t, n, value, depth); break;
        case NODE_CALL:
            if (n->function != FUNCTION_NOT) {
                told = value.kind == CEL_ERROR && explain_failure(t, n, depth);
                break;
            }
            if (!run(t, n->children[0], &inner)) break;
            explain(t, n->children[0], inner, depth + 1);
            told = t->trace->count > before || t->trace->more > 0;
            break;
        default: break;
        }
    }
    if (!told) tell(t, n, value);
}

/* ---- life ---- */

static bool tracer_init(struct tracer *t, const struct cel_tracing *given, struct str text)
{
    size_t count = given->environment.count;
    *t = (struct tracer){.given = given, .text = text, .prefix = STR(""), .count = count};
    arena_init(&t->scratch, SCRATCH_FIRST, SCRATCH_MOST);
    t->names = arena_array(&t->scratch, struct cel_variable, LOCALS_MAX + count);
    t->values = arena_array(&t->scratch, struct cel_value, LOCALS_MAX + count);
    if (t->names == NULL || t->values == NULL) return false;
    memcpy(t->names + LOCALS_MAX, given->environment.variables, count * sizeof *t->names);
    if (given->variables != NULL)
        memcpy(t->values + LOCALS_MAX, given->variables, count * sizeof *t->values);
    return true;
}

static struct cel_node *read_tree(struct tracer *t)
{
    struct cel_problems problems = {0};
    if (t->text.size > CEL_TEXT_MAX) return NULL;
    struct cel_node *root = cel_parse(t->text, false, &t->scratch, &problems);
    if (root == NULL) return NULL;
    struct cel_environment environment = t->given->environment;
    environment.wants = NULL;
    cel_check(root, t->text, &environment, &t->scratch, &problems);
    return problems.count > 0 || t->scratch.overflow ? NULL : root;
}

/* If the only line is about the whole text, the text is not repeated before it. */
static bool is_one_part(const struct cel_node *root)
{
    return root->kind != NODE_AND && root->kind != NODE_OR && root->kind != NODE_CHOICE &&
           root->kind != NODE_MACRO && !(root->kind == NODE_CALL && root->function == FUNCTION_NOT);
}

bool cel_trace(const struct cel_tracing *given, struct str text, struct cel_trace *ret)
{
    struct tracer t;
    struct cel_value value;
    *ret = (struct cel_trace){0};
    struct cel_node *root = tracer_init(&t, given, text) ? read_tree(&t) : NULL;
    t.trace = ret;
    if (root != NULL && run(&t, root, &value)) {
        explain(&t, root, value, 0);
        ret->is_whole = is_one_part(root);
    }
    arena_fini(&t.scratch);
    return ret->count > 0;
}

bool cel_reads_hidden(const struct cel_tracing *given, struct str text)
{
    struct tracer t;
    struct cel_node *root = tracer_init(&t, given, text) ? read_tree(&t) : NULL;
    bool hidden = root == NULL || is_hidden(&t, root);
    arena_fini(&t.scratch);
    return hidden;
}
