/* evidence.h - evidence as lines: from a file, or from the platform page by page (schemas/evidence.md). */
#ifndef CLI_EVIDENCE_H
#define CLI_EVIDENCE_H

#include "cli/cli.h"
#include "crypto/crypto.h"
#include "evidence/merkle.h"

enum { EVIDENCE_LINE_MAX = 8 << 20 /* the text of a policy, escaped */ };

struct evidence_source {
    struct cli *c;
    const char *path;    /* NULL: the platform; a folder: of writ evidence export */
    struct str from, to; /* of the platform: only this time; absent: all */
    bool is_quiet;       /* no progress bar */
    bool is_shown;       /* the bar is on the terminal now */
    /* a file */
    FILE *file;
    char *line;
    size_t line_room;
    uint64_t bytes, size; /* read so far, and in all; size 0: unknown */
    /* the platform */
    struct cli page; /* with an arena that lives for a page */
    struct str rest; /* of the page */
    struct target next;
    size_t path_size; /* of its text */
    bool is_over, is_begun;
    uint64_t lines;
    uint64_t shown_ns;
};

/* Path, from and to are set. Prints its own error: DONE, USAGE. */
int evidence_open(struct cli *c, struct evidence_source *s);
void evidence_close(struct evidence_source *s);
/* Before other output: takes the progress bar away until the next line. */
void evidence_hide_progress(struct evidence_source *s);
/* The next line, without its newline and the comma of a page; a view until the next call. DONE with an
 * absent line: it was the last. Prints its own error. */
int evidence_next(struct evidence_source *s, struct str *ret);

/* The platform's lines from the beginning of this stream on. The names are copied. */
void evidence_seek(struct evidence_source *s, struct str node, struct str journal);

/* --from and --to as times; absent: not given. Prints its own error: DONE, USAGE. */
int evidence_times(struct cli *c, const struct arguments *a, struct evidence_source *s);

/* `writ audit export --evidence` */
int evidence_export(struct cli *c, const struct arguments *a);

/* ---- one line ---- */

struct evidence_line {
    struct json *head; /* all members but `event` */
    struct str kind, node, journal;
    struct str event; /* exact bytes; absent: there is none */
};
/* False: it is not a line of evidence. Views into the line and the arena. */
bool evidence_read(struct str line, struct arena *arena, struct evidence_line *ret);
/* The same of a line from evidence_next(). A file must begin with the line `evidence`. Prints its own
 * error: DONE, REFUSED, or USAGE if the file is another one. */
int evidence_parse(struct evidence_source *s, struct str line, struct arena *arena,
                   struct evidence_line *ret);

/* ---- the proof of one record (schemas/evidence.md) ---- */

struct evidence_proof {
    struct str event_id, node, journal;
    struct str checkpoint, public_key, record;
    uint64_t seq, base;
    const struct merkle_proof *hashes;
};
void evidence_put_proof(struct buf *out, const struct evidence_proof *p);

/* ---- one event ---- */

struct evidence_event {
    bool is_event;      /* an object with an event_id */
    bool hash_is_right; /* output_hash is that of its members, or there is none */
    struct str event_id, kind, trace_id, timestamp, previous;
};
/* Of canonical bytes, without a tree: the members are found where they stand. */
void evidence_event_read(struct str bytes, struct hasher *h, struct buf *scratch,
                         struct evidence_event *ret);
/* Of a row without a stream: any JSON, since posted events are kept as they came. The output_hash of
 * an external event is another system's, over a kind without "external.", and is not compared. */
void evidence_own_event_read(struct str bytes, struct arena *arena, struct hasher *h,
                             struct buf *scratch, struct evidence_event *ret);

#endif
