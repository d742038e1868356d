/* api.h - the parts that the HTTP APIs of both programs share: admission, errors, pages,
 * forwarding.
 *
 * A `struct api` belongs to one reactor thread. A route's `roles` (access/key.h) are the roles
 * that may call it; api_admit() turns the credential into a `struct caller`, whose views live as
 * long as the exchange. Every error is sent by api_refuse(), so that all have the same form
 * (schemas/errors.md). */
#ifndef API_API_H
#define API_API_H

#include "access/assertion.h"
#include "access/key.h"
#include "access/token.h"
#include "base/fault.h"
#include "config/config.h"
#include "http/server.h"
#include "metrics/metrics.h"

/* Where the use of one request counts. It may be used as long as the program's meters. */
struct metered {
    struct meter *key, *tenant; /* NULL: nothing counts there */
    /* by kind; 0: no bound */
    uint64_t of_key[RATE_METERED], of_tenant[RATE_METERED];
};

struct api {
    const struct key_table *keys; /* the table in force; set before each turn */
    const struct globs *served;   /* the tenants that requests may be about; NULL: all */
    const struct pepper *pepper;
    /* Must be cleared when `keys` changes. Clearing it also invalidates the keys that are kept
     * with heads. */
    struct key_cache *cache;
    struct hasher *hasher;
    struct chance chance;
    struct metrics_sheet *sheet;
    enum metric replies_2xx; /* in metrics.def, …_4xx and …_5xx follow it */
    enum metric auth_failed;
    enum metric quota_key, quota_tenant; /* requests refused for them */
    /* when a request was last refused for it, ms; NULL: not kept */
    _Atomic uint64_t *quota_refused_ms;
    /* What keys and tenants have used; NULL: no rate is set. Set before each turn. */
    struct meters *meters;
    struct rates of_key, of_tenant; /* of keys without rates of their own; of tenants */
    struct metered metered;         /* of the request that was admitted last */
    /* A refused credential is not counted, and on_auth_failed is not called. */
    bool is_quiet;
    /* Called for each refused credential, for the audit trail; may be NULL. */
    void (*on_auth_failed)(void *context, const struct http_exchange *x, enum err err);
    void *context;

    /* Tokens; with `signers` NULL only keys are accepted. All but `tokens` may be shared by
     * threads. */
    const struct signers *signers;
    struct token_cache *tokens;
    struct str token_issuer, token_audience; /* our name in tokens */
    /* Whether the token was revoked, or its actor was suspended later; NULL: this program has no
     * such state. */
    bool (*token_is_dead)(void *context, const struct token_claims *t);
    /* Assertions of the platform's sessions; NULL: none is accepted. */
    const struct sha256 *assertion_key;
    uint64_t started_ms; /* when this program started: older assertions are refused */
    /* Called for each token with our signature that is refused; NULL: on_auth_failed is called
     * instead. */
    void (*on_token_rejected)(void *context, const struct http_exchange *x,
                              const struct token_claims *t, enum err err);
};

struct caller {
    const struct key *key;
    /* NULL: an API key; else the token, in the exchange's arena, that the key minted */
    const struct token_claims *token;
    /* NULL: the caller has shown a credential of its own; else the call of a session, in the
     * exchange's arena. Then `key` has only what the session may: it is a copy in the arena, or of a
     * person without a key (key_is_person()). */
    const struct assertion *assertion;
    /* A token's text, in the arena, until its slot has confirmed that it was minted; absent:
     * confirmed already. Until then the token must not be accepted (engine/runtime/sight.h). */
    struct str unseen;
    /* the tenant of this request; absent if a `*` key has named none */
    struct str tenant;
    const struct globs *served; /* that of the API */
    struct metered metered;
    /* of a `*` key that has not named a tenant: the tenant counts when it is settled; else NULL */
    struct api *owes;
    unsigned char rates; /* those of the route */
};

