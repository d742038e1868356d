/* trie.c - building the radix tree, and walking it. */
#include "policy/trie.h"

#include <stdlib.h>

#include "base/check.h"

/* Nodes while they are made: the array moves as it grows, so nodes are named by number. */
struct growing {
    struct trie_node *nodes;
    size_t count, capacity;
    bool failed;
};

static uint32_t nodes_take(struct growing *g, size_t count)
{
    if (g->capacity - g->count < count) {
        size_t capacity = g->capacity * 2 + count;
        struct trie_node *larger = realloc(g->nodes, capacity * sizeof *larger);
        if (larger == NULL || capacity >= TRIE_NONE) {
            if (larger != NULL) g->nodes = larger;
            g->failed = true;
            return 0;
        }
        g->nodes = larger;
        g->capacity = capacity;
    }
    memset(g->nodes + g->count, 0, count * sizeof *g->nodes);
    g->count += count;
    return (uint32_t)(g->count - count);
}

static size_t common_prefix(struct str a, struct str b, size_t from)
{
    size_t at = from;
    while (at < a.size && at < b.size && a.bytes[at] == b.bytes[at]) at++;
    return at - from;
}

/* How many of `keys` have the same byte at `depth` as the first of them. */
static size_t same_byte(const struct trie_key *keys, size_t count, size_t depth)
{
    size_t same = 1;
    while (same < count && keys[same].bytes.bytes[depth] == keys[0].bytes.bytes[depth]) same++;
    return same;
}

static size_t popcount(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (size_t)(x * 0x0101010101010101u >> 56);
}

static size_t child_number(const struct trie_node *n, unsigned char byte)
{
    uint64_t before = ((uint64_t)1 << (byte & 63)) - 1;
    return n->below[byte >> 6] + popcount(n->leads[byte >> 6] & before);
}

/* Fills node `number` with keys that agree in their first `depth` bytes. Depth of recursion is
 * bounded by the length of a key (GLOB_BYTES_MAX). */
static void fill(struct growing *g, uint32_t number, const struct trie_key *keys, size_t count,
                 size_t depth)
{
    size_t label = common_prefix(keys[0].bytes, keys[count - 1].bytes, depth);
    if (label > TRIE_LABEL) label = TRIE_LABEL;
    struct trie_node n = {.value = TRIE_NONE, .label_size = (uint8_t)label};
    memcpy(n.label, keys[0].bytes.bytes + depth, label);
    depth += label;
    if (keys[0].bytes.size == depth) {
        n.value = keys[0].value;
        keys++;
        count--;
    }
    size_t children = 0;
    for (size_t i = 0; i < count; i += same_byte(keys + i, count - i, depth)) {
        unsigned char byte = (unsigned char)keys[i].bytes.bytes[depth];
        n.leads[byte >> 6] |= (uint64_t)1 << (byte & 63);
        children++;
    }
    for (int word = 1; word < 4; word++)
        n.below[word] = (uint8_t)(n.below[word - 1] + popcount(n.leads[word - 1]));
    if (children > 0) n.first_child = nodes_take(g, children);
    if (g->failed) return;
    g->nodes[number] = n;

    uint32_t child = n.first_child;
    for (size_t i = 0; i < count && !g->failed;) {
        size_t same = same_byte(keys + i, count - i, depth);
        fill(g, child++, keys + i, same, depth + 1);
        i += same;
    }
}

bool trie_build(struct trie *t, struct arena *arena, const struct trie_key *keys, size_t count)
{
    *t = (struct trie){0};
    if (count == 0) return true;
    struct growing g = {0};
    uint32_t root = nodes_take(&g, 1);
    if (!g.failed) fill(&g, root, keys, count, 0);
    struct trie_node *nodes = NULL;
    if (!g.failed) {
        /* One cache line more, to begin at the start of one. */
        char *bytes = arena_bytes(arena, (g.count + 1) * sizeof *nodes);
        if (bytes != NULL) {
            nodes = (struct trie_node *)(void *)(bytes + (-(uintptr_t)bytes & (sizeof *nodes - 1)));
            memcpy(nodes, g.nodes, g.count * sizeof *nodes);
        }
    }
    free(g.nodes);
    t->nodes = nodes;
    return nodes != NULL;
}

/* A loop, not memcmp: most labels are empty or a few bytes, and the call would cost more. */
static inline bool label_follows(const struct trie_node *n, struct str text, size_t at)
{
    if (n->label_size > text.size - at) return false;
    for (size_t i = 0; i < n->label_size; i++)
        if (n->label[i] != text.bytes[at + i]) return false;
    return true;
}

uint32_t trie_walk_next(struct trie_walk *w)
{
    const struct trie_node *nodes = w->nodes;
    struct str text = w->text;
    uint32_t node = w->node;
    size_t at = w->at;
    while (node != TRIE_NONE) {
        const struct trie_node *n = &nodes[node];
        node = TRIE_NONE;
        if (!label_follows(n, text, at)) break;
        at += n->label_size;
        if (at < text.size) {
            unsigned char byte = (unsigned char)text.bytes[at];
            if (n->leads[byte >> 6] >> (byte & 63) & 1) {
                node = n->first_child + (uint32_t)child_number(n, byte);
                at++;
            }
        }
        if (n->value == TRIE_NONE) continue;
        w->node = node;
        w->at = at;
        return n->value;
    }
    w->node = TRIE_NONE;
    return TRIE_NONE;
}
