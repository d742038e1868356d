/* signing.h - the engine's signing keys: the source of their secrets, and the current set.
 *
 *   secret = HKDF-SHA-256(pepper, salt of the rotation, "writ signer" and its number)
 *
 * The rotations are state like any other (shards/signer.h): journaled, in snapshots, changed by the
 * owner of their slot, reactor 0. Neither the journal nor the pepper alone gives a key. An engine
 * that has lost its state begins with another key, which verifies nothing from before. Earlier
 * versions kept keys in DATA/engine/signers: those verify until the last of their tokens has ended,
 * or a rotation ends them; then their files are removed.
 *
 * Reactor 0 makes a new set. Reactors take the current set at the begin of a turn, and when they
 * read the revocation log. Replaced sets are kept until the end: a rotation a month costs a few
 * kilobytes, and no thread has to track which reactors still use a set. */
#ifndef ENGINE_SIGNING_H
#define ENGINE_SIGNING_H

#include "access/key.h"
#include "access/token.h"
#include "config/config.h"
#include "shards/signer.h"

struct engine;
struct signing;

/* Uses only the options; ERR_BAD_VALUE: one of them is wrong. `pepper` outlives it. */
enum err signing_create(const struct config *c, const struct pepper *pepper, struct signing **ret,
                        struct fault *f);
/* Reads the files of earlier versions. Call it after recovery: a state that begins at nothing has
 * forgotten which tokens were revoked, so existing keys are set aside, and that is logged. */
enum err signing_open(struct signing *s, bool begins_at_nothing, uint64_t now_ms, struct fault *f);
/* Makes the first rotation, if the state has none, and the set. Call it after `engine.started`,
 * before the reactors. */
enum err signing_begin(struct engine *e, struct fault *f);
void signing_destroy(struct signing *s);
/* any thread; valid until signing_destroy() */
const struct signers *signing_now(const struct signing *s);
/* Makes a new set of the present rotations, without those of which no token can be alive; reactor
 * 0. */
void signing_follow(struct signing *s, const struct signer_table *t, uint64_t now_ms);
/* The same if a rotation can be left out; about each second. */
void signing_keep_up(struct signing *s, const struct signer_table *t, uint64_t now_ms);

#endif
