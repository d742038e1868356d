/* The client: on a loop against our own server, and blocking against a peer that does as its
 * script says (also what no server should do). */
#include "unit/http/script.h"

#include <sys/un.h>

#include "http/client.h"

static struct http_client *client_of(const char *address)
{
    struct http_client *c = NULL;
    assert_int_equal(http_client_create(str_from(address), NULL, &c, NULL), ERR_OK);
    return c;
}

static struct http_call get(const char *target)
{
    return (struct http_call){
        .method = "GET", .target = str_from(target), .timeout_ms = 120000, .reply_max = 1 << 20};
}

/* One GET against a peer that says `answer`. */
static enum err call_once(const char *answer, size_t reply_max, struct http_answer *ret,
                          char *ret_body, struct fault *f)
{
    struct script s;
    script_start(&s, &answer, 1);
    struct http_client *c = client_of(s.address);
    struct http_call call = get("/x");
    call.reply_max = reply_max;
    enum err err = http_call(c, &call, false, ret, f);
    if (err == ERR_OK) snprintf(ret_body, 100, "%.*s", STR_FORMAT(ret->body));
    http_client_destroy(c);
    script_stop(&s);
    return err;
}

static void answers_of_every_framing_are_read(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x\r\nllo\r\n0\r\nT: "
        "x\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n"
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhello",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct http_answer answer;
        struct fault f = {0};
        char body[100];
        enum err err = call_once(answers[i], 100, &answer, body, &f);
        if (err != ERR_OK) fail_msg("%s: %s", answers[i], f.text);
        assert_int_equal(answer.status, 200);
        assert_string_equal(body, "hello");
    }
}

static void a_peer_that_speaks_no_http_is_found_out(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
        "HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 600 Other\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 099 Other\r\nContent-Length: 0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct http_answer answer;
        char body[100];
        enum err err = call_once(answers[i], 100, &answer, body, NULL);
        if (err != ERR_BAD_REQUEST && err != ERR_NOT_IMPLEMENTED)
            fail_msg("%s: %s", answers[i], err_code(err));
    }
}

static void an_answer_that_breaks_off_is_no_answer(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct http_answer answer;
        char body[100];
        assert_int_equal(call_once(answers[i], 100, &answer, body, NULL), ERR_CLOSED);
    }
}

static void an_answer_over_the_callers_limit_is_refused(void **state)
{
    (void)state;
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "HTTP/1.0 200 OK\r\n\r\nhello",
    };
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct http_answer answer;
        char body[100];
        assert_int_equal(call_once(answers[i], 4, &answer, body, NULL), ERR_BODY_TOO_LARGE);
        assert_int_equal(call_once(answers[i], 5, &answer, body, NULL), ERR_OK);
    }
}

#define OK "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"

static void a_connection_is_kept_for_the_next_call(void **state)
{
    (void)state;
    static const char *const lines[] = {OK "1|" OK "2|" OK "3"};
    struct script s;
    script_start(&s, lines, 1);
    struct http_client *c = client_of(s.address);
    struct http_answer answer;
    for (char i = '1'; i <= '3'; i++) {
        struct http_call call = get("/x");
        assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK);
        assert_int_equal(answer.body.bytes[0], i);
    }
    assert_int_equal(atomic_load(&s.connections), 1);
    http_client_destroy(c);
    script_stop(&s);
}

/* Both over one connection, which the peer leaves open. */
static void an_answer_without_a_body_ends_with_its_head(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "HTTP/1.1 304 Not Modified\r\n\r\n|HTTP/1.1 204 No Content\r\n\r\n|"
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n|" OK "4"};
    static const char *const methods[] = {"GET", "GET", "HEAD", "GET"};
    static const int statuses[] = {304, 204, 200, 200};
    struct script s;
    script_start(&s, lines, 1);
    struct http_client *c = client_of(s.address);
    struct http_answer answer;
    for (size_t i = 0; i < 4; i++) {
        struct http_call call = get("/x");
        call.method = methods[i];
        assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK);
        assert_int_equal(answer.status, statuses[i]);
        assert_int_equal(answer.body.size, i == 3 ? 1 : 0);
    }
    assert_int_equal(atomic_load(&s.connections), 1);
    http_client_destroy(c);
    script_stop(&s);
}

