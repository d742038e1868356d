#include "http/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"

enum {
    BACKLOG = 4096,
    ACCEPTS_PER_TURN = 64,
    PAUSE_MS = 100,
    TELL_MS = 60000,
    ADDRESS_BYTES = 256
};

struct listener {
    struct loop_fd watch;
    struct loop_timer pause;
    /* A lack of descriptors, or of a network, is logged once, until it is over. One that comes
     * back within TELL_MS is not logged again: under many clients it comes and goes all the
     * time. */
    bool is_told;
    uint64_t told_ms; /* when it was last logged; 0: never */
    struct loop *loop;
    int fd;
    enum socket_kind kind;
    dev_t device; /* of the Unix socket's file */
    ino_t inode;
    char address[ADDRESS_BYTES];
    void (*take)(void *context, int fd, enum socket_kind kind);
    void *context;
};

static void pause_over(struct loop_timer *t)
{
    struct listener *l = link_owner(t, struct listener, pause);
    loop_fd_change(l->loop, &l->watch, LOOP_READ);
}

static void tell_shortage(struct listener *l, int number)
{
    uint64_t now_ms = loop_now_ms(l->loop);
    if (l->is_told || (l->told_ms != 0 && now_ms - l->told_ms < TELL_MS)) return;
    log_line(LOG_WARNING, "accept_paused", "why", strerror(number), NULL);
    l->is_told = true;
    l->told_ms = now_ms;
}

static void pause_accepting(struct listener *l, int number)
{
    tell_shortage(l, number);
    loop_fd_change(l->loop, &l->watch, 0);
    loop_timer_start(l->loop, &l->pause, PAUSE_MS, pause_over);
}

static void end_shortage(struct listener *l)
{
    if (l->is_told) log_line(LOG_INFO, "accept_resumed", NULL);
    l->is_told = false;
}

static void accept_ready(struct loop_fd *w, int events)
{
    (void)events;
    struct listener *l = link_owner(w, struct listener, watch);
    bool took = false;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            bool no_room =
                errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            bool none_waits = errno == EAGAIN || errno == EWOULDBLOCK;
            if (no_room) pause_accepting(l, errno);
            if (none_waits) end_shortage(l);
            if (no_room || none_waits) return;
            continue; /* the client went away before it was accepted */
        }
        took = true;
        l->take(l->context, fd, l->kind);
    }
    if (!took) pause_accepting(l, errno); /* so many errors in a row do not come from clients */
}

static const char *const options[SOCKET_KINDS] = {
    [SOCKET_TCP] = "listen", [SOCKET_UNIX] = "listen.unix", [SOCKET_TLS] = "listen.tls"};

static enum err refused(const struct listener *l, int number, struct fault *f)
{
    return fault_set(f, number == EADDRINUSE ? ERR_EXISTS : ERR_IO, "", "%s: %s: %s",
                     options[l->kind], l->address, strerror(number));
}

/* ---- Unix ---- */

static bool unix_is_live(const struct sockaddr_un *name)
{
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0) return true;
    /* EAGAIN: a process listens there, and is too busy to accept */
    bool live = connect(probe, (const struct sockaddr *)name, sizeof *name) == 0 || errno == EAGAIN;
    close(probe);
    return live;
}

/* Not if another program has started in the meantime and replaced the stale socket. */
static bool file_is_ours(const struct listener *l)
{
    struct stat st;
    return lstat(l->address, &st) == 0 && st.st_dev == l->device && st.st_ino == l->inode;
}

static enum err open_unix(struct listener *l, struct fault *f)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(l->address) >= sizeof name.sun_path)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "listen.unix: %s: a Unix socket's path has at most %zu bytes", l->address,
                         sizeof name.sun_path - 1);
    memcpy(name.sun_path, l->address, strlen(l->address));
    struct stat st;
    if (lstat(l->address, &st) == 0) {
        if (!S_ISSOCK(st.st_mode))
            return fault_set(f, ERR_EXISTS, "", "listen.unix: %s exists and is not a socket",
                             l->address);
        if (unix_is_live(&name))
            return fault_set(f, ERR_EXISTS, "", "listen.unix: another process listens at %s",
                             l->address);
        unlink(l->address);
    }
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || bind(l->fd, (const struct sockaddr *)&name, sizeof name) != 0 ||
        chmod(l->address, 0660) != 0 || lstat(l->address, &st) != 0)
        return refused(l, errno, f);
    l->device = st.st_dev;
    l->inode = st.st_ino;
    return ERR_OK;
}

/* ---- TCP ---- */

/* Splits "host:port"; brackets around an IPv6 address are removed. */
static bool split_host(const char *address, char host[ADDRESS_BYTES], const char **ret_port)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || colon[1] == '\0') return false;
    size_t size = (size_t)(colon - address);
    if (size >= 2 && address[0] == '[' && address[size - 1] == ']') address++, size -= 2;
    if (size >= ADDRESS_BYTES) return false;
    memcpy(host, address, size);
    host[size] = '\0';
    *ret_port = colon + 1;
    return true;
}

static void tell_address(struct listener *l)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getsockname(l->fd, (struct sockaddr *)&name, &size) != 0 ||
        getnameinfo((struct sockaddr *)&name, size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    bool is_v6 = strchr(host, ':') != NULL;
    snprintf(l->address, sizeof l->address, is_v6 ? "[%.200s]:%.20s" : "%.200s:%.20s", host, port);
}

