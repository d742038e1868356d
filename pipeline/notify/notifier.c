#include "pipeline/notify/notifier.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/time.h"
#include "base/world.h"
#include "crypto/crypto.h"
#include "json/json.h"
#include "metrics/metrics.h"
#include "pipeline/ingest/consumer_store.h"
#include "pipeline/notify/message.h"
#include "pipeline/notify/notice_store.h"
#include "outbound/outbound.h"
#include "pipeline/notify/signature.h"

enum {
    LOOK_MS = 250,
    KEEP_POSITION_MS = 1000, /* without an event of a review */
    STATUS_MS = 2000,
    GIVE_UP_LOOK_MS = 60000,
    STOP_MS = 2000,
    DEAD_TRIES = 3, /* of one message: then the channel fails its check */
    RETRY_AFTER_MOST_S = 3600,
    UNKNOWN_MS = 3600000, /* how long a name without a channel is reported */
    ARENA_BYTES = NOTICE_READ_MAX * (LIMIT_EVENT_BYTES / 8),
    EVENT_ARENA_BYTES = 4 << 20,
};

static const struct backoff message_backoff = {1000, 600000}, channel_backoff = {1000, 60000};

/* What a channel sends now: claimed, sent, and noted in the store when it has ended. */
struct place {
    struct notify_channel *channel;
    enum { PLACE_FREE, PLACE_WANTED, PLACE_SENDING, PLACE_ENDED } state;
    struct notice notice; /* in the arena */
    struct str event;
    bool is_gone; /* the event was dropped by age */
    struct arena arena;
    struct outbound_result result;
    uint64_t failures, wait_until_ms; /* in a row; monotonic */
};

struct notifier {
    const struct notifier_options options;
    struct store *store;
    struct metrics_sheet *sheet;
    struct outbound *sender;
    struct lease lease;
    bool is_mine;             /* the lease, at the last heartbeat */
    uint64_t next, kept_next; /* the record to read next; the same as the store has it */
    uint64_t heartbeat_ms, kept_ms, status_ms, give_up_ms; /* when next; monotonic */
    struct arena arena;                                    /* of one turn */
    struct arena scratch;                                  /* of one event */
    struct noted_event events[NOTICE_READ_MAX];
    size_t event_count;
    bool has_more;                     /* records behind those that were read */
    char unknown[LIMIT_ID_CHARACTERS]; /* "policy refunds names the channel x" */
    uint64_t unknown_ms;               /* until when it is reported; monotonic */
    char trouble[320];                 /* of the store; "": none */
    atomic_bool stopping;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the status */
    struct notifier_status status;
    size_t place_count;
    struct place places[];
};

static uint64_t monotonic_ms(void) { return world_monotonic_ns() / 1000000; }
static struct str me(const struct notifier *n) { return str_of(n->lease.me, LEASE_OWNER_TEXT); }

static void in_trouble(struct notifier *n, const struct fault *f)
{
    if (strcmp(n->trouble, f->text) != 0)
        log_line(LOG_WARNING, "notify_store", "why", f->text, NULL);
    snprintf(n->trouble, sizeof n->trouble, "%s", f->text);
}

/* ---- events to rows ---- */

static struct place *place_of(struct notifier *n, struct str name)
{
    for (size_t i = 0; i < n->place_count; i++)
        if (str_equal(name, str_from(n->places[i].channel->name))) return &n->places[i];
    return NULL;
}

static enum err put(struct notifier *n, const struct notice *notice, struct fault *f)
{
    bool is_full;
    enum err err = notice_store_put(n->store, notice, &is_full, f);
    if (err != ERR_OK || !is_full) return err;
    metric_add(n->sheet, METRIC_NOTIFY_DROPPED_FULL, 1);
    return ERR_OK;
}

/* A policy's name for a channel that is not there, or that belongs to another tenant. */
static void tell_unknown(struct notifier *n, const struct event *e, struct str name)
{
    metric_add(n->sheet, METRIC_NOTIFY_DROPPED_CHANNEL, 1);
    snprintf(n->unknown, sizeof n->unknown,
             "policy %.*s names the channel %.*s, which is not configured for its tenant",
             STR_FORMAT(e->policy_name), STR_FORMAT(name));
    if (monotonic_ms() >= n->unknown_ms)
        log_line(LOG_WARNING, "notify_channel_unknown", "why", n->unknown, NULL);
    n->unknown_ms = monotonic_ms() + UNKNOWN_MS;
}

