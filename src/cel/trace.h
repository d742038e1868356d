/* trace.h - the parts of a condition that decided it, as text for people.
 *
 *     args.amount > 0 && args.amount <= 500      with amount 620 is false, because of
 *     args.amount <= 500 → 620 <= 500 → false
 *
 * A slow path beside the VM: the text is parsed again, and the trace goes down to the parts that
 * decided. For a false `&&` that is the first false side, for a true one both sides; for `||` the
 * reverse. For `? :` it is the test and the chosen side, for all() and exists() the element that
 * decided, for a failed call the operand that failed. A line has the part as it is written, with
 * the values of its operands in their positions, and its result.
 *
 * Hidden values are identified by path (args.card_number). A part that reads one, or a value that
 * contains one, shows "[masked]", and a failure there does not have its text. */
#ifndef CEL_TRACE_H
#define CEL_TRACE_H

#include "cel/cel.h"

enum {
    CEL_TRACE_LINES = 6,     /* more are only counted */
    CEL_TRACE_SEGMENTS = 16, /* of a path; of a longer one only the beginning is checked */
    /* parts that one explanation may run: ten milliseconds, 200 at worst */
    CEL_TRACE_RUNS_MAX = 1000,
};

/* Whether the value at this path, or a part of it, is hidden. segments[0] is the variable; an
 * absent segment stands for any key. */
typedef bool cel_hidden(void *context, const struct str *segments, size_t count);

struct cel_tracing {
    struct cel_environment environment;
    const struct cel_value *variables; /* of the environment, in their order */
    struct arena *arena;               /* for the lines */
    cel_hidden *hidden;                /* NULL: nothing is hidden */
    void *context;
    unsigned *runs_left; /* counted down; shared by all explanations of one request */
};

struct cel_trace {
    struct str lines[CEL_TRACE_LINES]; /* "args.amount <= 500 → 620 <= 500 → false" */
    size_t count;
    size_t more;   /* left out */
    bool is_whole; /* the only line is about the whole expression */
};

/* False: no lines (no memory, no runs left). */
bool cel_trace(const struct cel_tracing *t, struct str text, struct cel_trace *ret);

/* Whether the text reads a hidden value. Also true if that is not known. */
bool cel_reads_hidden(const struct cel_tracing *t, struct str text);

#endif
