/* cel_run.h - between the files of `writ cel`. */
#ifndef CLI_CEL_RUN_H
#define CLI_CEL_RUN_H

#include "cli/cli.h"

/* Answers the specification's tests on standard input until its end; the protocol is at the top of
 * cel_conformance.c. */
int cel_conformance(struct cli *c);

#endif