/* Finds the caller: 401 with WWW-Authenticate, or 403 `missing_role` if the key has none of
 * `roles`. The caller of a token has `token` and the key that minted it. Only ROLE_TOKEN admits
 * it; the roles of the key do not count. The caller's tenant is that of the key or token, or for
 * a `*` key ?tenant_id, if given: ERR_BAD_PARAMETER, ERR_OUT_OF_RANGE (too long), and
 * ERR_WRONG_TENANT if a caller with a fixed tenant names another. ERR_BODY_TOO_LARGE: the arena
 * has no room for it. Counts the request for the rates of its route: ERR_QUOTA_KEY,
 * ERR_QUOTA_TENANT. */
enum err api_admit(struct api *a, const struct http_exchange *x, uint32_t roles, uint64_t now_ms,
                   struct caller *ret, struct fault *f);
/* The same without the rates, for a request that api_admit() sees later. */
enum err api_identify(struct api *a, const struct http_exchange *x, uint32_t roles, uint64_t now_ms,
                      struct caller *ret, struct fault *f);
/* A caller that was found by other means: counts its request for the rates of the route, as api_admit()
 * does. */
enum err api_meter(struct api *a, const struct http_exchange *x, struct caller *c, struct fault *f);
/* The rates of the options. */
void api_set_rates(struct api *a, const struct config *c);
/* Call when the keys have changed: where no rate is set, requests are not looked at. */
void api_set_meters(struct api *a, struct meters *meters);
/* The use of a request beyond what api_admit() has counted: further requests, ns of a thread, bytes of
 * records. Any thread. */
void api_spend(const struct metered *m, enum rate_kind kind, uint64_t amount);
/* For struct http_service: the connection does not count any more. */
void api_connection_ended(void *context, struct http_notes *notes);

/* What is known of a request's credential before it is verified. */
enum api_sight {
    API_STRANGER, /* there is none, or it is unknown, and may cost a signature to verify */
    /* it names an existing key, or is the platform's statement about a session: a MAC verifies it */
    API_CLAIMED,
    API_KNOWN, /* this thread has verified it before */
};
/* Whose time the request takes. */
struct api_asker {
    struct str tenant; /* of the key or token, or "*"; absent: it is not API_KNOWN */
    struct id key;     /* of a token, the one that minted it */
};
/* A credential that is refused later can be API_KNOWN: a revoked token that is in the cache. For
 * a connection with a note, a key must be in force to be API_KNOWN. *ret: views, valid until the
 * next call. */
enum api_sight api_sight(struct api *a, const struct http_exchange *x, struct api_asker *ret);

/* The same for a caller that was found by other means, by this key in force. */
enum err api_admit_key(struct api *a, const struct http_exchange *x, const struct key *key,
                       uint32_t roles, struct caller *ret, struct fault *f);

/* The credential of the one header Authorization; views into the exchange. ERR_UNAUTHENTICATED. */
enum err api_bearer(const struct http_exchange *x, struct str *ret, struct fault *f);
/* Whether its one credential is not an API key, and so may be a token. */
bool api_shows_token(const struct http_exchange *x);

/* A session's call is accepted once: false if the request shows an assertion that is wrong or was
 * accepted before. Any other request passes. Call it once, before the handler. */
bool api_accept_assertion(struct api *a, const struct http_exchange *x, struct assertions *all,
                          uint64_t now_ms, struct fault *f);

/* Whether a verified token is still valid: its key is in force and may speak for its tenant,
 * actor and user (absent: not checked), it is not revoked, and its actor was not suspended after
 * it was minted. *ret_key is the key that minted it. ERR_CREDENTIAL_REVOKED,
 * ERR_CREDENTIAL_EXPIRED (the key). */
enum err api_token_alive(const struct api *a, const struct token_claims *t, uint64_t now_ms,
                         const struct key **ret_key, struct fault *f);

/* The caller, in a few bytes, for an answer that comes long after the call. */
struct credential_mark {
    struct id key;
    struct id token;           /* used if is_token */
    uint64_t token_expires_at; /* Unix seconds */
    uint32_t token_signer;
    bool is_token;
};
/* By value: it has no pointer into the caller. */
struct credential_mark api_credential_mark(const struct caller *c);
/* Whether the credential that the caller has kept, with its tenant and a token's actor, is still
 * as valid as at admission. ERR_CREDENTIAL_REVOKED, ERR_CREDENTIAL_EXPIRED. */
