#include "pipeline/mirror/redis.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/lookup.h"
#include "base/shown.h"
#include "base/world.h"
#include "crypto/crypto.h"
#include "crypto/secret.h"

/* Debian's hiredis is 0.14 and knows no TLS; a newer one does where its
 * library beside it was found. */
#if HIREDIS_MAJOR >= 1 && defined(WRIT_REDIS_TLS)
#include <hiredis/hiredis_ssl.h>
#else
#undef WRIT_REDIS_TLS
#endif

enum {
    ARGUMENTS_MAX = 4096,
    PASSWORD_BYTES = 4096,
    PORT_DEFAULT = 6379,
    PLACES_MAX = 4,
    AWAIT_TIMEOUTS = 10 /* for all that one await waits for, however steadily it comes */
};

struct redis_link {
    struct redis_link_options options;
    redisAsyncContext *redis; /* NULL: down */
    struct loop_fd fd;
    struct loop_timer deadline; /* for the next answer, or for being connected */
    struct loop_timer patience; /* for all answers that are awaited */
    uint64_t hurry_until_ms;    /* monotonic; 0: there is no hurry */
    bool watching;              /* fd is started */
    bool connected, refused, awaits;
    size_t owed;
    struct redis_bounds bounds;
    size_t reply_bytes;                       /* of the answer that is being read, so far */
    redisReplyObjectFunctions plain, bounded; /* the library's own; ours before them */
    struct lookup *lookup; /* under way, or NULL: it may outlast the opening that began it */
    char why[256];
#ifdef WRIT_REDIS_TLS
    redisSSLContext *tls;
#endif
};

/* ---- addresses ---- */

static enum err read_host_port(struct str rest, struct redis_address *a, struct fault *f)
{
    size_t colon = rest.size;
    while (colon > 0 && rest.bytes[colon - 1] >= '0' && rest.bytes[colon - 1] <= '9') colon--;
    bool has_port = colon > 1 && rest.bytes[colon - 1] == ':';
    struct str host = has_port ? str_of(rest.bytes, colon - 1) : rest;
    uint64_t port = PORT_DEFAULT;
    bool ok = !has_port || (str_to_u64(str_skip(rest, colon), &port) && port >= 1 && port <= 65535);
    if (host.size > 2 && host.bytes[0] == '[' && host.bytes[host.size - 1] == ']')
        host = str_of(host.bytes + 1, host.size - 2);
    else
        ok = ok && str_find(host, ':') == host.size;
    ok = ok && host.size > 0 && host.size < REDIS_HOST_TEXT && str_find(host, '/') == host.size &&
         str_find(host, '@') == host.size;
    if (!ok)
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "redis.url: \"%.*s\" is not host:port; a user and a password are options of their own",
            STR_FORMAT(shown_address(rest)));
    memcpy(a->host, host.bytes, host.size);
    a->port = (uint16_t)port;
    return ERR_OK;
}

enum err redis_address_read(struct str url, struct redis_address *ret, struct fault *f)
{
    struct redis_address a = {0};
    static const struct {
        struct str prefix;
        bool tls;
    } forms[] = {{{"tcp://", 6}, false}, {{"redis://", 8}, false}, {{"rediss://", 9}, true}};
    enum err err = ERR_BAD_VALUE;
    if (str_starts(url, STR("unix:/"))) {
        struct str path = str_skip(url, 5);
        if (path.size < 2 || path.size >= REDIS_PATH_TEXT)
            return fault_set(f, ERR_BAD_VALUE, "", "redis.url: a socket's path has 2 to %d bytes",
                             REDIS_PATH_TEXT - 1);
        a.is_unix = true;
        memcpy(a.host, path.bytes, path.size);
        *ret = a;
        return ERR_OK;
    }
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (!str_starts(url, forms[i].prefix)) continue;
        a.tls = forms[i].tls;
#ifndef WRIT_REDIS_TLS
        if (a.tls)
            return fault_set(
                f, ERR_BAD_VALUE, "",
                "redis.url: this program was built with a hiredis that has no TLS (it takes 1.0 or newer); "
                "use a Unix socket, or TCP on a network that is yours alone");
#endif
        err = read_host_port(str_skip(url, forms[i].prefix.size), &a, f);
        if (err == ERR_OK) *ret = a;
        return err;
    }
    return fault_set(
        f, err, "",
        "redis.url: \"%.*s\" is not right; it must be unix:/path, tcp://host:port or redis://host:port",
        STR_FORMAT(shown_address(url)));
}

