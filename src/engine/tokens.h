/* tokens.h - what the files of the tokens' routes share (mint.c, tokens.c, introspect.c). */
#ifndef ENGINE_TOKENS_H
#define ENGINE_TOKENS_H

#include "engine/engine.h"
#include "engine/errand.h"

struct token_trip {              /* an errand on one token, or on a page of them */
    struct errand errand;        /* first */
    struct caller caller;
};

/* At the head of `size` bytes, with its caller admitted and its body read (a JSON object, or NULL where the
 * route takes none), its tenant and asker settled; NULL: refused already. */
struct token_trip *token_trip_begin(struct worker *w, struct http_exchange *x, size_t size, struct json **ret_body);

void token_trip_refuse(struct token_trip *t, const struct fault *f);
/* The same for what a call says that has no better sentence. */
void token_trip_fail(struct token_trip *t, enum err err);

/* "name: what", at /name. */
enum err token_member_fault(struct fault *f, enum err err, const char *name, const char *what);
/* A string member of at most LIMIT_ID_CHARACTERS; absent where it is missing, null, or "". */
enum err token_text_member(const struct json *body, const char *name, struct str *ret, struct fault *f);

/* Whether requests with this token are let in now: not over, a use left, not revoked, its key alive. */
bool token_is_active(const struct worker *w, const struct token_facts *t, uint64_t now_ms);

#endif
