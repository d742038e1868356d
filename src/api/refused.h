/* refused.h - refused credentials, counted per source until they are recorded, so that a flood of
 * them costs one record a second and not one each.
 *
 * A source is the id of a key where the credential has a key's form, or a token that we signed and
 * refuse all the same (revoked, expired, for somebody else); all others are one source, and so is
 * everybody who comes when the table is full. Ids that no key has cost nothing to make up, so few
 * of them are sources: nobody fills the table with them, and the journal. For the same reason an address
 * makes no source: of one with clients at several, the latest is told, and that there were others. Belongs
 * to one thread. */
#ifndef API_REFUSED_H
#define API_REFUSED_H

#include "access/key.h"
#include "access/token.h"
#include "http/server.h"

enum { REFUSED_SOURCES_MAX = 64, REFUSED_MADE_UP_MAX = 4 };

struct refused_source {
    bool has_key_id;
    bool is_made_up;  /* no key has it */
    struct id key_id; /* as claimed */
    enum err err;     /* the latest reason */
    uint64_t count;
    struct client_address client; /* the latest one's */
    bool has_several_clients;     /* with different addresses */
    struct token_claims *token;   /* or NULL: in one piece of the heap, with its strings */
};

struct refused {
    struct refused_source sources[REFUSED_SOURCES_MAX];
    size_t count, made_up;
};

/* `err` is what the client was told; `keys` are those that there are. */
void refused_note(struct refused *r, const struct http_exchange *x, const struct key_table *keys,
                  enum err err);
/* Of a key that held when it was shown, and has ended since. */
void refused_note_ended(struct refused *r, struct id key, const struct client_address *client,
                        enum err err);
void refused_note_token(struct refused *r, const struct token_claims *t,
                        const struct client_address *client, enum err err);
/* The last source is recorded. */
void refused_drop(struct refused *r);
/* One that was dropped, and has no token, was not recorded after all: it counts on. */
void refused_put_back(struct refused *r, const struct refused_source *s);

/* The record's reason: the latest one, and whether the address beside it is one of several. */
struct str refused_reason(const struct refused_source *s, char *to);
enum { REFUSED_REASON_BYTES = 256 };
/* A line in the log, as often as there is a record. */
void refused_log(const struct refused_source *s);

/* The tenant that such a record is filed under: the claimed key's own, else `default`. */
struct str refused_tenant(const struct refused_source *s, const struct key_table *keys);

#endif
