#include "policy/condition.h"

#include "policy/evaluation.h"
#include "policy/mask.h"

/* ---- at load ---- */

/* In columns of the document, if the document has the expression exactly as it was read. */
static void complain_of(struct reader *r, const struct value *v, size_t before,
                        const struct cel_problem *p)
{
    if (p->line == 1 && v->node->text_column > 0) {
        struct node here = *v->node;
        struct value at = *v;
        here.column = here.text_column + (unsigned)before + p->column - 1;
        at.node = &here;
        reader_complain(r, &at, "%s", p->message);
    } else if (p->line > 1)
        reader_complain(r, v, "%s (at line %u, column %u of the expression)", p->message, p->line,
                        p->column);
    else
        reader_complain(r, v, "%s (at column %u of the expression)", p->message, p->column);
}

/* `before`: characters of the value before the expression. */
static const struct condition *read_condition_at(struct reader *r, const struct value *v,
                                                 size_t before, struct str text, bool wants_bool)
{
    struct cel_environment environment = cel_policy_environment();
    struct cel_problems problems = {0};
    struct condition *c = reader_take(r, sizeof *c);
    if (c == NULL) return NULL;
    environment.room = &r->room;
    if (wants_bool) environment.wants = cel_type_bool();
    enum err err = cel_compile(text, &environment, &r->document->arena, &c->program, &problems);
    for (size_t i = 0; i < problems.count; i++) complain_of(r, v, before, &problems.list[i]);
    if (err == ERR_FULL) r->full = true;
    if (err != ERR_OK) return NULL;
    c->text = text;
    c->is_in_line = v->node->text_column > 0;
    c->line = v->node->line;
    c->column = c->is_in_line ? v->node->text_column + (unsigned)before : v->node->column;
    condition_check(c);
    c->next = r->document->conditions;
    r->document->conditions = c;
    return c;
}

const struct condition *read_condition(struct reader *r, const struct value *v, struct str text,
                                       bool wants_bool)
{
    return read_condition_at(r, v, 0, text, wants_bool);
}

void conditions_fini(struct condition *all)
{
    for (struct condition *c = all; c != NULL; c = c->next) cel_program_fini(c->program);
}

/* Whether a quote at `at` begins a raw string: r"…", br"…", Rb"…". */
static bool is_raw(struct str text, size_t at)
{
    for (size_t n = 1; n <= 2 && n <= at; n++) {
        char c = text.bytes[at - n];
        if (c == 'r' || c == 'R') return true;
        if (c != 'b' && c != 'B') return false;
    }
    return false;
}

/* The position after the string that begins with the quote at `at`, or the end of the text. */
static size_t string_end(struct str text, size_t at)
{
    check(at < text.size && (text.bytes[at] == '"' || text.bytes[at] == '\''));
    char quote = text.bytes[at], three[3] = {quote, quote, quote};
    bool raw = is_raw(text, at), triple = str_starts(str_skip(text, at), str_of(three, 3));
    struct str close = str_of(three, triple ? 3 : 1);
    for (size_t i = at + close.size; i < text.size; i++) {
        if (!raw && text.bytes[i] == '\\')
            i++;
        else if (str_starts(str_skip(text, i), close))
            return i + close.size;
    }
    return text.size;
}

/* The position of the `}` that closes the `${` before. Braces and strings within belong to CEL. */
static size_t expression_end(struct str text)
{
    unsigned depth = 0;
    for (size_t i = 0; i < text.size;) {
        char c = text.bytes[i];
        if (c == '"' || c == '\'') {
            i = string_end(text, i);
            continue;
        }
        if (c == '{') depth++;
        if (c == '}' && depth-- == 0) return i;
        i++;
    }
    return text.size;
}

/* A text that becomes a template: its bytes without escapes, cut at the expressions. */
struct template_reading {
    struct reader *reader;
    const struct value *value;
    struct str text;
    struct template_part parts[TEMPLATE_PARTS_MAX];
    size_t count;
    char *bytes;
    size_t size, begin; /* of `bytes`; the beginning of the current literal */
};

