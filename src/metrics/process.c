/* process.c - /proc/self, read with plain system calls: a scrape allocates nothing here.
 *
 * CPU time comes from the process's CPU clock, in nanoseconds; /proc/self/stat has the same sum
 * in steps of 10 ms. */
#include "metrics/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"

static const struct metric_row rows[PROCESS_METRICS] = {
    {"writ_process_cpu_seconds_total", "", "CPU time of the process, user and system",
     METRIC_COUNTER, PROCESS_CPU_NS},
    {"writ_process_resident_memory_bytes", "", "Resident memory of the process", METRIC_GAUGE,
     PROCESS_RESIDENT_BYTES},
    {"writ_process_open_fds", "", "Open file descriptors of the process", METRIC_GAUGE,
     PROCESS_OPEN_FDS},
    {"writ_process_start_time_seconds", "", "When the process started, in seconds since 1970",
     METRIC_GAUGE, PROCESS_START_NS}};

const struct metric_row *process_row_at(size_t index)
{
    check(index < PROCESS_METRICS);
    return &rows[index];
}

/* The file's first bytes, at most `size`. */
static struct str read_file(const char *path, char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return (struct str){0};
    size_t got;
    bool is_read = file_read(fd, to, size, &got);
    close(fd);
    return is_read ? str_of(to, got) : (struct str){0};
}

static struct str word_at(struct str line, unsigned index)
{
    struct str word = {0};
    for (unsigned i = 0; i <= index; i++)
        if (!str_split(&line, ' ', &word)) return (struct str){0};
    return word;
}

/* Field `number` (1-based, as proc(5) counts) of /proc/self/stat. The second, the program's name,
 * may hold blanks and parentheses; fields are counted from the last `)`. */
static uint64_t stat_field(struct str stat, unsigned number)
{
    size_t close = stat.size;
    while (close > 0 && stat.bytes[close - 1] != ')') close--;
    if (close + 1 >= stat.size) return 0;
    uint64_t value;
    return str_to_u64(word_at(str_skip(stat, close + 1), number - 3), &value) ? value : 0;
}

static uint64_t count_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) return 0;
    uint64_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.') count++;
    closedir(folder);
    return count - 1; /* without the descriptor that reads this directory */
}

static uint64_t ns_of(clockid_t clock)
{
    struct timespec t;
    return clock_gettime(clock, &t) == 0 ? (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec
                                         : 0;
}

void process_read(struct process *ret)
{
    char bytes[1024];
    struct str stat = read_file("/proc/self/stat", bytes, sizeof bytes);
    uint64_t ticks_per_second = (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t since_boot_ns = stat_field(stat, 22) * (1000000000 / ticks_per_second);
    /* Wall clock minus uptime is the time of the boot. */
    uint64_t boot_ns = ns_of(CLOCK_REALTIME) - ns_of(CLOCK_BOOTTIME);
    *ret =
        (struct process){.cpu_ns = ns_of(CLOCK_PROCESS_CPUTIME_ID),
                         .resident_bytes = stat_field(stat, 24) * (uint64_t)sysconf(_SC_PAGESIZE),
                         .open_fds = count_fds(),
                         .start_ns = (boot_ns + since_boot_ns) / 10000000 * 10000000};
}
