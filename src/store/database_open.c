/* database_open.c - opens the right kind of database, and migrates its schema. */
#include "store/database_inside.h"

#include <stdlib.h>

bool database_is_address(const char *place)
{
    struct str s = str_from(place);
    return str_starts(s, STR("postgresql://")) || str_starts(s, STR("postgres://"));
}

enum err database_open(const char *place, bool writer, struct database **ret, struct fault *f)
{
    struct database *d = calloc(1, sizeof *d);
    if (d == NULL) return fault_plain(f, ERR_FULL);
    bool is_address = database_is_address(place);
    d->kind = is_address ? &database_postgres : &database_sqlite;
    enum err err = is_address ? database_postgres_open(d, place, writer, f)
                              : database_sqlite_open(d, place, writer, f);
    if (err == ERR_OK && writer) err = database_migrate(d, f);
    if (err != ERR_OK) {
        database_close(d);
        return err;
    }
    *ret = d;
    return ERR_OK;
}
