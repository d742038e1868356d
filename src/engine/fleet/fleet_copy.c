#include "engine/fleet/fleet_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "base/world.h"
#include "crypto/base64.h"
#include "engine/control/own_key.h"
#include "http/client.h"

enum {
    ADDRESSES_MAX = 16,
    TAIL_ENTRIES = 2000, /* some minutes of a fleet's heartbeats */
    SILENT_MS = 30000,
    SIGN_MS = 5000, /* ten heartbeats */
    LOOK_MS = 200,
    CALL_MS = 30000,
    PIECE_REPLY_BYTES = FLEET_PIECE_BYTES / 3 * 4 + 4096,
    PIECE_ARENA_FIRST = 64 << 10,
    PIECE_ARENA_MOST = 3 * FLEET_PIECE_BYTES + (1 << 20),
};

enum err fleet_copy_open(struct fleet_member *m, struct fault *f)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/engine/fleet-snapshots", m->engine->config.data);
    enum err err = disk_real_create(path, &m->snapshots);
    return err == ERR_OK
               ? ERR_OK
               : fault_set(f, err, "", "fleet: cannot open %s: %s", path, strerror(errno));
}

enum err fleet_copy_reader(struct fleet_member *m, struct statelog **ret, struct fault *f)
{
    const struct statelog_options options = {.access = m->access, .reads_only = true};
    return statelog_open(&options, ret, f);
}

void fleet_copy_note_kept(struct fleet_member *m)
{
    uint64_t newest, oldest;
    unsigned count = fleet_snapshots(m->snapshots, &newest, &oldest);
    /* the entry before `oldest` is compared with it */
    atomic_store(&m->kept, count == FLEET_SNAPSHOTS_KEPT && oldest > 0 ? oldest - 1 : 0);
}

/* ---- the addresses of the other engines ---- */

struct addresses { /* the newest last */
    char list[ADDRESSES_MAX][ENTRY_NAME_MAX + 1];
    unsigned count;
};

static void note_address(struct addresses *a, struct str address)
{
    unsigned at = 0;
    while (at < a->count && !str_equal(address, str_from(a->list[at]))) at++;
    if (at == ADDRESSES_MAX) at = 0; /* the oldest goes */
    if (at == a->count)
        a->count++;
    else
        memmove(a->list[at], a->list[at + 1], (a->count - at - 1) * sizeof a->list[0]);
    snprintf(a->list[a->count - 1], sizeof a->list[0], "%.*s", STR_FORMAT(address));
}

/* The tail of the log as it is now: [*ret_next, *ret_end). */
static enum err read_tail(struct statelog *log, uint64_t *ret_next, uint64_t *ret_end,
                          struct fault *f)
{
    uint64_t begin;
    enum err err = statelog_bounds(log, &begin, ret_end, f);
    if (err != ERR_OK) return err;
    *ret_next = *ret_end > begin + TAIL_ENTRIES ? *ret_end - TAIL_ENTRIES : begin;
    return statelog_read_again(log, *ret_next, f);
}

/* The tail of a log that was just shortened may have no sign of an engine: the next one comes with a
 * heartbeat. */
static enum err find_addresses(struct fleet_member *m, struct statelog *log,
                               const _Atomic bool *given_up, struct addresses *ret, struct fault *f)
{
    uint64_t next, end, begun_ns = world_monotonic_ns(), heard_ns = begun_ns;
    struct hasher *hasher = hasher_create();
    const struct str own = str_from(m->engine->config.fleet_advertise);
    enum err err = read_tail(log, &next, &end, f);
    while (err == ERR_OK && (next < end || (ret->count == 0 && world_monotonic_ns() - begun_ns <
                                                                   (uint64_t)SIGN_MS * 1000000))) {
        struct statelog_message message;
        struct entry e;
        enum statelog_read found = statelog_next(log, &message);
        if (given_up != NULL && atomic_load(given_up))
            err = fault_set(f, ERR_CLOSED, "", "given up");
        if (found == STATELOG_NOTHING) {
            if (next < end && world_monotonic_ns() - heard_ns > (uint64_t)SILENT_MS * 1000000)
                err = fault_set(f, ERR_UPSTREAM_FAILED, "", "fleet: Kafka's topic %s sends nothing",
                                m->topic);
            statelog_wait(log, LOOK_MS);
            continue;
        }
        if (found == STATELOG_GONE) { /* the log was shortened meanwhile */
            err = read_tail(log, &next, &end, f);
            continue;
        }
        heard_ns = world_monotonic_ns();
        next = message.offset + 1;
        statelog_note_next(log, next);
        enum entry_fault fault = entry_read(message.bytes, &m->key, hasher, &e);
        if (fault == ENTRY_OTHER_PEPPER)
            err =
                fault_set(f, ERR_BAD_VALUE, "",
                          "fleet: the engines of this fleet have another pepper: give all engines "
                          "the same");
        if (fault != ENTRY_GOOD) continue;
        if (e.kind == ENTRY_RECORDS || e.address.size == 0 || str_equal(e.address, own)) continue;
        note_address(ret, e.address);
    }
    hasher_destroy(hasher);
    return err;
}

