/* trie.h - the keys that a text begins with.
 *
 * A radix tree whose nodes are one cache line each: a bitmap of the bytes that lead on, and up
 * to 18 bytes of a label that has to follow. The children of a node are neighbours, so the
 * number of bits below a byte's bit finds the child. Built once from sorted keys; immutable. */
#ifndef POLICY_TRIE_H
#define POLICY_TRIE_H

#include "base/arena.h"

enum { TRIE_LABEL = 19, TRIE_NONE = UINT32_MAX };

struct trie_node {
    uint64_t leads[4]; /* which bytes have a child */
    uint32_t first_child;
    uint32_t value;   /* TRIE_NONE: no key ends here */
    uint8_t below[4]; /* children before each word of `leads` */
    uint8_t label_size;
    char label[TRIE_LABEL];
};
_Static_assert(sizeof(struct trie_node) == 64, "a node is one cache line");

struct trie {
    const struct trie_node *nodes; /* NULL: no keys */
};

struct trie_key {
    struct str bytes;
    uint32_t value;
};

/* `keys` are sorted (str_compare) and differ from each other. False: out of memory. */
bool trie_build(struct trie *t, struct arena *arena, const struct trie_key *keys, size_t count);

/* Walks along `text` and calls for every key that it begins with, shortest first. Written as a
 * stepping cursor, so that the caller's visit is a plain call. */
struct trie_walk {
    const struct trie_node *nodes;
    uint32_t node; /* TRIE_NONE: at the end */
    struct str text;
    size_t at;
};

static inline struct trie_walk trie_walk_begin(const struct trie *t, struct str text)
{
    return (struct trie_walk){
        .nodes = t->nodes, .node = t->nodes == NULL ? TRIE_NONE : 0, .text = text};
}

/* The value of the next key, or TRIE_NONE at the end. */
uint32_t trie_walk_next(struct trie_walk *w);

#endif
