/* connection.c - one client: bytes in, requests to the service, replies out.
 *
 * Everything that happens to a connection ends in one connection_turn(). It begins the requests
 * that can be begun, sends the output that may be sent, then settles: which events to wait for,
 * which clock runs, whether to close. connection.h has a diagram of the stages.
 *
 * The usual request costs one recv(), one send() and no allocation: it is read into the server's
 * scratch, parsed and answered there; only an incomplete request moves to its own buffer. All
 * input that is ready in one turn is first received, one piece after the other in the scratch,
 * and then handled. So the kernel's code and ours do not evict each other from the processor's
 * cache with each request (measured: 3 % of the cost of a decision). A head whose body has not
 * arrived yet is read again when the body is whole, because the bytes have moved by then. If the
 * memo has the head, reading it is a copy (memo.h). */
#include "http/connection.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "crypto/crypto.h"
#include "http/proxy_header.h"

/* -- input ------------------------------------------------------------------------------- */

static bool input_is_scratch(const struct http_connection *c)
{
    return in_scratch(c->server, c->in.bytes);
}

void connection_drop_input(struct http_connection *c)
{
    if (!input_is_scratch(c)) pool_give(&c->server->pool, c->in.bytes, c->in.capacity, c->in.used);
    c->in = (struct input){0};
}

static bool input_move(struct http_connection *c, size_t capacity)
{
    struct input next = {.to = input_size(c), .used = input_size(c)};
    next.bytes = pool_take(&c->server->pool, capacity, &next.capacity);
    if (next.bytes == NULL) return false;
    if (next.to > 0) memcpy(next.bytes, c->in.bytes + c->in.from, next.to);
    connection_drop_input(c);
    c->in = next;
    return true;
}

/* The most that the request in the buffer may need. */
static size_t input_capacity_max(const struct http_connection *c)
{
    if (c->stage != STAGE_BODY) return SCRATCH_BYTES;
    if (c->framing != FRAMING_CHUNKED) return c->head_size + (size_t)c->length;
    return c->head_size + (size_t)c->body_max + LIMIT_HEAD_BYTES;
}

/* Room for the next recv(); false: out of memory. */
static bool input_prepare(struct http_connection *c)
{
    struct input *in = &c->in;
    if (in->bytes == NULL) {
        struct http_server *s = c->server;
        in->bytes = s->scratch + s->scratch_used;
        in->capacity = SCRATCH_BYTES - s->scratch_used;
    }
    if (in->to < in->capacity) return true;
    if (in->from > 0) {
        memmove(in->bytes, in->bytes + in->from, input_size(c));
        in->to -= in->from;
        in->from = 0;
        return true;
    }
    size_t wanted = in->capacity * 2, most = input_capacity_max(c);
    if (wanted > most && most > in->capacity) wanted = most;
    return input_move(c, wanted);
}

/* At the end of a turn: no input stays in the scratch, and no empty buffer is held. */
static bool input_settle(struct http_connection *c)
{
    if (c->in.bytes == NULL) return true;
    if (input_size(c) == 0)
        connection_drop_input(c);
    else if (input_is_scratch(c))
        return input_move(c, input_size(c));
    return true;
}

static void input_consume(struct http_connection *c, size_t size)
{
    c->in.from += size;
    c->scan = (struct head_scan){0};
    c->chunk = (struct chunk_decoder){0};
    c->head_size = 0;
    c->decoded = 0;
    c->recalled = c->skipped_blank_line = c->resumed = false;
    c->sender = SENDER_NOT_ASKED;
    c->phase_restart = true;
}

/* -- output ------------------------------------------------------------------------------ */

static void connection_break(struct http_connection *c)
{
    c->peer = PEER_BROKEN;
    server_queue_work(c);
}

static ssize_t put_bytes(struct http_connection *c, const char *from, size_t size)
{
    if (c->tls != NULL) return tls_write(c->tls, from, size);
    return send(c->watch.fd, from, size, MSG_NOSIGNAL);
}

static ssize_t get_bytes(struct http_connection *c, char *to, size_t size)
{
    if (c->tls != NULL) return tls_read(c->tls, to, size);
    return recv(c->watch.fd, to, size, 0);
}

