#include "snapshot/state_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/little.h"
#include "shards/serialize.h"

/* Writing walks the shards twice: once to learn the size, so that the room is taken before the
 * first byte (a full disk is met there and nowhere else), once to write. Reading does so too: the
 * seal is settled before the first entry is given, so no caller has to take back half a state. */

enum {
    PIECE_BYTES = 2 << 20,
    ENTRY_HEADER_BYTES = 6,
    HEAD_FIRST_BYTES = 1 << 10,
    HEAD_BYTES_MAX = 1 << 20,
};

_Static_assert((int)PIECE_BYTES >= (int)SHARD_ENTRY_BYTES_MAX + (int)ENTRY_HEADER_BYTES,
               "an entry fits into a piece");

/* ---- names ---- */

void state_file_write_name(struct str word, uint64_t position, char to[STATE_FILE_NAME])
{
    check(word.size <= STATE_FILE_NAME - 23);
    snprintf(to, STATE_FILE_NAME, "%.*s-%016" PRIx64, STR_FORMAT(word), position);
}

struct listing {
    struct state_files *files;
    struct str word;
    const char *mark;
};

static bool read_name(struct str word, const char *name, uint64_t *ret_position)
{
    const struct str s = str_from(name);
    return str_starts(s, word) && s.size > word.size && s.bytes[word.size] == '-' &&
           str_to_u64_hex(str_skip(s, word.size + 1), ret_position);
}

static void note_name(void *context, const char *name)
{
    const struct listing *l = context;
    struct state_files *n = l->files;
    uint64_t position;
    size_t size = strlen(name);
    if (read_name(l->word, name, &position)) {
        if (n->count < STATE_FILES_MAX) n->positions[n->count++] = position;
    } else if (size < STATE_FILE_NAME && size > 4 && strcmp(name + size - 4, ".new") == 0 &&
               n->unready_count < STATE_FILES_MAX) {
        memcpy(n->unready[n->unready_count++], name, size + 1);
    } else if (l->mark[0] != '\0' && strcmp(name, l->mark) == 0) {
        n->has_mark = true;
    }
}

static int newer_first(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? 1 : left > right ? -1 : 0;
}

enum err state_files_list(struct disk *d, struct str word, const char *mark,
                          struct state_files *ret)
{
    struct listing l = {.files = ret, .word = word, .mark = mark};
    *ret = (struct state_files){0};
    enum err err = d->list(d->state, note_name, &l);
    if (err == ERR_OK) qsort(ret->positions, ret->count, sizeof *ret->positions, newer_first);
    return err;
}

enum err state_files_drop(struct disk *d, struct str word, const struct state_files *n,
                          const bool stays[STATE_FILES_MAX])
{
    enum err err = ERR_OK;
    for (size_t i = 0; err == ERR_OK && i < n->count; i++) {
        char name[STATE_FILE_NAME];
        state_file_write_name(word, n->positions[i], name);
        if (!stays[i]) err = d->remove(d->state, name);
    }
    for (size_t i = 0; err == ERR_OK && i < n->unready_count; i++)
        err = d->remove(d->state, n->unready[i]);
    return err == ERR_OK ? d->sync_directory(d->state) : err;
}

/* ---- writing ---- */

struct writer {
    const struct state_file_writing *of;
    int file;
    uint64_t offset; /* of the piece's first byte */
    char *piece;
    size_t held;
    struct hasher *hasher;
    struct state_file_counts counts; /* of the first walk */
    struct state_file_counts again;
};

static enum err flush(struct writer *w)
{
    struct disk *d = w->of->disk;
    if (w->held == 0) return ERR_OK;
    hasher_add(w->hasher, str_of(w->piece, w->held));
    enum err err = d->write(d->state, w->file, w->piece, w->held, w->offset);
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
    return w->of->given_up != NULL && atomic_load(w->of->given_up);
}

static enum err count_entry(void *context, struct str entry)
{
    struct writer *w = context;
    if (is_given_up(w)) return ERR_CLOSED;
    check(entry.size > 0 && entry.size <= SHARD_ENTRY_BYTES_MAX);
    w->counts.count++;
    w->counts.bytes += ENTRY_HEADER_BYTES + entry.size;
    return ERR_OK;
}

