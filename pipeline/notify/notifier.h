/* notifier.h - follows the events of reviews in the store, and sends messages about them.
 *
 *   records ─▶ read ─▶ notices (rows) ─▶ claim ─▶ send (libcurl) ─▶ delivered: the row goes
 *      ▲ position in the store                        └─ failed: again later, for 24 hours
 *
 * One thread with a connection of its own and all of the sending; a reactor never waits for it. Of
 * several platforms on one store, the one that holds the lease reads and sends.
 *
 * Each message is delivered at least once. Each channel sends one message at a time, and a row is
 * deleted as soon as its message was delivered. So a process that dies leaves at most one message
 * of each channel that may have been delivered and is sent again, under the same id
 * (writ_platform_notify_repeated_total). A channel that fails waits longer each time and delays no
 * other channel. Of one review its messages arrive in order. */
#ifndef NOTIFY_NOTIFIER_H
#define NOTIFY_NOTIFIER_H

#include "pipeline/notify/channel.h"
#include "store/history.h"

struct notifier;

struct notifier_options {
    const char *store;               /* path or address */
    const char *console;             /* "https://writ.example/console"; "": no links */
    const char *ca_file;             /* "": the system's authorities */
    struct notify_channel *channels; /* checked; must outlive the notifier */
    size_t channel_count;
};

enum { NOTIFIER_TEXT = 512, NOTIFIER_ERROR_TEXT = 200 };

struct notifier_channel {
    const char *name, *kind;
    uint64_t waiting, tries; /* messages; tries of the one that was tried most */
    uint64_t oldest_ms;      /* since when one waits, Unix milliseconds; 0: none does */
    char error[NOTIFIER_ERROR_TEXT];
};

struct notifier_status {
    bool is_well;
    char text[NOTIFIER_TEXT]; /* why not */
    size_t channel_count;
    struct notifier_channel channels[CHANNELS_OF_ALL_MAX];
};

/* The error is the store's; *ret is NULL then. */
enum err notifier_start(const struct notifier_options *o, struct history *history,
                        struct notifier **ret, struct fault *f);
/* Gives what is being sent two seconds, and leaves the lease to others. NULL is permitted. */
void notifier_stop(struct notifier *n);
void notifier_status(struct notifier *n, struct notifier_status *ret); /* any thread */

#endif
