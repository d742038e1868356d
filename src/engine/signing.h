/* signing.h - the engine's signing keys, and their rotation.
 *
 * The main thread rotates; workers take up what is current at the begin of a beat. Sets that were
 * replaced are kept until the end: a rotation a month leaves a few kilobytes, and so nobody has to
 * know who may still be looking at one. */
#ifndef ENGINE_SIGNING_H
#define ENGINE_SIGNING_H

#include "access/token.h"
#include "config/config.h"

struct signing;

/* From the options alone; ERR_BAD_VALUE: one of them is wrong. */
enum err signing_create(const struct config *c, struct signing **ret, struct fault *f);
/* Opens DATA/engine/signers, making the first pair where there is none. Before the first record of
 * this boot and after recovery: a state that begins at nothing has forgotten which tokens were
 * revoked, so pairs from before it are set aside, and that is told. A pair is never there before
 * the journal is: a start that was refused before this leaves none. */
enum err signing_open(struct signing *s, bool begins_at_nothing, uint64_t now_ms, struct fault *f);
void signing_destroy(struct signing *s);
/* any thread; good until signing_destroy() */
const struct signers *signing_now(const struct signing *s);
/* Rotates and drops what is due; main thread, about each second. What fails
 * is logged and tried again. */
void signing_keep_up(struct signing *s, uint64_t now_ms);

#endif