/* What comes beside an answer is none to the next call, and who says so
 * asks for another connection. */
static void a_connection_that_cannot_be_relied_on_is_left(void **state)
{
    (void)state;
    static const char *const firsts[] = {
        OK "1" OK "x|~",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n" OK "x|~",
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1|~",
    };
    for (size_t i = 0; i < sizeof firsts / sizeof *firsts; i++) {
        const char *const lines[] = {firsts[i], OK "2"};
        struct script s;
        script_start(&s, lines, 2);
        struct http_client *c = client_of(s.address);
        struct http_answer answer;
        struct http_call call = get("/x");
        assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK);
        assert_int_equal(answer.body.bytes[0], '1');
        assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK);
        assert_int_equal(answer.body.bytes[0], '2');
        http_client_destroy(c);
        script_stop(&s);
    }
}

enum { LARGE_BYTES = 8 << 20 };

struct sink { /* a peer that takes one large request, and then a small one on another connection */
    struct sockaddr_in at;
    int listener;
    bool answers_early; /* before it has read the body, of which it then reads little */
    bool closes;        /* then; else once the other connection is served */
    char *got;
    size_t size;
};

static void *serve_sink(void *argument)
{
    struct sink *k = argument;
    static const char first[] = OK "1", second[] = OK "2";
    int fd = accept(k->listener, NULL, NULL);
    for (ssize_t n; (n = recv(fd, k->got + k->size, LARGE_BYTES + 4096 - k->size, 0)) > 0;) {
        k->size += (size_t)n;
        const char *body = memmem(k->got, k->size, "\r\n\r\n", 4);
        if (k->answers_early ||
            (body != NULL && k->size - (size_t)(body + 4 - k->got) == LARGE_BYTES))
            break;
    }
    send(fd, first, strlen(first), MSG_NOSIGNAL);
    if (k->answers_early) {
        if (k->closes) close(fd);
        int other = accept(k->listener, NULL, NULL);
        recv(other, k->got, 4096, 0);
        send(other, second, strlen(second), MSG_NOSIGNAL);
        close(other);
    }
    if (!k->answers_early || !k->closes) close(fd);
    return NULL;
}

static void send_large(bool answers_early, bool closes)
{
    struct sink k = {
        .answers_early = answers_early, .closes = closes, .got = calloc(1, LARGE_BYTES + 4096)};
    char address[64], *body = malloc(LARGE_BYTES);
    struct http_answer answer;
    pthread_t thread;
    for (size_t i = 0; i < LARGE_BYTES; i++) body[i] = (char)(i * 7 + i / 1000);
    k.listener = rig_listen(&k.at);
    /* What the peer does not read must not fit into the kernel's buffers: it would be sent whole. */
    const int little = 64 << 10;
    assert_int_equal(setsockopt(k.listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
    snprintf(address, sizeof address, "http://127.0.0.1:%d", ntohs(k.at.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, serve_sink, &k), 0);
    struct http_client *c = client_of(address);
    struct http_call call = get("/x"), post = get("/x");
    post.method = "POST";
    post.body = str_of(body, LARGE_BYTES);
    assert_int_equal(http_call(c, &post, false, &answer, NULL), ERR_OK);
    assert_int_equal(answer.body.bytes[0], '1');
    if (answers_early) {
        assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK);
        assert_int_equal(answer.body.bytes[0], '2');
    }
    pthread_join(thread, NULL);
    if (!answers_early) assert_memory_equal(k.got + k.size - LARGE_BYTES, body, LARGE_BYTES);
    http_client_destroy(c);
    close(k.listener);
    free(k.got);
    free(body);
}

static void a_body_that_goes_in_parts_arrives_as_it_is(void **state)
{
    (void)state;
    send_large(false, false);
}

/* Else the rest of the body would be the head of the next request. */
static void a_connection_with_half_a_request_is_left(void **state)
{
    (void)state;
    send_large(true, false);
}

static void an_answer_counts_though_the_peer_took_no_more(void **state)
{
    (void)state;
    send_large(true, true);
}

static void a_connection_that_went_stale_is_replaced_where_that_is_safe(void **state)
{
    (void)state;
    /* The peer takes a second request and closes without a word: whether it acted, nobody knows. */
    static const char *const lines[] = {OK "1|", OK "2|", OK "3|", OK "4"};
    struct script s;
    script_start(&s, lines, 4);
    struct http_client *c = client_of(s.address);
    struct http_answer answer;
    struct http_call call = get("/x"), post = get("/x");
    post.method = "POST";
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK);
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK); /* GET: again */
    assert_int_equal(answer.body.bytes[0], '2');
    assert_int_equal(http_call(c, &post, true, &answer, NULL), ERR_OK); /* de-duplicated: again */
    assert_int_equal(answer.body.bytes[0], '3');
    assert_int_equal(http_call(c, &post, false, &answer, NULL), ERR_CLOSED); /* a POST is not */
    assert_int_equal(atomic_load(&s.connections), 3);
    assert_int_equal(http_call(c, &post, false, &answer, NULL), ERR_OK);
    http_client_destroy(c);
    script_stop(&s);
}

