/* consumer_store.c - the consumer's three tables. See consumer_store.h. */
#include "pipeline/ingest/consumer_store.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/planted.h"
#include "store/store_inside.h"
#include "store/streams.h"
#include "pipeline/topic/topic.h"

enum {
    ASK_AGAIN_MS = 15000,
    FORGOTTEN_MS = 7 * 86400000,
    KNOWN_MAX = 65536, /* replays whose age is remembered */
};

static struct str owner_text(const char owner[LEASE_OWNER_TEXT])
{
    return str_of(owner, LEASE_OWNER_TEXT);
}

/* ---- the heartbeat ---- */

static enum err raise_beat(struct store *s, struct str topic, const struct lease *l,
                           uint64_t now_ms)
{
    struct statement *q = database_statement(
        s->database, "INSERT INTO consumers (topic, owner, beat, seen_at) VALUES (?1, ?2, ?3, ?4)"
                     " ON CONFLICT (topic, owner) DO UPDATE SET beat = ?3, seen_at = ?4");
    bind_text(q, 1, topic);
    bind_text(q, 2, owner_text(l->me));
    bind_u64(q, 3, l->heartbeat);
    bind_u64(q, 4, now_ms);
    return statement_run(q);
}

static enum err look_at_members(struct store *s, struct str topic, struct lease *l,
                                uint64_t monotonic_ms)
{
    struct statement *q =
        database_statement(s->database, "SELECT owner, beat FROM consumers WHERE topic = ?1");
    enum err err;
    bind_text(q, 1, topic);
    lease_look_begin(l);
    while ((err = statement_step(q)) == ERR_OK)
        lease_saw_member(l, column_text(q, 0), column_u64(q, 1), monotonic_ms);
    statement_reset(q);
    if (err != ERR_END) return err;
    lease_look_end(l);
    return ERR_OK;
}

static enum err look_at_partitions(struct store *s, struct str topic, struct lease *l)
{
    struct statement *q = database_statement(
        s->database, "SELECT partition, next_offset, owner FROM offsets WHERE topic = ?1");
    enum err err;
    bind_text(q, 1, topic);
    for (uint32_t i = 0; i < l->partition_count; i++)
        l->partitions[i] = (struct lease_partition){0};
    while ((err = statement_step(q)) == ERR_OK) {
        uint64_t partition = column_u64(q, 0);
        struct str owner = column_text(q, 2);
        if (partition >= l->partition_count) continue;
        struct lease_partition *p = &l->partitions[partition];
        p->next_offset = column_u64(q, 1);
        p->is_owned = owner.size == LEASE_OWNER_TEXT;
        if (p->is_owned) memcpy(p->owner, owner.bytes, LEASE_OWNER_TEXT);
    }
    statement_reset(q);
    return err == ERR_END ? ERR_OK : err;
}

static enum err write_owner(struct store *s, struct str topic, uint32_t partition,
                            const struct lease_partition *p, uint64_t now_ms)
{
    struct statement *q = database_statement(
        s->database, "INSERT INTO offsets (topic, partition, next_offset, owner, updated_at)"
                     " VALUES (?1, ?2, 0, ?3, ?4)"
                     " ON CONFLICT (topic, partition) DO UPDATE SET owner = ?3, updated_at = ?4");
    bind_text(q, 1, topic);
    bind_u64(q, 2, partition);
    bind_text(q, 3, p->is_owned ? owner_text(p->owner) : STR(""));
    bind_u64(q, 4, now_ms);
    return statement_run(q);
}

/* A dead consumer is removed when it owns no partition that is still read. If it is alive after
 * all, its next heartbeat inserts it again. */
static enum err forget_dead(struct store *s, struct str topic, const struct lease *l,
                            uint64_t monotonic_ms)
{
    for (uint32_t i = 0; i < l->member_count; i++) {
        if (lease_is_alive(l, l->members[i].owner, monotonic_ms)) continue;
        struct statement *q = database_statement(
            s->database,
            "DELETE FROM consumers WHERE topic = ?1 AND owner = ?2 AND beat = ?3 AND NOT EXISTS"
            " (SELECT 1 FROM offsets WHERE topic = ?1 AND owner = ?2 AND partition < ?4)");
        bind_text(q, 1, topic);
        bind_text(q, 2, owner_text(l->members[i].owner));
        bind_u64(q, 3, l->members[i].heartbeat);
        bind_u64(q, 4, l->partition_count);
        enum err err = statement_run(q);
        if (err != ERR_OK) return err;
    }
    return ERR_OK;
}

/* Removes consumers of topics that are not read any more, since no other consumer finds them dead.
 * This compares clocks, so only after a long time. */
static enum err forget_old(struct store *s, uint64_t now_ms)
{
    struct statement *q =
        database_statement(s->database, "DELETE FROM consumers WHERE seen_at < ?1");
    bind_u64(q, 1, now_ms > FORGOTTEN_MS ? now_ms - FORGOTTEN_MS : 0);
    return statement_run(q);
}

