/* node.h - a document as a tree of typed values with their positions.
 *
 * YAML (libyaml's events, YAML 1.2 core schema) and JSON (json/) become the same tree, so the
 * readers of a document do not depend on the syntax. A node begins with a `struct json` and its
 * children are nodes too: any part of the tree can be used as a JSON value.
 *
 * Refused with line and column: aliases, anchors, tags (%TAG, too), more than one document,
 * duplicate keys, keys that are not strings, numbers that cannot be held, too much nesting, too
 * many values. An error of one value (an alias, a tag) marks it as `bad` and reading continues, so
 * that an author sees several problems at once. Readers report nothing about bad nodes. */
#ifndef POLICY_NODE_H
#define POLICY_NODE_H

#include "base/arena.h"
#include "policy/problem.h"

/* values of one document: 1 MiB of `[a,a,…]` would be half a million */
enum { NODES_MAX = 256 << 10 };

struct node {
    struct json json;      /* first, so that a json pointer into the tree is a node pointer */
    unsigned line, column; /* of the value, 1-based, in characters */
    unsigned key_line, key_column;
    /* of the first character of a string whose text is the value itself; else 0 */
    unsigned text_column;
    bool bad; /* a problem was reported already */
};

static inline struct node *node_of(struct json *v) { return (struct node *)(void *)v; }
static inline struct node *node_first(const struct node *n) { return node_of(n->json.child); }
static inline struct node *node_next(const struct node *n) { return node_of(n->json.next); }

/* The member `key` of a map, or NULL. Linear. */
struct node *node_get(const struct node *map, const char *key);

/* Reads a whole text. NULL: no tree; the problems have the reasons, unless memory ran out (then
 * arena->overflow is set). The tree lies in `arena` and points into `text`. */
struct node *node_read(struct str text, struct arena *arena, struct policy_problems *problems);
bool node_text_is_json(struct str text); /* starts with `{`, white space aside */

/* The two readers behind node_read(). */
struct node *node_read_yaml(struct str text, struct arena *arena, struct policy_problems *problems);
struct node *node_read_json(struct str text, struct arena *arena, struct policy_problems *problems);

/* A plain YAML scalar by the core schema: sets type and value. False: a number that cannot be
 * held, or not a finite one. */
bool node_resolve_plain(struct json *v, struct str text, struct arena *arena);

/* The line and column of byte `offset` of `text`, 1-based, in characters. Callers use rising
 * offsets, so a cursor makes the whole linear. */
struct text_cursor {
    struct str text;
    size_t offset;
    unsigned line, column;
};
void text_cursor_init(struct text_cursor *c, struct str text);
void text_cursor_move(struct text_cursor *c, size_t offset); /* not before c->offset */

#endif