void connection_send(struct http_connection *c)
{
    if (c->peer == PEER_BROKEN) return;
    c->write_blocked = false;
    size_t open;
    while ((open = output_open(&c->out)) > 0) {
        ssize_t sent = put_bytes(c, c->out.bytes + c->out.from, open);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            c->write_blocked = true;
            return;
        }
        if (sent < 0) {
            connection_break(c);
            return;
        }
        output_sent(&c->out, &c->server->pool, (size_t)sent);
        /* the write clock measures progress */
        if (c->phase == PHASE_WRITE) c->phase_restart = true;
    }
}

/* There is no memory for the answer. If no other output has to leave first, the client gets a
 * short 503; otherwise its connection ends. */
static void put_nothing(struct http_connection *c)
{
#define NO_MEMORY_BODY                                                                             \
    "{\"code\":\"overloaded\",\"error\":\"there is no memory for this request now; try again later\"}"
    static const char head[] = "HTTP/1.1 503 Service Unavailable\r\n"
                               "Content-Type: application/json\r\n"
                               "Retry-After: 1\r\n"
                               "Connection: close\r\n"
                               "Content-Length: 88\r\n\r\n" NO_MEMORY_BODY;
    enum { BODY_BYTES = sizeof NO_MEMORY_BODY - 1, ALL_BYTES = sizeof head - 1 };
    _Static_assert(BODY_BYTES == 88, "Content-Length is the body's");
    size_t size = c->head_only ? ALL_BYTES - BODY_BYTES : ALL_BYTES;
    if (output_pending(&c->out) > 0 || put_bytes(c, head, size) != (ssize_t)size)
        connection_break(c);
}

static bool has_header(const struct http_reply *r, struct str name)
{
    for (size_t i = 0; i < r->header_count; i++)
        if (str_equal_ignoring_case(r->headers[i].name, name)) return true;
    return false;
}

/* The reply with the headers of all replies. */
static const struct http_reply *complete(const struct http_service *s, const struct http_reply *r,
                                         struct http_reply *room)
{
    if (s->header_count == 0) return r;
    *room = *r;
    for (size_t i = 0; i < s->header_count; i++) {
        if (has_header(r, s->headers[i].name)) continue;
        check(room->header_count < HTTP_REPLY_HEADERS_MAX);
        room->headers[room->header_count++] = s->headers[i];
    }
    return room;
}

/* False: the reply could not be put, and the connection is broken. */
static bool put_reply(struct http_connection *c, const struct http_reply *r, bool last)
{
    struct http_server *s = c->server;
    struct http_reply room;
    r = complete(&s->service, r, &room);
    char *to = output_room(&c->out, &s->pool, reply_bytes_max(r));
    if (to == NULL) {
        put_nothing(c);
        return false;
    }
    enum persistence persistence = last ? PERSIST_NOT : c->persistence;
    char *end = reply_write(r, c->head_only, persistence, server_date(s), to);
    output_wrote(&c->out, (size_t)(end - to));
    return true;
}

void connection_reply(struct http_connection *c, const struct http_reply *r)
{
    struct http_server *s = c->server;
    check(c->stage == STAGE_HAND || c->stage == STAGE_DEFERRED);
    bool last = r->close || c->linger || c->persistence == PERSIST_NOT || s->draining;
    if (output_wait(&c->out, r->barrier, s->reached)) {
        if (!link_is_on(&c->barrier_link)) server_barrier(c);
    } else {
        check(s->waiting > 0);
        s->waiting--;
    }
    if (!put_reply(c, r, last)) last = c->linger = true;
    c->stage = last ? STAGE_CLOSING : STAGE_HEAD;
}

void connection_lose(struct http_connection *c, const struct http_reply *instead)
{
    struct http_server *s = c->server;
    const bool was_deferred = c->stage == STAGE_DEFERRED;
    const uint32_t replies = output_cut(&c->out) + (was_deferred || c->stage == STAGE_PARKED);
    check(replies <= s->waiting && c->stage != STAGE_HAND);
    s->waiting -= replies;
    link_remove(&c->barrier_link);
    c->stage = STAGE_CLOSING; /* no token finds it */
    c->linger = true;
    c->head_only = false;
    if (was_deferred && c->on_gone != NULL) c->on_gone(c->on_gone_context);
    (void)put_reply(c, instead, true);
    connection_send(c);
    server_queue_work(c);
}

