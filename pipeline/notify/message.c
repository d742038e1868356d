#include "pipeline/notify/message.h"

#include <time.h>

#include "base/arena.h"
#include "base/time.h"
#include "json/json.h"
#include "crypto/base64.h"

/* ---- words ---- */

static const struct title {
    const char *kind, *text;
} titles[] = {
    {"review.enqueued", "A review waits for a decision"},
    {MESSAGE_REMINDER, "A review still waits for a decision"},
    {"review.approved", "A review was approved"},
    {"review.denied", "A review was denied"},
    {"review.expired", "A review expired without a decision"},
    {"review.lapsed", "An approval lapsed before it was used"},
    {"review.cancelled", "A review was cancelled"},
    {"review.redeemed", "An approval was used"},
};

static bool is_kind(struct str kind, const char *name) { return str_equal(kind, str_from(name)); }

static bool needs_more_votes(const struct message *m)
{
    return is_kind(m->kind, "review.approved") && m->event->expires_at == 0;
}

static struct str title_of(const struct message *m)
{
    if (needs_more_votes(m)) return STR("A review got an approval, and needs more");
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (is_kind(m->kind, titles[i].kind)) return str_from(titles[i].text);
    return STR("A review changed");
}

bool message_is_last(struct str kind)
{
    return is_kind(kind, "review.denied") || is_kind(kind, "review.expired") ||
           is_kind(kind, "review.lapsed") || is_kind(kind, "review.cancelled") ||
           is_kind(kind, "review.redeemed");
}

bool message_resolves(const struct event *e)
{
    return message_is_last(e->kind) || (is_kind(e->kind, "review.approved") && e->expires_at != 0);
}

void message_put_id(struct buf *out, const struct message *m)
{
    buf_put(out, m->event->event_id);
    if (is_kind(m->kind, MESSAGE_REMINDER)) buf_put_literal(out, ".reminder");
}

static void put_link(struct buf *out, const struct message *m)
{
    buf_put(out, m->console);
    buf_put_literal(out, "/#/review/");
    buf_put(out, m->event->review_id); /* [A-Za-z0-9._:-] */
}

/* ---- the agent's texts ---- */

/* The bytes and value of the UTF-8 character at `at`; the text is well-formed. */
static uint32_t character(struct str text, size_t at, size_t *ret_size)
{
    unsigned char first = (unsigned char)text.bytes[at];
    size_t size = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    uint32_t value = size == 1 ? first : first & (0xFFu >> (size + 1));
    for (size_t i = 1; i < size; i++)
        value = value << 6 | ((unsigned char)text.bytes[at + i] & 0x3F);
    *ret_size = size;
    return value;
}

/* Control characters, and those that are invisible or reorder what is around them. */
static bool is_hidden(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0x61C || c == 0x115F ||
           c == 0x1160 || c == 0x180E || (c >= 0x200B && c <= 0x200F) ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0x3164 ||
           (c >= 0xFE00 && c <= 0xFE0F) || c == 0xFEFF || c == 0xFFA0 ||
           (c >= 0xFFF9 && c <= 0xFFFB) || (c >= 0xE0000 && c <= 0xE0FFF);
}

/* One line of about MESSAGE_WORDS_MAX bytes of the text. */
static void put_words(struct buf *out, struct str text)
{
    size_t size, from = out->size;
    for (size_t at = 0; at < text.size; at += size) {
        uint32_t c = character(text, at, &size);
        if (out->size - from >= MESSAGE_WORDS_MAX) {
            buf_printf(out, "… (%zu bytes)", text.size);
            return;
        }
        if (is_hidden(c))
            buf_printf(out, "\\u{%X}", c);
        else
            buf_put(out, str_of(text.bytes + at, size));
    }
}

/* "order:4711", or the JSON if it is neither a text nor {type, id}. */
static void put_resource(struct buf *out, struct str json)
{
    static const struct json_options options = {0};
    struct arena arena;
    struct json *v = NULL;
    arena_init(&arena, 1 << 12, 1 << 20);
    if (json_read(json, &options, &arena, &v, NULL) != ERR_OK) v = NULL;
    struct str type = json_text(v, STR("type")), id = json_text(v, STR("id"));
    if (json_is_string(v)) {
        put_words(out, v->string);
    } else if (v != NULL && v->count == 2 && !str_is_absent(type) && !str_is_absent(id)) {
        put_words(out, type);
        buf_put_byte(out, ':');
        put_words(out, id);
    } else {
        put_words(out, json);
    }
    arena_fini(&arena);
}

/* ---- lines: "name: text\n", the same for all that people read ---- */

static void put_line(struct buf *out, const char *before, const char *name, struct str text)
{
    if (str_is_empty(text)) return;
    buf_printf(out, "%s%s: ", before, name);
    put_words(out, text);
    buf_put_byte(out, '\n');
}

static void put_request(struct buf *out, const char *before, const struct event *e)
{
    put_line(out, before, "agent", e->actor);
    put_line(out, before, "person", e->user_id);
    put_line(out, before, "action", e->action);
    if (!str_is_absent(e->resource)) {
        buf_printf(out, "%sresource: ", before);
        put_resource(out, e->resource);
        buf_put_byte(out, '\n');
    }
    put_line(out, before, "on behalf of", e->acting_for);
}

