/* test_limit.c - counters, beside a list of all that was ever counted. */
#include "shard_scene.h"

#include "shards/limit_table.h"

static struct quota quota; /* of refusals */

static const uint64_t now_2026 = 1795166400123;

static uint64_t random_next(uint64_t *chance)
{
    *chance ^= *chance << 13, *chance ^= *chance >> 7, *chance ^= *chance << 17;
    return *chance;
}

static struct limit_request ask_of(uint8_t key, uint64_t window_ms)
{
    struct limit_request ask = {.window_ms = window_ms};
    memset(ask.key.bytes, key, sizeof ask.key.bytes);
    return ask;
}

static bool count_at(struct limit_table *t, const struct limit_request *ask, uint64_t now_ms)
{
    struct limit_told told;
    assert_int_equal(limit_count(t, ask, now_ms, &told, &quota), ERR_OK);
    return told.counted;
}

/* ---- buckets ---- */

static void a_bucket_begins_where_the_one_before_it_ends(void **state)
{
    (void)state;
    static const uint64_t windows[] = {1,    59,    60,      61,       1000,
                                       7000, 60000, 3600000, 86400000, UINT64_C(30) * 86400000};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        uint64_t w = windows[i], first = limit_bucket(now_2026, w);
        for (uint64_t b = first; b < first + 200; b++) {
            uint64_t begin = limit_bucket_begin_ms(b, w), next = limit_bucket_begin_ms(b + 1, w);
            assert_true(next > begin);
            assert_true(limit_bucket(begin, w) == b);
            assert_true(limit_bucket(next - 1, w) == b);
        }
        if (w < LIMIT_WINDOW_MS_MIN) continue;
        assert_true(limit_bucket(now_2026 + w, w) == first + LIMIT_BUCKETS - 1);
    }
}

/* ---- the property: never more in a window, and stricter by a sixtieth at most ---- */

enum { COUNTED_MAX = 20000 };

struct counted {
    uint64_t stamp_ms;
    int64_t amount;
};

struct history {
    struct counted all[COUNTED_MAX]; /* their stamps rise */
    size_t count;
};

/* What was counted from `from_ms` on. */
static void history_since(const struct history *h, uint64_t from_ms, uint64_t *ret_count,
                          int64_t *ret_sum)
{
    *ret_count = 0;
    *ret_sum = 0;
    for (size_t i = h->count; i-- > 0 && h->all[i].stamp_ms >= from_ms;) {
        ++*ret_count;
        *ret_sum += h->all[i].amount;
    }
}

/* Milliseconds to the next request: mostly small beside the window, now and then a long pause. */
static uint64_t random_pause(uint64_t window_ms, uint64_t *chance)
{
    unsigned which = (unsigned)(random_next(chance) % 200);
    if (which == 0) return random_next(chance) % (3 * window_ms);
    if (which < 20) return random_next(chance) % (window_ms / 10 + 1);
    return random_next(chance) % (window_ms / 100 + 1);
}

static void judge(const struct history *h, const struct limit_request *ask,
                  const struct limit_told *told, uint64_t at_ms)
{
    uint64_t count, w = ask->window_ms;
    int64_t sum;
    if (told->counted) {
        /* In (at - w, at] there is, with this one, no more than the bound. */
        history_since(h, at_ms - w + 1, &count, &sum);
        assert_true(count < ask->count_max);
        assert_true(sum + ask->amount <= ask->amount_max);
    } else {
        /* Refused: in a window longer by a sixtieth it would be over. */
        history_since(h, at_ms - (w + w / (LIMIT_BUCKETS - 1)), &count, &sum);
        assert_true(count >= ask->count_max || sum + ask->amount > ask->amount_max);
    }
}

/* `back_ms`: how far the clock goes back now and then. Windows are judged by the time at which
 * something was told to be counted, which never goes back. */
