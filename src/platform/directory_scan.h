/* directory_scan.h - one look at policies.dir, for policy_directory.c and directory_scan.c only.
 *
 *   read all of it ─▶ differs from the last look?  ─▶ wait until it has stood still
 *                  ─▶ the same for a second        ─▶ check the set ─▶ apply it as a whole
 *                  ─▶ judged before, same store    ─▶ nothing to do
 *
 * A look takes the state before it (`before`) and returns the state after it (`state`). */
#ifndef PLATFORM_DIRECTORY_SCAN_H
#define PLATFORM_DIRECTORY_SCAN_H

#include "base/limits.h"
#include "crypto/crypto.h"
#include "platform/policy_apply.h"

enum {
    DIRECTORY_FILES_MAX = LIMIT_POLICIES_PER_TENANT, /* a tenant cannot have more in force */
    DIRECTORY_STILL_MS = 1000,     /* the set is taken after so long without a change */
    DIRECTORY_RESTLESS_MS = 10000, /* changes that go on for longer are reported */
};

struct directory_file {
    char file[256];                 /* printable ASCII, for people */
    char name[POLICY_NAME_MAX + 1]; /* "": the file's name is not a policy's name */
    char digest[SHA256_HEX];
    char *content; /* NULL: not read, or already released */
    size_t size;
    bool is_in_force; /* the file's text is in force */
    size_t problems;  /* 0: none */
    unsigned line, column;
    char message[384]; /* the first problem, without the file's name */
};

struct directory_state {
    struct directory_file *files; /* of the last look that could list them, sorted by file name */
    size_t file_count;
    struct sha256 seen;        /* the directory, as it was last read */
    uint64_t seen_ms;          /* since when it is so; 0: never read */
    uint64_t restless_ms;      /* since when it has been changing; 0: it stands still */
    struct sha256 judged;      /* the directory that was applied or refused last */
    uint64_t judged_revision;  /* the store's revision then; 0: nothing was judged */
    bool is_stale;             /* compare the store again, whatever its revision is */
    uint64_t applied_revision; /* the store's revision at the last application; 0: never */
    bool is_ready;             /* the policies in force of this directory are a whole set */
    /* For health; "" if all is well. Never a document's text. */
    char failure[640];   /* the set is refused, or the directory cannot be read */
    char strangers[384]; /* policies of other directories without a file here, or in place of one */
    char elsewhere[640]; /* policies of this directory in another tenant */
    char abroad[640];    /* perhaps another platform's policies; only for the log */
    char elsewhere_tenant[LIMIT_ID_CHARACTERS * 4 + 1]; /* the first of them, for the log */
};

struct directory_scan {
    const char *path;
    struct str directory; /* its name in the store; only policies from there are deleted */
    struct str tenant;
    uint64_t (*monotonic_ns)(void);
    struct directory_state before, state; /* `before` is borrowed from policy_directory.c */
    struct policy_apply apply;            /* the steps to store; none: nothing to do */
    struct arena arena;
    uint64_t again_ms; /* look again after this time; 0: at a notice, or after policies.rescan */
    uint64_t store_revision;
};

/* On a reader. */
void directory_scan_run(struct directory_scan *l, struct store *s);
/* On the writer. */
enum err directory_scan_store(struct directory_scan *l, struct store *s, const struct actor *by,
                              struct fault *f);
/* Instead of the store step when it cannot run: the next look does all of it again. */
void directory_scan_put_off(struct directory_scan *l, const char *why);
void directory_scan_fini(struct directory_scan *l); /* does not free its states */
void watch_state_fini(struct directory_state *s);

#endif
