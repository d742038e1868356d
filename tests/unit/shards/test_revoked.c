/* What was revoked is known to every reader before its next request, and for as long as it
 * matters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "shards/revoked.h"

enum { NOW = 1000000000 };

/* Ids are chance; these are as scattered, and known again. */
static struct id token_id(uint64_t number)
{
    struct id id = {{0}};
    number *= UINT64_C(0x9e3779b97f4a7c15);
    number ^= number >> 32;
    memcpy(id.bytes + ID_BYTES - sizeof number, &number, sizeof number);
    return id;
}

static uint64_t revoke(struct revoked_log *l, uint64_t number, uint64_t expires_ms)
{
    struct effect_notice n = {.kind = NOTICE_TOKEN_REVOKED,
                              .token = token_id(number),
                              .expires_ms = expires_ms,
                              .at_ms = NOW};
    return revoked_log_append(l, &n);
}

static uint64_t notify(struct revoked_log *l, enum notice_kind kind, const char *tenant,
                       const char *actor, uint64_t at_ms)
{
    struct effect_notice n = {
        .kind = kind, .tenant = str_from(tenant), .actor = str_from(actor), .at_ms = at_ms};
    return revoked_log_append(l, &n);
}

struct scene {
    struct revoked_log *log;
    struct revoked_view *views[2];
};

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    s->log = revoked_log_create(2);
    for (unsigned i = 0; i < 2; i++) s->views[i] = revoked_view_create(s->log, i);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    for (unsigned i = 0; i < 2; i++) revoked_view_destroy(s->views[i]);
    revoked_log_destroy(s->log);
    free(s);
    return 0;
}

static void a_revocation_is_seen_when_every_reader_has_taken_it(void **state)
{
    struct scene *s = *state;
    uint64_t first = revoke(s->log, 7, NOW + 500), second = revoke(s->log, 8, NOW + 500);
    assert_int_equal(first, 1);
    assert_int_equal(second, 2);
    assert_false(revoked_view_token(s->views[0], token_id(7)));
    assert_true(revoked_view_take(s->views[0], NOW));
    assert_true(revoked_view_token(s->views[0], token_id(7)));
    assert_false(revoked_log_seen(s->log, 1));
    assert_true(revoked_view_take(s->views[1], NOW));
    assert_true(revoked_log_seen(s->log, 2));
    assert_true(revoked_view_token(s->views[1], token_id(8)));
    assert_false(revoked_view_token(s->views[1], token_id(9)));
    assert_false(revoked_view_take(s->views[1], NOW)); /* nothing is new */
    assert_false(revoked_log_seen(s->log, 3));
}

static void a_token_is_forgotten_no_earlier_than_it_expires(void **state)
{
    struct scene *s = *state;
    revoke(s->log, 1, NOW + 1000000);
    revoke(s->log, 2, NOW); /* nobody takes it any more */
    for (uint64_t i = 0; i < 20000; i++) revoke(s->log, 100 + i, NOW + 10);
    revoked_view_take(s->views[0], NOW);
    assert_true(revoked_view_token(s->views[0], token_id(1)));
    assert_false(revoked_view_token(s->views[0], token_id(2)));
    for (uint64_t i = 0; i < 20000; i++)
        assert_true(revoked_view_token(s->views[0], token_id(100 + i)));
    for (uint64_t i = 0; i < 60000; i++) revoke(s->log, 50000 + i, NOW + 1000);
    revoked_view_take(s->views[0], NOW + 20); /* the table grows, and what is over goes */
    assert_true(revoked_view_token(s->views[0], token_id(1)));
    for (uint64_t i = 0; i < 60000; i++)
        assert_true(revoked_view_token(s->views[0], token_id(50000 + i)));
    assert_false(revoked_view_token(s->views[0], token_id(100)));
}

static void a_suspended_actor_is_one_of_its_tenant(void **state)
{
    struct scene *s = *state;
    uint64_t before;
    notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", "bot", NOW);
    revoked_view_take(s->views[0], NOW);
    assert_true(revoked_view_actor(s->views[0], STR("acme"), STR("bot"), &before));
    assert_int_equal(before, NOW);
    assert_false(revoked_view_actor(s->views[0], STR("acm"), STR("ebot"), &before));
    assert_int_equal(before, 0);
    assert_false(revoked_view_actor(s->views[0], STR("other"), STR("bot"), &before));
}

