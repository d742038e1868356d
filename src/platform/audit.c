/* audit.c - GET /api/v1/audit and /api/v1/audit/trace/{id}: the recorded events of one tenant.
 *
 * An event is sent with its stored bytes unchanged. Before them stand the members that the store
 * adds (id, source, time of storage) and the members that existing clients expect even without a
 * value. With exact=true the event stands apart, as `event`, and nothing is added to it. Then no
 * client can take an added blank for a member of the record.
 *
 * order=asc starts with the oldest event, in the order of arrival, which is the order of ids. An
 * event that is stored later has a higher id, so a client that keeps the last cursor misses nothing
 * and sees nothing twice. A page also ends at PAGE_BYTES_MAX. If a trace has more than one page,
 * the answer shows it: agents choose their trace ids, and an event behind 500 harmless ones must
 * not look absent. */
#include "store/audit_store.h"

#include "base/limits.h"
#include "base/time.h"
#include "platform/platform.h"

enum {
    TRACE_EVENTS_MAX = LIMIT_TRACE_EVENTS,
    PAGE_BYTES_MAX = 8 << 20,
    EVENT_ARENA_FIRST = 64 << 10,
    EVENT_ARENA_LIMIT = 16 << 20
};

struct audit_detail {
    struct audit_query query;
    uint64_t cursor; /* as in the request */
    bool is_trace, is_exact;
    /* On the reader: */
    struct job *job;
    struct arena arena; /* of the current event */
    uint64_t count, last_id;
    uint64_t own_reads; /* events about reads of the same key */
};

/* ---- on a reader ---- */

static void put_time(struct buf *out, const char *name, uint64_t ms)
{
    char text[TIME_TEXT];
    time_write(ms, text);
    buf_printf(out, "\"%s\":\"%.*s\",", name, TIME_TEXT, text);
}

static void put_source(struct buf *out, const struct audit_source *s)
{
    if (str_is_absent(s->node)) return;
    buf_put_literal(out, "\"source\":{\"epoch\":");
    json_put_string(out, s->epoch);
    buf_put_literal(out, ",\"journal\":");
    json_put_string(out, s->journal);
    buf_put_literal(out, ",\"node\":");
    json_put_string(out, s->node);
    buf_printf(out, ",\"seq\":%llu},", (unsigned long long)s->seq);
}

static void put_blanks(struct buf *out, const struct event *e)
{
    const struct {
        const char *name;
        bool missing;
    } texts[] = {
        {"action", str_is_absent(e->action)},     {"actor", str_is_absent(e->actor)},
        {"decision", str_is_absent(e->decision)}, {"mode", str_is_absent(e->mode)},
        {"reason", str_is_absent(e->reason)},     {"rule", str_is_absent(e->rule)},
        {"trace_id", str_is_absent(e->trace_id)},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].missing) buf_printf(out, "\"%s\":\"\",", texts[i].name);
    if (!e->has_confidence) buf_put_literal(out, "\"confidence\":0,");
    if (!e->has_latency_ms) buf_put_literal(out, "\"latency_ms\":0,");
}

static void put_event(struct audit_detail *d, struct buf *out, struct str bytes)
{
    struct event event;
    arena_reset(&d->arena);
    if (event_read(bytes, &d->arena, &event, NULL) == ERR_OK) put_blanks(out, &event);
    buf_put(out, str_skip(bytes, str_find(bytes, '{') + 1));
}

static void put_exact(struct buf *out, struct str bytes)
{
    buf_put_literal(out, "\"event\":");
    buf_put(out, bytes);
    buf_put_byte(out, '}');
}

/* The query asks for one row more than the page has. That row shows whether more rows follow. */
static bool is_full(const struct audit_detail *d)
{
    bool is_large = d->job->reply.size >= PAGE_BYTES_MAX;
    return d->count == d->query.limit - 1 || is_large;
}

/* Whether it is an event about reads of the caller itself. */
static bool is_own_read(struct audit_detail *d, const struct audit_stored *row)
{
    static const struct str mark = STR("\"kind\":\"audit.read\"");
    struct event e;
    if (!str_is_absent(row->source.node) ||
        memmem(row->bytes.bytes, row->bytes.size, mark.bytes, mark.size) == NULL)
        return false;
    arena_reset(&d->arena);
    return event_read(row->bytes, &d->arena, &e, NULL) == ERR_OK &&
           str_equal(e.kind, STR("audit.read")) && str_equal(e.key_id, d->job->actor.key_id);
}

static bool put_row(void *context, const struct audit_stored *row)
{
    struct audit_detail *d = context;
    struct buf *out = &d->job->reply;
    if (is_full(d)) return false;
    if (d->count++ > 0) buf_put_byte(out, ',');
    if (is_own_read(d, row)) d->own_reads++;
    buf_printf(out, "{\"id\":%llu,", (unsigned long long)row->id);
    put_time(out, "created_at", row->created_at);
    put_source(out, &row->source);
    if (d->is_exact)
        put_exact(out, row->bytes);
    else
        put_event(d, out, row->bytes);
    d->last_id = row->id;
    return true;
}