static void end_literal(struct template_reading *t)
{
    check(t->size >= t->begin);
    check(t->count < TEMPLATE_PARTS_MAX || t->size == t->begin);
    if (t->size > t->begin)
        t->parts[t->count++] =
            (struct template_part){.literal = str_of(t->bytes + t->begin, t->size - t->begin)};
    t->begin = t->size;
}

/* The expression at *at, after its `${`; *at moves after its `}`. False: a problem was added. */
static bool take_expression(struct template_reading *t, size_t *at)
{
    struct str rest = str_skip(t->text, *at);
    size_t size = expression_end(rest);
    if (size == rest.size) {
        reader_complain(t->reader, t->value, "${ is not closed by }; write $${ for a literal ${");
        return false;
    }
    if (t->count + 3 > TEMPLATE_PARTS_MAX) {
        reader_complain(t->reader, t->value,
                        "has more than %d expressions and texts between them, together",
                        TEMPLATE_PARTS_MAX - 2);
        return false;
    }
    end_literal(t);
    size_t before = str_code_points(str_of(t->text.bytes, *at));
    struct str kept = reader_copy(t->reader, str_of(rest.bytes, size));
    const struct condition *c = read_condition_at(t->reader, t->value, before, kept, false);
    if (c == NULL) return false;
    check(t->count < TEMPLATE_PARTS_MAX);
    t->parts[t->count++] = (struct template_part){.value = c};
    *at += size + 1;
    check(*at <= t->text.size);
    return true;
}

bool read_template(struct reader *r, const struct value *v, struct str text, struct str *ret_plain,
                   const struct template_part **ret_parts, size_t *ret_count)
{
    struct template_reading t = {
        .reader = r, .value = v, .text = text, .bytes = reader_take(r, text.size + 1)};
    if (t.bytes == NULL) return false;
    for (size_t i = 0; i < text.size;) {
        struct str rest = str_skip(text, i);
        if (str_starts(rest, STR("$${"))) {
            memcpy(t.bytes + t.size, "${", 2);
            t.size += 2;
            i += 3;
        } else if (str_starts(rest, STR("${"))) {
            i += 2;
            if (!take_expression(&t, &i)) return false;
        } else {
            t.bytes[t.size++] = text.bytes[i++];
        }
    }
    check(t.size <= text.size);
    *ret_plain = str_of(t.bytes, t.size);
    *ret_parts = NULL;
    *ret_count = 0;
    if (t.count == 0) return true; /* no expression: an ordinary text */
    end_literal(&t);
    struct template_part *kept = reader_take(r, t.count * sizeof *kept);
    if (kept == NULL) return false;
    memcpy(kept, t.parts, t.count * sizeof *kept);
    *ret_parts = kept;
    *ret_count = t.count;
    return true;
}

/* ---- the variables of a request ---- */

static struct json *member_new(struct evaluation *b, struct json *object, struct str key)
{
    check(object->type == JSON_OBJECT);
    struct json *m = arena_new(b->arena, struct json);
    if (m == NULL) {
        b->failed = true;
        return NULL;
    }
    m->key = key;
    m->next = object->child;
    object->child = m;
    object->count++;
    return m;
}

static void put_text(struct evaluation *b, struct json *object, struct str key, struct str text)
{
    struct json *m = str_is_absent(text) ? NULL : member_new(b, object, key);
    if (m == NULL) return;
    m->type = JSON_STRING;
    m->string = text;
}

static void put_tree(struct evaluation *b, struct json *object, struct str key,
                     const struct json *v)
{
    struct json *m = v == NULL ? NULL : member_new(b, object, key);
    if (m == NULL) return;
    struct json *next = m->next;
    *m = *v; /* its children are shared, and never changed */
    m->key = key;
    m->next = next;
}

static struct json *object_new(struct evaluation *b)
{
    struct json *object = arena_new(b->arena, struct json);
    if (object == NULL)
        b->failed = true;
    else
        object->type = JSON_OBJECT;
    return object;
}

