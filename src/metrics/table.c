#include "metrics/table.h"

#include "base/check.h"

static const struct metric_row rows[] = {
#define COUNTER(symbol, name, labels, help) {name, labels, help, METRIC_COUNTER, METRIC_##symbol},
#define GAUGE(symbol, name, labels, help) {name, labels, help, METRIC_GAUGE, METRIC_##symbol},
#define HISTOGRAM(symbol, name, labels, help)                                                      \
    {name, labels, help, METRIC_HISTOGRAM, HISTOGRAM_##symbol},
#include "metrics/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
};

size_t metric_row_count(void) { return sizeof rows / sizeof rows[0]; }

const struct metric_row *metric_row_at(size_t index)
{
    check(index < metric_row_count());
    return &rows[index];
}
