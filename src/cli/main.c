/* writ - the command line. Everything is in cli_run(), so that tests can call it. */
#include <fcntl.h>

#include "cli/cli.h"

extern char **environ;

/* Where a caller has closed one of the standard streams, the next file or connection would take its
 * number, and what is printed would go into that: into the export that is being written, say. What
 * takes the number here refuses as a closed stream does. */
static bool standard_streams_taken(void)
{
    static const int refusing[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", refusing[fd]) != fd) return false;
    return true;
}

int main(int argc, char **argv)
{
    return standard_streams_taken() ? cli_run(argc, argv, environ, stdout, stderr) : REFUSED;
}
