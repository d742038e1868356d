/* transfer.c - the state machine of a client's call. */
#include "http/transfer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/check.h"
#include "base/limits.h"
#include "base/list.h"
#include "crypto/crypto.h"

enum {
    READ_AT_LEAST = 4096,
    /* for the last address: time for one or two lost packets. After that a new attempt is
     * better, because its first packets are sent at shorter intervals */
    CONNECT_MS = 3000,
    NEXT_MS = 250, /* until the next address is tried beside those before it (RFC 8305, 5) */
    KEEPALIVE_IDLE_S = 5,
    KEEPALIVE_INTERVAL_S = 2,
    KEEPALIVE_COUNT = 3,
};

/* Whether all bytes are `least` or above; if that is a blank, a tab is allowed, too. */
static bool is_plain(struct str s, char least)
{
    for (size_t i = 0; i < s.size; i++) {
        char c = s.bytes[i];
        if (c == '\t' && least == ' ') continue;
        if ((unsigned char)c < (unsigned char)least || c == 0x7f) return false;
    }
    return true;
}

static void put_header(struct buf *b, struct str name, struct str value)
{
    buf_put(b, name);
    buf_put_literal(b, ": ");
    buf_put(b, value);
    buf_put_literal(b, "\r\n");
}

/* Upper bound of a call's head: growing the buffer would move it, and leave a copy of a
 * credential behind. */
static size_t head_bytes_max(const struct http_call *call)
{
    size_t size = ADDRESS_HOST + call->target.size + call->content_type.size + 200;
    for (size_t i = 0; i < call->header_count; i++)
        size += call->headers[i].name.size + call->headers[i].value.size + 4;
    return size;
}

static enum err no_memory(struct fault *f)
{
    return fault_set(f, ERR_FULL, "", "there is no memory for the call");
}

static enum err too_large_to_send(struct fault *f)
{
    return fault_set(f, ERR_FULL, "", "the request is too large to send");
}

enum err transfer_prepare(struct transfer *t, const struct http_call *call, bool keep_alive,
                          struct fault *f)
{
    struct str method = str_from(call->method);
    if (!str_starts(call->target, STR("/")) || !is_plain(call->target, '!'))
        return fault_set(f, ERR_BAD_VALUE, "", "the target is not an encoded path");
    if (!is_plain(call->content_type, ' '))
        return fault_set(f, ERR_BAD_VALUE, "", "Content-Type has a control byte");
    struct buf *b = &t->request;
    char authority[ADDRESS_HOST + 10];
    (void)buf_room(b, head_bytes_max(call));
    buf_put(b, method);
    buf_put_literal(b, " ");
    buf_put(b, call->target);
    buf_put_literal(b, " HTTP/1.1\r\n");
    put_header(b, STR("Host"), address_authority(&t->to.address, authority));
    if (!keep_alive) put_header(b, STR("Connection"), STR("close"));
    for (size_t i = 0; i < call->header_count; i++) {
        const struct http_header *h = &call->headers[i];
        if (h->name.size == 0 || !is_plain(h->name, '!') || !is_plain(h->value, ' '))
            return fault_set(f, ERR_BAD_VALUE, "", "a header to be sent has a control byte");
        put_header(b, h->name, h->value);
    }
    if (!str_is_absent(call->content_type)) put_header(b, STR("Content-Type"), call->content_type);
    if (call->body.size > 0 || str_equal(method, STR("POST")) || str_equal(method, STR("PUT"))) {
        buf_put_literal(b, "Content-Length: ");
        buf_put_u64(b, call->body.size);
        buf_put_literal(b, "\r\n");
    }
    buf_put_literal(b, "\r\n");
    t->body = call->body;
    t->head_only = str_equal(method, STR("HEAD"));
    t->reply_max = call->reply_max;
    t->silence_ms = call->silence_ms;
    if (b->starved || t->reply.starved) return no_memory(f);
    if (b->overflow || call->body.size > b->limit - b->size) return too_large_to_send(f);
    return ERR_OK;
}