static void a_silent_peer_times_out(void **state)
{
    (void)state;
    static const char *const lines[] = {"~"};
    struct script s;
    script_start(&s, lines, 1);
    struct http_client *c = client_of(s.address);
    struct http_call call = get("/x");
    call.timeout_ms = 50;
    struct http_answer answer;
    uint64_t start_ns = world_monotonic_ns();
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_TIMEOUT);
    uint64_t took_ms = (world_monotonic_ns() - start_ns) / 1000000;
    assert_true(took_ms >= 45 && took_ms < 60000);
    http_client_destroy(c);
    script_stop(&s);
}

static void *interrupt_when_asked(void *argument)
{
    struct script *s = ((void **)argument)[0];
    while (atomic_load(&s->requests) == 0) sched_yield();
    http_client_interrupt(((void **)argument)[1]);
    return NULL;
}

static void an_interrupt_ends_the_running_call_or_the_next(void **state)
{
    (void)state;
    static const char *const lines[] = {"~", OK "1"};
    struct script s;
    script_start(&s, lines, 2);
    struct http_client *c = client_of(s.address);
    void *both[] = {&s, c};
    pthread_t thread;
    pthread_create(&thread, NULL, interrupt_when_asked, both);
    struct http_call call = get("/x");
    struct http_answer answer;
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_CLOSED);
    pthread_join(thread, NULL);
    http_client_interrupt(c);
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_CLOSED);
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK);
    http_client_destroy(c);
    script_stop(&s);
}

static int lowest_free_descriptor(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static void a_refused_connection_says_so(void **state)
{
    (void)state;
    struct sockaddr_in at;
    close(rig_listen(&at)); /* a port where nobody listens any more */
    char address[64];
    snprintf(address, sizeof address, "http://127.0.0.1:%d/", ntohs(at.sin_port));
    struct http_client *c = client_of(address);
    struct http_call call = get("/x");
    struct http_answer answer;
    struct fault f;
    assert_int_equal(http_call(c, &call, false, &answer, &f), ERR_CLOSED);
    assert_string_equal(f.text, "Connection refused");
    http_client_destroy(c);
    c = client_of("unix:/nowhere/at/all");
    int before = lowest_free_descriptor();
    assert_int_equal(http_call(c, &call, false, &answer, &f), ERR_CLOSED);
    assert_int_equal(lowest_free_descriptor(), before);
    http_client_destroy(c);
}

static void what_is_no_address_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",           "localhost:80",   "http://",    "http://:80",  "https://a",     "http://a:0",
        "http://a:x", "http://a:65536", "http://a/b", "http://[::1", "http://[::1]x", "unix:",
        "unix:a",     "http://a b",     "http://a@b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct http_client *c;
        struct fault f;
        if (http_client_create(str_from(bad[i]), NULL, &c, &f) != ERR_BAD_VALUE)
            fail_msg("%s", bad[i]);
    }
}

