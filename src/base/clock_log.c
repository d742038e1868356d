#include "base/clock_log.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/log.h"
#include "base/world.h"

void clock_log(void)
{
    static atomic_bool is_logged;
    char text[CLOCK_TROUBLE_TEXT];
    bool trouble = world_clock_trouble(text);
    if (atomic_exchange(&is_logged, trouble) == trouble) return;
    if (trouble)
        log_text(LOG_WARNING, "clock_set", "%s", text);
    else
        log_line(LOG_INFO, "clock_caught_up", NULL);
}
