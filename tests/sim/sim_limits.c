/* sim_limits.c - limits that change while they count, held against an exact account.
 *
 *   sim_limits [--count N] [--seed S]
 *
 * Each life is one limit over some simulated days. Requests come at random; now and then its window,
 * count or max changes, time alone passes, what was counted comes to nothing and is given back, a
 * snapshot is made by a fold, or the shard is lost and recovered from the last snapshot and the
 * records behind it. Half of the lives begin with what an earlier program counted, by keys that hold
 * the window. It checks that
 *
 *   - nothing is let through where the window of that moment holds as much as the limit lets
 *     through, of all requests that could be known: of those before a change to a longer window
 *     these are the last old window's;
 *   - nothing is refused that would have room if each request were older by the length of the bucket
 *     that it was counted in.
 *
 * A failure prints the seed that repeats it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/world.h"
#include "shards/delta.h"
#include "shards/serialize.h"
#include "shards/shard.h"

enum { ADMITTED_MAX = 1 << 14, WINDOWS_MAX = 1 << 8, JOURNAL_BYTES = 4 << 20, STEPS = 1500 };
static const uint64_t begin_ms = UINT64_C(1795166400000);

static uint64_t seed_now, state;
static uint64_t asked, let_through, refused, changes, crashes, given_back, grown, carried, from_old;

static uint64_t roll(void) /* splitmix64 (Steele, Lea, Flood 2014) */
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}
static uint64_t below(uint64_t n) { return roll() % n; }
static bool percent(unsigned p) { return below(100) < p; }

struct admitted {
    uint64_t at_ms, bucket_ms; /* and how long a bucket was then */
    int64_t amount;
};

static struct life {
    struct shard *shard, *fold;
    uint64_t now_ms, known_ms; /* what was counted before that may be unknown */
    uint64_t window_ms, count_max;
    bool has_max;
    int64_t amount_max;
    struct limit_windows_entry current;
    struct limit_windows windows;
    struct admitted admitted[ADMITTED_MAX];
    size_t admitted_count;
    uint64_t old_windows[2]; /* of counters that an earlier program made */
    size_t old_count;
    char journal[JOURNAL_BYTES]; /* deltas since the last snapshot */
    size_t journal_size;
    struct effects effects;
    struct arena arena, calls;
    struct chance chance;
    struct buf snapshot; /* entries behind their sizes */
} life;

static _Noreturn void fail(const char *what, uint64_t holds, uint64_t more)
{
    fprintf(stderr,
            "FAIL %s: window %" PRIu64 " ms, count %" PRIu64 ", max %" PRId64 "; it holds %" PRIu64
            " and %" PRIu64 " millionths at %" PRIu64 "; repeat with --seed %" PRIu64
            " --count 1\n",
            what, life.window_ms, life.count_max, life.has_max ? life.amount_max : -1, holds, more,
            life.now_ms - begin_ms, seed_now);
    exit(1);
}

/* ---- the account ---- */

struct account {
    uint64_t count;
    int64_t sum;
};

/* Of the window, exactly, and what was known for certain; or all that might be counted in it. */
static struct account account(bool at_most)
{
    struct account a = {0};
    for (size_t i = 0; i < life.admitted_count; i++) {
        const struct admitted *r = &life.admitted[i];
        uint64_t longer = at_most ? r->bucket_ms + 1 : 0;
        bool is_in = r->at_ms + longer + life.window_ms > life.now_ms;
        if (!is_in || (!at_most && r->at_ms < life.known_ms)) continue;
        a.count++;
        a.sum += r->amount;
    }
    return a;
}

static bool is_over(const struct account *a, int64_t amount)
{
    return (life.count_max != 0 && a->count >= life.count_max) ||
           (life.has_max && a->sum + amount > life.amount_max);
}

/* ---- one limit ---- */

/* Both keys are on some slot, the old one on another for each window. */
static struct slot_key key_of(uint64_t old_window_ms)
{
    struct slot_key k;
    for (size_t i = 0; i < sizeof k.bytes; i++)
        k.bytes[i] = (uint8_t)(old_window_ms >> (i % 5 * 8)) ^ (uint8_t)(17 * i);
    return k;
}

static void new_window(void)
{
    static const uint64_t lengths[] = {1000, 7001, 60000, 3600000, 86400000, 172800000};
    uint64_t was = life.window_ms;
    life.window_ms = percent(70) ? lengths[below(6)] : 60 + below(90000000);
    if (was != 0 && life.window_ms > was) {
        uint64_t known = life.now_ms - was;
        if (known > life.known_ms) life.known_ms = known;
        grown++;
    }
    struct slot_key key = key_of(0);
    life.current =
        (struct limit_windows_entry){.tag = limit_tag(&key), .window_ms = life.window_ms};
    life.windows =
        (struct limit_windows){.list = &life.current, .count = 1, .longest_ms = life.window_ms};
}

