/* watch_look.h - one look at policies.dir; between watch.c and watch_look.c only.
 *
 *   read all of it ─▶ other than at the last look?  ─▶ wait until it has stood still
 *                  ─▶ the same for a second         ─▶ check the set ─▶ apply it as a whole
 *                  ─▶ judged already, store as well ─▶ nothing to do
 *
 * A look takes what was known (`state`) and gives what is known after it. */
#ifndef PLATFORM_WATCH_LOOK_H
#define PLATFORM_WATCH_LOOK_H

#include "base/limits.h"
#include "crypto/crypto.h"
#include "platform/policy_apply.h"

enum {
    WATCH_FILES_MAX = LIMIT_POLICIES_PER_TENANT, /* more cannot be in force */
    WATCH_STILL_MS = 1000,                       /* nothing has changed for so long */
    WATCH_RESTLESS_MS = 10000, /* it has changed again and again: then it is told */
};

struct watch_file {
    char file[256];                 /* as it is shown: printable ASCII */
    char name[POLICY_NAME_MAX + 1]; /* "": the file's name is none */
    char digest[SHA256_HEX];
    char *content; /* NULL: it was not read, or is not wanted any more */
    size_t size;
    bool is_in_force; /* this text is */
    size_t problems;  /* 0: none */
    unsigned line, column;
    char message[384]; /* the first one's, without the file's name */
};

struct watch_state {
    struct watch_file *files; /* of the last look that could list them, by name of the file */
    size_t file_count;
    struct sha256 seen;        /* the directory, as it was read last */
    uint64_t seen_ms;          /* since when; 0: never */
    uint64_t restless_ms;      /* since when it has been found changing; 0: it stands still */
    struct sha256 judged;      /* the directory that was applied or refused last */
    uint64_t judged_revision;  /* of the store then; 0: nothing was judged */
    bool is_stale;             /* the store is to be compared again whatever its revision */
    uint64_t applied_revision; /* of the store when the directory was applied last; 0: never */
    bool is_ready;             /* what is in force of this directory is a whole set */
    /* for health, "" where all is well; no text of a document */
    char failure[640];   /* the set is refused, or the directory cannot be read */
    char strangers[384]; /* policies of other directories without a file here, or instead of one */
    char elsewhere[640]; /* of this directory in another tenant */
    char abroad[640];    /* of others: another platform's, perhaps; only for the log */
    char elsewhere_tenant[LIMIT_ID_CHARACTERS * 4 + 1]; /* the first of them, for the log */
};

struct watch_look {
    const char *path;
    struct str directory; /* its name in the store: what is deleted is what came from there */
    struct str tenant;
    uint64_t (*monotonic_ns)(void);
    struct watch_state before, state; /* `before` is borrowed from watch.c */
    struct policy_apply apply;        /* what is to be stored; no steps: nothing */
    struct arena arena;
    uint64_t
        again_ms; /* look again after this time; 0: when something is told, or the time comes */
    uint64_t store_revision;
};

/* On a reader. */
void watch_look_run(struct watch_look *l, struct store *s);
/* On the writer. */
enum err watch_look_store(struct watch_look *l, struct store *s, const struct actor *by,
                          struct fault *f);
/* The same where nobody will: it is all to be done again. */
void watch_look_put_off(struct watch_look *l, const char *why);
void watch_look_fini(struct watch_look *l); /* not its states */
void watch_state_fini(struct watch_state *s);

#endif
