/* Who waits for whom: jobs that take their time, and those that must not wait for them. */
#include "rig.h"

#include <semaphore.h>

#include "store/set_inside.h"

enum { SLOW = 3, PATIENCE_MS = 120000 };

struct bench {
    char folder[64], store[96];
    struct platform platform;
    sem_t go_on;
    _Atomic unsigned begun;
    _Atomic unsigned begun_before; /* what the test asks about was */
    _Atomic uint64_t ended_ns;
    unsigned quick_done, slow_done, check_done;
    unsigned noticed; /* how often the writer saw that somebody had changed something */
    uint64_t noticed_revision;
};

static struct bench *bench_of(const struct job *j)
{
    return (struct bench *)(void *)((char *)j->platform - offsetof(struct bench, platform));
}

static void work_slowly(struct job *j, struct store *s)
{
    (void)s;
    struct bench *b = bench_of(j);
    b->begun++;
    sem_wait(&b->go_on);
}

/* What readers begin is in the order of the queue; what they bring back need not be. */
static void work_checking(struct job *j, struct store *s)
{
    struct bench *b = bench_of(j);
    unsigned none = 0;
    atomic_compare_exchange_strong(&b->begun_before, &none, b->begun);
    work_slowly(j, s);
}

static void work_quickly(struct job *j, struct store *s)
{
    (void)j;
    (void)s;
}

static void slow_done(struct job *j)
{
    bench_of(j)->slow_done++;
    job_destroy(j);
}

static void check_done(struct job *j)
{
    bench_of(j)->check_done++;
    job_destroy(j);
}

static void quick_done(struct job *j)
{
    bench_of(j)->quick_done++;
    job_destroy(j);
}

/* The writer comes back of its own accord, too, with the keys of the store. */
static void back(struct job *j)
{
    if (j->work == NULL) {
        bench_of(j)->noticed++;
        bench_of(j)->noticed_revision = j->revision;
    }
    if (j->done != NULL)
        j->done(j);
    else
        job_destroy(j);
}

static bool queue_one(struct bench *b, bool is_slow)
{
    struct job *j = job_create(&b->platform, NULL, is_slow ? work_slowly : work_quickly);
    j->is_slow = is_slow;
    j->done = is_slow ? slow_done : quick_done;
    bool taken = job_queue(j, QUEUE_READER);
    if (!taken) job_destroy(j);
    return taken;
}

static bool queue_check(struct bench *b, size_t bytes)
{
    struct job *j = job_create(&b->platform, NULL, work_checking);
    j->is_check = true;
    j->copied_bytes = bytes;
    j->done = check_done;
    bool taken = job_queue(j, QUEUE_READER);
    if (!taken) job_destroy(j);
    return taken;
}

static struct bench *bench_create(unsigned readers)
{
    struct bench *b = calloc(1, sizeof *b);
    struct fault f;
    snprintf(b->folder, sizeof b->folder, "/tmp/writ-work-XXXXXX");
    assert_non_null(mkdtemp(b->folder));
    snprintf(b->store, sizeof b->store, "%s/platform.db", b->folder);
    sem_init(&b->go_on, 0, 0);
    b->platform.loop = loop_create();
    if (work_create(&b->platform, b->store, readers, back, &b->platform.work, &f) != ERR_OK)
        fail_msg("%s", f.text);
    return b;
}

static void bench_destroy(struct bench *b)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    work_stop(b->platform.work);
    work_destroy(b->platform.work);
    loop_destroy(b->platform.loop);
    sem_destroy(&b->go_on);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s%s", b->store, ends[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(b->folder), 0);
    free(b);
}

/* Until so many were taken up. */
static void await_begun(const struct bench *b, unsigned count)
{
    for (int i = 0; i < PATIENCE_MS && b->begun < count; i++) usleep(1000);
    assert_int_equal(b->begun, count);
}

/* Until so many of each are back. */
static void await(struct bench *b, unsigned quick, unsigned slow)
{
    for (int i = 0; i < PATIENCE_MS && (b->quick_done < quick || b->slow_done < slow); i++) {
        loop_turn(b->platform.loop, false);
        usleep(1000);
    }
}