static void who_is_suspended_is_so_in_every_spelling_until_all_that_were_are_resumed(void **state)
{
    struct scene *s = *state;
    static const char *const spellings[] = {"bot \u00e9", "BOT \u00c9", "bot  e\u0301",
                                            "bot\u00a0\u00e9"};
    struct revoked_view *v = s->views[0];
    uint64_t dead;
    notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", spellings[0], NOW);
    notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", "Bot", NOW);
    revoked_view_take(v, NOW);
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        assert_true(revoked_view_actor(v, STR("acme"), str_from(spellings[i]), &dead));
    assert_true(revoked_view_actor(v, STR("acme"), STR("bOT"), &dead));
    assert_false(revoked_view_actor(v, STR("acme"), STR("bot e"), &dead));
    assert_false(revoked_view_actor(v, STR("other"), STR("bot"), &dead));
    notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", "BOT", NOW + 1);
    notify(s->log, NOTICE_ACTOR_RESUMED, "acme", "Bot", NOW + 2);
    revoked_view_take(v, NOW + 2);
    assert_true(revoked_view_actor(v, STR("acme"), STR("Bot"), &dead));
    notify(s->log, NOTICE_ACTOR_RESUMED, "acme", "BOT", NOW + 1);
    revoked_view_take(v, NOW + 2);
    assert_false(revoked_view_actor(v, STR("acme"), STR("bot"), &dead));
    assert_int_equal(dead, NOW + 2); /* tokens of every spelling */
}

/* No character is more bytes when it is folded than this one, a whole sentence. */
static void the_longest_name_that_unfolds_the_most_is_suspended_as_any_other(void **state)
{
    struct scene *s = *state;
    char name[3 * LIMIT_ID_CHARACTERS + 1] = "", shorter[sizeof name];
    uint64_t dead;
    for (unsigned i = 0; i < LIMIT_ID_CHARACTERS; i++) memcpy(name + 3 * i, "\ufdfa", 3);
    snprintf(shorter, sizeof shorter, "%s", name + 3);
    notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", name, NOW);
    revoked_view_take(s->views[0], NOW);
    assert_true(revoked_view_actor(s->views[0], STR("acme"), str_from(name), &dead));
    assert_false(revoked_view_actor(s->views[0], STR("acme"), str_from(shorter), &dead));
}

static void a_resumed_actor_goes_on_without_its_older_tokens(void **state)
{
    struct scene *s = *state;
    uint64_t before;
    notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", "bot", NOW);
    notify(s->log, NOTICE_ACTOR_RESUMED, "acme", "bot", NOW + 50);
    revoked_view_take(s->views[0], NOW + 60);
    assert_false(revoked_view_actor(s->views[0], STR("acme"), STR("bot"), &before));
    /* as of the resume: until all had heard of the suspension, one could mint */
    assert_int_equal(before, NOW + 50);
    notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", "bot", NOW + 100);
    revoked_view_take(s->views[0], NOW + 110);
    assert_true(revoked_view_actor(s->views[0], STR("acme"), STR("bot"), &before));
    assert_int_equal(before, NOW + 100);
    /* by a clock that was set back */
    notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", "bot", NOW + 40);
    revoked_view_take(s->views[0], NOW + 120);
    assert_true(revoked_view_actor(s->views[0], STR("acme"), STR("bot"), &before));
    assert_int_equal(before, NOW + 100);
}

static void a_resume_of_before_this_process_says_when_the_suspension_was(void **state)
{
    struct scene *s = *state;
    uint64_t before;
    notify(s->log, NOTICE_ACTOR_RESUMED, "acme", "bot", NOW - 700);
    revoked_view_take(s->views[0], NOW);
    assert_false(revoked_view_actor(s->views[0], STR("acme"), STR("bot"), &before));
    assert_int_equal(before, NOW - 700);
}

