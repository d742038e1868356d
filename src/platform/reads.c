#include "platform/reads.h"

#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"
#include "platform/platform.h"
#include "store/own_event.h"

enum { MINUTE_MS = 60000 };

struct recorded_read {
    struct reader reader; /* a copy */
    struct own_event event;
    char reason[READ_REASON_TEXT], client[CLIENT_ADDRESS_TEXT];
};

/* ---- counting ---- */

static void copy_text(char *to, size_t room, struct str text)
{
    snprintf(to, room, "%.*s", STR_FORMAT(str_cut(text, room - 1)));
}

static void add(struct read_filter *to, uint64_t requests, uint64_t events)
{
    to->requests += requests;
    to->events += events;
}

static void add_filter(struct reader *r, struct str text, uint64_t requests, uint64_t events)
{
    for (size_t i = 0; i < r->filter_count; i++)
        if (str_equal(text, str_from(r->filters[i].text))) {
            add(&r->filters[i], requests, events);
            return;
        }
    if (r->filter_count == READ_FILTERS_MAX) {
        add(&r->others, requests, events);
        return;
    }
    struct read_filter *f = &r->filters[r->filter_count++];
    *f = (struct read_filter){.requests = requests, .events = events};
    copy_text(f->text, sizeof f->text, text);
}

static bool is_same(const struct reader *a, const struct reader *b)
{
    return a->minute == b->minute && strcmp(a->key_id, b->key_id) == 0 &&
           strcmp(a->principal, b->principal) == 0 && strcmp(a->tenant, b->tenant) == 0;
}

static struct reader *find(struct reads *all, const struct reader *like)
{
    for (size_t i = 0; i < all->count; i++)
        if (is_same(&all->readers[i], like)) return &all->readers[i];
    return NULL;
}

/* ---- recording ---- */

static void put_filter(struct buf *out, const struct read_filter *f, const char *text)
{
    buf_printf(out, "%s%s (%llu requests, %llu events)", out->size > 0 ? "; " : "", text,
               (unsigned long long)f->requests, (unsigned long long)f->events);
}

static uint64_t requests_of(const struct reader *r)
{
    uint64_t sum = r->others.requests;
    for (size_t i = 0; i < r->filter_count; i++) sum += r->filters[i].requests;
    return sum;
}

static struct str reason_of(const struct reader *r, char to[READ_REASON_TEXT])
{
    struct buf out = buf_over(to, READ_REASON_TEXT);
    for (size_t i = 0; i < r->filter_count; i++)
        put_filter(&out, &r->filters[i], r->filters[i].text);
    if (r->others.requests > 0) put_filter(&out, &r->others, "other filters");
    return buf_view(&out);
}

static void record(struct job *j, struct store *s)
{
    const struct recorded_read *d = j->detail;
    j->err = own_event_store_alone(s, &j->actor, &d->event, &j->fault);
}

/* A record that failed is counted again, if there is room. If the answer to a commit was lost, the same
 * reads can be recorded twice. */
static void recorded(struct job *j)
{
    struct platform *p = j->platform;
    struct reads *all = &p->reads;
    const struct recorded_read *d = j->detail;
    bool failed = j->err != ERR_OK;
    if (failed && all->count < READERS_COUNTED_MAX) all->readers[all->count++] = d->reader;
    if (failed && !all->is_waiting)
        log_line(LOG_ERROR, "audit_read_not_recorded", "why", j->fault.text, NULL);
    all->is_waiting = failed;
    job_destroy(j);
}

static void drop_first(struct reads *all)
{
    all->count--;
    memmove(all->readers, all->readers + 1, all->count * sizeof *all->readers);
}

/* The oldest. False: the queue is full, and it stays. */
static bool record_first(struct platform *p)
{
    struct job *j = job_create(p, NULL, record);
    struct recorded_read *d = job_detail(j, struct recorded_read);
    d->reader = p->reads.readers[0];
    const struct reader *r = &d->reader;
    j->done = recorded;
    j->actor.principal = str_from(r->principal);
    j->actor.key_id = r->key_id[0] == '\0' ? (struct str){0} : str_from(r->key_id);
    j->actor.request_id = str_of(r->request_id, ID_TEXT);
    d->event = (struct own_event){.kind = "audit.read",
                                  .tenant = str_from(r->tenant),
                                  .reason = reason_of(r, d->reason),
                                  .client_address = client_address_text(&r->client, d->client),
                                  .count = requests_of(r)};
    if (!job_queue(j, QUEUE_WRITER)) {
        job_destroy(j);
        return false;
    }
    drop_first(&p->reads);
    return true;
}

void reads_record(struct platform *p)
{
    struct reads *all = &p->reads;
    uint64_t minute = world_now_ms() / MINUTE_MS;
    for (bool more = true; more && all->count > 0; more = !all->is_waiting || p->draining) {
        bool is_over = all->readers[0].minute != minute || p->draining;
        if (!is_over || !record_first(p)) return;
    }
}

void reads_note(struct job *j, struct str filter, uint64_t events)
{
    struct platform *p = j->platform;
    struct reads *all = &p->reads;
    struct reader r = {.minute = j->actor.now_ms / MINUTE_MS};
    copy_text(r.key_id, sizeof r.key_id, j->actor.key_id);
    copy_text(r.principal, sizeof r.principal, j->actor.principal);
    copy_text(r.tenant, sizeof r.tenant, str_is_absent(j->tenant) ? STR("*") : j->tenant);
    struct reader *known = find(all, &r);
    if (known == NULL && all->count == READERS_COUNTED_MAX && !record_first(p)) {
        log_line(LOG_ERROR, "audit_read_not_recorded", "key", r.key_id, "why",
                 "too many keys have read in this minute", NULL);
        return;
    }
    if (known == NULL) {
        known = &all->readers[all->count++];
        *known = r;
    }
    memcpy(known->request_id, j->actor.request_id.bytes, ID_TEXT);
    known->client = j->client;
    add_filter(known, str_cut(filter, READ_FILTER_TEXT - 1), 1, events);
}
