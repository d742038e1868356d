/* writ - the command line. Everything is in cli_run(), so that tests can call it. */
#include "cli/cli.h"

extern char **environ;

int main(int argc, char **argv) { return cli_run(argc, argv, environ, stdout, stderr); }
