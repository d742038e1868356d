/* cel.h - conditions: CEL (the Common Expression Language) compiled to bytecode and run.
 *
 * How to use it. Once, when a document is loaded:
 *
 *     struct cel_environment environment = cel_policy_environment();  // action, args, actor, now, …
 *     environment.wants = cel_type_bool();                            // a `when`; NULL takes any type
 *     struct cel_program *program;
 *     struct cel_problems problems = {0};
 *     if (cel_compile(text, &environment, arena, &program, &problems) != ERR_OK) … report problems
 *
 * and with each request:
 *
 *     struct cel_value variables[CEL_POLICY_VARIABLES];               // filled once, for all rules
 *     variables[CEL_ARGS] = cel_of_json(args);                        // wrapped, nothing is copied
 *     struct cel_value value;
 *     if (cel_run(program, variables, arena, NULL, &value) && cel_is_true(value)) … the rule applies
 *     else if (value.kind == CEL_ERROR) … cel_put_error() has the reason and position
 *
 * and when the document is freed: cel_program_fini(), because compiled regular expressions live on
 * the heap. The rest of a program lies in the arena of its compilation, and has no pointer to the
 * source text or the environment.
 *
 * What it is. The language of github.com/google/cel-spec without protobuf messages: parsed and
 * type-checked with gradual `dyn`; checked int64 and uint64 arithmetic; equality and order across
 * the number types; errors absorbed by && and ||; the macros has, all, exists, exists_one, map,
 * filter (also with two variables), transformList, transformMap and cel.bind; the `strings` and
 * `math` extensions; and beside them
 *
 *     text.glob(pattern)          anchored, only * is special; bytes are compared as they are
 *     address.cidr(range)         whether the IPv4 or IPv6 address is in the range
 *     cidr(), ip(), url()         and their methods, as in Kubernetes (network.c)
 *     path_under(root, path)      the path, normalised and below root; an error if it leaves root
 *     shell(text)                 the commands of a command line; an error if it is not certain
 *
 * A program is immutable and may be run by any number of threads at once. A run reads no clock,
 * does no I/O and takes memory from the given arena only; RE2 also has a bounded cache per
 * pattern. A run has bounds: cost (about one per instruction, and per 16 bytes or element read),
 * memory, and depth by the depth of the source and of its inputs. A limit that is reached ends the
 * run; unlike other errors, && and || do not absorb it.
 *
 * If the specification and its reference implementation (cel-go) differ, the specification holds: a
 * repeated key in a map literal is an error, and so are has(e.f) if e is no map, and indexOf from
 * beyond the text. getMilliseconds of a duration is the part below the second. Durations are exact;
 * cel-go computes them with doubles. tests/conformance/cel_differential/differences.py has the
 * whole list, with references. As in cel-go, an integer is compared with a double as a double,
 * nothing is less or greater than NaN, and string(1000000.0) is "1e+06". Invalid constants that
 * are regular expressions, zones, ranges, times or durations are refused when the program is made. */
#ifndef CEL_CEL_H
#define CEL_CEL_H

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

/* The representation of a list or a map. */
enum cel_form {
    CEL_OWN,   /* list: an array of values; map: a struct cel_map */
    CEL_JSON,  /* a struct json array or object, read in place */
    CEL_TEXTS, /* list: an array of struct str */
};

struct cel_map;
struct cel_cidr;
struct cel_url;
struct cel_regex;
struct cel_zone;

