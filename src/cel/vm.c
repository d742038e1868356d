/* vm.c - runs a program; code.h explains the instructions and how errors travel.
 *
 * The loop trusts its program, which only the compiler makes: no instruction checks that the stack
 * is deep enough or an index in range. It does not trust values: each instruction checks their
 * kinds.
 *
 * For speed, each instruction ends with its own jump to the next (an extension of GNU C), so that
 * the processor predicts sequences. Results are written to the stack as two words (cel_move).
 * Fields of JSON are looked up in the loop itself. Errors are values on the stack, and their kind
 * is checked only where they can arise, so that the path without errors has no extra work.
 *
 * Cost: a straight piece of code is paid for at once, when the run or a turn of a loop begins.
 * Work in proportion to its input pays for itself. Small programs have their stack on the
 * machine's stack, larger ones in the arena. */
#include "cel/code.h"
#include "cel/set.h"

enum { STACK_INLINE = 24, LOCALS_INLINE = 6, WALKS_INLINE = 3 };

/* A walk in progress, and the values that it collected for map() and filter(). */
struct walk_state {
    struct cel_walk walk;
    const struct cel_walk_plan *plan;
    struct cel_value *kept;
    uint32_t kept_count;
};

struct vm {
    const struct cel_program *program;
    const struct cel_value *variables;
    struct cel_meter meter;
    struct cel_value *stack, *locals;
    struct walk_state *walks;
    struct cel_value *memos; /* CEL_ABSENT: not looked up, or not found */
    uint64_t *ret_cost_left;
};

#define likely(x) __builtin_expect((x), 1)
#define unlikely(x) __builtin_expect((x), 0)

/* ---- pieces of instructions ---- */

static struct cel_value no_overload_for(struct cel_value given)
{
    return cel_give_kinds(cel_no_overload(), &given, 1);
}

/* The error for a missing field: of an unbound variable, of a value that is no map, or of a map. */
static __attribute__((noinline)) struct cel_value no_field(const struct vm *vm, unsigned kind,
                                                           uint32_t name)
{
    if (kind == CEL_ABSENT) return cel_fail(CEL_FAULT_REFERENCE, NULL);
    if (kind != CEL_MAP) return no_overload_for((struct cel_value){.kind = (uint8_t)kind});
    return cel_fail(CEL_FAULT_KEY, &vm->program->names[name]);
}

/* A field of a map, CEL_ABSENT if it has none, or a limit. JSON objects, the usual input, are
 * searched here directly. */
static inline __attribute__((always_inline)) struct cel_value
find_field(struct vm *vm, const struct cel_value *of, const struct cel_value *name)
{
    if (unlikely(of->form != CEL_JSON)) return cel_map_get_text(&vm->meter, *of, cel_text(*name));
    return cel_member_get(&vm->meter, of->json, cel_text(*name));
}

static inline __attribute__((always_inline)) struct cel_value
select_field(struct vm *vm, const struct cel_value *of, uint32_t name)
{
    if (unlikely(of->kind != CEL_MAP)) return no_field(vm, of->kind, name);
    struct cel_value found = find_field(vm, of, &vm->program->constants[name]);
    return likely(found.kind != CEL_ABSENT) ? found : no_field(vm, CEL_MAP, name);
}

static struct cel_value has_field(struct vm *vm, const struct cel_value *of, uint32_t name)
{
    if (unlikely(of->kind != CEL_MAP)) return no_field(vm, of->kind, name);
    struct cel_value found = find_field(vm, of, &vm->program->constants[name]);
    return cel_is_error(found) ? found : cel_bool(found.kind != CEL_ABSENT);
}

/* Whether a variable has a field. The value is stored in the memo, because a use usually follows. */
static struct cel_value has_variable(struct vm *vm, const struct cel_instruction *i)
{
    const struct cel_value *of = &vm->variables[i->b];
    if (i->a == 0 || of->kind != CEL_MAP) return has_field(vm, of, i->c);
    struct cel_value *memo = &vm->memos[i->a - 1];
    if (memo->kind != CEL_ABSENT) return cel_bool(true);
    struct cel_value found = find_field(vm, of, &vm->program->constants[i->c]);
    if (unlikely(cel_is_error(found))) return found;
    *memo = found;
    return cel_bool(found.kind != CEL_ABSENT);
}

