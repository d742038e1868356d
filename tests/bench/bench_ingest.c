/* bench_ingest.c - how fast batches of an engine's stream become rows, and how fast a trace is
 * found among them. Usage: bench_ingest [rows] [batch] [directory | postgresql://…]: in a file that
 * is deleted afterwards, or in an empty database.
 *
 * Events vary as real ones do: random trace ids, ids by time, 200 actors and actions, four
 * outcomes, about 1.1 KB each. Prints one JSON line per stage; everything is committed and synced
 * batch by batch, as the platform does it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "base/world.h"
#include "pipeline/ingest/stream.h"
#include "store/set.h"
#include "store/store.h"

static struct chance chance;

static uint64_t random_u64(void)
{
    uint64_t value;
    chance_take(&chance, &value, sizeof value);
    return value;
}

static void put_hex(struct buf *b, size_t size)
{
    uint8_t bytes[32];
    chance_take(&chance, bytes, size);
    buf_put_hex(b, bytes, size);
}

struct trace_ids {
    char (*list)[32];
    size_t count;
};

static void put_decision(struct buf *b, uint64_t n, struct trace_ids *traces)
{
    static const char *const decisions[] = {"allow", "deny", "human_review", "compute"};
    char id[ID_TEXT], request[ID_TEXT], time[TIME_TEXT];
    uint64_t now = world_now_ms();
    unsigned who = (unsigned)(random_u64() % 200), what = (unsigned)(random_u64() % 200),
             how = (unsigned)(random_u64() % 4);
    id_write("evt_", id_make(now, &chance), id);
    id_write("req_", id_make(now, &chance), request);
    time_write(now, time);
    buf_printf(b,
               "{\"action\":\"tool_number_%u\",\"actor\":\"agent_%u\",\"args\":{\"account\":\"%"
               "llu\",\"amount\":%u,\"note\":\""
               "Please transfer what was agreed upon to the account of the customer, as soon as it "
               "may be.\","
               "\"recipients\":[\"ann@example.com\",\"bob@example.com\"]},\"confidence\":0.87,"
               "\"decision\":\"%s\",\"engine_version\":"
               "\"0.1.0\",\"event_id\":\"%.*s\",\"input_hash\":\"",
               what, who, (unsigned long long)random_u64(), (unsigned)(random_u64() % 1000),
               decisions[how], ID_TEXT, id);
    put_hex(b, 32);
    buf_put_literal(b, "\",\"key_id\":\"key_01JD000000000000000000000A\",\"kind\":\"decision\","
                       "\"latency_ms\":0.041,\"mode\":\"live\",\"output_hash\":\"");
    put_hex(b, 32);
    buf_put_literal(
        b,
        "\",\"policy_digest\":\"9c1e000000000000000000000000000000000000000000000000000000000000\","
        "\"policy_name\":\"payments\","
        "\"policy_version\":7,\"reason\":\"Refunds over 500 need finance.\",\"request_id\":\"");
    buf_put(b, str_of(request, ID_TEXT));
    buf_printf(b,
               "\",\"rule\":\"%s:rule-%u\",\"tenant_id\":\"default\",\"timestamp\":\"%.*s\","
               "\"trace_id\":\"",
               decisions[how], what, TIME_TEXT, time);
    size_t at = b->size;
    put_hex(b, 16);
    memcpy(traces->list[n], b->bytes + at, 32);
    traces->count = n + 1;
    buf_put_literal(b, "\"}\n");
}

static void fill(struct buf *b, uint64_t first, uint64_t count, struct trace_ids *traces)
{
    buf_clear(b);
    for (uint64_t n = first; n < first + count; n++) {
        if (n == 0)
            buf_put_literal(b, "{\"event_id\":\"evt_00000000000000000000000000\",\"kind\":\"engine."
                               "started\",\"tenant_id\":\"default\","
                               "\"timestamp\":\"2026-11-20T09:30:00.123Z\"}\n");
        else
            put_decision(b, n, traces);
    }
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static const struct pepper pepper = {{1}};

static void take(struct store *s, uint64_t rows, uint64_t batch_rows, struct trace_ids *traces)
{
    struct str any[] = {STR("*")};
    const struct globs all = {any, 1};
    struct buf body;
    struct ingest_result result;
    struct fault f;
    struct sha256 of_all = pepper_derive(&pepper, STR(RUN_KEY_LABEL));
    uint64_t wall = 0, cpu = 0, bytes = 0, done = 0, told = 0, told_wall = 0;
    buf_init(&body, 1 << 20, 64 << 20);
    while (done < rows) {
        uint64_t count = rows - done < batch_rows ? rows - done : batch_rows;
        fill(&body, done, count, traces);
        struct ingest_batch batch = {.node = STR("node-1"),
                                     .journal = STR("0"),
                                     .epoch = STR("1111111111111111"),
                                     .first_seq = done + 1,
                                     .body = buf_view(&body),
                                     .tenants = &all,
                                     .now_ms = world_now_ms()};
        char hex[SHA256_HEX];
        sha256_write_hex(ingest_mac(&of_all, &batch), hex);
        batch.mac = str_of(hex, sizeof hex);
        uint64_t begin = world_monotonic_ns(), begin_cpu = cpu_ns();
        if (ingest_stream(s, &batch, &result, &f) != ERR_OK) {
            fprintf(stderr, "%s\n", f.text);
            exit(1);
        }
        wall += world_monotonic_ns() - begin;
        cpu += cpu_ns() - begin_cpu;
        bytes += body.size;
        done += count;
        if (done - told < rows / 5 && done < rows) continue;
        printf("{\"name\":\"ingest\",\"rows\":%llu,\"rows_s\":%.0f,\"rows_s_all\":%.0f,\"cpu_us_"
               "per_row\":%.2f,\"event_bytes\":%.0f}\n",
               (unsigned long long)done, (double)(done - told) * 1e9 / (double)(wall - told_wall),
               (double)done * 1e9 / (double)wall, (double)cpu / (double)done / 1000,
               (double)bytes / (double)done);
        fflush(stdout);
        told = done;
        told_wall = wall;
    }
    buf_fini(&body);
}

static bool count_row(void *context, const struct audit_stored *row)
{
    (void)row;
    ++*(uint64_t *)context;
    return true;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

enum { LOOKUPS = 5000 };

static void ask(const char *path, const struct trace_ids *traces)
{
    static uint64_t took[LOOKUPS];
    struct store *s;
    struct fault f;
    if (store_open(path, false, &s, &f) != ERR_OK) exit(1);
    struct audit_store *audit = store_audit(s);
    uint64_t found = 0;
    for (size_t i = 0; i < LOOKUPS; i++) {
        const struct audit_query q = {
            .tenant = STR("default"),
            .oldest_first = true,
            .limit = 501,
            .trace_id = str_of(traces->list[1 + random_u64() % (traces->count - 1)], 32)};
        uint64_t begin = world_monotonic_ns();
        (void)audit->ops->query(audit->state, &q, count_row, &found);
        took[i] = world_monotonic_ns() - begin;
    }
    qsort(took, LOOKUPS, sizeof *took, by_value);
    printf("{\"name\":\"trace\",\"lookups\":%d,\"found\":%llu,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
           LOOKUPS, (unsigned long long)found, (double)took[LOOKUPS / 2] / 1000,
           (double)took[LOOKUPS * 99 / 100] / 1000);
    store_close(s);
}

int main(int argc, char **argv)
{
    uint64_t rows = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000,
             batch = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000;
    const char *place = argc > 3 ? argv[3] : ".";
    bool is_address = store_is_address(place);
    char folder[256], path[320];
    snprintf(folder, sizeof folder, "%s/writ-bench-XXXXXX", place);
    if (rows < 2 || batch < 1 || (!is_address && mkdtemp(folder) == NULL)) {
        fprintf(stderr, "usage: bench_ingest [rows] [batch] [directory | postgresql://…]: %s\n",
                strerror(errno));
        return 2;
    }
    struct trace_ids traces = {.list = calloc(rows, 32)};
    struct store *s;
    struct fault f;
    snprintf(path, sizeof path, is_address ? "%.300s" : "%.300s/platform.db",
             is_address ? place : folder);
    if (traces.list == NULL || store_open(path, true, &s, &f) != ERR_OK) {
        fprintf(stderr, "%s\n", f.text);
        return 1;
    }
    store_share_pepper(s, &pepper);
    take(s, rows, batch, &traces);
    ask(path, &traces);
    store_close(s);
    free(traces.list);
    if (is_address) return 0;
    unlink(path);
    rmdir(folder);
    return 0;
}