/* ---- values ---- */

static struct redis_value value_of(const redisReply *r)
{
    struct redis_value v = {.inside = r};
    if (r == NULL) return v;
    switch (r->type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        v.kind = REDIS_TEXT;
        v.text = str_of(r->str, r->len);
        break;
    case REDIS_REPLY_ERROR:
        v.kind = REDIS_ERROR;
        v.text = str_of(r->str, r->len);
        break;
    case REDIS_REPLY_INTEGER:
        v.kind = REDIS_INTEGER;
        v.integer = r->integer;
        break;
    case REDIS_REPLY_ARRAY:
        v.kind = REDIS_LIST;
        v.count = r->elements;
        break;
    default: break;
    }
    return v;
}

struct redis_value redis_value_at(const struct redis_value *list, size_t index)
{
    check(list->kind == REDIS_LIST && index < list->count);
    const redisReply *r = list->inside;
    return value_of(r->element[index]);
}

static void remember_why(struct redis_link *l, const char *why)
{
    if (l->why[0] == '\0')
        snprintf(l->why, sizeof l->why, "%s",
                 why == NULL || why[0] == '\0' ? "the connection was lost" : why);
}

/* ---- bounds: an answer is refused before it is built ----
 *
 * By itself hiredis 0.14 makes room for as many elements as a list claims to have, and keeps
 * whatever comes until a text or a line has its end. */

const struct redis_bounds redis_bounds_usual = {LIMIT_REDIS_ELEMENTS, LIMIT_REDIS_TEXT_BYTES,
                                                LIMIT_REDIS_TEXT_BYTES};

void redis_link_expect(struct redis_link *l, const struct redis_bounds *bounds)
{
    l->bounds = *bounds;
}

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

/* The library takes NULL for a lack of memory, and ends the connection. */
static void *build_list(const redisReadTask *task, element_count count)
{
    struct redis_link *l = task->privdata;
    char why[96];
    if (task->parent != NULL) {
        remember_why(l, "it answered a list within a list, which nothing asks for");
        return NULL;
    }
    l->reply_bytes = 0;
    if ((size_t)count <= l->bounds.elements) return l->plain.createArray(task, count);
    snprintf(why, sizeof why, "it answered a list of %lld elements, at most %zu are read",
             (long long)count, l->bounds.elements);
    remember_why(l, why);
    return NULL;
}

static void *build_text(const redisReadTask *task, char *bytes, size_t size)
{
    struct redis_link *l = task->privdata;
    char why[96];
    if (task->parent == NULL) l->reply_bytes = 0;
    l->reply_bytes += size;
    if (l->reply_bytes <= l->bounds.bytes) return l->plain.createString(task, bytes, size);
    snprintf(why, sizeof why, "its answer is larger than %zu bytes", l->bounds.bytes);
    remember_why(l, why);
    return NULL;
}

static void bound_replies(struct redis_link *l)
{
    redisReader *reader = l->redis->c.reader;
    l->plain = *reader->fn;
    l->bounded = l->plain;
    l->bounded.createArray = build_list;
    l->bounded.createString = build_text;
    l->bounds = redis_bounds_usual;
    reader->fn = &l->bounded;
    reader->privdata = l;
}

/* Of a text or a line that has no end yet the reader holds all that came. */
static void check_unread(struct redis_link *l)
{
    const redisReader *reader = l->redis->c.reader;
    char why[96];
    if (reader->len - reader->pos <= l->bounds.text_bytes) return;
    snprintf(why, sizeof why, "it sends a text or a line of more than %zu bytes",
             l->bounds.text_bytes);
    redis_link_fail(l, why);
}

/* ---- hiredis' hooks, on our loop ---- */

static const char unasked[] = "it sent an answer without a question";

/* Nothing is owed, so that only the connection's end can come. The library's own reading ends the
 * process over an answer without a question. */
static void read_unasked(struct redis_link *l)
{
    redisContext *c = &l->redis->c;
    if (redisBufferRead(c) != REDIS_OK)
        redis_link_fail(l, c->errstr);
    else if (c->reader->pos < c->reader->len)
        redis_link_fail(l, unasked);
}