/* Pays for every text argument of a function here, so that no function can omit it. Functions that
 * do more than read each byte once pay for the rest themselves. */
static inline struct cel_value call_function(struct vm *vm, const struct cel_instruction *i,
                                             const struct cel_value *a)
{
    uint64_t cost = 0;
    for (unsigned n = 0; n < i->a; n++)
        if (a[n].kind == CEL_STRING || a[n].kind == CEL_BYTES) cost += a[n].size / 16;
    if (unlikely(!cel_pay(&vm->meter, cost))) return cel_fail(CEL_FAULT_COST, NULL);
    struct cel_value result = cel_functions[i->b].code(&vm->meter, a, i->a);
    return unlikely(result.kind == CEL_ERROR) ? cel_give_kinds(result, a, i->a) : result;
}

static struct cel_value compare(struct vm *vm, struct cel_value a, struct cel_value b,
                                unsigned mask)
{
    int order;
    bool unordered;
    if ((a.kind == CEL_STRING || a.kind == CEL_BYTES) && !cel_pay_bytes(&vm->meter, a.size))
        return cel_fail(CEL_FAULT_COST, NULL);
    if (cel_compare(a, b, &order, &unordered))
        return cel_bool((mask >> (order < 0 ? 0 : order > 0 ? 2 : 1) & 1) != 0);
    if (unordered) return cel_bool(false);
    return cel_give_kinds(cel_no_overload(), (struct cel_value[]){a, b}, 2);
}

static inline bool orders_as(double a, double b, unsigned mask)
{
    unsigned order =
        (a < b ? ORDER_LESS : 0u) | (a == b ? ORDER_EQUAL : 0u) | (a > b ? ORDER_GREATER : 0u);
    return (order & mask) != 0;
}

static struct cel_value equal(struct vm *vm, struct cel_value a, struct cel_value b, bool negates)
{
    struct cel_value same = cel_equal(&vm->meter, a, b);
    if (likely(!cel_is_error(same))) same.boolean = same.boolean != negates;
    return same;
}

/* The most common comparison; different texts mostly have different lengths. */
static inline struct cel_value equal_texts(struct vm *vm, const struct cel_value *a,
                                           const struct cel_value *b, bool negates)
{
    if (a->size != b->size) return cel_bool(negates);
    if (unlikely(!cel_pay_bytes(&vm->meter, a->size))) return cel_fail(CEL_FAULT_COST, NULL);
    return cel_bool(cel_bytes_same(a->bytes, b->bytes, a->size) != negates);
}

/* The result of && if the left side did not decide (|| is the same with the other bool): the right
 * side may decide; else an error of either side stays, the left one's first. */
static struct cel_value join(struct cel_value left, struct cel_value right, bool deciding)
{
    if (right.kind == CEL_BOOL && right.boolean == deciding) return right;
    if (cel_is_error(left)) return left;
    if (left.kind != CEL_BOOL) return no_overload_for(left);
    if (cel_is_error(right) || right.kind == CEL_BOOL) return right;
    return no_overload_for(right);
}

static struct cel_value make_list(struct vm *vm, const struct cel_value *from, uint32_t count)
{
    struct cel_value *items = cel_take_values(&vm->meter, count);
    if (items == NULL) return cel_fail(CEL_FAULT_MEMORY, NULL);
    if (count > 0) memcpy(items, from, count * sizeof *items);
    return cel_list(items, count);
}

static struct cel_value make_map(struct vm *vm, const struct cel_value *from, uint32_t pairs)
{
    struct cel_value list = make_list(vm, from, pairs * 2);
    return cel_is_error(list) ? list : cel_map_make(&vm->meter, list.items, pairs);
}

static struct cel_value start_walk(struct vm *vm, struct walk_state *w, struct cel_value over,
                                   unsigned keeps, const struct cel_walk_plan *plan)
{
    if (over.kind != CEL_LIST && over.kind != CEL_MAP) return no_overload_for(over);
    *w = (struct walk_state){.walk = cel_walk_start(over), .plan = plan};
    if (keeps == 0) return over;
    w->kept = cel_take_values(&vm->meter, (size_t)over.size * keeps);
    return w->kept == NULL ? cel_fail(CEL_FAULT_MEMORY, NULL) : over;
}

enum turn { TURN_TAKEN, TURN_NONE, TURN_UNPAID };