static enum err beat_within(struct store *s, struct str topic, struct lease *l,
                            uint64_t monotonic_ms, uint64_t now_ms)
{
    l->heartbeat++;
    enum err err = raise_beat(s, topic, l, now_ms);
    if (err == ERR_OK) err = look_at_members(s, topic, l, monotonic_ms);
    if (err == ERR_OK) err = look_at_partitions(s, topic, l);
    if (err != ERR_OK) return err;
    bool moves = lease_decide(l, monotonic_ms);
    /* few, and only when something moves */
    for (uint32_t i = 0; i < l->partition_count && err == ERR_OK && moves; i++)
        err = write_owner(s, topic, i, &l->partitions[i], now_ms);
    if (err == ERR_OK) err = forget_dead(s, topic, l, monotonic_ms);
    return err == ERR_OK ? forget_old(s, now_ms) : err;
}

enum err consumer_store_heartbeat(struct store *s, struct str topic, struct lease *l,
                                  uint64_t monotonic_ms, uint64_t now_ms, struct fault *f)
{
    enum err err = store_begin(s, f);
    if (err != ERR_OK) return err;
    err = store_fault(s, beat_within(s, topic, l, monotonic_ms, now_ms), f);
    return store_end(s, err, f);
}

enum err consumer_store_leave(struct store *s, struct str topic, struct lease *l, struct fault *f)
{
    enum err err = store_begin(s, f);
    if (err != ERR_OK) return err;
    struct statement *q = database_statement(
        s->database, "UPDATE offsets SET owner = '' WHERE topic = ?1 AND owner = ?2");
    bind_text(q, 1, topic);
    bind_text(q, 2, owner_text(l->me));
    err = statement_run(q);
    if (err == ERR_OK) {
        q = database_statement(s->database,
                               "DELETE FROM consumers WHERE topic = ?1 AND owner = ?2");
        bind_text(q, 1, topic);
        bind_text(q, 2, owner_text(l->me));
        err = statement_run(q);
    }
    return store_end(s, store_fault(s, err, f), f);
}

/* ---- offsets ---- */

enum err consumer_store_move(struct store *s, struct str topic, struct str owner,
                             const struct offset_move *m, uint64_t now_ms, struct fault *f)
{
    static const char move[] =
        "UPDATE offsets SET next_offset = ?3, updated_at = ?4 WHERE topic = ?1 AND partition = ?2"
        " AND owner = ?5 AND next_offset = ?6";
    static const char move_anyhow[] =
        "UPDATE offsets SET next_offset = ?3, updated_at = ?4 WHERE topic = ?1 AND partition = ?2"
        " AND ?5 = ?5 AND ?6 = ?6";
    struct statement *q =
        database_statement(s->database, planted("zombie_commits") ? move_anyhow : move);
    bind_text(q, 1, topic);
    bind_u64(q, 2, m->partition);
    bind_u64(q, 3, m->to);
    bind_u64(q, 4, now_ms);
    bind_text(q, 5, owner);
    bind_u64(q, 6, m->from);
    enum err err = statement_run(q);
    if (err != ERR_OK) return store_fault(s, err, f);
    if (database_changes(s->database) == 1) return ERR_OK;
    return fault_set(f, ERR_PRECONDITION_FAILED, "",
                     "partition %u was taken over by another platform", m->partition);
}

/* ---- replays ---- */

/* Platforms' clocks are not compared: each platform that would ask again measures the request's age
 * from the time when it first saw the request's number (as lease.c does with heartbeats). */
struct known_replay {
    uint64_t number, since_ms; /* since_ms: monotonic */
    char name[];               /* node, NUL, journal: the key */
};

struct known_name {
    char bytes[LIMIT_ID_CHARACTERS * 2 + 1];
};

static struct str name_of(struct known_name *to, const struct audit_stream *stream)
{
    struct buf b = buf_over(to->bytes, sizeof to->bytes);
    buf_put(&b, stream->node);
    buf_put_byte(&b, '\0');
    buf_put(&b, stream->journal);
    check(!b.overflow);
    return buf_view(&b);
}

/* Without memory or room the replay is only requested later than possible. */
static void know(struct store *s, const struct audit_stream *stream, uint64_t number,
                 uint64_t monotonic_ms)
{
    struct known_name bytes;
    struct str name = name_of(&bytes, stream);
    struct known_replay *k = map_get(&s->asked, name);
    if (k == NULL) {
        if (s->asked.count >= KNOWN_MAX) store_forget_asked(s);
        k = calloc(1, sizeof *k + name.size);
        if (k == NULL) return;
        memcpy(k->name, name.bytes, name.size);
        if (!map_put(&s->asked, str_of(k->name, name.size), k)) {
            free(k);
            return;
        }
    }
    k->number = number;
    k->since_ms = monotonic_ms;
}

