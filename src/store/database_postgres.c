/* database_postgres.c - the only user of libpq.
 *
 * One connection, one thread, and no call that waits forever. Everything is sent and awaited with a
 * time limit, since a stopped server, or one behind a firewall, sends nothing. After the time limit
 * the connection is closed. Only the server then knows whether the last commit held, and every
 * caller finds out by reading its position again.
 *
 *   LOST --connect, settings, identity--> IDLE --begin--> WITHIN --commit, rollback--> IDLE
 *     ^------------- any failure of the connection ------------'
 *
 * The next begin, or the next statement outside of a transaction, replaces a lost connection.
 * Within a transaction it is never replaced, because the first half would be missing. It must lead
 * to the same database: `log_id` is compared. libpq resolves the server's name itself, and waits as
 * long as getaddrinfo() does. So `reach` resolves it first, except at the start, which may take
 * that long.
 *
 * Values travel in the protocol's binary form, results as text. Types are set when a statement is
 * prepared, at its first step, when everything is bound, so the server guesses no parameter's
 * type. */
#include "store/database_inside.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/world.h"
#include "base/reach.h"

enum {
    CONNECT_SECONDS = 5,
    ANSWER_MS = 15000, /* of one statement; the server gives up sooner, see `settings` */
    /* of a change of the schema, or a scan of a partition; see be_patient() */
    PATIENT_MS = 605000,
    TYPE_BIGINT = 20, /* pg_type.dat: never changes */
    TYPE_TEXT = 25,
    TYPE_BYTEA = 17,
    TYPE_TEXTS = 1009,
    TYPE_BIGINTS = 1016,
    NAME_TEXT = 16,
    LOG_ID_MAX = 64,
    HOST_MAX = 1025, /* NI_MAXHOST */
};

/* A platform that hangs while it holds the write lock must not hang the others. The server ends its
 * statement or its transaction, and soon notices that its machine is gone. The lock timeout is
 * shorter than the statement timeout. Otherwise a wait for another client's lock would be reported
 * as a slow statement. */
static const char writer_settings[] =
    "SET statement_timeout = '10s'; SET lock_timeout = '5s';"
    "SET idle_in_transaction_session_timeout = '10s';"
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;"
    "SET client_min_messages = 'warning'; SET jit = off; SET plan_cache_mode = 'force_custom_plan';"
    /* Commits that happened during the wait for the lock must be visible. */
    "SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;"
    /* An answered commit must be on the disk: positions depend on it. */
    "SELECT set_config('synchronous_commit', 'on', false) WHERE "
    "current_setting('synchronous_commit') = 'off'";
static const char reader_settings[] =
    "SET statement_timeout = '5s'; SET lock_timeout = '2s';"
    "SET idle_in_transaction_session_timeout = '10s';"
    "SET default_transaction_read_only = on; SET default_transaction_isolation = 'repeatable read';"
    /* a custom plan selects the partition by the ids */
    "SET plan_cache_mode = 'force_custom_plan';"
    /* Each of our queries has its index. Old statistics must not make the planner ignore it. */
    "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;"
    "SET client_min_messages = 'warning'; SET jit = off";

struct connection {
    PGconn *client; /* NULL: lost */
    char *address;
    char *hosts; /* a list as in libpq; NULL: the hosts are numeric, or not known yet */
    struct reach reach;
    bool writer;
    bool within;   /* in a transaction, as the caller sees it: also after the connection was lost */
    uint64_t life; /* of the connection: statements of an earlier one are not prepared */
    uint64_t changes, next_id, deadline_ns;
    char log_id[LOG_ID_MAX];     /* "": not known yet */
    uint64_t answer_ms;          /* the time limit of a statement */
    database_end_copy *end_copy; /* of the open COPY; NULL: none is open */
    void *end_context;
    char text[320]; /* of the last failure */
};

struct own { /* of a statement */
    char name[NAME_TEXT];
    uint64_t life; /* in which it was prepared; 0: never */
    int count;     /* of parameters */
    Oid types[STATEMENT_PARAMETERS];
    const char *values[STATEMENT_PARAMETERS];
    int sizes[STATEMENT_PARAMETERS];
    int formats[STATEMENT_PARAMETERS];
    uint64_t numbers[STATEMENT_PARAMETERS]; /* big-endian: the values point here */
    PGresult *result;
    int row;
};

