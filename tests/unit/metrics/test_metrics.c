/* Counting, and the text that a scrape gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "metrics/metrics.h"

/* The scrape as a NUL-terminated string; the caller frees it. */
static char *scrape(const char *prefix)
{
    struct buf out;
    buf_init(&out, 0, 1 << 20);
    metrics_put(&out, str_from(prefix));
    buf_put_byte(&out, '\0');
    assert_false(out.overflow);
    return out.bytes;
}

/* The value of the line that starts with `name` and a blank; -1 where there is none. */
static double value_of(const char *text, const char *name)
{
    for (struct str rest = str_from(text), line; str_split(&rest, '\n', &line);)
        if (str_starts(line, str_from(name)) && line.size > strlen(name) &&
            line.bytes[strlen(name)] == ' ')
            return strtod(line.bytes + strlen(name) + 1, NULL);
    return -1;
}

static void a_total_is_the_sum_of_all_sheets(void **state)
{
    (void)state;
    uint64_t before = metrics_total(METRIC_DRY_RUNS);
    struct metrics_sheet *a = metrics_sheet_create(), *b = metrics_sheet_create();
    metric_add(a, METRIC_DRY_RUNS, 2);
    metric_add(b, METRIC_DRY_RUNS, 3);
    metric_add(a, METRIC_DRY_RUNS, 5);
    assert_int_equal(metrics_total(METRIC_DRY_RUNS) - before, 10);
    char *text = scrape("writ_engine_");
    assert_true((uint64_t)value_of(text, "writ_engine_dry_runs_total") == before + 10);
    free(text);
}

enum { THREADS = 4, ADDS = 100000 };

static void *count_alone(void *unused)
{
    (void)unused;
    struct metrics_sheet *s = metrics_sheet_create();
    for (int i = 0; i < ADDS; i++) metric_add(s, METRIC_INGEST_EVENTS, 1);
    return NULL;
}

static void threads_that_each_have_a_sheet_lose_no_count(void **state)
{
    (void)state;
    uint64_t before = metrics_total(METRIC_INGEST_EVENTS);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_alone, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        free(scrape("writ_")); /* while they count */
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(metrics_total(METRIC_INGEST_EVENTS) - before, THREADS * ADDS);
}

static void a_time_falls_into_the_first_bucket_that_holds_it(void **state)
{
    (void)state;
    struct metrics_sheet *s = metrics_sheet_create();
    static const struct {
        uint64_t ns;
        unsigned bucket;
    } cases[] = {{0, 0},
                 {1, 0},
                 {1000, 0},
                 {1001, 1},
                 {2000, 1},
                 {2001, 2},
                 {4000, 2},
                 {1000000, 10},
                 {1024000, 10},
                 {1024001, 11},
                 {33554432000, 25},
                 {33554432001, 26},
                 {UINT64_C(1) << 62, 26}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t before = s->histograms[HISTOGRAM_DECIDE].buckets[cases[i].bucket];
        metric_observe(s, HISTOGRAM_DECIDE, cases[i].ns);
        if (s->histograms[HISTOGRAM_DECIDE].buckets[cases[i].bucket] != before + 1)
            fail_msg("%llu ns is not in bucket %u", (unsigned long long)cases[i].ns,
                     cases[i].bucket);
    }
}

static void a_histogram_tells_cumulative_buckets_in_seconds(void **state)
{
    (void)state;
    struct metrics_sheet *s = metrics_sheet_create();
    metric_observe(s, HISTOGRAM_QUERY, 1500); /* 1.5 µs */
    metric_observe(s, HISTOGRAM_QUERY, 3000);
    metric_observe(s, HISTOGRAM_QUERY, 60000000000); /* a minute: beyond the last */
    char *text = scrape("writ_platform_");
    assert_true(value_of(text, "writ_platform_query_seconds_bucket{le=\"0.000001\"}") == 0);
    assert_true(value_of(text, "writ_platform_query_seconds_bucket{le=\"0.000002\"}") == 1);
    assert_true(value_of(text, "writ_platform_query_seconds_bucket{le=\"0.000004\"}") == 2);
    assert_true(value_of(text, "writ_platform_query_seconds_bucket{le=\"33.554432\"}") == 2);
    assert_true(value_of(text, "writ_platform_query_seconds_bucket{le=\"+Inf\"}") == 3);
    assert_true(value_of(text, "writ_platform_query_seconds_count") == 3);
    assert_non_null(strstr(text, "writ_platform_query_seconds_sum 60.0000045\n"));
    free(text);
}

