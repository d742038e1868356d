/* request.h - the request that asks the engine about a tool call, and the input that an approved
 * safe call becomes.
 *
 * The action is the tool's name and `args` is its input, without the members that do not change what
 * the call does (agents.h). A text that is too large for a request is projected: in its place the
 * engine gets its digest, its length and its beginning,
 *
 *   {"bytes": 5000000, "head": "the first 1,024 bytes", "sha256": "…"}
 *
 * so the digest is what rules see, people approve and an approval is bound to. If that is not enough,
 * shorter texts are projected as well, and at last the whole input as its canonical JSON, with
 * "json": true. `context.projected` lists the places (JSON pointers), so that a call which contains
 * such an object as its own is another request.
 *
 * Bytes in, bytes out. No I/O. */
#ifndef HOOK_REQUEST_H
#define HOOK_REQUEST_H

#include "base/buf.h"
#include "hook/call.h"

enum {
    HOOK_TEXT_BYTES = 4 << 10, /* a longer text is projected */
    HOOK_HEAD_BYTES = 1 << 10,
    HOOK_SHORT_TEXT_BYTES = 256, /* the same where the request would be too large otherwise */
    HOOK_SHORT_HEAD_BYTES = 64,
    HOOK_REQUEST_BYTES = 40 << 10 /* of a request: what the engine takes and an event holds */
};

enum hook_projection {
    HOOK_PROJECT_LARGE,
    HOOK_PROJECT_SHORT,
    HOOK_PROJECT_WHOLE,
    HOOK_PROJECTIONS
};

struct hook_request {
    struct str body; /* in the arena */
    enum hook_projection projection;
    size_t projected; /* places */
};

/* `actor` and `scope` may be absent; a scope is one action, and the request is restricted to it.
 * ERR_FULL: no memory. ERR_BODY_TOO_LARGE: even the whole projection does not fit, because other
 * members are too long. */
enum err hook_request_make(const struct hook_agent *agent, const struct hook_call *call,
                           struct str actor, struct str scope, struct arena *arena,
                           struct hook_request *ret, struct fault *f);

/* The input of the safe call: `safe_args` with the original text in place of each projection, and
 * with the members that the request left out. ERR_BAD_VALUE: the safe call is not of this tool, a
 * projected place is missing or changed, or the agent cannot run such an input; *f names it. */
enum err hook_rewrite_make(const struct hook_agent *agent, const struct hook_call *call,
                           const struct hook_request *request, struct str safe_tool,
                           const struct json *safe_args, struct buf *out, struct fault *f);

#endif
