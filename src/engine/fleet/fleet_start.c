/* fleet_start.c - how an engine enters its fleet: options, the mark of its directory, the log's id, and
 * the state from a snapshot and the log.
 *
 * The mark, DATA/engine/fleet, has the fleet's name and id. It is written before anything of the fleet
 * is in the directory. With it, the journal's own deltas are not read any more, and the directory
 * starts neither without `fleet` nor in another fleet: what was revoked in the fleet would be accepted
 * again.
 *
 * A fleet may begin with the state that its first engine has: its snapshot is on the disk before the
 * mark, and the first TERM names it. So a start that is repeated after a crash finds the same one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/world.h"
#include "engine/fleet/fleet_copy.h"
#include "engine/fleet/member_inside.h"
#include "shards/delta.h"
#include "snapshot/replay.h"

enum {
    ID_HEX = 32,
    MARK_TEXT = FLEET_NAME_MAX + ID_HEX + 2,
    SILENT_MS = 30000,
    LOOK_MS = 200,
    CLOCK_OFF_MS = 60000, /* a start is refused */
};

/* ---- the mark ---- */

struct mark {
    bool exists;
    char name[FLEET_NAME_MAX + 1];
    struct fleet_id id;
};

static void mark_path(const struct engine *e, char to[4096])
{
    snprintf(to, 4096, "%s/engine/fleet", e->config.data);
}

static enum err mark_read(const struct engine *e, struct mark *ret, struct fault *f)
{
    char path[4096], text[MARK_TEXT + 1];
    size_t got;
    *ret = (struct mark){.exists = false};
    mark_path(e, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return ERR_OK;
    if (fd < 0) return fault_set(f, err_from_errno(errno), "", "%s: %s", path, strerror(errno));
    bool is_read = file_read(fd, text, MARK_TEXT, &got);
    close(fd);
    text[is_read ? got : 0] = '\0';
    char *space = strchr(text, ' ');
    if (space == NULL || space - text > FLEET_NAME_MAX ||
        !hex_read(space + 1, ret->id.bytes, sizeof ret->id.bytes))
        return fault_set(f, ERR_CORRUPT, "",
                         "%s is damaged: it names the fleet of this directory. Start with a new "
                         "data directory",
                         path);
    memcpy(ret->name, text, (size_t)(space - text));
    ret->exists = true;
    return ERR_OK;
}

static enum err mark_write(const struct fleet_member *m, struct fault *f)
{
    const struct engine *e = m->engine;
    char path[4096], folder[4096], text[MARK_TEXT + 1], hex[ID_HEX + 1];
    mark_path(e, path);
    snprintf(folder, sizeof folder, "%s/engine", e->config.data);
    hex_write(hex, m->id.bytes, sizeof m->id.bytes);
    hex[ID_HEX] = '\0';
    snprintf(text, sizeof text, "%s %s\n", e->config.fleet, hex);
    if (unlink(path) != 0 && errno != ENOENT)
        return fault_set(f, ERR_IO, "", "%s: %s", path, strerror(errno));
    if (!file_make(path, str_from(text)) || !folder_sync(folder))
        return fault_set(f, ERR_IO, "", "%s: %s", path, strerror(errno));
    return ERR_OK;
}

enum err fleet_member_absent(const struct engine *e, struct fault *f)
{
    struct mark mark;
    enum err err = mark_read(e, &mark, f);
    if (err != ERR_OK || !mark.exists) return err;
    return fault_set(f, ERR_BAD_VALUE, "",
                     "fleet: this data directory was in the fleet %s, and its own state is of "
                     "before: tokens that were revoked since would be accepted. Set fleet to %s, "
                     "or start with a new data directory",
                     mark.name, mark.name);
}

bool fleet_member_was_here(const struct fleet_member *m) { return m->was_here; }

/* ---- options ---- */

static enum err check_options(const struct engine *e, struct fault *f)
{
    const struct config *c = &e->config;
    struct str name = str_from(c->fleet);
    if (name.size > FLEET_NAME_MAX || !str_is_name(name))
        return fault_set(f, ERR_BAD_VALUE, "", "fleet: must be 1 to %d of [A-Za-z0-9._-]",
                         FLEET_NAME_MAX);
    if (c->kafka_brokers[0] == '\0')
        return fault_set(f, ERR_BAD_VALUE, "",
                         "fleet: needs kafka.brokers beside it, because the fleet's log is a topic "
                         "of Kafka");
    if (c->redis_url[0] != '\0')
        return fault_set(f, ERR_BAD_VALUE, "",
                         "fleet: excludes redis.url. The fleet's log and the copies of its engines "
                         "take the place of the mirror: remove redis.url");
    if (c->adopt[0] != '\0')
        return fault_set(f, ERR_BAD_VALUE, "", "fleet: excludes adopt: remove that option");
    if (c->fleet_advertise[0] == '\0' || strlen(c->fleet_advertise) > ENTRY_NAME_MAX)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "fleet.advertise: must be the URL by which other engines reach this one, "
                         "of at most %d bytes",
                         ENTRY_NAME_MAX);
    return ERR_OK;
}

