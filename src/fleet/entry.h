/* entry.h - one message of a fleet's log: its bytes, and the MAC over them.
 *
 *   entry     := magic "writFLT1"  format(2)  kind(1)  flags(1)  fingerprint(4)  fleet(16)
 *                term(8)  n(8)  previous(32)  incarnation(16)  time(8)  seq(8)
 *                node size(2)  body size(4)  node  body  HMAC-SHA-256 of all before (32)
 *   TERM      := nonce(8)  address
 *   RECORDS   := point, if n is 1;  { public size(4)  private size(4)  public  private }
 *   HEARTBEAT := number(8)  nonce(8)  applied(8)  kept(8)  lease(4)  known(2)  successor(16)
 *                version size(2)  version  address
 *   point     := term(8)  n(8)  digest(32)              all numbers little-endian
 *
 * There is one spelling of each entry: what is read and put again gives the same bytes. An entry's
 * digest is the SHA-256 of all its bytes. The key of the MAC comes from the pepper, so a client that
 * may write to the topic but lacks the pepper cannot forge state.
 *
 * A fleet writes one format, which the counted entries show (replay.h), and only a person raises it:
 * so engines of two versions are in one fleet, and write what the older one reads.
 *
 * Pure; views borrow the bytes. */
#ifndef FLEET_ENTRY_H
#define FLEET_ENTRY_H

#include "base/buf.h"
#include "base/err.h"
#include "crypto/crypto.h"

enum {
    ENTRY_FORMAT_FIRST = 1,
    ENTRY_FORMAT = 1, /* the newest one */
    ENTRY_BODY_MAX = 256 << 10,
    ENTRY_NAME_MAX = 256, /* a node, an address, a version */
    ENTRY_BYTES_MAX = ENTRY_BODY_MAX + 1024,
    ENTRY_LEASE_MAX_MS = 3600000,
};

struct fleet_id { /* random, made with the fleet */
    uint8_t bytes[16];
};
struct incarnation { /* random, one for each run of an engine */
    uint8_t bytes[16];
};

/* What an engine needs to read and write entries of its fleet. */
struct entry_key {
    struct fleet_id fleet;
    uint32_t fingerprint; /* of the pepper: another pepper is not taken for a forgery */
    struct sha256 mac;
};
/* Of a fleet's name (at most 128 bytes) and id. */
struct entry_key entry_key_derive(struct str pepper, uint32_t fingerprint, struct str name,
                                  struct fleet_id fleet);

enum entry_kind { ENTRY_TERM = 1, ENTRY_RECORDS, ENTRY_HEARTBEAT };

/* One counted entry, by which the whole history up to it is named. */
struct entry_point {
    uint64_t term, n;
    struct sha256 digest;
};

struct heartbeat {
    uint64_t number;  /* of its incarnation, from 1 on */
    uint64_t applied; /* all entries below this offset are in force at all reactors */
    /* The sender starts again from two snapshots without any entry below this offset; 0: it has not
     * two. */
    uint64_t kept;
    uint32_t lease_ms; /* for which its sender admits agents, from its sending on */
    struct str version;
    uint16_t known_format;        /* the newest one that its sender reads */
    struct incarnation successor; /* the leader wants this engine to lead; zeros: none */
    bool closed;  /* its sender admits no agent until it has read back an open one, sent later */
    bool works;   /* its sender leads, and serves */
    bool reaches; /* its sender reaches the leader */
};

struct entry {
    enum entry_kind kind;
    uint16_t format;
    /* HEARTBEAT: these three are of the last counted entry below `applied` */
    uint64_t term, n;
    /* TERM, RECORDS: the digest of the counted entry before it; of the first TERM: of the snapshot
     * with which the fleet began, or zeros */
    struct sha256 previous;
    struct incarnation incarnation; /* of the sender */
    struct str node;
    uint64_t time_ms; /* never below that of a counted entry before it */
    uint64_t seq;     /* of the first record in the fleet's stream */
    struct sha256 digest;
    uint64_t nonce;             /* TERM, HEARTBEAT */
    struct str address;         /* TERM, HEARTBEAT: for relays */
    struct entry_point before;  /* RECORDS with n = 1: the last counted entry before the term */
    struct str records;         /* RECORDS; none: a barrier */
    struct heartbeat heartbeat; /* HEARTBEAT */
};

/* Appends the entry and sets its digest. ERR_FULL: the body or a name is over its limit, or the
 * buffer has no room; then the buffer is as before. */
enum err entry_put(struct entry *e, const struct entry_key *key, struct hasher *h, struct buf *out);

/* The newest format that this program reads and writes. */
uint16_t entry_format_newest(void);

/* Why bytes are no entry of this fleet. */
enum entry_fault {
    ENTRY_GOOD,
    ENTRY_MALFORMED,
    ENTRY_NEWER, /* a format or kind of a later version */
    ENTRY_OTHER_FLEET,
    ENTRY_OTHER_PEPPER,
    ENTRY_FORGED,
};
enum entry_fault entry_read(struct str bytes, const struct entry_key *key, struct hasher *h,
                            struct entry *ret);

/* The fleet that these bytes name, before any of them is believed: for an engine that does not know
 * its fleet's id yet. False: they are no entry. */
bool entry_names_fleet(struct str bytes, struct fleet_id *ret);

void entry_put_record(struct buf *records, struct str public_bytes, struct str private_bytes);
/* Takes the first record off. False: there is none. Entries that were read have whole records. */
bool entry_next_record(struct str *records, struct str *ret_public, struct str *ret_private);

bool entry_point_equal(const struct entry_point *a, const struct entry_point *b);

static inline bool incarnation_equal(const struct incarnation *a, const struct incarnation *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
static inline bool incarnation_is_none(const struct incarnation *i)
{
    static const struct incarnation none;
    return incarnation_equal(i, &none);
}

#endif
