/* database.c - the list of statements, and one call for either kind of database. */
#include "store/database_inside.h"

#include <stdlib.h>

#include "base/check.h"

bool database_is_postgres(const struct database *d) { return d->kind->is_postgres; }

void database_close(struct database *d)
{
    if (d == NULL) return;
    for (size_t i = 0; i < d->statement_count; i++) d->kind->forget(&d->statements[i]);
    d->kind->close(d);
    free(d);
}

/* ---- statements ---- */

struct statement *database_statement(struct database *d, const char *sql)
{
    for (size_t i = 0; i < d->statement_count; i++) {
        if (d->statements[i].sql != sql) continue;
        d->kind->reset(&d->statements[i]);
        return &d->statements[i];
    }
    check(d->statement_count < DATABASE_STATEMENTS);
    struct statement *s = &d->statements[d->statement_count];
    *s = (struct statement){.database = d, .sql = sql};
    if (d->kind->prepare(s) != ERR_OK) return NULL;
    d->statement_count++;
    return s;
}

enum err statement_step(struct statement *s)
{
    return s == NULL ? ERR_STORE_UNAVAILABLE : s->database->kind->step(s);
}

enum err statement_run(struct statement *s)
{
    enum err err;
    do err = statement_step(s);
    while (err == ERR_OK);
    statement_reset(s);
    return err == ERR_END ? ERR_OK : err;
}

enum err statement_finds(struct statement *s, bool *ret)
{
    enum err err = statement_step(s);
    statement_reset(s);
    if (err != ERR_OK && err != ERR_END) return err;
    *ret = err == ERR_OK;
    return ERR_OK;
}

void statement_reset(struct statement *s)
{
    if (s != NULL) s->database->kind->reset(s);
}

static void bind(struct statement *s, int at, struct value v)
{
    check(at >= 1 && at <= STATEMENT_PARAMETERS);
    check(v.bytes.size <= INT32_MAX);
    if (s != NULL) s->database->kind->bind(s, at, &v);
}

void bind_text(struct statement *s, int at, struct str text)
{
    bind(s, at, (struct value){.type = BOUND_TEXT, .bytes = text, .is_null = str_is_absent(text)});
}

void bind_blob(struct statement *s, int at, struct str bytes)
{
    bind(s, at,
         (struct value){.type = BOUND_BLOB, .bytes = bytes, .is_null = str_is_absent(bytes)});
}

void bind_u64(struct statement *s, int at, uint64_t value)
{
    check(value <= INT64_MAX);
    bind(s, at, (struct value){.type = BOUND_NUMBER, .number = (int64_t)value});
}

void bind_bits(struct statement *s, int at, uint64_t bits)
{
    bind(s, at, (struct value){.type = BOUND_NUMBER, .number = (int64_t)bits});
}

void bind_time(struct statement *s, int at, uint64_t ms)
{
    check(ms <= INT64_MAX);
    bind(s, at, (struct value){.type = BOUND_NUMBER, .number = (int64_t)ms, .is_null = ms == 0});
}

void bind_texts(struct statement *s, int at, struct str literal)
{
    bind(s, at, (struct value){.type = BOUND_TEXTS, .bytes = literal});
}

void bind_numbers(struct statement *s, int at, struct str literal)
{
    bind(s, at, (struct value){.type = BOUND_NUMBERS, .bytes = literal});
}

struct str column_text(struct statement *s, int at) { return s->database->kind->text(s, at); }

uint64_t column_u64(struct statement *s, int at)
{
    int64_t value = s->database->kind->number(s, at);
    return value < 0 ? 0 : (uint64_t)value;
}

uint64_t column_bits(struct statement *s, int at)
{
    return (uint64_t)s->database->kind->number(s, at);
}

/* ---- transactions ---- */

static void reset_all(struct database *d)
{
    /* A statement that still stands at a row would keep its snapshot beyond the transaction. */
    for (size_t i = 0; i < d->statement_count; i++) d->kind->reset(&d->statements[i]);
}

enum err database_present(struct database *d)
{
    return d->kind->present == NULL ? ERR_OK : d->kind->present(d);
}

enum err database_begin(struct database *d)
{
    enum err err = database_present(d);
    return err == ERR_OK ? d->kind->begin(d, true) : err;
}

enum err database_begin_read(struct database *d) { return d->kind->begin(d, false); }

enum err database_commit(struct database *d)
{
    reset_all(d);
    return d->kind->commit(d);
}

void database_rollback(struct database *d)
{
    reset_all(d);
    d->kind->rollback(d);
}

uint64_t database_changes(struct database *d) { return d->kind->changes(d); }

void database_deadline(struct database *d, uint64_t monotonic_ns)
{
    d->kind->deadline(d, monotonic_ns);
}

enum err database_fault(struct database *d, enum err err, struct fault *f)
{
    return d->kind->fault(d, err, f);
}

enum err database_execute(struct database *d, const char *sql, struct fault *f)
{
    return d->kind->execute(d, sql, f);
}
