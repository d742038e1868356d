/* wake.c - how soon a client that waits for a review hears of its approval.
 *
 *   wake --address HOST:PORT --reviews FILE --agent-key-file FILE --reviewer-key-file FILE
 *
 * FILE names one pending review a line. Each gets a connection of its own that asks
 * GET /v1/queue/{id}/wait, every other one with the reviewer's key, since those with one key have a
 * share only. When all have asked, `waiting` is printed and a line on standard input is awaited, so
 * that whoever started this can see that the engine holds them all. Then the reviews are approved
 * one by one, in random order, over one more connection: the next when the approval was answered and
 * its waiter has heard. The span is from sending the approval to the read that brought the waiter's
 * reply. A wait that ends with the review still pending is asked again. The result is one line of
 * JSON on standard output. */
#include "client.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/resource.h>

enum {
    REVIEWS_MAX = 60000, /* as many connections have ports */
    LINE_MAX_BYTES = 256,
    REPLY_MAX = 128 << 10, /* an item holds a request's arguments, at most 64 KiB */
    SILENCE_MS = 30000,
    SEED = 20261121,
};

struct reply {
    unsigned status;
    size_t size;
    char bytes[REPLY_MAX + 1];
};

struct wake {
    struct sockaddr_in address;
    char (*reviews)[LINE_MAX_BYTES];
    char agent_key[LINE_MAX_BYTES], reviewer_key[LINE_MAX_BYTES];
    int *waiters; /* the connection of each review */
    uint32_t count;
    int approver, epoll;
    uint64_t *spans_ns;
    uint64_t asked_again;
    struct reply reply;
};

static bool line_read(FILE *file, char line[LINE_MAX_BYTES])
{
    if (fgets(line, LINE_MAX_BYTES, file) == NULL) return false;
    line[strcspn(line, "\r\n")] = '\0';
    return line[0] != '\0';
}

static void key_read(const char *path, char key[LINE_MAX_BYTES])
{
    FILE *file = fopen(path, "r");
    if (file == NULL || !line_read(file, key)) die(path);
    fclose(file);
}

static void reviews_read(struct wake *w, const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) die(path);
    w->reviews = allocate(REVIEWS_MAX, sizeof *w->reviews);
    while (w->count < REVIEWS_MAX && line_read(file, w->reviews[w->count])) w->count++;
    fclose(file);
    if (w->count == 0) refuse("--reviews names no review");
}

/* ---- one connection ---- */

static void request_send(int fd, const char *method, const char *review, const char *verb,
                         const char *key)
{
    char text[1024];
    const char *length = strcmp(method, "POST") == 0 ? "Content-Length: 0\r\n" : "";
    int size = snprintf(
        text, sizeof text,
        "%s /v1/queue/%s/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n",
        method, review, verb, key, length);
    if (size < 0 || (size_t)size >= sizeof text) refuse("a request is too long");
    if (send(fd, text, (size_t)size, MSG_NOSIGNAL) != size) die("send");
}

static void wait_send(struct wake *w, uint32_t n)
{
    request_send(w->waiters[n], "GET", w->reviews[n], "wait?timeout_ms=60000",
                 n % 2 == 0 ? w->agent_key : w->reviewer_key);
}

/* The next reply, whole. The sockets block: what has begun to come is there at once. */
static void reply_read(int fd, struct reply *r)
{
    size_t whole = SIZE_MAX;
    r->size = 0;
    while (r->size < whole) {
        ssize_t n = recv(fd, r->bytes + r->size, REPLY_MAX - r->size, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) refuse("the server closed a connection, or a reply is too long");
        r->size += (size_t)n;
        r->bytes[r->size] = '\0';
        const char *blank = strstr(r->bytes, "\r\n\r\n"),
                   *length = strcasestr(r->bytes, "\r\ncontent-length:");
        if (blank != NULL && length != NULL && length < blank)
            whole = (size_t)(blank + 4 - r->bytes) +
                    strtoul(length + strlen("\r\ncontent-length:"), NULL, 10);
    }
    r->status = (unsigned)strtoul(r->bytes + strlen("HTTP/1.1 "), NULL, 10);
}

/* ---- the run ---- */

static void watch(const struct wake *w, int fd, uint32_t n)
{
    struct epoll_event e = {.events = EPOLLIN, .data.u32 = n};
    if (epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &e) != 0) die("epoll_ctl");
}

