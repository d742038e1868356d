#include "evidence/merkle.h"

#include "base/check.h"
#include "base/little.h"

static const uint64_t size_most = UINT64_MAX >> 1;

/* ---- hashes ---- */

/* The first byte keeps a leaf from being taken for a node (RFC 6962, 2.1). */
struct sha256 merkle_leaf(struct hasher *h, struct str bytes)
{
    hasher_begin(h);
    hasher_add(h, str_of("\0", 1));
    hasher_add(h, bytes);
    return hasher_end(h);
}

struct sha256 merkle_node(struct hasher *h, const struct sha256 *left, const struct sha256 *right)
{
    char both[1 + 2 * SHA256_BYTES] = {1};
    memcpy(both + 1, left->bytes, SHA256_BYTES);
    memcpy(both + 1 + SHA256_BYTES, right->bytes, SHA256_BYTES);
    return hasher_sha256(h, str_of(both, sizeof both));
}

struct sha256 merkle_empty(struct hasher *h) { return hasher_sha256(h, str_of("", 0)); }

/* ---- the frontier ---- */

static size_t root_count(uint64_t size) { return (size_t)__builtin_popcountll(size); }

void frontier_append(struct frontier *f, struct hasher *h, const struct sha256 *leaf)
{
    check(f->size < size_most);
    size_t count = root_count(f->size);
    struct sha256 grown = *leaf;
    for (uint64_t size = f->size; (size & 1) != 0; size >>= 1)
        grown = merkle_node(h, &f->roots[--count], &grown);
    f->roots[count] = grown;
    f->size++;
}

struct sha256 frontier_root(const struct frontier *f, struct hasher *h)
{
    if (f->size == 0) return merkle_empty(h);
    size_t count = root_count(f->size);
    struct sha256 root = f->roots[--count];
    while (count > 0) root = merkle_node(h, &f->roots[--count], &root);
    return root;
}

void frontier_put(struct buf *out, const struct frontier *f)
{
    char size[8];
    little_put64(size, f->size);
    buf_put_both(out, str_of(size, sizeof size),
                 str_of((const char *)f->roots, root_count(f->size) * SHA256_BYTES));
}

bool frontier_read(struct str bytes, struct frontier *ret)
{
    if (bytes.size < 8) return false;
    uint64_t size = little_get64(bytes.bytes);
    struct str roots = str_skip(bytes, 8);
    if (size > size_most || roots.size != root_count(size) * SHA256_BYTES) return false;
    *ret = (struct frontier){.size = size};
    memcpy(ret->roots, roots.bytes, roots.size);
    return true;
}

/* ---- making a proof ----
 *
 * Both kinds are a walk from the root down to one place. At each level the walk takes one of two
 * subtrees, and the other one is a hash of the proof: the last of the proof at the top. */

/* The leaves of the left subtree: the largest power of two below `size`, of at least 2. */
static uint64_t left_of(uint64_t size) { return 1ull << (63 - __builtin_clzll(size - 1)); }

static void note_range(struct proof_maker *m, uint64_t first, uint64_t end)
{
    m->ranges[m->proof.count++] = (struct proof_range){.first = first, .end = end};
}

/* The ranges were noted from the top; the proof begins at the bottom, and leaves come by number. */
static void order_ranges(struct proof_maker *m)
{
    size_t count = m->proof.count;
    for (size_t i = 0; i < count; i++) m->ranges[i].place = count - 1 - i;
    for (size_t i = 1; i < count; i++) {
        struct proof_range one = m->ranges[i];
        size_t at = i;
        for (; at > 0 && m->ranges[at - 1].first > one.first; at--)
            m->ranges[at] = m->ranges[at - 1];
        m->ranges[at] = one;
    }
}

void proof_begin_inclusion(struct proof_maker *m, uint64_t index, uint64_t size)
{
    check(index < size && size <= size_most);
    *m = (struct proof_maker){.size = size};
    uint64_t first = 0, end = size;
    while (end - first > 1) {
        uint64_t middle = first + left_of(end - first);
        if (index < middle) {
            note_range(m, middle, end);
            end = middle;
        } else {
            note_range(m, first, middle);
            first = middle;
        }
    }
    order_ranges(m);
}

/* RFC 6962, 2.1.2. The verifier has the old root, so a subtree that is the whole old tree is left
 * out. */
