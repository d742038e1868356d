/* server.h - a PostgreSQL server of a test's own: in a temporary folder (in memory, where there is
 * room: its many small files cost a file system more than the tests cost), on a socket in it, gone
 * with the program. As root it runs as the user postgres (or nobody), since it refuses to be
 * root. */
#ifndef TESTS_INGEST_SERVER_H
#define TESTS_INGEST_SERVER_H

#include <ftw.h>
#include <glob.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct server {
    char bin[128], folder[64], data[96];
    pid_t pid; /* 0: not running */
};

static struct server server;

/* Where the programs are: the newest of Debian's places; false: nowhere. */
static inline bool server_find(void)
{
    glob_t found;
    bool ok =
        glob("/usr/lib/postgresql/*/bin/postgres", 0, NULL, &found) == 0 && found.gl_pathc > 0;
    if (ok) {
        const char *path = found.gl_pathv[found.gl_pathc - 1];
        snprintf(server.bin, sizeof server.bin, "%.*s", (int)(strlen(path) - strlen("/postgres")),
                 path);
    }
    globfree(&found);
    return ok;
}

static inline const struct passwd *server_user(void)
{
    const struct passwd *p = getpwnam("postgres");
    return p != NULL ? p : getpwnam("nobody");
}

/* arguments[0] is the program's name. It is told its whole path: these programs look for each other
 * beside themselves, and Debian has them in no PATH. */
static inline pid_t server_spawn(const char **arguments)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", server.bin, arguments[0]);
    arguments[0] = path;
    const struct passwd *user = server_user();
    pid_t pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getuid() == 0 && (setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)) _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten by the change of user */
    if (chdir(server.folder) != 0 || freopen("log", "ae", stdout) == NULL) _exit(126);
    dup2(1, 2);
    execv(path, (char *const *)(uintptr_t)arguments);
    _exit(127);
}

static inline void server_address(char *to, size_t room, const char *schema)
{
    snprintf(to, room, "postgresql://writ@/postgres?host=%s&options=-csearch_path%%3D%s",
             server.folder, schema);
}

static inline bool server_answers(void)
{
    char address[256];
    server_address(address, sizeof address, "public");
    return PQping(address) == PQPING_OK;
}

static inline void server_run(void)
{
    const char *arguments[] = {"postgres",
                               "-D",
                               server.data,
                               "-k",
                               server.folder,
                               "-c",
                               "listen_addresses=",
                               "-c",
                               "fsync=off",
                               "-c",
                               "max_connections=40",
                               "-c",
                               "shared_buffers=64MB",
                               "-c",
                               "dynamic_shared_memory_type=mmap", /* in its folder, gone with it */
                               NULL};
    server.pid = server_spawn(arguments);
    for (int i = 0; i < 12000 && !server_answers(); i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (!server_answers()) {
        fprintf(stderr, "PostgreSQL does not start; see %s/log\n", server.folder);
        exit(1);
    }
}

static inline void server_end(int number)
{
    if (server.pid == 0) return;
    kill(server.pid, number);
    waitpid(server.pid, NULL, 0);
    server.pid = 0;
}

static inline int server_unlink(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s;
    (void)kind;
    (void)at;
    return remove(path);
}

static inline void server_stop(void)
{
    server_end(SIGQUIT);
    if (server.folder[0] != '\0') nftw(server.folder, server_unlink, 16, FTW_DEPTH | FTW_PHYS);
    server.folder[0] = '\0';
}

/* False: this machine has no PostgreSQL (it was said why). */
static inline bool server_start(void)
{
    int status = 0;
    if (!server_find() || (getuid() == 0 && server_user() == NULL)) {
        printf("SKIP: the programs of PostgreSQL are not installed (apt-get install postgresql)\n");
        return false;
    }
    struct statvfs memory;
    bool has_room = statvfs("/dev/shm", &memory) == 0 &&
                    (uint64_t)memory.f_bavail * memory.f_frsize >= UINT64_C(1) << 31;
    snprintf(server.folder, sizeof server.folder, "%s/writ-postgres-XXXXXX",
             has_room ? "/dev/shm" : "/tmp");
    if (mkdtemp(server.folder) == NULL || chmod(server.folder, 0755) != 0) exit(1);
    if (getuid() == 0 && chown(server.folder, server_user()->pw_uid, server_user()->pw_gid) != 0)
        exit(1);
    snprintf(server.data, sizeof server.data, "%s/data", server.folder);
    atexit(server_stop);
    const char *arguments[] = {"initdb", "-D",          server.data, "-U",   "writ",      "-A",
                               "trust",  "--no-locale", "-E",        "UTF8", "--no-sync", NULL};
    waitpid(server_spawn(arguments), &status, 0);
    if (status != 0) {
        fprintf(stderr, "initdb fails; see %s/log\n", server.folder);
        server.folder[0] = '\0'; /* kept for whoever looks */
        exit(1);
    }
    server_run();
    return true;
}

#endif