static void count_at_random(uint64_t seed, uint64_t window_ms, uint64_t back_ms)
{
    static struct history h;
    struct limit_table t;
    uint64_t chance = seed, now_ms = now_2026 + seed % 977, latest_ms = now_ms, refused = 0;
    struct limit_request ask = ask_of(7, window_ms);
    ask.count_max = 40;
    ask.has_max = true;
    ask.amount_max = 100000;
    h.count = 0;
    limit_table_init(&t, 4);
    for (int step = 0; step < 8000 && h.count < COUNTED_MAX; step++) {
        struct limit_told told;
        latest_ms += random_pause(window_ms, &chance);
        now_ms = latest_ms;
        if (back_ms > 0 && random_next(&chance) % 4 == 0) now_ms -= random_next(&chance) % back_ms;
        ask.amount = (int64_t)(random_next(&chance) % 6000);
        if (random_next(&chance) % 50 == 0) limit_table_prune(&t, now_ms, SIZE_MAX);
        assert_int_equal(limit_count(&t, &ask, now_ms, &told, &quota), ERR_OK);
        if (h.count > 0)
            assert_true(told.stamp_ms + window_ms / 60 + 1 >= h.all[h.count - 1].stamp_ms);
        uint64_t at_ms = h.count > 0 && told.stamp_ms < h.all[h.count - 1].stamp_ms
                             ? h.all[h.count - 1].stamp_ms
                             : told.stamp_ms;
        if (back_ms == 0) assert_true(told.stamp_ms == now_ms);
        if (told.counted || back_ms == 0) judge(&h, &ask, &told, at_ms);
        refused += !told.counted;
        if (!told.counted) continue;
        if (random_next(&chance) % 8 == 0)
            limit_uncount(&t, &ask, &told);
        else
            h.all[h.count++] = (struct counted){.stamp_ms = at_ms, .amount = ask.amount};
    }
    assert_true(h.count > 500 && refused > 100);
    limit_table_fini(&t);
}

static void
in_no_window_is_more_let_through_and_none_is_stricter_by_more_than_a_sixtieth(void **state)
{
    (void)state;
    static const uint64_t windows[] = {1000, 1001, 7000, 60000, 61234, 3600000, 86400000};
    for (uint64_t seed = 1; seed <= 3; seed++)
        for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
            count_at_random(seed * 1234567, windows[i], 0);
}

static void a_clock_that_goes_back_lets_no_more_through(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        count_at_random(seed * 7654321, 1000, 40);
        count_at_random(seed * 7654321, 60000, 30000);
        count_at_random(seed * 7654321, 3600000, 10000000);
    }
}

/* ---- bounds ---- */

static void the_bound_itself_is_let_through_and_one_more_is_not(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 1000);
    limit_table_init(&t, 10);
    ask.count_max = 3;
    for (int i = 0; i < 3; i++) assert_true(count_at(&t, &ask, now_2026));
    assert_false(count_at(&t, &ask, now_2026));
    struct limit_request sum = ask_of(2, 1000);
    sum.has_max = true;
    sum.amount_max = 5000;
    sum.amount = 2500;
    assert_true(count_at(&t, &sum, now_2026));
    assert_true(count_at(&t, &sum, now_2026));
    sum.amount = 0;
    assert_true(count_at(&t, &sum, now_2026));
    sum.amount = 1;
    assert_false(count_at(&t, &sum, now_2026));
    limit_table_fini(&t);
}

static void an_amount_that_could_not_be_read_is_over(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 1000);
    limit_table_init(&t, 10);
    ask.has_max = true;
    ask.amount_max = INT64_MAX;
    ask.amount = -1;
    assert_false(count_at(&t, &ask, now_2026));
    ask.has_max = false;
    ask.count_max = 1;
    assert_true(count_at(&t, &ask, now_2026)); /* where no sum is bounded it does not matter */
    limit_table_fini(&t);
}

static void what_a_person_approved_is_counted_and_never_refused(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 1000);
    limit_table_init(&t, 10);
    ask.count_max = 1;
    ask.let_through = true;
    for (int i = 0; i < 5; i++) assert_true(count_at(&t, &ask, now_2026));
    ask.let_through = false;
    ask.count_max = 5;
    assert_false(count_at(&t, &ask, now_2026));
    ask.count_max = 6;
    assert_true(count_at(&t, &ask, now_2026));
    limit_table_fini(&t);
}