/* -- requests ---------------------------------------------------------------------------- */

/* `linger`: its body has not arrived. */
static void hand_begin(struct http_connection *c, bool linger)
{
    c->stage = STAGE_HAND;
    c->linger = linger;
    c->server->waiting++;
}

/* The head of the request, for the answer (an X-Request-ID to echo), if it could be read. */
static void exchange_find(struct http_connection *c)
{
    struct fault ignored;
    if (c->server->understood == c) return;
    if (c->stage == STAGE_BODY)
        (void)request_understand(c, &ignored);
    else
        request_blank(c);
}

/* A refusal; `whole` is the request's size if all of it has arrived, else 0. */
static void refuse(struct http_connection *c, const struct fault *f, size_t whole)
{
    struct http_server *s = c->server;
    exchange_find(c);
    hand_begin(c, whole == 0);
    s->service.refuse(s->service.context, &s->exchange, f);
    check(c->stage != STAGE_HAND);
    input_consume(c, whole == 0 ? input_size(c) : whole);
}

void connection_refuse(struct http_connection *c, const struct fault *f) { refuse(c, f, 0); }

static bool refuse_plainly(struct http_connection *c, enum err err)
{
    struct fault f;
    (void)fault_plain(&f, err);
    c->server->understood = NULL;
    refuse(c, &f, 0);
    return false;
}

/* A connection whose request is refused by its head alone may stay open if the body has arrived
 * and can be skipped. */
static void refuse_head(struct http_connection *c, const struct fault *f)
{
    bool whole = c->framing == FRAMING_LENGTH && input_size(c) - c->head_size >= c->length;
    refuse(c, f, whole ? c->head_size + (size_t)c->length : 0);
}

/* False: the head is incomplete, or it was refused. */
static bool find_head_end(struct http_connection *c, const char *bytes, size_t size,
                          size_t *ret_head_size)
{
    c->recalled = memo_find(c->memo, bytes, size, ret_head_size);
    if (c->recalled) return true;
    enum head_state outcome = head_scan(&c->scan, bytes, size, ret_head_size);
    if (outcome == SCAN_BAD) return refuse_plainly(c, ERR_BAD_REQUEST);
    if (outcome == SCAN_MORE) {
        enum { LINE_BEYOND_TARGET = 64 }; /* method, version and blanks */
        if (c->scan.lines == 0 && size > LIMIT_TARGET_BYTES + LINE_BEYOND_TARGET)
            return refuse_plainly(c, ERR_TARGET_TOO_LONG);
        if (size >= LIMIT_HEAD_BYTES) return refuse_plainly(c, ERR_HEADERS_TOO_LARGE);
        return false;
    }
    if (*ret_head_size > LIMIT_HEAD_BYTES) return refuse_plainly(c, ERR_HEADERS_TOO_LARGE);
    return true;
}

/* False: it is incomplete, or it was refused. */
static bool take_proxy_header(struct http_connection *c)
{
    size_t size = 0;
    const char *wrong = "";
    enum proxy_header outcome =
        proxy_header_read(c->in.bytes + c->in.from, input_size(c), &size, &c->client, &wrong);
    if (outcome == PROXY_MORE) return false;
    if (outcome == PROXY_BAD) {
        char text[CLIENT_ADDRESS_TEXT];
        struct str proxy = client_address_text(&c->client, text);
        struct fault f;
        (void)fault_set(
            &f, ERR_BAD_REQUEST, "",
            "the PROXY header of %.*s %s: http.proxy_protocol is on, so each connection "
            "from an address of http.trusted_proxies must begin with one",
            STR_FORMAT(proxy), wrong);
        c->server->understood = NULL;
        refuse(c, &f, 0);
        return false;
    }
    c->awaits_proxy_header = false;
    input_consume(c, size);
    if (c->secure == SECURE_NOT) return true;
    c->server->secure_begin(c); /* after it no turn has to do with this connection */
    return false;
}

