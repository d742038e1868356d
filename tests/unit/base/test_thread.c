/* What thread_step_back() does to the thread that calls it, and to no
 * other; when a timed wait ends. */
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <sys/resource.h>

#include "base/thread.h"
#include "base/world.h"

struct place {
    int policy, nice;
};

static struct place place_now(void)
{
    return (struct place){sched_getscheduler(0), getpriority(PRIO_PROCESS, 0)};
}

static void *step_back(void *context)
{
    struct place *found = context;
    assert_true(thread_step_back(5));
    *found = place_now();
    return NULL;
}

static void a_thread_steps_back_and_others_stay(void **state)
{
    (void)state;
    struct place before = place_now(), of_thread = {-1, -1};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, step_back, &of_thread), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(of_thread.policy, SCHED_BATCH);
    assert_int_equal(of_thread.nice, 5);
    struct place after = place_now();
    assert_int_equal(after.policy, before.policy);
    assert_int_equal(after.nice, before.nice);
}

static void a_timed_wait_ends_at_its_deadline_and_not_before(void **state)
{
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    condition_init(&condition);
    uint64_t begun_ns = world_monotonic_ns();
    const struct timespec until = condition_deadline(20);
    assert_in_range(until.tv_nsec, 0, 999999999);
    pthread_mutex_lock(&lock);
    int outcome = 0;
    while (outcome == 0) outcome = pthread_cond_timedwait(&condition, &lock, &until);
    pthread_mutex_unlock(&lock);
    assert_int_equal(outcome, ETIMEDOUT);
    assert_true(world_monotonic_ns() - begun_ns >= 20 * 1000000);
    pthread_cond_destroy(&condition);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_steps_back_and_others_stay),
        cmocka_unit_test(a_timed_wait_ends_at_its_deadline_and_not_before)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