static inline enum turn next_turn(struct vm *vm, struct walk_state *w)
{
    struct cel_value key, value;
    if (!cel_walk_next(&w->walk, &key, &value)) return TURN_NONE;
    if (unlikely(!cel_pay(&vm->meter, w->plan->cost))) return TURN_UNPAID;
    struct cel_value *local = &vm->locals[w->plan->local];
    if (w->plan->has_two) {
        local[0] = key;
        local[1] = value;
    } else {
        local[0] = w->walk.over.kind == CEL_MAP ? key : value;
    }
    return TURN_TAKEN;
}

static inline void keep(struct walk_state *w, const struct cel_value *v)
{
    cel_move(&w->kept[w->kept_count++], v);
}

/* One turn of all() or exists(). True: the accumulator is decided. */
static bool accumulate(struct cel_value *accumulator, struct cel_value turn, bool deciding)
{
    if (turn.kind == CEL_BOOL) {
        if (turn.boolean != deciding) return false;
        *accumulator = turn;
        return true;
    }
    if (!cel_is_error(*accumulator))
        *accumulator = cel_is_error(turn) ? turn : no_overload_for(turn);
    return false;
}

/* The memory of a run of a small program, on the machine's stack. */
struct room {
    struct cel_value stack[STACK_INLINE], locals[LOCALS_INLINE], memos[MEMOS_MAX];
    struct walk_state walks[WALKS_INLINE];
};

/* The same for a large one, from the arena. */
static __attribute__((noinline)) bool take_room(struct vm *vm)
{
    const struct cel_program *p = vm->program;
    vm->stack = cel_take_values(&vm->meter, (size_t)p->stack_max + 1);
    vm->locals = cel_take_values(&vm->meter, (size_t)p->local_count + 1);
    vm->walks = cel_take(&vm->meter, (p->walk_count + 1) * sizeof *vm->walks);
    return vm->stack != NULL && vm->locals != NULL && vm->walks != NULL;
}

/* The stack has room for one value more than the program needs, for the error of an instruction
 * that pushes nothing. */
static inline bool is_small(const struct cel_program *p)
{
    return p->stack_max < STACK_INLINE && p->local_count <= LOCALS_INLINE &&
           p->walk_count <= WALKS_INLINE;
}

/* ---- the loop ---- */

/* Sets the error's position, unless an earlier instruction has set it. */
static struct cel_value placed(struct vm *vm, uint32_t at, struct cel_value error)
{
    const struct cel_instruction *i = &vm->program->code[at];
    if (i->op == OP_RAISE && i->c > 0) error.texts = &vm->program->names[i->c - 1];
    if (error.size == 0) error.size = vm->program->places[at];
    return error;
}

#define GO_ON                                                                                      \
    do {                                                                                           \
        i++;                                                                                       \
        goto *labels[i->op];                                                                       \
    } while (0)
#define GO_TO(target)                                                                              \
    do {                                                                                           \
        i = code + (target);                                                                       \
        goto *labels[i->op];                                                                       \
    } while (0)
/* After an instruction that may have pushed an error. */
#define GO_ON_UNLESS_FAILED                                                                        \
    do {                                                                                           \
        if (unlikely(top->kind == CEL_ERROR)) goto failed;                                         \
        GO_ON;                                                                                     \
    } while (0)
#define FAIL(error)                                                                                \
    do {                                                                                           \
        struct cel_value failure_ = (error);                                                       \
        *++top = failure_;                                                                         \
        goto failed;                                                                               \
    } while (0)