static void sums_that_overflow_are_over_and_stay_so_when_some_is_given_back(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 1000);
    struct limit_told first, second;
    limit_table_init(&t, 10);
    ask.has_max = ask.let_through = true;
    ask.amount = INT64_MAX - 10;
    assert_int_equal(limit_count(&t, &ask, now_2026, &first, &quota), ERR_OK);
    assert_int_equal(limit_count(&t, &ask, now_2026, &second, &quota), ERR_OK);
    assert_true(first.counted && second.counted);
    limit_uncount(&t, &ask, &second);
    ask.let_through = false;
    ask.amount_max = INT64_MAX - 1;
    ask.amount = 1;
    assert_false(count_at(&t, &ask, now_2026));
    ask.amount = 0;
    assert_false(count_at(&t, &ask, now_2026));
    assert_true(count_at(&t, &ask, now_2026 + 1100)); /* and is over when it is old */
    limit_table_fini(&t);
}

static bool has_room_at(struct limit_table *t, struct limit_request ask, uint64_t now_ms)
{
    ask.look_only = true;
    return count_at(t, &ask, now_ms);
}

static void a_look_says_what_counting_would_and_counts_nothing(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 60000);
    limit_table_init(&t, 1);
    ask.count_max = 2;
    ask.has_max = true;
    ask.amount_max = 10;
    ask.amount = 11;
    assert_false(has_room_at(&t, ask, now_2026));
    ask.amount = 5;
    for (int i = 0; i < 5; i++) assert_true(has_room_at(&t, ask, now_2026));
    assert_int_equal(t.by_key.count, 0);
    assert_true(count_at(&t, &ask, now_2026));
    for (int i = 0; i < 5; i++) assert_true(has_room_at(&t, ask, now_2026 + 100));
    ask.amount = 6;
    assert_false(has_room_at(&t, ask, now_2026 + 100));
    ask.amount = 5;
    assert_true(count_at(&t, &ask, now_2026 + 200));
    assert_false(has_room_at(&t, ask, now_2026 + 200));
    struct limit_request other = ask_of(2, 60000);
    other.count_max = 1;
    assert_true(has_room_at(&t, other, now_2026 + 200)); /* though the table is full */
    assert_true(has_room_at(&t, ask, now_2026 + 62000));
    limit_table_fini(&t);
}

static void counters_do_not_see_each_other(void **state)
{
    (void)state;
    struct limit_table t;
    limit_table_init(&t, 300);
    for (unsigned i = 0; i < 256; i++) {
        struct limit_request ask = ask_of((uint8_t)i, 60000);
        ask.count_max = i + 1;
        for (unsigned n = 0; n <= i; n++) assert_true(count_at(&t, &ask, now_2026));
        assert_false(count_at(&t, &ask, now_2026));
    }
    limit_table_fini(&t);
}

static void a_full_table_counts_nothing_for_a_newcomer_and_goes_on_for_the_others(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request first = ask_of(1, 1000), second = ask_of(2, 1000);
    struct limit_told told;
    first.count_max = second.count_max = 10;
    limit_table_init(&t, 1);
    assert_true(count_at(&t, &first, now_2026));
    assert_int_equal(limit_count(&t, &second, now_2026, &told, &quota), ERR_FULL);
    assert_true(count_at(&t, &first, now_2026));
    limit_table_prune(&t, now_2026 + 5000, SIZE_MAX);
    assert_true(count_at(&t, &second, now_2026 + 5000));
    limit_table_fini(&t);
}

static void what_is_recorded_is_taken_by_a_full_table(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request first = ask_of(1, 1000), second = ask_of(2, 1000), third = ask_of(3, 1000);
    struct limit_told told = {.counted = true, .stamp_ms = now_2026};
    first.count_max = second.count_max = third.count_max = 1;
    limit_table_init(&t, 1);
    assert_int_equal(limit_apply(&t, &first, &told), ERR_OK);
    assert_int_equal(limit_apply(&t, &second, &told), ERR_OK);
    assert_false(count_at(&t, &second, now_2026));
    assert_int_equal(limit_count(&t, &third, now_2026, &told, &quota), ERR_FULL);
    limit_table_fini(&t);
}

