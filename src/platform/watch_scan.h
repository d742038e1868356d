/* watch_scan.h - one look through policies.dir; between watch.c, watch_scan.c (the directory) and
 * watch_force.c (what is in force) only.
 *
 * A look takes what was known before and gives what is known after it, with the changes that make
 * the store say the same. It owns both until it is ended. */
#ifndef PLATFORM_WATCH_SCAN_H
#define PLATFORM_WATCH_SCAN_H

#include "base/limits.h"
#include "crypto/crypto.h"
#include "pipeline/ingest/policy_store.h"
#include "policy/policy.h"

enum {
    WATCH_FILES_MAX = LIMIT_POLICIES_PER_TENANT, /* more cannot be in force */
    WATCH_SETTLE_MS = 200,                       /* a file has to be left alone for so long */
    WATCH_REMOVAL_MS = 1000,                     /* and be gone for so long */
    /* a file's time so far ahead of ours is young too */
    WATCH_AHEAD_MS = 5000,
    /* looks that find a file unsettled: then it is told */
    WATCH_TRIES = 20,
    WATCH_BYTES_MAX = 16 << 20, /* read in one look; the rest in the next */
};

/* What tells one state of a file from another without reading it. */
struct watch_sign {
    uint64_t device, inode, size, modified_ns, changed_ns;
};

struct watch_file {
    char file[256];                 /* as it is shown: printable ASCII */
    char name[POLICY_NAME_MAX + 1]; /* "": the file's name is none */
    struct watch_sign sign;
    /* `sign` is of what was read last, which need not be read again */
    bool is_read;
    bool has_reading;        /* some state of it was read, and stored where it was valid */
    bool is_overridden;      /* its problem: another directory's text is in force */
    unsigned tries;          /* looks in a row that found it too young, or changing */
    char digest[SHA256_HEX]; /* of what was read last */
    uint64_t revision;       /* of the store, when that came into force */
    size_t problems;         /* 0: what is there is in force, or about to be */
    unsigned line, column;   /* of the first; 0: of the whole file */
    char message[384];       /* the first one's */
};

/* A policy that the directory has put in force. */
struct watch_owned {
    char name[POLICY_NAME_MAX + 1];
    uint64_t gone_ms; /* since when its file is gone; 0: it is there */
};

/* What directories have put in force in other tenants than this one's. */
struct watch_elsewhere {
    char text[640];                           /* "": nothing; names no tenant, health shows it */
    char tenant[LIMIT_ID_CHARACTERS * 4 + 1]; /* the first of them, for the log */
};

struct watch_known {
    bool is_complete;         /* everything in the directory was looked at once */
    struct watch_file *files; /* by name of the file */
    size_t file_count;
    struct watch_owned *owned;
    size_t owned_count;
    uint64_t revision;   /* of the store, when the files were compared with what is in force */
    bool is_stale;       /* they have to be compared again whatever the revision */
    char failure[384];   /* of the directory as a whole; "": none */
    char strangers[384]; /* policies that another directory has put there, without a file here */
    struct watch_elsewhere elsewhere; /* this directory */
    struct watch_elsewhere abroad;    /* others: another platform's, perhaps; only for the log */
};

/* A policy in force, of whoever's making. */
struct watch_row {
    char name[POLICY_NAME_MAX + 1];
    char digest[SHA256_HEX];
    bool is_of_file; /* some directory's */
    bool is_of_here; /* this one's */
    bool is_active;
    uint64_t revision;
};

/* What a step's texts are views of. */
struct watch_load {
    char digest[SHA256_HEX];
    char *content;
    size_t file; /* of after.files; SIZE_MAX: a deletion */
    char name[POLICY_NAME_MAX + 1];
};

struct watch_scan {
    const char *path;
    struct str directory; /* its name in the store: what is deleted is what came from there */
    struct str tenant;
    uint64_t (*wall_ns)(void), (*monotonic_ns)(void);
    struct watch_known before, after;
    /* by name, where the store has moved: else what was known is in force */
    struct watch_row *rows;
    size_t row_count;
    bool is_compared; /* `rows` is filled */
    struct policy_step *steps;
    struct watch_load *loads; /* beside each step: what it points into */
    size_t step_count;
    bool again;    /* something was too young, or gone for too short a time, or: */
    bool too_much; /* not everything was looked at */
    bool skipped;  /* something that was never read is too young, or changing */
};

/* The look itself; blocks. `s` is where it is read what is in force. */
void watch_scan_run(struct watch_scan *scan, struct store *s);
/* Puts the steps in force, or says, in `after` too, that they could not be. On the writer. */
enum err watch_scan_apply(struct watch_scan *scan, struct store *s, const struct actor *by,
                          struct fault *f);
/* The same where nobody will: it is all to be done again. */
void watch_scan_refuse(struct watch_scan *scan, const char *why);
void watch_known_fini(struct watch_known *k);
/* its steps alone: what is known is taken or freed apart */
void watch_scan_fini(struct watch_scan *scan);

/* ---- watch_force.c, for watch_scan.c ---- */

enum watch_match {
    WATCH_IN_FORCE,
    WATCH_MISSING,    /* it has to be put again */
    WATCH_OVERRIDDEN, /* another directory's file came into force since */
};

/* Fills `rows`, after.owned (what this directory has put in force), .elsewhere and .abroad. False:
 * with after.failure. */
bool watch_compare(struct watch_scan *scan, struct store *s);
/* What has become of a file that was read and valid. */
enum watch_match watch_match(const struct watch_scan *scan, const struct watch_file *f);

#endif
