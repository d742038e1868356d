#include "snapshot/fleet_snapshot.h"

#include <inttypes.h>

#include "base/check.h"
#include "base/little.h"
#include "base/log.h"

enum { VERSION = 1, PEER_BYTES = 48, FLAG_CLOSED = 1 };
enum {
    AT_VERSION = 8,
    AT_PEERS = 12,
    AT_FLEET = 16,
    AT_REPLAY = 32,
    AT_COUNT = AT_REPLAY + LOG_REPLAY_BYTES,
    AT_BYTES = AT_COUNT + 8,
    AT_TRAIL = AT_BYTES + 8,
    AT_PAST = AT_TRAIL + 4,
    AT_OTHERS = AT_PAST + 4,
    HEAD_BYTES = AT_OTHERS + 8,
};

static const char magic[8] = {'w', 'r', 'i', 't', 'F', 'S', 'N', '1'};

static struct str word(void) { return STR("fleet"); }

void fleet_snapshot_name(uint64_t next, char to[STATE_FILE_NAME])
{
    state_file_write_name(word(), next, to);
}

bool fleet_snapshot_name_read(struct str name, uint64_t *ret_next)
{
    char again[STATE_FILE_NAME];
    if (!str_starts(name, STR("fleet-")) || !str_to_u64_hex(str_skip(name, 6), ret_next))
        return false;
    fleet_snapshot_name(*ret_next, again);
    return str_equal(name, str_from(again));
}

/* ---- the head ---- */

struct writing {
    const struct fleet_snapshot *snapshot;
    const struct entry_key *key;
};

static void put_peer(const struct peer *p, struct buf *out)
{
    char bytes[PEER_BYTES] = {0};
    memcpy(bytes, p->incarnation.bytes, sizeof p->incarnation.bytes);
    little_put64(bytes + 16, p->number);
    little_put64(bytes + 24, p->first_offset);
    little_put64(bytes + 32, p->applied);
    little_put32(bytes + 40, p->longest_lease_ms);
    bytes[44] = p->closed ? FLAG_CLOSED : 0;
    buf_put(out, str_of(bytes, sizeof bytes));
}

static void put_head(void *context, const struct state_file_counts *counts, struct buf *out)
{
    const struct writing *w = context;
    const struct log_replay *r = &w->snapshot->saved.replay;
    const struct peers *peers = &w->snapshot->saved.peers;
    char head[HEAD_BYTES] = {0}, bytes[TRAIL_POINT_BYTES_MAX];
    struct buf trail = buf_over(bytes, sizeof bytes);
    trail_point_put(&trail, &w->snapshot->trail);
    check(!trail.overflow);
    memcpy(head, magic, sizeof magic);
    little_put32(head + AT_VERSION, VERSION);
    little_put32(head + AT_PEERS, peers->count);
    memcpy(head + AT_FLEET, w->key->fleet.bytes, sizeof w->key->fleet.bytes);
    log_replay_put(r, head + AT_REPLAY);
    little_put64(head + AT_COUNT, counts->count);
    little_put64(head + AT_BYTES, counts->bytes);
    little_put32(head + AT_OTHERS, peers->others_longest_lease_ms);
    little_put32(head + AT_TRAIL, (uint32_t)trail.size);
    little_put32(head + AT_PAST, (uint32_t)w->snapshot->past.size);
    buf_put(out, str_of(head, sizeof head));
    for (unsigned i = 0; i < peers->count; i++) put_peer(&peers->list[i], out);
    buf_put(out, buf_view(&trail));
    buf_put(out, buf_view(&w->snapshot->past));
}

static void get_peer(const char *bytes, struct peer *p)
{
    *p = (struct peer){.number = little_get64(bytes + 16),
                       .first_offset = little_get64(bytes + 24),
                       .applied = little_get64(bytes + 32),
                       .longest_lease_ms = little_get32(bytes + 40),
                       .closed = bytes[44] == FLAG_CLOSED};
    memcpy(p->incarnation.bytes, bytes, sizeof p->incarnation.bytes);
}

