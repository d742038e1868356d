/* evidence_driver.c - the room evidence, for a test that computes the same in another language.
 *
 *   evidence_driver SIZE         the root of the tree of SIZE leaves "leaf 0", "leaf 1", …; its
 *                                inclusion proofs and its consistency proofs, a line each:
 *                                  root SIZE HASH
 *                                  inclusion INDEX SIZE HASH…
 *                                  consistency OLD SIZE HASH…
 *   evidence_driver sign NAME    a note over standard input, signed with the key of 32 bytes 42
 *   evidence_driver verify KEY   forged, unsigned or signed: the note on standard input */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "evidence/merkle.h"
#include "evidence/note.h"

enum { LEAVES_MAX = 4096 };

static struct sha256 leaves[LEAVES_MAX];
static char room[NOTE_BYTES_MAX];

static void print_hashes(const char *word, uint64_t a, uint64_t b, const struct sha256 *hashes,
                         size_t count)
{
    char hex[SHA256_HEX];
    printf("%s %" PRIu64 " %" PRIu64, word, a, b);
    for (size_t i = 0; i < count; i++) {
        sha256_write_hex(hashes[i], hex);
        printf(" %.*s", SHA256_HEX, hex);
    }
    printf("\n");
}

static void print_proof(const char *word, struct proof_maker *m, struct hasher *h, uint64_t a)
{
    while (!proof_is_complete(m)) proof_add(m, h, &leaves[m->added]);
    print_hashes(word, a, m->size, m->proof.hashes, m->proof.count);
}

static void print_tree(uint64_t size)
{
    struct hasher *h = hasher_create();
    struct frontier f = {0};
    struct proof_maker m;
    check(size <= LEAVES_MAX);
    for (uint64_t i = 0; i < size; i++) {
        int length = snprintf(room, sizeof room, "leaf %" PRIu64, i);
        leaves[i] = merkle_leaf(h, str_of(room, (size_t)length));
        frontier_append(&f, h, &leaves[i]);
    }
    struct sha256 root = frontier_root(&f, h);
    print_hashes("root", 0, size, &root, 1);
    for (uint64_t i = 0; i < size; i++) {
        proof_begin_inclusion(&m, i, size);
        print_proof("inclusion", &m, h, i);
    }
    for (uint64_t i = 0; i <= size; i++) {
        proof_begin_consistency(&m, i, size);
        print_proof("consistency", &m, h, i);
    }
    hasher_destroy(h);
}

static struct str read_input(void) { return str_of(room, fread(room, 1, sizeof room, stdin)); }

static int sign(const char *name)
{
    static char signed_room[2 * NOTE_BYTES_MAX];
    struct buf out = buf_over(signed_room, sizeof signed_room);
    uint8_t secret[ED25519_KEY_BYTES];
    for (size_t i = 0; i < sizeof secret; i++) secret[i] = 42;
    struct ed25519 *key = ed25519_from_secret(secret);
    bool is_signed = note_sign(&out, read_input(), str_from(name), key);
    ed25519_destroy(key);
    if (!is_signed || out.overflow) return 1;
    return fwrite(out.bytes, 1, out.size, stdout) == out.size ? 0 : 1;
}

static int verify(const char *text)
{
    static const char *const words[] = {
        [NOTE_FORGED] = "forged", [NOTE_UNSIGNED] = "unsigned", [NOTE_SIGNED] = "signed"};
    struct note n;
    struct note_key k;
    struct fault f;
    if (note_key_read(str_from(text), &k, &f) != ERR_OK ||
        note_read(read_input(), &n, &f) != ERR_OK) {
        printf("refused: %s\n", f.text);
        return 1;
    }
    printf("%s\n", words[note_verify(&n, &k)]);
    return 0;
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "sign") == 0) return sign(words[2]);
    if (count == 3 && strcmp(words[1], "verify") == 0) return verify(words[2]);
    if (count != 2) return 2;
    print_tree(strtoull(words[1], NULL, 10));
    return 0;
}
