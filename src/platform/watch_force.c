/* watch_force.c - see watch_scan.h: what is in force, and putting in force.
 *
 * What is in force is compared with what was read whenever the store's revision is another one than
 * at the last look: other platforms and the command line write to the same store, and it may be a
 * restored one.
 *
 *   in force is              then the file
 *   its text                 is left alone
 *   nothing, or no file's    is put again
 *   another text of a file   is put again where the store is older than when that was done last (a
 *                            restored one), else told: another platform's directory differs, and two
 *                            that overwrote each other would do so for ever
 *
 * Which directory a policy came from is kept beside it, since only that one's lost file
 * may delete it: a platform that starts over an older copy would take away what another
 * one has newly put there. */
#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "platform/watch.h"
#include "platform/watch_scan.h"

enum { ROWS_MAX = 2 * LIMIT_POLICIES_PER_TENANT, TOLD_MAX = 3 };

/* Policies of other tenants, while they are counted. */
struct counting {
    struct watch_elsewhere *into;
    size_t count;
    struct buf names; /* of the first TOLD_MAX */
    char bytes[TOLD_MAX * (POLICY_NAME_MAX + 2) + 1];
};

struct elsewhere {
    struct str directory;
    struct counting here, abroad; /* from this directory; from others */
};

/* ---- reading ---- */

static void keep_row(void *context, const struct policy_row *row)
{
    struct watch_scan *s = context;
    if (s->row_count == ROWS_MAX || row->name.size > POLICY_NAME_MAX) return;
    struct watch_row *r = &s->rows[s->row_count++];
    memcpy(r->name, row->name.bytes, row->name.size);
    if (row->digest.size == SHA256_HEX) memcpy(r->digest, row->digest.bytes, SHA256_HEX);
    r->is_of_file = str_equal(row->updated_by, STR(FILES_PRINCIPAL));
    r->is_of_here = r->is_of_file && str_equal(row->directory, s->directory);
    r->is_active = row->is_active;
    r->revision = row->revision;
}

