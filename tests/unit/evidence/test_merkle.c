/* test_merkle.c - trees and proofs: the vectors of the reference implementation of Certificate
 * Transparency, and the definition of RFC 6962, written down as it stands there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "evidence/merkle.h"

static struct hasher *hasher;

static struct sha256 from_hex(const char *hex)
{
    struct sha256 digest;
    assert_true(sha256_read_hex(str_from(hex), &digest));
    return digest;
}

static void assert_hash(struct sha256 got, struct sha256 expected)
{
    assert_memory_equal(got.bytes, expected.bytes, SHA256_BYTES);
}

/* ---- the vectors of certificate-transparency's merkle_tree_test ---- */

enum { VECTORS = 8 };

static const struct str vector_leaves[VECTORS] = {
    STR(""),
    STR("\x00"),
    STR("\x10"),
    STR("\x20\x21"),
    STR("\x30\x31"),
    STR("\x40\x41\x42\x43"),
    STR("\x50\x51\x52\x53\x54\x55\x56\x57"),
    STR("\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f")};

static const char *const vector_roots[VECTORS + 1] = {
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"};

struct proof_vector {
    uint64_t a, b; /* index and size, or two sizes */
    size_t count;
    const char *hashes[3];
};

static const struct proof_vector inclusion_vectors[] = {
    {0, 1, 0, {NULL}},
    {0,
     8,
     3,
     {"96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"}},
    {5,
     8,
     3,
     {"bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
      "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"}},
    {2, 3, 1, {"fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"}},
    {1,
     5,
     3,
     {"6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"}}};

static const struct proof_vector consistency_vectors[] = {
    {1, 1, 0, {NULL}},
    {1,
     8,
     3,
     {"96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
      "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"}},
    {6,
     8,
     3,
     {"0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
      "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
      "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"}},
    {2,
     5,
     2,
     {"5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
      "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"}}};

static void the_roots_are_those_of_certificate_transparency(void **state)
{
    (void)state;
    struct frontier f = {0};
    for (size_t i = 0; i <= VECTORS; i++) {
        assert_hash(frontier_root(&f, hasher), from_hex(vector_roots[i]));
        if (i == VECTORS) break;
        struct sha256 leaf = merkle_leaf(hasher, vector_leaves[i]);
        frontier_append(&f, hasher, &leaf);
    }
}

static void complete(struct proof_maker *m, const struct sha256 *leaves)
{
    while (!proof_is_complete(m)) proof_add(m, hasher, &leaves[m->added]);
}

static void assert_proof(const struct proof_maker *m, const struct proof_vector *v)
{
    assert_int_equal(m->proof.count, v->count);
    for (size_t i = 0; i < v->count; i++) assert_hash(m->proof.hashes[i], from_hex(v->hashes[i]));
}

static void the_proofs_are_those_of_certificate_transparency(void **state)
{
    (void)state;
    struct sha256 leaves[VECTORS];
    struct proof_maker m;
    for (size_t i = 0; i < VECTORS; i++) leaves[i] = merkle_leaf(hasher, vector_leaves[i]);
    for (size_t i = 0; i < sizeof inclusion_vectors / sizeof *inclusion_vectors; i++) {
        const struct proof_vector *v = &inclusion_vectors[i];
        proof_begin_inclusion(&m, v->a, v->b);
        complete(&m, leaves);
        assert_proof(&m, v);
        struct sha256 root = from_hex(vector_roots[v->b]);
        assert_true(merkle_verify_inclusion(hasher, v->a, v->b, &leaves[v->a], &m.proof, &root));
    }
    for (size_t i = 0; i < sizeof consistency_vectors / sizeof *consistency_vectors; i++) {
        const struct proof_vector *v = &consistency_vectors[i];
        proof_begin_consistency(&m, v->a, v->b);
        complete(&m, leaves);
        assert_proof(&m, v);
        struct sha256 old = from_hex(vector_roots[v->a]), root = from_hex(vector_roots[v->b]);
        assert_true(merkle_verify_consistency(hasher, v->a, v->b, &old, &m.proof, &root));
    }
}

/* ---- every tree of up to 70 leaves ---- */

enum { LEAVES = 70 };

static struct sha256 all[LEAVES], roots[LEAVES + 1];

/* MTH(D[n]) */
static struct sha256 defined_root(const struct sha256 *leaves, size_t count)
{
    if (count == 0) return merkle_empty(hasher);
    if (count == 1) return leaves[0];
    size_t half = 1;
    while (2 * half < count) half *= 2;
    struct sha256 left = defined_root(leaves, half),
                  right = defined_root(leaves + half, count - half);
    return merkle_node(hasher, &left, &right);
}

static int plant(void **state)
{
    (void)state;
    hasher = hasher_create();
    for (size_t i = 0; i < LEAVES; i++)
        all[i] = merkle_leaf(hasher, str_of((const char *)&i, sizeof i));
    for (size_t i = 0; i <= LEAVES; i++) roots[i] = defined_root(all, i);
    return 0;
}

static int clear(void **state)
{
    (void)state;
    hasher_destroy(hasher);
    return 0;
}

static void a_frontier_has_the_root_of_the_definition(void **state)
{
    (void)state;
    struct frontier f = {0};
    for (size_t i = 0; i < LEAVES; i++) {
        frontier_append(&f, hasher, &all[i]);
        assert_hash(frontier_root(&f, hasher), roots[i + 1]);
    }
}

static void a_stored_frontier_goes_on(void **state)
{
    (void)state;
    char bytes[FRONTIER_BYTES_MAX];
    struct frontier f = {0};
    for (size_t i = 0; i < LEAVES; i++) {
        struct buf out = buf_over(bytes, sizeof bytes);
        struct frontier read;
        frontier_put(&out, &f);
        assert_false(out.overflow);
        assert_true(frontier_read(buf_view(&out), &read));
        assert_false(frontier_read(str_of(bytes, out.size - 1), &read));
        assert_true(frontier_read(buf_view(&out), &f));
        frontier_append(&f, hasher, &all[i]);
        assert_hash(frontier_root(&f, hasher), roots[i + 1]);
    }
    struct frontier read;
    assert_false(frontier_read(STR(""), &read));
    assert_false(frontier_read(STR("\xff\xff\xff\xff\xff\xff\xff\xff"), &read));
}

/* With one hash changed, left out or added, and for a neighbour of the index. */
static void assert_inclusion_binds(uint64_t index, uint64_t size, const struct merkle_proof *proof)
{
    struct merkle_proof wrong = *proof;
    const struct sha256 *leaf = &all[index], *root = &roots[size];
    assert_true(merkle_verify_inclusion(hasher, index, size, leaf, proof, root));
    assert_false(merkle_verify_inclusion(hasher, index + 1, size, leaf, proof, root));
    assert_false(merkle_verify_inclusion(hasher, size, size, leaf, proof, root));
    assert_false(merkle_verify_inclusion(hasher, index, size, root, proof, leaf) && size > 1);
    for (size_t i = 0; i < proof->count; i++) {
        wrong.hashes[i].bytes[7] ^= 1;
        assert_false(merkle_verify_inclusion(hasher, index, size, leaf, &wrong, root));
        wrong.hashes[i].bytes[7] ^= 1;
    }
    wrong.hashes[wrong.count++] = *leaf;
    assert_false(merkle_verify_inclusion(hasher, index, size, leaf, &wrong, root));
    if (proof->count == 0) return;
    wrong.count -= 2;
    assert_false(merkle_verify_inclusion(hasher, index, size, leaf, &wrong, root));
}

static void each_leaf_of_each_tree_has_a_proof(void **state)
{
    (void)state;
    struct proof_maker m;
    for (uint64_t size = 1; size <= LEAVES; size++)
        for (uint64_t index = 0; index < size; index++) {
            proof_begin_inclusion(&m, index, size);
            complete(&m, all);
            assert_inclusion_binds(index, size, &m.proof);
        }
}

/* The first leaves may be forgotten: their frontier is enough. */
static void a_proof_is_made_from_a_frontier(void **state)
{
    (void)state;
    struct proof_maker whole, cut;
    for (uint64_t size = 1; size <= 40; size++)
        for (uint64_t index = 0; index < size; index++) {
            struct frontier f = {0};
            proof_begin_inclusion(&whole, index, size);
            complete(&whole, all);
            for (uint64_t skipped = 0; skipped <= index; skipped++) {
                proof_begin_inclusion(&cut, index, size);
                proof_skip(&cut, hasher, &f);
                complete(&cut, all);
                assert_int_equal(cut.proof.count, whole.proof.count);
                assert_memory_equal(cut.proof.hashes, whole.proof.hashes,
                                    whole.proof.count * sizeof *whole.proof.hashes);
                frontier_append(&f, hasher, &all[skipped]);
            }
        }
}

static void assert_consistency_binds(uint64_t old, uint64_t size, const struct merkle_proof *proof)
{
    struct merkle_proof wrong = *proof;
    struct sha256 other = roots[old];
    other.bytes[31] ^= 1;
    assert_true(merkle_verify_consistency(hasher, old, size, &roots[old], proof, &roots[size]));
    assert_false(merkle_verify_consistency(hasher, old, size, &other, proof, &roots[size]));
    assert_false(merkle_verify_consistency(hasher, old, size, &roots[old], proof, &other) &&
                 old > 0);
    assert_false(
        merkle_verify_consistency(hasher, size + 1, size, &roots[old], proof, &roots[size]));
    for (size_t i = 0; i < proof->count; i++) {
        wrong.hashes[i].bytes[0] ^= 1;
        assert_false(
            merkle_verify_consistency(hasher, old, size, &roots[old], &wrong, &roots[size]));
        wrong.hashes[i].bytes[0] ^= 1;
    }
    wrong.hashes[wrong.count++] = roots[old];
    assert_false(merkle_verify_consistency(hasher, old, size, &roots[old], &wrong, &roots[size]));
    if (proof->count == 0) return;
    wrong.count -= 2;
    assert_false(merkle_verify_consistency(hasher, old, size, &roots[old], &wrong, &roots[size]));
}

static void each_tree_is_consistent_with_each_later_one(void **state)
{
    (void)state;
    struct proof_maker m;
    for (uint64_t size = 0; size <= LEAVES; size++)
        for (uint64_t old = 0; old <= size; old++) {
            proof_begin_consistency(&m, old, size);
            complete(&m, all);
            assert_consistency_binds(old, size, &m.proof);
        }
}

/* 2^40 leaves are not made: the proof has as many hashes as the walk has levels. */
static void a_proof_of_a_huge_tree_is_short(void **state)
{
    (void)state;
    struct proof_maker m;
    proof_begin_inclusion(&m, 12345, (1ull << 62) + 1);
    assert_int_equal(m.proof.count, 63);
    proof_begin_consistency(&m, 3, 1ull << 62);
    assert_int_equal(m.proof.count, 63);
    struct sha256 leaf = {{0}};
    assert_false(merkle_verify_inclusion(hasher, 0, UINT64_MAX, &leaf, &m.proof, &leaf));
    assert_false(merkle_verify_consistency(hasher, 1, UINT64_MAX, &leaf, &m.proof, &leaf));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_roots_are_those_of_certificate_transparency),
        cmocka_unit_test(the_proofs_are_those_of_certificate_transparency),
        cmocka_unit_test(a_frontier_has_the_root_of_the_definition),
        cmocka_unit_test(a_stored_frontier_goes_on),
        cmocka_unit_test(each_leaf_of_each_tree_has_a_proof),
        cmocka_unit_test(a_proof_is_made_from_a_frontier),
        cmocka_unit_test(each_tree_is_consistent_with_each_later_one),
        cmocka_unit_test(a_proof_of_a_huge_tree_is_short),
    };
    return cmocka_run_group_tests(tests, plant, clear);
}
