/* fuzz_note.c - notes, keys, checkpoints and frontiers from anywhere: what is read is written to the same
 * bytes again, and no key has signed it. The first byte chooses which. */
#include "base/check.h"
#include "evidence/checkpoint.h"
#include "evidence/merkle.h"
#include "evidence/note.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static char room[NOTE_BYTES_MAX + FRONTIER_BYTES_MAX];

static void any_checkpoint(struct str text)
{
    struct checkpoint c;
    struct fault f;
    struct buf out = buf_over(room, sizeof room);
    struct str line;
    if (text.size > sizeof room || checkpoint_read(text, &c, &f) != ERR_OK) return;
    checkpoint_put(&out, &c);
    check(!out.overflow && str_equal(buf_view(&out), text));
    while (checkpoint_next_extension(&c.extensions, &line)) check(line.size > 0);
    check(c.extensions.size == 0);
}

static void any_note(struct str text)
{
    struct note n;
    struct fault f;
    if (note_read(text, &n, &f) != ERR_OK) return;
    check(n.count > 0 && n.text.size > 0 && n.text.bytes[n.text.size - 1] == '\n');
    static const uint8_t secret[ED25519_KEY_BYTES] = {7};
    uint8_t public_key[ED25519_KEY_BYTES];
    struct ed25519 *key = ed25519_from_secret(secret);
    ed25519_public(key, public_key);
    ed25519_destroy(key);
    for (size_t i = 0; i < n.count; i++) {
        check(note_name_is_valid(n.signatures[i].name));
        struct note_key k = note_key_of(n.signatures[i].name, public_key);
        k.id = n.signatures[i].key_id;
        check(note_verify(&n, &k) == NOTE_FORGED);
        k.type = NOTE_WITNESS;
        check(note_verify(&n, &k) == NOTE_FORGED);
    }
    any_checkpoint(n.text);
}

static void any_key(struct str text)
{
    struct note_key k;
    struct fault f;
    struct buf out = buf_over(room, sizeof room);
    if (note_key_read(text, &k, &f) != ERR_OK) return;
    note_key_put(&out, &k);
    check(!out.overflow && str_equal(buf_view(&out), text));
}

static void any_frontier(struct str text)
{
    struct frontier frontier;
    struct buf out = buf_over(room, sizeof room);
    if (!frontier_read(text, &frontier)) return;
    frontier_put(&out, &frontier);
    check(!out.overflow && str_equal(buf_view(&out), text));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size == 0) return 0;
    struct str text = str_of((const char *)bytes + 1, size - 1);
    switch (bytes[0]) {
    case 'c': any_checkpoint(text); break;
    case 'k': any_key(text); break;
    case 'f': any_frontier(text); break;
    default: any_note(text);
    }
    return 0;
}
