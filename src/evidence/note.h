/* note.h - signed notes: a text, and signatures below it (C2SP signed-note), by Ed25519: of the author
 * (type 0x01), and of witnesses (0x04, C2SP tlog-cosignature). Those of other types are read and ignored.
 *
 *   text                                      at least one line
 *                                             an empty line
 *   — NAME BASE64(key id, signature)          1 to NOTE_SIGNATURES_MAX lines
 *
 * The text ends with its newline and may have empty lines. The author's signature is over the text alone. A
 * witness signs "cosignature/v1\ntime SECONDS\n" before the text; 8 bytes of the time stand before its
 * signature. A key id is the first 4 bytes of SHA-256(name, "\n", type, public key).
 *
 * A key of others is written as Go's sumdb/note writes it, NAME+ID+BASE64(type, public key).
 *
 * What is read are views into the given bytes. Pure; any thread. */
#ifndef EVIDENCE_NOTE_H
#define EVIDENCE_NOTE_H

#include "base/fault.h"
#include "crypto/crypto.h"

enum {
    NOTE_BYTES_MAX = 64 << 10,
    NOTE_SIGNATURES_MAX = 16, /* what a verifier must accept at least */
    NOTE_NAME_MAX = 255,
    NOTE_SIGNATURE_MAX = 8 << 10, /* digits of base64; a post-quantum signature has 6.6 KiB */
    NOTE_KEY_TEXT_MAX = NOTE_NAME_MAX + 1 + 8 + 1 + 44,
    NOTE_COSIGNED_MAX = 4 << 10, /* of a text that a witness signs: a checkpoint */
};

struct note_signature {
    struct str name;
    uint32_t key_id;
    struct str digits; /* base64 of the key id and the signature */
};

struct note {
    struct str text; /* with its last newline */
    size_t count;
    struct note_signature signatures[NOTE_SIGNATURES_MAX];
};

/* Not empty, at most NOTE_NAME_MAX bytes of UTF-8, no "+", no control character, no character that
 * Unicode counts as a space. */
bool note_name_is_valid(struct str name);

/* ERR_BAD_VALUE and a text that names the line: the bytes are not a note. ERR_FULL: a limit above. */
enum err note_read(struct str bytes, struct note *ret, struct fault *f);

/* ---- keys ---- */

enum note_key_type { NOTE_AUTHOR = 1, NOTE_WITNESS = 4 };

struct note_key {
    struct str name; /* borrowed */
    enum note_key_type type;
    uint32_t id;
    uint8_t public_key[ED25519_KEY_BYTES];
};

/* Of an author. The name must be valid. */
struct note_key note_key_of(struct str name, const uint8_t public_key[ED25519_KEY_BYTES]);
/* ERR_BAD_VALUE: not such a text, or the id is not that of its name and key. */
enum err note_key_read(struct str text, struct note_key *ret, struct fault *f);
void note_key_put(struct buf *out, const struct note_key *k);

/* ---- signatures ---- */

enum note_verdict {
    NOTE_FORGED,   /* it names this key, and at least one signature that does is wrong */
    NOTE_UNSIGNED, /* no signature names this key */
    NOTE_SIGNED,
};

/* 30 to 100 µs for a signature by this key. */
enum note_verdict note_verify(const struct note *n, const struct note_key *k);
/* Of a witness: *ret_time_s is when it signed, by its own clock; of several signatures the newest. */
enum note_verdict note_verify_witness(const struct note *n, const struct note_key *k,
                                      uint64_t *ret_time_s);

/* Appends the note of this text with one signature. The text ends with a newline, is UTF-8, and has no
 * control character but newlines; the name is valid (check). False: the library has no memory. A full
 * buffer is seen by `out->overflow`. */
bool note_sign(struct buf *out, struct str text, struct str name, const struct ed25519 *key);

#endif