static void what_is_quick_does_not_wait_for_queries(void **state)
{
    (void)state;
    struct bench *b = bench_create(2);
    for (int i = 0; i < SLOW; i++) assert_true(queue_one(b, true));
    await_begun(b, 1);
    assert_true(queue_one(b, false));
    await(b, 1, 0);
    assert_int_equal(b->quick_done, 1);
    assert_int_equal(b->slow_done, 0);
    assert_int_equal(b->begun, 1); /* one reader is kept for what is quick */
    for (int i = 0; i < SLOW; i++) sem_post(&b->go_on);
    await(b, 1, SLOW);
    assert_int_equal(b->slow_done, SLOW);
    bench_destroy(b);
}

static void a_single_reader_does_both(void **state)
{
    (void)state;
    struct bench *b = bench_create(1);
    for (int i = 0; i < SLOW; i++) assert_true(queue_one(b, true));
    assert_true(queue_one(b, false));
    sem_post(&b->go_on); /* the one that was begun ends */
    await(b, 1, 1);
    assert_int_equal(b->quick_done, 1);
    assert_int_equal(b->slow_done, 1);
    for (int i = 1; i < SLOW; i++) sem_post(&b->go_on);
    bench_destroy(b); /* finishes what is queued */
}

static void queries_do_not_fill_the_queue(void **state)
{
    (void)state;
    struct bench *b = bench_create(2);
    unsigned taken = 0;
    while (taken < 100000 && queue_one(b, true)) taken++;
    assert_in_range(taken, 100, 1000);
    assert_true(queue_one(b, false));
    await(b, 1, 0);
    assert_int_equal(b->quick_done, 1);
    for (unsigned i = 0; i < taken; i++) sem_post(&b->go_on);
    await(b, 1, taken);
    assert_int_equal(b->slow_done, taken);
    bench_destroy(b);
}

static void checks_go_before_queries_but_not_on_all_readers(void **state)
{
    (void)state;
    struct bench *b = bench_create(2);
    for (int i = 0; i < SLOW; i++) assert_true(queue_one(b, true));
    await_begun(b, 1);
    assert_true(queue_check(b, 10) && queue_check(b, 10));
    assert_true(queue_one(b, false));
    await(b, 1, 0);
    assert_int_equal(b->quick_done, 1);
    assert_int_equal(b->begun, 1);
    for (int i = 0; i < SLOW + 2; i++) sem_post(&b->go_on);
    await(b, 1, SLOW);
    assert_int_equal(b->check_done, 2);
    assert_int_equal(b->begun_before, 1); /* the one of before */
    bench_destroy(b);
}

static void what_was_copied_counts_in_the_queue(void **state)
{
    (void)state;
    struct bench *b = bench_create(2);
    unsigned taken = 0;
    while (taken < 1000 && queue_check(b, 1 << 20)) taken++;
    assert_in_range(taken, 64, 65); /* MiB, of which one may be under way */
    assert_true(queue_one(b, false));
    for (unsigned i = 0; i < taken; i++) sem_post(&b->go_on);
    bench_destroy(b);
}

/* ---- shares ---- */

static bool queue_charged(struct bench *b, enum job_queue q, const char *tenant, bool is_slow)
{
    struct job *j = job_create(&b->platform, NULL, work_slowly);
    j->charged = tenant == NULL ? (struct str){0} : job_copy(j, str_from(tenant));
    j->is_slow = is_slow;
    j->done = slow_done;
    bool taken = job_queue(j, q);
    if (!taken) job_destroy(j);
    return taken;
}

/* How many it may have waiting, the one under way not counted. */
static unsigned most_of(struct bench *b, enum job_queue q, const char *tenant, bool is_slow)
{
    unsigned before = b->begun, taken = 0;
    assert_true(queue_charged(b, q, tenant, is_slow));
    await_begun(b, before + 1);
    while (taken < 5000 && queue_charged(b, q, tenant, is_slow)) taken++;
    return taken;
}