static bool is_of(const struct mark *mark, const struct engine *e)
{
    return mark->exists && strcmp(mark->name, e->config.fleet) == 0;
}

static enum err check_mark(const struct mark *mark, const struct engine *e, struct fault *f)
{
    if (!mark->exists || is_of(mark, e) || e->config.fleet_discard) return ERR_OK;
    return fault_set(
        f, ERR_BAD_VALUE, "",
        "fleet: this data directory was in the fleet %s. Set fleet to %s, start with a "
        "new data directory, or give up what it has, once, with --fleet.discard true",
        mark->name, mark->name);
}

/* ---- the log's id ---- */

static bool await(struct fleet_member *m, const _Atomic bool *given_up,
                  struct statelog_message *ret, enum statelog_read *ret_found)
{
    uint64_t since_ns = world_monotonic_ns();
    while ((*ret_found = statelog_next(m->log, ret)) == STATELOG_NOTHING) {
        if (given_up != NULL && atomic_load(given_up)) return false;
        if (world_monotonic_ns() - since_ns > (uint64_t)SILENT_MS * 1000000) return false;
        statelog_wait(m->log, LOOK_MS);
        enum statelog_kind kind;
        bool good;
        (void)statelog_result(m->log, &kind, &good); /* polls the clients */
    }
    return *ret_found == STATELOG_MESSAGE;
}

static enum err log_is_silent(const struct fleet_member *m, struct fault *f)
{
    char trouble[STATELOG_REASON_TEXT];
    bool has_trouble = statelog_trouble(m->log, trouble);
    uint64_t begin, end;
    if (statelog_bounds(m->log, &begin, &end, f) == ERR_OK && begin > m->fleet.replay.next)
        return fault_set(f, ERR_UPSTREAM_FAILED, "",
                         "fleet: the leader has shortened Kafka's topic %s while this engine read "
                         "it: start again",
                         m->topic);
    return fault_set(f, ERR_UPSTREAM_FAILED, "", "fleet: Kafka's topic %s sends nothing: %s",
                     m->topic, has_trouble ? trouble : "its brokers do not answer");
}

static enum err find_id(struct fleet_member *m, const struct mark *mark, struct fault *f)
{
    uint64_t begin, end;
    enum err err = statelog_bounds(m->log, &begin, &end, f);
    if (err != ERR_OK) return err;
    const bool is_same = is_of(mark, m->engine), seeds = m->engine->config.fleet_seed;
    if (end == 0 && !seeds)
        return fault_set(f, ERR_BAD_VALUE, "",
                         is_same
                             ? "fleet: Kafka's topic %s is empty, and this engine was in the "
                               "fleet already: the log was removed or replaced. Restore it. A "
                               "new fleet begins with a new data directory and --fleet.seed true"
                             : "fleet: Kafka's topic %s is empty. The first engine of a new "
                               "fleet starts with --fleet.seed true",
                         m->topic);
    if (end > 0 && seeds)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "fleet.seed: Kafka's topic %s has entries, so the fleet exists already. "
                         "Start without --fleet.seed",
                         m->topic);
    m->seeds = seeds;
    m->was_here = is_same;
    if (begin > 0 && begin == end)
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "fleet: all entries of Kafka's topic %s were removed, and an engine leaves "
            "the newest ones there. Restore the topic",
            m->topic);
    err = statelog_read_from(m->log, begin, f);
    if (err != ERR_OK) return err;
    if (seeds && is_same) { /* the process ended before its first entry */
        m->id = mark->id;
        return ERR_OK;
    }
    if (seeds) {
        crypto_random(m->id.bytes, sizeof m->id.bytes);
        return ERR_OK;
    }
    if (is_same && !m->engine->config.fleet_discard) {
        m->id = mark->id;
        return ERR_OK;
    }
    struct statelog_message first;
    enum statelog_read found;
    if (!await(m, NULL, &first, &found)) return log_is_silent(m, f);
    if (!entry_names_fleet(first.bytes, &m->id))
        return fault_set(f, ERR_BAD_VALUE, "",
                         "fleet: the first message of Kafka's topic %s is no entry of a fleet",
                         m->topic);
    m->was_here = is_same && memcmp(&m->id, &mark->id, sizeof m->id) == 0;
    return ERR_OK;
}