static struct connection *own_of(const struct database *d) { return d->own; }

/* ---- failures ---- */

/* Stores the first line of a text of libpq or the server, without its prefix. */
static void say(struct connection *c, const char *text)
{
    struct str s = str_from(text);
    if (str_starts(s, STR("ERROR:"))) s = str_skip(s, 6);
    while (s.size > 0 && s.bytes[0] == ' ') s = str_skip(s, 1);
    s.size = str_find(s, '\n');
    snprintf(c->text, sizeof c->text, "%.*s", STR_FORMAT(s));
}

static void lose(struct connection *c)
{
    PQfinish(c->client);
    c->client = NULL;
    c->end_copy = NULL;
}

static bool state_is(const char *state, const char *prefix)
{
    return strncmp(state, prefix, strlen(prefix)) == 0;
}

/* SQLSTATE classes (PostgreSQL's appendix A). */
static enum err err_from_state(const char *state)
{
    if (state_is(state, "23505")) return ERR_EXISTS;
    if (state_is(state, "57014")) return ERR_TIMEOUT; /* statement_timeout */
    if (state_is(state, "53100")) return ERR_NO_SPACE;
    if (state_is(state, "XX001") || state_is(state, "XX002")) return ERR_CORRUPT;
    /* Connections, resources, shutdown, locks, a transaction that must be tried again, a
     * standby. */
    if (state_is(state, "08") || state_is(state, "53") || state_is(state, "57") ||
        state_is(state, "55P03") || state_is(state, "40") || state_is(state, "25"))
        return ERR_STORE_UNAVAILABLE;
    /* Except for missing rights: values, constraints and queries are our errors. */
    if (!state_is(state, "42501") &&
        (state_is(state, "22") || state_is(state, "23") || state_is(state, "42")))
        return ERR_INTERNAL;
    return ERR_IO;
}

static enum err failed(struct connection *c, const PGresult *r)
{
    const char *state = r == NULL ? NULL : PQresultErrorField(r, PG_DIAG_SQLSTATE);
    say(c, r == NULL ? PQerrorMessage(c->client) : PQresultErrorMessage(r));
    /* A read-only server (25006) was the primary before: the next connection finds the new one. */
    if (PQstatus(c->client) == CONNECTION_BAD || (state != NULL && state_is(state, "25006"))) {
        lose(c);
        return ERR_STORE_UNAVAILABLE;
    }
    return state == NULL ? ERR_STORE_UNAVAILABLE : err_from_state(state);
}

static enum err fault(struct database *d, enum err err, struct fault *f)
{
    const struct connection *c = d->own;
    return fault_set(f, err, "", "store: PostgreSQL: %s",
                     c->text[0] != '\0' ? c->text : err_sentence(err));
}

/* ---- waiting ---- */

