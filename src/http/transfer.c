/* transfer.c - the client's machine. */
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
    /* to the last place: a lost packet or two; more is for another try, whose
     * packets come closer together */
    CONNECT_MS = 3000,
    NEXT_MS = 250, /* until the next place is tried beside those before it (RFC 8305, 5) */
    KEEPALIVE_IDLE_S = 5,
    KEEPALIVE_INTERVAL_S = 2,
    KEEPALIVE_COUNT = 3,
};

/* Bytes from `least` on; where that is a blank, a tab is one, too. */
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

/* What a call may have in its head: growing moves it, and leaves a credential where it was. */
static size_t head_bytes_max(const struct http_call *call)
{
    size_t size = ADDRESS_HOST + call->target.size + call->content_type.size + 200;
    for (size_t i = 0; i < call->header_count; i++)
        size += call->headers[i].name.size + call->headers[i].value.size + 4;
    return size;
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
    return b->overflow ? too_large_to_send(f) : ERR_OK;
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

/* The steps below return ERR_END to go on, ERR_OK where the answer is whole, else why not; only
 * the loop's callbacks end the transfer, as the last thing they do, because `done` may free it. */
static void end(struct transfer *t, enum err err)
{
    stop_watching(t);
    t->is_over = true;
    if (!t->may_keep && t->fd >= 0) {
        close(t->fd);
        t->fd = -1;
    }
    t->done(t, err);
}

static enum err malformed(struct transfer *t, const char *how)
{
    return fault_set(&t->fault, ERR_BAD_REQUEST, "", "the peer's answer %s", how);
}

static enum err too_large(struct transfer *t)
{
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
    return fault_set(&t->fault, ERR_CLOSED, "", "%s", strerror(number));
}

void transfer_fini(struct transfer *t)
{
    if (t->loop != NULL && !t->is_over) stop_watching(t);
    if (t->fd >= 0) close(t->fd);
    t->fd = -1;
    /* A credential is in the one, and may be in the other. */
    if (t->request.bytes != NULL) memory_wipe(t->request.bytes, t->request.size);
    if (t->reply.bytes != NULL) memory_wipe(t->reply.bytes, t->reply.capacity);
    buf_fini(&t->request);
    buf_fini(&t->reply);
}

static void too_late(struct transfer *t)
{
    const char *what = t->head_size > 0 ? "'s answer did not come whole"
                       : is_all_sent(t) ? " did not answer"
                                        : " did not take the request";
    fault_set(&t->fault, ERR_TIMEOUT, "", "the peer%s in time", what);
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

/* Something was sent or has come. */
static void sign_of_life(struct transfer *t)
{
    if (t->silence_ms > 0) loop_timer_start(t->loop, &t->silence, t->silence_ms, silence_due);
}

/* -- answers ----------------------------------------------------------------------------- */

static enum err answer_whole(struct transfer *t, bool surplus)
{
    /* Surplus bytes belong to nothing that was asked; early answers leave a request half sent. */
    t->may_keep = t->head.keep_alive && !t->until_end && !surplus && is_all_sent(t);
    return ERR_OK;
}

/* ERR_OK: the final head is there. */
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
        t->head_from += head_size; /* 1xx: the answer proper follows */
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

static enum err receive(struct transfer *t)
{
    struct buf *b = &t->reply;
    if (!buf_room(b, READ_AT_LEAST)) return too_large(t);
    ssize_t got = recv(t->fd, b->bytes + b->size, b->capacity - b->size, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return ERR_END;
    if (got < 0) return closed_by_errno(t, errno);
    b->size += (size_t)got;
    sign_of_life(t);
    return take_answer(t, got == 0);
}

/* What is left of head and body, in one call and without copying the one behind the other: a
 * publisher's body is a megabyte. */
static ssize_t send_rest(const struct transfer *t)
{
    size_t of_head = t->sent < t->request.size ? t->sent : t->request.size;
    size_t of_body = t->sent - of_head;
    struct iovec left[2] = {
        {.iov_base = t->request.bytes + of_head, .iov_len = t->request.size - of_head},
        /* sendmsg only reads, though its structure cannot say so. */
        {.iov_base = (void *)((uintptr_t)t->body.bytes + of_body),
         .iov_len = t->body.size - of_body},
    };
    struct msghdr message = {.msg_iov = left, .msg_iovlen = 2};
    return sendmsg(t->fd, &message, MSG_NOSIGNAL);
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
            /* It may have answered and closed without reading all: look before giving up. */
            int number = errno;
            char probe;
            if (recv(t->fd, &probe, 1, MSG_PEEK) <= 0) return closed_by_errno(t, number);
            break;
        }
    }
    loop_fd_change(t->loop, &t->watch, events);
    return ERR_END;
}

/* A peer that is gone without a word says nothing to a request that may wait long, either. */
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
    t->fd = k->watch.fd;
    t->place = &t->to.places[k - t->knocks];
    drop_knocks(t);
    loop_timer_stop(t->loop, &t->silence);
    loop_fd_start(t->loop, &t->watch, t->fd, LOOP_READ | LOOP_WRITE, socket_ready);
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

/* Tries one more place beside those that have not answered yet. Why the last one failed is
 * told where none is left. */
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

void transfer_begin(struct transfer *t, struct loop *l, int fd, uint32_t timeout_ms,
                    void (*done)(struct transfer *, enum err))
{
    t->loop = l;
    t->done = done;
    t->fd = fd;
    /* Each place gets its turn, and the last one time to answer. */
    t->share_ms = timeout_ms / (uint32_t)(t->to.place_count + 1);
    loop_timer_start(l, &t->deadline, timeout_ms, deadline_due);
    if (fd >= 0)
        loop_fd_start(l, &t->watch, fd, LOOP_READ | LOOP_WRITE, socket_ready);
    else
        knock_next(t, ENOENT);
}
