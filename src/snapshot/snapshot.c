/* snapshot.c - writing and reading the file that snapshot.h describes.
 *
 * Writing walks the shards twice: once to learn the size, so that the room is taken before the
 * first byte (a full disk is met there and nowhere else), once to write. Reading does so too: the
 * digest is settled before the first entry is given, so no caller has to take back half a state. */
#include "snapshot/snapshot.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "crypto/crypto.h"
#include "base/little.h"
#include "shards/serialize.h"

enum { PIECE_BYTES = 2 << 20, ENTRY_HEADER_BYTES = 6, NAMES_MAX = 64 };
/* What is written, and the oldest that is read. Entries say by themselves what they are; each
 * version has kinds of them that a program of the one before does not know. */
enum { VERSION = 4, VERSION_OLDEST = 1 };

_Static_assert((int)PIECE_BYTES >= (int)SHARD_ENTRY_BYTES_MAX + (int)ENTRY_HEADER_BYTES,
               "an entry fits into a piece");

static const char magic[8] = {'w', 'r', 'i', 't', 'S', 'N', 'P', '1'};
static const char adopted_name[] = "adopted";

/* ---- names ---- */

void snapshot_write_name(uint64_t position, char to[SNAPSHOT_NAME])
{
    snprintf(to, SNAPSHOT_NAME, "snapshot-%016" PRIx64, position);
}

static bool read_name(const char *name, uint64_t *ret_position)
{
    const struct str s = str_from(name), front = STR("snapshot-");
    return str_starts(s, front) && str_to_u64_hex(str_skip(s, front.size), ret_position);
}

struct names { /* what is in the directory */
    uint64_t positions[NAMES_MAX];
    size_t count;
    char unready[NAMES_MAX][SNAPSHOT_NAME];
    size_t unready_count;
    bool adopted; /* the mark is there */
};

static void note_name(void *context, const char *name)
{
    struct names *n = context;
    uint64_t position;
    size_t size = strlen(name);
    if (read_name(name, &position)) {
        if (n->count < NAMES_MAX) n->positions[n->count++] = position;
    } else if (size < SNAPSHOT_NAME && size > 4 && strcmp(name + size - 4, ".new") == 0 &&
               n->unready_count < NAMES_MAX) {
        memcpy(n->unready[n->unready_count++], name, size + 1);
    } else if (strcmp(name, adopted_name) == 0) {
        n->adopted = true;
    }
}

static int newer_first(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? 1 : left > right ? -1 : 0;
}

static enum err list_names(struct disk *d, struct names *ret)
{
    *ret = (struct names){0};
    enum err err = d->list(d->state, note_name, ret);
    if (err == ERR_OK) qsort(ret->positions, ret->count, sizeof *ret->positions, newer_first);
    return err;
}

/* ---- writing ---- */

struct writer {
    struct disk *disk;
    int file;
    uint64_t offset; /* of the piece's first byte */
    char *piece;
    size_t held;
    struct hasher *hasher;
    uint64_t count, bytes; /* of entries: counted in the first walk */
    uint64_t count_again, bytes_again;
    uint32_t *live;
    const _Atomic bool *given_up;
};

static enum err flush(struct writer *w)
{
    if (w->held == 0) return ERR_OK;
    hasher_add(w->hasher, str_of(w->piece, w->held));
    enum err err = w->disk->write(w->disk->state, w->file, w->piece, w->held, w->offset);
    w->offset += w->held;
    w->held = 0;
    return err;
}

static enum err put(struct writer *w, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        size_t part = PIECE_BYTES - w->held < size ? PIECE_BYTES - w->held : size;
        memcpy(w->piece + w->held, at, part);
        w->held += part;
        at += part;
        size -= part;
        enum err err = w->held == PIECE_BYTES ? flush(w) : ERR_OK;
        if (err != ERR_OK) return err;
    }
    return ERR_OK;
}

