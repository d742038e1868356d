/* scene.h - what the keep room's tests share: a journal on real files with records that mean
 * something, shards to compare, and a Redis server of the test's own. */
#ifndef TEST_KEEP_SCENE_H
#define TEST_KEEP_SCENE_H

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/check.h"
#include "base/world.h"
#include "event/event.h"
#include "snapshot/replay.h"
#include "pipeline/mirror/state_follower.h"
#include "snapshot/snapshot.h"
#include "shards/serialize.h"
#include "shards/slot.h"

enum { SCENE_SEGMENT = 1 << 20, SCENE_PATH = 64 };
enum { QUICK_TICK_MS = 50, QUICK_PROBE_MS = 200 }; /* of the state follower */

/* ---- directories ---- */

static inline void scene_remove(const char *directory)
{
    DIR *d = opendir(directory);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (unlinkat(dirfd(d), e->d_name, 0) != 0) {
            char *path;
            assert_true(asprintf(&path, "%s/%s", directory, e->d_name) > 0);
            scene_remove(path);
            free(path);
        }
    }
    if (d != NULL) closedir(d);
    rmdir(directory);
}

static inline void scene_directory(char to[SCENE_PATH])
{
    (void)mkdir("build", 0777);
    snprintf(to, SCENE_PATH, "build/test_keep_XXXXXX");
    assert_non_null(mkdtemp(to));
}

/* ---- what happens ---- */

struct happening { /* one record's delta */
    char bytes[16 << 10];
    struct buf delta;
};

static inline struct buf *happening_begin(struct happening *h)
{
    h->delta = buf_over(h->bytes, sizeof h->bytes);
    return &h->delta;
}

/* The n-th id, in a slot that follows from n. */
static inline struct id scene_id(uint64_t now_ms, unsigned n)
{
    struct id id = {{0}};
    for (int i = 0; i < 6; i++) id.bytes[i] = (uint8_t)(now_ms >> (8 * (5 - i)));
    for (int i = 0; i < 4; i++) id.bytes[12 + i] = (uint8_t)(n >> (8 * (3 - i)));
    return slot_id(id, n * 37 % LIMIT_SLOTS);
}

static inline struct id put_minted(struct buf *to, uint64_t now_ms, unsigned n, uint32_t uses_max)
{
    struct token_facts t = {.id = scene_id(now_ms, n),
                            .key = scene_id(now_ms, 999999),
                            .tenant = STR("default"),
                            .actor = STR("agent-7"),
                            .scope = STR("payments.*"),
                            .signer = 1,
                            .ordinal = n,
                            .issued_ms = now_ms,
                            .expires_ms = now_ms + 3600000,
                            .uses_max = uses_max};
    struct retry none = {0};
    delta_put_minted(to, &t, &none);
    return t.id;
}

/* What a review's record says in public. */
static inline struct str scene_item(char *to, size_t size, struct id review, uint64_t now_ms,
                                    const char *actor)
{
    char event_id[ID_TEXT], review_id[ID_TEXT];
    struct buf b = buf_over(to, size);
    id_write("evt_", review, event_id);
    id_write("rev_", review, review_id);
    struct event e = {.event_id = str_of(event_id, ID_TEXT),
                      .kind = STR("review.enqueued"),
                      .tenant_id = STR("default"),
                      .trace_id = STR("trace-1"),
                      .timestamp = now_ms,
                      .actor = str_from(actor),
                      .action = STR("payments.refund"),
                      .review_id = str_of(review_id, ID_TEXT)};
    event_put(&b, &e);
    assert_false(b.overflow);
    return buf_view(&b);
}

