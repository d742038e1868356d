/* table.h - metrics.def as rows that a program can walk, in the table's order, so that rows of
 * one name (with different labels) stay together. Only src/metrics includes this header. */
#ifndef METRICS_TABLE_H
#define METRICS_TABLE_H

#include "metrics/metrics.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_row {
    const char *name, *labels, *help;
    enum metric_type type;
    unsigned index; /* enum metric or enum histogram */
};

size_t metric_row_count(void);
const struct metric_row *metric_row_at(size_t index);

#endif