static void change(void)
{
    bool all = life.window_ms == 0;
    if (all || percent(60)) new_window();
    if (all || percent(30)) life.count_max = percent(80) ? 1 + below(12) : 0;
    if (all || percent(30)) {
        life.has_max = life.count_max == 0 || percent(50);
        life.amount_max = (int64_t)(1 + below(50)) * 1000000;
    }
    if (life.count_max == 0) life.has_max = true;
    changes++;
}

static void apply(struct shard *s, struct str deltas)
{
    struct delta_entry e;
    enum err err;
    struct fault f;
    while (delta_next(&deltas, &e, &err))
        if (shard_apply(s, &e, (struct str){0}, &f) != ERR_OK) fail(f.text, 0, 0);
    if (err != ERR_OK) fail("a damaged delta", 0, 0);
}

/* What was counted is recorded: sometimes behind what was counted after it. */
static void record(const struct limit_request *ask, const struct limit_told *told)
{
    char bytes[128];
    static size_t last; /* of the journal's newest entry */
    struct buf b = buf_over(bytes, sizeof bytes);
    delta_put_counted(&b, ask, told);
    if (life.journal_size + b.size > sizeof life.journal) fail("journal", 0, 0);
    size_t at = life.journal_size;
    if (at >= b.size && last == b.size && percent(20)) {
        memmove(life.journal + at - last + b.size, life.journal + at - last, last);
        at -= last;
    }
    memcpy(life.journal + at, bytes, b.size);
    life.journal_size += b.size;
    last = b.size;
}

static struct call *step(enum call_kind kind, const struct limit_request *ask,
                         const struct limit_told *told)
{
    arena_reset(&life.calls);
    struct call *c = arena_new(&life.calls, struct call);
    c->kind = kind;
    c->slot = (uint16_t)slot_of_key(ask->key);
    c->now_ms = life.now_ms;
    c->arena = &life.calls;
    c->limit.ask = *ask;
    if (told != NULL) c->limit.told = *told;
    shard_step(life.shard, c, &life.effects);
    shard_recount(life.shard);
    if (c->err != ERR_OK) fail("a step failed", 0, 0);
    return c;
}

static void note(const struct limit_told *told, uint64_t window_ms, int64_t amount)
{
    if (life.admitted_count == ADMITTED_MAX) fail("too many", 0, 0);
    life.admitted[life.admitted_count++] = (struct admitted){
        told->stamp_ms, window_ms / (LIMIT_BUCKETS - 1) + 1, amount < 0 ? 0 : amount};
}

/* As engine/decision/authorization.c does it. */
static void request(void)
{
    struct limit_request ask = {.key = key_of(0),
                                .window_ms = life.window_ms,
                                .count_max = life.count_max,
                                .has_max = life.has_max,
                                .amount_max = life.amount_max,
                                .amount = life.has_max ? (int64_t)below(12) * 1000000 : 0};
    for (size_t i = 0; i < life.old_count; i++) {
        struct limit_request old = {
            .key = key_of(life.old_windows[i]), .is_old = true, .window_ms = life.window_ms};
        struct call *c = step(CALL_COUNT, &old, NULL);
        from_old += c->limit.told.used.count > 0;
        limit_used_add(&ask.before, &c->limit.told.used);
    }
    struct limit_told told = step(CALL_COUNT, &ask, NULL)->limit.told;
    struct account exact = account(false), most = account(true);
    asked++;
    if (told.counted && is_over(&exact, ask.amount))
        fail("more was let through than the limit lets", exact.count, (uint64_t)exact.sum);
    if (!told.counted && !is_over(&most, ask.amount))
        fail("there was room", most.count, (uint64_t)most.sum);
    refused += !told.counted;
    carried += !told.counted && life.admitted_count > 0 &&
               life.admitted[life.admitted_count - 1].bucket_ms !=
                   life.window_ms / (LIMIT_BUCKETS - 1) + 1;
    if (!told.counted) return;
    if (percent(10)) {
        step(CALL_UNCOUNT, &ask, &told);
        given_back++;
        return;
    }
    let_through++;
    note(&told, life.window_ms, ask.amount);
    record(&ask, &told);
}

/* ---- snapshots and losses ---- */

static enum err keep_entry(void *context, struct str entry)
{
    uint32_t size = (uint32_t)entry.size;
    (void)context;
    buf_put(&life.snapshot, str_of((const char *)&size, sizeof size));
    buf_put(&life.snapshot, entry);
    return life.snapshot.overflow ? ERR_FULL : ERR_OK;
}

