/* verify.h - checks the records of one stream against its signed checkpoints and notes of removal
 * (schemas/evidence.md).
 *
 * Give it what is known of the stream, then its records in the order of their seqs:
 *
 *   verify_init
 *   verify_add_key, verify_add_platform, verify_add_witness    first
 *   verify_set_range                        then, if only a part of the stream comes
 *   verify_add_removal                      at any time
 *   verify_add_checkpoint                   at the latest before the record `from_seq`
 *   verify_add_aside                        a record in quarantine; before the record after it
 *   verify_add_record                       each
 *   verify_finish
 *
 * A checkpoint has the frontier before its first new record. If the root that follows from this
 * frontier and the records is the signed root, then frontier and records are those that were signed.
 * So one altered run does not hide what comes after it, and reading may begin anywhere.
 *
 * Findings are passed on when they are certain, missing records at the end. Memory grows with the
 * checkpoints ahead, the notes of removal and the holes, up to the limits below. Texts are copied,
 * except for the names in init and the keys. Belongs to one thread. */
#ifndef EVIDENCE_VERIFY_H
#define EVIDENCE_VERIFY_H

#include "evidence/merkle.h"
#include "evidence/note.h"

enum {
    VERIFY_KEYS_MAX = 64,
    VERIFY_WITNESSES_MAX = 8,
    VERIFY_AHEAD_MAX = 1 << 20,  /* checkpoints, and anchors, whose last record was not read yet */
    VERIFY_RANGES_MAX = 1 << 18, /* notes of removal; holes */
    VERIFY_ASIDES_MAX = 1 << 17, /* records in quarantine ahead; a store has at most 100,000 */
    VERIFY_NAME_MAX = 4096,      /* of a tree: node and journal, percent-encoded */
};

enum verify_kind {
    VERIFY_ALTERED, /* the records do not have the signed root: at least one was changed */
    VERIFY_MISSING, /* no note of removal names these records */
    VERIFY_TAIL,    /* the same, and no later record is there */
    VERIFY_ORDER,   /* a record comes twice, or before one with a lower seq */
    VERIFY_SECOND,  /* two signed trees of the same name differ */
    VERIFY_FORGED_CHECKPOINT, /* no registered key signed it, or its columns are not its text's */
    VERIFY_FORGED_REMOVAL,    /* the same of a note of removal */
    VERIFY_FORGED_FRONTIER,   /* the records are right; the stored frontier is another one */
    VERIFY_NO_KEY,            /* no key is registered for the stream: anybody may have written it */
    VERIFY_NO_CHECKPOINT,     /* a key is registered, and nothing is signed */
    VERIFY_OLDER,             /* an anchor names records that are not here: an older database */
    VERIFY_BEYOND,            /* records past the position of the stream */
    VERIFY_FORGED_WITNESS,    /* a signature that names a witness is not the witness's */
    VERIFY_NO_WITNESS,        /* the witness has signed no checkpoint of these records */
    VERIFY_KIND_COUNT
};
const char *verify_kind_name(enum verify_kind k); /* "altered", "missing", … */

struct verify_finding {
    enum verify_kind kind;
    uint64_t first, last; /* seqs; 0: none */
    const char *text;     /* a sentence without names */
};
typedef void verify_tell(void *context, const struct verify_finding *f);

struct verify_removal {
    uint64_t first, last;
    bool is_gap; /* a person accepted the loss; else dropped by age */
    char time[32];
    bool has_tree;
    uint64_t base;
    struct frontier frontier; /* before last + 1 */
};

struct verify_mark { /* a checkpoint or an anchor ahead */
    uint64_t base, from, end;
    struct sha256 root;
    struct frontier *frontier; /* before `from`; owned; NULL: an anchor */
    bool is_anchor, is_opened;
    char time[32];   /* of an anchor; "": unknown */
    size_t witness;  /* of what a witness has signed: which; an index */
    uint64_t time_s; /* and when */
};

struct verify_witness {
    struct note_key key;
    uint64_t end, time_s; /* the newest checkpoint with the records' root that it signed; 0: none */
};

struct verify_marks {
    struct verify_mark *list; /* by `end` */
    size_t first, count, room;
};

