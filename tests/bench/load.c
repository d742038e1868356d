/* load.c - a load generator: one thread, epoll, keep-alive connections, fixed pipelining depth.
 *
 *   load --address HOST:PORT|unix:PATH --path /v1/agent/authorize --file BODIES [--file BODIES]
 *        [--key-file FILE] [--connections N] [--pipeline N | --rate N] [--seconds S | --requests N]
 *        [--serial N] [--member NAME --save FILE] [--open-slowly] [--tls-ca FILE] [--good-ms N]
 *
 * BODIES holds one request body a line. All requests are built once, head and body, side by side
 * in one buffer; each connection walks round it from a place of its own. Since they lie side by
 * side, any run of them is one send(), and a reply costs the search for its length and its
 * decision. So at depth 16 the generator needs a fraction of what the server needs, and may share
 * its core with the other program. With two files every other connection sends from the second.
 * A key file of many lines gives each request the next one as its credential.
 *
 * Requests may differ each time they are sent: in a body, @@@@@@@@ becomes the request's serial
 * number (from --serial on) and ~~~~~~~~ a 64th of that, eight digits written over the buffer just
 * before the send. (Where a full socket took half a request, its rest may get a later number: it is
 * a good request all the same.) --save writes a string member of each reply, one a line.
 *
 * A connection always has `pipeline` requests under way (a closed loop): for each batch of replies
 * it sends as many new requests, in one call. With --rate it is an open loop: so many requests are
 * due each second, whatever was answered so far; each goes out on a connection that has none under
 * way, as soon as there is one, and its latency counts from when it was due. Latency is from that
 * send (or due time) to the read that brought the reply; those of 200 go into a histogram with 1.6 %
 * steps, and those within --good-ms (100) are counted as good.
 * At the end nothing is sent any more and what is under way is awaited. The result is one line of
 * JSON on standard output. With --tls-ca it speaks TLS to `localhost`, and trusts that authority. */
#include "client.h"

#include "tls/tls.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

enum {
    CONNECTIONS_MAX = 4096,
    PIPELINE_MAX = 256,
    REPLY_MAX = 256 << 10, /* one reply, head and body */
    FILES_MAX = 2,
    SERIAL_DIGITS = 8,
    ACTOR_SHIFT = 6,             /* 64 requests of an actor, of which a hundred might be pending */
    OPENING_PAUSE_NS = 10000000, /* between two connections, that the server may count them */
    STEPS_PER_OCTAVE_BITS = 6,   /* 64 steps per doubling */
    STEPS_PER_OCTAVE = 1 << STEPS_PER_OCTAVE_BITS,
    HISTOGRAM_BUCKETS = 64 * STEPS_PER_OCTAVE,
    SILENCE_MS = 10000, /* a server that says nothing this long is given up */
};

enum outcome { OUTCOME_ALLOW, OUTCOME_DENY, OUTCOME_HUMAN_REVIEW, OUTCOME_COMPUTE, OUTCOME_COUNT };
static const char *const outcome_names[OUTCOME_COUNT] = {"allow", "deny", "human_review",
                                                         "compute"};

struct settings {
    const char *address, *path, *files[FILES_MAX], *key_file, *member, *save;
    unsigned connections, pipeline, file_count;
    double seconds;
    uint64_t requests; /* 0: by time */
    uint64_t rate;     /* due a second; 0: a closed loop */
    uint64_t good_ns;  /* a reply that takes longer is of no use */
    uint64_t serial;   /* of the first request */
    bool opens_slowly;
    const char *tls_ca; /* NULL: without TLS */
};

/* Where a number goes. */
struct mark {
    size_t at;
    unsigned shift;
};

/* All requests, side by side: request i is bytes[starts[i]] to bytes[starts[i + 1]], and has the
 * marks[marked[i]] to marks[marked[i + 1]]. */
struct requests {
    char *bytes;
    size_t *starts, *marked;
    struct mark *marks;
    size_t count, block_count;
};

/* The lines of --key-file. */
struct keys {
    char *text;
    const char **lines;
    size_t count;
};

