/* message.h - one message about a review, in the form of each kind of channel. Pure.
 *
 * A message has the platform's own words (title, facts) and those of the request, which the agent
 * chose: action, resource, actor and the like. The agent's words stand apart, under a line that
 * calls them so, and only where a format takes a text literally:
 *
 *   webhook  a JSON member `request` (Standard Webhooks 1.0.0)
 *   slack    elements of a rich_text block; they have no markup, unlike mrkdwn
 *   teams    TextRuns of a RichTextBlock; they have no Markdown, unlike a TextBlock
 *   mail     lines that begin with "> ", in text/plain
 *
 * Invisible and control characters of these words are written as \u{…}, and long ones are cut.
 * Arguments and context are left out: a channel is another company's computer. */
#ifndef NOTIFY_MESSAGE_H
#define NOTIFY_MESSAGE_H

#include "base/buf.h"
#include "event/event.h"

enum {
    MESSAGE_BYTES_MAX = 64 << 10,
    MESSAGE_WORDS_MAX = 300, /* bytes that people are shown of one text */
    MESSAGE_ID_MAX = 160,
};

#define MESSAGE_REMINDER "review.reminder"

struct message {
    struct str kind;           /* the event's, or MESSAGE_REMINDER */
    const struct event *event; /* review.enqueued for a reminder */
    struct str console;        /* "https://writ.example/console"; absent: there is no link */
};

/* Whether a message of this kind is the last one about its review. */
bool message_is_last(struct str kind);
/* Whether the review needs no more votes, and so no reminder. */
bool message_resolves(const struct event *e);

/* The id of the message, which a second copy has, too: [A-Za-z0-9._:-]. */
void message_put_id(struct buf *out, const struct message *m);

void message_put_webhook(struct buf *out, const struct message *m);
void message_put_slack(struct buf *out, const struct message *m);
void message_put_teams(struct buf *out, const struct message *m);
/* Headers and body, with CRLF. `sent_s`: the Date, in Unix seconds. */
void message_put_mail(struct buf *out, const struct message *m, struct str from, struct str to,
                      uint64_t sent_s);

#endif
