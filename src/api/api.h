/* api.h - what the HTTP APIs of both programs share: admission, errors, pages, forwarding.
 *
 * A `struct api` belongs to one reactor thread. A route's `roles` (access/key.h) say who may call
 * it; api_admit() turns the credential into a `struct caller`, whose views live as long as the
 * exchange. Every error leaves by api_refuse(), so that it has the one form (schemas/errors.md). */
#ifndef API_API_H
#define API_API_H

#include "access/key.h"
#include "access/token.h"
#include "base/fault.h"
#include "http/server.h"
#include "metrics/metrics.h"

struct api {
    const struct key_table *keys; /* the one in force; set before each beat */
    const struct globs *served;   /* the tenants that may be asked about; NULL: all */
    const struct pepper *pepper;
    /* Cleared by whoever changes `keys`, which is also the end of what was kept with heads. */
    struct key_cache *cache;
    struct hasher *hasher;
    struct chance chance;
    struct metrics_sheet *sheet;
    enum metric replies_2xx; /* …_4xx and …_5xx follow it in metrics.def */
    enum metric auth_failed;
    /* Told of each refused credential, for the audit trail; may be NULL. */
    void (*on_auth_failed)(void *context, const struct http_exchange *x, enum err err);
    void *context;

    /* Tokens; with `signers` NULL only keys are taken. All but `tokens` may be shared by
     * threads. */
    const struct signers *signers;
    struct token_cache *tokens;
    struct str token_issuer, token_audience; /* who we are, as tokens call us */
    /* Whether it was revoked or its actor suspended since; NULL: nobody knows of such. */
    bool (*token_is_dead)(void *context, const struct token_claims *t);
    /* Told of each token of ours that is refused all the same; NULL: on_auth_failed is told. */
    void (*on_token_rejected)(void *context, const struct http_exchange *x,
                              const struct token_claims *t, enum err err);
};

struct caller {
    const struct key *key;
    /* NULL: an API key; else the token that it minted, in the exchange's arena */
    const struct token_claims *token;
    /* A token's text, in the arena, until its slot was asked whether it was minted; absent: it was
     * asked before. Until then it is nobody's (engine/sight.h). */
    struct str unseen;
    /* the one it speaks for now; absent where a `*` key named none */
    struct str tenant;
    const struct globs *served; /* as the API has it */
};

/* Who calls: 401 with WWW-Authenticate, or 403 `missing_role` where the key has none of `roles`. A
 * token's caller has `token` and the key that minted it, and is let in by ROLE_TOKEN alone,
 * whatever that key may do. The caller's tenant is the key's, or the token's; a `*` key's is
 * ?tenant_id, if given: ERR_BAD_PARAMETER, ERR_OUT_OF_RANGE (too long), and ERR_WRONG_TENANT where
 * who has a fixed tenant names another. ERR_BODY_TOO_LARGE: the arena has no room for it. */
enum err api_admit(struct api *a, const struct http_exchange *x, uint32_t roles, uint64_t now_ms,
                   struct caller *ret, struct fault *f);

/* The credential of the one header Authorization; views into the exchange. ERR_UNAUTHENTICATED. */
enum err api_bearer(const struct http_exchange *x, struct str *ret, struct fault *f);
/* Whether its one credential is no API key, and so may be a token. */
bool api_shows_token(const struct http_exchange *x);

/* Whether a token that verifies is still good: its key is alive and may speak for its tenant, actor
 * and user (absent: not checked), it is not revoked, and its actor was not suspended since. *ret_key
 * is the key that minted it. ERR_CREDENTIAL_REVOKED, ERR_CREDENTIAL_EXPIRED (the key). */
enum err api_token_alive(const struct api *a, const struct token_claims *t, uint64_t now_ms,
                         const struct key **ret_key, struct fault *f);

/* Who called, in a few bytes, for an answer that comes long after the call. */
struct credential_mark {
    struct id key;
    struct id token;           /* looked at where is_token */
    uint64_t token_expires_at; /* Unix seconds */
    uint32_t token_signer;
    bool is_token;
};
/* By value: nothing in it points at the caller. */
struct credential_mark api_credential_mark(const struct caller *c);
/* Whether that credential, whose tenant, and a token's actor, the caller has kept, is as good as
 * when it was admitted. ERR_CREDENTIAL_REVOKED, ERR_CREDENTIAL_EXPIRED. */
enum err api_credential_holds(const struct api *a, const struct credential_mark *m,
                              struct str tenant, struct str actor, uint64_t now_ms,
                              struct fault *f);

