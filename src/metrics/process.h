/* process.h - the kernel's figures about this process: CPU time, memory, files, start.
 *
 * Read again at every scrape; a value that cannot be read is 0. Only src/metrics includes this
 * header. Any thread. */
#ifndef METRICS_PROCESS_H
#define METRICS_PROCESS_H

#include "metrics/table.h"

struct process {
    uint64_t cpu_ns; /* user and system, all threads */
    uint64_t resident_bytes;
    uint64_t open_fds;
    uint64_t start_ns; /* since 1970 */
};

enum process_metric {
    PROCESS_CPU_NS,
    PROCESS_RESIDENT_BYTES,
    PROCESS_OPEN_FDS,
    PROCESS_START_NS,
    PROCESS_METRICS
};

void process_read(struct process *ret);
const struct metric_row *process_row_at(size_t index); /* < PROCESS_METRICS */

#endif