/* Whether to request the replay, and the present number of the request (0: none). */
static enum err is_due(struct store *s, const struct audit_stream *stream, uint64_t monotonic_ms,
                       uint64_t *ret_number, bool *ret_due)
{
    struct known_name name;
    struct statement *q = database_statement(
        s->database, "SELECT asked_at, from_seq FROM replays WHERE node = ?1 AND journal = ?2");
    bind_text(q, 1, stream->node);
    bind_text(q, 2, stream->journal);
    enum err err = statement_step(q);
    *ret_number = err == ERR_OK ? column_u64(q, 0) : 0;
    *ret_due = err != ERR_OK || column_u64(q, 1) != stream->next_seq;
    statement_reset(q);
    if (err != ERR_OK) return err == ERR_END ? ERR_OK : err;
    if (*ret_due) return ERR_OK;
    const struct known_replay *k = map_get(&s->asked, name_of(&name, stream));
    if (k == NULL || k->number != *ret_number)
        know(s, stream, *ret_number, monotonic_ms);
    else
        *ret_due = monotonic_ms - k->since_ms > ASK_AGAIN_MS;
    return ERR_OK;
}

enum err consumer_store_ask(struct store *s, const struct audit_stream *stream,
                            uint64_t monotonic_ms, uint64_t now_ms, bool *ret_asked,
                            struct fault *f)
{
    uint64_t number;
    enum err err = store_fault(s, is_due(s, stream, monotonic_ms, &number, ret_asked), f);
    /* For an existing stream a replay is always requested, because the number of streams is
     * bounded. */
    if (err == ERR_OK && *ret_asked && number == 0 && stream->next_seq == 1)
        err = replay_room(s, stream->node, ret_asked, f);
    if (err != ERR_OK || !*ret_asked) return err;
    /* The column's name means a time, and its value is the time if possible: a new request needs a
     * new number. */
    struct statement *q = database_statement(
        s->database,
        "INSERT INTO replays (node, journal, from_seq, asked_at) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (node, journal) DO UPDATE SET from_seq = ?3, asked_at = ?4");
    bind_text(q, 1, stream->node);
    bind_text(q, 2, stream->journal);
    bind_u64(q, 3, stream->next_seq);
    number = now_ms > number ? now_ms : number + 1;
    bind_u64(q, 4, number);
    err = statement_run(q);
    if (err == ERR_OK) know(s, stream, number, monotonic_ms);
    return store_fault(s, err, f);
}

enum { ASK_AT_ONCE = 256 };

struct asked {
    struct arena arena;
    struct audit_stream streams[ASK_AT_ONCE];
    size_t count;
};

static enum err streams_after(struct store *s, const struct audit_stream *last, struct asked *a)
{
    struct statement *q = database_statement(
        s->database, "SELECT node, journal, next_seq FROM streams WHERE (node, journal) > (?1, ?2)"
                     " ORDER BY node, journal LIMIT ?3");
    struct audit_stream after =
        last == NULL ? (struct audit_stream){.node = STR(""), .journal = STR("")} : *last;
    enum err err;
    bind_text(q, 1, after.node);
    bind_text(q, 2, after.journal);
    bind_u64(q, 3, ASK_AT_ONCE);
    a->count = 0;
    while ((err = statement_step(q)) == ERR_OK)
        a->streams[a->count++] =
            (struct audit_stream){.node = arena_copy(&a->arena, column_text(q, 0)),
                                  .journal = arena_copy(&a->arena, column_text(q, 1)),
                                  .next_seq = column_u64(q, 2)};
    statement_reset(q);
    if (a->arena.overflow) return ERR_FULL;
    return err == ERR_END ? ERR_OK : err;
}

enum err consumer_store_ask_all(struct store *s, uint32_t partition, uint32_t partition_count,
                                uint64_t monotonic_ms, uint64_t now_ms, uint64_t *ret_asked,
                                struct fault *f)
{
    struct asked a = {.count = ASK_AT_ONCE};
    struct audit_stream last;
    enum err err = ERR_OK;
    *ret_asked = 0;
    arena_init(&a.arena, 64 << 10, 64 << 20);
    for (bool first = true; err == ERR_OK && a.count == ASK_AT_ONCE; first = false) {
        if (!first) last = a.streams[a.count - 1];
        err = store_fault(s, streams_after(s, first ? NULL : &last, &a), f);
        for (size_t i = 0; i < a.count && err == ERR_OK; i++) {
            bool asked = false;
            if (topic_partition(a.streams[i].node, a.streams[i].journal, partition_count) !=
                partition)
                continue;
            err = consumer_store_ask(s, &a.streams[i], monotonic_ms, now_ms, &asked, f);
            *ret_asked += asked;
        }
    }
    arena_fini(&a.arena);
    return err;
}
