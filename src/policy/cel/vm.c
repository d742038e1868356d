/* vm.c - runs a program; code.h explains the instructions and how errors travel.
 *
 * The loop trusts its program, which only the compiler makes: no instruction checks that the stack
 * is deep enough or an index in range. It trusts no value: each looks at the kinds it is given.
 *
 * Cost: a straight piece of code is paid for at once, when the run or a turn of a loop begins; what
 * works in proportion to its input pays for that itself. Small programs have their stack on the
 * machine's, larger ones in the arena. */
#include "policy/cel/code.h"

enum { STACK_INLINE = 24, LOCALS_INLINE = 6, WALKS_INLINE = 3 };

/* A walk under way, and what it has kept for map() and filter(). */
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
};

#define likely(x) __builtin_expect((x), 1)
#define unlikely(x) __builtin_expect((x), 0)

/* ---- pieces of instructions ---- */

static struct cel_value select_field(struct vm *vm, struct cel_value of,
                                     const struct cel_value *name)
{
    if (unlikely(of.kind != CEL_MAP))
        return of.kind == CEL_ABSENT ? cel_fail(CEL_FAULT_REFERENCE, NULL) : cel_no_overload();
    struct cel_value found = cel_map_get_text(&vm->meter, of, cel_text(*name));
    return likely(found.kind != CEL_ABSENT)
               ? found
               : cel_index(&vm->meter, (struct cel_value[]){of, *name}, 2);
}

static struct cel_value has_field(struct vm *vm, struct cel_value of, const struct cel_value *name)
{
    if (of.kind != CEL_MAP) return cel_no_overload();
    struct cel_value found = cel_map_get_text(&vm->meter, of, cel_text(*name));
    return cel_is_error(found) ? found : cel_bool(found.kind != CEL_ABSENT);
}

/* Every text that a function is given is paid for here, so that none has to remember it; those that
 * do more than look at each byte once pay for the rest themselves. */
static struct cel_value call(struct vm *vm, const struct cel_instruction *i,
                             const struct cel_value *a)
{
    uint64_t cost = 0;
    for (unsigned n = 0; n < i->a; n++)
        if (a[n].kind == CEL_STRING || a[n].kind == CEL_BYTES) cost += a[n].size / 16;
    if (unlikely(!cel_pay(&vm->meter, cost))) return cel_fail(CEL_FAULT_COST, NULL);
    return cel_functions[i->b].code(&vm->meter, a, i->a);
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
    return unordered ? cel_bool(false) : cel_no_overload();
}

static inline bool orders_as(double a, double b, unsigned mask)
{
    return ((mask & ORDER_LESS) != 0 && a < b) || ((mask & ORDER_EQUAL) != 0 && a == b) ||
           ((mask & ORDER_GREATER) != 0 && a > b);
}

static struct cel_value equal(struct vm *vm, struct cel_value a, struct cel_value b, bool negates)
{
    struct cel_value same = cel_equal(&vm->meter, a, b);
    if (likely(!cel_is_error(same))) same.boolean = same.boolean != negates;
    return same;
}

/* What && gives where the left side did not decide (|| is the same with the other bool): the right
 * side may still; else an error of either goes on, the left one's first. */
static struct cel_value join(struct cel_value left, struct cel_value right, bool deciding)
{
    if (right.kind == CEL_BOOL && right.boolean == deciding) return right;
    if (cel_is_error(left)) return left;
    if (left.kind != CEL_BOOL) return cel_no_overload();
    if (cel_is_error(right) || right.kind == CEL_BOOL) return right;
    return cel_no_overload();
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
    if (over.kind != CEL_LIST && over.kind != CEL_MAP) return cel_no_overload();
    *w = (struct walk_state){.walk = cel_walk_start(over), .plan = plan};
    if (keeps == 0) return over;
    w->kept = cel_take_values(&vm->meter, (size_t)over.size * keeps);
    return w->kept == NULL ? cel_fail(CEL_FAULT_MEMORY, NULL) : over;
}

/* False at the end; an error in *ret where the turn cannot be paid for. */
static bool next_turn(struct vm *vm, struct walk_state *w, struct cel_value *ret)
{
    struct cel_value key, value;
    *ret = cel_null();
    if (!cel_walk_next(&w->walk, &key, &value)) return false;
    if (!cel_pay(&vm->meter, w->plan->cost)) *ret = cel_fail(CEL_FAULT_COST, NULL);
    struct cel_value *local = &vm->locals[w->plan->local];
    if (w->plan->has_two) {
        local[0] = key;
        local[1] = value;
    } else {
        local[0] = w->walk.over.kind == CEL_MAP ? key : value;
    }
    return true;
}

