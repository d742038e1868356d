/* suspension.c - GET /api/v1/suspensions: which actors are suspended. For an engine that is new, and
 * for people who audit. */
#include "store/suspension.h"

#include "platform/platform.h"

struct detail {
    struct suspension_page page;
    struct globs tenants;
};

static void list_work(struct job *j, struct store *s)
{
    const struct detail *d = j->detail;
    j->err = suspension_list(s, &d->page, &j->reply, &j->fault);
    if (j->err != ERR_OK) buf_clear(&j->reply);
}

/* A key with the role ingest reads the tenants that it may write for, and a person one tenant. */
static enum err read_tenants(struct job *j, struct detail *d, const struct http_exchange *x)
{
    struct platform *p = j->platform;
    const struct key *k = p->caller.key;
    if ((k->roles & ROLE_INGEST) == 0) {
        enum err err = settle_tenant(p, NULL, &j->fault);
        d->page.tenant = job_copy(j, p->caller.tenant);
        return err;
    }
    d->page.tenants = &d->tenants;
    if (!job_copy_globs(j, &k->tenants, &d->tenants)) return fault_plain(&j->fault, ERR_FULL);
    struct str asked;
    enum err err = http_parameter(x, STR("tenant_id"), &asked, &j->fault);
    if (err == ERR_OK && !str_is_absent(asked)) d->page.tenant = job_copy(j, asked);
    return err;
}

void suspension_list_handle(void *context, struct http_exchange *x)
{
    struct platform *p = context;
    struct job *j = job_create(p, x, list_work);
    struct detail *d = job_detail(j, struct detail);
    /* the lane of an engine's bundle: an engine that waits for this lets no agent in */
    j->is_vital = (p->caller.key->roles & ROLE_INGEST) != 0;
    enum err err = api_page(x, &d->page.limit, &d->page.cursor, &j->fault);
    if (err == ERR_OK) err = api_flag(x, STR("open"), &d->page.open, &j->fault);
    if (err == ERR_OK) err = read_tenants(j, d, x);
    job_send_if(j, x, err, QUEUE_READER);
}