/* ---- pieces ---- */

static const char unready[] = "fetched.new";

struct fetch {
    struct fleet_member *member;
    struct http_client *client;
    char authorization[OWN_KEY_TEXT];
    char name[STATE_FILE_NAME]; /* "": not known yet */
    uint64_t offset, size;
    int file;
    struct arena arena;
    const _Atomic bool *given_up;
};

static enum err write_piece(struct fetch *k, struct str text, struct fault *f)
{
    size_t size = 0;
    uint8_t *bytes = arena_array(&k->arena, uint8_t, text.size / 4 * 3 + 1);
    if (bytes == NULL) return fault_plain(f, ERR_FULL);
    if (!base64_read(text, bytes, &size) || size > k->size - k->offset ||
        (size == 0 && k->offset < k->size))
        return fault_set(f, ERR_UPSTREAM_FAILED, "", "its pieces are not those of a snapshot");
    struct disk *d = k->member->snapshots;
    enum err err = d->write(d->state, k->file, bytes, size, k->offset);
    k->offset += size;
    return err == ERR_OK ? ERR_OK : fault_set(f, err, "", "%s", err_sentence(err));
}

static enum err take_piece(struct fetch *k, struct str body, struct fault *f)
{
    struct json *root;
    enum err err = json_read(body, NULL, &k->arena, &root, f);
    if (err != ERR_OK) return err;
    const struct str name = json_text(root, STR("snapshot"));
    uint64_t size = json_u64(root, STR("size"), 0), next;
    bool is_right = fleet_snapshot_name_read(name, &next) && size > 0 &&
                    size <= fleet_snapshot_bytes_max &&
                    json_u64(root, STR("offset"), UINT64_MAX) == k->offset;
    if (is_right && k->name[0] == '\0') {
        snprintf(k->name, sizeof k->name, "%.*s", STR_FORMAT(name));
        k->size = size;
    }
    if (!is_right || !str_equal(name, str_from(k->name)) || size != k->size)
        return fault_set(f, ERR_UPSTREAM_FAILED, "", "its answer is no piece of a snapshot");
    return write_piece(k, json_text(root, STR("bytes")), f);
}

static enum err ask_piece(struct fetch *k, struct fault *f)
{
    char target[128];
    struct buf to = buf_over(target, sizeof target);
    buf_printf(&to, "/v1/fleet/snapshot?offset=%" PRIu64, k->offset);
    if (k->name[0] != '\0') buf_printf(&to, "&snapshot=%s", k->name);
    check(!to.overflow);
    struct http_call call = {.method = "GET",
                             .target = buf_view(&to),
                             .timeout_ms = CALL_MS,
                             .reply_max = PIECE_REPLY_BYTES};
    call.headers[call.header_count++] =
        (struct http_header){STR("Authorization"), str_from(k->authorization)};
    struct http_answer answer;
    if (k->given_up != NULL && atomic_load(k->given_up))
        return fault_set(f, ERR_CLOSED, "", "given up");
    enum err err = http_call(k->client, &call, true, &answer, f);
    if (err == ERR_OK && answer.status == 200) return take_piece(k, answer.body, f);
    if (err != ERR_OK) return err == ERR_CLOSED ? ERR_UPSTREAM_FAILED : err;
    return fault_set(f, ERR_UPSTREAM_FAILED, "",
                     "it answers GET /v1/fleet/snapshot with status %d: %.*s", answer.status,
                     (int)(answer.body.size < 150 ? answer.body.size : 150),
                     answer.body.size == 0 ? "" : answer.body.bytes);
}

static enum err ask_all(struct fetch *k, struct fault *f)
{
    enum err err;
    do {
        arena_init(&k->arena, PIECE_ARENA_FIRST, PIECE_ARENA_MOST);
        err = ask_piece(k, f);
        arena_fini(&k->arena);
    } while (err == ERR_OK && k->offset < k->size);
    return err;
}