/* Never inlined, because the caller's variables would take registers that the loop needs. */
__attribute__((noinline)) bool cel_run(const struct cel_program *p,
                                       const struct cel_value *variables, struct arena *arena,
                                       const struct cel_limits *limits, struct cel_value *ret)
{
    static const void *const labels[OPS] = {
#define OP(name, depth) [OP_##name] = &&name,
        CEL_OPS(OP)
#undef OP
    };
    const struct cel_instruction *const code = p->code, *i = code;
    const struct cel_value *const constants = p->constants;
    struct room room;
    struct vm vm = {.program = p,
                    .variables = variables,
                    .stack = room.stack,
                    .locals = room.locals,
                    .walks = room.walks,
                    .memos = room.memos,
                    .meter = {.arena = arena,
                              .cost_left = CEL_COST_DEFAULT,
                              .memory_left = CEL_MEMORY_DEFAULT}};
    vm.ret_cost_left = limits != NULL && limits->ret_cost_left != NULL ? limits->ret_cost_left
                                                                       : &vm.meter.cost_left;
    if (limits != NULL && limits->cost > 0) vm.meter.cost_left = limits->cost;
    if (limits != NULL && limits->memory_bytes > 0) vm.meter.memory_left = limits->memory_bytes;
    *vm.ret_cost_left = vm.meter.cost_left;
    if (unlikely(!is_small(p)) && !take_room(&vm)) {
        *ret = cel_fail(CEL_FAULT_MEMORY, NULL);
        return false;
    }
    if (unlikely(!cel_pay(&vm.meter, p->count))) {
        *vm.ret_cost_left = 0;
        *ret = cel_fail(CEL_FAULT_COST, NULL);
        return false;
    }
    for (uint32_t n = 0; n < p->memo_count; n++) vm.memos[n].kind = CEL_ABSENT;
    struct cel_value *top = vm.stack - 1, *memo; /* the last value pushed */

    goto *labels[i->op];

CONST:
    *++top = constants[i->c];
    GO_ON;
VARIABLE:
    cel_move(++top, &vm.variables[i->c]);
    if (likely(top->kind != CEL_ABSENT)) GO_ON;
    FAIL(cel_fail(CEL_FAULT_REFERENCE, NULL));
LOCAL:
    cel_move(++top, &vm.locals[i->c]);
    GO_ON;
SELECT:
    *top = select_field(&vm, top, i->c);
    GO_ON_UNLESS_FAILED;
VARIABLE_SELECT:
    if (i->a == 0) {
        *++top = select_field(&vm, &vm.variables[i->b], i->c);
        GO_ON_UNLESS_FAILED;
    }
    memo = &vm.memos[i->a - 1];
    if (memo->kind == CEL_ABSENT) {
        *++top = select_field(&vm, &vm.variables[i->b], i->c);
        if (unlikely(top->kind == CEL_ERROR)) goto failed;
        cel_move(memo, top);
        GO_ON;
    }
    cel_move(++top, memo);
    GO_ON;
LOCAL_SELECT:
    *++top = select_field(&vm, &vm.locals[i->b], i->c);
    GO_ON_UNLESS_FAILED;
HAS:
    *top = has_field(&vm, top, i->c);
    GO_ON_UNLESS_FAILED;
VARIABLE_HAS:
    *++top = has_variable(&vm, i);
    GO_ON_UNLESS_FAILED;
CALL:
    if (i->c > 0) *++top = constants[i->c - 1];
    top = top - i->a + 1;
    *top = call_function(&vm, i, top);
    GO_ON_UNLESS_FAILED;
COMPARE:
    top--;
    *top = compare(&vm, top[0], top[1], i->a);
    GO_ON_UNLESS_FAILED;
COMPARE_CONST:
    if (likely(top->kind == CEL_DOUBLE && i->b)) {
        *top = cel_bool(orders_as(top->number, constants[i->c + 1].number, i->a));
        GO_ON;
    }
    if (likely(top->kind == CEL_INT && constants[i->c].kind == CEL_INT)) { /* size(…) < 200 */
        int64_t a = top->integer, b = constants[i->c].integer;
        unsigned order = a < b ? ORDER_LESS : a > b ? ORDER_GREATER : ORDER_EQUAL;
        *top = cel_bool((order & i->a) != 0);
        GO_ON;
    }
    *top = compare(&vm, *top, constants[i->c], i->a);
    GO_ON_UNLESS_FAILED;
EQUAL:
    top--;
    *top = equal(&vm, top[0], top[1], i->a);
    GO_ON_UNLESS_FAILED;
EQUAL_CONST:
    if (likely(top->kind == CEL_STRING && constants[i->c].kind == CEL_STRING)) {
        *top = equal_texts(&vm, top, &constants[i->c], i->a);
        GO_ON_UNLESS_FAILED;
    }
    *top = equal(&vm, *top, constants[i->c], i->a);
    GO_ON_UNLESS_FAILED;
IN_CONST:
    *top = cel_contains(&vm.meter, constants[i->c], *top);
    GO_ON_UNLESS_FAILED;
IN_SET:
    *top = cel_set_has(p->sets[i->b], &vm.meter, top);
    GO_ON_UNLESS_FAILED;
NOT:
    *top = likely(top->kind == CEL_BOOL) ? cel_bool(!top->boolean) : no_overload_for(*top);
    GO_ON_UNLESS_FAILED;
JUMP:
    GO_TO(i->c);
BRANCH:
    if (unlikely(top->kind != CEL_BOOL)) FAIL(no_overload_for(*top));
    if ((top--)->boolean) GO_ON;
    GO_TO(i->c);
AND_TEST:
    if (top->kind == CEL_BOOL && !top->boolean) GO_TO(i->c);
    GO_ON;
OR_TEST:
    if (top->kind == CEL_BOOL && top->boolean) GO_TO(i->c);
    GO_ON;
AND_JOIN:
    top--;
    if (likely(top[0].kind == CEL_BOOL && top[1].kind == CEL_BOOL)) {
        cel_move(top, top + 1);
        GO_ON;
    }
    *top = join(top[0], top[1], false);
    GO_ON_UNLESS_FAILED;
OR_JOIN:
    top--;
    if (likely(top[0].kind == CEL_BOOL && top[1].kind == CEL_BOOL)) {
        cel_move(top, top + 1);
        GO_ON;
    }
    *top = join(top[0], top[1], true);
    GO_ON_UNLESS_FAILED;
LIST:
    top = top - i->c + 1;
    *top = make_list(&vm, top, i->c);
    GO_ON_UNLESS_FAILED;
MAP:
    top = top - 2 * (size_t)i->c + 1;
    *top = make_map(&vm, top, i->c);
    GO_ON_UNLESS_FAILED;
STORE:
    cel_move(&vm.locals[i->c], top--);
    GO_ON;
WALK:
    *top = start_walk(&vm, &vm.walks[i->b], *top, i->a, &p->walks[i->c]);
    if (unlikely(top->kind == CEL_ERROR)) goto failed;
    top--;
    GO_ON;
NEXT:
    switch (next_turn(&vm, &vm.walks[i->b])) {
    case TURN_TAKEN: GO_ON;
    case TURN_NONE: GO_TO(i->c);
    case TURN_UNPAID: FAIL(cel_fail(CEL_FAULT_COST, NULL));
    }
ALL_STEP:
    top--;
    if (!accumulate(top, top[1], false)) GO_TO(i->c);
    GO_ON;
EXISTS_STEP:
    top--;
    if (!accumulate(top, top[1], true)) GO_TO(i->c);
    GO_ON;
ONE_STEP:
    top--;
    if (unlikely(top[1].kind != CEL_BOOL)) FAIL(no_overload_for(top[1]));
    top->integer += top[1].boolean;
    GO_TO(i->c);
FILTER:
    if (unlikely(top->kind != CEL_BOOL)) FAIL(no_overload_for(*top));
    if ((top--)->boolean) GO_ON;
    GO_TO(i->c);
APPEND:
    keep(&vm.walks[i->b], top--);
    GO_TO(i->c);
APPEND_PAIR:
    top -= 2;
    keep(&vm.walks[i->b], top + 1);
    keep(&vm.walks[i->b], top + 2);
    GO_TO(i->c);
ACCUMULATED:
    GO_ON_UNLESS_FAILED;
ONE_DONE:
    *top = cel_bool(top->integer == 1);
    GO_ON;
LIST_DONE:
    *++top = cel_list(vm.walks[i->b].kept, vm.walks[i->b].kept_count);
    GO_ON;
MAP_DONE:
    *++top = cel_map_make(&vm.meter, vm.walks[i->b].kept, vm.walks[i->b].kept_count / 2);
    GO_ON_UNLESS_FAILED;
RAISE:
    FAIL(cel_fail((enum cel_fault)i->a, NULL));
RETURN:
    *vm.ret_cost_left = vm.meter.cost_left;
    cel_move(ret, top);
    return true;

failed:;
    uint32_t at = (uint32_t)(i - code);
    struct cel_value error = placed(&vm, at, *top);
    if (p->handlers[at] == 0 || cel_is_limit(error)) {
        *vm.ret_cost_left = vm.meter.cost_left;
        *ret = error;
        return false;
    }
    const struct cel_handler *handler = &p->handler[p->handlers[at] - 1];
    top = vm.stack + handler->depth;
    *top = error;
    GO_TO(handler->target);
}
