/* ingest.c - POST /api/v1/audit/ingest and GET /api/v1/audit/positions.
 *
 * A batch is copied once, from the connection to the job, because the client may disconnect while
 * the writer reads it. From there to the store it is read in place. The headers select one of two
 * kinds of ingest: an engine names its stream. */
#include "pipeline/ingest/post.h"

#include <stdlib.h>

#include "base/limits.h"
#include "platform/platform.h"

struct ingest_detail {
    bool is_stream;
    struct ingest_batch batch;
    struct ingest_post post;
    struct globs tenants; /* a copy of the key's globs */
};

/* ---- on the writer ---- */

static void count_result(struct job *j, const struct ingest_result *r, uint64_t begin_ns)
{
    metric_add(j->sheet, METRIC_INGEST_EVENTS, r->accepted);
    metric_add(j->sheet, METRIC_INGEST_DUPLICATES, r->duplicates);
    metric_add(j->sheet, METRIC_INGEST_CLASHES, r->clashes);
    metric_add(j->sheet, METRIC_INGEST_INVALID, r->invalid);
    metric_add(j->sheet, METRIC_CHECKPOINTS_TRUSTED, r->checkpoints_trusted);
    metric_add(j->sheet, METRIC_CHECKPOINTS_UNTRUSTED, r->checkpoints_untrusted);
    metric_add(j->sheet, METRIC_CHECKPOINTS_REFUSED, r->checkpoints_refused);
    if (j->err == ERR_BAD_MAC) metric_add(j->sheet, METRIC_INGEST_UNAUTHENTICATED, 1);
    if (j->err == ERR_STREAM_GAP) metric_add(j->sheet, METRIC_INGEST_GAPS, 1);
    if (j->err == ERR_OK)
        metric_observe(j->sheet, HISTOGRAM_INGEST, world_monotonic_ns() - begin_ns);
}

static void put_stream_result(struct job *j, const struct ingest_result *r)
{
    if (j->err == ERR_OK)
        buf_printf(&j->reply,
                   "{\"accepted\":%llu,\"clashes\":%llu,\"duplicates\":%llu,\"next_seq\":%llu}",
                   (unsigned long long)r->accepted, (unsigned long long)r->clashes,
                   (unsigned long long)r->duplicates, (unsigned long long)r->next_seq);
    else if (j->err == ERR_STREAM_GAP ||
             j->err == ERR_EPOCH_UNKNOWN) /* next to the error's own members */
        buf_printf(&j->reply, ",\"want_from\":%llu", (unsigned long long)r->next_seq);
}

static void ingest_work(struct job *j, struct store *s)
{
    struct ingest_detail *d = j->detail;
    struct ingest_result result = {0};
    uint64_t begin_ns = world_monotonic_ns();
    j->status = 201;
    if (d->is_stream) {
        j->err = ingest_stream(s, &d->batch, &result, &j->fault);
        put_stream_result(j, &result);
    } else {
        j->err = ingest_post(s, &d->post, &j->reply, &result, &j->fault);
        if (j->err != ERR_OK) buf_clear(&j->reply);
    }
    count_result(j, &result, begin_ns);
}

/* ---- on the reactor ---- */

static struct str stream_header(struct job *j, const struct http_exchange *x, const char *name,
                                enum err *err)
{
    struct str value = http_header_get(x, str_from(name));
    if (str_is_absent(value) && *err == ERR_OK)
        *err = fault_set(&j->fault, ERR_BAD_HEADER, "",
                         "%s: is missing; a stream needs Writ-Node, Writ-Journal, "
                         "Writ-Epoch and Writ-First-Seq",
                         name);
    return job_copy(j, value);
}

static enum err read_stream(struct job *j, struct ingest_detail *d, const struct http_exchange *x)
{
    enum err err = ERR_OK;
    d->is_stream = true;
    d->batch = (struct ingest_batch){.body = str_of(j->body, j->body_size),
                                     .tenants = &d->tenants,
                                     .key_id = j->actor.key_id,
                                     .now_ms = j->actor.now_ms,
                                     .holds_newer = true};
    d->batch.node = stream_header(j, x, "Writ-Node", &err);
    d->batch.journal = stream_header(j, x, "Writ-Journal", &err);
    d->batch.epoch = stream_header(j, x, "Writ-Epoch", &err);
    struct str first = stream_header(j, x, "Writ-First-Seq", &err);
    d->batch.mac = job_copy(j, http_header_get(x, STR("writ-mac")));
    d->batch.checkpoint.note = job_copy(j, http_header_get(x, STR("writ-checkpoint")));
    d->batch.checkpoint.frontier = job_copy(j, http_header_get(x, STR("writ-frontier")));
    if (!str_to_u64(http_header_get(x, STR("writ-from-seq")), &d->batch.checkpoint.from_seq))
        d->batch.checkpoint.from_seq = 0;
    if (err == ERR_OK && !str_to_u64(first, &d->batch.first_seq))
        err = fault_set(&j->fault, ERR_BAD_HEADER, "", "Writ-First-Seq: must be a whole number");
    return err == ERR_OK ? platform_check_node(j->platform, d->batch.node, &j->fault) : err;
}

static bool is_ndjson(const struct http_exchange *x)
{
    struct str type = http_header_get(x, STR("content-type"));
    struct str ndjson = STR("application/x-ndjson");
    return type.size >= ndjson.size &&
           str_equal_ignoring_case(str_of(type.bytes, ndjson.size), ndjson);
}

