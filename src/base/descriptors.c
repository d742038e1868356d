#include "base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "base/log.h"

enum { ENOUGH = 65536, OWN_LEAST = 128, OWN_MOST = 1024, CLIENTS_LEAST = 8 };

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t most(uint64_t a, uint64_t b) { return a > b ? a : b; }

bool descriptors_take_standard(void)
{
    static const int refusing[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", refusing[fd]) != fd) return false;
    return true;
}

enum err descriptors_for_clients(uint64_t needed, uint64_t *connections, struct fault *f)
{
    uint64_t wanted = *connections;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return ERR_OK;
    limit.rlim_cur = least(limit.rlim_max, most(ENOUGH, wanted + OWN_MOST));
    setrlimit(RLIMIT_NOFILE, &limit);
    uint64_t all = limit.rlim_cur;
    if (all < needed + CLIENTS_LEAST)
        return fault_set(f, ERR_BAD_VALUE, "", "ulimit -n is %llu, and %llu are needed",
                         (unsigned long long)all, (unsigned long long)needed + CLIENTS_LEAST);
    uint64_t own = least(most(least(all / 4, OWN_MOST), OWN_LEAST), all / 2);
    uint64_t clients = all - most(own, needed);
    if (wanted <= clients) return ERR_OK;
    log_text(LOG_WARNING, "connections_lowered",
             "http.connections is %llu, and %llu file descriptors (ulimit -n) leave room for %llu",
             (unsigned long long)wanted, (unsigned long long)all, (unsigned long long)clients);
    *connections = clients;
    return ERR_OK;
}
