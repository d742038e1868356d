/* test_orient.c - replay that begins in the middle of a log counts what replay from its beginning
 * counts. */
#include "fleet/orient.h"
#include "support.h"

enum { LOG = 200, ROUNDS = 40, ENGINES = 3 };

struct world {
    uint64_t seed;
    struct entry log[LOG];
    bool counts[LOG];
    struct log_replay replay;
    struct entry newest[ENGINES]; /* of each engine that led: its last RECORDS or TERM */
    struct entry_point before[ENGINES];
    uint64_t digests;
    struct sha256 lagging; /* of an entry that counts, a while ago */
};

static unsigned below(struct world *w, unsigned n)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->seed >> 33) % n;
}

static struct sha256 fresh_digest(struct world *w)
{
    struct sha256 digest = {{0xd1}};
    w->digests++;
    memcpy(digest.bytes + 1, &w->digests, sizeof w->digests);
    return digest;
}

/* The next RECORDS of that engine, as if it still led. */
static struct entry next_records(struct world *w, unsigned engine)
{
    const struct entry *last = &w->newest[engine];
    return (struct entry){.kind = ENTRY_RECORDS,
                          .format = ENTRY_FORMAT_FIRST,
                          .term = last->term,
                          .n = last->n + 1,
                          .incarnation = last->incarnation,
                          .previous = last->digest,
                          .before = w->before[engine],
                          .seq = w->digests,
                          .digest = fresh_digest(w)};
}

static struct entry make(struct world *w, uint64_t offset)
{
    unsigned engine = below(w, ENGINES), what = below(w, 10);
    if (offset == 0 || what == 0) /* a TERM, which may come too late */
        return (struct entry){.kind = ENTRY_TERM,
                              .format = ENTRY_FORMAT_FIRST,
                              .term = w->replay.last.term + (offset == 0 || below(w, 2) ? 1 : 0),
                              .previous = below(w, 4) ? w->replay.last.digest : w->lagging,
                              .incarnation = incarnation_of((uint8_t)engine),
                              .digest = fresh_digest(w)};
    if (what < 7 && w->newest[engine].term > 0) return next_records(w, engine);
    struct entry e = heartbeat_of((uint8_t)engine, offset, offset, 1000);
    e.term = w->replay.last.term;
    e.n = w->replay.last.n;
    e.previous = w->replay.last.digest;
    return e;
}

static void fill(struct world *w, uint64_t seed)
{
    *w = (struct world){.seed = seed};
    log_replay_begin(&w->replay, NULL);
    for (uint64_t offset = 0; offset < LOG; offset++) {
        struct entry e = w->log[offset] = make(w, offset); /* the first one is a TERM */
        unsigned engine = e.incarnation.bytes[0];
        if (below(w, 4) == 0) w->lagging = w->replay.last.digest;
        struct entry_point before = w->replay.last;
        enum log_result result = log_replay_step(&w->replay, &e, offset);
        assert_int_not_equal(result, LOG_ENDED);
        w->counts[offset] = result == LOG_COUNTED && e.kind != ENTRY_HEARTBEAT;
        if (e.kind == ENTRY_TERM && result == LOG_COUNTED) w->before[engine] = before;
        if (e.kind == ENTRY_RECORDS || (e.kind == ENTRY_TERM && result == LOG_COUNTED))
            w->newest[engine] = e;
    }
}

static void what_counts_is_found_from_anywhere(void **state)
{
    (void)state;
    static struct world w;
    unsigned found = 0, missed = 0;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        fill(&w, seed);
        for (uint64_t begin = 0; begin < LOG; begin++) {
            struct log_orient *o = log_orient_create();
            struct log_replay r;
            uint64_t seq, at = begin;
            enum orient_result result = ORIENT_GOES_ON;
            for (; at < LOG && result == ORIENT_GOES_ON; at++)
                result = log_orient_add(o, &w.log[at], at, &r, &seq);
            log_orient_destroy(o);
            if (result != ORIENT_FOUND) continue;
            found++;
            for (at = begin; at < r.next; at++)
                missed += w.counts[at] && w.log[at].kind == ENTRY_RECORDS;
            for (; at < LOG; at++) {
                bool counts = log_replay_step(&r, &w.log[at], at) == LOG_COUNTED;
                assert_int_equal(r.end, LOG_READS);
                if (w.log[at].kind != ENTRY_HEARTBEAT) assert_int_equal(counts, w.counts[at]);
            }
        }
    }
    assert_true(found > ROUNDS * LOG / 2);
    assert_true(missed < found / 50); /* behind a TERM without records */
}

static void a_copy_shows_what_no_heartbeat_has_named(void **state)
{
    (void)state;
    struct log_orient *o = log_orient_create();
    struct log_replay r;
    uint64_t seq;
    struct entry first = records_of(4, 7, 1), late = records_of(3, 9, 2),
                 second = records_of(4, 8, 1);
    first.format = second.format = late.format = ENTRY_FORMAT_FIRST;
    first.seq = 100;
    assert_int_equal(log_orient_add(o, &late, 50, &r, &seq), ORIENT_GOES_ON);
    assert_int_equal(log_orient_add(o, &first, 51, &r, &seq), ORIENT_GOES_ON);
    assert_int_equal(log_orient_add(o, &second, 52, &r, &seq), ORIENT_GOES_ON);
    const struct entry_point other = {.term = 4, .n = 8, .digest = {{1}}},
                             right = {.term = 4, .n = 8, .digest = second.digest};
    assert_false(log_orient_by(o, &other, &r, &seq));
    assert_true(log_orient_by(o, &right, &r, &seq));
    assert_true(r.next == 51 && seq == 100);
    log_orient_destroy(o);
}

static void too_many_entries_without_a_name_are_given_up(void **state)
{
    (void)state;
    struct log_orient *o = log_orient_create();
    struct log_replay r;
    uint64_t seq;
    struct entry e = records_of(1, 1, 1);
    for (uint64_t at = 0; at < ORIENT_ENTRIES_MAX; at++)
        assert_int_equal(log_orient_add(o, &e, at, &r, &seq), ORIENT_GOES_ON);
    assert_int_equal(log_orient_add(o, &e, ORIENT_ENTRIES_MAX, &r, &seq), ORIENT_FULL);
    log_orient_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_counts_is_found_from_anywhere),
        cmocka_unit_test(a_copy_shows_what_no_heartbeat_has_named),
        cmocka_unit_test(too_many_entries_without_a_name_are_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
