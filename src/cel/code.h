/* code.h - the bytecode: instructions of a stack machine, and the structure of a program; this room
 * only.
 *
 * An instruction is eight bytes: an opcode, a small number and two numbers (below: a, b, c). Values
 * are pushed on and taken off one stack. Variables of macros are in slots, walks over lists and
 * maps in slots of their own, both numbered when the program is made.
 *
 * Error handling costs nothing without an error. Each instruction has at most one handler, the
 * innermost `&&`, `||`, all() or exists() around it. If the instruction fails, the stack is cut to
 * the handler's depth, the error is pushed as a value, and the program continues at the handler's
 * target, which decides whether the error is absorbed. Without a handler the run ends.
 *
 *   a && b:       [a]  AND_TEST end  [b]  AND_JOIN  end:
 *                 handlers: [a] → AND_TEST, [b] → AND_JOIN
 *   r.all(x, p):  [r]  WALK  CONST true  loop: NEXT end  [p]  ALL_STEP loop  end: ACCUMULATED
 *                 handler: [p] → ALL_STEP */
#ifndef CEL_CODE_H
#define CEL_CODE_H

#include "cel/functions.h"
#include "cel/regex.h"

/* OP(NAME, change of the stack's depth) */
/* clang-format off */
#define CEL_OPS(OP)                                                                               \
    OP(CONST, 1)             /* push constant c */                                                \
    OP(VARIABLE, 1)          /* push variable c */                                                \
    OP(LOCAL, 1)             /* push local c */                                                   \
    OP(SELECT, 0)            /* replace a map by its field c */                                   \
    OP(VARIABLE_SELECT, 1)   /* push field c of variable b; a: memo a - 1 keeps it (0: none) */   \
    OP(LOCAL_SELECT, 1)      /* push field c of local b */                                        \
    OP(HAS, 0)               /* replace a map by whether it has field c */                        \
    OP(VARIABLE_HAS, 1)      /* push whether variable b has field c; a: as above */               \
    OP(CALL, 1)              /* take a arguments, push what function b gives (the depth: 1 - a); */ \
                             /* c > 0: the last argument is constant c - 1, and not on the stack */\
    OP(COMPARE, -1)          /* take two, push whether their order is one of the mask a */        \
    OP(COMPARE_CONST, 0)     /* the same with constant c; b: constant c + 1 is it as a double */  \
    OP(EQUAL, -1)            /* take two, push whether they are equal (a: are not) */             \
    OP(EQUAL_CONST, 0)       /* the same with constant c */                                       \
    OP(IN_CONST, 0)          /* replace a value by whether it is in the constant list c */        \
    OP(IN_SET, 0)            /* the same; the list is of strings, and set b is made of it */      \
    OP(NOT, 0)                                                                                    \
    OP(JUMP, 0)              /* to c */                                                           \
    OP(BRANCH, -1)           /* take a bool, jump to c where it is false */                       \
    OP(AND_TEST, 0)          /* jump to c where the top is false */                               \
    OP(AND_JOIN, -1)                                                                              \
    OP(OR_TEST, 0)           /* jump to c where the top is true */                                \
    OP(OR_JOIN, -1)                                                                               \
    OP(LIST, 1)              /* take c, push them as a list (the depth: 1 - c) */                 \
    OP(MAP, 1)               /* take c pairs, push them as a map (the depth: 1 - 2 c) */          \
    OP(STORE, -1)            /* take a value into local c */                                      \
    OP(WALK, -1)             /* take a list or map, begin walk b over it, with room for a values each */\
    OP(NEXT, 0)              /* next element of walk b into its local(s); jump to c at the end */ \
    OP(ALL_STEP, -1)         /* take a bool; go on at c unless the accumulator is decided */      \
    OP(EXISTS_STEP, -1)                                                                           \
    OP(ONE_STEP, -1)                                                                              \
    OP(FILTER, -1)           /* take a bool, go on at c where it is false */                      \
    OP(APPEND, -1)           /* take a value, keep it in walk b, go on at c */                    \
    OP(APPEND_PAIR, -2)                                                                           \
    OP(ACCUMULATED, 0)       /* the accumulator is the result; if it is an error, fail with it */\
    OP(ONE_DONE, 0)                                                                               \
    OP(LIST_DONE, 1)         /* push what walk b has kept */                                      \
    OP(MAP_DONE, 1)                                                                               \
    OP(RAISE, 1)             /* fail with fault a, about the constant c - 1 (0: about none) */   \
    OP(RETURN, -1)
/* clang-format on */

enum cel_op {
#define OP(name, depth) OP_##name,
    CEL_OPS(OP)
#undef OP
        OPS,
};

enum { ORDER_LESS = 1, ORDER_EQUAL = 2, ORDER_GREATER = 4 }; /* masks of COMPARE */

struct cel_instruction {
    uint8_t op;
    uint8_t a;
    uint16_t b;
    uint32_t c;
};

struct cel_handler {
    uint32_t target;
    uint32_t depth; /* values on the stack below the error */
};

/* Where a walk puts what it finds. */
struct cel_walk_plan {
    uint32_t local;
    bool has_two;  /* key and value, in local and local + 1 */
    uint32_t cost; /* of one turn: its instructions */
};

struct cel_set;

enum { MEMOS_MAX = 8 }; /* fields of variables that are used several times and looked up once */

struct cel_program {
    const struct cel_instruction *code;
    const uint32_t *places;   /* line << 16 | column of each, for errors */
    const uint16_t *handlers; /* of each: place in handler + 1; 0: none */
    const struct cel_handler *handler;
    const struct cel_value *constants;
    const struct str *names; /* for the texts of errors: the constants that are texts, cut short */
    const struct cel_walk_plan *walks;
    const struct cel_set *const *sets;
    uint32_t count, constant_count, walk_count, local_count, stack_max, memo_count;
    uint64_t reads; /* bits of the first 63 variables; the last bit: of any other */
    const struct cel_type *type;
    struct cel_regex **regexes; /* to be freed */
    uint32_t regex_count;
};

#endif
