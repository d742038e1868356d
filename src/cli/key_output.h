/* key_output.h - the file of --output, for a new key.
 *
 *   FILE       is made before the key is, so that no key is made that cannot be kept
 *   FILE.new   with --force: is made instead, and renamed over FILE when the key is in it
 *
 * Both have mode 0600 from the beginning, whatever the umask is. */
#ifndef CLI_KEY_OUTPUT_H
#define CLI_KEY_OUTPUT_H

#include "cli/cli.h"

struct key_output {
    const char *path; /* NULL: no file; the key is printed */
    const char *made; /* FILE or FILE.new; in the arena */
    int fd;           /* -1: none */
};

/* Rows of a table of flags. */
#define KEY_OUTPUT_FLAGS                                                                           \
    {"output", "FILE", "write the key into this new file (mode 0600) instead of printing it"},     \
    {                                                                                              \
        "force", NULL, "with --output: replace the file if it exists"                              \
    }

/* Prints its own error: DONE or USAGE. */
int key_output_open(struct cli *c, const struct arguments *a, struct key_output *ret);
/* Writes the key and closes the file. Prints its own error: DONE or REFUSED. */
int key_output_commit(struct cli *c, struct key_output *o, struct str key);
/* After a failure: removes what key_output_open() made. Does nothing after a commit. */
void key_output_abandon(struct key_output *o);

#endif