struct connection {
    struct tls_session *tls; /* NULL: without TLS */
    int fd;
    struct requests *requests;
    size_t next;        /* request to send next */
    size_t unsent_from; /* bytes of the buffer that a full socket did not take yet */
    size_t unsent_to;
    uint64_t *sent_ns; /* ring of `pipeline` send times, oldest first */
    unsigned oldest, under_way;
    char *partial; /* the beginning of a reply whose end has not come */
    size_t partial_size;
    bool waits_to_write;
};

struct load {
    struct tls *tls;
    const struct settings *settings;
    struct requests requests[FILES_MAX];
    struct connection *connections;
    int epoll;
    FILE *save;
    uint64_t sent, replies, timed, good, reply_bytes, body_bytes, failures;
    uint64_t statuses[600];
    uint64_t outcomes[OUTCOME_COUNT];
    uint64_t *histogram;
    uint64_t latency_max_ns;
    uint64_t start_ns, end_ns; /* end: when sending stops */
    bool stopping;
    unsigned turn; /* the connection to look at next, in an open loop */
    char *buffer;  /* shared: what one read brings */
};

/* ---- histogram: exact below 64 ns, then 64 linear steps in each octave ---- */

static unsigned bucket_of(uint64_t ns)
{
    if (ns < STEPS_PER_OCTAVE) return (unsigned)ns;
    unsigned octave = 63u - (unsigned)__builtin_clzll(ns);
    unsigned step = (unsigned)(ns >> (octave - STEPS_PER_OCTAVE_BITS)) & (STEPS_PER_OCTAVE - 1);
    return ((octave - STEPS_PER_OCTAVE_BITS + 1) << STEPS_PER_OCTAVE_BITS) + step;
}

static double bucket_middle_ns(unsigned bucket)
{
    if (bucket < STEPS_PER_OCTAVE) return bucket;
    unsigned octave = (bucket >> STEPS_PER_OCTAVE_BITS) - 1 + STEPS_PER_OCTAVE_BITS;
    double width = (double)(UINT64_C(1) << (octave - STEPS_PER_OCTAVE_BITS));
    return (double)(UINT64_C(1) << octave) +
           ((double)(bucket & (STEPS_PER_OCTAVE - 1)) + 0.5) * width;
}

static double quantile_ms(const struct load *l, double quantile)
{
    uint64_t wanted = (uint64_t)((double)l->timed * quantile), seen = 0;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += l->histogram[i];
        if (seen > wanted) return bucket_middle_ns(i) / 1e6;
    }
    return (double)l->latency_max_ns / 1e6;
}

/* ---- requests ---- */

static char *file_read(const char *path, size_t *ret_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) die(path);
    size_t size = (size_t)st.st_size, got = 0;
    char *text = allocate(size + 1, 1);
    while (got < size) {
        ssize_t n = read(fd, text + got, size - got);
        if (n <= 0) die(path);
        got += (size_t)n;
    }
    close(fd);
    *ret_size = size;
    return text;
}

static void keys_read(struct keys *k, const char *path)
{
    if (path == NULL) return;
    size_t size;
    k->text = file_read(path, &size);
    for (size_t i = 0; i < size; i++) k->count += k->text[i] == '\n';
    k->lines = allocate(k->count + 1, sizeof *k->lines);
    char *line = k->text;
    for (size_t i = 0; i < k->count; i++) {
        k->lines[i] = line;
        line += strcspn(line, "\r\n");
        *line++ = '\0';
    }
    if (k->count == 0) refuse("--key-file holds no whole line");
}

static void marks_add(struct requests *r, size_t from, size_t to)
{
    static const struct {
        const char text[SERIAL_DIGITS + 1];
        unsigned shift;
    } kinds[] = {{"@@@@@@@@", 0}, {"~~~~~~~~", ACTOR_SHIFT}};
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        size_t at = from;
        for (char *found;
             (found = memmem(r->bytes + at, to - at, kinds[kind].text, SERIAL_DIGITS)) != NULL;) {
            at = (size_t)(found - r->bytes);
            if ((r->block_count & (r->block_count - 1)) == 0) { /* full at every power of two */
                size_t room = r->block_count == 0 ? 1 : 2 * r->block_count;
                r->marks = realloc(r->marks, room * sizeof *r->marks);
                if (r->marks == NULL) die("memory");
            }
            r->marks[r->block_count++] = (struct mark){.at = at, .shift = kinds[kind].shift};
            at += SERIAL_DIGITS;
        }
    }
}