/* One value, cheap to copy. It does not own the memory that it points at. */
struct cel_value {
    uint8_t kind; /* enum cel_kind */
    uint8_t form; /* enum cel_form; of an error: enum cel_fault */
    union {
        uint16_t is_long; /* of a double: JSON_LONG, an integer that is no int or uint */
        uint16_t kinds;   /* of an error CEL_FAULT_OVERLOAD: of the arguments (cel_give_kinds) */
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
        const struct str *texts; /* also the text of an error; may be NULL */
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

/* The value as JSON: bytes as base64, times and durations as text. ERR_WRONG_TYPE if JSON has no
 * such value (types, NaN, keys that are no strings), ERR_FULL. Bounded by `depth`. */
enum err cel_to_json(struct cel_value v, unsigned depth, struct arena *arena, struct json **ret);

/* The value in CEL's syntax, for people: [1, 2u, "a"]. Stops without an error if `out` is full. */
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

/* The cost of compiling programs, for callers that bound it over many of them. */
struct cel_room {
    /* regular expressions, their Unicode classes (\p), the instructions that they compile to */
    size_t regexes, regex_classes, regex_instructions;
    /* of instructions, the last one may go beyond */
    size_t regexes_max, regex_classes_max, regex_instructions_max;
    /* steps left for computing constants at compile time; without steps, a run computes them */
    uint64_t folding_left;
};

struct cel_environment {
    const struct cel_variable *variables; /* a variable's number is its index here */
    size_t count;
    struct str container;         /* namespace that names are looked up in first; absent: none */
    const struct cel_type *wants; /* the required type of the expression; NULL: any */
    bool unchecked;               /* no type check: errors appear at run time */
    /* Also refuse expressions that stored documents may have, but cel-go refuses: a name in back
     * quotes that is no field, and an element of [] or {} that is used as two types. */
    bool is_strict;
    struct cel_room *room; /* counts the cost and bounds it; NULL: not bounded */
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

/* ERR_INVALID_POLICY with at least one problem, or ERR_FULL if the arena is full. */
enum err cel_compile(struct str text, const struct cel_environment *environment,
                     struct arena *arena, struct cel_program **ret,
                     struct cel_problems *ret_problems);
void cel_program_fini(struct cel_program *program); /* NULL is fine */
/* The same check of a text without making a program; constants are not checked. */
enum err cel_examine(struct str text, const struct cel_environment *environment,
                     struct cel_problems *ret_problems);
const struct cel_type *cel_program_type(const struct cel_program *program);
/* Whether the program reads this variable; if not, a caller need not make it. */
bool cel_program_reads(const struct cel_program *program, size_t variable);
/* Whether some key or index is known only at run time: a[b], not a.b or a["b"]. */
bool cel_program_looks_up(const struct cel_program *program);

/* The typed tree of an expression, one node a line; and a program's instructions. */
enum err cel_put_tree(struct buf *out, struct str text, const struct cel_environment *environment,
                      struct cel_problems *ret_problems);
void cel_put_code(struct buf *out, const struct cel_program *program);

/* ---- runs ---- */

struct cel_limits {
    uint64_t cost;           /* 0: CEL_COST_DEFAULT */
    size_t memory_bytes;     /* 0: CEL_MEMORY_DEFAULT */
    uint64_t *ret_cost_left; /* gets the rest of the run's cost limit; may be NULL */
};

enum {
    CEL_COST_DEFAULT = 1000000, /* some ten milliseconds, at worst twenty */
    CEL_MEMORY_DEFAULT = 1 << 20,
};

/* The reasons of a failed run. */
enum cel_fault {
    CEL_FAULT_NONE,
    CEL_FAULT_OVERLOAD, /* no such function for these types */
    CEL_FAULT_KEY,      /* no such key */
    CEL_FAULT_INDEX,    /* no such element */
    CEL_FAULT_DIVIDE,   /* by zero */
    CEL_FAULT_MODULUS,  /* by zero */
    CEL_FAULT_OVERFLOW,
    CEL_FAULT_RANGE,     /* a conversion's result cannot be held */
    CEL_FAULT_SYNTAX,    /* a text does not have the expected form */
    CEL_FAULT_ARGUMENT,  /* a value that the function does not accept */
    CEL_FAULT_DUPLICATE, /* a key twice in a map */
    CEL_FAULT_REFERENCE, /* an unknown variable or one that is not bound */
    CEL_FAULT_FUNCTION,  /* an unknown function */
    CEL_FAULT_ESCAPE,    /* a path that leaves its root */
    CEL_FAULT_SHELL,     /* a command line that is not certain */
    CEL_FAULT_ORDER,     /* the greatest or least of NaN and others */
    CEL_FAULT_COST,      /* from here on: limits, which && and || do not absorb */
    CEL_FAULT_MEMORY,
    CEL_FAULT_DEPTH,
};

/* Runs the program over its environment's variables, in their order. True: *ret is the value, valid
 * while arena, program and inputs live. False: *ret is the error (kind CEL_ERROR). `limits` NULL:
 * the defaults. */
bool cel_run(const struct cel_program *program, const struct cel_value *variables,
             struct arena *arena, const struct cel_limits *limits, struct cel_value *ret);

/* "no such key: amount (at column 6)". */
void cel_put_error(struct buf *out, struct cel_value error);

/* Whether these 4 or 16 bytes of an address are a unicast address of the public Internet, as
 * isPrivate() understands it; for code that connects to a configured host. */
bool cel_address_is_public(const uint8_t *bytes, size_t size);

#endif