static inline struct review_facts scene_review(uint64_t now_ms, unsigned n, struct str item,
                                               const char *actor)
{
    struct review_facts r = {.id = scene_id(now_ms, n),
                             .ordinal = n,
                             .tenant = STR("default"),
                             .subject = str_from(actor),
                             .principal = STR("key-1"),
                             .owner = STR("ann"),
                             .action = STR("payments.refund"),
                             .trace_id = STR("trace-1"),
                             .enqueued_ms = now_ms,
                             .expires_ms = now_ms + 1800000,
                             .good_for_ms = 600000,
                             .item = item,
                             .requirements = STR("[{\"approvals\":1}]"),
                             .votes_approved = STR("[]"),
                             .state = REVIEW_PENDING};
    memcpy(r.binding.bytes, &n, sizeof n);
    memcpy(r.request.bytes + 8, &n, sizeof n);
    return r;
}

/* ---- shards as text ---- */

struct image { /* a shard's entries, sorted */
    struct str *entries;
    size_t count, room;
};

static inline enum err image_add(void *context, struct str entry)
{
    struct image *i = context;
    if (i->count == i->room) {
        i->room = i->room == 0 ? 64 : i->room * 2;
        i->entries = realloc(i->entries, i->room * sizeof *i->entries);
        assert_non_null(i->entries);
    }
    char *copy = malloc(entry.size);
    assert_non_null(copy);
    memcpy(copy, entry.bytes, entry.size);
    i->entries[i->count++] = str_of(copy, entry.size);
    return ERR_OK;
}

static inline int image_order(const void *a, const void *b)
{
    return str_compare(*(const struct str *)a, *(const struct str *)b);
}

static inline struct image image_of(const struct shard *s)
{
    struct image i = {0};
    assert_int_equal(shard_save(s, image_add, &i), ERR_OK);
    if (i.count > 1) qsort(i.entries, i.count, sizeof *i.entries, image_order);
    return i;
}

static inline void image_fini(struct image *i)
{
    for (size_t k = 0; k < i->count; k++) free((void *)(uintptr_t)i->entries[k].bytes);
    free(i->entries);
}

static inline void assert_same_state(const struct shard *a, const struct shard *b)
{
    struct image left = image_of(a), right = image_of(b);
    assert_int_equal(left.count, right.count);
    for (size_t i = 0; i < left.count; i++)
        assert_true(str_equal(left.entries[i], right.entries[i]));
    image_fini(&left);
    image_fini(&right);
}

/* One review more than can be saved: its votes say too much. */
static inline void scene_overfill(struct shard *s, uint64_t now_ms)
{
    static char item[2048], note[20000], bytes[sizeof note + 1024];
    struct journal_record record = {
        .seq = 1,
        .public_bytes = scene_item(item, sizeof item, scene_id(now_ms, 900000), now_ms, "agent-7")};
    struct review_facts r = scene_review(now_ms, 900000, record.public_bytes, "agent-7");
    struct review_vote v = {.principal = STR("bob"),
                            .owner = STR("bob"),
                            .by = STR("bob"),
                            .note = str_of(note, sizeof note)};
    struct buf delta = buf_over(bytes, sizeof bytes);
    struct fault f;
    memset(note, 'n', sizeof note);
    delta_put_opened(&delta, &r);
    for (unsigned i = 0; i <= REVIEW_VOTES_MAX; i++) {
        record.private_bytes = buf_view(&delta);
        assert_int_equal(replay_record(&s, 1, &record, &f), ERR_OK);
        buf_clear(&delta);
        delta_put_voted(&delta, r.id, &v);
    }
}

static inline struct shard *scene_shard(void)
{
    struct shard *s = shard_create(&(struct shard_options){
        .count = 1, .tokens_max = 100000, .reviews_max = 10000, .counters_max = 10000});
    assert_non_null(s);
    return s;
}

/* ---- a journal with something in it ---- */

struct scene {
    char directory[SCENE_PATH];
    struct disk *journal_disk, *snapshots;
    /* what the journal's disk tells of its room; NULL: what it has */
    enum err (*free_bytes)(void *state, uint64_t *ret_free, uint64_t *ret_total);
    enum err (*free_files)(void *state, uint64_t *ret_free, uint64_t *ret_total);
    struct journal *journal;
    struct shard *truth; /* what the records amount to */
    struct state_follower *keep;
    struct lineage past;
    struct metrics_sheet *sheet;
    sem_t rung;
    pthread_mutex_t keep_lock; /* the journal writer wakes whom it finds here */
    uint64_t now_ms, seq;
    unsigned next, rounds; /* numbers of the next object and of the next round of play */
    _Atomic unsigned lost;
};