static bool is_given_up(const struct writer *w)
{
    return w->given_up != NULL && atomic_load(w->given_up);
}

static enum err count_entry(void *context, struct str entry)
{
    struct writer *w = context;
    if (is_given_up(w)) return ERR_CLOSED;
    check(entry.size > 0 && entry.size <= SHARD_ENTRY_BYTES_MAX);
    w->count++;
    w->bytes += ENTRY_HEADER_BYTES + entry.size;
    return ERR_OK;
}

static enum err put_entry(void *context, struct str entry)
{
    struct writer *w = context;
    if (is_given_up(w)) return ERR_CLOSED;
    struct shard_entry e;
    check(shard_entry_read(entry, &e));
    w->count_again++;
    w->bytes_again += ENTRY_HEADER_BYTES + entry.size;
    if (w->live != NULL && e.object < SHARD_MIRRORED) w->live[e.slot]++;
    char header[ENTRY_HEADER_BYTES];
    little_put32(header, (uint32_t)entry.size);
    little_put16(header + 4, (uint16_t)e.slot);
    enum err err = put(w, header, sizeof header);
    return err == ERR_OK ? put(w, entry.bytes, entry.size) : err;
}

static enum err put_head(struct writer *w, const struct lineage *past)
{
    char header[SNAPSHOT_HEADER_BYTES] = {0};
    memcpy(header, magic, sizeof magic);
    little_put32(header + 8, VERSION);
    little_put32(header + 12, (uint32_t)past->epoch_count);
    little_put64(header + 16, past->position);
    little_put64(header + 24, w->count);
    little_put64(header + 32, w->bytes);
    little_put32(header + 40, past->adopted_at_known ? LIMIT_SLOTS : 0);
    memcpy(header + 128, past->adopted, strlen(past->adopted));
    enum err err = put(w, header, sizeof header);
    if (err == ERR_OK) err = put(w, past->epochs, past->epoch_count * JOURNAL_EPOCH_TEXT);
    for (unsigned i = 0; err == ERR_OK && past->adopted_at_known && i < LIMIT_SLOTS; i++) {
        char position[8];
        little_put64(position, past->adopted_at[i]);
        err = put(w, position, sizeof position);
    }
    return err;
}

/* What stands between the header and the entries. */
static uint64_t past_bytes(size_t epochs, bool adopted_at)
{
    return epochs * JOURNAL_EPOCH_TEXT + (adopted_at ? (uint64_t)LIMIT_SLOTS * 8 : 0);
}

static enum err put_all(struct writer *w, const struct lineage *past, struct shard *const *shards,
                        unsigned count)
{
    enum err err = put_head(w, past);
    for (unsigned i = 0; err == ERR_OK && i < count; i++) err = shard_save(shards[i], put_entry, w);
    if (err == ERR_OK) err = flush(w);
    if (err != ERR_OK) return err;
    check(w->count_again == w->count && w->bytes_again == w->bytes);
    struct sha256 digest = hasher_end(w->hasher);
    err = w->disk->write(w->disk->state, w->file, digest.bytes, SHA256_BYTES, w->offset);
    return err == ERR_OK ? w->disk->sync(w->disk->state, w->file) : err;
}

static enum err make_file(struct writer *w, const struct lineage *past, struct shard *const *shards,
                          unsigned count)
{
    struct disk *d = w->disk;
    char name[SNAPSHOT_NAME], unready[SNAPSHOT_NAME];
    snapshot_write_name(past->position, name);
    snprintf(unready, sizeof unready, "%.25s.new", name);
    (void)d->remove(d->state, unready); /* of an attempt that a crash ended */
    enum err err = d->open(d->state, unready, true, &w->file);
    if (err != ERR_OK) return err;
    uint64_t size = SNAPSHOT_HEADER_BYTES + past_bytes(past->epoch_count, past->adopted_at_known) +
                    w->bytes + SHA256_BYTES;
    err = d->reserve(d->state, w->file, size);
    if (err == ERR_OK) err = put_all(w, past, shards, count);
    if (err == ERR_OK) d->uncache(d->state, w->file, size);
    d->close(d->state, w->file);
    if (err == ERR_OK) err = d->rename(d->state, unready, name);
    if (err != ERR_OK) {
        (void)d->remove(d->state, unready);
        return err;
    }
    return d->sync_directory(d->state);
}