/* Writes one request to `to`, where `room` bytes are; its size. */
static size_t request_write(char *to, size_t room, const char *path, const char *key,
                            const char *body, size_t body_size)
{
    int head =
        snprintf(to, room,
                 "POST %s HTTP/1.1\r\nHost: localhost\r\n%s%s%sContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n",
                 path, key != NULL ? "Authorization: Bearer " : "", key != NULL ? key : "",
                 key != NULL ? "\r\n" : "", body_size);
    if (head < 0 || (size_t)head + body_size > room) refuse("a request's head is too long");
    memcpy(to + head, body, body_size);
    return (size_t)head + body_size;
}

static size_t longest(const struct keys *k)
{
    size_t most = 0;
    for (size_t i = 0; i < k->count; i++) {
        if (strlen(k->lines[i]) > most) most = strlen(k->lines[i]);
    }
    return most;
}

static void requests_build(struct requests *r, const char *file, const char *path,
                           const struct keys *k)
{
    size_t size;
    char *text = file_read(file, &size);
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';

    size_t room = size + lines * (strlen(path) + longest(k) + 160) + 1;
    r->bytes = allocate(room, 1);
    r->starts = allocate(lines + 1, sizeof *r->starts);
    r->marked = allocate(lines + 1, sizeof *r->marked);
    size_t used = 0;
    for (char *line = text; line < text + size;) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        if (end == NULL) break; /* a last line must end as the others do */
        if (end > line) {
            const char *key = k->count > 0 ? k->lines[r->count % k->count] : NULL;
            r->starts[r->count] = used;
            r->marked[r->count++] = r->block_count;
            size_t whole =
                request_write(r->bytes + used, room - used, path, key, line, (size_t)(end - line));
            size_t body_at = used + whole - (size_t)(end - line);
            used += whole;
            marks_add(r, body_at, used);
        }
        line = end + 1;
    }
    if (r->count == 0) refuse("--file holds no line");
    r->starts[r->count] = used;
    r->marked[r->count] = r->block_count;
    free(text);
}

/* The number of this sending into the request. */
static void request_number(struct requests *r, size_t index, uint64_t serial)
{
    for (size_t i = r->marked[index]; i < r->marked[index + 1]; i++) {
        uint64_t left = serial >> r->marks[i].shift;
        for (unsigned digit = SERIAL_DIGITS; digit-- > 0; left /= 10)
            r->bytes[r->marks[i].at + digit] = (char)('0' + left % 10);
    }
}

/* ---- connections ---- */

static int connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path) refuse("--address: the socket's path is too long");
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) die(path);
    return fd;
}

static int connect_tcp(const char *address)
{
    struct sockaddr_in to = address_read(address);
    return connect_to(&to);
}

static void connection_secure(struct load *l, struct connection *c)
{
    struct fault f;
    if (l->tls == NULL) {
        const struct tls_files files = {.ca_file = l->settings->tls_ca, .prefix = "--tls-"};
        if (tls_create(&files, &l->tls, &f) != ERR_OK) refuse(f.text);
    }
    c->tls = tls_connect(l->tls, c->fd, "localhost");
    if (c->tls == NULL) die("TLS");
    for (enum tls_step step; (step = tls_handshake(c->tls, &f)) != TLS_DONE;) {
        if (step == TLS_FAILED) refuse(f.text);
        struct pollfd p = {.fd = c->fd, .events = step == TLS_WANTS_READ ? POLLIN : POLLOUT};
        if (poll(&p, 1, SILENCE_MS) != 1) die("TLS handshake");
    }
}

static ssize_t put_bytes(struct connection *c, const char *from, size_t size)
{
    return c->tls != NULL ? tls_write(c->tls, from, size) : send(c->fd, from, size, MSG_NOSIGNAL);
}

static ssize_t get_bytes(struct connection *c, char *to, size_t size)
{
    return c->tls != NULL ? tls_read(c->tls, to, size) : recv(c->fd, to, size, 0);
}

