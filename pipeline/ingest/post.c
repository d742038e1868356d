/* post.c - events that people and other systems post: one, an array, or NDJSON; all or nothing.
 *
 * A scan that knows only strings and brackets cuts an array into its elements. Each element must
 * then be a strict JSON object of its own. So the whole body is strict, without a tree of eight
 * megabytes. The exact bytes of each event are stored and compared. */
#include "pipeline/ingest/post.h"

#include "base/limits.h"
#include "json/json.h"
#include "store/key_store.h"
#include "store/store_inside.h"

enum {
    EVENT_ARENA_FIRST = 64 << 10,
    EVENT_ARENA_LIMIT = 16 << 20,
    KEPT_ARENA_FIRST = 64 << 10,
    KEPT_ARENA_LIMIT = 32 << 20, /* of a body of events whose kind is made external */
    POSTED_BYTES_MAX = 4 << 20,  /* a quarter of a million; the body's limit is lower */
    IDEMPOTENT_MS = 24 * 3600 * 1000
};

struct posted { /* an event of the body, in the body's order */
    const char *bytes;
    uint64_t id;
};

struct posting {
    struct store *store;
    const struct audit_store *audit;
    const struct ingest_post *post;
    struct ingest_result *result;
    struct buf ids; /* an array of struct posted */
    size_t settled; /* how many of them taken_after_all() has passed */
    struct fault *fault;
    struct arena arena, kept; /* of the current event; of all events that were changed */
    uint64_t index;           /* of the current event */
    bool is_one;              /* a single object: no index in pointers */
};

static enum err failed(const struct posting *p, enum err err)
{
    return store_fault(p->store, err, p->fault);
}

/* Puts the event's index before the error. */
static enum err event_fault(struct posting *p, const struct fault *why)
{
    if (p->is_one) {
        *p->fault = *why;
        return why->err;
    }
    char field[sizeof why->field + 24];
    struct buf b = buf_over(field, sizeof field - 1);
    buf_printf(&b, "/%llu%s", (unsigned long long)p->index, why->field);
    field[b.size] = '\0';
    return fault_set(p->fault, why->err, field, "event %llu: %s", (unsigned long long)p->index,
                     why->text);
}

static enum err event_store(struct posting *p, struct str bytes, const struct event *event,
                            uint64_t *ret_id)
{
    const struct audit_row row = {.bytes = bytes,
                                  .event = event,
                                  .created_at = p->post->now_ms,
                                  .is_restored =
                                      p->post->restores && !event_kind_is_external(event->kind)};
    enum err err = p->audit->ops->insert(p->audit->state, &row, ret_id);
    if (err == ERR_OK) p->result->accepted++;
    return err;
}

/* The event's key exists: with the same event, with another, or with a dropped one, which is
 * removed. */
static enum err event_again(struct posting *p, struct str bytes, const struct event *event,
                            uint64_t *ret_id)
{
    struct audit_stored stored;
    bool same = false, made_way = false;
    enum err err = p->audit->ops->by_event(p->audit->state, event, &stored);
    if (err == ERR_OK) {
        same = str_equal(stored.bytes, bytes);
        err = p->audit->ops->forget(p->audit->state, stored.id, &made_way);
    }
    if (err == ERR_OK && made_way) err = event_store(p, bytes, event, ret_id);
    if (err != ERR_OK) return failed(p, err == ERR_NOT_FOUND || err == ERR_EXISTS ? ERR_IO : err);
    if (made_way) return ERR_OK;
    if (!same) {
        struct fault why;
        (void)fault_set(&why, ERR_EVENT_CONFLICT, "/event_id",
                        "event_id: %.*s is stored already with other bytes",
                        STR_FORMAT(event->event_id));
        return event_fault(p, &why);
    }
    *ret_id = stored.id;
    p->result->duplicates++;
    return ERR_OK;
}

/* An event that was counted as accepted before the store detected the duplicate. They come in the
 * body's order. */
static enum err taken_after_all(void *posting, const struct audit_source *source, struct str bytes)
{
    struct posting *p = posting;
    struct posted *all = (struct posted *)(void *)p->ids.bytes;
    struct event event;
    struct fault why;
    (void)source;
    while (all[p->settled].bytes != bytes.bytes) p->settled++;
    p->index = p->settled;
    p->result->accepted--;
    arena_reset(&p->arena);
    enum err err = event_read(bytes, &p->arena, &event, &why); /* as it was read before */
    return err == ERR_OK ? event_again(p, bytes, &event, &all[p->settled].id)
                         : event_fault(p, &why);
}

static bool is_ours(struct str kind)
{
    static const struct str families[] = {
        {"audit.", 6}, {"engine.", 7}, {"key.", 4}, {"policy.", 7}};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (str_starts(kind, families[i])) return true;
    return false;
}

/* Puts "external." before the event's kind, in the copy that *bytes becomes. ERR_BAD_VALUE: the kind
 * has an escape, so that it is not a part of the bytes. */
