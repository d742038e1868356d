/* answer.h - the JSON by which a hook answers each coding agent. Bytes out, no I/O. */
#ifndef HOOK_ANSWER_H
#define HOOK_ANSWER_H

#include "base/buf.h"
#include "hook/agents.h"

/* Nothing against the call: {}, so that the user's own settings decide. `grant`: the word that skips
 * the user's prompt. `note` (absent: none) goes to the model, if the agent can take it along. */
void answer_put_allow(struct buf *out, const struct hook_agent *agent, bool grant, struct str note);

/* `reason` is well-formed UTF-8 and goes to the model. */
void answer_put_deny(struct buf *out, const struct hook_agent *agent, struct str reason);

/* Another input, a JSON object, in place of the agent's own. `grant` as above. An agent that
 * rewrites only by granting is granted: the caller has asked for that. */
void answer_put_rewrite(struct buf *out, const struct hook_agent *agent, bool grant,
                        struct str input);

#endif
