/* anchor_input.h - checkpoints that were kept outside of the store, for `writ audit verify --anchors PATH`:
 *
 *   a file anchor           lines {"anchored_at": …, "note": …}
 *   an evidence file        its lines `checkpoint`
 *   an object of a bucket   the signed note itself
 *   a folder                all files of it, as a bucket was fetched
 *
 * A line or a file that is none of these is counted and left out: a file anchor may have the beginning
 * of a line that a power cut has ended. */
#ifndef CLI_ANCHOR_INPUT_H
#define CLI_ANCHOR_INPUT_H

#include "cli/cli.h"

struct kept_anchor {
    struct str stream;     /* writ/NODE/JOURNAL */
    struct str note, time; /* time absent: unknown */
    uint64_t end;          /* its last record */
    bool is_met;           /* the evidence has its stream */
};

struct anchor_input {
    struct arena arena;
    struct kept_anchor *list; /* by stream, then by end */
    size_t count, room;
    uint64_t unreadable; /* lines and files */
};

void anchor_input_init(struct anchor_input *in);
void anchor_input_fini(struct anchor_input *in);
/* Prints its own error: DONE, USAGE. Finding nothing in it is an error. */
int anchor_input_read(struct cli *c, struct anchor_input *in, const char *path);
/* Those of one stream, as a part of the list; *ret_count 0: none. */
struct kept_anchor *anchor_input_of(struct anchor_input *in, struct str stream, size_t *ret_count);

#endif