static void fd_ready(struct loop_fd *w, int events)
{
    struct redis_link *l = link_owner(w, struct redis_link, fd);
    if ((events & LOOP_READ) && redis_link_is_up(l) && l->owed == 0)
        read_unasked(l);
    else if ((events & LOOP_READ) && l->redis != NULL)
        redisAsyncHandleRead(l->redis);
    if (l->redis != NULL) check_unread(l);
    if ((events & LOOP_WRITE) && l->redis != NULL && l->watching) redisAsyncHandleWrite(l->redis);
}

static void want(struct redis_link *l, int events)
{
    if (l->redis == NULL) return;
    if (!l->watching) {
        loop_fd_start(l->options.loop, &l->fd, l->redis->c.fd, events, fd_ready);
        l->watching = true;
        return;
    }
    loop_fd_change(l->options.loop, &l->fd, events);
}

static int wanted(const struct redis_link *l) { return l->watching ? l->fd.events : 0; }
static void add_read(void *link) { want(link, wanted(link) | LOOP_READ); }
static void del_read(void *link) { want(link, wanted(link) & ~LOOP_READ); }
static void add_write(void *link) { want(link, wanted(link) | LOOP_WRITE); }
static void del_write(void *link) { want(link, wanted(link) & ~LOOP_WRITE); }

/* The library is about to close the descriptor and to free its context. */
static void cleanup(void *link)
{
    struct redis_link *l = link;
    if (l->watching) loop_fd_stop(l->options.loop, &l->fd);
    l->watching = false;
}

static void forget(struct redis_link *l, const redisAsyncContext *redis)
{
    remember_why(l, redis->errstr);
    l->redis = NULL;
    l->connected = false;
    loop_timer_stop(l->options.loop, &l->deadline);
}

/* On failure the library frees the context after this. */
static void on_connect(const redisAsyncContext *redis, int status)
{
    struct redis_link *l = redis->data;
    if (status == REDIS_OK)
        l->connected = true;
    else
        forget(l, redis);
}

static void on_disconnect(const redisAsyncContext *redis, int status)
{
    (void)status;
    forget(redis->data, redis);
}

void redis_link_fail(struct redis_link *l, const char *why)
{
    if (l->redis == NULL) return;
    remember_why(l, why);
    redisAsyncContext *redis = l->redis;
    loop_timer_stop(l->options.loop, &l->deadline);
    l->redis = NULL; /* so that callbacks which send are refused */
    l->connected = false;
    redisAsyncFree(redis); /* Answers NULL to all that is owed. */
}

static void deadline_due(struct loop_timer *t)
{
    struct redis_link *l = link_owner(t, struct redis_link, deadline);
    char why[64];
    snprintf(why, sizeof why, "%s within %u ms",
             l->connected ? "it did not answer" : "it could not be connected",
             l->options.timeout_ms);
    redis_link_fail(l, why);
}

/* ---- the link ---- */

struct redis_link *redis_link_create(const struct redis_link_options *options)
{
    struct redis_link *l = calloc(1, sizeof *l);
    check(l != NULL); /* at boot */
    l->options = *options;
    return l;
}

void redis_link_destroy(struct redis_link *l)
{
    if (l == NULL) return;
    redis_link_fail(l, "");
    lookup_leave(l->lookup);
#ifdef WRIT_REDIS_TLS
    if (l->tls != NULL) redisFreeSSLContext(l->tls);
#endif
    free(l);
}

bool redis_link_is_up(const struct redis_link *l) { return l->redis != NULL && l->connected; }
const char *redis_link_why(const struct redis_link *l) { return l->why; }
size_t redis_link_owed(const struct redis_link *l) { return l->owed; }

struct owed {
    struct redis_link *link;
    void (*answered)(void *context, const struct redis_value *v);
    void *context;
};

static void answer_came(redisAsyncContext *redis, void *reply, void *context)
{
    struct owed o = *(struct owed *)context;
    struct redis_link *l = o.link;
    free(context);
    l->owed--;
    /* Then this may be another's answer as well. The library frees itself when we are back. */
    if (reply != NULL && l->redis != NULL && l->owed == 0 &&
        redis->c.reader->pos < redis->c.reader->len) {
        redis_link_fail(l, unasked);
        reply = NULL;
    }
    if (l->redis != NULL && l->owed == 0)
        loop_timer_stop(l->options.loop, &l->deadline);
    else if (l->redis != NULL)
        loop_timer_start(l->options.loop, &l->deadline, l->options.timeout_ms, deadline_due);
    struct redis_value v = value_of(reply);
    o.answered(o.context, reply == NULL ? NULL : &v);
}

