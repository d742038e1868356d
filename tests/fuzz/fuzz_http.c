/* fuzz_http.c - hostile bytes for everything in src/http that reads them.
 *
 * The first byte chooses the door: a request's head alone, a chunked body, a target, who the client is, a
 * whole server (pieces of the input arrive one after the other over a socket pair, replies are gated,
 * deferred or immediate), or a client that is answered with the input. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/check.h"
#include "http/chunk.h"
#include "http/head.h"
#include "http/proxy_header.h"
#include "http/server.h"
#include "http/target.h"
#include "http/transfer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct loop *loop;
static struct http_server *server;
static struct http_token token;

static bool is_within(struct str view, const char *bytes, size_t size)
{
    return view.size == 0 || (view.bytes >= bytes && view.bytes + view.size <= bytes + size);
}

/* Reads every byte, so that the sanitizer sees a view that points nowhere. */
static void touch(struct str view)
{
    static volatile unsigned sum;
    for (size_t i = 0; i < view.size; i++) sum = sum + (unsigned char)view.bytes[i];
}

static void fuzz_head(const char *bytes, size_t size)
{
    struct head_scan scan = {0};
    size_t head_size;
    if (head_scan(&scan, bytes, size, &head_size) != SCAN_WHOLE) return;
    struct head h;
    struct fault f;
    (void)head_parse_answer(bytes, head_size, &h, &f);
    if (head_parse_request(bytes, head_size, &h, &f) != ERR_OK) return;
    check(!(h.chunked && h.has_length) && h.field_count <= HTTP_HEADERS_MAX);
    check(is_within(h.target, bytes, head_size) && is_within(h.method, bytes, head_size));
    for (size_t i = 0; i < h.field_count; i++) {
        check(is_within(h.fields[i].name, bytes, head_size) && h.fields[i].name.size > 0);
        check(is_within(h.fields[i].value, bytes, head_size));
        check(memchr(h.fields[i].value.bytes, '\n', h.fields[i].value.size) == NULL);
    }
}

/* In one piece and byte by byte the outcome must be the same. */
static void fuzz_chunks(const char *bytes, size_t size)
{
    char *whole = malloc(size + 1), *pieces = malloc(size + 1);
    memcpy(whole, bytes, size);
    memcpy(pieces, bytes, size);
    struct chunk_decoder a = {0}, b = {0};
    size_t from_a = 0, to_a = 0, from_b = 0, to_b = 0;
    enum chunk outcome_a = chunk_decode(&a, whole, &from_a, size, &to_a, 300);
    enum chunk outcome_b = CHUNK_MORE;
    for (size_t i = 1; i <= size && outcome_b == CHUNK_MORE; i++)
        outcome_b = chunk_decode(&b, pieces, &from_b, i, &to_b, 300);
    check(outcome_a == outcome_b && to_a == to_b && from_a == from_b && to_a <= 300);
    check(memcmp(whole, pieces, to_a) == 0);
    free(whole);
    free(pieces);
}

static void fuzz_target(const char *bytes, size_t size)
{
    struct arena arena;
    arena_init(&arena, 256, 1 << 20);
    struct str path, query, decoded, name, value;
    if (target_split(str_of(bytes, size), &path, &query, NULL) == ERR_OK) {
        if (target_decode_path(path, &arena, &decoded, NULL) == ERR_OK) {
            size_t wrong;
            target_put_slashes(decoded); /* as routing does it, segment by segment */
            check(str_is_utf8(decoded, &wrong) && str_find(decoded, '\0') == decoded.size);
        }
        while (query_next(&query, &name, &value)) (void)query_decode(value, &arena, &decoded, NULL);
    }
    arena_fini(&arena);
}

/* A PROXY header, a list of proxies, and what they say: the same whether it comes in one piece or byte by
 * byte, and an address that is told can be read. */
static void fuzz_client_address(const char *bytes, size_t size)
{
    struct client_address a = {.kind = CLIENT_UNIX}, b = a, again;
    const char *wrong = NULL;
    size_t whole = 0, pieces = 0;
    char text[CLIENT_ADDRESS_TEXT];
    enum proxy_header outcome =
        size == 0 ? PROXY_MORE : proxy_header_read(bytes, size, &whole, &a, &wrong);
    enum proxy_header stepwise = PROXY_MORE;
    for (size_t i = 1; i <= size && stepwise == PROXY_MORE; i++)
        stepwise = proxy_header_read(bytes, i, &pieces, &b, &wrong);
    check(outcome == stepwise && whole == pieces && whole <= size && client_address_equal(&a, &b));
    struct trusted_proxies t;
    if (trusted_proxies_read(str_of(bytes, size), &t, NULL) != ERR_OK)
        check(trusted_proxies_read(STR("0.0.0.0/0,::/1,unix"), &t, NULL) == ERR_OK);
    struct http_header h = {STR("X-Forwarded-For"), str_of(bytes, size)};
    if (client_address_forwarded(&t, &h, 1, &a, NULL) != ERR_OK) return;
    struct str told = client_address_text(&a, text);
    if (a.kind != CLIENT_UNIX)
        check(client_address_read(told, &again) && client_address_equal(&a, &again));
}