static bool take_head(struct http_connection *c)
{
    if (c->awaits_proxy_header) return take_proxy_header(c);
    const char *bytes = c->in.bytes + c->in.from;
    size_t size = input_size(c), head_size;
    /* RFC 9112 2.2: a server ignores one empty line before a request. */
    if (!c->skipped_blank_line && bytes[0] == '\r' && (size == 1 || bytes[1] == '\n')) {
        if (size == 1) return false;
        c->in.from += 2;
        c->skipped_blank_line = true;
        return true;
    }
    if (!find_head_end(c, bytes, size, &head_size)) return false;

    c->head_size = (uint32_t)head_size;
    struct fault f;
    if (request_understand(c, &f) != ERR_OK)
        refuse_head(c, &f);
    else
        c->stage = STAGE_BODY;
    return true;
}

/* The bytes may have moved, or the head of another connection was read in the meantime. */
static bool understand_again(struct http_connection *c)
{
    struct fault f;
    if (c->server->understood == c) return true;
    if (request_understand(c, &f) == ERR_OK) return true;
    refuse(c, &f, 0);
    return false;
}

/* Before the connection waits for a body, the service may refuse the request. A client that sent
 * Expect gets 100 Continue. */
static void announce(struct http_connection *c)
{
    struct http_server *s = c->server;
    c->sender = SENDER_STRANGER;
    if (s->service.admit != NULL) {
        if (!understand_again(c)) return;
        hand_begin(c, true);
        bool admitted = s->service.admit(s->service.context, &s->exchange);
        check(c->stage != STAGE_DEFERRED && c->stage != STAGE_PARKED);
        if (c->stage != STAGE_HAND) {
            input_consume(c, input_size(c));
            return;
        }
        s->waiting--;
        c->stage = STAGE_BODY;
        if (admitted) c->sender = SENDER_ADMITTED;
    }
    if (c->expects_continue && input_size(c) == c->head_size) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        char *to = output_room(&c->out, &s->pool, sizeof go_on);
        if (to == NULL) {
            connection_break(c);
            return;
        }
        memcpy(to, go_on, sizeof go_on - 1);
        output_wrote(&c->out, sizeof go_on - 1);
    }
}

/* Clients without a credential may use half of the memory that all connections hold together, so
 * that their unfinished requests cannot block the answers of other clients. */
static bool holds_too_much(const struct http_connection *c)
{
    const struct http_server *s = c->server;
    size_t most = s->limits.held_bytes / 2;
    if (c->sender == SENDER_ADMITTED || most == 0 || input_size(c) <= POOL_BYTES) return false;
    return s->pool.large_bytes + (input_is_scratch(c) ? input_size(c) : 0) > most;
}

/* The body is incomplete. */
static bool await_body(struct http_connection *c)
{
    if (c->sender == SENDER_NOT_ASKED) announce(c);
    if (c->stage == STAGE_BODY && holds_too_much(c)) return refuse_plainly(c, ERR_OVERLOADED);
    return false;
}

static bool hand_over(struct http_connection *c, struct str body, size_t whole)
{
    struct http_server *s = c->server;
    struct fault f;
    if (!understand_again(c)) return false;
    if (c->framing == FRAMING_CHUNKED && body.size > 0 && request_judge_type(c, &f) != ERR_OK) {
        refuse(c, &f, whole);
        return true;
    }
    s->exchange.body = body;
    s->exchange.is_resumed = c->resumed;
    hand_begin(c, false);
    s->service.handle(s->service.context, &s->exchange);
    check(c->stage != STAGE_HAND);
    if (c->stage == STAGE_PARKED) return false; /* the input stays */
    input_consume(c, whole);
    return true;
}

static bool take_chunks(struct http_connection *c)
{
    char *bytes = c->in.bytes + c->in.from;
    size_t from = c->head_size + c->decoded, to = from;
    size_t limit = c->head_size + (size_t)c->body_max;
    enum chunk outcome = chunk_decode(&c->chunk, bytes, &from, input_size(c), &to, limit);
    c->decoded = to - c->head_size;
    if (outcome == CHUNK_DONE) return hand_over(c, str_of(bytes + c->head_size, c->decoded), from);
    if (outcome == CHUNK_BAD) return refuse_plainly(c, ERR_BAD_REQUEST);
    if (outcome == CHUNK_TOO_LARGE) return refuse_plainly(c, ERR_BODY_TOO_LARGE);
    c->in.to = c->in.from + to; /* the framing is dropped: the next bytes join the body */
    return await_body(c);
}

