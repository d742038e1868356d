/* refused.h - refused credentials, counted per source until they are recorded, so that a flood of
 * them costs one record a second and not one each.
 *
 * A source is the id of a key, if the credential has a key's form; or a token that we signed and
 * still refuse (revoked, expired, for another service). All others are one source, which also
 * takes all refusals when the table is full. Ids without a key cost a client nothing, so only
 * few of them are sources: a client cannot fill the table with them, or the journal. For the
 * same reason an address is not a source: for a source with several addresses, the record has
 * the latest one, and the fact that there were others. Belongs to one thread. */
#ifndef API_REFUSED_H
#define API_REFUSED_H

#include "access/key.h"
#include "access/token.h"
#include "http/server.h"

enum { REFUSED_SOURCES_MAX = 64, REFUSED_MADE_UP_MAX = 4 };

struct refused_source {
    bool has_key_id;
    bool is_made_up;  /* no key has that id */
    struct id key_id; /* as the credential has it */
    enum err err;     /* the latest reason */
    uint64_t count;
    struct client_address client; /* address of the latest refusal */
    bool has_several_clients;     /* with different addresses */
    struct token_claims *token;   /* or NULL: one allocation, with its strings */
};

struct refused {
    struct refused_source sources[REFUSED_SOURCES_MAX];
    size_t count, made_up;
};

/* `err` is the error that the client received; `keys` are the existing keys. */
void refused_note(struct refused *r, const struct http_exchange *x, const struct key_table *keys,
                  enum err err);
/* A refusal of a key that was valid when it was shown, and has ended since. */
void refused_note_ended(struct refused *r, struct id key, const struct client_address *client,
                        enum err err);
/* A refusal of something that is no credential, such as a sign-in. */
void refused_note_other(struct refused *r, const struct client_address *client, enum err err);
void refused_note_token(struct refused *r, const struct token_claims *t,
                        const struct client_address *client, enum err err);
/* The last source is recorded. */
void refused_drop(struct refused *r);
/* A source that was dropped, and has no token, was not recorded after all: it is counted again. */
void refused_put_back(struct refused *r, const struct refused_source *s);

/* The record's reason: the latest one, and whether the address in the record is one of several. */
struct str refused_reason(const struct refused_source *s, char *to);
enum { REFUSED_REASON_BYTES = 256 };
/* A log line for each record. */
void refused_log(const struct refused_source *s);

/* The tenant of such a record: that of the claimed key, else `default`. */
struct str refused_tenant(const struct refused_source *s, const struct key_table *keys);

#endif