static void put_scope(struct evaluation *b, struct json *object)
{
    const struct policy_request *q = b->request;
    struct json *list = q->has_scope ? member_new(b, object, STR("scope")) : NULL;
    if (list == NULL) return;
    list->type = JSON_ARRAY;
    struct json **tail = &list->child;
    for (size_t i = 0; i < q->scope_count; i++) {
        struct json *one = arena_new(b->arena, struct json);
        if (one == NULL) {
            b->failed = true;
            return;
        }
        one->type = JSON_STRING;
        one->string = q->scope[i];
        *tail = one;
        tail = &one->next;
        list->count++;
    }
}

/* The values that an approval is bound to, as one map. */
static struct json *request_object(struct evaluation *b)
{
    const struct policy_request *q = b->request;
    struct json *object = object_new(b);
    if (object == NULL) return NULL;
    put_text(b, object, STR("action"), q->action);
    put_text(b, object, STR("actor"), q->actor);
    put_text(b, object, STR("acting_for"), q->acting_for);
    put_text(b, object, STR("user_id"), q->user);
    put_text(b, object, STR("tenant_id"), q->tenant);
    put_text(b, object, STR("kind"), q->kind == SUBJECT_USER ? STR("user") : STR("agent"));
    put_tree(b, object, STR("args"), q->args);
    put_tree(b, object, STR("context"), q->context);
    put_tree(b, object, STR("resource"), q->resource_object);
    put_scope(b, object);
    return object;
}

static const struct json *context_object(struct evaluation *b)
{
    const struct json *context = b->request->context;
    if (context == NULL || context->type == JSON_OBJECT) return context;
    struct json *object = object_new(b);
    if (object != NULL) put_tree(b, object, STR("text"), context);
    return object;
}

static struct str present(struct str text) { return str_is_absent(text) ? STR("") : text; }

/* The roles of people; agents have none. */
static struct cel_value roles_value(struct evaluation *b, bool folds)
{
    if (b->request->kind != SUBJECT_USER || !roles_find(b)) return cel_of_strs(NULL, 0);
    const bool *has = folds ? b->roles_folding : b->roles_exact;
    struct str *names = arena_array(b->arena, struct str, b->set->role_count + 1);
    size_t count = 0;
    if (names == NULL) b->failed = true;
    for (size_t i = 0; names != NULL && i < b->set->role_count; i++)
        if (has[i]) names[count++] = b->set->role_names[i];
    check(count <= b->set->role_count);
    return cel_of_strs(names, count);
}

/* After the variables: both values of `roles`. */
enum { ROLES_EXACT = CEL_POLICY_VARIABLES, ROLES_FOLDING, ALL_VARIABLES };

static bool variables_make(struct evaluation *b)
{
    const struct policy_request *q = b->request;
    if (b->variables != NULL) return true;
    struct cel_value *v = arena_array(b->arena, struct cel_value, ALL_VARIABLES);
    if (v == NULL) return false;
    v[CEL_ACTION] = v[CEL_TOOL] = cel_of_str(present(q->action));
    v[CEL_ARGS] = cel_of_json(q->args);
    v[CEL_RESOURCE] = cel_of_json(q->resource_object);
    v[CEL_CONTEXT] = cel_of_json(context_object(b));
    v[CEL_ACTOR] = cel_of_str(present(q->actor));
    v[CEL_USER] = cel_of_str(present(q->user));
    v[CEL_ACTING_FOR] = cel_of_str(present(q->acting_for));
    v[CEL_TENANT] = cel_of_str(present(q->tenant));
    v[CEL_SCOPE] = cel_of_strs(q->scope, q->has_scope ? q->scope_count : 0);
    v[CEL_NOW] = cel_of_ms(q->now_ms);
    b->variables = v;
    return !b->failed;
}