enum err fleet_member_open(struct engine *e, struct fleet_member **ret, struct fault *f)
{
    const struct config *c = &e->config;
    struct mark mark;
    enum err err = check_options(e, f);
    if (err == ERR_OK) err = mark_read(e, &mark, f);
    if (err == ERR_OK) err = check_mark(&mark, e, f);
    if (err != ERR_OK) return err;
    struct fleet_member *m = calloc(1, sizeof *m);
    check(m != NULL);
    m->engine = e;
    m->count = e->reactor_count;
    m->chance.refill = crypto_random;
    m->hasher = hasher_create();
    m->sheet = metrics_sheet_create();
    atomic_store(&m->reaches, true);
    pthread_mutex_init(&m->lock, NULL);
    condition_init(&m->left);
    buf_init(&m->records, 64 << 10, ENTRY_BYTES_MAX);
    buf_init(&m->out, 64 << 10, ENTRY_BYTES_MAX);
    m->lanes = calloc(m->count, sizeof *m->lanes);
    check(m->lanes != NULL && m->hasher != NULL);
    for (unsigned i = 0; i < m->count; i++) fleet_lane_init(&m->lanes[i], 0);
    snprintf(m->topic, sizeof m->topic, "writ.state.%s", c->fleet);
    const struct statelog_options options = {.access = {.brokers = c->kafka_brokers,
                                                        .topic = m->topic,
                                                        .security = c->kafka_security,
                                                        .mechanism = c->kafka_sasl_mechanism,
                                                        .user = c->kafka_user,
                                                        .password_file = c->kafka_password_file,
                                                        .ca_file = c->kafka_ca_file,
                                                        .token_file = c->kafka_token_file},
                                             .single_broker = c->fleet_single_broker,
                                             .make = c->fleet_seed};
    m->access = options.access;
    condition_init(&m->given);
    err = statelog_open(&options, &m->log, f);
    if (err == ERR_OK) err = find_id(m, &mark, f);
    if (err == ERR_OK) err = fleet_copy_open(m, f);
    /* what is there is of a former fleet, or of a start that did not come to its mark */
    if (err == ERR_OK && !m->was_here) err = fleet_snapshot_drop(m->snapshots, true);
    if (err != ERR_OK) return err; /* the process ends */
    struct fleet_options own = {.node = str_from(e->node),
                                .address = str_from(c->fleet_advertise),
                                .version = STR(WRIT_VERSION),
                                .reactors = m->count};
    m->key = entry_key_derive(str_of((const char *)e->pepper.bytes, sizeof e->pepper.bytes),
                              pepper_fingerprint(&e->pepper), str_from(c->fleet), m->id);
    own.key = m->key;
    m->trail = fleet_trail_create(&options.access, &m->key, &m->skips);
    crypto_random(own.incarnation.bytes, sizeof own.incarnation.bytes);
    fleet_init(&m->fleet, &own, NULL, world_boot_ms());
    *ret = m;
    return member_read_skips(m, f);
}

/* ---- reading ---- */

static const char *fault_text(enum entry_fault fault)
{
    switch (fault) {
    case ENTRY_GOOD: break;
    case ENTRY_MALFORMED: return "it is no entry";
    case ENTRY_NEWER: return "a newer version wrote it: upgrade this engine";
    case ENTRY_OTHER_FLEET:
        return "it is of another fleet: the topic was made again, or two engines began it at once";
    case ENTRY_OTHER_PEPPER: return "its writer has another pepper: give all engines the same";
    case ENTRY_FORGED: return "its writer does not have the pepper";
    }
    return "it is not readable";
}