static enum err put_reminder(struct notifier *n, struct notice *notice, uint64_t at_ms,
                             struct fault *f)
{
    notice->kind = STR(MESSAGE_REMINDER);
    notice->since = notice->next_at = at_ms;
    return put(n, notice, f);
}

static enum err announce_on(struct notifier *n, const struct notice *notice, uint64_t remind_ms,
                            const struct event *e, struct fault *f)
{
    struct notice copy = *notice;
    enum err err = put(n, &copy, f);
    return err == ERR_OK && remind_ms != 0 ? put_reminder(n, &copy, e->timestamp + remind_ms, f)
                                           : err;
}

static enum err announce(struct notifier *n, struct notice *notice, const struct event *e,
                         struct fault *f)
{
    static const struct json_options options = {0};
    char bytes[CHANNELS_OF_ALL_MAX * 64];
    struct buf names = buf_over(bytes, sizeof bytes);
    struct json *notify;
    if (str_is_absent(e->notify) ||
        json_read(e->notify, &options, &n->scratch, &notify, NULL) != ERR_OK)
        return ERR_OK;
    const struct json *list = json_get(notify, STR("channels"));
    uint64_t remind_ms = json_u64(notify, STR("remind"), 0) * 1000;
    enum err err = ERR_OK;
    for (const struct json *v = json_is_array(list) ? list->child : NULL;
         v != NULL && err == ERR_OK; v = v->next) {
        struct place *p = json_is_string(v) ? place_of(n, v->string) : NULL;
        if (p == NULL || !channel_is_of(p->channel, e->tenant_id)) {
            bool is_name = json_is_string(v) && str_is_label(v->string, CHANNEL_NAME_TEXT);
            tell_unknown(n, e, is_name ? v->string : STR("?"));
            continue;
        }
        notice->channel = str_from(p->channel->name);
        err = announce_on(n, notice, remind_ms, e, f);
        if (names.size > 0) buf_put_byte(&names, ' ');
        buf_put(&names, notice->channel);
    }
    if (err != ERR_OK || names.size == 0 || names.overflow) return err;
    bool is_full;
    err = notice_store_announce(n->store, e->tenant_id, e->review_id, buf_view(&names),
                                notice->since, &is_full, f);
    if (err == ERR_OK && is_full) metric_add(n->sheet, METRIC_NOTIFY_DROPPED_FULL, 1);
    return err;
}

static enum err tell_asker(struct notifier *n, struct notice *notice, const struct event *e,
                           struct fault *f)
{
    enum err err = ERR_OK;
    if (!message_resolves(e) || str_equal(e->kind, STR("review.redeemed"))) return ERR_OK;
    for (size_t i = 0; i < n->place_count && err == ERR_OK; i++) {
        const struct notify_channel *c = n->places[i].channel;
        struct str asker = str_is_absent(e->actor) ? e->user_id : e->actor;
        if (!channel_is_askers(c, e->tenant_id, asker)) continue;
        notice->channel = str_from(c->name);
        err = put(n, notice, f);
    }
    return err;
}

static enum err follow_up(struct notifier *n, struct notice *notice, const struct event *e,
                          struct fault *f)
{
    struct str names, name;
    enum err err =
        notice_store_announced(n->store, e->tenant_id, e->review_id, &n->scratch, &names, f);
    while (err == ERR_OK && str_split(&names, ' ', &name)) {
        struct place *p = place_of(n, name);
        if (p == NULL) continue; /* it was removed from the configuration */
        notice->channel = name;
        err = put(n, notice, f);
    }
    if (err == ERR_OK && message_resolves(e))
        err = notice_store_drop_reminders(n->store, e->review_id, f);
    if (err == ERR_OK && message_is_last(e->kind))
        err = notice_store_forget(n->store, e->tenant_id, e->review_id, f);
    return err == ERR_OK ? tell_asker(n, notice, e, f) : err;
}