static void put_time_line(struct buf *out, const char *name, uint64_t ms)
{
    char text[TIME_TEXT];
    if (ms == 0) return;
    time_write(ms, text);
    /* 2026-11-20T09:30:00.123Z → 2026-11-20 09:30:00 UTC */
    buf_printf(out, "%s: %.10s %.8s UTC\n", name, text, text + 11);
}

static void put_facts(struct buf *out, const struct message *m)
{
    const struct event *e = m->event;
    bool is_approved = is_kind(m->kind, "review.approved");
    put_line(out, "", "review", e->review_id);
    put_line(out, "", "tenant", e->tenant_id);
    put_line(out, "", "policy", e->policy_name);
    put_line(out, "", "rule", e->rule);
    put_line(out, "", "why", e->reason);
    put_line(out, "", "by", e->resolved_by);
    put_line(out, "", "note", e->resolution_note);
    put_time_line(out, "at", e->timestamp);
    put_time_line(out, is_approved ? "can be used until" : "expires", e->expires_at);
}

static const char request_title[] = "As the agent sent it (writ has not checked these words):";

/* ---- webhook ---- */

static void put_member(struct buf *out, bool *is_first, const char *name, struct str text)
{
    if (str_is_absent(text)) return;
    buf_printf(out, "%s\"%s\":", *is_first ? "" : ",", name);
    json_put_string(out, text);
    *is_first = false;
}

static void put_time_member(struct buf *out, bool *is_first, const char *name, uint64_t ms)
{
    char text[TIME_TEXT];
    if (ms == 0) return;
    time_write(ms, text);
    put_member(out, is_first, name, str_of(text, TIME_TEXT));
}

static void put_request_object(struct buf *out, const struct event *e)
{
    bool first = true;
    buf_put_byte(out, '{');
    put_member(out, &first, "acting_for", e->acting_for);
    put_member(out, &first, "action", e->action);
    put_member(out, &first, "actor", e->actor);
    if (!str_is_absent(e->resource)) {
        buf_printf(out, "%s\"resource\":", first ? "" : ",");
        buf_put(out, e->resource); /* canonical JSON */
        first = false;
    }
    put_member(out, &first, "user_id", e->user_id);
    buf_put_byte(out, '}');
}

void message_put_webhook(struct buf *out, const struct message *m)
{
    const struct event *e = m->event;
    bool first = true;
    buf_put_byte(out, '{');
    put_member(out, &first, "type", m->kind);
    put_time_member(out, &first, "timestamp", e->timestamp);
    buf_put_literal(out, ",\"data\":{");
    first = true;
    put_member(out, &first, "event_id", e->event_id);
    put_member(out, &first, "tenant_id", e->tenant_id);
    put_member(out, &first, "review_id", e->review_id);
    put_member(out, &first, "trace_id", e->trace_id);
    put_member(out, &first, "policy_name", e->policy_name);
    put_member(out, &first, "rule", e->rule);
    put_member(out, &first, "reason", e->reason);
    put_member(out, &first, "decision", e->decision);
    put_member(out, &first, "redemption_id", e->redemption_id);
    put_member(out, &first, "resolved_by", e->resolved_by);
    put_member(out, &first, "resolution_note", e->resolution_note);
    put_time_member(out, &first, "expires_at", e->expires_at);
    if (is_kind(m->kind, "review.approved"))
        buf_printf(out, ",\"approvals\":%llu,\"approved\":%s", (unsigned long long)e->count,
                   needs_more_votes(m) ? "false" : "true");
    if (!str_is_absent(m->console)) {
        buf_put_literal(out, ",\"url\":\"");
        put_link(out, m);
        buf_put_byte(out, '"');
    }
    buf_put_literal(out, ",\"request\":");
    put_request_object(out, e);
    buf_put_literal(out, "}}");
}

/* ---- Slack and Teams: the lines as JSON strings ---- */

enum { LINES_MAX = 16 << 10 };

/* The lines without the last newline, as one JSON string. */
static void put_lines_string(struct buf *out, const struct buf *lines)
{
    struct str text = buf_view(lines);
    if (text.size > 0) text.size--;
    json_put_string(out, text);
    out->overflow |= lines->overflow;
}

static void put_facts_string(struct buf *out, const struct message *m)
{
    struct buf lines;
    buf_init(&lines, 1 << 10, LINES_MAX);
    put_facts(&lines, m);
    put_lines_string(out, &lines);
    buf_fini(&lines);
}

static void put_request_string(struct buf *out, const struct message *m)
{
    struct buf lines;
    buf_init(&lines, 1 << 10, LINES_MAX);
    put_request(&lines, "", m->event);
    put_lines_string(out, &lines);
    buf_fini(&lines);
}