/* One turn of all() or exists(). True: the accumulator is decided. */
static bool accumulate(struct cel_value *accumulator, struct cel_value turn, bool deciding)
{
    if (turn.kind == CEL_BOOL) {
        if (turn.boolean != deciding) return false;
        *accumulator = turn;
        return true;
    }
    if (!cel_is_error(*accumulator)) *accumulator = cel_is_error(turn) ? turn : cel_no_overload();
    return false;
}

/* ---- the loop ---- */

static bool run(struct vm *vm, struct cel_value *ret)
{
    const struct cel_program *p = vm->program;
    const struct cel_instruction *code = p->code, *i = code;
    const struct cel_value *constants = p->constants;
    struct cel_value *top = vm->stack - 1; /* the last value pushed */
    struct cel_value error;

    for (;; i++) {
        switch ((enum cel_op)i->op) {
        case OP_CONST: *++top = constants[i->c]; continue;
        case OP_VARIABLE:
            *++top = vm->variables[i->c];
            if (likely(top->kind != CEL_ABSENT)) continue;
            error = cel_fail(CEL_FAULT_REFERENCE, NULL);
            break;
        case OP_LOCAL: *++top = vm->locals[i->c]; continue;
        case OP_SELECT: error = *top = select_field(vm, *top, &constants[i->c]); break;
        case OP_VARIABLE_SELECT:
            error = *++top = select_field(vm, vm->variables[i->b], &constants[i->c]);
            break;
        case OP_LOCAL_SELECT:
            error = *++top = select_field(vm, vm->locals[i->b], &constants[i->c]);
            break;
        case OP_HAS: error = *top = has_field(vm, *top, &constants[i->c]); break;
        case OP_CALL:
            top = top - i->a + 1;
            error = *top = call(vm, i, top);
            break;
        case OP_COMPARE:
            top--;
            error = *top = compare(vm, top[0], top[1], i->a);
            break;
        case OP_COMPARE_CONST:
            if (likely(top->kind == CEL_DOUBLE && i->b)) {
                *top = cel_bool(orders_as(top->number, constants[i->c + 1].number, i->a));
                continue;
            }
            error = *top = compare(vm, *top, constants[i->c], i->a);
            break;
        case OP_EQUAL:
            top--;
            error = *top = equal(vm, top[0], top[1], i->a);
            break;
        case OP_EQUAL_CONST:
            if (top->kind == CEL_STRING && constants[i->c].kind == CEL_STRING &&
                top->size != constants[i->c].size) {
                *top = cel_bool(i->a != 0); /* the most usual of all: another text */
                continue;
            }
            error = *top = equal(vm, *top, constants[i->c], i->a);
            break;
        case OP_IN_CONST: error = *top = cel_contains(&vm->meter, constants[i->c], *top); break;
        case OP_IN_SET:
            error = top->kind == CEL_STRING
                        ? cel_map_get_text(&vm->meter, constants[i->c], cel_text(*top))
                        : cel_bool(false);
            if (error.kind == CEL_ABSENT) error = cel_bool(false);
            *top = error;
            break;
        case OP_NOT:
            if (likely(top->kind == CEL_BOOL)) {
                top->boolean = !top->boolean;
                continue;
            }
            error = cel_no_overload();
            break;
        case OP_JUMP: i = code + i->c - 1; continue;
        case OP_BRANCH:
            if (likely(top->kind == CEL_BOOL)) {
                if (!top->boolean) i = code + i->c - 1;
                top--;
                continue;
            }
            error = cel_no_overload();
            break;
        case OP_AND_TEST:
            if (top->kind == CEL_BOOL && !top->boolean) i = code + i->c - 1;
            continue;
        case OP_OR_TEST:
            if (top->kind == CEL_BOOL && top->boolean) i = code + i->c - 1;
            continue;
        case OP_AND_JOIN:
            top--;
            if (likely(top[0].kind == CEL_BOOL && top[1].kind == CEL_BOOL)) {
                *top = top[1];
                continue;
            }
            error = *top = join(top[0], top[1], false);
            break;
        case OP_OR_JOIN:
            top--;
            if (likely(top[0].kind == CEL_BOOL && top[1].kind == CEL_BOOL)) {
                *top = top[1];
                continue;
            }
            error = *top = join(top[0], top[1], true);
            break;
        case OP_LIST:
            top = top - i->c + 1;
            error = *top = make_list(vm, top, i->c);
            break;
        case OP_MAP:
            top = top - 2 * (size_t)i->c + 1;
            error = *top = make_map(vm, top, i->c);
            break;
        case OP_STORE: vm->locals[i->c] = *top--; continue;
        case OP_WALK:
            error = start_walk(vm, &vm->walks[i->b], *top--, i->a, &p->walks[i->c]);
            break;
        case OP_NEXT:
            if (!next_turn(vm, &vm->walks[i->b], &error)) i = code + i->c - 1;
            break;
        case OP_ALL_STEP:
            top--;
            if (!accumulate(top, top[1], false)) i = code + i->c - 1;
            continue;
        case OP_EXISTS_STEP:
            top--;
            if (!accumulate(top, top[1], true)) i = code + i->c - 1;
            continue;
        case OP_ONE_STEP:
            top--;
            if (unlikely(top[1].kind != CEL_BOOL)) {
                error = cel_no_overload();
                break;
            }
            top->integer += top[1].boolean;
            i = code + i->c - 1;
            continue;
        case OP_FILTER:
            if (unlikely(top->kind != CEL_BOOL)) {
                error = cel_no_overload();
                break;
            }
            if (!top->boolean) i = code + i->c - 1;
            top--;
            continue;
        case OP_APPEND:
        case OP_APPEND_PAIR: {
            struct walk_state *w = &vm->walks[i->b];
            if (i->op == OP_APPEND_PAIR) w->kept[w->kept_count++] = *(top-- - 1);
            w->kept[w->kept_count++] = *(i->op == OP_APPEND_PAIR ? top + 1 : top);
            top--;
            i = code + i->c - 1;
            continue;
        }
        case OP_ACCUMULATED: error = *top; break;
        case OP_ONE_DONE: *top = cel_bool(top->integer == 1); continue;
        case OP_LIST_DONE:
            *++top = cel_list(vm->walks[i->b].kept, vm->walks[i->b].kept_count);
            continue;
        case OP_MAP_DONE:
            error = *++top =
                cel_map_make(&vm->meter, vm->walks[i->b].kept, vm->walks[i->b].kept_count / 2);
            break;
        case OP_RAISE: error = cel_fail((enum cel_fault)i->a, NULL); break;
        case OP_RETURN: *ret = *top; return true;
        case OPS: check(false);
        }
        if (likely(error.kind != CEL_ERROR)) continue;

        /* Failed. Where the error was made is where it is told; it may have travelled already. */
        uint32_t at = (uint32_t)(i - code);
        if (i->op == OP_RAISE && i->c > 0) {
            struct str *about = cel_take(&vm->meter, sizeof *about);
            if (about != NULL) *about = cel_text(constants[i->c - 1]);
            error.texts = about;
        }
        if (error.size == 0) error.size = p->places[at];
        if (p->handlers[at] == 0 || cel_is_limit(error)) {
            *ret = error;
            return false;
        }
        const struct cel_handler *handler = &p->handler[p->handlers[at] - 1];
        top = vm->stack + handler->depth;
        *top = error;
        i = code + handler->target - 1;
    }
}

