/* metrics.h - counters, gauges and histograms from one table (metrics.def), in Prometheus text.
 *
 * Each thread writes its own sheet with relaxed atomics (single writer); a scrape sums the
 * sheets. Label values come from the table, never from a request. */
#ifndef METRICS_METRICS_H
#define METRICS_METRICS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"

/* metrics.def rows:
 *   COUNTER(symbol, "name", "labels or empty", "help")   symbol per label combination
 *   GAUGE(symbol, "name", "labels or empty", "help")
 *   HISTOGRAM(symbol, "name", "labels or empty", "help")  observed in nanoseconds, written
 *                                                         in seconds */
enum metric {
#define COUNTER(symbol, name, labels, help) METRIC_##symbol,
#define GAUGE(symbol, name, labels, help) METRIC_##symbol,
#define HISTOGRAM(symbol, name, labels, help)
#include "metrics/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
    METRIC_COUNT
};

enum histogram {
#define COUNTER(symbol, name, labels, help)
#define GAUGE(symbol, name, labels, help)
#define HISTOGRAM(symbol, name, labels, help) HISTOGRAM_##symbol,
#include "metrics/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
    HISTOGRAM_COUNT
};

/* Buckets double from 1 µs: le = 1e-6 × 2^k seconds, k = 0 … 25 (33.6 s), then +Inf. */
enum { HISTOGRAM_BUCKETS = 26 };

struct metrics_histogram {
    _Atomic uint64_t buckets[HISTOGRAM_BUCKETS + 1];
    _Atomic uint64_t sum_ns;
};

struct metrics_sheet { /* one thread's */
    _Atomic uint64_t values[METRIC_COUNT];
    struct metrics_histogram histograms[HISTOGRAM_COUNT];
    struct metrics_sheet *next;
};

/* A new sheet, known to scrapes until the process ends. Any thread. */
struct metrics_sheet *metrics_sheet_create(void);

static inline void metric_add(struct metrics_sheet *s, enum metric m, uint64_t by)
{
    uint64_t now = atomic_load_explicit(&s->values[m], memory_order_relaxed);
    atomic_store_explicit(&s->values[m], now + by, memory_order_relaxed);
}

static inline void metric_set(struct metrics_sheet *s, enum metric m, uint64_t value)
{
    atomic_store_explicit(&s->values[m], value, memory_order_relaxed);
}

static inline void metric_observe(struct metrics_sheet *s, enum histogram h, uint64_t ns)
{
    uint64_t microseconds = (ns + 999) / 1000;
    unsigned bucket = microseconds <= 1 ? 0 : 64u - (unsigned)__builtin_clzll(microseconds - 1);
    if (bucket > HISTOGRAM_BUCKETS) bucket = HISTOGRAM_BUCKETS;
    _Atomic uint64_t *count = &s->histograms[h].buckets[bucket], *sum = &s->histograms[h].sum_ns;
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + ns,
                          memory_order_relaxed);
}

uint64_t metrics_total(enum metric m); /* over all sheets */

/* Appends the text exposition (version 0.0.4) of those metrics whose name starts with `prefix`
 * ("writ_engine_", "writ_platform_") or with "writ_process_", which is read from /proc. */
void metrics_put(struct buf *out, struct str prefix);

void metrics_put_reference(struct buf *out); /* schemas/metrics.md */

#endif