enum err snapshot_write(struct disk *d, const struct lineage *past, struct shard *const *shards,
                        unsigned count, uint32_t *live, const _Atomic bool *given_up,
                        struct fault *f)
{
    struct writer w = {.disk = d, .live = live, .given_up = given_up};
    enum err err = ERR_OK;
    for (unsigned i = 0; err == ERR_OK && i < count; i++)
        err = shard_save(shards[i], count_entry, &w);
    if (err != ERR_OK)
        return fault_set(f, err, "", "snapshot %" PRIu64 ": %s", past->position,
                         err == ERR_CLOSED ? "given up" : err_sentence(err));
    w.piece = malloc(PIECE_BYTES);
    if (w.piece == NULL)
        return fault_set(f, ERR_FULL, "", "snapshot %" PRIu64 ": out of memory", past->position);
    w.hasher = hasher_create();
    hasher_begin(w.hasher);
    err = make_file(&w, past, shards, count);
    hasher_destroy(w.hasher);
    free(w.piece);
    if (err == ERR_OK) return ERR_OK;
    return fault_set(f, err, "", "snapshot %" PRIu64 " cannot be written: %s", past->position,
                     err_sentence(err));
}

enum err snapshot_mark_adopted(struct disk *d, struct fault *f)
{
    int file;
    enum err err = d->open(d->state, adopted_name, true, &file);
    if (err == ERR_EXISTS) return ERR_OK;
    if (err == ERR_OK) {
        err = d->sync(d->state, file);
        d->close(d->state, file);
    }
    if (err == ERR_OK) err = d->sync_directory(d->state);
    return err == ERR_OK ? ERR_OK
                         : fault_set(f, err, "",
                                     "that the state was adopted cannot be noted beside its "
                                     "snapshots: %s",
                                     err_sentence(err));
}

enum err snapshot_make(struct disk *disk, const struct lineage *past, struct shard *const *shards,
                       unsigned count, struct fault *f)
{
    enum err err = snapshot_write(disk, past, shards, count, NULL, NULL, f);
    if (err == ERR_OK && past->adopted[0] != '\0') err = snapshot_mark_adopted(disk, f);
    if (err != ERR_OK) return err;
    err = snapshot_drop_old(disk);
    return err == ERR_OK
               ? ERR_OK
               : fault_set(f, err, "", "old snapshots cannot be removed: %s", err_sentence(err));
}

uint64_t snapshot_size(struct disk *d, uint64_t position)
{
    char name[SNAPSHOT_NAME];
    uint64_t size = 0;
    int file;
    snapshot_write_name(position, name);
    if (d->open(d->state, name, false, &file) != ERR_OK) return 0;
    if (d->size(d->state, file, &size) != ERR_OK) size = 0;
    d->close(d->state, file);
    return size;
}

/* Of those that are listed, newest first. */
static enum err drop(struct disk *d, struct names *n, const bool stays[NAMES_MAX])
{
    enum err err = ERR_OK;
    for (size_t i = 0; err == ERR_OK && i < n->count; i++) {
        char name[SNAPSHOT_NAME];
        snapshot_write_name(n->positions[i], name);
        if (!stays[i]) err = d->remove(d->state, name);
    }
    for (size_t i = 0; err == ERR_OK && i < n->unready_count; i++)
        err = d->remove(d->state, n->unready[i]);
    return err == ERR_OK ? d->sync_directory(d->state) : err;
}

