/* writ - the command line. Everything is in cli_run(), so that tests can call it. */
#include "base/descriptors.h"
#include "cli/cli.h"

extern char **environ;

int main(int argc, char **argv)
{
    return descriptors_take_standard() ? cli_run(argc, argv, environ, stdout, stderr) : REFUSED;
}