enum log_result member_read(struct fleet_member *m, const struct statelog_message *message,
                            struct entry *ret)
{
    uint64_t random;
    chance_take(&m->chance, &random, sizeof random);
    enum entry_fault fault = entry_read(message->bytes, &m->key, m->hasher, ret);
    if (fault != ENTRY_GOOD && member_passes_over(m, message->offset, fault_text(fault)))
        return fleet_pass(&m->fleet, message->offset);
    if (fault != ENTRY_GOOD && m->fleet.replay.end == LOG_READS) {
        pthread_mutex_lock(&m->lock);
        snprintf(m->broken, sizeof m->broken,
                 "the message at offset %" PRIu64 " of the fleet's log cannot be read: %s",
                 message->offset, fault_text(fault));
        pthread_mutex_unlock(&m->lock);
        log_text(LOG_ERROR, "fleet_reading_ended", "%s", m->broken);
    }
    enum log_result result =
        fleet_read(&m->fleet, fault == ENTRY_GOOD ? ret : NULL, message->offset, message->append_ms,
                   world_boot_ms(), random % FLEET_STAND_DELAY_MS);
    if (result == LOG_COUNTED && ret->kind == ENTRY_HEARTBEAT) {
        pthread_mutex_lock(&m->lock);
        roster_read(&m->roster, ret, message->append_ms);
        pthread_mutex_unlock(&m->lock);
    }
    return result;
}

void member_end_text(const struct fleet_member *m, char to[FLEET_REASON_TEXT])
{
    static const char *const why[] = {
        [LOG_READS] = "",
        [LOG_END_UNREADABLE] = "it is no entry of this fleet",
        [LOG_END_OFFSET] = "entries are missing there, or the log is shorter than it was",
        [LOG_END_NO_TERM] = "records of a term that has not begun",
        [LOG_END_SENDER] = "records of an engine that does not lead",
        [LOG_END_GAP] = "records are missing before it",
        [LOG_END_PREVIOUS] = "it does not follow the entry before it",
        [LOG_END_HISTORY] = "its leader has read another log",
        [LOG_END_RESUMED] = "it is another entry than before",
        [LOG_END_CUT] = "its sender had read more than is before it: the log was cut",
        [LOG_END_NEVER_SENT] = "a heartbeat in this engine's name, which it has not sent",
        [LOG_END_DELTA] = "it cannot be applied",
        [LOG_END_SEED] = "the fleet began with a state that this copy does not have",
    };
    snprintf(to, FLEET_REASON_TEXT,
             "reading the fleet's log ended at offset %" PRIu64
             ": %s. No agent is let in; see the runbook",
             m->fleet.replay.end_offset, why[m->fleet.replay.end]);
}

bool member_note_leader(struct fleet_member *m, const struct entry *e)
{
    const struct log_replay *r = &m->fleet.replay;
    if (e->kind == ENTRY_RECORDS || !incarnation_equal(&e->incarnation, &r->leader)) return false;
    if (m->leader.term == r->last.term) return false;
    pthread_mutex_lock(&m->lock);
    m->leader = (struct fleet_leader){
        .term = r->last.term,
        .is_self = incarnation_equal(&e->incarnation, &m->fleet.options.incarnation)};
    snprintf(m->leader.node, sizeof m->leader.node, "%.*s", STR_FORMAT(e->node));
    snprintf(m->leader.address, sizeof m->leader.address, "%.*s", STR_FORMAT(e->address));
    pthread_mutex_unlock(&m->lock);
    return true;
}

bool member_restricts(struct str records)
{
    struct str event, deltas;
    while (entry_next_record(&records, &event, &deltas)) {
        struct delta_entry e;
        enum err err = ERR_OK;
        while (delta_next(&deltas, &e, &err))
            if (e.kind == DELTA_TOKEN_REVOKED || e.kind == DELTA_ACTOR_SUSPENDED ||
                e.kind == DELTA_SIGNER_ROTATED)
                return true;
    }
    return false;
}

void member_note_progress(struct fleet_member *m, const struct statelog_message *message,
                          const struct entry *counted)
{
    atomic_fetch_add(&m->read_bytes, message->bytes.size);
    atomic_fetch_add(&m->read_entries, 1);
    if (counted != NULL && counted->kind == ENTRY_RECORDS && counted->records.size > 0)
        atomic_fetch_add(&m->read_records, 1);
}

/* ---- the state ---- */