static inline void scene_ring(void *context, unsigned producer)
{
    (void)producer;
    sem_post(&((struct scene *)context)->rung);
}

static inline void scene_durable(void *context)
{
    struct scene *s = context;
    pthread_mutex_lock(&s->keep_lock);
    state_follower_wake(s->keep);
    pthread_mutex_unlock(&s->keep_lock);
}

static inline struct state_follower *scene_set_keep(struct scene *s, struct state_follower *next)
{
    pthread_mutex_lock(&s->keep_lock);
    struct state_follower *before = s->keep;
    s->keep = next;
    pthread_mutex_unlock(&s->keep_lock);
    return before;
}
static inline void scene_lost(void *context)
{
    atomic_fetch_add(&((struct scene *)context)->lost, 1);
}

static inline enum err scene_take(void *context, unsigned slot, struct str entry)
{
    struct scene *s = context;
    struct fault f;
    return replay_entry(&s->truth, 1, slot, entry, &f);
}

static inline enum err scene_replay(void *context, const struct journal_record *record)
{
    struct scene *s = context;
    struct fault f;
    lineage_reached(&s->past, record->epoch, record->seq);
    return record->seq <= s->past.position ? ERR_OK : replay_record(&s->truth, 1, record, &f);
}

/* A boot without an engine: snapshot, journal, what is behind. */
static inline void scene_open(struct scene *s)
{
    char path[SCENE_PATH + 16];
    struct fault f;
    struct journal_report report;
    s->truth = scene_shard();
    snprintf(path, sizeof path, "%s/snapshots", s->directory);
    assert_int_equal(disk_real_create(path, &s->snapshots), ERR_OK);
    assert_int_equal(snapshot_read(s->snapshots, scene_take, s, &s->past, &f), ERR_OK);
    snprintf(path, sizeof path, "%s/journal", s->directory);
    assert_int_equal(disk_real_create(path, &s->journal_disk), ERR_OK);
    if (s->free_bytes != NULL) s->journal_disk->free_bytes = s->free_bytes;
    if (s->free_files != NULL) s->journal_disk->free_files = s->free_files;
    struct journal_options o = {.disk = s->journal_disk,
                                .producers = 1,
                                .segment_bytes = SCENE_SEGMENT,
                                .lazy_sync_ms = 5,
                                .ring = scene_ring,
                                .ring_durable = scene_durable,
                                .context = s};
    assert_int_equal(journal_open(&o, scene_replay, s, &s->journal, &report, &f), ERR_OK);
    s->seq = report.last_seq;
}

typedef enum err scene_look(void *state, uint64_t *ret_free, uint64_t *ret_total);

static inline struct scene *scene_create_on(scene_look *free_bytes, scene_look *free_files)
{
    struct scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->free_bytes = free_bytes;
    s->free_files = free_files;
    scene_directory(s->directory);
    sem_init(&s->rung, 0, 0);
    pthread_mutex_init(&s->keep_lock, NULL);
    s->now_ms = world_now_ms();
    s->sheet = metrics_sheet_create();
    scene_open(s);
    return s;
}

static inline struct scene *scene_create(void) { return scene_create_on(NULL, NULL); }

static inline void scene_close(struct scene *s)
{
    if (s->journal == NULL) return;
    state_follower_stop(scene_set_keep(s, NULL), 20000);
    journal_close(s->journal);
    s->journal = NULL;
    disk_real_destroy(s->journal_disk);
    disk_real_destroy(s->snapshots);
    shard_destroy(s->truth);
    s->truth = NULL;
}

static inline void scene_destroy(struct scene *s)
{
    scene_close(s);
    sem_destroy(&s->rung);
    scene_remove(s->directory);
    free(s);
}