static void a_tenant_that_floods_a_queue_leaves_half_of_it_to_others(void **state)
{
    (void)state;
    static const struct {
        enum job_queue queue;
        bool is_slow;
        unsigned most;
    } all[] = {{QUEUE_WRITER, false, 128}, {QUEUE_READER, false, 512}, {QUEUE_READER, true, 256}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct bench *b = bench_create(1);
        unsigned taken = most_of(b, all[i].queue, "beta", all[i].is_slow);
        assert_int_equal(taken, all[i].most);
        unsigned others = 0;
        while (queue_charged(b, all[i].queue, "acme", all[i].is_slow)) others++;
        assert_int_equal(others, all[i].most);
        assert_false(queue_charged(b, all[i].queue, NULL, all[i].is_slow)); /* it is full */
        for (unsigned n = 0; n <= taken + others; n++) sem_post(&b->go_on);
        await(b, 0, taken + others + 1);
        assert_true(queue_charged(b, all[i].queue, "beta", all[i].is_slow));
        sem_post(&b->go_on);
        bench_destroy(b);
    }
}

static void whoever_is_charged_to_nobody_may_have_all(void **state)
{
    (void)state;
    struct bench *b = bench_create(1);
    unsigned taken = most_of(b, QUEUE_WRITER, NULL, false);
    assert_int_equal(taken, 256);
    for (unsigned n = 0; n <= taken; n++) sem_post(&b->go_on);
    bench_destroy(b);
}

static bool queue_of_key(struct bench *b, const char *key, size_t bytes,
                         void (*work)(struct job *, struct store *))
{
    struct job *j = job_create(&b->platform, NULL, work);
    j->actor.key_id = job_copy(j, str_from(key));
    j->body_size = bytes;
    j->done = work == work_slowly ? slow_done : quick_done;
    bool taken = job_queue(j, QUEUE_WRITER);
    if (!taken) job_destroy(j);
    return taken;
}

static void a_key_that_floods_a_queue_leaves_most_of_its_bytes_to_others(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    struct bench *b = bench_create(1);
    unsigned taken = 0;
    assert_true(queue_of_key(b, "key_a", 1, work_slowly));
    await_begun(b, 1);
    while (taken < 1000 && queue_of_key(b, "key_a", MIB, work_slowly)) taken++;
    /* half is free for all: from there on each has a quarter */
    assert_int_equal(taken, 32);
    for (unsigned n = 0; n < 16; n++) assert_true(queue_of_key(b, "key_b", MIB, work_slowly));
    assert_false(queue_of_key(b, "key_b", MIB, work_slowly));
    assert_false(queue_of_key(b, "key_a", MIB, work_slowly));
    assert_true(queue_of_key(b, "key_c", MIB, work_slowly));
    assert_true(queue_of_key(b, "key_a", 0, work_slowly)); /* a change has no body that counts */
    for (unsigned n = 0; n < 51; n++) sem_post(&b->go_on);
    await(b, 0, 51);
    bench_destroy(b);
}

static void work_last(struct job *j, struct store *s)
{
    (void)s;
    struct bench *b = bench_of(j);
    unsigned none = 0;
    atomic_compare_exchange_strong(&b->begun_before, &none, b->begun);
}

static void each_key_has_its_turn(void **state)
{
    (void)state;
    struct bench *b = bench_create(1);
    assert_true(queue_of_key(b, "key_a", 1, work_slowly));
    await_begun(b, 1);
    for (int i = 0; i < 20; i++) assert_true(queue_of_key(b, "key_a", 1, work_slowly));
    for (int i = 0; i < 20; i++) assert_true(queue_of_key(b, "key_b", 1, work_slowly));
    assert_true(queue_of_key(b, "key_c", 1, work_last));
    for (int i = 0; i < 41; i++) sem_post(&b->go_on);
    await(b, 1, 41);
    assert_in_range(b->begun_before, 2, 4); /* the one before all, then one of each at most */
    bench_destroy(b);
}

