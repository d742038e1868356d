/* The thread for long questions: who is next, and how much may wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first. */
#include <cmocka.h>

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "engine/runtime/offload.h"

enum { JOBS_MAX = LIMIT_OFFLOADED + 4 };

struct test_job {
    struct offload_job job; /* first */
    struct scene *scene;
    char tenant[16];
    int place; /* in the order of running; -1: it did not run */
};

struct scene {
    struct offload *offload;
    sem_t begun, go_on; /* of the job that blocks the thread */
    sem_t woken;
    int ran;
    struct test_job jobs[JOBS_MAX];
    unsigned count;
};

static void wake(void *context, unsigned reactor)
{
    struct scene *s = context;
    assert_int_equal(reactor, 1);
    sem_post(&s->woken);
}

static struct test_job *of(struct offload_job *job) { return (struct test_job *)(void *)job; }

static void run(struct offload_job *job) { of(job)->place = of(job)->scene->ran++; }

static void block(struct offload_job *job)
{
    run(job);
    sem_post(&of(job)->scene->begun);
    sem_wait(&of(job)->scene->go_on);
}

static struct test_job *job_new(struct scene *s, const char *tenant)
{
    struct test_job *t = &s->jobs[s->count++];
    *t = (struct test_job){.scene = s, .place = -1};
    snprintf(t->tenant, sizeof t->tenant, "%s", tenant);
    t->job = (struct offload_job){.run = run, .tenant = str_from(t->tenant), .reactor = 1};
    return t;
}

static struct test_job *put(struct scene *s, const char *tenant)
{
    struct test_job *t = job_new(s, tenant);
    struct fault f;
    assert_int_equal(offload_put(s->offload, &t->job, &f), ERR_OK);
    return t;
}

/* From here on nothing runs until go_on(). */
static struct test_job *put_blocking(struct scene *s, const char *tenant)
{
    struct test_job *t = job_new(s, tenant);
    struct fault f;
    t->job.run = block;
    assert_int_equal(offload_put(s->offload, &t->job, &f), ERR_OK);
    sem_wait(&s->begun);
    return t;
}

static void take_all(struct scene *s, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        sem_wait(&s->woken);
        assert_non_null(offload_take(s->offload, 1));
    }
    assert_null(offload_take(s->offload, 1));
    assert_null(offload_take(s->offload, 0));
}

static void assert_refused(struct scene *s, const char *tenant, enum err err, const char *text)
{
    struct test_job *t = job_new(s, tenant);
    struct fault f = {.text = ""};
    assert_int_equal(offload_put(s->offload, &t->job, &f), err);
    if (strstr(f.text, text) == NULL) fail_msg("\"%s\" does not have \"%s\"", f.text, text);
}

static int set_up(void **state)
{
    struct scene *s = calloc(1, sizeof *s);
    sem_init(&s->begun, 0, 0);
    sem_init(&s->go_on, 0, 0);
    sem_init(&s->woken, 0, 0);
    s->offload = offload_create(wake, s);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;
    sem_post(&s->go_on); /* a test that failed may have left it blocked */
    offload_stop(s->offload);
    offload_destroy(s->offload);
    free(s);
    return 0;
}

static void tenants_take_turns(void **state)
{
    struct scene *s = *state;
    put_blocking(s, "a");
    struct test_job *a1 = put(s, "a"), *a2 = put(s, "a"), *b1 = put(s, "b"), *b2 = put(s, "b"),
                    *c1 = put(s, "c");
    sem_post(&s->go_on);
    take_all(s, 6);
    /* behind the first one, which is of a */
    assert_int_equal(b1->place, 1);
    assert_int_equal(c1->place, 2);
    assert_int_equal(a1->place, 3);
    assert_int_equal(b2->place, 4);
    assert_int_equal(a2->place, 5);
    for (unsigned i = 0; i < s->count; i++) assert_int_equal(s->jobs[i].job.end, OFFLOAD_RUN);
}

static void a_tenant_may_have_so_many(void **state)
{
    struct scene *s = *state;
    put_blocking(s, "a");
    for (unsigned i = 1; i < LIMIT_OFFLOADED_OF_TENANT; i++) put(s, "a");
    assert_refused(s, "a", ERR_QUOTA_TENANT,
                   "this tenant has the most long-questions that it may have at a time here, 8");
    put(s, "b");
    sem_post(&s->go_on);
    take_all(s, LIMIT_OFFLOADED_OF_TENANT + 1);
    put(s, "a"); /* there is room again */
    take_all(s, 1);
}

static void all_tenants_may_have_so_many(void **state)
{
    struct scene *s = *state;
    char tenant[16];
    put_blocking(s, "a");
    for (unsigned i = 1; i < LIMIT_OFFLOADED; i++) {
        snprintf(tenant, sizeof tenant, "t%u", i);
        put(s, tenant);
    }
    assert_refused(s, "b", ERR_OVERLOADED, "64 explanations, dry runs or large lists wait already");
    sem_post(&s->go_on);
    take_all(s, LIMIT_OFFLOADED);
}

static void what_has_waited_too_long_is_not_run(void **state)
{
    struct scene *s = *state;
    put_blocking(s, "a");
    struct test_job *late = put(s, "a"), *early = put(s, "a");
    late->job.put_ns -= LIMIT_OFFLOAD_WAIT_SECONDS * UINT64_C(1000000000);
    sem_post(&s->go_on);
    take_all(s, 3);
    assert_int_equal(late->job.end, OFFLOAD_LATE);
    assert_int_equal(late->place, -1);
    assert_int_equal(early->place, 1);
}

static void what_waits_at_the_end_is_not_run(void **state)
{
    struct scene *s = *state;
    struct fault f;
    put(s, "a");
    take_all(s, 1);
    offload_stop(s->offload);
    struct test_job *t = job_new(s, "a");
    assert_int_equal(offload_put(s->offload, &t->job, &f), ERR_DRAINING);
    assert_null(offload_take(s->offload, 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tenants_take_turns),
        TEST(a_tenant_may_have_so_many),
        TEST(all_tenants_may_have_so_many),
        TEST(what_has_waited_too_long_is_not_run),
        TEST(what_waits_at_the_end_is_not_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
