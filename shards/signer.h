/* signer.h - which signing keys an engine's tokens may have: the rotations.
 *
 *   made --active_ms--> signing --a younger one's active_ms--> verifying --overlap--> gone
 *      \------------------\--------- a rotation that ends the older ones -----------/
 *
 * A rotation is a number and a salt, journaled. The key itself is derived from the salt and the
 * engine's pepper (engine/runtime/signing.h), so that neither of the two alone gives the key. They belong
 * to slot 0, and only its owner rotates. The overlap is longer than the life of any token, and than
 * the time in which a retried mint may return its text again. Rotations are not mirrored: an engine
 * that adopts a state begins with a key of its own. */
#ifndef SHARDS_SIGNER_H
#define SHARDS_SIGNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SIGNER_SLOT = 0,
    SIGNER_SALT_BYTES = 16,
    SIGNER_ROTATIONS_MAX = 32,
    SIGNER_OVERLAP_MS = 25 * 3600 * 1000,
    SIGNER_LEAD_MS = 10 * 60 * 1000, /* verifiers fetch the key set again within that time */
};

struct signer_rotation {
    uint32_t number;    /* rises over the engine's whole life: the Unix second, or one more */
    uint64_t active_ms; /* from this time it signs */
    bool ends_older;    /* older keys verify no tokens any more */
    uint8_t salt[SIGNER_SALT_BYTES];
};

struct signer_table {
    struct signer_rotation list[SIGNER_ROTATIONS_MAX]; /* by number */
    size_t count;
    uint32_t least;     /* smaller numbers verify nothing: a rotation has ended them */
    uint64_t block;     /* of the block with the newest record; 0: it was recovered */
    uint64_t rotate_ms; /* the next one is made this long after the newest; 0: never */
};

/* Between two calls: it is within its bound, and its numbers rise. */
void signer_check(const struct signer_table *t);
/* The next rotation, not yet added. `salt` is chance. */
struct signer_rotation signer_next(const struct signer_table *t, uint64_t now_ms, bool at_once,
                                   const uint8_t salt[SIGNER_SALT_BYTES]);
/* False: it is full, or the number does not rise. */
bool signer_add(struct signer_table *t, const struct signer_rotation *r);
/* Drops rotations of which no token can be alive. */
void signer_prune(struct signer_table *t, uint64_t now_ms);
uint64_t signer_due_ms(const struct signer_table *t); /* of the next one; UINT64_MAX: never */

#endif