enum err snapshot_drop_old(struct disk *d)
{
    struct names n;
    bool stays[NAMES_MAX] = {0};
    enum err err = list_names(d, &n);
    for (size_t i = 0; i < SNAPSHOT_KEPT; i++) stays[i] = true;
    return err == ERR_OK ? drop(d, &n, stays) : err;
}

enum err snapshot_drop_others(struct disk *d, uint64_t made, uint64_t from)
{
    struct names n;
    bool stays[NAMES_MAX] = {0};
    if (made == from) return snapshot_drop_old(d); /* nothing was behind it */
    enum err err = list_names(d, &n);
    for (size_t i = 0; i < n.count; i++)
        stays[i] = n.positions[i] == made || n.positions[i] == from;
    return err == ERR_OK ? drop(d, &n, stays) : err;
}

uint64_t snapshot_holds(struct disk *d, uint64_t position)
{
    struct names n;
    if (list_names(d, &n) != ERR_OK || n.count < SNAPSHOT_KEPT) return 0;
    uint64_t older = n.positions[SNAPSHOT_KEPT - 1];
    if (older > position) older = position;
    return older > 0 ? older - 1 : 0;
}

/* ---- reading ---- */

struct reader {
    struct disk *disk;
    int file;
    uint64_t size;    /* of the file */
    uint32_t version; /* of its format; 0: not known yet */
    uint64_t next;    /* offset behind what is held */
    char *piece;      /* PIECE_BYTES */
    size_t at, held;
    const _Atomic bool *given_up;
};

static bool has_given_up(const struct reader *r)
{
    return r->given_up != NULL && atomic_load_explicit(r->given_up, memory_order_relaxed);
}

/* The next `size` bytes (at most PIECE_BYTES), valid until the next call. */
static enum err take(struct reader *r, size_t size, const char **ret)
{
    if (r->held - r->at < size) {
        memmove(r->piece, r->piece + r->at, r->held - r->at);
        r->held -= r->at;
        r->at = 0;
        uint64_t left = r->size - r->next;
        size_t more = PIECE_BYTES - r->held < left ? PIECE_BYTES - r->held : (size_t)left;
        if (r->held + more < size) return ERR_CORRUPT;
        enum err err = r->disk->read(r->disk->state, r->file, r->piece + r->held, more, r->next);
        if (err != ERR_OK) return err;
        r->held += more;
        r->next += more;
    }
    *ret = r->piece + r->at;
    r->at += size;
    return ERR_OK;
}

static void rewind_reader(struct reader *r)
{
    r->at = r->held = 0;
    r->next = 0;
}

/* The digest at the end is that of all before. */
static enum err verify(struct reader *r)
{
    if (r->size < SNAPSHOT_HEADER_BYTES + SHA256_BYTES) return ERR_CORRUPT;
    struct hasher *h = hasher_create();
    hasher_begin(h);
    enum err err = ERR_OK;
    const char *bytes;
    for (uint64_t left = r->size - SHA256_BYTES; err == ERR_OK && left > 0;) {
        size_t part = left < PIECE_BYTES / 2 ? (size_t)left : PIECE_BYTES / 2;
        err = has_given_up(r) ? ERR_CLOSED : take(r, part, &bytes);
        if (err == ERR_OK) hasher_add(h, str_of(bytes, part));
        left -= part;
    }
    struct sha256 digest = hasher_end(h);
    hasher_destroy(h);
    if (err == ERR_OK) err = take(r, SHA256_BYTES, &bytes);
    if (err == ERR_OK && memcmp(bytes, digest.bytes, SHA256_BYTES) != 0) err = ERR_CORRUPT;
    rewind_reader(r);
    return err;
}

struct head {
    uint64_t count, bytes;
};

