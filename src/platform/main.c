/* main.c - writ-platform: options in, signals in, one platform between. */
#include <signal.h>
#include <stdio.h>

#include "base/check.h"
#include "base/descriptors.h"
#include "base/dumps.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/thread.h"
#include "platform/platform.h"

/* 17 with two readers; the rest is for Kafka, the engine's address, and files that are open for a
 * moment. A reader has the database and its log. */
enum { DESCRIPTORS = 28, DESCRIPTORS_EACH = 2 };

static struct platform *running;

/* platform_stop() is one store and one write to a pipe: a handler may call it. */
static void signalled(int number)
{
    (void)number;
    platform_stop(running);
}

static void take_signals(void)
{
    struct sigaction stop = {.sa_handler = signalled, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigset_t both; /* who started this program may have blocked them */
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    check(pthread_sigmask(SIG_UNBLOCK, &both, NULL) == 0);
}

int main(int argc, char **argv)
{
    extern char **environ;
    static struct config config;
    struct fault f;
    if (!descriptors_take_standard()) return 1;
    thread_stacks_take();
    signals_ignore();
    log_init("writ-platform", LOG_INFO);
    enum err err = config_read(PROGRAM_PLATFORM, argc, argv, environ, &config, &f);
    if (err == ERR_END) return 0;
    if (err != ERR_OK) {
        fprintf(stderr, "writ-platform: %s\n", f.text);
        return STATUS_WRONG_SETTING;
    }
    if (!config.core_dumps) dumps_forbid();
    log_init("writ-platform", log_level_of(config.log_level));
    config_tell_strays(environ);
    config_tell_idle(&config, PROGRAM_PLATFORM);
    err = descriptors_for_clients(DESCRIPTORS + DESCRIPTORS_EACH * config.readers,
                                  &config.connections_max, &f);
    if (err == ERR_OK) err = platform_create(&config, &running, &f);
    if (err != ERR_OK) {
        config_name_sources(&config, &f);
        log_line(LOG_ERROR, "cannot_start", "why", f.text, NULL);
        config_fini(&config);
        return err == ERR_BAD_VALUE ? STATUS_WRONG_SETTING : 1;
    }
    take_signals();
    log_line(LOG_INFO, "listening", "address", platform_address(running), "unix",
             config.listen_unix, "store", config.store_url[0] != '\0' ? "PostgreSQL" : config.store,
             NULL); /* the address may hold a password */
    platform_run(running);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    platform_destroy(running);
    config_fini(&config);
    log_line(LOG_INFO, "stopped", NULL);
    return 0;
}