/* One record, durable, and applied to the truth. */
static inline void scene_record(struct scene *s, struct str event, struct str delta)
{
    struct journal_producer *p = journal_producer(s->journal, 0);
    struct fault f;
    enum err err;
    char *to;
    while ((to = journal_reserve(p, event.size + delta.size, &err)) == NULL) {
        journal_seal(p);
        while (sem_wait(&s->rung) != 0) {
        }
    }
    memcpy(to, event.bytes, event.size);
    if (delta.size > 0) memcpy(to + event.size, delta.bytes, delta.size);
    journal_commit(p, event.size, delta.size, true);
    s->seq++;
    struct journal_record r = {.seq = s->seq, .public_bytes = event, .private_bytes = delta};
    assert_int_equal(replay_record(&s->truth, 1, &r, &f), ERR_OK);
}

static inline void scene_sync(struct scene *s)
{
    struct journal_producer *p = journal_producer(s->journal, 0);
    journal_seal(p);
    while (journal_durable_seq(s->journal) < s->seq) {
        while (sem_wait(&s->rung) != 0) {
        }
    }
}

static const struct str scene_event = {"{\"kind\":\"decision\"}", 19};

static inline struct id scene_mint(struct scene *s, uint32_t uses_max)
{
    struct happening h;
    struct id id = put_minted(happening_begin(&h), s->now_ms, ++s->next, uses_max);
    scene_record(s, scene_event, buf_view(&h.delta));
    return id;
}

static inline void scene_spend(struct scene *s, struct id token, uint32_t uses)
{
    struct happening h;
    delta_put_spent(happening_begin(&h), token, uses);
    scene_record(s, scene_event, buf_view(&h.delta));
}

static inline void scene_revoke(struct scene *s, struct id token)
{
    struct happening h;
    delta_put_revoked(happening_begin(&h), token, s->now_ms + 1);
    scene_record(s, scene_event, buf_view(&h.delta));
}

static inline struct slot_key scene_counter(unsigned n)
{
    struct slot_key k = {{0}};
    for (unsigned i = 0; i < SLOT_KEY_BYTES; i++) k.bytes[i] = (uint8_t)(n * 131 + i * 29);
    return k;
}

static inline void scene_count(struct scene *s, unsigned counter, uint64_t at_ms, int64_t amount)
{
    struct happening h;
    struct limit_request ask = {.key = scene_counter(counter),
                                .window_ms = 60000,
                                .count_max = 100,
                                .has_max = amount > 0,
                                .amount_max = INT64_MAX / 2,
                                .amount = amount};
    struct limit_told told = {.counted = true, .stamp_ms = at_ms};
    delta_put_counted(happening_begin(&h), &ask, &told);
    scene_record(s, scene_event, buf_view(&h.delta));
}

static inline struct review_facts scene_enqueue(struct scene *s, const char *actor)
{
    static char item[2048]; /* the facts that are given point into it: one review at a time */
    struct happening h;
    unsigned n = ++s->next;
    struct str text = scene_item(item, sizeof item, scene_id(s->now_ms, n), s->now_ms, actor);
    struct review_facts r = scene_review(s->now_ms, n, text, actor);
    delta_put_opened(happening_begin(&h), &r);
    scene_record(s, text, buf_view(&h.delta));
    return r;
}

static inline void scene_vote(struct scene *s, const struct review_facts *r, const char *owner)
{
    struct happening h;
    struct review_vote v = {.principal = str_from(owner),
                            .owner = str_from(owner),
                            .by = str_from(owner),
                            .note = STR("fine"),
                            .at_ms = s->now_ms + 5,
                            .meets = 1};
    delta_put_voted(happening_begin(&h), r->id, &v);
    scene_record(s, scene_event, buf_view(&h.delta));
}

/* The same request again, when its review is over; its id may be the lower one, as ids are made
 * before their turn comes. */