static enum err apply(struct fleet_member *m, const struct entry *e, uint64_t offset,
                      struct fault *f)
{
    struct engine *engine = m->engine;
    struct str rest = e->records;
    struct journal_record record = {.seq = e->seq};
    while (entry_next_record(&rest, &record.public_bytes, &record.private_bytes)) {
        struct fault why = {.err = ERR_OK};
        enum err err = replay_record(engine->shards, engine->reactor_count, &record, &why);
        if (err != ERR_OK)
            return fault_set(f, err, "",
                             "fleet: the entry at offset %" PRIu64 " cannot be applied: %s", offset,
                             why.text);
        record.seq++;
    }
    if (fleet_trail_note(m->trail, e, &m->fleet.replay)) return ERR_OK;
    return fault_set(f, ERR_CORRUPT, "",
                     "fleet: records are missing before the entry at offset %" PRIu64, offset);
}

static enum err take(struct fleet_member *m, const struct statelog_message *message,
                     struct fault *f)
{
    struct entry e;
    char text[FLEET_REASON_TEXT];
    enum log_result result = member_read(m, message, &e);
    member_note_progress(m, message, result == LOG_COUNTED ? &e : NULL);
    switch (result) {
    case LOG_STALE: return ERR_OK;
    case LOG_COUNTED: break;
    case LOG_ENDED:
        member_end_text(m, text);
        return fault_set(f, ERR_CORRUPT, "", "fleet: %s", m->broken[0] != '\0' ? m->broken : text);
    }
    (void)member_note_leader(m, &e);
    return e.kind == ENTRY_RECORDS ? apply(m, &e, message->offset, f) : ERR_OK;
}

bool fleet_member_takes_own(const struct fleet_member *m)
{
    return m->seeds && !m->was_here && !m->engine->config.fleet_discard;
}

static enum err load_entry(void *context, unsigned slot, struct str entry)
{
    struct fleet_member *m = context;
    struct fault f;
    return replay_entry(m->engine->shards, m->engine->reactor_count, slot, entry, &f);
}

static void begin_with(struct fleet_member *m, const struct fleet_snapshot *s)
{
    const struct fleet_options own = m->fleet.options;
    fleet_fini(&m->fleet);
    fleet_init(&m->fleet, &own, &s->saved, world_boot_ms());
    log_text(LOG_INFO, "fleet_snapshot_loaded", "as of offset %" PRIu64, s->saved.replay.next);
}

/* The state with which the fleet begins. */
static enum err save_own(struct fleet_member *m, struct fault *f)
{
    struct fleet_snapshot seed = {.saved.replay.format = ENTRY_FORMAT_FIRST, .trail.seq = 1};
    const struct engine *e = m->engine;
    enum err err =
        fleet_snapshot_write(m->snapshots, &m->key, &seed, e->shards, e->reactor_count, NULL, f);
    if (err != ERR_OK) return err;
    begin_with(m, &seed);
    fleet_trail_begin(m->trail, &m->fleet.replay, NULL);
    return ERR_OK;
}

static enum err load_copy(struct fleet_member *m, const _Atomic bool *given_up, struct fault *f)
{
    struct fleet_snapshot from = {.trail.seq = 1};
    enum err err = fleet_copy_load(m, m->log, given_up, load_entry, m, &from, f);
    if (err == ERR_OK) begin_with(m, &from);
    if (err == ERR_OK) fleet_copy_note_kept(m);
    if (err != ERR_OK && err != ERR_NOT_FOUND) return err;
    fleet_trail_begin(m->trail, &m->fleet.replay, err == ERR_OK ? &from.trail : NULL);
    bool is_whole = from.past.size == 0 || fleet_trail_restore(m->trail, buf_view(&from.past));
    fleet_snapshot_fini(&from);
    if (!is_whole)
        return fault_set(f, ERR_CORRUPT, "", "fleet: a snapshot has no places of the audit trail");
    return statelog_read_again(m->log, m->fleet.replay.next, f);
}

/* The fleet began with a state, and this engine has no snapshot yet: nothing was applied. */
static enum err load_seed(struct fleet_member *m, const _Atomic bool *given_up, struct fault *f)
{
    enum err err = fleet_copy_fetch(m, m->log, 0, given_up, f);
    return err == ERR_OK ? load_copy(m, given_up, f) : err;
}

static enum err read_to_end(struct fleet_member *m, const _Atomic bool *given_up, struct fault *f)
{
    uint64_t begin, end, from = m->fleet.replay.next;
    enum err err = statelog_bounds(m->log, &begin, &end, f);
    while (err == ERR_OK && m->fleet.replay.next < end) {
        struct statelog_message message;
        enum statelog_read found;
        if (!await(m, given_up, &message, &found)) {
            if (given_up != NULL && atomic_load(given_up))
                return fault_set(f, ERR_CLOSED, "", "given up");
            return log_is_silent(m, f);
        }
        err = take(m, &message, f);
        statelog_note_next(m->log, m->fleet.replay.next);
    }
    return err == ERR_OK ? member_check_skips(m, from, f) : err;
}