static void what_would_end_the_head_is_not_sent(void **state)
{
    (void)state;
    struct http_client *c = client_of("http://127.0.0.1:1");
    struct http_answer answer;
    struct http_call call = get("/x y");
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_BAD_VALUE);
    call = get("x");
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_BAD_VALUE);
    call = get("/x");
    static const struct str bad[] = {{"b\r\nC: d", 7}, {"b\n", 2}, {"b\x7f", 2}, {"\0", 1}};
    call.header_count = 1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        call.headers[0] = (struct http_header){STR("A"), bad[i]};
        assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_BAD_VALUE);
    }
    call = get("/x");
    call.content_type = bad[0];
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_BAD_VALUE);
    http_client_destroy(c);
}

static void a_request_carries_what_the_call_says(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "HTTP/1.1 201 Created\r\nX-Y: z\r\nContent-Length: 0\r\n\r\n|" OK "1"};
    struct script s;
    script_start(&s, lines, 1);
    struct http_client *c = client_of(s.address);
    struct http_call call = get("/x?y=1");
    call.method = "POST";
    call.content_type = STR("application/json");
    call.body = STR("{}");
    call.headers[call.header_count++] = (struct http_header){STR("Authorization"), STR("Bearer k")};
    struct http_answer answer;
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK);
    assert_int_equal(answer.status, 201);
    assert_true(str_equal(http_answer_header(&answer, STR("x-y")), STR("z")));
    assert_true(str_is_absent(http_answer_header(&answer, STR("y"))));
    char expected[400];
    snprintf(expected, sizeof expected,
             "POST /x?y=1 HTTP/1.1\r\nHost: %.60s\r\nAuthorization: Bearer k\r\n"
             "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
             s.address + strlen("http://"));
    assert_string_equal(last_request(&s), expected);
    call.body = STR(""); /* none is said to be none */
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK);
    assert_non_null(strstr(last_request(&s), "\r\nContent-Length: 0\r\n"));
    http_client_destroy(c);
    script_stop(&s);
}

struct outcome {
    int calls;
    enum err err;
    int status;
    char body[100];
    size_t body_size;
    struct place place;
};

static void outcome_note(void *context, enum err err, const struct http_answer *answer)
{
    struct outcome *o = context;
    o->calls++;
    o->err = err;
    if (answer == NULL) return;
    o->status = answer->status;
    o->body_size = answer->body.size;
    if (answer->place != NULL) o->place = *answer->place;
    snprintf(o->body, sizeof o->body, "%.*s",
             (int)(answer->body.size > 90 ? 90 : answer->body.size), answer->body.bytes);
}

static struct http_peer peer_of(const char *address)
{
    struct http_peer p = {0};
    if (http_peer_read(str_from(address), NULL, &p, NULL) != ERR_OK || p.is_fixed) return p;
    struct lookup *l = http_peer_ask(&p);
    assert_non_null(l);
    assert_true(lookup_wait(l, RIG_PATIENCE_MS));
    (void)http_peer_take(&p, &l, NULL);
    assert_null(l);
    return p;
}

/* Each byte of the answer comes a while after the one before it. */
static void *answer_slowly(void *argument)
{
    struct script *s = argument;
    int fd = accept(s->listener, NULL, NULL);
    if (read_request(s, fd)) {
        const char *answer = s->lines[0];
        for (size_t i = 0; answer[i] != '\0'; i++) {
            struct timespec pause = {.tv_nsec = 40 * 1000000};
            uint64_t before_ns = world_monotonic_ns();
            send(fd, answer + i, 1, MSG_NOSIGNAL);
            nanosleep(&pause, NULL);
            uint64_t ms = (world_monotonic_ns() - before_ns) / 1000000;
            if (ms > s->longest_pause_ms) s->longest_pause_ms = ms;
        }
        wait_for_end(fd);
    }
    close(fd);
    return NULL;
}