enum err transfer_own_body(struct transfer *t, struct fault *f)
{
    struct buf *b = &t->request, whole = {.limit = b->limit};
    buf_put(&whole, buf_view(b));
    buf_put(&whole, t->body);
    t->body = str_of(NULL, 0);
    memory_wipe(b->bytes, b->size);
    buf_fini(b);
    *b = whole;
    if (b->starved) return no_memory(f);
    return b->overflow ? too_large_to_send(f) : ERR_OK;
}

/* -- connections ------------------------------------------------------------------------- */

void wire_close(struct wire *w)
{
    tls_end(w->tls);
    if (w->fd >= 0) close(w->fd);
    *w = (struct wire){.fd = -1};
}

static ssize_t wire_get(const struct wire *w, char *to, size_t size)
{
    if (w->tls != NULL) return tls_read(w->tls, to, size);
    return recv(w->fd, to, size, 0);
}

static ssize_t wire_put(const struct wire *w, struct iovec pieces[2])
{
    if (w->tls != NULL) return tls_write_both(w->tls, pieces);
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    return sendmsg(w->fd, &message, MSG_NOSIGNAL);
}

/* -- endings ----------------------------------------------------------------------------- */

static bool is_all_sent(const struct transfer *t)
{
    return t->sent == t->request.size + t->body.size;
}

static void drop_knocks(struct transfer *t)
{
    for (struct knock *k = t->knocks; k < t->knocks + t->place_next; k++) {
        if (k->of == NULL) continue;
        loop_fd_stop(t->loop, &k->watch);
        close(k->watch.fd);
        k->of = NULL;
    }
}

static void stop_watching(struct transfer *t)
{
    drop_knocks(t);
    loop_fd_stop(t->loop, &t->watch);
    loop_timer_stop(t->loop, &t->deadline);
    loop_timer_stop(t->loop, &t->silence);
}

/* The steps below return ERR_END to continue, ERR_OK if the answer is complete, else the error.
 * Only the loop's callbacks end the transfer, as their last action, because `done` may free it. */
static void end(struct transfer *t, enum err err)
{
    stop_watching(t);
    t->is_over = true;
    if (!t->may_keep) wire_close(&t->wire);
    t->done(t, err);
}

static enum err malformed(struct transfer *t, const char *how)
{
    return fault_set(&t->fault, ERR_BAD_REQUEST, "", "the peer's answer %s", how);
}

static enum err too_large(struct transfer *t)
{
    if (t->reply.starved) return fault_set(&t->fault, ERR_FULL, "", "there is no memory");
    return fault_set(&t->fault, ERR_BODY_TOO_LARGE, "", "the peer's answer is over %zu bytes",
                     t->reply_max);
}

static enum err closed_by_peer(struct transfer *t)
{
    return fault_set(&t->fault, ERR_CLOSED, "",
                     "the peer closed the connection before its answer ended");
}

static enum err closed_by_errno(struct transfer *t, int number)
{
    const char *why = t->wire.tls != NULL ? tls_why(t->wire.tls) : NULL;
    return fault_set(&t->fault, ERR_CLOSED, "", "%s", why != NULL ? why : strerror(number));
}

void transfer_fini(struct transfer *t)
{
    if (t->loop != NULL && !t->is_over) stop_watching(t);
    wire_close(&t->wire);
    /* The request has a credential, and the answer may have one. */
    if (t->request.bytes != NULL) memory_wipe(t->request.bytes, t->request.size);
    if (t->reply.bytes != NULL) memory_wipe(t->reply.bytes, t->reply.capacity);
    buf_fini(&t->request);
    buf_fini(&t->reply);
}

static void too_late(struct transfer *t)
{
    const char *what = t->head_size > 0 ? " did not send its whole answer"
                       : is_all_sent(t) ? " did not answer"
                                        : " did not take the request";
    (void)fault_set(&t->fault, ERR_TIMEOUT, "", "the peer%s in time", what);
    end(t, ERR_TIMEOUT);
}

static void deadline_due(struct loop_timer *timer)
{
    struct transfer *t = link_owner(timer, struct transfer, deadline);
    if (t->failed_early != ERR_OK) {
        end(t, t->failed_early);
        return;
    }
    too_late(t);
}