static enum err read_head(struct state_reader *r, uint64_t next, const struct entry_key *key,
                          struct fleet_snapshot *ret, struct state_file_counts *counts,
                          uint32_t *ret_version)
{
    const char *head, *bytes;
    enum err err = state_reader_take(r, HEAD_BYTES, &head);
    if (err != ERR_OK) return err;
    if (memcmp(head, magic, sizeof magic) != 0) return ERR_CORRUPT;
    *ret_version = little_get32(head + AT_VERSION);
    *ret = (struct fleet_snapshot){.saved = {.replay = {.next = 0}}};
    const size_t trail_bytes = little_get32(head + AT_TRAIL),
                 past_bytes = little_get32(head + AT_PAST);
    log_replay_get(head + AT_REPLAY, &ret->saved.replay);
    struct peers *peers = &ret->saved.peers;
    peers->count = little_get32(head + AT_PEERS);
    peers->others_longest_lease_ms = little_get32(head + AT_OTHERS);
    *counts = (struct state_file_counts){.count = little_get64(head + AT_COUNT),
                                         .bytes = little_get64(head + AT_BYTES)};
    if (*ret_version != VERSION || ret->saved.replay.next != next || peers->count > PEERS_MAX ||
        trail_bytes > TRAIL_POINT_BYTES_MAX || past_bytes > FLEET_PAST_BYTES_MAX ||
        memcmp(head + AT_FLEET, key->fleet.bytes, sizeof key->fleet.bytes) != 0 ||
        state_reader_left(r) !=
            (uint64_t)peers->count * PEER_BYTES + trail_bytes + past_bytes + counts->bytes)
        return ERR_CORRUPT;
    for (unsigned i = 0; err == ERR_OK && i < peers->count; i++) {
        err = state_reader_take(r, PEER_BYTES, &bytes);
        if (err == ERR_OK) get_peer(bytes, &peers->list[i]);
    }
    if (err == ERR_OK) err = state_reader_take(r, trail_bytes, &bytes);
    if (err == ERR_OK && !trail_point_read(str_of(bytes, trail_bytes), &ret->trail))
        return ERR_CORRUPT;
    if (err == ERR_OK) err = state_reader_take(r, past_bytes, &bytes);
    if (err != ERR_OK) return err;
    buf_init(&ret->past, past_bytes + 1, FLEET_PAST_BYTES_MAX + 1);
    buf_put(&ret->past, str_of(bytes, past_bytes));
    if (ret->past.overflow) return ERR_FULL;
    if (next == 0) ret->saved.replay.last.digest = r->seal;
    return ERR_OK;
}

void fleet_snapshot_fini(struct fleet_snapshot *s)
{
    buf_fini(&s->past);
    s->past = (struct buf){0};
}

/* ---- the file ---- */

enum err fleet_snapshot_write(struct disk *d, const struct entry_key *key, struct fleet_snapshot *s,
                              struct shard *const *shards, unsigned count,
                              const _Atomic bool *given_up, struct fault *f)
{
    struct writing writing = {.snapshot = s, .key = key};
    struct sha256 seal;
    const uint64_t next = s->saved.replay.next;
    struct state_file_writing w = {.disk = d,
                                   .put_head = put_head,
                                   .context = &writing,
                                   .key = &key->mac,
                                   .given_up = given_up};
    check(next > 0 || s->saved.replay.last.term == 0);
    fleet_snapshot_name(next, w.name);
    enum err err = state_file_write(&w, shards, count, &seal);
    if (err != ERR_OK)
        return fault_set(f, err, "", "the fleet's snapshot %s cannot be written: %s", w.name,
                         err == ERR_CLOSED ? "given up" : err_sentence(err));
    if (next == 0) s->saved.replay.last.digest = seal;
    return ERR_OK;
}

/* Opens, verifies, and reads up to the entries. After ERR_OK: state_reader_close(). */
static enum err open_one(struct state_reader *r, const char *file, uint64_t next,
                         const struct entry_key *key, struct fleet_snapshot *ret,
                         struct state_file_counts *counts, uint32_t *ret_version)
{
    *ret_version = 0;
    enum err err = state_reader_open(r, file, &key->mac, HEAD_BYTES);
    if (err != ERR_OK) return err;
    err = read_head(r, next, key, ret, counts, ret_version);
    if (err != ERR_OK) state_reader_close(r);
    return err;
}

static enum err read_one(struct state_reader *r, uint64_t next, const struct entry_key *key,
                         enum err (*each)(void *context, unsigned slot, struct str entry),
                         void *context, struct fleet_snapshot *ret, bool *ret_whole,
                         uint32_t *ret_version)
{
    char name[STATE_FILE_NAME];
    struct state_file_counts counts;
    fleet_snapshot_name(next, name);
    enum err err = open_one(r, name, next, key, ret, &counts, ret_version);
    *ret_whole = err == ERR_OK;
    if (err != ERR_OK) return err;
    err = state_reader_entries(r, &counts, each, context);
    state_reader_close(r);
    return err;
}

