/* journal_driver.c - a small program around a journal, for tests that kill it and break its disk.
 *
 *   journal_driver append DIR TAG RECORDS    appends TAG-1, TAG-2, … and prints on standard output
 *   journal_driver threads DIR TAG RECORDS     "wrote TAG-n"    n's written mark has moved
 *                                              "ack TAG-n"      n's durable mark has moved
 *                                              "confirm TAG-n"  all up to n may be removed
 *                                              "full"           a record was refused, and left out
 *   journal_driver check DIR                 prints "have TAG-n" for each record that comes back
 *   journal_driver measure DIR RECORDS       what the journal writer costs per record
 *
 * `append` drives the journal writer's steps in one thread, so that the n-th system call is the same in
 * each run; `threads` is the journal as the engine runs it. Ends with 0, or 3 where the journal
 * could not be opened (the reason is on standard error). */
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/world.h"
#include "journal/inside.h"

enum {
    SEGMENT = 1 << 20,
    NOT_OPENED = 3,
    USAGE = 2,
    /* of half a second or more each: the disk stays full, and the rest is not tried */
    REFUSED_IN_A_ROW_MAX = 16,
};

struct driver {
    struct disk *disk;
    struct journal *journal;
    struct journal_report report;
    const char *tag;
    bool threads;
    uint64_t count;            /* committed in this run */
    uint64_t *marks, *serials; /* of each */
    bool *wants_sync;
    uint64_t told_written, told_durable;
    sem_t rung;
};

static void say(const char *what, const char *tag, uint64_t serial)
{
    char line[128];
    int size = snprintf(line, sizeof line, "%s %s-%" PRIu64 "\n", what, tag, serial);
    check(size > 0 && write(STDOUT_FILENO, line, (size_t)size) == size);
}

static void ring(void *context, unsigned producer)
{
    (void)producer;
    sem_post(&((struct driver *)context)->rung);
}

static enum err print_record(void *context, const struct journal_record *record)
{
    if (context == NULL) return ERR_OK;
    size_t size = str_find(record->public_bytes, ' ');
    printf("have %.*s\n", (int)size, record->public_bytes.bytes);
    for (size_t i = size + 1; i < record->public_bytes.size; i++)
        check(record->public_bytes.bytes[i] == 'x');
    return ERR_OK;
}

static int open_driver(struct driver *d, const char *directory, bool print)
{
    struct fault f;
    sem_init(&d->rung, 0, 0);
    enum err err = disk_real_create(directory, &d->disk);
    struct journal_options o = {.disk = d->disk,
                                .producers = 1,
                                .segment_bytes = SEGMENT,
                                .lazy_sync_ms = 5,
                                .ring = ring,
                                .context = d};
    if (err != ERR_OK)
        (void)fault_plain(&f, err);
    else if (d->threads)
        err = journal_open(&o, print_record, print ? d : NULL, &d->journal, &d->report, &f);
    else
        err = journal_open_driven(&o, "0123456789abcdef", world_now_ms(), print_record,
                                  print ? d : NULL, &d->journal, &d->report, &f);
    if (err == ERR_OK) return 0;
    fprintf(stderr, "not opened: %s: %s\n", err_code(err), f.text);
    disk_real_destroy(d->disk);
    return NOT_OPENED;
}

static void close_driver(struct driver *d)
{
    if (d->threads)
        journal_close(d->journal);
    else
        journal_close_driven(d->journal, world_now_ms());
    disk_real_destroy(d->disk);
}

/* ---- appending ---- */

static void tell(struct driver *d)
{
    uint64_t written, durable;
    journal_progress(journal_producer(d->journal, 0), &written, &durable);
    for (; d->told_written < d->count && d->marks[d->told_written] <= written; d->told_written++)
        if (!d->wants_sync[d->told_written]) say("wrote", d->tag, d->serials[d->told_written]);
    for (; d->told_durable < d->count && d->marks[d->told_durable] <= durable; d->told_durable++)
        say("ack", d->tag, d->serials[d->told_durable]);
}

static size_t record_size(uint64_t serial)
{
    return serial % 9 == 0 ? 40000 : 100 + (size_t)(serial * 7919 % 2000);
}