enum err api_credential_holds(const struct api *a, const struct credential_mark *m,
                              struct str tenant, struct str actor, uint64_t now_ms,
                              struct fault *f);

/* Settles the caller's tenant with the one in a body (absent or "": none). ERR_WRONG_TENANT (the
 * caller has another, or this program does not serve it), ERR_TENANT_REQUIRED (a `*` key without
 * a tenant), ERR_CONFLICTING_MEMBER (the body and ?tenant_id differ), ERR_OUT_OF_RANGE (too
 * long), ERR_BAD_VALUE (`*`, which is not one tenant). Then counts the request for the tenant, if
 * api_admit() could not: ERR_QUOTA_TENANT. */
enum err api_settle_tenant(struct caller *c, struct str asked, struct fault *f);

/* ?limit (default 20, 1 to 500) and ?cursor (default 0). */
enum err api_page(const struct http_exchange *x, uint64_t *ret_limit, uint64_t *ret_cursor,
                  struct fault *f);

/* The error's JSON, `{"code", "error", "field", "trace_id"}`; with WWW-Authenticate, Allow,
 * Retry-After as the status requires. `trace_id` may be absent. */
void api_refuse(struct api *a, struct http_exchange *x, const struct fault *f, struct str trace_id);
/* A text for people as a JSON string. It may quote input of a client or a peer: bytes that are
 * not UTF-8 become U+FFFD, so that it is always valid. */
void api_put_sentence(struct buf *out, struct str text);
/* The members of an error without the braces, for answers that have more members. */
void api_put_fault(struct buf *out, const struct fault *f, struct str trace_id);

/* An answer of any content type. Counts it, and echoes X-Request-ID if the client sent one (of
 * at most 128 printable ASCII characters), else sets it to `request_id` (absent: none). */
void api_send(struct api *a, struct http_exchange *x, struct http_reply *r, struct str request_id);
/* The same for JSON. */
void api_reply(struct api *a, struct http_exchange *x, int status, struct str body,
               struct str request_id);
/* Fault for a large answer when http_has_room() returned false, which the functions here check.
 * Only answers to reads, without effect, are that large. ERR_OVERLOADED. */
enum err api_no_room(struct fault *f);
/* Fault for a request for which the system had no memory (x->arena->starved), whatever its steps
 * have returned. The functions here and operation_refuse() check that. ERR_OVERLOADED. */
const struct fault *api_no_memory(struct fault *f);
void api_reply_at_barrier(struct api *a, struct http_exchange *x, int status, struct str body,
                          struct str request_id, struct http_barrier barrier);

void api_refuse_at_barrier(struct api *a, struct http_exchange *x, const struct fault *f,
                           struct str trace_id, struct http_barrier barrier);

/* The X-Request-ID that an answer echoes; absent: there is none, or one that must not be echoed. */
struct str api_request_id(const struct http_exchange *x);

/* A deferred exchange, and the data that its answer needs. */
struct api_deferred {
    struct http_server *server;
    struct http_token token;
    struct str echo; /* api_request_id(), copied */
    struct http_barrier barrier;
};
/* The same answers and errors, for a deferred exchange. False: the client is gone. */
bool api_reply_deferred(struct api *a, const struct api_deferred *d, int status, struct str body,
                        struct str request_id);
bool api_refuse_deferred(struct api *a, const struct api_deferred *d, const struct fault *f,
                         struct str trace_id);
/* Instead of all replies that wait for lane 3 of the server (http_server_lose_log()). */
void api_refuse_lost(struct api *a, struct http_server *s, const struct fault *f);

/* Counts a reply that the functions above have not made. */
void api_count_reply(struct api *a, int status);

/* Reads the body as one JSON object into x->arena. Errors as of json_read(); a body that is not an
 * object is ERR_WRONG_TYPE. If the route lists its members, errors as of api_members(). */
