/* call.h - what a coding agent writes to its hook: one JSON object that describes one tool call.
 *
 * Bytes in, views out. No I/O. Whatever is not understood is an error, and the hook then denies. */
#ifndef HOOK_CALL_H
#define HOOK_CALL_H

#include "base/arena.h"
#include "base/fault.h"
#include "hook/agents.h"
#include "json/json.h"

/* Views into the text and the arena. */
struct hook_call {
    struct str tool;          /* 1 to 256 characters, as the agent names it */
    const struct json *input; /* an object */
    /* Absent, if the agent gives none that a request can have. */
    struct str call_id, session_id, cwd;
};

/* ERR_MALFORMED_JSON and the other errors of json_read(); ERR_MISSING_MEMBER, ERR_WRONG_TYPE,
 * ERR_OUT_OF_RANGE; ERR_BAD_VALUE: the event is not the one before a tool call. */
enum err hook_call_read(const struct hook_agent *agent, struct str text, struct arena *arena,
                        struct hook_call *ret, struct fault *f);

#endif
