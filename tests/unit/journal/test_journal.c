/* The journal as the engine uses it: threads, a real directory. */
#include "journal/journal.h"

#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/limits.h"

enum { PRODUCERS = 3, RECORDS = 20000 };

struct world {
    char directory[64];
    struct disk *disk;
    struct journal *journal;
    struct journal_report report;
    struct journal_options options;
    sem_t rung[PRODUCERS];
    sem_t durable;
    uint64_t next[PRODUCERS]; /* replay: what must come next of each */
    uint64_t replayed;
};

static void ring(void *context, unsigned producer)
{
    sem_post(&((struct world *)context)->rung[producer]);
}
static void ring_durable(void *context) { sem_post(&((struct world *)context)->durable); }

/* "producer serial" in two numbers, then filling that follows from them. */
static size_t record_size(uint64_t serial) { return 16 + (size_t)(serial * 7919 % 1500); }

static enum err take(void *context, const struct journal_record *record)
{
    struct world *w = context;
    uint64_t head[2];
    if (record->public_bytes.size < sizeof head) return ERR_CORRUPT;
    memcpy(head, record->public_bytes.bytes, sizeof head);
    if (head[0] >= PRODUCERS || head[1] != w->next[head[0]]) return ERR_CORRUPT;
    if (record->public_bytes.size != record_size(head[1]) || record->private_bytes.size != 3)
        return ERR_CORRUPT;
    w->next[head[0]]++;
    w->replayed++;
    return record->seq == w->replayed ? ERR_OK : ERR_CORRUPT;
}

static void open_world(struct world *w)
{
    struct fault f;
    memset(w->next, 0, sizeof w->next);
    w->replayed = 0;
    assert_int_equal(disk_real_create(w->directory, &w->disk), ERR_OK);
    w->options.disk = w->disk;
    enum err err = journal_open(&w->options, take, w, &w->journal, &w->report, &f);
    if (err != ERR_OK) fail_msg("%s", f.text);
}

static void close_world(struct world *w)
{
    journal_close(w->journal);
    disk_real_destroy(w->disk);
}

static int make_world(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    const char template[] = "build/test_journal_XXXXXX";
    memcpy(w->directory, template, sizeof template);
    (void)mkdir("build", 0777); /* tests of a build elsewhere */
    if (mkdtemp(w->directory) == NULL) return -1;
    for (int i = 0; i < PRODUCERS; i++) sem_init(&w->rung[i], 0, 0);
    sem_init(&w->durable, 0, 0);
    w->options = (struct journal_options){.producers = PRODUCERS,
                                          .segment_bytes = 4 << 20,
                                          .keep_ms = UINT64_MAX,
                                          .lazy_sync_ms = 20,
                                          .ring = ring,
                                          .ring_durable = ring_durable,
                                          .context = w};
    *state = w;
    return 0;
}

static int remove_world(void **state)
{
    struct world *w = *state;
    DIR *d = opendir(w->directory);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
    if (d != NULL) closedir(d);
    rmdir(w->directory);
    free(w);
    return 0;
}

struct job {
    struct world *world;
    unsigned producer;
    uint64_t begin, end;
};

static void append(struct job *job, uint64_t serial, bool wants_sync)
{
    struct journal_producer *p = journal_producer(job->world->journal, job->producer);
    size_t size = record_size(serial);
    enum err err;
    char *to;
    while ((to = journal_reserve(p, size + 3, &err)) == NULL) {
        if (err != ERR_FULL) abort();
        sem_wait(&job->world->rung[job->producer]); /* a refusal is always followed by a ring */
    }
    uint64_t head[2] = {job->producer, serial};
    memcpy(to, head, sizeof head);
    memset(to + sizeof head, 'r', size + 3 - sizeof head);
    journal_commit(p, size, 3, wants_sync);
}

static void *produce(void *context)
{
    struct job *job = context;
    struct journal_producer *p = journal_producer(job->world->journal, job->producer);
    for (uint64_t serial = job->begin; serial < job->end; serial++) {
        append(job, serial, serial % 64 == 0);
        if (serial % 17 == 0) journal_seal(p);
    }
    journal_seal(p);
    return NULL;
}