static void many_actors_come_and_go_and_the_suspended_stay(void **state)
{
    struct scene *s = *state;
    enum { COUNT = 3000, HOUR_MS = 3600 * 1000, DAYS_MS = 3 * 86400 * 1000 };
    char name[32];
    uint64_t before;
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "bot-%d", i);
        notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", name, NOW);
        if (i % 3 != 0) notify(s->log, NOTICE_ACTOR_RESUMED, "acme", name, NOW + 1);
    }
    revoked_view_take(s->views[0], NOW);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "bot-%d", i);
        assert_int_equal(revoked_view_actor(s->views[0], STR("acme"), str_from(name), &before),
                         i % 3 == 0);
        assert_int_equal(before, i % 3 == 0 ? NOW : NOW + 1);
    }
    /* an hour later the table is made anew, and older tokens stay dead */
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "other-%d", i);
        notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", name, NOW + HOUR_MS);
    }
    revoked_view_take(s->views[0], NOW + HOUR_MS);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "bot-%d", i);
        assert_int_equal(revoked_view_actor(s->views[0], STR("acme"), str_from(name), &before),
                         i % 3 == 0);
        assert_int_equal(before, i % 3 == 0 ? NOW : NOW + 1);
    }
    /* and so it is days later, when it is made anew once more */
    for (int i = 0; i < 3 * COUNT; i++) {
        snprintf(name, sizeof name, "new-%d", i);
        notify(s->log, NOTICE_ACTOR_SUSPENDED, "acme", name, NOW + DAYS_MS);
    }
    revoked_view_take(s->views[0], NOW + (uint64_t)DAYS_MS);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "bot-%d", i);
        assert_int_equal(revoked_view_actor(s->views[0], STR("acme"), str_from(name), &before),
                         i % 3 == 0);
    }
}

/* ---- four threads: each revokes, each reads ---- */

enum { THREADS = 4, EACH = 2000 };

struct crowd {
    struct revoked_log *log;
    _Atomic unsigned finished;
    _Atomic uint64_t seen[THREADS]; /* of each thread's own numbers, how many all have seen */
};

struct reader {
    struct crowd *crowd;
    unsigned index;
    struct revoked_view *view;
};

static uint64_t number_of(unsigned index, uint64_t i) { return ((uint64_t)index + 1) << 32 | i; }

/* As a worker does: takes what is new, and then nobody's seen revocation may be unknown to it. */
static void turn(struct reader *r)
{
    uint64_t seen[THREADS];
    for (unsigned i = 0; i < THREADS; i++) seen[i] = atomic_load(&r->crowd->seen[i]);
    revoked_view_take(r->view, NOW);
    for (unsigned i = 0; i < THREADS; i++)
        if (seen[i] > 0)
            assert_true(revoked_view_token(r->view, token_id(number_of(i, seen[i] - 1))));
}

static void *read_and_revoke(void *argument)
{
    struct reader *r = argument;
    struct crowd *crowd = r->crowd;
    r->view = revoked_view_create(crowd->log, r->index);
    for (uint64_t i = 0; i < EACH; i++) {
        uint64_t place = revoke(crowd->log, number_of(r->index, i), NOW + 1000);
        if (i % 16 == 0) {
            while (!revoked_log_seen(crowd->log, place)) {
                turn(r);
                sched_yield();
            }
            atomic_store(&crowd->seen[r->index], i + 1);
        }
        turn(r);
    }
    atomic_fetch_add(&crowd->finished, 1);
    while (atomic_load(&crowd->finished) < THREADS) {
        turn(r);
        sched_yield();
    }
    turn(r);
    for (unsigned i = 0; i < THREADS; i++)
        for (uint64_t k = 0; k < EACH; k++)
            assert_true(revoked_view_token(r->view, token_id(number_of(i, k))));
    revoked_view_destroy(r->view);
    return NULL;
}

static void what_all_have_seen_is_unknown_to_nobody(void **state)
{
    (void)state;
    struct crowd crowd = {.log = revoked_log_create(THREADS)};
    struct reader readers[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        readers[i] = (struct reader){.crowd = &crowd, .index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, read_and_revoke, &readers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_true(revoked_log_seen(crowd.log, (uint64_t)THREADS * EACH));
    revoked_log_destroy(crowd.log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_revocation_is_seen_when_every_reader_has_taken_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_token_is_forgotten_no_earlier_than_it_expires, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_suspended_actor_is_one_of_its_tenant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            who_is_suspended_is_so_in_every_spelling_until_all_that_were_are_resumed, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            the_longest_name_that_unfolds_the_most_is_suspended_as_any_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_resumed_actor_goes_on_without_its_older_tokens, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_resume_of_before_this_process_says_when_the_suspension_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_actors_come_and_go_and_the_suspended_stay, set_up,
                                        tear_down),
        cmocka_unit_test(what_all_have_seen_is_unknown_to_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