static inline void scene_enqueue_again(struct scene *s, const struct review_facts *over)
{
    char item[2048];
    struct happening h;
    const char *actor = over->subject.bytes;
    unsigned n = (unsigned)over->ordinal;
    struct id id = scene_id(s->now_ms - 1, n);
    struct str text = scene_item(item, sizeof item, id, s->now_ms, actor);
    struct review_facts r = scene_review(s->now_ms, n, text, actor);
    r.id = id;
    r.ordinal = ++s->next;
    delta_put_opened(happening_begin(&h), &r);
    scene_record(s, text, buf_view(&h.delta));
    scene_vote(s, &r, "bob");
}

static inline void scene_move(struct scene *s, struct review_facts *r, enum review_state state)
{
    struct happening h;
    r->state = state;
    r->resolved_ms = s->now_ms + 6;
    r->resolver = r->resolver_owner = r->resolved_by = STR("bob");
    if (state == REVIEW_APPROVED) r->approval_expires_ms = s->now_ms + 600006;
    if (state == REVIEW_REDEEMED) r->redeemed_ms = s->now_ms + 7;
    delta_put_moved(happening_begin(&h), r);
    scene_record(s, scene_event, buf_view(&h.delta));
}

static inline unsigned hash_of(const char *text)
{
    unsigned hash = 5381;
    for (; *text != '\0'; text++) hash = hash * 33 + (unsigned char)*text;
    return hash;
}

static inline void scene_suspend(struct scene *s, const char *actor, bool suspend)
{
    struct happening h;
    unsigned slot = (unsigned)(hash_of(actor) % LIMIT_SLOTS);
    struct actor_facts a = {.tenant = STR("default"),
                            .actor = str_from(actor),
                            .reason = STR("odd"),
                            .by = STR("admin"),
                            .ordinal = ++s->next,
                            .suspended_ms = s->now_ms + s->next};
    happening_begin(&h);
    if (suspend)
        delta_put_suspended(&h.delta, slot, &a);
    else
        delta_put_resumed(&h.delta, slot, a.tenant, a.actor, a.suspended_ms);
    scene_record(s, scene_event, buf_view(&h.delta));
}

/* A bit of everything. */
static inline void scene_play(struct scene *s, unsigned rounds)
{
    for (unsigned end = s->rounds + rounds; s->rounds < end; s->rounds++) {
        unsigned i = s->rounds;
        struct id plain = scene_mint(s, 0), counted = scene_mint(s, 5);
        scene_spend(s, counted, 2);
        scene_spend(s, counted, 1);
        if (i % 3 == 0) scene_revoke(s, plain);
        for (unsigned k = 0; k < 4; k++)
            scene_count(s, i % 50, s->now_ms + 400 * k, k == 0 ? 0 : 1500000);
        struct review_facts r = scene_enqueue(s, i % 2 == 0 ? "agent-7" : "agent-8");
        if (i % 4 > 0) scene_vote(s, &r, "bob");
        if (i % 4 > 0) scene_move(s, &r, REVIEW_APPROVED);
        if (i % 4 > 2) scene_move(s, &r, REVIEW_REDEEMED);
        if (i % 4 > 2) scene_enqueue_again(s, &r);
        char actor[16];
        snprintf(actor, sizeof actor, "actor-%u", i / 5);
        if (i % 5 == 0) scene_suspend(s, actor, true);
        if (i % 10 == 6 && i > 0) scene_suspend(s, actor, false);
        if (i % 20 == 8) scene_suspend(s, actor, true);
    }
    scene_sync(s);
}

/* The other way to the same state: newest snapshot and journal, as a replay. */
static inline struct replay *scene_start_replay(struct scene *s)
{
    struct fault f = {.err = ERR_OK};
    struct replay *replay = replay_create();
    assert_non_null(replay);
    assert_int_equal(replay_load(replay, s->snapshots, NULL, &f), ERR_OK);
    enum err err = replay_follow(replay, s->journal, s->seq, NULL, &f);
    if (err != ERR_OK) print_error("%s\n", f.text);
    assert_int_equal(err, ERR_OK);
    return replay;
}

#endif
