/* compile.c - compiles the tree to instructions (code.h), in one walk.
 *
 * Everything is collected in the scratch arena and copied into the program's arena at the end, with
 * its exact size. Constants are copied deeply: a program has no pointer to its source. */
#include "cel/compile.h"

#include "cel/address.h"
#include "cel/set.h"
#include "cel/time.h"
#include "cel/url.h"
#include "cel/zone.h"

enum {
    CODE_MAX = 60000, /* instructions: handlers count in 16 bits */
    FIELDS_MAX = 32,  /* fields of variables that are remembered, to find a second use */
    COPY_DEPTH_MAX = CEL_DEPTH_MAX + 8,
    MARK_BYTES = 64,
};

/* A growing array in the scratch arena. */
struct pile {
    char *items;
    size_t count, room;
};

/* A field of a variable, and the first instruction that looked for it. */
struct field {
    uint32_t name, at;
    uint16_t variable;
    uint8_t memo; /* + 1; 0: none, it is used once so far */
};

/* The position of a byte in the text. */
struct mark {
    uint32_t line, column;
};

struct emitter {
    const struct cel_compilation *c;
    struct mark *marks;
    struct pile code, places, handlers, handler, constants, walks, regexes, sets;
    struct field fields[FIELDS_MAX];
    uint32_t field_count, memo_count;
    uint32_t depth, stack_max, local_count, walks_open, walk_count;
    uint64_t reads;
    bool failed;
};

static void emit(struct emitter *e, const struct cel_node *n);

/* ---- piles ---- */

static void *pile_add(struct emitter *e, struct pile *p, size_t size)
{
    if (p->count == p->room) {
        size_t room = p->room == 0 ? 16 : p->room * 2;
        char *items = arena_take(e->c->scratch, room * size);
        if (items == NULL) {
            e->failed = true;
            return NULL;
        }
        if (p->count > 0) memcpy(items, p->items, p->count * size);
        p->items = items;
        p->room = room;
    }
    return p->items + p->count++ * size;
}

#define pile_at(p, type, index) (&((type *)(void *)(p)->items)[index])

static uint32_t here(const struct emitter *e) { return (uint32_t)e->code.count; }

/* ---- instructions ---- */

/* A mark every MARK_BYTES of the text, so that a position is found as fast in a long text. */
static bool mark_places(struct emitter *e)
{
    struct str text = e->c->text;
    e->marks = arena_array(e->c->scratch, struct mark, text.size / MARK_BYTES + 1);
    if (e->marks == NULL) return false;
    struct mark at = {.line = 1, .column = 1};
    for (size_t i = 0; i <= text.size / MARK_BYTES; i++) {
        e->marks[i] = at;
        cel_place_on(text, (uint32_t)(i * MARK_BYTES), (uint32_t)((i + 1) * MARK_BYTES), &at.line,
                     &at.column);
    }
    return true;
}

static uint32_t place_of(const struct emitter *e, const struct cel_node *n)
{
    size_t mark = n->place / MARK_BYTES;
    struct mark at = e->marks[mark];
    cel_place_on(e->c->text, (uint32_t)(mark * MARK_BYTES), n->place, &at.line, &at.column);
    return (at.line > UINT16_MAX ? UINT16_MAX : at.line) << 16 |
           (at.column > UINT16_MAX ? UINT16_MAX : at.column);
}

/* Adds one instruction that changes the depth of the stack by `change`; its number. */
static uint32_t put(struct emitter *e, const struct cel_node *n, enum cel_op op, unsigned a,
                    unsigned b, uint32_t c, int change)
{
    uint32_t at = here(e);
    struct cel_instruction *i = pile_add(e, &e->code, sizeof *i);
    uint32_t *place = pile_add(e, &e->places, sizeof *place);
    uint16_t *handler = pile_add(e, &e->handlers, sizeof *handler);
    if (at >= CODE_MAX) e->failed = true;
    if (i == NULL || place == NULL || handler == NULL) return 0;
    *i = (struct cel_instruction){.op = (uint8_t)op, .a = (uint8_t)a, .b = (uint16_t)b, .c = c};
    *place = place_of(e, n);
    *handler = 0;
    e->depth = (uint32_t)((int)e->depth + change);
    if (e->depth > e->stack_max) e->stack_max = e->depth;
    return at;
}

