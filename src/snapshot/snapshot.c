/* snapshot.c - the file that snapshot.h describes: its head, and which of several is read. */
#include "snapshot/snapshot.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/little.h"
#include "snapshot/state_file.h"

/* What is written, and the oldest that is read. Entries say by themselves what they are; each
 * version has kinds of them that a program of the one before does not know. */
enum { VERSION = 4, VERSION_OLDEST = 1 };

static const char magic[8] = {'w', 'r', 'i', 't', 'S', 'N', 'P', '1'};
static const char adopted_name[] = "adopted";

/* ---- names ---- */

static struct str word(void) { return STR("snapshot"); }

void snapshot_write_name(uint64_t position, char to[SNAPSHOT_NAME])
{
    char name[STATE_FILE_NAME];
    state_file_write_name(word(), position, name);
    memcpy(to, name, SNAPSHOT_NAME);
}

static enum err list_names(struct disk *d, struct state_files *ret)
{
    return state_files_list(d, word(), adopted_name, ret);
}

/* ---- writing ---- */

static void put_head(void *context, const struct state_file_counts *counts, struct buf *out)
{
    const struct lineage *past = context;
    char header[SNAPSHOT_HEADER_BYTES] = {0};
    memcpy(header, magic, sizeof magic);
    little_put32(header + 8, VERSION);
    little_put32(header + 12, (uint32_t)past->epoch_count);
    little_put64(header + 16, past->position);
    little_put64(header + 24, counts->count);
    little_put64(header + 32, counts->bytes);
    little_put32(header + 40, past->adopted_at_known ? LIMIT_SLOTS : 0);
    memcpy(header + 128, past->adopted, strlen(past->adopted));
    buf_put(out, str_of(header, sizeof header));
    buf_put(out, str_of((const char *)past->epochs, past->epoch_count * JOURNAL_EPOCH_TEXT));
    for (unsigned i = 0; past->adopted_at_known && i < LIMIT_SLOTS; i++) {
        char position[8];
        little_put64(position, past->adopted_at[i]);
        buf_put(out, str_of(position, sizeof position));
    }
}

/* What stands between the header and the entries. */
static uint64_t past_bytes(size_t epochs, bool adopted_at)
{
    return epochs * JOURNAL_EPOCH_TEXT + (adopted_at ? (uint64_t)LIMIT_SLOTS * 8 : 0);
}