/* False: refused. */
static bool append(struct driver *d, uint64_t serial)
{
    struct journal_producer *p = journal_producer(d->journal, 0);
    size_t size = record_size(serial);
    enum err err;
    char *to = journal_reserve(p, size + 5, &err);
    if (to == NULL) return false;
    int head = snprintf(to, size, "%s-%" PRIu64 " ", d->tag, serial);
    check(head > 0 && (size_t)head < size);
    memset(to + head, 'x', size + 5 - (size_t)head);
    bool wants_sync = serial % 3 != 0;
    journal_commit(p, size, 5, wants_sync);
    d->marks[d->count] = journal_block(p);
    d->serials[d->count] = serial;
    d->wants_sync[d->count] = wants_sync;
    d->count++;
    return true;
}

/* All that is durable but the last few may be removed. */
static void confirm(struct driver *d)
{
    if (d->told_durable < 40) return;
    uint64_t n = d->told_durable - 30;
    say("confirm", d->tag, d->serials[n - 1]);
    journal_confirm(d->journal, d->report.last_seq + n);
}

static void append_driven(struct driver *d, uint64_t records)
{
    struct journal_writer *s = &d->journal->journal_writer;
    for (uint64_t serial = 1; serial <= records; serial++) {
        if (!append(d, serial)) {
            journal_writer_write_step(s, world_now_ms());
            journal_writer_keep_step(s, world_now_ms());
            if (!append(d, serial)) check(write(STDOUT_FILENO, "full\n", 5) == 5);
        }
        if (serial % 4 == 0) {
            journal_seal(journal_producer(d->journal, 0));
            journal_writer_write_step(s, world_now_ms());
        }
        if (serial % 8 == 0) journal_writer_sync_step(s);
        tell(d);
        if (serial % 60 == 0) journal_writer_claim_step(s, world_now_ms());
        if (serial % 40 == 0) confirm(d);
        if (serial % 20 == 0) journal_writer_keep_step(s, world_now_ms());
    }
    journal_seal(journal_producer(d->journal, 0));
    journal_writer_write_step(s, world_now_ms());
    journal_writer_sync_step(s);
    tell(d);
}

/* A thousand tries of a millisecond: the maker of spares looks once a second. */
static bool append_patiently(struct driver *d, uint64_t serial)
{
    for (int i = 0; i < 1500; i++) {
        if (append(d, serial)) return true;
        if (i % 500 == 499 && journal_is_full(d->journal)) return false;
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec += 1000000;
        if (soon.tv_nsec >= 1000000000) {
            soon.tv_nsec -= 1000000000;
            soon.tv_sec++;
        }
        sem_timedwait(&d->rung, &soon);
        tell(d);
    }
    return false;
}

static void append_threads(struct driver *d, uint64_t records)
{
    unsigned refused = 0; /* in a row */
    for (uint64_t serial = 1; serial <= records && refused < REFUSED_IN_A_ROW_MAX; serial++) {
        refused = append_patiently(d, serial) ? 0 : refused + 1;
        if (refused > 0) check(write(STDOUT_FILENO, "full\n", 5) == 5);
        if (serial % 4 == 0) journal_seal(journal_producer(d->journal, 0));
        tell(d);
        if (serial % 40 == 0) confirm(d);
    }
    journal_seal(journal_producer(d->journal, 0));
    while (d->told_durable < d->count) {
        sem_wait(&d->rung);
        tell(d);
    }
}

static int run_append(const char *directory, const char *tag, uint64_t records, bool threads)
{
    struct driver d = {.tag = tag, .threads = threads};
    d.marks = calloc(records, sizeof *d.marks);
    d.serials = calloc(records, sizeof *d.serials);
    d.wants_sync = calloc(records, sizeof *d.wants_sync);
    check(d.marks != NULL && d.serials != NULL && d.wants_sync != NULL);
    int status = open_driver(&d, directory, false);
    if (status == 0) {
        if (threads)
            append_threads(&d, records);
        else
            append_driven(&d, records);
        close_driver(&d);
    }
    free(d.marks);
    free(d.serials);
    free(d.wants_sync);
    return status;
}

static int run_check(const char *directory)
{
    struct driver d = {.tag = ""};
    int status = open_driver(&d, directory, true);
    if (status != 0) return status;
    printf("cut %" PRIu64 " frames %" PRIu64 " bytes\n", d.report.cut_frames, d.report.cut_bytes);
    close_driver(&d);
    return 0;
}

/* ---- measuring ---- */

static uint64_t cpu_ns(int who)
{
    struct rusage u;
    check(getrusage(who, &u) == 0);
    return ((uint64_t)u.ru_utime.tv_sec + (uint64_t)u.ru_stime.tv_sec) * UINT64_C(1000000000) +
           ((uint64_t)u.ru_utime.tv_usec + (uint64_t)u.ru_stime.tv_usec) * 1000;
}