/* The two expensive variables are made when a program reads them. */
static bool variables_complete(struct evaluation *b, const struct cel_program *program, bool folds)
{
    evaluation_check(b);
    if (!variables_make(b)) return false;
    struct cel_value *v = b->variables;
    if (v[CEL_REQUEST].kind == CEL_ABSENT && cel_program_reads(program, CEL_REQUEST))
        v[CEL_REQUEST] = cel_of_json(request_object(b));
    if (!cel_program_reads(program, CEL_ROLES)) return !b->failed;
    struct cel_value *roles = &v[folds ? ROLES_FOLDING : ROLES_EXACT];
    if (roles->kind == CEL_ABSENT) *roles = roles_value(b, folds);
    v[CEL_ROLES] = *roles;
    return !b->failed;
}

bool condition_has_two_answers(struct evaluation *b, const struct condition *c)
{
    return c->folds && b->request->kind == SUBJECT_USER &&
           cel_program_reads(c->program, CEL_ROLES) && roles_find(b) &&
           b->user_roles == USER_ROLES_FOLDED;
}

static enum condition_result holds_as(struct evaluation *b, const struct condition *c, bool folds,
                                      struct str *ret_why);

/* ---- texts of failures ---- */

static bool hides(void *context, const struct str *segments, size_t count)
{
    const struct evaluation *b = context;
    return mask_hides(b->set, segments, count);
}

static struct cel_tracing tracing_of(struct evaluation *b)
{
    return (struct cel_tracing){.environment = cel_policy_environment(),
                                .variables = b->variables,
                                .arena = b->arena,
                                .hidden = b->set->mask_count > 0 ? hides : NULL,
                                .context = b,
                                .runs_left = &b->trace_runs};
}

bool condition_trace(struct evaluation *b, const struct condition *c, struct cel_trace *ret)
{
    bool exactly = condition_has_two_answers(b, c) && holds_as(b, c, true, NULL) == CONDITION_FALSE;
    if (!variables_complete(b, c->program, c->folds && !exactly)) return false;
    struct cel_tracing tracing = tracing_of(b);
    return cel_trace(&tracing, c->text, ret);
}

bool condition_reads_hidden(struct evaluation *b, const struct condition *c)
{
    condition_check(c);
    struct cel_tracing tracing = tracing_of(b);
    return b->set->mask_count > 0 && cel_reads_hidden(&tracing, c->text);
}

/* A failure's text is recorded, and may have a value of the request ("cannot be read as that:
 * 4111"), which may be masked. The usual case, a missing field, has only a name of the policy, so
 * it needs no check. */
static bool may_name_masked(struct evaluation *b, const struct condition *c, struct cel_value error)
{
    bool names_field = error.form == CEL_FAULT_KEY && !cel_program_looks_up(c->program);
    return !names_field && condition_reads_hidden(b, c);
}

/* ---- with a request ---- */

/* Within the rest of the decision's budget. */
static bool run_paid(struct evaluation *b, const struct condition *c, struct cel_value *ret)
{
    check(b->spent[b->budget] <= b->steps); /* or the rest would be endless */
    uint64_t left = b->steps - b->spent[b->budget];
    struct cel_limits limits = {.cost = left < CONDITION_COST_MAX ? left : CONDITION_COST_MAX,
                                .ret_cost_left = &left};
    *ret = (struct cel_value){.kind = CEL_ERROR, .form = CEL_FAULT_COST};
    bool good = limits.cost > 0 && cel_run(c->program, b->variables, b->arena, &limits, ret);
    check(left <= limits.cost || limits.cost == 0);
    b->spent[b->budget] += limits.cost - left;
    if (!good && ret->form == CEL_FAULT_MEMORY && !b->arena->overflow) arena_starve(b->arena);
    b->is_unpaid |= !good && ret->form == CEL_FAULT_COST;
    if (!good && limits.cost < CONDITION_COST_MAX && ret->form == CEL_FAULT_COST)
        b->exhausted[b->budget] = true;
    return good;
}