/* Changes and checks go first; batches and queries are not kept from their turn by a flood. */
static void what_goes_last_has_each_fourth_turn(void **state)
{
    (void)state;
    for (int queue = 0; queue < QUEUE_COUNT; queue++) {
        struct bench *b = bench_create(1);
        assert_true(queue_charged(b, (enum job_queue)queue, NULL, false));
        await_begun(b, 1);
        for (int i = 0; i < 20; i++)
            assert_true(queue_charged(b, (enum job_queue)queue, NULL, false));
        struct job *j = job_create(&b->platform, NULL, work_last);
        j->body_size = 1;
        j->done = quick_done;
        assert_true(job_queue(j, (enum job_queue)queue));
        for (int i = 0; i < 21; i++) sem_post(&b->go_on);
        await(b, 1, 21);
        assert_in_range(b->begun_before, 2, 4);
        bench_destroy(b);
    }
}

/* ---- a store that takes nothing ---- */

static void work_failing(struct job *j, struct store *s)
{
    (void)s;
    struct bench *b = bench_of(j);
    b->begun++;
    sem_wait(&b->go_on);
    j->err = fault_plain(&j->fault, ERR_STORE_UNAVAILABLE);
}

/* Ends a while after its like has been told to stop. */
static void work_failing_late(struct job *j, struct store *s)
{
    work_failing(j, s);
    usleep(1000000);
    atomic_store(&bench_of(j)->ended_ns, world_monotonic_ns());
}

static void change_done(struct job *j)
{
    struct bench *b = bench_of(j);
    (*(j->err == ERR_OK ? &b->quick_done : &b->slow_done))++;
    job_destroy(j);
}

static void queue_change(struct bench *b, void (*work)(struct job *, struct store *))
{
    struct job *j = job_create(&b->platform, NULL, work);
    j->done = change_done;
    assert_true(job_queue(j, QUEUE_WRITER));
}

static void assert_written_for_long(const struct bench *b)
{
    assert_in_range(work_writing_seconds(b->platform.work), 1, UINT64_MAX);
}

static void until_written_for_long(const struct bench *b)
{
    for (int i = 0; i < PATIENCE_MS && work_writing_seconds(b->platform.work) == 0; i++)
        usleep(1000);
    assert_written_for_long(b);
}

static void changes_that_fail_one_after_the_other_count_as_one(void **state)
{
    (void)state;
    struct bench *b = bench_create(1);
    assert_int_equal(work_writing_seconds(b->platform.work), 0);
    queue_change(b, work_failing);
    queue_change(b, work_failing);
    queue_change(b, work_slowly);
    queue_change(b, work_slowly);
    until_written_for_long(b);
    sem_post(&b->go_on);
    await_begun(b, 2);
    assert_written_for_long(b);
    sem_post(&b->go_on);
    await_begun(b, 3);
    assert_written_for_long(b);
    uint64_t since_ns = world_monotonic_ns();
    sem_post(&b->go_on); /* this one it takes: the next counts from here */
    await_begun(b, 4);
    unsigned seconds = work_writing_seconds(b->platform.work);
    assert_in_range(seconds, 0, (world_monotonic_ns() - since_ns) / 1000000000);
    sem_post(&b->go_on);
    await(b, 2, 2);
    bench_destroy(b);
}

/* Whether it was still at the first when it was stopped: a machine that is slow may be later. */
static bool is_stopped_within_the_first(void)
{
    struct bench *b = bench_create(1);
    queue_change(b, work_failing_late);
    for (int i = 0; i < SLOW; i++) queue_change(b, work_failing);
    await_begun(b, 1);
    for (int i = 0; i <= SLOW; i++) sem_post(&b->go_on);
    uint64_t stopped_ns = world_monotonic_ns();
    work_stop(b->platform.work);
    bool is_within = stopped_ns + 500000000u < atomic_load(&b->ended_ns);
    if (is_within) assert_int_equal(b->begun, 1);
    loop_turn(b->platform.loop, false);
    assert_int_equal(b->slow_done, SLOW + 1);
    bench_destroy(b);
    return is_within;
}