static enum err take_up(struct notifier *n, const struct noted_event *noted, uint64_t now_ms,
                        struct fault *f)
{
    struct event e = {0};
    struct fault why;
    arena_reset(&n->scratch);
    if (event_read(noted->event, &n->scratch, &e, &why) != ERR_OK) {
        log_line(LOG_WARNING, "notify_event", "why", why.text,
                 NULL); /* a newer platform stored it */
        return ERR_OK;
    }
    if (str_is_absent(e.review_id)) return ERR_OK;
    struct notice notice = {.record_id = noted->id,
                            .kind = e.kind,
                            .tenant = e.tenant_id,
                            .review = e.review_id,
                            .since = now_ms,
                            .next_at = now_ms};
    return str_equal(e.kind, STR("review.enqueued")) ? announce(n, &notice, &e, f)
                                                     : follow_up(n, &notice, &e, f);
}

/* ---- sending ---- */

static void fail(struct place *p, const char *why)
{
    struct str text = str_from(why);
    if (text.size >= OUTBOUND_ERROR_TEXT) {
        text.size = OUTBOUND_ERROR_TEXT - 1; /* between characters */
        while (((unsigned char)text.bytes[text.size] & 0xC0) == 0x80) text.size--;
    }
    p->result = (struct outbound_result){0};
    snprintf(p->result.error, sizeof p->result.error, "%.*s", STR_FORMAT(text));
    p->state = PLACE_ENDED;
}

/* The lines of a webhook's signature and id. */
struct webhook_heads {
    char id[MESSAGE_ID_MAX + 16], timestamp[48], signature[192];
};

static bool put_heads(struct webhook_heads *h, const struct message *m, struct str secrets,
                      struct str body)
{
    char id_bytes[MESSAGE_ID_MAX];
    struct buf id = buf_over(id_bytes, sizeof id_bytes),
               signature = buf_over(h->signature, sizeof h->signature - 1);
    uint64_t now_s = world_wall_ns() / 1000000000;
    message_put_id(&id, m);
    buf_put_literal(&signature, "webhook-signature: ");
    signature_put(&signature, secrets, buf_view(&id), now_s, body);
    h->signature[signature.size] = '\0';
    snprintf(h->id, sizeof h->id, "webhook-id: %.*s", STR_FORMAT(buf_view(&id)));
    snprintf(h->timestamp, sizeof h->timestamp, "webhook-timestamp: %llu",
             (unsigned long long)now_s);
    return !id.overflow && !signature.overflow;
}

static void put_body(struct buf *body, const struct notify_channel *c, const struct message *m)
{
    switch (c->kind) {
    case CHANNEL_WEBHOOK: message_put_webhook(body, m); break;
    case CHANNEL_SLACK: message_put_slack(body, m); break;
    case CHANNEL_TEAMS: message_put_teams(body, m); break;
    case CHANNEL_MAIL:
        message_put_mail(body, m, str_from(c->from), str_from(c->to), world_wall_ns() / 1000000000);
        break;
    }
}

static void begin(struct notifier *n, struct place *p, const struct message *m, const char *url,
                  const char *secret)
{
    const struct notify_channel *c = p->channel;
    struct webhook_heads heads;
    struct buf body;
    buf_init(&body, 4 << 10, MESSAGE_BYTES_MAX);
    put_body(&body, c, m);
    bool is_mail = c->kind == CHANNEL_MAIL;
    struct outbound_request r = {.method = is_mail ? OUTBOUND_MAIL : OUTBOUND_POST,
                                 .url = url,
                                 .body = buf_view(&body),
                                 .headers = {"content-type: application/json", "expect:"},
                                 .header_count = 2,
                                 .from = c->from,
                                 .to = c->to,
                                 .user = c->user,
                                 .password = secret,
                                 .allow_private = c->allow_private,
                                 .allow_plaintext = c->allow_plaintext};
    bool is_made = !body.overflow;
    if (is_made && c->kind == CHANNEL_WEBHOOK) {
        is_made = put_heads(&heads, m, str_from(secret), r.body);
        r.headers[2] = heads.id;
        r.headers[3] = heads.timestamp;
        r.headers[4] = heads.signature;
        r.header_count = 5;
    }
    if (!is_made || !outbound_begin(n->sender, (size_t)(p - n->places), &r))
        fail(p, "there was no memory for the message");
    buf_fini(&body);
}

