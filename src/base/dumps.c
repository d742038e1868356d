#include "base/dumps.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/check.h"

void dumps_forbid(void)
{
    const struct rlimit none = {0};
    check(setrlimit(RLIMIT_CORE, &none) == 0);
    check(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
}