static void many_producers_and_a_cursor_lose_and_double_nothing(void **state)
{
    struct world *w = *state;
    open_world(w);
    struct journal_cursor *cursor;
    struct fault f;
    assert_int_equal(journal_cursor_open(w->journal, 1, &cursor, &f), ERR_OK);
    pthread_t threads[PRODUCERS];
    struct job jobs[PRODUCERS];
    for (unsigned i = 0; i < PRODUCERS; i++) {
        jobs[i] = (struct job){.world = w, .producer = i, .end = RECORDS};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &jobs[i]), 0);
    }
    while (w->replayed < (uint64_t)PRODUCERS * RECORDS) {
        struct journal_record record;
        enum err err = journal_cursor_next(cursor, &record, &f);
        if (err == ERR_END)
            sem_wait(&w->durable);
        else if (err != ERR_OK)
            fail_msg("%s", f.text);
        else
            assert_int_equal(take(w, &record), ERR_OK);
    }
    for (unsigned i = 0; i < PRODUCERS; i++) pthread_join(threads[i], NULL);
    journal_cursor_close(cursor);
    struct journal_totals totals;
    journal_totals(w->journal, &totals);
    assert_int_equal(totals.records, PRODUCERS * RECORDS);
    assert_true(totals.segments > 2);
    close_world(w);

    open_world(w);
    assert_int_equal(w->replayed, PRODUCERS * RECORDS);
    assert_int_equal(w->report.durable_seq_claimed, w->report.last_seq);
    assert_int_equal(w->report.cut_bytes, 0);
    close_world(w);
}

static void wait_durable(struct world *w, unsigned producer, uint64_t mark)
{
    for (;;) {
        uint64_t written, durable;
        journal_progress(journal_producer(w->journal, producer), &written, &durable);
        if (durable >= mark) return;
        sem_wait(&w->rung[producer]); /* would wait for ever if a ring were lost */
    }
}

static void every_wait_for_durable_ends(void **state)
{
    struct world *w = *state;
    open_world(w);
    struct job job = {.world = w};
    for (uint64_t serial = 0; serial < 200; serial++) {
        append(&job, serial, true);
        journal_seal(journal_producer(w->journal, 0));
        wait_durable(w, 0, journal_block(journal_producer(w->journal, 0)));
        assert_int_equal(journal_durable_seq(w->journal), serial + 1);
    }
    close_world(w);
}

static void what_nobody_waits_for_is_synced_all_the_same(void **state)
{
    struct world *w = *state;
    open_world(w);
    struct job job = {.world = w};
    append(&job, 0, false);
    journal_seal(journal_producer(w->journal, 0));
    wait_durable(w, 0, 1);
    assert_int_equal(journal_durable_seq(w->journal), 1);
    close_world(w);
}

static void each_opening_has_its_own_epoch(void **state)
{
    struct world *w = *state;
    open_world(w);
    char first[JOURNAL_EPOCH_TEXT];
    memcpy(first, journal_epoch(w->journal), JOURNAL_EPOCH_TEXT);
    for (int i = 0; i < JOURNAL_EPOCH_TEXT; i++)
        assert_non_null(strchr("0123456789abcdef", first[i]));
    struct job job = {.world = w};
    append(&job, 0, true);
    journal_seal(journal_producer(w->journal, 0));
    close_world(w);
    open_world(w);
    assert_memory_equal(w->report.last_epoch, first, JOURNAL_EPOCH_TEXT);
    assert_memory_equal(w->report.epoch, journal_epoch(w->journal), JOURNAL_EPOCH_TEXT);
    assert_memory_not_equal(first, journal_epoch(w->journal), JOURNAL_EPOCH_TEXT);
    close_world(w);
}

static void a_directory_in_use_is_refused(void **state)
{
    struct world *w = *state;
    open_world(w);
    struct disk *second;
    struct journal *j;
    struct journal_report report;
    struct fault f;
    assert_int_equal(disk_real_create(w->directory, &second), ERR_OK);
    struct journal_options o = w->options;
    o.disk = second;
    assert_int_equal(journal_open(&o, NULL, NULL, &j, &report, &f), ERR_EXISTS);
    disk_real_destroy(second);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many_producers_and_a_cursor_lose_and_double_nothing,
                                        make_world, remove_world),
        cmocka_unit_test_setup_teardown(every_wait_for_durable_ends, make_world, remove_world),
        cmocka_unit_test_setup_teardown(what_nobody_waits_for_is_synced_all_the_same, make_world,
                                        remove_world),
        cmocka_unit_test_setup_teardown(each_opening_has_its_own_epoch, make_world, remove_world),
        cmocka_unit_test_setup_teardown(a_directory_in_use_is_refused, make_world, remove_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