static void silence_due(struct loop_timer *timer)
{
    too_late(link_owner(timer, struct transfer, silence));
}

/* Some bytes were sent or received. */
static void sign_of_life(struct transfer *t)
{
    if (t->silence_ms > 0) loop_timer_start(t->loop, &t->silence, t->silence_ms, silence_due);
}

/* -- answers ----------------------------------------------------------------------------- */

static enum err answer_whole(struct transfer *t, bool surplus)
{
    /* Surplus bytes belong to no request; an early answer leaves a request half sent. */
    t->may_keep = t->head.keep_alive && !t->until_end && !surplus && is_all_sent(t);
    return ERR_OK;
}

/* ERR_OK: the final head has arrived. */
static enum err take_head(struct transfer *t)
{
    for (;;) {
        const char *bytes = t->reply.bytes + t->head_from;
        size_t size = t->reply.size - t->head_from, head_size;
        if (size > 0 && bytes[0] != 'H') return malformed(t, "is not HTTP");
        if (size == 0) return ERR_END;
        enum head_state outcome = head_scan(&t->scan, bytes, size, &head_size);
        if (outcome == SCAN_BAD) return malformed(t, "has a malformed head");
        if (t->head_from + (outcome == SCAN_WHOLE ? head_size : size) > LIMIT_HEAD_BYTES)
            return malformed(t, "has a head over the limit");
        if (outcome == SCAN_MORE) return ERR_END;
        if (head_parse_answer(bytes, head_size, &t->head, &t->fault) != ERR_OK)
            return ERR_BAD_REQUEST;
        if (t->head.status == 101) return malformed(t, "changes the protocol");
        if (t->head.status >= 200) {
            t->head_size = head_size;
            return ERR_OK;
        }
        t->head_from += head_size; /* 1xx: the final answer follows */
        t->scan = (struct head_scan){0};
    }
}

static void frame_body(struct transfer *t)
{
    const struct head *h = &t->head;
    bool bodiless = t->head_only || h->status == 204 || h->status == 304;
    t->chunked = !bodiless && h->chunked;
    t->until_end = !bodiless && !h->chunked && !h->has_length;
    t->length = bodiless ? 0 : h->length;
}

static enum err take_chunks(struct transfer *t)
{
    size_t start = t->head_from + t->head_size, from = start + t->body_size, to = from;
    enum chunk outcome =
        chunk_decode(&t->chunk, t->reply.bytes, &from, t->reply.size, &to, start + t->reply_max);
    t->body_size = to - start;
    if (outcome == CHUNK_BAD) return malformed(t, "has malformed chunks");
    if (outcome == CHUNK_TOO_LARGE) return too_large(t);
    if (outcome == CHUNK_DONE) return answer_whole(t, from < t->reply.size);
    t->reply.size = to;
    return ERR_END;
}

static enum err take_answer(struct transfer *t, bool ended)
{
    if (t->head_size == 0) {
        enum err err = take_head(t);
        if (err != ERR_OK) return err == ERR_END && ended ? closed_by_peer(t) : err;
        frame_body(t);
    }
    size_t have = t->reply.size - t->head_from - t->head_size;
    if (t->chunked) {
        enum err err = take_chunks(t);
        return err == ERR_END && ended ? closed_by_peer(t) : err;
    }
    if (t->length > t->reply_max || (t->until_end && have > t->reply_max)) return too_large(t);
    t->body_size = t->until_end ? have : (size_t)t->length;
    if (t->until_end ? ended : have >= t->length) return answer_whole(t, have > t->body_size);
    return ended ? closed_by_peer(t) : ERR_END;
}

bool transfer_has_begun_answer(const struct transfer *t) { return t->reply.size > 0; }

void transfer_answer(struct transfer *t, struct http_answer *ret)
{
    /* Parsed again: the bytes may have moved since. */
    const char *bytes = t->reply.bytes + t->head_from;
    check(head_parse_answer(bytes, t->head_size, &t->head, NULL) == ERR_OK);
    ret->status = t->head.status;
    ret->body = str_of(bytes + t->head_size, t->body_size);
    ret->place = t->place;
    ret->header_count = t->head.field_count;
    memcpy(ret->headers, t->head.fields, t->head.field_count * sizeof *ret->headers);
}

