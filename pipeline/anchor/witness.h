/* witness.h - how a witness is asked to sign a checkpoint, and what it answers (C2SP tlog-witness):
 *
 *   POST PREFIX/add-checkpoint
 *   old SIZE                      the leaves that the witness has
 *   BASE64                        the proof that the tree continues these; none if SIZE is 0
 *                                 an empty line
 *   the signed checkpoint
 *
 *   200  lines of signatures      it has checked the proof, and has this tree now
 *   409  SIZE                     it has another size
 *
 * Pure. Views are of the arguments. */
#ifndef ANCHOR_WITNESS_H
#define ANCHOR_WITNESS_H

#include "evidence/merkle.h"
#include "evidence/note.h"

enum { WITNESS_TEXT = 200, WITNESS_ANSWER_MAX = 16 << 10 };

void witness_put_request(struct buf *out, uint64_t old_size, const struct merkle_proof *proof,
                         struct str note);

enum witness_verdict {
    WITNESS_SIGNED,
    WITNESS_HAS_ANOTHER, /* size: ask again with this one */
    WITNESS_REFUSED,     /* this tree; others may be good */
    WITNESS_FAILED,      /* the witness itself */
};

struct witness_asked {
    const struct note_key *key; /* of the witness */
    struct str note;            /* that was sent */
    uint64_t old_size, size;    /* as they were sent */
};

struct witness_answer {
    enum witness_verdict verdict;
    struct str line;        /* of the signature, with its newline */
    uint64_t size;          /* that the witness has */
    char why[WITNESS_TEXT]; /* of the last two verdicts */
};

/* `error`: the transport's own words, if no answer came or its status has no meaning here. */
void witness_read_answer(const struct witness_asked *asked, long status, struct str body,
                         const char *error, struct witness_answer *ret);

#endif