/* The claim is committed. */
static void send(struct notifier *n, struct place *p)
{
    char url[CHANNEL_URL_MAX + 2], secret[CHANNEL_SECRET_MAX + 2];
    struct event e = {0};
    struct fault f = {0};
    p->state = PLACE_SENDING;
    if (p->notice.owner.size > 0) metric_add(n->sheet, METRIC_NOTIFY_REPEATED, 1);
    enum err err = event_read(p->event, &p->arena, &e, &f);
    if (err == ERR_OK) err = channel_read_url(p->channel, url, &f);
    if (err == ERR_OK) err = channel_read_secret(p->channel, secret, &f);
    if (err != ERR_OK) {
        fail(p, f.text);
        return;
    }
    const char *console = n->options.console;
    const struct message m = {.kind = p->notice.kind,
                              .event = &e,
                              .console = *console == '\0' ? (struct str){0} : str_from(console)};
    begin(n, p, &m, url, secret);
    memory_wipe(url, sizeof url);
    memory_wipe(secret, sizeof secret);
}

static void take_results(struct notifier *n)
{
    for (size_t i = 0; i < n->place_count; i++)
        if (n->places[i].state == PLACE_SENDING &&
            outbound_take(n->sender, i, &n->places[i].result))
            n->places[i].state = PLACE_ENDED;
}

/* ---- one turn ---- */

static void heartbeat(struct notifier *n)
{
    struct fault f = {0};
    uint64_t now_ms = monotonic_ms();
    if (now_ms < n->heartbeat_ms) return;
    n->heartbeat_ms = now_ms + LEASE_HEARTBEAT_MS;
    bool was_mine = n->is_mine;
    enum err err =
        consumer_store_heartbeat(n->store, NOTICE_TOPIC, &n->lease, now_ms, world_now_ms(), &f);
    n->is_mine = err == ERR_OK && lease_is_mine(&n->lease, 0);
    if (err != ERR_OK)
        in_trouble(n, &f);
    else
        n->trouble[0] = '\0';
    /* It also differs if the store has gone back. */
    uint64_t kept = n->lease.partitions[0].next_offset;
    if (n->is_mine && (!was_mine || kept != n->kept_next)) n->next = n->kept_next = kept;
}

/* The events that come next. The first platform of a store begins with what comes after its start,
 * so that old reviews are not announced. */
static enum err look_at_events(struct notifier *n, struct fault *f)
{
    uint64_t newest, last;
    n->event_count = 0;
    n->has_more = false;
    enum err err = notice_store_newest(n->store, &newest, f);
    if (err != ERR_OK) return err;
    if (n->next == 0) n->next = newest + 1;
    if (newest < n->next) return ERR_OK;
    err = notice_store_read(n->store, n->next - 1, &n->arena, n->events, &n->event_count, &last,
                            &n->has_more, f);
    if (err == ERR_OK) n->next = last + 1;
    return err;
}

/* Another platform had the lease, lives, and has not noted yet what became of it. */
static bool is_sent_by_another(const struct notifier *n, const struct notice *notice)
{
    return notice->owner.size == LEASE_OWNER_TEXT && !str_equal(notice->owner, me(n)) &&
           lease_is_alive(&n->lease, notice->owner.bytes, monotonic_ms());
}

static enum err look_at_place(struct notifier *n, struct place *p, uint64_t now_ms, struct fault *f)
{
    arena_reset(&p->arena);
    enum err err =
        notice_store_due(n->store, str_from(p->channel->name), now_ms, &p->arena, &p->notice, f);
    if (err == ERR_END) return ERR_OK;
    if (err != ERR_OK || is_sent_by_another(n, &p->notice)) return err;
    err = notice_store_event(n->store, p->notice.record_id, &p->arena, &p->event, f);
    p->is_gone = err == ERR_NOT_FOUND;
    if (err != ERR_OK && !p->is_gone) return err;
    p->state = PLACE_WANTED;
    return ERR_OK;
}