static void connection_open(struct load *l, struct connection *c)
{
    const char *address = l->settings->address;
    c->fd = strncmp(address, "unix:", 5) == 0 ? connect_unix(address + 5) : connect_tcp(address);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    if (l->settings->tls_ca != NULL) connection_secure(l, c);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &e) != 0) die("epoll_ctl");
    c->oldest = c->under_way = 0;
    c->partial_size = c->unsent_from = c->unsent_to = 0;
    c->waits_to_write = false;
}

static void connection_watch(struct load *l, struct connection *c, bool to_write)
{
    if (c->waits_to_write == to_write) return;
    struct epoll_event e = {.events = EPOLLIN | (to_write ? EPOLLOUT : 0u), .data.ptr = c};
    if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->fd, &e) != 0) die("epoll_ctl");
    c->waits_to_write = to_write;
}

/* The server went away: whatever was under way has failed, and a fresh connection takes over. */
static void connection_replace(struct load *l, struct connection *c)
{
    l->failures += c->under_way;
    tls_end(c->tls);
    c->tls = NULL;
    close(c->fd);
    connection_open(l, c);
}

/* Sends what is left of the run of requests; false if the connection broke. */
static bool connection_flush(struct load *l, struct connection *c)
{
    while (c->unsent_from < c->unsent_to) {
        ssize_t n =
            put_bytes(c, c->requests->bytes + c->unsent_from, c->unsent_to - c->unsent_from);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            connection_watch(l, c, true);
            return true;
        }
        if (n < 0) return false;
        c->unsent_from += (size_t)n;
    }
    connection_watch(l, c, false);
    return true;
}

static bool may_send(const struct load *l)
{
    if (l->stopping) return false;
    return l->settings->requests == 0 || l->sent < l->settings->requests;
}

/* One request that was due at `due`; false if the connection broke. */
static bool connection_send(struct load *l, struct connection *c, uint64_t due)
{
    struct requests *r = c->requests;
    c->unsent_from = r->starts[c->next];
    c->unsent_to = r->starts[c->next + 1];
    request_number(r, c->next, l->settings->serial + l->sent);
    c->next = (c->next + 1) % r->count;
    c->sent_ns[c->oldest] = due;
    c->under_way = 1;
    l->sent++;
    return connection_flush(l, c);
}

static bool is_idle(const struct connection *c)
{
    return c->under_way == 0 && c->unsent_from == c->unsent_to;
}

/* Sends what is due, as far as connections are idle. Nanoseconds until the next is due;
 * -1: a reply comes first. */
static int64_t load_pace(struct load *l)
{
    const struct settings *s = l->settings;
    for (unsigned looked = 0; may_send(l); l->turn = (l->turn + 1) % s->connections) {
        uint64_t due = l->start_ns + (uint64_t)((double)l->sent * 1e9 / (double)s->rate),
                 now = now_ns();
        if (due > now) return (int64_t)(due - now);
        struct connection *c = &l->connections[l->turn];
        if (!is_idle(c)) {
            if (++looked == s->connections) return -1;
            continue;
        }
        looked = 0;
        if (!connection_send(l, c, due)) connection_replace(l, c);
    }
    return -1;
}

/* Fills the connection up to its depth, one run of side-by-side requests at a time. */
static bool connection_fill(struct load *l, struct connection *c, uint64_t now)
{
    unsigned depth = l->settings->pipeline;
    if (l->settings->rate > 0) return true;
    while (c->under_way < depth && c->unsent_from == c->unsent_to && may_send(l)) {
        size_t run = depth - c->under_way;
        struct requests *r = c->requests;
        if (run > r->count - c->next) run = r->count - c->next;
        if (l->settings->requests > 0 && run > l->settings->requests - l->sent)
            run = l->settings->requests - l->sent;
        c->unsent_from = r->starts[c->next];
        c->unsent_to = r->starts[c->next + run];
        for (size_t i = 0; i < run; i++)
            request_number(r, c->next + i, l->settings->serial + l->sent + i);
        c->next = (c->next + run) % r->count;
        for (size_t i = 0; i < run; i++) c->sent_ns[(c->oldest + c->under_way++) % depth] = now;
        l->sent += run;
        if (!connection_flush(l, c)) return false;
    }
    return true;
}

