/* trust.h - Codex runs a user's hook only if the user has trusted its present form, and skips it
 * without a word otherwise. This asks Codex itself (`codex app-server`, JSON lines on its standard
 * streams), and has it write the trust into its configuration. Blocking. */
#ifndef HOOK_TRUST_H
#define HOOK_TRUST_H

#include "base/fault.h"

/* Trusts the hooks of this file whose line has `mark`, and verifies that. With `only_look` nothing is
 * written. ERR_NOT_FOUND: there is no codex on PATH. ERR_BAD_VALUE: Codex does not see the hook, or
 * does not trust it; *f has the reason. ERR_TIMEOUT, ERR_CLOSED: Codex has not answered. */
enum err codex_trust(struct str file, struct str mark, bool only_look, struct fault *f);

#endif
