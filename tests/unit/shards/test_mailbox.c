/* Calls change hands: none is lost, none comes twice, and those of one pair keep their order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shards/mailbox.h"

enum { MANY = 3000 }; /* more than a ring has places for */

static struct call *calls_make(size_t count)
{
    struct call *all = calloc(count, sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < count; i++) all[i].now_ms = i;
    return all;
}

static void note_ring(void *context, unsigned peer)
{
    unsigned *rung = context;
    rung[peer]++;
}

static void what_was_sent_is_taken_once_and_in_order(void **state)
{
    (void)state;
    struct post *p = post_create(2);
    struct call *calls = calls_make(10);
    unsigned rung[2] = {0};
    bool more = true;
    for (int i = 0; i < 10; i++) mailbox_send(p, 0, 1, &calls[i]);
    assert_false(mailbox_flush(p, 0, note_ring, rung));
    assert_int_equal(mailbox_depth(p, 1), 10);
    for (int i = 0; i < 10; i++) assert_ptr_equal(mailbox_take(p, 1, &more), &calls[i]);
    assert_null(mailbox_take(p, 1, &more));
    assert_false(more);
    assert_int_equal(mailbox_depth(p, 1), 0);
    post_destroy(p);
    free(calls);
}

static void each_peer_is_rung_once_a_flush_and_only_with_news(void **state)
{
    (void)state;
    struct post *p = post_create(4);
    struct call *calls = calls_make(6);
    unsigned rung[4] = {0};
    for (int i = 0; i < 5; i++) mailbox_send(p, 0, 1, &calls[i]);
    mailbox_send(p, 0, 3, &calls[5]);
    mailbox_flush(p, 0, note_ring, rung);
    assert_int_equal(rung[1], 1);
    assert_int_equal(rung[3], 1);
    assert_int_equal(rung[0] + rung[2], 0);
    mailbox_flush(p, 0, note_ring, rung);
    assert_int_equal(rung[1] + rung[3], 2);
    post_destroy(p);
    free(calls);
}

static void one_turn_takes_so_many_from_a_peer_and_says_that_there_is_more(void **state)
{
    (void)state;
    struct post *p = post_create(3);
    struct call *calls = calls_make(MAILBOX_TAKE + 3);
    unsigned rung[3] = {0};
    bool more = false;
    int taken = 0;
    for (int i = 0; i < MAILBOX_TAKE + 2; i++) mailbox_send(p, 0, 2, &calls[i]);
    calls[MAILBOX_TAKE + 2].origin = 1;
    mailbox_send(p, 1, 2, &calls[MAILBOX_TAKE + 2]); /* another peer's turn comes all the same */
    mailbox_flush(p, 0, note_ring, rung);
    mailbox_flush(p, 1, note_ring, rung);
    while (mailbox_take(p, 2, &more) != NULL) taken++;
    assert_int_equal(taken, MAILBOX_TAKE + 1);
    assert_true(more);
    while (mailbox_take(p, 2, &more) != NULL) taken++;
    assert_int_equal(taken, MAILBOX_TAKE + 3);
    assert_false(more);
    post_destroy(p);
    free(calls);
}

static void sending_never_fails_and_a_full_ring_fills_up_again(void **state)
{
    (void)state;
    struct post *p = post_create(2);
    struct call *calls = calls_make(MANY);
    unsigned rung[2] = {0};
    size_t taken = 0;
    unsigned flushes = 0;
    bool more, left;
    for (int i = 0; i < MANY; i++) mailbox_send(p, 1, 0, &calls[i]);
    assert_int_equal(mailbox_depth(p, 0), MAILBOX_PLACES);
    do {
        left = mailbox_flush(p, 1, note_ring, rung);
        assert_int_equal(rung[0], left ? ++flushes : rung[0]); /* each moved some from the outbox */
        for (struct call *c; (c = mailbox_take(p, 0, &more)) != NULL; taken++)
            assert_ptr_equal(c, &calls[taken]);
    } while (left || more);
    assert_int_equal(taken, MANY);
    assert_false(mailbox_flush(p, 1, note_ring, rung));
    post_destroy(p);
    free(calls);
}

