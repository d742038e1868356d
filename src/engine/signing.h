/* signing.h - the engine's signing keys: where their secrets come from, and who has the set.
 *
 *   secret = HKDF-SHA-256(pepper, salt of the rotation, "writ signer" and its number)
 *
 * The rotations are state like any other (shards/signer.h): journaled, in snapshots, changed by the
 * owner of their slot, reactor 0. Who has the journal has no key without the pepper, and who has the
 * pepper none without the journal; and an engine that has lost its state begins with another key,
 * under which nothing from before verifies. Earlier versions kept keys in DATA/engine/signers: those
 * verify until the last of their tokens has ended, or a rotation ends them, and their files go.
 *
 * Reactor 0 makes a new set; workers take up what is current at the begin of a beat, and where they
 * read the revocation log. Sets that were replaced are kept until the end: a rotation a month leaves
 * a few kilobytes, and so nobody has to know who may still be looking at one. */
#ifndef ENGINE_SIGNING_H
#define ENGINE_SIGNING_H

#include "access/key.h"
#include "access/token.h"
#include "config/config.h"
#include "shards/signer.h"

struct engine;
struct signing;

/* From the options alone; ERR_BAD_VALUE: one of them is wrong. `pepper` outlives it. */
enum err signing_create(const struct config *c, const struct pepper *pepper, struct signing **ret,
                        struct fault *f);
/* Reads the files of earlier versions. After recovery: a state that begins at nothing has forgotten
 * which tokens were revoked, so what is there from before it is set aside, and that is told. */
enum err signing_open(struct signing *s, bool begins_at_nothing, uint64_t now_ms, struct fault *f);
/* The first rotation, where the state has none; and the set. Behind `engine.started`, before the
 * workers. */
enum err signing_begin(struct engine *e, struct fault *f);
void signing_destroy(struct signing *s);
/* any thread; good until signing_destroy() */
const struct signers *signing_now(const struct signing *s);
/* Another set, as the rotations are now, without those of which no token can live; reactor 0. */
void signing_follow(struct signing *s, const struct signer_table *t, uint64_t now_ms);
/* The same where there is one to leave out; about each second. */
void signing_keep_up(struct signing *s, const struct signer_table *t, uint64_t now_ms);

#endif