static bool take_body(struct http_connection *c)
{
    if (c->framing == FRAMING_CHUNKED) return take_chunks(c);
    if (input_size(c) - c->head_size < c->length) return await_body(c);
    const char *body = c->in.bytes + c->in.from + c->head_size;
    return hand_over(c, str_of(body, (size_t)c->length), c->head_size + (size_t)c->length);
}

static bool may_begin(const struct http_connection *c)
{
    return !c->server->held && output_pending(&c->out) < OUT_PAUSE_BYTES &&
           output_has_barrier_room(&c->out);
}

static void hold_back(struct http_connection *c)
{
    c->progress = PROGRESS_PAUSED;
    if (!link_is_on(&c->work_link)) list_append(&c->server->held_back, &c->work_link);
}

static bool is_receiving(const struct http_connection *c)
{
    return c->stage == STAGE_HEAD || c->stage == STAGE_BODY;
}

/* Begins every request that is complete and may be begun. */
static void advance(struct http_connection *c)
{
    c->progress = PROGRESS_FREE;
    if (c->starved && is_receiving(c) && may_begin(c)) {
        c->starved = false;
        (void)refuse_plainly(c, ERR_OVERLOADED);
    }
    while (is_receiving(c) && input_size(c) > 0 && c->peer != PEER_BROKEN) {
        if (!may_begin(c)) {
            c->progress = PROGRESS_BLOCKED;
            if (c->server->held) hold_back(c);
            break;
        }
        if (!(c->stage == STAGE_HEAD ? take_head(c) : take_body(c))) break;
    }
    c->server->understood = NULL;
}

/* -- turns ------------------------------------------------------------------------------- */

static void watch(struct http_connection *c)
{
    int events = 0;
    /* Behind a request that is not answered yet, or may not be begun, the client may fill one
     * more buffer. */
    bool room =
        input_size(c) < POOL_BYTES || (c->stage == STAGE_BODY && c->progress == PROGRESS_FREE);
    if (c->peer == PEER_OPEN && c->progress != PROGRESS_PAUSED && c->stage != STAGE_CLOSING && room)
        events |= LOOP_READ;
    if (c->write_blocked) events |= LOOP_WRITE;
    loop_fd_change(c->server->loop, &c->watch, events);
    /* the socket does not become ready for bytes that TLS has read already */
    if (c->tls != NULL && (events & LOOP_READ) && tls_has_more(c->tls)) server_queue_work(c);
}

static enum phase phase_of(const struct http_connection *c)
{
    if (c->stage == STAGE_LINGER) return PHASE_LINGER;
    if (c->write_blocked) return PHASE_WRITE;
    if (c->progress != PROGRESS_FREE) return PHASE_NONE;
    if (c->stage == STAGE_BODY)
        return c->sender == SENDER_ADMITTED ? PHASE_BODY : PHASE_STRANGERS_BODY;
    if (c->stage != STAGE_HEAD) return PHASE_NONE;
    if (input_size(c) > 0) return PHASE_HEAD;
    return output_pending(&c->out) > 0 ? PHASE_NONE : PHASE_IDLE;
}

static void settle(struct http_connection *c)
{
    watch(c);
    server_phase(c, phase_of(c));
}

/* Shuts down our side; input is dropped until the client closes its side. Closing with unread
 * bytes would reset the connection, and the client might lose the answer that is under way. */
static void linger(struct http_connection *c)
{
    if (c->tls != NULL) tls_shut(c->tls);
    shutdown(c->watch.fd, SHUT_WR);
    c->stage = STAGE_LINGER;
    settle(c);
}

/* Whether both sides of the socket are closed, as opposed to a client that only stopped sending. */
static bool is_hung_up(const struct http_connection *c)
{
    struct pollfd p = {.fd = c->watch.fd};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLHUP | POLLERR)) != 0;
}

static void find_out_ended(struct http_connection *c)
{
    if ((c->stage == STAGE_DEFERRED || c->stage == STAGE_PARKED) && is_hung_up(c))
        c->peer = PEER_BROKEN;
    if (is_receiving(c) && c->progress == PROGRESS_FREE) {
        c->stage = STAGE_CLOSING;
        connection_drop_input(c);
    }
}