/* ---- replies ---- */

/* The string that the reply has as this member, without its quotes; escapes stay as they are. */
static void member_save(struct load *l, const char *body, size_t body_size)
{
    const char *name = l->settings->member, *end = body + body_size;
    for (const char *at = body; (at = memmem(at, (size_t)(end - at), name, strlen(name))) != NULL;
         at++) {
        const char *value = at + strlen(name) + 3; /* "name":"value" */
        if (at == body || at[-1] != '"' || value >= end || memcmp(value - 3, "\":\"", 3) != 0)
            continue;
        const char *quote = memchr(value, '"', (size_t)(end - value));
        if (quote == NULL) return;
        fprintf(l->save, "%.*s\n", (int)(quote - value), value);
        return;
    }
}

/* Of each decision in the reply: a batch has several. One that begins an object within the reply is
 * `would_have`'s. */
static void outcomes_count(struct load *l, const char *body, size_t body_size)
{
    static const char member[] = "\"decision\":\"";
    const char *end = body + body_size, *at = body;
    while ((at = memmem(at, (size_t)(end - at), member, sizeof member - 1)) != NULL) {
        const char *value = at + sizeof member - 1;
        bool is_inner = at > body + 1 && at[-1] == '{';
        at = value;
        if (is_inner || value == end) continue;
        switch (*value) {
        case 'a': l->outcomes[OUTCOME_ALLOW]++; break;
        case 'd': l->outcomes[OUTCOME_DENY]++; break;
        case 'h': l->outcomes[OUTCOME_HUMAN_REVIEW]++; break;
        case 'c': l->outcomes[OUTCOME_COMPUTE]++; break;
        default: break;
        }
    }
}

static void count_reply(struct load *l, struct connection *c, const char *head, const char *body,
                        size_t body_size, uint64_t now)
{
    unsigned status = (unsigned)(head[9] - '0') * 100 + (unsigned)(head[10] - '0') * 10 +
                      (unsigned)(head[11] - '0');
    if (status < 600) l->statuses[status]++;
    outcomes_count(l, body, body_size);
    if (l->save != NULL) member_save(l, body, body_size);
    uint64_t latency = now - c->sent_ns[c->oldest];
    c->oldest = (c->oldest + 1) % l->settings->pipeline;
    c->under_way--;
    l->replies++;
    if (status == 200) {
        l->histogram[bucket_of(latency)]++;
        if (latency > l->latency_max_ns) l->latency_max_ns = latency;
        l->timed++;
        l->good += latency <= l->settings->good_ns;
    }
    l->body_bytes += body_size;
}

/* The body's length as the head says; SIZE_MAX where it does not. */
static size_t content_length(const char *head, const char *head_end)
{
    for (const char *line = head; line < head_end;) {
        const char *end = memchr(line, '\n', (size_t)(head_end - line));
        if (end == NULL) break;
        if ((line[0] == 'C' || line[0] == 'c') && end - line > 16 &&
            strncasecmp(line, "content-length:", 15) == 0) {
            return strtoul(line + 15, NULL, 10);
        }
        line = end + 1;
    }
    return SIZE_MAX;
}

/* Takes every whole reply off the front; the bytes that it used, or SIZE_MAX: not HTTP. */
static size_t take_replies(struct load *l, struct connection *c, const char *bytes, size_t size,
                           uint64_t now)
{
    size_t used = 0;
    while (used < size) {
        const char *head = bytes + used;
        const char *blank = memmem(head, size - used, "\r\n\r\n", 4);
        if (blank == NULL) break;
        const char *body = blank + 4;
        size_t length = content_length(head, body);
        if (length > REPLY_MAX || c->under_way == 0 || body - head < 16) return SIZE_MAX;
        if ((size_t)(bytes + size - body) < length) break;
        count_reply(l, c, head, body, length, now);
        used = (size_t)(body - bytes) + length;
    }
    return used;
}

