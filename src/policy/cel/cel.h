/* cel.h - conditions: CEL (the Common Expression Language) compiled to bytecode and run.
 *
 * How to use it. Once, when a document is loaded:
 *
 *     struct cel_environment environment = cel_policy_environment();  // action, args, actor, now, …
 *     environment.wants = cel_type_bool();                            // a `when`; NULL takes any type
 *     struct cel_program *program;
 *     struct cel_problems problems = {0};
 *     if (cel_compile(text, &environment, arena, &program, &problems) != ERR_OK) … tell problems
 *
 * and with each request:
 *
 *     struct cel_value variables[CEL_POLICY_VARIABLES];               // filled once, for all rules
 *     variables[CEL_ARGS] = cel_of_json(args);                        // wrapped, nothing is copied
 *     struct cel_value value;
 *     if (cel_run(program, variables, arena, NULL, &value) && cel_is_true(value)) … the rule applies
 *     else if (value.kind == CEL_ERROR) … cel_put_error() says why and where
 *
 * and when the document goes: cel_program_fini(), because compiled regular expressions live on the
 * heap. All else of a program lies in the arena it was compiled into and keeps no pointer to the
 * source text or the environment.
 *
 * What it is. The language of github.com/google/cel-spec without protobuf messages: parsed and
 * type-checked with gradual `dyn`; checked int64 and uint64 arithmetic; equality and order across
 * the number types; errors absorbed by && and ||; the macros has, all, exists, exists_one, map,
 * filter (also with two variables), transformList, transformMap and cel.bind; the `strings` and
 * `math` extensions; and beside them
 *
 *     text.glob(pattern)          anchored, only * is special; bytes are compared as they are
 *     address.cidr(range)         is this IPv4 or IPv6 address in it?
 *     cidr(), ip(), url()         and their methods, as in Kubernetes (network.c)
 *     path_under(root, path)      the path, normalised and below root; an error where it escapes
 *
 * A program is immutable and may be run by any number of threads at once. A run reads no clock,
 * does no I/O and takes memory from the given arena only, save that RE2 keeps a bounded cache of
 * its own per pattern. It is bounded: cost (about one per instruction, and per 16 bytes or
 * element touched), memory, and depth by the depth of the source and of its inputs. A limit that is
 * reached ends the run; unlike other errors, && and || do not absorb that.
 *
 * Where the specification and its reference implementation (cel-go) differ, the specification
 * holds: a key that is twice in a map literal is an error, so is has(e.f) where e is no map, and
 * indexOf from beyond the text; getMilliseconds of a duration is what is below the second;
 * durations are exact where that one goes by way of doubles.
 * tests/conformance/cel_differential/differences.py has the whole list, each with its reference. As
 * there, an integer beside a double is compared as one, nothing is less or greater than NaN, and
 * string(1000000.0) is "1e+06". Regular expressions, zones, ranges, times and durations that are
 * constants and wrong are refused when the program is made. */
#ifndef POLICY_CEL_CEL_H
#define POLICY_CEL_CEL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "json/json.h"

/* ---- values ---- */

enum cel_kind {
    CEL_ABSENT, /* zeroed memory: a variable that is not bound */
    CEL_ERROR,
    CEL_NULL,
    CEL_BOOL,
    CEL_INT,
    CEL_UINT,
    CEL_DOUBLE,
    CEL_STRING,
    CEL_BYTES,
    CEL_LIST,
    CEL_MAP,
    CEL_TIMESTAMP,
    CEL_DURATION,
    CEL_TYPE,
    CEL_CIDR,
    CEL_IP,
    CEL_URL,
    CEL_REGEX, /* this and the next: constants of a program, never a result */
    CEL_ZONE,
    CEL_KINDS,
};

/* How a list or a map is held. */
enum cel_form {
    CEL_OWN,   /* list: an array of values; map: a struct cel_map */
    CEL_JSON,  /* a struct json array or object, looked at in place */
    CEL_TEXTS, /* list: an array of struct str */
};

struct cel_map;
struct cel_cidr;
struct cel_url;
struct cel_regex;
struct cel_zone;