static void only_silence_ends_a_call_that_may_take_long(void **state)
{
    (void)state;
    static const char *const lines[] = {OK "1", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n1"};
    for (size_t i = 0; i < 2;) {
        struct script s = {.lines = lines + i};
        struct sockaddr_in at;
        s.listener = rig_listen(&at);
        snprintf(s.address, sizeof s.address, "http://127.0.0.1:%d", ntohs(at.sin_port));
        assert_int_equal(pthread_create(&s.thread, NULL, answer_slowly, &s), 0);
        struct http_client *c = client_of(s.address);
        struct http_call call = get("/x");
        call.timeout_ms = 3600000;
        call.silence_ms = 1000; /* the whole answer takes longer */
        struct http_answer answer;
        struct fault f = {0};
        enum err err = http_call(c, &call, false, &answer, &f);
        http_client_destroy(c);
        script_stop(&s);
        if (s.longest_pause_ms > call.silence_ms / 2) continue; /* the machine was silent itself */
        assert_int_equal(err, i == 0 ? ERR_OK : ERR_TIMEOUT);
        if (i == 1) assert_string_equal(f.text, "the peer did not send its whole answer in time");
        i++;
    }
}

static void names_are_resolved(void **state)
{
    (void)state;
    static const char *const lines[] = {OK "1"};
    struct script s;
    script_start(&s, lines, 1);
    char address[80];
    snprintf(address, sizeof address, "http://localhost:%s", strrchr(s.address, ':') + 1);
    struct http_client *c = client_of(address);
    struct http_call call = get("/x");
    struct http_answer answer;
    assert_int_equal(http_call(c, &call, false, &answer, NULL), ERR_OK);
    http_client_destroy(c);
    script_stop(&s);

    assert_int_equal(peer_of("http://127.0.0.1:81").place_count, 1);
    assert_int_equal(peer_of("http://[0:0::1]").place_count, 1);
    assert_int_equal(peer_of("http://name.invalid").place_count, 0);
    static const char *const known[] = {"http://127.0.0.1:81", "http://[0:0::1]", "unix:/a"};
    for (size_t i = 0; i < 3; i++) {
        struct http_peer peer = peer_of(known[i]);
        assert_true(peer.is_fixed);
    }
    struct http_peer name = peer_of("http://localhost:81");
    assert_false(name.is_fixed);
    assert_true(name.place_count > 0);
}

/* Nobody listens at one, nobody answers at the next: a listener whose queue
 * is full drops what comes. */
struct dead_places {
    struct place refuses, is_silent;
    int listener;
};

static struct place place_of(const struct sockaddr_in *at)
{
    struct place p = {.size = sizeof *at};
    memcpy(&p.at, at, sizeof *at);
    return p;
}

static void dead_places_open(struct dead_places *d)
{
    struct sockaddr_in at;
    close(rig_listen(&at));
    d->refuses = place_of(&at);
    d->listener = rig_listen(&at);
    assert_int_equal(listen(d->listener, 0), 0);
    int queued = socket(AF_INET, SOCK_STREAM, 0); /* closed or not, it stays in the queue */
    assert_int_equal(connect(queued, (struct sockaddr *)&at, sizeof at), 0);
    close(queued);
    d->is_silent = place_of(&at);
}

static void dead_places_close(struct dead_places *d) { close(d->listener); }

/* Whether this machine has a connection under way to a place of 127.0.0.1. */
static bool is_knocked_at(const struct place *p)
{
    struct sockaddr_in at;
    memcpy(&at, &p->at, sizeof at);
    char wanted[40], line[300];
    /* 02 is SYN_SENT */
    snprintf(wanted, sizeof wanted, " 0100007F:%04X 02 ", (unsigned)ntohs(at.sin_port));
    FILE *file = fopen("/proc/self/net/tcp", "r");
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) found = strstr(line, wanted) != NULL;
    fclose(file);
    return found;
}