static enum err put_entry(void *context, struct str entry)
{
    struct writer *w = context;
    if (is_given_up(w)) return ERR_CLOSED;
    struct shard_entry e;
    check(shard_entry_read(entry, &e));
    w->again.count++;
    w->again.bytes += ENTRY_HEADER_BYTES + entry.size;
    if (w->of->live != NULL && e.object < SHARD_MIRRORED) w->of->live[e.slot]++;
    char header[ENTRY_HEADER_BYTES];
    little_put32(header, (uint32_t)entry.size);
    little_put16(header + 4, (uint16_t)e.slot);
    enum err err = put(w, header, sizeof header);
    return err == ERR_OK ? put(w, entry.bytes, entry.size) : err;
}

static struct str view_of(const struct sha256 *digest)
{
    return str_of((const char *)digest->bytes, sizeof digest->bytes);
}

static struct sha256 seal_of(struct hasher *h, const struct sha256 *key)
{
    struct sha256 digest = hasher_end(h);
    return key == NULL ? digest : hasher_hmac(h, view_of(key), view_of(&digest));
}

static enum err put_all(struct writer *w, struct str head, struct shard *const *shards,
                        unsigned count, struct sha256 *ret_seal)
{
    struct disk *d = w->of->disk;
    enum err err = put(w, head.bytes, head.size);
    for (unsigned i = 0; err == ERR_OK && i < count; i++) err = shard_save(shards[i], put_entry, w);
    if (err == ERR_OK) err = flush(w);
    if (err != ERR_OK) return err;
    check(w->again.count == w->counts.count && w->again.bytes == w->counts.bytes);
    *ret_seal = seal_of(w->hasher, w->of->key);
    err = d->write(d->state, w->file, ret_seal->bytes, SHA256_BYTES, w->offset);
    return err == ERR_OK ? d->sync(d->state, w->file) : err;
}

static enum err make_file(struct writer *w, struct str head, struct shard *const *shards,
                          unsigned count, struct sha256 *ret_seal)
{
    struct disk *d = w->of->disk;
    char unready[STATE_FILE_NAME];
    snprintf(unready, sizeof unready, "%.*s.new", STATE_FILE_NAME - 5, w->of->name);
    (void)d->remove(d->state, unready); /* of an attempt that a crash ended */
    enum err err = d->open(d->state, unready, true, &w->file);
    if (err != ERR_OK) return err;
    uint64_t size = head.size + w->counts.bytes + SHA256_BYTES;
    err = d->reserve(d->state, w->file, size);
    if (err == ERR_OK) err = put_all(w, head, shards, count, ret_seal);
    if (err == ERR_OK) d->uncache(d->state, w->file, size);
    d->close(d->state, w->file);
    if (err == ERR_OK) err = d->rename(d->state, unready, w->of->name);
    if (err != ERR_OK) {
        (void)d->remove(d->state, unready);
        return err;
    }
    return d->sync_directory(d->state);
}

enum err state_file_write(const struct state_file_writing *of, struct shard *const *shards,
                          unsigned count, struct sha256 *ret_seal)
{
    struct writer w = {.of = of};
    struct sha256 seal;
    enum err err = ERR_OK;
    for (unsigned i = 0; err == ERR_OK && i < count; i++)
        err = shard_save(shards[i], count_entry, &w);
    if (err != ERR_OK) return err;
    w.piece = malloc(PIECE_BYTES);
    if (w.piece == NULL) return ERR_FULL;
    struct buf head;
    buf_init(&head, HEAD_FIRST_BYTES, HEAD_BYTES_MAX);
    of->put_head(of->context, &w.counts, &head);
    w.hasher = hasher_create();
    hasher_begin(w.hasher);
    err = head.overflow ? ERR_FULL : make_file(&w, buf_view(&head), shards, count, &seal);
    hasher_destroy(w.hasher);
    buf_fini(&head);
    free(w.piece);
    if (err == ERR_OK && ret_seal != NULL) *ret_seal = seal;
    return err;
}