static enum err make_external(struct posting *p, struct str *bytes, struct event *event,
                              struct fault *f)
{
    static const struct str prefix = STR(EVENT_EXTERNAL);
    size_t at = (size_t)(event->kind.bytes - bytes->bytes);
    bool is_inside =
        event->kind.bytes >= bytes->bytes && event->kind.bytes < bytes->bytes + bytes->size;
    if (!is_inside)
        return fault_set(f, ERR_BAD_VALUE, "/kind", "kind: must be written without escapes");
    struct str made = arena_printf(&p->kept, "%.*s%.*s%.*s", (int)at, bytes->bytes,
                                   STR_FORMAT(prefix), (int)(bytes->size - at), bytes->bytes + at);
    if (str_is_absent(made)) return fault_plain(f, ERR_FULL);
    *bytes = made;
    event->kind = str_of(made.bytes + at, prefix.size + event->kind.size);
    return ERR_OK;
}

static enum err event_take(struct posting *p, struct str bytes)
{
    struct event event;
    struct fault why;
    if (p->index == LIMIT_INGEST_LINES) {
        (void)fault_set(&why, ERR_OUT_OF_RANGE, "",
                        "a body has at most %d events; nothing of it was stored. Send it in parts",
                        LIMIT_INGEST_LINES);
        return event_fault(p, &why);
    }
    arena_reset(&p->arena);
    enum err err = event_read_posted(bytes, &p->arena, &event, &why);
    if (err == ERR_OK && !globs_match(p->post->tenants, event.tenant_id))
        err = fault_set(&why, ERR_WRONG_TENANT, "/tenant_id",
                        "tenant_id: this key may not write for tenant %.*s",
                        STR_FORMAT(event.tenant_id));
    if (err == ERR_OK && !p->post->restores && is_ours(event.kind))
        err = fault_set(
            &why, ERR_MISSING_ROLE, "/kind",
            "kind: %.*s is recorded by writ itself; to restore one the key needs the role admin, too",
            STR_FORMAT(event.kind));
    if (err == ERR_OK && !p->post->restores && !event_kind_is_external(event.kind))
        err = make_external(p, &bytes, &event, &why);
    if (err != ERR_OK) return event_fault(p, &why);

    uint64_t id;
    err = event_store(p, bytes, &event, &id);
    if (err == ERR_EXISTS)
        err = event_again(p, bytes, &event, &id);
    else if (err != ERR_OK)
        err = failed(p, err);
    if (err != ERR_OK) return err;
    const struct posted posted = {bytes.bytes, id};
    buf_put(&p->ids, str_of((const char *)&posted, sizeof posted));
    p->index++;
    return p->ids.overflow ? fault_plain(p->fault, ERR_FULL) : ERR_OK;
}

/* ---- the three forms ---- */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static struct str trim(struct str s)
{
    while (s.size > 0 && is_space(s.bytes[0])) s = str_skip(s, 1);
    while (s.size > 0 && is_space(s.bytes[s.size - 1])) s.size--;
    return s;
}

static enum err malformed(struct posting *p, const char *what, size_t at)
{
    return fault_set(p->fault, ERR_MALFORMED_JSON, "", "the body %s at byte %zu", what, at);
}

/* The number of bytes up to the comma or bracket that ends an array's element. */
static size_t element_size(struct str s)
{
    size_t depth = 0, i = 0;
    for (bool in_string = false; i < s.size; i++) {
        char c = s.bytes[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) break;
            depth--;
        } else if (c == ',' && depth == 0) {
            break;
        }
    }
    return i < s.size ? i : s.size;
}

static enum err take_array(struct posting *p, struct str body)
{
    struct str rest = trim(str_skip(body, 1));
    if (rest.size == 1 && rest.bytes[0] == ']') return ERR_OK;
    for (;;) {
        size_t size = element_size(rest);
        if (size == rest.size) return malformed(p, "ends within an array", body.size);
        enum err err = event_take(p, trim(str_of(rest.bytes, size)));
        if (err != ERR_OK) return err;
        char end = rest.bytes[size];
        rest = str_skip(rest, size + 1);
        if (end == ',') continue;
        if (end == ']' && rest.size == 0) return ERR_OK;
        return malformed(p, "is not one array of events", (size_t)(rest.bytes - body.bytes) - 1);
    }
}

static enum err take_lines(struct posting *p, struct str body)
{
    struct str rest = body, line;
    enum err err = ERR_OK;
    while (err == ERR_OK && rest.size > 0 && str_split(&rest, '\n', &line)) {
        line = trim(line);
        if (line.size > 0) err = event_take(p, line);
    }
    return err;
}

static enum err settle(struct posting *p)
{
    p->fault->text[0] = '\0';
    enum err err = p->audit->ops->settle(p->audit->state, taken_after_all, p);
    if (err == ERR_OK || p->fault->text[0] != '\0') return err;
    return failed(p, err);
}

