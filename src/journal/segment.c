#include "journal/segment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/reserve.h"

enum { ID_HEX = 16 };

static const char segment_suffix[] = ".journal";
static const char unready_suffix[] = ".unready";

static void write_name(uint64_t id, const char *suffix, char to[SEGMENT_NAME])
{
    snprintf(to, SEGMENT_NAME, "%016" PRIx64 "%s", id, suffix);
}

static bool read_name(const char *name, const char *suffix, uint64_t *ret_id)
{
    uint64_t id;
    if (strlen(name) != SEGMENT_NAME - 1 || strcmp(name + ID_HEX, suffix) != 0) return false;
    if (!str_to_u64_hex(str_of(name, ID_HEX), &id) || id == 0) return false;
    *ret_id = id;
    return true;
}

void segment_write_name(uint64_t id, char to[SEGMENT_NAME]) { write_name(id, segment_suffix, to); }

bool segment_read_name(const char *name, uint64_t *ret_id)
{
    return read_name(name, segment_suffix, ret_id);
}

/* ---- making ---- */

static enum err copy_bytes(struct disk *d, uint64_t id, int to, uint64_t used)
{
    struct segment_reader from;
    segment_reader_init(&from, d);
    enum err err = segment_reader_open(&from, id);
    for (uint64_t at = 0; err == ERR_OK && at < used;) {
        size_t piece = used - at < SEGMENT_READ_BYTES ? (size_t)(used - at) : SEGMENT_READ_BYTES;
        const char *bytes;
        err = segment_reader_view(&from, at, piece, &bytes);
        if (err == ERR_OK) err = d->write(d->state, to, bytes, piece, at);
        at += piece;
    }
    segment_reader_fini(&from);
    return err == ERR_OK ? d->sync(d->state, to) : err;
}

/* Makes a file under the unready name: the first `used` bytes of the present file, then zeros. */
static enum err make_unready(struct disk *d, uint64_t id, uint64_t bytes, uint64_t used,
                             const char *name)
{
    enum err err = d->remove(d->state, name);
    if (err != ERR_OK && err != ERR_NOT_FOUND) return err;
    int file;
    err = d->open(d->state, name, true, &file);
    if (err != ERR_OK) return err;
    err = d->fill(d->state, file, bytes);
    if (err == ERR_OK && used > 0) err = copy_bytes(d, id, file, used);
    d->close(d->state, file);
    if (err != ERR_OK) (void)d->remove(d->state, name); /* a full disk needs the room back */
    return err;
}

enum err segment_copy(struct disk *d, uint64_t id, uint64_t bytes, uint64_t used)
{
    check(used <= bytes);
    char unready[SEGMENT_NAME], name[SEGMENT_NAME];
    write_name(id, unready_suffix, unready);
    write_name(id, segment_suffix, name);
    enum err err = make_unready(d, id, bytes, used, unready);
    if (err == ERR_OK) err = d->rename(d->state, unready, name);
    return err == ERR_OK ? d->sync_directory(d->state) : err;
}

enum err segment_make(struct disk *d, uint64_t id, uint64_t bytes)
{
    return segment_copy(d, id, bytes, 0);
}

enum err segment_rewrite(struct disk *d, uint64_t id, uint64_t used)
{
    static const char zeros[SEGMENT_READ_BYTES];
    struct segment_reader r;
    segment_reader_init(&r, d);
    enum err err = segment_reader_open(&r, id);
    for (uint64_t at = 0; err == ERR_OK && at < r.file_bytes;) {
        uint64_t end = at < used ? used : r.file_bytes;
        size_t piece = end - at < SEGMENT_READ_BYTES ? (size_t)(end - at) : SEGMENT_READ_BYTES;
        const char *bytes = zeros;
        if (at < used) err = segment_reader_view(&r, at, piece, &bytes);
        if (err == ERR_OK) err = d->write(d->state, r.file, bytes, piece, at);
        at += piece;
    }
    if (err == ERR_OK) err = d->sync(d->state, r.file);
    segment_reader_fini(&r);
    return err;
}

struct unready {
    uint64_t ids[16];
    size_t count;
};

static void note_unready(void *context, const char *name)
{
    struct unready *u = context;
    uint64_t id;
    if (!read_name(name, unready_suffix, &id)) return;
    if (u->count < sizeof u->ids / sizeof u->ids[0]) u->ids[u->count++] = id;
}

enum err segment_remove_unready(struct disk *d)
{
    struct unready u = {.count = 0};
    enum err err = d->list(d->state, note_unready, &u);
    for (size_t i = 0; err == ERR_OK && i < u.count; i++) {
        char name[SEGMENT_NAME];
        write_name(u.ids[i], unready_suffix, name);
        err = d->remove(d->state, name);
    }
    return err;
}

/* ---- reading ---- */

void segment_reader_init(struct segment_reader *r, struct disk *d)
{
    *r = (struct segment_reader){.disk = d, .file = -1};
}

void segment_reader_fini(struct segment_reader *r)
{
    if (r->file >= 0) r->disk->close(r->disk->state, r->file);
    r->file = -1;
    free(r->bytes);
    r->bytes = NULL;
}