/* ---- reading ---- */

enum err state_reader_init(struct state_reader *r, struct disk *d, const _Atomic bool *given_up)
{
    *r = (struct state_reader){.disk = d, .piece = malloc(PIECE_BYTES), .given_up = given_up};
    return r->piece == NULL ? ERR_FULL : ERR_OK;
}

void state_reader_fini(struct state_reader *r) { free(r->piece); }

bool state_reader_has_given_up(const struct state_reader *r)
{
    return r->given_up != NULL && atomic_load_explicit(r->given_up, memory_order_relaxed);
}

/* At most PIECE_BYTES. */
enum err state_reader_take(struct state_reader *r, size_t size, const char **ret)
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

static void rewind_reader(struct state_reader *r)
{
    r->at = r->held = 0;
    r->next = 0;
}

static enum err verify(struct state_reader *r, const struct sha256 *key, size_t head_least)
{
    if (r->size < head_least + SHA256_BYTES) return ERR_CORRUPT;
    struct hasher *h = hasher_create();
    hasher_begin(h);
    enum err err = ERR_OK;
    const char *bytes;
    for (uint64_t left = r->size - SHA256_BYTES; err == ERR_OK && left > 0;) {
        size_t part = left < PIECE_BYTES / 2 ? (size_t)left : PIECE_BYTES / 2;
        err = state_reader_has_given_up(r) ? ERR_CLOSED : state_reader_take(r, part, &bytes);
        if (err == ERR_OK) hasher_add(h, str_of(bytes, part));
        left -= part;
    }
    r->seal = seal_of(h, key);
    hasher_destroy(h);
    if (err == ERR_OK) err = state_reader_take(r, SHA256_BYTES, &bytes);
    if (err == ERR_OK && !bytes_equal_secret(bytes, r->seal.bytes, SHA256_BYTES)) err = ERR_CORRUPT;
    rewind_reader(r);
    return err;
}

enum err state_reader_open(struct state_reader *r, const char *name, const struct sha256 *key,
                           size_t head_least)
{
    struct disk *d = r->disk;
    enum err err = d->open(d->state, name, false, &r->file);
    if (err != ERR_OK) return err;
    rewind_reader(r);
    err = d->size(d->state, r->file, &r->size);
    if (err == ERR_OK) err = verify(r, key, head_least);
    if (err != ERR_OK) d->close(d->state, r->file);
    return err;
}

void state_reader_close(struct state_reader *r)
{
    r->disk->uncache(r->disk->state, r->file, r->size);
    r->disk->close(r->disk->state, r->file);
}

uint64_t state_reader_left(const struct state_reader *r)
{
    uint64_t taken = r->next - (r->held - r->at);
    return r->size - SHA256_BYTES > taken ? r->size - SHA256_BYTES - taken : 0;
}

enum err state_reader_entries(struct state_reader *r, const struct state_file_counts *counts,
                              enum err (*each)(void *context, unsigned slot, struct str entry),
                              void *context)
{
    uint64_t left = counts->bytes;
    for (uint64_t i = 0; i < counts->count; i++) {
        const char *bytes;
        if (state_reader_has_given_up(r)) return ERR_CLOSED;
        if (left < ENTRY_HEADER_BYTES) return ERR_CORRUPT;
        enum err err = state_reader_take(r, ENTRY_HEADER_BYTES, &bytes);
        if (err != ERR_OK) return err;
        size_t size = little_get32(bytes);
        unsigned slot = little_get16(bytes + 4);
        left -= ENTRY_HEADER_BYTES;
        if (size == 0 || size > SHARD_ENTRY_BYTES_MAX || size > left || slot >= LIMIT_SLOTS)
            return ERR_CORRUPT;
        err = state_reader_take(r, size, &bytes);
        if (err == ERR_OK) err = each(context, slot, str_of(bytes, size));
        if (err != ERR_OK) return err;
        left -= size;
    }
    return left == 0 ? ERR_OK : ERR_CORRUPT;
}
