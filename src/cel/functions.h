/* functions.h - the table of functions (functions.def), and common code of their implementations.
 *
 * A function gets its arguments (the receiver first) and checks their kinds itself, because the
 * checker cannot know the type of a `dyn`. A kind that it does not accept is CEL_FAULT_OVERLOAD.
 * Functions are pure, so the compiler may run them on constants. */
#ifndef CEL_FUNCTIONS_H
#define CEL_FUNCTIONS_H

#include "cel/types.h"
#include "cel/value.h"

typedef struct cel_value cel_function_code(struct cel_meter *m, const struct cel_value *a,
                                           uint32_t count);

enum cel_function_id {
#define FUNCTION(id, name, code, prepares, overloads) FUNCTION_##id,
#include "cel/functions.def"
#undef FUNCTION
    FUNCTIONS,
};

enum cel_prepares { PREPARES_NONE, PREPARES_REGEX, PREPARES_ZONE, PREPARES_CIDR };

struct cel_function {
    struct str name;
    cel_function_code *code;
    enum cel_prepares prepares;
    const char *overloads;
};

extern const struct cel_function cel_functions[FUNCTIONS];

/* The function of that name, or FUNCTIONS. */
enum cel_function_id cel_function_find(struct str name);

/* Whether some overload has that style and count of arguments (the receiver counts). */
bool cel_function_takes(enum cel_function_id id, bool has_receiver, uint32_t count);

/* The type of a call with arguments of these types; NULL: no overload fits. Binds variables. */
const struct cel_type *cel_function_result(struct cel_types *types, enum cel_function_id id,
                                           bool has_receiver,
                                           const struct cel_type *const *arguments, uint32_t count);

#define FUNCTION(id, name, code, prepares, overloads) cel_function_code code;
#include "cel/functions.def"
#undef FUNCTION

/* ---- for the implementations ---- */

static inline struct cel_value cel_no_overload(void) { return cel_fail(CEL_FAULT_OVERLOAD, NULL); }

/* The measured cost of writing a number, a time or an address as a text. */
static inline unsigned cel_text_cost(struct cel_value v)
{
    switch (v.kind) {
    case CEL_INT:
    case CEL_UINT: return 2;
    case CEL_DURATION: return 6;
    case CEL_DOUBLE: return 14; /* the shortest text that is the same number */
    case CEL_TIMESTAMP:
    case CEL_IP:
    case CEL_CIDR: return 25;
    default: return 0;
    }
}

/* The part of a text that fits into an error. */
struct str cel_about(struct str text);

/* An error about a text of the run (copied). */
struct cel_value cel_fail_text(struct cel_meter *m, enum cel_fault fault, struct str about);

#endif