static void reply(struct http_exchange *x, struct http_barrier barrier)
{
    http_reply(x, &(struct http_reply){.status = 200, .body = x->body, .barrier = barrier});
}

static void handle(void *context, struct http_exchange *x)
{
    (void)context;
    touch(x->body);
    touch(x->path);
    for (size_t i = 0; i < x->header_count; i++) touch(x->headers[i].value);
    for (size_t i = 0; i < HTTP_PARAMS_MAX; i++) touch(x->params[i]);
    struct str value;
    if (http_parameter(x, STR("q"), &value, NULL) == ERR_OK) touch(value);
    static uint64_t block = 1;
    if (x->method == HTTP_GET)
        token = http_defer(x);
    else if (x->method == HTTP_PUT)
        reply(x, (struct http_barrier){.lane = 1, .block = block++});
    else
        reply(x, (struct http_barrier){0});
}

static void refuse(void *context, struct http_exchange *x, const struct fault *f)
{
    (void)context;
    touch(x->target);
    touch(x->method_text);
    check(f->text[0] != '\0');
    http_reply(x, &(struct http_reply){.status = err_status(f->err), .body = str_from(f->text)});
}

static void begin(void)
{
    static const struct http_route routes[] = {
        {.method = HTTP_GET, .pattern = "/d/{id}", .parameters = "q"},
        {.method = HTTP_POST, .pattern = "/e", .body = HTTP_BODY_JSON, .body_max = 200},
        {.method = HTTP_PUT, .pattern = "/g/{a}/{b}", .body = HTTP_BODY_OPTIONAL_JSON},
        {.method = HTTP_DELETE, .pattern = "/e"},
    };
    struct http_service service = {
        .routes = routes, .route_count = 4, .handle = handle, .refuse = refuse};
    struct http_limits limits = {.connections_max = 4,
                                 .head_ms = 60000,
                                 .body_ms = 60000,
                                 .idle_ms = 60000,
                                 .write_ms = 60000};
    loop = loop_create();
    server = http_server_create(loop, &service, &limits);
}

static void drop(int fd)
{
    char bytes[4096];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
}

static void open_all(void)
{
    static uint64_t block;
    block += 100000; /* more requests than any input holds */
    http_server_release(server, block, block);
    http_resume(server, token, &(struct http_reply){.status = 200, .body = STR("late")});
}

static void fuzz_server(const char *bytes, size_t size)
{
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    http_server_take(server, pair[0], SOCKET_UNIX);
    size_t step = size > 0 ? (unsigned char)bytes[0] : 1;
    if (step == 0) step = size;
    for (size_t at = 1; at < size; at += step) {
        size_t piece = size - at < step ? size - at : step;
        if (send(pair[1], bytes + at, piece, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
        loop_turn(loop, false);
        drop(pair[1]);
        if (at % 3 == 0) open_all();
    }
    open_all();
    loop_turn(loop, false);
    close(pair[1]);
    for (int i = 0; i < 50 && http_server_connections(server) > 0; i++) {
        open_all();
        loop_turn(loop, false);
    }
    check(http_server_connections(server) == 0 && http_server_waiting(server) == 0);
}

static bool transfer_is_over;

static void transfer_done(struct transfer *t, enum err err)
{
    transfer_is_over = true;
    if (err != ERR_OK) {
        check(t->fault.text[0] != '\0');
        return;
    }
    struct http_answer answer;
    transfer_answer(t, &answer);
    touch(answer.body);
    check(answer.body.size <= 500);
    for (size_t i = 0; i < answer.header_count; i++) touch(answer.headers[i].value);
}

static void fuzz_client(const char *bytes, size_t size)
{
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    struct transfer t = {.wire.fd = -1, .to = {.address = {.is_unix = true}}};
    buf_init(&t.request, 0, 10000);
    buf_init(&t.reply, 0, 100000);
    struct http_call call = {.method = "GET", .target = STR("/"), .reply_max = 500};
    check(transfer_prepare(&t, &call, true, NULL) == ERR_OK);
    transfer_is_over = false;
    transfer_begin(&t, loop, (struct wire){.fd = pair[0]}, 60000, transfer_done);
    size_t step = size > 0 ? (unsigned char)bytes[0] : 1;
    if (step == 0) step = size;
    for (size_t at = 1; at < size && !transfer_is_over; at += step) {
        size_t piece = size - at < step ? size - at : step;
        if (send(pair[1], bytes + at, piece, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
        loop_turn(loop, false);
    }
    close(pair[1]);
    for (int i = 0; i < 10 && !transfer_is_over; i++) loop_turn(loop, false);
    check(transfer_is_over);
    transfer_fini(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (loop == NULL) begin();
    if (size == 0) return 0;
    const char *bytes = (const char *)data + 1;
    size--;
    switch (data[0] % 8) {
    case 0: fuzz_head(bytes, size); break;
    case 1: fuzz_chunks(bytes, size); break;
    case 2: fuzz_target(bytes, size); break;
    case 3: fuzz_client(bytes, size); break;
    case 4: fuzz_client_address(bytes, size); break;
    default: fuzz_server(bytes, size); break;
    }
    return 0;
}