static enum err look_at_places(struct notifier *n, bool *ret_any, struct fault *f)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < n->place_count && err == ERR_OK; i++) {
        struct place *p = &n->places[i];
        if (p->state != PLACE_FREE || monotonic_ms() < p->wait_until_ms) continue;
        err = look_at_place(n, p, world_now_ms(), f);
        *ret_any |= p->state == PLACE_WANTED;
    }
    return err;
}

static enum err write_result(struct notifier *n, struct place *p, struct fault *f)
{
    bool is_ours;
    uint64_t next_at = world_now_ms() + backoff_ms(&message_backoff, p->notice.tries + 1);
    if (p->result.is_delivered)
        return notice_store_delivered(n->store, &p->notice, me(n), &is_ours, f);
    return notice_store_failed(n->store, &p->notice, me(n), next_at, p->result.error, &is_ours, f);
}

static enum err write_results(struct notifier *n, struct fault *f)
{
    enum err err = ERR_OK;
    for (size_t i = 0; i < n->place_count && err == ERR_OK; i++)
        if (n->places[i].state == PLACE_ENDED) err = write_result(n, &n->places[i], f);
    return err;
}

static enum err write_claims(struct notifier *n, struct fault *f)
{
    enum err err = ERR_OK;
    bool is_ours;
    for (size_t i = 0; i < n->place_count && err == ERR_OK; i++) {
        struct place *p = &n->places[i];
        if (p->state != PLACE_WANTED) continue;
        err = notice_store_claim(n->store, &p->notice, me(n), f);
        if (err == ERR_OK && p->is_gone)
            err = notice_store_delivered(n->store, &p->notice, me(n), &is_ours, f);
    }
    return err;
}

/* The lease is compared in the same transaction: a platform that was thought dead writes nothing
 * but the results of what it had sent. */
static enum err write_as_holder(struct notifier *n, struct fault *f)
{
    uint64_t now_ms = world_now_ms(), given_up = 0;
    const struct offset_move move = {.from = n->kept_next, .to = n->next};
    enum err err = consumer_store_move(n->store, NOTICE_TOPIC, me(n), &move, now_ms, f);
    for (size_t i = 0; i < n->event_count && err == ERR_OK; i++)
        err = take_up(n, &n->events[i], now_ms, f);
    if (err == ERR_OK) err = write_claims(n, f);
    if (err != ERR_OK || monotonic_ms() < n->give_up_ms) return err;
    n->give_up_ms = monotonic_ms() + GIVE_UP_LOOK_MS;
    err = notice_store_give_up(n->store, me(n), now_ms, &given_up, f);
    if (err != ERR_OK || given_up == 0) return err;
    metric_add(n->sheet, METRIC_NOTIFY_DROPPED_AGE, given_up);
    log_text(LOG_WARNING, "notify_given_up", "%llu messages were not delivered in %d hours",
             (unsigned long long)given_up, LIMIT_NOTICE_HOURS);
    return ERR_OK;
}

static enum err write(struct notifier *n, struct fault *f)
{
    enum err err = notice_store_begin(n->store, f);
    if (err != ERR_OK) return err;
    err = write_results(n, f);
    if (err == ERR_OK && n->is_mine) err = write_as_holder(n, f);
    return notice_store_end(n->store, err, f);
}

/* The result is in the store. */
static void settle(struct notifier *n, struct place *p)
{
    const char *name = p->channel->name;
    p->state = PLACE_FREE;
    if (p->result.is_delivered) {
        metric_add(n->sheet, METRIC_NOTIFY_SENT, 1);
        if (p->failures > 0) log_line(LOG_INFO, "notify_delivers", "channel", name, NULL);
        p->failures = p->wait_until_ms = 0;
        return;
    }
    metric_add(n->sheet, METRIC_NOTIFY_FAILED, 1);
    if (p->failures++ == 0)
        log_line(LOG_WARNING, "notify_failed", "channel", name, "why", p->result.error, NULL);
    uint64_t after_s = p->result.retry_after_s, wait_ms = backoff_ms(&channel_backoff, p->failures);
    if (after_s > RETRY_AFTER_MOST_S) after_s = RETRY_AFTER_MOST_S;
    p->wait_until_ms = monotonic_ms() + (after_s * 1000 > wait_ms ? after_s * 1000 : wait_ms);
}