/* One read and what it brought; false if the connection is no good any more. */
static bool connection_read(struct load *l, struct connection *c)
{
    memcpy(l->buffer, c->partial, c->partial_size);
    ssize_t n = get_bytes(c, l->buffer + c->partial_size, 2 * REPLY_MAX - c->partial_size);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return true;
    if (n <= 0) return false;

    l->reply_bytes += (uint64_t)n;
    uint64_t now = now_ns();
    size_t size = c->partial_size + (size_t)n;
    size_t used = take_replies(l, c, l->buffer, size, now);
    if (used == SIZE_MAX || size - used > REPLY_MAX) return false;
    c->partial_size = size - used;
    memcpy(c->partial, l->buffer + used, c->partial_size);
    return connection_fill(l, c, now);
}

/* ---- the run ---- */

static void load_start(struct load *l, const struct settings *s)
{
    l->settings = s;
    struct keys keys = {0};
    keys_read(&keys, s->key_file);
    for (unsigned i = 0; i < s->file_count; i++)
        requests_build(&l->requests[i], s->files[i], s->path, &keys);
    free(keys.text);
    free(keys.lines);
    if (s->save != NULL && (l->save = fopen(s->save, "w")) == NULL) die(s->save);
    l->histogram = allocate(HISTOGRAM_BUCKETS, sizeof *l->histogram);
    l->buffer = allocate(2 * REPLY_MAX, 1);
    l->connections = allocate(s->connections, sizeof *l->connections);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->epoll < 0) die("epoll_create1");
    for (unsigned i = 0; i < s->connections; i++) {
        struct connection *c = &l->connections[i];
        c->sent_ns = allocate(s->pipeline, sizeof *c->sent_ns);
        c->partial = allocate(REPLY_MAX, 1);
        c->requests = &l->requests[i % s->file_count];
        c->next = (size_t)((uint64_t)c->requests->count * i / s->connections);
        connection_open(l, c);
        if (s->opens_slowly) nanosleep(&(struct timespec){.tv_nsec = OPENING_PAUSE_NS}, NULL);
    }
}

static bool anything_under_way(const struct load *l)
{
    for (unsigned i = 0; i < l->settings->connections; i++) {
        if (l->connections[i].under_way > 0) return true;
    }
    return false;
}

static void load_run(struct load *l)
{
    const struct settings *s = l->settings;
    l->start_ns = now_ns();
    uint64_t stop_ns = l->start_ns + (uint64_t)(s->seconds * 1e9);
    for (unsigned i = 0; i < s->connections; i++) {
        if (!connection_fill(l, &l->connections[i], l->start_ns))
            connection_replace(l, &l->connections[i]);
    }
    struct epoll_event events[256];
    for (;;) {
        int64_t pause = s->rate > 0 ? load_pace(l) : -1,
                most = pause < 0 ? SILENCE_MS * 1000000ll : pause;
        struct timespec timeout = {.tv_sec = most / 1000000000, .tv_nsec = most % 1000000000};
        /* it sleeps between two requests, too */
        int n = epoll_pwait2(l->epoll, events, 256, &timeout, NULL);
        if (n < 0 && errno != EINTR) die("epoll_pwait2");
        if (n == 0 && pause < 0) refuse("the server has said nothing for ten seconds");
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            bool good = true;
            if (events[i].events & EPOLLOUT)
                good = connection_flush(l, c) && connection_fill(l, c, now_ns());
            if (good && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                good = connection_read(l, c);
            if (good) continue;
            connection_replace(l, c);
            if (!connection_fill(l, c, now_ns())) refuse("a fresh connection broke at once");
        }
        if (!l->stopping && s->requests == 0 && now_ns() >= stop_ns) l->stopping = true;
        if (!may_send(l) && !anything_under_way(l)) break;
    }
    l->end_ns = now_ns();
}

