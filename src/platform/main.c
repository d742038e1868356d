/* main.c - writ-platform: reads the options, handles the signals and runs one platform. */
#include <signal.h>
#include <stdio.h>

#include "base/check.h"
#include "base/descriptors.h"
#include "base/dumps.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/thread.h"
#include "platform/platform.h"

/* 17 with two readers. The rest is for Kafka, the engine's address, and files that are briefly
 * open. A reader has the database and its log. A channel has a connection or two that are tried at
 * once, and all of them share the database, its log and libcurl's wakeup; so do anchors. */
enum { DESCRIPTORS = 28, DESCRIPTORS_EACH = 2, DESCRIPTORS_NOTIFIER = 8, DESCRIPTORS_CHANNEL = 3 };
/* libcurl's wakeup, and exchanges of codes; each provider's own fetch. */
enum { DESCRIPTORS_PROVIDERS = 28, DESCRIPTORS_PROVIDER = 3 };

static size_t descriptors(const struct config *c)
{
    size_t count = DESCRIPTORS + DESCRIPTORS_EACH * c->readers;
    if (c->channel_count > 0) count += DESCRIPTORS_NOTIFIER;
    if (c->anchor_count > 0) count += DESCRIPTORS_NOTIFIER;
    if (c->provider_count > 0) count += DESCRIPTORS_PROVIDERS;
    return count + DESCRIPTORS_CHANNEL * (c->channel_count + c->anchor_count) +
           DESCRIPTORS_PROVIDER * c->provider_count;
}

static struct platform *running;

/* platform_stop() is one store and one write to a pipe, so a signal handler may call it. */
static void signalled(int number)
{
    (void)number;
    platform_stop(running);
}

static void hung_up(int number)
{
    (void)number;
    platform_reload(running);
}

static void take_signals(void)
{
    struct sigaction reload = {.sa_handler = hung_up, .sa_flags = SA_RESTART};
    sigaction(SIGHUP, &reload, NULL);
    struct sigaction stop = {.sa_handler = signalled, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigset_t all; /* the parent process may have blocked them */
    sigemptyset(&all);
    sigaddset(&all, SIGINT);
    sigaddset(&all, SIGTERM);
    sigaddset(&all, SIGHUP);
    check(pthread_sigmask(SIG_UNBLOCK, &all, NULL) == 0);
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
    config_tell_former(&config, PROGRAM_PLATFORM);
    err = descriptors_for_clients(descriptors(&config), &config.connections_max, &f);
    if (err == ERR_OK) err = platform_create(&config, &running, &f);
    if (err != ERR_OK) {
        config_name_sources(&config, &f);
        log_line(LOG_ERROR, "cannot_start", "why", f.text, NULL);
        config_fini(&config);
        return err == ERR_BAD_VALUE ? STATUS_WRONG_SETTING : 1;
    }
    take_signals();
    log_line(LOG_INFO, "listening", "address", platform_address(running, SOCKET_TCP), "tls",
             platform_address(running, SOCKET_TLS), "unix", config.listen_unix, "store",
             config.store_url[0] != '\0' ? "PostgreSQL" : config.store,
             NULL); /* the address may hold a password */
    platform_run(running);
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    platform_destroy(running);
    config_fini(&config);
    log_line(LOG_INFO, "stopped", NULL);
    return 0;
}