/* One that is silent has its time beside the next, and is let go when another is connected. */
static void of_several_addresses_the_one_that_answers_is_used(void **state)
{
    (void)state;
    static const char *const lines[] = {OK "1"};
    struct script s;
    script_start(&s, lines, 1);
    struct dead_places dead, other;
    dead_places_open(&dead);
    dead_places_open(&other);
    struct http_peer to = peer_of(s.address);
    const struct place answers = to.places[0];
    to.places[3] = answers;
    to.places[2] = other.is_silent;
    to.places[1] = dead.is_silent;
    to.places[0] = dead.refuses;
    to.place_count = 4;

    struct loop *loop = loop_create();
    struct http_call call = get("/x");
    call.timeout_ms = RIG_PATIENCE_MS;
    struct outcome o = {0};
    bool side_by_side = false;
    http_call_start(loop, &to, &call, outcome_note, &o);
    while (o.calls == 0) {
        loop_turn(loop, true);
        side_by_side =
            side_by_side || (is_knocked_at(&dead.is_silent) && is_knocked_at(&other.is_silent));
    }
    assert_int_equal(o.err, ERR_OK);
    assert_string_equal(o.body, "1");
    assert_true(side_by_side);
    assert_false(is_knocked_at(&dead.is_silent) || is_knocked_at(&other.is_silent));
    loop_destroy(loop);

    http_peer_prefer(&to, &o.place);
    assert_memory_equal(&to.places[0].at, &answers.at, answers.size);
    assert_memory_equal(&to.places[1].at, &dead.refuses.at, dead.refuses.size);
    assert_memory_equal(&to.places[3].at, &other.is_silent.at, other.is_silent.size);
    const struct http_peer before = to;
    http_peer_prefer(&to, &o.place); /* it is the first already */
    struct place unknown = answers;
    unknown.size--;
    http_peer_prefer(&to, &unknown);
    assert_memory_equal(&to, &before, sizeof to);
    dead_places_close(&dead);
    dead_places_close(&other);
    script_stop(&s);
}

/* -- on a loop --------------------------------------------------------------------------- */

static void await(struct rig *rig, const struct outcome *o)
{
    uint64_t until_ns = world_monotonic_ns() + RIG_PATIENCE_MS * 1000000ull;
    while (o->calls == 0 && world_monotonic_ns() < until_ns) loop_turn(rig->loop, true);
    assert_int_equal(o->calls, 1);
}

/* The rig's server behind a Unix socket of this process. */
struct door {
    struct loop_fd watch;
    struct rig *rig;
    char address[120];
    struct http_peer peer;
};

static void door_ready(struct loop_fd *w, int events)
{
    (void)events;
    struct door *d = (struct door *)(void *)w;
    int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK);
    if (fd >= 0) http_server_take(d->rig->server, fd, SOCKET_UNIX);
}

static void door_open(struct door *d, struct rig *rig)
{
    *d = (struct door){.rig = rig};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(d->address, sizeof d->address, "unix:%s/writ-test-%d",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp", (int)getpid());
    snprintf(at.sun_path, sizeof at.sun_path, "%.100s", d->address + 5);
    unlink(at.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 16), 0);
    d->peer = peer_of(d->address);
    loop_fd_start(rig->loop, &d->watch, listener, LOOP_READ, door_ready);
}

static void door_close(struct door *d)
{
    loop_fd_stop(d->rig->loop, &d->watch);
    close(d->watch.fd);
    unlink(d->address + 5);
}

static void calls_on_a_loop_run_side_by_side(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct door door;
    door_open(&door, rig);
    struct outcome a = {0}, b = {0}, c = {0};
    struct http_call call = get("/things/7?q=1"), flood = get("/flood?bytes=900000"), head = call;
    head.method = "HEAD";
    http_call_start(rig->loop, &door.peer, &flood, outcome_note, &a);
    http_call_start(rig->loop, &door.peer, &call, outcome_note, &b);
    http_call_start(rig->loop, &door.peer, &head, outcome_note, &c);
    await(rig, &a);
    await(rig, &b);
    await(rig, &c);
    assert_int_equal(a.err, ERR_OK);
    assert_int_equal(a.body_size, 900000);
    assert_string_equal(b.body, "GET id=7 q=1");
    assert_int_equal(c.status, 200);
    assert_int_equal(c.body_size, 0);
    door_close(&door);
    rig_destroy(rig);
}

