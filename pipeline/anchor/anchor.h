/* anchor.h - one place outside the store that gets the checkpoints of the audit trail: its settings.
 *
 * Views are the configuration's. Pure, but for the file of the secret. */
#ifndef ANCHOR_ANCHOR_H
#define ANCHOR_ANCHOR_H

#include "base/buf.h"
#include "base/fault.h"
#include "evidence/note.h"

enum { ANCHORS_OF_ALL_MAX = 8, ANCHOR_URL_MAX = 2048, ANCHOR_SECRET_MAX = 256 };

enum anchor_kind { ANCHOR_FILE, ANCHOR_S3, ANCHOR_WITNESS };

struct anchor {
    const char *name;
    const char *file, *s3,
        *witness; /* one is not "". s3: https://host/bucket, and perhaps /prefix */
    const char *region, *access_key, *secret_file;
    const char *witness_key;      /* NAME+HASH+BASE64 */
    uint64_t retain_ms, every_ms; /* retain_ms 0: as the bucket says */
    bool allow_private, allow_plaintext;
};

static inline enum anchor_kind anchor_kind(const struct anchor *a)
{
    return *a->file != '\0' ? ANCHOR_FILE : *a->s3 != '\0' ? ANCHOR_S3 : ANCHOR_WITNESS;
}

/* ERR_BAD_VALUE: names the option that is wrong, and what would be right. */
enum err anchor_check(const struct anchor *a, struct fault *f);
/* The key of a checked witness. */
struct note_key anchor_witness_key(const struct anchor *a);
/* The access key's secret, to be wiped by the caller. */
enum err anchor_read_secret(const struct anchor *a, char to[ANCHOR_SECRET_MAX + 2],
                            struct fault *f);
/* The URL of the object for a checkpoint: the anchor's, the checkpoint's origin, its last record. The
 * same checkpoint has the same URL. Overflow is set in the buf. */
void anchor_put_url(struct buf *out, const struct anchor *a, struct str origin, uint64_t end_seq);
/* The line of a file, with its newline. */
void anchor_put_line(struct buf *out, struct str note, uint64_t now_ms);

#endif
