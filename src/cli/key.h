/* key.h - what commands on keys share with those on the whole set. */
#ifndef CLI_KEY_H
#define CLI_KEY_H

#include "cli/cli.h"
#include "cli/table.h"

/* Columns: id, name, owner, tenant, roles, for whom it speaks, its state. */
void key_add_cells(struct cli *c, struct table *t, const struct json *key);
#define KEY_HEADS "ID", "*NAME", "*OWNER", "TENANT", "*ROLES", "*SPEAKS FOR", "VALID UNTIL"

/* The store and the pepper of `--data DIR [--store URL]`, NUL-terminated; in the arena. No file is
 * made. */
struct data_place {
    const char *store, *pepper;
};
int data_place_read(struct cli *c, const struct arguments *a, struct data_place *ret);

#endif