static void a_large_request_is_sent_whole(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct door door;
    door_open(&door, rig);
    struct http_call call = get("/big");
    enum { SIZE = 3 << 20 };
    char *body = calloc(1, SIZE);
    call.method = "PUT";
    call.content_type = STR("application/json");
    call.body = str_of(body, SIZE);
    struct outcome o = {0};
    http_call_start(rig->loop, &door.peer, &call, outcome_note, &o);
    free(body); /* it was copied */
    await(rig, &o);
    assert_string_equal(o.body, "3145728 0");
    door_close(&door);
    rig_destroy(rig);
}

static void a_failure_is_told_later_and_once(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    static const char *const bad[] = {"nonsense", "http://name.invalid:1", "unix:/nowhere/at/all"};
    for (size_t i = 0; i < 3; i++) {
        struct outcome o = {0};
        struct http_call call = get("/x");
        struct http_peer peer = peer_of(bad[i]);
        http_call_start(rig->loop, &peer, &call, outcome_note, &o);
        assert_int_equal(o.calls, 0);
        await(rig, &o);
        assert_int_equal(o.err, ERR_CLOSED);
    }
    rig_destroy(rig);
}

static void a_cancelled_call_is_not_told(void **state)
{
    (void)state;
    struct rig *rig = rig_create();
    struct door door;
    door_open(&door, rig);
    struct outcome o = {0};
    struct http_call call = get("/later"), quick = get("/x");
    struct http_outgoing *out = http_call_start(rig->loop, &door.peer, &call, outcome_note, &o);
    while (rig->token_count == 0) loop_turn(rig->loop, true);
    http_call_cancel(out);
    while (http_server_connections(rig->server) > 0) loop_turn(rig->loop, true);
    assert_false(http_token_alive(rig->server, rig->tokens[0]));
    struct http_peer nobody = {0};
    http_call_cancel(http_call_start(rig->loop, &nobody, &quick, outcome_note, &o));
    rig_turn(rig);
    assert_int_equal(o.calls, 0);

    call.timeout_ms = 40; /* and one that nobody answers ends by itself */
    http_call_start(rig->loop, &door.peer, &call, outcome_note, &o);
    await(rig, &o);
    assert_int_equal(o.err, ERR_TIMEOUT);
    door_close(&door);
    rig_destroy(rig);
}

static struct outcome ask_over(struct loop *loop, const struct http_peer *to,
                               struct http_idle *idle, const char *method, bool *ret_sent)
{
    struct outcome o = {0};
    struct http_call call = get("/x");
    call.method = method;
    call.timeout_ms = RIG_PATIENCE_MS;
    call.idle = idle;
    struct http_outgoing *out = http_call_start(loop, to, &call, outcome_note, &o);
    while (o.calls == 0) {
        *ret_sent = http_call_was_sent(out);
        loop_turn(loop, true);
    }
    return o;
}