/* ---- giving back, forgetting ---- */

static void what_is_given_back_may_be_counted_again(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 60000);
    struct limit_told told;
    limit_table_init(&t, 10);
    ask.count_max = 2;
    ask.has_max = true;
    ask.amount_max = 100;
    ask.amount = 50;
    assert_true(count_at(&t, &ask, now_2026));
    assert_int_equal(limit_count(&t, &ask, now_2026 + 3000, &told, &quota), ERR_OK);
    assert_false(count_at(&t, &ask, now_2026 + 9000));
    limit_uncount(&t, &ask, &told);
    assert_true(count_at(&t, &ask, now_2026 + 9000));
    assert_false(count_at(&t, &ask, now_2026 + 9000));
    limit_table_fini(&t);
}

static void giving_back_an_amount_that_could_not_be_read_changes_no_sum(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 60000);
    struct limit_told told;
    limit_table_init(&t, 10);
    ask.has_max = true;
    ask.amount_max = ask.amount = 100;
    ask.let_through = true;
    assert_true(count_at(&t, &ask, now_2026));
    ask.amount = -1;
    assert_int_equal(limit_count(&t, &ask, now_2026, &told, &quota), ERR_OK);
    limit_uncount(&t, &ask, &told);
    ask.let_through = false;
    ask.amount = 0;
    assert_true(count_at(&t, &ask, now_2026));
    limit_table_fini(&t);
}

/* Records of other reactors are read in another order than that in which they were counted. */
static void a_record_from_before_counts_in_its_own_bucket(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 60000);
    uint64_t newest_ms = now_2026 - now_2026 % 1000;
    limit_table_init(&t, 10);
    ask.count_max = 3;
    struct limit_told told = {.counted = true, .stamp_ms = newest_ms};
    assert_int_equal(limit_apply(&t, &ask, &told), ERR_OK);
    told.stamp_ms = newest_ms - 60000; /* the oldest bucket that still counts */
    assert_int_equal(limit_apply(&t, &ask, &told), ERR_OK);
    told.stamp_ms = newest_ms - 60001; /* gone */
    assert_int_equal(limit_apply(&t, &ask, &told), ERR_OK);
    assert_true(count_at(&t, &ask, newest_ms));
    assert_false(count_at(&t, &ask, newest_ms + 999));
    assert_true(count_at(&t, &ask, newest_ms + 1000));
    limit_table_fini(&t);
}

static void many_requests_count_at_once_as_one_by_one(void **state)
{
    (void)state;
    const uint64_t newest_ms = now_2026 / 60000 * 60000 + 60000;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 60000), other = ask_of(2, 60000);
    struct limit_told told = {.counted = true, .stamp_ms = newest_ms - 30000};
    limit_table_init(&t, 10);
    assert_int_equal(limit_apply(&t, &ask, &told), ERR_OK);
    limit_count_more(&t, &ask, told.stamp_ms, 12);
    limit_count_more(&t, &ask, newest_ms - 120000, 5); /* of a bucket that is gone */
    limit_count_more(&t, &other, told.stamp_ms, 5);    /* nobody has counted there */
    ask.count_max = 15;
    assert_true(count_at(&t, &ask, newest_ms));
    assert_true(count_at(&t, &ask, newest_ms));
    assert_false(count_at(&t, &ask, newest_ms));
    assert_int_equal(t.counters.count, 1);
    /* More than a bucket counts are as many as it counts. */
    limit_count_more(&t, &ask, told.stamp_ms, UINT64_MAX);
    ask.count_max = (uint64_t)UINT32_MAX + 3;
    assert_true(count_at(&t, &ask, newest_ms));
    assert_false(count_at(&t, &ask, newest_ms));
    limit_table_fini(&t);
}