enum err api_body(const struct http_exchange *x, struct json **ret, struct fault *f);
/* Refuses members that are not among `names` (separated by spaces). `at` is the JSON pointer of
 * the object ("" for the body). ERR_WRONG_CASE (one of them in camelCase), ERR_UNKNOWN_MEMBER. */
enum err api_members(const struct json *object, const char *names, const char *at, struct fault *f);

/* A boolean query parameter: "true" or "false"; absent is false. */
enum err api_flag(const struct http_exchange *x, struct str name, bool *ret, struct fault *f);

/* The given sixteenths of a server's connections, at least 1 and at most `most`. It bounds
 * requests that keep a connection until something happens, so that others still get an answer. */
size_t api_part(uint32_t connections, unsigned sixteenths, size_t most);

/* ---- forwarding to the other program ---- */

struct forward; /* one reactor's: address of the peer and the calls under way */
/* `addresses`: one, or up to CONFIG_URLS_MAX with commas between them, each of at most 299 bytes; the next
 * one is asked where the one before has certainly done nothing. A name is looked up here,
 * which blocks for a second at most. While the peer does not answer, it is looked up again each
 * second, without blocking. `connections`: the number of clients that the server may have. */
struct forward *forward_create(struct api *a, struct loop *l, struct http_server *const *server,
                               const char *addresses, struct tls *tls, uint32_t connections);
void forward_destroy(struct forward *f);
/* From here on, reads (which may wait) are answered 503; changes continue until they are
 * answered. */
void forward_drain(struct forward *f);
/* Sends the exchange on with the caller's own credential and answers with the peer's status,
 * body, content type, and the headers that the API has. 502 `upstream_failed`, 503 over the
 * limits of forwarded requests. A request is forwarded only once: one that was forwarded already
 * (Writ-Forwarded) is a 404. */
void forward_exchange(struct forward *f, struct http_exchange *x);
/* The same with this credential in place of the caller's, for the session `who` (any number that
 * differs from session to session). */
void forward_exchange_as(struct forward *f, struct http_exchange *x, struct str credential,
                         uint64_t who);
/* The method and the target that a forwarded request has. */
struct str forward_method(const struct http_exchange *x);
struct str forward_target(const struct http_exchange *x);

/* ---- relaying to the leader of a fleet ---- */

/* The same for a peer that changes, over connections that are kept, and with limits of its own. There
 * is no leader at first. An answer may take `timeout_ms`, which is raised to that of forwarded waits.
 * `reached` is called when the leader is not reached any more, and when it is again: while it is not,
 * it is asked each second. */
struct forward *forward_create_to_leader(struct api *a, struct loop *l,
                                         struct http_server *const *server, struct tls *tls,
                                         uint32_t connections, uint32_t timeout_ms,
                                         void (*reached)(void *context, bool reaches),
                                         void *context);
/* Another leader: its address ("": none), and the value of the header Writ-Relay. Reads that are under
 * way are asked again, for ten seconds while it answers `leader_changed` because it does not serve yet; other requests are answered 503 `outcome_unknown`, or `leader_changed` if
 * nothing of them was sent. */
void forward_lead(struct forward *f, struct str address, struct str mark);
/* Sends the exchange to the leader, and answers as above; 503 `no_leader` if it cannot be reached,
 * `outcome_unknown` if it may have done the request. `reads`: the request changes nothing. The caller
 * has checked that it was not relayed already. */
void forward_relay(struct forward *f, struct http_exchange *x, bool reads);

/* A request as it is sent on, for a caller that defers the exchange before it relays it. */
enum { FORWARD_HEADERS_MAX = 20 };
struct forward_request {
    const char *method;
    struct str target, content_type, body, echo;
    struct http_header headers[FORWARD_HEADERS_MAX];
    size_t header_count;
    struct client_address client;
    uint64_t who; /* a hash of the credential */
    bool reads;   /* it changes nothing */
    bool waits;   /* and waits for a change */
};
/* Copies what the exchange has into the arena. NULL: there is no room. */
struct forward_request *forward_request_copy(const struct http_exchange *x, struct arena *arena);
void forward_relay_deferred(struct forward *f, const struct forward_request *r,
                            const struct api_deferred *d);

#endif