static void all_wait(struct wake *w)
{
    w->waiters = allocate(w->count, sizeof *w->waiters);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (w->epoll < 0) die("epoll_create1");
    for (uint32_t n = 0; n < w->count; n++) {
        w->waiters[n] = connect_to(&w->address);
        watch(w, w->waiters[n], n);
        wait_send(w, n);
    }
    w->approver = connect_to(&w->address);
    watch(w, w->approver, w->count);
    printf("waiting\n");
    fflush(stdout);
    if (getchar() == EOF) refuse("nobody said go on");
}

/* Takes what a waiter was told; true: that review `n` is approved. */
static bool waiter_told(struct wake *w, uint32_t told, uint32_t n)
{
    reply_read(w->waiters[told], &w->reply);
    if (w->reply.status != 200) refuse(w->reply.bytes);
    if (told == n && strstr(w->reply.bytes, "\"status\":\"approved\"") != NULL) return true;
    if (strstr(w->reply.bytes, "\"status\":\"pending\"") == NULL)
        refuse("a waiter was told what is not so");
    w->asked_again++;
    wait_send(w, told);
    return false;
}

static void approve(struct wake *w, uint32_t n)
{
    uint64_t sent = now_ns();
    bool answered = false, heard = false;
    request_send(w->approver, "POST", w->reviews[n], "approve", w->reviewer_key);
    while (!answered || !heard) {
        struct epoll_event events[16];
        int ready = epoll_wait(w->epoll, events, 16, SILENCE_MS);
        if (ready < 0 && errno != EINTR) die("epoll_wait");
        if (ready == 0)
            refuse(answered ? "an approval was answered and its waiter not told"
                            : "an approval is not answered");
        for (int i = 0; i < ready; i++) {
            if (events[i].data.u32 == w->count) {
                reply_read(w->approver, &w->reply);
                if (w->reply.status != 200) refuse(w->reply.bytes);
                answered = true;
            } else if (waiter_told(w, events[i].data.u32, n)) {
                w->spans_ns[n] = now_ns() - sent;
                heard = true;
            }
        }
    }
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void approve_all(struct wake *w)
{
    uint32_t *order = allocate(w->count, sizeof *order);
    uint64_t chance = SEED;
    for (uint32_t i = 0; i < w->count; i++) order[i] = i;
    for (uint32_t i = w->count - 1; i > 0; i--) {
        uint32_t other = (uint32_t)(next_random(&chance) % (i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    w->spans_ns = allocate(w->count, sizeof *w->spans_ns);
    uint64_t begun = now_ns();
    for (uint32_t i = 0; i < w->count; i++) approve(w, order[i]);
    double seconds = (double)(now_ns() - begun) / 1e9;

    qsort(w->spans_ns, w->count, sizeof *w->spans_ns, by_size);
    printf("{\"reviews\":%u,\"seconds\":%.3f,\"req_s\":%.1f,\"p50_ms\":%.4f,\"p99_ms\":%.4f,\"max_"
           "ms\":%.4f,\"asked_again\":%" PRIu64 "}\n",
           w->count, seconds, w->count / seconds, (double)w->spans_ns[w->count / 2] / 1e6,
           (double)w->spans_ns[(uint64_t)w->count * 99 / 100] / 1e6,
           (double)w->spans_ns[w->count - 1] / 1e6, w->asked_again);
    free(order);
}

int main(int argc, char **argv)
{
    static struct wake w;
    static const struct option options[] = {
        {"address", required_argument, NULL, 'a'},
        {"reviews", required_argument, NULL, 'r'},
        {"agent-key-file", required_argument, NULL, 'k'},
        {"reviewer-key-file", required_argument, NULL, 'v'},
        {NULL, 0, NULL, 0},
    };
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (o) {
        case 'a': w.address = address_read(optarg); break;
        case 'r': reviews_read(&w, optarg); break;
        case 'k': key_read(optarg, w.agent_key); break;
        case 'v': key_read(optarg, w.reviewer_key); break;
        default: refuse("see the top of wake.c for its options");
        }
    }
    if (w.address.sin_port == 0 || w.count == 0 || w.agent_key[0] == '\0' ||
        w.reviewer_key[0] == '\0')
        refuse("all four options are needed");
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    all_wait(&w);
    approve_all(&w);
    return 0;
}
