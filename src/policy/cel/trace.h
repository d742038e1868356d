/* trace.h - which parts of a condition decided it, told to people.
 *
 *     args.amount > 0 && args.amount <= 500      with amount 620 is false, because of
 *     args.amount <= 500 → 620 <= 500 → false
 *
 * A slow path beside the VM: the text is parsed again, and only what decided is walked down to. Of
 * `&&` that is false the first side that is; where it is true both sides; `||` the other way round;
 * of `? :` the test and the side it took; of all() and exists() the element that settled it; of a
 * call that failed the operand that did. What is left is told as it is written, with the values of
 * its operands in their places, and what came out.
 *
 * What may not be shown is asked for by path (args.card_number): a part that reads it, or anything
 * that holds it, shows "[masked]" in its place, and a failure there does not name its text. */
#ifndef POLICY_CEL_TRACE_H
#define POLICY_CEL_TRACE_H

#include "policy/cel/cel.h"

enum {
    CEL_TRACE_LINES = 6,     /* more are counted, not told */
    CEL_TRACE_SEGMENTS = 16, /* of a path; a longer one is asked for by its beginning */
    /* parts that one explanation may run: ten milliseconds, 200 at worst */
    CEL_TRACE_RUNS_MAX = 1000,
};

/* Whether this path, or a part of what it leads to, may not be shown. segments[0] is the variable;
 * an absent one stands for any key. */
typedef bool cel_hidden(void *context, const struct str *segments, size_t count);

struct cel_tracing {
    struct cel_environment environment;
    const struct cel_value *variables; /* of the environment, in their order */
    struct arena *arena;               /* of what is told */
    cel_hidden *hidden;                /* NULL: nothing is */
    void *context;
    unsigned *runs_left; /* counted down; shared by all that is explained at once */
};

struct cel_trace {
    struct str lines[CEL_TRACE_LINES]; /* "args.amount <= 500 → 620 <= 500 → false" */
    size_t count;
    size_t more;   /* not told */
    bool is_whole; /* the only line is about the whole expression */
};

/* False: nothing could be told (no memory, no runs left). */
bool cel_trace(const struct cel_tracing *t, struct str text, struct cel_trace *ret);

/* Whether the text reads anything that may not be shown. True also where that cannot be said. */
bool cel_reads_hidden(const struct cel_tracing *t, struct str text);

#endif