/* -- the socket -------------------------------------------------------------------------- */

static enum err receive_once(struct transfer *t)
{
    struct buf *b = &t->reply;
    if (!buf_room(b, READ_AT_LEAST)) return too_large(t);
    ssize_t got = wire_get(&t->wire, b->bytes + b->size, b->capacity - b->size);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return ERR_END;
    if (got < 0) return closed_by_errno(t, errno);
    b->size += (size_t)got;
    sign_of_life(t);
    return take_answer(t, got == 0);
}

/* The socket does not become ready for bytes that TLS has read already. */
static enum err receive(struct transfer *t)
{
    enum err err = receive_once(t);
    while (err == ERR_END && t->wire.tls != NULL && tls_has_more(t->wire.tls))
        err = receive_once(t);
    return err;
}

/* The rest of head and body, in one call and without copying one behind the other: a publisher's
 * body is a megabyte. */
static ssize_t send_rest(const struct transfer *t)
{
    size_t of_head = t->sent < t->request.size ? t->sent : t->request.size;
    size_t of_body = t->sent - of_head;
    struct iovec left[2] = {
        {.iov_base = t->request.bytes + of_head, .iov_len = t->request.size - of_head},
        /* sendmsg only reads, but its structure is not const. */
        {.iov_base = (void *)((uintptr_t)t->body.bytes + of_body),
         .iov_len = t->body.size - of_body},
    };
    return wire_put(&t->wire, left);
}

static enum err transmit(struct transfer *t)
{
    int events = LOOP_READ;
    while (!is_all_sent(t)) {
        ssize_t sent = send_rest(t);
        if (sent >= 0) {
            t->sent += (size_t)sent;
            sign_of_life(t);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            events |= LOOP_WRITE;
            break;
        } else if (errno != EINTR) {
            /* The peer may have answered and closed without reading everything: read before
             * giving up. */
            int number = errno;
            char probe;
            if (recv(t->wire.fd, &probe, 1, MSG_PEEK) <= 0) return closed_by_errno(t, number);
            break;
        }
    }
    loop_fd_change(t->loop, &t->watch, events);
    return ERR_END;
}