void proof_begin_consistency(struct proof_maker *m, uint64_t old_size, uint64_t size)
{
    check(old_size <= size && size <= size_most);
    *m = (struct proof_maker){.size = size};
    if (old_size == 0) return;
    uint64_t first = 0, end = size;
    while (end != old_size) {
        uint64_t middle = first + left_of(end - first);
        if (old_size <= middle) {
            note_range(m, middle, end);
            end = middle;
        } else {
            note_range(m, first, middle);
            first = middle;
        }
    }
    if (first > 0) note_range(m, first, end);
    order_ranges(m);
}

/* A range that ends in the frontier is one of its subtrees, because its sibling on the walk does not end
 * there. One that begins in it begins with some of its last subtrees. */
void proof_skip(struct proof_maker *m, struct hasher *h, const struct frontier *f)
{
    check(m->added == 0 && f->size <= m->size);
    uint64_t at = 0;
    size_t root = 0;
    for (uint64_t bit = 1ull << 62; bit != 0; bit >>= 1) {
        if ((f->size & bit) == 0) continue;
        while (m->range < m->proof.count && m->ranges[m->range].end <= at) m->range++;
        struct proof_range *r = &m->ranges[m->range];
        if (m->range < m->proof.count && at >= r->first) {
            m->filled.roots[root_count(m->filled.size)] = f->roots[root];
            m->filled.size += bit;
            if (at + bit == r->end) {
                m->proof.hashes[r->place] = frontier_root(&m->filled, h);
                m->filled.size = 0;
                m->range++;
            }
        }
        at += bit;
        root++;
    }
    m->added = f->size;
}

void proof_add(struct proof_maker *m, struct hasher *h, const struct sha256 *leaf)
{
    check(m->added < m->size);
    uint64_t index = m->added++;
    if (m->range == m->proof.count) return;
    const struct proof_range *r = &m->ranges[m->range];
    if (index < r->first) return;
    frontier_append(&m->filled, h, leaf);
    if (m->added < r->end) return;
    m->proof.hashes[r->place] = frontier_root(&m->filled, h);
    m->filled.size = 0;
    m->range++;
}

/* ---- verifying a proof ---- */

bool merkle_verify_inclusion(struct hasher *h, uint64_t index, uint64_t size,
                             const struct sha256 *leaf, const struct merkle_proof *p,
                             const struct sha256 *root)
{
    if (index >= size || size > size_most || p->count > MERKLE_PROOF_MAX) return false;
    uint64_t at = index, last = size - 1;
    struct sha256 hash = *leaf;
    for (size_t i = 0; i < p->count; i++) {
        if (last == 0) return false;
        if ((at & 1) != 0 || at == last) {
            hash = merkle_node(h, &p->hashes[i], &hash);
            for (; (at & 1) == 0 && at != 0; at >>= 1) last >>= 1;
        } else {
            hash = merkle_node(h, &hash, &p->hashes[i]);
        }
        at >>= 1;
        last >>= 1;
    }
    return last == 0 && sha256_equal(&hash, root);
}

bool merkle_verify_consistency(struct hasher *h, uint64_t old_size, uint64_t size,
                               const struct sha256 *old_root, const struct merkle_proof *p,
                               const struct sha256 *root)
{
    if (old_size > size || size > size_most || p->count > MERKLE_PROOF_MAX) return false;
    if (old_size == size) return p->count == 0 && sha256_equal(old_root, root);
    if (old_size == 0) {
        struct sha256 empty = merkle_empty(h);
        return p->count == 0 && sha256_equal(old_root, &empty);
    }
    bool is_whole = (old_size & (old_size - 1)) == 0; /* the old tree is a subtree of the new one */
    size_t i = is_whole ? 0 : 1;
    if (p->count < i || p->count == 0) return false;
    struct sha256 old_hash = is_whole ? *old_root : p->hashes[0], hash = old_hash;
    uint64_t at = old_size - 1, last = size - 1;
    for (; (at & 1) != 0; at >>= 1) last >>= 1;
    for (; i < p->count; i++) {
        if (last == 0) return false;
        if ((at & 1) != 0 || at == last) {
            old_hash = merkle_node(h, &p->hashes[i], &old_hash);
            hash = merkle_node(h, &p->hashes[i], &hash);
            for (; (at & 1) == 0 && at != 0; at >>= 1) last >>= 1;
        } else {
            hash = merkle_node(h, &hash, &p->hashes[i]);
        }
        at >>= 1;
        last >>= 1;
    }
    return last == 0 && sha256_equal(&old_hash, old_root) && sha256_equal(&hash, root);
}
