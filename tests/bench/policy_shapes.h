/* policy_shapes.h - tenants of many rules for the benchmarks: one way of telling rules apart each.
 *
 * Rule number n of a shape is matched by the request made of number n; a number that no rule has
 * makes the same request for nobody. The mixed shape is all the others in turns, in documents of
 * a thousand rules. */
#ifndef BENCH_POLICY_SHAPES_H
#define BENCH_POLICY_SHAPES_H

#include <stdio.h>

#include "base/buf.h"
#include "policy/policy.h"

enum { SHAPES_DOCUMENT_RULES = 7000, MIXED_DOCUMENT_RULES = 1000, SHAPE_NAME_BYTES = 48 };

struct shape {
    const char *name;
    const char *rule; /* %zu: the rule's number; NULL: every other shape in turns */
    const char *actor, *action,
        *resource; /* %zu: a number of a rule, or one beyond all; NULL: none */
};

static const struct shape shapes[] = {
    {"exact", "agents: [invoice_bot], actions: [tool_%05zu], decision: allow", "invoice_bot",
     "tool_%05zu", NULL},
    {"prefix", "agents: [invoice_bot], actions: [\"svc%05zu.*\"], decision: allow", "invoice_bot",
     "svc%05zu.get", NULL},
    {"suffix", "agents: [invoice_bot], actions: [\"*.of_%05zu\"], decision: allow", "invoice_bot",
     "get.of_%05zu", NULL},
    {"inner", "agents: [invoice_bot], actions: [\"*_x%05zuy_*\"], decision: deny", "invoice_bot",
     "get_x%05zuy_all", NULL},
    {"two ends", "agents: [invoice_bot], actions: [\"write_*_%05zu\"], decision: allow",
     "invoice_bot", "write_a_%05zu", NULL},
    {"subject", "agents: [bot_%05zu], actions: [read_file], decision: allow", "bot_%05zu",
     "read_file", NULL},
    {"resource", "agents: [doc_bot], actions: [edit], resources: [\"doc:%05zu\"], decision: allow",
     "doc_bot", "edit", "%05zu"},
    {"limit",
     "agents: [pay_bot], actions: [pay_%05zu], decision: allow, limit: {window: 1h, count: 30, "
     "sum: args.amount, max: 5000}",
     "pay_bot", "pay_%05zu", NULL},
    {"when", "agents: [if_bot], actions: [if_%05zu], when: args.amount < 500.0, decision: allow",
     "if_bot", "if_%05zu", NULL},
    {"mixed", NULL, NULL, NULL, NULL},
};

enum { SHAPES = sizeof shapes / sizeof *shapes, SHAPES_PLAIN = SHAPES - 1 };

/* The shape that number `number` of `shape` has. */
static inline const struct shape *shape_at(const struct shape *shape, size_t number)
{
    return shape->rule == NULL ? &shapes[number % SHAPES_PLAIN] : shape;
}

static inline size_t shape_document_rules(const struct shape *shape)
{
    return shape->rule == NULL ? MIXED_DOCUMENT_RULES : SHAPES_DOCUMENT_RULES;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* The document with rules `from` to `to`. */
static inline void shape_put_document(const struct shape *shape, size_t from, size_t to,
                                      struct buf *out)
{
    buf_put_literal(out, "confidence: {allow_at: 0.9, review_at: 0.5}\nrules:\n");
    for (size_t i = from; i < to; i++) {
        buf_printf(out, "  - {id: r%zu, ", i);
        buf_printf(out, shape_at(shape, i)->rule, i);
        buf_put_literal(out, "}\n");
    }
}

/* What `format` says of a number; "" where the shape has none. */
static inline void shape_name(const char *format, size_t number, char to[SHAPE_NAME_BYTES])
{
    to[0] = '\0';
    if (format != NULL) snprintf(to, SHAPE_NAME_BYTES, format, number);
}

#pragma GCC diagnostic pop

#endif