static void load(struct shard *s)
{
    struct str rest = buf_view(&life.snapshot);
    struct fault f;
    while (rest.size > 0) {
        uint32_t size;
        memcpy(&size, rest.bytes, sizeof size);
        rest = str_skip(rest, sizeof size);
        if (shard_load(s, str_of(rest.bytes, size), &f) != ERR_OK) fail(f.text, 0, 0);
        rest = str_skip(rest, size);
    }
}

static struct shard *recovered(void)
{
    struct shard *s = shard_create(&(struct shard_options){.count = 1, .counters_max = 64});
    if (s == NULL) exit(1);
    shard_hold_limits(s, &limit_windows_unknown);
    load(s);
    apply(s, str_of(life.journal, life.journal_size));
    return s;
}

static void snapshot(void)
{
    struct shard *fold = recovered();
    shard_hold_limits(fold, &life.windows);
    shard_prune(fold, life.now_ms - 1000);
    buf_clear(&life.snapshot);
    if (shard_save(fold, keep_entry, NULL) != ERR_OK) fail("a snapshot", 0, 0);
    shard_destroy(fold);
    life.journal_size = 0;
}

static void crash(void)
{
    shard_destroy(life.shard);
    life.shard = recovered();
    shard_hold_limits(life.shard, &life.windows);
    crashes++;
}

static void tick(void)
{
    uint64_t next;
    while (shard_tick(life.shard, life.now_ms, &life.chance, &life.effects, &next)) continue;
}

/* ---- lives ---- */

/* What an earlier program left: counted by keys that hold the window, in its last days. */
static void earlier(void)
{
    for (life.old_count = 0; life.old_count < 2; life.old_count++) {
        uint64_t window = life.old_count == 0 ? life.window_ms : 60 + below(90000000);
        if (life.old_count == 1 && (percent(50) || window == life.window_ms)) break;
        struct limit_request ask = {
            .key = key_of(window), .is_old = true, .window_ms = window, .amount = 1000000};
        life.old_windows[life.old_count] = window;
        for (size_t i = below(12); i > 0; i--) {
            /* one after the other; what was counted long before is gone */
            struct limit_told told = {.counted = true, .stamp_ms = life.now_ms - window * i / 12};
            note(&told, window, ask.amount);
            record(&ask, &told);
        }
    }
    apply(life.shard, str_of(life.journal, life.journal_size));
}

static void live(void)
{
    life.now_ms = begin_ms + below(86400000);
    life.known_ms = life.window_ms = life.count_max = 0;
    life.admitted_count = life.old_count = life.journal_size = 0;
    buf_clear(&life.snapshot);
    change();
    life.shard = shard_create(&(struct shard_options){.count = 1, .counters_max = 64});
    if (life.shard == NULL) exit(1);
    shard_hold_limits(life.shard, &life.windows);
    if (percent(50)) earlier();
    for (size_t i = 0; i < STEPS; i++) {
        static const uint64_t gaps[] = {10, 1000, 60000, 1800000};
        life.now_ms += below(percent(80) ? 1 + life.window_ms / 10 : gaps[below(4)] * 10);
        if (percent(2)) life.now_ms += below(2 * life.window_ms);
        if (percent(3)) change();
        if (percent(20)) tick();
        if (percent(1)) snapshot();
        if (percent(1)) crash();
        request();
    }
    shard_destroy(life.shard);
}

int main(int argc, char **argv)
{
    uint64_t count = 60, seed = world_now_ms();
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--count") == 0) count = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) seed = strtoull(argv[i + 1], NULL, 10);
    }
    printf("sim_limits: seed %" PRIu64 ", %" PRIu64 " lives\n", seed, count);
    arena_init(&life.arena, 64 << 10, 1 << 20);
    arena_init(&life.calls, 16 << 10, 1 << 20);
    buf_init(&life.snapshot, 4096, 4 << 20);
    life.effects.arena = &life.arena;
    for (uint64_t i = 0; i < count; i++) {
        seed_now = state = seed + i;
        live();
    }
    buf_fini(&life.snapshot);
    arena_fini(&life.arena);
    arena_fini(&life.calls);
    printf("%" PRIu64 " requests, %" PRIu64 " let through, %" PRIu64 " refused, %" PRIu64
           " of these for what an earlier window counted; %" PRIu64 " changes, %" PRIu64
           " to a longer window; %" PRIu64 " given back, %" PRIu64 " recoveries; %" PRIu64
           " met counters of an earlier program\n",
           asked, let_through, refused, carried, changes, grown, given_back, crashes, from_old);
    if (count >= 60 &&
        !(let_through && refused && carried && grown && given_back && crashes && from_old)) {
        printf("FAIL: something was never tried\n");
        return 1;
    }
    printf("%" PRIu64 " passed, 0 failed\n", count);
    return 0;
}
