/* metrics.c - sheets, and their sum as Prometheus text (exposition format 0.0.4).
 *
 * A sheet is never freed: the counts of an ended thread remain, because totals must not
 * decrease. The list of sheets only grows at its head, so a scrape walks it without a lock. A
 * scrape reads each value once, relaxed: the values of different threads are not from one
 * moment. */
#include "metrics/metrics.h"

#include <stdlib.h>

#include "base/check.h"
#include "metrics/process.h"
#include "metrics/table.h"

static _Atomic(struct metrics_sheet *) sheets;

struct metrics_sheet *metrics_sheet_create(void)
{
    struct metrics_sheet *s = calloc(1, sizeof *s);
    check(s != NULL); /* at boot */
    struct metrics_sheet *first = atomic_load_explicit(&sheets, memory_order_relaxed);
    do s->next = first;
    while (!atomic_compare_exchange_weak_explicit(&sheets, &first, s, memory_order_release,
                                                  memory_order_relaxed));
    return s;
}

#define each_sheet(s)                                                                              \
    struct metrics_sheet *s = atomic_load_explicit(&sheets, memory_order_acquire);                 \
    s != NULL;                                                                                     \
    s = s->next

uint64_t metrics_total(enum metric m)
{
    check((unsigned)m < METRIC_COUNT);
    uint64_t sum = 0;
    for (each_sheet(s)) sum += atomic_load_explicit(&s->values[m], memory_order_relaxed);
    return sum;
}

/* ---- text ---- */

static const char *const types[] = {"counter", "gauge", "histogram"}; /* by enum metric_type */

static void put_head(struct buf *out, const struct metric_row *row)
{
    buf_put_literal(out, "# HELP ");
    buf_put(out, str_from(row->name));
    buf_put_byte(out, ' ');
    buf_put(out, str_from(row->help));
    buf_put_literal(out, "\n# TYPE ");
    buf_put(out, str_from(row->name));
    buf_put_byte(out, ' ');
    buf_put(out, str_from(types[row->type]));
    buf_put_byte(out, '\n');
}

/* Seconds as a decimal fraction, exact to the last digit of the ns. */
static void put_seconds(struct buf *out, uint64_t ns)
{
    buf_put_u64(out, ns / 1000000000);
    uint64_t rest = ns % 1000000000;
    if (rest == 0) return;
    char digits[10] = ".000000000";
    size_t size = 10;
    for (size_t i = 9; i >= 1; i--, rest /= 10) digits[i] = (char)('0' + rest % 10);
    while (digits[size - 1] == '0') size--;
    buf_put(out, str_of(digits, size));
}

static void put_part(struct buf *out, const struct metric_row *row, const char *part)
{
    buf_put(out, str_from(row->name));
    buf_put(out, str_from(part));
    if (*row->labels == '\0') return;
    buf_put_byte(out, '{');
    buf_put(out, str_from(row->labels));
    buf_put_byte(out, '}');
}

static void put_value(struct buf *out, const struct metric_row *row)
{
    put_part(out, row, "");
    buf_put_byte(out, ' ');
    buf_put_u64(out, metrics_total((enum metric)row->index));
    buf_put_byte(out, '\n');
}

static void put_bucket(struct buf *out, const struct metric_row *row, unsigned k, uint64_t count)
{
    buf_put(out, str_from(row->name));
    buf_put_literal(out, "_bucket{");
    if (*row->labels != '\0') {
        buf_put(out, str_from(row->labels));
        buf_put_byte(out, ',');
    }
    buf_put_literal(out, "le=\"");
    if (k == HISTOGRAM_BUCKETS)
        buf_put_literal(out, "+Inf");
    else
        put_seconds(out, UINT64_C(1000) << k);
    buf_put_literal(out, "\"} ");
    buf_put_u64(out, count);
    buf_put_byte(out, '\n');
}