static enum err open_tcp(struct listener *l, struct fault *f)
{
    char host[ADDRESS_BYTES];
    const char *port;
    if (!split_host(l->address, host, &port))
        return fault_set(f, ERR_BAD_VALUE, "", "%s: %s is not host:port", options[l->kind],
                         l->address);
    struct addrinfo wanted = {.ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
                    *found;
    int failed = getaddrinfo(host[0] == '\0' ? NULL : host, port, &wanted, &found);
    if (failed != 0)
        return fault_set(f, failed == EAI_AGAIN ? ERR_IO : ERR_BAD_VALUE, "", "%s: %s: %s",
                         options[l->kind], l->address, gai_strerror(failed));
    int on = 1;
    l->fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool ok = l->fd >= 0 && setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
              bind(l->fd, found->ai_addr, found->ai_addrlen) == 0;
    int number = errno;
    freeaddrinfo(found);
    if (!ok) return refused(l, number, f);
    tell_address(l);
    return ERR_OK;
}

/* ---- one of them ---- */

/* Only this machine reaches a loopback address. */
static bool is_public(const struct listener *l)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    if (getsockname(l->fd, (struct sockaddr *)&name, &size) != 0) return true;
    if (name.ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, &name, sizeof v4);
        return ntohl(v4.sin_addr.s_addr) >> 24 != 127;
    }
    struct sockaddr_in6 v6;
    memcpy(&v6, &name, sizeof v6);
    const uint8_t *mapped = &v6.sin6_addr.s6_addr[12];
    return !IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) &&
           !(IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) && *mapped == 127);
}

static enum err refuse_public(const struct listener *l, struct fault *f)
{
    return fault_set(
        f, ERR_BAD_VALUE, "",
        "listen: %s has no TLS and is not a loopback address, so credentials would cross "
        "the network in plain text: use listen.tls, or set insecure_public if something "
        "else protects this network",
        l->address);
}

static enum err listen_open(struct str address, enum socket_kind kind, struct listener **ret,
                            struct fault *f)
{
    if (address.size == 0 || address.size >= ADDRESS_BYTES)
        return fault_set(f, ERR_BAD_VALUE, "", "%s: an address has 1 to %d bytes", options[kind],
                         ADDRESS_BYTES - 1);
    struct listener *l = calloc(1, sizeof *l);
    if (l == NULL) return fault_plain(f, ERR_FULL);
    l->fd = -1;
    l->kind = kind;
    memcpy(l->address, address.bytes, address.size);
    enum err err = kind == SOCKET_UNIX ? open_unix(l, f) : open_tcp(l, f);
    if (err != ERR_OK) {
        if (l->fd >= 0) close(l->fd);
        free(l);
        return err;
    }
    *ret = l;
    return ERR_OK;
}

static enum err listen_start(struct listener *l, struct loop *loop,
                             void (*take)(void *, int, enum socket_kind), void *context,
                             struct fault *f)
{
    if (listen(l->fd, BACKLOG) != 0) return refused(l, errno, f);
    if (l->kind == SOCKET_UNIX && !file_is_ours(l))
        return fault_set(f, ERR_EXISTS, "", "listen.unix: another process has taken %s since",
                         l->address);
    l->loop = loop;
    l->take = take;
    l->context = context;
    loop_fd_start(loop, &l->watch, l->fd, LOOP_READ, accept_ready);
    return ERR_OK;
}

static void listen_stop(struct listener *l)
{
    if (l == NULL) return;
    if (l->loop != NULL) {
        loop_fd_stop(l->loop, &l->watch);
        loop_timer_stop(l->loop, &l->pause);
    }
    if (l->kind == SOCKET_UNIX && file_is_ours(l)) unlink(l->address);
    close(l->fd);
    free(l);
}

/* ---- all of them ---- */

enum err listeners_open(struct listeners *l, const struct listen_options *options_given,
                        struct fault *f)
{
    const struct str addresses[SOCKET_KINDS] = {[SOCKET_TCP] = options_given->address,
                                                [SOCKET_UNIX] = options_given->path,
                                                [SOCKET_TLS] = options_given->tls};
    enum err err = ERR_OK;
    for (int kind = 0; kind < SOCKET_KINDS && err == ERR_OK; kind++)
        if (addresses[kind].size > 0)
            err = listen_open(addresses[kind], (enum socket_kind)kind, &l->kinds[kind], f);
    const struct listener *plain = l->kinds[SOCKET_TCP];
    if (err != ERR_OK) return err;
    if (plain == NULL && l->kinds[SOCKET_TLS] == NULL && l->kinds[SOCKET_UNIX] == NULL)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "listen: with none, listen.tls or listen.unix has to be set");
    return plain == NULL || options_given->may_be_public || !is_public(plain)
               ? ERR_OK
               : refuse_public(plain, f);
}

enum err listeners_start(const struct listeners *l, struct loop *loop,
                         void (*take)(void *, int, enum socket_kind), void *context,
                         struct fault *f)
{
    enum err err = ERR_OK;
    for (int kind = 0; kind < SOCKET_KINDS && err == ERR_OK; kind++)
        if (l->kinds[kind] != NULL) err = listen_start(l->kinds[kind], loop, take, context, f);
    return err;
}

void listeners_stop(struct listeners *l)
{
    for (int kind = 0; kind < SOCKET_KINDS; kind++) listen_stop(l->kinds[kind]);
    *l = (struct listeners){0};
}

const char *listeners_address(const struct listeners *l, enum socket_kind kind)
{
    return l->kinds[kind] == NULL ? "" : l->kinds[kind]->address;
}
