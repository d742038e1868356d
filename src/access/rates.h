/* rates.h - how much keys and tenants may use within a time, and what they have used.
 *
 * A rate is an amount within a window. What was used is kept as a single time for each kind: until
 * then the use is paid for, as in GCRA (ITU-T I.371). The bucket holds one window's amount, and refills
 * evenly. A use that is known only afterwards (processor time, bytes of records) may exceed what is
 * left, once; the following requests wait until it is paid for.
 *
 * A meter belongs to a key, with all keys of its rotations, or to a tenant, or to a person who signed in
 * without a key. Meters are found by a hash with a secret, and are not written to disk: a program that
 * starts begins with full buckets. Each program counts what it serves itself. Any thread; nothing
 * waits. */
#ifndef ACCESS_RATES_H
#define ACCESS_RATES_H

#include "base/buf.h"
#include "base/fault.h"
#include "json/json.h"

enum rate_kind {
    RATE_REQUESTS,      /* within a second */
    RATE_CPU,           /* milliseconds of a thread, within a second; meters are given ns */
    RATE_JOURNAL,       /* bytes of records, within a day */
    RATE_AUDIT_QUERIES, /* within a minute */
    RATE_CONNECTIONS,   /* at a time */
    RATE_KINDS,
    RATE_WINDOWS = RATE_CONNECTIONS, /* the number of those with a window */
    RATE_METERED = RATE_JOURNAL + 1, /* the number of those whose use may be known later */
};
/* For sets of kinds (struct http_route). */
#define RATE_BIT(kind) (1u << (kind))

struct rates {
    uint64_t most[RATE_KINDS]; /* 0: no bound */
};

const char *rate_member(enum rate_kind kind); /* "cpu_ms" */
bool rates_any(const struct rates *r);
/* The member `rates` of a key's row, {requests, cpu_ms, journal_bytes, audit_queries, connections}, each
 * optional. ERR_WRONG_TYPE, ERR_OUT_OF_RANGE (1 to LIMIT_RATE), ERR_UNKNOWN_MEMBER. */
enum err rates_read(const struct json *row, struct rates *ret, struct fault *f);
/* "rates":{…}, with the comma behind it; nothing if there are none. */
void rates_put(struct buf *out, const struct rates *r);

struct meter;
struct meters;
struct meters *meters_create(void); /* ends the process if there is no memory */
void meters_destroy(struct meters *m);

enum meter_of { METER_KEY, METER_TENANT };
/* Never NULL. A meter that was not used within a window may be given to another name. If all places for
 * a name are in use, it shares one meter with others in the same situation. */
struct meter *meters_find(struct meters *m, enum meter_of of, struct str name, uint64_t now_ns);

/* Of a kind with a window, at most `most` > 0. Whether an amount of 1 is left; if so, meter_take() takes
 * it. Else *ret_s has the seconds until it is, at least 1. */
bool meter_has(const struct meter *m, enum rate_kind kind, uint64_t most, uint64_t now_ns,
               uint32_t *ret_s);
bool meter_take(struct meter *m, enum rate_kind kind, uint64_t most, uint64_t now_ns,
                uint32_t *ret_s);
/* Takes the amount, which may be more than is left. */
void meter_spend(struct meter *m, enum rate_kind kind, uint64_t most, uint64_t amount,
                 uint64_t now_ns);

/* One more connection; false: it has `most` of them. 0: no bound. */
bool meter_connect(struct meter *m, uint64_t most);
void meter_disconnect(struct meter *m);

/* For the error: the quota of a kind. */
struct quota rate_quota(enum rate_kind kind, uint64_t most, uint32_t retry_s);

#endif