static void put_end(struct audit_detail *d, bool more)
{
    struct buf *out = &d->job->reply;
    buf_printf(out, "],\"count\":%llu", (unsigned long long)d->count);
    if (d->is_trace) {
        if (more) buf_printf(out, ",\"next_cursor\":%llu", (unsigned long long)d->last_id);
        buf_put_literal(out, ",\"trace_id\":");
        json_put_string(out, d->query.trace_id);
        buf_put_byte(out, '}');
        return;
    }
    buf_printf(out, ",\"cursor\":%llu,\"limit\":%llu,\"next_cursor\":%llu}",
               (unsigned long long)d->cursor, (unsigned long long)d->query.limit - 1,
               (unsigned long long)(more ? d->last_id : 0));
}

/* Counts the row beyond the page without sending it. */
struct page {
    struct audit_detail *detail;
    bool more;
};

static bool page_row(void *context, const struct audit_stored *row)
{
    struct page *page = context;
    page->more = !put_row(page->detail, row);
    return !page->more;
}

static void audit_work(struct job *j, struct store *s)
{
    struct audit_detail *d = j->detail;
    struct audit_store *audit = store_audit(s);
    struct page page = {.detail = d};
    uint64_t begin_ns = world_monotonic_ns();
    d->job = j;
    arena_init(&d->arena, EVENT_ARENA_FIRST, EVENT_ARENA_LIMIT);
    buf_put_literal(&j->reply, "{\"events\":[");
    j->err = audit->ops->query(audit->state, &d->query, page_row, &page);
    arena_fini(&d->arena);
    if (j->err == ERR_OK) {
        put_end(d, page.more);
        metric_observe(j->sheet, HISTOGRAM_QUERY, world_monotonic_ns() - begin_ns);
        return;
    }
    buf_clear(&j->reply);
    if (j->err == ERR_TIMEOUT)
        (void)fault_set(
            &j->fault, ERR_TIMEOUT, "",
            "the query looked at too many events: narrow it by from and to, or by another member");
    else
        (void)fault_plain(&j->fault, j->err);
}

/* ---- on the reactor ---- */

static struct str filter_of(const struct audit_detail *d, char to[READ_FILTER_TEXT])
{
    const struct audit_query *q = &d->query;
    const struct {
        const char *name;
        struct str value;
    } texts[] = {{"actor", q->actor},      {"action", q->action}, {"decision", q->decision},
                 {"kind", q->kind},        {"rule", q->rule},     {"user_id", q->user_id},
                 {"trace_id", q->trace_id}};
    struct buf out = buf_over(to, READ_FILTER_TEXT);
    char time[TIME_TEXT];
    buf_put(&out, d->is_trace ? STR("trace") : STR("query"));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!str_is_absent(texts[i].value))
            buf_printf(&out, " %s=%.*s", texts[i].name, STR_FORMAT(str_cut(texts[i].value, 64)));
    if (q->has_from) {
        time_write(q->from_ms, time);
        buf_printf(&out, " from=%.*s", TIME_TEXT, time);
    }
    if (q->has_to) {
        time_write(q->to_ms, time);
        buf_printf(&out, " to=%.*s", TIME_TEXT, time);
    }
    return buf_view(&out);
}

static void audit_done(struct job *j)
{
    const struct audit_detail *d = j->detail;
    char text[READ_FILTER_TEXT];
    bool has_only_own = d->count > 0 && d->count == d->own_reads;
    if (j->err == ERR_OK && !has_only_own) reads_note(j, filter_of(d, text), d->count);
    job_answer(j);
}

static enum err bad(struct fault *f, const char *name, struct str value, const char *what)
{
    value = str_cut(value, 80);
    return fault_set(f, ERR_BAD_PARAMETER, "", "%s: \"%.*s\" %s", name, STR_FORMAT(value), what);
}

/* A text parameter, copied; an empty one counts as absent. */
static enum err text_parameter(struct job *j, const struct http_exchange *x, const char *name,
                               struct str *ret)
{
    struct str value;
    enum err err = http_parameter(x, str_from(name), &value, &j->fault);
    if (err != ERR_OK || str_is_empty(value)) return err;
    if (str_code_points(value) > LIMIT_ID_CHARACTERS)
        return bad(&j->fault, name, value, "is longer than 256 characters");
    *ret = job_copy(j, value);
    return ERR_OK;
}

/* Digits finer than a millisecond round both bounds up, because events have whole milliseconds. */
static uint64_t finer_digits(struct str text)
{
    size_t dot = str_find(text, '.');
    for (size_t i = dot + 4; i < text.size && text.bytes[i] >= '0' && text.bytes[i] <= '9'; i++)
        if (text.bytes[i] != '0') return 1;
    return 0;
}

