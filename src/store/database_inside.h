/* database_inside.h - the part that a kind of database provides to database.c; for these files
 * only.
 *
 * The data of a statement (`own`) and of a connection belong to the kind. database.c has the list
 * of statements, so that a kind only prepares, binds, steps and forgets them. */
#ifndef STORE_DATABASE_INSIDE_H
#define STORE_DATABASE_INSIDE_H

#include "store/database.h"

enum { DATABASE_STATEMENTS = 96, STATEMENT_PARAMETERS = 20 };

enum bound { BOUND_NUMBER, BOUND_TEXT, BOUND_BLOB, BOUND_TEXTS, BOUND_NUMBERS };

struct value { /* to be bound; absent bytes of a text, or is_null: NULL */
    enum bound type;
    bool is_null;
    int64_t number;
    struct str bytes;
};

struct statement {
    struct database *database;
    const char *sql; /* the literal, whose address identifies the statement */
    void *own;
};

struct database_kind {
    bool is_postgres;
    enum err (*prepare)(struct statement *s);
    void (*forget)(struct statement *s);
    void (*bind)(struct statement *s, int at, const struct value *v);
    enum err (*step)(struct statement *s);
    void (*reset)(struct statement *s);
    struct str (*text)(struct statement *s, int at);
    int64_t (*number)(struct statement *s, int at);
    /* NULL: the file or server cannot have been replaced */
    enum err (*present)(struct database *d);
    enum err (*begin)(struct database *d, bool writes);
    enum err (*commit)(struct database *d); /* rolls back on failure */
    void (*rollback)(struct database *d);
    uint64_t (*changes)(struct database *d);
    void (*deadline)(struct database *d, uint64_t monotonic_ns);
    enum err (*fault)(struct database *d, enum err err, struct fault *f);
    enum err (*execute)(struct database *d, const char *sql, struct fault *f);
    void (*close)(struct database *d);
};

struct database {
    const struct database_kind *kind;
    void *own;
    struct statement statements[DATABASE_STATEMENTS];
    size_t statement_count;
};

extern const struct database_kind database_sqlite, database_postgres;

/* Fill d->own. After a failure only close need be called. */
enum err database_sqlite_open(struct database *d, const char *path, bool writer, struct fault *f);
enum err database_postgres_open(struct database *d, const char *address, bool writer,
                                struct fault *f);

#endif