static void what_was_refused_or_is_long_gone_gives_nothing_back(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 60000);
    struct limit_told old, refused;
    limit_table_init(&t, 10);
    ask.count_max = 1;
    assert_int_equal(limit_count(&t, &ask, now_2026, &old, &quota), ERR_OK);
    assert_int_equal(limit_count(&t, &ask, now_2026, &refused, &quota), ERR_OK);
    assert_false(refused.counted);
    limit_uncount(&t, &ask, &refused);
    assert_false(count_at(&t, &ask, now_2026));
    /* 61 buckets later the old one's place is another's. */
    uint64_t later_ms = now_2026 + 61000;
    assert_true(limit_bucket(later_ms, ask.window_ms) % LIMIT_BUCKETS ==
                limit_bucket(now_2026, ask.window_ms) % LIMIT_BUCKETS);
    assert_true(count_at(&t, &ask, later_ms));
    limit_uncount(&t, &ask, &old);
    assert_false(count_at(&t, &ask, later_ms));
    limit_table_fini(&t);
}

static void a_counter_is_dropped_when_a_whole_window_has_passed_over_it_and_not_before(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 60000);
    limit_table_init(&t, 10);
    ask.count_max = 5;
    assert_true(limit_table_next_ms(&t) == UINT64_MAX);
    count_at(&t, &ask, now_2026);
    limit_table_prune(&t, now_2026 + 60000, SIZE_MAX);
    assert_int_equal(t.by_key.count, 1);
    count_at(&t, &ask, now_2026 + 60000);
    limit_table_prune(&t, now_2026 + 120000, SIZE_MAX);
    assert_int_equal(t.by_key.count, 1);
    limit_table_prune(&t, now_2026 + 120000 + 2100, SIZE_MAX);
    assert_int_equal(t.by_key.count, 0);
    assert_int_equal(t.counters.count, 0);
    assert_true(limit_table_next_ms(&t) == UINT64_MAX);
    limit_table_fini(&t);
}

static void counters_that_end_together_are_dropped_a_few_at_a_time(void **state)
{
    (void)state;
    struct limit_table t;
    limit_table_init(&t, 20);
    for (uint8_t i = 0; i < 20; i++) {
        struct limit_request ask = ask_of(i, 60000);
        count_at(&t, &ask, now_2026);
    }
    for (size_t left = 20; left > 0; left -= left < 7 ? left : 7) {
        assert_int_equal(t.by_key.count, left);
        assert_true(limit_table_next_ms(&t) <= now_2026 + 70000);
        assert_true(limit_table_prune(&t, now_2026 + 70000, 7));
    }
    assert_int_equal(t.by_key.count, 0);
    assert_false(limit_table_prune(&t, now_2026 + 70000, 7));
    limit_table_fini(&t);
}

/* By the clock of who let time pass the counter was over; by the one that asks now it would not be.
 */
static void a_dropped_counter_is_not_counted_anew_in_the_time_before(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 60000);
    struct limit_told told;
    uint64_t dropped_ms = now_2026 + 63000;
    ask.count_max = 1;
    limit_table_init(&t, 10);
    assert_true(count_at(&t, &ask, now_2026));
    assert_true(limit_table_prune(&t, dropped_ms, SIZE_MAX));
    assert_int_equal(limit_count(&t, &ask, now_2026 + 10, &told, &quota), ERR_OK);
    assert_true(told.counted && told.stamp_ms >= dropped_ms);
    assert_false(count_at(&t, &ask, dropped_ms + 59000));
    limit_table_fini(&t);
}

/* Most limits bound a count only. */
static void a_counter_without_amounts_takes_no_memory_for_sums(void **state)
{
    (void)state;
    struct limit_table t;
    struct limit_request ask = ask_of(1, 60000);
    limit_table_init(&t, 10);
    ask.count_max = 5;
    count_at(&t, &ask, now_2026);
    assert_int_equal(t.sums.count, 0);
    assert_true(sizeof(struct counter) <= 384);
    assert_true(sizeof(struct counter) + LIMIT_BUCKETS * sizeof(int64_t) <=
                896); /* and the index: under 1 KB */
    ask.amount = 3;
    count_at(&t, &ask, now_2026);
    assert_int_equal(t.sums.count, 1);
    limit_table_prune(&t, now_2026 + 600000, SIZE_MAX);
    assert_int_equal(t.sums.count, 0);
    limit_table_fini(&t);
}

/* ---- through the shard: calls, records, snapshots ---- */