/* The count is the sum of the buckets just read, so that +Inf and _count always agree. */
static void put_histogram(struct buf *out, const struct metric_row *row)
{
    uint64_t buckets[HISTOGRAM_BUCKETS + 1] = {0}, sum_ns = 0, count = 0;
    for (each_sheet(s)) {
        struct metrics_histogram *h = &s->histograms[row->index];
        for (unsigned k = 0; k <= HISTOGRAM_BUCKETS; k++)
            buckets[k] += atomic_load_explicit(&h->buckets[k], memory_order_relaxed);
        sum_ns += atomic_load_explicit(&h->sum_ns, memory_order_relaxed);
    }
    for (unsigned k = 0; k <= HISTOGRAM_BUCKETS; k++) {
        count += buckets[k];
        put_bucket(out, row, k, count);
    }
    put_part(out, row, "_sum");
    buf_put_byte(out, ' ');
    put_seconds(out, sum_ns);
    buf_put_byte(out, '\n');
    put_part(out, row, "_count");
    buf_put_byte(out, ' ');
    buf_put_u64(out, count);
    buf_put_byte(out, '\n');
}

static void put_process(struct buf *out, const struct metric_row *row, const struct process *p)
{
    buf_put(out, str_from(row->name));
    buf_put_byte(out, ' ');
    switch ((enum process_metric)row->index) {
    case PROCESS_CPU_NS: put_seconds(out, p->cpu_ns); break;
    case PROCESS_RESIDENT_BYTES: buf_put_u64(out, p->resident_bytes); break;
    case PROCESS_OPEN_FDS: buf_put_u64(out, p->open_fds); break;
    case PROCESS_START_NS: put_seconds(out, p->start_ns); break;
    case PROCESS_METRICS: break;
    }
    buf_put_byte(out, '\n');
}

void metrics_put(struct buf *out, struct str prefix)
{
    const char *told = "";
    for (size_t i = 0; i < metric_row_count(); i++) {
        const struct metric_row *row = metric_row_at(i);
        if (!str_starts(str_from(row->name), prefix)) continue;
        if (strcmp(told, row->name) != 0) put_head(out, row);
        told = row->name;
        if (row->type == METRIC_HISTOGRAM)
            put_histogram(out, row);
        else
            put_value(out, row);
    }
    struct process p;
    process_read(&p);
    for (size_t i = 0; i < PROCESS_METRICS; i++) {
        const struct metric_row *row = process_row_at(i);
        put_head(out, row);
        put_process(out, row, &p);
    }
}

/* ---- schemas/metrics.md ---- */

static void put_reference_row(struct buf *out, const struct metric_row *row)
{
    buf_printf(out, "| `%s", row->name);
    if (*row->labels != '\0') buf_printf(out, "{%s}", row->labels);
    buf_printf(out, "` | %s | %s |\n", types[row->type], row->help);
}

static void put_section(struct buf *out, const char *title, const char *prefix)
{
    buf_printf(out, "\n## %s\n\n| metric | type | what it is |\n|---|---|---|\n", title);
    for (size_t i = 0; i < metric_row_count(); i++)
        if (str_starts(str_from(metric_row_at(i)->name), str_from(prefix)))
            put_reference_row(out, metric_row_at(i));
}

void metrics_put_reference(struct buf *out)
{
    buf_put_literal(
        out,
        "# Metrics\n\n"
        "<!-- Made by `writ docs metrics` from src/metrics/metrics.def; change it there. -->\n\n"
        "`GET /metrics` of each program, in Prometheus text (0.0.4). It needs a key with role `metrics`\n"
        "or `admin`, unless `metrics.public` is set. Label values are fixed: none comes from a request.\n"
        "Histograms have buckets that double from 1 µs to 33.6 s. Counters start at 0 with the process.\n");
    put_section(out, "writ-engine", "writ_engine_");
    put_section(out, "writ-platform", "writ_platform_");
    buf_put_literal(out,
                    "\n## Both: the process\n\n| metric | type | what it is |\n|---|---|---|\n");
    for (size_t i = 0; i < PROCESS_METRICS; i++) put_reference_row(out, process_row_at(i));
}