static void put_ids(const struct posting *p, struct buf *out)
{
    const struct posted *all = (const struct posted *)(const void *)p->ids.bytes;
    for (size_t i = 0; i < p->ids.size / sizeof *all; i++) {
        if (i > 0) buf_put_byte(out, ',');
        buf_put_u64(out, all[i].id);
    }
}

static enum err take_body(struct posting *p, struct buf *out)
{
    struct str body = trim(p->post->body);
    p->is_one = !p->post->ndjson && !(body.size > 0 && body.bytes[0] == '[');
    enum err err = p->post->ndjson ? take_lines(p, body)
                   : p->is_one     ? event_take(p, body)
                                   : take_array(p, body);
    if (err == ERR_OK) err = settle(p);
    if (err != ERR_OK) return err;
    if (p->is_one)
        buf_put_literal(out, "{\"id\":");
    else
        buf_printf(out, "{\"accepted\":%llu,\"duplicates\":%llu,\"ids\":[",
                   (unsigned long long)p->result->accepted,
                   (unsigned long long)p->result->duplicates);
    put_ids(p, out);
    buf_put(out, p->is_one ? STR("}") : STR("]}"));
    return out->overflow ? fault_plain(p->fault, ERR_FULL) : ERR_OK;
}

/* ---- Idempotency-Key ---- */

static void bind_identity(const struct posting *p, struct statement *s)
{
    bind_text(s, 1, p->post->tenant);
    bind_text(s, 2, p->post->key_id);
    bind_text(s, 3, p->post->idempotency_key);
}

/* The earlier answer, if there is one. */
static enum err answer_before(struct posting *p, struct str digest, struct buf *out,
                              bool *ret_found)
{
    struct database *d = p->store->database;
    struct statement *s = database_statement(d, "DELETE FROM idempotency WHERE created_at <= ?1");
    bind_u64(s, 1, p->post->now_ms < IDEMPOTENT_MS ? 0 : p->post->now_ms - IDEMPOTENT_MS);
    enum err err = statement_run(s);
    if (err != ERR_OK) return failed(p, err);
    s = database_statement(
        d, "SELECT digest, answer FROM idempotency WHERE tenant_id = ?1 AND key_id = ?2"
           " AND route = 'ingest' AND name = ?3");
    bind_identity(p, s);
    err = statement_step(s);
    *ret_found = err == ERR_OK;
    if (err == ERR_OK && !str_equal(column_text(s, 0), digest))
        err = fault_plain(p->fault, ERR_IDEMPOTENCY_MISMATCH);
    else if (err == ERR_OK)
        buf_put(out, column_text(s, 1));
    else if (err == ERR_END)
        err = ERR_OK;
    else
        (void)failed(p, err);
    statement_reset(s);
    return err;
}

static enum err answer_keep(struct posting *p, struct str digest, struct str answer)
{
    struct statement *s =
        database_statement(p->store->database, "INSERT INTO idempotency (tenant_id, key_id, route, "
                                               "name, digest, status, answer, created_at)"
                                               " VALUES (?1, ?2, 'ingest', ?3, ?4, 201, ?5, ?6)");
    bind_identity(p, s);
    bind_text(s, 4, digest);
    bind_text(s, 5, answer);
    bind_u64(s, 6, p->post->now_ms);
    enum err err = statement_run(s);
    return failed(p, err);
}

static enum err post_take(struct posting *p, struct buf *out)
{
    if (str_is_absent(p->post->idempotency_key)) return take_body(p, out);
    char hex[SHA256_HEX];
    sha256_write_hex(sha256_once(p->post->body), hex);
    struct str digest = str_of(hex, sizeof hex);
    bool found = false;
    size_t before = out->size;
    enum err err = answer_before(p, digest, out, &found);
    if (err != ERR_OK || found) return err;
    err = take_body(p, out);
    return err == ERR_OK ? answer_keep(p, digest, str_skip(buf_view(out), before)) : err;
}

enum err ingest_post(struct store *s, const struct ingest_post *post, struct buf *out,
                     struct ingest_result *ret, struct fault *f)
{
    *ret = (struct ingest_result){0};
    struct posting p = {
        .store = s, .audit = store_audit(s), .post = post, .result = ret, .fault = f};
    enum err err = key_store_begin(s, post->key_id, f);
    if (err != ERR_OK) return err;
    buf_init(&p.ids, 256, POSTED_BYTES_MAX);
    arena_init(&p.arena, EVENT_ARENA_FIRST, EVENT_ARENA_LIMIT);
    arena_init(&p.kept, KEPT_ARENA_FIRST, KEPT_ARENA_LIMIT);
    err = store_end(s, post_take(&p, out), f);
    arena_fini(&p.arena);
    arena_fini(&p.kept);
    buf_fini(&p.ids);
    if (err != ERR_OK) *ret = (struct ingest_result){0};
    return err;
}