static enum err is_newer(const char *name, uint32_t version, struct fault *f)
{
    return fault_set(f, ERR_BAD_VALUE, "",
                     "%s was written by a newer program (format %" PRIu32
                     ", this one reads %d); start the newer one again",
                     name, version, VERSION);
}

static enum err read_newest(struct state_reader *r, const struct state_files *n,
                            const struct entry_key *key, uint64_t least,
                            enum err (*each)(void *context, unsigned slot, struct str entry),
                            void *context, struct fleet_snapshot *ret, struct fault *f)
{
    for (size_t i = 0; i < n->count && n->positions[i] >= least; i++) {
        bool whole;
        uint32_t version;
        char name[STATE_FILE_NAME];
        fleet_snapshot_name(n->positions[i], name);
        enum err err = read_one(r, n->positions[i], key, each, context, ret, &whole, &version);
        if (whole && err == ERR_OK) return ERR_OK;
        fleet_snapshot_fini(ret);
        if (err == ERR_CLOSED) return fault_set(f, err, "", "given up");
        if (version > VERSION) return is_newer(name, version, f);
        if (whole)
            return fault_set(f, err, "", "%s: an entry cannot be loaded: %s", name,
                             err_sentence(err));
        log_text(LOG_ERROR, "snapshot_damaged", "%s does not verify: %s", name, err_sentence(err));
    }
    return fault_plain(f, ERR_NOT_FOUND);
}

enum err fleet_snapshot_read(struct disk *d, const struct entry_key *key, uint64_t least,
                             const _Atomic bool *given_up,
                             enum err (*each)(void *context, unsigned slot, struct str entry),
                             void *context, struct fleet_snapshot *ret, struct fault *f)
{
    struct state_files n;
    struct state_reader r;
    *ret = (struct fleet_snapshot){.saved = {.replay = {.next = 0}}};
    enum err err = state_files_list(d, word(), "", &n);
    if (err != ERR_OK)
        return fault_set(f, err, "", "the directory of the fleet's snapshots cannot be read: %s",
                         err_sentence(err));
    if (state_reader_init(&r, d, given_up) != ERR_OK)
        return fault_set(f, ERR_FULL, "", "out of memory");
    err = read_newest(&r, &n, key, least, each, context, ret, f);
    state_reader_fini(&r);
    return err;
}

enum err fleet_snapshot_verify(struct disk *d, const struct entry_key *key, const char *file,
                               uint64_t next, const _Atomic bool *given_up, struct fault *f)
{
    struct fleet_snapshot head = {.trail.seq = 1};
    struct state_file_counts counts;
    struct state_reader r;
    uint32_t version;
    if (state_reader_init(&r, d, given_up) != ERR_OK)
        return fault_set(f, ERR_FULL, "", "out of memory");
    enum err err = open_one(&r, file, next, key, &head, &counts, &version);
    if (err == ERR_OK) state_reader_close(&r);
    state_reader_fini(&r);
    fleet_snapshot_fini(&head);
    if (err == ERR_OK) return ERR_OK;
    if (err != ERR_CLOSED && version > VERSION) return is_newer(file, version, f);
    return fault_set(f, err, "", "%s", err == ERR_CLOSED ? "given up" : err_sentence(err));
}

enum err fleet_snapshot_drop(struct disk *d, bool all)
{
    struct state_files n;
    bool stays[STATE_FILES_MAX] = {0};
    enum err err = state_files_list(d, word(), "", &n);
    for (size_t i = 0; !all && i < FLEET_SNAPSHOTS_KEPT; i++) stays[i] = true;
    return err == ERR_OK ? state_files_drop(d, word(), &n, stays) : err;
}

unsigned fleet_snapshots(struct disk *d, uint64_t *ret_newest, uint64_t *ret_oldest)
{
    struct state_files n;
    *ret_newest = *ret_oldest = 0;
    if (state_files_list(d, word(), "", &n) != ERR_OK || n.count == 0) return 0;
    unsigned count =
        n.count < FLEET_SNAPSHOTS_KEPT ? (unsigned)n.count : (unsigned)FLEET_SNAPSHOTS_KEPT;
    *ret_newest = n.positions[0];
    *ret_oldest = n.positions[count - 1];
    return count;
}