static void load_print(const struct load *l)
{
    double seconds = (double)(l->end_ns - l->start_ns) / 1e9;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    printf("{\"requests\":%" PRIu64 ",\"replies\":%" PRIu64 ",\"good\":%" PRIu64
           ",\"failures\":%" PRIu64 ",\"seconds\":%.6f,\"req_s\":%.1f,",
           l->sent, l->replies, l->good, l->failures, seconds, (double)l->replies / seconds);
    printf("\"p50_ms\":%.4f,\"p99_ms\":%.4f,\"p999_ms\":%.4f,\"max_ms\":%.4f,", quantile_ms(l, 0.5),
           quantile_ms(l, 0.99), quantile_ms(l, 0.999), (double)l->latency_max_ns / 1e6);
    printf("\"reply_bytes\":%" PRIu64 ",\"body_bytes\":%" PRIu64
           ",\"load_cpu_s\":%.3f,\"statuses\":{",
           l->reply_bytes, l->body_bytes, cpu);
    const char *comma = "";
    for (unsigned i = 0; i < 600; i++) {
        if (l->statuses[i] == 0) continue;
        printf("%s\"%u\":%" PRIu64, comma, i, l->statuses[i]);
        comma = ",";
    }
    printf("},\"decisions\":{");
    for (unsigned i = 0; i < OUTCOME_COUNT; i++) {
        printf("%s\"%s\":%" PRIu64, i > 0 ? "," : "", outcome_names[i], l->outcomes[i]);
    }
    printf("}}\n");
}

static unsigned count_argument(const char *text, unsigned most, const char *name)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end != '\0' || value < 1 || value > most) {
        fprintf(stderr, "load: %s must be 1 to %u\n", name, most);
        exit(2);
    }
    return (unsigned)value;
}

static void settings_read(struct settings *s, int argc, char **argv)
{
    static const struct option options[] = {
        {"address", required_argument, NULL, 'a'},     {"path", required_argument, NULL, 'u'},
        {"file", required_argument, NULL, 'f'},        {"key-file", required_argument, NULL, 'k'},
        {"connections", required_argument, NULL, 'c'}, {"pipeline", required_argument, NULL, 'p'},
        {"seconds", required_argument, NULL, 's'},     {"requests", required_argument, NULL, 'n'},
        {"rate", required_argument, NULL, 'r'},        {"serial", required_argument, NULL, 'i'},
        {"member", required_argument, NULL, 'm'},      {"save", required_argument, NULL, 'w'},
        {"open-slowly", no_argument, NULL, 'o'},       {"tls-ca", required_argument, NULL, 't'},
        {"good-ms", required_argument, NULL, 'g'},     {NULL, 0, NULL, 0},
    };
    *s = (struct settings){.path = "/v1/agent/authorize",
                           .connections = 64,
                           .pipeline = 1,
                           .seconds = 5,
                           .good_ns = 100000000};
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (o) {
        case 'a': s->address = optarg; break;
        case 'u': s->path = optarg; break;
        case 'f':
            if (s->file_count == FILES_MAX) refuse("--file may be given twice at most");
            s->files[s->file_count++] = optarg;
            break;
        case 'k': s->key_file = optarg; break;
        case 'c': s->connections = count_argument(optarg, CONNECTIONS_MAX, "--connections"); break;
        case 'p': s->pipeline = count_argument(optarg, PIPELINE_MAX, "--pipeline"); break;
        case 's': s->seconds = strtod(optarg, NULL); break;
        case 'n': s->requests = strtoull(optarg, NULL, 10); break;
        case 'r': s->rate = strtoull(optarg, NULL, 10); break;
        case 'i': s->serial = strtoull(optarg, NULL, 10); break;
        case 'm': s->member = optarg; break;
        case 'w': s->save = optarg; break;
        case 'o': s->opens_slowly = true; break;
        case 't': s->tls_ca = optarg; break;
        case 'g': s->good_ns = strtoull(optarg, NULL, 10) * 1000000; break;
        default: refuse("see the top of load.c for its options");
        }
    }
    if (s->address == NULL || s->file_count == 0) refuse("--address and --file are needed");
    if (s->rate > 0 && s->pipeline > 1)
        refuse("--rate and --pipeline are two ways to load: name one");
    if ((s->save == NULL) != (s->member == NULL)) refuse("--save and --member go together");
}

int main(int argc, char **argv)
{
    struct settings settings;
    settings_read(&settings, argc, argv);
    static struct load load;
    load_start(&load, &settings);
    load_run(&load);
    if (load.save != NULL && fclose(load.save) != 0) die(settings.save);
    load_print(&load);
    return load.failures == 0 ? 0 : 1;
}