static void at_the_end_a_store_that_takes_nothing_is_not_asked_again(void **state)
{
    (void)state;
    while (!is_stopped_within_the_first()) continue;
}

/* ---- changes by others ---- */

struct
    change { /* raises the store's revision so often, and tells the last one as its own, or not */
    unsigned count;
    bool wrote_nothing;
};

static void work_changing(struct job *j, struct store *s)
{
    const struct change *c = j->detail;
    struct store *other;
    uint64_t number;
    assert_int_equal(store_open(bench_of(j)->store, true, &other, &j->fault), ERR_OK);
    store_share_pepper(other, &bench_of(j)->platform.pepper);
    assert_int_equal(set_found(other, 0, &j->fault), ERR_OK);
    for (unsigned i = 0; i < c->count; i++) {
        assert_int_equal(store_begin(other, &j->fault), ERR_OK);
        enum err err = store_raise_revision(other, &number, &j->fault);
        assert_int_equal(store_end(other, err, &j->fault), ERR_OK);
    }
    store_close(other);
    struct revision now;
    assert_int_equal(store_revision(s, &now, &j->fault), ERR_OK);
    j->revision = now.number;
    j->wrote_nothing = c->wrote_nothing;
}

/* Longer than the writer goes without a look: it looks when this is done. */
static void work_for_a_while(struct job *j, struct store *s)
{
    (void)j;
    (void)s;
    usleep(300000);
}

/* A change, and what the writer has noticed once it has looked after it. */
static void change_and_look(struct bench *b, struct change c)
{
    unsigned done = b->quick_done;
    struct job *j = job_create(&b->platform, NULL, work_changing);
    *job_detail(j, struct change) = c;
    j->done = change_done;
    assert_true(job_queue(j, QUEUE_WRITER));
    queue_change(b, work_for_a_while);
    queue_change(b, work_quickly);
    await(b, done + 3, 0);
    assert_int_equal(b->quick_done, done + 3);
}

static void what_others_change_is_noticed_and_our_own_is_not_read_again(void **state)
{
    (void)state;
    struct bench *b = bench_create(1);
    change_and_look(b,
                    (struct change){0, true}); /* it begins with a revision that it does not know */
    assert_int_equal(b->noticed, 1);
    const uint64_t first = b->noticed_revision;
    change_and_look(b, (struct change){1, false});
    change_and_look(b, (struct change){1, false});
    assert_int_equal(b->noticed, 1);
    change_and_look(b, (struct change){2, false}); /* of these one is somebody else's */
    assert_int_equal(b->noticed, 2);
    assert_int_equal(b->noticed_revision, first + 4);
    change_and_look(b, (struct change){1, true});
    assert_int_equal(b->noticed, 3);
    assert_int_equal(b->noticed_revision, first + 5);
    change_and_look(b, (struct change){1, false});
    assert_int_equal(b->noticed, 3);
    bench_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_quick_does_not_wait_for_queries),
        cmocka_unit_test(a_single_reader_does_both),
        cmocka_unit_test(queries_do_not_fill_the_queue),
        cmocka_unit_test(checks_go_before_queries_but_not_on_all_readers),
        cmocka_unit_test(what_was_copied_counts_in_the_queue),
        cmocka_unit_test(a_tenant_that_floods_a_queue_leaves_half_of_it_to_others),
        cmocka_unit_test(whoever_is_charged_to_nobody_may_have_all),
        cmocka_unit_test(a_key_that_floods_a_queue_leaves_most_of_its_bytes_to_others),
        cmocka_unit_test(each_key_has_its_turn),
        cmocka_unit_test(what_goes_last_has_each_fourth_turn),
        cmocka_unit_test(changes_that_fail_one_after_the_other_count_as_one),
        cmocka_unit_test(what_others_change_is_noticed_and_our_own_is_not_read_again),
        cmocka_unit_test(at_the_end_a_store_that_takes_nothing_is_not_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