/* Three calls over one connection; then the peer leaves the next one unanswered. */
static void a_connection_is_kept_for_the_next_call_on_a_loop(void **state)
{
    static const char *const lines[] = {OK "1|" OK "2|" OK "3|", OK "4"};
    static const struct {
        const char *method;
        size_t connections;
        enum err err;
    } last[] = {{"GET", 2, ERR_OK}, {"DELETE", 2, ERR_OK}, {"POST", 1, ERR_CLOSED}};
    (void)state;
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) {
        struct script s;
        bool sent;
        script_start(&s, lines, 2);
        struct loop *loop = loop_create();
        struct http_idle *idle = http_idle_create(loop);
        const struct http_peer to = peer_of(s.address);
        for (char n = '1'; n <= '3'; n++) {
            struct outcome o = ask_over(loop, &to, idle, n == '2' ? "POST" : "GET", &sent);
            assert_int_equal(o.err, ERR_OK);
            assert_int_equal(o.body[0], n);
        }
        assert_int_equal(atomic_load(&s.connections), 1);
        struct outcome o = ask_over(loop, &to, idle, last[i].method, &sent);
        assert_int_equal(o.err, last[i].err);
        assert_int_equal(atomic_load(&s.connections), last[i].connections);
        if (o.err != ERR_OK) { /* the peer may have acted on it */
            assert_true(sent);
            o = ask_over(loop, &to, idle, "GET", &sent);
        }
        assert_string_equal(o.body, "4");
        http_idle_destroy(idle);
        loop_destroy(loop);
        script_stop(&s);
    }
}

static void the_connections_of_a_former_peer_are_closed(void **state)
{
    static const char *const lines[] = {OK "1|~", OK "2"};
    (void)state;
    struct script s;
    bool sent;
    script_start(&s, lines, 2);
    struct loop *loop = loop_create();
    struct http_idle *idle = http_idle_create(loop);
    const struct http_peer to = peer_of(s.address);
    struct http_call call = get("/x");
    call.idle = idle;
    struct outcome o = {0};
    http_call_start(loop, &to, &call, outcome_note, &o);
    http_idle_clear(idle);
    while (o.calls == 0) loop_turn(loop, true);
    assert_string_equal(o.body, "1");
    o = ask_over(loop, &to, idle, "POST", &sent);
    assert_string_equal(o.body, "2");
    http_idle_destroy(idle);
    loop_destroy(loop);
    script_stop(&s);
}

static void text_is_percent_encoded(void **state)
{
    (void)state;
    char bytes[100];
    struct buf b = buf_over(bytes, sizeof bytes);
    http_put_encoded(&b, STR("aZ09-._~ /?%\xc3\xa9"));
    assert_true(str_equal(buf_view(&b), STR("aZ09-._~%20%2F%3F%25%C3%A9")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_of_every_framing_are_read),
        cmocka_unit_test(a_peer_that_speaks_no_http_is_found_out),
        cmocka_unit_test(an_answer_that_breaks_off_is_no_answer),
        cmocka_unit_test(an_answer_over_the_callers_limit_is_refused),
        cmocka_unit_test(a_connection_is_kept_for_the_next_call),
        cmocka_unit_test(an_answer_without_a_body_ends_with_its_head),
        cmocka_unit_test(a_connection_that_cannot_be_relied_on_is_left),
        cmocka_unit_test(a_body_that_goes_in_parts_arrives_as_it_is),
        cmocka_unit_test(a_connection_with_half_a_request_is_left),
        cmocka_unit_test(an_answer_counts_though_the_peer_took_no_more),
        cmocka_unit_test(a_connection_that_went_stale_is_replaced_where_that_is_safe),
        cmocka_unit_test(a_silent_peer_times_out),
        cmocka_unit_test(an_interrupt_ends_the_running_call_or_the_next),
        cmocka_unit_test(a_refused_connection_says_so),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(what_would_end_the_head_is_not_sent),
        cmocka_unit_test(a_request_carries_what_the_call_says),
        cmocka_unit_test(only_silence_ends_a_call_that_may_take_long),
        cmocka_unit_test(names_are_resolved),
        cmocka_unit_test(of_several_addresses_the_one_that_answers_is_used),
        cmocka_unit_test(calls_on_a_loop_run_side_by_side),
        cmocka_unit_test(a_large_request_is_sent_whole),
        cmocka_unit_test(a_failure_is_told_later_and_once),
        cmocka_unit_test(a_cancelled_call_is_not_told),
        cmocka_unit_test(a_connection_is_kept_for_the_next_call_on_a_loop),
        cmocka_unit_test(the_connections_of_a_former_peer_are_closed),
        cmocka_unit_test(text_is_percent_encoded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