/* A request may wait long. Keepalives find a peer that is gone without a FIN or RST. */
static void keep_asking(int fd)
{
    int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S, count = KEEPALIVE_COUNT;
    /* a Unix socket */
    if (setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) != 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

static void socket_ready(struct loop_fd *w, int events)
{
    struct transfer *t = link_owner(w, struct transfer, watch);
    enum err err = ERR_END;
    if (events & LOOP_WRITE) err = transmit(t);
    if (err == ERR_END && (events & LOOP_READ)) err = receive(t);
    if (err != ERR_END) end(t, err);
}

/* -- TLS --------------------------------------------------------------------------------- */

static void handshake_ready(struct loop_fd *w, int events)
{
    (void)events;
    struct transfer *t = link_owner(w, struct transfer, watch);
    switch (tls_handshake(t->wire.tls, &t->fault)) {
    case TLS_DONE:
        t->watch.ready = socket_ready;
        sign_of_life(t);
        socket_ready(w, LOOP_READ | LOOP_WRITE);
        return;
    case TLS_WANTS_READ: loop_fd_change(t->loop, w, LOOP_READ); return;
    case TLS_WANTS_WRITE: loop_fd_change(t->loop, w, LOOP_WRITE); return;
    case TLS_FAILED: end(t, ERR_CLOSED); return;
    }
}

/* -- connecting -------------------------------------------------------------------------- */

static void knock_next(struct transfer *t, int last_number);

static void give_up(struct transfer *t, int number)
{
    drop_knocks(t);
    loop_timer_stop(t->loop, &t->silence);
    t->failed_early = closed_by_errno(t, number);
    loop_timer_start(t->loop, &t->deadline, 0, deadline_due);
}

static void knock_due(struct loop_timer *timer)
{
    struct transfer *t = link_owner(timer, struct transfer, silence);
    if (t->place_next < t->to.place_count)
        knock_next(t, ETIMEDOUT);
    else
        give_up(t, ETIMEDOUT);
}

static void connected(struct transfer *t, const struct knock *k)
{
    t->wire.fd = k->watch.fd;
    t->place = &t->to.places[k - t->knocks];
    drop_knocks(t);
    loop_timer_stop(t->loop, &t->silence);
    if (t->to.tls == NULL) {
        loop_fd_start(t->loop, &t->watch, t->wire.fd, LOOP_READ | LOOP_WRITE, socket_ready);
        return;
    }
    int on = 1;
    setsockopt(t->wire.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* a request is many writes */
    t->wire.tls = tls_connect(t->to.tls, t->wire.fd, t->to.address.host);
    if (t->wire.tls == NULL)
        give_up(t, ENOMEM);
    else
        loop_fd_start(t->loop, &t->watch, t->wire.fd, LOOP_WRITE, handshake_ready);
}

static void knock_answered(struct loop_fd *w, int events)
{
    (void)events;
    struct knock *k = link_owner(w, struct knock, watch);
    struct transfer *t = k->of;
    int number = 0;
    socklen_t size = sizeof number;
    getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &number, &size);
    loop_fd_stop(t->loop, w);
    k->of = NULL;
    if (number == 0) {
        connected(t, k);
        return;
    }
    close(w->fd);
    knock_next(t, number);
}

static bool knock(struct transfer *t, struct knock *k, const struct place *p)
{
    int fd = socket(p->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    if (connect(fd, (const struct sockaddr *)&p->at, p->size) != 0 && errno != EINPROGRESS) {
        int number = errno;
        close(fd);
        errno = number;
        return false;
    }
    keep_asking(fd);
    k->of = t;
    loop_fd_start(t->loop, &k->watch, fd, LOOP_WRITE, knock_answered);
    return true;
}

static bool is_knocking(const struct transfer *t)
{
    for (size_t i = 0; i < t->place_next; i++)
        if (t->knocks[i].of != NULL) return true;
    return false;
}

/* Tries one more address beside those that have not answered yet. If none is left, reports why
 * the last one failed. */
static void knock_next(struct transfer *t, int last_number)
{
    for (bool knocked = false; !knocked && t->place_next < t->to.place_count; t->place_next++) {
        knocked = knock(t, &t->knocks[t->place_next], &t->to.places[t->place_next]);
        if (!knocked) last_number = errno;
    }
    if (!is_knocking(t)) {
        give_up(t, last_number);
        return;
    }
    uint32_t patience_ms = t->place_next < t->to.place_count ? NEXT_MS : CONNECT_MS;
    loop_timer_start(t->loop, &t->silence, t->share_ms < patience_ms ? t->share_ms : patience_ms,
                     knock_due);
}

void transfer_begin(struct transfer *t, struct loop *l, struct wire wire, uint32_t timeout_ms,
                    void (*done)(struct transfer *, enum err))
{
    t->loop = l;
    t->done = done;
    t->wire = wire;
    /* Each address gets its attempt, and the last one gets time to answer. */
    t->share_ms = timeout_ms / (uint32_t)(t->to.place_count + 1);
    loop_timer_start(l, &t->deadline, timeout_ms, deadline_due);
    if (wire.fd >= 0)
        loop_fd_start(l, &t->watch, wire.fd, LOOP_READ | LOOP_WRITE, socket_ready);
    else
        knock_next(t, ENOENT);
}

void transfer_again(struct transfer *t, uint32_t timeout_ms)
{
    check(t->is_over && !transfer_has_begun_answer(t));
    struct transfer over = *t;
    *t = (struct transfer){.to = over.to,
                           .request = over.request,
                           .body = over.body,
                           .head_only = over.head_only,
                           .reply = over.reply,
                           .reply_max = over.reply_max,
                           .silence_ms = over.silence_ms};
    transfer_begin(t, over.loop, (struct wire){.fd = -1}, timeout_ms, over.done);
}