void redis_link_send(struct redis_link *l, const struct str *arguments, size_t count,
                     void (*answered)(void *context, const struct redis_value *v), void *context)
{
    static _Thread_local const char *at[ARGUMENTS_MAX];
    static _Thread_local size_t sizes[ARGUMENTS_MAX];
    check(count >= 1 && count <= ARGUMENTS_MAX);
    if (l->redis == NULL) {
        answered(context, NULL);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        at[i] = arguments[i].size == 0 ? "" : arguments[i].bytes;
        sizes[i] = arguments[i].size;
    }
    struct owed *o = malloc(sizeof *o);
    if (o == NULL) {
        redis_link_fail(l, "there is no memory to ask it anything");
        answered(context, NULL);
        return;
    }
    *o = (struct owed){.link = l, .answered = answered, .context = context};
    l->owed++;
    if (redisAsyncCommandArgv(l->redis, answer_came, o, (int)count, at, sizes) != REDIS_OK) {
        l->owed--;
        free(o);
        answered(context, NULL);
        return;
    }
    if (l->owed == 1)
        loop_timer_start(l->options.loop, &l->deadline, l->options.timeout_ms, deadline_due);
}

static void patience_ended(struct loop_timer *t)
{
    redis_link_fail(link_owner(t, struct redis_link, patience), "it answers too slowly");
}

static uint64_t patience_ms(const struct redis_link *l)
{
    uint64_t most = (uint64_t)AWAIT_TIMEOUTS * l->options.timeout_ms,
             now = world_monotonic_ns() / 1000000;
    if (l->hurry_until_ms == 0 || l->hurry_until_ms >= now + most) return most;
    return l->hurry_until_ms > now ? l->hurry_until_ms - now : 0;
}

void redis_link_hurry(struct redis_link *l, uint64_t until_ms)
{
    l->hurry_until_ms = until_ms;
    if (l->awaits) loop_timer_start(l->options.loop, &l->patience, patience_ms(l), patience_ended);
}

bool redis_link_await(struct redis_link *l, size_t most)
{
    loop_timer_start(l->options.loop, &l->patience, patience_ms(l), patience_ended);
    l->awaits = true;
    while (l->redis != NULL && l->owed > most) loop_turn(l->options.loop, true);
    l->awaits = false;
    loop_timer_stop(l->options.loop, &l->patience);
    return redis_link_is_up(l);
}

/* ---- opening ---- */

enum err redis_link_check(const struct redis_link_options *options, struct fault *f)
{
    bool has_ca = options->ca_file[0] != '\0';
    if (options->user[0] != '\0' && options->password_file[0] == '\0')
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "redis.user: needs redis.password_file beside it: there is no login without it");
    if (!options->address.tls && has_ca)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "redis.ca_file, redis.url: nothing is encrypted but with rediss://");
    if (!options->address.tls || has_ca) return ERR_OK;
    return fault_set(
        f, ERR_BAD_VALUE, "",
        "redis.url: TLS needs redis.ca_file, a CA of your own: names are not compared, so with a public one anybody's "
        "certificate would do");
}

static void auth_answered(void *context, const struct redis_value *v)
{
    struct redis_link *l = context;
    if (v == NULL || v->kind != REDIS_ERROR) return;
    l->refused = true;
    /* The server's words name no secret ("WRONGPASS invalid username-password pair…"). */
    snprintf(l->why, sizeof l->why, "it does not take us: %.*s",
             (int)(v->text.size < 160 ? v->text.size : 160), v->text.bytes);
}

static enum err introduce(struct redis_link *l, struct fault *f)
{
    struct str ping = STR("PING");
    if (l->options.password_file[0] != '\0') {
        char password[PASSWORD_BYTES];
        size_t size;
        enum err err = secret_read("redis.password_file", l->options.password_file, password,
                                   sizeof password, &size, f);
        if (err != ERR_OK) return err;
        struct str both[3] = {STR("AUTH"), str_from(l->options.user), str_of(password, size)};
        struct str one[2] = {STR("AUTH"), str_of(password, size)};
        if (l->options.user[0] != '\0')
            redis_link_send(l, both, 3, auth_answered, l);
        else
            redis_link_send(l, one, 2, auth_answered, l);
        memory_wipe(password, sizeof password);
    }
    redis_link_send(l, &ping, 1, auth_answered, l); /* NOAUTH, LOADING and the like show here */
    if (redis_link_await(l, 0) && !l->refused) return ERR_OK;
    return fault_set(f, ERR_STORE_UNAVAILABLE, "", "Redis cannot be used: %s", l->why);
}