static const struct watch_row *find_row(const struct watch_scan *s, const char *name)
{
    size_t low = 0, high = s->row_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(s->rows[middle].name, name);
        if (order == 0) return &s->rows[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static struct watch_owned *find_owned(struct watch_known *k, const char *name)
{
    for (size_t i = 0; i < k->owned_count; i++)
        if (strcmp(k->owned[i].name, name) == 0) return &k->owned[i];
    return NULL;
}

static void add_owned(struct watch_known *k, const char *name)
{
    if (k->owned_count == ROWS_MAX || find_owned(k, name) != NULL) return;
    memcpy(k->owned[k->owned_count++].name, name, strlen(name) + 1);
}

/* What the store says is owned, with what is known of it. */
static void own_rows(struct watch_scan *s)
{
    struct watch_known *k = &s->after;
    for (size_t i = 0; i < s->row_count; i++)
        if (s->rows[i].is_of_here)
            memcpy(k->owned[k->owned_count++].name, s->rows[i].name, sizeof s->rows[i].name);
    for (size_t i = 0; i < s->before.owned_count; i++) {
        const struct watch_owned *o = &s->before.owned[i];
        struct watch_owned *same = o->gone_ms == 0 ? NULL : find_owned(k, o->name);
        if (same != NULL) same->gone_ms = o->gone_ms;
    }
}

static void keep_elsewhere(void *context, const struct policy_row *row)
{
    struct elsewhere *e = context;
    struct counting *c = str_equal(row->directory, e->directory) ? &e->here : &e->abroad;
    if (c->count++ == 0 && row->tenant.size < sizeof c->into->tenant)
        memcpy(c->into->tenant, row->tenant.bytes, row->tenant.size);
    if (c->count <= TOLD_MAX)
        buf_printf(&c->names, "%s%.*s", c->count == 1 ? "" : ", ", STR_FORMAT(row->name));
}

static void count_into(struct counting *c, struct watch_elsewhere *into)
{
    c->into = into;
    c->names = buf_over(c->bytes, sizeof c->bytes);
}

/* What the directory has put in force while policies.tenant was another: its files change that no
 * more, so it would go on allowing what they no longer say. */
static void tell_elsewhere(const struct counting *c)
{
    if (c->count == 0) return;
    snprintf(c->into->text, sizeof c->into->text,
             "%zu polic%s in force from this directory in another tenant, where no file changes "
             "%s: %.*s%s; set policies.tenant back, or DELETE %s there",
             c->count, c->count == 1 ? "y is" : "ies are", c->count == 1 ? "it" : "them",
             STR_FORMAT(buf_view(&c->names)), c->count > TOLD_MAX ? ", …" : "",
             c->count == 1 ? "it" : "them");
}

/* The same where policies.dir was another as well. It may as well be the work of another platform,
 * which is well. */
static void tell_abroad(const struct counting *c)
{
    if (c->count == 0) return;
    snprintf(c->into->text, sizeof c->into->text,
             "%zu polic%s in force from another directory in another tenant: %.*s%s; where no "
             "platform has that directory and tenant any more, no file changes %s: DELETE %s there",
             c->count, c->count == 1 ? "y is" : "ies are", STR_FORMAT(buf_view(&c->names)),
             c->count > TOLD_MAX ? ", …" : "", c->count == 1 ? "it" : "them",
             c->count == 1 ? "it" : "them");
}

static enum err find_elsewhere(struct watch_scan *s, struct store *store, struct fault *f)
{
    struct elsewhere e = {.directory = s->directory};
    count_into(&e.here, &s->after.elsewhere);
    count_into(&e.abroad, &s->after.abroad);
    enum err err =
        policy_store_rows_elsewhere(store, s->tenant, STR(FILES_PRINCIPAL), keep_elsewhere, &e, f);
    if (err != ERR_OK) return err;
    tell_elsewhere(&e.here);
    tell_abroad(&e.abroad);
    return ERR_OK;
}

bool watch_compare(struct watch_scan *s, struct store *store)
{
    struct watch_known *k = &s->after;
    struct fault f;
    k->owned = calloc(ROWS_MAX, sizeof *k->owned);
    check(k->owned != NULL);
    enum err err = store_revision(store, &k->revision, &f);
    bool same = k->revision == s->before.revision && !s->before.is_stale;
    if (err == ERR_OK && !same) {
        s->rows = calloc(ROWS_MAX, sizeof *s->rows);
        check(s->rows != NULL);
        err = policy_store_rows(store, s->tenant, keep_row, s, &f);
        if (err == ERR_OK) err = find_elsewhere(s, store, &f);
    }
    s->is_compared = err == ERR_OK && !same;
    if (s->is_compared) {
        own_rows(s);
        return true;
    }
    k->elsewhere = s->before.elsewhere;
    k->abroad = s->before.abroad;
    for (size_t i = 0; i < s->before.owned_count; i++)
        k->owned[k->owned_count++] = s->before.owned[i];
    if (err == ERR_OK) return true;
    k->revision = s->before.revision;
    snprintf(k->failure, sizeof k->failure, "the store cannot be read: %.300s", f.text);
    return false;
}

enum watch_match watch_match(const struct watch_scan *s, const struct watch_file *f)
{
    if (!s->is_compared) return f->is_overridden ? WATCH_OVERRIDDEN : WATCH_IN_FORCE;
    const struct watch_row *row = find_row(s, f->name);
    if (row == NULL || !row->is_of_file || !row->is_active) return WATCH_MISSING;
    if (memcmp(row->digest, f->digest, SHA256_HEX) == 0) return WATCH_IN_FORCE;
    return row->revision > f->revision ? WATCH_OVERRIDDEN : WATCH_MISSING;
}

/* ---- putting in force ---- */

static void log_change(const struct policy_step *p, const struct watch_load *l)
{
    char version[24];
    snprintf(version, sizeof version, "%llu", (unsigned long long)p->result.version);
    if (p->result.effect == POLICY_UNCHANGED) return;
    log_line(LOG_INFO, "policy_file_in_force", "policy", l->name, "effect",
             policy_effect_name(p->result.effect), "version", version, NULL);
}

static void take(struct watch_scan *s, const struct policy_step *p, const struct watch_load *l)
{
    struct watch_known *k = &s->after;
    struct watch_owned *owned = find_owned(k, l->name);
    log_change(p, l);
    if (p->result.revision > k->revision) k->revision = p->result.revision;
    if (!p->deletes) {
        k->files[l->file].revision = p->result.revision;
        add_owned(k, l->name);
        return;
    }
    if (owned != NULL) *owned = k->owned[--k->owned_count];
    /* Another directory has taken it, which moves no revision: the next
     * look tells whether it stays. */
    s->again |= p->result.effect != POLICY_DELETED;
}

void watch_scan_refuse(struct watch_scan *s, const char *why)
{
    for (size_t i = 0; i < s->step_count; i++) {
        size_t file = s->loads[i].file;
        s->steps[i].result = (struct policy_result){0};
        if (file != SIZE_MAX)
            s->after.files[file].is_read = s->after.files[file].has_reading = false;
    }
    snprintf(s->after.failure, sizeof s->after.failure, "changes cannot be stored: %.300s", why);
    s->after.is_complete = s->before.is_complete;
}

enum err watch_scan_apply(struct watch_scan *s, struct store *store, const struct actor *by,
                          struct fault *f)
{
    if (s->step_count == 0) return ERR_OK;
    struct policy_batch batch = {.steps = s->steps, .count = s->step_count};
    enum err err = policy_store_apply(store, &batch, by, f);
    if (err != ERR_OK) {
        watch_scan_refuse(s, f->text);
        return err;
    }
    for (size_t i = 0; i < s->step_count; i++) take(s, &s->steps[i], &s->loads[i]);
    /* What others did in the meantime is not known, and what was a stranger may be one no more. */
    s->after.is_stale = true;
    s->again |= s->after.strangers[0] != '\0';
    return ERR_OK;
}
