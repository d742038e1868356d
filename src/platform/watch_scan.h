/* watch_scan.h - one look through policies.dir; between watch.c and watch_scan.c only.
 *
 * A look takes what was known before and gives what is known after it, with the changes that make
 * the store say the same. It owns both until it is ended. */
#ifndef PLATFORM_WATCH_SCAN_H
#define PLATFORM_WATCH_SCAN_H

#include "base/limits.h"
#include "pipeline/ingest/policy_store.h"

enum {
    WATCH_NAME_MAX = 64,                          /* of a policy */
    WATCH_FILES_MAX = LIMIT_POLICIES_PER_TENANT,  /* more cannot be in force */
    WATCH_SETTLE_MS = 200,                        /* a file has to be left alone for so long */
    WATCH_REMOVAL_MS = 1000,                      /* and be gone for so long */
    WATCH_BYTES_MAX = 16 << 20,                   /* read in one look; the rest in the next */
};

/* What tells one state of a file from another without reading it. */
struct watch_sign {
    uint64_t device, inode, size, modified_ns, changed_ns;
};

struct watch_file {
    char file[256];                /* as it is shown: printable ASCII */
    char name[WATCH_NAME_MAX + 1]; /* of the policy; "": the file's name is none */
    struct watch_sign sign;
    bool is_read;                  /* `sign` is of what was read last, which need not be read again */
    size_t problems;               /* 0: what is there is in force, or about to be */
    unsigned line, column;         /* of the first; 0: of the whole file */
    char message[384];             /* the first one's */
};

/* A policy that the directory has put in force. */
struct watch_owned {
    char name[WATCH_NAME_MAX + 1];
    uint64_t gone_ms; /* since when its file is gone; 0: it is there */
};

struct watch_known {
    bool is_complete;         /* everything in the directory was looked at once */
    struct watch_file *files; /* by name of the file */
    size_t file_count;
    struct watch_owned *owned;
    size_t owned_count;
    char failure[384]; /* of the directory as a whole; "": none */
};

struct watch_scan {
    const char *path;
    struct str tenant;
    uint64_t now_ms, wall_ns;
    struct watch_known before, after;
    struct policy_step *steps;
    struct watch_load *loads; /* beside each step: what it points into */
    size_t step_count;
    bool again;    /* something was too young, or gone for too short a time, or: */
    bool too_much; /* not everything was looked at */
};

/* The look itself; blocks. `s` is where the names that are owned already are read, the first time. */
void watch_scan_run(struct watch_scan *scan, struct store *s);
/* Puts the steps in force, or says in `after` that they could not be. On the writer. */
void watch_scan_apply(struct watch_scan *scan, struct store *s, const struct actor *by);
void watch_known_fini(struct watch_known *k);
void watch_scan_fini(struct watch_scan *scan); /* its steps alone: what is known is taken or freed apart */

#endif