static enum err read_post(struct job *j, struct ingest_detail *d, const struct http_exchange *x)
{
    d->post = (struct ingest_post){.body = str_of(j->body, j->body_size),
                                   .ndjson = is_ndjson(x),
                                   .tenants = &d->tenants,
                                   .restores = (j->platform->caller.key->roles & ROLE_ADMIN) != 0,
                                   .now_ms = j->actor.now_ms,
                                   .key_id = j->actor.key_id,
                                   .tenant = job_copy(j, j->platform->caller.key->tenant),
                                   .idempotency_key =
                                       job_copy(j, http_header_get(x, STR("idempotency-key")))};
    size_t bad;
    struct str key = d->post.idempotency_key;
    if (!str_is_absent(key) &&
        (key.size == 0 || key.size > LIMIT_ID_CHARACTERS || !str_is_utf8(key, &bad)))
        return fault_set(&j->fault, ERR_BAD_HEADER, "", "Idempotency-Key: must be 1 to %d bytes",
                         LIMIT_ID_CHARACTERS);
    return ERR_OK;
}

static bool names_a_stream(const struct http_exchange *x)
{
    static const char *const headers[] = {"writ-node", "writ-journal", "writ-epoch",
                                          "writ-first-seq"};
    for (size_t i = 0; i < 4; i++)
        if (!str_is_absent(http_header_get(x, str_from(headers[i])))) return true;
    return false;
}

static enum err read_ingest(struct job *j, struct ingest_detail *d, const struct http_exchange *x)
{
    /* Check the room first: a body that will be refused need not be copied. */
    if (!work_has_room(j->platform->work, QUEUE_WRITER, x->body.size))
        return fault_set(&j->fault, ERR_OVERLOADED, "",
                         "too many batches wait for the store: try again later");
    j->body = malloc(x->body.size + 1);
    if (j->body == NULL) return fault_plain(&j->fault, ERR_OVERLOADED);
    if (x->body.size > 0) memcpy(j->body, x->body.bytes, x->body.size);
    j->body_size = x->body.size;
    if (!job_copy_globs(j, &j->platform->caller.key->tenants, &d->tenants))
        return fault_plain(&j->fault, ERR_FULL);
    return names_a_stream(x) ? read_stream(j, d, x) : read_post(j, d, x);
}

void ingest_handle(void *context, struct http_exchange *x)
{
    struct job *j = job_create(context, x, ingest_work);
    struct ingest_detail *d = job_detail(j, struct ingest_detail);
    job_send_if(j, x, read_ingest(j, d, x), QUEUE_WRITER);
}

/* ---- positions ---- */

/* An engine reads at most 64 KiB. An engine from before the parameter `journal` needs its own
 * journal first. */
enum { POSITIONS_BYTES_FULL = 48 << 10 };

static void put_stream(void *context, const struct audit_stream *s)
{
    struct buf *out = context;
    if (out->size > POSITIONS_BYTES_FULL) return;
    if (out->bytes[out->size - 1] == '}') buf_put_byte(out, ',');
    buf_put_literal(out, "{\"epoch\":");
    json_put_string(out, s->epoch);
    buf_put_literal(out, ",\"journal\":");
    json_put_string(out, s->journal);
    buf_printf(out, ",\"next_seq\":%llu", (unsigned long long)s->next_seq);
    if (s->replay != 0) buf_printf(out, ",\"replay\":%llu", (unsigned long long)s->replay);
    buf_printf(out, ",\"want_from\":%llu}", (unsigned long long)s->next_seq);
}

struct positions_asked {
    struct str node, journal; /* journal absent: all journals */
};

static void positions_work(struct job *j, struct store *s)
{
    const struct positions_asked *asked = j->detail;
    struct audit_store *audit = store_audit(s);
    buf_printf(&j->reply, "{\"log_id\":\"%s\",\"streams\":[", store_log_id(s));
    j->err =
        audit->ops->streams_of(audit->state, asked->node, asked->journal, put_stream, &j->reply);
    if (j->err == ERR_OK) {
        buf_put_literal(&j->reply, "]}");
    } else {
        (void)fault_plain(&j->fault, j->err);
        buf_clear(&j->reply);
    }
}

void positions_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct fault f;
    struct str node, journal = {0};
    enum err err = http_parameter(x, STR("node"), &node, &f);
    if (err == ERR_OK) err = http_parameter(x, STR("journal"), &journal, &f);
    if (err == ERR_OK && (node.size == 0 || node.size > LIMIT_ID_CHARACTERS))
        err = fault_set(&f, ERR_BAD_PARAMETER, "",
                        "node: must be the name of an engine, 1 to %d bytes", LIMIT_ID_CHARACTERS);
    if (err == ERR_OK && !str_is_absent(journal) &&
        (journal.size == 0 || journal.size > LIMIT_ID_CHARACTERS))
        err =
            fault_set(&f, ERR_BAD_PARAMETER, "",
                      "journal: must be the name of a journal, 1 to %d bytes", LIMIT_ID_CHARACTERS);
    if (err == ERR_OK) err = platform_check_node(p, node, &f);
    if (platform_failed(p, x, err, &f)) return;
    struct job *j = job_create(p, x, positions_work);
    *job_detail(j, struct positions_asked) =
        (struct positions_asked){job_copy(j, node), job_copy(j, journal)};
    job_send(j, x, QUEUE_READER);
}
