/* What a program listens on: an address that another takes, and a kernel that gives nobody. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "http/listen.h"

/* In place of libc's: fails for as long as `failing` is not 0. */
static int failing, asked;

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    (void)flags;
    asked++;
    if (failing == 0) return accept(fd, address, size);
    errno = failing;
    return -1;
}

static void count(void *context, int fd, enum socket_kind kind)
{
    (void)kind;
    close(fd);
    ++*(int *)context;
}

/* ---- one folder with a socket in it, and who listens there ---- */

struct scene {
    char folder[64], path[80];
    struct loop *loop;
    struct listeners first, second;
    int first_took, second_took;
};

static struct scene scene_create(void)
{
    struct scene s = {.folder = "/tmp/writ-listen-XXXXXX"};
    assert_non_null(mkdtemp(s.folder));
    snprintf(s.path, sizeof s.path, "%s/socket", s.folder);
    s.loop = loop_create();
    return s;
}

static void scene_end(struct scene *s)
{
    listeners_stop(&s->first);
    listeners_stop(&s->second);
    loop_destroy(s->loop);
    assert_int_equal(rmdir(s->folder), 0); /* nobody left a socket */
}

static void open_at(struct scene *s, struct listeners *l)
{
    struct fault f;
    const struct listen_options options = {.address = STR("127.0.0.1:0"),
                                           .path = str_from(s->path)};
    enum err err = listeners_open(l, &options, &f);
    if (err != ERR_OK) fail_msg("%s", f.text);
}

static int client_of(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    memcpy(name.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&name, sizeof name), 0);
    return fd;
}

static void a_socket_that_another_took_before_we_listened_is_refused_and_left_alone(void **state)
{
    (void)state;
    struct scene s = scene_create();
    struct fault f = {0};
    open_at(&s, &s.first);
    open_at(&s, &s.second); /* nobody can tell a socket that nobody listens at from a stale one */
    assert_int_equal(listeners_start(&s.second, s.loop, count, &s.second_took, &f), ERR_OK);
    assert_int_equal(listeners_start(&s.first, s.loop, count, &s.first_took, &f), ERR_EXISTS);
    assert_non_null(strstr(f.text, "listen.unix"));
    assert_non_null(strstr(f.text, s.path));
    listeners_stop(&s.first);

    int client = client_of(s.path);
    while (s.second_took == 0) loop_turn(s.loop, true);
    close(client);
    scene_end(&s);
}

static void an_error_that_stays_does_not_keep_a_processor_busy(void **state)
{
    (void)state;
    enum { TURNS = 200, AT_EACH = 64 };
    struct scene s = scene_create();
    struct fault f;
    open_at(&s, &s.first);
    assert_int_equal(listeners_start(&s.first, s.loop, count, &s.first_took, &f), ERR_OK);
    int client = client_of(s.path);
    const int errors[] = {ENETDOWN, EPERM, EMFILE, ENOBUFS};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        failing = errors[i];
        asked = 0;
        for (int turn = 0; turn < TURNS; turn++) loop_turn(s.loop, false);
        if (asked > TURNS * AT_EACH / 4) fail_msg("%s: asked %d times", strerror(failing), asked);
    }
    failing = 0;
    while (s.first_took == 0) loop_turn(s.loop, true);
    close(client);
    scene_end(&s);
}

/* ---- what is logged meanwhile ---- */

struct log {
    int before, file;
    char text[16 << 10];
};

static void log_catch(struct log *l)
{
    l->before = dup(STDERR_FILENO);
    l->file = memfd_create("log", MFD_CLOEXEC);
    assert_int_equal(dup2(l->file, STDERR_FILENO), STDERR_FILENO);
}

static void log_let_go(struct log *l)
{
    dup2(l->before, STDERR_FILENO);
    close(l->before);
    ssize_t size = pread(l->file, l->text, sizeof l->text - 1, 0);
    close(l->file);
    assert_true(size >= 0);
    l->text[size] = '\0';
}

static int times_told(const struct log *l, const char *event)
{
    int count = 0;
    for (const char *at = l->text; (at = strstr(at, event)) != NULL; at++) count++;
    return count;
}

static void fail_once_and_take(struct scene *s, int client)
{
    int took = s->first_took;
    failing = EMFILE;
    for (asked = 0; asked == 0;) loop_turn(s->loop, true);
    failing = 0;
    while (s->first_took == took) loop_turn(s->loop, true);
    close(client);
}

/* As where many clients come and go, and there are fewer descriptors than clients. */
static void a_shortage_that_comes_and_goes_is_told_once_and_so_is_its_end(void **state)
{
    (void)state;
    struct scene s = scene_create();
    struct fault f;
    struct log log;
    open_at(&s, &s.first);
    assert_int_equal(listeners_start(&s.first, s.loop, count, &s.first_took, &f), ERR_OK);
    log_catch(&log);
    for (int n = 0; n < 3; n++) fail_once_and_take(&s, client_of(s.path));
    log_let_go(&log);
    assert_int_equal(times_told(&log, "accept_paused"), 1);
    assert_int_equal(times_told(&log, "accept_resumed"), 1);
    scene_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_that_another_took_before_we_listened_is_refused_and_left_alone),
        cmocka_unit_test(an_error_that_stays_does_not_keep_a_processor_busy),
        cmocka_unit_test(a_shortage_that_comes_and_goes_is_told_once_and_so_is_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