static enum err read_head(struct reader *r, uint64_t position, struct lineage *past,
                          struct head *ret)
{
    const char *bytes;
    enum err err = take(r, SNAPSHOT_HEADER_BYTES, &bytes);
    if (err != ERR_OK) return err;
    size_t epochs = little_get32(bytes + 12), slots = little_get32(bytes + 40);
    uint64_t inside = r->size - SNAPSHOT_HEADER_BYTES - SHA256_BYTES;
    *ret = (struct head){.count = little_get64(bytes + 24), .bytes = little_get64(bytes + 32)};
    past->position = little_get64(bytes + 16);
    if (memcmp(bytes, magic, sizeof magic) == 0) r->version = little_get32(bytes + 8);
    if (r->version < VERSION_OLDEST || r->version > VERSION || past->position != position ||
        epochs > LINEAGE_EPOCHS_MAX || (slots != 0 && slots != LIMIT_SLOTS) ||
        bytes[SNAPSHOT_HEADER_BYTES - 1] != '\0' || inside < past_bytes(epochs, slots != 0) ||
        inside - past_bytes(epochs, slots != 0) != ret->bytes)
        return ERR_CORRUPT;
    memcpy(past->adopted, bytes + 128, LINEAGE_ADOPTED_TEXT);
    past->epoch_count = epochs;
    for (size_t i = 0; err == ERR_OK && i < epochs; i++) {
        err = take(r, JOURNAL_EPOCH_TEXT, &bytes);
        if (err == ERR_OK) memcpy(past->epochs[i], bytes, JOURNAL_EPOCH_TEXT);
    }
    past->adopted_at_known = slots != 0;
    for (size_t i = 0; err == ERR_OK && i < slots; i++) {
        err = take(r, 8, &bytes);
        if (err == ERR_OK) past->adopted_at[i] = little_get64(bytes);
    }
    return err;
}

static enum err give_entries(struct reader *r, const struct head *head,
                             enum err (*each)(void *context, unsigned slot, struct str entry),
                             void *context)
{
    uint64_t left = head->bytes;
    for (uint64_t i = 0; i < head->count; i++) {
        const char *bytes;
        if (has_given_up(r)) return ERR_CLOSED;
        if (left < ENTRY_HEADER_BYTES) return ERR_CORRUPT;
        enum err err = take(r, ENTRY_HEADER_BYTES, &bytes);
        if (err != ERR_OK) return err;
        size_t size = little_get32(bytes);
        unsigned slot = little_get16(bytes + 4);
        left -= ENTRY_HEADER_BYTES;
        if (size == 0 || size > SHARD_ENTRY_BYTES_MAX || size > left || slot >= LIMIT_SLOTS)
            return ERR_CORRUPT;
        err = take(r, size, &bytes);
        if (err == ERR_OK) err = each(context, slot, str_of(bytes, size));
        if (err != ERR_OK) return err;
        left -= size;
    }
    return left == 0 ? ERR_OK : ERR_CORRUPT;
}

/* *ret_whole: the file verified, so an error is the entries' (or `each` gave it)
 * and no older file helps. */
static enum err read_one(struct reader *r, uint64_t position, struct lineage *past,
                         enum err (*each)(void *context, unsigned slot, struct str entry),
                         void *context, bool *ret_whole)
{
    struct disk *d = r->disk;
    char name[SNAPSHOT_NAME];
    struct head head;
    *ret_whole = false;
    r->version = 0;
    snapshot_write_name(position, name);
    enum err err = d->open(d->state, name, false, &r->file);
    if (err != ERR_OK) return err;
    rewind_reader(r);
    err = d->size(d->state, r->file, &r->size);
    if (err == ERR_OK) err = verify(r);
    if (err == ERR_OK) err = read_head(r, position, past, &head);
    if (err == ERR_OK) {
        *ret_whole = true;
        err = give_entries(r, &head, each, context);
        d->uncache(d->state, r->file, r->size);
    }
    d->close(d->state, r->file);
    return err;
}

enum err snapshot_read(struct disk *disk,
                       enum err (*each)(void *context, unsigned slot, struct str entry),
                       void *context, struct lineage *ret, struct fault *f)
{
    return snapshot_read_until(disk, NULL, each, context, ret, f);
}