void message_put_slack(struct buf *out, const struct message *m)
{
    buf_put_literal(out, "{\"text\":");
    json_put_string(out, title_of(m)); /* for the notification; our words alone */
    buf_put_literal(
        out,
        ",\"unfurl_links\":false,\"blocks\":[{\"type\":\"header\",\"text\":{\"type\":\"plain_text\",\"text\":");
    json_put_string(out, title_of(m));
    buf_put_literal(
        out,
        "}},{\"type\":\"rich_text\",\"elements\":[{\"type\":\"rich_text_section\",\"elements\":[{\"type\":\"text\",\"text\":");
    put_facts_string(out, m);
    buf_put_literal(
        out, "}]},{\"type\":\"rich_text_section\",\"elements\":[{\"type\":\"text\",\"text\":");
    json_put_string(out, str_from(request_title));
    buf_put_literal(
        out,
        ",\"style\":{\"bold\":true}}]},{\"type\":\"rich_text_quote\",\"elements\":[{\"type\":\"text\",\"text\":");
    put_request_string(out, m);
    buf_put_literal(out, "}]}");
    if (!str_is_absent(m->console)) {
        buf_put_literal(
            out,
            ",{\"type\":\"rich_text_section\",\"elements\":[{\"type\":\"link\",\"text\":\"Open the review\",\"url\":\"");
        put_link(out, m);
        buf_put_literal(out, "\"}]}");
    }
    buf_put_literal(out, "]}]}");
}

/* A card of version 1.4 in the message that a workflow ("When a Teams webhook request is received")
 * takes. */
void message_put_teams(struct buf *out, const struct message *m)
{
    buf_put_literal(
        out,
        "{\"type\":\"message\",\"attachments\":[{\"contentType\":\"application/vnd.microsoft.card.adaptive\",\"contentUrl\":null,\"content\":"
        "{\"$schema\":\"http://adaptivecards.io/schemas/adaptive-card.json\",\"type\":\"AdaptiveCard\",\"version\":\"1.4\",\"body\":["
        "{\"type\":\"TextBlock\",\"size\":\"Medium\",\"weight\":\"Bolder\",\"wrap\":true,\"text\":");
    json_put_string(out, title_of(m));
    buf_put_literal(out,
                    "},{\"type\":\"RichTextBlock\",\"inlines\":[{\"type\":\"TextRun\",\"text\":");
    put_facts_string(out, m);
    buf_put_literal(out,
                    "}]},{\"type\":\"TextBlock\",\"weight\":\"Bolder\",\"wrap\":true,\"text\":");
    json_put_string(out, str_from(request_title));
    buf_put_literal(
        out,
        "},{\"type\":\"Container\",\"style\":\"emphasis\",\"items\":[{\"type\":\"RichTextBlock\",\"inlines\":[{\"type\":\"TextRun\",\"text\":");
    put_request_string(out, m);
    buf_put_literal(out, "}]}]}");
    if (!str_is_absent(m->console)) {
        buf_put_literal(out,
                        ",{\"type\":\"TextBlock\",\"wrap\":true,\"text\":\"[Open the review](");
        put_link(out, m);
        buf_put_literal(out, ")\"}");
    }
    buf_put_literal(out, "]}}]}");
}

/* ---- mail ---- */

/* Messages about one review refer to its first one by this id. */
static void put_thread_id(struct buf *out, const struct event *e)
{
    buf_put_byte(out, '<');
    buf_put(out, e->review_id);
    buf_put_literal(out, "@writ.invalid>");
}

void message_put_mail(struct buf *out, const struct message *m, struct str from, struct str to,
                      uint64_t sent_s)
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    struct tm t;
    time_t seconds = (time_t)sent_s;
    gmtime_r(&seconds, &t);
    buf_printf(out, "Date: %s, %02d %s %04d %02d:%02d:%02d +0000\r\n", days[t.tm_wday], t.tm_mday,
               months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    buf_printf(out, "From: %.*s\r\nTo: %.*s\r\nSubject: ", STR_FORMAT(from), STR_FORMAT(to));
    buf_put(out, title_of(m));
    buf_put_literal(out, "\r\nMessage-ID: ");
    if (is_kind(m->kind, "review.enqueued")) {
        put_thread_id(out, m->event);
    } else {
        buf_put_byte(out, '<');
        message_put_id(out, m);
        buf_put_literal(out, "@writ.invalid>\r\nIn-Reply-To: ");
        put_thread_id(out, m->event);
        buf_put_literal(out, "\r\nReferences: ");
        put_thread_id(out, m->event);
    }
    buf_put_literal(out, "\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n"
                         "Content-Type: text/plain; charset=utf-8\r\n"
                         "Content-Transfer-Encoding: base64\r\n\r\n");
    struct buf body;
    buf_init(&body, 1 << 10, LINES_MAX);
    buf_put(&body, title_of(m));
    buf_put_literal(&body, ".\n\n");
    put_facts(&body, m);
    buf_printf(&body, "\n%s\n", request_title);
    put_request(&body, "> ", m->event);
    if (!str_is_absent(m->console)) {
        buf_put_literal(&body, "\nOpen the review: ");
        put_link(&body, m);
        buf_put_byte(&body, '\n');
    }
    base64_put(out, buf_view(&body), 76);
    buf_put_literal(out, "\r\n");
    out->overflow |= body.overflow;
    buf_fini(&body);
}