enum err audit_time_parameter(struct job *j, const struct http_exchange *x, const char *name,
                              bool *ret_has, uint64_t *ret_ms)
{
    struct str value;
    enum err err = http_parameter(x, str_from(name), &value, &j->fault);
    if (err != ERR_OK || str_is_absent(value)) return err;
    char text[64];
    struct str time = str_of(text, value.size);
    if (value.size < sizeof text) {
        memcpy(text, value.bytes, value.size);
        /* An unencoded plus sign arrives as a blank. In an offset a blank cannot mean anything
         * else. */
        if (value.size > 6 && text[value.size - 6] == ' ') text[value.size - 6] = '+';
    }
    int64_t ms;
    if (value.size >= sizeof text || !time_read_any(time, &ms))
        return bad(&j->fault, name, value, "is not an RFC 3339 time, like 2026-11-20T09:30:00Z");
    *ret_ms = ms < 0 ? 0 : (uint64_t)ms + finer_digits(time); /* no event is from before 1970 */
    *ret_has = true;
    return ERR_OK;
}

static enum err decision_parameter(struct job *j, const struct http_exchange *x, struct str *ret)
{
    static const char *const words[][2] = {{"allow", "allow"},
                                           {"allowed", "allow"},
                                           {"deny", "deny"},
                                           {"denied", "deny"},
                                           {"human_review", "human_review"},
                                           {"compute", "compute"}};
    struct str value = {0};
    enum err err = text_parameter(j, x, "decision", &value);
    if (err != ERR_OK || str_is_absent(value)) return err;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!str_equal(value, str_from(words[i][0]))) continue;
        *ret = str_from(words[i][1]);
        return ERR_OK;
    }
    return bad(&j->fault, "decision", value, "is not one of allow, deny, human_review, compute");
}

static enum err kind_parameter(struct job *j, const struct http_exchange *x, struct str *ret)
{
    enum err err = text_parameter(j, x, "kind", ret);
    if (err != ERR_OK || str_is_absent(*ret) || event_kind_is_known(*ret)) return err;
    return bad(&j->fault, "kind", *ret, "is not a kind of event");
}

static enum err order_parameter(struct job *j, const struct http_exchange *x,
                                struct audit_detail *d)
{
    struct str value = {0};
    enum err err = text_parameter(j, x, "order", &value);
    if (err != ERR_OK) return err;
    d->query.oldest_first = str_equal(value, STR("asc"));
    if (!str_is_absent(value) && !d->query.oldest_first && !str_equal(value, STR("desc")))
        return bad(&j->fault, "order", value, "is not one of asc, desc");
    if (d->query.oldest_first)
        d->query.after_id = d->cursor;
    else
        d->query.before_id = d->cursor;
    return ERR_OK;
}

static enum err read_query(struct job *j, const struct http_exchange *x, struct audit_detail *d)
{
    struct audit_query *q = &d->query;
    enum err err = settle_tenant(j->platform, NULL, &j->fault);
    if (err == ERR_OK) err = text_parameter(j, x, "actor", &q->actor);
    if (err == ERR_OK) err = text_parameter(j, x, "action", &q->action);
    if (err == ERR_OK) err = text_parameter(j, x, "trace_id", &q->trace_id);
    if (err == ERR_OK) err = text_parameter(j, x, "rule", &q->rule);
    if (err == ERR_OK) err = text_parameter(j, x, "user_id", &q->user_id);
    if (err == ERR_OK) err = kind_parameter(j, x, &q->kind);
    if (err == ERR_OK) err = decision_parameter(j, x, &q->decision);
    if (err == ERR_OK) err = audit_time_parameter(j, x, "from", &q->has_from, &q->from_ms);
    if (err == ERR_OK) err = audit_time_parameter(j, x, "to", &q->has_to, &q->to_ms);
    if (err == ERR_OK) err = api_page(x, &q->limit, &d->cursor, &j->fault);
    if (err == ERR_OK) err = order_parameter(j, x, d);
    if (err == ERR_OK) err = api_flag(x, STR("exact"), &d->is_exact, &j->fault);
    q->limit++; /* one more, to find out whether a page follows */
    q->tenant = j->tenant;
    return err;
}

void audit_query_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, audit_work);
    j->is_slow = true;
    j->done = audit_done;
    struct audit_detail *d = job_detail(j, struct audit_detail);
    job_send_if(j, x, read_query(j, x, d), QUEUE_READER);
}

void audit_trace_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, audit_work);
    j->is_slow = true;
    j->done = audit_done;
    struct audit_detail *d = job_detail(j, struct audit_detail);
    enum err err = settle_tenant(p, NULL, &j->fault);
    d->is_trace = true;
    d->query = (struct audit_query){.tenant = j->tenant,
                                    .trace_id = job_copy(j, x->params[0]),
                                    .oldest_first = true,
                                    .limit = TRACE_EVENTS_MAX + 1};
    if (err == ERR_OK && x->params[0].size > LIMIT_TRACE_ID_BYTES)
        err = fault_set(&j->fault, ERR_NOT_FOUND, "", "a trace id has at most %d characters",
                        LIMIT_TRACE_ID_BYTES);
    job_send_if(j, x, err, QUEUE_READER);
}
