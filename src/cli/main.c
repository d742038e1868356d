/* writ - the command line. The whole program is in cli_run(), so that tests can call it. */
#include "base/descriptors.h"
#include "cli/cli.h"

extern char **environ;

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "hook") == 0) return hook_start(argc - 1, argv + 1);
    return descriptors_take_standard() ? cli_run(argc, argv, environ, stdout, stderr) : REFUSED;
}