static void a_scrape_has_one_program_and_the_process(void **state)
{
    (void)state;
    char *text = scrape("writ_engine_");
    assert_non_null(strstr(text, "writ_engine_"));
    assert_null(strstr(text, "writ_platform_"));
    assert_true(value_of(text, "writ_process_cpu_seconds_total") > 0);
    assert_true(value_of(text, "writ_process_resident_memory_bytes") > 100000);
    assert_true(value_of(text, "writ_process_open_fds") >= 3);
    double started = value_of(text, "writ_process_start_time_seconds");
    assert_true(started <= (double)time(NULL) + 1 && started > (double)time(NULL) - 600);
    free(text);
}

static void open_files_are_counted(void **state)
{
    (void)state;
    char *text = scrape("writ_engine_");
    double before = value_of(text, "writ_process_open_fds");
    free(text);
    int fd = dup(0);
    text = scrape("writ_engine_");
    assert_true(value_of(text, "writ_process_open_fds") == before + 1);
    free(text);
    close(fd);
}

/* Rows of one name must be neighbours in the table: HELP and TYPE may be told once only. */
static void each_name_is_described_once(void **state)
{
    (void)state;
    char *text = scrape("writ_");
    for (struct str rest = str_from(text), line; str_split(&rest, '\n', &line);) {
        if (!str_starts(line, STR("# TYPE "))) continue;
        char whole[160];
        snprintf(whole, sizeof whole, "%.*s\n", STR_FORMAT(line));
        const char *first = strstr(text, whole);
        assert_non_null(first);
        if (strstr(first + 1, whole) != NULL) fail_msg("told twice: %s", whole);
    }
    free(text);
}

static const char *promtool(void)
{
    static const char *const places[] = {"/usr/bin/promtool", "build/promtool/x/usr/bin/promtool"};
    const char *named = getenv("PROMTOOL");
    if (named != NULL) return named;
    for (size_t i = 0; i < 2; i++)
        if (access(places[i], X_OK) == 0) return places[i];
    return NULL;
}

static void promtool_finds_nothing_wrong(void **state)
{
    (void)state;
    const char *tool = promtool();
    if (tool == NULL) {
        puts("SKIP: promtool is not installed (package prometheus); name it with PROMTOOL=");
        skip();
    }
    char command[512];
    snprintf(command, sizeof command, "%s check metrics 2>&1", tool);
    char path[] = "/tmp/writ-metrics-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    char *text = scrape("writ_");
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    free(text);
    close(fd);
    assert_non_null(freopen(path, "r", stdin)); /* popen's child reads what we read */
    FILE *said = popen(command, "r");
    assert_non_null(said);
    char line[512];
    while (fgets(line, sizeof line, said) != NULL) fputs(line, stdout);
    int status = pclose(said);
    unlink(path);
    assert_int_equal(status, 0);
}

static void the_reference_has_every_metric(void **state)
{
    (void)state;
    struct buf out;
    buf_init(&out, 0, 1 << 20);
    metrics_put_reference(&out);
    buf_put_byte(&out, '\0');
#define COUNTER(symbol, name, labels, help) assert_non_null(strstr(out.bytes, "| `" name));
#define GAUGE COUNTER
#define HISTOGRAM COUNTER
#include "metrics/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_total_is_the_sum_of_all_sheets),
        cmocka_unit_test(threads_that_each_have_a_sheet_lose_no_count),
        cmocka_unit_test(a_time_falls_into_the_first_bucket_that_holds_it),
        cmocka_unit_test(a_histogram_tells_cumulative_buckets_in_seconds),
        cmocka_unit_test(a_scrape_has_one_program_and_the_process),
        cmocka_unit_test(open_files_are_counted),
        cmocka_unit_test(each_name_is_described_once),
        cmocka_unit_test(promtool_finds_nothing_wrong),
        cmocka_unit_test(the_reference_has_every_metric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