/* That the file which came is a snapshot, and that the log still follows it. */
static enum err check_fetched(const struct fetch *k, uint64_t least, struct fault *f)
{
    const struct fleet_member *m = k->member;
    struct fault why = {.err = ERR_OK};
    uint64_t next;
    check(fleet_snapshot_name_read(str_from(k->name), &next));
    enum err err = fleet_snapshot_verify(m->snapshots, &m->key, unready, next, k->given_up, &why);
    if (err == ERR_CORRUPT)
        return fault_set(f, err, "",
                         "its snapshot %s is damaged: it does not verify. If that engine makes no "
                         "other, remove this file from its DATA/engine/fleet-snapshots, and start "
                         "it again",
                         k->name);
    if (err != ERR_OK) return fault_set(f, err, "", "%s", why.text);
    if (next >= least) return ERR_OK;
    return fault_set(f, ERR_UPSTREAM_FAILED, "",
                     "its snapshot %s is older than the log, which begins at offset %" PRIu64
                     " by now",
                     k->name, least - 1);
}

static enum err fetch_from(struct fleet_member *m, const char *address, uint64_t least,
                           const _Atomic bool *given_up, struct fault *f)
{
    struct fetch k = {.member = m, .given_up = given_up};
    struct disk *d = m->snapshots;
    enum err err = own_key_read(&m->engine->config, k.authorization, f);
    if (err == ERR_OK) err = http_client_create(str_from(address), m->engine->tls, &k.client, f);
    if (err != ERR_OK) return err;
    (void)d->remove(d->state, unready);
    err = d->open(d->state, unready, true, &k.file);
    if (err != ERR_OK) {
        http_client_destroy(k.client);
        return fault_set(f, err, "", "%s", err_sentence(err));
    }
    err = ask_all(&k, f);
    if (err == ERR_OK) err = d->sync(d->state, k.file);
    d->close(d->state, k.file);
    if (err == ERR_OK) err = check_fetched(&k, least, f);
    if (err == ERR_OK) err = d->rename(d->state, unready, k.name);
    if (err == ERR_OK) err = d->sync_directory(d->state);
    http_client_destroy(k.client);
    memory_wipe(k.authorization, sizeof k.authorization);
    if (err != ERR_OK) (void)d->remove(d->state, unready);
    if (err == ERR_OK)
        log_text(LOG_INFO, "fleet_snapshot_fetched", "%s, %" PRIu64 " bytes, from %s", k.name,
                 k.size, address);
    return err;
}

enum err fleet_copy_fetch(struct fleet_member *m, struct statelog *log, uint64_t least,
                          const _Atomic bool *given_up, struct fault *f)
{
    struct addresses found = {.count = 0};
    struct fault worst = {.err = ERR_OK};
    enum err err = find_addresses(m, log, given_up, &found, f);
    if (err != ERR_OK) return err;
    const char *asked = "";
    for (unsigned i = found.count; i-- > 0;) {
        struct fault why = {.err = ERR_OK};
        err = fetch_from(m, found.list[i], least, given_up, &why);
        if (err == ERR_OK) return ERR_OK;
        if (err == ERR_CLOSED) {
            *f = why;
            return err;
        }
        log_text(LOG_WARNING, "fleet_snapshot_not_fetched", "from %s: %s", found.list[i], why.text);
        if (worst.err == ERR_CORRUPT) continue; /* that one is named: it does not mend by itself */
        worst = why;
        asked = found.list[i];
    }
    return fault_set(f, ERR_UPSTREAM_FAILED, "",
                     "fleet: the log alone does not have the whole state, and no engine gives a "
                     "snapshot. Start one that has the fleet's data, or wait until it is ready. "
                     "%s%s%s",
                     asked, found.count == 0 ? "" : ": ",
                     found.count == 0 ? "The log names no other engine" : worst.text);
}

/* ---- loading ---- */

enum err fleet_copy_load(struct fleet_member *m, struct statelog *log, const _Atomic bool *given_up,
                         enum err (*each)(void *context, unsigned slot, struct str entry),
                         void *context, struct fleet_snapshot *ret, struct fault *f)
{
    uint64_t begin, end;
    enum err err = statelog_bounds(log, &begin, &end, f);
    if (err != ERR_OK) return err;
    uint64_t least = begin == 0 ? 0 : begin + 1; /* the entry before it is compared */
    err = fleet_snapshot_read(m->snapshots, &m->key, least, given_up, each, context, ret, f);
    if (err != ERR_NOT_FOUND || begin == 0) return err;
    err = fleet_copy_fetch(m, log, least, given_up, f);
    if (err != ERR_OK) return err;
    err = fleet_snapshot_read(m->snapshots, &m->key, least, given_up, each, context, ret, f);
    return err == ERR_NOT_FOUND ? fault_set(f, ERR_UPSTREAM_FAILED, "",
                                            "fleet: the snapshot that was fetched does not verify "
                                            "any more: is this disk sound? Start again")
                                : err;
}