static struct call *limit_call(struct scene *s, enum call_kind kind,
                               const struct limit_request *ask)
{
    struct call *c = scene_call(s, kind, STR("fleet"));
    c->slot = (uint16_t)slot_of_key(ask->key);
    c->limit.ask = *ask;
    return c;
}

/* As origin does it: counted, then in the decision's record, which anybody journals. */
static bool shard_counts(struct scene *s, const struct limit_request *ask, struct limit_told *ret)
{
    char bytes[256];
    struct buf delta = buf_over(bytes, sizeof bytes);
    struct call *c = limit_call(s, CALL_COUNT, ask);
    scene_ask(s, c);
    assert_int_equal(c->err, ERR_OK);
    assert_true(c->answered);
    *ret = c->limit.told;
    if (!ret->counted) return false;
    delta_put_counted(&delta, ask, ret);
    assert_false(delta.overflow);
    scene_apply(s->twin, STR("{}"), buf_view(&delta));
    return true;
}

static void records_alone_rebuild_every_counter(void **state)
{
    struct scene *s = *state;
    uint64_t chance = 42;
    for (int step = 0; step < 1500; step++) {
        struct limit_request ask = ask_of((uint8_t)(random_next(&chance) % 50), 60000);
        struct limit_told told;
        ask.key.bytes[3] = 9;
        ask.count_max = 10;
        ask.has_max = ask.key.bytes[0] % 2 == 0;
        ask.amount_max = 10000;
        ask.amount = ask.has_max ? (int64_t)(random_next(&chance) % 2000) : 0;
        shard_counts(s, &ask, &told);
        if (step % 3 == 0) { /* counted, and no record came of it */
            struct call *c = limit_call(s, CALL_COUNT, &ask);
            scene_ask(s, c);
            if (c->limit.told.counted) {
                struct call *back = limit_call(s, CALL_UNCOUNT, &ask);
                back->limit.told = c->limit.told;
                scene_ask(s, back);
            }
        }
        s->now_ms += random_next(&chance) % 20;
    }
    assert_int_equal(s->record_count, 0);
    assert_true(scene_compare(s->shard, s->twin) > 40);
}

static void a_loaded_counter_refuses_what_the_saved_one_would(void **state)
{
    struct scene *s = *state;
    struct limit_request ask = ask_of(5, 60000);
    struct limit_told told;
    struct scene_saved saved;
    struct fault f;
    ask.count_max = 4;
    ask.has_max = true;
    ask.amount_max = 100;
    ask.amount = 20;
    for (int i = 0; i < 3; i++) {
        assert_true(shard_counts(s, &ask, &told));
        s->now_ms += 5000;
    }
    scene_save(s->shard, &saved);
    assert_int_equal(saved.count, 1);
    scene_restart(s, &(struct shard_options){.count = 1});
    for (size_t i = 0; i < saved.count; i++)
        assert_int_equal(shard_load(s->shard, saved.entries[i], &f), ERR_OK);
    assert_int_equal(shard_load(s->shard, saved.entries[0], &f), ERR_CORRUPT); /* twice */
    char other[1024];
    memcpy(other, saved.entries[0].bytes, saved.entries[0].size);
    other[1] ^= 1; /* in another slot than its own */
    struct shard *empty = shard_create(&(struct shard_options){.count = 1});
    assert_int_equal(shard_load(empty, str_of(other, saved.entries[0].size), &f), ERR_CORRUPT);
    shard_destroy(empty);
    ask.amount = 41;
    assert_false(shard_counts(s, &ask, &told));
    ask.amount = 40;
    assert_true(shard_counts(s, &ask, &told));
    ask.amount = 0;
    assert_false(shard_counts(s, &ask, &told));
    s->now_ms += 47000; /* the first of them is older than a window */
    assert_true(shard_counts(s, &ask, &told));
    assert_false(shard_counts(s, &ask, &told));
    scene_saved_drop(&saved);
}