static void what_is_sent_behind_an_outbox_does_not_overtake_it(void **state)
{
    (void)state;
    struct post *p = post_create(2);
    struct call *calls = calls_make(MAILBOX_PLACES + 2);
    unsigned rung[2] = {0};
    bool more;
    /* the last is in the outbox */
    for (int i = 0; i <= MAILBOX_PLACES; i++) mailbox_send(p, 0, 1, &calls[i]);
    for (int i = 0; i < 4; i++) assert_ptr_equal(mailbox_take(p, 1, &more), &calls[i]);
    mailbox_send(p, 0, 1, &calls[MAILBOX_PLACES + 1]); /* the ring has places now */
    mailbox_flush(p, 0, note_ring, rung);
    size_t next = 4;
    do
        for (struct call *c; (c = mailbox_take(p, 1, &more)) != NULL; next++)
            assert_ptr_equal(c, &calls[next]);
    while (more);
    assert_int_equal(next, MAILBOX_PLACES + 2);
    post_destroy(p);
    free(calls);
}

/* ---- four threads, each asking and answering ---- */

enum { THREADS = 4, PER_THREAD = 6000, AWAY_MOST = 2500 }; /* away: so that outboxes are needed */

struct town {
    struct post *post;
    sem_t wakeups[THREADS];
    _Atomic unsigned done;
};

struct citizen {
    struct town *town;
    unsigned index;
    struct call *calls;
    uint64_t origin; /* how many of its own came back to the origin */
    /* of each peer's calls, one more than the newest's number */
    uint64_t last_seen[THREADS];
};

static void ring_citizen(void *context, unsigned peer)
{
    sem_post(&((struct town *)context)->wakeups[peer]);
}

static void answer_or_count(struct citizen *me, struct call *c)
{
    if (c->origin == me->index) {
        assert_int_equal(c->block, c->now_ms * 3 + c->to);
        assert_true(c->answered);
        me->origin++;
        return;
    }
    assert_true(c->now_ms >= me->last_seen[c->origin]); /* in order */
    me->last_seen[c->origin] = c->now_ms + 1;
    c->block = c->now_ms * 3 + me->index;
    c->answered = true;
    mailbox_send(me->town->post, me->index, c->origin, c);
}

static void *live(void *argument)
{
    struct citizen *me = argument;
    struct town *town = me->town;
    uint64_t sent = 0;
    bool counted = false, more, left;
    while (atomic_load(&town->done) < THREADS) {
        for (int i = 0; i < 700 && sent < PER_THREAD && sent - me->origin < AWAY_MOST;
             i++, sent++) {
            struct call *c = &me->calls[sent];
            c->now_ms = sent;
            c->origin = (uint16_t)me->index;
            c->to = (uint16_t)((me->index + 1 + sent % (THREADS - 1)) % THREADS);
            mailbox_send(town->post, me->index, c->to, c);
        }
        for (struct call *c; (c = mailbox_take(town->post, me->index, &more)) != NULL;)
            answer_or_count(me, c);
        left = mailbox_flush(town->post, me->index, ring_citizen, town);
        if (!counted && me->origin == PER_THREAD) {
            counted = true;
            if (atomic_fetch_add(&town->done, 1) + 1 == THREADS)
                for (unsigned i = 0; i < THREADS; i++) sem_post(&town->wakeups[i]);
        }
        bool idle = sent == PER_THREAD || sent - me->origin >= AWAY_MOST;
        if (idle && !more && !left && atomic_load(&town->done) < THREADS)
            sem_wait(&town->wakeups[me->index]);
    }
    return NULL;
}

static void four_threads_lose_nothing_and_sleep_through_nothing(void **state)
{
    (void)state;
    struct town town = {.post = post_create(THREADS)};
    struct citizen all[THREADS];
    pthread_t threads[THREADS];
    memset(all, 0, sizeof all);
    for (unsigned i = 0; i < THREADS; i++) sem_init(&town.wakeups[i], 0, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        all[i].town = &town;
        all[i].index = i;
        all[i].calls = calls_make(PER_THREAD);
        assert_int_equal(pthread_create(&threads[i], NULL, live, &all[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(all[i].origin, PER_THREAD);
        assert_int_equal(mailbox_depth(town.post, i), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        free(all[i].calls);
        sem_destroy(&town.wakeups[i]);
    }
    post_destroy(town.post);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_sent_is_taken_once_and_in_order),
        cmocka_unit_test(each_peer_is_rung_once_a_flush_and_only_with_news),
        cmocka_unit_test(one_turn_takes_so_many_from_a_peer_and_says_that_there_is_more),
        cmocka_unit_test(sending_never_fails_and_a_full_ring_fills_up_again),
        cmocka_unit_test(what_is_sent_behind_an_outbox_does_not_overtake_it),
        cmocka_unit_test(four_threads_lose_nothing_and_sleep_through_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