static void written(struct notifier *n)
{
    n->kept_next = n->next;
    n->kept_ms = monotonic_ms() + KEEP_POSITION_MS;
    for (size_t i = 0; i < n->place_count; i++) {
        struct place *p = &n->places[i];
        if (p->state == PLACE_ENDED) {
            settle(n, p);
        } else if (p->state == PLACE_WANTED && p->is_gone) {
            metric_add(n->sheet, METRIC_NOTIFY_DROPPED_AGE, 1);
            p->state = PLACE_FREE;
        } else if (p->state == PLACE_WANTED) {
            send(n, p);
        }
    }
}

/* What ended stays; all else is read again, from the position in the store. */
static void not_written(struct notifier *n, enum err err, const struct fault *f)
{
    if (err == ERR_PRECONDITION_FAILED)
        n->heartbeat_ms = 0; /* another platform may have the lease */
    else
        in_trouble(n, f);
    n->is_mine = false;
    for (size_t i = 0; i < n->place_count; i++)
        if (n->places[i].state == PLACE_WANTED) n->places[i].state = PLACE_FREE;
}

static bool has_ended(const struct notifier *n)
{
    for (size_t i = 0; i < n->place_count; i++)
        if (n->places[i].state == PLACE_ENDED) return true;
    return false;
}

/* Whether more is to be done at once. */
static bool turn(struct notifier *n)
{
    struct fault f = {0};
    bool any = false;
    enum err err = ERR_OK;
    arena_reset(&n->arena);
    n->event_count = 0;
    n->has_more = false;
    if (n->is_mine) err = look_at_events(n, &f);
    if (n->is_mine && err == ERR_OK) err = look_at_places(n, &any, &f);
    bool keeps = n->is_mine && n->next != n->kept_next && monotonic_ms() >= n->kept_ms;
    bool gives_up = n->is_mine && monotonic_ms() >= n->give_up_ms;
    any |= n->event_count > 0 || has_ended(n) || keeps || gives_up;
    if (err == ERR_OK && any) err = write(n, &f);
    if (err != ERR_OK)
        not_written(n, err, &f);
    else if (any)
        written(n);
    return err == ERR_OK && (n->event_count > 0 || n->has_more || has_ended(n));
}

/* ---- the status ---- */

static void put_failing(struct buf *out, const struct notifier_channel *c)
{
    char since[TIME_TEXT];
    time_write(c->oldest_ms, since);
    buf_printf(out, "%s%s: %llu messages wait, the oldest since %.*s; %s",
               out->size > 0 ? "; " : "", c->name, (unsigned long long)c->waiting, TIME_TEXT, since,
               c->error[0] == '\0' ? "the last attempt has not ended" : c->error);
}

static void make_status(struct notifier *n, struct notifier_status *s)
{
    struct buf text = buf_over(s->text, sizeof s->text - 1);
    uint64_t waiting = 0;
    for (size_t i = 0; i < n->place_count; i++) {
        struct notify_channel *c = n->places[i].channel;
        struct notice_status row;
        struct fault f = {0};
        struct notifier_channel *to = &s->channels[s->channel_count++];
        *to = (struct notifier_channel){.name = c->name, .kind = c->kind_word};
        if (notice_store_status(n->store, str_from(c->name), world_now_ms(), &row, &f) != ERR_OK) {
            in_trouble(n, &f);
            break;
        }
        to->waiting = row.count;
        to->tries = row.tries;
        to->oldest_ms = row.oldest_ms;
        snprintf(to->error, sizeof to->error, "%s", row.error);
        waiting += row.count;
        if (row.tries >= DEAD_TRIES) put_failing(&text, to);
    }
    metric_set(n->sheet, METRIC_NOTIFY_WAITING, waiting);
    if (monotonic_ms() < n->unknown_ms)
        buf_printf(&text, "%s%s", text.size > 0 ? "; " : "", n->unknown);
    if (n->trouble[0] != '\0') buf_printf(&text, "%s%s", text.size > 0 ? "; " : "", n->trouble);
    s->text[text.size] = '\0';
    s->is_well = text.size == 0;
}