static void a_damaged_saved_counter_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct limit_table from, to;
    struct limit_request ask = ask_of(5, 60000);
    char bytes[1024];
    struct buf out = buf_over(bytes, sizeof bytes);
    size_t cursor = 0, refused = 0;
    ask.count_max = 400;
    ask.amount = 1000;
    limit_table_init(&from, 10);
    limit_table_init(&to, 10);
    for (unsigned i = 0; i < 100; i++) count_at(&from, &ask, now_2026 + UINT64_C(700) * i);
    counter_put(&from, limit_table_next(&from, &cursor, NULL), &out);
    assert_false(out.overflow);
    for (size_t size = 0; size < out.size;
         size++) /* cut short: within a bucket, or with fewer of them */
        if ((size - SLOT_KEY_BYTES - 16) % 13 != 0 || size < SLOT_KEY_BYTES + 16)
            assert_int_equal(counter_load(&to, str_of(bytes, size)), ERR_CORRUPT);
    for (size_t at = SLOT_KEY_BYTES; at < out.size; at++) {
        bytes[at] = (char)(bytes[at] ^ 0x80);
        enum err err = counter_load(&to, buf_view(&out));
        refused += err == ERR_CORRUPT;
        if (err == ERR_OK) limit_table_prune(&to, UINT64_MAX / 2, SIZE_MAX);
        assert_int_equal(to.by_key.count, 0);
        assert_int_equal(to.sums.count, 0);
        bytes[at] = (char)(bytes[at] ^ 0x80);
    }
    assert_true(refused >
                120); /* how far behind, and signs of sums, of each bucket; window and head */
    assert_int_equal(counter_load(&to, buf_view(&out)), ERR_OK);
    limit_table_fini(&from);
    limit_table_fini(&to);
}

static void a_saved_counter_of_no_time_is_refused(void **state)
{
    (void)state;
    struct limit_table t;
    char bytes[SLOT_KEY_BYTES + 16 + 13] = {0};
    char *window = bytes + SLOT_KEY_BYTES, *head = window + 8, *back = head + 8;
    limit_table_init(&t, 10);
    *head = 4;
    *back = 4;
    /* its window has no length */
    assert_int_equal(counter_load(&t, str_of(bytes, sizeof bytes)), ERR_CORRUPT);
    window[1] = 1;
    *back = 5; /* before the first bucket of all */
    assert_int_equal(counter_load(&t, str_of(bytes, sizeof bytes)), ERR_CORRUPT);
    *back = 4;
    assert_int_equal(counter_load(&t, str_of(bytes, sizeof bytes)), ERR_OK);
    limit_table_fini(&t);
}

static void a_saved_counter_that_names_a_bucket_twice_is_refused(void **state)
{
    (void)state;
    struct limit_table t;
    char bytes[SLOT_KEY_BYTES + 16 + 2 * 13] = {0};
    limit_table_init(&t, 10);
    bytes[SLOT_KEY_BYTES + 1] = bytes[SLOT_KEY_BYTES + 9] = 1;        /* window and head: 256 */
    bytes[SLOT_KEY_BYTES + 16] = bytes[SLOT_KEY_BYTES + 16 + 13] = 5; /* how far behind head */
    assert_int_equal(counter_load(&t, str_of(bytes, sizeof bytes)), ERR_CORRUPT);
    bytes[SLOT_KEY_BYTES + 16 + 13] = 4;
    assert_int_equal(counter_load(&t, str_of(bytes, sizeof bytes)), ERR_OK);
    limit_table_fini(&t);
}

/* Whose count is in the oldest of its buckets, too: an engine that is rebuilt from records knows of no
 * refusals, and what it saves is held against what is in Redis. */
static void counters_that_were_counted_alike_are_saved_alike_whatever_they_refused(void **state)
{
    (void)state;
    for (uint64_t back = 0; back < LIMIT_BUCKETS; back++) {
        struct limit_table tables[2];
        char bytes[2][4096];
        struct buf saved[2];
        struct limit_request ask = ask_of(7, 60000);
        ask.count_max = 1;
        for (unsigned i = 0; i < 2; i++) {
            size_t cursor = 0;
            limit_table_init(&tables[i], 10);
            assert_true(count_at(&tables[i], &ask, now_2026));
            uint64_t later = limit_bucket(now_2026, ask.window_ms) + back;
            if (i == 1)
                assert_false(count_at(&tables[i], &ask,
                                      limit_bucket_begin_ms(later + 1, ask.window_ms) - 1));
            saved[i] = buf_over(bytes[i], sizeof bytes[i]);
            counter_put(&tables[i], limit_table_next(&tables[i], &cursor, NULL), &saved[i]);
            limit_table_fini(&tables[i]);
        }
        assert_true(str_equal(buf_view(&saved[0]), buf_view(&saved[1])));
    }
}