/* The jump at `at` goes to the next instruction. */
static void land(struct emitter *e, uint32_t at)
{
    if (!e->failed) pile_at(&e->code, struct cel_instruction, at)->c = here(e);
}

/* Errors of the instructions from `from` on go to the next one, as values above `depth` others. */
static void protect(struct emitter *e, uint32_t from, uint32_t depth)
{
    struct cel_handler *h = pile_add(e, &e->handler, sizeof *h);
    if (h == NULL || e->failed) return;
    *h = (struct cel_handler){.target = here(e), .depth = depth};
    for (uint32_t i = from; i < here(e); i++) {
        uint16_t *handler = pile_at(&e->handlers, uint16_t, i);
        if (*handler == 0) *handler = (uint16_t)e->handler.count;
    }
}

static void emit_protected(struct emitter *e, const struct cel_node *n)
{
    uint32_t from = here(e), depth = e->depth;
    emit(e, n);
    protect(e, from, depth);
}

/* ---- constants ---- */

/* A copy into the program's arena; an error where that is full. */
static struct cel_value copy_deep(struct emitter *e, struct cel_value v, unsigned depth)
{
    struct cel_meter m = {.arena = e->c->arena, .cost_left = UINT64_MAX, .memory_left = SIZE_MAX};
    struct cel_value key, item, *items;
    size_t at = 0;
    if (depth > COPY_DEPTH_MAX) return cel_fail(CEL_FAULT_MEMORY, NULL);
    switch (v.kind) {
    case CEL_STRING:
    case CEL_BYTES: return cel_copy_text(&m, v.kind, cel_text(v));
    case CEL_IP:
    case CEL_CIDR: {
        struct cel_cidr *copy = arena_new(e->c->arena, struct cel_cidr);
        if (copy == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
        *copy = *v.cidr;
        v.cidr = copy;
        return v;
    }
    case CEL_URL: {
        struct str text = v.url->text; /* parsing its text gives the same value */
        struct cel_url *copy = arena_new(e->c->arena, struct cel_url);
        char *room = arena_bytes(e->c->arena, text.size + URL_MORE_BYTES);
        if (copy == NULL || room == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
        check(cel_url_read(text, room, copy));
        v.url = copy;
        return v;
    }
    case CEL_LIST:
    case CEL_MAP:
        items = cel_take_values(&m, (size_t)v.size * 2 + 1);
        if (items == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
        for (struct cel_walk walk = cel_walk_start(v); cel_walk_next(&walk, &key, &item);) {
            if (v.kind == CEL_MAP) items[at++] = copy_deep(e, key, depth + 1);
            items[at++] = copy_deep(e, item, depth + 1);
            if (cel_is_error(items[at - 1]) || (at > 1 && cel_is_error(items[at - 2])))
                return cel_fail(CEL_FAULT_MEMORY, NULL);
        }
        return v.kind == CEL_LIST ? cel_list(items, at) : cel_map_make(&m, items, v.size);
    default: return v;
    }
}

static uint32_t constant_as_is(struct emitter *e, struct cel_value v)
{
    struct cel_value *constant = pile_add(e, &e->constants, sizeof *constant);
    if (constant == NULL) return 0;
    *constant = v;
    return (uint32_t)e->constants.count - 1;
}

static uint32_t constant(struct emitter *e, struct cel_value v)
{
    v = copy_deep(e, v, 0);
    if (cel_is_error(v)) e->failed = true;
    return constant_as_is(e, v);
}

/* A field's name; the same name is one constant. */
static uint32_t name_constant(struct emitter *e, struct str name)
{
    for (uint32_t i = 0; i < e->constants.count; i++) {
        const struct cel_value *v = pile_at(&e->constants, struct cel_value, i);
        if (v->kind == CEL_STRING && str_equal(cel_text(*v), name)) return i;
    }
    return constant(e, cel_string(name.bytes, name.size));
}

static void raise(struct emitter *e, const struct cel_node *n, enum cel_fault fault,
                  struct str about)
{
    put(e, n, OP_RAISE, fault, 0, str_is_absent(about) ? 0 : 1 + name_constant(e, about), 1);
}

/* ---- names ---- */

static void emit_variable(struct emitter *e, const struct cel_node *n)
{
    e->reads |= (uint64_t)1 << (n->slot < 63 ? n->slot : 63);
    put(e, n, OP_VARIABLE, 0, 0, n->slot, 1);
}

static void emit_name(struct emitter *e, const struct cel_node *n)
{
    switch ((enum cel_reference)n->reference) {
    case REFERENCE_VARIABLE: emit_variable(e, n); return;
    case REFERENCE_LOCAL: put(e, n, OP_LOCAL, 0, 0, n->slot, 1); return;
    case REFERENCE_TYPE:
        put(e, n, OP_CONST, 0, 0, constant(e, cel_type_value((enum cel_kind)n->slot)), 1);
        return;
    case REFERENCE_NONE: raise(e, n, CEL_FAULT_REFERENCE, n->name); return;
    }
}

/* The memo for the field of the next instruction, or 0 if this is its first use. At the second use
 * the first instruction gets the memo, too. */
static uint8_t memo_of(struct emitter *e, uint16_t variable, uint32_t name)
{
    for (uint32_t i = 0; i < e->field_count; i++) {
        struct field *f = &e->fields[i];
        if (f->variable != variable || f->name != name) continue;
        if (f->memo == 0 && e->memo_count < MEMOS_MAX && !e->failed) {
            f->memo = (uint8_t)++e->memo_count;
            pile_at(&e->code, struct cel_instruction, f->at)->a = f->memo;
        }
        return f->memo;
    }
    if (e->field_count < FIELDS_MAX)
        e->fields[e->field_count++] =
            (struct field){.name = name, .at = here(e), .variable = variable};
    return 0;
}

static void emit_select(struct emitter *e, const struct cel_node *n)
{
    const struct cel_node *of = n->children[0];
    uint32_t name = name_constant(e, n->name);
    bool is_name = of->kind == NODE_NAME && of->slot <= UINT16_MAX, asks = n->kind == NODE_HAS;
    if (is_name && of->reference == REFERENCE_VARIABLE) {
        uint16_t variable = (uint16_t)of->slot;
        e->reads |= (uint64_t)1 << (variable < 63 ? variable : 63);
        put(e, n, asks ? OP_VARIABLE_HAS : OP_VARIABLE_SELECT, memo_of(e, variable, name), variable,
            name, 1);
    } else if (is_name && of->reference == REFERENCE_LOCAL && !asks) {
        put(e, n, OP_LOCAL_SELECT, 0, of->slot, name, 1);
    } else {
        emit(e, of);
        put(e, n, asks ? OP_HAS : OP_SELECT, 0, 0, name, 0);
    }
}

/* ---- calls ---- */

static unsigned order_mask(unsigned function)
{
    switch (function) {
    case FUNCTION_LESS: return ORDER_LESS;
    case FUNCTION_LESS_EQUAL: return ORDER_LESS | ORDER_EQUAL;
    case FUNCTION_GREATER: return ORDER_GREATER;
    case FUNCTION_GREATER_EQUAL: return ORDER_GREATER | ORDER_EQUAL;
    default: return 0;
    }
}

static unsigned mirrored(unsigned mask)
{
    return (mask & ORDER_EQUAL) | (mask & ORDER_LESS ? ORDER_GREATER : 0) |
           (mask & ORDER_GREATER ? ORDER_LESS : 0);
}

/* JSON's numbers are doubles and most constants are ints, so a constant is stored as both. The
 * exception is one that becomes 2^64, to which a JSON integer beyond 64 bits (see JSON_LONG) may be
 * equal. */
static void emit_compare_const(struct emitter *e, const struct cel_node *n, unsigned mask,
                               struct cel_value with)
{
    uint32_t at = constant(e, with);
    bool is_number = with.kind == CEL_INT || with.kind == CEL_DOUBLE ||
                     (with.kind == CEL_UINT && (double)with.natural < 0x1p64);
    if (is_number)
        constant_as_is(e, cel_double(with.kind == CEL_INT    ? (double)with.integer
                                     : with.kind == CEL_UINT ? (double)with.natural
                                                             : with.number));
    put(e, n, OP_COMPARE_CONST, mask, is_number, at, 0);
}

static void emit_comparison(struct emitter *e, const struct cel_node *n)
{
    unsigned mask = order_mask(n->function), negates = n->function == FUNCTION_UNEQUAL;
    const struct cel_node *left = n->children[0], *right = n->children[1];
    if (left->kind == NODE_LITERAL &&
        right->kind != NODE_LITERAL) { /* the constant belongs on the right */
        left = n->children[1];
        right = n->children[0];
        mask = mirrored(mask);
    }
    emit(e, left);
    if (right->kind == NODE_LITERAL) {
        if (mask != 0)
            emit_compare_const(e, n, mask, right->value);
        else
            put(e, n, OP_EQUAL_CONST, negates, 0, constant(e, right->value), 0);
        return;
    }
    emit(e, right);
    put(e, n, mask != 0 ? OP_COMPARE : OP_EQUAL, mask != 0 ? mask : negates, 0, 0, -1);
}

/* The number of the set that is made of constant `at`. */
static uint32_t add_set(struct emitter *e, uint32_t at)
{
    const struct cel_set **set = pile_add(e, &e->sets, sizeof(struct cel_set *));
    if (set == NULL || e->failed) return 0;
    *set = cel_set_make(*pile_at(&e->constants, struct cel_value, at), e->c->arena);
    if (*set == NULL) e->failed = true;
    return (uint32_t)e->sets.count - 1;
}

static bool emit_in(struct emitter *e, const struct cel_node *n)
{
    const struct cel_node *list = n->children[1];
    if (list->kind != NODE_LITERAL || list->value.kind != CEL_LIST) return false;
    emit(e, n->children[0]);
    uint32_t at = constant(e, list->value);
    if (!e->failed && e->sets.count < UINT16_MAX && cel_set_fits(list->value))
        put(e, n, OP_IN_SET, 0, add_set(e, at), at, 0);
    else
        put(e, n, OP_IN_CONST, 0, 0, at, 0);
    return true;
}

/* Whether one more may be compiled; otherwise adds a problem at its position. */
static bool has_regex_room(struct emitter *e, const struct cel_node *argument, struct str pattern)
{
    struct cel_room *room = e->c->environment->room;
    if (room == NULL) return true;
    size_t classes = room->regex_classes + cel_regex_classes(pattern.bytes, pattern.size);
    if (room->regexes >= room->regexes_max) {
        cel_problem_add(e->c->problems, e->c->text, argument->offset,
                        "the limit is %zu regular expressions, and this is one more",
                        room->regexes_max);
        return false;
    }
    if (room->regex_instructions >= room->regex_instructions_max) {
        cel_problem_add(e->c->problems, e->c->text, argument->offset,
                        "the regular expressions before this one have %zu instructions together "
                        "when they are compiled, and the limit is %zu",
                        room->regex_instructions, room->regex_instructions_max);
        return false;
    }
    if (classes > room->regex_classes_max) {
        cel_problem_add(e->c->problems, e->c->text, argument->offset,
                        "with this one the regular expressions have %zu Unicode classes (\\p) "
                        "together, and the limit is %zu",
                        classes, room->regex_classes_max);
        return false;
    }
    room->regexes++;
    room->regex_classes = classes;
    return true;
}

static struct cel_regex *regex_create(struct emitter *e, const struct cel_node *argument,
                                      struct str pattern)
{
    char why[REGEX_ERROR_TEXT] = "";
    size_t instructions;
    if (!has_regex_room(e, argument, pattern)) return NULL;
    struct cel_regex *regex =
        cel_regex_create(pattern.bytes, pattern.size, REGEX_MEMORY_BYTES, &instructions, why);
    if (e->c->environment->room != NULL)
        e->c->environment->room->regex_instructions += instructions;
    if (regex == NULL && why[0] == '\0')
        e->failed = e->c->arena->overflow = true; /* not an error of the pattern */
    else if (regex == NULL)
        cel_problem_add(e->c->problems, e->c->text, argument->offset,
                        "this is no regular expression: %s", why);
    return regex;
}

/* Prepares a constant argument; false: it is invalid, and a problem was added. */
static bool prepare(struct emitter *e, const struct cel_node *argument, enum cel_prepares how,
                    struct cel_value *v)
{
    struct str text = cel_text(*v);
    int32_t seconds;
    if (how == PREPARES_REGEX) {
        struct cel_regex *regex = regex_create(e, argument, text);
        struct cel_regex **kept =
            regex == NULL ? NULL : pile_add(e, &e->regexes, sizeof(struct cel_regex *));
        if (kept != NULL)
            *kept = regex;
        else
            cel_regex_destroy(regex);
        *v = (struct cel_value){.kind = CEL_REGEX, .regex = regex};
        return kept != NULL;
    }
    if (how == PREPARES_ZONE) {
        if (zone_fixed(text, &seconds)) return true;
        const struct cel_zone *zone = zone_find(text);
        *v = (struct cel_value){.kind = CEL_ZONE, .zone = zone};
        if (zone == NULL)
            cel_problem_add(
                e->c->problems, e->c->text, argument->offset,
                "there is no time zone \"%.*s\" (a name such as Europe/Paris, or +02:00)",
                text.size > 60 ? 60 : (int)text.size, text.bytes);
        return zone != NULL;
    }
    struct cel_cidr *cidr = arena_new(e->c->arena, struct cel_cidr);
    if (cidr == NULL) return false;
    *v = (struct cel_value){.kind = CEL_CIDR, .cidr = cidr};
    if (cel_cidr_read(text, cidr)) return true;
    cel_problem_add(e->c->problems, e->c->text, argument->offset,
                    "this is no range of addresses (10.0.0.0/8, 2001:db8::/48)");
    return false;
}

/* An argument of a function; the second may be a constant to prepare. In an unchecked environment
 * an error in it appears at run time. */
static void emit_argument(struct emitter *e, const struct cel_node *call, uint32_t i)
{
    const struct cel_node *argument = call->children[i];
    enum cel_prepares how = cel_functions[call->function].prepares;
    bool is_wanted = how != PREPARES_NONE && (i == 1 || (how == PREPARES_CIDR && call->count == 1));
    if (is_wanted && how == PREPARES_ZONE && argument->kind != NODE_LITERAL) zone_load_all();
    struct cel_value v = argument->value;
    if (!is_wanted || argument->kind != NODE_LITERAL || v.kind != CEL_STRING) {
        emit(e, argument);
        return;
    }
    size_t before = e->c->problems->count;
    if (prepare(e, argument, how, &v)) {
        put(e, argument, OP_CONST, 0, 0,
            v.kind == CEL_STRING ? constant(e, v) : constant_as_is(e, v), 1);
        return;
    }
    if (e->c->environment->unchecked) {
        e->c->problems->count = before;
        raise(e, argument, CEL_FAULT_ARGUMENT, cel_text(argument->value));
    } else {
        e->failed = true;
    }
}

/* The reason why a conversion of a constant always fails; NULL: it does not. */
static const char *always_fails(struct emitter *e, const struct cel_node *n)
{
    struct cel_value made;
    struct cel_cidr address;
    struct cel_url url;
    if (n->count != 1 || n->children[0]->kind != NODE_LITERAL ||
        n->children[0]->value.kind != CEL_STRING)
        return NULL;
    struct str text = cel_text(n->children[0]->value);
    switch (n->function) {
    case FUNCTION_TO_TIMESTAMP:
        return time_read_timestamp(text, &made)
                   ? NULL
                   : "this is no time (2026-11-20T09:30:00Z), or one out of range";
    case FUNCTION_TO_DURATION:
        return time_read_duration(text, &made)
                   ? NULL
                   : "this is no duration (1h30m, 90s, 100ms), or one out of range";
    case FUNCTION_IP:
        return cel_address_read(text, &address) ? NULL
                                                : "this is no address (10.0.0.1, 2001:db8::1)";
    case FUNCTION_URL: {
        char *room = arena_bytes(e->c->scratch, text.size + URL_MORE_BYTES);
        return room == NULL || cel_url_read(text, room, &url)
                   ? NULL
                   : "this is no URL that all programs read alike (https://example.com/path)";
    }
    default: return NULL;
    }
}

/* If the instructions since `from` are one constant, the next instruction can push it itself:
 * removes the constant, and returns its number + 1. The depth stays, because that instruction
 * needs the room. */
static uint32_t take_constant(struct emitter *e, uint32_t from)
{
    if (e->failed || here(e) != from + 1) return 0;
    const struct cel_instruction *only = pile_at(&e->code, struct cel_instruction, from);
    if (only->op != OP_CONST) return 0;
    uint32_t taken = only->c + 1;
    e->code.count = e->places.count = e->handlers.count = from;
    return taken;
}

static void emit_function(struct emitter *e, const struct cel_node *n)
{
    if (n->function == FUNCTIONS) {
        raise(e, n, CEL_FAULT_FUNCTION, n->name);
        return;
    }
    if (!cel_function_takes((enum cel_function_id)n->function, n->has_receiver, n->count) ||
        n->count > UINT8_MAX) {
        raise(e, n, CEL_FAULT_OVERLOAD, n->name);
        return;
    }
    const char *why = e->c->environment->unchecked ? NULL : always_fails(e, n);
    if (why != NULL) {
        cel_problem_add(e->c->problems, e->c->text, n->children[0]->offset, "%s", why);
        e->failed = true;
    }
    uint32_t last = here(e);
    for (uint32_t i = 0; i < n->count; i++) {
        last = here(e);
        emit_argument(e, n, i);
    }
    put(e, n, OP_CALL, n->count, n->function, take_constant(e, last), 1 - (int)n->count);
}

static void emit_call(struct emitter *e, const struct cel_node *n)
{
    switch (n->function) {
    case FUNCTION_EQUAL:
    case FUNCTION_UNEQUAL:
    case FUNCTION_LESS:
    case FUNCTION_LESS_EQUAL:
    case FUNCTION_GREATER:
    case FUNCTION_GREATER_EQUAL: emit_comparison(e, n); return;
    case FUNCTION_NOT:
        emit(e, n->children[0]);
        put(e, n, OP_NOT, 0, 0, 0, 0);
        return;
    case FUNCTION_IN:
        if (emit_in(e, n)) return;
        break;
    default: break;
    }
    emit_function(e, n);
}

/* ---- logic ---- */

static void emit_logic(struct emitter *e, const struct cel_node *n)
{
    bool is_and = n->kind == NODE_AND;
    emit_protected(e, n->children[0]);
    uint32_t test = put(e, n, is_and ? OP_AND_TEST : OP_OR_TEST, 0, 0, 0, 0);
    emit_protected(e, n->children[1]);
    put(e, n, is_and ? OP_AND_JOIN : OP_OR_JOIN, 0, 0, 0, -1);
    land(e, test);
}

static void emit_choice(struct emitter *e, const struct cel_node *n)
{
    emit(e, n->children[0]);
    uint32_t branch = put(e, n, OP_BRANCH, 0, 0, 0, -1);
    emit(e, n->children[1]);
    uint32_t jump = put(e, n, OP_JUMP, 0, 0, 0, -1); /* the other side pushes its own */
    land(e, branch);
    emit(e, n->children[2]);
    land(e, jump);
}

/* ---- macros ---- */

static void need_locals(struct emitter *e, uint32_t count)
{
    if (count > e->local_count) e->local_count = count;
}

/* The element for the result: one value, or for transformMap the key and a value. */
static void emit_kept(struct emitter *e, const struct cel_node *n, unsigned walk, uint32_t loop)
{
    if (n->macro == MACRO_FILTER) {
        emit(e, n->children[1]);
        put(e, n, OP_FILTER, 0, walk, loop, -1);
        put(e, n, OP_LOCAL, 0, 0, n->slot, 1);
    } else {
        if (n->macro == MACRO_MAP_VALUES) put(e, n, OP_LOCAL, 0, 0, n->slot, 1);
        emit(e, n->children[1]);
    }
    bool is_pair = n->macro == MACRO_MAP_VALUES;
    put(e, n, is_pair ? OP_APPEND_PAIR : OP_APPEND, 0, walk, loop, is_pair ? -2 : -1);
}

static void emit_macro(struct emitter *e, const struct cel_node *n)
{
    bool has_two = !str_is_absent(n->names[1]);
    unsigned walk = e->walks_open, keeps = n->macro == MACRO_MAP_VALUES ? 2
                                           : n->macro >= MACRO_MAP      ? 1
                                                                        : 0;
    need_locals(e, n->slot + (has_two ? 2 : 1));
    emit(e, n->children[0]);
    uint32_t start = put(e, n, OP_WALK, keeps, walk, 0, -1);
    if (++e->walks_open > e->walk_count) e->walk_count = e->walks_open;
    if (keeps == 0) {
        struct cel_value first =
            n->macro == MACRO_ONE ? cel_int(0) : cel_bool(n->macro == MACRO_ALL);
        put(e, n, OP_CONST, 0, 0, constant_as_is(e, first), 1);
    }
    uint32_t plan_at = (uint32_t)e->walks.count;
    struct cel_walk_plan *plan = pile_add(e, &e->walks, sizeof *plan);
    if (plan == NULL) return;
    *plan = (struct cel_walk_plan){.local = n->slot, .has_two = has_two};
    if (!e->failed) pile_at(&e->code, struct cel_instruction, start)->c = plan_at;
    uint32_t loop = put(e, n, OP_NEXT, 0, walk, 0, 0);
    if (n->children[2] != NULL) {
        emit(e, n->children[2]);
        put(e, n, OP_FILTER, 0, walk, loop, -1);
    }
    if (keeps > 0)
        emit_kept(e, n, walk, loop);
    else if (n->macro == MACRO_ONE) {
        emit(e, n->children[1]);
        put(e, n, OP_ONE_STEP, 0, walk, loop, -1);
    } else {
        emit_protected(e, n->children[1]);
        put(e, n, n->macro == MACRO_ALL ? OP_ALL_STEP : OP_EXISTS_STEP, 0, walk, loop, -1);
    }
    land(e, loop);
    if (!e->failed) pile_at(&e->walks, struct cel_walk_plan, plan_at)->cost = here(e) - loop;
    switch ((enum cel_macro)n->macro) {
    case MACRO_ALL:
    case MACRO_EXISTS: put(e, n, OP_ACCUMULATED, 0, 0, 0, 0); break;
    case MACRO_ONE: put(e, n, OP_ONE_DONE, 0, 0, 0, 0); break;
    case MACRO_MAP:
    case MACRO_FILTER: put(e, n, OP_LIST_DONE, 0, walk, 0, 1); break;
    case MACRO_MAP_VALUES: put(e, n, OP_MAP_DONE, 0, walk, 0, 1); break;
    }
    e->walks_open--;
}

static void emit_bind(struct emitter *e, const struct cel_node *n)
{
    need_locals(e, n->slot + 1);
    emit(e, n->children[0]);
    put(e, n, OP_STORE, 0, 0, n->slot, -1);
    emit(e, n->children[1]);
}

static void emit_many(struct emitter *e, const struct cel_node *n)
{
    for (uint32_t i = 0; i < n->count; i++) emit(e, n->children[i]);
    if (n->kind == NODE_LIST)
        put(e, n, OP_LIST, 0, 0, n->count, 1 - (int)n->count);
    else
        put(e, n, OP_MAP, 0, 0, n->count / 2, 1 - (int)n->count);
}

static void emit(struct emitter *e, const struct cel_node *n)
{
    if (e->c->scratch->overflow || here(e) >= CODE_MAX) {
        e->failed = true;
        return;
    }
    if (n->kind == NODE_SELECT && n->reference != REFERENCE_NONE) {
        emit_name(e, n);
        return;
    }
    switch ((enum cel_node_kind)n->kind) {
    case NODE_WRONG: e->failed = true; return;
    case NODE_LITERAL: put(e, n, OP_CONST, 0, 0, constant(e, n->value), 1); return;
    case NODE_NAME: emit_name(e, n); return;
    case NODE_SELECT:
    case NODE_HAS: emit_select(e, n); return;
    case NODE_CALL: emit_call(e, n); return;
    case NODE_LIST:
    case NODE_MAP: emit_many(e, n); return;
    case NODE_AND:
    case NODE_OR: emit_logic(e, n); return;
    case NODE_CHOICE: emit_choice(e, n); return;
    case NODE_MACRO: emit_macro(e, n); return;
    case NODE_BIND: emit_bind(e, n); return;
    }
}

/* ---- the program ---- */

static const struct cel_type *copy_type(struct arena *arena, const struct cel_type *type)
{
    if (type->tag == TYPE_VARIABLE) return cel_type_simple(TYPE_DYN);
    if (type->first == NULL && type->second == NULL) return cel_type_simple(type->tag);
    struct cel_type *copy = arena_new(arena, struct cel_type);
    if (copy == NULL) return cel_type_simple(TYPE_DYN);
    copy->tag = type->tag;
    if (type->first != NULL) copy->first = copy_type(arena, type->first);
    if (type->second != NULL) copy->second = copy_type(arena, type->second);
    return copy;
}

static const void *move(struct emitter *e, const struct pile *p, size_t size)
{
    void *bytes = arena_take(e->c->arena, p->count * size + 1);
    if (bytes == NULL)
        e->failed = true;
    else if (p->count > 0)
        memcpy(bytes, p->items, p->count * size);
    return bytes;
}

static const struct str *make_names(struct emitter *e)
{
    struct str *names = arena_array(e->c->arena, struct str, e->constants.count + 1);
    for (uint32_t i = 0; names != NULL && i < e->constants.count; i++) {
        const struct cel_value *v = pile_at(&e->constants, struct cel_value, i);
        if (v->kind == CEL_STRING) names[i] = cel_about(cel_text(*v));
    }
    if (names == NULL) e->failed = true;
    return names;
}

static struct cel_program *assemble(struct emitter *e)
{
    struct cel_program *p = arena_new(e->c->arena, struct cel_program);
    if (p == NULL) return NULL;
    *p = (struct cel_program){
        .code = move(e, &e->code, sizeof(struct cel_instruction)),
        .places = move(e, &e->places, sizeof(uint32_t)),
        .handlers = move(e, &e->handlers, sizeof(uint16_t)),
        .handler = move(e, &e->handler, sizeof(struct cel_handler)),
        .constants = move(e, &e->constants, sizeof(struct cel_value)),
        .names = make_names(e),
        .walks = move(e, &e->walks, sizeof(struct cel_walk_plan)),
        .sets = move(e, &e->sets, sizeof(struct cel_set *)),
        .count = here(e),
        .constant_count = (uint32_t)e->constants.count,
        .walk_count = e->walk_count,
        .local_count = e->local_count,
        .stack_max = e->stack_max,
        .memo_count = e->memo_count,
        .reads = e->reads,
        .type = copy_type(e->c->arena, e->c->type),
        .regex_count = (uint32_t)e->regexes.count,
    };
    struct cel_regex **regexes = arena_array(e->c->arena, struct cel_regex *, e->regexes.count + 1);
    if (regexes == NULL) return NULL;
    for (uint32_t i = 0; i < p->regex_count; i++)
        regexes[i] = *pile_at(&e->regexes, struct cel_regex *, i);
    p->regexes = regexes;
    return e->failed || e->c->arena->overflow ? NULL : p;
}

enum err cel_compile_tree(const struct cel_compilation *c, const struct cel_node *root,
                          struct cel_program **ret)
{
    struct emitter e = {.c = c};
    if (!mark_places(&e)) return ERR_FULL;
    emit(&e, root);
    put(&e, root, OP_RETURN, 0, 0, 0, -1);
    struct cel_program *p = e.failed ? NULL : assemble(&e);
    if (p == NULL) {
        for (size_t i = 0; i < e.regexes.count; i++)
            cel_regex_destroy(*pile_at(&e.regexes, struct cel_regex *, i));
        if (here(&e) >= CODE_MAX)
            cel_problem_add(c->problems, c->text, 0, "the expression is too large");
        return c->problems->count > 0 ? ERR_INVALID_POLICY : ERR_FULL;
    }
    *ret = p;
    return ERR_OK;
}