/* One value, cheap to copy; what it points at belongs to whoever made it. */
struct cel_value {
    uint8_t kind; /* enum cel_kind */
    uint8_t form; /* enum cel_form; of an error: enum cel_fault */
    union {
        uint16_t is_long; /* of a double: JSON_LONG, an integer that is no int or uint */
        uint16_t kinds;   /* of an error CEL_FAULT_OVERLOAD: of what was given (cel_give_kinds) */
    };
    uint32_t
        size; /* bytes, elements, or a timestamp's nanoseconds; of an error: place in the source */
    union {
        bool boolean;
        int64_t integer; /* CEL_INT; seconds since 1970 (timestamp); nanoseconds (duration); kind
                            (type) */
        uint64_t natural;
        double number;
        const char *bytes; /* CEL_STRING (well-formed UTF-8), CEL_BYTES */
        const struct cel_value *items;
        const struct str *texts; /* also what an error tells of; may be NULL */
        const struct json *json;
        const struct cel_map *map;
        const struct cel_cidr *cidr; /* CEL_CIDR; CEL_IP: the range of one address */
        const struct cel_url *url;
        const struct cel_regex *regex;
        const struct cel_zone *zone;
    };
};

struct cel_value cel_of_json(const struct json *value); /* NULL: the empty map */
struct cel_value cel_of_str(struct str text); /* absent: the empty string; at most 4 GiB */
struct cel_value cel_of_strs(const struct str *texts, size_t count);
struct cel_value cel_of_ms(uint64_t ms); /* a timestamp; milliseconds since 1970 */

static inline bool cel_is_true(struct cel_value v) { return v.kind == CEL_BOOL && v.boolean; }

/* The value as JSON: numbers as they are, bytes as base64, times and durations as text.
 * ERR_WRONG_TYPE where JSON has no such thing (types, NaN, keys that are no strings), ERR_FULL.
 * Bounded by `depth`. */
enum err cel_to_json(struct cel_value v, unsigned depth, struct arena *arena, struct json **ret);

/* The value as CEL would write it, for people: [1, 2u, "a"]. Stops quietly where `out` is full. */
void cel_put_value(struct buf *out, struct cel_value v);

/* ---- types ---- */

struct cel_type;
const struct cel_type *cel_type_bool(void);
/* "map(string, dyn)"; NULL: no such type, or the arena is full. */
const struct cel_type *cel_type_read(struct str text, struct arena *arena);
void cel_put_type(struct buf *out, const struct cel_type *type);

/* ---- environments ---- */

struct cel_variable {
    struct str name; /* may be qualified: "a.b" */
    const struct cel_type *type;
};

/* What programs have taken to be made, for who bounds it over many of them. */
struct cel_room {
    /* regular expressions, their Unicode classes (\p), the instructions that they compile to */
    size_t regexes, regex_classes, regex_instructions;
    /* of instructions, the last one may go beyond */
    size_t regexes_max, regex_classes_max, regex_instructions_max;
    /* steps left for working out constants beforehand; where none are, a run works them out */
    uint64_t folding_left;
};

struct cel_environment {
    const struct cel_variable *variables; /* a variable's number is its place here */
    size_t count;
    struct str container;         /* namespace that names are looked up in first; absent: none */
    const struct cel_type *wants; /* the type the whole has to have; NULL: any */
    bool unchecked;               /* no type check: what is wrong shows when it is run */
    /* Refuse what expressions of stored documents may have, too, and cel-go refuses: a name in back
     * quotes that is no field, and an element of [] or {} that is used as two types. */
    bool is_strict;
    struct cel_room *room; /* counted and refused in there; NULL: not bounded */
};

/* The variables of a condition, in order. */
enum cel_policy_variable {
    CEL_ACTION,
    CEL_TOOL,
    CEL_ARGS,
    CEL_RESOURCE,
    CEL_CONTEXT,
    CEL_REQUEST,
    CEL_ACTOR,
    CEL_USER,
    CEL_ACTING_FOR,
    CEL_TENANT,
    CEL_SCOPE,
    CEL_ROLES,
    CEL_NOW,
    CEL_POLICY_VARIABLES,
};
struct cel_environment cel_policy_environment(void);