static void a_counter_that_holds_nothing_is_not_saved(void **state)
{
    struct scene *s = *state;
    struct scene_saved saved;
    struct limit_request ask = ask_of(5, 60000);
    ask.count_max = 4;
    struct call *c = limit_call(s, CALL_COUNT, &ask), *back = limit_call(s, CALL_UNCOUNT, &ask);
    scene_ask(s, c);
    back->limit.told = c->limit.told;
    scene_ask(s, back);
    scene_save(s->shard, &saved);
    assert_int_equal(saved.count, 0);
    scene_saved_drop(&saved);
}

static void ticks_let_idle_counters_go(void **state)
{
    struct scene *s = *state;
    struct shard_totals totals;
    struct limit_told told;
    struct limit_request ask = ask_of(5, 60000);
    ask.count_max = 4;
    shard_counts(s, &ask, &told);
    shard_totals(s->shard, &totals);
    assert_int_equal(totals.counters, 1);
    scene_tick(s, 1000);
    assert_true(s->next_ms > s->now_ms && s->next_ms <= s->now_ms + 62000);
    scene_tick(s, 62000);
    shard_totals(s->shard, &totals);
    assert_int_equal(totals.counters, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_begins_where_the_one_before_it_ends),
        cmocka_unit_test(
            in_no_window_is_more_let_through_and_none_is_stricter_by_more_than_a_sixtieth),
        cmocka_unit_test(a_clock_that_goes_back_lets_no_more_through),
        cmocka_unit_test(the_bound_itself_is_let_through_and_one_more_is_not),
        cmocka_unit_test(an_amount_that_could_not_be_read_is_over),
        cmocka_unit_test(what_a_person_approved_is_counted_and_never_refused),
        cmocka_unit_test(sums_that_overflow_are_over_and_stay_so_when_some_is_given_back),
        cmocka_unit_test(a_look_says_what_counting_would_and_counts_nothing),
        cmocka_unit_test(counters_do_not_see_each_other),
        cmocka_unit_test(a_full_table_counts_nothing_for_a_newcomer_and_goes_on_for_the_others),
        cmocka_unit_test(what_is_recorded_is_taken_by_a_full_table),
        cmocka_unit_test(what_is_given_back_may_be_counted_again),
        cmocka_unit_test(giving_back_an_amount_that_could_not_be_read_changes_no_sum),
        cmocka_unit_test(a_record_from_before_counts_in_its_own_bucket),
        cmocka_unit_test(what_was_refused_or_is_long_gone_gives_nothing_back),
        cmocka_unit_test(
            a_counter_is_dropped_when_a_whole_window_has_passed_over_it_and_not_before),
        cmocka_unit_test(counters_that_end_together_are_dropped_a_few_at_a_time),
        cmocka_unit_test(many_requests_count_at_once_as_one_by_one),
        cmocka_unit_test(a_dropped_counter_is_not_counted_anew_in_the_time_before),
        cmocka_unit_test(a_counter_without_amounts_takes_no_memory_for_sums),
        scene_test(records_alone_rebuild_every_counter),
        scene_test(a_loaded_counter_refuses_what_the_saved_one_would),
        cmocka_unit_test(counters_that_were_counted_alike_are_saved_alike_whatever_they_refused),
        cmocka_unit_test(a_damaged_saved_counter_is_refused_and_changes_nothing),
        cmocka_unit_test(a_saved_counter_that_names_a_bucket_twice_is_refused),
        cmocka_unit_test(a_saved_counter_of_no_time_is_refused),
        scene_test(a_counter_that_holds_nothing_is_not_saved),
        scene_test(ticks_let_idle_counters_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