/* ---- the clock ---- */

static uint64_t wall_ms(void) { return world_wall_ns() / 1000000; }

static enum err judge_clock(uint64_t sent_ms, uint64_t append_ms, uint64_t read_ms, struct fault *f)
{
    uint64_t off_ms = sent_ms > append_ms   ? sent_ms - append_ms
                      : append_ms > read_ms ? append_ms - read_ms
                                            : 0;
    if (off_ms <= CLOCK_OFF_MS) return ERR_OK;
    return fault_set(
        f, ERR_BAD_VALUE, "",
        "fleet: this machine's clock is %" PRIu64
        " seconds %s that of Kafka's broker. Tokens, reviews and limits of a fleet end "
        "by one time: set the clocks of engines and brokers right (NTP), and start "
        "again",
        off_ms / 1000, sent_ms > append_ms ? "ahead of" : "behind");
}

/* Sends a closed heartbeat, and reads up to it: a broker has stamped it. */
static enum err check_clock(struct fleet_member *m, const _Atomic bool *given_up, struct fault *f)
{
    uint64_t since_ns = world_monotonic_ns(), sent_ms = wall_ms();
    enum err err = ERR_OK;
    while (err == ERR_OK) {
        struct statelog_message message;
        struct fleet_turn t = {.now_ms = world_boot_ms(),
                               .wall_ms = world_now_ms(),
                               .lease_ms = (uint32_t)m->engine->config.fleet_lease_ms};
        enum statelog_kind kind;
        bool good;
        chance_take(&m->chance, &t.nonce, sizeof t.nonce);
        buf_clear(&m->out);
        if (fleet_turn(&m->fleet, &t, &m->out) == FLEET_HEARTBEAT) {
            sent_ms = wall_ms();
            if (!statelog_append(m->log, STATELOG_HEARTBEAT, buf_view(&m->out)))
                fleet_appended(&m->fleet, ENTRY_HEARTBEAT, false);
        }
        while (statelog_result(m->log, &kind, &good))
            fleet_appended(&m->fleet, ENTRY_HEARTBEAT, good);
        if (given_up != NULL && atomic_load(given_up))
            return fault_set(f, ERR_CLOSED, "", "given up");
        if (world_monotonic_ns() - since_ns > (uint64_t)SILENT_MS * 1000000)
            return log_is_silent(m, f);
        if (statelog_next(m->log, &message) != STATELOG_MESSAGE) {
            statelog_wait(m->log, LOOK_MS);
            continue;
        }
        err = take(m, &message, f);
        statelog_note_next(m->log, m->fleet.replay.next);
        if (err == ERR_OK && m->fleet.lease.read_number > 0)
            return judge_clock(sent_ms, message.append_ms, wall_ms(), f);
    }
    return err;
}

enum err fleet_member_rebuild(struct fleet_member *m, bool has_own, const _Atomic bool *given_up,
                              struct fault *f)
{
    uint64_t begun_ns = world_monotonic_ns();
    enum err err = has_own ? save_own(m, f) : ERR_OK;
    if (err == ERR_OK && !m->was_here) err = mark_write(m, f);
    if (err == ERR_OK && !has_own) err = load_copy(m, given_up, f);
    if (err == ERR_OK) err = read_to_end(m, given_up, f);
    if (err == ERR_CORRUPT && m->fleet.replay.end == LOG_END_SEED) {
        err = load_seed(m, given_up, f);
        if (err == ERR_OK) err = read_to_end(m, given_up, f);
    }
    if (err == ERR_OK && !m->seeds) err = check_clock(m, given_up, f);
    if (err != ERR_OK) return err;
    world_time_floor(m->fleet.replay.time_ms);
    m->handed = m->applies_next = 0;
    log_text(LOG_INFO, "fleet_state_rebuilt",
             "%" PRIu64 " entries of the log, up to term %" PRIu64 " and seq %" PRIu64
             ", in %" PRIu64 " ms",
             atomic_load(&m->read_entries), m->fleet.replay.last.term, fleet_trail_end(m->trail),
             (world_monotonic_ns() - begun_ns) / 1000000);
    return ERR_OK;
}