enum err segment_reader_open(struct segment_reader *r, uint64_t id)
{
    char name[SEGMENT_NAME];
    if (r->bytes == NULL) r->bytes = malloc(SEGMENT_READ_BYTES);
    if (r->bytes == NULL) return ERR_FULL;
    write_name(id, segment_suffix, name);
    int file;
    uint64_t bytes = 0;
    enum err err = r->disk->open(r->disk->state, name, false, &file);
    if (err != ERR_OK) return err;
    err = r->disk->size(r->disk->state, file, &bytes);
    if (err != ERR_OK) {
        r->disk->close(r->disk->state, file);
        return err;
    }
    if (r->file >= 0) r->disk->close(r->disk->state, r->file);
    r->file = file;
    r->id = id;
    r->file_bytes = r->end = bytes;
    r->held = 0;
    return ERR_OK;
}

enum err segment_reader_view(struct segment_reader *r, uint64_t offset, size_t size,
                             const char **ret)
{
    check(size <= SEGMENT_READ_BYTES && r->file >= 0);
    bool held = offset >= r->at && offset + size <= r->at + r->held;
    if (!held) {
        if (offset > r->end || size > r->end - offset) return ERR_END;
        uint64_t left = r->end - offset;
        size_t piece = left < SEGMENT_READ_BYTES ? (size_t)left : SEGMENT_READ_BYTES;
        r->held = 0;
        enum err err = r->disk->read(r->disk->state, r->file, r->bytes, piece, offset);
        if (err != ERR_OK) return err;
        r->at = offset;
        r->held = piece;
    }
    *ret = r->bytes + (offset - r->at);
    return ERR_OK;
}

/* ---- the shelf ---- */

void shelf_init(struct shelf *s)
{
    *s = (struct shelf){0};
    check(pthread_mutex_init(&s->lock, NULL) == 0);
}

void shelf_fini(struct shelf *s)
{
    pthread_mutex_destroy(&s->lock);
    reserve_give(s->all);
}

void shelf_append(struct shelf *s, struct segment segment)
{
    pthread_mutex_lock(&s->lock);
    if (s->count == s->capacity) {
        s->capacity = s->capacity == 0 ? 16 : 2 * s->capacity;
        s->all = reserve_resize(s->all, s->capacity * sizeof *s->all);
    }
    s->all[s->count++] = segment;
    pthread_mutex_unlock(&s->lock);
}

void shelf_begin_newest(struct shelf *s, uint64_t seq)
{
    pthread_mutex_lock(&s->lock);
    check(s->count > 0);
    s->all[s->count - 1].first_seq = seq;
    pthread_mutex_unlock(&s->lock);
}

void shelf_grow_newest(struct shelf *s, uint64_t used)
{
    pthread_mutex_lock(&s->lock);
    check(s->count > 0);
    s->all[s->count - 1].used = used;
    pthread_mutex_unlock(&s->lock);
}

void shelf_end_newest(struct shelf *s, uint64_t ms)
{
    pthread_mutex_lock(&s->lock);
    check(s->count > 0);
    s->all[s->count - 1].last_ms = ms;
    pthread_mutex_unlock(&s->lock);
}

bool shelf_find(struct shelf *s, uint64_t seq, struct segment *ret)
{
    pthread_mutex_lock(&s->lock);
    bool found = false;
    for (size_t i = 0; i < s->count; i++) {
        bool empty = s->all[i].first_seq == 0;
        if (empty && found) break;
        if (!empty && s->all[i].first_seq > seq) break;
        *ret = s->all[i];
        found = true;
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

uint64_t shelf_used(struct shelf *s, uint64_t id)
{
    pthread_mutex_lock(&s->lock);
    uint64_t used = UINT64_MAX;
    for (size_t i = s->count; i > 0 && used == UINT64_MAX; i--) /* usually it is the last */
        if (s->all[i - 1].id == id) used = s->all[i - 1].used;
    pthread_mutex_unlock(&s->lock);
    return used;
}

bool shelf_after(struct shelf *s, uint64_t id, struct segment *ret)
{
    pthread_mutex_lock(&s->lock);
    bool found = false;
    for (size_t i = 0; i < s->count && !found; i++) {
        found = s->all[i].id == id + 1;
        if (found) *ret = s->all[i];
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

bool shelf_oldest(struct shelf *s, struct segment *ret_oldest, struct segment *ret_next)
{
    pthread_mutex_lock(&s->lock);
    bool found = s->count >= 2;
    if (found) {
        *ret_oldest = s->all[0];
        *ret_next = s->all[1];
    }
    pthread_mutex_unlock(&s->lock);
    return found;
}

void shelf_drop_oldest(struct shelf *s)
{
    pthread_mutex_lock(&s->lock);
    check(s->count >= 2); /* the one being written stays */
    s->count--;
    memmove(s->all, s->all + 1, s->count * sizeof *s->all);
    pthread_mutex_unlock(&s->lock);
}

void shelf_totals(struct shelf *s, uint64_t *ret_count, uint64_t *ret_bytes,
                  uint64_t *ret_oldest_seq)
{
    pthread_mutex_lock(&s->lock);
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->count; i++) bytes += s->all[i].bytes;
    *ret_count = s->count;
    *ret_bytes = bytes;
    *ret_oldest_seq = s->count == 0 ? 0 : s->all[0].first_seq;
    pthread_mutex_unlock(&s->lock);
}