static void look_at_status(struct notifier *n)
{
    struct notifier_status s = {0};
    if (monotonic_ms() < n->status_ms) return;
    n->status_ms = monotonic_ms() + STATUS_MS;
    make_status(n, &s);
    pthread_mutex_lock(&n->lock);
    n->status = s;
    pthread_mutex_unlock(&n->lock);
}

void notifier_status(struct notifier *n, struct notifier_status *ret)
{
    pthread_mutex_lock(&n->lock);
    *ret = n->status;
    pthread_mutex_unlock(&n->lock);
}

/* ---- life ---- */

static bool is_sending(const struct notifier *n)
{
    for (size_t i = 0; i < n->place_count; i++)
        if (n->places[i].state == PLACE_SENDING) return true;
    return false;
}

/* No further message; those that are under way may end. */
static void finish(struct notifier *n)
{
    struct fault f = {0};
    uint64_t until_ms = monotonic_ms() + STOP_MS;
    n->is_mine = false;
    while (is_sending(n) && monotonic_ms() < until_ms) {
        outbound_work(n->sender, LOOK_MS);
        take_results(n);
        (void)turn(n);
    }
    if (consumer_store_leave(n->store, NOTICE_TOPIC, &n->lease, &f) != ERR_OK)
        log_line(LOG_WARNING, "notify_not_left", "why", f.text, NULL);
}

static void *run(void *context)
{
    struct notifier *n = context;
    while (!atomic_load(&n->stopping)) {
        heartbeat(n);
        take_results(n);
        bool goes_on = turn(n);
        look_at_status(n);
        outbound_work(n->sender, goes_on ? 0 : LOOK_MS);
    }
    finish(n);
    return NULL;
}

static void destroy(struct notifier *n)
{
    outbound_destroy(n->sender);
    for (size_t i = 0; i < n->place_count; i++) arena_fini(&n->places[i].arena);
    arena_fini(&n->arena);
    arena_fini(&n->scratch);
    store_close(n->store);
    lease_fini(&n->lease);
    pthread_mutex_destroy(&n->lock);
    free(n);
}

static struct notifier *create(const struct notifier_options *o)
{
    char owner[LEASE_OWNER_TEXT];
    uint8_t random[LEASE_OWNER_TEXT / 2];
    struct notifier *n = calloc(1, sizeof *n + o->channel_count * sizeof *n->places);
    check(n != NULL && o->channel_count <= CHANNELS_OF_ALL_MAX); /* only at boot */
    memcpy((void *)(uintptr_t)&n->options, o, sizeof *o);
    n->place_count = o->channel_count;
    world_random(random, sizeof random);
    hex_write(owner, random, sizeof random);
    lease_init(&n->lease, owner);
    n->lease.partition_count = 1;
    pthread_mutex_init(&n->lock, NULL);
    n->status.is_well = true;
    n->sheet = metrics_sheet_create();
    arena_init(&n->arena, 64 << 10, ARENA_BYTES);
    arena_init(&n->scratch, 64 << 10, EVENT_ARENA_BYTES);
    for (size_t i = 0; i < n->place_count; i++) {
        n->places[i].channel = &o->channels[i];
        arena_init(&n->places[i].arena, 4 << 10, EVENT_ARENA_BYTES);
    }
    n->sender = outbound_create(n->place_count, o->ca_file);
    check(n->sender != NULL);
    return n;
}

enum err notifier_start(const struct notifier_options *o, struct history *history,
                        struct notifier **ret, struct fault *f)
{
    *ret = NULL;
    struct notifier *n = create(o);
    enum err err = store_open(o->store, true, &n->store, f);
    if (err != ERR_OK) {
        destroy(n);
        return err;
    }
    store_share_history(n->store, history);
    thread_start(&n->thread, "notifier", run, n);
    *ret = n;
    return ERR_OK;
}

void notifier_stop(struct notifier *n)
{
    if (n == NULL) return;
    atomic_store(&n->stopping, true);
    outbound_wake(n->sender);
    pthread_join(n->thread, NULL);
    destroy(n);
}
