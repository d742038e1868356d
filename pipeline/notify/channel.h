/* channel.h - the channels of the configuration (notify.NAME.…): what each is, and which
 * reviews it reports. Pure, but for channel_read_url() and channel_read_secret(). */
#ifndef NOTIFY_CHANNEL_H
#define NOTIFY_CHANNEL_H

#include "base/fault.h"

enum {
    CHANNEL_NAME_TEXT = 32,
    CHANNEL_URL_MAX = 2048,
    CHANNEL_SECRET_MAX = 512,
    CHANNELS_OF_ALL_MAX = 32, /* no program has more */
};

enum channel_kind { CHANNEL_WEBHOOK, CHANNEL_SLACK, CHANNEL_TEAMS, CHANNEL_MAIL };

struct notify_channel { /* texts are "" if they were not set, never NULL */
    const char *name;
    const char *kind_word; /* "webhook", "slack", "teams" or "mail" */
    const char *url, *url_file, *secret_file;
    const char *tenant; /* "*": every tenant */
    const char *asker;  /* "a,b" or "*": it gets the outcomes of these actors' reviews */
    const char *from, *to, *user;
    bool allow_private, allow_plaintext;
    enum channel_kind kind; /* set by channel_check() */
};

/* ERR_BAD_VALUE: an option is missing, useless or wrong; the text names it. Also reads its files
 * once. */
enum err channel_check(struct notify_channel *c, struct fault *f);

/* May a review of this tenant be announced on it, because a policy names it? */
bool channel_is_of(const struct notify_channel *c, struct str tenant);
/* Is it the webhook of this asker? */
bool channel_is_askers(const struct notify_channel *c, struct str tenant, struct str actor);

/* NUL-terminated. ERR_NOT_FOUND, ERR_BAD_VALUE: *f has none of the content. */
enum err channel_read_url(const struct notify_channel *c, char to[CHANNEL_URL_MAX + 2],
                          struct fault *f);
/* The secrets of a webhook, or the password; "" if there is none. The caller wipes it. */
enum err channel_read_secret(const struct notify_channel *c, char to[CHANNEL_SECRET_MAX + 2],
                             struct fault *f);

#endif