static uint64_t thread_ns(void)
{
    struct timespec t;
    check(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void *read_all(void *context)
{
    struct driver *d = context;
    struct journal_cursor *c;
    struct journal_record record;
    struct fault f;
    check(journal_cursor_open(d->journal, 1, &c, &f) == ERR_OK);
    uint64_t begun = thread_ns(), count = 0;
    while (journal_cursor_next(c, &record, &f) == ERR_OK) count++;
    printf("cursor: %.0f ns of CPU per record\n", (double)(thread_ns() - begun) / (double)count);
    journal_cursor_close(c);
    return NULL;
}

/* Records of 1.2 KiB, 30 to a block, one block after another as fast as they are taken (or one
 * each 300 µs): the process's CPU less this thread's is the journal writer's. */
static void measure_pace(struct driver *d, uint64_t records, uint64_t pause_ns, bool wants_sync)
{
    struct journal_producer *p = journal_producer(d->journal, 0);
    struct journal_totals before, after;
    journal_totals(d->journal, &before);
    uint64_t begun = world_monotonic_ns(), cpu = cpu_ns(RUSAGE_SELF), own = thread_ns();
    char text[1200];
    memset(text, 'x', sizeof text);
    for (uint64_t i = 0; i < records; i++) {
        enum err err;
        char *to;
        while ((to = journal_reserve(p, sizeof text, &err)) == NULL) sem_wait(&d->rung);
        memcpy(to, text, sizeof text);
        journal_commit(p, sizeof text - 20, 20, wants_sync);
        if (i % 30 != 29) continue;
        journal_seal(p);
        uint64_t until = world_monotonic_ns() + pause_ns;
        while (pause_ns > 0 && world_monotonic_ns() < until) {
        }
    }
    journal_seal(p);
    uint64_t written, durable;
    do journal_progress(p, &written, &durable);
    while (durable < journal_block(p) && sem_wait(&d->rung) == 0);
    uint64_t wall = world_monotonic_ns() - begun;
    own = thread_ns() - own;
    cpu = cpu_ns(RUSAGE_SELF) - cpu;
    journal_totals(d->journal, &after);
    printf(
        "%s, %s: journal writer %.0f ns of CPU per record, producer %.0f (with its pauses), %.0f "
        "records/s, %" PRIu64 " syncs\n",
        wants_sync ? "synced" : "written", pause_ns > 0 ? "one block each 300 us" : "flat out",
        (double)(cpu - own) / (double)records, (double)own / (double)records,
        (double)records / ((double)wall / 1e9), after.syncs - before.syncs);
}

static int run_measure(const char *directory, uint64_t records)
{
    struct driver d = {.tag = "", .threads = true};
    struct fault f;
    sem_init(&d.rung, 0, 0);
    check(disk_real_create(directory, &d.disk) == ERR_OK);
    struct journal_options o = {.disk = d.disk,
                                .producers = 1,
                                .lazy_sync_ms = 50,
                                .ring = ring,
                                .context = &d,
                                .keep_ms = UINT64_MAX};
    if (journal_open(&o, NULL, NULL, &d.journal, &d.report, &f) != ERR_OK) {
        fprintf(stderr, "not opened: %s\n", f.text);
        return NOT_OPENED;
    }
    for (int i = 0; i < 4; i++) measure_pace(&d, records, i % 2 == 0 ? 300000 : 0, i >= 2);
    pthread_t reader;
    check(pthread_create(&reader, NULL, read_all, &d) == 0);
    pthread_join(reader, NULL);
    close_driver(&d);
    return 0;
}

int main(int count, char **arguments)
{
    log_init("journal_driver", LOG_INFO);
    const char *mode = count > 1 ? arguments[1] : "";
    uint64_t records = 0;
    if (count > 3 && !str_to_u64(str_from(arguments[count - 1]), &records)) mode = "";
    bool threads = strcmp(mode, "threads") == 0;
    if (count == 5 && (threads || strcmp(mode, "append") == 0))
        return run_append(arguments[2], arguments[3], records, threads);
    if (count == 3 && strcmp(mode, "check") == 0) return run_check(arguments[2]);
    if (count == 4 && strcmp(mode, "measure") == 0) return run_measure(arguments[2], records);
    fprintf(
        stderr,
        "usage: journal_driver append|threads DIR TAG RECORDS | check DIR | measure DIR RECORDS\n");
    return USAGE;
}
