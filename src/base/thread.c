#include "base/thread.h"

#include <sched.h>
#include <sys/resource.h>

#include "base/check.h"

bool thread_step_back(int nice)
{
    const struct sched_param none = {0};
    check(nice >= 1 && nice <= 19);
    /* On Linux both are of this thread alone. */
    return sched_setscheduler(0, SCHED_BATCH, &none) == 0 && setpriority(PRIO_PROCESS, 0, nice) == 0;
}
