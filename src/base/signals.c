#include "base/signals.h"

#include <signal.h>

void signals_ignore(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);  /* nothing is read again, and who means the end says TERM */
    signal(SIGUSR1, SIG_IGN); /* nor is a log opened anew: who rotates it sends this, too */
    signal(SIGUSR2, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow (ulimit -f) is an error, too */
}