static bool value_as(struct evaluation *b, const struct condition *c, bool folds,
                     struct cel_value *ret, struct str *ret_why)
{
    condition_check(c);
    if (!variables_complete(b, c->program, folds)) {
        if (ret_why != NULL) *ret_why = STR("there is not enough memory");
        return false;
    }
    if (run_paid(b, c, ret)) return true;
    if (ret_why == NULL) return false;
    if (b->exhausted[b->budget]) {
        *ret_why = STR("the conditions together have cost what one decision may");
        return false;
    }
    if ((ret->texts != NULL || ret->kinds != 0) && may_name_masked(b, c, *ret)) {
        ret->texts = NULL;
        ret->kinds = 0;
    }
    char text[256];
    struct buf out = buf_over(text, sizeof text);
    cel_put_error(&out, *ret);
    *ret_why = arena_copy(b->arena, str_cut(buf_view(&out), sizeof text));
    if (str_is_absent(*ret_why)) *ret_why = STR("it cannot be evaluated");
    return false;
}

bool condition_value(struct evaluation *b, const struct condition *c, struct cel_value *ret,
                     struct str *ret_why)
{
    return value_as(b, c, c->folds, ret, ret_why);
}

bool condition_value_exactly(struct evaluation *b, const struct condition *c, struct cel_value *ret)
{
    return value_as(b, c, false, ret, NULL);
}

static enum condition_result holds_as(struct evaluation *b, const struct condition *c, bool folds,
                                      struct str *ret_why)
{
    struct cel_value value;
    if (!value_as(b, c, folds, &value, ret_why)) return CONDITION_FAILED;
    if (value.kind == CEL_BOOL) return value.boolean ? CONDITION_TRUE : CONDITION_FALSE;
    check(value.kind != CEL_ERROR);
    /* the checker lets dyn pass */
    if (ret_why != NULL) *ret_why = STR("its value is not true or false");
    return CONDITION_FAILED;
}

enum condition_result condition_holds(struct evaluation *b, const struct condition *c,
                                      struct str *ret_why)
{
    enum condition_result result = holds_as(b, c, c->folds, ret_why);
    if (result != CONDITION_FALSE || !condition_has_two_answers(b, c)) return result;
    return holds_as(b, c, false, ret_why);
}

/* ---- safe arguments ---- */

/* They are a member of the recorded event, which is parsed again with this depth. */
enum { TEMPLATE_TEXT_MAX = 32 << 10, SAFE_ARGS_DEPTH = LIMIT_JSON_DEPTH - 1 };

/* `depth`: the most levels that it may have. */
static bool value_json(struct evaluation *b, struct cel_value v, unsigned depth, struct json **ret,
                       struct str *ret_why)
{
    enum err err = cel_to_json(v, depth, b->arena, ret);
    if (err == ERR_OK) return true;
    *ret_why = err == ERR_TOO_DEEP ? STR("they are nested too deeply to be recorded")
               : err == ERR_FULL   ? STR("there is not enough memory")
                                   : STR("its value has no form in JSON");
    return false;
}

/* The least size of its JSON. A text with escapes, or a number, may be longer. */
static size_t least_bytes(const struct json *v)
{
    size_t size = v->type == JSON_STRING ? v->string.size + 2 : 1;
    for (const struct json *m = v->child; m != NULL; m = m->next)
        size += least_bytes(m) + 1 + (v->type == JSON_OBJECT ? m->key.size + 3 : 0);
    return size;
}

/* Joins several parts to one text: strings unchanged, other values as JSON. */
static bool template_text(struct evaluation *b, const struct template *t, struct str *ret,
                          struct str *ret_why)
{
    check(t->count > 1);
    struct buf out;
    buf_init(&out, 256, TEMPLATE_TEXT_MAX);
    bool good = true;
    for (size_t i = 0; i < t->count && good; i++) {
        struct cel_value v;
        struct json *json;
        if (t->parts[i].value == NULL) {
            buf_put(&out, t->parts[i].literal);
            continue;
        }
        good = condition_value(b, t->parts[i].value, &v, ret_why) &&
               value_json(b, v, LIMIT_JSON_DEPTH, &json, ret_why);
        if (good && json->type == JSON_STRING)
            buf_put(&out, json->string);
        else if (good)
            json_put_canonical(&out, json);
    }
    if (out.starved) arena_starve(b->arena);
    if (good && out.overflow) {
        *ret_why = STR("its text is too long");
        good = false;
    }
    if (good) *ret = out.size == 0 ? STR("") : arena_copy(b->arena, buf_view(&out));
    if (good && str_is_absent(*ret)) good = false;
    buf_fini(&out);
    return good;
}