/* Settles the caller's tenant with one that a body names (absent or "": none). ERR_WRONG_TENANT
 * (the caller's is another, or this program serves it not), ERR_TENANT_REQUIRED (a `*` key, and
 * nobody named one), ERR_CONFLICTING_MEMBER (the body and ?tenant_id differ), ERR_OUT_OF_RANGE (too
 * long), ERR_BAD_VALUE (`*`, which is no tenant). */
enum err api_settle_tenant(struct caller *c, struct str asked, struct fault *f);

/* ?limit (default 20, 1 to 500) and ?cursor (default 0). */
enum err api_page(const struct http_exchange *x, uint64_t *ret_limit, uint64_t *ret_cursor,
                  struct fault *f);

/* The error's JSON, `{"code", "error", "field", "trace_id"}`; with WWW-Authenticate, Allow,
 * Retry-After as the status asks. `trace_id` may be absent. */
void api_refuse(struct api *a, struct http_exchange *x, const struct fault *f, struct str trace_id);
/* A sentence for people as a JSON string. It may quote what a client or a peer sent, in which bytes
 * that are not UTF-8 become U+FFFD, so that it is always valid. */
void api_put_sentence(struct buf *out, struct str text);
/* The members of an error without the braces, for answers that add some. */
void api_put_fault(struct buf *out, const struct fault *f, struct str trace_id);

/* An answer of any form. Counts it, and echoes X-Request-ID where the client sent one (of at most
 * 128 printable ASCII characters), else sets it to `request_id` (absent: none). */
void api_send(struct api *a, struct http_exchange *x, struct http_reply *r, struct str request_id);
/* The same of JSON. */
void api_reply(struct api *a, struct http_exchange *x, int status, struct str body,
               struct str request_id);
/* Why a large answer is refused instead where http_has_room() said no, as the functions here see
 * to: only what was read and changed nothing is that large. ERR_OVERLOADED. */
enum err api_no_room(struct fault *f);
void api_reply_gated(struct api *a, struct http_exchange *x, int status, struct str body,
                     struct str request_id, struct http_gate gate);

void api_refuse_gated(struct api *a, struct http_exchange *x, const struct fault *f,
                      struct str trace_id, struct http_gate gate);

/* The X-Request-ID that an answer will echo; absent: there is none, or not one to echo. */
struct str api_request_id(const struct http_exchange *x);

/* An exchange that was deferred, and what its answer needs of it. */
struct api_deferred {
    struct http_server *server;
    struct http_token token;
    struct str echo; /* api_request_id(), copied */
    struct http_gate gate;
};
/* The same answers and errors. False: the client is gone. */
bool api_reply_deferred(struct api *a, const struct api_deferred *d, int status, struct str body,
                        struct str request_id);
bool api_refuse_deferred(struct api *a, const struct api_deferred *d, const struct fault *f,
                         struct str trace_id);

/* Counts a reply that was not made by the functions above. */
void api_count_reply(struct api *a, int status);

/* Reads the body as one JSON object into x->arena. Errors as of json_read(); a body that is not an
 * object is ERR_WRONG_TYPE. */
enum err api_body(const struct http_exchange *x, struct json **ret, struct fault *f);

/* A boolean query parameter: "true" or "false"; absent is false. */
enum err api_flag(const struct http_exchange *x, struct str name, bool *ret, struct fault *f);

/* Sixteenths of a server's connections, at least 1 and no more than `most`: for what keeps one until
 * something happens, so that others get an answer, however few there are. */
size_t api_part(uint32_t connections, unsigned sixteenths, size_t most);

/* ---- forwarding to the other program ---- */

struct forward; /* one reactor's: address of the peer and what is under way */
/* `address` is the configuration's and outlives it. Its name, if it has one, is looked up here,
 * which blocks for a second at most, and again each second, without blocking, while nobody answers
 * there. `connections`: how many clients the server may have. */
struct forward *forward_create(struct api *a, struct loop *l, struct http_server *const *server,
                               const char *address, uint32_t connections);
void forward_destroy(struct forward *f);
/* Who reads, and so perhaps waits, is answered 503 from here on; changes go on
 * until they are answered. */
void forward_drain(struct forward *f);
/* Sends the exchange on with the caller's own credential and answers with what comes back: status,
 * body, content type, and the headers that the API has. 502 `upstream_failed`, 503 when too much is
 * under way. Never follows twice: a request that was forwarded already (Writ-Forwarded) is a
 * 404. */
void forward_exchange(struct forward *f, struct http_exchange *x);

#endif