bool cel_run(const struct cel_program *program, const struct cel_value *variables,
             struct arena *arena, const struct cel_limits *limits, struct cel_value *ret)
{
    struct cel_value stack[STACK_INLINE], locals[LOCALS_INLINE];
    struct walk_state walks[WALKS_INLINE];
    struct vm vm = {.program = program,
                    .variables = variables,
                    .stack = stack,
                    .locals = locals,
                    .walks = walks};
    vm.meter = (struct cel_meter){
        .arena = arena,
        .cost_left = limits != NULL && limits->cost > 0 ? limits->cost : CEL_COST_DEFAULT,
        .memory_left =
            limits != NULL && limits->memory_bytes > 0 ? limits->memory_bytes : CEL_MEMORY_DEFAULT};
    if (unlikely(program->stack_max > STACK_INLINE))
        vm.stack = cel_take_values(&vm.meter, program->stack_max);
    if (unlikely(program->local_count > LOCALS_INLINE))
        vm.locals = cel_take_values(&vm.meter, program->local_count);
    if (unlikely(program->walk_count > WALKS_INLINE))
        vm.walks = cel_take(&vm.meter, program->walk_count * sizeof *vm.walks);
    if (unlikely(vm.stack == NULL || vm.locals == NULL || vm.walks == NULL)) {
        *ret = cel_fail(CEL_FAULT_MEMORY, NULL);
        return false;
    }
    if (unlikely(!cel_pay(&vm.meter, program->count))) {
        *ret = cel_fail(CEL_FAULT_COST, NULL);
        return false;
    }
    return run(&vm, ret);
}