/* Waits until the socket is ready or the time is over. */
static bool await(struct connection *c, short events, uint64_t until_ns)
{
    for (;;) {
        uint64_t now = world_monotonic_ns();
        if (now >= until_ns) return false;
        struct pollfd p = {.fd = PQsocket(c->client), .events = events};
        int ready = poll(&p, 1, (int)((until_ns - now) / 1000000) + 1);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

static enum err no_answer(struct connection *c)
{
    if (PQstatus(c->client) == CONNECTION_BAD) return failed(c, NULL);
    snprintf(c->text, sizeof c->text, "the server does not answer");
    lose(c);
    return ERR_STORE_UNAVAILABLE;
}

static enum err send_all(struct connection *c, uint64_t until_ns)
{
    int left;
    while ((left = PQflush(c->client)) == 1) {
        if (!await(c, POLLIN | POLLOUT, until_ns)) return no_answer(c);
        if (PQconsumeInput(c->client) == 0) return no_answer(c);
    }
    return left == 0 ? ERR_OK : no_answer(c);
}

/* The next result; NULL: there is none. */
static enum err next_result(struct connection *c, uint64_t until_ns, PGresult **ret)
{
    while (PQisBusy(c->client) != 0) {
        if (!await(c, POLLIN, until_ns)) return no_answer(c);
        if (PQconsumeInput(c->client) == 0) return no_answer(c);
    }
    *ret = PQgetResult(c->client);
    return ERR_OK;
}

static bool is_fine(const PGresult *r)
{
    ExecStatusType status = PQresultStatus(r);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_EMPTY_QUERY;
}

static uint64_t deadline_of(const struct connection *c, uint64_t ms)
{
    uint64_t until = world_monotonic_ns() + ms * 1000000;
    /* The server ends a query by itself, and gets one more second to answer. */
    uint64_t wanted = c->deadline_ns == 0 ? UINT64_MAX : c->deadline_ns + 1000000000u;
    return until < wanted ? until : wanted;
}

/* Reads all results of a query: returns the last (*ret, if it is not NULL), or the first
 * failure. */
static enum err finish(struct connection *c, uint64_t ms, PGresult **ret)
{
    uint64_t until = deadline_of(c, ms);
    enum err err = send_all(c, until), first = ERR_OK;
    PGresult *r = NULL, *last = NULL;
    while (err == ERR_OK && (err = next_result(c, until, &r)) == ERR_OK && r != NULL) {
        if (!is_fine(r) && first == ERR_OK) first = failed(c, r);
        PQclear(last);
        last = r;
        if (c->client == NULL) break; /* failed() closed it */
        if (PQresultStatus(r) == PGRES_COPY_IN) break;
    }
    if (err == ERR_OK) err = first;
    if (err == ERR_OK && ret != NULL) {
        *ret = last;
        return ERR_OK;
    }
    PQclear(last);
    return err;
}

static enum err run_sql(struct connection *c, const char *sql, uint64_t ms, PGresult **ret)
{
    if (c->client == NULL) return ERR_STORE_UNAVAILABLE;
    if (PQsendQuery(c->client, sql) == 0) return failed(c, NULL);
    return finish(c, ms, ret);
}

/* ---- connecting ---- */

static bool says(const struct connection *c, const char *phrase)
{
    return strstr(c->text, phrase) != NULL;
}

/* Returns the next step for an operator. */
static const char *advice(const struct connection *c)
{
    if (says(c, "password") || says(c, "authentication"))
        return "check the user in store.url and its password (in the URL, PGPASSWORD or PGPASSFILE)";
    if (says(c, "too many clients") || says(c, "connection slots") ||
        says(c, "too many connections"))
        return "raise max_connections there, or lower store.readers here";
    if (says(c, "does not exist"))
        return "make the database and the role first (createuser, createdb), or correct store.url";
    if (says(c, "refused") || says(c, "translate host name") || says(c, "No such file"))
        return "check that the server runs, and that store.url is its address";
    if (says(c, "read-only"))
        return "it may be a standby: name the primary's host as well in store.url";
    if (says(c, "pg_hba")) return "let this machine in, in the server's pg_hba.conf";
    if (says(c, "SSL") || says(c, "certificate")) return "see sslmode and sslrootcert in store.url";
    return "see the server's log";
}

static enum err cannot_connect(struct connection *c, struct fault *f)
{
    const char *host = PQhost(c->client), *port = PQport(c->client);
    char where[128];
    snprintf(where, sizeof where, "%.80s:%.8s", host == NULL ? "?" : host,
             port == NULL ? "?" : port);
    /* libpq repeats the address before the server's text. */
    const char *text = PQerrorMessage(c->client), *fatal = strstr(text, "FATAL:");
    say(c, fatal == NULL ? text : fatal + 7);
    char told[120];
    snprintf(told, sizeof told, "%.119s", c->text);
    snprintf(c->text, sizeof c->text, "cannot connect to %.90s: %s; %s", where, told, advice(c));
    lose(c);
    return fault_set(f, ERR_STORE_UNAVAILABLE, "", "store: PostgreSQL: %s", c->text);
}

/* Copies the first column of the only row to `to`. */
static enum err one_text(struct connection *c, const char *sql, char *to, size_t room)
{
    PGresult *r;
    enum err err = run_sql(c, sql, ANSWER_MS, &r);
    if (err != ERR_OK) return err;
    snprintf(to, room, "%s", PQntuples(r) == 1 ? PQgetvalue(r, 0, 0) : "");
    PQclear(r);
    return ERR_OK;
}

static enum err is_the_same(struct connection *c)
{
    char log_id[LOG_ID_MAX];
    enum err err = one_text(c, "SELECT log_id FROM store", log_id, sizeof log_id);
    if (err != ERR_OK || strcmp(log_id, c->log_id) == 0) return err;
    snprintf(
        c->text, sizeof c->text,
        "this is another database than before (log_id %.32s, it was %.32s): restart the platform "
        "if that is intended",
        log_id, c->log_id);
    lose(c);
    return ERR_STORE_UNAVAILABLE;
}

static enum err fits(struct connection *c)
{
    char encoding[32];
    enum err err = one_text(c, "SHOW server_encoding", encoding, sizeof encoding);
    if (err != ERR_OK || strcmp(encoding, "UTF8") == 0) return err;
    snprintf(c->text, sizeof c->text,
             "the database's encoding is %.20s; it must be UTF8 (createdb -E UTF8 -T template0)",
             encoding);
    lose(c);
    return ERR_BAD_VALUE;
}

/* libpq would write the server's notices to standard error, where each line must be JSON. */
static void noticed(void *context, const char *text)
{
    (void)context;
    size_t size = strcspn(text, "\n");
    log_text(LOG_INFO, "postgres_notice", "%.*s", (int)(size < 500 ? size : 500), text);
}

static enum err connect_now(struct connection *c, struct fault *f)
{
    char seconds[8];
    snprintf(seconds, sizeof seconds, "%d", CONNECT_SECONDS);
    /* A later value wins: the address may set another. Of several hosts, readers also use one that
     * can be written: a standby may lag, and engines would get changes late. */
    const char *const names[] = {"target_session_attrs",
                                 "dbname",
                                 "connect_timeout",
                                 "fallback_application_name",
                                 "client_encoding",
                                 "keepalives_idle",
                                 NULL};
    const char *const values[] = {"read-write", c->address, seconds, "writ-platform",
                                  "UTF8",       "10",       NULL};
    c->text[0] = '\0';
    c->client = PQconnectdbParams(names, values, 1);
    check(c->client != NULL);
    PQsetNoticeProcessor(c->client, noticed, NULL);
    if (PQstatus(c->client) != CONNECTION_OK) return cannot_connect(c, f);
    check(PQsetnonblocking(c->client, 1) == 0);
    c->life++;
    enum err err = run_sql(c, c->writer ? writer_settings : reader_settings, ANSWER_MS, NULL);
    if (err == ERR_OK) err = c->log_id[0] == '\0' ? fits(c) : is_the_same(c);
    if (err == ERR_OK) return ERR_OK;
    if (c->client != NULL) lose(c);
    return fault_set(f, err, "", "store: PostgreSQL: %s", c->text);
}

/* From the address, or from libpq's other sources: its environment, a service file. */
static void learn_hosts(struct connection *c)
{
    PQconninfoOption *used = PQconninfo(c->client);
    check(used != NULL);
    bool are_numbers = false;
    for (const PQconninfoOption *o = used; o->keyword != NULL; o++) {
        if (o->val == NULL || o->val[0] == '\0') continue;
        if (strcmp(o->keyword, "hostaddr") == 0) are_numbers = true;
        if (strcmp(o->keyword, "host") == 0) check((c->hosts = strdup(o->val)) != NULL);
    }
    PQconninfoFree(used);
    if (!are_numbers) return;
    free(c->hosts);
    c->hosts = NULL;
}

/* Whether libpq would get an answer about one of the names, even that it does not exist. */
static bool names_are_answered(struct connection *c)
{
    for (const char *at = c->hosts; at != NULL;) {
        char host[HOST_MAX];
        size_t size = strcspn(at, ",");
        snprintf(host, sizeof host, "%.*s", (int)size, at);
        /* a socket on this machine */
        if (host[0] == '\0' || host[0] == '/' || host[0] == '@') return true;
        if (reach_is_answered(&c->reach, host)) return true;
        at = at[size] == ',' ? at + size + 1 : NULL;
    }
    return c->hosts == NULL;
}

static enum err connect_again(struct connection *c)
{
    if (names_are_answered(c)) return connect_now(c, NULL);
    snprintf(c->text, sizeof c->text, "cannot connect to %.90s: no name server answers", c->hosts);
    return ERR_STORE_UNAVAILABLE;
}

/* While a COPY is open, no other statement can run. */
static enum err end_open_copy(struct connection *c)
{
    if (c->end_copy == NULL) return ERR_OK;
    enum err err = c->end_copy(c->end_context);
    check(c->end_copy == NULL);
    return err;
}

/* Connected and idle. ERR_STORE_UNAVAILABLE also within a transaction whose connection was lost. */
static enum err at_hand(struct connection *c)
{
    enum err err = end_open_copy(c);
    if (err != ERR_OK || c->client != NULL) return err;
    return c->within ? ERR_STORE_UNAVAILABLE : connect_again(c);
}

enum err database_postgres_open(struct database *d, const char *address, bool writer,
                                struct fault *f)
{
    struct connection *c = d->own = calloc(1, sizeof *c);
    if (c == NULL) return fault_plain(f, ERR_FULL);
    reach_init(&c->reach);
    char *why = NULL;
    PQconninfoOption *parsed = PQconninfoParse(address, &why);
    PQfreemem(why); /* it may repeat a password */
    if (parsed == NULL)
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "store: the address is not valid; it must be like postgresql://user@host:5432/database, with only parameters "
            "of libpq after a ?");
    PQconninfoFree(parsed);
    c->address = strdup(address);
    check(c->address != NULL);
    c->writer = writer;
    c->answer_ms = ANSWER_MS;
    enum err err = connect_now(c, f);
    if (err == ERR_OK) learn_hosts(c);
    return err;
}

static void close_connection(struct database *d)
{
    struct connection *c = d->own;
    if (c == NULL) return;
    lose(c);
    reach_fini(&c->reach);
    free(c->hosts);
    free(c->address);
    free(c);
}

/* ---- statements ---- */

/* ?7 of a statement becomes $7, PostgreSQL's form. */
static char *translate(const char *sql)
{
    char *copy = strdup(sql);
    check(copy != NULL);
    for (char *at = copy; (at = strchr(at, '?')) != NULL;) *at = '$';
    return copy;
}

static enum err prepare(struct statement *s)
{
    struct own *o = s->own = calloc(1, sizeof *o);
    check(o != NULL);
    snprintf(o->name, sizeof o->name, "s%zu", s->database->statement_count);
    return ERR_OK;
}

static void reset(struct statement *s)
{
    struct own *o = s->own;
    PQclear(o->result);
    o->result = NULL;
}

static void forget(struct statement *s)
{
    reset(s);
    free(s->own);
}

static void bind(struct statement *s, int at, const struct value *v)
{
    static const Oid types[] = {[BOUND_NUMBER] = TYPE_BIGINT,
                                [BOUND_TEXT] = TYPE_TEXT,
                                [BOUND_BLOB] = TYPE_BYTEA,
                                [BOUND_TEXTS] = TYPE_TEXTS,
                                [BOUND_NUMBERS] = TYPE_BIGINTS};
    struct own *o = s->own;
    int i = at - 1;
    if (o->life == 0) o->types[i] = types[v->type];
    check(o->types[i] == types[v->type]);
    if (at > o->count) o->count = at;
    o->numbers[i] = __builtin_bswap64((uint64_t)v->number);
    bool is_number = v->type == BOUND_NUMBER;
    o->values[i] = v->is_null ? NULL : is_number ? (const char *)&o->numbers[i] : v->bytes.bytes;
    o->sizes[i] = is_number ? (int)sizeof o->numbers[i] : (int)v->bytes.size;
    /* arrays are sent as text */
    o->formats[i] = v->type != BOUND_TEXTS && v->type != BOUND_NUMBERS;
}

static enum err prepare_there(struct connection *c, struct statement *s)
{
    struct own *o = s->own;
    if (o->life == c->life) return ERR_OK;
    char *sql = translate(s->sql);
    int sent = PQsendPrepare(c->client, o->name, sql, o->count, o->types);
    free(sql);
    if (sent == 0) return failed(c, NULL);
    enum err err = finish(c, ANSWER_MS, NULL);
    if (err == ERR_OK) o->life = c->life;
    return err;
}

static enum err send_and_finish(struct connection *c, struct statement *s)
{
    struct own *o = s->own;
    enum err err = at_hand(c);
    if (err == ERR_OK) err = prepare_there(c, s);
    if (err != ERR_OK) return err;
    if (PQsendQueryPrepared(c->client, o->name, o->count, o->values, o->sizes, o->formats, 0) == 0)
        return failed(c, NULL);
    return finish(c, c->answer_ms, &o->result);
}

static enum err execute_statement(struct statement *s)
{
    struct connection *c = own_of(s->database);
    struct own *o = s->own;
    bool was_there = c->client != NULL;
    enum err err = send_and_finish(c, s);
    /* Outside of a transaction this program only reads. So a connection that was lost while it was
     * idle is no reason to fail. */
    if (err != ERR_OK && was_there && c->client == NULL && !c->within) err = send_and_finish(c, s);
    if (err != ERR_OK) return err;
    uint64_t changes;
    c->changes = str_to_u64(str_from(PQcmdTuples(o->result)), &changes) ? changes : 0;
    o->row = 0;
    return ERR_OK;
}

static enum err step(struct statement *s)
{
    struct own *o = s->own;
    if (o->result != NULL) {
        o->row++;
    } else {
        enum err err = execute_statement(s);
        if (err != ERR_OK) return err;
    }
    return o->row < PQntuples(o->result) ? ERR_OK : ERR_END;
}

static struct str text(struct statement *s, int at)
{
    struct own *o = s->own;
    if (PQgetisnull(o->result, o->row, at) != 0) return (struct str){0};
    return str_of(PQgetvalue(o->result, o->row, at), (size_t)PQgetlength(o->result, o->row, at));
}

static int64_t number(struct statement *s, int at)
{
    struct own *o = s->own;
    return PQgetisnull(o->result, o->row, at) != 0
               ? 0
               : strtoll(PQgetvalue(o->result, o->row, at), NULL, 10);
}

/* ---- transactions ---- */

/* The server discards its rows. */
static void give_up_copy(struct connection *c)
{
    c->end_copy = NULL;
    if (PQputCopyEnd(c->client, "rolled back") == 1)
        (void)finish(c, ANSWER_MS, NULL);
    else
        lose(c);
}

static void rollback(struct database *d)
{
    struct connection *c = d->own;
    c->within = false;
    c->answer_ms = ANSWER_MS;
    if (c->end_copy != NULL) give_up_copy(c);
    if (c->client == NULL || PQtransactionStatus(c->client) == PQTRANS_IDLE) return;
    if (run_sql(c, "ROLLBACK", ANSWER_MS, NULL) != ERR_OK && c->client != NULL) lose(c);
}

/* Takes the lock and reads its row. */
static enum err lock(struct connection *c)
{
    char text_of_id[24];
    enum err err =
        one_text(c, "SELECT next_id FROM marks FOR UPDATE", text_of_id, sizeof text_of_id);
    if (err != ERR_OK) return err;
    return str_to_u64(str_from(text_of_id), &c->next_id) ? ERR_OK : ERR_CORRUPT;
}

static enum err begin(struct database *d, bool writes)
{
    struct connection *c = d->own;
    check(!c->within);
    bool was_there = c->client != NULL;
    enum err err = at_hand(c);
    if (err == ERR_OK) err = run_sql(c, "BEGIN", ANSWER_MS, NULL);
    /* The connection was lost while it was idle: no statement of the transaction was sent yet. */
    if (err != ERR_OK && was_there && c->client == NULL) {
        err = connect_again(c);
        if (err == ERR_OK) err = run_sql(c, "BEGIN", ANSWER_MS, NULL);
    }
    if (err == ERR_OK && writes) err = lock(c);
    c->within = err == ERR_OK;
    if (err != ERR_OK) rollback(d);
    return err;
}

static enum err commit(struct database *d)
{
    struct connection *c = d->own;
    PGresult *r = NULL;
    enum err err = end_open_copy(c);
    if (err == ERR_OK) err = run_sql(c, "COMMIT", ANSWER_MS, &r);
    /* A transaction with a failed statement is rolled back, and the server does not report an
     * error. */
    if (err == ERR_OK && strcmp(PQcmdStatus(r), "COMMIT") != 0) err = ERR_IO;
    PQclear(r);
    if (err != ERR_OK) rollback(d);
    c->within = false;
    c->answer_ms = ANSWER_MS;
    return err;
}

static uint64_t changes(struct database *d) { return own_of(d)->changes; }

void database_identify(struct database *d, const char *log_id)
{
    if (database_is_postgres(d)) snprintf(own_of(d)->log_id, LOG_ID_MAX, "%s", log_id);
}

uint64_t database_life(const struct database *d) { return own_of(d)->life; }

uint64_t database_next_id(const struct database *d) { return own_of(d)->next_id; }

/* The server ends each of a reader's statements by itself, see `reader_settings`. This limit is
 * only for a server that does not. */
static void deadline(struct database *d, uint64_t monotonic_ns)
{
    own_of(d)->deadline_ns = monotonic_ns;
}

static enum err be_patient(struct connection *c)
{
    c->answer_ms = PATIENT_MS;
    return run_sql(c,
                   "SET LOCAL statement_timeout = '600s'; SET LOCAL lock_timeout = 0;"
                   "SET LOCAL idle_in_transaction_session_timeout = 0",
                   ANSWER_MS, NULL);
}

enum err database_patient(struct database *d)
{
    return database_is_postgres(d) ? be_patient(own_of(d)) : ERR_OK;
}

static enum err execute(struct database *d, const char *sql, struct fault *f)
{
    struct connection *c = d->own;
    enum err err = at_hand(c);
    if (err == ERR_OK) err = run_sql(c, sql, c->answer_ms, NULL);
    c->within = c->client == NULL ? c->within : PQtransactionStatus(c->client) != PQTRANS_IDLE;
    return err == ERR_OK ? ERR_OK : fault(d, err, f);
}

/* ---- COPY ---- */

/* Sends the COPY statement and waits until the server is ready for rows. */
static enum err open_copy(struct connection *c, const char *sql)
{
    PGresult *r = NULL;
    enum err err = at_hand(c);
    if (err != ERR_OK) return err;
    if (PQsendQuery(c->client, sql) == 0) return failed(c, NULL);
    uint64_t until = deadline_of(c, ANSWER_MS);
    err = send_all(c, until);
    if (err == ERR_OK) err = next_result(c, until, &r);
    if (err != ERR_OK) return err;
    bool ready = PQresultStatus(r) == PGRES_COPY_IN;
    if (!ready) err = failed(c, r);
    PQclear(r);
    if (!ready && c->client != NULL) (void)finish(c, ANSWER_MS, NULL);
    return err;
}

/* libpq copies the rows, and sends as much as the socket takes at once. */
static enum err put_rows(struct connection *c, struct str rows)
{
    return PQputCopyData(c->client, rows.bytes, (int)rows.size) == 1 ? ERR_OK : no_answer(c);
}

static enum err close_copy(struct connection *c)
{
    c->end_copy = NULL;
    if (PQputCopyEnd(c->client, NULL) != 1) return no_answer(c);
    return finish(c, ANSWER_MS, NULL);
}

enum err database_copy(struct database *d, const char *sql, struct str rows)
{
    enum { PIECE = 256 << 10 }; /* so that the socket is read in between */
    struct connection *c = d->own;
    enum err err = open_copy(c, sql);
    uint64_t until = deadline_of(c, ANSWER_MS);
    while (err == ERR_OK && rows.size > 0) {
        struct str piece = str_of(rows.bytes, rows.size < PIECE ? rows.size : PIECE);
        rows = str_skip(rows, piece.size);
        err = put_rows(c, piece);
        if (err == ERR_OK) err = send_all(c, until);
    }
    return err == ERR_OK ? close_copy(c) : err;
}

enum err database_copy_begin(struct database *d, const char *sql, database_end_copy *end,
                             void *context)
{
    struct connection *c = d->own;
    enum err err = open_copy(c, sql);
    if (err != ERR_OK) return err;
    c->end_copy = end;
    c->end_context = context;
    return ERR_OK;
}

enum err database_copy_put(struct database *d, struct str rows)
{
    struct connection *c = d->own;
    return c->end_copy == NULL ? ERR_STORE_UNAVAILABLE : put_rows(c, rows);
}

enum err database_copy_end(struct database *d)
{
    struct connection *c = d->own;
    return c->end_copy == NULL ? ERR_STORE_UNAVAILABLE : close_copy(c);
}

const struct database_kind database_postgres = {
    .is_postgres = true,
    .prepare = prepare,
    .forget = forget,
    .bind = bind,
    .step = step,
    .reset = reset,
    .text = text,
    .number = number,
    .begin = begin,
    .commit = commit,
    .rollback = rollback,
    .changes = changes,
    .deadline = deadline,
    .fault = fault,
    .execute = execute,
    .close = close_connection,
};
