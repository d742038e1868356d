/* checkpoint.h - the text of a checkpoint: which tree, its size and its root (C2SP tlog-checkpoint).
 *
 *   ORIGIN
 *   SIZE                decimal, no leading zero
 *   BASE64(root)
 *   extension lines     none or more, none of them empty
 *
 * As the text of a signed note (note.h). Views into the given bytes. Pure; any thread. */
#ifndef EVIDENCE_CHECKPOINT_H
#define EVIDENCE_CHECKPOINT_H

#include "base/fault.h"
#include "crypto/crypto.h"

struct checkpoint {
    struct str origin;
    uint64_t size; /* leaves */
    struct sha256 root;
    struct str extensions; /* whole lines; empty: none */
};

/* ERR_BAD_VALUE and a text that names the line: this is no checkpoint. */
enum err checkpoint_read(struct str text, struct checkpoint *ret, struct fault *f);
/* Appends its text. The origin is one line that is not empty, and so are the extensions (check). */
void checkpoint_put(struct buf *out, const struct checkpoint *c);
/* Takes the next extension line off the front of *extensions, without its newline. False: none is
 * left. */
bool checkpoint_next_extension(struct str *extensions, struct str *ret_line);

#endif
