/* check.h - whether a Redis may be used as the mirror of this engine, before it serves. */
#ifndef MIRROR_CHECK_H
#define MIRROR_CHECK_H

#include "base/fault.h"
#include "snapshot/lineage.h"

struct mirror_redis {
    const char *url;                  /* "unix:/path", "tcp://host:port" (or redis://), "" = none */
    const char *user, *password_file; /* "" = none */
    const char *ca_file;              /* of TLS (rediss://); "" = none */
    const char *adopt;                /* --adopt NODE, or several with commas, or "" */
    uint32_t timeout_ms;
};

/* What a Redis is judged by, and who takes what is adopted from it. */
struct mirror_judge {
    const char *node;
    struct lineage *past; /* which epochs are ours */
    uint64_t last_seq;    /* the journal's end */
    uint64_t now_ms;
    enum err (*each)(void *context, unsigned slot, struct str entry);
    void *context;
};

/* Whether this Redis may be used: empty, ours, or adopted. ERR_EXISTS: another node's (the sentence
 * names it and --adopt), or one to be adopted still writes. ERR_BAD_VALUE: it is ahead of our
 * journal (the disk went back in time), or an option is wrong, or an image that is to be adopted is
 * not whole. A Redis that cannot be reached is ERR_OK with *ret_reached false, but where something
 * is to be adopted ERR_STORE_UNAVAILABLE. With --adopt, and nothing of our own, the images of that
 * node are given to `each`, with counted tokens revoked and its pending and approved reviews expired,
 * and past->adopted says whose they were; the caller makes them durable (snapshot_make) before
 * anything else. */
enum err mirror_check(const struct mirror_redis *redis, const struct mirror_judge *by,
                      bool *ret_reached, struct fault *f);

#endif
