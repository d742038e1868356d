/* evidence_page.c - GET /api/v1/audit/evidence: the evidence of the whole store, page by page, for a
 * verifier (schemas/evidence.md). Streams have records of all tenants, so only keys of every tenant may
 * read it. */
#include "store/evidence_page.h"
#include "store/engine_key.h"

#include "base/limits.h"
#include "base/time.h"
#include "crypto/base64.h"
#include "json/json.h"
#include "platform/platform.h"

struct evidence_detail {
    struct evidence_asked asked;
    struct sha256 key; /* of the MACs of registered keys */
    char names[2 * EVIDENCE_PLACE_TEXT];
};

/* ---- on a reader ---- */

static bool is_registered(void *context, struct str node, struct str journal, struct str public_key,
                          uint64_t distrusted_from, struct str mac)
{
    const struct evidence_detail *d = context;
    char expected[SHA256_HEX];
    return mac.size == sizeof expected &&
           engine_key_mac(&d->key, node, journal, public_key, distrusted_from, expected) &&
           bytes_equal_secret(expected, mac.bytes, sizeof expected);
}

/* The parameters of the next page. */
static void put_place(struct buf *out, const struct evidence_asked *asked,
                      const struct evidence_place *p)
{
    static const char *const parts[] = {"keys", "policies", "streams", "own"};
    char time[TIME_TEXT];
    buf_printf(out, "{\"line\":\"next\",\"part\":\"%s\",\"node\":", parts[p->part]);
    json_put_string(out, p->node);
    buf_put_literal(out, ",\"journal\":");
    json_put_string(out, p->journal);
    buf_printf(out, ",\"seq\":%llu,\"end_seq\":%llu", (unsigned long long)p->seq,
               (unsigned long long)p->last);
    time_write(asked->from_ms, time);
    if (asked->has_from) buf_printf(out, ",\"from\":\"%.*s\"", TIME_TEXT, time);
    time_write(asked->to_ms, time);
    if (asked->has_to) buf_printf(out, ",\"to\":\"%.*s\"", TIME_TEXT, time);
    buf_put_literal(out, "}\n");
}

static void evidence_work(struct job *j, struct store *s)
{
    struct evidence_detail *d = j->detail;
    struct evidence_place next;
    bool more;
    d->asked.check = is_registered;
    d->asked.context = d;
    buf_put_literal(&j->reply, "[\n");
    j->err = evidence_page(s, &d->asked, &j->reply, d->names, &more, &next, &j->fault);
    if (j->err != ERR_OK) {
        buf_clear(&j->reply);
        return;
    }
    if (more)
        put_place(&j->reply, &d->asked, &next);
    else
        j->reply.size -= 2, buf_put_byte(&j->reply, '\n'); /* no comma after the last line */
    buf_put_byte(&j->reply, ']');
}

/* ---- on the reactor ---- */

static void evidence_done(struct job *j)
{
    const struct evidence_asked *asked = &((const struct evidence_detail *)j->detail)->asked;
    char time[TIME_TEXT], text[READ_FILTER_TEXT];
    struct buf filter = buf_over(text, sizeof text);
    uint64_t lines = 0;
    buf_put_literal(&filter, "evidence");
    time_write(asked->from_ms, time);
    if (asked->has_from) buf_printf(&filter, " from=%.*s", TIME_TEXT, time);
    time_write(asked->to_ms, time);
    if (asked->has_to) buf_printf(&filter, " to=%.*s", TIME_TEXT, time);
    for (size_t i = 0; i < j->reply.size; i++)
        if (j->reply.bytes[i] == '\n') lines++;
    if (j->err == ERR_OK) reads_note(j, buf_view(&filter), lines);
    job_answer(j);
}

static enum err name_parameter(struct job *j, const struct http_exchange *x, const char *name,
                               struct str *ret)
{
    struct str value;
    enum err err = http_parameter(x, str_from(name), &value, &j->fault);
    if (err == ERR_OK && value.size > LIMIT_ID_CHARACTERS)
        err = fault_set(&j->fault, ERR_BAD_PARAMETER, "", "%s: is longer than %d bytes", name,
                        LIMIT_ID_CHARACTERS);
    *ret = err == ERR_OK && !str_is_absent(value) ? job_copy(j, value) : STR("");
    return err;
}

static enum err part_parameter(struct job *j, const struct http_exchange *x,
                               enum evidence_part *ret)
{
    static const struct str parts[] = {STR("keys"), STR("policies"), STR("streams"), STR("own")};
    struct str value = {0};
    enum err err = http_parameter(x, STR("part"), &value, &j->fault);
    *ret = EVIDENCE_KEYS;
    if (err != ERR_OK || str_is_absent(value)) return err;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        *ret = (enum evidence_part)i;
        if (str_equal(value, parts[i])) return ERR_OK;
    }
    return fault_set(&j->fault, ERR_BAD_PARAMETER, "",
                     "part: must be keys, policies, streams or own");
}

static enum err number_parameter(struct job *j, const struct http_exchange *x, const char *name,
                                 uint64_t *ret)
{
    struct str value;
    enum err err = http_parameter(x, str_from(name), &value, &j->fault);
    if (err != ERR_OK || str_is_absent(value)) return err;
    if (str_to_u64(value, ret) && *ret <= INT64_MAX / 2) return ERR_OK;
    return fault_set(&j->fault, ERR_BAD_PARAMETER, "", "%s: must be the number of a record", name);
}

static enum err read_place(struct job *j, const struct http_exchange *x, struct evidence_place *ret)
{
    enum err err = part_parameter(j, x, &ret->part);
    if (err == ERR_OK) err = name_parameter(j, x, "node", &ret->node);
    if (err == ERR_OK) err = name_parameter(j, x, "journal", &ret->journal);
    if (err == ERR_OK) err = number_parameter(j, x, "seq", &ret->seq);
    if (err == ERR_OK) err = number_parameter(j, x, "end_seq", &ret->last);
    return err;
}

void evidence_page_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, evidence_work);
    struct evidence_detail *d = job_detail(j, struct evidence_detail);
    struct evidence_asked *asked = &d->asked;
    enum err err = read_place(j, x, &asked->after);
    if (err == ERR_OK) err = audit_time_parameter(j, x, "from", &asked->has_from, &asked->from_ms);
    if (err == ERR_OK) err = audit_time_parameter(j, x, "to", &asked->has_to, &asked->to_ms);
    if (err == ERR_OK && !platform_is_everywhere(p))
        err = fault_set(&j->fault, ERR_WRONG_TENANT, "",
                        "evidence has records of all tenants: only an auditor or admin of tenant * "
                        "may read it");
    d->key = hkdf_once(str_of((const char *)p->pepper.bytes, sizeof p->pepper.bytes), STR(""),
                       STR("writ registered keys of engines 1"));
    j->is_slow = true;
    j->done = evidence_done;
    job_send_if(j, x, err, QUEUE_READER);
}