struct verify_aside {
    uint64_t seq;
    struct sha256 leaf;
};

struct verify_asides {
    struct verify_aside *list; /* by `seq` */
    size_t first, count, room;
};

struct verify_tree {
    bool is_known;
    uint64_t base, start; /* all records from `start` on that are in it were read */
    struct frontier frontier;
};

struct verify_range {
    uint64_t first, last;
};

struct verify {
    struct str node, journal;
    verify_tell *tell;
    void *context;
    struct hasher *hasher;
    struct note_key keys[VERIFY_KEYS_MAX]; /* of the stream's engine */
    uint64_t distrusted_from[VERIFY_KEYS_MAX];
    size_t key_count;
    struct note_key platforms[VERIFY_KEYS_MAX]; /* sign notes of removal */
    size_t platform_count;
    struct verify_removal *removals;
    size_t removal_count, removal_room;
    uint64_t removal_number; /* of the newest */
    struct verify_witness witnesses[VERIFY_WITNESSES_MAX];
    size_t witness_count;
    struct verify_marks marks, anchors, witnessed;
    uint64_t open_at; /* the lowest `from` of a checkpoint that was not opened yet; 0: none */
    struct verify_range *holes;
    size_t hole_count, hole_room;
    struct verify_asides asides;
    struct verify_tree tree, other; /* as read; as the last opened checkpoint would have it */
    uint64_t first, last;           /* what should come; last 0: all to the end of the stream */
    uint64_t next;                  /* the seq that should come */
    uint64_t first_base;            /* the lowest of a signed checkpoint; 0: none */
    uint64_t good_from;             /* the records good_from … good_end have a signed root */
    bool has_signed, is_full;
    /* Ends of an anchor that no known tree leads to, and of a checkpoint that the records refute. */
    uint64_t unread_end, refuted_end;

    /* The result. good_end 0: nothing is proved. */
    uint64_t records, good_end, covered, dropped, dropped_last, given_up;
    char dropped_time[32]; /* of the newest note that dropped records; "": none */
    uint64_t anchored_end; /* the newest anchor with the records' root ends here; 0: none */
    char anchored_time[32];
};

/* The names are borrowed until fini. */
void verify_init(struct verify *h, struct str node, struct str journal, verify_tell *tell,
                 void *context);
void verify_fini(struct verify *h);

/* The public key of the stream's engine; it counts for checkpoints that end before the record
 * distrusted_from (0: for all). ERR_FULL: too many. */
enum err verify_add_key(struct verify *h, const uint8_t public_key[ED25519_KEY_BYTES],
                        uint64_t distrusted_from);
/* A key of the platform, under its name, which is borrowed. ERR_FULL: too many. */
enum err verify_add_platform(struct verify *h, const struct note_key *k);

/* A witness (C2SP tlog-cosignature), which must have signed a checkpoint of the stream. Its name is
 * borrowed. ERR_FULL: too many. */
enum err verify_add_witness(struct verify *h, const struct note_key *k);

/* Only the records first … last come, as the evidence says (the line `range`). last 0: all from the
 * first on. */
void verify_set_range(struct verify *h, uint64_t first, uint64_t last);

struct verify_checkpoint {
    struct str note;
    struct str time;          /* of an anchor: when it was anchored; absent: unknown */
    uint64_t base, end, from; /* as stored; an anchor: 0 */
    struct str frontier;      /* base64; an anchor: absent */
    bool is_anchor;
};
void verify_add_checkpoint(struct verify *h, const struct verify_checkpoint *c);
/* `number`: of the note, rising; one that was given already is left out. */
void verify_add_removal(struct verify *h, uint64_t number, struct str note);
void verify_add_aside(struct verify *h, uint64_t seq, const struct sha256 *leaf);
void verify_add_record(struct verify *h, uint64_t seq, const struct sha256 *leaf);
/* `position`: the stream's next seq as the store has it; 0: unknown. */
void verify_finish(struct verify *h, uint64_t position);

/* The text of a note of removal, without its signature. */
bool verify_read_removal(struct str note, struct verify_removal *ret);

/* `writ/NODE/JOURNAL`, percent-encoded, in `to`. False: it is too long. */
bool verify_name(struct str node, struct str journal, struct buf *to);

#endif