void connection_turn(struct http_connection *c)
{
    link_remove(&c->arrived_link);
    do {
        advance(c);
        connection_send(c);
    } while (c->progress != PROGRESS_FREE && may_begin(c) && c->peer != PEER_BROKEN);
    if (c->peer == PEER_ENDED) find_out_ended(c);

    bool drained = c->server->draining && c->stage == STAGE_HEAD && input_size(c) == 0;
    bool done = output_pending(&c->out) == 0 && (drained || c->stage == STAGE_CLOSING);
    if (c->peer == PEER_BROKEN || (done && (c->peer == PEER_ENDED || !c->linger))) {
        connection_free(c);
        return;
    }
    if (done && c->stage == STAGE_CLOSING) {
        connection_drop_input(c);
        linger(c);
        return;
    }
    if (!input_settle(c)) {
        if (!is_receiving(c) || !may_begin(c)) {
            connection_free(c);
            return;
        }
        (void)refuse_plainly(c, ERR_OVERLOADED); /* no input is left after it */
        connection_turn(c);
        return;
    }
    settle(c);
}

void connection_eased(struct http_connection *c)
{
    if (c->peer != PEER_OPEN || c->progress != PROGRESS_FREE || c->stage == STAGE_CLOSING ||
        c->server->draining)
        server_queue_work(c);
    else if (is_receiving(c))
        settle(c);
}

/* True: no more input will come. */
static bool drop_input(struct http_connection *c)
{
    struct http_server *s = c->server;
    char *to = s->scratch + s->scratch_used;
    ssize_t got = recv(c->watch.fd, to, SCRATCH_BYTES - s->scratch_used, 0);
    if (got > 0) memory_wipe(to, (size_t)got); /* requests that no client waits for any more */
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static void receive(struct http_connection *c)
{
    if (!input_prepare(c)) {
        c->starved = is_receiving(c) && may_begin(c);
        if (!c->starved) c->peer = PEER_BROKEN;
        return;
    }
    struct input *in = &c->in;
    ssize_t got = get_bytes(c, in->bytes + in->to, in->capacity - in->to);
    if (got > 0) {
        in->to += (size_t)got;
        if (in->used < in->to) in->used = in->to;
    } else if (got == 0) {
        if (c->peer == PEER_OPEN) c->peer = PEER_ENDED;
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
        c->peer = PEER_BROKEN;
    }
}

void connections_arrived(void *server)
{
    struct http_server *s = server;
    while (!list_is_empty(&s->arrived)) {
        struct http_connection *c =
            link_owner(s->arrived.head.next, struct http_connection, arrived_link);
        connection_turn(c); /* which removes it from the list */
    }
    memory_wipe(s->scratch, s->scratch_used);
    s->scratch_used = 0;
}

/* Input in the scratch waits there for the turns of all connections with input in this turn. The
 * next read goes behind it, so the buffer that was lent for it is no longer this connection's. */
static void arrive(struct http_connection *c)
{
    struct http_server *s = c->server;
    s->scratch_used += c->in.to;
    c->in.capacity = c->in.to;
    if (!link_is_on(&c->arrived_link)) list_append(&s->arrived, &c->arrived_link);
    if (s->scratch_used > SCRATCH_BYTES / 2) connections_arrived(s);
}

void connection_ready(struct loop_fd *w, int events)
{
    struct http_connection *c = link_owner(w, struct http_connection, watch);
    if (c->stage == STAGE_LINGER) {
        if (drop_input(c)) connection_free(c);
        return;
    }
    if ((events & LOOP_READ) && c->server->held) {
        hold_back(c); /* the input came in time and has yet to be read: no clock runs */
        settle(c);
        events &= ~LOOP_READ;
        if (events == 0) return;
        connection_send(c);
        connection_eased(c);
        return;
    }
    if (events & LOOP_READ) receive(c);
    if (input_is_scratch(c))
        arrive(c);
    else
        connection_turn(c);
}

void connection_work(struct http_connection *c)
{
    bool more = c->tls != NULL && c->peer != PEER_BROKEN && (c->watch.events & LOOP_READ) &&
                tls_has_more(c->tls);
    if (more)
        connection_ready(&c->watch, LOOP_READ);
    else
        connection_turn(c);
}