#ifdef WRIT_REDIS_TLS
static bool begin_tls(struct redis_link *l)
{
    redisSSLContextError why = REDIS_SSL_CTX_NONE;
    if (l->tls == NULL) {
        redisInitOpenSSL();
        l->tls = redisCreateSSLContext(l->options.ca_file, NULL, NULL, NULL,
                                       l->options.address.host, &why);
    }
    if (l->tls == NULL)
        remember_why(l, redisSSLContextGetError(why));
    else if (redisInitiateSSLWithContext(&l->redis->c, l->tls) == REDIS_OK)
        return true;
    else
        remember_why(l, l->redis->c.errstr);
    return false;
}
#endif

static bool begin(struct redis_link *l, const char *host)
{
    const struct redis_address *a = &l->options.address;
    l->redis = a->is_unix ? redisAsyncConnectUnix(host) : redisAsyncConnect(host, a->port);
    if (l->redis == NULL) {
        remember_why(l, "there is no memory for a connection");
        return false;
    }
    bound_replies(l);
    l->redis->data = l;
    l->redis->ev.data = l;
    l->redis->ev.addRead = add_read;
    l->redis->ev.delRead = del_read;
    l->redis->ev.addWrite = add_write;
    l->redis->ev.delWrite = del_write;
    l->redis->ev.cleanup = cleanup;
    if (l->redis->err == 0) return true;
    remember_why(l, l->redis->errstr);
    return false;
}

static void give_up(struct redis_link *l)
{
    redisAsyncContext *redis = l->redis;
    l->redis = NULL;
    if (redis != NULL) redisAsyncFree(redis);
}

/* To one address, a number or a path: of those that a name has, hiredis would try the first
 * alone. */
static bool connect_to(struct redis_link *l, const char *host)
{
    l->why[0] = '\0';
    l->connected = l->refused = false;
    bool begun = begin(l, host);
#ifdef WRIT_REDIS_TLS
    begun = begun && (!l->options.address.tls || begin_tls(l));
#endif
    if (!begun) {
        give_up(l);
        return false;
    }
    redisAsyncSetDisconnectCallback(l->redis, on_disconnect);
    redisAsyncSetConnectCallback(l->redis, on_connect); /* and waits until it can be written */
    loop_timer_start(l->options.loop, &l->deadline, l->options.timeout_ms, deadline_due);
    while (l->redis != NULL && !l->connected) loop_turn(l->options.loop, true);
    loop_timer_stop(l->options.loop, &l->deadline);
    return l->redis != NULL;
}

/* Each of the name's addresses in turn; the fault names why the last one failed. */
static bool connect_to_found(struct redis_link *l)
{
    const char *why = "no such host";
    const struct addrinfo *one = lookup_found(l->lookup, &why);
    if (one == NULL) snprintf(l->why, sizeof l->why, "%.150s: %s", l->options.address.host, why);
    bool connected = false;
    for (size_t tried = 0; one != NULL && !connected && tried < PLACES_MAX;
         one = one->ai_next, tried++) {
        char host[NI_MAXHOST];
        connected = getnameinfo(one->ai_addr, one->ai_addrlen, host, sizeof host, NULL, 0,
                                NI_NUMERICHOST) == 0 &&
                    connect_to(l, host);
    }
    return connected;
}

static bool connect_to_any(struct redis_link *l)
{
    const struct redis_address *a = &l->options.address;
    if (a->is_unix) return connect_to(l, a->host);
    if (l->lookup == NULL) l->lookup = lookup_start(a->host, NULL, 0);
    if (l->lookup == NULL || !lookup_wait(l->lookup, l->options.timeout_ms)) {
        snprintf(l->why, sizeof l->why, "%.150s: %s", a->host, gai_strerror(EAI_AGAIN));
        return false;
    }
    bool connected = connect_to_found(l);
    lookup_leave(l->lookup);
    l->lookup = NULL;
    return connected;
}

enum err redis_link_open(struct redis_link *l, struct fault *f)
{
    check(l->redis == NULL && l->owed == 0);
    if (!connect_to_any(l))
        return fault_set(f, ERR_STORE_UNAVAILABLE, "", "Redis cannot be reached: %s", l->why);
    enum err err = introduce(l, f);
    if (err != ERR_OK) redis_link_fail(l, l->why);
    return err;
}