enum err snapshot_write(struct disk *d, const struct lineage *past, struct shard *const *shards,
                        unsigned count, uint32_t *live, const _Atomic bool *given_up,
                        struct fault *f)
{
    struct lineage *head = (struct lineage *)(uintptr_t)past; /* it is only read */
    struct state_file_writing w = {
        .disk = d, .put_head = put_head, .context = head, .live = live, .given_up = given_up};
    snapshot_write_name(past->position, w.name);
    enum err err = state_file_write(&w, shards, count, NULL);
    if (err == ERR_OK) return ERR_OK;
    if (err == ERR_CLOSED)
        return fault_set(f, err, "", "snapshot %" PRIu64 ": given up", past->position);
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

bool snapshot_exists(struct disk *d)
{
    struct state_files n;
    return list_names(d, &n) == ERR_OK && n.count > 0;
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

enum err snapshot_drop_old(struct disk *d)
{
    struct state_files n;
    bool stays[STATE_FILES_MAX] = {0};
    enum err err = list_names(d, &n);
    for (size_t i = 0; i < SNAPSHOT_KEPT; i++) stays[i] = true;
    return err == ERR_OK ? state_files_drop(d, word(), &n, stays) : err;
}

enum err snapshot_drop_others(struct disk *d, uint64_t made, uint64_t from)
{
    struct state_files n;
    bool stays[STATE_FILES_MAX] = {0};
    if (made == from) return snapshot_drop_old(d); /* nothing was behind it */
    enum err err = list_names(d, &n);
    for (size_t i = 0; i < n.count; i++)
        stays[i] = n.positions[i] == made || n.positions[i] == from;
    return err == ERR_OK ? state_files_drop(d, word(), &n, stays) : err;
}

uint64_t snapshot_holds(struct disk *d, uint64_t position)
{
    struct state_files n;
    if (list_names(d, &n) != ERR_OK || n.count < SNAPSHOT_KEPT) return 0;
    uint64_t older = n.positions[SNAPSHOT_KEPT - 1];
    if (older > position) older = position;
    return older > 0 ? older - 1 : 0;
}

/* ---- reading ---- */

static enum err read_head(struct state_reader *r, uint64_t position, struct lineage *past,
                          struct state_file_counts *ret, uint32_t *ret_version)
{
    const char *bytes;
    enum err err = state_reader_take(r, SNAPSHOT_HEADER_BYTES, &bytes);
    if (err != ERR_OK) return err;
    size_t epochs = little_get32(bytes + 12), slots = little_get32(bytes + 40);
    uint64_t inside = state_reader_left(r);
    *ret = (struct state_file_counts){.count = little_get64(bytes + 24),
                                      .bytes = little_get64(bytes + 32)};
    past->position = little_get64(bytes + 16);
    if (memcmp(bytes, magic, sizeof magic) == 0) *ret_version = little_get32(bytes + 8);
    if (*ret_version < VERSION_OLDEST || *ret_version > VERSION || past->position != position ||
        epochs > LINEAGE_EPOCHS_MAX || (slots != 0 && slots != LIMIT_SLOTS) ||
        bytes[SNAPSHOT_HEADER_BYTES - 1] != '\0' || inside < past_bytes(epochs, slots != 0) ||
        inside - past_bytes(epochs, slots != 0) != ret->bytes)
        return ERR_CORRUPT;
    memcpy(past->adopted, bytes + 128, LINEAGE_ADOPTED_TEXT);
    past->epoch_count = epochs;
    for (size_t i = 0; err == ERR_OK && i < epochs; i++) {
        err = state_reader_take(r, JOURNAL_EPOCH_TEXT, &bytes);
        if (err == ERR_OK) memcpy(past->epochs[i], bytes, JOURNAL_EPOCH_TEXT);
    }
    past->adopted_at_known = slots != 0;
    for (size_t i = 0; err == ERR_OK && i < slots; i++) {
        err = state_reader_take(r, 8, &bytes);
        if (err == ERR_OK) past->adopted_at[i] = little_get64(bytes);
    }
    return err;
}

/* *ret_whole: the file verified, so an error is the entries' (or `each` gave it)
 * and no older file helps. */
static enum err read_one(struct state_reader *r, uint64_t position, struct lineage *past,
                         enum err (*each)(void *context, unsigned slot, struct str entry),
                         void *context, bool *ret_whole, uint32_t *ret_version)
{
    char name[SNAPSHOT_NAME];
    struct state_file_counts counts;
    *ret_whole = false;
    *ret_version = 0;
    snapshot_write_name(position, name);
    enum err err = state_reader_open(r, name, NULL, SNAPSHOT_HEADER_BYTES);
    if (err != ERR_OK) return err;
    err = read_head(r, position, past, &counts, ret_version);
    *ret_whole = err == ERR_OK;
    if (err == ERR_OK) err = state_reader_entries(r, &counts, each, context);
    state_reader_close(r);
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
    struct state_files n;
    enum err err = list_names(disk, &n);
    if (err != ERR_OK)
        return fault_set(f, err, "", "the snapshots' directory cannot be read: %s",
                         err_sentence(err));
    *ret = (struct lineage){0};
    if (n.count == 0 && n.has_mark)
        return fault_set(f, ERR_CORRUPT, "",
                         "the snapshots are gone, and this state began with what was adopted from "
                         "another engine, which is in no journal");
    if (n.count == 0) return ERR_OK;
    struct state_reader r;
    if (state_reader_init(&r, disk, given_up) != ERR_OK)
        return fault_set(f, ERR_FULL, "", "out of memory");
    uint32_t version = 0;
    bool whole = false;
    enum snapshot_damage damage = SNAPSHOT_WHOLE;
    uint64_t damaged = 0;
    for (size_t i = 0; i < n.count && !whole && !state_reader_has_given_up(&r); i++) {
        err = read_one(&r, n.positions[i], ret, each, context, &whole, &version);
        /* the one before it would be a state that is older than what was answered */
        if (version > VERSION) {
            state_reader_fini(&r);
            return fault_set(f, ERR_BAD_VALUE, "",
                             "snapshot-%016" PRIx64
                             " was written by a newer program (format %" PRIu32
                             ", this one reads %d); start the newer one again",
                             n.positions[i], version, VERSION);
        }
        if (err == ERR_NOT_PERMITTED || err == ERR_NO_DESCRIPTORS) {
            state_reader_fini(&r);
            return fault_set(f, err, "", "snapshot-%016" PRIx64 " cannot be read: %s",
                             n.positions[i], err_sentence(err));
        }
        if (whole || err == ERR_CLOSED) continue;
        log_text(LOG_ERROR, "snapshot_damaged", "snapshot-%016" PRIx64 " does not verify: %s",
                 n.positions[i], err_sentence(err));
        if (damage == SNAPSHOT_WHOLE) damaged = n.positions[i];
        damage = SNAPSHOT_OLDER_SERVES;
    }
    state_reader_fini(&r);
    ret->damage = damage;
    ret->damaged = damaged;
    if (whole && err == ERR_OK && n.has_mark && ret->adopted[0] == '\0')
        return fault_set(f, ERR_CORRUPT, "",
                         "snapshot-%016" PRIx64 " is another engine's: the state here began "
                         "with what was adopted, and the one in it did not",
                         ret->position);
    if (whole && err == ERR_OK) return ERR_OK;
    if (state_reader_has_given_up(&r)) return fault_set(f, ERR_CLOSED, "", "given up");
    if (whole)
        return fault_set(f, err, "", "snapshot-%016" PRIx64 ": an entry cannot be loaded: %s",
                         ret->position, err_sentence(err));
    *ret = (struct lineage){.damage = n.has_mark ? SNAPSHOT_WHOLE : SNAPSHOT_NONE_VERIFIES,
                            .damaged = damaged};
    return fault_set(f, ERR_CORRUPT, "",
                     "none of the %zu snapshots verifies, the newest is snapshot-%016" PRIx64
                     "; restore one of them%s",
                     n.count, n.positions[0],
                     n.has_mark ? ": the state began with what was adopted from another engine, "
                                  "which is in no journal"
                                : "");
}

enum { SNAPSHOT_LEAST_BYTES = 64 << 10 }; /* its head, and what its directory takes */

uint64_t snapshot_needs(uint64_t last_bytes, uint64_t bytes_behind)
{
    return SNAPSHOT_LEAST_BYTES + last_bytes + last_bytes / 8 + bytes_behind / 2;
}
