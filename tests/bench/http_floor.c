/* http_floor.c - what the transport alone costs: one loop, one server, a fixed answer.
 *
 *   http_floor PORT [BYTES [SEGMENT SOCKET RECORD EVENT OUTCOME]]
 *
 * POST /x answers 200 with BYTES (600) of JSON. Every reply waits for a mark that is released after
 * its turn, as the reactor's replies wait for the journal. With a file, a socket that somebody reads
 * from, and how many bytes of record, event and outcome a request makes, it does what is asked of
 * every engine (asked.h), too. On SIGINT or SIGTERM it prints requests, CPU microseconds per request
 * and turns, then ends. ops/bench measures both beside nginx and the engine: no engine on this
 * transport can cost less. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "asked.h"
#include "base/check.h"
#include "http/server.h"

static volatile sig_atomic_t stopped;
static uint64_t requests, turns;
static char body[16 << 10];
static size_t body_bytes = 600;
static struct asked asked;
static bool does_asked;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static void handle(void *context, struct http_exchange *x)
{
    (void)context;
    requests++;
    if (does_asked) asked_request(&asked, x);
    struct http_reply r = {.status = 200,
                           .body = str_of(body, body_bytes),
                           .barrier = {.lane = 1, .block = turns + 1}};
    http_reply(x, &r);
}

static void refuse(void *context, struct http_exchange *x, const struct fault *f)
{
    (void)context;
    http_reply(x, &(struct http_reply){.status = err_status(f->err), .body = STR("{}")});
}

struct door {
    struct loop_fd watch;
    struct http_server *server;
};

static void door_ready(struct loop_fd *w, int events)
{
    (void)events;
    int fd = accept4(w->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) http_server_take(((struct door *)(void *)w)->server, fd, SOCKET_TCP);
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    check(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 512) == 0);
    return fd;
}

static void report(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    double user_us = (double)used.ru_utime.tv_sec * 1e6 + (double)used.ru_utime.tv_usec;
    double system_us = (double)used.ru_stime.tv_sec * 1e6 + (double)used.ru_stime.tv_usec;
    double count = requests > 0 ? (double)requests : 1;
    printf("{\"requests\": %llu, \"cpu_us\": %.3f, \"user_us\": %.3f, \"system_us\": %.3f, "
           "\"requests_per_beat\": %.1f}\n",
           (unsigned long long)requests, (user_us + system_us) / count, user_us / count,
           system_us / count, count / (double)(turns > 0 ? turns : 1));
}

static bool read_bytes(const char *text, size_t least, size_t most, size_t *ret)
{
    uint64_t value;
    if (!str_to_u64(str_from(text), &value) || value < least || value > most) return false;
    *ret = (size_t)value;
    return true;
}

static bool read_arguments(int count, char **arguments, uint16_t *ret_port)
{
    size_t port;
    if (count != 2 && count != 3 && count != 8) return false;
    if (!read_bytes(arguments[1], 1, 65535, &port)) return false;
    *ret_port = (uint16_t)port;
    if (count > 2 && !read_bytes(arguments[2], 16, sizeof body, &body_bytes)) return false;
    does_asked = count == 8;
    return !does_asked ||
           (read_bytes(arguments[5], 2 * SHA256_HEX, ASKED_PART_BYTES, &asked.record_bytes) &&
            read_bytes(arguments[6], 2 * SHA256_HEX, ASKED_PART_BYTES, &asked.event_bytes) &&
            read_bytes(arguments[7], 2 * SHA256_HEX, ASKED_PART_BYTES, &asked.outcome_bytes));
}

int main(int count, char **arguments)
{
    uint16_t port;
    if (!read_arguments(count, arguments, &port)) {
        fprintf(stderr, "usage: http_floor PORT [BYTES [SEGMENT SOCKET RECORD EVENT OUTCOME]]\n");
        return 2;
    }
    if (does_asked) asked_open(&asked, arguments[3], arguments[4]);
    memset(body, ' ', body_bytes);
    memcpy(body, "{\"ok\":true", 10);
    body[body_bytes - 1] = '}';
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);

    static const struct http_route routes[] = {
        {.method = HTTP_POST, .pattern = "/x", .body = HTTP_BODY_JSON},
        {.method = HTTP_GET, .pattern = "/x/{id}"},
    };
    struct http_service service = {
        .routes = routes, .route_count = 2, .handle = handle, .refuse = refuse};
    struct http_limits limits = {.connections_max = 1024,
                                 .head_ms = 10000,
                                 .body_ms = 10000,
                                 .idle_ms = 60000,
                                 .write_ms = 10000};
    struct loop *loop = loop_create();
    struct door door = {.server = http_server_create(loop, &service, &limits)};
    loop_fd_start(loop, &door.watch, listen_on(port), LOOP_READ, door_ready);
    while (!stopped) {
        loop_turn(loop, true);
        if (does_asked) asked_seal(&asked);
        turns++;
        http_server_release(door.server, turns, 0);
    }
    report();
    if (does_asked) asked_close(&asked);
    loop_fd_stop(loop, &door.watch);
    close(door.watch.fd);
    http_server_destroy(door.server);
    loop_destroy(loop);
    return 0;
}