enum err snapshot_read_until(struct disk *disk, const _Atomic bool *given_up,
                             enum err (*each)(void *context, unsigned slot, struct str entry),
                             void *context, struct lineage *ret, struct fault *f)
{
    struct names n;
    enum err err = list_names(disk, &n);
    if (err != ERR_OK)
        return fault_set(f, err, "", "the snapshots' directory cannot be read: %s",
                         err_sentence(err));
    *ret = (struct lineage){0};
    if (n.count == 0 && n.adopted)
        return fault_set(f, ERR_CORRUPT, "",
                         "the snapshots are gone, and this state began with what was adopted from "
                         "another engine, which is in no journal");
    if (n.count == 0) return ERR_OK;
    struct reader r = {.disk = disk, .piece = malloc(PIECE_BYTES), .given_up = given_up};
    if (r.piece == NULL) return fault_set(f, ERR_FULL, "", "out of memory");
    bool whole = false;
    enum snapshot_damage damage = SNAPSHOT_WHOLE;
    uint64_t damaged = 0;
    for (size_t i = 0; i < n.count && !whole && !has_given_up(&r); i++) {
        err = read_one(&r, n.positions[i], ret, each, context, &whole);
        /* the one before it would be a state that is older than what was answered */
        if (r.version > VERSION) {
            free(r.piece);
            return fault_set(f, ERR_BAD_VALUE, "",
                             "snapshot-%016" PRIx64
                             " was written by a newer program (format %" PRIu32
                             ", this one reads %d); start the newer one again",
                             n.positions[i], r.version, VERSION);
        }
        if (err == ERR_NOT_PERMITTED || err == ERR_NO_DESCRIPTORS) {
            free(r.piece);
            return fault_set(f, err, "", "snapshot-%016" PRIx64 " cannot be read: %s",
                             n.positions[i], err_sentence(err));
        }
        if (whole || err == ERR_CLOSED) continue;
        log_text(LOG_ERROR, "snapshot_damaged", "snapshot-%016" PRIx64 " does not verify: %s",
                 n.positions[i], err_sentence(err));
        if (damage == SNAPSHOT_WHOLE) damaged = n.positions[i];
        damage = SNAPSHOT_OLDER_SERVES;
    }
    free(r.piece);
    ret->damage = damage;
    ret->damaged = damaged;
    if (whole && err == ERR_OK && n.adopted && ret->adopted[0] == '\0')
        return fault_set(f, ERR_CORRUPT, "",
                         "snapshot-%016" PRIx64 " is another engine's: the state here began "
                         "with what was adopted, and the one in it did not",
                         ret->position);
    if (whole && err == ERR_OK) return ERR_OK;
    if (has_given_up(&r)) return fault_set(f, ERR_CLOSED, "", "given up");
    if (whole)
        return fault_set(f, err, "", "snapshot-%016" PRIx64 ": an entry cannot be loaded: %s",
                         ret->position, err_sentence(err));
    *ret = (struct lineage){.damage = n.adopted ? SNAPSHOT_WHOLE : SNAPSHOT_NONE_VERIFIES,
                            .damaged = damaged};
    return fault_set(f, ERR_CORRUPT, "",
                     "none of the %zu snapshots verifies, the newest is snapshot-%016" PRIx64
                     "; restore one of them%s",
                     n.count, n.positions[0],
                     n.adopted ? ": the state began with what was adopted from another engine, "
                                 "which is in no journal"
                               : "");
}

enum { SNAPSHOT_LEAST_BYTES = 64 << 10 }; /* its head, and what its directory takes */

uint64_t snapshot_needs(uint64_t last_bytes, uint64_t bytes_behind)
{
    return SNAPSHOT_LEAST_BYTES + last_bytes + last_bytes / 8 + bytes_behind / 2;
}
