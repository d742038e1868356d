#include "base/signals.h"

#include <signal.h>

void signals_ignore(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* a program that reads files again takes it back */
    /* the log is not reopened either; log rotation sends this signal, too */
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow (ulimit -f) is an error as well */
}