/* ---- programs ---- */

enum {
    CEL_PROBLEMS_MAX = 10,
    CEL_TEXT_MAX = 64 << 10, /* bytes of an expression */
    CEL_DEPTH_MAX = 120,     /* levels of nesting of an expression */
};

struct cel_problem {
    uint32_t offset;       /* byte of the text */
    uint32_t line, column; /* 1-based; columns are code points */
    char message[240];
};

struct cel_problems {
    size_t count;
    struct cel_problem list[CEL_PROBLEMS_MAX]; /* in the order of the text */
};

struct cel_program;

/* ERR_INVALID_POLICY with at least one problem, or ERR_FULL where the arena is. */
must_use enum err cel_compile(struct str text, const struct cel_environment *environment,
                              struct arena *arena, struct cel_program **ret,
                              struct cel_problems *ret_problems);
void cel_program_fini(struct cel_program *program); /* NULL is fine */
/* The same judgement of a text without making a program of it; constants are not looked at. */
must_use enum err cel_examine(struct str text, const struct cel_environment *environment,
                              struct cel_problems *ret_problems);
const struct cel_type *cel_program_type(const struct cel_program *program);
/* Whether the program looks at this variable at all, so that a caller need not make it. */
bool cel_program_reads(const struct cel_program *program, size_t variable);
/* Whether some key or index is known only when it is run: a[b], not a.b or a["b"]. */
bool cel_program_looks_up(const struct cel_program *program);

/* The typed tree of an expression, one node a line; and a program's instructions. */
enum err cel_put_tree(struct buf *out, struct str text, const struct cel_environment *environment,
                      struct cel_problems *ret_problems);
void cel_put_code(struct buf *out, const struct cel_program *program);

/* ---- runs ---- */

struct cel_limits {
    uint64_t cost;           /* 0: CEL_COST_DEFAULT */
    size_t memory_bytes;     /* 0: CEL_MEMORY_DEFAULT */
    uint64_t *ret_cost_left; /* gets what the run leaves of its cost; may be NULL */
};

enum {
    CEL_COST_DEFAULT = 1000000, /* some ten milliseconds, at worst twenty */
    CEL_MEMORY_DEFAULT = 1 << 20,
};

/* What a run may fail of. */
enum cel_fault {
    CEL_FAULT_NONE,
    CEL_FAULT_OVERLOAD, /* no such function for these types */
    CEL_FAULT_KEY,      /* no such key */
    CEL_FAULT_INDEX,    /* no such element */
    CEL_FAULT_DIVIDE,   /* by zero */
    CEL_FAULT_MODULUS,  /* by zero */
    CEL_FAULT_OVERFLOW,
    CEL_FAULT_RANGE,     /* a conversion's result cannot be held */
    CEL_FAULT_SYNTAX,    /* a text is not what it is read as */
    CEL_FAULT_ARGUMENT,  /* a value that the function does not take */
    CEL_FAULT_DUPLICATE, /* a key twice in a map */
    CEL_FAULT_REFERENCE, /* an unknown variable or one that is not bound */
    CEL_FAULT_FUNCTION,  /* an unknown function */
    CEL_FAULT_ESCAPE,    /* a path that leaves its root */
    CEL_FAULT_ORDER,     /* the greatest or least of NaN and others */
    CEL_FAULT_COST,      /* from here on: limits, which nothing absorbs */
    CEL_FAULT_MEMORY,
    CEL_FAULT_DEPTH,
};

/* Runs the program over its environment's variables, in their order. True: *ret is the value, good
 * while arena, program and inputs live. False: *ret is the error (kind CEL_ERROR). `limits` NULL:
 * the defaults. */
bool cel_run(const struct cel_program *program, const struct cel_value *variables,
             struct arena *arena, const struct cel_limits *limits, struct cel_value *ret);

/* "no such key: amount (at column 6)". */
void cel_put_error(struct buf *out, struct cel_value error);

#endif