static const struct template *template_at(const struct rule *rule, const struct json *v)
{
    for (const struct template *t = rule->templates; t != NULL; t = t->next)
        if (t->at == v) return t;
    return NULL;
}

/* `depth`: the most levels from here on; a document itself has fewer. */
static struct json *filled(struct evaluation *b, const struct rule *rule, const struct json *v,
                           unsigned depth, struct str *ret_why)
{
    struct json *copy = NULL;
    const struct template *t = v->type == JSON_STRING ? template_at(rule, v) : NULL;
    if (t != NULL && t->count == 1) {
        struct cel_value value;
        struct json *made;
        if (!condition_value(b, t->parts[0].value, &value, ret_why) ||
            !value_json(b, value, depth, &made, ret_why))
            return NULL;
        copy = arena_new(b->arena, struct json);
        if (copy != NULL) *copy = *made;
    } else {
        copy = arena_new(b->arena, struct json);
        if (copy != NULL) *copy = *v;
    }
    if (copy == NULL) return NULL;
    copy->key = v->key;
    copy->next = NULL;
    json_forget_text(copy);
    if (t != NULL && t->count == 1) return copy;
    if (t != NULL) return template_text(b, t, &copy->string, ret_why) ? copy : NULL;
    struct json **tail = &copy->child;
    *tail = NULL;
    for (const struct json *m = v->child; m != NULL; m = m->next) {
        check(depth > 0);
        struct json *child = filled(b, rule, m, depth - 1, ret_why);
        if (child == NULL) return NULL;
        *tail = child;
        tail = &child->next;
    }
    return copy;
}

const struct json *template_args(struct evaluation *b, const struct rule *rule, struct str *ret_why)
{
    check(rule->decision == VERDICT_COMPUTE);
    *ret_why = STR("there is not enough memory");
    if (rule->templates == NULL) return rule->safe_args;
    const struct json *args = filled(b, rule, rule->safe_args, SAFE_ARGS_DEPTH, ret_why);
    if (args == NULL || least_bytes(args) <= LIMIT_EVENT_BYTES) return args;
    *ret_why = STR("they are too large to be recorded");
    return NULL;
}

static bool template_reads_hidden(struct evaluation *b, const struct template *t)
{
    for (size_t i = 0; i < t->count; i++)
        if (t->parts[i].value != NULL && condition_reads_hidden(b, t->parts[i].value)) return true;
    return false;
}

/* `v`: as in the document; `args`: with the results. The results themselves are not searched. */
static struct json *told(struct evaluation *b, const struct rule *rule, const struct json *v,
                         const struct json *args)
{
    struct json *copy = arena_new(b->arena, struct json);
    if (copy == NULL) return NULL;
    *copy = *args;
    copy->next = NULL;
    const struct template *t = v->type == JSON_STRING ? template_at(rule, v) : NULL;
    if (t != NULL) {
        if (template_reads_hidden(b, t)) json_become_string(copy, STR("[masked]"));
        return copy;
    }
    struct json **tail = &copy->child;
    const struct json *from = args->child;
    for (const struct json *m = v->child; m != NULL; m = m->next, from = from->next) {
        check(from != NULL); /* both have the same members */
        struct json *child = told(b, rule, m, from);
        if (child == NULL) return NULL;
        *tail = child;
        tail = &child->next;
    }
    return copy;
}

const struct json *template_told(struct evaluation *b, const struct rule *rule,
                                 const struct json *args)
{
    check(args != NULL && rule->safe_args != NULL);
    return told(b, rule, rule->safe_args, args);
}

bool templates_read_hidden(const struct policy_set *s, const struct rule *rule)
{
    if (rule->templates == NULL) return false;
    struct evaluation b = {.set = s};
    for (const struct template *t = rule->templates; t != NULL; t = t->next)
        if (template_reads_hidden(&b, t)) return true;
    return false;
}
