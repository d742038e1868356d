#include "shards/actor_table.h"

#include <stdlib.h>

#include "base/buf.h"
#include "base/check.h"

enum { KEY_BYTES_MAX = 4096 };

void actor_table_init(struct actor_table *t, size_t suspended_max)
{
    *t = (struct actor_table){.suspended_max = suspended_max};
    list_init(&t->to_deny);
    wheel_init(&t->wheel, 0);
}

static void actor_free(struct actor *a)
{
    free(a->why);
    free(a);
}

void actor_table_fini(struct actor_table *t)
{
    size_t at = 0;
    struct str key;
    void *value;
    while (map_next(&t->by_name, &at, &key, &value)) actor_free(value);
    for (at = 0; map_next(&t->tenants, &at, &key, &value);) {
        struct actor_tenant *n = value;
        order_fini(&n->suspended);
        free(n);
    }
    map_fini(&t->by_name);
    map_fini(&t->tenants);
    order_spare_fini(&t->spare);
}

void actor_check(const struct actor *a)
{
    check(a->slot < LIMIT_SLOTS);
    check(a->why != NULL);
    check(link_is_on(&a->timer.link) == (a->resumed_ms > 0)); /* a resumed one is forgotten */
    check(!link_is_on(&a->to_deny) || a->resumed_ms == 0);
}

void actor_table_check(const struct actor_table *t)
{
    check(t->suspended <= t->by_name.count);
    check(t->suspended > 0 || list_is_empty(&t->to_deny));
}

static void key_put(struct buf *to, struct str tenant, struct str name)
{
    buf_put(to, tenant);
    buf_put_byte(to, '\0');
    buf_put(to, name);
}

struct actor *actor_find(const struct actor_table *t, struct str tenant, struct str name)
{
    char bytes[KEY_BYTES_MAX];
    struct buf key = buf_over(bytes, sizeof bytes);
    key_put(&key, tenant, name);
    return key.overflow ? NULL : map_get(&t->by_name, buf_view(&key));
}

bool actor_is_suspended(const struct actor_table *t, struct str tenant, struct str name)
{
    if (t->suspended == 0) return false;
    const struct actor *a = actor_find(t, tenant, name);
    return a != NULL && a->resumed_ms == 0;
}

struct actor_tenant *actor_tenant_find(const struct actor_table *t, struct str name)
{
    return map_get(&t->tenants, name);
}

static struct actor_tenant *tenant_take(struct actor_table *t, struct str name)
{
    struct actor_tenant *found = actor_tenant_find(t, name);
    if (found != NULL) return found;
    struct actor_tenant *n = calloc(1, sizeof *n + name.size + 1);
    if (n == NULL) return NULL;
    memcpy(n->bytes, name.bytes, name.size);
    n->name = str_of(n->bytes, name.size);
    if (!map_put(&t->tenants, n->name, n)) {
        free(n);
        return NULL;
    }
    return n;
}

/* The actor of this name, new or existing. NULL: out of memory. */
static struct actor *actor_take(struct actor_table *t, struct str tenant, struct str name)
{
    struct actor *a = actor_find(t, tenant, name);
    if (a != NULL) return a;
    size_t size = tenant.size + 1 + name.size;
    a = size > KEY_BYTES_MAX ? NULL : calloc(1, sizeof *a + size);
    if (a == NULL) return NULL;
    struct buf key = buf_over(a->bytes, size);
    key_put(&key, tenant, name);
    check(key.size == size);
    a->key = buf_view(&key);
    a->facts.tenant = str_of(a->bytes, tenant.size);
    a->facts.actor = str_of(a->bytes + tenant.size + 1, name.size);
    if (!map_put(&t->by_name, a->key, a)) {
        actor_free(a);
        return NULL;
    }
    return a;
}

static void actor_drop(struct actor_table *t, struct actor *a)
{
    check(a->resumed_ms > 0);
    wheel_remove(&t->wheel, &a->timer);
    check(map_remove(&t->by_name, a->key) == a);
    actor_free(a);
}

static struct str text_keep(char *to, struct str text)
{
    if (text.size == 0) return (struct str){0};
    memcpy(to, text.bytes, text.size);
    return str_of(to, text.size);
}

enum err actor_suspend(struct actor_table *t, unsigned slot, const struct actor_facts *f,
                       struct actor **ret)
{
    struct actor_tenant *n = tenant_take(t, f->tenant);
    if (n == NULL || !order_ready(&n->suspended, &t->spare)) return ERR_FULL;
    char *why = malloc(f->reason.size + f->by.size + 1);
    struct actor *a = why == NULL ? NULL : actor_take(t, f->tenant, f->actor);
    if (a == NULL) {
        free(why);
        return ERR_FULL;
    }
    check(a->facts.suspended_ms == 0 || a->resumed_ms > 0);
    wheel_remove(&t->wheel, &a->timer);
    free(a->why);
    a->why = why;
    a->facts.reason = text_keep(why, f->reason);
    a->facts.by = text_keep(why + f->reason.size, f->by);
    a->facts.ordinal = f->ordinal;
    a->facts.suspended_ms = f->suspended_ms;
    a->resumed_ms = 0;
    a->slot = slot;
    struct order_place place = {.ordinal = f->ordinal, .item = a};
    order_put(&n->suspended, &t->spare, &place);
    t->suspended++;
    if (f->ordinal > t->ordinal_max) t->ordinal_max = f->ordinal;
    if (!link_is_on(&a->to_deny)) list_append(&t->to_deny, &a->to_deny);
    actor_check(a);
    actor_table_check(t);
    *ret = a;
    return ERR_OK;
}

void actor_resume(struct actor_table *t, struct actor *a, uint64_t at_ms)
{
    struct actor_tenant *n = actor_tenant_find(t, a->facts.tenant);
    check(a->resumed_ms == 0 && n != NULL);
    actor_check(a);
    check(t->suspended > 0);
    order_remove(&n->suspended, &t->spare, a->facts.ordinal, a);
    link_remove(&a->to_deny);
    a->resumed_ms = at_ms > 0 ? at_ms : 1;
    t->suspended--;
    wheel_add(&t->wheel, &a->timer, a->resumed_ms + ACTOR_REMEMBERED_MS);
    actor_check(a);
    actor_table_check(t);
}

void actor_table_prune(struct actor_table *t, uint64_t now_ms)
{
    struct wheel_entry *due;
    while ((due = wheel_due(&t->wheel, now_ms)) != NULL)
        actor_drop(t, link_owner(due, struct actor, timer));
    actor_table_check(t);
}
